# SPDX-License-Identifier: Apache-2.0
"""The `cay` program against real daemons: a sandbox's whole story by the command line."""
import datetime
import json
import os
import re
import signal
import subprocess

import push
import pytest
from cay import wait_for
from test_control import nothing_is_left
from test_life import restart

ID = r"sb[0-9a-z]{24}"


@pytest.fixture
def run(own):
    """`cay` with the test's own daemons."""
    def start(*words, **more):
        env = {**os.environ, "CAY_SOCKET": own.socket, "CAY_TIMEOUT": "20s"}
        return subprocess.Popen([str(own.programs["cay"]), *words], env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def finished(*words, status=0):
        p = start(*words)
        out, err = p.communicate(timeout=60)
        assert p.returncode == status, (words, p.returncode, out, err)
        return out if status in (0, 1) else err

    finished.start = start
    return finished


def rows(text):
    return dict(re.split(r"  +", line, maxsplit=1) for line in text.splitlines())


def at(text):
    return datetime.datetime.fromisoformat(text)


def names(text):
    """NAME of every row of `cay ls`."""
    return {line.split()[1] for line in text.splitlines()[1:]}


def last_states(run, box):
    return [json.loads(line)["state"] for line in run("events", "--json", box).splitlines()]


def test_a_whole_life(own, run):
    mine = run("create", "--ttl", "1h", "--group", "thread-7", "--label", "team=blue", "--name", "mine", "tiny").strip()
    assert re.fullmatch(ID, mine)
    other = run("create", "--group", "thread-7", "--name", "other", "--no-wait", "tiny").strip()
    apart = run("create", "--name", "apart", "tiny").strip()
    wait_for("the one that was not waited for", lambda: own.get(other)["state"] == "running", 30)
    assert run("exec", "mine", "--", "sh", "-c", "echo hi; pwd") == "hi\n/workspace\n"

    lines = {line.split()[1]: line for line in run("ls").splitlines()}
    assert set(lines) == {"NAME", "mine", "other", "apart"}
    assert re.search(r"  in (59|60) min$", lines["mine"])

    run("pause", "mine")
    assert names(run("ls", "--state", "paused")) == {"mine"}
    assert "is paused" in run("exec", "mine", "--", "true", status=5)
    run("resume", "mine")
    assert run("exec", "mine", "--", "echo", "again") == "again\n"

    assert set(run("label", "mine", "team-", "x=1", "y=2").split()) == {"x=1", "y=2"}
    assert set(run("label", "mine").split()) == {"x=1", "y=2"}
    assert "cay/x" in run("label", "mine", "cay/x=1", status=2)
    assert names(run("ls", "--label", "x")) == names(run("ls", "--label", "x=1")) == {"mine"}
    assert names(run("ls", "--label", "x=2")) == names(run("ls", "--label", "team")) == set()
    assert names(run("ls", "--group", "thread-7")) == {"mine", "other"}

    until = run("extend", "mine", "2h").strip()
    got = rows(run("why", "mine"))
    assert got["state"] == "running: it has not ended" and got["group"] == "thread-7"
    # a deadline is of the boot's clock and told by the wall's, which may be set meanwhile
    apart_s = at(got["deadline"].split(",")[0]) - at(until)
    assert abs(apart_s.total_seconds()) < 1 and got["deadline"].endswith(("in 119 min", "in 2 h"))

    assert run("fsck").endswith("3 sandboxes compared, 0 findings\n")
    run("rm", "--group", "thread-7")
    assert names(run("ls")) == {"apart"} and names(run("ls", "--all")) == {"mine", "other", "apart"}
    got = rows(run("why", "mine"))
    assert got["reason"].startswith("killed: ") and "group" in got["evidence"] and got["next"] and got["state"] == "terminated"
    wait_for("all of it", lambda: last_states(run, mine)[-2:] == ["ending", "terminated"], 20)
    assert last_states(run, mine) == ["running", "paused", "running", "ending", "terminated"]
    assert mine in run("events", "--group", "thread-7") and apart not in run("events", "--group", "thread-7")
    run("rm", "apart")
    assert run("fsck").endswith(" 0 findings\n")
    nothing_is_left(own)


def test_a_key_is_one_sandbox_also_by_the_command_line(own, run):
    first = run("create", "--key", "k1", "tiny")
    assert run("create", "--key", "k1", "tiny") == first
    assert "another request" in run("create", "--key", "k1", "--pids", "99", "tiny", status=5)
    run("rm", "--all")


def test_why_it_ended(own, run):
    for words, reason, more in (
            (["--ttl", "1s", "--no-wait", "tiny"], "ttl", {}),
            (["--on-exit", "end", "tiny", "--", "sh", "-c", "exit 3"], "exit", {"exit code": "3", "state": "failed"})):
        box = run("create", *words).strip()
        wait_for("its end", lambda box=box: "reason" in rows(run("why", box)), 30)
        wait_for("all of it gone", lambda box=box: own.get(box)["state"] in ("terminated", "failed"), 30)
        got = rows(run("why", box))
        assert got["reason"].startswith(reason + ": ") and got["evidence"] and more.items() <= got.items()
    killed = run("create", "tiny").strip()
    os.kill(own.pid_1(killed), signal.SIGKILL)
    wait_for("its end", lambda: "reason" in rows(run("why", killed)), 30)
    got = rows(run("why", killed))
    assert got["reason"].startswith("signal: ") and got["signal"] == "SIGKILL" and "certainty" not in got


def test_fsck_finds_and_repairs(own, run):
    box = run("create", "--name", "deaf", "tiny").strip()
    (own.run / "box" / box).unlink()
    found = run("fsck", status=1)
    assert re.search(rf"^{box}  deaf +its socket is gone", found, re.M) and found.endswith(" 1 findings\n")
    assert run("fsck", "--repair", status=1).splitlines()[1].endswith("ends it with the reason node_lost")
    wait_for("its end", lambda: own.get(box)["state"] in ("terminated", "failed"), 30)
    assert run("fsck").endswith(" 0 findings\n")
    assert rows(run("why", "deaf"))["reason"].startswith("node_lost: ")
    checks = {c["name"]: c for c in json.loads(doctor(run))["checks"]}
    assert checks["journal"]["verdict"] == "OK"


def doctor(run):
    """Whatever this machine is like."""
    return run.start("doctor", "--json").communicate(timeout=60)[0]


def test_following_loses_nothing_when_daemons_die(own, run):
    p = run.start("events", "--follow", "--json")
    boxes, seen = [], []
    try:
        for _ in range(3):
            boxes.append(run("create", "tiny").strip())
            if not seen:
                seen.append(json.loads(p.stdout.readline()))  # it has begun: one that never got through is no follower
            restart(own, "cayd")
            run("pause", boxes[-1])
            run("rm", boxes[-1])
        while len(seen) < 3 * 4:
            seen.append(json.loads(p.stdout.readline()))
    finally:
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=30)
    assert [(e["sandbox"], e["state"]) for e in seen] == [
        (b, s) for b in boxes for s in ("running", "paused", "ending", "terminated")]
    numbers = [e["seq"] for e in seen]
    assert numbers == sorted(set(numbers)) and "continuing after event" in err


def whose(own, secret):
    """What the edge would hear about this key; None when it is not good."""
    return push.whose(str(own.run / "edge" / "push.sock"), secret)


def test_usage_by_tenant_and_label(own, run):
    run("create", "--label", "team=blue", "--name", "one", "tiny")
    run("create", "--label", "team=blue", "--name", "two", "tiny")
    run("create", "--name", "bare", "tiny")
    head, row = run("usage", "--by", "tenant").splitlines()
    assert re.split(r"  +", head) == ["TENANT", "SANDBOXES", "ENDED", "CPU", "MEMORY", "MEMORY LIMITS", "PROCESSES", "DISK"]
    cells = re.split(r"  +", row)
    assert cells[:3] == ["default", "3", "0"] and re.fullmatch(r"\d+\.\d s", cells[3]) and cells[5] == "1.5 GiB"
    assert int(cells[6]) >= 3
    by = {line.split()[0]: line.split()[1] for line in run("usage", "--by", "label", "team").splitlines()[1:]}
    assert by == {"blue": "2", "-": "1"}
    assert [r["sandboxes"] for r in json.loads(run("usage", "--by", "label", "--json", "team"))["usage"]] == [2, 1]
    run("rm", "bare")
    assert json.loads(run("usage", "--by", "tenant", "--json"))["usage"][0]["ended"] == 1
    assert rows(run("usage", "one"))["memory"]
    assert "--by tenant" in run("usage", status=2)
    assert "name of a label" in run("usage", "--by", "label", status=2)
    assert "no other word" in run("usage", "--by", "tenant", "one", status=2)
    assert "--by" in run("usage", "--group", "g", "one", status=2)


def test_tenants_and_keys(own, run, tmp_path):
    tenant = run("tenant", "create", "team-blue").strip()
    assert re.fullmatch(r"tn[0-9a-z]{24}", tenant)
    assert "'team-blue'" in run("tenant", "create", "team-blue", status=5)
    assert names(run("tenant", "ls")) == {"default", "team-blue"}
    p = run.start("key", "create", "--tenant", "team-blue", "--scope", "read", "--ttl", "1d", "laptop")
    secret, said = p.communicate(timeout=60)
    assert p.returncode == 0 and re.fullmatch(r"cay_[0-9a-z]{8}_[\w-]{43}\n", secret) and "not be shown again" in said
    assert secret.strip() not in said and whose(own, secret.strip()).startswith(f"{tenant} read ky")
    prefix = secret[4:12]
    table = run("key", "ls")
    assert table.splitlines()[0].split() == ["PREFIX", "NAME", "TENANT", "SCOPE", "STATE", "AGE", "USED", "LEFT"]
    row = next(line for line in table.splitlines() if line.startswith(prefix))
    assert row.split()[1:5] == ["laptop", tenant, "read", "good"] and ("23 h" in row or "1 d" in row), row
    assert secret[13:56] not in table + run("key", "ls", "--json")
    assert "1 active key" in run("tenant", "rm", "team-blue", status=5)

    file = tmp_path / "new.key"
    assert run("key", "rotate", "--overlap", "1h", "--out", str(file), prefix) == prefix + "\n"
    assert file.stat().st_mode & 0o777 == 0o600 and whose(own, file.read_text().strip()) == whose(own, secret.strip())
    made = json.loads(run("key", "rotate", "--json", prefix))
    assert whose(own, made["secret"]) and not whose(own, secret.strip()) and made["key"]["prefix"] == prefix
    old, file = file.read_text(), tmp_path / "new.key"
    assert json.loads(run("key", "rotate", "--json", "--out", str(file), made["key"]["id"])) \
        == next(k for k in json.loads(run("key", "ls", "--json"))["keys"] if k["prefix"] == prefix)
    assert file.read_text() != old and whose(own, file.read_text().strip())

    run("key", "revoke", prefix)
    assert whose(own, file.read_text().strip()) is None and f"{prefix}  laptop" in run("key", "ls")
    assert "there is no key 'zzzzzzzz'" in run("key", "revoke", "zzzzzzzz", status=4)
    run("tenant", "rm", "team-blue")
    assert "there is no tenant 'team-blue'" in run("key", "create", "--tenant", "team-blue", "x", status=4)
    assert names(run("tenant", "ls")) == {"default"}


def test_logs_groups_and_what_a_template_is_built_of(own, run, tmp_path):
    run("create", "--group", "team", "--name", "mine", "tiny", "--", "sh", "-c", "echo main; echo no >&2; exec sleep 60")

    def logs():
        """Of both streams, once there is a command."""
        p = run.start("logs", "mine")
        return (*p.communicate(timeout=60), p.returncode)
    wait_for("its output", lambda: logs() == ("main\n", "no\n", 0), 30)
    assert run("logs", "mine") == "main\n"
    late = run("exec", "-d", "mine", "--", "sh", "-c", "echo one; sleep 0.3; echo two; exit 3").strip()
    assert run("logs", "-f", "mine", late) == "one\ntwo\n" and run("logs", "--offset", "4", "mine", late) == "two\n"
    assert re.search(rf"^{late} +ended .* exit 3$", run("logs", "--list", "mine"), re.M)
    assert run("group", "ls").splitlines()[1].split()[:4] == ["team", "1", "1", "0"]
    assert [s["state"] for s in json.loads(run("group", "rm", "--json", "team"))["sandboxes"]] == ["terminated"]
    assert len(run("group", "ls").splitlines()) == 1
    (tmp_path / "hello").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "hello").chmod(0o755)
    run("template", "create", "--service", "ticker=sleep 1234", "--file", f"/bin/hello={tmp_path}/hello", "--setup", "echo building; touch /made", "with", "tiny")
    assert "building" in run("template", "log", "-f", "with")
    assert run("run", "--template", "with", "--", "sh", "-c", "hello; ls /made") == "hello\n/made\n"
    own_ = run("create", "--template", "with", "--name", "served").strip()
    other = run("create", "--service", "x=sleep 5678", "tiny").strip()
    assert [run("service", "ls", b).splitlines()[1].split()[:2] for b in (own_, other)] == [["ticker", "running"], ["x", "running"]]
    run("template", "pool", "--min", "1", "with")
    wait_for("a warm one", lambda: run("pool", "ls").splitlines()[1].split()[:5] == ["with", "1", "-", "1", "0"], 20)


def test_a_template_from_a_snapshot(own, run):
    run("create", "--name", "seed", "tiny")
    run("exec", "seed", "--", "sh", "-c", "echo here >me")
    sn = run("snapshot", "create", "--name", "kept", "seed").strip()
    for words in (("kind",), ("--from", "kept", "kind", "tiny")):
        assert "expected either IMAGE or --from SNAPSHOT" in run("template", "create", *words, status=2)
    assert "nosuch" in run("template", "create", "--from", "nosuch", "kind", status=4)
    assert re.fullmatch(r"tp[0-9a-z]{24}\n", run("template", "create", "--from", "kept", "--env", "A=1", "kind"))
    assert json.loads(run("template", "show", "kind"))["defaults"]["snapshot"] == sn
    assert run("template", "ls").splitlines()[1].split()[:3] == ["kind", "-", "ready"]
    assert run("run", "--template", "kind", "--", "sh", "-c", "cat me; echo $A") == "here\n1\n"
    assert "template 'kind' starts sandboxes from this snapshot" in run("snapshot", "rm", "kept", status=5)
    run("template", "rm", "kind")
    run("snapshot", "rm", "kept")


def test_a_hint_names_what_failed_and_not_the_key(own, run, tmp_path):
    run("create", "--name", "work", "tiny")
    file = tmp_path / "f"
    file.write_text("x")
    said = run("cp", str(file), "work:/proc/nothing", status=3)
    assert "hint: the user inside the sandbox lacks permission" in said, said
    said = run("image", "pull", "docker.io/library/python:3.12", status=3)
    assert "images.registries of cay.conf does not name 'docker.io'" in said and "hint: an operator adds the registry" in said, said
    said = run("template", "create", "py", "nosuchimage", status=4)
    assert "hint: 'cay image ls' lists images" in said, said
    run("rm", "work")


def test_egress_policies(own, run):
    """Of two denials the newer comes first; what would need cay-egress is refused, and nothing is created for it."""
    box = run("create", "--deny", "a.example:22,8000-8010", "tiny").strip()
    shown = rows(run("egress", "show", box))
    assert (shown["generation"], shown["attached"], shown["default"]) == ("1", "no", "deny")
    shown = run("egress", "set", "--preset", "none", "--deny", "*.b.example:80", box).splitlines()
    assert [re.split(r"  +", line) for line in shown if line.startswith(("deny", "preset"))] == [["deny", "*.b.example:80"], ["preset", "none"]]
    assert "*.b.example:80" in run("egress", "deny", box, "c.example")
    policy = json.loads(run("egress", "show", "--json", box))
    assert policy["generation"] == 3 and [r["to"] for r in policy["policy"]["rules"]] == ["c.example", "*.b.example"]
    assert policy["policy"]["rules"][1]["ports"] == [80] and policy["policy"]["presets"] == ["none"]
    assert run("egress", "check", box, "c.example").startswith("deny  rule 0 of the sandbox's policy denies it")
    assert json.loads(run("egress", "check", "--json", "--port", "80", box, "x.b.example"))["rule"] == 1
    assert rows(run("egress", "presets"))["none"].startswith("0 rules")
    for words in (("egress", "allow", box, "c.example"), ("egress", "set", "--allow", "c.example", box), ("create", "--allow", "c.example", "tiny")):
        assert "cay-egress" in run(*words, status=8)
    assert "there is no preset" in run("create", "--egress", "absent", "tiny", status=2)
    assert json.loads(run("egress", "show", "--json", box)) == policy and len(names(run("ls"))) == 1


def test_egress_policies_of_a_tenant(own, run):
    run("tenant", "create", "blue")
    run("tenant", "set", "--egress", "none", "--egress-max", "none", "--egress-max", "*.b.example:80,8000-8010", "--egress-max", "c.example", "blue")
    said = json.loads(run("tenant", "show", "--json", "blue"))["tenant"]
    assert said["egress_default"] == {"presets": ["none"], "rules": [], "default": "deny"}
    assert said["egress_max"] == {"presets": ["none"], "default": "deny", "rules": [
        {"action": "allow", "to": "*.b.example", "ports": [80, "8000-8010"]}, {"action": "allow", "to": "c.example"}]}
    shown = [[w.strip() for w in re.split(r"  +", line.strip())] for line in run("tenant", "show", "blue").splitlines()]
    assert shown[-2:] == [["egress without a policy", "none"], ["egress at most", "*.b.example:80,8000-8010 c.example none"]], shown
    assert "there is no preset" in run("tenant", "set", "--egress-max", "absent", "blue", status=2)
    run("tenant", "set", "--reset", "blue")
    assert "egress" not in run("tenant", "show", "blue")
