# SPDX-License-Identifier: Apache-2.0
"""The rights of the program that talks to registries: a hostile one stands in for skopeo, and says what it could do."""
import concurrent.futures
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess

import cay
import pytest
import registry as reg
from conftest import BUILD
from test_pull import nothing_left, processes, public, pull, pulls_of, refused, settings, tiny  # noqa: F401

HOSTILE = r'''#!/usr/bin/python3
import ctypes, errno, json, os, resource, socket, struct, sys
TARGETS = json.loads("""@TARGETS@""")
said, libc = {}, ctypes.CDLL(None, use_errno=True)
def tried(name, act):
    try:
        said[name] = str(act())[:200]
    except OSError as e:
        said[name] = errno.errorcode[e.errno]
def call(number, *args):
    r = libc.syscall(number, *args)
    if r < 0:
        raise OSError(ctypes.get_errno(), "")
    return r
def dial(path, kind):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.connect(path)
    return "connected"
def put(path):
    with open(path, "w") as f:
        f.write("x")
    return "written"
for name, path in TARGETS["files"].items():
    tried("read " + name, lambda: open(path, "rb").read(16))
for name, path in TARGETS["dirs"].items():
    tried("list " + name, lambda: os.listdir(path))
    tried("write " + name, lambda: put(path + "/planted"))
for name, path in TARGETS["sockets"].items():
    tried("dial " + name, lambda: dial(path, socket.SOCK_SEQPACKET if name != "control" else socket.SOCK_STREAM))
tried("abstract", lambda: dial("\0" + TARGETS["abstract"], socket.SOCK_STREAM))
tried("pair", lambda: socket.socketpair())
tried("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
tried("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
tried("io_uring", lambda: call(425, 8, ctypes.create_string_buffer(120)))
tried("signal", lambda: os.kill(os.getppid(), 0))
tried("signal none", lambda: os.kill(4194303, 0))
tried("signal myself", lambda: os.kill(os.getpid(), 0))
tried("trace", lambda: call(101, 16, os.getppid(), 0, 0))
tried("namespace", lambda: call(272, 0x10000000))
tried("listen", lambda: socket.create_server(("127.0.0.1", 0)))
tried("dial the registry", lambda: socket.create_connection(tuple(TARGETS["tcp"]), 5) and "connected")
tried("write my own", lambda: put(os.environ["HOME"] + "/mine"))
tried("execute my own", lambda: (os.chmod(os.environ["HOME"] + "/mine", 0o755), os.execv(os.environ["HOME"] + "/mine", ["mine"])))
said["uid"], said["gid"], said["groups"] = os.getuid(), os.getgid(), os.getgroups()
said["no_new_privs"], said["seccomp"] = libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0)
said["limits"] = {n: resource.getrlimit(getattr(resource, "RLIMIT_" + n))[1] for n in ("FSIZE", "DATA", "NPROC", "CORE")}
said["env"], said["fds"] = sorted(os.environ), []
for fd in range(0, 64):
    try:
        os.fstat(fd)
        said["fds"].append(fd)
    except OSError:
        pass
where = os.environ["HOME"]
print(json.dumps({"LayersData": []}))
open(where + "/said", "w").write(json.dumps(said))
sys.stdout.flush()
os.read(os.pipe()[0], 1)  # until it is killed
'''


@pytest.fixture(scope="module")
def hostile(public):
    """What it found out, and where it ran."""
    at = pathlib.Path("/var/tmp", f"cay-test-skopeo-{os.getpid()}")
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0{at.name}")
    abstract.listen()
    try:
        with cay.Cay(BUILD, env=settings(public.host, skopeo=str(at))) as c, concurrent.futures.ThreadPoolExecutor(1) as pool:
            host, port = public.host.split(":")
            at.write_text(HOSTILE.replace("@TARGETS@", json.dumps({
                "files": {"key": str(c.state / "db/token.key"), "shadow": "/etc/shadow", "passwd": "/etc/passwd",
                          "machine": "/etc/machine-id"},
                "dirs": {"db": str(c.state / "db"), "state": str(c.state), "run": str(c.run), "tmp": "/tmp", "other pulls": str(c.state / "pull")},
                "sockets": {"keeper": str(c.run / "box/keeper.sock"), "control": str(c.run / "control.sock"), "pull": str(c.run / "pull/pull.sock")},
                "abstract": at.name, "tcp": [host, int(port)]})))
            at.chmod(0o755)
            asked = pool.submit(pytest.raises, cay.ApiError, pull, c, f"{public.host}/team/tiny:1")
            cay.wait_for("its word", lambda: any((p / "said").exists() and (p / "said").stat().st_size for p in pulls_of(c)), 40)
            where = pulls_of(c)[0]
            said = json.loads((where / "said").read_text())
            pid = next(int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and at.name in cmdline(p))
            status = dict(l.split(":\t", 1) for l in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in l)
            c.kill_daemon("cay-pull")  # ends the pull at once
            asked.result(60)
            yield c, said, status
    finally:
        abstract.close()
        at.unlink(missing_ok=True)


def cmdline(p):
    try:
        return (p / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_it_is_a_user_of_its_own(hostile):
    _, said, status = hostile
    assert (said["uid"], said["gid"], said["groups"]) == (cay.PULL_UID, cay.PULL_UID, []) and said["uid"] != cay.CONTROL_UID
    assert said["no_new_privs"] == 1 and status["Seccomp"] == "2" and int(status["CapEff"], 16) == 0


def test_it_reads_nothing_of_ours(hostile):
    _, said, _ = hostile
    # what its user alone would allow is refused as well: Landlock is there
    for name in ("key", "shadow", "passwd", "machine"):
        assert said["read " + name] in ("EACCES", "ENOENT"), (name, said)
    assert said["read passwd"] == "EACCES"
    for name in ("db", "state", "run", "tmp", "other pulls"):
        assert said["list " + name] == "EACCES" and said["write " + name] == "EACCES", (name, said)


def test_it_connects_to_nothing_of_ours(hostile):
    _, said, _ = hostile
    for name in ("dial keeper", "dial control", "dial pull", "abstract", "pair", "netlink", "vsock"):
        assert said[name] == "EPERM", (name, said)
    assert said["io_uring"] == "EPERM"


def test_it_touches_no_other_process(hostile):
    _, said, _ = hostile
    # the filter refuses what Landlock would have to look up
    assert said["signal"] == said["signal none"] == said["trace"] == said["namespace"] == "EPERM" and said["signal myself"] == "None", said


def test_it_can_do_its_work_and_no_more(hostile):
    _, said, _ = hostile
    assert said["dial the registry"] == "connected" and said["write my own"] == "written"
    assert said["execute my own"] == "EACCES" and said["listen"] == "EACCES", said
    assert said["env"] == ["HOME", "PATH", "TMPDIR"] or said["env"] == ["HOME", "LC_CTYPE", "PATH", "TMPDIR"]
    assert set(said["fds"]) <= {0, 1, 2, 3, 4}, said
    assert 0 < said["limits"]["DATA"] <= 4 << 30 and 0 < said["limits"]["NPROC"] <= 4096 and said["limits"]["CORE"] == 0
    assert said["limits"]["FSIZE"] == (32 << 30) + (1 << 20)  # images.pull_size


def test_killed_it_leaves_nothing_and_can_be_started_again(public):
    reference = public.push("puller/tiny:1", tiny(random.Random(21).randbytes(4 << 20)))
    slow = reg.Slow(public.host, stop_at=100000)
    with cay.Cay(BUILD, env=settings(public.host, slow.host)) as c, concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(pull, c, reference.replace(public.host, slow.host))
        assert slow.reached.wait(40)
        mine = lambda: [p for p in processes() if "skopeo" in p and str(c.state) in p]
        assert mine() and pulls_of(c)
        c.kill_daemon("cay-pull")
        refused(lambda: asked.result(60), 503, "unavailable", "cay-pull ended", "try again")
        cay.wait_for("skopeo to die with it", lambda: not mine(), 30)
        refused(lambda: pull(c, reference), 503, "unavailable", "cay-pull is not running")
        c.start_pull()
        assert not pulls_of(c)
        assert pull(c, reference)["digest"]
        nothing_left(c)
    slow.close()


def test_one_job_that_dies_is_one_pull(public):
    reference = public.push("puller/job:1", tiny(random.Random(22).randbytes(4 << 20)))
    slow = reg.Slow(public.host, stop_at=100000)
    with cay.Cay(BUILD, env=settings(public.host, slow.host)) as c, concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(pull, c, reference.replace(public.host, slow.host))
        assert slow.reached.wait(40)
        server = c.pids()["cay-pull"]
        jobs = pathlib.Path(f"/proc/{server}/task/{server}/children").read_text().split()
        assert len(jobs) == 1
        os.kill(int(jobs[0]), signal.SIGKILL)
        refused(lambda: asked.result(60), 503, "unavailable", "cay-pull ended")
        nothing_left(c)
        assert pull(c, reference)["digest"] and c.pids()["cay-pull"] == server
    slow.close()


def test_only_control_may_ask(public):
    with cay.Cay(BUILD, env=settings(public.host)) as c:
        ask = f"""
import socket, os
os.setgroups([{cay.CONTROL_UID}]); os.setgid({cay.PULL_UID + 1}); os.setuid({cay.PULL_UID + 1})
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect({str(c.run / "pull/pull.sock")!r})
print(s.recv(100))
"""
        done = subprocess.run(["python3", "-c", ask], capture_output=True, text=True, timeout=30)
        assert done.stdout == "b''\n", done  # an edge has the group of cayd, and gets no further
        assert "another user" in c.said("cay-pull")
        bad = subprocess.run(["python3", "-c", f"""
import socket, os
os.setgroups([]); os.setgid({cay.CONTROL_UID}); os.setuid({cay.CONTROL_UID})
for text in (b"x", {bytes(280)!r}, {struct.pack("<QQII256s", 0x316c6c7570796163, 1 << 20, 0, 0, b"127.0.0.1:9/x:1")!r}):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect({str(c.run / "pull/pull.sock")!r})
    s.send(text)
    print(s.recv(100))
"""], capture_output=True, text=True, timeout=30)
        assert bad.stdout == "b''\n" * 3, bad  # not a request; and a whole one without its fd
        assert not pulls_of(c)


def test_it_is_not_started_as_control(public):
    with cay.Cay(BUILD, env=settings(public.host)) as c:
        done = subprocess.run([c.programs["pull"]], env=c.env, user=cay.CONTROL_UID, group=cay.CONTROL_UID, extra_groups=[],
                              capture_output=True, text=True, timeout=30)
        assert done.returncode and "must not run as the user of cayd" in done.stderr, done
        done = subprocess.run([c.programs["pull"]], env=c.env, user=cay.PULL_UID, group=cay.PULL_UID, extra_groups=[],
                              capture_output=True, text=True, timeout=30)
        assert done.returncode and "another cay-pull runs" in done.stderr, done
        assert pull(c, f"{public.host}/team/tiny:1")["digest"]  # the first one goes on
