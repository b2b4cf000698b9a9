# SPDX-License-Identifier: Apache-2.0
"""exec.attach without frames (cay.raw.v1): bytes both ways, and the end in the Close"""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest
from attach import Closed, Refused, WebSocket
from cay import let_pass, wait_for
from conftest import BUILD

HERE = pathlib.Path(__file__).parent
MODULES = os.environ.get("CAY_NPM", "/opt/npm/node_modules")
SANITIZED = "asan" in str(BUILD)
RAW = "cay.raw.v1"
HELD_MAX = 1 << 20
EVERY = bytes(range(256))


class Raw(WebSocket):
    """What came of stdout, and the Close."""
    def __init__(self, node, box, name, query="", **more):
        super().__init__(node.port, f"/v1/sandboxes/{box}/execs/{name}/attach{query}", node.door().credential, **{"protocols": (RAW,), **more})
        self.out = bytearray()

    def hear(self):
        opcode, payload = self.recv()
        assert opcode == 2 and payload, "bytes, and never none"
        self.out += payload

    def to_the_end(self):
        with pytest.raises(Closed) as e:
            while True:
                self.hear()
        return e.value.code, e.value.reason


@pytest.fixture
def start(node, box):
    return lambda argv, **more: node.door().exec_detached(box, argv, **{"output": "block", **more})


def rss(node):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{node.daemons['cay-edge-0'].pid}/status").read_text())[1]) * 1024


def state(node, box, name):
    return node.door().call("GET", f"/v1/sandboxes/{box}/execs/{name}")


def test_bytes_both_ways(node, box, start):
    """8 MiB in one message, every byte there is in another, text, and no byte at all: the end."""
    a, data = Raw(node, box, start(["cat"], stdin_open=True)), os.urandom(8 << 20)
    assert a.headers["sec-websocket-protocol"] == RAW

    def write():
        a.send(data)
        a.send(EVERY * 300)
        a.send("zeile: \u00fc\u4e16\n".encode() * 1000, 1)
        a.send(b"in ", fin=False)
        a.send(b"", 0, fin=False)
        a.send(b"there?", 9)
        a.send(b"fragments", 0, fin=False)
        a.send(b"", 0)
        a.send(b"")
    writer = threading.Thread(target=write)
    writer.start()
    got, want = bytearray(), data + EVERY * 300 + "zeile: \u00fc\u4e16\n".encode() * 1000 + b"in fragments"
    with pytest.raises(Closed) as e:
        while True:
            opcode, payload = a.recv()
            got += payload if opcode == 2 else b""
    writer.join()
    assert hashlib.sha256(got).digest() == hashlib.sha256(want).digest()
    assert (e.value.code, e.value.reason) == (1000, "exit 0")


@pytest.mark.parametrize("script, how", [("exit 0", (1000, "exit 0")), ("exit 7", (4003, "exit 7")), ("kill -9 $$", (4003, "signal SIGKILL"))])
def test_how_it_ended(node, box, start, script, how):
    a = Raw(node, box, start(["sh", "-c", f"echo out; echo err >&2; {script}"]))
    assert a.to_the_end() == how and a.out == b"out\n"


def test_it_ran_too_long(node, box, start):
    a = Raw(node, box, start(["sleep", "100"], timeout_ms=500))
    assert a.to_the_end() == (4003, "timeout")


def test_it_is_lost_with_its_sandbox(node):
    door = node.door()
    box = door.create("tiny")
    a = Raw(node, box, door.exec_detached(box, ["sh", "-c", "echo out; sleep 100"]))
    a.hear()
    door.delete(box)
    assert a.to_the_end()[0] == 4001 and a.out == b"out\n"


def test_errors_stay_where_they_are(node, box, start):
    """Much of them does not hold the command; they are read as ever."""
    name = start(["sh", "-c", "head -c 3000000 /dev/zero >&2; echo last >&2; echo out"])
    a = Raw(node, box, name)
    assert a.to_the_end() == (1000, "exit 0") and a.out == b"out\n"
    assert state(node, box, name)["stderr_bytes"] == 3000005
    b = WebSocket(node.port, f"/v1/sandboxes/{box}/execs/{name}/attach?stdout_offset=4&stderr_offset=3000000", node.door().credential)
    said = b""
    with contextlib.suppress(Closed):
        while True:
            said += b.recv()[1][16:]
    assert b"last\n" in said


def test_who_leaves_ends_nothing(node, box, start):
    """Neither a Close nor a cut; who comes back says what it has."""
    name = start(["cat"], stdin_open=True)
    a = Raw(node, box, name)
    a.send(b"one\n")
    while a.out != b"one\n":
        a.hear()
    assert a.close() == 1000
    b = Raw(node, box, name, "?stdout_offset=4")
    b.send(b"two\n")
    while b.out != b"two\n":
        b.hear()
    b.cut()
    c = Raw(node, box, name, "?stdout_offset=8")
    c.send(b"")
    c.send(b"nobody hears this")
    assert c.to_the_end() == (1000, "exit 0") and not c.out


def test_two_who_write(node, box, start):
    name = start(["cat"], stdin_open=True)
    a, b = Raw(node, box, name), Raw(node, box, name)
    a.send(b"mine")
    while b.out != b"mine":
        b.hear()
    b.send(b"and mine")
    code, reason = b.to_the_end()
    assert code == 4000 and reason.startswith("conflict: standard input is at 4"), reason
    a.send(b"")
    assert a.to_the_end() == (1000, "exit 0") and a.out == b"mine"


def test_what_is_not_there_any_more(node, box, start):
    """A gap is never passed over; the reason says from where on there is something."""
    name = start(["sh", "-c", "head -c 3000000 /dev/zero; echo last"], output="drop")
    wait_for("its end", lambda: state(node, box, name)["state"] != "running", 20)
    code, reason = Raw(node, box, name).to_the_end()
    assert code == 4004 and (at := int(re.fullmatch(r"stdout goes on at (\d+)", reason)[1])) > 0
    a = Raw(node, box, name, f"?stdout_offset={at}")
    assert a.to_the_end() == (1000, "exit 0") and len(a.out) == 3000005 - at and a.out.endswith(b"last\n")


def test_a_slow_reader_holds_the_command(node, box, start):
    n, last, before = 24 << 20, -1, rss(node)
    name = start(["head", "-c", str(n), "/dev/zero"])
    a = Raw(node, box, name, rcvbuf=65536)

    def stuck():
        nonlocal last
        now = state(node, box, name)["stdout_bytes"]
        same, last = now == last, now
        let_pass(0.1)
        return same
    wait_for("it to be stuck", stuck, 60)
    assert last < n - (4 << 20)
    if not SANITIZED:
        assert rss(node) - before < 2 * HELD_MAX
    assert a.to_the_end() == (1000, "exit 0") and len(a.out) == n and not any(a.out)


def test_a_command_that_does_not_read_holds_its_client(node, box, start):
    """In the middle of a message, however long it says that it is."""
    before, name = rss(node), start(["sleep", "100"], stdin_open=True)
    a = Raw(node, box, name)
    a.sock.settimeout(1)
    with pytest.raises(TimeoutError):
        a.send(bytes(64 << 20))
    if not SANITIZED:
        assert rss(node) - before < 2 * HELD_MAX
    a.cut()
    node.door().signal(box, name)


BAD = {
    "bad UTF-8": (lambda a: a.send(b"\xff", 1), 1007),
    "half a letter": (lambda a: a.send(b"\xe4\xb8", 1), 1007),
    "without a mask": (lambda a: a.send(b"x", masked=False), 1002),
    "a reserved bit": (lambda a: a.send(b"x", 0x42), 1002),
    "empty fragments": (lambda a: [a.send(b"", 0 if i else 2, fin=False) for i in range(100)], 1009),
    "pings": (lambda a: [a.send(b"", 9) for _ in range(500)], 1008),
}


@pytest.mark.parametrize("what", BAD)
def test_a_client_that_breaks_the_rules(node, box, start, what):
    name = start(["cat"], stdin_open=True)
    a = Raw(node, box, name)
    do, code = BAD[what]
    with contextlib.suppress(OSError):
        do(a)
    with pytest.raises(Closed) as e:
        while True:
            a.recv()
    assert e.value.code == code and state(node, box, name)["state"] == "running", "the command is not touched"
    node.door().signal(box, name)


def test_which_protocols(node, box, start):
    """The first that is ours; others alone are refused; acks are of frames."""
    name = start(["cat"], stdin_open=True)
    for offered, taken in (((RAW, "cay.frames.v1"), RAW), (("cay.frames.v1", RAW), "cay.frames.v1"), (("other", RAW), RAW)):
        a = Raw(node, box, name, protocols=offered)
        assert a.headers["sec-websocket-protocol"] == taken
        a.close()
    for offered, query in ((("cay.raw",), ""), (("cay.raw.v2", "other"), ""), ((RAW,), "?acks=true")):
        with pytest.raises(Refused) as e:
            Raw(node, box, name, query, protocols=offered)
        assert (e.value.status, e.value.code) == (400, "invalid_argument"), offered
    node.door().signal(box, name)


def test_a_terminal(node, box, start):
    name = start(["sh", "-c", "read x; echo got $x; exit 3"], tty={"cols": 80, "rows": 24})
    a = Raw(node, box, name)
    a.send(b"word\n", 1)
    assert a.to_the_end() == (4003, "exit 3") and b"got word\r\n" in a.out


def test_a_stock_client(node, box, start):
    """npm's ws, and nothing of ours: cat through its stream."""
    name = start(["cat"], stdin_open=True)
    token = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
    r = subprocess.run(["node", HERE / "raw.js", str(node.port), f"/v1/sandboxes/{box}/execs/{name}/attach", token],
                       env={**os.environ, "NODE_PATH": MODULES}, stdout=subprocess.PIPE, text=True, timeout=60)
    assert r.returncode == 0, r.stdout
    assert json.loads(r.stdout) == {"protocol": RAW, "same": True, "code": 1000, "reason": "exit 0"}
