# SPDX-License-Identifier: Apache-2.0
"""What the scripts of dev/ share: picking by name, sampling by seed, and writing down the outcome."""
import functools
import hashlib
import os
import pathlib
import signal
import subprocess
import sys

# Ctrl-C ends a script without a page of Python
signal.signal(signal.SIGINT, lambda *_: sys.exit(130))


def pick(kind, wanted, there):
    """The rows of `there` (a dict by name) that a comma list names; all without one."""
    if not wanted:
        return list(there.values())
    names = wanted.split(",")
    for name in names:
        if name not in there:
            sys.exit(f"there is no {kind} '{name}'; there are: {', '.join(there)}")
    return [there[name] for name in names]


@functools.cache
def seed():
    """What a sampled run picks by: CAY_SEED, or the number of commits, so that every commit has another sample."""
    given = os.environ.get("CAY_SEED")
    if given:
        return int(given)
    git = subprocess.run(["git", "rev-list", "--count", "HEAD"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return int(git.stdout) if git.returncode == 0 else 0


def rotate(rows, every, name=str):
    """The rows whose turn it is: each comes once in `every` seeds.

    By the hash of its name: a position in the table moves when rows come and go."""
    return [row for row in rows if int(hashlib.sha256(name(row).encode()).hexdigest()[:8], 16) % every == seed() % every]


def finish(label, passed, failed, note=""):
    """Print the closing line, leave the counts for .ci/run, and exit."""
    results = pathlib.Path(os.environ.get("CAY_RESULTS", "build/results/make"))
    results.mkdir(parents=True, exist_ok=True)
    (results / label).write_text(f"{passed} {failed}\n")
    print(f"{label}: {note}{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
