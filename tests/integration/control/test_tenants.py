# SPDX-License-Identifier: Apache-2.0
"""Who may do what: the two sockets, actors, tenants and keys."""
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import random
import re
import socket

import cay
import push
import pytest
from cay import ApiError
from conftest import BUILD, tiny
from routes import words
from test_control import refused

DEFAULT = "tn" + "0" * 24
OPENAPI = json.loads((pathlib.Path(__file__).parents[3] / "docs/api/openapi.json").read_text())
SCOPES = ["public", "read", "write", "operator"]


class Operation:
    """A row of ops.def as OpenAPI has it."""

    def __init__(self, path, method, row):
        self.name, self.path, self.method = row["operationId"], path, method.upper()
        self.scope = row["security"][0]["key"][0] if row["security"] else "public"
        content = row.get("requestBody", {}).get("content", {})
        self.body = content["application/json"].get("example", {}) if "application/json" in content else None
        self.raw = bool(content) and self.body is None
        self.inside = "{sandbox}" in path

    def target(self, **ids):
        path = self.path
        for noun in ("sandbox", "exec", "image", "tenant", "template", "key", "shell", "kernel", "ask", "snapshot", "volume"):
            path = path.replace("{%s}" % noun, ids.get(noun, noun_id(noun)))
        return words(self.name, path)

    def ask(self, c, body=None, **ids):
        """Status and body but for the request's id; body: another than the example."""
        reply = c.open(self.method, self.target(**ids), b"" if self.raw else self.body if body is None else body)
        if reply.headers.get("Content-Type", "application/json") != "application/json":
            return reply.status, b""
        text = json.loads(reply.read() or b"{}")
        text.get("error", {}).pop("request_id", None)
        return reply.status, text


OPERATIONS = [Operation(path, method, row) for path, rows in OPENAPI["paths"].items() for method, row in rows.items()]


def noun_id(noun):
    """An id of something that is not there."""
    two = {"sandbox": "sb", "exec": "ex", "image": "im", "tenant": "tn", "template": "tp", "key": "ky", "shell": "sh", "kernel": "kn", "ask": "ak", "snapshot": "sn", "volume": "vo"}[noun]
    return two + "".join(random.choice("0123456789abcdefghjkmnpqrstvwxyz") for _ in range(24))


def seconds(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def named(operations):
    return [pytest.param(o, id=o.name) for o in operations]


def actor(scope, tenant=DEFAULT, key="-", sandbox="-"):
    return f"{tenant} {scope} {key} {sandbox}"


NOBODY = "- public - -"
TOLD = {}


def asks(c, scope, tenant=DEFAULT, sandbox="-"):
    """As the edge asks for somebody who has a key of that scope."""
    if (c.state, scope, tenant) not in TOLD:
        TOLD[c.state, scope, tenant] = new_key(c, tenant, scope)
    key, secret = TOLD[c.state, scope, tenant]
    return c.edge(actor(scope, tenant, key, sandbox), secret)


def raw(path, request):
    """The status of a request as it is written here."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(path)
        s.sendall(request.encode())
        return int(s.recv(64).split()[1])


def get(target, *headers):
    return f"GET {target} HTTP/1.1\r\nHost: cay\r\nConnection: close\r\n" + "".join(h + "\r\n" for h in headers) + "\r\n"


@pytest.mark.parametrize("headers", [
    [], ["Cay-Actor:"], ["Cay-Actor: operator"], [f"Cay-Actor: {DEFAULT} operator -"],
    [f"Cay-Actor: {actor('root')}"], [f"Cay-Actor: {actor('operator')}"] * 2,
    [f"Cay-Actor: {actor('operator')}", "cay-actor: " + NOBODY], [f"Cay-Actor: {actor('operator')}, {actor('operator')}"],
    ["Cay-Actor: - operator - -"], ["Cay-Actor: " + NOBODY] * 2,
])
@pytest.mark.parametrize("target", ["/v1/health", "/v1/sandboxes", "/v1/fsck"])
def test_the_edge_says_once_and_well_who_asks(daemon, headers, target):
    assert raw(daemon.edge("").socket, get(target, *headers)) == 401


def test_who_asks_is_seen_whatever_case_the_header_has(daemon):
    who = asks(daemon, "operator")
    assert raw(who.socket, get("/v1/fsck", f"CAY-ACTOR: {who.actor}", f"AUTHORIZATION: bearer {who.secret}")) == 200


def test_the_operators_socket_takes_no_actor(daemon):
    assert raw(daemon.socket, get("/v1/health")) == 200
    for text in (actor("operator"), NOBODY, ""):
        assert raw(daemon.socket, get("/v1/health", f"Cay-Actor: {text}")) == 400


def test_a_refused_body_is_not_read(daemon):
    """403 and no 100 Continue for an upload that nobody may make."""
    who = asks(daemon, "write")
    head = ("POST /v1/images?name=x HTTP/1.1\r\nHost: cay\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n"
            f"Cay-Actor: {who.actor}\r\nAuthorization: Bearer {who.secret}\r\n\r\n")
    assert raw(who.socket, head) == 403


def test_what_runs_inside_asks_for_its_scope(daemon, box):
    assert asks(daemon, "write").exec(box, ["echo", "hi"]).text == "hi\n"
    refused("permission_denied", asks(daemon, "read").exec, box, ["true"])
    with pytest.raises(ApiError):
        daemon.edge(NOBODY).exec(box, ["true"])


def test_the_rows_are_those_of_the_daemon(daemon):
    served = daemon.call("GET", "/v1/openapi.json")["paths"]
    assert {(p, m) for p, rows in served.items() for m in rows} == {(o.path, o.method.lower()) for o in OPERATIONS}
    assert {o.scope for o in OPERATIONS} == set(SCOPES)


@pytest.fixture(scope="session")
def tenants(daemon):
    """Two, that share a daemon and nothing else."""
    return [daemon.call("POST", "/v1/tenants", {"name": f"tenant-{i}"})["id"] for i in range(2)]


@pytest.fixture
def theirs(daemon, tenants):
    """A sandbox of the first."""
    first = asks(daemon, "write", tenants[0])
    box = first.create("tiny", group="g")
    yield box
    first.delete(box)


def all_there_is(daemon, tenants):
    """What a request that is refused must not change."""
    actors = [asks(daemon, "read", t) for t in (DEFAULT, *tenants)]
    boxes = [s for a in actors for s in a.call("GET", "/v1/sandboxes?state=live")["sandboxes"]
             if s["state"] != "ending"]  # of somebody before, and gone at the next look
    for s in boxes:  # its own token was let in; and times are made anew at each look
        del s["last_activity_at"]
        s.pop("expires_at", None)
    return boxes, daemon.call("GET", "/v1/images")


def whole(o):
    """A request that would do something, if it were let."""
    return {"image": "tiny"} if o.name == "sandbox.create" else o.body


@pytest.mark.parametrize("operation", named(OPERATIONS))
def test_an_actor_does_what_its_scope_says(daemon, tenants, theirs, operation):
    """Operation by actor: nobody, malformed, too little, enough, one sandbox, another's."""
    before, own = all_there_is(daemon, tenants), {"sandbox": theirs}
    for broken in ("", "nonsense", actor("root", tenants[0])):
        assert operation.ask(daemon.edge(broken), whole(operation), **own)[0] == 401, broken
    for scope in SCOPES:
        who = daemon.edge(NOBODY) if scope == "public" else asks(daemon, scope, tenants[0])
        if SCOPES.index(scope) < SCOPES.index(operation.scope):
            status, text = operation.ask(who, whole(operation), **own)
            assert (status, text["error"]["code"]) == (403, "permission_denied"), scope
        else:  # let in; {} and what is not there keep it from doing anything
            assert operation.ask(who, operation.body and {})[0] in (200, 400, 404, 422), scope  # 422: it has no screen
    one = asks(daemon, "operator", tenants[0], sandbox=theirs)
    if operation.scope != "public":
        assert operation.ask(one, whole(operation))[0] == 403, "another sandbox than its own, or none"
    if operation.inside:
        assert operation.ask(one, None if operation.body is None else {"no such member": 1}, exec=noun_id("exec"), sandbox=theirs)[0] \
            in ((403,) if operation.name == "sandbox.start" else (200, 400, 404, 409, 422, 426))
        low = asks(daemon, "read", tenants[0], sandbox=theirs)
        assert operation.scope == "read" or operation.ask(low, whole(operation), **own)[0] == 403
    if operation.name not in ("sandbox.delete", "sandbox.pause", "sandbox.resume", "sandbox.stop", "sandbox.start"):
        assert all_there_is(daemon, tenants) == before


ADMINISTERED = ("sandbox.get", "sandbox.delete")  # an operator may: test_an_operator_can_end_any_tenants_sandbox


@pytest.mark.parametrize("scope,operation", [pytest.param(s, o, id=f"{s}-{o.name}") for s in ("write", "operator") for o in OPERATIONS
                                             if o.inside and not (s == "operator" and o.name in ADMINISTERED)])
def test_a_foreign_sandbox_is_an_absent_one(daemon, tenants, operation, scope):
    """The same status and the same words."""
    victim = asks(daemon, "write", tenants[0])
    box = victim.create("tiny", ttl_ms=60000)
    before = victim.get(box)
    who = asks(daemon, scope, tenants[1])
    other = noun_id("exec")
    foreign, absent = (operation.ask(who, sandbox=s, exec=other) for s in (box, noun_id("sandbox")))
    assert foreign == absent and foreign[0] == 404
    now = victim.get(box)
    assert (now["state"], now.get("labels")) == ("running", before.get("labels"))
    for when in ("last_activity_at", "expires_at"):  # made anew at each look, so to the second
        assert abs(seconds(now[when]) - seconds(before[when])) < 1, when
    victim.delete(box)


def test_names_groups_and_keys_are_the_tenants_own(daemon, tenants):
    a, b = (asks(daemon, "write", t) for t in tenants)

    def made(who, key):
        reply = who.open("POST", "/v1/sandboxes", {"image": "tiny", "name": "same", "group": "same", "labels": {"run": "same"}}, {"Idempotency-Key": key})
        assert reply.status == 201
        return json.loads(reply.read())

    first, second = made(a, "k"), made(b, "k")
    assert first["id"] != second["id"] and [first["tenant"], second["tenant"]] == tenants
    assert made(a, "k")["id"] == first["id"] and made(b, "other")["id"] == second["id"]
    for who, own, query in ((a, first, "group=same"), (b, second, "name=same"), (a, first, "group=same&limit=1")):
        page = who.call("GET", "/v1/sandboxes?state=live&" + query)
        assert [s["id"] for s in page["sandboxes"]] == [own["id"]]
    assert [s["id"] for s in a.call("DELETE", "/v1/sandboxes?label=run%3Dsame")["sandboxes"]] == [first["id"]]
    assert b.get(second["id"])["state"] == "running"
    first = made(a, "another")
    assert [s["id"] for s in a.call("DELETE", "/v1/sandboxes?group=same")["sandboxes"]] == [first["id"]]
    assert b.get(second["id"])["state"] == "running"
    b.delete(second["id"])


def test_a_page_ends_where_the_tenants_sandboxes_do(daemon, tenants):
    """Not even by a cursor is it seen that others have some."""
    a, b = (asks(daemon, "write", t) for t in tenants)
    boxes = [who.create("tiny") for who in (a, b, a, b)]
    seen, page = [], {"next_cursor": 2 ** 62}
    while "next_cursor" in page:
        page = b.call("GET", f"/v1/sandboxes?limit=1&cursor={page['next_cursor']}")
        assert page["sandboxes"], "a page of nothing says that there is somebody else"
        seen += page["sandboxes"]
    assert [s["id"] for s in seen[:2]] == [boxes[3], boxes[1]]
    assert {s["tenant"] for s in seen + b.call("GET", "/v1/sandboxes")["sandboxes"]} == {tenants[1]}
    for who, box in zip((a, b, a, b), boxes):
        who.delete(box)


def test_events_are_the_tenants_own(daemon, tenants):
    a, b = (asks(daemon, "write", t) for t in tenants)
    box = a.create("tiny")
    cay.wait_for("its event", lambda: a.call("GET", f"/v1/events?sandbox={box}")["events"], 20)
    assert {e["sandbox"] for e in a.call("GET", f"/v1/events?sandbox={box}")["events"]} == {box}
    assert b.call("GET", f"/v1/events?sandbox={box}")["events"] == []
    for who, tenant in ((a, tenants[0]), (b, tenants[1])):
        assert {e["tenant"] for e in who.call("GET", "/v1/events")["events"]} <= {tenant}
    stream = b.open("GET", "/v1/events?follow=true&after=0", timeout_s=30)
    mine = b.create("tiny")
    a.delete(box)
    b.delete(mine)
    seen = ""
    while mine not in seen or '"terminated"' not in seen.rpartition(mine)[2]:
        seen += stream.fp.readline().decode()
    assert box not in seen and mine in seen
    stream.close()


def test_a_tenant_has_its_share():
    with cay.Cay(BUILD, env={"CAY_LIMITS_TENANT": "2", "CAY_LIMITS_SANDBOXES": "5"}) as c:
        c.image_import("tiny", tiny())
        boxes = [c.create("tiny") for _ in range(2)]
        assert "tenant" in refused("limit_exceeded", c.create, "tiny")["message"]
        c.delete(boxes[0])
        c.create("tiny")


def test_ten_thousand_guesses_find_nothing(daemon, tenants):
    """Ids near a real one, and others; each of them is absent."""
    victim = asks(daemon, "write", tenants[0])
    box = victim.create("tiny")
    who = asks(daemon, "read", tenants[1])
    connection = cay.UnixConnection(who.socket, 20)
    alphabet, answers = "0123456789abcdefghjkmnpqrstvwxyz", set()
    for i in range(10000 if os.environ.get("CAY_FULL") else 1000):
        at = random.randrange(2, 26)
        guess = box if i % 100 == 0 else box[:at] + random.choice(alphabet) + box[at + 1:] if i % 2 else noun_id("sandbox")
        connection.request("GET", f"/v1/sandboxes/{guess}", headers=who.says())
        reply = connection.getresponse()
        text = json.loads(reply.read())
        text["error"].pop("request_id")
        answers.add((reply.status, json.dumps(text)))
    assert len(answers) == 1 and answers.pop()[0] == 404
    victim.delete(box)


# -- tenants and keys

KEY = re.compile(r"cay_([0-9a-hjkmnp-tv-z]{8})_[A-Za-z0-9_-]{43}")


def check(c, secret):
    """Whose key the edge hears it is; None when it is not good."""
    return push.whose(str(c.run / "edge" / "push.sock"), secret)


def new_key(c, tenant=DEFAULT, scope="write", **more):
    made = c.call("POST", "/v1/keys", {"tenant": tenant, "name": "test", "scope": scope, **more})
    assert KEY.fullmatch(made["secret"])[1] == made["key"]["prefix"]
    return made["key"]["id"], made["secret"]


def key_row(c, key):
    return next(k for k in c.call("GET", "/v1/keys?limit=1000")["keys"] if k["id"] == key)


def test_a_tenant_from_make_to_removal(daemon):
    made = daemon.call("POST", "/v1/tenants", {"name": "short-lived"})
    assert made in daemon.call("GET", "/v1/tenants")["tenants"]
    assert refused("conflict", daemon.call, "POST", "/v1/tenants", {"name": "short-lived"})["field"] == "name"
    refused("conflict", daemon.call, "POST", "/v1/tenants", {"name": "default"})
    refused("invalid_argument", daemon.call, "POST", "/v1/tenants", {"name": "Not A Name"})
    first, proof = new_key(daemon, made["id"])
    own = daemon.edge(actor("write", made["id"], first), proof)
    box = own.create("tiny")
    assert "1 sandbox and" in refused("conflict", daemon.call, "DELETE", "/v1/tenants/" + made["id"])["message"]
    own.delete(box)
    daemon.call("POST", f"/v1/keys/{first}/revoke")
    key, secret = new_key(daemon, made["id"])
    assert "1 active key" in refused("conflict", daemon.call, "DELETE", "/v1/tenants/" + made["id"])["message"]
    daemon.call("POST", f"/v1/keys/{key}/revoke")
    assert daemon.call("DELETE", "/v1/tenants/" + made["id"]) == made
    refused("not_found", daemon.call, "DELETE", "/v1/tenants/" + made["id"])
    refused("unauthenticated", own.create, "tiny")
    refused("unauthenticated", own.get, box)
    assert check(daemon, secret) is None and key not in str(daemon.call("GET", "/v1/keys"))
    refused("not_found", daemon.call, "POST", "/v1/keys", {"tenant": made["id"], "name": "x", "scope": "read"})
    refused("conflict", daemon.call, "DELETE", "/v1/tenants/" + DEFAULT)


@pytest.fixture
def trusting():
    """Where another issuer's tokens are believed, an actor may be without a key."""
    with cay.Cay(BUILD, env={"CAY_JWT_KEYS": "/the/edge/reads/it"}) as c:
        c.image_import("tiny", tiny())
        yield c


def test_who_is_read_slowly_finds_its_tenant_gone(trusting):
    """Let in while it was there, and nothing is made in what is not there any more."""
    gone = trusting.call("POST", "/v1/tenants", {"name": "going"})["id"]
    body = b'{"image":"tiny"}'
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(trusting.edge("").socket)
        s.sendall((f"POST /v1/sandboxes HTTP/1.1\r\nHost: cay\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                   f"Content-Length: {len(body)}\r\nCay-Actor: {actor('write', gone)}\r\n\r\n").encode())
        assert b" 100 " in s.recv(64)
        trusting.call("DELETE", "/v1/tenants/" + gone)
        s.sendall(body)
        assert b" 401 " in s.recv(64)


def test_the_word_of_an_edge_is_not_enough(daemon, tenants):
    """One that was broken into names whom it likes, and knows the id of every key."""
    key, secret = new_key(daemon, tenants[0], "operator")
    _, others = new_key(daemon, tenants[1], "operator")
    assert daemon.edge(actor("operator", tenants[0], key), secret).call("GET", "/v1/fsck")
    for text in (actor("read"), actor("operator"), actor("write", tenants[0]), actor("operator", tenants[0], key)):
        refused("unauthenticated", daemon.edge(text).call, "GET", "/v1/sandboxes")
    digest = hashlib.sha256(secret.encode()).hexdigest()  # it was told that, too
    for wrong in ("", "x", others, digest, secret[:-1], secret + "A", secret[:-2] + ("A" if secret[-2] != "A" else "B") + secret[-1]):
        refused("unauthenticated", daemon.edge(actor("read", tenants[0], key), wrong).call, "GET", "/v1/sandboxes")
    refused("unauthenticated", daemon.edge(actor("operator", tenants[0]), secret).call, "GET", "/v1/fsck")


def test_a_token_is_an_actor_for_one_sandbox(daemon, tenants, theirs):
    """The edge checks tokens with a key it has, so its word counts for that; for an operator it does not."""
    assert daemon.edge(actor("read", tenants[0], sandbox=theirs)).get(theirs)["id"] == theirs
    assert daemon.edge(actor("write", tenants[0], sandbox=theirs)).exec(theirs, ["echo", "hi"]).text == "hi\n"
    refused("unauthenticated", daemon.edge(actor("operator", tenants[0], sandbox=theirs)).get, theirs)
    refused("permission_denied", daemon.edge(actor("write", tenants[0], sandbox=theirs)).call, "GET", "/v1/sandboxes")
    refused("not_found", daemon.edge(actor("write", tenants[1], sandbox=theirs)).get, theirs)


def test_another_issuers_word_is_enough_where_it_is_asked_for(trusting):
    assert trusting.edge(actor("write")).call("GET", "/v1/sandboxes")["sandboxes"] == []
    for scope, target in (("operator", "/v1/fsck"), ("operator", "/v1/sandboxes")):
        refused("unauthenticated", trusting.edge(actor(scope)).call, "GET", target)
    key, secret = new_key(trusting, DEFAULT, "read")
    refused("unauthenticated", trusting.edge(actor("read", DEFAULT, key)).call, "GET", "/v1/sandboxes")
    refused("unauthenticated", trusting.edge(actor("read", noun_id("tenant"))).call, "GET", "/v1/sandboxes")
    assert trusting.edge(actor("read", DEFAULT, key), secret).call("GET", "/v1/sandboxes")


def test_tenants_and_keys_come_in_pages(daemon):
    for i in range(5):
        daemon.call("POST", "/v1/tenants", {"name": f"page-{i}"})
        new_key(daemon)
    for what in ("tenants", "keys"):
        every, seen, page = daemon.call("GET", f"/v1/{what}?limit=1000")[what], [], {"next_cursor": None}
        while "next_cursor" in page:
            cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else ""
            page = daemon.call("GET", f"/v1/{what}?limit=2{cursor}")
            seen += page[what]
        assert seen == every and len(every) >= 5
        refused("invalid_argument", daemon.call, "GET", f"/v1/{what}?cursor=x")


def test_a_key_is_good_until_it_is_revoked(daemon, tenants):
    key, secret = new_key(daemon, tenants[0], "read")
    who = check(daemon, secret)
    assert who == actor("read", tenants[0], key)
    assert daemon.edge(who, secret).call("GET", "/v1/sandboxes")
    cay.wait_for("it to be used", lambda: "last_used_at" in key_row(daemon, key), 20)
    row = key_row(daemon, key)
    assert row["last_used_at"] and row["revoked"] is False and "expires_at" not in row
    assert secret not in str(row) and hashlib.sha256(secret.encode()).hexdigest() not in str(row) and "hash" not in str(row)
    assert daemon.call("POST", f"/v1/keys/{key}/revoke")["revoked"]
    assert daemon.call("POST", f"/v1/keys/{key}/revoke")["revoked"], "twice is once"
    assert check(daemon, secret) is None and key_row(daemon, key)["revoked"]
    # what the edge still believes is not so any more
    refused("unauthenticated", daemon.edge(who, secret).call, "GET", "/v1/sandboxes")
    refused("conflict", daemon.call, "POST", f"/v1/keys/{key}/rotate", {})
    for what in ("revoke", "rotate"):
        refused("not_found", daemon.call, "POST", f"/v1/keys/{noun_id('key')}/{what}", {} if what == "rotate" else None)


def test_an_actor_is_no_more_than_its_key(daemon, tenants):
    key, secret = new_key(daemon, tenants[0], "write")
    for text in (actor("operator", tenants[0], key), actor("read", tenants[1], key), actor("read", tenants[0], noun_id("key"))):
        refused("unauthenticated", daemon.edge(text, secret).call, "GET", "/v1/sandboxes")
    for scope in ("read", "write"):
        daemon.edge(actor(scope, tenants[0], key), secret).call("GET", "/v1/sandboxes")


def test_a_key_expires(daemon):
    key, secret = new_key(daemon, ttl_ms=6000)
    who = check(daemon, secret)
    assert who and seconds(key_row(daemon, key)["expires_at"]) - seconds(key_row(daemon, key)["created_at"]) == 6
    cay.wait_for("its end", lambda: check(daemon, secret) is None, 20)
    cay.let_pass(0.002)  # the edge hears of whole milliseconds, and ends it up to one before cayd does
    refused("unauthenticated", daemon.edge(who, secret).call, "GET", "/v1/sandboxes")


def test_a_rotated_key_has_two_secrets_for_a_while(daemon):
    key, first = new_key(daemon)
    rotated = daemon.call("POST", f"/v1/keys/{key}/rotate", {"overlap_ms": 8000})
    second = rotated["secret"]
    assert rotated["key"]["prefix"] == KEY.fullmatch(first)[1] and first != second
    assert check(daemon, second) == check(daemon, first) == actor("write", DEFAULT, key)
    both = [daemon.edge(actor("write", DEFAULT, key), text) for text in (first, second)]
    assert [who.call("GET", "/v1/sandboxes?limit=1") for who in both]
    assert key_row(daemon, key)["old_until"]
    cay.wait_for("the old one's end", lambda: check(daemon, first) is None, 20)
    cay.let_pass(0.002)
    assert check(daemon, second) and "old_until" not in key_row(daemon, key)
    refused("unauthenticated", both[0].call, "GET", "/v1/sandboxes")
    assert both[1].call("GET", "/v1/sandboxes?limit=1")
    third = daemon.call("POST", f"/v1/keys/{key}/rotate", {})["secret"]
    assert check(daemon, second) is None and check(daemon, third)
    fourth = daemon.call("POST", f"/v1/keys/{key}/rotate", {"overlap_ms": 86400000})["secret"]
    daemon.call("POST", f"/v1/keys/{key}/revoke")
    assert check(daemon, third) is None and check(daemon, fourth) is None
    refused("invalid_argument", daemon.call, "POST", f"/v1/keys/{key}/rotate", {"overlap_ms": 86400001})


def test_what_is_no_key_is_nobodys(daemon):
    key, secret = new_key(daemon)
    other = secret[:-2] + ("A" if secret[-2] != "A" else "B") + secret[-1]
    for text in ("", "cay_", other, secret + "A", " " + secret, secret.upper(), "cay_00000000_" + secret[13:], "x" * 512, "\u00fc"):
        assert check(daemon, text) is None, text


def test_tenants_and_keys_outlive_cayd(own):
    tenant = own.call("POST", "/v1/tenants", {"name": "stays"})
    key, first = new_key(own, tenant["id"], "read")
    second = own.call("POST", f"/v1/keys/{key}/rotate", {"overlap_ms": 3600000})["secret"]
    dead, gone = new_key(own)
    own.call("POST", f"/v1/keys/{dead}/revoke")
    box = asks(own, "write", tenant["id"]).create("tiny")
    events = []  # told when they are durable, which is behind the reply
    cay.wait_for("its event", lambda: events.extend(asks(own, "read", tenant["id"]).call("GET", "/v1/events")["events"])
                 or events, 30)
    tables = [own.call("GET", f"/v1/{what}") for what in ("tenants", "keys")]
    own.kill_daemon("cayd")
    own.start_cayd()
    assert [own.call("GET", f"/v1/{what}") for what in ("tenants", "keys")] == tables
    assert check(own, first) == check(own, second) == actor("read", tenant["id"], key) and check(own, gone) is None
    assert asks(own, "read", tenant["id"]).get(box)["state"] == "running"
    refused("not_found", asks(own, "write").get, box)
    assert asks(own, "read", tenant["id"]).call("GET", "/v1/events")["events"][0] == events[0]
    assert box not in str(own.call("GET", "/v1/events"))
    text = b""
    for f in (own.state / "db").iterdir():
        with contextlib.suppress(FileNotFoundError):  # one that was being written
            text += f.read_bytes() if f.name != "operator.key" else b""
    for secret in (first, second, gone):
        assert secret.encode() not in text and secret[-43:].encode() not in text
        assert secret not in own.log("cayd") and secret[-43:] not in own.log("cayd")
    assert hashlib.sha256(second.encode()).hexdigest().encode() in text


def operator_key(c):
    path = c.state / "db/operator.key"
    assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o600, cay.CONTROL_UID)
    text = path.read_text()
    assert text.endswith("\n") and KEY.fullmatch(text[:-1])
    return text[:-1]


def test_the_first_start_leaves_a_key_for_the_operator(own):
    secret = operator_key(own)
    keys = own.call("GET", "/v1/keys")["keys"]
    assert check(own, secret) == actor("operator", DEFAULT, keys[0]["id"]) and len(keys) == 1
    assert "db/operator.key" in own.log("cayd") and secret[-43:] not in own.log("cayd")
    own.kill_daemon("cayd")
    own.start_cayd()
    assert operator_key(own) == secret and len(own.call("GET", "/v1/keys")["keys"]) == 1
    # taken back is taken back, also when the file is still there or is not
    own.call("POST", f"/v1/keys/{keys[0]['id']}/revoke")
    own.kill_daemon("cayd")
    (own.state / "db/operator.key").unlink()
    own.start_cayd()
    assert check(own, secret) is None and not (own.state / "db/operator.key").exists()


@pytest.mark.parametrize("fault", ["write:created", "write:filled", "write:renamed", "journal:queued", "journal:begun",
                                   "journal:written", "journal:committed"])
def test_a_first_start_that_dies_leaves_no_key_nobody_has(fault):
    """Whatever there is after the next start, the file's key is good and is the only one."""
    c = cay.Cay(BUILD)
    try:
        c.start_keeper()
        c.env["CAY_FAULT"] = fault + ("=kill@3" if fault.startswith("write") else "=kill")  # the first files are the journal's mark and the key of the node
        try:
            c.start_cayd()
        except (RuntimeError, OSError, cay.http.client.HTTPException):
            pass
        cay.wait_for("its end", lambda: c.daemons["cayd"].poll() is not None, 30)
        del c.env["CAY_FAULT"]
        path = c.state / "db/operator.key"
        left = path.read_text() if path.exists() else None
        assert fault in ("write:created", "write:filled") or left
        c.start_cayd()
        assert left in (None, path.read_text()), "somebody may have read it"
        keys = c.call("GET", "/v1/keys")["keys"]
        assert len(keys) == 1 and check(c, operator_key(c)) == actor("operator", DEFAULT, keys[0]["id"])
    finally:
        c.stop()


def test_what_lies_in_place_of_the_first_key_is_replaced():
    """A file of nonsense, a link: neither is read as a key nor written through."""
    for plant in (lambda p: p.write_text("hello\n"), lambda p: p.symlink_to("/etc/passwd"), lambda p: p.write_text("")):
        c = cay.Cay(BUILD)
        try:
            c.start_keeper()
            plant(c.state / "db/operator.key")
            c.start_cayd()
            assert check(c, operator_key(c))
            assert not (c.state / "db/operator.key").is_symlink()
        finally:
            c.stop()


def test_a_key_that_cannot_be_written_is_no_key(own):
    """The journal says no: nothing is told, and what was good stays good."""
    key, secret = new_key(own)
    before = [own.call("GET", f"/v1/{what}") for what in ("tenants", "keys")]
    for target, body in (("tenants", {"name": "never"}), ("keys", {"tenant": DEFAULT, "name": "never", "scope": "read"}),
                         (f"keys/{key}/rotate", {}), (f"keys/{key}/rotate", {"overlap_ms": 60000})):
        own.kill_daemon("cayd")
        own.env["CAY_FAULT"] = "journal:begun=error"
        own.start_cayd()
        del own.env["CAY_FAULT"]
        with pytest.raises(ApiError) as e:
            own.call("POST", "/v1/" + target, body)
        assert e.value.status == 500 and "cay_" not in str(e.value.body)
        assert [own.call("GET", f"/v1/{what}") for what in ("tenants", "keys")] == before
    assert check(own, secret)
    own.kill_daemon("cayd")
    own.start_cayd()
    now = [own.call("GET", f"/v1/{what}") for what in ("tenants", "keys")]
    for k in now[1]["keys"]:
        k.pop("last_used_at", None)
    assert now == before and check(own, secret)


def test_an_edge_cannot_lift_a_group(daemon, tenants):
    """Control knows the group of a key itself: an edge that was broken into cannot leave it out or name another."""
    made = daemon.call("POST", "/v1/keys", {"tenant": tenants[0], "name": "bound", "scope": "write", "group": "alice"})
    who = actor("write", tenants[0], made["key"]["id"])
    assert daemon.edge(who + " alice", made["secret"]).call("GET", "/v1/sandboxes") is not None
    for lie in ("", " bob"):
        with pytest.raises(ApiError) as no:
            daemon.edge(who + lie, made["secret"]).call("GET", "/v1/sandboxes")
        assert no.value.status == 401


def test_an_operator_can_end_any_tenants_sandbox(own):
    """And see that it is there; what is inside stays the tenant's."""
    other = own.call("POST", "/v1/tenants", {"name": "other"})["id"]
    theirs, stranger = asks(own, "write", other), asks(own, "write", own.call("POST", "/v1/tenants", {"name": "third"})["id"])
    box, spare = theirs.create("tiny", name="mine"), theirs.create("tiny")
    assert own.call("GET", "/v1/sandboxes")["sandboxes"] == []
    assert {s["id"] for s in own.call("GET", f"/v1/sandboxes?tenant={other}")["sandboxes"]} == {box, spare}
    assert own.get(box)["tenant"] == other
    refused("not_found", own.exec, box, ["true"])
    refused("not_found", own.call, "POST", f"/v1/sandboxes/{box}/pause")
    for call in (stranger.get, stranger.delete, asks(own, "write").delete):
        refused("not_found", call, box)
    refused("permission_denied", stranger.call, "GET", f"/v1/sandboxes?tenant={other}")
    refused("not_found", own.call, "GET", f"/v1/sandboxes?tenant=tn{'z' * 24}")
    own.delete(box)
    end = theirs.get(box)
    assert end["state"] == "terminated" and end["end"]["reason"] == "killed" and end["end"]["detail"] == "deleted by an operator"
    assert theirs.get(spare)["state"] == "running"
    theirs.delete(spare)
