# SPDX-License-Identifier: Apache-2.0
"""Files that take their time: a directory of a million entries, a disk that stalls. Nobody else waits for them."""
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time

import pytest

import stalled_disk
from client import SANDBOX, Client, Connection
from conftest import FULL, SANITIZED, Init, wait_for
from test_files import AT, place, q, read, workers  # noqa: F401
from test_files_write import names, write
from test_tree import R, tar

SOON = 10  # seconds; an exec and a kill take some milliseconds
GROWTH = 8 << 20


def run_and_kill(init):
    """A command from its start to its end, and the end of one that would not end: both soon."""
    began = time.monotonic()
    assert init.client.run("true").json()["end"]["exit_code"] == 0
    ident = init.client.detach("sleep", "1000")
    assert init.client.exec(ident, "/signal", "POST", {"signal": "KILL"}).status == 200
    wait_for(lambda: init.client.exec(ident).json().get("end"), SOON, "the end of a killed exec")
    took = time.monotonic() - began
    assert took < SOON
    return took


# a large directory


@pytest.fixture(scope="module")
def many():
    """Where it is, and how many are in it; on tmpfs."""
    n = 1_000_000 if FULL else 50_000
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        os.chmod(top, 0o755)
        at = top + "/many"
        os.mkdir(at)
        fd = os.open(at, os.O_RDONLY)
        for i in range(n):
            os.mknod(f"e{i}", dir_fd=fd)
        os.close(fd)
        yield at, n


def listed(client, at, n, **more):
    r = client.ask("GET", AT + q(at, limit=10000, **more)).json()
    assert len(r["entries"]) == 10000 and r["truncated"] is True


def globbed(client, at, n):
    r = client.ask("GET", AT + "/glob" + q(at, pattern="e*")).json()
    assert len(r["files"]) == 100 and r["total"] == n


def grepped(client, at, n):
    r = client.ask("POST", AT + "/grep", {"path": at, "pattern": "x"}).json()
    assert (r["hits"], r["truncated"]) == ([], False)


def packed(client, at, n):
    got = 0
    with client.open("GET", AT + "/tree" + q(at)) as r:
        assert r.status == 200
        while piece := r.read(1 << 20):
            got += len(piece)
    assert got >= 512 * (n + 1)


def watched(client, at, n):
    r = client.ask("GET", AT + "/watch" + q(at, wait_ms=1)).json()
    assert r["events"][0]["event"] == "ready"


LOOKS = {
    "list": listed,
    "list deep": lambda c, at, n: listed(c, os.path.dirname(at), n, depth=3),
    "glob": globbed,
    "grep": grepped,
    "tree": packed,
    "watch": watched,
}


@pytest.mark.parametrize("what", LOOKS)
def test_a_large_directory_delays_neither_run_nor_kill(init, many, what):
    """Two look at it all the time; PID 1 does not grow by what they find, and what is cut says so."""
    at, n = many
    client = Client(init.client.path, 300)
    LOOKS[what](client, at, n)
    alone, before, over, looks, failed = run_and_kill(init), init.rss(), threading.Event(), [], []

    def look():
        try:
            while not over.is_set():
                LOOKS[what](client, at, n)
                looks.append(1)
        except Exception as e:  # told in the test's own thread
            failed.append(e)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for t in threads:
        t.start()
    most, slowest = 0, 0.0
    for _ in range(20 if FULL else 5):
        slowest = max(slowest, run_and_kill(init))
        most = max(most, init.rss())
    over.set()
    for t in threads:
        t.join()
    assert not failed and looks, failed
    assert SANITIZED or most <= before + GROWTH
    wait_for(lambda: not workers(init), what="no child")
    print(f"\n# {what} of {n}: run and kill {alone * 1000:.0f} ms alone, {slowest * 1000:.0f} ms at worst meanwhile; "
          f"PID 1 +{max(0, most - before) >> 10} KiB")


# a disk that stalls


@contextlib.contextmanager
def machine(**how):
    """A PID 1 that sees such a disk.  It is torn out before PID 1 is stopped: a process that waits for a disk does not end."""
    try:
        with stalled_disk.disk(**how) as disk:
            init = Init()
            try:
                yield init, disk
            finally:
                disk.thaw()
                wait_for(lambda: not workers(init), 10, "no child")
                init.stop()
    except stalled_disk.Unavailable as e:
        if os.environ.get("CAY_MUST_WORK"):
            raise
        pytest.skip(f"no FUSE: {e}")


def asked(init, method, target, body=None):
    """Sent, and not waited for."""
    c = Connection(init.client.path, 30)
    c.request(method, target, body=body, headers={"Content-Type": "application/json"} if body and method == "POST" else {})
    return c


def waiting_on(init, at, elsewhere):
    """One of each kind, all of which want something of the disk's."""
    return [
        asked(init, "GET", AT + "/content" + q(at / "file")),
        asked(init, "GET", AT + "/view" + q(at / "file")),
        asked(init, "GET", AT + q(at / "dir")),
        asked(init, "GET", AT + "/glob" + q(at / "dir", pattern="**/*")),
        asked(init, "GET", AT + "/tree" + q(at / "dir")),
        asked(init, "PUT", AT + "/content" + q(at / "new"), b"x" * 100_000),
        asked(init, "PUT", AT + "/tree" + q(at), tar((R, "newer", b"x" * 100_000))),
        asked(init, "POST", AT + "/grep", b'{"pattern": "x", "path": "%s/dir"}' % os.fsencode(at)),
        asked(init, "POST", AT + "/edit", b'{"path": "%s/file", "edits": [{"old": "x", "new": "y"}]}' % os.fsencode(at)),
        asked(init, "POST", AT + "/copy", b'{"path": "%s/other", "to": "%s/never"}' % (os.fsencode(at), os.fsencode(elsewhere))),
    ]


def held_up(init):
    """Those that wait for the disk, or for one who does."""
    found = []
    for p, state in init.children():
        with contextlib.suppress(OSError), open(f"/proc/{p}/stack") as f:
            found += [p] * (state == "D" or "fuse" in f.read())
    return found


def unkillable(init):
    """Those that have their SIGKILL and live."""
    found = []
    for p, state in init.children():
        with contextlib.suppress(OSError), open(f"/proc/{p}/status") as f:  # it may be gone
            fields = dict(line.split(":", 1) for line in f.read().splitlines())
            pending = int(fields["ShdPnd"], 16) | int(fields["SigPnd"], 16)
            found += [p] * (state == "D" and pending >> signal.SIGKILL - 1 & 1)
    return found


@pytest.mark.parametrize("taken", [True, False], ids=["dead", "deaf"])
def test_a_stalled_disk_delays_nobody_else(taken, place):
    """Whoever waits for it goes with its client; who cannot even be killed goes when the disk is back."""
    (place / "f").write_bytes(b"elsewhere")
    with machine(taken=taken) as (init, disk):
        waiting = waiting_on(init, disk.at, place)
        wait_for(lambda: len(held_up(init)) == len(waiting), what=lambda: f"{init.children()} wait, {disk.held}")
        for _ in range(3):
            run_and_kill(init)
        assert read(init, place / "f").body == b"elsewhere"
        assert write(init, place / "g", b"new").status == 200
        for c in waiting:
            c.close()
        if taken:
            wait_for(lambda: len(unkillable(init)) == len(workers(init)) > 0, what="SIGKILL for all of them")
            run_and_kill(init)
            disk.thaw()
        wait_for(lambda: not workers(init), SOON, "no child")
        run_and_kill(init)
        assert names(place) == ["f", "g"] and not disk.made


def test_the_time_limit_is_kept_on_a_stalled_disk():
    with machine() as (init, disk):
        began = time.monotonic()
        r = init.client.ask("GET", AT + q(disk.at / "dir", timeout_ms=500))
        assert r.error()[:2] == (504, "deadline_exceeded") and time.monotonic() - began < SOON
        wait_for(lambda: len(unkillable(init)) == 1, what="SIGKILL")
        run_and_kill(init)


def test_a_stalled_disk_takes_all_places_and_gives_them_back():
    """64 wait for it: one more is told so, whatever it wants; commands are no part of that."""
    with machine() as (init, disk):
        waiting = [asked(init, "GET", AT + "/content" + q(disk.at / "file")) for _ in range(64)]
        wait_for(lambda: len(held_up(init)) == 64, 30, "all wait")
        r = read(init, "/etc/passwd")
        assert r.error()[:2] == (503, "overloaded")
        run_and_kill(init)
        for c in waiting:
            c.close()
        disk.thaw()
        wait_for(lambda: read(init, "/etc/passwd").status == 200, SOON, "room")


def test_commands_on_a_stalled_disk(place):
    """One that reads of it, one that is to start in it: they wait, the others do not; both end when it is back."""
    with machine(hold=stalled_disk.CONTENT | {stalled_disk.ACCESS}) as (init, disk):
        reader = init.client.detach("cat", f"{disk.at}/file")
        starter = asked(init, "POST", SANDBOX + "/execs", b'{"argv": ["true"], "cwd": "%s/dir"}' % os.fsencode(disk.at))
        wait_for(lambda: {stalled_disk.READ, stalled_disk.ACCESS} <= set(disk.held.values()), what="both wait")
        run_and_kill(init)
        assert init.client.exec(reader, "/signal", "POST", {"signal": "KILL"}).status == 200
        run_and_kill(init)
        disk.thaw()
        wait_for(lambda: init.client.exec(reader).json().get("end"), SOON, "the end of the reader")
        assert starter.getresponse().status == 400  # of what was read of it nothing came


def test_a_command_that_never_was_and_a_busy_cgroup(place):
    """Its cgroup goes when the last of it is gone, and not with the sandbox."""
    with machine(hold={stalled_disk.ACCESS}) as (init, disk):
        starter = asked(init, "POST", SANDBOX + "/execs", b'{"argv": ["true"], "cwd": "%s/dir", "timeout_ms": 600000}' % os.fsencode(disk.at))
        wait_for(lambda: stalled_disk.ACCESS in disk.held.values(), what="it to be on its way")
        with subprocess.Popen(["sleep", "1000"]) as other:
            [name] = init.groups()
            (init.cgroup / name / "cgroup.procs").write_text(str(other.pid))
            disk.thaw()
            assert starter.getresponse().status == 400
            wait_for(lambda: not init.children(), what="its end")
            assert init.client.ask("GET", SANDBOX + "/execs").json()["execs"] == [] and init.groups() == [name]
            other.kill()
        wait_for(lambda: init.groups() == [], what="no cgroup")
        run_and_kill(init)
