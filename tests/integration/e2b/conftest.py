# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__)
sys.path.append(str(HERE.parents[2] / "lib"))
import e2b_world  # noqa: E402

BUILD = os.environ.get("CAY_BUILD", "build/gcc")


@pytest.fixture(scope="session")
def node():
    """A whole node with cay-e2b that the tests share."""
    with e2b_world.E2bWorld(BUILD) as w:
        yield w
