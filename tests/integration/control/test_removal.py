# SPDX-License-Identifier: Apache-2.0
"""TEN-03: one tenant's removals take nothing from another, however many files they leave or how long they take."""
import concurrent.futures
import contextlib
import fcntl
import os
import signal
import statistics
import subprocess
import time

import pytest
from cay import wait_for
from test_control import nothing_is_left, residue
from test_life import fsck, linked
from test_tenants import asks

FILES, BESIDE = 60000, 12000  # of a sandbox: more than a worker removes before it replies; alone, and beside others
LIMITS = {"memory_bytes": "64Mi"}


@pytest.fixture
def two(own):
    """Clients of two tenants, the hostile one first."""
    return [asks(own, "write", own.call("POST", "/v1/tenants", {"name": name})["id"]) for name in ("red", "blue")]


def fill(c, box, n):
    """Files of a sandbox, from outside, which is quicker; links to one, for the same reason."""
    upper = os.open(c.state / "boxes" / box / "disk/upper", os.O_RDONLY)
    try:
        os.close(os.open("one", os.O_CREAT | os.O_WRONLY, dir_fd=upper))
        for i in range(n):
            if i % 1000 == 0:
                os.mkdir(f"d{i}", dir_fd=upper)
            os.link("one", f"d{i // 1000 * 1000}/{i}", src_dir_fd=upper, dst_dir_fd=upper)
    finally:
        os.close(upper)


def trash(c):
    return residue(c)["trash"]


def emptier(c):
    """The process that empties the trash."""
    return {pid for at in c.cgroup_dirs() if (at / "trash").exists()
            for pid in map(int, (at / "trash/cgroup.procs").read_text().split())}


@contextlib.contextmanager
def at_once(jobs):
    """All of them in threads; the rest of the block runs beside them."""
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        yield [pool.submit(job) for job in jobs]


def timed(fn, *args, **fields):
    begin = time.monotonic()
    fn(*args, **fields)
    return time.monotonic() - begin


def create_and_delete(c):
    """Seconds for the create, and for the delete."""
    begin = time.monotonic()
    box = c.create("tiny", limits=LIMITS)
    return time.monotonic() - begin, timed(c.delete, box)


@pytest.mark.parametrize("n", (18, 64) if os.environ.get("CAY_FULL") else (18,))
def test_many_files_are_removed_later_and_hold_no_other_tenant(own, two, n):
    """Deletes reply while files are still there; a neighbour creates and deletes as before; then all is gone."""
    red, blue = two
    quiet = [create_and_delete(blue) for _ in range(5)]
    victim = blue.create("tiny", limits=LIMITS)
    boxes = [red.create("tiny", limits=LIMITS) for _ in range(n)]
    for box in boxes:
        fill(own, box, BESIDE)
    with at_once([lambda box=box: red.delete(box) for box in boxes]) as deletes:
        kill = timed(blue.delete, victim)
        beside = [create_and_delete(blue) for _ in range(5)]
        wait_for("the last reply", lambda: all(d.done() for d in deletes), 30)
        left = trash(own)
    assert all(d.result()["state"] == "terminated" for d in deletes)
    assert len(left) > n // 2, f"files were removed before the replies: {len(left)} of {n} are in the trash"
    assert all(red.get(box)["state"] == "terminated" for box in boxes) and not fsck(own)
    median = [[statistics.median(t[i] for t in times) for i in (0, 1)] for times in (quiet, beside)]
    print(f"\n# {n} removals: create {median[0][0] * 1e3:.0f} ms, beside them {median[1][0] * 1e3:.0f} ms; "
          f"kill {kill * 1e3:.0f} ms", flush=True)
    assert kill < 1 and median[1][0] < 5 * median[0][0] + 0.05, (quiet, beside, kill)
    wait_for("the trash to be empty", lambda: not trash(own), 150)  # at idle priority for the first minute
    nothing_is_left(own)


def test_slow_calls_of_a_tenant_have_a_share(own, two):
    """Each waits for a lock that is never given: as slow as a call can be.  A neighbour's are served as before."""
    red, blue = two
    boxes = [red.create("tiny", limits=LIMITS) for _ in range(24)]
    held = [os.open(own.state / "boxes" / box, os.O_RDONLY) for box in boxes]
    for fd in held:
        fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        with at_once([lambda box=box: red.delete(box) for box in boxes[:18]] +
                     [lambda box=box: red.call("POST", f"/v1/sandboxes/{box}/pause") for box in boxes[18:]]) as calls:
            wait_for("them to be asked", lambda: sum(red.get(b)["state"] == "ending" for b in boxes) == 18, 30)
            took = [create_and_delete(blue) for _ in range(3)]
            assert max(max(t) for t in took) < 5, took
            box = blue.create("tiny", limits=LIMITS)
            assert timed(blue.call, "POST", f"/v1/sandboxes/{box}/pause") < 5
            assert timed(blue.call, "POST", f"/v1/sandboxes/{box}/resume") < 5
            blue.delete(box)
            assert not any(c.done() for c in calls)
            for fd in held:
                fcntl.flock(fd, fcntl.LOCK_UN)
            assert [c.result(30)["state"] for c in calls] == ["terminated"] * 18 + ["paused"] * 6
    finally:
        for fd in held:
            os.close(fd)
    for box in boxes[18:]:
        red.delete(box)
    nothing_is_left(own)


def range_links(c):
    return {os.readlink(c.state / "ranges" / n): n for n in os.listdir(c.state / "ranges")}


def test_an_id_range_is_kept_until_its_files_are_gone(own):
    """Also over a kill of both daemons; and what is in the trash then is removed by the next keeper."""
    box = own.create("tiny")
    fill(own, box, FILES)
    with stopped_emptier(own):
        own.delete(box)
        assert box in range_links(own) and trash(own)[0].startswith(box + ".")
        other = own.create("tiny")
        assert len(range_links(own)) == 2
        own.delete(other)
        assert set(range_links(own)) == {box}
        own.kill_daemon("cay-keeper")
        own.kill_daemon("cayd")
    assert (own.state / "trash" / trash(own)[0] / "box").exists()
    own.start_keeper()
    own.start_cayd()
    wait_for("the trash to be empty", lambda: not trash(own), 30)
    assert not range_links(own) and not fsck(own)
    nothing_is_left(own)


@contextlib.contextmanager
def stopped_emptier(c):
    """No file leaves the trash but by a worker: a process that empties it stands still as soon as there is one."""
    freeze = next(at / "trash/cgroup.freeze" for at in c.cgroup_dirs() if (at / "trash/cgroup.freeze").exists())
    freeze.write_text("1")
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):  # a new keeper made a new one
            freeze.write_text("0")


@pytest.mark.parametrize("room,priority", (("1Ki", os.SCHED_IDLE), ("16Ti", os.SCHED_OTHER)), ids=("enough", "short"))
def test_the_trash_is_emptied_at_idle_priority_unless_the_disk_is_short(own, room, priority):
    """node.disk decides: more than there is, is always short."""
    own.kill_daemon("cay-keeper")
    own.env["CAY_NODE_DISK"] = room
    own.start_keeper()
    del own.env["CAY_NODE_DISK"]
    wait_for("the link", lambda: linked(own), 30)
    wait_for("the first pass", lambda: not emptier(own), 30)
    box = own.create("tiny")
    fill(own, box, FILES)
    with stopped_emptier(own):
        own.delete(box)
        # it joins its cgroup, and stands still there before it does anything else
        wait_for("it to start", lambda: emptier(own), 20)
        pid, = emptier(own)
    seen = set()
    while trash(own):
        with contextlib.suppress(ProcessLookupError):
            seen.add(os.sched_getscheduler(pid))
    assert seen <= {os.SCHED_OTHER, priority} and priority in seen, seen
    nothing_is_left(own)


def test_what_cannot_be_removed_is_found(own):
    """A mount in it stands for a broken disk.  It is logged and reported, harms no other, and goes when it can."""
    box = own.create("tiny")
    fill(own, box, FILES)
    with stopped_emptier(own):
        own.delete(box)
        name, = trash(own)
        busy = own.state / "trash" / name / "disk/busy"
        busy.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", busy], check=True)
    try:
        wait_for("fsck to report it", lambda: fsck(own) == {("trash", box)}, 30)
        assert fsck(own, "POST") == {("trash", box)} and "cannot remove trash/" + box in own.said("cay-keeper")
        own.delete(own.create("tiny"))
    finally:
        stuck, = trash(own)
        subprocess.run(["umount", own.state / "trash" / stuck / "disk/busy"], check=True)
    wait_for("it to go", lambda: not trash(own), 30)
    assert not fsck(own)
    nothing_is_left(own)


@pytest.mark.parametrize("point", ("remove:trashed", "trash:begun", "trash:disk", "trash:range"))
def test_a_kill_while_files_are_removed_leaves_nothing(own, point):
    """Of the worker or of the process; and of the keeper right after it."""
    box = own.create("tiny")
    fill(own, box, FILES)
    own.kill_daemon("cay-keeper")
    own.env["CAY_FAULT"] = f"{point}=kill"
    own.start_keeper()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    with contextlib.suppress(Exception):
        own.call("DELETE", f"/v1/sandboxes/{box}", timeout_s=2)
    own.daemons["cay-keeper"].send_signal(signal.SIGKILL)
    own.daemons["cay-keeper"].wait()
    own.start_keeper()
    wait_for("the link", lambda: linked(own), 30)
    wait_for("its end", lambda: own.get(box)["state"] == "terminated", 30)
    wait_for("the trash to be empty", lambda: not trash(own), 30)
    assert not fsck(own)
    nothing_is_left(own)
