# SPDX-License-Identifier: Apache-2.0
"""The world's door: who comes in, where it goes, and that it stays open while control is away"""
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

import cay
import prometheus
import pytest
import world
from cay import ApiError, let_pass, wait_for
from conftest import BUILD, FULL
from routes import routes, words

AWAY_S = 60 if FULL else 4


def refused(code, fn, *args, **more):
    with pytest.raises(ApiError) as e:
        fn(*args, **more)
    assert e.value.code == code, e.value
    return e.value


def raw(w, text):
    """All that comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", w.port), 10) as s:
        s.sendall(text.encode())
        out = b""
        while data := s.recv(65536):
            out += data
    return out.decode()


def status(reply):
    return int(reply.split(" ", 2)[1])


def test_a_life_over_http(node):
    me = node.door(node.new_key())
    box = me.create("tiny", labels={"a": "b"})
    assert me.get(box)["state"] == "running"
    assert me.exec(box, ["echo", "hi"]).text == "hi\n"
    done = me.call("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", "echo out; echo err >&2; exit 3"]})
    assert (done["stdout"], done["stderr"], done["end"]["exit_code"]) == ("out\n", "err\n", 3)
    name = me.exec_detached(box, ["seq", "1", "1000"])
    wait_for("its end", lambda: me.call("GET", f"/v1/sandboxes/{box}/execs/{name}")["state"] == "ended", 20)
    whole = me.exec_output(box, name)
    assert whole == b"".join(b"%d\n" % i for i in range(1, 1001))
    assert me.open("GET", f"/v1/sandboxes/{box}/execs/{name}/output?offset=100").read() == whole[100:]
    sse = me.open("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["echo", "sse"]}, {"Accept": "text/event-stream"})
    assert sse.headers["Content-Type"] == "text/event-stream" and b"sse" in sse.read()
    assert [s["id"] for s in me.call("GET", "/v1/sandboxes?label=a%3Db")["sandboxes"]] == [box]
    me.delete(box)
    assert me.get(box)["end"]["reason"] == "killed"
    states = [e["state"] for e in me.call("GET", f"/v1/events?sandbox={box}")["events"]]
    assert states == ["running", "ending", "terminated"]


def test_one_key_makes_one_sandbox_over_http_too(node):
    me = node.door()
    made = [json.loads(me.open("POST", "/v1/sandboxes", {"image": "tiny"}, {"Idempotency-Key": "once"}).read())["id"] for _ in range(3)]
    assert len(set(made)) == 1
    me.delete(made[0])


def test_a_large_upload_and_a_large_download(node, box):
    me, n = node.door(), 32 << 20
    name = me.exec_detached(box, ["sh", "-c", "cat > /tmp/x; wc -c < /tmp/x"], stdin_open=True)
    data = os.urandom(1 << 16) * (n >> 16)
    me.open("POST", f"/v1/sandboxes/{box}/execs/{name}/stdin?close=true", data).read()
    wait_for("its end", lambda: me.call("GET", f"/v1/sandboxes/{box}/execs/{name}")["state"] == "ended", 60)
    assert me.exec_output(box, name).strip() == str(n).encode()
    reply = me.open("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["cat", "/tmp/x"]}, {"Accept": "application/vnd.cay.frames"})
    got = 0
    while piece := reply.read(1 << 16):
        got += len(piece)
    assert got > n


# -- who

def credentials(w):
    """By name: what is sent, and the best it should be taken for."""
    other = w.call("POST", "/v1/tenants", {"name": "other"})["id"]
    revoked, short = w.new_key(), w.new_key(ttl_ms=1000)
    prefix = revoked.split("_")[1]
    ident = next(k["id"] for k in w.call("GET", "/v1/keys?limit=1000")["keys"] if k["prefix"] == prefix)
    w.call("POST", f"/v1/keys/{ident}/revoke")
    box = w.create("tiny")
    token = w.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
    good = w.new_key("operator")
    let_pass(1.1)
    return box, {
        "none": ("", None), "wrong": (good[:-1] + ("A" if good[-1] != "A" else "E"), None), "garbage": ("x", None), "expired": (short, None),
        "revoked": (revoked, None), "basic": ("basic", None), "other": (w.new_key("operator", other), "other"),
        "read": (w.new_key("read"), "read"), "write": (w.new_key("write"), "write"), "operator": (good, "operator"),
        "token": (token, "token"), "jwt": ("eyJhbGciOiJub25lIn0.e30.", None),
    }


def operations():
    text = json.loads((pathlib.Path(__file__).parents[3] / "docs/api/openapi.json").read_text())
    for path, rows in text["paths"].items():
        for method, row in rows.items():
            content = row.get("requestBody", {}).get("content", {})
            body = content["application/json"].get("example", {}) if "application/json" in content else None
            yield (row["operationId"], method.upper(), path, row["security"][0]["key"][0] if row["security"] else "public",
                   b"" if content and body is None else body)


ORDER = ["public", "read", "write", "operator"]


def answered(door, method, target, body, headers, known):
    """The status, once an edge that is slow itself (sanitized, on a busy machine) does not shed it.

    Who is known, or needs not be, is not answered with what others of its address did."""
    status = 503

    def told():
        nonlocal status
        with contextlib.closing(door.open(method, target, body, headers, timeout_s=20)) as reply:
            status = reply.status
            if status == 429:
                return not known
            return status != 503 or json.loads(reply.read())["error"]["code"] != "overloaded"
    wait_for("an answer", told, 60)
    return status


def test_the_authorisation_matrix(own):
    """Every operation by every credential: nothing answers that should not."""
    box, who = credentials(own)
    absent = {"sandbox": "sb" + "0" * 23 + "1", "exec": "ex" + "0" * 23 + "1", "image": "im" + "0" * 23 + "1",
              "tenant": "tn" + "0" * 23 + "1", "template": "tp" + "0" * 23 + "1", "key": "ky" + "0" * 23 + "1",
              "shell": "sh" + "0" * 23 + "1", "kernel": "kn" + "0" * 23 + "1", "ask": "ak" + "0" * 23 + "1",
              "snapshot": "sn" + "0" * 23 + "1", "volume": "vo" + "0" * 23 + "1"}
    seen, wrong = 0, []
    for name, method, path, scope, body in operations():
        for label, (secret, best) in who.items():
            target = path.replace("{sandbox}", box if label in ("read", "token", "other") else absent["sandbox"])
            for noun, ident in absent.items():
                target = target.replace("{%s}" % noun, ident)
            target = words(name, target)
            if name in ("sandbox.delete", "sandbox.stop", "group.delete"):
                target = target.replace(box, absent["sandbox"]) + ("?group=none" if name == "group.delete" else "")
            door = own.door(secret)
            if label == "basic":
                door.credential = ""
            headers = {"Authorization": "Basic eDp5"} if label == "basic" else {}
            code = answered(door, method, target, body, headers, best is not None or scope == "public")
            seen += 1
            if scope == "public":
                expect = code == 200
            elif best is None:
                expect = code in (401, 429)
            elif best == "token":
                inside = "{sandbox}" in path and box in target and name not in ("sandbox.limits", "sandbox.token", "sandbox.preview", "sandbox.revoke", "sandbox.start", "sandbox.fork", "sandbox.rollback", "snapshot.create", "tree.import", "tree.link", "export.create", "egress.put", "egress.patch", "egress.cut")
                expect = (code not in (401, 403) if inside and ORDER.index(scope) <= 2 else code in (403, 404))
            elif best == "other":
                # an operator sees that another tenant's sandbox is there, and nothing in it
                expect = code == 200 if name == "sandbox.get" else code not in (401, 403) and (code == 404 if "{sandbox}" in path else True)
            else:
                allowed = ORDER.index(scope) <= ORDER.index(best)
                expect = code not in (401, 403) if allowed else code == 403
            if name == "image.pull" and best in ("operator", "other") and code == 403:
                expect = True  # no registry is allowed here: the settings', not the key's
            if not expect:
                wrong.append((name, label, code))
    assert not wrong, wrong
    assert seen > 300


def test_a_foreign_sandbox_is_an_absent_one(node, box):
    other = node.call("POST", "/v1/tenants", {"name": f"foreign-{os.getpid()}"})["id"]
    me = node.door(node.new_key("write", other))
    answers = set()
    for i in range(10000 if FULL else 300):
        ident = box if i % 3 == 0 else "sb" + "".join(cay.secrets.choice("0123456789abcdefghjkmnpqrstvwxyz") for _ in range(24))
        target = ("", "/execs", "/pause")[i % 3 if i % 2 else 1]
        let_pass(0.0015)  # a tenant may not ask more often than a thousand times a second
        reply = me.open("GET" if target != "/pause" else "POST", f"/v1/sandboxes/{ident}{target}")
        text = json.loads(reply.read())
        text["error"].pop("request_id")
        answers.add((reply.status, json.dumps(text)))
    assert len(answers) == 1 and answers.pop()[0] == 404


def test_a_revoked_key_is_refused_at_once(node):
    made = node.call("POST", "/v1/keys", {"tenant": "tn" + "0" * 24, "name": "gone", "scope": "read"})
    me = node.door(made["secret"])
    me.call("GET", "/v1/sandboxes")
    node.call("POST", f"/v1/keys/{made['key']['id']}/revoke")
    wait_for("it to be refused", lambda: me.open("GET", "/v1/sandboxes").status == 401, 5)

    def row():
        return next(k for k in node.call("GET", "/v1/keys?limit=1000")["keys"] if k["id"] == made["key"]["id"])
    wait_for("control to hear of it", lambda: "last_used_at" in row(), 20)


def test_a_rotated_key_lets_go_of_its_old_secret(node, box):
    """By the clock: nobody tells the edge when the time is over; and what goes inside, control does not see."""
    made = node.call("POST", "/v1/keys", {"tenant": "tn" + "0" * 24, "name": "turns", "scope": "read"})
    new = node.call("POST", f"/v1/keys/{made['key']['id']}/rotate", {"overlap_ms": 8000})["secret"]

    def status(secret):
        return node.door(secret).open("GET", f"/v1/sandboxes/{box}/execs").status
    assert status(made["secret"]) == 200
    wait_for("the new one", lambda: status(new) == 200, 20)
    wait_for("the old one's end", lambda: status(made["secret"]) in (401, 429), 30)
    assert status(new) == 200


def test_a_token_is_for_one_sandbox(node, box):
    other = node.create("tiny")
    made = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "read"})
    short = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "read", "ttl_ms": 1000})
    reads = node.door(made["token"])
    assert reads.get(box)["id"] == box and reads.call("GET", f"/v1/sandboxes/{box}/execs")
    refused("permission_denied", reads.exec, box, ["true"])
    for target in ("/v1/sandboxes", f"/v1/sandboxes/{other}", f"/v1/sandboxes/{other}/execs", "/v1/fsck", "/v1/keys"):
        assert reads.open("GET", target).status in (403, 404), target
    writes = node.door(node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"])
    assert writes.exec(box, ["echo", "hi"]).text == "hi\n"
    refused("permission_denied", writes.call, "POST", f"/v1/sandboxes/{box}/token", {})
    let_pass(2.1)
    refused("unauthenticated", node.door(short["token"]).get, box)
    changed = made["token"][:60] + ("A" if made["token"][60] != "A" else "B") + made["token"][61:]
    refused("unauthenticated", node.door(changed).get, box)
    node.delete(other)


def older(w, days, line=0):
    """Make a key of tokens older than it is."""
    path = w.state / "db/token.key"
    lines = [text.split(" ") for text in path.read_text().splitlines()]
    lines[line][1] = str(int(lines[line][1]) - days * 86400)
    path.write_text("".join(" ".join(words) + "\n" for words in lines))


def test_the_key_of_tokens_is_another_one_after_a_while(own):
    """The old one is good until its tokens have ended; streams go on meanwhile."""
    box, path = own.create("tiny"), own.state / "db/token.key"
    name = own.exec_detached(box, COUNT)

    def made():
        return own.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "read", "ttl_ms": 86400000})["token"]

    def number(token):
        return base64.urlsafe_b64decode(token[5:] + "=" * (-len(token[5:]) % 4))[2]

    def good(token):
        return own.door(token).open("GET", f"/v1/sandboxes/{box}/execs").status == 200

    first = made()
    stream = follow(own.door(first), box, name)
    own.restart_cayd(lambda: None)
    assert number(first) == number(made()) == 1 and good(first)
    own.restart_cayd(lambda: older(own, 31))
    second = made()
    assert number(second) == 2 and good(first) and good(second) and path.stat().st_mode & 0o777 == 0o600
    assert [line.split(" ")[0] for line in path.read_text().splitlines()] == ["2", "1"]
    own.restart_cayd(lambda: None)
    assert good(first) and good(second) and number(made()) == 2
    assert stream.readline()
    own.restart_cayd(lambda: older(own, 8))  # its last token has ended by now, whatever this one says
    assert not good(first) and good(second) and len(path.read_text().splitlines()) == 1
    ends_within(stream, STALE_S)
    own.restart_cayd(lambda: older(own, 31))
    third = made()
    assert number(third) == 3 and good(second) and good(third)
    own.restart_cayd(path.unlink)  # whoever wants all of them to end
    assert not good(second) and not good(third) and good(made())
    own.signal(box, name)


def test_a_key_of_tokens_from_before_there_were_numbers(own):
    box, path = own.create("tiny"), own.state / "db/token.key"
    token = own.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "read"})["token"]
    own.restart_cayd(lambda: path.write_text(path.read_text().strip().split(" ")[2]))
    assert own.door(token).get(box)["id"] == box and [t[:2] for t in path.read_text().splitlines()] == ["2 ", "1 "]


def jwt(secret, claims, alg="HS256", kid="one"):
    def part(raw):
        return base64.urlsafe_b64encode(raw).rstrip(b"=")
    text = part(json.dumps({"alg": alg, "kid": kid}).encode()) + b"." + part(json.dumps(claims).encode())
    return (text + b"." + part(hmac.new(secret, text, hashlib.sha256).digest())).decode()


@contextlib.contextmanager
def issuer(tmp_path, more=None):
    """A node that believes one, and what makes its tokens."""
    secret = os.urandom(32)
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [{"kty": "oct", "alg": "HS256", "kid": "one", "use": "sig",
                                          "k": base64.urlsafe_b64encode(secret).rstrip(b"=").decode()}]}))
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        with contextlib.suppress(OSError):
            parent.chmod(parent.stat().st_mode | 0o011)
    env = {"CAY_JWT_KEYS": str(keys), "CAY_JWT_ISSUER": "urn:issuer", "CAY_JWT_AUDIENCE": "cay"}

    def token(key=secret, alg="HS256", kid="one", **claims):
        good = {"iss": "urn:issuer", "aud": "cay", "sub": "somebody", "tenant": "tn" + "0" * 24, "scope": "openid write",
                "exp": int(time.time()) + 600}
        return jwt(key, {**good, **claims}, alg, kid)
    with world.World(BUILD, env={**env, **(more or {})}) as w:
        yield w, token


def test_jwts_of_another_issuer(tmp_path):
    with issuer(tmp_path) as (w, token):
        assert w.door(token()).call("GET", "/v1/sandboxes")["sandboxes"] == []
        for scope in ("write", "write operator"):
            refused("permission_denied", w.door(token(scope=scope)).call, "GET", "/v1/fsck")
        refused("unauthenticated", w.door(token(scope="operator")).call, "GET", "/v1/sandboxes")
        bad = [token(key=os.urandom(32)), token(alg="none"), token(kid="two"), token(alg="HS512")]
        bad += [token(**c) for c in ({"exp": int(time.time()) - 100}, {"iss": "x"}, {"aud": "x"}, {"tenant": "x"},
                                     {"scope": "openid"}, {"nbf": int(time.time()) + 600})]
        for text in bad:
            refused("unauthenticated", w.door(text).call, "GET", "/v1/sandboxes")
        refused("unauthenticated", w.door(token(tenant="tn" + "0" * 23 + "1")).call, "GET", "/v1/sandboxes")


def test_a_jwt_can_be_bound_to_a_group(tmp_path):
    """Also when the edge knows it already."""
    with issuer(tmp_path) as (w, token):
        mine, other = (w.door(token(group=g)) for g in ("alice", "bob"))
        box = mine.call("POST", "/v1/sandboxes", {"image": "tiny"})
        assert box["group"] == "alice"
        for _ in range(3):
            assert mine.get(box["id"])["id"] == box["id"] and w.door(token()).get(box["id"])["id"] == box["id"]
            for path in ("", "/info"):
                refused("not_found", other.call, "GET", f"/v1/sandboxes/{box['id']}{path}")
            assert other.call("GET", "/v1/sandboxes")["sandboxes"] == []
            refused("permission_denied", mine.call, "GET", "/v1/sandboxes?group=bob")
            assert mine.open("GET", "/v1/sandboxes", headers={"Cay-Group": "bob"}).status == 403
        for group in ("", "a b", "-", "x" * 64, None, 7, ["alice"]):
            refused("unauthenticated", w.door(token(group=group)).call, "GET", "/v1/sandboxes")


# -- it is over

COUNT = ["sh", "-c", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.1; done"]
STALE_S = 5  # section 2 of the design


def follow(me, box, name):
    reply = me.open("GET", f"/v1/sandboxes/{box}/execs/{name}/output?follow=true", timeout_s=20)
    assert reply.status == 200 and reply.readline() == b"0\n"
    return reply


def ends_within(reply, seconds):
    """It is cut in the middle: no client takes that for its end."""
    begin = time.monotonic()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        while time.monotonic() - begin < seconds:
            assert reply.read(1)
    assert time.monotonic() - begin < seconds


def upload(me, box, name):
    """A body that never ends."""
    c = socket.create_connection(("127.0.0.1", me.port), 10)
    c.sendall((f"POST /v1/sandboxes/{box}/execs/{name}/stdin HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
               f"Content-Type: application/octet-stream\r\nAuthorization: Bearer {me.credential}\r\n\r\n1\r\nx\r\n").encode())
    return c


def revoke(w, made):
    w.call("POST", f"/v1/keys/{made['key']['id']}/revoke")


def rotate(w, made):
    w.call("POST", f"/v1/keys/{made['key']['id']}/rotate", {})


@pytest.mark.parametrize("how,ttl", [(revoke, None), (rotate, None), (lambda *_: None, 8000)], ids=["revoked", "rotated", "expired"])
def test_a_key_that_is_over_cuts_what_is_open(node, box, how, ttl):
    made = node.call("POST", "/v1/keys", {"tenant": "tn" + "0" * 24, "name": "open", "scope": "write", **({"ttl_ms": ttl} if ttl else {})})
    me, other = node.door(made["secret"]), node.door()
    before = prometheus.metrics(node)["cay_edge_requests_cut_total", (("edge", "0"),)]
    name, sink = other.exec_detached(box, COUNT), other.exec_detached(box, ["cat"], stdin_open=True)
    mine, theirs = follow(me, box, name), follow(other, box, name)
    sending = upload(me, box, sink)
    events = me.open("GET", "/v1/events?follow=true", timeout_s=20)
    assert events.status == 200 and events.readline()
    waits = me.connection(20)
    waits.request("POST", f"/v1/sandboxes/{box}/execs", json.dumps({"argv": ["sh", "-c", f"echo >/tmp/{name}; sleep 30"]}),
                  {**me.says(), "Content-Type": "application/json"})
    wait_for("it to be under way", lambda: other.exec(box, ["sh", "-c", f"[ -e /tmp/{name} ] && echo yes"]).text == "yes\n", 30)
    how(node, made)
    begin = time.monotonic()
    ends_within(mine, STALE_S + (ttl or 0) / 1000)
    left = STALE_S + (ttl or 0) / 1000 - (time.monotonic() - begin)
    sending.settimeout(left)
    assert b" 401 " in sending.recv(4096)
    assert waits.getresponse().status == 401
    with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
        while events.readline():
            pass
    assert time.monotonic() - begin < STALE_S + (ttl or 0) / 1000
    for _ in range(3):
        theirs.readline()
    theirs.close()
    wait_for("it to be counted", lambda: prometheus.metrics(node)["cay_edge_requests_cut_total", (("edge", "0"),)] >= before + 3, 20)
    for job in (name, sink):
        other.signal(box, job)


def test_a_token_that_is_over_cuts_what_is_open(node, box):
    name = node.exec_detached(box, COUNT)
    made = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "read", "ttl_ms": 5000})
    ends_within(follow(node.door(made["token"]), box, name), 5 + STALE_S)
    node.signal(box, name)


def test_who_follows_a_tenant_that_goes_is_let_go(tmp_path):
    """By a JWT: it has no key that would end before."""
    with issuer(tmp_path) as (w, token):
        gone = w.call("POST", "/v1/tenants", {"name": "going"})["id"]
        events = w.door(token(tenant=gone)).open("GET", "/v1/events?follow=true", timeout_s=20)
        mine = w.door(token(exp=int(time.time()) - 52)).open("GET", "/v1/events?follow=true", timeout_s=20)
        assert events.readline() and mine.readline()
        begin = time.monotonic()
        w.call("DELETE", f"/v1/tenants/{gone}")
        while events.readline():
            pass
        assert time.monotonic() - begin < STALE_S
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):  # and a JWT ends by time, its 60 s of skew too
            while mine.read(1):
                pass
        assert time.monotonic() - begin < 8 + STALE_S


# -- the gate

@pytest.mark.parametrize("host,code", [("127.0.0.1", 200), ("localhost:1", 200), ("LOCALHOST", 200), ("evil.example", 403),
                                       ("127.0.0.1.evil.example", 403), ("[::2]", 403), ("localhost.", 403), ("169.254.169.254", 403)])
def test_only_its_own_names_are_served(node, host, code):
    for target, key in (("/v1/health", ""), ("/v1/sandboxes", f"Authorization: Bearer {node.operator_key()}\r\n")):
        assert status(raw(node, f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{key}Connection: close\r\n\r\n")) == code


@pytest.mark.parametrize("origin", ["https:" + "//evil.example", "null", "http:" + "//localhost:3000"])
def test_no_page_may_ask_that_was_not_named(node, origin):
    door = node.door()
    for target in ("/v1/health", "/v1/sandboxes"):
        assert door.open("GET", target, headers={"Origin": origin}).status == 403


def test_a_client_cannot_say_who_it_is(node):
    reads = node.door(node.new_key("read"))
    for name in ("Cay-Actor", "cay-actor", "CAY-ACTOR"):
        reply = reads.open("GET", "/v1/fsck", headers={name: "tn" + "0" * 24 + " operator - -"})
        assert reply.status == 403
    assert node.door("").open("GET", "/v1/sandboxes", headers={"Cay-Actor": "tn" + "0" * 24 + " operator - -"}).status == 401


def test_two_credentials_are_none(node):
    good = f"Authorization: Bearer {node.operator_key()}\r\n"
    head = "GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    assert status(raw(node, head + good + "\r\n")) == 200
    assert status(raw(node, head + good + good + "\r\n")) == 401
    assert status(raw(node, head + good.replace("Bearer ", "Bearer  ") + "\r\n")) == 401
    assert status(raw(node, head + good.replace("Bearer", "bearer") + "\r\n")) == 200


def test_guessing_is_slow():
    """Ten a minute; and a good key or token is not kept out by that."""
    with world.World(BUILD, env={"CAY_EDGE_FAILURES": "10"}) as w:
        box = w.create("tiny")
        token = w.call("POST", f"/v1/sandboxes/{box}/token", {})["token"]
        begin = time.monotonic()
        codes = [w.door("cay_00000000_" + "A" * 43).open("GET", "/v1/sandboxes").status for _ in range(30)]
        back = int((time.monotonic() - begin) / 6) + 1
        assert codes[:10] == [401] * 10 and set(codes[10:]) <= {401, 429} and 10 <= codes.count(401) <= 10 + back
        for secret in ("x.y.z", "cayt_" + "A" * 118, ""):
            late = w.door(secret).open("GET", "/v1/sandboxes")
            assert late.status == 429 or time.monotonic() - begin > 5
        for _ in range(30):  # what came back meanwhile is soon used up
            if late.status == 401:
                late = w.door("").open("GET", "/v1/sandboxes")
        assert late.headers["Retry-After"] == "1" and json.loads(late.read())["error"]["code"] == "rate_limited"
        assert w.door().open("GET", "/v1/sandboxes").status == 200
        assert w.door(token).open("GET", f"/v1/sandboxes/{box}").status == 200


def test_how_long_a_refusal_takes_says_nothing(own):
    """A key whose prefix there is, and one of chance: either takes longer as often as the other, within three sigma."""
    prefix = own.operator_key()[:13]
    chance = random.Random(7)

    def secret():
        return "".join(chance.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") for _ in range(42)) + "A"

    def other():
        return "cay_" + "".join(chance.choice("0123456789abcdefghjkmnpqrstvwxyz") for _ in range(8)) + "_"

    with socket.create_connection(("127.0.0.1", own.port), 10) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def once(key):
            ask = f"GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
            begin = time.perf_counter_ns()
            s.sendall(ask)
            got = s.recv(4096)
            end = time.perf_counter_ns()
            assert got.startswith(b"HTTP/1.1 401") and got.endswith(b"}\n"), got
            return end - begin

        def sigmas(n):
            longer = 0
            for _ in range(n):
                first = chance.random() < 0.5
                # made before either is sent: a client that thinks longer before one is seen, too
                keys, took = (other() + secret(), prefix + secret()), [0, 0]
                for k in (first, not first):
                    took[k] = once(keys[k])
                # whatever a busy machine adds, it is to the first or the second of a pair, and which one that is is chance
                longer += (took[0] > took[1]) - (took[0] < took[1])
            return abs(longer) / n ** 0.5
        # by chance alone one in 370 is larger: three in a row are none
        assert any(sigmas(100000 if FULL else 500) < 3 for _ in range(3))


def test_what_is_refused_is_in_the_audit_log(own):
    """Summed up, with where it came from and whose key it was; never why a credential was not good."""
    reads, before = own.new_key("read"), len(own.call("GET", "/v1/audit?limit=1000")["records"])
    begin = time.monotonic()
    for _ in range(3):
        own.door("x").open("GET", "/v1/sandboxes").read()
        own.door(reads).open("POST", "/v1/sandboxes", {"image": "tiny"}).read()

    def rows():
        found = own.call("GET", "/v1/audit?limit=1000")["records"][before:]
        assert {r["op"] for r in found} <= {"edge.refused"} and {r["peer"] for r in found} <= {"127.0.0.1"}
        return found

    def count(code):
        return sum(int(r["detail"][6:]) for r in rows() if r["outcome"] == code)
    took = time.monotonic() - begin
    wait_for("all of them", lambda: (count("unauthenticated"), count("permission_denied")) == (3, 3), 30)
    assert len(rows()) <= 2 * (2 + int(took))  # of two reasons, once a second
    ident = next(k["id"] for k in own.call("GET", "/v1/keys?limit=1000")["keys"] if k["prefix"] == reads.split("_")[1])
    assert {r["key"] for r in rows() if r["outcome"] == "permission_denied"} == {ident}


def test_a_tenant_has_a_rate():
    with world.World(BUILD, env={"CAY_EDGE_RATE": "5"}) as w:
        busy = w.door()
        other = w.door(w.new_key("read", w.call("POST", "/v1/tenants", {"name": "quiet"})["id"]))
        begin = time.monotonic()
        codes = [busy.open("GET", "/v1/sandboxes").status for _ in range(100)]
        assert set(codes) == {200, 429} and 10 <= codes.count(200) <= 12 + 5 * (time.monotonic() - begin)
        assert other.open("GET", "/v1/sandboxes").status == 200


def test_a_switch_closes_what_strangers_may_read():
    """But not whether it is well; closed is absent, to all and by any method."""
    with world.World(BUILD, env={"CAY_EDGE_PAGES": "no", "CAY_EDGE_PREVIEWS": "http:" + "//preview.localhost:7070"}) as w:
        def ask(door, method, path):
            reply = door.open(method, path)
            text = json.loads(reply.read() or b"null")
            for own in ("request_id", "details"):
                (text or {}).get("error", {}).pop(own, None)
            return reply.status, text, {k for k, _ in reply.headers.items()}
        closed = {r.path for r in routes(w) if r.scope == "public"} - {"/v1/health"}
        assert closed == {"/docs", "/v1/openapi.json", "/llms.txt", "/tools.json"}
        closed |= {"/redoc", "/openapi.json", "/"}  # aliases, which the document does not list as paths
        for door in (w.door(""), w.door("nonsense"), w.door()):
            for method in ("GET", "POST", "OPTIONS"):
                want = ask(door, method, "/nothing")
                assert want[0] == 404
                assert not [p for p in closed if ask(door, method, p) != want or ask(door, method, p + "?a=b") != want]
            assert door.call("GET", "/health") == door.call("GET", "/v1/health")
        assert w.call("GET", "/tools.json")["profiles"], "the operator's socket still has them"
        shown = w.door("").open("GET", "/docs", headers={"Host": "8080-sb" + "0" * 23 + "1.preview.localhost:7070"})
        assert b"no such endpoint" not in shown.read(), "a preview's paths are its sandbox's"


def test_a_hint_is_for_its_cause(node):
    """What was sent, and what its author reads: the field meant, the fields there are, where the paths are; never the key."""
    me = node.door(node.new_key())
    box = me.create("tiny")

    def hint(code, *request):
        return json.loads(refused(code, me.call, *request).body)["error"]["hint"]
    assert hint("invalid_argument", "POST", "/v1/sandboxes", {"imgae": "tiny"}).startswith("did you mean 'image'? fields: ")
    assert hint("invalid_argument", "POST", f"/v1/sandboxes/{box}/execs", {"command": "ls"}).startswith("fields: argv, shell, ")
    assert hint("invalid_argument", "GET", "/v1/sandboxes?labels=a").startswith("did you mean 'label'? fields: ")
    assert "/docs" in hint("not_found", "POST", f"/v1/sandboxes/{box}/exec", {})
    for path in ("/proc/nothing", "/sys/nothing"):
        assert "inside the sandbox" in hint("permission_denied", "PUT", f"/v1/sandboxes/{box}/files/content?parents=true&path={path}", b"x"), path
    me.delete(box)


def test_a_form_is_not_stored_as_content(node):
    me = node.door(node.new_key())
    box = me.create("tiny")
    at = f"/v1/sandboxes/{box}/files/content?path=f"
    form = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nhello\r\n--b--\r\n'
    for media in ("multipart/form-data; boundary=b", "Multipart/Mixed;boundary=b"):
        r = me.open("PUT", at, form, {"Content-Type": media})
        error = json.loads(r.read())["error"]
        assert r.status == 415 and error["code"] == "unsupported_media" and "as the body" in error["hint"], error
    refused("not_found", me.call, "GET", at)
    # what curl --data-binary says of any bytes
    for media in ("application/x-www-form-urlencoded", "text/csv"):
        assert me.open("PUT", at, b"a=b", {"Content-Type": media}).status == 200
        assert me.open("GET", at).read() == b"a=b"
    me.delete(box)


def test_the_front_page_leads_to_the_reference(node):
    stranger = node.door("")
    for method in ("GET", "HEAD"):
        r = stranger.open(method, "/")
        assert (r.status, r.headers["Location"], r.read()) == (303, "/docs", b"")
    assert stranger.open("GET", "/docs").status == 200
    assert stranger.open("GET", "/", headers={"Host": "evil.test"}).status == 404
    assert stranger.open("POST", "/", {}).status == 404


def test_request_ids_tell_nothing(node):
    """A counter tells strangers how many requests others send between two of theirs."""
    stranger, ids = node.door(""), []
    for _ in range(40):
        reply = stranger.open("GET", "/v1/health")
        reply.read()
        ids.append(int(reply.headers["Cay-Request"], 16))
    assert len(set(ids)) == 40 and sorted(ids) != ids and sorted(ids, reverse=True) != ids
    assert min(abs(a - b) for i, a in enumerate(ids) for b in ids[:i]) > 2 ** 32


def test_why_a_credential_was_refused_is_not_told(node):
    bodies = set()
    for secret in ("", "x", node.operator_key()[:-3] + "AAA", "cayt_" + "A" * 118, "a.b.c"):
        text = json.loads(node.door(secret).open("GET", "/v1/sandboxes").read())
        text["error"].pop("request_id")
        bodies.add(json.dumps(text))
    assert len(bodies) == 1


# -- what it is

def test_what_it_counts_is_told_by_control(own):
    me, edge = own.door(own.new_key()), own.daemons["cay-edge-0"]
    box = me.create("tiny")
    name = me.exec_detached(box, COUNT)
    stream = follow(me, box, name)
    for _ in range(3):
        me.get(box)
    refused("not_found", me.get, box[:-2] + "00")  # control says so
    me.open("GET", "/v1/nothing").read()
    own.door("x").open("GET", "/v1/sandboxes").read()
    own.door(own.new_key("read")).open("POST", "/v1/sandboxes", {"image": "tiny"}).read()
    me.open("GET", "/v1/health", headers={"Host": "evil.example"}).read()
    me.open("GET", "/v1/health", headers={"Origin": "https:" + "//evil.example"}).read()

    def now():
        return {k: v for k, v in prometheus.metrics(own).items() if k[0].startswith("cay_edge")}

    def label(what, **labels):
        return what, tuple(sorted({"edge": "0", **labels}.items()))

    def value(what, **labels):
        return now().get(label(what, **labels))
    want = {label("cay_edge_requests_total", operation=op, code=code): n for op, code, n in (
        ("sandbox.get", "ok", 3), ("sandbox.get", "inside", 1), ("exec.output", "ok", 1), ("none", "not_found", 1),
        ("sandbox.list", "unauthenticated", 1), ("sandbox.create", "ok", 1), ("sandbox.create", "permission_denied", 1))}
    want[label("cay_edge_request_duration_seconds_count", operation="sandbox.get")] = 4
    want |= {label("cay_edge_refusals_total", reason=r): n for r, n in
             (("credential", 1), ("scope", 1), ("host", 1), ("origin", 1), ("peer_rate", 0))}
    seen = {}

    def told():  # record by record: what is asked for between two of them has one and not the other
        seen.update({k: v for k, v in now().items() if k in want})
        return seen == want
    with contextlib.suppress(TimeoutError):
        wait_for("all of it", told, 20)
    assert seen == want
    wait_for("one stream", lambda: (value("cay_edge_requests_open"), value("cay_edge_connections")) == (1, 1), 20)
    pages = int(pathlib.Path(f"/proc/{edge.pid}/statm").read_text().split()[1])
    assert 0.5 < value("cay_edge_memory_bytes") / (pages * os.sysconf("SC_PAGESIZE")) < 2
    assert abs(value("cay_edge_fds") - len(os.listdir(f"/proc/{edge.pid}/fd"))) <= 4
    assert now()["cay_edges", ()] == 1 and value("cay_edge_requests_cut_total") == 0
    me.delete(box)
    wait_for("no stream", lambda: value("cay_edge_requests_open") == 0, 20)
    own.kill_daemon("cayd")  # another control hears it all again
    own.start_cayd()
    wait_for("it all", lambda: value("cay_edge_requests_total", operation="exec.output", code="ok") == 1, 30)
    stream.close()


def test_it_can_do_little(node):
    text = pathlib.Path(f"/proc/{node.daemons['cay-edge-0'].pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    # one filter from before the loop, and one from when it serves
    assert fields["Seccomp"] == "2" and fields["NoNewPrivs"] == "1"
    assert int(fields["Seccomp_filters"]) == (1 if "asan" in str(BUILD) else 2)
    assert fields["Uid"].split()[0] == str(world.EDGE_UID) and int(fields["CapEff"], 16) == 0
    assert int(fields["Threads"]) == 1


@pytest.mark.parametrize("env,said", [
    ({"CAY_EDGE_LISTEN": "0.0.0.0:1234"}, "set edge.cert"), ({"CAY_EDGE_LISTEN": "127.0.0.1"}, "ADDRESS:PORT"),
    ({"CAY_EDGE_LISTEN": "::1:80"}, "ADDRESS:PORT"), ({"CAY_EDGE_CERT": "/x"}, "go together"),
    ({"CAY_EDGE_CERT": "/x", "CAY_EDGE_KEY": "/y"}, "/x"), ({"CAY_JWT_KEYS": "/nothing"}, "jwt.keys"),
    ({"CAY_JWT_KEYS": "/nothing", "CAY_JWT_ISSUER": "i", "CAY_JWT_AUDIENCE": "a"}, "/nothing"),
])
def test_it_does_not_start_wrong(node, env, said):
    p = subprocess.run([node.programs["edge"]], env={**node.env, **env}, user=world.EDGE_UID, group=world.EDGE_UID, extra_groups=[],
                       capture_output=True, text=True, timeout=60)
    assert p.returncode and said in p.stderr
    p = subprocess.run([node.programs["edge"]], env=node.env, capture_output=True, text=True, timeout=60)
    assert p.returncode and "must not be root" in p.stderr


def test_tls(tmp_path):
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        with contextlib.suppress(OSError):
            parent.chmod(parent.stat().st_mode | 0o011)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", tmp_path / "key", "-out", tmp_path / "cert"],
                   check=True, capture_output=True)
    os.chown(tmp_path / "key", world.EDGE_UID, world.EDGE_UID)
    with world.World(BUILD, env={"CAY_EDGE_CERT": str(tmp_path / "cert"), "CAY_EDGE_KEY": str(tmp_path / "key")}) as w:
        w.ca = str(tmp_path / "cert")
        me = w.door()
        box = me.create("tiny")
        assert me.exec(box, ["echo", "over TLS"]).text == "over TLS\n"
        me.delete(box)
        assert "HTTP/1.1 200" not in raw(w, "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")


# -- control is away

@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_what_runs_needs_no_control(own, how):
    me = own.door(own.new_key())
    box = me.create("tiny")
    name = me.exec_detached(box, COUNT)
    follow = me.open("GET", f"/v1/sandboxes/{box}/execs/{name}/output?follow=true", timeout_s=AWAY_S + 30)
    assert follow.readline() == b"0\n"
    own.daemons["cayd"].send_signal(how)
    end, n = time.monotonic() + AWAY_S, 0
    while time.monotonic() < end:
        assert me.exec(box, ["echo", str(n)], timeout_s=20).text == f"{n}\n"
        n += 1
        let_pass(0.05)
    for i in range(1, AWAY_S * 5):
        assert follow.readline() == b"%d\n" % i
    if how == signal.SIGKILL:
        assert me.open("GET", "/v1/sandboxes").status == 503
        own.daemons["cayd"].wait()
        own.start_cayd()
    else:
        own.daemons["cayd"].send_signal(signal.SIGCONT)
    wait_for("control", lambda: me.open("GET", f"/v1/sandboxes/{box}").status == 200, 30)
    assert me.get(box)["state"] == "running"
    other = me.create("tiny")
    wait_for("the new one", lambda: me.exec(other, ["echo", "hi"]).text == "hi\n", 20)
    me.delete(other)
    me.delete(box)
    wait_for("it to be gone", lambda: me.open("GET", f"/v1/sandboxes/{box}/execs").status in (404, 409), 20)


@pytest.mark.alone
def test_who_comes_by_the_edge_is_not_idle(node):
    me = node.door()
    box = me.create("tiny", idle_ms=2000)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        me.exec(box, ["true"])
        let_pass(0.4)
    me.exec(box, ["sleep", "4"], timeout_s=20)
    assert me.get(box)["state"] == "running"
    wait_for("its end", lambda: me.get(box)["state"] == "terminated", 10)
    assert me.get(box)["end"]["reason"] == "idle"


def test_one_that_ends_is_blamed_as_its_end_is(own):
    """While the keeper stands still the sandbox is ending: its PID 1 is dead, and the caller is not to blame."""
    me = own.door()
    box = me.create("tiny")
    keeper = own.daemons["cay-keeper"]
    keeper.send_signal(signal.SIGSTOP)
    try:
        os.kill(own.pid_1(box), signal.SIGKILL)
        wait_for("control to see its death", lambda: me.get(box)["state"] == "ending", 30)
        for method, rest, body in (("POST", "/execs", {"argv": ["true"]}), ("GET", "/files?path=/tmp", None), ("POST", "/pause", None)):
            with pytest.raises(ApiError) as e:
                me.call(method, f"/v1/sandboxes/{box}{rest}", body)
            error = json.loads(e.value.body)["error"]
            assert (error["code"], error["blame"], error["retryable"]) == ("wrong_state", "infra", False), error
    finally:
        keeper.send_signal(signal.SIGCONT)
    wait_for("its end", lambda: me.get(box)["state"] == "failed", 30)


def test_of_one_that_is_paused_control_answers(own):
    """An edge may know an old state only, so it refuses nothing by it: control says what the state is."""
    me = own.door()
    box = me.create("tiny")
    me.call("POST", f"/v1/sandboxes/{box}/pause")
    with pytest.raises(ApiError) as e:
        me.call("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["true"]})
    error = json.loads(e.value.body)["error"]
    assert (error["code"], error["message"]) == ("wrong_state", "the sandbox is paused; resume it first"), error
    me.call("POST", f"/v1/sandboxes/{box}/resume")
    assert me.exec(box, ["echo", "back"]).text == "back\n"
    me.delete(box)


def test_of_one_that_is_stopped_control_answers(own):
    """By the edge as by control: what is open ends with it, and a new run is reached at once; a token does not start it."""
    me = own.door()
    box = me.create("tiny", name="resting", wake="never")
    token = own.door(me.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"])
    running = me.exec_detached(box, ["sleep", "1000"])
    open_stream = me.open("GET", f"/v1/sandboxes/{box}/execs/{running}/output?follow=true", timeout_s=60)
    assert me.call("POST", f"/v1/sandboxes/{box}/stop")["state"] == "stopped"
    with contextlib.suppress(OSError, http.client.HTTPException):
        open_stream.read()  # it ends
    for door in (me, token):
        with pytest.raises(ApiError) as e:
            door.call("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["true"]})
        error = json.loads(e.value.body)["error"]
        assert (error["code"], error["message"]) == ("wrong_state", "the sandbox is stopped; start it first"), error
        assert "cay start" in error["hint"]
    refused("permission_denied", token.call, "POST", f"/v1/sandboxes/{box}/start")
    assert me.get(box)["state"] == "stopped"
    assert me.call("POST", "/v1/sandboxes/resting/start")["state"] == "running"
    assert token.exec(box, ["echo", "back"]).text == "back\n"
    me.delete(box)
