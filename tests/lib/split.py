# SPDX-License-Identifier: Apache-2.0
"""Which tests run in the plain build and which under ASan, when a commit runs each once

CAY_SPLIT=SEED: a test runs in one of the two builds, by the parity of the hash of its name
and the seed.  The next seed has it in the other one.  Tests marked `plain` or `alone` always run in the plain build: they
judge by the clock, or preload a library.  Tests marked `sweep` are many and long: they
always run in the plain build, and one in SWEEP of them under ASan as well.  Those marked
`sampled` are alike but for one thing, as the moment of a cut or the client of HTTP: one in SAMPLE has its turn.
Of all but those in CAY_RECENT, files of tests that changed lately, one in REST has no turn.
So of six seeds that follow each other a test runs with four; one without a mark with two in either build.
Without CAY_SPLIT every test runs in the build it is given, except `plain` ones under ASan.
"""
import hashlib
import os

SWEEP = 12
SAMPLE = 3
REST = 3


def number(name):
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def rests(name, seed):
    return (number(name) // 4096 + seed // 2) % REST == 0


def runs(name, marks, sanitized, seed):
    """Whether a test of this name and these marks has its turn in a build."""
    n = number(name) + seed
    if "sampled" in marks and (number(name) // 64 + seed // 2) % SAMPLE:
        return False
    if "sweep" in marks:
        return not sanitized or n % SWEEP == 0
    if "plain" in marks or "alone" in marks:
        return not sanitized
    return bool(n % 2) == sanitized


def select(config, items, name_of):
    """Leave out the tests that do not run in this build.  CAY_HALF: plain or asan; without it all run."""
    half, seed = os.environ.get("CAY_HALF"), os.environ.get("CAY_SPLIT")
    recent = os.environ.get("CAY_RECENT", "").split()
    chosen = items
    if half and seed:
        chosen = [i for i in items if i.path.name in recent or not rests(name_of(i.nodeid), int(seed))]
        chosen = [i for i in chosen if runs(name_of(i.nodeid), {m.name for m in i.iter_markers()}, half == "asan", int(seed))]
    elif half == "asan":
        chosen = [i for i in items if not i.get_closest_marker("plain")]
    config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
    items[:] = chosen
