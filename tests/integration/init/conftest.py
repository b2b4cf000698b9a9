# SPDX-License-Identifier: Apache-2.0
"""A cay-init per test, PID 1 of its own pid namespace, with a cgroup of its own."""
import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import pytest

from client import Client

sys.path.append(str(pathlib.Path(__file__).parents[2] / "lib"))

BINARY = os.environ.get("CAY_INIT", "build/gcc/src/init/cay-init")
FULL = bool(os.environ.get("CAY_FULL"))
SANITIZED = b"__asan_init" in pathlib.Path(BINARY).read_bytes()
RSS_MAX = 24 << 20


def wait_for(condition, seconds=30, what="condition"):
    """Poll until true; the deadline is the test's failure."""
    deadline = time.monotonic() + seconds
    tick = __import__("threading").Event()
    while not condition():
        assert time.monotonic() < deadline, f"{what() if callable(what) else what} not within {seconds} s"
        tick.wait(0.01)


def cgroup_root():
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        if right.startswith("cgroup2 "):
            return pathlib.Path(left.split()[4])
    return None


def refuse_clone3():
    """The part of a sandbox's filter that shows: clone3 is not there (x86-64)."""
    clone3, enosys = 435, 38
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, clone3), (0x06, 0, 0, 0x50000 | enosys), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *c) for c in code))
    head = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, head, 0, 0):
        os._exit(99)


class Init:
    """A running cay-init: a client, and what the host can see of it."""

    def __init__(self, cgroups=True, prefix=(), clone3=False):
        self.dir = tempfile.mkdtemp(dir="/tmp")
        self.cgroup = None
        path = self.dir + "/s"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(512)
        if cgroups:
            base = cgroup_root()
            if base is None:
                pytest.skip("no cgroup v2")
            self.cgroup = base / f"cay-test-init-{os.getpid()}-{os.path.basename(self.dir)}"
        high = fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD, 100)

        def prepare():
            """In the child: PID 1 lives in the cgroup it is given; an empty one would be swept away."""
            os.dup2(high, 3, inheritable=True)
            if self.cgroup:
                self.cgroup.mkdir()
                (self.cgroup / "cgroup.procs").write_text("0")
                fd = os.open(self.cgroup, os.O_RDONLY | os.O_DIRECTORY)
                os.dup2(fd, 4, inheritable=True)
                if fd != 4:
                    os.close(fd)
            if not clone3:
                refuse_clone3()

        self.process = subprocess.Popen(
            ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", *prefix, os.path.abspath(BINARY)]
            + ([] if cgroups else ["--no-cgroup"]),
            preexec_fn=prepare, pass_fds=(3, 4) if cgroups else (3,), stdin=subprocess.DEVNULL)
        os.close(high)
        listener.close()
        self.client = Client(path)
        self.pid = None
        wait_for(self.find_pid, what="cay-init")
        assert self.client.ask("GET", "/v1/hello").status == 200  # set up and serving

    def find_pid(self):
        assert self.process.poll() is None, "cay-init did not start"
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if children and "cay-init" in os.readlink(f"/proc/{children[0]}/exe"):
            self.pid = int(children[0])
        return self.pid

    def rss(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    def children(self):
        """(pid, state) of every child of PID 1, as the host counts them."""
        rows = []
        for p in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                text = p.read_text()
            except OSError:
                continue
            state, parent = text.rsplit(")", 1)[1].split()[:2]
            if int(parent) == self.pid:
                rows.append((int(p.parent.name), state))
        return rows

    def groups(self):
        return [d.name for d in self.cgroup.iterdir() if d.is_dir()]

    def processes(self):
        """How many live in the cgroups of execs."""
        n = 0
        for d in self.cgroup.iterdir():
            try:
                n += len((d / "cgroup.procs").read_text().split()) if d.is_dir() else 0
            except OSError:
                pass  # removed in between
        return n

    def small(self):
        return SANITIZED or self.rss() < RSS_MAX

    def remove_cgroup(self):
        with contextlib.suppress(OSError):  # busy, or removed in between: looked at again
            for d in [d for d in self.cgroup.iterdir() if d.is_dir()]:
                d.rmdir()
            self.cgroup.rmdir()
        return not self.cgroup.exists()

    def stop(self):
        alive = self.process.poll() is None
        if self.pid and alive:
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait(timeout=30)
        if self.cgroup:
            wait_for(self.remove_cgroup, what="an empty cgroup")
        shutil.rmtree(self.dir)
        assert alive, "cay-init ended by itself"


@pytest.fixture
def init():
    i = Init()
    yield i
    i.stop()


@pytest.fixture
def born():
    """Where clone3 is allowed, a child is born in its cgroup."""
    i = Init(clone3=True)
    yield i
    i.stop()


CAPS = "chown dac_override fowner setuid setgid kill net_bind_service"


@pytest.fixture
def confined():
    """With the capabilities a sandbox has."""
    i = Init(prefix=["setpriv", "--bounding-set", ",".join(["-all"] + ["+" + c for c in CAPS.split()])])
    yield i
    i.stop()


@pytest.fixture
def plain():
    i = Init(cgroups=False)
    yield i
    i.stop()
