# SPDX-License-Identifier: Apache-2.0
"""/docs, /openapi.json, /llms.txt and /tools.json, as a browser and a program without a key get them"""
import collections
import json
import os
import pathlib
import re
import subprocess

import pytest
from pages import HTTP
from routes import PUBLIC, routes
from test_examples import base

DOCS = pathlib.Path(__file__).parents[3] / "docs"
TABLEGEN = pathlib.Path(os.environ.get("CAY_BUILD", "build/gcc")) / "src/lib/tablegen/tablegen"


@pytest.fixture(scope="module", params=[1280, 360])
def page(request, node, browser):
    """On a desk and on a phone."""
    url = f"{HTTP}127.0.0.1:{node.port}/docs"
    return url, request.param, browser.ask(read=url, width=request.param)


def test_the_page_asks_for_nothing_else_and_breaks_no_rule_of_its_own(page):
    url, width, said = page
    assert said["asked"] == [url]
    assert said["wrong"] == [], "its policy or its script"
    assert said["wide"] <= width, "it is read without scrolling sideways"


def test_its_script_runs_and_finds(page):
    _, _, said = page
    assert said["shown"] and "file.grep" in said["found"] and "sandbox.create" not in said["found"]


def test_every_row_of_the_tables_is_on_it(node, page):
    _, _, said = page
    tables = json.loads(subprocess.run([TABLEGEN, "tables"], capture_output=True, check=True).stdout)
    want = [r.name for r in routes(node)] + [e["code"] for e in tables["errors"]] + [m["name"] for m in tables["metrics"]]
    want += [f'{s["section"]}.{s["key"]}' for s in tables["settings"]] + [t["name"] for t in tables["tags"]]
    want += list(node.call("GET", "/v1/openapi.json")["components"]["schemas"])
    assert not set(want) - set(said["ids"])
    assert not [i for i, n in collections.Counter(said["ids"]).items() if n > 1], "an anchor is one place"


def test_every_link_of_it_leads_somewhere(node, page):
    _, _, said = page
    anyone = node.door("")
    for link in set(said["links"]):
        if link.startswith("#"):
            assert link[1:] in said["ids"], link
        else:
            assert link == "data:," or anyone.open("GET", link).status == 200, link


def test_the_policy_is_in_the_page_and_names_what_may_run(node):
    reply = node.door("").open("GET", "/docs")
    text = reply.read().decode()
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-") and "unsafe" not in policy
    assert text.index("Content-Security-Policy") < text.index("<style>") < text.index("<script>")
    assert not re.search(r"\bon\w+=|style=", re.sub(r"<pre>.*?</pre>|<script>.*?</script>", "", text, flags=re.S))


def test_a_model_is_told_all_operations(node):
    reply = node.door("").open("GET", "/llms.txt")
    text = reply.read().decode()
    assert reply.headers["content-type"] == "text/plain; charset=utf-8" and "@" not in text
    assert not [r.name for r in routes(node) if f"`{r.name}` {r.method} {r.path}: " not in text]
    for path in re.findall(r"\]\((/[^)]*)\)", text):
        assert node.door("").open("GET", path).status == 200


def test_what_a_model_is_told_to_send_is_taken(node):
    """Every `METHOD PATH {body}` of it, in its order but for the end."""
    text = node.door("").open("GET", "/llms.txt").read().decode()
    node.image_import("base", base())
    ids, found = {}, re.findall(r"`(POST|PUT|DELETE) (/\S+)(?: (\{[^`]*\}))?`", text)
    for method, path, body in sorted(found, key=lambda f: f[0] == "DELETE"):
        raw = None if method != "PUT" or body else b"print(1)\n"
        for word, noun in (("ID", "sb"), ("SHELL", "sh")):
            path = path.replace(f"/{word}", "/" + ids.get(noun, word))
        got = node.call(method, path, raw or (json.loads(body) if body else None))
        ids[got.get("id", "")[:2]] = got.get("id")
    assert len(found) >= 8 and node.get(ids["sb"])["state"] == "terminated", "it ends what it began"


def test_tools_find_the_interface_where_they_look(node):
    assert node.door("").call("GET", "/openapi.json") == node.call("GET", "/v1/openapi.json")


def test_the_reference_is_where_other_servers_have_one(node):
    assert node.door("").open("GET", "/redoc").read() == node.door("").open("GET", "/docs").read()


def test_health_is_where_load_balancers_look_for_it(node):
    assert node.door("").call("GET", "/health") == node.door("").call("GET", "/v1/health")


def test_what_is_served_is_what_the_tree_has(node):
    anyone = node.door("")
    assert anyone.call("GET", "/tools.json") == json.loads((DOCS / "tools.json").read_text())
    assert anyone.open("GET", "/llms.txt").read() == (DOCS / "llms.txt").read_bytes()


def test_nothing_of_them_is_anybodys(node):
    """Whoever asks gets the same, whatever is on the node."""
    tenant = node.call("POST", "/v1/tenants", {"name": "noticed"})["id"]
    doors = [node.door(""), node.door("nonsense"), node.door(node.new_key("write", tenant)), node.door()]
    for path in PUBLIC.values():
        # with a valid credential health says more, of the node and not of its tenants
        replies = {door.open("GET", path).read() for door in (doors[:2] if path == PUBLIC["system.health"] else doors)}
        assert len(replies) == 1 and b"noticed" not in replies.pop(), path
