# SPDX-License-Identifier: Apache-2.0
"""Disks with a quota: made, limited, counted, changed, given back.  On each file system this kernel can."""
import ctypes
import json
import os
import struct
import subprocess

import cay
import loopfs
import pytest
from cay import wait_for
from conftest import BUILD, tiny
from test_control import refused
from test_limits import limits, usage

MIB = 1 << 20
KIND = {"btrfs": "btrfs", "ext4": "project", "xfs": "project"}


def fill(c, box, name="/workspace/big", mib=4096):
    """How many bytes went in."""
    done = c.exec(box, ["dd", "if=/dev/zero", f"of={name}", "bs=64k", f"count={mib * 16}"])
    assert done.exit_code != 0 and (b"quota" in done.stderr.lower() or b"No space" in done.stderr), done
    return int(c.exec(box, ["stat", "-c", "%s", name]).text)


@pytest.fixture(scope="module", params=loopfs.here())
def disk(request):
    with loopfs.mounted(request.param, 1 << 30) as at, cay.Cay(BUILD, state_top=at) as c:
        os.chmod(at, 0o755)
        c.image_import("tiny", tiny())
        c.fs, c.kind, c.inodes = at, request.param, request.param != "btrfs"
        yield c


def test_health_says_what_limits_disks(disk):
    assert disk.call("GET", "/v1/health")["disk"] == KIND[disk.kind]
    box = disk.create("tiny")
    got = disk.get(box)["limits"]
    size = os.statvfs(disk.state)
    assert got["disk_bytes"] == size.f_blocks * size.f_frsize // 2, "the default of 10Gi is lowered to half of this disk"
    assert got.get("disk_inodes") == (1 << 20 if disk.inodes else None)
    disk.delete(box)


def test_a_disk_is_full_at_its_limit_and_the_next_one_is_not(disk):
    one, two = (disk.create("tiny", limits={"disk_bytes": "32Mi"}) for _ in range(2))
    went = fill(disk, one)
    assert 0.98 * 32 * MIB < went <= 1.01 * 32 * MIB, went
    assert disk.exec(two, ["dd", "if=/dev/zero", "of=/workspace/x", "bs=1M", "count=20"]).exit_code == 0
    os.sync()
    used = usage(disk, one)
    assert 0.98 * 32 * MIB < used["disk_bytes"] <= 1.02 * 32 * MIB, used
    assert 20 * MIB <= usage(disk, two)["disk_bytes"] < 22 * MIB
    assert ("disk_inodes" in used) == disk.inodes and used.get("disk_inodes", 4) < 100
    for box in (one, two):
        disk.delete(box)


def test_a_limit_changes_while_it_runs(disk):
    box = disk.create("tiny", limits={"disk_bytes": "16Mi"})
    first = fill(disk, box)
    assert limits(disk, box, disk_bytes="32Mi")["disk_bytes"] == 32 * MIB
    second = fill(disk, box, "/workspace/more")
    assert 0.95 * 32 * MIB < first + second <= 1.01 * 32 * MIB, (first, second)
    assert limits(disk, box, disk_bytes="16Mi", pids=77)["pids"] == 77  # what is there stays
    assert int(disk.exec(box, ["stat", "-c", "%s", "/workspace/more"]).text) == second
    disk.delete(box)


def unlimit(c, box):
    """As root of the host: its disk has no limit any more."""
    at = c.state / "boxes" / box / "disk"
    if c.kind == "btrfs":
        subprocess.run(["btrfs", "qgroup", "limit", "none", at], check=True)
        return
    project = int(subprocess.run(["lsattr", "-pd", at], check=True, capture_output=True, text=True).stdout.split()[0])
    set_quota, of_projects, block_limits = 0x800008, 2, 1
    quota = struct.pack("<8QI4x", 0, 0, 0, 0, 0, 0, 0, 0, block_limits)
    fd = os.open(at, os.O_RDONLY)
    assert ctypes.CDLL(None).syscall(443, fd, set_quota << 8 | of_projects, project, quota) == 0
    os.close(fd)


def test_a_start_limits_the_disk_again(disk):
    """A change of limits may have been cut off by a stop, and quotas may have been off meanwhile."""
    box = disk.create("tiny", limits={"disk_bytes": "16Mi"})
    disk.call("POST", f"/v1/sandboxes/{box}/stop")
    unlimit(disk, box)
    disk.call("POST", f"/v1/sandboxes/{box}/start")
    assert fill(disk, box, mib=64) <= 1.01 * 16 * MIB
    disk.delete(box)


def test_files_are_limited_where_they_are_counted(disk):
    if not disk.inodes:
        assert refused("unsupported", disk.create, "tiny", limits={"disk_inodes": 500})["field"] == "limits.disk_inodes"
        box = disk.create("tiny")
        assert refused("unsupported", limits, disk, box, disk_inodes=500)["field"] == "disk_inodes"
    else:
        box = disk.create("tiny", limits={"disk_inodes": 500})
        done = disk.exec(box, ["sh", "-c", "i=0; while touch /workspace/$i; do i=$((i+1)); done; echo $i"])
        assert 480 < int(done.text) <= 500, done
        assert usage(disk, box)["disk_inodes"] == 500
        assert limits(disk, box, disk_inodes=600)["disk_inodes"] == 600
        assert disk.exec(box, ["touch", "/workspace/more"]).exit_code == 0
    disk.delete(box)


def test_space_comes_back(disk):
    loopfs.settle(disk.kind, disk.fs)  # else what others left comes back while we count
    before = loopfs.free(disk.fs)
    box = disk.create("tiny", limits={"disk_bytes": "64Mi"})
    fill(disk, box)
    os.sync()
    assert before - loopfs.free(disk.fs) > 60 * MIB
    disk.delete(box)
    wait_for("the space", lambda: before - loopfs.free(disk.fs) < 2 * MIB, 20)
    assert not list((disk.state / "boxes").iterdir())


def test_restarts_change_nothing(disk):
    box = disk.create("tiny", limits={"disk_bytes": "16Mi"}, name="mine")
    for name in ("cayd", "cay-keeper"):
        disk.kill_daemon(name)
        getattr(disk, "start_" + name.removeprefix("cay-"))()
    wait_for("the keeper", lambda: "disk_bytes" in usage(disk, box), 30)
    assert disk.get(box)["limits"]["disk_bytes"] == 16 * MIB
    assert disk.create("tiny", limits={"disk_bytes": "16Mi"}, name="mine") == box
    assert refused("conflict", disk.create, "tiny", limits={"disk_bytes": "17Mi"}, name="mine")["field"] == "name"
    assert fill(disk, box) <= 1.01 * 16 * MIB
    disk.delete(box)


def test_a_disk_goes_also_when_quotas_went_first():
    """Nothing can be renamed out of a subvolume, which is how a tree is removed otherwise."""
    with loopfs.mounted("btrfs", 512 << 20) as at, cay.Cay(BUILD, state_top=at) as c:
        os.chmod(at, 0o755)
        c.image_import("tiny", tiny())
        box = c.create("tiny")
        assert c.exec(box, ["mkdir", "-p", "/workspace/a/b/c"]).exit_code == 0
        loopfs.run(["btrfs", "quota", "disable", str(at)])
        c.kill_daemon("cay-keeper")
        c.start_keeper()
        wait_for("the keeper", lambda: c.call("GET", "/v1/health")["disk"] == "none", 30)
        c.delete(box)
        assert not list((c.state / "boxes").iterdir())


@pytest.mark.parametrize("kind", loopfs.here(quotas=False))
def test_quotas_that_are_off_stay_off(kind):
    """The operator's file system is the operator's."""
    with loopfs.mounted(kind, 512 << 20, quotas=False) as at, cay.Cay(BUILD, state_top=at) as c:
        os.chmod(at, 0o755)
        assert c.call("GET", "/v1/health")["disk"] == "none"
        assert "disks of sandboxes are not limited" in c.log("cay-keeper")


def test_a_layer_is_as_large_as_what_is_in_it(disk):
    t = disk.call("POST", "/v1/templates", {"name": "large", "defaults": {"image": "tiny"}, "setup": ["dd if=/dev/zero of=/big bs=1M count=8; sync"]})
    wait_for("its build", lambda: disk.call("GET", f"/v1/templates/{t['id']}")["state"] == "ready", 120)
    rows = [r["image"] for r in json.loads((disk.state / "db/images.json").read_text())["images"]]
    below, = [r["size_bytes"] for r in rows if r.get("name") == "tiny"]
    layer, = [r["size_bytes"] for r in rows if r["digest"] == disk.call("GET", f"/v1/templates/{t['id']}")["layer"]]
    assert below + 8 * MIB <= layer < below + 10 * MIB
    disk.call("DELETE", f"/v1/templates/{t['id']}")


def test_a_snapshot_on_each_kind(disk):
    """Its bytes are the tenant's, not the sandbox's; forks have a limit of their own, and all of it comes back."""
    loopfs.settle(disk.kind, disk.fs)
    before = loopfs.free(disk.fs)
    box = disk.create("tiny", limits={"disk_bytes": "32Mi"})
    assert disk.exec(box, ["dd", "if=/dev/urandom", "of=/workspace/x", "bs=1M", "count=20"]).exit_code == 0
    os.sync()
    made = disk.call("POST", f"/v1/sandboxes/{box}/snapshots", {})
    assert 20 * MIB <= made["size_bytes"] < 22 * MIB
    tenant = disk.call("GET", f"/v1/tenants/{made['tenant']}")["usage"]
    assert tenant["snapshots"] == 1 and tenant["disk_bytes"] == 32 * MIB + made["size_bytes"]
    assert usage(disk, box)["disk_bytes"] < 22 * MIB
    of = disk.call("POST", "/v1/sandboxes", {"snapshot": made["id"], "limits": {"disk_bytes": "16Mi"}})["id"]
    assert disk.exec(of, ["wc", "-c", "/workspace/x"]).text.split()[0] == str(20 * MIB)
    layer, = (disk.state / "images" / "sha256").glob("*/disk/upper/workspace/x")
    assert layer.read_bytes() == (disk.state / "boxes" / box / "disk/upper/workspace/x").read_bytes()
    assert fill(disk, of) <= 1.01 * 16 * MIB
    for b in (box, of):
        disk.delete(b)
    disk.call("DELETE", f"/v1/snapshots/{made['id']}")
    wait_for("the space", lambda: loopfs.settle(disk.kind, disk.fs) or before - loopfs.free(disk.fs) < 2 * MIB, 30)
