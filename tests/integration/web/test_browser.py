# SPDX-License-Identifier: Apache-2.0
"""Pages of strangers in a real browser, against every operation there is (API-01, API-02, API-03)"""
import contextlib
import json

import cay
import pages
import pytest
import world
from conftest import BUILD
from routes import NEEDED, PUBLIC, Untouched, routes


def script(found, box, command=""):
    """As attack.js takes them; bodies that would do something if they were read."""
    def body(r):
        return None if r.method == "GET" else json.dumps(r.body) if isinstance(r.body, dict) else "x"
    # a group that nobody has, so that an attack that works is not the end of the box
    return [[r.method, r.target(sandbox=box, exec=command) + ("?group=none" if r.name == "group.delete" else NEEDED.get(r.name, "")), body(r)] for r in found]


def path(target):
    return target.split("?")[0]


def batches(found):
    """WebSockets are GETs whatever the row says.  Behind sixteen that failed, Chromium makes a page wait."""
    targets = sorted({t for _, t, _ in found})
    return [[["GET", t, None] for t in targets[i:i + 14]] for i in range(0, len(targets), 14)]


def refusals(some, found):
    """Where nothing can be got, that is said first."""
    gets = {path(t) for m, t, _ in found if m == "GET"}
    return sorted((m, t, 403 if path(t) in gets else 405) for m, t, _ in some)


@pytest.fixture
def base(tap):
    return f"{pages.HTTP}127.0.0.1:{tap.port}"


def test_the_browser_reaches_the_edge(browser, tap, base):
    """Or all below would be refused by nobody."""
    assert json.loads(browser.ask(page=base + "/v1/health")["text"])["status"] == "ok"
    assert ("GET", "/v1/health", 200) in tap.answers()


class Rebound:
    """evil.example has two addresses: at the first there is a page, and then nobody; at the second is the edge."""

    def __init__(self, node, browser):
        self.browser, self.tap = browser, None
        while not self.tap:
            with contextlib.suppress(OSError):  # somebody has that port there
                self.tap = pages.Tap(("127.0.0.2", world.free_port()), node.port)

    def page(self):
        with pages.Pages(("127.0.0.1", self.tap.port)) as site:
            base = site.url("evil.example")[:-1]
            assert self.browser.ask(page=base + "/")["title"] == "foreign"
        return base


@pytest.fixture
def rebound(node, browser):
    r = Rebound(node, browser)
    yield r
    r.tap.close()


def test_API_01_a_name_that_is_bound_anew(node, browser, rebound, box, command):
    """The page is of the same origin as the edge then: it may send and read all it likes."""
    base, found = rebound.page(), script(routes(node), box, command)
    headers = {"Authorization": "Bearer " + node.operator_key(), "Content-Type": "application/json"}
    with Untouched(node, box):
        for more in ({}, headers):
            said = browser.ask(attack="fetches", args={"base": base, "routes": found, "mode": "cors", "headers": more})
            assert said["result"] == [403] * len(found)
            assert sorted(rebound.tap.answers()) == sorted((m, t, 403) for m, t, _ in found)


def test_API_01_a_websocket_to_a_name_that_is_bound_anew(node, browser, rebound, box, command):
    found = script(routes(node), box, command)
    with Untouched(node, box):
        for some in batches(found):
            said = browser.ask(attack="sockets", args={"base": rebound.page(), "routes": some, "protocols": ["cay", node.operator_key()]})
            assert said["result"] == ["error"] * len(some)
            assert sorted(rebound.tap.answers()) == refusals(some, found)


ATTACKS = {
    "no-cors-text": ("fetches", {"mode": "no-cors", "headers": {"Content-Type": "text/plain"}}),
    "cors-text": ("fetches", {"mode": "cors", "headers": {"Content-Type": "text/plain"}}),
    "cors-json": ("fetches", {"mode": "cors", "headers": {"Content-Type": "application/json"}}),
    "form-text": ("forms", {"enctype": "text/plain"}),
    "form-urlencoded": ("forms", {"enctype": "application/x-www-form-urlencoded"}),
    "form-multipart": ("forms", {"enctype": "multipart/form-data"}),
    "tags": ("tags", {}),
    "beacons": ("beacons", {}),
    "event-sources": ("sources", {}),
}


def simple(found, kind, args):
    """What a browser sends without asking first; beacons are POSTs, tags are GETs."""
    if kind == "beacons":
        return {t for m, t, _ in found if m == "POST"}
    if kind in ("tags", "sources"):
        return {t for m, t, _ in found if m == "GET"}
    if kind == "forms" or args["mode"] == "no-cors":
        return {t for m, t, _ in found if m in ("GET", "POST")}
    return {t for m, t, _ in found}


def check_refused(got, found, kind, args):
    assert {path(t) for _, t, _ in got} >= {path(t) for t in simple(found, kind, args)}, "it was not asked"
    wrong = [(m, t, s) for m, t, s in got if not 400 <= s < 500 and path(t) not in PUBLIC.values()]
    assert not wrong, wrong
    # where the browser says whose page it is, that is why; these two also POST where nothing is posted
    told = {"POST", "GET"} if args.get("mode") == "cors" or kind == "sources" else {"POST"}
    assert {s for m, _, s in got if m in told} <= {403} | ({405} if kind in ("beacons", "forms") else set())


@pytest.mark.parametrize("how", ATTACKS)
def test_API_02_a_page_of_another_origin(node, browser, foreign, tap, box, command, base, how):
    kind, args = ATTACKS[how]
    found = script(routes(node), box, command)
    if kind in ("tags", "sources"):
        found = [r for r in found if r[0] == "GET"]
    if kind == "beacons":
        found = [["POST", t, b] for _, t, b in found]
    browser.ask(page=foreign.url())
    # what anybody may read is read by tags too, and tells the page nothing
    with Untouched(node, box, reads=PUBLIC):
        said = browser.ask(attack=kind, args={"base": base, "routes": found, **args})
        if kind == "beacons":  # the page does not wait for them
            cay.wait_for("the beacons", lambda: tap.came() >= len(found), 20)
    check_refused(tap.answers(), found, kind, args)
    if kind == "fetches":
        assert set(said["result"]) <= {"opaque", "error"}, "nothing is told to the page"


@pytest.mark.parametrize("by", ["srcdoc", "data"])
@pytest.mark.parametrize("how", ["no-cors-text", "form-text"])
def test_API_02_a_page_without_an_origin(node, browser, foreign, tap, box, command, base, how, by):
    """Sandboxed frames and data: URLs send Origin: null."""
    kind, args = ATTACKS[how]
    found = [r for r in script(routes(node), box, command) if r[0] == "POST"]
    browser.ask(page=foreign.url())
    with Untouched(node, box):
        said = browser.ask(attack="nobody", args={"name": kind, "by": by, "args": {"base": base, "routes": found, **args}})
    assert said["result"]["origin"] == "null"
    got = tap.answers()
    check_refused(got, found, kind, args)
    assert {s for _, _, s in got} == {403}


def test_API_03_a_websocket_of_another_origin(node, browser, foreign, tap, box, command, base):
    """Browsers ask nobody before they send one, and let pages read it."""
    token = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
    found = script(routes(node), box, command)
    with Untouched(node, box):
        for protocols in ([], ["cay", "bearer", token, "cay.token." + token, node.operator_key()]):
            for some in batches(found):
                browser.ask(page=foreign.url())
                said = browser.ask(attack="sockets", args={"base": base, "routes": some, "protocols": protocols})
                assert said["result"] == ["error"] * len(some)
                assert sorted(tap.answers()) == refusals(some, found)


def test_a_page_that_is_named_may_ask(browser, foreign):
    """That it was the Origin: the same page, where the settings name it, is asked who it is."""
    with world.World(BUILD, env={"CAY_EDGE_ORIGINS": foreign.url()[:-1]}) as w:
        tap = pages.Tap(("127.0.0.1", 0), w.port)
        browser.ask(page=foreign.url())
        browser.ask(attack="fetches", args={"base": f"{pages.HTTP}127.0.0.1:{tap.port}", "routes": [["POST", "/v1/tenants", "{}"]],
                                            "mode": "no-cors", "headers": {"Content-Type": "text/plain"}})
        assert tap.answers() == [("POST", "/v1/tenants", 401)]
        tap.close()
