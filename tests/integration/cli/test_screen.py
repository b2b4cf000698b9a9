# SPDX-License-Identifier: Apache-2.0
"""What somebody at a terminal gets and a program does not: a pager, colours, the next command"""
import json
import os
import pathlib
import sys

import pytest

import fake as fake_daemon

sys.path.append(str(pathlib.Path(__file__).parents[2] / "lib"))
from screen import Screen, Tmux  # noqa: E402
from test_cli import wait_for  # noqa: E402


@pytest.fixture
def env(daemon):
    keep = {k: v for k, v in os.environ.items() if k.startswith(("CAY_", "ASAN", "UBSAN"))}
    return {**keep, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm", "LANG": "C.UTF-8", "CAY_SOCKET": daemon.path}


def many(daemon, n=60):
    daemon.page = 100
    for i in range(n):
        daemon.add(name=f"box-{i:02}")


def test_a_long_list_is_paged_in_a_real_terminal(daemon, cay, env, tmp_path):
    many(daemon)
    with Tmux(tmp_path) as tmux:
        tmux.run("ls", f"{cay.program} ls; echo status $?; cat", env)
        wait_for(lambda: "box-20" in tmux.shows("ls"))
        assert "NAME" in tmux.shows("ls") and "box-59" not in tmux.shows("ls"), "it was not stopped at the end of the screen"
        tmux.keys("ls", "G")
        wait_for(lambda: "box-59" in tmux.shows("ls"))
        tmux.keys("ls", "q")
        wait_for(lambda: "status 0" in tmux.shows("ls"))


def test_who_quits_the_pager_early_is_no_failure(daemon, cay, env):
    many(daemon, 2000)
    with Screen([cay.program, "ls"], {**env, "PAGER": "head -n 2"}) as s:
        assert s.ends() == 0 and b"NAME" in s.out and b"box-09" not in s.out


@pytest.mark.parametrize("words, more", [
    (["ls", "--no-pager"], {}), (["--no-pager", "ls"], {}), (["ls"], {"PAGER": ""}), (["ls"], {"PAGER": "cat"}), (["ls", "--json"], {}),
    (["ls", "--group", "none"], {})], ids=repr)
def test_no_pager(daemon, cay, env, words, more):
    many(daemon)
    with Screen([cay.program, *words], {"PAGER": "echo paged #", **env, **more}, cols=200) as s:
        assert s.ends() == 0 and b"paged" not in s.out


def test_a_pipe_has_no_pager(daemon, cay, monkeypatch):
    many(daemon)
    monkeypatch.setenv("PAGER", "echo paged #")
    assert len(cay("ls").stdout.splitlines()) == 61


def test_long_help_and_events_are_paged_too(daemon, cay, env):
    box = daemon.add(name="web")
    for _ in range(40):
        daemon.happen(box, "running")
    for words in (["help"], ["help", "create"], ["create", "--help"], ["events"], ["--help"]):
        with Screen([cay.program, *words], {**env, "PAGER": "echo paged"}) as s:
            assert s.ends() == 0 and bytes(s.out) == b"paged\r\n", words


@pytest.mark.parametrize("no_color, want", [(None, True), ("", True), ("1", False)])
def test_colours_are_for_a_terminal_that_wants_them(daemon, cay, env, no_color, want):
    more = {} if no_color is None else {"NO_COLOR": no_color}
    with Screen([cay.program, "doctor", "--no-pager"], {**env, **more}) as s:
        s.ends()
        assert (b"\x1b[3" in s.out) == want
    assert "\x1b" not in cay("doctor").stdout


def test_a_name_that_is_nearly_right_is_told(daemon, cay):
    daemon.add(name="web")
    daemon.add(name="worker")
    r = cay("exec", "wbe", "--", "true")
    assert r.returncode == 4 and "did you mean 'web'?" in r.stderr
    assert "did you mean" not in cay("exec", "frobnicate", "--", "true").stderr


@pytest.mark.parametrize("words, want", [
    (["image", "pul", "x"], "did you mean 'cay image pull'?"), (["image", "frobnicate"], "one of: cay image pull"), (["image"], "one of:"),
    (["temlpate", "ls"], "cay"), (["ls", "--staet", "x"], "did you mean --state?"), (["help", "crate"], "did you mean 'cay create'?"),
    (["frobnicate"], "'cay help' lists the commands")], ids=repr)
def test_a_word_that_is_nearly_right_is_told(cay, words, want):
    r = cay(*words)
    assert r.returncode == 2 and want in r.stderr, r.stderr


@pytest.mark.parametrize("words, path, code, status, want", [
    (["create", "nothing"], ("POST", "/v1/sandboxes"), "not_found", 404, "'cay image ls' lists images"),
    (["run", "--template", "x", "--", "y"], ("POST", "/v1/sandboxes"), "build_failed", 422, "'cay template log NAME'"),
    (["pause", "web"], ("POST", "/v1/sandboxes/*/pause"), "wrong_state", 409, "'cay why SANDBOX'"),
    (["create", "base"], ("POST", "/v1/sandboxes"), "no_capacity", 503, "'cay rm' removes"),
    (["image", "ls"], ("GET", "/v1/images"), "permission_denied", 403, "'cay key create --scope'")], ids=repr)
def test_a_failure_says_what_to_run_next(daemon, cay, words, path, code, status, want):
    """The server's own words are for who sends requests; where they are the table's, cay knows better."""
    daemon.add(name="web")
    hints = {e["code"]: e["hint"] for e in table_of_errors()}
    daemon.say[path] = fake_daemon.failure(status, code, "no", hint=hints[code])
    r = cay(*words)
    assert r.returncode > 1 and want in r.stderr, r.stderr
    daemon.say[path] = fake_daemon.failure(status, code, "no", hint="call the operator")
    assert "hint: call the operator" in cay(*words).stderr


def table_of_errors():
    """errors.def, without a compiler."""
    text = (pathlib.Path(__file__).parents[3] / "src/lib/base/errors.def").read_text()
    for line in text.splitlines():
        if line.startswith("CAY_ERROR("):
            parts = line.split('"')
            yield {"code": parts[1], "hint": json.loads(f'"{parts[3]}"')}
