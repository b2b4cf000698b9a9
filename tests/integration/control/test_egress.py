# SPDX-License-Identifier: Apache-2.0
"""Connections of sandboxes to other hosts, in an internet of the test's own (tests/lib/lab.py)

What is expected comes from the wire: the names that the name server was asked, the connections that hosts saw, and
every packet that left the node.
"""
import contextlib
import hashlib
import json
import pathlib
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

import cay
import lab
import pytest
import world
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_tenants import asks

API, CDN, DB, PLAIN = "93.184.2.1", "93.184.2.2", "93.184.2.3", "93.184.2.4"
METADATA, LAN = "169.254.169.254", "10.1.2.3"
HOSTS = [(API, 443), (API, 8443), (CDN, 443), (DB, 5432), (PLAIN, 80), (lab.SWITCHES, 80), (METADATA, 80), (LAN, 5432), (API, 22), (DB, lab.STORE)]
ZONE = {"api.example.com": [API], "db.example.com": [DB], "cdn.example.com": [CDN], "evil.test": [CDN], "plain.example.com": [PLAIN], "ws.example.com": [lab.SWITCHES],
        "lan.example.com": [LAN], "mixed.example.com": [API, LAN], "metadata.example.com": [METADATA], "node.example.com": [lab.NODE],
        "alias.example.com": ["=api.example.com"], "private-alias.example.com": ["=lan.example.com"], "broken.example.com": None,
        "long.example.com": [API], "kept.example.com": [DB], "six.example.com": ["2001:db8::1"], "synthetic.example.com": ["25.192.0.9"]}


def allow(*targets, ports=None):
    return {"rules": [{"action": "allow", "to": t, **({"ports": ports} if ports else {})} for t in targets]}


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, dict(ZONE)) as internet:
        yield internet


@contextlib.contextmanager
def node_in_lab(files=(), **env):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, **env}) as c:
        c.image_import("tiny", tiny([*world.bash(), *files]))  # bash can send datagrams
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        yield c


@pytest.fixture(scope="module")
def node(net):
    with node_in_lab() as c:
        yield c


@pytest.fixture
def box(node, net):
    """Makes sandboxes with a policy; nothing that the test did not expect may have left the node."""
    made = []

    def make(policy, image="tiny", **more):
        made.append(node.create(image, egress=policy, **more))
        return made[-1]

    net.frames(), net.asked(), net.connections()
    yield make
    for one in made:
        node.delete(one)


@pytest.fixture
def listener():
    """A server of the node itself."""
    with socket.create_server((lab.NODE, 5432)) as s:
        s.setblocking(False)
        yield s


def dial(node, box, host, port, send=""):
    """What a program inside gets, and its error."""
    done = node.exec(box, ["sh", "-c", f"printf '%s' '{send}' | busybox nc -w 10 {host} {port}"], timeout_s=40)
    return done.text, done.stderr.decode()


def left(net):
    """Destinations of all that left the node, without the name server."""
    frames, dropped = net.frames()
    assert not dropped
    return {(to, port) for protocol, to, port, _ in frames if protocol != 1 and (to, port) != (lab.DNS, 53)}


def decision_files(node, tenant="*"):
    return sorted((node.state / "egress").glob(f"{tenant}/*.log"))


def decisions(node, tenant="*"):
    """Of a tenant in their order; of all, one tenant after the other."""
    lines = []
    for path in decision_files(node, tenant):
        lines += [json.loads(line) for line in path.read_text().splitlines()]
    return lines


def test_a_name_on_a_port_that_is_allowed(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))
    got, error = dial(node, one, "db.example.com", 5432, "hello")
    assert got == f"this is {DB} port 5432\nhello", error
    assert net.connections() == [(DB, 5432, b"hello")]
    assert left(net) == {(DB, 5432)}
    assert {name for name, *_ in net.asked()} == {"db.example.com"}


def test_a_name_that_is_denied_is_asked_nowhere(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))
    got, error = dial(node, one, "evil.test", 5432)
    assert not got and "bad address" in error
    assert net.asked() == [] and left(net) == set()


def test_another_port_is_refused(node, net, box):
    one = box(allow("api.example.com", ports=[8443]))
    got, _ = dial(node, one, "api.example.com", 22)
    assert not got
    assert left(net) == set()
    assert dial(node, one, "api.example.com", 8443)[0].startswith(f"this is {API}")


@pytest.mark.parametrize("address", [API, METADATA, LAN, lab.NODE, lab.DNS, "192.0.0.1", "25.192.0.77", "8.8.8.8"])
def test_addresses_are_refused_without_a_rule(node, net, box, address):
    one = box({"rules": [{"action": "allow", "to": "*", "ports": ["1-65535"]}]})
    got, _ = dial(node, one, address, 5432)
    assert not got and left(net) == set()


@pytest.mark.parametrize("name", [pytest.param(n, id="not_public-" + n) for n in ("lan", "mixed", "metadata", "node", "private-alias", "synthetic")])
def test_names_of_addresses_that_are(node, net, box, name, listener):
    one = box({"rules": [{"action": "allow", "to": "*", "ports": ["1-65535"]}]})
    got, _ = dial(node, one, name + ".example.com", 5432)
    assert not got and left(net) == set()
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_network_that_is_allowed(node, net, box):
    one = box(allow("93.184.2.0/24", ports=[5432]))
    assert dial(node, one, DB, 5432)[0] == f"this is {DB} port 5432\n"
    assert dial(node, one, API, 8443)[0] == ""
    assert left(net) == {(DB, 5432)}


@pytest.mark.parametrize("name,asked", [("alias", 1), ("long", 2)])
def test_aliases_and_answers_that_are_cut(node, net, box, name, asked):
    one = box(allow("*.example.com", ports=[8443]))
    assert dial(node, one, name + ".example.com", 8443)[0] == f"this is {API} port 8443\n"
    assert len({how for *_, how in net.asked()}) == asked


def test_addresses_are_kept_as_long_as_the_name_server_says(node, net, box):
    """A minute for one, no time for the other; another tenant's answers are its own."""
    one = box(allow("*.example.com", ports=[5432]))
    for name in "kept.example.com", "db.example.com":
        for _ in range(3):
            assert dial(node, one, name, 5432)[0] == f"this is {DB} port 5432\n"
    asked = [name for name, *_ in net.asked()]
    assert asked.count("kept.example.com") == 1 and asked.count("db.example.com") == 6
    theirs = asks(node, "write", node.call("POST", "/v1/tenants", {"name": "cache"})["id"])
    other = theirs.create("tiny", egress=allow("kept.example.com", ports=[5432]))
    assert dial(theirs, other, "kept.example.com", 5432)[0] == f"this is {DB} port 5432\n"
    assert [name for name, *_ in net.asked()] == ["kept.example.com"]
    theirs.delete(other)


@pytest.mark.parametrize("name", ["broken.example.com", "nothing.example.com", "six.example.com"])
def test_names_that_cannot_be_reached(node, net, box, name):
    one = box(allow("*.example.com", ports=[8443]))
    got, _ = dial(node, one, name, 8443)
    assert not got and {to for to, _ in left(net)} <= {lab.DNS}


def client_hello(name):
    """What OpenSSL sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("dialled,said,passes", [("api.example.com", "api.example.com", True), ("api.example.com", "evil.test", False),
                                                 ("api.example.com", None, False), ("cdn.example.com", "api.example.com", False)])
def test_the_name_in_a_tls_hello_is_the_one_dialled(node, net, box, dialled, said, passes):
    one = box(allow("api.example.com", "cdn.example.com"))
    hello = client_hello(said)
    node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/hello", hello).read()
    node.exec(one, ["sh", "-c", f"busybox nc -w 5 {dialled} 443 < /tmp/hello"], timeout_s=40)
    seen = net.connections()
    assert bool(seen) == passes and left(net) == ({(API, 443)} if passes else set())
    assert not passes or seen[0][2] == hello


def request(host="plain.example.com", line="GET / HTTP/1.1", body="", **headers):
    lines = [line, *([f"Host: {host}"] if host else []), *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


GET, OTHER = request(), request("evil.test")
WS = request("ws.example.com", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Key="x" * 22 + "==", Sec_WebSocket_Version=13)
# name: what is sent, and the most of it that the host gets (a reset may take back what passed before); None: all, for certain
REQUESTS = {
    "one": (GET, None),
    "with-its-port": (request("PLAIN.example.com:80"), None),
    "another-host": (OTHER, b""),
    "another-port": (request("plain.example.com:8080"), b""),
    "no-host": (request(None, "GET / HTTP/1.0"), b""),
    "two-hosts": (request(hOST="evil.test"), b""),
    "absolute-form": (request(line="GET http://evil.test/ HTTP/1.1"), b""),
    "connect": (request(line="CONNECT evil.test:443 HTTP/1.1"), b""),
    "no-request": (b"SSH-2.0-OpenSSH\r\n", b""),
    "dot-at-the-end": (request("plain.example.com."), b""),
    "second-for-another": (GET + OTHER, GET),
    "third-for-another": (GET + request(line="POST / HTTP/1.1", Content_Length=5, body="hello") + OTHER,
                          GET + request(line="POST / HTTP/1.1", Content_Length=5, body="hello")),
    "a-request-as-a-body": (request(line="POST / HTTP/1.1", Content_Length=len(OTHER), body=OTHER.decode()), None),
    "chunks": (request(line="POST / HTTP/1.1", Transfer_Encoding="chunked", body="5\r\nhello\r\n0\r\n\r\n") + GET, None),
    "two-lengths": (request(line="POST / HTTP/1.1", Transfer_Encoding="chunked", Content_Length=3, body="0\r\n\r\n") + OTHER, b""),
    "long-head": (request(X="x" * 20000), b""),
    "upgrade-behind-another": (GET + request(Connection="Upgrade", Upgrade="websocket"), GET),
    "another-protocol-that-is-not-done": (request(Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AAMAAABk") + GET, None),
    "upgrade-that-is-not-done": (request(Connection="Upgrade", Upgrade="websocket") + OTHER, request(Connection="Upgrade", Upgrade="websocket")),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_requests_are_for_the_host_that_was_dialled(node, net, box, case):
    sent, expected = REQUESTS[case]
    one = box(allow("plain.example.com", ports=[80]))
    node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/sent", sent).read()
    node.exec(one, ["sh", "-c", "busybox nc -w 5 plain.example.com 80 < /tmp/sent"], timeout_s=40)
    wait_for("a record", lambda: any(d.get("target") == one and d["op"] in ("closed", "cut") for d in decisions(node)), 30)
    seen = b"".join(first for *_, first in net.connections())
    assert seen == sent if expected is None else seen in (b"", expected)


def test_a_protocol_that_the_host_switches_to(node, net, box):
    """Bytes behind the request wait for the reply 101, and pass unread from then on."""
    one = box(allow("ws.example.com", ports=[80]))
    node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/sent", WS + b"\0\1\2" + OTHER).read()
    done = node.exec(one, ["sh", "-c", "busybox nc -w 5 ws.example.com 80 < /tmp/sent"], timeout_s=40)
    assert done.stdout == b"HTTP/1.1 101 Switching Protocols\r\n\r\n\0\1\2" + OTHER
    assert b"".join(first for *_, first in net.connections()) == WS + b"\0\1\2" + OTHER


def test_http_2_without_tls_is_refused(node, net, box):
    """Each of its requests has a host of its own, which is not compared."""
    one = box(allow("ws.example.com", ports=[80]))
    asks_for_it = request("ws.example.com", Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AAMAAABk")
    node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/sent", asks_for_it + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64)).read()
    node.exec(one, ["sh", "-c", "busybox nc -w 5 ws.example.com 80 < /tmp/sent"], timeout_s=40)
    wait_for("a record", lambda: any(d.get("target") == one and d["op"] == "cut" and d["outcome"] == "not_http" for d in decisions(node)), 30)
    assert b"".join(first for *_, first in net.connections()) in (b"", asks_for_it)


def read_by(daemon):
    """Bytes that a daemon has read into its memory."""
    text = pathlib.Path(f"/proc/{daemon.pid}/io").read_text()
    return int(re.search(r"rchar: (\d+)", text)[1])


def test_many_bytes_both_ways(node, net, box):
    """What a host sends back arrives whole, beside a reader that stalls; the kernel moves the most of it."""
    data, greeting = random.Random(19).randbytes(24 << 20), f"this is {DB} port {lab.STORE}\n"
    one = box(allow("db.example.com", ports=[lab.STORE]))
    node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/data", data).read()
    stalls = node.exec_detached(one, ["sh", "-c", f"busybox nc db.example.com {lab.STORE} < /tmp/data | sleep 120"])
    before = read_by(node.daemons["cay-egress"])
    for script in ("cat", "(sleep 1; cat)"):
        done = node.exec(one, ["sh", "-c", f"busybox nc db.example.com {lab.STORE} < /tmp/data | {script} | busybox sha256sum"], timeout_s=120)
        assert done.text.split()[0] == hashlib.sha256(greeting.encode() + data).hexdigest()
    read = read_by(node.daemons["cay-egress"]) - before
    assert read < 8 << 20, read
    node.signal(one, stalls)
    whole = f"{len(data)} up, {len(greeting) + len(data)} down"
    wait_for("two records of it", lambda: sum(d.get("target") == one and d["op"] == "closed" and whole in d["detail"] for d in decisions(node)) == 2, 30)


def test_other_protocols_have_no_way_out(node, net, box):
    one = box({"rules": [{"action": "allow", "to": "*", "ports": ["1-65535"]}]})
    for script in ("busybox ping -c 1 -W 1 93.184.2.1", "bash -c 'exec 3<>/dev/udp/93.184.2.1/8443 && echo x >&3 && sleep 0.1 && echo x >&3'", "busybox nc -w 2 2001:db8::1 443 < /dev/null"):
        done = node.exec(one, ["sh", "-c", script + " || echo failed >&2"], timeout_s=30)
        assert "bytes from" not in done.text and "this is" not in done.text and b"failed" in done.stderr, script
    assert left(net) == set()


def test_without_a_policy_there_is_no_network(node, net):
    one = node.create("tiny")
    got, error = dial(node, one, API, 8443)
    assert not got and "unreachable" in error.lower()
    node.delete(one)


def test_the_log_has_every_decision(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))
    dial(node, one, "db.example.com", 5432, "hello")
    dial(node, one, "evil.test", 5432)
    wait_for("the log", lambda: sum(d.get("target") == one for d in decisions(node)) >= 3, 30)
    mine = [(d["op"], d["outcome"], d["detail"].split(" by ")[0]) for d in decisions(node) if d.get("target") == one]
    assert ("connect", "allow", "db.example.com:5432") in mine
    assert ("closed", "closed", "db.example.com:5432") in mine
    assert ("name", "deny", "evil.test:443") in mine


def put(node, box, policy):
    return node.call("PUT", f"/v1/sandboxes/{box}/egress", policy)


def test_a_change_cuts_what_it_denies(node, net, box):
    """The open connection that the new policy denies ends before the reply; the other goes on."""
    one = box(allow("db.example.com", "api.example.com", ports=[5432, 8443]))
    script = "(while [ ! -e /tmp/stop ]; do echo beat; sleep 0.05; done) | busybox nc {} {} > /tmp/{}; echo over >> /tmp/{}"
    for host, port in (("db.example.com", 5432), ("api.example.com", 8443)):
        node.exec_detached(one, ["sh", "-c", script.format(host, port, host, host)])
    text = lambda host: node.exec(one, ["cat", "/tmp/" + host]).text  # noqa: E731
    for host in ("db.example.com", "api.example.com"):
        wait_for("its echo", lambda host=host: "beat" in text(host), 30)
    assert put(node, one, allow("api.example.com", ports=[8443]))["generation"] == 2
    net.frames()
    wait_for("its end", lambda: "over" in text("db.example.com"), 30)
    length = len(text("api.example.com"))
    wait_for("the other to go on", lambda: len(text("api.example.com")) > length, 30)
    assert "over" not in text("api.example.com")
    frames, dropped = net.frames()
    assert not dropped and not [f for f in frames if f[2] == 5432 and f[3]], "a byte left after the reply"
    assert not dial(node, one, "db.example.com", 5432)[0]
    put(node, one, {})
    wait_for("its end", lambda: "over" in text("api.example.com"), 30)
    node.exec(one, ["touch", "/tmp/stop"])


BEAT = "(while [ ! -e /tmp/stop ]; do echo beat; sleep 0.05; done) | busybox nc {0} {1} > /tmp/{0}; echo over >> /tmp/{0}"


def test_a_change_of_the_tenant_cuts_what_it_denies(node, net):
    """Of all its sandboxes, before the reply; those of others go on."""
    tenants = [node.call("POST", "/v1/tenants", {"name": name})["id"] for name in ("bounded", "other")]
    by, other = (asks(node, "write", tenant) for tenant in tenants)
    policy = allow("db.example.com", "api.example.com", ports=[5432, 8443])
    boxes = [(by, by.create("tiny", egress=policy)) for _ in range(2)] + [(other, other.create("tiny", egress=policy))]

    def text(who, box, host):
        return who.exec(box, ["cat", "/tmp/" + host]).text

    for who, box in boxes:
        who.exec_detached(box, ["sh", "-c", BEAT.format("db.example.com", 5432)])
        who.exec_detached(box, ["sh", "-c", BEAT.format("api.example.com", 8443)])
    for who, box in boxes:
        for host in ("db.example.com", "api.example.com"):
            wait_for("its echo", lambda who=who, box=box, host=host: "beat" in text(who, box, host), 30)
    other.exec(boxes[2][1], ["touch", "/tmp/stop"])
    wait_for("the third's end", lambda: "over" in text(*boxes[2], "db.example.com"), 30)
    node.call("POST", "/v1/tenants/" + tenants[0], {"egress_max": allow("*.example.com", ports=[8443])})
    net.frames()
    for who, box in boxes[:2]:
        wait_for("its end", lambda who=who, box=box: "over" in text(who, box, "db.example.com"), 30)
        length = len(text(who, box, "api.example.com"))
        wait_for("the other to go on", lambda who=who, box=box, n=length: len(text(who, box, "api.example.com")) > n, 30)
        assert not dial(who, box, "db.example.com", 5432)[0]
        said = who.call("POST", f"/v1/sandboxes/{box}/egress/check", {"to": "db.example.com", "port": 5432})
        assert (said["verdict"], said["layer"]) == ("deny", "tenant") and "tenant's policy" in said["reason"], said
    frames, dropped = net.frames()
    assert not dropped and not [f for f in frames if f[2] == 5432 and f[3]], "a byte left after the reply"
    assert dial(*boxes[2], "db.example.com", 5432)[0]
    late = by.create("tiny", egress=policy)
    assert not dial(by, late, "db.example.com", 5432)[0] and dial(by, late, "api.example.com", 8443)[0]
    node.call("POST", "/v1/tenants/" + tenants[0], {"reset": True})
    assert dial(by, late, "db.example.com", 5432)[0]
    for who, box in [*boxes, (by, late)]:
        who.delete(box)


def test_a_bound_that_does_not_fit_changes_nothing(node, net):
    """All layers of a sandbox have one bound of bytes; the tenant's is refused if one of its sandboxes would exceed it."""
    tenant = node.call("POST", "/v1/tenants", {"name": "long"})["id"]
    by = asks(node, "write", tenant)
    long = ["{:03}." + 3 * ("x" * 60 + ".") + "example", "{:03}." + 3 * ("y" * 60 + ".") + "example"]
    one = by.create("tiny", egress=allow("db.example.com", *[long[0].format(i) for i in range(220)], ports=[5432]))
    bound = allow("db.example.com", *[long[1].format(i) for i in range(120)], ports=[5432])
    with pytest.raises(ApiError) as e:
        node.call("POST", "/v1/tenants/" + tenant, {"egress_max": bound})
    error = json.loads(e.value.body)["error"]
    assert error["code"] == "invalid_argument" and error["field"].startswith("egress_max") and one in error["message"], error
    assert "egress_max" not in node.call("GET", "/v1/tenants/" + tenant)["tenant"]
    assert dial(by, one, "db.example.com", 5432)[0]
    put(by, one, allow("db.example.com", ports=[5432]))
    node.call("POST", "/v1/tenants/" + tenant, {"egress_max": bound})
    assert dial(by, one, "db.example.com", 5432)[0]
    by.delete(one)


def test_a_default_of_the_tenant(node, net):
    tenant = node.call("POST", "/v1/tenants", {"name": "given"})["id"]
    by = asks(node, "write", tenant)
    node.call("POST", "/v1/tenants/" + tenant, {"egress_default": allow("db.example.com", ports=[5432])})
    one, none = by.create("tiny"), by.create("tiny", egress={})
    assert dial(by, one, "db.example.com", 5432)[0] and not dial(by, none, "db.example.com", 5432)[0]
    for box in (one, none):
        by.delete(box)


def test_a_policy_that_comes_later(node, net):
    one = node.create("tiny")
    assert not dial(node, one, DB, 5432)[0]
    assert node.call("GET", f"/v1/sandboxes/{one}/egress")["attached"] is False
    assert put(node, one, allow(DB + "/32", ports=[5432]))["attached"] is True
    assert dial(node, one, DB, 5432)[0] == f"this is {DB} port 5432\n"
    node.delete(one)


def test_names_after_a_policy_that_comes_later(node, net):
    """Its image has no name server of its own; PID 1 writes the file before the reply."""
    one = node.create("tiny")
    assert "no" in node.exec(one, ["sh", "-c", "test -s /etc/resolv.conf || echo no"]).text
    put(node, one, allow("db.example.com", ports=[5432]))
    assert dial(node, one, "db.example.com", 5432)[0] == f"this is {DB} port 5432\n"
    node.delete(one)


def test_a_policy_that_comes_while_it_is_paused(node, net):
    one = node.create("tiny")
    node.call("POST", f"/v1/sandboxes/{one}/pause")
    assert put(node, one, allow(DB + "/32", ports=[5432]))["attached"] is True
    node.call("POST", f"/v1/sandboxes/{one}/resume")
    assert dial(node, one, DB, 5432)[0] == f"this is {DB} port 5432\n"
    node.delete(one)


def test_a_policy_outlives_a_stop(node, net, box):
    """From the first connection after the start on, also one that was changed meanwhile; what it used is added up."""
    one = box(allow("db.example.com", ports=[5432]))
    assert dial(node, one, "db.example.com", 5432)[0]
    for n in range(3):
        node.call("POST", f"/v1/sandboxes/{one}/stop")
        assert node.call("GET", f"/v1/sandboxes/{one}/egress")["attached"] is False
        node.call("POST", f"/v1/sandboxes/{one}/start")
        assert node.call("GET", f"/v1/sandboxes/{one}/egress")["attached"] is True
        assert dial(node, one, "db.example.com", 5432)[0] == f"this is {DB} port 5432\n", n
        assert not dial(node, one, "api.example.com", 8443)[0] and left(net) == {(DB, 5432)}
    node.call("POST", f"/v1/sandboxes/{one}/stop")
    assert put(node, one, allow("api.example.com", ports=[8443]))["attached"] is False
    node.call("POST", f"/v1/sandboxes/{one}/start")
    assert dial(node, one, "api.example.com", 8443)[0].startswith(f"this is {API}")
    assert not dial(node, one, "db.example.com", 5432)[0] and left(net) == {(API, 8443)}
    wait_for("its connections to be counted", lambda: node.call("GET", f"/v1/sandboxes/{one}/usage")["egress"]["total"] >= 5, 30)


def test_a_restart_of_cay_egress(net):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        c.image_import("tiny", tiny())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        one = c.create("tiny", egress=allow("db.example.com", ports=[5432]))
        assert dial(c, one, "db.example.com", 5432)[0]
        c.kill_daemon("cay-egress")
        assert not dial(c, one, "db.example.com", 5432)[0]
        with pytest.raises(ApiError) as e:
            wait_for("cayd to see it", lambda: not c.create("tiny", egress=allow("db.example.com")), 30)
        assert json.loads(e.value.body)["error"]["code"] == "egress_unavailable"
        net.frames()
        c.start_egress()
        wait_for("it to be attached", lambda: dial(c, one, "db.example.com", 5432)[0], 30)
        beat = c.exec_detached(one, ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do busybox nc -w 5 db.example.com 5432 < /dev/null; sleep 0.2; done"])
        c.kill_daemon("cayd")
        net.connections()
        wait_for("connections without control", lambda: net.connections(), 30)  # by the last policy
        c.start_cayd()
        wait_for("them to end", lambda: c.call("GET", f"/v1/sandboxes/{one}/execs/{beat}").get("end"), 30)
        assert c.exec_output(one, beat).count(b"this is") == 9
        wait_for("it to be attached", lambda: dial(c, one, "db.example.com", 5432)[0], 30)
        c.kill_daemon("cay-egress")  # as an upgrade restarts all of them, the keeper last
        c.kill_daemon("cay-keeper")
        c.start_egress()
        wait_for("cayd to have tried", lambda: c.log("cayd").count("cay-egress is connected") == 4, 30)
        c.start_keeper()
        wait_for("it to be attached", lambda: dial(c, one, "db.example.com", 5432)[0], 30)
        assert left(net) <= {(DB, 5432)}
        c.delete(one)


def test_a_name_that_has_a_mirror(net):
    """The policy and TLS have the name that the sandbox uses, the name server and the wire those of the mirror."""
    mirrors = "index.example.org=db.example.com:5432 same.example.org=api.example.com lan.example.org=lan.example.com"
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_EGRESS_MAP": mirrors}) as c:
        c.image_import("tiny", tiny())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        one = c.create("tiny", egress=allow("index.example.org", "same.example.org", "lan.example.org", ports=[8080, 443, 8443]))
        net.frames(), net.asked(), net.connections()
        assert dial(c, one, "index.example.org", 8080, "hello")[0] == f"this is {DB} port 5432\nhello"
        assert dial(c, one, "same.example.org", 8443)[0] == f"this is {API} port 8443\n"
        assert {name for name, *_ in net.asked()} == {"db.example.com", "api.example.com"}
        assert not dial(c, one, "db.example.com", 5432)[0], "the mirror is not allowed by its own name"
        assert not dial(c, one, "index.example.org", 5432)[0], "the port is that of the policy, not of the mirror"
        assert not dial(c, one, "lan.example.org", 8443)[0], "a private mirror"
        net.connections()
        for said, passes in (("same.example.org", True), ("api.example.com", False)):
            c.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/hello", client_hello(said)).read()
            c.exec(one, ["sh", "-c", "busybox nc -w 5 same.example.org 443 < /tmp/hello"], timeout_s=40)
            assert [(to, port) for to, port, _ in net.connections()] == ([(API, 443)] if passes else [])
        assert left(net) == {(DB, 5432), (API, 8443), (API, 443)}

        def connects():
            return [d["detail"] for d in decisions(c) if d.get("target") == one and d["op"] == "connect"]
        wait_for("a record of each", lambda: len(connects()) == 3, 30)
        mine = connects()
        assert mine[0].startswith("index.example.org:8080 by ") and mine[0].endswith(", at db.example.com:5432"), mine
        assert mine[1].endswith(", at api.example.com:8443"), mine
        checks = [c.call("POST", f"/v1/sandboxes/{one}/egress/check", {"to": to, "port": 8443}).get("mirror") for to in ("index.example.org", "same.example.org", "db.example.com")]
        assert checks == ["db.example.com:5432", "api.example.com:8443", None]
        c.delete(one)


def test_a_map_that_is_none_stops_the_start(net):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        c.kill_daemon("cay-egress")
        c.env["CAY_EGRESS_MAP"] = "index.example.org=192.0.2.7"
        with pytest.raises(RuntimeError, match="egress.map"):
            c.start_egress()


def test_a_cay_egress_that_hangs(net):
    """A create fails in time, and cayd goes on; when cay-egress goes on, so do connections."""
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        c.image_import("tiny", tiny())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        policy = allow("db.example.com", ports=[5432])
        one = c.create("tiny", egress=policy)
        c.daemons["cay-egress"].send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(ApiError) as e:
                c.create("tiny", egress=policy)
            assert json.loads(e.value.body)["error"]["code"] == "egress_unavailable" and "it does not reply" in c.log("cayd")
        finally:
            c.daemons["cay-egress"].send_signal(signal.SIGCONT)
        wait_for("it to be attached", lambda: dial(c, one, "db.example.com", 5432)[0], 30)
        c.delete(one)


def test_refusals_by_the_hundred_are_counted(node, net, box):
    """A sandbox cannot push other records out of the log."""
    one = box(allow("db.example.com", ports=[5432]))
    begun = time.monotonic()
    done = node.exec(one, ["sh", "-c", "i=0; while [ $i -lt 200 ]; do busybox nslookup x$i.evil.test 8.8.8.8 > /tmp/out 2>&1; i=$((i+1)); done; grep -c NXDOMAIN /tmp/out"])
    assert int(done.text) > 0
    wait_for("a record that is in time", lambda: dial(node, one, "last.evil.test", 1) and [d for d in decisions(node) if d.get("target") == one and "last" in d["detail"]], 30)
    mine = [d for d in decisions(node) if d.get("target") == one]
    more = sum(int(d["detail"].split(", ")[-1].split()[0]) for d in mine)
    took = time.monotonic() - begun
    assert len(mine) + more >= 400 and len(mine) <= 100 + 10 * (took + 1), (len(mine), more, took)


def test_one_tenant_cannot_take_all_connections(net, tmp_path):
    """With few descriptors a tenant has a quarter of the connections, and another still gets its own."""
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        few = c.run / "few"
        few.write_text(f"#!/bin/sh\nulimit -n 240\nexec {c.programs['egress']}\n")
        few.chmod(0o755)
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        c.kill_daemon("cay-egress")
        c.programs["egress"] = few
        c.start_egress()
        c.image_import("tiny", tiny())
        tenants = [c.call("POST", "/v1/tenants", {"name": name})["id"] for name in ("greedy", "modest")]
        greedy, modest = (asks(c, "write", tenant) for tenant in tenants)
        policy = allow("db.example.com", ports=[5432])
        wait_for("cay-egress to be connected again", lambda: c.log("cayd").count("cay-egress is connected") == 2, 30)
        one, other = greedy.create("tiny", egress=policy), modest.create("tiny", egress=policy)
        net.connections()
        holds = ("mkdir /tmp/got /tmp/over; busybox mkfifo /tmp/f; exec 3<> /tmp/f; i=0; while [ $i -lt 60 ]; do "
                 "(busybox nc db.example.com 5432 > /tmp/got/$i <&3; echo > /tmp/over/$i) & i=$((i+1)); done; sleep 60")
        greedy.exec_detached(one, ["sh", "-c", holds])

        def counts():
            return [int(n) for n in greedy.exec(one, ["sh", "-c", "echo $(ls /tmp/over | wc -l) $(cat /tmp/got/* | grep -c this)"]).text.split()]

        wait_for("the others to be refused", lambda: sum(counts()) == 60 and min(counts()) > 0, 60)
        held = counts()[1]
        assert 0 < held <= 240 // 6 // 4 + 1, held
        assert dial(modest, other, "db.example.com", 5432)[0] == f"this is {DB} port 5432\n"
        for by, box in ((greedy, one), (modest, other)):
            by.delete(box)


def test_cay_egress_accepts_cayd_only(node):
    """As another user of the group, whom the directory lets in."""
    path = str(node.run / "egress" / "egress.sock")
    hello = struct.pack("<IHHQ16s16s", 0x45594143, 1, 5, 0, bytes(16), bytes(16))
    script = f"""
import os, socket
os.setgroups([{cay.CONTROL_UID}]); os.setgid({cay.EGRESS_UID + 1}); os.setuid({cay.EGRESS_UID + 1})
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(20); s.connect({path!r})
s.send({hello!r})
print(len(s.recv(100)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout != "48\n", "it greeted another user"
    assert "refused a connection of another user" in node.log("cay-egress")
