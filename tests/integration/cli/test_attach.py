# SPDX-License-Identifier: Apache-2.0
"""cay attach against a daemon that does not behave: one message, no crash, no wait, no memory without bound"""
import json
import os
import pty
import re
import select
import struct
import subprocess
import time

import pytest

from fake import DATA, END, ERROR, GAP, end_frame, frame, new_id, reply
from test_hostile import box

EX = new_id("ex")
TAKEN, EOF, SIZE, ROLE = 5, 6, 7, 8
UP = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: cay-frames\r\n\r\n"
FIRST = frame(TAKEN, 0, 0, b"")
OUT = frame(DATA, 1, 0, b"out")
DONE = end_frame(reason="exit", exit_code=3)
PATIENCE_S = 0.9  # less than the second of silence after which it goes


@pytest.fixture
def running(daemon):
    """The name of a sandbox whose exec answers this to who attaches, with a terminal or without."""
    def go(answer, tty):
        sandbox = json.loads(box().split(b"\r\n\r\n", 1)[1])
        name = sandbox["sandboxes"][0]["id"]
        e = {"id": EX, "state": "running", "started_at": "2026-11-15T01:50:43.123Z"}
        daemon.say["GET", "/v1/sandboxes/*"] = reply(200, sandbox["sandboxes"][0])
        daemon.say["GET", "/v1/sandboxes/*/execs/*"] = reply(200, {**e, "tty": {"cols": 80, "rows": 24}} if tty else e)
        daemon.say["GET", "/v1/sandboxes/*/execs/*/attach"] = answer
        return name
    return go


@pytest.fixture
def attached(running, cay):
    """What cay makes of these bytes."""
    def go(answer, tty=False, data=b"", words=()):
        return cay("attach", *words, running(answer, tty), EX, data=data, text=False)
    return go


def test_all_is_well(attached):
    r = attached(UP + FIRST + OUT + frame(DATA, 2, 0, b"err") + DONE)
    assert (r.returncode, r.stdout, r.stderr) == (3, b"out", "err")
    r = attached(UP + FIRST + frame(SIZE, 0, 0, struct.pack("<HH", 80, 24)) + frame(ROLE, 0, 0, b"\1") + OUT + DONE, tty=True)
    assert (r.returncode, r.stdout, r.stderr) == (3, b"out", "")
    r = attached(UP + FIRST + frame(GAP, 1, 0, struct.pack("<Q", 7)) + frame(DATA, 1, 7, b"x") + DONE)
    assert r.returncode == 3 and r.stdout == b"x" and "7 bytes" in r.stderr


BAD = {
    "garbage": UP + b"\x1b[31mgarbage and more of it",
    "of another way": UP + frame(DATA, 0, 0, b"x"),
    "a hole": UP + FIRST + frame(DATA, 1, 1, b"x"),
    "twice": UP + FIRST + OUT + OUT,
    "too long": UP + FIRST + struct.pack("<BBHIQ", DATA, 1, 0, 65537, 0),
    "a gap of nothing": UP + FIRST + frame(GAP, 1, 0, bytes(8)),
    "an end that is none": UP + FIRST + frame(END, 0, 0, b'{"reason":"exit"}'),
    "an end of garbage": UP + FIRST + frame(END, 0, 0, b"{\x1b}"),
    "an error": UP + frame(ERROR, 0, 0, json.dumps({"error": {"code": "conflict", "message": "\x1b[31m", "hint": "", "retryable": False}}).encode()),
    "taken too much": UP + FIRST + frame(TAKEN, 0, 1 << 40, b""),
    "no upgrade": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "not asked for": UP.replace(b"cay-frames", b"websocket") + FIRST + DONE,
    "no name": UP.replace(b"Upgrade: cay-frames\r\n", b"") + FIRST + DONE,
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_answer_to_this_upgrade(attached, name):
    r = attached(BAD[name], tty=name.startswith("taken"))
    if name.startswith("taken"):  # said to who does not write, it says nothing
        r = attached(BAD[name])
    assert 0 < r.returncode < 64 and re.search("^cay: ", r.stderr, re.M) and "\x1b" not in r.stderr, (r.returncode, r.stderr)


def test_it_comes_back_where_it_was(attached, daemon):
    asked = []

    def answer(connection, *_):
        asked.append(1)
        connection.sendall(UP + FIRST + (OUT if len(asked) == 1 else frame(DATA, 1, 3, b"side") + DONE))
    r = attached(answer)
    assert (r.returncode, r.stdout) == (3, b"outside") and len(asked) == 2


def test_news_of_input_that_nobody_reads_any_more(attached):
    """It closed its standard input, and what it had taken before is told late."""
    def answer(connection, f):
        connection.sendall(UP + FIRST)
        while (kind := struct.unpack("<BBHIQ", f.read(16)))[0] != DATA:
            f.read(kind[3])
        f.read(kind[3])
        connection.sendall(frame(EOF, 0, 0, b"") + frame(TAKEN, 0, 2, b"") + frame(TAKEN, 0, 3, b"") + OUT + DONE)
    r = attached(answer, data=b"abc")
    assert (r.returncode, r.stdout, r.stderr) == (3, b"out", "")


def heard(fd, seconds):
    """What is written to a terminal within this time."""
    said, until = b"", time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and select.select([fd], [], [], left)[0]:
        said += os.read(fd, 65536)
    return said


def flood(cay, name):
    """Answers for two seconds, then the last one: how long it stayed behind that; None when it was we who were late."""
    master, slave = pty.openpty()
    p = cay.start("attach", name, EX, stdin=slave, stdout=slave)
    try:
        said, last = b"", time.monotonic()
        while not (asked := re.search(rb"\x1b\[(\d+);(\d+)H\x1b\[6n\x1b\[(\d+);(\d+)H\x1b\[6n", said)):
            last = time.monotonic()
            more = heard(master, 0.2)
            assert more or p.poll() is None, said
            said += more
        until = time.monotonic() + 2
        while time.monotonic() < until:
            now = time.monotonic()
            os.write(master, b"\x1b[1;1R" * 100)
            if time.monotonic() - last > PATIENCE_S:
                return None
            last = now
            with pytest.raises(subprocess.TimeoutExpired):  # else it left while answers came
                p.wait(0.2)
        begin = time.monotonic()
        os.write(master, b"\x1b[%s;%sR\x1b[%s;%sR" % asked.groups())
        if time.monotonic() - last > PATIENCE_S:
            return None
        assert p.wait(timeout=30) == 3
        took = time.monotonic() - begin
        os.set_blocking(slave, False)
        with pytest.raises(BlockingIOError):
            os.read(slave, 1)
        return took
    finally:
        p.kill()
        p.communicate()
        os.close(master)
        os.close(slave)


def test_a_flood_of_answers_is_waited_for(running, cay):
    """ESC-15: as long as the terminal still answers what the sandbox asked, it is not the shell's again."""
    name = running(UP + FIRST + frame(ROLE, 0, 0, b"\1") + frame(DATA, 1, 0, b"\x1b[6n") + DONE, tty=True)
    took = [flood(cay, name)]
    while len(took) < 5 and (took[-1] is None or took[-1] > PATIENCE_S):
        took.append(flood(cay, name))
    assert took[-1] is not None and took[-1] < PATIENCE_S, f"it did not see the last answer: {took}"
