# SPDX-License-Identifier: Apache-2.0
"""Services and start scripts of an image, on both runtimes, through control and the command line."""
import contextlib
import json
import os
import pathlib
import signal
import time

import cay
import pytest
from test_cli_real import run  # noqa: F401 pylint: disable=unused-import

NAMES = ("display", "manager", "panel", "viewer", "web")
BUSYBOX = pathlib.Path("/bin/busybox").read_bytes()


def image(files, shell=True):
    """Like tiny, with these files: name -> text, or (mode, text)."""
    tree = [cay.directory("bin"), cay.file("bin/busybox", BUSYBOX, 0o755), cay.directory("etc"), cay.directory("tmp", 0o1777),
            cay.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"), cay.file("etc/group", b"root:x:0:\nuser:x:1000:\n"),
            cay.file("etc/os-release", b'NAME=Tiny\nID=tiny\nPRETTY_NAME="Tiny \\"1\\""\nVERSION_ID=1\n')]
    links = ("echo", "cat", "sleep", "kill", "df", "id", "date", "touch", "ls") + (("sh",) if shell else ())
    tree += [cay.entry(f"bin/{n}", cay.tarfile.SYMTYPE, link="busybox") for n in links]
    made = {"bin", "etc", "tmp"}
    for name, content in files.items():
        for parent in reversed(pathlib.PurePath(name).parents[:-1]):
            if str(parent) not in made:
                tree.append(cay.directory(str(parent)))
                made.add(str(parent))
        mode, text = content if isinstance(content, tuple) else (0o644, content)
        tree.append(cay.file(name, text.encode(), mode))
    return cay.layout(tree, {"User": "user", "WorkingDir": "/", "Env": ["PATH=/bin"]})


def conf(name, command, **more):
    return f"[program:{name}]\ncommand={command}\n" + "".join(f"{k}={v}\n" for k, v in more.items())


def services(d, box):
    return d.call("GET", f"/v1/sandboxes/{box}/services")["services"]


def service(d, box, name):
    return d.call("GET", f"/v1/sandboxes/{box}/services/{name}")


def answers(d, box, port):
    return d.call("GET", f"/v1/sandboxes/{box}/health?port={port}")["ok"]


@pytest.mark.alone
@pytest.mark.parametrize("runtime", ("crun", "runc"))
def test_one_of_a_desktops_size(daemon, runtime):
    """2 GiB of /dev/shm, 1,024 processes, five services in order, each back within a second."""
    daemon.image_import("desktop", image({
        f"etc/supervisor/conf.d/{n}.conf": conf(n, f"/bin/busybox httpd -f -v -p 127.0.0.1:{8000 + k}", priority=100 * (k + 1),
                                                autorestart="true", startsecs=1 if k < 2 else 0) for k, n in enumerate(NAMES)}))
    box = daemon.create("desktop", runtime=runtime, limits={"shm_bytes": "2Gi", "memory_bytes": "3Gi", "pids": 1024})
    rows = services(daemon, box)
    assert [r["name"] for r in rows] == list(NAMES) and {r["state"] for r in rows} == {"running"}  # all of it, when create answers
    for before, after in zip(rows, rows[1:]):
        assert before["last_transition_at"] <= after["started_at"]  # each was up when the next began
    for k in range(5):  # executed is not yet bound
        cay.wait_for("it to listen", lambda: answers(daemon, box, 8000 + k), 30)
    assert "2097152" in daemon.exec(box, ["df", "-k", "/dev/shm"]).text
    took = []
    for k, name in enumerate(NAMES):
        old = service(daemon, box, name)["pid"]
        assert daemon.exec(box, ["kill", "-9", str(old)]).exit_code == 0
        begin = time.monotonic()
        cay.wait_for(name + " again", lambda: service(daemon, box, name).get("pid", old) != old, 20)
        took.append(time.monotonic() - begin)
        cay.wait_for(name + " answers", lambda: answers(daemon, box, 8000 + k), 30)
    assert sorted(took)[3] < 1, took  # but for one: the machine may stand still
    assert [r["starts"] for r in services(daemon, box)] == [2] * 5
    daemon.delete(box)


@pytest.mark.parametrize("runtime", ("crun", "runc"))
def test_scripts_then_services_then_the_entrypoint(daemon, runtime):
    say = "echo %s $(id -u) $WORD >> /tmp/order; sleep 0.1\n"
    daemon.image_import("ordered", image({
        "etc/cay/init.d/10-a.sh": (0o755, "#!/bin/sh\n" + say % "a"), "etc/cay/init.d/20-b.sh": say % "b", "etc/cay/init.d/README": "no",
        "docker-entrypoint.d/05-c": (0o755, "#!/bin/sh\n" + say % "c" + "id -u; touch /tmp/made; echo 1 > /tmp/order.d"),
        "etc/cay/services.d/s.conf": conf("s", "sh -c 'echo s $(id -u) $WORD; while :; do sleep 1; done'", startsecs=1)}))
    box = daemon.create("ordered", runtime=runtime, env={"WORD": "w"}, entrypoint=["sh", "-c", "cat /tmp/order; echo entry; sleep 1000"])
    assert daemon.exec(box, ["cat", "/tmp/order"]).text == "a 0 w\nb 0 w\nc 0 w\n"
    s = service(daemon, box, "s")
    assert s["state"] == "running"
    cay.wait_for("its word", lambda: daemon.open("GET", f"/v1/sandboxes/{box}/services/s/log").read() == b"s 1000 w\n", 30)
    cay.wait_for("its entry", lambda: "entry" in daemon.get(box), 30)
    entry = daemon.get(box)["entry"]
    cay.wait_for("its output", lambda: daemon.exec_output(box, entry) == b"a 0 w\nb 0 w\nc 0 w\nentry\n", 20)
    execs = {e["id"]: e["started_at"] for e in daemon.call("GET", f"/v1/sandboxes/{box}/execs")["execs"]}
    assert s["last_transition_at"] <= execs[entry] and len([at for at in execs.values() if at <= s["started_at"]]) == 3
    info = daemon.call("GET", f"/v1/sandboxes/{box}/info")
    assert (info["user"], info["uid"], info["os"], info["os_id"]) == ("user", 1000, 'Tiny "1"', "tiny")
    assert {t["name"]: t["path"] for t in info["tools"]} == {"sh": "/bin/sh"}
    daemon.delete(box)


BAD = {
    "status": ({"etc/cay/init.d/10-db.sh": (0o755, "#!/bin/sh\necho table; echo no such table >&2; exit 3\n")},
               "start script /etc/cay/init.d/10-db.sh exited with 3: no such table"),
    "sourced": ({"docker-entrypoint.d/x.sh": "echo hm\nfalse\necho not here\n"}, "start script /docker-entrypoint.d/x.sh exited with 1: hm"),
    "signal": ({"etc/cay/init.d/x": (0o755, "#!/bin/sh\nkill -9 $$\n")}, "start script /etc/cay/init.d/x was killed by SIGKILL"),
    "text": ({"etc/cay/init.d/x": (0o755, "#!/bin/sh\nprintf 'a\\033]0;b\\n'; exit 1\n")}, "start script /etc/cay/init.d/x exited with 1: a ]0;b"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_script_that_fails_ends_the_create(daemon, name):
    files, why = BAD[name]
    daemon.image_import("bad-" + name, image(files))
    with pytest.raises(cay.ApiError) as e:
        daemon.create("bad-" + name, name="bad-" + name)
    told = json.loads(e.value.body)["error"]
    assert (e.value.status, told["code"], told["message"], told["retryable"]) == (422, "start_failed", why, False)
    row, = [s for s in daemon.call("GET", f"/v1/sandboxes?name=bad-{name}")["sandboxes"]]
    cay.wait_for("its end", lambda: daemon.get(row["id"])["state"] == "failed", 30)
    end = daemon.get(row["id"])["end"]
    assert end["reason"] == "start_failed" and end["detail"] == why


def test_a_script_for_a_shell_that_is_not_there(daemon):
    daemon.image_import("shellless", image({"etc/cay/init.d/x.sh": "true\n"}, shell=False))
    with pytest.raises(cay.ApiError) as e:
        daemon.create("shellless")
    assert e.value.code == "start_failed" and "/etc/cay/init.d/x.sh could not be run" in str(e.value) and "shell" in str(e.value)


def test_a_script_may_take_longer_than_an_answer(daemon):
    """A PID 1 that says nothing is given up after 10 s; one that says it has begun is not."""
    daemon.image_import("long-start", image({"etc/cay/init.d/x": (0o755, "#!/bin/sh\nsleep 11\n")}))
    box = daemon.create("long-start")
    assert daemon.get(box)["state"] == "running" and daemon.exec(box, ["echo", "hi"]).text == "hi\n"
    daemon.delete(box)


def test_a_delete_does_not_wait_for_a_script(daemon):
    daemon.image_import("slow-start", image({"etc/cay/init.d/x": (0o755, "#!/bin/sh\nsleep 50\n")}))
    box = daemon.create("slow-start", wait=False)
    cay.wait_for("the script", lambda: daemon.processes(box), 30)
    daemon.delete(box)
    assert daemon.get(box)["end"]["reason"] == "killed"


def asleep(c, box):
    """The `sleep`s of its script, by their pids here."""
    found = []
    for pid in c.processes(box):
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0" b"4816"):
                found.append(pid)
    return found


def runs(c, box):
    """Whether it does.  Its script goes on when it is woken, so that nobody can come too late to see it; that of another generation, too."""
    for pid in asleep(c, box):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return c.get(box)["state"] == "running"


def test_who_comes_back_while_a_script_runs(own):
    """Nobody takes a sandbox for usable whose scripts have not run."""
    own.image_import("slow", image({"etc/cay/init.d/x": (0o755, "#!/bin/sh\nsleep 48161; echo done > /tmp/done\n")}))
    box = own.create("slow", wait=False)
    cay.wait_for("its script", lambda: asleep(own, box), 30)
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.get(box)["state"] == "pending"
    cay.wait_for("it to run", lambda: runs(own, box), 30)
    assert own.exec(box, ["cat", "/tmp/done"]).text == "done\n"
    own.delete(box)


SLEEP = {"name": "s", "command": "sleep 1000"}


def test_a_create_brings_its_own(own):
    """In place of its template's, with its variables; a restart of control does not forget them before they run."""
    own.image_import("own", image({"etc/cay/services.d/a.conf": conf("web", "sleep 1001")}))
    t = own.call("POST", "/v1/templates", {"name": "kind", "defaults": {"image": "own", "services": [SLEEP]}, "pool": {"min": 1}})
    assert t["defaults"]["services"][0]["name"] == "s"
    box = own.call("POST", "/v1/sandboxes", {"template": "kind"})["id"]
    assert [(s["name"], s["state"]) for s in services(own, box)] == [("s", "running"), ("web", "running")]
    cay.wait_for("a warm one", lambda: own.call("GET", f"/v1/templates/{t['id']}")["pool_now"]["warm"] == 1, 20)
    mine = [{"name": "web", "argv": ["sh", "-c", "echo $A; exec sleep 1000"], "priority": 7, "autorestart": "always"}]
    claimed = own.call("POST", "/v1/sandboxes", {"template": "kind", "env": {"A": "hi"}, "services": mine})["id"]
    row, = services(own, claimed)  # a warm one has none of its template's
    assert (row["name"], row["priority"], row["source"], row["autorestart"]) == ("web", 7, "api", "always")
    cay.wait_for("its word", lambda: own.open("GET", f"/v1/sandboxes/{claimed}/services/web/log").read() == b"hi\n", 30)
    own.image_import("slow-own", image({"etc/cay/init.d/x": (0o755, "#!/bin/sh\nsleep 48162; true\n")}))
    late = own.create("slow-own", wait=False, services=mine)
    cay.wait_for("its script", lambda: asleep(own, late), 30)
    own.kill_daemon("cayd")
    own.start_cayd()
    cay.wait_for("it to run", lambda: runs(own, late), 30)
    assert [s["name"] for s in services(own, late)] == ["web"]
    for b in (box, claimed, late):
        own.delete(b)


def test_as_much_as_can_be_asked_for_is_read_back(own):
    """What is kept has more values than the request; a row that is not read is a sandbox nobody owns."""
    many = [{"name": f"s{k}", "argv": ["true"] + ["x"] * 31, "autostart": False} for k in range(64)]
    box = own.create("tiny", services=many, labels={f"l{k}": "x" for k in range(64)}, entrypoint=["sh", "-c", "sleep 1000"] + ["x"] * 250,
                     env={f"E{k}": "x" for k in range(256)})
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.get(box)["state"] == "running" and len(services(own, box)) == 64
    own.delete(box)


BAD_SERVICES = {
    "name": [{"name": "../x", "command": "x"}], "twice": [SLEEP, SLEEP], "both": [{**SLEEP, "argv": ["x"]}], "neither": [{"name": "x"}],
    "many": [{"name": f"s{k}", "command": "x"} for k in range(65)], "large": [{"name": f"s{k}", "command": "x" * 30000} for k in range(3)],
    "words": [{"name": f"s{k}", "argv": ["x"] * 40} for k in range(64)],
}


@pytest.mark.parametrize("name", BAD_SERVICES)
def test_services_that_make_no_sense(daemon, name):
    """Refused by name before anything is made for them."""
    spec = {"image": "tiny", "services": BAD_SERVICES[name]}
    for target, body, field in (("/v1/sandboxes", spec, "services"), ("/v1/templates", {"name": "bad", "defaults": spec}, "defaults.services")):
        with pytest.raises(cay.ApiError) as e:
            daemon.call("POST", target, body)
        told = json.loads(e.value.body)["error"]
        if name == "large" and field == "services":
            assert (e.value.status, told["code"]) == (413, "too_large")
        else:
            assert (e.value.status, told["code"], told["field"]) == (400, "invalid_argument", field)


def test_what_only_pid_1_sees_fails_the_start(daemon):
    with pytest.raises(cay.ApiError) as e:
        daemon.create("tiny", services=[{"name": "x", "command": "'open"}])
    assert e.value.code == "start_failed" and "service 'x': " in json.loads(e.value.body)["error"]["message"]


def test_by_the_command_line(own, run):  # noqa: F811
    own.image_import("cli", image({"etc/cay/services.d/a.conf": conf("a", "sleep 1000") + conf("bad", "x", priority="no")}))
    box = run("create", "--name", "b", "cli").strip()
    lines = run("service", "ls", "b").splitlines()
    assert lines[0].split() == ["NAME", "STATE", "FOR", "PID", "STARTS", "PRIORITY", "ERROR"]
    assert lines[1].split()[:2] == ["a", "running"] and lines[2].split()[:2] == ["bad", "fatal"] and "a.conf:5: priority" in lines[2]
    assert run("service", "add", "--priority", "5", "--setenv", "A=1", "b", "web", "--", "sh", "-c", "echo $A; exec sleep 1000") == "running\n"
    cay.wait_for("its log", lambda: run("service", "logs", "b", "web") == "1\n", 20)
    assert run("service", "restart", "b", "web") == "running\n"
    cay.wait_for("its log", lambda: run("service", "logs", "b", "web") == "1\n1\n", 20)
    assert run("service", "logs", "--offset", "2", "b", "web") == "1\n"
    tail = run.start("service", "logs", "-f", "b", "web")
    assert tail.stdout.readline() == "1\n"
    assert run("service", "stop", "b", "web") == "stopped\n" and run("service", "start", "b", "web") == "running\n"
    assert [tail.stdout.readline() for _ in range(2)] == ["1\n"] * 2
    assert "fatal" in run("service", "add", "--retries", "0", "b", "no", "--", "/no/such", status=5)
    assert "invalid name" in run("service", "stop", "b", "../x", status=2)
    run("service", "rm", "b", "web")
    assert tail.wait(30) in (0, 4) and [s["name"] for s in services(own, box)] == ["a", "bad", "no"]
    assert json.loads(run("service", "ls", "--json", "b"))["services"][0]["name"] == "a"
    assert "Tiny" in run("info", "b") and run("ping", "b").startswith("ok, ")
    assert "port 1: " in run("ping", "--port", "1", "b", status=8)
    own.image_import("bad", image(BAD["status"][0]))
    assert "no such table" in run("create", "--name", "z", "bad", status=7)
    why = run("why", "z")
    assert "start_failed" in why and "10-db.sh exited with 3: no such table" in why
    run("rm", "b")
