# SPDX-License-Identifier: Apache-2.0
"""certs - a CA of our own, and certificates of it for whom and when a test wants"""
import pathlib
import subprocess


class Authority:
    def __init__(self, top, name="ca"):
        self.top = pathlib.Path(top)
        self.file, self.key = str(self.top / f"{name}.pem"), str(self.top / f"{name}.key")
        self._new(name, "keyUsage=critical,keyCertSign", self.key, self.file, "-days", "2")

    def _new(self, name, extension, key, cert, *more):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                        "-addext", extension, "-keyout", key, "-out", cert, *more], check=True, capture_output=True)

    def issue(self, name, names="DNS:localhost", since=None, until=None):
        """Paths of a certificate and its key; times as 20260101000000Z."""
        cert, key = str(self.top / f"{name}.cert"), str(self.top / f"{name}.key")
        days = ["-not_before", since or "20200101000000Z", "-not_after", until or "20990101000000Z"]
        self._new("localhost", f"subjectAltName={names}", key, cert, "-CA", self.file, "-CAkey", self.key, *days,
                  "-addext", "basicConstraints=critical,CA:FALSE")
        return cert, key
