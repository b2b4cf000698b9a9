# SPDX-License-Identifier: Apache-2.0
"""A tenant is granted what it has: ceilings of one sandbox, quotas of all of them, and who may change them."""
import os
import resource
import subprocess

import cay
import pytest
from cay import wait_for
from conftest import BUILD, tiny
from test_control import refused
from test_tenants import actor, asks

MIB = 1 << 20
TIB = 1 << 40
MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
CPUS = os.sysconf("SC_NPROCESSORS_ONLN")
# what a key could give itself before there were ceilings
WISHES = {"memory_bytes": 16 * TIB, "cpu_milli": 1024000, "pids": 4194304, "shm_bytes": 16 * TIB, "output_bytes": 1 << 30,
          "nofile": 1048576}


def limits(c, box, **change):
    return c.call("POST", f"/v1/sandboxes/{box}/limits", change)["limits"]


@pytest.fixture(scope="module")
def tenant(daemon):
    return daemon.call("POST", "/v1/tenants", {"name": f"granted-{os.getpid()}"})["id"]


@pytest.mark.parametrize("what", WISHES)
def test_a_create_above_a_ceiling_is_refused_by_name(daemon, tenant, what):
    """TEN-04: the field, the ceiling and where it comes from."""
    who = asks(daemon, "write", tenant)
    error = refused("invalid_argument", who.create, "tiny", limits={what: WISHES[what]})
    assert error["field"] == "limits." + what and "sandbox." + what.split("_")[0] in error["message"]
    most = int(error["message"].split("at most ")[1].split()[0])
    assert most <= {"memory_bytes": MEMORY / 2, "cpu_milli": CPUS * 1000, "nofile": 65536}.get(what, WISHES[what] / 2)
    if what == "nofile" and resource.getrlimit(resource.RLIMIT_NOFILE)[1] < most:
        return  # this test's keeper has a lower one than that of the package
    box = who.create("tiny", limits={what: most})
    assert who.get(box)["limits"][what] == most
    who.delete(box)


def test_a_change_above_a_ceiling_is_refused_by_name(daemon, tenant):
    who = asks(daemon, "write", tenant)
    box = who.create("tiny")
    before = who.get(box)["limits"]
    for what in ("memory_bytes", "cpu_milli", "pids"):
        error = refused("invalid_argument", limits, who, box, **{what: WISHES[what]})
        assert error["field"] == what and "sandbox." in error["message"]
    assert who.get(box)["limits"] == before
    assert limits(who, box, memory_bytes=256 * MIB)["memory_bytes"] == 256 * MIB
    who.delete(box)


def test_a_token_cannot_change_limits(daemon, tenant):
    who = asks(daemon, "write", tenant)
    box = who.create("tiny")
    token = daemon.edge(actor("write", tenant, sandbox=box))
    before = who.get(box)["limits"]
    assert "token" in refused("permission_denied", limits, token, box, pids=before["pids"] + 1)["message"]
    refused("permission_denied", limits, token, box, pids=before["pids"] - 1)
    assert who.get(box)["limits"] == before
    # nor what would outlive it; its life it can only move within what was granted
    refused("permission_denied", token.call, "POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})
    refused("invalid_argument", token.call, "POST", f"/v1/sandboxes/{box}/extend", {"ttl_ms": 366 * 86400000})
    who.delete(box)


def test_a_templates_limits_are_bounded_where_it_is_used():
    with cay.Cay(BUILD, env={"CAY_SANDBOX_MEMORY": "64Mi", "CAY_SANDBOX_NOFILE": "2048"}) as c:
        c.image_import("tiny", tiny())
        box = c.create("tiny")  # defaults are lowered
        assert c.get(box)["limits"]["memory_bytes"] == 64 * MIB and c.get(box)["limits"]["nofile"] == 2048
        assert c.create("tiny", name="n") == c.create("tiny", name="n"), "a name means the same again"
        kind = c.call("POST", "/v1/templates", {"name": "big", "defaults": {"image": "tiny", "limits": {"memory_bytes": "65Mi"}}})
        assert refused("invalid_argument", c.call, "POST", "/v1/sandboxes", {"template": "big"})["field"] == "limits.memory_bytes"
        c.call("POST", "/v1/sandboxes", {"template": "big", "limits": {"memory_bytes": "64Mi"}})
        c.call("POST", f"/v1/templates/{kind['id']}/pool", {"min": 1})
        cay.wait_for("a failure", lambda: c.call("GET", f"/v1/templates/{kind['id']}")["pool_now"]["failed"], 20)
        assert "sandbox.memory" in c.log("cayd")
        small = c.call("POST", "/v1/templates", {"name": "small", "defaults": {"image": "tiny"}})
        c.call("POST", f"/v1/templates/{small['id']}/pool", {"min": 1})
        cay.wait_for("a warm one", lambda: c.call("GET", f"/v1/templates/{small['id']}")["pool_now"]["warm"], 20)
        assert c.call("POST", "/v1/sandboxes", {"template": "small"})["limits"]["memory_bytes"] == 64 * MIB
        assert c.call("GET", f"/v1/templates/{small['id']}")["pool_now"]["claimed"] == 1


def quotas(c, tenant, **body):
    return c.call("POST", f"/v1/tenants/{tenant}", body)


def status(c, tenant):
    return c.call("GET", f"/v1/tenants/{tenant}")


def new_tenant(c, **body):
    made = c.call("POST", "/v1/tenants", {"name": f"q-{os.urandom(4).hex()}"})["id"]
    quotas(c, made, **body)
    return made, asks(c, "write", made)


def test_a_tenant_has_a_row_of_quotas(own):
    """An operator sets, reads and resets quotas; a restart keeps them and counts the sandboxes again."""
    tenant, who = new_tenant(own, quotas={"memory_bytes": "1Gi", "sandboxes": 5}, ceilings={"pids": 99})
    assert quotas(own, tenant, quotas={"groups": 2})["quotas"] == {"memory_bytes": 1 << 30, "sandboxes": 5, "groups": 2}
    who.create("tiny", group="g", limits={"memory_bytes": "100Mi", "pids": 50, "cpu_milli": 300})
    other = who.create("tiny", limits={"memory_bytes": "200Mi", "pids": 60, "cpu_milli": 400})
    before = status(own, tenant)
    assert before["usage"] == {"sandboxes": 2, "groups": 1, "memory_bytes": 300 * MIB, "pids": 110, "cpu_milli": 700, "disk_bytes": 0, "snapshots": 0, "volumes": 0}
    assert before["quotas"]["memory_bytes"] == 1 << 30 and before["ceilings"]["pids"] == 99
    assert who.call("GET", "/v1/tenant") == before
    refused("permission_denied", who.call, "GET", f"/v1/tenants/{tenant}")
    refused("permission_denied", who.call, "POST", f"/v1/tenants/{tenant}", {"quotas": {"memory_bytes": "1Ti"}})
    own.kill_daemon("cayd")
    own.start_cayd()
    assert status(own, tenant) == before
    asks(own, "write", tenant).delete(other)
    assert status(own, tenant)["usage"]["memory_bytes"] == 100 * MIB
    assert "quotas" not in quotas(own, tenant, reset=True)
    assert "memory_bytes" not in status(own, tenant)["quotas"]
    refused("conflict", quotas, own, "tn" + "0" * 24, quotas={"pids": 1})


def test_an_update_that_could_not_be_written_is_undone(own):
    """The journal's disk fails: the request fails, and the quotas are those before."""
    tenant, _ = new_tenant(own, quotas={"sandboxes": 5})
    before = status(own, tenant)
    cayd = own.daemons["cayd"].pid
    with subprocess.Popen(["strace", "-f", "-p", str(cayd), "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"],
                          stderr=subprocess.DEVNULL) as trace:
        try:
            wait_for("the tracer", lambda: cay.traced(cayd), 30)
            refused("internal", quotas, own, tenant, quotas={"sandboxes": 7})
            assert status(own, tenant) == before
        finally:
            trace.terminate()
    assert quotas(own, tenant, quotas={"sandboxes": 8})["quotas"] == {"sandboxes": 8}
    own.kill_daemon("cayd")
    own.start_cayd()
    assert status(own, tenant)["quotas"]["sandboxes"] == 8


@pytest.mark.parametrize("what, most, one", [("memory_bytes", 200 * MIB, 100 * MIB), ("cpu_milli", 200, 100), ("pids", 200, 100)])
def test_the_sum_of_limits_is_a_quota(daemon, what, most, one):
    """Also for one that grows; and one that ends gives back what it had."""
    _, who = new_tenant(daemon, quotas={what: most})
    boxes = [who.create("tiny", limits={what: one}) for _ in range(2)]
    assert what in refused("limit_exceeded", who.create, "tiny", limits={what: one})["message"]
    refused("limit_exceeded", limits, who, boxes[0], **{what: one + 1})
    limits(who, boxes[0], **{what: one // 2})
    half = who.create("tiny", limits={what: one // 2})
    refused("limit_exceeded", limits, who, boxes[0], **{what: one})
    who.delete(half)
    assert limits(who, boxes[0], **{what: one})[what] == one
    who.delete(boxes[1])
    refused("limit_exceeded", limits, who, boxes[0], **{what: 2 * one + 1})
    assert limits(who, boxes[0], **{what: 2 * one})[what] == 2 * one
    who.delete(boxes[0])


def test_sandboxes_groups_and_lifetimes_are_quotas(daemon):
    _, who = new_tenant(daemon, quotas={"sandboxes": 3, "groups": 1, "max_ttl_ms": 60000}, ceilings={"memory_bytes": "64Mi"})
    error = refused("invalid_argument", who.create, "tiny", limits={"memory_bytes": "65Mi"})
    assert error["field"] == "limits.memory_bytes" and "this tenant" in error["message"]
    first = who.create("tiny", group="a")
    assert who.get(first)["limits"]["memory_bytes"] == 64 * MIB
    assert "groups" in refused("limit_exceeded", who.create, "tiny", group="b")["message"]
    rest = [who.create("tiny", group="a"), who.create("tiny")]
    assert "sandboxes" in refused("limit_exceeded", who.create, "tiny")["message"]
    refused("invalid_argument", who.call, "POST", f"/v1/sandboxes/{first}/extend", {"ttl_ms": 61000})
    for box in (first, *rest):
        who.delete(box)
    who.delete(who.create("tiny", group="b"))


def test_a_new_group_takes_the_place_of_the_longest_idle(daemon):
    """All its sandboxes go; a group with a request inside, one used later, and what belongs to no group, stay."""
    _, who = new_tenant(daemon, quotas={"groups": 3})
    busy = who.create("tiny", group="busy")  # used before all others, and it still is
    stream = who.open("GET", f"/v1/sandboxes/{busy}/execs/{who.exec_detached(busy, ['sleep', '60'])}/output?follow=true")
    young, loose, old = [who.create("tiny", group="young")], who.create("tiny"), [who.create("tiny", group="old") for _ in range(2)]
    young.append(who.create("tiny", group="young"))  # its first is older than all of the old group
    refused("limit_exceeded", who.create, "tiny", group="new")
    made = who.create("tiny", group="new", on_full="evict_idle")
    assert [who.get(box)["end"]["reason"] for box in old] == ["evicted"] * 2
    assert all(who.get(box)["state"] == "running" for box in (busy, loose, *young, made))
    stream.close()
    for box in (busy, loose, *young, made):
        who.delete(box)


def test_creates_have_a_rate(daemon):
    _, who = new_tenant(daemon, quotas={"creates_per_s": 2})
    codes = []
    for _ in range(6):
        try:
            codes.append(who.create("tiny", wait=False))
        except cay.ApiError as e:
            codes.append(e.code)
    assert "rate_limited" in codes and codes[0].startswith("sb")
    for box in codes:
        if box.startswith("sb"):
            who.delete(box)


def test_memory_is_committed_to_a_factor():
    """Control refuses a create or a change of limits when the memory limits of all sandboxes, warm ones included, would exceed the node's."""
    with cay.Cay(BUILD, env={"CAY_NODE_OVERCOMMIT": "10", "CAY_SANDBOX_MEMORY": "16Ti"}) as c:
        c.image_import("tiny", tiny())
        most = (MEMORY - 256 * MIB) // 10
        box = c.create("tiny", limits={"memory_bytes": most - 64 * MIB})
        error = refused("no_capacity", c.create, "tiny", limits={"memory_bytes": 65 * MIB})
        assert "node.overcommit" in error["message"]
        refused("no_capacity", limits, c, box, memory_bytes=most + MIB)
        kind = c.call("POST", "/v1/templates", {"name": "w", "defaults": {"image": "tiny", "limits": {"memory_bytes": 40 * MIB}}})
        c.call("POST", f"/v1/templates/{kind['id']}/pool", {"min": 2})
        cay.wait_for("a warm one", lambda: c.call("GET", f"/v1/templates/{kind['id']}")["pool_now"]["warm"] == 1, 20)
        refused("no_capacity", c.create, "tiny", limits={"memory_bytes": 40 * MIB})
        warm = c.call("POST", "/v1/sandboxes", {"template": "w"})
        assert warm["limits"]["memory_bytes"] == 40 * MIB and c.call("GET", f"/v1/templates/{kind['id']}")["pool_now"]["claimed"] == 1
        c.delete(box)
        assert c.create("tiny", limits={"memory_bytes": most - 128 * MIB})
