# SPDX-License-Identifier: Apache-2.0
"""MCP over Streamable HTTP, both eras: an edge, cay-mcp and back."""
import os
import signal

import pytest

import mcp
from cay import wait_for
from nodes import BUILD


@pytest.mark.parametrize("modern", [True, False])
def test_a_command_runs(node, box, modern):
    c = node.client(modern=modern)
    if not modern:
        assert c.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})["protocolVersion"] == "2025-11-25"
        assert c.post("notifications/initialized", note=True) == (202, [])
        assert c.ask("ping") == {}
    assert {"exec", "sandbox_list"} <= set(c.tools())
    r = c.call("exec", sandbox=box, command="echo hi; exit 3")
    assert [x["text"] for x in r["content"]] == ["hi\n", "[exit 3]"] and not r["isError"]
    assert (r.get("resultType") == "complete") == modern


def test_a_tool_starts_a_stopped_sandbox(node):
    """A token of the sandbox does not, and the reply says what does."""
    c, box = node.client(), node.create("workshop")
    for tool, arguments, want in (("exec", {"command": "echo hi"}, "hi\n"), ("read", {"path": "/etc/stopped"}, "stopped"), ("shell", {"command": "cat /etc/stopped"}, "stopped")):
        node.exec(box, ["sh", "-c", "echo stopped >/etc/stopped"], user="root")
        node.call("POST", f"/v1/sandboxes/{box}/stop", timeout_s=120)
        r = c.call(tool, sandbox=box, **arguments)
        assert not r["isError"] and want in r["content"][0]["text"], r
    node.call("POST", f"/v1/sandboxes/{box}/stop", timeout_s=120)
    token = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
    r = mcp.Client(node.port, token).call("exec", sandbox=box, command="true")
    assert r["isError"] and r["content"][0]["text"].startswith("wrong_state: "), r
    node.delete(box)


def test_who_says_no_timeout_has_that_of_the_settings():
    with mcp.Workshop(BUILD, {"CAY_MCP_TIMEOUT": "1s"}) as node:
        native, other, deep = (node.client(query=f"?profile={p}") for p in ("native", "anthropic", "deep-agent"))
        for asked in [(native, "exec"), (native, "shell"), (other, "bash")]:
            r = asked[0].call(asked[1], command="sleep 60")
            assert r["isError"] and "[ended: timeout after 1 s" in r["content"][-1]["text"], (asked, r)
        # one who says, and a tool that says it itself
        for r in (native.call("exec", command="sleep 2", timeout=60), native.call("shell", command="sleep 2", timeout=0), deep.call("Bash", command="sleep 2")):
            assert not r["isError"], r
        # those of other products have the products' own: SandboxHub 30 s, sandbox-agent 300 s at most
        hub, agent = (node.client(query=f"?profile={p}") for p in ("sandboxhub", "sandbox-agent"))
        r = hub.call("execute_shell", command="sleep 2; echo slept")
        assert r["structuredContent"] == {"output": "slept", "error": "", "system": ""}, r
        session = native.call("sandbox_create")["structuredContent"]["id"]
        r = agent.call("execute_terminal", session_id=session, command="sleep 2; echo slept")
        assert r["structuredContent"] == {"stdout": "slept\n", "stderr": "", "exit_code": 0}, r


def test_one_that_the_machine_lost_is_not_the_model_s_doing(node):
    """Its own delete is."""
    me = mcp.Client(node.port, node.new_key())
    deleted, died = node.create("tiny"), node.create("tiny")
    node.delete(deleted)
    os.kill(node.pid_1(died), signal.SIGKILL)
    wait_for("its end", lambda: node.get(died)["state"] == "failed", 30)
    for box, lost in ((deleted, False), (died, True)):
        said = me.call("exec", command="true", sandbox=box)
        assert said["isError"] and said["content"][0]["text"].startswith("wrong_state: the sandbox has ended: ")
        assert ("not your doing" in said["content"][0]["text"]) == lost
