# SPDX-License-Identifier: Apache-2.0
"""Terminals as PID 1 gives them: a pty, its size, who writes to it and who watches"""
import json
import os
import pathlib
import re
import struct
import threading

import pytest

from conftest import FULL, SANITIZED, Init, wait_for
from test_talk import DATA, END, EOF, ERROR, GAP, STDIN, STDOUT, TAKEN, Talk, frame

SIZE, ROLE = 7, 8
TTY = {"cols": 100, "rows": 30}


class Term(Talk):
    """One that is attached: where its output and its input stand, what it was told."""
    def __init__(self, init, ident, offset=0, role="auto", early=b""):
        self.next, self.out, self.lost = offset, bytearray(), 0
        self.stdin = self.sent = self.size = self.writes = self.end = None
        self.roles = []
        super().__init__(init, ident, f"?stdout_offset={offset}&role={role}", early)

    def step(self):
        got = self.frame()
        if got is None:
            return None
        kind, _, offset, content = got
        assert self.end is None, "nothing follows the end"
        if kind in (DATA, GAP):
            assert offset == self.next, "neither a hole nor twice"
            n = len(content) if kind == DATA else struct.unpack("<Q", content)[0]
            self.next += n
            self.lost += n if kind == GAP else 0
            self.out += content if kind == DATA else b""
        elif kind == SIZE:
            self.size = struct.unpack("<HH", content)
        elif kind == ROLE:
            self.writes, self.stdin = content == b"\1", offset
            self.roles.append((self.writes, offset))
        elif kind in (TAKEN, EOF):
            self.stdin = offset
        elif kind == END:
            self.end = json.loads(content)
        elif kind == ERROR:
            self.end = json.loads(content)["error"]
        return kind

    def until(self, pattern):
        while not re.search(pattern, self.out):
            try:
                assert self.step() is not None, bytes(self.out[-500:])
            except TimeoutError as e:
                raise AssertionError(f"{pattern} is not in {bytes(self.out[-500:])}") from e
        return re.search(pattern, self.out)

    def until_role(self, writes):
        while self.writes is not writes:
            assert self.step() is not None
        return self.stdin

    def type(self, data):
        self.until_role(True)
        at = self.stdin if self.sent is None else self.sent
        self.send(frame(DATA, STDIN, at, data))
        self.sent = at + len(data)

    def role(self, writes):
        self.send(frame(ROLE, 0, 0, bytes([writes])))

    def resize(self, cols, rows):
        self.send(frame(SIZE, 0, 0, struct.pack("<HH", cols, rows)))

    def to_the_end(self):
        while self.step() is not None:
            pass
        return self.end


def start(init, *argv, **fields):
    return init.client.detach(*argv, tty=fields.pop("tty", TTY), **fields)


def test_a_terminal_is_the_programs_own(init):
    r = init.client.sh("tty; stty size; echo $TERM; stat -c %u $(tty); echo into > $(tty); echo by > /dev/tty; test -t 2 && echo err",
                       tty={"cols": 91, "rows": 17, "term": "vt220"}, user="65534").json()
    lines = r["stdout"].split("\r\n")
    assert lines[0].startswith("/dev/pts/") and lines[1:] == ["17 91", "vt220", "65534", "into", "by", "err", ""]
    assert r["tty"] == {"cols": 91, "rows": 17, "term": "vt220"} and r["stderr_bytes"] == 0
    r = init.client.sh("stty size; echo $TERM", tty={}, env={"TERM": "mine"}).json()
    assert r["stdout"] == "24 80\r\nmine\r\n"


def test_what_it_has_by_default(init):
    r = init.client.sh("echo $TERM; stty -a", tty={}).json()
    assert r["stdout"].startswith("xterm-256color\r\n") and re.search(r"(?<!-)iutf8", r["stdout"])
    assert "tty" not in init.client.sh("true").json()


def test_bash_has_job_control(init):
    ident = start(init, "bash", "--norc", "-i", env={"PS1": "ready> "})
    t = Term(init, ident)
    t.until(rb"ready> ")
    assert b"job control" not in t.out
    t.type(b"while :; do echo tick; sleep 0.05; done | cat\n")
    t.until(rb"\ntick\r\n")
    t.type(b"\x1a")  # ctrl-z
    t.until(rb"(?s)Stopped.*ready> ")
    t.out.clear()
    t.type(b"fg\n")
    t.until(rb"\ntick\r\n")
    t.out.clear()
    t.type(b"\x03")  # ctrl-c
    t.until(rb"ready> ")
    t.type(b"echo status $?\n")
    t.until(rb"status 130")
    t.type(b"exit 7\n")
    assert t.to_the_end()["exit_code"] == 7


def test_the_size_is_its_writers(init):
    ident = start(init, "sh", "-c", "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done")
    t, watcher = Term(init, ident), Term(init, ident)
    t.until(rb"30 100")
    for b in frame(SIZE, 0, 0, struct.pack("<HH", 132, 50)):
        t.send(bytes([b]))
    t.until(rb"50 132")
    watcher.until(rb"50 132")
    assert t.size == watcher.size == (132, 50)
    r = init.client.exec(ident, "/resize", "POST", {"cols": 10, "rows": 5})
    assert r.status == 200 and r.json()["tty"]["cols"] == 10
    t.until(rb"5 10")
    watcher.resize(77, 7)  # it only watches
    watcher.role(True)
    watcher.until_role(True)
    assert init.client.exec(ident).json()["tty"]["cols"] == 10
    watcher.resize(66, 6)
    t.until(rb"6 66")
    assert b"7 77" not in t.out and t.size == (66, 6)
    init.client.exec(ident, "/signal", "POST", {"signal": "SIGKILL"})
    assert t.to_the_end()["signal"] == "SIGKILL"
    assert init.client.exec(ident, "/resize", "POST", {"cols": 10, "rows": 5}).status == 409


def test_one_writes_and_another_takes_over(init):
    ident = start(init, "sh", "-c", "stty -echo; echo up; cat")
    a, b = Term(init, ident), Term(init, ident)
    a.until(rb"up")
    b.until(rb"up")
    assert (a.until_role(True), b.until_role(False)) == (0, 0)
    b.send(frame(DATA, STDIN, 0, b"watchers say nothing\n"))
    a.type(b"one\n")
    b.until(rb"one\r\n")
    b.role(True)
    assert a.until_role(False) == b.until_role(True) == 4
    a.send(frame(DATA, STDIN, 4, b"not any more\n"))
    b.type(b"two\n")
    a.until(rb"two\r\n")
    c = Term(init, ident, role="take")
    assert c.until_role(True) == b.until_role(False) == 8
    c.role(False)
    c.until_role(False)
    d = Term(init, ident, role="watch")
    assert d.until_role(False) == 8  # nobody writes now, and it did not ask to
    assert init.client.exec(ident, "/stdin", "POST", b"three\n").status == 200
    d.until(rb"three\r\n")
    e = Term(init, ident)
    e.type(b"four\n\x04")
    assert init.client.exec(ident, "/stdin", "POST", b"five\n").status == 409
    assert e.to_the_end()["exit_code"] == 0
    assert e.out == b"up\r\none\r\ntwo\r\nthree\r\nfour\r\n"


def test_who_is_taken_over_in_the_middle(init):
    """Of what a terminal had no room for nothing goes in behind the takeover."""
    ident = start(init, "sh", "-c", "stty raw -echo; echo up; exec sleep 100")
    a, b = Term(init, ident), Term(init, ident)
    a.until(rb"up")
    a.until_role(True)
    a.send(frame(DATA, STDIN, 0, b"x" * 60000))
    b.role(True)
    at = b.until_role(True)
    assert a.until_role(False) == at < 60000
    a.role(True)
    assert a.until_role(True) == at  # it is read again


def test_a_slow_watcher(init):
    """It holds nobody back, and is told of every byte it did not get."""
    ident = start(init, "yes")
    slow, quick = Term(init, ident, role="watch"), Term(init, ident, role="watch")
    while quick.next < 6 << 20:
        assert quick.step() is not None
    while slow.next < quick.next:
        assert slow.step() is not None
    assert slow.lost + len(slow.out) == slow.next and slow.lost > 2 << 20
    assert set(slow.out) == set(b"y\r\n")
    init.client.exec(ident, "/signal", "POST", {"signal": "SIGKILL"})


def test_its_writer_is_waited_for(init):
    ident = start(init, "yes")
    t = Term(init, ident)
    t.until_role(True)

    def stopped():
        before = init.client.exec(ident).json()["stdout_bytes"]
        threading.Event().wait(0.3)
        return before == init.client.exec(ident).json()["stdout_bytes"]
    wait_for(stopped, 60, what="yes to wait for its writer")
    u = Term(init, ident, role="take")
    u.until_role(True)
    while u.next < 4 << 20:
        assert u.step() is not None
    while t.next < 2 << 20:  # who was taken over reads on, with its gaps said
        assert t.step() is not None
    init.client.exec(ident, "/signal", "POST", {"signal": "SIGKILL"})


FILL = """
import os, select, sys, tty
tty.setraw(1)
os.set_blocking(1, False)
n = since = 0
while since < 20:
    try:
        n += os.write(1, bytes(4096))
        since = 0
    except BlockingIOError:
        since += 1
        select.select([], [], [], 0.02)
open(sys.argv[1], "w").write(str(n))
"""


def test_the_end_comes_behind_the_last_output(init):
    """All that fits was written, and its program is dead, before anybody reads."""
    told = pathlib.Path(init.dir, "n")
    ident = start(init, "python3", "-c", FILL, str(told))
    t = Term(init, ident)
    t.until_role(True)
    wait_for(lambda: told.exists() and told.read_text() and not init.processes(), 60, what="its death")
    assert t.to_the_end()["exit_code"] == 0
    assert not t.lost and t.out == bytes(int(told.read_text()))
    again = Term(init, ident, offset=t.next - 9000)
    again.to_the_end()
    assert again.out == bytes(9000)


def test_who_is_left_behind(init):
    """Those in front hear SIGHUP; the end does not wait for who ignores it."""
    hup, still, ready = (pathlib.Path(init.dir, name) for name in ("hup", "still", "ready"))
    os.chmod(init.dir, 0o777)
    ident = start(init, "sh", "-c", f"(trap 'echo hup > {hup}; exit' HUP; echo > {ready}; while :; do sleep 0.05; done) & "
                  f"(trap '' HUP; while :; do sleep 0.05; echo noise; echo x > {still}; done) & "
                  f"until [ -e {ready} -a -e {still} ]; do sleep 0.02; done; exit 3")
    t = Term(init, ident)
    assert t.to_the_end()["exit_code"] == 3
    wait_for(hup.exists, what="SIGHUP")
    still.unlink(missing_ok=True)
    wait_for(still.exists, what="the one that ignores it")


def test_to_come_back_loses_nothing(init):
    n = 20000
    ident = start(init, "sh", "-c", f"stty -opost; seq {n}", output="spool")
    at, got = 0, b""
    while True:
        t = Term(init, ident, offset=at)
        while t.step() is not None and len(t.out) < 10000:
            pass
        got += t.out
        at = t.next
        t.s.close()
        if t.end:
            break
    assert got == b"".join(b"%d\n" % i for i in range(1, n + 1))


@pytest.mark.parametrize("bad", [frame(EOF, STDIN, 0), frame(SIZE, 0, 0, bytes(4)), frame(ROLE, 0, 0, b"\2"), frame(SIZE, 0, 1, b"\1\0\1\0"),
                                 frame(SIZE, 1, 0, b"\1\0\1\0"), frame(ROLE, 0, 0, b"\1\1"), frame(DATA, STDIN, 1, b"x")],
                         ids=["eof", "no size", "no role", "size at an offset", "size of a stream", "long role", "too far"])
def test_whoever_asks_keeps_the_rules(init, bad):
    ident = start(init, "cat")
    t = Term(init, ident, early=bad)
    assert t.to_the_end()["code"] in ("invalid_argument", "conflict")
    assert init.client.exec(ident).json()["state"] == "running"


def test_what_has_no_terminal(init):
    ident = init.client.detach("cat", stdin_open=True)
    assert init.client.exec(ident, "/resize", "POST", {"cols": 1, "rows": 1}).error()[:2] == (409, "wrong_state")
    for f in frame(SIZE, 0, 0, b"\1\0\1\0"), frame(ROLE, 0, 0, b"\1"):
        assert Term(init, ident, early=f).to_the_end()["code"] == "invalid_argument"
    assert init.client.run("cat", tty={}, stdin="x").error() == (400, "invalid_argument", "stdin")
    assert init.client.run("cat", tty={"cols": 0}).error()[0] == 400
    assert init.client.run("cat", tty={"rows": 65536}).error()[0] == 400
    ident = start(init, "cat")
    assert init.client.exec(ident, "/stdin?close=true", "POST", b"x").error() == (400, "invalid_argument", "close")
    assert init.client.exec(ident, "/resize", "POST", {"cols": 1}).error()[0] == 400


def test_many(init):
    """What an idle terminal costs PID 1, and that a thousand are no more than that."""
    per = 60
    inits = [init] + [Init() for _ in range(16 if FULL else 0)]
    try:
        terms = []
        for i in inits:
            before = i.rss()
            idents = [start(i, "sh", "-c", "echo up; exec sleep 1000") for _ in range(per)]
            mine = [Term(i, ident) for ident in idents]
            for t in mine:
                t.until(rb"up")
            assert SANITIZED or (i.rss() - before) / per < 24 << 10, (i.rss() - before) / per
            terms += mine
        print(f"{len(terms)} terminals, {(inits[-1].rss() - before) // per} bytes each")
        assert len(terms) >= (1000 if FULL else 60)
        for n, t in enumerate(terms):
            t.type(b"line %d\n" % n)
        for n, t in enumerate(terms):
            t.until(rb"line %d\r\n" % n)
            t.s.close()
    finally:
        for i in inits[1:]:
            i.stop()
