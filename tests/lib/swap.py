# SPDX-License-Identifier: Apache-2.0
"""swap - a swap file of a test's own, and how the kernel counts a sandbox's memory"""
import contextlib
import os
import pathlib
import secrets
import subprocess


class Unavailable(Exception):
    """This machine has no room for it, or its disk cannot."""


@contextlib.contextmanager
def file(mib):
    """Swap on the disk while the block runs; it is off and gone afterwards, also when the block fails."""
    path = pathlib.Path("/var/tmp", f"cay-test-swap-{os.getpid()}-{secrets.token_hex(4)}")
    path.touch(0o600)
    try:
        for argv in (["fallocate", "-l", f"{mib}M", path], ["mkswap", path], ["swapon", path]):
            done = subprocess.run(argv, capture_output=True, text=True)
            if done.returncode:
                raise Unavailable(f"{argv[0]}: {done.stderr.strip()}")
        try:
            yield path
        finally:
            subprocess.run(["swapoff", path], check=True)
    finally:
        path.unlink()


def memory(c, box):
    """Bytes that the kernel charges to a sandbox, by the one of its cgroups that counts them."""
    for top in c.cgroup_dirs():
        for at in top.glob(f"*/{box}"):
            for name in ("memory.usage_in_bytes", "memory.current"):
                if (at / name).exists():
                    return int((at / name).read_text())
    raise RuntimeError(f"no cgroup counts the memory of {box}")


def memory_and_swap(c, box):
    """Both together; None where the kernel does not count swap."""
    for top in c.cgroup_dirs():
        for at in top.glob(f"*/{box}"):
            if (at / "memory.memsw.usage_in_bytes").exists():
                return int((at / "memory.memsw.usage_in_bytes").read_text())
            if (at / "memory.swap.current").exists():
                return int((at / "memory.current").read_text()) + int((at / "memory.swap.current").read_text())
    return None


def is_frozen(c, box):
    """As the kernel reports it, whatever cayd says."""
    for top in c.cgroup_dirs():
        for at in top.glob(f"*/{box}"):
            if (at / "cgroup.events").exists():
                return "frozen 1" in (at / "cgroup.events").read_text()
    return False
