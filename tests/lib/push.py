# SPDX-License-Identifier: Apache-2.0
"""push - an edge as control sees it: records of wire/push.h on a unix stream"""
import hashlib
import socket
import struct
import time

SIZE, ABI = 80, 9
NONE, HELLO, ALL, SANDBOX, KEY, NO_KEY, SIGN, END, TICK, BUSY, USED, REFUSED, COUNT, REVOKED, GROUP, EXPORTS = range(16)
STATES = ("pending", "running", "paused", "suspended", "stopping", "stopped", "starting", "ending", "terminated", "failed", "dozing")
NOUNS = (None, "sb", "ex", "tn", "ky", "im", "tp", "sn", "vo", "nd", "ev")
DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def id_text(raw):
    bits = int.from_bytes(raw[1:], "big")
    return NOUNS[raw[0]] + "".join(DIGITS[bits >> 5 * i & 31] for i in reversed(range(24))) if raw[0] else None


def id_bytes(text):
    bits = 0
    for c in text[2:]:
        bits = bits << 5 | DIGITS.index(c)
    return bytes([NOUNS.index(text[:2])]) + bits.to_bytes(15, "big")


def record(kind, value=0, number=0, time=0, ident=None, tenant=None, secret=b""):
    zero = bytes(16)
    return struct.pack("<BBHIQ16s16s32s", kind, value, 0, number, time, id_bytes(ident) if ident else zero,
                       id_bytes(tenant) if tenant else zero, secret)


class Record:
    def __init__(self, raw):
        self.kind, self.value, _, self.number, self.time, ident, tenant, self.secret = struct.unpack("<BBHIQ16s16s32s", raw)
        self.id, self.tenant = id_text(ident), id_text(tenant)


class Edge:
    """Connected, greeted, and told everything."""

    def __init__(self, path, timeout_s=30):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(timeout_s)
        self.sock.connect(path)
        self.sandboxes, self.app_ports, self.keys = {}, {}, {}
        self.ticks, self.records = 0, []

    def hello(self, build=b""):
        self.say(HELLO, number=ABI, secret=build)
        first = self.next()
        assert first.kind == HELLO and first.number == ABI, vars(first)
        assert self.next().kind == ALL
        while self.hear().kind != END:
            pass
        return self

    def say(self, kind, **what):
        self.sock.sendall(record(kind, **what))

    def next(self):
        raw = b""
        while len(raw) < SIZE:
            more = self.sock.recv(SIZE - len(raw))
            if not more:
                raise EOFError(f"closed after {len(raw)} bytes")
            raw += more
        return Record(raw)

    def hear(self):
        r = self.next()
        self.records.append(r)
        if r.kind == SANDBOX and STATES[r.value] in ("terminated", "failed"):
            self.sandboxes.pop(r.id, None)
        elif r.kind == SANDBOX:
            self.sandboxes[r.id] = (r.tenant, STATES[r.value])
            self.app_ports[r.id] = r.number
        elif r.kind == KEY:
            self.keys[r.id] = r
        elif r.kind == NO_KEY:
            self.keys.pop(r.id, None)
        elif r.kind == TICK:
            self.ticks += 1
        return r

    def until(self, condition, most=1000):
        for _ in range(most):
            if condition():
                return
            self.hear()
        raise AssertionError("it was not said")

    def close(self):
        self.sock.close()


SCOPES = ("", "public", "read", "write", "operator")


def whose(path, secret):
    """Whose key an edge hears it is, as Cay-Actor says it; None when it is not good."""
    edge = Edge(path).hello()
    digest, found = hashlib.sha256(secret.encode()).digest(), None
    for r in edge.records:
        if r.kind == KEY and r.secret == digest and time.time() * 1000 < r.time:
            found = f"{r.tenant} {SCOPES[r.value]} {r.id} -"
            edge.say(USED, ident=r.id)
    edge.close()
    return found
