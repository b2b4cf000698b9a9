# SPDX-License-Identifier: Apache-2.0
"""What every process of a sandbox finds in its environment beside what its image and its creator say."""
import pathlib

import cay
import pytest
from cay import wait_for
from conftest import BUSYBOX
from test_cli_real import run  # noqa: F401 pylint: disable=unused-import
from test_control import refused
from test_life import restart
from test_pool import filled, kind, now, pool  # noqa: F401 pylint: disable=unused-import
from test_terminal import base  # noqa: F401 pylint: disable=unused-import

SHANGHAI, TOKYO = "Asia/Shanghai", "Asia/Tokyo"


def variables(c, box, **fields):
    done = c.exec(box, ["env"], **fields)
    assert done.exit_code == 0, done
    return dict(line.split("=", 1) for line in done.text.splitlines())


def make(c, **spec):
    return c.call("POST", "/v1/sandboxes", spec if "template" in spec else {"image": "tiny", **spec})


@pytest.mark.parametrize("zone", ["UTC", SHANGHAI, "America/Argentina/Buenos_Aires", "America/Port-au-Prince", "Etc/GMT+5", "a" * 64])
def test_a_time_zone(daemon, zone):
    box = make(daemon, timezone=zone)
    assert box["timezone"] == zone == daemon.get(box["id"])["timezone"] == variables(daemon, box["id"])["TZ"]
    daemon.delete(box["id"])


def test_none_is_said(daemon, box):
    assert "timezone" not in daemon.get(box) and "TZ" not in variables(daemon, box)


@pytest.mark.parametrize("zone", ["", "/", "/etc/passwd", "Asia/", "Asia//Shanghai", "../etc/passwd", "Asia/../../etc", ".", "a.b", "a b",
                                  ":UTC", "UTC\n", "Asia\\Shanghai", "Zürich", "a" * 65, "/".join("a" * 33), 8, ["UTC"], True])
def test_what_is_no_zone(daemon, zone):
    assert refused("invalid_argument", make, daemon, timezone=zone)["field"] == "timezone"
    assert refused("invalid_argument", daemon.call, "POST", "/v1/templates",
                   {"name": "bad", "defaults": {"image": "tiny", "timezone": zone}})["field"] == "defaults.timezone"


def test_everything_in_it_has_the_zone(daemon):
    box = make(daemon, timezone=SHANGHAI, entrypoint=["sh", "-c", "echo $TZ; sleep 100"],
               services=[{"name": "clock", "argv": ["sh", "-c", "echo $TZ; exec sleep 100"]}])["id"]
    wait_for("the entrypoint", lambda: daemon.get(box).get("entry"), 20)
    wait_for("its word", lambda: daemon.exec_output(box, daemon.get(box)["entry"]) == SHANGHAI.encode() + b"\n", 20)
    wait_for("the service's word", lambda: daemon.open("GET", f"/v1/sandboxes/{box}/services/clock/log").read() == SHANGHAI.encode() + b"\n", 20)
    assert variables(daemon, box, user="root")["TZ"] == SHANGHAI and variables(daemon, box, env={"TZ": "UTC"})["TZ"] == "UTC"
    daemon.delete(box)


def test_a_variable_comes_over_the_zone(daemon):
    """Whoever says it: the create itself, or its template."""
    box = make(daemon, timezone=SHANGHAI, env={"TZ": TOKYO})
    assert box["timezone"] == SHANGHAI and variables(daemon, box["id"])["TZ"] == TOKYO
    daemon.delete(box["id"])
    t = daemon.call("POST", "/v1/templates", {"name": "variable", "defaults": {"image": "tiny", "env": {"TZ": TOKYO}}})
    box = make(daemon, template="variable", timezone=SHANGHAI)
    assert variables(daemon, box["id"])["TZ"] == TOKYO
    daemon.delete(box["id"])
    daemon.call("DELETE", f"/v1/templates/{t['id']}")


def test_a_template_has_one(daemon):
    t = daemon.call("POST", "/v1/templates", {"name": "zoned", "defaults": {"image": "tiny", "timezone": SHANGHAI}})
    for spec, want in (({}, SHANGHAI), ({"timezone": TOKYO}, TOKYO)):
        box = make(daemon, template="zoned", **spec)
        assert box["timezone"] == want == variables(daemon, box["id"])["TZ"]
        daemon.delete(box["id"])
    daemon.call("DELETE", f"/v1/templates/{t['id']}")


def test_a_warm_one_gets_it_late(daemon, kind):  # noqa: F811
    pool(daemon, kind, min=1, max=1)
    filled(daemon, kind, 1)
    box = make(daemon, template=kind["name"], timezone=SHANGHAI, app_port=3000)
    assert now(daemon, kind)["claimed"] == 1 and box["timezone"] == SHANGHAI == variables(daemon, box["id"])["TZ"]
    assert variables(daemon, box["id"])["APP_SERVICE_PORT"] == "3000"


def test_it_outlives_control(own):
    box = make(own, timezone=SHANGHAI)["id"]
    restart(own, "cayd")
    assert own.get(box)["timezone"] == SHANGHAI == variables(own, box)["TZ"]


@pytest.mark.parametrize("spec, want", [
    ({}, "9000"), ({"app_port": 65535}, "65535"), ({"app_port": 3000, "env": {"APP_SERVICE_PORT": "4000"}}, "4000"),
], ids=["of-itself", "said", "a-variable"])
def test_where_its_application_is_to_listen(daemon, spec, want):
    box = make(daemon, **spec)["id"]
    assert variables(daemon, box)["APP_SERVICE_PORT"] == want
    daemon.delete(box)


@pytest.mark.parametrize("zone_of_image", [[], ["TZ=UTC"]], ids=["all-others", "a-zone-of-its-own"])
def test_the_image_and_the_creator_have_many(own, zone_of_image):
    """As many variables as each may have, and ours between them."""
    of_image = ["PATH=/bin", *zone_of_image, *(f"I{i}=x" for i in range(255 - len(zone_of_image)))]
    own.image_import("many", cay.layout(
        [cay.directory("bin"), cay.file("bin/env", pathlib.Path(BUSYBOX).read_bytes(), 0o755)], {"Env": of_image}))
    there = variables(own, make(own, image="many", timezone=SHANGHAI, env={f"V{i}": "x" for i in range(256)})["id"])
    assert {v.split("=")[0] for v in of_image} | {f"V{i}" for i in range(256)} <= set(there)
    assert (there["TZ"], there["APP_SERVICE_PORT"]) == (SHANGHAI, "9000")


def test_the_clock_of_the_base_image(daemon, base):  # noqa: F811
    box = make(daemon, image="base", timezone=SHANGHAI)["id"]
    assert daemon.exec(box, ["date", "+%Z %z"]).text == "CST +0800\n" and daemon.exec(base, ["date", "+%Z"]).text == "UTC\n"
    shell = daemon.call("POST", f"/v1/sandboxes/{box}/shells", {})["id"]
    assert daemon.call("POST", f"/v1/sandboxes/{box}/shells/{shell}/runs", {"command": "date +%Z"})["stdout"].strip() == "CST"
    daemon.delete(box)


def test_the_command_line(own, run):  # noqa: F811
    assert run("run", "--timezone", SHANGHAI, "tiny", "--", "sh", "-c", "echo $TZ") == SHANGHAI + "\n"
    box = run("create", "--timezone", TOKYO, "tiny").strip()
    assert own.get(box)["timezone"] == TOKYO
    run("template", "create", "--timezone", TOKYO, "zoned", "tiny")
    assert run("run", "--template", "zoned", "--", "sh", "-c", "echo $TZ") == TOKYO + "\n"
    assert "timezone" in run("create", "--timezone", "../UTC", "tiny", status=2)
