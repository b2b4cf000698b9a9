#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/text.py BUILD [GROUP...] - changing a small text file of a sandbox, through an edge

    edit_rtt   file.edit of 4 KiB with its diff; p50, against file.stat by the same way, which
               costs the same child and does nothing
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from world import World  # noqa: E402

ROUNDS = 2000 if os.environ.get("CAY_FULL") == "1" else 300


def edit_rtt(world):
    me = world.door()
    box = me.create("tiny")
    me.open("PUT", f"/v1/sandboxes/{box}/files/content?path=/tmp/f", b"one\n" + b"some line of text\n" * 227).read()
    argv = [f"{build}/tests/bench/client", "edit", str(world.port), str(world.state / "db/operator.key"), str(ROUNDS)]
    took = json.loads(subprocess.run(argv, input=box, check=True, capture_output=True, text=True).stdout)
    edits, stats = (sorted(ns / 1e6 for ns in took[key]) for key in ("edits", "stats"))
    print(json.dumps({"name": "edit_rtt", "unit": "ms", "n": ROUNDS, "value": round(statistics.median(edits), 3),
                      "baseline": {"name": "file.stat", "value": round(statistics.median(stats), 3)},
                      "note": f"p99 {edits[ROUNDS * 99 // 100]:.3f}; through an edge by a connection that is kept; goal 1 ms"}), flush=True)
    me.call("DELETE", f"/v1/sandboxes/{box}")


GROUPS = {"edit_rtt": edit_rtt}

if __name__ == "__main__":
    build, names = sys.argv[1], sys.argv[2:] or list(GROUPS)
    with World(build) as w:
        for group in names:
            GROUPS[group](w)
