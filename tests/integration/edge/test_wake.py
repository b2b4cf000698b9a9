# SPDX-License-Identifier: Apache-2.0
"""A request with a key starts a stopped sandbox and is carried out; nothing else does."""
import concurrent.futures
import hashlib
import json
import os
import pathlib

import cay
import pytest
from cay import ApiError, wait_for
from conftest import BUILD
from world import World, tiny


def act(c, box, what):
    return c.call("POST", f"/v1/sandboxes/{box}/{what}", timeout_s=120)


def state(c, box):
    return c.get(box)["state"]


def stopped(me, **fields):
    box = me.create("tiny", **fields)
    me.exec(box, ["sh", "-c", "echo here >/workspace/me"])
    act(me, box, "stop")
    return box


def code(fn, *args):
    with pytest.raises(ApiError) as e:
        fn(*args)
    return e.value.code


def runs(me, box):
    return [e["state"] for e in me.call("GET", f"/v1/events?sandbox={box}")["events"]].count("starting")


def test_an_exec_and_files_start_it(node):
    me = node.door(node.new_key())
    box = stopped(me)
    assert me.exec(box, ["cat", "/workspace/me"]).text == "here\n" and state(me, box) == "running"
    act(me, box, "stop")
    assert me.open("GET", f"/v1/sandboxes/{box}/files/content?path=/workspace/me").read() == b"here\n"
    act(me, box, "stop")
    data = os.urandom(1 << 16) * 128  # its body waits outside until it runs
    reply = me.open("PUT", f"/v1/sandboxes/{box}/files/content?path=/tmp/x", data)
    assert reply.status in (200, 201), reply.read()
    assert me.exec(box, ["busybox", "sha256sum", "/tmp/x"]).text.split()[0] == hashlib.sha256(data).hexdigest()
    act(me, box, "stop")
    assert code(me.call, "POST", f"/v1/sandboxes/{box}/shells", {}) == "unsupported"  # says PID 1: there is no bash
    assert runs(me, box) == 4
    me.delete(box)


def test_the_audit_log_names_the_key(node):
    key = node.new_key()
    me = node.door(key)
    box = stopped(me)
    me.exec(box, ["true"])
    act(me, box, "stop")
    act(me, box, "start")
    rows = [r for r in node.call("GET", "/v1/audit?limit=1000")["records"] if r.get("target") == box and r["op"] == "sandbox.start"]
    assert [(r["outcome"], r.get("detail")) for r in rows] == [("ok", "by=exec.run"), ("ok", None)], rows
    assert len({r["key"] for r in rows}) == 1  # sandbox.start by the same key says whose it is
    me.delete(box)


def test_many_requests_are_one_start(own):
    """64 wait, and not one more; each that waited is carried out once."""
    own.image_import("slow", tiny([cay.directory("docker-entrypoint.d"),
                                   cay.file("docker-entrypoint.d/10-wait.sh", b"#!/bin/sh\ntest ! -e /wait || sleep 6\n", 0o755)]))
    me = own.door(own.new_key())
    box = me.create("slow")
    me.exec(box, ["touch", "/wait"], user="root")
    act(me, box, "stop")

    def one(i):
        try:
            return me.exec(box, ["sh", "-c", f"echo {i} >>/workspace/ran"]).exit_code
        except ApiError as e:
            return e.code

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        parts = [pool.submit(one, i) for i in range(100)]
        wait_for("those that are too many", lambda: sum(p.done() for p in parts) == 36, 30)
        assert state(me, box) == "starting"
        said = [p.result() for p in parts]
    assert (said.count(0), said.count("overloaded")) == (64, 36), said
    assert runs(me, box) == 1
    ran = sorted(map(int, me.exec(box, ["cat", "/workspace/ran"]).text.split()))
    assert ran == [i for i in range(100) if said[i] == 0]
    me.delete(box)


def test_who_does_not_start_it(node):
    me = node.door(node.new_key())
    box, never = stopped(me), stopped(me, wake="never")
    token = node.door(me.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"])
    reads = node.door(node.new_key("read"))
    assert code(token.exec, box, ["true"]) == "wrong_state"
    for path in ("files/content?path=/workspace/me", "execs", "processes"):
        assert code(reads.call, "GET", f"/v1/sandboxes/{box}/{path}") == "wrong_state"
    for path in ("execs", "shells", "processes", "services"):  # nothing runs: that is the answer
        assert code(me.call, "GET", f"/v1/sandboxes/{box}/{path}") == "wrong_state"
    assert me.get(never)["wake"] == "never" and code(me.exec, never, ["true"]) == "wrong_state"
    for one in (box, never):
        assert state(me, one) == "stopped" and runs(me, one) == 0
        me.delete(one)


def test_a_request_while_it_stops(node):
    """What comes as it stops waits for the stop, and starts it again."""
    me = node.door(node.new_key())
    box = stopped(me)
    for i in range(5):
        assert me.exec(box, ["cat", "/workspace/me"]).text == "here\n"
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            stop = pool.submit(act, me, box, "stop")
            others = [pool.submit(me.exec, box, ["cat", "/workspace/me"]) for _ in range(3)]
            for other in others:
                try:
                    assert other.result().exit_code in (0, 137, None)
                except (ApiError, OSError, cay.http.client.HTTPException) as e:  # it was inside when the stop came
                    assert not isinstance(e, ApiError) or e.code in ("unavailable", "wrong_state", "sandbox_misbehaved", "sandbox_gone"), e
            assert stop.result()["state"] == "stopped"  # though it runs again already
        wait_for("it to settle", lambda: state(me, box) in ("running", "stopped"), 30)
    me.delete(box)


def test_a_start_that_fails_is_the_answer(own):
    own.image_import("script", tiny([cay.directory("docker-entrypoint.d"),
                                     cay.file("docker-entrypoint.d/10-check.sh", b"#!/bin/sh\ntest ! -e /bad || { echo spoiled; exit 3; }\n", 0o755)]))
    me = own.door(own.new_key())
    box = me.create("script")
    me.exec(box, ["touch", "/bad"], user="root")
    act(me, box, "stop")
    with pytest.raises(ApiError, match="spoiled"):
        me.exec(box, ["true"])
    said = []
    while not said or len(said) < 6 and "later" not in said[-1]:  # a client that polls does not start it all the time: the pause grows
        wait_for("it to be stopped", lambda: state(me, box) == "stopped", 30)
        with pytest.raises(ApiError) as e:
            me.exec(box, ["true"])
        said.append(json.loads(e.value.body)["error"]["message"])
    assert "the next try is later" in said[-1] and code(act, me, box, "start") == "start_failed", said
    wait_for("it to be stopped", lambda: state(me, box) == "stopped", 30)
    me.delete(box)


def test_a_wake_needs_room(own):
    tn = own.call("POST", "/v1/tenants", {"name": "narrow"})["id"]
    own.call("POST", f"/v1/tenants/{tn}", {"quotas": {"memory_bytes": 300 << 20}})
    me, limits = own.door(own.new_key("write", tn)), {"memory_bytes": 200 << 20}
    box = stopped(me, limits=limits)
    other = me.create("tiny", limits=limits)
    assert code(me.exec, box, ["true"]) == "limit_exceeded" and state(me, box) == "stopped"
    me.delete(other)
    assert me.exec(box, ["true"]).exit_code == 0
    me.delete(box)


NOBODY = (401, 403, 404, 429)  # whoever was refused often gets the last one instead


def opens(who, box):
    reply = who.open("GET", f"/v1/sandboxes/{box}/files/content?path=/workspace/me")
    reply.read()
    return reply.status


def test_what_was_taken_back_at_rest_wakes_nobody(node):
    """A key, a token and a link that were revoked while it rests, or dozes, do not open it afterwards, either (SNP-13)."""
    me = node.door(node.new_key())
    for rests in (True, False):
        theirs = node.call("POST", "/v1/keys", {"tenant": "tn" + "0" * 24, "name": "theirs", "scope": "write"})
        other = node.door(theirs["secret"])
        box = me.create("tiny", **({} if rests else {"pause_after_ms": 1000}))
        me.exec(box, ["sh", "-c", "echo here >/workspace/me"])
        token = me.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
        link = me.call("POST", f"/v1/sandboxes/{box}/files/link", {"path": "/workspace/me"})["url"]
        by_token, by_link = node.door(token), node.door("")
        assert opens(by_token, box) == opens(other, box) == 200
        if rests:
            act(me, box, "stop")
        else:
            wait_for("it to doze", lambda: node.get(box).get("dozing"), 20)
        node.call("POST", f"/v1/keys/{theirs['key']['id']}/revoke")
        for gone in (token, link):
            me.call("POST", f"/v1/sandboxes/{box}/revoke", {"link": gone})
        before = state(me, box)

        def refused(box=box, link=link, by_token=by_token, by_link=by_link, other=other):
            reply = by_link.open("GET", link.partition(f":{node.port}")[2])
            reply.read()
            return [reply.status, opens(by_token, box), opens(other, box)]

        assert all(status in NOBODY for status in refused()) and state(me, box) == before
        assert opens(me, box) == 200 and state(me, box) == "running"  # the first instruction after the wake
        assert all(status in NOBODY for status in refused())
        me.delete(box)


def test_a_token_of_the_source_opens_no_copy(node):
    """A fork, a sandbox of a snapshot: nothing that opens the source opens them (RED-SNP-01)."""
    me = node.door(node.new_key())
    box = me.create("tiny")
    me.exec(box, ["sh", "-c", "echo here >/workspace/me"])
    token = me.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
    link = me.call("POST", f"/v1/sandboxes/{box}/files/link", {"path": "/workspace/me"})["url"]
    holder, path = node.door(token), link.partition(f":{node.port}")[2]
    reply = me.open("POST", f"/v1/sandboxes/{box}/fork", b'{"count": 3}', {"Content-Type": "application/json"})
    copies = [json.loads(line[6:])["sandbox"]["id"] for line in reply.read().splitlines() if line.startswith(b"data: ") and b'"index"' in line]
    copies.append(me.create(None, snapshot=me.call("POST", f"/v1/sandboxes/{box}/snapshots", {})["id"]))
    assert len(copies) == 4 and opens(holder, box) == 200
    for copy in copies:
        assert opens(me, copy) == 200 and opens(holder, copy) in NOBODY
        assert code(holder.exec, copy, ["true"]) == code(holder.exec, "sb" + "0" * 24, ["true"])
        assert code(act, holder, copy, "stop") in ("permission_denied", "not_found")
        assert box in path
        reply = node.door("").open("GET", path.replace(box, copy))
        assert reply.status in NOBODY, reply.read()
        reply.read()
    assert opens(holder, box) == 200
    for one in (box, *copies):
        me.delete(one)


@pytest.mark.alone
def test_ten_years_at_rest_by_the_wall_clock():
    """The clock jumps while they rest, also while cayd is away: nothing is removed, a request wakes each (SNP-14)."""
    with World(BUILD) as w:
        wall = w.run / "wall"
        wall.write_text("0")
        wall.chmod(0o644)
        w.env |= {"LD_PRELOAD": str(pathlib.Path(BUILD, "tests/integration/wall.so").resolve()), "CAY_TEST_WALL": str(wall)}
        w.restart_cayd()
        decade = 10 * 366 * 86400
        me = w.door(w.new_key())
        for jump in (decade, -decade):
            wall.write_text("0")
            w.restart_cayd()
            box, dozes = stopped(me, ttl_ms=3600000, rest_ttl_ms=86400000), me.create("tiny", ttl_ms=3600000, pause_after_ms=1000)
            wait_for("it to doze", lambda: w.get(dozes).get("dozing"), 20)
            wall.write_text(str(jump))
            assert abs(int(w.get(w.create("tiny"))["created_at"][:4]) - int(w.get(box)["created_at"][:4])) in (10, 11)
            cay.let_pass(2.5)  # longer than between two runs of each sweep
            w.restart_cayd()
            assert state(w, box) == "stopped" and w.get(dozes)["dozing"]
            assert me.exec(box, ["cat", "/workspace/me"]).text == "here\n" and state(w, box) == "running"
            assert me.exec(dozes, ["true"]).exit_code == 0
            for one in (box, dozes):
                w.delete(one)
