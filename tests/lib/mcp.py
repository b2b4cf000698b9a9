# SPDX-License-Identifier: Apache-2.0
"""mcp - a node with its edges and cay-mcp, and who speaks MCP to it"""
import contextlib
import http.client
import http.server
import itertools
import json
import os
import pathlib
import shutil
import socket
import threading

import cay
import face_world
import shell_fixtures
import world

MCP_UID = 64103
MODERN, LEGACY = "2026-07-28", "2025-11-25"
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"


class McpWorld(face_world.FaceWorld):
    face, uid = "mcp", MCP_UID

    def __init__(self, build, env=None, edges=1, program="cay-mcp"):
        super().__init__(build, {"CAY_MCP_IMAGE": "tiny", **(env or {})}, edges, program)

    def start_mcp(self):
        self.start_face()

    def client(self, credential=None, query="", modern=True):
        return Client(self.port, self.operator_key() if credential is None else credential, query, modern)


class Workshop(McpWorld):
    """One that shows ports, and whose own image has a bash, awk, a web server, and a python3 that only speaks as a kernel's runner does."""

    def start(self):
        self.env.update({"CAY_MCP_IMAGE": "workshop", "CAY_EDGE_PREVIEWS": f"http://preview.localhost:{self.port}"})
        super().start()
        links = [cay.entry(f"bin/{n}", cay.tarfile.SYMTYPE, link="busybox") for n in ("awk", "basename", "dirname", "httpd", "mktemp", "wget")]
        self.image_import("workshop", world.tiny([*world.bash(), *links, cay.file("bin/python3", shell_fixtures.RUNNER, 0o755)]))


class Client:
    """One who speaks MCP as the text says, or not."""
    timeout_s = 30

    def __init__(self, port, credential, query="", modern=True):
        self.port, self.credential, self.query, self.modern = port, credential, query, modern
        self.ids, self.session = itertools.count(1), None

    def meta(self, **more):
        return {META + "protocolVersion": MODERN, META + "clientInfo": {"name": "test", "version": "1"},
                META + "clientCapabilities": {}, **more}

    def headers(self, method, params):
        h = {"Content-Type": "application/json", "Accept": BOTH, "MCP-Protocol-Version": MODERN if self.modern else LEGACY}
        if self.credential:
            h["Authorization"] = "Bearer " + self.credential
        if self.modern:
            h["Mcp-Method"] = method
            if "name" in params:
                h["Mcp-Name"] = params["name"]
        elif self.session:
            h["Mcp-Session-Id"] = self.session
        return h

    def send(self, body, headers, method="POST", timeout_s=None):
        """(status, headers, bytes)"""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s or self.timeout_s)) as c:
            c.request(method, "/mcp" + self.query, body, headers)
            r = c.getresponse()
            return r.status, r.headers, r.read()

    def post(self, method, params=None, headers=None, note=False, progress=None):
        """(status, every message that came)"""
        params = dict(params or {})
        if self.modern:
            params["_meta"] = self.meta()
        if progress is not None:
            params["_meta"] = {**params.get("_meta", {}), "progressToken": progress}
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if note else {"id": next(self.ids)})}
        h = {**self.headers(method, params), **(headers or {})}
        status, got, body = self.send(json.dumps(message), {k: v for k, v in h.items() if v is not None})
        self.session = got.get("Mcp-Session-Id", self.session)
        if got.get("Content-Type", "").startswith("text/event-stream"):
            return status, [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")]
        return status, [json.loads(body)] if body else []

    def ask(self, method, params=None, **more):
        """The result of a request that must work."""
        status, messages = self.post(method, params, **more)
        assert status == 200 and "result" in messages[-1], (status, messages)
        return messages[-1]["result"]

    def tools(self):
        return {t["name"]: t for t in self.ask("tools/list")["tools"]}

    def call(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})


class Bearer(http.server.BaseHTTPRequestHandler):
    """In front of an edge, for programs that cannot be told a credential: adds one, and nothing else."""
    protocol_version = "HTTP/1.1"

    def do(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        head = [self.requestline] + [f"{k}: {v}" for k, v in self.headers.items() if k.lower() not in ("connection", "authorization")]
        head += [f"Authorization: Bearer {self.server.credential}", "Connection: close", "", ""]
        self.close_connection = True
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.server.to))) as s:
            # who leaves here leaves there
            threading.Thread(target=self.watch, args=(s,), daemon=True).start()
            s.sendall("\r\n".join(head).encode() + body)
            with contextlib.suppress(OSError):
                while piece := s.recv(65536):
                    self.wfile.write(piece)

    def watch(self, s):
        with contextlib.suppress(OSError, ValueError):
            self.connection.recv(1, socket.MSG_PEEK)
            s.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_DELETE = do_OPTIONS = do

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def bearer(port, credential, at=0):
    with http.server.ThreadingHTTPServer(("127.0.0.1", at), Bearer) as s:
        s.to, s.credential, s.daemon_threads = port, credential, True
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield s.server_address[1]
        s.shutdown()
