# SPDX-License-Identifier: Apache-2.0
"""fences - the examples of a document, and a shell that runs them

    ```console                     ```sh
    $ cay exec demo -- id -u       make
    1000                           make check
    ```                            ```

Of `console` each command is behind "$ ", goes on behind a backslash or on lines that begin
with "> ", and what it prints follows, both outputs together.  Nothing there: it is not
compared.  `...` is anything in a line, alone on one any lines; several spaces are any number of
them; an id is any id of its noun, and from then on that very one, also in commands.  A last line [4] is the exit status, else it is 0.
Of `sh` every line is a command; `bash` is for commands that are run elsewhere.  A document is one shell, in a directory of its own.
"""
import dataclasses
import os
import re
import subprocess

FENCE = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.M | re.S)
ID = re.compile(r"\b([a-z]{2})[0-9a-hjkmnp-tv-z]{24}\b")
RUN = ("console", "sh")


@dataclasses.dataclass
class Step:
    line: int  # in its document
    command: str
    says: list  # lines, or none
    status: int = 0


def fences(text):
    """(number of its first line, language, lines) of each."""
    for m in FENCE.finditer(text):
        lines = [l.removeprefix(m[1]) for l in m[3].splitlines()]
        yield text.count("\n", 0, m.start()) + 2, m[2], lines


def console(at, lines):
    found = []
    for n, line in enumerate(lines, at):
        if line.startswith("$ "):
            found.append(Step(n, line[2:], []))
        elif not found:
            raise ValueError(f"line {n}: what is printed before the first command?")
        elif line.startswith("> ") and not found[-1].says:
            found[-1].command += "\n" + line[2:]
        elif found[-1].command.endswith("\\") and not found[-1].says:
            found[-1].command += "\n" + line
        elif re.fullmatch(r"\[\d+\]", line):
            found[-1].status = int(line[1:-1])
        else:
            found[-1].says.append(line)
    return found


def plain(at, lines):
    return [Step(n, line, []) for n, line in enumerate(lines, at) if line.strip() and not line.startswith("#")]


def steps(text):
    for at, language, lines in fences(text):
        if language in RUN:
            yield from console(at, lines) if language == "console" else plain(at, lines)


class Differs(AssertionError):
    pass


class Ids:
    """Which id of a document is which one of this run."""
    def __init__(self):
        self.known = {}

    def put(self, text):
        return ID.sub(lambda m: self.known.get(m[0], m[0]), text)

    def pattern(self, says):
        """What was printed as an expression, and the ids that are learnt from it."""
        new, out = [], []

        def piece(text):
            at, made = 0, ""
            for m in ID.finditer(text):
                made += re.escape(text[at:m.start()])
                if m[0] in self.known:
                    made += re.escape(self.known[m[0]])
                elif m[0] in new:
                    made += f"(?P=i{new.index(m[0])})"
                else:
                    made += f"(?P<i{len(new)}>{m[1]}[0-9a-hjkmnp-tv-z]{{24}})"
                    new.append(m[0])
                at = m.end()
            return made + re.escape(text[at:])
        for line in says:
            made = r"[^\n]*".join(piece(p) for p in line.rstrip().split("..."))
            out.append(r"(?:.*\n)*?" if line == "..." else re.sub(r"(\\ ){2,}", r"\\ +", made) + r" *\n")
        return "".join(out), new

    def check(self, says, printed):
        expression, new = self.pattern(says)
        m = re.fullmatch(expression, printed)
        if not m:
            raise Differs("the document says\n  " + "\n  ".join(says) + "\nand this came\n  " + "\n  ".join(printed.splitlines()))
        self.known.update({name: m[f"i{k}"] for k, name in enumerate(new)})


class Shell:
    """A bash that keeps its directory and variables; what it is told is done when run() returns."""
    def __init__(self, top, env):
        self.top, self.ids = top, Ids()
        self.out = open(top / ".out", "w+b")
        told, tells = os.pipe()
        self.told = os.fdopen(told)
        self.process = subprocess.Popen(["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=self.out, stderr=self.out, cwd=top,
                                        env=env, pass_fds=[tells], start_new_session=True, text=True)
        os.close(tells)
        self.fd = tells

    def run(self, step, seconds=60):
        self.out.seek(0, os.SEEK_END)
        at = self.out.tell()
        (self.top / ".command").write_text(self.ids.put(step.command) + "\n")
        self.process.stdin.write(f'. "{self.top}/.command" </dev/null {self.fd}>&-; echo $? >&{self.fd}\n')
        self.process.stdin.flush()
        status = self.hear(seconds)
        self.out.seek(at)
        printed = self.out.read().decode(errors="replace").expandtabs(2)
        if status != str(step.status):
            raise Differs(f"exit status {status or 'none: it did not end'}, not {step.status}\n{printed}")
        if step.says:
            self.ids.check(step.says, printed)

    def hear(self, seconds):
        import select
        if not select.select([self.told], [], [], seconds)[0]:
            return ""
        return self.told.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.out.close()
        self.told.close()
