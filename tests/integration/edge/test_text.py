# SPDX-License-Identifier: Apache-2.0
"""Text files of a real sandbox, by both ways in: the edge, and control's own socket"""
import json

import pytest
from cay import ApiError


@pytest.fixture(params=["edge", "control"])
def me(node, request):
    return node.door() if request.param == "edge" else node


def at(box):
    return f"/v1/sandboxes/{box}/files"


def test_look_change_and_find(me, box):
    me.open("PUT", at(box) + "/content?path=a.txt", b"one\ntwo\nthree\n").read()
    done = me.call("POST", at(box) + "/edit", {"path": "a.txt", "edits": [{"old": "two", "new": "2"}, {"kind": "insert", "line": 0, "new": "zero"}]})
    assert done["changes"] == 2 and "-two\n+2\n" in done["diff"]
    assert me.call("GET", at(box) + "/view?path=a.txt&tail=true&limit=2")["text"] == "2\nthree\n"
    assert [f["path"] for f in me.call("GET", at(box) + "/glob?pattern=**/*.txt")["files"]] == ["a.txt"]
    hit, = me.call("POST", at(box) + "/grep", {"pattern": "^thr"})["hits"]
    assert (hit["path"], hit["line"], hit["text"]) == ("a.txt", 4, "three")
    with pytest.raises(ApiError) as e:
        me.call("POST", at(box) + "/edit", {"path": "a.txt", "edits": [{"old": "e", "new": "E"}]})
    assert e.value.code == "conflict"


def test_what_happens_is_streamed(me, box):
    r = me.open("GET", at(box) + "/watch?path=/tmp", headers={"Accept": "text/event-stream"})
    seen = []
    for line in r:
        if not line.startswith(b"data: "):
            continue
        seen.append(json.loads(line[6:]))
        if len(seen) == 1:
            me.call("POST", at(box) + "/mkdir", {"path": "/tmp/d"})
        else:
            break
    r.close()
    assert [(e["event"], e["path"], e["number"]) for e in seen] == [("ready", "", 0), ("created", "d", 1)]
