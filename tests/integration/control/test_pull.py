# SPDX-License-Identifier: Apache-2.0
"""Images from a registry: Debian's docker-registry on loopback, pulled by skopeo."""
import base64
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "attack/images"))
import cay  # noqa: E402
import oci  # noqa: E402
import registry as reg  # noqa: E402
from conftest import BUILD, BUSYBOX  # noqa: E402
from test_audit import records  # noqa: E402
from test_full import disk  # noqa: E402, F401
from test_tenants import asks  # noqa: E402

PASSWORD = "correct-horse-7f3a9c"


def tiny(extra=b""):
    return oci.docker(oci.tar(oci.file("bin/busybox", pathlib.Path(BUSYBOX).read_bytes(), mode=0o755),
                              oci.symlink("bin/sh", "busybox"), oci.file("extra", extra)),
                      config={"Cmd": ["/bin/sh", "-c", "echo pulled"], "Env": ["PATH=/bin"]})


def settings(*hosts, pull="create", **more):
    return {"CAY_IMAGES_PULL": pull, "CAY_IMAGES_REGISTRIES": " ".join(hosts), "CAY_IMAGES_INSECURE": " ".join(hosts),
            **{f"CAY_IMAGES_{k.upper()}": v for k, v in more.items()}}


@pytest.fixture(scope="module")
def public():
    with reg.Registry() as r:
        r.push("team/tiny:1", tiny())
        yield r


@pytest.fixture(scope="module")
def private():
    with reg.Registry("robot", PASSWORD) as r:
        r.push("secret/tiny:1", tiny())
        yield r


@pytest.fixture(scope="module")
def puller(public, private):
    with cay.Cay(BUILD, env=settings(public.host, private.host, "127.0.0.1:9")) as c:
        yield c


def refused(call, status, code, *words):
    with pytest.raises(cay.ApiError) as e:
        call()
    assert (e.value.status, e.value.code) == (status, code), e.value
    for w in words:
        assert w in str(e.value)
    return e.value


def pull(c, reference, **fields):
    return c.call("POST", "/v1/images/pull", {"reference": reference, **fields})


def pulls_of(c):
    """Directories of pulls under way."""
    return list((c.state / "pull").iterdir())


def nothing_left(c):
    cay.wait_for("pull/ to be empty", lambda: not pulls_of(c) and not list((c.state / "tmp").iterdir()), 30)
    cay.wait_for("skopeo to end", lambda: not [p for p in processes() if str(c.state) in p], 30)


def processes():
    for p in pathlib.Path("/proc").iterdir():
        if p.name.isdigit():
            try:
                yield (p / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                pass


def test_public(puller, public):
    image = pull(puller, f"{public.host}/team/tiny:1", name="tiny-1")
    assert image["name"] == "tiny-1" and not image["pulled"] and image["digest"].startswith("sha256:")
    box = puller.create("tiny-1")
    assert puller.exec(box, ["sh", "-c", "echo hi"]).text == "hi\n"
    puller.delete(box)
    assert pull(puller, f"{public.host}/team/tiny:1", name="tiny-1")["id"] == image["id"]  # the same again
    nothing_left(puller)


def test_a_short_name_is_completed_by_a_setting(puller, public):
    """As docker does, and only where the operator said of which registry; the image keeps the short name."""
    refused(lambda: pull(puller, "tiny:1"), 400, "invalid_argument", "images.short")
    refused(lambda: puller.create("tiny:1"), 404, "not_found")
    with cay.Cay(BUILD, env=settings(public.host, short=f"{public.host}/team")) as c:
        box = c.create("tiny:1")
        assert c.exec(box, ["sh", "-c", "echo hi"]).text == "hi\n" and c.get(box)["image"] == "tiny:1"
        assert pull(c, "team/tiny:1")["name"] == "team/tiny:1"  # without the path of the setting
        refused(lambda: c.create("other:1"), 404, "not_found")
        for odd in "a b", "../x", "tiny:1:2", "-x":
            refused(lambda: pull(c, odd), 400, "invalid_argument")
        c.delete(box)
        nothing_left(c)
    with cay.Cay(BUILD, env=settings(public.host, short="elsewhere.test/library")) as c:
        refused(lambda: pull(c, "tiny:1"), 403, "permission_denied", "elsewhere.test")


def test_create_pulls(puller, public):
    reference = f"{public.host}/team/tiny:1"
    box = puller.create(reference)
    assert puller.exec(box, ["sh", "-c", "echo hi"]).text == "hi\n"
    assert puller.get(box)["image"] == reference
    mine = [i for i in puller.call("GET", "/v1/images")["images"] if i.get("name") == reference]
    assert len(mine) == 1 and mine[0]["pulled"]
    before = len(public.requests())
    puller.delete(puller.create(reference))  # it is here now
    assert len(public.requests()) == before
    puller.delete(box)
    nothing_left(puller)


def test_by_digest(puller, public):
    ask = urllib.request.Request(f"http://{public.host}/v2/team/tiny/manifests/1", headers={
        "Accept": "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"})
    digest = oci.sha256(urllib.request.urlopen(ask).read())
    assert pull(puller, f"{public.host}/team/tiny@{digest}")["digest"]
    other = digest[:-4] + ("0000" if digest[-4:] != "0000" else "1111")
    refused(lambda: pull(puller, f"{public.host}/team/tiny@{other}"), 404, "not_found")


def test_private(puller, private):
    reference = f"{private.host}/secret/tiny:1"
    refused(lambda: pull(puller, reference), 403, "permission_denied", reference)
    puller.call("POST", "/v1/registries", {"registry": private.host, "username": "robot", "password": "wrong-" + PASSWORD})
    refused(lambda: puller.create(reference), 403, "permission_denied", reference)
    told = puller.call("POST", "/v1/registries", {"registry": private.host, "username": "robot", "password": PASSWORD})
    assert told == {"registry": private.host, "username": "robot", "unreadable": False}
    assert puller.call("GET", "/v1/registries") == {"registries": [told]}
    box = puller.create(reference)
    assert puller.exec(box, ["sh", "-c", "echo in"]).text == "in\n"
    puller.delete(box)
    # in no file, and sealed in one of the daemon's own (test_registry_secrets.py)
    store = puller.state / "db/registries.json"
    assert store.stat().st_mode & 0o777 == 0o600 and store.stat().st_uid == cay.CONTROL_UID
    nothing_left(puller)
    for at, _, files in os.walk(puller.state):
        for f in files:
            p = pathlib.Path(at, f)
            if not p.is_symlink() and "images" not in p.parts:
                with contextlib.suppress(FileNotFoundError):  # one that was being written
                    assert PASSWORD.encode() not in p.read_bytes(), p
    for name in ("cayd", "cay-keeper", "cay-pull"):
        assert PASSWORD not in pathlib.Path(puller.logs[name]).read_text(errors="replace")
    assert puller.call("DELETE", f"/v1/registries?registry={private.host}") == told
    refused(lambda: puller.call("DELETE", f"/v1/registries?registry={private.host}"), 404, "not_found")
    refused(lambda: pull(puller, reference), 403, "permission_denied")


def test_the_audit_log_says_where(puller, public, private):
    login = {"registry": private.host, "username": "robot", "password": PASSWORD}
    puller.call("POST", "/v1/registries", login)
    puller.call("DELETE", f"/v1/registries?registry={private.host}")
    pull(puller, f"{public.host}/team/tiny:1", name="audited")
    refused(lambda: pull(puller, f"{public.host}/team/none:1"), 404, "not_found")
    rows = records(puller)[-4:]
    assert [(r["op"], r.get("detail")) for r in rows] == [
        ("registry.login", f"registry={private.host}"), ("registry.logout", f"registry={private.host}"),
        ("image.pull", f"reference={public.host}/team/tiny:1"), ("image.pull", f"reference={public.host}/team/none:1")]
    assert "robot" not in json.dumps(rows) and PASSWORD not in json.dumps(rows)


def test_credentials_that_could_not_be_written(private):
    """Who is told that it failed finds all as it was, now and after a restart."""
    with cay.Cay(BUILD, env=settings(private.host)) as c:
        login = {"registry": private.host, "username": "robot", "password": "wrong-" + PASSWORD}
        store, aside = c.state / "db/registries.json", c.state / "registries.json"
        broken = lambda: (store.mkdir(), (store / "in-the-way").touch())
        broken()
        refused(lambda: c.call("POST", "/v1/registries", login), 500, "internal")
        assert c.call("GET", "/v1/registries") == {"registries": []}
        (store / "in-the-way").unlink()
        store.rmdir()
        c.call("POST", "/v1/registries", {**login, "password": PASSWORD})
        store.rename(aside)
        broken()
        refused(lambda: c.call("POST", "/v1/registries", {**login, "username": "other"}), 500, "internal")
        refused(lambda: c.call("DELETE", f"/v1/registries?registry={private.host}"), 500, "internal")
        assert c.call("GET", "/v1/registries") == {"registries": [{"registry": private.host, "username": "robot", "unreadable": False}]}
        assert pull(c, f"{private.host}/secret/tiny:1")["digest"]


def test_credentials_are_in_no_argv(puller, private):
    """They are looked for while it pulls, in every process there is."""
    slow = reg.Slow(private.host, stop_at=30000)
    with cay.Cay(BUILD, env=settings(slow.host)) as c, concurrent.futures.ThreadPoolExecutor(1) as pool:
        c.call("POST", "/v1/registries", {"registry": slow.host, "username": "robot", "password": PASSWORD})
        asked = pool.submit(pytest.raises, cay.ApiError, pull, c, f"{slow.host}/secret/tiny:1")
        assert slow.reached.wait(40)
        mine = []
        for p in pathlib.Path("/proc").iterdir():
            try:
                if p.name.isdigit() and b"skopeo" in (p / "cmdline").read_bytes() and str(c.state).encode() in (p / "cmdline").read_bytes():
                    mine.append((p / "cmdline").read_bytes() + (p / "environ").read_bytes())
            except OSError:
                pass
        assert mine and not any(PASSWORD.encode() in m or base64.b64encode(f"robot:{PASSWORD}".encode()) in m for m in mine)
        # nor in a file: they are in memory alone
        held = []
        for p in [p for at in pulls_of(c) for p in at.rglob("*")]:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # its own come and go
                held.append(p.read_bytes())
        assert held and not any(PASSWORD.encode() in h or base64.b64encode(f"robot:{PASSWORD}".encode()) in h for h in held)
        slow.close()
        asked.result(60)
        nothing_left(c)


def test_not_there(puller, public):
    for path in ("team/tiny:2", "team/none:1", "no:1"):
        e = refused(lambda path=path: pull(puller, f"{public.host}/{path}"), 404, "not_found", path)
        assert json.loads(e.body)["error"]["field"] == "reference"
        refused(lambda path=path: puller.create(f"{public.host}/{path}"), 404, "not_found", path)
    refused(lambda: pull(puller, "127.0.0.1:9/x:1"), 503, "unavailable", "127.0.0.1:9/x:1")
    nothing_left(puller)


@pytest.mark.parametrize("reference", ("base", "library/x", "docker.io/x", "127.0.0.1:1/x", "http://127.0.0.1:9/x", "127.0.0.1:9/../x",
                                       "-x.y/z", "127.0.0.1:9/x;reboot"))
def test_only_what_the_settings_name(puller, public, reference):
    before = len(public.requests())
    with pytest.raises(cay.ApiError) as e:
        pull(puller, reference)
    assert e.value.status in (400, 403)
    refused(lambda: puller.create(reference), 404, "not_found")
    assert len(public.requests()) == before


def test_nothing_is_dialled_unasked(public):
    """As it comes: no registry is named, and a create pulls nothing where only operators may."""
    slow = reg.Slow(public.host)
    for env in ({}, {"CAY_IMAGES_PULL": "create"}, settings(slow.host, pull="no")):
        with cay.Cay(BUILD, env=env) as c:
            refused(lambda c=c: c.create(f"{slow.host}/team/tiny:1"), 404, "not_found")
            if env.get("CAY_IMAGES_PULL") != "no":
                refused(lambda c=c: pull(c, f"{slow.host}/team/tiny:1"), 403, "permission_denied")
    assert slow.connections == 0
    slow.close()


def create_patiently(puller, reference):
    """A node that is busy with the creates of others says so: ask again, as the hint says."""
    while True:
        try:
            return puller.create(reference)
        except cay.ApiError as e:
            if e.code != "overloaded":
                raise
            cay.let_pass(0.2)


def test_many_waiters_are_one_pull(puller, public):
    public.push("many/tiny:1", tiny(random.Random(1).randbytes(4 << 20)))
    reference = f"{public.host}/many/tiny:1"
    before = len(public.requests())
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        boxes = list(pool.map(lambda _: create_patiently(puller, reference), range(24)))
    asked = public.requests()[before:]
    blobs = [l for l in asked if "/many/tiny/blobs/" in l]
    # asking takes the config, pulling the config and the one layer
    assert len(set(boxes)) == 24 and len(blobs) <= 3, asked
    for b in boxes:
        puller.delete(b)
    before = len(public.requests())
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        ends = list(pool.map(lambda _: refused(lambda: puller.create(f"{public.host}/many/none:1"), 404, "not_found").status, range(24)))
    assert ends == [404] * 24 and len(public.requests()[before:]) <= 24 * 2  # all were told; some asked behind the first
    nothing_left(puller)


def followed(c, seen, ready):
    reply = c.open("GET", "/v1/events?follow=true", headers={"Accept": "text/event-stream"}, timeout_s=60)
    kind = None
    while line := reply.readline():
        ready.set()
        if line.startswith(b"event: "):
            kind = line[7:].strip()
        elif line.startswith(b"data: ") and kind == b"image":
            seen.append(json.loads(line[6:]))
            if seen[-1]["state"] in ("done", "failed"):
                return


def test_progress_is_told(puller, public):
    reference = public.push("progress/tiny:1", tiny(random.Random(2).randbytes(8 << 20)))
    seen, ready = [], threading.Event()
    t = threading.Thread(target=followed, args=(puller, seen, ready))
    t.start()
    assert ready.wait(30)
    puller.delete(puller.create(reference))
    t.join(60)
    states = [s["state"] for s in seen]
    assert states[0] == "asking" and states[-2:] == ["unpacking", "done"] and "pulling" in states
    assert all(s["reference"] == reference for s in seen)
    assert all(s["total"] > 8 << 20 for s in seen if s["state"] == "pulling")
    assert [s["bytes"] for s in seen] == sorted(s["bytes"] for s in seen)


def test_others_do_not_hear_of_it(puller, public):
    other = puller.call("POST", "/v1/tenants", {"name": "deaf"})["id"]
    seen, ready = [], threading.Event()
    deaf = asks(puller, "read", other)
    threading.Thread(target=followed, args=(deaf, seen, ready), daemon=True).start()
    assert ready.wait(30)
    heard, ready = [], threading.Event()
    t = threading.Thread(target=followed, args=(puller, heard, ready))
    t.start()
    assert ready.wait(30)
    pull(puller, f"{public.host}/team/tiny:1", name="deaf")
    t.join(60)
    assert heard and not seen


def test_a_registry_that_stops_in_the_middle(public):
    reference = public.push("middle/tiny:1", tiny(random.Random(3).randbytes(4 << 20)))
    slow = reg.Slow(public.host, stop_at=100000)
    reference = reference.replace(public.host, slow.host)
    with cay.Cay(BUILD, env=settings(slow.host)) as c:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(c.create, reference) for _ in range(4)]
            assert slow.reached.wait(40)
            slow.close()
            for a in asked:
                refused(lambda a=a: a.result(60), 503, "unavailable", reference)
        nothing_left(c)


def test_one_that_hangs_has_a_deadline(public):
    reference = public.push("hang/tiny:1", tiny(random.Random(4).randbytes(4 << 20)))
    slow = reg.Slow(public.host, stop_at=100000)
    with cay.Cay(BUILD, env=settings(slow.host, pull_time="3s")) as c:
        refused(lambda: c.create(reference.replace(public.host, slow.host)), 504, "deadline_exceeded", slow.host)
        nothing_left(c)
    slow.close()


def test_one_that_is_too_large(public):
    reference = public.push("large/tiny:1", tiny(random.Random(5).randbytes(4 << 20)))
    with cay.Cay(BUILD, env=settings(public.host, pull_size="2Mi")) as c:
        refused(lambda: c.create(reference), 413, "too_large", reference)
        # its layer was not even begun
        assert len([l for l in public.requests() if "/large/tiny/blobs/" in l]) <= 1
        nothing_left(c)


def test_killed_in_the_middle(public):
    reference = public.push("killed/tiny:1", tiny(random.Random(6).randbytes(4 << 20)))
    slow = reg.Slow(public.host, stop_at=100000)
    with cay.Cay(BUILD, env=settings(slow.host, public.host)) as c, concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(pytest.raises, Exception, c.create, reference.replace(public.host, slow.host))
        assert slow.reached.wait(40)
        assert any("skopeo" in p and str(c.state) in p for p in processes())
        c.kill_daemon("cayd")
        asked.result(60)
        cay.wait_for("skopeo to be gone", lambda: not [p for p in processes() if "skopeo" in p and str(c.state) in p], 30)
        nothing_left(c)  # also while no cayd runs
        c.start_cayd()
        c.delete(c.create(reference))  # and it can be pulled
    slow.close()


def test_a_client_that_leaves(public):
    """A pull nobody waits for any more ends; one that an operator asked for goes on."""
    reference = public.push("left/tiny:1", tiny(random.Random(7).randbytes(2 << 20)))
    slow = reg.Slow(public.host, stop_at=100000)
    with cay.Cay(BUILD, env=settings(public.host, slow.host)) as c:
        def leave(path, body):
            connection = c.connection(30)
            connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            # or it is over already
            cay.wait_for("a pull", lambda: pulls_of(c) or c.call("GET", "/v1/images")["images"], 30)
            return connection
        hangs = reference.replace(public.host, slow.host)
        first, second = (leave("/v1/sandboxes", {"image": hangs}) for _ in range(2))
        assert slow.reached.wait(40)
        first.close()
        cay.let_pass(1)
        assert pulls_of(c)  # there is another
        second.close()
        nothing_left(c)
        leave("/v1/images/pull", {"reference": reference}).close()
        cay.wait_for("the image", lambda: c.call("GET", "/v1/images")["images"], 30)
        assert not c.call("GET", "/v1/sandboxes")["sandboxes"]
        nothing_left(c)
    slow.close()


def test_who_is_not_admitted_pulls_nothing(public):
    slow = reg.Slow(public.host)
    reference = f"{slow.host}/team/tiny:1"
    with cay.Cay(BUILD, env={**settings(slow.host), "CAY_LIMITS_TENANT": "1"}) as c:
        c.image_import("here", tiny())
        box = c.create("here")
        refused(lambda: c.create(reference), 429, "limit_exceeded")
        assert slow.connections == 0
        c.kill_daemon("cayd")
        c.env["CAY_NODE_MEMORY"] = "16Ti"
        c.start_cayd()
        c.delete(box)
        refused(lambda: c.create(reference), 503, "no_capacity", "memory")
        c.kill_daemon("cayd")
        del c.env["CAY_NODE_MEMORY"]
        c.env["CAY_NODE_DISK"] = "16Ti"
        c.start_cayd()
        refused(lambda: c.create(reference), 503, "no_capacity", "disk")
        refused(lambda: pull(c, reference), 503, "no_capacity", "disk")  # an operator, too
        assert slow.connections == 0 and len(c.call("GET", "/v1/images")["images"]) == 1
    slow.close()


def test_two_at_once_for_each_tenant(public):
    data = tiny(random.Random(10).randbytes(4 << 20))
    slow = reg.Slow(public.host, stop_at=100000)
    names = [public.push(f"two/tiny:{n}", data).replace(public.host, slow.host) for n in range(4)]
    with cay.Cay(BUILD, env=settings(public.host, slow.host)) as c:
        mine, others = (asks(c, "write", c.call("POST", "/v1/tenants", {"name": n})["id"]) for n in ("mine", "others"))
        pulls = lambda: len(pulls_of(c))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(mine.create, n) for n in names[:2]]
            cay.wait_for("two pulls", lambda: pulls() == 2, 30)
            refused(lambda: mine.create(names[2]), 429, "limit_exceeded", "being pulled")
            asked.append(pool.submit(mine.create, names[1]))  # that one is on its way
            asked.append(pool.submit(others.create, names[2]))
            cay.wait_for("three pulls", lambda: pulls() == 3, 30)
            asked += [pool.submit(pull, c, names[3], name=f"n{i}") for i in range(3)]
            cay.wait_for("the operator's", lambda: pulls() == 6, 30)
            assert not any(a.done() for a in asked)
            slow.close()
            for a in asked:
                refused(lambda a=a: a.result(60), 503, "unavailable")
        reference = names[2].replace(slow.host, public.host)
        mine.delete(mine.create(reference))  # there are places again
        nothing_left(c)


def test_a_disk_that_gets_short(public, disk):
    reference = public.push("short/tiny:1", tiny(random.Random(11).randbytes(4 << 20)))
    slow = reg.Slow(public.host, stop_at=100000)
    with cay.Cay(BUILD, env=settings(slow.host), state_top=disk.at) as c:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(pull, c, reference.replace(public.host, slow.host))
            assert slow.reached.wait(40)
            fs = os.statvfs(disk.at)
            with open(disk.at / "filler", "wb") as f:
                os.posix_fallocate(f.fileno(), 0, fs.f_bavail * fs.f_frsize - (1 << 20))
            e = refused(lambda: asked.result(60), 503, "no_capacity", "disk")
            assert slow.host in str(e)
        nothing_left(c)
        disk.free()
    slow.close()


def cli(c, *words, tty=False, **kw):
    argv = [str(c.programs["cay"]), *words]
    if tty:
        argv = ["script", "-qec", " ".join(argv), "/dev/null"]
    return subprocess.run(argv, env={**c.env, "TERM": "xterm"}, capture_output=True, text=True, timeout=60, **kw)


def test_by_hand(puller, public, private):
    done = cli(puller, "image", "pull", f"{public.host}/team/tiny:1", "--name", "by-hand")
    assert done.returncode == 0 and done.stdout.startswith("im"), done
    reference = f"{private.host}/secret/tiny:1"
    done = cli(puller, "image", "pull", reference, "--name", "by-hand-2")
    assert done.returncode == 3 and reference in done.stderr, done
    assert cli(puller, "image", "login", "--username", "robot", private.host, input=PASSWORD + "\n").returncode == 0
    assert cli(puller, "image", "logins").stdout == f"{private.host}  robot\n"
    assert cli(puller, "image", "pull", reference, "--name", "by-hand-2").returncode == 0
    assert cli(puller, "image", "logout", private.host).returncode == 0
    assert cli(puller, "image", "logins").stdout == ""
    assert cli(puller, "image", "login", "--username", "robot", private.host, input="").returncode == 2


def test_a_bar(public):
    """On a terminal, for create as for pull."""
    slow = reg.Slow(public.host, delay_s=0.02)
    names = [public.push(f"bar/tiny:{n}", tiny(random.Random(n).randbytes(6 << 20))).replace(public.host, slow.host) for n in (8, 9)]
    with cay.Cay(BUILD, env=settings(slow.host)) as c:
        for words in (("image", "pull", names[0]), ("create", names[1])):
            done = cli(c, *words, tty=True)
            assert done.returncode == 0 and " MiB" in done.stdout and "[" in done.stdout, done
            assert "[" not in cli(c, *words).stdout
    slow.close()
