# SPDX-License-Identifier: Apache-2.0
"""What proves who somebody is stands nowhere it could be read later (API-05)"""
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess

import pytest
import world
from conftest import BUILD
from routes import routes
from test_contract import test_edge

# These hold a secret because they are where it lives: of one user, for nobody else.
HOMES = {"operator.key", "token.key"}


class Secrets(dict):
    """By name; and what a search for one looks for."""

    def shapes(self, name):
        text = self[name]
        last = re.fullmatch(r"(?:cay_\w{8}_|cayt_|[^.]+\.[^.]+\.)(.+)", text)[1]  # behind what anybody may know
        raw = base64.urlsafe_b64decode(last + "=" * (-len(last) % 4))
        return {text.encode(), last.encode(), raw, raw.hex().encode(), base64.b64encode(raw).rstrip(b"="), last[: len(last) // 2].encode()}

    def hits(self, where, data):
        return [(where, name) for name in self for shape in self.shapes(name) if len(shape) >= 16 and shape in data]


@pytest.fixture(scope="module")
def talkative(tmp_path_factory):
    """A node that writes down all it ever does, and every kind of secret it knows."""
    top = tmp_path_factory.mktemp("jwt")
    for at in (top, *top.parents):
        if at.stat().st_uid == os.getuid() and at != pathlib.Path("/"):
            at.chmod(at.stat().st_mode | 0o011)
    shared = os.urandom(32)
    (top / "jwks.json").write_text(json.dumps({"keys": [{"kty": "oct", "alg": "HS256", "kid": "one", "use": "sig",
                                                         "k": base64.urlsafe_b64encode(shared).rstrip(b"=").decode()}]}))
    (top / "jwks.json").chmod(0o644)
    env = {"CAY_LOG_LEVEL": "debug", "CAY_LOG_ACCESS": "yes", "CAY_JWT_KEYS": str(top / "jwks.json"), "CAY_JWT_ISSUER": "urn:issuer",
           "CAY_JWT_AUDIENCE": "cay", "CAY_EDGE_RATE": "100000"}
    with world.World(BUILD, env=env) as w:
        w.box = w.create("tiny")
        made = w.call("POST", "/v1/keys", {"tenant": "tn" + "0" * 24, "name": "turned", "scope": "write"})
        claims = {"iss": "urn:issuer", "aud": "cay", "sub": "x", "tenant": "tn" + "0" * 24, "scope": "write", "exp": 4000000000}
        w.secrets = Secrets({
            "operator": w.operator_key(), "key": w.new_key("write"), "rotated": made["secret"],
            "rotated-to": w.call("POST", f"/v1/keys/{made['key']['id']}/rotate", {"overlap_ms": 3600000})["secret"],
            "token": w.call("POST", f"/v1/sandboxes/{w.box}/token", {"scope": "write"})["token"], "jwt": test_edge.jwt(shared, claims),
            # as good as a key, and never seen by us: a client sends it by mistake
            "stranger": "cay_00000000_" + base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode(),
        })
        yield w


def ways(secret):
    """Where people put what should be in Authorization: (headers, query)."""
    basic = base64.b64encode(f"x:{secret}".encode()).decode()
    yield {"Authorization": "Bearer " + secret}, ""
    for scheme in ("Basic", "Token", "Bearer Bearer", "bearer:", ""):
        yield {"Authorization": f"{scheme} {secret}".strip()}, ""
    yield {"Authorization": "Basic " + basic}, ""
    yield {"Authorization": "Bearer " + secret + "x"}, ""
    for name in ("X-API-Key", "Cookie", "Cay-Actor", "Proxy-Authorization", "User-Agent", "Referer", "Last-Event-ID", "Idempotency-Key"):
        yield {name: ("session=" if name == "Cookie" else "") + secret}, ""
    for name in ("token", "access_token", "key", "limit", "cursor"):
        yield {}, f"?{name}={secret}"


def test_API_05_nothing_is_told_back(talkative):
    """In no reply, to any way to send it; and in a URL it is worth nothing, so it gets into no history and no Referer."""
    w, told = talkative, []
    for name, secret in w.secrets.items():
        for i, (headers, query) in enumerate(ways(secret)):
            for target in ("/v1/sandboxes", f"/v1/sandboxes/{w.box}", f"/v1/sandboxes/{w.box}/execs", "/v1/keys", f"/v1/keys/{secret}", "/metrics"):
                reply = w.door("").open("GET", target + query, headers=headers)
                told += w.secrets.hits(target, str(reply.headers).encode() + reply.read())
                assert i == 0 or reply.status >= 400, (name, headers, query, target)
        # and where a value is complained about, or thrown out
        for target, body in (("/v1/keys", {"tenant": secret}), ("/v1/sandboxes", {"image": secret}), ("/v1/sandboxes", {secret: 1}),
                             (f"/v1/sandboxes/{w.box}/execs", {"argv": 1, "env": secret})):
            told += [h for h in w.secrets.hits(target, w.door().open("POST", target, body).read()) if h[1] != name]
    assert not told


def test_API_05_no_operation_takes_a_secret_from_its_url(talkative):
    w = talkative
    for r in routes(w):
        if r.scope != "public":
            for name in ("token", "access_token", "key", "api_key", "auth"):
                reply = w.door("").open(r.method, r.target(sandbox=w.box) + f"?{name}={w.secrets['token']}", b"" if r.method == "POST" else None)
                assert reply.status in (401, 429), (r.name, name)


def bytes_that_are_no_request(w):
    for name, secret in w.secrets.items():
        for text in (f"GET /{secret} HTTP/9.9\r\n\r\n", f"{secret}\r\n\r\n", f"GET / HTTP/1.1\r\nHost: {secret}\r\n\r\n",
                     f"GET / HTTP/1.1\r\nHost: localhost\r\n{secret}\r\n\r\n", f"POST /v1/sandboxes HTTP/1.1\r\nTransfer-Encoding: {secret}\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", w.port), 10) as s:
                s.sendall(text.encode())
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass


def test_API_05_nothing_is_written_down(talkative):
    """Behind all of the above, restarts and a reload: logs, metrics, database, audit, sockets' directory, arguments, environments."""
    w = talkative
    for secret in w.secrets.values():
        w.door(secret).open("GET", f"/v1/sandboxes/{w.box}/execs").read()
    bytes_that_are_no_request(w)
    os.kill(w.pids()["cayd"], signal.SIGHUP)
    w.kill_daemon("cayd")
    w.start_cayd()
    w.start_edge()
    w.door().call("GET", "/v1/sandboxes")
    found, looked = [], 0
    files = [pathlib.Path(p) for p in w.logs.values()] + [p for top in (w.state, w.run) for p in top.rglob("*") if p.is_file() and not p.is_symlink()]
    for path in files:
        if path.name not in HOMES:
            with contextlib.suppress(FileNotFoundError):  # the daemons run, and a database makes and removes some
                found += w.secrets.hits(path, path.read_bytes())
        looked += 1
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            try:
                found += w.secrets.hits(f"{pid}/{name}", pathlib.Path(f"/proc/{pid}/{name}").read_bytes())
                looked += 1
            except OSError:
                pass
    found += w.secrets.hits("metrics", w.open("GET", "/metrics").read())
    found += w.secrets.hits("audit", json.dumps(w.call("GET", "/v1/audit?limit=1000")).encode())
    found += w.secrets.hits("keys", json.dumps(w.call("GET", "/v1/keys?limit=1000")).encode())
    assert not found
    logs = b"".join(pathlib.Path(p).read_bytes() for p in w.logs.values())
    assert looked > 20 and b"key.list" in logs, "it was talkative, or there is nothing to find"


def test_API_05_a_key_is_kept_as_a_hash(talkative):
    """And that files are searched at all: the hash is found where the key is not."""
    w = talkative
    data = b""
    for path in (w.state / "db").iterdir():
        if path.name not in HOMES:
            with contextlib.suppress(FileNotFoundError):
                data += path.read_bytes()
    for name in ("operator", "key", "rotated", "rotated-to"):
        assert hashlib.sha256(w.secrets[name].encode()).hexdigest().encode() in data, name
    for name in HOMES:
        at = w.state / "db" / name
        assert at.stat().st_mode & 0o777 == 0o600 and at.stat().st_uid == world.cay.CONTROL_UID


# -- cores

def limit(pid):
    return next(line.split()[4:6] for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith("Max core"))


def test_API_05_no_core_can_be_made(talkative):
    w = talkative
    for name, pid in w.pids().items():
        if name != "cay-keeper":  # it knows no secret
            assert limit(pid) == ["0", "0"], name
            # of a process that is not dumpable, these are root's
            assert os.stat(f"/proc/{pid}/environ").st_uid == 0, name


def test_API_05_an_edge_that_aborts_leaves_nothing(talkative, tmp_path):
    w = talkative
    tmp_path.chmod(0o777)
    for at in tmp_path.parents:
        if at != pathlib.Path("/"):
            at.chmod(at.stat().st_mode | 0o011)

    def died(argv):
        p = subprocess.Popen(argv, env=w.env, cwd=tmp_path, user=world.EDGE_UID, group=world.EDGE_UID, extra_groups=[world.cay.CONTROL_UID],
                             stderr=subprocess.PIPE, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)))
        if "edge" in argv[0]:
            while b"ready" not in p.stderr.readline():
                pass
            w.door().call("GET", "/v1/sandboxes")
        else:
            world.cay.wait_for("it to run", lambda: os.readlink(f"/proc/{p.pid}/exe") != os.readlink("/proc/self/exe"), 20)
        p.send_signal(signal.SIGABRT)
        code = os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT).si_code
        p.wait()
        p.stderr.close()
        return code, list(tmp_path.iterdir())
    assert died([str(w.programs["edge"])]) == (os.CLD_KILLED, [])
    if pathlib.Path("/proc/sys/kernel/core_pattern").read_text().startswith("core"):
        code, left = died(["/bin/sleep", "100"])  # what anybody else leaves
        assert code == os.CLD_DUMPED and left
