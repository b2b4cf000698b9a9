# SPDX-License-Identifier: Apache-2.0
"""Links that a client opens as they are: whose address they have"""
import io
import json
import subprocess
import tarfile

import pytest
import world
from cay import ApiError
from conftest import BUILD


@pytest.fixture(scope="module")
def public():
    with world.World(BUILD, env={"CAY_EDGE_PUBLIC_URL": "https://Cay.example:8443"}) as w:
        yield w


def link(who, box, **headers):
    r = who.open("POST", f"/v1/sandboxes/{box}/files/link", {"path": "/etc/passwd"}, headers)
    data = r.read()
    if r.status != 201:
        raise ApiError(r.status, data)
    return json.loads(data)["url"]


def curl(url, *more):
    """What curl gets of it, and nothing else is told to it."""
    return subprocess.run(["curl", "-sS", "--fail", "--max-time", "20", *more, url], capture_output=True, check=True).stdout


def names(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        return [m.name for m in t.getmembers()]


def test_a_link_has_the_host_of_its_request(node):
    me, box = node.door(), node.door().create("tiny")
    path = f"/v1/sandboxes/{box}/files/tree?format=tar&path=%2Fetc%2Fpasswd&token="
    for host in (f"localhost:{node.port}", f"127.0.0.1:{node.port}"):
        url = link(me, box, Host=host)
        assert url.startswith(f"http://{host}{path}")
        assert names(curl(url, "--noproxy", "*")) == ["passwd"]
    # what a client says beside its Host, nobody hears
    told = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Forwarded": "host=evil.example", "Cay-Origin": "https://evil.example"}
    assert link(me, box, **told).startswith(f"http://127.0.0.1:{node.port}{path}")
    for host, code in (("evil.example", "permission_denied"), (f"evil.example:{node.port}", "permission_denied"), ("localhost.evil.example", "permission_denied"),
                       ("localhost:1@evil.example", "invalid_argument"), ("localhost/../evil.example", "invalid_argument")):
        with pytest.raises(ApiError) as e:
            link(me, box, Host=host)
        assert e.value.code == code, host
    me.delete(box)


def test_control_knows_no_host(node):
    box, tenant = node.create("tiny"), "tn" + "0" * 24
    assert link(node, box).startswith(f"/v1/sandboxes/{box}/files/tree?")
    key = node.call("POST", "/v1/keys", {"tenant": tenant, "name": "links", "scope": "write"})
    edge = node.edge(f"{tenant} write {key['key']['id']} -", key["secret"])
    assert link(edge, box, **{"Cay-Origin": "http://[::1]:80"}).startswith("http://[::1]:80/v1/sandboxes/")
    # what is no origin was not made by an edge of ours
    for odd in ("evil.example", "https://", "https://a@evil.example", "https://evil.example/x?", "javascript://x", "https://x:99999"):
        assert link(edge, box, **{"Cay-Origin": odd}).startswith("/v1/"), odd
    node.delete(box)


def test_what_the_operator_says_counts(public):
    box = public.create("tiny")
    path = f"/v1/sandboxes/{box}/files/tree?"
    for who in (public, public.door(), public.door(host=f"127.0.0.1:{public.port}"), public.door(host="cay.example")):
        url = link(who, box)
        assert url.startswith("https://Cay.example:8443" + path)
    # it is the name of this node, then, and leads here
    nobody = public.door("", host="CAY.example:8443")
    r = nobody.open("GET", url.removeprefix("https://Cay.example:8443"))
    assert r.status == 200 and names(r.read()) == ["passwd"]
    assert public.door(host="cay.example.evil.example").open("GET", "/v1/sandboxes").status == 403
    public.delete(box)


@pytest.mark.parametrize("url", ["cay.example", "https://cay.example/", "https://a@cay.example"])
def test_it_must_be_one(url):
    with pytest.raises(RuntimeError, match="edge.public_url is SCHEME"):
        with world.World(BUILD, env={"CAY_EDGE_PUBLIC_URL": url}):
            pass


def test_it_is_not_below_the_previews():
    with pytest.raises(RuntimeError, match="domain of previews"):
        with world.World(BUILD, env={"CAY_EDGE_PREVIEWS": "https://p.example", "CAY_EDGE_PUBLIC_URL": "https://api.p.example"}):
            pass
