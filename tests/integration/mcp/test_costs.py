# SPDX-License-Identifier: Apache-2.0
"""What SKILL.md says an answer costs: bytes are measured here, tokens are a third of them"""
import json
import pathlib
import re

import pytest

SKILL = (pathlib.Path(__file__).parents[3] / "packaging/skill/cay/SKILL.md").read_text()
FILES = "mkdir -p cost && cd cost && for i in 0 1 2 3 4 5 6 7 8 9; do seq 200 > module-$i.py; done"
CODE = "".join("\tvalue[%02d] = read_u32(from, %02d);\n" % (i, i) for i in range(100))

# What is asked, as the table of SKILL.md has it.
ASKED = {
    "`exec`, `echo hi`": ("exec", {"command": "echo hi"}),
    "`find`, ten names": ("find", {"pattern": "*.py", "path": "cost"}),
    "`edit`, one line": ("edit", {"path": "code.c", "edits": [{"old": "read_u32(from, 50)", "new": "0"}]}),
    "`exec`, `ls -la` of ten files": ("exec", {"command": "ls -la cost"}),
    "`read`, 100 lines of code": ("read", {"path": "code.c", "first": 1, "limit": 100}),
    "`exec`, more than it shows": ("exec", {"command": "seq 100000"}),
}


def number(text):
    return int(text.replace(",", ""))


def table():
    """bytes and tokens by what was asked"""
    rows = re.findall(r"^\| (.+?) \|(?: ([\d,]+))? \| ([\d,]+) \|$", SKILL, re.M)
    return {what: (number(b) if b else None, number(t)) for what, b, t in rows}


@pytest.fixture(scope="module")
def client(node):
    c = node.client(query="?group=costs")
    assert not c.call("exec", command=FILES).get("isError")
    c.call("write", path="code.c", content=CODE)
    yield c
    c.call("sandbox_delete")


def near(said, is_):
    return abs(said - is_) <= max(0.15 * is_, 5)


@pytest.mark.parametrize("what", ASKED)
def test_an_answer_is_as_long_as_the_skill_says(client, what):
    tool, arguments = ASKED[what]
    got = client.call(tool, **arguments)
    size = len("".join(part["text"] for part in got["content"]).encode())
    said, tokens = table()[what]
    assert near(said, size), size
    assert near(tokens, said / 3)


def test_the_tools_are_as_long_as_the_skill_says(client):
    said, tokens = table()["all tools, once a conversation"]
    assert near(said, len(json.dumps(client.ask("tools/list")["tools"], separators=(",", ":")))) and near(tokens, said / 3)


def test_every_row_is_measured_but_for_the_picture():
    rows = table()
    picture = "a picture of 1024 × 768"
    assert set(rows) == {*ASKED, "all tools, once a conversation", picture}
    assert rows[picture][0] is None and near(rows[picture][1], 1024 * 768 / 750)
