# SPDX-License-Identifier: Apache-2.0
"""exec.attach as PID 1 speaks it: bare frames on an upgraded connection"""
import contextlib
import json
import os
import pathlib
import socket
import sys

import pytest

from client import SANDBOX
from conftest import wait_for

sys.path.append(str(pathlib.Path(__file__).parents[2] / "lib"))
from attach import (DATA, END, EOF, ERROR, FRAME_MAX, GAP, STDERR, STDIN, STDOUT, TAKEN, frame, parse)  # noqa: E402


class Talk:
    def __init__(self, init, ident, query="", early=b""):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(init.client.path)
        self.s.sendall(f"GET {SANDBOX}/execs/{ident}/attach{query} HTTP/1.1\r\nHost: sandbox\r\nConnection: upgrade\r\n"
                       "Upgrade: cay-frames\r\n\r\n".encode() + early)
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.s.recv(65536)
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ") and b"Upgrade: cay-frames" in head, head

    def frame(self):
        """None at the end of the connection."""
        def have(n):
            while len(self.rest) < n:
                piece = self.s.recv(1 << 18)
                if not piece:
                    return False
                self.rest += piece
            return True
        if not have(16):
            assert not self.rest
            return None
        n = 16 + int.from_bytes(self.rest[4:8], "little")
        assert have(n)
        got, self.rest = self.rest[:n], self.rest[n:]
        return parse(got)

    def all(self):
        return list(iter(self.frame, None))

    def send(self, *frames):
        self.s.sendall(b"".join(frames))


def joined(frames, stream):
    return b"".join(f[3] for f in frames if f[0] == DATA and f[1] == stream)


def test_without_the_upgrade_it_is_refused(init):
    ident = init.client.detach("/bin/sleep", "100")
    assert init.client.exec(ident, "/attach").error()[:2] == (426, "upgrade_required")
    r = init.client.exec(ident, "/attach", headers={"Connection": "upgrade", "Upgrade": "websocket"})
    assert r.error()[:2] == (426, "upgrade_required")
    assert init.client.exec("ex" + "0" * 23 + "1", "/attach").status == 404


def test_a_byte_at_a_time(init):
    ident = init.client.detach("/bin/cat", stdin_open=True)
    t = Talk(init, ident, early=frame(DATA, STDIN, 0, b"ear")[:17])
    for b in frame(DATA, STDIN, 0, b"ear")[17:] + frame(DATA, STDIN, 3, b"ly") + frame(EOF, STDIN, 5):
        t.send(bytes([b]))
    got = t.all()
    assert got[0][:2] == (TAKEN, STDIN)
    assert joined(got, STDOUT) == b"early" and got[-1][0] == END and json.loads(got[-1][3])["exit_code"] == 0
    assert (EOF, STDIN, 5, b"") in got


def test_offsets_and_gaps(init):
    """What was dropped is said, to the byte."""
    n = 4 << 20
    ident = init.client.detach("/bin/sh", "-c", f"head -c {n} /dev/zero; echo err >&2", output="drop")
    wait_for(lambda: init.client.exec(ident).json()["state"] == "ended", what="its end")
    got = Talk(init, ident).all()
    lost = sum(int.from_bytes(f[3], "little") for f in got if f[0] == GAP)
    assert lost and lost + len(joined(got, STDOUT)) == n and joined(got, STDERR) == b"err\n"
    got = Talk(init, ident, f"?stdout_offset={n - 5}&stderr_offset=2").all()
    assert joined(got, STDOUT) == bytes(5) and joined(got, STDERR) == b"r\n"
    assert [f[0] for f in Talk(init, ident, f"?stdout_offset={n}&stderr_offset=4").all()] == [EOF, END]


@pytest.mark.parametrize("bad", [b"x" * 16, frame(DATA, STDOUT, 0, b"x"), frame(DATA, STDIN, 0, length=FRAME_MAX + 1), frame(END, 0, 0, b"{}"),
                                 frame(DATA, STDIN, 1, b"x"), frame(EOF, STDIN, 1), frame(TAKEN, STDOUT, 0), bytes(16)],
                         ids=["garbage", "output", "too long", "an end", "too far", "an early eof", "an ack", "zeroes"])
def test_whoever_asks_keeps_the_rules(init, bad):
    ident = init.client.detach("/bin/cat", stdin_open=True)
    t = Talk(init, ident)
    t.send(bad, frame(DATA, STDIN, 0, b"not looked at"))
    got = t.all()
    assert [f[0] for f in got] == [TAKEN, ERROR] and "error" in json.loads(got[1][3])
    assert init.client.exec(ident).json()["stdout_bytes"] == 0


def test_two_who_write(init):
    """exec.stdin and attach count the same bytes; one at a time."""
    ident = init.client.detach("/bin/cat", stdin="first ", stdin_open=True)
    t = Talk(init, ident)
    assert t.frame() == (TAKEN, STDIN, 6, b"")
    assert init.client.exec(ident, "/stdin", "POST", b"second ").status == 200
    t.send(frame(DATA, STDIN, 13, b"third"))
    t.send(frame(DATA, STDIN, 18, b"held")[:-1])  # not whole: it is still writing
    wait_for(lambda: init.client.exec(ident, "/stdin", "POST", b"x").status == 409, what="it to be held")
    u = Talk(init, ident)
    u.send(frame(DATA, STDIN, 21, b"x"))
    assert [f[0] for f in u.all()][-1] == ERROR
    t.s.close()
    wait_for(lambda: init.client.exec(ident, "/stdin?close=true", "POST", b"!").status == 200, what="it to be let go")
    assert init.client.output(ident, follow="true").read() == b"first second thirdhel!"


def test_what_was_on_its_way_is_kept_for_who_acks(init):
    data = os.urandom(3 << 20)
    (pathlib.Path(init.dir) / "data").write_bytes(data)
    os.chmod(init.dir, 0o755)
    ident = init.client.detach("/bin/cat", init.dir + "/data", output="block")
    got = b""
    while True:
        t, n = Talk(init, ident, f"?stdout_offset={len(got)}&acks=true"), 0
        for kind, stream, offset, content in iter(t.frame, None):
            assert kind not in (GAP, ERROR)
            if kind == DATA:
                assert offset == len(got)
                got += content
                with contextlib.suppress(BrokenPipeError):
                    t.send(frame(TAKEN, STDOUT, len(got)))
                n += len(content)
            if n > 300000:
                break
        t.s.close()
        if kind == END:
            break
    assert got == data


def test_a_slow_reader_and_a_fast_command(init):
    ident = init.client.detach("/bin/sh", "-c", "head -c 20000000 /dev/zero", output="block")
    t = Talk(init, ident)
    before, same = -1, 0

    def stuck():
        nonlocal before, same
        now = init.client.exec(ident).json()["stdout_bytes"]
        same, before = same + 1 if now == before > 0 else 0, now
        return same > 20
    wait_for(stuck, what="it to wait")
    assert before < 8 << 20 and init.small()
    assert len(joined(t.all(), STDOUT)) == 20000000
    wait_for(init.small, what="its memory")


def test_those_that_are_forgotten_disturb_nobody(init):
    """Numbers of fds are used again: what belongs to an old command must not be closed by number."""
    for _ in range(5):
        init.client.run("/bin/true")
    ident = init.client.detach("/bin/cat", stdin_open=True)
    talks = [Talk(init, ident) for _ in range(12)]
    for t in talks:
        t.frame()
    for _ in range(270):  # more than are kept
        init.client.run("/bin/true")
    for at, t in enumerate(talks):
        t.send(frame(DATA, STDIN, at, b"x"))
        got = 0
        while got <= at:
            kind, _, offset, content = t.frame()
            assert kind in (DATA, TAKEN)
            got = offset + len(content) if kind == DATA else got
