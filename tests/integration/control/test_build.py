# SPDX-License-Identifier: Apache-2.0
"""Layers: packages, files and setup commands over an image, made in a sandbox."""
import base64
import contextlib
import io
import json
import os
import pathlib
import tarfile
import threading

import cay
import pytest
from cay import wait_for
from conftest import BUILD, tiny
from test_control import nothing_is_left, refused
from test_life import linked
from test_sweep import BUILD_POINTS
from test_tenants import asks, noun_id

# Stands in for pip: what it is told is what there is afterwards; a name can ask for trouble.
PIP = b"""#!/bin/sh
[ "$1 $2 $3" = "-m pip install" ] || { echo "not pip: $*" >&2; exit 64; }
shift 4
[ "$(id -u)" = 0 ] || exit 65
mkdir -p /pkg
echo run >>/pkg/.runs
for p; do
	case $p in
	broken*) echo "Collecting $p" ; echo "ERROR: No matching distribution found for $p" >&2; exit 1 ;;
	slow*) sleep 2 ;;
	forever*) sleep 600 ;;
	esac
	echo "Successfully installed $p"
	echo "$PIP_NO_INDEX" >"/pkg/$p"
done
"""


def with_pip():
    """The tiny image, and a python3 that can do one thing."""
    extra = cay.layer([cay.file("bin/python3", PIP, 0o755), cay.directory("data", uid=1000, gid=1000),
                       cay.file("data/old", b"old\n", 0o644, 1000, 1000), cay.file("doomed", b"x"),
                       cay.directory("swap"), cay.file("swap/below", b"x")])
    return add_layer(tiny(), extra)


def add_layer(image, layer):
    """The image with one more layer on top."""
    import hashlib
    files = {m.name: tarfile.open(fileobj=io.BytesIO(image)).extractfile(m.name).read()
             for m in tarfile.open(fileobj=io.BytesIO(image)) if m.isfile()}
    index = json.loads(files["index.json"])

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def read(d):
        return json.loads(files["blobs/sha256/" + d["digest"][7:]])
    manifest = read(index["manifests"][0])
    config = read(manifest["config"])
    config["rootfs"]["diff_ids"].append("sha256:" + hashlib.sha256(layer).hexdigest())
    manifest["config"].update(blob(json.dumps(config).encode()))
    manifest["layers"].append({**manifest["layers"][0], **blob(layer)})
    index["manifests"][0].update(blob(json.dumps(manifest).encode()))
    files["index.json"] = json.dumps(index).encode()
    return cay.layer([cay.file(name, data) for name, data in files.items()])


@pytest.fixture(scope="module")
def c():
    with cay.Cay(BUILD) as c:
        c.image_import("tiny", tiny())
        c.image_import("pip", with_pip())
        yield c


def create(c, **spec):
    return c.call("POST", "/v1/sandboxes", {"image": "pip", **spec})


def layers(c):
    return sorted(p for p in os.listdir(c.state / "images/sha256") if (c.state / "images/sha256" / p / "parent").is_symlink())


def test_packages_are_there_and_made_once(c):
    before = len(layers(c))
    box = create(c, packages={"python": {"pandas": "2.2.3", "attrs": ""}}, env={"PIP_NO_INDEX": "1", "MINE": "a"})
    assert box["image"] == "pip"
    assert c.exec(box["id"], ["ls", "/pkg"]).text.split() == ["attrs", "pandas==2.2.3"]
    assert c.exec(box["id"], ["cat", "/pkg/attrs"]).text == "1\n"
    # the same, said in another order and for another purpose
    again = create(c, packages={"python": {"attrs": "", "pandas": "2.2.3"}}, env={"MINE": "b", "PIP_NO_INDEX": "1"})
    assert c.exec(again["id"], ["cat", "/pkg/.runs"]).text == "run\n"
    assert len(layers(c)) == before + 1
    assert [i["name"] for i in c.call("GET", "/v1/images")["images"]] == ["tiny", "pip"]
    for b in (box, again):
        c.delete(b["id"])
    assert c.call("GET", "/v1/sandboxes?state=live")["sandboxes"] == []


def test_many_wait_for_one_build(c):
    before, boxes = len(layers(c)), []

    def make():
        boxes.append(create(c, packages={"python": {"slow": "1"}})["id"])
    threads = [threading.Thread(target=make) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(boxes)) == 5 and len(layers(c)) == before + 1
    for b in boxes:
        assert c.exec(b, ["cat", "/pkg/.runs"]).text == "run\n"
        c.delete(b)


def test_a_failure_says_what_the_manager_said(c):
    before = len(layers(c))
    e = refused("build_failed", create, c, packages={"python": {"broken": "1"}})
    assert "No matching distribution found for broken==1" in str(e) and "exited with 1" in str(e)
    refused("unsupported", create, c, packages={"node": {"left-pad": ""}})
    refused("unsupported", create, c, image="tiny", packages={"python": {"attrs": ""}})
    assert len(layers(c)) == before
    wait_for("its sandbox to go", lambda: not os.listdir(c.state / "boxes"), 30)


@pytest.mark.parametrize("manager,name,version", [
    ("python", "-r", ""), ("python", "a", "1 --pre"), ("node", "a", "file:x"), ("r", "a'", "")])
def test_names_that_are_not(c, manager, name, version):
    e = refused("invalid_argument", create, c, packages={manager: {name: version}})
    assert "packages" in str(e)


# -- templates

def template(c, name, wait=True, **build):
    made = c.call("POST", "/v1/templates", {"name": name, "defaults": {"image": "pip", **build.pop("defaults", {})}, **build})
    if wait:
        wait_for("its build", lambda: c.call("GET", "/v1/templates/" + made["id"])["state"] != "building", 120)
        made = c.call("GET", "/v1/templates/" + made["id"])
    return made


def log(c, t):
    text, at = "", 0
    while True:
        piece = c.call("GET", f"/v1/templates/{t['id']}/log?offset={at}")
        if not piece["text"]:
            return text
        text, at = text + piece["text"], piece["next"]


def sh(c, box, line, **fields):
    done = c.exec(box, ["sh", "-c", line], user="0", **fields)
    assert done.exit_code == 0, done
    return done.text


SETUP = ["rm /doomed; rm -r /swap; mkdir /swap; echo new >/swap/above",
         "ln /data/old /data/link; chown 1000:1000 /data; echo more >>/data/old; touch /data/mine; chown 1000:1000 /data/mine",
         "cp /bin/busybox /bin/busybox-suid; chmod 4755 /bin/busybox-suid; echo done; echo err >&2"]


def test_what_a_build_did_is_what_a_sandbox_has(c):
    """In id ranges of its own, over the same files: gone stays gone, links stay links, owners stay owners."""
    t = template(c, "whole", setup=SETUP, packages={"python": {"attrs": ""}}, files=[
        {"path": "/etc/motd", "content": "hello \u00e9\n"}, {"path": "/opt/a/b/run", "content_b64": "IyE=", "mode": "0750", "owner": "user:user"},
        {"path": "/empty", "content": ""}, {"path": "/big", "content": "x" * 700000}])
    assert t["state"] == "ready" and t["layer"].startswith("sha256:"), (t, log(c, t))
    text = log(c, t)
    assert "Successfully installed attrs\n" in text and "done\n" in text and "err\n" in text and "# /etc/motd\n" in text
    boxes = [c.call("POST", "/v1/sandboxes", {"template": "whole"}) for _ in range(2)]
    for box in (b["id"] for b in boxes):
        assert sh(c, box, "ls /doomed /swap/below 2>/dev/null; ls /swap; cat /swap/above /data/old /etc/motd") == \
            "above\nnew\nold\nmore\nhello \u00e9\n"
        assert sh(c, box, "stat -c '%h %u:%g %a' /data/link /data/mine /opt/a/b/run").split("\n")[:3] == \
            ["2 1000:1000 644", "1 1000:1000 644", "1 1000:1000 750"]
        assert sh(c, box, "stat -c %i /data/link /data/old").split()[0] == sh(c, box, "stat -c %i /data/old").strip()
        assert sh(c, box, "stat -c %a /bin/busybox-suid; stat -c %s /empty /big").split() == ["4755", "0", "700000"]
        # what no_new_privs and nosuid say of it is as with any image
        assert c.exec(box, ["/bin/busybox-suid", "id", "-u"]).text == "1000\n"
        # and it is a sandbox's own from here on
        sh(c, box, "rm /swap/above; echo x >/data/old; rmdir /swap")
    other = c.call("POST", "/v1/sandboxes", {"template": "whole", "packages": {"python": {"six": "1.0"}}})
    assert sh(c, other["id"], "cat /swap/above; ls /pkg") == "new\nattrs\nsix==1.0\n"
    for b in (*boxes, other):
        c.delete(b["id"])


def test_a_template_is_built_once_and_anew(c):
    first = template(c, "again", setup=["echo 1 >/v"])
    box = c.call("POST", "/v1/sandboxes", {"template": "again"})["id"]
    same = c.call("POST", "/v1/templates", {"name": "again", "defaults": {"image": "pip"}, "setup": ["echo 1 >/v"]})
    assert same["state"] == "ready" and same["layer"] == first["layer"] and same["id"] == first["id"]
    t = template(c, "again", wait=False, setup=["sleep 48152; echo 2 >/v"])  # until it is woken: others come meanwhile
    assert t["state"] == "building" and t["id"] == first["id"]
    refused("conflict", template, c, "again", setup=["echo 3 >/v"])
    during = c.call("POST", "/v1/sandboxes", {"template": "again"})["id"]  # what there was is good until then
    wait_for("its sleep", lambda: kill_inside(48152), 30)
    wait_for("the other", lambda: c.call("GET", "/v1/templates/" + t["id"])["state"] == "ready", 60)
    after = c.call("POST", "/v1/sandboxes", {"template": "again"})["id"]
    assert [sh(c, b, "cat /v") for b in (box, during, after)] == ["1\n", "1\n", "2\n"]
    failed = template(c, "again", setup=["echo no >&2; exit 3"])
    assert failed["state"] == "ready" and "exited with 3" in failed["error"] and "no" in log(c, failed)
    assert sh(c, c.call("POST", "/v1/sandboxes", {"template": "again"})["id"], "cat /v") == "2\n"
    for b in c.call("GET", "/v1/sandboxes?state=live")["sandboxes"]:
        c.delete(b["id"])


def test_a_build_that_fails(c):
    t = template(c, "fails", setup=["echo first", "echo second; false", "echo third"])
    assert t["state"] == "failed" and "exited with 1" in t["error"]
    assert "second" in log(c, t) and "third" not in log(c, t).replace("# echo third", "")
    e = refused("build_failed", c.call, "POST", "/v1/sandboxes", {"template": "fails"})
    assert "exited with 1" in str(e)
    t = template(c, "fails", setup=["echo works"])
    assert t["state"] == "ready" and "error" not in t
    for bad in ({"mode": "9"}, {"mode": "rwx"}, {"owner": "-R"}, {"owner": "a b"}, {"content": "x", "content_b64": "eA=="}, {"content_b64": "!"}):
        refused("invalid_argument", template, c, "bad", files=[{"path": "/x", **bad}])
    refused("invalid_argument", template, c, "bad", files=[{"path": "x"}])
    refused("invalid_argument", template, c, "bad", setup=[""])
    c.image_import("bare", cay.layout([cay.file("hello", b"", 0o755)]))
    t = template(c, "shellless", defaults={"image": "bare"}, setup=["true"])
    assert t["state"] == "failed" and "setup" not in c.call("GET", "/v1/health")
    wait_for("its sandbox to go", lambda: not os.listdir(c.state / "boxes"), 30)


LARGE = base64.b64encode(b"x" * ((1 << 20) + 1)).decode()
TOO_MUCH = {
    "files": {"files": [{"path": f"/f{k}"} for k in range(257)]}, "content": {"files": [{"path": "/f", "content": "x" * ((1 << 20) + 1)}]},
    "base64": {"files": [{"path": "/f", "content_b64": LARGE}]}, "setup": {"setup": ["true"] * 65}, "command": {"setup": ["#" * 8193]},
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_a_build_has_bounds(c, what):
    """As docs/templates.md says them; nothing is begun, and the name is free."""
    e = refused("invalid_argument", template, c, "bounded", **TOO_MUCH[what])
    assert e["field"].startswith("setup" if what in ("setup", "command") else "files")
    assert "bounded" not in [t["name"] for t in c.call("GET", "/v1/templates")["templates"]]


def test_a_build_of_more_than_8_mib(c):
    """Told from the length alone: who goes on sending may not read it."""
    with contextlib.suppress(BrokenPipeError):
        refused("too_large", template, c, "bounded", files=[{"path": f"/f{k}", "content": "x" * (1 << 20)} for k in range(9)])
    assert "bounded" not in [t["name"] for t in c.call("GET", "/v1/templates")["templates"]]


def test_the_largest_build_and_the_end_of_its_log(c):
    many = 250 if os.environ.get("CAY_FULL") else 24
    files = [{"path": f"/many/{k}", "content": str(k)} for k in range(many)] + [{"path": f"/large/{k}", "content": "x" * (1 << 20)} for k in range(6)]
    t = template(c, "largest", files=files, setup=["true"] * 62 + ["seq 100000; echo the end", "#" * 8192])
    assert t["state"] == "ready", t
    box = c.call("POST", "/v1/sandboxes", {"template": "largest"})["id"]
    assert sh(c, box, f"cat /many/{many - 1}; echo; ls /many | wc -l; cat /large/* | wc -c").split() == [str(many - 1), str(many), str(6 << 20)]
    first = c.call("GET", f"/v1/templates/{t['id']}/log?offset=0")
    whole = log(c, t)
    assert first["offset"] > 0 and len(whole) <= 256 << 10 and "the end\n" in whole  # what came before is gone, and said to be
    c.delete(box)


def heard(c, seen, ready, until):
    reply = c.open("GET", "/v1/events?follow=true", headers={"Accept": "text/event-stream"}, timeout_s=60)
    kind = None
    while line := reply.readline():
        ready.set()
        if line.startswith(b"event: "):
            kind = line[7:].strip()
        elif line.startswith(b"data: ") and kind == b"template":
            seen.append(json.loads(line[6:]))
            if seen[-1]["change"] == until:
                return


def test_who_follows_hears_of_templates(c):
    """Whoever it is: templates are everybody's.  Not who follows one group."""
    other = asks(c, "read", c.call("POST", "/v1/tenants", {"name": "listens"})["id"])
    seen, ready = [], threading.Event()
    t = threading.Thread(target=heard, args=(other, seen, ready, "removed"))
    t.start()
    assert ready.wait(30)
    made = template(c, "told", setup=["echo 1 >/told"])
    c.call("POST", f"/v1/templates/{made['id']}/pool", {"min": 0, "max": 3})
    template(c, "told", setup=["echo 2 >/told"])
    template(c, "told", setup=["exit 3"])
    template(c, "told")
    c.call("DELETE", f"/v1/templates/{made['id']}")
    t.join(60)
    assert [(e["change"], e["state"]) for e in seen] == [
        ("created", "building"), ("built", "ready"), ("pool", "ready"), ("building", "building"), ("built", "ready"),
        ("building", "building"), ("failed", "ready"), ("changed", "ready"), ("removed", "ready")]
    assert {(e["id"], e["name"]) for e in seen} == {(made["id"], "told")}
    assert seen[2]["pool"]["max"] == 3 and "exited with 3" in seen[6]["error"] and "error" not in seen[7]


def test_an_image_below_a_layer_stays(c):
    template(c, "above", setup=["echo a >/a"])
    image = [i for i in c.call("GET", "/v1/images")["images"] if i["name"] == "pip"][0]
    refused("conflict", c.call, "DELETE", "/v1/images/" + image["id"])


def test_layers_have_an_end(c):
    """An image over an image over an image."""
    for i in range(17):
        t = template(c, "deep", defaults={"image": c.call("GET", "/v1/templates/" + t["id"])["layer"] if i else "pip"}, setup=[f"echo {i} >/n"])
        if t["state"] == "failed" or "error" in t:
            break
    assert i == 15 and "at most 16 layers" in t["error"], (i, t)
    assert sh(c, c.call("POST", "/v1/sandboxes", {"template": "deep"})["id"], "cat /n") == "14\n"
    for b in c.call("GET", "/v1/sandboxes?state=live")["sandboxes"]:
        c.delete(b["id"])


# -- crashes

@pytest.fixture
def own():
    with cay.Cay(BUILD) as c:
        c.image_import("pip", with_pip())
        yield c


def images(c):
    return len(os.listdir(c.state / "images/sha256")), [p.name for p in c.state.glob("images/tmp/*")]


def known(c):
    return {row["image"]["digest"].removeprefix("sha256:") for row in json.loads((c.state / "db/images.json").read_text())["images"]}


def test_cayd_dies_in_the_middle_of_a_build(own):
    t = template(own, "cut", wait=False, setup=["sleep 60"])
    wait_for("it to run", lambda: "# sleep" in log(own, t), 30)
    own.kill_daemon("cayd")
    own.start_cayd()
    got = own.call("GET", "/v1/templates/" + t["id"])
    assert got["state"] == "failed" and "restart" in got["error"]
    wait_for("its sandbox to go", lambda: not os.listdir(own.state / "boxes"), 30)
    wait_for("its layer to go", lambda: images(own) == (1, []), 30)
    assert template(own, "cut", setup=["true"])["state"] == "ready"
    wait_for("its sandbox to go", lambda: not os.listdir(own.state / "boxes"), 30)  # behind the layer
    nothing_is_left(own)


def kill_inside(seconds):
    """The `sleep` of a build, which no request reaches."""
    for p in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if p.read_bytes() == f"sleep\0{seconds}\0".encode():
                os.kill(int(p.parent.name), 9)
                return True
        except OSError:
            pass
    return False


def test_the_oldest_build_can_fail_last(own):
    """Of those that are over 32 are remembered: the one that began first and failed last is among them."""
    slow = template(own, "slow", wait=False, setup=["sleep 48151; echo words; exit 9"])
    wait_for("it to run", lambda: "# sleep" in log(own, slow), 30)
    for n in range(0, 32, 4):
        some = [template(own, f"quick{i}", wait=False, setup=[f"exit {i + 1}"]) for i in range(n, n + 4)]
        for t in some:
            wait_for("its end", lambda t=t: own.call("GET", "/v1/templates/" + t["id"])["state"] == "failed", 20)
    wait_for("its sleep", lambda: kill_inside(48151), 20)
    wait_for("its end", lambda: own.call("GET", "/v1/templates/" + slow["id"])["state"] == "failed", 20)
    assert "words" in log(own, slow)
    refused("not_found", log, own, own.call("GET", "/v1/templates")["templates"][1])
    assert own.daemons["cayd"].poll() is None


def tenant(c, name):
    """The node as somebody of a tenant of that name asks it."""
    return asks(c, "write", c.call("POST", "/v1/tenants", {"name": name})["id"])


def leaving(who, package, **spec):
    """A create whose client can leave: the connection."""
    connection = who.connection(60)
    body = json.dumps({"image": "pip", "packages": {"python": {package: ""}}, **spec})
    connection.request("POST", "/v1/sandboxes", body, {**who.says(), "Content-Type": "application/json"})
    return connection


def boxes_there(c):
    return len(os.listdir(c.state / "boxes"))


def test_one_tenant_does_not_have_all_builds(own):
    """Two at once; and what nobody waits for ends and gives its place back."""
    one, other = tenant(own, "one"), tenant(own, "other")
    gone = [leaving(one, "forever1"), leaving(one, "forever2")]
    wait_for("both", lambda: boxes_there(own) == 2, 30)
    reply = one.open("POST", "/v1/sandboxes", {"image": "pip", "packages": {"python": {"a": ""}}})
    assert reply.status == 503 and reply.headers["Retry-After"] == "1" and b"of this tenant" in reply.read()
    same = leaving(one, "forever1")  # is no other build
    assert create(other, packages={"python": {"a": ""}})["state"] == "running"
    assert create(own, packages={"python": {"a": ""}})["state"] == "running"
    for connection in gone:
        connection.close()
    wait_for("the other to end", lambda: boxes_there(own) == 3, 30)
    same.close()
    wait_for("both to end", lambda: boxes_there(own) == 2, 30)
    assert create(one, packages={"python": {"b": ""}})["state"] == "running"
    assert one.exec(one.call("GET", "/v1/sandboxes")["sandboxes"][0]["id"], ["ls", "/pkg"]).text == "b\n"


def test_a_build_is_made_as_the_sandbox_will_be(own):
    box = create(own, packages={"python": {"a": ""}}, storage="memory", limits={"disk_bytes": 8 << 20})
    assert own.exec(box["id"], ["ls", "/pkg"]).text == "a\n"
    box = create(own, packages={"python": {"b": ""}}, storage="memory", limits={"disk_inodes": 64})
    assert own.exec(box["id"], ["ls", "/pkg"]).text == "b\n"


CAP = 32  # layers of one tenant


def known_layers(c):
    """By tenant, as cayd has them."""
    rows = [i for i in json.loads((c.state / "db/images.json").read_text())["images"] if "layer" in i]
    return {t: sum(i.get("tenant") == t for i in rows) for t in {i.get("tenant") for i in rows}}


def one_box(who, **spec):
    box = create(who, **spec)
    text = who.exec(box["id"], ["cat", "/pkg/.runs"]).text
    who.delete(box["id"])
    return text


def package(n):
    return {"packages": {"python": {f"p{n}": ""}}}


def test_layers_of_a_tenant_have_a_number(own):
    """The one used longest ago goes, unless something uses it; a template's layer is not a tenant's."""
    one, other = tenant(own, "one"), tenant(own, "other")
    kept = template(own, "kept", setup=["echo kept >/kept"])
    one_box(other, **package(0))
    used = create(one, **package(0))["id"]
    for n in range(1, CAP):
        one_box(one, **package(n))
    whose = one.actor.split()[0]
    wait_for("all of them", lambda: known_layers(own) == {whose: CAP, other.actor.split()[0]: 1, None: 1} and len(layers(own)) == CAP + 2, 30)
    one_box(one, **package(1))  # 2 is the oldest now
    before = set(layers(own))
    for n in (100, 101):
        one_box(one, **package(n))
        wait_for("room", lambda: known_layers(own)[whose] == CAP and len(layers(own)) == CAP + 2, 20)
    assert len(before - set(layers(own))) == 2
    after = set(layers(own))
    for n in (0, 1, 4, 100, 101):  # all there still
        assert one_box(one, **package(n)) == "run\n"
    assert set(layers(own)) == after
    assert one.exec(used, ["ls", "/pkg"]).text == "p0\n"
    assert sh(own, own.call("POST", "/v1/sandboxes", {"template": "kept"})["id"], "cat /kept") == "kept\n", kept
    own.kill_daemon("cayd")
    own.start_cayd()
    assert known_layers(own)[whose] == CAP
    # and they go with the tenant
    one.delete(used)
    own.call("POST", f"/v1/keys/{one.actor.split()[2]}/revoke")
    wait_for("it to go", lambda: own.open("DELETE", "/v1/tenants/" + whose).status == 200, 30)
    wait_for("its layers to go", lambda: len(layers(own)) == 2, 30)
    wait_for("cayd to note it", lambda: set(known_layers(own)) == {other.actor.split()[0], None}, 20)


def test_layers_do_not_count_as_images(own):
    one_box(own, **package(1))
    own.kill_daemon("cayd")
    path = own.state / "db/images.json"
    rows = json.loads(path.read_text())["images"]
    image, layer = [i for i in rows if "layer" not in i][0], [i for i in rows if "layer" in i][0]

    def others(row, n, **more):
        return [{"config": row["config"], **{k: os.urandom(32).hex() for k in more},
                 "image": {**{k: v for k, v in row["image"].items() if k != "name"}, "id": noun_id("image"),
                           "digest": "sha256:" + os.urandom(32).hex()}} for _ in range(n)]
    path.write_text(json.dumps({"images": rows + others(layer, 511, layer=True) + others(image, 998)}))
    own.start_cayd()
    own.image_import("tiny", tiny())
    assert "1000 images" in str(refused("limit_exceeded", own.image_import, "bare", cay.layout([cay.file("hello", b"", 0o755)])))
    one_box(own, **package(2))
    wait_for("one of the others to go", lambda: sum(known_layers(own).values()) == 512, 30)


def test_layers_all_in_use(own):
    one = tenant(own, "one")
    for n in range(CAP):
        create(one, **package(n), limits={"memory_bytes": 32 << 20})
    assert "all in use" in str(refused("limit_exceeded", create, one, **package(CAP)))
    assert one_box(one, **package(3)) == "run\n"
    assert one_box(own, **package(CAP)) == "run\n"


def test_layers_nobody_uses_are_pruned(own):
    one_box(own, **package(1))
    box = create(own, **package(2))["id"]
    template(own, "kept", setup=["echo kept >/kept"])
    assert len(layers(own)) == 3
    went = own.call("POST", "/v1/images/prune", {"unused_ms": 0})["images"]
    assert len(went) == 1 and "name" not in went[0] and len(layers(own)) == 2
    own.delete(box)
    assert sh(own, own.call("POST", "/v1/sandboxes", {"template": "kept"})["id"], "cat /kept") == "kept\n"
    assert len(own.call("POST", "/v1/images/prune", {"unused_ms": 0})["images"]) == 1
    assert one_box(own, **package(1)) == "run\n"


def test_a_layer_is_no_image_of_a_tenant(own):
    one, other = tenant(own, "one"), tenant(own, "other")
    one_box(one, **package(1))
    row = [i for i in json.loads((own.state / "db/images.json").read_text())["images"] if "layer" in i][0]["image"]
    for who in (one, other):
        for ref in (row["digest"], row["id"]):
            refused("not_found", create, who, image=ref)
            refused("not_found", create, who, image=ref, packages={"python": {"x": ""}})
        refused("not_found", who.call, "GET", "/v1/images/" + row["id"])
    assert own.call("GET", "/v1/images/" + row["id"])["digest"] == row["digest"]
    assert create(own, image=row["digest"])["state"] == "running"


CRASHES = [("cay-keeper", p, how) for p in BUILD_POINTS + ["keeper:answer"] for how in ("kill", "error")] + [("cayd", "", "kill")]


@pytest.mark.parametrize("program,point,how", CRASHES, ids=lambda w: w.replace(":", "-"))
def test_a_crash_leaves_the_image_or_nothing(own, program, point, how):
    """At each step of a commit; then the same again must work."""
    own.kill_daemon("cay-keeper")
    n = 3 if point == "keeper:answer" else 1
    if program == "cay-keeper":
        own.env["CAY_FAULT"] = f"{point}={how}@{n}"
    own.start_keeper()
    own.env.pop("CAY_FAULT", None)
    wait_for("the link", lambda: linked(own), 30)
    t = template(own, "x", wait=False, setup=["echo hi >/hi"])
    if program == "cayd":
        wait_for("the commit", lambda: images(own)[0] == 2, 30)
        own.kill_daemon("cayd")
        own.start_cayd()
    wait_for("an end", lambda: own.daemons["cay-keeper"].poll() is not None
             or own.call("GET", "/v1/templates/" + t["id"])["state"] != "building", 30)
    own.kill_daemon("cay-keeper")
    own.start_keeper()
    wait_for("the link", lambda: linked(own), 30)
    wait_for("an end", lambda: own.call("GET", "/v1/templates/" + t["id"])["state"] != "building", 30)
    got = own.call("GET", "/v1/templates/" + t["id"])
    wait_for("its sandbox to go", lambda: not os.listdir(own.state / "boxes"), 20)
    # one that was written down before the end came is there for the next who builds the same
    wait_for("no layer nobody knows", lambda: images(own)[1] == [] and set(os.listdir(own.state / "images/sha256")) == known(own), 30)
    assert got["state"] != "ready" or images(own)[0] == 2
    assert template(own, "x", setup=["echo hi >/hi"])["state"] == "ready"
    box = own.call("POST", "/v1/sandboxes", {"template": "x"})["id"]
    assert sh(own, box, "cat /hi") == "hi\n"
    own.delete(box)
    wait_for("its build's to go", lambda: not os.listdir(own.state / "boxes"), 30)
    nothing_is_left(own)
