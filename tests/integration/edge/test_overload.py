# SPDX-License-Identifier: Apache-2.0
"""OVL-01, OVL-03: a node on a fifth of a core is asked for twenty times what it can do

Everything is compared with the same node a moment before, because the machine is not ours
alone.  CAY_FULL=1 asks for longer and holds it to the goals; else to what noise cannot
make of them.  What was missed is tried again, from the comparison on: what the node does
wrong it does every time.  Time that a hypervisor gave to somebody else is charged to the
node's fifth, so what was missed then says little, and is tried for longer.
"""
import contextlib
import json
import math
import signal
import socket
import threading
import time

import pytest
import storm
from conftest import BUILD, FULL

import cay

LONG = 4 if FULL else 1
TRIES, PATIENCE_S = 3, 110 * LONG
STOLEN = 0.03  # of all processors' time


@pytest.fixture(scope="module")
def slow():
    with storm.Squeezed(BUILD, env={"CAY_EDGE_RATE": "1000000"}) as w:
        w.keys = w.tenants(10)
        w.squeeze(0.2, 20000)
        yield w


def made(rows, warm):
    """Successes a second, and what else there was."""
    per_s = [sum(second) for second in zip(*(row["per_s"] for row in rows))][warm:]
    return sum(per_s) / len(per_s)


def slowly(attempt):
    """attempt: from what the node makes at its best to (what must be, what was) of all that the machine has a hand in."""
    def repeat(slow):
        tries, end = 0, time.monotonic() + PATIENCE_S
        while tries < TRIES and time.monotonic() < end:
            stolen, every = processors()
            best, before = peak(slow)
            missed = [text for ok, text in attempt(slow, best, before) if not ok] if best > 1 else [f"only {best:.1f}/s"]
            if not missed:
                return
            share = (processors()[0] - stolen) / (processors()[1] - every)
            print(f"missed, {100 * share:.0f} % were stolen: {missed}")
            tries += share < STOLEN
        raise AssertionError("\n".join(missed))
    return repeat


def processors():
    """Their time that others had who are not of this machine, and all of it."""
    with open("/proc/stat") as f:
        ticks = [int(word) for word in f.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def peak(w):
    """What it makes when a little more is asked than it can do."""
    rows = storm.storm(BUILD, w.port, [storm.creators(15, w.keys[0])], 9 * LONG, warm=5, timeout_ms=4000)
    return made(rows, 5), rows[0]


@slowly
def test_twenty_times_as_much(slow, best, before):
    memory = slow.memory_kib()
    rows = storm.storm(BUILD, slow.port, [storm.creators(20 * best, slow.keys[0])], 9 * LONG, warm=3, timeout_ms=4000)
    goodput, row, grown = made(rows, 3), rows[0], slow.memory_kib()
    print(f"peak {best:.1f}/s, at 20 times {goodput:.1f}/s; refused {row['refused']}, {row['refused_soon']} within 50 ms, "
          f"ms {row['refused_ms']}; accepted ms {before['ok_ms']} and {row['ok_ms']}; KiB {memory} and {grown}")
    assert row["no_retry_after"] == row["broken"] == 0, row
    for name in ("cayd", "cay-edge-0"):
        yield grown[name] < memory[name] * 1.3 + 2048, f"KiB {memory}, then {grown}"
    yield row["other"] == row["timeouts"] == row["late"] == 0, f"not all were answered in time: {row}"
    yield goodput >= (0.9 if FULL else 0.5) * best, f"{goodput:.1f}/s of {best:.1f}/s"
    yield row["refused"] > 10 * row["ok"], f"{row['refused']} refused, {row['ok']} not"
    yield row["refused_ms"][0] <= 0.2 * row["ok_ms"][0], f"a no is no work: {row}"
    yield not FULL or row["refused_soon"] >= 0.75 * row["refused"], f"late refusals: {row}"
    yield row["ok_ms"][1] <= 3 * max(before["ok_ms"][1], 500), f"{row['ok_ms']} ms, were {before['ok_ms']}"


@slowly
def test_a_greedy_tenant_takes_nothing_from_others(slow, best, _):
    modest = 0.5 * best / 10  # half of a fair share
    crowds = [storm.creators(20 * best, slow.keys[0]), *(storm.creators(modest, key) for key in slow.keys[1:])]
    enough = math.ceil(20 / (9 * modest))  # seconds until they have asked
    rows = storm.storm(BUILD, slow.port, crowds, 2 + max(7 * LONG, enough), warm=2, timeout_ms=4000)
    others = rows[1:]
    print(f"the others asked {storm.total(others, 'due')} times and got {storm.total(others, 'ok')}; "
          f"the greedy one {rows[0]['due']} and {rows[0]['ok']}")
    assert storm.total(others, "due") >= 9
    yield storm.total(others, "ok") >= (0.9 if FULL else 0.6) * storm.total(others, "due"), f"{rows}"
    yield rows[0]["ok"] > 0, f"{rows[0]}"


@slowly
def test_an_outage_with_a_storm_of_retries_is_over_when_it_is_over(slow, best, _):
    crowds = [storm.creators(best, key, retries=3) for key in slow.keys[:4]]
    seconds, stop, go = 18 * LONG, 4, 4 + 4 * LONG
    sent = []

    def send(number):
        slow.daemons["cayd"].send_signal(number)
        sent.append(int(time.monotonic() - begin))
    with storm.raging(BUILD, slow.port, crowds, seconds, warm=0, conns=4000, timeout_ms=2500) as rows:
        begin = time.monotonic()
        at = [threading.Timer(stop, send, (signal.SIGSTOP,)), threading.Timer(go, send, (signal.SIGCONT,))]
        for timer in at:
            timer.start()
        for timer in at:
            timer.join()
    stop, go = sent  # a busy machine may have been late
    per_s = [sum(second) for second in zip(*(row["per_s"] for row in rows))]
    before = sum(per_s[1:stop]) / (stop - 1)
    print(f"stopped from {stop} to {go} s: {per_s}; before {before:.1f}")
    yield before > 0.5 and sum(per_s[stop + 1:go]) <= before, f"it was none: {per_s}"
    back = next((s for s in range(go, seconds - 1) if sum(per_s[s:s + 2]) >= before), seconds)
    yield back - go <= (30 if FULL else 8), f"not back: {per_s}"
    yield sum(per_s[back:]) >= 0.4 * before * (seconds - back), f"it does not stay so: {per_s}"


def test_while_control_hangs_nobody_waits_for_it(own):
    key = own.new_key()

    def refused():
        """Who asks before the edge has noticed waits in vain."""
        with contextlib.suppress(TimeoutError):
            reply = own.door(key).open("GET", "/v1/sandboxes", timeout_s=2)
            return (reply.status, reply.headers["Retry-After"]) == (503, "1")
        return False
    own.daemons["cayd"].send_signal(signal.SIGSTOP)
    try:
        cay.let_pass(3)
        cay.wait_for("a refusal", refused, 20)
        # nor when the edge has given it up, and dials one that listens and does not accept
        cay.wait_for("it to be given up", lambda: "no heartbeat" in own.log("cay-edge-0"), 30)
        for _ in range(5):
            assert refused()
            cay.let_pass(0.5)
    finally:
        own.daemons["cayd"].send_signal(signal.SIGCONT)
    cay.wait_for("control", lambda: own.door(key).open("GET", "/v1/sandboxes").status == 200, 30)


def test_who_has_left_is_not_made_a_sandbox(own):
    """What was asked while nobody was served, and is not waited for any more, is not begun."""
    body = json.dumps({"image": "tiny"}).encode()
    own.daemons["cayd"].send_signal(signal.SIGSTOP)
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(own.socket)
            s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: cay\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    cay.let_pass(1.5)
    own.daemons["cayd"].send_signal(signal.SIGCONT)
    one = own.create("tiny")  # behind them
    assert [box["id"] for box in own.call("GET", "/v1/sandboxes")["sandboxes"]] == [one]


def ask_from(port, address):
    """The connection, and the status it was answered with; None when it was only closed."""
    s = socket.create_connection(("127.0.0.1", port), 30, source_address=(address, 0))
    try:
        s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return s, int((s.recv(4096) or b"HTTP/1.1 0").split()[1]) or None
    except ConnectionError:
        return s, None


def test_one_address_has_a_quarter_of_the_connections():
    with storm.Squeezed(BUILD, env={"CAY_EDGE_CONNECTIONS": "32"}) as w:
        kept = [ask_from(w.port, "127.0.0.1") for _ in range(8)]
        assert [status for _, status in kept] == [200] * 8
        more = [ask_from(w.port, "127.0.0.1") for _ in range(4)]
        assert more[0][1] == 429 and all(status in (429, None) for _, status in more), more
        assert ask_from(w.port, "127.0.0.2")[1] == 200
        for s, _ in kept + more:
            s.close()
        cay.wait_for("room again", lambda: ask_from(w.port, "127.0.0.1")[1] == 200, 30)
