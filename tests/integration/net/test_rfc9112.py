# SPDX-License-Identifier: Apache-2.0
"""Every row of rfc9112.py, sent to us in all kinds of pieces and to three others

The one thing that counts: whatever framing we accept, nginx, HAProxy and Node
accept too, and they see the body and the next request where we see them.
"""
import collections
import concurrent.futures
import fcntl
import json
import os
import pathlib
import socket
import struct
import tempfile
import termios
import time

import peers
import pytest
from rfc9112 import CUT, EX, ROWS
from test_net import Serve, drain

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/http.md"
PROBE = b"GET " + EX + b"/output HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
CODES = {400: "invalid_argument", 404: "not_found", 405: "method_not_allowed", 413: "too_large", 431: "headers_too_large"}
QUIET, PATIENT = 0.5, 10  # seconds after which a reader is taken to wait for more
# Statuses by which a reader says that it does not like what is asked for, not how it is written.
ABOUT_MEANING = {405, 413, 417}
# Rows that we take and another refuses: name -> why that is right.
EXCEPTIONS = {
    "line: dots above the root": "nginx resolves dots and finds nothing above; we match a path as it is spelled: 404",
}
# A reader may drop its first reply for the error behind it; the first request is a row of its own.
AFTER = [("then", 400)]
# Read again at every place where the bytes can be cut in two.
CUT_ANYWHERE = ["line: plain", "line: bare LF ends line", "host: two, different", "header: folded by space",
                "header: bare CR ends the head", "length: plain", "length: two, equal", "coding: chunked",
                "coding: with Content-Length behind", "coding: hidden by bare CR", "chunk: two", "chunk: nothing behind data",
                "chunk: extension without name", "chunk: trailer", "chunk: CR ends the body",
                "connection: Expect, chunked", "pipeline: a body, then one byte too many"]


@pytest.fixture(scope="module")
def us():
    s = Serve(conns=250)
    capture = peers.Peer(s.dir.name, "u")
    yield s
    capture.stop()
    s.stop()


@pytest.fixture(scope="module")
def others():
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        capture = peers.Peer(directory, "u")
        all_of_them = peers.start(directory)
        yield all_of_them
        for p in all_of_them.values():
            p.stop()
        capture.stop()


def taken(s):
    """Wait until the other side has read all that was sent."""
    deadline = time.monotonic() + 20
    while struct.unpack("i", fcntl.ioctl(s, termios.TIOCOUTQ, b"\0" * 4))[0]:
        assert time.monotonic() < deadline, "nobody reads"
        os.sched_yield()


def send(s, pieces):
    try:
        for i, piece in enumerate(pieces):
            if i:
                taken(s)
            s.sendall(piece)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused already; the reply is there


def ask(s, pieces, want):
    """All that comes back; None when it goes on waiting."""
    with s:
        s.settimeout(20)
        send(s, pieces)
        if want == CUT:
            taken(s)
            s.shutdown(socket.SHUT_WR)
        return drain(s)


def caught_up(us):
    """Whoever is refused does not wait for what is behind us, and a thousand who were fill its queue
    when it is slow.  It accepts in order, so with its answer the queue is empty."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(us.upstream)
        s.sendall(PROBE)
        assert drain(s)


def whole(data, want):
    return data if want == CUT else data + PROBE


def line_of(data):
    method, target, _ = data.split(b"\r\n")[0].split(b" ")
    return method.decode(), target.decode()


def is_echo(reply, method, target, body):
    status, _, text = reply
    return status == 200 and json.loads(text) == {"method": method, "target": target, "body": body.decode("latin1")}


def is_probe(reply):
    return is_echo(reply, "GET", (EX + b"/output").decode(), b"")


def is_error(reply, status, bodiless=False):
    head = reply[1]
    return (reply[0] == status and head["content-type"] == "application/json"
            and (bodiless or json.loads(reply[2])["error"]["code"] == CODES[status]))


def closes(reply):
    return reply[1].get("connection") == "close"


def as_wanted(data, want, got):
    """Is this what the row says?"""
    if got.startswith(b"HTTP/1.1 100") and (b"Expect" not in data or b"HTTP/1.0\r\n" in data):
        return False
    bodiless = data.startswith(b"HEAD ") and not isinstance(want, int)
    found, rest = peers.replies(got, bodiless)
    if rest or not found:
        return want == CUT and not rest
    kind, what = ("refused", want) if isinstance(want, int) else want
    first = found[0]
    if kind == "refused" or kind == "ended":
        return len(found) == 1 and is_error(first, what, bodiless) and closes(first)
    if kind == "took":
        return len(found) == 2 and is_echo(first, *line_of(data), what) and not closes(first) and is_probe(found[1])
    if kind == "last":
        return len(found) == 1 and is_echo(first, *line_of(data), what) and closes(first)
    if kind == "ours":
        return len(found) == 2 and is_error(first, what, bodiless) and not closes(first) and is_probe(found[1])
    if kind == "then":
        return len(found) == 2 and first[0] == 200 and is_error(found[1], what) and closes(found[1])
    return False


@pytest.mark.parametrize("name, data, want", ROWS, ids=[r[0] for r in ROWS])
def test_row(us, name, data, want):
    """In one piece and by single bytes."""
    data_sent = whole(data, want)
    got = ask(us.connect(), [data_sent], want)
    assert as_wanted(data, want, got), got[:2000]
    got = ask(us.connect(), [data_sent[i:i + 1] for i in range(len(data_sent))], want)
    assert as_wanted(data, want, got), ("by single bytes", got[:2000])


@pytest.mark.parametrize("name", CUT_ANYWHERE)
def test_cut_anywhere(us, name):
    data, want = next((d, w) for n, d, w in ROWS if n == name)
    data_sent = whole(data, want)
    for i in range(1, len(data_sent)):
        got = ask(us.connect(), [data_sent[:i], data_sent[i:]], want)
        assert as_wanted(data, want, got), (i, got[:2000])
    caught_up(us)


def test_the_table_is_large_enough():
    assert len(ROWS) >= 150 and len({r[0] for r in ROWS}) == len(ROWS)
    assert set(CUT_ANYWHERE) | set(EXCEPTIONS) <= {r[0] for r in ROWS}


# What one reader made of a row: the status it refused with (or 0), the body it
# took, whether it saw the next request or said that it would not, and all of it
# in words.
Reading = collections.namedtuple("Reading", "status body next closes words")


def look(data, got, waits):
    found, _ = peers.replies(got, data.startswith(b"HEAD "))
    seen = len(found) > 1 and found[-1][0] == 200 and is_probe(found[-1])
    if not found:
        return Reading(0, None, False, False, "waits" if waits else "closed")
    status, _, text = found[0]
    tail = ", next" if seen else ", closes" if closes(found[0]) else ""
    if status != 200:
        return Reading(status, None, seen, closes(found[0]), f"{status}{', next' if seen else ''}")
    body = json.loads(text)["body"].encode("latin1") if text else b""
    return Reading(0, body, seen, closes(found[0]), f"{len(body)} bytes{tail}")


def hear(s, data, until_end):
    """What comes back up to one whole reply, the end, or a while of quiet (True)."""
    got = b""
    try:
        while b := s.recv(1 << 16):
            got += b
            if not until_end and peers.replies(got, data.startswith(b"HEAD "))[0]:
                break
    except TimeoutError:
        return got, True
    except OSError:
        pass
    return got, False


def ask_other(connect, data, want, quiet=QUIET):
    """The row, and when it is answered, or nothing happens any more, the next request."""
    with connect() as s:
        s.settimeout(quiet)
        send(s, [data])
        if want == CUT:
            s.shutdown(socket.SHUT_WR)
            return look(data, *hear(s, data, True))
        first, _ = hear(s, data, False)
        send(s, [PROBE])
        second, waits = hear(s, data, True)
        return look(data, first + second, waits)


def disagrees(ours, theirs):
    """Why another's reading makes ours wrong, or None."""
    if ours.body is None and not ours.next:
        return None  # refused, or nothing taken: nobody can be led astray by us
    if theirs.status:
        return None if theirs.status in ABOUT_MEANING else f"refuses it with {theirs.status}"
    if theirs.body is None:
        return "does not take it"
    if ours.body is not None and theirs.body != ours.body:
        return "takes another body"
    if ours.next and not theirs.next and not theirs.closes:
        return "does not see the next request"
    return None


def settled(connect, data, want):
    """Whoever is only slow is given time, and most to who should answer."""
    seen = ask_other(connect, data, want)
    accepted = not isinstance(want, int) and want[0] in ("took", "last", "ours", "then")
    more_to_come = not seen.next and not seen.closes and (accepted or not seen.status)
    if seen.words == "waits" or (more_to_come and seen.words != "closed"):
        return ask_other(connect, data, want, PATIENT if accepted or connect.__self__.__class__ is Serve else PATIENT / 4)
    return seen


def stale_rows(cells, readers):
    """docs/http.md says what was seen here, and how many rows there are."""
    text = PAGE.read_text()
    if f"a row for each of {len(ROWS)} requests" not in text:
        yield f"{PAGE.name}: there are {len(ROWS)} rows"
    known = {r[0] for r in ROWS}
    for line in text.splitlines():
        name, *words = line.strip("| ").split(" | ")
        if name in known and words != [cells[name, w].words for w in readers]:
            yield f"{PAGE.name}: {name}: {[cells[name, w].words for w in readers]}"


def test_we_never_accept_what_another_refuses(us, others):
    readers = {"cay": us.connect} | {name: p.connect for name, p in others.items()}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        jobs = {(name, who): pool.submit(settled, connect, data, want)
                for who, connect in readers.items() for name, data, want in ROWS}
        cells = {k: j.result() for k, j in jobs.items()}
    wrong = []
    print(f"\n# {'':44} {' '.join(f'{w:17}' for w in readers)}".rstrip())
    for name, _, want in ROWS:
        print(f"# {name:44} {' '.join(f'{cells[name, w].words:17}' for w in readers)}".rstrip())
        ours = cells[name, "cay"]
        assert (ours.body is not None) == (not isinstance(want, int) and want[0] in ("took", "last", "then")), name
        wrong += [f"{name}: {w} {why}" for w in others if (why := disagrees(ours, cells[name, w]))
                  and name not in EXCEPTIONS and want not in AFTER]
    assert not wrong, "\n".join(wrong)
    assert not (stale := list(stale_rows(cells, list(readers)))), "\n".join(stale)
    assert all(any(disagrees(cells[name, "cay"], cells[name, w]) for w in others) for name in EXCEPTIONS)
