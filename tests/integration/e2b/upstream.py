# SPDX-License-Identifier: Apache-2.0
"""upstream.py DIRECTORY [PYTEST-ARGUMENT...] - the tests of E2B's code interpreter for Python against a node

DIRECTORY is `python` of a checkout of github.com/e2b-dev/code-interpreter.  Its tests run unmodified, with the SDK of the build root.
upstream.txt names those that fail, and why; any other result is a failure.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "lib"))
import e2b_world  # noqa: E402
import unpacked  # noqa: E402


def run(env, directory, arguments):
    """What became of each test."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        argv = ["pytest-3", "-q", "-p", "no:cacheprovider", "-p", "pytest_asyncio", "-c", "pytest.ini", "-o", "addopts=--import-mode=importlib", f"--junit-xml={report.name}"]
        subprocess.run([*argv, *arguments], cwd=directory, env=env, check=False)
        cases = xml.etree.ElementTree.parse(report.name).iter("testcase")
        return {f"{c.get('classname')}.{c.get('name')}": next((child.tag for child in c if child.tag in ("failure", "error", "skipped")), "passed") for c in cases}


def differences():
    rows = [line.split(None, 1) for line in (HERE / "upstream.txt").read_text().splitlines() if line and line[0] != "#"]
    return {name: why for name, why in rows}


def main(directory, *arguments):
    with e2b_world.E2bWorld(os.environ["CAY_BUILD"]) as node, unpacked.lent(node, "code"):
        env = node.sdk_env(e2b_world.hex_key(node.new_key()))
        got = run(env, directory, arguments)
    want = differences()
    bad = [f"{name} {how}" for name, how in got.items() if (how == "passed") == (name in want)]
    print(f"e2b-upstream: {len(got)} tests, {sum(how == 'passed' for how in got.values())} passed, {len(bad)} not as upstream.txt says")
    sys.exit("\n".join(bad) if bad or not got else 0)


main(*sys.argv[1:])
