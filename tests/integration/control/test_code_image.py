# SPDX-License-Identifier: Apache-2.0
"""What docs/images.md promises of the image code: three languages, their packages, and packages of one's own, as the user"""
import json
import os
import pathlib

import pytest
from test_base import NAME, wheel

BUILT = pathlib.Path(os.environ.get("CAY_BUILD", "build/gcc")).resolve().parent / "images"
pytestmark = pytest.mark.one_lane("code")


def run(daemon, box, *argv, **fields):
    done = daemon.exec(box, list(argv), **fields)
    assert done.exit_code == 0, (done.text, done.stderr)
    return done.text


def manifest(name):
    def read(descriptor):
        return json.loads((BUILT / name / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")).read_text())
    return read(json.loads((BUILT / name / "index.json").read_text())["manifests"][0])


def check_the_layer_of_base_comes_first(_daemon, _code):
    assert manifest("code")["layers"][0] == manifest("base")["layers"][0]


PYTHON = """
import IPython, PIL, json, matplotlib, numpy, pandas, pytest, requests
matplotlib.use('agg')
import matplotlib.pyplot as plt
a = numpy.random.rand(300, 300)
numpy.linalg.svd(a @ a)
plt.plot([1, 2])
plt.savefig('/tmp/x.png')
import os
print(len(os.listdir('/proc/self/task')), open('/tmp/x.png', 'rb').read(4), pandas.DataFrame({'a': [1, 2]}).a.sum())
"""


def check_python_has_no_threads(daemon, code):
    assert run(daemon, code, "python3", "-c", PYTHON) == "1 b'\\x89PNG' 3\n"


def check_node(daemon, code):
    assert run(daemon, code, "node", "-p", "require('acorn').parse('import x from \"y\"', {ecmaVersion: 2022, sourceType: 'module'}).body[0].type") == "ImportDeclaration\n"
    assert run(daemon, code, "npm", "--version")[0].isdigit()


def check_r_draws(daemon, code):
    drawn = run(daemon, code, "Rscript", "-e", "library(ggplot2); library(evaluate); png('/tmp/r.png', type='cairo');"
                "print(ggplot(mtcars, aes(wt, mpg)) + geom_point()); invisible(dev.off());"
                "cat(rawToChar(readBin('/tmp/r.png', 'raw', 4)[2:4]), jsonlite::toJSON(1), base64enc::base64encode(charToRaw('a')), getOption('repos'))")
    assert drawn.startswith("PNG [1] YQ== https:") and drawn.endswith("//cloud.r-project.org")


def check_pip_installs_as_the_user(daemon, code, venv=False):
    """What is installed is found: without a marker that forbids it, without --user, and in an environment of its own."""
    run(daemon, code, "sh", "-c", f"mkdir -p /tmp/wheels && printf %s {wheel()} | base64 -d >/tmp/wheels/{NAME}-py3-none-any.whl")
    python = "python3"
    if venv:
        run(daemon, code, "python3", "-m", "venv", "/tmp/venv", timeout_s=120)
        python = "/tmp/venv/bin/python"
    run(daemon, code, python, "-m", "pip", "install", "--no-index", "--find-links", "/tmp/wheels", "greeting", timeout_s=120)
    assert run(daemon, code, python, "-c", "import greeting; print(greeting.text)") == "hello\n"
    run(daemon, code, python, "-m", "pip", "uninstall", "-y", "greeting", timeout_s=120)


def check_pip_installs_in_a_venv(daemon, code):
    check_pip_installs_as_the_user(daemon, code, venv=True)


def check_npm_installs_as_the_user(daemon, code):
    run(daemon, code, "sh", "-c", "mkdir -p /tmp/greet && cd /tmp/greet && echo '{\"name\":\"greet\",\"version\":\"1.0.0\",\"bin\":\"greet.js\"}' >package.json &&"
        "printf '#!/usr/bin/env node\\nconsole.log(\"hello\")\\n' >greet.js && npm pack --silent && npm install --global --offline ./greet-1.0.0.tgz", timeout_s=120)
    assert run(daemon, code, "greet") == "hello\n"


def check_r_installs_as_the_user(daemon, code):
    run(daemon, code, "sh", "-c", "mkdir -p /tmp/greetr && cd /tmp/greetr && printf 'Package: greetr\\nVersion: 1.0\\nTitle: A\\nDescription: A.\\nLicense: GPL\\n' >DESCRIPTION &&"
        "echo 'export(greet)' >NAMESPACE && mkdir -p R && echo 'greet <- function() \"hello\"' >R/greet.R")
    run(daemon, code, "Rscript", "-e", "install.packages('/tmp/greetr', repos = NULL, type = 'source')", timeout_s=120)
    assert run(daemon, code, "Rscript", "-e", "cat(greetr::greet())") == "hello"


def test_code_has_what_its_page_promises(daemon, code):
    checks = [value for name, value in globals().items() if name.startswith("check_")]
    assert len(checks) == 8
    for check in checks:
        print(check.__name__)
        check(daemon, code)
