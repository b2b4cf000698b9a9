# SPDX-License-Identifier: Apache-2.0
"""struct ws (ws-echo.c) as npm's ws meets it, and as a raw socket does."""
import json
import os
import pathlib
import re
import socket
import struct
import subprocess

import pytest

BINARY = os.environ.get("CAY_WS_ECHO", "build/gcc/tests/integration/ws/ws-echo")
MODULES = os.environ.get("CAY_NPM", "/opt/npm/node_modules")
CLIENT = pathlib.Path(__file__).parent / "client.js"
KEY, ACCEPT = b"dGhlIHNhbXBsZSBub25jZQ==", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
HEAD = (b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n\r\n")
OUT_MARK = 64 * 1024


class Echo:
    def __init__(self):
        self.process = subprocess.Popen([BINARY], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def node(self, scenario):
        r = subprocess.run(["node", CLIENT, str(self.port), scenario], env={**os.environ, "NODE_PATH": MODULES},
                           stdout=subprocess.PIPE, text=True, timeout=60)
        assert r.returncode == 0
        return json.loads(r.stdout)

    def connect(self, data=b""):
        s = socket.create_connection(("127.0.0.1", self.port), 10)
        s.sendall(data)
        return s

    def rss(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0


@pytest.fixture
def echo():
    e = Echo()
    yield e
    e.stop()


def drain(s):
    """Everything until the end; a reset is none."""
    parts = []
    while b := s.recv(1 << 16):
        parts.append(b)
    return b"".join(parts)


def frame(first, payload=b"", key=b"\x37\xfa\x21\x3d"):
    n = len(payload)
    size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n)
    return bytes([first]) + size + key + bytes(b ^ key[i % 4] for i, b in enumerate(payload))


def end(code, reason=""):
    return {"code": code, "reason": reason}


def test_text(echo):
    assert echo.node("text") == end(1000)


def test_binary_of_every_length(echo):
    assert echo.node("binary") == end(1000)


def test_a_mebibyte_in_fragments_with_pings_between(echo):
    assert echo.node("fragments") == {"same": True, "pongs": ["0", "262144", "524288", "786432"], "end": end(1000)}


def test_too_many_fragments(echo):
    assert echo.node("fragments_too_many") == end(1009, "a message in too many fragments")


def test_too_big(echo):
    assert echo.node("too_big") == end(1009, "a message longer than allowed")


def test_ping_both_ways(echo):
    assert echo.node("ping") == {"answer": {"pong": "are you there"}, "asked": "pong", "end": end(1005)}


def test_a_flood_of_pings(echo):
    got = echo.node("flood_of_pings")
    assert got["end"] == end(1008, "too many control frames")
    assert 100 <= got["pongs"] < 1000


def test_the_client_closes(echo):
    assert echo.node("close_client") == [1000, 1001, 1007, 1011, 1012, 3000, 4999, 1005]


def test_the_server_closes(echo):
    assert echo.node("close_server") == [end(c, "so it ends") for c in (1000, 1001, 1011, 4001)]


def test_what_was_said_before_the_close_arrives(echo):
    assert echo.node("last_words") == {"n": 50, "end": end(1000, "done")}


def test_a_thousand_messages_with_back_pressure(echo):
    """32 MiB the client does not read: the server stops reading, too, and holds little."""
    got = echo.node("back_pressure")
    assert got["good"] == 1000 and got["end"] == end(1005)
    assert got["stuck"] > 1 << 20
    assert got["peak"] <= OUT_MARK + 32 * 1024 + 4
    if not os.environ.get("CAY_SANITIZED"): # ASan keeps what was freed
        assert echo.rss() < 64 << 20


def test_a_slow_reader_slows_the_producer(echo):
    got = echo.node("slow_reader")
    assert got["good"] == 10000 and got["end"] == end(1005)
    assert got["peak"] <= OUT_MARK + 4100


def test_the_protocol_the_client_names_first(echo):
    assert echo.node("protocol") == {"protocol": "cay.more", "extensions": "", "end": end(1005)}


def test_deflate_is_not_taken(echo):
    assert echo.node("deflate_offered") == {"extensions": "", "n": 5000, "end": end(1005)}


def test_a_protocol_not_spoken(echo):
    assert echo.node("bad_protocol")["status"] == 400


def test_another_version(echo):
    got = echo.node("wrong_version")
    assert got["status"] == 426
    assert got["headers"]["sec-websocket-version"] == "13" and got["headers"]["upgrade"] == "websocket"


def test_the_example_of_the_rfc(echo):
    s = echo.connect(HEAD + frame(0x81, b"Hello") + frame(0x88, b"\x03\xe8"))
    head, _, rest = drain(s).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ") and b"Sec-WebSocket-Accept: " + ACCEPT in head
    assert rest == b"\x81\x05Hello\x88\x02\x03\xe8"


def test_no_mask_ends_it(echo):
    rest = drain(echo.connect(HEAD + b"\x81\x05Hello" + frame(0x81, b"ignored"))).partition(b"\r\n\r\n")[2]
    assert rest == b"\x88\x18\x03\xeaa frame without a mask"


def test_a_byte_at_a_time(echo):
    s = echo.connect()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for b in HEAD + frame(0x01, b"\xe2\x9c") + frame(0x89, b"p") + frame(0x80, b"\x93") + frame(0x88):
        s.sendall(bytes([b]))
    rest = drain(s).partition(b"\r\n\r\n")[2]
    assert rest == b"\x8a\x01p\x81\x03\xe2\x9c\x93\x88\x00"
