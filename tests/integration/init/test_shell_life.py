# SPDX-License-Identifier: Apache-2.0
"""A shell outlives what is done in it, and PID 1 what is done to it."""
import concurrent.futures
import json
import os
import pathlib
import signal
import threading
import time

import pytest

from client import DATA, END, FRAMES, SANDBOX, SSE, Connection, events, frames
from conftest import wait_for
from cay import let_pass  # conftest adds its directory

SHELLS = SANDBOX + "/shells"
F_SETPIPE_SZ = 1031


class Shell:
    def __init__(self, c, **fields):
        self.c = c
        r = c.ask("POST", SHELLS, fields)
        assert r.status == 201, r.body
        self.told = r.json()
        self.at = f"{SHELLS}/{self.told['id']}"

    def ask(self, text, **fields):
        return self.c.ask("POST", self.at + "/runs", dict(command=text, **fields))

    def run(self, text, **fields):
        r = self.ask(text, **fields)
        assert r.status == 200, r.body
        return r.json()

    def out(self, text, **fields):
        return self.run(text, **fields)["stdout"]

    def get(self):
        return self.c.ask("GET", self.at).json()

    def output(self, **query):
        q = "&".join(f"{k}={v}" for k, v in query.items())
        r = self.c.open("GET", f"{self.at}/output?{q}")
        return r.headers["Cay-Offset"], r.read()


def test_what_is_kept_is_kept(init):
    s = Shell(init.client, name="mine", cwd="/usr", env={"A": "from env", "PAGER": "more"})
    assert s.told["name"] == "mine" and s.told["state"] == "idle" and s.told["cwd"] == "/usr"
    assert s.out("echo $A $PAGER $TERM") == "from env more dumb\n"
    for text in ("cd lib", "export B=2", "f() { echo f $1; }", "shopt -s expand_aliases", "alias g='f alias'", "set -o pipefail",
                 "set -o history", "x=(1 2 3)", "umask 027", "trap 'echo usr' USR1", "exec 7>&1"):
        assert s.run(text)["end"]["exit_code"] == 0
    assert s.out("pwd; echo $B; f 1; g; set -o | grep pipefail; echo ${x[2]}; umask") == (
        "/usr/lib\n2\nf 1\nf alias\npipefail       \ton\n3\n0027\n")
    assert s.out("kill -USR1 $$; echo seven >&7") == "usr\nseven\n"
    assert "umask 027" in s.out("history") and "_cay" not in s.out("history")
    assert s.run("false")["end"]["exit_code"] == 1 and s.out("echo $?") == "1\n"
    assert s.get()["cwd"] == "/usr/lib"


def test_what_may_differ_from_a_script(init):
    """All that docs/adr/0041 says is not as in a bash that reads a pipe."""
    s = Shell(init.client)
    assert s.out("read x; echo $?; cat; echo eof") == "1\neof\n"  # standard input is at its end
    assert s.out("case $- in *s*) echo s;; *) echo not;; esac") == "not\n"
    assert s.out("kill -INT $$; trap -p INT") == "trap -- ':' SIGINT\n"  # which ends a script
    assert "_cay" in s.out("trap -p 47") and s.out("echo ${BASH_SOURCE[0]} $_cay_s") == "bash 0\n"
    assert s.run("trap 'echo bye' EXIT")["stdout"] == ""  # it has not ended
    assert s.run("exit")["stdout"] == "bye\n"
    s = Shell(init.client)
    assert s.run("if")["end"]["exit_code"] == 2 and s.out("echo here") == "here\n"  # nor by this
    assert s.run("set -v")["end"]["exit_code"] == 0 and "_cay_s" in s.run("echo a")["stderr"]


def test_its_end_is_its_own(init):
    s = Shell(init.client)
    r = s.run("echo last; exit 42")
    assert r["stdout"] == "last\n" and r["end"]["exit_code"] == 42 and "cwd" not in r
    assert s.get()["state"] == "ended" and s.get()["end"]["exit_code"] == 42 and "why" not in s.get()
    assert s.ask("true").error()[:2] == (409, "wrong_state")
    assert s.output() == ("0", b"last\n")  # what it wrote is still here
    s = Shell(init.client)
    s.run("kill -9 $$")
    assert s.get()["end"]["signal"] == "SIGKILL"
    s = Shell(init.client)
    r = s.run("exec sh -c 'echo 5; sleep 0.1; exit 6'")
    assert r["stdout"] == "5\n" and s.get()["end"]["exit_code"] == 6
    s = Shell(init.client)
    r = s.run("echo a; set -n; echo b")  # it will never tell anything again
    assert r["stdout"] == "a\n" and r["end"]["exit_code"] == 0 and "without having reported" in s.get()["why"]


def test_time_outs_keep_the_shell(init):
    s = Shell(init.client)
    s.run("x=kept; trap 'echo debug' DEBUG; trap - DEBUG")
    for text in ("sleep 60", "while :; do :; done; echo no", "while sleep 0.2; do :; done\necho no", "sleep 60 | cat",
                 "f() { while :; do sleep 0.1; done; }; f; f; echo no", "(while :; do :; done)", "y=$(sleep 60); echo no", "y=$(sleep 60; echo a) z=$(sleep 60)", ": `cat <(sleep 60)`",
                 "for i in 1 2 3; do sleep 60; done", "wait $(sleep 60)", "cat <(sleep 60)", "time sleep 60", "eval 'sleep 60'",
                 "until false; do for ((;;)); do :; done; done", "sleep 60 & wait", "kill -STOP $$", "read y < <(sleep 60)"):
        begun = time.monotonic()
        r = s.run(text, timeout_ms=100)
        assert r["end"]["reason"] == "timeout" and r["stdout"] == "", (text, r)
        assert (r["end"]["blame"], r["end"]["retryable"]) == ("limit", False)
        assert time.monotonic() - begun < 20
        r = s.run("echo $x $?; shopt -q extdebug; echo $?; trap -p DEBUG")
        assert r["stdout"] == "kept 130\n1\n", (text, r)
    wait_for(lambda: s.get()["state"] == "idle")


def test_who_ignores_it_is_killed_and_the_shell_stays(init):
    s = Shell(init.client)
    s.run("x=1")
    r = s.run("sh -c \"trap '' INT TERM; sleep 60; :\"", timeout_ms=300)
    assert r["end"]["reason"] == "timeout" and s.out("echo $x") == "1\n"
    # what an earlier run left in the background is none of it
    s.run("sleep 60 & p=$!; sleep 0.05")
    assert s.run("trap '' INT TERM; sleep 60", timeout_ms=200)["end"]["reason"] == "timeout"
    assert s.out("kill -0 $p && echo alive") == "alive\n"


def test_at_last_the_shell_goes_with_a_reason(init):
    for ms in (100, 1000, 10000):  # it must come to be deaf before it is stopped
        s = Shell(init.client)
        r = s.run("trap '' 47; echo deaf; while :; do sleep 0.1; done", timeout_ms=ms)
        assert r["end"]["reason"] == "timeout"
        if r["stdout"]:
            break
    assert s.get()["state"] == "ended" and "did not end" in s.get()["why"]


def test_interrupt(init):
    s = Shell(init.client)
    assert init.client.ask("POST", s.at + "/interrupt").error()[:2] == (409, "wrong_state")
    n = s.run("echo begun; sleep 60; echo no", detach=True)["number"]
    wait_for(lambda: s.output()[1] == b"begun\n")
    assert init.client.ask("POST", s.at + "/interrupt").json()["state"] == "busy"
    wait_for(lambda: s.get()["state"] == "idle")
    r = init.client.ask("GET", f"{s.at}/runs/{n}").json()
    assert r["end"]["signal"] == "SIGINT" and r["stdout"] == "begun\n"


def test_runs_take_turns(init):
    s, go = Shell(init.client), init.dir + "/go"
    s.run(f"n=0; until [ -e {go} ]; do sleep 0.02; done", detach=True)
    replies = [s.ask(f"echo {i} $((++n))", detach=True) for i in range(66)]
    numbers = [r.json()["number"] for r in replies if r.status == 200]
    assert len(numbers) == 64 and replies[-1].error()[:2] == (429, "limit_exceeded")
    assert s.get()["queued"] == 64
    pathlib.Path(go).touch()
    wait_for(lambda: s.get()["state"] == "idle", 60)
    os.unlink(go)
    for i, n in enumerate(numbers):
        assert init.client.ask("GET", f"{s.at}/runs/{n}").json()["stdout"] == f"{i} {i + 1}\n"
    found = []
    threads = [threading.Thread(target=lambda: found.append(s.out("echo $((++n))"))) for _ in range(32)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(map(int, found)) == list(range(65, 97))
    # those that wait when it ends hear of it
    s.run(f"until [ -e {go} ]; do sleep 0.02; done; exit 3", detach=True)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        never = pool.submit(s.run, "echo never")
        wait_for(lambda: s.get()["queued"] == 1, what="one that waits")
        pathlib.Path(go).touch()
        end = never.result()["end"]
        assert (end["reason"], end["blame"], end["retryable"]) == ("killed", "task", False)  # of the run that ended the shell
    s = Shell(init.client)
    for _ in range(150):
        s.run("true")
    runs = init.client.ask("GET", s.at + "/runs").json()["runs"]
    assert len(runs) <= 130 and runs[-1]["number"] == 150
    assert init.client.ask("GET", s.at + "/runs/1").status == 404


def test_output_by_offset_and_cut(init):
    s = Shell(init.client)
    s.run("echo before; echo err >&2")
    r = s.run("seq 1 2000", max_output=100, keep="both")
    assert r["stdout"].startswith("1\n2\n") and r["stdout_tail"].endswith("1999\n2000\n")
    assert len(r["stdout"]) == len(r["stdout_tail"]) == 50 and r["stdout_offset"] == 7 and r["stdout_bytes"] == 8893
    assert (r["stdout_cut_offset"], r["stdout_cut_bytes"]) == (57, 8793)
    everything = "".join(f"{i}\n" for i in range(1, 2001))
    assert s.output(offset=57, limit=8793)[1].decode() == everything[50:-50]
    r = s.run("seq 1 2000", max_output=100, keep="head")
    assert r["stdout"] == everything[:100] and "stdout_tail" not in r and r["stdout_cut_bytes"] == 8793
    r = s.run("seq 1 2000", max_output=100)
    assert r["stdout"] == everything[-100:] and r["stdout_cut_offset"] == r["stdout_offset"] - 8793
    assert s.run("seq 1 9", max_output=0)["stdout"] == ""
    r = s.run("head -c 6000000 /dev/zero | tr '\\0' x; echo end", max_output=100, keep="both")
    assert r["stdout_bytes"] == 6000004 and r["stdout"].endswith("xend\n") and r["stdout_cut_bytes"] > 5900000
    # what comes late is in the shell's output, of no run
    go = pathlib.Path(init.dir, "go")
    assert s.out(f"(until [ -e {go} ]; do sleep 0.02; done; echo late) & echo now") == "now\n"
    go.touch()
    wait_for(lambda: s.output(offset=s.get()["stdout_bytes"] - 5)[1] == b"late\n")
    assert s.out("echo mine") == "mine\n"
    assert s.output(stream="stderr") == ("0", b"err\n")


def test_a_run_ends_with_all_it_wrote(init, tmp_path):
    """PID 1 stands still until the run has ended: it then learns of the end with output left to read.

    The pipe holds a mebibyte, more than PID 1 reads before it looks at anything else.
    """
    tmp_path.chmod(0o755)
    os.chmod(tmp_path.parent, 0o755)
    text = f"""cd {tmp_path}
python3 -c 'import fcntl, os, select
fcntl.fcntl(1, {F_SETPIPE_SZ}, 1 << 20)
open("ready", "x").close()
while not os.path.exists("go"): select.select([], [], [], 0.01)
assert os.write(1, b"x" * 900_000) == 900_000
open("done", "x").close()'"""
    s = Shell(init.client)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(s.run, text)
        wait_for((tmp_path / "ready").exists, 20, "the command")
        os.kill(init.pid, signal.SIGSTOP)
        try:
            (tmp_path / "go").touch()
            wait_for((tmp_path / "done").exists, 20, "the output in the pipe")
            let_pass(0.5)  # the shell reports the end of the run
        finally:
            os.kill(init.pid, signal.SIGCONT)
        r = run.result(60)
    assert r["end"]["exit_code"] == 0 and r["stdout_bytes"] == 900_000


def test_streamed(init):
    s = Shell(init.client)
    s.run("echo before")
    r = init.client.open("POST", s.at + "/runs", {"command": "echo a; echo b >&2; sleep 0.1; echo c; (exit 3)"}, {"Accept": FRAMES})
    assert r.status == 200 and r.headers["Cay-Run"] == "2"
    got = list(frames(r))
    assert b"".join(f[3] for f in got if f[:2] == (DATA, 1)) == b"a\nc\n" and got[0][2] == 7
    assert b"".join(f[3] for f in got if f[:2] == (DATA, 2)) == b"b\n"
    assert got[-1][0] == END and json.loads(got[-1][3])["exit_code"] == 3
    go = pathlib.Path(init.dir, "go")
    late = f"echo x; (until [ -e {go} ]; do sleep 0.02; done; echo late) & exit 4"
    r = init.client.open("POST", s.at + "/runs", {"command": late}, {"Accept": SSE})
    got = list(events(r))
    assert [e[0] for e in got] == ["data", "end"] and got[0][1]["t"] == "x\n" and got[1][1]["exit_code"] == 4


CHMOD = "chmod 0 /dev/null 2>/dev/null; :"  # which must come to pass
HOSTILE = [
    "exec 250>&-", "exec 250>/dev/null", "yes >&250", "head -c 1000000 /dev/zero >&250", "echo /dev/null/ >&250; exit 3",
    "echo 'bash: /dev/null/0000000000000000:0:/:0000000000000000: x' >&250", "cat </proc/$$/fd/255 >/dev/null",
    "head -c 10 </proc/$$/fd/255 >/dev/null", "exec 255<&-", "exec 255</dev/null", "readonly _cay_s=1", "readonly _cay_i", "readonly LINENO",
    "declare -A _cay_s", "declare -n _cay_s=_cay_s", "shopt -s expand_aliases; alias for='exit 9'", "alias {=false; shopt -s expand_aliases",
    "set -e", "set -u; unset PWD", "set -o posix", "set -x; PS4='$(echo evil)'", "BASH_XTRACEFD=250; set -x", "unset _cay_s _cay_i",
    "trap 'exit 5' DEBUG", "trap 'kill -9 $$' ERR; false", "ulimit -n 10", "ulimit -f 0", "BASH_ARGV0=$(printf %09000d 1)", "kill -STOP $$ & wait",
    "PWD=$(printf '/%0100000d' 1)", "PWD=$'a\\nb'", "cd /dev/fd", "enable -n eval exit exec trap", "exec 2>&-; exec 250>&-",
    "eval() { :; }; exit() { :; }; trap() { :; }", "while :; do echo x; done >&250", "IFS=0123456789", "set -f; set -n", "exec </dev/null >/dev/null 2>&1",
    "LC_ALL=nonsense", "TIMEFORMAT=x", "set --; shift 1", "function for { :; }", CHMOD, "mkfifo /tmp/.f$$; exec 250>/tmp/.f$$",
]


def test_hostile_commands_break_their_own_shell_at_worst(init):
    # one of its own: what is done to /dev/null is done to the whole machine's otherwise
    done = init.client.sh(f"mknod -m 666 {init.dir}/null c 1 3 && mount --bind {init.dir}/null /dev/null").json()
    assert done["end"]["exit_code"] == 0, done
    before = os.stat("/dev/null").st_mode
    other = Shell(init.client)
    broken = 0
    for text in HOSTILE:
        s = Shell(init.client)
        r = s.run(text, timeout_ms=20000 if text == CHMOD else 300)
        assert r["state"] == "ended", (text, r)
        if s.get()["state"] != "ended":
            r = s.ask("echo still $((1+1))", timeout_ms=300)
            assert r.status in (200, 409), (text, r.body)
            assert r.status == 409 or r.json()["state"] == "ended", (text, r.body)
        broken += s.get()["state"] == "ended"
        assert init.client.ask("DELETE", s.at).status == 200
        assert other.out("echo fine") == "fine\n"
    assert 5 < broken < len(HOSTILE)
    assert os.stat("/dev/null").st_mode == before and os.stat(init.dir + "/null").st_mode & 0o777 == 0
    assert init.small()
    wait_for(lambda: len(init.children()) == 1, what="only one shell")


def test_a_liar_needs_the_nonce(init):
    """A command that floods with reports of every other nonce does not end before it ends."""
    s = Shell(init.client)
    r = s.run("for i in {1..500}; do printf '/dev/null/%016x:0:/:%016x' $i $i >&250; done; sleep 0.3; (exit 9)")
    assert r["end"]["exit_code"] == 9


def test_limits_and_refusals(init):
    assert init.client.ask("POST", SHELLS, {"cwd": "/no/such"}).error() == (400, "invalid_argument", "cwd")
    assert init.client.ask("POST", SHELLS, {"user": "nobody-here"}).error() == (400, "invalid_argument", "user")
    assert init.client.ask("POST", SHELLS, {"env": {"PATH": "/none"}}).error()[:2] == (422, "unsupported")
    shells = [Shell(init.client) for _ in range(32)]
    assert init.client.ask("POST", SHELLS, {}).error()[:2] == (429, "limit_exceeded")
    shells[3].run("exit")
    Shell(init.client)  # one that has ended makes room
    assert init.client.ask("GET", shells[3].at).status == 404
    for s in shells:
        init.client.ask("DELETE", s.at)
    wait_for(lambda: len(init.children()) == 1)
    assert Shell(init.client).ask("x" * ((1 << 20) + 1)).error() == (400, "invalid_argument", "command")
    assert Shell(init.client).out("echo " + "x" * 32000) == "x" * 32000 + "\n"


def test_a_long_command(init):
    """900 KB, whole and broken: what bash counts of it is what it counts of a file."""
    s, filler = Shell(init.client), "\u20ac" * 20 + "\n"
    n = 900_000 // len(filler.encode())
    assert s.out(f"wc -lc <<'END'\n{filler * n}END\necho $LINENO").split() == [str(n), str(n * len(filler.encode())), str(n + 3)]
    r = s.run("# c\n" * 200_000 + "if")
    assert r["end"]["exit_code"] and "200001" in r["stderr"] or "200002" in r["stderr"]
    assert s.out("echo after") == "after\n"


def test_texts_that_wait_are_bounded(init):
    s, text = Shell(init.client), "#" * ((1 << 20) - 20)
    s.run("sleep 100", detach=True)
    told = [s.ask(text, detach=True).status for _ in range(20)]
    assert told == [200] * 16 + [429] * 4
    assert init.client.ask("POST", s.at + "/interrupt").status == 200
    wait_for(lambda: s.get()["queued"] == 0, 120)
    assert s.out("echo after") == "after\n"


def test_a_run_is_told_by_its_last_four_mebibytes(init):
    s = Shell(init.client)
    assert len(s.out("head -c 3000000 /dev/zero | tr '\\0' x")) == 3000000
    r = s.run("head -c 5000000 /dev/zero | tr '\\0' y")
    assert r["stdout"] == "y" * (4 << 20) and r["stdout_cut_bytes"] == 5000000 - (4 << 20)


def test_as_a_user_in_odd_places(init):
    init.client.sh("mkdir -p '/tmp/a b' && chmod 755 '/tmp/a b'")
    s = Shell(init.client, user="nobody", cwd="/tmp/a b")
    assert s.out("id -un; pwd; echo [$OLDPWD]") == "nobody\n/tmp/a b\n[]\n"
    link = "find /dev/shm /tmp -maxdepth 1 -name '.cay-*' -user nobody 2>/dev/null"
    wait_for(lambda: init.client.sh(link).json()["stdout"] == "", what="the link to its script to go")
    init.client.sh("rmdir '/tmp/a b'")


def test_killed_from_outside_and_its_background(init):
    s = Shell(init.client)
    s.run("sleep 100 & setsid sleep 100 &")
    pid = s.get()["pid"]
    s.run("sleep 50", detach=True)
    init.client.run("kill", "-9", str(pid))
    wait_for(lambda: s.get()["state"] == "ended")
    assert s.get()["end"]["signal"] == "SIGKILL"
    wait_for(lambda: init.processes() == 0, what="nobody left behind")


def test_a_fork_bomb_is_one_shell(init):
    s = Shell(init.client)
    s.run("ulimit -u 200 2>/dev/null; f() { f | f & }; sleep 0.1; for i in {1..50}; do sleep 60 & done", detach=True)
    other = Shell(init.client)
    assert other.out("echo fine") == "fine\n"
    assert init.client.ask("DELETE", s.at).status == 200
    assert other.out("echo fine") == "fine\n"


@pytest.mark.parametrize("form", ["application/json", FRAMES])
def test_who_asks_for_that_takes_the_run_along(init, form):
    """What runs is interrupted, what waits for its turn never has it; the shell stays."""
    s = Shell(init.client)
    s.out("x=5")
    ends = {"Prefer": "end-with-caller", "Accept": form, "Content-Type": "application/json"}
    leavers = [Connection(init.client.path, 30) for _ in range(2)]
    for number, (leaver, command) in enumerate(zip(leavers, ("echo begun; sleep 60", "x=7")), 2):
        leaver.request("POST", s.at + "/runs", json.dumps({"command": command}), ends)
        wait_for(lambda: init.client.ask("GET", f"{s.at}/runs/{number}").status == 200)
    leavers[1].close()
    wait_for(lambda: init.client.ask("GET", f"{s.at}/runs/3").json()["state"] == "ended")
    assert init.client.ask("GET", f"{s.at}/runs/3").json()["end"]["reason"] == "killed"
    assert init.client.ask("GET", f"{s.at}/runs/2").json()["state"] == "running"
    wait_for(lambda: init.client.ask("GET", f"{s.at}/runs/2").json().get("stdout"))
    leavers[0].close()
    wait_for(lambda: init.client.ask("GET", f"{s.at}/runs/2").json()["state"] == "ended")
    got = init.client.ask("GET", f"{s.at}/runs/2").json()
    assert (got["stdout"], got["end"]["reason"]) == ("begun\n", "signal")
    assert s.out("echo $x") == "5\n"


def test_clients_that_leave(init):
    s = Shell(init.client)
    r = init.client.open("POST", s.at + "/runs", {"command": "sleep 0.3; x=done"}, {"Accept": FRAMES})
    r.close()
    c, go = type(init.client)(init.client.path, timeout=0.1), pathlib.Path(init.dir, "go")
    with pytest.raises(OSError):
        c.ask("POST", s.at + "/runs", {"command": f"until [ -e {go} ]; do sleep 0.02; done; y=done"})
    go.touch()
    assert s.out("echo $x $y") == "done done\n"
    r = init.client.open("POST", s.at + "/runs", {"command": "yes | head -c 30000000"}, {"Accept": FRAMES})
    init.client.ask("DELETE", s.at)
    list(frames(r))
    assert init.client.ask("GET", SHELLS).json() == {"shells": []}
    assert init.small()
