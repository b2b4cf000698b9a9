# SPDX-License-Identifier: Apache-2.0
"""Images of one tenant: no other tenant lists, reads or uses them, and they go with the tenant."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "attack/images"))
import cay  # noqa: E402
from conftest import BUILD  # noqa: E402
from test_audit import records  # noqa: E402
from test_prune import on_disk  # noqa: E402
from test_pull import PASSWORD, cli, private, public, pull, refused, settings, tiny  # noqa: E402, F401
from test_registry_secrets import found, replace  # noqa: E402
from test_tenants import actor, new_key  # noqa: E402


class Tenant:
    def __init__(self, c, name):
        self.node, self.id = c, c.call("POST", "/v1/tenants", {"name": name})["id"]
        self.key, secret = new_key(c, self.id)
        self.api = c.edge(actor("write", self.id, self.key), secret)

    def images(self):
        return self.api.call("GET", "/v1/images")["images"]

    def reads(self, image, **fields):
        """What is in /extra of a sandbox of this image."""
        box = self.api.create(image, **fields)
        text = self.api.exec(box, ["busybox", "cat", "/extra"]).text
        self.api.delete(box)
        return text

    def remove(self):
        self.node.call("POST", f"/v1/keys/{self.key}/revoke")
        self.node.call("DELETE", f"/v1/tenants/{self.id}")


@pytest.fixture(scope="module")
def versions(public):  # noqa: F811
    return [public.push(f"owned/tiny:{n}", tiny(b"version %d" % n)) for n in range(3)]


@pytest.fixture
def node(public):  # noqa: F811
    with cay.Cay(BUILD, env=settings(public.host)) as c:
        yield c


def names(images):
    return sorted(i["name"] for i in images)


def test_only_its_tenant_uses_it(node, versions):
    a, b = Tenant(node, "a"), Tenant(node, "b")
    made = pull(node, versions[0], name="mine", tenant=a.id)
    assert made["tenant"] == a.id
    spellings = ("mine", made["id"], made["digest"])
    for _ in range(2):  # also after a restart
        assert names(a.images()) == ["mine"] and names(b.images()) == []
        assert a.api.call("GET", f"/v1/images/{made['id']}") == a.images()[0]
        refused(lambda: b.api.call("GET", f"/v1/images/{made['id']}"), 404, "not_found")
        for ref in spellings:
            assert a.reads(ref) == "version 0"
            refused(lambda ref=ref: b.api.create(ref), 404, "not_found", "there is no image", ref)
            refused(lambda ref=ref: b.api.create(ref, packages={"python": {"six": "1.16.0"}}), 404, "not_found", "there is no image", ref)
            # the operator's own sandboxes are of a tenant, and templates serve every tenant
            refused(lambda ref=ref: node.create(ref), 404, "not_found", "there is no image", ref)
            template = {"name": "t", "defaults": {"image": ref}}
            refused(lambda t=template: node.call("POST", "/v1/templates", t), 404, "not_found", "there is no image", ref)
        node.kill_daemon("cayd")
        node.start_cayd()
    assert names(node.call("GET", "/v1/images")["images"]) == ["mine"]
    refused(lambda: pull(node, versions[0], tenant="tn0001000g00000000000000tr"), 404, "not_found", "tenant")


def test_names_of_owners_are_independent(node, versions):
    """A tenant's own image comes before one of the node; a template's image is the node's."""
    a, b = Tenant(node, "a"), Tenant(node, "b")
    for version, owner in zip(versions, (a.id, b.id, None)):
        pull(node, version, name="app", **({"tenant": owner} if owner else {}))
    assert (a.reads("app"), b.reads("app")) == ("version 0", "version 1")
    box = node.create("app")
    assert node.exec(box, ["busybox", "cat", "/extra"]).text == "version 2"
    node.delete(box)
    assert names(a.images()) == names(b.images()) == ["app", "app"]
    assert len(node.call("GET", "/v1/images")["images"]) == 3
    node.call("POST", "/v1/templates", {"name": "t", "defaults": {"image": "app"}})
    box = a.api.call("POST", "/v1/sandboxes", {"template": "t"})["id"]
    assert a.api.exec(box, ["busybox", "cat", "/extra"]).text == "version 2"
    a.api.delete(box)
    # a new version takes the name from the old one of its owner alone
    pull(node, versions[1], name="app", tenant=a.id)
    assert a.reads("app") == "version 1" and node.call("GET", "/v1/images?limit=100")["images"][0].get("name") is None
    removed = cli(node, "image", "rm", "app")
    assert removed.returncode != 0 and "template" in removed.stderr, "a name is the node's image at the terminal"


def test_they_go_with_their_tenant(node, versions):
    a, b = Tenant(node, "a"), Tenant(node, "b")
    pull(node, versions[0], name="x", tenant=a.id)
    pull(node, versions[1], name="y", tenant=a.id)
    pull(node, versions[1], name="z", tenant=b.id)  # the same files
    assert on_disk(node) == 2
    a.remove()
    cay.wait_for("its images to go", lambda: names(node.call("GET", "/v1/images")["images"]) == ["z"], 60)
    assert on_disk(node) == 1 and b.reads("z") == "version 1"
    # a cayd that died in between finds them
    b.remove()
    node.kill_daemon("cayd")
    node.start_cayd()
    cay.wait_for("its images to go", lambda: not node.call("GET", "/v1/images")["images"], 60)
    assert on_disk(node) == 0


def test_pages_tell_nothing_of_others(node, versions):
    a, b = Tenant(node, "a"), Tenant(node, "b")
    pull(node, versions[0], name="first")
    for n in range(3):
        pull(node, versions[1], name=f"of-a-{n}", tenant=a.id)
    told = b.api.call("GET", "/v1/images?limit=1")
    assert names(told["images"]) == ["first"] and "next_cursor" not in told
    assert "next_cursor" in a.api.call("GET", "/v1/images?limit=1")


def test_by_hand(node, versions):
    a = Tenant(node, "a")
    made = cli(node, "image", "pull", "--tenant", "a", "--name", "mine", versions[0])
    assert made.returncode == 0, made.stderr
    assert a.id in cli(node, "image", "ls").stdout
    assert cli(node, "image", "rm", "mine").returncode != 0  # by its id: names are of the node
    assert cli(node, "image", "rm", made.stdout.strip()).returncode == 0 and a.images() == []


def login(node, host, password, tenant=None):
    fields = {"registry": host, "username": "robot", "password": password, **({"tenant": tenant} if tenant else {})}
    return node.call("POST", "/v1/registries", fields)


def logins(node):
    return {(r["registry"], r.get("tenant")): r["unreadable"] for r in node.call("GET", "/v1/registries")["registries"]}


@pytest.fixture
def guarded(private):  # noqa: F811
    """A node, and the reference of an image that only a password opens."""
    with cay.Cay(BUILD, env=settings(private.host)) as c:
        yield c, f"{private.host}/secret/tiny:1"


def test_a_login_serves_its_tenant(guarded, private):  # noqa: F811
    """What it pulls with its own password is its own: another tenant has to show the registry one as well."""
    node, reference = guarded
    a, b = Tenant(node, "a"), Tenant(node, "b")
    told = login(node, private.host, PASSWORD, a.id)
    assert told == {"registry": private.host, "username": "robot", "unreadable": False, "tenant": a.id}
    refused(lambda: b.api.create(reference), 403, "permission_denied", reference)
    a.api.delete(a.api.create(reference))
    image = a.images()[0]
    assert image["tenant"] == a.id and image["name"] == reference and image["pulled"]
    before = len(private.requests())
    for ref in (reference, image["digest"], image["id"]):  # the files are here now
        refused(lambda ref=ref: b.api.create(ref), 403 if ref == reference else 404, "permission_denied" if ref == reference else "not_found")
        refused(lambda ref=ref: node.create(ref), 403 if ref == reference else 404, "permission_denied" if ref == reference else "not_found")
    login(node, private.host, "wrong-" + PASSWORD, b.id)
    refused(lambda: b.api.create(reference), 403, "permission_denied", reference)
    assert b.images() == []
    login(node, private.host, PASSWORD, b.id)
    b.api.delete(b.api.create(reference))
    assert b.images()[0]["tenant"] == b.id and b.images()[0]["id"] != image["id"] and len(private.requests()) > before
    # the node's serve every tenant that has none, and what they pull every tenant
    login(node, private.host, PASSWORD)
    c = Tenant(node, "c")
    c.api.delete(c.api.create(reference))
    assert "tenant" not in c.images()[0] and names(b.images()) == [reference] * 2
    assert logins(node) == {(private.host, t): False for t in (a.id, b.id, None)}
    node.call("DELETE", f"/v1/registries?registry={private.host}&tenant={a.id}")
    assert logins(node) == {(private.host, t): False for t in (b.id, None)}
    rows = [r for r in records(node) if r["op"].startswith("registry.")]
    assert rows[-1]["detail"] == f"registry={private.host} tenant={a.id}"


def test_a_login_of_a_tenant_opens_for_no_other(guarded, private):  # noqa: F811
    node, reference = guarded
    a, b = Tenant(node, "a"), Tenant(node, "b")
    login(node, private.host, PASSWORD, a.id)
    store = node.state / "db/registries.json"
    row = json.loads(store.read_text())["registries"][0]
    node.kill_daemon("cayd")
    theirs = {k: v for k, v in row.items() if k != "tenant"}
    replace(node, store, json.dumps({"registries": [row, row | {"tenant": b.id}, theirs]}))
    node.start_cayd()
    assert logins(node) == {(private.host, a.id): False, (private.host, b.id): True, (private.host, None): True}
    refused(lambda: b.api.create(reference), 503, "unavailable", "cannot be opened")
    refused(lambda: pull(node, reference), 503, "unavailable", "cannot be opened")
    a.api.delete(a.api.create(reference))


def test_logins_go_with_their_tenant(guarded, private):  # noqa: F811
    node, _ = guarded
    a, b = Tenant(node, "a"), Tenant(node, "b")
    for t in (a, b):
        login(node, private.host, PASSWORD, t.id)
    store = node.state / "db/registries.json"
    both = store.read_text()
    a.remove()
    assert logins(node) == {(private.host, b.id): False} and a.id not in store.read_text()
    node.kill_daemon("cayd")  # as if it had died before the file was written
    replace(node, store, both)
    node.start_cayd()
    assert logins(node) == {(private.host, b.id): False} and a.id not in store.read_text()
    refused(lambda: login(node, private.host, PASSWORD, a.id), 404, "not_found", "tenant")
    done = cli(node, "image", "login", "--username", "robot", "--tenant", "b", "other.test", input="pw-77\n")
    assert done.returncode == 0, done.stderr
    assert b.id in cli(node, "image", "logins").stdout
    assert cli(node, "image", "logout", "other.test").returncode != 0  # the node has none
    assert cli(node, "image", "logout", "--tenant", "b", "other.test").returncode == 0


def create_keyed(api, key, **fields):
    reply = api.open("POST", "/v1/sandboxes", fields, {"Idempotency-Key": key})
    told = json.loads(reply.read())
    assert reply.status in (200, 201), told
    return told["id"]


def test_credentials_with_a_create(guarded, private, tmp_path):  # noqa: F811
    """They serve this pull, are the request's in no way that lasts, and the image is the tenant's."""
    node, reference = guarded
    a, b = Tenant(node, "a"), Tenant(node, "b")
    auth = {"username": "robot", "password": PASSWORD}
    e = refused(lambda: a.api.create(reference, registry_auth=auth | {"password": "wrong-" + PASSWORD}), 403, "permission_denied")
    assert PASSWORD not in str(e)
    box = create_keyed(a.api, "once", image=reference, registry_auth=auth)
    # the key knows the request without them: a token of today is not that of yesterday
    assert create_keyed(a.api, "once", image=reference, registry_auth=auth | {"password": "renewed"}) == box
    assert create_keyed(a.api, "once", image=reference) == box
    assert a.images()[0]["tenant"] == a.id and PASSWORD not in json.dumps(a.api.get(box))
    for more in ({}, {"registry_auth": auth | {"password": "wrong-" + PASSWORD}}):
        refused(lambda more=more: b.api.create(reference, **more), 403, "permission_denied", reference)
    a.api.delete(a.api.create(reference))  # it is here: no pull, no credentials
    assert logins(node) == {}
    count = {"count": 2, "sandbox": {"image": reference, "registry_auth": auth}}
    reply = b.api.open("POST", "/v1/batches", count).read().decode()
    assert reply.count('"sandbox":') == 2 and PASSWORD not in reply, reply
    assert b.images()[0]["tenant"] == b.id
    for wrong in ({"template": "t", "registry_auth": auth}, {"image": "x", "registry_auth": auth | {"username": "a:b"}}):
        refused(lambda w=wrong: a.api.call("POST", "/v1/sandboxes", w), 400, "invalid_argument", "registry_auth")
    pinned = pull(node, reference, name="all", registry_auth=auth)  # an operator's word: the node's
    assert "tenant" not in pinned
    stored = {"name": "t", "defaults": {"image": "all", "registry_auth": auth}}
    refused(lambda: node.call("POST", "/v1/templates", stored), 400, "invalid_argument", "registry_auth")
    secret = tmp_path / "auth"
    secret.write_text(f"robot:{PASSWORD}\n")
    done = cli(node, "image", "pull", "--registry-auth", str(secret), "--name", "by-file", reference)
    assert done.returncode == 0 and PASSWORD not in done.stdout + done.stderr, done
    done = cli(node, "create", "--registry-auth", "-", reference, input=f"robot:{PASSWORD}\n")
    assert done.returncode == 0, done.stderr
    assert cli(node, "create", "--registry-auth", "-", reference, input=PASSWORD).returncode != 0
    assert found(node) == [], "in no file and no log"
    told = [json.dumps(node.call("GET", path)) for path in ("/v1/audit?limit=1000", "/v1/events", "/v1/sandboxes", "/v1/images")]
    assert not any(PASSWORD in t for t in told)
