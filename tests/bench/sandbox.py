#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/sandbox.py BUILD [GROUP...] - rows that need daemons, an image and sandboxes

Starts a keeper and a cayd of its own (tests/lib/cay.py), lets build/tests/bench/client
hold the clock, and prints a JSON line per row for dev/bench.  Ours and the baseline
take turns in small rounds, so that whatever else the machine does hits both.
CAY_FULL=1 measures at the sizes the goals are for.

    cold_create   create to the first byte of a command, against crun alone
    stop_start    start of a stopped sandbox to the first byte of a command, against cold_create
    doze_wake     a command in a sandbox that dozes, against a thaw by hand and the same command
    fork_100      a hundred forks of a sandbox that runs, in one request, against a hundred creates in one
    docker        cold_create against the Docker engine
    exec_rtt      a command in a sandbox that is there, against a process on the host
    edge_exec     the same through an edge, against straight to PID 1: what the edge adds
    shell_rtt     a command in a shell that is open, through an edge, against one without a shell
    scale         create_at_N, density: with many alive; then that nothing is left
    cycles        create, exec, delete again and again (CAY_CYCLES=N): nothing grows and nothing slows down
    tree_10k      10,000 small files in and out as one tar, against one request each
    list_10000    pages of a list with thousands of sandboxes that ended
"""
import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "attack"))
import calibrate  # noqa: E402
import journal  # noqa: E402
import machine  # noqa: E402
from cay import Cay, layout_of, wait_for  # noqa: E402
from world import World  # noqa: E402

FULL = os.environ.get("CAY_FULL") == "1"
IMAGE = "base"
LAYOUT = pathlib.Path("build/images", IMAGE)
CLIENTS = 4  # create and delete in parallel, where nobody holds the clock
STEP = 500   # sandboxes between two looks at the memory that is left
KEPT_EVENTS = 16384  # src/cayd/observe/event.h
MOST, LEAST_FREE_KIB = 12000, 1536 * 1024


def percentile(samples, p):
    return sorted(samples)[min(len(samples) - 1, len(samples) * p // 100)]


def ms(samples, p=50):
    return round(percentile(samples, p) / 1e6, 3)


def say(**row):
    print(json.dumps(row), flush=True)


def timed(name, samples, baseline_name, baseline, note):
    say(name=name, unit="ms", n=len(samples), **{f"p{p}": ms(samples, p) for p in (50, 95, 99)},
        baseline={"name": baseline_name, "p50": ms(baseline)}, note=note)


class Bench:
    def __init__(self, build, cay):
        self.programs, self.cay, self.ids = pathlib.Path(build).resolve() / "tests/bench", cay, []
        self.build = build
        with layout_of(LAYOUT) as tar:
            cay.image_import(IMAGE, tar)
        self.digest = next((cay.state / "images/sha256").iterdir()).name

    # -- programs with a clock

    def start(self, *args):
        return subprocess.Popen([self.programs / "client", *map(str, args)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)

    def client(self, *args, ids=()):
        process = self.start(*args)
        out, _ = process.communicate("".join(f"{i}\n" for i in ids))
        if process.returncode:
            raise RuntimeError(f"client {args[0]}: see above")
        return json.loads(out)

    def parallel(self, *args, shares):
        """One client for each share: (more arguments, ids)."""
        started = [(self.start(*args, *more), ids) for more, ids in shares]
        for process, ids in started:  # small enough for a pipe, so nobody waits for the others
            process.stdin.write("".join(f"{i}\n" for i in ids))
            process.stdin.close()
        out = [process.stdout.read() for process, _ in started]
        for process, _ in started:
            process.wait()
        if any(process.returncode for process, _ in started):
            raise RuntimeError(f"client {args[0]}: see above")
        return [json.loads(o) for o in out]

    def cold(self, n):
        return self.client("cold", self.cay.socket, IMAGE, n)

    def crun(self, n):
        """What crun alone takes; its cgroup is below ours and goes with it."""
        with tempfile.TemporaryDirectory(dir=self.cay.state) as work:
            done = subprocess.run([self.programs / "bare-crun", self.cay.state, self.digest, self.cay.init,
                                   self.cay.cgroup, work, str(n)], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)["ns"]

    # -- many sandboxes

    def fill(self, size):
        """Have so many alive; why not, when it cannot be done."""
        more = size - len(self.ids)
        shares = [((more * (i + 1) // CLIENTS - more * i // CLIENTS,), ()) for i in range(CLIENTS)]
        why = None
        for got in self.parallel("fill", self.cay.socket, IMAGE, shares=[s for s in shares if s[0][0]]):
            self.ids += got["ids"]
            why = why or got["stopped"]
        return why

    def each_answers(self):
        return [ns for got in self.parallel("exec", self.cay.run / "box", 1,
                                            shares=[((), self.ids[i::CLIENTS]) for i in range(CLIENTS)])
                for ns in got["ns"]]

    def empty(self):
        ids, self.ids = self.ids, []
        return [ns for got in self.parallel("empty", self.cay.socket,
                                            shares=[((), ids[i::CLIENTS]) for i in range(CLIENTS)])
                for ns in got["ns"]]


def cold_create(b):
    rounds, n = (20, 10) if FULL else (8, 5)
    ours, created, bare = [], [], []
    b.cold(2)
    b.crun(2)
    for _ in range(rounds):
        got = b.cold(n)
        ours += got["ns"]
        created += got["create_ns"]
        bare += b.crun(n)
    timed("cold_create", ours, "crun run of the same bundle", bare,
          f"create to first byte of echo; create alone {ms(created)} ms; goal ratio 1.6")


def stop_start(b):
    rounds, n = (20, 10) if FULL else (8, 5)
    ours, stops, cold = [], [], []
    b.cold(2)
    for _ in range(rounds):
        got = b.client("again", b.cay.socket, IMAGE, n)
        ours += got["ns"]
        stops += got["stop_ns"]
        cold += b.cold(n)["ns"]
    timed("stop_start", ours, "cold_create of the same run", cold,
          f"start of a stopped sandbox to first byte of echo; the stop before it {ms(stops)} ms; goal ratio 1.1")


def doze_wake(b):
    """Both commands go through the same edge; the one by hand thaws the cgroup first, as cay-keeper does."""
    n, rounds = (40, 25) if FULL else (20, 3)
    ours, hand = [], []
    with World(b.build) as world:
        own, door = Bench(b.build, world), world.door()
        sleepy = [world.create(IMAGE, pause_after_ms=1000) for _ in range(n)]
        awake = [world.create(IMAGE) for _ in range(n)]
        freezers = {box: next(at / "cgroup.freeze" for top in world.cgroup_dirs() for at in top.glob(f"*/{box}")
                              if (at / "cgroup.freeze").exists()) for box in awake}
        for _ in range(rounds):
            wait_for("all to doze", lambda: all(world.get(box).get("dozing") for box in sleepy), 30)
            for tired, frozen in zip(sleepy, awake):
                freezers[frozen].write_text("1")
                wait_for("it to be frozen", lambda at=freezers[frozen]: "frozen 1" in (at.parent / "cgroup.events").read_text(), 5)
                began = time.monotonic_ns()
                freezers[frozen].write_text("0")
                door.exec(frozen, ["true"])
                hand.append(time.monotonic_ns() - began)
                began = time.monotonic_ns()
                door.exec(tired, ["true"])
                ours.append(time.monotonic_ns() - began)
        own.ids = sleepy + awake
        own.empty()
    timed("doze_wake", ours, "thaw by hand and the same command", hand,
          f"true waited for, through an edge, in a sandbox that dozes; by hand p99 {ms(hand, 99)}; goal ratio 1.5, p99 10 ms")


@contextlib.contextmanager
def fork_100(b):
    """From the request to the last outcome; the copy of the files is in it.  Each is deleted before the next round."""
    count, rounds = 100, 10 if FULL else 3
    source = b.cay.create(IMAGE)
    b.cay.exec(source, ["sh", "-c", "mkdir /tmp/d && cd /tmp/d && for i in $(seq 100); do echo $i >$i; done"])

    def took(path, body):
        began = time.monotonic_ns()
        reply = b.cay.open("POST", path, {"count": count, **body}, timeout_s=300)
        rows = [json.loads(line[6:]) for line in reply.read().decode().splitlines() if line.startswith("data: ")]
        ns = time.monotonic_ns() - began
        made = [row["sandbox"]["id"] for row in rows if "sandbox" in row]
        if len(made) != count:
            raise RuntimeError(f"{path}: {len(made)} of {count}")
        b.ids = made
        b.empty()
        return ns

    forks, creates = [], []
    for i in range(2 * rounds + 1):
        if i % 2:
            forks.append(took(f"/v1/sandboxes/{source}/fork", {}))
        else:
            creates.append(took("/v1/batches", {"sandbox": {"image": IMAGE}}))
    b.ids = [source]
    b.empty()
    timed("fork_100", forks, "100 creates in one request", creates[1:], "100 forks of one that runs, to the last outcome; goal ratio 1.1")


def dockerd(cay):
    """Debian's, with the same image; its cgroups are below ours."""
    work = tempfile.mkdtemp(dir="/var/tmp")
    sock, log = os.path.join(work, "sock"), os.path.join(work, "log")
    with open(log, "wb") as out:
        process = subprocess.Popen(
            ["dockerd", "--data-root", work + "/data", "--exec-root", work + "/exec", "-p", work + "/pid",
             "-H", "unix://" + sock, "--iptables=false", "--ip6tables=false", "--bridge=none",
             f"--cgroup-parent={cay.cgroup}/docker"], stdout=out, stderr=out)
    try:
        if not calibrate.up(sock, process, time.monotonic() + 60):
            raise RuntimeError("dockerd did not start:\n" + pathlib.Path(log).read_text()[-2000:])
        manifest = json.loads(blob(json.loads((LAYOUT / "index.json").read_text())["manifests"][0]).read_text())
        with open(blob(manifest["layers"][0]), "rb") as layer:
            calibrate.call(sock, "POST", f"/images/create?fromSrc=-&repo={IMAGE}&tag=1", layer, "application/x-tar")
        yield sock
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(work, ignore_errors=True)


def blob(descriptor):
    return LAYOUT / "blobs" / descriptor["digest"].replace(":", "/")


def docker(b):
    rounds, n = (20, 5) if FULL else (4, 3)
    ours, theirs = [], []
    with dockerd(b.cay) as sock:
        version = json.loads(calibrate.call(sock, "GET", "/version"))["Version"]
        b.client("docker", sock, IMAGE + ":1", 1)
        for _ in range(rounds):
            ours += b.cold(n)["ns"]
            theirs += b.client("docker", sock, IMAGE + ":1", n)["ns"]
    timed("cold_create_docker", ours, f"dockerd {version}: create, start, exec", theirs,
          "the same client over both unix sockets, no network; goal ratio 0.15")


def exec_rtt(b):
    rounds, n = (50, 20) if FULL else (20, 5)
    ours, bare = [], []
    b.fill(5)
    for _ in range(rounds):
        ours += b.client("exec", b.cay.run / "box", n, ids=b.ids)["ns"]
        bare += b.client("spawn", "/bin/true", n * 5)["ns"]
    b.empty()
    timed("exec_rtt", ours, "posix_spawn and wait on the host", bare,
          "/bin/true waited for, a connection to PID 1 each; goal p50 1.0 ms")


def edge_exec(b):
    """Rounds are short and take turns, and each gives a difference: what the machine does meanwhile hits both."""
    rounds, n = (60, 20) if FULL else (30, 5)
    with World(b.build) as world:
        own = Bench(b.build, world)
        own.fill(5)
        key = world.state / "db/operator.key"
        through, straight = [], []
        for _ in range(rounds):
            straight += own.client("exec", world.run / "box", n, ids=own.ids)["ns"]
            through += own.client("edge", world.port, key, n, ids=own.ids)["ns"]
        own.empty()
    say(name="edge_exec", unit="ms", n=len(through), value=round(ms(through) - ms(straight), 3),
        baseline={"name": "the goal", "value": 0.3},
        note=f"what an edge adds to /bin/true waited for, at p50: {ms(through)} by a connection that is kept, {ms(straight)} "
             f"straight to PID 1; p99 {ms(through, 99)} and {ms(straight, 99)}")


def shell_rtt(b):
    rounds, n = (30, 50) if FULL else (10, 20)
    with World(b.build) as world:
        own = Bench(b.build, world)
        own.fill(2)
        key = world.state / "db/operator.key"
        shells, execs = [], []
        for _ in range(rounds):
            shells += own.client("shell", world.port, key, n, ids=own.ids)["ns"]
            execs += own.client("edge", world.port, key, n, ids=own.ids)["ns"]
        own.empty()
    timed("shell_rtt", shells, "exec.run of /bin/true through the same edge", execs,
          "`true` in a shell that is open, through an edge by a connection that is kept; goal p50 0.6 ms")


def cold_and_crun(b, n):
    """crun alone beside it says how much of a difference is the kernel's or the day's."""
    ours, bare = [], []
    for _ in range(n // 5):
        ours += b.cold(5)["ns"]
        bare += b.crun(5)
    return ours, bare


def scale(b):
    """create_at_N and density share the sandboxes: making thousands takes minutes."""
    sizes, n = ((1000, 5000), 50) if FULL else ((200,), 30)
    cold_and_crun(b, 5)
    before = machine.settled_counts(b.cay)
    sampled = {0: cold_and_crun(b, n)}
    empty = machine.memory()
    for size in sizes:
        why = b.fill(size)
        if why:
            raise RuntimeError(f"{len(b.ids)} alive of {size}: {why}")
        full = machine.memory()
        sampled[size] = cold_and_crun(b, n)
    density(b, empty, full, b.each_answers())
    if FULL:
        limit(b)
    taken = b.empty()
    left = machine.left_over(b.cay, before)
    again = cold_and_crun(b, n)
    for size in sizes:
        timed(f"create_at_{size}", sampled[size][0], "with none alive", sampled[0][0],
              f"cold_create with {size} alive; crun alone {ms(sampled[size][1])} ms then, {ms(sampled[0][1])} ms with "
              f"none; at the end, with none again, {ms(again[0])} and {ms(again[1])} ms; "
              f"goal ratio {'2.0' if size > 1000 else '1.2'}")
    say(name="left_over", unit="count", n=len(taken), value=sum(abs(x) for x in left.values()),
        baseline={"name": "mounts, cgroups, namespaces, processes, directories, fds", "value": 1},
        note=f"must be 0: {left or 'nothing'}; delete p50 {ms(taken)} ms, {CLIENTS} at a time")


def density(b, empty, full, answers):
    n = len(b.ids)
    pss = machine.pss(b.cay, b.ids[::max(1, n // 100)])
    used = (empty["MemAvailable"] - full["MemAvailable"]) / n * 1024 / 1e6
    slab = (full["SUnreclaim"] - empty["SUnreclaim"]) / n
    top = ", ".join(f"{name} {kib / n:.1f}" for name, kib in machine.slab_growth(empty, full)[:8])
    say(name="density", unit="MB", n=n, value=round(used, 3), baseline={"name": "the goal", "value": 1.2},
        note=f"memory a sandbox, {n} alive, each answered an exec (p50 {ms(answers)} ms, {CLIENTS} at a time); "
             f"PSS of PID 1 {pss:.0f} KiB, unreclaimable slab {slab:.0f} KiB: {top}")


def limit(b):
    """As many as the machine carries."""
    start, why = machine.memory(), None
    had = len(b.ids)
    while not why and len(b.ids) < MOST and machine.memory(drop=False)["MemAvailable"] > LEAST_FREE_KIB:
        why = b.fill(min(MOST, len(b.ids) + STEP))
    now, n = machine.memory(), len(b.ids)
    why = why or ("the bench's own limit" if n >= MOST else "memory")
    more = max(1, n - had)
    top = ", ".join(f"{name} {kib / more:.1f}" for name, kib in machine.slab_growth(start, now)[:8])
    say(name="density_most", unit="count", n=n, value=n, baseline={"name": "the goal", "value": 10000},
        note=f"stopped by: {why}; {(start['MemAvailable'] - now['MemAvailable']) / more * 1.024 / 1000:.3f} MB each "
             f"beyond {had}, KiB of slab: {top}")


@contextlib.contextmanager
def another(b, env=None):
    """Daemons of a row's own."""
    with Cay(b.build, env=env) as cay:
        own = Bench(b.build, cay)
        try:
            yield own
        finally:
            if own.ids and "cayd" in cay.pids():
                own.empty()


@contextlib.contextmanager
def stopped(cay):
    process = cay.daemons["cayd"]
    process.terminate()
    if process.wait(60):
        raise RuntimeError(f"cayd ended with {process.returncode}:\n{cay.said('cayd')}")
    yield
    cay.start_cayd()


def cycles(b):
    """Ended ones are forgotten after a second and the events kept are full from the start: what
    grows then is lost."""
    n = int(os.environ.get("CAY_CYCLES", "10000" if FULL else "400"))
    with another(b, {"CAY_LIMITS_RECORD_TTL": "1s"}) as own:
        def some(k):
            return [ns for got in own.parallel("cycle", own.cay.socket, IMAGE, shares=[((k,), ())] * CLIENTS)
                    for ns in got["ns"]]
        some(5)
        with stopped(own.cay):
            journal.add_events(own.cay, KEPT_EVENTS)
        some(5)
        before = machine.settled_counts(own.cay)
        tenths, memory, bare = [], [], []
        for _ in range(10):
            bare.append(own.crun(10))
            tenths.append(some(max(1, n // 10 // CLIENTS)))
            memory.append(machine.settled_memory(own.cay))
        left = machine.left_over(own.cay, before)
    done = sum(map(len, tenths))
    p95 = f"p95 of the last tenth {ms(tenths[-1], 95)} ms, of the second {ms(tenths[1], 95)} ms"
    say(name="cycles", unit="ms", n=done, **{f"p{p}": ms(tenths[-1], p) for p in (50, 95, 99)},
        baseline={"name": "the second tenth", "p50": ms(tenths[1])},
        note=f"create, exec true, delete, {CLIENTS} at a time: the last tenth; {p95}; medians of all tenths "
             f"{[ms(x) for x in tenths]}, of crun alone before each {[ms(x) for x in bare]}; goal ratio 1.1")
    for name in memory[0]:
        grown = (memory[-1][name] - memory[0][name]) / 1024
        say(name=f"cycles_memory_{name}", unit="MiB", n=done, value=round(grown, 3),
            baseline={"name": "the goal", "value": 1},
            note=f"what it has more after the last tenth than after the first; KiB after each: {[m[name] for m in memory]}")
    say(name="cycles_left", unit="count", n=done, value=sum(abs(x) for x in left.values()),
        baseline={"name": "mounts, cgroups, namespaces, processes, directories, fds", "value": 1},
        note=f"must be 0: {left or 'nothing'}")


def list_10000(b):
    live, ended, rounds, n = (1000, 10000, 20, 50) if FULL else (100, 10000, 10, 20)
    with another(b) as own:
        own.cold(1)
        why = own.fill(live)
        if why:
            raise RuntimeError(f"{len(own.ids)} alive of {live}: {why}")
        with stopped(own.cay):
            first = journal.add_ended(own.cay, ended)
            start = time.monotonic()
        start = time.monotonic() - start
        pages = {"": "limit=100", "_middle": f"limit=100&cursor={first + ended // 2}",
                 "_state": "limit=100&state=running"}
        times, bytes_, health = {key: [] for key in pages}, {}, []
        for _ in range(rounds):
            health += own.client("get", own.cay.socket, "/v1/health", n)["ns"]
            for key, query in pages.items():
                got = own.client("get", own.cay.socket, "/v1/sandboxes?" + query, n)
                times[key] += got["ns"]
                bytes_[key] = got["bytes"]
    for key, query in pages.items():
        timed("list_10000" + key, times[key], "GET /v1/health", health,
              f"{query}, {bytes_[key] // 1024} KiB; {live} alive are the oldest, {ended} ended behind them; "
              f"cayd was back with them in {start:.2f} s; goal p99 5 ms")


def small_tar(names):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name in names:
            i = tarfile.TarInfo(name)
            i.size = 100
            t.addfile(i, io.BytesIO(b"x" * 100))
    return out.getvalue()


def tree_10k(b):
    """One request each is measured on a part of them and taken as often: it is linear.

    ext4 passes by every inode freed in the last seconds when it makes one: a disk on which much
    was just deleted shows that, ten times over, and not us.
    """
    n, part, rounds = 10000, 1000 if FULL else 200, 3
    names = [f"d{i % 100}/f{i}" for i in range(n)]
    every, one = small_tar(names), b"x" * 100
    box = b.cay.create(IMAGE)
    at = f"/v1/sandboxes/{box}/files"
    took = {key: [] for key in ("in", "in_each", "out", "out_each")}

    def clock(key, times, fn):
        begin = time.monotonic_ns()
        fn()
        took[key].append((time.monotonic_ns() - begin) * times)
    for k in range(rounds):
        clock("in", 1, lambda: b.cay.call("PUT", f"{at}/tree?path=all{k}", every))
        clock("in_each", n // part,
              lambda: [b.cay.call("PUT", f"{at}/content?path=one{k}/{name}&parents=true", one) for name in names[:part]])
        clock("out", 1, lambda: b.cay.open("GET", f"{at}/tree?path=all{k}").read())
        clock("out_each", n // part,
              lambda: [b.cay.open("GET", f"{at}/content?path=all{k}/{name}").read() for name in names[:part]])
    b.cay.delete(box)
    for key in ("in", "out"):
        mine, base = percentile(took[key], 50), percentile(took[key + "_each"], 50)
        timed(f"tree_10k_{key}", took[key], "a request each", took[key + "_each"],
              f"{n} files of 100 bytes; ratio {mine / base:.3f}, goal 0.05; {part} requests, taken as {n}")


GROUPS = {f.__name__: f for f in (cold_create, stop_start, doze_wake, fork_100, docker, exec_rtt, edge_exec, shell_rtt, scale, cycles, tree_10k, list_10000)}

if __name__ == "__main__":
    build, names = sys.argv[1], sys.argv[2:] or list(GROUPS)
    with Cay(build) as cay:
        bench = Bench(build, cay)
        try:
            for name in names:
                GROUPS[name](bench)
        finally:
            if bench.ids:
                bench.empty()
