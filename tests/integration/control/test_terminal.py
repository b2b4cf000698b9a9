# SPDX-License-Identifier: Apache-2.0
"""Terminals and streams with the programs of the base image and two of ours: top, vim, bash, git, language servers"""
import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest
from cay import wait_for
from lsp import MODULES, OF_JSON
from screen import Screen, Tmux


@pytest.fixture
def env(daemon, tmp_path):
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CAY_TIMEOUT": "20s", "TERM": "xterm", "CAY_SOCKET": daemon.socket}


@pytest.fixture
def tmux(tmp_path):
    with Tmux(tmp_path) as t:
        yield t


@pytest.fixture(scope="module")
def base(daemon, base_image):
    """A sandbox of the base image: bash, git, node, top."""
    name = daemon.create(base_image)
    yield name
    daemon.delete(name)


def test_top(daemon, env, base, tmux):
    """What it shows is of the moment; how it is laid out is not."""
    tmux.run("top", f"{daemon.programs['cay']} exec -it {base} -- top -d 0.3", env)

    def laid_out(rows):
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in tmux.shows("top").split("\n")]
        return len(lines) == rows + 1 and lines[0].startswith("top - ") and lines[1].startswith("Tasks:") and \
            re.match(r" *PID USER +PR +NI +VIRT", lines[6]) and any(line.endswith(" top") for line in lines[7:]) and \
            all(len(line) <= 90 for line in lines)
    wait_for("top", lambda: laid_out(28), 30)
    tmux("resize-window", "-t", "top", "-x", "90", "-y", "15")
    wait_for("a smaller top", lambda: laid_out(15), 30)
    tmux.keys("top", "q")
    wait_for("its end", lambda: subprocess.run([*tmux.argv, "has-session"], capture_output=True).returncode, 30)


def put_tree(daemon, box, path, files):
    """files: {name: path here}"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, source in files.items():
            t.add(os.path.realpath(source), name, filter=lambda i: None if i.name.endswith((".map", ".ts", ".md")) else i)
    daemon.call("PUT", f"/v1/sandboxes/{box}/files/tree?path={path}", out.getvalue())


VIM = "/usr/bin/vim.tiny"


@pytest.fixture(scope="module")
def vim(daemon, base):
    """Ours with its libraries, so that it needs none of the image's."""
    libraries = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", VIM], capture_output=True, text=True, check=True).stdout)
    put_tree(daemon, base, "/tmp/v", {pathlib.PurePath(f).name: f for f in (VIM, *libraries)})
    loader, = (pathlib.PurePath(f).name for f in libraries if "ld-linux" in f)
    return f"/tmp/v/{loader} --library-path /tmp/v /tmp/v/vim.tiny"


def test_vim_is_drawn_as_outside(daemon, env, base, vim, tmux, tmp_path):
    """The same keys in a sandbox and here: screens with the same letters and colours."""
    text = "".join(f"{i}\tz\u00e4hle \u4e16\u754c {'x' * (i % 120)}\n" for i in range(1, 200)).encode()
    (tmp_path / "f").write_bytes(text)
    daemon.call("PUT", f"/v1/sandboxes/{base}/files/content?path=/tmp/f", text)
    options = "-u NONE -i NONE -n +'set nocp enc=utf-8 nu list ruler laststatus=2 hlsearch' f"
    tmux.run("out", f"cd {tmp_path} && LC_ALL=C.UTF-8 {VIM} {options}", {**env, "LC_ALL": "C.UTF-8"})
    tmux.run("in", f"{daemon.programs['cay']} exec -it --detach-keys '' -e LC_ALL=C.UTF-8 {base} -- sh -c \"cd /tmp && exec {vim} {options}\"",
             {**env, "LC_ALL": "C.UTF-8"})

    def same(what):
        def there():
            return what in re.sub(r"\x1b\[[0-9;]*m", "", tmux.shows("out")) and tmux.shows("in") == tmux.shows("out")
        with contextlib.suppress(TimeoutError):
            wait_for(what, there, 30)
        assert there(), (what, tmux.shows("in"), tmux.shows("out"))
    same("z\u00e4hle \u4e16\u754c")
    for keys, what in ((["G"], "199"), (["gg", "/xxx", "Enter"], "/xxx"), ([":split", "Enter", "C-w", "j", "50G", "dd"], "51"),
                       (["i", "neu \u00fc\u4e16", "Escape"], "neu \u00fc\u4e16"), (["v", "}", "C-f", "C-b"], "VISUAL")):
        for name in ("in", "out"):
            tmux.keys(name, *keys)
        same(what)
    for name in ("in", "out"):
        tmux("resize-window", "-t", name, "-x", "61", "-y", "17")
        tmux.keys(name, "Escape", "50G", "C-l")
    same("neu \u00fc\u4e16")
    for name in ("in", "out"):
        tmux.keys(name, ":wqa", "Enter")
    wait_for("its end", lambda: subprocess.run([*tmux.argv, "has-session"], capture_output=True).returncode, 30)
    after = daemon.open("GET", f"/v1/sandboxes/{base}/files/content?path=/tmp/f").read()
    assert after == (tmp_path / "f").read_bytes() != text


def test_bash_and_tiocsti(daemon, env, base):
    """ESC-15: what a program inside types, it types at its own terminal."""
    with Screen([daemon.programs["cay"], "shell", base], env, answers=0.0) as s:
        s.until(rb"[$#] $")
        assert b"job control" not in s.out
        s.type(b"python3 -c \"import fcntl,termios; [fcntl.ioctl(0, termios.TIOCSTI, bytes([b])) for b in b'id\\n']\" 2>/dev/null; exit 3\n")
        assert s.ends() == 3 and s.is_restored() and s.typed(0.3) == b""


# -- programs that speak over the streams

SERVER = r"""
let held = Buffer.alloc(0), docs = {};
const send = m => { const b = Buffer.from(JSON.stringify({jsonrpc: "2.0", ...m})); process.stdout.write(`Content-Length: ${b.length}\r\n\r\n`); process.stdout.write(b); };
const does = {
  initialize: () => ({capabilities: {hoverProvider: true, textDocumentSync: 1}}),
  "textDocument/hover": p => ({contents: docs[p.textDocument.uri].split("\n")[p.position.line]}),
  shutdown: () => null,
};
process.stdin.on("data", d => {
  held = Buffer.concat([held, d]);
  for (;;) {
    const m = /^Content-Length: (\d+)\r\n\r\n/.exec(held.toString("latin1"));
    if (!m || held.length < m[0].length + +m[1]) return;
    const q = JSON.parse(held.subarray(m[0].length, m[0].length + +m[1]));
    held = held.subarray(m[0].length + +m[1]);
    if (q.method === "exit") process.exit(0);
    if (q.method === "textDocument/didOpen") {
      docs[q.params.textDocument.uri] = q.params.textDocument.text;
      send({method: "textDocument/publishDiagnostics", params: {uri: q.params.textDocument.uri, diagnostics: []}});
    }
    if (q.id !== undefined) send({id: q.id, result: does[q.method](q.params)});
  }
});
"""


class Speaker:
    """A client of a language server, by the streams of a command of ours."""
    def __init__(self, argv, env):
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    def send(self, **m):
        body = json.dumps({"jsonrpc": "2.0", **m}).encode()
        self.p.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.p.stdin.flush()

    def hear(self):
        size = int(re.fullmatch(rb"Content-Length: (\d+)\r\n", self.p.stdout.readline()).group(1))
        assert self.p.stdout.readline() == b"\r\n"
        return json.loads(self.p.stdout.read(size))

    def until(self, fits):
        while not fits(m := self.hear()):
            pass
        return m

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()


@pytest.fixture(scope="module")
def json_server(daemon, base):
    put_tree(daemon, base, "/tmp/lsp/node_modules", {name: MODULES / name for name in OF_JSON})
    return ["node", "/tmp/lsp/node_modules/vscode-langservers-extracted/bin/vscode-json-language-server", "--stdio"]


@pytest.mark.parametrize("how", ["exec", "attach"])
def test_a_stock_language_server(daemon, env, base, json_server, how):
    """VS Code's server for JSON: from initialize over its complaints about a broken file to its exit."""
    argv = json_server
    words = ["exec", "-i", base, "--", *argv] if how == "exec" else ["attach", base, daemon.exec_detached(base, argv, stdin_open=True)]
    with Speaker([daemon.programs["cay"], *words], env) as s:
        s.send(id=1, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": {"provideFormatter": True}})
        assert s.until(lambda m: m.get("id") == 1)["result"]["capabilities"]["textDocumentSync"]
        s.send(method="initialized", params={})
        s.send(method="textDocument/didOpen",
               params={"textDocument": {"uri": "file:///x.json", "languageId": "json", "version": 1, "text": "{\n  \"a\": 1,\n  \"b\": [1, 2\n}\n"}})
        told = s.until(lambda m: m.get("method") == "textDocument/publishDiagnostics" and m["params"]["diagnostics"])["params"]
        assert told["uri"] == "file:///x.json" and told["diagnostics"][0]["range"]["start"]["line"] == 3, told
        s.send(method="textDocument/didChange", params={"textDocument": {"uri": "file:///x.json", "version": 2}, "contentChanges": [{"text": "{\"a\":1}"}]})
        assert s.until(lambda m: m.get("method") == "textDocument/publishDiagnostics")["params"]["diagnostics"] == []
        s.send(id=2, method="textDocument/formatting", params={"textDocument": {"uri": "file:///x.json"}, "options": {"tabSize": 2, "insertSpaces": True}})
        assert "".join(e["newText"] for e in s.until(lambda m: m.get("id") == 2)["result"]).count("\n") == 2
        s.send(id=3, method="shutdown")
        assert s.until(lambda m: m.get("id") == 3)["result"] is None
        s.send(method="exit")
        assert s.p.wait(20) == 0 and s.p.stdout.read() == b""


@pytest.mark.parametrize("how", ["exec", "attach"])
def test_a_language_server(daemon, env, base, how):
    """The protocol's framing and order, requests and notifications both ways, to an orderly exit."""
    argv = ["node", "-e", SERVER]
    words = ["exec", "-i", base, "--", *argv] if how == "exec" else ["attach", base, daemon.exec_detached(base, argv, stdin_open=True)]
    text = "".join(f"zeile {i}: \u00fc\u4e16\r\n" for i in range(20000))
    with Speaker([daemon.programs["cay"], *words], env) as s:
        s.send(id=1, method="initialize", params={})
        assert s.hear()["result"]["capabilities"]["hoverProvider"]
        s.send(method="textDocument/didOpen", params={"textDocument": {"uri": "file:///x", "text": text}})
        assert s.hear()["method"] == "textDocument/publishDiagnostics"
        for line in (0, 19999, 7):
            s.send(id=line + 10, method="textDocument/hover", params={"textDocument": {"uri": "file:///x"}, "position": {"line": line}})
            assert s.hear()["result"]["contents"] == f"zeile {line}: \u00fc\u4e16\r"
        s.send(id=2, method="shutdown")
        assert s.hear() == {"jsonrpc": "2.0", "id": 2, "result": None}
        s.send(method="exit")
        assert s.p.wait(20) == 0 and s.p.stdout.read() == b""


def test_git_clones_and_pushes(daemon, env, base, tmp_path):
    """By packaging/git/git-remote-cay, over the streams of a command."""
    daemon.exec(base, ["sh", "-c", "rm -rf /tmp/r; git init -q -b main /tmp/r; cd /tmp/r; git config receive.denyCurrentBranch ignore; head -c 300000 /dev/urandom > blob;"
                     "git add blob; git -c user.name=x -c user.email=x@y commit -q -m one"])
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    shutil.copy(pathlib.Path(__file__).parents[3] / "packaging/git/git-remote-cay", bin_)
    (bin_ / "cay").symlink_to(daemon.programs["cay"])
    mine = {**env, "PATH": f"{bin_}:{env['PATH']}", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "x",
            "GIT_AUTHOR_EMAIL": "x@y", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@y"}

    def git(*words):
        return subprocess.run(["git", *words], env=mine, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    git("clone", "-q", f"cay://{base}/tmp/r", "r")
    data = (tmp_path / "r/blob").read_bytes()
    assert len(data) == 300000
    assert daemon.exec(base, ["sha256sum", "/tmp/r/blob"]).stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    (tmp_path / "r/more").write_text("more\n")
    git("-C", "r", "add", "more")
    git("-C", "r", "commit", "-q", "-m", "two")
    git("-C", "r", "push", "-q", "origin", "main:other")
    assert daemon.exec(base, ["git", "-C", "/tmp/r", "show", "other:more"]).stdout == b"more\n"
