# SPDX-License-Identifier: Apache-2.0
"""Sandboxes keep the cay-init they were started with: this cayd drives each that is out there

tests/fixtures/init-proto-N has what one of protocol N was asked and answered, byte by
byte.  A test that fails here says that old sandboxes break by this change: mend the
change, not the fixture.
"""
import pathlib

import cay
import pytest
import skew
from conftest import BUILD
from test_control import nothing_is_left

FIXTURES = sorted((pathlib.Path(__file__).parents[2] / "fixtures").glob("init-proto-*"))


@pytest.fixture(params=FIXTURES, ids=lambda p: p.name)
def old(request):
    """Daemons whose sandboxes have a PID 1 of that version, and its exchanges."""
    with cay.Cay(BUILD, init=pathlib.Path(BUILD).resolve() / "tests/integration/replay") as c:
        said = skew.read(request.param / "exchanges.json")
        # variables are called anything, to a PID 1 of any version: ours stand in front of the request's
        said["claim"]["body"] = said["claim"]["body"].replace('"OWN":', '"APP_SERVICE_PORT":"9000","OWN":')
        yield c, said


def body(exchange):
    return exchange["reply"].split("\r\n\r\n", 1)[1].encode("latin-1")


def restart(c):
    c.kill_daemon("cayd")
    c.start_cayd()


def asked(c, box, exchange):
    line = exchange["line"].replace(skew.MASK, box) + "\r\n"
    return sum(s.startswith(line) and s.endswith("\r\n\r\n" + exchange["body"]) for s in skew.seen(c, box))


def test_there_is_a_fixture_of_every_version():
    """Those a host must speak; the newest one's may be missing, its bytes are still free."""
    text = (pathlib.Path(__file__).parents[3] / "src/lib/wire/hello.h").read_text()
    versions = {k: int(text.split(f"#define HELLO_PROTO_{k} ")[1].split()[0]) for k in ("MIN", "MAX")}
    there = {int(p.name.rsplit("-", 1)[1]) for p in FIXTURES}
    assert there >= set(range(versions["MIN"], versions["MAX"])) and 1 in there


def test_from_claim_to_delete(old):
    c, said = old
    c.image_import("old", skew.image([said[n] for n in ("claim", "entry", "hello-entered", "run", "list")]))
    box = c.create("old", **skew.CREATE)
    cay.wait_for("its entrypoint", lambda: c.get(box).get("entry"), 30)
    assert c.get(box)["state"] == "running" and c.get(box)["entry"] == skew.exec_id(body(said["entry"]))
    for name, (method, target, data) in skew.RELAYED.items():
        headers = {"Content-Type": "application/json"} if data else {}
        reply = c.open(method, f"/v1/sandboxes/{box}{target}", data, headers)
        assert reply.status == 200 and reply.read() == body(said[name]), name
    restart(c)
    skew.saw(c, box, said["hello-entered"]["line"])
    # what PID 1 says it has done is not done again
    assert c.get(box)["state"] == "running" and asked(c, box, said["entry"]) == 1 and asked(c, box, said["claim"]) == 1
    c.delete(box)
    nothing_is_left(c)


@pytest.mark.parametrize("hello,generation", [("hello-claimed", 1), ("hello-new", 2)])
def test_what_it_has_done_is_known_by_its_hello(old, hello, generation):
    """cayd dies while it waits for the answer to its claim: was it claimed?"""
    c, said = old
    c.image_import("old", skew.image([said[hello]]))
    box = c.call("POST", "/v1/sandboxes", {"image": "old", "wait": False, "env": skew.CREATE["env"]})["id"]
    skew.saw(c, box, "POST /v1/claim ")
    pid = c.pid_1(box)
    restart(c)
    if generation == 1:
        cay.wait_for("it to run", lambda: c.get(box)["state"] == "running", 30)
        assert c.pid_1(box) == pid
    else:
        cay.wait_for("another to be claimed", lambda: c.processes(box) and pid not in c.processes(box), 30)
        skew.saw(c, box, "POST /v1/claim ")
        assert c.get(box)["state"] == "pending"
