# SPDX-License-Identifier: Apache-2.0
"""The warmed parent of python kernels: has loaded IPython and some modules, and forks contexts

Started with `--parent MODULE ...`.  fd 3 is then a SOCK_SEQPACKET socket to PID 1.  Each message on
it asks for a context: {"env": {…}, "cwd": …} with four fds, the context's stdout, stderr, requests
and events.  A context is forked twice, so that it is a child of PID 1, and says {"pid": n} on the
socket, by which PID 1 has its credentials too.  It begins when PID 1 sends it the frame G.  The
parent runs nobody's code and keeps nothing of a context.
"""
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
import time


def wait_for_contexts(modules, hello):
    """Returns in each context, with the fds of its requests and events; the parent ends at the end of fd 3."""
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as e:
            sys.stderr.write(f"cay: the parent of python kernels cannot load {name}: {type(e).__name__}: {e}\n")
    if len(os.listdir("/proc/self/task")) > 1:
        sys.stderr.write("cay: a module of the parent of python kernels started a thread, which a fork would lose\n")
        sys.exit(4)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # so that collections do not write to the pages that contexts share
    channel = socket.socket(fileno=3)
    channel.set_inheritable(False)
    channel.send(json.dumps(hello).encode())
    while True:
        message, fds, _, _ = socket.recv_fds(channel, 1 << 20, 8)
        if not message:
            sys.exit(0)
        try:
            request = json.loads(message)
            if len(fds) != 4 or not isinstance(request, dict):
                raise ValueError("a context is an object and four fds")
            forked = fork_twice()
        except (OSError, ValueError) as e:
            forked = False
            channel.send(json.dumps({"error": str(e)}).encode())
        if forked:
            return begin(channel, request, fds)
        for fd in fds:
            os.close(fd)
        message = request = None  # they may hold secrets


def fork_twice():
    """True in the context, which is a child of PID 1 by then; in the parent False."""
    waiting, held = os.pipe()
    child = -1
    try:
        child = os.fork()
        if not child:
            os.close(held)
            orphan()
            os.read(waiting, 1)  # ends when the parent has waited for the process between them
            return True
        if os.waitpid(child, 0)[1]:
            raise OSError("cannot fork a context")
    finally:
        os.close(waiting)
        if child:
            os.close(held)
    return False


def orphan():
    """Fork, and end: only the child returns."""
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)


def begin(channel, request, fds):
    """Make a context of what the parent was: its own session, output, environment, directory and dice."""
    os.setsid()
    os.dup2(fds[0], 1)
    os.dup2(fds[1], 2)
    os.close(fds[0])
    os.close(fds[1])
    own = {key: os.environ[key] for key in ("HOME", "USER", "LOGNAME", "PATH") if key in os.environ}
    os.environ.clear()
    os.environ.update(own | (request.get("env") or {}))
    time.tzset()
    use_cpus()
    refused = move_to(request.get("cwd") or "/")
    if "numpy.random" in sys.modules:  # Python's own random does it itself
        sys.modules["numpy.random"].seed()
    channel.send(json.dumps({"pid": os.getpid()}).encode())
    channel.close()
    if refused:
        os.read(fds[2], 5)  # the frame G: from here on PID 1 knows how it ends
        os.write(2, refused.encode())
        os._exit(5)
    return fds[2:]


def use_cpus():
    """As many as the sandbox has now; the parent may have started with another limit."""
    try:
        with open("/sys/devices/system/cpu/online", encoding="ascii") as f:
            most = int(f.read().strip().rpartition("-")[2]) + 1
        os.sched_setaffinity(0, range(4096))
        may = sorted(os.sched_getaffinity(0))
        first = random.SystemRandom().randrange(len(may))
        os.sched_setaffinity(0, (may + may)[first:first + min(most, len(may))])
    except (OSError, ValueError):
        pass


def move_to(folder):
    try:
        os.chdir(folder)
    except OSError as e:
        return f"cannot start in '{folder}': {e.strerror}\n"
