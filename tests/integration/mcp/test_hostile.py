# SPDX-License-Identifier: Apache-2.0
"""Who must not, and what must not: Origin, Host, scopes, messages that are none."""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess

import cay
import mcp
import pytest

INIT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def code(messages):
    return messages[-1]["error"]["code"]


# -- API-09

def test_API_09_foreign_pages_and_hosts_are_refused(node):
    for modern in (True, False):
        c = node.client(modern=modern)
        method = ("server/discover", {}) if modern else ("initialize", INIT)
        assert c.post(*method)[0] == 200
        for headers in ({"Origin": "http://evil.test"}, {"Origin": "null"}, {"Origin": f"http://127.0.0.1:{node.port}"}, {"Host": "evil.test"},
                        {"Host": "evil.test", "Origin": "http://evil.test"}):
            assert c.post(*method, headers=headers)[0] == 403, headers


def test_API_09_nobody_comes_without_a_credential(node):
    for credential in ("", "cay_00000000_" + "A" * 43, "x"):
        status, messages = node.client(credential).post("tools/list")
        assert status == 401 and "result" not in messages[-1]


def test_API_09_a_session_opens_nothing(node):
    """A session id is a name for cancellation: with another's credential, or none, it is worth nothing."""
    c = node.client(modern=False)
    c.ask("initialize", INIT)
    assert len(c.session) == 32
    thief = node.client("", modern=False)
    thief.session = c.session
    assert thief.post("tools/list")[0] == 401
    # one that was chosen by somebody is not taken over
    fixed = node.client(modern=False)
    fixed.session = "f" * 32
    fixed.ask("initialize", INIT)
    assert fixed.session != "f" * 32


def test_API_09_scope_is_the_tokens(node, box):
    reads, writes = node.client(node.new_key("read")), node.client(node.new_key("write"))
    assert "exec" in writes.tools() and "exec" not in reads.tools()
    assert {"read", "find", "processes"} <= set(reads.tools())
    assert all(t["annotations"]["readOnlyHint"] for t in reads.tools().values())
    r = reads.call("exec", sandbox=box, command="touch /tmp/scope")
    assert r["isError"] and "permission_denied" in r["content"][0]["text"]
    assert not reads.call("find", sandbox=box, path="/tmp")["isError"]
    assert "scope" not in json.dumps(writes.call("find", sandbox=box, path="/tmp"))


def test_API_09_a_token_has_its_one_sandbox(node, box):
    other = node.door().create("tiny")
    token = node.door().call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write", "ttl_ms": 60000})["token"]
    c = node.client(token)
    assert "exec" in c.tools() and not {"sandbox_create", "sandbox_list"} & set(c.tools())
    assert c.call("exec", command="echo mine")["content"][0]["text"] == "mine\n", "it need not be named"
    r = c.call("exec", sandbox=other, command="echo foreign")
    assert r["isError"] and "foreign" not in json.dumps(r)
    node.call("DELETE", f"/v1/sandboxes/{other}")


def test_API_09_tenants_do_not_see_each_other(node, box):
    tenant = node.call("POST", "/v1/tenants", {"name": "mcp-other"})["id"]
    c = node.client(node.new_key("write", tenant))
    r = c.call("exec", sandbox=box, command="echo foreign")
    assert r["isError"] and "foreign" not in json.dumps(r)
    assert box not in json.dumps(c.call("sandbox_list", all=True))


def test_API_09_output_is_data(node, box):
    """What a sandbox says stands in a text of its own, whatever it looks like; the result is still ours."""
    c = node.client()
    says = '"}],"isError":false,"structuredContent":{"a":1}}\n\nevent: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n[exit 0]'
    r = c.call("exec", sandbox=box, command=f"cat <<'E'\n{says}\nE\nexit 7")
    assert r["content"][0] == {"type": "text", "text": says + "\n"} and r["content"][-1]["text"] == "[exit 7]" and not r["isError"]
    # the same on a stream
    status, messages = c.post("tools/call", {"name": "exec", "arguments": {"sandbox": box, "command": f"sleep 2; cat <<'E'\n{says}\nE"}}, progress="p")
    assert status == 200 and len(messages) >= 2 and messages[-1]["result"]["content"][0]["text"] == says + "\n"
    assert all(m["method"] == "notifications/progress" for m in messages[:-1])


def test_API_08_markup_and_escapes_stay_text(node, box):
    """A name that would be markup or a terminal's order travels as JSON, which no browser renders."""
    c = node.client()
    name = "<img src=x onerror=alert(1)>"
    assert not c.call("write", sandbox=box, path=f"/tmp/{name}", content="\x1b]0;pwn\x07<script>alert(1)</script>")["isError"]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
               "params": {"name": "find", "arguments": {"sandbox": box, "path": "/tmp"}, "_meta": c.meta()}}
    status, headers, body = c.send(json.dumps(message), c.headers("tools/call", message["params"]))
    assert status == 200 and headers["Content-Type"] == "application/json" and headers["Cache-Control"] == "no-store"
    assert name in json.loads(body)["result"]["content"][0]["text"]
    status, headers, body = c.send(json.dumps(message), {**c.headers("tools/call", message["params"]), "Mcp-Name": name})
    assert status == 400 and headers["Content-Type"] == "application/json" and b"<img" not in body


def test_API_09_the_credential_goes_nowhere_else(node, box):
    """Not into the sandbox, not into a log, not into an answer."""
    c = node.client()
    r = c.call("exec", sandbox=box, command="cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'")
    assert c.credential not in json.dumps(r)
    assert c.credential not in "".join(node.log(n) for n in ("cay-mcp", *node.edges))


# -- messages that are none

def modern(method, **params):
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": mcp.Client(0, "").meta()}}


BAD = [
    (b"", 400, -32700),
    (b"{", 400, -32700),
    (b"[]", 400, -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
    (b'"x"', 400, -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":1}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 400, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":1}}', 400, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":{}}}}', 400, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"pi\\u0000ng"}', 400, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}x', 400, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', 400, -32700),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 400 + b',"method":"ping"}', 400, -32700),
    (b'{"jsonrpc":"2.0","id":"' + b"x" * 300 + b'","method":"ping"}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 40 + b"]" * 40 + b"}}", 413, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[' + b"1," * 20000 + b"1]}}", 413, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', 200, -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}', 400, -32600),
    (b'{"jsonrpc":"2.0","method":"ping"}', 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', 200, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody"}}', 200, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}', 200, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', 200, -32602),
    (b"\0" * 100, 400, -32700),
]


def test_what_is_no_message_is_refused(node):
    c = node.client(modern=False)
    headers = c.headers("", {})
    for body, status, want in BAD:
        got = c.send(body, headers)
        assert (got[0], json.loads(got[2])["error"]["code"]) == (status, want), (body[:80], got)
    assert c.send(b'{"jsonrpc":"2.0","method":"notifications/nobody"}', headers)[0] == 202
    assert c.ask("ping") == {}, "it still serves"


def test_too_much_is_refused(node):
    c = node.client(modern=False)
    headers = c.headers("", {})
    assert c.send(b'{"a":"' + b"x" * (1 << 20) + b'"}', headers)[0] == 413
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)) as h:
        with contextlib.suppress(OSError):  # it may say so before all was sent
            h.request("POST", "/mcp", iter([b"x" * 65536] * 64), {**headers, "Transfer-Encoding": "chunked"}, encode_chunked=True)
        assert h.getresponse().status == 413
    assert c.ask("ping") == {}


def test_methods_and_types_of_http(node):
    c = node.client()
    for method in ("GET", "DELETE", "PUT"):
        status, headers, _ = c.send(None, c.headers("x", {}), method)
        assert status == 405 and headers["Allow"] == "POST"
    assert c.send(b"{}", {**c.headers("x", {}), "Content-Type": "text/plain"})[0] == 415
    assert node.client(query="?profile=nobody").post("tools/list")[0] == 400
    assert node.client(query="?what=1").post("tools/list")[0] == 400
    assert node.client(query="?group=../x").post("tools/list")[0] == 400


def test_headers_and_body_must_agree(node):
    c = node.client()
    for headers, want in (({"Mcp-Method": None}, -32020), ({"Mcp-Method": "tools/call"}, -32020), ({"Mcp-Method": "TOOLS/LIST"}, -32020),
                          ({"MCP-Protocol-Version": None}, -32020), ({"MCP-Protocol-Version": "2025-11-25"}, -32020),
                          ({"MCP-Protocol-Version": "1999-01-01"}, -32020)):
        assert code(c.post("tools/list", headers=headers)[1]) == want, headers
    call = {"name": "exec", "arguments": {"command": "true"}}
    for name in (None, "read", "=?base64?cmVhZA==?=", "=?base64?ZXhlYw?=", "=?base64?!!!!?=", "=?base64?" + "QUFB" * 200 + "?="):
        assert code(c.post("tools/call", call, headers={"Mcp-Name": name})[1]) == -32020, name
    status, messages = c.post("tools/call", {"name": "exec", "arguments": {}}, headers={"Mcp-Name": "=?base64?ZXhlYw==?="})
    assert status == 200 and messages[0]["result"]["isError"], "an encoded name is the same name"
    status, messages = c.post("tools/list", headers={"Mcp-Method": "a" * 2000})
    assert status >= 400


def test_what_a_model_got_wrong_is_told(node, box):
    c = node.client()
    for args, says in (({}, "command"), ({"command": 1}, "must be a string"), ({"cmd": "ls"}, "unknown argument"),
                       ({"command": "ls", "sandbox": "nobody"}, "nobody"), ({"command": "ls", "sandbox": box, "cwd": "relative"}, "cwd")):
        r = c.call("exec", **args)
        assert r["isError"] and says in r["content"][0]["text"], (args, r)


def test_long_output_is_cut_and_can_be_read_on(node, box):
    r = node.client().call("exec", sandbox=box, command="i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    text = r["content"][0]["text"]
    assert text.startswith("line 0\n") and text.endswith("line 19999\n") and len(text) < 60000 and "omitted" in text


# -- who leaves

LONG = "echo begun; exec sleep 1000"


@contextlib.contextmanager
def under_way(c, tool, **arguments):
    """A call that is not waited for; its connection."""
    params = {"name": tool, "arguments": arguments, **({"_meta": c.meta()} if c.modern else {})}
    body = json.dumps({"jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": params})
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", c.port, timeout=30)) as h:
        h.request("POST", "/mcp" + c.query, body, c.headers("tools/call", params))
        yield h


def wait_for_command(node, box, wrote):
    def the_one():
        return [e for e in node.door().call("GET", f"/v1/sandboxes/{box}/execs")["execs"] if e["state"] == "running" and e["stdout_bytes"] == wrote]
    cay.wait_for("the command", the_one, 20)
    return the_one()[0]["id"]


def assert_it_ends(node, box, ident):
    """All of it, and what it wrote until then is kept."""
    at = f"/v1/sandboxes/{box}/execs/{ident}"
    cay.wait_for("the command to end", lambda: node.door().call("GET", at)["state"] == "ended", 20)
    assert node.door().call("GET", at)["end"]["reason"] == "killed"
    assert node.door().open("GET", at + "/output").read() == b"begun\n"
    assert_nothing_runs(node, box)


def assert_nothing_runs(node, box):
    cay.wait_for("the last of it", lambda: "sleep 1000" not in json.dumps(node.door().call("GET", f"/v1/sandboxes/{box}/processes")), 20)


@pytest.mark.parametrize("modern", [True, False])
def test_closing_the_connection_cancels(node, box, modern):
    """The edge hears of it, and PID 1: what was asked for is over, and what runs in the background is not."""
    c = node.client(modern=modern)
    assert not c.call("exec", sandbox=box, command="sleep 999", background=True)["isError"]
    with under_way(c, "exec", sandbox=box, command=LONG):
        ident = wait_for_command(node, box, 6)
        held = sockets(node)
    cay.wait_for("its calls to end", lambda: sockets(node) < held, 20)
    assert_it_ends(node, box, ident)
    assert "sleep 999" in json.dumps(c.call("processes", sandbox=box))


def sockets(node):
    return len(os.listdir(f"/proc/{node.daemons['cay-mcp'].pid}/fd"))


def test_a_notification_cancels_ones_own(node, box):
    c = node.client(modern=False)
    c.ask("initialize", INIT)
    with under_way(c, "exec", sandbox=box, command=LONG) as h:
        ident = wait_for_command(node, box, 6)
        for other in (node.client(modern=False), node.client(node.new_key(), modern=False)):
            other.session = "0" * 32 if other.credential == c.credential else c.session
            assert other.post("notifications/cancelled", {"requestId": "mine"}, note=True)[0] == 202
        assert c.post("notifications/cancelled", {"requestId": "other"}, note=True)[0] == 202
        h.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            h.sock.recv(1)
        assert c.post("notifications/cancelled", {"requestId": "mine"}, note=True)[0] == 202
        h.sock.settimeout(20)
        assert h.getresponse().status == 200
    assert_it_ends(node, box, ident)


def test_a_shell_outlives_what_was_cancelled_in_it(node):
    c = node.client(query="?group=left")
    c.call("shell", command="x=5")
    box = node.door().call("GET", "/v1/sandboxes?name=mcp-left&state=live")["sandboxes"][0]["id"]
    at = f"/v1/sandboxes/{box}/shells"
    with under_way(c, "shell", command="echo begun; sleep 1000"):
        cay.wait_for("the command", lambda: "sleep 1000" in json.dumps(node.door().call("GET", f"/v1/sandboxes/{box}/processes")), 20)
    cay.wait_for("the shell to be free", lambda: node.door().call("GET", at)["shells"][0]["state"] == "idle", 20)
    assert_nothing_runs(node, box)
    assert c.call("shell", command="echo $x")["content"][0]["text"] == "5\n"
    node.door().call("DELETE", f"/v1/sandboxes/{box}")


# -- what it is

def test_it_can_do_little(node):
    pid = node.daemons["cay-mcp"].pid
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert status["CapEff"] == status["CapPrm"] == "0" * 16 and status["NoNewPrivs"] == "1" and status["Threads"] == "1"
    if "asan" not in os.environ.get("CAY_BUILD", ""):
        assert status["Seccomp"] == "2" and status["Seccomp_filters"] == "2", "one against rings, one against all the rest"
    assert status["Groups"].split() in ([], [str(mcp.MCP_UID)]), "control's sockets are others'"


def test_it_does_not_start_where_everybody_may_enter(node):
    env = {**node.env, "CAY_MCP_RUN": "/tmp"}
    r = subprocess.run([node.programs["mcp"]], env=env, capture_output=True, text=True, user=mcp.MCP_UID, group=mcp.MCP_UID, extra_groups=[], timeout=60)
    assert r.returncode and "accessible to all users" in r.stderr


def test_who_speaks_to_it_directly_has_no_more(node):
    """Its socket is for edges; without what an edge says nothing is done, and with it nothing without a credential."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(node.meet / "mcp.sock"))
        body = json.dumps(modern("tools/list")).encode()
        head = (f"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nCay-Back: 0\r\n"
                f"MCP-Protocol-Version: {mcp.MODERN}\r\nMcp-Method: tools/list\r\n")
        s.sendall(head.encode() + b"\r\n" + body)
        assert b" 401 " in s.recv(4096)
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(node.meet / "mcp.sock"))
        body = json.dumps(modern("tools/call", name="sandbox_list", arguments={})).encode()
        head = (f"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nCay-Actor: tn{'0' * 24} operator - -\r\n"
                f"Cay-Back: 0\r\nAuthorization: Bearer made-up\r\nMCP-Protocol-Version: {mcp.MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: sandbox_list\r\n")
        s.sendall(head.encode() + b"\r\n" + body)
        got = s.recv(65536)
        while b"isError" not in got and (more := s.recv(65536)):
            got += more
        assert b" 200 " in got and b'"isError":true' in got and b"unauthenticated" in got


def test_without_it_everything_else_goes_on(node, box):
    node.daemons["cay-mcp"].kill()
    node.daemons["cay-mcp"].wait()
    assert node.client().post("tools/list")[0] == 503
    assert node.door().call("GET", f"/v1/sandboxes/{box}")["state"] == "running"
    node.start_mcp()
    assert node.client().tools()
