# SPDX-License-Identifier: Apache-2.0
"""The command line from another machine: a context, TLS, a real edge behind it"""
import contextlib
import hashlib
import json
import os
import re
import subprocess

import certs
import pytest
import world
from cay import wait_for
from conftest import BUILD


class Person:
    """Who has a key, a home, and no socket of the daemon's."""
    def __init__(self, w, home, ca):
        self.program, self.world = w.programs["cay"], w
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "CAY_TIMEOUT": "20s", "CAY_CONTEXT": "node"}
        self.add("node", w.operator_key(), ca)

    def add(self, name, token, ca):
        self("context", "add", name, "--url", f"https://localhost:{self.world.port}", "--ca", ca, "--token-stdin", data=token.encode())

    def start(self, *words, **kw):
        return subprocess.Popen([self.program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env, **kw)

    def __call__(self, *words, data=b"", status=0):
        p = self.start(*words)
        out, err = p.communicate(data, timeout=60)
        assert p.returncode == status, (words, p.returncode, err.decode())
        return out.decode()


def readable(top):
    """By the edge, which is another user."""
    top.chmod(0o755)
    for parent in top.parents:
        with contextlib.suppress(OSError):
            parent.chmod(parent.stat().st_mode | 0o011)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    top = tmp_path_factory.mktemp("tls")
    readable(top)
    ca = certs.Authority(top)
    cert, key = ca.issue("edge")
    os.chown(key, world.EDGE_UID, world.EDGE_UID)
    return ca.file, {"CAY_EDGE_CERT": cert, "CAY_EDGE_KEY": key}


@pytest.fixture(scope="module")
def far(files):
    with world.World(BUILD, env=files[1]) as w:
        yield w


@pytest.fixture
def cay(far, files, tmp_path):
    return Person(far, tmp_path, files[0])


def test_a_life_from_another_machine(cay):
    assert cay("run", "tiny", "--", "echo", "hi") == "hi\n"
    box = cay("create", "--name", "demo", "--label", "a=b", "tiny").strip()
    assert "demo" in cay("ls") and json.loads(cay("ls", "--label", "a=b", "--json"))["sandboxes"][0]["id"] == box
    assert cay("exec", "demo", "--", "sh", "-c", "cat; echo err >&2; exit 7", data=b"in", status=7) == "in"
    cay("pause", "demo")
    cay("resume", "demo")
    cay("label", "demo", "c=d")
    assert cay("extend", "demo", "2h").startswith("20")
    assert "running" in cay("why", "demo") and "running" in cay("events", "demo")
    done = cay("exec", "-d", "demo", "--", "true").strip()
    assert re.fullmatch(r"ex[0-9a-z]{24}", done)
    cay("rm", "demo")
    assert "killed" in cay("why", box) and "0 findings" in cay("fsck") and "cayd" in cay("version")


def test_what_an_operator_does_from_another_machine(cay, files):
    cay("image", "import", "--name", "second", "-", data=world.tiny())
    assert "second" in cay("image", "ls")
    cay("image", "rm", "second")
    cay("tenant", "create", "blue")
    secret = cay("key", "create", "--tenant", "blue", "--scope", "write", "ci").strip()
    prefix = secret.split("_")[1]
    assert prefix in cay("key", "ls") and "blue" in cay("tenant", "ls")
    cay.add("blue", secret, files[0])
    box = cay("--context", "blue", "create", "tiny").strip()
    assert box not in cay("ls") and cay("--context", "blue", "exec", box, "--", "echo", "mine") == "mine\n"
    cay("--context", "blue", "key", "ls", status=3)
    cay("--context", "blue", "rm", box)
    cay("key", "revoke", prefix)
    def refused():
        p = cay.start("--context", "blue", "ls")
        return "cay context add --replace" in p.communicate(timeout=60)[1].decode() and p.returncode == 3
    wait_for("the key to be refused", refused, 60)
    assert "key.revoke" in cay("audit", "ls") and cay("audit", "head")


def test_a_token_is_a_context_for_one_sandbox(cay, files, tmp_path):
    box, other = cay("create", "tiny").strip(), cay("create", "tiny").strip()
    until = cay("token", "--scope", "write", "--ttl", "10m", "--out", str(tmp_path / "token"), box)
    assert until.startswith("20") and (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    cay("context", "add", "one", "--url", f"https://localhost:{cay.world.port}", "--ca", files[0], "--token-file", str(tmp_path / "token"))
    assert cay("--context", "one", "exec", box, "--", "echo", "hi") == "hi\n"
    cay("--context", "one", "exec", other, "--", "echo", "hi", status=3)
    cay("--context", "one", "ls", status=3)
    assert cay("token", box).startswith("cayt_") and json.loads(cay("token", "--json", box))["token"].startswith("cayt_")
    cay("rm", box, other)


def test_megabytes_through_a_command_and_back(cay):
    box, data = cay("create", "tiny").strip(), os.urandom(8 << 20)
    p = cay.start("exec", box, "--", "cat")
    out, err = p.communicate(data, timeout=60)
    assert p.returncode == 0 and hashlib.sha256(out).digest() == hashlib.sha256(data).digest(), err
    cay("rm", box)


def test_a_stream_outlives_the_edge_it_came_through(files, tmp_path):
    """Killed, and back a moment later: not a byte is missing, none comes twice."""
    with world.World(BUILD, env=files[1]) as w:
        cay = Person(w, tmp_path, files[0])
        box = cay("create", "tiny").strip()
        p = cay.start("exec", box, "--", "sh", "-c", "i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.05; done; exit 5")
        follow = cay.start("events", "--follow", "--json", box)
        assert json.loads(follow.stdout.readline())["state"] == "running"
        first = p.stdout.readline()
        w.daemons["cay-edge-0"].kill()
        w.daemons["cay-edge-0"].wait()
        w.edges.clear()
        w.start_edge()
        rest, err = p.communicate(timeout=60)
        assert p.returncode == 5, err
        assert (first + rest).decode().split() == [str(i) for i in range(60)]
        cay("rm", box)
        states = [json.loads(follow.stdout.readline())["state"] for _ in range(2)]
        follow.kill()
        assert states == ["ending", "terminated"], follow.communicate()
