# SPDX-License-Identifier: Apache-2.0
"""The oracle can see: a deliberate leak, write, escape and crash turn each verdict red."""
import base64
import ctypes
import os
import resource
import signal
import subprocess

import pytest

from conftest import GUEST
from oracle import CRASH, ESCAPE, READ, WRITE, Canaries, Oracle, Telltales


@pytest.fixture
def world(tmp_path):
    """A watched tree, a planted canary and a daemon to lose."""
    canaries = Canaries()
    host = tmp_path / "host"
    host.mkdir()
    (host / "file").write_text("as it was\n")
    canaries.plant("root file", str(host / "canary"))
    daemon = subprocess.Popen(["tail", "-f", "/dev/null"])
    yield canaries, host, daemon
    daemon.kill()
    daemon.wait()


def oracle_of(world):
    canaries, host, daemon = world
    return Oracle(canaries, [str(host)], daemons=lambda: {"daemon": daemon.pid}, settle_s=0.2)


def kinds(oracle):
    return {kind for kind, _ in oracle.verdicts()}


def test_nothing_happened(world):
    with oracle_of(world) as o:
        o.saw(b"nothing", "at all")
    assert o.verdicts() == []


@pytest.mark.parametrize("form", ["text", "upper", "raw", "base64", "base64+1", "base64+2"])
def test_leak_is_read(world, form):
    text = world[0].by_name["root file"]
    leaked = {"text": text, "upper": text.upper(), "raw": bytes.fromhex(text),
              "base64": base64.b64encode(b"it is: " + text.encode()),
              "base64+1": base64.b64encode(b"it is:: " + text.encode() + b"."),
              "base64+2": base64.b64encode(b"it is::: " + text.encode() + b"..")}[form]
    with oracle_of(world) as o:
        o.saw(b"before", leaked)
    assert kinds(o) == {READ}


@pytest.mark.parametrize("how", ["content", "mode", "owner", "new", "gone", "link"])
def test_change_is_write(world, how):
    host = world[1]
    with oracle_of(world) as o:
        if how == "content":
            (host / "file").write_text("as it is!\n")
        elif how == "mode":
            (host / "file").chmod(0o600)
        elif how == "owner":
            os.chown(host / "file", 12345, 12345)
        elif how == "new":
            (host / "new").mkdir()
        elif how == "gone":
            (host / "file").unlink()
        else:
            (host / "link").symlink_to("/")
    assert kinds(o) == {WRITE}


def test_orphan_is_escape(world):
    """A process that is nobody's child any more and in no sandbox's cgroup."""
    with oracle_of(world) as o:
        read, write = os.pipe()
        if os.fork() == 0:
            pid = os.fork()
            if pid == 0:
                os.setsid()
                signal.pause()
            os.write(write, str(pid).encode())
            os._exit(0)
        os.wait()
        orphan = int(os.read(read, 16))
        try:
            assert kinds(o) == {ESCAPE}
        finally:
            os.kill(orphan, signal.SIGKILL)
            os.close(read)
            os.close(write)


def test_processes_are_counted(world):
    """Also those that have ended before anybody looks."""
    with oracle_of(world) as o:
        for _ in range(5):
            subprocess.run(["true"], check=True)
        assert o.forked() >= 5


if GUEST:
    def test_program_of_the_kernel_is_escape(world):
        """A crash with a limit of 0, for which the kernel starts the program of core_pattern."""
        canaries, host, daemon = world
        with Oracle(canaries, [str(host)], daemons=lambda: {"daemon": daemon.pid}, settle_s=0.2, telltales=Telltales()) as o:
            subprocess.run(["sh", "-c", "kill -ABRT $$"], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        try:
            assert kinds(o) == {ESCAPE}
        finally:
            o.close()
        assert "cay-telltale" not in open("/proc/sys/kernel/core_pattern").read()


def test_child_is_ours(world):
    with oracle_of(world) as o:
        child = subprocess.Popen(["tail", "-f", "/dev/null"])
        try:
            assert o.verdicts() == []
        finally:
            child.kill()
            child.wait()


def test_mount_is_escape(world):
    libc = ctypes.CDLL(None, use_errno=True)
    at = str(world[1]).encode()
    with oracle_of(world) as o:
        assert libc.mount(b"tmpfs", at, b"tmpfs", 0, None) == 0
        try:
            assert ESCAPE in kinds(o)
        finally:
            libc.umount2(at, 2)


def test_lost_daemon_is_crash(world):
    with oracle_of(world) as o:
        world[2].kill()
        world[2].wait()
    assert kinds(o) == {CRASH}


def test_restarted_daemon_is_crash(world):
    canaries, host, daemon = world
    pids = [daemon.pid]
    other = subprocess.Popen(["tail", "-f", "/dev/null"])
    try:
        with Oracle(canaries, [str(host)], daemons=lambda: {"daemon": pids[0]}) as o:
            pids[0] = other.pid
        assert kinds(o) == {CRASH}
    finally:
        other.kill()
        other.wait()
