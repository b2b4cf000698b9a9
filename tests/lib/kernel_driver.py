# SPDX-License-Identifier: Apache-2.0
"""A kernel's runner, started and spoken to as PID 1 does it

    with Kernel("python") as kernel:
        run = kernel.run("1+1")
        run.results[0]["data"]["text/plain"]  # "2"

It checks the frames as strictly as PID 1: a frame that PID 1 would refuse raises Broken.
"""
import ctypes
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

TREE = pathlib.Path(__file__).resolve().parents[2]
HERE = TREE / "guest/kernels"
TEXTS = {"python": ("python/chart.py", "python/channel.py", "python/results.py", "python/parent.py", "python/runner.py"), "node": ("node/runner.js",), "r": ("r/runner.R",)}
ARGV = {
    "python": ["python3", "-c", 'import os,sys; exec(compile(os.fdopen(5,"rb").read(),"<cay kernel>","exec"))'],
    "node": ["node", "--no-warnings", "--no-force-async-hooks-checks", "-e",
             'new Function("require","module","process",require("fs").readFileSync(5,"utf8"))(require,module,process)'],
    "r": ["R", "--no-echo", "--no-restore", "--no-save", "-e", 'source(file("/dev/fd/5"), local = new.env())'],
}
HEAD = struct.Struct("<IB")
MAX_FRAME, MAX_VALUE, MAX_RESULTS, MAX_TYPES, MAX_TYPE = 5 << 20, 4 << 20, 8 << 20, 32, 128


class Broken(Exception):
    """The runner broke the protocol."""


class Ended(Exception):
    """The runner ended; its exit status is the argument."""


def image_root():
    """The files of the image code, unpacked once beside it; None when that image was not made.

    CAY_KERNEL_ROOT names another root to run the kernels in.
    """
    if os.environ.get("CAY_KERNEL_ROOT"):
        return pathlib.Path(os.environ["CAY_KERNEL_ROOT"])
    image = pathlib.Path(os.environ.get("CAY_BUILD", TREE / "build/gcc")).resolve().parent / "images/code"
    if not (image / "index.json").exists():
        return None

    def blob(digest):
        return image / "blobs" / digest.replace(":", "/")

    digest = json.loads((image / "index.json").read_text())["manifests"][0]["digest"]
    root = image.parent / "code.roots" / digest[-16:]
    with open(image.parent / "code.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            shutil.rmtree(root.parent, ignore_errors=True)
            half = root.parent / "half"
            half.mkdir(parents=True)
            for layer in json.loads(blob(digest).read_text())["layers"]:
                subprocess.run(["tar", "-C", half, "-xf", blob(layer["digest"]), "--numeric-owner"], check=True)
            half.rename(root)
    return root


# The image's files with memory for /tmp, as a sandbox has it; what is started keeps its fds and its pid.
ENTER = """root=$1; shift
mount --bind "$root" "$root"; mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
exec chroot "$root" "$@" """


def check(kind, value):
    """What PID 1 does not take."""
    texts = [value]
    while texts:
        one = texts.pop()
        texts += [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else []
        if isinstance(one, str) and "\0" in one:
            raise Broken("U+0000")
    if kind == "R":
        for bundle in (value["data"], value.get("metadata", {})):
            for mime, text in bundle.items():
                if not isinstance(text, str) or len(text) > MAX_VALUE or len(mime) > MAX_TYPE or len(bundle) > MAX_TYPES:
                    raise Broken(f"{mime}: {str(text)[:100]}")


class Run:
    """What one run told.  events: in order, as (kind, value, bytes of stdout before it, bytes of stderr before it)."""

    def __init__(self):
        self.events, self.stdout, self.stderr, self.status, self.cwd, self.count, self.begun = [], b"", b"", None, None, None, False

    def of(self, kind):
        return [value for k, value, *_ in self.events if k == kind]

    results = property(lambda self: self.of("R"))
    errors = property(lambda self: self.of("E"))
    out = property(lambda self: self.stdout.decode("utf-8", "replace"))
    err = property(lambda self: self.stderr.decode("utf-8", "replace"))


def entered(argv, root):
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", ENTER, "enter", str(root), *argv] if root else argv


def text_of(language):
    """The runner's text as PID 1 gives it, in a file that can be read once."""
    source = tempfile.TemporaryFile()
    source.write(b"".join((HERE / name).read_bytes() for name in TEXTS[language]))
    source.seek(0)
    return source


class Kernel:
    def __init__(self, language, root=None, argv=None, parent=None):
        self.language = language
        pipes = [os.pipe() for _ in range(4)]
        child = [pipes[0][1], pipes[1][1], pipes[2][0], pipes[3][1]]
        if parent:
            self.process = parent.fork(child)
        else:
            with text_of(language) as source, open("/dev/null", "rb") as null:
                self.process = self.start(entered(argv or ARGV[language], root), [null.fileno(), *child, source.fileno()])
        for fd in child:
            os.close(fd)
        self.out, self.err, self.requests, self.events = pipes[0][0], pipes[1][0], pipes[2][1], pipes[3][0]
        self.bytes = {self.out: bytearray(), self.err: bytearray()}
        self.seen = {self.out: 0, self.err: 0}
        self.buffer = bytearray()
        for fd in (self.out, self.err, self.events):
            os.set_blocking(fd, False)
        self.hello = None
        if parent:
            self.send("G")

    @staticmethod
    def start(argv, files):
        """The child's fds are 0..5 in that order and no others."""
        high = [os.dup(fd) for fd in files]  # never one of 0..5, which this process has already

        def arrange():
            lifted = [os.dup(fd) for fd in high]
            for i, fd in enumerate(lifted):
                os.dup2(fd, i)
            os.closerange(6, 256)

        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp", "LANG": "C.UTF-8", "NO_COLOR": "1", "PAGER": "cat",
                       "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(argv, preexec_fn=arrange, close_fds=False, env=environment, cwd="/", start_new_session=True)
        for fd in high:
            os.close(fd)
        return process

    def __enter__(self):
        self.wait_ready()
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        """End as PID 1 does: no more requests, then kill what is left."""
        for fd in (self.requests, self.out, self.err, self.events):
            os.close(fd)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def wait_ready(self, timeout=120):
        kind, self.hello = self.next_frame(time.monotonic() + timeout)
        if kind != "H":
            raise Broken(f"first event is {kind}")
        return self.hello

    def send(self, kind, value=None):
        payload = b"" if value is None else json.dumps(value).encode()
        data = HEAD.pack(len(payload), ord(kind)) + payload
        while data:
            data = data[os.write(self.requests, data):]

    def interrupt(self):
        if self.language == "node":
            self.send("I")
        else:
            self.process.send_signal(signal.SIGINT)

    def drain(self):
        """Take what stdout and stderr have now."""
        for fd, kept in self.bytes.items():
            while True:
                try:
                    part = os.read(fd, 1 << 20)
                except BlockingIOError:
                    break
                self.seen[fd] += len(part)
                kept += part
                if not part:
                    break

    def next_frame(self, deadline):
        while True:
            if len(self.buffer) >= HEAD.size:
                size, kind = HEAD.unpack_from(self.buffer)
                if size > MAX_FRAME or chr(kind) not in "HCREUD":
                    raise Broken(f"a frame of type {kind} with {size} bytes")
                if len(self.buffer) >= HEAD.size + size:
                    value = json.loads(bytes(self.buffer[HEAD.size:HEAD.size + size]).decode("utf-8", "strict"),
                                       parse_constant=lambda name: (_ for _ in ()).throw(Broken(name)))
                    del self.buffer[:HEAD.size + size]
                    check(chr(kind), value)
                    return chr(kind), value
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{self.language}: no event; stderr: {bytes(self.bytes[self.err][-2000:])}")
            ready, _, _ = select.select([self.out, self.err, self.events], [], [], left)
            if self.events not in ready:
                self.drain()
                if self.process.poll() is not None:
                    self.drain()
                    raise Ended(self.process.returncode)
                continue
            try:
                part = os.read(self.events, 1 << 20)
            except BlockingIOError:
                continue
            if not part:
                self.process.wait()
                self.drain()
                raise Ended(self.process.returncode)
            self.buffer += part

    def run(self, code, silent=False, env=None, cwd=None, timeout=60, interrupt_when=None, interrupt_after=None):
        """Run code.  interrupt_when: bytes of stdout that, when they are there, make us interrupt the run."""
        run, deadline = Run(), time.monotonic() + timeout
        before = {fd: len(kept) for fd, kept in self.bytes.items()}
        base = dict(self.seen)
        self.send("X", {"code": code, "silent": silent, "env": env or {}} | ({"cwd": cwd} if cwd else {}))
        stop = None
        if interrupt_after is not None:
            stop = threading.Timer(interrupt_after, self.interrupt)
            stop.start()
        while run.status is None:
            if interrupt_when is not None:
                self.wait_output(interrupt_when, before[self.out], deadline)
                interrupt_when = self.interrupt()
            kind, value = self.next_frame(deadline)
            self.drain()
            run.events.append((kind, value, self.seen[self.out] - base[self.out], self.seen[self.err] - base[self.err]))
            if kind in "REU":
                self.send("A")
            elif kind == "C":
                run.begun, run.count = True, value["execution_count"] or None
            elif kind == "D":
                run.status, run.cwd = value["status"], value["cwd"]
        if stop:
            stop.cancel()
        if sum(len(text) for r in run.results for text in r["data"].values()) > MAX_RESULTS:
            raise Broken("results of a run together")
        run.stdout, run.stderr = (bytes(self.bytes[fd][before[fd]:]) for fd in (self.out, self.err))
        return run

    def wait_output(self, wanted, start, deadline):
        while wanted not in self.bytes[self.out][start:]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"stdout is {bytes(self.bytes[self.out][start:])}")
            select.select([self.out], [], [], 1)
            self.drain()


class Context:
    """A process that is our child because we are the subreaper, as PID 1 is."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def send_signal(self, number):
        os.kill(self.pid, number)

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout=None):
        end = time.monotonic() + (timeout or 3600)
        with open(os.pidfd_open(self.pid) if self.returncode is None else os.devnull) as gone:
            if self.returncode is None and not select.select([gone], [], [], max(0, end - time.monotonic()))[0]:
                raise subprocess.TimeoutExpired("context", timeout)
        return self.poll()


class Parent:
    """The warmed parent of python kernels; Kernel("python", parent=…) is a context of it."""

    def __init__(self, root=None, modules=()):
        prctl_subreaper = 36
        ctypes.CDLL(None).prctl(prctl_subreaper, 1, 0, 0, 0)
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with text_of("python") as source, open("/dev/null", "r+b") as null, theirs:
            files = [null.fileno(), null.fileno(), 2, theirs.fileno(), null.fileno(), source.fileno()]
            self.process = Kernel.start(entered([*ARGV["python"], "--parent", *modules], root), files)
        self.socket.settimeout(60)
        self.hello = json.loads(self.socket.recv(4096))
        self.asked = 0

    def fork(self, fds, env=None):
        self.asked += 1
        message = {"number": self.asked, "env": env or {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}, "cwd": "/tmp"}
        socket.send_fds(self.socket, [json.dumps(message).encode()], fds)
        told, more, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
        pid, _, _ = struct.unpack("3i", more[0][2])
        if json.loads(told) != {"number": self.asked}:
            raise Broken(f"{told} of {pid}")
        return Context(pid)

    def close(self):
        self.socket.close()
        return self.process.wait(10)
