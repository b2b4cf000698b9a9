# SPDX-License-Identifier: Apache-2.0
"""Credentials of registries at rest: sealed with the key of the node, which is apart from them."""
import base64
import contextlib
import json
import os
import pathlib
import subprocess

import cay
import pytest
from conftest import BUILD
from test_backup import halt
from test_pull import private, pull, refused, settings  # noqa: F401

PASSWORD = "correct-horse-7f3a9c"  # of test_pull's private registry
HOSTS = ("one.test", "two.test:5000")


@pytest.fixture
def node():
    with cay.Cay(BUILD) as c:
        yield c


def store(c):
    return c.state / "db/registries.json"


def key(c):
    return c.state / "secret/node.key"


def rows(c):
    return json.loads(store(c).read_text())["registries"]


def listed(c):
    return {r["registry"]: bool(r.get("unreadable")) for r in c.call("GET", "/v1/registries")["registries"]}


def login(c, host, password=PASSWORD):
    return c.call("POST", "/v1/registries", {"registry": host, "username": "robot", "password": password})


def cli(c, *words):
    return subprocess.run([pathlib.Path(BUILD).resolve() / "src/cli/cay", *words], env=c.env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=180)


def stop(c):
    c.daemons["cayd"].terminate()
    assert c.daemons["cayd"].wait(60) == 0


def replace(c, at, text):
    """As cayd would have written it."""
    at.write_text(text)
    os.chown(at, cay.CONTROL_UID, cay.CONTROL_UID)
    at.chmod(0o600)


def spellings(secret):
    yield secret.encode()
    yield base64.b64encode(f"robot:{secret}".encode())
    for cut in range(3):  # wherever it begins in a longer text
        yield base64.b64encode(b"x" * cut + secret.encode())[4 if cut else 0:-4]
    yield secret.encode().hex().encode()


def found(c, secret=PASSWORD):
    """Files of the state and logs with the secret in them, in any spelling."""
    files = [pathlib.Path(at, f) for at, _, names in os.walk(c.state) for f in names]
    files += [pathlib.Path(log) for log in c.logs.values()]
    texts = {}
    for f in files:
        with contextlib.suppress(FileNotFoundError):  # one that was being written
            texts[f] = b"" if f.is_symlink() else f.read_bytes()
    return [f for f, text in texts.items() if any(s in text for s in spellings(secret))]


def test_the_secret_is_nowhere_at_rest(node):
    for host in HOSTS:
        login(node, host)
    node.call("DELETE", f"/v1/registries?registry={HOSTS[1]}")
    assert cli(node, "image", "logins").stdout.split() == [HOSTS[0], "robot"]
    assert found(node) == [], "with the journal open, and its write-ahead log"
    told = [json.dumps(node.call("GET", path)) for path in ("/v1/audit?limit=1000", "/v1/events", "/v1/registries")]
    assert not any(PASSWORD in t for t in told)
    stop(node)
    assert found(node) == []
    assert PASSWORD not in cli(node, "backup", str(node.state / "x.tar")).stdout
    assert key(node).stat().st_mode & 0o777 == 0o600 and key(node).stat().st_uid == cay.CONTROL_UID
    assert key(node).parent.stat().st_mode & 0o777 == 0o700


def test_the_same_secret_is_never_sealed_alike(node):
    login(node, HOSTS[0])
    first = rows(node)[0]["sealed"]
    login(node, HOSTS[0])
    assert len(rows(node)) == 1 and rows(node)[0]["sealed"] != first


def changed(text, at):
    raw = bytearray(base64.b64decode(text))
    raw[at] ^= 1
    return base64.b64encode(bytes(raw)).decode()


def test_a_changed_or_exchanged_row_is_refused(private):  # noqa: F811
    """By a pull that needs it, by the log, `cay image logins` and `cay doctor`; a login mends it."""
    with cay.Cay(BUILD, env=settings(private.host)) as c:
        reference = f"{private.host}/secret/tiny:1"
        login(c, private.host)
        login(c, HOSTS[0], "another-4711")
        assert pull(c, reference)["digest"]
        good = rows(c)
        mine, other = good
        for what, bad in {
            "a byte of the secret": [mine | {"sealed": changed(mine["sealed"], 20)}, other],
            "a byte of the tag": [mine | {"sealed": changed(mine["sealed"], -1)}, other],
            "no base64": [mine | {"sealed": "?"}, other],
            "another's": [mine | {"sealed": other["sealed"]}, other | {"sealed": mine["sealed"]}],
            "another user": [mine | {"username": "root"}, other],
        }.items():
            stop(c)
            replace(c, store(c), json.dumps({"registries": bad}))
            before = c.log("cayd").count("cannot be opened")
            c.start_cayd()
            assert listed(c)[private.host], what
            assert c.log("cayd").count("cannot be opened") > before, what
            refused(lambda: pull(c, reference), 503, "unavailable", "cannot be opened", "cay image login")
        assert "cannot be opened" in cli(c, "image", "logins").stdout
        check = {r["name"]: r for r in json.loads(cli(c, "doctor", "--json").stdout)["checks"]}["registries"]
        assert check["verdict"] == "WARN" and private.host in check["found"] and "node.key" in check["advice"]
        login(c, private.host)
        assert pull(c, reference)["digest"] and listed(c) == {private.host: False, HOSTS[0]: False}
        check = {r["name"]: r for r in json.loads(cli(c, "doctor", "--json").stdout)["checks"]}["registries"]
        assert check["verdict"] == "OK", check


def test_a_lost_key(node):
    """The daemon starts and says so; the key put back opens all, a login makes a new one."""
    login(node, HOSTS[0])
    was = key(node).read_text()
    stop(node)
    key(node).unlink()
    node.start_cayd()
    assert listed(node) == {HOSTS[0]: True} and not key(node).exists(), "no new key takes its place unasked"
    assert f"'{HOSTS[0]}' cannot be opened: put secret/node.key back" in node.log("cayd")
    stop(node)
    replace(node, key(node), was)
    node.start_cayd()
    assert listed(node) == {HOSTS[0]: False}
    for bad in ("", was[:-2], was.upper().replace("\n", "x")):
        stop(node)
        replace(node, key(node), bad)
        node.start_cayd()
        assert listed(node) == {HOSTS[0]: True}
        refused(lambda: login(node, HOSTS[1]), 503, "unavailable", "not a key")
    stop(node)
    key(node).unlink()
    node.start_cayd()
    login(node, HOSTS[1])
    assert listed(node) == {HOSTS[0]: True, HOSTS[1]: False} and key(node).read_text() != was
    assert node.call("DELETE", f"/v1/registries?registry={HOSTS[0]}")["unreadable"]


def clear_text():
    return json.dumps({"registries": [{"registry": h, "username": "robot", "password": PASSWORD} for h in HOSTS]})


def test_passwords_of_an_older_version_are_sealed_at_start(node):
    stop(node)
    replace(node, store(node), clear_text())
    assert found(node) == [store(node)]
    node.start_cayd()
    assert found(node) == [] and listed(node) == dict.fromkeys(HOSTS, False)
    assert "sealed the passwords" in node.log("cayd") and not any("password" in r for r in rows(node))
    stop(node)
    node.start_cayd()
    assert listed(node) == dict.fromkeys(HOSTS, False), "the key is kept"


def dies(c, fault):
    """Whether cayd dies at this point of its start."""
    c.env["CAY_FAULT"] = fault
    try:
        c.start_cayd()
        return False
    except (RuntimeError, OSError, cay.ApiError):
        assert c.daemons["cayd"].wait(60) != 0
        return True
    finally:
        del c.env["CAY_FAULT"]


@pytest.mark.parametrize("point", ["write:created", "write:filled", "write:renamed"])
def test_a_kill_while_they_are_sealed_loses_nothing(node, point):
    """At each write of the start: every file is whole, and the next start completes the sealing."""
    stop(node)
    deaths = 0
    for n in range(1, 20):
        replace(node, store(node), clear_text())
        key(node).unlink(missing_ok=True)
        if not dies(node, f"{point}=kill@{n}"):
            break
        deaths += 1
        kinds = {"password" if "password" in r else "sealed" for r in rows(node)}
        assert len(rows(node)) == 2 and len(kinds) == 1, "one of them alone"
        assert kinds == {"password"} or key(node).exists(), "sealed with a key that is nowhere"
        node.start_cayd()
        assert listed(node) == dict.fromkeys(HOSTS, False) and found(node) == []
        left = [p.name for d in ("db", "secret") for p in (node.state / d).iterdir() if p.name.startswith(".tmp")]
        assert left == []
        stop(node)
    assert deaths >= 2, "the key and the table"


def test_a_backup_has_the_key(node, tmp_path):
    """Restored on an empty machine the credentials open; db/ alone opens nothing."""
    login(node, HOSTS[0])
    halt(node)
    archive = tmp_path / "node.tar"
    done = cli(node, "backup", str(archive))
    assert done.returncode == 0, done
    assert PASSWORD.encode() not in archive.read_bytes()
    node._remove_cgroups()
    subprocess.run(["rm", "-rf", node.state, node.run], check=True)
    assert cli(node, "restore", str(archive)).returncode == 0
    node.start()
    assert listed(node) == {HOSTS[0]: False}
