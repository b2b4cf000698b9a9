# SPDX-License-Identifier: Apache-2.0
"""The attack matrix, through our own product: one function a row, `pytest -k ESC_05`

Everything goes in by the API and every row is judged by the oracle besides its own
check, so each has a wall of the keeper, of cay-init or of cayd to guard, and a
mutant that takes it away must turn it red.
"""
import concurrent.futures
import contextlib
import hashlib
import http.client
import importlib.util
import json
import os
import pathlib
import random
import re
import secrets
import socket
import subprocess
import sys
import time

import pytest

import cay as lib
from conftest import BUILD, GUEST, LIVE, PASSWD, PRIVS, RUNTIMES, hostile_entries
from oracle import Telltales, forks

HERE = pathlib.Path(__file__).parent
HOSTILE = BUILD / "tests/attack/hostile"
REACHABLE_MAX = 8
FULL = bool(os.environ.get("CAY_FULL"))
EXECS = 1000 if FULL else 100
CORPUS_STEP = 1 if FULL else 5  # every image is tried by images/run.py, without daemons
READ_MAX = 4 << 20
ACCEPT_S, REFUSE_S = 30.0 * lib.SLOW, 60.0
ROOT_CAPS = 0x4EB  # CHOWN DAC_OVERRIDE FOWNER KILL SETGID SETUID NET_BIND_SERVICE
# what cayd has, 10 s for a claim and 30 for an answer, and what a busy machine may take besides
CLAIM_S, DEADLINE_S = 25.0 * lib.SLOW, 40.0 * lib.SLOW
PATIENCE_S = 30.0  # with what takes no time


def test_ESC_01(row, boxes, runtime, priv):
    """The surface: nothing of the never list, at most eight of 53 in all."""
    with row(runtime, priv) as r:
        done = r.hostile(boxes(runtime), "probe")
        m = re.search(r"^probe: (\d+) of 53 reachable, (\d+) that must never be$", done.text, re.M)
        r.check(m and int(m[1]) <= REACHABLE_MAX and int(m[2]) == 0, m[0] if m else "no count")
        r.detail = m[0] if m else ""


def test_ESC_02(row, boxes, runtime, priv):
    """The i386 and x32 entries execute nothing."""
    with row(runtime, priv) as r:
        r.hostile(boxes(runtime), "abi32")


def status_of(pid):
    """None when it has ended meanwhile: a zombie has no filters any more."""
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        status = dict(re.findall(r"^(\w+):\t(.*)$", text, re.M))
        return None if status["State"][0] in "ZX" else status
    return None


def statuses(cay, box):
    """Of everybody in a sandbox, once those who started it have left its cgroup."""
    def seen():
        return {pid: s for pid in cay.processes(box) if (s := status_of(pid))}

    def outside(status):
        return len(status["NSpid"].split()) < 2
    lib.wait_for("the runtime to leave", lambda: not any(map(outside, seen().values())), PATIENCE_S)
    return seen()


def check_process(r, pid, status, live):
    """One process of a sandbox, from the host.  live: the host ids it may have."""
    inside = int(status["Uid"].split()[0]) - live
    init = status["NSpid"].split()[-1] == "1"
    may = ROOT_CAPS if inside == 0 else 0
    for name, allowed in {"CapInh": 0, "CapPrm": may, "CapEff": may, "CapBnd": ROOT_CAPS, "CapAmb": 0}.items():
        r.check(int(status[name], 16) & ~allowed == 0, f"{status['Name']} ({pid}): {name} {status[name]}")
    if init:  # SETUID SETGID KILL: it lends the rest to children and uses none of it
        r.check(int(status["CapEff"], 16) & ~0xE0 == 0, f"PID 1: CapEff {status['CapEff']}")
    r.check(0 <= inside < 65536, f"{status['Name']} ({pid}): host uid {status['Uid']}")
    for name, value in {"NoNewPrivs": "1", "Seccomp": "2"}.items():
        r.check(status.get(name) == value, f"{status['Name']} ({pid}): {name} {status.get(name)}")


def test_ESC_03(row, boxes, runtime, priv, cay):
    """Every process holds what it may and no more, seen from inside and from the host."""
    box = boxes(runtime)
    with row(runtime, priv) as r:
        r.hostile(box, "privs")
        exec_id = cay.exec_detached(box, ["/hostile", "serve-neighbour", "held-still"], user=PRIVS[priv])
        lib.wait_for("a process to look at", lambda: b"serving" in cay.exec_output(box, exec_id), PATIENCE_S)
        try:
            rows = statuses(cay, box)
            r.check(len(rows) >= 2, f"only {len(rows)} processes in sight")
            first = [s for s in rows.values() if s["NSpid"].split()[-1] == "1"]
            r.check(len(first) == 1, f"{len(first)} are PID 1")
            live = int(first[0]["Uid"].split()[0]) if first else 0
            r.check(live >= 0x80000 and live % 65536 == 0, f"PID 1 is host uid {live}")
            for pid, status in rows.items():
                check_process(r, pid, status, live)
            # PID 1 keeps clone3; whatever it starts has one filter more
            filters = {s["NSpid"].split()[-1] == "1": s.get("Seccomp_filters") for s in rows.values()}
            r.check(filters == {True: "1", False: "2"}, f"numbers of filters: {filters}")
            r.detail = f"{len(rows)} processes, filters {sorted(filters.values())}"
        finally:
            cay.signal(box, exec_id)


def test_ESC_04(row, boxes, runtime, priv, cay):
    """No way through cgroups; and after many execs every process is where it belongs."""
    box = boxes(runtime)
    with row(runtime, priv) as r:
        r.hostile(box, "cgroup")
        if priv == "root":
            for _ in range(EXECS):
                cay.exec(box, ["/hostile", "agent", "--list"], user="0")
        exec_id = cay.exec_detached(box, ["/hostile", "serve-neighbour", "stays-put"], user=PRIVS[priv])
        lib.wait_for("a process to look at", lambda: b"serving" in cay.exec_output(box, exec_id), PATIENCE_S)
        looked = 0
        try:
            for pid in statuses(cay, box):
                with contextlib.suppress(OSError):
                    text = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
                if not status_of(pid):  # who has ended meanwhile is in none
                    continue
                looked += 1
                own = [l for l in text.splitlines() if box in l]
                r.check(any(l.startswith("0::" + cay.cgroup) for l in own), f"process {pid} is in {text!r}")
                limited = [l for l in text.splitlines() if re.match(r"\d+:(memory|pids|cpu)[:,]", l)]
                r.check(all(box in l for l in limited), f"process {pid} has no limits: {limited}")
            r.check(looked >= 2, f"only {looked} processes in sight")
        finally:
            cay.signal(box, exec_id)


def test_ESC_05(row, boxes, runtime, priv):
    """Nothing of /proc and /sys opens for writing."""
    with row(runtime, priv) as r:
        r.hostile(boxes(runtime), "procsys")


def host_facts(cay, box, others):
    """Strings that only the host knows.  Short and common ones would be found by chance."""
    def first(path):
        with contextlib.suppress(OSError):
            return pathlib.Path(path).read_text().strip()
        return ""
    facts = {"host name": socket.gethostname(), "machine id": first("/etc/machine-id"),
             "kernel command line": first("/proc/cmdline"), "state directory": str(cay.state),
             "run directory": str(cay.run), "build directory": str(BUILD), "cgroup": cay.cgroup}
    facts["partition"] = next(iter(first("/proc/partitions").splitlines()[2:]), "")
    facts.update({f"disk {d}": f"/dev/{d}" for d in os.listdir("/sys/block") if not re.match(r"loop|ram", d)})
    facts.update({f"other sandbox {o}": o for o in others if o != box})
    return {k: v for k, v in facts.items() if len(v) >= 6}


def test_ESC_06(row, boxes, runtime, priv, cay, neighbour):
    """What can be read names neither the host nor a neighbour."""
    box, (other, _) = boxes(runtime), neighbour(runtime)
    with row(runtime, priv) as r:
        done = r.hostile(box, "leak", timeout_s=120)
        r.check(done.lost == 0 and len(done.stdout) > 10000, f"{len(done.stdout)} bytes, {done.lost} lost")
        for name, value in host_facts(cay, box, [other]).items():
            at = done.stdout.find(value.encode())
            r.check(at < 0, f"{name}: {done.stdout[max(at - 60, 0):at + 60]!r}")
        # overlay shows its directories to everybody: they must be the same in every sandbox
        shown = re.findall(r"\b((?:lower|upper|work)dir=[^,\s]*)", done.text)
        r.check(shown and all(re.fullmatch(r"\w+=/[a-z](/[a-z]{4,5}|/\d)?|lowerdir=/see:/none", d) for d in shown), f"overlay: {sorted(set(shown))}")
        r.detail = f"{len(done.stdout)} bytes searched"


def image_cases():
    """The corpus of tests/attack/images: (name, 'refused' | 'harmless', bytes)."""
    path = HERE / "images"
    if not (path / "make.py").exists():
        return None
    sys.path.insert(0, str(path))
    spec = importlib.util.spec_from_file_location("hostile_images", path / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # what is refused for a size is refused by the limit there; the product's is another
    return [(name, "either" if want == "larger than allowed" else verdict, data)
            for name, (data, verdict, want, _) in module.CASES.items()]


def try_image(r, cay, boxes, runtime, name, expected, data):
    """Import and, if that works, start it; both may be refused, with a typed error.

    The limits are for a busy machine: what works is quick, a bomb is cut off."""
    begin, image = time.monotonic(), None
    try:
        image = cay.image_import(f"corpus-{secrets.token_hex(4)}", data, REFUSE_S)
        r.check(expected != "refused", f"{name}: was imported")
        cay.delete(boxes.fresh(runtime, image["name"]))
        r.check(time.monotonic() - begin <= ACCEPT_S, f"{name}: {time.monotonic() - begin:.1f} s")
    except lib.ApiError as e:
        r.check(400 <= e.status < 500 or e.code == "runtime_failed", f"{name}: {e}")
        r.check(e.code is not None, f"{name}: untyped {e}")
    except (OSError, http.client.HTTPException) as e:
        r.check(False, f"{name}: {e!r}")
    if image:
        with contextlib.suppress(lib.ApiError):
            cay.call("DELETE", f"/v1/images/{image['id']}")


@pytest.mark.images
def test_ESC_07_19_images(row, boxes, cay):
    """Links planted at every place that matters, and metadata that lies: the corpus.

    Importing knows no runtime; what starts, starts with one and the other in turn."""
    cases = image_cases()
    if cases is None:
        pytest.skip("tests/attack/images/make.py is not here")
    with row("both") as r:
        for n, (name, expected, data) in enumerate(cases[::CORPUS_STEP]):
            try_image(r, cay, boxes, RUNTIMES[n % len(RUNTIMES)], name, expected, data)
        r.detail = f"{n + 1} of {len(cases)} images"
        r.check(n >= 80, f"only {n + 1} images")


LINKED = ("dev", "proc", "sys", "run", "tmp", "etc/passwd", "etc/group", "etc/resolv.conf", "etc/hosts", "etc/hostname")


def planted(target, where):
    """The hostile image with one directory or file replaced by a link."""
    keep = [(i, d) for i, d in hostile_entries() if i.name != where and not i.name.startswith(where + "/")]
    return lib.layout([*keep, lib.entry(where, lib.tarfile.SYMTYPE, 0o777, link=target)])


@pytest.mark.images
def test_ESC_07(row, boxes, runtime, cay, tmp_path_factory):
    """A few planted links of our own, to a place of the host that must stay empty."""
    outside = tmp_path_factory.mktemp("outside")
    outside.chmod(0o777)
    with row(runtime) as r:
        for where in LINKED:
            for target in (str(outside), "../../../../../.." + str(outside), "/proc/self/cwd", "missing"):
                try_image(r, cay, boxes, runtime, f"{where} -> {target}", "either", planted(target, where))
        r.check(not list(outside.iterdir()), f"on the host: {list(outside.iterdir())}")
        r.detail = f"{4 * len(LINKED)} images"


def test_ESC_09(row, boxes, runtime, priv, cay):
    """No descriptor that should not be here, and none that leads out, also as a cwd."""
    box = boxes(runtime)
    with row(runtime, priv) as r:
        r.hostile(box, "fds")
        for n in range(3, 65):
            try:
                done = r.exec(box, ["/hostile", "agent", "--list"], cwd=f"/proc/self/fd/{n}", user=PRIVS[priv])
                r.check(done.exit_code not in (0, None), f"cwd /proc/self/fd/{n} was taken")
            except lib.ApiError as e:
                r.check(e.status == 400, f"cwd /proc/self/fd/{n}: {e}")


def digests():
    """Of every program of the host that a sandbox could hope to overwrite."""
    paths = [*lib.built(BUILD)[0].values(), pathlib.Path("/usr/bin/crun"), pathlib.Path("/usr/sbin/runc")]
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths if p.exists()}


def test_ESC_10(row, boxes, runtime, priv, cay):
    """Nobody's program can be written through /proc/<pid>/exe, also not PID 1's."""
    box = boxes(runtime)
    before = digests()
    with row(runtime, priv) as r:
        planted_at = r.exec(box, ["/hostile", "exe", "plant"], user=PRIVS[priv]).text.strip()
        for _ in range(10):
            # PID 1's child becomes a second cay-init, in here: it must find nothing to do
            with contextlib.suppress(lib.ApiError):
                cay.exec_detached(box, [planted_at], user=PRIVS[priv], timeout_ms=3000)
            r.hostile(box, "exe")
        r.check(digests() == before, "a program of the host is another now")
        r.check(len(before) >= 4, f"only {list(before)} to compare")


def test_ESC_11(row, boxes, runtime, cay):
    """sh, libc, tar, passwd ... replaced: what the host does goes on and runs none of it."""
    box = boxes.fresh(runtime)
    with row(runtime, "root") as r:
        done = r.exec(box, ["/hostile", "replace"], user="0")
        m = re.search(r"^replace: (\d+) replaced$", done.text, re.M)
        r.check(m and int(m[1]) >= 20, done.text[-300:])
        r.detail = m[0] if m else ""
        for uid, user in {0: "root", 1000: "user"}.items():
            for who in (user, str(uid)):
                done = r.exec(box, ["/hostile", "privs"], user=who)
                seen = re.search(r"^# own uid (\d+) gid (\d+)", done.text, re.M)
                r.check(seen and int(seen[1]) == uid, f"asked for {who}, got {seen and seen[0]}")
        # the sandbox's own shell is the trap now; it must have sprung inside, nowhere else
        done = cay.open("POST", f"/v1/sandboxes/{box}/execs", {"shell": "true", "user": "0"}).read()
        r.check(b"trap: sh uid 0" in done, f"the trap did not spring inside: {done[:300]!r}")
        cay.get(box)
        cay.delete(box)
        for path in ("/cay-trap-sprung", "/tmp/cay-trap-sprung"):
            r.check(not os.path.exists(path), f"{path} on the host: {path}")


USERS = ["user\n", "root:0", "0:0:0", "+0", "-1", "00", "0x0", "1e3", "4294967295", "4294967296", "18446744073709551616",
         "1000:0", "user:root", " root", "root ", "ROOT", "röot", "", "/", "..", "%s%n", "a" * 64, "a" * 65, "1000 0",
         "1000;id", "$(id)", "`id`", "user,root", "65535", "65536", "65537", "524288"]


def odd_users(seed):
    """Strings near to real ones: pieces of names, numbers and separators."""
    rng = random.Random(seed)
    pieces = ["root", "user", "0", "1000", ":", ":", "-", "+", "0x", " ", "65535", "65536", "4294967296", "\t", "%d", "\u0660"]
    return ["".join(rng.choices(pieces, k=rng.randint(1, 4))) for _ in range(EXECS)]


def asked_for(user):
    """The uid a user string names in our image; None when it names nobody."""
    m = re.fullmatch(r"(root|user|[0-9]{1,10})(?::(?:root|user|[0-9]{1,10}))?", user, re.A)
    uid = m and {"root": 0, "user": 1000}.get(m[1], int(m[1]) if m[1].isdigit() else None)
    return uid if uid is not None and uid < 65536 else None


def test_ESC_11_users(row, boxes, runtime):
    """Odd user strings: the uid used is the uid asked for, or nothing runs."""
    box, seed, ran = boxes(runtime), secrets.randbits(32), 0
    with row(runtime, "-") as r:
        for user in USERS + odd_users(seed):
            try:
                done = r.exec(box, ["/hostile", "privs"], user=user)
            except lib.ApiError as e:
                r.check(e.status == 400, f"{user!r}: {e}")
                continue
            ran += 1
            seen = re.search(r"^# own uid (\d+) gid (\d+)", done.text, re.M)
            r.check(seen and int(seen[1]) == asked_for(user), f"{user!r} ran as {seen and seen[0]} (seed {seed})")
        r.detail = f"{ran} ran, seed {seed}"
        r.check(ran > 0, f"nothing ran (seed {seed})")


def test_ESC_12(row, boxes, runtime, priv, cay, neighbour):
    """Nothing of a neighbour in sight; where the neighbour lives, all of it is."""
    box, (other, mark) = boxes(runtime), neighbour(runtime)
    control = cay.exec(other, ["/hostile", "neighbours", mark], user="0").text
    seen = set(re.findall(r"^([^|]+)\|through\|", control, re.M))
    expected = {"process", "abstract socket", "System V shared memory", "file in a shared directory"}
    with row(runtime, priv) as r:
        # the mark is the neighbour's secret: it goes in by hand, so it may not come out again
        r.hostile(box, "neighbours", mark)
        r.check(expected <= seen, f"blind: at home it sees only {sorted(seen)}")


def test_ESC_17(row, boxes, runtime, priv):
    """No device opens but the seven, and none of those can be changed."""
    with row(runtime, priv) as r:
        r.hostile(boxes(runtime), "devices", cwd="/workspace" if priv == "user" else "/")


OWN = {"/proc/meminfo"}  # PID 1 writes it, for its own sandbox
HEARD = {"/dev", "/dev/null", "/dev/full", "/dev/cay/init", "/sys/devices/system/cpu/online", "/proc/cpuinfo",
         "/proc/stat", "/etc/passwd", "/hostile", "/big"}


def paths_through(text):
    return set(re.findall(r"^([^|\n]+)\|through\|", text, re.M))


def overheard(cay, box, worker, other, user):
    """The paths whose events `box` receives, and whose locks it finds, while a program in `other` uses every path."""
    tap = cay.exec_detached(box, ["/hostile", "wiretap", "listen"], user=user)
    lib.wait_for("the tap", lambda: b"watching" in cay.exec_output(box, tap), PATIENCE_S)
    work = worker.exec_detached(other, ["/hostile", "wiretap", "work"], user=user)
    lib.wait_for("the work", lambda: b"serving" in worker.exec_output(other, work), PATIENCE_S)
    cay.signal(box, tap, "SIGTERM")
    lib.wait_for("the tap's end", lambda: b" held, " in cay.exec_output(box, tap), PATIENCE_S)
    locks = cay.exec(box, ["/hostile", "wiretap", "locks"], user=user).text
    worker.signal(other, work)
    return paths_through(cay.exec_output(box, tap).decode()), paths_through(locks)


def test_ESC_30(row, boxes, runtime, priv, cay, stranger):
    """Another tenant's work on every path that both see: no event, no lock; one's own: all of it."""
    box, other = boxes(runtime), stranger.create("hostile", runtime=runtime)
    with row(runtime, priv) as r:
        events, locks = overheard(cay, box, stranger, other, PRIVS[priv])
        r.check(events <= OWN, f"heard of another tenant: {sorted(events - OWN)[:12]}")
        r.check(not locks, f"locks of another tenant: {sorted(locks)[:12]}")
        events, locks = overheard(cay, box, cay, box, PRIVS[priv])
        r.check(events >= HEARD and locks >= HEARD, f"blind: at home {sorted(HEARD - events)}, {sorted(HEARD - locks)}")
        r.detail = f"at home {len(events)} paths heard, {len(locks)} locked"
    stranger.delete(other)


def test_RED_VOL_01(cay):
    """Two that read one volume hear nothing of each other and see no lock; one that dies leaves none."""
    vo = cay.call("POST", "/v1/volumes", {"name": "shared"})["id"]

    def has(read_only):
        return cay.create("hostile", volumes=[{"volume": vo, "path": "/etc/vol", "read_only": read_only}])
    box = has(False)
    assert cay.exec(box, ["/hostile", "disk", "data", "/etc/vol", "4096"], user="0").exit_code == 0
    events, locks = overheard(cay, box, cay, box, "0")
    assert {p for p in events & locks if p.startswith("/etc/vol/")}, "blind"
    run = cay.exec_detached(box, ["/hostile", "wiretap", "work"], user="0")
    lib.wait_for("the locks", lambda: b"serving" in cay.exec_output(box, run), PATIENCE_S)
    cay.delete(box)
    box = has(False)
    assert "/etc/vol" not in cay.exec(box, ["/hostile", "wiretap", "locks"], user="0").text
    cay.delete(box)
    one, two = has(True), has(True)
    events, locks = overheard(cay, one, cay, two, "0")
    assert not {p for p in events | locks if p.startswith("/etc/vol")}, events | locks
    for name in (one, two):
        cay.delete(name)
    cay.call("DELETE", f"/v1/volumes/{vo}")


def resident(r, box):
    """Pages of a file of the image in memory, as a sandbox sees it; None: not at all."""
    m = re.search(r"^resident (\d+)$", r.exec(box, ["/hostile", "wiretap", "mincore", "/big"], user="0").text, re.M)
    return int(m[1]) if m else None


def test_ESC_30_pages(row, boxes, cay, stranger):
    """Whether another tenant has read a file of the image both use: mincore tells nothing of it."""
    box, other = boxes("crun"), stranger.create("hostile", runtime="crun")
    big = max(cay.state.glob("images/**/big"), key=lambda p: p.stat().st_mtime)
    with row("crun", "root") as r, open(big, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = resident(r, box)
        stranger.exec(other, ["/hostile", "wiretap", "work"], user="0", timeout_ms=2000)
        f.read()
        r.check(resident(r, box) == before, f"{before} pages before, {resident(r, box)} after")
        r.detail = f"{before} pages"
    stranger.delete(other)


@pytest.mark.parametrize("what", ["ioctl", "socket", "oob", "crash"])
def test_ESC_31(row, boxes, runtime, priv, what):
    """Every ioctl number, every pair of type and protocol, MSG_OOB, crashes: the host runs nothing."""
    with row(runtime, priv) as r:
        r.hostile(boxes(runtime), "host", what, timeout_s=60)


def test_ESC_31_junk(row, boxes, runtime, priv):
    """Programs of no known format: nothing where kernel.modprobe is empty, as operations.md advises."""
    with row(runtime, priv, modprobe="") as r:
        r.hostile(boxes(runtime), "host", "junk", "40")


if GUEST and tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())) < (6, 14):
    def test_ESC_31_seen(boxes, cay):
        """The control of the row above: with a module loader this kernel starts it, and both counts tell."""
        box, t = boxes("crun"), Telltales()
        t.set()
        try:
            begin = forks()
            assert cay.exec(box, ["/hostile", "host", "junk", "20"], user="0").exit_code == 0
            assert sum("binfmt" in line for line in t.lines()) >= 20, t.lines()
            assert forks() - begin >= 2 * 20
        finally:
            t.reset()


LABELS = {"Labels": {"containerd.io/x": "$(touch /tmp/label)"}, "StopSignal": "SIGKILL; touch /tmp/stop",
          "Healthcheck": {"Test": ["CMD-SHELL", "touch /tmp/health"]}, "Entrypoint": ["/hostile", "replace"],
          "Volumes": {"/dev": {}, "/../../tmp": {}}, "ExposedPorts": {"0/raw": {}}, "OnBuild": ["RUN touch /tmp/onbuild"]}


@pytest.mark.images
def test_ESC_19(row, boxes, runtime, cay):
    """Metadata of an image is data."""
    odd = [dict(LABELS), {"Env": ["LD_PRELOAD=/hostile-trap.so", "PATH=/tmp", "HOME=/../..", "A"]}, {"Env": ["A=\n\nB=c", "=x"]},
           {"User": "root\n0"}, {"User": "0:0:0"}, {"WorkingDir": "/proc/self/fd/3"}, {"WorkingDir": "../../.."},
           {"WorkingDir": "/proc/1/root/.."}, {"Cmd": ["\0"]}, {"User": "user", "WorkingDir": "/workspace", "Env": ["A=b"] * 300}]
    with row(runtime) as r:
        for config in odd:
            name = next(iter(config))
            try_image(r, cay, boxes, runtime, f"{name}={config[name]!r:.60}", "either", lib.layout(hostile_entries(), config))
        # where commands start by default: PID 1's descriptors are not places
        for n in range(3, 12):
            image = cay.image_import(f"odd-{secrets.token_hex(4)}", lib.layout(hostile_entries(), {"WorkingDir": f"/proc/self/fd/{n}"}))
            box = boxes.fresh(runtime, image["name"])
            try:
                done = cay.exec(box, ["/hostile", "agent", "--list"])
                r.check(done.exit_code not in (0, None), f"started in descriptor {n} of PID 1")
            except lib.ApiError as e:
                r.check(e.status == 400, f"WorkingDir /proc/self/fd/{n}: {e}")
            cay.delete(box)
        r.detail = f"{len(odd) + 9} images"


# -- the program inside is the enemy

def behaviours():
    if not HOSTILE.exists():
        return []
    out = subprocess.run([HOSTILE, "agent", "--list"], capture_output=True, text=True, check=True).stdout
    return [line.split("|") for line in out.splitlines()]


@pytest.fixture(scope="session")
def hostile_cay(cay):
    """Daemons whose PID 1 is ours; the image says what it does."""
    with lib.Cay(BUILD, init=HOSTILE) as c:
        LIVE.append(c)
        yield c


# A reply whose head is good is passed on; what follows is the client's to check.
RELAYED = {"body for ever", "chunk of 4 GiB, 2 bytes", "chunk past 64 bits", "length of 8 EiB, 2 bytes",
           "answers for others too", "frame of an unknown type", "frame of 4 GiB", "exit status 2^31", "100,000 frames",
           "JSON a million deep", "JSON that is not UTF-8", "asks for the host's files"}


def rss_kib(pid):
    return int(status_of(pid)["VmRSS"].split()[0])


def ask(cay, box):
    """What a caller gets, typed or not, and how long it took."""
    begin = time.monotonic()
    try:
        reply = cay.open("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["/x"]}, {"Accept": lib.FRAMES}, DEADLINE_S + 5)
        try:
            outcome = (reply.status, reply.read(READ_MAX))
        except http.client.IncompleteRead as e:
            outcome = (reply.status, e.partial)
        finally:
            reply.close()
    except (OSError, http.client.HTTPException) as e:
        outcome = (None, repr(e).encode())
    return outcome, time.monotonic() - begin


def is_typed(status, data):
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return status >= 500 and isinstance(json.loads(data)["error"]["code"], str)
    return False


@pytest.mark.parametrize("number,when,what", behaviours(), ids=lambda v: v.replace(" ", "-")[:40])
def test_AGT_02(row, hostile_cay, number, when, what):
    """A PID 1 that lies: typed failure in time, no memory lost, nobody else hurt."""
    c = hostile_cay
    runtime = RUNTIMES[int(number) % len(RUNTIMES)]
    with row(runtime, "root", [c]) as r:
        c.image_import(f"agent-{number}", lib.layout([*hostile_entries(), lib.file("behaviour", number.encode())]))
        before, pids, begin = rss_kib(c.pids()["cayd"]), c.pids(), time.monotonic()
        try:
            box = c.create(f"agent-{number}", runtime=runtime)
            r.check(when == "exec", f"was taken for running: {box}")
        except lib.ApiError as e:
            r.check(when != "exec" and e.status >= 500 and e.code is not None, str(e))
            box = None
        r.check(time.monotonic() - begin <= CLAIM_S, f"create took {time.monotonic() - begin:.1f} s")
        if box:
            (status, data), spent = ask(c, box)
            r.check(is_typed(status, data) or (what in RELAYED and status in (200, 302, None)), f"{status} {data[:200]!r}")
            r.check(spent <= DEADLINE_S, f"{spent:.1f} s")
            r.oracle.saw(data)
            c.delete(box)
            r.detail = f"{what}: {status} in {spent:.1f} s"
        else:
            r.detail = f"{what}: refused in {time.monotonic() - begin:.1f} s"
        r.check(c.pids() == pids, f"daemons were {pids}, are {c.pids()}")
        grown = rss_kib(c.pids()["cayd"]) - before
        r.check(grown <= 8192, f"cayd grew by {grown} KiB")
        r.check(c.call("GET", "/v1/health", timeout_s=PATIENCE_S)["status"] == "ok", "health")


@pytest.mark.alone
def test_AGT_02_many(row, hostile_cay):
    """A hundred callers of a silent one: a neighbour's request is not held up."""
    c = hostile_cay
    number = next(n for n, _, what in behaviours() if what == "silent when asked")
    with row("crun", "root", [c]) as r:
        c.image_import("agent-silent", lib.layout([*hostile_entries(), lib.file("behaviour", number.encode())]))
        box = c.create("agent-silent", runtime="crun")
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            waiting = [pool.submit(ask, c, box) for _ in range(100)]
            took = []
            for _ in range(20):
                lib.let_pass(0.02)  # for the callers to come
                begin = time.monotonic()
                c.get(box)
                took.append(time.monotonic() - begin)
            c.delete(box)
            for future in waiting:
                r.check(future.result()[1] <= DEADLINE_S, "a caller was left waiting")
        # who is held up is so every time; a machine that stood still was once
        median = sorted(took)[len(took) // 2]
        r.check(median <= 1.0 * lib.SLOW, f"sandbox.get took {median:.2f} s beside them")
        r.detail = f"get {median * 1000:.0f} ms, the slowest {max(took) * 1000:.0f}"


def test_AGT_03(row, hostile_cay):
    """Names and paths that come from inside are never used by the host."""
    c = hostile_cay
    number = next(n for n, _, what in behaviours() if what == "asks for the host's files")
    with row("crun", "root", [c]) as r:
        c.image_import("agent-deputy", lib.layout([*hostile_entries(), lib.file("behaviour", number.encode())]))
        box = c.create("agent-deputy", runtime="crun")
        trace = f"/var/tmp/{c.name}.strace"
        strace = subprocess.Popen(["strace", "-f", "-qq", "-s", "256", "-e", "trace=%file,connect,sendto", "-o", trace,
                                   *(a for pid in c.pids().values() for a in ("-p", str(pid)))])
        try:
            lib.wait_for("strace", lambda: all("TracerPid:\t0" not in pathlib.Path(f"/proc/{pid}/status").read_text()
                                               for pid in c.pids().values()), PATIENCE_S)
            (status, data), _ = ask(c, box)
            r.oracle.saw(data)
            c.delete(box)
        finally:
            strace.terminate()
            strace.wait()
        text = pathlib.Path(trace).read_text()
        os.unlink(trace)
        r.check("shadow" not in text, [l for l in text.splitlines() if "shadow" in l][:3])
        r.check(text.count("(") >= 1, "strace saw nothing")
        r.detail = f"{status}, {len(text.splitlines())} calls seen"


# -- and what must go on working

DEB = """set -e
mkdir -p /tmp/p/DEBIAN /tmp/p/usr/bin
printf 'Package: cay-test\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: x\\n' >/tmp/p/DEBIAN/control
printf '#!/bin/sh\\necho installed\\n' >/tmp/p/usr/bin/cay-test
chmod 755 /tmp/p/usr/bin/cay-test
chown -R 0:0 /tmp/p
dpkg-deb --build /tmp/p /tmp/p.deb
dpkg -i /tmp/p.deb
cay-test
stat -c %U:%G /usr/bin/cay-test
"""


def test_package(row, boxes, runtime, cay):
    """Root inside installs a package: the walls are not so high that nobody can work."""
    base = BUILD.parent / "images/base"
    if not base.exists():
        pytest.skip("no build/images/base; `make image` makes it")
    if not any(i.get("name") == "base" for i in cay.call("GET", "/v1/images")["images"]):
        with lib.layout_of(base) as tar:
            cay.image_import("base", tar)
    with row(runtime, "root") as r:
        box = boxes.fresh(runtime, "base")
        done = r.exec(box, ["/bin/sh", "-c", DEB], user="root", timeout_s=120)
        r.check(done.exit_code == 0, f"{done.end} {done.stderr[-400:]!r}")
        r.check(b"installed\nroot:root\n" in done.stdout, f"{done.stdout[-200:]!r}")
        r.detail = "installed"
        cay.delete(box)


def test_users_of_image(row, boxes, runtime):
    """The passwd of the image decides who `user` is: the control of the rows above."""
    with row(runtime, "user") as r:
        done = r.exec(boxes(runtime), ["/hostile", "privs"], user="user")
        r.check("# own uid 1000 gid 1000" in done.text and b"user:x:1000:1000" in PASSWD, done.text[:200])
