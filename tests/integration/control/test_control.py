# SPDX-License-Identifier: Apache-2.0
"""cayd, cay-keeper and cay-init together, through the control socket."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import cay
import pytest
from cay import ApiError, wait_for
from conftest import tiny

RUNTIMES = ["crun", "runc"]


def refused(code, call, *args, **fields):
    with pytest.raises(ApiError) as e:
        call(*args, **fields)
    assert e.value.code == code, e.value
    return json.loads(e.value.body)["error"]


def networks():
    """Network namespaces somebody is in, but ours."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
    return sorted(found - {os.readlink("/proc/self/ns/net")})


def residue(c):
    """What there is of sandboxes on this machine."""
    return {
        "boxes": sorted(os.listdir(c.state / "boxes")),
        "ranges": sorted(os.listdir(c.state / "ranges")),
        "trash": sorted(os.listdir(c.state / "trash")),
        "sockets": sorted(set(os.listdir(c.run / "box")) - {"keeper.sock"}),
        "cgroups": sorted(d for at in c.cgroup_dirs() for d, _, _ in os.walk(at) if "/sb" in d),
        "processes": sorted(c.processes("/sb")),
        "mounts": [m for m in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if c.name in m and "/unpacked-" not in m],  # lib/unpacked.py lends images
        "networks": networks(),
    }


EMPTY = {k: [] for k in ("boxes", "ranges", "trash", "sockets", "cgroups", "processes", "mounts", "networks")}


def nothing_is_left(c):
    """At once, but for the worker that answered, which may still be in the cgroup or in a network, and for the trash."""
    wait_for("the last worker", lambda: not (left := residue(c))["processes"] and not left["networks"] and not left["trash"], 30)
    assert residue(c) == EMPTY


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_from_create_to_delete_nothing_is_left(daemon, runtime):
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().count("\n")
    name = daemon.create("tiny", runtime=runtime)
    assert daemon.get(name)["state"] == "running"
    done = daemon.exec(name, ["echo", "hi"])
    assert (done.text, done.exit_code) == ("hi\n", 0)
    assert pathlib.Path("/proc/self/mountinfo").read_text().count("\n") == mounts
    gone = daemon.delete(name)
    assert gone["state"] == "terminated" and gone["end"]["reason"] == "killed"
    assert daemon.get(name)["state"] == "terminated"
    nothing_is_left(daemon)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_a_command_finds_inside(daemon, runtime):
    name = daemon.create("tiny", runtime=runtime, env={"OVER": "request", "MORE": "x"})
    done = daemon.exec(name, ["sh", "-c", "id -u; pwd; echo $FROM $OVER $MORE; hostname; cat /proc/1/comm"])
    assert done.text.split("\n")[:5] == ["1000", "/workspace", "image request x", name, "init"]
    done = daemon.exec(name, ["sh", "-c", "id -u; touch /bin/new && echo written"], user="root")
    assert done.text == "0\nwritten\n"
    assert daemon.exec(name, ["touch", "/bin/other"]).exit_code != 0
    daemon.delete(name)


def test_each_sandbox_has_ids_of_its_own(daemon):
    names = [daemon.create("tiny") for _ in range(3)]
    maps = {daemon.exec(n, ["cat", "/proc/self/uid_map"]).text.split()[1] for n in names}
    assert len(maps) == 3 and all(int(m) >= 0x80000 and int(m) % 65536 == 0 for m in maps)
    for n in names:
        daemon.delete(n)


def test_one_network_is_not_another(daemon):
    """A listener on a low port, reached from its own sandbox and from no other."""
    a, b = daemon.create("tiny"), daemon.create("tiny")
    daemon.exec_detached(a, ["sh", "-c", "echo hello | nc -l -p 80"])
    wait_for("the listener", lambda: ":0050 " in daemon.exec(a, ["cat", "/proc/net/tcp", "/proc/net/tcp6"]).text, 30)
    assert daemon.exec(b, ["sh", "-c", "nc 127.0.0.1 80 </dev/null"]).exit_code != 0
    assert daemon.exec(a, ["sh", "-c", "nc 127.0.0.1 80 </dev/null"]).text == "hello\n"
    interfaces = daemon.exec(a, ["cat", "/proc/net/dev"]).text.splitlines()[2:]
    assert [i.split(":")[0].strip() for i in interfaces] == ["lo"]
    daemon.delete(a)
    daemon.delete(b)


def test_memory_is_limited_and_pid_1_survives(daemon):
    name = daemon.create("tiny", limits={"memory_bytes": "32Mi"})
    done = daemon.exec(name, ["sh", "-c", "x=0123456789abcdef; for i in $(seq 24); do x=$x$x; done"], timeout_s=60)
    assert done.end["reason"] in ("signal", "oom") and done.end.get("signal", "SIGKILL") == "SIGKILL", done.end
    assert daemon.exec(name, ["echo", "alive"]).text == "alive\n"
    daemon.delete(name)


def test_processes_are_limited(daemon):
    name = daemon.create("tiny", limits={"pids": 16})
    done = daemon.exec(name, ["sh", "-c", "for i in $(seq 40); do sleep 5 & done; ps | grep -c 'sleep 5'"], timeout_s=20)
    assert "can't fork" in done.stderr.decode(), done
    assert len(daemon.processes(name)) <= 16
    daemon.delete(name)


def test_cpu_is_limited(daemon):
    name = daemon.create("tiny", limits={"cpu_milli": 100})
    [quota] = {(at / d / name / f).read_text().split()[0] for at in daemon.cgroup_dirs()
               for d in os.listdir(at) if (at / d / name).is_dir()
               for f in ("cpu.cfs_quota_us", "cpu.max") if (at / d / name / f).exists()}
    assert quota == "10000"
    daemon.delete(name)


def test_names(daemon):
    name = daemon.create("tiny", name="one")
    assert daemon.create("tiny", name="one") == name and daemon.create("tiny", name="one", app_port=9000) == name
    assert refused("conflict", daemon.create, "tiny", name="one", app_port=3000)["field"] == "name"
    daemon.delete(name)
    again = daemon.create("tiny", name="one")
    assert again != name
    daemon.delete(again)


def test_what_cannot_be_is_refused_by_name(daemon):
    assert refused("not_found", daemon.create, "nothing")["field"] == "image"
    assert refused("invalid_argument", daemon.create, "tiny", limits={"pids": 1})["field"] == "limits.pids"
    assert refused("invalid_argument", daemon.create, "tiny", privileged=True)["field"] == "privileged"
    assert refused("unsupported", daemon.create, "tiny", runtime="docker")["field"] == "runtime"
    refused("not_found", daemon.get, "sb0000000000000000000000tr")
    refused("not_found", daemon.delete, "sb0000000000000000000000tr")
    refused("not_found", daemon.exec, "sb0000000000000000000000tr", ["true"])
    refused("not_found", daemon.call, "GET", "/v1/hello")
    refused("not_found", daemon.call, "POST", "/v1/claim", {})


def test_nothing_runs_in_one_that_ended(daemon):
    name = daemon.create("tiny")
    daemon.delete(name)
    refused("wrong_state", daemon.exec, name, ["true"])
    assert daemon.delete(name)["state"] == "terminated"


def test_a_list_has_pages(daemon):
    names = [daemon.create("tiny", labels={"page": str(i)}) for i in range(5)]
    seen, cursor = [], ""
    while True:
        page = daemon.call("GET", f"/v1/sandboxes?limit=2{cursor}")
        assert len(page["sandboxes"]) <= 2
        seen += [s["id"] for s in page["sandboxes"]]
        if "next_cursor" not in page:
            break
        cursor = "&cursor=" + page["next_cursor"]
    assert [s for s in seen if s in names] == names[::-1]
    assert refused("invalid_argument", daemon.call, "GET", "/v1/sandboxes?cursor=nonsense")["field"] == "cursor"
    for n in names:
        daemon.delete(n)


def test_many_at_once(daemon):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: daemon.create("tiny"), range(40)))
        texts = list(pool.map(lambda n: daemon.exec(n, ["hostname"]).text.strip(), names))
        assert texts == names
        list(pool.map(daemon.delete, names))
    nothing_is_left(daemon)


def test_a_client_that_leaves_does_not_stop_the_work(daemon):
    def leave():
        body = b'{"image":"tiny","name":"left"}'
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(daemon.socket)
            s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
                      + str(len(body)).encode() + b"\r\n\r\n" + body)

    def there():
        rows = daemon.call("GET", "/v1/sandboxes")["sandboxes"]
        return any(r.get("name") == "left" and r["state"] == "running" for r in rows)
    leave()
    with contextlib.suppress(TimeoutError):
        wait_for("the sandbox", there, 20)
    if not there():
        leave()  # a cayd that stood still for a second gives up, for five, on who is gone when it reads
        wait_for("the sandbox", there, 30)
    daemon.delete(daemon.create("tiny", name="left"))


def test_delete_while_it_starts(daemon):
    for _ in range(20):
        made = daemon.call("POST", "/v1/sandboxes", {"image": "tiny", "wait": False})
        assert made["state"] == "pending"
        assert daemon.delete(made["id"])["state"] in ("terminated", "failed")
    nothing_is_left(daemon)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_no_user_namespace_is_made_inside(daemon, runtime):
    """PID 1 may call clone3(), whose flags no filter sees; who takes it over has no more of it."""
    name = daemon.create("tiny", runtime=runtime)
    pid = str(daemon.pid_1(name))
    inside = ["nsenter", "--user", "--target", pid]
    assert subprocess.run([*inside, "true"]).returncode == 0
    made = subprocess.run([*inside, "unshare", "--user", "true"], capture_output=True, text=True)
    assert made.returncode != 0 and "No space left" in made.stderr, made
    assert subprocess.run(["unshare", "--user", "true"]).returncode == 0  # only there
    daemon.delete(name)


def test_whatever_cgroups_a_sandbox_makes_are_removed(daemon):
    """Its own are named as it likes, and as deep as it may."""
    name = daemon.create("tiny")
    top = next(pathlib.Path(d) for at in daemon.cgroup_dirs() for d, _, files in os.walk(at)
               if d.endswith(name) and "cgroup.max.depth" in files)
    at = top
    with pytest.raises(OSError):
        for _ in range(20):
            at /= ".hidden"
            at.mkdir()
    assert (top / ".hidden" / ".hidden").is_dir()
    daemon.call("DELETE", f"/v1/sandboxes/{name}", timeout_s=30)
    nothing_is_left(daemon)


def test_an_image_imported_by_digest_has_it(daemon):
    """A name with a digest is a promise; what the archive holds decides."""
    archive = cay.layout([cay.file("hello", b"by digest", 0o755)])
    digest = daemon.image_import("plain-name", archive)["digest"]
    assert daemon.image_import(f"registry.example/a@{digest}", archive)["digest"] == digest
    error = refused("invalid_argument", daemon.image_import, "registry.example/a@sha256:" + "0" * 64, archive)
    assert digest in str(error)
    assert "0" * 64 not in str(daemon.call("GET", "/v1/images"))


def test_images(daemon):
    first = daemon.image_import("again", cay.layout([cay.file("a", b"1")]))
    assert daemon.image_import("again", cay.layout([cay.file("a", b"1")]))["id"] == first["id"]
    second = daemon.image_import("again", cay.layout([cay.file("a", b"2")]))
    assert second["digest"] != first["digest"]
    rows = daemon.call("GET", "/v1/images")["images"]
    assert [r["id"] for r in rows if r.get("name") == "again"] == [second["id"]]
    name = daemon.create(second["digest"])
    refused("wrong_state", daemon.call, "DELETE", f"/v1/images/{second['id']}")
    daemon.delete(name)
    for i in (first, second):
        assert daemon.call("DELETE", f"/v1/images/{i['id']}")["id"] == i["id"]
    refused("not_found", daemon.call, "GET", f"/v1/images/{first['id']}")
    refused("invalid_argument", daemon.image_import, "bad", b"not a tar")
    for tmp in ("images/tmp", "tmp"):
        wait_for(f"nothing in {tmp}", lambda tmp=tmp: os.listdir(daemon.state / tmp) == [], 30)


def test_an_upload_that_stops_leaves_nothing(daemon):
    s = socket.socket(socket.AF_UNIX)
    s.connect(daemon.socket)
    s.sendall(b"POST /v1/images?name=half HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
              b"Content-Length: 1000000\r\n\r\n" + b"x" * 300000)
    s.close()
    fds = f"/proc/{daemon.pids()['cayd']}/fd"

    def uploads():
        for f in os.listdir(fds):
            with contextlib.suppress(OSError):
                if f"{daemon.state}/tmp/" in os.readlink(f"{fds}/{f}"):
                    yield f
    wait_for("the file's end", lambda: not list(uploads()), 30)
    assert daemon.call("GET", "/v1/health")["status"] == "ok"


def test_the_sockets_are_for_their_owners(daemon):
    for path, mode, uid in ((daemon.run / "control.sock", 0o600, cay.CONTROL_UID),
                            (daemon.run / "edge", 0o750, cay.CONTROL_UID),
                            (daemon.run / "edge/control.sock", 0o660, cay.CONTROL_UID),
                            (daemon.run / "box/keeper.sock", 0o600, cay.CONTROL_UID), (daemon.state / "boxes", 0o700, 0),
                            (daemon.state / "images", 0o700, 0), (daemon.state / "db", 0o700, cay.CONTROL_UID)):
        st = os.stat(path)
        assert (st.st_mode & 0o777, st.st_uid) == (mode, uid), path


def test_the_keeper_takes_nobody_else(daemon):
    path = daemon.run / "box/keeper.sock"
    script = ("import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(30); "
              f"s.connect('{path}'); print(s.recv(1))")

    def connect():
        return subprocess.run(["python3", "-c", script], user=64999, group=64999, extra_groups=[], capture_output=True)

    r = connect()
    assert r.returncode != 0 and b"PermissionError" in r.stderr
    path.chmod(0o666)  # the second wall, alone
    try:
        assert connect().stdout == b"b''\n"
    finally:
        path.chmod(0o600)


def test_a_keeper_that_dies_comes_back_and_sandboxes_do_not_notice(own):
    name = own.create("tiny")
    counting = own.exec_detached(name, ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"])
    own.kill_daemon("cay-keeper")
    assert own.exec(name, ["echo", "still here"]).text == "still here\n"
    # one that was accepted before it was noticed waits for the next keeper
    wait_for("the end of the link", lambda: "lost the connection to cay-keeper" in own.log("cayd"), 30)
    refused("unavailable", own.create, "tiny")
    own.start_keeper()
    wait_for("the link", lambda: "connected to cay-keeper again" in own.log("cayd"), 30)
    other = own.create("tiny")
    before = own.exec_output(name, counting)
    wait_for("the count to go on", lambda: len(own.exec_output(name, counting)) > len(before), 30)
    own.delete(name)
    own.delete(other)
    nothing_is_left(own)


def test_without_a_keeper_what_needs_it_is_refused_at_once(own):
    """And a delete is carried out when it is back; the log has a line a minute, not five a second."""
    box = own.create("tiny")
    own.kill_daemon("cay-keeper")
    wait_for("the end of the link", lambda: "lost the connection to cay-keeper" in own.log("cayd"), 30)
    for _ in range(2):
        said = refused("unavailable", own.call, "DELETE", f"/v1/sandboxes/{box}", timeout_s=30)
        assert said["retryable"] and "removed as soon as it runs again" in said["message"]
    assert own.get(box)["state"] == "ending"
    refused("unavailable", own.image_import, "other", tiny())
    cay.let_pass(1.5)
    assert sum("cay-keeper" in line for line in own.log("cayd").splitlines()) <= 3, own.log("cayd")
    own.start_keeper()
    wait_for("its end", lambda: own.get(box)["state"] == "terminated", 30)
    assert own.get(box)["end"]["reason"] == "killed"
    nothing_is_left(own)


def test_a_delete_under_way_when_the_keeper_goes_is_not_left_waiting(own):
    """A restart of the keeper is waited for, ten seconds; more is not."""
    box = own.create("tiny")
    own.daemons["cay-keeper"].send_signal(signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(own.call, "DELETE", f"/v1/sandboxes/{box}", timeout_s=120)
        wait_for("it to be under way", lambda: own.get(box)["state"] == "ending", 30)
        own.kill_daemon("cay-keeper")
        with pytest.raises(ApiError) as e:
            waiting.result()
    assert e.value.status == 503, e.value
    own.start_keeper()
    wait_for("its end", lambda: own.get(box)["state"] == "terminated", 30)
    nothing_is_left(own)


def test_a_keeper_that_is_slow_to_greet_holds_nobody_up(own):
    """One that was started again may have ten thousand sandboxes to look at before it answers."""
    name = own.create("tiny")
    own.kill_daemon("cay-keeper")
    wait_for("the end of the link", lambda: "lost the connection to cay-keeper" in own.log("cayd"), 30)
    path = own.run / "box/keeper.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        path.unlink()
        silent.bind(str(path))
        os.chown(path, cay.CONTROL_UID, cay.CONTROL_UID)
        silent.listen(64)
        silent.settimeout(30)
        with silent.accept()[0] as link:
            assert link.recv(4096), "its hello"
            took, end = [], time.monotonic() + 2
            while time.monotonic() < end:
                began = time.monotonic()
                own.call("GET", f"/v1/sandboxes/{name}")
                took.append(time.monotonic() - began)
            assert sum(t > 0.1 for t in took) < 3, sorted(took)[-10:]
            refused("unavailable", own.create, "tiny")
    path.unlink()
    own.start_keeper()
    wait_for("the link", lambda: "connected to cay-keeper again" in own.log("cayd"), 30)
    own.delete(name)
    nothing_is_left(own)


def test_two_keepers_clients_one_is_fenced(own):
    """Another cayd takes the keeper over: the first one's calls fail from then on.  What the
    other finds is not in its journal, so it leaves it alone."""
    name = own.create("tiny")
    pid = own.pid_1(name)
    own.daemons["first"] = own.daemons.pop("cayd")
    own.logs["first"] = own.logs["cayd"]
    own.daemons["first"].send_signal(signal.SIGSTOP)  # 200 ms after it notices it takes the keeper back from who is still starting
    state = own.state.with_name(own.state.name + "-other")
    for d in ("db", "secret", "tmp", "audit", "uploads"):
        (state / d).mkdir(parents=True)
        os.chown(state / d, cay.CONTROL_UID, cay.CONTROL_UID)
    own.env["CAY_PATHS_STATE"] = str(state)
    try:
        own.start_cayd()
        own.daemons["first"].send_signal(signal.SIGCONT)
        wait_for("the first to notice", lambda: "lost the connection to cay-keeper" in own.log("first"), 30)
        own.daemons["first"].kill()  # so that the keeper stays whose it is
        own.daemons["first"].wait()
        wait_for("the other to have it", lambda: own.open("GET", "/v1/fsck").status == 200, 30)
        assert [f["kind"] for f in own.call("GET", "/v1/fsck")["findings"]] == ["foreign"]
        assert own.pid_1(name) == pid
    finally:
        for d in ("first", "cayd"):
            own.daemons[d].kill()
            own.daemons[d].wait()
        shutil.rmtree(state)
        own.env["CAY_PATHS_STATE"] = str(own.state)
    own.start_cayd()
    assert own.get(name)["state"] == "running"
    own.delete(name)
    nothing_is_left(own)


def test_one_journal_has_one_cayd(own):
    second = subprocess.run([str(own.programs["cayd"])], env=own.env, user=cay.CONTROL_UID, group=cay.CONTROL_UID,
                            extra_groups=[], stderr=subprocess.PIPE, text=True, timeout=20)
    assert second.returncode != 0 and "another" in second.stderr
    own.delete(own.create("tiny"))


def stop(c, timeout_s):
    """SIGTERM, as systemd does; its status."""
    c.daemons["cayd"].terminate()
    return c.daemons["cayd"].wait(timeout_s)


def test_stopping_leaves_sandboxes_as_they_are(own):
    box = own.create("tiny")
    pid = own.pid_1(box)
    assert stop(own, 30) == 0
    assert own.pid_1(box) == pid
    own.start_cayd()
    assert own.get(box)["state"] == "running"


def with_config(c):
    """cayd, started with a file of settings."""
    conf, script = c.run / "cay.conf", c.run / "cayd"
    conf.write_text("")
    script.write_text(f"#!/bin/sh\nexec {c.programs['cayd']} --config {conf}\n")
    script.chmod(0o755)
    c.programs["cayd"] = script
    c.kill_daemon("cayd")
    c.start_cayd()
    return conf


def test_a_drained_node_has_none(own):
    """The settings are looked at when it is stopped: nobody restarts a node to drain it."""
    conf = with_config(own)
    deaf = own.create("tiny")
    own.exec_detached(deaf, ["sh", "-c", "trap '' TERM INT HUP; while :; do :; done"])
    still = own.create("tiny")
    own.call("POST", f"/v1/sandboxes/{still}/pause")
    gone = own.create("tiny")
    own.delete(gone)
    conf.write_text("[control]\ndrain = yes\n")
    late = own.call("POST", "/v1/sandboxes", {"image": "tiny", "wait": False})["id"]
    assert stop(own, 60) == 0
    nothing_is_left(own)
    own.start_cayd()
    for box in (deaf, still, late):
        got = own.get(box)
        assert got["state"] == "terminated"
        assert got["end"]["reason"] == "evicted" and got["end"]["detail"] == "the node is drained"
    assert own.get(gone)["end"]["reason"] == "killed"


def test_a_drain_keeps_stopped_sandboxes(own):
    conf = with_config(own)
    box, other = own.create("tiny"), own.create("tiny")
    assert own.exec(box, ["sh", "-c", "echo here >me"]).exit_code == 0
    own.call("POST", f"/v1/sandboxes/{box}/stop")
    conf.write_text("[control]\ndrain = yes\n")
    assert stop(own, 60) == 0
    conf.write_text("[control]\ndrain = no\n")
    own.start_cayd()
    assert own.get(other)["end"]["detail"] == "the node is drained" and own.get(box)["state"] == "stopped"
    own.call("POST", f"/v1/sandboxes/{box}/start")
    assert own.exec(box, ["cat", "me"]).text == "here\n"
    own.delete(box)


def test_a_drain_that_cannot_go_on_is_cut_short_and_taken_up_again(own):
    box = own.create("tiny")
    own.env["CAY_CONTROL_DRAIN"] = "yes"
    own.kill_daemon("cayd")
    own.start_cayd()
    own.kill_daemon("cay-keeper")
    with pytest.raises(subprocess.TimeoutExpired):
        stop(own, 1)
    wait_for("the drain", lambda: "ending 1 sandboxes" in own.log("cayd"), 30)  # or the two signals are one
    assert own.pid_1(box)
    assert stop(own, 15) == 0
    own.start()
    wait_for("the removal", lambda: own.get(box)["state"] == "terminated", 30)
    assert own.get(box)["end"]["reason"] == "evicted"
    nothing_is_left(own)
