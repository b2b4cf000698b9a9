# SPDX-License-Identifier: Apache-2.0
"""nodes - for conftest.py of tests that share a node: what is tested, how much of it, and a sandbox there"""
import os

import pytest

BUILD = os.environ.get("CAY_BUILD", "build/gcc")
FULL = bool(os.environ.get("CAY_FULL"))


@pytest.fixture
def box(node):
    name = node.door().create("tiny")
    yield name
    node.call("DELETE", f"/v1/sandboxes/{name}")
