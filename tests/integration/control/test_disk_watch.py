# SPDX-License-Identifier: Apache-2.0
"""A tenant that fills the disk is held before the others notice, and goes on when there is space."""
import json
import os
import threading

import cay
import loopfs
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_tenants import asks

MIB = 1 << 20
RESERVE = 160 * MIB
SIZE = 1400 * MIB
BALLAST = 760 * MIB


def free(at):
    vfs = os.statvfs(at)
    return vfs.f_bavail * vfs.f_frsize


@pytest.fixture
def node():
    """A disk without quotas, shared by two tenants; part of it is the test's own, to be given back."""
    env = {"CAY_NODE_UNLIMITED_DISK": "yes", "CAY_NODE_DISK": str(RESERVE)}
    with loopfs.mounted("ext4", SIZE, quotas=False) as at, cay.Cay(BUILD, state_top=at, env=env) as c:
        at.chmod(0o755)
        c.image_import("tiny", tiny())
        with open(at / "ballast", "wb") as f:
            os.posix_fallocate(f.fileno(), 0, BALLAST)
        c.fs = at
        c.red, c.blue = (c.call("POST", "/v1/tenants", {"name": name})["id"] for name in ("red", "blue"))
        yield c


class Lowest:
    """The least free space while it looks."""

    def __init__(self, at):
        self.at, self.bytes, self.stop = at, free(at), threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.stop.wait(0.01):
            self.bytes = min(self.bytes, free(self.at))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def fill(who, box):
    """At most 100 MiB a second: three of them fill the reserve in half a second, which is what control needs."""
    return who.exec_detached(box, ["sh", "-c", "while dd if=/dev/zero of=/workspace/f$((i=i+1)) bs=1M count=1 2>/dev/null; do busybox usleep 10000; done"])


def test_a_tenant_that_fills_the_disk_is_held_and_others_go_on(node):
    red, blue = asks(node, "write", node.red), asks(node, "write", node.blue)
    theirs = blue.create("tiny")
    boxes = [red.create("tiny") for _ in range(3)]
    calm = red.create("tiny")
    with Lowest(node.fs) as lowest:
        for box in boxes:
            fill(red, box)
        wait_for("all writers to be held", lambda: free(node.fs) < 2.25 * RESERVE and all(red.get(box)["state"] == "paused" for box in boxes), 60)
    assert lowest.bytes > RESERVE, f"{lowest.bytes >> 20} MiB were left of a reserve of {RESERVE >> 20}"
    # who does not write goes on, in the same tenant as in others; so do creates and the journal
    assert red.exec(calm, ["echo", "on"]).text == "on\n"
    assert blue.exec(theirs, ["dd", "if=/dev/zero", "of=/workspace/x", "bs=1M", "count=1"]).exit_code == 0
    fresh = blue.create("tiny")
    assert blue.exec(fresh, ["dd", "if=/dev/zero", "of=/workspace/x", "bs=1M", "count=1"]).exit_code == 0
    assert blue.call("POST", f"/v1/sandboxes/{theirs}/labels", {"labels": {"a": "b"}})["labels"] == {"a": "b"}
    assert blue.get(theirs)["state"] == blue.get(fresh)["state"] == "running"


def test_it_is_told_why_and_goes_on_when_there_is_space(node):
    red = asks(node, "write", node.red)
    box = red.create("tiny")
    followed = node.open("GET", "/v1/events?follow=true")
    fill(red, box)
    wait_for("it to be held for good", lambda: free(node.fs) < 2.25 * RESERVE and red.get(box)["state"] == "paused", 60)
    assert "nearly full" in red.get(box)["hold"] and "delete" in red.get(box)["hold"]
    last = red.call("GET", f"/v1/events?sandbox={box}")["events"][-1]
    assert last["state"] == "paused" and last["hold"] == red.get(box)["hold"]
    told = {}
    while "held" not in told:
        line = followed.readline().decode()
        told = json.loads(line[6:]) if line.startswith("data: ") else told
    assert told["held"] and (told["tenant"], told["sandbox"]) == (node.red, box) and told["reserve_bytes"] == RESERVE
    assert f"paused {box} of tenant {node.red}" in node.log("cayd")
    with pytest.raises(ApiError) as refusal:
        red.call("POST", f"/v1/sandboxes/{box}/resume")
    assert refusal.value.code == "no_capacity" and "nearly full" in str(refusal.value)
    with pytest.raises(ApiError, match="nearly full"):
        red.exec(box, ["true"])
    node.kill_daemon("cayd")  # the next one knows that no client paused it
    node.start_cayd()
    assert "nearly full" in red.get(box)["hold"]
    (node.fs / "ballast").unlink()
    wait_for("it to go on", lambda: red.get(box)["state"] == "running" and "hold" not in red.get(box), 30)


def test_a_stop_does_not_end_a_hold(node):
    red = asks(node, "write", node.red)
    box = red.create("tiny")
    fill(red, box)
    wait_for("it to be held for good", lambda: free(node.fs) < 2.25 * RESERVE and red.get(box)["state"] == "paused", 60)
    assert "nearly full" in red.call("POST", f"/v1/sandboxes/{box}/stop")["hold"]
    for _ in range(2):
        with pytest.raises(ApiError) as refusal:
            red.call("POST", f"/v1/sandboxes/{box}/start")
        assert refusal.value.code == "no_capacity" and "nearly full" in str(refusal.value)
        assert red.get(box)["state"] == "stopped"
        node.kill_daemon("cayd")
        node.start_cayd()
    (node.fs / "ballast").unlink()
    wait_for("the hold to end", lambda: "hold" not in red.get(box), 30)
    assert red.call("POST", f"/v1/sandboxes/{box}/start")["state"] == "running"
