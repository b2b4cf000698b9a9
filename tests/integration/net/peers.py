# SPDX-License-Identifier: Apache-2.0
"""Others who read HTTP, for comparison: nginx, HAProxy and Node, each on a unix socket

Whoever takes a request answers with what it took, as JSON: method, target and
body.  Node does so itself, the proxies (and our relay) by asking capture()
behind them.  So what a reader made of some bytes is read from its own replies.
"""
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

NGINX = """
daemon off; master_process off; pid {dir}/pid; error_log {dir}/log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
    uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    large_client_header_buffers 4 64k; client_max_body_size 0;
    server {{ listen unix:{path}; location / {{ proxy_pass http:{slashes}unix:{upstream}; }} }}
}}
"""
HAPROXY = """
global
    tune.bufsize 65536
    tune.http.maxhdr 200
defaults
    mode http
    timeout client 10s
    timeout server 10s
    timeout connect 10s
    option http-buffer-request
frontend in
    bind unix@{path}
    default_backend out
backend out
    server capture unix@{upstream}
"""
NODE = """
require('http').createServer((q, r) => {
    const parts = [];
    q.on('data', d => parts.push(d));
    q.on('end', () => {
        const text = JSON.stringify({method: q.method, target: q.url, body: Buffer.concat(parts).toString('latin1')});
        r.setHeader('Content-Length', Buffer.byteLength(text));
        r.end(text);
    });
}).listen(process.argv[2]);
"""


def capture(path):
    """Behind a proxy: says what came out of it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1024)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def answer(c):
    try:
        with c, c.makefile("rb") as f:
            method, target, _ = f.readline().decode("latin1").split(" ")
            headers = {}
            for line in iter(f.readline, b"\r\n"):
                name, _, value = line.decode("latin1").partition(":")
                headers[name.lower()] = value.strip()
            body = chunks(f) if "transfer-encoding" in headers else exactly(f, int(headers.get("content-length", 0)))
            text = json.dumps({"method": method, "target": target, "body": body.decode("latin1")}).encode()
            c.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    except (OSError, ValueError):
        pass  # cut off: then nothing was taken


def exactly(f, n):
    data = f.read(n)
    if len(data) != n:
        raise ValueError("cut off")
    return data


def chunks(f):
    body = b""
    while True:
        n = int(f.readline(), 16)
        if not n:
            while f.readline() not in (b"\r\n", b""):
                pass
            return body
        body += exactly(f, n)
        if exactly(f, 2) != b"\r\n":
            raise ValueError("a chunk without an end")


class Peer:
    """A program that listens on a path; write: what goes into its file, run: its command."""

    def __init__(self, directory, name, write="", run=(sys.executable, __file__, "{path}")):
        self.path, self.dir = f"{directory}/{name}", f"{directory}/{name}.d"
        os.mkdir(self.dir)
        names = {"dir": self.dir, "path": self.path, "upstream": f"{directory}/u", "slashes": "//"}
        with open(f"{self.dir}/conf", "w", encoding="ascii") as f:
            f.write(write.format(**names) if write != NODE else write)
        self.log = open(f"{self.dir}/out", "w+b")
        self.process = subprocess.Popen([a.format(**names) for a in run], stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self.up():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                raise RuntimeError(f"{name} does not start: {self.log.read().decode()[-1000:]}")
            threading.Event().wait(0.02)

    def up(self):
        try:
            self.connect().close()
            return True
        except OSError:
            return False

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path)
        return s

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def start(directory):
    """Each in a process of its own, and what the proxies ask behind them; {name: Peer}."""
    rows = [
        ("nginx", NGINX, ["nginx", "-e", "{dir}/log", "-c", "{dir}/conf"]),
        ("haproxy", HAPROXY, ["haproxy", "-db", "-f", "{dir}/conf"]),
        ("node", NODE, ["node", "--max-http-header-size=65536", "{dir}/conf", "{path}"]),
    ]
    return {name: Peer(directory, name, write, run) for name, write, run in rows}


def replies(data, head=False):
    """(status, headers, body) of each final reply in data, and what is left behind them."""
    found = []
    while b"\r\n\r\n" in data:
        text, rest = data.split(b"\r\n\r\n", 1)
        line, *lines = text.decode("latin1").split("\r\n")
        if not re.fullmatch(r"HTTP/1\.[01] \d{3}( .*)?", line):
            break
        headers = {k.lower(): v.strip() for k, _, v in (l.partition(":") for l in lines)}
        status = int(line.split(" ")[1])
        n = 0 if status < 200 or (head and not found) else int(headers.get("content-length", 0))
        if headers.get("transfer-encoding") == "chunked":
            n = rest.index(b"0\r\n\r\n") + 5
        if len(rest) < n:
            break
        if status >= 200:
            found.append((status, headers, rest[:n]))
        data = rest[n:]
    return found, data


if __name__ == "__main__":
    capture(sys.argv[1])
