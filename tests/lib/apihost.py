# SPDX-License-Identifier: Apache-2.0
"""apihost - hosts of an API and of git over https, in a network namespace of another process

    apihost.py LOG REPOSITORIES ADDRESS CERTIFICATE KEY [ADDRESS CERTIFICATE KEY]...

Each request is a line of JSON in LOG.  /echo sends the head back, /error too and says that it failed, /redirect leads to /echo of another host
and tells it the target of this request, /plain to http, /git/ is git's own server, which wants the password in PASSWORD.
"""
import base64
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading

PASSWORD = "robot:ghp_0123456789abcdefghij"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self):
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps({"at": self.server.server_address[0], "method": self.command, "path": self.path, "headers": self.headers.items()}) + "\n")
        n = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(n)
        while self.headers.get("Transfer-Encoding") == "chunked":
            size = int(self.rfile.readline(), 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                break
        if self.path.startswith("/git/"):
            self.git(body)
        elif self.path.startswith("/redirect"):
            self.reply(302, b"", ("Location", "https:" + "//evil.lab.example/echo?of=" + self.path))
        elif self.path.startswith("/plain"):
            self.reply(301, b"", ("Location", "http:" + "//api.lab.example" + self.path))
        elif self.path.startswith("/error"):
            self.reply(500, f"{self.requestline}\n{self.headers}".encode(), ("WWW-Authenticate", "Bearer realm=" + self.headers.get("Authorization", "none")))
        else:
            self.reply(200, str(self.headers).encode() + body, ("X-Echo", self.headers.get("Authorization", "none")))

    do_GET = do_POST = do_TRACE = do_TRACK = handle_one

    def log_message(self, *_):
        pass

    def git(self, body):
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(PASSWORD.encode()).decode():
            self.reply(401, b"", ("WWW-Authenticate", "Basic"))
            return
        path, _, query = self.path.partition("?")
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": sys.argv[2], "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path.removeprefix("/git"),
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
               "REMOTE_USER": "robot", "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        out = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
        status = next((int(v.split()[0]) for k, v in headers if k == "Status"), 200)
        self.reply(status, content, *[h for h in headers if h[0] != "Status"])


def main():
    threads = []
    for address, cert, key in zip(*[iter(sys.argv[3:])] * 3, strict=True):
        server = http.server.ThreadingHTTPServer((address, 443), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threads.append(threading.Thread(target=server.serve_forever))
        threads[-1].start()
    print("up", flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
