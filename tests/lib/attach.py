# SPDX-License-Identifier: Apache-2.0
"""attach - a WebSocket by hand, and the frames that travel in it"""
import base64
import hashlib
import json
import os
import socket
import struct

DATA, GAP, END, ERROR, TAKEN, EOF, SIZE, ROLE = range(1, 9)
STDIN, STDOUT, STDERR = 0, 1, 2
PROTOCOL = "cay.frames.v1"
FRAME_MAX = 65536
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(kind, stream, offset, content=b"", length=None):
    return struct.pack("<BBHIQ", kind, stream, 0, len(content) if length is None else length, offset) + content


def parse(message):
    kind, stream, zero, length, offset = struct.unpack("<BBHIQ", message[:16])
    assert zero == 0 and length == len(message) - 16, message[:16]
    return kind, stream, offset, message[16:]


def xor(data, key):
    n = len(data)
    if not n:
        return b""
    pad = (key * (n // 4 + 1))[:n]
    return (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(n, "big")


class Closed(Exception):
    """The other side said Close, or just left (code 1006)."""
    def __init__(self, code, reason=""):
        super().__init__(code, reason)
        self.code, self.reason = code, reason


class Refused(Exception):
    def __init__(self, status, headers, body):
        super().__init__(status, body)
        self.status, self.headers = status, headers
        self.code = json.loads(body)["error"]["code"] if body else None


class WebSocket:
    def __init__(self, port, target, credential="", protocols=(PROTOCOL,), headers=(), rcvbuf=0, timeout_s=20.0):
        self.sock = socket.socket()
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(timeout_s)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16))
        said = {"Host": "localhost", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": key.decode()}
        if credential:
            said["Authorization"] = "Bearer " + credential
        if protocols:
            said["Sec-WebSocket-Protocol"] = ", ".join(protocols)
        said.update(headers)
        self.sock.sendall((f"GET {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in said.items() if v) + "\r\n").encode())
        self.rest = b""
        self.head = self._until(b"\r\n\r\n").decode()
        self.headers = dict(l.lower().split(": ", 1) for l in self.head.split("\r\n")[1:] if l)
        self.status = int(self.head.split(" ", 2)[1])
        if self.status != 101:
            body = self._exactly(int(self.headers.get("content-length", 0)))
            self.sock.close()
            raise Refused(self.status, self.headers, body)
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        assert f"Sec-WebSocket-Accept: {accept}" in self.head

    def _more(self):
        try:
            data = self.sock.recv(1 << 18)
        except (ConnectionError, BrokenPipeError):
            data = b""
        if not data:
            raise Closed(1006)
        self.rest += data

    def _until(self, mark):
        while mark not in self.rest:
            self._more()
        got, _, self.rest = self.rest.partition(mark)
        return got

    def _exactly(self, n):
        while len(self.rest) < n:
            self._more()
        got, self.rest = self.rest[:n], self.rest[n:]
        return got

    def send(self, payload, opcode=2, masked=True, fin=True):
        key = os.urandom(4)
        n = len(payload)
        bit = 0x80 if masked else 0
        size = bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n) if n < 65536 else \
            bytes([bit | 127]) + struct.pack(">Q", n)
        self.sock.sendall(bytes([opcode | (0x80 if fin else 0)]) + size + (key + xor(payload, key) if masked else payload))

    def recv(self):
        """(opcode, payload); a Close is answered and raised."""
        first, size = self._exactly(2)
        assert first & 0x70 == 0 and first & 0x80 and not size & 0x80, "whole and without a mask"
        n = size if size < 126 else struct.unpack(">H", self._exactly(2))[0] if size == 126 else struct.unpack(">Q", self._exactly(8))[0]
        payload, opcode = self._exactly(n), first & 15
        if opcode != 8:
            return opcode, payload
        try:
            self.send(payload, 8)
        except OSError:
            pass
        self.sock.close()
        raise Closed(struct.unpack(">H", payload[:2])[0] if payload else 1005, payload[2:].decode())

    def close(self, code=1000):
        """In good order; the code that comes back."""
        self.send(struct.pack(">H", code), 8)
        try:
            while True:
                self.recv()
        except Closed as e:
            return e.code

    def cut(self):
        """Gone, without a word, and whatever was on its way with it."""
        if self.sock.fileno() >= 0:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Attached(WebSocket):
    """A command's WebSocket.  out[] is what came, by stream, and where it goes on."""
    def __init__(self, port, box, name, credential="", offsets=(0, 0), acks=False, **more):
        query = f"?stdout_offset={offsets[0]}&stderr_offset={offsets[1]}" + ("&acks=true" if acks else "")
        super().__init__(port, f"/v1/sandboxes/{box}/execs/{name}/attach{query}", credential, **more)
        self.acks = acks
        self.next = {STDOUT: offsets[0], STDERR: offsets[1]}
        self.out = {STDOUT: bytearray(), STDERR: bytearray()}
        self.stdin = None  # how much was taken
        self.eof = False
        self.end = self.error = None

    def frame(self):
        opcode, message = self.recv()
        assert opcode == 2, opcode
        kind, stream, offset, content = parse(message)
        assert self.end is None and self.error is None, "nothing follows the last frame"
        if kind == DATA:
            assert offset == self.next[stream], "neither a hole nor twice"
            self.out[stream] += content
            self.next[stream] += len(content)
            if self.acks:
                self.send(frame(TAKEN, stream, self.next[stream]))
        elif kind == GAP:
            raise AssertionError(f"{struct.unpack('<Q', content)[0]} bytes are lost at {offset}")
        elif kind in (TAKEN, EOF):
            assert stream == STDIN and offset >= (self.stdin or 0)
            self.stdin, self.eof = offset, kind == EOF
        elif kind == END:
            self.end = json.loads(content)
        elif kind == ERROR:
            self.error = json.loads(content)["error"]
        return kind, stream, offset, content

    def to_the_end(self):
        """The code it was closed with."""
        try:
            while True:
                self.frame()
        except Closed as e:
            return e.code

    def until(self, kind):
        while True:
            got = self.frame()
            if got[0] == kind:
                return got

    def write(self, data, at):
        for i in range(0, len(data), FRAME_MAX):
            self.send(frame(DATA, STDIN, at + i, data[i:i + FRAME_MAX]))
