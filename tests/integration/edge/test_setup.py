# SPDX-License-Identifier: Apache-2.0
"""`cay setup` on a machine whose /etc is the test's own: what is missing is made, and only once"""
import json
import os
import pathlib
import re
import subprocess

import pytest

from conftest import BUILD
from world import World, tiny

ROOM = 'mount -t overlay -o "lowerdir=/etc,upperdir=$0/upper,workdir=$0/work" overlay /etc && exec "$@"'


class Machine:
    """/etc in a mount namespace; what is written there stays in a directory, for the next run."""

    def __init__(self, world, tmp):
        self.world, self.tmp = world, tmp
        for name in ("upper", "work", "home"):
            (tmp / name).mkdir()
        passwd = pathlib.Path("/etc/passwd").read_text()
        (tmp / "upper/passwd").write_text(f"{passwd}person:x:1234:1234::{tmp}/home:/bin/sh\n")
        os.chmod(tmp / "upper", 0o755)
        os.chown(tmp / "home", 1234, 1234)

    def etc(self, name):
        return self.tmp / "upper" / name

    def run(self, *words, status=0, env=None, program="cay", room=ROOM):
        done = subprocess.run(["unshare", "--mount", "sh", "-c", room, str(self.tmp), str(self.world.programs[program]), *words],
                              env={**self.world.env, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)
        assert done.returncode == status, (done.stdout, done.stderr)
        return done

    def steps(self, *words, status=0, **kw):
        said = json.loads(self.run("setup", "--json", *words, status=status, **kw).stdout)
        return {s["name"]: s["state"] for s in said["steps"]}, said


@pytest.fixture
def machine():
    # /tmp is memory, which overlay can have on top; others must pass through to the home
    with World(BUILD) as world:
        tmp = pathlib.Path("/tmp", world.name)
        tmp.mkdir(mode=0o755)
        for image in world.call("GET", "/v1/images")["images"]:
            world.call("DELETE", f"/v1/images/{image['id']}")
        yield Machine(world, tmp)
    subprocess.run(["rm", "-rf", str(tmp)], check=True)


def test_setup_makes_what_is_missing_and_can_be_run_again(machine):
    looked, _ = machine.steps("--check", status=1)
    assert looked == {"root": "ok", "machine": "ok", "users": "todo", "settings": "todo", "disk": "ok", "daemons": "ok", "key": "ok",
                      "image": "todo", "sandbox": "left"}
    assert not machine.etc("cay").exists() and not machine.world.call("GET", "/v1/images")["images"], "--check made something"

    refused = machine.run("setup", status=2)
    assert "cay setup --yes" in refused.stderr and not machine.etc("cay").exists()

    made, said = machine.steps("--yes")
    assert made == {"root": "ok", "machine": "ok", "users": "done", "settings": "done", "disk": "ok", "daemons": "ok", "key": "ok",
                    "image": "done", "sandbox": "ok"}
    assert said["ok"] and len(said["next"]) == 4 and said["next"][0].startswith("cay run base --")
    assert said["next"][-1].startswith("cay mcp config claude ") and "base" not in said["next"][-1], "an agent's way in"
    assert all(f"{u}:x:" in machine.etc("passwd").read_text() for u in ("cay-edge", "cay-mcp", "cay-e2b", "cay-opensandbox"))
    sample = (pathlib.Path(__file__).parents[3] / "docs/cay.conf.sample").read_text()
    assert machine.etc("cay/cay.conf").read_text() == sample
    assert not machine.world.call("GET", "/v1/sandboxes?state=live")["sandboxes"], "the first sandbox is still there"

    machine.etc("cay/cay.conf").write_text("# mine\n")
    again, _ = machine.steps()  # nobody is asked: nothing is to be done
    assert set(again.values()) == {"ok"} and machine.etc("cay/cay.conf").read_text() == "# mine\n"
    hello = machine.run("run", "base", "--", "sh", "-c", "echo hi | tr a-z A-Z; cat /etc/passwd; ls /home /etc; date +%Y")
    assert hello.stdout.startswith("HI\nroot:x:0:0:") and "person" not in hello.stdout and "shadow" not in hello.stdout


def believe_the_edge(machine):
    """cay-edge is who listens there."""
    uid, passwd = os.stat(f"/proc/{machine.world.daemons['cay-edge-0'].pid}").st_uid, machine.etc("passwd")
    passwd.write_text(re.sub(r"(?m)^cay-edge:x:\d+:", f"cay-edge:x:{uid}:", passwd.read_text()))


def test_who_came_by_sudo_asks_without_being_root(machine):
    env = {"SUDO_UID": "1234"}
    made, said = machine.steps("--yes", env=env, status=3)
    assert made["key"] == "failed" and "a process other than cay-edge" in str(said), "the user of that name is not who listens"
    keys = len(machine.world.call("GET", "/v1/keys")["keys"])
    believe_the_edge(machine)
    made, _ = machine.steps("--yes", env=env)
    assert made["key"] == "done" and len(machine.world.call("GET", "/v1/keys")["keys"]) == keys + 1
    kept = machine.tmp / "home/.config/cay/here.context"
    assert kept.stat().st_uid == 1234 and kept.stat().st_mode & 0o777 == 0o600
    keys = len(machine.world.call("GET", "/v1/keys")["keys"])
    again, _ = machine.steps(env=env)
    assert again["key"] == "ok" and len(machine.world.call("GET", "/v1/keys")["keys"]) == keys
    done = subprocess.run(["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", machine.world.programs["cay"], "run", "base",
                           "--", "echo", "as a person"],
                          env={"PATH": "/usr/bin", "HOME": str(machine.tmp / "home")}, capture_output=True, text=True, timeout=120)
    assert done.stdout == "as a person\n", done.stderr


HOMES = {
    "of somebody else": 'chown 0:0 "$0/home"',
    "read-only": 'mount --bind "$0/home" "$0/home" && mount -o remount,bind,ro "$0/home"',
    "full": 'mount -t tmpfs -o mode=0755,uid=1234,gid=1234,nr_inodes=1 tmpfs "$0/home"',
}


@pytest.mark.parametrize("home", HOMES)
def test_a_key_that_cannot_be_kept_is_good_for_nobody(machine, home):
    def good():
        return [k["id"] for k in machine.world.call("GET", "/v1/keys")["keys"] if not k["revoked"]]

    machine.steps("--yes")
    believe_the_edge(machine)
    before = good()
    made, said = machine.steps("--yes", env={"SUDO_UID": "1234"}, status=1, room=f"{HOMES[home]} && {ROOM}")
    assert made["key"] == "failed" and "as person" in str(said) and good() == before
    os.chown(machine.tmp / "home", 1234, 1234)
    made, _ = machine.steps("--yes", env={"SUDO_UID": "1234"})
    assert made["key"] == "done" and len(good()) == len(before) + 1


def test_an_image_of_ones_own_is_the_first(machine):
    (machine.tmp / "mine.tar").write_bytes(tiny())
    _, said = machine.steps("--yes", "--image", str(machine.tmp / "mine.tar"))
    assert list(names(machine)) == ["base"] and "cay run base" in said["next"][0]


def names(machine):
    return {i["name"]: i["digest"] for i in machine.world.call("GET", "/v1/images")["images"] if "name" in i}


def builder(machine, *lines):
    """The package's builder is a script of the test's."""
    at = machine.tmp / "share/cay/images/build"
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    at.chmod(0o755)
    return f'mount -t overlay -o "lowerdir=$0/share:/usr/share" overlay /usr/share && {ROOM}'


def test_base_is_built_and_a_machine_that_cannot_has_one_all_the_same(machine):
    (machine.tmp / "built.tar").write_bytes(tiny())
    room = builder(machine, "echo image base: a first step", "echo E: nothing is fetched", "echo the mirror is not there >&2", "exit 1")
    done = machine.run("setup", "--yes", room=room)
    assert "image base: a first step" in done.stderr and re.search("done +image .*the mirror is not there; run setup again", done.stdout), done
    assert set(names(machine)) == {"host", "base"} and len(set(names(machine).values())) == 1
    assert machine.run("run", "base", "--", "echo", "hi").stdout == "hi\n"

    machine.steps("--check", room=room, status=1)
    builder(machine, '[ "$1" = base ] && cp "$0.tar" "$2"')
    (machine.tmp / "share/cay/images/build.tar").write_bytes(tiny())
    made, _ = machine.steps("--yes", room=room)
    assert made["image"] == "done" and names(machine)["base"] != names(machine)["host"]
    again, _ = machine.steps(room=room)
    assert set(again.values()) == {"ok"}
    assert not list(pathlib.Path("/var/tmp").glob("cay-base-*"))


def templates(machine):
    return {t["name"]: t["defaults"]["image"] for t in machine.world.call("GET", "/v1/templates")["templates"]}


def test_images_asked_for_are_built_with_their_templates(machine):
    """Over the base that was built before, once, and by another setup what is missing."""
    room = builder(machine, 'echo "image $1: a step"', '[ "$1" = base ] || [ -e "${2%/*}/base" ] || exit 7',
                   '[ "$1" != r ] || { echo the mirror is not there; exit 1; }', 'cp "$0.tar" "$2"')
    (machine.tmp / "share/cay/images/build.tar").write_bytes(tiny())
    refused = machine.run("setup", "--yes", "--with", "python,perl", status=2)
    assert "no image 'perl'" in refused.stderr and not machine.etc("cay").exists()
    assert machine.steps("--check", "--with", "code", room=room, status=1)[0]["images"] == "todo"

    done = machine.run("setup", "--yes", "--with", "python,code", room=room)
    assert "image code: a step" in done.stderr and re.search(r"done +images +python [0-9.]+ [KM]iB, code [0-9.]+ [KM]iB; templates", done.stdout), done
    assert set(names(machine)) == {"base", "python", "code"}
    assert templates(machine) == {"python": "python", "code": "code", "code-interpreter-v1": "code"}
    assert machine.run("run", "--template", "code", "--", "echo", "hi").stdout == "hi\n"
    assert set(machine.steps("--with", "python,code", room=room)[0].values()) == {"ok"}
    assert "images" not in machine.steps(room=room)[0], "a step that nobody asked for"

    machine.world.call("DELETE", f"/v1/templates/{machine.world.call('GET', '/v1/templates')['templates'][0]['id']}")
    again, said = machine.steps("--yes", "--with", "python,code", room=room)
    assert again["images"] == "done" and len(templates(machine)) == 3, said
    failed, said = machine.steps("--yes", "--with", "r", room=room, status=1)
    assert failed["images"] == "failed" and failed["sandbox"] == "left" and "r" not in names(machine), said
    assert not list(pathlib.Path("/var/tmp").glob("cay-base-*"))


def test_images_come_from_a_directory(machine):
    (machine.tmp / "mine").mkdir()
    (machine.tmp / "mine/node.tar").write_bytes(tiny())
    machine.run("setup", "--yes", "--images", str(machine.tmp / "mine"), status=2)
    made, _ = machine.steps("--yes", "--with", "node", "--images", str(machine.tmp / "mine"))
    assert made["images"] == "done" and templates(machine) == {"node": "node"}
    failed, said = machine.steps("--yes", "--with", "node,r", "--images", str(machine.tmp / "mine"), status=4)
    assert failed["images"] == "failed" and "neither r nor r.tar" in str(said)


def test_without_a_daemon_and_without_systemd_it_says_what_to_start(machine):
    machine.world.kill_daemon("cayd")
    states, said = machine.steps("--yes", status=8)
    assert states["daemons"] == "failed" and states["image"] == "left" and not said["ok"]
    libexec = pathlib.Path(machine.world.env["CAY_PATHS_INIT"]).parent
    assert said["start"][0].startswith("install -d -m 0770 -o cay-mcp ")
    assert [c.split()[-2] for c in said["start"][3:]] == [f"{libexec}/{p}" for p in ("cay-keeper", "cay-pull", "cay-egress", "cay-broker", "cayd", "cay-mcp", "cay-e2b", "cay-opensandbox", "cay-edge")]
    told = machine.run("setup", "--yes", status=8)
    assert f"  {said['start'][1]}\n" in told.stdout and "run 'cay setup' again" in told.stderr
    machine.world.start_cayd()
    assert machine.steps("--yes")[1]["ok"]


def test_who_is_not_root_is_told_so(machine):
    done = subprocess.run(["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", machine.world.programs["cay"], "setup", "--yes"],
                          env={"PATH": "/usr/bin", "HOME": "/"}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3 and "hint: sudo cay setup" in done.stderr, done
