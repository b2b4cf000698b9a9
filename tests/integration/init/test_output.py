# SPDX-License-Identifier: Apache-2.0
"""Output by absolute offset: complete when it must be, honest about what is lost, bounded always."""
import hashlib
import os
import socket
import struct
import time

import pytest

from client import DATA, END, FRAMES, GAP, SANDBOX, SSE, Connection, exactly, events, frames
from conftest import FULL, wait_for

MIB = 1 << 20
TOTAL = (1024 if FULL else 64) * MIB

# Writes n reproducible bytes; the same generator tells what they must be.
WRITER = "import hashlib,os,sys\nn=%d; i=0\nwhile n:\n b=hashlib.shake_128(i.to_bytes(8,'little')).digest(min(n,65536)); n-=len(b); i+=1\n v=memoryview(b)\n while v: v=v[os.write(1,v):]"


def expected(n):
    h, i = hashlib.sha256(), 0
    while n:
        b = hashlib.shake_128(i.to_bytes(8, "little")).digest(min(n, 65536))
        h.update(b)
        n -= len(b)
        i += 1
    return h.hexdigest()


def test_block_is_complete_across_reconnects(init):
    c = init.client
    ident = c.detach("/usr/bin/python3", "-c", WRITER % TOTAL, output="block")
    h, pos, connections = hashlib.sha256(), 0, 0
    while pos < TOTAL:
        connections += 1
        r = c.output(ident, offset=pos, follow="true")
        assert int(r.headers["Cay-Offset"]) == pos
        limit = pos + TOTAL // 20 if connections <= 20 else TOTAL
        while pos < limit:
            b = r.read1(65536)
            if not b:
                break
            h.update(b)
            pos += len(b)
        r.close()
    assert connections >= 20 and h.hexdigest() == expected(TOTAL)
    wait_for(lambda: c.exec(ident).json()["state"] == "ended")
    assert c.exec(ident).json()["stdout_bytes"] == TOTAL


@pytest.mark.parametrize("form", [FRAMES, "raw"])
def test_streamed_is_complete(init, form):
    n = 16 * MIB
    h = hashlib.sha256()
    if form == "raw":
        ident = init.client.detach("/usr/bin/python3", "-c", WRITER % n, output="block")
        r = init.client.output(ident, follow="true")
        while b := r.read(65536):
            h.update(b)
    else:
        _, r = init.client.stream("/usr/bin/python3", "-c", WRITER % n)
        pos = 0
        for kind, stream, offset, content in frames(r):
            if kind == DATA:
                assert (stream, offset) == (1, pos)
                pos += len(content)
                h.update(content)
        assert kind == END and pos == n
    assert h.hexdigest() == expected(n)


def test_drop_counts_every_byte(init):
    c = init.client
    n = 32 * MIB
    ident = c.detach("/usr/bin/python3", "-c", WRITER % n, output="drop")
    r = c.output(ident, {"Accept": FRAMES}, follow="true")
    pos = got = lost = 0
    wait_for(lambda: c.exec(ident).json()["state"] == "ended", 60)
    for kind, _, offset, content in frames(r):
        if kind == END:
            break
        assert offset == pos
        if kind == GAP:
            lost += struct.unpack("<Q", content)[0]
            pos += struct.unpack("<Q", content)[0]
        else:
            got += len(content)
            pos += len(content)
    assert kind == END and pos == n == got + lost and lost > 0
    # raw tells by the header where what is left begins
    r = c.output(ident)
    first = int(r.headers["Cay-Offset"])
    assert first == n - MIB and len(r.read()) == MIB


def test_raw_output_ends_at_a_gap(init):
    """Bytes alone cannot say what is missing; who asks again is told where it goes on."""
    c = init.client
    n = 32 * MIB
    ident = c.detach("/usr/bin/python3", "-c", WRITER % n, output="drop")
    r = c.output(ident, follow="true")
    wait_for(lambda: c.exec(ident).json()["state"] == "ended", 60)
    got = len(r.read())
    assert int(r.headers["Cay-Offset"]) + got < n
    r = c.output(ident, offset=int(r.headers["Cay-Offset"]) + got, follow="true")
    assert int(r.headers["Cay-Offset"]) == n - MIB and len(r.read()) == MIB


def test_closing_its_output_is_not_its_end(init):
    e = init.client.sh("echo x; exec >&- 2>&-; sleep 0.1; exit 3").json()
    assert e["stdout"] == "x\n" and e["end"]["exit_code"] == 3


def test_a_blocked_writer_goes_on_when_somebody_reads(init):
    c = init.client
    n = 3 * MIB
    ident = c.detach("/usr/bin/python3", "-c", WRITER % n, output="block")
    wait_for(lambda: c.exec(ident).json()["stdout_bytes"] == MIB // 2, what="half a ring, then it waits")
    assert c.exec(ident).json()["state"] == "running"
    got = c.output(ident, follow="true").read()
    assert hashlib.sha256(got).hexdigest() == expected(n)


def test_drop_never_waits_for_a_reader(init):
    e = init.client.sh("yes | head -c 50000000", detach=True).json()
    wait_for(lambda: init.client.exec(e["id"]).json()["state"] == "ended", 20)
    assert init.client.exec(e["id"]).json()["stdout_bytes"] == 50000000


@pytest.mark.parametrize("how", ["stream", "sse", "output"])
def test_a_stalled_reader_costs_little(init, how):
    c = init.client
    if how == "output":
        ident = c.detach("yes", output="block")
        r = c.output(ident, follow="true")
    else:
        ident, r = c.stream("yes", form=SSE if how == "sse" else FRAMES)
    seen = []

    def stands():
        seen.append(c.exec(ident).json()["stdout_bytes"])
        return len(seen) > 20 and seen[-1] == seen[-20]

    wait_for(stands, what="yes waits for its reader")
    assert init.small()
    assert seen[-1] < 2 * MIB
    assert exactly(r, 4000000)  # and goes on
    wait_for(lambda: c.exec(ident).json()["stdout_bytes"] > 2 * MIB or how != "output")
    r.close()


def test_memory_is_one_budget(init):
    c = init.client
    for _ in range(40):
        c.detach("/bin/sh", "-c", "yes & yes >&2", output="drop")
    wait_for(lambda: all(e["stdout_bytes"] > 2 * MIB for e in c.ask("GET", SANDBOX + "/execs").json()["execs"]), 60)
    assert init.small()


def test_finished_output_gives_way(init):
    """Ten execs that filled their rings do not keep the next from telling its last 4 MiB."""
    c = init.client
    for _ in range(10):
        e = c.sh("head -c 4500000 /dev/zero | tr '\\0' x").json()
        assert len(e["stdout"]) == 4 * MIB
    assert init.small()


def test_two_readers_see_the_same(init):
    c = init.client
    n = 4 * MIB
    ident = c.detach("/bin/sh", "-c", f"read x; head -c {n} /dev/zero", output="block", stdin_open=True)
    readers = [c.output(ident, follow="true") for _ in range(2)]
    assert c.exec(ident, "/stdin?close=true", "POST", b"go\n").status == 200
    pos = [0, 0]
    while sum(pos) < 2 * n:
        for i, r in enumerate(readers):
            pos[i] += len(r.read1(65536))
    assert pos == [n, n] and [r.read() for r in readers] == [b"", b""]


def test_a_client_that_leaves_stops_nothing(init):
    c = init.client
    ident, r = c.stream("/bin/sh", "-c", "echo one; sleep 0.3; echo two; exit 4")
    assert exactly(r, 20)
    r.close()
    wait_for(lambda: c.exec(ident).json()["state"] == "ended")
    assert c.exec(ident).json()["end"]["exit_code"] == 4
    assert c.output(ident).read() == b"one\ntwo\n"


def test_who_waits_and_leaves_leaves_it_running(init):
    c = init.client
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(c.path)
    body = b'{"shell":"sleep 0.3; echo done"}'
    s.sendall(b"POST %s/execs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
              % (SANDBOX.encode(), len(body), body))
    wait_for(lambda: c.ask("GET", SANDBOX + "/execs").json()["execs"])
    s.close()
    ident = c.ask("GET", SANDBOX + "/execs").json()["execs"][0]["id"]
    wait_for(lambda: c.exec(ident).json()["state"] == "ended")
    assert c.output(ident).read() == b"done\n"


ENDS = {"Prefer": "end-with-caller"}


@pytest.mark.parametrize("form", ["application/json", FRAMES, SSE])
def test_who_asks_for_that_takes_it_along(init, form):
    """The command and all it started; not what was detached."""
    c = init.client
    kept = c.run("/bin/sleep", "60", detach=True, headers=ENDS).json()["id"]
    leaver = Connection(c.path, 30)
    leaver.request("POST", SANDBOX + "/execs", '{"shell":"echo begun; sleep 60 & sleep 60"}', {"Content-Type": "application/json", "Accept": form, **ENDS})
    wait_for(lambda: any(e["stdout_bytes"] for e in c.ask("GET", SANDBOX + "/execs").json()["execs"]))
    (ident,) = (e["id"] for e in c.ask("GET", SANDBOX + "/execs").json()["execs"] if e["id"] != kept)
    leaver.close()
    wait_for(lambda: c.exec(ident).json()["state"] == "ended")
    assert c.exec(ident).json()["end"]["reason"] == "killed" and c.output(ident).read() == b"begun\n"
    assert c.exec(kept).json()["state"] == "running"
    assert c.exec(kept, "/signal", "POST", {"signal": "KILL"}).status == 200
    wait_for(lambda: init.groups() == [] and init.children() == [], what="nothing left")


def test_offset_limit_and_follow(init):
    c = init.client
    ident = c.detach("/bin/sh", "-c", "printf 0123456789; read x; printf abcdef", stdin_open=True)
    wait_for(lambda: c.exec(ident).json()["stdout_bytes"] == 10)
    assert c.output(ident, offset=3, limit=4).read() == b"3456"
    assert c.output(ident, offset=8).read() == b"89"
    r = c.output(ident, offset=50)
    assert r.read() == b"" and r.headers["Cay-Offset"] == "50"
    assert c.output(ident, stream="stderr").read() == b""
    late = c.output(ident, offset=12, follow="true")
    limited = c.output(ident, offset=9, limit=3, follow="true")
    assert c.exec(ident, "/stdin?close=true", "POST", b"\n").status == 200
    assert late.read() == b"cdef" and limited.read() == b"9ab"
    wait_for(lambda: c.exec(ident).json()["state"] == "ended")
    assert [f[0] for f in frames(c.output(ident, {"Accept": FRAMES}, limit=4))] == [DATA]
    assert [f[0] for f in frames(c.output(ident, {"Accept": FRAMES}, limit=16))] == [DATA, END]
    assert [e for e, _ in events(c.output(ident, {"Accept": SSE}, stream="stderr"))] == ["end"]


@pytest.mark.parametrize("chunked", [False, True])
def test_stdin_streams_with_back_pressure(init, chunked):
    c = init.client
    data = os.urandom(16 * MIB)
    ident = c.detach("sha256sum", stdin_open=True)
    pieces = (data[i:i + 100000] for i in range(0, len(data), 100000))
    assert c.exec(ident, "/stdin?close=true", "POST", pieces if chunked else data).status == 200
    r = c.output(ident, follow="true")
    assert r.read().split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert init.small()


def test_stdin_in_several_requests(init):
    c = init.client
    ident = c.detach("cat", stdin_open=True)
    for part in [b"one ", b"two ", b""]:
        assert c.exec(ident, "/stdin", "POST", part).status == 200
    assert c.exec(ident, "/stdin?close=true", "POST", b"three").status == 200
    assert c.output(ident, follow="true").read() == b"one two three"
    r = c.exec(ident, "/stdin", "POST", b"x")
    assert r.error()[:2] == (409, "wrong_state")


def test_stdin_of_a_program_that_does_not_read(init):
    c = init.client
    ident = c.detach("/bin/sh", "-c", "exec <&-; sleep 0.2", stdin_open=True)
    wait_for(lambda: c.exec(ident, "/stdin", "POST", b"x" * 1000).status == 409)
    ident = c.detach("sleep", "0.5", stdin_open=True)
    r = c.exec(ident, "/stdin", "POST", b"x" * 1000000)  # blocks, then it ends
    assert r.error()[:2] == (409, "wrong_state")


def test_a_slow_pipe_holds_the_body_back(init):
    c = init.client
    ident = c.detach("sleep", "100", stdin_open=True)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(c.path)
    s.sendall(b"POST %s/execs/%s/stdin HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n"
              % (SANDBOX.encode(), ident.encode()))
    s.settimeout(0.3)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 50000000:
            sent += s.send(b"x" * 65536)
    assert sent < 2 * MIB and init.small()
    s.close()


def test_a_pipelined_pair_is_answered_in_order(init):
    c = init.client
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(c.path)
    one = b"GET /v1/hello HTTP/1.1\r\nHost: x\r\n\r\n"
    s.sendall(one * 3 + b"GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    got = b""
    while b := s.recv(65536):
        got += b
    assert got.count(b"HTTP/1.1 200") == 3 and got.count(b"HTTP/1.1 404") == 1
    assert got.index(b"404") > got.rindex(b"200 OK")


def test_257_connections(init):
    c = init.client
    held = []
    for _ in range(256):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(c.path)
        held.append(s)
    wait_for(lambda: c_status(c) == 503, what="one too many")
    held.pop().close()
    wait_for(lambda: c_status(c) == 200, what="room again")


def c_status(c):
    try:
        return c.ask("GET", "/v1/hello").status
    except OSError:
        return 0


def test_a_part_of_it_in_the_reply(init):
    c = init.client
    everything = "".join(f"{i}\n" for i in range(1, 2001))

    def run(line, **kw):
        return c.run("/bin/sh", "-c", line, **kw).json()
    r = run("seq 1 2000; echo oops >&2", max_output=100, keep="both")
    assert (r["stdout"], r["stdout_tail"]) == (everything[:50], everything[-50:])
    assert (r["stdout_offset"], r["stdout_bytes"], r["stdout_cut_offset"], r["stdout_cut_bytes"]) == (0, 8893, 50, 8793)
    assert r["stderr"] == "oops\n" and "stderr_cut_bytes" not in r and "stderr_tail" not in r
    assert c.output(r["id"], offset=50, limit=8793).read().decode() == everything[50:-50]
    r = run("seq 1 2000", max_output=100, keep="head")
    assert r["stdout"] == everything[:100] and "stdout_tail" not in r
    assert (r["stdout_cut_offset"], r["stdout_cut_bytes"]) == (100, 8793)
    r = run("seq 1 2000", max_output=100)
    assert r["stdout"] == everything[-100:] and r["stdout_offset"] == 8793
    assert (r["stdout_cut_offset"], r["stdout_cut_bytes"]) == (0, 8793)
    # a letter is not torn: what is cut begins with it
    r = run("printf 'aä%.0s' 1 2 3 4", max_output=5, keep="head")
    assert r["stdout"] == "aäa" and (r["stdout_cut_offset"], r["stdout_cut_bytes"]) == (4, 8)
    assert run("printf 'a\\377bcdef'", max_output=4, keep="head")["stdout_b64"] == "Yf9iYw=="
    assert run("echo x", max_output=0)["stdout"] == ""


def test_the_head_outlives_the_ring(init):
    """Many times what PID 1 keeps: who waits gets the beginning all the same."""
    r = init.client.run("/bin/sh", "-c", "echo first; head -c 9000000 /dev/zero | tr '\\0' x; echo last",
                        max_output=100, keep="both").json()
    assert r["stdout"] == "first\n" + "x" * 44 and r["stdout_tail"] == "x" * 45 + "last\n"
    assert (r["stdout_bytes"], r["stdout_cut_offset"], r["stdout_cut_bytes"]) == (9000011, 50, 8999911)
