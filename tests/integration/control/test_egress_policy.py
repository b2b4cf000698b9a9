# SPDX-License-Identifier: Apache-2.0
"""Egress policies: what is a policy, where it is kept, and what cannot be enforced is refused."""
import pathlib

import pytest
from cay import wait_for
from conftest import tiny
from test_control import refused

ALLOW = {"rules": [{"action": "allow", "to": "api.example.com", "ports": [443, "8000-8010"]}]}
NOTHING = [None, {}, {"rules": []}, {"presets": ["none"]}, {"default": "deny"}, {"rules": [{"action": "deny", "to": "*"}]}]


def rule(**members):
    return {"rules": [{"action": "allow", "to": "a.example", **members}]}


WRONG = [
    ({"presets": ["absent"]}, "egress.presets"),
    ({"default": "ask"}, "egress.default"),
    ({"default": "perhaps"}, "egress.default"),
    ({"rule": []}, "egress.rule"),
    (rule(action="ask"), "egress.rules[0].action"),
    (rule(action="permit"), "egress.rules[0].action"),
    (rule(to="bücher.example"), "egress.rules[0].to"),
    (rule(to="a.example."), "egress.rules[0].to"),
    (rule(to="a.example b.example"), "egress.rules[0].to"),
    (rule(to="[a.example]"), "egress.rules[0].to"),
    (rule(to="fd00::1"), "egress.rules[0].to"),
    (rule(ports=[0]), "egress.rules[0].ports[0]"),
    (rule(ports=[443, 65536]), "egress.rules[0].ports[1]"),
    (rule(ports=["9-8"]), "egress.rules[0].ports[0]"),
    (rule(ports=[]), "egress.rules[0].ports"),
    (rule(credential="x"), "egress.rules[0].credential"),
]


def create(c, egress, **more):
    return c.call("POST", "/v1/sandboxes", {"image": "tiny", "egress": egress, **more})


def template(c, name, egress):
    return c.call("POST", "/v1/templates", {"name": name, "defaults": {"image": "tiny", "egress": egress}})


def in_journal(c):
    """What the files of the journal have, as bytes."""
    return b"".join(p.read_bytes() for p in pathlib.Path(c.state, "db").iterdir() if p.is_file())


@pytest.mark.parametrize("egress, field", WRONG)
def test_what_is_no_policy_is_refused_by_its_member(daemon, egress, field):
    error = refused("invalid_argument", create, daemon, egress)
    assert error["field"] == field, error
    error = refused("invalid_argument", template, daemon, "wrong", egress)
    assert error["field"] == "defaults." + field, error


def test_a_policy_that_cannot_be_enforced_creates_nothing(daemon):
    """Without cay-egress a policy that allows something is refused, never weakened."""
    before = daemon.call("GET", "/v1/sandboxes")["sandboxes"]
    for egress in (ALLOW, {"default": "allow"}):
        reply = daemon.open("POST", "/v1/sandboxes", {"image": "tiny", "egress": egress})
        assert reply.status == 503 and reply.headers["Retry-After"]
        reply.read()
        error = refused("egress_unavailable", create, daemon, egress)
        assert error["retryable"] is True and "cay-egress" in error["hint"] and error["field"] == "egress", error
    assert daemon.call("GET", "/v1/sandboxes")["sandboxes"] == before


def test_no_policy_and_one_that_allows_nothing_are_the_same(own):
    boxes = [create(own, egress)["id"] for egress in NOTHING]
    assert all(own.get(b)["state"] == "running" for b in boxes)
    assert b'"egress"' not in in_journal(own)
    for b in boxes:
        own.delete(b)


def test_the_policy_of_a_template_is_a_bound_of_its_sandboxes(own):
    """It is in the row of a sandbox, also of one whose own policy is {}; so a later policy cannot leave it."""
    template(own, "kind", ALLOW)
    refused("egress_unavailable", own.call, "POST", "/v1/sandboxes", {"template": "kind"})
    refused("egress_unavailable", own.call, "POST", "/v1/sandboxes", {"template": "kind", "egress": {"default": "allow"}})
    box = own.call("POST", "/v1/sandboxes", {"template": "kind", "egress": {}})["id"]
    assert b'"egress"' in in_journal(own)
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.get(box)["state"] == "running"
    own.delete(box)


def test_a_name_with_another_policy_is_another_sandbox(daemon):
    box = daemon.call("POST", "/v1/sandboxes", {"image": "tiny", "name": "one"})["id"]
    for egress in NOTHING:
        assert create(daemon, egress, name="one")["id"] == box
    assert refused("conflict", create, daemon, ALLOW, name="one")["field"] == "name"
    daemon.delete(box)


def test_a_pool_of_a_template_with_a_policy_fills(daemon):
    """Warm sandboxes have no owner and reach nothing."""
    t = daemon.call("POST", "/v1/templates", {"name": "warm", "defaults": {"image": "tiny", "egress": ALLOW}, "pool": {"min": 1}})
    wait_for("a warm sandbox", lambda: daemon.call("GET", "/v1/templates/" + t["id"])["pool_now"]["warm"] == 1, 60)
    box = daemon.call("POST", "/v1/sandboxes", {"template": "warm", "egress": {}})["id"]
    daemon.delete(box)
    daemon.call("DELETE", "/v1/templates/" + t["id"])


@pytest.mark.parametrize("setting, value", [("DEFAULT", "absent"), ("MAX", "absent"), ("MAX", "a.example.:443"), ("MAX", "a.example:0")])
def test_settings_that_name_nothing_stop_the_start(own, setting, value):
    own.kill_daemon("cayd")
    own.env["CAY_EGRESS_" + setting] = value
    with pytest.raises(RuntimeError, match="egress." + setting.lower()):
        own.start_cayd()


def test_a_bound_of_the_node_is_read(own):
    own.kill_daemon("cayd")
    own.env["CAY_EGRESS_MAX"] = "*.example.com db.example.com:5432"
    own.start_cayd()
    own.image_import("again", tiny())
    refused("egress_unavailable", create, own, ALLOW)
