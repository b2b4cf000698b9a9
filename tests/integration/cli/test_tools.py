# SPDX-License-Identifier: Apache-2.0
"""The tool table as others see it: recorded lists of the products, documents, the skill"""
import json
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parents[3]
TABLE = {p["name"]: p for p in json.loads((HERE / "docs/tools.json").read_text())["profiles"]}
RECORDED = json.loads((HERE / "tests/fixtures/mcp/recorded.json").read_text())
PAGE = (HERE / "docs/tools.md").read_text()
SKILL = (HERE / "packaging/skill/cay/SKILL.md").read_text()


def rows(page, heading):
    part = page.split(f"# {heading}\n")[1].split("\n#")[0]
    return [[c.strip() for c in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| `")]


def essence(schema):
    """What a caller goes by: types, choices, defaults, and the same of what is inside; a type alone is its word."""
    e = {k: schema[k] for k in ("type", "enum", "default") if k in schema}
    if "items" in schema:
        e["items"] = essence(schema["items"])
    if "properties" in schema:
        e["properties"] = {n: essence(p) for n, p in schema["properties"].items()}
    elif schema.get("type") == "object" and schema.get("additionalProperties"):
        e["values"] = schema["additionalProperties"]["type"]
    return e["type"] if set(e) == {"type"} else e


@pytest.mark.parametrize("profile", RECORDED)
def test_a_profile_is_what_was_recorded(profile):
    tools = {t["name"]: t["inputSchema"] for t in TABLE[profile]["tools"]}
    there = {n: t for n, t in RECORDED[profile]["tools"].items() if "missing" not in t}
    assert set(tools) == set(there)
    for name, want in there.items():
        schema = tools[name]
        assert sorted(schema.get("required", [])) == sorted(want["required"]), name
        assert {n: essence(p) for n, p in schema["properties"].items()} == want["args"], name


def test_models_are_told_what_network_there_is():
    line = re.search(r"^- (Network: .*)$", TABLE["native"]["instructions"], re.M)[1]
    assert all(line in p["instructions"] for p in TABLE.values())
    assert line in SKILL.splitlines() and line in (HERE / "src/lib/webdocs/llms.txt").read_text().splitlines()


def test_every_profile_was_recorded():
    assert set(TABLE) == {"native", "browser", *RECORDED}, "those two are Cay's own choice"


def test_what_is_missing_is_said():
    said = {(r[0].strip("`"), n): r[2] for r in rows(PAGE, "What is missing") for n in re.findall(r"`(\w+)`", r[1])}
    assert said == {(p, n): t["missing"] for p, r in RECORDED.items() for n, t in r["tools"].items() if "missing" in t}
    counts = {r[0].strip("`"): r[1] for r in rows(PAGE, "Profiles")}
    assert counts == {p: f"{len(TABLE[p]['tools'])} of {len(r['tools'])}" for p, r in RECORDED.items()}


def test_native_tools_are_few_and_on_the_page():
    native = TABLE["native"]
    assert 10 <= len(native["tools"]) <= 18 and len(json.dumps(native["tools"])) < 19700  # every conversation pays for it
    assert {(r[0].strip("`"), r[1].strip("`")) for r in rows(PAGE, "Native")} == set(native["operations"].items())


def test_the_skill_names_tools_and_arguments_there_are():
    head, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", SKILL, re.S).groups()
    meta = dict(line.split(": ", 1) for line in head.splitlines())
    assert meta["name"] == "cay" and 50 < len(meta["description"]) <= 1024 and len(body.splitlines()) < 120
    tools = {t["name"]: set(t["inputSchema"]["properties"]) for t in TABLE["native"]["tools"]}
    body = body.split("## Without MCP")[0]
    words = set(re.findall(r"`([a-z_]+)`", body))
    arguments = set().union(*tools.values())
    errors = set(re.findall(r"CAY_ERROR\(\w+,\s*\"(\w+)\"", (HERE / "src/lib/base/errors.def").read_text()))
    other = {"cd", "export", "sed", "sleep", "cat"}
    assert words <= set(tools) | arguments | errors | other, words - set(tools) - arguments - errors - other
    assert {"exec", "shell", "output", "read", "edit", "write", "find", "grep", "ports", "preview", "sandbox_create", "sandbox_delete"} <= words


def test_the_command_line_names_every_profile(cay):
    assert all(p in cay("mcp", "--help").stdout for p in TABLE)
