# SPDX-License-Identifier: Apache-2.0
"""Every operation has an example in the document, and asked like that it does what it says

The examples are sent as they stand, to a whole node and through Prism, which reads both ways by
the schemas; only ids are those of things that there are.  A new operation is asked for
without a change here, unless its example needs something to be there first: then it has a row
in one of the tables below.
"""
import http.client
import os
import re
import urllib.parse

import cay
import pytest
import shell_fixtures
import world
from test_contract import behind, prism, process  # noqa: F401
from routes import routes

OPENAPI = "/v1/openapi.json"
NOUNS = {"sandbox": "sb", "exec": "ex", "image": "im", "tenant": "tn", "key": "ky", "template": "tp", "snapshot": "sn", "volume": "vo"}
# A kernel's runner, and a program that runs for long.
PYTHON = shell_fixtures.RUNNER.replace(b"\n", b'\n[ "$1" = -c ] || exec sleep 1000\n', 1)

# What is sent where bytes are taken.
BYTES = {"image.import": lambda c: world.tiny(), "tree.put": lambda c: cay.layer([cay.file("a", b"hello")])}
TEXT = {"file.write": b"hello", "upload.put": b"hello"}  # through Prism, which reads it as text; its size and hash are in the example
# Where an example cannot do what it says: here nobody named a registry to pull from, nor a domain for previews, no sandbox has a network, and nothing asks.
REFUSED = {"image.pull": (403, "permission_denied"), "sandbox.preview": (422, "unsupported"), "kernel.install": (409, "wrong_state"),
           **{name: (422, "unsupported") for name in ("screen.info", "screen.shot", "screen.clipboard", "screen.act", "screen.vnc", "browser.info", "browser.act", "browser.snapshot", "browser.shot", "browser.cdp")},
           **{name: (404, "not_found") for name in ("ask.get", "ask.answer")}}
# What becomes of a connection that stops being HTTP.
PROTOCOL = {"port.connect": "cay-port"}


def base():
    """The image of the examples, as small as can be: their commands are there."""
    return world.tiny([cay.file("bin/python3", PYTHON, 0o755), *world.bash()])


class Case:
    """One operation, and what it is about; made when somebody asks for its id."""

    def __init__(self, w, name):
        self.w, self.name, self.ids = w, name, {}

    def __getitem__(self, noun):
        if noun not in self.ids:
            assert noun in MAKE, f"{self.name}: no example knows how to make a {noun}; add a row to MAKE"
            self.ids[noun] = MAKE[noun](self)
        return self.ids[noun]

    def call(self, *args):
        return self.w.call(*args)

    def at(self, what=""):
        return f"/v1/sandboxes/{self['sandbox']}{what}"

    def end(self):
        """The sandbox, and a template with the pool it may have by now."""
        for noun in ("sandbox", "template"):
            if noun in self.ids and self.name != f"{noun}.delete":
                self.w.call("DELETE", f"/v1/{noun}{'es' if noun[-1] == 'x' else 's'}/{self.ids[noun]}")


def a_credential(c):
    cay.wait_for("cay-broker", lambda: "cay-broker is connected" in c.w.log("cayd"), 30)
    if c.name != "credential.put":
        c.call("PUT", "/v1/credentials/example", {"value": "0123456789abcdef", "hosts": ["api.example.com"]})
    return "example"


def a_service(c):
    c.call("PUT", c.at("/services/web"), {"command": "sleep 1000", "stop_ms": 100})
    return "web"


def a_process(c):
    c.w.exec_detached(c["sandbox"], ["sleep", "1000"])
    return str(process(c.w, c["sandbox"], "sleep 1000")["pid"])


def a_port(c):
    """Somebody there says the same to everybody."""
    port = "9000" if c.name == "port.app" else "8080"
    answer = "read line; printf 'HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Type: application/octet-stream\\r\\nContent-Length: 3\\r\\n\\r\\nhi\\n'"
    line = f"busybox mkfifo /tmp/f; while :; do nc -l -p {port} 0<>/tmp/f | {{ {answer} >/tmp/f; cat; }}; done"
    c.w.exec_detached(c["sandbox"], ["sh", "-c", line])
    return port


def a_template(c):
    name = f"t{os.urandom(4).hex()}"
    return c.call("POST", "/v1/templates", {"name": name, "defaults": {"image": "base"}, **({"setup": ["true"]} if c.name == "template.log" else {})})["id"]


# What a parameter of a path stands for.
MAKE = {
    "sandbox": lambda c: c.w.create("base"),
    "exec": lambda c: c.w.exec_detached(c["sandbox"], ["cat"], **({"tty": {}} if c.name == "exec.resize" else {"stdin_open": True})),
    "pid": a_process,
    "port": a_port,
    "shell": lambda c: c.call("POST", c.at("/shells"), {})["id"],
    "kernel": lambda c: c.call("POST", c.at("/kernels"), {"language": "python"})["id"],
    "run": lambda c: str(c.call("POST", c.at(f"/kernels/{c['kernel']}/runs"), {"code": "1"})["number"]) if c.name.startswith("kernel.") else
    str(c.call("POST", c.at(f"/shells/{c['shell']}/runs"), {"command": "true"})["number"]),
    "service": a_service,
    "image": lambda c: c.w.image_import(f"i{os.urandom(4).hex()}", cay.layout([cay.file("a", os.urandom(16))]))["id"],
    "tenant": lambda c: c.call("POST", "/v1/tenants", {"name": f"t{os.urandom(4).hex()}"})["id"],
    "key": lambda c: c.call("POST", "/v1/keys", {"tenant": c["tenant"], "name": "example", "scope": "read"})["key"]["id"],
    "template": a_template,
    "credential": a_credential,
    "ask": lambda c: "ak" + "0" * 24,
    "snapshot": lambda c: c.call("POST", c.at("/snapshots"), {})["id"],
    "volume": lambda c: c.call("POST", "/v1/volumes", {"name": f"v{os.urandom(4).hex()}"})["id"],
}


def built(c):
    cay.wait_for("its build", lambda: c.call("GET", f"/v1/templates/{c['template']}")["state"] == "ready", 60)


# Of files: what is to be at the path of the example; else it is a file.
NOTHING = {"file.mkdir", "file.symlink", "file.write", "file.batch"}
DIRECTORY = {"file.list", "file.glob", "file.grep", "file.watch", "tree.get", "tree.put", "tree.import", "tree.link"}
FROM = {"path"}


def paths_in(value):
    """Of an example: where something has to be, relative to the workspace or not."""
    if isinstance(value, list):
        return [p for v in value for p in paths_in(v)]
    if not isinstance(value, dict):
        return []
    return [v for k, v in value.items() if k in FROM and isinstance(v, str)] + [p for v in value.values() for p in paths_in(v)]


def put_files(c, query, body):
    make = "mkdir" if c.name in DIRECTORY else "true" if c.name in NOTHING else "echo hello >"
    line = f'test -e "$1" || {{ mkdir -p "${{1%/*}}" && {make} "$1" && if test -e "$1"; then chown user "$1"; fi; }}'
    for path in paths_in(query) + paths_in(body):
        done = c.w.exec(c["sandbox"], ["sh", "-c", line, "sh", path if "/" in path else "./" + path],
                        user="root" if path[0] == "/" else "user")
        assert done.exit_code == 0, done


def listens(c):
    assert c.call("GET", c.at(f"/ports/{c['port']}?wait_ms=25000"))["open"]


# What must have happened before.
BEFORE = {
    "export.delete": lambda c: c.call("POST", c.at("/exports"), {"path": "/etc/passwd"}),
    "upload.delete": lambda c: c.call("PUT", "/v1/uploads?group=thread-7&name=report.pdf", b"hello"),
    "service.delete": lambda c: c.call("POST", c.at(f"/services/{c['service']}/stop")),
    "service.start": lambda c: c.call("POST", c.at(f"/services/{c['service']}/stop")),
    "sandbox.start": lambda c: c.call("POST", c.at("/stop")),
    "sandbox.resume": lambda c: c.call("POST", c.at("/pause")),
    "registry.logout": lambda c: c.call("POST", "/v1/registries", {"registry": "registry.example:5000", "username": "a", "password": "b"}),
    "template.log": built,
    "shell.interrupt": lambda c: c.call("POST", c.at(f"/shells/{c['shell']}/runs"), {"command": "sleep 100", "detach": True}),
    "kernel.interrupt": lambda c: c.call("POST", c.at(f"/kernels/{c['kernel']}/runs"), {"code": "sleep", "detach": True}),
    "port.proxy": listens,
    "port.app": listens,
    "port.connect": listens,
}


def with_ids(value, c):
    """An id in an example is one of somebody; of a thing that there is it has another."""
    if isinstance(value, dict):
        return {k: with_ids(v, c) for k, v in value.items()}
    if isinstance(value, list):
        return [with_ids(v, c) for v in value]
    noun = next((n for n, two in NOUNS.items() if isinstance(value, str) and re.fullmatch(two + "[0-9a-hjkmnp-tv-z]{24}", value)), None)
    return c[noun] if noun else value


def example(row, c):
    """(query, body) as the document has them."""
    query = {p["name"]: with_ids(p["example"], c) for p in row["parameters"] if p["in"] == "query" and "example" in p}
    query = {k: str(v).lower() if isinstance(v, bool) else v for k, v in query.items()}
    content = row.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        assert "example" in content["application/json"], f"{c.name} has no example"
        return query, with_ids(content["application/json"]["example"], c)
    return query, BYTES.get(c.name, lambda c: TEXT.get(c.name, b"hello\n"))(c) if content else None


@pytest.fixture(scope="module")
def document(node):
    node.image_import("base", base())
    return {row["operationId"]: (method.upper(), path, row)
            for path, rows in node.call("GET", OPENAPI)["paths"].items() for method, row in rows.items()}


def upgrade(door, name, target):
    """The reply to a request for a WebSocket, or for what it is here."""
    c = door.connection(30)
    c.request("GET", target, headers={**door.says(), "Connection": "Upgrade", "Upgrade": PROTOCOL.get(name, "websocket"),
                                      "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="})
    return c.getresponse()


def ask(node, prism, document, name):
    method, path, row = document[name]
    c = Case(node, name)
    BEFORE.get(name, lambda c: None)(c)
    query, body = example(row, c)
    if "/files" in path:
        put_files(c, query, body)
    target = re.sub(r"\{(\w+)\}", lambda m: c[m[1]], path) + ("?" + urllib.parse.urlencode(query) if query else "")
    # Prism speaks no WebSocket, and reads what is sent, and an archive that comes, as text
    door = node.door() if "101" in row["responses"] or name in BYTES or name == "tree.get" else behind(prism, node)
    reply = upgrade(door, name, target) if "101" in row["responses"] else door.open(method, target, body)
    text = reply.read() if reply.status != 101 else b""
    want = REFUSED.get(name)
    if name == "volume.resize" and node.call("GET", "/v1/health").get("disk", "none") == "none":
        want = (422, "unsupported")  # nothing limits disks here
    good = next(s for s in row["responses"] if s.isdigit())
    assert reply.status == (want[0] if want else int(good)), f"{method} {target} {body!r}: {reply.status} {text[:600]!r}"
    assert not want or want[1].encode() in text
    c.end()


def test_every_example_is_good(node, prism, document):  # noqa: F811
    wrong = {}
    for name in [r.name for r in routes(node)]:
        try:
            ask(node, prism, document, name)
        except (AssertionError, pytest.fail.Exception, cay.ApiError, OSError, http.client.HTTPException) as e:
            wrong[name] = (str(e) or repr(e)).split("\nassert")[0][:900]
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())


@pytest.mark.parametrize("spoilt", ["no example", "an example that is refused"])
def test_a_wrong_example_is_seen(node, prism, document, spoilt):  # noqa: F811
    method, path, row = document["sandbox.extend"]
    content = {"application/json": {} if spoilt == "no example" else {"example": {"ttl_ms": 1}}}
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        ask(node, prism, {"sandbox.extend": (method, path, {**row, "requestBody": {"content": content}})}, "sandbox.extend")
