#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/egress.py BUILD [GROUP...] - rows about connections out of sandboxes, through cay-egress

The host is a program in the namespace of tests/lib/lab.py, the client the same program in a sandbox; compared with client and host on
plain loopback, measured in turns.  Goals that the rest of the machine disturbs are judged by CPU time.  A sandbox may begin 200
connections at once, so rounds are short.  CAY_FULL=1: more of them.  CAY_BEFORE=BUILD: an older build, for egress_none.

    egress_connect  connect, a byte, close; the median, and the CPU time of client, host and cay-egress; also against slirp4netns,
                    which lets a network namespace connect to the same host on plain loopback
    egress_cpu      the CPU time of a client that connects and closes, against a server inside the same sandbox
    egress_bulk     one connection that sends much; egress_bulk_cpu: what cay-egress takes for it, against a relay by read and write
    egress_dns      a question for a known name, against an echo of datagrams inside the same sandbox
    egress_flip     a policy that denies 200 open connections, until the reply
    egress_attach   a create with a policy against one without, in CPU time
    egress_idle     memory of cay-egress for a sandbox that has a policy and no connections
    egress_none     system calls of a create without a policy, against those of CAY_BEFORE
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / "lib"), str(pathlib.Path(__file__).parents[1] / "integration/control")]
import cay  # noqa: E402
import lab  # noqa: E402
from conftest import tiny  # noqa: E402

FULL = os.environ.get("CAY_FULL") == "1"
ROUNDS = 15 if FULL else 5
CONNECTS, PORT, INSIDE = 150, 5432, 7000
HOST, NAME = "93.184.2.3", "kept.example.com"
SLIRP_HOST = "10.0.2.2"  # loopback of the namespace where slirp4netns is
POLICY = {"rules": [{"action": "allow", "to": NAME, "ports": [PORT]}]}


def say(**row):
    print(json.dumps(row), flush=True)


def us(ns):
    return round(ns / 1000, 1)


def cpu_ns(pid):
    """Of all its threads."""
    return sum(int((t / "schedstat").read_text().split()[0]) for t in pathlib.Path(f"/proc/{pid}/task").iterdir())


class Bench:
    def __init__(self, build, net):
        self.build, self.net, self.started = build, net, []
        self.peer = pathlib.Path(build).resolve() / "tests/bench/egress-peer"
        self.host = self.serve("nsenter", "-t", str(net.child.pid), "-n", self.peer, "serve", HOST, PORT)
        self.bare = self.serve(self.peer, "serve", "127.0.0.1", PORT)

    def serve(self, *words):
        process = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, text=True)
        self.started.append(process)
        if process.stdout.readline() != "up\n":
            raise RuntimeError(f"{words[0]} does not serve")
        return process.pid

    def node(self):
        self.cay = cay.Cay(self.build, env={"CAY_EGRESS_DNS": lab.DNS})
        self.cay.__enter__()
        self.cay.image_import("tiny", tiny([cay.file("bin/egress-peer", self.peer.read_bytes(), 0o755)]))
        cay.wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in self.cay.log("cayd"), 30)
        self.egress = self.cay.pids()["cay-egress"]

    def stop(self):
        self.cay.__exit__(None, None, None)
        for process in self.started:
            process.kill()
            process.wait()

    def box(self):
        return self.cay.create("tiny", egress=POLICY)

    def inside(self, box, *words):
        done = self.cay.exec(box, ["egress-peer", *[str(w) for w in words]], timeout_s=120)
        if done.exit_code:
            raise RuntimeError(done.stderr.decode())
        return [int(n) for n in done.text.split()]

    def outside(self, *words, within=()):
        return [int(n) for n in subprocess.run([*within, self.peer, *[str(w) for w in words]], check=True, capture_output=True, text=True).stdout.split()]

    def slirp(self):
        """(its pid, the words that begin a command behind it)"""
        space = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        self.started.append(space)
        cay.wait_for("a namespace", lambda: os.readlink(f"/proc/{space.pid}/ns/net") != os.readlink("/proc/self/ns/net"), 30)
        ready, theirs = os.pipe()
        command = ["slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={theirs}", str(space.pid), "tap0"]
        process = subprocess.Popen(command, pass_fds=[theirs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.started.append(process)
        os.close(theirs)
        if not os.read(ready, 1):
            raise RuntimeError("slirp4netns does not start")
        return process.pid, ("nsenter", "-t", str(space.pid), "-n")


def threads_ns(pid):
    """CPU time of its first thread, and of the one that writes the log."""
    return [int((t / "schedstat").read_text().split()[0]) for t in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir(), key=lambda t: int(t.name))]


def connects(b):
    """(median, 95 %, 99 %, client's CPU, CPU of all) in ns, of each round: through cay-egress, bare and through slirp4netns."""
    ours, bare, slirp = [], [], []
    relay, behind = b.slirp()
    for _ in range(ROUNDS + 1):
        box = b.box()
        before, threads = cpu_ns(b.egress) + cpu_ns(b.host), threads_ns(b.egress)
        got = b.inside(box, "connect", NAME, PORT, CONNECTS)
        parts = [(now - was) / CONNECTS for now, was in zip(threads_ns(b.egress), threads, strict=False)]
        ours.append([*got, got[3] + (cpu_ns(b.egress) + cpu_ns(b.host) - before) / CONNECTS, *parts[:2]])
        b.cay.delete(box)
        before = cpu_ns(b.bare)
        got = b.outside("connect", "127.0.0.1", PORT, CONNECTS)
        bare.append([*got, got[3] + (cpu_ns(b.bare) - before) / CONNECTS])
        before = cpu_ns(b.bare) + cpu_ns(relay)
        got = b.outside("connect", SLIRP_HOST, PORT, CONNECTS, within=behind)
        slirp.append([*got, got[3] + (cpu_ns(b.bare) + cpu_ns(relay) - before) / CONNECTS])
    return [[statistics.median(v) for v in zip(*rows[1:], strict=True)] for rows in (ours, bare, slirp)]  # the first warms up


def egress_connect(b):
    ours, bare, slirp = connects(b)
    say(name="egress_connect", unit="us", n=ROUNDS * CONNECTS, **{f"p{p}": us(ours[i]) for i, p in enumerate((50, 95, 99))},
        baseline={"name": "the same over plain loopback", "p50": us(bare[0])},
        note=f"{ours[0] / bare[0]:.2f} of its time, {ours[4] / bare[4]:.2f} of its CPU time with client, host and cay-egress "
             f"({us(ours[4])} against {us(bare[4])} us; cay-egress {us(ours[5])}, its log {us(ours[6])}); goals 2.5, or 2.0 in CPU time; "
             f"{ours[0] / slirp[0]:.2f} of the time through slirp4netns ({us(slirp[0])} us), {ours[4] / slirp[4]:.2f} of its CPU time; goal 0.5")


def with_server(b, box):
    """A server inside, for what stays inside."""
    b.cay.exec_detached(box, ["egress-peer", "serve", "127.0.0.1", str(INSIDE)])
    cay.wait_for("it to serve", lambda: b.cay.exec(box, ["egress-peer", "connect", "127.0.0.1", str(INSIDE), "1"]).exit_code == 0, 30)


def egress_cpu(b):
    steered, plain = [], []
    for _ in range(ROUNDS + 1):
        box = b.box()
        with_server(b, box)
        steered.append(b.inside(box, "knock", NAME, PORT, CONNECTS)[3])
        plain.append(b.inside(box, "knock", "127.0.0.1", INSIDE, CONNECTS)[3])
        b.cay.delete(box)
    say(name="egress_cpu", unit="us", n=ROUNDS * CONNECTS, value=us(statistics.median(steered[1:])),
        baseline={"name": "to a server inside", "value": us(statistics.median(plain[1:]))},
        note="CPU time of the client for connect and close; steered by sk_lookup; goal 1.05")


def egress_bulk(b):
    size = (1 << 30) if FULL else (256 << 20)
    relay = b.serve(b.peer, "relay", 6000, "127.0.0.1", PORT)
    ours, bare, cpu, cpu_relay = [], [], [], []
    box = b.box()
    for _ in range(ROUNDS + 1):
        before = cpu_ns(b.egress)
        ours.append(size / b.inside(box, "bulk", NAME, PORT, size)[0])
        cpu.append((cpu_ns(b.egress) - before) / size)
        bare.append(size / b.outside("bulk", "127.0.0.1", PORT, size)[0])
        before = cpu_ns(relay)
        b.outside("bulk", "127.0.0.1", 6000, size)
        cpu_relay.append((cpu_ns(relay) - before) / size)
    b.cay.delete(box)
    gib = 1 << 30
    say(name="egress_bulk", unit="GiB/s", n=ROUNDS, value=round(statistics.median(ours[1:]) * 1e9 / gib, 3),
        baseline={"name": "one connection over plain loopback", "value": round(statistics.median(bare[1:]) * 1e9 / gib, 3)},
        note=f"{size >> 20} MiB in one connection; goal at least 0.40 of it")
    say(name="egress_bulk_cpu", unit="s/GiB", n=ROUNDS, value=round(statistics.median(cpu[1:]) * gib / 1e9, 3),
        baseline={"name": "a relay by read and write, 64 KiB", "value": round(statistics.median(cpu_relay[1:]) * gib / 1e9, 3)},
        note="CPU time of cay-egress; goal at most 0.5 of it")


def egress_dns(b):
    ours, echo = [], []
    for _ in range(ROUNDS):
        box = b.box()
        with_server(b, box)
        b.inside(box, "ask", "192.0.0.1", 53, NAME, 5)
        ours.append(b.inside(box, "ask", "192.0.0.1", 53, NAME, 300))
        echo.append(b.inside(box, "ask", "127.0.0.1", INSIDE, NAME, 300))
        b.cay.delete(box)
    mid = [statistics.median(v) for v in zip(*ours, strict=True)]
    say(name="egress_dns", unit="us", n=300 * ROUNDS, p50=us(mid[0]), p95=us(mid[1]), p99=us(mid[2]),
        baseline={"name": "an echo inside", "p50": us(statistics.median(v[0] for v in echo))}, note="a name that is known; goal 2.0")


def egress_flip(b):
    took = []
    for _ in range(20 if FULL else 6):
        box = b.box()
        holds = b.cay.exec_detached(box, ["egress-peer", "hold", NAME, str(PORT), "200"])
        cay.wait_for("200 connections", lambda box=box, holds=holds: b"holds" in b.cay.exec_output(box, holds), 60)
        begun = time.monotonic_ns()
        b.cay.call("PUT", f"/v1/sandboxes/{box}/egress", {"rules": [{"action": "allow", "to": "other.example.com"}]})
        took.append(time.monotonic_ns() - begun)
        cay.wait_for("their end", lambda box=box, holds=holds: b"over" in b.cay.exec_output(box, holds), 60)
        b.cay.delete(box)
    took.sort()
    say(name="egress_flip", unit="ms", n=len(took), p50=round(took[len(took) // 2] / 1e6, 2), value=round(took[-1] / 1e6, 2),
        baseline={"name": "the goal", "value": 50}, note="put of a policy that denies 200 open connections, until the reply; the slowest")


class Account:
    """A cgroup of this process and of all that it starts: their CPU time, also of processes that nobody waits for, as the keeper's
    workers.  Sandboxes have cgroups of their own."""

    def __enter__(self):
        mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup" in line]
        v1, v2 = [m[4] for m in mounts if "cpuacct" in m[-1].split(",")], [m[4] for m in mounts if "cgroup2" in m]
        self.top, self.file, self.unit = (v1[0], "cpuacct.usage", 1) if v1 else (v2[0], "cpu.stat", 1000)
        self.at = pathlib.Path(tempfile.mkdtemp(prefix="cay-test-bench-", dir=self.top))
        (self.at / "cgroup.procs").write_text("0")
        return self

    def ns(self):
        """Without this process itself."""
        return int(re.search(r"\d+", (self.at / self.file).read_text())[0]) * self.unit - time.process_time_ns()

    def __exit__(self, *_):
        (pathlib.Path(self.top) / "cgroup.procs").write_text("0")
        cay.wait_for("the end of all processes", lambda: not (self.at / "cgroup.procs").read_text(), 30)
        self.at.rmdir()


def egress_attach(b):
    n = 80 if FULL else 30

    def creates(policy):
        before, inside = b.account.ns(), 0
        for box in [b.cay.create("tiny", egress=policy) for _ in range(n)]:
            inside += b.cay.call("GET", f"/v1/sandboxes/{box}/usage")["cpu_ms"]
            b.cay.delete(box)
        return (inside + (b.account.ns() - before) / 1e6) / n

    creates(POLICY)
    pairs = [(creates(POLICY), creates({})) for _ in range(7)]
    say(name="egress_attach", unit="ms", n=7 * n, value=round(sum(a for a, _ in pairs) / 7, 3),
        baseline={"name": "create and delete without a policy", "value": round(sum(c for _, c in pairs) / 7, 3)},
        note="CPU time of the daemons, all their processes and the sandbox for a create with a policy, and its delete, in 7 pairs; goal 1.05")


def egress_idle(b):
    n = 400 if FULL else 100

    def rss():
        return int(re.search(r"Rss:\s+(\d+)", pathlib.Path(f"/proc/{b.egress}/smaps_rollup").read_text())[1])

    b.cay.kill_daemon("cay-egress")  # one that has had connections has memory to spare
    b.cay.start_egress()
    b.egress, connected = b.cay.pids()["cay-egress"], b.cay.log("cayd").count("cay-egress is connected")
    cay.wait_for("cay-egress to be connected", lambda: b.cay.log("cayd").count("cay-egress is connected") >= max(2, connected), 30)
    warm = [b.box() for _ in range(10)]
    before = rss()
    boxes = [b.box() for _ in range(n)]
    each = (rss() - before) / n
    for box in boxes + warm:
        b.cay.delete(box)
    say(name="egress_idle", unit="KiB", n=n, value=round(max(each, 0.001), 3), baseline={"name": "the goal", "value": 4},
        note="memory of cay-egress for a sandbox with a policy and no connections")


IGNORED = re.compile(r"^(epoll_\w+|futex|clock_\w+|gettimeofday|restart_syscall|poll|ppoll|wait4|waitid|sched_yield|madvise|munmap|mmap|brk|mprotect)$")


def calls_of_creates(build, n):
    """System calls of keeper and cayd for n creates and deletions; those of waiting and of memory are not counted."""
    with cay.Cay(build) as c, tempfile.NamedTemporaryFile() as out:
        c.image_import("tiny", tiny())
        c.delete(c.create("tiny"))
        watch = [w for pid in c.pids().values() for w in ("-p", str(pid))]
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-c", "-U", "calls,name", "-o", out.name, *watch], stderr=subprocess.DEVNULL)
        cay.wait_for("strace", lambda: all(cay.traced(pid) for pid in c.pids().values()), 30)
        for _ in range(n):
            c.delete(c.create("tiny"))
        tracer.terminate()
        tracer.wait()
        rows = [line.split() for line in pathlib.Path(out.name).read_text().splitlines()]
    return {r[1]: int(r[0]) for r in rows if len(r) == 2 and r[0].isdigit() and not IGNORED.match(r[1]) and r[1] != "total"}


def egress_none(b):
    n, before = 10, os.environ.get("CAY_BEFORE")
    now = calls_of_creates(b.build, n)
    was = calls_of_creates(before, n) if before else now
    more = {k: now.get(k, 0) - was.get(k, 0) for k in {*now, *was} if now.get(k, 0) != was.get(k, 0)}
    say(name="egress_none", unit="calls", n=n, value=sum(now.values()) / n,
        baseline={"name": "the build before" if before else "itself: set CAY_BEFORE", "value": sum(was.values()) / n},
        note=f"system calls of keeper and cayd for a create without a policy and its delete, but those of waiting and memory; "
             f"different in {n}: {json.dumps(more, sort_keys=True)}; goal 1.00")


GROUPS = [egress_connect, egress_cpu, egress_bulk, egress_dns, egress_flip, egress_attach, egress_idle, egress_none]


def main():
    os.unshare(os.CLONE_NEWNET)  # the lab has the only way out of it
    lab.ip("link", "set", "lo", "up")
    picked = [g for g in GROUPS if g.__name__ in sys.argv[2:] or len(sys.argv) == 2]
    with Account() as account, lab.Lab([(HOST, 9)], {NAME: [HOST]}, watch=False) as net:
        b = Bench(sys.argv[1], net)
        b.account = account
        b.node()
        try:
            for group in picked:
                group(b)
        finally:
            b.stop()


if __name__ == "__main__":
    main()
