# SPDX-License-Identifier: Apache-2.0
"""`cay template build`: a Dockerfile by buildah, without a network."""
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BUILD, BUSYBOX

CAY = pathlib.Path(BUILD).resolve() / "src/cli/cay"


def cay(c, *words, **env):
    return subprocess.run([CAY, *map(str, words)], env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "CAY_PATHS_RUN": str(c.run), **env},
                          capture_output=True, text=True, timeout=120)


@pytest.fixture
def context(tmp_path):
    shutil.copy(BUSYBOX, tmp_path / "busybox")
    (tmp_path / "f").write_text("hello\n")
    (tmp_path / "Dockerfile").write_text("\n".join([
        "FROM scratch", "ARG WHO=nobody", "ARG HTTP_PROXY", "COPY busybox /bin/busybox", "COPY --chown=1000:1000 f /data/f",
        'RUN ["/bin/busybox", "sh", "-c", "/bin/busybox --install -s /bin; echo $WHO $HTTP_PROXY $SECRET >/made"]',
        "ENV GREETING=hi PATH=/bin", "USER 1000", "WORKDIR /data", ""]))
    return tmp_path


def left():
    return [d for d in os.listdir("/var/tmp") if d.startswith("cay-build-")]


def test_a_dockerfile_becomes_a_template(daemon, context, tmp_path):
    done = cay(daemon, "template", "build", "--build-arg", "WHO=me", "--memory", "64Mi", context, "docked",
               HTTP_PROXY="http://proxy.invalid:3128", SECRET="x")
    assert done.returncode == 0, done.stderr
    assert "COPY busybox" in done.stderr and done.stdout.startswith("tp")
    box = daemon.call("POST", "/v1/sandboxes", {"template": "docked"})
    assert box["limits"]["memory_bytes"] == 64 << 20
    got = daemon.exec(box["id"], ["sh", "-c", "cat /made f; stat -c %u f; id -u; echo $GREETING"]).text
    assert got == "me http://proxy.invalid:3128\nhello\n1000\n1000\nhi\n"
    daemon.delete(box["id"])
    assert left() == []


def test_from_an_archive_and_another_file(daemon, context, tmp_path):
    image = tmp_path / "base.tar"
    assert cay(daemon, "template", "build", context, "base-of").returncode == 0
    store = ["--root", tmp_path / "r", "--runroot", tmp_path / "rr", "--storage-driver", "vfs"]
    conf = tmp_path / "containers.conf"
    conf.write_text(f'[engine]\nhelper_binaries_dir = ["{tmp_path}"]\n')
    (tmp_path / "netavark").symlink_to("/bin/true")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CONTAINERS_CONF": str(conf)}
    (tmp_path / "Small").write_text("FROM scratch\nCOPY busybox /bin/busybox\n")
    for words in (["build", "--isolation", "chroot", "-t", "localhost/x", "-f", tmp_path / "Small", context], ["push", "localhost/x", f"oci-archive:{image}"]):
        subprocess.run(["buildah", *store, *words], env=env, check=True, capture_output=True)
    (tmp_path / "Other").write_text(f"FROM oci-archive:{image}\nCOPY f /g\nENV PATH=/bin\n")
    done = cay(daemon, "template", "build", "-f", tmp_path / "Other", context, "over")
    assert done.returncode == 0, done.stderr
    box = daemon.call("POST", "/v1/sandboxes", {"template": "over"})["id"]
    assert daemon.exec(box, ["busybox", "cat", "/g"]).text == "hello\n"
    daemon.delete(box)


def test_a_failure_is_buildahs_own(daemon, context):
    (context / "Dockerfile").write_text("FROM scratch\nCOPY absent /x\n")
    done = cay(daemon, "template", "build", context, "never")
    assert done.returncode == 5 and "absent" in done.stderr and "buildah failed to build the image" in done.stderr
    assert left() == []
    assert "never" not in cay(daemon, "template", "ls").stdout
