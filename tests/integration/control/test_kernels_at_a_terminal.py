# SPDX-License-Identifier: Apache-2.0
"""`cay kernel` and real kernels: what the API says is what a person sees"""
import base64
import json
import os
import subprocess

import pytest
from cay import wait_for
from screen import Screen
from test_kernels import Kernel, box  # noqa: F401

pytestmark = pytest.mark.one_lane  # its sandbox
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9])\nplt.show()\n'a\\x1b[2Jb'"


@pytest.fixture
def cay(daemon, tmp_path):
    def run(*words, data=b""):
        r = subprocess.run([daemon.programs["cay"], *words], input=data, capture_output=True, check=False, timeout=120, cwd=tmp_path, env=env)
        return r.returncode, r.stdout.decode(), r.stderr.decode()
    env = run.env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm", "LANG": "C.UTF-8", "CAY_SOCKET": str(daemon.socket),
                     **{k: v for k, v in os.environ.items() if k.startswith(("ASAN", "UBSAN"))}}
    run.program = daemon.programs["cay"]
    return run


def test_a_picture_is_the_one_of_the_api(daemon, box, cay, tmp_path):  # noqa: F811
    (tmp_path / "plot.py").write_text(PLOT)
    assert cay("kernel", "run", box, "plot.py") == (0, "picture-1.png\n'a\\x1b[2Jb'\n", "")
    status, out, _ = cay("kernel", "run", "--json", box, "plot.py")
    run = json.loads(out)
    with Kernel(daemon, box) as k:
        same = k.run(PLOT)
    pictures = [[r["data"]["image/png"] for r in one["results"] if "image/png" in r["data"]] for one in (run, same)]
    assert status == 0 and pictures[0] == pictures[1] and len(pictures[0]) == 1
    assert (tmp_path / "picture-1.png").read_bytes() == base64.b64decode(pictures[0][0], validate=True)
    assert daemon.call("GET", f"/v1/sandboxes/{box}/kernels")["kernels"] == []


def test_variables_exceptions_and_ends(daemon, box, cay):  # noqa: F811
    status, kernel, _ = cay("kernel", "create", "-n", "main", box)
    assert status == 0 and kernel.startswith("kn")
    assert cay("kernel", "run", "-k", "main", "-c", "x = 20\nprint('hi', end='')", box) == (0, "hi", "")
    assert cay("kernel", "run", "-k", "main", box, data=b"import sys\nprint('err', file=sys.stderr)\nx + 1") == (0, "21\n", "err\n")
    status, out, err = cay("kernel", "run", "-k", "main", "-c", "class E(Exception): pass\nE.__name__ = 'a\\x1b]0;t\\x07'\nraise E('b\\x1b[2J\\x9b')", box)
    assert (status, out) == (1, "") and "\x1b" not in err and "\x9b" not in err and "\\x1b]0;t" in err and "Traceback" in err
    assert cay("kernel", "run", "-k", "main", "-T", "300ms", "-c", "while True: pass", box)[0] == 124
    assert cay("kernel", "run", "-k", "main", "-c", "x", box)[:2] == (0, "20\n")
    assert cay("kernel", "run", "-k", "main", "-c", "import os; os._exit(7)", box)[0] == 7
    wait_for("its end", lambda: daemon.call("GET", f"/v1/sandboxes/{box}/kernels/{kernel.strip()}")["state"] == "ended", 20)
    status, out, err = cay("kernel", "run", "-k", "main", "-c", "x", box)
    assert status == 1 and "NameError" in err and "cay: the kernel has ended" in err
    assert cay("kernel", "restart", box, "main") == cay("kernel", "rm", box, kernel.strip()) == (0, "", "")


def test_ctrl_c_keeps_the_kernel(daemon, box, cay):  # noqa: F811
    with Kernel(daemon, box, name="mine") as k:
        with Screen([cay.program, "kernel", "run", "-k", "mine", "-c", "x = 1\nprint('begun', flush=True)\nwhile True: pass", box], cay.env) as s:
            s.until(b"begun")
            s.type(b"\x03")
            assert s.ends(60) == 130 and b"KeyboardInterrupt" in s.out
        wait_for("its end", lambda: k.info()["state"] == "idle", 20)
        assert k.run("x")["results"][0]["data"]["text/plain"] == "1"


def test_a_prompt(daemon, box, cay):  # noqa: F811
    """What is typed stays in its kernel, an interrupt ends the code only, and the end of the input ends the kernel."""
    with Screen([cay.program, "kernel", "repl", box], cay.env) as s:
        s.until(rb"IPython .*Ctrl-D ends\.\r\nIn \[1\]: $", 60)
        s.type(b"def f(x):\n")
        s.until(rb"   \.\.\.: $")
        s.type(b"    return x + 20\n")
        s.until(rb"   \.\.\.: $")
        s.type(b"\n")
        s.until(rb"In \[2\]: $", 60)
        s.type(b"print('begun', flush=True); exec('while True: pass')\n")
        s.until(rb"\r\nbegun\r\n", 60)
        s.type(b"\x03")
        s.until(rb"KeyboardInterrupt.*In \[3\]: $", 60)
        s.type(b"f(1)\n")
        s.until(rb"Out\[3\]: 21\r\nIn \[4\]: $", 60)
        s.type(b"\x04")
        assert s.ends(60) == 0 and s.is_restored() and s.typed() == b""
    assert daemon.call("GET", f"/v1/sandboxes/{box}/kernels")["kernels"] == []
