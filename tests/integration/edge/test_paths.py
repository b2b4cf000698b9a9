# SPDX-License-Identifier: Apache-2.0
"""FS-01: every path that may be said, to every operation on files, through the whole of it

What is outside of the sandbox is neither read nor changed, whatever is answered; nothing of it is a
failure of ours (5xx); links that only the kernel can follow are followed by nobody.
"""
import collections
import contextlib
import json
import os
import pathlib
import tempfile

import pytest

import paths
from nodes import FULL

TOKEN = "CANARY-" + os.urandom(12).hex()
SHARE = 1 if FULL else 5  # each path goes to every operation, or to a fifth of them; magic links to all


class Asker:
    """A sandbox, another one of the same tenant, and what came of everything that was asked."""

    def __init__(self, node):
        self.node, self.door = node, node.door()
        self.box, self.other = self.door.create("tiny"), self.door.create("tiny")
        self.at = f"/v1/sandboxes/{self.box}/files"
        self.head = {**self.door.says(), "Accept": "*/*"}

    def send(self, method, target, body, head):
        with contextlib.closing(self.door.connection(30)) as c:
            c.putrequest(method, target, skip_accept_encoding=True)
            for k, v in head.items():
                c.putheader(k, v)
            c.putheader("Content-Length", str(len(body or b"")))
            c.endheaders(body or None)
            r = c.getresponse()
            return r.status, r.read()

    def ask(self, op, asks, kind, path):
        """(status, everything that came); of a link, that of what it leads to."""
        method, where, body = asks.made(kind, path)
        head = dict(self.head)
        if isinstance(body, dict):
            if op == "tree.import":
                body = {"from": self.other, **body}
            body, head["Content-Type"] = json.dumps(body).encode(), "application/json"
        at = self.at.removesuffix("/files") if op == "export.create" else self.at
        status, got = self.send(method, at + where, body, head)
        if op in ("tree.link", "export.create") and status == 201:
            url = json.loads(got)["url"]
            status, more = self.send("GET", url[url.index("/v1/"):], None, {})
            got += more
            if op == "export.create":  # there is room for so many
                self.door.call("POST", f"/v1/sandboxes/{self.box}/revoke", {"link": url})
        elif op == "file.batch" and status == 200 and not json.loads(got)["results"][0]["done"]:
            status = 422
        return status, got

    def prepare(self):
        status, got = self.send("PUT", self.at + "/content?path=inner/file&parents=true", b"inside\n", self.head)
        assert status == 200, got

    def links(self, name):
        steps = [{"do": "symlink", "path": f"/workspace/l/{k}", "target": v.replace("{}", name), "parents": True} for k, v in paths.LINKS.items()]
        for box in (self.box, self.other):
            # and stay as they are
            got = self.door.call("POST", f"/v1/sandboxes/{box}/files/batch", {"steps": [*steps, {"do": "chmod", "path": "/workspace/l", "mode": "0555"}]})
            assert not got["failed"], got

    def close(self):
        for box in (self.box, self.other):
            self.door.delete(box)


@pytest.fixture
def asker(node):
    a = Asker(node)
    a.prepare()
    yield a
    a.close()


@pytest.fixture
def canary():
    """On the host, open to everybody: a directory with a file that says the token."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="canary-") as d:
        at = pathlib.Path(d)
        (at / "file").write_text(TOKEN)
        for p in (at / "file", at):
            p.chmod(0o777)
            os.utime(p, ns=(1, 2))  # who reads it leaves a later time
        yield at


def seen(at):
    """All that a touch would change; content is not looked at, as that would be one."""
    return {str(p): tuple(getattr(os.lstat(p), f) for f in ("st_mode", "st_uid", "st_size", "st_atime_ns", "st_mtime_ns", "st_ctime_ns", "st_nlink", "st_ino"))
            for p in (at, at / "file")}


def host():
    """What of the node itself a write would show in."""
    return {k: pathlib.Path("/proc/sys/kernel", k).read_text() for k in ("core_pattern", "hostname", "printk")}


def test_the_table_is_whole(node):
    ops = {row["operationId"] for rows in node.call("GET", "/v1/openapi.json")["paths"].values() for row in rows.values()}
    assert set(paths.ASKS) == {o for o in ops if o.split(".")[0] in ("file", "tree")} | {"export.create"}
    assert len(paths.payloads()) >= 200


def test_every_request_works_for_a_path_that_is_good(asker):
    """Or what follows would show nothing."""
    asker.send("PUT", f"/v1/sandboxes/{asker.other}/files/content?path=inner/file&parents=true", b"x", asker.head)
    for op, rows in paths.ASKS.items():
        for asks in rows:
            for kind in ("text", "bytes"):
                asker.prepare()
                path = asks.good if kind == "text" or op != "file.mkdir" else asks.good + "-b"
                status, got = asker.ask(op, asks, kind, path if kind == "text" else path.encode())
                assert status < 300, (op, kind, path, status, got)


def test_no_path_leads_out(asker, canary):
    """0 canaries, 0 changes, 0 failures of ours."""
    name, before, node = str(canary / "file"), seen(canary), host()
    asker.links(name)
    rows = [(op, asks) for op, rows in paths.ASKS.items() for asks in rows]
    # behind a magic link there is also something of the sandbox's own, which would be found
    tried = [(kind, p, n) for kind, p in paths.payloads() for n in ([name, "/workspace/inner/file"] if p in paths.THROUGH else [name])]
    statuses, wrong = collections.Counter(), []
    for i, (kind, payload, n) in enumerate(tried):
        path, magic = paths.fill(payload, n), payload in paths.MAGIC
        for op, asks in rows if magic else rows[i % SHARE::SHARE]:
            if op in ("file.move", "file.delete", "file.batch"):  # may have taken away what another one begins with
                asker.prepare()
            status, got = asker.ask(op, asks, kind, path)
            statuses[status] += 1
            followed = status < 300 and magic and asks.opens in ("all", "all" if payload in paths.LAST else "but")
            if TOKEN.encode() in got or status >= 500 or followed:
                wrong.append((op, kind, path[:80], status, got[:120]))
    print(f"# FS-01: {len(tried)} paths, {len(rows)} requests to say them in: {dict(sorted(statuses.items()))}")
    assert not wrong, (len(wrong), wrong[:40])
    assert seen(canary) == before and os.listdir(canary) == ["file"] and host() == node
    # a read would have been seen
    assert (canary / "file").read_text() == TOKEN and seen(canary) != before
    assert asker.door.exec(asker.box, ["true"]).exit_code == 0
