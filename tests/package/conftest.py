# SPDX-License-Identifier: Apache-2.0
"""The package, built once, and a clean Debian 13 to install it on"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

TREE = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(TREE / "tests/lib"), str(TREE / "tests/package")]
import tap  # noqa: E402
from machine import Machine  # noqa: E402

BUILD = pathlib.Path(os.environ["CAY_BUILD"])
VERSION = re.search(r"\((.*)\)", (TREE / "packaging/debian/changelog").read_text())[1]
LATER = VERSION + "+1"
pytest_configure = tap.pytest_configure


def run(*argv, **kw):
    p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=TREE, **kw)
    assert p.returncode == 0, f"{argv}\n{p.stdout[-4000:]}"
    return p.stdout


def build():
    """This version, and a later one of the same tree."""
    run("dev/debs")
    return {name: next((TREE / "build/deb").glob(f"cay_{v}_*.deb")) for name, v in (("first", VERSION), ("later", LATER))}


def clean_root(top):
    """Debian's minbase, and the way to the mirror."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="clean-", dir=top))
    root.chmod(0o755)
    sources = [l for l in pathlib.Path("/etc/apt/sources.list").read_text().splitlines() if l.startswith("deb ")]
    stable = [l for l in sources if " trixie" in l]
    run("dev/build-cache", "build/minbase.tar", __file__, "--", "mmdebstrap", "--mode=root", "--variant=minbase",
        '--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io", "--include=ca-certificates", "trixie", "build/minbase.tar", *stable)
    run("tar", "-C", root, "-xpf", "build/minbase.tar")
    (root / "etc/resolv.conf").write_text(pathlib.Path("/etc/resolv.conf").read_text())
    return root


@pytest.fixture(scope="session")
def made():
    with concurrent.futures.ThreadPoolExecutor() as pool:
        debs, root = pool.submit(build), pool.submit(clean_root, "/var/tmp")
        return debs.result(), root.result()


@pytest.fixture(scope="session")
def debs(made):
    return made[0]


@pytest.fixture(scope="session")
def machine(made):
    m = Machine(made[1], BUILD / "tests/package/as-unit")
    yield m
    m.stop()
