# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__)
sys.path.append(str(HERE.parents[2] / "lib"))
import opensandbox_world  # noqa: E402

BUILD = os.environ.get("CAY_BUILD", "build/gcc")


@pytest.fixture(scope="session")
def node():
    """A whole node with cay-opensandbox that the tests share."""
    with opensandbox_world.OpenSandboxWorld(BUILD) as w:
        yield w
