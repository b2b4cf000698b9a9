# SPDX-License-Identifier: Apache-2.0
"""Files: operations that a child does on the connection itself."""
import base64
import http.client
import os
import pathlib
import signal
import socket
import tempfile
import time
import urllib.parse

import pytest

from client import SANDBOX, Connection
from conftest import wait_for

AT = SANDBOX + "/files"


@pytest.fixture
def place():
    """A directory that everybody may use; pytest's own is root's."""
    with tempfile.TemporaryDirectory(dir="/tmp") as d:
        os.chmod(d, 0o777)
        yield pathlib.Path(d)


def q(path, **more):
    if isinstance(path, bytes):
        more["path_b64"] = base64.b64encode(path).decode()
    else:
        more["path"] = str(path)
    return "?" + urllib.parse.urlencode(more)


def read(init, path, headers=None):
    return init.client.ask("GET", AT + "/content" + q(path), headers=headers)


def stat(init, path, **more):
    return init.client.ask("GET", AT + "/stat" + q(path, **more))


def workers(init):
    return [p for p, _ in init.children()]


def half(init, path):
    """A read whose client takes the head and no more: the child waits for it."""
    c = Connection(init.client.path, 60)
    c.request("GET", AT + "/content" + q(path))
    r = c.getresponse()
    assert r.status == 200
    return c, r


@pytest.fixture
def huge(place):
    path = place / "huge"
    with path.open("wb") as f:
        f.truncate(1 << 40)
    return path


# the child


def test_a_reply_is_whole_and_the_last_of_its_connection(init, place):
    (place / "f").write_bytes(b"hello\n")
    r = read(init, place / "f")
    assert (r.status, r.body, r.headers["Connection"], r.headers["Content-Length"]) == (200, b"hello\n", "close", "6")
    assert len(r.headers["Cay-Request"]) == 16
    wait_for(lambda: not workers(init), what="no child")


def test_a_client_that_leaves_takes_its_child_with_it(init, huge):
    c, r = half(init, huge)
    assert len(workers(init)) == 1 and init.processes() == 1
    r.close()
    c.close()
    wait_for(lambda: not workers(init), what="the end of the child")


def test_a_stopped_child_is_ended_too(init, huge):
    c, r = half(init, huge)
    os.kill(workers(init)[0], signal.SIGSTOP)
    r.close()
    c.close()
    wait_for(lambda: not workers(init), what="the end of the child")


def test_a_killed_child_is_not_a_whole_answer(init, huge):
    c, r = half(init, huge)
    os.kill(workers(init)[0], signal.SIGKILL)
    with pytest.raises(http.client.IncompleteRead) as e:
        r.read()
    assert not e.value.partial.strip(b"\0")  # nobody answers into the middle of it
    assert init.client.run("true").json()["end"]["exit_code"] == 0


def test_so_many_children_and_no_more(init, huge):
    held = [half(init, huge) for _ in range(64)]
    r = stat(init, huge)
    assert r.error()[:2] == (503, "overloaded") and r.headers["Retry-After"] == "1"
    # and the sandbox works all the same
    assert init.client.run("true").json()["end"]["exit_code"] == 0
    for c, r in held:
        r.close()
        c.close()
    wait_for(lambda: stat(init, huge).status == 200, what="room")
    assert init.groups() == ["work"]


def test_without_cgroups_too(plain, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 100000)
    assert read(plain, tmp_path / "f").body == b"x" * 100000


def test_born_in_its_cgroup(born, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    assert read(born, tmp_path / "f").body == b"x"


def test_a_claim_decides_who_and_where(init, place):
    (place / "secret").write_text("x")
    (place / "secret").chmod(0o600)
    (place / "open").write_text("y")
    assert init.client.ask("POST", "/v1/claim", {"user": "65534", "cwd": str(place)}).status in (200, 204)
    assert read(init, "open").body == b"y"
    refused, absent = read(init, "secret"), read(init, "absent")
    assert refused.error() == absent.error() == (404, "not_found", "path")
    assert refused.json()["error"]["message"] == absent.json()["error"]["message"]


def test_a_user_that_is_none_is_the_answer(init):
    assert init.client.ask("POST", "/v1/claim", {"user": "nobody-at-all", "cwd": "/"}).status in (200, 204)
    assert stat(init, "/").error() == (400, "invalid_argument", "user")


def test_what_comes_behind_the_request_is_nobodys(init, place):
    (place / "f").write_bytes(b"one")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(init.client.path)
        ask = f"GET {AT}/content{q(place / 'f')} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        s.sendall(ask + ask)
        text = b""
        while got := s.recv(65536):
            text += got
    assert text.count(b"HTTP/1.1 200") == 1 and text.endswith(b"\r\n\r\none")


# reading


@pytest.mark.parametrize("asked, status, body, said", [
    ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
    ("bytes=8-", 206, b"89", "bytes 8-9/10"),
    ("bytes=-3", 206, b"789", "bytes 7-9/10"),
    ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
    ("bytes=4-99999999999999999999999", 206, b"456789", "bytes 4-9/10"),
    ("bytes=10-", 416, None, "bytes */10"),
    ("bytes=-0", 416, None, "bytes */10"),
    ("bytes=3-2", 200, b"0123456789", None),
    ("bytes=0-1,3-4", 200, b"0123456789", None),
    ("lines=1-2", 200, b"0123456789", None),
    ("bytes=x-", 200, b"0123456789", None),
])
def test_ranges(init, place, asked, status, body, said):
    (place / "f").write_bytes(b"0123456789")
    r = read(init, place / "f", {"Range": asked})
    assert (r.status, r.headers["Content-Range"]) == (status, said)
    if body is None:
        assert r.error()[1] == "range_not_satisfiable"
    else:
        assert r.body == body


def test_special_files_are_refused_at_once(init, place):
    os.mkfifo(place / "fifo")
    socket.socket(socket.AF_UNIX).bind(str(place / "sock"))
    began = time.monotonic()
    for path in (place / "fifo", place / "sock", "/dev/zero", place):
        assert read(init, path).error() == (400, "invalid_argument", "path"), path
    mem = read(init, "/proc/self/mem")  # where nothing is mapped
    assert mem.error() == (400, "invalid_argument", "path") and "special file" in mem.json()["error"]["message"]
    # what this process has open is nobody's file
    assert read(init, "/proc/self/fd/0").status == 404
    assert read(init, "/proc/self/root/etc/passwd").status == 404
    assert stat(init, "/proc/self/root/etc/passwd").status == 404 and stat(init, "/proc/self/root", follow="true").status == 404
    assert stat(init, "/proc/self/root").json()["target"] == "/"  # the link itself
    assert init.client.ask("GET", AT + "/watch" + q("/proc/self/root/etc", wait_ms=1)).status == 404
    (place / "f").write_text("x")
    edit = {"path": f"/proc/self/root{place}/f", "edits": [{"old": "x", "new": "y"}]}
    assert init.client.ask("POST", AT + "/edit", edit).status == 404
    assert init.client.ask("POST", AT + "/mkdir", {"path": "/proc/self/cwd", "parents": True}).status == 409
    (place / "loop").symlink_to("loop")
    for loop in (place / "loop/x", *(f"/proc/self/fd/{n}" for n in range(2, 9))):  # some of which come and go
        assert init.client.ask("PUT", AT + "/tree" + q(loop), bytes(1024)).status in (403, 404), loop
    assert init.client.ask("POST", AT + "/mkdir", {"path": f"{place}/loop", "parents": True}).error()[:2] == (409, "conflict")
    assert read(init, "/proc/meminfo").body.startswith(b"MemTotal:")
    assert time.monotonic() - began < 20  # one that is opened as a file is waited for until the client gives up
    wait_for(lambda: not workers(init), what="no child")


def test_a_file_that_shrinks_is_not_a_whole_answer(init, place):
    path = place / "f"
    with path.open("wb") as f:
        f.truncate(64 << 20)
    c, r = half(init, path)
    os.truncate(path, 1 << 20)
    with pytest.raises(http.client.IncompleteRead):
        r.read()


def test_a_file_that_grows_is_what_it_was(init, place):
    path = place / "f"
    with path.open("wb") as f:
        f.truncate(8 << 20)
    c, r = half(init, path)
    with path.open("ab") as f:
        f.write(b"x" * 4096)
    assert len(r.read()) == 8 << 20


# stat


def test_stat(init, place):
    (place / "f").write_bytes(b"12345")
    (place / "f").chmod(0o640)
    os.utime(place / "f", ns=(0, 1_700_000_000_000_000_000))
    (place / "link").symlink_to("f")
    os.mkfifo(place / "fifo")
    told = stat(init, place / "f").json()
    assert told["type"] == "file" and told["size"] == 5 and told["mode"] == "0640" and told["uid"] == 0
    assert told["path"] == str(place / "f") and told["mtime"].startswith("2023-11-14T22:13:20")
    assert stat(init, place / "link").json()["target"] == "f"
    assert stat(init, place / "link", follow="true").json()["type"] == "file"
    assert stat(init, place / "fifo").json()["type"] == "fifo"
    assert stat(init, place).json()["type"] == "directory"
    assert stat(init, place / "none").error() == (404, "not_found", "path")


def test_names_that_are_not_text(init, place):
    name = os.fsencode(place) + b"/\xff\n\x1b--help"
    with open(name, "wb") as f:
        f.write(b"!")
    assert read(init, name).body == b"!"
    told = stat(init, name).json()
    assert "path" not in told and base64.b64decode(told["path_b64"]) == name
    for bad in ("?path_b64=AAAA", "?path_b64=a", "?path_b64=", "?path=", "", "?path=x&path_b64=eA=="):
        assert init.client.ask("GET", AT + "/stat" + bad).status == 400, bad
