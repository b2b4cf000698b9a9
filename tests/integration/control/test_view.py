# SPDX-License-Identifier: Apache-2.0
"""What programs inside find out about memory and CPUs is what the sandbox may use."""
import os
import pathlib
import re

import cay
import pytest
from cay import let_pass, wait_for
from conftest import BUILD, tiny
from test_control import RUNTIMES

MIB = 1 << 20
MACHINE = os.cpu_count()


def inside(c, box, *argv, **fields):
    done = c.exec(box, list(argv), **fields)
    assert done.exit_code == 0, done
    return done.text


def meminfo(c, box):
    return {k: int(v) << 10 for k, v in re.findall(r"^(\w+):\s+(\d+) kB$", inside(c, box, "cat", "/proc/meminfo"), re.M)}


def cpus(c, box):
    """By every way there is to count them."""
    text = inside(c, box, "sh", "-c", "nproc; grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; "
                  "cat /sys/devices/system/cpu/online /sys/devices/system/cpu/possible /sys/devices/system/cpu/present")
    nproc, info, stat, *shown = text.split()
    counted = {int(nproc), int(info), int(stat), *(int(s.split("-")[-1]) + 1 for s in shown)}
    assert len(counted) == 1 and len(shown) == 3, text
    return counted.pop()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_cpus(daemon, runtime):
    for milli in (100, 1000, min(1001, 1000 * MACHINE), 1000 * MACHINE):
        box = daemon.create("tiny", runtime=runtime, limits={"cpu_milli": milli})
        assert cpus(daemon, box) == min(-(-milli // 1000), MACHINE), milli
        daemon.delete(box)


def test_cpus_that_change(own):
    """Also after a keeper that knows nothing of before; and mounts do not pile up."""
    box = own.create("tiny", limits={"cpu_milli": 1000})
    mounts = inside(own, box, "cat", "/proc/self/mountinfo").count("\n")
    for n in (MACHINE, 1, MACHINE):
        own.call("POST", f"/v1/sandboxes/{box}/limits", {"cpu_milli": 1000 * n})
        assert cpus(own, box) == n
    own.kill_daemon("cay-keeper")
    own.start_keeper()
    wait_for("the keeper", lambda: own.call("GET", "/v1/health")["status"] == "ok", 30)
    wait_for("a change", lambda: own.open("POST", f"/v1/sandboxes/{box}/limits", {"cpu_milli": 500}).status == 200, 30)
    assert cpus(own, box) == 1
    assert inside(own, box, "cat", "/proc/self/mountinfo").count("\n") == mounts
    own.delete(box)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_memory(daemon, runtime):
    box = daemon.create("tiny", runtime=runtime, limits={"memory_bytes": "64Mi"})
    m = meminfo(daemon, box)
    assert m["MemTotal"] == 64 * MIB and 40 * MIB < m["MemFree"] <= m["MemAvailable"] < 64 * MIB and m["SwapTotal"] == 0
    daemon.call("POST", f"/v1/sandboxes/{box}/limits", {"memory_bytes": "256Mi"})
    wait_for("it to be seen", lambda: meminfo(daemon, box)["MemTotal"] == 256 * MIB, 20)
    daemon.exec_detached(box, ["sh", "-c", "x=0123456789abcdef; for i in $(seq 22); do x=$x$x; done; sleep 60; :"])
    wait_for("what is used", lambda: meminfo(daemon, box)["MemFree"] < 200 * MIB, 20)
    daemon.delete(box)


def test_programs_agree(daemon, base_image):
    """Those of the base image: they read the files, not sysinfo(2), which no file can change."""
    box = daemon.create(base_image, limits={"memory_bytes": "128Mi", "cpu_milli": 700})
    asked = {"free": "free -b | sed -n 2p | tr -s ' ' | cut -d' ' -f2", "nproc": "nproc", "getconf": "getconf _NPROCESSORS_ONLN",
             "lscpu": "lscpu | sed -n 's/^CPU(s): *//p'", "python3": "python3 -c 'import os; print(os.cpu_count())'",
             "node": "node -p 'require(\"os\").cpus().length'"}
    there = 0
    for program, command in asked.items():
        if daemon.exec(box, ["sh", "-c", f"command -v {program}"]).exit_code == 0:
            there += 1
            assert int(inside(daemon, box, "sh", "-c", command)) == (128 * MIB if program == "free" else 1), program
    assert there >= 3
    daemon.delete(box)


def test_a_cache_is_available(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "64Mi"})
    inside(daemon, box, "sh", "-c", "head -c 30000000 /dev/zero >/workspace/x; sync; cat /workspace/x >/dev/null")
    wait_for("the cache", lambda: meminfo(daemon, box)["Cached"] > 20 * MIB, 30)
    m = meminfo(daemon, box)
    assert m["MemAvailable"] > m["MemFree"] + 20 * MIB and m["MemAvailable"] <= 64 * MIB
    daemon.delete(box)


def test_more_than_the_machine_has():
    with cay.Cay(BUILD, env={"CAY_SANDBOX_MEMORY": "16Ti", "CAY_SANDBOX_CPU": "64000", "CAY_NODE_OVERCOMMIT": "0"}) as c:
        c.image_import("tiny", tiny())
        box = c.create("tiny", limits={"memory_bytes": "16Ti", "cpu_milli": 64000})
        assert meminfo(c, box)["MemTotal"] <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert cpus(c, box) == MACHINE


def test_nobody_inside_writes_them(daemon):
    box = daemon.create("tiny")
    for at in ("/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu/online"):
        done = daemon.exec(box, ["sh", "-c", f"echo x >{at}; umount {at}; chmod 666 {at}; rm -f {at}; test -s {at}"], user="root")
        assert done.exit_code == 0 and "x" not in inside(daemon, box, "cat", at).split(), at
    daemon.delete(box)


def ticks(pid):
    return [int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())]


def ran(c, box, seconds):
    before = sum(ticks(c.pid_1(box)))
    let_pass(seconds)
    return sum(ticks(c.pid_1(box))) - before


def test_idle_stays_idle(daemon):
    """Nobody runs anything: PID 1 does not run either."""
    box = daemon.create("tiny")
    inside(daemon, box, "true")
    let_pass(1.5)  # the last refresh of what ran
    assert ran(daemon, box, 3) == 0 or ran(daemon, box, 6) == 0  # it may have come late, once
    daemon.delete(box)


def test_a_program_that_only_waits_costs_little(daemon):
    box = daemon.create("tiny")
    daemon.exec_detached(box, ["sleep", "60"])
    let_pass(4)
    assert any(ran(daemon, box, 4) <= 3 for _ in range(3))
    daemon.delete(box)
