# SPDX-License-Identifier: Apache-2.0
"""Real clients in sandboxes, with hosts of a lab that serve real packages (tests/lib/stock.py)

Each client works when its policy names the hosts that it needs.  With a policy that names another host it fails, and not one
packet leaves the node.  Those of HTTP work as well where each request is read.  What is expected comes from the clients' own status and output and from the log of the hosts.  The
table is written to build/egress-clients.md.
"""
import os
import pathlib
import struct
import tempfile
import threading
import time

import lab
import pytest
import stock
from cay import wait_for
from conftest import BUILD
from test_control import refused
from test_egress import allow, client_hello, decisions, left, node_in_lab
from test_tenants import asks

pytestmark = [pytest.mark.plain, pytest.mark.one_lane]  # the image is large, and the clients are not what the sanitizers check
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
PIP = "PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_RETRIES=0 PIP_DISABLE_PIP_VERSION_CHECK=1 python3 -m pip -q install "
UV = "UV_INDEX_URL=https://index.lab.example/simple UV_NATIVE_TLS=1 UV_HTTP_RETRIES=0 "
INDEX = allow("index.lab.example", "files.lab.example")
PUSH = "git -C w -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m {0} && git -C w push -q origin HEAD:{0} && cat w/README"
CHROMIUM = "chromium-headless-shell --no-sandbox --disable-gpu --disable-dev-shm-usage --timeout=30000 --dump-dom https://www.lab.example/"
# client: policy, command, the end of its output, what the log of the hosts has
CLIENTS = {
    "apt-get update, install": (allow("deb.lab.example", ports=[80]), "apt-get -q update && apt-get -q -y install hello && hello", "Hello, world!",
                                ("deb.lab.example", "GET", "/lab/./Packages.gz")),
    "pip install": (INDEX, PIP + "requests && python3 -c 'import requests, idna; print(requests.__version__)'", "2.32.5",
                    ("index.lab.example", "GET", "/simple/urllib3/")),
    "uv pip install": (INDEX, PIP + "uv && " + UV + "uv -q pip install --system --break-system-packages six && python3 -c 'import six; print(six.__version__)'",
                       "1.17.0", ("index.lab.example", "GET", "/simple/six/")),
    "npm ci": (allow("npm.lab.example"), "cd /srv && npm ci --no-audit --no-fund --fetch-retries=0 && node -p \"require('yargs/package.json').version\"",
               "17.7.2", ("npm.lab.example", "GET", "/yargs/-/yargs-17.7.2.tgz")),
    "git clone, push over https": (allow("git.lab.example"), "git clone -q https://git.lab.example/lab.git w && " + PUSH.format("https"), "in the lab",
                                   ("git.lab.example", "POST", "/lab.git/git-receive-pack")),
    "git clone, push over ssh": (allow("git.lab.example", ports=[22]), "git clone -q root@git.lab.example:{top}/git/lab.git w && " + PUSH.format("ssh"),
                                 "in the lab", None),
    "curl": (allow("www.lab.example"), "curl -fsS https://www.lab.example/", stock.PAGE, ("www.lab.example", "GET", "/")),
    "Python urllib": (allow("www.lab.example", ports=[80]), "python3 -c \"import urllib.request as r; print(r.urlopen('http://www.lab.example/').read().decode())\"",
                      stock.PAGE, ("www.lab.example", "GET", "/")),
    "Node fetch": (allow("www.lab.example"), "node -e \"fetch('https://www.lab.example/').then(r => r.text()).then(t => console.log(t))\"", stock.PAGE,
                   ("www.lab.example", "GET", "/")),
    "Go (skopeo inspect)": (allow("registry.lab.example"), "skopeo --insecure-policy inspect --raw docker://registry.lab.example/lab:1", stock.manifest().decode(),
                            ("registry.lab.example", "GET", "/v2/lab/manifests/1")),
    "psql": (allow("db.lab.example", ports=[5432]), "/usr/lib/postgresql/*/bin/psql -Atc 'select 6 * 7' 'host=db.lab.example user=postgres dbname=postgres "
             f"sslmode=verify-full sslrootcert={BUNDLE}'", "42", None),
    "Chromium": (allow("*"), CHROMIUM, "this is the lab 42", ("www.lab.example", "GET", "/")),
}
# Those whose requests can be read: they speak HTTP, on ports 80 and 443, and trust the CA of the system or of a variable.
READ = [name for name in CLIENTS if not name.startswith(("git clone, push over ssh", "psql", "Chromium"))]


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
    with node_in_lab(CAY_EGRESS_CA=str(hosts.ca), CAY_EGRESS_ROOTS=str(hosts.ca)) as c:
        with tempfile.NamedTemporaryFile(dir="/var/tmp", suffix=".tar") as tar:
            stock.image_of_clients(hosts, tar.name)
            began = time.monotonic()
            with open(tar.name, "rb") as f:
                c.image_import("clients", f)
            print(f"image of clients: {os.path.getsize(tar.name) >> 20} MiB, imported in {time.monotonic() - began:.1f} s")
        yield c


@pytest.fixture
def box(node, net, hosts):
    """Makes sandboxes with a policy; what the hosts and the wire have seen before is forgotten."""
    made = []

    def make(policy, **fields):
        made.append(node.create("clients", egress=policy, limits={"memory_bytes": 2 << 30, "pids": 1024}, **fields))
        net.frames(), net.asked(), hosts.asked()
        return made[-1]
    yield make
    for one in made:
        node.delete(one)


def write_cell(name, column, text):
    """Tests run in several processes.  Each writes its cell to a file, and then the table of all there are."""
    at = pathlib.Path(BUILD).parent / "egress-clients"
    at.mkdir(exist_ok=True)
    (at / f"{list(CLIENTS).index(name)}-{column}").write_text(text)
    cells = {one.name: one.read_text() for one in at.iterdir()}
    rows = [f"| {client} | {cells.get(f'{i}-passed', '')} | {cells.get(f'{i}-read', '') if client in READ else 'is not read'} | "
            "fails, nothing leaves |\n" for i, client in enumerate(CLIENTS)]
    (at.parent / "egress-clients.md").write_text("| client | seconds | where requests are read | with a policy for another host |\n|---|---|---|---|\n" + "".join(rows))


def run(node, box, command, timeout_s=120):
    began = time.monotonic()
    done = node.exec(box, ["bash", "-c", command], cwd="/root", timeout_s=timeout_s)
    return done, time.monotonic() - began


@pytest.mark.sampled
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client(node, net, hosts, box, name):
    policy, command, expected, asked = CLIENTS[name]
    command = command.replace("{top}", str(hosts.top))
    one = box(policy)
    assert run(node, one, "env | grep -ci proxy")[0].text == "0\n", "a setting of a proxy (0099)"
    done, seconds = run(node, one, command)
    assert done.exit_code == 0 and expected in done.text, (done.text, done.stderr.decode())
    assert not asked or asked in hosts.asked()
    # the same without the rule
    other = box(allow("other.lab.example", ports=["1-65535"]))
    done, _ = run(node, other, command)
    assert done.exit_code != 0 or expected not in done.text
    assert left(net) == set() and hosts.asked() == []
    assert {name for name, *_ in net.asked()} <= {"other.lab.example"}
    if "push over " in name:
        branch = name.rsplit(" ", 1)[1]
        assert hosts.head(branch) == branch
    write_cell(name, "passed", f"{seconds:.1f}")


@pytest.mark.sampled
@pytest.mark.parametrize("name", READ)
def test_a_client_whose_requests_are_read(node, net, hosts, box, name):
    """It works with a rule that reads each request; with one for a method that it does not use, no request reaches a host."""
    policy, command, expected, asked = CLIENTS[name]
    one = box({"rules": [{**rule, "inspect": True} for rule in policy["rules"]]})
    done, seconds = run(node, one, command.replace("HEAD:https", "HEAD:read").replace("-m https", "-m read"))
    assert done.exit_code == 0 and expected in done.text, (done.text, done.stderr.decode())
    assert asked in hosts.asked()
    write_cell(name, "read", f"{seconds:.1f}")
    other = box({"rules": [{**rule, "methods": ["OPTIONS"]} for rule in policy["rules"]]})
    done, _ = run(node, other, command)
    assert (done.exit_code != 0 or expected not in done.text) and hosts.asked() == []
    assert left(net) == set()


def test_chromium_may_hide_names_where_every_name_is_allowed(node, hosts, box):
    """It sends the extension for ECH in each hello, also when it has no key; with a list of names such a hello is reset."""
    one = box(allow("www.lab.example"))
    done, _ = run(node, one, CHROMIUM)
    assert b"ERR_CONNECTION_RESET" in done.stderr and hosts.asked() == []
    wait_for("a record", lambda: any(d.get("outcome") == "name_is_hidden" for d in decisions(node) if d.get("target") == one), 30)


HOLDS = """
import socket, sys
s = socket.create_connection(("www.lab.example", 443))
s.sendall(open("/srv/hello", "rb").read())
print(s.recv(1) == bytes([22]), flush=True)
try:
    while s.recv(65536): pass
except ConnectionResetError:
    print("reset", flush=True)
"""


def hiding_hello(name):
    """OpenSSL's, with an extension for ECH at the end."""
    hello = client_hello(name)
    at = 9 + 2 + 32  # after the random number: the session, the ciphers, the compression
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at:at + 2])
    at += 1 + hello[at]
    more = struct.pack(">HHI", 0xfe0d, 4, 0)

    def grown(start, size):
        return (int.from_bytes(hello[start:start + size]) + len(more)).to_bytes(size)
    return hello[:3] + grown(3, 2) + hello[5:6] + grown(6, 3) + hello[9:at] + grown(at, 2) + hello[at + 2:] + more


def test_a_hidden_name_is_cut_when_a_policy_becomes_a_list(node, hosts, box):
    one = box(allow("*"))
    node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/srv/hello", hiding_hello("www.lab.example")).read()
    job = node.exec_detached(one, ["python3", "-c", HOLDS])
    wait_for("its host", lambda: node.exec_output(one, job) == b"True\n", 60)
    node.call("PUT", f"/v1/sandboxes/{one}/egress", allow("*", "www.lab.example"))
    assert node.call("GET", f"/v1/sandboxes/{one}/egress/flows")["flows"]
    node.call("PUT", f"/v1/sandboxes/{one}/egress", allow("www.lab.example"))
    wait_for("the reset", lambda: node.exec_output(one, job) == b"True\nreset\n", 60)


# -- packages of creates and templates

def create(c, box_packages, egress=None, **fields):
    return c.call("POST", "/v1/sandboxes", {"image": "clients", "packages": box_packages, **({} if egress is None else {"egress": egress}), **fields},
                  timeout_s=180)["id"]


def template(c, name, wait=True, **fields):
    made = c.call("POST", "/v1/templates", {"name": name, "defaults": {"image": "clients"}, **fields})
    if wait:
        wait_for("its build", lambda: c.call("GET", "/v1/templates/" + made["id"])["state"] != "building", 180)
    return c.call("GET", "/v1/templates/" + made["id"])


@pytest.fixture
def quiet(node, net, hosts):
    """What the hosts and the wire have seen before is forgotten; sandboxes go at the end."""
    net.frames(), net.asked(), hosts.asked()
    yield
    for one in node.call("GET", "/v1/sandboxes?state=live")["sandboxes"]:
        node.delete(one["id"])


FAST = {"PIP_RETRIES": "0", "NPM_CONFIG_FETCH_RETRY_MINTIMEOUT": "100"}


def test_packages_of_a_create_come_through_its_policy(node, hosts, quiet):
    wanted = {"python": {"requests": "2.32.5"}, "node": {"chalk": "4.1.2"}}
    one = create(node, wanted, allow("index.lab.example", "files.lab.example", "npm.lab.example"), env=FAST)
    assert {"index.lab.example", "files.lab.example", "npm.lab.example"} == {host for host, *_ in hosts.asked()}
    assert run(node, one, "python3 -c 'import requests; print(requests.__version__)' && npm ls -g chalk")[0].text.startswith("2.32.5\n")
    # a layer that exists needs no network, and its sandbox gets none by it
    other = create(node, wanted, {}, env=FAST)
    done, _ = run(node, other, "python3 -c 'import requests; requests.get(\"https://index.lab.example/\", timeout=5)'")
    assert b"ConnectionError" in done.stderr and hosts.asked() == []


def test_packages_that_the_policy_does_not_allow(node, net, hosts, quiet):
    e = refused("build_failed", create, node, {"python": {"six": ""}}, allow("other.lab.example"), env=FAST)
    assert "exited with 1 after its egress policy denied" in str(e)
    e = refused("build_failed", create, node, {"python": {"six": ""}}, env=FAST)
    assert "exited with 1 without a network" in str(e)
    assert left(net) == set() and net.asked() == [] and hosts.asked() == []


def test_packages_are_bound_by_the_tenant(node, net, hosts, quiet):
    tenant = node.call("POST", "/v1/tenants", {"name": "bound"})["id"]
    node.call("POST", f"/v1/tenants/{tenant}", {"egress_max": allow("other.lab.example")})
    theirs = asks(node, "write", tenant)
    e = refused("build_failed", create, theirs, {"python": {"six": ""}}, INDEX, env=FAST)
    assert "denied" in str(e) and left(net) == set() and hosts.asked() == []
    node.call("POST", f"/v1/tenants/{tenant}", {"egress_max": INDEX})
    theirs.delete(create(theirs, {"python": {"six": ""}}, INDEX, env=FAST))


def test_a_bound_that_changes_cuts_the_connections_of_builds(node, hosts, quiet):
    """The index does not answer; the build fails when its connection is reset, long before pip gives up."""
    tenant = node.call("POST", "/v1/tenants", {"name": "changes"})["id"]
    theirs, said = asks(node, "write", tenant), []

    def build():
        said.append(refused("build_failed", create, theirs, {"python": {"six": ""}}, allow("slow.lab.example"),
                            env={**FAST, "PIP_DEFAULT_TIMEOUT": "600", "PIP_INDEX_URL": "https://slow.lab.example/"}))
    thread = threading.Thread(target=build)
    thread.start()
    wait_for("its question", lambda: any(host == "slow.lab.example" for host, *_ in hosts.asked()), 120)
    node.call("POST", f"/v1/tenants/{tenant}", {"egress_max": {}})
    wait_for("the end of the build", lambda: not thread.is_alive(), 120)
    assert said


def test_a_template_is_built_through_a_policy_of_its_own(node, net, hosts, quiet):
    made = template(node, "built", packages={"python": {"six": ""}}, setup=["apt-get -q update && apt-get -q -y install hello"],
                    build_egress={"rules": INDEX["rules"] + allow("deb.lab.example", ports=[80])["rules"]})
    assert made["state"] == "ready", made
    assert {"index.lab.example", "files.lab.example", "deb.lab.example"} == {host for host, *_ in hosts.asked()}
    one = node.call("POST", "/v1/sandboxes", {"template": "built"})["id"]
    done, _ = run(node, one, "hello && python3 -c 'import six' && ! curl -sS http://deb.lab.example/")
    assert done.exit_code == 0 and done.text.startswith("Hello, world!"), done.stderr
    assert hosts.asked() == []


def test_a_template_is_built_through_the_policy_of_its_sandboxes(node, net, hosts, quiet):
    made = template(node, "same", defaults={"image": "clients", "egress": allow("deb.lab.example", ports=[80])}, setup=["apt-get -q update", "false"])
    assert made["state"] == "failed" and {"deb.lab.example"} == {host for host, *_ in hosts.asked()}
    net.frames()
    made = template(node, "denied", defaults={"image": "clients", "egress": allow("other.lab.example")}, setup=["curl -fsS https://www.lab.example/"])
    assert made["state"] == "failed" and left(net) == set()
    refused("invalid_argument", template, node, "wrong", setup=["true"], build_egress={"presets": ["nothing-like-it"]})
