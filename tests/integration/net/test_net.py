# SPDX-License-Identifier: Apache-2.0
"""The server and the relay as a hostile or unlucky peer meets them (serve.c)."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import select
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import pytest

BINARY = os.environ.get("CAY_SERVE", "build/gcc/tests/integration/serve")
SB = "/v1/sandboxes/sb0001000g00000000000000tr"
EX = SB + "/execs/ex0001000g00000000000000tr"
GET = b"GET %s HTTP/1.1\r\nHost: x\r\n"


LONG = 20000  # milliseconds that nothing here takes, however slow the machine


class Serve:
    """serve.c; a test of one of its times makes that one short."""

    def __init__(self, family=socket.AF_UNIX, tls=(), conns=8, head=LONG, idle=LONG, inside=LONG, handshake=LONG, kept=LONG, send_buffer=0):
        self.dir = tempfile.TemporaryDirectory(dir="/tmp")
        self.upstream = self.dir.name + "/u"
        listener = socket.socket(family)
        listener.bind({socket.AF_UNIX: self.dir.name + "/s", socket.AF_INET: ("127.0.0.1", 0),
                       socket.AF_INET6: ("::1", 0)}[family])
        if send_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        listener.listen(64)
        self.family, self.address = family, listener.getsockname()
        self.path = self.address if family == socket.AF_UNIX else None
        fd = fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD, 100)
        self.process = subprocess.Popen([BINARY, self.upstream, *tls], preexec_fn=lambda: os.dup2(fd, 3, inheritable=True),
                                        pass_fds=(3,), env=os.environ | {"SERVE_LIMITS": f"{conns} {head} {idle} {inside} {handshake} {kept}"})
        os.close(fd)
        listener.close()

    def connect(self, data=b"", timeout=30):
        s = socket.socket(self.family)
        s.settimeout(timeout)
        s.connect(self.address)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused already; the reply is there
            s.sendall(data)
        return s

    def talk(self, data):
        """Everything that comes back until the server closes."""
        return drain(self.connect(data))

    def stats(self):
        text = self.talk(GET % b"/stats" + b"Connection: close\r\n\r\n").split(b"\r\n\r\n")[1].decode()
        return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", text)}

    def listen(self, answer):
        """Play a sandbox: answer(connection) in a thread."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.upstream)
        listener.listen(8)

        def loop():
            while True:
                try:
                    c, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(c,), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        return listener

    def rss(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0


def drain(s):
    parts = []
    while True:
        try:
            b = s.recv(1 << 20)
        except ConnectionResetError:
            b = b""
        if not b:
            return b"".join(parts)
        parts.append(b)


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def read_head(c):
    got = b""
    while b"\r\n\r\n" not in got:
        b = c.recv(65536)
        if not b:
            break
        got += b
    return got


def error(reply):
    head, body = reply.split(b"\r\n\r\n", 1)
    return int(head.split()[1]), json.loads(body)["error"]["code"]


@pytest.fixture
def serve():
    s = Serve()
    yield s
    s.stop()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_tcp(family):
    serve = Serve(family)
    s = serve.connect(GET % b"/v1/sandboxes?limit=7" + b"\r\n")
    assert b"seven" in s.recv(4096)
    # a reply must not wait for somebody's acknowledgement, which is held back for 40 ms
    took = []
    for _ in range(50):
        begin = time.monotonic()
        s.sendall(GET % b"/v1/sandboxes?limit=7" + b"\r\n")
        assert b"seven" in s.recv(4096)
        took.append(time.monotonic() - begin)
    assert statistics.median(took) < 0.02, took
    got = serve.talk(GET % b"/stream" + b"Connection: close\r\n\r\n")
    assert got.endswith(b"0\r\n\r\n") and len(got) > 64 << 20
    test_a_slow_reader_stops_the_producer(serve)
    test_relay_writes_the_head_anew(serve)
    serve.stop()


def test_requests_one_after_the_other_and_ahead(serve):
    one = GET % b"/v1/sandboxes?limit=7" + b"\r\n"
    s = serve.connect()
    for _ in range(3):
        s.sendall(one)
        assert b"seven" in s.recv(4096)
    s.sendall(one * 20 + GET % b"/v1/sandboxes" + b"Connection: close\r\n\r\n" + one)
    got = drain(s)
    assert got.count(b"seven") == 20 and got.count(b"other") == 1 and got.endswith(b"other")


def test_http_1_0(serve):
    got = serve.talk(b"GET /v1/sandboxes HTTP/1.0\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200") and got.endswith(b"other") and b"Connection: close" in got
    got = serve.talk(b"GET /stream HTTP/1.0\r\n\r\n")
    assert b"chunked" not in got and len(got.split(b"\r\n\r\n", 1)[1]) == 64 << 20


@pytest.mark.parametrize("data, want", [
    (b"garbage\r\n\r\n", (400, "invalid_argument")),
    (b"\r\n", (400, "invalid_argument")),
    (GET % b"/" + b"X: " + b"y" * 20000, (431, "headers_too_large")),
    (GET % b"/none" + b"Connection: close\r\n\r\n", (404, "not_found")),
    (b"PUT /v1/sandboxes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", (405, "method_not_allowed")),
    (GET % b"/v1/sandboxes?limit=x" + b"Connection: close\r\n\r\n", (400, "invalid_argument")),
    (GET % b"/v1/health?x" + b"Connection: close\r\n\r\n", (400, "invalid_argument")),
    (GET % b"/v1/health" + b"Connection: close\r\n\r\n", (500, "internal")),
    (b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
     b"Connection: close\r\n\r\n{]", (400, "invalid_argument")),
    (b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
     (400, "invalid_argument")),
    (b"POST /v1/images?name=x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxzz\r\n", (400, "invalid_argument")),
])
def test_every_refusal_is_the_one_shape(serve, data, want):
    got = serve.talk(data)
    assert error(got) == want and b"Cay-Request: " in got and b"secret" not in got


def test_a_reply_reaches_who_is_still_sending(serve):
    head = b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    s = serve.connect(head + b"Content-Length: 3000000\r\n\r\n")
    try:
        s.sendall(b"x" * 3000000)
    except OSError:
        pass
    assert error(drain(s)) == (413, "too_large")
    s = serve.connect(head + b"Transfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(30):
            s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    except OSError:
        pass
    assert error(drain(s)) == (413, "too_large")


def test_head_has_no_body(serve):
    got = serve.talk(b"HEAD /v1/sandboxes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 405") and got.endswith(b"\r\n\r\n")


def test_expect_is_answered(serve):
    s = serve.connect(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 13\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
    assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    s.sendall(b'{"image":"i"}')
    assert drain(s).endswith(b"\r\n\r\ni")
    got = serve.talk(b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\nExpect: 100-continue\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_paused_body_arrives_whole(serve, chunked):
    n, piece = 5000000, 77777
    s = serve.connect(b"POST /v1/images?name=x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                      + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: %d\r\n\r\n" % n))
    for i in range(0, n, piece):
        b = b"x" * min(piece, n - i)
        s.sendall(b"%x\r\n%s\r\n" % (len(b), b) if chunked else b)
    if chunked:
        s.sendall(b"0\r\n\r\n")
    assert drain(s).endswith(b"\r\n\r\n5000000")


def test_what_is_written_meanwhile_wakes_a_producer_too():
    """It waits for a slow reader, and something else writes a byte now and then: when there is room again it is told."""
    serve = Serve(socket.AF_INET, send_buffer=4096)
    with serve.connect(GET % b"/noisy" + b"Connection: close\r\n\r\n", timeout=5) as s:
        got, until = b"", time.monotonic() + 20
        while not got.endswith(b"0\r\n\r\n"):
            more = s.recv(8192)
            assert more and time.monotonic() < until
            got += more
            if len(got) < 1 << 18:
                select.select([], [], [], 0.005)
    assert len(got) > 1 << 20
    serve.stop()


def test_a_slow_reader_stops_the_producer(serve):
    s = serve.connect(GET % b"/stream" + b"Connection: close\r\n\r\n")
    assert s.recv(10)
    threading.Event().wait(0.2)
    assert 0 < serve.stats()["queued"] < 64 * 1024 + 2 * 16 * 1024
    body = drain(s)
    assert body.endswith(b"0\r\n\r\n") and len(body) > 64 << 20
    assert serve.stats()["queued"] < 64 * 1024 + 2 * 16 * 1024


def test_who_leaves_is_noticed(serve):
    for leave in [lambda s: s.close(), lambda s: s.shutdown(socket.SHUT_WR)]:
        before = serve.stats()["gone"]
        for target in [b"/never", b"/stream"]:
            s = serve.connect(GET % target + b"\r\n")
            threading.Event().wait(0.05)
            leave(s)
        s = serve.connect(b"POST /v1/images?name=x HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf")
        threading.Event().wait(0.05)
        leave(s)
        wait_for(lambda: serve.stats()["gone"] == before + 3)


def test_who_sends_far_ahead_is_cut_off(serve):
    s = serve.connect(GET % b"/never" + b"\r\n")
    try:
        s.sendall(b"x" * 1000000)
    except OSError:
        pass
    assert drain(s) == b""
    wait_for(lambda: serve.stats()["gone"] == 1)


def test_slow_heads_and_idle_connections_end():
    serve = Serve(head=400)
    begin = time.monotonic()
    s = serve.connect(b"GET / HT")
    with contextlib.suppress(BrokenPipeError):  # a byte now and then does not keep it
        while time.monotonic() - begin < 10:
            threading.Event().wait(0.1)
            s.sendall(b"T")
    assert drain(s) == b"" and 0.3 < time.monotonic() - begin < 10
    begin = time.monotonic()  # who comes and says nothing has as long as for a head
    assert serve.talk(b"") == b"" and 0.3 < time.monotonic() - begin < 10
    serve.stop()
    serve = Serve(idle=800)
    begin = time.monotonic()
    got = serve.talk(GET % b"/v1/sandboxes" + b"\r\n")
    assert got.endswith(b"other") and 0.6 < time.monotonic() - begin < 10
    assert serve.talk(b"POST /v1/images?name=x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx") == b""
    serve.stop()


def test_connections_are_bounded(serve):
    held = [serve.connect(GET % b"/never" + b"\r\n") for _ in range(8)]
    s = serve.connect(GET % b"/stats" + b"\r\n")
    assert error(drain(s)) == (503, "unavailable")
    [h.close() for h in held]
    wait_for(lambda: serve.talk(GET % b"/v1/sandboxes" + b"Connection: close\r\n\r\n").endswith(b"other"))


def test_a_broken_promise_is_not_an_end(serve):
    got = serve.talk(GET % b"/liar" + b"\r\n")
    assert b"Content-Length: 100" in got and got.endswith(b"short")


def test_stopping_in_the_middle_of_everything(serve):
    held = [serve.connect(GET % t + b"\r\n") for t in (b"/never", b"/stream", EX.encode())]
    held.append(serve.connect(b"POST /v1/images?name=x HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf"))
    held.append(serve.connect(b"GET / H"))
    wait_for(lambda: serve.stats()["conns"] == len(held) + 1)  # who is not up yet does not stop in good order
    serve.stop()
    serve.stop = lambda: None
    assert held


# The relay

def plain(reply):
    def answer(c):
        with c:
            read_head(c)
            c.sendall(reply)
    return answer


def test_relay_writes_the_head_anew(serve):
    seen = []

    def answer(c):
        with c:
            seen.append(read_head(c))
            c.sendall(b"HTTP/1.1 201 x\r\nContent-Length: 2\r\nContent-Type: text/x\r\nCay-Exec: ex1\r\nSet-Cookie: a=b\r\n"
                      b"Server: evil\r\nConnection: keep-alive\r\n\r\nhi")

    serve.listen(answer)
    s = serve.connect(GET % EX.encode() + b"Accept: a/b\r\nCookie: secret\r\nAuthorization: Bearer s\r\n\r\n" * 1)
    got = read_head(s)
    if not got.endswith(b"hi"):
        got += s.recv(2)
    assert got.startswith(b"HTTP/1.1 201") and got.endswith(b"\r\n\r\nhi")
    assert b"Content-Type: text/x\r\n" in got and b"Cay-Exec: ex1\r\n" in got
    assert b"Cookie" not in got and b"evil" not in got
    assert seen[0] == b"GET " + EX.encode() + b" HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\nAccept: a/b\r\n\r\n"
    # the client's own connection goes on
    s.sendall(GET % b"/v1/sandboxes" + b"\r\n")
    assert b"other" in s.recv(4096)
    wait_for(lambda: serve.stats()["relayed"] == 1)


@pytest.mark.parametrize("chunked", [False, True])
def test_relay_moves_large_bodies_both_ways(serve, chunked):
    n = 20 << 20

    def answer(c):
        with c:
            got = read_head(c)
            want = got.index(b"\r\n\r\n") + 4
            body = got[want:]
            if chunked:
                assert b"Transfer-Encoding: chunked" in got
                while not body.endswith(b"0\r\n\r\n"):
                    body += c.recv(1 << 20)
                c.sendall(b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
            else:
                while len(body) < n:
                    body += c.recv(1 << 20)
                c.sendall(b"HTTP/1.1 200 x\r\nContent-Length: %d\r\n\r\n" % n + body)

    serve.listen(answer)
    data = os.urandom(n)
    s = serve.connect(b"POST " + EX.encode() + b"/stdin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                      + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: %d\r\n\r\n" % n))
    if chunked:
        for i in range(0, n, 100000):
            s.sendall(b"%x\r\n%s\r\n" % (len(data[i:i + 100000]), data[i:i + 100000]))
        s.sendall(b"0\r\n\r\n")
    else:
        s.sendall(data)
    parts, b = [], b"x"
    while b:
        b = s.recv(1 << 20)
        parts.append(b)
    head, body = b"".join(parts).split(b"\r\n\r\n", 1)
    if chunked:
        got, at = [], 0
        while True:
            end = body.index(b"\r\n", at)
            size = int(body[at:end], 16)
            if not size:
                break
            got.append(body[end + 2:end + 2 + size])
            at = end + 4 + size
        body = b"".join(got)
    assert body == data


def test_relay_holds_back_a_flood_for_a_client_that_stalls(serve):
    sent = []

    def answer(c):
        with c:
            read_head(c)
            c.sendall(b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                while True:
                    c.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                    sent.append(65536)
            except OSError:
                pass

    serve.listen(answer)
    s = serve.connect(GET % (EX.encode() + b"/output") + b"\r\n")
    wait_for(lambda: sent)
    before = 0

    def stands():
        nonlocal before
        now = len(sent)
        same, before = now == before, now
        threading.Event().wait(0.2)
        return same

    wait_for(stands)
    assert sum(sent) < 4 << 20 and serve.rss() < 40 << 20
    s.close()
    wait_for(lambda: serve.stats()["relayed"] == 1)


@pytest.mark.parametrize("reply", [
    b"garbage\r\n\r\n",
    b"",
    b"HTTP/1.1 200 OK\r\n\r\nuntil close",
    b"HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
])
def test_relay_calls_garbage_misbehaviour(serve, reply):
    serve.listen(plain(reply))
    assert error(serve.talk(GET % EX.encode() + b"Connection: close\r\n\r\n")) == (502, "sandbox_misbehaved")


def test_relay_without_a_sandbox(serve):
    assert error(serve.talk(GET % EX.encode() + b"Connection: close\r\n\r\n")) == (503, "unavailable")


def test_relay_waits_only_so_long():
    def drip(c):
        with c:
            read_head(c)
            with contextlib.suppress(OSError):
                for b in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000:
                    threading.Event().wait(0.1)
                    c.sendall(bytes([b]))

    serve = Serve(inside=500)
    for answer in [lambda c: threading.Event().wait(60), drip]:
        listener = serve.listen(answer)
        begin = time.monotonic()
        assert error(serve.talk(GET % EX.encode() + b"Connection: close\r\n\r\n")) == (504, "deadline_exceeded")
        assert time.monotonic() - begin < 10
        listener.close()
        os.unlink(serve.upstream)
    serve.stop()


@pytest.mark.parametrize("reply", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
])
def test_relay_cuts_off_what_was_cut_off(serve, reply):
    serve.listen(plain(reply))
    got = serve.talk(GET % EX.encode() + b"\r\n")
    assert got.startswith(b"HTTP/1.1 200") and b"half" in got and not got.endswith(b"0\r\n\r\n")


def test_relay_tells_the_sandbox_when_the_client_left(serve):
    reached, seen = threading.Event(), threading.Event()

    def answer(c):
        with c:
            read_head(c)
            reached.set()
            while c.recv(65536):
                pass
            seen.set()

    serve.listen(answer)
    for data in [GET % EX.encode() + b"\r\n",
                 b"POST " + EX.encode() + b"/stdin HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf"]:
        s = serve.connect(data)
        assert reached.wait(30)
        s.close()
        assert seen.wait(30)
        reached.clear()
        seen.clear()


def test_relay_ignores_a_second_answer(serve):
    one = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    serve.listen(plain(one + one.replace(b"hi", b"no")))
    s = serve.connect(GET % EX.encode() + b"\r\n" + GET % b"/v1/sandboxes" + b"Connection: close\r\n\r\n")
    got = drain(s)
    assert b"no" not in got.split(b"\r\n\r\n", 1)[1][:2] and got.count(b"HTTP/1.1 200") == 2 and got.endswith(b"other")


def test_relay_refuses_fds(serve):
    """One that lingers when it is closed would hold up the loop."""
    outcome = []

    def answer(c):
        with c, socket.socket() as lingers:
            read_head(c)
            try:
                socket.send_fds(c, [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], [lingers.fileno()])
                outcome.append("taken")
            except PermissionError:
                outcome.append("refused")

    serve.listen(answer)
    assert error(serve.talk(GET % EX.encode() + b"Connection: close\r\n\r\n")) == (502, "sandbox_misbehaved")
    assert outcome == ["refused"]
    with serve.connect() as s, pytest.raises(PermissionError):
        socket.send_fds(s, [b"x"], [0])


def test_who_leaves_while_the_sandbox_does_not_read_is_noticed(serve):
    serve.listen(lambda c: threading.Event().wait(60))
    s = serve.connect(b"POST " + EX.encode() + b"/stdin HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n")
    s.settimeout(0.5)
    with pytest.raises(TimeoutError):
        while True:
            s.send(b"x" * 65536)
    before = serve.stats()["relayed"]
    s.close()
    wait_for(lambda: serve.stats()["relayed"] == before + 1)
