# SPDX-License-Identifier: Apache-2.0
"""What an edge, and a sandbox's PID 1 beyond it, may reply to cay-e2b, and clients that leave at any moment

Neither may end the program, which serves all tenants, nor fill its memory or its one thread.  No sandbox is needed: the edge is
tests/lib/face_edge.py.
"""
import collections
import contextlib
import json
import time

import cay
import e2b_world
import face_edge
import pytest
from conftest import BUILD
from face_edge import SANDBOX, finish

MIB = 1 << 20
AT = {"E2b-Sandbox-Id": SANDBOX}
UNARY = {**AT, "Content-Type": "application/json"}
STREAM = {**AT, "Content-Type": "application/connect+json"}
CODE = {**AT, "E2b-Sandbox-Port": "49999", "Content-Type": "application/json"}
FORM = {**AT, "Content-Type": "multipart/form-data; boundary=b"}
PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="/x"\r\n\r\n'


@pytest.fixture(scope="module")
def program():
    with face_edge.FaceEdge(BUILD, "e2b", e2b_world.E2B_UID) as f:
        yield f


@pytest.fixture
def face(program):
    program.reset()
    yield program
    program.reset()
    assert program.lives(), "cay-e2b has ended, for all tenants"
    assert program.ask("GET", "/e2b/health", headers=AT)[0] in (204, 502)


def envelope(message):
    text = json.dumps(message).encode()
    return b"\0" + len(text).to_bytes(4, "big") + text


def waits(face, n, path):
    """The calls to that path, when there are so many."""
    def those():
        return [c for c in list(face.calls) if c.path.endswith(path)]
    cay.wait_for(f"{n} calls of {path}", lambda: len(those()) >= n, 20)
    return those()


def begin(face, tenant="red"):
    return face.start("POST", "/e2b/process.Process/Start", envelope({"process": {"cmd": "sleep"}}), STREAM, tenant=tenant)


# -- clients that leave

@pytest.mark.parametrize("status, says", [(200, {"id": SANDBOX, "state": "stopped"}), (503, {"error": {"code": "unavailable", "message": "busy"}})])
def test_a_client_that_leaves_while_its_failure_is_looked_into(face, status, says):
    """The run is refused, so the state of the sandbox is asked: the client leaves before that is known."""
    face.on["POST", "/execs"] = lambda c: (c.body(), c.fail(409, "wrong_state"))
    face.on["GET", SANDBOX] = lambda c: None
    s = begin(face)
    (state,) = waits(face, 1, SANDBOX)
    s.close()
    cay.let_pass(0.2)
    state.reply(status, says)
    cay.let_pass(0.2)
    assert face.lives()
    face.reset()


def test_commands_left_behind_are_counted_by_tenant(face):
    """One tenant leaves more than its share: those of another tenant go on when their clients leave."""
    def run(c):
        c.body()
        c.begin_frames("Cay-Pid: 7\r\n")
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
        c.conn.close()


# -- what PID 1 replies

@pytest.mark.parametrize("size", [10, 4 * MIB], ids=["part of it", "more than is sent at once"])
def test_a_reply_before_the_file_was_sent(face, size):
    """PID 1 replies at once to a part of a form, and the rest of the part comes then."""
    def early(c):
        c.reply(200, {"path": "/x", "size": 0})
        return "close"
    face.on["PUT", "/content"] = early
    rest = b"x" * size + b"\r\n--b--\r\n"
    s = face.connect()
    with s:
        s.sendall(face.head("POST", "/e2b/files", {**FORM, "Content-Length": str(len(PART) + len(rest))}) + PART)
        waits(face, 1, "/content")
        cay.let_pass(0.2)
        with contextlib.suppress(OSError):
            s.sendall(rest)
        with contextlib.suppress(OSError):
            status, text = finish(s)
            assert status >= 400, text


def test_as_many_rows_as_pid_1_likes(face):
    """Its lists of execs and processes are compared by an index."""
    face.on["GET", "/execs"] = lambda c: c.reply(200, {"execs": [{"pid": i, "state": "running"} for i in range(20000)]})
    face.on["GET", "/processes"] = lambda c: c.reply(200, {"processes": [{"pid": i, "command": "x"} for i in range(10000, 30000)]})
    begun = time.monotonic()
    status, text = face.ask("POST", "/e2b/process.Process/List", b"{}", UNARY)
    assert status == 200 and len(json.loads(text)["processes"]) == 10000
    assert time.monotonic() - begun < 5


def entry(path, **more):
    return {"path": path, "type": "file", "size": 1, "mode": "0644", "uid": 0, "gid": 0, "mtime": "2026-01-02T03:04:05Z", **more}


def test_a_list_is_whole(face):
    """Paths of 7,900 entries, which together are longer than what a request may keep."""
    rows = [entry("d" * 200 + f"/{i}") for i in range(7900)]
    face.on["GET", "/files"] = lambda c: c.reply(200, {"entries": rows, "truncated": False})
    status, text = face.ask("POST", "/e2b/filesystem.Filesystem/ListDir", json.dumps({"path": "/w"}).encode(), UNARY)
    assert status == 200 and [e["path"] for e in json.loads(text)["entries"]] == ["/w/" + r["path"] for r in rows]


def test_names_that_are_not_utf_8_are_listed(face):
    odd = entry("")
    del odd["path"]
    face.on["GET", "/files"] = lambda c: c.reply(200, {"entries": [entry("a"), {**odd, "path_b64": "Yv9j"}], "truncated": False})
    status, text = face.ask("POST", "/e2b/filesystem.Filesystem/ListDir", json.dumps({"path": "/w"}).encode(), UNARY)
    assert status == 200 and [e["name"] for e in json.loads(text)["entries"]] == ["a", "b�c"], text


def execute(face, events):
    def run(c):
        c.body()
        c.begin_frames()
        at = 0
        for event in events:
            data = json.dumps(event, ensure_ascii=False).encode() + b"\n"
            for k in range(0, len(data), 1 << 19):
                piece = data[k:k + (1 << 19)]
                c.frame(1, 3, piece, at)
                at += len(piece)
        c.end_frames({"reason": "exit", "exit_code": 0})
    face.on["POST", "/kernels/runs"] = run
    status, text = face.ask("POST", "/e2b/execute", json.dumps({"code": "x"}).encode(), CODE)
    assert status == 200
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("mib, fits", [(1, True), (5, False), (7, False)])
def test_a_result_that_is_too_large_is_named(face, mib, fits):
    """Each character takes three bytes in what PID 1 sends, and six in what the SDK gets."""
    events = [{"execution_count": 1}, {"result": {"main": True, "data": {"text/plain": "世" * (mib * MIB // 3)}}}, {"result": {"data": {"text/plain": "after"}}}]
    lines = execute(face, events)
    kinds = [(r["type"], r.get("name"), len(r.get("text", ""))) for r in lines]
    first = ("result", None, mib * MIB // 3) if fits else ("error", "ResultTooLarge", 0)
    assert kinds == [("number_of_executions", None, 0), first, ("result", None, 5), ("end_of_execution", None, 0)]


def output(face, *frames):
    """What the code interpreter sends for frames of kind, stream and bytes."""
    def run(c):
        c.body()
        c.begin_frames()
        at = [0, 0, 0, 0]
        for kind, stream, data in frames:
            c.frame(kind, stream, data, at[stream])
            at[stream] += len(data) if kind == 1 else int.from_bytes(data, "little")
        c.end_frames({"reason": "exit", "exit_code": 0})
    face.on["POST", "/kernels/runs"] = run
    status, text = face.ask("POST", "/e2b/execute", b'{"code":"x"}', CODE)
    assert status == 200
    return [(r["type"], r.get("text")) for r in map(json.loads, text.splitlines())]


def test_output_that_is_no_text(face):
    """NUL is a character of JSON; a byte that is no character, or a part of one at the end, is U+FFFD."""
    assert output(face, (1, 1, b"a\0b\n"), (1, 1, b"\xff\0c\n"), (1, 1, "世".encode()[:2])) == [
        ("stdout", "a\0b\n"), ("stdout", "\ufffd\0c\n"), ("stdout", "\ufffd\ufffd"), ("end_of_execution", None)]


def test_lost_output_is_named(face):
    gap = (42).to_bytes(8, "little")
    assert output(face, (1, 1, b"a\n"), (2, 1, gap), (1, 1, b"b\n")) == [
        ("stdout", "a\n"), ("stderr", "42 bytes of stdout were lost\n"), ("stdout", "b\n"), ("end_of_execution", None)]


def test_frames_that_are_none(face):
    """PID 1 sends a frame of no type and keeps the connection open: runs and commands end for their clients."""
    def run(c):
        c.body()
        c.begin_frames("Cay-Pid: 7\r\n")
        c.frame(1, 1, b"a\n")
        c.frame(99, 1, b"b")
    face.on["POST", "/kernels/runs"] = face.on["POST", "/execs"] = run
    with face.start("POST", "/e2b/execute", b'{"code":"x"}', CODE) as s:
        with pytest.raises(ConnectionError):
            finish(s)
    with begin(face) as s:
        status, text = finish(s)
        assert status == 200 and b"was interrupted" in text


@pytest.mark.parametrize("members", [{"context_id": 5}, {"language": ["python"]}, {"env_vars": [1]}, {"env_vars": "A=b", "language": "bash"}])
def test_members_of_another_type_are_refused(face, members):
    status, text = face.ask("POST", "/e2b/execute", json.dumps({"code": "x", **members}).encode(), CODE)
    assert status == 400 and not face.calls, text


def test_first_runs_in_bash_have_one_shell(face):
    """Eight at once: one creates it, the others wait; when the client of the first leaves, another does."""
    shells, made = [], []

    def create(c):
        c.body()
        made.append(c)
        if len(made) == 1:
            return
        shells.append({"id": "sh0000000000000000000001", "name": "e2b", "state": "idle"})
        c.reply(201, shells[0])

    def run(c):
        c.body()
        c.begin_frames()
        c.end_frames({"reason": "exit", "exit_code": 0})
    face.on["GET", "/shells"] = lambda c: c.reply(200, {"shells": shells})
    face.on["POST", "/shells"] = create
    face.on["POST", "/runs"] = run
    ask = "POST", "/e2b/execute", b'{"code":"x","language":"bash"}', CODE
    first = face.start(*ask)
    waits(face, 1, "/shells")
    cay.wait_for("the first create", lambda: made, 10)
    others = [face.start(*ask) for _ in range(7)]
    cay.let_pass(0.3)
    assert len(made) == 1
    first.close()
    assert [finish(s)[0] for s in others] == [200] * 7 and len(made) == 2
    for s in others:
        s.close()


# -- watchers

def test_a_watch_that_ends_at_once(face):
    """Before its first event: the client gets an error, and may leave then."""
    face.on["GET", "/watch"] = lambda c: c.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n")
    for _ in range(20):
        with face.start("POST", "/e2b/filesystem.Filesystem/CreateWatcher", b'{"path":"/x"}', UNARY) as s:
            s.settimeout(5)
            status, text = finish(s)
            assert status == 503 and json.loads(text)["code"] == "unavailable"
    assert face.lives()


@pytest.mark.plain  # it measures memory
def test_watchers_are_small(face):
    """cay-e2b drops the body of CreateWatcher, and keeps at most 128 KiB of events for a watcher."""
    def watch(c):
        c.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(400):
            event = b'data: {"number":%d,"event":"created","path":"%s"}\n\n' % (i, b"%04d" % i + b"x" * 4000)
            c.send(b"%x\r\n" % len(event) + event + b"\r\n")
    face.on["GET", "/watch"] = watch
    body = json.dumps({"path": "/x", "unknown": [[] for _ in range(15000)]}).encode()
    before = face.rss()
    made = [face.ask("POST", "/e2b/filesystem.Filesystem/CreateWatcher", body, UNARY) for _ in range(100)]
    assert [m[0] for m in made] == [200] * 100
    cay.let_pass(2)
    grown = face.rss() - before
    status, text = face.ask("POST", "/e2b/filesystem.Filesystem/GetWatcherEvents", made[50][1], UNARY)
    names = [e["name"] for e in json.loads(text)["events"]]
    print(grown // MIB, "MiB", len(names), "events")
    assert status == 200 and 30 < len(names) < 33 and [n[:4] for n in names] == [f"{i:04}" for i in range(len(names))]
    assert grown < 64 * MIB


# -- memory

def status_now(s):
    """Of the reply on a socket; OSError: there is none yet."""
    s.setblocking(False)
    return s.recv(12)[9:]


@pytest.mark.plain  # it measures memory
def test_bodies_that_do_not_end_are_counted(face):
    """100 of one tenant, of which nearly all has come: it is refused, and another tenant is not."""
    before, head = face.rss(), {**CODE, "Content-Length": str(3 * MIB - 100)}
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(100):
            s = stack.enter_context(face.connect())
            with contextlib.suppress(OSError):
                s.sendall(face.head("POST", "/e2b/execute", head) + b"{" + b" " * (2900 << 10))
            sockets.append(s)
        cay.let_pass(0.5)
        grown = face.rss() - before
        status, _ = face.ask("POST", "/e2b/filesystem.Filesystem/Stat", b'{"path":"/x"}', UNARY, tenant="blue")
        statuses = collections.Counter()
        for s in sockets:
            with contextlib.suppress(OSError):
                statuses[status_now(s)] += 1
    print(grown // MIB, "MiB", dict(statuses))
    assert status == 404, "the other tenant is served"
    assert grown < 64 * MIB and statuses[b"429"] > 50, statuses


@pytest.mark.plain  # it measures memory
def test_replies_that_wait_for_another_are_counted(face):
    """30 lists of one tenant, each with a link, whose target is never told."""
    rows = [entry("l", type="symlink", target="x"), *[entry(f"{i}") for i in range(7000)]]
    text = json.dumps({"entries": rows, "truncated": False}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    face.on["GET", "/files"] = lambda c: c.send(head + text)
    face.on["POST", "/files/batch"] = lambda c: c.body() and None
    before, refused = face.rss(), 0
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(face.start("POST", "/e2b/filesystem.Filesystem/ListDir", b'{"path":"/w"}', UNARY)) for _ in range(30)]
        waits(face, 30, "/files")
        waiting = list(sockets)

        def refuse():
            """One reply is read after the other; those that find no room are refused."""
            nonlocal refused
            for s in list(waiting):
                with contextlib.suppress(OSError):
                    refused += status_now(s) == b"429"
                    waiting.remove(s)
            return refused > 15 or None

        with contextlib.suppress(TimeoutError):
            cay.wait_for("most to be refused", refuse, 20)
        grown = face.rss() - before
        status, _ = face.ask("POST", "/e2b/filesystem.Filesystem/Stat", b'{"path":"/x"}', UNARY, tenant="blue")
    print(grown // MIB, "MiB", refused, "refused")
    assert status == 404, "the other tenant is served"
    assert grown < 96 * MIB and refused > 15, refused


# -- who asks

def test_each_call_is_limited_to_the_group(face):
    """The edge took the group from a header of the caller; the credential alone has all groups."""
    face.on["POST", "/v1/sandboxes"] = lambda c: (c.body(), c.reply(201, {"id": SANDBOX, "state": "running"}))
    face.on["GET", "/v1/sandboxes"] = lambda c: c.reply(200, {"sandboxes": []})
    asks = [("GET", "/v2/sandboxes", b"", {}), ("GET", f"/sandboxes/{SANDBOX}", b"", {}), ("DELETE", f"/sandboxes/{SANDBOX}", b"", {}),
            ("POST", "/v2/sandboxes", b'{"templateID":"base"}', {"Content-Type": "application/json"}),
            ("POST", "/process.Process/Start", envelope({"process": {"cmd": "x"}}), STREAM), ("POST", "/files", PART + b"y\r\n--b--\r\n", FORM),
            ("GET", "/files?path=/x", b"", AT), ("POST", "/execute", b'{"code":"1"}', CODE)]
    for method, path, body, headers in asks:
        for group in ("user-17", None):
            face.calls.clear()
            face.ask(method, "/e2b" + path, body, headers, group=group)
            assert face.calls and {c.headers.get("cay-group") for c in face.calls} == {group}, (path, group)
