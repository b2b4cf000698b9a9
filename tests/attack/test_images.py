# SPDX-License-Identifier: Apache-2.0
"""ESC-19: what an image says of itself is data, in whatever form it comes: `pytest -k ESC_19`"""
import contextlib
import importlib.util
import json
import pathlib
import sys
import time

import pytest

import cay as lib
from conftest import RUNTIMES, hostile_entries

HERE = pathlib.Path(__file__).parent
CREATE_S = 5.0 * lib.SLOW
RSS_KIB = 32 << 10
WHO = ("cayd", "cay-keeper")


def table():
    sys.path.insert(0, str(HERE / "images"))
    spec = importlib.util.spec_from_file_location("hostile_table", HERE / "images/table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ROWS


def peaks(cay, anew=False):
    """The most memory each daemon has had since it was asked anew, KiB."""
    found = {}
    for name, pid in cay.pids().items():
        if anew:
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        found[name] = int(next(l for l in text.splitlines() if l.startswith("VmHWM")).split()[1])
    return found


def start(r, cay, boxes, name, image):
    """With each runtime, and with its own program when it has one."""
    for runtime in RUNTIMES:
        took = []
        while not took or (min(took) > CREATE_S and len(took) < 3):  # a machine may stand still, but not each time
            if took:
                cay.delete(box)
            begin = time.monotonic()
            box = boxes.fresh(runtime, image["name"])
            took.append(time.monotonic() - begin)
        r.check(min(took) <= CREATE_S, f"{name}: {runtime} took {min(took):.1f} s")
        done = r.exec(box, ["/hostile", "agent", "--list"], user="0", cwd="/")
        r.check(done.exit_code == 0, f"{name}: {runtime}: {done}")
        cay.delete(box)
        with contextlib.suppress(lib.ApiError):  # it may have none, or one that cannot be started
            cay.delete(boxes.fresh(runtime, image["name"], image_entrypoint=True))


def attempt(r, cay, boxes, name, want, data):
    words = want if isinstance(want, tuple) else (want,)
    try:
        image = cay.image_import(f"esc19-{name}", data)
    except lib.ApiError as e:
        message = json.loads(e.body)["error"]["message"] if e.code else ""
        r.check(want is not None and 400 <= e.status < 500 and any(w in message for w in words), f"{name}: {e}")
        return False
    r.check(want is None, f"{name}: was imported")
    start(r, cay, boxes, name, image)
    cay.call("DELETE", f"/v1/images/{image['id']}")
    return True


@pytest.mark.images
def test_ESC_19_table(row, boxes, cay):
    rows = table()
    good = lib.layer(hostile_entries())
    good = good[:len(good.rstrip(b"\0")) + -len(good.rstrip(b"\0")) % 512] + bytes(1024)  # one end, so that more can follow
    with row("both") as r:
        cay.delete(boxes.fresh("crun"))  # whatever is set up once is
        before, ran = peaks(cay, anew=True), 0
        for name, (want, make) in rows.items():
            ran += attempt(r, cay, boxes, name, want, make(good))
        after = peaks(cay)
        for who in WHO:
            r.check(after[who] - before[who] <= RSS_KIB, f"{who} grew from {before[who]} to {after[who]} KiB")
        images = cay.call("GET", "/v1/images")["images"]
        r.check(not [i for i in images if i.get("name", "").startswith("esc19-")], "some are left")
        r.check(len(rows) >= 80 and ran >= 30, f"{len(rows)} images, {ran} ran")
        r.detail = f"{len(rows)} images, {ran} ran with each runtime; " + ", ".join(f"{w} +{after[w] - before[w]} KiB" for w in WHO)
