# SPDX-License-Identifier: Apache-2.0
"""TLS under the server, and as a client, against Python's ssl and the openssl command"""
import contextlib
import hashlib
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest

from test_net import GET, LONG, Serve, drain, error, read_head, wait_for

PEER = os.environ.get("CAY_TLS_PEER", "build/gcc/tests/integration/tls-peer")
LARGE = 100 << 20


class Files:
    """A root, and a certificate of it for localhost."""
    def __init__(self, top):
        self.ca, self.other = str(top / "ca.pem"), str(top / "other.pem")
        self.cert, self.key = str(top / "cert.pem"), str(top / "key.pem")
        new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        for name in (self.ca, self.other):
            run(*new, "-subj", f"/CN=root of {os.path.basename(name)}", "-addext", "keyUsage=critical,keyCertSign", "-keyout", name + ".key", "-out", name)
        run(*new, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-CA", self.ca,
            "-CAkey", self.ca + ".key", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", self.key,
            "-out", self.cert)


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("tls"))


class Tls(Serve):
    def __init__(self, files, **limits):
        super().__init__(socket.AF_INET, (files.cert, files.key), **limits)
        self.context = ssl.create_default_context(cafile=files.ca)

    def plain(self):
        return super().connect()

    def connect(self, data=b"", timeout=30):
        s = self.context.wrap_socket(self.plain(), server_hostname="localhost", suppress_ragged_eofs=False)
        s.settimeout(timeout)
        s.sendall(data)
        return s


@pytest.fixture
def tls(files):
    s = Tls(files)
    yield s
    s.stop()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests(tls, version):
    tls.context.minimum_version = tls.context.maximum_version = version
    tls.context.set_alpn_protocols(["h2", "http/1.1"])
    s = tls.connect()
    assert s.selected_alpn_protocol() == "http/1.1"
    assert s.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
    one = GET % b"/v1/sandboxes?limit=7" + b"\r\n"
    for _ in range(3):
        s.sendall(one)
        assert b"seven" in s.recv(4096)
    s.sendall(one * 20 + GET % b"/v1/sandboxes" + b"Connection: close\r\n\r\n")
    got = drain(s)  # Python's ssl raises where the end is not close_notify
    assert got.count(b"seven") == 20 and got.endswith(b"other")
    got = tls.talk(GET % b"/stream" + b"Connection: close\r\n\r\n")
    assert got.endswith(b"0\r\n\r\n") and len(got) > 64 << 20


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_too_old_or_foreign_is_refused(tls):
    tls.context.minimum_version = ssl.TLSVersion.TLSv1
    tls.context.maximum_version = ssl.TLSVersion.TLSv1_1
    tls.context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError):
        tls.connect()
    tls.context = ssl.create_default_context(cafile=None)
    with pytest.raises(ssl.SSLCertVerificationError):
        tls.connect()
    tls.context.check_hostname, tls.context.verify_mode = False, ssl.CERT_NONE
    tls.context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        tls.connect()
    tls.context = ssl._create_unverified_context()
    tls.context.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.context.set_ciphers("ECDHE-ECDSA-AES128-SHA256")  # not authenticated as it is encrypted
    with pytest.raises(ssl.SSLError):
        tls.connect()


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 500, b"\x16\x03\x01\xff\xff" + b"x" * 70000,
                                  b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"], ids=["http", "zeroes", "too long", "short"])
def test_garbage_instead_of_a_hello(tls, data):
    s = tls.plain()
    try:
        s.sendall(data)
    except OSError:
        pass
    got = drain(s)
    assert b"HTTP" not in got and (not got or got[0] == 21)  # an alert
    assert b"other" in tls.talk(GET % b"/v1/sandboxes" + b"Connection: close\r\n\r\n")


def test_a_slow_handshake_is_cut_off(files):
    tls = Tls(files, handshake=500)
    begin = time.monotonic()
    s = tls.plain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may be already
        for b in b"\x16\x03\x01\x01\x00":
            s.sendall(bytes([b]))
            threading.Event().wait(0.05)
    assert drain(s) == b"" and 0.4 < time.monotonic() - begin < 10  # long before an idle connection is
    tls.stop()


def test_half_close(tls):
    before = tls.stats()["gone"]
    s = tls.connect(GET % b"/never" + b"\r\n")
    wait_for(lambda: tls.stats()["conns"] == 2)
    s.unwrap()  # close_notify both ways
    wait_for(lambda: tls.stats()["gone"] == before + 1)
    s = tls.connect(GET % b"/never" + b"\r\n")
    wait_for(lambda: tls.stats()["conns"] == 2)
    socket.socket.shutdown(s, socket.SHUT_RDWR)  # cut off
    wait_for(lambda: tls.stats()["gone"] == before + 2)


def test_an_abort_is_no_end(tls):
    s = tls.connect(GET % b"/liar" + b"\r\n")
    with pytest.raises((ssl.SSLEOFError, ConnectionResetError)):
        while s.recv(4096):
            pass


def test_large_bodies_both_ways_at_once_with_a_reader_that_stops(tls):
    def echo(c):
        with c:
            c.sendall(b"HTTP/1.1 200 x\r\nContent-Length: %d\r\n\r\n" % LARGE)
            b = read_head(c).split(b"\r\n\r\n", 1)[1]
            while True:
                c.sendall(b)
                b = c.recv(1 << 18)
                if not b:
                    return

    tls.listen(echo)
    s = tls.connect(b"POST /v1/images?name=relayed HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % LARGE)
    body = read_head(s).split(b"\r\n\r\n", 1)[1]
    s.setblocking(False)
    block, stalled_until, most = os.urandom(1 << 16), time.monotonic() + 1, 0
    left, right, sent, got = hashlib.sha256(), hashlib.sha256(), 0, 0
    while got < LARGE:
        right.update(body)
        got, body = got + len(body), b""
        with contextlib.suppress(ssl.SSLWantWriteError, ssl.SSLWantReadError):
            while sent < LARGE:
                n = s.send(block)
                left.update(block[:n])
                sent, block = sent + n, block[n:] + block[:n]
        if time.monotonic() < stalled_until:  # nobody reads for a while
            threading.Event().wait(0.05)
            most = max(most, tls.rss())
            assert sent < LARGE / 2
            continue
        with contextlib.suppress(ssl.SSLWantWriteError, ssl.SSLWantReadError):
            body = s.recv(1 << 18)
    assert left.digest() == right.digest() and sent == got == LARGE
    assert 0 < most < 40 << 20


def test_renegotiation_is_refused(tls, files):
    p = subprocess.Popen(["openssl", "s_client", "-connect", "127.0.0.1:%d" % tls.address[1], "-tls1_2", "-CAfile", files.ca],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    p.stdin.write(b"R\n")
    p.stdin.flush()
    out, _ = p.communicate(timeout=60)
    assert b"RENEGOTIATING" in out and b"no renegotiation" in out.lower()


def test_certificates_that_cannot_be_used(files, tmp_path):
    secret = str(tmp_path / "secret")
    run("openssl", "ec", "-in", files.key, "-aes128", "-passout", "pass:xyzw", "-out", secret)
    for cert, key, word in [("/none", files.key, b"certificate '/none'"), (files.cert, "/none", b"key '/none'"),
                            (files.cert, files.ca + ".key", b"mismatch"), (files.cert, secret, b"key"),
                            (files.key, files.key, b"certificate")]:
        r = subprocess.run([os.environ.get("CAY_SERVE", "build/gcc/tests/integration/serve"), "/u", cert, key],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        assert r.returncode == 3 and word in r.stderr, r.stderr


# The client side

class Listener:
    def __init__(self, files, answer):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(files.cert, files.key)
        self.context.set_alpn_protocols(["http/1.1"])
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.answer = answer
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        c, _ = self.socket.accept()
        try:
            with self.context.wrap_socket(c, server_side=True) as s:
                self.answer(s)
        except (ssl.SSLError, ConnectionError):
            pass


def peer(port, ca, host, data=b"", handshake=LONG):
    s = socket.create_connection(("127.0.0.1", port))
    fd = s.fileno()
    return subprocess.run([PEER, ca, host, str(handshake)], input=data, capture_output=True, timeout=60,
                          preexec_fn=lambda: os.dup2(fd, 3, inheritable=True), pass_fds=(3,))


def test_client(files):
    for host in ("localhost", "127.0.0.1"):
        seen = []

        def answer(s):
            seen.append((s.recv(100), s.selected_alpn_protocol()))
            s.sendall(b"x" * 200000)
            s.unwrap()
        r = peer(Listener(files, answer).socket.getsockname()[1], files.ca, host, b"hello")
        assert r.returncode == 0 and r.stdout == b"x" * 200000 and r.stderr == b"ready\n", r.stderr
        assert seen == [(b"hello", "http/1.1")]


@pytest.mark.parametrize("which, host, word", [("other", "localhost", b"issuer"), ("ca", "other.host", b"hostname mismatch"),
                                               ("ca", "127.0.0.2", b"IP address mismatch")])
def test_client_believes_only_whom_it_asked_for(files, which, host, word):
    seen = []
    r = peer(Listener(files, lambda s: seen.append(s.recv(100))).socket.getsockname()[1], getattr(files, which), host, b"secret")
    assert r.returncode == 1 and word.lower() in r.stderr.lower() and b"ready" not in r.stderr, r.stderr
    assert b"secret" not in b"".join(seen)


def test_client_sees_what_is_cut_off_or_silent(files):
    r = peer(Listener(files, lambda s: s.sendall(b"half")).socket.getsockname()[1], files.ca, "localhost")
    assert r.returncode == 1 and r.stdout == b"half" and b"close_notify" in r.stderr
    silent = socket.create_server(("127.0.0.1", 0))
    r = peer(silent.getsockname()[1], files.ca, "localhost", handshake=500)
    assert r.returncode == 1 and b"too long" in r.stderr
    r = peer(silent.getsockname()[1], "/none", "localhost")
    assert r.returncode == 3
