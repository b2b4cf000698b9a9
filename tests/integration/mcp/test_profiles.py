# SPDX-License-Identifier: Apache-2.0
"""Every tool of every profile, called once at least in a real sandbox; and `cay mcp` in front of it"""
import base64
import hashlib
import io
import json
import os
import pathlib
import random
import re
import subprocess
import tarfile
import urllib.request
import zlib

import pytest

import cay

TABLE = {p["name"]: p for p in json.loads((pathlib.Path(__file__).parents[3] / "docs/tools.json").read_text())["profiles"]}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0:~\x9bU" + b"\0\0\0\nIDAT" + zlib.compress(b"\0\0")[:10] + b"\0\0\0\0IEND\xaeB`\x82"


class User:
    """Calls tools of a profile and counts which."""

    def __init__(self, node, profile):
        self.group = "p-" + "".join(random.choices("abcdefgh", k=10))
        self.node, self.profile, self.called = node, profile, set()
        self.client = node.client(node.new_key(), f"?profile={profile}&group={self.group}")

    def __call__(self, tool, fails=False, **arguments):
        result = self.client.ask("tools/call", {"name": tool, "arguments": arguments})
        self.called.add(tool)
        assert result["isError"] == fails, result["content"]
        return "\n".join(b.get("text", b.get("mimeType")) for b in result["content"])

    def data(self, tool, **arguments):
        return json.loads(self(tool, **arguments))

    def without_a_browser(self):
        """The tools of browsers, of which this image has none: mcp/test_browser_tools.py has one."""
        target = {"type": "ref", "ref": "ref_1"}
        values = {"target": target, "from": target, "scroll_direction": "up", "direction": "up", "duration": 1, "x": 1, "y": -1, "url": "about:blank", "paths": ["/x"], "region": [1, 1, 9, 9]}
        for t in TABLE[self.profile]["tools"]:
            if t["name"].startswith(("browser_", "cdp_", "open_browser", "WebFetch")) or self.profile == "browser":
                said = self(t["name"], True, **{k: values.get(k, "x") for k in t["inputSchema"].get("required", [])})
                assert "has no browser" in said, (t["name"], said)

    def without_a_screen(self):
        """The tools of screens, of which this image has none: mcp/test_screen_tools.py has one."""
        values = {"coordinate": [1, 1], "start_coordinate": [1, 1], "region": [1, 1, 9, 9], "scroll_direction": "up", "window_id": "1", "actions": [{"type": "wait"}], "direction": "up"}
        for t in TABLE[self.profile]["tools"]:
            if self.profile in ("computer", "openai") or TABLE[self.profile]["operations"][t["name"]].startswith("screen."):
                types = {n: p["type"] for n, p in t["inputSchema"]["properties"].items()}
                said = self(t["name"], True, **{k: values.get(k, i + 1 if types[k] in ("integer", "number") else "x") for i, k in enumerate(t["inputSchema"].get("required", []))} | ({"x1": 20, "y1": 20} if t["name"] == "zoom_screen" else {}))
                assert "has no screen" in said, (t["name"], said)

    def done(self):
        assert self.called == {t["name"] for t in TABLE[self.profile]["tools"]}
        self.node.door().call("DELETE", f"/v1/sandboxes?group={self.group}")


@pytest.fixture
def user(node, request):
    u = User(node, request.param)
    yield u
    u.done()


def profile(name):
    return pytest.mark.parametrize("user", [name], indirect=True)


@pytest.mark.parametrize("name", TABLE)
def test_the_list_is_the_table(node, name):
    assert node.client(query=f"?profile={name}").ask("tools/list")["tools"] == TABLE[name]["tools"]


@profile("native")
def test_native(user):
    assert "none yet" in user("sandbox_list")
    assert user("exec", command="echo hi; echo oops >&2; pwd") == "hi\n/workspace\n\noops\n\n[exit 0]"
    assert user("exec", command="exit 3").endswith("[exit 3]")
    assert "timeout" in user("exec", True, command="sleep 9", timeout=0.2)
    assert user("exec", command="cat; echo $A $PWD", stdin="in ", env={"A": "b"}, cwd="/tmp") == "in b /tmp\n\n[exit 0]"
    user("shell", command="cd /tmp; x=5")
    assert user("shell", command="echo $x $PWD") == "5 /tmp\n\n[in /tmp]\n[exit 0]"
    assert "timeout" in user("shell", True, command="sleep 9", timeout=0.2)
    assert user("shell", command="echo $x").startswith("5\n")  # it has stayed
    # what is cut can be read
    words = user("exec", command="seq 20000")
    more = re.search(r"read on with output, id (ex\w+), stream stdout, offset (\d+)", words)
    assert len(words) < 17000 and "omitted" in words and words.endswith("20000\n\n[exit 0]")
    head, rest = words.split("\n[...")[0], user("output", id=more[1], offset=int(more[2]), limit=100)
    everything = "".join(f"{i}\n" for i in range(1, 20001))
    assert everything.startswith(head) and everything[len(head):].startswith(rest.split("\n[bytes")[0])
    words = user("exec", command="seq 300000")  # more than is kept
    assert words.startswith("1\n2\n") and "read on with output, id ex" in words and words.endswith("300000\n\n[exit 0]")
    words = user("shell", command="seq 20000")
    more = re.search(r"read on with output, id (sh\w+), stream stdout, offset (\d+)", words)
    rest = user("output", id=more[1], offset=int(more[2]), limit=100).split("\n[bytes")[0]
    assert rest in everything and len(rest) == 100
    # code
    assert user("run_code", code="1").startswith("2\n") and "timeout" in user("run_code", True, code="sleep", timeout=0.2, kernel="b")
    assert user("run_code", code="1", kernel="b", restart=True).startswith("[the kernel was restarted")
    assert "unsupported" in user("run_code", True, code="1", language="r")
    # files
    assert user("write", path="a/b.txt", content="one\ntwo\nthree\n") == "created a/b.txt, 14 bytes"
    assert user("read", path="a/b.txt", first=2, limit=1) == "     2\ttwo\n\n[lines 2 to 2 of 3; read on from line 3]"
    assert "-two\n+2" in user("edit", path="a/b.txt", edits=[{"old": "two", "new": "2"}])
    assert "-2\n+two" in user("edit", path="a/b.txt", old="2", new="two")
    assert "-two\n+2" in user("edit", path="a/b.txt", old_string="two", new_string="2")
    assert "e" in user("edit", True, path="a/b.txt", edits=[{"old": "e", "new": "x"}])  # stands there more than once
    assert "no such" in user("read", True, path="nothing").lower()
    assert user("find", pattern="**/*.txt") == "a/b.txt  12\n"
    assert user("grep", pattern="^t", path="a") == "b.txt:3:three\n"
    user("exec", command="printf '" + "".join(f"\\{b:03o}" for b in PNG) + "' > p.png")
    assert user("read", path="p.png") == "image/png"
    # what goes on
    server = re.search(r"ex\w{24}", user("exec", command="echo up >&2; exec httpd -f -p 8001", background=True))[0]
    assert user("ports", port=8001) == "port 8001 is open" and f"of {server}" in user("ports")
    assert "httpd -f -p 8001" in user("processes") and "up" in user("output", id=server, stream="stderr")
    user("stop", id=server)
    cay.wait_for("it to end", lambda: "ended" in user("output", id=server, stream="stderr"), 20)
    asked = {"name": "ports", "arguments": {"port": 8001, "wait": 0}}  # what is told of it may be 20 ms old
    cay.wait_for("nobody to listen", lambda: user.client.ask("tools/call", asked)["isError"], 20)
    assert "nothing listens" in user("ports", True, port=8001, wait=0)
    assert re.match(r"http://\S+\.preview\.localhost:\d+/", user("preview", port=8001))
    assert "No host can be reached" in user("network") and user("network", to="api.example.com").startswith("deny: ")
    # sandboxes
    made = re.match(r"sb\w{24}", user("sandbox_create", name="other", image="tiny", memory_mib=64, cpus=0.5))[0]
    assert user("exec", sandbox="other", command="ls /bin/bash || true").endswith("[exit 0]")
    assert made in user("sandbox_list") and "deleted" in user("sandbox_delete", sandbox="other")
    assert "not_found" in user("exec", True, sandbox="other", command="true")
    kept = re.match(r"sn\w{24}", user("snapshot"))[0]
    assert user("sandbox_delete", snapshot=kept) == f"deleted {kept}"
    assert "image workshop" in user("sandbox_create")  # as the settings say


def test_bytes_go_there_and_back_as_base64(node):
    user = User(node, "native")
    everything = bytes(range(256)) * 3
    encoded = base64.b64encode(everything).decode()
    assert user("write", path="all.bin", content=encoded, encoding="base64") == "created all.bin, 768 bytes"
    assert hashlib.sha256(everything).hexdigest() in user("exec", command="sha256sum all.bin")
    assert user("read", path="all.bin") == f"{encoded}\n[base64 of all 768 bytes]"
    words = user("write", True, path="all.bin", content=encoded[:-1], encoding="base64")
    assert "content: is not base64" in words and user("find", pattern="all.bin") == "all.bin  768\n"
    # text of another encoding, by lines
    user("write", path="latin1", content=base64.b64encode("a\n\xe9t\xe9\nz\n".encode("latin1")).decode(), encoding="base64")
    line, said = user("read", path="latin1", first=2, limit=1).split("\n")
    assert base64.b64decode(line) == b"\xe9t\xe9\n" and said == "[base64, because not UTF-8: lines 2 to 2 of 3]"
    # more than a result has room for
    user("exec", command="head -c 50000 /dev/zero > zeros")
    line, said = user("read", path="zeros").split("\n")
    assert base64.b64decode(line) == bytes(36864) and said.startswith("[base64 of the first 36864 bytes; read more with")
    node.door().call("DELETE", f"/v1/sandboxes?group={user.group}")


@profile("anthropic")
def test_anthropic(user):
    edit = "str_replace_based_edit_tool"
    user("bash", command="cd /tmp && y=7")
    assert user("bash", command="echo $y $PWD") == "7 /tmp\n"
    assert user("bash", command="false") == "[exit 1]"
    assert "restarted" in user("bash", restart=True) and user("bash", command="echo \"[$y] $PWD\"") == "[] /workspace\n"
    assert "created" in user(edit, command="create", path="/workspace/d/f", file_text="a\nb\n")
    user(edit, command="insert", path="/workspace/d/f", insert_line=1, new_str="x\n")
    user(edit, command="str_replace", path="/workspace/d/f", old_str="b", new_str="c")
    assert user(edit, command="view", path="/workspace/d/f") == "     1\ta\n     2\tx\n     3\tc\n"
    assert user(edit, command="view", path="/workspace/d/f", view_range=[2, 2]).startswith("     2\tx\n")
    assert "/workspace/d/f" in user(edit, command="view", path="/workspace")
    assert "screen" in user("computer", fails=True, action="screenshot"), "of this image; control/test_screen.py has one"


@profile("browser")
def test_browser(user):
    user.without_a_browser()


@profile("computer")
def test_computer(user):
    user.without_a_screen()


@profile("openai")
def test_openai(user):
    user.without_a_screen()


@profile("deep-agent")
def test_deep_agent(user):
    user.without_a_browser()
    assert user("Bash", command="echo hi", description="say hi") == "hi\n\n[exit 0]"
    assert "[exit 1]" in user("Bash", command="false")
    file = re.search(r"Output: (\S+)", user("Bash", command="echo \"it's\" done", run_in_background=True))[1]
    # which it may not have made yet
    asked = {"name": "Read", "arguments": {"file_path": file}}
    cay.wait_for("it to write", lambda: "it's done" in json.dumps(user.client.ask("tools/call", asked)), 20)
    assert "it's done" in user("Read", file_path=file)
    assert user("Write", file_path="d/f.go", content="x\ny\nx\n") == "Wrote 6 bytes to d/f.go"
    assert user("Glob", pattern="**/*.go", path="d") == "d/f.go\n"
    assert user("Grep", pattern="x", path="d") == "f.go:1:x\nf.go:3:x\n" and user("Grep", pattern="x", path="d", output_mode="count") == "f.go:2\n"
    user("Edit", file_path="d/f.go", old_string="x", new_string="z", replace_all=True)
    assert user("Read", file_path="d/f.go", offset=3, limit=1) == "     3\tz\n"


@profile("sandboxhub")
def test_sandboxhub(user):
    user.without_a_browser()
    user.without_a_screen()
    user("close_browser", True)
    assert user.data("execute_shell", command="echo hi") == {"output": "hi", "error": "", "system": ""}
    assert "f, 3 bytes" in user("write_file", path="f", content="abc")
    assert "there already" in user("write_file", True, path="f", content="other")
    user("edit_file", path="f", old_text="b", new_text="B")
    assert user("read_file", path="f") == "     1\taBc"
    user("upload_file", filename="u", base64_content=base64.b64encode(b"\0\1").decode(), dest_dir="/workspace/up")
    assert user("download_file", path="/workspace/up/u") == base64.b64encode(b"\0\1").decode()
    pid = int(user.data("execute_shell", command="sleep 99 & echo $!")["output"])
    assert [p["cmdline"] for p in user.data("list_processes") if p["pid"] == pid] == ["sleep 99"]
    user("kill_process", pid=pid, force=True)
    cay.wait_for("it to be gone", lambda: pid not in [p["pid"] for p in user.data("list_processes")], 20)
    assert user.data("get_system_info")["memory_used_mb"] > 0


@profile("sandbox-agent")
def test_sandbox_agent(user):
    for name in ("python", "node"):
        user.node.call("POST", "/v1/templates", {"name": name, "defaults": {"image": "workshop"}})
    session, other = (user.data("create_session", **a)["session_id"] for a in ({}, {"language": "node"}))
    assert user.data("execute_terminal", session_id=session, command="echo hi; exit 2") == {"stdout": "hi\n", "stderr": "", "exit_code": 2}
    assert user.data("execute_code", session_id=session, code="1") == {
        "success": False, "stdout": "", "stderr": "", "result": {"text/plain": "2"}, "error": {"type": "Error", "message": "no", "traceback": "a\nb"},
        "display_outputs": [{"type": "text/plain", "data": "[image/png of 9 bytes is not shown; it is in /tmp/x.png]"}]}
    user("import_files", session_id=session, files=[{"file_name": "d/x", "file_content": "x"}, {"file_content": "AAE=", "encoding": "base64", "destination": "d/y"}])
    made = user("export_files", True, session_id=session, files=[{"source": "d"}, {"source": "d/y"}, {"source": "none"}])
    tree, file, none = json.loads(made)["files"]
    with urllib.request.urlopen(tree["download_url"], timeout=20) as r, tarfile.open(fileobj=io.BytesIO(r.read())) as t:
        assert {"./x", "./y"} <= set(t.getnames()), "whoever has the link GETs it, and that is all"
    # a file as itself, and every member that its clients know
    with urllib.request.urlopen(file["download_url"], timeout=20) as r:
        assert r.read() == b"\0\1"
    assert {k: file[k] for k in ("session_id", "path", "success", "size")} == {"session_id": session, "path": "/workspace/d/y", "success": True, "size": 2}
    assert (tree["path"], tree["success"]) == ("/workspace/d", True)
    assert not none["success"] and none["error"] and "download_url" not in none
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(file["download_url"].replace("d%2Fy", "d%2Fx"), timeout=20)
    assert e.value.code == 403
    user("import_files", session_id=other, files=[{"session_id": session, "path": "d"}])
    assert user.data("execute_terminal", session_id=other, command="wc -c < d/y")["stdout"] == "2\n"
    result = user("import_files", True, session_id=session, files=[{"file_content": "x", "destination": "/proc/x"}, {"file_content": "y", "destination": "z"}])
    assert [f["success"] for f in json.loads(result)["files"]] == [False, True]
    assert all(user.data("stop_session", session_id=s) == {"success": True} for s in (session, other))


@profile("opensandbox")
def test_opensandbox(user):
    made = user.data("sandbox_create", image="workshop", metadata={"a": "b"}, resource={"cpu": "500m", "memory": "64Mi"})
    at = {"sandbox_id": made["sandbox_id"]}
    assert made["info"]["status"]["state"] == "Running" and made["info"]["metadata"] == {"a": "b"}
    assert user.data("sandbox_connect", **at)["info"]["id"] == at["sandbox_id"] == user.data("sandbox_get_info", **at)["id"]
    listed = user.data("sandbox_list", filter={"states": ["Running"], "metadata": {"a": "b"}})["sandbox_infos"]
    assert at["sandbox_id"] in [i["id"] for i in listed]
    assert user.data("sandbox_renew", **at, timeout_seconds=900)["expires_at"] > made["info"]["expires_at"]
    assert user.data("sandbox_get_metrics", **at)["memory_bytes"] > 0 and user.data("sandbox_healthcheck", **at)["healthy"]
    run = user.data("command_run", **at, command="echo hi; exit 2", working_directory="/tmp")
    assert run["exit_code"] == 2 and run["logs"] == {"stdout": [{"text": "hi\n"}], "stderr": []}
    job = user.data("command_run", **at, command="sleep 99", background=True)
    assert user.data("command_interrupt", **at, execution_id=job["id"]) == {"status": "interrupted"}
    user("file_create_directories", **at, entries=[{"path": "/workspace/d"}, {"path": "/workspace/e/f", "mode": 700}])
    user("file_write", **at, path="/workspace/d/x.py", content="one two two", mode=644)
    assert user.data("file_search", **at, path="/workspace", pattern="*.py")["result"][0]["path"] == "/workspace/d/x.py"
    replaced = user.data("file_replace_contents", **at, entries=[{"path": "/workspace/d/x.py", "old_content": "two", "new_content": "2"}])
    assert replaced["result"] == [{"path": "/workspace/d/x.py", "replaced_count": 2}]
    user("file_move", **at, entries=[{"source": "/workspace/d/x.py", "destination": "/workspace/e/y.py"}])
    assert user.data("file_read", **at, path="/workspace/e/y.py", range_header="bytes=0-4")["content"] == "one 2"
    assert "not_found" in user("file_delete", True, **at, paths=["/workspace/none"])
    user("file_delete", **at, paths=["/workspace/e/y.py"])
    user("file_delete_directories", **at, paths=["/workspace/e", "/workspace/d"])
    assert user.data("command_run", **at, command="ls /workspace")["logs"]["stdout"] == []
    for _ in range(3):  # this node has no cay-egress; a refusal for that holds no other create back
        assert "egress_unavailable" in user("sandbox_create", True, image="workshop", network_policy={"defaultAction": "allow"})
        user("sandbox_kill", sandbox_id=user.data("sandbox_create", image="workshop", network_policy={})["sandbox_id"])
    policy = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "a..example"}]}
    assert "egress.rules[0].to: expected a name" in user("sandbox_create", True, image="workshop", network_policy=policy)
    at_port = user.data("sandbox_get_endpoint", **at, port=80)
    assert at_port["endpoint"].endswith(f".preview.localhost:{user.node.port}") and at_port["headers"]["Cay-Preview"]
    assert user.data("sandbox_kill", **at) == {"status": "killed"}


# -- cay mcp

def bridge(node, home, *messages, words=()):
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CAY_PATHS_STATE": str(node.state), "CAY_EDGE_LISTEN": f"127.0.0.1:{node.port}"}
    text = "".join(json.dumps({"jsonrpc": "2.0", **m}) + "\n" for m in messages)
    # what listens must be cay-edge's: here is who that is
    edge = os.stat(f"/proc/{node.daemons['cay-edge-0'].pid}").st_uid
    passwd = home / "passwd"
    passwd.write_text(f"root:x:0:0::/:/bin/sh\ncay-edge:x:{edge}:{edge}::/:/bin/sh\n")
    room = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', str(passwd)]
    r = subprocess.run([*room, node.programs["cay"], "mcp", *words], input=text, env=env, capture_output=True, text=True, timeout=60, check=True)
    return {m["id"]: m for m in map(json.loads, r.stdout.splitlines())}


def call(i, name, **arguments):
    return {"id": i, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def test_the_bridge_finds_its_sandbox_again(node, tmp_path):
    hello = {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    first = bridge(node, tmp_path, hello, {"method": "notifications/initialized"}, call(1, "write", path="kept", content="here"))
    assert first[0]["result"]["protocolVersion"] == "2025-11-25" and not first[1]["result"]["isError"], first
    again = bridge(node, tmp_path, hello, call(1, "exec", command="cat kept"))
    assert again[1]["result"]["content"][0]["text"] == "here"
    other = bridge(node, tmp_path, hello, call(1, "exec", command="cat kept"), words=["--group", "g-other"])
    assert "[exit 1]" in json.dumps(other[1]["result"])
    assert {t["name"] for t in bridge(node, tmp_path, {"id": 1, "method": "tools/list"}, words=["--profile", "anthropic"])[1]["result"]["tools"]} \
        == {"bash", "str_replace_based_edit_tool", "computer"}
