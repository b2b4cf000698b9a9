# SPDX-License-Identifier: Apache-2.0
"""The tools of browsers in three profiles, with a real Chromium and pages that report what reached them"""
import base64
import json
import pathlib
import re

import cay
import mcp
import pytest
import unpacked
from nodes import BUILD
from tool_user import ToolUser, using

pytestmark = pytest.mark.one_lane  # its sandboxes
SERVER = (pathlib.Path(__file__).parents[3] / "tests/fixtures/browser/server.py").read_text()
HOME = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def desk():
    with mcp.McpWorld(BUILD, {"CAY_MCP_TEMPLATE": "desk"}) as w, unpacked.lent(w, "desktop"):
        w.call("POST", "/v1/templates", {"name": "desk", "defaults": {"image": "desktop", "limits": {"memory_bytes": "2Gi"}}})
        yield w


class Tools(ToolUser):
    """Its sandbox has a web server."""

    def __init__(self, node, profile, start):
        super().__init__(node, profile, start)
        self.server = node.exec_detached(self.box, ["python3", "-c", SERVER, "8000"])
        node.call("GET", f"/v1/sandboxes/{self.box}/ports/8000?wait_ms=10000")

    def reported(self, key):
        def lines():
            return [l for l in map(json.loads, self.node.exec_output(self.box, self.server).splitlines()) if key in l]
        cay.wait_for(key, lambda: lines() or None, 10)
        return lines()


@pytest.fixture
def tools(desk, request):
    t = Tools(desk, *request.param)
    yield t
    t.end()


@using("browser", "list_tabs")
def test_anthropics_browser_toolset(tools):
    assert tools("navigate", url=HOME + "/") == f"Navigated to {HOME}/ — Form & more (HTTP 200)"
    page = tools("read_page", filter="all")

    def ref(line):
        return {"type": "ref", "ref": re.search(re.escape(line) + r" \[(ref_\d+)", page)[1]}
    assert tools("form_input", target=ref('textbox "Name"'), value="Ada") == "Filled in."
    assert tools("left_click", target=ref('textbox "Mail"')) == "Clicked." and tools("type", text="a@b.example") == "Typed."
    assert tools("key", text="ctrl+a") == "Pressed."
    tools("double_click", target=ref('button "Press me"'), modifiers="ctrl")
    assert tools.reported("double") and tools.reported("pressed")[0]["ctrl"] is True
    tools("right_click", target=ref('button "Press me"'))
    assert tools.reported("context")
    tools("middle_click", target=ref('button "Press me"'))
    tools("triple_click", target={"type": "coordinate", "x": 40, "y": 40})
    assert tools("hover", target=ref('button "Press me"')) == "Moved the mouse."
    assert tools("left_click_drag", **{"from": ref('button "Drag"'), "target": ref('button "Drop"')}) == "Dragged."
    assert [r["drag"] for r in tools.reported("drag")] == ["down", "up"]
    assert tools("scroll", target={"type": "coordinate", "x": 100, "y": 100}, scroll_direction="down", scroll_amount=5) == "Scrolled."
    assert tools("scroll_to", target=ref('button "Far below"')) == "Scrolled to it."
    assert "is covered by" in tools("left_click", True, target=ref('button "Under"'))
    assert "Some words, bold ones" in tools("get_page_text")
    [picture] = tools.content("screenshot", {})
    assert picture["type"] == "image" and base64.b64decode(picture["data"])[:4] == b"\x89PNG"
    [region] = tools.content("zoom", {"region": [10, 20, 210, 120]})
    width, height = (int.from_bytes(base64.b64decode(region["data"])[i:i + 4], "big") for i in (16, 20))
    assert 1200 < width <= 1280 and abs(width - 2 * height) <= 2, "as wide as the view without its scroll bar"
    assert tools("find", query="button SEND").startswith('- button "Send" [ref_') and tools("find", query="zzz") == "nothing on the page has any of these words"
    assert tools("mouse_move", target={"type": "coordinate", "x": 5, "y": 5}) == "Moved the mouse."
    tools("javascript_exec", text="addEventListener('keydown', e => e.repeat || (window.began = performance.now())); addEventListener('keyup', () => window.held = performance.now() - began); 1")
    assert tools("hold_key", text="ArrowDown", duration=0.5) == "Held." and 450 < float(tools("javascript_exec", text="held")) < 5000
    tools.node.exec(tools.box, ["sh", "-c", "echo one > /workspace/a.txt"])
    assert tools("file_upload", target=ref('file "File"'), paths=["/workspace/a.txt"]) == "Uploaded."
    assert tools("javascript_exec", text="document.querySelector('[name=file]').files[0].name") == '"a.txt"'
    assert tools("javascript_exec", text="({a: [1]})") == '{"a":[1]}'
    assert "ReferenceError" in tools("javascript_exec", True, text="nothing.there")
    assert tools("new_tab", url=HOME + "/late").startswith(f"Navigated to {HOME}/late")
    assert tools("wait", duration=10, text="it is here") == "Waited."
    tabs = tools("list_tabs").splitlines()
    assert len(tabs) == 2 and tabs[0].endswith("(active)") and "/late" in tabs[0]
    assert "Order form" in tools("read_page", tab_id=tabs[1].split()[0])
    assert tools("switch_tab", tab_id=tabs[1].split()[0]) == f"Switched to {HOME}/ — Form & more"
    assert tools("list_tabs").splitlines()[0].split()[0] == tabs[1].split()[0]
    assert "/late" in tools("switch_tab", tab_id=tabs[0].split()[0])
    assert tools("close_tab") == "Closed." and len(tools("list_tabs").splitlines()) == 1
    tools("navigate", url=HOME + "/second")
    assert "Form & more" in tools("navigate", url="back") and "Second" in tools("navigate", url="forward")
    assert "Second" in tools("navigate", url="reload")
    assert "HTTP 404" in tools("navigate", url=HOME + "/nothing")
    tools("navigate", url=HOME + "/dialogs")
    page = tools("read_page")
    assert '[dismissed a dialog of the page: "Sure?"]' in tools("left_click", target=ref('button "Ask"'))


@using("deep-agent", "Bash", command="true")
def test_deep_agents_browser(tools):
    assert "Form & more" in tools("browser_navigate", url=HOME + "/")
    assert tools("browser_get_url") == HOME + "/" and tools("browser_get_title") == "Form & more"
    info = json.loads(tools("browser_get_page_info"))
    assert info["title"] == "Form & more" and info["width"] > 500 and info["height"] > 300
    assert tools("browser_type", selector="[name=name]", text="Ada") == "Typed."
    assert tools("browser_evaluate", expression="document.querySelector('[name=name]').value") == '"Ada"'
    assert tools("browser_click", selector="#press") == "Clicked." and tools.reported("pressed")
    assert tools("browser_get_html", selector="h1") == "<h1>Order <em>form</em></h1>"
    assert tools("browser_scroll", x=0, y=300) == "Scrolled." and float(tools("browser_evaluate", expression="scrollY")) > 100
    tools("browser_scroll", x=0, y=-300)
    assert float(tools("browser_evaluate", expression="scrollY")) == 0
    assert tools("browser_wait_visible", selector="#far") == "It is visible."
    assert "no element matches" in tools("browser_click", True, selector="#nothing")
    assert tools.content("browser_screenshot", {})[0]["type"] == "image"
    assert tools.content("browser_screenshot", {"full_page": True})[0]["type"] == "image"
    assert base64.b64decode(tools("browser_pdf"))[:5] == b"%PDF-"
    read = tools("WebFetch", url=HOME + "/article", prompt="what is it about?")
    assert read.startswith(f"{HOME}/article — On bread\n# On *bread*\n") and "Written by a script." in read and "Imprint" not in read
    assert tools("browser_get_url") == HOME + "/", "its tab is closed, and the other one as it was"
    assert "did not load" in tools("WebFetch", True, url="http://127.0.0.1:9/", prompt="x") and tools("browser_get_url") == HOME + "/"


@using("sandboxhub", "execute_shell", command="true")
def test_sandboxhubs_browser(tools):
    assert "Form & more" in tools("open_browser", url=HOME + "/") and "Second" in tools("cdp_navigate", url=HOME + "/second")
    tools("cdp_navigate", url=HOME + "/")
    assert tools("cdp_get_url") == HOME + "/" and "Order form" in tools("cdp_get_text") and tools("cdp_get_text", selector="h1") == "Order form"
    assert tools("cdp_fill_input", selector="[name=name]", value="Ada") == "Filled in."
    assert tools("cdp_evaluate", script="document.querySelector('[name=name]').value") == '"Ada"'
    tools("cdp_click_selector", selector="#press")
    assert tools.reported("pressed")
    assert tools("cdp_get_html").startswith("<html>")
    tools("cdp_scroll", direction="down", amount=500)
    cay.wait_for("the scroll", lambda: float(tools("cdp_evaluate", script="scrollY")) > 300 or None, 5)
    tools("cdp_hover", selector="#press")
    assert tools("cdp_wait_for_selector", selector="#far", timeout_ms=2000) == "It is there."
    assert "did not appear" in tools("cdp_wait_for_selector", True, selector="#never", timeout_ms=300)
    assert tools("close_browser") == "Closed."
    assert not tools.node.call("GET", f"/v1/sandboxes/{tools.box}/browser")["running"]
