#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/pool.py BUILD [GROUP...] - rows about making many sandboxes, and about having them made

Like sandbox.py, with an edge in front.  Rounds are short, and what they are compared with
is measured between them.  CAY_FULL=1 measures at the sizes the goals are for.

    warm_claim    a create through an edge with its own environment and limits, from a pool
    burst_100     a hundred creates at once, no pool
    create_rate   creates and deletions for a while, as many as come
    refill        a command in another sandbox while a pool fills up, against while it is full
    churn         claims and deletions by the thousand: counts, descriptors and memory are back
"""
import contextlib
import json
import os
import sys
import threading
import time

from sandbox import FULL, IMAGE, KEPT_EVENTS, Bench, journal, machine, ms, say, stopped
from cay import wait_for
from world import World

BIND = '{"template":"warm","env":{"WHO":"bench","TOKEN":"0123456789abcdef"},"limits":{"memory_bytes":134217728,"pids":77}}\n'


class Pool(Bench):
    def __init__(self, build, world):
        super().__init__(build, world)
        self.key = world.state / "db/operator.key"
        self.kind = world.call("POST", "/v1/templates", {"name": "warm", "defaults": {"image": IMAGE}})["id"]

    def pool(self, n, **more):
        return self.cay.call("POST", f"/v1/templates/{self.kind}/pool", {"min": n, **more})

    def now(self):
        return self.cay.call("GET", f"/v1/templates/{self.kind}")["pool_now"]

    def full(self, n):
        wait_for("the pool to fill", lambda: self.now()["warm"] >= n, 120)

    def gone(self, n):
        wait_for("the warm ones to go", lambda: len(os.listdir(self.cay.state / "boxes")) <= n, 60)

    def claim(self, n):
        process = self.start("claim", self.cay.port, self.key, n)
        out, _ = process.communicate(BIND)
        if process.returncode:
            raise RuntimeError("client claim: see above")
        return json.loads(out)

    def fsyncs(self, n):
        """What the disk of the journal takes for a commit's worth of bytes, ns."""
        path, took = self.cay.state / "fsync", []
        fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        for i in range(n):
            os.pwrite(fd, b"x" * 8192, i * 8192)
            begin = time.monotonic_ns()
            os.fdatasync(fd)
            took.append(time.monotonic_ns() - begin)
        os.close(fd)
        os.unlink(path)
        return took


def commits(world):
    text = world.open("GET", "/metrics").read().decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("cay_journal_commits_total ")))


def warm_claim(b, _):
    rounds, n = (50, 20) if FULL else (10, 10)
    claims, disk, one = [], [], []
    for i in range(rounds):
        b.pool(n, max=n)  # so that it does not fill while it is emptied
        b.full(n)
        disk += b.fsyncs(n)
        before = commits(b.cay)
        got = b.claim(n)
        one.append(commits(b.cay) - before)
        if i:  # the first one warms everything else up
            claims += got["ns"]
        b.ids = got["ids"]
        b.pool(0)
        b.empty()
    say(name="warm_claim", unit="ms", n=len(claims), **{f"p{p}": ms(claims, p) for p in (50, 95, 99)},
        baseline={"name": "fdatasync of 8 KiB on the journal's disk", "p50": ms(disk)},
        note=f"through an edge, with environment and limits of its own; fsync p99 {ms(disk, 99)} ms; "
             f"commits a claim {sum(one) / n / rounds:.2f} (an edge notes its key's use, too); goals p50 1.2 ms, p99 fsync p99 + 2 ms")


def burst_100(b, _):
    took, failed = [], 0
    for _ in range(5 if FULL else 2):
        got = b.client("burst", b.cay.socket, IMAGE, 100)
        took += got["ns"]
        failed += got["failed"]
        b.ids = got["ids"]
        b.empty()
    say(name="burst_100", unit="ms", n=len(took), p50=ms(took), value=ms(took, 99), baseline={"name": "the goal", "value": 1500},
        note=f"100 creates at once, no pool, until the last one is answered; {failed} refused of {100 * len(took)}")


def create_rate(b, _):
    """Clients that create and delete at once, each by itself: what is asked for is what can be done."""
    seconds, n = (60 if FULL else 10), 6
    before, begin = b.cay.call("GET", "/v1/sandboxes?state=live&limit=1000")["sandboxes"], time.monotonic()
    done, failed = [], []

    def work(stop):
        while time.monotonic() < stop:
            try:
                done.append(b.client("cycle", b.cay.socket, IMAGE, 20))
            except RuntimeError:
                failed.append(1)
    threads = [threading.Thread(target=work, args=(begin + seconds,)) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    took = time.monotonic() - begin
    left = b.cay.call("GET", "/v1/sandboxes?state=live&limit=1000")["sandboxes"]
    rate = 20 * len(done) / took
    say(name="create_rate", unit="1/s", n=20 * len(done), value=round(rate, 1), baseline={"name": "the goal", "value": 80},
        note=f"create, /bin/true, delete by {n} clients for {took:.0f} s; {len(failed)} rounds failed; "
             f"{len(left) - len(before)} left")


def refill(b, _):
    """Both in turns: what the machine does meanwhile hits both."""
    rounds, size = (30 if FULL else 8), 40
    box = b.client("fill", b.cay.socket, IMAGE, 1)["ids"]
    quiet, busy, made = [], [], 0
    for _ in range(rounds):
        b.pool(0)
        b.gone(1)
        quiet += b.client("edge", b.cay.port, b.key, 150, ids=box)["ns"]
        b.pool(size)
        busy += b.client("edge", b.cay.port, b.key, 150, ids=box)["ns"]
        made += b.now()["warm"]
    b.pool(0)
    b.ids = box
    b.empty()
    say(name="refill", unit="ms", n=len(busy), **{f"p{p}": ms(busy, p) for p in (50, 95, 99)}, value=ms(busy, 99),
        baseline={"name": "p99 of the same while the pool is empty and at rest", "value": ms(quiet, 99)},
        note=f"/bin/true through an edge while a pool fills; p50 {ms(quiet)} at rest; {made} made meanwhile; goal ratio 1.5")


def churn(_, build):
    total, n = int(os.environ.get("CAY_CYCLES") or (50000 if FULL else 500)), 20
    with pool_of(build, {"CAY_LIMITS_RECORD_TTL": "1s"}) as b:
        def rounds(until):
            done = 0
            while done < until:
                b.ids = b.claim(10)["ids"]
                done += 10
                b.empty()
        b.ids = b.client("fill", b.cay.socket, IMAGE, 1)["ids"]  # the tenant's cgroups stay, and a claim that comes too early makes them
        b.empty()
        b.pool(n)
        b.full(n)
        rounds(100)
        with stopped(b.cay):  # what it keeps of events is full from the start
            journal.add_events(b.cay, KEPT_EVENTS)
        b.full(n)
        rounds(100)
        b.full(n)
        before, memory, claimed, begin = machine.settled_counts(b.cay), machine.settled_memory(b.cay), b.now()["claimed"], time.monotonic()
        rounds(total)
        took = time.monotonic() - begin
        b.full(n)
        claimed = b.now()["claimed"] - claimed
        left = machine.left_over(b.cay, before)
        grown = {name: kib - memory[name] for name, kib in machine.settled_memory(b.cay).items()}
        b.pool(0)
        b.gone(0)
    say(name="churn", unit="1/s", n=total, value=round(total / took, 1), baseline={"name": "one a second", "value": 1},
        note=f"{total} claims and deletions, {claimed} of them from the pool; more than before: {left or 'nothing'}; "
             f"anonymous memory grown by {grown} KiB")


GROUPS = {f.__name__: f for f in (warm_claim, burst_100, create_rate, refill, churn)}


@contextlib.contextmanager
def pool_of(build, env=None):
    with World(build, env) as world:
        yield Pool(build, world)


if __name__ == "__main__":
    build, names = sys.argv[1], sys.argv[2:] or list(GROUPS)
    with pool_of(build) as bench:
        for name in names:
            GROUPS[name](bench, build)
