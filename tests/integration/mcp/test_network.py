# SPDX-License-Identifier: Apache-2.0
"""A model sees which network it has, and asks its user for a host"""
import concurrent.futures
import re

import lab
import mcp
import pytest
from cay import wait_for
from nodes import BUILD
from test_profiles import User

DB = "93.184.2.3"


@pytest.fixture(scope="module")
def node():
    with lab.Lab([(DB, 5432)], {"db.example.com": [DB]}), mcp.Workshop(BUILD, {"CAY_EGRESS_DNS": lab.DNS}) as c:
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        yield c


def test_a_model_sees_its_network_and_asks_for_a_host(node):
    """It gets the very command for its user; where a policy asks, its connection waits for the answer, and goes on."""
    user, operator = User(node, "native"), node.door()
    user("exec", command="true")
    box = re.search(r"sb\w{24}", user("sandbox_list"))[0]
    assert "No host can be reached" in user("network")
    operator.call("PUT", f"/v1/sandboxes/{box}/egress", {"rules": [
        {"action": "allow", "to": "api.example.com", "ports": [8443]}, {"action": "ask", "to": "db.example.com", "ports": [5432]},
        {"action": "allow", "to": "169.254.169.254/32", "ports": [80]}]})
    shown = user("network").splitlines()
    assert shown == ["The first line that matches decides:", "allow api.example.com:8443", "ask db.example.com:5432",
                     "allow 169.254.169.254/32:80", "deny all others", "ask: the connection waits while your user is asked"]
    assert user("network", to="api.example.com", port=8443).startswith("allow: ")
    denied = user("network", to="plain.example.com", port=80)
    assert denied.startswith("deny: ") and denied.endswith(f"ask your user to run: cay egress allow {box} plain.example.com:80")
    never = user("network", to="169.254.169.254", port=80)
    assert never.startswith("deny: ") and "cay egress allow" not in never and never.endswith("Only an operator can change that.")
    assert user("network", to="db.example.com", port=5432).endswith("Your user must run 'cay ask watch' before you connect.")
    assert "expected" in user("network", True, to="$(reboot).example.com")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asks = pool.submit(operator.call, "GET", "/v1/asks?after=0&wait_ms=25000")
        wait_for("a client that can answer", lambda: user("network", to="db.example.com", port=5432).endswith("while your user is asked."), 30)
        connects = pool.submit(user, "exec", command="bash -c 'exec 3<>/dev/tcp/db.example.com/5432; read -r line <&3; echo $line'")
        asked = asks.result(60)["asks"]
        assert [(a["to"], a["port"], a["sandbox"], a["state"]) for a in asked] == [("db.example.com", 5432, box, "waiting")]
        operator.call("POST", f"/v1/asks/{asked[0]['id']}", {"verdict": "allow"})
        assert f"this is {DB} port 5432" in connects.result(60)
    operator.call("DELETE", f"/v1/sandboxes?group={user.group}")
