# SPDX-License-Identifier: Apache-2.0
"""Egress policies: what is a policy, where it is kept, and what cannot be enforced is refused."""
import ipaddress
import pathlib
import random
import re
import shutil
import subprocess
import tempfile

import pytest
from cay import wait_for
from conftest import BUILD, tiny
from test_control import refused
from test_tenants import asks

ALLOW = {"rules": [{"action": "allow", "to": "api.example.com", "ports": [443, "8000-8010"]}]}
NOTHING = [None, {}, {"rules": []}, {"presets": ["none"]}, {"default": "deny"}, {"rules": [{"action": "deny", "to": "*"}]}]


def rule(**members):
    return {"rules": [{"action": "allow", "to": "a.example", **members}]}


WRONG = [
    ({"presets": ["absent"]}, "egress.presets"),
    ({"ask": {"timeout_ms": 600001}}, "egress.ask.timeout_ms"),
    ({"default": "perhaps"}, "egress.default"),
    ({"rule": []}, "egress.rule"),
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
    (rule(credential="a/b"), "egress.rules[0].credential"),
    (rule(methods=["get"]), "egress.rules[0].methods"),
    (rule(paths=["/a/../b"]), "egress.rules[0].paths"),
    (rule(paths=["/a"], ports=[8443]), "egress.rules[0].ports"),
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
        assert reply.status == 502 and reply.headers["Retry-After"]
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
    kind = template(own, "kind", ALLOW)["id"]
    refused("egress_unavailable", own.call, "POST", "/v1/sandboxes", {"template": "kind"})
    refused("egress_unavailable", own.call, "POST", "/v1/sandboxes", {"template": "kind", "egress": {"default": "allow"}})
    box = own.call("POST", "/v1/sandboxes", {"template": "kind", "egress": {}})["id"]
    own.call("DELETE", "/v1/templates/" + kind)
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.get(box)["state"] == "running" and policy(own, box)["template"]["rules"] == ALLOW["rules"]
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


# -- the operations


def policy(c, box):
    return c.call("GET", f"/v1/sandboxes/{box}/egress")


def put(c, box, egress, query=""):
    return c.call("PUT", f"/v1/sandboxes/{box}/egress{query}", egress)


DENY = {"rules": [{"action": "deny", "to": "*.example.com", "ports": [443, "8000-8010"]}], "default": "deny"}


def test_a_policy_is_replaced_and_outlives_control(own):
    box = own.create("tiny")
    first = policy(own, box)
    assert first["policy"] == {"rules": [], "default": "deny"} and "template" not in first
    assert first["generation"] == 1 and first["attached"] is False and re.fullmatch("[0-9a-f]{16}", first["digest"])
    second = put(own, box, DENY, "?if_generation=1")
    assert second["policy"] == DENY and second["generation"] == 2 and second["digest"] != first["digest"]
    error = refused("conflict", put, own, box, {}, "?if_generation=1")
    assert error["field"] == "if_generation" and policy(own, box) == second
    own.kill_daemon("cayd")
    own.start_cayd()
    assert policy(own, box) == second
    assert put(own, box, {})["generation"] == 3
    own.delete(box)
    refused("wrong_state", put, own, box, {})


def test_a_policy_that_is_refused_changes_nothing(daemon, box):
    before = policy(daemon, box)
    for egress, field in WRONG:
        error = refused("invalid_argument", put, daemon, box, egress)
        assert "egress." + error["field"] == field, error
    refused("egress_unavailable", put, daemon, box, ALLOW)
    refused("egress_unavailable", put, daemon, box, {"default": "allow"})
    assert policy(daemon, box) == before


def test_a_token_cannot_change_the_policy(daemon, box):
    """It is what an agent inside may have."""
    of_one = daemon.edge(f"{daemon.get(box)['tenant']} write - {box}")
    refused("permission_denied", put, of_one, box, {})
    assert policy(of_one, box)["generation"] == 1


def test_a_policy_stays_within_that_of_its_template(daemon):
    kind = template(daemon, "bounded", ALLOW)["id"]
    box = daemon.call("POST", "/v1/sandboxes", {"template": "bounded", "egress": {}})["id"]
    bound = policy(daemon, box)["template"]
    assert bound == {**ALLOW, "default": "deny"}
    assert put(daemon, box, DENY)["template"] == bound
    daemon.call("DELETE", "/v1/templates/" + kind)
    assert policy(daemon, box)["template"] == bound
    daemon.delete(box)


# -- the verdict, by a reference that shares nothing with Cay


def matches(rule, to, port):
    ranges = [str(p).split("-") for p in rule.get("ports", [443])]
    if not any(int(r[0]) <= port <= int(r[-1]) for r in ranges):
        return False
    if re.fullmatch(r"[0-9.]+", to):
        return bool(re.fullmatch(r"[0-9./]+", rule["to"])) and ipaddress.ip_address(to) in ipaddress.ip_network(rule["to"])
    if rule["to"] == "*":
        return True
    return to.endswith(rule["to"][1:]) if rule["to"].startswith("*.") else to == rule["to"]


def judge(egress, to, port):
    """(action, number of the rule or None)"""
    for i, rule in enumerate(egress["rules"]):
        if matches(rule, to, port):
            return rule["action"], i
    return egress["default"], None


def expected(layers, to, port):
    """(verdict, layer, rule): the first of the strictest, or of what all allow the last."""
    said = [(name, *judge(egress, to, port)) for name, egress in layers]
    layer, action, i = next((s for s in said if s[1] == "deny"), said[-1])
    return action, layer, i


NAMES = ["example.com", "a.example.com", "b.a.example.com", "xexample.com", "example.org", "192.0.2.7", "192.0.3.7", "8.8.8.8"]
TARGETS = ["*", "example.com", "*.example.com", "*.a.example.com", "a.example.com", "example.org", "192.0.2.0/24", "192.0.0.0/16", "0.0.0.0/0", "192.0.2.7"]
PORTS = [None, [443], [80], ["1-65535"], [22, "400-500"], ["8000-8010", 9]]


def a_policy(r, actions, defaults):
    rules = []
    for _ in range(r.randrange(6)):
        ports = r.choice(PORTS)
        rules.append({"action": r.choice(actions), "to": r.choice(TARGETS), **({"ports": ports} if ports else {})})
    return {"rules": rules, "default": r.choice(defaults)}


def check(c, box, to, port):
    said = c.call("POST", f"/v1/sandboxes/{box}/egress/check", {"to": to, "port": port})
    assert said["reason"] and ("text" in said) == ("rule" in said), said
    return said["verdict"], said["layer"], said.get("rule")


def test_the_verdict_is_that_of_the_reference(own):
    """The other policies are any; the sandbox's denies, or cay-egress would be needed.  So the layer says what the others allow."""
    r = random.Random(19)
    verdicts = set()
    tenant = own.call("POST", "/v1/tenants", {"name": "judged"})["id"]
    by = asks(own, "write", tenant)
    for n in range(12):
        of_template = a_policy(r, ["allow", "deny"], ["allow", "deny"])
        template(own, f"t{n}", of_template)
        box = by.call("POST", "/v1/sandboxes", {"template": f"t{n}", "egress": {}})["id"]
        for _ in range(3):
            of_tenant = a_policy(r, ["allow", "deny"], ["allow", "allow", "deny"])
            of_sandbox = a_policy(r, ["deny"], ["deny"])
            put(by, box, of_sandbox)
            assert set_tenant(own, tenant, egress_max=of_tenant)["egress_max"] == of_tenant == policy(by, box)["tenant"]
            for _ in range(12):
                to, port = r.choice(NAMES), r.choice([22, 80, 443, 450, 8005, 65535])
                want = expected([("tenant", of_tenant), ("template", of_template), ("sandbox", of_sandbox)], to, port)
                verdicts.add(want)
                assert check(by, box, to, port) == want, (of_tenant, of_template, of_sandbox, to, port)
        by.delete(box)
    assert {"tenant", "template", "sandbox"} == {layer for _, layer, _ in verdicts} and len(verdicts) > 12


def test_a_sandbox_without_a_policy_reaches_nothing(daemon, box):
    assert check(daemon, box, "a.example", 443) == ("deny", "sandbox", None)
    for to in ("localhost", "a.example.", "[::1]", "fd00::1", "192.0.2.0/24", "*", "*.example.com"):
        assert refused("invalid_argument", check, daemon, box, to, 443)["field"] == "to"
    assert refused("invalid_argument", check, daemon, box, "a.example", 0)["field"] == "port"


# -- policies of a tenant


def set_tenant(c, tenant, **members):
    return c.call("POST", "/v1/tenants/" + tenant, members)


def test_policies_of_a_tenant_are_kept(own):
    tenant = own.call("POST", "/v1/tenants", {"name": "kept"})["id"]
    bound = {"rules": [{"action": "allow", "to": "*.example.com"}], "default": "deny"}
    assert set_tenant(own, tenant, egress_default=DENY)["egress_default"] == DENY
    said = set_tenant(own, tenant, egress_max=bound, quotas={"sandboxes": 3})
    assert said["egress_max"] == bound and said["egress_default"] == DENY
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.call("GET", "/v1/tenants/" + tenant)["tenant"] == said
    by = asks(own, "write", tenant)
    assert by.call("GET", "/v1/tenant")["tenant"] == said
    box = by.create("tiny")
    digest = policy(by, box)["digest"]
    assert policy(by, box)["tenant"] == bound and policy(by, box)["policy"] == {"rules": [], "default": "deny"}
    said = set_tenant(own, tenant, reset=True)
    assert not {"egress_max", "egress_default", "quotas"} & set(said)
    assert "tenant" not in policy(by, box) and policy(by, box)["digest"] != digest
    by.delete(box)


def test_policies_of_a_tenant_that_are_refused(daemon):
    tenant = daemon.call("POST", "/v1/tenants", {"name": "refused"})["id"]
    before = daemon.call("GET", "/v1/tenants/" + tenant)["tenant"]
    for member in ("egress_default", "egress_max"):
        for egress, field in WRONG:
            error = refused("invalid_argument", set_tenant, daemon, tenant, **{member: egress})
            assert error["field"] == field.replace("egress", member, 1), error
    assert daemon.call("GET", "/v1/tenants/" + tenant)["tenant"] == before
    mine = daemon.call("GET", "/v1/tenant")["tenant"]["id"]
    assert "section egress" in refused("conflict", set_tenant, daemon, mine, egress_max={})["message"]


def test_policies_that_the_journal_could_not_give_back_are_refused(own):
    tenant = own.call("POST", "/v1/tenants", {"name": "much"})["id"]
    much = {"rules": [{"action": "deny", "to": f"{i}.example", "ports": [1, 2, 3, 4]} for i in range(256)], "default": "deny"}
    before = set_tenant(own, tenant, egress_default=much)
    refused("too_large", set_tenant, own, tenant, egress_max=much)
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.call("GET", "/v1/tenants/" + tenant)["tenant"] == before and before["egress_default"] == much


def test_a_create_without_a_policy_has_that_of_its_tenant(daemon):
    """Which is no bound: a create may have another."""
    tenant = daemon.call("POST", "/v1/tenants", {"name": "preset"})["id"]
    by = asks(daemon, "write", tenant)
    set_tenant(daemon, tenant, egress_default=ALLOW)
    refused("egress_unavailable", by.call, "POST", "/v1/sandboxes", {"image": "tiny"})
    by.delete(create(by, {})["id"])
    daemon.delete(daemon.create("tiny"))
    set_tenant(daemon, tenant, egress_default={})
    by.delete(by.create("tiny"))


# -- presets


@pytest.fixture
def presets(own):
    """A directory of presets that control reads when it starts again."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        pathlib.Path(top).chmod(0o755)
        own.env["CAY_PATHS_EGRESS"] = top
        own.kill_daemon("cayd")
        yield pathlib.Path(top)


def test_presets_of_the_package_are_presets(own, presets):
    for at in pathlib.Path(__file__).parents[3].glob("packaging/egress.d/*.conf"):
        shutil.copy(at, presets)
    (presets / "README").write_text("not a preset")
    own.start_cayd()
    found = {p["name"]: p for p in own.call("GET", "/v1/presets")["presets"]}
    assert list(found) == ["none", "git", "git_ro", "llm", "open", "web"] and all(p["help"] for p in found.values())
    assert found["none"]["rules"] == [] and found["web"]["rules"] == ["allow * 80,443"]
    assert "allow github.com 443 methods=POST paths=*/git-upload-pack" in found["git_ro"]["rules"]
    assert "allow github.com 22,443" in found["git"]["rules"] and found["open"]["rules"][1] == "allow 0.0.0.0/0 1-65535"
    template(own, "gits", {"presets": ["git"], "rules": [{"action": "deny", "to": "gist.github.com"}], "default": "deny"})
    box = own.call("POST", "/v1/sandboxes", {"template": "gits", "egress": {}})["id"]
    for to, port, layer, rule in (("gist.github.com", 443, "template", 0), ("api.github.com", 443, "sandbox", None),
                                  ("api.github.com", 22, "template", None), ("github.com", 22, "sandbox", None)):
        assert check(own, box, to, port) == ("deny", layer, rule)
    refused("egress_unavailable", create, own, {"presets": ["git"]})
    refused("invalid_argument", create, own, {"presets": ["packages"]})


def test_a_preset_of_package_hosts_is_a_preset(own, presets, tmp_path):
    (tmp_path / "etc/apt").mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list").write_text("deb http://deb.example/debian x main\ndeb https://192.0.2.7:8443/ x main\n")
    done = subprocess.run([pathlib.Path(BUILD, "src/cli/cay"), "egress", "presets", "--discover", "--root", tmp_path], check=True, capture_output=True)
    (presets / "packages.conf").write_bytes(done.stdout)
    done = subprocess.run([*done.args, "--read-only"], check=True, capture_output=True)
    (presets / "packages_ro.conf").write_bytes(done.stdout)
    own.start_cayd()
    found = {p["name"]: p for p in own.call("GET", "/v1/presets")["presets"]}["packages"]
    assert found["help"] == "Hosts that package clients are configured with"
    assert found["rules"] == ["allow deb.example 80", "allow 192.0.2.7/32 8443"]
    found = {p["name"]: p for p in own.call("GET", "/v1/presets")["presets"]}["packages_ro"]
    assert found["rules"] == ["allow deb.example 80 methods=GET,HEAD"] and b"192.0.2.7 8443: its requests" in done.stdout


@pytest.mark.parametrize("name, text, says", [
    ("a.conf", "allow a.example\n\ndeny b.example\n", "a.conf: line 3"),
    ("a.conf", "allow a.example 0\n", "a.conf: line 1"),
    ("a.conf", "# all\nallow https://a.example\n", "a.conf: line 2"),
    ("a.conf", "allow a.example 1,2,3,4,5\n", "a.conf: line 1"),
    ("a.conf", "allow *.com\n", "a.conf: line 1"),
    ("a.conf", "allow a.example methods=get\n", "a.conf: line 1"),
    ("a.conf", "allow a.example 8443 methods=GET\n", "a.conf: line 1"),
    ("a.conf", "allow a.example paths=/a methods=GET\n", "a.conf: line 1"),
    ("A.conf", "", "A.conf"), ("none.conf", "", "none.conf"),
])
def test_a_file_that_is_no_preset_stops_the_start(own, presets, name, text, says):
    (presets / name).write_text(text)
    with pytest.raises(RuntimeError, match=says):
        own.start_cayd()
