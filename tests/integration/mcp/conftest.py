# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__)
for where in (HERE.parents[2] / "lib", HERE.parents[1] / "control"):
    sys.path.append(str(where))
import mcp  # noqa: E402
from nodes import BUILD, FULL, box  # noqa: E402, F401


@pytest.fixture(scope="session")
def node():
    """A whole node with cay-mcp that the tests share."""
    with mcp.Workshop(BUILD) as w:
        yield w
