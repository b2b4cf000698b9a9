# SPDX-License-Identifier: Apache-2.0
"""The screen of a sandbox of the image `desktop`: a real Xvnc, and a client of libX11 that says what reached it"""
import base64
import json
import pathlib
import struct
import zlib

import pytest

import cay

pytestmark = pytest.mark.one_lane  # its sandboxes
TREE = pathlib.Path(__file__).parents[3]
CLIENT = (TREE / "tests/fixtures/screen/x_client.py").read_text()
SHIFT, CONTROL, ALT = 1, 4, 8  # of an event's state
BUTTON_1 = 256


def png_read(data):
    """Width, height and bytes of red, green and blue: PNG as its standard has it, without filters."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, pixels, size = 8, b"", None
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0]
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
            assert body[8:] == bytes([8, 2, 0, 0, 0])
        pixels += body if kind == b"IDAT" else b""
        at += 12 + n
    assert kind == b"IEND"
    pixels = zlib.decompress(pixels)
    line = size[0] * 3 + 1
    assert len(pixels) == line * size[1] and not any(pixels[::line]), "a filter"
    return *size, b"".join(pixels[i + 1:i + line] for i in range(0, len(pixels), line))


class Screen:
    """A sandbox, and the client in it."""

    def __init__(self, node, size):
        self.node, self.size = node, size
        self.box = node.create("desktop", env={"SCREEN_SIZE": "%dx%d" % size}, limits={"memory_bytes": "1Gi"})
        self.at = f"/v1/sandboxes/{self.box}/screen"
        self.info = node.call("GET", self.at)  # waits for the X server
        self.client = node.exec_detached(self.box, ["python3", "-c", CLIENT, "watch"])
        self.read = 0
        cay.wait_for("the client's window", lambda: self.lines() or None, 30)
        self.events()

    def lines(self):
        whole = self.node.exec_output(self.box, self.client).rpartition(b"\n")[0]  # the last one may be under way
        return [json.loads(l) for l in whole.splitlines()]

    def events(self):
        """Those since the last call."""
        lines = self.lines()
        new, self.read = lines[self.read:], len(lines)
        return new

    def await_events(self, n):
        cay.wait_for(f"{n} events", lambda: len(self.lines()) >= self.read + n or None, 10)
        return self.events()

    def act(self, *actions, **fields):
        return self.node.call("POST", self.at + "/actions", {"actions": list(actions), **fields})

    def shot(self, **query):
        reply = self.node.open("GET", self.at + "/shot?" + "&".join(f"{k}={v}" for k, v in query.items()))
        data = reply.read()
        assert reply.status == 200, data
        return png_read(data)

    def run(self, *argv, **fields):
        done = self.node.exec(self.box, ["python3", "-c", CLIENT, *map(str, argv)], **fields)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    def type(self, text):
        self.events()
        self.act({"type": "type", "text": text})
        shifted = {0xffe1, 0xffe2}
        cay.wait_for("the text", lambda: "".join(e.get("text", "") for e in self.lines()[self.read:]) == text or None, 10)
        return [e["key"] for e in self.events() if "key" in e and e["key"] not in shifted]


@pytest.fixture(scope="module")
def node(daemon, desktop_image):
    assert desktop_image == "desktop"
    return daemon


@pytest.fixture(scope="module", params=[(1024, 768), (1920, 1080)], ids=lambda s: "%dx%d" % s)
def screen(request, node):
    s = Screen(node, request.param)
    yield s
    node.delete(s.box)


@pytest.fixture(scope="module")
def small(node):
    """One that tests may break."""
    s = Screen(node, (800, 600))
    yield s
    node.delete(s.box)


def test_size_and_pictures_are_those_of_the_server(screen):
    width, height = screen.size
    assert (screen.info["width"], screen.info["height"]) == screen.size
    assert screen.shot(cursor="false") == (width, height, screen.run("dump", 0, 0, width, height))
    assert screen.shot(cursor="false", x=101, y=57, width=333, height=211) == (333, 211, screen.run("dump", 101, 57, 333, 211))


def test_a_reduced_picture_has_the_means_of_its_areas(screen):
    width, height = screen.size
    w, h, small = screen.shot(cursor="false", max_width=width // 2)
    assert (w, h) == (width // 2, height // 2)
    whole = screen.run("dump", 0, 0, width, height)
    for x, y in [(0, 0), (3, 3), (w - 1, h - 1), (w // 2, h // 3), (17, h - 2)]:
        for k in range(3):
            four = [whole[((2 * y + j) * width + 2 * x + i) * 3 + k] for i in (0, 1) for j in (0, 1)]
            assert abs(small[(y * w + x) * 3 + k] - sum(four) / 4) <= 0.5
    # 4:3 within 16:10
    assert screen.shot(max_width=640, max_height=400)[:2] == ((533, 400) if width == 1024 else (640, 360))


@pytest.mark.parametrize("limit", [0, 1000])
def test_clicks_land_where_the_picture_shows_them(screen, limit):
    fields = {"max_width": limit} if limit else {}
    w, h, _ = screen.shot(**fields)
    screen.events()
    places = [(0, 0), (w - 1, 0), (0, h - 1), (w - 1, h - 1), (w // 2, h // 2), (1, 1), (w // 3, h - 7), (7, h // 3)]
    done = screen.act(*({"type": "click", "x": x, "y": y} for x, y in places), **fields)
    assert (done["width"], done["height"]) == (w, h) and (done["cursor_x"], done["cursor_y"]) == places[-1]
    events = [e for e in screen.await_events(2 * len(places)) if "down" in e]
    assert len(events) == len(places)
    for (x, y), e in zip(places, events):
        assert e["down"] == 1 and x * screen.size[0] // w <= e["x"] < -(-(x + 1) * screen.size[0] // w)
        assert y * screen.size[1] // h <= e["y"] < -(-(y + 1) * screen.size[1] // h)
        assert limit or (e["x"], e["y"]) == (x, y)


def test_buttons_modifiers_wheel_and_drags(screen):
    screen.events()
    screen.act({"type": "click", "x": 50, "y": 60, "button": "right", "clicks": 2, "keys": "ctrl+shift"},
               {"type": "scroll", "direction": "up", "amount": 2}, {"type": "scroll"},
               {"type": "down", "button": "middle"}, {"type": "move", "x": 70, "y": 80}, {"type": "up", "button": "middle"},
               {"type": "drag", "x": 10, "y": 20, "to_x": 200, "to_y": 150})
    events = [e for e in screen.await_events(4 + 2 + 4 + 6 + 2 + 2) if "key" not in e]
    assert [(e["down"], e["x"], e["y"], e["state"] & 0xff) for e in events if "down" in e] == \
        [(3, 50, 60, SHIFT | CONTROL)] * 2 + [(4, 50, 60, 0)] * 2 + [(5, 50, 60, 0)] * 3 + [(2, 50, 60, 0), (1, 10, 20, 0)]
    ups = [(e["up"], e["x"], e["y"]) for e in events if "up" in e]
    assert ups[-2:] == [(2, 70, 80), (1, 200, 150)]
    assert json.loads(screen.run("state")) == {"keys": [], "mask": 0}


def test_keys_by_the_names_of_xdotool(screen):
    names = {"Return": 0xff0d, "Escape": 0xff1b, "F5": 0xffc2, "Page_Down": 0xff56, "KP_0": 0xffb0, "Left": 0xff51, "BackSpace": 0xff08,
             "minus": ord("-"), "a": ord("a"), "A": ord("A"), "plus": ord("+"), "U65e5": 0x10065e5, "enter": 0xff0d}
    screen.events()
    screen.act({"type": "key", "keys": " ".join(names)})
    cay.wait_for("the keys", lambda: len([e for e in screen.lines()[screen.read:] if e.get("key", 0xffe1) != 0xffe1]) >= len(names) or None, 10)
    assert [e["key"] for e in screen.events() if e.get("key", 0xffe1) != 0xffe1] == list(names.values())
    screen.act({"type": "key", "keys": "ctrl+alt+t", "repeat": 2})
    pressed = [e for e in screen.await_events(6) if e.get("key") == ord("t")]
    assert [e["state"] & 0xff for e in pressed] == [CONTROL | ALT] * 2


TEXTS = ["Hello, World! ~`{}|\\\"'<>?_+", "ÆØÅ ñ ß ç ü “curly” — € ½", "Привет, κόσμε", "日本語と中文和한국어", "😀👍🏽🇩🇪",
         "tab\tand\nline\n", "一二三四五六七八九十百千万億兆京垓春夏秋冬東西南北上下左右"]


def test_text_arrives_as_it_was_sent(screen):
    for text in (*TEXTS, "日本", "語日", "日本", "x" * 500 + "é" * 100):
        screen.type(text)
    assert json.loads(screen.run("state"))["keys"] == []


def test_a_picture_after_actions_is_settled(screen):
    done = screen.act({"type": "move", "x": 5, "y": 5}, screenshot="after", max_width=640, cursor=False)
    w, h, _ = png_read(base64.b64decode(done["png"]))
    assert (w, h) == (done["width"], done["height"]) == (640, 640 * screen.size[1] // screen.size[0])


def test_the_cursor_is_drawn_where_it_is(screen):
    screen.act({"type": "move", "x": 300, "y": 300})
    w, h, without = screen.shot(cursor="false")
    _, _, with_it = screen.shot()
    changed = [i // 3 for i in range(0, len(without), 3) if without[i:i + 3] != with_it[i:i + 3]]
    assert changed, "no cursor"
    assert all(abs(i % w - 300) < 64 and abs(i // w - 300) < 64 for i in changed)


def refused(screen, code, *actions, **fields):
    with pytest.raises(cay.ApiError) as e:
        screen.act(*actions, **fields)
    assert e.value.code == code
    return e.value


def test_what_is_wrong_is_refused_before_anything_is_done(screen):
    first = {"type": "click", "x": 1, "y": 1}
    screen.events()
    for action, field in [({"type": "click", "x": screen.size[0], "y": 1}, "actions[1].x"), ({"type": "click", "x": 1}, "actions[1].y"),
                          ({"type": "key", "keys": "ctrl+nokey"}, "actions[1].keys"), ({"type": "type"}, "actions[1].text"),
                          ({"type": "type", "text": "\x07"}, "actions[1].text"), ({"type": "wait", "duration_ms": 1, "x": 1, "y": 1}, "actions[1].x")]:
        e = refused(screen, "invalid_argument", first, action)
        assert json.loads(e.body)["error"]["field"] == field, e.body
    refused(screen, "invalid_argument", {"type": "wait", "duration_ms": 60000}, {"type": "wait", "duration_ms": 60000})
    assert screen.events() == []


def test_windows_are_listed(small):
    xterm = small.node.exec_detached(small.box, ["xterm", "-T", "a title \x1b 日本"])
    cay.wait_for("the window", lambda: any(w["class"] == "XTerm" for w in small.node.call("GET", small.at)["windows"]) or None, 20)
    window = [w for w in small.node.call("GET", small.at)["windows"] if w["class"] == "XTerm"][0]
    assert window["title"].startswith("a title ") and "\x1b" not in window["title"]
    small.node.signal(small.box, xterm)


def test_the_picture_of_the_guide(small):
    """build/desktop.png, which docs/img has: two windows that differ from the background, and a panel."""
    small.node.signal(small.box, small.client)
    small.node.exec_detached(small.box, ["pcmanfm", "/usr/share"])
    small.node.exec_detached(small.box, ["xterm", "-geometry", "60x12+20+20", "-fa", "DejaVu Sans Mono", "-fs", "10"])
    cay.wait_for("two windows", lambda: len(small.node.call("GET", small.at)["windows"]) >= 2 or None, 30)
    done = small.act({"type": "click", "x": 60, "y": 120}, {"type": "type", "text": "echo 'Hello, 世界'\n"}, screenshot="after", settle_ms=1000)
    png = base64.b64decode(done["png"])
    (TREE / "build/desktop.png").write_bytes(png)
    w, h, pixels = png_read(png)
    assert len(set(pixels[i:i + 3] for i in range(0, len(pixels), 3))) > 100, "a screen of few colors"


def test_chromium_has_a_window(small):
    page = "data:text/html,<title>a page</title>"
    browser = small.node.exec_detached(small.box, ["chromium", page])
    cay.wait_for("its window", lambda: any(
        w["class"] == "Chromium" and w["title"].startswith("a page") for w in small.node.call("GET", small.at)["windows"]) or None, 40)
    small.node.signal(small.box, browser)


def test_keys_are_released_when_the_operation_is_ended(small):
    """By SIGTERM, which PID 1 sends when the client leaves; a program of the user can do that too."""
    connection = small.node.connection(90)
    body = json.dumps({"actions": [{"type": "hold", "keys": "ctrl+shift+x", "duration_ms": 60000}]})
    connection.request("POST", small.at + "/actions", body, {"Content-Type": "application/json", **small.node.says()})
    cay.wait_for("keys that are down", lambda: len(json.loads(small.run("state"))["keys"]) == 3 or None, 10)
    ended = small.node.exec(small.box, ["sh", "-c", "kill -TERM $(pgrep -x $(cat /proc/1/comm) | grep -vx 1)"])
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(connection.getresponse().read())["error"]["code"] == "deadline_exceeded"
    assert json.loads(small.run("state"))["keys"] == []


def test_no_port_and_no_other_user(small):
    tcp = small.node.exec(small.box, ["sh", "-c", "cat /proc/net/tcp /proc/net/tcp6"], user="0").stdout.decode()
    # but the DevTools of a Chromium that another test has started, on loopback: browser.md
    port = small.node.exec(small.box, ["sh", "-c", "head -n 1 $BROWSER_PROFILE/DevToolsActivePort 2>/dev/null"]).stdout.decode().strip()
    devtools = f"0100007F:{int(port or 0):04X}"
    assert [l for l in tcp.splitlines() if l.split()[3:4] == ["0A"] and l.split()[1] != devtools] == [], "something listens"
    connect = "import socket;s=socket.socket(socket.AF_UNIX);s.connect('/run/screen/vnc');print(s.recv(12))"
    assert small.node.exec(small.box, ["python3", "-c", connect]).stdout.startswith(b"b'RFB 003")
    other = small.node.exec(small.box, ["python3", "-c", connect], user="2000")
    assert other.exit_code != 0 and b"PermissionError" in other.stderr
    other = small.node.exec(small.box, ["python3", "-c", CLIENT, "state"], user="2000", env={"XAUTHORITY": "/nonexistent"})
    assert other.exit_code != 0 and b"no display" in other.stderr


def test_a_sandbox_without_a_screen(daemon, box):
    for method, path, body in (("GET", "", None), ("GET", "/shot", None), ("POST", "/actions", {"actions": []})):
        with pytest.raises(cay.ApiError) as e:
            daemon.call(method, f"/v1/sandboxes/{box}/screen{path}", body)
        assert e.value.code == "unsupported" and "no screen" in str(e.value.body)


HOSTILE = """
import os, socket, struct, sys
how = sys.argv[1]
path = "/tmp/.X11-unix/X0"
if os.path.exists(path): os.unlink(path)
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(8)
screen = struct.pack("<IIIIIHHHHHHIBBBB", 1, 0, 0, 0, 0, *({"large": (65535, 65535)}.get(how, (640, 480))), 1, 1, 1, 1, 9, 0, 0, 24, 1)
depth = struct.pack("<BBHI", 24, 0, 1, 0) + struct.pack("<IBBHIII", 9, 4, 8, 256, 0xff0000, 0xff00, 0xff) + b"\\0" * 4
setup = struct.pack("<IIIIHHBBBBBBBBI", 0, 0, 1, 0, 0, 65535, 1, 1, 0, 0, 32, 32, 8, 255, 0) + bytes([24, 32, 32, 0, 0, 0, 0, 0]) + screen + depth
print("up", flush=True)
while True:
    c, _ = s.accept()
    try:
        c.recv(4096)
        if how == "garbage": c.sendall(os.urandom(1 << 16)); continue
        c.sendall(struct.pack("<BBHHH", 1, 0, 11, 0, len(setup) // 4) + setup)
        n = 0
        while c.recv(65536):
            n += 1
            if how == "long": c.sendall(struct.pack("<BBHI", 1, 0, n, 0xffffffff) + b"\\0" * 4096)
            elif how == "events":
                while True: c.sendall(b"\\x02" * 32 * 1024)
            else: c.sendall(struct.pack("<BBHI", 1, 0, n, 0) + b"\\0" * 24)
    except OSError: pass
    finally: c.close()
"""


@pytest.mark.parametrize("how", ["garbage", "long", "large", "short"])
def test_a_hostile_server_harms_one_request(small, how):
    small.node.call("POST", f"/v1/sandboxes/{small.box}/services/screen/stop")
    server = small.node.exec_detached(small.box, ["python3", "-c", HOSTILE, how])
    cay.wait_for("the server", lambda: small.node.exec_output(small.box, server) or None, 10)
    for path in ("", "/shot"):
        reply = small.node.open("GET", small.at + path)
        data = reply.read()
        if path or reply.status != 200:  # zeros are a screen without windows
            code = json.loads(data)["error"]["code"]
            assert code in ("unavailable", "too_large", "unsupported", "permission_denied"), data
    small.node.signal(small.box, server)
    assert small.node.exec(small.box, ["true"]).exit_code == 0
