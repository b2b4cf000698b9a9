# SPDX-License-Identifier: Apache-2.0
"""screen - a person's terminal: a pty, what it shows, what it answers and what is left of it"""
import array
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from cay import wait_for

QUESTION = re.compile(rb"\x1b\[5n|(?:\x1b\[(\d+);(\d+)H)?\x1b\[6n|\x1b\[c|\x1b\[21t|\x1b\]52;[^;]*;\?(?:\x07|\x1b\\)|\x05")
ANSWERS = {b"\x1b[5n": b"\x1b[0n", b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62c", b"\x1b[21t": b"\x1b]l$(touch /tmp/owned)\n\x1b\\",
           b"\x05": b"xterm\n"}


KEPT = 1 << 20


class Screen:
    """A program at a terminal.  answers: seconds after which questions in its output are answered, as a
    terminal does that trusts what it is told; None: never."""
    def __init__(self, argv, env, cols=80, rows=24, answers=None):
        self.master, self.slave = pty.openpty()
        self.size(cols, rows)
        self.before = termios.tcgetattr(self.slave)
        self.out, self.answers, self.tail, self.due = bytearray(), answers, b"", []
        self.process = subprocess.Popen(argv, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, cols, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def step(self, seconds):
        """Show what comes, answer what is due."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        new = os.read(self.master, 65536) if ready else b""
        self.out += new
        del self.out[:-KEPT]
        if self.answers is None:
            return
        text, end = self.tail + new, 0
        for m in QUESTION.finditer(text):
            end = m.end()
            self.due.append((time.monotonic() + self.answers, b"\x1b[%s;%sR" % (m.group(1), m.group(2)) if m.group(1) else
                             ANSWERS.get(m.group(), b"\x1b]52;c;c2VjcmV0\x07")))
        self.tail = text[max(end, len(text) - 24):]
        while self.due and self.due[0][0] <= time.monotonic():
            os.write(self.master, self.due.pop(0)[1])

    def until(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.out, re.S)):
            assert time.monotonic() < end and (self.process.poll() is None or select.select([self.master], [], [], 0)[0]), \
                f"{pattern} is not in {bytes(self.out[-600:])}"
            self.step(0.02)
        del self.out[:found.end()]
        return found

    def until_raw(self):
        end = time.monotonic() + 20
        while self.is_restored():
            assert time.monotonic() < end and self.process.poll() is None, bytes(self.out[-600:])
            self.step(0.02)

    def type(self, data):
        os.write(self.master, data)

    def ends(self, seconds=20):
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, bytes(self.out[-600:])
            self.step(0.02)
        while select.select([self.master], [], [], 0)[0]:
            self.step(0)
        return self.process.returncode

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def typed(self, seconds=0.0):
        """What a shell that comes next would read."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step(0.02)
        modes = termios.tcgetattr(self.slave)
        modes[3] &= ~termios.ICANON
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        waiting = array.array("i", [0])
        fcntl.ioctl(self.slave, termios.FIONREAD, waiting)
        return os.read(self.slave, waiting[0]) if waiting[0] else b""

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Tmux:
    """A real terminal emulator, and what it shows."""
    def __init__(self, where):
        self.argv = ["tmux", "-f", "/dev/null", "-S", str(where / "tmux")]

    def __call__(self, *words, env=None):
        for _ in range(3):
            done = subprocess.run([*self.argv, *words], env=env, capture_output=True, text=True, check=False, timeout=20)
            if "server exited" not in done.stderr:  # the one of the session before was about to end
                break
        assert done.returncode == 0, f"tmux {words}: {done.stderr}"
        return done.stdout

    def run(self, name, command, env, stays=False):
        """stays: the screen outlives the program, so that its last words are seen."""
        option = [";", "set-option", "-w", "remain-on-exit", "on"] if stays else []
        self("new-session", "-d", "-s", name, "-x", "90", "-y", "28", command, *option, env=env)

    def shows(self, name):
        return self("capture-pane", "-p", "-e", "-t", name)

    def keys(self, name, *keys):
        self("send-keys", "-t", name, *keys)

    def look_the_same(self, what, one, other, text):
        """Wait until two screens are equal and have this text."""
        def equal():
            return self.shows(one) == self.shows(other) and text in self.shows(other)
        try:
            wait_for(f"{what}: the same screen twice", equal, 30)
        except TimeoutError as e:
            raise TimeoutError(f"{e}\n{one}:\n{self.shows(one)!r}\n{other}:\n{self.shows(other)!r}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([*self.argv, "kill-server"], capture_output=True, check=False)
