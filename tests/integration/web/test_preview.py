# SPDX-License-Identifier: Apache-2.0
"""A page out of a sandbox in a real browser: what it can, and what of its neighbours it cannot (NET-15)"""
import http.client

import inside
import pytest
import world
from conftest import BUILD

PAGE = r'''
PAGE = b"""<!doctype html><title>inside</title><link rel=icon href=data:,><body>shown<script>
const tried = (url, o) => fetch(url, {credentials: "include", signal: AbortSignal.timeout(20000), ...o})
    .then(async r => r.type === "opaque" ? "opaque" : [r.status, await r.text()], () => "error");
const socket = url => new Promise(done => {
    const w = new WebSocket(url);
    setTimeout(done, 20000, "late");
    w.onopen = () => w.send("echo");
    w.onmessage = m => done(m.data);
    w.onerror = () => done("refused");
});
window.attacks = {
    own: async () => [await tried("/mine"), await socket(location.origin.replace("http", "ws") + "/ws"), document.cookie, location.href],
    api: async ({base}) => [await tried(base + "/v1/sandboxes"), await tried(base + "/v1/sandboxes", {mode: "no-cors"}),
        await tried(base + "/v1/sandboxes", {method: "POST", mode: "no-cors", body: "{}"}), await socket(base.replace("http", "ws") + "/v1/sandboxes")],
    neighbour: async ({url, origin}) => {
        await tried(url, {mode: "no-cors"});
        return [await tried(origin + "/fetched", {mode: "no-cors"}), await tried(origin + "/cors"),
            await tried(origin + "/posted", {method: "POST", mode: "no-cors", body: "x"}),
            await socket(origin.replace("http", "ws") + "/ws")];
    },
    toss: async ({domain}) => {
        document.cookie = "cay-preview=forged; path=/; domain=" + domain;
        document.cookie = "cay-preview=forged; path=/mine";
        return tried("/mine");
    },
};
</script>"""
def answer(c, head, rest):
    print(head.split("\r\n")[0] + " | " + str(field(head, "cookie")) + " | " + str(field(head, "authorization")), flush=True)
    if field(head, "upgrade") == "websocket":
        return websocket(c, head)
    reply(c, PAGE if head.split(" ")[1] == "/" else b"mine", more="Content-Type: text/html\r\nSet-Cookie: app=1; Domain=preview.localhost\r\n")
serve(8080, answer)
'''


@pytest.fixture(scope="module")
def shown():
    w = world.World(BUILD, env={"CAY_EDGE_RATE": "100000"})
    w.env["CAY_EDGE_PREVIEWS"] = f"http://preview.localhost:{w.port}"
    with w:
        yield w


def seen(server):
    """Every request a server had, up to one of ours."""
    rows = []
    while True:
        line = server.line().strip()
        if line.startswith("GET /until-here"):
            return rows
        rows.append(line)


def mark(w, made):
    c = http.client.HTTPConnection("127.0.0.1", w.port, timeout=10)
    c.request("GET", "/until-here", headers={"Host": made["origin"].split("//")[1], "Cay-Preview": made["token"]})
    assert c.getresponse().status == 200


def test_NET_15_a_page_out_of_a_sandbox(shown, browser):
    boxes = [shown.door().create("tiny") for _ in range(2)]
    mine, theirs = (shown.door().call("POST", f"/v1/sandboxes/{b}/preview", {"port": 8080}) for b in boxes)
    base = f"http://127.0.0.1:{shown.port}"
    with inside.Server(shown, boxes[0], PAGE) as a, inside.Server(shown, boxes[1], PAGE) as b:
        said = browser.ask(page=mine["url"])
        assert (said["title"], said["url"]) == ("inside", mine["origin"] + "/"), "without the token"
        own = browser.ask(attack="own", args={})["result"]
        assert own[0] == [200, "mine"] and own[1] == "echo" and own[3] == mine["origin"] + "/"
        assert own[2] == "app=1", "the application's cookie, and not ours"
        # the API: nothing is sent that it takes for somebody, nothing comes back
        before = len(shown.call("GET", "/v1/sandboxes")["sandboxes"])
        assert browser.ask(attack="api", args={"base": base})["result"] == ["error", "opaque", "opaque", "refused"]
        assert len(shown.call("GET", "/v1/sandboxes")["sandboxes"]) == before
        # a neighbour whose cookie the browser has too
        got = browser.ask(attack="neighbour", args={"url": theirs["url"], "origin": theirs["origin"]})["result"]
        assert got[0] == "opaque" and got[1] == "error" and got[3] == "refused", got
        mark(shown, theirs)
        assert seen(b) == [], "not one of them came there"
        # forged ones in front of ours
        assert browser.ask(attack="toss", args={"domain": "preview.localhost"})["result"] == [200, "mine"]
        mark(shown, mine)
        for row in seen(a):
            assert "cayp_" not in row and "cay-preview" not in row and row.endswith("None"), row
    for name in boxes:
        shown.door().delete(name)
