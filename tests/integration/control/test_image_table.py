# SPDX-License-Identifier: Apache-2.0
"""The table of images is written beside the loop, and is what was promised of it."""
import concurrent.futures
import contextlib
import os
import subprocess
import threading
import time

import pytest

import cay
from cay import wait_for
from conftest import tiny
from test_control import refused


@contextlib.contextmanager
def injected(c, what):
    """What becomes of cayd's fsync()s: of images.json, its directory, and of nothing else it does meanwhile."""
    with subprocess.Popen(["strace", "-f", "-p", str(c.daemons["cayd"].pid), "-e", "trace=fsync", "-e", f"inject=fsync:{what}"],
                          stderr=subprocess.DEVNULL) as trace:
        try:
            wait_for("the tracer", lambda: cay.traced(c.daemons["cayd"].pid), 30)
            yield
        finally:
            trace.terminate()


def one(k):
    return tiny([cay.file("which", b"%d" % k)])


def names(c):
    return {i.get("name") for i in c.call("GET", "/v1/images")["images"]}


def files(c):
    return sorted(os.listdir(c.state / "images/sha256"))


def test_a_slow_disk_holds_up_only_who_waits_for_it(own):
    """Who imports and who deletes are answered when it is durable; everybody else at once."""
    with injected(own, "delay_enter=1s"), concurrent.futures.ThreadPoolExecutor() as threads:
        imports = [threads.submit(own.image_import, f"slow{k}", one(k)) for k in range(4)]
        took = []
        while not all(f.done() for f in imports):
            before = time.monotonic()
            own.call("GET", "/v1/health")
            took.append(time.monotonic() - before)
            threading.Event().wait(0.01)
        began = time.monotonic()
        own.call("DELETE", f"/v1/images/{imports[0].result()['id']}")
        assert time.monotonic() - began > 1.9  # a file and its directory
    # each of these waits would hold up somebody, and there were four at least; a machine that stands still does so once
    assert sum(t > 0.7 for t in took) <= 1, sorted(took)[-5:]
    assert names(own) == {"tiny", "slow1", "slow2", "slow3"}
    own.kill_daemon("cayd")
    own.start_cayd()
    assert names(own) == {"tiny", "slow1", "slow2", "slow3"}


def test_what_could_not_be_written_down_is_not_there(own):
    before = files(own)
    old = own.call("GET", "/v1/images")["images"]
    with injected(own, "error=EIO"):
        refused("internal", own.image_import, "new", one(1))
        refused("internal", own.image_import, "tiny", one(2))  # the name stays whose it was
        assert own.call("GET", "/v1/images")["images"] == old
    wait_for("its files to go", lambda: files(own) == before, 30)
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.call("GET", "/v1/images")["images"] == old
    own.image_import("new", one(1))
    assert names(own) == {"tiny", "new"}


def over_each_other(c, delay, ahead):
    """Two imports of one name while all writes fail: the second comes while the first one's, or one ahead of both, is under way."""
    before = len(c.call("GET", "/v1/images")["images"])
    with injected(c, f"error=EIO:delay_enter={delay}s"), concurrent.futures.ThreadPoolExecutor() as threads:
        imports, seen = [], False
        for k, name in enumerate((["ahead"] if ahead else []) + ["tiny", "tiny"]):
            imports.append(threads.submit(c.image_import, name, one(k)))
            while not (seen := len(c.call("GET", "/v1/images")["images"]) == before + k + 1) and not imports[0].done():
                threading.Event().wait(0.01)
        for f in imports:
            refused("internal", f.result)
    return seen


@pytest.mark.parametrize("ahead", (False, True))
def test_a_name_outlives_writes_that_fail_one_after_the_other(own, ahead):
    """Whoever had it last in the file has it, however many took it."""
    before, old = files(own), own.call("GET", "/v1/images")["images"]
    assert any(over_each_other(own, delay, ahead) for delay in (1, 4, 16)), "they never met"
    assert own.call("GET", "/v1/images")["images"] == old
    wait_for("their files to go", lambda: files(own) == before, 30)
    own.image_import("new", one(9))  # all of it is written down now
    own.kill_daemon("cayd")
    own.start_cayd()
    assert names(own) == {"tiny", "new"} and own.call("GET", "/v1/images")["images"][0] == old[0]


def test_a_name_that_was_given_up_is_not_given_back(own):
    second = own.image_import("tiny", one(1))
    assert names(own) == {None, "tiny"}
    own.call("DELETE", f"/v1/images/{second['id']}")
    with injected(own, "error=EIO"):
        refused("internal", own.image_import, "tiny", one(2))
    assert names(own) == {None}
