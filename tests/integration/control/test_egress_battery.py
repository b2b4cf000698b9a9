# SPDX-License-Identifier: Apache-2.0
"""NET-01: the battery that github/gh-aw-firewall compares its enforcements with (test-egress-enforcement-adversarial.yml), on Cay

Its rows have their numbers: L legitimate, A attacks, M the trusted neighbours of a sandbox, TAMPER.  All run in one sandbox, as root and
as a user, on each runtime.  A row passes by what the program gets at the application layer, as there, and all of them by the wire: each
packet that left the node, each request that a host got and each name that was asked.

Cay differs in what two rows mean.  There is no proxy to go around: A3, https to an approved host by a client that knows no proxy, is how
everything leaves, so it passes, judged like all.  And A6 gets an answer from any resolver's address, as every packet to port 53 is
cay-egress's: the wire shows that no other resolver was asked.  The neighbours are a sandbox of the group and cay-egress's name server.
"""
import pathlib
import re
import subprocess
import tempfile

import cay
import lab
import pytest
import tlshost
from cay import wait_for
from conftest import tiny
from test_egress import METADATA, node_in_lab

OK, SUB, EVIL, RAW, LAN = "93.184.2.1", "93.184.2.2", "93.184.2.3", "93.184.2.4", "10.0.0.1"
ZONE = {"ok.example.com": [OK], "api.ok.example.com": [SUB], "blocked.test": [EVIL]}
PRIVATE = [22, 8080, 3306, 6379]
HOSTS = [(OK, 443), (OK, 80), (OK, 22), (SUB, 443), (EVIL, 443), (EVIL, 80), (RAW, 443), (METADATA, 80), *[(LAN, port) for port in PRIVATE]]
RULES = {"rules": [{"action": "allow", "to": to, "ports": [443, 80]} for to in ("ok.example.com", "*.ok.example.com")] +
         [{"action": "allow", "to": "peer.group.cay.internal", "ports": ["1-65535"]}]}
RELAYS = "3128 3129 1080 8888 9050 8000 443"
BATTERY = f"""
web() {{ curl -sk -g --max-time 4 --noproxy "$@" 2>/dev/null | busybox tr -d '\\0\\n'; }}
says() {{ case "$2" in *"$3"*) echo "$1 ALLOWED";; *) echo "$1 BLOCKED";; esac; }}
port() {{ busybox timeout 3 bash -c "exec 3<>/dev/tcp/$1/$2 && echo x >&3 && head -c 4 <&3" 2>/dev/null | busybox tr -d '\\0'; }}
lists() {{ n=; for p in $2; do n="$n$(port $1 $p)"; done; [ -n "$n" ] && echo ALLOWED || echo BLOCKED; }}
says L1 "$(web '*' https:{'//'}ok.example.com/)" "this is {OK}"
says L2 "$(web '*' http:{'//'}ok.example.com/)" "this is {OK}"
says L3 "$(web '*' https:{'//'}api.ok.example.com/)" "this is {SUB}"
for p in 192.0.0.1:1 192.0.0.1:53 192.0.0.1:3128 ok.example.com:80; do n="$n$(web x -x http:{'//'}$p https:{'//'}blocked.test/)"; done; says A1 "$n" "this is"
says A2 "$(web '*' https:{'//'}blocked.test/)" "this is"
says A2-resolve "$(web '*' --resolve blocked.test:443:{EVIL} https:{'//'}blocked.test/)" "this is"
says A2-sni "$(web '*' --resolve ok.example.com:443:{EVIL} https:{'//'}ok.example.com/)" "this is"
says A3 "$(web '*' https:{'//'}ok.example.com/)" "this is {OK}"
says A4 "$(web '*' https:{'//'}{RAW}/)" "this is"
says A5 "$(web x -x http:{'//'}ok.example.com:80 -p https:{'//'}ok.example.com:22/)$(port ok.example.com 22)" "this"
busybox nslookup blocked.test 1.1.1.1 2>/dev/null | grep -q 'Address.*25\\.' && echo A6 ALLOWED || echo A6 BLOCKED
busybox nslookup ok.example.com 1.1.1.1 > /dev/null 2>&1
says A7 "$(web '*' -H Metadata:true http:{'//'}{METADATA}/metadata/instance)" "this is"
echo A8 $(lists {LAN} "{' '.join(map(str, PRIVATE))}")
says A9 "$(port ok.example.com 22)" "this"
bash -c 'echo x > /dev/udp/{RAW}/443; echo x > /dev/udp/ok.example.com/443' 2>/dev/null
busybox timeout 3 busybox ping -c1 -W2 {RAW} > /dev/null 2>&1 && echo A11 ALLOWED || echo A11 BLOCKED
says A12 "$(web '*' 'https:{'//'}[2606:4700:4700::1111]/')" "this is"
busybox ip route add 10.123.123.0/24 dev lo > /dev/null 2>&1 && echo TAMPER ALLOWED || echo TAMPER BLOCKED
says M1 "$(web '*' http:{'//'}peer.group.cay.internal:8080/)" marker
says M2 "$(web x -x http:{'//'}peer.group.cay.internal:8080 http:{'//'}blocked.test/ | busybox sed s/marker//)" "this is"
echo M3 $(lists peer.group.cay.internal "{RELAYS}")$(lists 192.0.0.1 "{RELAYS}")
busybox nslookup ok.example.com 192.0.0.1 2>/dev/null | grep -q 'Address.*25\\.' && echo M4 ALLOWED || echo M4 BLOCKED
says M5 "$(web x -x http:{'//'}192.0.0.1:53 http:{'//'}blocked.test/)" "this is"
"""
PASSES = {"L1", "L2", "L3", "A3", "M1", "M4"}
ROWS = PASSES | {"A1", "A2", "A2-resolve", "A2-sni", "A4", "A5", "A6", "A7", "A8", "A9", "A11", "A12", "TAMPER", "M2", "M3", "M5"}  # A10 is the wire's


def image():
    """The tiny one, and bash and curl of the machine with their libraries."""
    programs = ["/bin/bash", "/usr/bin/curl"]
    needed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    paths = sorted({*programs, *re.findall(r"(/\S+) \(0x", needed)})
    return tiny([cay.file(p.replace("/usr/bin", "/bin").lstrip("/"), pathlib.Path(p).read_bytes(), 0o755) for p in paths])


class Web(lab.Lab):
    """Hosts that say who they are in a reply of HTTP, and keep what they got."""

    async def greet(self, address, port, reader, writer):
        first = []
        self.seen.append((address, port, first))
        if port not in (80, 443):
            writer.write(f"this is {address}\n".encode())
        try:
            first.append(await reader.readuntil(b"\r\n\r\n"))
            text = f"this is {address}\n".encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(text), text))
        except Exception:  # noqa: BLE001: it left
            pass
        writer.close()


@pytest.fixture(scope="module")
def net():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        cert = tlshost.Authority(pathlib.Path(top)).issue("host", "ok.example.com")
        with Web(HOSTS, dict(ZONE), tls=cert) as internet:
            yield internet


@pytest.fixture(scope="module")
def node(net):
    with node_in_lab() as c:
        c.image_import("curl", image())
        yield c


@pytest.fixture(scope="module")
def peer(node):
    """A neighbour that may reach what the other may not, and has one service."""
    rules = {"rules": [{"action": "allow", "to": "*", "ports": [80, 443]}], "expose": [8080]}
    one = node.create("tiny", egress=rules, group="g", name="peer")
    node.exec_detached(one, ["busybox", "nc", "-ll", "-p", "8080", "-e", "sh", "-c", r"printf 'HTTP/1.0 200 OK\r\n\r\nmarker'"])
    wait_for("its server", lambda: any(p["port"] == 8080 for p in node.call("GET", f"/v1/sandboxes/{one}/ports")["ports"]), 30)
    yield one
    node.delete(one)


@pytest.mark.parametrize("user,runtime", [("user", "crun"), ("root", "crun"), ("user", "runc"), ("root", "runc")])
def test_the_battery(node, net, peer, user, runtime):
    one = node.create("curl", egress=RULES, runtime=runtime, group="g")
    net.frames(), net.asked(), net.connections()
    done = node.exec(one, ["bash", "-c", BATTERY], timeout_s=240, user=user)
    verdicts = dict(line.split() for line in done.text.splitlines())
    assert {row for row, v in verdicts.items() if "ALLOWED" in v} == PASSES and set(verdicts) == ROWS, (done.text, done.stderr)
    frames, lost = net.frames()
    assert not lost and {(protocol, to, port) for protocol, to, port, _ in frames} == {
        (6, OK, 443), (6, OK, 80), (6, SUB, 443), (17, lab.DNS, 53)}
    assert {name for name, *_ in net.asked()} == {"ok.example.com", "api.ok.example.com"}
    requests = [first for *_, first in net.connections() if first]
    assert len(requests) == 4 and all(b"example.com\r\n" in r and r.startswith(b"GET / ") for r in requests), requests
    node.delete(one)
