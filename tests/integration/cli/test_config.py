# SPDX-License-Identifier: Apache-2.0
"""cay.conf as a person meets it: `cay config`, and what still works with a file that is not valid"""
import json
import os
import pathlib
import subprocess

import pytest

from conftest import CAY

BAD = "[log]\nlevel = debug\n[bogus]\n"
ROOM = 'mkdir -p "$0/etc" "$0/work" && mount -t overlay -o "lowerdir=/etc,upperdir=$0/etc,workdir=$0/work" overlay /etc && exec "$@"'


class Machine:
    """/etc/cay/cay.conf of its own."""

    def __init__(self, tmp):
        self.tmp = tmp

    def write(self, text):
        at = self.tmp / "etc/cay/cay.conf"
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)

    def run(self, *words, **env):
        return subprocess.run(["unshare", "--mount", "sh", "-c", ROOM, str(self.tmp), CAY, *words],
                              env={"PATH": os.environ["PATH"], "HOME": str(self.tmp), "CAY_TIMEOUT": "5s", **env},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


@pytest.fixture
def machine(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs a mount namespace")
    return Machine(tmp_path_factory.mktemp("machine"))


def test_a_file_that_is_not_valid_stops_no_command_that_helps(machine):
    machine.write(BAD)
    wrong = "/etc/cay/cay.conf:3: there is no section [bogus]"
    assert machine.run("version").stdout.startswith("cay ")
    assert "Usage" in machine.run("help").stdout or machine.run("help").returncode == 0
    doctor = machine.run("doctor", "--json")
    checks = {c["name"]: c for c in json.loads(doctor.stdout)["checks"]}
    assert checks["settings"]["verdict"] == "FAIL" and wrong in checks["settings"]["found"] and len(checks) > 10
    setup = json.loads(machine.run("setup", "--check", "--json").stdout)
    steps = {s["name"]: s for s in setup["steps"]}
    assert steps["settings"]["state"] == "failed" and wrong in steps["settings"]["found"] and len(steps) == 9

    for words in (["ls"], ["config", "check"], ["config", "show"], ["audit", "verify"]):
        done = machine.run(*words)
        assert done.returncode == 2 and wrong in done.stderr, (words, done)
    assert "hint: correct it; 'cay config check'" in machine.run("ls").stderr
    assert machine.run("ls", CAY_CONTEXT="elsewhere").returncode != 2, "another machine's daemon needs no file of this one"


def test_check_names_the_line_and_takes_another_file(machine):
    assert machine.run("config", "check").stdout == "/etc/cay/cay.conf does not exist: every setting has its default\n"
    machine.write("[log]\nlevel = debug\n# [edge]\n[limits]\nsandboxes = 7\n")
    assert machine.run("config", "check").stdout == "/etc/cay/cay.conf is valid; settings in it: 2\n"
    assert json.loads(machine.run("config", "check", "--json").stdout) == {"file": "/etc/cay/cay.conf", "exists": True, "settings": 2}
    other = machine.tmp / "other.conf"
    for text, says in ((BAD, "other.conf:3: there is no section"), ("[limits]\nsandboxes = many\n", "other.conf:2: sandboxes = 'many' is not a number"),
                       ("[jwt]\nkeys = /k\n", "set jwt.issuer and jwt.audience"), ("[egress]\nmap = a.example=m.example:0\n", "egress.map: 'a.example=m.example:0'"),
                       ("[egress]\nproxy = http:" + "//u:p@192.0.2.7:1\n", "egress.proxy is not"), ("[egress]\nno_proxy = .example\n", "egress.no_proxy: '.example'")):
        other.write_text(text)
        done = machine.run("config", "check", str(other))
        assert done.returncode == 2 and says in done.stderr, done
    assert machine.run("config", "check", str(machine.tmp / "none")).returncode == 4
    assert "is not a number" in machine.run("config", "check", CAY_LIMITS_SANDBOXES="x").stderr


def test_show_says_where_each_value_comes_from(machine):
    machine.write("[log]\nlevel = debug\n[limits]\nsandboxes = 7\nmax_ttl = 2d\n")
    rows = json.loads(machine.run("config", "show", "--json", CAY_LIMITS_SANDBOXES="9").stdout)["settings"]
    found = {f"{r['section']}.{r['key']}": r for r in rows}
    sample = (pathlib.Path(__file__).parents[3] / "docs/cay.conf.sample").read_text()
    assert len(found) == sum(l.startswith("#") and " =" in l and not l.startswith("# ") for l in sample.splitlines())
    assert (found["log.level"]["value"], found["log.level"]["from"], found["log.level"]["line"]) == ("debug", "file", 2)
    assert (found["limits.sandboxes"]["value"], found["limits.sandboxes"]["from"]) == ("9", "variable")
    assert found["limits.sandboxes"]["variable"] == "CAY_LIMITS_SANDBOXES" and "line" not in found["limits.sandboxes"]
    assert (found["paths.state"]["value"], found["paths.state"]["from"]) == ("/var/lib/cay", "default")
    text = machine.run("config", "show", "--changed", CAY_LIMITS_SANDBOXES="9").stdout.splitlines()
    assert [l.split() for l in text] == [["SETTING", "VALUE", "FROM"], ["log.level", "debug", "/etc/cay/cay.conf:2"],
                                         ["limits.sandboxes", "9", "CAY_LIMITS_SANDBOXES"], ["limits.max_ttl", "2d", "/etc/cay/cay.conf:5"]]
