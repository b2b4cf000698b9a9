# SPDX-License-Identifier: Apache-2.0
"""Kernels from the command line, against a daemon that says what a hostile sandbox could"""
import base64
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import zlib

import pytest

from fake import DATA, FRAMES, Exec, chunk, end_frame, failure, frame, head, new_id, reply
from test_completion import names, words  # noqa: F401
from test_json import one

sys.path.append(str(pathlib.Path(__file__).parents[2] / "lib"))
from screen import Screen, Tmux  # noqa: E402
from test_cli import wait_for  # noqa: E402

EVIL = "a\x1b]0;owned\x07\x1b[2J\r\u202eb\x9b31m"
OUT, ERR, EVENTS = 1, 2, 3
DONE, FAILED = {"reason": "exit", "exit_code": 0}, {"reason": "exit", "exit_code": 1}


def png(width=1, height=1, more=b""):
    """A grey picture."""
    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress((b"\0" + b"\x80" * width) * height if width * height < 1 << 20 else b"")
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) + part(b"IDAT", rows) + part(b"tEXt", more) + part(b"IEND", b"")


def b64(data):
    return base64.b64encode(data).decode()


def result(main=True, **data):
    return EVENTS, {"result": {"main": main, "data": {k.replace("__", "/").replace("_", "+"): v for k, v in data.items()}}}


def exception(name, value, *traceback):
    return EVENTS, {"exception": {"name": name, "value": value, "traceback": list(traceback)}}


def count(n):
    return EVENTS, {"execution_count": n}


class Kernels:
    """The kernels of a fake daemon's one sandbox."""
    def __init__(self, daemon):
        self.daemon, self.rows, self.created, self.asked = daemon, {}, [], []
        self.box = daemon.add(name="box")
        self.ran, self.reply, self.loaded, self.installed, self.program = [], None, {}, [], "echo done; echo slow >&2"
        self.plan = lambda code: ([(OUT, b"hi\n")], DONE)  # what code writes and shows, and its end; None: it waits for an interrupt
        self.at, self.waits, self.interrupted, self.gone = {OUT: 0, ERR: 0}, threading.Event(), threading.Event(), threading.Event()
        for name in ("post_sandboxes_id_kernels", "get_sandboxes_id_kernels", "get_sandboxes_id_kernels_id", "delete_sandboxes_id_kernels_id",
                     "post_sandboxes_id_kernels_id_interrupt", "post_sandboxes_id_kernels_id_restart", "post_sandboxes_id_kernels_id_runs",
                     "get_sandboxes_id_kernels_id_runs_id", "post_sandboxes_id_kernels_id_install"):
            setattr(daemon, name, getattr(self, name))

    def add(self, **more):
        row = {"id": new_id("kn"), "language": "python", "state": "idle", "version": "3.13.5", "implementation": "IPython 8.35.0", "cwd": "/workspace",
               "pid": 17, "created_at": "2026-11-15T01:50:43.123Z", "runs": 3, "queued": 1, "stdout_bytes": 2048, **more}
        self.rows[row["id"]] = row
        return row

    def post_sandboxes_id_kernels(self, c, f, parts, query, headers):
        self.created.append(json.loads(b"".join(self.daemon.body(f, headers))))
        c.sendall(reply(201, self.add(**{k: v for k, v in self.created[-1].items() if k in ("language", "name", "cwd")}, runs=0)))

    def get_sandboxes_id_kernels(self, c, f, parts, query, headers):
        c.sendall(reply(200, {"kernels": list(self.rows.values()), **self.loaded}))

    def act(self, c, verb, parts):
        self.asked.append((verb, parts[3]))
        row = self.rows.get(parts[3])
        if verb == "rm":
            self.rows.pop(parts[3], None)
        c.sendall(reply(200, row) if row else failure(404, "not_found", "there is no such kernel", hint=""))

    def get_sandboxes_id_kernels_id(self, c, f, parts, query, headers):
        self.act(c, "show", parts)

    def delete_sandboxes_id_kernels_id(self, c, f, parts, query, headers):
        self.act(c, "rm", parts)

    def post_sandboxes_id_kernels_id_interrupt(self, c, f, parts, query, headers):
        self.interrupted.set()
        self.act(c, "interrupt", parts)

    def post_sandboxes_id_kernels_id_install(self, c, f, parts, query, headers):
        """An exec of this machine, as exec.run of the fake daemon."""
        self.installed.append({**json.loads(b"".join(self.daemon.body(f, headers))), "kernel": parts[3]})
        e = Exec({"argv": ["sh", "-c", self.program]})
        self.daemon.execs[e.id] = self.daemon.last = e
        if headers["accept"] == FRAMES:
            self.daemon.stream(c, e, {1: 0, 2: 0}, [f"Cay-Exec: {e.id}"])
        else:
            c.sendall(self.reply)

    def get_sandboxes_id_kernels_id_runs_id(self, c, f, parts, query, headers):
        c.sendall(reply(200, {"number": int(parts[5]), "state": "ended", "execution_count": int(parts[5]), "end": DONE}))

    def post_sandboxes_id_kernels_id_runs(self, c, f, parts, query, headers):
        """Offsets of output go on over the runs of a kernel, those of events begin with each."""
        request = json.loads(b"".join(self.daemon.body(f, headers)))
        self.ran.append({**request, "prefer": headers.get("prefer"), "kernel": parts[3]})
        if headers["accept"] != FRAMES:
            c.sendall(self.reply)
            return
        said, end = self.plan(request["code"])
        c.sendall(head(200, FRAMES))
        at = self.at | {EVENTS: 0}
        for stream, data in said:
            data = data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n"
            c.sendall(chunk(frame(DATA, stream, at[stream], data)))
            at[stream] += len(data)
        self.at = {s: at[s] for s in (OUT, ERR)}
        if end is None:
            self.waits.set()
            c.settimeout(20)
            threading.Thread(target=lambda: (f.read(1), self.gone.set()), daemon=True).start()
            self.interrupted.wait(20)
            self.interrupted.clear()
            end = {"reason": "signal", "signal": "SIGINT"}
        c.sendall(chunk(end_frame(**end)) + b"0\r\n\r\n")

    def post_sandboxes_id_kernels_id_restart(self, c, f, parts, query, headers):
        self.act(c, "restart", parts)


@pytest.fixture
def kernels(daemon):
    return Kernels(daemon)


def is_clean(text):
    return not any(ord(ch) < 32 and ch not in "\n\t" or 0x7f <= ord(ch) < 0xa0 or ch == "\u202e" for ch in text)


def test_create_sends_what_was_said(kernels, cay):
    r = cay("kernel", "create", "box")
    assert r.returncode == 0 and r.stdout.strip() in kernels.rows and kernels.created == [{"language": "python", "env": {}}]
    made = one(cay("kernel", "create", "--json", "-l", "r", "-n", "plots", "-w", "/tmp", "-u", "1000", "-e", "A=b", "box"))
    assert made == kernels.rows[made["id"]] | {"forked": False, "restarts": 0, "stderr_bytes": 0}
    assert kernels.created[1] == {"language": "r", "name": "plots", "cwd": "/tmp", "user": "1000", "env": {"A": "b"}}


def test_tables_and_what_programs_get(kernels, cay):
    row = kernels.add(name="main")
    other = kernels.add(language="node", state="ended", end={"reason": "signal", "signal": "SIGSEGV"}, why="a run did not end")
    lines = cay("kernel", "ls", "box").stdout.splitlines()
    assert lines[0].split() == ["ID", "NAME", "LANGUAGE", "STATE", "RUNS", "WAITING", "PID", "AGE"] and len(lines) == 3
    assert lines[1].split()[:7] == [row["id"], "main", "python", "idle", "3", "1", "17"] and lines[2].split()[1] == "-"
    assert [k["id"] for k in one(cay("kernel", "ls", "--json", "box"))["kernels"]] == [row["id"], other["id"]]
    shown = dict(line.split("  ", 1) for line in cay("kernel", "show", "box", "main").stdout.splitlines())
    assert shown["program"].strip() == "IPython 8.35.0" and "why" not in shown and shown["stdout"].strip() == "2.0 KiB"
    shown = cay("kernel", "show", "box", other["id"]).stdout
    assert "SIGSEGV" in shown and "a run did not end" in shown
    assert one(cay("kernel", "show", "--json", "box", "main"))["id"] == row["id"]


def test_each_acts_on_the_kernel_that_was_named(kernels, cay):
    first, second = kernels.add(name="one"), kernels.add(name="two")
    for verb in ("interrupt", "restart", "rm"):
        r = cay("kernel", verb, "box", "two")
        assert (r.returncode, r.stdout, r.stderr) == (0, "", ""), r
    assert kernels.asked == [(verb, second["id"]) for verb in ("interrupt", "restart", "rm")]
    assert one(cay("kernel", "rm", "--json", "box", first["id"]))["name"] == "one" and not kernels.rows


def test_names_that_say_too_little(kernels, cay):
    kernels.add(name="twin"), kernels.add(name="twin")
    r = cay("kernel", "rm", "box", "twin")
    assert r.returncode == 5 and "2 kernels have the name 'twin'" in r.stderr and not kernels.asked
    r = cay("kernel", "rm", "box", "none")
    assert r.returncode == 4 and "there is no kernel 'none'" in r.stderr and "'cay kernel ls SANDBOX'" in r.stderr
    assert cay("kernel", "rm", "box").returncode == 2


def test_a_kernel_cannot_write_on_the_terminal(kernels, cay):
    kernels.add(name="evil", version=EVIL, implementation=EVIL, cwd=EVIL, why=EVIL)
    for words_ in (["ls", "box"], ["show", "box", "evil"]):
        r = cay("kernel", *words_)
        assert r.returncode == 0 and is_clean(r.stdout), r.stdout


def test_their_names_are_completed(kernels, names):  # noqa: F811
    kernels.add(name="main")
    nameless = kernels.add()
    names("kernel", "rm", "box", "", want=["main", nameless["id"]])
    names("kernel", "show", "box", "m", want=["main"])
    names("kernel", "install", "box", "", want=["main", nameless["id"]])
    names("kernel", "install", "box", "main", "", want=[])


def test_the_interpreter_that_is_kept_loaded(kernels, cay):
    """Only where something is wrong with it, and apart from the table."""
    kernels.add(name="main")
    plain = cay("kernel", "ls", "box")
    kernels.loaded = {"loaded": {"state": "ready"}}
    assert cay("kernel", "ls", "box").stderr == plain.stderr == ""
    kernels.loaded = {"loaded": {"state": "failed", "why": "it " + EVIL, "missing": {"nope": "ModuleNotFoundError: " + EVIL}}}
    r = cay("kernel", "ls", "box")
    assert r.stdout == plain.stdout and is_clean(r.stderr)
    assert "kernels from has failed: it a" in r.stderr and "module 'nope' is not kept loaded: ModuleNotFoundError: a" in r.stderr
    assert one(cay("kernel", "ls", "--json", "box"))["loaded"]["state"] == "failed"


def test_packages_are_installed(kernels, cay):
    """The installer's output comes as it is written, its exit status is cay's."""
    row = kernels.add(name="main")
    r = cay("kernel", "install", "-T", "5s", "box", "main", "requests==2.32.5", "six", "@scope/name==1.0")
    assert (r.returncode, r.stdout, r.stderr) == (0, "done\n", "slow\n")
    asked, = kernels.installed
    assert asked["packages"] == {"requests": "2.32.5", "six": "", "@scope/name": "1.0"} and asked["timeout_ms"] == 5000 and asked["kernel"] == row["id"]
    kernels.program = "echo no such package >&2; exit 3"
    r = cay("kernel", "install", "box", "main", "nope")
    assert r.returncode == 3 and "no such package\n" in r.stderr and kernels.installed[-1]["timeout_ms"] == 600000
    kernels.reply = reply(200, {"id": new_id("ex"), "state": "ended", "stdout": "done\n", "started_at": "2026-11-15T01:50:43.123Z", "end": FAILED})
    r = cay("kernel", "install", "--json", "box", "main", "six")
    assert r.returncode == 1 and json.loads(r.stdout)["stdout"] == "done\n" and r.stdout.count("\n") == 1


def test_an_installer_is_interrupted(kernels, cay):
    kernels.add(name="main")
    kernels.program = "trap 'echo stopped; exit 9' INT; echo begun; while :; do sleep 0.01; done"
    p = cay.start("kernel", "install", "box", "main", "six")
    assert p.stdout.readline() == b"begun\n"
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=30)
    assert (p.returncode, out) == (9, b"stopped\n")


@pytest.mark.parametrize("words_", [[], ["main"], ["main", "==1"], ["main", "six=="], ["main", "six", "six==1"], ["none", "six"]], ids=repr)
def test_what_cannot_be_installed(kernels, cay, words_):
    kernels.add(name="main")
    r = cay("kernel", "install", "box", *words_)
    assert r.returncode in (2, 4) and r.stderr.startswith("cay: ") and not kernels.installed


def test_a_file_runs_in_a_kernel_of_its_own(kernels, cay, tmp_path):
    (tmp_path / "a.py").write_text("x = 1\nx")
    kernels.plan = lambda code: ([count(1), (OUT, b"out\n"), (ERR, b"err\n"), result(text__plain="1")], DONE)
    r = cay("kernel", "run", "-w", "/tmp", "-e", "A=b", "-u", "1000", "-T", "5s", "box", str(tmp_path / "a.py"))
    assert (r.returncode, r.stdout, r.stderr) == (0, "out\n1\n", "err\n")
    made, = kernels.created
    assert made == {"language": "python", "cwd": "/tmp", "user": "1000", "env": {"A": "b"}}
    ran, = kernels.ran
    assert ran["code"] == "x = 1\nx" and ran["timeout_ms"] == 5000 and ran["prefer"] == "end-with-caller"
    assert kernels.asked == [("rm", ran["kernel"])] and not kernels.rows


def test_code_may_be_large(kernels, cay):
    code = b"# " + b"\xc3\xa9" * ((1 << 19) - 1)
    r = cay("kernel", "run", "box", data=code)
    assert r.returncode == 0 and kernels.ran[0]["code"].encode() == code
    r = cay("kernel", "run", "box", data=code + b"x")
    assert r.returncode != 0 and "larger than 1 MiB" in r.stderr and len(kernels.ran) == 1


@pytest.mark.parametrize("name, language", [("a.py", "python"), ("a.js", "node"), ("a.mjs", "node"), ("a.R", "r"), ("a.r", "r"), ("a", "python"), ("py", "python")])
def test_its_name_says_the_language(kernels, cay, tmp_path, name, language):
    (tmp_path / name).write_text("1")
    assert cay("kernel", "run", "box", str(tmp_path / name)).returncode == 0
    assert cay("kernel", "run", "-l", "other", "box", str(tmp_path / name)).returncode == 0
    assert [c["language"] for c in kernels.created] == [language, "other"]


def test_a_kernel_that_was_named_stays(kernels, cay):
    main = kernels.add(name="main")
    for words_, data in ((["-c", "one", "-e", "A=b", "-w", "/tmp", "box"], None), (["box"], b"two"), (["box", "-"], b"three")):
        assert cay("kernel", "run", "-k", "main", *words_, data=data).returncode == 0
    assert [r["code"] for r in kernels.ran] == ["one", "two", "three"] and not kernels.created and main["id"] in kernels.rows
    assert kernels.ran[0]["env"] == {"A": "b"} and kernels.ran[0]["cwd"] == "/tmp"
    main.update(state="ended", end={"reason": "exit", "exit_code": 3}, why="it " + EVIL)
    r = cay("kernel", "run", "-k", "main", "-c", "x", "box")
    assert r.returncode == 0 and "cay: the kernel has ended: it a\\x1b" in r.stderr and is_clean(r.stderr)


@pytest.mark.parametrize("words_", [
    ["box"], ["-c", "", "box"], ["-c", "1", "box", "file"], ["-k", "main", "-l", "r", "-c", "1", "box"], ["-k", "main", "-u", "0", "-c", "1", "box"],
    ["box", "/nonexistent"], ["box", "/bin/true"], ["-k", "none", "-c", "1", "box"]], ids=repr)
def test_what_cannot_run_is_refused_before(kernels, cay, words_):
    kernels.add(name="main")
    r = cay("kernel", "run", *words_)
    assert r.returncode in (2, 4) and r.stderr.startswith("cay: ") and not kernels.created and not kernels.ran


@pytest.mark.parametrize("end, status, says", [
    (FAILED, 1, ""), ({"reason": "exit", "exit_code": 7}, 7, ""), ({"reason": "signal", "signal": "SIGSEGV"}, 139, ""),
    ({"reason": "timeout"}, 124, "timeout"), ({"reason": "killed", "detail": "it " + EVIL}, 137, "killed")], ids=repr)
def test_its_end_is_the_exit_status(kernels, cay, end, status, says):
    kernels.plan = lambda code: ([], end)
    r = cay("kernel", "run", "-c", "1", "box")
    assert r.returncode == status and says in r.stderr and is_clean(r.stderr) and not kernels.rows


def test_json_is_the_run(kernels, cay, tmp_path):
    run = {"number": 3, "state": "ended", "execution_count": 3, "stdout": "hi\n", "results": [{"main": False, "data": {"image/png": b64(png())}}], "end": FAILED,
           "exception": {"name": "E", "value": "v", "traceback": ["t"]}}
    kernels.reply = reply(200, run)
    r = cay("kernel", "run", "--json", "-c", "1", "box", cwd=tmp_path)
    said = json.loads(r.stdout)
    assert r.returncode == 1 and r.stdout.count("\n") == 1 and not os.listdir(tmp_path) and (kernels.ran[0]["max_output"], kernels.ran[0]["max_results"]) == (4 << 20, 32 << 20)
    assert {k: said[k] for k in run if k not in ("results", "exception", "end")} == {k: run[k] for k in run if k not in ("results", "exception", "end")}
    assert said["results"][0]["data"] == run["results"][0]["data"] and said["exception"]["name"] == "E" and said["end"]["exit_code"] == 1
    # as large as a reply can be
    kernels.reply = reply(200, {**run, "end": DONE, "stdout": "x" * (4 << 20), "stderr": "y" * (4 << 20), "results": [{"data": {"text/plain": "z" * (4 << 20)}}] * 2})
    assert len(cay("kernel", "run", "--json", "-c", "1", "box").stdout) > 16 << 20
    for wrong in ({**run, "end": {"reason": "exit"}}, {k: v for k, v in run.items() if k != "end"}):
        kernels.reply = reply(200, wrong)
        r = cay("kernel", "run", "--json", "-c", "1", "box")
        assert r.returncode > 1 and not r.stdout and not kernels.rows


def test_pictures_are_saved_as_they_came(kernels, cay, tmp_path):
    first, second = png(3, 3), png(2, 2)
    (tmp_path / "picture-1.png").write_bytes(b"mine")
    (tmp_path / "picture-2.png").symlink_to(tmp_path / "elsewhere")
    kernels.plan = lambda code: ([
        (OUT, b"no line end"), result(image__png=b64(first), text__plain="<Figure>"), result(main=False, image__svg_xml="<svg/>"),
        result(main=False, image__jpeg=b64(b"jpeg")), result(main=False, text__html="<b>", application__vnd="x"), result(image__png=b64(second))], DONE)
    r = cay("kernel", "run", "-c", "1", "box", cwd=tmp_path)
    assert r.returncode == 0 and r.stdout.splitlines() == ["no line end", "picture-3.png", "picture-1.svg", "picture-1.jpg", "picture-1.html", "picture-4.png"]
    assert (tmp_path / "picture-3.png").read_bytes() == first and (tmp_path / "picture-4.png").read_bytes() == second
    assert (tmp_path / "picture-1.png").read_bytes() == b"mine" and not (tmp_path / "elsewhere").exists()
    assert [(tmp_path / n).read_text() for n in ("picture-1.svg", "picture-1.jpg", "picture-1.html")] == ["<svg/>", "jpeg", "<b>"]
    (tmp_path / "to").mkdir()
    r = cay("kernel", "run", "-c", "1", "--pictures", "to", "box", cwd=tmp_path)
    assert "to/picture-1.png" in r.stdout.splitlines() and (tmp_path / "to/picture-1.png").read_bytes() == first
    ran = len(kernels.ran)
    assert cay("kernel", "run", "-c", "1", "--pictures", "none", "box", cwd=tmp_path).returncode == 2 and len(kernels.ran) == ran and not kernels.rows


def test_a_run_does_not_fill_a_directory(kernels, daemon, cay, tmp_path):
    """1000 files of a run at most, the rest is counted; the names of those before are not tried again for each."""
    for i in range(1, 301):
        (tmp_path / f"picture-{i}.svg").touch()
    kernels.plan = lambda code: ([result(main=False, image__svg_xml=f"<svg {i}/>") for i in range(1500)], DONE)
    env = {**os.environ, "CAY_SOCKET": daemon.path, "ASAN_OPTIONS": "detect_leaks=0"}  # which a tracer prevents
    r = subprocess.run(["strace", "-qq", "-o", "trace", "-e", "trace=openat", cay.program, "kernel", "run", "-c", "1", "box"],
                       cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    made = r.stdout.splitlines()
    assert r.returncode == 0 and made == [f"picture-{i}.svg" for i in range(301, 1301)] and "500 pictures more were not saved" in r.stderr
    assert (tmp_path / made[-1]).read_text() == "<svg 999/>"
    tried = (tmp_path / "trace").read_text().count('"picture-')
    assert tried == 1300, tried


def test_results_that_are_none(kernels, cay, tmp_path):
    cut = {"main": True, "data": {"text/plain": "cut"}, "cut": [{"mime": "image/png", "bytes": 20 << 20, "path": "/tmp/" + EVIL}, {"mime": "image/gif", "bytes": 9}]}
    kernels.plan = lambda code: ([result(image__png="no base64!"), result(application__x="?"), (EVENTS, {"result": cut}), (EVENTS, {"clear": {"wait": True}})], DONE)
    r = cay("kernel", "run", "-c", "1", "box", cwd=tmp_path)
    assert (r.returncode, r.stdout) == (0, "cut\n") and is_clean(r.stderr) and not os.listdir(tmp_path)
    assert "not valid base64" in r.stderr and "application/x" in r.stderr and "20.0 MiB is in the sandbox: 'cay cp SANDBOX:/tmp/a" in r.stderr


def test_a_pipe_gets_the_bytes_and_results_are_escaped(kernels, cay):
    """Output is the program's own; what cay prints in its own words cannot act on a terminal."""
    raw = bytes(range(256)) + EVIL.encode()
    kernels.plan = lambda code: ([(OUT, raw), (ERR, raw + b"\n"), result(text__plain="two\n\tlines " + EVIL), exception(EVIL, EVIL, "Trace\n" + EVIL, "  at")], FAILED)
    r = cay("kernel", "run", "-c", "1", "box", text=False, stderr=None)
    assert r.stdout.startswith(raw + b"\n") and r.stdout[len(raw) + 1:].startswith(b"two\n\tlines a\\x1b]0;owned")
    assert is_clean(r.stdout[len(raw):].decode())
    p = cay.start("kernel", "run", "-c", "1", "box")
    out, err = p.communicate(timeout=30)
    assert err.startswith(raw + b"\n") and is_clean(err[len(raw):].decode()) and err.decode(errors="replace").endswith("\n  at\n")
    kernels.plan = lambda code: ([exception(EVIL, "first\n" + EVIL)], FAILED)
    r = cay("kernel", "run", "-c", "1", "box")
    assert r.returncode == 1 and is_clean(r.stderr) and r.stderr.startswith("a\\x1b]0;owned") and ": first\na\\x1b" in r.stderr


@pytest.fixture
def at(daemon, cay, tmp_path):
    """cay at a terminal."""
    def start(*words_, **more):
        env = {k: v for k, v in os.environ.items() if k.startswith(("CAY_", "ASAN", "UBSAN"))}
        return Screen(["sh", "-c", 'cd "$0" && exec "$@"', str(tmp_path), cay.program, *words_],
                      {**env, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm", "LANG": "C.UTF-8", "CAY_SOCKET": daemon.path, **more}, answers=0)
    return start


def test_a_terminal_is_not_asked_and_not_moved(kernels, at):
    kernels.plan = lambda code: ([(OUT, b"red \x1b[1;31"), (OUT, b"mtext\x1b[m \xc3"), (OUT, b"\xa9 10%\r20%\n\x1b[6n\x1b]52;c;?\x07\x1b[5n\x1b[2J\x05\x9b\x1b[3"), (ERR, b"\x1b[32mg\x1b]0;t\x07")], DONE)
    with at("kernel", "run", "-c", "1", "box") as s:
        assert s.ends() == 0
        shown = bytes(s.out)
        assert "red \x1b[1;31mtext\x1b[m \u00e9 10%\r20%\r\n\\x1b[6n\\x1b]52;c;?\\x07".encode() in shown and b"\\x1b[3" in shown
        assert shown.endswith(b"\x1b[m") and shown.count(b"\x1b") == 5 and b"\x05" not in shown and b"\x9b" not in shown
        assert s.typed(0.2) == b"", "the terminal has answered a question of the sandbox"


def drawn(shown):
    """The bytes of the pictures in what a terminal got by the kitty protocol, and how each begins."""
    out, keys = [], []
    for part in shown.split(b"\x1b_G")[1:]:
        head_, _, rest = part.partition(b";")
        data = base64.b64decode(rest[:rest.index(b"\x1b\\")], validate=True)
        if b"a=T" in head_:
            out.append(b"")
            keys.append(head_)
        assert len(data) <= 3072 and b"q=2" in head_
        out[-1] += data
    return out, keys


@pytest.mark.parametrize("env, draws", [
    ({"TERM": "xterm-kitty"}, True), ({"KITTY_WINDOW_ID": "1"}, True), ({"TERM_PROGRAM": "ghostty"}, True), ({"CAY_GRAPHICS": "kitty", "TMUX": "x"}, True),
    ({}, False), ({"TERM": "xterm-kitty", "TMUX": "x"}, False), ({"TERM": "xterm-kitty", "CAY_GRAPHICS": "none"}, False)], ids=repr)
def test_a_terminal_that_can_draws_pictures(kernels, at, tmp_path, env, draws):
    large = png(64, 64, bytes(range(256)) * 64)
    kernels.plan = lambda code: ([result(image__png=b64(large), text__plain="<Figure>")], DONE)
    with at("kernel", "run", "-c", "1", "box", **env) as s:
        assert s.ends() == 0
        shown = bytes(s.out)
    if draws:
        assert drawn(shown)[0] == [large] and not os.listdir(tmp_path) and b"f=100" in drawn(shown)[1][0]
    else:
        assert b"\x1b" not in shown and b"picture-1.png\r\n" in shown and (tmp_path / "picture-1.png").read_bytes() == large


@pytest.mark.parametrize("bad", [b"no picture", b"\x1b\\\x1b[2J", png(1, 1)[:20], png(20000, 1), png(0, 1), png(1, 1)[:8] + b"\0\0\0\x0dIDAT" + bytes(50)], ids=repr)
def test_what_is_no_png_is_not_drawn(kernels, at, tmp_path, bad):
    kernels.plan = lambda code: ([result(image__png=b64(bad))], DONE)
    with at("kernel", "run", "-c", "1", "box", TERM="xterm-kitty") as s:
        assert s.ends() == 0 and b"\x1b" not in s.out and (tmp_path / "picture-1.png").read_bytes() == bad


def test_ctrl_c_interrupts_the_code(kernels, cay):
    kernels.plan = lambda code: ([count(1), (OUT, b"begun\n")], None)
    p = cay.start("kernel", "run", "-c", "1", "box")
    assert p.stdout.readline() == b"begun\n"
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130 and kernels.asked[0][0] == "interrupt" and not kernels.rows
    p.communicate()


def test_a_run_that_waits_for_others_is_left(kernels, cay, daemon):
    """Its interrupt would hit theirs."""
    kernels.add(name="main")
    came, leave = threading.Event(), threading.Event()

    def queue(c, f, parts, query, headers):
        list(daemon.body(f, headers))
        came.set()
        f.read(1)  # until it has left
        leave.set()
    daemon.post_sandboxes_id_kernels_id_runs = queue
    p = cay.start("kernel", "run", "-k", "main", "-c", "1", "box")
    assert came.wait(20)
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130 and leave.wait(20) and [verb for verb, _ in kernels.asked] == ["show"]
    p.communicate()


@pytest.mark.parametrize("said", [
    [(EVENTS, b"no JSON\n")], [(EVENTS, {"result": {"data": 7}})], [(EVENTS, {"exception": {"name": EVIL}})], [(EVENTS, {"result": {"data": {}, EVIL: 1}})]], ids=repr)
def test_events_that_are_none(kernels, cay, said):
    kernels.plan = lambda code: (said, DONE)
    r = cay("kernel", "run", "-c", "1", "box")
    assert r.returncode > 1 and "invalid event" in r.stderr and is_clean(r.stderr) and not kernels.rows


def test_a_stream_that_breaks_is_no_success(kernels, cay, daemon):
    def cut(c, f, parts, query, headers):
        list(daemon.body(f, headers))
        c.sendall(head(200, FRAMES) + chunk(frame(DATA, OUT, 5, b"half")) + b"0\r\n\r\n")
    daemon.post_sandboxes_id_kernels_id_runs = cut
    r = cay("kernel", "run", "-c", "1", "box")
    assert r.returncode > 1 and r.stdout == "half" and "stopped before the end" in r.stderr and not kernels.rows


def test_run_has_a_kernel_too(kernels, daemon, cay, tmp_path):
    (tmp_path / "a").write_text("code")
    kernels.plan = lambda code: ([result(image__png=b64(png()))], FAILED)
    r = cay("run", "--kernel", "r", "-e", "A=b", "-T", "9s", "--pictures", str(tmp_path), "base", str(tmp_path / "a"))
    assert (r.returncode, r.stdout) == (1, f"{tmp_path}/picture-1.png\n") and kernels.created == [{"language": "r", "env": {"A": "b"}}]
    assert kernels.ran[0]["code"] == "code" and kernels.ran[0]["timeout_ms"] == 9000 and list(daemon.sandboxes) == [kernels.box["id"]]
    assert cay("run", "--kernel", "python", "base", "-", data=b"more", cwd=tmp_path).returncode == 1 and kernels.ran[1]["code"] == "more"
    before = len(daemon.requests)
    for words_ in (["--kernel", "r", "-t", "base", "a"], ["--kernel", "r", "base", "a", "b"], ["--pictures", "x", "base", "a"]):
        assert cay("run", *words_).returncode == 2
    assert len(daemon.requests) == before


def answers(code):
    """A kernel that counts, and knows a few words."""
    answers.count += 1
    return [count(answers.count), *{
        "1 + 1\n": [result(text__plain="2")], "two\n": [result(text__plain="a\nb")], "print\n": [(OUT, b"no line end")],
        "evil\n": [(OUT, b"\x1b[6n\x1b]52;c;?\x07\x05"), exception(EVIL, EVIL)], "plot\n": [result(main=False, image__png=b64(png()))], "loop\n": [(OUT, b"begun")]}.get(code, [])], \
        None if code == "loop\n" else {"reason": "exit", "exit_code": 9} if code == "die\n" else DONE


@pytest.fixture
def repl(kernels, at):
    answers.count = 0
    kernels.plan = answers

    def start(*words_, **more):
        s = at("kernel", "repl", *words_, "box", **more)
        s.until(rb"Ctrl-D ends\.\r\n")
        return s
    return start


def test_a_prompt_counts_and_shows(kernels, repl, tmp_path):
    with repl() as s:
        for n, (line, shows) in enumerate([
                (b"1 + 1", rb"Out\[1\]: 2\r\n"), (b"two", rb"Out\[2\]:\r\na\r\nb\r\n"), (b"print", rb"no line end\r\n"), (b"plot", rb"picture-1.png\r\n"),
                (b"die", rb"cay: the kernel has ended \(exit\); the next run starts it again, without its variables\r\n")], 1):
            s.until(rb"In \[%d\]: $" % n)
            s.type(line + b"\n")
            s.until(rb"\r\n" + shows)
        s.until(rb"In \[6\]: $")
        s.type(b"\n")
        s.until(rb"In \[6\]: $")
        s.type(b"\x04")
        assert s.ends() == 0 and s.is_restored() and s.typed() == b""
    assert kernels.created == [{"language": "python", "env": {}}] and not kernels.rows and (tmp_path / "picture-1.png").read_bytes() == png()
    assert [r["code"] for r in kernels.ran] == ["1 + 1\n", "two\n", "print\n", "plot\n", "die\n"]


def test_a_block_is_typed_in_several_lines(kernels, repl):
    with repl() as s:
        s.until(rb"In \[1\]: $")
        for line in (b"def f(x):", b"    return (x +", b"      1)"):
            s.type(line + b"\n")
            s.until(rb"\n   \.\.\.: $")
        s.type(b"\n")
        s.until(rb"In \[2\]: $")
        s.type(b"f(\n")
        s.until(rb"\.\.\.: $")
        s.type(b"\n")
        s.until(rb"\.\.\.: $")
        s.type(b"\n")  # two empty lines end anything
        s.until(rb"In \[3\]: $")
        s.type(b"half a l\x04ine\n")  # ctrl-d inside of a line only sends it
        s.until(rb"In \[4\]: $")
        s.type(b"(\n")
        s.until(rb"\.\.\.: $")
        s.type(b"\x04")
        assert s.ends() == 0
    assert [r["code"] for r in kernels.ran] == ["def f(x):\n    return (x +\n      1)\n\n", "f(\n\n\n", "half a line\n"]


def test_ctrl_c_interrupts_the_run_and_not_the_client(kernels, repl):
    with repl() as s:
        s.until(rb"In \[1\]: $")
        s.type(b"typed and (\n")
        s.until(rb"\.\.\.: $")
        s.type(b"more\x03")
        s.until(rb"\r\nIn \[1\]: $")
        assert not kernels.ran
        for n in (2, 3, 4):  # also within a second
            kernels.waits.clear()
            s.type(b"loop\n")
            assert kernels.waits.wait(20)
            s.until(rb"begun")
            s.type(b"\x03")
            s.until(rb"In \[%d\]: $" % n)
        s.type(b"1 + 1\n")
        s.until(rb"Out\[4\]: 2")
        s.until(rb"In \[5\]: $")
        s.type(b"\x04")
        assert s.ends() == 0
    assert [verb for verb, _ in kernels.asked] == ["show", "interrupt", "interrupt", "interrupt", "rm"]


def test_a_kernel_of_the_prompt_can_stay(kernels, repl):
    main = kernels.add(name="main", runs=6, language="r", version=EVIL)
    with repl("-k", "main") as s:
        s.until(rb"In \[7\]: $")
        s.type(b"x <- 'a\n")
        s.until(rb"\.\.\.: $")
        s.process.send_signal(signal.SIGTERM)
        assert s.ends() == 143
    assert main["id"] in kernels.rows and not kernels.created and not kernels.ran


def test_a_prompt_is_not_for_pipes(kernels, cay):
    r = cay("kernel", "repl", "box", data=b"1\n")
    assert r.returncode == 2 and "not a terminal" in r.stderr and "'cay kernel run SANDBOX'" in r.stderr and not kernels.created


def test_what_a_kernel_says_is_not_typed(kernels, repl):
    """A question to the terminal would be answered into the next prompt, or into the shell after it."""
    with repl() as s:
        s.until(rb"In \[1\]: $")
        s.type(b"evil\n")
        wait_for(lambda: (s.step(0.02), b"In [2]: " in s.out)[1])
        shown = bytes(s.out)
        assert b"\x1b" not in shown and b"\x05" not in shown and b"\\x1b[6n" in shown and b"a\\x1b]0;owned" in shown
        s.type(b"\x04")
        assert s.ends() == 0 and s.typed(0.2) == b""
    assert len(kernels.ran) == 1


def test_a_server_that_is_away_does_not_end_the_prompt(kernels, repl, daemon):
    def answer(*words_):
        def send(c, f, parts, query, headers):
            list(daemon.body(f, headers))
            c.sendall(failure(*words_))
        return send
    with repl() as s:
        s.until(rb"In \[1\]: $")
        works = daemon.post_sandboxes_id_kernels_id_runs
        daemon.post_sandboxes_id_kernels_id_runs = answer(409, "wrong_state", "the kernel is ending: try again")
        s.type(b"1 + 1\n")
        s.until(rb"cay: the kernel is ending: try again\r\n.*In \[1\]: $")
        daemon.post_sandboxes_id_kernels_id_runs = works
        s.type(b"1 + 1\n")
        s.until(rb"Out\[1\]: 2.*In \[2\]: $")
        daemon.post_sandboxes_id_kernels_id_runs = answer(404, "not_found", "there is no such sandbox")
        s.type(b"1 + 1\n")
        assert s.ends() == 4


def test_the_prompt_in_a_real_terminal(kernels, repl, cay, daemon, tmp_path):
    env = {k: v for k, v in os.environ.items() if k.startswith(("CAY_", "ASAN", "UBSAN"))}
    with Tmux(tmp_path) as tmux:
        tmux.run("repl", f"{cay.program} kernel repl box; echo status $?; cat", {
            **env, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm", "LANG": "C.UTF-8", "CAY_SOCKET": daemon.path})
        wait_for(lambda: "In [1]:" in tmux.shows("repl"))
        tmux.keys("repl", "1 + 3", "BSpace", "1", "Enter")
        wait_for(lambda: "Out[1]: 2" in tmux.shows("repl") and "In [2]:" in tmux.shows("repl"))
        tmux.keys("repl", "C-d")
        wait_for(lambda: "status 0" in tmux.shows("repl"))
        assert [line.rstrip() for line in tmux.shows("repl").splitlines() if line.strip()] == [
            "python 3.13.5 (IPython 8.35.0). Ctrl-C interrupts, Ctrl-D ends.", "In [1]: 1 + 1", "Out[1]: 2", "In [2]:", "status 0"]
