# SPDX-License-Identifier: Apache-2.0
"""Who may do what: the two sockets, actors, tenants and keys."""
import datetime
import json
import os
import pathlib
import random
import socket

import cay
import pytest
from cay import ApiError
from conftest import BUILD, tiny
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
        for noun in ("sandbox", "exec", "image", "tenant", "key"):
            path = path.replace("{%s}" % noun, ids.get(noun, noun_id(noun)))
        return path

    def ask(self, c, body=None, **ids):
        """Status and body but for the request's id; body: another than the example."""
        reply = c.open(self.method, self.target(**ids), b"" if self.raw else self.body if body is None else body, timeout_s=20)
        if "event-stream" in reply.headers.get("Content-Type", ""):
            return reply.status, b""
        text = json.loads(reply.read() or b"{}")
        text.get("error", {}).pop("request_id", None)
        return reply.status, text


OPERATIONS = [Operation(path, method, row) for path, rows in OPENAPI["paths"].items() for method, row in rows.items()]


def noun_id(noun):
    """An id of something that is not there."""
    two = {"sandbox": "sb", "exec": "ex", "image": "im", "tenant": "tn", "key": "ky"}[noun]
    return two + "".join(random.choice("0123456789abcdefghjkmnpqrstvwxyz") for _ in range(24))


def seconds(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def named(operations):
    return [pytest.param(o, id=o.name) for o in operations]


def actor(scope, tenant=DEFAULT, key="-", sandbox="-"):
    return f"{tenant} {scope} {key} {sandbox}"


NOBODY = "- public - -"


def raw(path, request):
    """The status of a request as it is written here."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        s.connect(path)
        s.sendall(request.encode())
        return int(s.recv(64).split()[1])


def get(target, *headers):
    return f"GET {target} HTTP/1.1\r\nHost: cay\r\nConnection: close\r\n" + "".join(h + "\r\n" for h in headers) + "\r\n"


@pytest.mark.parametrize("headers", [
    [], ["Cay-Actor:"], ["Cay-Actor: operator"], [f"Cay-Actor: {DEFAULT} operator -"],
    [f"Cay-Actor: {actor('root')}"], [f"Cay-Actor: {actor('operator')}"] * 2,
    [f"Cay-Actor: {actor('operator')}", "cay-actor: " + NOBODY], [f"Cay-Actor: {actor('operator')}, {actor('operator')}"],
    ["Cay-Actor: - operator - -"],
])
@pytest.mark.parametrize("target", ["/v1/health", "/v1/sandboxes", "/v1/fsck"])
def test_the_edge_says_once_and_well_who_asks(daemon, headers, target):
    assert raw(daemon.edge("").socket, get(target, *headers)) == 401


def test_who_asks_is_seen_whatever_case_the_header_has(daemon):
    assert raw(daemon.edge("").socket, get("/v1/fsck", f"CAY-ACTOR: {actor('operator')}")) == 200


def test_the_operators_socket_takes_no_actor(daemon):
    assert raw(daemon.socket, get("/v1/health")) == 200
    for text in (actor("operator"), NOBODY, ""):
        assert raw(daemon.socket, get("/v1/health", f"Cay-Actor: {text}")) == 400


def test_a_refused_body_is_not_read(daemon):
    """403 and no 100 Continue for an upload that nobody may make."""
    head = ("POST /v1/images?name=x HTTP/1.1\r\nHost: cay\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n"
            f"Cay-Actor: {actor('write')}\r\n\r\n")
    assert raw(daemon.edge("").socket, head) == 403


def test_what_runs_inside_asks_for_its_scope(daemon, box):
    assert daemon.edge(actor("write")).exec(box, ["echo", "hi"]).text == "hi\n"
    refused("permission_denied", daemon.edge(actor("read")).exec, box, ["true"])
    with pytest.raises(ApiError):
        daemon.edge(NOBODY).exec(box, ["true"])


def test_the_rows_are_those_of_the_daemon(daemon):
    served = daemon.call("GET", "/v1/openapi.json")["paths"]
    assert {(p, m) for p, rows in served.items() for m in rows} == {(o.path, o.method.lower()) for o in OPERATIONS}
    assert {o.scope for o in OPERATIONS} == set(SCOPES)


@pytest.fixture(scope="session")
def tenants(daemon):
    """Two, that share a daemon and nothing else."""
    return [noun_id("tenant") for _ in range(2)]


@pytest.fixture
def theirs(daemon, tenants):
    """A sandbox of the first."""
    first = daemon.edge(actor("write", tenants[0]))
    box = first.create("tiny", group="g")
    yield box
    first.delete(box)


def all_there_is(daemon, tenants):
    """What a request that is refused must not change."""
    actors = [daemon.edge(actor("read", t)) for t in (DEFAULT, *tenants)]
    boxes = [s for a in actors for s in a.call("GET", "/v1/sandboxes?state=live")["sandboxes"]]
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
        who = daemon.edge(NOBODY if scope == "public" else actor(scope, tenants[0]))
        if SCOPES.index(scope) < SCOPES.index(operation.scope):
            status, text = operation.ask(who, whole(operation), **own)
            assert (status, text["error"]["code"]) == (403, "permission_denied"), scope
        else:  # let in; {} and what is not there keep it from doing anything
            assert operation.ask(who, operation.body and {})[0] in (200, 400, 404), scope
    one = daemon.edge(actor("operator", tenants[0], sandbox=theirs))
    if operation.scope != "public":
        assert operation.ask(one, whole(operation))[0] == 403, "another sandbox than its own, or none"
    if operation.inside:
        assert operation.ask(one, operation.body and {"no such member": 1}, exec=noun_id("exec"), sandbox=theirs)[0] \
            in (200, 400, 404, 409)
        low = daemon.edge(actor("read", tenants[0], sandbox=theirs))
        assert operation.scope == "read" or operation.ask(low, whole(operation), **own)[0] == 403
    if operation.name not in ("sandbox.delete", "sandbox.pause", "sandbox.resume"):
        assert all_there_is(daemon, tenants) == before


@pytest.mark.parametrize("operation", named(o for o in OPERATIONS if o.inside))
@pytest.mark.parametrize("scope", ["write", "operator"])
def test_a_foreign_sandbox_is_an_absent_one(daemon, tenants, operation, scope):
    """The same status and the same words."""
    victim = daemon.edge(actor("write", tenants[0]))
    box = victim.create("tiny", ttl_ms=60000)
    before = victim.get(box)
    who = daemon.edge(actor(scope, tenants[1]))
    other = noun_id("exec")
    foreign, absent = (operation.ask(who, sandbox=s, exec=other) for s in (box, noun_id("sandbox")))
    assert foreign == absent and foreign[0] == 404
    now = victim.get(box)
    assert (now["state"], now.get("labels")) == ("running", before.get("labels"))
    for when in ("last_activity_at", "expires_at"):  # made anew at each look, so to the second
        assert abs(seconds(now[when]) - seconds(before[when])) < 1, when
    victim.delete(box)


def test_names_groups_and_keys_are_the_tenants_own(daemon, tenants):
    a, b = (daemon.edge(actor("write", t)) for t in tenants)

    def made(who, key):
        reply = who.open("POST", "/v1/sandboxes", {"image": "tiny", "name": "same", "group": "same"}, {"Idempotency-Key": key})
        assert reply.status == 201
        return json.loads(reply.read())

    first, second = made(a, "k"), made(b, "k")
    assert first["id"] != second["id"] and [first["tenant"], second["tenant"]] == tenants
    assert made(a, "k")["id"] == first["id"] and made(b, "other")["id"] == second["id"]
    for who, own, query in ((a, first, "group=same"), (b, second, "name=same"), (a, first, "group=same&limit=1")):
        page = who.call("GET", "/v1/sandboxes?state=live&" + query)
        assert [s["id"] for s in page["sandboxes"]] == [own["id"]]
    assert [s["id"] for s in a.call("DELETE", "/v1/sandboxes?group=same")["sandboxes"]] == [first["id"]]
    assert b.get(second["id"])["state"] == "running"
    b.delete(second["id"])


def test_a_page_ends_where_the_tenants_sandboxes_do(daemon, tenants):
    """Not even by a cursor is it seen that others have some."""
    a, b = (daemon.edge(actor("write", t)) for t in tenants)
    boxes = [who.create("tiny") for who in (a, b, a, b)]
    seen, page = [], {"next_cursor": 9999999}
    while "next_cursor" in page:
        page = b.call("GET", f"/v1/sandboxes?limit=1&cursor={page['next_cursor']}")
        assert page["sandboxes"], "a page of nothing says that there is somebody else"
        seen += page["sandboxes"]
    assert [s["id"] for s in seen[:2]] == [boxes[3], boxes[1]]
    assert {s["tenant"] for s in seen + b.call("GET", "/v1/sandboxes")["sandboxes"]} == {tenants[1]}
    for who, box in zip((a, b, a, b), boxes):
        who.delete(box)


def test_events_are_the_tenants_own(daemon, tenants):
    a, b = (daemon.edge(actor("write", t)) for t in tenants)
    box = a.create("tiny")
    assert {e["sandbox"] for e in a.call("GET", f"/v1/events?sandbox={box}")["events"]} == {box}
    assert b.call("GET", f"/v1/events?sandbox={box}")["events"] == []
    for who, tenant in ((a, tenants[0]), (b, tenants[1])):
        assert {e["tenant"] for e in who.call("GET", "/v1/events")["events"]} <= {tenant}
    stream = b.open("GET", "/v1/events?follow=true&after=0", timeout_s=10)
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
    victim = daemon.edge(actor("write", tenants[0]))
    box = victim.create("tiny")
    who = daemon.edge(actor("read", tenants[1]))
    connection = cay.UnixConnection(who.socket, 20)
    alphabet, answers = "0123456789abcdefghjkmnpqrstvwxyz", set()
    for i in range(10000 if os.environ.get("CAY_FULL") else 1000):
        at = random.randrange(2, 26)
        guess = box if i % 100 == 0 else box[:at] + random.choice(alphabet) + box[at + 1:] if i % 2 else noun_id("sandbox")
        connection.request("GET", f"/v1/sandboxes/{guess}", headers={"Cay-Actor": who.actor})
        reply = connection.getresponse()
        text = json.loads(reply.read())
        text["error"].pop("request_id")
        answers.add((reply.status, json.dumps(text)))
    assert len(answers) == 1 and answers.pop()[0] == 404
    victim.delete(box)
