# SPDX-License-Identifier: Apache-2.0
"""Requests that go on in another protocol, and those that go to control"""
import os
import socket
import threading
import time

import pytest

from test_net import EX, GET, SB, Serve, drain, error, read_head, serve, wait_for  # noqa: F401

OUTPUT = (EX + "/output").encode()
ASK = b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: abc\r\nSec-WebSocket-Version: 13\r\n"
YES = b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: xyz\r\n\r\n"
LARGE = 50 << 20


def exactly(c, n):
    got = b""
    while len(got) < n:
        b = c.recv(n - len(got))
        if not b:
            break
        got += b
    return got


def test_a_handler_of_ours_upgrades(serve):
    s = serve.connect(GET % b"/echo" + b"Connection: upgrade\r\nUpgrade: echo/1\r\n\r\nearly")
    head = read_head(s)
    got = head.split(b"\r\n\r\n")[1]
    assert head.startswith(b"HTTP/1.1 101") and b"Upgrade: echo/1\r\n" in head and b"Connection: upgrade\r\n" in head
    assert got + exactly(s, 5 - len(got)) == b"early"
    s.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert exactly(s, 18) == b"GET / HTTP/1.1\r\n\r\n"
    s.shutdown(socket.SHUT_WR)
    assert s.recv(1) == b""


@pytest.mark.parametrize("ask", [b"", b"Connection: upgrade\r\n", b"Connection: upgrade\r\nUpgrade: a, b\r\n",
                                 b"Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n"])
def test_no_upgrade_that_was_not_asked_for_plainly(serve, ask):
    assert serve.talk(GET % b"/echo" + ask + b"Connection: close\r\n\r\n").endswith(b"ask for another protocol")


def upgrading(then):
    def answer(c):
        with c:
            got = read_head(c)
            c.sendall(YES)
            then(c, got)
    return answer


def echo(c, _):
    while True:
        b = c.recv(1 << 18)
        if not b:
            return
        c.sendall(b)


def test_relay_becomes_a_tunnel(serve):
    seen = []

    def talk(c, head):
        seen.append(head)
        c.sendall(b"first")
        echo(c, None)

    serve.listen(upgrading(talk))
    s = serve.connect(GET % OUTPUT + ASK + b"Cookie: secret\r\n\r\nearly")
    got = read_head(s)
    head, rest = got.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 101") and b"Sec-WebSocket-Accept: xyz" in head and b"Cay-Request: " in head
    rest += exactly(s, 10 - len(rest))
    assert sorted([rest[:5], rest[5:]]) == [b"early", b"first"]
    assert seen[0].split(b"\r\n\r\n")[0] == (
        b"GET " + OUTPUT + b" HTTP/1.1\r\nHost: sandbox\r\nConnection: upgrade\r\nSec-WebSocket-Key: abc\r\n"
        b"Sec-WebSocket-Version: 13\r\nUpgrade: websocket")
    assert serve.stats()["relayed"] == 0  # it lasts as long as the tunnel
    s.sendall(b"more")
    assert exactly(s, 4) == b"more"
    s.close()
    wait_for(lambda: serve.stats()["relayed"] == 1 and serve.stats()["conns"] == 1)


def test_a_tunnel_outlives_every_deadline_of_requests():
    serve = Serve(head=1000, idle=1000, inside=1000)
    serve.listen(upgrading(echo))
    for _ in range(5):  # it has to become one first, and those times are for that
        s = serve.connect(GET % OUTPUT + ASK + b"\r\n")
        if read_head(s).startswith(b"HTTP/1.1 101"):
            break
    threading.Event().wait(2)
    s.sendall(b"still")
    assert exactly(s, 5) == b"still"
    s.close()
    serve.stop()


CHUNK = b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"


@pytest.mark.parametrize("says,ask,end", [(YES, ASK, b""), (CHUNK, b"", b""), (b"", b"", b"unauthenticated")],
                         ids=["a-tunnel", "an-answer", "no-answer-yet"])
def test_what_is_under_way_can_be_cut(serve, says, ask, end):
    """It ends at both its ends, and not as something good does; it is told once."""
    reached, over = threading.Event(), threading.Event()

    def answer(c):
        with c:
            read_head(c)
            reached.set()
            if says:  # else it may be cut already
                c.sendall(says)
            while c.recv(100):
                pass
            over.set()

    serve.listen(answer)
    s = serve.connect(GET % OUTPUT + ask + b"\r\n")
    assert reached.wait(30)
    if says:
        read_head(s)
    serve.talk(GET % b"/cut" + b"Connection: close\r\n\r\n")
    text = b""
    while end not in text or not text:
        more = s.recv(65536)
        if not more:
            break
        text += more
    assert end in text and not text.endswith(b"0\r\n\r\n") and (end or s.recv(1) == b"")
    assert over.wait(30)
    wait_for(lambda: serve.stats()["relayed"] == 1)
    serve.talk(GET % b"/cut" + b"Connection: close\r\n\r\n")  # nothing is under way
    assert serve.stats()["relayed"] == 1


def test_what_is_handed_over_is_the_takers_to_end(serve):
    """The relay closes behind it and does not touch what may be gone."""
    def answer(c):
        with c:
            read_head(c)
            c.sendall(b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: taken/1\r\n\r\n")
            echo(c, None)

    serve.listen(answer)
    s = serve.connect(GET % (SB + "/execs").encode() + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert read_head(s).startswith(b"HTTP/1.1 101")
    s.sendall(b"hello")
    assert exactly(s, 5) == b"hello"
    assert serve.stats()["taken"] == 1 and serve.stats()["relayed"] == 0
    s.close()
    wait_for(lambda: serve.stats()["relayed"] == 1)
    assert serve.stats()["untouched"] == 1


@pytest.mark.parametrize("stalls", [False, True])
def test_a_tunnel_moves_much_both_ways_and_holds_back(serve, stalls):
    serve.listen(upgrading(echo))
    s = serve.connect(GET % OUTPUT + ASK + b"\r\n")
    read_head(s)
    block = os.urandom(1 << 20)
    sent = []

    def send():
        for _ in range(LARGE >> 20):
            s.sendall(block)
            sent.append(1)
        s.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    if stalls:
        threading.Event().wait(0.5)
        assert len(sent) < 10 and serve.rss() < 40 << 20
    for _ in range(LARGE >> 20):
        assert exactly(s, 1 << 20) == block
    thread.join()
    assert s.recv(1) == b""
    wait_for(lambda: serve.stats()["relayed"] == 1)


def test_an_end_is_passed_on_as_an_end(serve):
    def talk(c, _):
        assert c.recv(10) == b"question"
        assert c.recv(10) == b""
        c.sendall(b"answer")

    serve.listen(upgrading(talk))
    s = serve.connect(GET % OUTPUT + ASK + b"\r\n")
    read_head(s)
    s.sendall(b"question")
    s.shutdown(socket.SHUT_WR)
    assert drain(s) == b"answer"
    wait_for(lambda: serve.stats()["relayed"] == 1)


def test_an_ordinary_answer_to_an_upgrade(serve):
    def answer(c):
        with c:
            read_head(c)
            c.sendall(b"HTTP/1.1 403 x\r\nContent-Length: 2\r\n\r\nno")

    serve.listen(answer)
    s = serve.connect(GET % OUTPUT + ASK + b"\r\n" + GET % b"/v1/sandboxes" + b"Connection: close\r\n\r\n")
    got = drain(s)
    assert got.startswith(b"HTTP/1.1 403") and b"\r\n\r\nno" in got and got.endswith(b"other")


@pytest.mark.parametrize("reply", [YES.replace(b"WebSocket\r", b"h2c\r"), YES.replace(b"Upgrade: WebSocket\r\n", b""),
                                   YES.replace(b"Connection: Upgrade\r\n", b""),
                                   YES.replace(b"HTTP/1.1", b"HTTP/1.0"),
                                   YES.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n")],
                         ids=["other", "none", "unsaid", "old", "body"])
def test_a_101_that_is_none(serve, reply):
    def answer(c):
        with c:
            read_head(c)
            c.sendall(reply)

    serve.listen(answer)
    assert error(serve.talk(GET % OUTPUT + ASK + b"Connection: close\r\n\r\n")) == (502, "sandbox_misbehaved")


def test_an_operation_that_is_none_of_those_does_not_upgrade(serve):
    seen = []

    def answer(c):
        with c:
            seen.append(read_head(c))
            c.sendall(YES)

    serve.listen(answer)
    assert error(serve.talk(GET % EX.encode() + ASK + b"Connection: close\r\n\r\n")) == (502, "sandbox_misbehaved")
    assert b"pgrade" not in seen[0] and b"WebSocket" not in seen[0]


def test_tunnels_count_and_end_with_the_server(serve):
    serve.listen(upgrading(echo))
    held = [serve.connect(GET % OUTPUT + ASK + b"\r\n") for _ in range(8)]
    assert all(read_head(s).startswith(b"HTTP/1.1 101") for s in held)
    assert error(drain(serve.connect(GET % b"/stats" + b"\r\n"))) == (503, "unavailable")
    serve.stop()
    serve.stop = lambda: None
    assert all(drain(s) == b"" for s in held)


# Control

class Control:
    """Answers as often as it is asked on one connection."""
    def __init__(self, serve, last=None):
        self.heads, self.connections, self.last = [], [], last
        self.listener = serve.listen(self.answer)

    def answer(self, c):
        self.connections.append(c)
        while True:
            head = read_head(c)
            if not head:
                return
            self.heads.append(head)
            n = len(self.heads)
            c.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\n%02d" % n)
            if n == self.last:
                c.close()
                return


def ask(s, method=b"GET"):
    s.sendall((GET % SB.encode()).replace(b"GET", method) + b"Cay-Tenant: evil\r\nAuthorization: Bearer s\r\n\r\n")
    got = read_head(s)
    return got + (s.recv(2) if got.endswith(b"\r\n\r\n") else b"")


def test_connections_to_control_are_kept(serve):
    control = Control(serve)
    s = serve.connect()
    for i in range(1, 6):
        assert ask(s, b"GET" if i % 2 else b"DELETE").endswith(b"%02d" % i)
    assert len(control.connections) == 1 and serve.stats()["kept"] == 1
    assert control.heads[0] == (b"GET " + SB.encode() + b" HTTP/1.1\r\nHost: control\r\nCay-Tenant: tn1\r\nCay-Key: ky1\r\n\r\n")


def test_connections_to_control_are_not_kept_for_ever():
    serve = Serve(kept=300)
    control = Control(serve)
    s = serve.connect()
    assert ask(s).endswith(b"01")
    wait_for(lambda: serve.stats()["kept"] == 0)
    assert ask(s).endswith(b"02") and len(control.connections) == 2
    s.close()
    serve.stop()


def test_a_program_that_passes_everything_on():
    serve, seen = Serve(tls=("", "", "raw")), []

    def answer(c):
        while True:
            got = read_head(c)
            if not got:
                return
            head, body = got.split(b"\r\n\r\n", 1)
            seen.append((head.split(b" ")[0], body + exactly(c, 13 - len(body))))
            c.sendall(b"HTTP/1.1 201 x\r\nContent-Length: 2\r\n\r\nok")

    serve.listen(answer)
    head = b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\nContent-Type: "
    for _ in range(3):
        got = serve.talk(head + b"application/json\r\nConnection: close\r\n\r\n{]not decoded")
        assert got.startswith(b"HTTP/1.1 201") and got.endswith(b"ok")
    assert seen == [(b"POST", b"{]not decoded")] * 3
    assert error(serve.talk(head + b"text/plain\r\nConnection: close\r\n\r\n{]not decoded")) == (415, "unsupported_media")
    assert error(serve.talk(head.replace(b"13", b"9999999") + b"application/json\r\n\r\n")) == (413, "too_large")
    serve.stop()


def test_only_so_many_are_kept(serve):
    gate = threading.Barrier(4)

    def answer(c):
        while read_head(c):
            gate.wait(30)
            c.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n")

    serve.listen(answer)
    some = [serve.connect(GET % SB.encode() + b"\r\n") for _ in range(4)]
    assert all(read_head(s).startswith(b"HTTP/1.1 200") for s in some)
    assert serve.stats()["kept"] == 2


def test_a_kept_connection_that_was_closed_is_not_used(serve):
    control = Control(serve, last=1)
    s = serve.connect()
    assert ask(s).endswith(b"01")
    wait_for(lambda: serve.stats()["kept"] == 0)
    assert ask(s).endswith(b"02") and len(control.connections) == 2


@pytest.mark.parametrize("method, want", [(b"GET", 200), (b"DELETE", 503)])
def test_what_is_lost_on_a_kept_connection_is_sent_again_only_if_it_may_be(serve, method, want):
    count = []

    def answer(c):
        with c:
            count.append(1)
            read_head(c)
            c.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\nok")
            if len(count) == 1:
                read_head(c)  # and leaves

    serve.listen(answer)
    s = serve.connect()
    assert ask(s).endswith(b"ok")
    assert b"HTTP/1.1 %d" % want in ask(s, method)
    assert len(count) == (2 if want == 200 else 1)


def test_control_that_says_more_than_it_was_asked(serve):
    def answer(c):
        read_head(c)
        c.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 x\r\nContent-Length: 4\r\n\r\nevil")

    serve.listen(answer)
    s = serve.connect()
    assert ask(s).endswith(b"ok") and serve.stats()["kept"] == 0
    assert ask(s).endswith(b"ok")


def test_without_control(serve):
    begin = time.monotonic()
    assert error(serve.talk(GET % SB.encode() + b"Connection: close\r\n\r\n")) == (503, "unavailable")
    assert time.monotonic() - begin < 10  # it is not waited for
