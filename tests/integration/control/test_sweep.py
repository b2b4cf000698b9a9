# SPDX-License-Identifier: Apache-2.0
"""A crash anywhere leaves nothing behind and loses nothing that was acknowledged.

First at every failpoint, then at the N-th system call of each daemon, of the keeper's
workers and of the runtime; a seed chooses which, `make sweep` takes them all.
"""
import contextlib
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import time

import cay
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_control import networks, nothing_is_left, residue
from test_create_many import outcomes
from test_life import COUNT, fsck, linked, numbers, post
from test_limits import in_kernel

SOURCE = pathlib.Path(__file__).parents[3]
RUNTIME_S = 30  # the keeper's for a runtime, which may wait for a child that was killed
KILLAT = pathlib.Path(BUILD).resolve() / "tests/integration/killat"
# of each kind: which, by CAY_SEED; crun has fewer, runc's differ from run to run
PER_KIND, FULL_PER_KIND, ASAN_PER_KIND = {"crun": 20, "runc": 12}, 700, 6
GONE = (OSError, ApiError, TimeoutError, RuntimeError, cay.http.client.HTTPException)


class Story:
    """One sandbox lives from create to delete, beside another that must not notice."""

    def __init__(self, c, runtime="crun"):
        self.c, self.runtime, self.rounds = c, runtime, 0
        self.bystander = c.create("tiny")
        self.counting = c.exec_detached(self.bystander, COUNT)
        self.pid = c.pid_1(self.bystander)

    def create(self):
        """The same request whenever it is said: it has a key."""
        key = f"story-{self.rounds}"
        body = {"image": "tiny", "wait": False, "entrypoint": ["sleep", "100"], "labels": {"story": key},
                "runtime": self.runtime}
        return post(self.c, "/v1/sandboxes", body, {"Idempotency-Key": key})[1]["id"]

    def live(self, patience=20, end_s=2):
        """Until something fails.  What it may be from then on: self.may.  end_s: for a delete that nobody may answer."""
        c = self.c
        self.rounds += 1
        self.box, self.may, self.kept, self.snapshots = None, set(), False, set()
        try:
            self.box = self.create()
            self.may = {"running", "failed"}
            self.come(patience)
            if c.get(self.box)["state"] != "running":
                return
            self.may = {"running"}
            done = c.exec(self.box, ["sh", "-c", "echo kept >kept && echo hi"], timeout_s=10)
            assert done.text == "hi\n" or done.end is None, done
            self.kept = done.text == "hi\n"
            wait_for("its entrypoint", lambda: dead(c) or c.get(self.box).get("entry"), 30)  # till then it is not paused
            self.act("running", lambda: c.call("POST", f"/v1/sandboxes/{self.box}/limits", {"pids": 300 + self.rounds}))
            self.act("paused", lambda: c.call("POST", f"/v1/sandboxes/{self.box}/pause"))
            self.act("running", lambda: c.call("POST", f"/v1/sandboxes/{self.box}/resume"))
            self.act("running", self.snapshot)
            self.act("running", self.fork)
            self.act("running", self.rollback, "stopped")
            self.act("stopped", lambda: c.call("POST", f"/v1/sandboxes/{self.box}/stop"))
            self.act("running", lambda: c.call("POST", f"/v1/sandboxes/{self.box}/start"))
            wait_for("its entrypoint", lambda: dead(c) or c.get(self.box).get("entry"), 30)
            self.act("terminated", lambda: c.call("DELETE", f"/v1/sandboxes/{self.box}", timeout_s=end_s))
        except (*GONE, ValueError):
            pass

    def snapshot(self):
        made = self.c.call("POST", f"/v1/sandboxes/{self.box}/snapshots", {}, timeout_s=30)
        assert made["state"] == "ready"
        self.snapshots.add(made["id"])
        return self.c.get(self.box)

    def fork(self):
        """Each is a sandbox or an error; its labels are its own, so that the source is found by hers."""
        reply = self.c.open("POST", f"/v1/sandboxes/{self.box}/fork", {"count": 1, "labels": {"story": self.forked()}}, timeout_s=30)
        if reply.status != 200:  # the copy failed
            raise ApiError(reply.status, reply.read())
        (row,) = outcomes(reply)
        assert "error" in row or row["sandbox"]["state"] == "running"
        return self.c.get(self.box)

    def forked(self):
        return f"fork-{self.rounds}"

    def rollback(self):
        """To what it has."""
        return self.c.call("POST", f"/v1/sandboxes/{self.box}/rollback", {"snapshot": max(self.snapshots)}, timeout_s=RUNTIME_S + 10)

    def come(self, patience):
        """Nobody but a daemon that died may keep it from coming or failing."""
        try:
            wait_for("", lambda: dead(self.c) or self.c.get(self.box)["state"] != "pending", patience or 1)
        except TimeoutError as e:
            assert not patience, f"it neither came nor failed: {self.c.get(self.box)}"
            raise e

    def act(self, to, what, *between):
        self.may |= {to, *between}
        assert what()["state"] == to
        self.may = {to}

    def check(self, may_fail=True):
        """After everything was started again."""
        c = self.c
        wait_for("the link", lambda: linked(c), 30)
        before = numbers(c, self.bystander, self.counting)
        if self.box:
            wait_for("it to settle", lambda: c.get(self.box)["state"] not in ("pending", "ending", "stopping", "starting"), 60)
            got = c.get(self.box)
            # the entrypoint is started when it runs already
            failed = may_fail and got["state"] == "failed" and got["end"]["reason"] == "start_failed"
            assert failed or got["state"] in self.may - {"failed"}, (got, self.may)
            if got["state"] == "stopped":
                assert not c.processes(self.box) and not fsck(c)
                assert self.may >= {"stopped"} and (got := c.call("POST", f"/v1/sandboxes/{self.box}/start"))["state"] == "running"
            assert got["state"] in ("running", "paused") or (got["end"]["reason"] and got["end"]["detail"]), got
            if got["state"] in ("running", "paused"):
                wait_for("the limits it has", lambda: in_kernel(c, self.box, "pids.max") == str(
                    c.get(self.box)["limits"]["pids"]), 30)
            if got["state"] == "running":
                assert c.exec(self.box, ["echo", "hi"], timeout_s=30).text == "hi\n"
                assert not self.kept or c.exec(self.box, ["cat", "kept"], timeout_s=30).text == "kept\n"
        for row in c.call("GET", f"/v1/sandboxes?label=story%3D{self.forked()}")["sandboxes"]:
            wait_for("the fork to settle", lambda i=row["id"]: c.get(i)["state"] not in ("pending", "ending"), 60)
            with contextlib.suppress(ApiError):  # it failed
                c.delete(row["id"])
        for row in (rows := c.call("GET", "/v1/snapshots")["snapshots"]):  # whole, or none
            assert row["state"] == "ready"
            c.call("DELETE", f"/v1/snapshots/{row['id']}")
        assert self.snapshots <= {row["id"] for row in rows}
        again = self.create()
        assert self.box in (None, again)
        rows = c.call("GET", f"/v1/sandboxes?label=story%3Dstory-{self.rounds}")["sandboxes"]
        assert [r["id"] for r in rows] == [again]
        wait_for("it to settle", lambda: c.get(again)["state"] not in ("pending", "ending"), 60)
        wait_for("fsck to find nothing", lambda: not fsck(c), 60)
        c.delete(again)
        wait_for("the last worker", lambda: not c.processes(again) and len(networks()) == 1 and not residue(c)["trash"], 30)
        left = residue(c)
        assert left["boxes"] == left["sockets"] == [self.bystander] and len(left["ranges"]) == 1, left
        assert all(self.bystander in d for d in left["cgroups"]), left
        assert left["mounts"] == [] and len(left["networks"]) == 1, left
        wait_for("layers to go", lambda: all((c.state / "images" / "sha256" / d / "rootfs").is_dir() for d in os.listdir(c.state / "images" / "sha256"))
                 and not list((c.state / "images").glob("tmp/*")), 30)
        assert c.pid_1(self.bystander) == self.pid
        wait_for("the bystander to go on", lambda: len(numbers(c, self.bystander, self.counting)) > len(before), 20)
        got = numbers(c, self.bystander, self.counting)
        assert got == list(range(got[0], got[0] + len(got)))

    def end(self):
        self.c.delete(self.bystander)
        nothing_is_left(self.c)
        self.c.kill_daemon("cayd")
        with sqlite3.connect(f"file:{self.c.state}/db/journal.db?mode=ro", uri=True) as db:
            assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def start(c, name):
    c.start_keeper() if name == "cay-keeper" else c.start_cayd()


def dead(c):
    return [name for name in ("cay-keeper", "cayd") if c.daemons[name].poll() is not None]


def bring_back(c):
    """What has died, as systemd would."""
    for name in dead(c):
        start(c, name)


# -- failpoints

POINTS = {
    "cayd": ["write:created", "write:filled", "write:renamed", "journal:queued", "journal:begun", "journal:written",
             "journal:committed", "audit:written", "audit:synced", "create:accepted", "create:prepared", "create:started", "create:claim", "create:entry",
             "limits:wanted", "limits:set", "pause:freeze", "pause:thaw", "stop:kill", "start:restore", "delete:remove", "recover:loaded", "recover:looked"],
    "cay-keeper": ["write:created", "write:filled", "write:renamed", "spawn:before", "spawn:after", "keeper:message",
                   "keeper:hello", "keeper:answer", "prepare:made", "prepare:record", "prepare:range", "prepare:cgroups",
                   "start:joined", "start:mapped", "start:mounted", "start:staged", "start:ran", "start:sealed", "freeze:done", "stop:synced", "restore:cgroups",
                   "remove:killed", "remove:cgroups", "remove:trashed", "remove:gone", "trash:begun", "trash:disk", "trash:range"],
}
# of a build, of a pool, of snapshots, of layers, of volumes, of uploads and of a doze; test_build.py, test_pool.py, test_snapshot.py, test_changes.py,
# test_volumes.py, test_uploads.py and test_doze.py have the stories of those
BUILD_POINTS = ["commit:killed", "commit:moved", "commit:named"]
POOL_POINTS = ["claim:answered"]
SNAPSHOT_POINTS = ["snapshot:wanted", "snapshot:copy", "snapshot:made", "snapshot:layer", "snapshot:ready",
                   "snapshot:frozen", "snapshot:copied", "snapshot:named", "snapshot:thawed"]
PACK_POINTS = ["pack:opened", "pack:written"]
VOLUME_POINTS = ["volume:wanted", "volume:answered", "volume:ready", "volume:resized", "volume:deleting", "volume:gone",
                 "volume:made", "volume:limited", "volume:removed", "volume:frozen", "volume:copied"]
MERGE_POINTS = ["snapshot:merged"]  # test_flatten.py has its story
UPLOAD_POINTS = ["upload:filled", "upload:named", "upload:removed", "upload:forgotten"]
DOZE_POINTS = ["reclaim:slice"]
# which pass of it: the first message is fsck's, and then one for each act of the story; the second is of the run after the stop
AGAIN = {p: (1, 2) for p in ("create:started", "create:claim", "start:joined", "start:ran", "remove:killed")}
PASSES = {"journal": (1, 2, 4, 6, 8), "keeper:message": range(1, 16), **AGAIN}
SWEPT = [(program, point, how, n) for program, points in POINTS.items() for point in points for how in ("kill", "error")
         for n in PASSES.get(point, PASSES.get(point.split(":")[0], (1,)))]


def test_no_failpoint_is_left_out():
    there = re.findall(r'^CAY_FAULT_POINT\(\w+,\s*"(.*)"\)', (SOURCE / "src/lib/base/failpoints.def").read_text(), re.M)
    assert there and {p for points in POINTS.values() for p in points} | {*BUILD_POINTS, *POOL_POINTS, *SNAPSHOT_POINTS, *MERGE_POINTS, *PACK_POINTS, *VOLUME_POINTS, *UPLOAD_POINTS, *DOZE_POINTS} == set(there)


@pytest.mark.parametrize("program,point,how,n", SWEPT, ids=lambda w: str(w).replace(":", "-"))
def test_every_failpoint(own, program, point, how, n):
    """It dies or fails there; after a restart there is what was meant, or a clean failure."""
    story = Story(own)
    own.kill_daemon(program)
    own.env["CAY_FAULT"] = f"{point}={how}@{n}"
    try:
        start(own, program)
    except GONE:
        pass
    del own.env["CAY_FAULT"]
    if point != "keeper:answer":  # where nothing is answered
        wait_for("the link", lambda: dead(own) or linked(own), 30)
    try:
        own.image_import("other", cay.layout([cay.file("a", b"1")]))
    except GONE:
        pass
    story.live(0 if point in ("keeper:answer", "keeper:hello") else 20)  # where nothing is answered it waits for a better keeper
    assert not set(dead(own)) - {program}, "the other one died of it"
    if not dead(own):
        own.kill_daemon(program)  # or it goes on failing
    bring_back(own)
    story.check()
    story.end()


# -- system calls

KINDS = {"cayd": ("cayd", "main"), "keeper": ("cay-keeper", "main"), "worker": ("cay-keeper", "worker"),
         "runtime": ("cay-keeper", "runtime")}


class Killer:
    """killat on one of the daemons; see killat.c."""

    def __init__(self, c, kind, at):
        program, which = KINDS[kind]
        # unbuffered: communicate() would lose a line that readline() has read ahead
        self.process = subprocess.Popen([KILLAT, str(c.pids()[program]), which, str(at)], stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdout.readline() == b"ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.said = dict(line.split(" ", 1) for line in self.process.communicate(timeout=30)[0].decode().splitlines())


def how_many(story, kind):
    """System calls of one life."""
    with Killer(story.c, kind, 0) as k:
        story.live(end_s=30)
    assert story.may == {"terminated"}
    story.check()
    return int(k.said[KINDS[kind][1]])


def kill_at(story, kind, n):
    """Whether it came to that call."""
    program, c = KINDS[kind][0], story.c
    with Killer(c, kind, n) as k:
        story.live(RUNTIME_S + 10)
    try:
        if k.said.get("killed", "").startswith("main"):
            c.daemons[program].wait(30)
        assert not set(dead(c)) - {program}, "the other one died of it"
        bring_back(c)
        story.check(may_fail=kind == "runtime")  # one crash of ours is no reason
    except Exception as e:
        raise AssertionError(f"killed at call {n} of {kind} ({k.said}): {e}\n{c.said('cayd')}") from e
    return "killed" in k.said


@pytest.mark.parametrize("runtime,kind", [*(("crun", kind) for kind in KINDS), ("runc", "worker"), ("runc", "runtime")])
def test_every_system_call(runtime, kind):
    """SIGKILL as a call begins.  The runtime's are the keeper's to clean up after."""
    seed = int(os.environ.get("CAY_SEED", "2"))
    most = FULL_PER_KIND if os.environ.get("CAY_FULL") else ASAN_PER_KIND if "asan" in str(BUILD) else PER_KIND[runtime]
    begin = time.monotonic()
    with cay.Cay(BUILD) as c:
        c.image_import("tiny", tiny())
        story = Story(c, runtime)
        there = how_many(story, kind)
        points = list(range(1, there + 1))
        random.Random(seed).shuffle(points)
        hits = sum(kill_at(story, kind, n) for n in points[:most])
        story.end()
    print(f"\n# {runtime}, seed {seed}: killed at {hits} of {there} system calls of {kind}, {time.monotonic() - begin:.0f} s", flush=True)
    # the last ones of a life come or do not
    assert hits > min(there, most) / 2, (hits, there)
