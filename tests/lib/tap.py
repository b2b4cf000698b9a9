# SPDX-License-Identifier: Apache-2.0
"""A line per test as dev/check counts them: `ok N - name`

A conftest.py says `pytest_configure = tap.pytest_configure`.

Rows that a test printed with bars (ID|runtime|priv|verdict|detail) come before
it, as comments.  CAY_ONLY: names as they are told, a line each; no others are run.
CAY_PROGRESS: a file that gets a line per test when it ends, with its seconds, for dev/check to follow.
"""
import os

import split


def told(nodeid):
    file, _, rest = nodeid.partition("::")
    return f"{file.rpartition('/')[2]}::{rest}"


def pytest_configure(config):
    config.pluginmanager.register(Tap(config), "tap-lines")


class Tap:
    def __init__(self, config):
        self.config, self.n, self.outcome, self.seconds = config, 0, {}, 0.0

    def line(self, text):
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        reporter.ensure_newline()
        reporter.write_line(text)

    def pytest_collection_modifyitems(self, config, items):
        split.select(config, items, told)
        only = os.environ.get("CAY_ONLY", "").splitlines()
        if only:
            config.hook.pytest_deselected(items=[i for i in items if told(i.nodeid) not in only])
            items[:] = [i for i in items if told(i.nodeid) in only]

    def pytest_runtest_logreport(self, report):
        """Setup, call and teardown report one after another; the worst counts."""
        if not report.passed and report.nodeid not in self.outcome:
            reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
            self.outcome[report.nodeid] = (report.outcome, reason.removeprefix("Skipped: "))
        self.seconds += report.duration
        if report.when != "teardown":
            return
        for row in report.capstdout.splitlines():
            if row.count("|") >= 4:
                self.line(f"# {row}")
        self.n += 1
        outcome, reason = self.outcome.get(report.nodeid, ("passed", ""))
        word = "not ok" if outcome == "failed" else "ok"
        skip = f" # SKIP {reason}" if outcome == "skipped" else ""
        self.line(f"{word} {self.n} - {told(report.nodeid)}{skip}")
        progress = os.environ.get("CAY_PROGRESS")
        if progress:
            with open(progress, "a", encoding="utf-8") as f:
                f.write(f"{word} - {told(report.nodeid)} ({self.seconds:.1f} s)\n")
        self.seconds = 0.0

    def pytest_report_teststatus(self, report):
        """No dots and letters between our lines."""
        if report.when == "call" or not report.passed:
            return report.outcome, "", ""
        return None
