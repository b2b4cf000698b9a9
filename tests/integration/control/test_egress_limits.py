# SPDX-License-Identifier: Apache-2.0
"""Limits of egress policies: how many connections, how many bytes, and how fast

What is expected comes from the hosts of tests/lib/lab.py, which count the bytes that arrive.
"""
import json
import time

import lab
import pytest
from cay import ApiError, wait_for
from test_egress import DB, HOSTS, ZONE, allow, decisions, node_in_lab, put
from test_tenants import asks

GREETING = f"this is {DB} port 5432\n"
KI, MI = 1 << 10, 1 << 20


@pytest.fixture(scope="module")
def net():
    with lab.Lab([*HOSTS, (DB, lab.SINK), (DB, lab.SOURCE)], dict(ZONE)) as internet:
        yield internet


@pytest.fixture(scope="module")
def node(net):
    with node_in_lab() as c:
        yield c


@pytest.fixture
def box(node):
    made = []

    def make(**limits):
        made.append(node.create("tiny", egress=limited(**limits)))
        return made[-1]

    yield make
    for one in made:
        node.delete(one)


def limited(**limits):
    return {**allow("kept.example.com", ports=[5432, lab.SINK, lab.SOURCE]), "limits": limits}


def upload(node, box, n, port=5432, **more):
    """Send n bytes; how many came back, behind the greeting."""
    done = node.exec(box, ["sh", "-c", f"head -c {n} /dev/zero | busybox nc -w 20 kept.example.com {port} | wc -c"], timeout_s=120, **more)
    return int(done.text) - len(GREETING)


def pour(node, box, n):
    """Send n bytes to a host that says nothing: a reset that comes behind them takes none of them back."""
    upload(node, box, n, lab.SINK)


def received(net, before):
    """Bytes that hosts received since then."""
    return net.traffic()[1] - before[1]


def usage(by, box):
    return by.call("GET", f"/v1/sandboxes/{box}/usage")["egress"]


@pytest.mark.parametrize("budget,sent", [(100_000, 300_000), (3 * MI + 7, 24 * MI)])  # read and written, and moved by the kernel
def test_no_byte_more_than_a_budget_leaves(node, net, box, budget, sent):
    one, before = box(up_bytes=budget), net.traffic()
    pour(node, one, sent)
    wait_for("the last byte", lambda: received(net, before) == budget, 30)
    wait_for("a record of it", lambda: any(d.get("target") == one and (d["op"], d["outcome"]) == ("cut", "used_up") for d in decisions(node)), 30)
    count = net.traffic()[0]
    assert upload(node, one, 10) < 0 and net.traffic()[0] == count and received(net, before) == budget, "a new connection is refused"
    wait_for("its count", lambda: usage(node, one)["up_bytes"] == budget, 30)


def test_no_byte_more_than_a_budget_arrives_inside(node, net, box):
    one = box(down_bytes=500_000)
    done = node.exec(one, ["sh", "-c", f"busybox nc -w 20 kept.example.com {lab.SOURCE} < /dev/null | wc -c"], timeout_s=120)
    assert int(done.text) == 500_000
    assert upload(node, one, 10) < 0


def test_a_budget_is_for_all_connections_together(node, net, box):
    one, before = box(up_bytes=1_000_000), net.traffic()
    script = f"for i in 1 2 3 4; do (head -c 400000 /dev/zero | busybox nc -w 20 kept.example.com {lab.SINK} > /dev/null) & done; wait"
    node.exec(one, ["sh", "-c", script], timeout_s=120)
    wait_for("the last byte", lambda: received(net, before) == 1_000_000, 30)


def test_a_budget_that_is_raised_and_lowered(node, net, box):
    """Bytes count from the first, also those from before there was a limit."""
    one, before = box(), net.traffic()
    assert upload(node, one, 50_000) == 50_000
    put(node, one, limited(up_bytes=60_000))
    pour(node, one, 50_000)
    wait_for("the last byte", lambda: received(net, before) == 60_000, 30)
    put(node, one, limited(up_bytes=1_000_000))
    assert upload(node, one, 50_000) == 50_000
    put(node, one, limited(up_bytes=70_000))  # less than was sent
    assert upload(node, one, 10) < 0 and received(net, before) == 110_000


def test_a_restart_gives_no_new_budget(net):
    with node_in_lab() as c:
        one, before = c.create("tiny", egress=limited(up_bytes=100_000)), net.traffic()
        assert upload(c, one, 80_000) == 80_000
        wait_for("its count", lambda: usage(c, one)["up_bytes"] == 80_000, 30)
        c.kill_daemon("cay-egress")
        c.start_egress()
        wait_for("it to be attached", lambda: upload(c, one, 1) == 1, 30)
        pour(c, one, 80_000)
        wait_for("the last byte", lambda: received(net, before) == 100_000, 30)
        assert upload(c, one, 1) < 0
        c.delete(one)


@pytest.mark.parametrize("way,n", [("up_bytes_per_s", 600 * KI), ("down_bytes_per_s", 600 * KI)])
def test_a_rate_holds_for_all_connections_together(node, net, box, way, n):
    """Two connections, one of which the kernel moves; it takes as long as the bytes need."""
    one = box(**{way: 200 * KI})
    begun = time.monotonic()
    script = f"for i in 1 2; do (head -c {n // 2} /dev/zero | busybox nc -w 20 kept.example.com 5432 | wc -c) & done; wait"
    done = node.exec(one, ["sh", "-c", script], timeout_s=120)
    took = time.monotonic() - begun
    assert [int(line) for line in done.text.split()] == [n // 2 + len(GREETING)] * 2
    assert took > (n - 2 * 64 * KI) / (200 * KI), took  # what is taken at once is paid for later
    put(node, one, limited())
    begun = time.monotonic()
    assert upload(node, one, n) == n and time.monotonic() - begun < took


def test_connections_at_once(node, net, box):
    one = box(flows=3)
    hold = ("busybox mkfifo /tmp/f; exec 3<> /tmp/f; "
            "for i in 1 2 3 4 5; do (busybox nc kept.example.com 5432 > /tmp/$i <&3; echo over >> /tmp/$i) & done; sleep 1000")
    node.exec_detached(one, ["sh", "-c", hold])
    text = lambda: node.exec(one, ["sh", "-c", "cat /tmp/1 /tmp/2 /tmp/3 /tmp/4 /tmp/5; true"]).text  # noqa: E731
    wait_for("three of them", lambda: (text().count("this is"), text().count("over")) == (3, 2), 30)
    put(node, one, limited(flows=4))
    assert upload(node, one, 5) == 5


def test_connections_in_a_second(node, net, box):
    one = box(new_per_s=2)
    script = "i=0; while [ $i -lt 12 ]; do busybox nc -w 5 kept.example.com 5432 < /dev/null; i=$((i+1)); done"
    begun = time.monotonic()
    got = node.exec(one, ["sh", "-c", script], timeout_s=60).text.count("this is")
    assert 4 <= got <= 4 + 2 * (time.monotonic() - begun + 1)


def test_the_strictest_policy_counts(node, net):
    """Of the node, the tenant, the template and the sandbox."""
    tenant = node.call("POST", "/v1/tenants", {"name": "metered"})["id"]
    node.call("POST", "/v1/tenants/" + tenant, {"egress_max": {**allow("*.example.com", ports=["1-65535"]), "limits": {"up_bytes": 50_000, "flows": 900}}})
    by = asks(node, "write", tenant)
    asks(node, "operator", tenant).call("POST", "/v1/templates", {"name": "metered", "defaults": {"image": "tiny", "egress": limited(down_bytes=700_000, new_per_s=30)}})
    one, before = by.call("POST", "/v1/sandboxes", {"template": "metered", "egress": limited(up_bytes="1Mi", new_per_s=40)})["id"], net.traffic()
    assert by.call("GET", f"/v1/sandboxes/{one}/egress")["limits"] == {"flows": 256, "new_per_s": 30, "up_bytes": 50_000, "down_bytes": 700_000}
    pour(by, one, 90_000)
    wait_for("the last byte", lambda: received(net, before) == 50_000, 30)
    node.call("POST", "/v1/tenants/" + tenant, {"reset": True})
    assert upload(by, one, 1000) == 1000
    by.delete(one)


@pytest.mark.parametrize("limits", [{"flows": 0}, {"flows": 1025}, {"new_per_s": 101}, {"up_bytes": 0}, {"up_bytes_per_s": 10}, {"sideways": 1}])
def test_a_limit_that_is_none(node, limits):
    with pytest.raises(ApiError) as e:
        node.create("tiny", egress={"limits": limits})
    error = json.loads(e.value.body)["error"]
    assert error["code"] == "invalid_argument" and error["field"] == "egress.limits." + next(iter(limits)), error
