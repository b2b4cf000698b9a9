# SPDX-License-Identifier: Apache-2.0
"""The browser of a sandbox of the image `desktop`: a real Chromium, and pages that report what reached them"""
import base64
import json
import pathlib
import re
import struct
import subprocess
import time
import urllib.request

import pytest

import cay

pytestmark = pytest.mark.one_lane  # its sandboxes
TREE = pathlib.Path(__file__).parents[3]
SERVER = (TREE / "tests/fixtures/browser/server.py").read_text()
PORT = 8000
HOME = f"http://127.0.0.1:{PORT}"


class Browser:
    """A sandbox with a web server in it."""

    def __init__(self, node):
        self.node = node
        self.box = node.create("desktop", limits={"memory_bytes": "2Gi", "shm_bytes": "256Mi"})
        self.at = f"/v1/sandboxes/{self.box}/browser"
        self.server = node.exec_detached(self.box, ["python3", "-c", SERVER, str(PORT)])
        node.call("GET", f"/v1/sandboxes/{self.box}/ports/{PORT}?wait_ms=10000")
        self.read = 0

    def info(self):
        return self.node.call("GET", self.at)

    def act(self, *actions, **fields):
        return self.node.call("POST", self.at + "/actions", {"actions": list(actions), **fields})

    def do(self, *actions, **fields):
        """Actions that must all be done."""
        done = self.act(*actions, **fields)
        assert done["done"] == len(actions), done.get("error")
        return done

    def open(self, path, **fields):
        return self.do({"type": "navigate", "url": HOME + path}, **fields)

    def snapshot(self, **query):
        return self.node.call("GET", self.at + "/snapshot?" + "&".join(f"{k}={v}" for k, v in query.items()))

    def ref(self, line, **query):
        """The reference in the one line that begins so."""
        text = self.snapshot(**{"filter": "all", "max_chars": 100000, **query})["text"]
        [found] = [l for l in text.splitlines() if l.startswith("- " + line)]
        return re.search(r"\[(ref_\d+)\]", found)[1]

    def logged(self):
        whole = self.node.exec_output(self.box, self.server).rpartition(b"\n")[0]
        return [json.loads(l) for l in whole.splitlines()]

    def reports(self):
        """What pages reported since the last call."""
        lines = self.logged()
        new, self.read = lines[self.read:], len(lines)
        return [l for l in new if "get" not in l]

    def report(self, key):
        cay.wait_for(f"a report of {key}", lambda: any(key in l for l in self.logged()[self.read:]) or None, 10)
        return [l for l in self.reports() if key in l]


@pytest.fixture(scope="module")
def node(daemon, desktop_image):
    assert desktop_image == "desktop"
    return daemon


@pytest.fixture(scope="module")
def browser(node):
    b = Browser(node)
    b.open("/")
    yield b
    node.delete(b.box)


@pytest.fixture
def form(browser):
    browser.open("/")
    browser.reports()
    return browser


def told(e):
    return json.loads(e.value.body)["error"]


def refused(browser, code, *actions, **fields):
    with pytest.raises(cay.ApiError) as e:
        browser.act(*actions, **fields)
    assert e.value.code == code, e.value
    return told(e)


def test_a_browser_starts_with_the_first_action_and_says_so(node):
    b = Browser(node)
    assert b.info() == {"running": False, "tabs": []}
    with pytest.raises(cay.ApiError) as e:
        b.snapshot()
    assert e.value.code == "wrong_state" and "browser.act starts" in told(e)["hint"]
    done = b.open("/second", snapshot="all")
    assert done["results"] == [{"status": 200}]
    assert done["page"]["title"] == "Second" and done["page"]["url"] == HOME + "/second"
    heading, link = done["page"]["text"].splitlines()
    assert heading == '- heading 2 "Second page"' and re.fullmatch(r'- link "Back" \[ref_\d{4,}\]', link)
    info = b.info()
    assert info["running"] and re.fullmatch(r"(Headless)?Chrome/[\d.]+", info["version"])
    assert [(t["title"], t["url"], t["active"]) for t in info["tabs"]] == [("Second", HOME + "/second", True)]
    # killed: the next action starts it again, on the same profile
    node.exec(b.box, ["pkill", "-9", "-f", "user-data-dir"])
    cay.let_pass(1)
    assert not b.info()["running"]
    assert b.open("/second")["page"]["title"] == "Second"
    # a program that starts the browser opens a tab of this one
    node.exec_detached(b.box, ["chromium", HOME + "/late"])
    cay.wait_for("a tab", lambda: [t for t in b.info()["tabs"] if t["url"].endswith("/late")] or None, 20)
    node.delete(b.box)


def test_an_image_without_a_browser_says_so(node, base_image):
    box = node.create(base_image)
    with pytest.raises(cay.ApiError) as e:
        node.call("GET", f"/v1/sandboxes/{box}/browser")
    assert e.value.code == "unsupported" and "desktop" in told(e)["hint"]
    # one whose profile is what an attacker chose
    for file in ("/dev/zero", "/proc/self/mem", "/workspace"):
        other = node.create(base_image, env={"BROWSER_PROFILE": "/workspace"})
        node.exec(other, ["ln", "-s", file, "/workspace/DevToolsActivePort"])
        with pytest.raises(cay.ApiError) as e:
            node.call("POST", f"/v1/sandboxes/{other}/browser/actions", {"actions": []})
        assert e.value.code == "wrong_state"
        node.delete(other)
    node.delete(box)


def test_a_snapshot_has_what_a_person_sees(form):
    seen = form.snapshot()
    assert seen["title"] == "Form & more" and seen["url"] == HOME + "/" and seen["left"] == 0
    lines = [re.sub(r" \[ref_\d+\]", "", l) for l in seen["text"].splitlines()]
    for line in ['- heading 1 "Order form"', '- link "link to the second page"', '- textbox "Name" required', '- textbox "Mail"',
                 '- textbox "Password" = (hidden)', '- textbox "Notes" = "old notes"', '- combobox "Size" = "Medium"', '- checkbox "A gift"',
                 '- radio "Red"', '- radio "Blue"', '- date "Day"', '- slider "Amount" = "3"', '- file "File"', '- textbox "Rich" = "rich"',
                 '- button "Send"', '- button "Not now" disabled', '- button "Press me"', '- clickable "Plain box"', '- button "In the shadow"',
                 '- text "City | People"', '- text "Bern | 134,000"']:
        assert line in lines, (line, seen["text"])
    assert "hunter2" not in seen["text"] and "Unseen" not in seen["text"] and "Far below" not in seen["text"]
    everything = form.snapshot(filter="all", max_chars=50000)["text"]
    assert '- button "Far below"' in everything and '  - option "Large one"' in everything and '- button "Inside"' in everything
    controls = form.snapshot(filter="interactive")["text"]
    assert "- text " not in controls and '- button "Far below"' in controls
    text = form.snapshot(filter="text")["text"]
    assert "Some words, bold ones, and a link to the second page." in text and "ref_" not in text
    part = form.snapshot(ref=form.ref('textbox "Notes"'), filter="all")["text"].splitlines()
    assert len(part) == 1 and part[0].startswith('- textbox "Notes"')
    short = form.snapshot(filter="all", max_chars=300)
    assert len(short["text"]) <= 300 and short["left"] > 10 and short["text"] == everything[:len(short["text"])]


ARTICLE = f"""# On *bread*

Flour, water and **salt**: see [the second page]({HOME}/second) or nothing.
It takes `12 h`.

## Steps

3. Mix
   - by hand
   - or not
4. Wait

> Bread is slow.
>
> So am I.

````
oven:
  heat = 250 ```
````

| Flour | g |
| --- | --- |
| rye \\| wheat | 500 |
| water |  |

In contents. ![A loaf]({HOME}/x.png)

---

In the shadow.

In a form.

Written by a script."""


def test_a_page_is_read_as_markdown(browser):
    """Its main part: what a person reads, written as CommonMark and its tables have it."""
    browser.open("/article")
    read = browser.snapshot(filter="markdown")
    assert read["text"] == ARTICLE and read["left"] == 0 and read["title"] == "On bread"
    short = browser.snapshot(filter="markdown", max_chars=100)
    assert short["text"] == ARTICLE[:100] and short["left"] == len(ARTICLE) - 100
    done = browser.act({"type": "navigate", "url": HOME + "/"}, snapshot="markdown")
    assert "| Bern | 134,000 |" in done["page"]["text"] and "hunter2" not in done["page"]["text"], "without a main part it is the whole page"


def test_references_stay_and_end_with_their_page(form):
    first = form.snapshot(filter="all", max_chars=50000)["text"]
    assert form.snapshot(filter="all", max_chars=50000)["text"] == first
    ref = form.ref('button "Press me"')
    form.open("/second")
    done = form.act({"type": "click", "ref": "ref_77"}, snapshot="all")
    assert done["done"] == 0 and done["field"] == "actions[0]" and "take a new snapshot" in done["error"]
    assert "Second page" in done["page"]["text"], "a failed action must not cost the snapshot"
    assert ref


def test_clicks_land_on_their_element(form):
    press = form.ref('button "Press me"')
    form.do({"type": "click", "ref": press}, {"type": "click", "ref": press, "clicks": 2, "keys": "ctrl"})
    form.report("double")
    form.do({"type": "click", "ref": press})
    assert form.report("pressed")
    for line, key in (('button "In the shadow"', "shadow"), ('button "Far below"', "far"), ('button "Inside"', "inner"),
                      ('clickable "Plain box"', "pointer")):
        form.do({"type": "click", "ref": form.ref(line)})
        assert form.report(key), line
    form.do({"type": "click", "ref": press, "button": "right"})
    assert form.report("context") == [{"context": "press"}]
    form.do({"type": "scroll", "direction": "up", "amount": 100})
    cay.let_pass(0.3)
    box = json.loads(form.do({"type": "evaluate", "script": "(r => [r.x, r.y])(document.getElementById('pointer').getBoundingClientRect())"})
                     ["results"][0]["value"])
    form.do({"type": "click", "x": int(box[0]) + 30, "y": int(box[1]) + 5})
    assert form.report("pointer") == [{"pointer": [int(box[0]) + 30, int(box[1]) + 5]}]
    done = form.act({"type": "click", "ref": form.ref('button "Under"')})
    assert done["done"] == 0 and "is covered by dialog \"Cookie banner\"" in done["error"]
    form.do({"type": "drag", "ref": form.ref('button "Drag"'), "to_ref": form.ref('button "Drop"')})
    assert form.report("drag") == [{"drag": "down"}, {"drag": "up"}]


def test_a_form_is_filled_in_and_sent(form):
    form.node.exec(form.box, ["sh", "-c", "echo one > /workspace/a.txt; echo two > /workspace/b.txt"])
    fill = {'textbox "Name"': "Ada Lovelace", 'textbox "Mail"': "ada@example.com", 'textbox "Notes"': "日本語 😀\nsecond", 'combobox "Size"': "Large one",
            'checkbox "A gift"': "true", 'radio "Blue"': "true", 'date "Day"': "2026-11-18", 'slider "Amount"': "7", 'textbox "Rich"': "new"}
    form.do(*({"type": "fill", "ref": form.ref(line), "text": text} for line, text in fill.items()),
            {"type": "upload", "ref": form.ref('file "File"'), "paths": ["/workspace/a.txt", "/workspace/b.txt"]})
    assert '- file "File"' in form.snapshot()["text"] and 'a.txt, b.txt' in form.snapshot()["text"]
    assert '= "new"' in form.snapshot()["text"]
    form.do({"type": "click", "ref": form.ref('button "Send"')})
    [sent] = form.report("submitted")
    sent["submitted"].pop("file")
    assert sent["submitted"] == {"name": "Ada Lovelace", "mail": "ada@example.com", "secret": "hunter2", "notes": "日本語 😀\r\nsecond".replace("\r", ""),
                                 "size": "l", "gift": "on", "color": "blue", "day": "2026-11-18", "amount": "7"} or \
        sent["submitted"]["notes"].replace("\r", "") == "日本語 😀\nsecond"
    form.do({"type": "fill", "ref": form.ref('textbox "Name"'), "text": ""})
    assert '- textbox "Name"' in form.snapshot()["text"] and "Ada" not in form.snapshot()["text"]
    for line, text, why in (('combobox "Size"', "Huge", "no such option"), ('date "Day"', "yesterday", "not a value"), ('checkbox "A gift"', "yes", "'true' or 'false'"),
                            ('file "File"', "x", "upload"), ('button "Not now"', "x", "disabled"), ('button "Send"', "x", "no text")):
        done = form.act({"type": "fill", "ref": form.ref(line), "text": text})
        assert done["done"] == 0 and why in done["error"], done


def test_keys_are_those_of_a_keyboard(form):
    mail = form.ref('textbox "Mail"')
    form.do({"type": "click", "ref": mail}, {"type": "type", "text": "aB1 é"}, {"type": "press", "keys": "ctrl+a Backspace Enter", "repeat": 1})
    cay.wait_for("the keys", lambda: [l for l in form.logged()[form.read:] if l.get("key") == "Enter"] or None, 10)
    keys = form.report("key")
    assert all(k["trusted"] for k in keys)
    assert [(k["key"], k["code"], k["ctrl"]) for k in keys] == [("a", "KeyA", False), ("B", "KeyB", False), ("1", "Digit1", False), (" ", "Space", False),
                                                              ("a", "KeyA", True), ("Backspace", "Backspace", False), ("Enter", "Enter", False)]
    value = form.do({"type": "evaluate", "script": "document.getElementById('mail').value"})["results"][0]["value"]
    assert json.loads(value) == "", "ctrl+a and Backspace must have deleted all"


def test_pages_are_walked(browser):
    browser.open("/")
    browser.do({"type": "click", "ref": browser.ref('link "link to')})
    assert browser.snapshot()["title"] == "Second"
    assert browser.do({"type": "back"})["page"]["title"] == "Form & more"
    assert browser.do({"type": "forward"})["page"]["title"] == "Second"
    assert browser.do({"type": "reload"})["page"]["title"] == "Second"
    done = browser.act({"type": "forward"})
    assert done["done"] == 0 and "no page after" in done["error"]
    done = browser.do({"type": "navigate", "url": HOME + "/missing"})
    assert done["results"] == [{"status": 404}] and done["page"]["title"] == "Missing"
    assert browser.do({"type": "navigate", "url": HOME + "/slow"})["page"]["title"] == "Slow"
    done = browser.act({"type": "navigate", "url": HOME + "/redirect"})
    assert done["done"] == 0 and "ERR_TOO_MANY_REDIRECTS" in done["error"]
    done = browser.act({"type": "navigate", "url": "http://127.0.0.1:9/"})
    assert done["done"] == 0 and "the page did not load" in done["error"]


def test_scripts_return_their_values(browser):
    browser.open("/second")
    values = {"1 + 1": "2", "document.title": '"Second"', "[1, {a: null}]": '[1,{"a":null}]', "undefined": None, "await Promise.resolve('later')": '"later"',
              "const twice = 2; twice": "2", "'\\ud800 and \\0'": '"\\ufffd and \\ufffd"'}
    for script, value in values.items():
        [result] = browser.do({"type": "evaluate", "script": script})["results"]
        assert json.loads(result["value"]) == json.loads(value) if value else "value" not in result, script
    done = browser.act({"type": "evaluate", "script": "nothing.there"})
    assert done["done"] == 0 and "ReferenceError: nothing is not defined" in done["error"]
    done = browser.act({"type": "evaluate", "script": "'x'.repeat(2_000_000)"})
    assert done["done"] == 0 and "bytes" in done["error"]


def test_waiting_ends_with_the_text(browser):
    begun = time.monotonic()
    browser.open("/late")
    browser.do({"type": "wait", "text": "it is here", "duration_ms": 20000})
    assert time.monotonic() - begun < 15
    done = browser.act({"type": "wait", "text": "never", "duration_ms": 300})
    assert done["done"] == 0 and "did not appear" in done["error"]


def test_dialogs_are_dismissed_and_told(browser):
    browser.open("/dialogs")
    browser.reports()
    done = browser.do({"type": "click", "ref": browser.ref('button "Ask"')})
    assert done["changes"] == ['dismissed a dialog of the page: "first"', 'dismissed a dialog of the page: "Sure?"', 'dismissed a dialog of the page: "Name?"', 'dismissed a dialog of the page: "a -  line"']
    assert browser.report("answers") == [{"answers": [None, False, None, None]}]


def test_tabs_open_close_and_are_chosen(browser):
    for t in browser.info()["tabs"][1:]:
        browser.do({"type": "tab_close"}, tab=t["id"])
    browser.open("/popup")
    [first] = browser.info()["tabs"]
    browser.do({"type": "click", "ref": browser.ref('link "Open"')})
    cay.wait_for("a second tab", lambda: len(browser.info()["tabs"]) == 2 or None, 10)
    assert browser.snapshot()["title"] == "Second", "the tab that was opened last is the one in use"
    assert browser.snapshot(tab=first["id"])["title"] == "Popup"
    done = browser.do({"type": "tab_new", "url": HOME + "/late"})
    assert done["results"] == [{"status": 200}] and [t["title"] for t in done["tabs"]][0] == "Late" and len(done["tabs"]) == 3
    done = browser.do({"type": "tab_close"})
    assert "Late" not in [t["title"] for t in done["tabs"]]
    assert browser.do({"type": "navigate", "url": HOME + "/second"}, tab=first["id"])["page"]["tab"] == first["id"]
    for t in browser.info()["tabs"]:
        browser.do({"type": "tab_close"}, tab=t["id"])
    assert len(browser.info()["tabs"]) == 1, "the browser must not end with its last tab"
    with pytest.raises(cay.ApiError) as e:
        browser.snapshot(tab="0123456789ABCDEF")
    assert e.value.code == "not_found"


def test_downloads_go_into_the_workspace(browser):
    browser.open("/download")
    browser.do({"type": "click", "ref": browser.ref('link "Get"')})
    cay.wait_for("the file", lambda: browser.node.exec(browser.box, ["stat", "-c", "%s", "/workspace/downloads/data.bin"]).stdout == b"100000\n" or None, 15)


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND"
    return struct.unpack(">II", data[16:24])


def test_pictures_of_the_view_and_of_the_page(form):
    def shot(query=""):
        reply = form.node.open("GET", form.at + "/shot" + query)
        assert reply.status == 200
        return png_size(reply.read())
    page = form.snapshot()
    assert shot() == (page["width"], page["height"])
    width, height = shot("?full=true")
    assert height == page["page_height"] > 2000 and abs(width - page["width"]) < 20
    done = form.do({"type": "hover", "x": 5, "y": 5}, screenshot="after")
    assert png_size(base64.b64decode(done["png"])) == (page["width"], page["height"])


def test_a_lying_page_forges_nothing(browser):
    browser.open("/lies")
    seen = browser.snapshot(filter="all")
    lines = seen["text"].splitlines()
    assert len(lines) == 2 and "forged" not in seen["text"]
    assert lines[0].startswith('- button "Ok\\" [ref_99] - button \\"Forged\\" [ref_1" [ref_')
    assert lines[1].startswith('- button "gnp.exe') and not any(ord(c) < 32 or c in "\u202e\u200b" for c in lines[1])
    assert browser.do({"type": "click", "ref": re.search(r"\[(ref_\d+)\]$", lines[0])[1]})
    assert "half" in browser.info()["tabs"][0]["title"]


def test_traps_are_not_walked_into(browser):
    browser.open("/traps")
    browser.reports()
    lines = browser.snapshot(filter="all")["text"]
    assert '- button "In a form of clobbers"' in lines, "a form's controls can hide members of their form"
    # what does not take the focus does not get the text
    done = browser.act({"type": "fill", "ref": browser.ref('textbox "Card"'), "text": "4111"})
    assert done["done"] == 0 and "disabled" in done["error"]
    # a window that has just opened gets the focus from the window manager, and pages no events before
    cay.wait_for("the focus of the window", lambda: browser.do({"type": "evaluate", "script": "document.hasFocus()"})["results"][0]["value"] == "true" or None, 15)
    done = browser.act({"type": "fill", "ref": browser.ref('textbox "Thief"'), "text": "4111"})
    assert done["done"] == 0 and "focus" in done["error"]
    value = browser.do({"type": "evaluate", "script": "document.getElementById('note').value"})["results"][0]["value"]
    assert value == '""'
    # what covers an iframe covers what is in it; what scrolls is scrolled
    done = browser.act({"type": "click", "ref": browser.ref('button "Inside"')})
    assert done["done"] == 0 and 'covered by button "Accept all"' in done["error"]
    browser.do({"type": "click", "ref": browser.ref('button "In a box that scrolls"')})
    assert browser.report("scrolled")
    browser.do({"type": "click", "ref": browser.ref('button "In a frame with padding"')})
    assert browser.report("padded")
    done = browser.act({"type": "click", "ref": browser.ref('button "A bank"')})
    assert done["done"] == 0 and "covered by iframe" in done["error"]
    # both ends of a drag are where they were found
    done = browser.act({"type": "drag", "ref": browser.ref('button "Top"'), "to_ref": browser.ref('button "Bottom"')})
    assert done["done"] == 0 and "in view together" in done["error"]
    # a reference of another page names nothing
    ref = browser.ref('button "Top"')
    browser.open("/traps")
    assert ref not in browser.snapshot(filter="all")["text"]


def test_what_was_done_is_told_when_the_rest_fails(browser):
    browser.open("/")
    browser.reports()
    done = browser.act({"type": "click", "selector": "#press"}, {"type": "evaluate", "script": "for (;;);"}, timeout_ms=4000)
    assert done["done"] == 1 and done["field"] == "actions[1]" and "cannot be described" in done["changes"][-1]
    assert browser.report("pressed")
    browser.do({"type": "tab_close"})
    begun = time.monotonic()
    browser.act({"type": "navigate", "url": HOME + "/slow"}, timeout_ms=1000)
    assert time.monotonic() - begun < 10
    values = browser.do({"type": "navigate", "url": HOME + "/second"}, *({"type": "evaluate", "script": s} for s in ("0/0", "10n")))["results"][1:]
    assert [v["value"] for v in values] == ['"NaN"', '"10n"']
    done = browser.act({"type": "evaluate", "script": "Array(300000).fill(0)"})
    assert done["done"] == 0 and "too large" in done["error"] and done["page"]["title"] == "Second"


def test_a_console_and_addresses_without_end(browser):
    browser.open("/second")
    browser.do({"type": "evaluate", "script": "console.log('x'.repeat(26e6)); history.pushState(0, '', '#' + 'a'.repeat(1e6)); 1"})
    assert browser.snapshot()["title"] == "Second" and len(browser.info()["tabs"][0]["url"]) <= 2048
    browser.open("/nested")
    assert browser.snapshot()["title"] == "Nested"


def test_hostile_pages_cost_one_request(browser):
    browser.open("/large")
    begun = time.monotonic()
    seen = browser.snapshot(filter="all")
    assert len(seen["text"]) <= 12000 and seen["left"] > 10000 and time.monotonic() - begun < 15
    begun = time.monotonic()
    assert len(browser.snapshot(filter="markdown")["text"]) <= 12000 and time.monotonic() - begun < 15
    browser.open("/deep")
    assert browser.snapshot(filter="text")["text"] == "bottom"
    for reading in "all", "markdown":
        browser.snapshot(filter=reading)
    browser.open("/loop")
    loop = browser.ref('button "Loop"')
    try:
        browser.act({"type": "click", "ref": loop}, timeout_ms=5000)
    except cay.ApiError as e:
        assert e.code == "deadline_exceeded"
    browser.do({"type": "tab_close"}, {"type": "navigate", "url": HOME + "/second"})
    browser.open("/busy")
    cay.let_pass(0.5)
    with pytest.raises(cay.ApiError) as e:
        browser.act({"type": "evaluate", "script": "1"})
    assert e.value.code == "deadline_exceeded" and "tab_close" in told(e)["hint"]
    assert browser.do({"type": "tab_close"}, {"type": "navigate", "url": HOME + "/second"})["page"]["title"] == "Second"


def test_a_page_that_crashes_costs_one_request(browser):
    browser.open("/second")
    renderers = "pgrep -f 'type=renderer' | xargs kill -9"
    browser.node.exec(browser.box, ["sh", "-c", renderers])
    cay.let_pass(0.5)
    done = browser.do({"type": "navigate", "url": HOME + "/second"})
    assert done["page"]["title"] == "Second" and "the page of this tab had crashed" in done["changes"]
    done = browser.act({"type": "evaluate", "script": "1"}, {"type": "navigate", "url": "chrome://crash"}, {"type": "wait", "duration_ms": 5000})
    assert done["done"] in (1, 2) and ("crashed" in done["error"] or "ERR_ABORTED" in done["error"])
    assert browser.open("/second")["page"]["title"] == "Second"


def test_a_dialog_that_opened_between_requests(browser):
    browser.open("/second")
    browser.do({"type": "evaluate", "script": "setTimeout(() => alert('later'), 600); 1"})
    cay.let_pass(1.5)
    try:
        browser.do({"type": "evaluate", "script": "1"})
    except cay.ApiError as e:
        assert e.code == "deadline_exceeded"
        browser.node.call("POST", f"/v1/sandboxes/{browser.box}/screen/actions", {"actions": [{"type": "key", "keys": "Return"}]})
        browser.do({"type": "evaluate", "script": "1"})


def test_a_page_cannot_reach_devtools(browser):
    browser.open("/second")
    browser.reports()
    browser.do({"type": "navigate", "url": f"{HOME}/probe#{browser.info()['port']}"})
    [found] = browser.report("probe")
    assert set(found["probe"].values()) == {"refused"}, found
    assert not [t for t in browser.info()["tabs"] if t["url"] == "about:blank"]


def command(browser, *words):
    return [str(browser.node.programs["cay"]), "browser", *words], {**browser.node.env, "CAY_SOCKET": str(browser.node.run / "control.sock")}


def cli(browser, what, *words, status=0):
    argv, env = command(browser, what, browser.box, *words)
    done = subprocess.run(argv, capture_output=True, env=env, timeout=60)
    assert done.returncode == status, (done.stdout, done.stderr)
    return (done.stdout if status == 0 else done.stderr).decode(errors="replace")


def test_the_commands_do_what_the_guide_says(form):
    shown = cli(form, "open", HOME + "/")
    assert shown.splitlines()[0] == f"{HOME}/  Form & more" and '- heading 1 "Order form"' in shown
    name = form.ref('textbox "Name"')
    assert f"[{name}]" in cli(form, "read", "--show", "interactive")
    assert '= "Ada"' in cli(form, "fill", name, "Ada")
    cli(form, "press", "Tab")
    assert cli(form, "eval", "document.activeElement.id") == '"mail"\n'
    cli(form, "click", form.ref('button "Press me"'))
    assert form.report("pressed")
    assert "is covered by" in cli(form, "click", form.ref('button "Under"'), status=2)
    argv, env = command(form, "shot", form.box)
    assert png_size(subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True).stdout)[0] > 500
    assert "Form & more" in cli(form, "tabs")


def test_connect_prints_a_url_for_other_programs(browser):
    argv, env = command(browser, "connect", browser.box)
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        url = run.stdout.readline().strip()
        with urllib.request.urlopen(url + "/json/version", timeout=20) as reply:
            assert json.load(reply)["Browser"] == browser.info()["version"]
        run.terminate()


def test_what_is_wrong_is_refused_before_anything_is_done(browser):
    browser.open("/second")
    ok = {"type": "evaluate", "script": "document.title = 'changed'"}
    for action, field in (({"type": "click"}, "ref"), ({"type": "click", "x": 1}, "y"), ({"type": "click", "ref": "ref_1", "x": 1, "y": 1}, "ref"),
                          ({"type": "navigate", "url": "example.com"}, "url"), ({"type": "navigate", "url": "javascript:alert(1)"}, "url"),
                          ({"type": "press", "keys": "ctrl+Bogus"}, "keys"), ({"type": "press", "keys": "ctrl"}, "keys"),
                          ({"type": "press", "keys": "a b", "duration_ms": 1}, "duration_ms"), ({"type": "press", "keys": "a", "repeat": 2, "duration_ms": 1}, "duration_ms"),
                          ({"type": "click", "ref": "ref_1", "keys": "a"}, "keys"), ({"type": "fill", "ref": "ref_1"}, "text"),
                          ({"type": "back", "text": "x"}, "text"), ({"type": "drag", "ref": "ref_1"}, "to_ref"), ({"type": "wait"}, "duration_ms"),
                          ({"type": "upload", "ref": "ref_1"}, "paths"), ({"type": "evaluate"}, "script")):
        error = refused(browser, "invalid_argument", ok, action)
        assert error["field"] == f"actions[1].{field}", (action, error)
    assert browser.snapshot()["title"] == "Second"
    error = refused(browser, "invalid_argument", {"type": "wait", "duration_ms": 60000})
    assert error["field"] == "actions"
    assert refused(browser, "invalid_argument", ok, tab="../list")["field"] == "tab"
    for query, field in ("width=10", "height"), ("width=10&height=10&full=true", "width"), ("x=5000&width=10&height=10", "width"):
        assert json.loads(browser.node.open("GET", browser.at + "/shot?" + query).read())["error"]["field"] == field
