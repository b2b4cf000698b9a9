# SPDX-License-Identifier: Apache-2.0
"""What a node remembers: labels that change often, ended sandboxes, idempotency keys, a journal that lost its past."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import sqlite3

import cay
import pytest
from cay import ApiError, wait_for
from conftest import BUILD, tiny
from test_life import fsck, post, restart
from test_tenants import DEFAULT, asks

FULL = bool(os.environ.get("CAY_FULL"))
SLACK = 1000 if "asan" in str(BUILD) else 1  # a sanitizer keeps what was freed


def change_labels(c, box, times):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # the journal writes them together
        list(pool.map(lambda i: c.call("POST", f"/v1/sandboxes/{box}/labels", {"labels": {"step": f"n{i}"}}), range(times)))


def rss(c):
    status = pathlib.Path(f"/proc/{c.daemons['cayd'].pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def journal_bytes(c):
    """Of the pages in use, once all are in the file; cayd does not run."""
    with contextlib.closing(sqlite3.connect(c.state / "db" / "journal.db")) as db:
        pages, free = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count"))
        return (pages - free) * db.execute("PRAGMA page_size").fetchone()[0]


def test_labels_change_for_ever(own):
    """An agent that notes its step in a label: an arena that only grows refuses it at last, and the end loses its detail."""
    few, many = own.create("tiny"), own.create("tiny", labels={f"k{i}": "v" * 60 for i in range(60)})
    change_labels(own, few, 20000 if FULL else 10)
    change_labels(own, many, 100)
    memory = rss(own)
    change_labels(own, many, 20000 if FULL else 300)
    assert rss(own) - memory < 1024 * SLACK  # KiB: one set of them is 8
    own.call("POST", f"/v1/sandboxes/{many}/labels", {"labels": {"step": "last", "k0": None}})
    assert own.get(many)["labels"] == {"step": "last", **{f"k{i}": "v" * 60 for i in range(1, 60)}}
    own.call("POST", f"/v1/sandboxes/{few}/labels", {"labels": {"step": None}})
    assert not own.get(few).get("labels")
    for box in (few, many):
        own.delete(box)
        assert own.get(box)["end"]["detail"] == "deleted by a client"


def test_an_ended_sandbox_costs_little(own):
    """60 KB of variables are of no use to a reader of its end."""
    env = {f"V{i:03d}": "x" * 230 for i in range(250)}

    def storm(n):
        for _ in range(n):
            own.delete(own.create("tiny", name="kept", labels={"a": "b"}, env=env))

    def stopped():
        own.daemons["cayd"].terminate()
        own.daemons["cayd"].wait(cay.UP_S)
        used = journal_bytes(own)
        own.start_cayd()
        return used

    storm(10)
    disk = stopped()
    storm(20)  # what is reused has its size now
    memory = rss(own)
    storm(40)
    assert (rss(own) - memory) / 40 < 12 * SLACK  # with its events
    assert (stopped() - disk) / 60 < 4096
    ended = own.call("GET", "/v1/sandboxes?state=terminated&limit=1")["sandboxes"][0]
    assert ended["name"] == "kept" and ended["labels"] == {"a": "b"} and ended["end"]["reason"] == "killed"


@contextlib.contextmanager
def two_tenants(**env):
    """A node, and two tenants of it as an edge asks for them."""
    with cay.Cay(BUILD, env={"CAY_NODE_UNLIMITED_DISK": "yes", **env}) as c:
        c.image_import("tiny", tiny())
        found = []
        for name in ("red", "blue"):
            tenant = c.call("POST", "/v1/tenants", {"name": name})["id"]
            found.append(asks(c, "write", tenant))
        yield (c, *found)


def keyed(c, key):
    return post(c, "/v1/sandboxes", {"image": "tiny"}, {"Idempotency-Key": key})[1]["id"]


def test_one_tenant_does_not_erase_anothers_past():
    with two_tenants(CAY_LIMITS_SANDBOXES="30") as (node, red, blue):
        kept = keyed(blue, "job-17")
        blue.delete(kept)
        first = red.create("tiny")
        red.delete(first)
        for _ in range(33):
            red.delete(red.create("tiny"))
        wait_for("the oldest of red to be forgotten", lambda: gone(red, first), 10)
        assert blue.get(kept)["end"]["reason"] == "killed"
        assert keyed(blue, "job-17") == kept
        wait_for("red to have the rest", lambda: 25 <= len(red.call("GET", "/v1/sandboxes?limit=100")["sandboxes"]) < 30, 10)


def kept_events(c, query=""):
    return c.call("GET", "/v1/events" + query)


def ended_box(c):
    """A sandbox that has come and gone, and whose last event is durable."""
    box = c.create("tiny")
    c.delete(box)
    wait_for("its last event", lambda: kept_events(c, f"?sandbox={box}")["events"][-1]["state"] == "terminated", 20)
    return box


@contextlib.contextmanager
def journal_of_stopped(c):
    c.daemons["cayd"].terminate()
    c.daemons["cayd"].wait(cay.UP_S)
    with contextlib.closing(sqlite3.connect(c.state / "db" / "journal.db")) as db, db:
        yield db
    for f in (c.state / "db").glob("journal.db*"):
        os.chown(f, cay.CONTROL_UID, cay.CONTROL_UID)
    c.start_cayd()


def test_events_are_numbered_by_tenant():
    """Numbers of all tenants' events would tell each one how busy the others are."""
    with two_tenants() as (node, red, blue):
        ended_box(blue)
        for _ in range(2):
            ended_box(red)
        ended_box(blue)
        assert [e["seq"] for e in kept_events(blue)["events"]] == list(range(1, 7))
        restart(node, "cayd")
        ended_box(red)
        ended_box(blue)
        seen = kept_events(blue, "?after=6")
        assert [e["seq"] for e in seen["events"]] == [7, 8, 9] and "missed_until" not in seen and seen["next"] == 9


def test_a_cursor_of_another_past_is_a_gap(own):
    """One that is ahead of the journal, which was put back from a copy: waiting for its number would lose events."""
    ended_box(own)
    assert kept_events(own, "?after=3")["next"] == 3 and "missed_until" not in kept_events(own, "?after=3")
    seen = kept_events(own, "?after=17")
    assert seen["missed_until"] == 1 and [e["seq"] for e in seen["events"]] == [1, 2, 3]


def test_one_tenant_does_not_push_out_anothers_events():
    with two_tenants() as (node, red, blue):
        ended_box(blue)
        ended_box(red)
        kept, own = kept_events(blue), json.dumps(kept_events(red)["events"][-1])
        with journal_of_stopped(node) as db:
            last = db.execute("SELECT max(seq) FROM event").fetchone()[0]
            like = db.execute("SELECT wall_ns, sandbox FROM event WHERE seq = ?", (last,)).fetchone()
            db.executemany("INSERT INTO event VALUES (?, ?, ?, ?)", (
                (last + i, *like, own.replace('"seq": 3', f'"seq": {3 + i}')) for i in range(1, 20001)))
        assert kept_events(blue) == kept
        ended_box(red)
        assert kept_events(blue) == kept
        first = kept_events(red)["missed_until"]
        assert 20006 - 9000 < first < 20006 - 8000
        with journal_of_stopped(node) as db:
            assert db.execute("SELECT count(*) FROM event").fetchone()[0] == 3 + 20006 - first + 1


def test_events_go_with_their_tenant():
    with two_tenants() as (node, red, blue):
        ended_box(red)
        ended_box(blue)
        tenant = kept_events(red)["events"][0]["tenant"]
        rows = f"SELECT count(*) FROM event WHERE text LIKE '%{tenant}%'"
        node.call("POST", f"/v1/keys/{red.actor.split()[2]}/revoke")
        node.call("DELETE", f"/v1/tenants/{tenant}")
        with journal_of_stopped(node) as db:
            assert db.execute(rows).fetchone() == (0,)
            # a crash before the events were deleted
            db.execute(f"UPDATE event SET text = replace(text, substr(text, instr(text, 'tn'), 26), '{tenant}') WHERE seq = "
                       "(SELECT max(seq) FROM event)")
            assert db.execute(rows).fetchone() == (1,)
        with journal_of_stopped(node) as db:
            assert db.execute(rows).fetchone() == (0,)


def test_cursors_do_not_count_sandboxes():
    with two_tenants() as (_, red, blue):
        def cursor():
            blue.create("tiny")
            return int(blue.call("GET", "/v1/sandboxes?limit=1")["next_cursor"])

        blue.create("tiny")
        first = cursor()
        red.create("tiny")
        assert cursor() - first > 500  # microseconds, not sandboxes


def gone(c, box):
    try:
        return not c.get(box)
    except ApiError as e:
        return e.code == "not_found"


def test_an_ended_sandbox_is_read_for_as_long_as_the_settings_say():
    """limits.record_ttl: one that is long past is gone, one that runs or has failed is not; in a journal read again as well."""
    with cay.Cay(BUILD, env={"CAY_LIMITS_RECORD_TTL": "1h"}) as c:
        c.image_import("tiny", tiny())
        ended, live = ended_box(c), c.create("tiny")
        failed = c.create("tiny", entrypoint=["sh", "-c", "exit 3"], on_exit="end")
        wait_for("its end", lambda: c.get(failed)["state"] == "failed", 20)
        restart(c, "cayd")
        assert c.get(ended)["end"]["reason"] == "killed"
        c.kill_daemon("cayd")
        c.env["CAY_LIMITS_RECORD_TTL"] = "1s"
        c.start_cayd()
        wait_for("the record to be forgotten", lambda: gone(c, ended), 20)
        assert ended not in {s["id"] for s in c.call("GET", "/v1/sandboxes")["sandboxes"]}
        assert (c.get(live)["state"], c.get(failed)["state"]) == ("running", "failed"), "a failed one is kept for an hour"


def test_those_of_one_name_are_listed_newest_first(own):
    """As without a name, but found by it: pages, ended ones, and in a journal read again."""
    made = []
    for _ in range(3):
        made.insert(0, own.create("tiny", name="work"))
        other = own.create("tiny")
        if len(made) < 3:
            own.delete(made[0])

    def listed(query):
        page = own.call("GET", f"/v1/sandboxes?name=work{query}")
        return [s["id"] for s in page["sandboxes"]], page.get("next_cursor")
    for _ in range(2):
        assert listed("") == (made, None) and listed("&state=live") == (made[:1], None)
        first, cursor = listed("&limit=2")
        assert first == made[:2] and listed(f"&limit=2&cursor={cursor}") == (made[2:], None)
        assert own.call("GET", "/v1/sandboxes?name=nothing")["sandboxes"] == []
        assert other in {s["id"] for s in own.call("GET", "/v1/sandboxes")["sandboxes"]}
        restart(own, "cayd")


def test_a_key_outlives_the_record_of_its_sandbox():
    """A record goes by number or by time; its key by time alone, also over a restart."""
    with cay.Cay(BUILD, env={"CAY_LIMITS_RECORD_TTL": "1s"}) as c:
        c.image_import("tiny", tiny())
        box = keyed(c, "job-17")
        c.delete(box)
        wait_for("its record to be forgotten", lambda: gone(c, box), 10)
        for _ in range(2):
            with pytest.raises(ApiError) as e:
                keyed(c, "job-17")
            assert e.value.code == "conflict" and box in str(e.value)
            with pytest.raises(ApiError) as e:
                post(c, "/v1/sandboxes", {"image": "tiny", "name": "other"}, {"Idempotency-Key": "job-17"})
            assert e.value.code == "idempotency_key_reused"
            restart(c, "cayd")
        c.kill_daemon("cayd")
        c.env["CAY_LIMITS_IDEMPOTENCY_TTL"] = "1s"
        c.start_cayd()
        assert keyed(c, "job-17") != box


def test_a_failed_record_is_kept_for_an_hour_whatever_is_set():
    with cay.Cay(BUILD, env={"CAY_LIMITS_RECORD_TTL": "1s"}) as c:
        c.image_import("tiny", tiny())
        c.image_import("bad", tiny((cay.directory("etc/cay"), cay.directory("etc/cay/init.d"), cay.file("etc/cay/init.d/a", b"#!/bin/sh\nexit 3\n", 0o755))))
        failed = c.call("POST", "/v1/sandboxes", {"image": "bad", "wait": False})["id"]
        wait_for("it to fail", lambda: c.get(failed)["state"] == "failed", 30)
        box = c.create("tiny")
        c.delete(box)
        wait_for("the other record to be forgotten", lambda: gone(c, box), 30)
        assert c.get(failed)["state"] == "failed" and c.get(failed)["end"]


def test_a_kept_key_names_no_sandbox_of_another_group():
    with cay.Cay(BUILD, env={"CAY_LIMITS_RECORD_TTL": "1s"}) as c:
        c.image_import("tiny", tiny())
        made = [c.call("POST", "/v1/keys", {"tenant": DEFAULT, "name": g, "scope": "write", "group": g}) for g in ("alice", "bob")]
        alice, bob = (c.edge(f"{DEFAULT} write {m['key']['id']} - {m['key']['group']}", m["secret"]) for m in made)
        box = keyed(bob, "job-17")
        bob.delete(box)
        wait_for("its record to be forgotten", lambda: gone(c, box), 10)
        with pytest.raises(ApiError) as e:
            keyed(bob, "job-17")
        assert e.value.code == "conflict" and box in str(e.value)
        with pytest.raises(ApiError) as e:
            keyed(alice, "job-17")
        assert e.value.code == "idempotency_key_reused" and box not in str(e.value)


def damage_wal(db):
    with (db / "journal.db-wal").open("r+b") as f:
        f.seek(200)
        f.write(os.urandom(5000))


def remove_all(db):
    for f in db.iterdir():
        f.unlink()


DAMAGES = {
    "bad-wal": damage_wal,
    "empty-wal": lambda db: os.truncate(db / "journal.db-wal", 0),
    "no-wal": lambda db: os.unlink(db / "journal.db-wal"),
    "empty-journal": lambda db: os.truncate(db / "journal.db", 0),
    "no-journal": lambda db: [f.unlink() for f in db.glob("journal.db*")],
    "nothing": remove_all,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_journal_that_lost_its_past_serves_nobody(own, damage):
    box = own.create("tiny")
    own.kill_daemon("cayd")
    db = own.state / "db"
    before = {f.name: f.read_bytes() for f in db.iterdir()}
    DAMAGES[damage](db)
    with pytest.raises(ApiError) as e:  # it is up, and says what is wrong
        own.start_cayd()
    assert e.value.status == 503 and "lost its past" in str(e.value) and "fsck --end-foreign" in str(e.value)
    for method, path, body in [("GET", "/v1/sandboxes", None), ("POST", "/v1/sandboxes", {"image": "tiny"}), ("GET", "/v1/fsck", None),
                               ("POST", "/v1/fsck", None), ("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["true"]})]:
        with pytest.raises(ApiError) as e:
            own.call(method, path, body)
        assert e.value.status == 503
    assert own.processes(box)
    if damage == "bad-wal":  # a copy is put back: all is as it was
        own.kill_daemon("cayd")
        for name, text in before.items():
            (db / name).write_bytes(text)
        own.start_cayd()
        assert own.get(box)["state"] == "running" and not fsck(own)
        own.kill_daemon("cayd")
        DAMAGES[damage](db)
        with pytest.raises(ApiError):
            own.start_cayd()
    assert own.call("POST", "/v1/fsck?end_foreign=true")["restarting"]
    assert own.daemons["cayd"].wait(cay.UP_S) == 0
    own.start_cayd()  # as the service manager does
    wait_for("the foreign sandbox to end", lambda: not own.processes(box) and not fsck(own), 20)
    wait_for("the acceptance to be over", lambda: not (db / "journal.accept").exists(), 10)
    restart(own, "cayd")  # accepted once and for all
    own.image_import("tiny", tiny())
    own.delete(own.create("tiny"))


PAGE, WAL_HEAD, FRAME_HEAD = 4096, 32, 24  # of SQLite's file format


def files_of(db):
    return {f.name: f.read_bytes() for f in db.iterdir()}


def write_files(db, files):
    """Over those that are there: they stay cayd's."""
    for name, text in files.items():
        (db / name).write_bytes(text)


def in_the_file(c, word):
    return word.encode() in (c.state / "db" / "journal.db").read_bytes()


def older_journal(own, then):
    """Who puts back a copy of journal.db must take its -wal away, and does not know it."""
    write_files(own.state / "db", {"journal.db": then["journal.db"]})


def newer_journal(own, then):
    """The same with the -wal."""
    write_files(own.state / "db", {"journal.db-wal": then["journal.db-wal"]})


def short_wal(own, then):
    """A page of the last transaction is missing: a change of a label, for which there is no event."""
    wal = own.state / "db" / "journal.db-wal"
    text, end = wal.read_bytes(), WAL_HEAD
    while text[end + 8:end + 16] == text[16:24]:  # frames have the salt of the head; after them may be older ones
        end += FRAME_HEAD + PAGE
    os.truncate(wal, end - 1)


def another_nodes(own, then):
    """It is further than this node's, and whole."""
    with cay.Cay(BUILD) as other:
        other.image_import("tiny", tiny())
        for i in range(20):
            other.call("POST", "/v1/tenants", {"name": f"t{i}"})
            other.delete(other.create("tiny"))
        other.kill_daemon("cayd")
        found = files_of(other.state / "db")
    write_files(own.state / "db", {name: found[name] for name in ("journal.db", "journal.db-wal")})


@pytest.mark.parametrize("damage", [older_journal, newer_journal, short_wal, another_nodes], ids=lambda f: f.__name__)
def test_a_journal_of_another_time_serves_nobody(own, damage):
    """Each file is whole and what SQLite makes of both is consistent.  Served, a revoked key would be valid again."""
    tenant = own.call("POST", "/v1/tenants", {"name": "before"})["id"]
    key = own.call("POST", "/v1/keys", {"tenant": tenant, "name": "leaked", "scope": "write"})
    wait_for("it to be in the file", lambda: in_the_file(own, key["key"]["id"]), 10)
    then = files_of(own.state / "db")
    own.call("POST", f"/v1/keys/{key['key']['id']}/revoke")
    wait_for("it to be out of the file", lambda: (own.state / "db" / "journal.db").read_bytes() != then["journal.db"], 10)
    own.call("POST", "/v1/tenants", {"name": "after"})
    wait_for("the other to be in the file", lambda: in_the_file(own, "after"), 10)
    box = own.create("tiny")
    own.call("POST", f"/v1/sandboxes/{box}/labels", {"labels": {"step": "last"}})
    own.kill_daemon("cayd")
    now = files_of(own.state / "db")
    damage(own, then)
    damaged = files_of(own.state / "db")
    with pytest.raises(ApiError) as e:
        own.start_cayd()
    assert e.value.status == 503 and "lost its past" in str(e.value) and "fsck --end-foreign" in str(e.value)
    for method, path in [("GET", "/v1/sandboxes"), ("GET", "/v1/keys"), ("GET", f"/v1/sandboxes/{box}")]:
        with pytest.raises(ApiError) as e:
            own.call(method, path)
        assert e.value.status == 503
    assert own.processes(box)
    own.kill_daemon("cayd")
    assert {n: t for n, t in files_of(own.state / "db").items() if n.startswith("journal")} == {
        n: t for n, t in damaged.items() if n.startswith("journal")}, "nothing was written to it"
    write_files(own.state / "db", now)
    own.start_cayd()
    assert own.get(box)["labels"] == {"step": "last"} and not fsck(own)
    assert next(k for k in own.call("GET", "/v1/keys")["keys"] if k["id"] == key["key"]["id"])["revoked"]


@pytest.mark.parametrize("name,how", [("sandbox", "zeros"), ("sqlite_autoindex_sandbox_1", "zeros"), ("past", "zeros"), ("sqlite_autoindex_tenant_1", "earlier")],
                         ids=["table", "index", "past", "index-of-before"])
def test_a_damaged_page_stops_the_start(own, name, how):
    """A disk that lost a write, or gives back another one: cayd says so and what to do, and starts again with the page."""
    def stopped():
        own.daemons["cayd"].terminate()
        own.daemons["cayd"].wait(cay.UP_S)
        return bytearray((own.state / "db" / "journal.db").read_bytes())

    tenant = own.call("POST", "/v1/tenants", {"name": "one"})["id"]
    before = stopped()
    own.start_cayd()
    own.call("DELETE", f"/v1/tenants/{tenant}")
    own.call("POST", "/v1/tenants", {"name": "two"})  # as many as before
    box = own.create("tiny")
    text = stopped()
    with contextlib.closing(sqlite3.connect(f"file:{own.state}/db/journal.db?immutable=1", uri=True)) as db:
        at = (db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0] - 1) * PAGE
    whole = bytes(text)
    text[at:at + PAGE] = bytes(PAGE) if how == "zeros" else before[at:at + PAGE]
    assert bytes(text) != whole
    (own.state / "db" / "journal.db").write_bytes(text)
    for _ in range(2):
        with pytest.raises(RuntimeError) as e:
            own.start_cayd()
        assert "journal.db is damaged" in str(e.value) and "put back a copy of db/" in str(e.value) and "cay fsck --end-foreign" in str(e.value)
    assert own.processes(box) and bytes(text) == (own.state / "db" / "journal.db").read_bytes()
    (own.state / "db" / "journal.db").write_bytes(whole)
    own.start_cayd()
    assert own.get(box)["state"] == "running" and not fsck(own)


def test_a_foreign_sandbox_is_ended_when_the_operator_says_so(own):
    box = own.create("tiny")
    own.kill_daemon("cayd")
    with contextlib.closing(sqlite3.connect(own.state / "db" / "journal.db")) as db, db:
        db.execute("DELETE FROM sandbox")
    for f in (own.state / "db").glob("journal.db*"):
        os.chown(f, cay.CONTROL_UID, cay.CONTROL_UID)
    own.start_cayd()
    assert fsck(own, "POST") == {("foreign", box)}
    assert own.processes(box)
    own.call("POST", "/v1/fsck?end_foreign=true&older_ms=0")
    wait_for("it to end", lambda: not own.processes(box) and not fsck(own), 20)


def test_a_crash_is_no_loss():
    """kill -9 at each moment of the first start and of the first writes: no start is refused."""
    points = ["write:created", "write:filled", "write:renamed", "journal:queued", "journal:begun", "journal:written", "journal:committed",
              "recover:loaded", "recover:looked"]
    for point in points:
        with cay.Cay(BUILD) as c:
            c.kill_daemon("cayd")
            for f in (*(c.state / "db").iterdir(), *(c.state / "audit").iterdir()):
                f.unlink()
            c.env["CAY_FAULT"] = point + "=kill"
            for _ in range(2):
                with contextlib.suppress(RuntimeError, OSError, ApiError, cay.http.client.HTTPException):
                    c.start_cayd()
                    c.call("POST", "/v1/tenants", {"name": "t"})
                c.kill_daemon("cayd")
            del c.env["CAY_FAULT"]
            c.start_cayd()
            c.call("POST", "/v1/tenants", {"name": "u"})
