# SPDX-License-Identifier: Apache-2.0
"""Copies and snapshots of volumes: the files of one moment, in a volume of their own, whatever dies meanwhile."""
import concurrent.futures
import contextlib
import os
import sqlite3

import cay
import loopfs
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_control import refused
from test_life import linked, restart
from test_quota import new_tenant
from test_status import cli
from test_stop import act
from test_volumes import ABSENT, MIB, OF_COPIES, at, drop, get, gone, listed, sh, volume

FILES = """cd /workspace/data && echo one >a && ln a hard && ln -s a soft && mkdir d && chmod 751 d && chown 1000:1001 d && echo two >d/b &&
chmod 2640 d/b && touch -d @1000000000 a && truncate -s 3M holes && mkfifo pipe"""
LOOK = "cd {}; cat a soft d/b; stat -c '%n %a %u:%g %h %s %Y' a hard d holes pipe; stat -c '%a' d/b"


def look(c, box, path):
    return [" ".join(w for i, w in enumerate(line.split()) if not (line.startswith("d ") and i == 4)) for line in sh(c, box, LOOK.format(path)).text.splitlines()]


def copied(own, vo, name="copy", **body):
    return own.call("POST", "/v1/volumes", {"name": name, "from": vo, **body}, timeout_s=120)["id"]


def has(own, vo, path, script, read_only=True):
    box = own.create("tiny", volumes=[at(vo, path, read_only)])
    try:
        return sh(own, box, script).text
    finally:
        own.delete(box)


def test_a_copy_is_a_volume_of_its_own(own):
    vo = volume(own, "data", labels={"a": "b"})
    box = own.create("tiny", volumes=[at(vo)])
    assert sh(own, box, FILES).exit_code == 0
    first = copied(own, vo, "while-it-runs")
    own.delete(box)
    second = copied(own, first, "of-a-copy", group="g")
    assert get(own, second)["from"] == first and get(own, second)["labels"] == {} and not get(own, second).get("read_only")
    assert get(own, first).get("size_bytes") == get(own, vo).get("size_bytes")
    box = own.create("tiny", volumes=[at(vo, "/0"), at(first, "/1"), at(second, "/2")])
    assert look(own, box, "/0") == look(own, box, "/1") == look(own, box, "/2") and len(look(own, box, "/0")) > 5
    # what is written to one is in that one only, and nothing of the old is needed
    assert sh(own, box, "echo 1 >/1/a; echo 2 >/2/a; rm -r /1/d; cat /0/a /1/hard /2/soft; ls /2/d").text.split() == ["one", "1", "2", "b"]
    own.delete(box)
    for v in (vo, first):
        drop(own, v)
    assert has(own, second, "/x", "cat /x/a /x/d/b") == "2\ntwo\n"
    drop(own, second)
    gone(own)


def test_a_snapshot_is_never_written_to(own):
    """Any number read it beside the writer of its source; neither cayd nor the keeper lets one write."""
    vo = volume(own, "data")
    writer = own.create("tiny", volumes=[at(vo)])
    sh(own, writer, "echo then >/workspace/data/a")
    kept = copied(own, vo, "kept", read_only=True)
    sh(own, writer, "echo now >/workspace/data/a")
    assert get(own, kept)["read_only"] and get(own, kept)["from"] == vo
    readers = [own.create("tiny", volumes=[at(kept, "/s", True)]) for _ in range(2)]
    for box in readers:
        assert sh(own, box, "cat /s/a; echo x >/s/a; echo x >/s/b; ls /s").text == "then\na\n"
    assert "only be mounted with read_only" in refused("invalid_argument", own.create, "tiny", volumes=[at(kept, "/s")])["message"]
    for box in (*readers, writer):
        own.delete(box)
    refused("invalid_argument", volume, own, "none", read_only=True)
    again = copied(own, kept, "again")  # to go on from there
    assert has(own, again, "/d", "echo more >>/d/a; cat /d/a", read_only=False) == "then\nmore\n"
    # a row that lies
    own.kill_daemon("cayd")
    with contextlib.closing(sqlite3.connect(own.state / "db/journal.db")) as db, db:
        (table,) = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if t in ("entry", "volume") and db.execute(f"SELECT count(*) FROM {t} WHERE text LIKE '%\"kept\"%'").fetchone()[0]]
        assert db.execute(f"UPDATE {table} SET text = replace(text, '\"read_only\":true', '\"read_only\":false') WHERE text LIKE '%\"kept\"%'").rowcount == 1
    own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    with pytest.raises(ApiError) as e:
        own.create("tiny", volumes=[at(kept, "/s")])
    assert "is read-only" in e.value.body.decode(), e.value.body
    wait_for("it to be gone", lambda: "writer" not in get(own, kept), 30)
    for v in (vo, kept, again):
        drop(own, v)
    gone(own)


WRITES = """cd /workspace/data; n=0; while :; do n=$((n + 1)); for i in 0 1 2 3 4 5 6 7 8 9; do echo $n >f$i; done; done"""


def test_all_files_are_of_one_moment(own):
    """No process writes while they are copied, and all go on afterwards; one that is paused stays so."""
    vo = volume(own, "data")
    box = own.create("tiny", volumes=[at(vo)])
    assert sh(own, box, "cd /workspace/data; for i in 0 1 2 3 4 5 6 7 8 9; do echo 0 >f$i; dd if=/dev/zero of=fill$i bs=1M count=2 2>/dev/null; done").exit_code == 0
    own.exec_detached(box, ["sh", "-c", WRITES], user="root")
    for i in range(4):
        wait_for("it to write", lambda: int(sh(own, box, "cat /workspace/data/f9").text or 0) > 10 * (i + 1), 30)
        of = copied(own, vo, f"copy-{i}")
        # each is written by making it empty first: one may be
        n = [int(x) for x in has(own, of, "/c", "cat /c/f?").split()]
        assert len(n) >= 9 and max(n) - min(n) <= 1, n
        drop(own, of)
        before = int(sh(own, box, "cat /workspace/data/f0 /workspace/data/f1").text.split()[0])
        wait_for("it to go on", lambda before=before: int((sh(own, box, "cat /workspace/data/f0").text or "0").strip() or 0) > before, 30)
    act(own, box, "pause")
    of = copied(own, vo, "paused")
    assert own.get(box)["state"] == "paused"
    act(own, box, "resume")
    own.delete(box)
    for v in (of, vo):
        drop(own, v)
    gone(own)


def test_nobody_writes_to_it_meanwhile(own):
    """While it is copied, without a writer, it has readers only, and stays."""
    vo = volume(own, "data")
    assert has(own, vo, "/d", "dd if=/dev/zero of=/d/big bs=1M count=300 2>/dev/null; ls /d", read_only=False) == "big\n"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        made = pool.submit(copied, own, vo)
        wait_for("the copy to begin", lambda: len(os.listdir(own.state / "volumes")) == 2, 30)
        assert "is being copied" in refused("unavailable", own.create, "tiny", volumes=[at(vo)])["message"]
        refused("unavailable", drop, own, vo)
        assert get(own, vo)["readers"] == 0
        of = made.result(120)
    for v in (vo, of):
        drop(own, v)
    gone(own)


def test_of_a_foreign_volume_there_is_no_copy(own):
    _, who = new_tenant(own)
    _, other = new_tenant(own)
    vo = volume(who, "data")
    for read_only in (False, True):
        assert refused("not_found", copied, other, vo, read_only=read_only)["message"] == refused("not_found", copied, other, ABSENT, read_only=read_only)["message"]
    assert not listed(other)
    drop(who, vo)
    gone(own)


@pytest.mark.parametrize("kind", loopfs.here())
def test_its_bytes_are_its_own(kind):
    """Each copy is bound and charged by its own limit, also where the file system could share; and one that does not fit is none."""
    with loopfs.mounted(kind, 512 << 20) as top, cay.Cay(BUILD, state_top=top) as c:
        c.image_import("tiny", tiny())
        vo = volume(c, "data", size_bytes=16 * MIB)
        box = c.create("tiny", volumes=[at(vo)])
        assert sh(c, box, "dd if=/dev/urandom of=/workspace/data/f bs=1M count=8 2>/dev/null && sync").exit_code == 0
        refused("disk_full", copied, c, vo, size_bytes=4 * MIB)
        wait_for("what was copied to go", lambda: os.listdir(c.state / "volumes") == [vo], 30)
        assert sh(c, box, "echo goes on >/workspace/data/g && cat /workspace/data/g").text == "goes on\n"
        of = copied(c, vo, size_bytes=12 * MIB)
        c.delete(box)
        drop(c, vo)
        wait_for("its usage", lambda: get(c, of)["used_bytes"] >= 8 * MIB, 30)
        n = int(has(c, of, "/c", "dd if=/dev/zero of=/c/more bs=64k count=500 2>/dev/null; stat -c %s /c/more", read_only=False))
        assert MIB < n <= 4 * MIB
        drop(c, of)
        gone(c)


POINTS = [("cayd", p) for p in ("volume:wanted", "snapshot:copy", "volume:answered", "volume:ready")] + \
         [("cay-keeper", p) for p in ("volume:frozen", "volume:copied", "volume:made", "volume:limited")]


def test_the_failpoints_of_a_copy_are_here():
    assert {p for _, p in POINTS} >= OF_COPIES


@pytest.mark.parametrize("how", ["kill", "error"])
@pytest.mark.parametrize("program,point", POINTS)
def test_a_copy_that_is_cut_off(own, program, point, how):
    """The copy is whole or gone, and who writes to the source goes on."""
    vo = volume(own, "data")
    box = own.create("tiny", volumes=[at(vo)])
    sh(own, box, "echo here >/workspace/data/a")
    own.kill_daemon(program)
    own.env["CAY_FAULT"] = f"{point}={how}@1"
    (own.start_cayd if program == "cayd" else own.start_keeper)()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    made = None
    with contextlib.suppress(ApiError, OSError, cay.http.client.HTTPException):
        made = copied(own, vo)
    own.kill_daemon(program)
    (own.start_cayd if program == "cayd" else own.start_keeper)()
    wait_for("the link", lambda: linked(own), 30)
    wait_for("removals", lambda: sorted(os.listdir(own.state / "volumes")) == sorted(v["id"] for v in listed(own)), 30)
    rows = {v["name"]: v["id"] for v in listed(own)}
    assert rows["data"] == vo and (not made or rows["copy"] == made)
    wait_for("it to run", lambda: own.get(box)["state"] == "running", 30)
    assert sh(own, box, "cat /workspace/data/a && echo more >>/workspace/data/a").text == "here\n"
    of = rows.get("copy") or copied(own, vo)
    assert has(own, of, "/c", "cat /c/a").startswith("here\n")
    own.delete(box)
    for v in (of, vo):
        drop(own, v)
    gone(own)


def test_by_the_command(own):
    def run(*words, code=0):
        done = cli(own, *words)
        assert done.returncode == code, (words, done)
        return done.stdout.strip()
    vo = run("volume", "create", "data")
    kept = run("volume", "create", "--from", "data", "--read-only", "monday")
    assert get(own, kept)["read_only"] and get(own, kept)["from"] == vo
    assert run("create", "--volume", "monday:/data:ro", "tiny")
    run("volume", "create", "--from", "none", "x", code=4)
    run("volume", "create", "--read-only", "x", code=2)
    restart(own, "cayd")
    assert get(own, kept)["read_only"]
