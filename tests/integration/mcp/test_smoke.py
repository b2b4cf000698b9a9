# SPDX-License-Identifier: Apache-2.0
"""One sandbox through every program: the keeper, cayd, cay-init, cay-edge, cay-mcp and cay (`make quick`)"""
import os
import subprocess


def test_one_sandbox_through_every_program(node):
    def cay(*words):
        env = {**os.environ, "CAY_SOCKET": node.socket, "CAY_TIMEOUT": "20s"}
        done = subprocess.run([str(node.programs["cay"]), *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (words, done)
        return done.stdout

    name = cay("create", "--name", "smoke", "tiny").strip()
    assert cay("exec", name, "--", "echo", "by cay") == "by cay\n"
    door = node.door()  # over TCP, through the edge
    assert name in {s["id"] for s in door.call("GET", "/v1/sandboxes")["sandboxes"]}
    assert door.exec(name, ["echo", "by the edge"]).text == "by the edge\n"
    cay("rm", name)
    assert door.call("GET", f"/v1/sandboxes/{name}")["state"] == "terminated"
    assert "by mcp" in node.client().call("exec", command="echo by mcp")["content"][0]["text"]
