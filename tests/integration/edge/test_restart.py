# SPDX-License-Identifier: Apache-2.0
"""An edge is restarted, and nobody notices."""
import contextlib
import http.client
import json
import pathlib
import threading
import time

import pytest
import world
from cay import let_pass, wait_for
from conftest import BUILD, FULL

CLIENTS, EVERY_S = (8, 0.03) if FULL else (4, 0.03)  # 200 requests a second and more, or half of it
STREAMS = 100 if FULL else 20
COUNT = ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do echo $i; i=$((i+1)); sleep 0.02; done"]


LAST_S = 1  # so long it waits for what may be on its way


def drained(own):
    """False: it was not seen, because we were late ourselves."""
    me, name = own.door(), own.edges[-1]
    edge, box = own.daemons[name], me.create("tiny")
    kept, fresh, idle = (me.connection(30) for _ in range(3))
    for _ in range(2):  # on one connection
        kept.request("GET", "/v1/health")
        assert kept.getresponse().read()
    fresh.connect()
    idle.connect()
    waiting = me.connection(30)
    waiting.request("POST", f"/v1/sandboxes/{box}/execs", json.dumps({"argv": ["sh", "-c", "echo begun > /tmp/b; until [ -e /tmp/go ]; do sleep 0.05; done; echo done"]}),
                    {"Authorization": "Bearer " + me.credential, "Content-Type": "application/json"})
    wait_for("it to run", lambda: own.exec(box, ["cat", "/tmp/b"]).text == "begun\n", 30)
    begin = time.monotonic()
    edge.terminate()
    wait_for("the edge to drain", lambda: "no new requests" in own.log(name), 30)
    try:
        for late in (kept, fresh):  # what was under way when it heard of it looks like this
            late.request("GET", "/v1/health")
            assert (reply := late.getresponse()).read() and reply.headers["Connection"] == "close"
        own.exec(box, ["touch", "/tmp/go"])
        reply = waiting.getresponse()
        assert reply.status == 200 and json.loads(reply.read())["stdout"] == "done\n" and reply.headers["Connection"] == "close"
    except (http.client.HTTPException, OSError):
        if time.monotonic() - begin < LAST_S:
            raise
        return False
    assert edge.wait(30) == 0 and "connections are cut" not in own.log(name), "it waits for nobody who asks nothing"
    own.delete(box)
    return True


def test_what_is_under_way_is_finished(own):
    """A request that waits gets its answer, then the edge ends; one between requests is let go."""
    for _ in range(4):
        if drained(own):
            return
        own.start_edge()
    raise AssertionError("it is never in time")


@pytest.fixture
def migrate():
    """As packaging/sysctl.d has it: what waits at a listener that closes goes to another one."""
    path = pathlib.Path("/proc/sys/net/ipv4/tcp_migrate_req")
    before = path.read_text()
    path.write_text("1")
    yield
    path.write_text(before)


class Asker(threading.Thread):
    """Requests at a pace, each on a connection of its own."""
    def __init__(self, me, path):
        super().__init__()
        self.me, self.path, self.failed, self.done, self.over = me, path, [], 0, threading.Event()

    def run(self):
        at = time.monotonic()
        while not self.over.is_set():
            try:
                reply = self.me.open("GET", self.path, timeout_s=10)
                assert reply.status == 200 and reply.read()
                self.done += 1
            except Exception as e:  # noqa: BLE001: whatever it is, a client saw it
                self.failed.append(repr(e))
            at = max(at + EVERY_S, time.monotonic() - 1)
            self.over.wait(max(0, at - time.monotonic()))


class Follower(threading.Thread):
    """Reads a stream and goes on where it was cut."""
    def __init__(self, me, path):
        super().__init__()
        self.me, self.path, self.got, self.opened, self.over = me, path, b"", 0, threading.Event()

    def run(self):
        while not self.over.is_set():
            with contextlib.suppress(Exception):  # what it has read by then is what counts
                stream = self.me.open("GET", f"{self.path}?offset={len(self.got)}&follow=true", timeout_s=10)
                assert stream.status == 200
                self.opened += 1
                while (piece := stream.readline()) and not self.over.is_set():
                    self.got += piece


@pytest.mark.alone
def test_nobody_notices_that_an_edge_is_restarted(migrate):
    with world.World(BUILD, edges=2, env={"CAY_EDGE_RATE": "100000"}) as w:
        me = w.door(w.new_key())
        box = me.create("tiny")
        path = f"/v1/sandboxes/{box}/execs/{me.exec_detached(box, COUNT)}"
        askers = [Asker(me, path) for _ in range(CLIENTS)]
        followers = [Follower(me, path + "/output") for _ in range(STREAMS)]
        begin = time.monotonic()
        for t in askers + followers:
            t.start()
        wait_for("all to follow", lambda: all(f.opened for f in followers), 30)
        for n in range(3):
            old = w.daemons[w.edges[n]]
            w.start_edge()
            old.terminate()
            let_pass(1)
        for n in range(3):  # it lets streams go on for a while, then cuts them
            assert w.daemons[w.edges[n]].wait(15) == 0
        for t in askers:
            t.over.set()
            t.join()
        rate = sum(t.done for t in askers) / (time.monotonic() - begin)
        last = max(len(f.got) for f in followers) + 50
        wait_for("all to go on", lambda: all(len(f.got) > last for f in followers), 40)
        for t in followers:
            t.over.set()
        for t in followers:
            t.join()
        print(f"{rate:.0f} requests/s, {sum(f.opened for f in followers) - STREAMS} streams resumed")
        assert not any(t.failed for t in askers), [t.failed[:2] for t in askers]
        assert rate > 50
        assert sum(f.opened for f in followers) > STREAMS, "no stream was cut: nothing was shown"
        for f in followers:
            lines = f.got.split(b"\n")[:-1]
            assert lines == [b"%d" % i for i in range(len(lines))]
        me.delete(box)
