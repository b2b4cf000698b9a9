# SPDX-License-Identifier: Apache-2.0
"""A disk that does not answer: a FUSE server with names and without contents

	with stalled_disk.disk() as d: d.at has `file`, `other` and a directory `dir`.  Who reads or writes one waits.

A request that was taken from the queue and not answered cannot be ended, by a SIGKILL
neither: its process is as one that waits for a disk.  With taken=False requests stay in the
queue, where a SIGKILL reaches.  Whoever asks d.at itself waits, too: never this process.
"""
import contextlib
import ctypes
import errno
import os
import pathlib
import select
import stat
import struct
import subprocess
import tempfile
import threading

LOOKUP, FORGET, GETATTR, SETATTR, UNLINK, RENAME, OPEN, READ, WRITE, RELEASE = 1, 2, 3, 4, 10, 12, 14, 15, 16, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, CREATE, INTERRUPT, BATCH_FORGET, READDIRPLUS, TMPFILE = 25, 26, 27, 28, 29, 34, 35, 36, 42, 44, 51
MUTE = {FORGET, BATCH_FORGET, INTERRUPT}  # nobody waits for an answer
CONTENT = frozenset({READ, WRITE, READDIR, READDIRPLUS})
PARALLEL = 1 << 18  # who looks into a directory does not lock it
DIRECT_IO = 1  # no cache of the kernel's in between
ROOT, FILE, OTHER, DIR, NEW = range(1, 6)
MODES = {n: (stat.S_IFDIR | 0o777 if n in (ROOT, DIR) else stat.S_IFREG | 0o666) for n in (ROOT, FILE, OTHER, DIR, NEW)}
NAMES = {b"file": FILE, b"other": OTHER, b"dir": DIR}
SIZE = 1 << 20
NOSUID, NODEV = 2, 4


class Unavailable(Exception):
    """This machine has no FUSE."""


def attributes(node):
    size = SIZE if node in (FILE, OTHER) else 0
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, MODES[node], 1, 0, 0, 0, 4096, 0)


def entry(node):
    return struct.pack("<4Q2I", node, 1, 3600, 3600, 0, 0) + attributes(node)


def opened():
    return struct.pack("<QII", 1, DIRECT_IO, 0)


class Disk:
    def __init__(self, at, taken, hold):
        self.at, self.taken, self.hold = pathlib.Path(at), taken, set(hold)
        self.held = {}  # unique: opcode
        self.frozen = True
        self.made = set()  # names, as far as they were made here
        self.lock = threading.Lock()
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as e:
            raise Unavailable(str(e)) from e
        self.wake, self.waker = os.pipe2(os.O_CLOEXEC)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"stalled", os.fsencode(at), b"fuse", NOSUID | NODEV, options):
            e = ctypes.get_errno()
            os.close(self.fd)
            raise Unavailable(os.strerror(e))
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        if not self.ready.wait(10):
            raise Unavailable("the kernel does not begin")

    def reply(self, unique, body=b"", error=0):
        with contextlib.suppress(OSError):  # who asked may be gone
            os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def answer(self, op, unique, node, rest):
        if op == INIT:
            self.reply(unique, struct.pack("<4I2HI", 7, 31, 0, PARALLEL, 64, 48, 1 << 20).ljust(64, b"\0"))
            self.ready.set()
        elif op == LOOKUP:
            name = rest.split(b"\0")[0]
            found = NAMES.get(name) or (NEW if name in self.made else None)
            self.reply(unique, entry(found) if found else b"", 0 if found else errno.ENOENT)
        elif op in (GETATTR, SETATTR):
            self.reply(unique, struct.pack("<QII", 3600, 0, 0) + attributes(node))
        elif op in (OPEN, OPENDIR):
            self.reply(unique, opened())
        elif op == CREATE:
            self.made.add(rest[16:].split(b"\0")[0])
            self.reply(unique, entry(NEW) + opened())
        elif op == TMPFILE:
            self.reply(unique, entry(NEW) + opened())
        elif op == UNLINK:
            self.made.discard(rest.split(b"\0")[0])
            self.reply(unique)
        elif op in (READ, READDIR, READDIRPLUS, WRITE, RENAME):
            self.reply(unique, error=errno.EIO)
        elif op in (RELEASE, RELEASEDIR, FLUSH, ACCESS):
            self.reply(unique)
        else:
            self.reply(unique, error=errno.ENOSYS)

    def serve(self):
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        poll.register(self.fd, select.POLLIN)
        while self.wake not in [fd for fd, _ in poll.poll()]:
            if self.ready.is_set() and self.frozen and not self.taken:
                poll.unregister(self.fd)  # it stays in the queue
                continue
            try:
                request = os.read(self.fd, 2 << 20)
            except OSError as e:
                if e.errno in (errno.EAGAIN, errno.EINTR, errno.ENOENT):
                    continue
                return  # unmounted
            _, op, unique, node = struct.unpack_from("<IIQQ", request)
            if op in MUTE:
                continue
            with self.lock:
                if self.frozen and op in self.hold:
                    self.held[unique] = op
                    continue
            self.answer(op, unique, node, request[40:])

    def end(self):
        if self.thread.is_alive():
            os.write(self.waker, b"x")
            self.thread.join(10)

    def thaw(self):
        """It answers again: what was waited for has failed."""
        with self.lock:
            held, self.held, self.frozen = self.held, {}, False
        for unique in held:
            self.reply(unique, error=errno.EIO)
        if not self.taken:
            self.end()
            os.read(self.wake, 1)
            self.thread = threading.Thread(target=self.serve, daemon=True)
            self.thread.start()

    def close(self):
        """It is torn out: all that wait are told, none is left."""
        self.end()
        for fd in (self.fd, self.wake, self.waker):
            os.close(fd)


@contextlib.contextmanager
def disk(taken=True, hold=CONTENT):
    with tempfile.TemporaryDirectory(dir="/tmp") as at:
        d = Disk(at, taken, hold)
        try:
            yield d
        finally:
            d.close()
            subprocess.run(["umount", "-l", at], check=True)
