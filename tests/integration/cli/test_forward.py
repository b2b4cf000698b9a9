# SPDX-License-Identifier: Apache-2.0
"""cay port forward: what comes in at once, what is somebody else's, what there is no room for"""
import contextlib
import os
import resource
import signal
import socket
import subprocess
import time

import pytest

from test_cli import wait_for
from test_hostile import box

UP = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: cay-port\r\n\r\n"
MOST = 64


def echo(c, f):
    c.sendall(UP)
    while data := f.read1(65536):
        c.sendall(data)


@pytest.fixture
def forward(daemon, cay):
    """The process, and the port it listens at."""
    with contextlib.ExitStack() as stack:
        def go(answer=echo, local=0, **more):
            daemon.say["GET", "/v1/sandboxes"] = box(name="box")
            daemon.say["GET", "/v1/sandboxes/*/tunnel/80"] = answer
            p = cay.start("port", "forward", "box", f"{local}:80", **more)
            stack.callback(p.communicate)
            stack.callback(p.kill)
            line = p.stderr.readline().decode()
            return p, line if local else int(line.split(":")[2].split()[0])
        yield go


def carried(daemon):
    return sum(path.endswith("/tunnel/80") for _, path, _ in daemon.requests)


def dial(port, host="127.0.0.1"):
    return socket.create_connection((host, port), timeout=30)


def answers(s):
    s.sendall(b"x")
    return s.recv(1) == b"x"


def stays(p, seconds):
    with pytest.raises(subprocess.TimeoutExpired):
        p.wait(seconds)


def test_no_more_at_once_than_there_is_room_for(daemon, forward):
    """With room for one, one comes at each listener."""
    p, port = forward()
    with contextlib.ExitStack() as stack:
        old = [stack.enter_context(dial(port)) for _ in range(MOST - 1)]
        assert all(answers(s) for s in old) and carried(daemon) == MOST - 1
        p.send_signal(signal.SIGSTOP)
        new = [stack.enter_context(dial(port, h)) for h in ("127.0.0.1", "::1")]
        p.send_signal(signal.SIGCONT)
        assert answers(new[0])
        stays(p, 0.3)
        assert carried(daemon) == MOST
        old[0].close()
        assert answers(new[1]) and all(answers(s) for s in old[1:])


def test_the_other_loopback_is_somebody_elses(forward):
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", 0))
        other.listen()
        p, line = forward(local=other.getsockname()[1])
        assert "listen on [::1]:" in line and p.wait(timeout=30) == 2


def spent(p):
    with open(f"/proc/{p.pid}/stat") as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("most", [12, 13])
def test_without_a_descriptor_left_it_waits(daemon, forward, most):
    p, port = forward(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
    with contextlib.ExitStack() as stack:
        some = [stack.enter_context(dial(port)) for _ in range(8)]
        stays(p, 0.2)
        before = spent(p)
        stays(p, 0.8)
        assert spent(p) - before < 0.2
        for s in some:
            s.close()
    stays(p, 0.7)

    def served():
        # one that comes before it has let go of the others may find no room
        with contextlib.suppress(OSError), dial(port) as s:
            return answers(s)
    wait_for(served)


@pytest.mark.parametrize("timeout, want", [("1s", 1), ("60s", 10)] if os.environ.get("CAY_FULL") else [("1s", 1)])
def test_a_port_that_does_not_answer_holds_up_the_others_for_a_while_only(forward, timeout, want):
    _, port = forward(lambda c, f: f.read(), timeout=timeout)
    begin = time.monotonic()
    with dial(port) as s:
        # less than the 10 s that are the most there, or than the 60 that were said
        assert s.recv(1) == b"" and want - 0.1 < time.monotonic() - begin < (8 if want == 1 else 40)
