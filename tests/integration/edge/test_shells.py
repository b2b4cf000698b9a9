# SPDX-License-Identifier: Apache-2.0
"""A shell of a real sandbox, through the edge: who it is, where it is, and that it stays."""
import contextlib
import json
import threading

import shell_fixtures
import pytest

import cay
from conftest import FULL


@pytest.fixture(scope="module")
def bash(node):
    node.image_import("bash", shell_fixtures.bash_image())
    name = node.door().create("bash", limits={"memory_bytes": "64Mi", "pids": 64})
    yield name
    node.call("DELETE", f"/v1/sandboxes/{name}")


def test_through_the_edge(node, bash):
    me = node.door()
    shell = me.call("POST", f"/v1/sandboxes/{bash}/shells", {})
    at = f"/v1/sandboxes/{bash}/shells/{shell['id']}"
    assert shell["cwd"] == "/workspace" and shell["state"] == "idle"

    def run(text, **fields):
        return me.call("POST", at + "/runs", {"command": text, **fields})

    assert run("echo $UID $PWD $TERM; cd /tmp; x=5")["stdout"] == "1000 /workspace dumb\n"
    assert run("echo $x $PWD; echo /dev/shm/.c* /tmp/.c*")["stdout"] == "5 /tmp\n/dev/shm/.c* /tmp/.c*\n"
    assert run("nosuch")["stderr"] == "bash: line 1: nosuch: command not found\n"
    assert run("while :; do :; done; echo no", timeout_ms=200)["end"]["reason"] == "timeout"
    assert run("echo $x $?")["stdout"] == "5 130\n"
    with contextlib.closing(me.open("POST", at + "/runs", {"command": "echo a; echo b >&2"}, {"Accept": "text/event-stream"})) as r:
        events = [json.loads(line[6:]) for line in r.read().decode().splitlines() if line.startswith("data: ")]
    assert [e.get("t") for e in events] == ["a\n", "b\n", None] and events[-1]["exit_code"] == 0
    # all of its memory, in a child of the shell: that dies, the shell does not
    r = run("(v=x; while :; do v=$v$v; done) 2>/dev/null; echo $? $x", timeout_ms=20000)
    assert r["stdout"] in ("137 5\n", "2 5\n"), r  # killed, or bash itself saw that there was no more
    # all of its processes, from a shell
    run("b() { b | b & }; b; b", detach=True)
    assert me.call("DELETE", at)["id"] == shell["id"]
    # they are killed, not gone: until they are there is no place for another
    cay.wait_for("the bomb's end", lambda: node.call("GET", f"/v1/sandboxes/{bash}/usage")["processes"] == 1, 20)
    again = me.call("POST", f"/v1/sandboxes/{bash}/shells", {})["id"]
    assert me.call("POST", f"/v1/sandboxes/{bash}/shells/{again}/runs", {"command": "echo fine"})["stdout"] == "fine\n"


@pytest.mark.parametrize("door", ["edge", "control"])
def test_large_scripts_and_outputs(node, door):
    """900 KB in, 4 MiB of each output out, by both ways; a small sandbox keeps less of its output."""
    me = node.door() if door == "edge" else node
    large, small = (me.create("tiny", limits={"memory_bytes": size}) for size in ("256Mi", "64Mi"))
    line = "\u20ac" * 20 + "\n"
    n = 900_000 // len(line.encode())
    script = f"wc -l <<'END'\n{line * n}END\necho $0"
    e = me.call("POST", f"/v1/sandboxes/{large}/execs", {"argv": ["sh", "-c", script]})
    assert e["stdout"].split() == [str(n), "sh"], e
    assert me.call("POST", f"/v1/sandboxes/{large}/execs", {"argv": ["wc", "-l"], "stdin": line * n})["stdout"] == f"{n}\n"
    both = "n() { head -c 9000000 /dev/zero | tr '\\0' '\\n'; }; n; n >&2"
    for box, kept in (large, 4 << 20), (small, 1 << 20):
        e = me.call("POST", f"/v1/sandboxes/{box}/execs", {"shell": both})
        assert e["stdout"] == e["stderr"] == "\n" * kept and e["stdout_bytes"] == e["stderr_bytes"] == 9000000
    for box in large, small:
        me.call("DELETE", f"/v1/sandboxes/{box}")


def test_no_bash_is_said(node, box):
    with pytest.raises(cay.ApiError) as e:
        node.door().call("POST", f"/v1/sandboxes/{box}/shells", {})
    assert e.value.code == "unsupported" and "the image has no bash: " in str(e.value)
    # what it says to do instead is so
    assert node.door().call("POST", f"/v1/sandboxes/{box}/execs", {"shell": "echo a | cat"})["stdout"] == "a\n"


def test_an_edge_waits_as_long_as_what_it_waits_for(node, bash):
    """A run and a watch at once; CAY_FULL=1: longer than the 30 s anything else has to answer."""
    me, at, got, long = node.door(), f"/v1/sandboxes/{bash}", {}, 33 if FULL else 1
    shell = me.call("POST", at + "/shells", {})["id"]
    asks = {"run": lambda: me.call("POST", f"{at}/shells/{shell}/runs", {"command": f"sleep {long}; echo done"})["stdout"],
            "watch": lambda: me.call("GET", f"{at}/files/watch?path=/tmp&wait_ms={long * 1000}")["events"]}
    threads = [threading.Thread(target=lambda key=key: got.update({key: asks[key]()})) for key in asks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got["run"] == "done\n" and [e["event"] for e in got["watch"]] == ["ready"], got
