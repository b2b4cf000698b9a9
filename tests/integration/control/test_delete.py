# SPDX-License-Identifier: Apache-2.0
"""Deleting takes a second at most, whatever goes on inside."""
import os
import signal
import subprocess
import time
import urllib.parse

import pytest
from cay import wait_for
from test_control import nothing_is_left, refused
from test_sweep import KILLAT
from test_vandal import cgroup_files

ROUNDS = 100 if os.environ.get("CAY_FULL") else 20
LIMIT_S = 1.0


def processes(n):
    return lambda c, box: len(c.processes(box)) >= n


def state(letter):
    """Some process of it is in that state, by /proc."""
    def look(c, box):
        for pid in c.processes(box):
            try:
                with open(f"/proc/{pid}/stat") as f:
                    if f.read().rsplit(")", 1)[1].split()[0] in letter:
                        return True
            except OSError:
                pass
        return False
    return look


def at_its_limit(c, box):
    """It has asked for more processes than it may have."""
    return any(int(line.split()[1]) for p in cgroup_files(c, box, "pids.events") for line in p.read_text().splitlines())


def output(c, box):
    return c.exec(box, ["sh", "-c", "test -e /tmp/ready"]).exit_code == 0


# what runs inside; how to tell that it has got going
HARD = {
    "a fork bomb": ("for i in 1 2 3; do (while :; do sh -c 'f() { f | f & }; f'; done) & done; wait", at_its_limit),
    "stopped": ("kill -STOP $$", state("T")),
    "deaf": ("trap '' TERM INT HUP QUIT USR1; touch /tmp/ready; while :; do :; done", output),
    "a hundred sleepers": ("for i in $(seq 100); do sleep 1000 & done; wait", processes(100)),
    "reading a FIFO nobody writes": ("busybox mkfifo /tmp/f; touch /tmp/ready; cat /tmp/f", output),
    "its own tree of sessions": ("for i in $(seq 20); do busybox setsid sh -c 'sleep 1000 & busybox setsid sleep 1000' & done; wait", processes(40)),
    "writing without end": ("touch /tmp/ready; yes", output),
    "frozen": ("while :; do :; done", processes(2)),
    # by root outside: inside there is no ptrace()
    "traced": ("while :; do echo; done", processes(2)),
}


def more(c, box, what):
    if what == "frozen":
        c.call("POST", f"/v1/sandboxes/{box}/pause")
    if what == "traced":
        pid = max(c.processes(box) - {c.pid_1(box)})
        tracer = subprocess.Popen([KILLAT, str(pid), "main", "0"], stdout=subprocess.PIPE, text=True)
        assert tracer.stdout.readline() == "ready\n"
        return tracer
    return None


@pytest.mark.alone
@pytest.mark.parametrize("what", HARD, ids=lambda w: w.replace(" ", "-"))
def test_delete_is_quick(daemon, what):
    line, going = HARD[what]
    took = []
    for _ in range(ROUNDS):
        box = daemon.create("tiny", limits={"pids": 200})
        daemon.exec_detached(box, ["sh", "-c", line], output="drop")
        wait_for("it to get going", lambda: going(daemon, box), 20)
        tracer = more(daemon, box, what)
        begin = time.monotonic()
        assert daemon.delete(box)["state"] == "terminated"
        took.append(time.monotonic() - begin)
        if tracer:
            tracer.communicate(timeout=30)
    took.sort()
    print(f"\n# delete, {what}: {ROUNDS} rounds, median {took[len(took) // 2] * 1e3:.0f} ms, "
          f"p99.9 {took[min(len(took) - 1, int(len(took) * 0.999))] * 1e3:.0f} ms, max {took[-1] * 1e3:.0f} ms", flush=True)
    # a machine that stands still does so now and then, what is slow for what goes on inside is so each time
    assert took[-1 - ROUNDS // 10] < LIMIT_S and took[-1] < 10 * LIMIT_S, took
    nothing_is_left(daemon)


def labelled(c, **query):
    """Ids that DELETE by labels has ended, page by page."""
    found, pages = [], 0
    while True:
        got = c.call("DELETE", "/v1/sandboxes?" + urllib.parse.urlencode(query))
        found += [s["id"] for s in got["sandboxes"]]
        assert all(s["end"]["reason"] == "killed" and s["end"]["blame"] == "caller" for s in got["sandboxes"])
        pages += 1
        if "next_cursor" not in got:
            return found, pages
        query["cursor"] = got["next_cursor"]


def test_by_labels(own):
    def make(**labels):
        return own.create("tiny", labels=labels, group=labels.get("run", "none"), wait=False)
    mine = [make(run="r1", task=str(i)) for i in range(5)]
    rest = [make(run="r2", task="0"), make(task="0"), own.create("tiny")]
    for bad in ("", "label=", "label=%3Dr1", "label=run%3Dr1,", "label=,", "group=&label=run", "label=run&limit=201"):
        refused("invalid_argument", own.call, "DELETE", "/v1/sandboxes" + ("?" + bad if bad else ""))
    assert labelled(own, label="run=r3") == ([], 1) and labelled(own, label="run=r1", group="r2") == ([], 1)
    found, pages = labelled(own, label="run=r1,task", limit=2)
    assert found == mine[::-1] and pages == 3
    for box in mine:
        wait_for("its end", lambda box=box: own.get(box)["state"] == "terminated", 30)
    assert all(own.get(box)["state"] in ("pending", "running") for box in rest)
    assert labelled(own, label="run=r1") == ([], 1)  # what has ended is not ended again
    assert labelled(own, label="task=0") == (rest[1::-1], 1)
    own.delete(rest[2])
    nothing_is_left(own)


def test_one_that_is_ending_is_not_ended_again(own):
    """The keeper stands still, so the first one cannot reach its end."""
    first = own.create("tiny", group="g", labels={"run": "r"})
    own.daemons["cay-keeper"].send_signal(signal.SIGSTOP)
    assert labelled(own, label="run=r") == ([first], 1)
    assert labelled(own, label="run=r") == ([], 1)
    assert own.call("DELETE", "/v1/sandboxes?group=g")["sandboxes"] == []
    own.daemons["cay-keeper"].send_signal(signal.SIGCONT)
    wait_for("its end", lambda: own.get(first)["state"] == "terminated", 30)
    assert own.get(first)["end"]["detail"] == "deleted by its labels"
    nothing_is_left(own)
