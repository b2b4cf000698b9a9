# SPDX-License-Identifier: Apache-2.0
"""Windows and the clipboard of a screen: with xterm, openbox and Chromium as the programs that own and paste"""
import json
import urllib.parse

import cay
import pytest


class Desk:
    def __init__(self, node):
        self.node = node
        self.box = node.create("desktop", limits={"memory_bytes": "2Gi"})
        self.at = f"/v1/sandboxes/{self.box}/screen"

    def act(self, *actions, **fields):
        return self.node.call("POST", self.at + "/actions", {"actions": list(actions), **fields})

    def open_window(self, title):
        """An xterm that keeps what is typed in a file."""
        self.node.exec_detached(self.box, ["xterm", "-T", title, "-e", "sh", "-c", f"cat >/tmp/{title}"])
        cay.wait_for(title, lambda: title in self.titles(), 30)
        return next(w["id"] for w in self.windows() if w["title"] == title)

    def titles(self):
        return [w["title"] for w in self.windows()]

    def refused(self, *actions):
        with pytest.raises(cay.ApiError) as e:
            self.act(*actions)
        return json.loads(e.value.body)["error"]

    def windows(self):
        return self.node.call("GET", self.at)["windows"]

    def clipboard(self):
        return self.node.call("GET", self.at + "/clipboard")["text"]

    def page(self, *actions):
        done = self.node.call("POST", f"/v1/sandboxes/{self.box}/browser/actions", {"actions": list(actions)})
        assert not done.get("error"), done
        return [r.get("value") for r in done["results"]]

    def pasted(self):
        return json.loads(self.page({"type": "evaluate", "script": "document.querySelector('textarea').value"})[0])

    def owners(self):
        """Processes that keep a text on the clipboard."""
        return self.node.exec(self.box, ["sh", "-c", "grep -lx cay-clipboard /proc/[0-9]*/comm | wc -l"]).stdout.strip()


@pytest.fixture(scope="module")
def desk(daemon, desktop_image):
    d = Desk(daemon)
    yield d
    daemon.delete(d.box)


PAGE = "data:text/html," + urllib.parse.quote("<title>page</title><textarea autofocus rows=10 cols=40></textarea>")
STRANGE = "Grüße, 世界 🎉\n\tsecond line \"quoted\" \\ 'x'"


def test_nothing_is_on_it_at_first(desk):
    assert desk.clipboard() == ""


def test_a_text_is_pasted_by_chromium(desk):
    desk.page({"type": "navigate", "url": PAGE}, {"type": "click", "selector": "textarea"})
    for text in ("plain", STRANGE, "x" * 32000):
        desk.act({"type": "copy", "text": text})
        desk.page({"type": "evaluate", "script": "document.querySelector('textarea').value = ''"}, {"type": "click", "selector": "textarea"})
        desk.act({"type": "key", "keys": "ctrl+v"})
        cay.wait_for("the text", lambda: desk.pasted() == text, 10)
        assert desk.clipboard() == text
    assert desk.owners() == b"1", "an earlier one has ended"


@pytest.mark.parametrize("times", [1, 20_000])
def test_what_chromium_copies_is_read(desk, times):
    """More than 256 KiB arrive in pieces."""
    desk.page({"type": "navigate", "url": PAGE}, {"type": "evaluate", "script": f"""
        const t = document.querySelector('textarea'); t.value = {json.dumps(STRANGE)}.repeat({times}); t.focus(); t.select(); 1"""})
    desk.act({"type": "key", "keys": "ctrl+c"})
    cay.wait_for("the text", lambda: desk.clipboard() == STRANGE * times, 20)
    assert desk.owners() == b"0", "Chromium owns it now"


def test_a_text_that_is_too_long_is_refused(desk):
    desk.page({"type": "navigate", "url": PAGE}, {"type": "evaluate", "script": "const t = document.querySelector('textarea'); t.value = 'x'.repeat(1100000); t.focus(); t.select(); 1"})
    desk.act({"type": "key", "keys": "ctrl+c"})
    cay.wait_for("the refusal", lambda: desk.node.open("GET", desk.at + "/clipboard").status == 413, 20)
    assert desk.refused({"type": "copy", "text": "x" * 32769})["field"] == "actions[0].text"


def test_windows_come_to_the_front_and_get_what_is_typed(desk):
    windows = {title: desk.open_window(title) for title in ("first", "second")}
    for title in ("first", "second", "first"):
        desk.act({"type": "focus", "window": windows[title]}, {"type": "type", "text": f"for {title}\n"})
        assert [w["title"] for w in desk.windows() if w["active"]] == [title]
    for title, lines in ("first", 2), ("second", 1):
        cay.wait_for("the lines", lambda: desk.node.exec(desk.box, ["cat", f"/tmp/{title}"]).stdout.decode() == f"for {title}\n" * lines, 10)


def test_a_window_is_closed(desk):
    stays, goes = desk.open_window("stays"), desk.open_window("goes")
    desk.act({"type": "close", "window": goes})
    cay.wait_for("its end", lambda: "goes" not in desk.titles(), 10)
    assert stays in [w["id"] for w in desk.windows()]
    error = desk.refused({"type": "focus", "window": goes})
    assert error["code"] == "not_found" and "window" in error["message"]


def test_other_windows_than_those_of_the_list_are_refused(desk):
    """The root, and windows that no manager lists, get no messages of ours."""
    desk.open_window("listed")
    for window in (1, 4294967295):
        assert desk.refused({"type": "close", "window": window})["code"] == "not_found"
    assert desk.refused({"type": "focus"})["field"] == "actions[0].window"
    assert desk.refused({"type": "copy"})["field"] == "actions[0].text"
    assert desk.refused({"type": "click", "x": 1, "y": 1, "window": 5})["field"] == "actions[0].window"
