# SPDX-License-Identifier: Apache-2.0
"""FS-07: many who change the same few files, leave in the middle, or go with the whole sandbox."""
import contextlib
import hashlib
import http.client
import io
import json
import os
import random
import re
import socket
import tarfile
import threading

import cay
import loopfs
from client import Connection
from conftest import FULL, Init, wait_for
from test_files import AT, place, q, workers  # noqa: F401

SEED = int(os.environ.get("CAY_SEED", "7"))
ROUNDS = 1000 if FULL else 60
DESTROYED = 10  # every so manieth ends with PID 1
PIECE = 65536
WHOLE, LOGS = ("a", "b", "c", "l"), ("log", "log2")
HEAD = re.compile(rb"\[(\d+) (\d+) x=(\d+)\]")


def body_of(ident, size):
    unit = b"%d." % ident
    return (unit * (size // len(unit) + 1))[:size]


def record(ident, size, n=0):
    """A version that tells what it is; an edit changes both of its n."""
    return b"[%d %d x=%d]" % (ident, size, n) + body_of(ident, size) + b"[end %d y=%d]\n" % (ident, n)


def records(content):
    """What a file is made of, as (ident, size, n); None when a part of it is missing or from somewhere else."""
    found, at = [], 0
    while at < len(content):
        head = HEAD.match(content, at)
        if not head:
            return None
        ident, size, n = map(int, head.groups())
        want = record(ident, size, n)
        if content[at:at + len(want)] != want:
            return None
        found.append((ident, size, n))
        at += len(want)
    return found


def tar_of(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, content in members:
            i = tarfile.TarInfo(name)
            i.size = len(content)
            t.addfile(i, io.BytesIO(content))
    return out.getvalue()


class Storm:
    """What was offered so far, and what may never be seen."""

    def __init__(self, place):
        self.place, self.lock = place, threading.Lock()
        self.next, self.offered, self.refused, self.bad = 0, {}, set(), []

    def version(self, rng, most=4 * PIECE):
        edge = rng.randrange(5) * PIECE + rng.choice((-1, 0, 1))
        size = min(most, max(0, rng.choice((0, 100, edge, rng.randrange(4 * PIECE)))))
        with self.lock:
            self.next += 1
            self.offered[self.next] = size
            return self.next, record(self.next, size)

    def check(self, name, content):
        """One of the versions that were offered, and all of it."""
        found = records(content)
        if found is None or (name in WHOLE and len(found) != 1):
            self.bad.append((name, len(content), content[:80], content[-80:]))
            return
        for ident, size, _ in found:
            if self.offered.get(ident) != size or ident in self.refused:
                self.bad.append((name, ident, "was never to be"))

    def look(self, names=WHOLE):
        for name in names:
            try:
                self.check(name, (self.place / name).read_bytes())
            except (FileNotFoundError, NotADirectoryError):
                pass


class Actor(threading.Thread):
    """Some requests, one after the other, as a seed has it; `single`: those that even a SIGKILL leaves whole, of one file each."""

    def __init__(self, storm, path, seed, single):
        super().__init__()
        self.storm, self.path, self.rng = storm, path, random.Random(seed)
        self.doing = [self.write] * 3 + [self.edit, self.edit, self.copy, self.move, self.delete]
        self.doing += [] if single else [self.append, self.link, self.tree]

    def run(self):
        for _ in range(self.rng.randint(1, 3)):
            what = self.rng.choice(self.doing)
            try:
                what()
            except (OSError, http.client.HTTPException):
                pass  # PID 1 went, or answered before it had all
            except Exception as e:  # told in the test's own thread
                self.storm.bad.append((what.__name__, repr(e)))

    def at(self, name):
        return str(self.storm.place / name)

    def leave(self, method, target, body, media):
        """As much as comes to mind, and away."""
        edge = self.rng.randrange(5) * PIECE + self.rng.choice((-1, 0, 1))
        cut = self.rng.choice((len(body), len(body), edge, self.rng.randrange(len(body) + 1)))
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(self.path)
            s.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:max(0, cut)])
            cay.let_pass(self.rng.choice((0, 0, 0.0003, 0.001, 0.003)))

    def send(self, method, target, body, media="application/json", stays=None):
        """The answer, or None of who left."""
        if not (self.rng.random() < 0.6 if stays is None else stays):
            self.leave(method, target, body, media)
            return None
        c = Connection(self.path, 30)
        c.request(method, target, body=body, headers={"Content-Type": media})
        r = c.getresponse()
        text = r.read()
        c.close()
        if r.status >= 500:
            self.storm.bad.append((target, r.status, text))
        return r.status, json.loads(text) if text else {}

    def post(self, verb, **fields):
        return self.send("POST", f"{AT}/{verb}", json.dumps(fields).encode())

    def write(self):
        ident, content = self.storm.version(self.rng)
        name, more = self.rng.choice(WHOLE), {}
        how = self.rng.choice(("any", "any", "new", "promised", "damaged", "looked"))
        if how == "new":
            more["create_only"] = "true"
        elif how == "promised":
            more["sha256"] = hashlib.sha256(content).hexdigest()
        elif how == "damaged":
            more["sha256"] = hashlib.sha256(b"something else").hexdigest()
            self.storm.refused.add(ident)
        elif how == "looked":
            try:
                more["if_sha256"] = hashlib.sha256((self.storm.place / name).read_bytes()).hexdigest()
            except FileNotFoundError:
                pass
        got = self.send("PUT", AT + "/content" + q(self.at(name), **more), content, "application/octet-stream")
        if got and got[0] == 200 and (how == "damaged" or got[1]["sha256"] != hashlib.sha256(content).hexdigest()):
            self.storm.bad.append((name, got))

    def append(self):
        _, content = self.storm.version(self.rng)
        self.send("PUT", AT + "/content" + q(self.at(self.rng.choice(LOGS)), append="true"), content, "application/octet-stream")

    def edit(self):
        """Both places or none."""
        name = self.rng.choice(WHOLE[:3] + LOGS)
        try:
            found = records((self.storm.place / name).read_bytes())
        except FileNotFoundError:
            return
        if not found:
            return
        ident, size, n = self.rng.choice(found)
        m = self.rng.randrange(1000)
        self.post("edit", path=self.at(name), edits=[{"old": f"[{ident} {size} x={n}]", "new": f"[{ident} {size} x={m}]"},
                                                     {"old": f"[end {ident} y={n}]", "new": f"[end {ident} y={m}]"}])

    def copy(self):
        self.post("copy", path=self.at(self.rng.choice(WHOLE[:3])), to=self.at(self.rng.choice(WHOLE[:3])), overwrite=True)

    def move(self):
        names = self.rng.choice((WHOLE[:3], WHOLE[:3], LOGS))
        self.post("move", path=self.at(self.rng.choice(names)), to=self.at(self.rng.choice(names)), overwrite=self.rng.random() < 0.7)

    def delete(self):
        self.post("delete", path=self.at(self.rng.choice(WHOLE + LOGS + ("d",))), recursive=True, missing_ok=True)

    def link(self):
        self.post("symlink", path=self.at("l"), target=self.rng.choice("ab"), overwrite=True)

    def tree(self):
        members = [(self.rng.choice(WHOLE), self.storm.version(self.rng)[1]), ("d/x", self.storm.version(self.rng, 1000)[1]),
                   (self.rng.choice(WHOLE), self.storm.version(self.rng)[1])]
        self.send("PUT", AT + "/tree" + q(self.storm.place), tar_of(members), "application/x-tar")


def fds(init):
    """What PID 1 has open; a ring is the loop's own affair, and not every loop has one."""
    found, at = [], f"/proc/{init.pid}/fd"
    for fd in os.listdir(at):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"{at}/{fd}"))
    return sorted(name for name in found if "io_uring" not in name)


def weather(storm, path, seed, single, end):
    """One interleaving; somebody reads all the time."""
    actors = [Actor(storm, path, f"{seed} {i}", single) for i in range(random.Random(seed).randint(3, 7))]
    over = threading.Event()

    def reads():
        while not over.is_set():
            try:
                storm.look(WHOLE[:3])
            except Exception as e:  # told in the test's own thread
                storm.bad.append(("look", repr(e)))
            over.wait(0.001)

    reader = threading.Thread(target=reads)
    for t in [reader, *actors]:
        t.start()
    if end:
        over.wait(random.Random(seed).random() * 0.02)
        end()
    for t in actors:
        t.join()
    over.set()
    reader.join()


def settle(storm, init, before):
    """Nothing is left but files that are whole."""
    # who left was heard before who asks now
    assert init.client.ask("GET", "/v1/hello").status == 200
    wait_for(lambda: not workers(init), what="no child")
    wait_for(lambda: len(fds(init)) <= before, what=lambda: f"{before} fds of PID 1, not {fds(init)}")
    left = set(os.listdir(storm.place)) - set(WHOLE + LOGS + ("d",))
    storm.look(WHOLE + LOGS + ("d/x",))
    if (storm.place / "d").is_dir():
        left |= set(os.listdir(storm.place / "d")) - {"x"}
    assert not left and not storm.bad, (left, storm.bad)


def test_nothing_half_whoever_comes_and_goes(place):
    """Every tenth time the sandbox is destroyed in the middle, and its files are looked at all the same."""
    storm, init, between = Storm(place), Init(), 0
    (place / "a").write_bytes(storm.version(random.Random(SEED))[1])
    warm = Actor(storm, init.client.path, SEED, False)
    for what in dict.fromkeys(warm.doing):
        what()
    assert init.client.ask("GET", "/v1/hello").status == 200
    wait_for(lambda: not workers(init), what="no child")
    before = len(fds(init))
    try:
        for turn in range(ROUNDS):
            seed, destroyed = SEED * 1_000_003 + turn, turn % DESTROYED == DESTROYED - 1
            weather(storm, init.client.path, seed, destroyed, init.stop if destroyed else None)
            if destroyed:
                init = Init()
                # SIGKILL between the two steps of a replacement: all of a new version is there, under no name of its own
                for name in set(os.listdir(place)) - set(WHOLE + LOGS + ("d",)):
                    assert name.startswith(".cay-"), name
                    storm.check("a", (place / name).read_bytes())
                    (place / name).unlink()
                    between += 1
            try:
                settle(storm, init, before)
            except AssertionError as e:
                raise AssertionError(f"CAY_SEED={SEED}, turn {turn}: {e}") from e
    finally:
        init.stop()
    print(f"\n# {ROUNDS} interleavings, {storm.next} versions; {between} times destroyed between link and rename")


def test_of_two_edits_none_is_made_by_half(init, place):
    """Each changes many places of one file; who reads sees all of one or none, and none is lost."""
    f, lines, turns, bad, over = place / "f", 50, 20, [], threading.Event()
    f.write_text("".join(f"line {i}: a0 b0\n" for i in range(lines)))
    f.chmod(0o666)

    def look():
        while not over.is_set():
            text = f.read_text()
            for who in "ab":
                if len({m for m in re.findall(who + r"(\d+)", text)}) != 1:
                    bad.append(text)

    def edits(who):
        for n in range(turns):
            steps = [{"kind": "replace_all", "old": f"{who}{n}", "new": f"{who}{n + 1}"}]
            r = init.client.ask("POST", AT + "/edit", {"path": str(f), "edits": steps})
            if r.status != 200 or r.json()["changes"] != lines:
                bad.append(r.body)

    threads = [threading.Thread(target=edits, args=(who,)) for who in "ab"]
    reader = threading.Thread(target=look)
    for t in [reader, *threads]:
        t.start()
    for t in threads:
        t.join()
    over.set()
    reader.join()
    assert not bad, bad[0]
    assert f.read_text() == "".join(f"line {i}: a{turns} b{turns}\n" for i in range(lines))
    assert os.listdir(place) == ["f"]


def test_a_copy_that_is_given_up_is_taken_away(place):
    """On a disk that writes every change of a directory at once: it takes longer than the moment that is left without a client.
    And what comes behind it is not done any more."""
    (place / "many").mkdir()
    for i in range(30_000):
        os.mknod(place / f"many/{i}")
    kind = next(k for k in ("xfs", "ext4") if k in loopfs.here(quotas=False))
    with loopfs.mounted(kind, 512 << 20, quotas=False, more=",dirsync") as slow:
        init = Init()

        def hidden():
            return {n for n in os.listdir(slow) if n.startswith(".cay-")}

        def left_by_one():
            before = hidden()
            c = Connection(init.client.path, 30)
            steps = [{"do": "copy", "path": f"{place}/many", "to": f"{slow}/copy", "recursive": True}, {"do": "mkdir", "path": f"{slow}/behind"}]
            c.request("POST", AT + "/batch", json.dumps({"steps": steps, "keep_going": True}).encode(), {"Content-Type": "application/json"})
            wait_for(lambda: hidden() - before, what="the hidden name")
            (made,) = hidden() - before
            for _ in range(16):  # four seconds, or two thirds of it where that comes first
                cay.let_pass(0.25)
                if len(os.listdir(slow / made)) > 20_000:
                    break
            c.close()
            wait_for(lambda: not workers(init), 120, "no child")
            assert not os.path.exists(f"{slow}/copy") and not os.path.exists(f"{slow}/behind")
            return hidden() - before

        try:
            # who does not get on for a second is killed, and a disk may stand still for one: not every time
            assert not all(left_by_one() for _ in range(3))
        finally:
            init.stop()
