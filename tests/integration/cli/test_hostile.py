# SPDX-License-Identifier: Apache-2.0
"""The command line against a daemon, or a sandbox behind it, that does not behave

Whatever comes: an exit status of errors.def, one message, no control character
on the terminal, no crash, no wait without end, no memory without bound.
"""
import json
import re
import socket
import threading
import time

import pytest

import fake as fake_daemon
from fake import DATA, ERROR, FRAMES, GAP, chunk, end_frame, frame, head, new_id

OK = json.dumps({"sandboxes": []}).encode()
EX = new_id("ex")


def listed(text, status=200, media="application/json"):
    return head(status, media, len(text)) + text


def box(**more):
    b = {"id": new_id("sb"), "tenant": new_id("tn"), "image": "base", "state": "running", "limits": fake_daemon.LIMITS,
         "runtime": "crun", "created_at": "2026-11-15T01:50:43.123Z", "last_transition_at": "2026-11-15T01:50:43.123Z", "last_activity_at": "2026-11-15T01:50:43.123Z", **more}
    return listed(json.dumps({"sandboxes": [b]}).encode())


HEADS = {
    "nothing": b"",
    "garbage": b"\x00\xff\x1b[31mgarbage\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.9\r\n",
    "cut_head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "cut_body": head(200, "application/json", 100) + b'{"sand',
    "cut_chunk": head(200, "application/json") + b"5\r\nab",
    "huge_head": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100000 + b"\r\n\r\n",
    "many_headers": b"HTTP/1.1 200 OK\r\n" + b"".join(b"X%d: 1\r\n" % i for i in range(100)) + b"\r\n",
    "twin_type": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Type: a\r\nContent-Length: 0\r\n\r\n",
    "long_type": b"HTTP/1.1 200 OK\r\nContent-Type: " + b"a" * 200 + b"\r\nContent-Length: 0\r\n\r\n",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + listed(OK),
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "status_999": b"HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n",
    "http2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no_end": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + OK,
    "both_lengths": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n",
    "more_behind": listed(OK) + b"HTTP/1.1 200 OK\r\n\r\n",
    "a_byte_behind": listed(OK) + b"x",
    "not_json": listed(b"hello"),
    "html": listed(b"<html>", media="text/html"),
    "other_status": listed(OK, status=202),
    "unknown_member": listed(b'{"sandboxes":[],"x":1}'),
    "twice": listed(b'{"sandboxes":[],"sandboxes":[]}'),
    "deep": listed(b'{"sandboxes":' + b"[" * 100 + b"]" * 100 + b"}"),
    "wrong_type": listed(b'{"sandboxes":7}'),
    "control_in_name": box(name="a\x1b[2J"),
    "no_such_state": box(state="flying"),
    "bad_id": box(id="../../etc"),
    "error_no_object": listed(b'{"error":"no"}', status=500),
    "error_unknown_code": fake_daemon.failure(500, "nonsense", "x"),
    "endless_cursor": listed(b'{"sandboxes":[],"next_cursor":"a"}'),
}


@pytest.mark.parametrize("name", [n for n in HEADS if n != "endless_cursor"])
def test_a_bad_reply_is_refused(daemon, cay, name):
    daemon.say["GET", "/v1/sandboxes"] = HEADS[name]
    r = cay("ls")
    assert r.returncode in (7, 8) and r.stdout == "", (r.returncode, r.stderr)
    assert r.stderr.startswith("cay: ") and not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", r.stderr)
    assert r.stderr.count("\n") == 2


def test_a_list_without_end_is_left(daemon, cay):
    def more(c, f):
        text = json.dumps({"sandboxes": [json.loads(box().split(b"\r\n\r\n")[1])["sandboxes"][0]] * 1000,
                           "next_cursor": "a"}).encode()
        c.sendall(listed(text))
    daemon.say["GET", "/v1/sandboxes"] = more
    r = cay("ls")
    assert r.returncode == 7 and "more than 100000 rows" in r.stderr


def test_an_endless_body_is_left(daemon, cay):
    def pour(c, f):
        c.sendall(head(200, "application/json"))
        while True:
            c.sendall(chunk(b" " * 65536))
    daemon.say["GET", "/v1/sandboxes"] = pour
    r = cay("ls")
    assert r.returncode == 7 and "too large" in r.stderr


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\n", head(200, "application/json", 10)])
def test_silence_ends(daemon, cay, first):
    done = threading.Event()

    def silent(c, f):
        c.sendall(first)
        done.wait(60)
    daemon.say["GET", "/v1/sandboxes"] = silent
    began = time.monotonic()
    r = cay("ls", timeout="500ms")
    done.set()
    assert r.returncode == 8 and "no reply" in r.stderr and time.monotonic() - began < 20


def test_a_byte_now_and_then_ends(daemon, cay):
    def drip(c, f):
        pause = threading.Event()
        for b in listed(OK):
            c.sendall(bytes([b]))
            pause.wait(0.5)
    daemon.say["GET", "/v1/sandboxes"] = drip
    began = time.monotonic()
    assert cay("ls", timeout="1s").returncode == 8 and time.monotonic() - began < len(listed(OK)) * 0.25


def test_a_reply_byte_by_byte_is_fine_when_quick(daemon, cay):
    def drip(c, f):
        for b in listed(OK):
            c.sendall(bytes([b]))
    daemon.say["GET", "/v1/sandboxes"] = drip
    assert cay("ls").returncode == 0


def test_a_listener_that_does_not_accept_ends(daemon, cay, tmp_path):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp_path / "s"))
        s.listen(0)
        others = [socket.socket(socket.AF_UNIX) for _ in range(1)]
        for o in others:
            o.connect(str(tmp_path / "s"))
        daemon.path = str(tmp_path / "s")
        assert cay("ls", timeout="500ms").returncode == 8
        for o in others:
            o.close()


def test_messages_cannot_play_with_the_terminal(daemon, cay):
    evil = "\x1b]0;title\x07\x1b[2Jmoved\r\nline \u202e override \x9b1m"
    daemon.say["GET", "/v1/sandboxes"] = fake_daemon.failure(404, "not_found", evil, hint=evil)
    r = cay("ls")
    assert r.returncode == 4
    assert r.stderr.startswith("cay: \\x1b]0;title\\x07\\x1b[2Jmoved\\x0d\\nline \\xe2\\x80\\xae override \\xc2\\x9b1m\n")
    assert r.stderr.count("\n") == 2


def streamed(frames, exec_id=EX, media=FRAMES):
    return head(200, media, len(frames), [f"Cay-Exec: {exec_id}"] if exec_id else []) + frames


OUT = frame(DATA, 1, 0, b"shown\n")
STREAMS = {
    "jumps_back": OUT + frame(DATA, 1, 0, b"again"),
    "jumps_ahead": OUT + frame(DATA, 1, 7, b"x"),
    "after_end": OUT + end_frame(reason="exit", exit_code=0) + frame(DATA, 1, 6, b"x"),
    "two_ends": OUT + end_frame(reason="exit", exit_code=0) * 2,
    "stdin_back": OUT + frame(DATA, 0, 0, b"x"),
    "no_type": OUT + frame(9, 1, 6, b"x"),
    "gap_of_nothing": OUT + frame(GAP, 1, 6, bytes(8)),
    "gap_past_all": OUT + frame(GAP, 1, 6, b"\xff" * 8),
    "huge_frame": OUT + b"\1\1\0\0\xff\xff\xff\xff" + (6).to_bytes(8, "little"),
    "end_no_json": OUT + frame(3, 0, 0, b"{x}"),
    "end_no_reason": OUT + frame(3, 0, 0, b"{}"),
    "end_bad_reason": OUT + end_frame(reason="fun"),
    "exit_without_code": OUT + end_frame(reason="exit"),
    "signal_without_name": OUT + end_frame(reason="signal"),
    "exit_code_256": OUT + end_frame(reason="exit", exit_code=256),
    "error_no_object": OUT + frame(ERROR, 0, 0, b"{}"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_out_of_order_is_refused(daemon, cay, name):
    daemon.say["POST", "/v1/sandboxes/*/execs"] = streamed(STREAMS[name])
    r = cay("exec", daemon.add()["id"], "--", "x")
    assert r.returncode == 7 and r.stderr.startswith("cay: "), (r.returncode, r.stderr)
    assert len(daemon.requests) == 1


@pytest.mark.parametrize("reply", [
    streamed(OUT + end_frame(reason="exit", exit_code=0), exec_id=None),
    streamed(OUT + end_frame(reason="exit", exit_code=0), exec_id="ex../../../"),
    streamed(OUT + end_frame(reason="exit", exit_code=0), media="text/plain"),
    fake_daemon.reply(200, {"id": EX}),
], ids=["no-id", "path-as-id", "text", "json"])
def test_a_reply_that_is_no_stream_is_refused(daemon, cay, reply):
    daemon.say["POST", "/v1/sandboxes/*/execs"] = reply
    r = cay("exec", daemon.add()["id"], "--", "x")
    assert (r.returncode, r.stdout) == (7, "")


def test_an_error_inside_the_stream_is_told(daemon, cay):
    text = json.dumps({"error": {"code": "no_capacity", "message": "gone\x1b", "hint": "later", "retryable": True}})
    daemon.say["POST", "/v1/sandboxes/*/execs"] = streamed(OUT + frame(ERROR, 0, 0, text.encode()))
    r = cay("exec", daemon.add()["id"], "--", "x")
    assert (r.returncode, r.stdout, r.stderr) == (8, "shown\n", "cay: gone\\x1b\n  hint: later\n")


def test_an_unknown_exec_is_not_asked_for_again_and_again(daemon, cay):
    daemon.say["POST", "/v1/sandboxes/*/execs"] = streamed(OUT)
    daemon.say["GET", "/v1/sandboxes/*/execs/*/output"] = fake_daemon.failure(404, "not_found", "no such exec")
    r = cay("exec", daemon.add()["id"], "--", "x")
    assert (r.returncode, r.stdout) == (4, "shown\n")
    assert len([q for q in daemon.requests if q[1].endswith("/output")]) == 1


@pytest.mark.parametrize("reason,status", [
    ("oom", 137), ("killed", 137), ("ttl", 124), ("node_lost", 125), ("start_failed", 126)])
def test_reasons_have_a_status_and_words(daemon, cay, reason, status):
    daemon.say["POST", "/v1/sandboxes/*/execs"] = streamed(OUT + end_frame(reason=reason, detail="e\x1bvidence"))
    r = cay("exec", daemon.add()["id"], "--", "x")
    assert r.returncode == status and re.fullmatch(rf"cay: ended after \d+ m?s: {reason} \(e\\x1bvidence\)\n", r.stderr)


def test_a_child_killed_for_memory_is_mentioned(daemon, cay):
    daemon.say["POST", "/v1/sandboxes/*/execs"] = streamed(OUT + end_frame(reason="exit", exit_code=137, detail="killed: 1", memory_limit_bytes=5))
    r = cay("exec", daemon.add()["id"], "--", "x")
    assert (r.returncode, r.stderr) == (137, "cay: killed: 1\n")


def test_output_is_passed_on_raw(daemon, cay):
    raw = bytes(range(256))
    frames = frame(DATA, 1, 0, raw) + end_frame(reason="exit", exit_code=0)
    daemon.say["POST", "/v1/sandboxes/*/execs"] = streamed(frames)
    assert cay("exec", daemon.add()["id"], "--", "x", text=False).stdout == raw
