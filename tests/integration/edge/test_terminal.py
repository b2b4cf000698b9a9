# SPDX-License-Identifier: Apache-2.0
"""Terminals from a person's side: cay shell, attach and exec -it, over the daemon's socket and an edge"""
import os
import re
import signal
import subprocess
import time

import pytest
from cay import wait_for
from conftest import FULL
from screen import Screen, Tmux

PROMPT = rb"\$ (\x1b\[6n)?$"  # busybox asks where it is
PATIENCE_S = 0.7  # less than the second that cay has, for answers and for what was typed before one leaves


@pytest.fixture(scope="module", params=["socket", "edge"])
def env(request, node, tmp_path_factory):
    """A person's environment: who sits at the machine, and who comes over the network."""
    mine = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp(request.param)), "CAY_TIMEOUT": "20s", "TERM": "xterm"}
    if request.param == "socket":
        return {**mine, "CAY_SOCKET": node.socket}
    mine["CAY_CONTEXT"] = "node"
    subprocess.run([node.programs["cay"], "context", "add", "node", "--url", f"http://127.0.0.1:{node.port}", "--token-stdin"],
                   input=node.operator_key().encode(), env=mine, check=True)
    return mine


@pytest.fixture
def cay(node, env):
    def screen(*words, **more):
        return Screen([node.programs["cay"], *words], env, **more)
    screen.run = lambda *words, data=b"": subprocess.run([node.programs["cay"], *words], input=data, env=env, capture_output=True, timeout=60)
    return screen


def only_exec(node, box):
    (e,) = node.call("GET", f"/v1/sandboxes/{box}/execs")["execs"]
    return e


def test_a_shell(cay, box):
    with cay("shell", box, cols=101, rows=33, answers=0.0) as s:
        s.until(PROMPT)
        assert b"job control" not in s.out
        s.type(b"busybox stty size; echo $TERM; busybox tty\n")
        s.until(rb"33 101\r\nxterm\r\n/dev/pts/0\r\n.*" + PROMPT)
        s.size(77, 22)
        os.kill(s.process.pid, signal.SIGWINCH)
        s.type(b"until busybox stty size | grep '22 77'; do sleep 0.05; done\n")
        s.until(rb"\n22 77\r\n.*" + PROMPT)
        s.type(b"sh -c 'echo in; exec sleep 100'\n")
        s.until(rb"\nin\r\n")
        s.type(b"\x03")
        s.until(PROMPT)
        s.type(b"exit 7\n")
        assert s.ends() == 7 and s.is_restored() and not s.typed()


def test_to_leave_and_come_back(cay, box, node):
    with cay("exec", "-it", box, "--", "sh", "-c", "echo up; while read l; do echo got $l; done") as s:
        s.until(rb"up\r\n")
        s.type(b"one\n")
        s.until(rb"got one\r\n")
        begin = time.monotonic()
        s.type(b"tw\x10\x11")
        assert s.ends() == 0 and s.is_restored()
        kept = rb"" if time.monotonic() - begin < PATIENCE_S else rb"?"  # what was typed before has a second to get there
        assert re.search(rb"is still running; reattach with 'cay attach sb\w+ ex\w+'", s.out)
    with cay("attach", box) as s:
        s.until(rb"up\r\none\r\ngot one\r\n(tw)" + kept)  # from the beginning
        s.type(b"o\n")
        s.until(rb"got (tw\x10?)" + kept + rb"o\r\n")
        s.type(b"\x04")
        assert s.ends() == 0
    with cay("attach", "--detach-keys", "ctrl-],d", box, only_exec(node, box)["id"]) as s:
        assert s.ends() == 0  # it ended; what it wrote is still to be had


def test_two_at_one_terminal(cay, box):
    with cay("exec", "-it", box, "--", "sh", "-c", "busybox stty -echo; echo up; while read l; do echo got $l; done") as a:
        a.until(rb"up\r\n")
        with cay("attach", "--watch", box) as w, cay("attach", box) as b:
            w.until(rb"up\r\n")
            b.until(rb"another client has the input")
            b.type(b"not this\n")
            with cay("attach", "--take", box, cols=50, rows=10) as c:
                c.until_raw()
                c.type(b"but this\n")  # before it is told that it writes
                a.until(rb"another client has the input")
                a.type(b"nor this\n")
                for s in a, b, c, w:
                    s.until(rb"got but this\r\n")
                c.type(b"\x04")
                assert [s.ends() for s in (a, b, c, w)] == [0] * 4
                assert all(s.is_restored() for s in (a, b, c, w)) and b"not this" not in a.out and b"nor this" not in c.out


def test_who_watches_leaves_by_ctrl_c(cay, box, node):
    node.exec_detached(box, ["sleep", "100"], tty={})
    with cay("attach", "--watch", box) as s:
        s.until_raw()
        s.type(b"\x03")
        assert s.ends() == 0 and s.is_restored()
    assert only_exec(node, box)["state"] == "running"


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT, signal.SIGSEGV])
def test_every_way_out_restores_the_terminal(cay, box, sig):
    with cay("shell", box, answers=0.0) as s:
        s.until(PROMPT)
        assert not s.is_restored()
        s.process.send_signal(sig)
        assert s.ends() in (128 + sig, -sig) and s.is_restored()


ATTACK = rb"""printf '\033]0;title\007\033[21t\033]52;c;?\007\033[6n\033[c\005\033[5n\033]52;c;c2VjcmV0\007\033]0;'
head -c SIZE /dev/zero | busybox tr '\0' 'A'; printf '\033\\\033[6n'"""


class Prompt(Screen):
    """Which knows how long it stood still itself."""
    stood, last = 0.0, None

    def step(self, seconds):
        now = time.monotonic()
        self.stood = max(self.stood, now - (self.last or now))
        super().step(seconds)
        self.last = now


@pytest.mark.parametrize("late", [0.0, 0.15])
def test_what_a_sandbox_asks_is_answered_to_nobody_else(node, env, box, late):
    """ESC-15: the person's terminal answers, and no shell behind cay reads it."""
    attack = ATTACK.decode().replace("SIZE", "10000000" if FULL else "1000000")
    for _ in range(5):
        with Prompt([node.programs["cay"], "exec", "-it", box, "--", "sh", "-c", attack], env, answers=late) as s:
            assert s.ends(60) == 0 and s.is_restored()
            typed = s.typed(0.5)
            if not typed:
                return
            assert s.stood + late > PATIENCE_S, typed  # or this terminal was later than one is waited for
    raise AssertionError("it is never in time")


def test_what_is_no_terminal_is_not_obeyed(cay, box):
    """ESC-15: messages are cleaned, output to a pipe is only bytes."""
    r = cay.run("exec", box, "--", "printf", "\\033]0;x\\007")
    assert r.stderr.count(b"\x1b") == 0
    r = cay.run("exec", "-t", box, "--", "sh", "-c", "printf '\\033[6n'; busybox printf '\\377'")
    assert (r.returncode, r.stdout, r.stderr) == (0, b"\x1b[6n\xff", b"")
    r = cay.run("attach", box, "ex\x1b[31m")
    assert r.returncode and b"\x1b" not in r.stderr
    assert cay.run("shell", box).returncode != 0


def test_bytes_both_ways(cay, box, node):
    """Streams without a terminal: byte for byte, and the end of one is not the end of the other."""
    data = os.urandom(700000)
    assert cay.run("exec", "-i", box, "--", "cat", data=data).stdout == data
    name = node.exec_detached(box, ["sh", "-c", "cat; echo behind; echo err >&2; exit 5"], stdin_open=True)
    r = cay.run("attach", box, name, data=data)
    assert (r.returncode, r.stderr) == (5, b"err\n") and r.stdout == data + b"behind\n"


def test_the_connection_breaks(own, tmp_path):
    """By offset in both directions: nothing is lost, nothing twice."""
    w = own
    box = w.create("tiny")
    mine = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CAY_TIMEOUT": "20s", "CAY_CONTEXT": "node", "TERM": "xterm"}
    subprocess.run([w.programs["cay"], "context", "add", "node", "--url", f"http://127.0.0.1:{w.port}", "--token-stdin"],
                   input=w.operator_key().encode(), env=mine, check=True)
    with Screen([w.programs["cay"], "exec", "-it", box, "--", "sh", "-c",
                 "busybox stty -echo; echo up; while read l; do echo got $l; done"], mine) as s:
        s.until(rb"up\r\n")
        for i in range(3):
            s.type(b"line %d\n" % i)
            s.until(rb"got line %d\r\n" % i)
            (name,) = w.edges
            w.daemons[name].kill()
            w.daemons[name].wait()
            w.edges = []
            s.type(b"while away %d\n" % i)
            w.start_edge()
            s.until(rb"got while away %d\r\n" % i)
            assert b"got" not in s.out
        s.type(b"\x04")
        assert s.ends() == 0 and s.is_restored()


# -- programs that draw

ORDERS = re.compile(r"^(\x1b\[[\d;]*m)*- ", re.M)  # how vi begins its last line, where it does not insert


@pytest.fixture
def tmux(tmp_path):
    with Tmux(tmp_path) as t:
        yield t


def test_programs_draw_as_they_do_here(node, env, box, tmux, tmp_path):
    """vi and less, key by key, inside and outside: tmux shows the same."""
    text = "".join(f"line {i} of a file, caf\u00e9 \u4e16\u754c\n" for i in range(200))
    (tmp_path / "file").write_text(text)
    node.exec(box, ["sh", "-c", "cat > file"], stdin=text)
    cay = node.programs["cay"]
    script = {"vi": ["40G", "dd", "ihello", "Escape", "25G", "A there", "Escape", ":set nu\n", "50G"], "less": ["Space", "Space", "G", "g", "/line 77\n"]}
    here = {**env, "LANG": "C.UTF-8"}
    for program, keys in script.items():
        tmux.run("inside", f"{cay} exec -it -e LANG=C.UTF-8 {box} -- busybox {program} file", here, stays=True)
        tmux.run("here", f"cd {tmp_path} && exec env TERM=$TERM busybox {program} file", here, stays=True)
        for key in ["", *keys]:
            if key:
                for name in "inside", "here":
                    tmux.keys(name, *([key] if key in ("Escape", "Space") else ["-l", key.rstrip("\n")]))
                    if key.endswith("\n"):
                        tmux.keys(name, "Enter")
                if key == "Escape":  # what follows before it was read would be one key with it
                    wait_for("vi to take orders", lambda: all(ORDERS.search(tmux.shows(n)) for n in ("inside", "here")), 30)
            shown = {"ihello": "hello", "A there": "there"}.get(key, "line")  # so that an Escape behind it is not too early
            tmux.look_the_same(f"{program} after {key!r}", "inside", "here", shown)
        tmux("resize-window", "-t", "inside", "-x", "60", "-y", "20")
        tmux("resize-window", "-t", "here", "-x", "60", "-y", "20")
        # busybox vi draws in its signal handler: a key that is drawn at the same moment would spoil its memory
        tmux.look_the_same(f"{program}, resized", "inside", "here", "line")
        tmux.keys("inside", "C-l")
        tmux.keys("here", "C-l")
        tmux.look_the_same(f"{program}, drawn again", "inside", "here", "line")
        for name in "inside", "here":
            tmux("kill-session", "-t", name)


def test_many_at_once(node, box):
    """1,000 open terminals (60 in CI), each with a connection of its own through the edge."""
    from attach import DATA, STDIN, Attached, frame
    boxes = [box] + [node.create("tiny") for _ in range(16 if FULL else 0)]
    key, open_ = node.operator_key(), []
    for b in boxes:
        for _ in range(60):
            name = node.exec_detached(b, ["cat"], tty={})
            open_.append(Attached(node.port, b, name, key))
    for i, a in enumerate(open_):
        a.until(8)
        a.send(frame(DATA, STDIN, 0, b"line %d\n" % i))
    for i, a in enumerate(open_):
        while b"line %d\r\nline %d\r\n" % (i, i) not in a.out[1]:
            a.frame()
        a.cut()
    for b in boxes[1:]:
        node.delete(b)
