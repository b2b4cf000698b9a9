# SPDX-License-Identifier: Apache-2.0
"""Trees of files as archives, both ways, and FS-04: hostile ones."""
import gzip
import io
import os
import pathlib
import stat
import subprocess
import tarfile
import tempfile
import urllib.parse

import pytest

from client import SANDBOX, Connection
from conftest import FULL, wait_for

AT = SANDBOX + "/files/tree"
R, D, S, H = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.fixture
def place():
    """A directory that everybody may use, with a canary beside it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as d:
        os.chmod(d, 0o777)
        (pathlib.Path(d) / "canary").write_text("bird")
        inside = pathlib.Path(d) / "in"
        inside.mkdir()
        inside.chmod(0o777)
        yield inside


def q(path, **more):
    return "?" + urllib.parse.urlencode({"path": str(path), **more})


def put(init, path, body, **more):
    return init.client.ask("PUT", AT + q(path, **more), body, {"Content-Type": "application/x-tar"})


def get(init, path, **more):
    return init.client.ask("GET", AT + q(path, **more))


def tar(*members, fmt=tarfile.PAX_FORMAT):
    """(type, name, content or target, mode) each."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as t:
        for kind, name, what, *mode in members:
            i = tarfile.TarInfo(name)
            i.type, i.mode, i.mtime = kind, mode[0] if mode else 0o644, 1000000000
            if kind == R:
                i.size = len(what)
            elif what:
                i.linkname = what
            t.addfile(i, io.BytesIO(what if kind == R else b""))
    return out.getvalue()


def untouched(place):
    beside = place.parent
    assert sorted(os.listdir(beside)) == ["canary", "in"]
    assert (beside / "canary").read_text() == "bird"
    assert not [n for _, ds, fs in os.walk(place) for n in ds + fs if n.startswith(".cay-")]


@pytest.mark.parametrize("fmt", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("packed", ["tar", "tar.gz"])
def test_there_and_back(init, place, fmt, packed):
    body = tar((D, "d", None, 0o755), (R, "d/f", b"hello", 0o640), (S, "d/l", "../../canary"), (H, "d/h", "d/f"),
               (R, "x" * 90 + "/" + "y" * 80, b"z" * 100000), (tarfile.FIFOTYPE, "fifo", None), fmt=fmt)
    r = put(init, place, gzip.compress(body) if packed == "tar.gz" else body, format=packed)
    assert r.status == 200, r.body
    assert r.json() == {"files": 2, "directories": 1, "links": 2, "bytes": 100005, "skipped": 1, "changed": 0}
    assert (place / "d/f").read_bytes() == b"hello" and (place / "d/f").stat().st_mode & 0o7777 == 0o640
    assert (place / "d/f").stat().st_nlink == 2 and os.readlink(place / "d/l") == "../../canary"
    back = get(init, place, format=packed)
    assert back.status == 200
    assert back.headers["Content-Type"] == ("application/gzip" if packed == "tar.gz" else "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(back.body), mode="r:gz" if packed == "tar.gz" else "r:") as t:
        names = {m.name for m in t.getmembers()}
        assert names >= {"./d/f", "./d/l", "./d/h", "./" + "x" * 90 + "/" + "y" * 80}
        assert t.extractfile("./d/f").read() == b"hello"
    # and any tar takes it without a word
    args = ["tar", "-t" + ("z" if packed == "tar.gz" else "") + "f", "-"]
    p = subprocess.run(args, input=back.body, capture_output=True)
    assert p.returncode == 0 and not p.stderr, p.stderr
    untouched(place)


def test_what_is_special_is_counted(init, place):
    os.mkfifo(place / "fifo")
    (place / "f").write_text("x")
    os.symlink("/etc/passwd", place / "l")
    r = get(init, place)
    with tarfile.open(fileobj=io.BytesIO(r.body)) as t:
        assert {m.name for m in t.getmembers()} == {".", "./f", "./l"}
        assert t.getmember("./l").issym()
        assert t.getmembers()[-1].pax_headers["comment"] == "skipped=1 changed=0"
    assert put(init, place / "again", r.body).json()["skipped"] == 1
    assert get(init, place / "none").status == 404
    assert get(init, place / "fifo").status == 400
    one = get(init, place / "f")
    with tarfile.open(fileobj=io.BytesIO(one.body)) as t:
        assert [m.name for m in t.getmembers()] == ["f"]


def test_an_untidy_place(init, place):
    """The directory is made; a file in its way is a conflict; nothing named is the workspace."""
    body = tar((R, "f", b"x"))
    assert put(init, place / "new/and/deep", body).status == 200
    assert (place / "new/and/deep/f").read_bytes() == b"x"
    assert put(init, place / "new/and/deep/f", body).status in (400, 404, 409)
    assert put(init, place, tar((R, "new", b"x"))).json()["error"]["code"] == "conflict"
    untouched(place)


def sparse():
    body = bytearray(tar((R, "s", b"x"), fmt=tarfile.GNU_FORMAT))
    body[156:157] = b"S"
    body[148:156] = b" " * 8
    body[148:156] = b"%06o\0 " % sum(body[:512])
    return bytes(body)


def pax(records):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        i = tarfile.TarInfo("f")
        i.pax_headers = records
        t.addfile(i)
    return out.getvalue()


def renamed(body, old, new):
    """Another name in a header, and its sum."""
    b = bytearray(body)
    assert b[:len(old)] == old
    b[:100] = new.ljust(100, b"\0")
    b[148:156] = b" " * 8
    b[148:156] = b"%06o\0 " % sum(b[:512])
    return bytes(b)


FILE = tar((R, "f", b"data"), fmt=tarfile.USTAR_FORMAT)
HOSTILE = {  # FS-04: what comes, what is answered
    "absolute": (renamed(FILE, b"f", b"/tmp/cay-fs04"), "invalid_argument"),
    "dots": (renamed(FILE, b"f", b"../canary"), "invalid_argument"),
    "dots inside": (renamed(FILE, b"f", b"a/../../canary"), "invalid_argument"),
    "a link and a file through it": (tar((S, "l", ".."), (R, "l/canary", b"dead")), "conflict"),
    "a link and a directory in it": (tar((S, "l", "/tmp"), (D, "l/x", None)), "conflict"),
    "a file over a link": (tar((S, "l", "../canary"), (R, "l", b"mine")), None),
    "a hard link out": (tar((H, "h", "../canary")), "invalid_argument"),
    "a hard link to what was there": (tar((H, "h", "was")), "invalid_argument"),
    "a hard link through a link": (tar((S, "l", ".."), (H, "h", "l/canary")), "invalid_argument"),
    "devices": (tar((tarfile.CHRTYPE, "c", None), (tarfile.BLKTYPE, "b", None), (tarfile.FIFOTYPE, "p", None)), None),
    "setuid": (tar((R, "suid", b"x", 0o6755)), None),
    "sparse": (sparse(), "invalid_argument"),
    "sparse of pax": (pax({"GNU.sparse.major": "1", "GNU.sparse.realsize": "1099511627776"}), "invalid_argument"),
    "a size past all numbers": (pax({"size": "18446744073709551617"}), "invalid_argument"),
    "a size below nothing": (pax({"size": "-1"}), "invalid_argument"),
    "a size that does not come": (pax({"size": "8796093022208"}), "invalid_argument"),
    "a name of pax": (pax({"path": "../canary"}), "invalid_argument"),
    "the same name twice": (tar((R, "a", b"1"), (R, "a", b"2")), None),
    "a directory that is a file": (tar((R, "a", b"1"), (D, "a", None)), "conflict"),
    "cut": (FILE[:700], "invalid_argument"),
    "no end": (FILE[:1024], "invalid_argument"),
    "nothing": (b"", "invalid_argument"),
    "no tar": (b"x" * 5000, "invalid_argument"),
    "gzip that is not said": (gzip.compress(FILE), "invalid_argument"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_archives(init, place, what):
    body, code = HOSTILE[what]
    (place / "was").write_text("here")
    os.symlink("..", place / "out")
    r = put(init, place, body)
    if code:
        assert r.status >= 400 and r.json()["error"]["code"] == code, r.body
    else:
        assert r.status == 200, r.body
    for at, dirs, files in os.walk(place):
        for n in dirs + files:
            st = os.lstat(os.path.join(at, n))
            assert stat.S_IFMT(st.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
            assert stat.S_ISLNK(st.st_mode) or not st.st_mode & 0o7000
    assert (place / "was").read_text() == "here"
    assert not os.path.exists("/tmp/cay-fs04")
    untouched(place)


def test_bombs_stop_at_the_limit(init, place):
    """Ten megabytes from ten kilobytes; ten thousand names; gzip in gzip is peeled once."""
    big = gzip.compress(tar((R, "big", bytes(10 << 20))))
    assert len(big) < 20000
    r = put(init, place, big, format="tar.gz", max_bytes=str(1 << 20))
    assert r.json()["error"]["code"] == "too_large"
    many = gzip.compress(tar(*((R, f"f{i}", b"") for i in range(10000)), fmt=tarfile.USTAR_FORMAT))
    r = put(init, place, many, format="tar.gz", max_entries="500")
    assert r.json()["error"]["code"] == "too_large"
    assert len(os.listdir(place)) == 500
    assert put(init, place, gzip.compress(big), format="tar.gz").json()["error"]["code"] == "invalid_argument"
    untouched(place)


@pytest.mark.parametrize("cut", [1, 511, 513, 70000, 150000, 199999] + (list(range(0, 200000, 9973)) if FULL else []))
def test_a_client_that_leaves(init, place, cut):
    """What was there stays until the new one is whole, and nothing half is left."""
    (place / "f").write_bytes(b"old")
    (place / "f").chmod(0o666)
    body = tar((R, "f", b"n" * 150000), (R, "g", b"n" * 50000))
    c = Connection(init.client.path, 60)
    c.putrequest("PUT", AT + q(place))
    c.putheader("Content-Length", str(len(body)))
    c.endheaders(body[:cut])
    wait_for(init.children, what="its child")  # who is gone before it is there is not there, either
    c.close()
    wait_for(lambda: not init.children(), what="the child is gone")
    assert (place / "f").read_bytes() in (b"old", b"n" * 150000)
    assert not (place / "g").exists() or (place / "g").read_bytes() == b"n" * 50000
    untouched(place)
