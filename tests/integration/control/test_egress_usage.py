# SPDX-License-Identifier: Apache-2.0
"""What sandboxes use of the network

The expected numbers are those of the hosts in tests/lib/lab.py: how many connections they had, and the bytes that they
received and sent.
"""
import pathlib
import re
import signal
import subprocess

import lab
import prometheus
import pytest
from cay import wait_for
from test_egress import DB, HOSTS, ZONE, allow, decision_files, dial, node_in_lab

FIELDS = ("total", "denied", "failed", "names_denied", "up_bytes", "down_bytes")


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, dict(ZONE)) as internet:
        yield internet


@pytest.fixture
def node(net):
    with node_in_lab() as c:
        yield c


def usage(node, box):
    return node.call("GET", f"/v1/sandboxes/{box}/usage").get("egress")


def send(node, box, n, host="db.example.com", port=5432):
    """Bytes to a host, which echoes them."""
    done = node.exec(box, ["sh", "-c", f"busybox head -c {n} /dev/zero | busybox nc -w 20 {host} {port} | busybox wc -c"], timeout_s=60)
    assert int(done.text) > n, done.stderr


class Since:
    """What hosts saw since it was made."""

    def __init__(self, net):
        self.net, self.was = net, net.traffic()

    def __call__(self):
        return tuple(now - was for now, was in zip(self.net.traffic(), self.was, strict=True))


def numbers(node, *labels):
    found = prometheus.metrics(node)
    return [found["cay_egress_" + name, (one,) if one else ()] for name, one in labels]


def test_counts_are_those_that_hosts_saw(node, net):
    other = node.create("tiny")
    one = node.create("tiny", egress=allow("db.example.com", ports=[5432, 1]))
    assert usage(node, other) is None
    assert usage(node, one) == {"open": 0, **dict.fromkeys(FIELDS, 0)}
    saw = Since(net)
    send(node, one, 300000)
    send(node, one, 5)
    for _ in range(3):
        assert not dial(node, one, "db.example.com", 22)[0]  # denied
    assert not dial(node, one, "db.example.com", 1)[0]  # no host listens there
    assert not dial(node, one, DB, 5432)[0]  # denied: an address
    assert "bad address" in dial(node, one, "evil.test", 5432)[1]
    hold = node.exec_detached(one, ["sh", "-c", "(echo hello; sleep 1000) | busybox nc db.example.com 5432"])
    wait_for("its echo", lambda: b"hello" in node.exec_output(one, hold), 30)

    def expected():
        connected, up, down = saw()
        return {"open": 1, "total": connected + 5, "denied": 4, "failed": 1, "up_bytes": up, "down_bytes": down}

    wait_for("the counts", lambda: expected().items() <= usage(node, one).items(), 30)
    assert saw()[0] == 3 and usage(node, one)["names_denied"] > 0
    connected, up, down = saw()
    assert numbers(node, ("up", ""), ("connections", ""), ("connections_total", ("outcome", "connected")), ("connections_total", ("outcome", "denied")),
                   ("connections_total", ("outcome", "failed")), ("bytes_total", ("direction", "up")), ("bytes_total", ("direction", "down")),
                   ("names_denied_total", "")) == [1, 1, connected, 4, 1, up, down, usage(node, one)["names_denied"]]
    node.signal(one, hold)
    wait_for("its end", lambda: usage(node, one)["open"] == 0, 30)
    node.delete(one)
    node.delete(other)
    assert numbers(node, ("bytes_total", ("direction", "up"))) == [up], "an end takes nothing away"


def test_bytes_by_name_are_in_the_log(node, net):
    """By the command of the guide; with a connection that was cut, and names that share a host."""
    one = node.create("tiny", egress=allow("db.example.com", "kept.example.com", ports=[5432]))
    send(node, one, 300000)
    send(node, one, 7000)
    send(node, one, 20, "kept.example.com")
    hold = node.exec_detached(one, ["sh", "-c", "(echo hello; sleep 1000) | busybox nc kept.example.com 5432"])
    wait_for("its echo", lambda: b"hello" in node.exec_output(one, hold), 30)
    node.call("POST", f"/v1/sandboxes/{one}/egress/cut", {})
    greeting = len(f"this is {DB} port 5432\n")
    guide = (pathlib.Path(__file__).parents[3] / "docs/egress.md").read_text()
    command = re.search(r"```text\n(cat \*\.log .*?)```", guide, re.S)[1]

    def by_name():
        found = subprocess.run(["sh", "-c", command], cwd=decision_files(node)[0].parent, capture_output=True, text=True, check=True).stdout
        return sorted(found.splitlines())
    wait_for("the sums", lambda: by_name() == sorted([f"307000 {307000 + 2 * greeting} db.example.com:5432", f"26 {26 + 2 * greeting} kept.example.com:5432"]), 30)
    wait_for("the counts", lambda: (usage(node, one)["up_bytes"], usage(node, one)["down_bytes"]) == (307026, 307026 + 4 * greeting), 30)
    node.delete(one)


def test_counts_go_on_after_restarts(node, net):
    """Of either program, of both by signals; and they never become less."""
    one = node.create("tiny", egress=allow("db.example.com", ports=[5432]))
    saw, last = Since(net), {}

    def matches(also_node):
        now = usage(node, one)
        assert all(now[f] >= last.get(f, 0) for f in FIELDS), (last, now)
        last.update(now)
        connected, up, down = saw()
        return ((now["total"], now["up_bytes"], now["down_bytes"]) == (connected, up, down) and
                (not also_node or numbers(node, ("connections_total", ("outcome", "connected")), ("bytes_total", ("direction", "up"))) == [connected, up]))

    def attached():
        return node.call("GET", f"/v1/sandboxes/{one}/egress")["attached"] and dial(node, one, "db.example.com", 5432)[0]

    send(node, one, 1000)
    node.exec_detached(one, ["sh", "-c", "(echo hello; sleep 1000) | busybox nc db.example.com 5432"])
    wait_for("the counts", lambda: matches(True) and usage(node, one)["open"] == 1 and saw()[1] == 1006, 30)
    node.kill_daemon("cay-egress")
    wait_for("cayd to see it", lambda: usage(node, one)["open"] == 0, 30)
    assert matches(True) and numbers(node, ("up", ""), ("connections", "")) == [0, 0]
    node.start_egress()
    wait_for("it to be attached", attached, 30)
    send(node, one, 2000)
    wait_for("counts of both", lambda: matches(True), 30)
    node.exec_detached(one, ["sh", "-c", "sleep 2; busybox head -c 3000 /dev/zero | busybox nc -w 20 db.example.com 5432"])
    node.kill_daemon("cayd")
    before = saw()[1]
    wait_for("a connection without control", lambda: saw()[1] >= before + 3000, 30)
    node.start_cayd()
    wait_for("it to be attached", attached, 30)
    wait_for("counts without control", lambda: matches(False), 30)
    for name in ("cayd", "cay-egress"):  # as an upgrade does
        node.daemons[name].send_signal(signal.SIGTERM)
        node.daemons[name].wait()
    node.start_egress()
    node.start_cayd()
    wait_for("it to be attached", attached, 30)
    send(node, one, 4000)
    wait_for("counts from the journal", lambda: matches(False), 30)
    node.delete(one)
