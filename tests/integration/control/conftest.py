# SPDX-License-Identifier: Apache-2.0
import contextlib
import datetime
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "lib"))
import cay  # noqa: E402
import unpacked  # noqa: E402

BUILD = os.environ.get("CAY_BUILD", "build/gcc")
BUSYBOX = "/bin/busybox"


def tiny(more=()):
    """An image without a libc: a static shell and its links, a user, a directory, and more."""
    data = pathlib.Path(BUSYBOX).read_bytes()
    names = ("sh", "echo", "cat", "true", "false", "sleep", "id", "ls", "dd", "head", "seq", "wc", "touch", "grep",
             "ps", "kill", "mkdir", "hostname", "yes", "nc", "ln", "stat", "env", "pwd", "mount", "tail", "chmod", "chown", "rm", "mv", "cp", "rmdir", "test")
    links = [cay.entry(f"bin/{n}", cay.tarfile.SYMTYPE, link="busybox") for n in names]
    return cay.layout(
        [cay.directory("bin"), cay.file("bin/busybox", data, 0o755), *links, cay.directory("etc"),
         cay.file("etc/passwd", b"root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/workspace:/bin/sh\n"),
         cay.file("etc/group", b"root:x:0:\nuser:x:1000:\n"), cay.directory("tmp", 0o1777),
         cay.directory("workspace", uid=1000, gid=1000), *more],
        {"User": "user", "WorkingDir": "/workspace", "Env": ["PATH=/bin", "FROM=image", "OVER=image"]})


@pytest.fixture(scope="session")
def daemon():
    with cay.Cay(BUILD) as c:
        c.image_import("tiny", tiny())
        yield c


@pytest.fixture
def own():
    """Daemons of the test's own, to be killed."""
    with cay.Cay(BUILD) as c:
        c.image_import("tiny", tiny())
        yield c


@pytest.fixture
def box(daemon):
    name = daemon.create("tiny")
    yield name
    try:
        daemon.delete(name)
    except cay.ApiError as e:
        assert e.code == "not_found"


@pytest.fixture(scope="session")
def base_image(daemon):
    """The name of the image of the guides."""
    with unpacked.lent(daemon, "base") as name:
        yield name


@pytest.fixture(scope="session")
def code_image(daemon):
    """The name of the image with Python, Node and R."""
    with unpacked.lent(daemon, "code") as name:
        yield name


@pytest.fixture(scope="session")
def desktop_image(daemon):
    """The name of the image with a screen and a browser."""
    with unpacked.lent(daemon, "desktop") as name:
        yield name


@pytest.fixture(scope="module")
def code(daemon, code_image):
    """A sandbox of the image code."""
    name = daemon.create(code_image)
    yield name
    daemon.delete(name)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """What a test that failed has left of the daemons of all is not what others after it find."""
    yield
    c = item.funcargs.get("daemon")
    if call.when != "call" or not call.excinfo or call.excinfo.errisinstance(pytest.skip.Exception) or not isinstance(c, cay.Cay):
        return
    with contextlib.suppress(OSError, cay.ApiError):
        for box in c.call("GET", "/v1/sandboxes?limit=1000")["sandboxes"]:
            if datetime.datetime.fromisoformat(box["created_at"]).timestamp() >= call.start:
                c.delete(box["id"])


SWEEPS = ("test_sweep.py", "test_vandal.py", "test_failed.py")
SAMPLED = ("test_cut_off_anywhere", "test_every_failpoint", "test_nothing_is_left_of_one_that_failed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """lib/split.py says what the marks mean."""
    for item in items:
        if item.path.name in SWEEPS:
            item.add_marker("sweep")
        if item.name.startswith(SAMPLED):
            item.add_marker("sampled")
        if "wall_clock" in item.name or "blind" in item.name:  # an LD_PRELOAD and ASan's own do not mix
            item.add_marker("plain")
