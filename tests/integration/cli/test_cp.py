# SPDX-License-Identifier: Apache-2.0
"""`cay cp` and `cay cat` against a sandbox that means harm: FS-04 and FS-05 on a person's machine."""
import base64
import hashlib
import io
import json
import os
import pathlib
import re
import stat
import tarfile

import pytest

import fake as fake_daemon
from fake import chunk, head, new_id

R, D, S, H = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
EVIL = "a\x1b]0;owned\x07\x1b[2Jb\nc"


@pytest.fixture
def box(daemon):
    b = {"id": new_id("sb"), "tenant": new_id("tn"), "image": "base", "name": "box", "state": "running",
         "limits": fake_daemon.LIMITS, "runtime": "crun", "created_at": "2026-11-15T01:50:43.123Z",
         "last_transition_at": "2026-11-15T01:50:43.123Z", "last_activity_at": "2026-11-15T01:50:43.123Z"}
    daemon.say["GET", "/v1/sandboxes"] = fake_daemon.reply(200, {"sandboxes": [b]})
    return b["id"]


def says(daemon, what, **stat_more):
    """The sandbox says that `tree` is a directory, and this is in it."""
    st = {"path": "x", "type": "directory", "size": 0, "mode": "0755", "uid": 0, "gid": 0, "mtime": "2026-01-02T03:04:05Z"}
    daemon.say["GET", "/v1/sandboxes/*/files/stat"] = fake_daemon.reply(200, {**st, **stat_more})
    daemon.say["GET", "/v1/sandboxes/*/files/tree"] = head(200, "application/x-tar", len(what)) + what


def tar(*members, end=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for kind, name, what, *mode in members:
            i = tarfile.TarInfo(name)
            i.type, i.mode = kind, mode[0] if mode else 0o644
            if kind == R:
                i.size = len(what)
            elif what:
                i.linkname = what
            t.addfile(i, io.BytesIO(what if kind == R else b""))
    return out.getvalue() if end else out.getvalue()[:1024]


HOSTILE = {
    "dots": tar((R, "../canary", b"dead")),
    "absolute": tar((R, "/tmp/cay-cp-hostile", b"dead")),
    "through a link": tar((S, "l", "."), (R, "l/x", b"dead")),
    "through a link that was there": tar((R, "out/canary", b"dead")),
    "a hard link to what was there": tar((H, "h", "mine")),
    "a name for the terminal": tar((R, EVIL + "/../x", b"dead")),
    "cut": tar((R, "f", b"data"), end=False),
    "no tar": b"x" * 600,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_tree_stays_where_it_is_told(daemon, cay, box, tmp_path, what):
    to = tmp_path / "to"
    to.mkdir()
    (tmp_path / "canary").write_text("bird")
    (to / "mine").write_text("mine")
    os.symlink("..", to / "out")
    says(daemon, HOSTILE[what])
    r = cay("cp", "box:tree/", str(to))
    assert r.returncode not in (0, 1) and r.stderr.startswith("cay: "), r
    assert not [c for c in r.stderr if (c < " " and c != "\n") or c == "\x7f"], r.stderr
    assert (tmp_path / "canary").read_text() == "bird" and (to / "mine").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["canary", "to"]
    assert (to / "mine").stat().st_nlink == 1 and not os.path.exists("/tmp/cay-cp-hostile")
    assert not [n for n in os.listdir(to) if n.startswith(".cay-")]


def test_what_is_left_behind(daemon, cay, box, tmp_path):
    """Links that lead out, devices and setuid do not come; what is left behind is told."""
    says(daemon, tar((R, "f", b"data", 0o6777), (S, "out", "/etc/passwd"), (S, "up", "../x"), (S, "in", "f"),
                     (tarfile.FIFOTYPE, "p", None), (D, "d", None, 0o777), (R, EVIL, b"")))
    old = os.umask(0o027)
    try:
        r = cay("cp", "box:tree", str(tmp_path / "to"))
    finally:
        os.umask(old)
    assert r.returncode == 0, r.stderr
    assert "skipped 3 entries" in r.stderr
    assert sorted(os.listdir(tmp_path / "to")) == sorted(["f", "in", "d", EVIL])
    assert (tmp_path / "to/f").stat().st_mode & 0o7777 == 0o750
    assert (tmp_path / "to/d").stat().st_mode & 0o7777 == 0o750


@pytest.mark.parametrize("path", ["report.txt", "some/.hidden", "..", "x/.."])
def test_what_was_asked_for_as_a_file_is_not_poured_out(daemon, cay, box, tmp_path, path):
    """What it is the sandbox says; what is here only takes in a tree that was asked for as one."""
    says(daemon, tar((R, ".bashrc", b"dead"), (D, ".ssh", None, 0o777), (R, ".ssh/authorized_keys", b"dead")))
    (tmp_path / ".bashrc").write_text("mine")
    r = cay("cp", f"box:{path}", str(tmp_path))
    assert r.returncode == 2 and f"use '{path}/'" in r.stderr, r
    r = cay("cp", f"box:{path}", ".", cwd=tmp_path)
    assert r.returncode == 2, r
    assert os.listdir(tmp_path) == [".bashrc"] and (tmp_path / ".bashrc").read_text() == "mine"
    assert not [q for q in daemon.requests if q[1].endswith("/files/tree")]


@pytest.mark.parametrize("path", ["", ".", "tree/", "tree/."])
def test_a_tree_into_what_is_there_leaves_its_directories_as_they_are(daemon, cay, box, tmp_path, path):
    says(daemon, tar((D, ".ssh", None, 0o777), (R, ".ssh/config", b"new"), (D, "d", None, 0o700)))
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / "d").mkdir()
    (tmp_path / "d").chmod(0o755)
    r = cay("cp", f"box:{path}", str(tmp_path))
    assert r.returncode == 0, r.stderr
    assert (tmp_path / ".ssh/config").read_text() == "new"
    assert [(tmp_path / n).stat().st_mode & 0o7777 for n in (".ssh", "d")] == [0o700, 0o755]


def test_no_more_comes_than_was_told(daemon, cay, box, tmp_path):
    says(daemon, b"", type="file", size=10)
    daemon.say["GET", "/v1/sandboxes/*/files/content"] = (
        head(200, "application/octet-stream") + chunk(b"0123456789") + chunk(b"x") + b"0\r\n\r\n")
    r = cay("cp", "box:f", str(tmp_path / "f"))
    assert r.returncode == 7 and "10 bytes" in r.stderr and not os.listdir(tmp_path), r


def test_a_file_comes_whole_or_not_at_all(daemon, cay, box, tmp_path):
    says(daemon, b"", type="file", size=10, mode="4755")
    to = tmp_path / "f"
    to.write_text("old")
    daemon.say["GET", "/v1/sandboxes/*/files/content"] = head(200, "application/octet-stream", 10) + b"short"
    r = cay("cp", "box:f", str(to))
    assert r.returncode not in (0, 1) and to.read_text() == "old" and os.listdir(tmp_path) == ["f"]
    says(daemon, b"", type="file", size=11, mode="4755")
    daemon.say["GET", "/v1/sandboxes/*/files/content"] = (
        head(200, "application/octet-stream") + chunk(b"new content") + b"0\r\n\r\n")
    assert cay("cp", "box:f", str(tmp_path)).returncode == 0
    assert to.read_text() == "new content" and not to.stat().st_mode & stat.S_ISUID
    assert cay("cp", "box:f", "-").stdout == "new content"
    assert cay("cat", "box:f", "box:f").stdout == "new content" * 2


def test_what_the_sandbox_says_of_a_file_is_escaped(daemon, cay, box, tmp_path):
    daemon.say["GET", "/v1/sandboxes/*/files/stat"] = fake_daemon.failure(404, "not_found", EVIL, hint=EVIL)
    r = cay("cp", "box:f", str(tmp_path / "f"))
    assert r.returncode == 4 and "\\x1b" in r.stderr
    assert not [c for c in r.stderr if (c < " " and c != "\n") or c == "\x7f"]


def test_a_directory_goes_in(daemon, cay, box, tmp_path):
    """What is sent is a tar of the directory's content: links as links, special files counted."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(b"z" * 200000)
    (tmp_path / "d/-rf").write_text("x")
    os.symlink("/etc/passwd", tmp_path / "d/l")
    got = []

    def take(c, f):
        got.append(b"".join(daemon.body(f, {"transfer-encoding": "chunked"})))
        made = {"files": 2, "directories": 0, "links": 1, "bytes": 1, "skipped": 0, "changed": 0}
        c.sendall(fake_daemon.reply(200, made))
    daemon.say["PUT", "/v1/sandboxes/*/files/tree"] = take
    r = cay("cp", str(tmp_path / "d"), "box:some/where")
    assert r.returncode == 0, r.stderr
    assert daemon.requests[-1][2]["path"] == "some/where"
    with tarfile.open(fileobj=io.BytesIO(got[0])) as t:
        assert {m.name for m in t.getmembers()} == {".", "./f", "./-rf", "./l"} and t.getmember("./l").issym()
    # one file, by its new name; and from standard input
    for words, data, name, path in [((str(tmp_path / "d/-rf"), "box:x/y"), None, "y", "x"),
                                    ((str(tmp_path / "d/-rf"), "box:x/"), None, "-rf", "x/"),
                                    (("-", "box:typed"), b"in", "typed", ".")]:
        r = cay("cp", *words, data=data)
        assert r.returncode == 0, r.stderr
        assert daemon.requests[-1][2]["path"] == path
        with tarfile.open(fileobj=io.BytesIO(got[-1])) as t:
            assert t.getnames() == [name]


def test_a_refusal_in_the_middle_is_what_is_told(daemon, cay, box, tmp_path):
    (tmp_path / "big").write_bytes(bytes(20 << 20))

    def refuse(c, f):
        f.read(1000)
        c.sendall(fake_daemon.failure(429, "limit_exceeded", "the disk is full"))
    daemon.say["PUT", "/v1/sandboxes/*/files/tree"] = refuse
    r = cay("cp", str(tmp_path / "big"), "box:big")
    assert r.returncode == 6 and "the disk is full" in r.stderr


@pytest.mark.parametrize("words", [("a", "b"), ("-", "-"), ("./a:b", "c")], ids=repr)
def test_nothing_in_a_sandbox(daemon, cay, words):
    r = cay("cp", *words)
    assert r.returncode == 2 and "NAME:PATH" in r.stderr and not daemon.requests


def entry(**more):
    return {"path": "f", "type": "file", "size": 9, "mode": "0644", "uid": 0, "gid": 0, "mtime": "2026-01-02T03:04:05Z", **more}


ODD = base64.b64encode(b"\xff\x1b[31m").decode()


def clean(text):
    return not [c for c in text if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f"]


def test_names_are_shown_escaped(daemon, cay, box):
    """FS-05: names with newline, ESC and bytes that are no text, of files and where links lead."""
    names = [entry(path=EVIL), entry(path="--help"), {k: v for k, v in entry(path_b64=ODD).items() if k != "path"},
             entry(path="l", type="symlink", target=EVIL), entry(path="x" * 255)]
    daemon.say["GET", "/v1/sandboxes/*/files"] = fake_daemon.reply(200, {"entries": names, "truncated": True})
    r = cay("ls", "box:some")
    assert r.returncode == 0 and daemon.requests[-1][2]["path"] == "some"
    assert clean(r.stdout) and r.stdout.count("\n") == 5 and "\\x1b" in r.stdout and "\\xff\\x1b[31m" in r.stdout
    assert " -> a\\x1b" in r.stdout and "there are more" in r.stderr
    as_json = cay("ls", "--json", "box:some")
    assert json.loads(as_json.stdout)["entries"][0]["path"] == EVIL
    assert cay("ls", "--all", "box:some").returncode == 2
    assert cay("ls", "./here").returncode == 2


def test_grep_shows_escaped(daemon, cay, box):
    hits = [{"path": EVIL, "line": 7, "text": EVIL}, {"path_b64": ODD, "line": 8, "text_b64": ODD}]
    said = {"hits": hits, "files": 2, "binary": 0, "skipped": 0, "truncated": False}
    daemon.say["POST", "/v1/sandboxes/*/files/grep"] = fake_daemon.reply(200, said)
    r = cay("grep", "-i", "needle", "box:")
    assert r.returncode == 0 and clean(r.stdout) and r.stdout.count("\n") == 2, r
    assert ":7:" in r.stdout and "\\xff" in r.stdout
    daemon.say["POST", "/v1/sandboxes/*/files/grep"] = fake_daemon.reply(200, {**said, "hits": []})
    assert cay("grep", "needle", "box:").returncode == 1


@pytest.fixture
def editor(tmp_path, monkeypatch):
    program = tmp_path / "editor"
    program.write_text('#!/bin/sh\nsed -i s/old/new/ "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(program))
    return program


def test_edit_writes_back_what_nobody_else_changed(daemon, cay, box, editor):
    got = []

    def take(c, f):
        got.append(b"".join(daemon.body(f, {"transfer-encoding": "chunked"})))
        c.sendall(fake_daemon.reply(200, {"path": "f", "sha256": "0" * 64, "size": 9, "created": False}))
    daemon.say["GET", "/v1/sandboxes/*/files/content"] = head(200, "application/octet-stream", 9) + b"old text\n"
    daemon.say["PUT", "/v1/sandboxes/*/files/content"] = take
    r = cay("edit", "box:f")
    assert r.returncode == 0, r.stderr
    assert got == [b"new text\n"]
    asked = daemon.requests[-1][2]
    assert asked["if_sha256"] == hashlib.sha256(b"old text\n").hexdigest()
    assert asked["sha256"] == hashlib.sha256(b"new text\n").hexdigest()
    daemon.say["GET", "/v1/sandboxes/*/files/content"] = head(200, "application/octet-stream", 4) + b"same"
    assert "no changes" in cay("edit", "box:f").stderr and len(got) == 1


def test_edit_tells_of_a_conflict_and_keeps_the_work(daemon, cay, box, editor):
    daemon.say["GET", "/v1/sandboxes/*/files/content"] = head(200, "application/octet-stream", 3) + b"old"
    daemon.say["PUT", "/v1/sandboxes/*/files/content"] = fake_daemon.failure(409, "conflict", "it has changed")
    r = cay("edit", "box:f")
    assert r.returncode == 5 and "changed in the meantime" in r.stderr
    kept = pathlib.Path(re.search(r"your version is in (/tmp/cay-edit-\w+/file)", r.stderr)[1])
    assert kept.read_text() == "new" and kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700
    kept.unlink()
    kept.parent.rmdir()
