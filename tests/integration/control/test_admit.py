# SPDX-License-Identifier: Apache-2.0
"""Whether there is room for one more, and who makes it."""
import os
import signal

import cay
import pytest
from cay import wait_for
from conftest import BUILD, tiny
from test_control import refused


def node(**settings):
    return cay.Cay(BUILD, env={"CAY_" + k.upper(): str(v) for k, v in settings.items()})


@pytest.mark.parametrize("what, kept, says", [("memory", "16Ti", "memory"), ("pids", "4194304", "processes"),
                                              ("disk", "16Ti", "disk")])
def test_a_short_node_refuses_and_goes_on(what, kept, says):
    """With less free than is kept no sandbox is made; those there are go on, and can be deleted."""
    with node() as c:
        c.image_import("tiny", tiny())
        box = c.create("tiny")
        c.kill_daemon("cayd")
        c.env["CAY_NODE_" + what.upper()] = kept
        c.start_cayd()
        err = refused("no_capacity", c.create, "tiny")
        assert says in err["message"] and err["retryable"]
        assert c.exec(box, ["echo", "here"]).text == "here\n"
        c.delete(box)
        c.kill_daemon("cayd")
        del c.env["CAY_NODE_" + what.upper()]
        c.start_cayd()
        assert c.create("tiny")


def test_the_longest_idle_makes_room_when_asked_to():
    with node(limits_tenant=3) as c:
        c.image_import("tiny", tiny())
        boxes = [c.create("tiny") for _ in range(3)]
        busy = c.exec_detached(boxes[0], ["true"])
        refused("limit_exceeded", c.create, "tiny")
        wait_for("its end", lambda: c.call("GET", f"/v1/sandboxes/{boxes[0]}/execs/{busy}")["state"] == "ended", 20)
        stream = c.open("GET", f"/v1/sandboxes/{boxes[1]}/execs/{c.exec_detached(boxes[1], ['sleep', '60'])}/output?follow=true")
        made = c.create("tiny", on_full="evict_idle")  # [1] is busy, [2] was left alone longest
        assert c.get(made)["state"] == "running"
        assert c.get(boxes[2])["end"]["reason"] == "evicted" and c.get(boxes[1])["state"] == "running"
        c.call("POST", "/v1/templates", {"name": "e", "defaults": {"image": "tiny", "on_full": "evict_idle"}})
        again = c.call("POST", "/v1/sandboxes", {"template": "e"})["id"]
        assert c.get(boxes[0])["end"]["reason"] == "evicted" and c.get(again)["state"] == "running"
        stream.close()


def test_nobody_who_is_busy_makes_room():
    with node(limits_group=1) as c:
        c.image_import("tiny", tiny())
        inside, other = c.create("tiny", group="g"), c.create("tiny", group="h")
        stream = c.open("GET", f"/v1/sandboxes/{inside}/execs/{c.exec_detached(inside, ['sleep', '60'])}/output?follow=true")
        refused("limit_exceeded", c.create, "tiny", group="g", on_full="evict_idle")
        assert c.get(inside)["state"] == c.get(other)["state"] == "running"
        stream.close()


def test_one_that_is_ending_has_given_its_place_up():
    with node(limits_tenant=1) as c:
        c.image_import("tiny", tiny())
        first = c.create("tiny")
        c.delete(first)
        assert c.create("tiny", wait=False)


def test_one_that_was_made_ahead_counts_as_whose_it_is():
    with node(limits_group=1) as c:
        c.image_import("tiny", tiny())
        kind = c.call("POST", "/v1/templates", {"name": "t", "defaults": {"image": "tiny"}})["id"]
        c.call("POST", f"/v1/templates/{kind}/pool", {"min": 2, "max": 3})
        wait_for("the pool to fill", lambda: c.call("GET", f"/v1/templates/{kind}")["pool_now"]["warm"] == 2, 20)
        ask = {"template": "t", "group": "g"}
        first = c.call("POST", "/v1/sandboxes", ask)["id"]
        refused("limit_exceeded", c.call, "POST", "/v1/sandboxes", ask)
        other = c.call("POST", "/v1/sandboxes", {**ask, "group": "h"})["id"]
        c.delete(first)
        assert c.call("POST", "/v1/sandboxes", ask)["id"] not in (first, other)


def test_limits_are_read_again(tmp_path):
    """SIGHUP: what cay.conf calls live."""
    conf = tmp_path / "cay.conf"
    conf.write_text("[limits]\ntenant = 1\n")
    for top in (tmp_path, *list(tmp_path.parents)[:2]):
        top.chmod(0o755)
    daemons = node()
    daemons.args = ["--config", str(conf)]
    with daemons as c:
        c.image_import("tiny", tiny())
        c.create("tiny")
        refused("limit_exceeded", c.create, "tiny")
        conf.write_text("[limits]\ntenant = 2\n")
        os.kill(c.pids()["cayd"], signal.SIGHUP)
        wait_for("them to be read", lambda: c.log("cayd").count("settings read again"), 20)
        c.create("tiny")
