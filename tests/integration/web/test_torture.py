# SPDX-License-Identifier: Apache-2.0
"""Bodies nobody should send, to every operation that takes one (API-10)"""
import json
import os
import pathlib
import re
import socket

import pytest
from cay import wait_for
from conftest import BUILD, FULL
from routes import routes, state

GROWTH = (512 if "asan" in str(BUILD) else 32) << 20  # a sanitizer keeps what was freed
CODES = set(re.findall(r"^\| `(\w+)` \| (4\d\d)", (pathlib.Path(__file__).parents[3] / "docs/api/errors.md").read_text(), re.M))

TEXTS = {
    "nothing": b"", "half": b"{", "two": b"{} {}", "behind": b"{}x", "comma": b'{"a":1,}', "comment": b"{/**/}", "quotes": b"{'a':1}", "list": b"[]",
    "text": b'"x"', "number": b"1", "null": b"null", "true": b"true", "blank": b" \t\r\n", "form": b"a=b&c=d", "xml": b"<a/>", "nul": b"\0",
    "depth-64": b'{"a":' * 64 + b"1" + b"}" * 64, "depth-1000": b"[" * 1000 + b"]" * 1000, "depth-open": b"[" * 1000, "depth-10^6": b"[" * 10**6,
    "depth-10^6-objects": b'{"a":' * 10**6, "values": b"[" + b"1," * 30000 + b"1]", "objects": b"[" + b"{}," * 20000 + b"{}]",
    "names": b"{" + b",".join(b'"%d":0' % i for i in range(6000)) + b"}", "long": b'{"' + b"a" * 60000 + b'":0}',
    "twice": b'{"a":1,"a":1}', "twice-escaped": b'{"a":1,"\\u0061":1}', "proto": b'{"__proto__":{"scope":"operator"}}',
    "bom": b"\xef\xbb\xbf{}", "utf-16": '{"a":1}'.encode("utf-16"), "utf-32": '{"a":1}'.encode("utf-32"), "latin-1": b'{"\xe4":1}',
    "overlong": b'{"\xc0\xaf":1}', "overlong-nul": b'{"\xc0\x80":1}', "surrogate": b'{"\xed\xa0\x80":1}', "too-high": b'{"\xf4\x90\x80\x80":1}',
    "cut-off": b'{"\xe2\x82', "lone-escape": b'{"\\ud800":1}', "turned-escapes": b'{"\\udc00\\ud800":1}', "nul-escape": b'{"\\u0000":1}',
    "control": b'{"a\x01":1}', "newline": b'{"a\n":1}', "bad-escape": b'{"\\x41":1}',
}
NUMBERS = [b"1e400", b"-1e400", b"1.5", b"-1", b"99999999999999999999", b"1" * 4000, b"0." + b"0" * 4000 + b"1", b"NaN", b"Infinity", b"-Infinity",
           b"0x10", b"01", b"1.", b".5", b"+1", b"1e", b'"1"', b"true", b"[]", b"{}", b"1e-400", b"9223372036854775808", b"18446744073709551616"]
WEIRD = [b'"x"', b"[[]]", b"1e400", b"-1"]  # for a quantity, too
STRINGS = [b"1", b"true", b"[]", b"{}", b'"\\u0000"', b'"\\ud800"', b'"\xff"', b'"a\\u0000b"']


def peaks(node, box):
    """Most memory each of them ever had."""
    out = {}
    for name, pid in [*node.pids().items(), ("PID 1", node.pid_1(box))]:
        out[name] = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024
    return out


@pytest.fixture
def bounded(node, box):
    """The programs are the same ones behind it, not much larger, and nothing was made."""
    def kept():
        now = state(node, box)
        return [now[k] for k in ("sandboxes", "images", "tenants", "keys")], [e["id"] for e in now["execs"]["execs"] if e["state"] != "ended"]
    pids, before, was = node.pids(), peaks(node, box), kept()
    yield
    assert node.pids() == pids and node.door().get(box)["state"] == "running"
    grown = {k: v - before[k] for k, v in peaks(node, box).items() if v - before[k] > GROWTH}
    assert not grown, grown
    assert kept() == was


def send(node, method, target, pieces, framing, kind="application/json"):
    """Status, code and how much of it was taken; pieces are asked for until there is an answer."""
    sent = 0
    with socket.create_connection(("127.0.0.1", node.port), 30) as s:
        s.sendall((f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {node.operator_key()}\r\n"
                   f"Content-Type: {kind}\r\n{framing}\r\n\r\n").encode())
        try:
            for piece in pieces:
                s.sendall(piece)
                sent += len(piece)
                s.setblocking(False)
                try:
                    if s.recv(1, socket.MSG_PEEK):
                        break
                except BlockingIOError:
                    pass
                finally:
                    s.settimeout(30)
        except (BrokenPipeError, ConnectionResetError):
            pass
        out = b""
        try:
            while data := s.recv(65536):
                out += data
                head, _, body = out.partition(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.I)
                if length and len(body) >= int(length[1]):
                    break
        except ConnectionResetError:
            pass
    status = int(out.split()[1])
    return status, json.loads(out.partition(b"\r\n\r\n")[2])["error"]["code"], sent


def ask(node, target, body, method="POST"):
    return send(node, method, target, [body], f"Content-Length: {len(body)}")[:2]


def with_json(node, box, command):
    found = [(r, r.target(sandbox=box, exec=command)) for r in routes(node) if isinstance(r.body, dict)]
    assert len(found) >= 9
    return found


def typed(got):
    return (got[1], str(got[0])) in CODES


def test_API_10_text(node, box, command, bounded):
    for r, target in with_json(node, box, command):
        for name, body in TEXTS.items():
            got = ask(node, target, body, r.method)
            assert typed(got) and got[0] in (400, 413, 422), (r.name, name, got)


def test_API_10_members(node, box, command, bounded):
    """Each member of each request as it must not be, and twice."""
    schemas = node.call("GET", "/v1/openapi.json")
    paths, schemas = schemas["paths"], schemas["components"]["schemas"]
    tried = 0
    for r, target in with_json(node, box, command):
        ref = paths[r.path][r.method.lower()]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        for name, schema in schemas[ref.rsplit("/", 1)[1]]["properties"].items():
            bad = NUMBERS if schema.get("type") == "integer" else STRINGS if schema.get("type") == "string" else WEIRD if "oneOf" in schema else [b"1", *WEIRD]
            if schema.get("type") == "string":
                bad = [*bad, b'"' + b"a" * (max(schema.get("maxLength", 0), 49999) + 1) + b'"']
            good = json.dumps({k: v for k, v in r.body.items() if k != name}).encode()[1:-1]
            bodies = [b'{"%s":%s%s}' % (name.encode(), v, b"," + good if good else b"") for v in bad]
            one = json.dumps(r.body.get(name, 1)).encode()
            bodies.append(b'{"%s":%s,"%s":%s%s}' % (name.encode(), one, name.encode(), one, b"," + good if good else b""))
            for body in bodies:
                got = ask(node, target, body, r.method)
                tried += 1
                assert typed(got) and got[0] in (400, 413), (r.name, body[:200], got)
    assert tried > 200


DATA = b"x" * 65536
GIB = (1 << 30) // len(DATA)


def chunks():
    yield from (b"%x\r\n%s\r\n" % (len(DATA), DATA) for _ in range(GIB))
    yield b"0\r\n\r\n"


def test_API_10_a_gigabyte(node, box, bounded):
    """What is too large is refused at its head; where no length is told, at the limit."""
    taken = {}
    for r in routes(node):
        if r.method not in ("POST", "PUT") or r.name == "image.import":
            continue
        name = node.exec_detached(box, ["sh", "-c", "cat > /dev/null"], stdin_open=True)
        target = r.target(sandbox=box, exec=name)
        kind = "application/json" if isinstance(r.body, dict) else "application/octet-stream"
        got = send(node, r.method, target, [b"x" * 65536], f"Content-Length: {1 << 30}", kind)[:2]
        assert typed(got) and got[0] in (400, 413), (r.name, got)
        *got, taken[r.name] = send(node, r.method, target, chunks(), "Transfer-Encoding: chunked", kind)
        assert typed(got) and got[0] in (400, 413), (r.name, got)
        node.signal(box, name)
        # a fixture looks at what runs
        wait_for("its end", lambda: node.call("GET", f"/v1/sandboxes/{box}/execs/{name}")["state"] == "ended", 20)
    # what the kernel takes for us is not what we take
    assert taken.pop("exec.stdin") < 96 << 20 and max(taken.values()) < 16 << 20, taken


def test_API_10_a_gigabyte_that_is_no_image(node, box, bounded):
    ways = [("Transfer-Encoding: chunked", chunks()), (f"Content-Length: {1 << 30}", (DATA for _ in range(GIB)))]
    for framing, pieces in ways if FULL else ways[1:]:
        got = send(node, "POST", "/v1/images?name=x", pieces, framing, "application/octet-stream")[:2]
        assert got == (400, "invalid_argument")
    assert not any(os.scandir(node.state / "tmp")), "nothing is left of it"
