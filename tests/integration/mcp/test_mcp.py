# SPDX-License-Identifier: Apache-2.0
"""MCP over Streamable HTTP, both eras: an edge, cay-mcp and back."""
import pytest


@pytest.mark.parametrize("modern", [True, False])
def test_a_command_runs(node, box, modern):
    c = node.client(modern=modern)
    if not modern:
        assert c.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})["protocolVersion"] == "2025-11-25"
        assert c.post("notifications/initialized", note=True) == (202, [])
        assert c.ask("ping") == {}
    assert {"exec", "sandbox_list"} <= set(c.tools())
    r = c.call("exec", sandbox=box, command="echo hi; exit 3")
    assert [x["text"] for x in r["content"]] == ["hi\n", "[exit 3]"] and r["isError"]
    assert (r.get("resultType") == "complete") == modern
