# SPDX-License-Identifier: Apache-2.0
"""Trees of files through the whole of it: by the edge, between sandboxes, by a link, by `cay cp`."""
import concurrent.futures
import contextlib
import gzip
import io
import os
import signal
import subprocess
import tarfile
import time

import pytest
from cay import ApiError, let_pass


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in files.items():
            i = tarfile.TarInfo(name)
            i.size, i.mode = len(data), 0o640
            t.addfile(i, io.BytesIO(data))
    return out.getvalue()


def names(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        return {m.name: t.extractfile(m).read() if m.isreg() else None for m in t.getmembers()}


def refused(code, fn, *args):
    with pytest.raises(ApiError) as e:
        fn(*args)
    assert e.value.code == code, e.value


def guarded(r):
    """A browser on the API's origin saves it and runs nothing of it."""
    want = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
            "Content-Security-Policy": "sandbox; default-src 'none'", "Cache-Control": "no-store"}
    assert {k: r.headers.get_all(k) for k in want} == {k: [v] for k, v in want.items()}


@pytest.fixture
def two(node):
    me = node.door()
    a, b = me.create("tiny"), me.create("tiny")
    yield me, a, b
    me.delete(a)
    me.delete(b)


def test_between_two_sandboxes(node, two):
    me, a, b = two
    big = os.urandom(1 << 20) * 20
    made = me.call("PUT", f"/v1/sandboxes/{a}/files/tree?path=src", tar({"x/big": big, "x/small": b"hi"}))
    assert made["files"] == 2
    got = me.call("POST", f"/v1/sandboxes/{b}/files/import", {"from": a, "path": "src", "to": "dst/deep"})
    assert (got["files"], got["bytes"]) == (2, len(big) + 2)
    assert me.open("GET", f"/v1/sandboxes/{b}/files/content?path=dst/deep/x/big").read() == big
    # one file goes into the directory by its own name
    assert me.call("POST", f"/v1/sandboxes/{b}/files/import", {"from": a, "path": "src/x/small", "to": "one"})["files"] == 1
    assert me.exec(b, ["cat", "one/small"]).text == "hi"
    # what either says is what is told
    refused("not_found", me.call, "POST", f"/v1/sandboxes/{b}/files/import", {"from": a, "path": "none"})
    me.exec(b, ["mkdir", "-p", "clash/x/small", "clash/x/big"])
    refused("conflict", me.call, "POST", f"/v1/sandboxes/{b}/files/import", {"from": a, "path": "src", "to": "clash"})


def test_of_one_tenant_only(node, two):
    me, a, b = two
    tenant = node.call("POST", "/v1/tenants", {"name": f"trees-{os.getpid()}"})["id"]
    other = node.door(node.new_key("write", tenant))
    theirs = other.create("tiny")
    try:
        for who, to, source in ((me, b, theirs), (other, theirs, a), (other, b, theirs)):
            refused("not_found", who.call, "POST", f"/v1/sandboxes/{to}/files/import", {"from": source, "path": "/etc"})
        token = node.door(node.call("POST", f"/v1/sandboxes/{b}/token", {"scope": "write"})["token"])
        refused("permission_denied", token.call, "POST", f"/v1/sandboxes/{b}/files/import", {"from": a, "path": "/etc"})
        refused("permission_denied", token.call, "POST", f"/v1/sandboxes/{b}/files/link", {"path": "/etc"})
        reads = node.door(node.new_key("read"))
        refused("permission_denied", reads.call, "POST", f"/v1/sandboxes/{b}/files/import", {"from": a, "path": "/etc"})
    finally:
        other.delete(theirs)


def test_a_tenant_has_four_imports(node, two):
    """A sandbox that stands still holds its tenant's places, and nobody else's."""
    me, a, b = two
    tenant = node.call("POST", "/v1/tenants", {"name": f"four-{os.getpid()}"})["id"]
    other = node.door(node.new_key("write", tenant))
    theirs, first = other.create("tiny"), node.pid_1(a)
    me.exec(a, ["sh", "-c", "mkdir src; echo hi > src/f"])

    def pour(to, source, who):
        return who.call("POST", f"/v1/sandboxes/{to}/files/import", {"from": source, "path": "src" if source == a else "/etc/passwd"})
    os.kill(first, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(5) as many:
        try:
            asked = [many.submit(pour, b, a, node.door()) for _ in range(5)]
            done, _ = concurrent.futures.wait(asked, 25, concurrent.futures.FIRST_COMPLETED)
            assert [f.exception().code for f in done] == ["rate_limited"]
            pour(theirs, theirs, other)
        finally:
            os.kill(first, signal.SIGCONT)
            other.delete(theirs)
        assert sorted(f.exception() is None for f in asked) == [False, True, True, True, True]


def test_a_link_to_a_file_is_the_file(node, two):
    """Its bytes and not a tar, also a part of it; for that path only, and never shown by a browser."""
    me, a, b = two
    me.call("PUT", f"/v1/sandboxes/{a}/files/tree?path=out", tar({"r 1.csv": b"x,y\n1,2\n", "g": b"more"}))
    made = me.call("POST", f"/v1/sandboxes/{a}/files/link", {"path": "out/r 1.csv", "format": "file"})
    url = "/" + made["url"].split("/", 3)[3]
    nobody = node.door("")
    nobody.credential = ""
    with contextlib.closing(nobody.open("GET", url)) as r:
        assert (r.status, r.read()) == (200, b"x,y\n1,2\n")
        guarded(r)
    with contextlib.closing(nobody.open("GET", url, None, {"Range": "bytes=4-6"})) as r:
        assert (r.status, r.read()) == (206, b"1,2")
    for wrong in url.replace("out%2F", ""), url.replace("r%201.csv", "g"), url.replace(a, b), url.replace("/content?", "/tree?format=tar&"):
        with contextlib.closing(nobody.open("GET", wrong)) as r:
            assert wrong != url and r.status in (401, 403), wrong
    with pytest.raises(ApiError) as e:
        me.call("POST", f"/v1/sandboxes/{a}/files/link", {"format": "file"})
    assert e.value.code == "invalid_argument"


def test_a_link_is_good_for_one_path(node, two):
    me, a, b = two
    me.call("PUT", f"/v1/sandboxes/{a}/files/tree?path=out", tar({"f": b"data", "g": b"more"}))
    made = me.call("POST", f"/v1/sandboxes/{a}/files/link", {"path": "out", "format": "tar.gz"})
    short = me.call("POST", f"/v1/sandboxes/{a}/files/link", {"path": "out", "ttl_ms": 1000})
    nobody = node.door("")
    nobody.credential = ""

    def status(method, url, headers=None):
        with contextlib.closing(nobody.open(method, url, None, headers)) as r:
            r.read()
            return r.status
    begin = f"http://127.0.0.1:{node.port}/"
    assert made["url"].startswith(begin) and short["url"].startswith(begin)
    url, token = made["url"][len(begin) - 1:], made["url"][-123:]
    with contextlib.closing(nobody.open("GET", url)) as r:
        assert r.status == 200
        assert names(gzip.decompress(r.read())) == {".": None, "./f": b"data", "./g": b"more"}
        guarded(r)
    with contextlib.closing(me.open("GET", f"/v1/sandboxes/{a}/files/content?path=out/f")) as r:
        assert r.read() == b"data"
        guarded(r)
    for wrong in (url.replace("path=out", "path=."), url.replace("tar.gz", "tar"), url.replace(a, b),
                  url.replace("/tree", "/content"), url[:-1] + ("A" if url[-1] != "A" else "E"),
                  f"/v1/sandboxes/{a}/files/tree?token={token}", f"/v1/sandboxes/{a}?x=y&token={token}",
                  url.replace("path=out", "path=out&path=out"), f"/v1/sandboxes/{a}/execs?a=b&token={token}"):
        assert status("GET", wrong) in (400, 401, 404, 429), wrong
    for method in ("PUT", "POST", "DELETE"):
        assert status(method, url) in (401, 404, 405, 429), method
    assert status("GET", f"/v1/sandboxes/{a}", {"Authorization": "Bearer " + token}) in (401, 429)
    let_pass(2.1)
    assert status("GET", short["url"][len(begin) - 1:]) in (401, 429)
    assert status("GET", url) == 200


def test_a_bomb_stops_at_the_quota(node, two):
    """FS-04: ten gigabytes from ten megabytes; the sandbox is full, the node is not, and it is soon over."""
    me, a, _ = two
    disk = node.call("GET", "/v1/health").get("disk", "none")
    box = me.create("tiny", limits={"disk_bytes": 8 << 20}) if disk != "none" else a
    more = "" if disk != "none" else "&max_bytes=8388608"
    i = tarfile.TarInfo("big")
    i.size = 10 << 30
    bomb = gzip.compress(i.tobuf() + bytes(64 << 20), 1)
    begin = time.monotonic()
    with pytest.raises(ApiError) as e:
        me.call("PUT", f"/v1/sandboxes/{box}/files/tree?path=x&format=tar.gz{more}", bomb)
    assert e.value.code in ("limit_exceeded", "too_large", "invalid_argument"), e.value
    assert time.monotonic() - begin < 45
    assert me.exec(box, ["ls", "-A", "x"]).text == ""
    if box != a:
        me.delete(box)


def test_cay_cp(node, two, tmp_path):
    _, a, b = two
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_bytes(b"x" * 300000)
    (tmp_path / "d/run").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "d/run").chmod(0o755)

    def run(*words, **more):
        env = {**os.environ, "CAY_SOCKET": node.socket, "CAY_TIMEOUT": "20s"}
        return subprocess.run([str(node.programs["cay"]), *words], env=env, capture_output=True, check=True, **more)
    run("cp", str(tmp_path / "d"), f"{a}:in")
    assert node.exec(a, ["sh", "-c", "in/run; wc -c < in/e/f"]).text.split() == ["ran", "300000"]
    run("cp", f"{a}:in", f"{b}:across")
    run("cp", f"{b}:across", str(tmp_path / "back"))
    assert (tmp_path / "back/e/f").read_bytes() == b"x" * 300000 and os.access(tmp_path / "back/run", os.X_OK)
    run("cp", f"{b}:across/run", str(tmp_path / "one"))
    assert os.access(tmp_path / "one", os.X_OK)
    run("cp", "-", f"{a}:typed", input=b"by hand")
    assert run("cat", f"{a}:typed").stdout == b"by hand"
