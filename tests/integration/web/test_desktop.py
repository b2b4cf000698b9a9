# SPDX-License-Identifier: Apache-2.0
"""The screen of a sandbox for people: the page of cay-edge with noVNC in Chromium, before a real Xvnc; and servers that are none (VNC-01)"""
import base64
import http.client
import json
import os
import pathlib
import struct

import cay
import pytest
import unpacked
import world
from conftest import BUILD, Browser

pytestmark = pytest.mark.one_lane  # its sandboxes
TREE = pathlib.Path(__file__).parents[3]
CLIENT = (TREE / "tests/fixtures/screen/x_client.py").read_text()
SIZE = (800, 600)
HELLO = b"RFB 003.008\n"

# Messages of RFC 6143, and of the list of extensions beside it.
KEY = b"".join(struct.pack(">BBHI", 4, down, 0, ord("a")) for down in (1, 0))
QEMU_KEY = b"".join(struct.pack(">BBHII", 255, 0, down, ord("b"), 0x30) for down in (1, 0))
POINTER = b"".join(struct.pack(">BBHH", 5, mask, 300, 200) for mask in (0, 1, 0))
PASTE = struct.pack(">BxxxI", 6, 7) + b"by hand"
RESIZE = struct.pack(">BxHHBxIHHHHI", 251, 640, 480, 1, 0, 0, 0, 640, 480, 0)
RAW = struct.pack(">BxHi", 2, 1, 0)
ENCODINGS = struct.pack(">BxHiii", 2, 3, 0, -223, -308)
UPDATE = struct.pack(">BBHHHH", 3, 0, 0, 0, 64, 64)
HARM = KEY + QEMU_KEY + POINTER + PASTE + RESIZE


@pytest.fixture(scope="module")
def shown():
    if not pathlib.Path(os.environ.get("CAY_EDGE_NOVNC", "/usr/share/novnc")).exists():
        pytest.skip("no noVNC; dev/root puts it into the build root")
    w = world.World(BUILD, env={"CAY_EDGE_RATE": "100000"})
    w.env["CAY_EDGE_PREVIEWS"] = f"http://preview.localhost:{w.port}"
    with w, unpacked.lent(w, "desktop"):
        yield w


class Desktop:
    """A sandbox with a screen, and a client of X in it that says what reached it."""

    def __init__(self, node):
        self.node = node
        self.box = node.create("desktop", env={"SCREEN_SIZE": "%dx%d" % SIZE}, limits={"memory_bytes": "1Gi"})
        self.at = f"/v1/sandboxes/{self.box}"
        node.call("GET", self.at + "/screen")  # waits for X
        self.client = node.exec_detached(self.box, ["python3", "-c", CLIENT, "watch"])
        cay.wait_for("the client's window", lambda: self.lines() or None, 30)
        self.read = len(self.lines())

    def lines(self):
        return [json.loads(l) for l in self.node.exec_output(self.box, self.client).splitlines()]

    def nothing_comes(self):
        cay.let_pass(0.3)
        return self.events() == []

    def events(self):
        lines = self.lines()
        new, self.read = lines[self.read:], len(lines)
        return new

    def url(self, what, **more):
        return self.node.door().call("POST", self.at + "/preview", {"screen": what, **more})

    def pixels(self):
        done = self.node.exec(self.box, ["python3", "-c", CLIENT, "dump", "0", "0", *map(str, SIZE)])
        assert done.exit_code == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def desktop(shown):
    d = Desktop(shown.door())
    yield d
    d.node.delete(d.box)


@pytest.fixture(scope="module")
def viewers(tmp_path_factory):
    top = tmp_path_factory.mktemp("viewers")
    hosts = top / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    b = Browser(hosts, top / "log", "watch.js")
    yield b
    b.stop()


def watch(viewers, name, made):
    """Open the page, and wait until it shows the screen."""
    said = viewers.ask(open=name, url=made["url"])
    assert said["status"] == 200 and said["url"] == made["origin"] + "/", said
    cay.wait_for("the screen", lambda: viewers.ask(on=name, look=True)["state"] == "watching" or None, 20)
    return said


def rgb(look):
    data = base64.b64decode(look["rgba"])
    out = bytearray(len(data) // 4 * 3)
    out[0::3], out[1::3], out[2::3] = data[0::4], data[1::4], data[2::4]
    return bytes(out)


def is_same(look, pixels):
    """JPEG may have changed each a little."""
    mine = rgb(look)
    if look["size"] != list(SIZE) or len(mine) != len(pixels):
        return None
    far = sum(abs(a - b) > 40 for a, b in zip(mine[::7], pixels[::7]))
    return far * 7 < len(pixels) // 200 or None


def test_a_person_sees_the_screen_and_takes_control(desktop, viewers):
    said = watch(viewers, "one", desktop.url("control"))
    assert "frame-ancestors 'none'" in said["headers"]["content-security-policy"] and said["headers"]["cache-control"] == "no-store"
    pixels = desktop.pixels()
    cay.wait_for("the pixels of the screen", lambda: is_same(viewers.ask(on="one", look=True), pixels), 20)
    # it watches until control is taken
    desktop.events()
    viewers.ask(on="one", do=[["mouse", 100, 100], ["keys", "xyz"]])
    assert desktop.nothing_comes()
    viewers.ask(on="one", do=[["click", "#control"], ["mouse", 321, 123], ["keys", "Hi?"]])
    cay.wait_for("the keys", lambda: len([e for e in desktop.lines()[desktop.read:] if e.get("text")]) >= 3 or None, 10)
    events = desktop.events()
    downs = [(e["down"], e["x"], e["y"]) for e in events if "down" in e]
    assert [d[0] for d in downs] == [1] and abs(downs[0][1] - 321) <= 1 and abs(downs[0][2] - 123) <= 1, downs
    assert "".join(e.get("text", "") for e in events) == "Hi?"
    # paste: into the sandbox's clipboard, which nothing else wrote
    viewers.ask(on="one", do=[["click", "#clip"], ["fill", "#text", "pasted by a person"], ["click", "#send"]])
    viewers.ask(on="one", shot=str(TREE / "build/desktop-control.png"))
    # given back
    viewers.ask(on="one", do=[["click", "#control"]])
    desktop.events()
    viewers.ask(on="one", do=[["mouse", 200, 200], ["keys", "no"]])
    look = viewers.ask(on="one", look=True)
    assert desktop.nothing_comes() and look["wrong"] == [], look["wrong"]
    host = desktop.url("watch")["origin"].split("//")[1]
    assert {u.split("/")[2] for u in look["asked"] if not u.startswith("data:")} == {host}, "only of its own host"


def spoken(viewers, name, *pieces):
    """Said in turn, each after the server spoke: version, type, shared, messages."""
    return viewers.ask(on=name, speak=[base64.b64encode(p).decode() for p in (HELLO, b"\1", b"\0", *pieces)])


def test_who_watches_can_do_nothing_whatever_is_sent(desktop, viewers):
    watch(viewers, "two", desktop.url("watch"))
    assert viewers.ask(on="two", look=True)["control"] is False
    desktop.events()
    said = spoken(viewers, "two", ENCODINGS + HARM + UPDATE, HARM + UPDATE, UPDATE)
    assert said["first"] == HELLO.decode() and said["code"] == 1000, said
    said = spoken(viewers, "two", RAW + HARM + UPDATE, HARM + UPDATE)
    assert said["bytes"] > 64 * 64 * 4, "an update came after the messages that were dropped"
    assert desktop.nothing_comes()
    info = desktop.node.call("GET", desktop.at + "/screen")
    assert (info["width"], info["height"]) == SIZE and viewers.ask(on="one", look=True)["state"] == "watching"
    # not the protocol
    for pieces, why in (((b"\7",), "not known"), ((b"\xf8" + bytes(7) + b"\xff",), "not valid")):
        said = spoken(viewers, "two", *pieces)
        assert said["code"] == 1008 and why in said["reason"], said
    said = viewers.ask(on="two", speak=[base64.b64encode(b"RFB 003.003\n").decode()])
    assert said["code"] == 1008 and "3.8" in said["reason"], said


def test_the_same_messages_of_who_controls_arrive(desktop, viewers):
    desktop.events()
    said = spoken(viewers, "one", ENCODINGS + KEY + QEMU_KEY + POINTER + UPDATE, UPDATE)
    assert said["code"] == 1000
    cay.wait_for("a key and a click", lambda: len([e for e in desktop.lines()[desktop.read:] if "down" in e or e.get("text")]) >= 3 or None, 10)
    events = desktop.events()
    assert "".join(e.get("text", "") for e in events) == "ab" and [(e["x"], e["y"]) for e in events if "down" in e] == [(300, 200)]
    # it asked to be alone, and is not
    for name in ("one", "two"):
        assert viewers.ask(on=name, look=True)["state"] == "watching"


def test_it_is_one_screen_of_one_sandbox(desktop, shown, viewers):
    other = shown.door().create("tiny")
    mine, theirs = desktop.url("watch"), shown.door().call("POST", f"/v1/sandboxes/{other}/preview", {"screen": "watch"})
    port = shown.door().call("POST", desktop.at + "/preview", {"port": 8080})
    host = mine["origin"].split("//")[1]

    def asked(host, token, path="/", **more):
        c = http.client.HTTPConnection("127.0.0.1", shown.port, timeout=20)
        c.request("GET", path, headers={"Host": host, **({"Cay-Preview": token} if token else {}), **more})
        r = c.getresponse()
        return r.status, r.read()

    socket = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode()}
    assert asked(host, mine["token"])[0] == 200
    for token in ("", port["token"], theirs["token"]):
        assert asked(host, token)[0] == 401 and asked(host, token, "/vnc", **socket)[0] == 401
    assert asked(port["origin"].split("//")[1], mine["token"])[0] == 401
    assert asked(host, mine["token"], "/core/../../../etc/passwd")[0] == 404 and asked(host, mine["token"], "/nothing")[0] == 404
    assert asked(host, mine["token"], "/vnc")[0] == 426
    assert asked(host, mine["token"], "/core/rfb.js")[0] == 200
    # pages of others, and of the sandbox's own ports, with the viewer's cookie
    cookie = {"Cookie": f"cay-preview={mine['token']}"}
    for origin, status in ((mine["origin"], 101), (port["origin"], 403), (theirs["origin"], 403), (f"http://127.0.0.1:{shown.port}", 403), ("null", 403)):
        assert asked(host, "", "/vnc", Origin=origin, **cookie, **socket)[0] == status, origin
    # a sandbox without a screen; a key of another tenant, and one that may only read
    status, body = asked(theirs["origin"].split("//")[1], theirs["token"], "/vnc", **socket)
    assert status == 422 and b"no screen for people" in body
    tenant = shown.call("POST", "/v1/tenants", {"name": "others"})["id"]
    for key, code in ((shown.new_key(tenant=tenant), "not_found"), (shown.new_key("read"), "permission_denied")):
        with pytest.raises(cay.ApiError) as e:
            shown.door(key).call("POST", desktop.at + "/preview", {"screen": "watch"})
        assert e.value.code == code
    with pytest.raises(cay.ApiError) as e:
        desktop.url("watch", port=80)
    assert e.value.code == "invalid_argument"
    # revoked, and then not even watched
    shown.door().call("POST", desktop.at + "/revoke", {"link": mine["url"]})
    assert asked(host, mine["token"])[0] == 401
    shown.door().delete(other)


def test_the_picture_of_the_guide(desktop, viewers):
    """build/desktop-page.png, which docs/img has"""
    desktop.node.signal(desktop.box, desktop.client)
    desktop.node.exec_detached(desktop.box, ["pcmanfm", "/usr/share"])
    desktop.node.exec_detached(desktop.box, ["xterm", "-geometry", "50x10+20+20", "-fa", "DejaVu Sans Mono", "-fs", "10"])
    cay.wait_for("two windows", lambda: len(desktop.node.call("GET", desktop.at + "/screen")["windows"]) >= 2 or None, 30)
    watch(viewers, "guide", desktop.url("control"))
    viewers.ask(on="guide", do=[["click", "#control"], ["mouse", 60, 120], ["keys", "echo 'Hello by hand'\n"]])
    cay.let_pass(1)
    assert viewers.ask(on="guide", look=True)["state"] == "you control it"
    viewers.ask(on="guide", shot=str(TREE / "build/desktop-page.png"))


HOSTILE = """
import os, socket, struct, sys
how = sys.argv[1]
path = "/run/screen/vnc"
if os.path.exists(path): os.unlink(path)
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(8)
print("up", flush=True)
name = b"<img src=x onerror=alert(1)>" * 100
while True:
    c, _ = s.accept()
    try:
        if how == "garbage": c.sendall(os.urandom(1 << 20)); continue
        c.sendall(b"RFB 003.008\\n"); c.recv(12); c.sendall(b"\\1\\1"); c.recv(1); c.sendall(bytes(4)); c.recv(1)
        size = (7680, 4320) if how == "huge" else (64, 64)
        c.sendall(struct.pack(">HHBBBBHHHBBBxxxI", *size, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0, len(name)) + name)
        if how == "cursor": c.sendall(struct.pack(">BxHHHHHi", 0, 1, 0, 0, 65535, 65535, -239) + bytes(65536))
        if how == "flood": c.sendall((struct.pack(">BxxxI", 3, 30) + b"<script>alert(1)</script>12345") * 500)
        while c.recv(65536): pass
    except OSError: pass
    finally: c.close()
"""


@pytest.mark.parametrize("how", ["garbage", "huge", "cursor", "flood"])
def test_a_hostile_server_is_shown_and_no_more(desktop, shown, viewers, how):
    desktop.node.call("POST", desktop.at + "/services/screen/stop")
    server = desktop.node.exec_detached(desktop.box, ["python3", "-c", HOSTILE, how])
    cay.wait_for("the server", lambda: desktop.node.exec_output(desktop.box, server) or None, 10)
    made = desktop.url("control")
    said = viewers.ask(open=how, url=made["url"])
    assert said["status"] == 200
    cay.let_pass(1)
    look = viewers.ask(on=how, look=True)
    assert {u.split("/")[2] for u in look["asked"] if not u.startswith(("data:", "blob:"))} == {made["origin"].split("//")[1]}
    assert look["title"] == "Screen" and not any("Content Security" in w for w in look["wrong"]), look["wrong"]
    viewers.ask(close=how)
    desktop.node.signal(desktop.box, server)
    assert desktop.node.exec(desktop.box, ["true"]).exit_code == 0 and shown.door().call("GET", desktop.at)["state"] == "running"
