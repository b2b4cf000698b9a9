# SPDX-License-Identifier: Apache-2.0
"""Links, previews and tokens that are taken back: at once, for good, and by nobody else (ADR 0058)"""
import base64
import contextlib
import http.client
import json

import pytest
from cay import UP_S, ApiError, wait_for
from test_ports import ask, by_cookie, host, preview, talk
from test_ports import app, shown  # noqa: F401

DAY_MS = 86400000
NO = (401, 429)  # whoever was refused often hears that instead


def link(w, box, path="/etc/passwd", **more):
    return w.door().call("POST", f"/v1/sandboxes/{box}/files/link", {"path": path, **more})["url"]


def revoke(who, box, what=None):
    return who.call("POST", f"/v1/sandboxes/{box}/revoke", {"link": what} if what else {})


def opens(w, url):
    r = ask(w, "GET", url.partition(f":{w.port}")[2])
    r.read()
    return r.status


def shows(w, box, token):
    r = ask(w, "GET", "/", {"Host": host(box), "Cay-Preview": token})
    r.read()
    return r.status


def refused(code, fn, *args):
    with pytest.raises(ApiError) as e:
        fn(*args)
    assert e.value.code == code, e.value


def restart_edge(w):
    name = w.edges.pop()
    told = w.log(name).count("synchronised with control")
    w.daemons[name].kill()
    w.daemons[name].wait()
    w.start_edge()
    wait_for("the new edge to hear all", lambda: w.log(name).count("synchronised with control") > told, UP_S)


def test_one_is_taken_back_and_no_other(shown, app):  # noqa: F811
    me, one, two = shown.door(), link(shown, app), link(shown, app)
    seen, kept = preview(shown, app), preview(shown, app)
    cookie = {"Host": f"{host(app)}:{shown.port}", "Cookie": f"cay-preview={seen['token']}"}
    assert opens(shown, one) == opens(shown, two) == ask(shown, "GET", "/", cookie).status == 200
    assert revoke(me, app, one)["id"] == app
    assert opens(shown, one) in NO and opens(shown, two) == 200
    revoke(me, app, one)  # once more is the same
    revoke(me, app, link(shown, app, "/tmp/cayp_x"))  # a link, whatever it leads to
    revoke(me, app, seen["url"])
    assert ask(shown, "GET", "/", cookie).status in NO and shows(shown, app, seen["token"]) in NO
    assert ask(shown, "GET", seen["url"].partition(f":{shown.port}")[2], {"Host": host(app)}).status in NO
    assert shows(shown, app, kept["token"]) == opens(shown, two) == 200
    token = me.call("POST", f"/v1/sandboxes/{app}/token", {"scope": "read"})["token"]
    assert shown.door(token).get(app)["id"] == app
    revoke(me, app, token)
    assert shown.door(token).open("GET", f"/v1/sandboxes/{app}").status in NO


def test_what_is_under_way_is_cut(shown, app):  # noqa: F811
    """A stream has no end then, a WebSocket has one; neither waits for its time."""
    seen = preview(shown, app)
    r = ask(shown, "GET", "/sse", {"Host": host(app), "Cay-Preview": seen["token"]}, timeout=10)
    assert r.read(7)
    s, back = talk(shown, "/chat", {"Host": f"{host(app)}:{shown.port}", "Cookie": f"cay-preview={seen['token']}"}, b"here and back")
    assert back == b"here and back"
    revoke(shown.door(), app, seen["token"])
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        r.read()
    s.settimeout(10)
    with contextlib.suppress(ConnectionError):
        while s.recv(4096):
            pass
    s.close()


def test_all_of_a_sandbox(shown, app):  # noqa: F811
    me, other = shown.door(), shown.door().create("tiny")
    mine, theirs, cookie = link(shown, app), link(shown, other), by_cookie(shown, app)
    token = me.call("POST", f"/v1/sandboxes/{app}/token", {"scope": "read"})["token"]
    revoke(me, app)
    assert opens(shown, mine) in NO and ask(shown, "GET", "/", cookie).status in NO
    assert shown.door(token).open("GET", f"/v1/sandboxes/{app}").status in NO
    assert opens(shown, theirs) == opens(shown, link(shown, app)) == 200
    me.delete(other)


def test_it_stays_so(shown, app):  # noqa: F811
    me, one, kept = shown.door(), link(shown, app, ttl_ms=7 * DAY_MS), link(shown, app)
    revoke(me, app, one)
    shown.restart_cayd()
    assert opens(shown, one) in NO and opens(shown, kept) == 200
    restart_edge(shown)
    assert opens(shown, one) in NO and opens(shown, kept) == 200
    revoke(shown.door(), app)
    shown.restart_cayd()
    restart_edge(shown)
    assert opens(shown, kept) in NO and opens(shown, one) in NO
    assert opens(shown, link(shown, app)) == 200


def test_by_whom_and_what(shown, app):  # noqa: F811
    me, url, seen = shown.door(), link(shown, app), preview(shown, app)
    other = shown.door(shown.new_key("write", shown.call("POST", "/v1/tenants", {"name": "revokers"})["id"]))
    for what in (None, url, seen["url"]):
        refused("not_found", revoke, other, app, what)
    token = me.call("POST", f"/v1/sandboxes/{app}/token", {"scope": "write"})["token"]
    refused("permission_denied", revoke, shown.door(token), app, url)
    refused("permission_denied", revoke, shown.door(shown.new_key("read")), app, url)
    raw = bytearray(base64.urlsafe_b64decode(seen["token"][5:] + "=" * (-len(seen["token"][5:]) % 4)))
    raw[48] ^= 1
    forged = "cayp_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")
    box = me.create("tiny")
    for what in (forged, url[:-1] + ("A" if url[-1] != "A" else "E"), url.replace("passwd", "shadow"), url[-123:], "x", "cayp_", "&token=cayt_", "/v1/&token=cayt_",
                 "&token=cayt_/v1/", link(shown, box)):
        refused("invalid_argument", revoke, me, app, what)
    assert opens(shown, url) == shows(shown, app, seen["token"]) == 200
    me.delete(box)


def test_there_is_room_for_so_many(shown):  # noqa: F811
    me = shown.door()
    box = me.create("tiny")
    short, kept = link(shown, box, ttl_ms=1000), link(shown, box)
    revoke(me, box, short)
    urls = [link(shown, box) for _ in range(17)]
    for url in urls[:15]:
        revoke(me, box, url)

    def place():  # of the one that is over
        try:
            return revoke(me, box, urls[15])
        except ApiError as e:
            assert e.code == "limit_exceeded", e
    wait_for("a place", place, 10)
    refused("limit_exceeded", revoke, me, box, urls[16])
    assert opens(shown, urls[0]) in NO and opens(shown, urls[15]) in NO and opens(shown, kept) == opens(shown, urls[16]) == 200
    revoke(me, box)
    assert opens(shown, urls[16]) in NO and opens(shown, kept) in NO
    me.delete(box)


def test_how_long(shown, app):  # noqa: F811
    for fn in (link, preview):
        fn(shown, app, ttl_ms=7 * DAY_MS)
        with pytest.raises(ApiError) as e:
            fn(shown, app, ttl_ms=7 * DAY_MS + 1)
        assert json.loads(e.value.body)["error"]["field"] == "ttl_ms"
