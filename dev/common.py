# SPDX-License-Identifier: Apache-2.0
"""What the scripts of dev/ share: picking by name, and writing down the outcome."""
import pathlib
import signal
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


def finish(label, passed, failed, note=""):
    """Print the closing line, leave the counts for .ci/run, and exit."""
    results = pathlib.Path("build/results")
    results.mkdir(parents=True, exist_ok=True)
    (results / label).write_text(f"{passed} {failed}\n")
    print(f"{label}: {note}{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
