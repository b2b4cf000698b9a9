# SPDX-License-Identifier: Apache-2.0
"""A client names its sandbox as it likes, and uses the name in paths where an id would stand."""
import contextlib
import http.client
import json
import os
import signal
import urllib.parse

import pytest
import world
from cay import ApiError, wait_for
from conftest import BUILD
from routes import routes

ABSENT = "sb0000000000000000000000zz"
GOOD = ["crawler", "my_session", "Session A", "a", "x" * 128, "é" * 64, "会话一", "%2e%2e", "a.b", "~!@#$&'()*+,;=?[]^`{|}<>\"\\", "$(reboot)", "-x", "sb",
        "SB0000000000000000000000ZZ", "sb0000000000000000000000z", "exec s", "😀", " "]
BAD = ["", ".", "..", ".hidden", "a/b", "/", "x" * 129, "é" * 65, "a\nb", "a\tb", "\x7f", "\x85", "a\u202eb", "\u2066a", "\u200b", "a\u200d", "\ufeff", "\u2028",
       "\U000e0041", "\uffff", ABSENT]


def at(name, rest=""):
    return "/v1/sandboxes/" + urllib.parse.quote(name, safe="") + rest


def raw(node, target, credential, method="GET", body=None):
    """As spelled: no client of HTTP changes it."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)) as c:
        c.putrequest(method, target, skip_accept_encoding=True)
        c.putheader("Authorization", "Bearer " + credential)
        if body is not None:
            c.putheader("Content-Type", "application/json")
            c.putheader("Content-Length", str(len(body)))
        c.endheaders(body)
        r = c.getresponse()
        return r.status, json.loads(r.read() or b"{}")


def refused(code, fn, *args):
    with pytest.raises(ApiError) as e:
        fn(*args)
    assert e.value.code == code, (args, e.value)


def test_a_name_reaches_its_sandbox(node):
    me = node.door()
    for name in GOOD:
        box = me.call("POST", "/v1/sandboxes", {"image": "tiny", "name": name})
        assert box["name"] == name and me.call("GET", at(name))["id"] == box["id"], name
        assert me.call("POST", at(name, "/execs"), {"argv": ["echo", "hi"]})["stdout"] == "hi\n", name
        listed = me.call("GET", "/v1/sandboxes?state=live&name=" + urllib.parse.quote(name, safe=""))["sandboxes"]
        assert [s["id"] for s in listed] == [box["id"]], name
        assert me.call("DELETE", at(name))["id"] == box["id"], name


def test_what_is_no_name(node):
    me = node.door()
    for name in BAD:
        with pytest.raises(ApiError) as e:
            me.call("POST", "/v1/sandboxes", {"image": "tiny", "name": name})
        error = json.loads(e.value.body)["error"]
        assert (error["code"], error["field"]) == ("invalid_argument", "name"), (name, error)
        assert raw(node, at(name), me.credential)[0] == 404, name


def test_a_path_is_decoded_once_and_strictly(node):
    me = node.door()
    box = me.create("tiny", name="%2e%2e")
    try:
        assert raw(node, "/v1/sandboxes/%252e%252e", me.credential)[1]["id"] == box
        for spelled in ("%2e%2e", "..", ".%2e", "%2E%2E/%2e%2e", "%25252e%25252e", "%", "%2", "%zz", "%00", "%2e%2e%00", "%ff", "%c0%ae", "%ed%a0%80", "%0a",
                        "%252e%252e%2fexecs", "a%2Fb", "%2f", "+252e+252e", "%e2%80%ae"):
            status, said = raw(node, "/v1/sandboxes/" + spelled, me.credential)
            assert (status, said["error"]["code"]) == (404, "not_found"), (spelled, said)
        assert raw(node, "/v1/sandboxes/%252e%252e/execs", me.credential, "POST", b'{"argv":["true"]}')[0] == 200
    finally:
        me.delete(box)


def test_every_operation_takes_a_name(node):
    """An unknown name gets the reply of an unknown id."""
    me, tried = node.door(), 0
    for op in routes(node):
        if "{sandbox}" not in op.path:
            continue
        answers = []
        for who in (ABSENT, "an%20unknown%20name"):
            reply = me.open(op.method, op.target(sandbox=who), op.body)
            answers.append((reply.status, json.loads(reply.read() or b"{}").get("error", {}).get("code")))
        assert answers[0] == answers[1] and answers[0][0] >= 400, (op.name, answers)
        tried += 1
    assert tried > 50


def test_a_name_is_the_tenant_s_own(node):
    other = node.call("POST", "/v1/tenants", {"name": "names-other"})["id"]
    mine, theirs = node.door(), node.door(node.new_key(tenant=other))
    box = mine.create("tiny", name="Shared Name")
    refused("not_found", theirs.call, "GET", at("Shared Name"))
    refused("not_found", theirs.call, "POST", at("Shared Name", "/execs"), {"argv": ["true"]})
    refused("not_found", theirs.call, "DELETE", at("Shared Name"))
    twin = theirs.create("tiny", name="Shared Name")
    assert twin != box and theirs.call("GET", at("Shared Name"))["id"] == twin and mine.call("GET", at("Shared Name"))["id"] == box
    mine.delete(box)
    theirs.delete(twin)


def test_a_token_is_for_its_sandbox_whatever_it_is_called(node):
    me = node.door()
    a, b = me.create("tiny", name="token a"), me.create("tiny", name="token b")
    token = node.door(me.call("POST", at("token a", "/token"), {"scope": "write"})["token"])
    assert token.call("POST", at("token a", "/execs"), {"argv": ["echo", "a"]})["stdout"] == "a\n"
    assert token.call("GET", at("token a"))["id"] == a
    for who in ("token b", "token c"):
        refused("permission_denied", token.call, "POST", at(who, "/execs"), {"argv": ["true"]})
        refused("permission_denied", token.call, "GET", at(who))
    group = node.door(node.new_key(group="names"))
    refused("not_found", group.call, "GET", at("token a"))
    refused("not_found", group.call, "POST", at("token a", "/execs"), {"argv": ["true"]})
    own = group.create("tiny", name="token g")
    assert group.call("POST", at("token g", "/execs"), {"argv": ["echo", "g"]})["stdout"] == "g\n"
    for box in (a, b, own):
        me.delete(box)


def test_a_name_given_again_is_the_new_one_s(node):
    me = node.door()
    old = me.create("tiny", name="again")
    me.delete(old)
    assert me.call("GET", at("again"))["id"] == old, "its end can be read"
    refused("wrong_state", me.call, "POST", at("again", "/execs"), {"argv": ["true"]})
    new = me.create("tiny", name="again")
    assert new != old and me.call("GET", at("again"))["id"] == new
    assert me.call("POST", at("again", "/execs"), {"argv": ["hostname"]})["stdout"].strip() == new, "never the name"
    me.delete(new)


def test_what_the_machine_lost_is_told_by_name_as_well(node):
    me = node.door()
    box = me.create("tiny", name="to be lost")
    os.kill(node.pid_1(box), signal.SIGKILL)
    wait_for("its end", lambda: me.get(box)["state"] == "failed", 30)
    with pytest.raises(ApiError) as e:
        me.call("POST", at("to be lost", "/execs"), {"argv": ["true"]})
    assert json.loads(e.value.body)["error"]["blame"] == "infra"


def test_a_name_works_while_control_is_away(own):
    me = own.door()
    box = me.create("tiny", name="Session A")
    wait_for("the edge to know it", lambda: "echo" in str(me.call("POST", at("Session A", "/execs"), {"argv": ["echo", "echo"]})), 30)
    own.kill_daemon("cayd")
    assert me.call("POST", at("Session A", "/execs"), {"argv": ["echo", "still"]})["stdout"] == "still\n"
    refused("unavailable", me.call, "GET", at("Session B"))
    own.start_cayd()
    own.delete(box)


def test_audit_and_log_have_the_id():
    with world.World(BUILD, env={"CAY_LOG_ACCESS": "yes"}) as node:
        me = node.door()
        box = me.create("tiny", name="Nämé 'n \"quotes\"")
        me.call("POST", at("Nämé 'n \"quotes\"", "/labels"), {"labels": {"a": "b"}})
        with contextlib.suppress(ApiError):
            me.call("DELETE", at("an unknown name"))
        me.call("DELETE", at("Nämé 'n \"quotes\""))
        records = node.call("GET", "/v1/audit?limit=100")["records"]
        of = [(r["op"], r.get("target")) for r in records if r["op"] in ("sandbox.labels", "sandbox.delete")]
        assert sorted(of, key=str) == sorted([("sandbox.labels", box), ("sandbox.delete", None), ("sandbox.delete", box)], key=str), of
        for name in ("cayd", *node.edges, "cay-keeper"):
            assert "quotes" not in node.log(name)
