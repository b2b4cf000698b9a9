# SPDX-License-Identifier: Apache-2.0
"""Templates: what a create begins with."""
from test_control import refused
from test_life import post

MIB = 1 << 20


def put(c, called, **defaults):
    return c.call("POST", "/v1/templates", {"name": called, "defaults": {"image": "tiny", **defaults}})


def test_a_create_says_only_what_differs(daemon):
    put(daemon, "kind", env={"A": "one", "B": "two"}, limits={"pids": 40, "memory_bytes": "64Mi"}, group="g", labels={"l": "x"},
        ttl_ms=600000, runtime="runc")
    box = daemon.call("POST", "/v1/sandboxes", {"template": "kind"})
    assert (box["template"], box["image"], box["group"], box["runtime"]) == ("kind", "tiny", "g", "runc")
    assert box["limits"]["pids"] == 40 and box["limits"]["memory_bytes"] == 64 * MIB and box["limits"]["cpu_milli"] == 1000
    assert box["labels"] == {"l": "x"} and "expires_at" in box
    assert daemon.exec(box["id"], ["env"]).text.count("A=one") == 1
    other = daemon.call("POST", "/v1/sandboxes", {"template": "kind", "env": {"B": "3"}, "limits": {"pids": 1024}, "runtime": "crun"})
    assert other["limits"]["pids"] == 1024 and other["limits"]["memory_bytes"] == 64 * MIB and other["runtime"] == "crun"
    env = daemon.exec(other["id"], ["env"]).text.splitlines()
    assert "A=one" in env and "B=3" in env and "B=two" not in env
    for b in (box, other):
        daemon.delete(b["id"])


def test_the_two_together_are_not_too_many(own):
    """What the journal could not read back is not made."""
    put(own, "kind", labels={f"a{i}": "x" for i in range(40)}, env={f"A{i}": "x" for i in range(200)})
    refused("invalid_argument", own.call, "POST", "/v1/sandboxes", {"template": "kind", "labels": {f"b{i}": "x" for i in range(40)}})
    refused("invalid_argument", own.call, "POST", "/v1/sandboxes", {"template": "kind", "env": {f"B{i}": "x" for i in range(100)}})
    box = own.call("POST", "/v1/sandboxes", {"template": "kind", "labels": {f"b{i}": "x" for i in range(24)},
                                             "env": {f"B{i}": "x" for i in range(56)}})["id"]
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.get(box)["state"] == "running" and len(own.get(box)["labels"]) == 64


def test_one_of_two_things_said_is_the_other_unsaid(daemon):
    put(daemon, "ro", storage="read_only", writable=["/tmp"], entrypoint=["sleep", "60"])
    box = daemon.call("POST", "/v1/sandboxes", {"template": "ro", "storage": "disk"})
    assert "writable" not in box and daemon.exec(box["id"], ["touch", "/workspace/x"]).exit_code == 0
    refused("invalid_argument", daemon.call, "POST", "/v1/sandboxes", {"template": "ro", "image_entrypoint": True})  # it has none
    daemon.delete(box["id"])


def test_what_a_template_cannot_say(daemon):
    refused("invalid_argument", daemon.call, "POST", "/v1/templates", {"name": "bad", "defaults": {"env": {}}})
    refused("invalid_argument", put, daemon, "bad", name="one")
    refused("invalid_argument", put, daemon, "bad", template="two")
    refused("invalid_argument", put, daemon, "bad", limits={"memory_bytes": "lots"})
    refused("not_found", put, daemon, "bad", image="absent")
    refused("not_found", daemon.call, "POST", "/v1/sandboxes", {"template": "bad"})
    refused("invalid_argument", daemon.call, "POST", "/v1/sandboxes", {})
    put(daemon, "good")
    refused("invalid_argument", daemon.call, "POST", "/v1/sandboxes", {"template": "good", "image": "tiny"})


def test_a_name_gets_new_settings_and_survives_a_restart(own):
    first = put(own, "kind", env={"A": "1"})
    again = put(own, "kind", env={"A": "2"})
    assert again["id"] == first["id"]
    put(own, "gone")
    own.call("DELETE", "/v1/templates/" + put(own, "gone")["id"])
    own.kill_daemon("cayd")
    own.start_cayd()
    assert [(t["name"], t["defaults"]["env"]) for t in own.call("GET", "/v1/templates")["templates"]] == [("kind", {"A": "2"})]
    box = own.call("POST", "/v1/sandboxes", {"template": "kind"})
    assert "A=2" in own.exec(box["id"], ["env"]).text


def test_a_key_knows_what_was_said(daemon):
    """The same words are the same request, also when the template has changed meanwhile."""
    put(daemon, "kind", env={"A": "1"})

    def make(key, **spec):
        return post(daemon, "/v1/sandboxes", {"template": "kind", **spec}, {"Idempotency-Key": key})[1]["id"]
    box = make("k1")
    put(daemon, "kind", env={"A": "2"})
    assert make("k1") == box
    refused("idempotency_key_reused", make, "k1", limits={"pids": 1024})
    daemon.delete(box)
