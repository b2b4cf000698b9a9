# SPDX-License-Identifier: Apache-2.0
"""What a sandbox may use, changed while it runs, and what it uses."""
import concurrent.futures
import ctypes
import json
import os
import struct

import pytest
from cay import ApiError, Cay, wait_for
from conftest import BUILD, tiny
from test_control import refused

MIB = 1 << 20
LOOPS = 10000 if os.environ.get("CAY_GUEST") else 200000  # some of a slow processor's time
REST = {"nofile": 4096, "shm_bytes": 64 * MIB, "output_bytes": 16 * MIB}  # on a node without a disk quota


def in_kernel(c, name, *files):
    """What the first of these files of its cgroups says."""
    [text] = {(at / d / name / f).read_text().split()[0] for at in c.cgroup_dirs() for f in files
              for d in at.iterdir() if (at / d / name / f).exists()}
    return text


def limits(c, name, **change):
    return c.call("POST", f"/v1/sandboxes/{name}/limits", change)["limits"]


def usage(c, name):
    return c.call("GET", f"/v1/sandboxes/{name}/usage")


def test_limits_change_while_it_runs(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "64Mi", "pids": 32, "cpu_milli": "500m"})
    assert limits(daemon, box, memory_bytes="128Mi") == {**REST, "memory_bytes": 128 * MIB, "pids": 32, "cpu_milli": 500}
    assert limits(daemon, box, pids=40, cpu_milli="2") == {**REST, "memory_bytes": 128 * MIB, "pids": 40, "cpu_milli": 2000}
    assert daemon.get(box)["limits"] == {**REST, "memory_bytes": 128 * MIB, "pids": 40, "cpu_milli": 2000}
    assert in_kernel(daemon, box, "memory.limit_in_bytes", "memory.max") == str(128 * MIB)
    assert in_kernel(daemon, box, "pids.max") == "40"
    assert in_kernel(daemon, box, "cpu.cfs_quota_us", "cpu.max") == "200000"
    daemon.call("POST", f"/v1/sandboxes/{box}/pause")
    assert limits(daemon, box, memory_bytes="64Mi")["memory_bytes"] == 64 * MIB
    daemon.delete(box)
    refused("wrong_state", limits, daemon, box, pids=50)
    refused("wrong_state", usage, daemon, box)


@pytest.mark.parametrize("change", [{"memory_bytes": "lots"}, {"memory_bytes": "1Mi"}, {"pids": 7}, {"pids": "4Mi"},
                                    {"cpu_milli": "0"}, {"cpu_milli": -1}, {"swap": 1}, {"nofile": 12}, {"nofile": "4Ki"},
                                    {"disk_bytes": "much"}, {"disk_bytes": 1}, {"disk_inodes": "many"}, {"disk_inodes": 1},
                                    {"shm_bytes": 0}, {"shm_bytes": "-1"}, {"output_bytes": "1.5"}, {"output_bytes": "2Gi"}])
def test_a_limit_that_makes_no_sense_is_named(daemon, change):
    box = daemon.create("tiny")
    before = daemon.get(box)["limits"]
    with pytest.raises(ApiError) as e:
        limits(daemon, box, **change)
    assert e.value.status == 400 and json.loads(e.value.body)["error"]["field"] == next(iter(change))
    assert daemon.get(box)["limits"] == before
    daemon.delete(box)
    assert refused("invalid_argument", daemon.create, "tiny", limits=change)["field"] == "limits." + next(iter(change))


@pytest.mark.parametrize("change", [{"nofile": 2048}, {"shm_bytes": "1Gi"}, {"output_bytes": "1Mi"}, {"disk_bytes": "1Gi"},
                                    {"disk_inodes": 9999}])
def test_what_cannot_change_while_it_runs_is_named(daemon, change):
    box = daemon.create("tiny")
    before = daemon.get(box)["limits"]
    assert refused("unsupported", limits, daemon, box, pids=99, **change)["field"] == next(iter(change))
    assert daemon.get(box)["limits"] == before and limits(daemon, box, pids=99)["pids"] == 99
    daemon.delete(box)


@pytest.mark.parametrize("want", [{"disk_bytes": "1Gi"}, {"disk_inodes": 5000}])
def test_a_disk_limit_nobody_sees_to_is_refused(daemon, want):
    """The suite's state is on a file system without quotas; what nobody asked for is not shown either."""
    error = refused("unsupported", daemon.create, "tiny", limits=want)
    assert error["field"] == "limits." + next(iter(want)) and "paths.state" in error["message"]
    box = daemon.create("tiny")
    assert not {"disk_bytes", "disk_inodes"} & set(daemon.get(box)["limits"])
    daemon.delete(box)


def test_open_files_are_limited(daemon):
    box = daemon.create("tiny", limits={"nofile": 1500})
    for user in ("user", "root"):
        assert daemon.exec(box, ["sh", "-c", "ulimit -Sn; ulimit -Hn"], user=user).text.split() == ["1500", "1500"]
    assert daemon.exec(box, ["sh", "-c", "ulimit -n 1501"], user="root").exit_code != 0
    assert daemon.get(box)["limits"]["nofile"] == 1500
    daemon.delete(box)


def test_shm_is_as_large_as_asked_for_and_is_memory(daemon):
    box = daemon.create("tiny", limits={"shm_bytes": "512Mi", "memory_bytes": "128Mi"})
    assert "size=524288k" in daemon.exec(box, ["grep", " /dev/shm ", "/proc/mounts"]).text
    assert daemon.exec(box, ["dd", "if=/dev/zero", "of=/dev/shm/a", "bs=1M", "count=80"]).exit_code == 0
    assert usage(daemon, box)["memory_bytes"] > 80 * MIB
    assert daemon.exec(box, ["dd", "if=/dev/zero", "of=/dev/shm/b", "bs=1M", "count=80"]).exit_code != 0
    assert usage(daemon, box)["oom_kills"] and usage(daemon, box)["memory_peak_bytes"] <= 129 * MIB
    daemon.delete(box)
    box = daemon.create("tiny", limits={"shm_bytes": "1Mi"})
    done = daemon.exec(box, ["dd", "if=/dev/zero", "of=/dev/shm/a", "bs=64k", "count=80"])
    assert done.exit_code != 0 and b"No space left" in done.stderr
    assert daemon.exec(box, ["stat", "-c", "%s", "/dev/shm/a"]).text == f"{MIB - 4096}\n"  # a page is the generation's
    daemon.delete(box)


def test_output_that_is_kept_is_limited(daemon):
    kept = {}
    for size in ("64Ki", "16Mi"):
        box = daemon.create("tiny", limits={"output_bytes": size})
        run = daemon.exec_detached(box, ["sh", "-c", "yes | head -c 900000"])
        wait_for("its end", lambda: daemon.call("GET", f"/v1/sandboxes/{box}/execs/{run}")["state"] == "ended", 30)
        assert daemon.call("GET", f"/v1/sandboxes/{box}/execs/{run}")["stdout_bytes"] == 900000
        kept[size] = len(daemon.exec_output(box, run))
        daemon.delete(box)
    assert 0 < kept["64Ki"] <= 65536 < kept["16Mi"]


def test_limits_are_part_of_what_a_name_means(own):
    """And they are there after a restart."""
    want = {"nofile": 2000, "shm_bytes": "96Mi", "output_bytes": "1Mi"}
    box = own.create("tiny", name="mine", limits=want)
    assert own.create("tiny", name="mine", limits=want) == box
    for other in ({"nofile": 2001}, {"shm_bytes": "97Mi"}, {"output_bytes": "2Mi"}):
        assert refused("conflict", own.create, "tiny", name="mine", limits={**want, **other})["field"] == "name"
    before = own.get(box)["limits"]
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.get(box)["limits"] == before and before["nofile"] == 2000 and before["shm_bytes"] == 96 * MIB
    assert own.create("tiny", name="mine", limits=want) == box
    own.delete(box)


def test_memory_that_is_used_is_not_taken(daemon):
    """Nobody is killed for it, and what it had it has."""
    box = daemon.create("tiny", limits={"memory_bytes": "256Mi"})
    run = daemon.exec_detached(box, ["sh", "-c", "x=0123456789abcdef; for i in $(seq 22); do x=$x$x; done; echo full; sleep 60; :"])
    wait_for("it to have memory", lambda: daemon.exec_output(box, run) == b"full\n", 120)
    used = usage(daemon, box)
    assert used["memory_bytes"] > 60 * MIB and used["memory_peak_bytes"] >= used["memory_bytes"] and not used["oom_kills"]
    refused("wrong_state", limits, daemon, box, memory_bytes="32Mi", pids=99)
    wait_for("what it had", lambda: in_kernel(daemon, box, "memory.limit_in_bytes", "memory.max") == str(256 * MIB), 20)
    assert daemon.get(box)["limits"]["memory_bytes"] == 256 * MIB and daemon.get(box)["limits"]["pids"] != 99

    def taken():
        """While what it had is put back, others are told to wait."""
        try:
            return limits(daemon, box, pids=64)["pids"] == 64
        except ApiError as e:
            assert e.status == 409, e
            return False

    wait_for("nothing to be under way", taken, 20)
    assert daemon.call("GET", f"/v1/sandboxes/{box}/execs/{run}")["state"] == "running"
    daemon.delete(box)


def test_one_change_at_a_time(daemon):
    """Whoever is answered, has it; the others are told to wait."""
    box = daemon.create("tiny")

    def one(n):
        try:
            return limits(daemon, box, pids=n)["pids"]
        except ApiError as e:
            assert e.status == 409, e
            return None

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = [n for n in pool.map(one, range(100, 140)) if n]
    assert done and daemon.get(box)["limits"]["pids"] in done
    assert in_kernel(daemon, box, "pids.max") == str(daemon.get(box)["limits"]["pids"])
    daemon.delete(box)


def test_a_keeper_that_comes_back_sets_what_was_wanted(own):
    box = own.create("tiny")
    own.kill_daemon("cay-keeper")
    with pytest.raises(ApiError) as e:
        limits(own, box, pids=77)
    assert e.value.status == 503, e.value
    own.start_keeper()
    wait_for("the limit", lambda: own.get(box)["limits"]["pids"] == 77, 30)
    assert in_kernel(own, box, "pids.max") == "77"
    own.delete(box)


def test_usage_can_be_followed(daemon):
    """An event every two seconds, until the sandbox ends; who leaves is forgotten."""
    box = daemon.create("tiny")
    wait_for("PID 1 to be alone", lambda: usage(daemon, box)["processes"] == 1, 20)
    stream = {"Accept": "text/event-stream"}
    gone = daemon.open("GET", f"/v1/sandboxes/{box}/usage", headers=stream)
    assert gone.readline().startswith(b"data: {")
    gone.close()
    r = daemon.open("GET", f"/v1/sandboxes/{box}/usage", headers=stream)
    assert r.headers["Content-Type"] == "text/event-stream"

    def event():
        line = r.readline()
        assert r.readline() == b"\n"
        return json.loads(line.removeprefix(b"data: "))
    first = event()
    assert first["processes"] == 1 and first["memory_bytes"] > 0
    daemon.exec(box, ["sh", "-c", "sleep 100 & i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
    later = next((e for e in (event() for _ in range(10)) if e["processes"] == 2 and e["cpu_ms"] > first["cpu_ms"]), None)
    assert later and set(later) == set(first)
    daemon.delete(box)
    assert all(l.startswith(b"data: ") or l == b"\n" for l in r.readlines())  # and then the end of it
    assert daemon.open("GET", f"/v1/sandboxes/{box}/usage", headers=stream).status == 409


def test_usage_counts_what_was_done(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "32Mi", "cpu_milli": 200})
    wait_for("PID 1 to be alone", lambda: usage(daemon, box)["processes"] == 1, 20)
    before = usage(daemon, box)
    assert before["oom_kills"] == 0
    daemon.exec(box, ["sh", "-c", "i=0; while [ $i -lt %d ]; do i=$((i+1)); done" % LOOPS], timeout_s=60)
    daemon.exec(box, ["sh", "-c", "x=0123456789abcdef; for i in $(seq 24); do x=$x$x; done"], timeout_s=60)
    after = usage(daemon, box)
    assert after["cpu_ms"] > before["cpu_ms"] + 20 and after["throttled_ms"] > 0
    assert after["oom_kills"] > 0 and after["memory_peak_bytes"] <= 33 * MIB
    daemon.delete(box)


def test_all_sandboxes_weigh_as_much_as_a_few_processes(daemon):
    """On every CPU; else a process of the host that is busy leaves them next to nothing."""
    [weight] = {int((at / f).read_text()) for at in daemon.cgroup_dirs() for f in ("cpu.shares", "cpu.weight")
                if (at / f).exists()}
    assert weight in (min(4 * os.cpu_count(), 256) * 1024, min(4 * os.cpu_count(), 100) * 100)


def test_sandboxes_below_a_unit_weigh_as_much_as_the_keeper():
    """They are beside it alone there; with more, busy ones would delay the start of others."""
    node = Cay(BUILD)
    node.env["CAY_CGROUP_PATH"] = f"{node.cgroup}/unit/boxes"
    with node:
        weights = {f.name: int(f.read_text()) for at in node.cgroup_dirs() for f in (at / "unit/boxes").glob("cpu.[sw]*")
                   if f.name in ("cpu.shares", "cpu.weight")}
    assert weights in ({"cpu.shares": 1024}, {"cpu.weight": 100}), weights


def test_the_keeper_says_where_sandboxes_are():
    """One source of the path: only the keeper's unit has it, and cayd reads usage and OOMs there."""
    node = Cay(BUILD)
    try:
        node.start_keeper()
        del node.env["CAY_CGROUP_PATH"]
        node.start_cayd()
        node.image_import("tiny", tiny())
        box = node.create("tiny", limits={"memory_bytes": "32Mi"})
        assert 0 < usage(node, box)["memory_bytes"] <= 32 * MIB
        node.delete(box)
        hungry = node.create("tiny", limits={"memory_bytes": "32Mi"},
                             entrypoint=["sh", "-c", "x=0123456789abcdef; for i in $(seq 24); do x=$x$x; done"], on_exit="end")
        wait_for("its end", lambda: node.get(hungry)["state"] in ("terminated", "failed"), 60)
        assert node.get(hungry)["end"]["reason"] == "oom"
    finally:
        node.stop()


def slice_ns(pid):
    """How long it runs before others have their turn: sched_getattr(2), which says so since 6.12."""
    libc, attr = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(48)
    assert libc.syscall(315, pid, attr, 48, 0) == 0
    return struct.unpack("IIQiIQQQ", attr.raw)[5]


def test_who_waits_for_a_cpu_does_not_wait_long(daemon):
    box = daemon.create("tiny")
    daemon.exec_detached(box, ["sleep", "60"])
    wait_for("its command alone", lambda: len(daemon.processes(box)) == 2, 30)  # a worker may be leaving
    for pid in [*daemon.pids().values(), *daemon.processes(box)]:
        assert slice_ns(int(pid)) == 500_000
    daemon.delete(box)


def test_limits_by_user_are_each_sandbox_s_own(daemon):
    """Not of all sandboxes together; and nobody inside can raise them."""
    box = daemon.create("tiny")
    text = daemon.exec(box, ["sh", "-c", "cat /proc/self/limits"], user="root").text
    for name, most in {"Max pending signals": "4096", "Max msgqueue size": "819200", "Max locked memory": "65536"}.items():
        [line] = [l for l in text.splitlines() if l.startswith(name)]
        assert line[len(name):].split()[:2] == [most, most], line
    daemon.delete(box)
