# SPDX-License-Identifier: Apache-2.0
"""E2B's SDK for Python, unmodified: prints a line of JSON for each thing that was tried, [name, true or what came instead]"""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "lib"))
import cay  # noqa: E402
from e2b import CommandExitException, InvalidArgumentException, NotFoundException, Sandbox, SandboxQuery, SandboxState, TimeoutException, Volume  # noqa: E402


def say(name, good, got=None):
    print(json.dumps([name, True if good is True else repr(got) if got is not None else repr(good)]), flush=True)


def failure(kind, f):
    try:
        return "no error", f()
    except kind as e:
        return e


def watch(s):
    """By the calls of a watcher that is asked."""
    s.files.make_dir("w")
    w = s.files.watch_dir("w")
    s.files.write("w/one", "1")
    seen = []

    def written():
        seen.extend((e.type.value, e.name) for e in w.get_new_events())
        return ("write", "one") in seen

    cay.wait_for("the event", written, 10)
    say("watch", ("create", "one") in seen and ("write", "one") in seen, seen)
    w.stop()
    say("no such directory", isinstance(failure(NotFoundException, lambda: s.files.watch_dir("nope")), Exception))


def state(s):
    made = s.create_snapshot()
    say("snapshots", [x.snapshot_id for x in Sandbox.list_snapshots(sandbox_id=s.sandbox_id).next_items()] == [made.snapshot_id], made)
    say("delete one", Sandbox.delete_snapshot(made.snapshot_id) and not Sandbox.delete_snapshot(made.snapshot_id))
    s.files.write("kept", "f")
    (f,) = s.fork(timeout=60)
    say("fork", f.files.read("kept") == "f", f)
    f.kill()
    v = Volume.create("py")
    say("volume", [x.name for x in Volume.list()] == ["py"], v)
    say("destroy it", Volume.destroy(v.volume_id) and not Volume.destroy(v.volume_id))


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
    failure(Exception, b.wait)  # its end; a signal before that would be accepted
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
    m = c.get_metrics()
    say("metrics", len(m) == 1 and m[0].mem_total > m[0].mem_used > 0, m)
    watch(c)
    state(c)
    say("end", c.kill())
    say("end again", c.kill() is False)
    say("is not running", s.is_running() is False)
    print(json.dumps(["done", True]))


main()
