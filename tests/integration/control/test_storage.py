# SPDX-License-Identifier: Apache-2.0
"""Where what a sandbox writes is: on disk, in memory, or nowhere but in some paths."""
import os

import cay
import pytest
from conftest import tiny
from test_control import refused
from test_limits import limits, usage

MIB = 1 << 20
SEED = ["/workspace", "/mnt/user-data/outputs"]
RUN_A_COPY = "cat /bin/busybox >{0}/sh && chmod +x {0}/sh && {0}/sh -c 'echo ran'"


@pytest.fixture(params=["crun", "runc"])
def runtime(request):
    return request.param


def says(c, box, line, user="root"):
    done = c.exec(box, ["sh", "-c", line], user=user)
    return done.exit_code, (done.stdout + done.stderr).decode()


def test_in_memory_it_is_as_large_as_it_says(daemon, runtime):
    box = daemon.create("tiny", runtime=runtime, storage="memory", limits={"disk_bytes": "32Mi", "disk_inodes": 500, "memory_bytes": "256Mi"})
    assert daemon.get(box)["storage"] == "memory"
    assert os.listdir(daemon.state / "boxes" / box) == ["box"]  # nothing of it can be on disk
    before = usage(daemon, box)
    code, said = says(daemon, box, "dd if=/dev/zero of=/big bs=64k")
    assert code != 0 and "No space left" in said
    after = usage(daemon, box)
    assert 32 * MIB * 0.99 <= after["disk_bytes"] <= 32 * MIB and after["memory_bytes"] - before["memory_bytes"] > 31 * MIB
    assert says(daemon, box, "> /big")[0] == 0
    code, said = says(daemon, box, "i=0; while touch /workspace/$i 2>/dev/null; do i=$((i+1)); done; echo $i")
    assert 495 <= int(said) <= 500, said
    assert usage(daemon, box)["disk_inodes"] >= 500
    for change in ({"disk_bytes": "64Mi"}, {"disk_inodes": 600}):
        assert refused("unsupported", limits, daemon, box, **change)["field"] == next(iter(change))
    assert limits(daemon, box, pids=99)["disk_bytes"] == 32 * MIB
    daemon.delete(box)


def test_in_memory_programs_run_and_memory_is_the_limit(daemon):
    box = daemon.create("tiny", storage="memory", limits={"memory_bytes": "64Mi"})
    assert daemon.get(box)["limits"]["disk_bytes"] == 32 * MIB
    assert says(daemon, box, RUN_A_COPY.format("/workspace"), "user") == (0, "ran\n")
    daemon.delete(box)
    box = daemon.create("tiny", storage="memory", limits={"memory_bytes": "64Mi", "disk_bytes": "1Gi"})
    assert says(daemon, box, "dd if=/dev/zero of=/big bs=1M")[0] != 0
    assert usage(daemon, box)["oom_kills"] and usage(daemon, box)["memory_peak_bytes"] <= 65 * MIB
    daemon.delete(box)


def test_a_read_only_root_and_what_is_not(daemon, runtime):
    """As AgentBox has it: only these two, for root and for everybody."""
    box = daemon.create("tiny", runtime=runtime, storage="read_only", writable=SEED)
    got = daemon.get(box)
    assert (got["storage"], got["writable"]) == ("read_only", SEED)
    for user in ("root", "user"):
        for path in ("/x", "/etc/x", "/tmp/x", "/mnt/x", "/mnt/user-data/x", "/etc/passwd"):
            code, said = says(daemon, box, f"echo x >>{path}", user)
            assert code != 0 and "Read-only" in said or user == "user" and "denied" in said, (path, user, said)
        assert says(daemon, box, "mkdir /dir; rm -r /etc; mount -o remount,rw /", user)[0] != 0
        for path in SEED:
            assert says(daemon, box, f"echo hello >{path}/{user} && cat {path}/{user}", user) == (0, "hello\n")
            assert says(daemon, box, f"cat {path}/{user}", "root") == (0, "hello\n")
    assert says(daemon, box, RUN_A_COPY.format("/workspace")) == (0, "ran\n")
    assert says(daemon, box, "ln /bin/busybox /workspace/busybox")[0] != 0  # another mount
    daemon.delete(box)
    box = daemon.create("tiny", runtime=runtime, storage="read_only")
    assert says(daemon, box, "echo x >/workspace/x")[0] != 0 and says(daemon, box, "echo x >/dev/shm/x") == (0, "")
    daemon.delete(box)


def test_paths_in_memory_that_allow_programs(daemon, runtime):
    """The other seed's: these alone, never on disk, and programs run there."""
    paths = ["/workspace", "/tmp", "/" "home/sandbox"]
    box = daemon.create("tiny", runtime=runtime, storage="memory", writable=paths, limits={"disk_bytes": "200Mi", "memory_bytes": "512Mi"})
    for path in paths:
        assert says(daemon, box, RUN_A_COPY.format(path), "user") == (0, "ran\n")
    assert says(daemon, box, "echo x >/etc/x")[0] != 0
    assert not (daemon.state / "boxes" / box / "disk").exists()
    daemon.delete(box)


def test_paths_that_lie_in_each_other(daemon):
    box = daemon.create("tiny", storage="read_only", writable=["/mnt/user-data/outputs", "/mnt"])
    assert says(daemon, box, "echo a >/mnt/a; echo b >/mnt/user-data/outputs/b; cat /mnt/a /mnt/user-data/outputs/b") == (0, "a\nb\n")
    daemon.delete(box)


@pytest.mark.parametrize("path", ["/etc", "workspace", "/workspace/", "/workspace/../etc", "/", "", "/proc", "/" "home/other"])
def test_another_path_is_refused_with_those_there_are(daemon, path):
    for storage in ("read_only", "memory"):
        error = refused("invalid_argument", daemon.create, "tiny", storage=storage, writable=["/tmp", path])
        assert error["field"] == "writable" and "/workspace /tmp" in error["message"], error


def test_what_makes_no_sense_is_refused(daemon):
    assert refused("invalid_argument", daemon.create, "tiny", writable=["/tmp"])["field"] == "writable"
    assert refused("invalid_argument", daemon.create, "tiny", storage="tape")["field"] == "storage"


@pytest.mark.parametrize("target", ["/etc", "/proc", "../../../../run", "/nowhere"])
def test_a_link_where_a_writable_path_should_be(own, target):
    """Nothing is made or mounted where an image's link leads."""
    evil = cay.layout([cay.directory("etc"), cay.directory("mnt"), cay.entry("workspace", cay.tarfile.SYMTYPE, link=target),
                       cay.entry("mnt/user-data", cay.tarfile.SYMTYPE, link=target),
                       *(cay.directory(d) for d in ("proc", "dev", "sys"))])
    own.image_import("evil", evil)
    for path in SEED:
        before = sorted(os.listdir("/run"))
        with pytest.raises(cay.ApiError) as e:
            own.create("evil", storage="read_only", writable=[path])
        assert e.value.status == 400 and b"plain directory" in e.value.body, e.value
        assert [n for n in sorted(os.listdir("/run")) if n not in before and "cay" not in n] == []


def test_storage_is_part_of_what_a_name_means(own):
    want = {"storage": "memory", "writable": SEED, "limits": {"disk_bytes": "16Mi"}}
    box = own.create("tiny", name="mine", **want)
    before = own.get(box)
    own.kill_daemon("cayd")
    own.start_cayd()
    after = own.get(box)
    assert {k: after[k] for k in ("storage", "writable", "limits")} == {k: before[k] for k in ("storage", "writable", "limits")}
    assert own.create("tiny", name="mine", **want) == box
    for other in ({"storage": "read_only", "limits": {}}, {"writable": ["/tmp"]}, {"limits": {"disk_bytes": "17Mi"}}):
        assert refused("conflict", own.create, "tiny", name="mine", **{**want, **other})["field"] == "name"
    own.delete(box)
    assert own.get(box)["storage"] == "memory" and not list((own.state / "boxes").iterdir())
