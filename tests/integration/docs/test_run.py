# SPDX-License-Identifier: Apache-2.0
"""`make run` starts a whole node: /mcp and `cay mcp` work there"""
import json
import os
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).parents[3]
BUILD = os.environ.get("CAY_BUILD", "build/gcc")


def test_make_run_has_an_mcp_endpoint():
    if "asan" in pathlib.Path(BUILD).name:
        pytest.skip("a sanitised cay-init is no PID 1")
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
             {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]
    done = subprocess.run(["dev/ns-run", "dev/run", BUILD, "sh", "-c", "cat | cay mcp"], cwd=TOP, timeout=240, text=True,
                          input="".join(json.dumps(l) + "\n" for l in lines), capture_output=True)
    said = {m["id"]: m for m in map(json.loads, (l for l in done.stdout.splitlines() if l.startswith("{")))}  # in any order
    assert done.returncode == 0 and sorted(said) == [1, 2], done
    assert "exec" in {t["name"] for t in said[2]["result"]["tools"]}
