# SPDX-License-Identifier: Apache-2.0
"""What a sandbox may use, changed while it runs, and what it uses."""
import concurrent.futures
import json

import pytest
from cay import ApiError, wait_for
from test_control import refused

MIB = 1 << 20


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
    assert limits(daemon, box, memory_bytes="128Mi") == {"memory_bytes": 128 * MIB, "pids": 32, "cpu_milli": 500}
    assert limits(daemon, box, pids=40, cpu_milli="2") == {"memory_bytes": 128 * MIB, "pids": 40, "cpu_milli": 2000}
    assert daemon.get(box)["limits"] == {"memory_bytes": 128 * MIB, "pids": 40, "cpu_milli": 2000}
    assert in_kernel(daemon, box, "memory.limit_in_bytes", "memory.max") == str(128 * MIB)
    assert in_kernel(daemon, box, "pids.max") == "40"
    assert in_kernel(daemon, box, "cpu.cfs_quota_us", "cpu.max") == "200000"
    daemon.call("POST", f"/v1/sandboxes/{box}/pause")
    assert limits(daemon, box, memory_bytes="64Mi")["memory_bytes"] == 64 * MIB
    daemon.delete(box)
    refused("wrong_state", limits, daemon, box, pids=50)
    refused("wrong_state", usage, daemon, box)


@pytest.mark.parametrize("change", [{"memory_bytes": "lots"}, {"memory_bytes": "1Mi"}, {"pids": 7}, {"pids": "4Mi"},
                                    {"cpu_milli": "0"}, {"cpu_milli": -1}, {"swap": 1}])
def test_a_limit_that_makes_no_sense_is_named(daemon, change):
    box = daemon.create("tiny")
    before = daemon.get(box)["limits"]
    with pytest.raises(ApiError) as e:
        limits(daemon, box, **change)
    assert e.value.status == 400 and json.loads(e.value.body)["error"]["field"] == next(iter(change))
    assert daemon.get(box)["limits"] == before
    daemon.delete(box)


def test_memory_that_is_used_is_not_taken(daemon):
    """Nobody is killed for it, and what it had it has."""
    box = daemon.create("tiny", limits={"memory_bytes": "256Mi"})
    run = daemon.exec_detached(box, ["sh", "-c", "x=0123456789abcdef; for i in $(seq 22); do x=$x$x; done; echo full; sleep 60; :"])
    wait_for("it to have memory", lambda: daemon.exec_output(box, run) == b"full\n", 30)
    used = usage(daemon, box)
    assert used["memory_bytes"] > 60 * MIB and used["memory_peak_bytes"] >= used["memory_bytes"] and not used["oom_kills"]
    refused("wrong_state", limits, daemon, box, memory_bytes="32Mi", pids=99)
    wait_for("what it had", lambda: in_kernel(daemon, box, "memory.limit_in_bytes", "memory.max") == str(256 * MIB), 5)
    assert daemon.get(box)["limits"]["memory_bytes"] == 256 * MIB and daemon.get(box)["limits"]["pids"] != 99
    wait_for("nothing to be under way", lambda: limits(daemon, box, pids=64)["pids"] == 64, 5)
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
    wait_for("the limit", lambda: own.get(box)["limits"]["pids"] == 77, 10)
    assert in_kernel(own, box, "pids.max") == "77"
    own.delete(box)


def test_usage_counts_what_was_done(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "32Mi", "cpu_milli": 200})
    wait_for("PID 1 to be alone", lambda: usage(daemon, box)["processes"] == 1, 5)
    before = usage(daemon, box)
    assert before["oom_kills"] == 0
    daemon.exec(box, ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"], timeout_s=60)
    daemon.exec(box, ["sh", "-c", "x=0123456789abcdef; for i in $(seq 24); do x=$x$x; done"], timeout_s=60)
    after = usage(daemon, box)
    assert after["cpu_ms"] > before["cpu_ms"] + 20 and after["throttled_ms"] > 0
    assert after["oom_kills"] > 0 and after["memory_peak_bytes"] <= 33 * MIB
    daemon.delete(box)
