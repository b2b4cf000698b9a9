# SPDX-License-Identifier: Apache-2.0
"""Images of all kinds run: without a shell, a passwd, a directory, a libc of ours."""
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "attack/images"))
import cay  # noqa: E402
import oci  # noqa: E402

BUSYBOX = pathlib.Path("/bin/busybox")
HELLO = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char cwd[4096];
	const char *say = getenv("SAY");

	printf("%d %d %s %s %d", (int)getuid(), (int)getgid(), getcwd(cwd, sizeof(cwd)), say ? say : "-", argc);
	for (int i = 1; i < argc; i++)
		printf(" %s", argv[i]);
	printf("\n");
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "write") == 0) {
		FILE *f = fopen("/tmp/x", "w");

		return f ? 0 : 1;
	}
	return argc > 1 && strcmp(argv[1], "fail") == 0 ? 3 : 0;
}
"""


@pytest.fixture(scope="module")
def hello(tmp_path_factory):
    """One static program, which says who and where it is."""
    at = tmp_path_factory.mktemp("hello")
    (at / "hello.c").write_text(HELLO)
    subprocess.run(["gcc", "-O1", "-static", "-o", at / "hello", at / "hello.c"], check=True)
    return (at / "hello").read_bytes()


def one(data, name="hello"):
    return oci.tar(oci.file(name, data, mode=0o755))


def alpine():
    """As Alpine is: busybox, links to it, musl's name for a loader, no bash."""
    links = b"".join(oci.symlink(f"bin/{n}", "/bin/busybox") for n in ("sh", "ls", "cat", "id", "echo", "env", "pwd", "stat"))
    return oci.tar(oci.directory("bin"), oci.file("bin/busybox", BUSYBOX.read_bytes(), mode=0o755), links,
                   oci.directory("lib"), oci.symlink("lib/ld-musl-x86_64.so.1", "libc.so"), oci.directory("etc"),
                   oci.file("etc/alpine-release", "3.22.0\n"),
                   oci.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nguest:x:405:100:guest:/dev/null:/sbin/nologin\n"),
                   oci.file("etc/group", "root:x:0:root\nusers:x:100:\n"), oci.directory("root", mode=0o700))


# name: form of the image, what the program must say ("uid gid cwd SAY argc")
ROWS = {
    "distroless": (lambda h: oci.image(one(h)), "0 0 / - 1"),
    "distroless-docker": (lambda h: oci.docker(one(h)), "0 0 / - 1"),
    "distroless-docker-blobs": (lambda h: oci.docker(one(h), blobs=True), "0 0 / - 1"),
    "distroless-tree": (one, "0 0 / - 1"),
    "distroless-tree-gzip": (lambda h: oci.gz(one(h)), "0 0 / - 1"),
    "two-layers-gzip": (lambda h: oci.image(oci.Layer(oci.tar(oci.directory("opt")), oci.GZIP), oci.Layer(one(h), oci.GZIP)), "0 0 / - 1"),
    "user-number": (lambda h: oci.image(one(h), config={"User": "4711"}), "4711 4711 / - 1"),
    "user-pair": (lambda h: oci.docker(one(h), config={"User": "65534:7"}), "65534 7 / - 1"),
    "workdir-absent": (lambda h: oci.image(one(h), config={"WorkingDir": "/srv/app/deep"}), "0 0 /srv/app/deep - 1"),
    "workdir-absent-user": (lambda h: oci.image(one(h), config={"WorkingDir": "/srv/app", "User": "12"}), "12 12 /srv/app - 1"),
    "env": (lambda h: oci.image(one(h), config={"Env": ["SAY=a b"]}), "0 0 / a b 1"),
}


@pytest.mark.parametrize("runtime", ("crun", "runc"))
@pytest.mark.parametrize("name", ROWS)
def test_it_runs(daemon, hello, name, runtime):
    make, want = ROWS[name]
    daemon.image_import(name, make(hello))
    box = daemon.create(name, runtime=runtime)
    done = daemon.exec(box, ["/hello"])
    assert (done.exit_code, done.text) == (0, want + "\n")
    assert daemon.exec(box, ["/hello", "write"]).exit_code == 0 or "user" in name
    with pytest.raises(cay.ApiError) as e:  # no shell, and it is said
        daemon.exec(box, ["sh"])
    assert e.value.status == 400 and "cannot execute" in str(e.value)
    assert daemon.exec(box, ["/hello"]).exit_code == 0
    daemon.delete(box)


@pytest.mark.parametrize("runtime", ("crun", "runc"))
def test_one_like_alpine(daemon, runtime):
    daemon.image_import("alpine", oci.docker(alpine(), config={"Cmd": ["/bin/sh"], "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]}))
    box = daemon.create("alpine", runtime=runtime)
    assert daemon.exec(box, ["sh", "-c", "cat /etc/alpine-release; pwd; id -un"]).text == "3.22.0\n/\nroot\n"
    assert daemon.exec(box, ["id"], user="guest").text.startswith("uid=405(guest) gid=100(users)")
    for path in ("/dev/null", "/proc/self/status", "/tmp", "/sys", "/run"):
        assert daemon.exec(box, ["ls", path]).exit_code == 0, path
    daemon.delete(box)


def test_a_user_it_does_not_know(daemon, hello):
    daemon.image_import("unknown-user", oci.image(one(hello), config={"User": "nobody"}))
    box = daemon.create("unknown-user")
    with pytest.raises(cay.ApiError) as e:
        daemon.exec(box, ["/hello"])
    assert e.value.status == 400 and json.loads(e.value.body)["error"]["field"] == "user"
    assert daemon.exec(box, ["/hello"], user="0").text.startswith("0 0 ")  # it can still be used
    daemon.delete(box)


def wrote(daemon, box, what):
    cay.wait_for("its exec", lambda: "entry" in daemon.get(box), 30)
    entry = daemon.get(box)["entry"]
    cay.wait_for("its output", lambda: daemon.exec_output(box, entry).decode() == what, 30)


def ended(daemon, box):
    cay.wait_for("its end", lambda: daemon.get(box)["state"] in ("terminated", "failed"), 20)
    return daemon.get(box)


@pytest.mark.parametrize("config,says,state", (
    ({"Entrypoint": ["/hello", "a"], "Cmd": ["b"]}, "0 0 / - 3 a b\n", "terminated"),
    ({"Cmd": ["/hello"]}, "0 0 / - 1\n", "terminated"),
    ({"Entrypoint": ["/hello", "fail"]}, "0 0 / - 2 fail\n", "failed"),
))
def test_the_images_own_program(daemon, hello, config, says, state):
    daemon.image_import("own-program", oci.image(one(hello), config=config))
    box = daemon.create("own-program", image_entrypoint=True)
    wrote(daemon, box, says)
    daemon.delete(box)
    box = daemon.create("own-program", image_entrypoint=True, on_exit="end")
    assert ended(daemon, box)["state"] == state


def test_no_program_of_its_own(daemon, hello):
    daemon.image_import("no-program", oci.image(one(hello)))
    for fields in ({}, {"entrypoint": ["/hello"]}):
        with pytest.raises(cay.ApiError) as e:
            daemon.create("no-program", image_entrypoint=True, **fields)
        assert e.value.status == 400 and json.loads(e.value.body)["error"]["field"] == "image_entrypoint"


def test_what_a_restart_keeps(own, hello):
    own.image_import("kept", oci.docker(one(hello), config={"Entrypoint": ["/hello", "kept"]}))
    own.kill_daemon("cayd")
    own.start_cayd()
    box = own.create("kept", image_entrypoint=True)
    wrote(own, box, "0 0 / - 2 kept\n")
    own.delete(box)
