# SPDX-License-Identifier: Apache-2.0
"""Kernels through an edge, at their limits: exact order, much output, hostile cells, daemons that are killed

CAY_FULL=1: 1 GiB of output instead of 64 MiB.
"""
import contextlib
import hashlib
import http.client
import json
import pathlib
import struct
import threading
import time

import pytest

import cay
import unpacked
import world
from conftest import BUILD, FULL
from kernel_cells import CHANNEL, compare_cells

FRAMES = "application/vnd.cay.frames"
MIB = 1 << 20
pytestmark = pytest.mark.one_lane  # its node


@pytest.fixture(scope="module")
def own_node():
    """A node of this file's own: its daemons are killed."""
    with world.World(BUILD) as w, unpacked.lent(w, "code"):
        yield w


@pytest.fixture(scope="module")
def machine(own_node):
    name = own_node.door().create("code", limits={"memory_bytes": "1Gi", "pids": 128})
    yield name
    own_node.delete(name)


class Kernel:
    def __init__(self, node, machine, language="python", **fields):
        self.node, self.machine = node, machine
        self.me = node.door()
        self.id = self.me.call("POST", f"/v1/sandboxes/{machine}/kernels", {"language": language, **fields}, 120)["id"]
        self.at = f"/v1/sandboxes/{machine}/kernels/{self.id}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.me.call("DELETE", self.at)

    def run(self, code, **fields):
        return self.me.call("POST", self.at + "/runs", {"code": code, **fields}, timeout_s=300)

    def number(self, number):
        return self.me.call("GET", f"{self.at}/runs/{number}?max_output=4194304")

    def info(self):
        return self.me.call("GET", self.at)

    def stream(self, code, accept=FRAMES, **fields):
        return self.me.open("POST", self.at + "/runs", {"code": code, **fields}, {"Accept": accept}, timeout_s=300)

    def output(self, offset=0, stream="stdout"):
        with contextlib.closing(self.me.open("GET", f"{self.at}/output?stream={stream}&offset={offset}")) as r:
            assert r.status == 200
            return r.read()


@pytest.fixture
def kernel(own_node, machine):
    with Kernel(own_node, machine) as k:
        yield k


def texts(run):
    return [r["data"].get("text/plain") for r in run.get("results", [])]


def fine(k, restarted=False):
    """The next cell works, in the same kernel or in one that says it was started again."""
    run = k.run("print('out')\n40 + 2")
    assert (run["stdout"], texts(run), run.get("restarted", False)) == ("out\n", ["42"], restarted), run


# -- KRN-02

def test_ten_thousand_outputs_are_in_order(kernel):
    """stdout, results, stderr and exceptions in turn, each in its place in the stream."""
    code = """import sys
shell = get_ipython()
for i in range(0, 10000, 4):
    print(i)
    display(i + 1)
    print(i + 2, file=sys.stderr)
    try:
        raise ValueError(str(i + 3))
    except ValueError:
        shell.showtraceback()
"""
    seen, end, half = [], None, {1: b"", 2: b"", 3: b""}
    with contextlib.closing(kernel.stream(code)) as r:
        while head := r.read(16):
            kind, stream, _, length, _ = struct.unpack("<BBHIQ", head)
            content = r.read(length)
            assert end is None and kind in (1, 3)
            if kind == 3:
                end = json.loads(content)
                continue
            *lines, half[stream] = (half[stream] + content).split(b"\n")
            for line in lines:
                told = json.loads(line)
                if stream < 3:
                    seen.append((stream, told))
                elif "result" in told:
                    seen.append(("result", int(told["result"]["data"]["text/plain"])))
                elif "exception" in told:
                    seen.append(("exception", int(told["exception"]["value"])))
    assert end["reason"] == "exit" and end["exit_code"] == 0 and set(half.values()) == {b""}
    assert seen == [((1, "result", 2, "exception")[i % 4], i) for i in range(10000)]
    assert len(kernel.number(1)["results"]) == 2500
    fine(kernel)


def test_every_byte_of_much_output(kernel):
    """Written by the code, read by a client that stands still first: the kernel waits for it, no byte is lost."""
    size = 1024 if FULL else 64
    code = f"import hashlib, os\nsha, block = hashlib.sha256(), os.urandom(1 << 20)\nfor i in range({size}):\n" \
           "    piece = i.to_bytes(8, 'big') + block[8:]\n    sha.update(piece)\n    sys.stdout.buffer.write(piece)\n" \
           "sys.stdout.flush()\nsha.hexdigest()"
    sha, at, began = hashlib.sha256(), 0, time.monotonic()
    with contextlib.closing(kernel.stream("import sys\n" + code)) as r:
        assert waits_at(kernel) < size * MIB
        for kind, stream, offset, content in frames_of(r):
            if kind == 1 and stream == 1:
                assert offset == at
                at += len(content)
                sha.update(content)
            elif kind == 1:
                told = json.loads(content)
                if "result" in told:
                    want = told["result"]["data"]["text/plain"].strip("'")
            else:
                assert kind == 3, "a gap"
    assert (at, sha.hexdigest()) == (size * MIB, want)
    print(f"{size} MiB in {time.monotonic() - began:.1f} s")
    fine(kernel)


def test_the_next_run_does_not_harm_a_slow_stream(own_node, machine):
    """A run has ended, its client has not read the end of its output yet, and the next ones write megabytes: no byte is lost."""
    print_bytes = "import sys\ndef put(n, c):\n    sys.stdout.write(c * n)\n    sys.stdout.flush()\n"
    with Kernel(own_node, machine) as k, contextlib.closing(k.stream(print_bytes + "put(64 << 20, 'x')")) as r:
        taken = waits_at(k)  # so much fits between the code and a client that does not read
    size = taken - 256 * 1024
    with Kernel(own_node, machine) as k, contextlib.closing(k.stream(f"{print_bytes}put({size} - 5, 'a')\nput(5, 'b')\n7")) as r:
        cay.wait_for("its end", lambda: k.info()["state"] == "idle" and k.info()["stdout_bytes"] == size, 60)
        for _ in range(3):
            assert k.run("put(2 << 20, 'c')")["end"]["exit_code"] == 0
        got, events = b"", []
        for kind, stream, offset, content in frames_of(r):
            assert kind in (1, 3), f"a gap of {int.from_bytes(content, 'little')} at {offset} of {size}"
            if (kind, stream) == (1, 1):
                assert offset == len(got)
                got += content
            else:
                events.append(json.loads(content))
        assert got == b"a" * (size - 5) + b"b" * 5
        assert events[-2]["result"]["data"] == {"text/plain": "7"} and events[-1]["reason"] == "exit"
        fine(k)


def waits_at(k):
    """Bytes that it has written when its output goes on no further."""
    before = [-1]

    def waits():
        cay.let_pass(0.2)
        before.append(k.info()["stdout_bytes"])
        return before[-1] == before[-2] > 0
    cay.wait_for("the code to wait", waits, 60)
    return before[-1]


def frames_of(stream):
    while head := stream.read(16):
        kind, which, _, length, offset = struct.unpack("<BBHIQ", head)
        yield kind, which, offset, stream.read(length)


def test_a_large_picture(kernel, own_node, machine):
    """20 MiB: the result names a file with exactly these bytes, and what the reply can carry is in it."""
    run = kernel.run("import hashlib, os\nfrom IPython.display import Image\nsent = b'\\x89PNG\\r\\n\\x1a\\n' + os.urandom(20 << 20)\n"
                     "display(Image(data=sent, format='png'))\nhashlib.sha256(sent).hexdigest()")
    shown, digest = run["results"]
    cut, = shown["cut"]
    assert cut["mime"] == "image/png" and "image/png" not in shown["data"] and "Image" in shown["data"]["text/plain"]
    found = own_node.exec(machine, ["sha256sum", cut["path"]]).text.split()[0]
    assert digest["data"]["text/plain"] == f"'{found}'"
    fine(kernel)


# -- KRN-03

def test_a_fork_bomb(own_node, machine):
    """It fills the sandbox's processes and is stopped by its timeout; PID 1 answers all the time, and no process is left."""
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    with Kernel(own_node, machine) as k:
        me, answers, stop = own_node.door(), [], threading.Event()

        def ask():
            while not stop.is_set():
                answers.append(me.call("GET", f"/v1/sandboxes/{machine}/usage", timeout_s=60)["processes"])
                try:
                    answers.append(me.call("POST", f"/v1/sandboxes/{machine}/execs", {"argv": ["true"]}, timeout_s=60)["state"])
                except cay.ApiError as e:
                    answers.append(e.code)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            run = k.run(bomb, timeout_ms=2000)
        finally:
            stop.set()
            asking.join()
        assert run["end"]["reason"] == "timeout", run
        counts = [a for a in answers if isinstance(a, int)]
        assert counts and max(counts) <= 128, counts
        assert {a for a in answers if isinstance(a, str)} <= {"ended", "limit_exceeded"}, answers
        cay.wait_for("its end", lambda: k.info()["state"] != "busy", 60)
        ended = k.info()["state"] == "ended"  # it had too many children, or was too slow to end
        assert not ended or k.info()["why"]
        cay.wait_for("the bomb's end", lambda: len(own_node.processes(machine)) == (1 if ended else 2), 60)
        fine(k, restarted=ended)
        assert me.call("GET", f"/v1/sandboxes/{machine}/usage")["processes"] < 100, "dead ones included"


@pytest.mark.alone
@pytest.mark.parametrize("code", [
    "while True: pass",
    "import itertools\nsum(itertools.repeat(0))",
    "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "while True: display(1)",
    "import os\nwhile True:\n    if os.fork() == 0: os._exit(0)\n    os.wait()",
], ids=["loops", "loops in C", "writes without end", "shows without end", "forks one by one"])
def test_pid_1_answers_meanwhile(own_node, machine, code):
    """/bin/true through PID 1: 10 ms, or three times that of the same sandbox with a cell that only loops.

    Of 21 calls the sixth fastest counts: what PID 1 adds is in all of them, what else the machine does in some.
    """
    def quartile(k, cell):
        with contextlib.closing(k.stream(cell, timeout_ms=60000)) as r:
            r.read(1)
            took = []
            for _ in range(21):
                begin = time.monotonic()
                assert own_node.exec(machine, ["true"]).exit_code == 0
                took.append(time.monotonic() - begin)
        k.me.call("POST", k.at + "/restart", timeout_s=60)
        return sorted(took)[5]

    with Kernel(own_node, machine) as k:
        plain = quartile(k, "print(1, flush=True)\nwhile True: pass")
        hostile = quartile(k, "print(1, flush=True)\n" + code)
        print(f"exec beside a loop {plain * 1e3:.1f} ms, beside this {hostile * 1e3:.1f} ms")
        assert hostile <= max(0.010, 3 * plain)
        fine(k)


PAUSE = "import select\nselect.select([], [], [], 600)"
FRAME = "def frame(kind, text): return struct.pack('<IB', len(text), ord(kind)) + text\n"
NO_FRAME = "its runner sent something that is no frame"
FORGED = {  # what a cell writes to PID 1 in place of its runner; how its run ends, and why the kernel does
    "half a head, and the runner's end": ("os.write(channel, b'\\5\\0')", "killed", NO_FRAME),
    "half a frame, which takes in the runner's end": ("os.write(channel, struct.pack('<IB', 4 << 20, 82) + b' ' * 1000)", "timeout", "a run did not end when it was stopped"),
    "4 GiB": ("os.write(channel, struct.pack('<IB', 0xffffffff, 82))\n" + PAUSE, "killed", NO_FRAME),
    "4 GiB from a child": ("import subprocess\nsubprocess.run(['printf', r'\\377\\377\\377\\377R'], stdout=channel)\n" + PAUSE, "killed", NO_FRAME),
    "a byte too long": ("os.write(channel, struct.pack('<IB', (5 << 20) + 1, 82))\n" + PAUSE, "killed", NO_FRAME),
    "a message of PID 1": ("os.write(channel, frame('X', b'{}'))\n" + PAUSE, "killed", NO_FRAME),
    "nothing": ("os.write(channel, frame('R', b''))\n" + PAUSE, "killed", "its runner sent something that is no event"),
    "a run before the first": ("os.write(channel, frame('C', b'{\"execution_count\": -1}'))\n" + PAUSE, "killed", "its runner sent something that is no event"),
    "ready": ("os.write(channel, frame('H', b'{\"version\": \"9\"}'))\n" + PAUSE, "killed", "its runner said twice that it is ready"),
    "its own end": ("os.write(channel, frame('D', b'{\"status\": \"ok\", \"cwd\": \"/\"}'))\nimport select\nselect.select([], [], [], 0.5)", "exit",
                    "its runner ended a run that was not there"),
    "events without end": ("while True: os.write(channel, frame('U', b'{}') * 100)", "killed", "its runner sent more results than it may"),
}


def test_forged_frames(own_node, machine):
    """The kernel ends and says why; meanwhile PID 1 starts what it is asked to, another kernel keeps its variables, and the next one works."""
    with Kernel(own_node, machine) as k, Kernel(own_node, machine) as other:
        other.run("kept = 7")
        for what, (code, reason, why) in FORGED.items():
            try:
                check_forged(k, other, code, reason, why)
            except (AssertionError, TimeoutError) as e:
                raise AssertionError(f"{what}: {e}") from e


def check_forged(k, other, code, reason, why):
    number = k.run(CHANNEL + FRAME + code, timeout_ms=500 if reason == "timeout" else 60000, detach=True)["number"]
    states = []  # after each exec

    def over():
        assert k.node.exec(k.machine, ["echo", "here"], timeout_s=20).text == "here\n"
        states.append(k.info()["state"])
        return states[-1] == "ended"
    cay.wait_for("its end", over, 60)
    assert "busy" in states or reason != "timeout", states
    run, info = k.number(number), k.info()
    assert run["state"] == "ended" and run["end"]["reason"] == reason and info.get("why") == why, (run, info)
    assert reason != "killed" or run["end"]["detail"] == why, run
    assert texts(other.run("kept")) == ["7"]
    fine(k, restarted=True)


@pytest.mark.parametrize("code", [
    "import os\nos.close(1)\nos.close(2)",
    "import os\nos.closerange(0, 10)",
    "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = None",
    "import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nprint('x' * 100000)",
], ids=["closes fd 1 and 2", "closes all low fds", "stdout is None", "stdout is full"])
def test_a_cell_that_loses_its_outputs(kernel, code):
    kernel.run("kept = 7")
    assert kernel.run(code)["state"] == "ended"
    fine(kernel)
    assert texts(kernel.run("kept")) == ["7"]


def test_a_cell_that_closes_every_fd(kernel):
    """Also the channel to PID 1: the kernel is over, says why, and the next run has a new one."""
    run = kernel.run("import os\nos.closerange(0, 1024)\nprint('x')", timeout_ms=30000)
    assert run["state"] == "ended" and run["end"]["reason"] != "timeout", run
    cay.wait_for("its end", lambda: kernel.info()["state"] == "ended", 30)
    info = kernel.info()  # the runner ends when it finds its channel closed, PID 1 ends it when it does: one is first
    assert info.get("why") or info["end"] == {**info["end"], "reason": "exit", "exit_code": 1}, info
    fine(kernel, restarted=True)


def test_a_thread_prints_after_its_run(kernel, own_node, machine):
    """What it writes is in the kernel's output by offset, in no run, and not in the next one's."""
    kernel.run("""import os, threading
go, gone = os.pipe(), threading.Event()
def late():
    os.read(go[0], 1)
    print('late')
    display('dropped')
    gone.set()
thread = threading.Thread(target=late)
thread.start()
print('first')
path = f'/proc/{os.getpid()}/fd/{go[1]}'
path""")
    path = texts(kernel.number(1))[0].strip("'")
    own_node.exec(machine, ["sh", "-c", f"echo > {path}"])
    cay.wait_for("the late line", lambda: kernel.info()["stdout_bytes"] == len("first\nlate\n"), 30)
    run = kernel.run("gone.wait()\nthread.join()\nprint('second')")
    assert run["stdout"] == "second\n" and kernel.number(1)["stdout"] == "first\n"
    assert kernel.output() == b"first\nlate\nsecond\n"
    assert kernel.output(len("first\n")) == b"late\nsecond\n"


# -- KRN-06

def test_delete_while_it_runs(own_node, machine):
    """Its run and those that wait for their turn have answers, and none of its processes is left."""
    cay.wait_for("other kernels to be gone", lambda: len(own_node.processes(machine)) == 1, 30)
    k, said = Kernel(own_node, machine), []

    def run(code):
        try:
            said.append(own_node.door().call("POST", k.at + "/runs", {"code": code}, timeout_s=60)["end"]["reason"])
        except cay.ApiError as e:
            said.append(e.code)

    asking = [threading.Thread(target=run, args=(code,)) for code in ("import select\nselect.select([], [], [], 600)", "1", "2", "3")]
    asking[0].start()
    cay.wait_for("its run", lambda: k.info()["state"] == "busy", 30)
    for thread in asking[1:]:
        thread.start()
    cay.wait_for("the others to wait", lambda: k.info()["queued"] == 3, 30)
    k.me.call("DELETE", k.at)
    for thread in asking:
        thread.join(60)
    assert len(said) == 4 and set(said) <= {"killed", "signal", "not_found", "wrong_state", "sandbox_gone"}, said
    cay.wait_for("its end", lambda: len(own_node.processes(machine)) == 1, 30)
    with pytest.raises(cay.ApiError, match="not_found"):
        k.info()


@pytest.mark.parametrize("ends", [True, False])
def test_a_client_that_leaves(kernel, ends):
    """It ends its run if it has asked for that; else the run goes on."""
    headers = {"Accept": FRAMES, **({"Prefer": "end-with-caller"} if ends else {})}
    code = "import select\nprint('go', flush=True)\nfor _ in range(40): select.select([], [], [], 0.1)\nprint('done')"
    with contextlib.closing(kernel.me.open("POST", kernel.at + "/runs", {"code": code}, headers, timeout_s=60)) as r:
        said = b""
        while b"go" not in said:
            said += r.read(1)
        r.close()
    cay.wait_for("its end", lambda: kernel.info()["state"] == "idle", 60)
    run = kernel.number(1)
    assert (run["stdout"], run["end"].get("signal")) == (("go\n", "SIGINT") if ends else ("go\ndone\n", None)), run
    fine(kernel)


# -- KRN-04

@pytest.mark.parametrize("code, keeps", [
    ("import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')", True),
    ("import itertools\nsum(itertools.repeat(0))", False)], ids=["looks at signals", "looks at none"])
def test_a_loop_in_c(kernel, own_node, machine, code, keeps):
    """With children in sessions of their own: when the kernel is killed, nothing of its run is left."""
    kernel.run("kept = 7\nimport os, subprocess")
    start = "" if keeps else "subprocess.Popen(['setsid', '-f', 'sleep', '7777'])\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['sleep', '7777'])\n"
    run = kernel.run(start + code, timeout_ms=500)
    assert run["end"]["reason"] == "timeout", run
    if keeps:
        assert run["exception"]["name"] == "KeyboardInterrupt"
        fine(kernel)
        assert texts(kernel.run("kept")) == ["7"]
        return
    cay.wait_for("its end", lambda: kernel.info()["state"] == "ended", 30)
    assert kernel.info()["why"] == "a run did not end when it was stopped"
    own_pids = me_pids(own_node, machine)
    assert not any("7777" in line for line in own_pids), own_pids
    fine(kernel, restarted=True)


def me_pids(node, machine):
    """Command lines of the sandbox's processes, as the host sees them."""
    lines = []
    for pid in node.processes(machine):
        with contextlib.suppress(OSError):
            lines.append(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return lines


@pytest.mark.parametrize("code", [
    "print('go', flush=True)\nimport subprocess\nsubprocess.Popen(['sleep', '8888']).wait()",
    "!echo go; sleep 8888",
    "import subprocess\nchild = subprocess.Popen(['sleep', '8888'])\nprint('go', flush=True)\nwhile True: pass",
    "import subprocess\nchild = subprocess.Popen(['sh', '-c', 'trap \"\" INT; echo ready; sleep 8888; :'], stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\nprint('go', flush=True)\nwhile True: pass",
    "import multiprocessing, signal\np = [multiprocessing.Process(target=signal.pause) for _ in range(4)]\n[x.start() for x in p]\n"
    "print('go', flush=True)\n[x.join() for x in p]"],
    ids=["waits for a child", "shell", "child beside a loop", "child that ignores it", "multiprocessing"])
def test_an_interrupt_ends_the_processes_of_the_run(kernel, own_node, machine, code):
    before = len(own_node.processes(machine))
    kernel.run("kept = 7")
    number = kernel.run(code, detach=True)["number"]
    cay.wait_for("it to be in the code", lambda: kernel.output() == b"go\n", 30)
    kernel.me.call("POST", kernel.at + "/interrupt")
    cay.wait_for("its end", lambda: kernel.info()["state"] == "idle", 30)
    assert kernel.number(number)["end"]["signal"] == "SIGINT"
    cay.wait_for("the end of its processes", lambda: len(own_node.processes(machine)) <= before, 30)
    assert texts(kernel.run("kept")) == ["7"]


# -- kill -9

def restart_edge(node):
    name, = node.edges
    node.kill_daemon(name)
    node.edges = []
    node.start_edge()


def restart_keeper(node):
    node.kill_daemon("cay-keeper")
    node.start_keeper()


KILLS = {"edge": restart_edge, "cayd": lambda node: node.restart_cayd(), "keeper": restart_keeper}
COUNTING = """import time
rest = time.sleep
for i in range(from_, from_ + 300):
    print(i)
    if i % 10 == 0:
        display(i)
    rest(0.005)
last = i
last
"""


@pytest.mark.parametrize("daemon", KILLS)
def test_nothing_is_lost_when_a_daemon_is_killed(own_node, machine, daemon):
    """While a run prints and others wait: every run that was acknowledged is done once, in its order, with all of its output."""
    with Kernel(own_node, machine) as k:
        k.run("from_, steps, kept = 0, [], object()\nfirst = id(kept)")
        counting = k.run(COUNTING, detach=True)["number"]
        acknowledged = [k.run(f"steps.append({i})\nfrom_ = last + 1", detach=True)["number"] for i in range(3)]
        cay.wait_for("output", lambda: k.info()["stdout_bytes"] > 100, 30)
        KILLS[daemon](own_node)
        acknowledged += [k.run(f"steps.append({i})", detach=True)["number"] for i in range(3, 6)]
        assert acknowledged == list(range(counting + 1, counting + 7))
        cay.wait_for("all", lambda: k.info()["state"] == "idle" and not k.info()["queued"], 60)
        run = k.number(counting)
        assert run["stdout"] == "".join(f"{i}\n" for i in range(300)) and run["end"]["exit_code"] == 0
        assert texts(run) == [str(i) for i in range(0, 300, 10)] + ["299"]
        assert k.output() == run["stdout"].encode()
        assert texts(k.run("(steps, id(kept) == first, from_)")) == ["([0, 1, 2, 3, 4, 5], True, 300)"]
        assert k.info()["restarts"] == 0


def test_a_stream_is_taken_up_where_the_edge_cut_it(own_node, machine):
    """A waited run whose client loses its edge goes on; the rest of its output is read by offset."""
    with Kernel(own_node, machine) as k:
        k.run("from_ = 0")
        got = b""
        with contextlib.closing(k.stream(COUNTING)) as r:
            try:
                for kind, stream, _, content in frames_of(r):
                    got += content if (kind, stream) == (1, 1) else b""
                    if len(got) > 200 and own_node.edges:
                        restart_edge(own_node)
            except (OSError, http.client.HTTPException):
                pass
        cay.wait_for("its end", lambda: k.info()["state"] == "idle", 60)
        whole = "".join(f"{i}\n" for i in range(300)).encode()
        assert 200 < len(got) and whole.startswith(got)
        assert got + k.output(len(got)) == whole
        assert k.number(2)["end"]["exit_code"] == 0 and texts(k.run("last")) == ["299"]


# -- as other kernels answer

class Told:
    """A streamed run in the form of kernel_driver.Run."""

    def __init__(self, kernel, code, interrupt):
        self.events, self.stdout, self.stderr, rest = [], b"", b"", b""
        with contextlib.closing(kernel.stream(code)) as r:
            for kind, stream, _, content in frames_of(r):
                if kind == 3:
                    failed = any(letter == "E" for letter, *_ in self.events)  # of one that was interrupted
                    self.status = "error" if json.loads(content).get("exit_code", failed) else "ok"
                elif stream < 3:
                    name = ("stdout", "stderr")[stream - 1]
                    setattr(self, name, getattr(self, name) + content)
                    if interrupt and b"go\n" in self.stdout:
                        interrupt = kernel.me.call("POST", kernel.at + "/interrupt") and False
                else:
                    *lines, rest = (rest + content).split(b"\n")
                    for line in lines:
                        self.event(json.loads(line))
        self.err = self.stderr.decode("utf-8", "replace")

    def event(self, told):
        for name, letter in (("result", "R"), ("exception", "E"), ("clear", "U")):
            if name in told:
                value = {"main": False, "wait": False, **told[name]} if letter != "E" else {"value": "", **told[name]}
                self.events.append((letter, value, len(self.stdout), len(self.stderr)))


@pytest.mark.parametrize("language", ["python", "node", "r"])
def test_cells_through_a_sandbox(own_node, machine, language):
    """The recorded cells of test_kernel_runners, through edge and PID 1; what is expected comes from other kernels."""
    # as test_kernel_runners starts its runners
    env = {"HOME": "/tmp", "USER": "root", "LOGNAME": "root"}
    with Kernel(own_node, machine, language, cwd="/tmp", env=env) as k:
        wrong, _ = compare_cells(language, lambda code, interrupt: Told(k, code, interrupt))
        assert not wrong, "\n".join(wrong)


def test_a_silent_run_can_be_interrupted(kernel):
    kernel.run("kept = 7")
    number = kernel.run("print('go')\nwhile True: pass", silent=True, detach=True)["number"]
    cay.wait_for("it to be in the code", lambda: kernel.output() == b"go\n", 30)
    kernel.me.call("POST", kernel.at + "/interrupt")
    cay.wait_for("its end", lambda: kernel.info()["state"] == "idle", 30)
    run = kernel.number(number)
    assert run["end"]["signal"] == "SIGINT" and run["exception"]["name"] == "KeyboardInterrupt" and "execution_count" not in run
    assert kernel.run("kept")["execution_count"] == 2
