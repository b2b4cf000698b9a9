# SPDX-License-Identifier: Apache-2.0
"""make.py FILE... OUT.c - the page of the screen as arrays of C, for viewer-files.c"""
import pathlib
import sys

ROW = 24


def array(name, data):
    rows = (", ".join(f"{b}" for b in data[i:i + ROW]) for i in range(0, len(data), ROW))
    return f"static const char {name}[] = {{\n" + ",\n".join(rows) + "\n};\n"


def main():
    *files, out = map(pathlib.Path, sys.argv[1:])
    text = '/* Made by make.py. */\n#include "edge/desktop/viewer-files.h"\n'
    for f in files:
        name = f.name.replace(".", "_").replace("-", "_")
        text += array(name + "_data", f.read_bytes())
        text += f"const struct slice {name} = {{ {name}_data, sizeof({name}_data) }};\n"
    out.write_text(text)


main()
