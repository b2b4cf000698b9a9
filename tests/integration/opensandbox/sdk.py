# SPDX-License-Identifier: Apache-2.0
"""OpenSandbox's SDKs for Python, unmodified: prints a line of JSON for each thing that was tried, [name, true or what came instead]"""
import asyncio
import json
import sys
from datetime import timedelta

from code_interpreter import CodeInterpreterSync, SupportedLanguage
from opensandbox import Sandbox, SandboxManagerSync, SandboxSync
from opensandbox.config import ConnectionConfig
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import ContentReplaceEntry, DirectoryListEntry, MoveEntry, SearchEntry, WriteEntry
from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule, SandboxFilter

SMALL = {"cpu": "1", "memory": "256Mi"}


def say(name, good, got=None):
    print(json.dumps([name, True if good is True else repr(got) if got is not None else repr(good)]), flush=True)


def failure(f):
    try:
        return "no error", f()
    except SandboxApiException as e:
        return e


def status(f):
    return getattr(failure(f), "status_code", None)


def texts(log):
    return [m.text for m in log]


def commands(s):
    r = s.commands.run("echo hi; echo er >&2; echo $X")
    say("run", (texts(r.logs.stdout), texts(r.logs.stderr), r.exit_code) == (["hi", "1"], ["er"], 0), r)
    say("exit 7", s.commands.run("exit 7").exit_code == 7)
    r = s.commands.run(["/bin/sh", "-c", "echo $0 \"$1\"", "a", "b c"])
    say("argv", texts(r.logs.stdout) == ["a b c"], r)
    r = s.commands.run("pwd; echo $A", opts=RunCommandOpts(working_directory="/tmp", envs={"A": "ü"}))
    say("cwd, envs", texts(r.logs.stdout) == ["/tmp", "ü"], r)
    r = s.commands.run("id -u", opts=RunCommandOpts(uid=0))
    say("uid", texts(r.logs.stdout) == ["0"], r)
    r = s.commands.run("printf 'a\\205\\342\\200\\250b\\rc\\377\\n'")
    say("odd characters", texts(r.logs.stdout) == ["a\ufffd\u2028b", "c\ufffd"], r)
    r = s.commands.run("sleep 100", opts=RunCommandOpts(timeout=timedelta(seconds=1)))
    say("timeout", r.exit_code != 0, r)
    b = s.commands.run("echo one; sleep 30", opts=RunCommandOpts(background=True))
    say("background", s.commands.get_command_status(b.id).running is True)
    s.commands.interrupt(b.id)
    say("interrupt", s.commands.get_command_status(b.id).running is False)
    logs = s.commands.get_background_command_logs(b.id)
    say("logs", (logs.content, logs.cursor) == ("one\n", 4), logs)
    sid = s.commands.create_session(working_directory="/tmp")
    s.commands.run_in_session(sid, "export Y=2")
    r = s.commands.run_in_session(sid, "echo $Y; pwd")
    say("session", texts(r.logs.stdout) == ["2", "/tmp"], r)
    s.commands.delete_session(sid)
    say("session deleted", status(lambda: s.commands.run_in_session(sid, "true")) == 404)


def files(s):
    s.files.create_directories([WriteEntry(path="/tmp/d", mode=755)])
    s.files.write_files([WriteEntry(path="/tmp/d/a", data="hé\nl2\nl3\n", mode=640), WriteEntry(path="/tmp/d/sub/b", data=b"\0\xff" * 100000)])
    say("read", s.files.read_file("/tmp/d/a") == "hé\nl2\nl3\n")
    say("read bytes", s.files.read_bytes("/tmp/d/sub/b") == b"\0\xff" * 100000)
    say("range", s.files.read_bytes("/tmp/d/a", range_header="bytes=4-5") == b"l2")
    say("lines", s.files.read_file("/tmp/d/a", offset=2, limit=1) == "l2\n", s.files.read_file("/tmp/d/a", offset=2, limit=1))
    say("stream", b"".join(s.files.read_bytes_stream("/tmp/d/sub/b")) == b"\0\xff" * 100000)
    info = s.files.get_file_info(["/tmp/d/a", "/tmp/d"])
    say("info", (info["/tmp/d/a"].mode, info["/tmp/d/a"].size, info["/tmp/d"].mode) == (640, 10, 755), info)
    r = s.files.replace_contents_detailed([ContentReplaceEntry(path="/tmp/d/a", old_content="l", new_content="L"), ContentReplaceEntry(path="/tmp/d/sub/b", old_content="none", new_content="")])
    say("replace", sorted(x.replaced_count for x in r) == [0, 2], r)
    s.files.move_files([MoveEntry(src="/tmp/d/a", dest="/tmp/d/sub/c.txt")])
    say("search", [f.path for f in s.files.search(SearchEntry(path="/tmp/d", pattern="?.tx[a-z]"))] == ["/tmp/d/sub/c.txt"])
    say("list", [f.path for f in s.files.list_directory(DirectoryListEntry(path="/tmp/d", depth=2))] == ["/tmp/d/sub", "/tmp/d/sub/b", "/tmp/d/sub/c.txt"])
    s.files.delete_files(["/tmp/d/sub/b"])
    s.files.delete_directories(["/tmp/d"])
    say("deleted", status(lambda: s.files.get_file_info(["/tmp/d"])) == 404)


def life(s, config):
    say("is_healthy", s.is_healthy())
    m = s.get_metrics()
    say("metrics", m.cpu_count > 0 and 0 <= m.cpu_used_percentage <= 100 and m.memory_used_in_mib > 0, m)
    info = s.get_info()
    say("info", info.status.state == "Running" and info.metadata == {"team": "a.b"}, info)
    say("renew", s.renew(timedelta(minutes=20)).expires_at > info.expires_at)
    say("metadata", s.patch_metadata({"team": None, "z": "1"}).metadata == {"z": "1"})
    manager = SandboxManagerSync.create(connection_config=config)
    rows = manager.list_sandbox_infos(SandboxFilter(states=["RUNNING"], metadata={"z": "1"}, page=1, page_size=5))
    say("list", [x.id for x in rows.sandbox_infos] == [s.id] and rows.pagination.total_items == 1, rows)
    s.pause()
    say("pause", s.get_info().status.state == "Paused")
    manager.resume_sandbox(s.id)
    say("resume", s.commands.run("echo back").exit_code == 0)
    snapshot = s.create_snapshot("py")
    say("snapshot", manager.get_snapshot(snapshot.id).name == "py")
    manager.delete_snapshot(snapshot.id)
    say("snapshot deleted", status(lambda: manager.get_snapshot(snapshot.id)) == 404)
    say("diagnostics are not served", status(lambda: s.get_diagnostic_logs("all")) == 501)
    s.kill()
    say("killed", status(s.get_info) == 404)


def policy():
    # a token of an endpoint cannot change a policy, the key can
    config = ConnectionConfigSync(use_server_proxy=True)
    policy = NetworkPolicy(default_action="deny", egress=[NetworkRule(action="allow", target="api.example.com")])
    s = SandboxSync.create("base", resource=SMALL, network_policy=policy, connection_config=config)
    say("policy", [r.target for r in s.get_egress_policy().egress] == ["api.example.com"])
    s.patch_egress_rules([NetworkRule(action="allow", target="*.example.org")])
    s.delete_egress_rules(["api.example.com"])
    say("policy patched", [r.target for r in s.get_egress_policy().egress] == ["*.example.org"], s.get_egress_policy())
    s.kill()


async def asynchronous():
    s = await Sandbox.create("base", resource=SMALL, connection_config=ConnectionConfig())
    r = await asyncio.gather(*[s.commands.run(f"echo {i}") for i in range(10)])
    say("async", [texts(x.logs.stdout) for x in r] == [[str(i)] for i in range(10)])
    await s.files.write_file("/tmp/a", "x")
    say("async files", await s.files.read_file("/tmp/a") == "x")
    await s.kill()


def code(config):
    s = SandboxSync.create("opensandbox/code-interpreter:v1.0.1", resource={"cpu": "1", "memory": "1Gi"}, connection_config=config, ready_timeout=timedelta(seconds=60))
    i = CodeInterpreterSync.create(s)
    c = i.codes.create_context(SupportedLanguage.PYTHON)
    r = i.codes.run("x = 20\nprint('ü')\nx + 1", context=c)
    say("code", [x.text for x in r.result] == ["21"] and texts(r.logs.stdout) == ["ü"] and r.id == c.id, r)
    r = i.codes.run("x", context=c)
    say("code keeps", [x.text for x in r.result] == ["20"], r)
    r = i.codes.run("1 / 0", context=c)
    say("exception", r.error.name == "ZeroDivisionError" and len(r.error.traceback) > 0, r)
    r = i.codes.run("2 * 21", language=SupportedLanguage.PYTHON)
    again = i.codes.run("_", language=SupportedLanguage.PYTHON)
    say("default context", [x.text for x in r.result] == ["42"] and [x.text for x in again.result] == ["42"] and r.id == again.id, again)
    r = i.codes.run("1 + 1", language=SupportedLanguage.JAVASCRIPT)
    say("javascript", [x.text for x in r.result] == ["2"], r)
    say("contexts", c.id in [x.id for x in i.codes.list_contexts("python")] and i.codes.get_context(c.id).language == "python")
    i.codes.delete_context(c.id)
    say("context deleted", status(lambda: i.codes.get_context(c.id)) == 404)
    i.codes.delete_contexts("python")
    say("contexts deleted", i.codes.list_contexts("python") == [])
    say("no java", status(lambda: i.codes.create_context("java")) in (400, 422))
    s.kill()


def main(parts):
    config = ConnectionConfigSync()
    s = SandboxSync.create("base", resource=SMALL, env={"X": "1"}, metadata={"team": "a.b"}, timeout=timedelta(minutes=5), connection_config=config)
    for name, part in (("commands", lambda: commands(s)), ("files", lambda: files(s)), ("policy", policy), ("async", lambda: asyncio.run(asynchronous())),
                       ("code", lambda: code(config)), ("life", lambda: life(s, config))):
        try:
            if not parts or name in parts:
                part()
        except Exception as e:
            say(name, False, e)
    print(json.dumps(["done", True]))


main(sys.argv[1:])
