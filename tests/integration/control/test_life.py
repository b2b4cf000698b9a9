# SPDX-License-Identifier: Apache-2.0
"""A sandbox's life: what is promised of it whatever dies."""
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import threading
import time

import cay
import pytest
from cay import ApiError, UnixConnection, wait_for
from test_control import nothing_is_left, refused

FULL = bool(os.environ.get("CAY_FULL"))
COUNT = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"]


def post(c, path, body=None, headers=None):
    """Like call(), with headers."""
    reply = c.open("POST", path, body, headers)
    data = reply.read()
    if not 200 <= reply.status < 300:
        raise ApiError(reply.status, data)
    return reply.status, json.loads(data)


def restart(c, *names):
    """kill -9, then as systemd would."""
    for name in names:
        c.kill_daemon(name)
    if "cay-keeper" in names:
        c.start_keeper()
    if "cayd" in names:
        c.start_cayd()
    wait_for("the link", lambda: linked(c), 30)


def linked(c):
    try:
        return c.call("GET", "/v1/fsck", timeout_s=20) is not None
    except (ApiError, OSError, cay.http.client.HTTPException):
        return False


def numbers(c, box, exec_id):
    return [int(line) for line in c.exec_output(box, exec_id).split(b"\n")[:-1]]


def ended(c, box, timeout_s=40):
    wait_for("its end", lambda: c.get(box)["state"] in ("terminated", "failed"), timeout_s)
    return c.get(box)


def fsck(c, method="GET"):
    found = c.call(method, "/v1/fsck")
    return {(f["kind"], f["sandbox"]) for f in found["findings"]}


def clean(c):
    wait_for("fsck to find nothing", lambda: not fsck(c), 20)
    nothing_is_left(c)


@pytest.mark.parametrize("names", [["cayd"], ["cay-keeper"], ["cay-keeper", "cayd"]], ids="+".join)
def test_sandboxes_outlive_daemons(own, names):
    box = own.create("tiny", name="kept", labels={"a": "b"}, env={"X": "y"})
    counting, pid = own.exec_detached(box, COUNT), own.pid_1(box)
    seen = own.get(box)
    for _ in range(3):
        restart(own, *names)
        assert own.pid_1(box) == pid
    now = own.get(box)
    assert {**now, "last_activity_at": 0} == {**seen, "last_activity_at": 0}
    before = numbers(own, box, counting)
    wait_for("the count to go on", lambda: len(numbers(own, box, counting)) > len(before) + 5, 30)
    got = numbers(own, box, counting)
    assert got == list(range(1, len(got) + 1))
    assert own.exec(box, ["sh", "-c", "echo $X"]).text == "y\n"
    assert own.create("tiny", name="kept") == box
    assert not fsck(own)
    own.delete(box)
    clean(own)


def test_one_that_died_meanwhile_ends_with_a_reason(own):
    box = own.create("tiny")
    pid = own.pid_1(box)
    own.kill_daemon("cayd")
    os.kill(pid, 9)
    wait_for("its death", lambda: not own.processes(box), 30)  # who sees it die tells its signal
    own.start_cayd()
    end = ended(own, box)["end"]
    assert end["reason"] == "node_lost" and "gone" in end["detail"]
    clean(own)


def test_pid_1s_death_is_told_with_its_signal(own):
    box = own.create("tiny")
    os.kill(own.pid_1(box), 9)
    end = ended(own, box)["end"]
    assert end["reason"] == "signal" and end["signal"] == "SIGKILL" and not end.get("inferred")
    clean(own)


def test_a_key_makes_one_sandbox(daemon):
    rounds, together = (1000 if FULL else 50, 4)
    for n in range(rounds):
        key = {"Idempotency-Key": f"k{n}-{time.monotonic_ns()}"}
        with concurrent.futures.ThreadPoolExecutor(together) as pool:
            ids = set(pool.map(lambda _: post(daemon, "/v1/sandboxes", {"image": "tiny"}, key)[1]["id"], range(together)))
        assert len(ids) == 1
        with pytest.raises(ApiError) as e:
            post(daemon, "/v1/sandboxes", {"image": "tiny", "limits": {"pids": 99}}, key)
        assert e.value.code == "idempotency_key_reused"
        daemon.delete(ids.pop())
    nothing_is_left(daemon)


def test_a_key_survives_a_lost_reply(own):
    key = {"Idempotency-Key": "lost"}
    status, first = post(own, "/v1/sandboxes", {"image": "tiny", "wait": False}, key)
    assert status == 202 and first["state"] == "pending"
    restart(own, "cayd")
    _, again = post(own, "/v1/sandboxes", {"image": "tiny", "wait": False}, key)
    assert again["id"] == first["id"]
    wait_for("it runs", lambda: own.get(first["id"])["state"] == "running", 30)
    own.delete(first["id"])
    clean(own)


def test_a_name_is_one_sandboxs(daemon):
    for n in range(1000 if FULL else 50):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            ids = set(pool.map(lambda _: daemon.create("tiny", name=f"n{n}"), range(4)))
        assert len(ids) == 1
        daemon.delete(ids.pop())


def test_a_request_to_an_ended_sandbox_is_told_why(own):
    """An agent that is refused need not ask again for the reason."""
    box = own.create("tiny")
    own.call("POST", f"/v1/sandboxes/{box}/pause")
    with pytest.raises(ApiError) as e:
        own.exec(box, ["true"])
    assert e.value.code == "wrong_state" and "paused; resume it" in str(e.value)
    own.call("POST", f"/v1/sandboxes/{box}/resume")
    own.delete(box)
    brief = own.create("tiny", ttl_ms=1000)
    wait_for("its end", lambda: own.get(brief)["state"] == "terminated", 30)
    for name, why in (box, "killed"), (brief, "ttl"):
        for ask in lambda: own.exec(name, ["true"]), lambda: own.call("GET", f"/v1/sandboxes/{name}/usage"), \
                lambda: own.call("POST", f"/v1/sandboxes/{name}/limits", {"pids": 50}):
            with pytest.raises(ApiError) as e:
                ask()
            assert e.value.code == "wrong_state" and f"has ended: {why}" in str(e.value) and "create another" in str(e.value)


def test_a_lifetime_nobody_asked_for_is_a_day(own):
    """Also from a template; a longer one is for the asking, and an operator may set another."""
    def left(**fields):
        box = own.call("POST", "/v1/sandboxes", fields)
        at = [datetime.datetime.fromisoformat(box[k]) for k in ("expires_at", "created_at")]
        own.delete(box["id"])
        return (at[0] - at[1]).total_seconds()
    own.call("POST", "/v1/templates", {"name": "plain", "defaults": {"image": "tiny"}})
    own.call("POST", "/v1/templates", {"name": "brief", "defaults": {"image": "tiny", "ttl_ms": 600000}})
    day = 86400
    assert abs(left(image="tiny") - day) < 60 and abs(left(template="plain") - day) < 60
    assert abs(left(template="brief") - 600) < 60 and abs(left(image="tiny", ttl_ms=10 * day * 1000) - 10 * day) < 60
    own.kill_daemon("cayd")
    own.env |= {"CAY_LIMITS_TTL": "2h"}
    own.start_cayd()
    assert abs(left(image="tiny") - 7200) < 60 and abs(left(template="brief") - 600) < 60


@pytest.mark.alone
def test_deadlines(own):
    begin = time.monotonic()
    box = own.create("tiny", ttl_ms=4000)
    made = time.monotonic()
    longer = own.create("tiny", ttl_ms=4000)
    own.call("POST", f"/v1/sandboxes/{longer}/extend", {"ttl_ms": 60000})
    idle = own.create("tiny", idle_ms=4500)
    asked = own.create("tiny", idle_ms=4500)
    all_made = time.monotonic()
    restart(own, "cayd")
    ran = over = None  # when it was last asked for and ran; when it was first heard that it does not
    while time.monotonic() - all_made < 7:
        own.exec(asked, ["true"])
        before = time.monotonic()
        if own.get(box)["state"] == "running":
            ran = before
        elif not over:
            over = time.monotonic()
        threading.Event().wait(0.1)  # the point of the test is time that passes
    assert own.get(box)["end"]["reason"] == "ttl"
    assert over - begin >= 4 and (ran or made) - made < 6  # its time begins in between; nobody looks more often than now and then
    assert own.get(longer)["state"] == "running" and own.get(asked)["state"] == "running"
    assert ended(own, idle)["end"]["reason"] == "idle"
    refused("invalid_argument", own.call, "POST", f"/v1/sandboxes/{longer}/extend", {"ttl_ms": 31622400000})
    for name in (longer, asked):
        own.delete(name)
    refused("wrong_state", own.call, "POST", f"/v1/sandboxes/{longer}/extend", {"ttl_ms": 5000})
    clean(own)


@pytest.mark.alone
def test_deadlines_do_not_look_at_the_wall_clock(own):
    """Ten years back and forth, also while cayd is away: nobody dies early, nobody lives longer."""
    wall = own.run / "wall"
    wall.write_text("0")
    preload = pathlib.Path(os.environ.get("CAY_BUILD", "build/gcc")) / "tests/integration/wall.so"
    own.kill_daemon("cayd")
    own.env |= {"LD_PRELOAD": str(preload.resolve()), "CAY_TEST_WALL": str(wall)}
    own.start_cayd()
    decade = 10 * 366 * 86400
    begin = time.monotonic()
    short, long = own.create("tiny", ttl_ms=3000, idle_ms=100000), own.create("tiny", ttl_ms=60000, idle_ms=100000)
    for n, jump in enumerate((decade, -decade, 0, -decade)):
        wall.write_text(str(jump))
        year = int(own.get(own.create("tiny", name=f"n{n}"))["created_at"][:4])
        assert abs(year - time.gmtime().tm_year) in ((10, 11) if jump else (0,))  # the clock did jump, at New Year one further
        restart(own, "cayd")
        assert own.get(long)["state"] == "running"
    looked = time.monotonic() - begin  # nobody sees its end before
    wait_for("the short one's end", lambda: own.get(short)["state"] == "terminated", 30)
    assert 3 <= time.monotonic() - begin < max(3, looked) + 10 and own.get(short)["end"]["reason"] == "ttl"
    assert own.get(long)["state"] == "running"


def test_what_the_journal_cannot_keep_is_not_made(own):
    """A DEL is a byte in a request and six in a row, and there must be room for what is said of it later."""
    def env(n):
        return {f"V{i}": "\x7f" * 3000 for i in range(n)}

    def create(n):
        body = json.dumps({"image": "tiny", "env": env(n)}).replace("\\u007f", "\x7f")
        reply = own.open("POST", "/v1/sandboxes", body.encode(), {"Content-Type": "application/json"})
        return reply.status, json.loads(reply.read())
    status, said = create(14)
    assert (status, said["error"]["code"]) == (413, "too_large"), said
    status, said = create(10)
    assert status == 201, said
    labels = {".".join(["k" * 60] * 4) + f"/{'n' * 60}{i}": "v" * 63 for i in range(64)}
    own.call("POST", f"/v1/sandboxes/{said['id']}/labels", {"labels": labels})
    restart(own, "cayd")
    assert own.get(said["id"])["labels"] == labels
    own.delete(said["id"])
    clean(own)


def test_pause_and_resume(own):
    box = own.create("tiny")
    counting = own.exec_detached(box, COUNT)
    wait_for("counting", lambda: numbers(own, box, counting), 20)
    assert own.call("POST", f"/v1/sandboxes/{box}/pause")["state"] == "paused"
    refused("wrong_state", own.exec, box, ["true"])
    restart(own, "cayd")
    assert own.get(box)["state"] == "paused"
    assert own.call("POST", f"/v1/sandboxes/{box}/pause")["state"] == "paused"
    assert own.call("POST", f"/v1/sandboxes/{box}/resume")["state"] == "running"
    before = len(numbers(own, box, counting))
    wait_for("the count to go on", lambda: len(numbers(own, box, counting)) > before, 20)
    own.call("POST", f"/v1/sandboxes/{box}/pause")
    own.delete(box)  # frozen processes die too
    clean(own)


def test_pause_while_the_keeper_is_away(own):
    box = own.create("tiny")
    own.kill_daemon("cay-keeper")
    with contextlib.suppress(ApiError):
        assert own.call("POST", f"/v1/sandboxes/{box}/pause")["state"] == "running"
    assert own.daemons["cayd"].poll() is None
    assert own.exec(box, ["echo", "still"]).text == "still\n"
    own.start_keeper()
    wait_for("the link", lambda: linked(own), 30)

    def paused():
        try:
            return own.call("POST", f"/v1/sandboxes/{box}/pause")["state"] == "paused"
        except ApiError:
            return False
    wait_for("it to be paused", paused, 30)
    own.delete(box)
    clean(own)


def test_labels_groups_and_filters(own):
    a = own.create("tiny", group="g1", labels={"team": "blue"})
    b = own.create("tiny", group="g1", name="second")
    c = own.create("tiny", group="g2")

    def rows(query):
        return [r["id"] for r in own.call("GET", f"/v1/sandboxes?{query}")["sandboxes"]]

    assert rows("group=g1") == [b, a] and rows("group=none") == []
    assert rows("label=team") == rows("label=team%3Dblue") == [a] and rows("label=team%3Dred") == []
    assert rows("name=second") == [b]
    refused("invalid_argument", rows, "state=flying")
    got = own.call("POST", f"/v1/sandboxes/{a}/labels", {"labels": {"team": None, "x": "1"}})
    assert got["labels"] == {"x": "1"}
    refused("invalid_argument", own.call, "POST", f"/v1/sandboxes/{a}/labels", {"labels": {"cay/x": "1"}})
    refused("invalid_argument", own.create, "tiny", labels={"cay/x": "1"})
    restart(own, "cayd")
    assert own.get(a)["labels"] == {"x": "1"} and own.get(a)["group"] == "g1"
    gone = own.call("DELETE", "/v1/sandboxes?group=g1")["sandboxes"]
    assert {r["id"] for r in gone} == {a, b}
    for box in (a, b):
        ended(own, box)
    assert rows("state=live") == [c], own.get(c)
    assert set(rows("state=terminated")) == {a, b}
    own.delete(c)
    clean(own)


def test_group_quota():
    with cay.Cay(os.environ.get("CAY_BUILD", "build/gcc"), env={"CAY_LIMITS_GROUP": "2"}) as c:
        from conftest import tiny
        c.image_import("tiny", tiny())
        boxes = [c.create("tiny", group="g") for _ in range(2)]
        refused("limit_exceeded", c.create, "tiny", group="g")
        c.delete(boxes.pop())
        boxes.append(c.create("tiny", group="g"))
        c.create("tiny", group="h")


def test_an_event_that_could_not_be_written_is_told_later(own):
    box = own.create("tiny")
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = ",".join(f"journal:{at}=error" for at in ("queued", "begun", "written", "committed"))
    own.start_cayd()
    del own.env["CAY_FAULT"]
    with contextlib.suppress(ApiError):
        own.delete(box)
    wait_for("its end", lambda: "terminated" in [
        e["state"] for e in own.call("GET", f"/v1/events?sandbox={box}")["events"]], 30)
    clean(own)


def test_the_end_of_a_group_is_told_when_it_is_durable(own):
    box = own.create("tiny", group="g")
    own.kill_daemon("cayd")
    # four transactions fail, one after the other: start may have written before
    own.env["CAY_FAULT"] = ",".join(f"journal:{at}=error" for at in ("queued", "begun", "written", "committed"))
    own.start_cayd()
    del own.env["CAY_FAULT"]
    with pytest.raises(ApiError) as e:
        own.call("DELETE", "/v1/sandboxes?group=g")
    assert e.value.status == 500, e.value
    assert ended(own, box)["end"]["reason"] == "killed"  # it was meant, and is written again
    told = own.call("GET", "/v1/sandboxes?group=g")["sandboxes"]
    assert [s["state"] for s in told] == ["terminated"]
    clean(own)


def test_a_change_is_told_when_it_is_durable(own):
    """No write of the journal succeeds: who is told that a change was made is told what a crash undoes."""
    box = own.create("tiny", ttl_ms=600000)
    before = own.get(box)
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "journal:written=always"
    own.start_cayd()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    refused("internal", own.call, "POST", f"/v1/sandboxes/{box}/extend", {"ttl_ms": 1200000})
    own.kill_daemon("cayd")
    own.start_cayd()
    moved = datetime.datetime.fromisoformat(own.get(box)["expires_at"]) - datetime.datetime.fromisoformat(before["expires_at"])
    assert abs(moved) < datetime.timedelta(seconds=300), "it kept its 10 minutes"
    own.delete(box)
    clean(own)


def test_a_lease_that_is_not_renewed(own):
    left, kept = own.create("tiny", lease_ms=1500), own.create("tiny", lease_ms=600000)
    end = ended(own, left)["end"]
    assert (end["reason"], end["blame"], end["retryable"]) == ("lease", "caller", False)
    assert own.get(kept)["lease_ms"] == 600000 and own.get(kept)["lease_expires_at"]
    own.call("POST", f"/v1/sandboxes/{kept}/extend", {"lease_ms": 500000})
    refused("invalid_argument", own.call, "POST", f"/v1/sandboxes/{kept}/extend", {})
    refused("wrong_state", own.call, "POST", f"/v1/sandboxes/{left}/extend", {"lease_ms": 1000})
    restart(own, "cayd")
    assert own.get(kept)["lease_ms"] == 500000
    # nobody can renew it while control is down: it begins anew, and is not forgotten
    own.call("POST", f"/v1/sandboxes/{kept}/extend", {"lease_ms": 3000})
    own.kill_daemon("cayd")
    cay.let_pass(4)
    own.start_cayd()
    assert own.get(kept)["state"] == "running"
    assert ended(own, kept)["end"]["reason"] == "lease"
    clean(own)


@pytest.mark.parametrize("code,state", [(0, "terminated"), (3, "failed")])
def test_an_entrypoint_that_ends_ends_its_sandbox(own, code, state):
    box = own.create("tiny", entrypoint=["sh", "-c", f"echo hello; until [ -e /tmp/go ]; do sleep 0.05; done; exit {code}"], on_exit="end")
    entry = wait_entry(own, box)
    restart(own, "cayd")
    wait_for("its word", lambda: own.exec_output(box, entry) == b"hello\n", 30)
    go(own, box)
    got = ended(own, box)
    assert got["state"] == state and got["end"]["reason"] == "exit" and got["end"]["exit_code"] == code
    clean(own)


def go(c, box):
    """What an entrypoint waits for."""
    with contextlib.suppress(ApiError, OSError, ValueError, cay.http.client.HTTPException):  # it ends with the sandbox, or before
        c.exec(box, ["touch", "/tmp/go"])


def wait_entry(c, box):
    wait_for("its entry", lambda: c.get(box).get("entry"), 30)
    return c.get(box)["entry"]


def test_an_entrypoint_is_started_once(own):
    box = own.create("tiny", entrypoint=["sh", "-c", "sleep 100"])
    entry = wait_entry(own, box)
    for _ in range(3):
        restart(own, "cayd")
    assert [e["id"] for e in own.call("GET", f"/v1/sandboxes/{box}/execs")["execs"]] == [entry]
    own.delete(box)
    clean(own)


@pytest.mark.parametrize("on_exit", ["keep", "end"])
def test_a_command_of_a_client_is_no_entrypoint(own, on_exit):
    """cayd dies before it starts the entrypoint; what a client started meanwhile hides nothing."""
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "create:entry=kill"
    own.start_cayd()
    del own.env["CAY_FAULT"]
    with pytest.raises((OSError, cay.http.client.HTTPException)):
        own.create("tiny", entrypoint=["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done"], on_exit=on_exit)
    own.daemons["cayd"].wait(30)
    box, = (p.name for p in (own.state / "boxes").iterdir())
    inside = UnixConnection(str(own.run / "box" / box), 30)
    inside.request("POST", f"/v1/sandboxes/{box}/execs", json.dumps({"argv": ["sleep", "100"], "detach": True}),
                   {"Content-Type": "application/json"})
    started = json.load(inside.getresponse())["id"]
    own.start_cayd()
    entry = wait_entry(own, box)
    assert entry != started
    assert {e["id"] for e in own.call("GET", f"/v1/sandboxes/{box}/execs")["execs"]} == {entry, started}
    if on_exit == "end":
        go(own, box)
        assert ended(own, box)["end"]["reason"] == "exit"
    else:
        own.delete(box)
    clean(own)


@pytest.mark.parametrize("query, headers", [("?sandbox=x", {}), ("", {"Last-Event-ID": "x"})])
def test_events_of_an_invalid_query_are_refused(own, query, headers):
    reply = own.open("GET", "/v1/events" + query, headers=headers, timeout_s=20)
    assert reply.status == 400 and json.loads(reply.read())["error"]["code"] == "invalid_argument"


def test_events_are_resumable(own):
    box = own.create("tiny", group="g")
    other = own.create("tiny")
    own.delete(box)
    def states():
        return [e["state"] for e in own.call("GET", f"/v1/events?sandbox={box}")["events"]]

    wait_for("all of it", lambda: states() == ["running", "ending", "terminated"], 20)
    seen = own.call("GET", f"/v1/events?sandbox={box}")
    assert seen["events"][-1]["end"]["reason"] == "killed"
    restart(own, "cayd")
    assert own.call("GET", f"/v1/events?sandbox={box}") == seen
    assert own.call("GET", "/v1/events?group=g")["events"] == seen["events"]
    last = own.call("GET", "/v1/events")["next"]
    stream = own.open("GET", f"/v1/events?after={last}", headers={"Accept": "text/event-stream"}, timeout_s=30)
    own.delete(other)
    lines = []
    while len(lines) < 2:
        line = stream.readline().decode().strip()
        if line.startswith("data:"):
            lines.append(json.loads(line[5:]))
    assert [(e["sandbox"], e["state"]) for e in lines] == [(other, "ending"), (other, "terminated")]
    stream.close()


def forget_all(own):
    """Of the journal; the sandboxes go on."""
    own.kill_daemon("cayd")
    with contextlib.closing(sqlite3.connect(own.state / "db" / "journal.db")) as db, db:
        db.execute("DELETE FROM sandbox")
    for f in (own.state / "db").glob("journal.db*"):
        os.chown(f, cay.CONTROL_UID, cay.CONTROL_UID)
    own.start_cayd()


def test_what_the_journal_does_not_know_is_left_alone(own):
    box = own.create("tiny")
    pid = own.pid_1(box)
    forget_all(own)
    assert fsck(own) == {("foreign", box)} and fsck(own, "POST") == {("foreign", box)}
    refused("not_found", own.get, box)
    assert own.pid_1(box) == pid


def end_foreign(own, **query):
    """The findings, and whether each was ended."""
    words = "&".join(f"{k}={v}" for k, v in query.items())
    return [(f["kind"], f["sandbox"], f["repaired"]) for f in own.call("POST", f"/v1/fsck?end_foreign=true&{words}")["findings"]]


def test_of_what_the_journal_does_not_know_only_the_old_is_ended(own):
    """An operator asks for it; five minutes unless the operator says otherwise."""
    box, dead = own.create("tiny"), own.create("tiny")
    pid = own.pid_1(box)
    victim = own.pid_1(dead)
    own.kill_daemon("cayd")  # so that it does not notice the end of the other
    os.kill(victim, signal.SIGKILL)
    wait_for("its end", lambda: not own.processes(dead), 30)
    forget_all(own)
    young = {("foreign", box, False), ("foreign", dead, False)}
    hour = 3600 * 1000
    assert set(end_foreign(own)) == set(end_foreign(own, older_ms=hour)) == young, "younger than five minutes, and than an hour"
    assert own.pid_1(box) == pid and fsck(own) == {("foreign", box), ("foreign", dead)}
    cli = [str(pathlib.Path(own.programs["cay"])), "fsck", "--end-foreign", "--json"]
    said = subprocess.run(cli, env=own.env, capture_output=True, text=True, timeout=60)
    assert {(f["kind"], f["sandbox"], f["repaired"]) for f in json.loads(said.stdout)["findings"]} == young, said
    said = subprocess.run([*cli, "--older", "0s"], env=own.env, capture_output=True, text=True, timeout=60)
    assert {f["sandbox"]: f["repaired"] for f in json.loads(said.stdout)["findings"]} == {box: True, dead: True}, said
    wait_for("what the journal lacks to end", lambda: not own.processes(box) and not fsck(own), 30)
    nothing_is_left(own)


def test_daemons_killed_at_random_under_load(own):
    """No acknowledged operation is lost, no running command is disturbed, no count lost."""
    rounds = 750 if FULL else 12  # a third of them kill two
    boxes = {}
    for _ in range(200 if FULL else 8):
        box = own.create("tiny")
        boxes[box] = own.exec_detached(box, [*COUNT[:2], COUNT[2].replace("0.01", "0.5" if FULL else "0.01")])
    pids = {box: own.pid_1(box) for box in boxes}
    acknowledged, deleted = set(), set()
    for n in range(rounds):
        names = (["cayd"], ["cay-keeper"], ["cay-keeper", "cayd"])[n % 3]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            def work(i):
                try:
                    box = own.create("tiny", name=f"load-{n}-{i}")
                    acknowledged.add(box)
                    if i % 2:
                        own.delete(box)
                        deleted.add(box)
                except (OSError, ApiError, ValueError, cay.http.client.HTTPException):  # half an answer is none
                    pass
            jobs = [pool.submit(work, i) for i in range(6)]
            threading.Event().wait(0.005 * (n % 9))  # the kill falls somewhere in the work
            restart(own, *names)
            for job in jobs:
                job.result()
        if n % 10 == 9:  # so that a thousand kills are not of two thousand sandboxes
            for box in sorted(acknowledged - deleted):
                own.delete(box)
                deleted.add(box)
    for box in acknowledged:
        state = own.get(box)
        assert state["state"] in ("running", "terminated", "failed", "ending") and (state["state"] == "running" or state["end"])
        assert box not in deleted or state["state"] == "terminated"
    for box, counting in boxes.items():
        assert own.pid_1(box) == pids[box]
        got = numbers(own, box, counting)
        assert got == list(range(got[0], got[0] + len(got)))
    print(f"\n# {rounds * 4 // 3} kills, {len(boxes)} sandboxes counting, {len(acknowledged)} creates and {len(deleted)} deletes acknowledged")
    # those whose replies were lost are there, too: more than a page of them
    while rows := own.call("GET", "/v1/sandboxes?state=live&limit=1000")["sandboxes"]:
        for row in rows:
            own.delete(row["id"])
    clean(own)
