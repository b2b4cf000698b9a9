# SPDX-License-Identifier: Apache-2.0
"""What is told of an exec is what happened: status, signals, users, setup, limits."""
import base64
import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import threading

import pytest

from client import END, FRAMES, SANDBOX, SSE, events, frames
from conftest import FULL, SANITIZED, wait_for


def test_hello_is_32_bytes(init):
    r = init.client.ask("GET", "/v1/hello")
    assert r.status == 200 and len(r.body) == 32 and r.body[:4] == b"CAYH"


def test_hello_says_whether_there_is_work(init):
    """What clients started and has not ended; neither the main program, nor a service, nor an idle shell."""
    c = init.client

    def no_work():
        return bool(c.ask("GET", "/v1/hello").body[8] & 8)

    assert no_work()
    assert start_entry(c, "/bin/sleep", "1000").status == 200
    shell = c.ask("POST", SANDBOX + "/shells", {}).json()["id"]
    assert no_work()
    job = c.ask("POST", SANDBOX + "/execs", {"argv": ["/bin/sleep", "1000"], "detach": True}).json()["id"]
    assert not no_work()
    c.ask("POST", f"{SANDBOX}/execs/{job}/signal", {"signal": "SIGKILL"})
    wait_for(no_work)
    assert c.ask("POST", f"{SANDBOX}/shells/{shell}/runs", {"command": "sleep 1000", "detach": True}).status in (200, 201, 202)
    assert not no_work()
    c.ask("DELETE", f"{SANDBOX}/shells/{shell}")
    wait_for(no_work)


def start_entry(c, *argv):
    return c.ask("POST", "/v1/enter", {"argv": argv})


@pytest.mark.parametrize("line,said", [("exit 7", b"CAYE\x02\0\x07\0"), ("kill -9 $$", b"CAYE\x02\x09\0\0")])
def test_the_main_program_is_started_once_and_not_forgotten(init, line, said):
    c = init.client
    assert c.run("true").status == 200  # any other command is none
    assert c.ask("GET", "/v1/entry").error()[:2] == (404, "not_found")
    assert c.ask("GET", "/v1/hello").body[8] & 2 == 0
    assert start_entry(c, "/no/such").status == 400 and c.ask("GET", "/v1/entry").status == 404
    first = start_entry(c, "/bin/sh", "-c", "read x </dev/null; while [ ! -e /tmp/go ]; do sleep 0.02; done; " + line)
    assert first.status == 200 and len(first.body) == 32 and first.body[:8] == b"CAYE\x01\0\0\0"
    assert start_entry(c, "/bin/echo", "another").body == first.body == c.ask("GET", "/v1/entry").body
    assert c.ask("GET", "/v1/hello").body[8] & 2
    assert c.ask("DELETE", "/v1/entry").status == 405
    c.sh("touch /tmp/go")
    wait_for(lambda: c.ask("GET", "/v1/entry").body[4] == 2)
    for _ in range(257):
        c.run("true")
    assert c.ask("GET", "/v1/entry").body[:8] == said
    assert start_entry(c, "/bin/echo", "another").body[:8] == said
    c.sh("rm /tmp/go")


def test_every_exit_code_is_exact(init):
    for code in range(256):
        end = init.client.run("/bin/sh", "-c", f"exit {code}").json()["end"]
        assert set(end.pop("used")) == {"cpu_ms", "memory_peak_bytes", "read_bytes", "write_bytes"}
        assert end == {"reason": "exit", "exit_code": code, "inferred": False, "blame": "task", "retryable": False}


def test_every_fatal_signal_is_exact(init):
    quiet = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGSTOP, signal.SIGTSTP,
             signal.SIGTTIN, signal.SIGTTOU}
    for n in range(1, 65):
        if n in quiet:
            continue
        end = init.client.run("/usr/bin/python3", "-c", f"import os; os.kill(os.getpid(), {n})").json()["end"]
        name = f"SIGRTMIN+{n - 32}" if n >= 32 else "SIG" + {29: "IO"}.get(n, signal.Signals(n).name[3:])
        if n == 2 or n == 13 or n == 25:  # python has its own ideas about these
            continue
        assert end.pop("used")
        assert end == {"reason": "signal", "signal": name, "inferred": False, "blame": "task", "retryable": False}, n


def test_output_of_both_streams_is_told(init):
    r = init.client.sh("echo out; echo err >&2; exit 5")
    e = r.json()
    assert r.headers["Cay-Exec"] == e["id"]
    assert (e["stdout"], e["stderr"], e["stdout_bytes"], e["stderr_bytes"]) == ("out\n", "err\n", 4, 4)
    assert e["end"]["exit_code"] == 5 and e["state"] == "ended"


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00ab", b"\xc3\xa9\n", b"a\0b", b"\xe2\x82", b"\x01" * 50, b""])
def test_any_bytes_survive_every_form(init, raw):
    script = "import os; os.write(1, bytes.fromhex('%s'))" % raw.hex()
    e = init.client.run("/usr/bin/python3", "-c", script).json()
    got = base64.b64decode(e["stdout_b64"]) if "stdout_b64" in e else e["stdout"].encode()
    assert got == raw and e["stdout_offset"] == 0
    _, r = init.client.stream("/usr/bin/python3", "-c", script)
    all_frames = list(frames(r))
    assert b"".join(f[3] for f in all_frames[:-1]) == raw and all_frames[-1][0] == END
    _, r = init.client.stream("/usr/bin/python3", "-c", script, form=SSE)
    parts = list(events(r))
    assert parts[-1][0] == "end"
    assert b"".join(base64.b64decode(d["b64"]) if "b64" in d else d["t"].encode() for _, d in parts[:-1]) == raw


def test_sse_does_not_tear_letters(init):
    script = "import os,select\nfor b in 'h\u00e9\u20ac\U0001F600'.encode(): os.write(1, bytes([b])); select.select([],[],[],0.005)"
    _, r = init.client.stream("/usr/bin/python3", "-c", script, form=SSE)
    parts = list(events(r))
    assert all("t" in d for _, d in parts[:-1])
    assert "".join(d["t"] for _, d in parts[:-1]) == "h\u00e9\u20ac\U0001F600"


def test_a_long_output_is_told_by_its_last_four_mebibytes(init):
    for n, kept in (3000000, 3000004), (9000000, 4 << 20):
        e = init.client.sh(f"head -c {n} /dev/zero | tr '\\0' x; echo END").json()
        assert e["stdout_bytes"] == n + 4 and len(e["stdout"]) == kept
        assert e["stdout_offset"] == n + 4 - kept and e["stdout"].endswith("xEND\n")


def test_two_outputs_that_grow_in_json_fit_a_reply(init):
    """Line ends have two bytes in JSON, bytes that are no text four for three, some characters six."""
    both = "head -c 4194304 /dev/zero | tr '\\0' '\\%s' | tee /dev/stderr"
    e = init.client.sh(both % "n").json()
    assert e["stdout"] == e["stderr"] == "\n" * (4 << 20)
    e = init.client.sh(both % "377").json()
    assert base64.b64decode(e["stdout_b64"]) == base64.b64decode(e["stderr_b64"]) == b"\xff" * (4 << 20)
    unit = "\\a" + "\\n" * 7
    e = init.client.sh(f"yes '' | head -n 524288 | sed 's/$/{unit}/' | head -c 4194304 | tr -d '\\r' | tee /dev/stderr").json()
    assert len(e["stdout"]) == len(e["stderr"]) == 4 << 20 and e["stdout"].count("\a") > 400000


def test_a_large_part_can_be_asked_for(init):
    e = init.client.sh("head -c 3000000 /dev/zero | tr '\\0' x", max_output=2500000, keep="both").json()
    assert (len(e["stdout"]), len(e["stdout_tail"]), e["stdout_cut_bytes"]) == (1250000, 1250000, 500000)
    assert init.client.sh("true", max_output=(4 << 20) + 1).error() == (400, "invalid_argument", "max_output")


# A script whose parts a shell could tell from one it got whole, and what goes before and after its filler.
SCRIPTS = {
    "parameters": ("", 'echo "$0" $# "$1" "$2"'),
    "lines": ("echo $LINENO\n", "echo $LINENO\nnosuchcommand\necho $?\n"),
    "input": ("read first\n", 'read second; echo "$first-$second"; cat'),
    "status": ("", "exit 7"),
    "last status": ("", "(exit 3)\n"),
    "errexit": ("set -e\n", "false\necho not here"),
    "exit trap": ("trap 'echo bye $?' EXIT\n", "(exit 4)"),
    "heredoc": ("wc -c <<'END'\n", "END\n"),
    "unterminated heredoc": ("wc -c <<'END'\n", ""),
    "no such syntax": ("echo begun\n", "if\n"),
    "open files": ("", "ls /proc/self/fd | wc -l"),
    "letters": ("x='", "'; printf '%s' \"$x\" | cksum"),
    "return": ("", "return 3\necho further"),
}


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_longer_than_an_argument_is_as_in_a_file(init, tmp_path, shell, name):
    """Linux takes 128 KiB in one argument: what the same shell does with the same script from a file is what is expected."""
    head, tail = SCRIPTS[name]
    line = "\u20ac" * 20 + "\n" if name in ("letters", "heredoc", "unterminated heredoc") else "# filler '\" $( `\n"
    script = head + line * (900_000 // len(line.encode())) + tail
    (tmp_path / "script").write_text(script)
    words, given = ["zero", "first one", "two"], "a\nb\nc\nd\n"
    want = subprocess.run([shell, tmp_path / "script", *words[1:]], input=given, capture_output=True, text=True)
    e = init.client.run(shell, "-c", script, *words, stdin=given).json()
    own = str(tmp_path / "script")
    assert e["end"]["exit_code"] == want.returncode
    assert e["stdout"] == want.stdout.replace(own, "zero")
    assert len(e["stderr"].splitlines()) == len(want.stderr.splitlines())
    for got, line in zip(e["stderr"].splitlines(), want.stderr.replace(own, "zero").splitlines()):
        assert got.replace("eval: ", "").replace("-c: ", "") == line
    if shell == "sh":
        alone = init.client.run(shell=script, stdin=given).json()
        assert alone["end"]["exit_code"] == want.returncode
        assert name == "parameters" or alone["stdout"] == e["stdout"]


def test_what_is_no_script_has_the_limit_of_the_kernel(init):
    r = init.client.run("echo", "x" * 131072)
    assert r.error() == (413, "too_large", "argv") and "PUT .../files/content" in r.json()["error"]["message"] and "stdin" in r.json()["error"]["message"]
    assert len(init.client.run("echo", "x" * 131071).json()["stdout"]) == 131072
    assert init.client.run("bash", "-c", 'echo "${#1}"', "bash", "x" * 131072).error()[0] == 413


def test_large_requests_do_not_fill_memory(init):
    """PID 1 gathers a body before it runs it: what has not come whole is bounded, and small ones go on."""
    body, began, refused = json.dumps({"shell": "true", "stdin": "x" * (1 << 20)}).encode(), [], 0
    for _ in range(60):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30)
        s.connect(init.client.path)
        s.sendall(f"POST {SANDBOX}/execs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            s.sendall(body[:-1])
        began.append(s)
    for s in began:
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            refused += s.recv(4096).startswith(b"HTTP/1.1 429 ")
    assert refused >= 20
    assert init.client.sh("echo small").json()["stdout"] == "small\n"
    for s in began:
        s.close()
    wait_for(lambda: init.client.run("wc", "-c", stdin="x" * (1 << 20)).status == 200)


def test_setup_failures_are_typed(init):
    c = init.client
    cases = [
        ({"argv": ["/nonexistent"]}, (400, "invalid_argument", "argv"), "No such file"),
        ({"argv": ["nonexistent"]}, (400, "invalid_argument", "argv"), "No such file"),
        ({"argv": ["/etc/passwd"]}, (400, "invalid_argument", "argv"), "Permission denied"),
        ({"argv": [""]}, (400, "invalid_argument", "argv"), "name is empty"),
        ({"argv": ["true"], "cwd": "/nonexistent"}, (400, "invalid_argument", "cwd"), "No such file"),
        ({"argv": ["true"], "cwd": "/etc/passwd"}, (400, "invalid_argument", "cwd"), "Not a directory"),
        ({"argv": ["true"], "cwd": "/root", "user": "nobody"}, (400, "invalid_argument", "cwd"), "Permission denied"),
        ({"argv": ["true"], "user": "nosuch"}, (400, "invalid_argument", "user"), "no such user 'nosuch' in /etc/passwd"),
        ({"argv": ["true"], "user": "root:nosuch"}, (400, "invalid_argument", "user"), "no such group"),
        ({"argv": ["true"], "user": "4294967295"}, (400, "invalid_argument", "user"), "no such user"),
        ({}, (400, "invalid_argument", "argv"), "one of"),
        ({"argv": ["true"], "shell": "true"}, (400, "invalid_argument", "argv"), "one of"),
        ({"argv": ["true"], "frob": 1}, (400, "invalid_argument", "frob"), ""),
    ]
    for fields, want, text in cases:
        r = c.run(**fields)
        assert r.error() == want, (fields, r.body)
        assert text in r.json()["error"]["message"], r.body
    assert c.ask("GET", SANDBOX + "/execs").json()["execs"] == []
    wait_for(lambda: init.children() == [] and init.groups() == [], what="nothing left of what failed")


def test_users_are_the_images(init):
    def who(**f):
        return init.client.sh("id -u; id -g; id -G; echo $HOME $USER; grep CapEff /proc/self/status", **f).json()["stdout"].split("\n")

    root = who()
    assert root[:4] == ["0", "0", "0", "/root root"] and int(root[4].split()[1], 16) != 0
    assert who(user="0")[:3] == ["0", "0", "0"]
    nobody = who(user="nobody")
    assert nobody[:3] == ["65534", "65534", "65534"] and int(nobody[4].split()[1], 16) == 0
    assert who(user="65534")[3] == nobody[3]
    assert who(user="1234:5678")[:4] == ["1234", "5678", "5678", "/"]
    assert who(user="nobody:daemon")[:3] == ["65534", "1", "1"]


def test_pid_1_works_with_three_capabilities_only(init):
    text = pathlib.Path(f"/proc/{init.pid}/status").read_text()
    caps = {l.split(":")[0]: int(l.split()[1], 16) for l in text.splitlines() if l.startswith("Cap")}
    assert caps["CapEff"] == 1 << 7 | 1 << 6 | 1 << 5
    assert "NoNewPrivs:\t1" in text


def test_root_inside_has_what_pid_1_was_permitted(confined):
    seven = sum(1 << n for n in (0, 1, 3, 5, 6, 7, 10))

    def caps(user):
        text = confined.client.sh("cat /proc/self/status", user=user).json()["stdout"]
        return [int(l.split()[1], 16) for l in text.splitlines() if l.startswith(("CapPrm", "CapEff"))]

    assert caps("root") == [seven, seven]
    assert caps("nobody") == [0, 0]
    assert confined.client.sh("touch /tmp/x && chown nobody /tmp/x && stat -c %U /tmp/x").json()["stdout"] == "nobody\n"


def test_nobody_inside_can_hurt_or_read_pid_1(confined):
    c = confined.client
    for user in ["root", "nobody"]:
        # a sanitizer handles SEGV, so the kernel lets it through to PID 1
        signals = "KILL STOP TERM INT HUP QUIT USR1 PIPE ALRM 35 64" + ("" if SANITIZED else " SEGV BUS ABRT")
        c.sh(f"for s in {signals}; do kill -$s 1; done", user=user)
        e = c.sh("cat /proc/1/environ /proc/1/maps; ls /proc/1/fd/4/ /proc/1/root/; readlink /proc/1/exe /proc/1/fd/3; "
                 "exit 0", user=user).json()
        assert e["stdout"] == "" and e["stderr"].count("denied") >= 4, e
    assert c.run("true").json()["end"]["exit_code"] == 0


def test_limits_are_as_they_were(init):
    e = init.client.sh("ulimit -Sn; ulimit -Hn").json()
    assert [int(x) for x in e["stdout"].split()] == list(resource.getrlimit(resource.RLIMIT_NOFILE))


def test_a_command_starts_clean(init):
    """Own session, default signals, no fd but three, no core, umask 022, the OOM score of everybody."""
    script = r"""
import os, resource, signal
st = open('/proc/self/status').read()
f = {l.split(':')[0]: l.split(':')[1].strip() for l in st.splitlines()}
assert os.getsid(0) == os.getpid() == os.getpgid(0)
assert int(f['SigBlk'], 16) == 0, f['SigBlk']
print(sorted(int(x) for x in os.listdir('/proc/self/fd'))[:4], resource.getrlimit(resource.RLIMIT_CORE), f['Umask'],
      open('/proc/self/oom_score_adj').read().strip())
"""
    # a byte: with 0 the kernel would still start a core_pattern that is a program
    core = (1, 1) if resource.getrlimit(resource.RLIMIT_CORE)[1] else (0, 0)
    e = init.client.run("/usr/bin/python3", "-c", script).json()
    assert e["end"]["exit_code"] == 0, e
    assert e["stdout"] == f"[0, 1, 2, 3] {core} 0022 1000\n"  # 3 is the directory being listed
    e = init.client.sh("grep SigIgn /proc/self/status").json()
    assert int(e["stdout"].split()[1], 16) == 0


def test_environment_and_claim(init):
    c = init.client
    env = dict(l.split("=", 1) for l in c.run("/usr/bin/env", env={"A": "1"}).json()["stdout"].splitlines())
    assert env == {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                   "USER": "root", "LOGNAME": "root", "A": "1"}
    claim = {"env": {"A": "claim", "B": "claim", "HOME": "/x"}, "user": "daemon", "cwd": "/usr"}
    assert c.ask("POST", "/v1/claim", claim).status == 204
    r = c.ask("POST", "/v1/claim", claim)
    assert r.error()[:2] == (409, "conflict")
    lines = c.sh("env; id -un; pwd", env={"B": "exec"}).json()["stdout"].splitlines()
    assert {"A=claim", "B=exec", "HOME=/x", "USER=daemon"} <= set(lines) and lines[-2:] == ["daemon", "/usr"]
    assert c.sh("id -un; pwd", user="root", cwd="/").json()["stdout"] == "root\n/\n"


def test_stdin_text_ends(init):
    assert init.client.run("cat", stdin="hello\n").json()["stdout"] == "hello\n"
    assert init.client.run("cat").json()["stdout"] == ""
    for n in 65536, 65537, 1 << 20:
        assert init.client.run("wc", "-c", stdin="x" * n).json()["stdout"].strip() == str(n)
    assert init.client.run("true", stdin="x" * (1 << 20)).json()["end"]["exit_code"] == 0
    assert init.client.run("true", stdin="x" * ((1 << 20) + 1)).error() == (400, "invalid_argument", "stdin")


def test_signals_reach_the_process_group(init):
    c = init.client
    ident = c.detach("/bin/sh", "-c", "trap 'echo got; exit 7' TERM; echo ready; while :; do sleep 0.02; done")
    wait_for(lambda: c.exec(ident).json()["stdout_bytes"] == 6)
    assert c.exec(ident, "/signal", "POST", {"signal": "SIGTERM"}).status == 200
    wait_for(lambda: c.exec(ident).json()["state"] == "ended")
    assert c.exec(ident).json()["end"]["exit_code"] == 7
    assert c.output(ident).read() == b"ready\ngot\n"
    assert c.exec(ident, "/signal", "POST", {"signal": "TERM"}).error()[:2] == (409, "wrong_state")
    for name, want in [("KILL", ("killed", "SIGKILL")), ("RTMIN+5", ("signal", "SIGRTMIN+5")), ("USR1", ("signal", "SIGUSR1"))]:
        ident = c.detach("sleep", "100")
        assert c.exec(ident, "/signal", "POST", {"signal": name}).status == 200
        wait_for(lambda: c.exec(ident).json()["state"] == "ended")
        end = c.exec(ident).json()["end"]
        assert (end["reason"], end["signal"]) == want
    ident = c.detach("sleep", "100")
    for bad in ["FROB", "SIG", "RTMIN+33", "9", "RTMAX+1"]:
        assert c.exec(ident, "/signal", "POST", {"signal": bad}).error() == (400, "invalid_argument", "signal")


STORM = r"""
import os, signal
def storm(depth):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                if depth: storm(depth - 1)
                while True: signal.pause()
            os._exit(0)
storm(2)
while True: signal.pause()
"""


@pytest.mark.parametrize("way", ["init", "born"])
def test_a_timeout_leaves_no_process(request, way):
    init = request.getfixturevalue(way)
    for _ in range(200 if FULL else 20):
        e = init.client.run("/usr/bin/python3", "-c", STORM, timeout_ms=200).json()
        assert e["end"]["reason"] == "timeout" and e["end"]["signal"] == "SIGKILL"
        wait_for(lambda: init.processes() == 0, what="no process of it")
    wait_for(lambda: init.groups() == [] and init.children() == [], what="no cgroup and no zombie")


def test_a_timeout_may_come_before_the_program(init):
    """It may fire while the child is still on its way into its cgroup."""
    for n in range(200):
        e = init.client.run("sleep", "100", timeout_ms=1 + n % 2).json()
        assert e["end"]["reason"] == "timeout", n
    wait_for(lambda: init.groups() == [] and init.children() == [], what="nothing left")


def test_a_timeout_ends_without_cgroups_too(plain):
    e = plain.client.sh("sleep 100 | sleep 100", timeout_ms=100).json()
    assert e["end"]["reason"] == "timeout"
    wait_for(lambda: plain.children() == [])


def test_partial_output_survives_a_timeout(init):
    for ms in (500, 2000, 8000, 30000):  # a shell may be slow to come to its first word
        e = init.client.sh("echo before; sleep 100", timeout_ms=ms).json()
        assert e["end"]["reason"] == "timeout"
        if e["stdout"]:
            break
    assert e["stdout"] == "before\n"


def test_a_daemon_survives_its_exec_and_its_writes(init):
    c, go, wrote = init.client, pathlib.Path(init.dir, "go"), pathlib.Path(init.dir, "wrote")
    e = c.sh(f"(trap '' HUP; until [ -e {go} ]; do sleep 0.01; done; "
             f"while :; do echo late || exit; : > {wrote}; sleep 0.01; done) & echo now").json()
    assert e["stdout"] == "now\n" and e["end"]["exit_code"] == 0
    assert len(init.groups()) == 1  # it lives on in the exec's cgroup
    # it writes into a pipe that nobody shows any more, and neither hangs nor dies
    go.touch()
    for _ in range(3):
        wait_for(wrote.exists, what="a late word")
        wrote.unlink()
        c.run("sleep", "0.2")
        assert init.processes() >= 1
    assert c.output(e["id"]).read() == b"now\n"
    assert c.exec(e["id"]).json()["stdout_bytes"] == 4
    # and its cgroup goes when it does
    c.sh("kill -9 $(ps -eo pid,args | grep 'echo [l]ate' | awk '{print $1}')")
    wait_for(lambda: init.groups() == [], what="no cgroup")


def test_a_daemon_that_floods_does_not_delay_the_end(init):
    e = init.client.sh("yes & echo done >&2; exit 9", output="drop").json()
    assert e["end"]["exit_code"] == 9 and e["stderr"] == "done\n"


def test_orphans_are_reaped(init):
    n = 10000 if FULL else 1000
    script = f"""
import os
for i in range({n}):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.wait()
"""
    assert init.client.run("/usr/bin/python3", "-c", script).json()["end"]["exit_code"] == 0
    wait_for(lambda: init.children() == [], what="0 zombies")


def test_64_live_execs_are_the_limit(init):
    c = init.client
    ids = [c.detach("sleep", "100") for _ in range(64)]
    assert c.run("true").error()[:2] == (429, "limit_exceeded")
    assert len(c.ask("GET", SANDBOX + "/execs").json()["execs"]) == 64
    assert c.exec(ids[3], "/signal", "POST", {"signal": "KILL"}).status == 200
    wait_for(lambda: c.exec(ids[3]).json()["state"] == "ended")
    assert c.run("true").json()["end"]["exit_code"] == 0


def test_256_finished_ones_are_kept_oldest_forgotten_first(init):
    c = init.client
    ids = [c.run("true").json()["id"] for _ in range(260)]
    kept = [e["id"] for e in c.ask("GET", SANDBOX + "/execs").json()["execs"]]
    assert kept == ids[4:]
    assert c.exec(ids[0]).error()[:2] == (404, "not_found")
    assert c.exec(ids[4]).status == 200


def test_many_at_once(init):
    failed = []

    def one(n):
        try:
            for i in range(10):
                e = init.client.run("/bin/sh", "-c", f"echo {n}.{i}; exit {n}").json()
                assert (e["stdout"], e["end"]["exit_code"]) == (f"{n}.{i}\n", n)
        except Exception as e:  # noqa: BLE001 - told by the main thread
            failed.append(repr(e))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed, failed


def test_nothing_planted_holds_pid_1_up(init):
    """passwd as a FIFO or a directory is an error of that exec; others go on."""
    c = init.client
    c.sh("mount -t tmpfs tmpfs /mnt && cp -a /etc/. /mnt/ && mount --bind /mnt /etc")
    c.sh("rm /etc/passwd && mkfifo /etc/passwd")
    r = c.run("true")
    assert r.error() == (400, "invalid_argument", "user"), r.body
    assert c.ask("GET", "/v1/hello").status == 200


def test_the_interface_refuses_what_it_does_not_know(init):
    c = init.client
    assert c.ask("GET", "/v1/health").error()[:2] == (404, "not_found")
    assert c.ask("GET", "/").error()[:2] == (404, "not_found")
    r = c.ask("PUT", SANDBOX + "/execs")
    assert r.error()[:2] == (405, "method_not_allowed") and set(r.headers["Allow"].split(", ")) == {"GET", "POST"}
    r = c.ask("POST", "/v1/hello")
    assert r.error()[0] == 405 and r.headers["Allow"] == "GET"
    assert c.ask("GET", SANDBOX + "/execs?x=1").error()[0] == 400
    assert c.ask("POST", SANDBOX + "/execs", b"{}", {"Content-Type": "text/plain"}).error()[0] == 415
    assert c.ask("POST", SANDBOX + "/execs", b"x" * ((2 << 20) + 1), {"Content-Type": "application/json"}).error()[0] == 413
    assert c.ask("GET", SANDBOX + "/execs", b"body").error()[0] == 400
    for r in [c.ask("GET", "/v1/hello"), c.ask("GET", "/")]:
        assert len(r.headers["Cay-Request"]) == 16
