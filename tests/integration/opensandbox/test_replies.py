# SPDX-License-Identifier: Apache-2.0
"""What an edge, and a sandbox's PID 1 beyond it, may reply to cay-opensandbox, and clients that leave at any moment

Neither may end the program, which serves all tenants, nor fill its memory or its one thread.  No sandbox is needed: the edge is
tests/lib/face_edge.py.
"""
import collections
import contextlib
import json
import select
import time
import urllib.parse

import cay
import face_edge
import opensandbox_world
import pytest
from conftest import BUILD
from face_edge import INFO, SANDBOX, finish

MIB = 1 << 20
IN = f"/opensandbox/sandboxes/{SANDBOX}/proxy/44772"
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "multipart/form-data; boundary=b"}
META = b'--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{"path": "/x"}\r\n'
PART = META + b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
CODE = json.dumps({"code": "x", "context": {"id": "kn1", "language": "python"}}).encode()


@pytest.fixture(scope="module")
def program():
    with face_edge.FaceEdge(BUILD, "opensandbox", opensandbox_world.OPENSANDBOX_UID) as f:
        yield f


@pytest.fixture
def face(program):
    program.reset()
    yield program
    program.reset()
    assert program.lives(), "cay-opensandbox has ended, for all tenants"
    assert program.ask("GET", IN + "/ping")[0] == 200


def waits(face, n, path):
    """The calls to that path, when there are so many."""
    def those():
        return [c for c in list(face.calls) if c.path.endswith(path)]
    cay.wait_for(f"{n} calls of {path}", lambda: len(those()) >= n, 20)
    return those()


def begin(face, tenant="red"):
    return face.start("POST", IN + "/command", b'{"command": "sleep 9"}', JSON, tenant=tenant)


ROUTES = [
    ("GET", "/opensandbox/health", b"", {}), ("POST", "/opensandbox/sandboxes", b'{"image":{"uri":"base"}}', JSON), ("GET", "/opensandbox/sandboxes", b"", {}),
    ("GET", f"/opensandbox/sandboxes/{SANDBOX}", b"", {}), ("PATCH", f"/opensandbox/sandboxes/{SANDBOX}/metadata", b'{"a":"b"}', JSON), ("POST", f"/opensandbox/sandboxes/{SANDBOX}/pause", b"", {}),
    ("GET", f"/opensandbox/sandboxes/{SANDBOX}/endpoints/44772", b"", {}), ("GET", f"/opensandbox/sandboxes/{SANDBOX}/endpoints/8000", b"", {}),
    ("POST", f"/opensandbox/sandboxes/{SANDBOX}/snapshots", b"{}", JSON), ("GET", "/opensandbox/snapshots", b"", {}), ("GET", f"/opensandbox/sandboxes/{SANDBOX}/proxy/18080/policy", b"", {}),
    ("PATCH", f"/opensandbox/sandboxes/{SANDBOX}/proxy/18080/policy", b'[{"action":"allow","target":"a.example"}]', JSON), ("GET", IN + "/ping", b"", {}), ("GET", IN + "/metrics", b"", {}),
    ("POST", IN + "/command", b'{"command":"x","cwd":"a"}', JSON), ("POST", IN + "/command", b'{"command":"x","background":true}', JSON), ("DELETE", IN + "/command?id=ex1", b"", {}),
    ("GET", IN + "/command/status/ex1", b"", {}), ("GET", IN + "/command/ex1/logs", b"", {}), ("POST", IN + "/session", b"{}", JSON), ("POST", IN + "/session/sh1/run", b'{"command":"x","cwd":"a"}', JSON),
    ("POST", IN + "/session/sh1/run", b'{"command":"x"}', JSON), ("POST", IN + "/code/context", b'{"language":"python"}', JSON), ("GET", IN + "/code/contexts", b"", {}),
    ("DELETE", IN + "/code/contexts?language=python", b"", {}), ("POST", IN + "/code", b'{"code":"1","context":{"language":"python"}}', JSON), ("POST", IN + "/code", CODE, JSON),
    ("GET", IN + "/files/info?path=/x&path=/y", b"", {}), ("DELETE", IN + "/files?path=/x", b"", {}), ("POST", IN + "/files/mv", b'[{"src":"/a","dest":"/b"}]', JSON),
    ("POST", IN + "/files/replace", b'{"/x":{"old":"a","new":"b"},"/y":{"old":"a","new":"b"}}', JSON), ("GET", IN + "/files/search?path=/x", b"", {}), ("GET", IN + "/directories/list?path=/x", b"", {}),
    ("POST", IN + "/files/upload", PART + b"y\r\n" + PART + b"z\r\n--b--\r\n", FORM), ("GET", IN + "/files/download?path=/x", b"", {}), ("GET", IN + "/files/download?path=/x&limit=9", b"", {}),
]


def entry(path, **more):
    return {"path": path, "type": "file", "size": 1, "mode": "0644", "uid": 0, "gid": 0, "mtime": "2026-01-02T03:04:05Z", **more}


ANYTHING = {**INFO, **entry("x"), "id": SANDBOX, "state": "running", "kernels": [{"id": "kn1", "language": "python", "name": "python"}], "entries": [entry("a")], "results": [{"done": True}],
            "end": {"reason": "exit", "exit_code": 0}, "stdout_bytes": 5, "text": "x", "lines": 1, "more": True, "changes": 1, "token": "t", "sandboxes": [], "snapshots": []}


# -- clients that leave

@pytest.mark.parametrize("fails", [False, True], ids=["success", "failure"])
@pytest.mark.parametrize("at", range(4))
def test_a_client_that_leaves_at_any_moment(face, at, fails):
    """Of each route the calls before that one have replies.  The client leaves then, and the reply comes."""
    counts, held = collections.Counter(), []

    def reply(c):
        with contextlib.suppress(OSError):
            c.body()
        who = c.headers["authorization"]
        counts[who] += 1
        if counts[who] == at + 1:
            held.append(c)
        else:
            c.reply(200, ANYTHING)
    face.on = {(m, ""): reply for m in ("GET", "PUT", "POST", "PATCH", "DELETE")}
    sockets = [face.start(m, p, body, {**h, "Authorization": f"Bearer {i}"}) for i, (m, p, body, h) in enumerate(ROUTES)]
    if at == 0:
        cay.wait_for("a call of each", lambda: len(held) == len(ROUTES), 20)
    cay.let_pass(0.2)
    for s in sockets:
        s.close()
    cay.let_pass(0.1)
    for c in held:
        c.fail(503, "unavailable") if fails else c.reply(200, ANYTHING)
    cay.let_pass(0.1)
    assert face.lives() and (held or at == 3)


def run(c):
    c.body()
    c.begin_frames("Cay-Exec: ex1\r\n")


def test_commands_left_behind_are_counted_by_tenant(face):
    """One tenant leaves more than its share: those of another tenant go on when their clients leave."""
    face.on["POST", "/execs"] = run
    ours = [begin(face) for _ in range(200)]
    runs = waits(face, 200, "/execs")
    for s in ours:
        s.recv(1)
        s.close()
    cay.wait_for("those that are too many to end", lambda: sum(c.is_open() for c in runs) <= 128, 20)
    s = begin(face, tenant="blue")
    (theirs,) = [c for c in waits(face, 201, "/execs") if c not in runs]
    s.recv(1)
    s.close()
    cay.let_pass(0.3)
    assert theirs.is_open(), "its command was ended"
    assert sum(c.is_open() for c in runs) == 128
    for c in [*runs, theirs]:
        c.end_frames({"reason": "exit", "exit_code": 0})


@pytest.mark.plain  # it measures memory
def test_what_is_left_behind_holds_nothing(face):
    """Nobody pays for it: 16 runs of code, each with the first 4 MiB of a result whose end never comes."""
    face.on["POST", "/runs"] = run
    sockets = [face.start("POST", IN + "/code", CODE, JSON) for _ in range(16)]
    runs = waits(face, 16, "/runs")
    for s in sockets:
        s.recv(1)
        s.close()
    cay.let_pass(0.3)
    before = face.rss()
    for c in runs:
        for i in range(8):
            c.frame(1, 3, b"x" * (1 << 19), i << 19)
    cay.let_pass(0.3)
    grown = face.rss() - before
    assert all(c.is_open() for c in runs) and grown < 16 * MIB, grown // MIB
    for c in runs:
        c.end_frames({"reason": "exit", "exit_code": 0})


# -- what PID 1 replies

@pytest.mark.parametrize("size", [10, 4 * MIB], ids=["part of it", "more than is sent at once"])
def test_a_reply_before_the_file_was_sent(face, size):
    """PID 1 replies at once to a part of a form, and the rest of the part comes then."""
    def early(c):
        c.reply(200, {"path": "/x", "size": 0})
        return "close"
    face.on["PUT", "/content"] = early
    rest = b"x" * size + b"\r\n--b--\r\n"
    with face.connect() as s:
        s.sendall(face.head("POST", IN + "/files/upload", {**FORM, "Content-Length": str(len(PART) + len(rest))}) + PART)
        waits(face, 1, "/content")
        cay.let_pass(0.2)
        with contextlib.suppress(OSError):
            s.sendall(rest)
        with contextlib.suppress(OSError):
            status, text = finish(s)
            assert status >= 400, text


def test_as_many_kernels_as_pid_1_likes(face):
    rows = [{"id": "kn1", "language": "python"}] * 60000
    face.on["GET", "/kernels"] = lambda c: c.reply(200, {"kernels": rows})
    begun = time.monotonic()
    filler = "&x=y" * 1500
    for method in ("GET", "DELETE"):
        status, text = face.ask(method, IN + f"/code/contexts?{filler[1:]}&language=python")
        assert status == 502, text
    assert time.monotonic() - begun < 5


def test_states_are_read_once(face):
    """As many as fit a target, for as many rows as control sends."""
    rows = [{"id": SANDBOX, "state": "running"}] * 200
    pages = iter(range(99))
    face.on["GET", "/v1/sandboxes"] = lambda c: c.reply(200, {"sandboxes": rows, **({"next_cursor": "x"} if next(pages) < 90 else {})})
    face.on["GET", "/v1/snapshots"] = lambda c: c.reply(200, {"snapshots": [{"id": "sn1", "state": "creating"}]})
    assert face.ask("GET", "/opensandbox/sandboxes?" + "&".join(["state=x"] * 900))[0] == 400
    assert face.ask("GET", "/opensandbox/snapshots?" + "&".join(["state=x"] * 900))[0] == 400
    status, text = face.ask("GET", "/opensandbox/sandboxes?" + "&".join([f"state={'x' * 400}"] * 15))
    assert status == 200 and json.loads(text)["pagination"]["totalItems"] == 0
    for state, n in (("Ready", 0), ("Creating", 1)):
        assert json.loads(face.ask("GET", f"/opensandbox/snapshots?state={state}")[1])["pagination"]["totalItems"] == n


@pytest.mark.parametrize("path", ["/directories/list?path=/w&depth=9", "/files/search?path=/w&pattern=*"])
def test_a_list_is_whole(face, path):
    """Paths of 9,000 entries, which together are longer than what a request may keep."""
    rows = [entry("d" * 500 + f"/{i:04}") for i in range(9000)]
    face.on["GET", "/files"] = lambda c: c.reply(200, {"entries": rows, "truncated": False})
    status, text = face.ask("GET", IN + path)
    assert status == 200 and [e["path"] for e in json.loads(text)] == ["/w/" + r["path"] for r in rows]
    rows += [entry(f"{i}") for i in range(1001)]
    assert face.ask("GET", IN + path)[0] == 502, "it has more than were asked for"
    rows[:] = [entry("a"), {"type": "file"}]
    assert face.ask("GET", IN + path)[0] == 502, "one has no path"


@pytest.mark.plain  # it measures memory
def test_a_list_for_a_long_path_is_bounded(face):
    """Each of 10,000 rows gets the path of the directory."""
    rows = [{"path": f"{i}"} for i in range(10000)]
    face.on["GET", "/files"] = lambda c: c.reply(200, {"entries": rows, "truncated": False})
    before = face.rss()
    assert face.ask("GET", IN + "/directories/list?path=/" + "w" * 4000)[0] == 413
    assert face.rss() - before < 64 * MIB


def test_a_search_is_bounded(face):
    rows = [entry("a" * 250) for _ in range(9000)]
    face.on["GET", "/files"] = lambda c: c.reply(200, {"entries": rows, "truncated": False})
    begun = time.monotonic()
    assert face.ask("GET", IN + "/files/search?path=/w&pattern=*" + "a" * 98 + "b")[0] == 413
    assert face.ask("GET", IN + "/files/search?path=/w&pattern=*ab")[:2] == (200, b"[]")
    assert time.monotonic() - begun < 10


def test_names_that_are_not_utf_8_are_listed(face):
    odd = entry("")
    del odd["path"]
    face.on["GET", "/files"] = lambda c: c.reply(200, {"entries": [entry("a"), {**odd, "path_b64": "Yv9j"}], "truncated": False})
    status, text = face.ask("GET", IN + "/directories/list?path=/w")
    assert status == 200 and [e["path"] for e in json.loads(text)] == ["/w/a", "/w/b\ufffdc"], text


def test_nothing_is_left_undone_in_silence(face):
    """A path that is too long, and one that cannot be decoded."""
    long = "/" + "x" * 4096
    asks = [("DELETE", f"/files?path=/a&path={long}", b""), ("DELETE", "/files?path=%zz&path=/a", b""), ("GET", "/files/info?path=/a&path=%zz", b""), ("GET", f"/files/info?path={long}", b""),
            ("POST", "/files/permissions", json.dumps({long: {"mode": 600}}).encode()), ("POST", "/files/mv", json.dumps([{"src": "/a", "dest": long}]).encode())]
    for method, path, body in asks:
        status, text = face.ask(method, IN + path, body, JSON)
        assert status == 400, (path[:30], text)
        assert not [c for c in face.calls if c.path.endswith(("/batch", "/stat"))]


def execute(face, events):
    def reply(c):
        run(c)
        at = 0
        for event in events:
            data = json.dumps(event, ensure_ascii=False).encode() + b"\n"
            for k in range(0, len(data), 1 << 19):
                piece = data[k:k + (1 << 19)]
                c.frame(1, 3, piece, at)
                at += len(piece)
        c.end_frames({"reason": "exit", "exit_code": 0})
    face.on["POST", "/runs"] = reply
    status, text = face.ask("POST", IN + "/code", CODE, JSON)
    assert status == 200
    return [json.loads(e) for e in text.split(b"\n\n") if e]


def test_output_that_is_no_text(face):
    """NUL is a character of JSON; a byte that is no character is U+FFFD.  What was lost is named."""
    def reply(c):
        run(c)
        c.frame(1, 1, b"a\0b\n\xff\0c\n")
        c.frame(2, 1, (42).to_bytes(8, "little"), 8)
        c.frame(1, 1, b"d", 50)
        c.end_frames({"reason": "exit", "exit_code": 0})
    face.on["POST", "/runs"] = reply
    status, text = face.ask("POST", IN + "/code", CODE, JSON)
    said = [(e["type"], e["text"]) for e in map(json.loads, filter(None, text.split(b"\n\n"))) if e["type"] in ("stdout", "stderr")]
    assert status == 200 and said == [("stdout", "a\0b"), ("stdout", "\ufffd\0c"), ("stderr", "42 bytes of stdout were lost"), ("stdout", "d")]


@pytest.mark.parametrize("leaves", [False, True])
def test_frames_that_are_none(face, leaves):
    """The run ends for the client, though PID 1 keeps the connection."""
    def reply(c):
        run(c)
        c.frame(1, 1, b"a\n")
        if leaves:
            cay.let_pass(0.5)
        c.frame(99, 1, b"b")
    face.on["POST", "/runs"] = reply
    with face.start("POST", IN + "/code", CODE, JSON) as s:
        if leaves:
            s.recv(1)
        else:
            status, text = finish(s)
            assert status == 200 and b"was interrupted" in text
    cay.wait_for("the call to end", lambda: not any(c.is_open() for c in face.calls if c.path.endswith("/runs")), 10)


@pytest.mark.parametrize("mib, fits", [(1, True), (4, False), (5, False), (7, False)])
def test_a_result_that_is_too_large_is_named(face, mib, fits):
    """Each character takes three bytes in what PID 1 sends, and twelve in what the SDK gets, which has the text twice."""
    events = [{"execution_count": 1}, {"result": {"main": True, "data": {"text/plain": "世" * (mib * MIB // 3)}}}, {"result": {"data": {"text/plain": "after"}}}]
    kinds = [(e["type"], e.get("error", {}).get("ename"), len(e.get("results", {}).get("text", ""))) for e in execute(face, events)]
    first = ("result", None, mib * MIB // 3) if fits else ("error", "ResultTooLarge", 0)
    assert kinds == [("init", None, 0), ("execution_count", None, 0), first, ("result", None, 5), ("execution_complete", None, 0)]


def test_many_small_events_take_no_more_than_their_number(face):
    """A line for each byte, and events that say nothing: of each 256 KiB, in pieces as large as they come."""
    def reply(c):
        run(c)
        c.frame(1, 3, b"\n" * (1 << 18))
        c.frame(1, 1, b"\n" * (1 << 18))
        c.end_frames({"reason": "exit", "exit_code": 0})
    face.on["POST", "/runs"] = reply
    begun = time.monotonic()
    s = face.start("POST", IN + "/code", CODE, JSON)
    cay.let_pass(0.5)  # its client reads nothing meanwhile
    with s:
        status, text = finish(s)
    events = text.split(b"\n\n")
    assert status == 200 and text.count(b'"stdout"') == 1 << 18 and b"execution_complete" in events[-2]
    assert time.monotonic() - begun < 30


# -- memory

def status_now(s):
    """Of the reply on a socket; OSError: there is none yet."""
    s.setblocking(False)
    return s.recv(12)[9:]


@pytest.mark.plain  # it measures memory
def test_bodies_that_do_not_end_are_counted(face):
    """100 of one tenant, of which nearly all has come: it is refused, and another tenant is not."""
    before, head = face.rss(), {**JSON, "Content-Length": str(3 * MIB - 100)}
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(100):
            s = stack.enter_context(face.connect())
            with contextlib.suppress(OSError):
                s.sendall(face.head("POST", IN + "/code", head) + b"{" + b" " * (2900 << 10))
            sockets.append(s)
        cay.let_pass(0.5)
        grown = face.rss() - before
        status, _ = face.ask("GET", IN + "/ping", tenant="blue")
        statuses = collections.Counter()
        for s in sockets:
            with contextlib.suppress(OSError):
                statuses[status_now(s)] += 1
    print(grown // MIB, "MiB", dict(statuses))
    assert status == 200, "the other tenant is served"
    assert grown < 64 * MIB and statuses[b"429"] > 50, statuses


@pytest.mark.plain  # it measures memory
def test_replies_that_wait_for_another_are_counted(face):
    """30 lists of one tenant, the first of whose kernels is never deleted."""
    rows = [{"id": f"kn{i}", "language": "python", "cwd": "/" + "x" * 4000} for i in range(1000)]
    text = json.dumps({"kernels": rows}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    face.on["GET", "/kernels"] = lambda c: c.send(head + text)
    face.on["DELETE", "/kernels/kn0"] = lambda c: None
    before, refused = face.rss(), 0
    with contextlib.ExitStack() as stack:
        for i in range(30):
            s = stack.enter_context(face.start("DELETE", IN + "/code/contexts?language=python"))
            cay.wait_for("a reply, or its next call", lambda: select.select([s], [], [], 0)[0] or len([c for c in list(face.calls) if c.method == "DELETE"]) > i - refused, 20)
            with contextlib.suppress(OSError):
                refused += status_now(s) == b"429"
        grown = face.rss() - before
        status, _ = face.ask("GET", IN + "/ping", tenant="blue")
    print(grown // MIB, "MiB", refused, "refused")
    assert status == 200, "the other tenant is served"
    assert grown < 96 * MIB and refused > 15, refused


@pytest.mark.plain  # it measures memory
def test_replies_that_become_one_are_counted(face):
    """Of 300 files, each with a time of 400 KiB."""
    text = json.dumps(entry("x", mtime="x" * (400 << 10))).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    face.on["GET", "/stat"] = lambda c: c.send(head + text)
    before = face.rss()
    status, said = face.ask("GET", IN + "/files/info?" + "&".join(f"path=/{i}" for i in range(300)))
    assert status == 429, said[:200]
    assert face.rss() - before < 96 * MIB


# -- who asks

def test_each_call_is_limited_to_the_group(face):
    """The edge took the group from a header of the caller; the credential alone has all groups."""
    face.on["GET", "/v1/sandboxes"] = lambda c: c.reply(200, {"sandboxes": []})
    for method, path, body, headers in ROUTES:
        for group in ("user-17", None):
            face.calls.clear()
            face.ask(method, path, body, headers, group=group)
            assert face.calls and {c.headers.get("cay-group") for c in face.calls} == {group}, (path, group)


def test_the_header_of_a_port_opens_that_port(face):
    """Where there are previews: programs show an endpoint to those who may see the port.  What execd serves needs a token of scope write."""
    asked = []
    face.on["POST", "/preview"] = lambda c: (asked.append(json.loads(c.body())), c.reply(200, {"origin": "https://8000-x.preview.test", "headers": {"Cay-Preview": "cayp_1"}}))
    face.on["POST", "/token"] = lambda c: (asked.append(json.loads(c.body())), c.reply(200, {"token": "cayt_1"}))
    at = f"/opensandbox/sandboxes/{SANDBOX}/endpoints/"
    assert json.loads(face.ask("GET", at + "8000")[1]) == {"endpoint": "8000-x.preview.test", "headers": {"Cay-Preview": "cayp_1"}}
    assert [q["port"] for q in asked] == [8000], "there was no token"
    for port in (44772, 18080):
        assert json.loads(face.ask("GET", f"{at}{port}")[1]) == {"endpoint": f"localhost/opensandbox/sandboxes/{SANDBOX}/proxy/{port}", "headers": {"X-EXECD-ACCESS-TOKEN": "cayt_1"}}
    face.on["POST", "/preview"] = lambda c: (c.body(), c.fail(501, "unsupported"))
    assert json.loads(face.ask("GET", at + "8000")[1])["headers"] == {"Authorization": "Bearer cayt_1"}
    face.on["POST", "/preview"] = lambda c: (c.body(), c.fail(403, "permission_denied"))
    assert face.ask("GET", at + "8000")[0] == 403


def test_parameters_are_decoded(face):
    asked = []
    face.on["GET", "/stat"] = lambda c: (asked.append(urllib.parse.unquote(c.target)), c.reply(200, entry("x")))
    assert face.ask("GET", IN + "/files/info?path=/a+b%2Fc")[0] == 200 and "path=/a b/c" in asked[0]
