# SPDX-License-Identifier: Apache-2.0
"""The tools of screens in four profiles, with an X client of libX11 that reports what reached it, and real programs"""
import base64
import json
import pathlib

import cay
import mcp
import pytest
import unpacked
from nodes import BUILD
from tool_user import ToolUser, using

pytestmark = pytest.mark.one_lane  # its sandboxes
CLIENT = (pathlib.Path(__file__).parents[3] / "tests/fixtures/screen/x_client.py").read_text()
SHIFT = 1


@pytest.fixture(scope="module")
def desk():
    with mcp.McpWorld(BUILD, {"CAY_MCP_TEMPLATE": "desk"}) as w, unpacked.lent(w, "desktop"):
        w.call("POST", "/v1/templates", {"name": "desk", "defaults": {"image": "desktop", "limits": {"memory_bytes": "1Gi"}, "env": {"SCREEN_SIZE": "1280x800"}}})
        yield w


class Tools(ToolUser):
    """Its sandbox has the client over its whole screen."""

    def __init__(self, node, profile, start):
        super().__init__(node, profile, start)
        self.watch = node.exec_detached(self.box, ["python3", "-c", CLIENT, "watch"])
        self.read = 0
        cay.wait_for("the client's window", lambda: self.lines(), 30)
        self.read = 1

    def lines(self):
        return [json.loads(l) for l in self.node.exec_output(self.box, self.watch).rpartition(b"\n")[0].splitlines()]

    def got(self, n):
        """The next n events: (down|up, button, x, y) or the key's text."""
        cay.wait_for(f"{n} events", lambda: len(self.lines()) >= self.read + n, 10)
        new = self.lines()[self.read:]
        self.read += len(new)
        return [(k, e[k], e["x"], e["y"]) if (k := next(iter(e))) in ("down", "up") else e.get("text") or e["key"] for e in new]


@pytest.fixture
def tools(desk, request):
    t = Tools(desk, *request.param)
    yield t
    t.end()


def click(button, x, y, times=1):
    return [("down", button, x, y), ("up", button, x, y)] * times


@using("computer", "cursor_position")
def test_anthropics_computer_toolset(tools):
    assert tools("mouse_move", coordinate=[11, 12]) == "Moved the mouse." and tools("cursor_position") == "X=11,Y=12"
    for tool, said, button, times in [("left_click", "Clicked.", 1, 1), ("right_click", "Right-clicked.", 3, 1), ("middle_click", "Middle-clicked.", 2, 1),
                                      ("double_click", "Double-clicked.", 1, 2), ("triple_click", "Triple-clicked.", 1, 3)]:
        assert tools(tool, coordinate=[30, 40]) == said and tools.got(2 * times) == click(button, 30, 40, times), tool
    tools("left_click", coordinate=[5, 6], text="shift")
    assert tools.got(3)[1:] == click(1, 5, 6) and tools.lines()[-2]["state"] & SHIFT
    tools("mouse_move", coordinate=[50, 60])
    assert "down" in tools("left_mouse_down") and tools.got(1) == [("down", 1, 50, 60)]
    assert "up" in tools("left_mouse_up") and tools.got(1) == [("up", 1, 50, 60)]
    assert tools("left_click_drag", start_coordinate=[10, 20], coordinate=[200, 150]) == "Dragged."
    assert tools.got(2) == [("down", 1, 10, 20), ("up", 1, 200, 150)]
    assert tools("scroll", scroll_direction="down", scroll_amount=3, coordinate=[7, 8]) == "Scrolled down." and tools.got(6) == click(5, 7, 8, 3)
    assert tools("type", text="aü") == "Typed." and tools.got(2) == ["a", "ü"]
    assert tools("key", text="b", repeat=3) == "Pressed b." and tools.got(3) == ["b"] * 3
    assert tools("hold_key", text="c", duration=0.2) == "Held c for 0.2s." and tools.got(1)[0] == "c"
    assert tools("wait", duration=0.1) == "Waited 0.1s."
    [picture], [region] = tools.content("screenshot", {}), tools.content("zoom", {"region": [0, 0, 64, 40]})
    assert base64.b64decode(picture["data"])[16:24] == (1280).to_bytes(4, "big") + (800).to_bytes(4, "big")
    assert base64.b64decode(region["data"])[16:24] == (64).to_bytes(4, "big") + (40).to_bytes(4, "big")
    assert "outside of the picture" in tools("left_click", True, coordinate=[1280, 1])


@using("openai", "computer", actions=[{"type": "screenshot"}])
def test_openais_computer(tools):
    def does(*actions):
        [picture] = tools.content("computer", {"actions": list(actions)})
        assert picture["mimeType"] == "image/png"
        return tools
    assert does({"type": "click", "x": 1, "y": 2, "button": "wheel"}).got(2) == click(2, 1, 2)
    assert does({"type": "double_click", "x": 3, "y": 4}).got(4) == click(1, 3, 4, 2)
    assert does({"type": "move", "x": 5, "y": 6}, {"type": "scroll", "x": 5, "y": 6, "scroll_x": 0, "scroll_y": -200}).got(4) == click(4, 5, 6, 2)
    assert does({"type": "drag", "path": [{"x": 10, "y": 20}, {"x": 90, "y": 80}]}).got(2) == [("down", 1, 10, 20), ("up", 1, 90, 80)]
    assert does({"type": "drag", "path": [{"x": 10, "y": 20}, {"x": 50, "y": 50}, {"x": 99, "y": 88}]}).got(2) == [("down", 1, 10, 20), ("up", 1, 99, 88)]
    assert does({"type": "type", "text": "hi"}, {"type": "keypress", "keys": ["ENTER"]}, {"type": "keypress", "keys": [" "]}).got(4) == ["h", "i", "\n", " "]
    does({"type": "keypress", "keys": ["ARROWUP"]})
    assert tools.got(1) == [0xff52]
    does({"type": "keypress", "keys": ["CTRL", "A"]})
    assert [e["state"] & 4 for e in tools.lines()[tools.read:] if e.get("text") in ("a", "A")] == [4]


@using("sandboxhub", "take_screenshot")
def test_sandboxhub(tools):
    def does(tool, **arguments):
        text, picture = tools.content(tool, arguments)
        assert text["text"].endswith("a screenshot.") and picture["mimeType"] == "image/png"
        return tools
    assert json.loads(tools("get_screen_info")) == {"display_width_px": 1280, "display_height_px": 800, "display_number": None, "actual_width_px": 1280, "actual_height_px": 800}
    for button, number, times in [("left_click", 1, 1), ("right_click", 3, 1), ("middle_click", 2, 1), ("double_click", 1, 2), ("triple_click", 1, 3)]:
        assert does("click_at", x=30, y=40, button=button).got(2 * times) == click(number, 30, 40, times), button
    assert does("click_at", x=31, y=41).got(2) == click(1, 31, 41)
    does("move_mouse", x=9, y=8)
    assert json.loads(tools("get_cursor_position")) == {"x": 9, "y": 8}
    assert does("drag_mouse", start_x=10, start_y=20, end_x=60, end_y=70).got(2) == [("down", 1, 10, 20), ("up", 1, 60, 70)]
    assert does("scroll", direction="up").got(6) == click(4, 60, 70, 3) and does("scroll", direction="right", amount=1, x=5, y=5).got(2) == click(7, 5, 5)
    assert does("type_text", text="hé").got(2) == ["h", "é"] and does("press_key", key="Return").got(1) == ["\n"]
    does("wait_and_screenshot", seconds=0.1)
    assert tools.content("zoom_screen", {"x0": 0, "y0": 0, "x1": 9, "y1": 9})[1]["mimeType"] == "image/png"
    assert tools("get_clipboard") == "" and "clipboard" in tools("set_clipboard", content="kept ü") and tools("get_clipboard") == "kept ü"
    tools.node.signal(tools.box, tools.watch)
    for title in ("one", "two"):
        tools.node.exec_detached(tools.box, ["xterm", "-T", title, "-e", "cat"])
        cay.wait_for(title, lambda: title in [w["title"] for w in json.loads(tools("list_windows"))], 20)
    windows = {w["title"]: w["window_id"] for w in json.loads(tools("list_windows"))}
    for title in ("one", "two"):
        does("focus_window", window_id=windows[title])
        assert json.loads(tools("get_active_window")) == {"window_id": windows[title], "window_title": title}
    does("close_window", window_id=windows["two"])
    cay.wait_for("its end", lambda: "two" not in [w["title"] for w in json.loads(tools("list_windows"))], 10)
    assert "there is no window" in tools("focus_window", True, window_id=windows["two"])
