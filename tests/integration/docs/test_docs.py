# SPDX-License-Identifier: Apache-2.0
"""Every command of the README and of the guides is run, and prints what they say

A whole node as `make run` has it: the base image, an edge at localhost:7070, previews, sockets
in /run/cay.  tests/lib/fences.py says how a document is read.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import fences
import lsp
import pytest
import unpacked
import world

TOP = pathlib.Path(__file__).parents[3]
BUILD = os.environ.get("CAY_BUILD", "build/gcc")
BASE = pathlib.Path(BUILD).resolve().parent / "images/base"
MORE_IMAGES = {"docs/kernels.md": "code"}
DOCUMENTS = ["README.md", *sorted(str(p.relative_to(TOP)) for p in (TOP / "docs").glob("*.md"))]

# What is not run here: the beginning of a command, in which document, and why.
NOT_RUN = [
    ("cay shell", "README.md", "needs a person at a terminal: tests/integration/control/test_terminal.py"),
    ("make", "docs/building.md", "builds and tests what this is a part of"),
    ("bash .ci/run", "docs/building.md", "the same"),
    ("cay shell", "docs/quickstart.md", "needs a person at a terminal: tests/integration/control/test_terminal.py"),
    ("cay events --follow", "docs/quickstart.md", "goes on until it is interrupted: tests/integration/cli/test_life.py"),
    ("cay template build", "docs/quickstart.md", "needs a Dockerfile: tests/integration/control/test_dockerfile.py"),
    ("cay image pull", "docs/quickstart.md", "there is no such registry; tests/integration/control/test_pull.py has one"),
    ("cay context add far --url https:", "docs/quickstart.md", "there is no such machine; the context above it has one"),
    ("tar c project", "docs/quickstart.md", "the same"),
    ("cay --context far", "docs/quickstart.md", "the same"),
    ("cay template build", "docs/templates.md", "needs a Dockerfile: tests/integration/control/test_dockerfile.py"),
    ("npm install", "docs/websocket.md", "there is no registry; what it would bring is brought()"),
]


def brought(document, top):
    """What a command of NOT_RUN would have put there, and later ones need."""
    if document == "docs/websocket.md":
        for name in (*lsp.OF_JSON, "ws"):
            shutil.copytree(lsp.MODULES / name, top / "node_modules" / name, symlinks=True)
    if document == "docs/evals.md":  # the reader has saved it
        program = next(lines for _, language, lines in fences.fences((TOP / document).read_text()) if language == "python")
        (top / "eval.py").write_text("\n".join(program) + "\n")


class Node(world.World):
    def __init__(self):
        super().__init__(BUILD, env={"CAY_EDGE_PREVIEWS": "http:" + "//preview.localhost:7070", "CAY_EGRESS_DNS": "127.0.0.1"})
        self.port = 7070
        self.env["CAY_EDGE_LISTEN"] = "127.0.0.1:7070"
        self.link, self.lent = pathlib.Path("/run/cay"), contextlib.ExitStack()

    def start(self):
        self.names_a_directory()
        super().start()
        self.link.symlink_to(self.run)
        subprocess.run([self.programs["cay"], "image", "import", "--name", "base", BASE], env=self.variables(), check=True, capture_output=True)

    def names_a_directory(self):
        """As docs/volumes.md says."""
        self.env["CAY_PATHS_HOST"] = host = self.lent.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        models = pathlib.Path(self.lent.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        os.chmod(host, 0o755)
        models.chmod(0o755)
        (models / "weights").touch()
        pathlib.Path(host, "models.conf").write_text(f"[directory]\npath = {models}\ntenants = all\n")

    def stop(self):
        self.lent.close()
        self.link.unlink(missing_ok=True)
        super().stop()

    def variables(self, home="/nonexistent"):
        path = f"{self.programs['cay'].parent}:{TOP}/packaging/git:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "CAY_PATHS_STATE": str(self.state), "CAY_PATHS_RUN": str(self.run),
                "GIT_TERMINAL_PROMPT": "0", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def node():
    if not BASE.is_dir():
        pytest.skip("no build/images/base; `make image` makes it")
    if pathlib.Path("/run/cay").exists():
        pytest.skip("a Cay runs here; dev/ns-run has a /run of its own")
    with Node() as n:
        yield n


def left_out(document, command):
    return next((i for i, (begins, where, _) in enumerate(NOT_RUN) if where == document and command.startswith(begins)), None)


def run(node, document, text, top):
    """The rows of NOT_RUN that it needed."""
    shell, needed = fences.Shell(top, node.variables(top)), set()
    wrong = None
    try:
        for step in fences.steps(text):
            row = left_out(document, step.command)
            if row is not None:
                needed.add(row)
                continue
            try:
                shell.run(step)
            except fences.Differs as e:
                wrong = f"{document}:{step.line}: {step.command}\n{e}"
                break
    finally:
        shell.end()
        subprocess.run([node.programs["cay"], "rm", "--all"], env=node.variables(), capture_output=True, check=False)
    if wrong:
        pytest.fail(wrong, pytrace=False)
    return needed


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_it_says_is_so(node, tmp_path, document):
    text = (TOP / document).read_text()
    for at, language, lines in fences.fences(text):
        if language == "json":
            json.loads("\n".join(lines))
    brought(document, tmp_path)
    if document in MORE_IMAGES:
        node.lent.enter_context(unpacked.lent(node, MORE_IMAGES[document]))
    needed = run(node, document, text, tmp_path)
    unneeded = [r for i, r in enumerate(NOT_RUN) if r[1] == document and i not in needed]
    assert not unneeded, "nothing in it begins like that any more"


WRONG = {
    "prints something else": "```console\n$ echo a\nb\n```\n",
    "prints more": "```console\n$ echo a; echo b\na\n```\n",
    "prints less": "```console\n$ echo a\na\nb\n```\n",
    "fails": "```sh\nfalse\n```\n",
    "fails otherwise": "```console\n$ (exit 3)\n[4]\n```\n",
    "another id": "```console\n$ echo sb0000004wna1t3hkvahy0qdca\nsb0000004wna1t3hkvahy0qdcb\n$ echo sb0000004wna1t3hkvahy0qdcc\nsb0000004wna1t3hkvahy0qdcb\n```\n",
    "another noun": "```console\n$ echo sb0000004wna1t3hkvahy0qdca\nex0000004wna1t3hkvahy0qdca\n```\n",
    "is no Cay": "```console\n$ cay ls nobody nowhere\n```\n",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_document_that_is_wrong_is_seen(node, tmp_path, wrong):
    with pytest.raises(pytest.fail.Exception):
        run(node, "x.md", WRONG[wrong], tmp_path)


def test_a_document_that_is_right(node, tmp_path):
    run(node, "x.md", """```console
$ x=7 && cd /tmp
$ echo $x; pwd
7
/t...
$ printf '1\\n2\\n3\\nend\\n'
...
end
$ echo made sb0000004wna1t3hkvahy0qdca
made sb0000004wna1t3hkvahy0qdcb
$ echo sb0000004wna1t3hkvahy0qdcb \\
    again
sb0000004wna1t3hkvahy0qdcb again
$ cat <<'E'
> two
> lines
> E
two
lines
$ (exit 4)
[4]
```
""", tmp_path)
