# SPDX-License-Identifier: Apache-2.0
"""A machine that really runs short, which is nothing to try on one that others use."""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
import cay  # noqa: E402
import world  # noqa: E402

BUILD = os.environ.get("CAY_BUILD", "build/gcc")
PID_MAX = pathlib.Path("/proc/sys/kernel/pid_max")
KEPT = 1024  # node.pids, as it comes
RECOVER_S = 60  # of a processor that is emulated


def tasks():
    return int(pathlib.Path("/proc/loadavg").read_text().split()[3].split("/")[1])


def short(c, of):
    """Whether a create is refused for it."""
    try:
        c.delete(c.create("tiny"))
        return False
    except cay.ApiError as e:
        error = json.loads(e.body)["error"]
        assert (e.status, e.code, error["retryable"]) == (503, "no_capacity", True) and of in error["message"], e
        return True


def goes_on(c, box):
    """Nobody who runs is ended for it."""
    return c.get(box)["state"] == "running" and c.exec(box, ["echo", "here"]).text == "here\n"


def test_processes():
    before = PID_MAX.read_text()
    with cay.Cay(BUILD) as c:
        c.image_import("tiny", world.tiny())
        box = c.create("tiny", limits={"pids": 512})
        try:
            PID_MAX.write_text(str(tasks() + KEPT + 60))
            assert not short(c, "processes")
            many = c.exec_detached(box, ["sh", "-c", "for i in $(seq 100); do sleep 1000 & done; wait"])
            cay.wait_for("it to be short", lambda: tasks() + KEPT > int(PID_MAX.read_text()), RECOVER_S)
            cay.wait_for("a refusal", lambda: short(c, "processes"), RECOVER_S)
            assert goes_on(c, box)
            c.signal(box, many)
            cay.wait_for("room", lambda: not short(c, "processes"), RECOVER_S)
        finally:
            PID_MAX.write_text(before)
