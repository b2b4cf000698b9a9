# SPDX-License-Identifier: Apache-2.0
"""`cay mcp`: lines of JSON-RPC on standard input and output, HTTP behind them

The server is a fake whose answers the tests choose: whole, as a stream, late, wrong.
Whatever it says, standard output has messages and nothing else.
"""
import contextlib
import fcntl
import json
import os
import select
import stat
import subprocess
import threading

import pytest

import fake as fake_daemon
from fake import chunk, failure, head, reply

KEY = "cay_00000000_" + "A" * 43
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


class Server:
    """POST /mcp: `answer` gets the message, its headers and the query, and returns bytes or writes them itself."""

    def __init__(self):
        self.fake = fake_daemon.Fake()
        self.fake.say["POST", "/mcp"] = self.take
        self.seen, self.answer = [], lambda m, c: echo(m)

    def take(self, c, f):
        headers, query = self.fake.now.headers, self.fake.now.query
        message = json.loads(f.read(int(headers["content-length"])))
        self.seen.append((message, headers, query))
        said = self.answer(message, c)
        if said:
            c.sendall(said)


def echo(m):
    if "id" not in m:
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    return reply(200, {"jsonrpc": "2.0", "id": m["id"], "result": {"method": m["method"]}})


def ask(i, method="ping", **params):
    return {"jsonrpc": "2.0", "id": i, "method": method, **({"params": params} if params else {})}


def lines(*messages):
    return b"".join((m if isinstance(m, bytes) else json.dumps(m).encode()) + b"\n" for m in messages)


@pytest.fixture
def server():
    s = Server()
    yield s
    s.fake.stop()


@pytest.fixture
def bridge(server, tmp_path):
    """Run `cay mcp` on this machine's edge, which is the fake."""
    (tmp_path / "state/db").mkdir(parents=True)
    key = tmp_path / "state/db/operator.key"
    key.write_text(KEY + "\n")
    env = {**os.environ, "HOME": str(tmp_path), "CAY_PATHS_STATE": str(tmp_path / "state"), "CAY_TIMEOUT": "30s",
           "CAY_EDGE_LISTEN": f"127.0.0.1:{server.fake.port}"}
    env.pop("XDG_STATE_HOME", None)
    program = os.path.abspath(os.environ.get("CAY_PROGRAM", "build/gcc/src/cli/cay"))

    def start(*words, **kw):
        return subprocess.Popen([program, "mcp", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env={**env, **kw})

    def run(data, *words, **kw):
        p = start(*words, **kw)
        out, err = p.communicate(data, timeout=60)
        run.status, run.err = p.returncode, err.decode()
        return [json.loads(line) for line in out.decode().splitlines()]
    run.start, run.home, run.key = start, tmp_path, key
    return run


def test_a_line_is_a_message_both_ways(bridge, server):
    out = bridge(lines(ask(1), ask("two", "tools/list")))
    assert sorted(out, key=lambda m: str(m["id"])) == [
        {"jsonrpc": "2.0", "id": 1, "result": {"method": "ping"}},
        {"jsonrpc": "2.0", "id": "two", "result": {"method": "tools/list"}}]
    assert bridge.status == 0 and bridge.err == ""
    _, headers, query = server.seen[0]
    assert headers["authorization"] == f"Bearer {KEY}" and headers["host"] == f"127.0.0.1:{server.fake.port}"
    assert headers["content-type"] == "application/json" and headers["accept"] == "application/json, text/event-stream"
    assert query["profile"] == "native" and "mcp-method" not in headers and "mcp-protocol-version" not in headers


def test_a_last_line_without_an_end_is_one(bridge):
    assert [m["id"] for m in bridge(lines(ask(1))[:-1])] == [1]


def test_a_message_stays_one_line(bridge, server):
    def pretty(m, c):
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "a\nb"}}, indent=2).encode()
        return head(200, "application/json; charset=utf-8", len(text)) + text
    server.answer = pretty
    assert bridge(lines(ask(1))) == [{"jsonrpc": "2.0", "id": 1, "result": {"text": "a\nb"}}]


def test_a_stream_is_unrolled_in_order(bridge, server):
    notes = [{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": i}} for i in range(50)]
    last = {"jsonrpc": "2.0", "id": 7, "result": {"ok": True}}

    def stream(m, c):
        text = b": hello\n\n" + b"".join(f"event: message\ndata: {json.dumps(n)}\n\n".encode() for n in [*notes, last])
        c.sendall(head(200, "text/event-stream"))
        for at in range(0, len(text), 777):
            c.sendall(chunk(text[at:at + 777]))
        c.sendall(chunk(b""))
    server.answer = stream
    assert bridge(lines(ask(7))) == [*notes, last]


def test_what_comes_of_a_stream_is_written_when_it_comes(bridge, server):
    go = threading.Event()

    def stream(m, c):
        c.sendall(head(200, "text/event-stream") + chunk(b'data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'))
        assert go.wait(30)
        c.sendall(chunk(b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n') + chunk(b""))
    server.answer = stream
    p = bridge.start()
    p.stdin.write(lines(ask(1)))
    p.stdin.flush()
    assert json.loads(p.stdout.readline())["method"] == "notifications/progress"
    go.set()
    assert json.loads(p.stdout.readline())["id"] == 1
    p.stdin.close()
    assert p.wait(30) == 0


def test_one_that_takes_long_holds_nobody_up(bridge, server):
    go = threading.Event()

    def slow(m, c):
        if m["id"] == 1:
            assert go.wait(30)
        return echo(m)
    server.answer = slow
    p = bridge.start()
    p.stdin.write(lines(ask(1), ask(2)))
    p.stdin.flush()
    assert json.loads(p.stdout.readline())["id"] == 2
    go.set()
    p.stdin.close()
    assert [json.loads(line)["id"] for line in p.stdout] == [1]
    assert p.wait(30) == 0


def test_notifications_arrive_in_order(bridge, server):
    order = [({"jsonrpc": "2.0", "method": f"notifications/{i}"} if i % 3 else ask(i, f"m{i}")) for i in range(30)]
    out = bridge(lines(*order))
    assert [m["method"] for m, _, _ in server.seen if "id" not in m] == [m["method"] for m in order if "id" not in m]
    assert sorted(m["id"] for m in out) == [i for i in range(30) if not i % 3]
    # and none is overtaken by what was asked behind it
    for i, (m, _, _) in enumerate(server.seen):
        if "id" not in m:
            n = int(m["method"].split("/")[1])
            assert all("id" in s and s["id"] < n or "id" not in s for s, _, _ in server.seen[:i])


def test_a_notification_holds_back_the_lines_after_it(bridge, server):
    """Its connection is the only one when the bridge waits: what the bridge has sent does not depend on who is scheduled."""
    sent, go = threading.Event(), threading.Event()

    def hold(m, c):
        if "id" not in m:
            sent.set()
        assert go.wait(60)  # all of them, so that no connection ends
        return echo(m)
    server.answer = hold
    p = bridge.start()
    os.write(p.stdin.fileno(), lines({"jsonrpc": "2.0", "method": "notifications/x"}, ask(1)))  # one write is one read
    p.stdin.close()
    assert sent.wait(60)
    while open(f"/proc/{p.pid}/syscall").read().split()[0] not in ("7", "271"):  # poll, ppoll: it has done what it can
        pass
    links = [os.readlink(f"/proc/{p.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{p.pid}/fd")]
    go.set()
    assert len([l for l in links if l.startswith("socket:")]) == 1
    assert [json.loads(line)["id"] for line in p.stdout] == [1] and p.wait(60) == 0


def test_more_than_can_be_under_way_wait(bridge, server):
    now, most, change = 0, 0, threading.Condition()

    def count(m, c):
        nonlocal now, most
        with change:
            now += 1
            most = max(most, now)
            change.notify_all()
            change.wait_for(lambda: most > 1, timeout=20)  # nobody is alone
        threading.Event().wait(0.02)
        with change:
            now -= 1
        return echo(m)
    server.answer = count
    out = bridge(lines(*[ask(i) for i in range(60)]))
    assert sorted(m["id"] for m in out) == list(range(60)) and 2 <= most <= 16


def test_a_cancelled_request_is_closed_and_not_answered(bridge, server):
    closed, held = threading.Event(), threading.Event()

    def hold(m, c):
        if m["id"] != "long":
            return echo(m)
        held.set()
        with contextlib.suppress(OSError):
            if c.recv(1) == b"":
                closed.set()
    server.answer = hold
    p = bridge.start()
    p.stdin.write(lines(ask("long")))
    p.stdin.flush()
    assert held.wait(30)
    p.stdin.write(lines({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}}, ask(2)))
    p.stdin.flush()
    assert json.loads(p.stdout.readline())["id"] == 2
    assert closed.wait(30)
    p.stdin.close()
    assert p.stdout.read() == b"" and p.wait(30) == 0


def test_headers_say_what_the_message_says(bridge, server):
    bridge(lines(ask(1, "tools/call", name="exec", _meta=MODERN), ask(2, "tools/call", name=" ü", _meta=MODERN),
                 ask(3, "server/discover", _meta=MODERN), ask(4, "tools/call", name="exec")))
    seen = {m["id"]: h for m, h, _ in server.seen}
    assert (seen[1]["mcp-protocol-version"], seen[1]["mcp-method"], seen[1]["mcp-name"]) == ("2026-07-28", "tools/call", "exec")
    assert seen[2]["mcp-name"] == "=?base64?IMO8?="
    assert seen[3]["mcp-method"] == "server/discover" and "mcp-name" not in seen[3]
    assert not [h for h in seen[4] if h.startswith("mcp-")]


def test_what_was_agreed_on_is_said_from_then_on(bridge, server):
    def greet(m, c):
        if m["method"] == "initialize":
            return reply(200, {"jsonrpc": "2.0", "id": m["id"], "result": {"protocolVersion": "2025-11-25"}}).replace(
                b"\r\n", b"\r\nMcp-Session-Id: s1\r\n", 1)
        return echo(m)
    server.answer = greet
    p = bridge.start()
    p.stdin.write(lines(ask(1, "initialize")))
    p.stdin.flush()
    p.stdout.readline()
    p.communicate(lines(ask(2)), timeout=30)
    said = [(h.get("mcp-protocol-version"), h.get("mcp-session-id")) for _, h, _ in server.seen]
    assert said == [(None, None), ("2025-11-25", "s1")]


def test_no_header_can_be_smuggled(bridge, server):
    evil = "a\r\nAuthorization: Bearer x"
    bridge(lines(ask(1, evil, _meta=MODERN), ask(2, "tools/call", name=evil, _meta={**MODERN, next(iter(MODERN)): evil})))
    assert len(server.seen) == 2
    for m, h, _ in server.seen:
        assert h["authorization"] == f"Bearer {KEY}" and h["mcp-method"].startswith(("=?base64?", "tools/call"))


def test_a_large_message_passes_whole(bridge, server):
    text = "x" * 3_000_000
    got = bridge(lines(ask(1, "tools/call", name="write", content=text)))
    assert got[0]["id"] == 1 and server.seen[0][0]["params"]["content"] == text


BAD_LINES = {
    "not_json": (b"{", -32700), "array": (b"[]", -32600), "word": (b'"x"', -32600), "no_method": (b'{"jsonrpc":"2.0","id":1}', -32600),
    "no_version": (b'{"id":1,"method":"a"}', -32600), "twice": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}', -32700),
    "id_object": (b'{"jsonrpc":"2.0","id":{},"method":"a"}', -32600), "nul": (b'{"jsonrpc":"2.0","id":1,"method":"a\\u0000"}', -32700),
    "deep": (b'{"jsonrpc":"2.0","id":1,"method":"a","params":' + b"[" * 99 + b"]" * 99 + b"}", -32700),
    "huge": (b'{"jsonrpc":"2.0","id":1,"method":"a","params":"' + b"x" * 9_000_000 + b'"}', -32600),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_line_that_is_no_message_is_answered(bridge, server, name):
    text, code = BAD_LINES[name]
    out = bridge(lines(text, b"", b"  ", ask(2)))
    assert [(m["id"], m.get("error", {}).get("code")) for m in out] == [(None, code), (2, None)]
    assert [m["id"] for m, _, _ in server.seen] == [2]


def test_refusals_of_the_edge_become_errors(bridge, server):
    server.answer = lambda m, c: failure(429, "rate_limited", "slow down", hint="wait a little")
    (m,) = bridge(lines(ask(5)))
    assert m == {"jsonrpc": "2.0", "id": 5, "error": {"code": -32000, "message": "slow down",
                                                      "data": {"code": "rate_limited", "hint": "wait a little"}}}
    server.answer = lambda m, c: failure(401, "unauthenticated", "no")
    (m,) = bridge(lines(ask(5)))
    assert m["error"]["data"]["code"] == "unauthenticated" and "context" in m["error"]["data"]["hint"]


def test_errors_of_the_protocol_pass_as_they_are(bridge, server):
    said = {"jsonrpc": "2.0", "id": 5, "error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}}
    server.answer = lambda m, c: reply(400, said)
    assert bridge(lines(ask(5))) == [said]


BAD_REPLIES = {
    "nothing": b"", "html": head(200, "text/html", 3) + b"<p>", "accepted": b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
    "other_id": reply(200, {"jsonrpc": "2.0", "id": 99, "result": {}}), "request": reply(200, ask(5)),
    "cut": head(200, "application/json", 100) + b'{"jsonrpc"', "no_json": head(200, "application/json", 1) + b"{",
    "no_answer": head(200, "text/event-stream") + chunk(b'data: {"jsonrpc":"2.0","method":"x"}\n\n') + chunk(b""),
    "half_event": head(200, "text/event-stream") + chunk(b'data: {"jsonrpc":"2.0","id":5,"result":{}}\n') + chunk(b""),
    "bad_event": head(200, "text/event-stream") + chunk(b"data: hello\n\n") + chunk(b""),
    "gateway": head(502, "text/html", 3) + b"<p>", "ssh": b"SSH-2.0-OpenSSH_9.9\r\n",
}


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_who_waits_is_told_of_a_bad_reply(bridge, server, name):
    server.answer = lambda m, c: BAD_REPLIES[name]
    out = [m for m in bridge(lines(ask(5))) if "method" not in m]
    assert [m["id"] for m in out] == [5] and out[0]["error"]["code"] == -32000
    assert out[0]["error"]["data"]["code"] in ("sandbox_misbehaved", "unavailable") and bridge.status == 0


def test_a_notification_that_failed_is_for_stderr(bridge, server):
    server.answer = lambda m, c: failure(503, "unavailable", "not now") if "id" not in m else echo(m)
    assert [m["id"] for m in bridge(lines({"jsonrpc": "2.0", "method": "notifications/initialized"}, ask(1)))] == [1]
    assert "not now" in bridge.err


def test_a_server_that_is_away_is_an_answer(bridge, server):
    server.fake.stop()
    (m,) = bridge(lines(ask(1)))
    assert m["id"] == 1 and m["error"]["data"]["code"] == "unavailable" and m["error"]["data"]["hint"]


def test_it_ends_with_its_input_even_when_nobody_answers(bridge, server):
    server.answer = lambda m, c: threading.Event().wait(8) and None
    assert bridge(lines(ask(1)), CAY_TIMEOUT="300ms") == [] and bridge.status == 0


def test_it_ends_with_its_output(bridge, server):
    p = bridge.start()
    p.stdout.close()
    p.stdin.write(lines(ask(1)))
    p.stdin.flush()
    assert p.wait(30) != 0


def test_the_group_is_kept(bridge, server):
    def group(*words, **kw):
        server.seen.clear()
        bridge(lines(ask(1)), *words, **kw)
        return server.seen[0][2].get("group")
    first = group()
    kept = bridge.home / ".local/state/cay/local.group"
    assert first == group() == kept.read_text().strip() and first.startswith("mcp-") and len(first) == 16
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert group("--group", "thread-7") == "thread-7" and group() == first
    other = group(XDG_STATE_HOME=str(bridge.home / "other"))
    assert other != first and (bridge.home / "other/cay/local.group").read_text().strip() == other
    kept.write_text("../../etc\n")
    assert group() is None and "remove it" in bridge.err


def test_two_that_start_at_once_have_one_group(bridge, server):
    state = bridge.home / ".local/state/cay"
    state.mkdir(parents=True)
    lock = os.open(state, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    them = [bridge.start() for _ in range(4)]
    for p in them:
        p.stdin.write(lines(ask(1)))
        p.stdin.flush()
    # all of them wait for whoever looks at it now
    assert not select.select([p.stdout for p in them], [], [], 0.3)[0] and not list(state.iterdir())
    os.close(lock)
    for p in them:
        p.communicate(timeout=60)
    assert len({q["group"] for _, _, q in server.seen}) == 1 and len(server.seen) == 4


def test_the_profile_is_asked_for(bridge, server):
    bridge(lines(ask(1)), "--profile", "sandbox-agent")
    assert server.seen[0][2]["profile"] == "sandbox-agent"
    for words in (("--profile", "a&b"), ("--group", "A b")):
        assert bridge(lines(ask(1)), *words) == [] and bridge.status == 2


def test_without_a_key_it_says_what_to_do(bridge, server):
    bridge.key.unlink()
    assert bridge(lines(ask(1))) == [] and bridge.status != 0 and "cay context add" in bridge.err
    assert not server.seen


def test_a_context_has_its_own_token_and_group(bridge, server, cay):
    home = {**os.environ, "HOME": str(bridge.home)}
    subprocess.run([cay.program, "context", "add", "--url", f"http://127.0.0.1:{server.fake.port}", "--token-stdin", "far"],
                   input=b"other_token", env=home, check=True)
    bridge(lines(ask(1)), "--context", "far", CAY_EDGE_LISTEN="127.0.0.1:1")
    assert server.seen, bridge.err
    assert server.seen[0][1]["authorization"] == "Bearer other_token"
    assert (bridge.home / ".local/state/cay/far.group").exists()


@pytest.mark.parametrize("client,key", [("claude", "mcpServers"), ("cursor", "mcpServers"), ("vscode", "servers")])
def test_config_is_what_a_client_reads(bridge, client, key):
    (out,) = bridge(b"", "config", client, "--group", "g1")
    row = out[key]["cay"]
    assert row["command"] == "cay" and row["args"] == ["mcp", "--group", "g1"] and (row.get("type") == "stdio") == (client == "vscode")
    (out,) = bridge(b"", "config", client, CAY_CONTEXT="far")
    assert out[key]["cay"]["args"] == ["--context", "far", "mcp"]


def test_config_knows_its_clients(bridge):
    assert bridge(b"", "config", "emacs") == [] and bridge.status == 2 and "claude, cursor, vscode" in bridge.err
