# SPDX-License-Identifier: Apache-2.0
"""Ports of a sandbox: below a path, on hosts of their own, as raw connections; with servers that lie (NET-15)"""
import base64
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import subprocess
import time

import cay
import inside
import pytest
import world
from conftest import BUILD

DOMAIN = "preview.localhost"
COOKIE = "cay-preview"

ECHO = r'''
def answer(c, head, rest):
    path = head.split(" ")[1]
    n = int(field(head, "content-length") or 0)
    if field(head, "upgrade") == "websocket":
        return websocket(c, head)
    if (field(head, "transfer-encoding") or "") == "chunked":
        while not rest.endswith(b"0\r\n\r\n"):
            rest += c.recv(65536)
    while len(rest) < n:
        rest += c.recv(65536)
    if path.startswith("/sse"):
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for i in range(1000):
            c.sendall(b"data: %d\n\n" % i)
            c.recv(1) if i == 2 else doze(0.02)
        return
    if path.startswith("/big"):
        return reply(c, b"x" * 3000000)
    if path == "/cookies":
        return reply(c, b"{}", more="Set-Cookie: a=1; Domain=.localhost; Path=/\r\nset-cookie: b=2;dOmAin = x;HttpOnly\r\n"
                                    "Set-Cookie: %s=forged\r\nStrict-Transport-Security: max-age=1\r\nClear-Site-Data: \"*\"\r\n"
                                    "X-Accel-Redirect: /etc/passwd\r\nCay-Exec: x\r\nLocation: /v1/keys\r\nX-Own: yes\r\n"
                                    "Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n" % "cay-preview")
    reply(c, (head + "\n\n").encode() + rest, more="Content-Type: text/html\r\n")
serve(8080, answer)
serve(8081, answer)
serve(8086, answer, socket.AF_INET6)
'''


@pytest.fixture(scope="module")
def shown():
    env = {"CAY_EDGE_RATE": "100000", "CAY_LOG_ACCESS": "yes"}
    w = world.World(BUILD, env=env)
    w.env["CAY_EDGE_PREVIEWS"] = f"http://{DOMAIN}:{w.port}"
    with w:
        yield w


@pytest.fixture(scope="module")
def app(shown):
    box = shown.door().create("tiny")
    with inside.Server(shown, box, ECHO):
        yield box


def ask(w, method, target, headers=None, body=None, timeout=20):
    c = http.client.HTTPConnection("127.0.0.1", w.port, timeout=timeout)
    c.putrequest(method, target, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
    for k, v in (headers or {}).items():
        c.putheader(k, v)
    if body is not None and "Transfer-Encoding" not in (headers or {}):
        c.putheader("Content-Length", str(len(body)))
    c.endheaders(body)
    return c.getresponse()


def key(w):
    return {"Authorization": "Bearer " + w.operator_key()}


def host(box, port=8080):
    return f"{port}-{box}.{DOMAIN}"


def preview(w, box, port=8080, **more):
    return w.door().call("POST", f"/v1/sandboxes/{box}/preview", {"port": port, **more})


def by_cookie(w, box, port=8080, **more):
    return {"Host": f"{host(box, port)}:{w.port}", "Cookie": f"x=1; {COOKIE}={preview(w, box, port, **more)['token']}; y=2"}


def told(r):
    """What the server saw: its request line, its headers, the body."""
    head, _, body = r.read().decode("latin-1").partition("\n\n")
    first, *lines = head.split("\r\n")
    return first, {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines)}, body


def test_below_a_path(shown, app):
    at = f"/v1/sandboxes/{app}/ports/8080"
    r = ask(shown, "GET", at + "/a/b?c=d", {**key(shown), "Cookie": "a=b", "Cay-Actor": "x", "X-Mine": "1", "X-Forwarded-For": "9.9.9.9",
                                             "Connection": "x-drop, keep-alive", "X-Drop": "1"})
    assert r.status == 200 and r.headers["Content-Type"] == "text/html"
    assert r.headers["Content-Security-Policy"].startswith("sandbox") and r.headers["X-Content-Type-Options"] == "nosniff"
    line, saw, _ = told(r)
    assert line == "GET /a/b?c=d HTTP/1.1"
    assert saw == {"host": "localhost:8080", "x-forwarded-prefix": at, "x-mine": "1", "connection": "close"}
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        line, saw, body = told(ask(shown, method, at + "/m", key(shown), b"body"))
        assert (line, body) == (f"{method} /m HTTP/1.1", "body")
    r = ask(shown, "HEAD", at + "/big", key(shown))
    assert r.status == 200 and r.headers["Content-Length"] == "3000000" and r.read() == b""
    assert len(ask(shown, "GET", at + "/big", key(shown)).read()) == 3000000
    line, saw, body = told(ask(shown, "POST", at + "/", {**key(shown), "Transfer-Encoding": "chunked", "Expect": "100-continue"}, b"3\r\nabc\r\n0\r\n\r\n"))
    assert saw["transfer-encoding"] == "chunked" and "expect" not in saw and "abc" in body
    assert told(ask(shown, "GET", f"/v1/sandboxes/{app}/ports/8086/", key(shown)))[0] == "GET / HTTP/1.1", "IPv6 alone"


def test_what_does_not_pass(shown, app):
    at = f"/v1/sandboxes/{app}/ports/8080"
    r = ask(shown, "GET", at + "/cookies", key(shown))
    names = {k.lower() for k in r.headers}
    assert not names & {"set-cookie", "strict-transport-security", "clear-site-data", "x-accel-redirect", "cay-exec", "x-own", "x-hop", "keep-alive"}
    assert r.headers["Location"] == at + "/v1/keys", "a client follows it with its key"
    r = ask(shown, "GET", "/cookies", by_cookie(shown, app))
    assert r.headers.get_all("Set-Cookie") == ["a=1; Path=/", "b=2; HttpOnly"]
    names = {k.lower() for k in r.headers}
    assert not names & {"strict-transport-security", "clear-site-data", "x-accel-redirect", "cay-exec", "x-hop", "keep-alive"}
    assert r.headers["X-Own"] == "yes" and r.headers["Location"] == "/v1/keys"


def test_who_may(shown, app):
    at = f"/v1/sandboxes/{app}/ports/8080/"
    other = shown.call("POST", "/v1/tenants", {"name": "others"})["id"]
    token = shown.door().call("POST", f"/v1/sandboxes/{app}/token", {"scope": "write"})["token"]
    read = shown.door().call("POST", f"/v1/sandboxes/{app}/token", {"scope": "read"})["token"]
    shows = preview(shown, app)["token"]
    for who, status in ((token, 200), (read, 403), (shown.new_key("write", other), 404), (shown.new_key("read"), 403),
                        (shows, 401), ("cay_nonsense", 401)):
        assert ask(shown, "GET", at, {"Authorization": "Bearer " + who}).status == status, who[:6]
    assert ask(shown, "GET", at).status == 401
    assert ask(shown, "GET", at, {**key(shown), "Origin": "https://evil.example"}).status == 403
    assert ask(shown, "GET", at, {**key(shown), "Host": "evil.example"}).status == 403
    r = ask(shown, "GET", f"/v1/sandboxes/{app}/ports/9/", key(shown))
    assert r.status == 502 and json.loads(r.read())["error"]["code"] == "port_closed"
    assert ask(shown, "GET", f"/v1/sandboxes/sb{'0' * 24}/ports/80/", key(shown)).status == 404
    with pytest.raises(cay.ApiError, match="cannot create previews"):
        shown.door(token).call("POST", f"/v1/sandboxes/{app}/preview", {"port": 8080})


def test_a_host_of_its_own(shown, app):
    made = preview(shown, app)
    assert made["url"] == f"http://{host(app)}:{shown.port}/?cay_preview={made['token']}"
    me = {"Host": f"{host(app)}:{shown.port}"}
    assert ask(shown, "GET", "/", me).status == 401
    r = ask(shown, "GET", f"//evil.example/x?a=1&cay_preview={made['token']}&b", me)
    assert r.status == 303 and r.headers["Location"] == f"http://{host(app)}:{shown.port}//evil.example/x?a=1&b"
    cookie = r.headers["Set-Cookie"]
    name, _, rest = cookie.partition("=")
    assert name == COOKIE and rest.split("; ")[1:4] == ["Path=/", "HttpOnly", "SameSite=Lax"] and "Domain" not in cookie
    assert 3500 < int(rest.split("Max-Age=")[1].split(";")[0]) <= 3601
    assert r.headers["Cache-Control"] == "no-store" and r.headers["Referrer-Policy"] == "no-referrer"
    line, saw, _ = told(ask(shown, "GET", "/p?q", {**me, "Cookie": f"x=1; {cookie.split(';')[0]}; y=2", "Authorization": "Basic abc",
                                                  "Referer": made["url"]}))
    assert line == "GET /p?q HTTP/1.1" and saw["cookie"] == "x=1; y=2" and saw["host"] == me["Host"] == saw["x-forwarded-host"]
    assert saw["authorization"] == "Basic abc" and "referer" not in saw and "cayp_" not in str(saw)
    line, saw, _ = told(ask(shown, "GET", "/", {**me, "Cay-Preview": made["token"], **key(shown), "Cookie": f"{COOKIE}=x"}))
    assert "authorization" not in saw and "cay-preview" not in saw and "cookie" not in saw, "a key of ours at the wrong door"
    assert ask(shown, "POST", f"/?cay_preview={made['token']}", me, b"x").status == 400


def test_a_program_needs_no_cookies(shown, app):
    made = preview(shown, app)
    assert made["headers"] == {"Cay-Preview": made["token"]} and made["listening"] is True
    r = ask(shown, "GET", "/x", {**made["headers"], "Host": made["origin"].removeprefix("http://")})
    assert r.status == 200 and "Set-Cookie" not in r.headers and told(r)[0] == "GET /x HTTP/1.1"


def test_a_preview_says_whether_anybody_listens(shown, app):
    assert preview(shown, app, 8086)["listening"] is True, "on IPv6 alone"
    assert preview(shown, app, 9)["listening"] is False
    box = shown.create("tiny")
    first = shown.pid_1(box)
    # PID 1 that does not answer is not waited for, nor is anybody else
    os.kill(first, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):  # and who leaves meanwhile is forgotten
            shown.call("POST", f"/v1/sandboxes/{box}/preview", {"port": 9}, timeout_s=0.2)
        with concurrent.futures.ThreadPoolExecutor(8) as many:
            begin = time.monotonic()
            asked = [many.submit(preview, shown, box, 9) for _ in range(8)]
            assert preview(shown, app)["listening"] is True
            assert all("listening" not in f.result() and f.result()["url"] for f in asked)
            assert time.monotonic() - begin < 8
    finally:
        os.kill(first, signal.SIGCONT)
    cay.wait_for("it to answer again", lambda: preview(shown, box, 9).get("listening") is False, 20)
    shown.call("POST", f"/v1/sandboxes/{box}/pause")
    assert "listening" not in preview(shown, box, 9)
    shown.delete(box)


def test_a_token_is_of_one_port_of_one_sandbox(shown, app):
    other = shown.door().create("tiny")
    with inside.Server(shown, other, ECHO):
        mine = preview(shown, app)["token"]
        for where in (host(app, 8081), host(other), host(app, 8086)):
            me = {"Host": f"{where}:{shown.port}"}
            assert ask(shown, "GET", "/", {**me, "Cookie": f"{COOKIE}={mine}"}).status == 401, where
            assert ask(shown, "GET", f"/?cay_preview={mine}", me).status == 401, where
        bad = mine[:-1] + ("A" if mine[-1] != "A" else "B")
        for text in (bad, "", mine + "A", mine[:-4]):
            assert ask(shown, "GET", "/", {"Host": host(app), "Cookie": f"{COOKIE}={text}"}).status == 401
        gone = by_cookie(shown, other)
        assert ask(shown, "GET", "/", gone).status == 200
    shown.door().delete(other)
    cay.wait_for("it to be forgotten", lambda: ask(shown, "GET", "/", gone).status == 404, 30)
    brief = by_cookie(shown, app, ttl_ms=4000)
    assert ask(shown, "GET", "/", brief).status == 200
    cay.wait_for("its end", lambda: ask(shown, "GET", "/", brief).status == 401, 30)


def test_hosts_that_are_none(shown, app):
    """Only the one spelling is a port's; none of the others is the API's either."""
    cookie = by_cookie(shown, app)["Cookie"]
    for name in (f"08080-{app}.{DOMAIN}", f"0-{app}.{DOMAIN}", f"65536-{app}.{DOMAIN}", f"8080-{app}.x.{DOMAIN}", f"8080-{app}{DOMAIN}",
                 f"8080.{app}.{DOMAIN}", f"{app}.{DOMAIN}", DOMAIN, f"8080-{app}.{DOMAIN}.evil.example", f"8080-{app}-x.{DOMAIN}",
                 f"8080-{app}.{DOMAIN}.", f"8080-sb{app[2:-1]}.{DOMAIN}", f"-8080-{app}.{DOMAIN}", f"8080-ex{app[2:]}.{DOMAIN}"):
        r = ask(shown, "GET", "/", {"Host": name, "Cookie": cookie, **key(shown)})
        assert r.status in (403, 404) and json.loads(r.read())["error"], name
        assert ask(shown, "GET", "/v1/sandboxes", {"Host": name, **key(shown)}).status == 403, name
    assert ask(shown, "GET", "/", {"Host": host(app).upper(), "Cookie": cookie}).status == 200
    # and a preview is never the API, whatever it is asked for
    assert told(ask(shown, "GET", "/v1/keys", {**by_cookie(shown, app), **key(shown)}))[0] == "GET /v1/keys HTTP/1.1"
    # nor does a path of it lead to another port
    assert told(ask(shown, "GET", f"/v1/sandboxes/{app}/ports/8081/x", by_cookie(shown, app)))[0].endswith("/ports/8081/x HTTP/1.1")


def test_pages_of_others(shown, app):
    me, own = by_cookie(shown, app), f"http://{host(app)}:{shown.port}"
    neighbour = app[:-8] + ("0" if app[-8] != "0" else "1") + app[-7:]
    ws = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    away = ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": f"http://8080-sb{'0' * 24}.{DOMAIN}:{shown.port}"},
            {"Referer": f"http://8080-{neighbour}.{DOMAIN}:{shown.port}/x"}, {"Referer": f"http://8080-{neighbour}.{DOMAIN}:{shown.port}"},
            {"Origin": f"https://{host(app)}"}, {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
            {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"})
    for more in away:
        assert ask(shown, "POST", "/", {**me, **more}, b"x").status == 403, more
        assert ask(shown, "GET", "/", {**me, **more, **ws}).status == 403, more
    for more in ({}, {"Origin": own}, {"Referer": own + "/x"}, {"Referer": "https://a.example/"}, {"Origin": f"http://{host(app, 8081)}:{shown.port}"},
                 {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
                 {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, {"Sec-Fetch-Site": "none"}):
        assert ask(shown, "GET", "/", {**me, **more}).status == 200, more


def test_cookies_of_the_whole_domain_do_not_lock_a_browser_out(shown, app):
    """A script may set them for all previews: the browser is told to delete them, and only then, and only here."""
    def answer(name, *headers, target="/"):
        with socket.create_connection(("127.0.0.1", shown.port), 20) as s:
            s.sendall("\r\n".join((f"GET {target} HTTP/1.1", f"Host: {name}", *headers, "", "")).encode())
            head = http.client.HTTPResponse(s)
            head.begin()
            return head.status, head.headers["Clear-Site-Data"]

    bomb = tuple(f"Cookie: c{i}={'x' * 4000}" for i in range(5))
    here = f"{host(app)}:{shown.port}"
    assert answer(here, *bomb) == (431, '"cookies"')
    assert answer(here, "Cookie: " + "; ".join(c[8:] for c in bomb)) == (431, '"cookies"')
    assert answer(here, *bomb[:1])[0] == 401
    assert answer(here, target="/" + "x" * 9000) == (431, None)
    assert answer(here, *bomb[:1], "X: " + "y" * 16000) == (431, None)
    assert answer(f"localhost:{shown.port}", *bomb) == (431, None)


def talk(w, target, headers, said):
    """A WebSocket by hand: what came back of one text frame."""
    s = socket.create_connection(("127.0.0.1", w.port), timeout=10)
    lines = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **headers}
    s.sendall((f"GET {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = s.recv(4096)
        assert piece, head
        head += piece
    assert b" 101 " in head.split(b"\r\n")[0], head
    mask = os.urandom(4)
    s.sendall(bytes([0x81, 0x80 | len(said)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(said)))
    back = head.split(b"\r\n\r\n", 1)[1]
    while len(back) < len(said) + 2:
        piece = s.recv(4096)
        assert piece
        back += piece
    return s, back[2:]


def test_websockets(shown, app):
    at = f"/v1/sandboxes/{app}/ports/8080/chat"
    for target, who in ((at, {"Host": "localhost", **key(shown)}), ("/chat", by_cookie(shown, app)),
                        (at, {"Host": "localhost", "Sec-WebSocket-Protocol": "chat, cay.token." + shown.operator_key()})):
        s, back = talk(shown, target, who, b"here and back")
        assert back == b"here and back"
        s.close()
    with pytest.raises(AssertionError):
        talk(shown, at, {"Host": "localhost"}, b"x")


def test_a_raw_connection(shown, app):
    def dial(port, door=True):
        if door:
            s = socket.create_connection(("127.0.0.1", shown.port), timeout=10)
        else:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(10)
            s.connect(shown.socket)
        s.sendall((f"GET /v1/sandboxes/{app}/tunnel/{port} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {shown.operator_key()}\r\n"
                   "Connection: upgrade\r\nUpgrade: cay-port\r\n\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(1)
        return s, head
    for door in (True, False):
        s, head = dial(8080, door)
        assert b" 101 " in head and b"cay-port" in head
        s.sendall(b"GET /raw HTTP/1.0\r\n\r\n")
        got = b""
        while b"GET /raw HTTP/1.0" not in got:
            more = s.recv(65536)
            assert more, got
            got += more
        s.close()
        assert b" 502 " in dial(9, door)[1]
    assert ask(shown, "GET", f"/v1/sandboxes/{app}/tunnel/8080", key(shown)).status == 426


def test_streams_are_not_held_back(shown, app):
    for target, who in ((f"/v1/sandboxes/{app}/ports/8080/sse", key(shown)), ("/sse", by_cookie(shown, app))):
        r = ask(shown, "GET", target, who)
        begun = time.monotonic()
        assert r.headers["Content-Type"] == "text/event-stream"
        assert r.read1(9) == b"data: 0\n\n" and time.monotonic() - begun < 10, "the server waits behind its third"
        r.close()


def test_a_hundred_at_once(shown, app):
    """On a busy machine an edge may refuse some at first, and says so."""
    def big():
        for _ in range(30):
            r = ask(shown, "GET", f"/v1/sandboxes/{app}/ports/8080/big", key(shown), timeout=60)
            reply = r.read()
            if r.status != 503 or b'"overloaded"' not in reply:
                break
            cay.let_pass(0.5)
        return reply
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        replies = list(pool.map(lambda _: big(), range(100)))
    assert [r for r in replies if len(r) != 3000000] == []
    assert shown.door().exec(app, ["echo", "here"]).stdout == b"here\n"


HOSTILE = r'''
import os
LIES = {
    "nothing": b"",
    "garbage": b"\x00\x01\x02 not http at all\r\n\r\n",
    "no-end-of-head": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10,
    "huge-head": b"HTTP/1.1 200 OK\r\n" + b"X: %s\r\n" % (b"y" * 100000) + b"\r\n",
    "many-headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 30\r\n\r\nok",
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "interims": b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "status": b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
    "folded": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "204-body": b"HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\nHTTP/",
}
CUT = {
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
    "chunk-too-large": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
    "chunk-cut": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
}
def answer(c, head, rest):
    what = head.split(" ")[1][1:]
    if what in LIES or what in CUT:
        c.sendall(LIES.get(what) or CUT.get(what) or b"")
    elif what == "behind":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
    elif what == "until-end":
        c.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"z" * 100000)
    elif what == "endless":
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            c.sendall(b"10000\r\n" + b"e" * 65536 + b"\r\n")
    elif what == "endless-head":
        c.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            c.sendall(b"X: y\r\n" * 1000)
    elif what == "slow":
        for b in b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow":
            c.sendall(bytes([b])); doze(0.02)
    elif what == "early":
        reply(c, b"no thanks", "413 Large")
        c.shutdown(socket.SHUT_WR); doze(5)
    elif what == "head":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n" + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged" * 3)
def first(c):
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"); doze(1); c.close()
def eager():
    s = socket.create_server(("127.0.0.1", 8091))
    while True:
        c, _ = s.accept(); threading.Thread(target=first, args=(c,), daemon=True).start()
serve(8090, answer)
threading.Thread(target=eager, daemon=True).start()
'''


def test_servers_that_lie(shown):
    """A clean failure or a connection that ends in the middle; the next request of the connection is its own."""
    box = shown.door().create("tiny")
    edge = shown.daemons["cay-edge-0"].pid
    who, at = key(shown), f"/v1/sandboxes/{box}/ports/8090/"
    with inside.Server(shown, box, HOSTILE):
        ask(shown, "GET", at + "slow", who).read()
        before = inside.rss(edge)
        for what in ("nothing", "garbage", "no-end-of-head", "huge-head", "many-headers", "bare-lf", "two-lengths", "both", "coding",
                     "101", "interims", "status", "folded", "204-body", "endless-head"):
            for target, headers in ((at + what, who), ("/" + what, by_cookie(shown, box, 8090))):
                r = ask(shown, "GET", target, headers)
                assert r.status == 502 and json.loads(r.read())["error"]["code"] == "sandbox_misbehaved", what
        for what in ("short", "bad-chunk", "chunk-too-large", "trailer", "chunk-cut"):
            with pytest.raises((http.client.IncompleteRead, ConnectionError, http.client.HTTPException)):
                ask(shown, "GET", at + what, who).read()
        assert len(ask(shown, "GET", at + "until-end", who).read()) == 100000
        assert ask(shown, "GET", at + "slow", who).read() == b"slow"
        # one connection, and what stands behind an answer is nobody's
        c = http.client.HTTPConnection("127.0.0.1", shown.port, timeout=10)
        for what, method in (("behind", "GET"), ("head", "HEAD"), ("behind", "GET"), ("head", "HEAD")):
            c.request(method, at + what, headers=who)
            r = c.getresponse()
            assert (r.status, r.read()) == (200, b"ok" if method == "GET" else b""), what
        c.request("GET", "/v1/health", headers=who)
        assert json.loads(c.getresponse().read())["status"] == "ok"
        # a server that speaks first: it is refused, or that is its answer
        assert ask(shown, "GET", f"/v1/sandboxes/{box}/ports/8091/", who).status in (200, 502)
        # the body is not read, the answer counts
        r = ask(shown, "POST", at + "early", who, b"q" * 5000000)
        assert r.status == 413 and r.read() == b"no thanks"
        # twenty that never end and nobody reads
        open_ones = [ask(shown, "GET", at + "endless", who) for _ in range(20)]
        cay.let_pass(1)
        assert inside.rss(edge) - before < 24 << 20
        assert shown.door().exec(box, ["echo", "here"]).stdout == b"here\n"
        for r in open_ones:
            r.close()
    assert shown.daemons["cay-edge-0"].poll() is None
    shown.door().delete(box)


def test_clients_that_leave_free_the_port(shown, app):
    """More than a sandbox takes at once, one after the other."""
    for _ in range(150):
        r = ask(shown, "GET", f"/v1/sandboxes/{app}/ports/8080/sse", key(shown))
        assert r.status == 200
        r.close()


def test_a_tunnel_ends_with_its_token(shown, app):
    s, _ = talk(shown, "/chat", by_cookie(shown, app, ttl_ms=4000), b"x")
    s.settimeout(30)
    assert s.recv(1) == b"", "cut within two looks of its end"


def test_no_token_is_written_anywhere(shown, app):
    made = preview(shown, app)
    me = {"Host": f"{host(app)}:{shown.port}"}
    ask(shown, "GET", f"/?cay_preview={made['token']}", me).read()
    ask(shown, "GET", f"/?cay_preview={made['token'][:-2]}AA", me).read()
    ask(shown, "GET", "/x", {**me, "Cookie": f"{COOKIE}={made['token']}"}).read()
    metrics = shown.open("GET", "/metrics").read().decode()
    audit = json.dumps(shown.call("GET", "/v1/audit?limit=1000"))
    for text in (*(shown.log(n) for n in ("cayd", "cay-edge-0")), metrics, audit):
        assert made["token"][:40] not in text and "cayp_" not in text


def test_viewers_have_a_rate_of_their_own():
    w = world.World(BUILD, env={"CAY_EDGE_RATE": "5"})
    w.env["CAY_EDGE_PREVIEWS"] = f"http://{DOMAIN}:{w.port}"
    with w:
        box = w.create("tiny")
        me = by_cookie(w, box, 9)
        codes = {ask(w, "GET", "/", me).status for _ in range(100)}
        assert codes == {502, 429}
        assert w.door().open("GET", "/v1/sandboxes").status == 200


def test_an_api_below_the_previews_is_refused():
    w = world.World(BUILD, env={"CAY_EDGE_PREVIEWS": "https://p.example", "CAY_EDGE_HOSTS": "api.p.example"})
    with pytest.raises(Exception, match="domain of previews"):
        with w:
            pass


def test_what_to_set_is_said(node, shown):
    """As installed there are none.  What the refusal says to set is right: `shown` has it, with its own port."""
    box = node.create("tiny")
    with pytest.raises(cay.ApiError, match="edge.previews") as e:
        preview(node, box)
    assert e.value.code == "unsupported" and f"(http://{DOMAIN}:{node.port} for" in str(e.value)
    assert shown.env["CAY_EDGE_PREVIEWS"] == f"http://{DOMAIN}:{shown.port}"
    _, err = cli(node, "preview", box, "8080").communicate(timeout=60)
    assert f"http://{DOMAIN}:{node.port}" in err and "'cay port forward SANDBOX PORT'" in err
    node.delete(box)


def cli(w, *words, **more):
    env = {**os.environ, "CAY_PATHS_RUN": str(w.run), "CAY_PATHS_STATE": str(w.state)}
    return subprocess.Popen([f"{BUILD}/src/cli/cay", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_the_command_line(shown, app):
    out, err = cli(shown, "preview", app, "8080", "--ttl", "10m").communicate(timeout=60)
    assert out.startswith(f"http://{host(app)}:{shown.port}/?cay_preview=cayp_") and not err, err
    out, err = cli(shown, "preview", app, "9").communicate(timeout=60)
    assert "/?cay_preview=" in out and "nothing in the sandbox listens on this port yet" in err
    out, _ = cli(shown, "port", "ls", app).communicate(timeout=60)
    assert [line.split()[:3] for line in out.splitlines() if line.startswith("808")] == [
        ["8080", "127.0.0.1", "yes"], ["8081", "127.0.0.1", "yes"], ["8086", "::1", "yes"]]
    out, _ = cli(shown, "ps", app).communicate(timeout=60)
    assert out.splitlines()[0].split()[0] == "PID" and "/dev/cay/init" in out
    p = cli(shown, "port", "forward", app, "0:8080")
    try:
        port = int(p.stderr.readline().split(":")[2].split()[0])
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                s.sendall(b"GET /big HTTP/1.0\r\n\r\n")
                s.shutdown(socket.SHUT_WR)
                with s.makefile("rb") as f:
                    assert f.read().endswith(b"x" * 3000000)
    finally:
        p.send_signal(2)
        assert p.wait(timeout=30) == 0
        p.stdout.close()
        p.stderr.close()
