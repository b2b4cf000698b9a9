# SPDX-License-Identifier: Apache-2.0
"""exec.run with an Idempotency-Key runs the command once, however often it is sent."""
import concurrent.futures
import json

from client import DATA, END, FRAMES, SANDBOX, frames
from conftest import wait_for


def run(c, key, body, **headers):
    return c.ask("POST", SANDBOX + "/execs", body, {"Idempotency-Key": key, **headers})


def test_a_repeated_run_gets_the_first_ones_result(init, tmp_path):
    c, log = init.client, tmp_path / "log"
    body = {"shell": f"echo ran >> {log}; echo out; echo err >&2; exit 3"}
    first = run(c, "k1", body)
    again = run(c, "k1", body)
    assert first.status == again.status == 200 and first.json() == again.json()
    assert again.headers["Cay-Exec"] == first.json()["id"] and first.json()["end"]["exit_code"] == 3
    spelled = json.dumps(body, indent=4).encode()  # the same request, in other words
    assert run(c, "k1", spelled, **{"Content-Type": "application/json"}).json()["id"] == first.json()["id"]
    r = c.open("POST", SANDBOX + "/execs", body, {"Idempotency-Key": "k1", "Accept": FRAMES})
    got = list(frames(r))
    assert b"".join(f[3] for f in got if f[0] == DATA and f[1] == 1) == b"out\n" and got[-1][0] == END
    assert log.read_text() == "ran\n"
    assert run(c, "k2", body).json()["id"] != first.json()["id"] and log.read_text() == "ran\n" * 2


def test_a_repeated_run_waits_for_the_first(init, tmp_path):
    c, log, go = init.client, tmp_path / "log", tmp_path / "go"
    body = {"shell": f"echo ran >> {log}; until [ -e {go} ]; do sleep 0.02; done; seq 1000"}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first = pool.submit(run, c, "k", body)
        wait_for(log.exists, 20, "the command")
        wait_for(lambda: c.ask("GET", SANDBOX + "/execs").json()["execs"], 20, "the exec")
        others = [pool.submit(run, c, "k", body) for _ in range(3)]
        detached = run(c, "k", {**body, "detach": True})
        go.touch()
        replies = [f.result(60).json() for f in (first, *others)]
    assert all(r == replies[0] for r in replies) and len(replies[0]["stdout"].split()) == 1000
    assert log.read_text() == "ran\n"
    assert detached.error()[:2] == (422, "idempotency_key_reused")


def test_a_client_that_left_finds_what_it_started(init, tmp_path):
    """As after a broken connection: the reply was never read."""
    c, log = init.client, tmp_path / "log"
    body = {"shell": f"echo ran >> {log}; seq 5"}
    r = c.open("POST", SANDBOX + "/execs", body, {"Idempotency-Key": "gone", "Accept": FRAMES})
    r.close()
    assert run(c, "gone", body).json()["stdout"] == "1\n2\n3\n4\n5\n" and log.read_text() == "ran\n"


def test_what_could_not_start_is_tried_again(init, tmp_path):
    c, program = init.client, tmp_path / "program"
    body = {"argv": [str(program)]}
    assert run(c, "late", body).status == 400
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    assert run(c, "late", body).json()["stdout"] == "here\n"


def test_keys_are_checked(init):
    c, body = init.client, {"argv": ["true"]}
    for key in ("x" * 65, "a b", "a\x7f"):
        assert run(c, key, body).error()[:2] == (400, "invalid_argument"), key
    assert run(c, "x" * 64, body).status == 200
