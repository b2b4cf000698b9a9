# SPDX-License-Identifier: Apache-2.0
"""A request with a key starts a stopped sandbox and is carried out; nothing else does."""
import concurrent.futures
import hashlib
import json
import os

import cay
import pytest
from cay import ApiError, wait_for
from world import tiny


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
