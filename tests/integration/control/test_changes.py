# SPDX-License-Identifier: Apache-2.0
"""What a sandbox changed: rows and layers, against an application of layers of our own and what `find` says inside."""
import base64
import concurrent.futures
import contextlib
import hashlib
import io
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tarfile
import time

import cay
import pytest
from cay import ApiError, wait_for
from conftest import tiny
from test_control import refused
from test_life import clean, linked
from test_quota import new_tenant
from test_snapshot import drop, gone, listed, snapshot
from test_stop import TREE, act, own_image
from test_sweep import PACK_POINTS
from test_tenants import asks

ALL = r'''for f; do printf '%s\0' "$f"; busybox stat -c '%f %u %g %h' "$f"
if [ -L "$f" ]; then busybox readlink "$f"; elif [ -f "$f" ]; then busybox sha256sum <"$f"; fi; printf '\0'; done'''
MORE = TREE + r"""
chmod 4755 d/run; mkdir -p d/x/y/z; echo deep >d/x/y/z/f; mkfifo d/fifo 2>/dev/null || busybox mkfifo d/fifo
printf 'x' >"d/new
line"; printf 'y' >"$(printf 'd/b\377d')"; chmod 700 /etc; mkdir d/gone2; rmdir d/gone2
echo hello >.profile; mv /etc/passwd /etc/passwd.old; cp /etc/passwd.old /etc/passwd; rm /bin/yes; chown 7:65535 d/e; : >d/empty
busybox truncate -s 3000000 d/hole
"""


def tree(c, box):
    """Every path on its root file system: type and mode, owner, number of names, content."""
    done = c.exec(box, ["busybox", "find", "/", "-xdev", "-exec", "sh", "-c", ALL, "sh", "{}", "+"], user="root")
    assert done.exit_code == 0, done
    words = done.stdout.split(b"\0")[:-1]
    mounts = {line.split()[4] for line in c.exec(box, ["cat", "/proc/self/mountinfo"]).stdout.split(b"\n") if line} - {b"/"}
    found = {}
    for path, said in zip(words[::2], words[1::2], strict=True):
        if path not in mounts:
            mode, uid, gid, names, *data = said.decode(errors="surrogateescape").split(maxsplit=4)
            found[path] = [int(mode, 16), int(uid), int(gid), int(names) if stat.S_ISREG(int(mode, 16)) else 0, data[0].split()[0] if data else ""]
    return found


def raw(name):
    return ("/" + name.strip("/")).encode(errors="surrogateescape")


def applied(below, data):
    """The files of an image with a layer over them, by the words of the OCI image specification."""
    now, added = {path: list(row) for path, row in below.items()}, {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = [(raw(m.name if m.name != "." else ""), m) for m in tar.getmembers()]
        for path, m in members:  # whiteouts hide what is below, wherever they stand in the archive
            at, base = path.rsplit(b"/", 1)
            if base == b".wh..wh..opq":
                now = {p: row for p, row in now.items() if not p.startswith(at + b"/")}
            elif base.startswith(b".wh."):
                name = at + b"/" + base[4:]
                now = {p: row for p, row in now.items() if p != name and not p.startswith(name + b"/")}
        for path, m in members:
            if path.rsplit(b"/", 1)[1].startswith(b".wh."):
                assert m.isreg() and m.size == 0
                continue
            kind = {tarfile.REGTYPE: stat.S_IFREG, tarfile.DIRTYPE: stat.S_IFDIR, tarfile.SYMTYPE: stat.S_IFLNK, tarfile.FIFOTYPE: stat.S_IFIFO}
            if m.islnk():
                row = added[raw(m.linkname)]
                row[3] += 1
            else:
                text = m.linkname if m.issym() else hashlib.sha256(tar.extractfile(m).read()).hexdigest() if m.isreg() else ""
                row = [kind[m.type] | (0o777 if m.issym() else m.mode), m.uid, m.gid, int(m.isreg()), text]
            if not m.isdir():
                now = {p: r for p, r in now.items() if not p.startswith(path + b"/")}
            now[path] = added[path] = row
    return now


def changes(c, box, limit=10000, cursor=None, since=None):
    return c.call("GET", f"/v1/sandboxes/{box}/changes?limit={limit}" + (f"&cursor={cursor}" if cursor else "") + (f"&since={since}" if since else ""), timeout_s=120)


def rows(c, box, since=None):
    said = changes(c, box, since=since)
    assert not said["truncated"] and not said["skipped"] and "next_cursor" not in said
    return {row["path"].encode() if "path" in row else base64.b64decode(row["path_b64"]): row for row in said["changes"]}


def tar_of(c, what, timeout_s=120):
    reply = c.open("GET", what, timeout_s=timeout_s)
    data = reply.read()
    if reply.status != 200:
        raise ApiError(reply.status, data)
    assert reply.headers["Content-Type"] == "application/x-tar" and len(data) == int(reply.headers["Content-Length"])
    return data


def layer_of(c, box):
    return tar_of(c, f"/v1/sandboxes/{box}/layer")


def top(paths):
    """Without what is in another of them."""
    return {p for p in paths if not any(p.startswith(o + b"/") for o in paths)}


def assert_rows(said, before, after):
    kinds = {kind: {p for p, row in said.items() if row["kind"] == kind} for kind in ("added", "modified", "deleted")}
    assert kinds["added"] == after.keys() - before.keys()
    files = {p for p, row in after.items() if not stat.S_ISDIR(row[0])}  # what was in such a one is gone with it
    assert kinds["deleted"] == {p for p in top(before.keys() - after.keys()) if not any(p.startswith(o + b"/") for o in files)}
    differs = {p for p in before.keys() & after.keys() if before[p] != after[p]}
    assert differs - {b"/"} <= kinds["modified"], differs - kinds["modified"]
    for path in kinds["added"] | kinds["modified"]:
        mode = after[path][0]
        assert said[path]["mode"] == f"{mode & 0o7777:04o}"
        assert said[path]["type"] == {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo"}[stat.S_IFMT(mode)]
    return kinds


@pytest.mark.parametrize("state", ["running", "paused", "stopped"])
def test_rows_and_layer_say_what_find_says(daemon, state):
    own_image(daemon)
    box = daemon.create("files")
    before = tree(daemon, box)
    assert daemon.exec(box, ["sh", "-c", MORE], user="root").exit_code == 0
    after = tree(daemon, box)
    if state != "running":
        act(daemon, box, {"paused": "pause", "stopped": "stop"}[state])
    said, data = rows(daemon, box), layer_of(daemon, box)
    assert applied(before, data) == after
    kinds = assert_rows(said, before, after)
    assert {b"/workspace/d/new\nline", b"/workspace/d/b\xffd", b"/tmp/t/x", b"/gone/new"} <= kinds["added"]
    assert {b"/etc", b"/etc/passwd"} <= kinds["modified"] and kinds["deleted"] == {b"/etc/group", b"/gone/old", b"/bin/yes"}
    assert said[b"/workspace/d/hole"]["size_bytes"] == 3000000 and "mode" not in said[b"/bin/yes"]
    sn = snapshot(daemon, box)["id"]
    whole = tar_of(daemon, f"/v1/snapshots/{sn}/layer")
    assert applied(before, whole) == after and daemon.get(box)["state"] == state
    drop(daemon, sn)
    daemon.delete(box)


def test_over_several_layers(daemon):
    """Below is all that the sandbox was created from."""
    own_image(daemon)
    box = daemon.create("files")
    daemon.exec(box, ["sh", "-c", TREE], user="root")
    one = snapshot(daemon, box)["id"]
    two = daemon.create(None, snapshot=one)
    assert not {p for p in rows(daemon, two) if p.startswith(b"/workspace")}
    before = tree(daemon, two)
    assert daemon.exec(two, ["sh", "-c", "cd /workspace; rm d/run; echo 2 >d/e/numbers; rm -r /gone; mkdir /gone; echo x >/gone/new; echo y >/gone/newer; rm /bin/yes; rm -r /tmp/t; echo z >/tmp/t"], user="root").exit_code == 0
    after, said = tree(daemon, two), rows(daemon, two)
    kinds = assert_rows(said, before, after)
    assert {b"/bin/yes", b"/workspace/d/run"} <= kinds["deleted"] and b"/gone/newer" in kinds["added"] and {b"/gone/new", b"/workspace/d/e/numbers", b"/tmp/t"} <= kinds["modified"]
    assert applied(before, layer_of(daemon, two)) == after
    sn = snapshot(daemon, two)["id"]
    assert applied(before, tar_of(daemon, f"/v1/snapshots/{sn}/layer")) == after
    for made in (sn, one):
        drop(daemon, made)
    for made in (box, two):
        daemon.delete(made)


def test_pages_are_the_whole(daemon, box):
    daemon.exec(box, ["sh", "-c", "for i in $(seq 300); do : >f$i; mkdir d$i; echo >d$i/x; done"])
    whole = [row["path"] for row in changes(daemon, box)["changes"]]
    assert whole == sorted(whole) and len(whole) >= 900
    for limit in (1, 7, 450):
        found, cursor = [], None
        while limit > 1 or len(found) < 5:
            page = changes(daemon, box, limit, cursor)
            assert len(page["changes"]) <= limit
            found += [row["path"] for row in page["changes"]]
            cursor = page.get("next_cursor")
            if not cursor:
                break
        assert found == whole[:len(found)] and (len(found) == len(whole) or limit == 1)
    for cursor in ("x", "AAAA", "Zm9v", "!", "L" * 5464):
        refused("invalid_argument", changes, daemon, box, 5, cursor)


def test_a_page_ends_where_it_is_large(daemon, box):
    """Names of 4,000 bytes: pages of few rows, and none is lost."""
    daemon.exec(box, ["sh", "-c", "n=$(seq -s '' 80 | head -c 150); cd /workspace; for a in $(seq 24); do mkdir $n; cd $n; done; for i in $(seq 200); do : >$i; done"])
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = changes(daemon, box, 10000, cursor)
        found += [row["path"] for row in page["changes"]]
        cursor, pages = page.get("next_cursor"), pages + 1
    assert pages > 2 and len(found) == len(set(found)) and sum(p.count("/") == 26 for p in found) == 200


def program(tmp_path, name, text):
    source = tmp_path / f"{name}.c"
    source.write_text(text)
    subprocess.run(["cc", "-static", "-O2", "-D_GNU_SOURCE", "-o", tmp_path / name, source], check=True)
    return (tmp_path / name).read_bytes()


HOSTILE = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>
int main(void)
{
	struct sockaddr_un at = { AF_UNIX, "socket" };
	/* none of these is given to it; the user's attribute is */
	printf("%d", mknod("zero", S_IFCHR, makedev(0, 0)));
	printf("%d", mknod("null", S_IFCHR | 0666, makedev(1, 3)));
	printf("%d", setxattr(".", "trusted.overlay.opaque", "y", 1, 0));
	printf("%d", setxattr(".", "trusted.overlay.redirect", "/etc", 4, 0));
	printf("%d\n", setxattr(".", "user.note", "canary-of-an-attribute", 22, 0));
	bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&at, sizeof(at));
	for (int i = 0; i < 3000; i++)
		if (mkdir("d", 0755) || chdir("d"))
			return 1;
	return 0;
}
"""


def test_a_hostile_tree(daemon, tmp_path):
    daemon.image_import("hostile", tiny([cay.file("bin/hostile", program(tmp_path, "hostile", HOSTILE), 0o755), cay.file("etc/keep", b"kept")]))
    box = daemon.create("hostile")
    sn = snapshot(daemon, box)["id"]
    done = daemon.exec(box, ["sh", "-c", "mkdir h; cd h; hostile; cd /workspace; : >.wh.passwd; : >.wh..wh..opq; mkdir .wh.etc; echo x >.wh.etc/x"], user="root")
    assert done.text.strip() in ("-1-1-1-10", "-1-1-1-1-1"), done
    said = changes(daemon, box)
    assert said["skipped"] == 1 and {"/workspace/.wh.passwd", "/workspace/h/socket"} <= {row["path"] for row in said["changes"]}
    late = changes(daemon, box, since=sn)  # the snapshot has none of it
    assert late["skipped"] == 1 and {"/workspace/.wh.passwd", "/workspace/h/socket"} <= {row["path"] for row in late["changes"]}
    began = time.monotonic()
    data = layer_of(daemon, box)
    assert time.monotonic() - began < 20
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
    assert not [m.name for m in members if os.path.basename(m.name).startswith(".wh.") or ".wh." in m.name]
    assert all(m.type in (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE) for m in members)
    assert not [m.name for m in members if any("xattr" in key.lower() for key in m.pax_headers)] and b"canary-of-an-attribute" not in data and b"trusted." not in data
    # names of whiteouts (3), a socket, directories that are too deep
    assert members[-1].pax_headers["comment"] == "skipped=5 changed=0" and max(m.name.count("/") for m in members) < 256
    daemon.exec(box, ["sh", "-c", "busybox truncate -s 1099511627776 sparse"])
    assert next(row for row in changes(daemon, box)["changes"] if row["path"] == "/workspace/sparse")["size_bytes"] == 1 << 40
    with pytest.raises(ApiError) as e:
        layer_of(daemon, box)
    assert e.value.code in ("too_large", "disk_full")
    daemon.exec(box, ["rm", "sparse"])
    layer_of(daemon, box)
    nothing_open(daemon)
    drop(daemon, sn)
    daemon.delete(box)


def test_many_names(daemon, box):
    """A packer has the memory of one name at a time, and a page that of a page."""
    assert daemon.exec(box, ["sh", "-c", "mkdir n; cd n; seq 100000 | busybox xargs -n 5000 touch; cd ..; mkdir m; cd m; seq 2000 | busybox xargs mkdir"]).exit_code == 0
    most, cayd = 0, pathlib.Path(f"/proc/{daemon.daemons['cayd'].pid}/status")
    before = int(cayd.read_text().split("RssAnon:")[1].split()[0])
    with concurrent.futures.ThreadPoolExecutor() as pool:
        began = time.monotonic()
        asked = pool.submit(changes, daemon, box, 100)
        while not asked.done():
            for pid in packers():
                with contextlib.suppress(OSError, IndexError):
                    most = max(most, int(pathlib.Path(f"/proc/{pid}/status").read_text().split("RssAnon:")[1].split()[0]))
        listed = time.monotonic() - began
    page = asked.result()
    assert len(page["changes"]) == 100 and page["next_cursor"] and not page["truncated"]
    began = time.monotonic()
    data = layer_of(daemon, box)
    print(f"102,000 names: {listed:.2f} s to list, {time.monotonic() - began:.2f} s and {len(data) >> 20} MiB as a layer, packer {most} KiB, cayd grew {int(cayd.read_text().split('RssAnon:')[1].split()[0]) - before} KiB")
    assert most < (16 << 10) * cay.SLOW and listed < 10 * cay.SLOW


def unnamed(c):
    """Files without a name that cayd has open."""
    pid, found = c.daemons["cayd"].pid, []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        found += [name] if "/tmp/#" in name and "(deleted)" in name else []
    return found


def nothing_open(c):
    """No file without a name is left in cayd, and no packer in the keeper."""
    wait_for("files to be closed", lambda: not unnamed(c), 20)
    wait_for("packers to end", lambda: not packers(), 20)


def packers():
    """Processes whose root is a layer."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            if "Name:\tcay-keeper" in status and "\nSeccomp:\t2" in status and "NStgid:" in status and status.split("NStgid:")[1].split("\n")[0].endswith("\t1"):
                found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


STORM = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char name[64], other[64];
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		snprintf(other, sizeof(other), "l%d", i);
		mkdir(name, 0755);
		snprintf(name, sizeof(name), "d%d/canary", i);
		close(open(name, O_CREAT | O_WRONLY, 0644));
		symlink(argv[1], other);
	}
	for (unsigned n = 0;; n++) {
		snprintf(name, sizeof(name), "d%u", n % 40);
		snprintf(other, sizeof(other), "l%u", n % 40);
		renameat2(AT_FDCWD, name, AT_FDCWD, other, RENAME_EXCHANGE);
	}
}
"""


def test_a_storm_of_exchanges_reads_nothing_else(own, tmp_path):
    """Directories and links to a directory of the host with a canary change places while they are read."""
    where = pathlib.Path(own.state).parent / "canaries"
    where.mkdir()
    (where / "canary").write_bytes(b"canary-of-the-host" * 100)
    own.image_import("storm", tiny([cay.file("bin/storm", program(tmp_path, "storm", STORM), 0o755)]))
    box = own.create("storm")
    for target in (where, "/proc/1/root", "../../../../../../../../.."):
        own.exec(box, ["mkdir", "-p", hashlib.sha256(str(target).encode()).hexdigest()[:8]])
        own.exec_detached(box, ["sh", "-c", f"cd {hashlib.sha256(str(target).encode()).hexdigest()[:8]}; exec storm {target}"])
    for _ in range(25):
        data = layer_of(own, box)
        assert b"canary-of-the-host" not in data
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            assert all(m.size == 0 for m in tar.getmembers() if m.name.endswith("/canary"))
        assert len(changes(own, box)["changes"]) > 100
    own.delete(box)
    clean(own)
    shutil.rmtree(where)


def test_files_that_change_are_padded_and_counted(daemon, box):
    daemon.exec(box, ["sh", "-c", "dd if=/dev/urandom of=big bs=1M count=32 2>/dev/null"])
    daemon.exec_detached(box, ["sh", "-c", "while :; do busybox truncate -s 1000 big; busybox truncate -s 33554432 big; done"])
    for _ in range(10):
        with tarfile.open(fileobj=io.BytesIO(layer_of(daemon, box))) as tar:
            assert {m.name for m in tar.getmembers()} >= {"workspace/big"}


def test_who_may(daemon, box):
    daemon.exec(box, ["sh", "-c", "echo mine >secret-name"])
    sn = snapshot(daemon, box)["id"]
    paths = [f"/v1/sandboxes/{box}/changes", f"/v1/sandboxes/{box}/layer", f"/v1/snapshots/{sn}/layer"]

    def said(who):
        found = []
        for path in paths:
            reply = who.open("GET", path)
            reply.read()
            found.append(reply.status)
        return found
    assert said(daemon) == [200] * 3
    _, other = new_tenant(daemon)
    absent = [path.replace(box, "sb" + "0" * 23 + "1").replace(sn, "sn" + "0" * 23 + "1") for path in paths]
    for path, none in zip(paths, absent, strict=True):
        foreign, no = (refused("not_found", other.call, "GET", p) for p in (path, none))
        assert {**foreign, "request_id": 0} == {**no, "request_id": 0}
    assert said(asks(daemon, "read")) == [200] * 3
    assert said(asks(daemon, "read", sandbox=box)) == [200, 200, 403]
    second = daemon.create("tiny")
    assert said(asks(daemon, "read", sandbox=second)) == [403, 403, 403]
    daemon.delete(second)
    drop(daemon, sn)
    assert daemon.open("GET", paths[2]).status == 404


def test_states_and_storage(daemon):
    in_memory = daemon.create("tiny", storage="memory")
    for what in ("changes", "layer"):
        refused("unsupported", daemon.call, "GET", f"/v1/sandboxes/{in_memory}/{what}")
    daemon.delete(in_memory)
    for what in ("changes", "layer"):
        refused("wrong_state", daemon.call, "GET", f"/v1/sandboxes/{in_memory}/{what}")


def test_a_packer_has_next_to_nothing(own):
    """One right over its own ids, a read-only root of its own and three files."""
    box = own.create("tiny")
    assert own.exec(box, ["sh", "-c", "mkdir d; cd d; dd if=/dev/urandom of=0 bs=1M count=8 2>/dev/null; i=0; while [ $i -lt 60 ]; do i=$((i+1)); cp 0 $i; done"]).exit_code == 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(layer_of, own, box)
        wait_for("the packer", lambda: packers() or asked.done(), 30)
        at = pathlib.Path(f"/proc/{packers()[0]}")
        status = dict(line.split(":\t", 1) for line in (at / "status").read_text().splitlines() if ":\t" in line)
        mounts, ids, fds = (at / "mountinfo").read_text().splitlines(), (at / "uid_map").read_text().split(), os.listdir(at / "fd")
        inside = os.stat(at / "root"), os.stat(own.state / "boxes" / box / "disk" / "upper")
        asked.result()
    assert [value for name, value in sorted(status.items()) if name.startswith("Cap")] == ["0" * 16, "0" * 15 + "4", "0" * 15 + "4", "0" * 16, "0" * 15 + "4"]  # ambient, bounding, effective, inheritable, permitted
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and ids == ["0", str(0x7FFE0000), "65536"]
    assert len(mounts) == 1 and {"ro", "nosuid", "nodev", "noexec"} <= set(mounts[0].split()[5].split(","))
    assert len(fds) < 16 and inside[0].st_ino == inside[1].st_ino
    own.delete(box)


@pytest.mark.parametrize("who", ["packer", "worker", "cay-keeper", "cayd"])
def test_one_dies_in_the_middle(own, who):
    box = own.create("tiny")
    assert own.exec(box, ["sh", "-c", "mkdir d; cd d; dd if=/dev/urandom of=0 bs=1M count=8 2>/dev/null; i=0; while [ $i -lt 60 ]; do i=$((i+1)); cp 0 $i; done"]).exit_code == 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(layer_of, own, box)
        wait_for("the packer", lambda: packers() or asked.done(), 30)
        pids = packers()
        assert pids, asked.result()
        if who in ("cayd", "cay-keeper"):
            own.kill_daemon(who)
        else:
            parent = int(pathlib.Path(f"/proc/{pids[0]}/stat").read_text().rsplit(")", 1)[1].split()[1])
            os.kill(pids[0] if who == "packer" else parent, signal.SIGKILL)
        try:
            data = asked.result()
            assert who == "cay-keeper" and len(data) > 60 * 8 << 20
        except (OSError, ApiError, cay.http.client.HTTPException):
            pass
    if who == "cay-keeper":
        own.start_keeper()
    if who == "cayd":
        own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    nothing_open(own)
    assert len(layer_of(own, box)) > 60 * 8 << 20 and own.get(box)["state"] == "running"
    nothing_open(own)
    own.delete(box)
    gone(own)
    clean(own)


POINTS = {"cay-keeper": "pack:opened", "cayd": "pack:written"}


@pytest.mark.parametrize("how", ["kill", "error"])
@pytest.mark.parametrize("program", POINTS)
def test_cut_off_at_a_failpoint(own, program, how):
    assert set(POINTS.values()) == set(PACK_POINTS)
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo here >me"])
    own.kill_daemon(program)
    own.env["CAY_FAULT"] = f"{POINTS[program]}={how}"
    own.start_keeper() if program == "cay-keeper" else own.start_cayd()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    with pytest.raises((OSError, ApiError, cay.http.client.HTTPException)):
        layer_of(own, box)
    if own.daemons[program].poll() is None:
        nothing_open(own)
        own.kill_daemon(program)
    own.start_keeper() if program == "cay-keeper" else own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    with tarfile.open(fileobj=io.BytesIO(layer_of(own, box))) as tar:
        assert tar.extractfile("workspace/me").read() == b"here\n"
    own.delete(box)
    gone(own)
    clean(own)


def test_a_client_that_reads_slowly_holds_no_worker(own):
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "dd if=/dev/urandom of=big bs=1M count=24 2>/dev/null"])
    token = asks(own, "read", sandbox=box)
    first, second = (token.open("GET", f"/v1/sandboxes/{box}/layer", timeout_s=120) for _ in range(2))
    assert (first.status, second.status) == (200, 429) and second.read()
    first.close()
    nothing_open(own)
    slow = []
    while len(slow) < 20:
        reply = own.open("GET", f"/v1/sandboxes/{box}/layer", timeout_s=120)
        slow.append(reply)
        if reply.status != 200:
            break
    assert slow[-1].status == 429 and slow.pop().read() and len(slow) == 8 == len(unnamed(own))
    drop(own, snapshot(own, box)["id"])  # which needs a worker of the same kind
    whole = slow[0].read()
    assert len(whole) == int(slow[0].headers["Content-Length"]) > 24 << 20
    for reply in slow[1:]:
        reply.close()
    nothing_open(own)
    wait_for("places to be free", lambda: served(own, box), 30)
    own.delete(box)
    gone(own)


def served(c, box):
    reply = c.open("GET", f"/v1/sandboxes/{box}/layer", timeout_s=120)
    return reply.read() and reply.status == 200


@pytest.mark.parametrize("how", ["deleted", "rolled back"])
def test_it_is_not_told_as_whole_when_it_is_removed_meanwhile(own, how):
    box = own.create("tiny")
    empty = snapshot(own, box)["id"]
    assert own.exec(box, ["sh", "-c", "mkdir d; cd d; dd if=/dev/urandom of=0 bs=1M count=8 2>/dev/null; i=0; while [ $i -lt 60 ]; do i=$((i+1)); cp 0 $i; done"]).exit_code == 0
    sn = snapshot(own, box)["id"]
    if how == "deleted":
        own.delete(box)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(tar_of, own, f"/v1/snapshots/{sn}/layer" if how == "deleted" else f"/v1/sandboxes/{box}/layer")
        wait_for("the packer", lambda: packers() or asked.done(), 30)
        if how == "deleted":
            drop(own, sn)
        else:
            packer = packers()[0]
            os.kill(packer, signal.SIGSTOP)  # it goes on when the sandbox runs again
            assert own.call("POST", f"/v1/sandboxes/{box}/rollback", {"snapshot": empty}, timeout_s=60)["state"] == "running"
            os.kill(packer, signal.SIGCONT)
        with pytest.raises(ApiError) as e:
            asked.result()
    assert e.value.code == ("not_found" if how == "deleted" else "unavailable")
    nothing_open(own)
    for s in listed(own):
        drop(own, s["id"])
    if how != "deleted":
        own.delete(box)
    gone(own)


def test_the_command(own, tmp_path):
    def cay_run(*words, status=0, text=True):
        done = subprocess.run([str(own.programs["cay"]), *words], env={**os.environ, "CAY_SOCKET": own.socket}, stdin=subprocess.DEVNULL, capture_output=True, text=text, check=False)
        assert done.returncode == status, done
        return done.stdout
    box = own.create("tiny", name="mine")
    own.exec(box, ["sh", "-c", "echo x >note; rm /bin/yes"], user="root")
    lines = [line.split() for line in cay_run("diff", "mine").splitlines()]
    assert lines[0] == ["CHANGE", "TYPE", "SIZE", "PATH"]
    assert ["added", "file", "2", "B", "/workspace/note"] in lines and ["deleted", "symlink", "-", "/bin/yes"] in lines
    assert '"kind":"deleted"' in cay_run("diff", "--json", "mine")
    cay_run("diff", "--tar", str(tmp_path / "layer.tar"), "mine")
    with tarfile.open(tmp_path / "layer.tar") as tar:
        assert {"workspace/note", "bin/.wh.yes"} <= set(tar.getnames())
    assert cay_run("diff", "--tar", "-", "mine", text=False) == (tmp_path / "layer.tar").read_bytes()
    cay_run("snapshot", "create", "--name", "kept", "mine")
    cay_run("snapshot", "export", "kept", str(tmp_path / "kept.tar"))
    with tarfile.open(tmp_path / "kept.tar") as tar:
        assert {"workspace/note", "bin/.wh.yes"} <= set(tar.getnames())
    assert not list(tmp_path.glob("*.part"))
    cay_run("snapshot", "rm", "kept")
    own.delete(box)


def with_layer(image, data):
    """An OCI layout with one more layer on top."""
    with tarfile.open(fileobj=io.BytesIO(image)) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers() if m.isreg()}

    def blob(content):
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}
    index = json.loads(files["index.json"])
    manifest = json.loads(files["blobs/sha256/" + index["manifests"][0]["digest"][7:]])
    config = json.loads(files["blobs/sha256/" + manifest["config"]["digest"][7:]])
    manifest["layers"].append({**manifest["layers"][0], **blob(data)})
    config["rootfs"]["diff_ids"].append(manifest["layers"][-1]["digest"])
    manifest["config"].update(blob(json.dumps(config).encode()))
    index["manifests"][0].update(blob(json.dumps(manifest).encode()))
    files["index.json"] = json.dumps(index).encode()
    return cay.layer([cay.directory("blobs"), cay.directory("blobs/sha256"), *(cay.file(n, d) for n, d in files.items())])


def test_the_layer_is_a_layer(own):
    """An image of the base with the layer over it has the files."""
    own_image(own)
    box = own.create("files")
    own.exec(box, ["sh", "-c", MORE.replace("mkfifo d/fifo 2>/dev/null || busybox mkfifo d/fifo", "")], user="root")
    after, data = tree(own, box), layer_of(own, box)
    own.image_import("again", with_layer(tiny([cay.directory("gone"), cay.file("gone/old", b"old")]), data))
    again = own.create("again")
    assert tree(own, again) == after
    for made in (box, again):
        own.delete(made)


def described(files, descriptor):
    """A blob that is as long and has the digest that its descriptor says."""
    content = files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
    assert len(content) == descriptor["size"] and hashlib.sha256(content).hexdigest() == descriptor["digest"][7:]
    return content


def test_a_whole_image(own, tmp_path):
    """Image, layer, layer: by the words of the OCI specification, to skopeo, and to Cay itself."""
    own_image(own)
    box = own.create("files")
    own.exec(box, ["sh", "-c", MORE.replace("mkfifo d/fifo 2>/dev/null || busybox mkfifo d/fifo", "")], user="root")
    one = snapshot(own, box)["id"]
    two = own.create(None, snapshot=one)
    assert own.exec(two, ["sh", "-c", "cd /workspace; rm d/link; echo 2 >d/e/numbers; rm -r /gone; mkdir /gone; echo x >/gone/newer; rm -r /tmp/t; echo z >/tmp/t; head -c 40000000 /dev/urandom >large"], user="root").exit_code == 0
    sn, after = snapshot(own, two)["id"], tree(own, two)
    data = tar_of(own, f"/v1/snapshots/{sn}/image")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (top,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(described(files, top))
    config = json.loads(described(files, manifest["config"]))
    below = [described(files, d) for d in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == [d["digest"] for d in manifest["layers"]] and len(below) == 3
    assert below[2] == tar_of(own, f"/v1/snapshots/{sn}/layer") and below[1] == tar_of(own, f"/v1/snapshots/{one}/layer")
    assert "FROM=image" in config["config"]["Env"] and config["config"]["WorkingDir"] == "/workspace"
    path = tmp_path / "image.tar"
    path.write_bytes(data)
    done = subprocess.run(["skopeo", "copy", "--insecure-policy", f"oci-archive:{path}", f"dir:{tmp_path}/dir"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert json.loads((tmp_path / "dir/manifest.json").read_bytes())["layers"] == manifest["layers"]
    own.image_import("again", data)
    again = own.create("again")
    assert tree(own, again) == after
    assert own.exec(again, ["sh", "-c", "echo $FROM; pwd"]).text == "image\n/workspace\n"
    done = subprocess.run([str(own.programs["cay"]), "snapshot", "export", "--oci", sn, str(tmp_path / "by-cay.tar")], env={**os.environ, "CAY_SOCKET": own.socket}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and (tmp_path / "by-cay.tar").read_bytes() == data, done
    nothing_open(own)
    _, other = new_tenant(own)
    refused("not_found", lambda: tar_of(other, f"/v1/snapshots/{sn}/image"))
    for made in (box, two, again):
        own.delete(made)
    for made in (one, sn):
        drop(own, made)


def test_a_whole_image_that_fails_half_way(own):
    """An error at its second layer is the reply, and no file is left open."""
    box = own.create("tiny")
    sn = snapshot(own, box)["id"]
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = "pack:written=error@2"
    own.start_cayd()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    with pytest.raises(ApiError) as e:
        tar_of(own, f"/v1/snapshots/{sn}/image")
    assert e.value.code == "internal"
    nothing_open(own)
    assert tar_of(own, f"/v1/snapshots/{sn}/image")
    own.delete(box)
    drop(own, sn)
    gone(own)


BEFORE = MORE + r"""
echo kept >d/same; mkdir s1 s2; echo forged >d/forged
echo a1 >s1/f; echo a2 >s2/f; busybox touch -d @1000 d/same d/forged s1/f s2/f; ln -s one d/turned; mkdir -p d/hidden/below; echo x >d/hidden/below/x; echo x >d/hidden/x
"""
BETWEEN = r"""cd /workspace; rm -r d/hidden; mkdir -p d/hidden/fresh; echo 1 >d/hidden/fresh/f; rm /bin/uname; echo early >early; mkdir late; echo 1 >late/1; chmod 700 d/e"""
SINCE = r"""cd /workspace; set -e
cp -p d/same d/copy; mv d/copy d/same; echo FORGED >d/forged; busybox touch -d @1000 d/forged
mv s1 s3; mv s2 s1; mv s3 s2; rm d/link; echo 2 >d/e/numbers; rm -r /gone; mkdir /gone; echo x >/gone/newer; rm -r /tmp/t; echo z >/tmp/t
rm -r d/x; mkdir d/x; echo q >d/x/q; mkdir -p n/e/w; echo w >n/e/w/f; rm d/turned; ln -s two d/turned; rm d/empty; mkdir d/empty; : >d/empty/not; mkdir -p d/hidden; echo y >d/hidden/y; mkdir -p d/hidden/below; : >d/hidden/below/z
"""


@pytest.mark.parametrize("how,state", [("its own", "running"), ("its own", "stopped"), ("directly below", "running"), ("several layers below", "running"), ("rolled back", "stopped")])
def test_since_a_snapshot(own, how, state):
    """What `find` says inside before and after; nothing else, and no forged time hides what is."""
    own_image(own)
    box = own.create("files")
    made, boxes = [], [box]
    assert own.exec(box, ["sh", "-c", BEFORE], user="root").exit_code == 0
    made.append(snapshot(own, box)["id"])
    before, of = tree(own, box), box
    if how in ("directly below", "several layers below"):
        boxes.append(of := own.create(None, snapshot=made[0]))
    for i in range(2 if how == "several layers below" else 0):
        assert own.exec(of, ["sh", "-c", BETWEEN if i == 0 else "cd /workspace; rm late/1; echo 2 >late/2; rm early"], user="root").exit_code == 0
        made.append(snapshot(own, of)["id"])
        boxes.append(of := own.create(None, snapshot=made[-1]))
    if how == "rolled back":
        own.exec(box, ["rm", "-r", "/workspace/d"])
        own.call("POST", f"/v1/sandboxes/{box}/rollback", {"snapshot": made[0]}, timeout_s=60)
    assert (how == "several layers below") or not rows(own, of, made[0]), rows(own, of, made[0])
    done = own.exec(of, ["sh", "-c", SINCE], user="root")
    assert done.exit_code == 0, done
    after = tree(own, of)
    if state == "stopped":
        act(own, of, "stop")
    said = rows(own, of, made[0])
    kinds = assert_rows(said, before, after)
    assert {b"/workspace/d/forged", b"/workspace/s1/f", b"/workspace/s2/f", b"/workspace/d/turned", b"/workspace/d/e/numbers"} <= kinds["modified"] and b"/workspace/d/same" not in said
    assert {b"/gone/newer", b"/workspace/d/empty/not", b"/workspace/n/e/w/f"} <= kinds["added"] and b"/workspace/d/x/y" in kinds["deleted"]
    differs = {p for p in before.keys() & after.keys() if before[p] != after[p]}
    assert kinds["modified"] - differs - {b"/workspace/s1/f", b"/workspace/s2/f"} == set(), kinds["modified"] - differs
    found, cursor = [], None
    while not found or cursor:
        page = changes(own, of, 5, cursor, made[0])
        found += page["changes"]
        cursor = page.get("next_cursor")
    assert len(found) == len(said)
    nothing_open(own)
    for name in boxes:
        own.delete(name)
    for sn in made:
        drop(own, sn)


def test_since_what_is_refused(own):
    """A snapshot of another sandbox that is not below it; of another tenant, or gone: as one that never was."""
    one, two = own.create("tiny"), own.create("tiny")
    sn = snapshot(own, one)["id"]
    refused("invalid_argument", lambda: changes(own, two, since=sn))
    of = own.create(None, snapshot=sn)
    assert "changes" in changes(own, of, since=sn)
    later = snapshot(own, of)["id"]
    refused("invalid_argument", lambda: changes(own, one, since=later))
    refused("invalid_argument", lambda: changes(own, one, since="sn1"))
    _, other = new_tenant(own)
    mine = other.create("tiny")
    for absent in (sn, "sn" + "0" * 23 + "1"):
        with pytest.raises(ApiError) as e:
            changes(other, mine, since=absent)
        assert (e.value.status, e.value.code) == (404, "not_found")
    done = subprocess.run([str(own.programs["cay"]), "diff", "--since", sn, one], env={**os.environ, "CAY_SOCKET": own.socket}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.split() == ["CHANGE", "TYPE", "SIZE", "PATH"], done
    drop(own, sn)
    refused("not_found", lambda: changes(own, one, since=sn))
    drop(own, later)
    for c, names in ((own, (one, two, of)), (other, (mine,))):
        for name in names:
            c.delete(name)
