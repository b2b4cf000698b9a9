# SPDX-License-Identifier: Apache-2.0
"""Real proxies before an edge, as operations.md configures them: an address is the client's, and a client cannot choose it."""
import contextlib
import http.client
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess

import pytest
import world
from cay import free_port, wait_for
from nodes import BUILD

DOCS = pathlib.Path(__file__).parents[3] / "docs"
HOST = "cay.example.com"
BAD = "cay_00000000_" + "A" * 43
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def example(word):
    """The fence of the guide with that word in it."""
    fences = re.findall(r"^```text\n(.*?)^```", (DOCS / "operations.md").read_text(), re.S | re.M)
    return next(f for f in fences if word in f)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A certificate that all may read: the edge and the proxies are other users."""
    top = tmp_path_factory.mktemp("proxies")
    for at in (top, *top.parents):
        with contextlib.suppress(OSError):
            at.chmod(at.stat().st_mode | 0o055)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=" + HOST, "-addext", "subjectAltName=DNS:" + HOST, "-keyout", top / "key", "-out", top / "cert"],
                   check=True, capture_output=True)
    (top / "key").chmod(0o644)
    return top


@contextlib.contextmanager
def running(words):
    """A proxy in the foreground, with all of its processes."""
    p = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        yield p
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def nginx(files, edge, port):
    text = example("proxy_pass").replace("443 ssl", f"127.0.0.1:{port} ssl").replace("10.0.0.5:7070", f"127.0.0.1:{edge}")
    text = text.replace("/etc/ssl/cay.pem", str(files / "cert")).replace("/etc/ssl/private/cay.key", str(files / "key"))
    temporary = "".join(f"{k}_temp_path {files}/{k};\n" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (files / "nginx.conf").write_text(f"worker_processes 1;\npid {files}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
                                      f"http {{\naccess_log off;\n{temporary}{text}}}\n")
    return running(["nginx", "-e", "stderr", "-g", "daemon off;", "-c", files / "nginx.conf"])


def haproxy(files, edge, port):
    text = example("send-proxy-v2").replace("bind :443", f"bind 127.0.0.1:{port}").replace("10.0.0.5:7070", f"127.0.0.1:{edge}")
    (files / "haproxy.cfg").write_text(text)
    return running(["haproxy", "-db", "-f", files / "haproxy.cfg"])


def ask(port, address, credential="", path="/v1/sandboxes", ca=None, **headers):
    """From that address of this machine."""
    tls = ssl.create_default_context(cafile=ca) if ca else None
    if tls:
        tls.check_hostname = False
    kind = http.client.HTTPSConnection if ca else http.client.HTTPConnection
    c = kind("127.0.0.1", port, timeout=30, source_address=(address, 0), **({"context": tls} if ca else {}))
    who = {"Authorization": "Bearer " + credential} if credential else {}
    c.request("GET", path, headers={"Host": HOST if ca else "localhost", **who, **{k.replace("_", "-"): v for k, v in headers.items()}})
    reply = c.getresponse()
    reply.read()
    c.close()
    return reply.status


def refused_peers(w):
    return {r["peer"] for r in w.call("GET", "/v1/audit?limit=1000")["records"] if r["op"] == "edge.refused"}


@pytest.mark.parametrize("proxy", [nginx, haproxy])
def test_an_address_is_that_of_the_client(files, proxy):
    env = {"CAY_EDGE_TRUSTED": "127.0.0.1", "CAY_EDGE_HOSTS": HOST, "CAY_EDGE_FAILURES": "5", "CAY_EDGE_CONNECTIONS": "64", "CAY_EDGE_PEER": "4"}
    if proxy is haproxy:
        env |= {"CAY_EDGE_CERT": str(files / "cert"), "CAY_EDGE_KEY": str(files / "key")}
    ca, port = str(files / "cert"), free_port()
    with world.World(BUILD, env=env) as w, proxy(files, w.port, port) as p:
        def up():
            assert p.poll() is None, p.stderr.read()
            with contextlib.suppress(OSError):
                return ask(port, "127.0.0.9", path="/health", ca=ca) == 200
        wait_for("the proxy", up, 20)
        # whatever it says itself
        codes = [ask(port, "127.0.0.66", BAD, ca=ca, X_Forwarded_For=f"127.1.0.{i}", Forwarded=f"for=127.1.1.{i}") for i in range(12)]
        assert codes[:5] == [401] * 5 and codes.count(429) >= 5, codes
        assert ask(port, "127.0.0.2", BAD, ca=ca) == 401, "another client has tries of its own"
        assert ask(port, "127.0.0.66", w.operator_key(), ca=ca) == 200
        wait_for("the audit log", lambda: refused_peers(w) == {"127.0.0.66", "127.0.0.2"}, 20)
        # connections are the client's where the proxy says so, and otherwise no client's
        tls, held, served = ssl.create_default_context(cafile=ca), contextlib.ExitStack(), 0
        for _ in range(8):
            s = held.enter_context(socket.create_connection(("127.0.0.1", port), 20, source_address=("127.0.0.3", 0)))
            with contextlib.suppress(OSError):  # most of those over the limit are closed before TLS
                s = held.enter_context(tls.wrap_socket(s, server_hostname=HOST))
                s.sendall(f"GET /health HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
                served += s.recv(100)[9:12] == b"200"
        assert served == (4 if proxy is haproxy else 8)
        assert ask(port, "127.0.0.4", path="/health", ca=ca) == 200
        held.close()


@pytest.fixture(scope="module")
def plain():
    with world.World(BUILD, env={"CAY_EDGE_TRUSTED": "127.0.0.1 127.0.2.0/24", "CAY_EDGE_FAILURES": "5"}) as w:
        yield w


def header(address, command=b"\x21", more=b""):
    body = socket.inet_aton(address) + socket.inet_aton("127.0.0.1") + b"\x10\x00\x10\x01" + more
    return SIGNATURE + command + b"\x11" + len(body).to_bytes(2, "big") + body


def say(w, address, *pieces):
    with socket.create_connection(("127.0.0.1", w.port), 20, source_address=(address, 0)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            s.sendall(piece)
        got = b""
        with contextlib.suppress(ConnectionError):
            while piece := s.recv(4096):
                got += piece
        return got[9:12]


GET = f"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {BAD}\r\n\r\n".encode()


def test_who_is_not_trusted_is_who_it_is(plain):
    assert say(plain, "127.0.0.5", header("127.9.0.1"), GET) == b"400", "to HTTP it is a bad request"
    codes = [ask(plain.port, "127.0.0.5", BAD, X_Forwarded_For=f"127.9.0.{i}") for i in range(8)]
    assert codes.count(401) <= 6 and codes[-1] == 429, codes


@pytest.mark.parametrize("by", ["127.0.0.1", "127.0.2.77"])
def test_a_header_in_any_pieces(plain, by):
    """With fields to skip, byte by byte, and from a health check, which has no client."""
    client = "127.77.0." + by.split(".")[-1]
    whole = header(client, more=b"\x04\x01\x00" + b"z" * 256)
    assert say(plain, by, whole, GET) == b"401"
    assert say(plain, by, *[whole[i:i + 1] for i in range(len(whole))], GET) == b"401"
    assert [say(plain, by, whole + GET) for _ in range(5)][-1] == b"429"
    assert say(plain, by, header(client, b"\x20"), GET) == b"401", "of the proxy itself"
    assert say(plain, by, header(client, b"\x22"), GET) == b"", "no such command"
    assert say(plain, by, SIGNATURE + b"\x21\x11\xff\xff" + b"z" * 5000) == b"", "too long"
    assert say(plain, by, b"\r\n" + GET) == b""


def test_the_header_of_a_request_within_a_proxied_connection(plain):
    """A proxy that passes bytes on passes the client's own headers on: they count only if that client is a proxy, too."""
    lies = GET.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 127.55.0.%d\r\n\r\n")
    codes = [say(plain, "127.0.0.1", header("127.88.0.1"), lies % i) for i in range(8)]
    assert codes.count(b"401") <= 6 and codes[-1] == b"429", codes
    assert {say(plain, "127.0.0.1", header("127.0.2.1"), lies % i) for i in range(8)} == {b"401"}, "a chain of proxies"
