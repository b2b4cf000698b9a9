# SPDX-License-Identifier: Apache-2.0
"""lanes.py PYTEST-ARGUMENT... - two pytests per core, and one list of tests between them

Tests that start daemons wait more than they compute, but two of them must not see each
other: they look for processes, mounts, networks, sockets and files that nobody should have
left.  So each lane is a dev/ns-run.  Cgroups have random names, and whoever looks for
strangers there passes over those of tests; uids may be the same in two lanes, as they are
in two runs on one machine.

Every lane collects all tests, in the same order, and takes the next one by a counter they
share.  The tests of a file that is marked `one_lane`, because what it makes first is costly, are
taken at once.  What judges by the clock is marked `alone`: it runs when the lanes are done, in one
lane and with nothing beside it.  A test that no lane ran is a failure.
"""
import concurrent.futures
import fcntl
import hashlib
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import pytest

NS_RUN = pathlib.Path(__file__).parents[2] / "dev/ns-run"
MOST = 8
NONE = 5  # pytest's word for no tests


# -- in a lane, as pytest's plugin

class Lane:
    """CAY_LANE: the counter's descriptor, and which tests: all that may have company, or those that may not."""

    def __init__(self, counter, which):
        self.counter, self.which, self.ran, self.items, self.others = int(counter), which, 0, [], 0
        self.units, self.mine = [], []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        mine = [i for i in items if bool(i.get_closest_marker("alone")) == (self.which == "alone")]
        self.others = len(items) - len(mine)
        config.hook.pytest_deselected(items=[i for i in items if i not in mine])
        items[:] = self.items = mine
        groups = {}
        for i in mine:
            unit = groups.setdefault(i.path, []) if i.get_closest_marker("one_lane") else []
            unit.append(i)
            if len(unit) == 1:
                self.units.append(unit)

    def take(self):
        """The next test that nobody has; None when there are no more."""
        if self.mine:
            return self.mine.pop(0)
        fcntl.lockf(self.counter, fcntl.LOCK_EX)
        at = struct.unpack("q", os.pread(self.counter, 8, 0))[0]
        os.pwrite(self.counter, struct.pack("q", at + 1), 0)
        fcntl.lockf(self.counter, fcntl.LOCK_UN)
        self.mine = list(self.units[at]) if at < len(self.units) else []
        return self.mine.pop(0) if self.mine else None

    def pytest_runtestloop(self, session):
        if session.testsfailed or session.config.option.collectonly:
            return None  # as it would without us
        item = self.take()
        while item:
            following = self.take()  # fixtures go when the next test does not want them, so it must be known
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item, self.ran = following, self.ran + 1
            if session.shouldfail or session.shouldstop:
                raise (session.Failed if session.shouldfail else session.Interrupted)(session.shouldfail or session.shouldstop)
        return True

    def pytest_unconfigure(self):
        names = "\n".join(i.nodeid for i in self.items)
        print(f"\n# lane: {self.ran} of {len(self.items)}, {self.others} others, {hashlib.sha256(names.encode()).hexdigest()}", flush=True)


def pytest_configure(config):
    if "CAY_LANE" in os.environ:
        config.pluginmanager.register(Lane(*os.environ["CAY_LANE"].split()), "lane")


# -- all of them

def run(which, lanes, argv):
    """(exit status, tests run, tests there were, tests left out) of lanes that share a list."""
    with tempfile.TemporaryFile() as counter:
        counter.write(struct.pack("q", 0))
        counter.flush()
        env = {**os.environ, "CAY_LANE": f"{counter.fileno()} {which}", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1",
               "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
        command = [NS_RUN, sys.executable, "-m", "pytest", "-p", "lanes", *argv]
        processes = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                      pass_fds=[counter.fileno()]) for _ in range(lanes)]
        with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
            said = list(pool.map(follow, processes))
    bad = [p.wait() for p in processes if p.wait() not in (0, NONE)]
    whole = {s[1:] for s in said if s}
    if len(whole) != 1 or None in said:
        print(f"not ok 0 - the lanes do not agree about what there is: {said}")
        return 1, 0, 0, 0
    there, others, _ = whole.pop()
    return max(bad, default=0), sum(s[0] for s in said), there, others


def follow(process):
    """Pass on what a lane says, by whole lines; the last is about the lane itself."""
    said = None
    for line in process.stdout:
        m = re.match(r"# lane: (\d+) of (\d+), (\d+) others, (\w+)$", line)
        if m:
            said = int(m[1]), int(m[2]), int(m[3]), m[4]
        else:
            sys.stdout.write(line)
            sys.stdout.flush()
    return said


def main(argv):
    status, some, alone = 0, 0, None
    for which, lanes in (("together", int(os.environ.get("CAY_LANES") or min(2 * os.cpu_count(), MOST))), ("alone", 1)):
        if alone == 0:
            break
        s, ran, there, alone = run(which, lanes, argv)
        if ran != there:
            print(f"not ok 0 - {ran} of {there} tests ran")
            s = s or 1
        status, some = status or s, some + there
    return status or (0 if some else NONE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
