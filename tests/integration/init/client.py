# SPDX-License-Identifier: Apache-2.0
"""client - cay-init as its host sees it: HTTP/1.1 on a unix socket, a connection per request"""
import http.client
import json
import socket
import struct

SANDBOX = "/v1/sandboxes/sb" + "0" * 3 + "1" + "000g" + "0" * 14 + "tr"
FRAMES = "application/vnd.cay.frames"
SSE = "text/event-stream"
DATA, GAP, END, ERROR = 1, 2, 3, 4


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("sandbox", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def error(self):
        e = self.json()["error"]
        return self.status, e["code"], e.get("field")


class Client:
    def __init__(self, path, timeout=60):
        self.path, self.timeout = path, timeout

    def open(self, method, target, body=None, headers=None):
        """Send a request; the response is not read."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, bytearray)) and not hasattr(body, "__next__"):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        c = Connection(self.path, self.timeout)
        c.request(method, target, body=body, headers=headers, encode_chunked=hasattr(body, "__next__"))
        return c.getresponse()

    def ask(self, method, target, body=None, headers=None):
        r = self.open(method, target, body, headers)
        with r:
            return Reply(r.status, r.headers, r.read())

    def run(self, *argv, headers=None, **fields):
        if argv:
            fields["argv"] = list(argv)
        return self.ask("POST", SANDBOX + "/execs", fields, headers)

    def sh(self, line, **fields):
        return self.run(shell=line, **fields)

    def detach(self, *argv, **fields):
        r = self.run(*argv, detach=True, **fields)
        assert r.status == 200, r.body
        return r.json()["id"]

    def stream(self, *argv, form=FRAMES, **fields):
        """Run streamed: (exec id, response)."""
        if argv:
            fields["argv"] = list(argv)
        r = self.open("POST", SANDBOX + "/execs", fields, {"Accept": form})
        assert r.status == 200, r.read()
        return r.headers["Cay-Exec"], r

    def exec(self, ident, what="", method="GET", body=None, headers=None):
        return self.ask(method, f"{SANDBOX}/execs/{ident}{what}", body, headers)

    def output(self, ident, headers=None, **query):
        q = "&".join(f"{k}={v}" for k, v in query.items())
        return self.open("GET", f"{SANDBOX}/execs/{ident}/output?{q}", headers=headers)


def exactly(r, n):
    parts = []
    while n:
        b = r.read(n)
        if not b:
            break
        parts.append(b)
        n -= len(b)
    return b"".join(parts)


def frames(r):
    """(type, stream, offset, content) until the response ends."""
    while True:
        head = exactly(r, 16)
        if not head:
            return
        kind, stream, zero, length, offset = struct.unpack("<BBHIQ", head)
        assert zero == 0
        content = exactly(r, length)
        assert len(content) == length
        yield kind, stream, offset, content


def events(r):
    """(event, data) of a text/event-stream."""
    for block in r.read().decode().split("\n\n"):
        if block:
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            yield lines.get("event", "data"), json.loads(lines["data"])
