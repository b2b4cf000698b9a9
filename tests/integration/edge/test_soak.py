# SPDX-License-Identifier: Apache-2.0
"""Rollouts from eight clients while edge, cayd, keeper and connections are killed at random

A rollout creates a sandbox with a key, runs three commands (waits for one, streams one, detaches one and
follows its output), writes a file and reads it back, reads the log that each command wrote a line to, lists
its sandboxes by label, and deletes.  A client repeats what broke, as docs/errors.md says, and nothing else.

What must hold: every rollout has one sandbox, and each of its commands ran once; every byte of output and of the
file is as it was written; every error and every end has a `blame`, and it is the right one: the
commands that fail by themselves are known, and any other failure must be `infra` and fall into a time in which
a program was down.  The injector logs each kill with what was in flight.

CI runs 500 rollouts.  `make soak` runs 20,000 and wants each kind of request in flight at 50 kills of each program.
"""
import collections
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import signal
import socket
import struct
import time

import pytest
import world
from cay import FRAME_DATA, FRAME_END, FRAMES, STDOUT, let_pass, wait_for
from conftest import BUILD, FULL

CLIENTS, ROLLOUTS, IN_FLIGHT = 8, 20000 if FULL else 500, 50
KINDS = ["create", "run", "stream", "detach", "follow", "write", "read", "list", "delete"]
IDLE = -1
GIVE_UP_S = 120  # without a reply that counts
ROLLOUTS = int(os.environ.get("CAY_ROLLOUTS") or ROLLOUTS)
AFTER_S = 5      # after a program is back, others may still be reconnecting
SEED = int(os.environ.get("CAY_SEED", 0)) or 20261117
# what the third command does, and the blame of its end
THIRD = [("seq 3000", "exit", "task"), ("seq 3000; exit 3", "exit", "task"), ("seq 3000; kill -9 $$", "signal", "task"),
         ("seq 3000; sleep 60", "timeout", "limit")]


def frames(data):
    """(type, stream, offset, content)"""
    at = 0
    while at + 16 <= len(data):
        kind, stream, _, length, offset = struct.unpack_from("<BBHIQ", data, at)
        yield kind, stream, offset, data[at + 16:at + 16 + length]
        at += 16 + length


def numbers(n):
    return b"".join(b"%d\n" % i for i in range(1, n + 1))


class Broken(Exception):
    """No whole reply came."""


class Failed(Exception):
    """An error that the same request cannot pass."""


class Client:
    def __init__(self, me, port, key, doing, seed):
        self.me, self.port, self.key, self.doing = me, port, key, doing
        self.random = random.Random(seed)
        self.link, self.errors, self.failed, self.counts = None, [], [], collections.Counter()
        signal.signal(signal.SIGUSR1, self.cut)

    def cut(self, *_):
        """The injector cuts this client's connection."""
        with contextlib.suppress(OSError, AttributeError):
            self.link.sock.shutdown(socket.SHUT_RDWR)

    def once(self, method, target, body, headers):
        try:
            self.link = self.link or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            self.link.request(method, target, body, {"Authorization": "Bearer " + self.key, **headers})
            reply = self.link.getresponse()
            data = reply.read()
            return reply.status, reply.headers, data
        except (OSError, http.client.HTTPException) as e:
            self.link.close()
            self.link = None
            raise Broken(repr(e)) from e

    def ask(self, kind, method, target, body=None, good=lambda status, data: 200 <= status < 300, **headers):
        """Until a reply is good; repeats what broke and what is retryable."""
        if isinstance(body, dict):
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        until = time.monotonic() + GIVE_UP_S
        while True:
            begun = time.time()
            self.doing[self.me] = KINDS.index(kind)
            try:
                status, said, data = self.once(method, target, body, headers)
            except Broken as e:
                self.counts[f"{kind}: broken"] += 1
                assert time.monotonic() < until, f"{kind}: no reply in {GIVE_UP_S} s: {e}"
                let_pass(0.02)
                continue
            finally:
                self.doing[self.me] = IDLE
            if good(status, data):
                self.counts[kind] += 1
                return status, said, data
            if 200 <= status < 300:
                self.counts[f"{kind}: cut"] += 1
            else:
                error = json.loads(data)["error"]
                self.errors.append((kind, begun, time.time(), error))
                if not error["retryable"]:
                    raise Failed(f"{kind} {target}: {error} {self.look(target)}")
            assert time.monotonic() < until, f"{kind}: {status} {data[:500]!r} for {GIVE_UP_S} s"
            let_pass(min(float(said.get("Retry-After") or 0.05), 1))

    def look(self, target):
        """What became of the sandbox, for the one who reads of a failure."""
        with contextlib.suppress(Broken, IndexError):
            return self.once("GET", "/v1/sandboxes/" + target.split("/")[3], None, {})[2]
        return None

    def rollout(self, name):
        _, _, made = self.ask("create", "POST", "/v1/sandboxes", {"image": "tiny", "labels": {"rollout": name}, "wait": True},
                              **{"Idempotency-Key": name})
        box = json.loads(made)
        at = "/v1/sandboxes/" + box["id"]
        self.check_run(at, name)
        self.check_stream(at, name)
        self.check_detached(at, name)
        content = self.random.randbytes(20000)
        self.ask("write", "PUT", at + "/files/content?path=/tmp/f", content)
        _, _, got = self.ask("read", "GET", at + "/files/content?path=/tmp/f")
        assert got == content, f"{name}: a file of {len(content)} bytes came back as {len(got)} others"
        _, _, log = self.ask("read", "GET", at + "/files/content?path=/tmp/log")
        assert log == b"1\n2\n3\n", f"{name}: its commands ran as {log!r}"
        _, _, listed = self.ask("list", "GET", f"/v1/sandboxes?label=rollout={name}")
        found = [b["id"] for b in json.loads(listed)["sandboxes"]]
        assert found == [box["id"]], f"{name}: {found}"
        _, _, last = self.ask("delete", "DELETE", at, good=lambda status, data: status in (200, 404))
        end = json.loads(last).get("end")
        assert not end or end["reason"] == "killed", f"{name}: {end}"

    def check_run(self, at, name):
        n = self.random.randrange(1, 9000)
        _, _, data = self.ask("run", "POST", at + "/execs", {"argv": ["/bin/sh", "-c", f"echo 1 >> /tmp/log; seq {n}"]},
                              **{"Idempotency-Key": name + "-1"})
        r = json.loads(data)
        assert r["stdout"].encode() == numbers(n), f"{name}: {r['stdout_bytes']} bytes of seq {n}"
        assert r["end"]["reason"] == "exit" and r["end"]["exit_code"] == 0, f"{name}: {r['end']}"

    def check_stream(self, at, name):
        n = self.random.randrange(1, 30000)

        def whole(status, data):
            return status == 200 and any(f[0] == FRAME_END for f in frames(data))

        _, _, data = self.ask("stream", "POST", at + "/execs", {"argv": ["/bin/sh", "-c", f"echo 2 >> /tmp/log; seq {n}"], "output": "spool"},
                              good=whole, **{"Idempotency-Key": name + "-2", "Accept": FRAMES})
        got = b"".join(f[3] for f in frames(data) if f[0] == FRAME_DATA and f[1] == STDOUT)
        assert got == numbers(n), f"{name}: {len(got)} bytes of seq {n} in a stream"

    def check_detached(self, at, name):
        script, reason, blame = THIRD[self.random.choices(range(len(THIRD)), (12, 4, 2, 1))[0]]
        _, _, data = self.ask("detach", "POST", at + "/execs",
                              {"argv": ["/bin/sh", "-c", "echo 3 >> /tmp/log; " + script], "detach": True, "output": "spool",
                               **({"timeout_ms": 300} if reason == "timeout" else {"timeout_ms": 60000})}, **{"Idempotency-Key": name + "-3"})
        exec_at, got, want, end = f"{at}/execs/{json.loads(data)['id']}", b"", numbers(3000), None
        while not end:  # it goes on where it was cut
            _, _, more = self.ask("follow", "GET", f"{exec_at}/output?follow=true&offset={len(got)}")
            got += more
            _, _, data = self.ask("follow", "GET", exec_at)
            r = json.loads(data)
            end = r.get("end") if len(got) >= r["stdout_bytes"] else None
        assert got == want, f"{name}: {len(got)} bytes of {len(want)} followed"
        assert end["reason"] == reason and end["blame"] == blame, f"{name}: {script}: {end}"


def client(me, node, key, doing, numbers_left, pipe):
    c, done = Client(me, node.port, key, doing, SEED + me), 0
    try:
        while True:
            with numbers_left.get_lock():
                n = numbers_left.value
                numbers_left.value -= 1
            if n <= 0:
                break
            for attempt in range(3):
                try:
                    c.rollout(f"r{n}-{attempt}")
                    break
                except Failed as e:
                    c.failed.append(str(e))
            done += 1
        pipe.send((done, c.counts, c.errors, c.failed, None))
    except Exception as e:  # noqa: BLE001: whatever it is, the rollout failed
        pipe.send((done, c.counts, c.errors, c.failed, f"{type(e).__name__}: {e}"))


class Injector:
    """Kills, and knows when what was down."""

    def __init__(self, node, doing, pids):
        self.node, self.doing, self.pids = node, doing, pids
        self.random = random.Random(SEED)
        self.down, self.kills, self.in_flight = [], collections.Counter(), collections.Counter()

    def edge(self):
        [name] = self.node.edges
        self.node.kill_daemon(name)
        self.node._spawn(name, self.node.programs["edge"], user=world.EDGE_UID, group=world.EDGE_UID, extra_groups=self.node.edge_groups())
        self.node._up(name)

    def cayd(self):
        self.node.kill_daemon("cayd")
        self.node.start_cayd()

    def keeper(self):
        self.node.kill_daemon("cay-keeper")
        self.node.start_keeper()

    def connection(self):
        os.kill(self.random.choice(self.pids), signal.SIGUSR1)

    def step(self):
        what = self.random.choice(("edge", "cayd", "keeper", "connection"))
        let_pass(self.random.uniform(0.05, 0.6))
        doing = {KINDS[k] for k in self.doing if k != IDLE}
        begun = time.time()
        getattr(self, what)()
        self.down.append((begun, time.time() + AFTER_S))
        self.kills[what] += 1
        self.in_flight.update((what, kind) for kind in doing)

    def was_down(self, begun, ended):
        return any(begun <= b and a <= ended for a, b in self.down)


def judge(injector, errors):
    """Errors that the clients saw, which all come of kills: they must be ours, and in time."""
    wrong = [(kind, error) for kind, begun, ended, error in errors
             if error["blame"] != "infra" or not injector.was_down(begun, ended)]
    for kind, error in wrong[:20]:
        print(f"SOAK|wrong|{kind}: {error}")
    assert not wrong, len(wrong)


@pytest.mark.alone
def test_rollouts_survive_kills(tmp_path):
    doing, left = multiprocessing.Array("i", [IDLE] * CLIENTS), multiprocessing.Value("i", ROLLOUTS)
    with world.World(BUILD, env={"CAY_EDGE_RATE": "1000000", "CAY_LIMITS_RECORD_TTL": "5m"}) as node:
        key, pipes = node.new_key(), []
        for i in range(CLIENTS):
            ours, theirs = multiprocessing.Pipe()
            child = multiprocessing.Process(target=client, args=(i, node, key, doing, left, theirs), daemon=True)
            child.start()
            pipes.append((ours, child))
        injector = Injector(node, doing, [child.pid for _, child in pipes])
        begun = time.monotonic()
        try:
            while left.value > 0 and all(child.is_alive() for _, child in pipes):
                injector.step()
            results = []
            for ours, _ in pipes:
                assert ours.poll(2 * GIVE_UP_S), "a client has hung"
                results.append(ours.recv())
        finally:
            for _, child in pipes:
                child.kill()
                child.join()
        took = time.monotonic() - begun
        done, counts = sum(r[0] for r in results), sum((r[1] for r in results), collections.Counter())
        errors = [e for r in results for e in r[2]]
        codes = collections.Counter(f"{e[3]['code']} {e[3]['blame']}" for e in errors)
        print(f"SOAK|{done} rollouts in {took:.0f} s, seed {SEED}|kills {dict(injector.kills)}|errors {dict(codes)}|replies {dict(counts)}")
        for what in ("edge", "cayd", "keeper", "connection"):
            print(f"SOAK|in flight at kills of {what}|" + ", ".join(f"{kind} {injector.in_flight[what, kind]}" for kind in KINDS))
        for text in (text for r in results for text in r[3]):
            print(f"SOAK|failed|{text}")
        wrong = [r[4] for r in results if r[4]]
        assert not wrong, wrong
        assert done == ROLLOUTS
        judge(injector, errors)
        wait_for("the sandboxes to be gone", lambda: not node.processes("sb"), 60)
        if ROLLOUTS >= 20000:
            few = {pair: n for what in ("edge", "cayd", "keeper") for kind in KINDS
                   if (n := injector.in_flight[pair := (what, kind)]) < IN_FLIGHT}
            assert not few, few
