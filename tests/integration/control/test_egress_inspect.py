# SPDX-License-Identifier: Apache-2.0
"""Connections whose requests are read: TLS ends at cay-egress, each request is judged, cay-broker does TLS with the host

What is expected comes from the hosts of a lab: each keeps the bytes of every request that it got.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import cay
import lab
import pytest
import tlshost
import unpacked
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_egress import client_hello, decisions

API, OTHER = "93.184.2.1", "93.184.2.2"
ZONE = {"api.example.com": [API], "other.example.com": [OTHER], "plain.example.com": [API]}
HTTPS, HTTP = ("%s:/" % s + "/" for s in ("https", "http"))
PROGRAMS = ["/usr/bin/curl", "/usr/bin/openssl", "/usr/bin/git", "/usr/lib/git-core/git-remote-https"]


class Web(lab.Lab):
    """Hosts that answer requests of HTTP, one after the other, and keep each as they got it."""

    async def greet(self, address, port, reader, writer):
        first = []
        self.seen.append((address, port, first))
        with contextlib.suppress(Exception):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if b"chunked" in head:
                    while (line := await reader.readline()) != b"0\r\n":
                        body += (await reader.readexactly(int(line, 16) + 2))[:-2]
                    await reader.readline()
                first.append(head + body)
                writer.write(self.reply(head, body))
                await writer.drain()
                if b"websocket" in head.lower():
                    while data := await reader.read(1 << 16):
                        first.append(data)
                        writer.write(data)
                if b"/close" in head:
                    break
        writer.close()

    def reply(self, head, body):
        if b"websocket" in head.lower():
            return b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        text = b"you said " + head.split(b"\r\n")[0] + b" " + body
        more = b"Connection: close\r\n" if b"/close" in head else b""
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (len(text), more) + (b"" if head.startswith(b"HEAD") else text)


@pytest.fixture(scope="module")
def authority():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        yield tlshost.Authority(pathlib.Path(top))


@pytest.fixture(scope="module")
def net(authority):
    names = ["-addext", "subjectAltName=DNS:api.example.com,DNS:other.example.com"]
    with Web([(API, 443), (OTHER, 443), (API, 80)], dict(ZONE), tls=authority.issue("host", "host", names)) as internet:
        yield internet


def image():
    """The tiny one, and clients of the machine with their libraries."""
    needed = subprocess.run(["ldd", *PROGRAMS], capture_output=True, text=True, check=True).stdout
    paths = sorted({*PROGRAMS, *re.findall(r"(/\S+) \(0x", needed)})
    return tiny([cay.file(p.replace("/usr/bin", "/bin").lstrip("/"), pathlib.Path(p).read_bytes(), 0o755) for p in paths])


@pytest.fixture(scope="module")
def node(net, authority):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_EGRESS_CA": authority.ca, "CAY_EGRESS_ROOTS": authority.ca, "CAY_LOG_LEVEL": "debug"}) as c:
        c.image_import("tools", image())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        yield c


def rule(to="api.example.com", action="allow", **terms):
    return {"action": action, "to": to, **terms}


@pytest.fixture
def box(node, net):
    made = []

    def make(*rules):
        made.append(node.create("tools", egress={"rules": list(rules)}))
        return made[-1]

    net.connections()
    yield make
    for one in made:
        node.delete(one)


def curl(node, box, *words, timeout_s=60):
    """(status, text) of a request; the CA is where cay-init put it."""
    done = node.exec(box, ["curl", "-sS", "--max-time", "20", "-w", "\n%{http_code}", *words], timeout_s=timeout_s)
    text, _, status = done.text.rpartition("\n")
    return int(status or 0), text, done.stderr.decode()


def requests(net):
    """First lines of what hosts got, and the whole."""
    seen = b"".join(first for *_, first in net.connections())
    return re.findall(rb"(?m)^([A-Z]+ \S+) HTTP/1.1\r$", seen), seen


def test_a_request_that_is_allowed(node, net, box):
    one = box(rule(methods=["GET", "HEAD"], paths=["/v1/*"]))
    status, text, error = curl(node, one, HTTPS + "api.example.com/v1/a?b=c", "-H", "X-One: two",
                               "-H", "X-HTTP-Method-Override: get", "-H", "X-Original-URL: /v1/b")
    assert (status, text) == (200, "you said GET /v1/a?b=c HTTP/1.1 "), error
    lines, seen = requests(net)
    assert lines == [b"GET /v1/a?b=c"] and b"\r\nHost: api.example.com\r\n" in seen and b"X-One: two" in seen
    wait_for("records", lambda: {d["outcome"] for d in decisions(node) if d.get("target") == one} == {"allow", "closed"}, 30)


@pytest.mark.parametrize("words, why", [
    (["-X", "POST", "-d", "data", HTTPS + "api.example.com/v1/a"], "request_denied"),
    ([HTTPS + "api.example.com/admin"], "request_denied"),
    (["--path-as-is", HTTPS + "api.example.com/v1/../admin"], "request_denied"),
    (["--path-as-is", HTTPS + "api.example.com/v1/%2e%2e/admin"], "request_denied"),
    (["--path-as-is", HTTPS + "api.example.com/v1/..%2fadmin"], "request_denied"),
    (["--path-as-is", HTTPS + "api.example.com/v1/..;/admin"], "request_denied"),
    (["--path-as-is", HTTPS + "api.example.com//v1/a"], "request_denied"),
    (["-H", "X-HTTP-Method-Override: delete", HTTPS + "api.example.com/v1/a"], "denied_by_header"),
    (["-H", "x-method-override: DELETE", "-H", "X-Method-Override: GET", HTTPS + "api.example.com/v1/a"], "denied_by_header"),
    (["-H", "X-Original-URL: /admin", HTTPS + "api.example.com/v1/a"], "denied_by_header"),
    (["-H", "X-Rewrite-URL: admin", HTTPS + "api.example.com/v1/a"], "denied_by_header"),
    (["-X", "GET", "-d", "data", HTTPS + "api.example.com/v1/a"], "denied_by_body"),
    (["-H", "Host: other.example.com", HTTPS + "api.example.com/v1/a"], "other_host"),
    (["-H", "Host: api.example.com:8443", HTTPS + "api.example.com/v1/a"], "other_port"),
])
def test_a_request_that_is_denied(node, net, box, words, why):
    """The host gets nothing, and the program a text that says why."""
    one = box(rule(methods=["GET"], paths=["/v1/*"]), rule("other.example.com"))
    status, text, error = curl(node, one, *words)
    assert status == 403, (status, text, error)
    assert why in text and "cay egress check" in text and one in text, text
    assert requests(net)[1] == b"" and net.connections() == []
    wait_for("a record", lambda: [d for d in decisions(node) if d.get("target") == one and d["outcome"] == why and d["op"] == "cut"], 30)
    said = next(d["detail"] for d in decisions(node) if d.get("target") == one and d["outcome"] == why)
    method = "POST" if "POST" in words else "GET"
    assert said.startswith(f"api.example.com:443 {method} {words[-1].partition('api.example.com')[2]} by "), said


CLIENT = "openssl s_client -quiet -connect api.example.com:443 -servername api.example.com"


def tls(node, box, sent):
    """What comes back for these bytes inside of TLS, until the connection ends."""
    node.open("PUT", f"/v1/sandboxes/{box}/files/content?path=/tmp/sent", sent).read()
    return node.exec(box, ["sh", "-c", f"cat /tmp/sent | {CLIENT} 2>/tmp/error"], timeout_s=60).stdout


def tls_open(node, box, sent):
    """Send these bytes over a connection that stays open, and /tmp/pipe; a function that returns what has come back."""
    node.open("PUT", f"/v1/sandboxes/{box}/files/content?path=/tmp/sent", sent).read()
    node.exec(box, ["sh", "-c", f"mkfifo /tmp/pipe; ({CLIENT} < /tmp/pipe > /tmp/out 2>/dev/null &) ; (sleep 1000 > /tmp/pipe &); cat /tmp/sent > /tmp/pipe"],
              timeout_s=20)
    return lambda: node.exec(box, ["cat", "/tmp/out"]).stdout


CLOSE = "Connection: close\r\n"


def get(path="/v1/a", host="api.example.com", method="GET", more="", body=""):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n{body}".encode()


SMUGGLED = get("/admin").decode()
# what is sent, how many requests get to the host, and the status of the last reply; b"": the connection is reset
SENT = {
    "two": (get() + get("/v1/b", more=CLOSE), 2, b"200"),
    "another-path": (get() + get("/admin"), 1, b"403"),
    "another-method": (get() + get(method="DELETE"), 1, b"403"),
    "another-host": (get() + get(host="other.example.com"), 1, b"403"),
    "absolute-form": (get(HTTPS + "other.example.com/v1/a"), 0, b""),
    "two-hosts": (get(more="Host: other.example.com\r\n"), 0, b""),
    "two-lengths": (get(method="POST", more="Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", body="0\r\n\r\n" + SMUGGLED), 0, b""),
    "backslash": (get("/v1/..\\admin"), 0, b""),
    "folded": (get(more="X: a\r\n b\r\n"), 0, b""),
    "connect": (get(method="CONNECT", path="other.example.com:443"), 0, b""),
    "http-2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, b""),
    "http-1.0": (b"GET /v1/a HTTP/1.0\r\nHost: api.example.com\r\n\r\n", 0, b"403"),
    "a-request-as-a-body": (get(method="POST", more=f"Content-Length: {len(SMUGGLED)}\r\n{CLOSE}", body=SMUGGLED), 1, b"200"),
    "chunks": (get(method="POST", more="Transfer-Encoding: chunked\r\n", body="5\r\nhello\r\n0\r\n\r\n") + get("/v1/c", more=CLOSE), 2, b"200"),
    "a-get-with-a-body": (get() + get(more="Content-Length: 5\r\n", body="hello"), 1, b"403"),
    "a-get-with-chunks": (get(more="Transfer-Encoding: chunked\r\n", body="5\r\nhello\r\n0\r\n\r\n"), 0, b""),
    "expect": (get(method="POST", more=f"Expect: 100-continue\r\nContent-Length: 2\r\n{CLOSE}", body="ok"), 1, b"200"),
    "the-host-closes": (get("/v1/close"), 1, b"200"),
}


@pytest.mark.parametrize("case", SENT)
def test_what_is_sent_in_one_connection(node, net, box, case):
    """Requests behind others are judged as the first; what two servers could read differently is never passed on."""
    sent, passed, status = SENT[case]
    one = box(rule(methods=["GET", "POST"], paths=["/v1/*"]))
    got = tls(node, one, sent)
    seen = [first for *_, first in net.connections() if first]
    assert got.count(b"you said") == passed and bool(seen) == bool(passed), (got, seen)
    for word in (b"other.example.com", b"DELETE", b"Expect") + (() if case == "a-request-as-a-body" else (b"/admin",)):
        assert word not in b"".join(seen)
    assert re.findall(rb"HTTP/1.1 (\d+)", got)[-1:] == ([status] if status else []), got


def test_a_new_policy_is_for_the_next_request(node, net, box):
    """Of a connection that stays open."""
    one = box(rule(paths=["/v1/*"]))
    out = tls_open(node, one, get())
    wait_for("the first reply", lambda: out().count(b"you said") == 1, 30)
    node.call("PUT", f"/v1/sandboxes/{one}/egress", {"rules": [rule(paths=["/v2/*"])]})
    node.exec(one, ["sh", "-c", "cat /tmp/sent > /tmp/pipe"], timeout_s=20)
    wait_for("the second reply", lambda: b"403 Forbidden" in out(), 30)
    assert requests(net)[0] == [b"GET /v1/a"]


def test_a_request_under_way_is_judged_again(node, net, box):
    """As it was judged first: also by the headers that replace its method. What the new policy denies is cut before the reply."""
    one = box(rule("plain.example.com", methods=["POST", "PUT"], ports=[80]))
    upload = "(printf '%s /v1 HTTP/1.1\\r\\nHost: plain.example.com\\r\\nContent-Length: 999\\r\\n{}\\r\\n'; sleep 300) | busybox nc plain.example.com 80"
    for method, more in ("POST", ""), ("PUT", ""), ("POST", "X-HTTP-Method-Override: put\\r\\n"):
        node.exec_detached(one, ["sh", "-c", upload.format(more).replace("%s", method)])

    def ports():
        return [f["state"] for f in node.call("GET", f"/v1/sandboxes/{one}/egress/flows")["flows"]]
    wait_for("all of them", lambda: ports() == ["open"] * 3, 30)
    node.call("PUT", f"/v1/sandboxes/{one}/egress", {"rules": [rule("plain.example.com", methods=["POST"], ports=[80])]})
    assert len(ports()) == 1


def test_a_connection_that_was_not_read_is_cut(node, net, box):
    one = box(rule())
    node.exec(one, ["sh", "-c", f"(sleep 1000 | {CLIENT} > /dev/null 2>&1 &)"])
    wait_for("a connection", lambda: [f for f in node.call("GET", f"/v1/sandboxes/{one}/egress/flows")["flows"] if f["state"] == "open"], 30)
    node.call("PUT", f"/v1/sandboxes/{one}/egress", {"rules": [rule(methods=["GET"])]})
    assert node.call("GET", f"/v1/sandboxes/{one}/egress/flows")["flows"] == []
    wait_for("a record", lambda: [d for d in decisions(node) if d.get("target") == one and d["outcome"] == "not_inspected"], 30)


def test_websocket_passes_after_the_reply(node, net, box):
    one = box(rule(paths=["/socket"]))
    ask = get("/socket", more="Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: " + "x" * 22 + "==\r\nSec-WebSocket-Version: 13\r\n")
    out = tls_open(node, one, ask + b"\x81\x05bytes" + get("/admin"))
    wait_for("the echo", lambda: out().endswith(b"\x81\x05bytes" + get("/admin")), 30)
    assert out().startswith(b"HTTP/1.1 101 Switching"), out()
    got = tls(node, one, get("/socket", host="other.example.com", more="Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    assert b"403 Forbidden" in got


def test_on_port_80_without_tls(node, net, box):
    one = box(rule("plain.example.com", ports=[80], methods=["GET"], paths=["/v1/*"]))
    assert curl(node, one, HTTP + "plain.example.com/v1/a")[:2] == (200, "you said GET /v1/a HTTP/1.1 ")
    status, text, _ = curl(node, one, HTTP + "plain.example.com/admin")
    assert status == 403 and HTTP + "plain.example.com/admin" in text and "--port 80" in text
    assert curl(node, one, HTTP + "plain.example.com/v1/a", "-X", "PUT")[0] == 403
    assert requests(net)[0] == [b"GET /v1/a"]


def test_a_host_with_another_certificate(node, net, box, authority):
    """Its bytes are not passed on, and the program gets the reason."""
    one = box(rule("wrong.example.com", inspect=True))
    net.set_name("wrong.example.com", [API])
    status, text, error = curl(node, one, HTTPS + "wrong.example.com/v1/a")
    assert status == 502 and "hostname mismatch" in text, (status, text, error)
    assert requests(net)[1] == b""


def test_without_cay_broker_nothing_is_connected(node, net, box):
    one = box(rule(inspect=True))
    assert curl(node, one, HTTPS + "api.example.com/v1/a")[0] == 200
    requests(net)
    node.kill_daemon("cay-broker")
    try:
        status, text, error = curl(node, one, HTTPS + "api.example.com/v1/a")
        assert status == 502 and "broker_unavailable" in text, (status, text, error)
        assert requests(net)[1] == b""
    finally:
        node.start_broker()
    status, text, _ = curl(node, one, HTTPS + "api.example.com/v1/a")
    assert status == 200, text + node.log("cay-egress")[-2000:] + node.log("cay-broker")[-1000:]


def ca(node, box):
    return node.call("GET", f"/v1/sandboxes/{box}/egress").get("ca")


def public_key(pem):
    return subprocess.run(["openssl", "x509", "-noout", "-pubkey"], input=pem.encode(), capture_output=True, check=True).stdout


def test_each_sandbox_has_a_ca_of_its_own(node, net, box):
    one, two, none = box(rule(inspect=True)), box(rule(inspect=True)), box(rule())
    assert ca(node, one) and ca(node, two) and ca(node, one) != ca(node, two) and ca(node, none) is None
    assert public_key(ca(node, one)) != public_key(ca(node, two)), "only the names of the CAs differ"
    node.open("PUT", f"/v1/sandboxes/{two}/files/content?path=/tmp/ca", ca(node, one).encode()).read()
    status, _, error = curl(node, two, "--cacert", "/tmp/ca", HTTPS + "api.example.com/v1/a")
    assert status == 0 and "certificate" in error
    wait_for("a record", lambda: [d for d in decisions(node) if d.get("target") == two and d["outcome"] == "ca_not_trusted"], 30)
    assert curl(node, one, "--cacert", "/tmp/ca", HTTPS + "api.example.com/v1/a")[0] == 0  # no such file
    text = subprocess.run(["openssl", "x509", "-noout", "-text"], input=ca(node, one).encode(), capture_output=True, check=True).stdout.decode()
    assert "CA:TRUE, pathlen:0" in text and "TLS Web Server Authentication" in text and one in text
    before = ca(node, one)
    node.kill_daemon("cay-egress")
    node.start_egress()
    wait_for("cay-egress to have it", lambda: node.call("GET", f"/v1/sandboxes/{one}/egress")["attached"], 30)
    assert ca(node, one) == before
    assert curl(node, one, HTTPS + "api.example.com/v1/a")[0] == 200
    seed = pathlib.Path(node.state, "egress/ca-seed")
    assert seed.stat().st_mode & 0o777 == 0o400 and len(seed.read_bytes()) == 32


def minted(node):
    return len(re.findall(r"certificate \d+ for ", node.log("cay-egress")))


def test_certificates_are_made_after_the_verdict_and_kept(node, net, box):
    one = box(rule(inspect=True))
    before = minted(node)
    for name in ("other.example.com", "nothing.example.com", "api.example.org"):
        curl(node, one, f"{HTTPS}{name}/")
    hello = "openssl s_client -quiet -connect api.example.com:443 -servername other.example.com </dev/null"
    node.exec(one, ["sh", "-c", hello], timeout_s=60)
    assert minted(node) == before
    for _ in range(3):
        assert curl(node, one, HTTPS + "api.example.com/v1/a")[0] == 200
    assert minted(node) == before + 1


# -- limits

def test_no_byte_more_than_a_budget_leaves_in_requests(node, net):
    """What cay-egress passes on counts; TLS adds a few bytes for each 16 KiB."""
    one = node.create("tools", egress={"rules": [rule(methods=["POST"])], "limits": {"up_bytes": 200_000}})
    net.frames(), net.connections()
    node.exec(one, ["sh", "-c", "head -c 500000 /dev/zero > /tmp/data"])
    assert curl(node, one, "-H", "Expect:", "--data-binary", "@/tmp/data", HTTPS + "api.example.com/v1/a")[0] != 200
    wait_for("a record of it", lambda: any((d["op"], d["outcome"]) == ("cut", "used_up") for d in decisions(node) if d.get("target") == one), 30)
    frames, dropped = net.frames()
    assert not dropped and 0 < sum(len(f[3]) for f in frames if f[1:3] == (API, 443)) < 210_000
    assert requests(net)[0] == []
    up = node.call("GET", f"/v1/sandboxes/{one}/usage")["egress"]["up_bytes"]
    assert up <= 200_000
    node.delete(one)


def test_connections_at_once_that_are_read(node, net):
    one = node.create("tools", egress={"rules": [rule(inspect=True)], "limits": {"flows": 1}})
    net.connections()
    hold = node.exec_detached(one, ["sh", "-c", "sleep 1000 | openssl s_client -quiet -connect api.example.com:443 -servername api.example.com"])
    wait_for("it to be open", lambda: node.call("GET", f"/v1/sandboxes/{one}/egress/flows")["flows"], 30)
    assert curl(node, one, HTTPS + "api.example.com/v1/a")[0] == 0 and requests(net)[0] == []
    wait_for("its count", lambda: node.call("GET", f"/v1/sandboxes/{one}/usage")["egress"]["failed"] > 0, 30)
    node.signal(one, hold)
    wait_for("its end", lambda: not node.call("GET", f"/v1/sandboxes/{one}/egress/flows")["flows"], 30)
    assert curl(node, one, HTTPS + "api.example.com/v1/a")[0] == 200
    node.delete(one)


def test_a_rate_of_requests(node, net):
    one = node.create("tools", egress={"rules": [rule(methods=["POST"])], "limits": {"up_bytes_per_s": 100_000}})
    net.connections()
    node.exec(one, ["sh", "-c", "head -c 400000 /dev/zero > /tmp/data"])
    began = time.monotonic()
    assert curl(node, one, "-H", "Expect:", "-o", "/dev/null", "--data-binary", "@/tmp/data", HTTPS + "api.example.com/v1/a")[0] == 200
    assert time.monotonic() - began > 2
    assert len(requests(net)[1]) > 400_000
    node.delete(one)


# -- trust inside

def test_programs_trust_the_ca(node, net, box):
    """The image has no certificates; a first policy that comes later counts too."""
    for one in (box(rule(inspect=True)), box()):
        node.call("PUT", f"/v1/sandboxes/{one}/egress", {"rules": [rule(inspect=True)]})
        assert curl(node, one, HTTPS + "api.example.com/v1/a")[0] == 200
        pem = ca(node, one)
        assert pem in node.exec(one, ["cat", "/etc/ssl/certs/ca-certificates.crt"]).text
        assert node.exec(one, ["cat", "/usr/local/share/ca-certificates/cay.crt"]).text == pem
        env = dict(line.split("=", 1) for line in node.exec(one, ["env"]).text.splitlines())
        assert env["SSL_CERT_FILE"] == env["GIT_SSL_CAINFO"] == env["REQUESTS_CA_BUNDLE"] == "/etc/ssl/certs/ca-certificates.crt"
        assert env["NODE_EXTRA_CA_CERTS"] == "/usr/local/share/ca-certificates/cay.crt"
        assert node.exec(one, ["sh", "-c", "echo $SSL_CERT_FILE"], env={"SSL_CERT_FILE": "mine"}).text == "mine\n"
        done = node.exec(one, ["git", "ls-remote", HTTPS + "api.example.com/a.git"], env={"HOME": "/tmp"}, timeout_s=60)
        assert "certificate" not in done.stderr.decode(), done.stderr
        assert b"GET /a.git/info/refs?service=git-upload-pack" in requests(net)[0]
    plain = box(rule())
    assert "SSL_CERT_FILE" not in node.exec(plain, ["env"]).text
    assert node.exec(plain, ["ls", "/usr/local/share/ca-certificates"]).exit_code != 0


@pytest.mark.one_lane  # it lends an image to the node
def test_chromium_trusts_the_ca(node, net):
    """A rule with a name lets it through, which needs hellos without ECH; one that reads requests needs its trust."""
    def opened(one):
        done = node.call("POST", f"/v1/sandboxes/{one}/browser/actions", {"actions": [{"type": "navigate", "url": HTTPS + "api.example.com/v1/b"}], "snapshot": "text"})
        return done.get("error", ""), (done.get("page") or {}).get("text", "")

    with unpacked.lent(node, "desktop") as image:
        early, late = (node.create(image, limits={"memory_bytes": "2Gi"}, egress={"rules": [rule(inspect=i)]}) for i in (True, False))
        net.connections()
        assert "you said GET /v1/b" in opened(early)[1]
        assert b"GET /v1/b" in requests(net)[0]
        assert "ERR_CERT_AUTHORITY_INVALID" in opened(late)[0], "the host itself is reached, and its CA is not one of Chromium's"
        node.call("PUT", f"/v1/sandboxes/{late}/egress", {"rules": [rule(inspect=True)]})
        node.call("POST", f"/v1/sandboxes/{late}/services/browser/restart")
        assert "you said GET /v1/b" in opened(late)[1]
        for one in early, late:
            node.delete(one)


def test_a_policy_for_one_that_dozes_or_is_paused(node, net):
    """A doze is nobody's choice, so the first policy wakes it; one that somebody paused trusts the CA when it is resumed."""
    dozing, paused = node.create("tools", pause_after_ms=1000), node.create("tools", egress={"rules": [rule()]})
    node.call("POST", f"/v1/sandboxes/{paused}/pause")
    wait_for("it to doze", lambda: node.get(dozing).get("dozing"), 20)
    for one in (dozing, paused):
        node.call("PUT", f"/v1/sandboxes/{one}/egress", {"rules": [rule(inspect=True)]})
    node.call("POST", f"/v1/sandboxes/{paused}/resume")
    for one in (dozing, paused):
        assert curl(node, one, HTTPS + "api.example.com/v1/a")[0] == 200, one
        node.delete(one)


# -- policies

@pytest.mark.parametrize("terms, field", [
    ({"methods": ["get"]}, "methods"), ({"paths": ["v1"]}, "paths"), ({"paths": ["/a/../b"]}, "paths"), ({"paths": ["/a*b"]}, "paths"),
    ({"paths": ["/%61"]}, "paths"), ({"credential": "a/b"}, "credential"), ({"methods": ["GET"], "ports": [8443]}, "ports"),
    ({"credential": "a", "ports": [80]}, "ports"), ({"inspect": True, "to": "192.0.2.0/24"}, "to"),
    ({"paths": ["/" + "x" * 249] * 3}, "paths"),
])
def test_terms_that_cannot_be_enforced(node, terms, field):
    with pytest.raises(ApiError) as e:
        node.create("tools", egress={"rules": [rule(**{"to": "api.example.com", **terms})]})
    assert e.value.code == "invalid_argument" and json.loads(e.value.body)["error"]["field"] == f"egress.rules[0].{field}", e.value


def test_check_judges_requests(node, box):
    one = box(rule(methods=["GET"], paths=["/v1/*"]), rule("other.example.com"))

    def check(**what):
        said = node.call("POST", f"/v1/sandboxes/{one}/egress/check", {"to": "api.example.com", **what})
        return said["verdict"], said["inspected"], said.get("rule")
    assert check() == ("allow", True, 0)
    assert check(path="/v1/a") == check(path="/v1/a", method="GET") == ("allow", True, 0)
    assert check(path="/v1/a", method="PUT")[0] == check(path="/v2")[0] == check(path="/v1/../a")[0] == "deny"
    assert check(to="other.example.com", path="/any") == ("allow", False, 1)
    assert check(port=80) == ("deny", False, None)
    done = subprocess.run([pathlib.Path(BUILD).resolve() / "src/cli/cay", "egress", "check", "--path", "/v1/a", "--method", "PUT", one, "api.example.com"],
                          env=node.env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.stdout.startswith("deny"), done


EACH = 50 if os.environ.get("CAY_FULL") else 12
# what each of these connections sends, and then, a byte or a line a second; None: nothing more
SLOW = {"silent": (443, "", None), "a slow hello": (443, "\\026", "\\003"), "half a handshake": (443, "$(cat /tmp/hello)", None),
        "a slow head": (80, "GET / HTTP/1.1\\r\\n", "X-A: b\\r\\n"), "a slow upload": (80, "POST /v1 HTTP/1.1\\r\\nHost: plain.example.com\\r\\nContent-Length: 9999\\r\\n\\r\\n", "x")}


def resident(node):
    return int(pathlib.Path(f"/proc/{node.daemons['cay-egress'].pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.plain  # it measures memory
def test_EGR_04_slow_ones_end_and_leave_others_alone(node, net, box):
    """Connections that are open by half, or send a byte a second: what is no request by then ends within its ten seconds, whatever comes
    meanwhile; an upload may be slow. Another sandbox is answered, and the memory of cay-egress hardly grows."""
    one, other = box(rule("plain.example.com", inspect=True, ports=[80]), rule(inspect=True)), box(rule(inspect=True))
    node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/hello", client_hello("api.example.com")).read()
    assert curl(node, other, HTTPS + "api.example.com/v1/before")[0] == 200
    before, script = resident(node), ""
    for port, first, more in SLOW.values():
        begin = "cat /tmp/hello" if "hello" in first else f"printf '{first}'"
        then = f"while sleep 1; do printf '{more}'; done" if more else "sleep 300"
        script += f"for i in $(seq {EACH}); do ({begin}; {then}) | busybox nc {'plain' if port == 80 else 'api'}.example.com {port} > /dev/null 2>&1 & done; "
    node.exec_detached(one, ["sh", "-c", script + "wait"])

    def open_flows():
        return [f["port"] for f in node.call("GET", f"/v1/sandboxes/{one}/egress/flows")["flows"]]
    wait_for("all of them", lambda: len(open_flows()) > 4 * EACH, 30)
    most, begun = len(open_flows()), time.monotonic()
    status, _, error = curl(node, other, HTTPS + "api.example.com/v1/beside")
    assert status == 200, error
    took = time.monotonic() - begun
    assert resident(node) - before < most * (128 << 10), "memory of a connection"
    wait_for("the end of those that are no request", lambda: open_flows() == [80] * EACH, 30)
    assert time.monotonic() - begun < 25
    print(f"{most} slow connections: another is answered in {took:.2f} s")


KILLS = 100 if os.environ.get("CAY_FULL") else 3
CANARY = "canary0f3a7c51"


@pytest.mark.parametrize("killed", ["cay-broker", "cay-egress"])
def test_requests_while_a_program_is_killed(node, net, box, killed):
    """What was not judged reaches no host, and nothing leaves the node unencrypted; once it is back, requests pass again."""
    one = box(rule(methods=["GET"], paths=["/v1/*"]))
    net.frames()
    asks = "curl -s --max-time 5 -o /dev/null -w '%{{http_code}} {0}\\n' {0} " + HTTPS + "api.example.com{1} >> /tmp/seen;"
    denied = asks.format("", "/admin/" + CANARY) + asks.format(f"-dX={CANARY}", "/v1/a") + asks.format("-HHost:other.example.com", "/v1/" + CANARY)
    node.exec_detached(one, ["sh", "-c", f"while [ ! -e /tmp/stop ]; do {asks.format('', '/v1/ok')} {denied} done"])

    def seen():
        return node.exec(one, ["cat", "/tmp/seen"]).text
    wait_for("a reply", lambda: seen().count("200 ") > 1, 60)
    for _ in range(KILLS):
        node.kill_daemon(killed)
        cay.let_pass(0.2)
        node.start_broker() if killed == "cay-broker" else node.start_egress()
        before = seen().count("200 ")
        wait_for("another reply", lambda before=before: seen().count("200 ") > before, 60)
    node.exec(one, ["touch", "/tmp/stop"])
    # without cay-egress there is no connection at all
    assert {"403"} <= set(re.findall(r"(?m)^(\d+) -", seen())) <= {"403"} | ({"000"} if killed == "cay-egress" else set()), "a request that the rule denies"
    lines, whole = requests(net)
    assert set(lines) == {b"GET /v1/ok"} and CANARY.encode() not in whole
    frames, lost = net.frames()
    assert lost == 0 and not [f for f in frames if b"HTTP/1.1" in f[3] or CANARY.encode() in f[3]]
    assert {(to, port) for protocol, to, port, _ in frames if protocol == 6} == {(API, 443)}
