# SPDX-License-Identifier: Apache-2.0
"""The warmed parent of python kernels: has loaded IPython and some modules, and forks contexts

Started with `--parent MODULE ...`.  fd 3 is then a SOCK_SEQPACKET socket to PID 1.  Each message on
it asks for a context: {"number": n, "env": {…}, "cwd": …} with four fds, the context's stdout,
stderr, requests and events.  A context is forked ahead and twice, so that it is a child of PID 1; this
spare waits for a message, which the parent passes on without reading it.  It then says {"number": n}
on the socket, by which PID 1 has its credentials too, and begins when PID 1 sends it the frame G.
The parent runs nobody's code and keeps nothing of a context.  A spare ends with the parent: PID 1 kills
their cgroup, and its own socket ends.
"""
import array
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import time


MESSAGE = 1 << 17  # bytes at most
FORK_LATER_S = 0.05  # the next spare would take CPU time from the context's first run


def load(modules):
    """Import them; returns why those that are missing could not be."""
    missing = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as e:
            missing[name] = f"{type(e).__name__}: {e}"[:160]
    return missing


def wait_for_contexts(modules, hello, warm_up):
    """Returns in each context, with the fds of its requests and events; the parent ends at the end of fd 3."""
    hello["missing"] = load(modules)
    if len(os.listdir("/proc/self/task")) > 1:
        sys.stderr.write("a module started a thread, which a fork would lose: start it without that module\n")
        sys.exit(4)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=3)
    channel.set_inheritable(False)
    message = bytearray(MESSAGE)
    gc.collect()
    gc.freeze()  # so that collections do not write to the pages that contexts share
    told = asked = False
    while True:
        forked, spare = fork_spare()
        if forked:
            cpus = None if asked else be_ready(warm_up)
            return begin(channel, cpus, *wait_for_request(spare))
        if not told:
            channel.send(json.dumps(hello, ensure_ascii=False).encode("utf-8", "replace"))
            told = True
        size, fds = take_request(channel, message)
        if not give(spare, message, size, fds):  # there was none, or it was killed
            forked, spare = fork_spare()
            if forked:
                return begin(channel, None, *wait_for_request(spare))
            if not give(spare, message, size, fds):
                number = json.loads(message[:size])["number"]
                channel.send(json.dumps({"number": number, "error": "cannot fork a context"}).encode())
        message[:size] = bytes(size)  # it may hold secrets
        for fd in fds:
            os.close(fd)
        asked = bool(select.select([channel], [], [], FORK_LATER_S)[0])


def be_ready(warm_up):
    """Do in a spare what its first run will do: the pages that a run writes to are its own by then."""
    warm_up()
    return use_cpus()


def take_request(channel, message):
    """The next one is in the buffer: its size and fds."""
    fds = array.array("i")
    size, extra, _, _ = channel.recvmsg_into([message], socket.CMSG_SPACE(8 * fds.itemsize))
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
    if not size:
        sys.exit(0)
    return size, list(fds)


def fork_spare():
    """True and its socket in the context; in the parent False and the other end, or None when it cannot be forked now."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        if fork_twice():
            ours.close()
            return True, theirs
    except OSError:
        ours.close()
        ours = None
    theirs.close()
    return False, ours


def give(spare, message, size, fds):
    """Pass a request on to the spare, which is used up then; whether it has it."""
    if not spare:
        return False
    with spare:
        try:
            return socket.send_fds(spare, [memoryview(message)[:size]], fds) == size and bool(spare.recv(1))
        except OSError:
            return False


def wait_for_request(spare):
    with spare:
        message, fds, _, _ = socket.recv_fds(spare, MESSAGE, 8)
        if message:
            spare.send(b"+")  # one that is being killed does not say so
    if len(fds) != 4:  # the parent is gone
        os._exit(0)
    return json.loads(message), fds


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


def begin(channel, cpus, request, fds):
    """Make a context of what the parent was: its own session, output, environment, directory and dice.

    cpus: what use_cpus() returned, or None.
    """
    os.setsid()
    os.dup2(fds[0], 1)
    os.dup2(fds[1], 2)
    os.close(fds[0])
    os.close(fds[1])
    own = {key: os.environ[key] for key in ("HOME", "USER", "LOGNAME", "PATH") if key in os.environ}
    os.environ.clear()
    os.environ.update(own | (request.get("env") or {}))
    time.tzset()
    if cpus is None or cpus != online_cpus():
        use_cpus()
    refused = move_to(request.get("cwd") or "/")
    if "numpy.random" in sys.modules:  # Python's own random does it itself
        sys.modules["numpy.random"].seed()
    channel.send(json.dumps({"number": request["number"]}).encode())
    channel.close()
    if refused:
        os.read(fds[2], 5)  # the frame G: from here on PID 1 knows how it ends
        os.write(2, refused.encode())
        os._exit(5)
    return fds[2:]


def online_cpus():
    """The text of the system's file, or None."""
    try:
        fd = os.open("/sys/devices/system/cpu/online", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, 256)
    except OSError:
        return None
    finally:
        os.close(fd)


def use_cpus():
    """As many as the sandbox has now; the parent may have started with another limit.  Returns the text that says how many."""
    online = online_cpus()
    try:
        most = int((online or b"").strip().rpartition(b"-")[2]) + 1
        os.sched_setaffinity(0, range(4096))
        may = sorted(os.sched_getaffinity(0))
        first = random.SystemRandom().randrange(len(may))
        os.sched_setaffinity(0, (may + may)[first:first + min(most, len(may))])
    except (OSError, ValueError):
        pass
    return online


def move_to(folder):
    try:
        os.chdir(folder)
    except OSError as e:
        return f"cannot start in '{folder}': {e.strerror}\n"
