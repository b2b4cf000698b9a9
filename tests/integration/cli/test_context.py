# SPDX-License-Identifier: Apache-2.0
"""Contexts: whom `cay` asks over TCP and TLS, with which token, and what it refuses"""
import contextlib
import hashlib
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import termios
import threading

import pytest

import fake as fake_daemon
from conftest import CAY
from test_cli import wait_for

sys.path.append(str(pathlib.Path(__file__).parents[2] / "lib"))
import certs  # noqa: E402

TOKEN = "cay_0000test_" + "S" * 43


class User:
    """Somebody with a home of their own."""
    def __init__(self, home):
        self.home, self.dir = home, home / "config" / "cay"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "CAY_TIMEOUT": "30s",
                    **{k: v for k, v in os.environ.items() if k.startswith(("ASAN", "UBSAN", "LSAN"))}}

    def start(self, *words, **kw):
        env = {**self.env, **kw.pop("env", {})}
        return subprocess.Popen([CAY, *words], stdin=kw.pop("stdin", subprocess.PIPE), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **kw)

    def __call__(self, *words, data=b"", **kw):
        p = self.start(*words, **kw)
        out, err = p.communicate(data, timeout=60)
        assert TOKEN not in out.decode() + err.decode()
        return subprocess.CompletedProcess(words, p.returncode, out.decode(), err.decode())

    def add(self, name, url, *more):
        r = self("context", "add", name, "--url", url, "--token-stdin", *more, data=TOKEN.encode() + b"\n")
        assert r.returncode == 0, r.stderr
        return self.dir / f"{name}.context"


@pytest.fixture
def user(tmp_path):
    return User(tmp_path)


@pytest.fixture(scope="session")
def ca(tmp_path_factory):
    return certs.Authority(tmp_path_factory.mktemp("certs"))


@contextlib.contextmanager
def serving(ca=None, *issue, **more):
    context = None
    if ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*ca.issue(*issue, **more))
    f = fake_daemon.Fake(tls=context)
    yield f
    f.stop()


@pytest.fixture
def far(ca):
    with serving(ca, "good", "DNS:localhost,IP:127.0.0.1") as f:
        f.url = f"https://localhost:{f.port}"
        yield f


def test_a_context_is_asked_and_its_token_sent(user, far, ca):
    file = user.add("prod", far.url, "--ca", ca.file)
    assert (file.stat().st_mode & 0o777, user.dir.stat().st_mode & 0o777) == (0o600, 0o700)
    far.add(name="demo")
    for words in (["--context", "prod", "ls"], ["--context=prod", "ls"], ["ls", "--context", "prod"]):
        r = user(*words)
        assert r.returncode == 0 and "demo" in r.stdout, r.stderr
    assert all(h["authorization"] == "Bearer " + TOKEN and h["host"] == f"localhost:{far.port}" for h in far.heads)
    assert user("ls").returncode == 8, "the local socket is asked when nothing is said"
    assert user("context", "use", "prod").returncode == 0 and "demo" in user("ls").stdout
    lines = user("context", "ls").stdout.splitlines()
    assert lines[0].split() == ["NAME", "URL", "CA"] and lines[2].split() == ["*", "prod", far.url, ca.file] and lines[1].split()[0] == "local"
    assert json.loads(user("context", "ls", "--json").stdout) == {
        "contexts": [{"name": "local", "current": False}, {"name": "prod", "url": far.url, "ca": ca.file, "current": True}]}
    assert json.loads(user("context", "show", "--json").stdout) == {"name": "prod", "url": far.url, "ca": ca.file, "current": True}
    assert far.url in user("context", "show").stdout
    r = user("context", "rm", "prod")
    assert r.returncode == 5 and "cay context use local" in r.stderr
    assert user("context", "use", "local").returncode == 0 and user("ls").returncode == 8
    assert user("context", "rm", "prod").returncode == 0 and not file.exists()
    assert user("context", "use", "prod").returncode == 4


def test_who_is_asked_is_the_nearest_that_was_said(user, far, ca, daemon):
    user.add("far", far.url, "--ca", ca.file)
    user.add("gone", "https://localhost:1")
    user("context", "use", "gone")
    far.add(name="far-box")
    daemon.add(name="near-box")
    socket_ = {"CAY_SOCKET": daemon.path}
    assert "near-box" in user("ls", env=socket_).stdout
    assert "far-box" in user("ls", env={**socket_, "CAY_CONTEXT": "far"}).stdout
    assert "near-box" in user("--context", "local", "ls", env={**socket_, "CAY_CONTEXT": "far"}).stdout
    for words, env, want in (([], {}, "gone"), ([], socket_, "local"), ([], {"CAY_CONTEXT": "far"}, "far"), (["--context=far"], socket_, "far")):
        assert json.loads(user(*words, "context", "show", "--json", env=env).stdout)["name"] == want
        assert [c["name"] for c in json.loads(user(*words, "context", "ls", "--json", env=env).stdout)["contexts"] if c["current"]] == [want]
    assert user("ls").returncode == 8
    r = user("--context", "far", "ls", "--context", "far")
    assert r.returncode == 2 and "twice" in r.stderr
    (user.dir / "gone.context").unlink()
    r = user("ls")
    assert r.returncode == 4 and "there is no context 'gone'" in r.stderr and "cay context use local" in r.stderr


def test_a_token_has_no_place_on_the_command_line(user):
    for words in (["--token", TOKEN], [f"--token={TOKEN}"], ["--url", f"https://me:{TOKEN}@localhost"]):
        r = user("context", "add", "x", "--url", "https://localhost", *words[-2:], data=b"") if words[0] != "--url" else \
            user("context", "add", "x", *words, "--token-stdin", data=b"t")
        assert r.returncode == 2 and not user.dir.exists(), r.stderr


@pytest.mark.parametrize("data", [b"", b" \n", b"two words\n", b"a\x00b", b"\xc3\xa4", b"x" * 5000])
def test_what_is_no_token_is_refused(user, data):
    r = user("context", "add", "x", "--url", "https://localhost", "--token-stdin", data=data)
    assert r.returncode == 2 and "token" in r.stderr and not user.dir.exists()


def test_a_token_comes_from_a_file(user, far, ca, tmp_path):
    key = tmp_path / "key"
    key.write_text(TOKEN + "\n")
    key.chmod(0o600)
    add = ["context", "add", "prod", "--url", far.url, "--ca", os.path.relpath(ca.file, tmp_path)]
    r = user(*add, cwd=tmp_path)
    assert r.returncode == 2 and "--token-file" in r.stderr
    assert user(*add, "--token-file", "none", cwd=tmp_path).returncode == 2
    r = user(*add, "--token-file", "key", cwd=tmp_path)
    assert r.returncode == 0 and r.stderr == "" and user("--context", "prod", "ls", cwd="/").returncode == 0
    r = user(*add, "--token-file", "key", cwd=tmp_path)
    assert r.returncode == 5 and "already" in r.stderr
    key.write_text("other")
    key.chmod(0o644)
    r = user("context", "add", "--replace", "prod", "--token-file", "key", cwd=tmp_path)
    assert r.returncode == 0 and "other users may read 'key'" in r.stderr
    assert user("--context", "prod", "ls").returncode == 0 and far.heads[-1]["authorization"] == "Bearer other"
    assert user("context", "add", "--replace", "none", "--token-file", "key", cwd=tmp_path).returncode == 4


@pytest.mark.parametrize("leave", [False, True])
def test_a_terminal_does_not_show_a_token(user, leave):
    master, slave = pty.openpty()
    try:
        def echo():
            return bool(termios.tcgetattr(slave)[3] & termios.ECHO)
        p = user.start("context", "add", "x", "--url", "https://localhost", "--token-stdin", stdin=slave)
        assert p.stderr.read(7) == b"token: "
        wait_for(lambda: not echo())
        if leave:
            p.send_signal(signal.SIGINT)
        else:
            os.write(master, TOKEN.encode() + b"\n")
        out, err = p.communicate(timeout=30)
        assert echo() and p.returncode == (2 if leave else 0) and (user.dir / "x.context").exists() != leave, err
        os.set_blocking(master, False)
        with contextlib.suppress(BlockingIOError):
            assert TOKEN.encode() not in os.read(master, 4096)
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("name,said", [("local", "always"), ("", "name"), ("A", "name"), ("../x", "name"), ("a.b", "name"), ("-", "name")])
def test_names(user, name, said):
    r = user("context", "add", "--url", "https://localhost", "--token-stdin", name, data=b"t")
    assert r.returncode == 2 and said in r.stderr and not user.dir.exists()


# -- files

@pytest.mark.parametrize("mode", [0o604, 0o640, 0o622, 0o601])
def test_a_context_others_may_read_is_refused(user, far, ca, mode):
    file = user.add("prod", far.url, "--ca", ca.file)
    file.chmod(mode)
    r = user("--context", "prod", "ls")
    assert r.returncode == 2 and f"other users may read '{file}': run 'chmod 600'" in r.stderr and not far.requests
    assert "not usable" in user("context", "ls").stdout
    file.chmod(0o600)
    assert user("--context", "prod", "ls").returncode == 0


def test_a_directory_others_may_write_to_is_refused(user, far, ca):
    user.add("prod", far.url, "--ca", ca.file)
    user.dir.chmod(0o770)
    r = user("--context", "prod", "ls")
    assert r.returncode == 2 and "chmod 700" in r.stderr and not far.requests
    assert user("context", "use", "prod").returncode == 2


@pytest.mark.parametrize("where", ["file", "directory"])
def test_a_ca_others_may_change_is_refused(user, far, ca, where):
    own = user.home / "trust" / "ca.pem"
    own.parent.mkdir(mode=0o755)
    shutil.copy(ca.file, own)
    own.chmod(0o644)
    user.add("prod", far.url, "--ca", own)
    (own if where == "file" else own.parent).chmod(0o666 if where == "file" else 0o777)
    r = user("--context", "prod", "ls")
    assert r.returncode == 2 and "or its directory: keep it where only you can write" in r.stderr and not far.requests


def test_a_context_of_somebody_else_is_refused(user, far, ca):
    file = user.add("prod", far.url, "--ca", ca.file)
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    for path in (file, user.dir):
        os.chown(path, 12345, -1)
        r = user("--context", "prod", "ls")
        assert r.returncode == 2 and "belongs to user 12345" in r.stderr and not far.requests
        os.chown(path, 0, -1)


def test_a_link_or_a_fifo_is_not_a_context(user, far, ca):
    file = user.add("prod", far.url, "--ca", ca.file)
    shutil.move(file, user.home / "elsewhere")
    file.symlink_to(user.home / "elsewhere")
    assert user("--context", "prod", "ls").returncode == 2
    file.unlink()
    os.mkfifo(file, 0o600)
    assert user("--context", "prod", "ls").returncode == 2 and not far.requests


@pytest.mark.parametrize("text", ["", "garbage", "[context]\nurl = https://localhost\n", "[context]\ntoken = %s  %s\nurl = https://localhost\n" % (TOKEN, TOKEN),
                                  "[context]\nurl = http://box.example\ntoken = t\n", "[other]\n", f"[context]\n{TOKEN}\n", "x" * 20000])
def test_a_damaged_context_is_refused_and_not_repeated(user, text):
    file = user.add("prod", "https://localhost:1")
    file.write_text(text)
    r = user("--context", "prod", "ls")  # looks for the token in what it says
    assert r.returncode == 2 and "prod.context" in r.stderr, r.stderr


def test_contexts_that_are_broken_do_not_stop_other_commands(user):
    user.add("prod", "https://localhost:1")
    user("context", "use", "prod")
    (user.dir / "current").chmod(0o644)
    assert user("ls").returncode == 2 and user("help").returncode == 0
    assert user("context", "use", "local").returncode == 0 and user("ls").returncode == 8


@pytest.mark.parametrize("env", [{"HOME": "", "XDG_CONFIG_HOME": ""}, {"HOME": "x", "XDG_CONFIG_HOME": "x"}, {"HOME": "/none", "XDG_CONFIG_HOME": ""},
                                 {"HOME": "/dev/null", "XDG_CONFIG_HOME": ""}])
def test_who_has_no_home_asks_this_machine(user, daemon, env):
    daemon.add(name="near-box")
    assert "control.sock" in user("ls", env=env).stderr and "near-box" in user("ls", env={**env, "CAY_SOCKET": daemon.path}).stdout
    assert user("--context", "prod", "ls", env=env).returncode == 4 and user("context", "ls", env=env).returncode == 0
    r = user("context", "add", "x", "--url", "https://localhost", "--token-stdin", data=b"t", env={**env, "HOME": ""})
    assert r.returncode == 2 and "HOME is not set" in r.stderr


def test_a_home_of_somebody_else_is_not_looked_into(user, daemon):
    if os.geteuid() != 0:
        pytest.skip("only root becomes somebody else")
    user.add("prod", "https://localhost:1")
    user("context", "use", "prod")
    user.home.chmod(0o700)
    r = user("ls", user=12345, group=12345, extra_groups=[])
    assert r.returncode == 8 and "control.sock" in r.stderr, r.stderr
    r = user("--context", "prod", "ls", user=12345, group=12345, extra_groups=[])
    assert r.returncode == 2 and "Permission denied" in r.stderr


def test_commands_of_the_machine_itself_say_so(user):
    user.add("prod", "https://localhost:1")
    for words in (["doctor"], ["bench"], ["audit", "verify"]):
        r = user("--context", "prod", *words)
        assert r.returncode == 2 and "works on the local machine only" in r.stderr and "--context local" in r.stderr
    assert "checks" in user("--context", "local", "doctor", "--json").stdout


# -- who is there

@pytest.mark.parametrize("url", ["http://box.example", "http://10.0.0.1:7070", "http://[::2]", "http://127.0.0.1.example", "http://0.0.0.0"])
def test_plain_http_leaves_no_machine(user, url):
    r = user("context", "add", "x", "--url", url, "--token-stdin", data=b"t")
    assert r.returncode == 2 and "plain HTTP would send the token" in r.stderr and not user.dir.exists()


def test_plain_http_on_this_machine(user):
    with serving() as f:
        f.add(name="demo")
        for host in ("localhost", "127.0.0.1", "LOCALHOST"):
            user.add(host.lower().replace(".", "-"), f"http://{host}:{f.port}", *(["--replace"] if host == "LOCALHOST" else []))
        for name in ("localhost", "127-0-0-1"):
            assert "demo" in user("--context", name, "ls").stdout
        assert f.heads[0]["authorization"] == "Bearer " + TOKEN


CERTS = {
    "expired": (dict(until="20200202000000Z"), "expired on 2020-02-02", "renew"),
    "early": (dict(since="20980101000000Z"), "not valid before 2098-01-01", "clock"),
    "other-name": (dict(names="DNS:box.example,DNS:*.box.example"), "is not for it, but for box.example, *.box.example", "--url"),
    "only-address": (dict(names="IP:127.0.0.1"), "is not for it, but for 127.0.0.1", "--url"),
    "evil-name": (dict(names="DNS:localhost.evil.example"), "is not for it", "--url"),
}


@pytest.mark.parametrize("name", CERTS)
def test_a_wrong_certificate_is_refused_before_anything_is_sent(user, ca, name):
    more, said, hint = CERTS[name]
    with serving(ca, name, **more) as f:
        user.add("prod", f"https://localhost:{f.port}", "--ca", ca.file)
        r = user("--context", "prod", "ls")
        assert r.returncode == 3 and said in r.stderr and hint in r.stderr and "nothing was sent" in r.stderr, r.stderr
        assert not f.requests


def test_an_address_is_verified_as_one(user, ca, far):
    user.add("good", f"https://127.0.0.1:{far.port}", "--ca", ca.file)
    assert user("--context", "good", "ls").returncode == 0 and far.heads[0]["host"] == f"127.0.0.1:{far.port}"
    with serving(ca, "name-only", "DNS:localhost,DNS:127.0.0.1") as f:
        user.add("bad", f"https://127.0.0.1:{f.port}", "--ca", ca.file)
        r = user("--context", "bad", "ls")
        assert r.returncode == 3 and "is not for it" in r.stderr and not f.requests


def test_a_stranger_is_refused(user, far, tmp_path):
    other = certs.Authority(tmp_path, "other")
    user.add("system", far.url)
    user.add("other", far.url, "--ca", other.file)
    r = user("--context", "system", "ls")
    assert r.returncode == 3 and "not signed by a CA this machine trusts" in r.stderr and "--ca FILE" in r.stderr
    r = user("--context", "other", "ls")
    assert r.returncode == 3 and f"not signed by a CA in {other.file}" in r.stderr and not far.requests
    r = user("context", "add", "x", "--url", far.url, "--ca", str(tmp_path / "other.key"), "--token-stdin", data=b"t")
    assert r.returncode == 2 and "certificates (PEM)" in r.stderr
    os.unlink(other.file)
    assert user("--context", "other", "ls").returncode == 2


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_tls_is_refused(user, ca):
    with serving(ca, "old") as f:
        f.tls.minimum_version, f.tls.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        f.tls.set_ciphers("ALL:@SECLEVEL=0")
        user.add("prod", f"https://localhost:{f.port}", "--ca", ca.file)
        r = user("--context", "prod", "ls")
        assert r.returncode in (7, 8) and not f.requests, r.stderr


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_versions(user, ca, far, version):
    far.tls.minimum_version = far.tls.maximum_version = version
    user.add("prod", far.url, "--ca", ca.file)
    assert user("--context", "prod", "ls").returncode == 0


# -- what goes wrong on the way

def test_plain_where_tls_is_expected_and_the_reverse(user, far, ca):
    def talk(c, f):
        c.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    with socket.create_server(("127.0.0.1", 0)) as s:
        def one():
            c, _ = s.accept()
            with c:
                c.recv(4096)
                talk(c, None)
        t = threading.Thread(target=one)
        t.start()
        user.add("plain", f"https://localhost:{s.getsockname()[1]}", "--ca", ca.file)
        r = user("--context", "plain", "ls")
        t.join()
    assert r.returncode == 7 and "does not speak TLS" in r.stderr and "edge.cert" in r.stderr, r.stderr
    user.add("reverse", f"http://localhost:{far.port}")
    r = user("--context", "reverse", "ls")
    assert r.returncode in (7, 8) and "https" in r.stderr, r.stderr


def test_nobody_is_there(user):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        user.add("silent", f"https://127.0.0.1:{port}")
        r = user("--context", "silent", "ls", env={"CAY_TIMEOUT": "500ms"})
        assert r.returncode == 8 and "no answer" in r.stderr and "firewall" in r.stderr, r.stderr
    r = user("--context", "silent", "ls")
    assert r.returncode == 8 and f"connect to 127.0.0.1:{port}: Connection refused" in r.stderr and "7070" in r.stderr
    user.add("nowhere", "https://nowhere.invalid")
    r = user("--context", "nowhere", "ls")
    assert r.returncode == 8 and "resolve nowhere.invalid" in r.stderr and "cay context show" in r.stderr, r.stderr


def test_a_token_that_is_not_good(user, far, ca):
    user.add("prod", far.url, "--ca", ca.file)
    far.say["GET", "/v1/sandboxes"] = fake_daemon.failure(401, "unauthenticated", "this credential is not good")
    r = user("--context", "prod", "ls")
    assert r.returncode == 3 and "cay context add --replace --token-file FILE prod" in r.stderr
    far.say["GET", "/v1/sandboxes"] = fake_daemon.failure(403, "permission_denied", "this key may not", hint="use another")
    r = user("--context", "prod", "ls")
    assert r.returncode == 3 and "use another" in r.stderr


def test_hostile_names_do_not_reach_the_terminal(user, ca):
    with serving(ca, "escape", names="otherName:1.2.3.4;UTF8:x,DNS:\x1b[31mred") as f:
        user.add("prod", f"https://localhost:{f.port}", "--ca", ca.file)
        r = user("--context", "prod", "ls")
        assert r.returncode == 3 and "\x1b" not in r.stderr and "\\x1b" in r.stderr


# -- streams

def test_megabytes_in_and_out(user, far, ca):
    user.add("prod", far.url, "--ca", ca.file)
    box = far.add(name="demo")
    data = os.urandom(6 << 20)
    p = user.start("--context", "prod", "exec", "demo", "--", "sh", "-c", "tee /dev/stderr; exit 7")
    out, err = p.communicate(data, timeout=60)
    assert p.returncode == 7 and hashlib.sha256(out).digest() == hashlib.sha256(data).digest() and err == data
    assert box["id"] in far.sandboxes and all(h["authorization"] == "Bearer " + TOKEN for h in far.heads)


def test_a_broken_stream_goes_on_by_offset(user, far, ca):
    user.add("prod", far.url, "--ca", ca.file)
    far.add(name="demo")
    far.cut = 150000
    r = user("--context", "prod", "exec", "demo", "--", "seq", "200000")
    assert r.returncode == 0 and r.stdout == "".join(f"{i}\n" for i in range(1, 200001)), r.stderr
    assert len([q for q in far.requests if q[1].endswith("/output")]) > 5


def test_following_goes_on_over_tls(user, far, ca):
    user.add("prod", far.url, "--ca", ca.file)
    box = far.add(name="demo")
    far.cut = 400
    p = user.start("--context", "prod", "events", "--follow", "--json")
    seen = []
    for i in range(5):
        far.happen(box, "paused" if i % 2 else "running")
        seen.append(json.loads(p.stdout.readline())["seq"])
    p.kill()
    p.communicate()
    assert seen == [1, 2, 3, 4, 5]


def everywhere():
    """What `ps` shows of all processes."""
    text = b""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                text += pathlib.Path("/proc", pid, name).read_bytes() + b"\n"
    return text


def test_ps_does_not_show_a_token(user, far, ca):
    add = user.start("context", "add", "prod", "--url", far.url, "--ca", ca.file, "--token-stdin")
    wait_for(lambda: f"--url\0{far.url}".encode() in everywhere())  # exec() is not done at once
    assert TOKEN.encode() not in everywhere()
    add.communicate(TOKEN.encode(), timeout=30)
    box = far.add(name="demo")
    p = user.start("--context", "prod", "events", "--follow")
    far.happen(box, "running")
    p.stdout.readline()
    seen = everywhere()
    p.kill()
    p.communicate()
    assert b"events\0--follow" in seen and TOKEN.encode() not in seen


def test_no_descriptor_outlives_its_use(user, far, ca):
    """A program started by us, a pager say, would not inherit the token's connection."""
    user.add("prod", far.url, "--ca", ca.file)
    box = far.add(name="demo")
    p = user.start("--context", "prod", "events", "--follow")
    far.happen(box, "running")
    p.stdout.readline()
    flags = {}
    for fd in os.listdir(f"/proc/{p.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it is closed by now
            flags[fd] = pathlib.Path(f"/proc/{p.pid}/fdinfo", fd).read_text()
    p.kill()
    p.communicate()
    for fd, text in flags.items():
        assert int(fd) < 3 or int(re.search(r"flags:\s+(\d+)", text)[1], 8) & os.O_CLOEXEC, (fd, text)
