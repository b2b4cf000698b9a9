# SPDX-License-Identifier: Apache-2.0
"""What control records of who asked for what, and that it cannot be changed unseen."""
import concurrent.futures
import hashlib
import json
import socket
import subprocess
import time

import cay
import push
from cay import wait_for
from conftest import BUILD
from test_control import refused


def records(c, **query):
    """Every page."""
    found, cursor = [], None
    while True:
        words = "&".join([f"{k}={v}" for k, v in query.items()] + ([f"cursor={cursor}"] if cursor else []))
        page = c.call("GET", f"/v1/audit?{words}" if words else "/v1/audit")
        found += page["records"]
        cursor = page.get("next_cursor")
        if not cursor:
            return found


def head(c):
    return c.call("GET", "/v1/audit/head")


def lines(c):
    return [line for f in sorted((c.state / "audit").iterdir()) for line in f.read_bytes().splitlines(keepends=True)]


def is_a_chain(rows, raw):
    prev = "0" * 64
    for n, (row, line) in enumerate(zip(rows, raw, strict=True), 1):
        assert row["seq"] == n and row["prev"] == prev and json.loads(line) == row
        prev = hashlib.sha256(line).hexdigest()
    return prev


def test_every_change_is_recorded_and_reading_is_not(own):
    before = head(own)["count"]
    assert [r["op"] for r in records(own)] == ["image.import"] * before
    box = own.create("tiny", group="g1")
    own.get(box)
    own.call("GET", "/v1/sandboxes")
    own.exec(box, ["true"])
    own.call("POST", f"/v1/sandboxes/{box}/pause")
    own.call("POST", f"/v1/sandboxes/{box}/resume")
    refused("invalid_argument", own.call, "POST", "/v1/sandboxes", {"image": "tiny", "nonsense": 1})
    refused("not_found", own.call, "GET", f"/v1/sandboxes/{box[:-2]}00")
    own.call("DELETE", "/v1/sandboxes?group=g2")
    own.delete(box)
    refused("wrong_state", own.call, "POST", f"/v1/sandboxes/{box}/pause")
    rows = records(own)[before:]
    assert [(r["op"], r["outcome"], r.get("target")) for r in rows] == [
        ("sandbox.create", "ok", box), ("sandbox.pause", "ok", box), ("sandbox.resume", "ok", box),
        ("sandbox.create", "invalid_argument", None), ("group.delete", "ok", None), ("sandbox.delete", "ok", box),
        ("sandbox.pause", "wrong_state", box)]
    assert rows[4]["detail"] == "group=g2"
    assert all(r["peer"].startswith("uid=0 pid=") and r["tenant"].startswith("tn") for r in rows)
    assert len({r["request_id"] for r in rows}) == len(rows)
    assert head(own) == {"count": before + 7, "head": is_a_chain(records(own), lines(own))}
    assert records(own, limit=2) == records(own)


def test_the_answer_is_not_there_before_the_record(own):
    """kill -9 as soon as it is: the record is on the disk."""
    for _ in range(8):
        box = own.call("POST", "/v1/sandboxes", {"image": "tiny", "wait": False})["id"]
        own.kill_daemon("cayd")
        rows = [json.loads(line) for line in lines(own)]
        assert [r["target"] for r in rows if r["op"] == "sandbox.create"][-1] == box
        own.start_cayd()
        own.delete(box)
    is_a_chain(records(own), lines(own))


def test_an_answer_waits_for_a_record_that_takes_longer_than_the_journal(own):
    box = own.create("tiny")
    log = sorted((own.state / "audit").iterdir())[-1]
    with subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(own.daemons["cayd"].pid), "-P", str(log),
                           "-e", "inject=fdatasync:delay_enter=400000"]) as tracer:
        wait_for("the tracer", lambda: cay.traced(own.daemons["cayd"].pid), 30)  # each thread: one of them is who syncs
        try:
            begun = time.monotonic()
            own.call("POST", f"/v1/sandboxes/{box}/labels", {"labels": {"a": "b"}})
            took = time.monotonic() - begun
        finally:
            tracer.terminate()
    assert 0.4 <= took < 30
    own.delete(box)


def test_a_change_the_journal_refuses_has_the_refusal_as_its_last_record(own):
    box = own.create("tiny")
    own.kill_daemon("cayd")
    # four transactions fail, one after the other: start may have written before
    own.env["CAY_FAULT"] = ",".join(f"journal:{at}=error" for at in ("queued", "begun", "written", "committed"))
    own.start_cayd()
    refused("internal", own.call, "POST", f"/v1/sandboxes/{box}/labels", {"labels": {"a": "b"}})
    own.kill_daemon("cayd")
    del own.env["CAY_FAULT"]
    own.start_cayd()
    rows = [r for r in records(own) if r["op"] == "sandbox.labels"]
    assert [(r["outcome"], r["target"]) for r in rows] == [("ok", box), ("internal", box)]
    assert rows[0]["request_id"] == rows[1]["request_id"]
    own.delete(box)


def test_who_leaves_before_the_answer_is_recorded_too(own):
    body = b'{"image":"tiny"}'
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(own.run / "control.sock"))
        s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                  % (len(body), body))
    wait_for("its record", lambda: records(own)[-1]["op"] == "sandbox.create", 30)
    last = records(own)[-1]
    assert last["outcome"] in ("client_left", "ok")
    if "target" in last:  # a cayd that stood still makes nothing for who is gone when it reads
        own.delete(last["target"])


def test_many_at_once_are_one_chain(own):
    before = head(own)["count"]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: own.call("DELETE", f"/v1/sandboxes?group=g{i}"), range(400)))
    rows = records(own)
    assert sorted(r["detail"] for r in rows[before:]) == sorted(f"group=g{i}" for i in range(400))
    assert head(own)["head"] == is_a_chain(rows, lines(own))


def test_what_is_asked_on_one_connection_is_answered_in_order(own):
    """A reply that waits for its record holds back the next one of its connection."""
    ask = b"DELETE /v1/sandboxes?group=a HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/audit/head HTTP/1.1\r\nHost: x\r\n\r\n"
    before = head(own)["count"]
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(str(own.run / "control.sock"))
        s.sendall(ask * 20)
        got = b""
        while got.count(b"HTTP/1.1 200") < 40 or not got.endswith(b"}\n"):
            got += s.recv(65536)
    counts = [json.loads(part.split(b"\n")[0])["count"] for part in got.split(b"\r\n\r\n") if part.startswith(b'{"count"')]
    assert counts == list(range(before + 1, before + 21))


def test_files_rotate_and_the_oldest_go():
    with cay.Cay(BUILD, env={"CAY_AUDIT_SIZE": "64Ki", "CAY_AUDIT_KEEP": "2"}) as c:
        for i in range(700):
            c.call("DELETE", f"/v1/sandboxes?group=g{i}")
        names = sorted(f.name for f in (c.state / "audit").iterdir())
        assert len(names) == 2 and names[0] > "00000001.log"
        rows = records(c)
        assert rows[0]["seq"] > 1 and rows[-1]["seq"] == head(c)["count"]
        dropped = [r for r in rows if r["op"] == "audit.dropped"]
        assert (dropped[-1]["count"], dropped[-1]["head"]) == (rows[0]["seq"] - 1, rows[0]["prev"])


def cli(c, *words, status=0):
    done = subprocess.run([str(c.programs["cay"]), "audit", *words], capture_output=True, text=True, timeout=60,
                          env={**c.env, "CAY_SOCKET": str(c.run / "control.sock")})
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout


def test_the_command_lists_anchors_and_verifies(own):
    own.call("DELETE", "/v1/sandboxes?group=a")
    anchor = cli(own, "head").strip()
    assert anchor == "{count}:{head}".format(**json.loads(cli(own, "head", "--json")))
    own.call("DELETE", "/v1/sandboxes?group=b")
    listed = cli(own, "ls").splitlines()
    assert listed[0].split()[:2] == ["SEQ", "TIME"] and "group=b" in listed[-1] and len(listed) == head(own)["count"] + 1
    assert json.loads(cli(own, "ls", "--json"))["records"] == records(own)
    assert cli(own, "verify", "--anchor", anchor).startswith(f"{head(own)['count']} records, head {head(own)['head']}: ")
    own.kill_daemon("cayd")  # it is not needed
    log = own.state / "audit/00000001.log"
    whole = log.read_bytes()
    rows = whole.splitlines(keepends=True)
    verify = lambda *words, status=0: json.loads(cli(own, "verify", "--json", *words, status=status))
    assert verify("--anchor", anchor)["ok"] and verify(str(own.state / "audit"))["count"] == len(rows)

    log.write_bytes(whole.replace(b"group=a", b"group=x"))
    assert verify(status=1)["fault"] == "changed" and verify(status=1)["record"] == len(rows) - 1
    assert f"line {len(rows) - 1}, record {len(rows) - 1}: this record or the one after it was modified" in cli(own, "verify", status=1)
    log.write_bytes(b"".join(rows[1:]))
    assert verify(status=1)["fault"] == "out_of_order"
    log.write_bytes(b"".join(rows[:-2]))
    assert verify()["ok"] and verify("--anchor", anchor, status=5)["fault"] == "truncated"
    log.write_bytes(whole)
    other = anchor[:-1] + ("1" if anchor[-1] == "0" else "0")
    assert verify("--anchor", other, status=5)["fault"] == "other_chain"
    cli(own, "verify", "--anchor", "12", status=2)
    cli(own, "verify", "/nowhere", status=2)
    own.start_cayd()


# -- what edges refuse

def refusals(c):
    return [r for r in records(c, limit=1000) if r["op"] == "edge.refused"]


def test_what_an_edge_refuses_is_recorded(own):
    key = own.call("GET", "/v1/keys")["keys"][0]["id"]
    edge = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    edge.say(push.REFUSED, value=0, number=12, secret=bytes(10) + bytes([255, 255, 192, 0, 2, 7]))
    edge.say(push.REFUSED, value=1, number=1, ident=key, secret=bytes.fromhex("20010db800010002"))
    edge.say(push.REFUSED, value=1, number=1, ident="ky" + "0" * 23 + "1", secret=bytes.fromhex("20010db800010002"))
    edge.say(push.REFUSED, value=2, number=4000000000)
    edge.say(push.REFUSED, value=2, number=0)  # which is nothing
    wait_for("the records", lambda: len(refusals(own)) == 4, 20)
    rows = refusals(own)
    assert [(r["outcome"], r.get("peer"), r["detail"], r.get("key")) for r in rows] == [
        ("unauthenticated", "192.0.2.7", "count=12", None), ("permission_denied", "2001:db8:1:2::/64", "count=1", key),
        ("permission_denied", "2001:db8:1:2::/64", "count=1", None), ("rate_limited", None, "count=4000000000 from several", None)]
    assert rows[1]["tenant"] == "tn" + "0" * 24 and "tenant" not in rows[0] and "tenant" not in rows[2]
    is_a_chain(records(own), lines(own))
    edge.close()


def test_the_command_shows_what_was_refused(own):
    edge = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    edge.say(push.REFUSED, value=0, number=12, secret=bytes(10) + bytes([255, 255, 192, 0, 2, 7]))
    wait_for("it", lambda: "edge.refused" in cli(own, "ls"), 20)
    line = next(text for text in cli(own, "ls").splitlines() if "edge.refused" in text)
    assert "unauthenticated" in line and "192.0.2.7" in line and "count=12" in line
    edge.close()


def test_refusals_do_not_fill_the_log(own):
    """Whatever edges say: a burst, then one in two seconds, and the rest as a sum."""
    edge = push.Edge(str(own.run / "edge" / "push.sock")).hello()
    begin = time.monotonic()
    for i in range(1, 3001):
        edge.say(push.REFUSED, value=i % 3, number=i, secret=bytes(10) + b"\xff\xff" + i.to_bytes(4, "big"))

    def told():
        rows = refusals(own)
        return rows, {code: sum(int(r["detail"].split()[0][6:]) for r in rows if r["outcome"] == code)
                      for code in ("permission_denied", "rate_limited", "unauthenticated")}
    want = {code: sum(range(first, 3001, 3)) for code, first in (("permission_denied", 1), ("rate_limited", 2), ("unauthenticated", 3))}
    wait_for("the sums", lambda: told()[1] == want, 60)
    rows = told()[0]
    assert 30 <= len(rows) <= 31 + (time.monotonic() - begin) / 2
    assert any(r["detail"].endswith("from several") and "peer" not in r for r in rows)
    own.delete(own.create("tiny"))  # and what is done is still recorded
    assert {"sandbox.create", "sandbox.delete"} <= {r["op"] for r in records(own, limit=1000)}
    edge.close()
