# SPDX-License-Identifier: Apache-2.0
"""GET /metrics: read strictly, and its numbers move by what was done; the access log."""
import json
import os
import pathlib
import re
import signal

import cay
import push
from cay import wait_for
from conftest import BUILD, tiny
from prometheus import metrics
from test_control import refused

VERSION = re.search(r"version: '([0-9.]+)'", (pathlib.Path(__file__).parents[3] / "meson.build").read_text())[1].encode()


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
    wait_for("its end", lambda: value(metrics(own), "cay_sandbox_ends_total", reason="signal") == 1, 30)
    wait_for("only ours", lambda: value(metrics(own), "cay_connections") == 1, 20)
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


# -- edges

def of_edges(found):
    return {(n, dict(labels).get("edge"), dict(labels).get("operation") or dict(labels).get("reason"), dict(labels).get("code")): v
            for (n, labels), v in found.items() if n.startswith("cay_edge_") and "le" not in dict(labels)}


def test_edges_count_for_themselves(own):
    """Cells of its table; a number of its own for as long as it is there."""
    path = str(own.run / "edge" / "push.sock")
    assert metrics(own)["cay_edges", ()] == 0 and not of_edges(metrics(own))
    first, other = push.Edge(path).hello(build=VERSION), push.Edge(path).hello(build=b"another")
    second = push.Edge(path).hello(build=VERSION)
    first.say(push.COUNT, number=0, time=7)
    second.say(push.COUNT, number=0, time=9)
    second.say(push.COUNT, number=0, time=10)
    other.say(push.COUNT, number=0, time=11)  # whose cells may be others

    def seen():
        return {edge: v for (n, edge, _, code), v in of_edges(metrics(own)).items() if n == "cay_edge_requests_total" and code == "ok"}
    wait_for("both", lambda: seen() == {"0": 7, "1": 10}, 20)
    found = of_edges(metrics(own))
    assert metrics(own)["cay_edges", ()] == 3
    assert {(e, r) for n, e, r, _ in found if n == "cay_edge_refusals_total"} == {
        (e, r) for e in "01" for r in ("credential", "scope", "peer_rate", "tenant_rate", "host", "origin")}
    first.close()
    wait_for("its end", lambda: seen() == {"1": 10}, 20)
    third = push.Edge(path).hello(build=VERSION)
    third.say(push.COUNT, number=0, time=1)
    wait_for("a number that is free", lambda: seen() == {"0": 1, "1": 10}, 20)
    third.say(push.COUNT, number=1 << 20, time=1)  # there is no such cell: let go
    wait_for("its end", lambda: seen() == {"1": 10}, 20)


def test_many_edges_that_say_everything_fit(own):
    """Sixteen have a number, and all they can say is still one answer."""
    edges = [push.Edge(str(own.run / "edge" / "push.sock")).hello(build=VERSION) for _ in range(20)]
    for edge in edges:
        edge.sock.sendall(b"".join(push.record(push.COUNT, number=i, time=(1 << 50) + i) for i in range(1000)))
    wait_for("sixteen", lambda: len({e for _, e, _, _ in of_edges(metrics(own)) if e}) == 16, 30)
    assert metrics(own)["cay_edges", ()] == 20
    assert len({op for n, e, op, _ in of_edges(metrics(own)) if n == "cay_edge_requests_total" and e == "15"}) >= 20
    for edge in edges:
        edge.close()
