# SPDX-License-Identifier: Apache-2.0
"""What becomes of a sandbox at the end of its time, idle, and at rest."""
import datetime
import time

import cay
from cay import wait_for
from test_control import refused, with_config
from test_life import clean, ended, restart
from test_stop import act, reboot, until
from test_tenants import DEFAULT, asks

SLEEP = ["sleep", "1000"]


def state(c, box):
    return c.get(box)["state"]


def stops(c, box, within=20):
    wait_for("it to be stopped", lambda: state(c, box) == "stopped", within)
    assert not c.processes(box)


def stays(c, box, seconds):
    """It runs all that time."""
    for _ in range(int(seconds * 5)):
        assert state(c, box) == "running"
        cay.let_pass(0.2)


def test_at_the_end_of_its_time_it_stops(own):
    box = own.create("tiny", ttl_ms=2000, on_expire="stop")
    own.exec(box, ["sh", "-c", "echo here >me"])
    assert own.get(box)["on_expire"] == "stop"
    stops(own, box)
    restart(own, "cayd")
    started = act(own, box, "start")
    left = until(started) - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(seconds=0) < left <= datetime.timedelta(seconds=2), left  # all of it again
    assert own.exec(box, ["cat", "me"]).text == "here\n"
    stops(own, box)
    paused = own.create("tiny", ttl_ms=1500, on_expire="stop")
    own.call("POST", f"/v1/sandboxes/{paused}/pause")
    stops(own, paused)
    for one in (box, paused):
        own.delete(one)
    clean(own)


def test_who_is_idle_stops_and_who_works_does_not(own):
    """A command without a client is work; a service, an entrypoint and what a command left behind are not."""
    idle = own.create("tiny", stop_after_ms=1000, entrypoint=SLEEP, services=[{"name": "s", "command": "sleep 1000"}])
    works, by_requests = own.create("tiny", stop_after_ms=1000), own.create("tiny", stop_after_ms=1000, idle="requests")
    assert own.get(idle)["idle"] == "work" and own.get(idle)["stop_after_ms"] == 1000
    own.exec(idle, ["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
    job = own.exec_detached(works, SLEEP)
    own.exec_detached(by_requests, SLEEP)
    stops(own, idle)
    stops(own, by_requests)
    stays(own, works, 2.5)
    restart(own, "cayd")
    stays(own, works, 2.5)
    own.signal(works, job)
    stops(own, works)
    for box in (idle, works, by_requests):
        own.delete(box)
    clean(own)


def test_work_also_counts_for_the_idle_timeout(own):
    works, idle = own.create("tiny", idle_ms=1000, idle="work"), own.create("tiny", idle_ms=1000, idle="work")
    job = own.exec_detached(works, SLEEP)
    assert ended(own, idle)["end"]["reason"] == "idle"
    stays(own, works, 1)
    own.signal(works, job)
    assert ended(own, works)["end"]["reason"] == "idle"
    clean(own)


def hold(c, box, ms):
    return c.call("POST", f"/v1/sandboxes/{box}/hold", {"for_ms": ms})


def test_a_hold_keeps_it_awake(own):
    box = own.create("tiny", stop_after_ms=1000)
    assert "held_until" in hold(own, box, 600000)
    own.exec(box, ["true"])  # which ends no hold
    stays(own, box, 2)
    restart(own, "cayd")
    assert "held_until" in own.get(box)
    stays(own, box, 2)
    assert own.get(box)["last_activity_at"] <= datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.999Z")
    assert "held_until" not in hold(own, box, 0)
    stops(own, box)
    refused("wrong_state", hold, own, box, 1000)
    short = own.create("tiny", ttl_ms=2000)
    hold(own, short, 600000)  # its time to live counts all the same
    assert ended(own, short)["end"]["reason"] == "ttl"
    own.delete(box)


def test_what_nobody_starts_ends(own):
    box, other = own.create("tiny", rest_ttl_ms=3000), own.create("tiny", rest_ttl_ms=600000)
    for one in (box, other):
        act(own, one, "stop")
    cay.let_pass(1)
    act(own, box, "start")
    act(own, box, "stop")  # it rests anew
    restart(own, "cayd")
    assert state(own, box) == "stopped"
    end = ended(own, box)["end"]
    assert end["reason"] == "idle" and "rest_ttl_ms" in end["detail"], end
    assert not (own.state / "boxes" / box).exists()
    reboot(own)
    assert state(own, other) == "stopped"
    own.delete(other)
    clean(own)


def test_the_node_bounds_the_time_at_rest(own):
    with_config(own).write_text("[limits]\nrest_ttl = 2s\n")
    restart(own, "cayd")
    plain, long, short = own.create("tiny"), own.create("tiny", rest_ttl_ms=600000), own.create("tiny", rest_ttl_ms=1000)
    assert [own.get(box)["rest_ttl_ms"] for box in (plain, long, short)] == [2000, 2000, 1000]
    act(own, plain, "stop")
    assert ended(own, plain)["end"]["reason"] == "idle"
    for box in (long, short):
        own.delete(box)


def test_without_room_among_the_stopped(own):
    """It runs on when it is idle; when its time is over it stops all the same: its files are not for others to take."""
    with_config(own).write_text("[limits]\nstopped = 1\n")
    restart(own, "cayd")
    tn = own.call("POST", "/v1/tenants", {"name": "many"})["id"]
    me = asks(own, "write", tn)
    first, idle, over = me.create("tiny"), me.create("tiny", stop_after_ms=1000), me.create("tiny", ttl_ms=2000, on_expire="stop")
    act(me, first, "stop")
    wait_for("its time to be over", lambda: state(me, over) == "stopped", 20)
    stays(me, idle, 4)
    me.delete(first)
    me.delete(over)
    wait_for("it to be stopped", lambda: state(me, idle) == "stopped", 20)
    me.delete(idle)


def test_what_cannot_be_stopped_is_refused_at_once(daemon):
    for fields in ({"on_expire": "stop"}, {"stop_after_ms": 1000}):
        refused("unsupported", daemon.create, "tiny", storage="memory", **fields)
    assert refused("invalid_argument", daemon.create, "tiny", idle_ms=1000, stop_after_ms=1000)["field"] == "stop_after_ms"
    made = daemon.call("POST", "/v1/templates", {"name": "idler", "defaults": {"image": "tiny", "idle_ms": 600000, "on_expire": "stop"}})
    box = daemon.call("POST", "/v1/sandboxes", {"template": "idler", "stop_after_ms": 600000})  # in place of the template's
    assert (box["stop_after_ms"], box["on_expire"], box["idle"]) == (600000, "stop", "work")
    daemon.delete(box["id"])
    daemon.call("DELETE", f"/v1/templates/{made['id']}")


def test_extend_while_it_is_stopped(daemon):
    """What is given is what is left when it starts."""
    box = daemon.create("tiny", ttl_ms=60000)
    act(daemon, box, "stop")
    assert "expires_at" not in daemon.call("POST", f"/v1/sandboxes/{box}/extend", {"ttl_ms": 3600000})
    refused("wrong_state", daemon.call, "POST", f"/v1/sandboxes/{box}/extend", {"lease_ms": 60000})
    before = time.time()
    left = datetime.datetime.fromisoformat(act(daemon, box, "start")["expires_at"]).timestamp() - before
    assert 3590 < left < 3620, left
    daemon.delete(box)


def test_who_may_hold(daemon):
    """A token of the sandbox may: it could as well send requests."""
    box = daemon.create("tiny")
    assert "held_until" in hold(asks(daemon, "write", DEFAULT, sandbox=box), box, 1000)
    refused("permission_denied", hold, asks(daemon, "read", DEFAULT), box, 1000)
    daemon.delete(box)
