# SPDX-License-Identifier: Apache-2.0
"""A shell does what bash does: every script of shells/*.txt in both, and nothing differs.

The other one is `bash --norc --noprofile` with the same lines from a pipe.  What may differ,
and why, is in docs/adr/0041; `same()` has all of it.
"""
import concurrent.futures
import fcntl
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile

import pytest

from client import SANDBOX

HERE = pathlib.Path(__file__).parent / "shells"
F_SETPIPE_SZ = 1031
# as PID 1 makes it for root without a claim, and what a shell has by default
ENV = {"HOME": "/root", "USER": "root", "LOGNAME": "root",
       "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
       "PAGER": "cat", "GIT_PAGER": "cat", "GH_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "cat", "TERM": "dumb", "NO_COLOR": "1",
       "CI": "1", "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive", "PIP_NO_INPUT": "1",
       "HISTCONTROL": "ignorespace"}


def scripts():
    rows = []
    for path in sorted(HERE.glob("*.txt")):
        name, lines = None, []
        for line in path.read_text().splitlines(keepends=True) + ["#: \n"]:
            if line.startswith("#: "):
                if name:
                    rows.append((f"{path.stem}: {name}", "".join(lines)))
                name, lines = line[3:].strip(), []
            else:
                lines.append(line)
    return rows


class Bash:
    """The reference.  Its pipe holds one page in one slot: it is writable when all was read."""

    def __init__(self, text, cwd, wait=False):
        """wait: for where it is when it asks for more, which takes one line more than the script has"""
        r, w = os.pipe()
        fcntl.fcntl(w, F_SETPIPE_SZ, 4096)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            p = subprocess.Popen(["bash", "--norc", "--noprofile"], stdin=r, stdout=out, stderr=err, cwd=cwd, env=ENV,
                                 start_new_session=True)
            os.close(r)
            data, poll = text.encode() + b"\n" * wait, select.poll()
            poll.register(w, select.POLLOUT)
            self.cwd = None
            try:
                while data:
                    poll.poll(60000)
                    data = data[os.write(w, data[:4096]):]
                if wait:
                    poll.poll(60000)
                    self.cwd = os.readlink(f"/proc/{p.pid}/cwd")
            except OSError:
                pass  # it has ended, or reads no more
            os.close(w)
            self.status = p.wait(timeout=60)
            out.seek(0)
            err.seek(0)
            self.stdout, self.stderr = out.read(), err.read()


def whole(c, at, told, stream):
    """All a run wrote, from the shell's output by offset."""
    if f"{stream}_b64" in told or told.get(f"{stream}_cut_bytes") or "�" in told[stream]:
        r = c.open("GET", f"{at}/output?stream={stream}&offset={told[stream + '_offset']}"
                          f"&limit={max(told[stream + '_bytes'], 1)}")
        return r.read()[:told[stream + "_bytes"]]
    return told[stream].encode()


class Shell:
    def __init__(self, c, text, cwd):
        r = c.ask("POST", SANDBOX + "/shells", {"cwd": cwd})
        assert r.status == 201, r.body
        at = f"{SANDBOX}/shells/{r.json()['id']}"
        r = c.ask("POST", at + "/runs", {"command": text, "timeout_ms": 20000})
        assert r.status == 200, r.body
        told = r.json()
        assert told["state"] == "ended" and told["end"]["reason"] in ("exit", "signal"), told
        self.stdout, self.stderr = whole(c, at, told, "stdout"), whole(c, at, told, "stderr")
        end = told["end"]
        self.status = end["exit_code"] if end["reason"] == "exit" else -getattr(signal, end["signal"])
        self.cwd = told.get("cwd")
        assert c.ask("DELETE", at).status == 200


def same(stderr):
    """The two names bash has for what it reads: of a function it says `main`, of eval `eval`; and pids."""
    stderr = re.sub(rb"^(bash|main): (eval: )?line", b"bash: line", stderr, flags=re.M)
    return re.sub(rb"(line \d+:) +\d+ (Killed|Segmentation|Terminated)", rb"\1 PID \2", stderr)


def difference(c, name, text):
    d = tempfile.mkdtemp(dir="/tmp")
    os.chmod(d, 0o755)
    try:
        ref = Bash(text, d)
        if re.search(r"\b(cd|pushd)\b", text):
            shutil.rmtree(d)
            os.mkdir(d)
            ref.cwd = Bash(text, d, wait=True).cwd
        shutil.rmtree(d)
        os.mkdir(d)
        ours = Shell(c, text, d)
        rows = [("stdout", ours.stdout, ref.stdout), ("stderr", same(ours.stderr), same(ref.stderr)),
                ("status", ours.status, ref.status)]
        if ours.cwd and ref.cwd and not ref.cwd.endswith(" (deleted)"):
            rows.append(("cwd", os.path.realpath(ours.cwd), os.path.realpath(ref.cwd)))
        return [f"{name}: {what}: {a!r} and not {b!r}" for what, a, b in rows if a != b]
    finally:
        shutil.rmtree(d, ignore_errors=True)


def test_scripts_are_as_in_bash(init):
    rows = scripts()
    assert len(rows) >= 200 and len({name for name, _ in rows}) == len(rows)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = [line for lines in pool.map(lambda row: difference(init.client, *row), rows) for line in lines]
    assert not found, "\n".join(found)
    assert init.small()
