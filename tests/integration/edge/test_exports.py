# SPDX-License-Identifier: Apache-2.0
"""Exports: a URL for a path, as long as its sandbox lives; 403 for everything else (ADR 0085)

The shape of the reply, the 403 and the tar of a directory are what sandbox-agent's clients know.
"""
import contextlib
import hashlib
import http.client
import json
import os
import subprocess
import threading

import pytest
import world
from cay import ApiError, wait_for
from conftest import BUILD
from test_revoke import restart_edge
from test_trees import guarded, names, refused, tar


@pytest.fixture(scope="module")
def open_world():
    # a test that is refused often must hear why each time
    with world.World(BUILD, env={"CAY_EDGE_FAILURES": "1000000", "CAY_EDGE_RATE": "100000"}) as w:
        yield w


@pytest.fixture
def box(open_world):
    me = open_world.door()
    sandbox = me.create("tiny")
    yield sandbox
    with contextlib.suppress(ApiError):
        me.delete(sandbox)


def at(box):
    return f"/v1/sandboxes/{box}/exports"


def export(w, box, path, **more):
    return w.door().call("POST", at(box), {"path": path, **more})


def listed(w, box):
    return w.door().call("GET", at(box))["exports"]


def fetch(w, url, headers=None, method="GET"):
    """What anyone gets who has the URL and nothing else."""
    without_key = w.door("")
    without_key.credential = ""
    return without_key.open(method, "/" + url.split("/", 3)[3] if "://" in url else url, None, headers)


def status(w, url, **more):
    with contextlib.closing(fetch(w, url, **more)) as r:
        r.read()
        return r.status


def not_exported(w, url):
    with contextlib.closing(fetch(w, url)) as r:
        error = json.loads(r.read())["error"]
        assert (r.status, error["code"]) == (403, "permission_denied"), (url, error)
        assert "export" in error["hint"], error


def test_a_file_downloads_as_itself(open_world, box):
    me = open_world.door()
    me.call("PUT", f"/v1/sandboxes/{box}/files/tree?path=out", tar({"r 1.csv": os.urandom(300000)}))
    inside = me.exec(box, ["sh", "-c", "pwd; sha256sum 'out/r 1.csv'"]).text.split()
    made = export(open_world, box, "out/r 1.csv")
    assert made["path"] == f"{inside[0].rstrip('/')}/out/r 1.csv" and made["type"] == "file" and made["size"] == 300000
    assert made["url"].startswith(f"http://127.0.0.1:{open_world.port}/")
    with contextlib.closing(fetch(open_world, made["url"])) as r:
        body = r.read()
        assert r.status == 200 and r.headers["Content-Length"] == "300000"
        assert hashlib.sha256(body).hexdigest() == inside[1]
        guarded(r)
    with contextlib.closing(fetch(open_world, made["url"], {"Range": "bytes=4-6"})) as r:
        assert (r.status, r.read()) == (206, body[4:7])
    got = subprocess.run(["curl", "-sS", "--fail", "--noproxy", "*", "--max-time", "20", made["url"]], capture_output=True, check=True)
    assert got.stdout == body
    # nothing was copied: the file is read again
    me.exec(box, ["sh", "-c", "echo new > 'out/r 1.csv'"])
    with contextlib.closing(fetch(open_world, made["url"])) as r:
        assert r.read() == b"new\n"
    # again is the same URL, however the path is spelled, and the size of now
    for path in ("out/r 1.csv", "./out//r 1.csv", made["path"]):
        again = export(open_world, box, path)
        assert (again["url"], again["size"]) == (made["url"], 4)
    assert [{k: e[k] for k in ("path", "type", "size")} for e in listed(open_world, box)] == [{"path": made["path"], "type": "file", "size": 4}]
    assert "cayx_" not in json.dumps(listed(open_world, box)), "who may read may not share"


def test_a_directory_downloads_as_a_tar(open_world, box):
    me = open_world.door()
    me.call("PUT", f"/v1/sandboxes/{box}/files/tree?path=out", tar({"f": b"data", "d/g": b"more"}))
    made = export(open_world, box, "out/")
    assert made["path"].endswith("/out") and made["type"] == "directory" and "size" not in made
    with contextlib.closing(fetch(open_world, made["url"])) as r:
        assert r.status == 200 and r.headers["Content-Type"] == "application/x-tar"
        got = names(r.read())
        assert {k: v for k, v in got.items() if v is not None} == {"./f": b"data", "./d/g": b"more"}
        guarded(r)
    # a directory that becomes a file is another URL, and the old one is over
    me.exec(box, ["sh", "-c", "rm -r out; echo hi > out"])
    file = export(open_world, box, "out")
    assert file["type"] == "file" and file["url"] != made["url"] and len(listed(open_world, box)) == 1
    not_exported(open_world, made["url"])
    assert status(open_world, file["url"]) == 200


def test_a_name_that_is_not_utf8(open_world, box):
    me = open_world.door()
    me.exec(box, ["sh", "-c", "mkdir n; echo hi > n/$(printf 'a\\377')"])
    made = me.call("POST", at(box), {"path_b64": "bi9h/w=="})
    assert "path" not in made and made["path_b64"]
    with contextlib.closing(fetch(open_world, made["url"])) as r:
        assert (r.status, r.read()) == (200, b"hi\n")
    assert me.call("DELETE", at(box) + "?path_b64=bi9h%2Fw%3D%3D")["path_b64"] == made["path_b64"]
    not_exported(open_world, made["url"])


def test_what_was_not_exported_is_403(open_world, box):
    me = open_world.door()
    me.exec(box, ["sh", "-c", "mkdir out; echo a > out/f; echo b > out/g"])
    other = me.create("tiny")
    me.exec(other, ["sh", "-c", "mkdir out; echo theirs > out/f"])
    url = export(open_world, box, "out/f")["url"]
    url = "/" + url.split("/", 3)[3]
    token = url[-123:]
    end = {"A": "B"}.get(url[-10], "A")
    for wrong in (url.replace("out%2Ff", "out%2Fg"), url.replace("out%2Ff", "out"), url.replace(box, other), url.replace("/content?", "/tree?format=tar&"),
                  url.replace("out%2Ff", "out%2F..%2Fout%2Ff"), url.replace("out%2Ff", "out/f"), url[:-10] + end + url[-9:],
                  f"/v1/sandboxes/{box}/files/content?path=/etc/passwd&token={token}", f"/v1/sandboxes/{box}/execs?a=b&token={token}",
                  f"/v1/sandboxes/{box}?x=y&token={token}", f"/v1/sandboxes?x=y&token={token}", f"/v1/sandboxes/sb{'0' * 23}1/files/content?path=/x&token={token}"):
        assert wrong != url
        not_exported(open_world, wrong)
    # nor is it good for anything else
    for method in ("PUT", "POST", "DELETE"):
        assert status(open_world, url, method=method) in (401, 404, 405)
    assert status(open_world, f"/v1/sandboxes/{box}", headers={"Authorization": "Bearer " + token}) == 401
    assert status(open_world, url, headers={"Authorization": "Bearer " + token}) == 401
    assert status(open_world, url) == 200
    # a link that is wrong is not authenticated, as before
    link = me.call("POST", f"/v1/sandboxes/{box}/files/link", {"path": "out/f", "format": "file"})["url"]
    assert status(open_world, link.replace("out%2Ff", "out%2Fg")) == 401
    me.delete(other)


def test_it_lives_as_long_as_its_sandbox(open_world, box):
    """Through restarts of both, and no longer."""
    me = open_world.door()
    me.exec(box, ["sh", "-c", "echo a > f; echo b > g"])
    kept, gone = (export(open_world, box, n)["url"] for n in "fg")
    open_world.restart_cayd()
    assert status(open_world, kept) == status(open_world, gone) == 200
    restart_edge(open_world)
    assert status(open_world, kept) == 200 and export(open_world, box, "f")["url"] == kept
    assert open_world.door().call("DELETE", at(box) + "?path=g")["path"].endswith("/g")
    open_world.restart_cayd()
    restart_edge(open_world)
    assert status(open_world, kept) == 200
    not_exported(open_world, gone)
    open_world.door().delete(box)
    not_exported(open_world, kept)
    assert listed(open_world, box) == []
    open_world.restart_cayd()
    not_exported(open_world, kept)


def test_each_is_revoked_by_itself(open_world, box):
    me = open_world.door()
    me.exec(box, ["sh", "-c", "for n in a b c d; do echo $n > $n; done"])
    urls = {n: export(open_world, box, n)["url"] for n in "abcd"}
    assert me.call("DELETE", at(box) + "?path=b")["size"] == 2
    not_exported(open_world, urls["b"])
    assert [status(open_world, urls[n]) for n in "acd"] == [200, 200, 200]
    refused("not_found", me.call, "DELETE", at(box) + "?path=b")
    # by its URL, as links are
    me.call("POST", f"/v1/sandboxes/{box}/revoke", {"link": urls["c"]})
    not_exported(open_world, urls["c"])
    refused("invalid_argument", me.call, "POST", f"/v1/sandboxes/{box}/revoke", {"link": urls["c"]})
    assert [e["path"][-1] for e in listed(open_world, box)] == ["a", "d"]
    # exported again it is another one
    again = export(open_world, box, "b")["url"]
    assert again != urls["b"] and status(open_world, again) == 200
    not_exported(open_world, urls["b"])
    # all that was ever given away
    me.call("POST", f"/v1/sandboxes/{box}/revoke", {})
    for url in (urls["a"], urls["d"], again):
        not_exported(open_world, url)
    assert listed(open_world, box) == []


def cuts(w):
    text = w.open("GET", "/metrics").read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("cay_edge_requests_cut_total"))


def test_a_download_under_way_is_cut(open_world, box):
    me, before = open_world.door(), cuts(open_world)
    # larger than what waits in sockets
    me.exec(box, ["sh", "-c", "dd if=/dev/zero of=big bs=1M count=48 2>/dev/null"])
    url, other = export(open_world, box, "big")["url"], export(open_world, box, "/etc/passwd")["url"]
    r = fetch(open_world, url)
    assert len(r.read(1000)) == 1000
    me.call("DELETE", at(box) + "?path=big")
    # the client does not read on before it is cut, so the end cannot have been on its way
    wait_for("the edge to cut it", lambda: cuts(open_world) > before, 30)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        r.read()
    assert status(open_world, other) == 200


def test_by_whom(open_world, box):
    w, me = open_world, open_world.door()
    other = w.door(w.new_key("write", w.call("POST", "/v1/tenants", {"name": "exporters"})["id"]))
    token = w.door(me.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"])
    reads = w.door(w.new_key("read"))
    url = export(w, box, "/etc/passwd")["url"]
    for who, code in ((other, "not_found"), (token, "permission_denied"), (reads, "permission_denied")):
        refused(code, who.call, "POST", at(box), {"path": "/etc/passwd"})
        refused(code, who.call, "DELETE", at(box) + "?path=/etc/passwd")
    refused("not_found", other.call, "GET", at(box))
    refused("not_found", other.call, "POST", f"/v1/sandboxes/{box}/revoke", {"link": url})
    theirs = other.create("tiny")
    refused("invalid_argument", other.call, "POST", f"/v1/sandboxes/{theirs}/revoke", {"link": url})
    other.delete(theirs)
    for who in (token, reads):
        assert [e["path"] for e in who.call("GET", at(box))["exports"]] == ["/etc/passwd"]
    assert status(w, url) == 200


def test_which_paths(open_world, box):
    me = open_world.door()
    me.exec(box, ["sh", "-c", "mkdir d; mkfifo d/fifo; ln -s /etc/passwd d/l; ln -s nowhere d/dangling"])
    for path, code in (("none", "not_found"), ("d/dangling", "not_found"), ("../etc/passwd", "invalid_argument"), ("d/..", "invalid_argument"),
                       ("d/fifo", "invalid_argument"), ("/dev/null", "invalid_argument"), ("x" * 4095, "invalid_argument")):
        refused(code, me.call, "POST", at(box), {"path": path})
    for body in ({}, {"path": "d", "path_b64": "ZA=="}):
        refused("invalid_argument", me.call, "POST", at(box), body)
    assert listed(open_world, box) == []
    # a link is exported by its own name and leads where it leads then
    with contextlib.closing(fetch(open_world, export(open_world, box, "d/l")["url"])) as r:
        assert r.read().startswith(b"root:")
    me.call("POST", f"/v1/sandboxes/{box}/pause")
    refused("wrong_state", me.call, "POST", at(box), {"path": "d/l"})
    assert me.call("DELETE", at(box) + "?path=d/l")["type"] == "file", "revoking needs nothing of the sandbox"
    me.call("POST", f"/v1/sandboxes/{box}/resume")


def test_what_a_sandbox_puts_in_its_place(open_world, box):
    """Nothing of the node, nothing that never ends, and no worker that hangs."""
    me = open_world.door()
    me.exec(box, ["sh", "-c", "mkdir d; echo a > d/f"])
    url, tree = export(open_world, box, "d/f")["url"], export(open_world, box, "d")["url"]
    with open("/etc/hostname", "rb") as f:
        host = f.read()
    for hostile in ("mkfifo d/f", "ln -s /dev/zero d/f", "ln -s /proc/1/root/etc/hostname d/f", "ln -s /proc/self/mem d/f", "ln -s f d/f", "mkdir d/f",
                    "ln -s ../../../../../../../../etc/hostname d/f", "ln -s /dev/stdin d/f", "true"):
        me.exec(box, ["sh", "-c", f"rm -rf d/f; {hostile}"])
        with contextlib.closing(fetch(open_world, url)) as r:
            assert host not in r.read() or not host.strip(), hostile
            assert 400 <= r.status < 500, hostile
        if "hostname" not in hostile:
            with contextlib.closing(fetch(open_world, tree)) as r:
                assert r.status == 200 and names(r.read()).get("./f") is None, hostile
    me.exec(box, ["sh", "-c", "echo back > d/f"])
    assert status(open_world, url) == 200


def test_so_many_and_no_more(open_world, box):
    me = open_world.door()
    me.exec(box, ["sh", "-c", "i=0; while [ $i -lt 65 ]; do echo $i > f$i; i=$((i+1)); done"])
    urls = [export(open_world, box, f"f{i}")["url"] for i in range(64)]
    refused("limit_exceeded", me.call, "POST", at(box), {"path": "f64"})
    assert export(open_world, box, "f0")["url"] == urls[0]
    assert {status(open_world, u) for u in urls} == {200}
    # one goes, and all others stay while edges hear of it
    stop, seen = threading.Event(), set()

    def read():
        while not stop.is_set():
            seen.update(status(open_world, urls[i]) for i in (1, 32, 63))
    reader = threading.Thread(target=read)
    reader.start()
    for i in (0, 2, 31, 33, 62):
        me.call("DELETE", at(box) + f"?path=f{i}")
        not_exported(open_world, urls[i])
    stop.set()
    reader.join()
    assert seen == {200}
    assert status(open_world, export(open_world, box, "f64")["url"]) == 200
    assert len(listed(open_world, box)) == 60


def test_the_journal_keeps_so_much_of_a_sandbox(open_world, box):
    me = open_world.door()
    made = me.exec(box, ["sh", "-c", "p=$(printf '%0200d' 0); d=; i=0; while [ $i -lt 18 ]; do d=$d$p/; i=$((i+1)); done; mkdir -p $d; cd $d;"
                                     "i=0; while [ $i -lt 64 ]; do echo $i > f$i; i=$((i+1)); done"])
    assert made.exit_code == 0, made
    deep, done = "/".join(["0" * 200] * 18), 0
    with pytest.raises(ApiError) as e:
        for i in range(64):
            export(open_world, box, f"{deep}/f{i}")
            done += 1
    assert e.value.code == "limit_exceeded" and 40 < done < 64, (done, e.value)
    open_world.restart_cayd()
    assert len(listed(open_world, box)) == done


def test_by_command(open_world, box):
    me = open_world.door()
    me.exec(box, ["sh", "-c", "mkdir out; echo hi > out/f"])

    def cay(*words):
        env = {**os.environ, "CAY_SOCKET": open_world.socket, "CAY_TIMEOUT": "20s"}
        return subprocess.run([str(open_world.programs["cay"]), *words], env=env, capture_output=True, text=True, check=False)
    got = cay("export", "add", f"{box}:out/f")
    assert got.returncode == 0 and "edge.public_url" in got.stderr, got
    assert got.stdout.startswith(f"/v1/sandboxes/{box}/files/content?path=") and status(open_world, got.stdout.strip()) == 200
    assert json.loads(cay("export", "add", "--json", f"{box}:out").stdout)["type"] == "directory"
    rows = [line.split() for line in cay("export", "ls", box).stdout.splitlines()]
    assert rows[0] == ["PATH", "TYPE", "SIZE", "AGE"] and [r[1] for r in rows[1:]] == ["file", "directory"]
    assert cay("export", "rm", f"{box}:out/f").returncode == 0
    not_exported(open_world, got.stdout.strip())
    gone = cay("export", "rm", f"{box}:out/f")
    assert gone.returncode != 0 and "cay export ls" in gone.stderr
    assert cay("export", "add", f"{box}:none").returncode != 0
