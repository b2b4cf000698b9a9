# SPDX-License-Identifier: Apache-2.0
"""E2B's SDK for Python, unmodified: prints a line of JSON for each thing that was tried, [name, true or what came instead]"""
import json

from e2b import CommandExitException, InvalidArgumentException, NotFoundException, Sandbox, SandboxQuery, SandboxState, TimeoutException


def say(name, good, got=None):
    print(json.dumps([name, True if good is True else repr(got) if got is not None else repr(good)]), flush=True)


def failure(kind, f):
    try:
        return "no error", f()
    except kind as e:
        return e


def main():
    s = Sandbox.create(metadata={"a": "b c/ü"}, envs={"X": "1"}, timeout=60)
    r = s.commands.run("echo hi; echo er >&2; echo $X")
    say("run", (r.stdout, r.stderr, r.exit_code) == ("hi\n1\n", "er\n", 0), r)
    e = failure(CommandExitException, lambda: s.commands.run("exit 3"))
    say("exit 3", e.exit_code == 3, e)
    say("no cwd", isinstance(failure(InvalidArgumentException, lambda: s.commands.run("true", cwd="/none")), Exception))
    say("timeout", isinstance(failure(TimeoutException, lambda: s.commands.run("sleep 100", timeout=1)), Exception))
    h = s.commands.run("cat", background=True, stdin=True)
    s.commands.send_stdin(h.pid, "abc")
    say("list", h.pid in [p.pid for p in s.commands.list()])
    s.commands.close_stdin(h.pid)
    say("stdin", h.wait().stdout == "abc")
    b = s.commands.run("sleep 30", background=True)
    say("kill", s.commands.kill(b.pid))
    say("kill again", s.commands.kill(b.pid) is False)
    w = s.files.write("a.txt", "héllo")
    say("write", w.name == "a.txt" and w.path.startswith("/"), w)
    say("read", s.files.read("a.txt") == "héllo")
    s.files.write_files([{"path": "d/x", "data": b"1"}, {"path": "d/y", "data": "2"}])
    say("ls", sorted(f.name for f in s.files.list("d")) == ["x", "y"], s.files.list("d"))
    say("exists", s.files.exists("d/x") and not s.files.exists("nope"))
    say("mkdir", s.files.make_dir("n/m") and not s.files.make_dir("n/m"))
    say("rename", s.files.rename("d/x", "d/z").name == "z")
    s.files.remove("n")
    say("remove", not s.files.exists("n"))
    say("read nothing", isinstance(failure(NotFoundException, lambda: s.files.read("nope")), Exception))
    info = s.get_info()
    say("info", info.metadata == {"a": "b c/ü"} and info.state == SandboxState.RUNNING, info)
    rows = Sandbox.list(query=SandboxQuery(metadata={"a": "b c/ü"})).next_items()
    say("list by metadata", [x.sandbox_id for x in rows] == [s.sandbox_id], rows)
    say("is_running", s.is_running())
    s.set_timeout(600)
    say("set_timeout", s.get_info().end_at > info.end_at)
    s.pause()
    c = Sandbox.connect(s.sandbox_id)
    say("pause, connect", c.commands.run("cat a.txt").stdout == "héllo")
    say("metrics", c.get_metrics() == [])
    say("end", c.kill())
    say("end again", c.kill() is False)
    say("is not running", s.is_running() is False)
    print(json.dumps(["done", True]))


main()
