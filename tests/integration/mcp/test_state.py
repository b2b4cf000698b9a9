# SPDX-License-Identifier: Apache-2.0
"""Snapshots and forks for models: `snapshot`, `from` of sandbox_create, and what sandbox_list and sandbox_delete make of them."""
import json
import re
import secrets

import pytest


@pytest.fixture
def talk(node):
    """A conversation: calls a tool and has its text; nothing of it stays."""
    group = "state-" + secrets.token_hex(3)
    client = node.client(node.new_key(), f"?group={group}")

    def call(tool, fails=False, **arguments):
        got = client.ask("tools/call", {"name": tool, "arguments": arguments})
        assert got["isError"] == fails, got
        return "\n".join(b["text"] for b in got["content"])
    call.group, call.client = group, client
    yield call
    node.door().call("DELETE", f"/v1/sandboxes?group={group}")
    for s in node.door().call("GET", "/v1/snapshots?limit=1000")["snapshots"]:
        if s.get("group") == group:
            node.door().call("DELETE", f"/v1/snapshots/{s['id']}")


def one(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return found[0]


SN, SB = r"sn[0-9a-z]{24}", r"sb[0-9a-z]{24}"


def test_files_are_kept_and_had_again(talk):
    talk("write", path="note", content="one")
    said = talk("snapshot", name=f"of {talk.group}")
    sn, source = one(SN, said), one(SB, said)
    talk("write", path="note", content="two")
    back = one(SB, talk("sandbox_create", **{"from": sn, "name": f"back-{talk.group}", "env": {"A": "b"}}))
    assert back != source and talk("exec", sandbox=back, command="cat note; echo $A") == "oneb\n\n[exit 0]"
    assert talk("exec", command="cat note") == "two\n[exit 0]"
    listed = talk("sandbox_list").splitlines()
    assert {line.split()[0] for line in listed} == {back, source, sn}
    assert one(rf"{sn}  .*", "\n".join(listed)).startswith(f"{sn}  of {talk.group}") and f"snapshot of {source}, 20" in listed[-1]
    assert talk("sandbox_delete", snapshot=sn) == f"deleted {sn}"
    assert "list the sandboxes" in talk("sandbox_delete", True, snapshot=sn)
    said = talk("sandbox_create", True, **{"from": sn})
    assert "not_found" in said and "list the sandboxes to see the snapshots" in said
    assert talk("exec", sandbox=back, command="cat note") == "one\n[exit 0]", "what was created from it stays"


def test_a_sandbox_is_forked(talk):
    talk("write", path="note", content="seed")
    source = one(SB, talk("sandbox_list"))
    forks = [one(SB, talk("sandbox_create", **{"from": source, "name": f"{n}-{talk.group}", "ttl": 600})) for n in ("left", "right")]
    assert len({source, *forks}) == 3
    talk("write", sandbox=forks[0], path="note", content="left")
    assert [talk("exec", sandbox=b, command="cat note").split("\n")[0] for b in (source, *forks)] == ["seed", "left", "seed"]
    assert not re.search(SN, talk("sandbox_list")), "it leaves no snapshot"
    said = talk("sandbox_create", True, **{"from": source, "name": f"left-{talk.group}"})
    assert "conflict" in said and "choose another name" in said
    assert "leave it out" in talk("sandbox_create", True, **{"from": source, "image": "tiny"})
    assert "as sandbox_list shows them" in talk("sandbox_create", True, **{"from": f"left-{talk.group}"})
    for box in forks:
        talk("sandbox_delete", sandbox=box)
    assert "has ended" in talk("sandbox_create", True, **{"from": forks[0]})
    assert "ended or never existed" in talk("sandbox_create", True, **{"from": "sb" + "0" * 23 + "1"})


def test_a_sandbox_is_rolled_back(talk):
    talk("write", path="note", content="good")
    said = talk("snapshot")
    sn, box = one(SN, said), one(SB, said)
    talk("write", path="note", content="bad")
    assert talk("snapshot", rollback=sn) == f"{box} has the files of {sn} again, and is running"
    assert talk("exec", command="cat note") == "good\n[exit 0]"
    other = one(SB, talk("sandbox_create", image="tiny"))
    assert "create another sandbox with its files" in talk("snapshot", True, sandbox=other, rollback=sn)
    talk("sandbox_delete", snapshot=sn)
    assert "list the sandboxes to see the snapshots" in talk("snapshot", True, rollback=sn)


def test_what_a_model_can_do_about_a_refusal(talk):
    talk("snapshot", name=f"a {talk.group}")
    assert "choose another name" in talk("snapshot", True, name=f"a {talk.group}")
    box = one(SB, talk("sandbox_list"))
    assert "give one of sandbox, label and snapshot" in talk("sandbox_delete", True, sandbox=box, snapshot="sn" + "0" * 24)
    assert "is not the id of a snapshot" in talk("sandbox_delete", True, snapshot=box)


def test_another_group_has_none_of_it(node, talk):
    talk("write", path="note", content="mine")
    sn = one(SN, talk("snapshot"))
    source = one(SB, talk("sandbox_list"))
    key = node.new_key()  # of the whole tenant: the group is the conversation's
    other = node.client(key, "?group=other-" + secrets.token_hex(3))
    for of in (sn, source):
        got = other.call("sandbox_create", **{"from": of})
        assert got["isError"] and "not_found" in json.dumps(got), got
    assert other.call("snapshot", sandbox=source)["isError"]
    assert other.call("sandbox_delete", snapshot=sn)["isError"]
    assert sn not in json.dumps(other.call("sandbox_list", all=True))
    assert sn in talk("sandbox_list")


def test_a_token_and_a_key_that_reads_have_no_snapshot(node, talk):
    talk("exec", command="true")
    source = one(SB, talk("sandbox_list"))
    token = node.door().call("POST", f"/v1/sandboxes/{source}/token", {"scope": "write", "ttl_ms": 60000})["token"]
    for c in (node.client(token), node.client(node.new_key("read"))):
        assert "snapshot" not in c.tools() and "find" in c.tools()
        got = c.call("snapshot", sandbox=source)
        assert got["isError"] and "permission_denied" in json.dumps(got), got
    assert "snapshot" in talk.client.tools()
