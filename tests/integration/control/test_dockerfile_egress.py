# SPDX-License-Identifier: Apache-2.0
"""`cay template build --build-egress`: a Dockerfile whose steps connect through cay-egress, and nowhere else

The hosts are those of tests/lib/stock.py.  What is expected comes from pip, from their log, and from the packets that left the node.
"""
import shutil
import tempfile

import cay
import lab
import pytest
import stock
from cay import wait_for
from conftest import BUILD
from test_dockerfile import cay as run_cay
from test_dockerfile import left as left_behind
from test_egress import left

pytestmark = pytest.mark.plain  # a copy of Python, and buildah: not what the sanitizers check
PIP = "PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_RETRIES=0 PIP_DISABLE_PIP_VERSION_CHECK=1 python3 -m pip -q install six==1.17.0"
TRIES = f"""
import socket
for host, port in (("www.lab.example", 443), ("{stock.HOSTS['www.lab.example']}", 443), ("{lab.NODE}", 5432), ("127.0.0.1", 5432),
                   ("169.254.169.254", 80), ("::1", 5432), ("2001:db8::1", 443)):
    try:
        socket.create_connection((host, port), 10).recv(1)
        print("connected to", host)
    except OSError:
        pass
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    try:
        s.sendto(b"canary", ("{lab.DNS}", 5353))
        s.settimeout(1)
        s.recv(1)
        print("answered")
    except OSError:
        pass
print("tried")
"""


@pytest.fixture(scope="module")
def net():
    with lab.Lab([], {}) as internet:
        yield internet


@pytest.fixture(scope="module")
def hosts(net):
    with stock.Stock(net) as s:
        yield s


@pytest.fixture(scope="module")
def node(net):
    """Its bound leaves www.lab.example out."""
    bound = "index.lab.example files.lab.example other.lab.example"
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_EGRESS_MAX": bound}) as c:
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        yield c


@pytest.fixture(scope="module")
def python(hosts):
    """A file system with Python and pip."""
    with tempfile.NamedTemporaryFile(dir="/var/tmp", suffix=".tar") as tar:
        stock.image_of_clients(hosts, tar.name, ("python3-pip", "dash", "coreutils"))
        yield tar.name


@pytest.fixture
def context(python, tmp_path, net, hosts):
    """Nobody but root can get at it."""
    shutil.copy(python, tmp_path / "root.tar")
    (tmp_path / "try.py").write_text(TRIES)
    tmp_path.chmod(0o700)
    net.frames(), net.asked(), hosts.asked()
    return tmp_path


def build(node, context, name, *words):
    return run_cay(node, "template", "build", *words, context, name, CAY_CGROUP_PATH=node.cgroup)


def dockerfile(context, *steps):
    (context / "Dockerfile").write_text("\n".join(["FROM scratch", "ADD root.tar /", "COPY try.py /try.py", *steps, ""]))


def nothing_is_left(node):
    assert left_behind() == []
    assert node.call("GET", "/v1/sandboxes?state=live")["sandboxes"] == []
    assert "cay-build-network" not in str(node.call("GET", "/v1/images"))


def test_a_step_installs_what_its_policy_allows_and_reaches_nothing_else(node, net, hosts, context):
    """The policy allows every name; the node's bound does not."""
    dockerfile(context, f"RUN {PIP}", "RUN cat /proc/self/uid_map >/ids; python3 /try.py >/tried")
    done = build(node, context, "with-six", "--build-egress", "*")
    assert done.returncode == 0, done.stderr
    assert {"index.lab.example", "files.lab.example"} == {host for host, *_ in hosts.asked()}
    assert {to for to, _ in left(net)} == {stock.HOSTS["index.lab.example"], stock.HOSTS["files.lab.example"]}
    assert {name for name, *_ in net.asked()} == {"index.lab.example", "files.lab.example"}
    nothing_is_left(node)
    one = node.call("POST", "/v1/sandboxes", {"template": "with-six"})["id"]
    got = node.exec(one, ["sh", "-c", "cat /tried; python3 -c 'import six; print(six.__version__)'; cat /ids"]).text.split()
    assert got[:2] == ["tried", "1.17.0"], got
    assert got[2] == "0" and int(got[3]) > 0, "root of the build is root of this machine"
    node.delete(one)


def test_a_step_whose_policy_denies_its_index_fails(node, net, hosts, context):
    dockerfile(context, f"RUN {PIP}")
    done = build(node, context, "without", "--build-egress", "other.lab.example")
    assert done.returncode == 5 and "the policy of the build denied index.lab.example" in done.stderr, done.stderr
    assert left(net) == set() and net.asked() == [] and hosts.asked() == []
    nothing_is_left(node)


def test_a_preset_that_does_not_exist_builds_nothing(node, context):
    dockerfile(context)
    done = build(node, context, "never", "--build-egress", "no-such-preset")
    assert done.returncode != 0 and "no-such-preset" in done.stderr and "STEP" not in done.stderr
    nothing_is_left(node)
