# SPDX-License-Identifier: Apache-2.0
"""The seventeenth layer: a snapshot has the files of all layers over the image then, and they are the same files."""
import contextlib
import os
import random

import cay
import loopfs
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_control import refused
from test_life import COUNT, clean, linked
from test_quota import MIB, new_tenant, quotas, status
from test_snapshot import drop, going_on, gone, layer, listed, snapshot
from test_stop import act, upper
from test_sweep import MERGE_POINTS

LAYERS = 16
SPARSE = 32 << 20
# every name that a walk finds: type, mode, owner, links, what it is a name of, time; then bytes
LOOK = r"""cd / && busybox find gone kept workspace -exec busybox stat -c '%n|%F|%a|%u|%g|%h|%i|%Y|%N' {} \; && echo -- &&
busybox find gone kept workspace -type f -exec busybox sha256sum {} \;"""


def base(c):
    """An image with directories to delete, to hide and to change; its names are those that layers over it use."""
    names = [cay.file(f"{top}/{d}/{n}", f"{top}{d}{n}".encode()) for top in ("gone", "kept") for d in "abc" for n in "xyz"]
    dirs = [cay.directory(f"{top}/{d}".rstrip("/"), 0o755) for top in ("gone", "kept") for d in ("", *"abc")]
    c.image_import("base", tiny([*dirs, *names]))


def files(c, box):
    """What a program inside sees: every name, its bytes, and which names are links of one file.  An inode number alone does not
    tell that: subvolumes have equal ones, also of files with equal bytes, and overlayfs takes them for one file system."""
    done = c.exec(box, ["sh", "-c", LOOK], user="root", timeout_s=120)
    assert done.exit_code == 0, done
    rows, sums = done.text.split("\n--\n")
    found, same, sums = {}, {}, {name: digest for digest, name in (line.split("  ", 1) for line in sums.splitlines())}
    for row in rows.splitlines():
        name, kind, mode, uid, gid, links, inode, when, link = row.split("|", 8)
        found[name] = (kind, mode, uid, gid, when, link.split(" -> ")[1:])
        if name in sums and int(links) > 1:
            same.setdefault((inode, sums[name]), set()).add(name)
    return found, {frozenset(names) for names in same.values() if len(names) > 1}, sums


def changes(rng):
    """A few of all kinds of change, of any names; what cannot be done at a name is left out."""
    def name(least=0):
        return "/".join(["/" + rng.choice(("gone", "kept", "workspace")), *(rng.choice("abc") for _ in range(rng.randint(least, 2))), rng.choice("xyzuv")])

    def top():
        return name(1).rpartition("/")[0]

    kinds = [lambda: f"mkdir -p {top()}", lambda: f"echo {rng.random()} >{name()}", lambda: f"rm -rf {name()}", lambda: f"rm -rf {top()}/a",
             lambda: f"d={top()}/b; rm -rf $d; mkdir -p $d; echo {rng.random()} >$d/new",  # which hides all below
             lambda: f"ln {name()} {name()}", lambda: f"ln -s {name()} {name()}", lambda: f"mv {name()} {name()}", lambda: f"mv {top()} {top()}/moved",
             lambda: f"chmod {rng.choice(('600', '751', '4755', '1777'))} {name()}", lambda: f"chown {rng.randint(1, 65000)} {name()}",
             lambda: f"echo {rng.random()} >>{name()}", lambda: f"d={top()}/c; rm -rf $d; echo {rng.random()} >$d", lambda: f"f={name()}; rm -f $f; mkdir $f", lambda: f"mkfifo {name()}.fifo"]
    return "\n".join(f"({rng.choice(kinds)()}) 2>/dev/null" for _ in range(12)) + "\ntrue"


def chain(c, rng, n=LAYERS - 1):
    """A sandbox over n layers, each of which changes files of those below, and their snapshots."""
    box, made = c.create("base"), []
    for _ in range(n):
        c.exec(box, ["sh", "-c", changes(rng)], user="root")
        made.append(snapshot(c, box)["id"])
        c.delete(box)
        box = c.create(None, snapshot=made[-1])
    return box, made


@contextlib.contextmanager
def node(kind):
    if kind == "plain":
        with cay.Cay(BUILD) as c:
            c.image_import("tiny", tiny())
            yield c
    else:
        with loopfs.mounted(kind, 1 << 30) as at, cay.Cay(BUILD, state_top=at) as c:
            c.image_import("tiny", tiny())
            yield c


@pytest.mark.parametrize("kind", ["plain", *loopfs.here()])
def test_the_same_files_in_one_layer(kind):
    with node(kind) as own:
        seed = os.environ.get("CAY_SEED") or os.urandom(4).hex()
        print(f"CAY_SEED={seed}")
        rng = random.Random(seed)
        base(own)
        box, made = chain(own, rng)
        assert own.exec(box, ["sh", "-c", changes(rng) + "\ncd /workspace; echo x >attribute; ln attribute hard; busybox truncate -s "
                              f"{SPARSE} sparse; echo end >>sparse"], user="root").exit_code == 0
        os.setxattr(own.state / "boxes" / box / "disk/upper/workspace/attribute", "user.a", b"b")
        seen, counting = files(own, box), own.exec_detached(box, COUNT)
        sn = snapshot(own, box)
        assert files(own, box) == seen and going_on(own, box, counting)
        flat = layer(own, sn["id"])
        image = os.readlink(layer(own, made[0]) / "parent")
        assert os.readlink(flat / "parent") == image  # nothing but the image is below it
        if kind != "plain":  # what counts against the quota is what all layers have, and holes are not
            assert sum(p.stat().st_blocks * 512 for p in flat.rglob("new")) < sn["size_bytes"] < SPARSE
        one, two = (flat / "disk/upper/workspace" / n for n in ("attribute", "hard"))
        assert os.getxattr(one, "user.a") == b"b" and one.stat().st_ino == two.stat().st_ino
        sparse = (flat / "disk/upper/workspace/sparse").stat()
        assert sparse.st_size == SPARSE + 4 and sparse.st_blocks < 1000
        of = own.create(None, snapshot=sn["id"])
        assert files(own, of) == seen
        # and on: layers above it, a stop, a whole image, without those that it was made of
        own.delete(box)
        for old in made:
            drop(own, old)
        wait_for("the layers to be pruned", lambda: len(os.listdir(own.state / "images/sha256")) == 3, 30)  # tiny, base and this one
        own.exec(of, ["sh", "-c", changes(rng)], user="root")
        seen = files(own, of)
        above = snapshot(own, of)["id"]
        assert os.readlink(layer(own, above) / "parent") == flat.name
        act(own, of, "stop")
        act(own, of, "start")
        assert files(own, of) == seen
        over = own.create(None, snapshot=above)
        assert files(own, over) == seen
        with contextlib.closing(own.open("GET", f"/v1/snapshots/{above}/image")) as tar:
            assert tar.status == 200
            own.image_import("flat", tar.read())
        whole = own.create("flat")
        (found, links, sums), (names, _, bytes_) = seen, files(own, whole)
        assert sums == bytes_ and links and {k: v[:4] for k, v in found.items() if v[0] != "fifo"} == {k: v[:4] for k, v in names.items() if v[0] != "fifo"}
        for name in (of, over, whole):
            own.delete(name)
        drop(own, above)
        drop(own, sn["id"])


@pytest.mark.parametrize("kind", loopfs.here()[:1])
def test_the_bytes_of_all_layers_count(kind):
    """A copy of fifteen layers takes fifteen times the room of one: it is asked for before, and counted afterwards."""
    with node(kind) as own:
        tenant, who = new_tenant(own)
        disk = {"limits": {"disk_bytes": 8 * MIB}}
        box, made = who.create("tiny", **disk), []
        for n in range(LAYERS - 1):
            who.exec(box, ["sh", "-c", f"dd if=/dev/urandom of=/workspace/f{n} bs=1M count=1; busybox sync"])
            loopfs.free(own.state)  # what btrfs has not written yet it does not count
            made.append(snapshot(who, box)["id"])
            who.delete(box)
            box = who.create(None, snapshot=made[-1], **disk)
        before = status(own, tenant)["usage"]["disk_bytes"]
        quotas(own, tenant, quotas={"disk_bytes": before + (8 + 4) * MIB})
        refused("limit_exceeded", snapshot, who, box)
        quotas(own, tenant, quotas={"disk_bytes": before + (8 + 20) * MIB})
        sn = snapshot(who, box)
        assert 15 * MIB <= sn["size_bytes"] < 17 * MIB, sn
        assert status(own, tenant)["usage"]["disk_bytes"] == before + sn["size_bytes"]
        refused("limit_exceeded", snapshot, who, box)
        who.delete(box)


POINTS = [*(("cay-keeper", p, how) for p in MERGE_POINTS for how in ("kill", "error")), ("cay-keeper", "snapshot:copied", "kill"),
          ("cay-keeper", "snapshot:named", "kill"), ("cayd", "snapshot:made", "kill")]


def test_cut_off_anywhere():
    """There is a whole snapshot or none, at each of its steps; the source is neither frozen nor changed."""
    with node("plain") as own:
        base(own)
        box, made = chain(own, random.Random(1))
        counting, before, seen = own.exec_detached(box, COUNT), upper(own, box), files(own, box)
        layers = set(os.listdir(own.state / "images/sha256"))
        for program, point, how in POINTS:
            own.kill_daemon(program)
            own.env["CAY_FAULT"] = f"{point}={how}"
            own.start_keeper() if program == "cay-keeper" else own.start_cayd()
            del own.env["CAY_FAULT"]
            wait_for("the link", lambda: linked(own), 30)
            with contextlib.suppress(OSError, ApiError, cay.http.client.HTTPException):
                drop(own, snapshot(own, box)["id"])
            if own.daemons[program].poll() is None:
                own.kill_daemon(program)
            own.start_keeper() if program == "cay-keeper" else own.start_cayd()
            wait_for("the link", lambda: linked(own), 30)
            wait_for("it to go on", lambda: going_on(own, box, counting), 30)
            assert own.get(box)["state"] == "running" and upper(own, box) == before, (point, how)
            for s in listed(own):
                if s["id"] not in made:
                    drop(own, s["id"])
            wait_for("what it left to be removed", lambda: set(os.listdir(own.state / "images/sha256")) == layers and not list(own.state.glob("images/tmp/*")), 30)
        sn = snapshot(own, box)["id"]
        of = own.create(None, snapshot=sn)
        assert files(own, of) == seen
        for name in (box, of):
            own.delete(name)
        for name in (*made, sn):
            drop(own, name)
        gone(own, 2)
        clean(own)


def test_directories_too_deep_for_it_are_refused(own):
    """The source goes on, and what was made before stays."""
    deep = "cd /workspace; i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir -p d; cd d; done; echo {} >bottom"
    box, made = own.create("tiny"), []
    for n in range(LAYERS - 1):
        own.exec(box, ["sh", "-c", deep.format(n) if n in (1, 2) else f"echo {n} >n{n}"])
        made.append(snapshot(own, box)["id"])
        own.delete(box)
        box = own.create(None, snapshot=made[-1])
    with pytest.raises(ApiError) as e:
        snapshot(own, box)
    assert e.value.code == "unsupported" and own.exec(box, ["echo", "on"]).text == "on\n"
    assert not list(own.state.glob("images/tmp/*")) and len(listed(own)) == len(made)
    own.delete(box)
    for name in made:
        drop(own, name)
    gone(own)
