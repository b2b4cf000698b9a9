#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/net.py BUILD [GROUP...] - rows of the transport: our server and relay, against nginx

Both stand in front of the same origin on a unix socket, one process each, and get the
same requests in turns.  What is compared is the CPU time a process used per request
(/proc/PID/schedstat), which the rest of the machine disturbs little; the median of the
rounds.  CAY_FULL=1 measures at the sizes the goals are for.

    proxy_small        a request for 100 bytes; also with connections to the origin kept
    proxy_64k          a request for 64 KiB
    tls_small          proxy_small behind TLS
    stalled_downloads  what four downloads of 300 MB take of us when nobody reads them
    idle_ws            what an upgraded connection takes of us when nobody says anything
"""
import contextlib
import json
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

FULL = os.environ.get("CAY_FULL") == "1"
ROUNDS, CONNS = 15, 64
EXECS = "/v1/sandboxes/sb0001000g00000000000000tr/execs"
SMALL = EXECS + "/ex0001000g00000000000000tr"
MIDDLE, LARGE = EXECS, SMALL + "/output"
TLS_FILES = """openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost
    -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"""
NGINX = """
worker_processes 1; master_process off; daemon off; pid {dir}/nginx.pid; error_log {dir}/nginx.log crit;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u;
    scgi_temp_path {dir}/s;
    upstream origin {{ server unix:{dir}/origin; {keep} }}
    server {{
        listen 127.0.0.1:{port} {tls};
        ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;
        location / {{
            proxy_pass {http}//origin; proxy_buffering off; proxy_http_version 1.1;
            proxy_set_header Host sandbox; proxy_set_header Connection "{connection}";
        }}
    }}
}}
"""


def say(**row):
    print(json.dumps(row), flush=True)


def cpu_ns(pid):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def rss_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def settled(pid):
    """Its memory when it has not changed for a while."""
    last, since, deadline = rss_kib(pid), time.monotonic(), time.monotonic() + 60
    while time.monotonic() - since < 1.5:
        if time.monotonic() > deadline:
            raise RuntimeError("its memory does not stop growing")
        threading.Event().wait(0.1)
        now = rss_kib(pid)
        if now != last:
            last, since = now, time.monotonic()
    return last


class Bench:
    def __init__(self, build, work):
        self.programs, self.dir, self.started = pathlib.Path(build).resolve() / "tests/bench", work, []
        subprocess.run(TLS_FILES.split(), cwd=work, check=True, capture_output=True)
        origin = socket.socket(socket.AF_UNIX)
        origin.bind(f"{work}/origin")
        origin.listen(4096)
        self.start(origin, "proxy", "origin")

    def start(self, listener, *args):
        fd = listener.fileno()
        process = subprocess.Popen([self.programs / args[0], *args[1:]], pass_fds=(3,),
                                   preexec_fn=lambda: os.dup2(fd, 3, inheritable=True))
        listener.close()
        self.started.append(process)
        return process

    def ours(self, mode, tls):
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        port = listener.getsockname()[1]
        files = [f"{self.dir}/cert.pem", f"{self.dir}/key.pem"] if tls else []
        return port, self.start(listener, "proxy", mode, f"{self.dir}/origin", *files)

    def nginx(self, mode, tls):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        conf = NGINX.format(http="http:", dir=self.dir, port=port, tls="ssl" if tls else "",
                            keep="keepalive 128; keepalive_requests 1000000000;" if mode == "control" else "",
                            connection="" if mode == "control" else "close")
        pathlib.Path(self.dir, "nginx.conf").write_text(conf)
        process = subprocess.Popen(["nginx", "-e", f"{self.dir}/nginx.err", "-c", f"{self.dir}/nginx.conf"])
        self.started.append(process)
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                return port, process
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError("nginx did not start: " + pathlib.Path(self.dir, "nginx.err").read_text())
            threading.Event().wait(0.05)

    def get(self, port, target, n, tls):
        subprocess.run([self.programs / "load", "get", str(port), target, str(CONNS), str(n),
                        *([f"{self.dir}/cert.pem"] if tls else [])], check=True)

    @contextlib.contextmanager
    def held(self, what, port, conns):
        with subprocess.Popen([self.programs / "load", what, str(port), LARGE, str(conns)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as p:
            if p.stdout.readline() != "ready\n":
                raise RuntimeError(f"load {what} failed")
            yield
            p.stdin.close()

    def stop(self):
        for process in reversed(self.started):
            process.terminate()
            process.wait(10)


def against_nginx(b, name, target, n, goal, what, mode="sandbox", tls=False):
    n = n * 5 if FULL else n
    both = {"ours": b.ours(mode, tls), "nginx": b.nginx(mode, tls)}
    used = {key: [] for key in both}
    for port, _ in both.values():
        b.get(port, target, n, tls)
    for _ in range(ROUNDS):
        for key, (port, process) in both.items():
            before = cpu_ns(process.pid)
            b.get(port, target, n, tls)
            used[key].append((cpu_ns(process.pid) - before) / n / 1000)
    ours, theirs = (round(statistics.median(used[key]), 2) for key in both)
    memory = {key: rss_kib(process.pid) // 1024 for key, (_, process) in both.items()}
    say(name=name, unit="us", n=n * ROUNDS, value=ours, baseline={"name": "nginx, proxy_buffering off", "value": theirs},
        note=f"CPU a request: {what}; {CONNS} connections; least {min(used['ours']):.1f} and "
             f"{min(used['nginx']):.1f}; MiB {memory['ours']} and {memory['nginx']}; goal ratio {goal}")


def proxy_small(b):
    against_nginx(b, "proxy_small", SMALL, 6000, 1.0, "100 bytes, a connection to the origin each")
    against_nginx(b, "proxy_small_kept", SMALL, 6000, 1.0, "100 bytes, connections to the origin kept", "control")


def proxy_64k(b):
    against_nginx(b, "proxy_64k", MIDDLE, 2000, 0.6, "64 KiB, a connection to the origin each")


def tls_small(b):
    against_nginx(b, "tls_small", SMALL, 6000, 1.0, "100 bytes behind TLS, a connection to the origin each", tls=True)


def stalled_downloads(b):
    port, process = b.ours("sandbox", False)
    b.get(port, MIDDLE, 200, False)
    before = settled(process.pid)
    with b.held("stall", port, 4):
        grown = settled(process.pid) - before
    say(name="stalled_downloads", unit="MiB", n=4, value=round(grown / 1024, 2), baseline={"name": "the goal", "value": 8},
        note="how our memory grows by four downloads of 300 MB whose client does not read")


def idle_ws(b):
    room = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200) // 2
    n = min(10000 if FULL else 2000, room)
    port, process = b.ours("sandbox", False)
    with b.held("upgrade", port, 20):
        before = settled(process.pid)
        with b.held("upgrade", port, n):
            grown = settled(process.pid) - before
    say(name="idle_ws", unit="KiB", n=n, value=round(grown / n, 2), baseline={"name": "the goal", "value": 8},
        note="how our memory grows by an upgraded connection in which nobody says anything, both sides of it")


GROUPS = {f.__name__: f for f in (proxy_small, proxy_64k, tls_small, stalled_downloads, idle_ws)}

if __name__ == "__main__":
    build, names = sys.argv[1], sys.argv[2:] or list(GROUPS)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(dir="/tmp") as work:
        bench = Bench(build, work)
        try:
            for name in names:
                GROUPS[name](bench)
        finally:
            bench.stop()
