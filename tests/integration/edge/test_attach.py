# SPDX-License-Identifier: Apache-2.0
"""exec.attach: a command's input and output over a WebSocket, and what strangers do to either end"""
import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from attach import (DATA, END, EOF, ERROR, FRAME_MAX, STDERR, STDIN, STDOUT, TAKEN, Attached, Closed, Refused, WebSocket, frame, parse)
from cay import let_pass, wait_for
from conftest import BUILD

HERE = pathlib.Path(__file__).parent
MODULES = os.environ.get("CAY_NPM", "/opt/npm/node_modules")
SANITIZED = "asan" in str(BUILD)
IDLE_MAX = 8 << 10
HELD_MAX = 1 << 20


def sha(data):
    return hashlib.sha256(data).hexdigest()


def lines(n):
    return b"".join(b"%d\n" % i for i in range(1, n + 1))


class Door:
    """A node and a key, as one who attaches has them."""
    def __init__(self, node, credential=None):
        self.node, self.door = node, node.door(credential)

    def start(self, box, argv, **more):
        return self.door.exec_detached(box, argv, **{"output": "block", **more})

    def attach(self, box, name, **more):
        return Attached(self.node.port, box, name, self.door.credential, **more)

    def describe(self, box, name):
        return self.door.call("GET", f"/v1/sandboxes/{box}/execs/{name}")


@pytest.fixture
def me(node):
    return Door(node)


def rss(node, edge="cay-edge-0"):
    text = pathlib.Path(f"/proc/{node.daemons[edge].pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024


def closed(fn, *args):
    with pytest.raises(Closed) as e:
        while True:
            fn(*args)
    return e.value.code


# -- what it is for

def test_both_streams_to_the_byte(me, box):
    name = me.start(box, ["sh", "-c", "seq 1 400000 & seq 1 300000 >&2; wait; exit 7"])
    a = me.attach(box, name)
    assert a.headers["sec-websocket-protocol"] == "cay.frames.v1"
    assert a.frame()[:2] == (EOF, STDIN), "where standard input stands comes first"
    assert a.to_the_end() == 1000
    assert sha(a.out[STDOUT]) == sha(lines(400000)) and sha(a.out[STDERR]) == sha(lines(300000))
    assert (a.end["reason"], a.end["exit_code"]) == ("exit", 7)
    again = me.attach(box, name, offsets=(len(lines(400000)) - 100, len(lines(300000))))
    assert again.to_the_end() == 1000 and again.out[STDOUT] == lines(400000)[-100:] and not again.out[STDERR]


def test_what_goes_into_cat_comes_out(me, box):
    name = me.start(box, ["cat"], stdin_open=True)
    a, data = me.attach(box, name), os.urandom(6 << 20)
    assert a.frame()[:3] == (TAKEN, STDIN, 0)

    def write():
        a.write(data, 0)
        a.send(frame(EOF, STDIN, len(data)))
    writer = threading.Thread(target=write)
    writer.start()
    assert a.to_the_end() == 1000
    writer.join()
    assert sha(a.out[STDOUT]) == sha(data) and a.end["exit_code"] == 0 and a.stdin == len(data) and a.eof


def test_a_conversation(me, box):
    """Word for word; a ping is answered between, and somebody else watches."""
    name = me.start(box, ["sh", "-c", "while read x; do echo got $x; done; echo bye >&2"], stdin_open=True)
    a, watcher = me.attach(box, name), me.attach(box, name)
    at = 0
    for word in (b"one\n", b"two\n", b"three\n"):
        a.write(word, at)
        at += len(word)
        while not a.out[STDOUT].endswith(b"got " + word):
            a.frame()
        a.send(b"there?", 9)
        wait = a.recv()
        while wait[0] != 10:
            assert parse(wait[1])[0] == TAKEN
            wait = a.recv()
        assert wait[1] == b"there?"
    a.send(frame(EOF, STDIN, at))
    for each in (a, watcher):
        assert each.to_the_end() == 1000
        assert each.out[STDOUT] == b"got one\ngot two\ngot three\n" and each.out[STDERR] == b"bye\n" and each.eof


def test_input_that_nobody_reads_any_more(me, box):
    """The command closes it: eof says so, what was on its way goes nowhere, output goes on."""
    name = me.start(box, ["sh", "-c", "read x; exec <&-; echo deaf; until [ -e /tmp/go ]; do sleep 0.05; done; echo $x"], stdin_open=True)
    a = me.attach(box, name)
    a.write(b"word\n", 0)
    while a.out[STDOUT] != b"deaf\n":
        a.frame()
    a.write(os.urandom(100), 5)
    a.until(EOF)
    a.write(os.urandom(FRAME_MAX), 5)
    me.door.exec(box, ["touch", "/tmp/go"])
    assert a.to_the_end() == 1000
    assert a.out[STDOUT] == b"deaf\nword\n" and a.stdin == 5


def test_one_who_is_cut_off_goes_on_where_it_was(me, box):
    """Both ways through cat, cut at random: nothing twice, nothing lost.  With acks what was on its way is kept."""
    name = me.start(box, ["cat"], stdin_open=True)
    data, got, cuts = os.urandom(3 << 20), b"", 0
    chance = random.Random(7)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        a = me.attach(box, name, offsets=(len(got), 0), acks=True)
        a.frame()
        sent, limit = a.stdin, chance.randrange(1, 400000)

        def write(a=a, sent=sent):
            with contextlib.suppress(OSError):
                a.write(data[sent:], sent)
                a.send(frame(EOF, STDIN, len(data)))
        writer = threading.Thread(target=write)
        writer.start()
        code = None
        try:
            while len(a.out[STDOUT]) < limit or len(got) + len(a.out[STDOUT]) == len(data):
                a.frame()
        except Closed as e:
            code = e.code
        got += a.out[STDOUT]
        a.cut()
        writer.join()
        cuts += 1
        if code == 1000:
            break
        # a connection of before may still be writing for a moment
        assert code in (None, 4000) and (code is None or a.error["code"] in ("conflict", "wrong_state"))
    assert code == 1000 and cuts > 4
    assert sha(got) == sha(data)


def test_a_slow_reader_holds_the_command(node, me, box):
    n = 24 << 20
    name = me.start(box, ["head", "-c", str(n), "/dev/zero"])
    before = rss(node)
    a = me.attach(box, name, rcvbuf=65536)
    last = -1

    def stuck():
        nonlocal last
        now = me.describe(box, name)["stdout_bytes"]
        same, last = now == last, now
        let_pass(0.1)
        return same
    wait_for("it to be stuck", stuck, 60)
    assert last < n - (4 << 20) and me.describe(box, name)["state"] == "running"
    if not SANITIZED:
        assert rss(node) - before < 2 * HELD_MAX
    assert a.to_the_end() == 1000 and len(a.out[STDOUT]) == n and not any(a.out[STDOUT])


def test_a_command_that_does_not_read_holds_its_client(node, me, box):
    name = me.start(box, ["sleep", "100"], stdin_open=True)
    before = rss(node)
    a = me.attach(box, name)
    a.sock.settimeout(1)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 64 << 20:
            a.write(bytes(FRAME_MAX), sent)
            sent += FRAME_MAX
    if not SANITIZED:
        assert rss(node) - before < 2 * HELD_MAX

    def may_write(silent_s):
        """Whoever may not is told so; whoever may hears nothing."""
        c = me.attach(box, name)
        c.frame()
        assert 0 < c.stdin < sent
        c.write(b"x", c.stdin)
        c.sock.settimeout(silent_s)
        with contextlib.suppress(TimeoutError):
            assert c.to_the_end() == 4000 and c.error["code"] == "wrong_state"
            return False
        c.cut()
        return True
    assert not may_write(30), "one at a time"
    a.cut()
    wait_for("it to be noticed, though nobody reads from it", lambda: may_write(0.5), 30)
    me.door.signal(box, name)


def test_idle_ones_cost_little(node, me, box):
    name = me.start(box, ["sleep", "100"], stdin_open=True)
    warm = [me.attach(box, name) for _ in range(30)]
    for a in warm:
        a.frame()
    before, many = rss(node), []
    for _ in range(150):
        many.append(me.attach(box, name))
        many[-1].frame()
    each = (rss(node) - before) / len(many)
    for a in warm + many:
        a.cut()
    if not SANITIZED:
        assert each <= IDLE_MAX, each


@pytest.mark.alone
def test_who_is_attached_is_not_idle_until_it_leaves(node, me):
    box = me.door.create("tiny", idle_ms=2000)
    name = me.start(box, ["sleep", "100"], stdin_open=True)
    a, b = me.attach(box, name), me.attach(box, name)
    let_pass(3.5)
    assert me.door.get(box)["state"] == "running"
    a.cut()
    assert b.close() == 1000
    wait_for("its end", lambda: me.door.get(box)["state"] == "terminated", 10)
    assert me.door.get(box)["end"]["reason"] == "idle"


# -- strangers outside

BAD = {
    "text": (lambda a: a.send(b"hello", 1), 1003),
    "nothing": (lambda a: a.send(b""), 1008),
    "half a header": (lambda a: a.send(frame(DATA, STDIN, 0, b"x")[:10]), 1008),
    "half a frame": (lambda a: a.send(frame(DATA, STDIN, 0, b"xyz")[:-1]), 1008),
    "two frames": (lambda a: a.send(frame(DATA, STDIN, 0, b"x") + frame(DATA, STDIN, 1, b"y")), 1008),
    "a length that is not so": (lambda a: a.send(frame(DATA, STDIN, 0, b"x", length=9)), 1008),
    "a length of 4 GiB": (lambda a: a.send(frame(DATA, STDIN, 0, b"x", length=0xffffffff)), 1008),
    "output": (lambda a: a.send(frame(DATA, STDOUT, 0, b"x")), 1008),
    "an end": (lambda a: a.send(frame(END, 0, 0, b"{}")), 1008),
    "an error": (lambda a: a.send(frame(ERROR, 0, 0, b"{}")), 1008),
    "no type": (lambda a: a.send(frame(9, 0, 0)), 1008),
    "too long": (lambda a: a.send(frame(DATA, STDIN, 0, bytes(FRAME_MAX + 1))), 1009),
    "without a mask": (lambda a: a.send(frame(DATA, STDIN, 0, b"x"), masked=False), 1002),
    "a reserved bit": (lambda a: a.send(frame(DATA, STDIN, 0, b"x"), 0x42), 1002),
    "pings": (lambda a: [a.send(b"", 9) for _ in range(500)], 1008),
}


@pytest.mark.parametrize("what", BAD)
def test_a_client_that_breaks_the_rules(me, box, what):
    name = me.start(box, ["cat"], stdin_open=True)
    a = me.attach(box, name)
    do, code = BAD[what]
    with contextlib.suppress(OSError):
        do(a)
    assert closed(a.recv) == code
    assert me.describe(box, name)["state"] == "running", "the command is not touched"
    b = me.attach(box, name)
    assert b.frame()[:3] == (TAKEN, STDIN, 0)
    me.door.signal(box, name)
    assert b.to_the_end() == 1000


@pytest.mark.parametrize("say", [frame(DATA, STDIN, 5, b"x"), frame(EOF, STDIN, 1), frame(DATA, STDIN, (1 << 64) - 9, b"x"),
                                 frame(TAKEN, STDOUT, 0), frame(TAKEN, STDOUT, 1)],
                         ids=["too far", "an early end", "the last offset", "an ack not promised", "an ack of nothing"])
def test_input_goes_in_at_its_place_or_not_at_all(me, box, say):
    name = me.start(box, ["cat"], stdin_open=True)
    a = me.attach(box, name)
    a.send(say)
    assert a.to_the_end() == 4000 and a.error["code"] in ("conflict", "invalid_argument")
    assert me.describe(box, name)["state"] == "running"
    b = me.attach(box, name, acks=True)
    b.send(frame(TAKEN, STDOUT, 3))
    assert b.to_the_end() == 4000, "it cannot have what was not sent"
    me.door.signal(box, name)


def test_acks_hold_the_command(me, box):
    """Who says that it has nothing is not run away from."""
    name = me.start(box, ["head", "-c", "8000000", "/dev/zero"])
    a = me.attach(box, name, acks=True)
    a.acks = False
    a.sock.settimeout(1)
    with pytest.raises(TimeoutError):
        while True:
            a.frame()
    assert len(a.out[STDOUT]) <= 1 << 20 and me.describe(box, name)["stdout_bytes"] < 2 << 20
    a.cut()
    b = me.attach(box, name, acks=True)
    assert b.to_the_end() == 1000 and len(b.out[STDOUT]) == 8000000


# -- who may

def refuse(fn):
    with pytest.raises(Refused) as e:
        fn()
    return e.value


def test_who_may_not(node, me, box):
    name = me.start(box, ["cat"], stdin_open=True)
    other = node.call("POST", "/v1/tenants", {"name": f"attach-{os.getpid()}"})["id"]
    foreign = Door(node, node.new_key("operator", other))
    absent = "ex" + "0" * 23 + "1"
    assert refuse(lambda: foreign.attach(box, name)).status == 404
    assert refuse(lambda: me.attach(box, absent)).status == 404
    assert refuse(lambda: me.attach("sb" + "0" * 23 + "1", name)).status == 404
    assert refuse(lambda: Door(node, node.new_key("read")).attach(box, name)).code == "permission_denied"
    assert refuse(lambda: Door(node, "").attach(box, name)).status == 401
    made = node.call("POST", "/v1/keys", {"tenant": "tn" + "0" * 24, "name": "gone", "scope": "write"})
    Door(node, made["secret"]).attach(box, name).close()
    node.call("POST", f"/v1/keys/{made['key']['id']}/revoke")

    def refused(secret):
        try:
            Door(node, secret).attach(box, name).cut()
        except Refused as e:
            return e.status == 401
        return False
    wait_for("it to be refused", lambda: refused(made["secret"]), 20)
    short = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write", "ttl_ms": 4000})["token"]
    Door(node, short).attach(box, name).close()
    wait_for("its end", lambda: refused(short), 30)
    for bad in ({"Origin": "https:" + "//evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        assert refuse(lambda bad=bad: me.attach(box, name, headers=bad)).status == 403
    me.door.signal(box, name)


@pytest.mark.parametrize("reads", [True, False], ids=["reads", "reads nothing"])
def test_who_may_not_any_more(node, me, box, reads):
    """What is open ends with the key it was opened with, whether the client listens or not; others go on."""
    name = me.start(box, ["yes"] if not reads else ["cat"], stdin_open=True)
    made = node.call("POST", "/v1/keys", {"tenant": "tn" + "0" * 24, "name": "over", "scope": "write"})
    gone, stays = Door(node, made["secret"]).attach(box, name, rcvbuf=65536), me.attach(box, name)
    node.call("POST", f"/v1/keys/{made['key']['id']}/revoke")
    if reads:
        assert gone.to_the_end() == 1008
        stays.write(b"still here\n", 0)
        while stays.out[STDOUT] != b"still here\n":
            stays.frame()
    else:
        def ended():
            try:
                gone.send(b"", 9)
            except OSError:
                return True
            return False
        wait_for("it to be cut off", ended, 30)
    me.door.signal(box, name)


def test_a_token_where_a_page_can_put_one(node, me, box):
    """Beside the protocol; never in the address, never said back, never logged, never told inside."""
    name = me.start(box, ["cat"], stdin_open=True)
    token = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
    nobody = Door(node, "")
    a = nobody.attach(box, name, protocols=("cay.frames.v1", "cay.token." + token))
    assert a.headers["sec-websocket-protocol"] == "cay.frames.v1" and token not in a.head
    a.close()
    key = me.door.credential
    nobody.attach(box, name, protocols=("cay.token." + key, "cay.frames.v1")).close()
    for protocols in (("cay.token." + token,), ("cay.frames.v1", "cay.token." + token[:-2] + "AA"), ("cay.frames.v1", "cay.token."),
                      ("cay.frames.v1", "cay.token." + token, "cay.token." + key), ("cay.frames.v1", "CAY.TOKEN." + token)):
        assert refuse(lambda p=protocols: nobody.attach(box, name, protocols=p)).status in (400, 401), protocols
    assert refuse(lambda: me.attach(box, name, protocols=("cay.frames.v1", "cay.token." + token))).status == 401, "two are none"
    for say in (f"?token={token}", f"?access_token={token}"):
        assert refuse(lambda s=say: WebSocket(node.port, f"/v1/sandboxes/{box}/execs/{name}/attach{s}")).status == 401
    assert nobody.door.open("GET", f"/v1/sandboxes/{box}/execs", headers={"Sec-WebSocket-Protocol": "cay.token." + token}).status == 401
    assert token not in node.log("cay-edge-0") and token not in node.log("cayd")
    me.door.signal(box, name)


def test_what_is_no_websocket(node, me, box):
    name = me.start(box, ["cat"], stdin_open=True)
    path = f"/v1/sandboxes/{box}/execs/{name}/attach"
    plain = me.door.open("GET", path)
    assert plain.status == 426 and json.loads(plain.read())["error"]["code"] == "upgrade_required"
    assert plain.headers["Upgrade"] == "websocket" and plain.headers["Sec-WebSocket-Version"] == "13"
    assert refuse(lambda: me.attach(box, name, headers={"Upgrade": "cay-frames"})).status == 426
    assert refuse(lambda: me.attach(box, name, headers={"Sec-WebSocket-Version": "8"})).status == 426
    assert refuse(lambda: me.attach(box, name, protocols=("other",))).status == 400
    assert refuse(lambda: me.attach(box, name, headers={"Sec-WebSocket-Key": "short"})).status == 400
    assert refuse(lambda: WebSocket(node.port, path + "?stdout_offset=x", me.door.credential)).code == "invalid_argument"
    assert me.door.open("POST", path).status == 405
    # control and PID 1 speak it too, but not to everybody
    assert node.open("GET", path).status == 426
    for at in (node.socket, str(node.run / "box" / box)):
        for up, status in (("websocket", b"426"), ("cay-frames", b"101")):
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(10)
                s.connect(at)
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: {up}\r\n\r\n".encode())
                got = b""
                while b"\r\n\r\n" not in got:
                    got += s.recv(4096)
                assert got.split(b" ")[1] == status
                if status == b"101":
                    rest = got.split(b"\r\n\r\n", 1)[1]
                    while len(rest) < 16:
                        rest += s.recv(100)
                    assert rest == frame(TAKEN, STDIN, 0)
    me.door.signal(box, name)


# -- strangers inside

@contextlib.contextmanager
def fake(node, box, answer):
    """A PID 1 that answers as it likes; what it was asked."""
    path, asked = node.run / "box" / box, []
    hidden = path.with_name(path.name + "-real")
    path.rename(hidden)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    os.chmod(path, 0o777)
    listener.listen(8)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                c, _ = listener.accept()
                with c, contextlib.suppress(OSError):
                    head = b""
                    while b"\r\n\r\n" not in head:
                        piece = c.recv(65536)
                        if not piece:
                            raise ConnectionError("it has left")
                        head += piece
                    asked.append(head.decode())
                    answer(c)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        path.unlink()
        hidden.rename(path)


def yes(then, protocol="cay-frames"):
    return b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: " + protocol.encode() + b"\r\n\r\n" + then


SO_SNDBUFFORCE = 32
SOME = "ex" + "0" * 23 + "1"
GARBAGE = {
    "a length of 4 GiB": frame(DATA, STDOUT, 0, length=0xffffffff), "one too long": frame(DATA, STDOUT, 0, length=FRAME_MAX + 1),
    "no type": frame(77, 1, 0), "text": b"hello, world, I am no frame", "input": frame(DATA, STDIN, 0, b"x"),
    "taken of an output": frame(TAKEN, STDOUT, 0), "an end that is no object": frame(END, 0, 0, b"{x"), "zeroes": bytes(64),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_sandbox_that_sends_no_frames(node, me, box, what):
    good = frame(DATA, STDOUT, 0, b"good")

    def answer(c):
        c.sendall(yes(good + GARBAGE[what]))
        while c.recv(4096):
            pass
    with fake(node, box, answer) as asked:
        a = me.attach(box, SOME)
        assert a.recv() == (2, good), "what was good is moved on"
        assert closed(a.recv) == 4002
        assert "sec-websocket" not in asked[0].lower() and "authorization" not in asked[0].lower() and "Upgrade: cay-frames" in asked[0]


@pytest.mark.parametrize("say,status", [
    (b"", 502), (b"\x00\x01garbage\r\n\r\n", 502), (yes(b"", "websocket"), 502), (b"HTTP/1.1 101 x\r\n\r\n", 502),
    (b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", 404), (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200)],
    ids=["silent", "garbage", "another protocol", "no protocol", "404", "200"])
def test_a_sandbox_that_does_not_go_on(node, me, box, say, status):
    def answer(c):
        c.sendall(say)
    with fake(node, box, answer):
        assert refuse(lambda: me.attach(box, SOME)).status == status


@pytest.mark.parametrize("last", [b"", frame(DATA, STDOUT, 4, b"xy")[:-1], frame(TAKEN, 0, 0)[:9]],
                         ids=["a frame", "most of one", "half a header"])
def test_a_sandbox_that_leaves_in_the_middle(node, me, box, last):
    def answer(c):
        c.sendall(yes(frame(DATA, STDOUT, 0, b"good") + last))
    with fake(node, box, answer):
        a = me.attach(box, SOME)
        assert a.frame()[3] == b"good"
        assert closed(a.frame) == 4001


def test_a_sandbox_that_never_stops_talking(node, me, box):
    """While nobody reads, it is not read either; and nothing of it is lost."""
    before, said, last = rss(node), 0, -1
    big, many = frame(DATA, STDOUT, 0, bytes(FRAME_MAX)), 400

    def answer(c):
        nonlocal said
        c.settimeout(20)
        c.sendall(yes(b""))
        for said in range(1, many + 1):
            c.sendall(big)
        c.sendall(frame(END, 0, 0, b"{}"))
        while c.recv(1 << 16):
            pass

    def stuck():
        nonlocal last
        same, last = said == last, said
        let_pass(0.2)
        return same and said > 0
    with fake(node, box, answer):
        a = WebSocket(node.port, f"/v1/sandboxes/{box}/execs/{SOME}/attach", me.door.credential, rcvbuf=65536)
        wait_for("it to be held", stuck, 20)
        assert 0 < said < many
        if not SANITIZED:
            assert rss(node) - before < 2 * HELD_MAX
        for _ in range(many):
            assert a.recv() == (2, big)
        assert a.recv() == (2, frame(END, 0, 0, b"{}")) and closed(a.recv) == 1000


def test_a_sandbox_that_has_gone_is_heard_to_the_end(node, me, box):
    """What a client sends too late takes nothing from what it has yet to read."""
    big, many, gone = frame(DATA, STDOUT, 0, bytes(FRAME_MAX)), 240, threading.Event()

    def answer(c):
        c.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)  # more than an edge and TCP hold
        c.settimeout(20)
        c.sendall(yes(b"") + big * many + frame(END, 0, 0, b"{}"))
        c.close()
        gone.set()
    with fake(node, box, answer):
        a = WebSocket(node.port, f"/v1/sandboxes/{box}/execs/{SOME}/attach", me.door.credential, rcvbuf=65536)
        assert gone.wait(20)
        for _ in range(3):
            a.send(frame(TAKEN, STDOUT, 0))
            let_pass(0.1)
        for _ in range(many):
            assert a.recv() == (2, big)
        assert a.recv() == (2, frame(END, 0, 0, b"{}")) and closed(a.recv) == 1000


def test_a_sandbox_that_reads_nothing(node, me, box):
    before, held = rss(node), threading.Event()

    def answer(c):
        c.sendall(yes(frame(TAKEN, STDIN, 0)))
        held.wait(20)
    with fake(node, box, answer):
        a = me.attach(box, SOME)
        a.sock.settimeout(1)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 64 << 20:
                a.write(bytes(FRAME_MAX), sent)
                sent += FRAME_MAX
        if not SANITIZED:
            assert rss(node) - before < 2 * HELD_MAX
        held.set()
        a.cut()


def test_a_sandbox_that_is_deleted(me):
    box = me.door.create("tiny")
    name = me.start(box, ["sleep", "100"], stdin_open=True)
    a = me.attach(box, name)
    a.frame()
    me.door.delete(box)
    assert a.to_the_end() == 4001
    assert refuse(lambda: me.attach(box, name)).status in (404, 409)


# -- an edge that stops, and control that is away

def test_an_edge_that_stops_says_so(own):
    me = Door(own)
    box = me.door.create("tiny")
    name = me.start(box, ["sh", "-c", "echo one; read x; echo $x"], stdin_open=True)
    a = me.attach(box, name)
    while a.out[STDOUT] != b"one\n":
        a.frame()
    deaf = me.attach(box, name)  # does not answer a Close
    own.daemons["cay-edge-0"].terminate()
    assert a.to_the_end() == 1001
    assert own.daemons["cay-edge-0"].wait(30) == 0 and "connections are cut" not in own.log("cay-edge-0"), "nobody had to be cut off"
    deaf.cut()
    own.start_edge()
    b = me.attach(box, name, offsets=(4, 0))
    assert b.frame()[:3] == (TAKEN, STDIN, 0)
    b.write(b"two\n", 0)
    assert b.to_the_end() == 1000 and b.out[STDOUT] == b"two\n"


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_control_is_not_needed(own, how):
    me = Door(own, own.new_key())
    box = me.door.create("tiny")
    name = me.start(box, ["cat"], stdin_open=True)
    a = me.attach(box, name)
    a.frame()
    own.daemons["cayd"].send_signal(how)
    b = me.attach(box, name)
    at = 0
    for each in (a, b, a):
        word = b"%d\n" % at * 1000
        each.write(word, at)
        at += len(word)
        while len(a.out[STDOUT]) < at or len(b.out[STDOUT]) < at:
            (a if len(a.out[STDOUT]) < at else b).frame()
    assert a.out == b.out
    b.send(frame(EOF, STDIN, at))
    assert a.to_the_end() == b.to_the_end() == 1000
    if how == signal.SIGSTOP:
        own.daemons["cayd"].send_signal(signal.SIGCONT)


def test_one_the_edge_has_not_heard_of_goes_through_control(own):
    """An edge whose feed stands still asks control, and what control opens is the same conversation."""
    me = Door(own)
    box = me.door.create("tiny")
    name = me.start(box, ["cat"], stdin_open=True)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(own.run / "edge/control.sock"))
        path = f"/v1/sandboxes/{box}/execs/{name}/attach"
        s.sendall((f"GET {path} HTTP/1.1\r\nHost: control\r\nConnection: upgrade\r\nUpgrade: cay-frames\r\n"
                   f"Cay-Actor: tn{'0' * 24} write - {box}\r\n\r\n").encode() + frame(DATA, STDIN, 0, b"early") + frame(EOF, STDIN, 5))
        s.settimeout(10)
        got = b""
        while piece := s.recv(4096):
            got += piece
    head, _, rest = got.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"101" and frame(DATA, STDOUT, 0, b"early") in rest and b'"exit_code":0' in rest


# -- somebody else's client

def test_npm_ws(node, me, box):
    name = me.start(box, ["cat"], stdin_open=True)
    token = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
    r = subprocess.run(["node", HERE / "attach.js", str(node.port), f"/v1/sandboxes/{box}/execs/{name}/attach", token],
                       env={**os.environ, "NODE_PATH": MODULES}, stdout=subprocess.PIPE, text=True, timeout=60)
    assert r.returncode == 0, r.stdout
    got = json.loads(r.stdout)
    assert got["end"].pop("used")
    assert got == {"protocol": "cay.frames.v1", "same": True, "end": {"reason": "exit", "exit_code": 0, "inferred": False, "blame": "task", "retryable": False}, "code": 1000, "pong": "there?"}
