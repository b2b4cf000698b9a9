# SPDX-License-Identifier: Apache-2.0
"""A model that calls tools of a profile in a sandbox of its group"""
import random

import pytest


class ToolUser:
    def __init__(self, node, profile, start):
        self.group = "u-" + "".join(random.choices("abcdefgh", k=10))
        self.node, self.client = node, node.client(query=f"?profile={profile}&group={self.group}")
        self.client.timeout_s = 60
        tool, arguments = start
        self(tool, **arguments)
        [self.box] = [s["id"] for s in node.door().call("GET", f"/v1/sandboxes?group={self.group}")["sandboxes"]]

    def content(self, tool, arguments, fails=False):
        result = self.client.ask("tools/call", {"name": tool, "arguments": arguments})
        assert result["isError"] == fails, result["content"]
        return result["content"]

    def __call__(self, tool, fails=False, **arguments):
        return "\n".join(b.get("text", b.get("mimeType")) for b in self.content(tool, arguments, fails))

    def end(self):
        self.node.door().call("DELETE", f"/v1/sandboxes?group={self.group}")


def using(profile, tool, **arguments):
    """For a fixture `tools` that makes a ToolUser: its first call makes the sandbox."""
    return pytest.mark.parametrize("tools", [(profile, (tool, arguments))], ids=[profile], indirect=True)
