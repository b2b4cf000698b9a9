# SPDX-License-Identifier: Apache-2.0
"""kernel.install: real pip, npm and R in the image `code`, and hosts of a lab that serve real packages

What is expected comes from the installers' own output, from what the kernel then imports, and from the log of the hosts.
"""
import contextlib
import json
import re
import subprocess

import lab
import pytest
import stock
import unpacked
from cay import wait_for
from test_control import refused
from test_egress import allow, left, node_in_lab
from test_kernel_parent import forked, loaded, spares, the_spare
from test_kernels import Kernel, texts

pytestmark = [pytest.mark.plain, pytest.mark.one_lane]  # its lab; the installers are not what the sanitizers check
HOSTS = allow("index.lab.example", "files.lab.example", "npm.lab.example")
CA = "/tmp/lab-ca.pem"
ENV = {"PIP_INDEX_URL": "https://index.lab.example/simple", "PIP_CERT": CA, "PIP_RETRIES": "0",
       "NPM_CONFIG_REGISTRY": "https://npm.lab.example/", "NPM_CONFIG_CAFILE": CA, "NPM_CONFIG_FETCH_RETRIES": "0",
       "R_PROFILE_USER": "/tmp/repos.R"}


@pytest.fixture(scope="module")
def net():
    with lab.Lab([], {}) as internet:
        yield internet


@pytest.fixture(scope="module")
def hosts(net):
    with stock.Stock(net) as s:
        yield s


@pytest.fixture(scope="module")
def node(net, hosts):
    with node_in_lab() as c, unpacked.lent(c, "code"):
        wait_for("cay-egress to be connected again", lambda: c.log("cayd").count("cay-egress is connected") == 2, 30)
        yield c


@pytest.fixture
def box(node, net, hosts):
    """Makes sandboxes with a policy; what the hosts and the wire have seen before is forgotten."""
    made = []

    def make(policy=None, **fields):
        fields |= {"egress": policy} if policy else {}
        made.append(node.create("code", env=ENV, limits={"memory_bytes": 2 << 30, "pids": 512}, **fields))
        node.open("PUT", f"/v1/sandboxes/{made[-1]}/files/content?path={CA}", hosts.ca.read_bytes()).read()
        net.frames(), net.asked(), hosts.asked()
        return made[-1]
    yield make
    for one in made:
        node.delete(one)


def install(node, k, packages, **fields):
    done = node.call("POST", k.at + "/install", {"packages": packages, **fields}, timeout_s=300)
    print(done.get("stdout"), done.get("stderr"))
    return done


def versions(done):
    """What the reply says is installed."""
    return re.findall("^cay: installed (.*)$", done["stdout"], re.M)


def test_python_and_node(node, hosts, box):
    """A kernel that runs already finds what was installed; the installer is an exec, with its output and id."""
    one = box(HOSTS)
    with Kernel(node, one) as k:
        before = texts(k.run("import importlib.metadata as m\nm.version('requests')"))
        done = install(node, k, {"requests": "2.32.5"})
        # Debian's has no list of files, so pip cannot remove it
        assert done["end"]["exit_code"] == 0 and "requests-2.32.5" in done["stdout"].splitlines()[-2], done
        assert versions(done) == ["requests 2.32.5"] and done["stdout"].endswith("\ncay: installed requests 2.32.5\n")
        assert "beside the packages of the distribution" in done["stderr"]
        assert ("index.lab.example", "GET", "/simple/requests/") in hosts.asked()
        assert before != ["'2.32.5'"] == texts(k.run("import requests\nrequests.__version__"))
        assert done["id"] in [e["id"] for e in node.call("GET", f"/v1/sandboxes/{one}/execs")["execs"]]
        # a version that is not there: what pip said is in the reply
        done = install(node, k, {"requests": "0.0.77"})
        assert done["end"]["exit_code"] == 1 and "requests==0.0.77" in done["stderr"] and done["end"]["blame"] == "task" and not versions(done)
    with Kernel(node, one, "node") as k:
        done = install(node, k, {"chalk": "4.1.2"}, max_output=1024, keep="both")
        assert done["end"]["exit_code"] == 0 and "added" in done["stdout"] and versions(done) == ["chalk 4.1.2"], done
        assert {host for host, *_ in hosts.asked()} >= {"npm.lab.example"}
        assert texts(k.run("require('chalk/package.json').version")) == ["'4.1.2'"]
        later = install(node, k, {"chalk": "", "ansi-styles": "4.3.0"}, detach=True)
        assert later["state"] == "running"
        wait_for("its end", lambda: node.call("GET", f"/v1/sandboxes/{one}/execs/{later['id']}")["state"] == "ended", 120)
        newest, = texts(k.run("require('fs').readFileSync('node_modules/chalk/package.json').toString().match(/\"version\": *\"(.*?)\"/)[1]"))
        assert sorted(re.findall("cay: installed (.*)", node.exec_output(one, later["id"]).decode())) == ["ansi-styles 4.3.0", f"chalk {newest.strip(chr(39))}"]


def test_kernels_are_forked_with_what_was_installed(node, box):
    """The interpreter that they are forked from has loaded the version that was there before."""
    one = box(HOSTS, kernels=[{"language": "python", "modules": ["requests"]}])
    version = "import requests\nrequests.__version__"
    forked(node, one)
    with Kernel(node, one) as k:
        assert k.info()["forked"] and texts(k.run(version)) != ["'2.32.5'"]
        spare = the_spare(node, one)
        assert install(node, k, {"requests": "2.32.5"})["end"]["exit_code"] == 0
        assert loaded(node, one)["state"] == "stale"
        node.call("POST", k.at + "/restart")
        assert texts(k.run(version)) == ["'2.32.5'"]
        wait_for("the end of the spare that was forked before", lambda: spare not in spares(node, one), 10)
        assert k.info()["pid"] != spare
    forked(node, one)
    with Kernel(node, one) as k:
        assert k.info()["forked"] and texts(k.run(version)) == ["'2.32.5'"]


REPOSITORY = """set -e
mkdir -p /tmp/cran/src/contrib /tmp/greetr/R && cd /tmp/greetr
printf 'Package: greetr\\nVersion: 1.0\\nTitle: A\\nDescription: A.\\nLicense: GPL\\n' >DESCRIPTION
echo 'export(greet)' >NAMESPACE
echo 'greet <- function() "hello"' >R/greet.R
cd /tmp/cran/src/contrib && R CMD build /tmp/greetr >/dev/null
Rscript -e 'tools::write_PACKAGES(".", type = "source")'
echo 'options(repos = c(CRAN = "file:///tmp/cran"))' >/tmp/repos.R
"""


def test_r(node, box):
    """From a repository in the sandbox: R's installer as it is, in a kernel that runs."""
    one = box(HOSTS)
    done = node.exec(one, ["sh", "-c", REPOSITORY], timeout_s=120)
    assert done.exit_code == 0, done.stderr
    with Kernel(node, one, "r") as k:
        done = install(node, k, {"greetr": "1.0"})
        assert done["end"]["exit_code"] == 0 and "DONE (greetr)" in done["stderr"] + done["stdout"] and versions(done) == ["greetr 1.0"], done
        assert texts(k.run("greetr::greet()")) == ['[1] "hello"']
        assert install(node, k, {"nosuchpackage": ""})["end"]["exit_code"] == 1


def test_the_policy_decides(node, net, hosts, box):
    one = box(allow("other.lab.example"))
    with Kernel(node, one) as k:
        done = install(node, k, {"requests": "2.32.5"})
        assert done["end"]["exit_code"] == 1 and done["stderr"], done
        assert left(net) == set() and hosts.asked() == []
    one = box()
    with Kernel(node, one) as k:
        e = refused("wrong_state", install, node, k, {"six": ""})
        assert "no network" in e["message"] and "egress" in e["hint"], e
        assert not node.call("GET", f"/v1/sandboxes/{one}/execs")["execs"]


WRONG = {
    "python": ["-r", "--index-url=https://evil.example", "a b", "git+https://evil.example/x", "../x", "./x", "/tmp/x", "a;b", "$(id)", "a==1", "x\n-r", ""],
    "node": ["-g", "--registry=https://evil.example", "Upper", "a b", "file:../x", "https://evil.example/x.tgz", "@scope", "../x", "user/repository"],
    "r": ["-e", "a');system('id", "a b", "../x", ""],
}


def test_names_are_no_options_paths_or_addresses(node, box):
    one = box(HOSTS)
    for language, names in WRONG.items():
        with Kernel(node, one, language) as k:
            for name in names:
                assert refused("invalid_argument", install, node, k, {name: ""}), name
            for version in ("-1", "1 2", "1;id", "../x", "https://evil.example"):
                refused("invalid_argument", install, node, k, {"six": version})
            refused("invalid_argument", install, node, k, {})
    assert not node.call("GET", f"/v1/sandboxes/{one}/execs")["execs"]
    refused("not_found", node.call, "POST", f"/v1/sandboxes/{one}/kernels/kn{'0' * 24}/install", {"packages": {"six": ""}})


def test_from_the_command_line(node, box):
    """`cay kernel install` passes on what pip writes, and its exit status; what pip itself lists is what was asked for."""
    one = box(HOSTS)

    def cay(*words):
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", "CAY_SOCKET": str(node.socket)}
        return subprocess.run([node.programs["cay"], *words], capture_output=True, text=True, timeout=120, env=env, check=False)
    with Kernel(node, one, name="main") as k:
        done = cay("kernel", "install", one, "main", "requests==2.32.5", "six")
        assert done.returncode == 0 and "requests-2.32.5" in done.stdout, (done.stdout, done.stderr)
        printed = re.findall("^cay: installed (.*)$", done.stdout, re.M)
        assert texts(k.run("import requests\nrequests.__version__")) == ["'2.32.5'"]
        done = cay("exec", one, "--", "python3", "-m", "pip", "list", "--format", "json")
        there = {p["name"]: p["version"] for p in json.loads(done.stdout)}
        assert there["requests"] == "2.32.5" and printed == [f"requests {there['requests']}", f"six {there['six']}"]
        done = cay("kernel", "install", one, "main", "requests==0.0.77")
        assert done.returncode == 1 and "requests==0.0.77" in done.stderr
        done = cay("kernel", "install", "--json", one, "main", "six")
        assert done.returncode == 0 and json.loads(done.stdout)["end"]["exit_code"] == 0
        done = cay("kernel", "install", one, "main", "../x")
        assert done.returncode == 2 and "is no name of a python package" in done.stderr, done.stderr


def test_as_a_stream(node, box):
    one = box(HOSTS)
    with Kernel(node, one) as k, contextlib.closing(node.open("POST", k.at + "/install", {"packages": {"six": ""}}, {"Accept": "text/event-stream"}, 120)) as r:
        events = [json.loads(line[6:]) for line in r.read().decode().splitlines() if line.startswith("data: ")]
    assert any("six" in e.get("t", "") for e in events) and events[-1]["exit_code"] == 0
