# SPDX-License-Identifier: Apache-2.0
"""Doze on cgroup v2, where no limit counts memory and swap together: the keeper's does."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
import cay  # noqa: E402
import swap  # noqa: E402
import world  # noqa: E402

BUILD = os.environ.get("CAY_BUILD", "build/gcc")
LIMIT, HEAP = 96, 64  # MiB; two heaps are more than the limit and what it may be exceeded by
SLACK = LIMIT // 8
WITHIN_S = 120  # of a processor that is emulated


def asleep(c, box):
    """It dozes, and its heap is in swap."""
    cay.wait_for("it to doze", lambda: c.get(box).get("dozing") and swap.is_frozen(c, box), WITHIN_S)
    cay.wait_for("its memory to be given back", lambda: swap.memory(c, box) < 24 << 20, WITHIN_S)


def whole(c, box):
    """All of the heap has to come back for that."""
    done = c.exec(box, ["sh", "-c", f"head -c {HEAP << 20} /tmp/heap | busybox sha256sum"], timeout_s=WITHIN_S)
    assert done.exit_code == 0, done
    return done.text


def test_what_is_in_swap_counts():
    program = (pathlib.Path(BUILD).resolve() / "tests/integration/heap").read_bytes()
    with cay.Cay(BUILD) as c, swap.file(300):
        c.image_import("heaped", world.tiny([cay.file("bin/heap", program, 0o755)]))
        box = c.create("heaped", pause_after_ms=2000, idle="requests", limits={"memory_bytes": LIMIT << 20})
        ids = [c.exec_detached(box, ["sh", "-c", "cd /tmp && exec heap " + str(HEAP)])]
        cay.wait_for("the heap", lambda: c.exec(box, ["test", "-p", "/tmp/heap"]).exit_code == 0, WITHIN_S)
        before = whole(c, box)
        asleep(c, box)
        assert whole(c, box) == before  # more of it than memory.max has at first
        asleep(c, box)
        c.call("POST", f"/v1/sandboxes/{box}/hold", {"for_ms": 600000})
        ids.append(c.exec_detached(box, ["heap", str(HEAP)]))
        most = 0

        def one_is_killed():
            nonlocal most
            most = max(most, swap.memory_and_swap(c, box))
            rows = {e["id"]: e["state"] for e in c.call("GET", f"/v1/sandboxes/{box}/execs")["execs"]}
            return any(rows[one] != "running" for one in ids)

        cay.wait_for("the kernel to kill one of the two", one_is_killed, WITHIN_S)
        assert most <= LIMIT + 2 * SLACK + 4 << 20, most
        c.delete(box)
