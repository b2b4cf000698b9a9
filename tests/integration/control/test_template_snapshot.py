# SPDX-License-Identifier: Apache-2.0
"""Templates over a snapshot: its files, for those who may have it, for as long as a template names it."""
import json
import threading

import cay
import pytest
from cay import ApiError, wait_for
from test_control import refused
from test_egress_policy import ALLOW, policy
from test_life import clean, linked, restart
from test_pool import filled, pool
from test_quota import new_tenant
from test_snapshot import drop, gone, layer, listed, snapshot, words
from test_tenants import DEFAULT, actor, asks


def put(c, called, sn, **defaults):
    return c.call("POST", "/v1/templates", {"name": called, "defaults": {"snapshot": sn, **defaults}})


def create(c, called, **more):
    return c.call("POST", "/v1/sandboxes", {"template": called, **more})


def source(c, text="here", image="tiny", **more):
    """A snapshot with a file, and nothing else of its sandbox."""
    box = c.create(image, **more)
    c.exec(box, ["sh", "-c", f"echo {text} >me"])
    sn = snapshot(c, box)["id"]
    c.delete(box)
    return sn


def remove(c, t):
    return c.call("DELETE", f"/v1/templates/{t['id']}")


def templates(c):
    return [t["name"] for t in c.call("GET", "/v1/templates")["templates"]]


def layers(c):
    return len(list((c.state / "images/sha256").iterdir()))


def test_its_sandboxes_have_the_files(own):
    sn = source(own)
    t = put(own, "kind", sn, env={"A": "one"}, labels={"l": "x"})
    assert t["state"] == "ready" and t["defaults"]["snapshot"] == sn and "image" not in t["defaults"]
    box = create(own, "kind", env={"B": "2"})
    assert (box["template"], box["snapshot"], box["image"], box["labels"]) == ("kind", sn, "tiny", {"l": "x"})
    assert own.exec(box["id"], ["sh", "-c", "cat me; echo $A$B$FROM; echo later >me"]).text == "here\none2image\n"
    other = create(own, "kind")["id"]
    assert own.exec(other, ["cat", "me"]).text == "here\n"  # each writes to its own disk
    second = source(own, "again")
    assert put(own, "kind", second)["id"] == t["id"]
    drop(own, sn)  # no template names it
    refused("conflict", lambda: drop(own, second))
    third = create(own, "kind")["id"]
    assert own.exec(third, ["cat", "me"]).text == "again\n" and own.exec(other, ["cat", "me"]).text == "here\n"
    assert own.call("POST", "/v1/templates", {"name": "kind", "defaults": {"image": "tiny"}})["id"] == t["id"]
    drop(own, second)
    for name in (box["id"], other, third):
        own.delete(name)
    gone(own)
    clean(own)


def test_a_layer_stays_while_a_template_names_it(own):
    """Nothing else uses it: no sandbox, no deletion and no end of its time removes it, also after restarts."""
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo here >me"])
    sn = snapshot(own, box, ttl_ms=2000)["id"]
    t = put(own, "kind", sn)
    own.delete(box)
    with pytest.raises(ApiError) as e:
        drop(own, sn)
    assert e.value.code == "conflict" and "template 'kind'" in words(e.value)
    for names in (["cayd"], ["cay-keeper"], ["cayd", "cay-keeper"]):
        restart(own, *names)
        refused("conflict", lambda: drop(own, sn))
        cay.let_pass(1.5)  # in all longer than its time, and than between two runs of the walk
        assert [s["id"] for s in listed(own)] == [sn] and layer(own, sn).is_dir()
        box = create(own, "kind")["id"]
        assert own.exec(box, ["cat", "me"]).text == "here\n"
        own.delete(box)
    box = create(own, "kind")["id"]
    remove(own, t)
    wait_for("it to expire", lambda: not listed(own), 30)
    restart(own, "cayd")
    cay.let_pass(2.5)
    assert layers(own) == 2 and own.exec(box, ["cat", "me"]).text == "here\n"  # the sandbox's now
    own.delete(box)
    gone(own)
    clean(own)


def test_the_row_is_durable_before_the_reply(own):
    """A template whose create was answered is there after a crash, and keeps its snapshot."""
    sn = source(own)
    put(own, "kind", sn)
    own.kill_daemon("cayd")
    own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    [t] = own.call("GET", "/v1/templates")["templates"]
    assert t["defaults"]["snapshot"] == sn
    refused("conflict", lambda: drop(own, sn))
    remove(own, t)
    own.kill_daemon("cayd")
    own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    drop(own, sn)
    gone(own)


def test_a_snapshot_is_named_or_deleted(own):
    """Both at once: a template that was created has its files, and one that has none was not created."""
    for i in range(10):
        sn, both, said = source(own), threading.Barrier(2), {}
        if i % 2:  # which the new version replaces
            own.call("POST", "/v1/templates", {"name": "kind", "defaults": {"image": "tiny"}})

        def ask(what, fn, both=both, said=said):
            both.wait(30)
            try:
                said[what] = fn()
            except ApiError as e:
                said[what] = e.code
        asks_ = [threading.Thread(target=ask, args=a) for a in (("put", lambda sn=sn: put(own, "kind", sn)), ("drop", lambda sn=sn: drop(own, sn)))]
        for a in asks_:
            a.start()
        for a in asks_:
            a.join(60)
        assert [isinstance(said[k], dict) for k in ("put", "drop")].count(True) == 1, said
        if isinstance(said["put"], dict):
            assert said["drop"] == "conflict"
            box = create(own, "kind")["id"]
            assert own.exec(box, ["cat", "me"]).text == "here\n"
            own.delete(box)
            remove(own, said["put"])
            drop(own, sn)
        else:
            assert said["put"] == "not_found"
        for t in own.call("GET", "/v1/templates")["templates"]:
            assert t["defaults"].get("image") == "tiny" and i % 2
            remove(own, t)
    gone(own)


def test_a_pool_has_the_files(own):
    sn, other = source(own), source(own, "other")
    t = put(own, "kind", sn)
    pool(own, t, min=1, max=4, on_empty="fail")
    filled(own, t, 1)
    box = create(own, "kind", env={"A": "1"})
    assert box["snapshot"] == sn and own.exec(box["id"], ["sh", "-c", "cat me; echo $A"]).text == "here\n1\n"
    filled(own, t, 1)
    restart(own, "cayd")
    filled(own, t, 1)
    put(own, "kind", other)  # those with the files of before are not claimed
    wait_for("the pool to have the others", lambda: said(own) == "other\n", 60)
    drop(own, sn)
    remove(own, t)
    drop(own, other)
    for s in own.call("GET", "/v1/sandboxes?state=live")["sandboxes"]:
        own.delete(s["id"])
    gone(own)
    clean(own)


def said(c):
    """What a sandbox of the pool has; nothing while it is empty."""
    try:
        box = create(c, "kind")["id"]
    except ApiError as e:
        assert e.code == "no_capacity", words(e)
        return None
    text = c.exec(box, ["cat", "me"]).text
    c.delete(box)
    return text


def heard(c, seen, ready):
    reply = c.open("GET", "/v1/events?follow=true", headers={"Accept": "text/event-stream"}, timeout_s=60)
    kind = None
    while line := reply.readline():
        ready.set()
        if line.startswith(b"event: "):
            kind = line[7:].strip()
        elif line.startswith(b"data: ") and kind == b"template":
            seen.append(json.loads(line[6:])["name"])
            if seen[-1] == "last":
                return


def test_another_tenant_finds_no_such_template(own):
    """Not its files, not its name, not its events; an operator finds its row and not its files."""
    tenant, mine = new_tenant(own)
    _, other = new_tenant(own)
    sn = source(mine)
    operator = asks(own, "operator", tenant)
    refused("not_found", lambda: put(own, "theirs", sn))  # an operator of another tenant
    refused("permission_denied", lambda: put(mine, "theirs", sn))
    seen, follows = {}, []
    for name, c in (("mine", mine), ("other", other)):
        ready = threading.Event()
        follows.append(threading.Thread(target=heard, args=(c, seen.setdefault(name, []), ready)))
        follows[-1].start()
        assert ready.wait(30)
    t = put(operator, "theirs", sn)
    pool(operator, t, min=1)
    filled(own, t, 1)
    assert (templates(mine), templates(other), templates(own)) == (["theirs"], [], ["theirs"])
    assert mine.call("GET", f"/v1/templates/{t['id']}")["name"] == "theirs"

    def asked(c, method, path, body=None):
        with pytest.raises(ApiError) as e:
            c.call(method, path, body)
        return e.value.status, e.value.code, words(e.value).replace("theirs", "NAME").replace("absent", "NAME")

    never = "tp" + "0" * 23 + "1"
    for method, path, body in (("GET", "/v1/templates/{}", None), ("POST", "/v1/sandboxes", "template")):
        told = [asked(other, method, path.format(i), {body: name} if body else None) for i, name in ((t["id"], "theirs"), (never, "absent"))]
        assert told[0] == told[1] and told[0][:2] == (404, "not_found"), told
    reply = other.open("POST", "/v1/batches", {"count": 2, "sandbox": {"template": "theirs"}})
    assert b'"running"' not in reply.read()
    refused("not_found", lambda: create(own, "theirs"))
    box = create(mine, "theirs")["id"]
    assert mine.exec(box, ["cat", "me"]).text == "here\n"
    last = own.call("POST", "/v1/templates", {"name": "last", "defaults": {"image": "tiny"}})  # which all may use
    for f in follows:
        f.join(30)
    assert set(seen["mine"]) == {"theirs", "last"} and set(seen["other"]) == {"last"}
    mine.delete(box)
    for k in own.call("GET", "/v1/keys")["keys"]:
        if k["tenant"] == tenant:
            own.call("POST", f"/v1/keys/{k['id']}/revoke")
    with pytest.raises(ApiError) as e:
        own.call("DELETE", f"/v1/tenants/{tenant}")
    assert e.value.code == "conflict" and "template 'theirs'" in words(e.value)
    remove(own, t)
    own.call("DELETE", f"/v1/tenants/{tenant}")
    remove(own, last)
    gone(own)


def test_another_group_finds_no_such_template(own):
    sn = source(own, group="alice")
    t = put(own, "kind", sn)
    for group, finds in (("alice", True), ("bob", False)):
        key = own.call("POST", "/v1/keys", {"tenant": DEFAULT, "name": group, "scope": "write", "group": group})
        who = own.edge(f"{actor('write', DEFAULT, key['key']['id'])} {group}", key["secret"])
        assert bool(templates(who)) == finds
        reply = who.open("POST", "/v1/sandboxes", {"template": "kind"})
        reply.read()
        assert reply.status == (201 if finds else 404)
    own.call("DELETE", "/v1/sandboxes?group=alice")
    remove(own, t)
    drop(own, sn)
    gone(own)


def test_what_is_refused(own):
    sn, absent = source(own), "sn" + "0" * 23 + "1"
    refused("not_found", lambda: put(own, "bad", absent))
    for more in ({"image": "tiny"}, {"packages": {"python": {"x": ""}}}, {"name": "one"}):
        refused("invalid_argument", lambda more=more: put(own, "bad", sn, **more))
    for more in ({"setup": ["true"]}, {"files": [{"path": "/x", "content": "x"}]}, {"packages": {"python": {"x": ""}}}):
        refused("invalid_argument", lambda more=more: own.call("POST", "/v1/templates", {"name": "bad", "defaults": {"snapshot": sn}, **more}))
    assert not templates(own)
    t = put(own, "kind", sn)
    for more in ({"snapshot": sn}, {"image": "tiny"}, {"packages": {"python": {"x": ""}}}):
        refused("invalid_argument", lambda more=more: create(own, "kind", **more))
    remove(own, t)
    drop(own, sn)
    gone(own)


def test_the_bound_of_a_snapshot_holds(own):
    """The policy that bound the source bounds sandboxes of a template over its files, also those of a pool."""
    bound = own.call("POST", "/v1/templates", {"name": "bound", "defaults": {"image": "tiny", "egress": ALLOW}})
    sn = source(own, template="bound", image=None, egress={})
    remove(own, bound)
    refused("invalid_argument", lambda: put(own, "kind", sn, egress=ALLOW))
    t = put(own, "kind", sn)
    pool(own, t, min=1)
    filled(own, t, 1)
    restart(own, "cayd")
    filled(own, t, 1)
    for more in ({}, {"limits": {"nofile": 2048}}):  # one of the pool, and one that it cannot have
        box = create(own, "kind", **more)["id"]  # without a policy it reaches nothing: it needs no cay-egress
        assert policy(own, box)["template"]["rules"] == ALLOW["rules"]
        own.delete(box)
    refused("egress_unavailable", lambda: create(own, "kind", egress=ALLOW))
    remove(own, t)
    drop(own, sn)
    gone(own)


def test_the_policy_of_a_template_is_that_of_its_sandboxes(own):
    """Where the snapshot is not bound, the template's policy is as over an image."""
    sn = source(own)
    t = put(own, "kind", sn, egress=ALLOW)
    refused("egress_unavailable", lambda: create(own, "kind"))
    box = create(own, "kind", egress={})["id"]
    assert policy(own, box)["template"]["rules"] == ALLOW["rules"]
    own.delete(box)
    remove(own, t)
    drop(own, sn)
    gone(own)


def test_one_that_lost_its_files_is_found(own):
    """fsck names the snapshot; a create says what is lost, and a template can be created again over another."""
    sn, other = source(own), source(own, "other")
    t = put(own, "kind", sn)
    own.kill_daemon("cayd")
    table = own.state / "db/images.json"
    rows = json.loads(table.read_text())
    rows["images"] = [r for r in rows["images"] if r.get("layer") != layer(own, sn).name]
    table.write_text(json.dumps(rows))
    own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    assert [(f["kind"], f["snapshot"]) for f in own.call("GET", "/v1/fsck")["findings"]] == [("hollow", sn)]
    with pytest.raises(ApiError) as e:
        create(own, "kind")
    assert e.value.code == "not_found" and "has lost its files" in words(e.value)
    pool(own, t, min=1)
    assert own.call("POST", "/v1/fsck")["findings"][0]["repaired"] is True
    wait_for("it to go", lambda: [s["id"] for s in listed(own)] == [other], 30)
    with pytest.raises(ApiError) as e:
        create(own, "kind")
    assert e.value.code == "not_found" and "gone" in words(e.value)
    put(own, "kind", other)
    filled(own, t, 1)
    box = create(own, "kind")["id"]
    assert own.exec(box, ["cat", "me"]).text == "other\n"
    remove(own, t)
    own.delete(box)
    drop(own, other)
    gone(own)
