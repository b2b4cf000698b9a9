# SPDX-License-Identifier: Apache-2.0
"""The one application of a sandbox: below a path that does not say its port, which a create or a template does"""
import json

import cay
import inside
import pytest
import world
from conftest import BUILD
from test_ports import ECHO, ask, cli, host, key, shown, talk, told  # noqa: F401

SERVERS = ECHO + "serve(9000, answer)\nserve(3000, answer)\n"


def at(box, path=""):
    return f"/v1/sandboxes/{box}/app{path}"


def make(w, **spec):
    return w.door().call("POST", "/v1/sandboxes", spec if "template" in spec else {"image": "tiny", **spec})


def reached(w, box):
    """The port, as its server is told."""
    line, saw, _ = told(ask(w, "GET", at(box, "/a/b?c=d"), key(w)))
    assert line == "GET /a/b?c=d HTTP/1.1" and saw["x-forwarded-prefix"] == at(box), saw
    name, _, port = saw["host"].partition(":")
    assert name == "localhost"
    return int(port)


def code(w, path, who):
    reply = ask(w, "GET", path, {"Authorization": "Bearer " + who} if who else {})
    return reply.status, json.loads(reply.read())["error"]["code"]


@pytest.fixture(scope="module")
def kind(shown):  # noqa: F811
    return shown.call("POST", "/v1/templates", {"name": "web", "defaults": {"image": "tiny", "app_port": 3000}})


@pytest.fixture(scope="module")
def app(shown):  # noqa: F811
    box = make(shown, app_port=3000)["id"]
    with inside.Server(shown, box, SERVERS):
        yield box


@pytest.mark.parametrize("spec, port", [
    ({}, 9000), ({"app_port": 3000}, 3000), ({"template": "web"}, 3000), ({"template": "web", "app_port": 9000}, 9000),
], ids=["of-itself", "said", "of-a-template", "over-a-template"])
def test_which_port(shown, kind, spec, port):  # noqa: F811
    box = make(shown, **spec)
    assert box["app_port"] == port == shown.get(box["id"])["app_port"]
    with inside.Server(shown, box["id"], SERVERS):
        assert reached(shown, box["id"]) == port
    shown.delete(box["id"])


def test_what_is_no_port(shown):  # noqa: F811
    for port in (0, 65536, -1, "web", 80.5):
        for path, body in (("/v1/sandboxes", {"image": "tiny", "app_port": port}),
                           ("/v1/templates", {"name": "bad", "defaults": {"image": "tiny", "app_port": port}})):
            with pytest.raises(cay.ApiError) as e:
                shown.call("POST", path, body)
            assert e.value.code == "invalid_argument", port


def test_a_warm_one_gets_it_late(shown):  # noqa: F811
    kind = shown.call("POST", "/v1/templates", {"name": "warm", "defaults": {"image": "tiny"}, "pool": {"min": 1, "max": 1}})

    def count():
        return shown.call("GET", f"/v1/templates/{kind['id']}")["pool_now"]
    cay.wait_for("a warm one", lambda: count()["warm"] == 1, 30)
    box = make(shown, template="warm", app_port=3000)
    assert box["app_port"] == 3000 and count()["claimed"] == 1
    with inside.Server(shown, box["id"], SERVERS):
        assert reached(shown, box["id"]) == 3000
    shown.delete(box["id"])
    shown.call("DELETE", f"/v1/templates/{kind['id']}")


def test_it_outlives_control_and_the_edge(own):
    box = make(own, app_port=3000)["id"]
    with inside.Server(own, box, SERVERS):
        own.restart_cayd()
        assert own.get(box)["app_port"] == 3000 == reached(own, box)
        own.daemons["cay-edge-0"].kill()
        own.daemons["cay-edge-0"].wait()
        own.start_edge()
        assert reached(own, box) == 3000


def test_it_is_as_below_ports(shown, app):  # noqa: F811
    """Any method, any path; what does not pass there does not here."""
    line, saw, body = told(ask(shown, "POST", at(app, "/m"), {**key(shown), "Cookie": "a=b", "X-Mine": "1"}, b"body"))
    assert (line, body) == ("POST /m HTTP/1.1", "body") and saw["x-mine"] == "1" and not {"cookie", "authorization"} & set(saw)
    r = ask(shown, "GET", at(app, "/cookies"), key(shown))
    assert r.headers["Location"] == at(app, "/v1/keys"), "a client follows it with its key"
    assert "Set-Cookie" not in r.headers and r.headers["Content-Security-Policy"].startswith("sandbox")
    s, back = talk(shown, at(app, "/chat"), {"Host": "localhost", **key(shown)}, b"here and back")
    assert back == b"here and back"
    s.close()
    for path in (at(app), at(app, "s/"), at(app, "%2f"), at(app[:-1]) + "/", f"/v1/sandboxes/{app}//app/"):
        assert code(shown, path, shown.operator_key()) == (404, "not_found"), path


def test_who_may_ask_an_application(shown, app):  # noqa: F811
    other = shown.call("POST", "/v1/tenants", {"name": "strangers"})["id"]
    token, read = (shown.door().call("POST", f"/v1/sandboxes/{app}/token", {"scope": s})["token"] for s in ("write", "read"))
    foreign = shown.door().call("POST", f"/v1/sandboxes/{shown.door().create('tiny')}/token", {"scope": "write"})["token"]
    shows = shown.door().call("POST", f"/v1/sandboxes/{app}/preview", {})["token"]
    for who in (token, shown.new_key("write")):
        assert ask(shown, "GET", at(app, "/"), {"Authorization": "Bearer " + who}).status == 200
    for who, want in ((read, (403, "permission_denied")), (shown.new_key("read"), (403, "permission_denied")),
                      (foreign, (403, "permission_denied")), (shown.new_key("operator", other), (404, "not_found")),
                      (shows, (401, "unauthenticated")), ("cay_nonsense", (401, "unauthenticated")), (None, (401, "unauthenticated"))):
        assert code(shown, at(app, "/"), who) == want == code(shown, f"/v1/sandboxes/{app}/ports/3000/", who)
    for more in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
        assert ask(shown, "GET", at(app, "/"), {**key(shown), **more}).status == 403


def test_nobody_listens(shown):  # noqa: F811
    box = make(shown, app_port=9)["id"]
    assert code(shown, at(box, "/"), shown.operator_key()) == (502, "port_closed")
    shown.delete(box)
    assert code(shown, at("sb" + "0" * 24, "/"), shown.operator_key()) == (404, "not_found")


def test_a_token_spends_no_rate_of_its_tenant():
    with world.World(BUILD, env={"CAY_EDGE_RATE": "5"}) as w:
        box = w.create("tiny")
        token = w.call("POST", f"/v1/sandboxes/{box}/token", {"scope": "write"})["token"]
        assert {code(w, at(box, "/"), token)[0] for _ in range(100)} == {502, 429}
        assert w.door().open("GET", "/v1/sandboxes").status == 200


def test_a_preview_without_a_port(shown, app):  # noqa: F811
    made = shown.door().call("POST", f"/v1/sandboxes/{app}/preview", {})
    me = {"Host": f"{host(app, 3000)}:{shown.port}", "Cay-Preview": made["token"]}
    assert made["origin"] == f"http://{host(app, 3000)}:{shown.port}"
    assert told(ask(shown, "GET", "/p", me))[0] == "GET /p HTTP/1.1"
    out, err = cli(shown, "preview", app).communicate(timeout=60)
    assert out.startswith(made["origin"] + "/?cay_preview=cayp_"), err
    out, err = cli(shown, "create", "--app-port", "5000", "tiny").communicate(timeout=60)
    assert shown.get(out.strip())["app_port"] == 5000, err
    out, err = cli(shown, "template", "create", "--app-port", "5001", "cli", "tiny").communicate(timeout=60)
    assert make(shown, template="cli")["app_port"] == 5001, err
    _, err = cli(shown, "create", "--app-port", "0", "tiny").communicate(timeout=60)
    assert "--app-port: 0 is out of range" in err
