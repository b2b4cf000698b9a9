# SPDX-License-Identifier: Apache-2.0
"""What control tells the edges, and what it makes of what they say"""
import contextlib
import hashlib
import os
import pathlib
import socket
import time

import push
import pytest
from cay import let_pass, wait_for
from test_control import nothing_is_left
from test_life import ended, restart


@pytest.fixture
def edge(own):
    e = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    yield e
    e.close()


def test_an_edge_hears_all_and_then_what_changes(own):
    before = own.create("tiny")
    gone = own.create("tiny")
    own.delete(gone)
    edge = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    tenant = own.get(before)["tenant"]
    assert edge.sandboxes == {before: (tenant, "running")}
    box = own.create("tiny")
    edge.until(lambda: edge.sandboxes.get(box) == (tenant, "running"))
    own.call("POST", f"/v1/sandboxes/{box}/pause")
    edge.until(lambda: edge.sandboxes.get(box) == (tenant, "paused"))
    own.delete(box)
    edge.until(lambda: box not in edge.sandboxes)
    edge.until(lambda: edge.ticks >= 2)
    restart(own, "cayd")
    with pytest.raises((EOFError, OSError)):
        while True:
            edge.hear()
    again = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    assert again.sandboxes == {before: (tenant, "running")} and again.app_ports == {before: 9000}
    own.delete(before)
    nothing_is_left(own)


def test_an_edge_hears_the_hash_of_every_url_that_is_good(own):
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "for n in 1 2 3; do echo $n > f$n; done"])
    edge = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    urls = [own.call("POST", f"/v1/sandboxes/{box}/exports", {"path": f"f{n}"})["url"] for n in (1, 2, 3)]
    tags = [hashlib.sha256(u.encode()).digest()[:16] for u in urls]

    def said():
        return [(r.value, r.number, r.secret) for r in edge.records if r.kind == push.EXPORTS and r.id == box]
    third = [(0, 3, tags[0] + tags[1]), (1, 3, tags[2] + bytes(16))]
    edge.until(lambda: said()[-2:] == third)
    assert not any(r.kind == push.EXPORTS for r in edge.records if r.id != box)
    # a new one hears the same, also of a new control
    edge = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    assert said() == third
    restart(own, "cayd")
    edge = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    assert said() == third
    own.call("DELETE", f"/v1/sandboxes/{box}/exports?path=f2")
    edge.until(lambda: said()[-1:] == [(0, 2, tags[0] + tags[2])])
    own.call("POST", f"/v1/sandboxes/{box}/revoke", {})
    edge.until(lambda: said()[-1:] == [(0, 0, bytes(32))])
    own.delete(box)


@pytest.mark.alone
def test_who_is_inside_is_not_idle(own, edge):
    box = own.create("tiny", idle_ms=3000)
    edge.say(push.BUSY, number=1, ident=box)
    edge.say(push.BUSY, number=3, ident=box)
    let_pass(4.5)
    assert own.get(box)["state"] == "running"
    begin = time.monotonic()
    edge.say(push.BUSY, number=0, ident=box)
    assert ended(own, box)["end"]["reason"] == "idle"
    assert 2.9 < time.monotonic() - begin < 20


@pytest.mark.alone
def test_who_came_and_went_is_not_idle_yet(own, edge):
    box = own.create("tiny", idle_ms=3000)
    begin = time.monotonic()
    while time.monotonic() - begin < 6:
        edge.say(push.BUSY, number=0, ident=box)
        let_pass(0.3)
    assert own.get(box)["state"] == "running"
    assert ended(own, box)["end"]["reason"] == "idle"


@pytest.mark.alone
def test_an_edge_that_dies_has_nobody_inside(own, edge):
    box = own.create("tiny", idle_ms=3000)
    other = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    edge.say(push.BUSY, number=1, ident=box)
    other.say(push.BUSY, number=1, ident=box)
    edge.close()
    let_pass(4.5)
    assert own.get(box)["state"] == "running"  # the other is still inside
    other.close()
    assert ended(own, box)["end"]["reason"] == "idle"


def test_one_that_ends_with_somebody_inside_is_forgotten_by_both(own, edge):
    box = own.create("tiny")
    edge.say(push.BUSY, number=2, ident=box)
    own.delete(box)
    edge.say(push.BUSY, number=0, ident=box)
    edge.say(push.BUSY, number=1, ident="sb" + "0" * 23 + "1")  # one there never was
    edge.until(lambda: edge.ticks >= 1)
    nothing_is_left(own)


@pytest.mark.parametrize("said", [
    push.record(push.HELLO, number=push.ABI + 1), push.record(push.TICK), push.record(push.BUSY, ident="sb" + "0" * 24),
    bytes(push.SIZE), b"\xff" * push.SIZE, push.record(push.HELLO, number=push.ABI) + push.record(push.ALL),
    push.record(push.HELLO, number=push.ABI) + push.record(push.KEY, value=4, ident="ky" + "0" * 23 + "1", tenant="tn" + "0" * 24),
], ids=["another-version", "no-hello", "busy-first", "zeros", "ones", "all", "a-key-of-its-own"])
def test_who_does_not_speak_it_is_let_go(own, said):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(str(own.run / "edge" / "push.sock"))
    s.sendall(said)
    with contextlib.suppress(ConnectionResetError):  # there may be some that it has not read
        while s.recv(65536):
            pass
    assert own.call("GET", "/v1/health")["version"]


def test_one_that_says_nothing_is_let_go(own):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(str(own.run / "edge" / "push.sock"))
    assert s.recv(1) == b""


def test_one_that_does_not_read_holds_nobody_up(own):
    deaf = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    for s in deaf:
        s.connect(str(own.run / "edge" / "push.sock"))
        s.sendall(push.record(push.HELLO, number=push.ABI))
    for _ in range(5):
        own.delete(own.create("tiny"))
    good = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    box = own.create("tiny")
    good.until(lambda: box in good.sandboxes)
    own.delete(box)
    assert own.call("GET", "/v1/health")["version"]


def signs(edge):
    return {r.value: r for r in edge.records if r.kind == push.SIGN}


def test_the_key_of_tokens_ages_by_the_wall_clock(own):
    """Edges hear of the next one at once, and until when the one before is good."""
    wall = own.run / "wall"
    wall.write_text("0")
    preload = pathlib.Path(os.environ.get("CAY_BUILD", "build/gcc")) / "tests/integration/wall.so"
    wall.chmod(0o644)
    own.env |= {"LD_PRELOAD": str(preload.resolve()), "CAY_TEST_WALL": str(wall)}
    restart(own, "cayd")
    edge = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    assert [(r.value, r.time) for r in edge.records if r.kind == push.SIGN] == [(1, 2 ** 64 - 1)]
    first = signs(edge)[1].secret
    wall.write_text(str(29 * 86400))
    edge.until(lambda: edge.ticks >= 3)
    assert list(signs(edge)) == [1]
    wall.write_text(str(31 * 86400))
    edge.until(lambda: 2 in signs(edge))
    old, new = signs(edge)[1], signs(edge)[2]
    left = old.time / 1000 - (time.time() + 31 * 86400)
    assert 604800 < left < 604900 and old.secret == first != new.secret and new.time == 2 ** 64 - 1
    assert len((own.state / "db/token.key").read_text().splitlines()) == 2
    wall.write_text(str(39 * 86400))
    wait_for("the old one to be forgotten", lambda: len((own.state / "db/token.key").read_text().splitlines()) == 1, 30)
    wall.write_text("0")  # a clock that goes back makes nothing older
    edge.until(lambda: edge.ticks >= 8)
    assert sorted(signs(edge)) == [1, 2]
    edge.close()
