# SPDX-License-Identifier: Apache-2.0
"""Many creates in one request: each outcome once, no sandbox twice, whatever is refused, cut off or killed meanwhile."""
import json
import os
import signal
import socket
import subprocess

import cay
import pytest
from cay import let_pass, wait_for
from conftest import BUILD, tiny
from test_control import nothing_is_left, refused
from test_pool import filled, pool
from test_quota import new_tenant
from test_templates import put
from test_tenants import actor

PATH = "/v1/batches"
AT_ONCE = 16  # how many of a request are under way, by docs/evals.md


def outcomes(reply):
    return [json.loads(line[6:]) for line in reply.read().decode().splitlines() if line.startswith("data: ")]


def many(c, count, key=None, **sandbox):
    reply = c.open("POST", PATH, {"count": count, "sandbox": {"image": "tiny", **sandbox}}, {"Idempotency-Key": key} if key else {}, 120)
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/event-stream", reply.read()
    return outcomes(reply)


def ids(rows):
    return [r["sandbox"]["id"] for r in sorted(rows, key=lambda r: r["index"]) if "sandbox" in r]


def live(c, label):
    return {s["id"] for s in c.call("GET", f"/v1/sandboxes?state=live&limit=200&label=run%3D{label}")["sandboxes"]}


def test_each_has_its_outcome(own):
    rows = many(own, 40, labels={"run": "a"}, wait=True)
    assert sorted(r["index"] for r in rows) == list(range(40)) and len(set(ids(rows))) == 40
    assert {r["sandbox"]["state"] for r in rows} == {"running"} and live(own, "a") == set(ids(rows))
    recorded = [r["target"] for r in own.call("GET", "/v1/audit?limit=200")["records"] if r["op"] == "sandbox.create_many" and "target" in r]
    assert sorted(recorded) == sorted(ids(rows)), "the audit log has each of them"
    rows = many(own, 3, labels={"run": "b"}, wait=False)
    assert len(set(ids(rows))) == 3 and {r["sandbox"]["state"] for r in rows} <= {"pending", "running"}
    for run, n in (("a", 40), ("b", 3)):
        assert len(own.call("DELETE", f"/v1/sandboxes?label=run%3D{run}&limit=200")["sandboxes"]) == n
    wait_for("all to end", lambda: not own.call("GET", "/v1/sandboxes?state=live")["sandboxes"], 60)
    nothing_is_left(own)


def test_repeated_it_has_the_same_sandboxes(own):
    first = ids(many(own, 6, key="k", labels={"run": "a"}))
    assert ids(many(own, 6, key="k", labels={"run": "a"})) == first
    more = ids(many(own, 9, key="k", labels={"run": "a"}))
    assert more[:6] == first and len(set(more)) == 9 and live(own, "a") == set(more)
    rows = many(own, 2, key="k", labels={"run": "other"})
    assert [r["error"]["code"] for r in rows] == ["idempotency_key_reused"] * 2


def test_what_a_quota_refuses_is_an_outcome():
    with cay.Cay(BUILD, env={"CAY_LIMITS_TENANT": "5"}) as c:
        c.image_import("tiny", tiny())
        rows = many(c, 8, key="k")
        assert len(ids(rows)) == 5
        assert {r["index"]: r["sandbox"]["id"] for r in many(c, 8, key="k") if "sandbox" in r} == \
            {r["index"]: r["sandbox"]["id"] for r in rows if "sandbox" in r}, "repeated with the quota used up"
        errors = [r["error"] for r in rows if "error" in r]
        assert [(e["code"], e["blame"]) for e in errors] == [("limit_exceeded", "limit")] * 3 and all(e["hint"] and e["request_id"] for e in errors)


def test_a_rate_is_waited_for(own):
    """A client would have to repeat its requests; here they are."""
    _, who = new_tenant(own, quotas={"creates_per_s": 4})
    rows = many(who, 12)
    assert len(set(ids(rows))) == 12


def test_warm_ones_are_taken(own):
    kind = put(own, "warm", image="tiny")
    pool(own, kind, min=4)
    filled(own, kind, 4)
    reply = own.open("POST", PATH, {"count": 6, "sandbox": {"template": "warm"}}, {}, 120)
    rows = outcomes(reply)
    assert len(set(ids(rows))) == 6 and {r["sandbox"]["template"] for r in rows} == {"warm"}


@pytest.mark.parametrize("body, field", [
    ({"count": 0, "sandbox": {"image": "tiny"}}, "count"), ({"count": 1001, "sandbox": {"image": "tiny"}}, "count"),
    ({"sandbox": {"image": "tiny"}}, "count"), ({"count": 2}, "sandbox"), ({"count": 2, "sandbox": {"image": "tiny", "name": "a"}}, "sandbox.name"),
    ({"count": 2, "sandbox": {}}, "image"), ({"count": 2, "sandbox": {"image": "tiny"}, "name": "a"}, "name")], ids=str)
def test_what_no_create_can_be_is_refused_at_once(daemon, body, field):
    assert refused("invalid_argument", daemon.call, "POST", PATH, body)["field"] == field


def test_what_is_missing_is_refused_at_once(daemon):
    refused("not_found", daemon.call, "POST", PATH, {"count": 2, "sandbox": {"image": "absent"}})
    reply = daemon.open("POST", PATH, {"count": 2, "sandbox": {"image": "tiny"}}, {"Idempotency-Key": "k" * 60})
    assert reply.status == 400 and b"Idempotency-Key" in reply.read()


def test_a_group_is_the_credentials_own(own):
    tenant = own.call("POST", "/v1/tenants", {"name": "grouped"})["id"]
    made = own.call("POST", "/v1/keys", {"tenant": tenant, "name": "bound", "scope": "write", "group": "mine"})
    who = own.edge(actor("write", tenant, made["key"]["id"]) + " mine", made["secret"])
    assert {r["sandbox"]["group"] for r in many(who, 2)} == {"mine"}
    refused("permission_denied", who.call, "POST", PATH, {"count": 2, "sandbox": {"image": "tiny", "group": "other"}})


def ask_and_leave(c, body):
    """A request of which the reply's head was read, and nothing else."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(str(c.socket))
    text = json.dumps(body).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (PATH.encode(), len(text)) + text)
    assert s.recv(15).startswith(b"HTTP/1.1 200")
    return s


def test_a_client_that_leaves_stops_what_has_not_begun(own):
    own.daemons["cay-keeper"].send_signal(signal.SIGSTOP)
    gone = ask_and_leave(own, {"count": 200, "sandbox": {"image": "tiny", "labels": {"run": "a"}}})
    wait_for("as many as can be under way", lambda: len(live(own, "a")) >= AT_ONCE, 30)
    gone.close()
    let_pass(0.5)
    own.daemons["cay-keeper"].send_signal(signal.SIGCONT)
    wait_for("those to run", lambda: all(own.get(b)["state"] == "running" for b in live(own, "a")), 60)
    assert len(live(own, "a")) == AT_ONCE
    for box in live(own, "a"):
        own.delete(box)
    nothing_is_left(own)


def test_a_key_that_is_revoked_creates_no_more(own):
    tenant = own.call("POST", "/v1/tenants", {"name": "revoked"})["id"]
    made = own.call("POST", "/v1/keys", {"tenant": tenant, "name": "short", "scope": "write"})
    who = own.edge(actor("write", tenant, made["key"]["id"]), made["secret"])
    own.daemons["cay-keeper"].send_signal(signal.SIGSTOP)
    reply = who.open("POST", PATH, {"count": 60, "sandbox": {"image": "tiny"}}, {}, 120)
    wait_for("as many as can be under way", lambda: len(own.call("GET", f"/v1/sandboxes?tenant={tenant}")["sandboxes"]) >= AT_ONCE, 30)
    own.call("POST", f"/v1/keys/{made['key']['id']}/revoke")
    own.daemons["cay-keeper"].send_signal(signal.SIGCONT)
    rows = outcomes(reply)
    assert len(rows) == 60 and len(ids(rows)) == AT_ONCE
    assert {r["error"]["code"] for r in rows if "error" in r} == {"unauthenticated"}


def test_cut_off_by_a_crash_it_is_repeated_without_doubles(own):
    for at in (5, 20, 35):
        key, run, body = f"k{at}", f"r{at}", {"count": 50, "sandbox": {"image": "tiny", "labels": {"run": f"r{at}"}}}
        reply = own.open("POST", PATH, body, {"Idempotency-Key": key}, 60)
        seen = [json.loads(reply.readline()[6:]) for n in range(2 * at) if n % 2 == 0 or reply.readline() is None]
        own.kill_daemon("cayd")
        own.start_cayd()
        rows = outcomes(own.open("POST", PATH, body, {"Idempotency-Key": key}, 120))
        assert len(set(ids(rows))) == 50 and not [r for r in rows if "error" in r]
        by_index = {r["index"]: r["sandbox"]["id"] for r in rows}
        assert all(by_index[r["index"]] == r["sandbox"]["id"] for r in seen), "an outcome that was sent stays true"
        wait_for("no other", lambda: live(own, run) == set(by_index.values()), 30)
        own.call("DELETE", f"/v1/sandboxes?label=run%3D{run}&limit=200")


def test_from_the_command_line(own):
    def run(*words):
        return subprocess.run([str(own.programs["cay"]), "create", *words, "tiny"], capture_output=True, text=True, timeout=120,
                              env={**os.environ, **own.env, "CAY_SOCKET": str(own.socket)})
    done = run("--count", "7", "--label", "run=a")
    assert done.returncode == 0 and set(done.stdout.split()) == live(own, "a") and len(live(own, "a")) == 7, done
    done = run("--json", "--count", "2", "--key", "k")
    assert [sorted(json.loads(line)) for line in done.stdout.splitlines()] == [["index", "sandbox"]] * 2, done
    done = run("--count", "2", "--name", "one")
    assert done.returncode == 2 and "one sandbox" in done.stderr and not done.stdout
    assert "out of range" in run("--count", "1001").stderr
