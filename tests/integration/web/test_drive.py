# SPDX-License-Identifier: Apache-2.0
"""Stock Playwright and Puppeteer drive the browser of a sandbox through an edge, by a URL and a key (BRO-01)"""
import http.client
import json
import os
import pathlib
import subprocess

import cay
import pytest
import unpacked
import world
from conftest import BUILD, MODULES

pytestmark = pytest.mark.one_lane  # its sandboxes
TREE = pathlib.Path(__file__).parents[3]
SERVER = (TREE / "tests/fixtures/browser/server.py").read_text()
HOME = "http://127.0.0.1:8000"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


@pytest.fixture(scope="module")
def node():
    with world.World(BUILD, env={"CAY_EDGE_RATE": "100000"}) as w, unpacked.lent(w, "desktop"):
        yield w


@pytest.fixture(scope="module")
def box(node):
    door = node.door()
    name = door.create("desktop", limits={"memory_bytes": "2Gi", "shm_bytes": "256Mi"})
    door.exec_detached(name, ["python3", "-c", SERVER, "8000"])
    door.call("GET", f"/v1/sandboxes/{name}/ports/8000?wait_ms=10000")
    yield name
    door.delete(name)


def drive(node, box, kind):
    url = f"ws://127.0.0.1:{node.port}/v1/sandboxes/{box}/browser/cdp"
    run = subprocess.run(["node", str(pathlib.Path(__file__).parent / "drive.js"), kind, url, node.new_key(), HOME], timeout=150 * cay.SLOW,
                         env={**os.environ, "NODE_PATH": MODULES}, capture_output=True, text=True)
    assert run.stdout, run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind, least", [("playwright", 64), ("puppeteer", 38)])
def test_calls_of_the_public_api_do_what_they_should(node, box, kind, least):
    said = drive(node, box, kind)
    assert not said["wrong"], "\n".join(said["wrong"])
    assert len(set(said["done"])) >= least, said["done"]


def handshake(node, path, token, **headers):
    c = http.client.HTTPConnection("127.0.0.1", node.port, timeout=20)
    c.request("GET", path, headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY,
                                    **({"Authorization": f"Bearer {token}"} if token else {}), **headers})
    return c.getresponse()


def test_only_a_key_that_may_write_connects(node, box):
    path = f"/v1/sandboxes/{box}/browser/cdp"
    assert handshake(node, path, None).status == 401
    assert handshake(node, path, "cay_wrong").status == 401
    assert handshake(node, path, node.new_key("read")).status == 403
    key = node.new_key()
    assert handshake(node, path, key).status == 101
    assert handshake(node, path, key, Upgrade="cay-port").status == 426
    c = http.client.HTTPConnection("127.0.0.1", node.port, timeout=20)
    c.request("GET", path, headers={"Authorization": f"Bearer {key}"})
    assert c.getresponse().status == 426
