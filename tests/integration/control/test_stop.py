# SPDX-License-Identifier: Apache-2.0
"""Stop and start: the files stay, the processes go, whatever dies in between."""
import concurrent.futures
import contextlib
import datetime
import hashlib
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import types

import cay
import loopfs
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_control import RUNTIMES, nothing_is_left, refused, residue, with_config
from test_life import COUNT, clean, ended, fsck, restart
from test_limits import in_kernel
from test_quota import quotas
from test_tenants import DEFAULT, asks

FULL = bool(os.environ.get("CAY_FULL"))
OTHER_BOOT = "00000000-1111-2222-3333-444444444444"
# a tree with what an overlay has to keep: modes, links, whiteouts over the image, a replaced directory
TREE = """set -e
mkdir -p d/e; seq 1 20000 >d/e/numbers; echo '#!/bin/sh' >d/run; chmod 751 d/run; ln -s run d/link; ln d/run d/hard
dd if=/dev/urandom of=d/random bs=64k count=16 2>/dev/null; chown 1000:1000 d/random
rm /etc/group; rm -r /gone; mkdir /gone; touch /gone/new; mkdir /tmp/t; echo x >/tmp/t/x
"""


def act(c, box, what):
    return c.call("POST", f"/v1/sandboxes/{box}/{what}", timeout_s=120)


def upper(c, box):
    """Every name in its layer with type, mode, owner, target and bytes, as the host's own tools see them."""
    top, found = c.state / "boxes" / box / "disk" / "upper", {}
    for at, dirs, files in os.walk(top):
        for name in (*dirs, *files):
            path = pathlib.Path(at, name)
            st = path.lstat()
            data = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
            found[str(path.relative_to(top))] = (st.st_mode, st.st_uid, st.st_gid, st.st_rdev, os.readlink(path) if path.is_symlink() else "", data)
    return found


def own_image(c):
    c.image_import("files", tiny([cay.directory("gone"), cay.file("gone/old", b"old")]))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_files_stay_and_processes_go(daemon, runtime):
    own_image(daemon)
    box = daemon.create("files", runtime=runtime, name=f"kept-{runtime}", labels={"a": "b"}, env={"X": "y"}, limits={"pids": 77})
    assert daemon.exec(box, ["sh", "-c", TREE], user="root").exit_code == 0
    daemon.exec_detached(box, COUNT)
    before, seen = upper(daemon, box), daemon.get(box)
    stopped = act(daemon, box, "stop")
    assert stopped["state"] == "stopped" and daemon.get(box)["state"] == "stopped"
    left = residue(daemon)
    assert not daemon.processes(box) and not any(box in d for d in left["cgroups"]) and box not in left["sockets"]
    assert upper(daemon, box) == before
    assert act(daemon, box, "stop")["state"] == "stopped"  # said again
    started = act(daemon, box, "start")
    assert started["state"] == "running" and act(daemon, box, "start")["state"] == "running"
    same = ("id", "name", "labels", "limits", "image", "created_at", "runtime", "storage")
    assert {k: started.get(k) for k in same} == {k: seen.get(k) for k in same}
    assert in_kernel(daemon, box, "pids.max") == "77"
    for name, was in before.items():
        assert upper(daemon, box)[name] == was or name in ("etc", "etc/resolv.conf", "workspace", "tmp"), name
    done = daemon.exec(box, ["sh", "-c", "echo $X; cat /tmp/t/x; ls /gone; ls /etc/group; stat -c %a /workspace/d/run"])
    assert done.text.split() == ["y", "x", "new", "751"]
    assert len(daemon.processes(box)) == 1  # PID 1
    daemon.delete(box)
    assert not fsck(daemon)


def test_what_all_runs_used_is_added_up(daemon):
    box = daemon.create("tiny")
    spent = 0
    for _ in range(3):
        daemon.exec(box, ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
        spent += daemon.call("GET", f"/v1/sandboxes/{box}/usage")["cpu_ms"] - spent
        act(daemon, box, "stop")
        act(daemon, box, "start")
    assert daemon.call("GET", f"/v1/sandboxes/{box}/usage")["cpu_ms"] >= spent > 0
    assert daemon.delete(box)["end"]["used"]["cpu_ms"] >= spent


def test_fifty_times(daemon):
    box = daemon.create("tiny", entrypoint=["sh", "-c", "echo run >>/workspace/runs; sleep 1000"])
    counts = {}
    for n in range(1000 if FULL else 50):
        wait_for("its entrypoint", lambda n=n: daemon.exec(box, ["wc", "-l", "runs"]).text.startswith(f"{n + 1} "), 30)
        act(daemon, box, "stop")
        left = residue(daemon)
        counts[n] = (len(left["boxes"]), len(left["ranges"]), len(left["cgroups"]), len(left["networks"]), len(left["mounts"]))
        act(daemon, box, "start")
    assert len(set(counts.values())) == 1, counts
    wait_for("its entrypoint", lambda: daemon.get(box).get("entry"), 30)
    entry = daemon.get(box)["entry"]
    assert daemon.call("GET", f"/v1/sandboxes/{box}/execs/{entry}")["state"] == "running"
    daemon.delete(box)
    assert not fsck(daemon)


def until(info):
    return datetime.datetime.fromisoformat(info["expires_at"])


def test_time_at_rest_does_not_count(daemon):
    """It rests for longer than it may live, and has all of its time left then."""
    box = daemon.create("tiny", ttl_ms=20000, lease_ms=3000)
    born = until(daemon.get(box))
    stopped = act(daemon, box, "stop")
    assert "expires_at" not in stopped and "lease_until" not in stopped
    cay.let_pass(4)  # longer than its lease
    for what, body in (("pause", None), ("resume", None), ("limits", {"pids": 99})):
        refused("wrong_state", lambda what=what, body=body: daemon.call("POST", f"/v1/sandboxes/{box}/{what}", body))
    started = act(daemon, box, "start")
    assert datetime.timedelta(seconds=4) <= until(started) - born < datetime.timedelta(seconds=19)
    daemon.delete(box)


def reboot(c):
    """Power off: no process, cgroup, mount or socket is left, and the boot's id is another."""
    for name in ("cayd", "cay-keeper"):
        c.kill_daemon(name)
    c._remove_cgroups()
    for name in os.listdir(c.run / "box"):
        (c.run / "box" / name).unlink()
    with contextlib.closing(sqlite3.connect(c.state / "db" / "journal.db")) as db:
        db.execute("UPDATE sandbox SET boot = ?", (OTHER_BOOT,))
        db.commit()
    c.start_keeper()
    c.start_cayd()


def test_it_outlives_the_machine(own):
    stopped, runs, idle = (own.create("tiny", name=name, ttl_ms=3600000) for name in ("stopped", "runs", "idle"))
    for box in (stopped, idle):
        own.exec(box, ["sh", "-c", f"echo {box} >me; seq 1 1000 >numbers"])
        act(own, box, "stop")
    before = upper(own, stopped)
    reboot(own)
    assert ended(own, runs)["end"]["reason"] == "node_lost"
    assert own.get(stopped)["state"] == own.get(idle)["state"] == "stopped" and upper(own, stopped) == before
    assert not fsck(own)
    started = act(own, stopped, "start")
    assert started["state"] == "running" and started["name"] == "stopped"
    left = until(started) - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(minutes=55) < left <= datetime.timedelta(hours=1), left
    assert own.exec(stopped, ["cat", "me"]).text == f"{stopped}\n"
    for box in (stopped, idle):  # one of them without a run since
        own.delete(box)
    clean(own)


def test_a_stop_that_was_acknowledged_survives_a_power_loss():
    """What the disk has at that moment, and nothing of what the kernel still keeps in memory."""
    with loopfs.mounted("ext4", 512 << 20, quotas=False) as at, cay.Cay(BUILD, state_top=at) as c:
        at.chmod(0o755)
        c.image_import("tiny", tiny())
        box = c.create("tiny")
        c.exec(box, ["sh", "-c", "seq 1 100000 >numbers; mkdir d; ln -s numbers d/link"])
        act(c, box, "stop")
        with tempfile.TemporaryDirectory(dir="/var/tmp") as work:
            shutil.copyfile(at.parent / "image", f"{work}/image")  # as the power goes
            before = upper(c, box)
            os.mkdir(f"{work}/fs")
            subprocess.run(["mount", "-o", "loop", f"{work}/image", f"{work}/fs"], check=True)
            try:
                found = upper(types.SimpleNamespace(state=pathlib.Path(f"{work}/fs", c.state.relative_to(at))), box)
            finally:
                subprocess.run(["umount", f"{work}/fs"], check=True)
        assert found == before and "workspace/numbers" in found, set(before.items()) ^ set(found.items())
        c.delete(box)


def test_a_start_that_the_machine_cut_off_is_stopped(own):
    """A sandbox that took the machine down must not do so at every boot."""
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo here >me"])
    act(own, box, "stop")
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "create:claim=kill"
    own.start_cayd()
    del own.env["CAY_FAULT"]
    with pytest.raises((OSError, cay.http.client.HTTPException)):
        act(own, box, "start")
    own.daemons["cayd"].wait(30)
    reboot(own)
    wait_for("it to be stopped", lambda: own.get(box)["state"] == "stopped", 30)
    assert not own.processes(box)
    act(own, box, "start")
    assert own.exec(box, ["cat", "me"]).text == "here\n"
    own.delete(box)
    clean(own)


@pytest.mark.parametrize("names", [["cayd"], ["cay-keeper"], ["cay-keeper", "cayd"]], ids="+".join)
def test_it_outlives_daemons(own, names):
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo here >me"])
    act(own, box, "stop")
    restart(own, *names)
    assert own.get(box)["state"] == "stopped" and not fsck(own)
    act(own, box, "start")
    pid = own.pid_1(box)
    restart(own, *names)
    assert own.get(box)["state"] == "running" and own.pid_1(box) == pid
    assert own.exec(box, ["cat", "me"]).text == "here\n"
    own.delete(box)
    clean(own)


def test_delete_and_stop_in_any_order(daemon):
    box = daemon.create("tiny")
    act(daemon, box, "stop")
    gone = daemon.delete(box)
    assert gone["state"] == "terminated" and gone["end"]["reason"] == "killed" and "expires_at" not in gone
    assert not (daemon.state / "boxes" / box).exists()
    for what in ("stop", "start"):
        refused("wrong_state", lambda what=what: act(daemon, box, what))
    box = daemon.create("tiny")
    daemon.call("POST", f"/v1/sandboxes/{box}/pause")
    assert act(daemon, box, "stop")["state"] == "stopped"  # a frozen one
    act(daemon, box, "start")
    assert daemon.exec(box, ["echo", "hi"]).text == "hi\n"
    daemon.delete(box)


def test_many_at_once(daemon):
    """Stops, starts and deletes together: each answer is a state it had, and the end is one of them."""
    box = daemon.create("tiny")

    def one(what):
        try:
            return act(daemon, box, what)["state"]
        except ApiError as e:
            return e.code

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, ["stop"] * 8)) == {"stopped"}
        assert set(pool.map(one, ["start"] * 8)) == {"running"}
        said = list(pool.map(one, ["stop", "start"] * 10))
        assert set(said) <= {"stopped", "running", "wrong_state", "unavailable"}, said
    wait_for("it to settle", lambda: daemon.get(box)["state"] in ("stopped", "running"), 30)
    act(daemon, box, "stop")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        parts = [pool.submit(one, "start"), pool.submit(daemon.delete, box), pool.submit(one, "stop")]
        assert parts[1].result()["state"] == "terminated", [p.result() for p in parts]
    assert daemon.get(box)["state"] == "terminated" and not fsck(daemon)


def test_what_a_stopped_one_counts(own):
    """Its disk and its number; its memory, CPU and processes are others' to use."""
    box = own.create("tiny", limits={"memory_bytes": 100 << 20, "pids": 50})
    mine = own.call("GET", "/v1/tenant")["usage"]
    act(own, box, "stop")
    now = own.call("GET", "/v1/tenant")["usage"]
    assert now["sandboxes"] == mine["sandboxes"] and now.get("disk_bytes") == mine.get("disk_bytes")
    assert (now["memory_bytes"], now["cpu_milli"], now["pids"]) == (0, 0, 0), now
    status = own.call("GET", "/v1/status")["sandboxes"]
    assert (status["stopped"], status["running"]) == (1, 0)
    act(own, box, "start")
    assert own.call("GET", "/v1/tenant")["usage"] == mine
    own.delete(box)


def test_a_start_needs_room(own):
    """Others took its memory while it rested: it stays stopped, with its files, until there is room."""
    tn = own.call("POST", "/v1/tenants", {"name": "acme"})["id"]
    quotas(own, tn, quotas={"memory_bytes": 300 << 20})
    me, limits = asks(own, "write", tn), {"memory_bytes": 200 << 20}
    box = me.create("tiny", limits=limits)
    me.exec(box, ["sh", "-c", "echo here >me"])
    refused("limit_exceeded", me.create, "tiny", limits=limits)
    act(me, box, "stop")
    other = me.create("tiny", limits=limits)
    refused("limit_exceeded", act, me, box, "start")
    assert me.get(box)["state"] == "stopped"
    me.delete(other)
    assert act(me, box, "start")["state"] == "running" and me.exec(box, ["cat", "me"]).text == "here\n"
    me.delete(box)


def test_a_start_is_judged_like_a_create(own):
    """What the operator lowered while it was stopped holds from its first instruction on."""
    tn = own.call("POST", "/v1/tenants", {"name": "lowered"})["id"]
    me = asks(own, "write", tn)
    box, other = me.create("tiny", ttl_ms=3600000, limits={"pids": 77, "memory_bytes": 100 << 20}), me.create("tiny")
    act(me, box, "stop")
    quotas(own, tn, ceilings={"pids": 40, "memory_bytes": 64 << 20}, quotas={"max_ttl_ms": 60000, "sandboxes": 1})
    refused("limit_exceeded", act, me, box, "start")
    assert me.get(box)["limits"]["pids"] == 77  # not started, not changed
    me.delete(other)
    started = act(me, box, "start")
    assert (started["limits"]["pids"], started["limits"]["memory_bytes"]) == (40, 64 << 20)
    assert in_kernel(own, box, "pids.max") == "40"
    left = until(started) - datetime.datetime.now(datetime.timezone.utc)
    assert left <= datetime.timedelta(seconds=60), left
    own.kill_daemon("cayd")
    own.start_cayd()
    assert me.get(box)["limits"]["pids"] == 40
    act(me, box, "stop")
    own.env["CAY_NODE_UNLIMITED_DISK"] = "no"  # and this disk has no quotas
    restart(own, "cayd")
    refused("unsupported", act, me, box, "start")
    refused("unsupported", me.create, "tiny")
    me.delete(box)


def test_a_start_counts_limits_that_are_not_set_yet(own):
    """A change of limits that the keeper has not seen is made after the start, so the start needs room for it."""
    tn = own.call("POST", "/v1/tenants", {"name": "wanting"})["id"]
    quotas(own, tn, quotas={"memory_bytes": 300 << 20})
    me = asks(own, "write", tn)
    box = me.create("tiny", limits={"memory_bytes": 100 << 20})
    own.kill_daemon("cay-keeper")
    with pytest.raises(ApiError):
        me.call("POST", f"/v1/sandboxes/{box}/limits", {"memory_bytes": 250 << 20})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        stop = pool.submit(act, me, box, "stop")
        wait_for("the stop", lambda: me.get(box)["state"] == "stopping", 10)
        own.start_keeper()
        assert stop.result()["state"] == "stopped"
    other = me.create("tiny", limits={"memory_bytes": 150 << 20})
    refused("limit_exceeded", act, me, box, "start")
    me.delete(other)
    act(me, box, "start")
    wait_for("its limits", lambda: me.get(box)["limits"]["memory_bytes"] == 250 << 20, 30)
    me.delete(box)


def test_a_tenant_has_so_many_stopped_ones(own):
    """They have no deadline, so without a bound one tenant could take all places of the node."""
    with_config(own).write_text("[limits]\nstopped = 2\n")
    restart(own, "cayd")
    tn = own.call("POST", "/v1/tenants", {"name": "many"})["id"]
    me = asks(own, "write", tn)
    boxes = [me.create("tiny") for _ in range(3)]
    for box in boxes[:2]:
        act(me, box, "stop")
    assert "2 stopped" in refused("limit_exceeded", act, me, boxes[2], "stop")["message"]
    assert act(me, boxes[0], "stop")["state"] == "stopped" and me.get(boxes[2])["state"] == "running"
    mine = own.create("tiny")
    assert act(own, mine, "stop")["state"] == "stopped"
    act(me, boxes[0], "start")
    assert act(me, boxes[2], "stop")["state"] == "stopped"
    for box in (*boxes, mine):
        own.delete(box) if box == mine else me.delete(box)


def test_a_token_does_not_start_it(daemon):
    """It was given away, maybe to what runs inside: only a key of the tenant takes its memory again."""
    box = daemon.create("tiny")
    token = asks(daemon, "write", DEFAULT, sandbox=box)
    act(daemon, box, "stop")
    refused("permission_denied", act, token, box, "start")
    assert daemon.get(box)["state"] == "stopped" and not daemon.processes(box)
    assert act(asks(daemon, "write", DEFAULT), box, "start")["state"] == "running"
    refused("permission_denied", act, token, box, "start")  # also where there is nothing to do
    refused("permission_denied", act, asks(daemon, "read", DEFAULT), box, "stop")
    daemon.delete(box)


def test_files_in_memory_are_not_given_away(daemon):
    box = daemon.create("tiny", storage="memory")
    refused("unsupported", lambda: act(daemon, box, "stop"))
    assert daemon.exec(box, ["echo", "hi"]).text == "hi\n"
    daemon.delete(box)


def test_a_start_that_fails_leaves_it_stopped(own):
    """Its files spoil the start: the client hears why, and mends nothing by losing them."""
    own.image_import("script", tiny([cay.directory("docker-entrypoint.d"),
                                     cay.file("docker-entrypoint.d/10-check.sh", b"#!/bin/sh\ntest ! -e /bad || { echo spoiled; exit 3; }\n", 0o755)]))
    box = own.create("script")
    own.exec(box, ["touch", "/bad"], user="root")
    act(own, box, "stop")
    for _ in range(3):
        with pytest.raises(ApiError) as e:
            act(own, box, "start")
        assert "spoiled" in str(e.value), e.value
        wait_for("it to be stopped", lambda: own.get(box)["state"] == "stopped", 30)
        assert not own.processes(box)
    (own.state / "boxes" / box / "disk" / "upper" / "bad").unlink()
    assert act(own, box, "start")["state"] == "running"
    own.delete(box)
    clean(own)


def test_fsck_sees_what_is_wrong_with_a_stopped_one(own):
    lost, fine = own.create("tiny"), own.create("tiny")
    for box in (lost, fine):
        act(own, box, "stop")
    assert not fsck(own)
    subprocess.run(["rm", "-rf", str(own.state / "boxes" / lost)], check=True)
    assert fsck(own) == {("empty", lost)}
    assert fsck(own, "POST") == {("empty", lost)}
    assert ended(own, lost)["end"]["reason"] == "node_lost"
    assert own.get(fine)["state"] == "stopped"
    own.delete(fine)
    clean(own)


def test_fsck_names_one_that_does_not_stop(own):
    box = own.create("tiny")
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "stop:kill=always"
    own.start_cayd()
    del own.env["CAY_FAULT"]
    with contextlib.suppress(ApiError, OSError, TimeoutError):
        own.call("POST", f"/v1/sandboxes/{box}/stop", timeout_s=1)
    wait_for("fsck to name it", lambda: fsck(own) == {("stuck", box)}, 60)
    assert fsck(own, "POST") == {("stuck", box)} and own.get(box)["state"] == "stopping"
    restart(own, "cayd")
    wait_for("it to be stopped", lambda: own.get(box)["state"] == "stopped", 30)
    assert not fsck(own)
    own.delete(box)
    clean(own)


def test_with_a_journal_that_fails_nothing_is_killed(own):
    """A stop that is not written must not end processes: a crash would take it for a loss and remove the files."""
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo here >me"])
    pid = own.pid_1(box)
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "journal:begun=always"
    own.start_cayd()
    del own.env["CAY_FAULT"]
    with contextlib.suppress(ApiError, OSError, TimeoutError):
        own.call("POST", f"/v1/sandboxes/{box}/stop", timeout_s=3)
    cay.let_pass(1)  # it is tried again meanwhile
    assert own.pid_1(box) == pid
    restart(own, "cayd")  # with a journal that works, which has it as running
    assert own.get(box)["state"] == "running" and own.exec(box, ["cat", "me"]).text == "here\n"
    own.delete(box)
    clean(own)


def test_a_stop_is_written_once_the_journal_works(own):
    box = own.create("tiny")
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "journal:begun=error"
    own.start_cayd()
    del own.env["CAY_FAULT"]
    with contextlib.suppress(ApiError):
        act(own, box, "stop")
    wait_for("it to be stopped", lambda: own.get(box)["state"] == "stopped", 30)
    restart(own, "cayd")
    assert own.get(box)["state"] == "stopped"
    own.delete(box)
    clean(own)
