# SPDX-License-Identifier: Apache-2.0
"""cay-broker: TLS with the hosts of inspected connections, and credentials in their requests

The test is cay-egress: it sends records with the descriptors of a pair and of a host.  The hosts are real servers of Python's
ssl, so what they saw is what was sent.
"""
import base64
import contextlib
import json
import os
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import threading
import urllib.parse

import cay
import pytest
import tlshost
from cay import ApiError, wait_for
from conftest import BUILD
from test_tenants import DEFAULT, TOLD, asks
from tlshost import Host, read_all, read_head

NAME = "api.example.com"
MAGIC, ABI = 0x42594143, 1
GET = f"GET /a?b=c HTTP/1.1\r\nHost: {NAME}:{{port}}\r\nUser-Agent: test\r\n\r\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    top = tmp_path_factory.mktemp("ca")
    for parent in [top, *top.parents][:3]:
        os.chmod(parent, 0o755)
    return tlshost.Authority(top)


@pytest.fixture(scope="module")
def good(authority):
    return authority.issue("good", NAME)


@pytest.fixture(scope="module")
def broker(authority):
    """A keeper, which makes the directories, and a cay-broker."""
    c = cay.Cay(BUILD, env={"CAY_EGRESS_CA": authority.ca})
    try:
        c.start_keeper()
        c.start_broker()
        yield c
    finally:
        c.stop()


def nouns():
    """The numbers of nouns in ids, in the order of their table."""
    rows = [line.split("(")[1].split(",")[0] for line in (pathlib.Path(__file__).parents[3] / "src/lib/base/nouns.def").read_text().splitlines()
            if line.startswith("CAY_NOUN(")]
    return {name: i + 1 for i, name in enumerate(rows)}


def an_id(noun):
    """Sixteen bytes that are an id."""
    return bytes([nouns()[noun]]) + bytes(4) + b"\x01" * 11


def record(name=NAME, port=443, credential="", magic=MAGIC, abi=ABI, sandbox=None, tenant=None):
    return struct.pack("<IHH16s16s256s64s", magic, abi, port, sandbox or an_id("SANDBOX"), tenant or an_id("TENANT"), name.encode(), credential.encode())


@contextlib.contextmanager
def as_user(uid):
    """Connect as this user; who owns a socket is decided then."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def connect(broker, uid=cay.EGRESS_UID):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(30)
    with as_user(uid):
        s.connect(str(broker.run / "broker/flow.sock"))
    return s


def give(broker, port, **more):
    """Our end of the pair of a connection to a port of this machine, which the broker takes for that of the record."""
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    with socket.create_connection(("127.0.0.1", port)) as host, connect(broker) as s, theirs:
        socket.send_fds(s, [record(port=port, **more)], [theirs.fileno(), host.fileno()])
    return ours


def ask(broker, host, request=None, **more):
    """All that comes back on a pair for one request."""
    with give(broker, host.port, **more) as s:
        s.sendall((request or GET.format(port=host.port).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")).encode())
        return read_all(s)


def reason(reply):
    assert reply.startswith(b"HTTP/1.1 502 Bad Gateway\r\nCay-Reason: "), reply
    return reply.split(b"Cay-Reason: ")[1].split(b"\r\n")[0].decode()


def answers(*replies, heads=None):
    """A host that reads a head and sends the next reply, for as long as there are some."""
    def serve(s):
        for reply in replies:
            head = read_head(s)
            if heads is not None:
                heads.append(head)
            s.sendall(reply)
        with contextlib.suppress(ssl.SSLError, OSError):
            s.unwrap()
    return serve


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Of-Host: yes\r\n\r\nhello"


def test_a_request_and_its_reply(broker, good):
    heads = []
    with Host(answers(OK, heads=heads), good) as host:
        got = ask(broker, host)
        assert got.startswith(b"HTTP/1.1 200 OK\r\n") and got.endswith(b"\r\n\r\nhello") and b"X-Of-Host: yes\r\n" in got
        assert host.alpn == ["http/1.1"] and host.names == [NAME]
        assert heads == [f"GET /a?b=c HTTP/1.1\r\nHost: {NAME}:{host.port}\r\nUser-Agent: test\r\n\r\n".encode()]


def test_requests_one_after_the_other(broker, good):
    heads = []
    with Host(answers(*[OK] * 20, heads=heads), good) as host:
        with give(broker, host.port) as s:
            for i in range(20):
                s.sendall(GET.format(port=host.port).replace("/a", f"/{i}").encode())
                assert b"Content-Length: 5" in read_head(s) and s.recv(5, socket.MSG_WAITALL) == b"hello"
            assert s.recv(1) == b""  # the host has left
        assert [h.split()[1] for h in heads] == [f"/{i}?b=c".encode() for i in range(20)]


@pytest.mark.parametrize("kind", ["other", "expired", "self", "unknown"])
def test_a_certificate_that_is_not_for_this_host(broker, authority, kind, tmp_path):
    cert = {"other": lambda: authority.issue("other", "evil.example.com"), "expired": lambda: authority.issue("expired", NAME, tlshost.OLD),
            "self": lambda: authority.issue("self", NAME, signed=False), "unknown": lambda: tlshost.Authority(tmp_path).issue("x", NAME)}[kind]()
    seen = []
    with Host(lambda s: seen.append(read_all(s)), cert) as host:
        got = ask(broker, host)
        assert reason(got) == "certificate" and f"cay: {NAME}:{host.port}: TLS failed: ".encode() in got
        wait_for("the handshake to fail", lambda: host.failed or seen, 30)
        assert not any(seen)  # in TLS 1.3 the host may think that it was done
        words = {"other": b"mismatch", "expired": b"expired", "self": b"self", "unknown": b"issuer"}
        assert words[kind] in got


def test_a_wildcard_and_another_name_in_it(broker, authority):
    cert = authority.issue("wild", "*.example.com")
    with Host(answers(OK), cert) as host:
        assert ask(broker, host).startswith(b"HTTP/1.1 200")
    with Host(answers(OK), cert) as host:
        request = GET.format(port=host.port).replace(NAME, "a.b.example.com")
        assert reason(ask(broker, host, request, name="a.b.example.com")) == "certificate"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_hosts_that_do_no_tls(broker, good):
    with Host(lambda s: s.sendall(b"SSH-2.0-OpenSSH_9\r\n") or read_all(s)) as host:
        assert reason(ask(broker, host)) == "handshake"
    with Host(lambda s: s.close()) as host:
        assert reason(ask(broker, host)) == "handshake"
    old = ssl.TLSVersion.TLSv1_1
    with Host(answers(OK), good, version=old) as host:
        host.context.set_ciphers("ALL:@SECLEVEL=0")
        assert reason(ask(broker, host)) == "handshake"


def test_a_request_for_another_host_is_not_sent(broker, good):
    heads = []
    for request in ("GET / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", "GET / HTTP/1.1\r\nHost: {name}:444\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
                    "GET https:" "//evil.example.com/ HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n", "CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n",
                    "POST / HTTP/1.1\r\nHost: {name}:{port}\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: {name}:{port}\r\nHost: {name}:{port}\r\n\r\n", "GET /" + "a" * 20000 + " HTTP/1.1\r\n\r\n"):
        with Host(answers(OK, heads=heads), good) as host:
            assert reason(ask(broker, host, request.replace("{name}", NAME).replace("{port}", str(host.port)))) == "request"
    assert heads == []


def test_headers_of_one_connection_stay_on_it(broker, good):
    heads = []
    reply = (b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nKeep-Alive: timeout=5\r\nCay-Reason: certificate\r\nAlt-Svc: h3=\":443\"\r\nProxy-Authenticate: Basic\r\n"
             b"X-Kept: 1\r\n\r\nhi")
    with Host(answers(reply, heads=heads), good) as host:
        request = GET.format(port=host.port).replace("\r\n\r\n", "\r\nTE: trailers\r\nKeep-Alive: 1\r\nProxy-Authorization: x\r\nX-Mine: 2\r\nConnection: close\r\n\r\n")
        got = ask(broker, host, request)
    assert got == b"HTTP/1.1 200 Fine\r\nX-Kept: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    assert b"X-Mine: 2\r\n" in heads[0]
    assert not any(word in heads[0].lower() for word in (b"te:", b"keep-alive", b"proxy-", b"connection"))


def test_bodies(broker, good):
    """Both ways, with a length and in chunks; what arrives is what was sent."""
    data = os.urandom(3 << 20)

    def serve(s):
        for _ in range(2):
            head = read_head(s)
            got = b""
            if b"Content-Length" in head:
                while len(got) < len(data):
                    got += s.recv(1 << 16)
                s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for at in range(0, len(got), 100000):
                    piece = got[at:at + 100000]
                    s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                s.sendall(b"0\r\n\r\n")
            else:
                while n := int(read_line(s), 16):
                    got += read_exactly(s, n + 2)[:-2]
                read_line(s)
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(got), got))

    with Host(serve, good) as host, give(broker, host.port) as s:
        top = f"POST /x HTTP/1.1\r\nHost: {NAME}:{host.port}\r\n".encode()
        writer = threading.Thread(target=s.sendall, args=(top + b"Content-Length: %d\r\n\r\n%s" % (len(data), data),))
        writer.start()
        writer.join(60)
        assert b"Transfer-Encoding: chunked" in read_head(s)
        got = b""
        while n := int(read_line(s), 16):
            got += read_exactly(s, n + 2)[:-2]
        read_line(s)
        assert got == data
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (data[:5], data[5:70000], data[70000:])) + b"0\r\n\r\n"
        writer = threading.Thread(target=s.sendall, args=(top + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,))
        writer.start()
        assert b"Content-Length: %d\r\n" % len(data) in read_head(s)
        assert read_exactly(s, len(data)) == data
        writer.join(60)


def read_exactly(s, n):
    got = b""
    while len(got) < n:
        piece = s.recv(min(n - len(got), 1 << 16))
        if not piece:
            raise EOFError(len(got))
        got += piece
    return got


def read_line(s):
    got = b""
    while not got.endswith(b"\r\n"):
        got += read_exactly(s, 1)
    return got[:-2]


def test_a_body_that_ends_with_the_connection(broker, good):
    with Host(answers(b"HTTP/1.1 200 OK\r\n\r\nuntil the end"), good) as host:
        got = ask(broker, host)
    assert b"Transfer-Encoding: chunked\r\n" in got and b"Connection: close\r\n" in got and got.endswith(b"d\r\nuntil the end\r\n0\r\n\r\n")


def test_a_body_that_is_cut_off_is_not_complete(broker, good):
    def serve(s):
        read_head(s)
        s.sendall(b"HTTP/1.1 200 OK\r\n\r\nuntil")
        s.shutdown(socket.SHUT_RDWR)  # without close_notify
    with Host(serve, good) as host:
        assert not ask(broker, host).endswith(b"0\r\n\r\n")
    with Host(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), good) as host:
        assert ask(broker, host).endswith(b"half")


@pytest.mark.parametrize("reply", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"hello\r\n\r\n", b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20000 + b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 100 + b"\r\n", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", b"HTTP/1.1 100 C\r\n\r\n" * 9],
    ids=["lengths", "length-and-chunks", "switches", "http2", "no-http", "empty", "long", "many", "no-returns", "coding", "interim"])
def test_replies_that_two_readers_could_take_differently(broker, good, reply):
    with Host(answers(reply), good) as host:
        assert reason(ask(broker, host)) == "reply"


def test_a_second_reply_is_not_passed_on(broker, good):
    """Bytes behind a reply belong to no request."""
    with Host(answers(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), good) as host, give(broker, host.port) as s:
        s.sendall(GET.format(port=host.port).encode())
        got = read_all(s)
        assert got.endswith(b"hello") and b"evil" not in got


def test_a_host_that_speaks_first(broker, good):
    ended = threading.Event()

    def serve(s):
        s.sendall(OK)
        with contextlib.suppress(OSError):
            read_all(s)
        ended.set()
    with Host(serve, good) as host, give(broker, host.port) as s:
        assert ended.wait(30)
        s.sendall(GET.format(port=host.port).encode())
        assert reason(read_all(s)) == "reply"


def test_a_host_that_leaves(broker, good):
    with Host(lambda s: read_head(s) and s.unwrap(), good) as host:
        assert reason(ask(broker, host)) == "closed"


def test_head_and_replies_without_a_body(broker, good):
    replies = [b"HTTP/1.1 200 OK\r\nContent-Length: 700\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n",
               b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"]
    with Host(answers(*replies), good) as host, give(broker, host.port) as s:
        for method, expected in (("HEAD", b"Content-Length: 700\r\n"), ("GET", b"304 Not Modified"), ("GET", b"204"), ("GET", b"201 Created")):
            s.sendall(GET.format(port=host.port).replace("GET", method).encode())
            assert expected in read_head(s)
        assert s.recv(1) == b""


def test_websocket(broker, good):
    def serve(s):
        head = read_head(s)
        assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in head and b"Sec-WebSocket-Key: abc\r\n" in head
        s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: xyz\r\n\r\nfirst")
        while data := s.recv(1 << 16):
            s.sendall(data[::-1])
    with Host(serve, good) as host, give(broker, host.port) as s:
        s.sendall(GET.format(port=host.port).replace("\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: abc\r\n\r\n").encode())
        head = read_head(s)
        assert b" 101 " in head and b"Upgrade: websocket\r\n" in head and b"Sec-WebSocket-Accept: xyz\r\n" in head
        assert read_exactly(s, 5) == b"first"
        s.sendall(b"\x81\x02hi")
        assert read_exactly(s, 4) == b"ih\x02\x81"


def test_a_client_that_leaves_ends_the_connection(broker, good):
    came, left = threading.Event(), threading.Event()

    def serve(s):
        read_head(s)
        came.set()
        with contextlib.suppress(OSError):
            s.recv(1)
        left.set()
    with Host(serve, good) as host:
        with give(broker, host.port) as s:
            s.sendall(GET.format(port=host.port).encode())
            assert came.wait(30)
        assert left.wait(30)


def test_only_the_user_of_cay_egress(broker, good):
    assert oct((broker.run / "broker").stat().st_mode)[-4:] == "2750" and (broker.run / "broker").stat().st_gid == cay.EGRESS_UID
    for uid in (cay.CONTROL_UID, 64199):
        with pytest.raises(PermissionError):
            connect(broker, uid)
    with connect(broker, 0) as s:  # root passes the directory, and is another user
        with contextlib.suppress(OSError):
            s.send(record())
        assert read_all(s) == b""
    assert "refused a connection of another user" in broker.log("cay-broker")


@pytest.mark.parametrize("bad", [
    {"magic": 1}, {"abi": 99}, {"port": 0}, {"sandbox": bytes(16)}, {"tenant": an_id("SANDBOX")}, {"name": "A.example.com"}, {"name": ""}, {"name": "a b"},
    {"credential": "../x"}, {"name": "a.example.com\0x"}], ids=lambda bad: "-".join(bad))
def test_records_that_are_not_valid(broker, good, bad):
    with Host(answers(OK), good) as host, connect(broker) as s, socket.create_connection(("127.0.0.1", host.port)) as there:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(s, [record(**{"port": host.port, **bad})], [theirs.fileno(), there.fileno()])
            theirs.close()
            ours.settimeout(30)
            assert read_all(ours) == b"" and read_all(s) == b""


def test_records_with_other_descriptors(broker, good):
    with Host(answers(OK), good) as host:
        for fds in ("none", "one", "swapped", "files", "datagrams"):
            with connect(broker) as s, socket.create_connection(("127.0.0.1", host.port)) as there, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                ours, theirs = socket.socketpair()
                udp.connect(("127.0.0.1", host.port))
                with ours, theirs, open("/dev/null") as null:
                    pair, tcp = theirs.fileno(), there.fileno()
                    which = {"none": [], "one": [pair], "swapped": [tcp, pair], "files": [null.fileno()] * 2, "datagrams": [pair, udp.fileno()]}[fds]
                    socket.send_fds(s, [record(port=host.port)], which)
                    theirs.close()
                    ours.settimeout(30)
                    assert read_all(ours) == b"", fds
    assert ask_again(broker, good)


def ask_again(broker, good):
    with Host(answers(OK), good) as host:
        return ask(broker, host).endswith(b"hello")


def test_it_opens_no_connection_and_no_file(broker):
    """The filter of its process, as the kernel has it."""
    status = dict(line.split(":\t") for line in open(f"/proc/{broker.pids()['cay-broker']}/status").read().splitlines())
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0


# -- credentials

SECRET = "sk-live/4f+9=Zq%7:x~0123456789abcdef"
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


def id_bytes(noun, text):
    bits = 0
    for letter in text[2:]:
        bits = bits << 5 | LETTERS.index(letter)
    return bytes([nouns()[noun]]) + bits.to_bytes(15)


@pytest.fixture(scope="module")
def node(authority):
    """Keeper, cay-broker and cayd; cay-egress is the test."""
    with cay.Cay(BUILD, env={"CAY_EGRESS_CA": authority.ca}) as c:
        connected(c)
        yield c


def connected(c):
    wait_for("cay-broker to be connected", lambda: "cay-broker is connected" in c.log("cayd"), 30)


def put(c, name="example", value=SECRET, hosts=(NAME,), **more):
    """The credential, set; waits while the tenant changes too many a second."""
    while True:
        try:
            return c.call("PUT", f"/v1/credentials/{name}", {"value": value, "hosts": list(hosts), **more})
        except ApiError as e:
            if e.code != "rate_limited":
                raise
            cay.let_pass(0.2)


def with_credential(node, host, name="example", tenant=DEFAULT, request=None, flow=NAME):
    return ask(node, host, request, credential=name, tenant=id_bytes("TENANT", tenant), name=flow)


def headers(head):
    return [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")[1:-2]]


def sent(node, good, request=None, name="example"):
    """The head that the host gets for a request with that credential."""
    heads = []
    with Host(answers(OK, heads=heads), good) as host:
        got = with_credential(node, host, name, request=request and request.replace("{port}", str(host.port)))
        assert got.endswith(b"hello"), got
    return heads[0]


def test_a_bearer_is_set_in_place_of_what_was_there(node, good):
    info = put(node)
    assert info["kind"] == "bearer" and info["hosts"] == [NAME] and info["hint"] == SECRET[-4:] and info["ready"] is True
    assert info["placeholder"].startswith("cay_cred_") and len(info["placeholder"]) == 31
    request = (f"GET / HTTP/1.1\r\nHost: {NAME}:{{port}}\r\nauthorization: Bearer {info['placeholder']}\r\nAuthorization: Basic eDp5\r\n"
               "Accept-Encoding: gzip, br\r\nConnection: close\r\n\r\n")
    got = headers(sent(node, good, request))
    assert [v for k, v in got if k.lower() == "authorization"] == [f"Bearer {SECRET}"]
    assert [v for k, v in got if k.lower() == "accept-encoding"] == ["identity"]


def test_the_other_kinds(node, good):
    put(node, "git", "robot:ghp_0123456789abcdef", kind="basic")
    assert ("Authorization", "Basic " + base64.b64encode(b"robot:ghp_0123456789abcdef").decode()) in headers(sent(node, good, name="git"))
    put(node, "own", kind="header", header="X-API-Key", pattern="Token {} end")
    request = f"GET / HTTP/1.1\r\nHost: {NAME}:{{port}}\r\nx-api-key: mine\r\nX-Api-Key: again\r\nAuthorization: kept\r\nConnection: close\r\n\r\n"
    got = headers(sent(node, good, request, "own"))
    assert [v for k, v in got if k.lower() == "x-api-key"] == [f"Token {SECRET} end"] and ("Authorization", "kept") in got
    put(node, "member", kind="query", header="api_key")
    for target, expected in (("/p", "/p?"), ("/p?a=1", "/p?a=1&"), ("/p?api_key=mine&b=2&%61pi_key=x", "/p?b=2&"), ("/p?api%5fkey=&&", "/p?")):
        line = sent(node, good, f"GET {target} HTTP/1.1\r\nHost: {NAME}:{{port}}\r\nConnection: close\r\n\r\n", "member").split(b"\r\n")[0].decode()
        assert line == f"GET {expected}api_key={urllib.parse.quote(SECRET, safe='-._~')} HTTP/1.1"


def test_only_for_its_hosts_and_its_tenant(node, authority, good):
    """What cay-egress says is compared: another host that has a good certificate, another tenant, another name."""
    put(node)
    other = node.call("POST", "/v1/tenants", {"name": "other"})["id"]
    cert = authority.issue("second", "other.example.com")
    heads = []
    with Host(answers(OK, heads=heads), cert) as host:
        got = with_credential(node, host, request=GET.format(port=host.port).replace(NAME, "other.example.com"), flow="other.example.com")
        assert reason(got) == "credential" and b"not for this host" in got
    with Host(answers(OK, heads=heads), good) as host:
        assert reason(with_credential(node, host, tenant=other)) == "credential"
    with Host(answers(OK, heads=heads), good) as host:
        assert reason(with_credential(node, host, "nosuch")) == "credential"
    with Host(answers(OK, heads=heads), cert) as host:  # the name is right, the host is not
        assert reason(with_credential(node, host)) == "certificate"
    assert heads == []
    theirs = asks(node, "write", other)
    assert theirs.call("GET", "/v1/credentials") == {"credentials": []}
    with pytest.raises(ApiError) as e:
        theirs.call("DELETE", "/v1/credentials/example")
    assert e.value.code == "not_found"
    put(theirs, value="their-own-secret-value")
    heads.clear()
    with Host(answers(OK, heads=heads), good) as host:
        with_credential(node, host, tenant=other)
    assert b"Bearer their-own-secret-value\r\n" in heads[0]
    node.call("POST", f"/v1/keys/{TOLD[node.state, 'write', other][0]}/revoke")
    node.call("DELETE", f"/v1/tenants/{other}")
    with Host(answers(OK), good) as host:
        assert reason(with_credential(node, host, tenant=other)) == "credential"


FORMS = {"itself": lambda s: s, "base64": lambda s: base64.b64encode(s), "inside base64": lambda s: base64.b64encode(b"x" + s + b"yz"),
         "further inside": lambda s: base64.b64encode(b"xy" + s), "url base64": lambda s: base64.urlsafe_b64encode(b'{"key":"' + s + b'"}'),
         "percent": lambda s: urllib.parse.quote(s, safe="").encode(), "lower percent": lambda s: re.sub(b"%..", lambda m: m[0].lower(), urllib.parse.quote(s, safe="").encode())}


def test_what_a_host_sends_back_is_masked(node, good):
    """In heads and bodies, in each form, whole and cut at every byte."""
    put(node)
    secret = SECRET.encode()
    bodies = [b"<" + form(secret) + b">" for form in FORMS.values()]
    core = secret[1:-1]
    kept = {core, base64.b64encode(secret)[4:-4], urllib.parse.quote(secret, safe="").encode()[4:-4], base64.b64encode(b"x" + secret)[4:-4],
            base64.b64encode(b"xy" + secret)[4:-4], base64.urlsafe_b64encode(secret)[4:-4]}
    for body in bodies:
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Echo: %s\r\n\r\n%s" % (len(body), body, body)
        with Host(answers(reply), good) as host:
            got = with_credential(node, host)
        head, _, rest = got.partition(b"\r\n\r\n")
        assert len(rest) == len(body) and rest.startswith(b"<") and rest.endswith(b">") and b"****" in rest and b"X-Echo: <" in head
        assert not any(k in got for k in kept), body
    text = b"a " + secret + b" b " + secret[:9] + b" c " + base64.b64encode(secret)

    def in_pieces(s):
        read_head(s)
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for byte in text:
            s.sendall(b"1\r\n%c\r\n" % byte)
        s.sendall(b"0\r\n\r\n")
    with Host(in_pieces, good) as host:
        got = with_credential(node, host)
    body, rest = b"", got.partition(b"\r\n\r\n")[2]
    while n := int(rest.split(b"\r\n")[0], 16):
        rest = rest.partition(b"\r\n")[2]
        body, rest = body + rest[:n], rest[n + 2:]
    assert body.startswith(b"a " + b"*" * len(secret) + b" b " + secret[:9] + b" c ***") and len(body) == len(text)


def test_a_compressed_reply_is_refused(node, good):
    put(node)
    for coding, expected in (("gzip", "reply"), ("br, identity", "reply"), ("identity", None)):
        with Host(answers(b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: 5\r\n\r\nhello" % coding.encode()), good) as host:
            got = with_credential(node, host)
        assert got.endswith(b"hello") if expected is None else reason(got) == expected


def test_a_change_and_a_deletion_apply_to_the_next_request(node, good):
    first = put(node, "turn")
    heads = []
    with Host(answers(OK, OK, OK, heads=heads), good) as host, give(node, host.port, credential="turn", tenant=id_bytes("TENANT", DEFAULT)) as s:
        request = GET.format(port=host.port).encode()
        s.sendall(request)
        read_head(s), read_exactly(s, 5)
        assert put(node, "turn", "another-value-0123456789")["placeholder"] == first["placeholder"]
        s.sendall(request)
        read_head(s), read_exactly(s, 5)
        node.call("DELETE", "/v1/credentials/turn")
        s.sendall(request)
        assert reason(read_all(s)) == "credential"
    assert [b"Bearer " + v in h for h, v in zip(heads, (SECRET.encode(), b"another-value-0123456789"), strict=True)] == [True, True]


@pytest.mark.parametrize("bad, field", [
    ({"hosts": []}, "hosts"), ({"hosts": None}, "hosts"), ({"hosts": ["*.example.com"]}, "hosts"), ({"hosts": ["a b.c"]}, "hosts"), ({"hosts": ["1.2.3.4"]}, "hosts"),
    ({"value": "short"}, "value"), ({"value": "line\r\nHost: evil.test"}, "value"), ({"value": "caf\u00e9-0123456789"}, "value"), ({"value": " 0123456789"}, "value"),
    ({"kind": "basic"}, "value"), ({"kind": "basic", "value": "user:short"}, "value"), ({"kind": "oauth"}, "kind"), ({"kind": "sigv4"}, "scope"), ({"scope": "eu-west-1/s3"}, "scope"), ({"kind": "sigv4", "scope": "eu-west-1/s3"}, "value"), ({"kind": "header"}, "header"),
    ({"kind": "header", "header": "Host"}, "header"), ({"kind": "header", "header": "content-LENGTH"}, "header"), ({"kind": "header", "header": "X_Y"}, "header"),
    ({"header": "X-Y"}, "header"), ({"pattern": "{}"}, "pattern"), ({"kind": "header", "header": "X", "pattern": "none"}, "pattern"),
    ({"kind": "header", "header": "X", "pattern": "{}\r\nY: {}"}, "pattern"), ({"kind": "query", "header": "a&b"}, "header"), ({"env": "1A"}, "env"), ({"env": "A=B"}, "env")],
    ids=lambda bad: "-".join(map(str, bad)) if isinstance(bad, dict) else "")
def test_credentials_that_are_not_valid(node, bad, field):
    value = "user:0123456789abcdef" if bad.get("kind") == "query" else SECRET.replace(":", "-")
    with pytest.raises(ApiError) as e:
        node.call("PUT", "/v1/credentials/bad", {"value": value, "hosts": [NAME], **bad})
    assert e.value.code == "invalid_argument" and json.loads(e.value.body)["error"]["field"].split("[")[0].split(".")[0] == field
    assert SECRET not in str(e.value) and "bad" not in [c["name"] for c in node.call("GET", "/v1/credentials")["credentials"]]


def test_the_value_is_nowhere(node, good):
    """In no reply, log, file, argument or variable; only cay-broker's memory has it."""
    value = "canary-" + os.urandom(12).hex()
    put(node, "canary", value)
    assert b"Bearer " + value.encode() in sent(node, good, name="canary")
    assert value not in json.dumps(node.call("GET", "/v1/credentials"))
    found = subprocess.run(["grep", "-rlaF", value, str(node.state), str(node.run), *node.logs.values()], capture_output=True, text=True).stdout
    assert found == ""
    for pid in node.pids().values():
        for file in ("cmdline", "environ"):
            assert value.encode() not in open(f"/proc/{pid}/{file}", "rb").read()
    row = (node.state / "db/credentials.json").read_text()
    assert '"canary"' in row and oct((node.state / "db/credentials.json").stat().st_mode)[-3:] == "600"
    key = node.state / "broker/broker.key"
    assert key.stat().st_uid == cay.BROKER_UID and oct(key.stat().st_mode)[-3:] == "600" and oct(key.parent.stat().st_mode)[-3:] == "700"


def test_neither_hosts_nor_place_can_be_changed_in_the_file(authority):
    """The envelope has them: a row that was changed does not open, and others do."""
    with cay.Cay(BUILD, env={"CAY_EGRESS_CA": authority.ca}) as c:
        connected(c)
        for name in ("a", "b", "c", "d"):
            put(c, name)
        c.daemons["cayd"].kill()
        c.daemons["cayd"].wait()
        file = c.state / "db/credentials.json"
        rows = json.loads(file.read_text())
        by_name = {r["info"]["name"]: r for r in rows["credentials"]}
        by_name["a"]["info"]["hosts"] = ["evil.example.com"]
        by_name["b"]["info"]["kind"] = "query"
        by_name["b"]["info"]["header"] = "key"
        by_name["c"]["sealed"] = by_name["d"]["sealed"]
        file.write_text(json.dumps(rows))
        os.chown(file, cay.CONTROL_UID, cay.CONTROL_UID)
        c.start_cayd()

        def ready():
            return {r["name"]: r["ready"] for r in c.call("GET", "/v1/credentials")["credentials"]}
        wait_for("the good row", lambda: ready()["d"], 30)
        wait_for("the last row", lambda: c.log("cayd").count("cannot open credential") == 3, 30)
        assert ready() == {"a": False, "b": False, "c": False, "d": True}
        done = subprocess.run([str(c.programs["cay"]), "doctor", "--json"], capture_output=True, text=True, env=c.env)
        check = {r["name"]: r for r in json.loads(done.stdout)["checks"]}["credentials"]
        assert check["verdict"] == "WARN" and "3 credentials are not ready" in json.dumps(check)


def test_credentials_survive_restarts(authority, good):
    with cay.Cay(BUILD, env={"CAY_EGRESS_CA": authority.ca}) as c:
        connected(c)
        names = [f"k{i}" for i in range(30)]  # more than are sent at a time
        for name in names:
            put(c, name, f"value-of-{name}-0123456789")
        for daemon, again in (("cay-broker", c.start_broker), ("cayd", c.start_cayd)):
            c.daemons[daemon].kill()
            c.daemons[daemon].wait()
            if daemon == "cay-broker":
                wait_for("its end to be seen", lambda: not any(r["ready"] for r in c.call("GET", "/v1/credentials")["credentials"]), 30)
                with pytest.raises(ApiError) as e:
                    put(c, "late")
                assert e.value.code == "egress_unavailable"
            again()
            wait_for("all to be there", lambda: all(r["ready"] for r in c.call("GET", "/v1/credentials")["credentials"]), 30)
            for name in names[::29]:
                assert f"Bearer value-of-{name}-0123456789\r\n".encode() in sent(c, good, name=name)
        assert len(c.call("GET", "/v1/credentials")["credentials"]) == 30


def test_how_many_a_tenant_has(authority):
    with cay.Cay(BUILD, env={"CAY_EGRESS_CA": authority.ca}) as c:
        connected(c)
        for i in range(64):
            put(c, f"n{i}")
        with pytest.raises(ApiError) as e:
            put(c, "more")
        assert e.value.code == "limit_exceeded" and put(c, "n7", "another-0123456789")["ready"]


def test_only_cayd_gives_credentials(node):
    path = str(node.run / "credentials/broker.sock")
    for uid, refused in ((cay.EGRESS_UID, PermissionError), (0, None)):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(30)
        with s:
            if refused:
                with pytest.raises(refused), as_user(uid):
                    s.connect(path)
            else:
                s.connect(path)
                with contextlib.suppress(OSError):
                    s.send(struct.pack("<IHH", 0x43594143, 1, 1).ljust(8648, b"\0"))  # a hello, which has a reply
                assert read_all(s) == b""


def test_the_command_line(node):
    def run(*words, value=""):
        return subprocess.run([str(node.programs["cay"]), *words], input=value, capture_output=True, text=True, env=node.env)
    done = run("credential", "put", "--host", "api.example.com", "--kind", "header", "--header", "X-Key", "--env", "KEY", "cli", value="cli-secret-0123456789\n")
    assert done.returncode == 0 and "cay_cred_" in done.stderr and "cli-secret" not in done.stdout + done.stderr
    listed = run("credential", "ls").stdout
    assert "cli " in listed and "6789" in listed and "cli-secret" not in listed
    assert run("credential", "put", "--host", "api.example.com", "cli").returncode != 0  # nothing on standard input
    assert run("credential", "rm", "cli").returncode == 0 and "cli " not in run("credential", "ls").stdout
