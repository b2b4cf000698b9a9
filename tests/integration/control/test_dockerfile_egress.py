# SPDX-License-Identifier: Apache-2.0
"""`cay template build --build-egress`: a Dockerfile whose steps connect through cay-egress, and nowhere else

The hosts are those of tests/lib/stock.py.  What is expected comes from pip, from their log, and from the packets that left the node.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile
import termios

import cay
import lab
import pytest
import stock
from cay import wait_for
from conftest import BUILD
from test_dockerfile import CAY
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


# -- what a step sees of the machine

LOOK = """
import errno, fcntl, json, os, pathlib, socket
def tried(f):
    try:
        return repr(f())
    except OSError as e:
        return errno.errorcode[e.errno]
def escape():
    os.mkdir("/esc")
    root = os.open("/", os.O_RDONLY)
    os.chroot("/esc")
    os.fchdir(root)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return sorted(os.listdir("/"))
def terminal():
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x")
got = {"tty": tried(terminal), "host": os.path.exists(MARK)}
got["processes"] = [p.read_bytes().decode() for p in pathlib.Path("/proc").glob("[0-9]*/cmdline")]
got["devices"] = sorted(os.listdir("/dev"))
got["null"] = os.stat("/dev/null").st_rdev
got["escaped"] = tried(escape)
got["after"] = [str(p) for p in (MARK, "/var/tmp/cay-build-secret", "/root", "/home", "/run/systemd", "/etc/shadow") if os.path.exists(p)]
open("/dev/stderr", "w").write("SEEN " + json.dumps(got) + "\\n")
"""


def build_at_a_terminal(node, context, *words):
    """As root's shell starts it: with a terminal that controls the session.  Returns a Popen."""
    ours, theirs = os.openpty()

    def own():
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    words = [CAY, "template", "build", "--build-egress", "other.lab.example", *words, context, "seen"]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "CAY_PATHS_RUN": str(node.run), "CAY_CGROUP_PATH": node.cgroup}
    p = subprocess.Popen(list(map(str, words)), env=env, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=own)
    os.close(theirs)
    p.terminal = ours
    return p


def test_a_step_sees_nothing_of_this_machine(node, context, tmp_path):
    """No terminal, no process, no device and no file of it, also where it leaves the root that buildah made for it."""
    mark = pathlib.Path(tempfile.mkdtemp(dir="/tmp")) / "readable"
    mark.write_text("everybody may read this")
    mark.parent.chmod(0o755)
    (context / "look.py").write_text(LOOK.replace("MARK", repr(str(mark))))
    dockerfile(context, "COPY look.py /", "RUN python3 /look.py")
    p = build_at_a_terminal(node, context)
    out, said = p.communicate(timeout=120)
    os.close(p.terminal)
    shutil.rmtree(mark.parent)
    assert p.returncode == 0, said
    seen = json.loads(said.split("SEEN ", 1)[1].splitlines()[0])
    assert seen["tty"] == "ENXIO" and not seen["host"], seen
    assert not [c for c in seen["processes"] if "cayd" in c or "pytest" in c or "cay-keeper" in c], seen
    assert len(seen["processes"]) < 10, seen
    assert set(seen["devices"]) <= {"fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero", "console", "core"}, seen
    assert seen["null"] == os.makedev(1, 3), seen
    assert str(mark) not in seen["after"] and "/run/systemd" not in seen["after"], seen
    nothing_is_left(node)


def test_devices_of_a_context_are_refused(node, context):
    """root copies them, and gives the copies to the build."""
    dockerfile(context)
    for make in (lambda p: os.mknod(p, 0o600 | stat.S_IFBLK, os.makedev(7, 0)), lambda p: os.mkfifo(p)):
        odd = context / "odd"
        make(odd)
        done = build(node, context, "odd", "--build-egress", "other.lab.example")
        assert done.returncode != 0 and "a device, a FIFO or a socket" in done.stderr and "STEP" not in done.stderr, done.stderr
        odd.unlink()
    nothing_is_left(node)


def sleeps():
    """Processes of the step."""
    found = []
    for p in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = p.read_bytes().split(b"\0")
            found += [p] if words[0].endswith(b"python3") and b"import signal;signal.pause()" in words else []
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda s: s.name)
def test_a_build_that_is_stopped(node, context, tmp_path, how):
    """Its steps end with it; its files, sandbox and image are removed, unless it was killed; credentials were never on disk."""
    secret = "c2VjcmV0LW9mLXRoZS1yZWdpc3RyeTp4"
    (context.parent / "auth-target").write_text(json.dumps({"auths": {"registry.invalid": {"auth": secret}}}))
    auth, other = context.parent / "auth", context.parent / "Linked"
    for link, to in ((auth, "auth-target"), (other, context.name + "/Dockerfile")):
        link.unlink(missing_ok=True)
        link.symlink_to(to)
    dockerfile(context, "RUN python3 -c 'import signal;signal.pause()'")
    p = build_at_a_terminal(node, context, "--authfile", auth, "--file", other)
    wait_for("the step", lambda: sleeps() or p.poll() is not None, 60)
    assert p.poll() is None, p.communicate()[1]
    found = subprocess.run(["grep", "-rl", "--exclude=root.tar", secret, *[f"/var/tmp/{d}" for d in left_behind()]], capture_output=True, text=True).stdout
    assert found == "", "the credentials are on disk"
    p.send_signal(how)
    out, said = p.communicate(timeout=60)
    os.close(p.terminal)
    wait_for("the step to end", lambda: not sleeps(), 10)
    if how != signal.SIGKILL:
        assert p.returncode != 0 and "interrupted" in said, said
    else:
        for d in left_behind():
            shutil.rmtree(f"/var/tmp/{d}")
        for s in node.call("GET", "/v1/sandboxes?state=live")["sandboxes"]:
            node.delete(s["id"])
        for i in node.call("GET", "/v1/images")["images"]:
            if i["name"].startswith("cay-build-network"):
                node.call("DELETE", f"/v1/images/{i['id']}")
    nothing_is_left(node)


def test_two_builds_at_a_time(node, context, tmp_path):
    """Each has an image of its own: none removes that of the other."""
    (context / "root.tar").unlink()
    (context / "Dockerfile").write_text("FROM scratch\nCOPY try.py /\n")
    ps = [build_at_a_terminal(node, context) for _ in range(3)]
    for p in ps:
        out, said = p.communicate(timeout=120)
        os.close(p.terminal)
        assert p.returncode == 0 and "cannot remove" not in said, said
    nothing_is_left(node)
