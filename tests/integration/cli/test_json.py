# SPDX-License-Identifier: Apache-2.0
"""--json: every command has it, or a reason not to"""
import json
import os
import signal

import fake as fake_daemon
from test_context import user  # noqa: F401
from test_cp import D, R, S, box, says, tar  # noqa: F401

REASONS = {
    "run": "what is printed is the command's own",
    "cat": "what is printed is the file's",
    "service logs": "what is printed is the service's own",
    "shell": "a person sits at it",
    "kernel repl": "a person sits at it",
    "attach": "a person sits at it",
    "edit": "a person sits at it",
    "mcp": "it speaks JSON-RPC",
    "mcp config": "it prints JSON anyway",
    "completion": "a shell reads what is printed",
    "snapshot export": "it writes a tar",
    "screenshot": "it writes a picture",
    "clipboard": "what is printed is the text that was copied",
    "browser shot": "it prints a picture",
    "browser connect": "it prints a URL and forwards until it is stopped",
    "backup": "it prints the name of the file it wrote",
    "restore": "it prints what to start next",
}


def one(r):
    """The object in the one line that was printed."""
    assert r.returncode == 0 and r.stdout.count("\n") == 1, r
    return json.loads(r.stdout)


def test_every_command_has_it_or_a_reason(cay):
    commands = one(cay("help", "--json"))["commands"]
    without = {c["name"] for c in commands if "json" not in [o["name"] for o in c["options"]]}
    assert without == set(REASONS)
    shown = cay("help").stdout
    assert [c["name"] for c in commands if f"\n  {c['name']} " not in shown] == [] and shown.count("\n  ") == len(commands)


def test_help_of_one_is_its_row(cay):
    row = one(cay("help", "--json", "context", "add"))
    assert row["name"] == "context add" and row["args"] == "[OPTION...] NAME" and "never" in row["more"]
    assert {"name": "url", "arg": "URL"}.items() <= row["options"][0].items()
    exec_ = one(cay("help", "exec", "--json"))
    assert [o["letter"] for o in exec_["options"] if o["name"] == "tty"] == ["t"] and exec_["options"][-1]["name"] == "context"
    assert cay("help", "--json", "nothing").returncode == 2


def test_contexts_say_what_they_are_now(user):  # noqa: F811
    here = {"name": "here", "url": "http://127.0.0.1:7070", "current": False}
    kept = user.dir / "here.context"
    assert one(user("context", "add", "--json", "here", "--url", here["url"], "--token-stdin", data=b"secret\n")) == here
    assert one(user("context", "use", "here", "--json")) == {**here, "current": True} == one(user("context", "show", "--json"))
    assert one(user("context", "add", "--json", "--replace", "here", "--url", "http://127.0.0.1:7071"))["url"].endswith(":7071")
    refused = user("context", "rm", "--json", "here")
    assert refused.returncode != 0 and not refused.stdout
    assert one(user("context", "use", "local", "--json")) == {"name": "local", "current": True}
    assert one(user("context", "rm", "--json", "here")) == {**here, "url": "http://127.0.0.1:7071"} and not kept.exists()
    kept.write_text("cannot be read")
    kept.chmod(0o600)
    assert one(user("context", "rm", "--json", "here")) == {"name": "here", "current": False} and not kept.exists()


def test_kill_counts_all_who_got_it(daemon, cay):
    daemon.add(name="web")
    daemon.say["POST", "/v1/sandboxes/*/processes/7/signal"] = fake_daemon.reply(200, {"signalled": 3})
    daemon.say["POST", "/v1/sandboxes/*/processes/8/signal"] = fake_daemon.reply(200, {"signalled": 1})
    assert one(cay("kill", "--json", "-t", "web", "7", "8")) == {"signalled": 4}
    assert cay("kill", "web", "7").stdout == "" and cay("kill", "--json", "web", "9").stdout == ""


def test_image_login_says_whose_it_is_and_no_password(daemon, cay):
    daemon.say["POST", "/v1/registries"] = fake_daemon.reply(200, {"registry": "hub.example", "username": "me"})
    r = cay("image", "login", "--json", "--username", "me", "hub.example", data=b"pw-of-mine\n")
    assert one(r) == {"registry": "hub.example", "username": "me", "unreadable": False}


def test_cp_says_what_was_made(daemon, cay, box, tmp_path):  # noqa: F811
    made = {"files": 0, "directories": 0, "links": 0, "bytes": 0, "skipped": 0, "changed": 0}
    says(daemon, tar((D, "d", None, 0o755), (R, "d/f", b"12345"), (S, "d/l", "f")))
    out = one(cay("cp", "--json", "box:tree", str(tmp_path / "to")))
    assert out == {**made, "files": 1, "directories": 1, "links": 1, "bytes": 5}
    says(daemon, b"", type="file", size=5)
    daemon.say["GET", "/v1/sandboxes/*/files/content"] = fake_daemon.head(200, "application/octet-stream", 5) + b"54321"
    assert one(cay("cp", "--json", "box:f", str(tmp_path / "f"))) == {**made, "files": 1, "bytes": 5}
    assert (tmp_path / "f").read_bytes() == b"54321"
    r = cay("cp", "--json", "box:f", "-")
    assert r.returncode == 2 and not r.stdout
    daemon.say["POST", "/v1/sandboxes/*/files/import"] = fake_daemon.reply(200, {**made, "files": 2, "skipped": 1})
    r = cay("cp", "--json", "box:f", "box:g/")
    assert one(r) == {**made, "files": 2, "skipped": 1} and not r.stderr


def test_a_forward_says_where_it_listens(daemon, cay):
    daemon.add(name="web")
    p = cay.start("port", "forward", "--json", "web", "0:80")
    said = json.loads(p.stdout.readline())
    assert said["port"] == 80 and 0 < said["local"] < 65536
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 0 and p.communicate() == (b"", b"")
    full = os.open("/dev/full", os.O_WRONLY)
    r = cay("port", "forward", "--json", "web", "0:80", stdout=full, text=False)
    os.close(full)
    assert r.returncode != 0 and "stdout" in r.stderr
