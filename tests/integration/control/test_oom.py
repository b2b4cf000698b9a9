# SPDX-License-Identifier: Apache-2.0
"""Who ran out of memory is told so, with what it had: an exec, a main program, a PID 1."""
import errno
import http.client
import os
import pathlib
import signal

import pytest
from cay import ApiError, wait_for
from test_control import RUNTIMES

MIB = 1 << 20
# one process that only grows: nobody else is there to be killed
GROWS = "x=0123456789abcdef; while :; do x=$x$x; done"


def evidence(end, limit):
    """Limit and peak, as numbers and in words."""
    assert end["memory_limit_bytes"] == limit, end
    assert 0.9 * limit <= end["memory_peak_bytes"] <= limit, end
    assert f"limit {limit}, peak {end['memory_peak_bytes']}" in end["detail"], end
    return True


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_exec_that_was_alone_is_named_for_certain(daemon, runtime):
    box = daemon.create("tiny", runtime=runtime, limits={"memory_bytes": "32Mi"})
    done = daemon.exec(box, ["sh", "-c", GROWS])
    assert done.end["reason"] == "oom" and done.end["signal"] == "SIGKILL", done.end
    assert not done.end.get("inferred") and evidence(done.end, 32 * MIB)
    # asked for later it is the same, and the next one is not blamed for it
    assert daemon.call("GET", f"/v1/sandboxes/{box}/execs/{done.id}")["end"] == done.end
    well = daemon.exec(box, ["true"]).end
    assert well.pop("used") and well == {"reason": "exit", "exit_code": 0, "inferred": False, "blame": "task", "retryable": False}
    daemon.call("POST", f"/v1/sandboxes/{box}/limits", {"memory_bytes": "48Mi"})
    assert evidence(daemon.exec(box, ["sh", "-c", GROWS]).end, 48 * MIB)
    daemon.delete(box)


def test_with_others_there_it_is_inferred(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "32Mi"})
    daemon.exec_detached(box, ["sleep", "60"])
    done = daemon.exec(box, ["sh", "-c", GROWS])
    assert done.end["reason"] == "oom" and done.end["inferred"] and evidence(done.end, 32 * MIB)
    daemon.delete(box)


def test_with_a_child_of_its_own_it_is_inferred(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "32Mi"})
    done = daemon.exec(box, ["sh", "-c", "sleep 60 & " + GROWS])
    assert done.end["reason"] == "oom" and done.end["inferred"]
    daemon.delete(box)


def test_a_child_that_was_killed_is_not_the_command(daemon):
    """It is told beside what the command itself did."""
    box = daemon.create("tiny", limits={"memory_bytes": "32Mi"})
    done = daemon.exec(box, ["sh", "-c", f"sh -c '{GROWS}'; echo $?; exit 3"])
    assert (done.text, done.end["reason"], done.end["exit_code"]) == ("137\n", "exit", 3)
    assert "killed for memory meanwhile: 1;" in done.end["detail"] and evidence(done.end, 32 * MIB)
    daemon.delete(box)


def test_another_signal_and_our_own_are_not_oom(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "32Mi"})
    end = daemon.exec(box, ["sh", "-c", "kill -9 $$"]).end
    assert end.pop("used") and end == {"reason": "signal", "signal": "SIGKILL", "inferred": False, "blame": "task", "retryable": False}
    hog = f"sh -c '{GROWS}'; "
    ends = daemon.exec(box, ["sh", "-c", hog + "kill -TERM $$"]).end
    assert (ends["reason"], ends["signal"]) == ("signal", "SIGTERM") and evidence(ends, 32 * MIB)
    assert daemon.exec(box, ["sh", "-c", hog + "sleep 60"], timeout_ms=2000).end["reason"] == "timeout"
    run = daemon.exec_detached(box, ["sh", "-c", hog + "echo over; sleep 60"])
    wait_for("it to go on", lambda: daemon.exec_output(box, run) == b"over\n", 20)
    daemon.signal(box, run)
    wait_for("it to end", lambda: daemon.call("GET", f"/v1/sandboxes/{box}/execs/{run}")["state"] == "ended", 30)
    assert daemon.call("GET", f"/v1/sandboxes/{box}/execs/{run}")["end"]["reason"] == "killed"
    daemon.delete(box)


def test_a_main_program(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "32Mi"}, entrypoint=["sh", "-c", GROWS], on_exit="end")
    wait_for("its end", lambda: daemon.get(box)["state"] == "failed", 20)
    end = daemon.get(box)["end"]
    assert end["reason"] == "oom" and end["signal"] == "SIGKILL" and end["inferred"] and evidence(end, 32 * MIB)

    def told():
        return [e for e in daemon.call("GET", f"/v1/events?sandbox={box}&limit=100")["events"] if e.get("end")]
    wait_for("its event", told, 30)  # told when it is durable
    assert evidence(told()[-1]["end"], 32 * MIB)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_pid_1_itself(daemon, runtime):
    """Memory that belongs to no process: when all are gone that may go first, PID 1 is next."""
    box = daemon.create("tiny", runtime=runtime, limits={"memory_bytes": "16Mi"})
    pid = daemon.pid_1(box)
    pathlib.Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    daemon.exec_detached(box, ["sh", "-c", GROWS])
    # whoever is killed first, a file system in memory stays full
    with pytest.raises((ApiError, OSError, http.client.HTTPException, ValueError, AssertionError)):
        for _ in range(200):
            daemon.exec(box, ["sh", "-c", "cat /dev/zero >/dev/shm/full$$"], user="0", timeout_s=5)
            assert daemon.get(box)["state"] == "running"
    wait_for("its end", lambda: daemon.get(box)["state"] == "failed", 20)
    end = daemon.get(box)["end"]
    assert end["reason"] == "oom" and end["inferred"] and evidence(end, 16 * MIB), end


def test_a_pid_1_that_somebody_else_killed_is_not_oom(daemon):
    box = daemon.create("tiny")
    os.kill(daemon.pid_1(box), signal.SIGKILL)
    wait_for("its end", lambda: daemon.get(box)["state"] == "failed", 30)
    assert daemon.get(box)["end"]["reason"] == "signal" and "memory_limit_bytes" not in daemon.get(box)["end"]


def test_pid_1_only_looks_at_memory(daemon):
    """The one directory of v1 that it has leads nowhere and cannot be written."""
    box = daemon.create("tiny")
    at = f"/proc/{daemon.pid_1(box)}/fd/6"
    if not os.path.exists(at):
        pytest.skip("memory is v2's here")
    assert "memory.limit_in_bytes" in os.listdir(at)
    for name in ("memory.limit_in_bytes", "cgroup.procs"):
        with pytest.raises(OSError) as e:
            open(f"{at}/{name}", "w").close()
        assert e.value.errno == errno.EROFS
    with pytest.raises(OSError):
        os.mkdir(f"{at}/below")
    assert os.path.samefile(f"{at}/..", at)
    daemon.delete(box)
