# SPDX-License-Identifier: Apache-2.0
"""Somebody with root changes by hand what is ours: it is found, and nobody else is hurt."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess

import cay
import pytest
from cay import ApiError, wait_for
from test_control import networks, nothing_is_left, refused, residue
from test_life import ended, fsck, linked

# what becomes of the sandbox
ENDED = "ends with a reason, and nothing is left"
FOREIGN = "is in no journal that can be read, and is left as it is"
SAME = "goes on"
PAUSED = "is paused, as the journal says"
STAYS = "ends; what runs is not of its generation, stays and is reported"


def record(c, box):
    return c.state / "boxes" / box / "box"


def patch(path, at, data):
    old = bytearray(path.read_bytes())
    old[at:at + len(data)] = data
    path.write_bytes(old)


def cgroup_files(c, box, name):
    return [p for at in c.cgroup_dirs() for p in at.glob(f"*/{box}/{name}")]


def write(c, box, name, text):
    files = cgroup_files(c, box, name)
    assert files, name
    for p in files:
        p.write_text(text)


def kill_all(c, box):
    write(c, box, "cgroup.kill", "1")
    wait_for("its death", lambda: not c.processes(box), 20)


def no_cgroups(c, box):
    kill_all(c, box)
    for at in c.cgroup_dirs():
        for top in at.glob(f"*/{box}"):
            for d, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(FileNotFoundError):  # who runs takes them away, too
                    os.rmdir(d)


def stranger(c, box):
    """A process of ours, put where the sandbox's are."""
    c.stranger = subprocess.Popen(["sleep", "60"])
    for p in cgroup_files(c, box, "cgroup.procs"):
        p.write_text(str(c.stranger.pid))


def out_of_v1(c, box):
    """Out of its limits, into the tenant's cgroup."""
    for p in cgroup_files(c, box, "cgroup.procs"):
        if not (p.parent / "cgroup.kill").exists():
            def emptied(p=p):
                with contextlib.suppress(ProcessLookupError):  # a worker that is leaving
                    for pid in p.read_text().split():
                        (p.parents[1] / "cgroup.procs").write_text(pid)
                with contextlib.suppress(OSError):  # not empty yet
                    p.parent.rmdir()
                return not p.parent.exists()
            wait_for("it to be empty", emptied, 30)


def range_of(c, box):
    [found] = [p for p in (c.state / "ranges").iterdir() if os.readlink(p) == box]
    return found


def relink(c, box, to):
    at = range_of(c, box)
    at.unlink()
    at.symlink_to(to)


def other_of(c, box):
    return next(n for n in os.listdir(c.state / "boxes") if n != box)


def instead(path, make):
    """Something else where a directory was, which is kept beside."""
    path.rename(path.with_name("was-" + path.name))
    make(path)


def listener(c, box):
    path = c.run / "box" / box
    path.unlink()
    c.impostor = socket.socket(socket.AF_UNIX)
    c.impostor.bind(str(path))
    c.impostor.listen()
    os.chown(path, cay.CONTROL_UID, cay.CONTROL_UID)


def plain_file(c, box):
    path = c.run / "box" / box
    path.unlink()
    path.write_text("")
    os.chown(path, cay.CONTROL_UID, cay.CONTROL_UID)


def sql(statement):
    def change(c, box):
        with contextlib.closing(sqlite3.connect(c.state / "db/journal.db")) as db, db:
            assert db.execute(statement, {"box": box}).rowcount == 1
        for f in (c.state / "db").glob("journal.db*"):
            os.chown(f, cay.CONTROL_UID, cay.CONTROL_UID)
    return change


def row(what):
    return sql(f"UPDATE sandbox SET {what} WHERE id = :box")


V1 = "cgroup rw,memory" in pathlib.Path("/proc/self/mountinfo").read_text()
MEMORY = "memory.limit_in_bytes" if V1 else "memory.max"
GHOST = "sb0000000000000000000000tr"
COLUMNS = ("seq, boot, generation, born_ns, expires_ns, ceiling_ns, idle_ns, active_ns, started_ns, state, reason, "
           "failed, entry, on_exit")

# what is done; what becomes of the sandbox; and why that is right where it is not plain
ANYTIME = {
    "PID 1 killed": (lambda c, b: os.kill(c.pid_1(b), 9), ENDED),
    "all killed by cgroup": (kill_all, ENDED),
    "its cgroups removed": (no_cgroups, ENDED),
    "out of its limits": (out_of_v1, ENDED if V1 else SAME),
    "its socket removed": (lambda c, b: (c.run / "box" / b).unlink(), ENDED),
    "a file for its socket": (plain_file, ENDED),
    "its socket for root only": (lambda c, b: os.chown(c.run / "box" / b, 0, 0), ENDED),
    "its directory removed": (lambda c, b: shutil.rmtree(c.state / "boxes" / b), ENDED),
    "its directory a file": (lambda c, b: instead(c.state / "boxes" / b, lambda p: p.write_text("")), ENDED),
    "its directory a link to another's": (lambda c, b: instead(c.state / "boxes" / b,
                                                               lambda p: p.symlink_to(other_of(c, b))), ENDED),
    "its directory empty": (lambda c, b: instead(c.state / "boxes" / b, lambda p: p.mkdir()), ENDED),
    "its record removed": (lambda c, b: record(c, b).unlink(), ENDED),
    "its record cut": (lambda c, b: record(c, b).write_bytes(b"CAYB"), ENDED),
    "its record a directory": (lambda c, b: (record(c, b).unlink(), record(c, b).mkdir()), ENDED),
    "its record of another generation": (lambda c, b: patch(record(c, b), 8, b"\x09"), STAYS),
    "its record of another range": (lambda c, b: patch(record(c, b), 4, b"\x77"), ENDED),
    # where nothing has to be found, because nothing depends on it but the sandbox itself
    "its range's link removed": (lambda c, b: range_of(c, b).unlink(), SAME),
    "its range's link to another": (lambda c, b: relink(c, b, other_of(c, b)), SAME),
    "its range's link to nobody": (lambda c, b: relink(c, b, "nobody"), SAME),
    "its upper directory removed": (lambda c, b: shutil.rmtree(c.state / "boxes" / b / "disk/upper"), SAME),
    "its work directory removed": (lambda c, b: shutil.rmtree(c.state / "boxes" / b / "disk/work"), SAME),
    # limits are written once; whoever may write there may also mean it
    "less memory by hand": (lambda c, b: write(c, b, MEMORY, "268435456"), SAME),
    "more processes by hand": (lambda c, b: write(c, b, "pids.max", "max"), SAME),
    # stopped is not dead: who asks waits for its deadline, delete does not
    "PID 1 stopped": (lambda c, b: os.kill(c.pid_1(b), signal.SIGSTOP), SAME),
    # only root and the keeper can bind there
    "another listener at its socket": (listener, SAME),
    "a directory of nobody in boxes/": (lambda c, b: (c.state / "boxes/nobody").mkdir(), SAME),
    "keeper's socket removed": (lambda c, b: (c.run / "box/keeper.sock").unlink(), SAME),
}
AWAY = {
    "a row says paused": (row("state = 'paused'"), PAUSED),
    "a row says pending": (row("state = 'pending'"), SAME),
    "a row says ending": (row("state = 'ending', reason = 'killed'"), ENDED),
    "a row says terminated": (row("state = 'terminated', reason = 'killed'"), ENDED),
    "a row says flying": (row("state = 'flying'"), FOREIGN),
    "a row of another generation": (row("generation = 9"), STAYS),
    "a row of another start": (row("started_ns = started_ns + 1"), ENDED),
    "a row of another boot": (row("boot = '00000000-0000-0000-0000-000000000000'"), ENDED),
    "a row past its deadline": (row("expires_ns = 1"), ENDED),
    "a row whose text is not JSON": (row("text = 'hello'"), FOREIGN),
    "a row whose text is another's": (row(f"text = replace(text, id, '{GHOST}')"), FOREIGN),
    "a row with the id of an image": (row("id = 'im' || substr(id, 3)"), FOREIGN),
    "a row deleted": (sql("DELETE FROM sandbox WHERE id = :box"), FOREIGN),
    # the ghost has no PID 1 and ends; what it shared by its row is the other's
    "a row doubled": (sql(f"INSERT INTO sandbox (id, {COLUMNS}, text) SELECT '{GHOST}', {COLUMNS}, "
                          f"replace(text, id, '{GHOST}') FROM sandbox WHERE id = :box"), SAME),
    "frozen by hand": (lambda c, b: write(c, b, "cgroup.freeze", "1"), SAME),
}
ROWS = [(what, True) for what in ANYTIME] + [(what, False) for what in [*ANYTIME, *AWAY] if what != "keeper's socket removed"]


def follow(c, box, fate):
    """What becomes of it, soon."""
    if fate in (ENDED, STAYS):
        def found():
            return c.call("GET", f"/v1/sandboxes/{box}")["state"] in ("ending", "terminated", "failed") or \
                any(s == box for _, s in fsck(c))
        wait_for("somebody to notice", found, 30)
        c.call("POST", "/v1/fsck")
        end = ended(c, box)["end"]
        assert end["reason"] in ("node_lost", "signal", "killed", "ttl") and end["detail"], end
    if fate == STAYS:
        assert fsck(c, "POST") == {("other", box)} and c.processes(box)
    if fate == FOREIGN:
        assert fsck(c) == fsck(c, "POST") == {("foreign", box)} and c.processes(box)
        refused("not_found", c.get, box)
    if fate == PAUSED:
        assert c.get(box)["state"] == "paused"
        # it was found running, and is frozen first
        wait_for("it to be frozen", lambda: c.open("POST", f"/v1/sandboxes/{box}/resume").status == 200, 30)
        assert c.get(box)["state"] == "running"


@pytest.mark.parametrize("what,running", ROWS, ids=lambda w: {True: "now", False: "away"}.get(w, str(w).replace(" ", "-")))
def test_vandalism(own, what, running):
    act, fate = (ANYTIME | AWAY)[what]
    box, other = own.create("tiny"), own.create("tiny")
    before = own.pid_1(other)
    own.stranger = None
    if not running:
        own.kill_daemon("cayd")
    act(own, box)
    if not running:
        own.start_cayd()
    follow(own, box, fate)
    if fate in (SAME, PAUSED):
        # only PID 1 knows whether it was claimed, and it is asked when all is looked at
        wait_for("it to be known", lambda: own.get(box)["state"] == "running" or what == "a row past its deadline", 20)
    assert own.exec(other, ["echo", "unhurt"]).text == "unhurt\n" and own.pid_1(other) == before
    if fate in (SAME, PAUSED):
        own.delete(box)
    own.delete(own.create("tiny"))
    wait_for("the last worker", lambda: fate in (FOREIGN, STAYS) or not own.processes(box) and len(networks()) == 1
             and not residue(own)["trash"], 30)
    left = residue(own)
    left["boxes"] = [n for n in left["boxes"] if n != f"was-{box}" and n != "nobody"]
    if fate in (FOREIGN, STAYS):
        assert left["boxes"] == sorted([box, other])
        return
    assert left["boxes"] == left["sockets"] == [other] and all(other in d for d in left["cgroups"]), left
    assert before in left["processes"] and len(left["networks"]) == 1, left
    wait_for("nobody but the other", lambda: own.processes("/sb") == own.processes(other), 30)  # whose worker may be leaving
    if "range" not in what:
        assert [os.readlink(own.state / "ranges" / r) for r in left["ranges"]] == [other]
    assert not fsck(own)


def test_who_is_put_into_a_sandbox_is_of_it(own):
    """A process that root moves there is killed with it, and its mover is not asked.  One outside never is."""
    box, other, outside = own.create("tiny"), own.create("tiny"), subprocess.Popen(["sleep", "60"])
    stranger(own, box)
    try:
        own.delete(box)
        assert own.stranger.wait(30) == -9 and outside.poll() is None
    finally:
        outside.kill()
        outside.wait()
    assert own.exec(other, ["echo", "unhurt"]).text == "unhurt\n"
    own.delete(other)
    nothing_is_left(own)


DAMAGES = {
    "cut in half": lambda p: os.truncate(p, p.stat().st_size // 2),
    "noise": lambda p: p.write_bytes(os.urandom(8192)),
    "one page of noise": lambda p: patch(p, 4096, os.urandom(4096)),
    "a directory": lambda p: (p.unlink(), p.mkdir()),
}


@pytest.mark.parametrize("what", DAMAGES, ids=lambda w: w.replace(" ", "-"))
def test_a_damaged_journal_is_refused_and_can_be_moved_away(own, what):
    box = own.create("tiny")
    pid = own.pid_1(box)
    own.daemons["cayd"].terminate()
    own.daemons["cayd"].wait()
    path = own.state / "db/journal.db"
    DAMAGES[what](path)
    with pytest.raises(RuntimeError) as e:
        own.start_cayd()
    assert own.daemons["cayd"].returncode not in (0, None)
    assert what == "a directory" or "move it away" in str(e.value), e.value
    assert own.pid_1(box) == pid
    for f in (own.state / "db").glob("journal.db*"):
        f.rename(f.with_name("old-" + f.name))
    with pytest.raises(ApiError):  # it does not take itself for a new node
        own.start_cayd()
    assert own.pid_1(box) == pid
    own.call("POST", "/v1/fsck?end_foreign=true")
    own.daemons["cayd"].wait(cay.UP_S)
    own.start_cayd()
    wait_for("what the journal lacks to end", lambda: not own.processes(box) and not fsck(own), 20)
    other = own.create("tiny")
    assert own.exec(other, ["echo", "hi"]).text == "hi\n"
    own.delete(other)
    assert linked(own)


