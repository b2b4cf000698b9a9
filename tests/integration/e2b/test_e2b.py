# SPDX-License-Identifier: Apache-2.0
"""The unmodified SDKs of E2B against a whole node, and who may do what below /e2b"""
import http.client
import json
import pathlib
import re
import ssl
import subprocess

import cay
import e2b_world
import pytest

HERE = pathlib.Path(__file__).parent
JS_ROWS, PY_ROWS, DOMAIN_ROWS = 74, 33, 13


def outcomes(done):
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert rows and rows[-1] == ["done", True], done.stdout[-2000:] + done.stderr[-2000:]
    return rows


def test_sdk_for_javascript(node):
    tenant = node.call("POST", "/v1/tenants", {"name": "js"})["id"]
    env = node.sdk_env(e2b_world.hex_key(node.new_key(tenant=tenant)))
    done = subprocess.run([e2b_world.NODE, HERE / "sdk.cjs"], env=env, capture_output=True, text=True, timeout=120)
    rows = outcomes(done)
    assert [r for r in rows if r[1] is not True] == []
    assert len(rows) == JS_ROWS


def test_a_key_as_it_is(node):
    """Not in the spelling that begins as E2B's."""
    tenant = node.call("POST", "/v1/tenants", {"name": "as-it-is"})["id"]
    env = node.sdk_env(node.new_key(tenant=tenant))
    done = subprocess.run([e2b_world.NODE, HERE / "sdk.cjs", "terminal"], env=env, capture_output=True, text=True, timeout=120)
    assert [r[1] for r in outcomes(done)] == [True] * 3


def test_sdk_for_python(node):
    env = node.sdk_env(e2b_world.hex_key(node.operator_key()))
    done = subprocess.run(["python3", HERE / "sdk.py"], env=env, capture_output=True, text=True, timeout=120)
    rows = outcomes(done)
    assert [r for r in rows if r[1] is not True] == []
    assert len(rows) == PY_ROWS


def test_sdk_with_a_host_for_each_port(wide):
    env = wide.domain_env(wide.new_key())
    done = subprocess.run([e2b_world.NODE, HERE / "domain.cjs"], env=env, capture_output=True, text=True, timeout=120)
    rows = outcomes(done)
    assert [r for r in rows if r[1] is not True] == []
    assert len(rows) == DOMAIN_ROWS


@pytest.mark.parametrize("program", [[e2b_world.NODE, "interpreter.cjs"], ["python3", "interpreter.py"]], ids=["javascript", "python"])
def test_code_interpreter(node, code_image, program):
    env = node.sdk_env(e2b_world.hex_key(node.new_key()))
    done = subprocess.run([program[0], HERE / program[1]], env=env, capture_output=True, text=True, timeout=180)
    rows = outcomes(done)
    assert [r for r in rows if r[1] is not True] == []


def test_code_in_bash(node):
    env = node.sdk_env(e2b_world.hex_key(node.new_key()))
    done = subprocess.run(["python3", HERE / "bash.py"], env=env, capture_output=True, text=True, timeout=120)
    rows = outcomes(done)
    assert [r for r in rows if r[1] is not True] == []
    assert len(rows) == 18


def test_the_guide_says_what_is_tried():
    """Each name in its table is in one of the programs, and its versions are those of the lock files."""
    top = HERE.parents[2]
    guide = (top / "docs/e2b.md").read_text()
    tried = "".join((HERE / name).read_text() for name in ("sdk.cjs", "sdk.py", "domain.cjs", "interpreter.cjs", "interpreter.py"))
    rows = guide.split("## What there is")[1].split("## What differs")[0]
    names = [w for row in rows.splitlines() if row.startswith("| `") for w in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(names) > 30
    assert [n for n in names if n.removeprefix("Sandbox.") not in tried] == []
    npm = json.loads((top / "dev/npm/package.json").read_text())["devDependencies"]
    python = dict(re.findall(r"^(e2b[a-z-]*)==(\S+)", (top / "dev/python/python.lock").read_text(), re.M))
    for version in (npm["e2b"], npm["@e2b/code-interpreter"], python["e2b"], python["e2b-code-interpreter"]):
        assert version in rows, version


# -- who may do what

def create(node, key, **more):
    status, _, text = node.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60, **more}, {"X-API-Key": key})
    assert status == 201, text
    return json.loads(text)


@pytest.fixture(scope="module")
def mine(node):
    """A sandbox of the default tenant, and the reply that created it."""
    return create(node, node.new_key())


@pytest.fixture(scope="module")
def foreign(node):
    """A key of another tenant, and a token of its sandbox."""
    tenant = node.call("POST", "/v1/tenants", {"name": "other"})["id"]
    key = node.new_key(tenant=tenant)
    return {"key": key, "token": create(node, key)["envdAccessToken"]}


def envelope(message):
    text = json.dumps(message).encode()
    return b"\0" + len(text).to_bytes(4, "big") + text


CONTROL = [("GET", "/sandboxes/{}", None), ("POST", "/sandboxes/{}/timeout", {"timeout": 60}), ("POST", "/sandboxes/{}/pause", {}), ("POST", "/sandboxes/{}/resume", {}),
           ("POST", "/sandboxes/{}/connect", {"timeout": 60}), ("POST", "/v2/sandboxes/{}/connect", {}), ("GET", "/sandboxes/{}/metrics", None),
           ("POST", "/sandboxes/{}/fork", {}), ("POST", "/sandboxes/{}/snapshots", {}), ("PUT", "/sandboxes/{}/network", {"denyOut": ["0.0.0.0/0"]}), ("DELETE", "/sandboxes/{}", None)]
# what belongs to a tenant: rows are of the caller's
TENANT = [("POST", "/sandboxes", {"templateID": "base"}), ("POST", "/v2/sandboxes", {"templateID": "base"}), ("GET", "/sandboxes", None), ("GET", "/v2/sandboxes", None), ("GET", "/snapshots", None),
          ("POST", "/volumes", {"name": "walk"}), ("GET", "/volumes", None), ("GET", "/templates/aliases/{}", None)]
# and what is named: a snapshot, a volume
NAMED = [("DELETE", "/templates/{}", "snapshot"), ("GET", "/volumes/{}", "volume"), ("DELETE", "/volumes/{}", "volume")]
UNARY = {"/process.Process/List": {}, "/process.Process/SendInput": {"process": {"pid": 1}, "input": {"stdin": ""}}, "/process.Process/CloseStdin": {"process": {"pid": 1}},
         "/process.Process/SendSignal": {"process": {"pid": 1}, "signal": "SIGNAL_SIGKILL"}, "/process.Process/Update": {"process": {"pid": 1}, "pty": {"size": {"cols": 1, "rows": 1}}},
         **{f"/filesystem.Filesystem/{m}": {"path": "/x"} for m in ("Stat", "ListDir", "MakeDir", "Remove")}, "/filesystem.Filesystem/CreateWatcher": {"path": "/tmp"},
         **{f"/filesystem.Filesystem/{m}": {"watcherId": "1"} for m in ("GetWatcherEvents", "RemoveWatcher")}, "/filesystem.Filesystem/Move": {"source": "/x", "destination": "/y"}}
STREAMS = {"/process.Process/Start": {"process": {"cmd": "/bin/true"}}, "/process.Process/Connect": {"process": {"pid": 1}}, "/filesystem.Filesystem/WatchDir": {"path": "/tmp"}}
FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="/x"\r\n\r\ny\r\n--b--\r\n'
CODE = [("POST", "/execute", {"code": "1"}), ("GET", "/contexts", None), ("POST", "/contexts", {}), ("DELETE", "/contexts/kn" + "0" * 24, None), ("POST", "/contexts/kn" + "0" * 24 + "/restart", {})]


def inside():
    """Every route of one sandbox: method, path, body, headers."""
    yield "GET", "/health", None, {}
    yield "GET", "/files?path=/etc/passwd", None, {}
    yield "POST", "/files?path=/x", b"y", {"Content-Type": "application/octet-stream"}
    yield "POST", "/files", FORM, {"Content-Type": "multipart/form-data; boundary=b"}
    for path, body in UNARY.items():
        yield "POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    for path, body in STREAMS.items():
        yield "POST", path, envelope(body), {"Content-Type": "application/connect+json"}
    for method, path, body in CODE:
        yield method, path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json", "E2b-Sandbox-Port": "49999"}


def test_the_walk_has_every_route():
    table = (HERE.parents[2] / "src/e2b/routes.def").read_text()
    rows = {tuple(line.split('"')[1:4:2]) for line in table.splitlines() if line.startswith("E2B_ROUTE(\"")}
    walked = {(m, p) for m, p, _ in [*CONTROL, *TENANT, *NAMED]}
    walked |= {(m, p.split("?")[0].replace("kn" + "0" * 24, "{}")) for m, p, _, _ in inside()}
    assert rows == walked


def test_a_foreign_sandbox_is_an_absent_one(node, mine, foreign):
    absent, there = "sb" + "0" * 24, mine["sandboxID"]
    for method, path, body in CONTROL:
        replies = [node.ask(method, path.replace("{}", name), body, {"X-API-Key": foreign["key"]}) for name in (absent, there)]
        assert [(s, t) for s, _, t in replies] == [replies[0][::2]] * 2 and replies[0][0] == 404, (path, replies)
    for method, path, body, headers in inside():
        for credential in ({"X-API-Key": foreign["key"]}, {"X-Access-Token": foreign["token"]}):
            replies = [node.ask(method, path, body, {**headers, **credential, "E2b-Sandbox-Id": name}) for name in (absent, there)]
            got = [(s, t.replace(name.encode(), b"ID")) for (s, _, t), name in zip(replies, (absent, there))]
            refused = got[0][0] in (403, 404, 502) or (path in STREAMS and b'{"error":{"code":"permission_denied"' in got[0][1])
            assert got[0] == got[1] and refused, (path, got)
    rows = json.loads(node.ask("GET", "/v2/sandboxes", None, {"X-API-Key": foreign["key"]})[2])
    assert there not in [r["sandboxID"] for r in rows]
    assert json.loads(node.ask("GET", f"/sandboxes/{there}", None, {"X-API-Key": node.operator_key()})[2])["state"] == "running"


def test_foreign_snapshots_and_volumes_are_absent_ones(node, mine, foreign):
    key = {"X-API-Key": node.operator_key()}
    made = {"snapshot": json.loads(node.ask("POST", f"/sandboxes/{mine['sandboxID']}/snapshots", {}, key)[2])["snapshotID"],
            "volume": json.loads(node.ask("POST", "/volumes", {"name": "own"}, key)[2])["volumeID"]}
    other = {"X-API-Key": foreign["key"]}
    for method, path, kind in NAMED:
        absent = made[kind][:2] + "0" * 24
        replies = [node.ask(method, path.replace("{}", name), None, other)[::2] for name in (absent, made[kind])]
        assert replies[0] == replies[1] and replies[0][0] == 404, (path, replies)
    status, _, text = node.ask("POST", "/v2/sandboxes", {"templateID": made["snapshot"]}, other)
    assert status == 404, text
    status, _, text = node.ask("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [{"name": "own", "path": "/own"}]}, other)
    assert status == 404 and b"own" in text, text
    assert json.loads(node.ask("GET", "/snapshots", None, other)[2]) == [] and json.loads(node.ask("GET", "/volumes", None, other)[2]) == []
    for method, path, kind in NAMED:
        assert node.ask(method, path.replace("{}", made[kind]), None, {**key})[0] in (200, 204), path


def unary(node, method, body, headers):
    status, _, text = node.ask("POST", f"/filesystem.Filesystem/{method}", body, headers)
    return status, json.loads(text)


def test_a_watcher_is_asked_by_who_sees_its_sandbox(node, mine, foreign):
    own = {"X-Access-Token": mine["envdAccessToken"], "E2b-Sandbox-Id": mine["sandboxID"]}
    status, made = unary(node, "CreateWatcher", {"path": "/tmp"}, own)
    assert status == 200, made
    second = create(node, node.new_key())
    for credential, sandbox in (({"X-API-Key": foreign["key"]}, mine["sandboxID"]), ({"X-Access-Token": foreign["token"]}, mine["sandboxID"]),
                                ({"X-Access-Token": second["envdAccessToken"]}, mine["sandboxID"]), ({"X-Access-Token": second["envdAccessToken"]}, second["sandboxID"])):
        for method in ("GetWatcherEvents", "RemoveWatcher"):
            status, said = unary(node, method, made, {**credential, "E2b-Sandbox-Id": sandbox})
            assert status in (403, 404, 502), (method, said)
    assert unary(node, "GetWatcherEvents", made, own) == (200, {"events": []})
    assert unary(node, "RemoveWatcher", made, own) == (200, {})
    assert unary(node, "GetWatcherEvents", made, own)[0] == 404
    # it ends with its sandbox
    status, made = unary(node, "CreateWatcher", {"path": "/tmp"}, {"X-API-Key": node.operator_key(), "E2b-Sandbox-Id": second["sandboxID"]})
    assert status == 200, made
    assert node.ask("DELETE", f"/sandboxes/{second['sandboxID']}", None, {"X-API-Key": node.operator_key()})[0] == 204
    assert unary(node, "GetWatcherEvents", made, {"X-API-Key": node.operator_key(), "E2b-Sandbox-Id": second["sandboxID"]})[0] in (404, 502)


# -- by the host of a port

def by_host(wide, sandbox, method, path, body=None, headers=None, port=49983):
    c = http.client.HTTPSConnection("localhost", wide.port, timeout=30, context=ssl.create_default_context(cafile=wide.ca))
    c.request(method, path, body, {"Host": f"{port}-{sandbox}.preview.test:{wide.port}", **(headers or {})})
    r = c.getresponse()
    status, text = r.status, r.read()
    c.close()
    return status, text


@pytest.fixture(scope="module")
def mine_and_other(wide):
    """Ids of two sandboxes of one tenant, each with a token of its own."""
    made = [wide.call("POST", "/v1/sandboxes", {"image": "base"})["id"] for _ in range(2)]
    yield [(name, wide.call("POST", f"/v1/sandboxes/{name}/token", {"scope": "write"})["token"]) for name in made]
    for name in made:
        wide.delete(name)


def test_a_host_needs_a_credential_of_its_sandbox(wide, mine_and_other):
    (here, own), (there, other) = mine_and_other
    for method, path, body, headers in inside():
        port = int(headers.get("E2b-Sandbox-Port", "49983"))
        for credential, refused in (({}, (401,)), ({"X-Access-Token": "x"}, (401,)), ({"X-Access-Token": other}, (403, 404, 502))):
            status, text = by_host(wide, here, method, path, body, {**headers, **credential}, port)
            assert status in refused or b'{"error":{"code":"permission_denied"' in text, (path, credential, status, text)
        # the host decides, whatever the header says
        status, text = by_host(wide, there, method, path, body, {**headers, "X-Access-Token": own, "E2b-Sandbox-Id": here}, port)
        assert status in (403, 404, 502) or b'{"error":{"code":"permission_denied"' in text, (path, status, text)
    status, text = by_host(wide, here, "GET", "/files?path=/etc/passwd", None, {"X-Access-Token": own, "E2b-Sandbox-Id": there})
    assert status == 200 and b"root" in text
    assert by_host(wide, here, "GET", "/sandboxes", None, {"X-Access-Token": own})[0] == 404


def test_ports_are_public_only_where_the_node_says_so(node):
    status, _, text = node.ask("POST", "/v2/sandboxes", {"templateID": "base", "network": {"allowPublicTraffic": True}}, {"X-API-Key": node.operator_key()})
    assert status == 400 and b"edge.public_ports" in text, text
    with pytest.raises(cay.ApiError) as refused:
        node.call("POST", "/v1/sandboxes", {"image": "base", "public_ports": True})
    assert refused.value.code == "unsupported"
    own = create(node, node.operator_key())["sandboxID"]
    assert node.call("GET", f"/v1/sandboxes/{own}")["public_ports"] is False
    node.ask("DELETE", f"/sandboxes/{own}", None, {"X-API-Key": node.operator_key()})


@pytest.mark.parametrize("credential", [{}, {"X-API-Key": ""}, {"X-API-Key": "cay_00000000_" + "A" * 43}, {"X-API-Key": "e2b_00"}, {"X-Access-Token": "cayt_" + "A" * 118},
                                        {"Authorization": "Basic dXNlcjo="}], ids=["none", "empty", "unknown", "short", "token", "user"])
def test_without_a_credential_nothing_is_answered(node, mine, credential):
    asks = [(m, p.replace("{}", mine["sandboxID"]), b, {}) for m, p, b in [*CONTROL, *TENANT, *((m, p, None) for m, p, _ in NAMED)]] + list(inside())
    for method, path, body, headers in asks:
        status, _, text = node.ask(method, path, body, {**headers, **credential, "E2b-Sandbox-Id": mine["sandboxID"]})
        assert status == 401 and json.loads(text)["code"] == 401 and json.loads(text)["message"], (path, status, text)


def test_authorization_names_a_user(node, mine):
    """It is no second credential, and the first of those of E2B decides."""
    basic = {"Authorization": "Basic dXNlcjo=", "E2b-Sandbox-Id": mine["sandboxID"]}
    both = {"X-Access-Token": mine["envdAccessToken"], "E2B-Traffic-Access-Token": "x"}
    for credential in ({"X-API-Key": node.operator_key()}, both):
        assert node.ask("GET", "/files?path=/etc/passwd", None, {**basic, **credential})[0] == 200
    status, _, text = node.ask("POST", "/process.Process/Start", envelope({"process": {"cmd": "/bin/true"}}),
                               {**both, **basic, "Authorization": "Basic bm9ib2R5LWhlcmU6", "Content-Type": "application/connect+json"})
    assert status == 200 and b'"code":"unauthenticated"' in text, text


def test_a_token_is_for_its_sandbox_only(node, mine):
    token = {"X-Access-Token": mine["envdAccessToken"]}
    second = create(node, node.new_key())["sandboxID"]
    assert node.ask("GET", "/files?path=/etc/passwd", None, token)[0] == 200, "the token names its sandbox"
    assert node.ask("GET", "/files?path=/etc/passwd", None, {**token, "E2b-Sandbox-Id": second})[0] != 200
    for method, path, body in CONTROL:
        status, _, text = node.ask(method, path.replace("{}", mine["sandboxID"]), body, token)
        assert status >= 400, (path, text)
    assert node.ask("DELETE", f"/sandboxes/{second}", None, {"X-API-Key": node.operator_key()})[0] == 204


def test_a_key_that_may_only_read(node, mine):
    key = {"X-API-Key": node.new_key(scope="read")}
    assert node.ask("GET", f"/sandboxes/{mine['sandboxID']}", None, key)[0] == 200
    assert node.ask("POST", "/v2/sandboxes", {"templateID": "base"}, key)[0] == 403
    assert node.ask("DELETE", f"/sandboxes/{mine['sandboxID']}", None, key)[0] == 403
    at = {**key, "E2b-Sandbox-Id": mine["sandboxID"]}
    assert node.ask("GET", "/files?path=/etc/passwd", None, at)[0] == 200
    assert node.ask("POST", "/files?path=/x", b"y", {**at, "Content-Type": "application/octet-stream"})[0] == 403


def test_a_caller_that_limits_itself_to_a_group_has_no_other(node):
    """Cay-Group of a gateway that has the tenant's key: what one of its users made is absent for the others, by every route."""
    key = {"X-API-Key": node.new_key()}
    mine, other = {**key, "Cay-Group": "user-17"}, {**key, "Cay-Group": "user-18"}
    status, _, text = node.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60}, mine)
    assert status == 201, text
    there, absent = json.loads(text)["sandboxID"], "sb" + "0" * 24
    assert node.call("GET", f"/v1/sandboxes/{there}")["group"] == "user-17"
    for who, seen in ((mine, True), (other, False), (key, True)):
        rows = [r["sandboxID"] for r in json.loads(node.ask("GET", "/v2/sandboxes", None, who)[2])]
        assert (there in rows) == seen, who
    for method, path, body in CONTROL:
        replies = [node.ask(method, path.replace("{}", name), body, other) for name in (absent, there)]
        assert [(s, t) for s, _, t in replies] == [replies[0][::2]] * 2 and replies[0][0] == 404, (path, replies)
    for method, path, body, headers in inside():
        got = [node.ask(method, path, body, {**headers, **other, "E2b-Sandbox-Id": name}) for name in (absent, there)]
        assert [(s, t.replace(n.encode(), b"ID")) for (s, _, t), n in zip(got, (absent, there))][0] == (got[1][0], got[1][2].replace(there.encode(), b"ID")), path
    assert node.ask("DELETE", f"/sandboxes/{there}", None, mine)[0] == 204


# -- what its wire is held to

def test_every_error_has_a_body_of_e2b(node):
    key = {"X-API-Key": node.operator_key()}
    for method, path, body in [("GET", "/nothing", None), ("PUT", "/v2/sandboxes", {}), ("POST", "/v2/sandboxes", b"{"), ("POST", "/v2/sandboxes", []), ("POST", "/v2/sandboxes", {"templateID": 1}),
                               ("POST", "/v2/sandboxes", {"templateID": "base", "timeout": "x"}), ("POST", "/v2/sandboxes", {"templateID": "base", "mcp": {"a": {}}}), ("GET", "/sandboxes/x", None),
                               ("GET", "/v2/sandboxes?limit=0", None), ("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"a": "x" * 4000 + " "}})]:
        status, headers, text = node.ask(method, path, body, key)
        said = json.loads(text)
        assert status >= 400 and said["code"] == status and said["message"] and headers["Content-Type"] == "application/json", (path, status, text)


def test_unknown_members_are_ignored(node):
    made = create(node, node.operator_key(), somethingNew={"a": [1]}, secure=True, allow_internet_access=True, autoPause=False, metadata={"k": "v"})
    key = {"X-API-Key": node.operator_key()}
    status, headers, text = node.ask("DELETE", f"/sandboxes/{made['sandboxID']}", None, key)
    assert (status, text) == (204, b"")


def test_without_internet_access_nothing_is_allowed(node):
    key = node.operator_key()
    for options in ({"allow_internet_access": False}, {"network": {"denyOut": ["0.0.0.0/0"]}}):
        made = create(node, key, **options)["sandboxID"]
        policy = node.call("GET", f"/v1/sandboxes/{made}/egress")["policy"]
        assert policy["default"] == "deny" and not policy.get("rules") and not policy.get("presets"), policy
        node.ask("DELETE", f"/sandboxes/{made}", None, {"X-API-Key": key})


def test_telemetry_is_dropped_and_no_other_underscore(node):
    key = node.operator_key()
    telemetry = {"lang_version": "22", "package_version": "2.51.0", "sdk_runtime": "node", "browser": "x"}
    assert node.ask("GET", "/v2/sandboxes", None, {"X-API-Key": key, **telemetry})[0] == 200
    for name in ("X_API_Key", "Content_Length", "Transfer_Encoding", "E2b_Sandbox_Id", "lang_versions"):
        assert node.ask("GET", "/v2/sandboxes", None, {"X-API-Key": key, name: "1"})[0] == 400, name
