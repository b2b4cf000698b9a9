# SPDX-License-Identifier: Apache-2.0
"""FS-03: files that never end, are none, or change while they are read

Whoever reads one has an answer at once, or a stream that goes on as long as it is taken; neither PID 1
nor its child grows by it, a command beside it is not held up, and no child is left.
"""
import contextlib
import http.client
import os
import socket
import stat as modes
import threading
import time

import pytest

from client import Client, Connection
from conftest import SANITIZED, wait_for
from test_files import AT, place, q, workers  # noqa: F401

SOON = 2  # seconds
GROWTH = 4 << 20
TAKEN = 8 << 20  # of what does not end
MIB = 1 << 20
EDITED = 16 * MIB


def nodes(place):
    """Where each of them is."""
    os.mkfifo(place / "fifo")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        s.bind(str(place / "socket"))
    for name, minor in (("zero", 5), ("random", 9), ("kmsg", 11)):
        os.mknod(place / name, modes.S_IFCHR | 0o666, os.makedev(1, minor))
    with (place / "sparse").open("wb") as f:
        f.truncate(1 << 40)
    return [*sorted(place.iterdir()), "/proc/self/mem", "/proc/self/pagemap", "/proc/kpageflags"]


def asks(path):
    return {
        "read": ("GET", "/content" + q(path), None), "range": ("GET", "/content" + q(path), {"Range": "bytes=1000000-"}),
        "view": ("GET", "/view" + q(path), None), "tail": ("GET", "/view" + q(path, tail="true"), None),
        "stat": ("GET", "/stat" + q(path), None), "tree": ("GET", "/tree" + q(path), None), "tar.gz": ("GET", "/tree" + q(path, format="tar.gz"), None),
        "list": ("GET", q(os.path.dirname(path)), None), "glob": ("GET", "/glob" + q(os.path.dirname(path), pattern="*"), None),
        "grep": ("POST", "/grep", {"path": str(path), "pattern": "x"}),
        "edit": ("POST", "/edit", {"path": str(path), "edits": [{"old": "x", "new": "y"}]}),
    }


def grown(init, before):
    """By how much PID 1, and the largest of its children, are larger than it was."""
    sizes = [init.rss()]
    for p in workers(init):
        with contextlib.suppress(OSError, StopIteration), open(f"/proc/{p}/status") as f:  # it may be gone
            sizes.append(int(next(line for line in f if line.startswith("VmRSS")).split()[1]) * 1024)
    return max(sizes) - before


def judged(what, promise, tries=3):
    """The promise is held by one of a few: a machine may stand still."""
    took = []
    while len(took) < tries:
        took.append(promise())
        if max(took[-1]) <= SOON:
            return took[-1]
    pytest.fail(f"{what}: {took} s")


def one(init, path, op, before):
    """How long until an answer, until all that is taken of it, and of a command beside it."""
    method, target, more = asks(path)[op]
    client = Client(init.client.path, 30)
    wait_for(lambda: not workers(init), what="the end of the one before")
    began = time.monotonic()
    with client.open(method, AT + target, more if method == "POST" else None, more if method == "GET" else None) as r:
        head = time.monotonic() - began
        taken = 0
        while taken < TAKEN and time.monotonic() - began < SOON / 2 and (piece := r.read(65536)):
            taken += len(piece)
        body = time.monotonic() - began
        # an edit has all of a file in memory: as much as can be edited, of one that does not end
        assert SANITIZED or grown(init, before) <= GROWTH + (EDITED if op == "edit" else 0), (path, op)
        began = time.monotonic()
        assert init.client.run("true").json()["end"]["exit_code"] == 0
        beside = time.monotonic() - began
        assert r.status < 500, (path, op, r.status)
    return head, body, beside


def test_no_file_holds_anybody_up(init, place):
    before, worst = init.rss(), (0, 0, 0)
    for path in nodes(place):
        for op in asks(path):
            took = judged(f"{op} of {path}", lambda: one(init, path, op, before))
            worst = tuple(map(max, worst, took))
    wait_for(lambda: not workers(init), what="no child")
    assert SANITIZED or init.rss() <= before + GROWTH
    # nor is a disk filled by one that has no size
    r = init.client.ask("POST", AT + "/copy", {"path": "/proc/self/pagemap", "to": f"{place}/copy"})
    assert r.error()[:2] == (413, "too_large") and not (place / "copy").exists()
    assert init.client.ask("POST", AT + "/copy", {"path": "/proc/meminfo", "to": f"{place}/copy"}).status == 200
    assert (place / "copy").read_text().startswith("MemTotal:")
    # as a user: PID 1 of a test could read it
    assert init.client.ask("POST", "/v1/claim", {"user": "65534", "cwd": str(place)}).status in (200, 204)
    for op in asks("/proc/kmsg"):
        judged(f"{op} of kmsg", lambda: one(init, "/proc/kmsg", op, before))
    print(f"\n# FS-03: an answer after {worst[0] * 1000:.0f} ms, what is taken of it {worst[1] * 1000:.0f} ms, a command beside it {worst[2] * 1000:.0f} ms, at worst")


@pytest.mark.parametrize("what, whole", [("grows", True), ("shrinks", False), ("deleted", True), ("replaced", True)])
def test_a_file_that_changes_meanwhile(init, place, what, whole):
    """What was asked for is sent as it was, or the answer ends early; a command beside it is not held up."""
    path, size, over = place / "f", 64 * MIB, threading.Event()
    with path.open("wb") as f:
        f.truncate(size)
    before = init.rss()

    def grow():
        with path.open("ab") as f:
            while not over.is_set() and f.tell() < 2 * size:
                f.write(bytes(65536))

    grower = threading.Thread(target=grow)
    with contextlib.closing(Connection(init.client.path, 60)) as c:
        c.request("GET", AT + "/content" + q(path))
        r = c.getresponse()
        assert len(r.read(MIB)) == MIB
        if what == "grows":
            grower.start()
        elif what == "shrinks":
            os.truncate(path, 2 * MIB)
        else:
            (place / "g").write_bytes(b"new")
            (place / "g").replace(path) if what == "replaced" else path.unlink()

        def beside():
            began = time.monotonic()
            assert init.client.run("true").json()["end"]["exit_code"] == 0
            return [time.monotonic() - began]
        judged("a command beside it", beside)
        assert SANITIZED or grown(init, before) <= GROWTH
        try:
            got = MIB + len(r.read())
        except http.client.IncompleteRead as e:
            got = MIB + len(e.partial)
    over.set()
    if grower.ident:
        grower.join()
    assert (got == size) == whole and got <= size, got
    wait_for(lambda: not workers(init), what="no child")
