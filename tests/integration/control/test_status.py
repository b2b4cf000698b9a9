# SPDX-License-Identifier: Apache-2.0
"""The node at a glance: /v1/status and `cay status`"""
import json
import os
import pathlib
import re
import shutil
import subprocess

from cay import wait_for
from conftest import BUILD

MIB = 1 << 20


def cli(c, *words):
    return subprocess.run([pathlib.Path(BUILD).resolve() / "src/cli/cay", *words], env={**c.env, "CAY_SOCKET": str(c.run / "control.sock")},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def test_status_has_counts_promises_and_the_machine(own):
    before = own.call("GET", "/v1/status")
    assert before["keeper"] and before["edges"] == 0 and before["tenants"] == 1 and before["images"] == 1 and before["errors"] == []
    assert before["sandboxes"] == {"pending": 0, "running": 0, "paused": 0, "stopped": 0, "ending": 0, "max": 20000}
    assert before["memory_promised_bytes"] == 0 and before["cores"] == os.cpu_count()
    boxes = [own.create("tiny", limits={"memory_bytes": "64Mi"}) for _ in range(3)]
    own.call("POST", f"/v1/sandboxes/{boxes[0]}/pause")
    now = own.call("GET", "/v1/status")
    assert now["sandboxes"] == {"pending": 0, "running": 2, "paused": 1, "stopped": 0, "ending": 0, "max": 20000}
    assert now["memory_promised_bytes"] == 3 * 64 * MIB < now["memory_promise_max_bytes"]
    assert now["uptime_ms"] >= before["uptime_ms"]
    meminfo = dict(l.split(":") for l in pathlib.Path("/proc/meminfo").read_text().splitlines())
    assert now["memory_total_bytes"] == int(meminfo["MemTotal"].split()[0]) * 1024
    assert now["disk_total_bytes"] == shutil.disk_usage(own.state).total
    for box in boxes:
        own.delete(box)


def test_status_says_what_is_wrong(own):
    box = own.create("tiny")
    own.kill_daemon("cay-keeper")
    wait_for("the end of the link", lambda: not own.call("GET", "/v1/status")["keeper"], 30)
    newest = own.call("GET", "/v1/status")["errors"][0]
    assert newest["level"] == "error" and "lost the connection to cay-keeper" in newest["message"] and newest["time"].startswith("20")
    said = cli(own, "status")
    assert said.returncode == 0 and "1 running, 0 pending" in said.stdout and "lost the connection to cay-keeper" in said.stdout, said
    [keeper] = [l for l in said.stdout.splitlines() if l.startswith("cay-keeper ")]
    assert "not running: no sandbox can be created" in keeper
    assert json.loads(cli(own, "status", "--json").stdout)["keeper"] is False
    own.start_keeper()
    wait_for("the link", lambda: own.call("GET", "/v1/status")["keeper"], 30)
    own.delete(box)
    own.kill_daemon("cayd")
    said = cli(own, "status")
    assert said.returncode == 8 and re.search(r"^cay-keeper +\d+ running$", said.stdout, re.M), said
