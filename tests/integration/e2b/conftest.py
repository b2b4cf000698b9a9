# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__)
sys.path.append(str(HERE.parents[2] / "lib"))
import certs  # noqa: E402
import e2b_world  # noqa: E402
import unpacked  # noqa: E402
import world  # noqa: E402

BUILD = os.environ.get("CAY_BUILD", "build/gcc")


@pytest.fixture(scope="session")
def node():
    """A whole node with cay-e2b that the tests share."""
    with e2b_world.E2bWorld(BUILD) as w:
        yield w


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """The same with TLS and a host for each port of a sandbox."""
    top = tmp_path_factory.mktemp("tls")
    for at in (top, *top.parents):  # for the edge, which is another user
        with contextlib.suppress(OSError):
            at.chmod(at.stat().st_mode | 0o011)
    top.chmod(0o755)
    ca = certs.Authority(top)
    cert, key = ca.issue("edge", "DNS:localhost,DNS:*.preview.test")
    os.chown(key, world.EDGE_UID, world.EDGE_UID)
    w = e2b_world.E2bWorld(BUILD, env={"CAY_EDGE_CERT": cert, "CAY_EDGE_KEY": key, "CAY_EDGE_PUBLIC_PORTS": "yes"})
    w.env["CAY_EDGE_PREVIEWS"] = f"https://preview.test:{w.port}"
    w.ca = ca.file
    with w:
        yield w


@pytest.fixture(scope="session")
def code_image(node):
    """The name of the image with Python, Node and R."""
    with unpacked.lent(node, "code") as name:
        yield name
