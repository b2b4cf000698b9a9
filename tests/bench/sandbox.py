#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/sandbox.py BUILD [ROW...] - rows that need daemons, an image and sandboxes

Starts a keeper and a cayd of its own (tests/lib/cay.py), lets build/tests/bench/client
hold the clock, and prints a JSON line per row for dev/bench.  Ours and the baseline
take turns in small rounds.  CAY_FULL=1 measures at the sizes the goals are for.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from cay import Cay, layout_of  # noqa: E402

FULL = os.environ.get("CAY_FULL") == "1"
IMAGE = "base"


def percentile(samples, p):
    return sorted(samples)[min(len(samples) - 1, len(samples) * p // 100)]


def ms(samples, p=50):
    return round(percentile(samples, p) / 1e6, 3)


def row(name, samples, baseline_name, baseline, note):
    print(json.dumps({"name": name, "unit": "ms", "n": len(samples),
                      **{f"p{p}": ms(samples, p) for p in (50, 95, 99)},
                      "baseline": {"name": baseline_name, "p50": ms(baseline)}, "note": note}), flush=True)


class Bench:
    def __init__(self, build, cay):
        self.programs, self.cay = pathlib.Path(build).resolve() / "tests/bench", cay
        with layout_of(f"build/images/{IMAGE}") as tar:
            cay.image_import(IMAGE, tar)
        self.digest = next((cay.state / "images/sha256").iterdir()).name

    def client(self, *args, ids=()):
        done = subprocess.run([self.programs / "client", *map(str, args)], input="".join(f"{i}\n" for i in ids),
                              stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def cold(self, n):
        return self.client("cold", self.cay.socket, IMAGE, n)

    def crun(self, n):
        """What crun alone takes; its cgroup is below ours and goes with it."""
        with tempfile.TemporaryDirectory(dir=self.cay.state) as work:
            done = subprocess.run([self.programs / "bare-crun", self.cay.state, self.digest, self.cay.init,
                                   self.cay.cgroup, work, str(n)], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)["ns"]


def cold_create(b):
    rounds, n = (20, 10) if FULL else (8, 5)
    ours, created, bare = [], [], []
    b.cold(2)
    b.crun(2)
    for _ in range(rounds):
        got = b.cold(n)
        ours += got["ns"]
        created += got["create_ns"]
        bare += b.crun(n)
    row("cold_create", ours, "crun run of the same bundle", bare,
        f"create to first byte of echo; create alone {ms(created)} ms; goal 1.6")


ROWS = {f.__name__: f for f in (cold_create,)}

if __name__ == "__main__":
    build, names = sys.argv[1], sys.argv[2:] or list(ROWS)
    with Cay(build) as cay:
        bench = Bench(build, cay)
        for name in names:
            ROWS[name](bench)
