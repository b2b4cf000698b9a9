# SPDX-License-Identifier: Apache-2.0
"""A conversation is a principal: what is bound to a group has that group's sandboxes, over MCP and HTTP, and no others."""
import json
import secrets

import pytest
from routes import routes, words


@pytest.fixture(scope="module")
def two(node):
    """Sandboxes of alice and bob in one tenant, and a key of each that is bound to its group."""
    class Two:
        pass
    t = Two()
    t.alice, t.bob = (f"{n}-{secrets.token_hex(3)}" for n in ("alice", "bob"))
    t.keys = {g: node.new_key(group=g) for g in (t.alice, t.bob)}
    t.boxes = {g: node.door(t.keys[g]).call("POST", "/v1/sandboxes", {"image": "tiny", "name": f"box-{g}"}) for g in t.keys}
    yield t
    for g in t.keys:
        node.door().call("DELETE", f"/v1/sandboxes?group={g}")


def refused(node, credential, method, target, body=None, headers=None):
    reply = node.door(credential).open(method, target, body, headers=headers)
    return reply.status, json.loads(reply.read() or b"{}").get("error", {}).get("code")


def test_a_create_is_of_the_key_s_group(node, two):
    assert {g: b["group"] for g, b in two.boxes.items()} == {g: g for g in two.keys}
    assert refused(node, two.keys[two.alice], "POST", "/v1/sandboxes", {"image": "tiny", "group": two.bob}) == (403, "permission_denied")


def test_lists_and_events_show_one_group(node, two):
    door = node.door(two.keys[two.alice])
    mine, other = two.boxes[two.alice]["id"], two.boxes[two.bob]["id"]
    assert [s["id"] for s in door.call("GET", "/v1/sandboxes")["sandboxes"]] == [mine]
    assert {s["id"] for s in node.door().call("GET", "/v1/sandboxes?state=live&limit=1000")["sandboxes"]} >= {mine, other}, "the tenant has both"
    assert {e["sandbox"] for e in door.call("GET", "/v1/events?limit=1000")["events"]} == {mine}
    for path in ("/v1/sandboxes", "/v1/events", "/v1/uploads"):
        assert refused(node, two.keys[two.alice], "GET", f"{path}?group={two.bob}") == (403, "permission_denied")


def test_no_operation_reaches_another_group_s_sandbox(node, two):
    """Every operation that names a sandbox: the same answer as for one that does not exist."""
    mine, other = two.boxes[two.alice]["id"], two.boxes[two.bob]["id"]
    absent = "sb0000000000000000000000zz"
    tried = 0
    for op in routes(node):
        if "{sandbox}" not in op.path:
            continue
        answers = [refused(node, two.keys[two.alice], op.method, words(op.name, op.target(sandbox=s)), op.body) for s in (other, absent)]
        assert answers[0] == answers[1] and answers[0][0] >= 400, (op.name, answers)
        tried += 1
    assert tried > 50
    assert node.door(two.keys[two.alice]).call("GET", f"/v1/sandboxes/{mine}")["id"] == mine, "and its own it does"


def test_a_name_or_a_key_of_another_group_gives_nothing(node, two):
    assert refused(node, two.keys[two.alice], "POST", "/v1/sandboxes", {"image": "tiny", "name": f"box-{two.bob}"}) == (409, "conflict")
    once = {"Idempotency-Key": secrets.token_hex(8)}
    node.door(two.keys[two.bob]).open("POST", "/v1/sandboxes", {"image": "tiny"}, headers=once).read()
    assert refused(node, two.keys[two.alice], "POST", "/v1/sandboxes", {"image": "tiny"}, headers=once)[0] in (409, 422)


def test_what_belongs_to_the_whole_tenant_is_closed(node, two):
    assert refused(node, two.keys[two.alice], "DELETE", f"/v1/sandboxes?group={two.bob}") == (403, "permission_denied")
    assert refused(node, node.operator_key(), "POST", "/v1/keys",
                   {"tenant": "tn" + "0" * 24, "name": "x", "scope": "operator", "group": "g"})[0] == 400


def test_a_caller_can_limit_itself_and_never_widen(node, two):
    whole = node.new_key()
    other = two.boxes[two.bob]["id"]
    assert refused(node, whole, "GET", f"/v1/sandboxes/{other}/info")[0] == 200
    assert refused(node, whole, "GET", f"/v1/sandboxes/{other}/info", headers={"Cay-Group": two.alice})[0] == 404
    assert refused(node, two.keys[two.alice], "GET", "/v1/sandboxes", headers={"Cay-Group": two.bob}) == (403, "permission_denied")


def test_a_rotated_key_stays_bound(node, two):
    made = node.call("POST", "/v1/keys", {"tenant": "tn" + "0" * 24, "name": "r", "scope": "write", "group": two.alice})
    assert made["key"]["group"] == two.alice
    fresh = node.call("POST", f"/v1/keys/{made['key']['id']}/rotate", {"overlap_ms": 60000})["secret"]
    for secret in (made["secret"], fresh):
        assert refused(node, secret, "GET", f"/v1/sandboxes/{two.boxes[two.bob]['id']}")[0] == 404
        assert refused(node, secret, "GET", f"/v1/sandboxes/{two.boxes[two.alice]['id']}")[0] == 200


def test_mcp_keeps_to_its_group(node, two):
    """One key for the whole tenant, and the group is the conversation's: a prompt injection names another's sandbox."""
    whole = node.new_key()
    bob = node.client(whole, f"?group={two.bob}")
    for name in (f"box-{two.alice}", two.boxes[two.alice]["id"]):
        got = bob.call("exec", sandbox=name, command="echo owned >/workspace/x")
        assert got["isError"], got
    listed = json.dumps(bob.call("sandbox_list", all=True))
    assert two.boxes[two.alice]["id"] not in listed and two.boxes[two.bob]["id"] in listed
    assert not bob.call("exec", sandbox=f"box-{two.bob}", command="true")["isError"]


def test_mcp_with_a_bound_key_is_in_its_group(node, two):
    got = node.client(two.keys[two.alice]).call("exec", command="echo here")
    assert not got["isError"], got
    boxes = node.door(two.keys[two.alice]).call("GET", "/v1/sandboxes?state=live")["sandboxes"]
    assert f"mcp-{two.alice}" in {b.get("name") for b in boxes}
    assert node.client(two.keys[two.alice], f"?group={two.bob}").call("exec", command="true")["isError"]


def test_a_model_cannot_ask_for_the_machine(node):
    got = node.client(query="?group=greedy").call("sandbox_create", memory_mib=1 << 20)
    assert got["isError"] and "65536" in json.dumps(got)


def test_a_conversation_is_told_once_that_its_sandbox_has_ended(node):
    group = "end-" + secrets.token_hex(4)
    c, api = node.client(query=f"?group={group}"), node.door()
    assert "no sandbox to delete" in json.dumps(c.call("sandbox_delete")), "and none is created for it"
    assert api.call("GET", f"/v1/sandboxes?group={group}")["sandboxes"] == []
    c.call("write", path="work", content="mine")
    (first,) = api.call("GET", f"/v1/sandboxes?group={group}")["sandboxes"]
    api.call("DELETE", f"/v1/sandboxes/{first['id']}")
    got = c.call("exec", command="touch /workspace/unasked")
    text = got["content"][0]["text"]
    assert got["isError"] and first["id"] in text and "deleted on request" in text and "files, processes and shells are lost" in text, got
    assert len(api.call("GET", f"/v1/sandboxes?group={group}")["sandboxes"]) == 1, "told before another is created"
    got = c.call("exec", command="ls /workspace")
    assert not got["isError"] and [b["text"] for b in got["content"]] == ["[exit 0]"], got
    second, _ = api.call("GET", f"/v1/sandboxes?group={group}")["sandboxes"]
    # the model's own delete is no news
    assert c.call("sandbox_delete")["content"][0]["text"] == f"deleted {second['id']}"
    assert not c.call("exec", command="true")["isError"]
    c.call("sandbox_delete")


def test_a_read_only_file_of_the_sandbox_blames_no_key(node):
    c = node.client(query="?group=hints-" + secrets.token_hex(4))
    text = c.call("write", path="/proc/nothing", content="x")["content"][0]["text"]
    assert "key" not in text and "inside the sandbox" in text, text
    assert "list the directory" in c.call("read", path="nothing")["content"][0]["text"]
    c.call("sandbox_delete")
