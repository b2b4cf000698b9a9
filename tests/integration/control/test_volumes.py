# SPDX-License-Identifier: Apache-2.0
"""Volumes: files that outlive sandboxes, with one writer or many readers, of one tenant, whatever dies in between."""
import concurrent.futures
import contextlib
import json
import os
import sqlite3
import subprocess

import cay
import loopfs
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_control import nothing_is_left, refused
from test_create_many import ids
from test_life import linked, restart
from test_quota import new_tenant
from test_snapshot import fork
from test_status import cli
from test_stop import act
from test_sweep import VOLUME_POINTS
from test_tenants import actor

FOREIGN = 0x7FFE0000  # ids of files, which no process has
MIB = 1 << 20
ABSENT = "vo" + "0" * 23 + "1"


def volume(c, name, **body):
    return c.call("POST", "/v1/volumes", {"name": name, **body})["id"]


def get(c, vo):
    return c.call("GET", f"/v1/volumes/{vo}")


def listed(c):
    return c.call("GET", "/v1/volumes")["volumes"]


def drop(c, vo):
    return c.call("DELETE", f"/v1/volumes/{vo}")


def at(vo, path="/workspace/data", read_only=False):
    return {"volume": vo, "path": path, "read_only": read_only}


def sh(c, box, script, user="root"):
    return c.exec(box, ["sh", "-c", script], user=user)


def gone(c):
    """Nothing of a volume is left, neither in the journal nor on the disk, and nothing of a sandbox."""
    def left():
        return listed(c), os.listdir(c.state / "volumes"), os.listdir(c.state / "trash"), c.call("GET", "/v1/fsck")["findings"]
    try:
        wait_for("volumes to be gone", lambda: not any(left()), 30)
    except TimeoutError as e:
        raise AssertionError(f"{left()}: {c.said('cayd')} {c.said('cay-keeper')}") from e
    nothing_is_left_of_sandboxes(c)


def nothing_is_left_of_sandboxes(c):
    if not c.call("GET", "/v1/sandboxes?state=running")["sandboxes"]:
        nothing_is_left(c)


def test_files_outlive_sandboxes(own):
    vo = volume(own, "data", labels={"a": "b"})
    assert refused("conflict", volume, own, "data")
    box = own.create("tiny", volumes=[at(vo)])
    assert own.get(box)["volumes"] == [at(vo)]
    assert get(own, vo)["writer"] == box and get(own, vo)["labels"] == {"a": "b"}
    # root and another user write; modes, owners and links stay
    assert sh(own, box, "cd /workspace/data && echo one >a && ln -s a l && mkdir d && chmod 751 d && chown 1000:1000 d").exit_code == 0
    assert sh(own, box, "echo two >/workspace/data/b", user="1000").exit_code == 0
    # it is not part of the sandbox's own disk, and on the disk in foreign ids
    assert os.listdir(own.state / "boxes" / box / "disk/upper/workspace/data") == []
    upper = own.state / "volumes" / vo / "disk/upper"
    assert sorted(os.listdir(upper)) == ["a", "b", "d", "l"]
    assert {p.name: p.lstat().st_uid - FOREIGN for p in upper.iterdir()} == {"a": 0, "l": 0, "b": 1000, "d": 1000}
    own.delete(box)
    assert "writer" not in get(own, vo)
    restart(own, "cay-keeper", "cayd")
    box = own.create("tiny", volumes=[at(vo, "/other/place")])
    assert sh(own, box, "cd /other/place && cat l b && stat -c '%a %u' d").text.split() == ["one", "two", "751", "1000"]
    refused("conflict", drop, own, vo)
    own.delete(box)
    assert drop(own, vo)["id"] == vo
    refused("not_found", get, own, vo)
    gone(own)


def test_one_writer_or_many_readers(own):
    vo, other = volume(own, "data"), volume(own, "other")
    writer = own.create("tiny", volumes=[at(vo), at(other, "/o")])
    for read_only in (False, True):
        why = refused("conflict", own.create, "tiny", volumes=[at(vo, read_only=read_only)])
        assert writer in why["message"] and why["field"] == "volumes"
    # one that is stopped gives it up, and needs it again
    assert sh(own, writer, "echo text >/workspace/data/a").exit_code == 0
    act(own, writer, "stop")
    readers = [own.create("tiny", volumes=[at(vo, read_only=True)]) for _ in range(2)]
    assert get(own, vo)["readers"] == 2
    assert all(sh(own, r, "cat /workspace/data/a").text == "text\n" for r in readers)
    assert "2 sandboxes read" in refused("conflict", act, own, writer, "start")["message"]
    assert own.get(writer)["state"] == "stopped"
    for r in readers:
        own.delete(r)
    act(own, writer, "start")
    assert sh(own, writer, "cat /workspace/data/a && echo more >>/workspace/data/a").text == "text\n"
    act(own, writer, "stop")
    drop(own, vo)  # it is nobody's now
    refused("not_found", act, own, writer, "start")
    own.delete(writer)
    drop(own, other)
    gone(own)


def test_many_ask_at_once(own):
    """Of those that want to write one gets it, and as soon as it has ended, another."""
    vo = volume(own, "data")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for i in range(5):
            asked = [pool.submit(own.create, "tiny", volumes=[at(vo)]) for _ in range(8)]
            assert not concurrent.futures.wait(asked, 60).not_done
            made = [a.result() for a in asked if not a.exception()]
            assert len(made) == 1 and {a.exception().code for a in asked if a.exception()} == {"conflict"}
            assert sh(own, made[0], f"cat /workspace/data/n; echo {i} >>/workspace/data/n").text == "".join(f"{k}\n" for k in range(i))
            own.delete(made[0])
    drop(own, vo)
    gone(own)


def second_writer(own, vo, box):
    """What cayd never asks for: another sandbox's start with the volume.  The row of the first is taken from under it."""
    own.kill_daemon("cayd")
    with contextlib.closing(sqlite3.connect(own.state / "db/journal.db")) as db, db:
        (text,) = db.execute("SELECT text FROM sandbox WHERE id = ?", (box,)).fetchone()
        assert vo in text
        db.execute("UPDATE sandbox SET text = ? WHERE id = ?", (text.replace(vo, ABSENT), box))
    own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)


def test_the_kernel_refuses_a_second_writer(own):
    """Also when cayd believes that nobody has it, in another range of ids."""
    vo = volume(own, "data")
    box = own.create("tiny", volumes=[at(vo)])
    assert sh(own, box, "echo first >/workspace/data/a").exit_code == 0
    second_writer(own, vo, box)
    assert "writer" not in get(own, vo)
    with pytest.raises(ApiError) as e:
        own.create("tiny", volumes=[at(vo)])
    assert "another sandbox has the volume" in e.value.body.decode(), e.value.body
    assert sh(own, box, "cat /workspace/data/a && echo still >>/workspace/data/a").text == "first\n"
    own.delete(box)
    box = own.create("tiny", volumes=[at(vo)])
    assert sh(own, box, "cat /workspace/data/a").text == "first\nstill\n"
    own.delete(box)
    drop(own, vo)
    gone(own)


READ_ONLY = """cd /workspace/data
for try in 'echo x >a' 'echo x >new' 'chmod 700 a' 'chown 1:1 a' 'rm a' 'mkdir d' 'ln a b' 'touch a' 'mv a c' 'mknod f p' \
    'mount -o remount,rw /workspace/data' 'mount -o remount,bind,rw /workspace/data' 'umount /workspace/data'; do
    (eval "$try") 2>/dev/null && echo "could: $try"
done
python3 -c 'import os; os.setxattr("a", "user.x", b"1")' 2>/dev/null && echo 'could: setxattr'
(exec 3<>a) 2>/dev/null && echo 'could: open'
cat a"""


@pytest.mark.parametrize("storage", ["disk", "read_only", "memory"])
def test_read_only_is(own, storage):
    """Root inside can change nothing, whatever it tries."""
    vo = volume(own, "data")
    box = own.create("tiny", volumes=[at(vo)], storage=storage)
    assert sh(own, box, "echo text >/workspace/data/a").exit_code == 0
    own.delete(box)
    upper = own.state / "volumes" / vo / "disk/upper"
    before = (upper / "a").stat()
    box = own.create("tiny", volumes=[at(vo, read_only=True)], storage=storage)
    assert sh(own, box, READ_ONLY).text == "text\n"
    assert (upper / "a").stat().st_mtime_ns == before.st_mtime_ns and os.listdir(upper) == ["a"] and (upper / "a").stat().st_mode == before.st_mode
    flags = sh(own, box, "grep ' /workspace/data ' /proc/self/mountinfo").text
    assert "nosuid" in flags and "nodev" in flags and " ro," in flags
    own.delete(box)
    drop(own, vo)
    gone(own)


def test_no_devices_and_no_set_user_id(own):
    vo = volume(own, "data")
    box = own.create("tiny", volumes=[at(vo)])
    flags = sh(own, box, "grep ' /workspace/data ' /proc/self/mountinfo").text
    assert "nosuid" in flags and "nodev" in flags and "/v/0/upper" in flags and str(own.state) not in flags
    own.delete(box)
    drop(own, vo)


def test_where_it_is_mounted(own):
    """A path of the image that is a file or leads over a link is refused, and nothing outside is touched."""
    own.image_import("links", tiny([cay.entry("data", cay.tarfile.SYMTYPE, link="/etc"), cay.entry("way", cay.tarfile.SYMTYPE, link="/workspace"), cay.file("plain", b"x"), cay.directory("dir"), cay.file("dir/below", b"1")]))
    vo = volume(own, "data")
    for path in ("/data", "/data/x", "/way/data", "/plain", "/plain/x"):
        wait_for("the last one to be gone", lambda: "writer" not in get(own, vo), 30)
        with pytest.raises(ApiError) as e:
            own.create("links", volumes=[at(vo, path)])
        assert f"{path}, where a volume is to be mounted" in e.value.body.decode()
    wait_for("the last one to be gone", lambda: "writer" not in get(own, vo), 30)
    assert not os.listdir(own.state / "volumes" / vo / "disk/upper")
    for path in ("/", "data", "/a/../b", "/./a", "/a//b", "/a/", "/dev/shm", "/proc/x", "/sys", "/a b", "/a:b", "/" + "x" * 107):
        assert refused("invalid_argument", own.create, "tiny", volumes=[at(vo, path)]), path
    two = volume(own, "two")
    for a, b in (("/a", "/a"), ("/a", "/a/b"), ("/a/b", "/a")):
        refused("invalid_argument", own.create, "tiny", volumes=[at(vo, a), at(two, b)])
    refused("invalid_argument", own.create, "tiny", volumes=[at(vo, "/a"), at(vo, "/b")])
    box = own.create("links", volumes=[at(vo, "/dir"), at(two, "/dir2/x")])  # over files of the image, and beside
    assert sh(own, box, "ls /dir /dir2/x && touch /dir/a /dir2/x/b").text == "/dir:\n\n/dir2/x:\n"
    own.delete(box)
    for v in (vo, two):
        drop(own, v)
    gone(own)


def test_eight_in_any_order(own):
    made = [volume(own, f"v{i}") for i in range(8)]
    mounts = [at(v, f"/vol/{i}", read_only=i % 2 == 1) for i, v in enumerate(made)]
    for order in (mounts, mounts[::-1]):
        box = own.create("tiny", volumes=order)
        assert own.get(box)["volumes"] == order
        assert sh(own, box, "for i in 0 2 4 6; do echo $i >>/vol/$i/n; done; cat /vol/*/n | wc -l").text.split() == ["4" if order is mounts else "8"]
        own.delete(box)
    refused("invalid_argument", own.create, "tiny", volumes=[*mounts, at(ABSENT, "/x")])
    for v in made:
        drop(own, v)
    gone(own)


def test_a_foreign_volume_is_absent(own):
    """Of another tenant, or of another group, it is what a volume is that never was."""
    _, who = new_tenant(own)
    _, other = new_tenant(own)
    vo = volume(who, "data")
    calls = [lambda c, v: get(c, v), lambda c, v: drop(c, v), lambda c, v: c.call("POST", f"/v1/volumes/{v}/resize", {"size_bytes": MIB}),
             lambda c, v: c.create("tiny", volumes=[at(v)]), lambda c, v: c.create("tiny", volumes=[at(v, read_only=True)])]
    for call in calls:
        assert refused("not_found", call, other, vo)["message"] == refused("not_found", call, other, ABSENT)["message"]
    assert not listed(other) and [v["id"] for v in listed(who)] == [vo]
    theirs = volume(other, "data")  # the same name
    box = who.create("tiny", volumes=[at(vo)])
    who.delete(box)
    for c, v in ((who, vo), (other, theirs)):
        drop(c, v)
    gone(own)


def test_quotas_of_a_tenant(own):
    tenant, who = new_tenant(own, quotas={"volumes": 2})
    made = [volume(who, f"v{i}") for i in range(2)]
    refused("limit_exceeded", volume, who, "v2")
    assert own.call("GET", f"/v1/tenants/{tenant}")["usage"]["volumes"] == 2
    drop(who, made[0])
    made[0] = volume(who, "v2")
    for key in own.call("GET", "/v1/keys?limit=1000")["keys"]:
        if key["tenant"] == tenant:
            own.call("POST", f"/v1/keys/{key['id']}/revoke")
    own.call("DELETE", f"/v1/tenants/{tenant}")  # takes them along
    gone(own)


@pytest.mark.parametrize("kind", loopfs.here())
def test_its_size_holds(kind):
    """In bytes, also of files that are unlinked; what a tenant has of it counts as disk; a new size holds at once."""
    with loopfs.mounted(kind, 512 << 20) as top, cay.Cay(BUILD, state_top=top) as c:
        c.image_import("tiny", tiny())
        tenant, who = new_tenant(c, quotas={"disk_bytes": 200 * MIB})
        vo = volume(who, "data", size_bytes=16 * MIB)
        assert c.call("GET", f"/v1/tenants/{tenant}")["usage"]["disk_bytes"] == 16 * MIB
        refused("limit_exceeded", volume, who, "more", size_bytes=190 * MIB)
        box = who.create("tiny", volumes=[at(vo)], limits={"disk_bytes": 32 * MIB})
        fill = "cd /workspace/data; exec 3>f; dd if=/dev/zero of=/proc/self/fd/3 bs=64k count=1000 2>/dev/null; s=$(stat -L -c %s /proc/self/fd/3); rm -f f; echo $s; dd if=/dev/zero of=g bs=64k count=1000 2>/dev/null; stat -c %s g 2>/dev/null || echo 0; rm -f g"
        first, second = map(int, sh(who, box, fill).text.split())
        assert 14 * MIB < first <= 16 * MIB and second < 2 * MIB  # the first is open while the second is written
        who.call("POST", f"/v1/volumes/{vo}/resize", {"size_bytes": 40 * MIB})
        loopfs.run(["sync", "-f", str(top)])
        full = "dd if=/dev/zero of=/workspace/data/h bs=64k count=2000 2>/dev/null; stat -c %s /workspace/data/h"
        assert 36 * MIB < int(sh(who, box, full).text) <= 40 * MIB
        wait_for("its usage", lambda: get(who, vo)["used_bytes"] > 36 * MIB, 30)
        assert sh(who, box, "dd if=/dev/zero of=/own bs=1M count=8 2>/dev/null; stat -c %s /own").text == f"{8 * MIB}\n"  # the sandbox's own disk is another
        refused("limit_exceeded", who.call, "POST", f"/v1/volumes/{vo}/resize", {"size_bytes": 190 * MIB})
        who.call("POST", f"/v1/volumes/{vo}/resize", {"size_bytes": 20 * MIB})  # below what it has
        assert get(who, vo)["size_bytes"] == 20 * MIB
        assert int(sh(who, box, "dd if=/dev/zero of=/workspace/data/new bs=64k count=32 2>/dev/null; stat -c %s /workspace/data/new 2>/dev/null || echo 0").text) < MIB
        assert int(sh(who, box, "stat -c %s /workspace/data/h").text) > 36 * MIB
        who.delete(box)
        drop(who, vo)
        gone(c)


def test_the_ceilings_of_a_disk_bound_it(limited):
    """What an operator bounds of one sandbox holds for a volume as well; and a tenant makes only so many a second."""
    with cay.Cay(BUILD, env={"CAY_SANDBOX_DISK": "64Mi", "CAY_TENANT_CREATES": "2"}, state_top=limited) as c:
        tenant, who = new_tenant(c, ceilings={"disk_bytes": 32 * MIB})
        first = volume(who, "first")
        assert get(who, first)["size_bytes"] == 32 * MIB  # less than the default
        with pytest.raises(cay.ApiError, match="disk_bytes.*of this tenant"):
            volume(who, "large", size_bytes=33 * MIB)
        with pytest.raises(cay.ApiError, match="disk_bytes.*of this tenant"):
            who.call("POST", f"/v1/volumes/{first}/resize", {"size_bytes": 33 * MIB})
        with pytest.raises(cay.ApiError, match="sandbox.disk"):
            volume(c, "large", size_bytes=1 << 50)
        c.call("POST", f"/v1/tenants/{tenant}", {"ceilings": {"disk_bytes": 16 * MIB}})
        who.call("POST", f"/v1/volumes/{first}/resize", {"size_bytes": 20 * MIB})  # it may become less than it was, above the ceiling
        made = [first]
        with pytest.raises(cay.ApiError) as e:
            for i in range(20):
                made.append(volume(who, f"v{i}"))
                drop(who, made.pop())
        assert e.value.code == "rate_limited", e.value
        for vo in made:
            drop(who, vo)
        gone(c)


POINTS = {"cayd": ["volume:wanted", "volume:answered", "volume:ready", "volume:resized", "volume:deleting", "volume:gone"],
          "cay-keeper": ["volume:made", "volume:limited", "volume:removed"]}


OF_COPIES = {"volume:frozen", "volume:copied"}  # in test_volume_copies.py


def test_every_failpoint_of_it_is_here():
    assert {p for points in POINTS.values() for p in points} == set(VOLUME_POINTS) - OF_COPIES


@pytest.fixture(scope="module")
def limited():
    """A file system on which volumes have sizes."""
    kinds = loopfs.here()
    if not kinds:
        pytest.skip("no file system with quotas here")
    with loopfs.mounted(kinds[0], 512 << 20) as top:
        yield top


@pytest.mark.parametrize("how", ["kill", "error"])
@pytest.mark.parametrize("program,point", [(program, p) for program, points in POINTS.items() for p in points])
def test_cut_off_anywhere(limited, program, point, how):
    """What was acknowledged is there with its files, what was not is whole or gone."""
    with cay.Cay(BUILD, state_top=limited) as c:
        c.image_import("tiny", tiny())
        kept = volume(c, "kept")
        box = c.create("tiny", volumes=[at(kept)])
        sh(c, box, "echo here >/workspace/data/a")
        c.delete(box)
        c.kill_daemon(program)
        c.env["CAY_FAULT"] = f"{point}={how}@1"
        (c.start_cayd if program == "cayd" else c.start_keeper)()
        del c.env["CAY_FAULT"]
        wait_for("the link", lambda: linked(c), 30)
        made = deleted = None
        with contextlib.suppress(ApiError, OSError, cay.http.client.HTTPException):
            made = volume(c, "made")
            c.call("POST", f"/v1/volumes/{made}/resize", {"size_bytes": 2 * MIB})
        with contextlib.suppress(ApiError, OSError, cay.http.client.HTTPException):
            drop(c, made or ABSENT)
            deleted = made
        c.kill_daemon(program)  # or it goes on failing
        (c.start_cayd if program == "cayd" else c.start_keeper)()
        wait_for("the link", lambda: linked(c), 30)
        wait_for("removals", lambda: {v["name"] for v in listed(c)} >= {"kept"} and sorted(os.listdir(c.state / "volumes")) == sorted(v["id"] for v in listed(c)), 30)
        names = {v["name"]: v["id"] for v in listed(c)}
        assert not deleted or "made" not in names
        box = c.create("tiny", volumes=[at(v, f"/vol/{name}") for name, v in names.items()])
        assert sh(c, box, "cat /vol/kept/a; echo x >/vol/*/b").text == "here\n"
        c.delete(box)
        again = names.get("made") or volume(c, "made")
        for v in (kept, again):
            drop(c, v)
        gone(c)


def test_no_row_outlives_its_files(limited):
    """A create that fails when its row says `ready`; cayd is killed when the files are gone and the row is not."""
    with cay.Cay(BUILD, state_top=limited) as c:
        c.kill_daemon("cayd")
        c.env["CAY_FAULT"] = "volume:ready=error,volume:gone=kill"
        c.start_cayd()
        del c.env["CAY_FAULT"]
        wait_for("the link", lambda: linked(c), 30)
        with contextlib.suppress(ApiError, OSError, cay.http.client.HTTPException):
            volume(c, "made")
        wait_for("its end", lambda: c.daemons["cayd"].poll() is not None, 30)
        c.kill_daemon("cayd")
        c.start_cayd()
        wait_for("the link", lambda: linked(c), 30)
        wait_for("the row to go", lambda: not listed(c), 10)
        gone(c)


def test_fsck_finds_what_is_lost_and_what_is_stray(own):
    vo, other = volume(own, "data"), volume(own, "other")
    restart(own, "cay-keeper")
    os.rename(own.state / "volumes" / vo, own.state / "volumes" / ABSENT)
    found = own.call("GET", "/v1/fsck")["findings"]
    assert {(f["kind"], f["volume"]) for f in found} == {("void", vo), ("stray", ABSENT)} and not any("sandbox" in f for f in found)
    own.call("POST", "/v1/fsck")
    wait_for("the row to go", lambda: [v["id"] for v in listed(own)] == [other], 30)
    assert os.path.exists(own.state / "volumes" / ABSENT)  # files of somebody
    own.call("POST", "/v1/fsck?end_foreign=true&older_ms=0")
    wait_for("the files to go", lambda: os.listdir(own.state / "volumes") == [other], 30)
    drop(own, other)
    gone(own)


def test_a_probe_that_failed_is_tried_again(own):
    """The disk was full when cay-keeper started; here a mount is where the probe is to be."""
    where = own.state / "volumes/.probe"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", where], check=True)
    try:
        restart(own, "cay-keeper")
        wait_for("its warning", lambda: "volumes cannot be created: " in own.said("cay-keeper"), 10)
    finally:
        subprocess.run(["umount", where], check=True)
    drop(own, volume(own, "data"))
    gone(own)


def test_fsck_removes_only_what_it_reports(own):
    """A thousand findings are one page; the next pass has the rest."""
    vo = volume(own, "data")
    for i in range(1003):
        os.mkdir(own.state / "volumes" / f"{ABSENT[:-4]}{i:04d}")
    done = own.call("POST", "/v1/fsck?end_foreign=true&older_ms=0")["findings"]
    assert len(done) == 1000 and all(f["repaired"] for f in done)
    wait_for("those to go", lambda: len(os.listdir(own.state / "volumes")) == 4, 60)
    cay.let_pass(0.5)
    assert len(os.listdir(own.state / "volumes")) == 4
    own.call("POST", "/v1/fsck?end_foreign=true&older_ms=0")
    wait_for("the rest to go", lambda: os.listdir(own.state / "volumes") == [vo], 30)
    drop(own, vo)
    gone(own)


def test_fsck_finds_what_cannot_be_removed(own):
    """A mount in it stands for a broken disk, as for sandboxes."""
    vo = volume(own, "data")
    busy = own.state / "volumes" / vo / "disk/busy"
    busy.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", busy], check=True)
    try:
        drop(own, vo)
        wait_for("fsck to report it", lambda: [(f["kind"], f.get("volume"), f.get("sandbox")) for f in own.call("GET", "/v1/fsck")["findings"]] == [("trash", vo, None)], 30)
    finally:
        where, = (own.state / "trash").glob("*/disk/busy")
        subprocess.run(["umount", where], check=True)
    wait_for("it to go", lambda: not os.listdir(own.state / "trash"), 30)
    gone(own)


def test_a_kill_of_the_sandbox_frees_it(own):
    """However its processes end, the kernel lets go of the volume, and the next sandbox has it at once."""
    vo = volume(own, "data")
    for i in range(5):
        box = own.create("tiny", volumes=[at(vo)])
        own.exec_detached(box, ["sh", "-c", "cd /workspace/data; while :; do echo x >>busy; done"])
        assert sh(own, box, f"echo {i} >>/workspace/data/n; cat /workspace/data/n | wc -l").text.strip() == str(i + 1)
        if i % 2:
            os.kill(own.pid_1(box), 9)
            wait_for("its end", lambda box=box: own.get(box)["state"] in ("terminated", "failed"), 30)
        else:
            own.delete(box)
    drop(own, vo)
    gone(own)


def test_what_one_leaves_for_the_next(own):
    """A program that sets its user id, a device, a FIFO: nothing of them acts in another sandbox, or holds up an end."""
    vo = volume(own, "data")
    box = own.create("tiny", volumes=[at(vo, "/v")])
    assert sh(own, box, "cp $(readlink -f /bin/busybox || echo /bin/sh) /v/busybox && chmod 6755 /v/busybox && mkfifo -m 666 /v/pipe").exit_code == 0
    assert sh(own, box, "mknod /v/null c 1 3").exit_code != 0 and "null" not in os.listdir(own.state / "volumes" / vo / "disk/upper")
    assert sh(own, box, "/v/busybox id -u", user="1000").text == "1000\n"
    own.exec_detached(box, ["sh", "-c", "echo waits >/v/waits; exec cat /v/pipe"], user="root")
    wait_for("one that waits in the FIFO", lambda: sh(own, box, "cat /v/waits").text == "waits\n", 30)
    own.delete(box)
    box = own.create("tiny", volumes=[at(vo, "/v")])
    assert sh(own, box, "/v/busybox id -u", user="1000").text == "1000\n"
    own.delete(box)
    # what goes into a FIFO in one reader does not come out in another
    one, two = (own.create("tiny", volumes=[at(vo, "/v", True)]) for _ in range(2))
    own.exec_detached(one, ["sh", "-c", "echo waits >/tmp/waits; cat /v/pipe >/tmp/got"], user="root")
    wait_for("one that waits in the FIFO", lambda: sh(own, one, "cat /tmp/waits").text == "waits\n", 30)
    own.exec_detached(two, ["sh", "-c", "echo waits >/tmp/waits; echo secret >/v/pipe; echo done >/tmp/done"], user="root")
    wait_for("the other one", lambda: sh(own, two, "cat /tmp/waits").text == "waits\n", 30)
    cay.let_pass(0.3)
    assert sh(own, one, "cat /tmp/got").text == "" and sh(own, two, "cat /tmp/done").exit_code != 0
    for name in (one, two):
        own.delete(name)
    drop(own, vo)
    gone(own)


def test_what_has_no_volumes(own):
    """A template, a fork, and one that is taken from a pool: it is created with them instead."""
    vo = volume(own, "data")
    refused("invalid_argument", own.call, "POST", "/v1/templates", {"name": "kind", "defaults": {"image": "tiny", "volumes": [at(vo)]}})
    kind = own.call("POST", "/v1/templates", {"name": "kind", "defaults": {"image": "tiny"}, "pool": {"min": 1}})["id"]
    box = own.create(None, template="kind", volumes=[at(vo)])
    assert sh(own, box, "echo x >/workspace/data/a; cat /workspace/data/a").text == "x\n"
    (of,) = ids(fork(own, box))
    assert own.get(of)["volumes"] == [] and sh(own, of, "ls /workspace/data").text == ""
    refused("conflict", own.create, "tiny", name="other", volumes=[at(vo)])
    for name in (box, of):
        own.delete(name)
    assert own.create("tiny", name="same", volumes=[at(vo)]) == own.create("tiny", name="same", volumes=[at(vo)])
    refused("conflict", own.create, "tiny", name="same")
    own.delete(own.create("tiny", name="same", volumes=[at(vo)]))
    own.call("DELETE", f"/v1/templates/{kind}")
    drop(own, vo)


def test_the_commands_of_the_guide(own):
    def run(*words, code=0):
        done = cli(own, *words)
        assert done.returncode == code, (words, done)
        return done.stdout if not code else done.stderr
    vo = run("volume", "create", "--label", "a=b", "data").strip()
    run("create", "--name", "writer", "--volume", "data:/workspace/data", "tiny")
    run("exec", "writer", "--", "sh", "-c", "echo kept >data/note")
    assert "has the volume 'data'" in run("create", "--volume", f"{vo}:/data:ro", "tiny", code=5)
    run("rm", "writer")
    box = run("create", "--name", "reader", "--volume", f"{vo}:/data:ro", "tiny").strip()
    assert run("exec", "reader", "--", "cat", "/data/note") == "kept\n"
    row = run("volume", "ls").splitlines()[1].split()
    assert row[:2] == [vo, "data"] and "1" in row
    assert json.loads(run("volume", "show", "data"))["readers"] == 1 and own.get(box)["volumes"] == [at(vo, "/data", True)]
    assert "expected NAME:PATH" in run("create", "--volume", "data:/x:rw", "tiny", code=2)
    assert "no volume" in run("create", "--volume", "other:/x", "tiny", code=4)
    run("rm", "reader")
    run("volume", "rm", "data")
    gone(own)


def test_a_token_has_no_volumes(own):
    vo = volume(own, "data")
    box = own.create("tiny", volumes=[at(vo)])
    tenant = own.get(box)["tenant"]
    token = own.edge(actor("write", tenant, "-", box))
    for call in (lambda: listed(token), lambda: get(token, vo), lambda: drop(token, vo), lambda: volume(token, "x")):
        with pytest.raises(ApiError) as e:
            call()
        assert e.value.code in ("permission_denied", "unauthenticated"), e.value
    own.delete(box)
    drop(own, vo)
