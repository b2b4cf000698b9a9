# SPDX-License-Identifier: Apache-2.0
"""What docs/images.md promises of the image code: three languages, their packages, and packages of one's own, as the user"""
import json
import os
import pathlib
import re

import pytest
from cay import layout_of
from test_base import NAME, wheel

TREE = pathlib.Path(__file__).resolve().parents[3]
BUILT = pathlib.Path(os.environ.get("CAY_BUILD", "build/gcc")).resolve().parent / "images"
WITH_R = ["code", *(["r"] if (BUILT / "r").exists() else [])]  # `make image NAME=r`: it is not made for the tests
pytestmark = pytest.mark.one_lane  # its sandbox


def run(daemon, box, *argv, **fields):
    done = daemon.exec(box, list(argv), **fields)
    assert done.exit_code == 0, (done.text, done.stderr)
    return done.text


def manifest(name):
    def read(descriptor):
        return json.loads((BUILT / name / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")).read_text())
    return read(json.loads((BUILT / name / "index.json").read_text())["manifests"][0])


def row(image):
    """What the table of docs/images.md says of an image: what it holds, and MiB of its layers."""
    line = re.search(rf"^\| `{image}` \| (.*) \| ([\d +]+) \|$", (TREE / "docs/images.md").read_text(), re.M)
    return line[1], [int(mib) for mib in line[2].split("+")]


def promised_of_r(image):
    """R's packages in that row, and those of them that come with tidyverse."""
    holds = re.search(r"R with ([^;]+)", row(image)[0])[1]
    inside = re.search(r"tidyverse \((.*?)\)", holds)
    names = {words: set(re.findall(r"\w[\w.]*", words)) - {"and", "others"} for words in (holds, inside[1] if inside else "")}
    return names[holds], names[inside[1] if inside else ""]


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


def check_r_has_no_threads(daemon, code):
    found = run(daemon, code, "Rscript", "-e", "x <- matrix(runif(90000), 300); invisible(svd(x %*% x));"
                "cat(length(list.files('/proc/self/task')), grepl('openblas-serial', extSoftVersion()['BLAS']))")
    assert found == "1 TRUE"


def check_sizes_are_about_those_of_the_page(_daemon, _code):
    """Debian's updates change them a little."""
    for image in ("base", "code"):
        told, made = row(image)[1], [layer["size"] / (1 << 20) for layer in manifest(image)["layers"]]
        assert len(told) == len(made) and all(abs(a - b) < b / 10 for a, b in zip(told, made)), (told, made)


def check_what_the_page_says_is_left_out(daemon, code):
    assert run(daemon, code, "find", "/usr/share/doc", "/usr/share/man", "/usr/share/locale", "-type", "f") == ""
    assert run(daemon, code, "find", "/usr", "-name", "*.mo", "-not", "-path", "/usr/lib/R/*") == ""
    assert run(daemon, code, "find", "/usr/lib/python3/dist-packages", "-type", "d", "-name", "tests") == ""
    assert run(daemon, code, "find", "/usr/share/nodejs", "/usr/lib", "-name", "*.d.ts") == ""
    assert run(daemon, code, "sh", "-c", "command -v cc gcc g++ gfortran make; :") == ""


def check_a_plot_does_not_search_for_fonts(daemon, code):
    """matplotlib takes the list of the image, and writes no other."""
    run(daemon, code, "python3", "-c", PYTHON)
    assert run(daemon, code, "sh", "-c", "stat -c %Y /workspace/.cache/matplotlib/fontlist-*.json") == "1767225600\n"


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


def load_packages_of_r(daemon, box, image):
    """library() of each in an R of its own, as code has it: one may hide what another needs."""
    names = sorted(promised_of_r(image)[0])
    script = 'for p; do Rscript -e "suppressPackageStartupMessages(library($p)); cat(\'$p\\n\')"; done'
    assert len(names) >= 4 and run(daemon, box, "sh", "-ec", script, "sh", *names, timeout_s=300).split() == names


def check_r_loads_what_the_page_names(daemon, code):
    load_packages_of_r(daemon, code, "code")


@pytest.mark.parametrize("image", ["r", "code"])
def test_the_recipe_has_the_packages_of_r_that_the_page_names(image):
    lines = (TREE / "guest/images" / image / "packages").read_text().splitlines()
    made = {line.split()[0] for line in lines if line.startswith("r-cran-")}
    names, inside = promised_of_r(image)
    assert {f"r-cran-{name.lower()}" for name in names - inside} <= made


if WITH_R[1:]:  # without one pytest would skip it
    @pytest.mark.parametrize("image", WITH_R[1:])
    def test_r_loads_what_its_page_promises(daemon, image):
        with layout_of(BUILT / image) as tar:
            daemon.image_import(image, tar)
        box = daemon.create(image, limits={"memory_bytes": "1Gi"})
        try:
            load_packages_of_r(daemon, box, image)
            for compiler in ("g++", "gfortran", "make"):
                assert run(daemon, box, compiler, "--version")
        finally:
            daemon.delete(box)


def test_no_test_can_change_a_lent_image(daemon, code_image):
    """lib/unpacked.py lends one tree to many nodes."""
    lent = [at for at in (daemon.state / "images/sha256").iterdir() if (at / "rootfs/usr/lib/R").exists()]
    assert len(lent) == 1
    for name in ("rootfs/new", "parent"):
        with pytest.raises(OSError, match="Read-only file system"):
            (lent[0] / name).touch()


def test_code_has_what_its_page_promises(daemon, code):
    checks = [value for name, value in globals().items() if name.startswith("check_")]
    assert len(checks) == 13
    for check in checks:
        print(check.__name__)
        check(daemon, code)
