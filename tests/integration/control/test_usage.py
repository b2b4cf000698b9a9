# SPDX-License-Identifier: Apache-2.0
"""Totals by tenant and by label: what the kernel counts, summed up here; who sees which rows; what a flood of requests costs."""
import concurrent.futures
import os

import cay
import loopfs
import pytest
from cay import let_pass, wait_for
from conftest import BUILD, tiny
from test_control import refused
from test_tenants import TOLD, actor, asks

MIB = 1 << 20
SPIN = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done"


def rows(c, query=""):
    return c.call("GET", "/v1/usage" + query)["usage"]


def tenant_row(c, tenant):
    row, = [r for r in rows(c, "?limit=1000") if r["tenant"] == tenant]
    return row


def new_tenant(c):
    made = c.call("POST", "/v1/tenants", {"name": f"u-{os.urandom(4).hex()}"})["id"]
    return made, asks(c, "write", made)


def kernel(c, box, *files):
    """A number of the sandbox's cgroup, from the first of these files that a hierarchy has; "file word" for one of several lines."""
    for name, _, word in (file.partition(" ") for file in files):
        for at in c.cgroup_dirs():
            for file in at.glob(f"*/{box}/{name}"):
                text = file.read_text()
                if not word:
                    return int(text)
                lines = dict(line.split() for line in text.splitlines())
                if word in lines:
                    return int(lines[word])
    raise AssertionError(files)


def cpu_ms(c, box):
    return kernel(c, box, "cpu.stat usage_usec") // 1000


def memory(c, box):
    return kernel(c, box, "memory.current", "memory.usage_in_bytes")


def pids(c, box):
    return kernel(c, box, "pids.current")


def sampled(c, tenant, condition):
    """The row once a sample is as new as what happened before this call; one is kept for a second."""
    wait_for("a new sample", lambda: condition(tenant_row(c, tenant)), 20)
    return tenant_row(c, tenant)


def test_a_tenants_row_is_the_sum_of_its_cgroups(own):
    tenant, who = new_tenant(own)
    boxes = [who.create("tiny", limits={"memory_bytes": "100Mi", "pids": 40}) for _ in range(3)]
    held = [who.exec_detached(box, ["sh", "-c", f"{SPIN}; sleep 600 & sleep 600 & wait"]) for box in boxes]
    assert len(held) == 3
    wait_for("all to sleep", lambda: sum(pids(own, box) for box in boxes) >= 3 * 4, 30)
    let_pass(1.1)  # a sample is kept for a second; nothing changes from here on
    row = sampled(own, tenant, lambda r: r["processes"] == sum(pids(own, box) for box in boxes))
    assert (row["sandboxes"], row["running"], row["ended"]) == (3, 3, 0)
    assert row["memory_limit_bytes"] == 300 * MIB and row["pids_limit"] == 120
    kernel = sum(memory(own, box) for box in boxes)
    assert 0.8 * kernel <= row["memory_bytes"] <= 1.2 * kernel, (row, kernel)
    spent = sum(cpu_ms(own, box) for box in boxes)
    assert spent > 10 and 0.5 * spent <= row["cpu_ms"] <= spent, (row, spent)


def test_cpu_time_of_ended_sandboxes_stays_in_the_total(own):
    tenant, who = new_tenant(own)
    box = who.create("tiny")
    who.exec(box, ["sh", "-c", SPIN])
    before = cpu_ms(own, box)
    who.delete(box)
    assert before > 10 and before <= who.get(box)["cpu_ms"] < before + 500
    assert tenant_row(own, tenant)["ended"] == 1
    row = sampled(own, tenant, lambda r: r["sandboxes"] == 0)
    assert row["cpu_ms"] == who.get(box)["cpu_ms"] and row["memory_bytes"] == row["processes"] == 0
    own.kill_daemon("cayd")
    own.start_cayd()
    assert tenant_row(own, tenant)["cpu_ms"] == row["cpu_ms"], "the journal keeps it"


def test_values_of_a_label_are_summed_up(own):
    _, who = new_tenant(own)
    red = [who.create("tiny", labels={"team": "red"}) for _ in range(2)]
    blue = who.create("tiny", labels={"team": "blue"}, group="g")
    bare = who.create("tiny")
    by = {r.get("value"): r for r in rows(who, "?by=label&label=team")}
    assert {k: r["sandboxes"] for k, r in by.items()} == {"red": 2, "blue": 1, None: 1}
    assert [r.get("value") for r in rows(who, "?by=label&label=team")] == ["blue", "red", None]
    page = who.call("GET", "/v1/usage?by=label&label=team&limit=2")
    rest = who.call("GET", f"/v1/usage?by=label&label=team&limit=2&cursor={page['next_cursor']}")
    assert [r.get("value") for r in page["usage"] + rest["usage"]] == ["blue", "red", None] and "next_cursor" not in rest
    assert [r.get("value") for r in rows(who, "?by=label&label=team&group=g")] == ["blue"]
    who.delete(red[0])
    by = {r.get("value"): r for r in rows(who, "?by=label&label=team")}
    assert (by["red"]["sandboxes"], by["red"]["ended"]) == (1, 1)
    assert refused("invalid_argument", rows, who, "?by=label")["field"] == "label"
    assert refused("invalid_argument", rows, who, "?label=team")["field"] == "label"
    for box in (red[1], blue, bare):
        who.delete(box)


def test_a_key_sees_its_own_tenant_and_its_group(own):
    (one, mine), (two, other) = new_tenant(own), new_tenant(own)
    box = mine.create("tiny", labels={"team": "x"}, group="g")
    mine.create("tiny", labels={"team": "y"})
    other.create("tiny", labels={"team": "secret"})
    assert [r["tenant"] for r in rows(mine)] == [one]
    assert [r["value"] for r in rows(mine, "?by=label&label=team")] == ["x", "y"]
    everyone = {r["tenant"]: r for r in rows(own, "?limit=1000")}
    assert everyone[one]["sandboxes"] == 2 and everyone[two]["sandboxes"] == 1 and everyone[one]["name"]
    key, secret = TOLD[own.state, "write", one]
    bound = own.edge(actor("write", one, key) + " g", secret)
    assert rows(bound)[0]["sandboxes"] == 1
    assert [r["value"] for r in rows(bound, "?by=label&label=team")] == ["x"]
    refused("permission_denied", rows, asks(own, "write", one, sandbox=box))


@pytest.mark.parametrize("kind", loopfs.here()[:1])
def test_disks_are_what_quotas_count(kind):
    with loopfs.mounted(kind, 512 << 20) as at, cay.Cay(BUILD, state_top=at) as c:
        at.chmod(0o755)
        c.image_import("tiny", tiny())
        boxes = [c.create("tiny", limits={"disk_bytes": "32Mi"}) for _ in range(2)]
        for n, box in enumerate(boxes, 4):
            assert c.exec(box, ["dd", "if=/dev/zero", "of=/workspace/x", "bs=1M", f"count={n}"]).exit_code == 0
        os.sync()
        wait_for("a sample", lambda: rows(c)[0]["disk_bytes"] >= 9 * MIB, 20)
        assert rows(c)[0]["disk_bytes"] < 10 * MIB and rows(c)[0]["disk_limit_bytes"] == 64 * MIB


def test_many_requests_share_one_sample(own):
    """Hundreds of requests at once cost control a walk of the cgroups a second, not one each."""
    _, who = new_tenant(own)
    for _ in range(40):
        who.create("tiny")
    cayd = own.pids()["cayd"]

    def opened():
        with open(f"/proc/{cayd}/io") as f:
            return int(dict(line.split(": ") for line in f.read().splitlines())["syscr"])
    let_pass(1.1)
    before = opened()
    rows(who)
    one = opened() - before
    let_pass(max(1.1, 0.001 * one))
    before = opened()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert [n for n in pool.map(lambda _: rows(who)[0]["sandboxes"], range(320)) if n != 40] == []
    many = opened() - before
    assert one > 40 and many < 5 * one + 320 * 5, f"one request reads {one} times, 320 together {many} times"


def test_the_end_of_a_command_has_what_it_used(daemon):
    """As the shell itself counts it, and by what it was asked to write."""
    box = daemon.create("tiny")
    idle = daemon.exec(box, ["true"]).end["used"]
    assert idle["cpu_ms"] < 500 and idle["memory_peak_bytes"] < 16 * MIB and idle["write_bytes"] == 0
    done = daemon.exec(box, ["sh", "-c", f"({SPIN}); {SPIN}; cat /proc/$$/stat; :"])
    own_user, own_sys, child_user, child_sys = (int(n) for n in done.stdout.rpartition(b")")[2].split()[11:15])
    ticks = own_user + own_sys + child_user + child_sys
    assert child_user and own_user and abs(done.end["used"]["cpu_ms"] - ticks * 10) <= 60, (done.end, ticks)
    done = daemon.exec(box, ["sh", "-c", "x=0123456789abcdef; for i in $(seq 20); do x=$x$x; done; grep VmHWM /proc/$$/status; :"])
    peak = int(done.stdout.split()[1]) * 1024
    assert peak > 16 * MIB and 0.9 * peak <= done.end["used"]["memory_peak_bytes"] <= 1.1 * peak + MIB
    done = daemon.exec(box, ["sh", "-c", "busybox dd if=/dev/zero of=/big bs=1M count=8"], user="root")
    assert 8 * MIB <= done.end["used"]["write_bytes"] < 9 * MIB, done.end
    daemon.delete(box)


def test_the_end_of_a_sandbox_has_what_it_used(own):
    box = own.create("tiny", limits={"memory_bytes": "64Mi"})
    own.exec(box, ["sh", "-c", f"{SPIN}; x=0123456789abcdef; for i in $(seq 20); do x=$x$x; done"])
    cpu, peak = cpu_ms(own, box), own.call("GET", f"/v1/sandboxes/{box}/usage")["memory_peak_bytes"]
    assert "end" not in own.get(box)
    own.delete(box)
    used = own.get(box)["end"]["used"]
    assert cpu <= used["cpu_ms"] < cpu + 500 and peak <= used["memory_peak_bytes"] <= 64 * MIB and peak > 16 * MIB
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.get(box)["end"]["used"] == used, "the journal keeps it"
