# SPDX-License-Identifier: Apache-2.0
"""GET /metrics: read strictly, and its numbers move by what was done; the access log."""
import json
import os
import pathlib
import re
import signal

import cay
from cay import wait_for
from conftest import BUILD, tiny
from test_control import refused

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\d+(?:\.\d+)?)")


def parse(text):
    """Prometheus' text form, without mercy: {(name, labels): value}."""
    assert text.endswith("\n")
    kinds, found, current = {}, {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in kinds and len(line.split(" ", 3)[3]) > 3
            kinds[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kinds[name] is None and kind in ("counter", "gauge", "histogram")
            kinds[name] = kind
        else:
            m = SAMPLE.fullmatch(line)
            assert m, line
            base = re.sub("_(bucket|sum|count)$", "", m[1]) if kinds[current] == "histogram" else m[1]
            assert base == current, line
            key = m[1], tuple(sorted(re.findall(r'([^=,"]+)="((?:[^"\\]|\\.)*)"', m[2] or "")))
            assert key not in found, line
            found[key] = float(m[3])
    for name, kind in kinds.items():
        assert kind, name
        if kind == "histogram":
            check_histogram(name, found)
    return found


def check_histogram(name, found):
    series = {}
    for (n, labels), value in found.items():
        if n == f"{name}_bucket":
            rest = tuple(x for x in labels if x[0] != "le")
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
    for rest, buckets in series.items():
        assert buckets == sorted(buckets) and [v for _, v in buckets] == sorted(v for _, v in buckets), rest
        assert buckets[-1] == (float("inf"), found[f"{name}_count", rest])
        assert found[f"{name}_sum", rest] >= 0 and buckets[0][0] == 0.0005 and buckets[-2][0] == 60


def metrics(c):
    connection = cay.UnixConnection(str(c.run / "control.sock"), 10)
    connection.request("GET", "/metrics")
    reply = connection.getresponse()
    text = reply.read().decode()
    assert reply.status == 200 and reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    connection.close()
    return parse(text)


def answers(found, op=None):
    return {tuple(dict(labels).values())[::-1]: int(v) for (n, labels), v in found.items()
            if n == "cay_operations_total" and (op is None or dict(labels)["operation"] == op)}


def moved(before, after):
    old = answers(before)
    return {k: v - old.get(k, 0) for k, v in answers(after).items() if v != old.get(k, 0)}


def test_numbers_move_by_what_was_done(own):
    before = metrics(own)
    box = own.create("tiny")
    keep = own.create("tiny")
    for _ in range(3):
        own.get(box)
    own.exec(box, ["true"])
    refused("invalid_argument", own.call, "POST", "/v1/sandboxes", {"nonsense": 1})
    refused("not_found", own.call, "GET", "/v1/nothing")
    refused("not_found", own.call, "GET", f"/v1/sandboxes/{box}/execs/ex{box[2:]}")  # the sandbox says so
    refused("method_not_allowed", own.call, "PUT", "/v1/sandboxes")
    own.delete(box)
    after = metrics(own)
    assert moved(before, after) == {
        ("sandbox.create", "ok"): 2, ("sandbox.create", "invalid_argument"): 1, ("sandbox.get", "ok"): 3,
        ("exec.run", "ok"): 1, ("exec.get", "inside"): 1, ("sandbox.delete", "ok"): 1, ("none", "not_found"): 1,
        ("none", "method_not_allowed"): 1, ("system.metrics", "ok"): 1}
    value = lambda found, name, **labels: int(found[name, tuple(sorted(labels.items()))])
    assert value(after, "cay_operation_duration_seconds_count", operation="sandbox.create") == 3
    assert [value(after, "cay_sandboxes", state=s) for s in ("running", "terminated", "paused")] == [1, 1, 0]
    assert [value(after, "cay_sandbox_ends_total", reason=r) for r in ("killed", "oom", "signal")] == [1, 0, 0]
    os.kill(own.pid_1(keep), signal.SIGKILL)
    wait_for("its end", lambda: value(metrics(own), "cay_sandbox_ends_total", reason="signal") == 1, 10)
    wait_for("only ours", lambda: value(metrics(own), "cay_connections") == 1, 5)
    assert value(after, "cay_keeper_up") == 1
    records = own.call("GET", "/v1/audit/head")["count"]
    assert value(metrics(own), "cay_audit_records_total") == records
    pid = own.pids()["cayd"]
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    assert abs(value(metrics(own), "process_open_fds") - fds) <= 2
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    assert 0.5 < value(metrics(own), "process_resident_memory_bytes") / (pages * os.sysconf("SC_PAGESIZE")) < 2


def test_a_line_a_request_when_it_is_wanted():
    with cay.Cay(BUILD, env={"CAY_LOG_ACCESS": "yes"}) as c:
        c.image_import("tiny", tiny())
        box = c.create("tiny")
        error = refused("not_found", c.call, "GET", "/v1/nothing")
        c.delete(box)
        lines = [json.loads(line) for line in pathlib.Path(c.logs["cayd"]).read_text().splitlines()]
        made, = (x for x in lines if x.get("op") == "sandbox.create")
        assert made["id"] == box and re.fullmatch(r"201 in \d+\.\d{3} ms", made["msg"])
        lost, = (x for x in lines if x.get("request") == error["request_id"])
        assert lost["op"] == "none" and lost["msg"].startswith("404 in ")
        record, = (r for r in c.call("GET", "/v1/audit")["records"] if r["op"] == "sandbox.create")
        assert record["request_id"] == made["request"]


def test_no_line_a_request_else(own):
    own.call("GET", "/v1/sandboxes")
    assert "sandbox.list" not in own.log("cayd")
