# SPDX-License-Identifier: Apache-2.0
"""Files of a real sandbox, by both ways in: the edge, and control's own socket"""
import hashlib
import os
import socket
import time

import cay
import pytest
import world
from cay import ApiError, wait_for


@pytest.fixture(params=["edge", "control"])
def me(node, request):
    return node.door() if request.param == "edge" else node


def at(box):
    return f"/v1/sandboxes/{box}/files"


def test_bytes_both_ways(me, box):
    data = os.urandom(3 << 20)
    r = me.open("PUT", at(box) + "/content?path=/tmp/f&sha256=" + hashlib.sha256(data).hexdigest(), data)
    assert r.status == 200 and b'"created":true' in r.read()
    r = me.open("GET", at(box) + "/content?path=/tmp/f")
    assert r.status == 200 and r.read() == data
    r = me.open("GET", at(box) + "/content?path=/tmp/f", headers={"Range": "bytes=-100000"})
    assert r.status == 206 and r.read() == data[-100000:]
    assert r.headers["Content-Range"] == f"bytes {len(data) - 100000}-{len(data) - 1}/{len(data)}"
    assert me.open("GET", at(box) + "/content?path=/tmp/f", headers={"Range": "bytes=9999999-"}).status == 416
    assert me.exec(box, ["sh", "-c", "wc -c </tmp/f; ls -A /tmp"]).text.split() == [str(len(data)), "f"]


def test_typed_refusals(me, box):
    for code, *ask in (("not_found", "GET", at(box) + "/stat?path=/none"), ("conflict", "POST", at(box) + "/mkdir", {"path": "/tmp"}),
                       ("invalid_argument", "GET", at(box) + "/stat"), ("invalid_argument", "PUT", at(box) + "/content?path=/tmp/x&size=1", b"22")):
        with pytest.raises(ApiError) as e:
            me.call(*ask)
        assert e.value.code == code


def test_a_tree_moves_between_file_systems(me, box):
    me.exec(box, ["sh", "-c", "mkdir -p /workspace/tree/sub && echo x >/workspace/tree/sub/f && ln -s sub /workspace/tree/l"])
    me.call("POST", at(box) + "/move", {"path": "tree", "to": "/dev/shm/tree"})
    assert [e["path"] for e in me.call("GET", at(box) + "?path=/dev/shm&depth=3")["entries"]] == [
        "/dev/shm/cay-generation", "/dev/shm/tree", "/dev/shm/tree/l", "/dev/shm/tree/sub", "/dev/shm/tree/sub/f"]
    assert me.call("GET", at(box) + "?path=.")["entries"] == []


def test_directories_of_the_image_go_and_move(node):
    """An overlay renames none of them."""
    names = ["deep", *(f"deep/{top}{rest}" for top in ("gone", "moved") for rest in ("", "/a", "/a/b", "/a/b/c", "/a/b/d"))]
    node.image_import("deep", world.tiny([cay.directory(n, 0o777) for n in names] + [cay.file(n + "/f", b"x", 0o666) for n in names]))
    box = node.create("deep")
    node.call("POST", at(box) + "/delete", {"path": "/deep/gone", "recursive": True})
    node.call("POST", at(box) + "/move", {"path": "/deep/moved", "to": "/deep/there"})
    assert node.exec(box, ["sh", "-c", "cd /deep; ls . there/a/b"]).text.split() == [".:", "f", "there", "there/a/b:", "c", "d", "f"]
    node.delete(box)


def test_a_client_that_vanishes(node, box):
    door = node.door()
    for n in (0, 1, 65536, 200_000):
        with socket.create_connection(("127.0.0.1", node.port), 10) as s:
            s.sendall((f"PUT {at(box)}/content?path=/tmp/gone HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                       f"Authorization: Bearer {door.credential}\r\nContent-Length: 1000000\r\n\r\n").encode() + b"x" * n)
            wait_for("its child", lambda: len(door.call("GET", f"/v1/sandboxes/{box}/processes")["processes"]) > 1, 30)
    wait_for("no child", lambda: len(door.call("GET", f"/v1/sandboxes/{box}/processes")["processes"]) == 1, 30)
    assert door.exec(box, ["ls", "-A", "/tmp"]).text == ""


def test_nothing_of_the_sandbox_is_executed(me, box):
    """ESC-11: what a sandbox put in the place of its programs and files is data to us."""
    plant = ("for f in tar gzip cp mv rm sha256sum; do rm /bin/$f; printf '#!/bin/sh\\n>/tmp/pwned\\n' >/bin/$f; chmod +x /bin/$f; done; "
             "echo /evil.so >/etc/ld.so.preload; echo 'passwd: evil' >/etc/nsswitch.conf; ln -sf /pwned /etc/group; echo evil:x:7:7::/:/pwn >>/etc/passwd")
    done = me.call("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["/bin/busybox", "sh", "-c", plant.replace("rm /", "busybox rm /")], "user": "0"})
    assert done["end"]["exit_code"] == 0, done
    assert me.open("PUT", at(box) + "/content?path=/tmp/f", b"x").status == 200
    me.call("POST", at(box) + "/copy", {"path": "/tmp/f", "to": "/tmp/g"})
    me.call("POST", at(box) + "/move", {"path": "/tmp/g", "to": "/tmp/h"})
    me.call("POST", at(box) + "/delete", {"path": "/tmp/h"})
    assert me.open("GET", at(box) + "/content?path=/tmp/f").read() == b"x"
    with pytest.raises(ApiError):
        me.call("GET", at(box) + "/stat?path=/tmp/pwned")


def test_a_slow_upload_holds_up_nobody(me, box):
    began = time.monotonic()
    with pytest.raises(ApiError):
        me.call("GET", at(box) + "/content?path=/dev/tty")
    assert me.exec(box, ["echo", "hi"]).text == "hi\n" and time.monotonic() - began < 20
