# SPDX-License-Identifier: Apache-2.0
"""Programs that are kept running, and what runs before a sandbox is usable."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import struct
import tempfile
import threading
import time

import pytest

from client import DATA, END, FRAMES, GAP, SANDBOX, frames
from conftest import SANITIZED, Init, wait_for

# /etc is the image's: an overlay that only this PID 1 sees
LAYER = """set -e; m=$0/m; mkdir $m; mount -t tmpfs t $m; mkdir $m/u $m/w; cp -a $0/etc/. $m/u
mount -t overlay o -o lowerdir=/etc,upperdir=$m/u,workdir=$m/w /etc; exec "$@" """


@contextlib.contextmanager
def image(files=None, claim=None, clone3=True, headers=None):
    """A cay-init whose image has these files below /etc, claimed; .claimed is the answer."""
    top = tempfile.mkdtemp(dir="/tmp")
    for name, content in (files or {}).items():
        path = pathlib.Path(top, "etc", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        mode, text = content if isinstance(content, tuple) else (0o644, content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
    os.makedirs(top + "/etc", exist_ok=True)
    i = Init(prefix=["sh", "-c", LAYER, top], clone3=clone3)
    try:
        i.top = top
        i.claimed = i.client.ask("POST", "/v1/claim", claim or {}, headers)
        yield i
    finally:
        i.stop()
        shutil.rmtree(top)


def moment(seconds):
    """For what must not happen, there is nothing to wait for."""
    threading.Event().wait(seconds)


def path(name="", what=""):
    return f"{SANDBOX}/services" + (f"/{name}" if name else "") + what


def put(i, name, command, **more):
    more["argv" if isinstance(command, list) else "command"] = command
    r = i.client.ask("PUT", path(name), more)
    assert r.status == 200, r.body
    return r.json()


def get(i, name):
    return i.client.ask("GET", path(name)).json()


def do(i, name, verb):
    r = i.client.ask("POST", path(name, "/" + verb))
    assert r.status == 200, r.body
    return r.json()


def log(i, name, **query):
    return i.client.ask("GET", path(name, "/log?" + "&".join(f"{k}={v}" for k, v in query.items()))).body


def conf(name, command, **more):
    return f"[program:{name}]\ncommand={command}\n" + "".join(f"{k}={v}\n" for k, v in more.items())


@pytest.fixture
def bare():
    with image() as i:
        assert i.claimed.status == 204
        yield i


def kill(i, pid):
    i.client.run("/bin/kill", "-9", str(pid))


# Services

@pytest.mark.alone
def test_five_services_start_in_order_and_come_back(tmp_path):
    """What a desktop is made of: an order, programs that stay, each back within a second."""
    server = ("import http.server, sys\n"
              "http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()\n")
    names = ["display", "manager", "panel", "viewer", "web"]
    files = {f"cay/services.d/{9 - k}.conf": conf(n, f"python3 /etc/server.py {7100 + k}", priority=100 * (k + 1), startsecs=1 if k == 0 else 0,
                                                   autorestart="true") for k, n in enumerate(names)}
    files["server.py"] = server
    t = time.monotonic()
    with image(files) as i:
        assert i.claimed.status == 204, i.claimed.body
        assert time.monotonic() - t >= 1  # the first had to stay up for one
        rows = i.client.ask("GET", path()).json()["services"]
        assert [r["name"] for r in rows] == names and {r["state"] for r in rows} == {"running"}
        at = [r["started_at"] for r in rows]
        assert at == sorted(at) and at[1] >= rows[0]["last_transition_at"] > at[0]  # the second when the first was up
        for k, r in enumerate(rows):
            wait_for(lambda k=k: i.client.ask("GET", f"{SANDBOX}/health?port={7100 + k}").json()["ok"])
        took = []
        for k, n in enumerate(names):
            before = get(i, n)
            kill(i, before["pid"])
            killed = time.monotonic()
            wait_for(lambda: get(i, n).get("pid", before["pid"]) != before["pid"], what=n + " again")
            took.append(time.monotonic() - killed)
            wait_for(lambda k=k: i.client.ask("GET", f"{SANDBOX}/health?port={7100 + k}").json()["ok"])
            after = get(i, n)
            assert after["starts"] == 2 and after["end"]["signal"] == "SIGKILL"
        assert statistics.median(took) < 1, took
        # and one of them did not take another with it
        assert all(r["starts"] == 2 for r in i.client.ask("GET", path()).json()["services"])


def test_the_order_is_by_priority_then_name(tmp_path):
    say = "sh -c 'echo %(program_name)s >> /tmp/order-%(ENV_MARK)s; exec sleep 1000'"
    mark = os.path.basename(tmp_path)
    with image({"cay/services.d/a.conf": conf("late", say) + conf("b", say, priority=5) + conf("a", say, priority=5) + conf("first", say, priority=1),
                "supervisor/conf.d/x.conf": conf("early", say, priority=2) + conf("off", say, autostart="false")},
               claim={"env": {"MARK": mark}}) as i:
        assert i.claimed.status == 204
        # each was executed before the next was: its shell may be slower than the next one's, so look at when
        rows = i.client.ask("GET", path()).json()["services"]
        assert [r["name"] for r in rows] == ["first", "early", "a", "b", "late", "off"]
        assert [r["state"] for r in rows] == ["running"] * 5 + ["stopped"]
        at = [r["started_at"] for r in rows[:5]]
        assert at == sorted(at) and len(set(at)) > 1
        order = pathlib.Path(f"/tmp/order-{mark}")  # executed is not yet written
        wait_for(lambda: order.exists() and len(order.read_text().split()) == 5)


def test_the_first_file_of_a_name_counts(tmp_path):
    with image({"cay/services.d/a.conf": conf("x", "sleep 1001"), "supervisor/conf.d/a.conf": conf("x", "sleep 1002")}) as i:
        assert get(i, "x")["argv"] == ["sleep", "1001"] and get(i, "x")["source"] == "/etc/cay/services.d/a.conf"


def test_the_claims_services_come_before_those_of_files(tmp_path):
    asked = [{"name": "x", "command": "sleep 1000", "priority": 2}, {"name": "early", "argv": ["sh", "-c", "echo $A$B; exec sleep 1000"],
                                                                    "env": {"B": "2"}, "priority": 1, "start_ms": 100}]
    with image({"cay/services.d/a.conf": conf("x", "sleep 1001") + conf("y", "sleep 1002")}, claim={"services": asked, "env": {"A": "1"}}) as i:
        assert i.claimed.status == 204
        rows = i.client.ask("GET", path()).json()["services"]
        assert [(s["name"], s["state"], s["source"]) for s in rows] == [
            ("early", "running", "api"), ("x", "running", "api"), ("y", "running", "/etc/cay/services.d/a.conf")]
        assert get(i, "x")["argv"] == ["sleep", "1000"]
        wait_for(lambda: log(i, "early") == b"12\n")
        assert rows[0]["last_transition_at"] <= rows[1]["started_at"]
    with image(claim={"services": asked}, headers=LATER) as i:  # an image without any
        assert i.claimed.status == 202 and i.client.ask("GET", "/v1/start").status == 204 and get(i, "early")["state"] == "running"


@pytest.mark.parametrize("bad,why", [({"command": "'open"}, "service 'bad': "), ({"command": "x", "stop_signal": "NO"}, "service 'bad': "),
                                     ({"command": "x", "name": "../x"}, "name"), ({"command": "x", "name": "good"}, "name")])
def test_a_service_that_makes_no_sense_ends_the_start(tmp_path, bad, why):
    out = tmp_path / "out"
    with image({"cay/init.d/z": (0o755, SH + f"touch {out}")},
               claim={"services": [{"name": "good", "command": f"touch {out}"}, {"name": "bad", **bad}]}) as i:
        what, _, _, _, script, text = failure(i.claimed)
        assert (what, script) == (4, "") and why in text
        moment(0.1)
        assert not out.exists()


def test_what_is_wrong_in_a_file_is_told_with_its_line():
    with image({"cay/services.d/a.conf": conf("bad", "sleep 1000", autorestart="maybe") + conf("good", "sleep 1000", stdout_logfile="/x", nobody_knows=1),
                "cay/services.d/b.txt": conf("no", "sleep 1"), "cay/services.d/big.conf": "#" * 70000, "cay/services.d/c.conf~": conf("no2", "x")}) as i:
        assert i.claimed.status == 204
        rows = i.client.ask("GET", path()).json()
        assert {r["name"]: r["state"] for r in rows["services"]} == {"bad": "fatal", "good": "running"} and rows["left_out"] == 1
        assert get(i, "bad")["error"] == "/etc/cay/services.d/a.conf:3: autorestart: must be true, false or unexpected"
        assert i.client.ask("POST", path("bad", "/start")).error()[:2] == (409, "wrong_state")
        put(i, "bad", "sleep 1000")
        assert get(i, "bad")["state"] == "running" and "error" not in get(i, "bad") and get(i, "bad")["source"] == "api"


def test_a_service_runs_as_it_was_told(bare):
    put(bare, "who", ["sh", "-c", 'echo "$(id -u) $(pwd) $A $B"; exec sleep 1000'], user="65534", cwd="/tmp", env={"A": "1"})
    wait_for(lambda: log(bare, "who"))
    assert log(bare, "who") == b"65534 /tmp 1 \n"
    assert bare.client.ask("PUT", path("x"), {"argv": ["a"], "command": "b"}).error() == (400, "invalid_argument", "argv")
    assert bare.client.ask("PUT", path("x"), {"command": "a 'b"}).error() == (400, "invalid_argument", "command")
    assert bare.client.ask("PUT", path("x"), {"command": "a", "stop_signal": "NO"}).error() == (400, "invalid_argument", "stop_signal")
    assert bare.client.ask("GET", path("x")).error()[:2] == (404, "not_found")


def test_who_does_not_stay_up_is_fatal_in_the_end(bare):
    t = time.monotonic()
    first = put(bare, "no", "/no/such --program", start_retries=1)
    assert first["state"] == "backoff" and "/no/such" in first["error"]
    put(bare, "short", ["sh", "-c", "echo try; sleep 0.05"], start_ms=30000, start_retries=2)
    wait_for(lambda: {get(bare, n)["state"] for n in ("no", "short")} == {"fatal"})
    assert get(bare, "no")["starts"] == 2 and get(bare, "short")["starts"] == 3 and time.monotonic() - t >= 1.5
    assert log(bare, "short") == b"try\n" * 3 and "before" in get(bare, "short")["error"]
    # asked for, it has all its tries again
    assert do(bare, "short", "start")["state"] == "backoff"


@pytest.mark.parametrize("mode,line,state,more", [
    ("never", "exit 1", "exited", {}), ("unexpected", "exit 0", "exited", {}), ("unexpected", "exit 3", "exited", {"exit_codes": "0,3"}),
    ("unexpected", "exit 3", None, {}), ("unexpected", "kill -9 $$", None, {}), ("always", "exit 0", None, {})])
def test_whether_it_comes_back(bare, mode, line, state, more):
    put(bare, "x", ["sh", "-c", f"sleep 0.05; {line}"], autorestart=mode, **more)
    if state:
        wait_for(lambda: get(bare, "x")["state"] == state)
        assert get(bare, "x")["starts"] == 1
    else:
        wait_for(lambda: get(bare, "x")["starts"] >= 3)
        do(bare, "x", "stop")
        n = get(bare, "x")["starts"]
        moment(0.3)
        assert get(bare, "x") | {"log_bytes": 0} == get(bare, "x") | {"log_bytes": 0, "state": "stopped", "starts": n}


def test_who_flaps_is_started_less_and_less_often(bare):
    began = time.monotonic()
    put(bare, "x", "true", autorestart="always")
    wait_for(lambda: get(bare, "x")["starts"] >= 8)
    now = get(bare, "x")
    # 0, 10, 20, 40 ... ms between them: so many take so long at least
    assert time.monotonic() - began > 0.6 and now["starts"] <= 12 and now["state"] in ("backoff", "running", "starting")


def test_stopping_is_a_signal_and_then_the_whole_cgroup(bare):
    put(bare, "soft", ["sh", "-c", "trap 'echo bye; exit 0' INT; echo ready; while :; do sleep 0.01; done"], stop_signal="INT")
    wait_for(lambda: log(bare, "soft") == b"ready\n")
    r = do(bare, "soft", "stop")
    assert r["state"] == "stopped" and r["end"].pop("used") and r["end"] == {"reason": "exit", "exit_code": 0, "inferred": False, "blame": "task", "retryable": False}
    assert log(bare, "soft").endswith(b"bye\n")
    # one that does not listen, nor does what it started in a session of its own
    put(bare, "hard", ["sh", "-c", "trap '' TERM; setsid sh -c \"trap '' TERM; exec sleep 1000\" & echo $!; while :; do sleep 1; done"], stop_ms=300)
    wait_for(lambda: log(bare, "hard"))
    t = time.monotonic()
    r = do(bare, "hard", "stop")
    assert r["state"] == "stopped" and r["end"]["reason"] == "killed" and 0.3 <= time.monotonic() - t < 8  # 10 by default
    wait_for(lambda: bare.groups() == [], what="no cgroup")
    assert bare.processes() == 0 and get(bare, "hard")["starts"] == 1


def test_what_a_service_leaves_behind_ends_with_it(bare):
    put(bare, "x", ["sh", "-c", "setsid sleep 1000 & sleep 0.05"], autorestart="never")
    wait_for(lambda: get(bare, "x")["state"] == "exited")
    wait_for(lambda: bare.groups() == [] and bare.processes() == 0)


def test_restart_and_change(bare):
    one = put(bare, "x", "sleep 1000")
    two = do(bare, "x", "restart")
    assert two["state"] == "running" and two["pid"] != one["pid"] and two["starts"] == 2
    three = put(bare, "x", "sleep 1001", priority=3)
    assert three["state"] == "running" and three["argv"] == ["sleep", "1001"] and three["starts"] == 3
    do(bare, "x", "stop")
    assert put(bare, "x", "sleep 1002", autostart=False)["state"] == "stopped"
    assert do(bare, "x", "restart")["state"] == "running"


def test_who_leaves_while_it_stops_leaves_nothing(bare):
    put(bare, "x", ["sh", "-c", "trap '' TERM; while :; do sleep 0.01; done"], stop_ms=500)
    for _ in range(3):
        s = socket.socket(socket.AF_UNIX)
        s.connect(bare.client.path)
        s.sendall(f"POST {path('x', '/stop')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        moment(0.02)
        s.close()
    assert do(bare, "x", "stop")["state"] == "stopped"


def test_a_log_is_one_stream_over_restarts(bare):
    put(bare, "x", ["sh", "-c", "echo run; echo err >&2; exec sleep 1000"], start_ms=100)
    wait_for(lambda: len(log(bare, "x")) == 8)  # 100 ms say nothing of what it has done
    do(bare, "x", "restart")
    wait_for(lambda: len(log(bare, "x")) == 16)
    assert log(bare, "x") == b"run\nerr\n" * 2 and log(bare, "x", offset=8) == b"run\nerr\n" and log(bare, "x", offset=4, limit=4) == b"err\n"
    with bare.client.open("GET", path("x", "/log?follow=true&offset=12"), headers={"Accept": FRAMES}) as r:
        do(bare, "x", "restart")
        got, at = b"", 12
        for kind, stream, offset, content in frames(r):
            assert kind == DATA and stream == 1 and offset == at
            got, at = got + content, at + len(content)
            if at == 24:
                break
        assert got == b"err\nrun\nerr\n"


def test_a_log_is_bounded_and_says_what_is_gone(bare):
    put(bare, "x", ["sh", "-c", "i=0; while [ $i -lt 40000 ]; do echo $i; i=$((i+1)); done; exec sleep 1000"])
    total = sum(len(f"{n}\n") for n in range(40000))
    wait_for(lambda: get(bare, "x")["log_bytes"] == total)
    start = get(bare, "x")["log_start"]
    assert total - start == 65536
    with bare.client.open("GET", path("x", "/log"), headers={"Accept": FRAMES}) as r:
        first, *rest = frames(r)
    assert first[0] == GAP and first[2] == 0 and struct.unpack("<Q", first[3]) == (start,)
    assert b"".join(f[3] for f in rest).endswith(b"39998\n39999\n") and sum(len(f[3]) for f in rest) == 65536


def test_deleting_ends_those_who_read(bare):
    put(bare, "x", ["sh", "-c", "echo hi; exec sleep 1000"])
    wait_for(lambda: log(bare, "x") == b"hi\n")
    assert bare.client.ask("DELETE", path("x")).error()[:2] == (409, "wrong_state")
    r = bare.client.open("GET", path("x", "/log?follow=true"), headers={"Accept": FRAMES})
    do(bare, "x", "stop")
    assert bare.client.ask("DELETE", path("x")).status == 200
    got = list(frames(r))
    assert got[0][3] == b"hi\n" and got[-1][0] == END and json.loads(got[-1][3])["reason"] == "killed"
    assert bare.client.ask("GET", path("x")).status == 404 and bare.client.ask("GET", path()).json()["services"] == []


def test_services_have_bounds_of_their_own(bare):
    for n in range(64):
        put(bare, f"s{n}", "sleep 1000", autostart=n < 40)
    assert bare.client.ask("PUT", path("more"), {"command": "sleep 1"}).error()[:2] == (429, "limit_exceeded")
    execs = [bare.client.detach("sleep", "1000") for _ in range(64)]
    assert bare.client.run("true").error()[:2] == (429, "limit_exceeded")
    assert len(bare.client.ask("GET", SANDBOX + "/execs").json()["execs"]) == 64 == len(set(execs))
    do(bare, "s0", "stop")
    assert bare.client.ask("DELETE", path("s0")).status == 200
    put(bare, "more", "sleep 1000")


def counts(i):
    return {"fds": len(os.listdir(f"/proc/{i.pid}/fd")), "groups": len(i.groups()), "children": len(i.children())}


def connections(i):
    """How many PID 1 has; it hears of the last one's end when it has its turn."""
    def is_socket(fd):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{i.pid}/fd/{fd}").startswith("socket:")
    return sum(bool(is_socket(fd)) for fd in os.listdir(f"/proc/{i.pid}/fd")) - 1  # where it listens


def settled(i):
    """counts() with nothing under way but one service."""
    wait_for(lambda: len(i.groups()) == len(i.children()) == 1)
    get(i, "x")  # answered, so it is done with what removed the last group
    wait_for(lambda: connections(i) == 0)
    return counts(i)


def test_a_thousand_flaps_leave_nothing(bare):
    """By restarts, by kills, and by itself."""
    n = 200 if SANITIZED else 700
    put(bare, "x", ["sh", "-c", "echo up; sleep 1000 & wait"], autorestart="always", stop_signal="KILL")
    put(bare, "flap", ["sh", "-c", "sleep 1000 & exit 1"], autorestart="always")
    put(bare, "no", "/no/such", start_retries=1000)
    do(bare, "flap", "stop"), do(bare, "no", "stop")
    for _ in range(20):
        do(bare, "x", "restart")
    before, rss = settled(bare), bare.rss()
    for k in range(n):
        assert do(bare, "x", "restart")["state"] == "running"
        if k % 5 == 0:
            pid = get(bare, "x")["pid"]
            kill(bare, pid)
            wait_for(lambda: get(bare, "x").get("pid", pid) != pid)
        if k % 4 == 0:
            do(bare, "flap", "start"), do(bare, "flap", "stop")
            do(bare, "no", "start"), do(bare, "no", "stop")
    assert get(bare, "x")["starts"] + get(bare, "flap")["starts"] + get(bare, "no")["starts"] >= 1.6 * n
    wait_for(lambda: counts(bare) == before, what=lambda: f"{before} again, not {counts(bare)}")
    assert SANITIZED or bare.rss() < rss + (1 << 20)


# Start scripts

SH = "#!/bin/sh\n"


def failure(r):
    assert r.status == 422 and r.headers["Content-Type"] == "application/vnd.cay.start" and len(r.body) == 512 and r.body[:4] == b"CAYS", r.body[:80]
    return tuple(r.body[4:8]) + tuple(r.body[a:b].rstrip(b"\0").decode() for a, b in ((8, 128), (128, 512)))


def test_scripts_run_before_it_is_usable(tmp_path):
    """In order of their names, as root, with the claim's variables; then services."""
    out = tmp_path / "out"
    add = f"echo $(basename $0) $MARK $(id -u) >> {out}\n"
    with image({"cay/init.d/20-run": (0o755, SH + add), "cay/init.d/10-run.sh": (0o755, SH + "sleep 0.3\n" + add),
                "cay/init.d/30-source.sh": f"set -- x; echo sourced $MARK >> {out}\n", "cay/init.d/40-readme": "exit 1\n", "cay/init.d/.hidden": (0o755, SH + "exit 1"),
                "cay/init.d/50-old~": (0o755, SH + "exit 1"), "cay/services.d/s.conf": conf("s", f"sh -c 'echo service >> {out}; exec sleep 1000'", startsecs=1, user=0)},
               claim={"env": {"MARK": "m"}, "user": "65534"}) as i:
        assert i.claimed.status == 204, i.claimed.body
        wait_for(lambda: out.read_text().split("\n") == ["10-run.sh m 0", "20-run m 0", "sourced m", "service", ""], what=out.read_text)
        assert i.client.ask("GET", "/v1/hello").body[8] & 1
        assert len(i.client.ask("GET", SANDBOX + "/execs").json()["execs"]) == 3  # their output can be read
        assert i.client.ask("POST", "/v1/claim", {}).error()[:2] == (409, "conflict")


def test_what_a_sourced_script_exports_is_everybodys(tmp_path):
    """Later scripts, services and commands have it, also as another user; what is not exported stays with the script."""
    out = tmp_path / "out"
    text = "export ADDED='two words\nand a line' MARK=changed PATH=$PATH:/opt/tool/bin EMPTY=\nPRIVATE=x; cd /usr; export LC_ALL=C\nsleep 1000 &\n"
    with image({"cay/init.d/10-env.sh": text, "cay/init.d/20-use": (0o755, SH + f'echo "$ADDED $MARK" > {out}; export LOST=1\n'),
                "cay/init.d/30-env.sh": "export MORE=$MARK-more; unset LC_ALL; export LC_ALL=D\n",
                "cay/services.d/s.conf": conf("s", f"sh -c 'echo service $MORE >> {out}; exec sleep 1000'", startsecs=0, user=0)},
               claim={"env": {"MARK": "m", "KEPT": "k"}, "user": "65534"}) as i:
        assert i.claimed.status == 204, i.claimed.body
        wait_for(lambda: out.read_text() == "two words\nand a line changed\nservice changed-more\n", what=out.read_text)
        env = dict(w.split("=", 1) for w in i.client.sh("tr '\\0' '\\1' </proc/self/environ").json()["stdout"].split("\1") if w)
        assert (env["ADDED"], env["MARK"], env["KEPT"], env["MORE"], env["EMPTY"], env["LC_ALL"]) == ("two words\nand a line", "changed", "k", "changed-more", "", "D")
        assert env["PATH"].endswith(":/opt/tool/bin") and env["HOME"] != "/root" and not {"PRIVATE", "LOST", "OLDPWD"} & set(env)
        assert i.client.sh("echo $MARK", env={"MARK": "own"}).json()["stdout"] == "own\n"


def test_too_many_exports_end_the_start():
    with image({"cay/init.d/a.sh": "i=0; while [ $i -lt 600 ]; do export V$i=1; i=$((i+1)); done\n"}) as i:
        assert failure(i.claimed) == (4, 0, 0, 0, "/etc/cay/init.d/a.sh", "it exports too many variables")


@pytest.mark.parametrize("name,content,want", [
    ("a.sh", (0o755, SH + "echo no; echo why >&2; exit 3"), (1, 0, 3, 0, "/etc/cay/init.d/a.sh", "why")),
    ("a.sh", "echo said\nfalse\necho not reached\n", (1, 0, 1, 0, "/etc/cay/init.d/a.sh", "said")),
    ("a", (0o755, SH + "printf 'a\\033[2J\\nb\\377'; kill -9 $$"), (2, 9, 0, 0, "/etc/cay/init.d/a", "a [2J b?")),
    ("a", (0o755, "#!/no/such\n"), (4, 0, 0, 0, "/etc/cay/init.d/a", "cannot execute '/etc/cay/init.d/a': No such file or directory"))])
def test_a_script_that_fails_ends_the_start(tmp_path, name, content, want):
    out = tmp_path / "out"
    with image({f"cay/init.d/{name}": content, "cay/init.d/z": (0o755, SH + f"touch {out}"),
                "cay/services.d/s.conf": conf("s", f"touch {out}")}) as i:
        assert failure(i.claimed) == want
        assert not i.client.ask("GET", "/v1/hello").body[8] & 1
        moment(0.1)
        assert not out.exists()  # neither the next script nor a service


LATER = {"Prefer": "respond-async"}


def test_who_can_ask_again_is_answered_at_once(tmp_path):
    """Whoever is alive answers the claim; how the start ended is asked for, also twice."""
    out = tmp_path / "out"
    with image({"cay/init.d/a": (0o755, SH + f"while [ ! -e {out} ]; do sleep 0.05; done")}, headers=LATER) as i:
        assert i.claimed.status == 202 and not i.claimed.body
        assert not i.client.ask("GET", "/v1/hello").body[8] & 1
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(i.client.path)
            s.sendall(b"GET /v1/start HTTP/1.1\r\nHost: x\r\n\r\n")  # there before what is asked next
            assert i.client.ask("GET", "/v1/start").error()[:2] == (409, "conflict")  # one waits at a time
            s.settimeout(0.2)
            with pytest.raises(TimeoutError):
                s.recv(1)
            out.touch()
            s.settimeout(60)
            assert s.recv(65536).startswith(b"HTTP/1.1 204 ")
        assert i.client.ask("GET", "/v1/start").status == 204 and i.client.ask("GET", "/v1/hello").body[8] & 1
    with image({"cay/init.d/a": (0o755, SH + "echo why; exit 3")}, headers=LATER) as i:
        assert i.claimed.status == 202
        for _ in range(2):
            assert failure(i.client.ask("GET", "/v1/start")) == (1, 0, 3, 0, "/etc/cay/init.d/a", "why")
    with image(headers=LATER) as i:  # nothing to run: there is nothing to wait for
        assert i.claimed.status == 204 and i.client.ask("GET", "/v1/start").status == 204


def test_who_waits_for_the_start_may_leave(tmp_path):
    out = tmp_path / "out"
    with image({"cay/init.d/a": (0o755, SH + f"while [ ! -e {out} ]; do sleep 0.05; done")}, headers=LATER) as i:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(i.client.path)
            s.sendall(b"GET /v1/start HTTP/1.1\r\nHost: x\r\n\r\n")
            moment(0.1)
        wait_for(lambda: i.client.ask("GET", "/v1/hello").status == 200)
        out.touch()
        wait_for(lambda: i.client.ask("GET", "/v1/start").status == 204)


def test_too_many_scripts_are_refused():
    with image({f"cay/init.d/{n:03}": (0o755, SH) for n in range(65)}) as i:
        assert failure(i.claimed) == (4, 0, 0, 0, "", "too many start scripts")


def test_what_a_script_starts_lives_on(tmp_path):
    go = tmp_path / "go"
    with image({"cay/init.d/a": (0o755, SH + f"(until [ -e {go} ]; do sleep 0.02; done; echo late; exec sleep 1000) &\necho first\n")}) as i:
        assert i.claimed.status == 204
        first, = i.client.ask("GET", SANDBOX + "/execs").json()["execs"]
        go.touch()
        assert i.client.output(first["id"]).read() == b"first\n"
        # it has written to a pipe that is nobody's by then
        wait_for(lambda: any(p["command"] == "sleep 1000" for p in i.client.ask("GET", SANDBOX + "/processes").json()["processes"]))


def test_nobody_waits_for_the_answer_and_it_goes_on(tmp_path):
    out = tmp_path / "out"
    with image() as other:
        assert other.claimed.status == 204
    top = {"cay/init.d/a": (0o755, SH + f"sleep 0.5; touch {out}")}
    with contextlib.ExitStack() as stack:
        impatient = threading.Event()
        real = Init.__init__

        def patched(self, *a, **k):
            real(self, *a, **k)
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.client.path)
            s.sendall(b"POST /v1/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            moment(0.1)
            s.close()
            impatient.set()
        Init.__init__ = patched
        try:
            i = stack.enter_context(image(top))
        finally:
            Init.__init__ = real
        assert i.claimed.error()[:2] == (409, "conflict")
        wait_for(lambda: i.client.ask("GET", "/v1/hello").body[8] & 1)
        assert out.exists()


# What it is like

def versions(claim, *who):
    """{name: row} of those that were asked.  They have two seconds between them, and a machine may stand still as long: not always."""
    for _ in range(3):
        with image(claim=claim) as i:
            t = time.monotonic()
            r = i.client.ask("GET", SANDBOX + "/info?versions=true")
            assert r.status == 200 and time.monotonic() - t < 20, r.body
            tools = {row["name"]: row for row in r.json()["tools"]}
            wait_for(lambda: i.groups() == [] and i.processes() == 0)
            assert i.client.ask("GET", SANDBOX + "/execs").json()["execs"] == []
        if all("version" in tools[name] for name in who):
            break
    return tools


def test_info(bare):
    r = bare.client.ask("GET", SANDBOX + "/info").json()
    assert (r["uid"], r["gid"], r["user"], r["home"], r["workspace"]) == (0, 0, "root", "/root", "/")
    assert r["os_id"] == "debian" and r["arch"] == os.uname().machine and os.uname().release in r["kernel"]
    tools = {t["name"]: t for t in r["tools"]}
    assert tools["python3"]["path"] == "/usr/bin/python3" and "version" not in tools["python3"] and "ruby" not in tools
    tools = versions({}, "python3", "bash")
    assert tools["python3"]["version"].startswith("Python 3.") and tools["bash"]["version"].startswith("GNU bash")


def test_versions_are_asked_for_once(tmp_path):
    tool, said = tmp_path / "git", tmp_path / "said"
    tool.write_text(f"#!/bin/sh\necho asked >> {said}\necho git version 1\n")
    tool.chmod(0o755)
    for _ in range(3):  # it may be too slow to be heard, and is asked again then
        said.unlink(missing_ok=True)
        with image(claim={"env": {"PATH": str(tmp_path)}}) as i:
            first, again = (i.client.ask("GET", SANDBOX + "/info?versions=true").json() for _ in range(2))
        if any("version" in t for t in first["tools"]):
            break
    assert {"name": "git", "path": str(tool), "version": "git version 1"} in first["tools"]
    assert first == again and said.read_text() == "asked\n"


def test_who_was_late_is_asked_again(tmp_path):
    tool, ready = tmp_path / "git", tmp_path / "ready"
    tool.write_text(f"#!/bin/sh\n[ -e {ready} ] || exec /bin/sleep 1000\necho git version 1\n")
    tool.chmod(0o755)
    with image(claim={"env": {"PATH": str(tmp_path)}}) as i:
        assert i.client.ask("GET", SANDBOX + "/info?versions=true").json()["tools"] == [{"name": "git", "path": str(tool)}]
        ready.touch()
        wait_for(lambda: "version" in i.client.ask("GET", SANDBOX + "/info?versions=true").json()["tools"][0])


def test_info_is_of_the_user():
    with image(claim={"user": "65534", "cwd": "/etc/not/there", "env": {"PATH": "/nowhere:/bin"}}) as i:
        r = i.client.ask("GET", SANDBOX + "/info").json()
        assert (r["uid"], r["user"], r["workspace"]) == (65534, "nobody", "/etc/not/there")
        assert all(t["path"].startswith("/bin/") for t in r["tools"])


def test_a_tool_that_hangs_is_not_waited_for(tmp_path):
    tool, quick = tmp_path / "git", tmp_path / "python3"
    tool.write_text("#!/bin/sh\nexec /bin/sleep 1000\n")
    quick.write_text("#!/bin/sh\necho Python 3.0\n")
    for f in (tool, quick):
        f.chmod(0o755)
    os.chmod(tmp_path, 0o755)
    tools = versions({"env": {"PATH": str(tmp_path)}}, "python3")
    assert tools["git"] == {"name": "git", "path": str(tool)} and tools["python3"]["version"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_health(bare, address):
    r = bare.client.ask("GET", SANDBOX + "/health").json()
    assert r["ok"] and r["uptime_ms"] < 60000 and "port" not in r
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        port = s.getsockname()[1]
        assert bare.client.ask("GET", f"{SANDBOX}/health?port={port}&timeout_ms=20000").json()["ok"]
    r = bare.client.ask("GET", f"{SANDBOX}/health?port={port}").json()
    assert not r["ok"] and r["port"] == port and r["detail"]
    assert bare.client.ask("GET", f"{SANDBOX}/health?port=0").status == 400


def test_signals_reach_a_service(bare):
    pid = put(bare, "x", "sleep 1000", stop_ms=200)["pid"]
    bare.client.run("/bin/kill", f"-{signal.SIGSTOP}", str(pid))
    assert do(bare, "x", "stop")["state"] == "stopped"  # stopped by the kernel, killed all the same
