# SPDX-License-Identifier: Apache-2.0
"""Creates that fail, at each stage there is: nothing is left of any, however many (SOK-04).

A few hundred in all; with CAY_FULL 10,000 of each (`make failed`).
"""
import concurrent.futures
import contextlib
import gc
import os
import pathlib
import shutil
import sqlite3
import subprocess
import time

import cay
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_control import EMPTY, residue

FULL = bool(os.environ.get("CAY_FULL"))
ROUNDS, TOGETHER = (10000, 8) if FULL else (40, 4)
WARM = 200 if FULL else 20  # until what daemons keep for later is there
EVENTS = 8500 if FULL else 0  # and until the oldest events are forgotten: 16,384 are kept, two of each
KEPT = 32                   # sandboxes there may be, so records of ended ones too
RSS_KIB = 1 << 20 if "asan" in BUILD else 256 if FULL else 1024  # ASan keeps what was freed
HOSTILE = pathlib.Path(BUILD).resolve() / "tests/attack/hostile"


def fails(*codes):
    """A create that is refused like this."""
    def one(c, **fields):
        with pytest.raises(ApiError) as e:
            c.create(**{"image": "tiny", **fields})
        assert e.value.code in codes, e.value
    return one


def entry_fails(c):
    """It runs for a moment: an entrypoint is started in what runs."""
    box = None
    with contextlib.suppress(ApiError):
        box = c.create("tiny", entrypoint=["/not/there"])
    if box:
        wait_for("its end", lambda: c.get(box)["state"] == "failed", 30)
        assert c.get(box)["end"]["reason"] == "start_failed"


def client_leaves(c):
    """In the middle of it: the work is not stopped, so it is ended."""
    label = os.urandom(8).hex()
    conn = c.connection(30)
    conn.request("POST", "/v1/sandboxes", f'{{"image":"tiny","labels":{{"l":"{label}"}}}}',
                 {"Content-Type": "application/json"})
    found = []

    def there():
        found[:] = c.call("GET", f"/v1/sandboxes?label=l%3D{label}")["sandboxes"]
        return found

    with contextlib.suppress(TimeoutError):
        wait_for("it to be asked for", there, 30)
    conn.close()
    for box in found:
        c.delete(box["id"])


def lose_image(c):
    """cayd knows it, the keeper does not find it."""
    for image in (c.state / "images/sha256").iterdir():
        shutil.rmtree(image)


def behaviour(text):
    """The number of a row of behaviours.def."""
    out = subprocess.run([HOSTILE, "agent", "--list"], capture_output=True, text=True, check=True).stdout
    return next(line.split()[0] for line in out.splitlines() if text in line)


def hostile_image(text):
    return lambda: cay.layout([cay.directory("tmp", 0o1777), cay.file("behaviour", behaviour(text).encode())])


internal, start_failed = fails("internal"), fails("runtime_failed", "sandbox_misbehaved", "internal")
# stage: how one fails, failpoints, what is done to the node, the image whose PID 1 is hostile
STAGES = {
    "validation": (lambda c: fails("invalid_argument")(c, limits={"pids": 1}), None, None, None),
    "no-image": (lambda c: fails("not_found")(c, image="nobodys"), None, None, None),
    "image-lost": (fails("not_found", "image_missing", "internal"), None, lose_image, None),
    "accepted": (internal, "create:accepted=always", None, None),
    "prepare-half": (internal, "prepare:record=error", None, None),
    "prepare": (internal, "prepare:cgroups=error", None, None),
    "start-mounts": (internal, "start:staged=error", None, None),
    "start-ran": (start_failed, "start:ran=error", None, None),
    "start": (internal, "start:sealed=error", None, None),
    "started": (internal, "create:started=always", None, None),
    "pid-1-dies": (start_failed, None, None, "exits at once"),
    "claim": (internal, "create:claim=always", None, None),
    "claim-hostile": (start_failed, None, None, "hello with a wrong magic"),
    "entrypoint": (entry_fails, None, None, None),
    "client-leaves": (client_leaves, None, None, None),
}


def rss_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def children(pid):
    """(running or not) of a daemon, threads apart."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # threads come and go
            yield from (task / "children").read_text().split()


def counts(c):
    """What 10,000 more must not change."""
    pids = c.pids()
    files = [at for at, _, _ in os.walk(c.state) if "/db" not in at and "/audit" not in at]
    return {
        "fds": {n: len(os.listdir(f"/proc/{p}/fd")) for n, p in pids.items()},
        "threads": {n: len(os.listdir(f"/proc/{p}/task")) for n, p in pids.items()},
        "children": {n: len(list(children(p))) for n, p in pids.items()},
        "directories": len(files),
        "mounts": pathlib.Path("/proc/self/mountinfo").read_text().count("\n"),
        "run": sorted(os.path.join(at, name) for at, dirs, files in os.walk(c.run) for name in dirs + files),
    }


def settled(c):
    """Who fails is told before it is removed; and connections of ours may be about to end."""
    gc.collect()
    wait_for("them to be removed", lambda: residue(c) == EMPTY, 60)
    seen = [counts(c)]

    def same():
        seen.append(counts(c))
        return len(seen) > 20 and all(n == seen[-1] for n in seen[-20:])

    wait_for("nothing to change", same, 60)
    return seen[-1]


def many(c, one, rounds):
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        for done in [pool.submit(one, c) for _ in range(rounds)]:
            done.result()


@pytest.mark.parametrize("stage", STAGES)
def test_nothing_is_left_of_one_that_failed(stage):
    one, faults, before, image = STAGES[stage]
    env = {"CAY_LIMITS_SANDBOXES": str(KEPT)} | ({"CAY_FAULT": faults} if faults else {})
    with cay.Cay(BUILD, init=HOSTILE if image else None, env=env) as c:
        c.image_import("tiny", hostile_image(image)() if image else tiny())
        if before:
            before(c)
        many(c, one, WARM)
        first, begin = settled(c), time.monotonic()
        many(c, one, EVENTS)
        rss = {n: rss_kib(p) for n, p in c.pids().items()}
        many(c, one, ROUNDS - EVENTS)
        took, last = time.monotonic() - begin, settled(c)
        grown = {n: rss_kib(p) - rss[n] for n, p in c.pids().items()}
        for _ in range(2):  # who was slow to go when it was counted first does so once: what is left of each, each time
            if last != first:
                many(c, one, min(ROUNDS, 1000))
                first, last = last, settled(c)
        print(f"# {stage}: {ROUNDS} in {took:.1f} s, {ROUNDS / took:.0f}/s, RSS {grown} KiB")
        assert last == first
        assert all(kib < RSS_KIB for kib in grown.values()), grown
        wait_for("old records to go", lambda: len(c.call("GET", "/v1/sandboxes?limit=1000")["sandboxes"]) <= KEPT, 30)
        assert not c.call("GET", "/v1/fsck")["findings"]
        c.kill_daemon("cayd")
        with contextlib.closing(sqlite3.connect(f"file:{c.state}/db/journal.db?mode=ro", uri=True)) as db:
            assert db.execute("SELECT count(*) FROM sandbox").fetchone()[0] <= KEPT
