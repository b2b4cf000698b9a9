# SPDX-License-Identifier: Apache-2.0
"""Directories of the host in sandboxes: what the operator named, for whom he named it, as it was when the keeper started."""
import contextlib
import os
import pathlib
import shutil
import stat
import tempfile

import cay
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_control import nothing_is_left, refused
from test_life import restart
from test_quota import new_tenant
from test_status import cli
from test_stop import act
from test_tenants import DEFAULT, actor
from test_volumes import READ_ONLY, sh

OWNER = 64777  # who has the files on the host
CANARY = "canary of the host"


class Host:
    """A tree of the host that only root enters, and the operator's files that name parts of it."""

    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="cay-host-"))  # 0700
        self.conf = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="cay-host-conf-"))
        self.conf.chmod(0o755)
        (self.top / "canary").write_text(CANARY)
        self.env = {"CAY_PATHS_HOST": str(self.conf)}

    def directory(self, name, owner=OWNER):
        at = self.top / name
        at.mkdir()
        os.chown(at, owner, owner)
        return at

    def names(self, name, path, mode="ro", tenants=DEFAULT, as_=0):
        at = self.conf / f"{name}.conf"
        at.write_text(f"[directory]\npath = {path}\nmode = {mode}\ntenants = {tenants}\nas = {as_}\n")
        at.chmod(0o644)
        return at

    def remove(self):
        for top in (self.top, self.conf):
            shutil.rmtree(top)


@pytest.fixture
def host():
    h = Host()
    yield h
    h.remove()


@contextlib.contextmanager
def node(host):
    with cay.Cay(BUILD, env=host.env) as c:
        c.image_import("tiny", tiny())
        yield c


def at(name, path="/workspace/host", read_only=False):
    return {"host": name, "path": path, "read_only": read_only}


def fails(c, want, *mounts):
    """Accepted by cayd, refused by the keeper."""
    with pytest.raises(ApiError) as e:
        c.create("tiny", volumes=list(mounts))
    assert want in e.value.body.decode(), e.value.body


def test_there_are_none_unless_named(own):
    assert "no such host directory" in refused("not_found", own.create, "tiny", volumes=[at("etc", "/x", True)])["message"]
    for mount in ({"path": "/x"}, {"path": "/x", "host": "a", "volume": "vo" + "0" * 23 + "1"}):
        refused("invalid_argument", own.create, "tiny", volumes=[mount])
    for name in ("../etc", "/etc", "a/b", "A", "x" * 32, "."):
        refused("invalid_argument", own.create, "tiny", volumes=[at(name)])


def test_written_as_one_user(host):
    """The owner of the directory is one user inside; nobody else of either side is anybody there."""
    work, plain = host.directory("work"), host.directory("plain")
    (work / "mine").write_text("mine\n")
    os.chown(work / "mine", OWNER, OWNER)
    (work / "secret").write_text(CANARY)
    (work / "secret").chmod(0o600)  # root's
    host.names("work", work, "rw", as_=1000)
    host.names("plain", plain, "rw")
    with node(host) as c:
        box = c.create("tiny", volumes=[at("work", "/w"), at("plain", "/p")])
        assert c.get(box)["volumes"] == [at("work", "/w"), at("plain", "/p")]
        assert sh(c, box, "cd /w && cat mine && echo new >new && chmod 640 new && mkdir d && stat -c '%u %g' mine new secret /p", user="1000").text.split() == ["mine", *["1000"] * 4, *["65534"] * 2, "0", "0"]
        assert ((work / "new").stat().st_uid, (work / "new").stat().st_gid, (work / "d").stat().st_uid) == (OWNER,) * 3
        # root inside is not its owner, and can make nothing there that it would own; nor read what is root's of the host
        for try_ in ("echo x >/w/root", "chown 0 /w/mine", "chown 2000 /w/mine", "cat /w/secret", "rm /w/secret && cat /w/secret", "mknod /w/null c 1 3", "mknod /p/null c 1 3", "chmod 666 /w/secret", "setfattr -n trusted.x -v 1 /p", "mount -o remount,suid /p"):
            done = sh(c, box, try_)
            assert done.exit_code and CANARY not in done.text, try_
        assert sh(c, box, "echo root >/p/root && chmod 4755 /p/root", user="root").exit_code == 0  # as the owner there
        assert (plain / "root").stat().st_uid == OWNER and (plain / "root").stat().st_mode & stat.S_ISUID
        for path in ("/w", "/p"):
            flags = sh(c, box, f"grep ' {path} ' /proc/self/mountinfo").text
            assert "nosuid" in flags and "nodev" in flags and " rw," in flags, flags
        # it stays one directory of the host, also for two at once, and over a stop
        other = c.create("tiny", volumes=[at("work", "/other", True)])
        (work / "host").write_text("from the host\n")
        assert sh(c, other, "cat /other/host").text == sh(c, box, "cat /w/host").text == "from the host\n"
        act(c, box, "stop")
        act(c, box, "start")
        assert sh(c, box, "echo after >/w/new && cat /w/new", user="1000").text == "after\n"
        for name in (box, other):
            c.delete(name)
        nothing_is_left(c)
        assert (work / "new").read_text() == "after\n"


def test_who_reads_a_directory_changes_nothing(host):
    """Whatever root inside tries, also as the owner of the files; and no mode but `ro` is given for a directory named so."""
    data = host.directory("data")
    (data / "a").write_text("text\n")
    os.chown(data / "a", OWNER, OWNER)
    host.names("data", data)
    before = (data / "a").stat()
    with node(host) as c:
        assert refused("invalid_argument", c.create, "tiny", volumes=[at("data")])["field"] == "volumes"
        box = c.create("tiny", volumes=[at("data", "/workspace/data", True)])
        assert sh(c, box, READ_ONLY).text == "text\n"
        after = (data / "a").stat()
        assert os.listdir(data) == ["a"] and (after.st_mtime_ns, after.st_mode, after.st_uid) == (before.st_mtime_ns, before.st_mode, OWNER)
        flags = sh(c, box, "grep ' /workspace/data ' /proc/self/mountinfo").text
        assert "nosuid" in flags and "nodev" in flags and " ro," in flags
        c.delete(box)


def test_no_way_out(host):
    """Links, `..`, a directory that is moved away under a process, and one exchanged for a link all the time."""
    work = host.directory("work")
    host.names("work", work, "rw")
    with node(host) as c:
        box = c.create("tiny", volumes=[at("work", "/w")])
        links = {"a": str(host.top / "canary"), "b": "../canary", "c": "../../../../../../.." + str(host.top / "canary"), "d": "/proc/1/root" + str(host.top), "e": ".."}
        for name, target in links.items():
            assert sh(c, box, f"ln -s {target} /w/{name}").exit_code == 0
        # as many ways as a shell has; each ends in the sandbox's own root
        seen = sh(c, box, "cd /w; cat a b c d/canary e/canary ../canary ../../canary 2>&1; ls -a /w/.. /w/e/; cp -L a copy; mv /w/b /copied; cat /copied; ls /w/e/w").text
        assert CANARY not in seen and "etc" in seen.split()
        assert not (work / "copy").exists()
        # a process whose directory is moved out of the mount has no way up from there
        assert sh(c, box, "mkdir -p /w/deep/er").exit_code == 0
        exec_id = c.exec_detached(box, ["sh", "-c", "cd /w/deep/er; echo ready >/ready; until [ -e /go ]; do sleep 0.02; done; cat ../canary ../../canary ../../../canary; ls ../.. ; echo done"], user="root")
        wait_for("the process to be there", lambda: sh(c, box, "cat /ready").text == "ready\n", 30)
        os.rename(work / "deep/er", host.top / "out")
        sh(c, box, "touch /go")
        wait_for("its end", lambda: b"done" in c.exec_output(box, exec_id), 30)
        assert CANARY.encode() not in c.exec_output(box, exec_id)
        # the place itself is exchanged while sandboxes start: each has the directory that was named
        os.rename(work, host.top / "away")
        os.symlink(host.top, work)
        (host.top / "away/kept").write_text("kept")
        other = c.create("tiny", volumes=[at("work", "/w", True)])
        assert sh(c, other, "cat /w/kept; cat /w/canary").text == "kept"
        work.unlink()
        shutil.copytree(host.top / "out", work)  # another directory of the same name
        third = c.create("tiny", volumes=[at("work", "/w", True)])
        assert sh(c, third, "cat /w/kept").text == "kept"
        for name in (box, other, third):
            c.delete(name)
        nothing_is_left(c)


def test_a_race_of_links_between_two(host):
    """One exchanges a directory for links out of it all the time, while others start with it, read and write through it."""
    work = host.directory("work")
    host.names("work", work, "rw")
    race = f"cd /w; while :; do ln -s .. x; rm x; ln -s {host.top} x; rm x; mkdir x; rm -r x; done 2>/dev/null"
    with node(host) as c:
        racer = c.create("tiny", volumes=[at("work", "/w")])
        c.exec_detached(racer, ["sh", "-c", race], user="root")
        before = sorted(os.listdir(host.top))
        for _ in range(5):
            box = c.create("tiny", volumes=[at("work", "/w")])
            seen = sh(c, box, "for i in 0 1 2 3 4 5 6 7 8 9; do echo x >/w/x/planted; cat /w/x/canary; done 2>/dev/null; true").text
            assert CANARY not in seen
            c.delete(box)
        c.delete(racer)
        assert sorted(os.listdir(host.top)) == before
        nothing_is_left(c)


def test_what_cannot_be_given_is_refused(host):
    """The keeper says why in its log, and to who asks; everything else is as usual."""
    good, roots = host.directory("good"), host.directory("roots", owner=0)
    (host.top / "link").symlink_to(good)
    (host.top / "file").write_text("x")
    (host.top / "way").symlink_to(host.top)
    open_ = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="cay-host-open-"))
    os.chown(open_, OWNER, OWNER)
    host.names("good", good)
    host.names("roots", roots, "rw")
    host.names("link", host.top / "link")
    host.names("way", host.top / "way/good")
    host.names("file", host.top / "file")
    host.names("none", host.top / "none")
    host.names("open", open_, "rw")
    host.names("no-ids", "/proc/fs")
    host.names("ours", "/var/tmp")
    host.names("conf", host.conf)
    why = {"roots": "other than root's", "link": "leads over a link", "way": "leads over a link", "file": "is no directory", "none": "No such file",
           "open": "set the user id", "no-ids": "other ids", "ours": "which is Cay's", "conf": "which is Cay's"}
    try:
        with node(host) as c:
            for name, text in why.items():
                assert f"'{name}' cannot be mounted" in c.log("cay-keeper"), c.log("cay-keeper")
                fails(c, text, at(name, "/x", name not in ("roots", "open")))
            box = c.create("tiny", volumes=[at("good", "/x", True)])
            c.delete(box)
            nothing_is_left(c)
    finally:
        os.rmdir(open_)


def test_the_operators_files_are_read_strictly(host):
    """Neither program serves by a file that is not valid, or that another user could write."""
    good = host.names("good", host.directory("good"))
    with node(host) as c:
        for spoil in (lambda: good.chmod(0o666), lambda: os.chown(good, OWNER, 0), lambda: good.write_text("[directory]\npath = /a/../b\ntenants = all\n"),
                      lambda: good.write_text("[directory]\npath = /srv\nmode = rw\ntenants = all\n"), lambda: host.conf.chmod(0o777)):
            text = good.read_text()
            spoil()
            for name, start in (("cay-keeper", c.start_keeper), ("cayd", c.start_cayd)):
                c.kill_daemon(name)
                with pytest.raises(RuntimeError) as e:
                    start()
                assert str(host.conf) in str(e.value)
            good.write_text(text)
            good.chmod(0o644)
            os.chown(good, 0, 0)
            host.conf.chmod(0o755)
            c.start_keeper()
            c.start_cayd()


def test_of_tenants_that_are_named(host):
    """Everybody else, also a key of a group, gets what is said of a directory that never was."""
    data, shared = host.directory("data"), host.directory("shared")
    host.names("shared", shared, tenants="all")
    with node(host) as c:
        tenant, who = new_tenant(c)
        _, other = new_tenant(c)
        host.names("data", data, "rw", tenants=tenant)
        restart(c, "cay-keeper", "cayd")
        box = who.create("tiny", volumes=[at("data", "/d"), at("shared", "/s", True)])
        absent = refused("not_found", other.create, "tiny", volumes=[at("absent")])["message"]
        for read_only in (False, True):
            assert refused("not_found", other.create, "tiny", volumes=[at("data", "/d", read_only)])["message"] == absent
        key = c.call("POST", "/v1/keys", {"tenant": tenant, "name": "bound", "scope": "write", "group": "alice"})
        bound = c.edge(actor("write", tenant, key["key"]["id"]) + " alice", key["secret"])
        for name in ("data", "shared"):
            assert refused("not_found", bound.create, "tiny", group="alice", volumes=[at(name, "/d", True)])["message"] == absent
        theirs = other.create("tiny", volumes=[at("shared", "/s", True)])
        for caller, name in ((who, box), (other, theirs)):
            caller.delete(name)


def test_the_keeper_decides_by_what_it_opened(host):
    """What cayd believes is not enough: neither for another tenant, nor to write, nor for a new name."""
    data, new = host.directory("data"), host.directory("new")
    host.names("data", data, tenants=DEFAULT)
    with node(host) as c:
        tenant, who = new_tenant(c)
        host.names("data", data, "rw", tenants=f"{DEFAULT} {tenant}")
        host.names("new", new)
        restart(c, "cayd")
        fails(who, "knew no host directory 'data'", at("data", "/d", True))
        fails(c, "is read-only", at("data", "/d"))
        fails(c, "knew no host directory 'new'", at("new", "/d", True))
        restart(c, "cay-keeper")
        wait_for("the keeper", lambda: c.call("GET", "/v1/health")["status"] == "ok", 30)
        for caller, mounts in ((who, [at("data", "/d")]), (c, [at("data", "/d"), at("new", "/n", True)])):
            caller.delete(caller.create("tiny", volumes=mounts))
        nothing_is_left(c)


def test_beside_volumes_and_by_the_command(host):
    """In any order, and none twice."""
    data = host.directory("data")
    (data / "a").write_text("text\n")
    host.names("data", data)
    host.names("b", data)
    with node(host) as c:
        vo = c.call("POST", "/v1/volumes", {"name": "data"})["id"]
        mounts = [at("data", "/z", True), {"volume": vo, "path": "/v", "read_only": False}, at("b", "/a", True)]
        for order in (mounts, mounts[::-1]):
            box = c.create("tiny", name="same", volumes=order)
            assert c.create("tiny", name="same", volumes=order) == box
            refused("conflict", c.create, "tiny", name="same", volumes=mounts[:1])
            assert c.get(box)["volumes"] == [{k: v for k, v in m.items() if v != ""} for m in order]
            assert sh(c, box, "cat /z/a /a/a; touch /v/x").text == "text\ntext\n"
            c.delete(box)
        refused("invalid_argument", c.create, "tiny", volumes=[at("data", "/a", True), at("data", "/b", True)])
        refused("invalid_argument", c.create, "tiny", volumes=[at("data", "/a", True), at("b", "/a/b", True)])
        made = cli(c, "create", "--volume", "host/data:/d:ro", "--volume", "data:/v", "tiny")
        assert made.returncode == 0, made
        assert sh(c, made.stdout.strip(), "cat /d/a").text == "text\n"
        c.delete(made.stdout.strip())
        assert "no such host directory" in cli(c, "create", "--volume", "host/none:/d:ro", "tiny").stderr
