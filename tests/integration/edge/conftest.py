# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__)
for where in (HERE.parents[2] / "lib", HERE.parents[1] / "control"):
    sys.path.append(str(where))
import world  # noqa: E402

BUILD = os.environ.get("CAY_BUILD", "build/gcc")
FULL = bool(os.environ.get("CAY_FULL"))


@pytest.fixture(scope="session")
def node():
    """A whole node that the tests share."""
    with world.World(BUILD) as w:
        yield w


@pytest.fixture
def own():
    """One of the test's own, to be broken."""
    with world.World(BUILD) as w:
        yield w


@pytest.fixture
def box(node):
    name = node.door().create("tiny")
    yield name
    node.call("DELETE", f"/v1/sandboxes/{name}")
