# SPDX-License-Identifier: Apache-2.0
"""loopfs - a file system with quotas of our own, on a loop file"""
import contextlib
import functools
import os
import pathlib
import secrets
import subprocess

# How it is made, how it is mounted, what turns quotas on when mounting does not.
KINDS = {
    "btrfs": (["mkfs.btrfs", "-q", "-f", "-m", "single"], "loop,noatime", ["btrfs", "quota", "enable", "--simple"]),
    "ext4": (["mkfs.ext4", "-q", "-F", "-O", "quota,project", "-E", "quotatype=prjquota", "-N", "200000"],
             "loop,noatime,prjquota", None),
    "xfs": (["mkfs.xfs", "-q", "-f"], "loop,noatime,prjquota", None),
}


class Unavailable(Exception):
    """This kernel, or this machine, cannot."""


def run(argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{argv[0]}: {done.stderr.strip().splitlines()[0]}")


@contextlib.contextmanager
def mounted(kind, size, quotas=True, more=""):
    """Its mount point; everything is gone afterwards."""
    mkfs, options, enable = KINDS[kind]
    top = pathlib.Path("/var/tmp", f"cay-test-fs-{os.getpid()}-{secrets.token_hex(4)}")
    image, at = top / "image", top / "fs"
    at.mkdir(parents=True)
    try:
        with open(image, "wb") as f:
            f.truncate(size)
        try:
            run([*(mkfs if quotas or kind != "ext4" else mkfs[:3]), str(image)])  # without project quota some kernels mount no ext4 that has it
        except FileNotFoundError as e:
            raise Unavailable(str(e)) from e
        options = (options if quotas else options.replace(",prjquota", "")) + more
        run(["mount", "-t", kind, "-o", options, str(image), str(at)])
        try:
            if enable and quotas:
                run([*enable, str(at)])
            yield at
        finally:
            subprocess.run(["umount", "-l", str(at)], check=True)
    finally:
        with contextlib.suppress(OSError):
            image.unlink()
            at.rmdir()
        with contextlib.suppress(OSError):
            top.rmdir()


@functools.lru_cache
def here(quotas=True):
    """Those that this kernel has, with their quotas, tried: the guest's has project quota, many others have not."""
    def works(kind):
        try:
            with mounted(kind, 512 << 20, quotas):
                return True
        except Unavailable:
            if os.environ.get("CAY_GUEST") and kind != "btrfs":
                raise  # that kernel has them: a row that is left out says nothing
            return False
    return [kind for kind in KINDS if works(kind)]


def settle(kind, at):
    """What was deleted before is gone: btrfs does it behind our back."""
    if kind == "btrfs":
        run(["btrfs", "subvolume", "sync", "-s", "1", str(at)])


def free(at):
    """Bytes that are free, once what was deleted is.  Of this one alone: a whole machine's writes may take long."""
    run(["sync", "-f", str(at)])
    vfs = os.statvfs(at)
    return vfs.f_bfree * vfs.f_frsize
