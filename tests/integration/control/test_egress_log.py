# SPDX-License-Identifier: Apache-2.0
"""The records of cay-egress: none is lost without cayd, over files of the log and a day

Decisions are counted by the programs that caused them, and by the host in the lab.  `make egress-decisions` makes 100,000.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess

import cay
import lab
import pytest
from cay import ApiError, Cay, file, wait_for
from conftest import BUILD, tiny
from test_egress import API, BEAT, DB, HOSTS, ZONE, allow, decision_files, decisions, dial
from test_tenants import asks

FULL = os.environ.get("CAY_FULL")
DAY = 86400
# of each sandbox: connections that are allowed, connections that are denied, names that are denied
BOXES, PART = (20, (2000, 1000, 2000)) if FULL else (3, (60, 60, 120))
PER_S = 80  # less than a sandbox may begin
DIAL = pathlib.Path(BUILD, "tests/integration/dial")


def image():
    return tiny([file("bin/dial", DIAL.read_bytes(), 0o755)])


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, dict(ZONE)) as internet:
        yield internet


def verify(c, tenant=None):
    """Of the only tenant, unless it is named."""
    of = [c.state / "egress" / tenant] if tenant else list({path.parent for path in decision_files(c)})
    assert len(of) == 1
    done = subprocess.run([c.programs["cay"], "audit", "verify", "--json", str(of[0])], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def more(record):
    """Decisions like it that have no record."""
    return int(record["detail"].split(", ")[3].split()[0])


def test_no_decision_is_lost_without_control_by_the_wall_clock(net):
    """cayd is stopped, the clocks go on by a day, and the log begins new files."""
    wall = pathlib.Path("/run") / f"wall-{os.getpid()}"
    wall.write_text(f"{0:8} {0:8}")
    wall.chmod(0o644)
    preload = pathlib.Path(BUILD, "tests/integration/wall.so").resolve()
    with Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_AUDIT_SIZE": "8Mi" if FULL else "64Ki", "CAY_AUDIT_KEEP": "1000"}) as c:
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        c.kill_daemon("cay-egress")
        with_clock = c.run / "egress-with-clock"
        with_clock.write_text(f"#!/bin/sh\nexec env LD_PRELOAD={preload} CAY_TEST_WALL={wall} {c.programs['egress']}\n")
        with_clock.chmod(0o755)
        c.programs["egress"] = with_clock
        c.start_egress()
        wait_for("cay-egress to be connected again", lambda: c.log("cayd").count("cay-egress is connected") == 2, 30)
        c.image_import("tiny", image())
        allowed, denied, names = PART
        script = (f"dial until kept.gate.example.com; (dial connect kept.example.com 5432 {allowed} {PER_S} > /tmp/allowed; echo > /tmp/over1) & "
                  f"(dial denied {DB} 5432 {denied} {PER_S // 5} > /tmp/denied; dial names evil.test {names} {PER_S} > /tmp/names; echo > /tmp/over2) & wait")
        boxes = [c.create("tiny", egress=allow("kept.example.com", "kept.gate.example.com", ports=[5432])) for _ in range(BOXES)]
        for one in boxes:
            c.exec_detached(one, ["sh", "-c", script])
        c.kill_daemon("cayd")
        begun = net.traffic()[0]
        net.set_name("kept.gate.example.com", [DB])

        def count(op):
            return sum(path.read_bytes().count(b'"op":"%s"' % op.encode()) for path in decision_files(c))

        def a_day_later():
            with open(wall, "r+b", buffering=0) as f:
                f.write(f"{DAY:8} {DAY:8}".encode())

        wait_for("half of them", lambda: count("connect") >= BOXES * allowed // 2, 1200)
        a_day_later()
        wait_for("all connections", lambda: count("closed") >= BOXES * allowed, 1200)
        assert c.daemons["cayd"].poll() is not None
        c.start_cayd()
        for one in boxes:
            wait_for("its end", lambda one=one: c.exec(one, ["sh", "-c", "cat /tmp/over1 /tmp/over2 && echo over"]).text.strip(), 600)
            assert c.exec(one, ["cat", "/tmp/allowed", "/tmp/denied", "/tmp/names"]).text.split() == [str(n) for n in PART]
        for one in boxes:
            c.delete(one)
        total = BOXES * sum(PART)

        def said():
            of = collections.Counter()
            for d in decisions(c):
                of[d["op"]] += 1 + (more(d) if d["op"] != "cut" or d["outcome"] != "more" else more(d) - 1)
            return of

        wait_for("every denial", lambda: said()["cut"] + said()["name"] >= BOXES * (denied + names), 60)
        of, rows = said(), decisions(c)
        assert (of["connect"], of["closed"], of["cut"] + of["name"]) == (BOXES * allowed, BOXES * allowed, BOXES * (denied + names)), of
        assert net.traffic()[0] - begun == BOXES * allowed
        report, files = verify(c), decision_files(c)
        assert report["ok"] and report["count"] == len(rows), report
        assert len(files) >= 3
        days = [d["time"][:10] for d in rows]
        assert days == sorted(days) and len(set(days)) in (2, 3)
        assert [d["seq"] for d in rows] == list(range(1, len(rows) + 1))
        print(f"{total} decisions, {len(rows)} records in {len(files)} files; {BOXES * allowed} connections seen by the host; none lost")
    wall.unlink()


def test_every_thread_of_cay_egress_is_confined(net):
    """The one that writes the log may open files, but only those of the log: it begins new files and removes old ones."""
    with Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_AUDIT_SIZE": "64Ki", "CAY_AUDIT_KEEP": "2"}) as c:
        c.image_import("tiny", image())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        task = pathlib.Path(f"/proc/{c.daemons['cay-egress'].pid}/task")
        filters = [re.search(r"Seccomp_filters:\t(\d+)", (t / "status").read_text())[1] for t in task.iterdir()]
        assert len(filters) > 1 and (set(filters) == {"2"} or "asan" in BUILD), filters  # a sanitizer opens files at exit
        one = c.create("tiny", egress=allow("kept.example.com", ports=[5432]))
        assert c.exec(one, ["dial", "connect", "kept.example.com", "5432", "400", "90"], timeout_s=120).text == "400\n"
        wait_for("the first file to be removed", lambda: decisions(c)[0]["seq"] > 1 and decisions(c)[-1]["seq"] >= 800, 30)
        assert verify(c)["ok"] and sum(path.stat().st_size for path in decision_files(c)) <= 2 * 65536


def test_a_flood_of_one_tenant_leaves_the_records_of_another(net):
    """Two tenants share 256 KiB; one of them writes far more than that, in both kinds of records."""
    with Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_AUDIT_SIZE": "64Ki", "CAY_AUDIT_KEEP": "4"}) as c:
        c.image_import("tiny", image())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        names = [c.call("POST", "/v1/tenants", {"name": name})["id"] for name in ("quiet", "loud")]
        quiet, loud = (asks(c, "write", name) for name in names)
        policy = allow("kept.example.com", ports=[5432])
        victim = quiet.create("tiny", egress=policy)
        dial(quiet, victim, "kept.example.com", 5432)
        dial(quiet, victim, "evil.test", 5432)
        wait_for("its records", lambda: {d["op"] for d in decisions(c, names[0])} == {"connect", "closed", "name"}, 30)
        mine = decisions(c, names[0])
        floods = [loud.create("tiny", egress=policy) for _ in range(3)]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            said = list(pool.map(lambda one: loud.exec(one, ["dial", "connect", "kept.example.com", "5432", "500", "90"], timeout_s=120).text, floods))
        assert said == ["500\n"] * 3
        wait_for("all of its records", lambda: decisions(c, names[1])[-1]["seq"] >= 3000, 30)
        assert decisions(c, names[1])[0]["seq"] > 1000, "what it wrote first is gone"
        assert decisions(c, names[0])[:len(mine)] == mine
        assert verify(c, names[0])["ok"] and verify(c, names[0])["dropped"] == 0
        assert verify(c, names[1])["ok"] and verify(c, names[1])["dropped"] > 1000
        of_none = subprocess.run([c.programs["cay"], "audit", "verify", str(c.state / "egress")], capture_output=True, text=True, check=False)
        assert of_none.returncode != 0 and "has no records" in of_none.stderr, of_none
        size = sum(path.stat().st_size for path in decision_files(c))
        assert size <= 4 * 65536, size
        assert {d["tenant"] for d in decisions(c, names[0])} == {names[0]}
        print(f"{decisions(c, names[1])[-1]['seq']} records of one tenant, {size} bytes left; {len(mine)} of the other are all there")


# -- over the API

@pytest.fixture(scope="module")
def node(net):
    with Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        c.image_import("tiny", image())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        yield c


@pytest.fixture
def box(node):
    made = []

    def make(policy):
        made.append(node.create("tiny", egress=policy))
        return made[-1]

    yield make
    for one in made:
        node.delete(one)


def log(by, box, **query):
    return by.call("GET", f"/v1/sandboxes/{box}/egress/log?" + "&".join(f"{k}={v}" for k, v in query.items()))


def told(rows):
    return [(d["op"], d["verdict"], d["reason"], d.get("name"), d["port"]) for d in rows]


def test_the_log_lists_the_decisions_about_a_sandbox(node, net, box):
    """The same ones, in the same order, as the file has; of this sandbox alone."""
    one, other = box(allow("db.example.com", ports=[5432])), box(allow("api.example.com", ports=[8443]))
    assert log(node, one) == {"decisions": [], "next": 0, "dropped": False}
    dial(node, one, "db.example.com", 5432, "hello")
    dial(node, other, "api.example.com", 8443)
    dial(node, one, "evil.test", 5432)
    dial(node, one, API, 22)
    wait_for("the end of the first", lambda: any(d["op"] == "closed" for d in log(node, one)["decisions"]), 30)
    page = log(node, one)
    rows = page["decisions"]

    def inside():
        return [(d["op"], d["outcome"]) for d in decisions(node) if d.get("target") == one]
    wait_for("the records", lambda: len(inside()) >= len(rows), 30)
    assert [(d["op"], d["reason"]) for d in rows] == inside()
    assert [d["seq"] for d in rows] == list(range(rows[0]["seq"], rows[0]["seq"] + len(rows))) and page["next"] == rows[-1]["seq"]
    assert ("connect", "allow", "allow", "db.example.com", 5432) in told(rows) and ("name", "deny", "deny", "evil.test", 443) in told(rows)
    assert ("cut", "deny", "deny", None, 22) in told(rows) and {d["address"] for d in rows if d["port"] == 22} == {API}
    closed = next(d for d in rows if d["op"] == "closed")
    assert (closed["up_bytes"], closed["down_bytes"], closed["address"]) == (5, len(f"this is {DB} port 5432\nhello"), DB)
    assert {(d["layer"], d.get("rule")) for d in rows if d["verdict"] == "deny"} == {("sandbox", None)}
    assert {d["name"] for d in log(node, other)["decisions"]} == {"api.example.com"}
    assert told(log(node, one, verdict="deny")["decisions"]) == [d for d in told(rows) if d[1] == "deny"]
    assert told(log(node, one, name="db.example.com")["decisions"]) == [d for d in told(rows) if d[3] == "db.example.com"]
    assert log(node, one, after=rows[0]["seq"])["decisions"] == rows[1:]
    for query in ({"verdict": "maybe"}, {"name": "a..b"}, {"wait_ms": 99999}):
        with pytest.raises(ApiError) as e:
            log(node, one, **query)
        assert e.value.code == "invalid_argument"


def test_the_record_of_a_long_name_has_its_end(node, net, box):
    """Its owner can choose the beginning: a file that had only that would name another host."""
    one = box(allow("db.example.com", ports=[5432]))
    name = "www.example.com." * 5 + "evil.test"
    dial(node, one, name, 443)
    wait_for("its record", lambda: [d for d in decisions(node) if d.get("target") == one], 30)
    assert {d["detail"].split(" by ")[0].split(":")[0] for d in decisions(node) if d.get("target") == one} == {"..." + name[-80:]}
    assert {d["name"] for d in log(node, one)["decisions"]} == {name}


def test_a_reader_waits_for_the_next_decision(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))
    dial(node, one, "db.example.com", 5432)
    wait_for("its end", lambda: any(d["op"] == "closed" for d in log(node, one)["decisions"]), 30)
    after = log(node, one)["next"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(log, node, one, after=after, verdict="deny", wait_ms=25000)
        dial(node, one, "db.example.com", 5432)  # is no answer
        dial(node, one, "evil.test", 5432)
        assert told(waits.result(60)["decisions"])[0][:4] == ("name", "deny", "deny", "evil.test")
    assert log(node, one, after=log(node, one)["next"], wait_ms=300)["decisions"] == []
    gone = node.create("tiny", egress=allow("db.example.com"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(log, node, gone, wait_ms=25000)
        cay.let_pass(0.5)
        node.delete(gone)
        with pytest.raises(ApiError) as e:
            waits.result(60)
        assert e.value.code in ("wrong_state", "not_found")


def test_rows_that_are_no_longer_there_are_said(node, net, box):
    """The memory for one sandbox is bounded; a reader sees by the numbers, and by `dropped`, that it came too late."""
    one = box(allow("kept.example.com", ports=[5432]))
    dial(node, one, "kept.example.com", 5432)
    first = log(node, one)["decisions"][0]["seq"]
    assert node.exec(one, ["dial", "connect", "kept.example.com", "5432", "200", "90"], timeout_s=120).text == "200\n"
    wait_for("all of them", lambda: log(node, one, after=first + 400)["decisions"], 30)
    page = log(node, one, after=first)
    assert page["dropped"] and page["decisions"][0]["seq"] > first + 1
    seen, at = [], first
    while rows := (page := log(node, one, after=at))["decisions"]:
        seen, at = seen + rows, page["next"]
    assert [d["seq"] for d in seen] == list(range(seen[0]["seq"], seen[-1]["seq"] + 1)) and 100 < len(seen) < 400
    assert not log(node, one, after=seen[0]["seq"])["dropped"]
    far = log(node, one, after=2 ** 60)  # a number of nowhere: it begins again, and says so
    assert far["dropped"] and far["decisions"][0] == seen[0]


def test_numbers_grow_over_a_restart_of_cay_egress(net):
    with Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        c.image_import("tiny", image())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        one = c.create("tiny", egress=allow("db.example.com", ports=[5432]))
        dial(c, one, "db.example.com", 5432)
        last = log(c, one)["next"]
        c.kill_daemon("cay-egress")
        c.start_egress()
        wait_for("it to be attached", lambda: dial(c, one, "db.example.com", 5432)[0], 30)
        page = log(c, one, after=last)
        assert page["dropped"] and page["decisions"][0]["seq"] > last


def test_the_command_follows_the_log(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))
    run = [str(node.programs["cay"]), "egress", "log"]
    env = {**node.env, "CAY_SOCKET": str(node.run / "control.sock")}
    dial(node, one, "db.example.com", 5432)
    wait_for("its end", lambda: any(d["op"] == "closed" for d in log(node, one)["decisions"]), 30)
    lines = subprocess.run([*run, one], env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[1:3] for line in lines] == [["allow", "connect"], ["allow", "closed"]] and f"db.example.com:5432 at {DB}, " in lines[1]
    follows = subprocess.Popen([*run, "-f", "--denied", "--json", one], env=env, stdout=subprocess.PIPE, text=True)
    try:
        dial(node, one, "evil.test", 5432)
        assert json.loads(follows.stdout.readline())["name"] == "evil.test"
    finally:
        follows.kill()
        follows.wait()


# -- changes of a policy

def patch(by, box, query="", **change):
    return by.call("POST", f"/v1/sandboxes/{box}/egress{query}", change)


def rule(action, to, *ports):
    return {"action": action, "to": to, **({"ports": list(ports)} if ports else {})}


def test_a_patch_adds_rules_in_front_and_removes_some(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))
    assert dial(node, one, "db.example.com", 5432)[0] and not dial(node, one, "api.example.com", 8443)[0]
    now = patch(node, one, rules=[rule("allow", "api.example.com", 8443), rule("deny", "db.example.com", 5432)])
    assert now["generation"] == 2 and [r["to"] for r in now["policy"]["rules"]] == ["api.example.com", "db.example.com", "db.example.com"]
    assert dial(node, one, "api.example.com", 8443)[0] and not dial(node, one, "db.example.com", 5432)[0]
    now = patch(node, one, remove=["db.example.com"], rules=[rule("allow", "*.example.com", 5432)])
    assert [r["to"] for r in now["policy"]["rules"]] == ["*.example.com", "api.example.com"]
    assert dial(node, one, "db.example.com", 5432)[0]
    assert patch(node, one)["generation"] == 4, "a change of nothing is one, too"
    for code, query, change in (("conflict", "?if_generation=3", {}), ("invalid_argument", "", {"rules": [rule("allow", "a..b")]}),
                                ("invalid_argument", "", {"rules": [rule("allow", f"n{i}.example") for i in range(255)]})):
        with pytest.raises(ApiError) as e:
            patch(node, one, query, **change)
        assert e.value.code == code
    assert node.call("GET", f"/v1/sandboxes/{one}/egress")["generation"] == 4


def test_a_patch_cuts_what_it_denies_before_the_reply(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))
    node.exec_detached(one, ["sh", "-c", BEAT.format("db.example.com", 5432)])
    wait_for("its echo", lambda: "beat" in node.exec(one, ["cat", "/tmp/db.example.com"]).text, 30)
    patch(node, one, rules=[rule("deny", "*.example.com", "1-65535")])
    net.frames()
    wait_for("its end", lambda: "over" in node.exec(one, ["cat", "/tmp/db.example.com"]).text, 30)
    frames, dropped = net.frames()
    assert not dropped and not [f for f in frames if f[2] == 5432 and f[3]], "a byte left after the reply"


def test_patches_at_once_are_all_applied(node, net, box):
    """Nothing is read first and written later, so that none of them is lost."""
    one = box(allow("db.example.com", ports=[5432]))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: patch(node, one, rules=[rule("allow", f"n{i}.example")]), range(24)))
    rules = node.call("GET", f"/v1/sandboxes/{one}/egress")["policy"]["rules"]
    assert sorted(r["to"] for r in rules) == sorted([f"n{i}.example" for i in range(24)] + ["db.example.com"])


def test_the_commands_change_a_policy(node, net, box):
    one = box(allow("db.example.com", ports=[5432]))

    def run(*words):
        env = {**node.env, "CAY_SOCKET": str(node.run / "control.sock")}
        done = subprocess.run([str(node.programs["cay"]), "egress", *words, "--json"], env=env, capture_output=True, text=True, check=True)
        return [(r["action"], r["to"]) for r in json.loads(done.stdout)["policy"].get("rules", [])]

    assert run("allow", one, "api.example.com:8443", "a.example") == [("allow", "api.example.com"), ("allow", "a.example"), ("allow", "db.example.com")]
    assert run("deny", one, "a.example")[0] == ("deny", "a.example")
    assert run("forget", one, "a.example", "db.example.com") == [("allow", "api.example.com")]
