# SPDX-License-Identifier: Apache-2.0
"""Doze: who is idle is frozen and its memory given back; a request wakes it, an asked pause stays."""
import concurrent.futures
import pathlib
import time

import cay
import pytest
import swap
from cay import wait_for
from conftest import BUILD, tiny
from test_control import refused
from test_life import COUNT, FULL, clean, linked, numbers, restart
from test_quota import new_tenant
from test_rest import hold, stays, stops
from test_stop import act
from test_tenants import DEFAULT, asks

pytestmark = pytest.mark.one_lane  # swap is of the whole machine

HEAPS, HEAP_MIB = (200 if FULL else 8), 100
SLEEP = ["sleep", "1000"]


def is_dozing(c, box):
    seen = c.get(box)
    return seen["state"] == "paused" and seen.get("dozing", False)


def wakes(c, box, times):
    """It ran again so often after a doze, which cayd may record after the reply to the request; by now it may doze once more."""
    wait_for("the wake to be recorded", lambda: wakes_recorded(c, box) >= times, 5)
    assert wakes_recorded(c, box) == times


def wakes_recorded(c, box):
    events, page = [], c.call("GET", f"/v1/events?sandbox={box}")
    after = 0
    while page["next"] > after:  # a page may end before the first event of this sandbox
        events, after = events + page["events"], page["next"]
        page = c.call("GET", f"/v1/events?sandbox={box}&after={after}")
    paused = [i for i, e in enumerate(events) if e["state"] == "paused"]
    assert all(events[i]["dozing"] for i in paused)
    return sum(e["state"] == "running" for e in events[paused[0]:])


def dozes(c, box, within=20):
    wait_for("it to doze", lambda: is_dozing(c, box), within)
    wait_for("its processes to stand still", lambda: swap.is_frozen(c, box), 5)


def test_a_request_wakes_who_dozes(daemon):
    box = daemon.create("tiny", pause_after_ms=1000)
    assert daemon.get(box)["idle"] == "work" and daemon.get(box)["pause_after_ms"] == 1000
    for n in range(1, 4):
        dozes(daemon, box)
        assert daemon.exec(box, ["echo", "awake"]).text == "awake\n"
        wakes(daemon, box, n)
    daemon.delete(box)


def test_every_kind_of_request_wakes_it(daemon):
    """A token and a key that only reads may as well: it takes nothing that its tenant has not given to it."""
    box = daemon.create("tiny", pause_after_ms=1000)
    daemon.exec(box, ["sh", "-c", "echo kept >file"])
    reader, token = asks(daemon, "read", DEFAULT), asks(daemon, "write", DEFAULT, sandbox=box)
    for n, (who, method, target) in enumerate(((reader, "GET", "files/stat?path=file"), (reader, "GET", "execs"), (token, "GET", "files/stat?path=file"),
                                (daemon, "GET", "ports"), (daemon, "POST", "exports")), 1):
        dozes(daemon, box)
        who.call(method, f"/v1/sandboxes/{box}/{target}", {"path": "file"} if method == "POST" else None)
        wakes(daemon, box, n)
    dozes(daemon, box)
    for target in ("", "/usage"):  # what cayd itself answers wakes nobody
        daemon.call("GET", f"/v1/sandboxes/{box}{target}")
    cay.let_pass(0.5)
    assert is_dozing(daemon, box)
    daemon.delete(box)


def test_who_works_or_is_held_does_not_doze(daemon):
    works, held, by_requests = (daemon.create("tiny", pause_after_ms=1000, **more) for more in ({}, {}, {"idle": "requests"}))
    job = daemon.exec_detached(works, SLEEP)
    counting = daemon.exec_detached(by_requests, COUNT)
    hold(daemon, held, 600000)
    dozes(daemon, by_requests)
    for box in (works, held):
        stays(daemon, box, 1.5)
    before = numbers(daemon, by_requests, counting)  # which wakes it
    wait_for("it to count on", lambda: len(numbers(daemon, by_requests, counting)) > len(before), 10)
    daemon.signal(works, job)
    hold(daemon, held, 0)
    for box in (works, held, by_requests):
        dozes(daemon, box)
    assert "held_until" in hold(daemon, held, 600000)  # and that wakes it
    wait_for("it to run", lambda: daemon.get(held)["state"] == "running", 5)
    for box in (works, held, by_requests):
        daemon.delete(box)


def test_an_asked_pause_stays(own):
    """Also one that is asked for while it dozes; a restart of cayd forgets neither."""
    asked, never = own.create("tiny", pause_after_ms=1000), own.create("tiny", pause_after_ms=1000, wake="never")
    dozes(own, asked)
    dozes(own, never)
    assert not act(own, asked, "pause")["dozing"]
    for _ in range(2):
        for box in (asked, never):
            assert "paused" in refused("wrong_state", own.exec, box, ["true"])["message"]
            assert swap.is_frozen(own, box)
        restart(own, "cayd")
    assert is_dozing(own, never) and not is_dozing(own, asked)
    for box in (asked, never):
        assert act(own, box, "resume")["state"] == "running"
        assert own.exec(box, ["echo", "on"]).text == "on\n"
        dozes(own, box)
        own.delete(box)
    clean(own)


def test_its_other_deadlines_go_on(own):
    idle, stopping = own.create("tiny", pause_after_ms=1000, idle_ms=3000), own.create("tiny", pause_after_ms=1000, stop_after_ms=3000)
    over, leased = own.create("tiny", pause_after_ms=1000, ttl_ms=3000), own.create("tiny", pause_after_ms=1000, lease_ms=3000)
    for box in (idle, stopping, over, leased):
        dozes(own, box)
    stops(own, stopping)
    for box, why in ((idle, "idle"), (over, "ttl"), (leased, "lease")):
        wait_for("its end", lambda box=box: own.get(box)["state"] == "terminated", 20)
        assert own.get(box)["end"]["reason"] == why
    assert own.exec(stopping, ["echo", "started"]).text == "started\n"
    dozes(own, stopping)
    own.delete(stopping)
    clean(own)


def test_what_cannot_doze_is_refused(daemon):
    for more in ({"idle_ms": 1000}, {"stop_after_ms": 2000}):
        assert refused("invalid_argument", daemon.create, "tiny", pause_after_ms=2000, **more)["field"] == "pause_after_ms"
    made = daemon.call("POST", "/v1/templates", {"name": "dozer", "defaults": {"image": "tiny", "pause_after_ms": 60000}})
    for more, then in (({}, 60000), ({"idle_ms": 30000}, None), ({"pause_after_ms": 1000}, 1000)):
        box = daemon.call("POST", "/v1/sandboxes", {"template": "dozer", **more})
        assert box.get("pause_after_ms") == then, more
        daemon.delete(box["id"])
    daemon.call("DELETE", f"/v1/templates/{made['id']}")


def test_a_thousand_requests_are_one_wake(daemon):
    box = daemon.create("tiny", pause_after_ms=2000)
    dozes(daemon, box)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        done = list(pool.map(lambda _: daemon.call("GET", f"/v1/sandboxes/{box}/files/stat?path=/tmp"), range(1000)))
    assert len(done) == 1000
    states = [e["state"] for e in daemon.call("GET", f"/v1/events?sandbox={box}")["events"]]
    assert states.count("paused") == 1 and states[-1] == "running", states
    daemon.delete(box)


POINTS = {"cayd": ("pause:freeze", "pause:thaw"), "cay-keeper": ("freeze:done", "reclaim:slice")}


@pytest.mark.parametrize("how", ["kill", "error"])
@pytest.mark.parametrize("program,point", [(program, point) for program, points in POINTS.items() for point in points])
def test_cut_off_anywhere_it_wakes(own, program, point, how):
    """Whatever dies while it is frozen, reclaimed or woken: what runs in it goes on when it is asked."""
    box = own.create("tiny", pause_after_ms=1000, idle="requests")
    counting = own.exec_detached(box, COUNT)
    own.kill_daemon(program)
    own.env["CAY_FAULT"] = f"{point}={how}"
    own.start_keeper() if program == "cay-keeper" else own.start_cayd()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    with swap.file(64):
        until = time.monotonic() + (8 if point == "reclaim:slice" else 2.5)
        while time.monotonic() < until and own.daemons[program].poll() is None:
            cay.let_pass(0.1)
        if point == "pause:thaw":
            asked = concurrent.futures.ThreadPoolExecutor(1).submit(own.exec, box, ["true"])
            wait_for("the request to be there", lambda: asked.running() or asked.done(), 5)
            cay.let_pass(0.3)
        own.kill_daemon(program)
        own.start_keeper() if program == "cay-keeper" else own.start_cayd()
        wait_for("the link", lambda: linked(own), 30)
        assert own.exec(box, ["echo", "awake"]).text == "awake\n"
        before = numbers(own, box, counting)
        wait_for("it to count on", lambda: len(numbers(own, box, counting)) > len(before), 10)
    dozes(own, box)
    own.delete(box)
    clean(own)


@pytest.fixture
def heaped(own):
    program = (pathlib.Path(BUILD).resolve() / "tests/integration/heap").read_bytes()
    own.image_import("heaped", tiny([cay.file("bin/heap", program, 0o755), cay.entry("bin/sha256sum", cay.tarfile.SYMTYPE, link="busybox")]))
    return own


def with_heap(c, mib, after_ms):
    """Its commands do not keep it awake."""
    box = c.create("heaped", pause_after_ms=after_ms, idle="requests", limits={"memory_bytes": 1 << 30})
    c.exec_detached(box, ["heap", str(mib)])
    return box


def sum_of(c, box, mib=HEAP_MIB):
    done = c.exec(box, ["sh", "-c", 'while ! test -p heap; do sleep 0.1; done; head -c "$1" heap | sha256sum', "-", str(mib << 20)], timeout_s=120)
    assert done.exit_code == 0, done
    return done.text


def test_memory_that_was_given_back_is_the_same(heaped):
    """What the kernel counts for all that doze is at most a tenth of their heaps."""
    own = heaped
    with swap.file(HEAPS * (HEAP_MIB + 10)):
        boxes = [with_heap(own, HEAP_MIB, 2000) for _ in range(HEAPS)]
        for box in boxes:  # until all have been counted
            hold(own, box, 600000)
        sums = {box: sum_of(own, box) for box in boxes}
        assert len(set(sums.values())) == HEAPS and sum(swap.memory(own, b) for b in boxes) > HEAPS * HEAP_MIB << 20
        for box in boxes:
            hold(own, box, 0)
        for box in boxes:
            dozes(own, box)
        most = HEAPS * HEAP_MIB * (1 << 20) // 10
        wait_for("their memory to be given back", lambda: sum(swap.memory(own, b) for b in boxes) <= most, 60 + 2 * HEAPS)
        for box in boxes:
            dozes(own, box)
            assert sum_of(own, box) == sums[box]
        for box in boxes:
            own.delete(box)
    clean(own)


def test_without_swap_it_only_stands_still(heaped):
    own = heaped
    if len(pathlib.Path("/proc/swaps").read_text().splitlines()) > 1:
        pytest.skip("this machine has swap")
    box = with_heap(own, 20, 1000)
    dozes(own, box)
    cay.let_pass(7)
    assert is_dozing(own, box) and swap.memory(own, box) > 20 << 20
    own.delete(box)


def test_a_wake_waits_for_no_reclaim(heaped):
    """It comes while the memory is being written; the answer does not wait for the rest."""
    own = heaped
    with swap.file(700):
        box = with_heap(own, 500, 1000)
        before = sum_of(own, box, 500)
        full = swap.memory(own, box)
        dozes(own, box)
        wait_for("some of it to be given back", lambda: swap.memory(own, box) < full - (20 << 20), 30)
        began = time.monotonic()
        own.exec(box, ["true"])
        took = time.monotonic() - began
        left = swap.memory(own, box)
        assert took < 2 and left > 10 << 20, (took, left)
        assert sum_of(own, box, 500) == before
        cay.let_pass(1)
        assert swap.memory(own, box) > 400 << 20  # nothing goes on to take it away
        own.delete(box)
    clean(own)


def test_tenants_take_turns_to_give_memory_back(heaped):
    """One who has many that doze is not served before all others."""
    own = heaped
    _, few = new_tenant(own)
    with swap.file(400):
        one = with_heap(few, 40, 1000)
        many = [with_heap(own, 40, 1000) for _ in range(6)]
        for c, box in [(few, one), *((own, b) for b in many)]:
            dozes(c, box)
        wait_for("it to be served", lambda: swap.memory(own, one) < 20 << 20, 60)
        assert sum(swap.memory(own, b) > 35 << 20 for b in many) >= 2, [swap.memory(own, b) >> 20 for b in many]
        wait_for("the others", lambda: all(swap.memory(own, b) < 20 << 20 for b in many), 60)
        for c, box in [(few, one), *((own, b) for b in many)]:
            c.delete(box)
    clean(own)
