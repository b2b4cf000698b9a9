# SPDX-License-Identifier: Apache-2.0
"""Images that creates pulled go when nobody uses them; nothing else does."""
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "attack/images"))
import cay  # noqa: E402
import registry as reg  # noqa: E402
from conftest import BUILD  # noqa: E402
from test_pull import cli, pull, settings, tiny  # noqa: E402

SIZE = 3 << 20


@pytest.fixture(scope="module")
def images():
    """Five different ones in a registry."""
    with reg.Registry() as r:
        r.names = [r.push(f"prune/tiny:{n}", tiny(random.Random(n).randbytes(SIZE))) for n in range(5)]
        yield r


def daemon(images, **more):
    return cay.Cay(BUILD, env=settings(images.host, **more))


def names(c):
    return {i.get("name") for i in c.call("GET", "/v1/images")["images"]}


def on_disk(c):
    return len(list((c.state / "images/sha256").iterdir()))


def prune(c, **fields):
    return {i["name"] for i in c.call("POST", "/v1/images/prune", fields)["images"]}


def test_what_stays(images):
    a, b, t, p, n = images.names
    with daemon(images, keep="0s") as c:
        c.delete(c.create(a))           # of nobody
        box = c.create(b)               # of a sandbox
        c.delete(c.create(t))           # of a template
        c.call("POST", "/v1/templates", {"name": "kept", "defaults": {"image": t}})
        c.delete(c.create(p))           # of an operator, who pulled it too
        assert not pull(c, p)["pulled"]
        c.delete(c.create(n))           # and one who gave it a name
        pull(c, n, name="mine")
        assert prune(c, unused_ms=3600000) == set()
        assert prune(c) == {a}
        assert names(c) == {b, t, p, n, "mine"} and on_disk(c) == 4
        assert prune(c) == set()
        c.delete(box)
        assert prune(c) == {b} and on_disk(c) == 3
        for image in (a, b):            # it can come again
            c.delete(c.create(image))
        assert on_disk(c) == 5
        done = cli(c, "image", "prune")
        assert done.returncode == 0 and a in done.stdout and b in done.stdout and t not in done.stdout
        assert cli(c, "image", "prune", "--unused", "1h").stdout == ""


def test_after_a_while(images):
    a, b = images.names[:2]
    with daemon(images, keep="4s") as c:
        c.delete(c.create(a))
        box = c.create(b)
        cay.wait_for("it to go", lambda: names(c) == {b}, 30)
        cay.let_pass(2)
        assert names(c) == {b} and on_disk(c) == 1  # used for longer than that, but used
        c.delete(box)
        cay.wait_for("it to go", lambda: not names(c), 30)
        assert on_disk(c) == 0


def test_use_survives_a_restart(images):
    """Who was used lately is still so for a daemon that was killed."""
    a = images.names[0]
    with daemon(images, size="1Gi") as c:  # a budget has it look every second
        c.delete(c.create(a))
        first = c.call("GET", "/v1/images")["images"][0]
        cay.let_pass(0.1)
        c.delete(c.create(a))
        last = c.call("GET", "/v1/images")["images"][0]
        assert first["pulled"] and first["created_at"] <= first["last_used_at"] < last["last_used_at"]
        cay.wait_for("it to be written", lambda: last["last_used_at"] in (c.state / "db/images.json").read_text(), 30)
        c.kill_daemon("cayd")
        c.start_cayd()
        assert c.call("GET", "/v1/images")["images"] == [last]


def test_a_budget(images):
    """Who was used longest ago goes first, and no more than need be."""
    with daemon(images, size=str(3 * (SIZE + (2 << 20)) + (1 << 20))) as c:
        for image in images.names[:3]:
            c.delete(c.create(image))
        c.delete(c.create(images.names[0]))
        cay.let_pass(2)
        assert names(c) == set(images.names[:3])
        c.delete(c.create(images.names[3]))
        cay.wait_for("one to go", lambda: len(names(c)) < 4, 30)
        assert names(c) == {images.names[0], *images.names[2:4]}


def test_while_it_is_pulled_and_made(images):
    """Creating and pruning at once: each create works or is told to come again."""
    import concurrent.futures
    a = images.names[0]
    with daemon(images) as c:
        def make(_):
            try:
                c.delete(c.create(a))
                return "made"
            except cay.ApiError as e:
                return e.code

        def away(_):
            try:
                prune(c)
            except cay.ApiError as e:
                return e.code
            return "pruned"
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            some = [pool.submit(f, n) for n in range(20) for f in (make, make, away)]
            ends = [s.result() for s in some]
        assert set(ends) <= {"made", "pruned", "unavailable"} and ends.count("made") > 5, ends
        assert on_disk(c) == len(names(c)) <= 1
