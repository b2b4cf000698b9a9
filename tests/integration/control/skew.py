# SPDX-License-Identifier: Apache-2.0
"""A PID 1 of another version: an image for replay.c, and what it has seen"""
import contextlib
import json
import socket

import cay

MASK = "{sandbox}"
# what cayd is asked for, so that it says what is frozen
CREATE = {"env": {"OWN": "request"}, "entrypoint": ["/bin/sleep", "100"]}
CONFIG = {"User": "0", "WorkingDir": "/", "Env": ["PATH=/bin:/usr/bin", "FROM=image"]}
# what a PID 1 says of an entrypoint that runs (wire/entry.h)
ENTERED = ("HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n" + "CAYE\x01\0\0\0" + "\x02\0\x01" + "\0" * 12 + "\x01" + "\0" * 8)
RELAYED = {"run": ("POST", "/execs", b'{"argv":["/bin/echo","hi"]}'), "list": ("GET", "/execs", None)}


def image(exchanges):
    entries = [cay.directory("exchanges")]
    for i, e in enumerate(exchanges):
        for suffix, key in (("", "line"), (".body", "body"), (".reply", "reply")):
            entries.append(cay.file(f"exchanges/{i}{suffix}", e[key].encode("latin-1")))
    return cay.layout(entries, CONFIG)


def exec_id(said):
    """As text, out of the bytes of wire/entry.h."""
    bits = int.from_bytes(said[9:24], "big")
    return "ex" + "".join("0123456789abcdefghjkmnpqrstvwxyz"[bits >> 5 * i & 31] for i in reversed(range(24)))


def seen(c, box):
    """Requests in the order they came, as text."""
    upper = c.state / "boxes" / box / "disk/upper"
    try:
        files = sorted(upper.glob("seen-*"), key=lambda p: int(p.name.split("-")[1]))
        return [p.read_bytes().decode("latin-1") for p in files]
    except FileNotFoundError:  # its disk goes with its generation
        return []


def saw(c, box, begin):
    """The first request that begins so, once it is whole."""
    def find():
        return [s for s in seen(c, box) if s.startswith(begin) and "\r\n\r\n" in s]
    cay.wait_for(f"PID 1 to be asked {begin}", find, 30)
    return find()[0]


@contextlib.contextmanager
def unanswered(c, method, target, body):
    """Ask the API, and do not wait for what will not come."""
    head = f"{method} {target} HTTP/1.1\r\nHost: cay\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(c.socket)
        s.sendall(head.encode() + b"\r\n" + (body or b""))
        yield


def read(path):
    return {e["name"]: e for e in json.loads(path.read_text())}
