# SPDX-License-Identifier: Apache-2.0
"""cay login: a server and a key are asked for, tried, and only then kept"""
import json
import pathlib
import stat
import sys

import pytest

import fake as fake_daemon
from conftest import CAY
from test_context import TOKEN, ca, far, serving, user  # noqa: F401

sys.path.append(str(pathlib.Path(__file__).parents[2] / "lib"))
from screen import Screen  # noqa: E402


def test_somebody_types_a_server_and_a_key(far, ca, user):  # noqa: F811
    far.add(name="web")
    with Screen([CAY, "login", "--ca", str(ca.file)], {**user.env, "TERM": "xterm"}) as s:
        s.until(rb"server: ")
        s.type(f"localhost-is-no-name.invalid\x15{far.url}\r".encode())
        s.until(rb"token: ")
        s.type(TOKEN.encode() + b"\r")
        assert s.ends() == 0 and TOKEN.encode() not in s.out and b"current context: localhost" in s.out
        assert s.is_restored()
    kept = user.dir / "localhost.context"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and far.heads[-1]["authorization"] == f"Bearer {TOKEN}"
    assert "web" in user("ls").stdout, "it is not the one that is asked"


def test_a_pipe_has_the_key(far, ca, user):  # noqa: F811
    r = user("login", "--json", "--name", "box", "--ca", str(ca.file), far.url, data=TOKEN.encode())
    assert r.returncode == 0 and json.loads(r.stdout) == {"name": "box", "url": far.url, "current": True}
    assert user("login").returncode == 2, "without a terminal nobody can be asked for the server"


def test_a_key_that_is_refused_is_not_kept(far, ca, user):  # noqa: F811
    far.say["GET", "/v1/sandboxes"] = fake_daemon.failure(401, "unauthenticated", "who are you?")
    r = user("login", "--ca", str(ca.file), far.url, data=TOKEN.encode())
    assert r.returncode == 3 and "nothing was saved" in r.stderr and not list(user.dir.glob("*"))


def test_a_server_that_is_not_believed_gets_no_key(far, user):  # noqa: F811
    r = user("login", far.url, data=TOKEN.encode())
    assert r.returncode != 0 and not far.requests and not list(user.dir.glob("*"))


def test_again_is_another_key_and_another_server_another_context(far, ca, user):  # noqa: F811
    words = ["login", "--name", "box", "--ca", str(ca.file)]
    assert user(*words, far.url, data=b"cay_older").returncode == 0
    assert user(*words, far.url, data=TOKEN.encode()).returncode == 0
    assert TOKEN in (user.dir / "box.context").read_text()
    with serving() as other:
        url = f"127.0.0.1:{other.port}"
        r = user("login", "--name", "box", url, data=TOKEN.encode())
        assert r.returncode == 5 and "--name NAME" in r.stderr and not other.requests
        assert user("login", url, data=TOKEN.encode()).returncode == 0  # plain, since it is this machine
        assert f"url = http://{url}" in (user.dir / "server.context").read_text()


@pytest.mark.parametrize("url", ["http://box.example", "ftp://x", "https://user@box", "box.example/path?"])
def test_a_key_goes_nowhere_it_could_be_read(user, url):  # noqa: F811
    r = user("login", url, data=TOKEN.encode())
    assert r.returncode == 2 and not user.dir.exists()
