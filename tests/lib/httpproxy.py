# SPDX-License-Identifier: Apache-2.0
"""httpproxy - an HTTP proxy as company networks have them, in a network namespace of another process

    httpproxy.py LOG CONF

It is Python's HTTP server.  CONF is JSON: `at` addresses and ports, `names` that it knows, `login` the Proxy-Authorization it wants, and
`replies` what it sends for a target instead of connecting: a text, or null for nothing at all.  Each CONNECT is a line of JSON in LOG.
"""
import contextlib
import http.server
import json
import select
import socket
import subprocess
import sys
import threading


def copy(one, other):
    """Both ways, until both have ended."""
    to = {one: other, other: one}
    with contextlib.suppress(OSError):
        while to:
            for s in select.select(list(to), [], [])[0]:
                if data := s.recv(1 << 16):
                    to[s].sendall(data)
                else:
                    to.pop(s).shutdown(socket.SHUT_WR)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    conf = {}

    def do_CONNECT(self):
        self.close_connection = True
        login = self.headers.get("Proxy-Authorization", "")
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps({"target": self.path, "host": self.headers.get("Host"), "login": login, "version": self.request_version}) + "\n")
        if login != self.conf.get("login", login):
            self.send_error(407)
        elif self.path in self.conf["replies"]:
            if reply := self.conf["replies"][self.path]:
                self.wfile.write(reply.encode("latin-1"))
            while reply is None and self.connection.recv(1 << 16):
                pass
        else:
            self.connect(*self.path.rsplit(":", 1))

    def connect(self, host, port):
        address = self.conf["names"].get(host, host).strip("[]")
        try:
            with socket.create_connection((address, int(port)), 10) as there:
                self.send_response(200, "Connection established")
                self.end_headers()
                there.settimeout(None)
                copy(self.connection, there)
        except OSError:
            self.send_error(502)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Proxy:
    """One in the namespace of a lab; the addresses it listens at are hosts of the lab."""

    def __init__(self, net, log, at, names=(), replies=(), **more):
        self.log, conf = log, {"at": at, "names": dict(names), "replies": dict(replies), **more}
        log.write_text("")
        self.process = subprocess.Popen(["nsenter", "-t", str(net.child.pid), "-n", sys.executable, __file__, str(log), json.dumps(conf)],
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "up\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def requests(self):
        """Those since the last call."""
        rows = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.log.write_text("")
        return rows

    def asked(self):
        return [r["target"] for r in self.requests()]


def main():
    Handler.conf = json.loads(sys.argv[2])
    threads = [threading.Thread(target=Server(tuple(at), Handler).serve_forever) for at in Handler.conf["at"]]
    for t in threads:
        t.start()
    print("up", flush=True)
    threads[0].join()


if __name__ == "__main__":
    main()
