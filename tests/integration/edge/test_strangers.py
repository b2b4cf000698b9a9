# SPDX-License-Identifier: Apache-2.0
"""Requests without a credential, or with a wrong one, take nothing from those with a good one."""
import collections
import json
import os
import signal
import subprocess
import time

import world
from cay import wait_for
from test_edge import issuer

BURST = 100  # anonymous requests of one address at once


def flood(door, path, n):
    """Over one connection: status to count."""
    c, seen = door.connection(30), collections.Counter()
    for _ in range(n):
        c.request("GET", path, headers=door.says())
        reply = c.getresponse()
        reply.read()
        seen[reply.status] += 1
    c.close()
    return seen


def test_a_balancer_is_answered_whatever_its_neighbours_request(own):
    stranger = own.door("")
    seen = flood(stranger, "/docs", 3 * BURST)
    assert set(seen) == {200, 429} and seen[429] > BURST / 2, seen
    for path in ("/health", "/v1/health"):
        assert flood(stranger, path, 3 * BURST) == {200: 3 * BURST}
    assert flood(own.door("nonsense"), "/health", 30) == {200: 30}


def test_health_tells_a_stranger_nothing(own):
    for door in (own.door(""), own.door("nonsense")):
        assert door.call("GET", "/health") == {"status": "ok"}
    assert own.door(own.new_key("read")).call("GET", "/health") == own.call("GET", "/health")
    assert {"version", "disk"} <= set(own.call("GET", "/health"))


def test_health_is_that_of_the_node(own):
    """503 while control is gone, and while it hangs."""
    stranger = own.door("")

    def status():
        reply = stranger.open("GET", "/health")
        text = json.loads(reply.read())
        assert reply.status == 200 or text["error"]["code"] == "unavailable"
        return reply.status
    assert status() == 200
    own.daemons["cayd"].send_signal(signal.SIGSTOP)
    wait_for("the edge to notice", lambda: status() == 503, 7)  # before it would give the connection up
    own.daemons["cayd"].send_signal(signal.SIGCONT)
    wait_for("control", lambda: status() == 200, 10)
    own.kill_daemon("cayd")
    wait_for("the edge to notice", lambda: status() == 503, 10)
    own.start_cayd()
    wait_for("control", lambda: status() == 200, 10)


def test_a_good_jwt_passes_while_others_fail(tmp_path):
    """At the address of a proxy, where all come from: one seen before, and a new one."""
    with issuer(tmp_path, {"CAY_EDGE_FAILURES": "10"}) as (w, token):
        known = w.door(token())
        assert known.open("GET", "/v1/sandboxes").status == 200
        begin = time.monotonic()
        bad = [flood(w.door(token(key=os.urandom(32))), "/v1/sandboxes", 1) + flood(w.door("x.y.z"), "/v1/sandboxes", 1) for _ in range(15)]
        seen = sum(bad, collections.Counter())
        assert set(seen) == {401, 429} and seen[401] <= 11 + (time.monotonic() - begin) / 6, seen
        assert flood(known, "/v1/sandboxes", 5) == {200: 5}
        assert flood(w.door(token(sub="another")), "/v1/sandboxes", 5) == {200: 5}
        assert w.door().open("GET", "/v1/sandboxes").status == 200


def test_a_known_jwt_is_over_by_its_time(tmp_path):
    """What was verified once is not good for ever: a minute of skew after `exp`."""
    with issuer(tmp_path) as (w, token):
        soon = w.door(token(exp=int(time.time()) - 57))
        assert soon.open("GET", "/v1/sandboxes").status == 200
        assert soon.open("GET", "/v1/sandboxes").status == 200
        wait_for("its end", lambda: soon.open("GET", "/v1/sandboxes").status == 401, 10)
        later = w.door(token(tenant="tn" + "0" * 23 + "1"))
        assert {later.open("GET", "/v1/sandboxes").status for _ in range(3)} == {401}, "control knows no such tenant"


def test_jwts_need_an_issuer_and_an_audience(own, tmp_path):
    keys = tmp_path / "jwks.json"
    keys.write_text("{}")
    both = {"CAY_JWT_KEYS": str(keys), "CAY_JWT_ISSUER": "urn:issuer", "CAY_JWT_AUDIENCE": "cay"}
    for missing in ("CAY_JWT_ISSUER", "CAY_JWT_AUDIENCE"):
        for program in ("edge", "cayd"):
            p = subprocess.run([own.programs[program], "--check"], env={**own.env, **both, missing: ""}, capture_output=True, text=True, timeout=60)
            assert p.returncode and "jwt.issuer and jwt.audience" in p.stderr, (program, p.stderr)
        p = subprocess.run([own.programs["edge"]], env={**own.env, **both, missing: ""}, user=world.EDGE_UID, group=world.EDGE_UID,
                           extra_groups=[], capture_output=True, text=True, timeout=60)
        assert p.returncode and "jwt.issuer and jwt.audience" in p.stderr
    p = subprocess.run([own.programs["edge"], "--check"], env={**own.env, **both}, capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stderr
