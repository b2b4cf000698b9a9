# SPDX-License-Identifier: Apache-2.0
"""Text files: a part of one, changes of one, looking for some."""
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.parse

import pytest

from client import SANDBOX
from conftest import SANITIZED, wait_for

AT = SANDBOX + "/files"


@pytest.fixture
def place():
    """A directory that everybody may use; pytest's own is root's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as d:
        os.chmod(d, 0o777)
        yield pathlib.Path(d)


def ask(init, what, **query):
    query = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in query.items()}
    return init.client.ask("GET", f"{AT}/{what}?{urllib.parse.urlencode(query)}")


def test_a_part_of_a_file(init, place):
    (place / "f").write_bytes(b"".join(b"line %d\r\n" % i for i in range(1, 11)))
    r = ask(init, "view", path=place / "f", first=3, limit=2, numbers=True).json()
    assert r == {"size": 81, "first": 3, "lines": 2, "total": 10, "more": True, "binary": False, "cut": 0,
                 "text": "     3\tline 3\r\n     4\tline 4\r\n"}
    r = ask(init, "view", path=place / "f", tail=True, limit=1).json()
    assert (r["text"], r["first"], r["more"]) == ("line 10\r\n", 10, False)


def test_what_is_no_text_is_said_or_sent_as_base64(init, place):
    (place / "f").write_bytes(b"\0\1\2")
    r = ask(init, "view", path=place / "f").json()
    assert r["binary"] and r["text"] == "" and r["lines"] == 0
    (place / "f").write_bytes(b"caf\xe9\n")
    r = ask(init, "view", path=place / "f").json()
    assert base64.b64decode(r["text_b64"]) == b"caf\xe9\n" and "text" not in r


def test_odd_files_are_not_viewed(init, place):
    os.mkfifo(place / "fifo")
    os.symlink("loop", place / "loop")
    assert ask(init, "view", path=place / "fifo").error() == (400, "invalid_argument", "path")
    assert ask(init, "view", path=place).error() == (400, "invalid_argument", "path")
    assert ask(init, "view", path=place / "loop").error() == (404, "not_found", "path")
    assert ask(init, "view").error() == (400, "invalid_argument", "path")


def test_a_line_of_a_megabyte(init, place):
    (place / "f").write_bytes(b"x" * (1 << 20) + b"\nshort\n")
    r = ask(init, "view", path=place / "f", width=10).json()
    assert r["text"] == "xxxxxxxxxx [1048566 bytes cut]\nshort\n" and r["cut"] == 1


def test_files_by_pattern_newest_first(init, place):
    (place / "d").mkdir()
    odd = os.fsencode(place) + b"/d/\n\x1b\xff.c"
    for i, name in enumerate([place / "a.c", place / "d/b.c", odd, place / "d/x.h"]):
        with open(name, "wb"):
            pass
        os.utime(name, (1000 + i, 1000 + i))
    os.symlink("..", place / "d/up")
    r = ask(init, "glob", path=place, pattern="**/*.c").json()
    assert [f.get("path") or base64.b64decode(f["path_b64"]) for f in r["files"]] == [b"d/\n\x1b\xff.c", "d/b.c", "a.c"]
    assert (r["total"], r["files"][1]["type"], r["files"][1]["mtime"]) == (3, "file", "1970-01-01T00:16:41.000Z")
    assert [f["path"] for f in ask(init, "glob", path=place, pattern="*", type="directory").json()["files"]] == ["d"]
    assert ask(init, "glob", pattern=f"{place}/*.c").json()["files"][0]["path"] == f"{place}/a.c"
    assert ask(init, "glob", path=place, pattern="[").status == 400
    assert ask(init, "glob", path=place / "none", pattern="*").error()[:2] == (404, "not_found")


def grep(init, pattern, **more):
    return init.client.ask("POST", AT + "/grep", {"pattern": pattern, **{k: str(v) if isinstance(v, pathlib.Path) else v for k, v in more.items()}})


def test_lines_that_have_a_text(init, place):
    (place / "d").mkdir()
    (place / "a.c").write_bytes(b"int main(void)\n{\n}\n")
    with open(os.fsencode(place) + b"/d/\n\xff.c", "wb") as f:
        f.write(b"caf\xe9 main(\n")
    (place / "d/bin").write_bytes(b"\0main(")
    (place / "d/b.txt").write_bytes(b"main(\n")
    os.mkfifo(place / "fifo.c")
    r = grep(init, "main(", path=place, fixed=True, include=["*.c"], context=1).json()
    hits = sorted(r.pop("hits"), key=lambda h: (h.get("path", "~"), h["line"]))
    assert r == {"files": 2, "binary": 0, "skipped": 0, "truncated": False}
    assert hits[0] == {"path": "a.c", "line": 1, "column": 5, "text": "int main(void)", "cut": False}
    assert hits[1] == {"path": "a.c", "line": 2, "text": "{", "cut": False}
    assert base64.b64decode(hits[2]["path_b64"]) == b"d/\n\xff.c" and base64.b64decode(hits[2]["text_b64"]) == b"caf\xe9 main("
    assert grep(init, "^INT +[a-z]", path=place / "a.c", ignore_case=True).json()["hits"][0]["path"] == ""
    assert grep(init, "(", path=place).error() == (400, "invalid_argument", "pattern")
    assert grep(init, "x", path=place, include=["["]).error() == (400, "invalid_argument", "include")


SOURCES = pathlib.Path(__file__).resolve().parents[3] / "src"


@pytest.mark.parametrize("pattern,more,flags", [
    (r"^(static )?int [a-z_]+\(", {}, []),
    (r"[0-9]{3,}|0x[0-9a-f]+", {}, []),
    ("cay_fail(err", {"fixed": True}, ["-F"]),
    ("todo|PID 1", {"ignore_case": True}, ["-i"]),
    (r"\*/$", {"include": ["*.h"]}, ["-g", "*.h"]),
    ("^$", {"include": ["work*.c"]}, ["-g", "work*.c"]),
    ("\u2014|\u00e4", {}, []),
])
def test_the_same_lines_as_ripgrep(init, place, pattern, more, flags):
    """On a tree that somebody works with: our own."""
    shutil.copytree(SOURCES, place, dirs_exist_ok=True)
    os.chmod(place, 0o777)
    theirs = subprocess.run(["rg", "--no-config", "--no-ignore", "--no-heading", "--no-messages", "--with-filename", "-n", *flags, "-e", pattern, "."],
                            cwd=place, capture_output=True, text=True, timeout=30)
    assert theirs.returncode < 2, theirs.stderr
    want = sorted(line.removeprefix("./") for line in theirs.stdout.splitlines())
    got = grep(init, pattern, path=place, limit=10000, width=4096, **more).json()
    assert sorted(f"{h['path']}:{h['line']}:{h['text']}" for h in got["hits"]) == want and len(want) < 10000


def test_much_is_cut_and_says_so(init, place):
    (place / "f").write_bytes((b"x" * 3000 + b"\n") * 5000)
    r = grep(init, "x", path=place, limit=10000, width=4096).json()
    assert r["truncated"] and 300 < len(r["hits"]) < 400
    r = grep(init, "x", path=place, limit=7).json()
    assert r["truncated"] and len(r["hits"]) == 7 and all(len(h["text"]) == 500 and h["cut"] for h in r["hits"])


def test_an_expression_that_wants_all_memory_gets_none(init, place):
    (place / "f").write_bytes(b"a" * 100 + b"\n")
    if not SANITIZED:  # whose address space has no end
        r = grep(init, "((((a{1,200}){1,200}){1,200}){1,200}){1,200}", path=place)
        assert r.error() == (400, "invalid_argument", "pattern")
    assert grep(init, "a", path=place).status == 200


def events(init, place):
    """A stream that is ready: the response, and a function that gives the next event."""
    r = init.client.open("GET", f"{AT}/watch?path={place}", headers={"Accept": "text/event-stream"})
    assert (r.status, r.headers["Content-Type"]) == (200, "text/event-stream")

    def following():
        lines = []
        while (line := r.readline()) != b"\n" or not lines:
            assert line, "it ended"
            lines += [line.rstrip(b"\n")] * (line[:1] not in b":\n")  # a colon only says that it is there
        fields = dict(line.split(b": ", 1) for line in lines)
        e = json.loads(fields[b"data"])
        assert int(fields[b"id"]) == e["number"]
        return e

    assert following() == {"number": 0, "event": "ready", "path": "", "directory": True}
    return r, following


def test_what_happens_is_told_as_it_happens(init, place):
    r, following = events(init, place)
    with r:
        (place / "f").write_bytes(b"x")
        assert [following()["event"] for _ in range(3)] == ["created", "modified", "closed"]
        (place / "d").mkdir()
        assert following() == {"number": 4, "event": "created", "path": "d", "directory": True}
        (place / "d/p").touch()  # told of, d is watched
        while following()["path"] != "d/p":
            pass
        os.rename(place / "f", place / "d/g")
        moved = [following(), following()]
        while len({m.get("move") for m in moved}) != 1 or not moved[0].get("move"):
            moved = [moved[1], following()]  # the look into d may have been later
        assert [(m["event"], m["path"]) for m in moved] == [("moved_from", "f"), ("moved_to", "d/g")]
        with open(os.fsencode(place) + b"/\n\xff", "wb"):
            pass
        while not (name := following().get("path_b64")):
            pass
        assert base64.b64decode(name) == b"\n\xff"
    wait_for(lambda: not init.children(), what="no child")


def test_events_of_a_moment(init, place):
    r = ask(init, "watch", path=place, wait_ms=1).json()
    assert r == {"events": [{"number": 0, "event": "ready", "path": "", "directory": True}]}
    assert ask(init, "watch", path=place / "none").error() == (404, "not_found", "path")


def edit(init, path, *changes, **more):
    return init.client.ask("POST", AT + "/edit", {"path": str(path), "edits": list(changes), **more})


def test_an_edit_is_made_in_one_step(init, place):
    f = place / "f"
    f.write_bytes(b"one\ntwo\nthree\n")
    f.chmod(0o640)
    r = edit(init, f, {"old": "two", "new": "2"}, {"kind": "insert", "line": 3, "new": "four"}).json()
    assert f.read_bytes() == b"one\n2\nthree\nfour"
    assert r == {"changes": 2, "size": 16, "sha256": hashlib.sha256(f.read_bytes()).hexdigest(), "diff_left_out": False, "diff":
                 f"--- a/{f}\n+++ b/{f}\n".replace("//", "/") + "@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n\\ No newline at end of file\n"}
    assert f.stat().st_mode & 0o7777 == 0o640 and os.listdir(place) == ["f"]
    assert edit(init, f, {"old": "one", "new": "1"}, if_sha256=hashlib.sha256(b"x").hexdigest()).error() == (409, "conflict", "if_sha256")
    assert edit(init, f, {"old": "one", "new": "1"}, if_sha256=r["sha256"], dry_run=True).json()["changes"] == 1
    assert f.read_bytes() == b"one\n2\nthree\nfour"
    assert edit(init, f, {"old": "one", "new": "1"}, if_sha256="x" * 64).error() == (400, "invalid_argument", "if_sha256")


def test_an_edit_that_is_not_meant_is_refused_whole(init, place):
    f = place / "f"
    f.write_bytes(b"a\nb\na\n")
    r = edit(init, f, {"old": "b", "new": "c"}, {"old": "a", "new": "x"})
    assert r.error() == (409, "conflict", "edits[1].old") and "stands 2 times, on lines 1, 3" in r.json()["error"]["message"]
    assert edit(init, f, {"old": "nowhere", "new": "x"}).error() == (409, "conflict", "edits[0].old")
    assert edit(init, f, {"kind": "insert", "line": 9, "new": "x"}).error() == (409, "conflict", "edits[0].line")
    assert edit(init, f).error() == (400, "invalid_argument", "edits")
    assert edit(init, place, {"old": "a", "new": "b"}).error() == (400, "invalid_argument", "path")
    assert f.read_bytes() == b"a\nb\na\n"


def test_edits_at_once_are_all_there(init, place):
    f = place / "f"
    f.write_bytes(b"".join(b"<%d>\n" % i for i in range(40)))
    f.chmod(0o666)

    def one(i):
        return edit(init, f, {"old": f"<{i}>", "new": f"[{i}]"}).status

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(40))) == [200] * 40
    assert f.read_bytes() == b"".join(b"[%d]\n" % i for i in range(40))
