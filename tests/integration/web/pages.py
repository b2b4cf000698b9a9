# SPDX-License-Identifier: Apache-2.0
"""pages - a web site of somebody else's, and what was said on the way to ours"""
import contextlib
import http.server
import pathlib
import re
import socket
import threading

HTTP = "http:" + "//"
ATTACK = (pathlib.Path(__file__).parent / "attack.js").read_bytes()
PAGE = b"<!doctype html><title>foreign</title><link rel=icon href=data:,><body><script src=/attack.js></script>"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # no connection is kept, so none leads back to us

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        script = self.path == "/attack.js"
        body = ATTACK if script else PAGE
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if script else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Pages:
    def __init__(self, at):
        self.server = http.server.ThreadingHTTPServer(at, Handler)
        self.server.seen = self.seen = []
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()

    def url(self, name="page.example"):
        return f"{HTTP}{name}:{self.port}/"


class Tap:
    """Passes bytes on to the edge and keeps them: browsers do not tell pages, nor tests, all that they send."""
    REQUEST = re.compile(rb"([A-Z]+) (/\S*) HTTP/1\.1\r\n((?:[^\r\n]+\r\n)*)\r\n")
    STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")

    def __init__(self, at, to):
        self.listener = socket.create_server(at)
        self.port, self.to, self.kept, self.sockets = self.listener.getsockname()[1], to, [], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                edge = socket.create_connection(("127.0.0.1", self.to))
                both = [bytearray(), bytearray()]
                self.kept.append(both)
                self.sockets += [client, edge]
                for source, sink, keep in ((client, edge, both[0]), (edge, client, both[1])):
                    threading.Thread(target=self.pump, args=(source, sink, keep), daemon=True).start()

    @staticmethod
    def pump(source, sink, keep):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                keep += data
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def came(self):
        """How many answers since last asked."""
        return sum(len(self.STATUS.findall(bytes(came))) for _, came in self.kept)

    def answers(self):
        """(method, target, status) since last asked; 0: none came."""
        out = []
        for sent, came in self.kept:
            codes = [int(c) for c in self.STATUS.findall(bytes(came))]
            asked = [(m.decode(), t.decode()) for m, t, _ in self.REQUEST.findall(bytes(sent))]
            out += [(*a, codes[i] if i < len(codes) else 0) for i, a in enumerate(asked)]
            sent.clear()  # the connection may go on
            came.clear()
        return out

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for s in self.sockets:
            s.close()
