# SPDX-License-Identifier: Apache-2.0
"""TAP, a line per test, so that dev/check counts what was checked."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
import tap  # noqa: E402

pytest_configure = tap.pytest_configure
