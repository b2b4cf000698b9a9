# SPDX-License-Identifier: Apache-2.0
"""Images that come and go at once, and those that came and could not be noted."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "attack/images"))
import cay  # noqa: E402
import registry as reg  # noqa: E402
from conftest import BUILD  # noqa: E402
from conftest import tiny as layout  # noqa: E402
from test_prune import names, on_disk, prune  # noqa: E402
from test_pull import pull, refused, settings, tiny  # noqa: E402


@pytest.fixture(scope="module")
def registry():
    with reg.Registry() as r:
        r.one = r.push("here/tiny:1", tiny(b"1"))
        r.push("here/tiny:2", tiny(os.urandom(4 << 20)))
        yield r


@pytest.fixture
def c(registry):
    slow = reg.Slow(registry.host, stop_at=100000)
    with cay.Cay(BUILD, env=settings(registry.host, slow.host)) as c:
        c.slow = slow
        yield c
    with contextlib.suppress(OSError):
        slow.close()


@contextlib.contextmanager
def unwritable(c):
    """db/images.json cannot be replaced."""
    store, aside = c.state / "db/images.json", c.state / "images.json"
    if store.exists():
        store.rename(aside)
    store.mkdir()
    (store / "in-the-way").touch()
    yield
    (store / "in-the-way").unlink()
    store.rmdir()
    if aside.exists():
        aside.rename(store)


@contextlib.contextmanager
def stopped(c):
    """A keeper that does not get on."""
    pid = c.daemons["cay-keeper"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def delete(c, image):
    return c.call("DELETE", f"/v1/images/{image['id']}")


def test_one_that_cannot_be_noted_leaves_no_files(c, registry):
    with unwritable(c):
        e = refused(lambda: c.image_import("a", layout()), 500, "internal")
        request = json.loads(e.body)["error"]["request_id"]
        cay.wait_for("its line", lambda: request in c.log("cayd"), 30)
        said = next(line for line in c.log("cayd").splitlines() if request in line)
        assert "write db/images.json: " in json.loads(said)["msg"] and "images.json" not in str(e)  # why is the operator's
        refused(lambda: pull(c, registry.one), 500, "internal")
        assert not names(c)
        cay.wait_for("its files to go", lambda: on_disk(c) == 0, 30)
    image = c.image_import("a", layout())
    with unwritable(c):
        refused(lambda: c.image_import("b", layout()), 500, "internal")  # these files are another's
        refused(lambda: c.image_import("a", cay.layout([cay.file("a", b"2")])), 500, "internal")
        cay.wait_for("its files to go", lambda: on_disk(c) == 1, 30)
        cay.let_pass(0.5)
        assert names(c) == {"a"} and on_disk(c) == 1
    c.delete(c.create("a"))
    assert delete(c, image)["name"] == "a" and on_disk(c) == 0


def test_no_row_is_left(c, registry):
    """It is said before anything is sent or fetched."""
    c.image_import("a", layout())
    c.kill_daemon("cayd")
    store = c.state / "db/images.json"
    rows = json.loads(store.read_text())["images"]
    rows += [{**rows[0], "image": {**rows[0]["image"], "name": f"a{n}"}} for n in range(999)]
    store.write_text(json.dumps({"images": rows}))
    c.start_cayd()
    before = len(registry.requests())
    refused(lambda: c.image_import("b", b"this is not looked at"), 429, "limit_exceeded")
    refused(lambda: pull(c, registry.one), 429, "limit_exceeded")
    refused(lambda: c.create(registry.one), 429, "limit_exceeded")
    assert len(registry.requests()) == before
    assert c.image_import("a", layout())["name"] == "a"  # the same again needs none
    refused(lambda: c.image_import("a", cay.layout([cay.file("a", b"2")])), 429, "limit_exceeded")
    cay.wait_for("its files to go", lambda: on_disk(c) == 1, 30)


def test_a_pull_does_not_keep_others_from_going(c, registry):
    c.delete(c.create(registry.one))
    mine = c.image_import("a", layout())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pulled = pool.submit(pull, c, f"{c.slow.host}/here/tiny:2")
        assert c.slow.reached.wait(40)
        assert prune(c) == {registry.one}
        delete(c, mine)
        assert not names(c) and on_disk(c) == 0
        c.slow.close()
        refused(lambda: pulled.result(60), 503, "unavailable")


def test_nothing_goes_while_one_is_unpacked(c, registry):
    c.delete(c.create(registry.one))
    mine = c.image_import("a", layout())
    for come in (lambda: c.image_import("b", layout()), lambda: pull(c, registry.one, name="b")):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            with stopped(c):
                came = pool.submit(come)
                cay.wait_for("it to be unpacked", lambda: busy(c), 20)
                refused(lambda: prune(c), 503, "unavailable", "unpacked")
                refused(lambda: delete(c, mine), 503, "unavailable", "unpacked")
            image = came.result(60)
        assert image["name"] == "b" and names(c) == {"a", "b", registry.one}
        delete(c, image)
    delete(c, mine)
    assert prune(c) == {registry.one} and on_disk(c) == 0


def busy(c):
    try:
        prune(c, unused_ms=3600000)
    except cay.ApiError as e:
        return e.code == "unavailable"
    return False


def test_nothing_comes_while_one_goes(c):
    mine, used = c.image_import("a", layout()), c.image_import("b", cay.layout([cay.file("b", b"2")]))
    template = c.call("POST", "/v1/templates", {"name": "user-of-b", "defaults": {"image": "b"}})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        with stopped(c):
            gone = pool.submit(delete, c, mine)
            cay.wait_for("it to go", lambda: busy(c), 30)
            refused(lambda: c.create("a"), 503, "unavailable", "is being removed")
            refused(lambda: delete(c, mine), 503, "unavailable", "is being removed")
            again = pool.submit(c.image_import, "a", layout())
            cay.let_pass(0.5)
            assert not again.done()
            refused(lambda: delete(c, used), 409, "conflict", "user-of-b")  # if one were unpacked, that would be said
        assert gone.result(60)["id"] == mine["id"]
        assert again.result(60)["id"] != mine["id"]
    c.call("DELETE", f"/v1/templates/{template['id']}")
    delete(c, used)
    assert names(c) == {"a"} and on_disk(c) == 1
    c.delete(c.create("a"))


def test_one_that_a_template_uses_stays(c):
    mine, other = c.image_import("a", layout()), c.image_import("b", layout())
    template = c.call("POST", "/v1/templates", {"name": "user-of-a", "defaults": {"image": "a"}})
    refused(lambda: delete(c, mine), 409, "conflict", "user-of-a")
    delete(c, other)  # another name of the same
    refused(lambda: delete(c, mine), 409, "conflict", "user-of-a")
    c.delete(c.call("POST", "/v1/sandboxes", {"template": "user-of-a"})["id"])
    c.call("DELETE", f"/v1/templates/{template['id']}")
    delete(c, mine)
    assert on_disk(c) == 0
