# SPDX-License-Identifier: Apache-2.0
"""Pools: sandboxes made ahead, that become whose they are when they are taken."""
import concurrent.futures
import contextlib
import os
import pathlib
import signal

import cay
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from prometheus import parse
from test_control import nothing_is_left, refused, residue
from test_failed import children
from test_life import fsck, linked, post
from test_limits import in_kernel
from test_templates import put

MIB = 1 << 20


def pool(c, kind, **conf):
    return c.call("POST", f"/v1/templates/{kind['id']}/pool", conf)


def now(c, kind):
    return c.call("GET", f"/v1/templates/{kind['id']}")["pool_now"]


def filled(c, kind, n):
    def full():
        there = now(c, kind)
        return (there["warm"], there["starting"]) == (n, 0)
    wait_for(f"{n} warm ones", full, 60)


@pytest.fixture
def kind(daemon):
    """A template with a pool of its own name, and nothing of it afterwards."""
    t = put(daemon, f"kind{os.urandom(3).hex()}", env={"A": "one", "B": "two"}, limits={"pids": 40}, labels={"l": "x"})
    yield t
    for b in daemon.call("GET", "/v1/sandboxes?state=live")["sandboxes"]:
        if b.get("template") == t["name"]:
            daemon.delete(b["id"])
    daemon.call("DELETE", f"/v1/templates/{t['id']}")
    wait_for("the pool to drain", lambda: not residue(daemon)["boxes"], 60)


def metric(c, name, **labels):
    reply = c.open("GET", "/metrics")
    return parse(reply.read().decode())[name, tuple(sorted(labels.items()))]


def test_everything_is_bound_late(daemon, kind):
    pool(daemon, kind, min=1, max=1)
    filled(daemon, kind, 1)
    wait_for("those before it to go", lambda: len(residue(daemon)["boxes"]) == 1
             and not daemon.call("GET", "/v1/sandboxes?state=live")["sandboxes"], 30)
    [warm] = residue(daemon)["boxes"]
    refused("not_found", daemon.get, warm)
    pid = daemon.pid_1(warm)
    box = daemon.call("POST", "/v1/sandboxes", {
        "template": kind["name"], "name": "mine", "group": "g", "labels": {"k": "v"}, "env": {"B": "3", "C": "4"},
        "limits": {"memory_bytes": "96Mi", "cpu_milli": 700, "pids": 77, "output_bytes": MIB}, "ttl_ms": 600000,
        "entrypoint": ["sh", "-c", "echo $A$B$C; sleep 100"]})
    assert box["id"] == warm and daemon.pid_1(warm) == pid  # it was there already
    assert (box["state"], box["name"], box["group"], box["labels"]) == ("running", "mine", "g", {"k": "v", "l": "x"})
    assert box["created_at"] <= box["last_transition_at"] < box["expires_at"]
    assert box["limits"]["memory_bytes"] == 96 * MIB and box["limits"]["pids"] == 77
    assert in_kernel(daemon, warm, "pids.max") == "77"
    assert in_kernel(daemon, warm, "memory.max", "memory.limit_in_bytes") == str(96 * MIB)
    env = daemon.exec(warm, ["env"]).text.splitlines()
    assert {"A=one", "B=3", "C=4", "FROM=image"} <= set(env)
    wait_for("its entrypoint", lambda: daemon.get(warm).get("entry"), 20)
    wait_for("its word", lambda: daemon.exec_output(warm, daemon.get(warm)["entry"]) == b"one34\n", 20)
    assert daemon.call("GET", f"/v1/sandboxes/{warm}/usage")["processes"] >= 2  # its cgroup is where it was
    wait_for("its event", lambda: daemon.call("GET", f"/v1/events?sandbox={warm}")["events"], 30)  # told when it is durable
    states = [e["state"] for e in daemon.call("GET", f"/v1/events?sandbox={warm}")["events"]]
    assert states == ["running"]
    assert now(daemon, kind) == {"warm": 0, "starting": 0, "in_use": 1, "claimed": 1, "failed": 0}


def test_a_claim_is_one_commit(daemon, kind):
    pool(daemon, kind, min=3, max=3)
    filled(daemon, kind, 3)
    before = steady(lambda: metric(daemon, "cay_journal_commits_total"), 50)  # the last one's may be on its way
    for i in range(3):
        daemon.call("POST", "/v1/sandboxes", {"template": kind["name"], "name": f"one{i}", "env": {"A": str(i)},
                                              "limits": {"pids": 50 + i}, "labels": {"i": str(i)}})
        assert metric(daemon, "cay_journal_commits_total") == before + 1 + i


def steady(look, times=20):
    """What look() says, once it has said the same for a while."""
    seen = []

    def same():
        seen.append(look())
        return len(seen) >= times and all(s == seen[-1] for s in seen[-times:])
    wait_for("nothing to change", same, 60)
    return seen[-1]


def spare(c):
    """The keeper's worker that waits for orders, when nobody else is at work."""
    found = []
    for p in children(c.pids()["cay-keeper"]):
        with contextlib.suppress(OSError):  # one that ends meanwhile
            found += [p] if pathlib.Path(f"/proc/{p}/comm").read_text() == "cay-keeper\n" else []
    return found[0] if len(found) == 1 else None


def test_only_what_was_inside_a_sandbox_is_not_used_again(own):
    """A claim waits for the keeper: changing memory takes no fork.  A worker that has shown
    a sandbox its CPUs is in that sandbox's mount namespace, and ends."""
    t = put(own, "kind", limits={"pids": 40, "cpu_milli": 1000})
    pool(own, t, min=4, max=4)
    filled(own, t, 4)
    wait_for("the workers to end", lambda: spare(own), 20)
    waits = steady(lambda: spare(own))
    assert waits
    for want in ({"memory_bytes": 96 * MIB}, {"pids": 41}, {"memory_bytes": 97 * MIB, "pids": 42}):
        box = own.call("POST", "/v1/sandboxes", {"template": "kind", "limits": want})["id"]
        wait_for("the worker to come back", lambda: spare(own), 20)
        assert steady(lambda: spare(own)) == waits
        assert in_kernel(own, box, "pids.max") == str(want.get("pids", 40))
        assert in_kernel(own, box, "cpu.cfs_quota_us", "cpu.max") == "100000"
        if "memory_bytes" in want:
            assert in_kernel(own, box, "memory.max", "memory.limit_in_bytes") == str(want["memory_bytes"])
    box = own.call("POST", "/v1/sandboxes", {"template": "kind", "limits": {"cpu_milli": 500}})["id"]
    assert in_kernel(own, box, "cpu.cfs_quota_us", "cpu.max") == "50000" and in_kernel(own, box, "pids.max") == "40"
    wait_for("another worker", lambda: spare(own) not in (None, waits), 20)
    for i in range(2):  # whoever is next starts from nowhere in particular
        assert own.exec(own.create("tiny"), ["echo", "hi"]).text == "hi\n"
    wait_for("fsck to find nothing", lambda: not fsck(own), 30)


def test_a_worker_returns_from_the_network_of_a_sandbox():
    """It makes the listeners there, which takes no fork; the next one starts from the node's network."""
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": "192.0.2.53"}) as c:
        c.image_import("tiny", tiny())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        box = c.create("tiny")
        wait_for("the workers to end", lambda: spare(c), 20)
        waits = steady(lambda: spare(c))
        assert waits
        held = len(os.listdir(f"/proc/{waits}/fd"))
        c.call("PUT", f"/v1/sandboxes/{box}/egress", {"rules": [{"action": "allow", "to": "example.com"}]})
        wait_for("the worker to come back", lambda: spare(c), 20)
        assert steady(lambda: spare(c)) == waits
        assert os.readlink(f"/proc/{waits}/ns/net") == os.readlink(f"/proc/{c.pids()['cay-keeper']}/ns/net")
        assert len(os.listdir(f"/proc/{waits}/fd")) == held
        assert c.exec(c.create("tiny"), ["echo", "hi"]).text == "hi\n"


def test_a_claim_after_a_crash_sets_every_limit(own):
    """Who was taking it when cayd died may have come as far as its limits."""
    t = put(own, "kind", limits={"pids": 40, "cpu_milli": 1000})
    pool(own, t, min=1, max=1)
    filled(own, t, 1)
    [warm] = residue(own)["boxes"]
    own.kill_daemon("cayd")
    for at in own.cgroup_dirs():
        for path in at.glob(f"*/{warm}/pids.max"):
            path.write_text("33")
    assert in_kernel(own, warm, "pids.max") == "33"
    own.start_cayd()
    filled(own, t, 1)
    assert own.call("POST", "/v1/sandboxes", {"template": "kind"})["id"] == warm
    assert in_kernel(own, warm, "pids.max") == "40"


def test_it_fills_itself_up(daemon, kind):
    pool(daemon, kind, min=2)
    filled(daemon, kind, 2)
    seen = set()
    for _ in range(6):
        seen.add(daemon.call("POST", "/v1/sandboxes", {"template": kind["name"]})["id"])
        filled(daemon, kind, 2)
    assert len(seen) == 6  # none twice
    # one directory, one CPU weight: many claimed ones get no more of the CPUs than one
    assert len({path.parent.name for at in daemon.cgroup_dirs() for box in seen for path in at.glob(f"*/{box}")}) == 1
    assert now(daemon, kind)["claimed"] == now(daemon, kind)["in_use"] == 6
    health = daemon.call("GET", "/v1/health")["pools"]
    assert health["warm"] >= 2 and health["claimed"] >= 6 and health["in_use"] >= 6
    daemon.delete(min(seen))
    wait_for("one less in use", lambda: (now(daemon, kind)["claimed"], now(daemon, kind)["in_use"]) == (6, 5), 30)
    # a claim takes from it what it takes itself
    wait_for("those before them to go", lambda: len(set(residue(daemon)["boxes"]) - seen) == 2, 30)
    victim = (set(residue(daemon)["boxes"]) - seen).pop()
    os.kill(daemon.pid_1(victim), signal.SIGKILL)
    wait_for("it to be noticed", lambda: now(daemon, kind)["failed"] == 1, 20)
    filled(daemon, kind, 2)
    wait_for("it to go", lambda: victim not in residue(daemon)["boxes"], 30)


def test_what_was_fixed_at_the_start_is_made_from_nothing(daemon, kind):
    pool(daemon, kind, min=1)
    filled(daemon, kind, 1)
    box = daemon.call("POST", "/v1/sandboxes", {"template": kind["name"], "runtime": "runc"})
    assert box["runtime"] == "runc"
    box = daemon.call("POST", "/v1/sandboxes", {"template": kind["name"], "limits": {"shm_bytes": "8Mi"}})
    assert box["limits"]["shm_bytes"] == 8 * MIB
    assert daemon.exec(box["id"], ["sh", "-c", "grep -c . /proc/self/status"]).exit_code == 0
    box = daemon.call("POST", "/v1/sandboxes", {"template": kind["name"], "limits": {"nofile": 2000}})
    assert now(daemon, kind)["claimed"] == 0
    assert daemon.call("POST", "/v1/sandboxes", {"template": kind["name"], "limits": {"pids": 300}})["limits"]["pids"] == 300
    assert now(daemon, kind)["claimed"] == 1


def test_when_it_is_empty(daemon, kind):
    refused("invalid_argument", pool, daemon, kind, min=3, max=2)
    refused("invalid_argument", pool, daemon, kind, min=1, on_empty="wait")
    pool(daemon, kind, min=0, on_empty="fail")
    refused("no_capacity", daemon.call, "POST", "/v1/sandboxes", {"template": kind["name"]})
    reply = daemon.open("POST", "/v1/sandboxes", {"template": kind["name"]})
    assert reply.read() and reply.headers["Retry-After"] == "1"
    pool(daemon, kind, min=0, max=1, on_empty="create")
    daemon.call("POST", "/v1/sandboxes", {"template": kind["name"]})
    refused("no_capacity", daemon.call, "POST", "/v1/sandboxes", {"template": kind["name"]})


def test_numbers_are_of_each_pool(daemon, kind):
    """For operators; health, which anybody may ask, has the sums and no names."""
    pool(daemon, kind, min=2)
    other = put(daemon, kind["name"] + "-other")
    pool(daemon, other, min=1)
    filled(daemon, kind, 2)
    filled(daemon, other, 1)
    daemon.delete(daemon.call("POST", "/v1/sandboxes", {"template": other["name"]})["id"])
    filled(daemon, other, 1)
    for t, warm, claimed in ((kind, 2, 0), (other, 1, 1)):
        name = t["name"]
        assert [metric(daemon, "cay_pool_sandboxes", template=name, state=s) for s in ("warm", "starting")] == [warm, 0]
        assert metric(daemon, "cay_pool_claims_total", template=name) == claimed and metric(daemon, "cay_pool_failed_total", template=name) == 0
    health = daemon.call("GET", "/v1/health")
    assert set(health["pools"]) == {"warm", "starting", "in_use", "claimed", "failed"} and kind["name"] not in str(health)
    daemon.call("DELETE", f"/v1/templates/{other['id']}")
    wait_for("its numbers to go", lambda: f'template="{other["name"]}"' not in daemon.open("GET", "/metrics").read().decode(), 60)


def test_who_races_for_the_last_one(daemon, kind):
    pool(daemon, kind, min=2, max=2, on_empty="fail")
    filled(daemon, kind, 2)

    def claim(i):
        try:
            return daemon.call("POST", "/v1/sandboxes", {"template": kind["name"], "env": {"I": str(i)}})["id"], i
        except ApiError as e:
            return e.code, i
    with concurrent.futures.ThreadPoolExecutor(8) as many:
        got = list(many.map(claim, range(8)))
    have = [(box, i) for box, i in got if box.startswith("sb")]
    assert len({box for box, _ in have}) == 2 == len(have)
    assert [c for c, _ in got].count("no_capacity") == 6
    for box, i in have:  # and nobody has another's words
        assert f"I={i}" in daemon.exec(box, ["env"]).text.splitlines()


def test_a_key_and_a_name_are_known_at_once(daemon, kind):
    pool(daemon, kind, min=2)
    filled(daemon, kind, 2)

    def claim(_):
        return post(daemon, "/v1/sandboxes", {"template": kind["name"], "name": "same"}, {"Idempotency-Key": "same"})[1]["id"]
    with concurrent.futures.ThreadPoolExecutor(4) as many:
        assert len(set(many.map(claim, range(4)))) == 1
    box = claim(0)
    assert daemon.call("POST", "/v1/sandboxes", {"template": kind["name"], "name": "same"})["id"] == box
    refused("idempotency_key_reused", post, daemon, "/v1/sandboxes", {"template": kind["name"]}, {"Idempotency-Key": "same"})
    assert now(daemon, kind)["claimed"] == 1


def test_it_changes_while_it_is_there(daemon, kind):
    pool(daemon, kind, min=3)
    filled(daemon, kind, 3)
    pool(daemon, kind, min=1)
    filled(daemon, kind, 1)
    wait_for("the others to go", lambda: len(residue(daemon)["boxes"]) == 1, 30)
    [old] = residue(daemon)["boxes"]
    again = put(daemon, kind["name"], limits={"nofile": 2048})  # what it was started with is another
    assert again["pool"]["min"] == 1  # as it was
    wait_for("a new one", lambda: residue(daemon)["boxes"] not in ([], [old]) and now(daemon, kind)["warm"] == 1, 30)
    wait_for("the old one to go", lambda: old not in residue(daemon)["boxes"], 30)
    assert daemon.call("POST", "/v1/sandboxes", {"template": kind["name"]})["limits"]["nofile"] == 2048


def test_deadlines_count_from_the_claim(own):
    own.stop()
    own.env["CAY_LIMITS_MAX_TTL"] = "5s"  # of a sandbox, not of a warm one
    own.start()
    own.image_import("tiny", tiny())
    t = put(own, "kind")
    pool(own, t, min=1, max=1)
    filled(own, t, 1)
    [warm] = residue(own)["boxes"]
    cay.let_pass(5.5)
    box = own.call("POST", "/v1/sandboxes", {"template": "kind"})["id"]
    assert box == warm
    cay.let_pass(0.5)  # not ended by what it is past as a warm one; most of its time is left for a slow machine
    assert own.get(box)["state"] == "running"
    wait_for("its time", lambda: own.get(box)["state"] == "terminated", 30)
    assert own.get(box)["end"]["reason"] == "ttl"


def warm_pids(c):
    return {box: c.pid_1(box) for box in residue(c)["boxes"]}


def test_warm_ones_are_there_after_a_restart(own):
    t = put(own, "kind", env={"A": "1"})
    pool(own, t, min=3, max=3)
    filled(own, t, 3)
    before = warm_pids(own)
    own.kill_daemon("cayd")
    own.start_cayd()
    filled(own, t, 3)
    assert warm_pids(own) == before
    own.kill_daemon("cay-keeper")
    own.start_keeper()
    wait_for("the link", lambda: linked(own), 30)
    box = own.call("POST", "/v1/sandboxes", {"template": "kind", "limits": {"pids": 99}})
    assert box["id"] in before and own.pid_1(box["id"]) == before[box["id"]]
    assert in_kernel(own, box["id"], "pids.max") == "99"
    own.kill_daemon("cayd")
    own.start_cayd()
    got = own.get(box["id"])
    assert got["state"] == "running" and got["limits"]["pids"] == 99 and "A=1" in own.exec(box["id"], ["env"]).text
    assert own.call("GET", f"/v1/sandboxes/{box['id']}/usage")["processes"] >= 1
    wait_for("fsck to find nothing", lambda: not fsck(own), 30)
    # and it goes with its template
    own.call("DELETE", f"/v1/templates/{t['id']}")
    wait_for("it to drain", lambda: residue(own)["boxes"] == [box["id"]], 30)
    own.delete(box["id"])
    nothing_is_left(own)


@pytest.mark.parametrize("point", ["create:claim", "claim:answered", "journal:queued", "journal:begun", "journal:written",
                                   "journal:committed"])
def test_a_crash_while_it_is_claimed(own, point):
    """Whoever was not told finds nothing of it, or all of it; and no other gets what was claimed."""
    t = put(own, "kind")
    pool(own, t, min=2, max=2)
    filled(own, t, 2)
    before = warm_pids(own)
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = f"{point}=kill"
    own.start_cayd()
    filled(own, t, 2)
    body = {"template": "kind", "name": "mine", "env": {"SECRET": "first"}, "limits": {"pids": 55}}
    with pytest.raises((OSError, ApiError)) as e:
        post(own, "/v1/sandboxes", body, {"Idempotency-Key": "k"})
    assert not isinstance(e.value, ApiError)
    assert own.daemons["cayd"].wait(30) < 0
    del own.env["CAY_FAULT"]
    own.start_cayd()
    rows = own.call("GET", "/v1/sandboxes")["sandboxes"]
    assert len(rows) == (point == "journal:committed")
    filled(own, t, 2 - len(rows))  # until one is ready there is no room for another
    again = post(own, "/v1/sandboxes", body, {"Idempotency-Key": "k"})[1]
    assert not rows or again["id"] == rows[0]["id"]
    assert "SECRET=first" in own.exec(again["id"], ["env"]).text and in_kernel(own, again["id"], "pids.max") == "55"
    pool(own, t, min=2, max=4)
    filled(own, t, 2)
    other = own.call("POST", "/v1/sandboxes", {"template": "kind"})["id"]
    third = own.call("POST", "/v1/sandboxes", {"template": "kind"})["id"]
    for box in (other, third):
        assert "SECRET" not in own.exec(box, ["env"]).text
    # a PID 1 that had been told whose it is went, unless whose it is was written
    if point not in ("create:claim", "journal:committed"):
        wait_for("it to go", lambda: any(pid not in own.processes(box) for box, pid in before.items()), 30)
    wait_for("fsck to find nothing", lambda: not fsck(own), 30)


def test_a_crash_of_what_makes_them(own):
    """The keeper dies at each step of making one, of removing one, of setting limits: the pool fills."""
    t = put(own, "kind")
    for point in ("prepare:record", "prepare:cgroups", "start:joined", "start:ran", "remove:killed"):
        own.kill_daemon("cay-keeper")
        own.env["CAY_FAULT"] = f"{point}=kill"
        own.start_keeper()
        del own.env["CAY_FAULT"]
        pool(own, t, min=0 if point == "remove:killed" else 3)
        cay.let_pass(0.5)  # the keeper, or its worker, dies meanwhile, and more than once
        own.kill_daemon("cay-keeper")
        own.start_keeper()
        wait_for("the link", lambda: linked(own), 30)
        pool(own, t, min=2)
        filled(own, t, 2)
        assert own.exec(own.call("POST", "/v1/sandboxes", {"template": "kind"})["id"], ["echo", "hi"]).text == "hi\n"
    wait_for("fsck to find nothing", lambda: not fsck(own), 30)


def test_a_bad_one_is_no_failure_of_who_takes_it(own):
    """Its PID 1 stands still, or refuses: who asked gets another under the same id."""
    t = put(own, "kind")
    pool(own, t, min=1, max=1)
    filled(own, t, 1)
    [box] = residue(own)["boxes"]
    pid = own.pid_1(box)
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "claim:answered=error@1"
    own.start_cayd()
    filled(own, t, 1)
    got = own.call("POST", "/v1/sandboxes", {"template": "kind", "env": {"A": "1"}})
    assert got["id"] == box and got["state"] == "running" and own.pid_1(box) != pid
    assert "A=1" in own.exec(box, ["env"]).text


def test_a_drain_takes_the_warm_ones(own):
    t = put(own, "kind")
    pool(own, t, min=2)
    filled(own, t, 2)
    own.kill_daemon("cayd")
    own.env["CAY_CONTROL_DRAIN"] = "yes"
    own.start_cayd()
    filled(own, t, 2)
    own.daemons["cayd"].terminate()
    assert own.daemons["cayd"].wait(60) == 0
    nothing_is_left(own)
