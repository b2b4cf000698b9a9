# SPDX-License-Identifier: Apache-2.0
"""TAP, a line per test, so that dev/check counts what was checked."""
count = 0


def pytest_runtest_logreport(report):
    """One TAP line a test."""
    global count
    if report.when == "call" or report.failed or report.skipped:
        count += 1
        word = "not ok" if report.failed else "ok"
        tail = " # SKIP" if report.skipped else ""
        print(f"\n{word} {count} - {report.nodeid.split('::')[-1]}{tail}", flush=True)


def pytest_sessionfinish(session):
    print(f"\n1..{count}", flush=True)
