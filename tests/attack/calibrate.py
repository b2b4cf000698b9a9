#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/attack/calibrate.py HOSTILE [MODE...] - the same attack under Docker's defaults

Starts Debian's dockerd in a directory of its own, imports an image that is the
program alone and runs it with no capabilities, no network and a plain user, so
that our counts have something to be compared with.  Speaks the engine's API:
the client is another package.
"""
import contextlib
import http.client
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

CGROUP = f"cay-test-docker-{os.getpid()}"


class Engine(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def call(path, method, target, body=None, kind="application/json"):
    engine = Engine(path)
    engine.request(method, target, body if kind != "application/json" or body is None else json.dumps(body),
                   {"Content-Type": kind})
    reply = engine.getresponse()
    data = reply.read()
    if reply.status >= 300:
        raise RuntimeError(f"{method} {target}: {reply.status} {data[:300]!r}")
    return data


def up(path, process, deadline):
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        try:
            call(path, "GET", "/_ping")
            return True
        except OSError:
            try:  # wait for the daemon, or a little
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
    return False


def demultiplex(log):
    """The log stream: 8 bytes of head, the last four a length."""
    out, at = b"", 0
    while at + 8 <= len(log):
        n = int.from_bytes(log[at + 4:at + 8], "big")
        out, at = out + log[at + 8:at + 8 + n], at + 8 + n
    return out.decode(errors="replace")


def remove_cgroups():
    """The engine leaves the parent it was given, in every hierarchy."""
    with open("/proc/self/mountinfo") as f:
        for line in f:
            if " - cgroup" in line:
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(line.split()[4], CGROUP))


def run(hostile, modes, dir):
    sock = os.path.join(dir, "sock")
    with open(os.path.join(dir, "log"), "wb") as log:
        process = subprocess.Popen(
            ["dockerd", "--data-root", os.path.join(dir, "data"), "--exec-root", os.path.join(dir, "exec"),
             "-p", os.path.join(dir, "pid"), "-H", "unix://" + sock, "--iptables=false", "--ip6tables=false",
             "--bridge=none"], stdout=log, stderr=log)
    try:
        if not up(sock, process, time.monotonic() + 60):
            raise RuntimeError("dockerd did not start:\n" + open(os.path.join(dir, "log")).read()[-2000:])
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as t:
            t.add(hostile, "hostile")
            tmp = tarfile.TarInfo("tmp")
            tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
            t.addfile(tmp)
        call(sock, "POST", "/images/create?fromSrc=-&repo=hostile&tag=1", tar.getvalue(), "application/x-tar")
        version = json.loads(call(sock, "GET", "/version"))["Version"]
        for mode in modes:
            box = json.loads(call(sock, "POST", "/containers/create", {
                "Image": "hostile:1", "Cmd": ["/hostile", *mode.split()], "User": "65534", "NetworkDisabled": True,
                "HostConfig": {"CapDrop": ["ALL"], "NetworkMode": "none", "CgroupParent": "/" + CGROUP}}))["Id"]
            call(sock, "POST", f"/containers/{box}/start")
            call(sock, "POST", f"/containers/{box}/wait")
            yield version, mode, demultiplex(call(sock, "GET", f"/containers/{box}/logs?stdout=1&stderr=1"))
            call(sock, "DELETE", f"/containers/{box}?force=1")
    finally:
        process.terminate()
        process.wait(30)
        remove_cgroups()


if __name__ == "__main__":
    work = tempfile.mkdtemp(dir="/var/tmp")
    try:
        for version, mode, text in run(sys.argv[1], sys.argv[2:] or ["probe"], work):
            print(f"# docker {version}, {mode}\n{text}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
