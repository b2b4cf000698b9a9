# SPDX-License-Identifier: Apache-2.0
"""tlshost - a CA and hosts that do TLS, for tests of cay-broker"""
import contextlib
import os
import socket
import ssl
import subprocess
import threading

OLD = ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]


class Authority:
    """A CA in a directory; certificates of it, and ones that are not valid, by name."""

    def __init__(self, top):
        self.top = top
        self.ca = self.issue("ca", "root", ["-addext", "keyUsage=critical,keyCertSign"], signed=False)[0]
        os.chmod(top, 0o755)

    def issue(self, file, name, more=(), signed=True):
        cert, key = str(self.top / f"{file}.pem"), str(self.top / f"{file}.key")
        by = ["-CA", self.ca, "-CAkey", self.ca.replace(".pem", ".key"), "-addext", "basicConstraints=critical,CA:FALSE"] if signed else []
        names = ["-addext", f"subjectAltName=DNS:{name}"] if "." in name else []
        days = [] if OLD[0] in more else ["-days", "2"]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", *days,
                        *names, *by, *more, "-keyout", key, "-out", cert], check=True, capture_output=True)
        os.chmod(cert, 0o644)
        return cert, key


class Host:
    """A server at a port of this machine: serve(connection) is called with each connection, after the handshake if there is a certificate."""

    def __init__(self, serve, cert=None, version=None):
        self.serve, self.failed, self.alpn = serve, [], []
        self.context = None
        if cert:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*cert)
            self.context.set_alpn_protocols(["h2", "http/1.1"])
            self.context.sni_callback = lambda _, name, __: self.names.append(name)
            if version:
                self.context.minimum_version = self.context.maximum_version = version
        self.names = []

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)

    def run(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            s.settimeout(30)
            with contextlib.suppress(OSError, EOFError), s:
                if self.context:
                    try:
                        s = self.context.wrap_socket(s, server_side=True)
                    except OSError as e:
                        self.failed.append(str(e))
                        continue
                    self.alpn.append(s.selected_alpn_protocol())
                with s:
                    self.serve(s)


def read_head(s):
    """A head with its empty line, byte by byte, so that nothing behind it is lost."""
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        if not byte:
            raise EOFError(got)
        got += byte
    return got


def read_all(s):
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while data := s.recv(1 << 16):
            got += data
    return got
