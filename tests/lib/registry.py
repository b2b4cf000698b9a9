# SPDX-License-Identifier: Apache-2.0
"""A registry of our own on loopback: Debian's docker-registry, public or with a password"""
import http.client
import json
import pathlib
import secrets
import signal
import socket
import subprocess
import tempfile
import threading

import cay


class Registry:
    def __init__(self, user=None, password=None):
        self.port, self.user, self.password = cay.free_port(), user, password
        self.host = f"127.0.0.1:{self.port}"

    def __enter__(self):
        self.top = tempfile.TemporaryDirectory(prefix="cay-registry-")
        top = pathlib.Path(self.top.name)
        config = {"version": 0.1, "log": {"accesslog": {"disabled": False}, "level": "info"},
                  "storage": {"filesystem": {"rootdirectory": str(top / "data")}, "delete": {"enabled": True}},
                  "http": {"addr": self.host, "secret": "x"}}
        if self.user:
            import bcrypt
            hashed = bcrypt.hashpw(self.password.encode(), bcrypt.gensalt(4)).decode()
            (top / "htpasswd").write_text(f"{self.user}:{hashed}\n")
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(top / "htpasswd")}}
        (top / "config.yml").write_text(json.dumps(config))  # YAML, too
        self.log = open(top / "log", "ab")
        self.start()
        return self

    def start(self):
        top = pathlib.Path(self.top.name)
        self.process = subprocess.Popen(["docker-registry", "serve", top / "config.yml"], stdout=self.log, stderr=self.log,
                                        env={"PATH": "/usr/bin:/bin", "OTEL_TRACES_EXPORTER": "none"})

        def up():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.port)) == 0
        cay.wait_for("the registry", up, 60)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def __exit__(self, *_):
        self.stop()
        self.log.close()
        self.top.cleanup()

    def push(self, name, archive):
        """archive: bytes of a docker archive or an OCI layout."""
        at = pathlib.Path(self.top.name, "push.tar")
        at.write_bytes(archive)
        form = "oci-archive" if b"oci-layout" in archive[:600] else "docker-archive"
        creds = ["--dest-creds", f"{self.user}:{self.password}"] if self.user else []
        subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", *creds, f"{form}:{at}",
                        f"docker://{self.host}/{name}"], check=True, capture_output=True, timeout=60)
        return f"{self.host}/{name}"

    def requests(self, what="GET"):
        """Lines of its access log that name this.  They come behind the answers: a question of our own is the last of them."""
        mark = f"/mark-{secrets.token_hex(8)}"
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.request("GET", mark)
        connection.getresponse().read()
        connection.close()
        cay.wait_for("its log", lambda: mark in self._said(), 30)
        return [l for l in self._said().splitlines() if f'"{what} /v2/' in l]

    def _said(self):
        return pathlib.Path(self.top.name, "log").read_text(errors="replace")


class Slow:
    """In front of a registry: lets bytes through slowly, or only the first, and counts connections."""

    def __init__(self, host, stop_at=None, delay_s=0):
        self.to, self.delay_s = host, delay_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.stop_at, self.connections, self.open = stop_at, 0, []
        self.reached = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self.to.split(":"))
            self.open += [client, server]
            threading.Thread(target=self._copy, args=(client, server, None), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client, self.stop_at), daemon=True).start()

    def _copy(self, a, b, limit):
        done = 0
        try:
            while data := a.recv(65536):
                if self.delay_s:
                    cay.let_pass(self.delay_s)
                b.sendall(data)
                done += len(data)
                if limit is not None and done > limit:
                    self.reached.set()
                    threading.Event().wait(3600)  # hangs with the connection open
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # who waits in accept() holds it otherwise
        self.listener.close()
        for s in self.open:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
