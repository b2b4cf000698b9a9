#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/files.py BUILD [GROUP...] - large files into a sandbox and out of it, through an edge

Against a pipeline that hashes and writes the same bytes on this machine, in turns; the
median of the rounds.  CAY_FULL=1: 1 GiB.

    upload_1g     file.write with the hash checked, a TCP connection to the edge
    download_1g   file.read, into the same pipeline at the client's end
"""
import hashlib
import http.client
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from world import World  # noqa: E402

FULL = os.environ.get("CAY_FULL") == "1"
SIZE, ROUNDS = ((1 << 30), 5) if FULL else ((64 << 20), 3)
PIECE = 1 << 20


def say(**row):
    print(json.dumps(row), flush=True)


def high_kib(pid):
    """The most it ever had."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def pipeline(to):
    return subprocess.Popen(["sh", "-c", 'tee "$0" | sha256sum', to], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def rate(begin):
    return SIZE / (time.monotonic() - begin) / 1e6


class Bench:
    def __init__(self, world, work):
        self.world, self.door = world, world.door()
        self.box = self.door.create("tiny")
        self.source, self.to = work / "source", str(world.state / "bench-copy")
        block = os.urandom(PIECE)
        with self.source.open("wb") as f:
            for i in range(SIZE // PIECE):
                f.write(i.to_bytes(8, "little") + block[8:])
        self.hash = hashlib.file_digest(self.source.open("rb"), "sha256").hexdigest()
        self.pids = {"edge": world.pids()["cay-edge-0"], "cay-init": world.pid_1(self.box)}
        self.before = {k: high_kib(p) for k, p in self.pids.items()}

    def ended(self, pipe):
        pipe.stdin.close()
        assert pipe.stdout.read().split()[0].decode() == self.hash and pipe.wait() == 0
        os.unlink(self.to)

    def bare(self):
        begin = time.monotonic()
        pipe = pipeline(self.to)
        with self.source.open("rb") as f:
            while os.sendfile(pipe.stdin.fileno(), f.fileno(), None, PIECE):
                pass
        self.ended(pipe)
        return rate(begin)

    def ask(self, method, query, length=None):
        s = socket.create_connection(("127.0.0.1", self.world.port), 60)
        s.sendall((f"{method} /v1/sandboxes/{self.box}/files/content?path=/tmp/big{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                   f"Authorization: Bearer {self.door.credential}\r\nConnection: close\r\n"
                   + (f"Content-Length: {length}\r\n" if length else "") + "\r\n").encode())
        return s

    def upload(self):
        begin = time.monotonic()
        with self.ask("PUT", "&sha256=" + self.hash, SIZE) as s:
            with self.source.open("rb") as f:
                s.sendfile(f)
            r = http.client.HTTPResponse(s)
            r.begin()
            assert r.status == 200 and json.loads(r.read())["sha256"] == self.hash
        return rate(begin)

    def download(self):
        begin, piece = time.monotonic(), bytearray(PIECE)
        with self.ask("GET", "") as s:
            r = http.client.HTTPResponse(s)
            r.begin()
            assert r.status == 200
            pipe = pipeline(self.to)
            while n := r.readinto(piece):
                pipe.stdin.write(memoryview(piece)[:n])
            self.ended(pipe)
        return rate(begin)

    def row(self, name, way):
        ours, bare = [], []
        self.upload()
        for _ in range(ROUNDS):
            bare.append(self.bare())
            ours.append(way())
        grown = {k: high_kib(p) - self.before[k] for k, p in self.pids.items()}
        say(name=name, unit="MB/s", n=ROUNDS, value=round(statistics.median(ours), 1),
            baseline={"name": "tee and sha256sum", "value": round(statistics.median(bare), 1)},
            note=f"{SIZE >> 20} MiB; edge +{grown['edge']} KiB, cay-init +{grown['cay-init']} KiB at the most; goal ratio 0.7, +4096 KiB each")
        if max(grown.values()) > 4096:
            raise RuntimeError(f"memory grows with the file: {grown}")


GROUPS = {"upload_1g": Bench.upload, "download_1g": Bench.download}

if __name__ == "__main__":
    build, names = sys.argv[1], sys.argv[2:] or list(GROUPS)
    with World(build) as w, tempfile.TemporaryDirectory(dir="/dev/shm") as d:
        b = Bench(w, pathlib.Path(d))
        for group in names:
            b.row(group, GROUPS[group].__get__(b))
        b.door.call("DELETE", f"/v1/sandboxes/{b.box}")
