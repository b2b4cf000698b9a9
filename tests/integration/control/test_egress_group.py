# SPDX-License-Identifier: Apache-2.0
"""Connections between the sandboxes of a group: NAME.group.cay.internal, where both policies say so

Servers and clients are programs in real sandboxes; what they got decides, and the packets that left the node, of which there are none.
"""
import json

import cay
import lab
import pytest
import swap
from cay import ApiError, wait_for
from test_dockerfile import cay as run_cay
from test_egress import allow, decisions, left, node_in_lab, put
from test_stop import act
from test_tenants import asks

PORT = 5432
DB = "db.group.cay.internal"
EXPOSES = {"expose": [PORT]}
CALLS = allow(DB, ports=["1-65535"])


@pytest.fixture(scope="module")
def net():
    with lab.Lab([], {}) as internet:
        yield internet


@pytest.fixture(scope="module")
def node(net):
    with node_in_lab() as c:
        yield c


@pytest.fixture
def boxes(node, net):
    """Makes sandboxes, and removes those that are left; nothing leaves the node."""
    made = []

    def make(policy, name=None, group="g", by=node, **more):
        fields = {k: v for k, v in (("name", name), ("group", group)) if v}
        made.append((by, by.create("tiny", egress=policy, **fields, **more)))
        return made[-1][1]
    make.later = lambda *ids: made.extend((node, one) for one in ids)
    net.frames(), net.asked()
    yield make
    for by, one in made:
        if by.get(one)["state"] not in ("terminated", "failed"):
            by.delete(one)
    assert left(net) == set() and net.asked() == []


def serve(node, box, port=PORT, says="hello from {}"):
    """A server that greets and then echoes."""
    words = says.format(box)
    node.exec_detached(box, ["busybox", "nc", "-ll", "-p", str(port), "-e", "sh", "-c", f"echo {words}; exec cat"])
    wait_for("the server", lambda: any(p["port"] == port for p in node.call("GET", f"/v1/sandboxes/{box}/ports")["ports"]), 30)


def dial(node, box, name, port=PORT, send="ping"):
    return node.exec(box, ["sh", "-c", f"echo {send} | busybox nc -w 5 {name} {port}"], timeout_s=40).text


def why(node, box):
    """Outcomes of the log about it, without those that ended well."""
    return [d["outcome"] for d in decisions(node) if d.get("target") == box and d["op"] == "cut"]


def holds(node, box, name=DB):
    """A connection that stays, with a file that says how it ended."""
    node.exec_detached(box, ["sh", "-c", f"busybox mkfifo /tmp/in; sleep 600 > /tmp/in & busybox nc {name} {PORT} < /tmp/in > /tmp/got; echo over >> /tmp/got"])
    wait_for("its greeting", lambda: "hello" in node.exec(box, ["cat", "/tmp/got"]).text, 30)


def is_over(node, box):
    return "over" in node.exec(box, ["cat", "/tmp/got"]).text


def flows(node, box):
    return node.call("GET", f"/v1/sandboxes/{box}/egress/flows")["flows"]


def test_a_port_that_both_policies_name(node, boxes):
    """By name and by id, bytes both ways; the name keeps its address."""
    db, app = boxes(EXPOSES, "db"), boxes(allow(DB, "*.group.cay.internal", ports=[PORT]), "app")
    serve(node, db)
    for _ in range(2):
        assert dial(node, app, DB) == f"hello from {db}\nping\n"
    assert dial(node, app, f"{db}.group.cay.internal") == f"hello from {db}\nping\n"
    looked_up = [node.exec(app, ["busybox", "nslookup", DB]).text for _ in range(2)]
    assert looked_up[0] == looked_up[1] and "25." in looked_up[0]

    def closed():
        return [d["detail"] for d in decisions(node) if d.get("target") == app and d["op"] == "closed"]
    wait_for("the records", lambda: len(closed()) == 3, 30)
    assert closed()[0].startswith(f"{DB}:{PORT} by ")


def test_many_bytes_arrive(node, boxes):
    db, app = boxes(EXPOSES, "db"), boxes(CALLS, "app")
    serve(node, db)
    script = f"head -c 3000000 /dev/urandom > /tmp/in; busybox nc -w 10 {DB} {PORT} < /tmp/in | tail -c 3000000 | busybox cmp - /tmp/in && echo same"
    assert node.exec(app, ["bash", "-c", script.replace("head ", "busybox head ").replace("| tail ", "| busybox tail ")], timeout_s=60).text == "same\n"


# who is called, by whom: the name, the policies, where they are, and what the log says
REFUSED = {
    "not-exposed": ({}, CALLS, {}, "peer_not_exposed"),
    "another-port-exposed": ({"expose": ["80", "5433-5440"]}, CALLS, {}, "peer_not_exposed"),
    "another-group": (EXPOSES, CALLS, {"group": "other"}, "peer_absent"),
    "no-group": (EXPOSES, CALLS, {"group": None}, "peer_absent"),
    "every-name-is-no-rule": (EXPOSES, {"rules": [{"action": "allow", "to": "*", "ports": ["1-65535"]}]}, {}, None),
    "nor-is-a-default": (EXPOSES, {"default": "allow"}, {}, None),
    "another-name": (EXPOSES, allow("other.group.cay.internal", ports=[PORT]), {}, None),
    "another-port": (EXPOSES, allow(DB, ports=[80]), {}, "deny"),
    "denied-before": (EXPOSES, {"rules": [{"action": "deny", "to": DB, "ports": [PORT]}, *CALLS["rules"]]}, {}, "deny"),
    "nobody-listens": (EXPOSES, CALLS, {"silent": True}, "peer_unreachable"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused(node, boxes, case):
    exposes, calls, where, outcome = REFUSED[case]
    db, app = boxes(exposes, "db"), boxes(calls, "app", group=where.get("group", "g"))
    if not where.get("silent"):
        serve(node, db)
    assert dial(node, app, DB) == ""
    if outcome:
        wait_for("its record", lambda: why(node, app) == [outcome], 30)
    said = node.call("POST", f"/v1/sandboxes/{app}/egress/check", {"to": DB, "port": PORT})
    assert said["verdict"] == ("allow" if case == "nobody-listens" else "deny"), said


def test_sandboxes_of_another_tenant_are_not_there(node, boxes):
    tenant = node.call("POST", "/v1/tenants", {"name": "stranger"})["id"]
    theirs = asks(node, "write", tenant)
    db = boxes(EXPOSES, "db")
    serve(node, db)
    app = boxes(allow(DB, f"{db}.group.cay.internal", ports=[PORT]), "app", by=theirs)
    for name in DB, f"{db}.group.cay.internal":
        assert dial(theirs, app, name) == ""
    wait_for("their records", lambda: why(node, app) == ["peer_absent"] * 2, 30)
    own = boxes(EXPOSES, "db", by=theirs)
    serve(theirs, own)
    assert dial(theirs, app, DB) == f"hello from {own}\nping\n"


def test_the_nodes_and_templates_bounds_hold(node, boxes):
    """A template that names no port exposes none, whatever the sandbox says; a tenant's bound is not for this."""
    shut = node.call("POST", "/v1/templates", {"name": "shut", "defaults": {"image": "tiny", "egress": allow("a.example")}})["id"]
    made = node.call("POST", "/v1/sandboxes", {"template": "shut", "name": "db", "group": "g", "egress": EXPOSES})["id"]
    app = boxes(CALLS, "app")
    serve(node, made)
    assert dial(node, app, DB) == ""
    wait_for("its record", lambda: why(node, app) == ["peer_not_exposed"], 30)
    node.delete(made)
    node.call("DELETE", f"/v1/templates/{shut}")
    tenant = node.call("POST", "/v1/tenants", {"name": "bounded"})["id"]
    with pytest.raises(ApiError) as e:
        node.call("POST", f"/v1/tenants/{tenant}", {"egress_max": EXPOSES})
    assert json.loads(e.value.body)["error"]["field"] == "egress_max.expose"
    node.call("POST", f"/v1/tenants/{tenant}", {"egress_max": allow("*", ports=["1-65535"])})
    by = asks(node, "write", tenant)
    db, one = boxes(EXPOSES, "db", by=by), boxes(CALLS, "app", by=by)
    serve(by, db)
    assert dial(by, one, DB) == ""
    node.call("POST", f"/v1/tenants/{tenant}", {"egress_max": allow("*.group.cay.internal", ports=[PORT])})
    assert dial(by, one, DB) == f"hello from {db}\nping\n"


def test_a_policy_that_exposes_less_cuts_before_the_reply(node, boxes):
    db, app, other = boxes(EXPOSES, "db"), boxes(CALLS, "app"), boxes(CALLS, "other")
    serve(node, db)
    for one in app, other:
        holds(node, one)
    put(node, db, {"expose": [f"{PORT}-{PORT + 1}"]})
    assert len(flows(node, app)) == 1 and not is_over(node, app)
    put(node, other, {})
    assert flows(node, other) == []
    put(node, db, {})
    assert flows(node, app) == []
    wait_for("its end", lambda: is_over(node, app), 30)
    assert dial(node, app, DB) == ""


@pytest.mark.parametrize("how", ["deleted", "stopped"])
def test_one_that_ends_is_cut_before_the_reply(node, boxes, how):
    """A new sandbox of that name is another one, and is there at once."""
    db, app = boxes(EXPOSES, "db"), boxes(CALLS, "app")
    serve(node, db)
    holds(node, app)
    if how == "deleted":
        node.delete(db)
    else:
        assert act(node, db, "stop")["state"] == "stopped"
    assert flows(node, app) == []
    wait_for("its end", lambda: is_over(node, app), 30)
    assert dial(node, app, DB) == ""
    wait_for("its record", lambda: why(node, app)[-1] == ("peer_absent" if how == "deleted" else "peer_unreachable"), 30)
    if how == "deleted":
        second = boxes(EXPOSES, "db")
    else:
        assert act(node, db, "start")["state"] == "running"
        second = db
    serve(node, second)
    assert dial(node, app, DB) == f"hello from {second}\nping\n"


def test_a_connection_wakes_who_dozes(node, boxes):
    """And one that is open is work, so that nobody is frozen in the middle of an answer; `wake: never` holds here as well."""
    db = boxes(EXPOSES, "db", pause_after_ms=1000)
    never = boxes(EXPOSES, "never", pause_after_ms=1000, wake="never", idle="requests")
    app = boxes(allow(DB, "never.group.cay.internal", ports=[PORT]), "app")

    def is_dozing(box):
        return node.get(box).get("dozing") and swap.is_frozen(node, box)
    # a service is no work; an exec would be
    node.call("PUT", f"/v1/sandboxes/{db}/services/server", {"command": f"busybox nc -ll -p {PORT} -e sh -c 'echo hello; exec cat'"})
    serve(node, never)
    for box in (db, never):
        wait_for("it to doze", lambda box=box: is_dozing(box), 20)
    for _ in range(2):
        assert dial(node, app, DB) == "hello\nping\n"
        wait_for("it to doze again", lambda: is_dozing(db), 20)
    assert dial(node, app, "never.group.cay.internal") == "" and is_dozing(never)
    wait_for("the record", lambda: why(node, app)[-1:] == ["peer_unreachable"], 30)
    holds(node, app)
    cay.let_pass(3.5)
    assert node.get(db)["state"] == "running" and not is_over(node, app)
    node.call("DELETE", f"/v1/sandboxes/{app}")
    wait_for("it to doze once nobody is connected", lambda: is_dozing(db), 20)


def test_a_restart_of_cayd(node, boxes):
    """Connections that are still exposed go on; those of before the restart of cay-egress do not."""
    db, app = boxes(EXPOSES, "db"), boxes(CALLS, "app")
    serve(node, db)
    holds(node, app)
    node.kill_daemon("cayd")
    node.start_cayd()
    wait_for("cay-egress to be attached", lambda: node.call("GET", f"/v1/sandboxes/{app}/egress")["attached"], 30)
    wait_for("the flow", lambda: len(flows(node, app)) == 1, 30)
    cay.let_pass(0.5)
    assert len(flows(node, app)) == 1 and not is_over(node, app)
    assert dial(node, app, DB) == f"hello from {db}\nping\n"
    node.kill_daemon("cay-egress")
    node.start_egress()
    wait_for("its end", lambda: is_over(node, app), 30)
    wait_for("another", lambda: dial(node, app, DB) == f"hello from {db}\nping\n", 30)


def test_check_says_which_side_decides(node, boxes):
    db, app = boxes(EXPOSES, "db"), boxes(CALLS, "app")

    def check(port, name=DB):
        said = node.call("POST", f"/v1/sandboxes/{app}/egress/check", {"to": name, "port": port})
        return said["verdict"], said["reason"]
    assert check(PORT)[0] == "allow" and "exposes the port" in check(PORT)[1]
    assert check(80)[0] == "deny" and "`expose`" in check(80)[1]
    put(node, app, allow("*.group.cay.internal", ports=[PORT]))
    assert check(PORT, "nobody.group.cay.internal")[0] == "deny" and "no such sandbox" in check(PORT, "nobody.group.cay.internal")[1]
    assert node.call("GET", f"/v1/sandboxes/{db}/egress")["policy"] == {"rules": [], "default": "deny", "expose": [PORT]}


def test_requests_to_it_are_not_read(node, boxes):
    """Port 80 and 443 are ports like any other; a rule for methods is refused."""
    db, app = boxes({"expose": ["80", "443"]}, "db"), boxes(allow(DB, ports=[80, 443]), "app")
    for port in 80, 443:
        serve(node, db, port)
        assert dial(node, app, DB, port, "no HTTP, no TLS") == f"hello from {db}\nno HTTP, no TLS\n"
    with pytest.raises(ApiError) as e:
        put(node, app, {"rules": [{"action": "allow", "to": DB, "methods": ["GET"]}]})
    assert "not read" in e.value.body.decode()


def test_at_the_command_line(node, boxes):
    """As the guide has it."""
    made = [run_cay(node, "create", "--group", "g", *words, "tiny").stdout.strip() for words in (("--name", "db", "--expose", "5432"), ("--allow", f"{DB}:5432"))]
    boxes.later(*made)
    serve(node, made[0])
    assert dial(node, made[1], DB) == f"hello from {made[0]}\nping\n"
    assert "5432" in run_cay(node, "egress", "show", "db").stdout
    assert run_cay(node, "egress", "check", "--port", "5432", made[1], DB).stdout.startswith("allow")
    assert run_cay(node, "egress", "check", "--port", "80", made[1], DB).stdout.startswith("deny")
    assert run_cay(node, "egress", "set", "--expose", "80", "db").returncode == 0 and dial(node, made[1], DB) == ""
