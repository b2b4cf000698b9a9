# SPDX-License-Identifier: Apache-2.0
"""routes - every operation as the node itself tells it, and whether one of them did anything"""
import dataclasses
import re
import string

import cay

NOUNS = {"sandbox": "sb", "exec": "ex", "image": "im", "tenant": "tn", "key": "ky", "template": "tp", "shell": "sh", "kernel": "kn", "ask": "ak", "snapshot": "sn", "volume": "vo"}
# What stands in a path and is no id; and what an operation cannot be asked for without.
WORDS = {"credential": "example", "service": "web", "pid": "2", "port": "8080", "run": "1"}
# What anybody may read.
PUBLIC = {"system.health": "/v1/health", "system.openapi": "/v1/openapi.json",
          "system.docs": "/docs", "system.llms": "/llms.txt", "system.tools": "/tools.json"}
NEEDED = {"file.glob": "?pattern=x", "export.delete": "?path=x", "upload.put": "?group=none&name=x", "upload.list": "?group=none", "upload.delete": "?group=none&name=x"}


def words(name, path):
    """The path of an operation with all of it but the ids."""
    for word, value in WORDS.items():
        path = path.replace("{%s}" % word, value)
    return path + NEEDED.get(name, "")


@dataclasses.dataclass
class Route:
    name: str
    method: str
    path: str
    scope: str
    body: object  # an example, b"" where bytes are taken, None where nothing is

    def target(self, **ids):
        """With these ids, and with well-formed ones of nobody for the rest."""
        names = [name for _, name, _, _ in string.Formatter().parse(self.path) if name]
        return self.path.format(**{n: ids.get(n) or WORDS.get(n) or NOUNS[n] + "0" * 23 + "1" for n in names})


def routes(w):
    """From the document the node serves: a new row is asked for without a change here."""
    found = []
    for path, rows in w.call("GET", "/v1/openapi.json")["paths"].items():
        for method, row in rows.items():
            content = row.get("requestBody", {}).get("content", {})
            body = content["application/json"].get("example", {}) if "application/json" in content else None
            scope = row["security"][0]["key"][0] if row["security"] else "public"
            found.append(Route(row["operationId"], method.upper(), path, scope, b"" if content and body is None else body))
    assert len(found) >= 34, "the document has lost operations"
    return found


def asked(w):
    """How often control was asked for what, by operation and outcome."""
    text = w.open("GET", "/metrics").read().decode()
    return {(op, code): int(n) for op, code, n in
            re.findall(r'^cay_operations_total\{operation="([^"]*)",code="([^"]*)"\} (\d+)$', text, re.M)}


def without(rows, *names):
    return [{k: v for k, v in row.items() if k not in names} for row in rows]


def audited(w):
    """Every request that wants to change something is there, refused ones too; but for what an edge refused by itself."""
    rows, cursor = [], ""
    while True:
        page = w.call("GET", "/v1/audit?limit=1000" + cursor)
        rows += [(r["op"], r.get("request_id")) for r in page["records"] if r["op"] != "edge.refused"]
        if not page.get("next_cursor"):
            return rows
        cursor = "&cursor=" + page["next_cursor"]


def state(w, box):
    """All that an operation can change; by the operator's own socket."""
    return {
        # looking at its commands is activity
        "sandboxes": without(w.call("GET", "/v1/sandboxes?limit=1000")["sandboxes"], "last_activity_at"),
        "execs": w.call("GET", f"/v1/sandboxes/{box}/execs"), "images": w.call("GET", "/v1/images"),
        "tenants": w.call("GET", "/v1/tenants"), "keys": without(w.call("GET", "/v1/keys?limit=1000")["keys"], "last_used_at"),
        "audit": audited(w), "events": w.call("GET", "/v1/events")["next"],
    }


def settled(w, box):
    """The same, once what was asked for before has come to its end: events are told when they are durable."""
    seen = []

    def same():
        seen.append(state(w, box))
        return len(seen) > 5 and all(s == seen[-1] for s in seen[-5:])
    cay.wait_for("nothing to change", same, 30)
    return seen[-1]


class Untouched:
    """Nothing inside the `with` reaches control, and nothing changes."""
    def __init__(self, w, box, reads=()):
        self.w, self.box, self.reads = w, box, reads

    def __enter__(self):
        self.state, self.asked = settled(self.w, self.box), asked(self.w)
        return self

    def __exit__(self, failed, *_):
        if failed:
            return
        now = asked(self.w)
        # the first of these is counted when it has been answered
        moved = {k: n - self.asked.get(k, 0) for k, n in now.items() if n != self.asked.get(k, 0)}
        moved = {k: n for k, n in moved.items() if k[0] not in ("system.metrics", *self.reads)}
        assert not moved, f"control was asked: {moved}"
        assert state(self.w, self.box) == self.state
