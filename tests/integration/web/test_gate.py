# SPDX-License-Identifier: Apache-2.0
"""The same without a browser: bytes that no browser sends, and a good key with every request"""
import json
import re
import socket

import pytest
from pages import HTTP
from routes import PUBLIC, Untouched, routes, state

EVIL = ("evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "localhost.evil.example", "0.0.0.0:{port}", "[::ffff:127.0.0.1]",
        "127.1", "2130706433", "localhost.", "evil.example@127.0.0.1", "127.0.0.1, evil.example")
UPGRADE = ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")


def head(port, method, target, host, more):
    """The status and the error of one request that has a body nobody should read."""
    with socket.create_connection(("127.0.0.1", port), 10) as s:
        s.sendall(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}Content-Length: 0\r\n\r\n".encode())
        s.shutdown(socket.SHUT_WR)
        out = b""
        while data := s.recv(65536):
            out += data
    text = out.split(b"\r\n\r\n", 1)
    return int(text[0].split()[1]), json.loads(text[1])["error"]["code"] if text[1] else None


@pytest.fixture
def key(node):
    return f"Authorization: Bearer {node.operator_key()}\r\n"


@pytest.fixture
def found(node, box, command):
    return [(r.method, r.target(sandbox=box, exec=command)) for r in routes(node)]


def test_the_oracle_sees(node, box):
    """What these tests lean on: any operation that is let in is noticed."""
    for method, target, body in (("POST", "/v1/tenants", {"name": "seen"}), ("GET", "/v1/sandboxes", None),
                                 ("POST", f"/v1/sandboxes/{box}/extend", {"nonsense": 1})):
        with pytest.raises(AssertionError, match="control was asked"), Untouched(node, box):
            node.door().open(method, target, body).read()
    before = state(node, box)
    node.door().exec(box, ["true"])
    assert state(node, box) != before


@pytest.mark.parametrize("upgrade", ["", UPGRADE], ids=["plain", "websocket"])
def test_API_01_no_operation_for_a_foreign_host(node, box, key, found, upgrade):
    with Untouched(node, box):
        for host in EVIL:
            for method, target in found:
                code, error = head(node.port, method, target, host.format(port=node.port), key + upgrade)
                assert (code, error) in ((403, "permission_denied"), (400, "invalid_argument")), (host, method, target)
                # two names are none
                assert head(node.port, method, target, f"localhost\r\nHost: {host}", key + upgrade)[0] == 400


@pytest.mark.parametrize("upgrade", ["", UPGRADE], ids=["plain", "websocket"])
def test_API_02_03_no_operation_for_a_foreign_origin(node, box, key, found, upgrade):
    """With a good key: a page that has got hold of one may not use it either."""
    origins = (HTTP + "evil.example", "null", "", f"{HTTP}127.0.0.1.evil.example:{node.port}", "file:" + "//", HTTP + "localhost:1")
    with Untouched(node, box):
        for origin in origins:
            for method, target in found:
                got = head(node.port, method, target, "localhost", f"Origin: {origin}\r\n" + key + upgrade)
                assert got == (403, "permission_denied"), (origin, method, target)


def test_API_03_only_what_may_is_upgraded(node, box, found):
    """Without a credential and without an Origin, as a program asks: nothing is upgraded."""
    with Untouched(node, box, reads=PUBLIC):
        for method, target in found:
            with socket.create_connection(("127.0.0.1", node.port), 10) as s:
                s.sendall(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}Content-Length: 0\r\n\r\n".encode())
                assert not re.match(rb"HTTP/1.1 101", s.recv(4096)), target


def test_API_02_no_GET_changes_anything(node, box, command):
    """With the operator's key, so that each is done."""
    before = state(node, box)
    for r in routes(node):
        if r.method == "GET" and "attach" not in r.name:
            node.door().open("GET", r.target(sandbox=box, exec=command)).read()
    assert state(node, box) == before
