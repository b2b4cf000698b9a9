# SPDX-License-Identifier: Apache-2.0
"""Just installed and started for the first time (API-06)"""
import json
import pathlib
import re
import subprocess
import sys

import pytest
import world
from conftest import BUILD

HERE = pathlib.Path(__file__)
OPERATIONS = HERE.parents[3] / "docs/operations.md"


def first_start():
    w = world.World(BUILD)  # for its cgroup, and to remove it
    try:
        p = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
                            sys.executable, str(HERE.parent / "fresh.py"), str(BUILD), w.cgroup], capture_output=True, text=True, timeout=180)
        assert p.returncode == 0, p.stderr
        return json.loads(p.stdout)
    finally:
        w.stop()


@pytest.fixture(scope="module")
def fresh():
    return first_start()


def documented(kind):
    """The table of what listens."""
    text = OPERATIONS.read_text().split("## What listens", 1)[1].split("\n## ", 1)[0]
    return sorted(f"{k} {at}" if kind != "unix" else at for k, at in re.findall(r"^\| (\w+) \| `([^`]+)` \|", text, re.M)
                  if (k == "unix") == (kind == "unix"))


def test_API_06_it_listens_where_the_manual_says(fresh):
    assert fresh["network"] == documented("network") and len(fresh["network"]) >= 1
    for at in fresh["network"]:
        assert re.fullmatch(r"tcp (127\.0\.0\.1|\[::1\]):\d+", at), "nobody else reaches it"
    assert fresh["unix"] == documented("unix")


def test_API_06_there_is_no_password_to_guess(fresh):
    assert fresh["good"] == 200 and set(fresh["guesses"]) <= {401, 429}
    assert first_start()["key"] != fresh["key"], "each has its own"


def test_API_06_the_first_key_is_for_one_user(fresh):
    assert fresh["files"]["/var/lib/cay/db/operator.key"] == ["cay", "cay", "0o600"]
    assert fresh["key"] not in fresh["logs"] and "operator.key" in fresh["logs"], "it is said where it is, not what"
    # the way to the sockets, which have modes of their own
    open_to_all = {p for p, v in fresh["files"].items() if int(v[2], 8) & 0o007}
    assert open_to_all == {"/var/lib/cay", "/run/cay", "/run/cay/box"}
