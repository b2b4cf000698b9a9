#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py IMAGE_ADD MAX_RSS_KIB - image_add() against every image of make.py

A canary tree lies beside the images; it and images/tmp are looked at after each.
Prints TAP.
"""
import hashlib
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import time

import make
import oci

FOREIGN = range(0x7FFE0000, 0x7FFE0000 + 65536)
helper, max_rss = sys.argv[1], int(sys.argv[2])
deadline_s = 5 if max_rss <= 65536 else 20 # sanitizers are slow
seen_s = 60 # until what others do at the same time was seen


def tree(top):
    """Every name under top with its lstat and content, in one digest."""
    h = hashlib.sha256()
    for at, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(dirs + files) + ["."]:
            p = os.path.join(at, name)
            st = os.lstat(p)
            h.update(repr((p, st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_mtime_ns, st.st_nlink)).encode())
            if stat.S_ISREG(st.st_mode):
                h.update(pathlib.Path(p).read_bytes())
    return h.hexdigest()


def owners(fd, problems):
    """By fd: a tree may be deeper than any path."""
    todo = [os.dup(fd)]
    while todo and not problems:
        at = todo.pop()
        for e in os.scandir(at):
            st = os.stat(e.name, dir_fd=at, follow_symlinks=False)
            if st.st_uid not in FOREIGN or st.st_gid not in FOREIGN:
                problems.append(f"{e.name!r} belongs to {st.st_uid}:{st.st_gid}")
            if not stat.S_IFMT(st.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                problems.append(f"{e.name!r} is of a kind that no image may have")
            if stat.S_ISDIR(st.st_mode):
                todo.append(os.open(e.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at))
                if len(todo) > 900:
                    problems.append("too many directories for this test")
        os.close(at)
    for at in todo:
        os.close(at)


def shows(rootfs, path, want):
    """Whether path of the tree is what the case says; never through a link."""
    p = os.path.join(rootfs, path)
    try:
        st = os.lstat(p)
    except (FileNotFoundError, NotADirectoryError):
        return want is None
    if want is None:
        return False
    if isinstance(want, int):
        return stat.S_IMODE(st.st_mode) == want
    if isinstance(want, bytes):
        return stat.S_ISREG(st.st_mode) and pathlib.Path(p).read_bytes() == want
    if want == "dir":
        return stat.S_ISDIR(st.st_mode)
    if want == "file":
        return stat.S_ISREG(st.st_mode)
    return stat.S_ISLNK(st.st_mode) and "-> " + os.readlink(p) == want


def add(images, path, max_bytes):
    r = subprocess.run([helper, images, path, str(max_bytes)], capture_output=True, text=True, errors="replace", timeout=120)
    out = r.stdout.split("\n", 1)
    if r.returncode or len(out) != 2:
        return "crashed", f"status {r.returncode}: {r.stdout}{r.stderr}", 0
    verdict, _, rest = out[1].rstrip("\n").partition(" ")
    return verdict, rest, int(out[0].removeprefix("rss "))


def check_added(images, rest, want, problems):
    digest, _, config = rest.split(" ", 2)
    rootfs = os.path.join(images, "sha256", digest, "rootfs")
    if os.listdir(os.path.dirname(rootfs)) != ["rootfs"]:
        problems.append("something lies beside rootfs")
    for path, what in want.items():
        if path == "config":
            if json.loads(config) != what:
                problems.append(f"config is {config}")
        elif not shows(rootfs, path, what):
            problems.append(f"{path!r} is not {what!r}")
    fd = os.open(rootfs, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    owners(fd, problems)
    os.close(fd)
    subprocess.run([helper, images, digest], check=True)


def run(name, images, tar, canary, before):
    data, verdict, want, max_bytes = make.CASES[name]
    problems = []
    pathlib.Path(tar).write_bytes(data)
    took = []
    while not took or (min(took) > deadline_s and len(took) < 3): # a machine may stand still, but not each time
        if took and got == "added":
            subprocess.run([helper, images, rest.split(" ")[0]], check=True)
        begin = time.monotonic()
        got, rest, rss = add(images, tar, max_bytes)
        took.append(time.monotonic() - begin)
    if got == "added":
        if verdict == "refused":
            problems.append("was added")
        check_added(images, rest, want if verdict == "harmless" else {}, problems)
    elif got != "refused" or verdict != "refused" or want not in rest:
        problems.append(f"{got}: {rest}")
    elif rest.split(" ")[0] not in ("invalid_argument", "too_large"):
        problems.append(f"refused as {rest}")
    if min(took) > deadline_s:
        problems.append(f"took {min(took):.1f} s")
    if rss > max_rss:
        problems.append(f"took {rss} KiB")
    if tree(canary) != before:
        problems.append("something outside has changed")
    for d in ("tmp", "sha256"):
        if os.path.isdir(os.path.join(images, d)) and os.listdir(os.path.join(images, d)):
            problems.append(f"left something in images/{d}")
    return problems, rss


def changing(images, tar):
    """The sender changes the file while it is read: what is added is what was
    promised, or nothing is."""
    good = oci.tar(oci.directory("etc"), oci.file("etc/x", b"good" * 50000))
    upper = oci.tar(oci.file("etc/y", b"good" * 50000), oci.file("etc/.wh.nothing"))
    whole = oci.image(good, upper)
    pathlib.Path(tar).write_bytes(whole)
    problems, verdicts = [], set()
    writer = os.fork()
    if writer == 0:
        fd = os.open(tar, os.O_WRONLY)
        evil = whole.replace(b"goodgood", b"evilevil").replace(b".wh.nothing", b".wh.x\0\0\0\0\0\0")
        while True:
            os.pwrite(fd, evil, 0)
            os.pwrite(fd, whole, 0)
    try:
        begin, n = time.monotonic(), 0
        while n < 40 or ("refused" not in verdicts and time.monotonic() - begin < seen_s):
            n += 1
            got, rest, _ = add(images, tar, 64 << 20)
            verdicts.add(got)
            if got == "added":
                check_added(images, rest, {"etc/x": b"good" * 50000, "etc/y": b"good" * 50000}, problems)
            elif got != "refused":
                problems.append(f"{got}: {rest}")
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    if "refused" not in verdicts:
        problems.append("the writer was too slow to be seen")
    return problems


def again(images, tar):
    """Adding what is there is success and changes nothing; so is removing what
    is not there."""
    pathlib.Path(tar).write_bytes(oci.image(make.PLAIN))
    problems = []
    first, rest, _ = add(images, tar, 64 << 20)
    inode = os.stat(os.path.join(images, "sha256", rest.split(" ")[0])).st_ino
    second, same, _ = add(images, tar, 64 << 20)
    if (first, second) != ("added", "added") or rest != same:
        problems.append(f"{first} {rest}, then {second} {same}")
    if os.stat(os.path.join(images, "sha256", rest.split(" ")[0])).st_ino != inode:
        problems.append("was made again")
    if os.listdir(os.path.join(images, "tmp")):
        problems.append("left something in images/tmp")
    for _ in range(2):
        subprocess.run([helper, images, rest.split(" ")[0]], check=True)
    if os.listdir(os.path.join(images, "sha256")) or os.listdir(os.path.join(images, "tmp")):
        problems.append("was not removed")
    return problems


def names(images, tar):
    """An image has one name, whatever it is wrapped in; another image has another."""
    problems, seen = [], []
    other = oci.tar(oci.file("bin/sh", "y", mode=0o755))
    for same in ([make.PROGRAM, oci.gz(make.PROGRAM), oci.zstd(make.PROGRAM)], [other],
                 [oci.docker(make.PROGRAM), oci.docker(make.PROGRAM, blobs=True), oci.gz(oci.docker(make.PROGRAM))],
                 [oci.docker(make.PROGRAM, config={"User": "1"})], [oci.docker(other)]):
        digests = set()
        for data in same:
            pathlib.Path(tar).write_bytes(data)
            got, rest, _ = add(images, tar, 64 << 20)
            if got != "added":
                problems.append(f"{got} {rest}")
                continue
            digests.add(rest.split(" ")[0])
            subprocess.run([helper, images, rest.split(" ")[0]], check=True)
        if len(digests) != 1 or digests & set(seen):
            problems.append(f"{digests} beside {seen}")
        seen += digests
    return problems


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as top:
        images, canary, tar = (os.path.join(top, n) for n in ("images", "canary", "image.tar"))
        os.mkdir(images, 0o700)
        os.makedirs(canary + "/sub")
        pathlib.Path(canary, "secret").write_text("secret\n")
        pathlib.Path(canary, "canary").write_text("bird\n")
        pathlib.Path(canary, "sub/x").write_text("x\n")
        before, peak = tree(canary), 0
        for n, name in enumerate(make.CASES, 1):
            problems, rss = run(name, images, tar, canary, before)
            peak = max(peak, rss)
            failed += bool(problems)
            print("not ok" if problems else "ok", n, "-", name.replace("#", ""), flush=True)
            for p in problems:
                print("#", ascii(p)[:300])
        for n, test in enumerate((again, names, changing), len(make.CASES) + 1):
            problems = test(images, tar)
            failed += bool(problems)
            print("not ok" if problems else "ok", n, "-", test.__name__)
            for p in problems:
                print("#", ascii(p)[:300])
        print(f"1..{len(make.CASES) + 3}")
        print(f"# largest child {peak} KiB")
    sys.exit(bool(failed))


main()
