# SPDX-License-Identifier: Apache-2.0
"""Connections that wait for an answer

What is expected comes from the hosts and the wire of tests/lib/lab.py: before an answer nothing leaves the node, and after it a
host sees the connection that waited, with the bytes that were sent meanwhile.
"""
import contextlib
import datetime
import http.client
import json
import os
import select
import subprocess
import threading

import lab
import pytest
from cay import ApiError, let_pass, wait_for
from test_egress import API, DB, HOSTS, PLAIN, ZONE, allow, client_hello, decisions, dial, left, node_in_lab
from test_egress_flows import flows, refused, text
from test_tenants import TOLD, actor, asks

NAME, PORT = "db.example.com", 5432


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, dict(ZONE)) as internet:
        yield internet


@pytest.fixture(scope="module")
def node(net):
    with node_in_lab() as c:
        yield c


@pytest.fixture
def box(node, net):
    made = []

    def make(policy, **more):
        made.append(node.create("tiny", egress=policy, **more))
        return made[-1]

    net.frames(), net.asked(), net.connections()
    yield make
    for one in made:
        node.delete(one)


def hold(node, box, host, port, say="echo hello"):
    """A connection that stays open; its file says when it is over."""
    return node.exec_detached(box, ["sh", "-c", f"({say}; sleep 1000) | (busybox nc {host} {port} > /tmp/{host}-{port}; echo over >> /tmp/{host}-{port})"])


def refuse(node, box, host=NAME, port=PORT):
    """A connection that is reset; its program waits for that, and does not close it."""
    got = node.exec(box, ["sh", "-c", f"busybox mkfifo /tmp/in-$$; exec 3<> /tmp/in-$$; busybox nc {host} {port} <&3"], timeout_s=120)
    assert got.text == ""


def ask(to=NAME, ports=(PORT,), timeout_ms=600000, rules=()):
    return {"rules": [*rules, {"action": "ask", "to": to, "ports": list(ports)}], "ask": {"timeout_ms": timeout_ms}}


@contextlib.contextmanager
def decider(by, **which):
    """Somebody who waits for asks, again and again; what comes is in the list."""
    over, rows, query = threading.Event(), [], "".join(f"&{k}={v}" for k, v in which.items())

    def follow():
        after = 0
        while not over.is_set():
            try:
                page = by.call("GET", f"/v1/asks?wait_ms=200&after={after}{query}")
            except (ApiError, OSError, http.client.HTTPException, ValueError):  # cayd is restarted
                let_pass(0.05)
                continue
            rows.extend(page["asks"])
            after = page["next"]

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    wait_for("a decider", lambda: thread.is_alive() and by.call("GET", "/v1/asks"), 30)
    try:
        yield rows
    finally:
        over.set()
        thread.join()


def know_deciders(by, box, to=NAME, port=PORT):
    wait_for("cayd to know", lambda: check(by, box, to, port).get("waits"), 30)


@contextlib.contextmanager
def deciding(node, box, to=NAME, port=PORT, **which):
    """A decider of whom egress.check knows."""
    with decider(node, **which) as rows:
        know_deciders(node, box, to, port)
        yield rows


def check(by, box, to=NAME, port=PORT):
    return by.call("POST", f"/v1/sandboxes/{box}/egress/check", {"to": to, "port": port})


def listed(by, **which):
    return by.call("GET", "/v1/asks?" + "&".join(f"{k}={v}" for k, v in which.items()))["asks"]


def row_of(by, box, state="waiting", to=NAME):
    """Its row, once it has this state."""
    found = []

    def is_there():
        found[:] = [a for a in listed(by, sandbox=box) if a["to"] == to]
        return found and found[0]["state"] == state

    try:
        wait_for(f"a row that is {state}", is_there, 60)
    except TimeoutError as e:
        raise TimeoutError(f"{e}; there is {found}, checked as {check(by, box, to)}") from e
    row, = found
    return row


def answer(by, row, verdict="allow", **more):
    return by.call("POST", f"/v1/asks/{row['id']}", {"verdict": verdict, **more})


def forget_deciders(node, box):
    wait_for("nobody to be left", lambda: check(node, box).get("waits") is False, 60)


def attach(c, box):
    """Wait until cay-egress has its listeners: messages to it are answered in their order."""
    wait_for("it to be attached", lambda: c.call("GET", f"/v1/sandboxes/{box}/egress")["attached"], 30)
    flows(c, box)


def ask_events(stream, n):
    """The next n events of asks, with their data."""
    told = []
    while len(told) < n:
        line = stream.readline().decode()
        assert line, "the stream has ended"
        if line.startswith("event: egress."):
            told.append((line.strip()[7:], json.loads(stream.readline().decode()[6:])))
    return told


def put(by, box, policy):
    return by.call("PUT", f"/v1/sandboxes/{box}/egress", policy)


def test_the_very_connection_goes_on(node, net, box):
    one = box(ask())
    with deciding(node, one) as seen:
        hold(node, one, NAME, PORT)
        row = row_of(node, one)
        wait_for("its bytes", lambda: row_of(node, one).get("kind") == "other", 30)
        flow, = flows(node, one)
        assert flow["state"] == "asking" and flow["name"] == NAME and "address" not in flow
        assert {k: row[k] for k in ("sandbox", "to", "port", "count", "waiting", "generation")} == {"sandbox": one, "to": NAME, "port": PORT, "count": 1, "waiting": 1, "generation": 1}
        wait_for("the decider to get it", lambda: [a["id"] for a in seen if a["state"] == "waiting"] == [row["id"]], 30)
        assert net.asked() == [] and left(net) == set(), "something left the node before the answer"
        done = answer(node, row)
        assert done["state"] == "allowed" and done["remember"] == "once"
        wait_for("its echo", lambda: "hello" in text(node, one, NAME, PORT), 30)
        assert net.connections() == [(DB, PORT, b"hello\n")] and left(net) == {(DB, PORT)}
        assert [f["state"] for f in flows(node, one)] == ["open"]
        wait_for("its record", lambda: "answered" in [d["outcome"] for d in decisions(node) if d["target"] == one and d["op"] == "connect"], 30)
        # once: the next one asks again, and this one stays open
        hold(node, one, NAME, PORT, "echo second")
        row = row_of(node, one)
        assert row["count"] == 2 and row["waiting"] == 1 and net.connections() == []
        put(node, one, {**ask(), "default": "deny"})
        assert sorted(f["state"] for f in flows(node, one)) == ["asking", "open"], "an answer holds as long as the policy asks"
        assert answer(node, row, "deny")["state"] == "denied"
        assert [f["state"] for f in flows(node, one)] == ["open"] and net.connections() == []
        refused("conflict", answer, node, row)
        put(node, one, {})
        assert flows(node, one) == []


def test_tls_is_checked_after_the_answer(node, net, box):
    one = box(ask("*.example.com", (443, 80)))
    with deciding(node, one, port=443):
        for name, says, passes in (("api.example.com", "api.example.com", True), ("cdn.example.com", "api.example.com", False)):
            node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/hello", client_hello(says)).read()
            hold(node, one, name, 443, "cat /tmp/hello")
            wait_for("its hello", lambda name=name: row_of(node, one, to=name).get("kind") == "tls", 30)
            assert left(net) == set() and net.asked() == []
            answer(node, row_of(node, one, to=name))
            if passes:
                wait_for("its echo", lambda name=name: f"this is {API}" in node.exec(one, ["sh", "-c", f"busybox head -n 1 /tmp/{name}-443"]).text, 30)
                assert left(net) == {(API, 443)} and len(net.connections()) == 1
            else:
                wait_for("its end", lambda name=name: "over" in text(node, one, name, 443), 30)
                assert net.connections() == [] and left(net) == set()
            net.frames(), net.asked(), net.connections()
        hold(node, one, "plain.example.com", 80, r"printf 'GET / HTTP/1.1\r\nHost: plain.example.com\r\n\r\n'")
        wait_for("its request", lambda: row_of(node, one, to="plain.example.com").get("kind") == "http", 30)
        answer(node, row_of(node, one, to="plain.example.com"))
        wait_for("the reply", lambda: PLAIN in text(node, one, "plain.example.com", 80), 30)


def test_without_anyone_to_ask(node, net, box):
    one = box(ask())
    forget_deciders(node, one)
    checked = check(node, one)
    assert checked["verdict"] == "ask" and "no client" in checked["reason"] and checked["layer"] == "sandbox" and checked["text"] == f"ask {NAME} {PORT}"
    stream = node.open("GET", f"/v1/events?follow=true&sandbox={one}&after=1000000", timeout_s=60)
    hold(node, one, NAME, PORT)
    wait_for("its end", lambda: "over" in text(node, one, NAME, PORT), 60)
    assert [(kind, e["state"]) for kind, e in ask_events(stream, 1)] == [("egress.asked", "nobody")], "it waited"
    row = row_of(node, one, "nobody")
    assert row["count"] == 1 and row["waiting"] == 0
    reader = asks(node, "read", node.get(one)["tenant"])
    with decider(reader):  # who may not answer
        refuse(node, one)
        assert row_of(node, one, "nobody")["count"] == 2
        refused("permission_denied", answer, reader, row)
    assert left(net) == set() and net.asked() == []
    assert [d["outcome"] for d in decisions(node) if d["target"] == one] == ["nobody_to_ask"] * 2
    # the row can still become a rule
    assert answer(node, row, remember="sandbox")["state"] == "allowed"
    assert [kind for kind, _ in ask_events(stream, 1)] == ["egress.answered"], "a second connection to the same is no news"
    stream.close()
    assert dial(node, one, NAME, PORT)[0].startswith("this is")


def test_the_last_decider_leaves(node, net, box):
    one = box(ask())
    with deciding(node, one):
        hold(node, one, NAME, PORT)
        row_of(node, one)
    row_of(node, one, "nobody")
    wait_for("its end", lambda: "over" in text(node, one, NAME, PORT), 30)
    assert left(net) == set()


def test_an_answer_that_comes_too_late(node, net, box):
    one = box(ask(timeout_ms=1000))
    with deciding(node, one):
        refuse(node, one)
        row = row_of(node, one, "expired")
        refused("conflict", answer, node, row)
        assert left(net) == set() and flows(node, one) == []
        assert answer(node, row, remember="sandbox")["remember"] == "sandbox"
        assert dial(node, one, NAME, PORT)[0].startswith("this is")
        assert row_of(node, one, "allowed")["count"] == 1, "a rule asks nobody"
        remembered, = node.call("GET", f"/v1/sandboxes/{one}/egress")["answers"]
        assert (remembered["to"], remembered["port"], remembered["verdict"]) == (NAME, PORT, "allow")
        assert check(node, one)["layer"] == "answers" and check(node, one)["verdict"] == "allow"
        assert answer(node, row, "ask")["state"] == "gone", "forgotten"
        assert check(node, one)["verdict"] == "ask" and "answers" not in node.call("GET", f"/v1/sandboxes/{one}/egress")


def test_a_program_that_does_not_wait(node, net, box):
    one = box(ask())
    with deciding(node, one):
        exec_id = node.exec_detached(one, ["busybox", "nc", NAME, str(PORT)], stdin_open=True)
        row = row_of(node, one)
        node.signal(one, exec_id)
        assert row_of(node, one, "gone")["waiting"] == 0 and flows(node, one) == []
        refused("conflict", answer, node, row)
        assert left(net) == set() and net.asked() == []


def test_a_flood_is_one_row_and_16_wait(node, net, box):
    one = box(ask())
    with deciding(node, one):
        node.exec_detached(one, ["sh", "-c", "i=0; while [ $i -lt 40 ]; do (sleep 1000 | "
                                 f"busybox nc {NAME} {PORT} > /tmp/out-$i) & i=$((i+1)); done; wait"])
        wait_for("all to have asked", lambda: row_of(node, one)["count"] == 40, 60)
        row, = listed(node, sandbox=one)
        assert row["waiting"] == 16 and [f["state"] for f in flows(node, one)] == ["asking"] * 16
        assert left(net) == set()
        answer(node, row)
        wait_for("them to be connected", lambda: [f["state"] for f in flows(node, one)] == ["open"] * 16, 30)
        seen = []
        wait_for("the host to see them", lambda: seen.extend(net.connections()) or len(seen) >= 16, 30)
        assert len(seen) == 16
        hold(node, one, NAME, PORT)
        assert row_of(node, one)["waiting"] == 1, "there is room again"


def test_the_policy_changes_meanwhile(node, net, box):
    one = box(ask())
    with deciding(node, one):
        hold(node, one, NAME, PORT)
        row = row_of(node, one)
        put(node, one, {"rules": [{"action": "deny", "to": NAME, "ports": [PORT]}], "default": "ask"})
        assert flows(node, one) == [], "it is reset before the reply"
        assert row_of(node, one, "gone")
        refused("conflict", answer, node, row)
        # a remembered answer is no rule against a denial
        assert answer(node, row, remember="sandbox")["state"] == "allowed"
        assert not dial(node, one, NAME, PORT)[0] and left(net) == set()
        assert check(node, one)["verdict"] == "deny" and check(node, one)["layer"] == "sandbox"
        answer(node, row, "ask")
        put(node, one, ask())
        hold(node, one, NAME, PORT)
        row_of(node, one)
        put(node, one, allow(NAME, ports=[PORT]))
        wait_for("it to go on", lambda: "hello" in text(node, one, NAME, PORT), 30)
        put(node, one, ask())
        assert flows(node, one) == [], "nobody has allowed it"


def test_a_denial_of_the_tenant_wins(node, net):
    tenant = node.call("POST", "/v1/tenants", {"name": "narrow"})["id"]
    by = asks(node, "write", tenant)
    one = by.create("tiny", egress=ask(), group="g")
    with deciding(by, one):
        hold(by, one, NAME, PORT)
        assert answer(by, row_of(by, one), remember="group")["state"] == "allowed"
        wait_for("its echo", lambda: "hello" in text(by, one, NAME, PORT), 30)
        net.frames()
        node.call("POST", f"/v1/tenants/{tenant}", {"egress_max": {"presets": ["none"]}})
        assert flows(by, one) == [] and not dial(by, one, NAME, PORT)[0]
        assert check(by, one)["layer"] == "tenant"
        net.frames()
        assert not dial(by, one, NAME, PORT)[0] and left(net) == set()
    by.delete(one)


def test_remembered_for_the_sandbox_or_the_group(node, net, box):
    one, same, other = box(ask("*"), group="blue"), box(ask("*"), group="blue"), box(ask("*"), group="red")
    with deciding(node, one):
        for b in (one, same, other):
            hold(node, b, NAME, PORT)
        rows = {b: row_of(node, b) for b in (one, same, other)}
        answer(node, rows[one], remember="sandbox")
        wait_for("it to go on", lambda: "hello" in text(node, one, NAME, PORT), 30)
        assert row_of(node, same)["waiting"] == row_of(node, other)["waiting"] == 1
        answer(node, rows[one], remember="group")
        wait_for("the other of the group to go on", lambda: "hello" in text(node, same, NAME, PORT), 30)
        assert row_of(node, same, "allowed")["remember"] == "group"
        later = box(ask("*"), group="blue")
        assert dial(node, later, NAME, PORT)[0].startswith("this is"), "a later one of the group"
        assert row_of(node, other)["waiting"] == 1
        answer(node, rows[other], "deny", remember="sandbox")
        assert flows(node, other) == [] and not dial(node, other, NAME, PORT)[0]
        assert row_of(node, other, "denied")["count"] == 1
        assert check(node, other, "api.example.com")["verdict"] == "ask", "another name"
        assert check(node, other, port=5433)["verdict"] == "deny", "another port"
        refused("invalid_argument", answer, node, row_of(node, other, "denied"), remember="once", until="2100-01-01T00:00:00Z")


def test_an_answer_with_an_end(node, net, box):
    one = box(ask())
    with deciding(node, one):
        hold(node, one, NAME, PORT)
        row = row_of(node, one)
        refused("invalid_argument", answer, node, row, remember="sandbox", until="2020-01-01T00:00:00Z")
        until = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=8)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert answer(node, row, remember="sandbox", until=until)["until"][:19] == until[:19]
        wait_for("its echo", lambda: "hello" in text(node, one, NAME, PORT), 30)
        wait_for("the end of the answer", lambda: flows(node, one) == [], 60)
        assert check(node, one)["verdict"] == "ask"
        hold(node, one, NAME, PORT)
        row_of(node, one)


def test_without_a_group(node, net, box):
    one = box(ask())
    with deciding(node, one):
        hold(node, one, NAME, PORT)
        refused("invalid_argument", answer, node, row_of(node, one), remember="group")


def test_an_address_without_a_name(node, net, box):
    one = box(ask("93.184.2.0/24"))
    with deciding(node, one, to=DB, sandbox=one):
        hold(node, one, DB, PORT)
        row = row_of(node, one, to=DB)
        assert left(net) == set()
        answer(node, row, remember="sandbox")
        wait_for("its echo", lambda: "hello" in text(node, one, DB, PORT), 30)
        assert check(node, one, API)["verdict"] == "ask" and left(net) == {(DB, PORT)}


def test_who_may_answer(node, net, box):
    one = box(ask(), group="blue")
    tenant = node.get(one)["tenant"]
    stranger = asks(node, "write", node.call("POST", "/v1/tenants", {"name": "stranger"})["id"])
    token = node.edge(f"{tenant} write - {one}")
    asks(node, "write", tenant)
    key, secret = TOLD[node.state, "write", tenant]
    elsewhere = node.edge(actor("write", tenant, key) + " red", secret)
    with deciding(node, one), decider(stranger) as theirs:
        hold(node, one, NAME, PORT)
        row = row_of(node, one)
        assert listed(stranger) == listed(elsewhere) == []
        for by in (stranger, elsewhere):
            refused("not_found", by.call, "GET", f"/v1/asks/{row['id']}")
            refused("not_found", answer, by, row)
        for call, args in ((listed, ()), (answer, (row,)), (answer, (row, "deny"))):
            refused("permission_denied", call, token, *args)
        refused("permission_denied", token.call, "GET", f"/v1/asks/{row['id']}")
        refused("not_found", answer, node, {"id": "ak" + "0" * 24})
        assert row_of(node, one)["waiting"] == 1 and theirs == []
    # a decider of another tenant or group is nobody for this one
    forget_deciders(node, one)
    with decider(stranger), decider(elsewhere):
        refuse(node, one)
        assert row_of(node, one, "nobody")
    assert left(net) == set()


def test_cayd_is_killed_while_one_waits(net):
    with node_in_lab() as c:
        one = c.create("tiny", egress=ask("*", (PORT, 8443)), group="g")
        other = c.create("tiny", egress=ask("*", (PORT, 8443)), group="g")
        net.frames(), net.asked(), net.connections()
        with deciding(c, one):
            hold(c, other, NAME, PORT)
            answer(c, row_of(c, other), remember="group")
            hold(c, one, "api.example.com", 8443)
            before = row_of(c, one, to="api.example.com")
            wait_for("the other's connection", net.connections, 30)
            c.kill_daemon("cayd")
            c.start_cayd()
            attach(c, other)
            # it still waits, in the same row, and the answer is for this very connection
            after = row_of(c, one, to="api.example.com")
            assert after["id"] == before["id"] and after["waiting"] == 1 and net.connections() == []
            attach(c, one)
            answer(c, after)
            wait_for("its echo", lambda: "hello" in text(c, one, "api.example.com", 8443), 30)
            assert net.connections() == [(API, 8443, b"hello\n")]
            # what was remembered is remembered, and can be taken back
            assert dial(c, one, NAME, PORT)[0].startswith("this is")
            assert answer(c, row_of(c, other, "allowed"), "ask")["state"] == "gone"
            know_deciders(c, other)  # the decider is back
            hold(c, other, NAME, PORT)
            assert row_of(c, other)["waiting"] == 1
        c.kill_daemon("cayd")
        let_pass(0.2)
        c.start_cayd()
        row_of(c, other, "nobody")  # a decider who does not come back
        c.delete(one)
        c.delete(other)


def test_cay_egress_is_killed_while_one_waits(net):
    with node_in_lab() as c:
        one = c.create("tiny", egress=ask())
        net.frames(), net.asked(), net.connections()
        with deciding(c, one):
            hold(c, one, NAME, PORT)
            row = row_of(c, one)
            c.kill_daemon("cay-egress")
            wait_for("its end", lambda: "over" in text(c, one, NAME, PORT), 30)
            assert row_of(c, one, "gone")["waiting"] == 0
            refused("conflict", answer, c, row)
            c.start_egress()
            attach(c, one)
            hold(c, one, NAME, PORT)
            assert row_of(c, one)["id"] == row["id"] and net.connections() == []
            answer(c, row)
            wait_for("its echo", lambda: "hello" in text(c, one, NAME, PORT), 30)
        c.delete(one)


def test_events(node, net, box):
    one = box(ask())
    stream = node.open("GET", f"/v1/events?follow=true&sandbox={one}&after=1000000", timeout_s=60)
    with deciding(node, one):
        hold(node, one, NAME, PORT)
        answer(node, row_of(node, one))
        told = ask_events(stream, 2)
    stream.close()
    assert [(kind, e["state"]) for kind, e in told] == [("egress.asked", "waiting"), ("egress.answered", "allowed")]
    assert {e["to"] for _, e in told} == {NAME}


def test_at_the_command_line(node, net, box):
    def run(*words):
        done = subprocess.run([str(node.programs["cay"]), *words], env={**os.environ, "CAY_SOCKET": node.socket}, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    made = run("create", "--ask", f"{NAME}:{PORT}", "tiny").split()[0]
    try:
        assert f"{NAME}:{PORT}" in run("egress", "show", made)
        run("egress", "set", "--ask", f"{NAME}:{PORT}", "--ask", f"api.example.com:{PORT}", made)
        with deciding(node, made):
            hold(node, made, NAME, PORT)
            row = row_of(node, made)
            heading, line = run("ask", "ls").splitlines()
            assert heading.split()[:2] == ["ASK", "SANDBOX"] and line.split()[:4] == [row["id"], made, f"{NAME}:{PORT}", "waiting"]
            assert "allowed" in run("ask", "allow", "--remember", "sandbox", row["id"])
            wait_for("its echo", lambda: "hello" in text(node, made, NAME, PORT), 30)
            assert "denied" in run("ask", "deny", "--remember", "sandbox", row["id"])
            assert flows(node, made) == []
            assert "ask" in run("egress", "check", "--port", str(PORT), made, "api.example.com")
    finally:
        node.delete(made)


def read_until(fd, end):
    """What a terminal shows, up to this."""
    shown = bytearray()

    def has_end():
        if select.select([fd], [], [], 0)[0]:
            shown.extend(os.read(fd, 4096))
        return end in shown

    wait_for(f"{end} at the terminal", has_end, 60)
    return shown.decode()


@contextlib.contextmanager
def watching(node, box, *words):
    """`cay ask watch` at a terminal; gives our end of it."""
    ours, theirs = os.openpty()
    watch = subprocess.Popen([str(node.programs["cay"]), "ask", "watch", *words], env={**os.environ, "CAY_SOCKET": node.socket, "TERM": "dumb"}, stdin=theirs, stdout=theirs, stderr=theirs)
    try:
        know_deciders(node, box)
        yield ours
        assert watch.poll() is None, "it has ended"
    finally:
        watch.kill()
        watch.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("key,ends", [("y", "allowed"), ("n", "denied"), ("a", "allowed")])
def test_watch_at_a_terminal(node, net, box, key, ends):
    one = box(ask())
    with watching(node, one) as terminal:
        hold(node, one, NAME, PORT)
        row = row_of(node, one)
        shown = read_until(terminal, b"]?")
        assert NAME in shown and one in shown
        os.write(terminal, key.encode() + b"\n")
        done = row_of(node, one, ends)
        assert done["id"] == row["id"] and done["remember"] == ("sandbox" if key == "a" else "once")
        wait_for("it", lambda: ("hello" if ends == "allowed" else "over") in text(node, one, NAME, PORT), 30)


def test_watch_goes_on_after_a_sandbox_that_ended(node, net, box):
    one, other = box(ask(), group="blue"), box(ask(), group="red")
    ends = node.create("tiny", egress=ask(), group="blue")
    forget_deciders(node, other)
    with watching(node, one, "--group", "blue") as terminal:
        hold(node, ends, NAME, PORT)
        assert ends in read_until(terminal, b"]?")
        node.delete(ends)
        read_until(terminal, b"it is gone")
        assert check(node, other)["waits"] is False, "it answers for its group alone, also while a person thinks"
        hold(node, one, NAME, PORT)
        row_of(node, one)
        assert one in read_until(terminal, b"]?")
        os.write(terminal, b"y\n")
        row_of(node, one, "allowed")
