# SPDX-License-Identifier: Apache-2.0
"""A sandbox's life by the command line: deadlines, labels, groups, ends, events, fsck"""
import datetime
import json
import os
import re
import signal

import pytest

import fake as fake_daemon
from test_cli import wait_for

REASONS = ["exit", "signal", "timeout", "oom", "killed", "ttl", "idle", "quota", "evicted", "start_failed", "node_lost", "node_oom"]


def test_create_sends_deadlines_group_key_and_entrypoint(daemon, cay):
    r = cay("create", "--ttl", "1h", "--idle=10m", "--group", "thread-7", "--key", "k-1", "--on-exit", "end", "base", "--",
            "sleep", "--", "60")
    assert r.returncode == 0, r.stderr
    sent = daemon.created
    assert (sent["ttl_ms"], sent["idle_ms"], sent["group"], sent["on_exit"]) == (3600000, 600000, "thread-7", "end")
    assert sent["entrypoint"] == ["sleep", "--", "60"] and sent["wait"] is True and daemon.key == "k-1"


def test_create_without_them_sends_none(daemon, cay):
    assert cay("create", "base").returncode == 0
    assert not {"ttl_ms", "idle_ms", "group", "entrypoint", "services"} & set(daemon.created) and daemon.key is None


def test_create_need_not_wait(daemon, cay):
    r = cay("create", "--no-wait", "--json", "base")
    assert r.returncode == 0 and json.loads(r.stdout)["state"] == "pending" and daemon.created["wait"] is False


def test_run_has_them_too(daemon, cay):
    r = cay("run", "--ttl", "90s", "--idle", "5s", "--group", "g", "--key", "k", "base", "--", "echo", "hi")
    assert (r.returncode, r.stdout) == (0, "hi\n")
    assert (daemon.created["ttl_ms"], daemon.created["idle_ms"], daemon.created["group"]) == (90000, 5000, "g")
    assert daemon.key == "k" and "entrypoint" not in daemon.created


@pytest.mark.parametrize("words", [
    ["--ttl", "soon", "base"], ["--ttl", "10ms", "base"], ["--idle", "400d", "base"], ["--on-exit", "end", "base"],
    ["--on-exit", "explode", "base", "--", "x"], ["--key", "", "base"], ["--key", "a b", "base"],
    ["--key", "a\r\nX: y", "base"], ["--key", "k" * 65, "base"]], ids=repr)
def test_create_refuses_before_it_asks(daemon, cay, words):
    r = cay("create", *words)
    assert r.returncode == 2 and r.stderr.startswith("cay: ") and not daemon.requests


def test_a_name_is_asked_for(daemon, cay):
    for _ in range(7):
        daemon.add()
    box = daemon.add(name="mine")
    assert cay("exec", "mine", "--", "true").returncode == 0
    assert daemon.requests[0] == ("GET", "/v1/sandboxes", {"limit": "100", "state": "live", "name": "mine"})
    r = cay("exec", "No Name!", "--", "true")
    assert r.returncode == 4 and "there is no sandbox 'No Name!'" in r.stderr and box
    assert "hint: 'cay ls --all'" in cay("pause", "nobody").stderr


def test_a_name_is_never_anothers(daemon, cay):
    daemon.say["GET", "/v1/sandboxes"] = fake_daemon.reply(200, {"sandboxes": [daemon.add(name="yours")]})
    assert cay("rm", "mine").returncode == 4 and daemon.sandboxes


def test_pause_and_resume(daemon, cay):
    box = daemon.add(name="mine")
    for word, state in ("pause", "paused"), ("resume", "running"), ("stop", "stopped"), ("start", "running"):
        r = cay(word, "mine")
        assert (r.returncode, r.stdout, r.stderr) == (0, "", "") and box["state"] == state
    assert json.loads(cay("pause", "--json", box["id"]).stdout)["state"] == "paused"
    daemon.say["POST", "/v1/sandboxes/*/resume"] = fake_daemon.failure(409, "wrong_state", "it is not paused")
    r = cay("resume", "mine")
    assert r.returncode == 5 and r.stderr == "cay: it is not paused\n  hint: a hint\n"


def test_limits_and_usage(daemon, cay):
    box = daemon.add(name="mine", limits={"memory_bytes": 512 << 20, "cpu_milli": 1000, "pids": 256})
    r = cay("limits", "mine")
    rest = "nofile=4096\nshm=64Mi\noutput-size=16Mi\n"
    assert (r.returncode, r.stdout) == (0, "memory=512Mi\ncpu=1\npids=256\n" + rest) and not hasattr(daemon, "limits")
    r = cay("limits", "mine", "--memory", "1Gi", "--cpu", "1500m")
    assert (r.returncode, r.stdout) == (0, "memory=1Gi\ncpu=1500m\npids=256\n" + rest)
    assert daemon.limits == {"memory_bytes": 1 << 30, "cpu_milli": 1500}
    assert json.loads(cay("limits", "--json", "--pids", "300", "mine").stdout)["limits"]["pids"] == 300
    r = cay("limits", "mine", "--disk", "20Gi", "--inodes", "77")
    assert daemon.limits == {"disk_bytes": 20 << 30, "disk_inodes": 77}
    assert r.stdout.endswith(rest + "disk=20Gi\ninodes=77\n")
    r = cay("limits", "mine", "--memory", "lots")
    assert r.returncode == 2 and "lots" in r.stderr
    r = cay("usage", "mine")
    assert [line.split() for line in r.stdout.splitlines()] == [
        ["WHAT", "USED", "PEAK", "LIMIT"], ["memory", "5.0", "MiB", "3.0", "GiB", "1.0", "GiB"],
        ["cpu", "61.2", "s", "-", "1500m"], ["pids", "3", "-", "300"],
        ["disk", "7.0", "MiB", "-", "20.0", "GiB"], ["inodes", "9", "-", "77"], ["2", "processes", "killed", "by", "the", "memory", "limit"]]
    assert json.loads(cay("usage", "--json", box["id"]).stdout)["cpu_ms"] == 61250


def test_hold(daemon, cay):
    daemon.add(name="mine")
    r = cay("hold", "mine", "90m")
    assert (r.returncode, r.stdout) == (0, "2099-01-02T03:04:05.678Z\n") and daemon.held == {"for_ms": 5400000}
    assert cay("hold", "mine", "0s").returncode == 0 and daemon.held == {"for_ms": 0}
    assert cay("hold", "mine", "long").returncode == 2


def test_extend(daemon, cay):
    daemon.add(name="mine")
    r = cay("extend", "mine", "90m")
    assert (r.returncode, r.stdout) == (0, "2099-01-02T03:04:05.678Z\n") and daemon.extended == {"ttl_ms": 5400000}
    r = cay("extend", "mine", "long")
    assert r.returncode == 2 and "invalid duration 'long'" in r.stderr
    assert cay("extend", "mine").returncode == 2
    for time in "999ms", "367d", "99999999999999999d":
        r = cay("extend", "mine", time)
        assert r.returncode == 2 and "is out of range (1s to 366d)" in r.stderr


def test_label_sets_and_removes(daemon, cay):
    daemon.add(name="mine", labels={"old": "1", "stays": "2"})
    r = cay("label", "mine", "team=blue", "old-", "empty=", "x=a-b")
    assert (r.returncode, r.stdout) == (0, "stays=2\nteam=blue\nempty=\nx=a-b\n"), r.stderr
    assert daemon.patch == {"team": "blue", "old": None, "empty": "", "x": "a-b"}
    daemon.requests.clear()
    assert cay("label", "mine").stdout == "stays=2\nteam=blue\nempty=\nx=a-b\n"
    assert all(q[0] == "GET" for q in daemon.requests)
    for bad in ["plain"], ["=x"], ["-"], ["a=1", "a-"]:
        assert cay("label", "mine", *bad).returncode == 2


def test_rm_of_a_group_waits_for_each(daemon, cay):
    mine = [daemon.add(group="g") for _ in range(5)]
    other = daemon.add(group="h")
    assert cay("rm", "--group", "g").returncode == 0
    assert list(daemon.sandboxes) == [other["id"]]
    assert [q[2] for q in daemon.requests if q[:2] == ("DELETE", "/v1/sandboxes")] == [{"group": "g"}]
    assert len([q for q in daemon.requests if q[0] == "DELETE"]) == 1 + len(mine)
    assert cay("rm", "--group", "g").returncode == 0
    for words in ["--group", "g", "--all"], ["--group", "g", "x"], ["--group"]:
        assert cay("rm", *words).returncode == 2


def rows(text):
    """The two columns of `cay why`."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in text.splitlines())


@pytest.mark.parametrize("reason", REASONS)
def test_why_has_words_and_advice_for_every_reason(daemon, cay, reason):
    daemon.add(name="gone", state="failed", group="g", labels={"a": "b"}, end={
        "reason": reason, "detail": "what\x1b[2J was seen", "signal": "SIGKILL", "exit_code": 3, "inferred": True})
    r = cay("why", "gone")
    assert r.returncode == 0, r.stderr
    got = rows(r.stdout)
    assert got["reason"].startswith(reason + ": ") and len(got["reason"]) > len(reason) + 10 and len(got["next"]) > 20
    assert (got["evidence"], got["signal"], got["exit code"]) == ("what\\x1b[2J was seen", "SIGKILL", "3")
    assert "inferred" in got["certainty"] and got["lived"] == "1 s" and got["state"] == "failed"
    assert got["labels"] == "a=b" and got["limits"] == "memory 512Mi, cpu 1000m, pids 1024"


def test_why_says_only_what_is_known(daemon, cay):
    box = daemon.add(state="terminated", end={"reason": "killed"})
    got = rows(cay("why", box["id"]).stdout)
    assert not {"evidence", "signal", "exit code", "certainty", "group", "labels"} & set(got)


def test_why_says_what_memory_there_was(daemon, cay):
    box = daemon.add(state="failed", end={"reason": "oom", "detail": "memory limit 67108864, peak 67108863", "inferred": True,
                                          "memory_limit_bytes": 67108864, "memory_peak_bytes": 67108863})
    got = rows(cay("why", box["id"]).stdout)
    assert got["memory"] == "limit 64Mi, peak 67108863" and got["evidence"] == "memory limit 67108864, peak 67108863"


def test_why_of_one_that_runs(daemon, cay):
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=59, seconds=30)
    daemon.add(name="mine", expires_at=soon.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
    daemon.add(name="free")
    got = rows(cay("why", "mine").stdout)
    assert got["state"] == "running: it has not ended" and got["deadline"].endswith("Z, in 59 min")
    assert "reason" not in got and "next" not in got
    assert rows(cay("why", "free").stdout)["deadline"] == "none"
    assert json.loads(cay("why", "--json", "mine").stdout)["name"] == "mine"


def test_why_finds_the_live_one_then_the_last_that_ended(daemon, cay):
    first = daemon.add(name="mine", state="failed", end={"reason": "oom"})
    daemon.add(name="mine", state="terminated", end={"reason": "ttl"})
    assert first["id"] in cay("why", "mine").stdout  # lists come newest first
    live = daemon.add(name="mine")
    assert live["id"] in cay("why", "mine").stdout
    assert cay("why", "nobody").returncode == 4


def test_fsck(daemon, cay):
    box = daemon.add()
    r = cay("fsck")
    assert (r.returncode, r.stdout) == (0, "1 sandboxes compared, 0 findings\n")
    daemon.findings = [{"sandbox": box["id"], "kind": "lost", "detail": "x"},
                       {"sandbox": fake_daemon.new_id("sb"), "kind": "foreign"}]
    r = cay("fsck")
    lines = r.stdout.splitlines()
    assert r.returncode == 1 and lines[0].split() == ["ID", "KIND", "MEANING", "--repair"]
    assert "it should be running and has no PID 1" in lines[1] and lines[1].endswith("ends it with the reason node_lost")
    assert lines[-1] == "1 sandboxes compared, 2 findings"
    assert len(json.loads(cay("fsck", "--json").stdout)["findings"]) == 2
    checks = {c["name"]: c for c in json.loads(cay("doctor", "--json").stdout)["checks"]}
    assert checks["journal"]["verdict"] == "WARN" and "2 findings" in checks["journal"]["found"]
    assert not any(q[:2] == ("POST", "/v1/fsck") for q in daemon.requests)
    r = cay("fsck", "--repair")
    lines = r.stdout.splitlines()
    assert r.returncode == 1 and lines[0].split()[-1] == "DONE"
    assert lines[1].endswith("node_lost") and lines[2].endswith("  nothing")
    assert cay("fsck").stdout.splitlines()[-1] == "1 sandboxes compared, 1 findings"


def test_doctor_asks_fsck_only_of_a_daemon_that_answers(daemon, cay):
    checks = {c["name"]: c for c in json.loads(cay("doctor", "--json").stdout)["checks"]}
    assert checks["journal"]["verdict"] == "OK"
    daemon.path = "/nowhere/control.sock"
    assert re.search(r"^WARN +journal +not compared: ", cay("doctor").stdout, re.M)


def test_doctor_says_what_a_proxy_hides(daemon, cay, monkeypatch):
    def verdict():
        return {c["name"]: c["verdict"] for c in json.loads(cay("doctor", "--json").stdout)["checks"]}["proxy"]
    assert verdict() == "OK"
    monkeypatch.setenv("CAY_EDGE_PLAIN", "yes")
    assert verdict() == "WARN"
    monkeypatch.setenv("CAY_EDGE_TRUSTED", "10.0.0.1")
    assert verdict() == "OK"


def test_events_are_listed_past_a_page(daemon, cay):
    box, other = daemon.add(name="mine"), daemon.add(group="g")
    for i in range(2500):
        daemon.happen(box if i % 2 else other, "running")
    daemon.happen(box, "failed", end={"reason": "exit", "exit_code": 3, "detail": "bad\x1b"})
    lines = cay("events").stdout.splitlines()
    assert lines[0].split() == ["SEQ", "AT", "SANDBOX", "STATE", "WHY"]
    assert [int(line.split()[0]) for line in lines[1:]] == list(range(1, 2502))
    assert lines[-1].endswith("  failed      exit 3: bad\\x1b") and len({line.index("running") for line in lines[1:-1]}) == 1
    assert len(cay("events", "mine").stdout.splitlines()) == 1252
    assert len(cay("events", "--group", "g", "--after", "100").stdout.splitlines()) == 1201
    assert [json.loads(line)["seq"] for line in cay("events", "--json", "--after", "2499").stdout.splitlines()] == [2500, 2501]
    assert cay("events", "nobody").returncode == 4


def test_following_goes_on_by_number(daemon, cay):
    box = daemon.add()
    daemon.cut = 500
    for _ in range(20):
        daemon.happen(box, "running")
    p = cay.start("events", "-f", "--json", "--after", "2")
    got = [json.loads(p.stdout.readline())["seq"] for _ in range(18)]
    daemon.happen(box, "paused")
    got.append(json.loads(p.stdout.readline())["seq"])
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=30)
    asked = [int(q[2]["after"]) for q in daemon.requests]
    assert got == list(range(3, 22)) and len(asked) > 3 and asked == sorted(asked)
    assert b"continuing after event" in err and p.returncode == -signal.SIGINT


def test_following_outlives_a_daemon(daemon, cay):
    box = daemon.add()
    daemon.happen(box, "running")
    p = cay.start("events", "-f", "--json")
    assert json.loads(p.stdout.readline())["seq"] == 1
    daemon.cut = 1
    daemon.stop()
    os.unlink(daemon.path)
    daemon.happen(box, "paused")  # the connection ends; nobody listens
    again = fake_daemon.Fake(daemon.path)
    with again.happened:  # it may be asked already
        again.sandboxes, again.events = daemon.sandboxes, daemon.events
        again.happened.notify_all()
    try:
        assert json.loads(p.stdout.readline())["seq"] == 2
        again.happen(box, "running")
        assert json.loads(p.stdout.readline())["seq"] == 3
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=30)
        again.stop()


def stream(*events):
    text = "".join(events).encode()
    return fake_daemon.head(200, "text/event-stream", len(text)) + text


def test_following_tells_of_what_is_lost(daemon, cay):
    daemon.say["GET", "/v1/events"] = stream('event: gap\ndata: {"missed_until":40}\n\n', "event: news\ndata: ?\n\n")
    p = cay.start("events", "-f", "--after", "7")
    wait_for(lambda: len(daemon.requests) > 1)
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=30)
    assert b"cay: events 8 to 39 are no longer kept\n" in err


EVENT = {"seq": 1, "at": "2026-11-15T01:50:43.123Z", "sandbox": fake_daemon.new_id("sb"), "state": "running"}
BAD = {
    "no_stream": fake_daemon.reply(200, {"events": [], "next": 0}),
    "no_json": stream("event: sandbox\ndata: hello\n\n"),
    "no_event": stream('event: sandbox\ndata: {"seq":1}\n\n'),
    "control": stream(f'event: sandbox\ndata: {json.dumps({**EVENT, "state": "a"})}\n\n'),
    "long_line": stream("data: " + "x" * 20000),
    "long_event": stream("data: xxxxxxxx\n" * 3000),
    "refused": fake_daemon.failure(400, "invalid_argument", "no"),
}


@pytest.mark.parametrize("name", BAD)
def test_following_refuses_nonsense(daemon, cay, name):
    daemon.say["GET", "/v1/events"] = BAD[name]
    r = cay("events", "-f")
    assert r.returncode == (2 if name == "refused" else 7) and len(daemon.requests) == 1
    assert len(r.stdout.splitlines()) == (name not in ("refused", "no_stream")) and r.stderr.startswith("cay: ")


def test_following_without_a_daemon_fails_at_once(daemon, cay):
    daemon.path = "/nowhere/control.sock"
    assert cay("events", "-f").returncode == 8


def test_a_reader_that_leaves_ends_the_following(daemon, cay):
    box = daemon.add()
    daemon.happen(box, "running")
    p = cay.start("events", "-f", "--json")
    assert p.stdout.readline()
    p.stdout.close()
    daemon.happen(box, "paused")
    assert p.wait(30) == 128 + signal.SIGPIPE and p.stderr.read() == b""


def test_help_has_them_all(cay):
    text = cay("help").stdout
    for name in ("pause", "resume", "stop", "start", "extend", "hold", "label", "why", "events", "fsck"):
        assert re.search(rf"^  {name} ", text, re.M) and f"usage: cay {name}" in cay(name, "--help").stdout
