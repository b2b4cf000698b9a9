# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__)
for where in (HERE.parents[2] / "lib", HERE.parents[1] / "control"):
    sys.path.append(str(where))
import cay  # noqa: E402
import pages  # noqa: E402
import world  # noqa: E402
from nodes import BUILD, FULL  # noqa: E402, F401

MODULES = os.environ.get("CAY_NPM", "/opt/npm/node_modules")


@pytest.fixture(scope="session")
def node():
    """A whole node that the tests share."""
    with world.World(BUILD, env={"CAY_EDGE_RATE": "100000", "CAY_EGRESS_CA": ""}) as w:  # with a cay-broker
        yield w


@pytest.fixture
def tap(node):
    """The way to it."""
    t = pages.Tap(("127.0.0.1", 0), node.port)
    yield t
    t.close()


@pytest.fixture(scope="session")
def box(node):
    return node.create("tiny")


@pytest.fixture
def command(node, box):
    """One that runs, for routes that want its id."""
    name = node.exec_detached(box, ["sleep", "600"])
    yield name
    node.signal(box, name)
    cay.wait_for("its end", lambda: node.call("GET", f"/v1/sandboxes/{box}/execs/{name}")["state"] == "ended", 20)


class Browser:
    """A Chromium whose names are ours; one line of JSON asks it for something."""

    def __init__(self, hosts, log, script="browse.js"):
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
                   "sh", "-c", 'mount --bind "$1" /etc/hosts && exec node "$2"', "sh", str(hosts), str(HERE.parent / script)]
        self.log = log
        with open(log, "wb") as err:
            self.process = subprocess.Popen(command, env={**os.environ, "NODE_PATH": MODULES}, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=err, text=True, start_new_session=True)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the browser is gone:\n{self.log.read_text()[-3000:]}"
        said = json.loads(line)
        assert "error" not in said, said["error"]
        return said

    def stop(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()  # and with it all of its namespace
        self.process.wait()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    top = tmp_path_factory.mktemp("browser")
    hosts = top / "hosts"
    # a name with two addresses: when the first one refuses, browsers try the second
    hosts.write_text("127.0.0.1 localhost\n127.0.0.1 evil.example\n127.0.0.2 evil.example\n127.0.0.1 page.example\n")
    b = Browser(hosts, top / "log")
    yield b
    b.stop()


@pytest.fixture(scope="session")
def foreign():
    """Pages of another origin than the edge's."""
    with pages.Pages(("127.0.0.1", 0)) as p:
        yield p
