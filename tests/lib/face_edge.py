# SPDX-License-Identifier: Apache-2.0
"""face_edge - an edge that says what a test wants, to a program that speaks another protocol for edges

No node and no sandbox: the face runs, and what a sandbox or control would reply is a function of the test.  So a reply can come
at any moment, be of any size, and never.
"""
import collections
import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import threading
import time

import cay

TENANTS = {"red": "tn" + "0" * 23 + "1", "blue": "tn" + "0" * 23 + "2"}
SANDBOX = "sb" + "0" * 24
INFO = {"home": "/workspace", "workspace": "/workspace", "user": "user", "uid": 1000}


class Call:
    """A request of the face to the edge."""

    def __init__(self, conn, method, target, headers, early):
        self.conn, self.method, self.target, self.headers, self.early = conn, method, target, headers, early
        self.path = target.partition("?")[0]

    def take(self, n):
        """So many bytes, or fewer when the face leaves."""
        while len(self.early) < n:
            piece = self.conn.recv(1 << 16)
            if not piece:
                break
            self.early += piece
        got, self.early = self.early[:n], self.early[n:]
        return got

    def body(self):
        if "content-length" in self.headers:
            return self.take(int(self.headers["content-length"]))
        whole = b""
        while "transfer-encoding" in self.headers:
            head = b""
            while not head.endswith(b"\r\n"):
                one = self.take(1)
                if not one:
                    return whole
                head += one
            n = int(head, 16)
            piece = self.take(n + 2)[:-2]
            whole += piece
            if not n:
                break
        return whole

    def send(self, data):
        with contextlib.suppress(OSError):
            self.conn.sendall(data)

    def reply(self, status, value):
        text = json.dumps(value).encode()
        self.send(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)

    def fail(self, status, code):
        self.reply(status, {"error": {"code": code, "message": "as the test wants"}})

    def begin_frames(self, headers=""):
        self.send(f"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.cay.frames\r\n{headers}Transfer-Encoding: chunked\r\n\r\n".encode())

    def frame(self, kind, stream, data, offset=0):
        f = bytes((kind, stream, 0, 0)) + len(data).to_bytes(4, "little") + offset.to_bytes(8, "little") + data
        self.send(f"{len(f):x}\r\n".encode() + f + b"\r\n")

    def end_frames(self, end):
        self.frame(3, 0, json.dumps(end).encode())
        self.send(b"0\r\n\r\n")

    def is_open(self):
        """Whether the face still waits for more of the reply."""
        try:
            return self.conn.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False


class FaceEdge:
    """on: (method, end of the path) to a function of a Call; `calls` are those that came, in order."""

    def __init__(self, build, face, uid):
        self.face, self.uid = face, uid
        self.program = pathlib.Path(build).resolve() / "src" / face / f"cay-{face}"
        self.dir = pathlib.Path(f"/run/cay-test-{face}-{secrets.token_hex(4)}")
        self.calls, self.on, self.lock = [], {}, threading.Lock()

    def __enter__(self):
        self.dir.mkdir()
        os.chown(self.dir, self.uid, self.uid)
        self.dir.chmod(0o770)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.dir / "edge-0.sock"))
        os.chown(self.dir / "edge-0.sock", self.uid, self.uid)
        self.listener.listen(512)
        threading.Thread(target=self.accept, daemon=True).start()
        self.log = open(f"/tmp/{self.dir.name}.log", "wb")
        self.process = subprocess.Popen([self.program], env={f"CAY_{self.face.upper()}_RUN": str(self.dir)}, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, user=self.uid, group=self.uid, extra_groups=[], cwd="/")
        until = time.monotonic() + 30
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < until, pathlib.Path(self.log.name).read_text()
            cay.let_pass(0.01)
        self.reset()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.listener.close()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def reset(self):
        self.calls.clear()
        self.on = {("GET", "/info"): lambda c: c.reply(200, INFO), ("GET", SANDBOX): lambda c: c.reply(200, {"id": SANDBOX, "state": "running"})}

    def lives(self):
        return self.process.poll() is None

    def rss(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/status").read_text().split("VmRSS:")[1].split()[0]) * 1024

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        data = b""
        with conn, contextlib.suppress(OSError):
            while True:
                while b"\r\n\r\n" not in data:
                    piece = conn.recv(1 << 16)
                    if not piece:
                        return
                    data += piece
                head, _, data = data.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                method, target, _ = first.split()
                call = Call(conn, method, target, {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}, data)
                with self.lock:
                    self.calls.append(call)
                    found = [f for (m, end), f in self.on.items() if m == method and call.path.endswith(end)]
                if not found:
                    call.body()
                    call.fail(404, "not_found")
                elif found[-1](call) == "close":
                    return
                data = call.early

    def answers(self):
        try:
            return self.ask("GET", "/e2b/nothing")[0] == 404
        except OSError:
            return False

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30)
        s.connect(str(self.dir / f"{self.face}.sock"))
        return s

    def head(self, method, path, headers=None, tenant="red", group=None):
        """What an edge writes for a request of that tenant."""
        actor = f"{TENANTS[tenant]} write - -" + (f" {group}" if group else "")
        more = {"Host": "localhost", "Cay-Actor": actor, "Cay-Back": "0", "Cay-Host": "localhost", "Authorization": "Bearer x", **(headers or {})}
        return (f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in more.items()) + "\r\n").encode()

    def start(self, method, path, body=b"", headers=None, **who):
        """A request whose reply is not read: its socket."""
        s = self.connect()
        s.sendall(self.head(method, path, {"Content-Length": str(len(body)), **(headers or {})}, **who) + body)
        return s

    def ask(self, method, path, body=b"", headers=None, **who):
        """Status and body."""
        with self.start(method, path, body, headers, **who) as s:
            return finish(s)


def finish(s):
    """The reply on a socket: its status, and its body without chunks."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = s.recv(1 << 16)
        if not piece:
            raise ConnectionError("no reply")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    status = int(head.split()[1])
    if length:
        while len(rest) < int(length[1]):
            piece = s.recv(1 << 20)
            if not piece:
                raise ConnectionError("the reply is cut off")
            rest += piece
        return status, rest
    if b"chunked" not in head.lower():
        return status, b""
    pieces = collections.deque([rest])
    while not b"".join(list(pieces)[-2:]).endswith(b"0\r\n\r\n"):
        piece = s.recv(1 << 20)
        if not piece:
            raise ConnectionError("the stream is cut off")
        pieces.append(piece)
    rest, whole = b"".join(pieces), []
    at = 0
    while True:
        end = rest.index(b"\r\n", at)
        n = int(rest[at:end], 16)
        if not n:
            return status, b"".join(whole)
        whole.append(rest[end + 2:end + 2 + n])
        at = end + 2 + n + 2
