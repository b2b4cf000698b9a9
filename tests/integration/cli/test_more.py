# SPDX-License-Identifier: Apache-2.0
"""Logs, groups, pools, and templates with files: what has been there in the interface and not at the terminal"""
import base64
import json
import signal

import pytest

import fake as fake_daemon
from test_cli import wait_for

TEMPLATE = {"id": "tp" + "0" * 24, "name": "python", "created_at": "2026-11-15T01:50:43.123Z", "defaults": {"image": "base"}, "state": "ready"}


@pytest.fixture
def ran(daemon, cay, tmp_path):
    """A command that was started and runs on, and writes when it is told to: the file is there."""
    box, go = daemon.add(name="web"), tmp_path / "go"
    done = cay("exec", "-d", "web", "--", "sh", "-c", f"echo out; echo err >&2; until [ -e {go} ]; do sleep 0.02; done; echo more")
    wait_for(lambda: b"out" in daemon.last.out[1] and b"err" in daemon.last.out[2])
    return box, done.stdout.strip(), go


def test_logs_have_both_streams_of_the_last_command(daemon, cay, ran):
    r = cay("logs", "web")
    assert (r.returncode, r.stdout, r.stderr) == (0, "out\n", "err\n")
    assert cay("logs", "--stream", "stderr", "web").stdout == "" and cay("logs", "--stream", "stdout", "web").stderr == ""
    assert cay("logs", "--offset", "2", "web").stdout == "t\n"
    assert cay("logs", "web", ran[1]).stdout == "out\n"
    ran[2].touch()
    r = cay("logs", "-f", "web")
    assert (r.returncode, r.stdout, r.stderr) == (0, "out\nmore\n", "err\n")


def test_logs_go_on_where_a_connection_broke(daemon, cay, ran):
    daemon.cut = 22
    ran[2].touch()
    assert cay("logs", "-f", "web").stdout == "out\nmore\n"


def test_who_looks_does_not_end_it(daemon, cay):
    daemon.add(name="web")
    cay("exec", "-d", "web", "--", "sh", "-c", "echo out; exec sleep 100")
    p = cay.start("logs", "-f", "web")
    assert p.stdout.readline() == b"out\n"
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 0
    p.communicate()
    assert daemon.last.process.poll() is None and not [r for r in daemon.requests if r[1].endswith("/signal")]


def test_a_reader_that_has_had_enough_does_not_end_it_either(daemon, cay):
    daemon.add(name="web")
    cay("exec", "-d", "web", "--", "sh", "-c", "while :; do echo y; done")
    p = cay.start("logs", "-f", "web")
    p.stdout.readline()
    p.stdout.close()
    assert p.wait(30) == 0 and daemon.last.process.poll() is None
    assert not [r for r in daemon.requests if r[1].endswith("/signal")]
    p.stderr.close()


def test_the_main_program_is_looked_at_first(daemon, cay, ran):
    box, first, _ = ran
    cay("exec", "-d", "web", "--", "echo", "second")
    wait_for(lambda: daemon.last.end)
    second = daemon.last.id
    daemon.execs[second].json = lambda: {**fake_daemon.Exec.json(daemon.execs[second]), "started_at": "2026-11-15T01:50:44.123Z"}
    r = cay("logs", "web")
    assert (r.returncode, r.stdout, r.stderr) == (0, "second\n", "")
    box["entry"] = first
    assert cay("logs", "web").stdout == "out\n"


def test_commands_are_listed(daemon, cay, ran):
    lines = cay("logs", "--list", "web").stdout.splitlines()
    assert lines[0].split() == ["EXEC", "STATE", "AGE", "BYTES", "END"] and lines[1].split()[:2] == [ran[1], "running"]
    assert json.loads(cay("logs", "-l", "--json", "web").stdout)["execs"][0]["id"] == ran[1]


def test_logs_that_are_not_there(daemon, cay):
    daemon.add(name="web")
    r = cay("logs", "web")
    assert r.returncode == 4 and "'cay exec SANDBOX COMMAND'" in r.stderr
    assert "'cay logs --list SANDBOX'" in cay("logs", "web", "nonsense").stderr
    assert cay("logs", "--json", "web").returncode == 2


def test_groups_are_counted_and_ended(daemon, cay):
    for group, state in (("b", "running"), ("a", "running"), ("b", "paused"), ("b", "terminated"), (None, "running")):
        daemon.add(state=state, **({"group": group} if group else {}))
    lines = [line.split()[:4] for line in cay("group", "ls").stdout.splitlines()]
    assert lines == [["GROUP", "SANDBOXES", "RUNNING", "PAUSED"], ["a", "1", "1", "0"], ["b", "2", "1", "1"]]
    assert json.loads(cay("group", "ls", "--json").stdout)["groups"][1] == {"name": "b", "sandboxes": 2, "running": 1, "paused": 1}
    assert len(json.loads(cay("group", "rm", "--json", "b").stdout)["sandboxes"]) == 2
    assert [g["name"] for g in json.loads(cay("group", "ls", "--json").stdout)["groups"]] == ["a"]


def test_pools_are_listed(daemon, cay):
    pool = {"pool": {"min": 8, "max": 0, "on_empty": "fail"}, "pool_now": {"warm": 7, "starting": 1, "in_use": 30, "claimed": 120, "failed": 2}}
    daemon.say["GET", "/v1/templates"] = fake_daemon.reply(200, {"templates": [TEMPLATE, {**TEMPLATE, "name": "warm", **pool}]})
    lines = [line.split() for line in cay("pool", "ls").stdout.splitlines()]
    assert lines[1:] == [["warm", "8", "-", "7", "1", "30", "120", "2", "fail"]] and lines[0][0] == "TEMPLATE"
    assert [t["name"] for t in json.loads(cay("pool", "ls", "--json").stdout)["templates"]] == ["warm"]


def test_a_template_has_files_and_commands(daemon, cay, tmp_path):
    text, raw = tmp_path / "run.sh", tmp_path / "raw"
    text.write_text("echo hä\n")
    text.chmod(0o755)
    raw.write_bytes(b"\0\xff")
    got = []

    def take(c, f):
        got.append(json.loads(b"".join(daemon.body(f, daemon.now.headers))))
        c.sendall(fake_daemon.reply(201, {**TEMPLATE, "state": "building"}))
    daemon.say["POST", "/v1/templates"] = take
    r = cay("template", "create", "--file", f"/usr/bin/run={text}", "--file", f"/raw={raw}", "--setup", "mkdir /data", "--setup", "touch /data/x",
            "--python", "requests=", "--node", "typescript=5.6.3", "--r", "jsonlite=1.8.9", "--r", "R6=", "--memory", "1Gi", "--storage", "read_only", "--writable", "/a,/b", "--service", "web=exec httpd",
            "python", "base")
    assert (r.returncode, r.stdout) == (0, TEMPLATE["id"] + "\n"), r.stderr
    sent = got[0]
    assert sent["files"] == [{"path": "/usr/bin/run", "content": "echo hä\n", "mode": "0755"},
                             {"path": "/raw", "content_b64": base64.b64encode(b"\0\xff").decode(), "mode": "0644"}]
    assert sent["setup"] == ["mkdir /data", "touch /data/x"] and \
        sent["packages"] == {"python": {"requests": ""}, "node": {"typescript": "5.6.3"}, "r": {"jsonlite": "1.8.9", "R6": ""}}
    assert sent["defaults"]["image"] == "base" and sent["defaults"]["limits"] == {"memory_bytes": 1 << 30}
    assert sent["defaults"]["writable"] == ["/a", "/b"]
    assert [(s["name"], s["argv"], s["autostart"]) for s in sent["defaults"]["services"]] == [("web", ["/bin/sh", "-c", "exec httpd"], True)]
    large = tmp_path / "large"
    large.write_bytes(b"x" * ((1 << 20) + 1))
    r = cay("template", "create", "--file", f"/x={large}", "python", "base")
    assert r.returncode == 2 and "1 MiB" in r.stderr and len(got) == 1
    assert cay("template", "create", "--file", f"/x={tmp_path}/none", "python", "base").returncode == 2


def test_a_build_is_followed(daemon, cay):
    pieces = [("building", 0, "one\n\x1b[2J"), ("building", 4, "two\n"), ("failed", 8, "")]

    def log(c, f):
        state, at, text = pieces.pop(0) if len(pieces) > 1 else pieces[0]
        c.sendall(fake_daemon.reply(200, {"state": state, "offset": at, "next": at + 4 if text else at, "text": text}))
    daemon.say["GET", "/v1/templates"] = fake_daemon.reply(200, {"templates": [TEMPLATE]})
    daemon.say["GET", f"/v1/templates/{TEMPLATE['id']}/log"] = log
    r = cay("template", "log", "-f", "python")
    assert (r.returncode, r.stdout) == (1, "one\n\\x1b[2Jtwo\n")


def test_what_is_removed_can_be_printed(daemon, cay):
    (image,) = cay("image", "import", "--name", "x", "-", data=b"").stdout.split()
    assert json.loads(cay("image", "rm", "--json", "x").stdout)["id"] == image
    one, two = daemon.add(name="one"), daemon.add(name="two")
    r = cay("rm", "--json", "one", "nobody", "two")
    assert r.returncode == 4 and "nobody" in r.stderr
    assert [(s["id"], s["state"]) for s in json.loads(r.stdout)["sandboxes"]] == [(b["id"], "terminated") for b in (one, two)]
    assert cay("rm", "--json").stdout == ""
    said = json.loads(cay("version", "--json").stdout)
    assert said["cay"] == said["cayd"] == "0.1.0"
