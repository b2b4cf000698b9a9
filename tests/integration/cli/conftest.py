# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the command line's tests"""
import os
import pathlib
import subprocess
import tempfile

import pytest

import fake as fake_daemon

CAY = os.path.abspath(os.environ.get("CAY_PROGRAM", "build/gcc/src/cli/cay"))


@pytest.fixture
def daemon():
    with tempfile.TemporaryDirectory() as d:
        f = fake_daemon.Fake(pathlib.Path(d) / "control.sock")
        yield f
        f.stop()


@pytest.fixture
def cay(daemon):
    def start(*words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout="30s", **kw):
        env = {**os.environ, "CAY_SOCKET": daemon.path, "CAY_TIMEOUT": timeout}
        return subprocess.Popen([CAY, *words], stdin=stdin, stdout=stdout, stderr=stderr, env=env, **kw)

    def run(*words, text=True, data=None, **kw):
        p = start(*words, stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL, **kw)
        out, err = p.communicate(data, timeout=60)
        if text:
            out = out.decode()
        return subprocess.CompletedProcess(words, p.returncode, out, (err or b"").decode())

    run.start, run.program = start, CAY
    return run
