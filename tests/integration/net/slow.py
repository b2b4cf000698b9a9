# SPDX-License-Identifier: Apache-2.0
"""slow.py PATH KIND N - hold N connections, for test_slow.py

    idle    they say nothing
    slow    a third sends a head, a third a body, a byte at a time; a third reads
            64 MiB a bit at a time.  Whoever is cut off comes again.

Says "ready" when all are there, then goes on until its input ends.
"""
import select
import socket
import sys

STEP = 0.1  # seconds between two bytes of one connection

HEAD = b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 10000
BODY = b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n"
READ = b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"


class Slow:
    def __init__(self, path, kind):
        self.path, self.kind = path, kind
        self.connect()

    def connect(self):
        self.sent = 0
        self.s = socket.socket(socket.AF_UNIX)
        self.s.connect(self.path)
        self.s.setblocking(False)
        if self.kind in (BODY, READ):
            self.s.send(self.kind)

    def step(self):
        try:
            if self.kind == READ:
                if not self.s.recv(512):
                    raise BrokenPipeError
            elif self.kind == BODY:
                self.s.send(b" ")
            elif self.kind:
                self.s.send(HEAD[self.sent:self.sent + 1])
                self.sent += 1
        except BlockingIOError:
            pass
        except OSError:
            self.s.close()
            self.connect()


def main(path, kind, n):
    kinds = [HEAD, BODY, READ] if kind == "slow" else [None]
    held = [Slow(path, kinds[i % len(kinds)]) for i in range(n)]
    for h in held:
        h.step()
    print("ready", flush=True)
    at = 0
    # a few at a time, so that it is a steady drip and not a wave
    while not select.select([sys.stdin], [], [], STEP * 10 / n)[0]:
        for h in held[at:at + 10]:
            h.step()
        at = at + 10 if at + 10 < n else 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
