# SPDX-License-Identifier: Apache-2.0
"""The upload area of a group: files outside any sandbox, for every sandbox of the group."""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import urllib.parse

import cay
import pytest
from cay import ApiError, wait_for
from conftest import BUILD
from test_control import refused
from test_tenants import DEFAULT, asks

SIZES = (0, 1, 20 << 20)
WORDS = ("..", ".", "a/b", "../../etc", "%2e%2e", "new", "x" * 63, "~!@#$^&*()[]{}")


def q(**fields):
    return "/v1/uploads?" + urllib.parse.urlencode(fields, quote_via=urllib.parse.quote)


def put(c, group, name, data, **fields):
    return c.call("PUT", q(group=group, name=name, **fields), data)


def names(c, group):
    return [u["name"] for u in c.call("GET", q(group=group))["uploads"]]


def drop(c, group, name):
    return c.call("DELETE", q(group=group, name=name))


def forget(c, group):
    return c.call("DELETE", "/v1/sandboxes?" + urllib.parse.urlencode({"group": group}))


def fill(c, box, name, to="."):
    return c.call("POST", f"/v1/sandboxes/{box}/files/import", {"upload": name, "to": to})


def read(c, box, path):
    reply = c.open("GET", f"/v1/sandboxes/{box}/files/content?" + urllib.parse.urlencode({"path": path}, quote_via=urllib.parse.quote))
    assert reply.status == 200, reply.read()
    return reply.read()


def coming(c):
    """What is neither an upload yet nor any more."""
    return os.listdir(c.state / "uploads/new")


def on_disk(c):
    """Everything that has a name, from the area's top."""
    top = c.state / "uploads"
    return sorted(str(p.relative_to(top)) for p in top.rglob("*") if p.is_file())


@contextlib.contextmanager
def begun(c, group, name, n, data):
    """A connection that has said so much of an upload and no more."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(c.socket)
        s.sendall(f"PUT {q(group=group, name=name)} HTTP/1.1\r\nHost: cay\r\nContent-Type: application/octet-stream\r\n"
                  f"Content-Length: {n}\r\n\r\n".encode() + data)
        yield s


@pytest.fixture
def group(daemon):
    name = "g" + secrets.token_hex(4)
    yield name
    forget(daemon, name)


@pytest.fixture
def small():
    """Daemons whose tenants may keep a megabyte."""
    with cay.Cay(BUILD, env={"CAY_UPLOADS_SIZE": "1Mi"}) as c:
        yield c


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back(daemon, group, size):
    data = os.urandom(size)
    made = put(daemon, group, "a.bin", data, size=size, sha256=hashlib.sha256(data).hexdigest())
    assert (made["name"], made["size"], made["sha256"]) == ("a.bin", size, hashlib.sha256(data).hexdigest())
    assert daemon.call("GET", q(group=group))["uploads"] == [made]
    box = daemon.create("tiny", group=group)
    got = fill(daemon, box, "a.bin", "in/deep")
    assert (got["files"], got["bytes"]) == (1, size)
    assert read(daemon, box, "in/deep/a.bin") == data
    assert drop(daemon, group, "a.bin") == made
    assert names(daemon, group) == [] and read(daemon, box, "in/deep/a.bin") == data
    refused("not_found", drop, daemon, group, "a.bin")
    refused("not_found", fill, daemon, box, "a.bin")
    assert coming(daemon) == []


def test_two_sandboxes_of_the_group_and_none_of_another(daemon, group):
    put(daemon, group, "plan.txt", b"the plan")
    for _ in range(2):
        box = daemon.create("tiny", group=group)
        fill(daemon, box, "plan.txt")
        assert read(daemon, box, "plan.txt") == b"the plan"
    other = daemon.create("tiny", group=group + "x")
    alone = daemon.create("tiny")
    refused("not_found", fill, daemon, other, "plan.txt")
    refused("invalid_argument", fill, daemon, alone, "plan.txt")
    for wrong in ({}, {"upload": "plan.txt", "from": other}, {"upload": "plan.txt", "path": "x"}, {"upload": "../plan.txt"}):
        refused("invalid_argument", daemon.call, "POST", f"/v1/sandboxes/{box}/files/import", wrong)
    daemon.call("POST", f"/v1/sandboxes/{box}/pause")
    refused("wrong_state", fill, daemon, box, "plan.txt")
    for name in (other, alone):
        daemon.delete(name)


def test_a_directory_in_its_place_is_told(daemon, group):
    """The sandbox's own answer, and nothing of ours hangs on it."""
    put(daemon, group, "d", os.urandom(5 << 20))
    box = daemon.create("tiny", group=group)
    daemon.exec(box, ["mkdir", "d"])
    refused("conflict", fill, daemon, box, "d")
    assert fill(daemon, box, "d", "here")["files"] == 1


def test_what_does_not_become_whole_leaves_the_old_one(daemon, group):
    put(daemon, group, "f", b"old")
    with begun(daemon, group, "f", 1 << 20, b"x" * 5000):
        wait_for("it to be written down", lambda: coming(daemon), 20)
    wait_for("it to be gone", lambda: not coming(daemon), 20)
    refused("invalid_argument", lambda: put(daemon, group, "f", b"new", size=4))
    refused("invalid_argument", lambda: put(daemon, group, "f", b"new", size=2))
    refused("invalid_argument", lambda: put(daemon, group, "f", b"new", sha256="0" * 64))
    wait_for("them to be gone", lambda: not coming(daemon), 20)
    box = daemon.create("tiny", group=group)
    fill(daemon, box, "f")
    assert read(daemon, box, "f") == b"old"
    put(daemon, group, "f", b"new")
    fill(daemon, box, "f")
    assert read(daemon, box, "f") == b"new" and names(daemon, group) == ["f"]


def test_one_that_is_replaced_while_it_is_poured_is_the_old_one_or_the_new(daemon, group):
    put(daemon, group, "f", b"a" * (4 << 20))
    box = daemon.create("tiny", group=group)

    def change(i):
        put(daemon, group, "f", (b"a", b"b")[i % 2] * (4 << 20))
    with concurrent.futures.ThreadPoolExecutor(2) as two:
        changes = two.submit(lambda: [change(i) for i in range(6)])
        for i in range(6):
            assert fill(daemon, box, "f", f"t{i}")["bytes"] == 4 << 20
            assert len(set(read(daemon, box, f"t{i}/f"))) == 1
        changes.result()


@pytest.mark.parametrize("name", ["..", ".", "/", "/a", "a/", "a//b", "../x", "a/..", "a/./b", "a/../../x", "a\0b", "a\x01b", "a\n", "a\x7f", "", "x" * 241])
def test_a_name_that_is_none(daemon, group, name):
    before = on_disk(daemon)
    refused("invalid_argument", put, daemon, group, name, b"x")
    refused("invalid_argument", drop, daemon, group, name)
    assert on_disk(daemon) == before and not coming(daemon)


def test_names_that_are_some(daemon, group):
    good = sorted(["a", "x" * 240, "A.B", "-rf", "_", "a..b", "1", "a b", ".hidden", "b/c/d e.csv", "b/x", "b/.x/...", "\u00e4\u8cc7\u6599.pdf", "%2e%2e%2f", "x" * 100 + "/" + "y" * 139])
    for name in good:
        put(daemon, group, name, name.encode())
    assert names(daemon, group) == good
    box = daemon.create("tiny", group=group)
    for name in good:
        fill(daemon, box, name, "in")
        assert read(daemon, box, "in/" + name) == name.encode()


@pytest.mark.parametrize("word", WORDS)
def test_a_group_may_be_any_word(daemon, word):
    put(daemon, word, "a", b"1")
    assert f"{DEFAULT}/{word.encode().hex()}/a" in on_disk(daemon)
    assert names(daemon, word) == ["a"] and not names(daemon, word[:-1] + "_")
    forget(daemon, word)
    assert not names(daemon, word) and not any(p.split("/")[1] == word.encode().hex() for p in on_disk(daemon))


def test_a_group_that_is_deleted_takes_them_along(daemon, group):
    box = daemon.create("tiny", group=group)
    put(daemon, group, "a", b"1")
    put(daemon, group, "b", b"2")
    put(daemon, group + "x", "a", b"stays")
    assert [s["id"] for s in forget(daemon, group)["sandboxes"]] == [box]
    # all of it is gone when it is answered
    assert names(daemon, group) == [] and not coming(daemon)
    assert names(daemon, group + "x") == ["a"]
    forget(daemon, group + "x")


def test_what_comes_while_its_group_is_deleted_is_refused(daemon, group):
    with begun(daemon, group, "f", 2, b"x") as s, begun(daemon, group + "x", "f", 2, b"x") as other:
        wait_for("both to have begun", lambda: len(coming(daemon)) == 2, 20)
        forget(daemon, group)
        for c in (s, other):
            c.sendall(b"y")
        assert (s.recv(64).split()[1], other.recv(64).split()[1]) == (b"409", b"200")
    assert names(daemon, group) == [] and names(daemon, group + "x") == ["f"]
    forget(daemon, group + "x")


def at_once(c, requests):
    """The status of each, all of them there before any is looked at."""
    with contextlib.ExitStack() as open_:
        asked = [open_.enter_context(socket.socket(socket.AF_UNIX)) for _ in requests]
        c.daemons["cayd"].send_signal(signal.SIGSTOP)
        for s, request in zip(asked, requests):
            s.settimeout(30)
            s.connect(c.socket)
            s.sendall(f"{request} HTTP/1.1\r\nHost: cay\r\n\r\n".encode())
        c.daemons["cayd"].send_signal(signal.SIGCONT)
        return [s.recv(64).split()[1] for s in asked]


def test_many_groups_go_at_once(own):
    """They take turns at the disk, and none of them is told to ask again."""
    groups = [f"g{i}" for i in range(60)]
    for group in groups:
        put(own, group, "f", b"x")
    assert set(at_once(own, [f"DELETE /v1/sandboxes?group={g}" for g in groups])) == {b"200"}
    assert on_disk(own) == []


def test_a_tenant_that_asks_too_much_at_once_is_told(own):
    """Eight that wait for the disk are enough; how long it takes them is chance."""
    many(own, 1000)

    def ask_sixty():
        said = at_once(own, [f"GET {q(group='many')}"] * 60)
        assert set(said) <= {b"200", b"429"} and said.count(b"200") >= 8, said
        return b"429" in said

    wait_for("some to be refused", ask_sixty, 60)
    assert len(names(own, "many")) == 1000


def test_another_tenants_group_of_the_same_name(daemon, group):
    tenant = daemon.call("POST", "/v1/tenants", {"name": "t" + secrets.token_hex(4)})["id"]
    them = asks(daemon, "write", tenant)
    put(daemon, group, "a", b"ours")
    assert names(them, group) == []
    refused("not_found", drop, them, group, "a")
    put(them, group, "a", b"theirs!")
    put(them, group, "b", b"more")
    box, their = daemon.create("tiny", group=group), them.create("tiny", group=group)
    fill(daemon, box, "a")
    assert read(daemon, box, "a") == b"ours"
    refused("not_found", fill, daemon, box, "b")
    refused("not_found", fill, daemon, their, "a")
    fill(them, their, "a")
    assert read(them, their, "a") == b"theirs!"
    forget(them, group)
    assert names(daemon, group) == ["a"]
    # and what one needs to be allowed
    put(them, group, "a", b"again")
    reads = asks(daemon, "read", tenant)
    assert names(reads, group) == ["a"]
    refused("permission_denied", put, reads, group, "a", b"x")
    refused("permission_denied", drop, reads, group, "a")
    for key in daemon.call("GET", "/v1/keys?limit=1000")["keys"]:
        if key["tenant"] == tenant:
            daemon.call("POST", f"/v1/keys/{key['id']}/revoke")
    wait_for("its sandboxes to be gone", lambda: not daemon.processes(their), 30)
    daemon.call("DELETE", f"/v1/tenants/{tenant}")
    wait_for("them to go with it", lambda: not any(p.startswith(tenant) for p in on_disk(daemon)), 30)


def test_a_tenant_has_a_quota(small):
    put(small, "a", "f", b"x" * (600 << 10))
    refused("limit_exceeded", put, small, "b", "f", b"x" * (600 << 10))
    refused("limit_exceeded", lambda: put(small, "b", "f", b"", size=600 << 10))
    with begun(small, "b", "f", 1 << 30, b"x" * (600 << 10)) as s:  # refused in the middle, not at the end
        assert s.recv(64).split()[1] == b"429"
    put(small, "b", "f", b"x" * (400 << 10))
    # the one it replaces does not count
    put(small, "a", "f", b"y" * (620 << 10))
    refused("limit_exceeded", put, small, "a", "f", b"z" * (700 << 10))
    drop(small, "b", "f")
    put(small, "a", "f", b"z" * (1 << 20))
    refused("limit_exceeded", put, small, "a", "g", b"1")
    put(small, "a", "g", b"")
    wait_for("nothing to be left", lambda: not coming(small), 20)
    tenant = small.call("POST", "/v1/tenants", {"name": "t"})["id"]
    put(asks(small, "write", tenant), "a", "f", b"x" * (1 << 20))


def test_two_at_once_are_not_more_than_there_is_room_for(small):
    """Each alone would fit."""
    with begun(small, "a", "f", 600 << 10, b"x" * (500 << 10)) as one, begun(small, "b", "f", 600 << 10, b"x" * (500 << 10)) as two:
        wait_for("both to have begun", lambda: len(coming(small)) == 2, 20)
        for s in (one, two):
            s.sendall(b"x" * (100 << 10))
        assert sorted(s.recv(64).split()[1] for s in (one, two)) == [b"200", b"429"]
    assert len(on_disk(small)) == 1


def bytes_of(c):
    """All that the area takes, complete or not; one that gets its name meanwhile is met twice."""
    found = {}
    for at, _, files in os.walk(c.state / "uploads"):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                st = os.stat(os.path.join(at, name))
                found[st.st_ino] = st.st_size
    return sum(found.values())


def test_who_began_before_another_was_complete_has_the_room_that_is_left(small):
    """An upload that only waits would otherwise have the room from before for an hour, beside what was stored since."""
    with contextlib.ExitStack() as open_:
        waiting = [open_.enter_context(begun(small, f"w{i}", "f", 1 << 30, b"x")) for i in range(3)]
        wait_for("them to have begun", lambda: len(coming(small)) == 3, 20)
        put(small, "a", "f", b"x" * (1000 << 10))
        for s in waiting:  # a piece is at most 64 KiB
            s.sendall(b"x" * (20 << 10))
        assert bytes_of(small) <= 1 << 20
        for s in waiting:
            with contextlib.suppress(ConnectionError):
                s.sendall(b"x" * (600 << 10))
            assert s.recv(64).split()[1] == b"429"
        assert bytes_of(small) <= 1 << 20
    wait_for("nothing to be left", lambda: not coming(small), 20)
    drop(small, "a", "f")
    put(small, "a", "g", b"x" * (1 << 20))


def test_many_at_once_never_take_more_than_the_quota(small):
    """Four that write and break off, again and again; the area is looked at all the while, and is empty for the next in the end."""
    most, over = 0, []

    def abuse(i):
        for n in range(12):
            with begun(small, f"g{i}", f"f{n}", 700 << 10, b"x" * (300 << 10)) as s:
                s.sendall(b"x" * ((400 << 10) - (n % 3 > 0)))  # one of three is complete
                if n % 3 == 0:
                    over.append(s.recv(64).split()[1])

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        jobs = [pool.submit(abuse, i) for i in range(4)]
        while not all(j.done() for j in jobs):
            most = max(most, bytes_of(small))
    for job in jobs:
        with contextlib.suppress(ConnectionError):
            job.result()
    assert 300 << 10 < most <= 1 << 20 and {b"200"} < set(over) <= {b"200", b"429"}, (most, over)
    wait_for("nothing to be left", lambda: not coming(small), 20)
    for i in range(4):
        forget(small, f"g{i}")
    put(small, "a", "f", b"x" * (1 << 20))


def stalled_disk(c):
    """Its workers cannot unlink: as slow as a disk can be."""
    pid = c.daemons["cayd"].pid
    trace = subprocess.Popen(["strace", "-f", "-p", str(pid), "-e", "trace=unlinkat", "-e", "inject=unlinkat:delay_enter=2000000"],
                             stderr=subprocess.DEVNULL)
    wait_for("the tracer", lambda: cay.traced(pid), 30)
    return trace


def test_what_was_broken_off_is_given_back_also_by_a_kill(small):
    """The next one waits until it is removed, and then has its room."""
    with begun(small, "a", "f", 900 << 10, b"x" * (800 << 10)):
        wait_for("it to be stored", lambda: bytes_of(small) >= 500 << 10, 20)
        refused("rate_limited", put, small, "b", "f", b"x" * (600 << 10))
        small.kill_daemon("cayd")
    small.start_cayd()
    put(small, "b", "f", b"x" * (1 << 20))
    drop(small, "b", "f")
    most = 0
    with stalled_disk(small) as trace, concurrent.futures.ThreadPoolExecutor(1) as one:
        with begun(small, "a", "f", 900 << 10, b"x" * (800 << 10)):
            wait_for("it to be stored", lambda: bytes_of(small) >= 500 << 10, 20)
        done = one.submit(put, small, "b", "f", b"x" * (1 << 20))
        try:
            while not done.done():
                most = max(most, bytes_of(small))
        finally:
            trace.terminate()
    assert done.result()["size"] == 1 << 20 and most <= 1 << 20, most


def test_a_tenant_that_breaks_uploads_off_leaves_slots_to_others(daemon, group):
    """Removed slowly, those of one tenant would be all that control has."""
    tenant = daemon.call("POST", "/v1/tenants", {"name": "t" + secrets.token_hex(4)})["id"]
    with stalled_disk(daemon) as trace:
        try:
            most, seen = 0, []
            for i in range(40):
                with begun(daemon, group, f"f{i}", 100, b"x") as s:
                    s.settimeout(0.02)
                    with contextlib.suppress(TimeoutError):
                        seen.append(s.recv(64).split()[1])
                most = max(most, len(coming(daemon)))
            put(asks(daemon, "write", tenant), group, "g", b"x")
        finally:
            trace.terminate()
    assert b"429" in seen and most <= 8, (most, seen)
    wait_for("their end", lambda: not coming(daemon), 60)


def test_none_at_all():
    with cay.Cay(BUILD, env={"CAY_UPLOADS_SIZE": "0"}) as c:
        refused("limit_exceeded", put, c, "a", "f", b"")
        assert names(c, "a") == []


def test_a_tenant_has_four_at_once(daemon, group):
    tenant = daemon.call("POST", "/v1/tenants", {"name": "t" + secrets.token_hex(4)})["id"]
    with contextlib.ExitStack() as open_:
        for i in range(4):
            open_.enter_context(begun(daemon, group, f"f{i}", 100, b"x"))
        wait_for("them", lambda: len(coming(daemon)) == 4, 20)
        reply = daemon.open("PUT", q(group=group, name="g"), b"x")
        assert reply.status == 429 and reply.headers["Retry-After"] == "1"
        put(asks(daemon, "write", tenant), group, "g", b"x")  # another's places are another's
    wait_for("their end", lambda: not coming(daemon), 20)
    wait_for("a place", lambda: daemon.open("PUT", q(group=group, name="g"), b"x").status == 200, 20)


def many(c, n):
    """So many in a group of that name, as it would have made them."""
    at = c.state / "uploads" / DEFAULT / b"many".hex()
    put(c, "many", "f0", b"")
    for i in range(1, n):
        os.close(os.open(at / f"f{i}", os.O_CREAT | os.O_WRONLY, 0o600))


def test_a_group_has_a_thousand(own):
    many(own, 1000)
    assert len(names(own, "many")) == 1000
    refused("limit_exceeded", put, own, "many", "more", b"")
    put(own, "many", "f7", b"replaced")
    put(own, "other", "more", b"")
    drop(own, "many", "f7")
    put(own, "many", "more", b"")


def test_who_dies_in_an_upload_leaves_nothing(own):
    put(own, "g", "f", b"old")
    with begun(own, "g", "f", 1 << 20, b"x" * 70000), begun(own, "g", "h", 1 << 20, b"x"):
        wait_for("them", lambda: len(coming(own)) == 2, 20)
        own.kill_daemon("cayd")
    assert len(coming(own)) == 2
    own.start_cayd()
    assert coming(own) == [] and names(own, "g") == ["f"]
    box = own.create("tiny", group="g")
    fill(own, box, "f")
    assert read(own, box, "f") == b"old"


def fails(own, point, how):
    own.kill_daemon("cayd")
    own.env["CAY_FAULT"] = f"{point}={how}"
    own.start_cayd()
    del own.env["CAY_FAULT"]


@pytest.mark.parametrize("how", ["kill", "error"])
def test_every_failpoint_of_an_upload(own, how):
    put(own, "g", "f", b"old")
    fails(own, "upload:filled", how)
    with pytest.raises((ApiError, OSError, cay.http.client.HTTPException)):
        put(own, "g", "f", b"new")
    if how == "kill":
        own.daemons["cayd"].wait()
        own.start_cayd()
    wait_for("nothing to be left", lambda: not coming(own), 20)
    assert names(own, "g") == ["f"] and own.call("GET", q(group="g"))["uploads"][0]["size"] == 3
    fails(own, "upload:forgotten", how)
    with pytest.raises((ApiError, OSError, cay.http.client.HTTPException)):
        forget(own, "g")
    if how == "kill":
        own.daemons["cayd"].wait()
    else:
        own.kill_daemon("cayd")
    own.start_cayd()
    assert coming(own) == [] and names(own, "g") == []


def hash_of(c, group):
    """What the list says of the only one."""
    [row] = c.call("GET", q(group=group))["uploads"]
    return row.get("sha256")


def test_the_hash_is_of_what_is_there(own):
    """After a restart and after a replacement; none is told of one without, or with nonsense for one."""
    made = put(own, "g", "f", b"old")
    own.kill_daemon("cayd")
    own.start_cayd()
    assert own.call("GET", q(group="g"))["uploads"] == [made]
    made = put(own, "g", "f", b"new")
    assert hash_of(own, "g") == made["sha256"] == hashlib.sha256(b"new").hexdigest()
    at = own.state / "uploads" / DEFAULT / b"g".hex() / "f"
    for nonsense in (b"", b"x" * 64, b"0" * 65, b"0" * 63):
        os.setxattr(at, "user.cay.sha256", nonsense)
        assert hash_of(own, "g") is None, nonsense
    os.removexattr(at, "user.cay.sha256")
    assert drop(own, "g", "f") == {k: v for k, v in made.items() if k != "sha256"}


def dies(c, *call):
    with pytest.raises((OSError, cay.http.client.HTTPException)):
        call[0](c, *call[1:])
    c.daemons["cayd"].wait()
    c.start_cayd()


def test_a_name_that_is_not_synced_is_told_as_it_is(own):
    """It is there, whole, and gone when it was removed; only that it stays so is not promised."""
    put(own, "g", "f", b"old")
    fails(own, "upload:named", "error")
    refused("unavailable", put, own, "g", "f", b"new")
    assert hash_of(own, "g") == hashlib.sha256(b"new").hexdigest() and not coming(own)
    fails(own, "upload:named", "kill")
    dies(own, put, "g", "f", b"newest")
    assert hash_of(own, "g") == hashlib.sha256(b"newest").hexdigest()
    fails(own, "upload:removed", "error")
    refused("unavailable", drop, own, "g", "f")
    assert names(own, "g") == []
    put(own, "g", "f", b"x")
    fails(own, "upload:removed", "kill")
    dies(own, drop, "g", "f")
    assert names(own, "g") == []


def test_what_a_tenant_left_goes_at_the_next_start(own):
    put(own, "g", "f", b"stays")
    for name in ("tn0001000g00000000000000tr", "what"):
        (own.state / "uploads" / name / "67").mkdir(parents=True)
        (own.state / "uploads" / name / "67/f").write_bytes(b"x")
        for p in (own.state / "uploads" / name, own.state / "uploads" / name / "67"):
            os.chown(p, cay.CONTROL_UID, cay.CONTROL_UID)
    own.kill_daemon("cayd")
    own.start_cayd()
    assert on_disk(own) == [f"{DEFAULT}/67/f", "what/67/f"]  # the latter is none of ours


def test_a_sandbox_that_stops_taking_it_ends_the_import(own):
    """Nothing of the upload's side waits for ever, and the others go on."""
    put(own, "g", "f", os.urandom(20 << 20))
    box = own.create("tiny", group="g")
    os.kill(own.pid_1(box), signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(1) as one:
        asked = one.submit(fill, own, box, "f")
        assert names(own, "g") == ["f"]
        own.kill_daemon("cayd")
        with pytest.raises((OSError, cay.http.client.HTTPException)):
            asked.result(60)
    os.kill(own.pid_1(box), signal.SIGCONT)
    own.start_cayd()
    assert fill(own, box, "f")["files"] == 1


def test_it_is_in_the_audit_log(own):
    put(own, "g", "f", b"x")
    drop(own, "g", "f")
    rows = [(r["op"], r["detail"]) for r in own.call("GET", "/v1/audit")["records"] if r["op"].startswith("upload.")]
    assert rows == [("upload.put", "group=g name=f"), ("upload.delete", "group=g name=f")]




def test_by_the_command_line(own, tmp_path):
    def cli(*words):
        return subprocess.run([str(own.programs["cay"]), *words], capture_output=True, text=True, timeout=60, env=own.env)
    (tmp_path / "a.txt").write_bytes(b"hello")
    (tmp_path / "my file").write_bytes(os.urandom(3 << 20))
    assert cli("upload", "add", str(tmp_path / "a.txt"), "--group", "g").returncode == 0
    made = json.loads(cli("upload", "add", "--json", "--group", "g", "--name", "mine", str(tmp_path / "my file")).stdout)
    assert made["uploads"][0]["size"] == 3 << 20
    assert [line.split()[:2] for line in cli("upload", "ls", "--group", "g").stdout.splitlines()][1:] == [["a.txt", "5"], ["mine", "3.0"]]
    assert [u["name"] for u in json.loads(cli("upload", "ls", "--json", "--group", "g").stdout)["uploads"]] == ["a.txt", "mine"]
    # what is wrong is said, and of several what was done
    (tmp_path / "my\tfile").write_bytes(b"x")
    refused_ = cli("upload", "add", "--json", "--group", "g", str(tmp_path / "a.txt"), str(tmp_path / "my\tfile"))
    assert refused_.returncode == 2 and "control characters" in refused_.stderr and json.loads(refused_.stdout)["uploads"][0]["name"] == "a.txt"
    assert cli("upload", "add", str(tmp_path / "a.txt")).returncode == cli("upload", "add", "--group", "g", str(tmp_path)).returncode == 2
    assert cli("upload", "rm", "--group", "g", "mine").returncode == 0 and names(own, "g") == ["a.txt"]
    none = cli("upload", "rm", "--group", "g", "mine")
    assert none.returncode == 4 and "cay upload ls" in none.stderr
    assert cli("group", "rm", "g").returncode == 0 and names(own, "g") == []
