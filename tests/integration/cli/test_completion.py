# SPDX-License-Identifier: Apache-2.0
"""Completion: what the tables say, what the server says, and each shell with somebody at it"""
import pathlib
import re
import sys
import threading
import time

import pytest

import fake as fake_daemon

sys.path.append(str(pathlib.Path(__file__).parents[2] / "lib"))
from screen import Screen  # noqa: E402


@pytest.fixture
def words(cay):
    def complete(*line):
        r = cay("completion", "words", "--", *line)
        assert (r.returncode, r.stderr) == (0, ""), r
        return [w.split("\t")[0] for w in r.stdout.splitlines()]
    return complete


@pytest.fixture
def names(words):
    """What the server says, which has 300 ms: where the machine took them away, another Tab."""
    def complete(*line, want):
        for _ in range(20):
            got = words(*line)
            if got == want:
                break
        assert got == want
    return complete


@pytest.mark.parametrize("line, want", [
    (["imag"], ["image"]), (["image", "p"], ["pull", "prune"]), (["help", "template", "b"], ["build"]), (["exec", "--int"], ["--interactive"]),
    (["create", "--storage", ""], ["disk", "memory", "read_only"]), (["create", "--storage=m"], ["--storage=memory"]),
    (["ls", "--state", "pa"], ["paused"]), (["exec", "x", "--", ""], []), (["exec", "x", "--", "--det"], []),
    (["--con"], ["--context"]), (["--context", "lo"], ["local"]), (["ls", "--context", "lo"], ["local"]),
    (["completion", ""], ["bash", "zsh", "fish"]), (["image", "import", ""], [":files"]), (["key", "create", "--out", ""], [":files"]),
    (["nothing", "x", ""], []), (["ls", "--no-such", "--al"], ["--all"]), (["template", "show", "--mem"], []),
    (["--context", "local", "fs"], ["fsck"]), (["create", "--image-e"], ["--image-entrypoint"]), (["create", "--r"], ["--runtime", "--rest-ttl", "--registry-auth", "--r"]), (["run", "--timez"], ["--timezone"]),
    (["bench", "-n", ""], []),
], ids=lambda v: " ".join(v) if v else "-")
def test_tables_say_what_fits(words, line, want):
    assert words(*line) == want


def test_every_command_is_found_by_its_first_letters(words, cay):
    names = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", cay("help").stdout, re.M)
    assert len(names) > 60
    for name in names:
        front, last = name.split()[:-1], name.split()[-1]
        assert last in words(*front, last[:2]), name


def test_a_server_has_names(daemon, words, names):
    for name in ("web", "worker", "db"):
        daemon.add(name=name, group="team")
    daemon.add(name="gone", state="terminated")
    nameless = daemon.add()
    names("exec", "w", want=["web", "worker"])
    names("rm", "web", "", want=["web", "worker", "db", nameless["id"]])
    names("cp", "w", want=[":files", "web:", "worker:"])
    assert words("cp", "./w") == words("cp", "web:/") == [":files"]
    names("ls", "--group", "", want=["team"])
    names("ls", "--group=t", want=["--group=team"])
    names("tenant", "rm", "d", want=["default"])
    assert words("extend", "web", "") == []


def test_names_that_a_shell_would_obey_are_not_offered(daemon, names):
    for i, name in enumerate(("$(reboot)", "a`id`", "-rf", "a'b", "a;b", "a\\b", "~root", "{a,b}", "ok/x:1")):
        daemon.images[i] = {"id": fake_daemon.new_id("im"), "name": name, "digest": "sha256:" + "0" * 64, "size_bytes": 1,
                            "created_at": "2026-11-15T01:50:43.123Z"}
    names("create", "", want=["ok/x:1"])


def test_who_is_away_says_nothing(daemon, words):
    daemon.stop()
    assert words("exec", "") == [] and words("cp", "") == [":files"] and words("exec", "--tt") == ["--tty"]


def test_a_server_that_hangs_is_waited_for_a_moment(daemon, words):
    over = threading.Event()
    daemon.say["GET", "/v1/sandboxes"] = lambda c, f: over.wait(60)
    began = time.monotonic()
    assert words("cp", "") == [":files"]
    assert time.monotonic() - began < 20  # 0.3 s, and not the 30 of others, on a machine that has much to do
    over.set()


SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"], "fish": ["fish", "--no-config", "-i"]}
SOURCED = {"bash": "source <(cay completion bash)", "zsh": "autoload -Uz compinit; compinit -u -D; source <(cay completion zsh)",
           "fish": "cay completion fish | source"}
# where a package puts it: who loads it does so at the first Tab
PLACED = {"bash": ("data/bash-completion/completions/cay", "source /usr/share/bash-completion/bash_completion"),
          "zsh": ("fpath/_cay", "fpath=(~/fpath $fpath); autoload -Uz compinit; compinit -u -D"),
          "fish": ("fish/cay.fish", "set -p fish_complete_path ~/fish")}


@pytest.fixture(params=[(s, how) for s in SHELLS for how in ("sourced", "placed")], ids="-".join)
def shell(request, cay, daemon, tmp_path):
    """A shell with somebody at it, whose cay completes."""
    name, how = request.param
    source = SOURCED[name]
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "cay").symlink_to(cay.program)
    (tmp_path / "notes.txt").write_text("")
    if how == "placed":
        file, source = tmp_path / PLACED[name][0], PLACED[name][1]
        file.parent.mkdir(parents=True)
        file.write_text(cay("completion", name).stdout)
    env = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb" if name == "bash" else "xterm", "LANG": "C.UTF-8",
           "PS1": "ready> ", "PROMPT": "ready> ", "CAY_SOCKET": daemon.path, "XDG_CONFIG_HOME": str(tmp_path / "config"),
           "XDG_DATA_HOME": str(tmp_path / "data"), "fish_greeting": ""}
    if name == "fish":
        source = "function fish_prompt; echo -n 'ready> '; end; " + source
    with Screen(SHELLS[name], env, cols=160, answers=0.0) as s:
        s.until(rb"ready> |[>#] ", 30)
        s.type(f"cd {tmp_path}; {source}; echo source''d $HOME\r".encode())
        s.until(rb"sourced /.*?(ready> )", 30)
        yield s


def completed(shell, line, want):
    """What a Tab makes of a line; then it is taken away.  A server that was not heard in its 300 ms is asked again."""
    for left in reversed(range(12)):
        shell.type(line + b"\t")
        try:
            shell.until(re.escape(want), 4)
            break
        except AssertionError:
            if not left:
                raise
            shell.type(b"\x15")
    shell.type(b"\x15")


def test_shells_complete_what_is_typed(shell, daemon):
    daemon.add(name="web-server")
    completed(shell, b"cay templ", b"cay template")
    completed(shell, b"cay exec --inter", b"active")
    completed(shell, b"cay exec we", b"b-server")
    completed(shell, b"cay cp we", b"b-server:")
    completed(shell, b"cay cp note", b"s.txt")
    completed(shell, b"cay create --storage=mem", b"ory")
