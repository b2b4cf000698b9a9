# SPDX-License-Identifier: Apache-2.0
"""inside - programs of the test's that listen in a sandbox's network namespace

What a sandbox runs is a shell at the most; a server that lies well is easier written here.
To who connects it is one of the sandbox's.
"""
import subprocess
import sys

# What every server below begins with: `serve` calls `answer(connection, head)` in a thread each.
COMMON = r'''
import base64, hashlib, socket, sys, threading, time

def head_of(c):
    text = b""
    while b"\r\n\r\n" not in text:
        piece = c.recv(65536)
        if not piece:
            return None, b""
        text += piece
    head, _, rest = text.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest

def serve(port, answer, family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))
    s.listen(512)
    def one(c):
        try:
            head, rest = head_of(c)
            if head is not None:
                answer(c, head, rest)
        except OSError:
            pass
        finally:
            c.close()
    def loop():
        while True:
            c, _ = s.accept()
            threading.Thread(target=one, args=(c,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()

def doze(seconds):
    """As a slow server."""
    threading.Event().wait(seconds)

def reply(c, body, status="200 OK", more=""):
    c.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)

def field(head, name):
    for line in head.split("\r\n")[1:]:
        k, _, v = line.partition(":")
        if k.lower() == name:
            return v.strip()
    return None

def websocket(c, head):
    key = base64.b64encode(hashlib.sha1((field(head, "sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
    c.sendall(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + key + b"\r\n\r\n")
    while True:
        h = c.recv(2, socket.MSG_WAITALL)
        if len(h) < 2 or h[0] & 15 == 8:
            return
        n = h[1] & 127
        if n == 126:
            n = int.from_bytes(c.recv(2, socket.MSG_WAITALL), "big")
        mask = c.recv(4, socket.MSG_WAITALL)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(c.recv(n, socket.MSG_WAITALL) if n else b""))
        c.sendall(bytes([h[0]]) + (bytes([n]) if n < 126 else b"\x7e" + n.to_bytes(2, "big")) + data)
'''


class Server:
    """A Python program in the sandbox's network; it says "ready" when it listens."""

    def __init__(self, node, box, program):
        pid = node.pid_1(box)
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-u", "-c",
             COMMON + program + "\nprint('ready')\nfor line in sys.stdin: pass\n"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", "the server did not start"

    def line(self):
        return self.process.stdout.readline()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def rss(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
    return 0
