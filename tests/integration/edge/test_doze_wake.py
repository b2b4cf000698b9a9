# SPDX-License-Identifier: Apache-2.0
"""Whatever comes in at an edge wakes a sandbox that dozes, while it waits in the socket of its PID 1."""
import concurrent.futures
import hashlib
import os
import signal
import time

import attach
import cay
import inside
import pytest
import swap
import world
from cay import wait_for
from conftest import BUILD
from test_ports import DOMAIN, ECHO, ask, by_cookie, key, preview, told

HELD = ["sleep", "1000"]


@pytest.fixture(scope="module")
def node():
    w = world.World(BUILD, env={"CAY_EDGE_RATE": "100000"})
    w.env["CAY_EDGE_PREVIEWS"] = f"http://{DOMAIN}:{w.port}"
    with w:
        yield w


def is_dozing(w, box):
    return w.get(box).get("dozing") and swap.is_frozen(w, box)


def dozes(w, box):
    wait_for("it to doze", lambda: is_dozing(w, box), 20)


def test_requests_previews_and_connections_wake_it(node):
    door = node.door(node.new_key())
    box = door.create("tiny", pause_after_ms=1000)
    data = os.urandom(1 << 20) * 8
    with inside.Server(node, box, ECHO):
        dozes(node, box)
        assert door.exec(box, ["echo", "awake"]).text == "awake\n"
        dozes(node, box)
        assert door.open("PUT", f"/v1/sandboxes/{box}/files/content?path=/tmp/x", data).status in (200, 201)
        assert door.exec(box, ["busybox", "sha256sum", "/tmp/x"]).text.split()[0] == hashlib.sha256(data).hexdigest()
        dozes(node, box)
        assert told(ask(node, "GET", f"/v1/sandboxes/{box}/ports/8080/a", key(node)))[0] == "GET /a HTTP/1.1"
        cookie = by_cookie(node, box)
        dozes(node, box)
        assert told(ask(node, "GET", "/b", cookie))[0] == "GET /b HTTP/1.1"
        dozes(node, box)
        preview(node, box)  # a link that nobody follows
        cay.let_pass(0.5)
        assert is_dozing(node, box)
    node.delete(box)


def test_a_connection_that_is_open_keeps_it_awake(node):
    door = node.door(node.new_key())
    box = door.create("tiny", pause_after_ms=1000, idle="requests")
    held = door.exec_detached(box, HELD)
    dozes(node, box)
    open_one = attach.Attached(node.port, box, held, credential=door.credential)
    wait_for("it to be awake", lambda: node.get(box)["state"] == "running", 10)
    cay.let_pass(2.5)
    assert node.get(box)["state"] == "running" and not swap.is_frozen(node, box)
    open_one.cut()
    dozes(node, box)
    node.delete(box)


def test_a_thousand_at_once_are_one_wake(node):
    door = node.door(node.new_key())
    box = door.create("tiny", pause_after_ms=3000)
    dozes(node, box)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:  # a sandbox carries out 64 such operations, and one counts until its process has ended
        done = list(pool.map(lambda _: door.call("GET", f"/v1/sandboxes/{box}/files/stat?path=/tmp"), range(1000)))
    states = [e["state"] for e in node.call("GET", f"/v1/events?sandbox={box}&limit=1000")["events"]]
    assert len(done) == 1000 and states.count("paused") == 1 and states[-1] == "running", states
    node.delete(box)


def test_as_many_as_an_edge_lets_in_wait_for_the_wake(node):
    """They wait in the socket of a PID 1 that accepts nothing, however long the thaw takes: PID 1 has made its backlog as long as the kernel lets it."""
    door = node.door(node.new_key())
    box = door.create("tiny", pause_after_ms=1000)
    dozes(node, box)
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        node.daemons["cay-keeper"].send_signal(signal.SIGSTOP)
        try:
            asked = [pool.submit(door.call, "GET", f"/v1/sandboxes/{box}/files/stat?path=/tmp") for _ in range(200)]
            cay.let_pass(1.5)
        finally:
            node.daemons["cay-keeper"].send_signal(signal.SIGCONT)
        assert all(one.result() for one in asked)
    node.delete(box)


def test_who_may_not_enter_wakes_nobody(node):
    door = node.door(node.new_key())
    other = node.call("POST", "/v1/tenants", {"name": "doze-others"})["id"]
    box, never = door.create("tiny", pause_after_ms=1000), door.create("tiny", pause_after_ms=1000, wake="never")
    shows = preview(node, box)["token"]
    node.call("POST", f"/v1/sandboxes/{box}/revoke", {})
    for b in (box, never):
        dozes(node, b)
    at = f"/v1/sandboxes/{box}/files/stat?path=/tmp"
    for who, status in ((None, 401), ({"Authorization": "Bearer " + node.new_key("write", other)}, 404), ({"Authorization": "Bearer cay_nonsense"}, 401)):
        assert ask(node, "GET", at, who).status == status
    assert ask(node, "GET", "/", {"Host": f"8080-{box}.{DOMAIN}:{node.port}", "Cay-Preview": shows}).status == 401
    with pytest.raises(cay.ApiError, match="paused"):
        door.exec(never, ["true"])
    cay.let_pass(0.5)
    assert is_dozing(node, box) and is_dozing(node, never)
    node.call("POST", f"/v1/sandboxes/{box}/pause")  # from now on it is to stay so, which the edge knows
    with pytest.raises(cay.ApiError, match="paused"):
        door.exec(box, ["true"], timeout_s=20)
    for b in (box, never):
        node.delete(b)


def test_while_control_is_away_it_is_refused(node):
    """503 and nothing is lost; the same request wakes it afterwards."""
    door = node.door(node.new_key())
    box = door.create("tiny", pause_after_ms=1000)
    dozes(node, box)
    node.kill_daemon("cayd")
    try:
        wait_for("the edge to know", lambda: ask(node, "GET", f"/v1/sandboxes/{box}/files/stat?path=/tmp", key(node)).status == 503, 10)
        assert swap.is_frozen(node, box)
    finally:
        told_before = {name: node.log(name).count("synchronised with control") for name in node.edges}
        node.start_cayd()
        wait_for("the edges to hear all", lambda: all(node.log(n).count("synchronised with control") > told_before[n] for n in told_before), 30)
    assert door.exec(box, ["echo", "awake"]).text == "awake\n"
    node.delete(box)


def test_the_wake_is_quick(node):
    """Not a measurement: a report of the edge that waits for its timer would take a quarter of a second."""
    door = node.door(node.new_key())
    boxes = [door.create("tiny", pause_after_ms=1000) for _ in range(5)]
    took = []
    for _ in range(3):
        for box in boxes:
            dozes(node, box)
        for box in boxes:
            began = time.monotonic()
            door.call("GET", f"/v1/sandboxes/{box}/files/stat?path=/tmp")
            took.append(time.monotonic() - began)
    assert sorted(took)[len(took) // 4] < 0.1, took
    for box in boxes:
        node.delete(box)
