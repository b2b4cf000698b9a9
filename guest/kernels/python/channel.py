# SPDX-License-Identifier: Apache-2.0
"""Frames between a kernel and PID 1, and the kernel's stdout and stderr

Requests come on fd 3, events go out on fd 4; docs/adr/0102 has the frames.  The code that runs in
a kernel may change any module, so what is needed to speak to PID 1 is looked up here, once.
"""
import atexit
import fcntl
import io
import json
import os
import struct
import sys
import threading
import time

to_json, from_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode, json.JSONDecoder().decode
head, monotonic, getpid, get_ident = struct.Struct("<IB"), time.monotonic, os.getpid, threading.get_ident
read, write, close, dup2, fstat, exit_now = os.read, os.write, os.close, os.dup2, os.fstat, os._exit


def encoded(value):
    """JSON as bytes without U+0000; half a surrogate pair, which UTF-8 cannot say, becomes a question mark."""
    text = to_json(value)
    if "\\u0000" in text:
        text = to_json(without_null(value))
    return text.encode("utf-8", "replace")


def without_null(value):
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {without_null(k): without_null(v) for k, v in value.items()}
    return [without_null(v) for v in value] if isinstance(value, list) else value


class Output(io.TextIOWrapper):
    """stdout or stderr: written out at each line, and without a line's end at most each 50 ms."""

    def __init__(self, fd, name):
        super().__init__(io.BufferedWriter(io.FileIO(fd, "wb", closefd=False)), "utf-8", "backslashreplace", line_buffering=True)
        self.mode, self.spoken, self._name = "w", 0.0, name

    name = property(lambda self: self._name)

    def write(self, text):
        n = super().write(text)
        now = monotonic()
        if now - self.spoken > 0.05:
            self.spoken = now
            self.flush()
        return n


class Streams:
    """fd 1 and 2 and the files over them; a cell that closed or replaced them does not harm the next."""

    def open(self):
        self.kept = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (1, 2)]
        self.made = [None, None]
        self.mend()

    def mend(self):
        for i, name in ((0, "stdout"), (1, "stderr")):
            try:
                now, then = fstat(i + 1), fstat(self.kept[i])
                same = (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino)
            except OSError:
                same = False
            if not same:
                dup2(self.kept[i], i + 1)
            if self.made[i] is None or self.made[i].closed:
                self.made[i] = Output(i + 1, f"<{name}>")
                setattr(sys, f"__{name}__", self.made[i])
                setattr(sys, name, self.made[i])
            elif getattr(getattr(sys, name, None), "closed", True):
                setattr(sys, name, self.made[i])

    def flush(self):
        for stream in {id(s): s for s in (*self.made, getattr(sys, "stdout", None), getattr(sys, "stderr", None))}.values():
            try:
                stream.flush()
            except Exception:
                pass  # closed, None or the code's own; the next run begins with mend()


class Channel:
    """Frames from and to PID 1, and the moments at which SIGINT may interrupt the code.

    SIGINT raises KeyboardInterrupt only while the code runs (armed) and the runner is not in the
    middle of a frame (shield); else it waits for that moment (pending).  PID 1 sends it after the
    run's C, so what came earlier was for another run and is forgotten.  A thread of the code may
    send results too, so each frame and its answer hold the lock.
    """

    def __init__(self, streams):
        self.streams, self.lock, self.main = streams, threading.RLock(), get_ident()
        self.armed = self.pending = self.silenced = False
        self.shield = 0

    def open(self, *given):
        """Take the fds of requests and events, under numbers that code does not close by chance."""
        self.requests, self.events = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in given)
        for fd in given:
            close(fd)
        os.register_at_fork(after_in_child=self.silence)

    def silence(self):
        """A child that the code forked has our files, but is not the kernel."""
        self.silenced = True
        for fd in (self.requests, self.events):
            close(fd)

    def interrupt(self, number=None, frame=None):
        if self.armed and not self.shield:
            raise KeyboardInterrupt
        self.pending = True

    def __enter__(self):
        if get_ident() == self.main:
            self.shield += 1

    def __exit__(self, *error):
        if get_ident() == self.main:
            self.shield -= 1
            if self.pending and self.armed and not self.shield:
                self.pending = False
                raise KeyboardInterrupt

    def event(self, kind, payload, ask=True):
        """Send one event; with ask, wait until PID 1 has taken it: what is printed next comes after it."""
        with self, self.lock:
            if self.silenced:
                return
            self.streams.flush()
            data = head.pack(len(payload), ord(kind)) + payload
            try:
                while data:
                    data = data[write(self.events, data):]
            except OSError:  # the code closed it, or PID 1 is gone
                exit_now(1)
            while ask and self.take()[0] != "A":
                pass

    def take(self):
        size, kind = head.unpack(self.exactly(head.size))
        return chr(kind), self.exactly(size)

    def exactly(self, size):
        parts = []
        while size:
            part = read(self.requests, min(size, 1 << 20))
            if not part:
                self.leave()
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def request(self):
        kind, payload = self.take()
        return from_json(payload.decode()) if kind == "X" else None

    def leave(self):
        """End the process as its interpreter would, but do not wait for the code's threads."""
        try:
            atexit._run_exitfuncs()
        finally:
            self.streams.flush()
            exit_now(0)
