# SPDX-License-Identifier: Apache-2.0
"""unpacked - large images that are unpacked once and lent to every node that tests need them on

The image `code` is a gigabyte in 20,000 files: unpacked by each of the nodes that a run of CI starts, it costs
minutes.  The first that needs it lets daemons of the plain build import it, and keeps the tree with its row of the table of
images in /var/local (dev/enter), as dev/build-cache keeps images.  A node that it is lent to has the tree as a read-only mount where
its keeper would have put it, so no test can change what another finds, and its cayd finds the row at a restart.

The key is the image and the sources that unpack it.  That import and unpack work is what other tests check, with smaller images.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import cay
import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
PLACE = pathlib.Path("/var/local")
SOURCES = ("src/lib/unpack", "src/lib/archive", "src/keeper/image-store.c", "src/cayd/image", __file__)
TABLE = "db/images.json"


def key(image):
    """Of what the tree and the row are made from."""
    digest = hashlib.sha256((image / "index.json").read_bytes())
    for source in SOURCES:
        at = TOP / source
        for f in sorted(at.rglob("*.[ch]")) if at.is_dir() else [at]:
            digest.update(f.read_bytes())
    return digest.hexdigest()[:16]


def rows(table):
    return json.loads(table.read_text())["images"]


def unpack(build, image, to):
    """The tree and the row of an image, as a node of the plain build leaves them, in the directory `to`."""
    plain = build.parent / "gcc" if build.name.startswith("asan") else build
    made = PLACE / f".new-{os.urandom(8).hex()}"
    made.mkdir()
    try:
        with cay.Cay(plain, state_top=PLACE) as c:  # a rename does not cross a mount
            with cay.layout_of(image) as tar:
                c.image_import(image.name, tar)
            [row] = rows(c.state / TABLE)
            [tree] = (c.state / "images/sha256").iterdir()
            (made / "row.json").write_text(json.dumps(row))
            tree.rename(made / tree.name)
        made.rename(to)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def unpacked(build, image):
    """The directory of an image; who comes while it is made waits for it."""
    kept = PLACE / f"unpacked-{image.name}-{key(image)}"
    with open(PLACE / f".lock-{kept.name}", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            unpack(build, image, kept)
        os.utime(kept)  # dev/build-cache removes what is old
    return kept


def give_row(node, row):
    """Between two lives of cayd, which writes the table whole."""
    table = node.state / TABLE
    held = rows(table) if table.exists() else []
    new = table.with_name("images.new")
    new.write_text(json.dumps({"images": [*held, row]}))
    os.chown(new, cay.CONTROL_UID, cay.CONTROL_UID)
    new.chmod(0o600)
    new.rename(table)


def mount(kept, tree, node):
    at = node.state / "images/sha256" / tree
    at.mkdir(0o755)
    subprocess.run(["mount", "--bind", kept / tree, at], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", at], check=True)
    return at


@contextlib.contextmanager
def lent(node, name):
    """The name of an image of build/images that `node`, a Cay, has meanwhile.  Its cayd restarts."""
    build = pathlib.Path(os.environ.get("CAY_BUILD", "build/gcc")).resolve()
    image = build.parent / "images" / name
    if not image.exists():
        pytest.skip(f"no build/images/{name}; `make image NAME={name}` makes it")
    kept = unpacked(build, image)
    [tree] = [f.name for f in kept.iterdir() if f.is_dir()]
    at = mount(kept, tree, node)
    try:
        node.restart_cayd(lambda: give_row(node, json.loads((kept / "row.json").read_text())))
        yield name
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)
