# SPDX-License-Identifier: Apache-2.0
"""Every end and every error names who is to blame, and what is ours is never told as the task's."""
import json
import os
import signal

import pytest
from cay import ApiError, wait_for
from test_cli_real import rows, run  # noqa: F401
from test_life import clean, ended, restart
from test_metrics import metrics
from test_oom import GROWS

TASK, LIMIT, CALLER, INFRA = (("task", False), ("limit", False), ("caller", False), ("infra", True))


def judged(end):
    return end["blame"], end["retryable"]


def events(c, box):
    return c.call("GET", f"/v1/events?sandbox={box}&limit=100")["events"]


def test_an_exec(daemon):
    box = daemon.create("tiny", limits={"memory_bytes": "32Mi"})
    for argv, more, want in (
            (["true"], {}, TASK),
            (["sh", "-c", "exit 3"], {}, TASK),
            (["sh", "-c", "kill -9 $$"], {}, TASK),
            (["sleep", "60"], {"timeout_ms": 200}, LIMIT),
            (["sh", "-c", GROWS], {}, LIMIT),
            # the status is the shell's, and a process of it was killed for memory
            (["sh", "-c", f"sh -c '{GROWS}'; exit 3"], {}, LIMIT),
            (["sh", "-c", f"sh -c '{GROWS}'; exit 0"], {}, TASK)):
        assert judged(daemon.exec(box, argv, **more).end) == want, argv
    for name in ("SIGKILL", "SIGTERM", "SIGUSR1"):
        run = daemon.exec_detached(box, ["sleep", "60"])
        daemon.call("POST", f"/v1/sandboxes/{box}/execs/{run}/signal", {"signal": name})
        at = f"/v1/sandboxes/{box}/execs/{run}"
        wait_for("its end", lambda at=at: daemon.call("GET", at)["state"] == "ended", 30)
        assert judged(daemon.call("GET", at)["end"]) == CALLER, name
    daemon.delete(box)


def test_a_sandbox_s_end_is_judged(own, run):
    """Its end, its event, the journal and the terminal say the same."""
    mine = own.create("tiny")
    own.delete(mine)
    short = own.create("tiny", ttl_ms=1000)
    done = own.create("tiny", entrypoint=["sh", "-c", "exit 3"], on_exit="end")
    died = own.create("tiny")
    os.kill(own.pid_1(died), signal.SIGKILL)
    lost = own.create("tiny")
    pid = own.pid_1(lost)
    own.kill_daemon("cayd")
    os.kill(pid, signal.SIGKILL)
    wait_for("its death", lambda: not own.processes(lost), 30)
    own.start_cayd()
    for box, want in ((mine, CALLER), (short, LIMIT), (done, TASK), (died, INFRA), (lost, INFRA)):
        end = ended(own, box)["end"]
        assert judged(end) == want, end
        wait_for("its event", lambda box=box: [e for e in events(own, box) if e["state"] in ("terminated", "failed")], 30)
        assert judged(events(own, box)[-1]["end"]) == want
        assert rows(run("why", box))["blame"].split(";")[0] == want[0]
        assert judged(json.loads(run("why", "--json", box))["end"]) == want
    restart(own, "cayd")
    assert judged(own.get(done)["end"]) == TASK and judged(own.get(died)["end"]) == INFRA
    clean(own)


# one of each way to be refused: by control for itself, for the way inside, for a change
REFUSED = (("POST", "/execs", {"argv": ["true"]}), ("GET", "/files?path=/tmp", None), ("POST", "/pause", None), ("POST", "/extend", {"ttl_ms": 5000}),
           ("POST", "/labels", {"labels": {"a": "b"}}), ("POST", "/limits", {"pids": 100}), ("GET", "/usage", None))


def test_a_refusal_after_the_end_is_blamed_as_the_end_is(run, own):
    """Not on the caller, who cannot know that the machine lost it.  The same request cannot succeed, so it is not retryable."""
    mine, short = own.create("tiny"), own.create("tiny", ttl_ms=1000)
    done, died = own.create("tiny", entrypoint=["sh", "-c", "exit 3"], on_exit="end"), own.create("tiny")
    own.delete(mine)
    os.kill(own.pid_1(died), signal.SIGKILL)
    for box, blame in ((mine, "caller"), (short, "limit"), (done, "task"), (died, "infra")):
        assert ended(own, box)["end"]["blame"] == blame
        before = metrics(own)
        for method, rest, body in REFUSED:
            with pytest.raises(ApiError) as e:
                own.call(method, f"/v1/sandboxes/{box}{rest}", body)
            error = json.loads(e.value.body)["error"]
            assert (error["code"], *judged(error)) == ("wrong_state", blame, False), (rest, error)
        row = ("cay_errors_by_blame_total", (("blame", blame),))
        assert int(metrics(own)[row]) - int(before[row]) == len(REFUSED)
        told = "not by the caller's doing" in run("exec", box, "true", status=5)
        assert told == (blame == "infra")
    clean(own)


def test_an_error(own):
    def refusal(*call):
        with pytest.raises(ApiError) as e:
            own.call(*call)
        return judged(json.loads(e.value.body)["error"])

    before = metrics(own)
    assert refusal("POST", "/v1/sandboxes", {"nonsense": 1}) == CALLER
    own.kill_daemon("cay-keeper")
    wait_for("cayd to notice", lambda: metrics(own)["cay_keeper_up", ()] == 0, 30)
    assert refusal("POST", "/v1/sandboxes", {"image": "tiny"}) == INFRA
    after = metrics(own)
    for blame in ("caller", "infra"):
        row = ("cay_errors_by_blame_total", (("blame", blame),))
        assert int(after[row]) - int(before[row]) == 1
    own.start_keeper()


def test_the_metric(own):
    box, other = own.create("tiny"), own.create("tiny")
    own.delete(box)
    os.kill(own.pid_1(other), signal.SIGKILL)
    ended(own, other)
    assert {b: int(metrics(own)["cay_sandbox_ends_by_blame_total", (("blame", b),)]) for b in ("infra", "caller", "limit", "task")} == {
        "infra": 1, "caller": 1, "limit": 0, "task": 0}
    clean(own)
