# SPDX-License-Identifier: Apache-2.0
"""The cells of tests/fixtures/kernels, one form for what kernels of different makers say to them, and the beginning of hostile ones"""
import base64
import fnmatch
import json
import pathlib
import re
import struct

HERE = pathlib.Path(__file__).resolve().parents[1] / "fixtures/kernels"
SILENT = {  # what differs from one run to the next, in any text
    r"0x[0-9a-f]{6,}": "0xADDRESS",
    r"\d+(\.\d+)?(e[+-]?\d+)? (ns|[µμ]s|ms|s)\b": "TIME",
    r"Thread-\d+": "Thread-N",
    r"\x1b\[[0-9;]*m": "",
    r"(/tmp/)?ipykernel_\d+/\d+\.py|\b\d{5,}\.py\b|<ipython-input-\d+-[0-9a-f]+>": "CELL",
    r"/tmp/tmp\w+\.json": "FILE",
    r"(async_id_symbol\)\]: )\d+": "N",
    r"Cell In\[\d+\]": "Cell In[N]",
}


def cells(language):
    """[(name, code, whether it is interrupted)] of a language, in order."""
    found = []
    for line in (HERE / "cells.txt").read_text().splitlines(keepends=True):
        head = re.fullmatch(r"\[(\w+) (\w+)( interrupt)?\]\n", line)
        if head:
            found.append([head[1], head[2], "", bool(head[3])])
        elif found:
            found[-1][2] += line
    return [(name, code.rstrip("\n"), stop) for of, name, code, stop in found if of == language]


def recorded(language):
    return json.loads((HERE / f"{language}.json").read_text())


def quiet(value):
    """Text without what no two runs have in common; in dicts and lists too."""
    if isinstance(value, str):
        for pattern, instead in SILENT.items():
            value = re.sub(pattern, instead, value)
        return value
    if isinstance(value, dict):
        return {k: quiet(v) for k, v in value.items()}
    return [quiet(v) for v in value] if isinstance(value, list) else value


def shown(mime, value):
    """A value of a bundle as it is kept: of a picture its size, of a long text its beginning."""
    if mime == "image/png":
        data = base64.b64decode(value)
        return {"picture": list(struct.unpack(">II", data[16:24]))}
    value = quiet(value)
    return value[:2000] + f"… {len(value)}" if isinstance(value, str) and len(value) > 4000 else value


class Told:
    """What a kernel told of one cell; record.py and the tests fill it."""

    def __init__(self):
        self.status, self.stdout, self.stderr, self.results, self.errors, self.clears, self.order = None, "", "", [], [], [], []

    def text(self, stream, text):
        if text:
            setattr(self, stream, getattr(self, stream) + text)
            if stream == "stdout":
                self.step("stdout")

    def step(self, what):
        if not self.order or self.order[-1] != what or what != "stdout":
            self.order.append(what)

    def result(self, main, data, metadata=None, display_id=None, update=False):
        told = {"main": main, "data": {mime: shown(mime, value) for mime, value in data.items()}}
        told |= ({"metadata": quiet(metadata)} if metadata else {}) | ({"display_id": display_id} if display_id else {})
        self.results.append(told | ({"update": True} if update else {}))
        self.step("result")

    def error(self, name, value):
        self.errors.append({"name": name, "value": quiet(value)})  # tracebacks are each kernel's own
        self.step("error")

    def clear(self, wait):
        self.clears.append(bool(wait))
        self.step("clear")

    def as_dict(self):
        told = {"status": self.status, "stdout": shown("", self.stdout), "stderr": shown("", self.stderr), "results": self.results,
                "errors": self.errors, "clears": self.clears, "order": self.order}
        return {k: v for k, v in told.items() if v}


def told_by(run):
    """A run of kernel_driver in the same form."""
    told, at = Told(), 0
    for kind, value, out, _ in run.events:
        told.text("stdout", run.stdout[at:out].decode("utf-8", "replace"))
        at = max(at, out)
        if kind == "R":
            data = {mime: json.loads(text) if mime.endswith("json") else text for mime, text in value["data"].items()}
            metadata = {key: json.loads(text) for key, text in value.get("metadata", {}).items()}
            told.result(value["main"], data, metadata, value.get("display_id"), value.get("update", False))
        elif kind == "E":
            told.error(value["name"], value["value"])
        elif kind == "U":
            told.clear(value["wait"])
    told.text("stdout", run.stdout[at:].decode("utf-8", "replace"))
    told.text("stderr", run.err)
    told.status = run.status
    return told.as_dict()


OURS = {"application/vnd.cay.chart+json": "e2b/chart", "application/vnd.cay.data+json": "e2b/data"}


def comparable(language, told):
    """What is compared with another kernel; differences.txt says why the rest is not."""
    told = json.loads(json.dumps(told))
    for result in told.get("results", []):
        data = {OURS.get(mime, mime): value for mime, value in result["data"].items()}
        if data.get("e2b/chart") == {}:
            del data["e2b/chart"]
        if "IPython.core.display.JSON" not in data.get("text/plain", ""):
            data.pop("application/json", None)
        if language == "r":
            del result["main"]
            result.pop("metadata", None)
            data = {"image/png": ""} if "image/png" in data else {"text/plain": data["text/plain"]} if "text/plain" in data else data
        result["data"] = data
    return told


def compare_cells(language, run):
    """Run each cell by run(code, whether it is interrupted); returns what is wrong, and lines of differences.txt without a difference."""
    others, used, wrong = recorded(language)["cells"], set(), []
    rows = [row for row in differences() if row[0] == language]
    for name, code, interrupt in cells(language):
        got = comparable(language, told_by(run(code, interrupt)))
        if name not in others:  # Node's REPL cannot be interrupted by a program
            if not interrupt or got["errors"] != [{"name": "KeyboardInterrupt", "value": ""}]:
                wrong.append(f"{name}: {got}")
            continue
        want = comparable(language, others[name])
        for field in sorted({*got, *want}):
            if got.get(field) != want.get(field):
                known = [r for r in rows if fnmatch.fnmatchcase(name, r[1]) and (field in r[2] or r[2] == ["*"])]
                used |= {r[1] for r in known}
                if not known:
                    wrong.append(f"{name}: {field}: {want.get(field)!r} there, {got.get(field)!r} here")
    return wrong, [r[1] for r in rows if r[1] not in used]


def differences():
    """[(language, pattern of cells, fields, why)] of differences.txt."""
    rows = []
    for line in (HERE / "differences.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, _, why = line.partition(" | ")
            language, cell, fields = key.split()
            rows.append((language, cell, fields.split(","), why))
    return rows


# A cell of Python that begins with this has, in channel, the pipe on which its runner tells PID 1 what happened.
CHANNEL = """import os, struct
outputs = [os.fstat(fd).st_ino for fd in (0, 1, 2)]
fds = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)]
channel, = (fd for fd in fds if os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:") and os.fstat(fd).st_ino not in outputs
            and "flags:\\t02000001" in open(f"/proc/self/fdinfo/{fd}").read())
"""
