# SPDX-License-Identifier: Apache-2.0
"""Open connections of sandboxes: listed, and cut

What is expected comes from the hosts of tests/lib/lab.py and from the wire.
"""
import json
import os
import signal
import subprocess

import cay
import lab
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_egress import API, DB, HOSTS, ZONE, allow, box, dial, node  # noqa: F401
from test_tenants import asks

LONG = ".".join(["x" * 63] * 3 + ["y" * 53, "example"])


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, {**ZONE, LONG: [DB]}) as internet:
        yield internet


def flows(by, box):
    return by.call("GET", f"/v1/sandboxes/{box}/egress/flows")["flows"]


def cut(by, box, **which):
    return by.call("POST", f"/v1/sandboxes/{box}/egress/cut", which)["connections"]


def refused(code, call, *args, **more):
    with pytest.raises(ApiError) as e:
        call(*args, **more)
    assert json.loads(e.value.body)["error"]["code"] == code


def hold(node, box, host, port, say="echo hello"):
    """A connection that stays open."""
    return node.exec_detached(box, ["sh", "-c", f"({say}; sleep 1000) | busybox nc {host} {port} > /tmp/{host}-{port}; echo over >> /tmp/{host}-{port}"])


def text(node, box, host, port):
    return node.exec(box, ["sh", "-c", f"cat /tmp/{host}-{port}"]).text


def test_connections_that_are_open(node, net, box):
    one, other = box(allow("db.example.com", "api.example.com", ports=[443, 5432])), box(allow("93.184.2.0/24", ports=[5432]))
    assert flows(node, one) == flows(node, other) == flows(node, box({})) == []
    was = net.traffic()
    hold(node, one, "db.example.com", 5432)
    wait_for("its echo", lambda: "hello" in text(node, one, "db.example.com", 5432), 30)
    hold(node, one, "api.example.com", 443, "true")  # says nothing, so its name is not known
    hold(node, other, DB, 5432, "true")
    wait_for("all of them", lambda: len(flows(node, one)) == 2 and [f["state"] for f in flows(node, other)] == ["open"], 30)
    silent, echo = flows(node, one)
    _, up, down = (now - before for now, before in zip(net.traffic(), was, strict=True))
    plain, = flows(node, other)
    assert silent.pop("since") >= echo.pop("since") > "2026" and plain.pop("since")
    assert silent == {"name": "api.example.com", "port": 443, "state": "checking", "up_bytes": 0, "down_bytes": 0}
    greeting = len(f"this is {DB} port 5432\n")
    assert plain == {"port": 5432, "address": DB, "state": "open", "up_bytes": 0, "down_bytes": greeting}
    assert echo == {"name": "db.example.com", "port": 5432, "address": DB, "state": "open", "up_bytes": up, "down_bytes": down - greeting}
    assert cut(node, other, to=API) == 0 and cut(node, other, to="db.example.com") == 0 and cut(node, one, to=DB) == 0
    assert cut(node, other, to=DB) == 1 and flows(node, other) == []
    assert len(flows(node, one)) == 2, "those of another sandbox"
    assert cut(node, one) == 2 and cut(node, one) == 0


def test_a_cut_is_done_before_the_reply(node, net, box):
    one = box(allow("db.example.com", "api.example.com", ports=[5432, 8443]))
    beat = "while [ ! -e /tmp/stop ]; do echo beat; sleep 0.05; done"
    for host, port in (("db.example.com", 5432), ("api.example.com", 8443)):
        hold(node, one, host, port, beat)
        wait_for("its echo", lambda host=host, port=port: "beat" in text(node, one, host, port), 30)
    assert cut(node, one, to="DB.example.com", port=8443) == 0
    assert cut(node, one, to="DB.example.com") == 1
    net.frames()
    assert [f["name"] for f in flows(node, one)] == ["api.example.com"]
    wait_for("its end", lambda: "over" in text(node, one, "db.example.com", 5432), 30)
    length = len(text(node, one, "api.example.com", 8443))
    wait_for("the other to go on", lambda: len(text(node, one, "api.example.com", 8443)) > length, 30)
    frames, dropped = net.frames()
    assert not dropped and not [f for f in frames if f[2] == 5432 and f[3]], "a byte left after the reply"
    assert dial(node, one, "db.example.com", 5432)[0], "the policy is as it was"
    assert cut(node, one, port=8443) == 1
    wait_for("its end", lambda: "over" in text(node, one, "api.example.com", 8443), 30)
    node.exec(one, ["touch", "/tmp/stop"])


def test_who_may(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))
    hold(node, one, "db.example.com", 5432)
    wait_for("it", lambda: len(flows(node, one)) == 1, 30)
    token = node.edge(f"{node.get(one)['tenant']} write - {one}")
    reader = asks(node, "read", node.get(one)["tenant"])
    stranger = asks(node, "write", node.call("POST", "/v1/tenants", {"name": "stranger"})["id"])
    for call in (flows, cut):
        refused("not_found", call, stranger, one)
    refused("permission_denied", cut, token, one)
    refused("permission_denied", cut, reader, one)
    assert len(flows(token, one)) == len(flows(reader, one)) == len(flows(node, one)) == 1
    for to in ("*.example.com", "93.184.2.0/24", "db.example.com/x", "db.example.com."):
        refused("invalid_argument", cut, node, one, to=to)


def test_at_the_command_line(node, net, box):
    def run(*words):
        done = subprocess.run([str(node.programs["cay"]), "egress", *words], env={**os.environ, "CAY_SOCKET": node.socket}, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    one = box(allow("db.example.com", ports=[5432]))
    hold(node, one, "db.example.com", 5432)
    wait_for("its echo", lambda: "hello" in text(node, one, "db.example.com", 5432), 30)
    heading, row = run("flows", one)[0].splitlines()
    assert heading.split() == ["TO", "ADDRESS", "STATE", "SINCE", "SENT", "RECEIVED"]
    assert row.split()[:3] == ["db.example.com:5432", DB, "open"] and row.split()[-4:-2] == ["6", "B"]
    assert json.loads(run("flows", "--json", one)[0])["flows"] == flows(node, one)
    assert json.loads(run("cut", "--json", one, "api.example.com")[0]) == {"connections": 0}
    assert "0 connections" in run("cut", "--port", "443", one)[1]
    assert "1 connections" in run("cut", one, "db.example.com")[1]
    assert flows(node, one) == []


def test_as_many_as_there_can_be(node, net, box):
    """Of the longest names: the largest message that cay-egress sends."""
    one = box(allow(LONG, ports=[5432]), limits={"pids": 700})
    node.exec_detached(one, ["sh", "-c", "busybox mkfifo /tmp/f; exec 3<> /tmp/f; i=0; while [ $i -lt 262 ]; do (while :; do "
                             f"busybox nc {LONG} 5432 > /dev/null <&3; sleep 0.5; done) & i=$((i+1)); done; wait"])
    wait_for("256 of them", lambda: len(flows(node, one)) == 256 and {f["state"] for f in flows(node, one)} == {"open"}, 90)
    assert {f["name"] for f in flows(node, one)} == {LONG} and len(LONG) == 253
    assert cut(node, one, to=LONG) == 256


def test_while_cay_egress_hangs(net):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        c.image_import("tiny", tiny())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        one = c.create("tiny", egress=allow("db.example.com", ports=[5432]))
        c.daemons["cay-egress"].send_signal(signal.SIGSTOP)
        try:
            refused("egress_unavailable", flows, c, one)
            refused("egress_unavailable", cut, c, one)
            assert c.exec(one, ["echo", "hi"]).text == "hi\n"
        finally:
            c.daemons["cay-egress"].send_signal(signal.SIGCONT)
        wait_for("it to be attached", lambda: dial(c, one, "db.example.com", 5432)[0], 30)
        assert flows(c, one) == []
        c.delete(one)
