# SPDX-License-Identifier: Apache-2.0
"""Rollback: a sandbox has the files of its snapshot again, or those it had, whatever dies in between."""
import contextlib
import os

import cay
import pytest
from cay import ApiError, wait_for
from test_control import refused
from test_life import COUNT, clean, fsck, linked, restart
from test_limits import in_kernel
from test_quota import new_tenant
from test_snapshot import drop, fork, gone, listed, objects, snapshot
from test_stop import TREE, act, own_image, reboot
from test_tenants import asks

CYCLES = 1000 if os.environ.get("CAY_FULL") else 50


def rollback(c, box, sn, timeout_s=120):
    return c.call("POST", f"/v1/sandboxes/{box}/rollback", {"snapshot": sn}, timeout_s=timeout_s)


def shell(c, box, text):
    done = c.exec(box, ["sh", "-c", text], user="root")
    assert done.exit_code == 0, done
    return done.text


def names(c, box):
    """Every file that the sandbox shows, with mode, owner, size and target, as its own tools see them."""
    return shell(c, box, "cd /; find . -xdev \\( -path ./proc -o -path ./sys -o -path ./dev \\) -prune -o -print | sort | while read -r n; do "
                 "stat -c '%n %f %u:%g %h %s %N' \"$n\" | { [ -d \"$n\" ] && cut -d' ' -f1-3 || cat; }; [ ! -f \"$n\" ] || md5sum <\"$n\"; done")


@pytest.mark.parametrize("state", ["running", "paused", "stopped"])
def test_it_has_the_files_of_its_snapshot(daemon, state):
    own_image(daemon)
    box = daemon.create("files", name=f"back-{state}", labels={"a": "b"}, env={"X": "y"}, ttl_ms=3600000, entrypoint=["sh", "-c", "echo $X >/tmp/ran; exec sleep 1000"])
    shell(daemon, box, TREE)
    sn = snapshot(daemon, box)["id"]
    before = names(daemon, box)
    shell(daemon, box, "rm -r d /tmp/t; echo later >/gone/later; echo root:x:0: >/etc/group; mkdir d; seq 1 3000 | while read n; do echo $n >d/$n; done")
    counting = daemon.exec_detached(box, COUNT)
    seen = daemon.get(box)
    if state != "running":
        act(daemon, box, {"paused": "pause", "stopped": "stop"}[state])
    done = rollback(daemon, box, sn)
    assert done["state"] == ("stopped" if state == "stopped" else "running") and done["snapshot"] == sn
    if state == "stopped":
        for what in (lambda: snapshot(daemon, box), lambda: fork(daemon, box), lambda: daemon.call("GET", f"/v1/sandboxes/{box}/changes")):
            refused("wrong_state", what)
        assert not daemon.processes(box)
        done = act(daemon, box, "start")
    same = ("id", "name", "labels", "limits", "image", "created_at", "runtime", "storage")
    assert {k: done.get(k) for k in same} == {k: seen.get(k) for k in same}
    wait_for("its entrypoint", lambda: daemon.exec(box, ["cat", "/tmp/ran"]).text == "y\n", 30)
    assert names(daemon, box) == before
    refused("not_found", lambda: daemon.call("GET", f"/v1/sandboxes/{box}/execs/{counting}"))
    # and it is one like any other
    shell(daemon, box, "echo after >after")
    act(daemon, box, "stop")
    act(daemon, box, "start")
    assert shell(daemon, box, "cat after") == "after\n"
    daemon.delete(box)
    drop(daemon, sn)
    assert not fsck(daemon)


def test_back_and_forth(own):
    """To older and newer ones; layers that nothing needs go, those below it stay."""
    box = own.create("tiny")
    made = []
    for n in range(3):
        shell(own, box, f"echo {n} >n; touch only-{n}")
        made.append(snapshot(own, box)["id"])
    for n in (0, 2, 1):
        assert rollback(own, box, made[n])["snapshot"] == made[n]
        assert shell(own, box, "cat n; ls").split() == [str(n), "n", *(f"only-{i}" for i in range(n + 1))]
    shell(own, box, "echo over >over")
    over = snapshot(own, box)["id"]  # a layer over that of the second
    rollback(own, box, made[0])
    drop(own, made[1])
    restart(own, "cayd")
    assert rollback(own, box, over)["state"] == "running"
    assert shell(own, box, "cat n over").split() == ["1", "over"]
    for sn in (made[0], made[2], over):
        drop(own, sn)
    cay.let_pass(2.5)  # longer than between two runs of the walk
    assert len(os.listdir(own.state / "images" / "sha256")) == 3
    act(own, box, "stop")
    act(own, box, "start")
    assert shell(own, box, "cat n over").split() == ["1", "over"]
    own.delete(box)
    gone(own)
    clean(own)


def test_a_rollback_that_is_refused(own):
    tenant, who = new_tenant(own)
    _, other = new_tenant(own)
    box, second, memory = who.create("tiny"), who.create("tiny"), who.create("tiny", storage="memory")
    theirs = other.create("tiny")
    sn, foreign = snapshot(who, box)["id"], snapshot(other, theirs)["id"]
    refused("invalid_argument", lambda: rollback(who, second, sn))
    for name in (foreign, "sn" + "0" * 23 + "1"):
        refused("not_found", lambda name=name: rollback(who, box, name))
    refused("not_found", lambda: rollback(other, box, foreign))
    refused("unsupported", lambda: rollback(who, memory, sn))
    refused("permission_denied", lambda: rollback(asks(own, "write", tenant, box), box, sn))
    refused("permission_denied", lambda: rollback(asks(own, "read", tenant), box, sn))
    assert who.get(box)["state"] == "running" and "snapshot" not in who.get(box)
    who.delete(box)
    refused("wrong_state", lambda: rollback(who, box, sn))
    for c, boxes in ((who, (second, memory)), (other, (theirs,))):
        for name in boxes:
            c.delete(name)
        drop(c, listed(c)[0]["id"])
    gone(own)


def test_it_counts_as_before(own):
    """The disk that it had is not counted any more, and its limits hold on the new one."""
    tenant, who = new_tenant(own, quotas={"sandboxes": 1, "snapshots": 2})
    box = who.create("tiny", limits={"pids": 77})

    def usage():
        return {k: v for k, v in own.call("GET", f"/v1/tenants/{tenant}")["usage"].items() if k != "disk_bytes"}

    sn = snapshot(who, box)["id"]
    before = usage()
    assert rollback(who, box, sn)["limits"]["pids"] == 77 and usage() == before
    assert in_kernel(own, box, "pids.max") == "77"
    who.delete(box)
    drop(who, sn)
    gone(own)


def test_many_files_are_removed_beside_it(own):
    """Its id range is in use for as long as the trash has its old disk: it starts with another one."""
    box = own.create("tiny")
    sn = snapshot(own, box)["id"]
    shell(own, box, "mkdir m; cd m; i=0; while [ $i -lt 20 ]; do mkdir $i; (cd $i; seq 1 1000 | xargs touch); i=$((i+1)); done")
    assert rollback(own, box, sn)["state"] == "running"
    assert shell(own, box, "ls") == ""
    own.delete(box)
    drop(own, sn)
    gone(own)
    clean(own)


def test_a_rollback_survives_a_reboot(own):
    """Acknowledged, and the machine goes before it starts: it has the files of the snapshot, and nothing else."""
    box = own.create("tiny")
    shell(own, box, "echo old >n")
    sn = snapshot(own, box)["id"]
    shell(own, box, "echo new >n")
    act(own, box, "stop")
    assert rollback(own, box, sn)["state"] == "stopped"
    reboot(own)
    assert own.get(box)["state"] == "stopped" and not fsck(own)
    restart(own, "cay-keeper", "cayd")
    assert act(own, box, "start")["state"] == "running" and shell(own, box, "cat n") == "old\n"
    own.delete(box)
    drop(own, sn)
    gone(own)
    clean(own)


def test_a_start_that_fails_leaves_it_stopped(own):
    """With the files of the snapshot, which it has when it starts."""
    box = own.create("tiny")
    shell(own, box, "echo old >n")
    sn = snapshot(own, box)["id"]
    shell(own, box, "echo new >n")
    own.kill_daemon("cay-keeper")
    own.env["CAY_FAULT"] = "start:ran=error"
    own.start_keeper()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    with pytest.raises(ApiError):
        rollback(own, box, sn)
    wait_for("it to be stopped", lambda: own.get(box)["state"] == "stopped", 30)
    assert not own.processes(box)
    wait_for("fsck to find nothing", lambda: not fsck(own), 30)
    own.kill_daemon("cay-keeper")
    own.start_keeper()
    wait_for("the link", lambda: linked(own), 30)
    assert act(own, box, "start")["state"] == "running" and shell(own, box, "cat n") == "old\n"
    own.delete(box)
    drop(own, sn)
    gone(own)
    clean(own)


def test_with_a_journal_that_fails_nothing_is_removed(own):
    """No row, no effect: after a crash it has the files that it had."""
    box = own.create("tiny")
    sn = snapshot(own, box)["id"]
    shell(own, box, "echo new >n")
    pid = own.pid_1(box)
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "journal:begun=always"
    own.start_cayd()
    del own.env["CAY_FAULT"]
    with contextlib.suppress(ApiError, OSError, TimeoutError):
        own.call("POST", f"/v1/sandboxes/{box}/rollback", {"snapshot": sn}, timeout_s=3)
    cay.let_pass(1)  # it is tried again meanwhile
    assert own.pid_1(box) == pid
    restart(own, "cayd")  # with a journal that works, which has it as running
    assert own.get(box)["state"] == "running" and shell(own, box, "cat n") == "new\n"
    own.delete(box)
    drop(own, sn)
    gone(own)
    clean(own)


def test_again_and_again(own):
    box = own.create("tiny")
    shell(own, box, "echo here >me")
    sn = snapshot(own, box)["id"]
    before = objects(own)
    for _ in range(CYCLES):
        shell(own, box, "rm me; seq 1 100 | xargs touch")
        rollback(own, box, sn)
        assert shell(own, box, "ls") == "me\n"
    wait_for("the same objects as before", lambda: objects(own) == before, 30)
    own.delete(box)
    drop(own, sn)
    gone(own)
    clean(own)


POINTS = {"cayd": ["delete:remove", "create:accepted", "create:prepared", "create:started", "create:claim"],
          "cay-keeper": ["remove:killed", "remove:gone", "prepare:made", "prepare:range", "prepare:cgroups", "start:ran"]}
ERRORS = ["delete:remove", "create:prepared", "prepare:range"]


@pytest.mark.parametrize("program,point,how", [(program, point, how) for program, points in POINTS.items() for point in points
                                               for how in ("kill", "error") if how == "kill" or point in ERRORS])
def test_cut_off_anywhere(own, program, point, how):
    """It has all the files of the snapshot from the moment that its row is written, and comes back with them."""
    box = own.create("tiny")
    shell(own, box, "echo old >n; seq 1 1000 >numbers")
    sn = snapshot(own, box)["id"]
    shell(own, box, "echo new >n; rm numbers; touch more")
    own.kill_daemon(program)
    own.env["CAY_FAULT"] = f"{point}={how}"
    own.start_keeper() if program == "cay-keeper" else own.start_cayd()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    try:
        done = rollback(own, box, sn, timeout_s=10)
    except (OSError, ApiError, cay.http.client.HTTPException):
        done = None
    if own.daemons[program].poll() is None:
        own.kill_daemon(program)
    own.start_keeper() if program == "cay-keeper" else own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    wait_for("it to settle", lambda: own.get(box)["state"] in ("running", "stopped"), 60)
    if own.get(box)["state"] == "stopped":
        assert not own.processes(box)
        wait_for("fsck to find nothing", lambda: not fsck(own), 30)
        act(own, box, "start")
    assert shell(own, box, "cat n; wc -l <numbers; ls").split() == ["old", "1000", "n", "numbers"]
    assert done is None or done["snapshot"] == sn
    own.delete(box)
    drop(own, sn)
    gone(own)
    clean(own)
