# SPDX-License-Identifier: Apache-2.0
"""The command line against a daemon that behaves"""
import contextlib
import datetime
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import tarfile
import threading
import time

import pytest

import fake as fake_daemon
from fake import DATA, FRAMES, GAP, end_frame, frame

ID = r"(sb|ex|im)[0-9a-z]{24}"


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        pause.wait(0.01)


def test_create_prints_the_id_and_sends_the_options(daemon, cay):
    r = cay("create", "--name", "crawler", "--label", "team=blue", "--label", "a=b", "--env", "X=", "--env", "Y=b=c", "--memory=1Gi",
            "--cpu", "500m", "--pids", "99", "--nofile", "1024", "--disk", "1.5Gi", "--inodes", "5000", "--shm", "2Gi",
            "--output-size", "1Mi", "--storage", "memory", "--writable", "/workspace,/tmp", "--runtime", "runc", "--timezone", "Asia/Shanghai", "base")
    assert r.returncode == 0, r.stderr
    assert re.fullmatch(ID + "\n", r.stdout)
    assert daemon.created == {
        "image": "base", "name": "crawler", "labels": {"team": "blue", "a": "b"}, "env": {"X": "", "Y": "b=c"},
        "limits": {"memory_bytes": 1 << 30, "cpu_milli": 500, "pids": 99, "nofile": 1024, "disk_bytes": 3 << 29,
                   "disk_inodes": 5000, "shm_bytes": 2 << 30, "output_bytes": 1 << 20},
        "storage": "memory", "writable": ["/workspace", "/tmp"], "runtime": "runc", "timezone": "Asia/Shanghai", "wait": True, "public_ports": False}


def test_a_command_needs_no_dashes(daemon, cay):
    """What users of docker type first; the words after the command's first are its own, whatever they look like."""
    daemon.add(name="mine")
    command = ["echo", "-r", "--help", "x", "--", "y"]
    for args in ["mine"], ["-u", "root", "mine"], ["mine", "-u", "root"], ["mine", "--"], ["mine", "-uroot", "--"]:
        r = cay("exec", *args, *command)
        assert (r.returncode, r.stdout) == (0, "-r --help x -- y\n"), r.stderr
        assert daemon.last.request["argv"] == command and daemon.last.request.get("user") == ("root" if "root" in "".join(args) else None)
    assert cay("run", "base", "echo", "-n", "hi").stdout == "hi"
    assert daemon.created["image"] == "base"
    assert cay("run", "--memory", "1Gi", "base", "echo", "hi").stdout == "hi\n"
    assert daemon.created["limits"] == {"memory_bytes": 1 << 30}
    for args in ["exec", "mine"], ["exec", "mine", "--"], ["run", "base"], ["exec", "mine", "-i"]:
        r = cay(*args)
        assert r.returncode == 2 and "missing command" in r.stderr, r.stderr
    r = cay("run", "--template", "py", "echo", "hi")
    assert r.returncode == 2 and "'--' before the command" in r.stderr
    assert "SANDBOX [--] COMMAND" in cay("exec", "mine", "--help").stdout


def test_a_person_is_told_when_a_new_sandbox_expires(daemon, cay, monkeypatch):
    add, day = daemon.add, datetime.timedelta(days=1, seconds=5)
    monkeypatch.setattr(daemon, "add", lambda **f: add(**f, expires_at=(datetime.datetime.now(datetime.UTC) + day).strftime("%Y-%m-%dT%H:%M:%S.000Z")))
    r = cay("create", "base")
    assert r.returncode == 0 and r.stderr == ""  # no terminal, so a program reads it
    ours, theirs = os.openpty()
    r = cay("create", "base", stderr=theirs)
    os.close(theirs)
    told = os.read(ours, 4096).decode()
    os.close(ours)
    assert r.returncode == 0 and re.fullmatch(ID + "\n", r.stdout)
    assert told == "cay: it expires in 24 h; 'cay extend' prolongs it\r\n"


def test_create_asks_for_packages(daemon, cay):
    assert cay("create", "--python", "pandas=2.2.3", "--node", "typescript=", "--r", "jsonlite=1.8.9", "--r", "R6=", "base").returncode == 0
    assert daemon.created["packages"] == {"python": {"pandas": "2.2.3"}, "node": {"typescript": ""}, "r": {"jsonlite": "1.8.9", "R6": ""}}
    r = cay("create", "--r", "jsonlite", "base")
    assert r.returncode == 2 and "--r" in r.stderr


def test_create_without_options_leaves_the_rest_to_the_server(daemon, cay):
    assert cay("create", "base").returncode == 0
    assert daemon.created == {"image": "base", "labels": {}, "env": {}, "wait": True, "public_ports": False}


def test_create_by_template(daemon, cay):
    assert cay("create", "--template", "py", "--pids", "9", "--runtime", "crun").returncode == 0
    assert daemon.created == {"template": "py", "labels": {}, "env": {}, "wait": True, "public_ports": False, "limits": {"pids": 9}, "runtime": "crun"}
    for args in ["create"], ["create", "--template", "py", "base"], ["run", "--", "true"]:
        r = cay(*args)
        assert r.returncode == 2 and "expected either IMAGE or --template" in r.stderr


def test_create_as_json_is_one_line(daemon, cay):
    r = cay("create", "--json", "base")
    assert r.stdout.count("\n") == 1 and json.loads(r.stdout)["image"] == "base"


def test_a_failure_is_told_with_its_hint_and_exit_status(daemon, cay):
    r = cay("create", "nothing")
    assert r.returncode == 4
    assert r.stderr == "cay: there is no image 'nothing'\n  hint: a hint\n"


def test_ls_aligns_every_page(daemon, cay):
    boxes = [daemon.add(name=f"n{'x' * i}") for i in range(7)]
    r = cay("ls")
    lines = r.stdout.splitlines()
    assert lines[0].split() == ["ID", "NAME", "IMAGE", "STATE", "AGE", "EXPIRES"]
    assert [line.split()[0] for line in lines[1:]] == [b["id"] for b in boxes]
    assert len({line.index("running") for line in lines[1:]}) == 1
    assert len([q for q in daemon.requests if q[0] == "GET"]) == 4


def test_ls_as_json_is_one_object(daemon, cay):
    for i in range(5):
        daemon.add(name=f"n{i}")
    r = cay("ls", "--json")
    assert [b["name"] for b in json.loads(r.stdout)["sandboxes"]] == [f"n{i}" for i in range(5)]


def test_ls_shows_what_there_is_and_all_what_there_was(daemon, cay):
    live = daemon.add(name="live")
    gone = daemon.add(name="gone", state="terminated", end={"reason": "killed"})
    for args, want in ([], [live]), (["--all"], [live, gone]), (["-a", "--json"], [live, gone]), (["--json"], [live]):
        r = cay("ls", *args)
        assert r.returncode == 0 and [b["id"] for b in (live, gone) if b["id"] in r.stdout] == [b["id"] for b in want]


def test_ls_asks_for_what_it_shows(daemon, cay):
    for args, want in ([], {"state": "live"}), (["-a"], {}), (["--state", "failed"], {"state": "failed"}), (
            ["--group", "g/1", "--label", "team=blue"], {"state": "live", "group": "g/1", "label": "team=blue"}):
        daemon.requests.clear()
        assert cay("ls", *args).returncode == 0
        assert daemon.requests[0][2] == {"limit": "100", **want}
    for args in ["--state", "flying"], ["--all", "--state", "failed"]:
        assert cay("ls", *args).returncode == 2
    assert "(use pending|running|" in cay("ls", "--state", "flying").stderr


def test_ls_says_what_is_left(daemon, cay):
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=59, seconds=30)
    daemon.add(name="dies", expires_at=soon.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
    daemon.add(name="stays")
    lines = {line.split()[1]: line for line in cay("ls").stdout.splitlines()}
    assert lines["dies"].endswith("  in 59 min") and lines["stays"].endswith("  -")


def test_half_a_command_names_the_others(cay):
    r = cay("image")
    assert r.returncode == 2 and "cay image pull, cay image ls, cay image import" in r.stderr


def test_rm_takes_names_and_ids_and_goes_on_after_a_failure(daemon, cay):
    a, b = daemon.add(name="one"), daemon.add()
    r = cay("rm", "one", "nobody", b["id"])
    assert r.returncode == 4 and "nobody" in r.stderr
    assert not daemon.sandboxes and a


def test_rm_all(daemon, cay):
    for _ in range(5):
        daemon.add()
    assert cay("rm", "--all").returncode == 0 and not daemon.sandboxes
    assert cay("rm").returncode == 2


@pytest.mark.parametrize("code", [0, 1, 42, 126, 255])
def test_the_exit_code_is_passed_on(daemon, cay, code):
    box = daemon.add()
    assert cay("exec", box["id"], "--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["TERM", "KILL", "USR1", "ABRT"])
def test_a_signal_is_128_and_its_number(daemon, cay, name):
    box = daemon.add()
    r = cay("exec", box["id"], "--", "sh", "-c", f"kill -{name} $$")
    assert r.returncode == 128 + getattr(signal, "SIG" + name)


def test_a_timeout_is_124_and_said(daemon, cay):
    box = daemon.add()
    r = cay("exec", "-T", "1s", box["id"], "--", "sleep", "60")
    assert r.returncode == 124 and re.fullmatch(r"cay: ended after \d+ s: timeout\n", r.stderr), r.stderr


def test_streams_stay_apart_and_options_arrive(daemon, cay):
    daemon.add(name="box")
    r = cay("exec", "-e", "A=1", "-eB=2", "box", "--", "sh", "-c", "echo $A; echo $B >&2")
    assert (r.stdout, r.stderr) == ("1\n", "2\n")
    r = cay("exec", "-u", "7", "-w", "/tmp", "-d", "box", "--", "true", "-x", "--", "y")
    assert re.fullmatch(ID + "\n", r.stdout)
    wanted = {"argv": ["true", "-x", "--", "y"], "user": "7", "cwd": "/tmp", "detach": True}
    assert wanted.items() <= daemon.last.request.items()


def test_dev_null_needs_no_second_connection(daemon, cay):
    box = daemon.add()
    assert cay("exec", box["id"], "--", "true").returncode == 0
    assert daemon.last.request["stdin_open"] is False
    assert len(daemon.requests) == 1


def test_standard_input_arrives_whole(daemon, cay):
    box, data = daemon.add(), random.randbytes(8 << 20)
    r = cay("exec", box["id"], "--", "sha256sum", data=data)
    assert r.stdout.split()[0] == hashlib.sha256(data).hexdigest()


def test_standard_input_past_the_limit_of_one_body(daemon, cay):
    box, piece = daemon.add(), bytes(1 << 20)
    p = cay.start("exec", box["id"], "--", "wc", "-c", stdin=subprocess.PIPE)
    for _ in range(70):
        p.stdin.write(piece)
    out, err = p.communicate(timeout=60)
    assert int(out) == 70 << 20, err
    assert len([q for q in daemon.requests if q[1].endswith("/stdin")]) == 3


def test_a_command_that_does_not_read_is_no_failure(daemon, cay):
    box = daemon.add()
    r = cay("exec", box["id"], "--", "sh", "-c", "exec <&-; echo fine", data=bytes(4 << 20))
    assert (r.returncode, r.stdout, r.stderr) == (0, "fine\n", "")


def test_what_goes_in_comes_out_while_both_are_under_way(daemon, cay):
    box = daemon.add()
    p = cay.start("exec", box["id"], "--", "cat", stdin=subprocess.PIPE)
    for i in range(20):
        p.stdin.write(b"line %d\n" % i)
        p.stdin.flush()
        assert p.stdout.readline() == b"line %d\n" % i
    p.stdin.close()
    assert p.wait(30) == 0


@pytest.mark.parametrize("cut", [70000, 123457, 1000003])
def test_a_broken_stream_goes_on_by_offset(daemon, cay, cut, tmp_path):
    box, data = daemon.add(), random.randbytes(3 << 20)
    (tmp_path / "data").write_bytes(data)
    daemon.cut = cut
    r = cay("exec", box["id"], "--", "sh", "-c", f"cat {tmp_path}/data; echo done >&2; exit 3", text=False)
    assert (r.returncode, r.stderr) == (3, "done\n")
    assert hashlib.sha256(r.stdout).digest() == hashlib.sha256(data).digest()
    assert len([q for q in daemon.requests if q[1].endswith("/output")]) > 2


def test_a_stream_that_only_breaks_is_given_up(daemon, cay):
    box = daemon.add()
    daemon.cut = 1
    r = cay("exec", box["id"], "--", "echo", "hi")
    assert r.returncode == 8 and "broke 6 times" in r.stderr and daemon.last.id in r.stderr


def test_lost_bytes_are_counted(daemon, cay):
    box, e = daemon.add(), fake_daemon.new_id("ex")
    frames = (frame(DATA, 1, 0, b"a") + frame(GAP, 1, 1, (500).to_bytes(8, "little")) + frame(DATA, 1, 501, b"b") +
              end_frame(reason="exit", exit_code=5))
    daemon.say["POST", "/v1/sandboxes/*/execs"] = fake_daemon.head(
        200, FRAMES, len(frames), [f"Cay-Exec: {e}"]) + frames
    r = cay("exec", box["id"], "--", "x")
    assert (r.returncode, r.stdout, r.stderr) == (5, "ab", "cay: 500 bytes of stdout were lost\n")


def test_ctrl_c_goes_to_the_command(daemon, cay):
    box = daemon.add()
    p = cay.start("exec", box["id"], "--", "sh", "-c", "trap 'echo caught; exit 9' INT; echo up; sleep 60 >&- 2>&- & wait")
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGINT)
    assert p.stdout.readline() == b"caught\n"
    assert p.wait(30) == 9


def ctrl_c_twice(daemon, p):
    """The first is passed on, the second within a second quits; where the machine stood still between them it was
    another first one, so they are tried again."""
    def passed_on():
        return sum(q[1].endswith("/signal") for q in daemon.requests)
    for _ in range(5):
        before = passed_on()
        p.send_signal(signal.SIGINT)
        wait_for(lambda: passed_on() > before or p.poll() is not None)
        p.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return p.wait(6)
    raise AssertionError("it does not quit")


def test_ctrl_c_twice_quits_and_leaves_the_command(daemon, cay):
    box = daemon.add()
    p = cay.start("exec", box["id"], "--", "sh", "-c", "trap '' INT; echo up; sleep 60")
    assert p.stdout.readline() == b"up\n"
    assert ctrl_c_twice(daemon, p) == 130
    assert daemon.last.process.poll() is None


def test_ctrl_c_before_the_command_is_known_still_arrives(daemon, cay):
    box, daemon.hold = daemon.add(), threading.Event()
    p = cay.start("exec", box["id"], "--", "sleep", "60")
    wait_for(lambda: daemon.requests)
    p.send_signal(signal.SIGINT)
    daemon.hold.set()
    assert p.wait(30) == 130
    assert daemon.last.process.wait(30) == -signal.SIGINT


def test_a_terminal_is_not_forwarded_unless_asked(daemon, cay):
    box = daemon.add()
    ours, theirs = os.openpty()
    p = cay.start("exec", box["id"], "--", "cat", stdin=theirs)
    assert p.wait(30) == 0 and daemon.last.request["stdin_open"] is False
    p = cay.start("exec", "-i", box["id"], "--", "head", "-1", stdin=theirs)
    os.write(ours, b"typed\n")
    assert p.stdout.readline() == b"typed\n" and p.wait(30) == 0
    os.close(ours)
    os.close(theirs)


def test_import_draws_a_bar_on_a_terminal(daemon, cay, tmp_path):
    (tmp_path / "some.tar").write_bytes(bytes(1 << 20))
    ours, theirs = os.openpty()
    p = subprocess.Popen([cay.program, "image", "import", str(tmp_path / "some.tar")], stdout=subprocess.PIPE,
                         stderr=theirs, env={**os.environ, "CAY_SOCKET": daemon.path})
    out = p.communicate(timeout=60)[0]
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # EIO: that was all of it, which one read() need not have
        while True:
            seen += os.read(ours, 65536)
    os.close(ours)
    assert re.fullmatch(ID + "\n", out.decode())
    assert b"] " in seen and b" %  " in seen and b" of 1.0 MiB" in seen and seen.endswith(b"unpacking\r\x1b[K")


def test_a_reader_that_leaves_ends_the_command(daemon, cay):
    box = daemon.add()
    p = cay.start("exec", box["id"], "--", "yes")
    assert p.stdout.readline() == b"y\n"
    p.stdout.close()
    assert p.wait(30) == 128 + signal.SIGPIPE
    assert daemon.last.process.wait(30) == -signal.SIGPIPE


def test_a_stalled_reader_costs_no_memory(daemon, cay):
    box = daemon.add()
    p = cay.start("exec", box["id"], "--", "yes")
    assert p.stdout.readline() == b"y\n"
    seen = -1

    def still():
        nonlocal seen
        before, seen = seen, len(daemon.last.out[1])
        return before == seen
    wait_for(lambda: still() and not threading.Event().wait(0.2) and still())
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", open(f"/proc/{p.pid}/status").read())[1])
    assert os.environ.get("CAY_SANITIZED") or peak < 8192
    p.send_signal(signal.SIGINT)
    p.stdout.read()
    assert p.wait(30) == 130


def test_run_makes_and_removes(daemon, cay):
    r = cay("run", "--env", "A=1", "-e", "B=2", "base", "--", "sh", "-c", "echo $B; exit 4")
    assert (r.returncode, r.stdout, r.stderr) == (4, "2\n", "")
    assert not daemon.sandboxes and daemon.created["env"] == {"A": "1"}
    assert [q[0] for q in daemon.requests] == ["POST", "POST", "DELETE"]


def test_run_keeps_when_asked(daemon, cay):
    r = cay("run", "--keep", "base", "--", "true")
    assert r.returncode == 0 and r.stderr == f"cay: kept {[*daemon.sandboxes][0]}\n"


def test_run_removes_after_ctrl_c(daemon, cay):
    p = cay.start("run", "base", "--", "sh", "-c", "echo up; exec sleep 60")
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130 and not daemon.sandboxes


def test_run_removes_after_two_ctrl_c(daemon, cay):
    p = cay.start("run", "base", "--", "sh", "-c", "trap '' INT; echo up; sleep 60")
    assert p.stdout.readline() == b"up\n"
    assert ctrl_c_twice(daemon, p) == 130 and not daemon.sandboxes


def test_run_removes_after_a_failure(daemon, cay):
    daemon.say["POST", "/v1/sandboxes/*/execs"] = fake_daemon.failure(400, "invalid_argument", "no such user 'x'")
    r = cay("run", "-u", "x", "base", "--", "true")
    assert r.returncode == 2 and r.stderr.startswith("cay: no such user 'x'\n") and not daemon.sandboxes


def test_run_does_not_take_over_a_name(daemon, cay):
    daemon.add(name="mine")
    r = cay("run", "--name", "mine", "base", "--", "true")
    assert r.returncode == 5 and daemon.sandboxes


@pytest.fixture
def layout(tmp_path):
    d = tmp_path / "pic"
    (d / "blobs/sha256").mkdir(parents=True)
    (d / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (d / "index.json").write_text("{}")
    for n in (0, 1, 511, 512, 513, 300000):
        data = random.randbytes(n)
        (d / "blobs/sha256" / hashlib.sha256(data).hexdigest()).write_bytes(data)
    (d / "stray").write_text("not sent")
    return d


def test_import_of_a_directory_is_a_tar_that_is_always_the_same(daemon, cay, layout, tmp_path):
    r = cay("image", "import", str(layout))
    assert r.returncode == 0, r.stderr
    first = daemon.imported
    assert cay("image", "import", "--name", "other", str(layout) + "/").returncode == 0
    assert daemon.imported == first
    assert sorted(i["name"] for i in daemon.images.values()) == ["other", "pic"]
    (tmp_path / "x.tar").write_bytes(first)
    with tarfile.open(tmp_path / "x.tar") as t:
        names = t.getnames()
        assert names == sorted(names) and "stray" not in names and len(names) == 8
        for m in t:
            assert t.extractfile(m).read() == (layout / m.name).read_bytes()
            assert (m.uid, m.gid, m.mtime, m.mode) == (0, 0, 0, 0o644)


def test_import_of_a_tar_and_of_standard_input(daemon, cay, tmp_path):
    (tmp_path / "some.tar").write_bytes(b"whatever" * 50000)
    r = cay("image", "import", str(tmp_path / "some.tar"))
    assert r.returncode == 0 and daemon.imported == b"whatever" * 50000
    assert r.stderr == "sending 390.6 KiB\nunpacking\n"
    assert cay("image", "import", "--name", "x", "-", data=b"abc" * 99999).returncode == 0
    assert daemon.imported == b"abc" * 99999
    assert cay("image", "import", "-").returncode == 2


@pytest.mark.parametrize("what", ["blobs/sha256/link", "index.json", "blobs/sha256", "fifo"])
def test_import_refuses_links_and_oddities(daemon, cay, layout, what):
    if what == "fifo":
        os.mkfifo(layout / "blobs/sha256/fifo")
    else:
        subprocess.run(["rm", "-rf", layout / what], check=True)
        (layout / what).symlink_to("/etc")
    r = cay("image", "import", str(layout))
    assert r.returncode == 2 and not daemon.requests


def test_import_that_is_refused_early_says_why(daemon, cay, tmp_path):
    def refuse(c, f):
        c.sendall(fake_daemon.failure(413, "too_large", "larger than this node takes"))
    daemon.say["POST", "/v1/images"] = refuse
    with open(tmp_path / "big.tar", "wb") as f:
        f.truncate(200 << 20)
    r = cay("image", "import", str(tmp_path / "big.tar"))
    assert r.returncode == 2 and "cay: larger than this node takes\n" in r.stderr


def test_image_ls_and_rm(daemon, cay, layout):
    cay("image", "import", str(layout))
    r = cay("image", "ls")
    assert r.stdout.split()[:5] == ["ID", "NAME", "SIZE", "AGE", "DIGEST"] and "pic" in r.stdout
    assert cay("image", "rm", "pic").returncode == 0 and not daemon.images
    assert cay("image", "rm", "pic").returncode == 4


def test_doctor_works_with_and_without_a_daemon(daemon, cay):
    r = cay("doctor", "--json")
    checks = {c["name"]: c for c in json.loads(r.stdout)["checks"]}
    assert checks["daemon"]["verdict"] == "OK" and len(checks) >= 20
    assert "passes its probes" in checks["crun"]["found"] and checks["runc"]["verdict"] == "FAIL"
    assert r.returncode == any(c["verdict"] == "FAIL" for c in checks.values())
    daemon.path = "/nowhere/control.sock"
    r = cay("doctor")
    assert re.search(r"^WARN +daemon .*start cayd", r.stdout, re.M)


def test_bench_measures(daemon, cay):
    r = cay("bench", "--n", "3", "--json")
    assert r.returncode == 0, r.stderr
    got = json.loads(r.stdout)
    assert got["n"] == 3 and not daemon.sandboxes
    for step in ("create_to_output", "exec", "delete"):
        assert 0 < got[step]["min_us"] <= got[step]["p50_us"] <= got[step]["p99_us"]
    assert cay("bench", "--n", "2").stdout.splitlines()[0].split() == ["STEP", "MIN", "P50", "P99"]


def test_version_and_help(daemon, cay):
    assert re.fullmatch(r"cay \S+\ncayd 0.1.0\n", cay("version").stdout)
    assert "usage: cay exec" in cay("exec", "--help").stdout
    assert cay("help", "image", "ls").stdout.startswith("usage: cay image ls")
    assert cay().returncode == 2
    r = cay("crate")
    assert r.returncode == 2 and "did you mean 'cay create'?" in r.stderr
    r = cay("create", "--memor", "1")
    assert r.returncode == 2 and "did you mean --memory?" in r.stderr
