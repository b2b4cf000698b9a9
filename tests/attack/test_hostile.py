# SPDX-License-Identifier: Apache-2.0
"""The attacks can win: each mode finds what is open in a container without our walls

A user namespace, no capabilities, no filter, no masks, by crun: what Cay adds is
missing, so each mode that Cay stops must get through here.  And the hostile PID 1
does to a socket what its table says.
"""
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time

import pytest

import cay as lib
from conftest import BUILD

HOSTILE = BUILD / "tests/attack/hostile"
LIVE = 0x000A0000
SPACES = ("user", "pid", "mount", "network", "ipc", "uts", "cgroup")


class Bare:
    """A bundle with nothing but namespaces around the program."""

    def __init__(self, top):
        self.top, self.name = pathlib.Path(top), "cay-test-bare-" + secrets.token_hex(4)
        root = self.top / "rootfs"
        for d in ("proc", "dev", "tmp", "sys"):
            (root / d).mkdir(parents=True)
        shutil.copy(HOSTILE, root / "hostile")
        for path in (root, *root.iterdir()):
            os.chown(path, LIVE, LIVE)
        (root / "tmp").chmod(0o1777)
        v2 = next(l.split()[4] for l in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in l)
        self.cgroup = pathlib.Path(v2, self.name)
        self.cgroup.mkdir()

    def close(self):
        (self.cgroup / "cgroup.kill").write_text("1")
        lib.wait_for("the cgroup to empty", self.removed, 30)

    def removed(self):
        try:
            self.cgroup.rmdir()
            return True
        except OSError:
            return False

    def run(self, *args, program="/hostile", mounts=(), leak=None):
        """Exit status and lines.  leak: a directory to be fd 3 inside."""
        ids = [{"containerID": 0, "hostID": LIVE, "size": 65536}]
        config = {"ociVersion": "1.0.2", "root": {"path": "rootfs"},
                  "process": {"args": [program, *args], "cwd": "/", "user": {"uid": 0, "gid": 0},
                              "capabilities": {s: [] for s in ("bounding", "effective", "permitted")}},
                  "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                             {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
                             *mounts],
                  "linux": {"uidMappings": ids, "gidMappings": ids, "namespaces": [{"type": t} for t in SPACES]}}
        (self.top / "config.json").write_text(json.dumps(config))
        # the runtime sees its own cgroup only: docs/adr/0006
        script = 'echo 0 >"$1/cgroup.procs" && mount --bind "$1" /sys/fs/cgroup && shift && exec "$@"'
        if leak:
            script = f"exec 3<{leak}; " + script
        keep = ["--preserve-fds=1"] if leak else []
        r = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", str(self.cgroup), "crun",
                            f"--root={self.top}/run", "--cgroup-manager=disabled", "run", *keep, f"--bundle={self.top}",
                            self.name], stdin=subprocess.PIPE, capture_output=True, text=True, timeout=60 * lib.SLOW)
        return r.returncode, (r.stdout + r.stderr).splitlines()


@pytest.fixture
def bare(tmp_path):
    tmp_path.chmod(0o755)
    for above in tmp_path.parents:
        if above.stat().st_uid == os.getuid() and above != pathlib.Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    b = Bare(tmp_path)
    yield b
    b.close()


# mode -> what it must get through here
OPEN_HERE = {
    "probe": ["socket NETLINK_NETFILTER|REACHABLE", "keyctl|REACHABLE", "i386 int 0x80|reachable", "userfaultfd, user mode|REACHABLE"],
    "abi32": ["i386 getpid|through", "i386 socketcall|through", "i386 unshare|through"],
    "privs": ["Seccomp:|through", "NoNewPrivs:|through"],
    "cgroup": ["unshare user and cgroup, then mount|through"],
    "procsys": ["/proc/sys/kernel/shmmax|through"],
}


@pytest.mark.parametrize("mode", OPEN_HERE)
def test_mode_gets_through(bare, mode):
    status, lines = bare.run(mode)
    assert status == 1, lines[-5:]
    for row in OPEN_HERE[mode]:
        assert any(row in line for line in lines), f"{row} in {lines[-40:]}"


def test_count_is_calibrated(bare):
    """What the list was counted with; another kernel may have more, hardly less."""
    _, lines = bare.run("probe")
    count = next(l for l in lines if l.startswith("probe: ") and " of 53 " in l)
    assert 15 <= int(count.split()[1]) <= 24, count


def test_leaked_directory_is_found(bare):
    """CVE-2024-21626's class: a directory of the host as fd 3."""
    status, lines = bare.run("fds", leak="/")
    assert status == 1, lines[-10:]
    for row in ("/proc/self/fd/3|through|leads to a root that is not ours", "pid 1 fd 3|through|inherited"):
        assert any(l.startswith(row) for l in lines), lines


def test_own_node_is_found(bare):
    """A node whose owner is the sandbox's root, as a chown of the host's would leave it."""
    node = bare.top / "null"
    os.mknod(node, 0o20666, os.makedev(1, 3))
    os.chown(node, LIVE, LIVE)
    status, lines = bare.run("devices", "4", mounts=[
        {"destination": "/dev/own", "type": "bind", "source": str(node), "options": ["bind"]}])
    assert status == 1 and any(l.startswith("/dev/own|through|its mode") for l in lines), lines


def test_writable_program_is_found(bare):
    """PID 1's program, not the image's, on a file system that the sandbox may write."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        shutil.copy(HOSTILE, os.path.join(other, "hostile"))
        os.chmod(other, 0o755)
        for path in (other, os.path.join(other, "hostile")):
            os.chown(path, LIVE, LIVE)
        status, lines = bare.run("exe", program="/prog/hostile", mounts=[
            {"destination": "/prog", "type": "bind", "source": other, "options": ["bind"]}])
    found = {l.split("|")[0] for l in lines if "|through|" in l}
    assert status == 1 and found >= {"the mode of PID 1's program", "a file beside PID 1's program",
                                     "PID 1's program renamed"}, lines


def test_neighbour_at_home_is_found(bare):
    """In one sandbox everything that serve-neighbour makes must be seen by neighbours."""
    status, lines = bare.run("neighbours", "--at-home", "a-mark-of-ours")
    seen = {l.split("|")[0] for l in lines if "|through|" in l}
    assert status == 1 and seen >= {"process", "abstract socket", "abstract socket in /proc/net/unix",
                                    "System V shared memory", "System V semaphore", "System V message queue",
                                    "POSIX message queue", "file in a shared directory"}, lines


def test_trap_springs(bare):
    """Under another name it leaves its mark at the top of the root it runs in."""
    shutil.copy(HOSTILE, bare.top / "rootfs/sh")
    r = subprocess.run(["unshare", "--root", str(bare.top / "rootfs"), "/sh", "-c", "true"], capture_output=True, text=True)
    assert "trap: sh uid 0" in r.stdout, r
    assert (bare.top / "rootfs/cay-trap-sprung").read_text().startswith("sh uid 0 ")


# -- the hostile PID 1

PATIENCE_S, QUIET_S = 30.0 * lib.SLOW, 0.5


class Agent:
    def __init__(self, number):
        theirs = socket.socket(socket.AF_UNIX)
        self.path = f"\0cay-test-agent-{secrets.token_hex(8)}"
        theirs.bind(self.path)
        theirs.listen(8)
        # fd 3 inside, as the keeper gives it
        self.process = subprocess.Popen(["bash", "-c", f'exec "$1" agent "$2" 3<&{theirs.fileno()}', "bash", str(HOSTILE),
                                         str(number)], pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()

    def ask(self, request, first_s=PATIENCE_S, more_s=QUIET_S, limit=1 << 16):
        """What came until the other side closed, enough came, or nothing more did.

        Its program may have to start before the first byte; behind that, only what has no end is waited for long."""
        out = b""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(first_s)
            s.connect(self.path)
            try:
                s.sendall(request)
                while len(out) < limit and (data := s.recv(65536)):
                    out += data
                    s.settimeout(more_s)
                return out, "cut" if len(out) >= limit else "closed"
            except TimeoutError:
                return out, "open"
            except (ConnectionResetError, BrokenPipeError):
                return out, "reset"

    def close(self):
        self.process.kill()
        self.process.wait()


GET_HELLO = b"GET /v1/hello HTTP/1.1\r\nHost: x\r\n\r\n"
POST_EXEC = b"POST /v1/sandboxes/x/execs HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


def behaviours():
    if not HOSTILE.exists():
        return []
    out = subprocess.run([HOSTILE, "agent", "--list"], capture_output=True, text=True, check=True).stdout
    return [line.split("|") for line in out.splitlines()]


def test_there_are_forty():
    rows = behaviours()
    assert len(rows) == 40 and len({r[2] for r in rows}) == 40
    assert {r[1] for r in rows} == {"start", "accept", "hello", "exec"}


@pytest.mark.parametrize("number,when,what", behaviours(), ids=lambda v: v.replace(" ", "-")[:40])
def test_agent_misbehaves(number, when, what):
    """Well-behaved until its moment, and then not."""
    agent = Agent(number)
    silent = {"first_s": QUIET_S} if what.startswith(("silent", "never")) else {}
    try:
        if when == "start":
            if what == "never accepts":
                assert agent.ask(GET_HELLO, **silent)[1] == "open"
            else:
                assert agent.process.wait(PATIENCE_S) != 0
            return
        hello, end = agent.ask(GET_HELLO, **silent if when == "accept" else {})
        good = hello.startswith(b"HTTP/1.1 200 OK") and b"CAYH\1\0\1\0" in hello and len(hello.partition(b"\r\n\r\n")[2]) == 32
        assert good == (when == "exec"), hello
        assert agent.process.poll() is None
        if when == "hello":
            assert hello.startswith(b"H"), hello
        if when == "exec":
            endless = what.endswith("for ever") or "100,000" in what or "million" in what
            begin = time.monotonic()
            out, end = agent.ask(POST_EXEC, **silent, **{"more_s": PATIENCE_S} if endless else {})
            if what.startswith(("exits", "crashes")):
                assert agent.process.wait(PATIENCE_S) != 0
            elif endless:
                assert end == "cut" and len(out) >= 1 << 16
            elif silent:
                assert (out, end) == (b"", "open")
            elif what == "a byte a second":
                assert 0 < len(out) <= 1 + time.monotonic() - begin and end == "open"
            else:
                assert out, what
    finally:
        agent.close()
