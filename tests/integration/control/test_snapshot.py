# SPDX-License-Identifier: Apache-2.0
"""Snapshots and forks: the files of one moment, of one tenant, whatever dies in between."""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import threading

import cay
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from prometheus import metrics
from test_control import refused, residue
from test_create_many import ids, outcomes
from test_egress_policy import ALLOW, policy, template
from test_full import disk  # noqa: F401
from test_life import COUNT, clean, linked, numbers, restart
from test_quota import new_tenant
from test_stop import TREE, act, own_image, upper
from test_sweep import SNAPSHOT_POINTS
from test_tenants import DEFAULT, actor, asks


FOREIGN = 0x7FFE0000  # ids of files, which no process has


def snapshot(c, box, **body):
    return c.call("POST", f"/v1/sandboxes/{box}/snapshots", body, timeout_s=120)


def listed(c):
    return c.call("GET", "/v1/snapshots")["snapshots"]


def drop(c, sn):
    return c.call("DELETE", f"/v1/snapshots/{sn}")


@pytest.mark.parametrize("state", ["running", "paused", "stopped"])
def test_the_files_of_one_moment(daemon, state):
    own_image(daemon)
    box = daemon.create("files", env={"X": "y"})
    assert daemon.exec(box, ["sh", "-c", TREE + "truncate -s 1099511627776 sparse\n"], user="root").exit_code == 0
    if state == "paused":
        act(daemon, box, "pause")
    if state == "stopped":
        act(daemon, box, "stop")
    made = snapshot(daemon, box, name=f"of-{state}", labels={"a": "b"})
    assert made["state"] == "ready" and made["consistency"] == ("stopped" if state == "stopped" else "frozen")
    assert made["sandbox"] == box and made["image"] == "files" and made["labels"] == {"a": "b"}
    assert daemon.get(box)["state"] == state
    copy = layer(daemon, made["id"]) / "disk/upper"
    assert (copy / "workspace/sparse").stat().st_size == 1 << 40 and (copy / "workspace/sparse").stat().st_blocks < 1000
    assert all(FOREIGN <= os.lstat(os.path.join(at, n)).st_uid < FOREIGN + 65536 for at, dirs, files in os.walk(copy) for n in (*dirs, *files))
    daemon.delete(box)
    of = daemon.create(None, snapshot=made["id"])
    assert daemon.get(of)["snapshot"] == made["id"] and daemon.get(of)["image"] == "files"
    done = daemon.exec(of, ["sh", "-c", "echo $X; cat /tmp/t/x; ls /gone; ls /etc/group; stat -c '%a %h' /workspace/d/run; stat -c %u d/random; wc -l <d/e/numbers"])
    assert done.text.split() == ["x", "new", "751", "2", "1000", "20000"]
    daemon.delete(of)
    drop(daemon, made["id"])
    assert not listed(daemon)


def gone(c, n=1):
    """Only the images that were imported are left, and nothing of a copy."""
    def left():
        tmp = c.state / "images" / "tmp"  # a keeper that starts removes it
        return os.listdir(c.state / "images" / "sha256"), os.listdir(tmp) if tmp.exists() else []
    try:
        wait_for("layers to be pruned", lambda: [len(names) for names in left()] == [n, 0], 30)
    except TimeoutError as e:
        raise AssertionError(f"{left()}: {c.said('cayd')} {c.said('cay-keeper')}") from e


def test_a_layer_stays_while_it_is_used(own):
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo one >a"])
    first = snapshot(own, box)["id"]
    own.delete(box)
    box = own.create(None, snapshot=first)
    drop(own, first)
    refused("not_found", lambda: own.create(None, snapshot=first))
    own.exec(box, ["sh", "-c", "echo two >b"])
    restart(own, "cayd")
    assert own.exec(box, ["cat", "a", "b"]).text == "one\ntwo\n"
    act(own, box, "stop")
    second = snapshot(own, box)  # a layer over a layer whose snapshot is gone
    act(own, box, "start")
    own.delete(box)
    cay.let_pass(2.5)  # longer than between two runs of the walk
    assert len(os.listdir(own.state / "images" / "sha256")) == 3
    box = own.create(None, snapshot=second["id"])
    assert own.exec(box, ["cat", "a", "b"]).text == "one\ntwo\n"
    drop(own, second["id"])
    own.delete(box)
    gone(own)
    clean(own)


def test_no_process_runs_while_it_is_copied(daemon):
    """A program writes the same number to two files, one after the other; in a copy of a moment they differ by one at most."""
    box = daemon.create("tiny")
    daemon.exec_detached(box, ["sh", "-c", "mkdir m; i=0; while :; do i=$((i+1)); echo $i >a.new; mv a.new a; echo $i >m/z.new; mv m/z.new m/z; done"])
    daemon.exec(box, ["sh", "-c", "mkdir k; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i >k/$i; done"])
    wait_for("it to write", lambda: daemon.exec(box, ["cat", "m/z"]).exit_code == 0, 30)
    for _ in range(3):
        made = snapshot(daemon, box)
        of = daemon.create(None, snapshot=made["id"])
        a, z = (int(daemon.exec(of, ["cat", name]).text) for name in ("a", "m/z"))
        assert 0 <= a - z <= 1, (a, z)
        before = int(daemon.exec(box, ["cat", "a"]).text)
        wait_for("it to go on", lambda before=before: int(daemon.exec(box, ["cat", "a"]).text) > before, 30)
        daemon.delete(of)
        drop(daemon, made["id"])
    daemon.delete(box)


def everywhere(top, what):
    """Files below a directory that have these bytes in their content, name, target or attributes."""
    found = []
    for at, dirs, files in os.walk(top):
        for path in (os.path.join(at, name) for name in (*dirs, *files)):
            with contextlib.suppress(FileNotFoundError):  # layers of other tests may be pruned now
                data = os.path.basename(path).encode()
                if os.path.islink(path):
                    data += os.readlink(path).encode()
                elif os.path.isfile(path):
                    data += pathlib.Path(path).read_bytes()
                data += b"".join(os.getxattr(path, x, follow_symlinks=False) for x in os.listxattr(path, follow_symlinks=False))
                if what in data:
                    found.append(path)
    return found


def test_no_secret_is_in_it(daemon):
    """What a sandbox is given and never wrote to its disk is not part of it."""
    secret = "canary" + os.urandom(8).hex()
    box = daemon.create("tiny", env={"SECRET": secret}, labels={"of": secret}, entrypoint=["sh", "-c", f"A={secret}; sleep 1000"])
    wait_for("its entrypoint", lambda: daemon.get(box).get("entry"), 30)
    token = daemon.call("POST", f"/v1/sandboxes/{box}/token", {})["token"]
    daemon.exec(box, ["sh", "-c", "cat >/dev/shm/x; echo $SECRET >/dev/shm/y"], stdin=secret)
    daemon.exec_detached(box, ["sh", "-c", f"B={secret}; sleep 1000"], env={"C": secret})
    daemon.exec(box, ["sh", "-c", "echo public >a"])
    made = snapshot(daemon, box)
    layers = daemon.state / "images" / "sha256"
    assert everywhere(layers, b"public")  # it would be found
    for text in (secret, token):
        assert not everywhere(layers, text.encode()), text
    of = daemon.create(None, snapshot=made["id"])
    seen = daemon.exec(of, ["sh", "-c", f"env; cat /proc/*/environ /proc/*/cmdline; ls /dev/shm; grep -rl {secret[:10]} /etc /root /tmp /run /workspace /home"])
    assert secret not in seen.text and daemon.get(of)["labels"] == {}
    for name in (box, of):
        daemon.delete(name)
    drop(daemon, made["id"])


def test_another_tenant_finds_nothing(daemon):
    """A snapshot of another tenant looks like one that never was, to every operation that names one."""
    _, mine = new_tenant(daemon)
    _, other = new_tenant(daemon)
    box = mine.create("tiny")
    sn = snapshot(mine, box, name="mine")["id"]
    assert layer(daemon, sn).is_dir()
    digest = "sha256:" + layer(daemon, sn).name
    absent = "sn" + "0" * 23 + "1"
    own = other.create("tiny")

    def said(c, method, path, body=None):
        with pytest.raises(ApiError) as e:
            c.call(method, path, body)
        return e.value.status, e.value.code, words(e.value).replace(sn, "ID").replace(absent, "ID")

    for method, path, body in (("GET", "/v1/snapshots/{}", None), ("DELETE", "/v1/snapshots/{}", None), ("POST", "/v1/sandboxes", "snapshot")):
        asked = [said(other, method, path.format(i), {body: i} if body else None) for i in (sn, absent)]
        assert asked[0] == asked[1] and asked[0][:2] == (404, "not_found"), asked
    for image in (digest, digest[7:]):
        assert said(other, "POST", "/v1/sandboxes", {"image": image})[0] == 404
        assert said(mine, "POST", "/v1/sandboxes", {"image": image})[0] == 404  # a layer has no name
    assert not other.call("GET", "/v1/snapshots")["snapshots"] and not other.call("GET", f"/v1/snapshots?sandbox={box}")["snapshots"]
    for what in ("snapshots", "fork"):
        assert said(other, "POST", f"/v1/sandboxes/{box}/{what}", {})[0] == 404
    assert snapshot(other, own, name="mine")["name"] == "mine"  # names are of a tenant
    refused("conflict", lambda: snapshot(mine, box, name="mine"))
    assert [s["id"] for s in mine.call("GET", "/v1/snapshots?name=mine")["snapshots"]] == [sn]
    for c, name in ((mine, box), (other, own)):
        c.delete(name)
        drop(c, listed(c)[0]["id"])


def layer(c, sn):
    return c.state / "images" / "sha256" / hashlib.sha256(b"cay snapshot\0" + cay_id(sn)).hexdigest()


def words(e):
    return json.loads(e.body)["error"]["message"]


def test_another_group_finds_nothing(daemon):
    box = daemon.create("tiny", group="alice")
    sn = snapshot(daemon, box)["id"]
    for group, finds in (("alice", True), ("bob", False)):
        key = daemon.call("POST", "/v1/keys", {"tenant": DEFAULT, "name": group, "scope": "write", "group": group})
        who, said = daemon.edge(f"{actor('write', DEFAULT, key['key']['id'])} {group}", key["secret"]), []
        for method, path, body in (("GET", f"/v1/snapshots/{sn}", None), ("POST", "/v1/sandboxes", {"snapshot": sn}), ("DELETE", f"/v1/snapshots/{sn}", None)):
            if method != "DELETE" or not finds:
                reply = who.open(method, path, body)
                reply.read()
                said.append(reply.status)
        assert said == ([200, 201] if finds else [404] * 3) and len(listed(who)) == finds
    daemon.call("DELETE", "/v1/sandboxes?group=alice")
    drop(daemon, sn)


def cay_id(text):
    """The 16 bytes of an id: its noun's number, then 24 digits of five bits."""
    value = 0
    for digit in text[2:]:
        value = value * 32 + "0123456789abcdefghjkmnpqrstvwxyz".index(digit)
    return bytes([NOUN]) + value.to_bytes(15)


NOUN = 7  # of a snapshot, by its row in nouns.def


def fork(c, box, key=None, **body):
    reply = c.open("POST", f"/v1/sandboxes/{box}/fork", body, {"Idempotency-Key": key} if key else {}, 120)
    if reply.status != 200:
        raise ApiError(reply.status, reply.read())
    return outcomes(reply)


def test_forks_have_the_files_of_one_moment(own):
    box = own.create("tiny", env={"X": "y", "Z": "z"}, labels={"a": "b"}, limits={"pids": 77}, name="source", group="g")
    own.exec(box, ["sh", "-c", "echo here >me; seq 1 1000 >numbers"])
    rows = fork(own, box, count=20, env={"X": "n"}, labels={"c": "d"}, ttl_ms=3600000)
    forks = ids(rows)
    assert len(set(forks)) == 20 and box not in forks and sorted(r["index"] for r in rows) == list(range(20))
    for r in rows:
        info = r["sandbox"]
        assert info["labels"] == {"a": "b", "c": "d"} and info["limits"]["pids"] == 77 and "name" not in info and info["group"] == "g"
    own.exec(box, ["sh", "-c", "echo later >me"])
    for of in forks[:3]:
        assert own.exec(of, ["sh", "-c", "cat me; wc -l <numbers; echo $X$Z; hostname; echo $$ >me"]).text.split() == ["here", "1000", "nz", of]
    assert own.exec(forks[3], ["cat", "me"]).text == "here\n"
    wait_for("its snapshot to go", lambda: not listed(own) and not own.call("GET", "/v1/snapshots")["snapshots"], 30)
    assert len(os.listdir(own.state / "images" / "sha256")) == 2  # the layer is theirs
    named = fork(own, box, count=2, names=["left", "source"])  # one of them has a name that is taken
    assert [r.get("sandbox", {}).get("name") or r["error"]["code"] for r in sorted(named, key=lambda r: r["index"])] == ["left", "conflict"]
    again = [ids(fork(own, box, key="k", count=3)) for _ in range(2)]
    assert again[0] == again[1] and len(set(again[0])) == 3
    twin = own.create("tiny", env={"X": "y", "Z": "z"}, labels={"a": "b"}, limits={"pids": 77}, group="g")
    other = fork(own, twin, key="k", count=3)  # the same key for another sandbox
    assert [r["error"]["code"] for r in other] == ["idempotency_key_reused"] * 3, other
    own.delete(twin)
    refused("invalid_argument", lambda: fork(own, box, count=3, names=["a"]))
    for name in (box, *forks, *ids(named), *again[0]):
        own.delete(name)
    gone(own)
    clean(own)


def test_a_fork_rests_as_its_source_does(own):
    rules = {"stop_after_ms": 3600000, "on_expire": "stop", "idle": "requests", "rest_ttl_ms": 7200000, "wake": "never"}
    for given in (rules, {"idle_ms": 3600000}, {}):
        box = own.create("tiny", ttl_ms=3600000, **given)
        source, copy = own.get(box), fork(own, box, count=1, ttl_ms=3600000)[0]["sandbox"]
        for member in (*rules, "idle_ms"):
            assert source.get(member) == copy.get(member), (member, source, copy)
        assert given != rules or (copy["stop_after_ms"], copy["on_expire"], copy["wake"]) == (3600000, "stop", "never")
        assert ("idle_at" in source) == ("idle_at" in copy)
        own.delete(box)
        own.delete(copy["id"])


@pytest.mark.plain  # nothing can be loaded before ASan
def test_one_that_waits_for_a_copy_can_end():
    """Two of a tenant are copied at a time.  A sandbox whose snapshot waits runs on, and is deleted at once."""
    slow = pathlib.Path(BUILD).resolve() / "tests/integration/slow.so"
    with cay.Cay(BUILD, env={"LD_PRELOAD": str(slow)}) as c, concurrent.futures.ThreadPoolExecutor() as pool:
        c.image_import("tiny", tiny())
        boxes, asked = [c.create("tiny") for _ in range(4)], []
        for i, box in enumerate(boxes):
            asked.append(pool.submit(snapshot, c, box))
            wait_for("its row", lambda i=i: len(listed(c)) > i, 30)
        c.delete(boxes[2])
        assert not c.processes(boxes[2]) and not asked[0].done() and not asked[1].done()
        assert c.exec(boxes[3], ["true"]).exit_code == 0
        with pytest.raises(ApiError) as e:
            asked[2].result()
        assert e.value.code in ("not_found", "wrong_state")
        for a in (asked[0], asked[1], asked[3]):
            drop(c, a.result()["id"])
        for box in boxes[:2] + boxes[3:]:
            c.delete(box)


def test_a_fork_connects_no_further_than_its_source(daemon):
    """Without a policy it goes nowhere, whatever new sandboxes may."""
    tenant, who = new_tenant(daemon)
    box = who.create("tiny")
    daemon.call("POST", f"/v1/tenants/{tenant}", {"egress_default": {"default": "allow"}})
    (of,) = ids(fork(who, box))
    policies = [who.call("GET", f"/v1/sandboxes/{name}/egress") for name in (box, of)]
    assert policies[0]["policy"] == policies[1]["policy"] and policies[0]["digest"] == policies[1]["digest"], policies
    for name in (box, of):
        who.delete(name)


def test_what_is_refused(own):
    tenant, who = new_tenant(own, quotas={"snapshots": 2})
    box, memory = who.create("tiny"), who.create("tiny", storage="memory")
    refused("unsupported", lambda: snapshot(who, memory))
    made = [snapshot(who, box)["id"] for _ in range(2)]
    refused("limit_exceeded", lambda: snapshot(who, box))
    refused("limit_exceeded", lambda: fork(who, box))
    assert own.call("GET", f"/v1/tenants/{tenant}")["usage"]["snapshots"] == 2
    for body in ({"image": "tiny"}, {"template": "none"}, {"packages": {"python": {"x": ""}}}):
        refused("invalid_argument", lambda body=body: who.call("POST", "/v1/sandboxes", {"snapshot": made[0], **body}))
    refused("permission_denied", lambda: snapshot(asks(own, "write", tenant, box), box))
    drop(who, made[0])
    refused("not_found", lambda: drop(who, made[0]))
    snapshot(who, box)
    who.delete(box)
    refused("wrong_state", lambda: snapshot(who, box))
    who.delete(memory)
    for s in listed(who):
        drop(who, s["id"])
    gone(own)


def test_many_snapshots_at_once(own):
    """One of one sandbox at a time; each request has an answer."""
    box, at_once = own.create("tiny"), threading.Barrier(12)
    own.exec(box, ["sh", "-c", "dd if=/dev/urandom of=a bs=1M count=2 2>/dev/null"])

    def ask():
        at_once.wait(30)
        return own.call("POST", f"/v1/sandboxes/{box}/snapshots", {}, timeout_s=20)

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for _ in range(10):  # several rows are written together in some of them
            asked = [pool.submit(ask) for _ in range(12)]
            assert not concurrent.futures.wait(asked, 60).not_done
            made = [a.result()["id"] for a in asked if not a.exception()]
            assert made and {a.exception().code for a in asked if a.exception()} <= {"unavailable"}
            assert sorted(s["id"] for s in listed(own)) == sorted(made)
            for sn in made:
                drop(own, sn)
    own.delete(box)
    gone(own)


def test_paths_without_end(own):
    """A tree deeper than a path can name is copied or refused; the sandbox goes on, and nothing is left of it."""
    box = own.create("tiny")
    counting = own.exec_detached(box, COUNT)
    own.exec(box, ["sh", "-c", "i=0; while [ $i -lt 700 ]; do i=$((i+1)); mkdir aaaaaaaa && cd -P aaaaaaaa || exit 3; done; echo deep >a"])
    try:
        drop(own, snapshot(own, box)["id"])
    except ApiError as e:
        assert e.code == "unsupported" and "4,095 bytes" in words(e)
    wait_for("it to go on", lambda: going_on(own, box, counting), 30)
    gone(own)
    own.delete(box)
    clean(own)


@pytest.mark.plain  # nothing can be loaded before ASan
def test_it_goes_on_before_the_copy_is_durable():
    """It is frozen while its files are copied, and not while the disk writes the copy."""
    slow = pathlib.Path(BUILD).resolve() / "tests/integration/slow.so"
    with cay.Cay(BUILD, env={"LD_PRELOAD": str(slow)}) as c, concurrent.futures.ThreadPoolExecutor() as pool:
        c.image_import("tiny", tiny())
        box = c.create("tiny")
        counting = c.exec_detached(box, COUNT)
        wait_for("it to count", lambda: going_on(c, box, counting), 30)
        asked = pool.submit(snapshot, c, box)
        copies = c.state / "images" / "tmp"
        wait_for("the copy", lambda: asked.done() or any(not (d / "disk/work").exists() for d in copies.glob("*") if (d / "disk/upper").exists()), 30)
        assert going_on(c, box, counting) and not asked.done()
        drop(c, asked.result()["id"])
        c.delete(box)


def test_the_bound_of_a_template_stays(own):
    """What bounds the connections of a sandbox bounds those of sandboxes with its files, however long the template is gone."""
    kind = template(own, "kind", ALLOW)["id"]
    box = own.call("POST", "/v1/sandboxes", {"template": "kind", "egress": {}})["id"]
    sn = snapshot(own, box)["id"]
    own.delete(box)
    own.call("DELETE", "/v1/templates/" + kind)
    restart(own, "cayd")
    for _ in range(2):  # also what is made of what was made of it
        box = own.create(None, snapshot=sn)  # without a policy it reaches nothing: it needs no cay-egress
        assert policy(own, box)["template"]["rules"] == ALLOW["rules"]
        refused("egress_unavailable", lambda sn=sn: own.create(None, snapshot=sn, egress=ALLOW))
        drop(own, sn)
        sn = snapshot(own, box)["id"]
        own.delete(box)
    drop(own, sn)
    gone(own)


def followed(c, seen, ready):
    reply = c.open("GET", "/v1/events?follow=true", headers={"Accept": "text/event-stream"}, timeout_s=60)
    kind = None
    while line := reply.readline():
        ready.set()
        if line.startswith(b"event: "):
            kind = line[7:].strip()
        elif line.startswith(b"data: ") and kind == b"snapshot":
            seen.append(json.loads(line[6:]))
            if seen[-1].get("name") == "last" and seen[-1]["state"] == "deleting":
                return


def test_the_snapshot_of_a_fork_is_nobodys(own):
    """No event tells of it, and no create can name it while it is there."""
    seen, ready = [], threading.Event()
    follows = threading.Thread(target=followed, args=(own, seen, ready))
    follows.start()
    assert ready.wait(30)
    box = own.create("tiny")
    reply = own.open("POST", f"/v1/sandboxes/{box}/fork", {"count": 20}, {}, 120)
    line = reply.readline()
    while not line.startswith(b"data: "):
        line = reply.readline()
    of = json.loads(line[6:])["sandbox"]
    refused("not_found", lambda: own.create(None, snapshot=of["snapshot"]))
    forks = [of["id"], *ids(outcomes(reply))]
    last = snapshot(own, box, name="last")["id"]
    drop(own, last)
    follows.join(30)
    assert [(s["id"], s["state"]) for s in seen] == [(last, "ready"), (last, "deleting")]
    for name in (box, *forks):
        own.delete(name)
    gone(own)


def test_the_table_of_images_has_a_config_once(own):
    """A layer has that of its image, which is read from there after a restart."""
    box = own.create("tiny")
    first = snapshot(own, box)["id"]
    own.delete(box)
    box = own.create(None, snapshot=first)
    second = snapshot(own, box)["id"]
    rows = json.loads((own.state / "db/images.json").read_text())["images"]
    assert ["FROM" in json.dumps(r["config"]) for r in rows] == [True, False, False]
    restart(own, "cayd")
    for sn in (first, second):
        of = own.create(None, snapshot=sn)
        assert own.exec(of, ["sh", "-c", "echo $FROM; pwd"]).text == "image\n/workspace\n"
        own.delete(of)
        drop(own, sn)
    own.delete(box)
    gone(own)


def test_one_without_its_layer_is_found(own):
    """fsck names it, and --repair deletes it with the files it may still have."""
    box = own.create("tiny")
    kept, lost = (snapshot(own, box)["id"] for _ in range(2))
    value = lambda state: int(metrics(own)["cay_snapshots", (("state", state),)])
    assert value("ready") == 2 and value("creating") == 0
    own.kill_daemon("cayd")
    table = own.state / "db/images.json"
    rows = json.loads(table.read_text())
    rows["images"] = [r for r in rows["images"] if r.get("layer") != layer(own, lost).name]
    table.write_text(json.dumps(rows))
    own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    found = own.call("GET", "/v1/fsck")["findings"]
    assert [(f["kind"], f["sandbox"], f["snapshot"]) for f in found] == [("hollow", box, lost)]
    refused("not_found", lambda: own.create(None, snapshot=lost))
    assert own.call("POST", "/v1/fsck")["findings"][0]["repaired"] is True
    wait_for("it to go", lambda: [s["id"] for s in listed(own)] == [kept] and not layer(own, lost).exists(), 30)
    assert not own.call("GET", "/v1/fsck")["findings"] and layer(own, kept).is_dir()
    own.delete(box)
    drop(own, kept)
    gone(own)


def test_it_expires(own):
    box = own.create("tiny")
    made = snapshot(own, box, ttl_ms=3000)
    kept = snapshot(own, box, ttl_ms=3600000)
    assert made["expires_at"] > made["created_at"]
    wait_for("it to expire", lambda: [s["id"] for s in listed(own)] == [kept["id"]], 30)
    own.delete(box)
    drop(own, kept["id"])
    gone(own)


def test_the_layers_of_a_deep_one(own):
    """What was changed is compared with all of them, sixteen with the image; test_flatten.py has the next one."""
    box, made = own.create("tiny"), []
    for n in range(15):
        own.exec(box, ["sh", "-c", f"echo {n} >n{n}"])
        made.append(snapshot(own, box)["id"])
        own.delete(box)
        box = own.create(None, snapshot=made[-1])
    assert own.exec(box, ["sh", "-c", "cat n? n1?"]).text.split() == [str(n) for n in range(15)]
    own.exec(box, ["sh", "-c", "rm n0; echo x >n14"])
    found = {row["path"]: row["kind"] for row in own.call("GET", f"/v1/sandboxes/{box}/changes")["changes"]}
    assert (found["/workspace/n0"], found["/workspace/n14"]) == ("deleted", "modified")
    own.delete(box)
    for sn in made:
        drop(own, sn)
    gone(own)
    clean(own)


CYCLES = 1000 if os.environ.get("CAY_FULL") else 50


def objects(c):
    """How many there are of all that a snapshot or a fork makes; rows of sandboxes that ended stay for a day."""
    c.daemons["cayd"].terminate()  # which has the journal alone
    c.daemons["cayd"].wait(30)
    with contextlib.closing(sqlite3.connect(f"file:{c.state}/db/journal.db?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT count(*) FROM snapshot").fetchone()[0]
    c.start_cayd()
    wait_for("the link", lambda: linked(c), 30)
    left = residue(c)
    return {"rows": rows, "images": len(json.loads((c.state / "db/images.json").read_text())["images"]),
            "live": len(c.call("GET", "/v1/sandboxes?state=live")["sandboxes"]),
            "directories": sorted(str(d) for d in c.state.glob("*/*") if d.parent.name != "db" and d.is_dir()),
            "layers": sorted(os.listdir(c.state / "images/sha256")), "tmp": len(list(c.state.glob("images/tmp/*"))),
            "fds": {name: len(os.listdir(f"/proc/{c.pids()[name]}/fd")) for name in ("cay-keeper",)},
            **{k: len(left[k]) for k in ("boxes", "ranges", "trash", "sockets", "cgroups", "mounts", "networks")}}


def test_again_and_again(own):
    """Snapshot, create, fork, delete: as many objects of every kind at the end as at the beginning."""
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo here >me"])
    before = objects(own)
    for i in range(CYCLES):
        sn = snapshot(own, box)["id"]
        of = own.create(None, snapshot=sn)
        forks = ids(fork(own, of, count=2))
        if i % 10 == 0:
            assert own.exec(forks[1], ["cat", "me"]).text == "here\n"
        drop(own, sn)
        for name in (of, *forks):
            own.delete(name)
    gone(own)
    wait_for("the trash", lambda: not residue(own)["trash"], 30)
    for _ in range(5):  # the row of a layer goes after its files, and a worker after its answer
        after = objects(own)
        if after == before:
            break
        cay.let_pass(1)
    assert after == before and before["rows"] == 0 and not listed(own), (before, after)
    own.delete(box)
    clean(own)


POINTS = {"cayd": ["snapshot:wanted", "snapshot:copy", "snapshot:made", "snapshot:layer", "snapshot:ready"],
          "cay-keeper": ["snapshot:frozen", "snapshot:copied", "snapshot:named", "snapshot:thawed"]}


@pytest.mark.parametrize("how", ["kill", "error"])
@pytest.mark.parametrize("what", ["snapshot", "fork"])
@pytest.mark.parametrize("program,point", [(program, point) for program, points in POINTS.items() for point in points])
def test_cut_off_anywhere(own, program, point, what, how):
    """There is a whole snapshot or none, and the source is neither frozen nor changed."""
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo here >me; seq 1 5000 >numbers"])
    counting = own.exec_detached(box, COUNT)
    before = upper(own, box)
    own.kill_daemon(program)
    own.env["CAY_FAULT"] = f"{point}={how}"
    own.start_keeper() if program == "cay-keeper" else own.start_cayd()
    del own.env["CAY_FAULT"]
    wait_for("the link", lambda: linked(own), 30)
    try:
        done = snapshot(own, box, name="cut") if what == "snapshot" else fork(own, box)
    except (OSError, ApiError, cay.http.client.HTTPException):
        done = None
    if own.daemons[program].poll() is None:
        own.kill_daemon(program)
    own.start_keeper() if program == "cay-keeper" else own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    wait_for("it to go on", lambda: going_on(own, box, counting), 30)
    assert own.get(box)["state"] == "running" and upper(own, box) == before
    for s in listed(own):
        assert s["state"] == "ready" and s["name"] == "cut"
        of = own.create(None, snapshot=s["id"])
        assert own.exec(of, ["sh", "-c", "cat me; wc -l <numbers"]).text.split() == ["here", "5000"]
        own.delete(of)
        drop(own, s["id"])
    made = snapshot(own, box, name="cut")  # the name is free
    drop(own, made["id"])
    for s in own.call("GET", "/v1/sandboxes?state=live")["sandboxes"]:
        own.delete(s["id"])
    assert done is None or how == "error", "cut off, and answered"
    gone(own)
    clean(own)


def going_on(c, box, counting):
    before = numbers(c, box, counting)
    cay.let_pass(0.1)
    return len(numbers(c, box, counting)) > len(before)


def copying(c):
    """The process that copies, once it does."""
    for pid in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if pid.isdigit() and pathlib.Path(f"/proc/{pid}/comm").read_text() == "cp\n" and os.listdir(c.state / "images" / "tmp"):
                return int(pid)
    return None


@pytest.mark.parametrize("who", ["cayd", "cay-keeper", "worker", "cp"])
def test_one_dies_while_it_is_copied(own, who):
    """Its processes stand still then: they go on, and nothing is left of the copy."""
    box = own.create("tiny")
    assert own.exec(box, ["sh", "-c", "mkdir d; cd d; dd if=/dev/urandom of=0 bs=1M count=8 2>/dev/null; i=0; while [ $i -lt 40 ]; do i=$((i+1)); cp 0 $i; done"]).exit_code == 0
    counting = own.exec_detached(box, COUNT)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(snapshot, own, box)
        wait_for("the copy", lambda: copying(own) or asked.done(), 30)
        pid = copying(own)
        assert pid, asked.result()
        if who == "cp":  # whose memory a tree of many names would fill
            wait_for("its limit", lambda: re.search(r"Max address space +536870912 ", pathlib.Path(f"/proc/{pid}/limits").read_text()), 10)
        if who in ("cayd", "cay-keeper"):
            own.kill_daemon(who)
        else:
            parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
            os.kill(pid if who == "cp" else parent, signal.SIGKILL)
        try:
            drop(own, asked.result()["id"])
            assert who == "cay-keeper"  # whose workers go on
        except (OSError, ApiError, cay.http.client.HTTPException):
            pass
    if who == "cay-keeper":
        own.start_keeper()
    if who == "cayd":
        own.start_cayd()
    wait_for("the link", lambda: linked(own), 30)
    wait_for("it to go on", lambda: going_on(own, box, counting), 30)
    gone(own)
    assert not listed(own)
    made = snapshot(own, box)
    drop(own, made["id"])
    own.delete(box)
    gone(own)
    clean(own)


def test_every_failpoint_of_it_is_here():
    assert {p for points in POINTS.values() for p in points} == set(SNAPSHOT_POINTS)


@pytest.mark.parametrize("names", [["cayd"], ["cay-keeper"], ["cay-keeper", "cayd"]], ids="+".join)
def test_it_outlives_daemons(own, names):
    box = own.create("tiny")
    own.exec(box, ["sh", "-c", "echo here >me"])
    made = snapshot(own, box, name="kept", labels={"a": "b"})
    own.delete(box)
    restart(own, *names)
    assert listed(own) == [made]
    of = own.create(None, snapshot=made["id"])
    assert own.exec(of, ["cat", "me"]).text == "here\n"
    own.delete(of)
    drop(own, made["id"])
    gone(own)
    clean(own)


@pytest.mark.plain  # nothing can be loaded before ASan
def test_a_full_disk_leaves_nothing(disk):
    """No space is left half way through the copy: an error that says so, no part of a copy, and the source goes on."""
    room = pathlib.Path(BUILD).resolve() / "tests/integration/room.so"
    with cay.Cay(BUILD, state_top=disk.at, env={"LD_PRELOAD": str(room)}) as c:
        c.image_import("tiny", tiny())
        box = c.create("tiny")
        counting = c.exec_detached(box, COUNT)
        assert c.exec(box, ["sh", "-c", "mkdir d; for i in 1 2 3 4 5 6 7 8 9; do dd if=/dev/urandom of=d/$i bs=1M count=3; done 2>/dev/null"]).exit_code == 0
        (disk.at / "filler").write_bytes(b"x" * (16 << 20))
        refused("disk_full", lambda: snapshot(c, box))
        wait_for("it to go on", lambda: going_on(c, box, counting), 30)
        gone(c)
        assert not listed(c)
        (disk.at / "filler").unlink()
        made = snapshot(c, box)
        drop(c, made["id"])
        gone(c)
        c.delete(box)


def test_it_outlives_the_power(disk):
    """What the disk has at the moment of the reply is all that is left, without what the kernel has not written yet."""
    cut = disk.file.with_name("cut")
    sums = ["sh", "-c", "find /workspace /etc/of -type f | sort | xargs sha256sum; ls -ld d d/* | wc -l"]
    with cay.Cay(BUILD, state_top=disk.at) as c:
        own_image(c)
        box = c.create("files")
        subprocess.run(["sync", "-f", disk.at], check=True)  # what is there before it
        assert c.exec(box, ["sh", "-c", TREE + "echo x >/etc/of"], user="root").exit_code == 0
        before = c.exec(box, sums).text
        sn = snapshot(c, box, name="kept")["id"]
        subprocess.run(["cp", "--sparse=always", disk.file, cut], check=True)
        for name in ("cayd", "cay-keeper"):
            c.kill_daemon(name)
        c._remove_cgroups()
        shutil.rmtree(c.run)
        disk.umount()
        os.replace(cut, disk.file)
        disk.mount()
        c.start_keeper()
        c.start_cayd()
        wait_for("the link", lambda: linked(c), 30)
        assert [s["id"] for s in listed(c)] == [sn] and not [f for f in c.call("GET", "/v1/fsck")["findings"] if f["kind"] == "hollow"]
        of = c.create(None, snapshot=sn)
        assert c.exec(of, sums).text == before
        drop(c, sn)
        for name in (box, of):
            with contextlib.suppress(ApiError):  # the one that ran is gone
                c.delete(name)
