# SPDX-License-Identifier: Apache-2.0
"""Read tests/mutants.def, and find the text that a mutant changes.

A mutant names a file, a function and a fragment of code.  White space in the fragment
matches any white space, so a mutant survives a reformat, a move within the file and
every change around the fragment.
"""
import pathlib
import re

TABLE = "tests/mutants.def"
NEEDED = {"mutant", "file", "kill", "-", "+"}


def read(text=None):
    """Yield the rows as dicts; a row that is malformed raises ValueError."""
    if text is None:
        text = pathlib.Path(TABLE).read_text()
    for block in re.split(r"\n\s*\n(?=mutant )", text):
        row = {}
        for line in block.splitlines():
            if not line or line.startswith("#"):
                continue
            key, _, value = line.partition(" ")
            if key in row:
                raise ValueError(f"{TABLE}: mutant {row.get('mutant')}: '{key}' twice")
            row[key] = value.strip()
        if row and set(row) - {"in"} != NEEDED:
            raise ValueError(f"{TABLE}: mutant {row.get('mutant')}: needs file, kill, - and +; 'in' where it is in a function")
        if row:
            yield row


def function_span(text, name):
    """Where the body of a C function lies, as clang-format leaves it; None without one."""
    m = re.search(rf"^[\w\[][^\n;=]*\b{re.escape(name)}\([^;{{]*\)\n(\{{\n.*?^\}}\n)", text, re.M | re.S)
    return m.span(1) if m else None


def spans(text, fragment):
    """Every place where a fragment stands, white space aside."""
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|\w+|\S', fragment)
    pattern = r"\s*".join(map(re.escape, tokens))
    if tokens and re.match(r"\w", tokens[0]):
        pattern = r"\b" + pattern
    if tokens and re.match(r"\w", tokens[-1][-1]):
        pattern += r"\b"
    return [m.span() for m in re.finditer(pattern, text)] if tokens else []


def locate(text, row):
    """Every place in the text of its file that the fragment of a row stands for."""
    if "in" not in row:
        return spans(text, row["-"])
    body = function_span(text, row["in"])
    if not body:
        return []
    return [(body[0] + a, body[0] + b) for a, b in spans(text[body[0]:body[1]], row["-"])]
