# SPDX-License-Identifier: Apache-2.0
"""Prism between a client and the edge: what is asked and answered is what openapi.json says"""
import contextlib
import copy
import json
import os
import pathlib
import sqlite3
import subprocess
import sys

import shell_fixtures
import cay
import pytest
import world
from conftest import BUILD, MODULES
from pages import HTTP
from routes import NEEDED, routes

sys.path.append(str(pathlib.Path(__file__).parents[1] / "edge"))
import test_edge  # noqa: E402

# What cannot go through it, and why; these go past it.
PAST = {
    "exec.attach": "it upgrades; Prism speaks no WebSocket",
    "port.connect": "so does it",
    "screen.vnc": "so does it; test_desktop.py has one",
    "browser.cdp": "so does it; test_drive.py has two",
    "event.list?follow=true": "it has no end; Prism answers when it has read all",
    "frames and SSE": "Prism reads a reply as text before it passes it on",
    "image.import of an image": "Prism reads a request as text too; the reply to a damaged one goes through it",
}


class Prism:
    def __init__(self, text, port, top):
        document, log = top / "openapi.json", top / "log"
        document.write_text(json.dumps(text))
        self.port = world.free_port()
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                ["node", MODULES + "/@stoplight/prism-cli/dist/index.js", "proxy", "--errors", "--host", "127.0.0.1", "--port", str(self.port),
                 str(document), f"{HTTP}127.0.0.1:{port}"], env={**os.environ, "HOME": "/tmp"}, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True)
        cay.wait_for("Prism", lambda: "Prism is listening" in log.read_text() or self.process.poll() is not None, 90)
        assert self.process.poll() is None, log.read_text()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Checked(world.Door):
    """A door behind Prism.  Its own complaints have a media type of their own."""

    def open(self, method, target, body=None, headers=None, timeout_s=60.0):
        name = self.names.get((method, shape(target)))
        if "Accept" in (headers or {}) or "follow=true" in target:
            past = copy.copy(self)
            past.port = self.edge_port
            return world.Door.open(past, method, target, body, headers, timeout_s)
        reply = world.Door.open(self, method, target, body, headers, timeout_s)
        if "problem+json" in reply.headers.get("Content-Type", ""):
            pytest.fail(f"{method} {target}: {json.dumps(json.loads(reply.read()), indent=1)[:3000]}")
        self.seen.setdefault(name, set()).add(reply.status)
        return reply


def shape(target):
    """A target as the paths of the document have it."""
    parts = target.split("?")[0].split("/")
    word = {"services": "{service}", "processes": "{pid}", "ports": "{port}", "tunnel": "{port}"}.get(parts[4] if len(parts) > 5 else None)
    if word:
        parts[5] = word
    if len(parts) == 4 and parts[2] == "credentials":
        parts[3] = "{credential}"
    if len(parts) > 7 and parts[6] == "runs":
        parts[7] = "{run}"
    return "/".join({"sb": "{sandbox}", "ex": "{exec}", "im": "{image}", "tn": "{tenant}", "tp": "{template}", "ky": "{key}", "sh": "{shell}", "kn": "{kernel}", "ak": "{ask}", "sn": "{snapshot}", "vo": "{volume}"}.get(p[:2], p) if len(p) == 26 else p
                    for p in parts)


def behind(prism, w, credential=None):
    door = w.door(credential)
    door.__class__ = Checked
    door.edge_port, door.port = w.port, prism.port
    door.names = {(r.method, r.path): r.name for r in routes(w)}
    door.seen = {}
    return door


@pytest.fixture(scope="module")
def prism(node, tmp_path_factory):
    p = Prism(node.call("GET", "/v1/openapi.json"), node.port, tmp_path_factory.mktemp("prism"))
    yield p
    p.stop()


def test_it_sees_a_reply_that_is_wrong(node, tmp_path):
    """A document that promises more than there is."""
    text = node.call("GET", "/v1/openapi.json")
    text["components"]["schemas"]["Health"]["required"] = ["never"]
    p = Prism(text, node.port, tmp_path)
    with pytest.raises(pytest.fail.Exception, match="never"):
        behind(p, node).call("GET", "/v1/health")
    p.stop()


def refused(code, door, *args):
    with pytest.raises(cay.ApiError) as e:
        door.call(*args)
    assert e.value.code == code, e.value


def process(me, box, command):
    """One that was started, when it is what it was started as."""
    found = []

    def look():
        found[:] = [p for p in me.call("GET", f"/v1/sandboxes/{box}/processes")["processes"] if p["command"] == command]
        return found
    cay.wait_for(command, look, 20)
    return found[0]


def walk(me, w):
    """Every operation, well asked, and the ways it can say no to that."""
    absent = "sb" + "0" * 23 + "1"
    me.call("GET", "/v1/health")
    me.call("GET", "/v1/openapi.json")
    me.open("GET", "/docs").read()
    me.open("GET", "/llms.txt").read()
    me.call("GET", "/tools.json")
    me.open("GET", "/metrics").read()
    box = me.call("POST", "/v1/sandboxes", {"image": "tiny", "labels": {"a": "b"}, "group": "walk", "ttl_ms": 600000, "name": "walker"})["id"]
    soon = me.open("POST", "/v1/sandboxes", {"image": "tiny", "wait": False, "group": "walk"})
    assert soon.status == 202 and soon.read()
    refused("not_found", me, "POST", "/v1/sandboxes", {"image": "nothing"})
    assert me.open("POST", "/v1/batches", {"count": 2, "sandbox": {"image": "tiny", "group": "walk"}}).read().count(b"data: ") == 2
    for query in ("", "?limit=1", "?group=walk", "?state=running", "?label=a%3Db"):
        me.call("GET", "/v1/sandboxes" + query)
    me.get(box)
    refused("not_found", me, "GET", f"/v1/sandboxes/{absent}")
    sn = me.call("POST", f"/v1/sandboxes/{box}/snapshots", {"name": "walk", "labels": {"a": "b"}, "ttl_ms": 3600000})["id"]
    refused("conflict", me, "POST", f"/v1/sandboxes/{box}/snapshots", {"name": "walk"})
    assert me.call("GET", f"/v1/snapshots?name=walk&sandbox={box}&limit=1")["snapshots"][0] == me.call("GET", f"/v1/snapshots/{sn}")
    assert me.open("POST", f"/v1/sandboxes/{box}/fork", {"count": 2, "labels": {"a": "forked"}}).read().count(b"data: ") == 2
    me.call("DELETE", "/v1/sandboxes?label=a%3Dforked")
    assert me.call("POST", f"/v1/sandboxes/{box}/rollback", {"snapshot": sn})["snapshot"] == sn
    assert me.open("GET", f"/v1/snapshots/{sn}/layer").read() and me.open("GET", f"/v1/snapshots/{sn}/image").read() and me.open("GET", f"/v1/sandboxes/{box}/layer").read()
    assert "changes" in me.call("GET", f"/v1/sandboxes/{box}/changes?since={sn}")
    cursor = me.call("GET", f"/v1/sandboxes/{box}/changes?limit=1").get("next_cursor")
    me.call("GET", f"/v1/sandboxes/{box}/changes" + (f"?cursor={cursor}" if cursor else ""))
    vo = me.call("POST", "/v1/volumes", {"name": "walk", "labels": {"a": "b"}})["id"]
    refused("conflict", me, "POST", "/v1/volumes", {"name": "walk"})
    assert me.call("GET", "/v1/volumes?name=walk&limit=1")["volumes"][0] == {k: v for k, v in me.call("GET", f"/v1/volumes/{vo}").items() if k != "used_bytes"}
    with contextlib.suppress(cay.ApiError):  # without disk quotas it is unsupported
        me.call("POST", f"/v1/volumes/{vo}/resize", {"size_bytes": 2 << 20})
    me.call("DELETE", f"/v1/volumes/{vo}")
    refused("not_found", me, "GET", f"/v1/volumes/{vo}")
    me.call("DELETE", f"/v1/snapshots/{sn}")
    refused("not_found", me, "POST", f"/v1/sandboxes/{box}/rollback", {"snapshot": sn})
    refused("not_found", me, "DELETE", f"/v1/snapshots/{sn}")
    refused("not_found", me, "GET", f"/v1/snapshots/{sn}/layer")
    for verb in ("pause", "resume", "resume", "stop", "stop", "start", "start"):
        me.call("POST", f"/v1/sandboxes/{box}/{verb}")
    me.call("POST", f"/v1/sandboxes/{box}/extend", {"ttl_ms": 900000})
    me.call("POST", f"/v1/sandboxes/{box}/hold", {"for_ms": 900000})
    me.call("POST", f"/v1/sandboxes/{box}/labels", {"labels": {"a": None, "c": "d"}})
    me.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "read"})
    me.call("POST", f"/v1/sandboxes/{box}/limits", {"pids": 300, "memory_bytes": "1Gi"})
    me.call("GET", f"/v1/sandboxes/{box}/usage")
    me.call("PUT", f"/v1/sandboxes/{box}/egress?if_generation=1", {"rules": [{"action": "deny", "to": "*", "ports": [443, "8000-8010"]}]})
    refused("conflict", me, "PUT", f"/v1/sandboxes/{box}/egress?if_generation=1", {})
    me.call("GET", f"/v1/sandboxes/{box}/egress")
    me.call("POST", f"/v1/sandboxes/{box}/egress/check", {"to": "a.example"})
    me.call("POST", f"/v1/sandboxes/{box}/egress", {"rules": [{"action": "deny", "to": "b.example"}], "remove": ["*"]})
    me.call("GET", f"/v1/sandboxes/{box}/egress/flows")
    me.call("GET", f"/v1/sandboxes/{box}/egress/log")
    me.call("POST", f"/v1/sandboxes/{box}/egress/cut", {"to": "a.example", "port": 443})
    me.call("GET", "/v1/presets")
    me.call("GET", "/v1/asks?state=waiting")
    refused("not_found", me, "GET", "/v1/asks/ak" + "0" * 24)
    refused("not_found", me, "POST", "/v1/asks/ak" + "0" * 24, {"verdict": "allow"})
    cay.wait_for("cay-broker", lambda: "cay-broker is connected" in w.log("cayd"), 30)
    me.call("PUT", "/v1/credentials/walk", {"value": "0123456789abcdef", "hosts": ["api.example.com"], "kind": "header", "header": "X-Key", "env": "KEY"})
    me.call("GET", "/v1/credentials")
    me.call("DELETE", "/v1/credentials/walk")
    refused("not_found", me, "DELETE", "/v1/credentials/walk")
    # commands
    me.call("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", "echo out; printf '\\377' >&2; exit 3"]})
    refused("not_found", me, "POST", f"/v1/sandboxes/{absent}/execs", {"argv": ["true"]})
    name = me.exec_detached(box, ["cat"], stdin_open=True)
    me.call("GET", f"/v1/sandboxes/{box}/execs")
    me.call("GET", f"/v1/sandboxes/{box}/execs/{name}")
    me.open("POST", f"/v1/sandboxes/{box}/execs/{name}/stdin", b"bytes").read()
    cay.wait_for("them", lambda: me.exec_output(box, name) == b"bytes", 20)
    me.signal(box, name)
    cay.wait_for("its end", lambda: me.call("GET", f"/v1/sandboxes/{box}/execs/{name}")["state"] == "ended", 20)
    me.call("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sleep", "9"], "timeout_ms": 10})
    name = me.exec_detached(box, ["sleep", "100"], tty={"cols": 100})
    me.call("POST", f"/v1/sandboxes/{box}/execs/{name}/resize", {"cols": 132, "rows": 50})
    me.signal(box, name)
    # shells
    refused("unsupported", me, "POST", f"/v1/sandboxes/{box}/shells", {})
    w.image_import("bash", shell_fixtures.bash_image())
    bash = me.call("POST", "/v1/sandboxes", {"image": "bash", "group": "walk"})["id"]
    shell = me.call("POST", f"/v1/sandboxes/{bash}/shells", {"name": "walk", "env": {"A": "b"}})["id"]
    at = f"/v1/sandboxes/{bash}/shells/{shell}"
    me.call("GET", f"/v1/sandboxes/{bash}/shells")
    me.call("POST", at + "/runs", {"command": "echo {1..1000}; printf '\\377' >&2; (exit 3)", "max_output": 100, "keep": "both"})
    me.call("GET", at + "/runs")
    me.call("GET", at + "/runs/1?max_output=10&keep=head")
    refused("not_found", me, "GET", at + "/runs/9")
    me.open("GET", at + "/output?stream=stderr").read()
    refused("wrong_state", me, "POST", at + "/interrupt")
    me.call("POST", at + "/runs", {"command": "while :; do :; done", "detach": True})
    me.call("POST", at + "/interrupt")
    me.call("GET", at)
    me.call("DELETE", at)
    refused("not_found", me, "GET", at)
    # screens: control/test_screen.py has one
    refused("unsupported", me, "GET", f"/v1/sandboxes/{box}/screen")
    refused("unsupported", me, "GET", f"/v1/sandboxes/{box}/screen/shot?max_width=640")
    refused("unsupported", me, "GET", f"/v1/sandboxes/{box}/screen/clipboard")
    refused("unsupported", me, "POST", f"/v1/sandboxes/{box}/screen/actions", {"actions": [{"type": "type", "text": "x"}]})
    # browsers: control/test_browser_actions.py has one
    for what in ("", "/snapshot?filter=all", "/shot?full=true"):
        refused("unsupported", me, "GET", f"/v1/sandboxes/{box}/browser{what}")
    refused("unsupported", me, "POST", f"/v1/sandboxes/{box}/browser/actions", {"actions": [{"type": "back"}]})
    # kernels
    refused("unsupported", me, "POST", f"/v1/sandboxes/{box}/kernels", {"language": "python"})
    kernel = me.call("POST", f"/v1/sandboxes/{bash}/kernels", {"language": "python", "name": "walk", "env": {"A": "b"}})["id"]
    at = f"/v1/sandboxes/{bash}/kernels/{kernel}"
    me.call("GET", f"/v1/sandboxes/{bash}/kernels")
    run = me.call("POST", at + "/runs", {"code": "1+1", "max_output": 100, "keep": "both", "cwd": "/tmp", "silent": True})
    assert run["results"][0]["data"] == {"text/plain": "2"} and run["exception"]["traceback"] == ["a", "b"] and run["end"]["exit_code"] == 1
    run = me.call("POST", f"/v1/sandboxes/{bash}/kernels/runs", {"language": "python", "name": "walk", "code": "1+1", "max_results": 600})
    assert run["kernel"] == kernel and run["results_dropped"] == 1
    refused("unsupported", me, "POST", f"/v1/sandboxes/{box}/kernels/runs", {"language": "python", "code": "1"})
    me.call("GET", at + "/runs")
    me.call("GET", at + "/runs/1?max_output=10&keep=head")
    refused("not_found", me, "GET", at + "/runs/9")
    me.open("GET", at + "/output?stream=stderr").read()
    refused("wrong_state", me, "POST", at + "/interrupt")
    refused("wrong_state", me, "POST", at + "/install", {"packages": {"six": ""}})
    me.call("POST", at + "/runs", {"code": "sleep", "detach": True})
    me.call("POST", at + "/interrupt")
    assert me.call("POST", at + "/restart")["restarts"] == 1
    me.call("GET", at)
    me.call("DELETE", at)
    refused("not_found", me, "GET", at)
    # services, and what it is like inside
    at = f"/v1/sandboxes/{box}/services"
    me.call("PUT", at + "/web", {"command": "sleep 1000", "priority": 5, "stop_ms": 100})
    me.call("GET", at)
    me.call("GET", at + "/web")
    refused("not_found", me, "GET", at + "/none")
    refused("invalid_argument", me, "PUT", at + "/web", {"command": "'"})
    refused("wrong_state", me, "DELETE", at + "/web")
    me.open("GET", at + "/web/log").read()
    for verb in ("restart", "stop", "start", "stop"):
        me.call("POST", f"{at}/web/{verb}")
    me.call("PUT", at + "/bad", {"argv": ["/no/such"], "start_retries": 0})
    me.call("DELETE", at + "/web")
    me.call("GET", f"/v1/sandboxes/{box}/info")
    me.call("GET", f"/v1/sandboxes/{box}/info?versions=true")
    me.call("GET", f"/v1/sandboxes/{box}/health")
    me.call("GET", f"/v1/sandboxes/{box}/health?port=1")
    # who runs and who listens
    me.exec_detached(box, ["sleep", "777"])
    one = process(me, box, "sleep 777")
    me.call("POST", f"/v1/sandboxes/{box}/processes/{one['pid']}/signal", {"signal": "TERM", "start": one["start"], "tree": True})
    refused("permission_denied", me, "POST", f"/v1/sandboxes/{box}/processes/1/signal", {})
    me.call("GET", f"/v1/sandboxes/{box}/ports")
    me.call("GET", f"/v1/sandboxes/{box}/ports/80?wait_ms=1")
    refused("upgrade_required", me, "GET", f"/v1/sandboxes/{box}/tunnel/80")
    assert me.open("GET", f"/v1/sandboxes/{box}/ports/80/").status in (404, 502)
    assert me.open("GET", f"/v1/sandboxes/{box}/app/").status in (404, 502)
    refused("unsupported", me, "POST", f"/v1/sandboxes/{box}/preview", {"port": 80})
    me.call("POST", f"/v1/sandboxes/{box}/revoke", {})
    # files
    at = f"/v1/sandboxes/{box}/files"
    me.open("GET", at + "/content?path=/etc/passwd").read()
    me.open("GET", at + "/content?path=/etc/passwd", headers={"Range": "bytes=0-3"}).read()
    me.call("GET", at + "/stat?path=/")
    refused("not_found", me, "GET", at + "/stat?path=/none")
    me.call("GET", at + "/view?path=/etc/passwd&numbers=true")
    refused("not_found", me, "GET", at + "/view?path=/none")
    me.call("GET", at + "/glob?path=/etc&pattern=pass*")
    refused("invalid_argument", me, "GET", at + "/glob?pattern=%5B")
    # trees
    tree = me.open("GET", at + "/tree?path=/etc/passwd").read()
    me.call("PUT", at + "/tree?path=tree", tree)
    me.open("GET", at + "/tree?path=tree&format=tar.gz").read()
    refused("invalid_argument", me, "PUT", at + "/tree?path=tree", b"no tar")
    me.call("POST", at + "/grep", {"path": "/etc", "pattern": "root", "include": ["pass*"], "context": 1})
    refused("invalid_argument", me, "POST", at + "/grep", {"pattern": "("})
    me.call("GET", at + "/watch?path=/tmp&wait_ms=10")
    me.call("GET", at + "?path=/etc&depth=2&limit=5")
    for verb, body in (("mkdir", {"path": "/tmp/w/d", "parents": True, "mode": "0755"}), ("symlink", {"path": "/tmp/w/l", "target": "d"}),
                       ("copy", {"path": "/tmp/w", "to": "/tmp/v", "recursive": True}), ("move", {"path": "/tmp/v", "to": "/tmp/u"}),
                       ("chmod", {"path": "/tmp/u", "mode": "0700"}), ("delete", {"path": "/tmp/u", "recursive": True}),
                       ("batch", {"steps": [{"do": "delete", "path": "/tmp/none"}]})):
        me.call("POST", f"{at}/{verb}", body)
    me.open("PUT", at + "/content?path=/tmp/w/f&create_only=true", b"bytes").read()
    refused("conflict", me, "PUT", at + "/content?path=/tmp/w/f&create_only=true", b"bytes")
    me.open("PUT", at + "/content?path=/tmp/w/e", b"one\n").read()
    me.call("POST", at + "/edit", {"path": "/tmp/w/e", "edits": [{"old": "one", "new": "two"}]})
    refused("conflict", me, "POST", at + "/edit", {"path": "/tmp/w/e", "edits": [{"old": "one", "new": "two"}]})
    me.call("POST", at + "/import", {"from": box, "path": "tree", "to": "again"})
    me.call("POST", at + "/link", {"path": "tree"})
    exports = f"/v1/sandboxes/{box}/exports"
    me.call("POST", exports, {"path": "/tmp/w/e"})
    me.call("POST", exports, {"path": "/tmp/w"})
    refused("not_found", me, "POST", exports, {"path": "/tmp/none"})
    me.call("GET", exports)
    me.call("DELETE", exports + "?path=/tmp/w")
    refused("not_found", me, "DELETE", exports + "?path=/tmp/w")
    # uploads
    me.call("PUT", "/v1/uploads?group=walk&name=a.txt&size=5", b"bytes")
    refused("invalid_argument", me, "PUT", "/v1/uploads?group=walk&name=a.txt&size=4", b"bytes")
    me.call("GET", "/v1/uploads?group=walk")
    me.call("POST", at + "/import", {"upload": "a.txt", "to": "up"})
    refused("not_found", me, "POST", at + "/import", {"upload": "none"})
    refused("invalid_argument", me, "POST", at + "/import", {})
    me.call("DELETE", "/v1/uploads?group=walk&name=a.txt")
    refused("not_found", me, "DELETE", "/v1/uploads?group=walk&name=a.txt")
    # images
    image = me.call("GET", "/v1/images")["images"][0]["id"]
    me.call("GET", f"/v1/images/{image}")
    other = w.image_import("other", world.tiny())["id"]
    refused("invalid_argument", me, "POST", "/v1/images?name=damaged", b"no tar")
    me.call("DELETE", f"/v1/images/{other}")
    refused("not_found", me, "GET", f"/v1/images/im{absent[2:]}")
    refused("permission_denied", me, "POST", "/v1/images/pull", {"reference": "registry.example/app:1"})
    me.call("POST", "/v1/images/prune", {"unused_ms": 1000})
    me.call("POST", "/v1/registries", {"registry": "registry.example", "username": "walker", "password": "x"})
    me.call("GET", "/v1/registries")
    me.call("DELETE", "/v1/registries?registry=registry.example")
    # templates
    kind = me.call("POST", "/v1/templates", {"name": "walk", "defaults": {"image": "tiny", "env": {"A": "1"}}})["id"]
    me.call("GET", "/v1/templates?limit=1")
    me.call("GET", f"/v1/templates/{kind}")
    me.call("POST", f"/v1/templates/{kind}/pool", {"min": 0, "max": 5, "on_empty": "fail"})
    refused("not_found", me, "GET", f"/v1/templates/{kind}/log")  # nothing was built
    kind = me.call("POST", "/v1/templates", {"name": "walk", "defaults": {"image": "tiny"}, "setup": ["echo hi"]})["id"]
    cay.wait_for("its build", lambda: me.call("GET", f"/v1/templates/{kind}")["state"] == "ready", 60)
    me.call("GET", f"/v1/templates/{kind}/log")
    me.call("DELETE", f"/v1/templates/{kind}")
    refused("not_found", me, "GET", f"/v1/templates/{kind}")
    # who
    tenant = me.call("POST", "/v1/tenants", {"name": f"walk-{os.getpid()}"})["id"]
    me.call("GET", "/v1/tenants?limit=1")
    me.call("POST", f"/v1/tenants/{tenant}", {"quotas": {"memory_bytes": "1Gi"}, "ceilings": {"pids": 512}})
    me.call("GET", f"/v1/tenants/{tenant}")
    me.call("GET", "/v1/tenant")
    me.call("GET", "/v1/usage?by=label&label=team&limit=1")
    me.call("GET", "/v1/usage")
    key = me.call("POST", "/v1/keys", {"tenant": tenant, "name": "walk", "scope": "read", "ttl_ms": 60000})["key"]["id"]
    me.call("GET", "/v1/keys")
    me.call("POST", f"/v1/keys/{key}/rotate", {"overlap_ms": 1000})
    me.call("POST", f"/v1/keys/{key}/revoke")
    with contextlib.suppress(cay.ApiError):  # it has a key
        me.call("DELETE", f"/v1/tenants/{tenant}")
    # what is there to see
    me.call("GET", "/v1/status")
    me.call("GET", "/v1/fsck")
    me.call("POST", "/v1/fsck")
    for query in ("", "?limit=2"):
        me.call("GET", "/v1/audit" + query)
        me.call("GET", "/v1/events" + query)
    me.call("GET", "/v1/audit/head")
    me.delete(box)
    me.get(box)
    refused("wrong_state", me, "POST", f"/v1/sandboxes/{box}/pause")
    me.call("DELETE", "/v1/sandboxes?group=walk")


def test_every_operation_keeps_the_contract(node, prism):
    me = behind(prism, node)
    walk(me, node)
    missing = {r.name for r in routes(node)} - set(me.seen) - set(PAST)
    assert not missing, f"nobody asked for {missing}"
    assert me.seen["sandbox.create"] >= {201, 202, 404}


def test_a_refusal_keeps_the_contract(node, prism, box):
    """For each operation, who may not."""
    token = node.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "read"})["token"]
    me = behind(prism, node, token)
    for r in routes(node):
        if r.name not in PAST and r.scope in ("write", "operator"):
            me.open(r.method, r.target() + {"group.delete": "?group=x", "image.import": "?name=x",
                                            "registry.logout": "?registry=x.y"}.get(r.name, NEEDED.get(r.name, "")), r.body).read()
            assert me.seen[r.name] <= {403, 404}, r.name


@pytest.mark.parametrize("other", ["test_a_life_over_http", "test_one_key_makes_one_sandbox_over_http_too", "test_a_token_is_for_one_sandbox",
                                   "test_a_foreign_sandbox_is_an_absent_one"])
def test_what_others_ask_keeps_the_contract(node, prism, box, other):
    """Tests of the edge, with Prism in their way."""
    class Node(world.World):
        def door(self, credential=None, host=None):
            return behind(prism, node, credential)
    w = copy.copy(node)
    w.__class__ = Node
    fn = getattr(test_edge, other)
    fn(w, box) if "box" in fn.__code__.co_varnames[:fn.__code__.co_argcount] else fn(w)


def test_a_list_says_what_it_no_longer_has():
    """As a stream of events does."""
    with cay.Cay(BUILD) as c:
        c.image_import("tiny", world.tiny())
        c.delete(c.create("tiny"))
        assert "missed_until" not in c.call("GET", "/v1/events")
        c.daemons["cayd"].terminate()
        c.daemons["cayd"].wait()
        with contextlib.closing(sqlite3.connect(next((c.state / "db").glob("*.db")), autocommit=True)) as db:
            db.execute("DELETE FROM event WHERE seq < 3")
        c.start_cayd()
        assert c.call("GET", "/v1/events")["missed_until"] == 3
        assert "missed_until" not in c.call("GET", "/v1/events?after=2")
        stream = c.open("GET", "/v1/events", headers={"Accept": "text/event-stream"})
        assert stream.readline() + stream.readline() == b'event: gap\ndata: {"missed_until":3}\n'
