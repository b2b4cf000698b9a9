# SPDX-License-Identifier: Apache-2.0
"""The unmodified SDKs of OpenSandbox against a whole node, and who may do what below /opensandbox"""
import datetime
import json
import pathlib
import subprocess

import cay
import opensandbox_world
import pytest
import unpacked

HERE = pathlib.Path(__file__).parent


def outcomes(done):
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert rows and rows[-1] == ["done", True], done.stdout[-2000:] + done.stderr[-2000:]
    return rows


def test_sdk_for_javascript(node):
    tenant = node.call("POST", "/v1/tenants", {"name": "js"})["id"]
    env = node.sdk_env(node.new_key(tenant=tenant))
    done = subprocess.run([opensandbox_world.NODE, HERE / "sdk.cjs"], env=env, capture_output=True, text=True, timeout=120)
    rows = outcomes(done)
    assert not [r for r in rows if r[1] is not True], [r for r in rows if r[1] is not True]
    assert len(rows) == 64


def python(node, *parts):
    env = node.sdk_env(node.operator_key())
    rows = outcomes(subprocess.run(["python3", HERE / "sdk.py", *parts], env=env, capture_output=True, text=True, timeout=180))
    assert not [r for r in rows if r[1] is not True], [r for r in rows if r[1] is not True]
    return rows


def test_sdk_for_python(node):
    assert len(python(node, "commands", "files", "policy", "async", "life")) == 39


def test_the_example_of_the_guide(node):
    text = (HERE.parents[2] / "docs/opensandbox.md").read_text()
    program = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run(["python3", "-c", program], env=node.sdk_env(node.operator_key()), capture_output=True, text=True, timeout=60)
    assert done.stdout == "hello 0\nhi\n", done.stdout + done.stderr


def test_code_interpreter_for_python(node):
    """Its image is `code` where none was imported by its own name."""
    with unpacked.lent(node, "code") as name:
        assert name == "code"
        assert len(python(node, "code")) == 10


# -- who may do what

KEY, TOKEN = "OPEN-SANDBOX-API-KEY", "X-EXECD-ACCESS-TOKEN"
RESOURCES = {"cpu": "1", "memory": "128Mi"}


def create(node, key, **more):
    status, _, text = node.ask("POST", "/v1/sandboxes", {"image": {"uri": "base"}, "resourceLimits": RESOURCES, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 600, **more}, {KEY: key})
    assert status == 202, text
    return json.loads(text)["id"]


def token(node, key, sandbox):
    return json.loads(node.ask("GET", f"/v1/sandboxes/{sandbox}/endpoints/44772", None, {KEY: key})[2])["headers"][TOKEN]


@pytest.fixture(scope="module")
def mine(node):
    key = node.new_key()
    return {"key": key, "id": create(node, key)}


@pytest.fixture(scope="module")
def foreign(node):
    """A key of another tenant, and a token of its sandbox."""
    tenant = node.call("POST", "/v1/tenants", {"name": "other"})["id"]
    key = node.new_key(tenant=tenant)
    return {"key": key, "token": token(node, key, create(node, key))}


NO_EXEC, NO_SHELL, NO_KERNEL = ("ex" + "0" * 24, "sh" + "0" * 24, "kn" + "0" * 24)
FORM = (b'--b\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n\r\n{"path": "/tmp/x"}\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\ny\r\n--b--\r\n')
# the order ends the sandbox last
LIFECYCLE = [("GET", "/sandboxes/{}", None), ("PATCH", "/sandboxes/{}/metadata", {"a": "b"}), ("POST", "/sandboxes/{}/renew-expiration", {"expiresAt": (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).isoformat()}),
             ("GET", "/sandboxes/{}/endpoints/44772", None), ("GET", "/sandboxes/{}/endpoints/8000", None), ("POST", "/sandboxes/{}/snapshots", {}), ("POST", "/sandboxes/{}/pause", None),
             ("POST", "/sandboxes/{}/resume", None), ("DELETE", "/sandboxes/{}", None)]
EXECD = [("GET", "/ping", None), ("GET", "/metrics", None), ("POST", "/command", {"command": "true"}), ("POST", "/command", {"command": "true", "background": True}), ("DELETE", f"/command?id={NO_EXEC}", None),
         ("GET", f"/command/status/{NO_EXEC}", None), ("GET", f"/command/{NO_EXEC}/logs", None), ("POST", "/session", {}), ("POST", f"/session/{NO_SHELL}/run", {"command": "true"}),
         ("DELETE", f"/session/{NO_SHELL}", None), ("POST", "/code/context", {"language": "python"}), ("GET", "/code/contexts", None), ("DELETE", "/code/contexts?language=python", None),
         ("GET", f"/code/contexts/{NO_KERNEL}", None), ("DELETE", f"/code/contexts/{NO_KERNEL}", None), ("POST", "/code", {"code": "1", "context": {"language": "python"}}), ("POST", "/code", {"code": "1"}),
         ("DELETE", f"/code?id={NO_KERNEL}", None), ("GET", "/files/info?path=/etc/passwd", None), ("DELETE", "/files?path=/tmp/x", None), ("POST", "/files/permissions", {"/tmp/x": {"mode": 600}}),
         ("POST", "/files/mv", [{"src": "/tmp/x", "dest": "/tmp/y"}]), ("GET", "/files/search?path=/tmp", None), ("POST", "/files/replace", {"/tmp/x": {"old": "a", "new": "b"}}), ("POST", "/files/upload", FORM),
         ("GET", "/files/download?path=/etc/passwd", None), ("GET", "/files/download?path=/etc/passwd&limit=1", None), ("GET", "/directories/list?path=/tmp", None), ("POST", "/directories", {"/tmp/d": {}}),
         ("DELETE", "/directories?path=/tmp/d", None)]
EGRESS = [("GET", "/policy", None), ("PATCH", "/policy", [{"action": "allow", "target": "a.example"}]), ("DELETE", "/policy", ["a.example"])]
SNAPSHOT = "sn" + "0" * 24


def routes(sandbox):
    """Every route about one sandbox: method, path, body, headers."""
    for method, path, body in LIFECYCLE:
        yield method, "/v1" + path.replace("{}", sandbox, 1), body, {}
    for port, rows in ((44772, EXECD), (18080, EGRESS)):
        for method, path, body in rows:
            form = {"Content-Type": "multipart/form-data; boundary=b"} if body is FORM else {}
            yield method, f"/sandboxes/{sandbox}/proxy/{port}{path}", body, form


def test_the_walk_has_every_route():
    table = (HERE.parents[2] / "src/opensandbox/routes.def").read_text()
    rows = {tuple(line.split('"')[1:4:2]) for line in table.splitlines() if line.startswith("OSB_ROUTE(\"")}
    ids = {NO_EXEC: "{}", NO_SHELL: "{}", NO_KERNEL: "{}", "endpoints/44772": "endpoints/{}", "endpoints/8000": "endpoints/{}"}
    walked = {("GET", "/health"), ("POST", "/metrics/events"), ("POST", "/sandboxes"), ("GET", "/sandboxes"), ("GET", "/snapshots"), ("GET", "/snapshots/{}"), ("DELETE", "/snapshots/{}")}
    for method, path, _ in LIFECYCLE + EXECD + EGRESS:
        path = path.split("?")[0]
        for name, mark in ids.items():
            path = path.replace(name, mark)
        walked.add((method, path))
    assert rows == walked


def test_a_foreign_sandbox_is_an_absent_one(node, mine, foreign):
    absent = "sb" + "0" * 24
    for credential in ({KEY: foreign["key"]}, {TOKEN: foreign["token"]}):
        for there, gone in zip(routes(mine["id"]), routes(absent)):
            replies = [node.ask(m, p, b, {**h, **credential}) for m, p, b, h in (there, gone)]
            got = [(s, t.replace(n.encode(), b"ID")) for (s, _, t), n in zip(replies, (mine["id"], absent))]
            assert got[0] == got[1] and got[0][0] in (403, 404), (there[:2], got)
    rows = json.loads(node.ask("GET", "/v1/sandboxes", None, {KEY: foreign["key"]})[2])["items"]
    assert mine["id"] not in [r["id"] for r in rows]
    assert json.loads(node.ask("GET", f"/v1/sandboxes/{mine['id']}", None, {KEY: mine["key"]})[2])["status"]["state"] == "Running"


def test_a_foreign_snapshot_is_an_absent_one(node, mine, foreign):
    made = json.loads(node.ask("POST", f"/v1/sandboxes/{mine['id']}/snapshots", {}, {KEY: mine["key"]})[2])["id"]
    for method in ("GET", "DELETE"):
        replies = [node.ask(method, f"/snapshots/{name}", None, {KEY: foreign["key"]}) for name in (made, SNAPSHOT)]
        assert [(s, t) for s, _, t in replies] == [replies[0][::2]] * 2 and replies[0][0] == 404, replies
    assert json.loads(node.ask("GET", "/snapshots", None, {KEY: foreign["key"]})[2])["items"] == []
    assert node.ask("DELETE", f"/snapshots/{made}", None, {KEY: mine["key"]})[0] == 204


@pytest.mark.parametrize("credential", [{}, {KEY: ""}, {KEY: "cay_00000000_" + "A" * 43}, {TOKEN: "cayt_" + "A" * 118}], ids=["none", "empty", "unknown", "token"])
def test_without_a_credential_nothing_is_answered(node, mine, credential):
    others = [("POST", "/v1/sandboxes", {"image": {"uri": "base"}}, {}), ("GET", "/v1/sandboxes", None, {}), ("GET", "/health", None, {}), ("GET", "/snapshots", None, {}), ("GET", "/nothing", None, {}),
              ("POST", "/metrics/events", {}, {})]
    for method, path, body, headers in [*routes(mine["id"]), *others]:
        status, _, text = node.ask(method, path, body, {**headers, **credential})
        assert status == 401 and json.loads(text)["code"] == "INVALID_API_KEY" and json.loads(text)["message"], (path, status, text)


def test_authorization_is_no_credential_here(node, mine):
    """The first of OpenSandbox's headers decides, alone."""
    path = f"/v1/sandboxes/{mine['id']}"
    assert node.ask("GET", path, None, {"Authorization": f"Bearer {mine['key']}"})[0] == 401
    assert node.ask("GET", path, None, {KEY: mine["key"], "Authorization": "Bearer cay_00", TOKEN: "x"})[0] == 200
    assert node.ask("GET", path, None, {KEY: "cay_00", TOKEN: token(node, mine["key"], mine["id"])})[0] == 401


def test_a_token_is_for_its_sandbox_and_changes_no_policy(node, mine):
    own = {TOKEN: token(node, mine["key"], mine["id"])}
    second = create(node, mine["key"])
    at = "/sandboxes/{}/proxy/{}"
    assert node.ask("GET", at.format(mine["id"], 44772) + "/ping", None, own)[0] == 200
    assert node.ask("GET", at.format(second, 44772) + "/ping", None, own)[0] != 200
    assert node.ask("POST", at.format(second, 44772) + "/command", {"command": "true"}, own)[0] != 200
    for method, path, body in EGRESS[1:]:
        assert node.ask(method, at.format(mine["id"], 18080) + path, body, own)[0] == 403
    for method, path, body in (("DELETE", f"/sandboxes/{second}", None), ("POST", "/sandboxes", {"image": {"uri": "base"}, "resourceLimits": {}}), ("GET", "/sandboxes", None)):
        assert node.ask(method, path, body, own)[0] >= 400, path
    assert node.ask("DELETE", f"/sandboxes/{second}", None, {KEY: mine["key"]})[0] == 204


def test_a_key_that_may_only_read(node, mine):
    key = {KEY: node.new_key(scope="read")}
    reads = {"/ping", "/metrics", "/files/info?path=/etc/passwd", "/files/search?path=/tmp", "/files/download?path=/etc/passwd", "/files/download?path=/etc/passwd&limit=1", "/directories/list?path=/tmp",
             "/code/contexts", "/policy", ""}
    none = ("DELETE", "/code/contexts?language=python")  # there are none
    for method, path, body, headers in routes(mine["id"]):
        part = path.replace(f"/v1/sandboxes/{mine['id']}", "").replace(f"/sandboxes/{mine['id']}/proxy/44772", "").replace(f"/sandboxes/{mine['id']}/proxy/18080", "")
        status, _, text = node.ask(method, path, body, {**headers, **key})
        if (method == "GET" and part in reads) or (method, part) == none:
            assert status == 200, (path, text)
        else:
            assert status in (403, 404, 409), (method, path, status, text)
    assert node.ask("POST", "/v1/sandboxes", {"image": {"uri": "base"}, "resourceLimits": RESOURCES}, key)[0] == 403
    assert json.loads(node.ask("GET", f"/v1/sandboxes/{mine['id']}", None, {KEY: mine["key"]})[2])["status"]["state"] == "Running"


# -- what its wire is held to

def test_every_error_has_a_body_of_opensandbox(node, mine):
    at = f"/sandboxes/{mine['id']}/proxy/44772"
    good = {"image": {"uri": "base"}, "resourceLimits": RESOURCES}
    for method, path, body, want in [("GET", "/nothing", None, 501), ("POST", "/v1/pools", {}, 501), ("GET", f"{at}/pty/x", None, 501), ("PUT", "/v1/sandboxes", {}, 501), ("POST", "/v1/sandboxes", b"{", 400),
                                     ("POST", "/v1/sandboxes", [], 400), ("POST", "/v1/sandboxes", {}, 400), ("POST", "/v1/sandboxes", {**good, "timeout": 5}, 400),
                                     ("POST", "/v1/sandboxes", {**good, "lifecycle": {"preStart": {}}}, 400), ("POST", "/v1/sandboxes", {**good, "platform": {"os": "windows"}}, 400),
                                     ("POST", "/v1/sandboxes", {**good, "credentialProxy": {"enabled": True}}, 400), ("POST", "/v1/sandboxes", {**good, "resourceLimits": {"gpu": "1"}}, 400),
                                     ("POST", "/v1/sandboxes", {**good, "snapshotId": SNAPSHOT}, 400), ("POST", "/v1/sandboxes", {**good, "metadata": {"a": "b c"}}, 400),
                                     ("POST", "/v1/sandboxes", {**good, "extensions": {"access.renew.extend.seconds": "300"}}, 400), ("GET", "/sandboxes/x", None, 404), ("GET", "/v1/sandboxes?pageSize=0", None, 400),
                                     ("GET", "/v1/sandboxes?metadata=a", None, 400), ("POST", f"/v1/sandboxes/{mine['id']}/renew-expiration", {"expiresAt": "2001-01-01T00:00:00Z"}, 400),
                                     ("POST", f"{at}/command", {}, 400), ("POST", f"{at}/command", {"command": "true", "gid": 5, "uid": 4}, 400), ("GET", f"{at}/files/info", None, 400),
                                     ("GET", f"{at}/files/search?path=/tmp&pattern={'*' * 101}", None, 400), ("GET", f"{at}/files/info?path=/none", None, 404), ("POST", f"{at}/files/upload", b"", 400), ("GET", f"{at}/directories/list?path=/tmp&depth=x", None, 400)]:
        status, headers, text = node.ask(method, path, body, {KEY: mine["key"]})
        said = json.loads(text)
        assert status == want and said["code"] and said["message"] and set(said) == {"code", "message"}, (method, path, status, text)
        assert headers["Content-Type"] == "application/json" and headers["X-Request-ID"] == headers["Cay-Request"], headers


def test_the_health_of_the_node_and_telemetry(node, mine):
    status, _, text = node.ask("GET", "/health", None, {KEY: mine["key"]})
    assert (status, json.loads(text)) == (200, {"status": "healthy"})
    assert node.ask("POST", "/v1/metrics/events", {"eventType": "sandbox.create"}, {KEY: mine["key"]})[::2] == (204, b"")


def test_an_endpoint_of_a_port_leads_to_it(node, mine):
    """Only with its headers, and below Cay's own paths."""
    made = json.loads(node.ask("GET", f"/v1/sandboxes/{mine['id']}/endpoints/8000", None, {KEY: mine["key"]})[2])
    host, path = made["endpoint"].split("/", 1)
    assert host == f"127.0.0.1:{node.port}" and path.endswith("/8000")
    for headers, want in ((made["headers"], 502), ({}, 401)):
        assert node.ask("GET", f"/../{path}/", None, headers)[0] != 200  # nothing is above the prefix
        c = opensandbox_world.http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
        c.request("GET", f"/{path}/", headers=headers)
        assert c.getresponse().status == want
        c.close()


def test_an_entrypoint_ends_its_sandbox(node, mine):
    made = create(node, mine["key"], entrypoint=["sh", "-c", "exit 3"])

    def state():
        return json.loads(node.ask("GET", f"/v1/sandboxes/{made}", None, {KEY: mine["key"]})[2])["status"]["state"]
    cay.wait_for("its end", lambda: state() == "Failed", 30)
    rows = json.loads(node.ask("GET", "/v1/sandboxes?state=Failed", None, {KEY: mine["key"]})[2])["items"]
    assert made in [r["id"] for r in rows]


def test_a_command_goes_on_when_its_client_leaves(node, mine):
    """Its output is more than what is kept, so it would wait for a reader."""
    at, key = f"/sandboxes/{mine['id']}/proxy/44772", {KEY: mine["key"]}
    body = json.dumps({"command": "sleep 1; seq 4000000; touch /tmp/went-on"})
    c = opensandbox_world.http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    c.request("POST", f"/opensandbox{at}/command", body, {**key, "Content-Type": "application/json"})
    c.getresponse().read(10)
    c.close()
    cay.wait_for("its end", lambda: node.ask("GET", f"{at}/files/info?path=/tmp/went-on", None, key)[0] == 200, 40)
