#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/mcp.py BUILD [GROUP...] - what MCP costs over the operation it is

    mcp_call   exec of `true` as a tool (2026-07-28) minus the same exec over REST, in turns over
               kept connections to one edge; p50 of each
"""
import http.client
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from mcp import McpWorld  # noqa: E402

ROUNDS = 3000 if os.environ.get("CAY_FULL") == "1" else 400


def asker(port, target, headers, body, good):
    """One request over a connection that stays: milliseconds."""
    connection, body = http.client.HTTPConnection("127.0.0.1", port, timeout=30), json.dumps(body)

    def ask():
        begin = time.monotonic()
        connection.request("POST", target, body, headers)
        reply = connection.getresponse().read()
        took = (time.monotonic() - begin) * 1000
        if not good(json.loads(reply)):
            raise RuntimeError(f"not as it should be: {reply[:400]}")
        return took
    return ask


def mcp_call(world):
    me = world.door()
    box = me.create("tiny")
    client = world.client()
    params = {"name": "exec", "arguments": {"sandbox": box, "command": "true"}, "_meta": client.meta()}
    tool = asker(world.port, "/mcp", client.headers("tools/call", params), {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
                 lambda r: r["result"]["content"][-1]["text"] == "[exit 0]")
    rest = asker(world.port, f"/v1/sandboxes/{box}/execs", {**me.says(), "Content-Type": "application/json"}, {"shell": "true"},
                 lambda r: r["end"]["exit_code"] == 0)
    for _ in range(20):
        tool(), rest()
    both = [(tool(), rest()) for _ in range(ROUNDS)]
    tools, rests = (sorted(times) for times in zip(*both))
    p50 = {"tool": statistics.median(tools), "rest": statistics.median(rests)}
    print(json.dumps({"name": "mcp_call", "unit": "ms", "n": ROUNDS, "value": round(p50["tool"] - p50["rest"], 3),
                      "baseline": {"name": "the goal", "value": 0.5},
                      "note": f"exec of true: tool p50 {p50['tool']:.3f}, REST p50 {p50['rest']:.3f}; "
                              f"p99 {tools[len(tools) * 99 // 100]:.3f} and {rests[len(rests) * 99 // 100]:.3f}"}), flush=True)


GROUPS = {f.__name__: f for f in (mcp_call,)}

if __name__ == "__main__":
    with McpWorld(sys.argv[1]) as w:
        for name in sys.argv[2:] or GROUPS:
            GROUPS[name](w)
