# SPDX-License-Identifier: Apache-2.0
"""TEN-01, TEN-02: one tenant floods the node, another works beside it

Red floods over raw sockets from a process of its own; blue creates sandboxes and runs commands
as an ordinary client.  Blue is measured quiet and beside the flood in the same run, so whatever
else this machine does is in both; a flood that looks too bad is tried again, because what the node
does wrong it does every time.  Memory is the kernel's figure of each daemon (VmRSS).

FLOODS is a table: a name, the request, whether its replies are read, the daemons it must not fill.
CAY_FULL=1 (`make tenant-floods`) runs every row at 64 connections, at four times as many, at a
quarter of the rate and from 20 keys of the tenant; CI the rows marked so at 64.
"""
import collections
import contextlib
import dataclasses
import json
import multiprocessing
import os
import pathlib
import re
import selectors
import socket
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
import cay as lib
import mcp
import routes

BUILD = pathlib.Path(os.environ.get("CAY_BUILD", "build/gcc")).resolve()
FULL = bool(os.environ.get("CAY_FULL"))
MIB = 1 << 20
PAGE = 256 << 10
CREATE_RATIO, EXEC_RATIO = 5.0, 3.0
LEAST_S = 0.02  # figures below are the clock's and the scheduler's
SAMPLES = 60 if FULL else 12
CONNECTIONS = 64
TRIES = 3
RSS_MAX = 256 * MIB
BACK_S = 60.0
PICTURE = 2_900_000
LABELS = {".".join(["p" * 60] * 4) + f"/k{i}": "v" * 60 for i in range(60)}
FAT = 60


@dataclasses.dataclass
class Flood:
    name: str
    target: str
    ci: bool = False
    daemons: tuple = ("cayd", "cay-edge-0")
    body: dict | None = None


MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {"path": "/workspace/p.png"}}}
FLOODS = [
    Flood("events", "/v1/events?limit=1000", ci=True),
    Flood("sandboxes", "/v1/sandboxes?limit=1000&group=fat", ci=True),
    Flood("labels", "/v1/sandboxes?limit=1000&label=absent"),
    Flood("sandbox", "/v1/sandboxes/{sandbox}"),
    Flood("usage", "/v1/sandboxes/{sandbox}/usage"),
    Flood("images", "/v1/images?limit=1000"),
    Flood("templates", "/v1/templates?limit=1000"),
    Flood("uploads", "/v1/uploads?group=fat"),
    Flood("absent", "/v1/sandboxes/sb" + "0" * 24),
    Flood("image", "/v1/images/tiny"),
    Flood("template", "/v1/templates/absent"),
    Flood("snapshots", "/v1/snapshots?limit=1000"),
    Flood("snapshot", "/v1/snapshots/sn" + "0" * 24),
    Flood("layer of a snapshot", "/v1/snapshots/sn" + "0" * 24 + "/layer"),
    Flood("changes", "/v1/sandboxes/{sandbox}/changes"),
    Flood("layer", "/v1/sandboxes/{sandbox}/layer"),
    Flood("tenant", "/v1/tenant"),
    Flood("usage of the tenant", "/v1/usage"),
    Flood("asks", "/v1/asks?limit=1000"),
    Flood("ask", "/v1/asks/ak" + "0" * 24),
    Flood("presets", "/v1/presets"),
    Flood("credentials", "/v1/credentials"),
    Flood("egress", "/v1/sandboxes/{sandbox}/egress"),
    Flood("flows", "/v1/sandboxes/{sandbox}/egress/flows"),
    Flood("decisions", "/v1/sandboxes/{sandbox}/egress/log"),
    Flood("exports", "/v1/sandboxes/{sandbox}/exports"),
    Flood("execs", "/v1/sandboxes/{sandbox}/execs"),  # of those that PID 1 answers; each costs its own sandbox
]
UNREAD = [
    Flood("events", "/v1/events?limit=1000"),
    Flood("sandboxes", "/v1/sandboxes?limit=1000&group=fat", ci=True),
    Flood("mcp", "/mcp?group=alice", ci=True, daemons=("cay-mcp", "cay-edge-0"), body=MESSAGE),
]
FORMS = {"plain": (CONNECTIONS, 1, None), "four times": (4 * CONNECTIONS, 1, None), "quarter rate": (CONNECTIONS, 1, 0.25),
         "twenty keys": (CONNECTIONS, 20, None)}


def p99(samples):
    ordered = sorted(samples)
    return ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]


class Node(mcp.Workshop):
    def prepare(self):
        self.tenant = {name: self.call("POST", "/v1/tenants", {"name": name})["id"] for name in ("red", "blue")}
        self.keys = {"red": [self.new_key("write", self.tenant["red"]) for _ in range(20)],
                     "blue": [self.new_key("write", self.tenant["blue"])]}
        self.red, self.blue = (self.door(self.keys[who][0]) for who in ("red", "blue"))
        for _ in range(FAT):
            self.red.delete(self.red.create("tiny", labels=LABELS, group="fat"))
        self.sandbox = {"red": self.red.create("tiny"), "blue": self.blue.create("tiny")}
        agent = self.client(self.keys["red"][0], "?group=alice")
        agent.call("exec", command=f"{{ printf '\\x89PNG\\r\\n\\x1a\\n'; head -c {PICTURE} /dev/urandom; }} > /workspace/p.png")

    def request(self, flood, key):
        head = f"Host: localhost\r\nAuthorization: Bearer {key}\r\n"
        target = flood.target.format(sandbox=self.sandbox["red"])
        if not flood.body:
            return f"GET {target} HTTP/1.1\r\n{head}\r\n".encode()
        body = json.dumps(flood.body).encode()
        head += ("Accept: application/json\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2025-06-18\r\n"
                 f"Content-Length: {len(body)}\r\n")
        return f"POST {target} HTTP/1.1\r\n{head}\r\n".encode() + body

    def rss(self, name):
        text = pathlib.Path(f"/proc/{self.daemons[name].pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) * 1024


def prepared(kind):
    """For a fixture: a node of this class."""
    _, missing = lib.built(BUILD)
    if missing:
        pytest.skip(f"not built yet: {', '.join(missing)}")
    with kind(BUILD) as n:
        n.prepare()
        yield n


@pytest.fixture(scope="module")
def node():
    yield from prepared(Node)


class Client:
    """One connection of red: asks again as soon as it has the whole reply, or at its pace."""

    def __init__(self, port, request, pace_s):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.request, self.pace_s = request, pace_s
        self.ask()

    def ask(self):
        self.head, self.left, self.due = b"", None, None
        self.sock.sendall(self.request)

    def read(self):
        """The status of a reply that is complete, else None; OSError when there is no connection."""
        piece = self.sock.recv(1 << 18)
        if not piece:
            raise OSError
        if self.left is None:
            self.head += piece
            if b"\r\n\r\n" not in self.head:
                return None
            head, _, rest = self.head.partition(b"\r\n\r\n")
            self.head = head
            self.left = int(head.lower().split(b"content-length:")[1].split()[0]) - len(rest)
        else:
            self.left -= len(piece)
        return int(self.head[9:12]) if self.left <= 0 else None


def flood_forever(port, requests, pace_s, pipe):
    """The child: counts of replies by status, when the parent asks."""
    counts, clients = {}, selectors.DefaultSelector()
    for r in requests:
        c = Client(port, r, pace_s)
        clients.register(c.sock, selectors.EVENT_READ, c)
    pipe.send("flooding")
    waiting = []
    while not pipe.poll():
        for key, _ in clients.select(0.01):
            c = key.data
            try:
                status = c.read()
                if status:
                    counts[status] = counts.get(status, 0) + 1
                    if pace_s:
                        waiting.append((time.monotonic() + pace_s, c))
                    else:
                        c.ask()
            except OSError:
                counts["lost"] = counts.get("lost", 0) + 1
                clients.unregister(c.sock)
                with contextlib.suppress(OSError):
                    c = Client(port, c.request, pace_s)
                    clients.register(c.sock, selectors.EVENT_READ, c)
        now = time.monotonic()
        for due, c in [w for w in waiting if w[0] <= now]:
            with contextlib.suppress(OSError):
                c.ask()
        waiting = [w for w in waiting if w[0] > now]
    pipe.send(counts)


@contextlib.contextmanager
def flooding(node, flood, form, counts):
    connections, n_keys, rate = FORMS[form]
    requests = [node.request(flood, node.keys["red"][i % n_keys]) for i in range(connections)]
    ours, theirs = multiprocessing.Pipe()
    # an answer of the plain form takes some 50 ms, so this is a quarter of its rate
    child = multiprocessing.Process(target=flood_forever, args=(node.port, requests, 0.15 if rate else None, theirs))
    child.start()
    try:
        assert ours.poll(60) and ours.recv() == "flooding"
        lib.let_pass(0.5)
        yield
    finally:
        with contextlib.suppress(OSError):
            ours.send("stop")
            if ours.poll(60):
                counts.update(ours.recv())
        child.join(10)
        if child.is_alive():
            child.kill()
            child.join()


def blue_works(node):
    """Seconds of each create, and of each exec."""
    creates, execs = [], []
    for _ in range(SAMPLES):
        begun = time.monotonic()
        box = node.blue.create("tiny")
        creates.append(time.monotonic() - begun)
        node.blue.delete(box)
        for _ in range(2):
            begun = time.monotonic()
            assert node.blue.exec(node.sandbox["blue"], ["/bin/true"]).exit_code == 0
            execs.append(time.monotonic() - begun)
    return p99(creates), p99(execs)


@pytest.mark.alone
@pytest.mark.parametrize("form", list(FORMS) if FULL else ["plain"])
@pytest.mark.parametrize("flood", [f for f in FLOODS if FULL or f.ci], ids=lambda f: f.name)
def test_TEN_01_reads_of_one_tenant_do_not_delay_another(node, flood, form):
    for left in reversed(range(TRIES)):
        counts = {}
        quiet = blue_works(node)
        with flooding(node, flood, form, counts):
            beside = blue_works(node)
            most = max(node.rss(name) for name in flood.daemons)
        print(f"TEN-01|{flood.name}|{form}|create {1000 * quiet[0]:.1f} -> {1000 * beside[0]:.1f} ms, "
              f"exec {1000 * quiet[1]:.1f} -> {1000 * beside[1]:.1f} ms, {most // MIB} MiB, red {counts}")
        assert most < RSS_MAX, most
        assert sum(n for status, n in counts.items() if status != "lost") > 20, counts  # it was a flood
        if beside[0] <= CREATE_RATIO * max(quiet[0], LEAST_S) and beside[1] <= EXEC_RATIO * max(quiet[1], LEAST_S):
            return
        assert left, (quiet, beside, counts)


def test_every_read_of_control_is_a_row(node):
    """Those that PID 1 of a sandbox answers are below it; of them there is one."""
    here = ("", "/usage", "/egress", "/egress/flows", "/egress/log", "/exports", "/changes", "/layer")  # answered by control
    reads = [r.target().partition("?")[0] for r in routes.routes(node) if r.method == "GET" and r.scope == "read"]
    below = re.compile("/v1/sandboxes/sb0{23}1(.*)")
    wanted = [r for r in reads if not below.fullmatch(r) or below.fullmatch(r)[1] in here]
    rows = [f.target.format(sandbox="sb" + "0" * 23 + "1").partition("?")[0] for f in FLOODS]

    def shape(path):
        return re.sub("/(images|templates|snapshots|asks)/[^/]+", r"/\1/ID", path)

    assert {shape(r) for r in wanted} <= {shape(r) for r in rows}, sorted({shape(r) for r in wanted} - {shape(r) for r in rows})


def answer(head):
    """What a reply that begins so is: cay-mcp refuses a request when its tenant's budget is used up,
    and fails a call that uses it up while it reads the file."""
    length = re.search(rb"(?i)content-length: (\d+)", head)
    if head[9:12] == b"429":
        return "refused"
    return "failed" if length and int(length[1]) < PAGE else "whole"


@pytest.mark.parametrize("flood", [f for f in UNREAD if FULL or f.ci], ids=lambda f: f.name)
def test_TEN_02_replies_that_are_not_read_take_no_memory(node, flood):
    request, most, unread = node.request(flood, node.keys["red"][0]), dict.fromkeys(flood.daemons, 0), []
    before = {name: node.rss(name) for name in flood.daemons}
    with contextlib.ExitStack() as stack:
        for i in range(400 if FULL else 200):
            s = stack.enter_context(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(30)
            s.connect(("127.0.0.1", node.port))
            s.sendall(request)
            unread.append(s)
            lib.let_pass(0.01)
            if i % 10 == 9:
                most = {name: max(most[name], node.rss(name)) for name in most}
        lib.let_pass(2)
        most = {name: max(most[name], node.rss(name)) for name in most}
        begun = time.monotonic()
        node.blue.delete(node.blue.create("tiny"))
        took = time.monotonic() - begun
        answers = collections.Counter()
        for s in unread:
            with contextlib.suppress(OSError):
                answers[answer(s.recv(1024, socket.MSG_DONTWAIT))] += 1
    print(f"TEN-02|{flood.name}|{[(n, before[n] // MIB, most[n] // MIB) for n in most]} MiB, blue {took:.2f} s, {dict(answers)}")
    assert max(most.values()) < RSS_MAX, most
    if flood.body:  # more than the budget was asked for
        assert answers["refused"] + answers["failed"] > 0, answers
    lib.wait_for("memory to come back", lambda: all(node.rss(n) < before[n] * 1.1 + 8 * MIB for n in before), BACK_S)


def test_a_page_ends_below_256_kib(node):
    """Every row comes by following the cursor, and no page is longer."""
    rows, pages, target = [], 0, "/v1/sandboxes?limit=1000&group=fat"
    cursor = ""
    while True:
        status, body = raw(node, target + cursor)
        assert status == 200 and len(body) <= PAGE, (status, len(body))
        page = json.loads(body)
        rows += [s["id"] for s in page["sandboxes"]]
        pages += 1
        if "next_cursor" not in page:
            break
        cursor = "&cursor=" + page["next_cursor"]
    assert len(rows) == len(set(rows)) == FAT and pages > 2, (len(rows), pages)
    after, seen = 0, []
    while True:
        status, body = raw(node, f"/v1/events?limit=1000&after={after}")
        assert status == 200 and len(body) <= PAGE, (status, len(body))
        page = json.loads(body)
        seen += [e["seq"] for e in page["events"]]
        if not page["events"]:
            break
        after = page["next"]
    assert len(seen) == len(set(seen)) and seen == sorted(seen) and len(seen) > 2 * FAT


def raw(node, target):
    with node.red.open("GET", target) as r:
        return r.status, r.read()
