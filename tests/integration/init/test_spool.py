# SPDX-License-Identifier: Apache-2.0
"""Output that is spooled: all of it is there, from any offset, and a disk that stalls is waited for by nobody else."""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import struct
import tempfile
import threading

import pytest

import stalled_disk
from client import DATA, END, FRAMES, GAP, SANDBOX, SSE, Connection, frames
from conftest import FULL, Init, wait_for
from test_files_stall import SOON, machine, run_and_kill
from test_output import MIB, WRITER, expected

HALF = MIB // 2  # of a ring
PYTHON = "/usr/bin/python3"


@pytest.fixture
def own():
    """A PID 1 whose /tmp may be mounted over, and whose children may be killed."""
    init = Init()
    yield init
    init.stop()


def spooled(c, n, then="", **fields):
    return c.detach(PYTHON, "-c", WRITER % n + then, output="spool", **fields)


def go_on(c, ident):
    assert c.exec(ident, "/stdin?close=true", "POST", b"x").status == 200


def ended(c, ident):
    wait_for(lambda: c.exec(ident).json()["state"] == "ended", 60, "its end")
    return c.exec(ident).json()


def spoolers(init):
    found = []
    for p, _ in init.children():
        with contextlib.suppress(OSError):  # it may be gone
            found += [p] * (pathlib.Path(f"/proc/{p}/comm").read_text() == "cay-spool\n")
    return found


def kill_spooler(init):
    wait_for(lambda: spoolers(init), 20, "a spooler")
    [p] = spoolers(init)
    os.kill(p, signal.SIGKILL)
    wait_for(lambda: p not in spoolers(init), 20, "its end")


def forget_all(init):
    """256 that ended are kept."""
    for _ in range(257):
        init.client.run("true")
    wait_for(lambda: not spoolers(init), 20, "no spooler")


def whole(c, ident, n):
    r = c.output(ident)
    return int(r.headers["Cay-Offset"]) == 0 and hashlib.sha256(r.read()).hexdigest() == expected(n)


def counted(r):
    """Bytes that came and bytes that a gap told of, in one piece up to an end."""
    pos = lost = 0
    for kind, _, offset, content in frames(r):
        assert kind == END or offset == pos
        if kind == GAP:
            lost += struct.unpack("<Q", content)[0]
            pos += struct.unpack("<Q", content)[0]
        elif kind == DATA:
            pos += len(content)
    assert kind == END
    return pos, lost


def test_it_keeps_all_of_it(init):
    n = (256 if FULL else 8) * MIB
    ident = spooled(init.client, n)
    assert ended(init.client, ident)["stdout_bytes"] == n
    assert whole(init.client, ident, n) and whole(init.client, ident, n)
    assert init.small()


def test_any_offset_any_number_of_readers(init):
    """Each is somewhere else, some before it was written, and all see the same."""
    c, n, got = init.client, 6 * MIB, {}
    ident = spooled(c, n)
    starts = [0, 1, 4095, MIB - 1, 3 * MIB + 17, 0, 5 * MIB]

    def read(i, start):
        h = hashlib.sha256()
        with c.output(ident, offset=start, follow="true") as r:
            while b := r.read(10007 * (i + 1)):
                h.update(b)
        got[i] = h.hexdigest()

    threads = [threading.Thread(target=read, args=(i, start)) for i, start in enumerate(starts)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    ended(c, ident)
    text = c.output(ident).read()
    assert hashlib.sha256(text).hexdigest() == expected(n)
    assert got == {i: hashlib.sha256(text[start:]).hexdigest() for i, start in enumerate(starts)}
    for start, limit in [(0, 1), (32767, 3), (2 * MIB, 65537), (n - 1, 10), (n, 10)]:
        assert c.output(ident, offset=start, limit=limit).read() == text[start:start + limit]


def test_letters_are_not_torn_where_a_piece_ends(own):
    """Nor is one waited for of which a piece has only the beginning."""
    c, letter, n = own.client, "\u20ac", 1_000_000
    ident = c.detach(PYTHON, "-c", f"import os, sys; sys.stdout.write('x' + '{letter}' * {n}); sys.stdout.flush(); os.read(0, 1)",
                     output="spool", stdin_open=True, env={"PYTHONIOENCODING": "utf-8"})
    wait_for(lambda: c.exec(ident).json()["stdout_bytes"] == 1 + 3 * n, 20, "all of it")
    r = c.output(ident, {"Accept": SSE}, follow="true")
    got = b""
    while got.count(letter.encode()) < n:
        got += r.read1(1 << 20)
    go_on(c, ident)
    got += r.read()
    told = [json.loads(line[6:]) for line in got.decode().split("\n") if line.startswith("data: ")]
    assert "".join(e["t"] for e in told if "t" in e) == "x" + letter * n and not any("b64" in e for e in told)


def test_who_waits_has_the_beginning_and_the_end(init):
    n = 3 * MIB
    e = init.client.run(PYTHON, "-c", f"import sys; sys.stdout.write(''.join('%07d\\n' % i for i in range({n // 8})))",
                        output="spool", keep="both", max_output=4096).json()
    assert e["stdout_bytes"] == n
    assert e["stdout"].startswith("0000000\n") and e["stdout_tail"].endswith("%07d\n" % (n // 8 - 1))


def test_a_full_disk_goes_on_with_a_gap(own):
    c, n = own.client, 16 * MIB
    c.sh("mount -t tmpfs -o size=2m tmpfs /tmp")
    ident = spooled(c, n)
    ended(c, ident)
    pos, lost = counted(c.output(ident, {"Accept": FRAMES}))
    assert pos == n and 0 < lost < n - 2 * MIB


def test_nowhere_to_write_is_as_drop(own):
    c, n = own.client, 4 * MIB
    c.sh("mount -t tmpfs -o ro tmpfs /tmp; mount -t tmpfs -o ro tmpfs /var/tmp")
    ident = spooled(c, n)
    assert ended(c, ident)["stdout_bytes"] == n
    pos, lost = counted(c.output(ident, {"Accept": FRAMES}))
    assert pos == n and 0 < lost <= n - HALF


def test_who_kills_the_spooler_loses_nothing(own):
    """While it writes, while somebody reads, when all is over."""
    c, n = own.client, 8 * MIB
    done = spooled(c, n)
    ended(c, done)
    kill_spooler(own)
    assert whole(c, done, n)
    ident = spooled(c, n, "\nos.read(0, 1)\nfor i in range(64): os.write(1, b'x' * 65536)", stdin_open=True)
    for _ in range(5):
        kill_spooler(own)
    wait_for(lambda: c.exec(ident).json()["stdout_bytes"] == n, 30, "its first part")
    with c.output(ident, follow="true") as r:
        assert r.read(100000)
        kill_spooler(own)
        go_on(c, ident)
        kill_spooler(own)
        assert len(r.read()) == n + 4 * MIB - 100000
    ended(c, ident)
    text = c.output(ident).read()
    assert hashlib.sha256(text[:n]).hexdigest() == expected(n) and text[n:] == b"x" * (4 * MIB)
    assert whole(c, done, n)


def test_a_file_that_went_with_its_spooler_is_a_gap(own):
    """Where PID 1 holds no descriptor, since closing it might wait: what was only there is told as lost, and not made up."""
    c, n = own.client, 8 * MIB
    c.sh("mount -t ramfs ramfs /tmp && chmod 1777 /tmp")
    ident = spooled(c, n)
    ended(c, ident)
    assert whole(c, ident, n)
    r = c.output(ident, {"Accept": FRAMES})
    kill_spooler(own)
    pos, lost = counted(r)
    assert pos == n and (lost == 0 or lost <= n - HALF)  # it may have had all of it by then
    pos, lost = counted(c.output(ident, {"Accept": FRAMES}))
    assert pos == n and 0 < lost <= n - HALF
    again = spooled(c, n)
    ended(c, again)
    assert whole(c, again, n)


@contextlib.contextmanager
def forks():
    """A PID 1, and a function that says how many processes it may have; None: how often that was too few."""
    [at] = [l.split()[1] for l in pathlib.Path("/proc/mounts").read_text().splitlines()
            if l.split()[2] == "cgroup" and "pids" in l.split()[3].split(",")]
    init = Init()
    group = pathlib.Path(tempfile.mkdtemp(prefix="cay-test-forks-", dir=at))
    try:
        (group / "cgroup.procs").write_text(str(init.pid))

        def allow(n=None):
            if n:
                (group / "pids.max").write_text(str(n))
            return int((group / "pids.events").read_text().split()[1])

        yield init, allow
    finally:
        init.stop()
        wait_for(lambda: not (group / "cgroup.procs").read_text(), 20, "the end of all of them")
        group.rmdir()


def without_spooler(init, allow, n):
    """A command that has written n bytes to its spooler, which is dead and cannot be forked, and writes more."""
    c = init.client
    ident = spooled(c, n, "\nos.read(0, 1)\nfor i in range(64): os.write(1, b'x' * 65536)", stdin_open=True)
    wait_for(lambda: c.exec(ident).json()["stdout_bytes"] == n, 30, "its first part")
    allow(1)
    kill_spooler(init)
    go_on(c, ident)
    return ident


def test_one_that_cannot_be_forked_is_tried_again():
    n = 3 * MIB
    with forks() as (init, allow):
        c = init.client
        ident = without_spooler(init, allow, n)
        wait_for(lambda: allow() >= 3, 30, "some tries")
        assert c.exec(ident).json()["state"] == "running" and not spoolers(init)
        allow("max")
        assert ended(c, ident)["end"]["exit_code"] == 0
        text = c.output(ident).read()
        assert hashlib.sha256(text[:n]).hexdigest() == expected(n) and text[n:] == b"x" * (4 * MIB)


def test_one_that_can_never_be_forked_is_as_drop():
    n = 3 * MIB
    with forks() as (init, allow):
        c = init.client
        ident = without_spooler(init, allow, n)
        assert ended(c, ident)["end"]["exit_code"] == 0
        assert allow() == 17 and not spoolers(init)
        pos, lost = counted(c.output(ident, {"Accept": FRAMES}))
        assert pos == n + 4 * MIB and lost > n
        allow("max")
        again = spooled(c, n)
        ended(c, again)
        assert whole(c, again, n)


def test_no_file_has_a_hole(own):
    """One that writes on when its file is gone: nothing of a second file stands for what was in the first."""
    c, n = own.client, 4 * MIB
    other = spooled(c, n)
    ended(c, other)
    c.sh("mount -t ramfs ramfs /tmp && chmod 1777 /tmp")
    half = f"for i in range({n // 65536}): os.write(1, b'x' * 65536)\n"
    ident = c.detach(PYTHON, "-c", f"import os\n{half}os.read(0, 1)\n{half}", output="spool", stdin_open=True)
    wait_for(lambda: c.exec(ident).json()["stdout_bytes"] == n, 20, "its first half")
    kill_spooler(own)
    go_on(c, ident)
    assert ended(c, ident)["stdout_bytes"] == 2 * n
    lost = sum(struct.unpack("<Q", content)[0] if kind == GAP else 0 for kind, _, _, content in frames(c.output(ident, {"Accept": FRAMES})))
    assert 0 < lost <= 2 * n - MIB
    assert whole(c, other, n)
    assert all(not content.strip(b"x") for kind, _, _, content in frames(c.output(ident, {"Accept": FRAMES})) if kind == DATA)


def test_there_is_a_spooler_only_while_one_is_needed(own):
    c = own.client
    assert not spoolers(own)
    ended(c, spooled(c, MIB, cwd="/"))
    assert len(spoolers(own)) == 1
    forget_all(own)
    assert not own.children()


@pytest.mark.parametrize("hold", [{stalled_disk.TMPFILE}, stalled_disk.CONTENT], ids=["open", "write"])
def test_a_stalled_disk_is_waited_for_by_the_command_alone(hold):
    n = 4 * MIB
    with machine(hold=hold) as (init, disk):
        c = init.client
        c.sh(f"mount --bind {disk.at} /tmp && mount -t tmpfs -o ro tmpfs /var/tmp")
        idents = [spooled(c, n) for _ in range(3)]
        wait_for(lambda: disk.held, 20, "the disk")
        for ident in idents:
            wait_for(lambda: c.exec(ident).json()["stdout_bytes"] == HALF, 20, "half a ring, then it waits")
        for _ in range(3):
            run_and_kill(init)
        # what is in memory can be read, and the command ended
        assert len(c.output(idents[0], limit=HALF).read()) == HALF
        assert c.exec(idents[0], "/signal", "POST", {"signal": "KILL"}).status == 200
        wait_for(lambda: c.exec(idents[0]).json().get("end"), SOON, "the end of what was killed")
        r = Connection(c.path, 30)
        r.request("GET", f"{SANDBOX}/execs/{idents[1]}/output?follow=true")
        run_and_kill(init)
        disk.thaw()
        for ident in idents[1:]:
            assert ended(c, ident)["stdout_bytes"] == n
        run_and_kill(init)
        r.close()
        forget_all(init)
        assert not disk.made


def test_a_read_of_a_stalled_disk_is_waited_for_by_its_reader_alone(own):
    """What is only in the file is asked for, and comes when it comes: the spooler is stopped, as a disk would."""
    c, n = own.client, 4 * MIB
    ident = spooled(c, n)
    ended(c, ident)
    assert whole(c, ident, n)
    [p] = spoolers(own)
    os.kill(p, signal.SIGSTOP)
    r = c.output(ident)
    for _ in range(3):
        run_and_kill(own)
    assert len(c.output(ident, offset=n - 1000).read()) == 1000
    gone = c.output(ident, offset=100)
    gone.close()
    os.kill(p, signal.SIGCONT)
    assert hashlib.sha256(r.read()).hexdigest() == expected(n)


def test_rings_are_not_given_back_before_they_are_saved(own):
    """Others want the memory of commands that ended, while what those wrote is on its way to a disk."""
    c, n = own.client, 300_000
    ended(c, spooled(c, 1))
    [p] = spoolers(own)
    os.kill(p, signal.SIGSTOP)
    idents = [spooled(c, n) for _ in range(3)]
    for ident in idents:
        ended(c, ident)
    for _ in range(6):
        assert len(c.sh("head -c 4500000 /dev/zero | tr '\\0' x").json()["stdout"]) == 4 * MIB
    os.kill(p, signal.SIGCONT)
    assert all(whole(c, ident, n) for ident in idents)


def test_one_that_writes_without_end_holds_up_nobody(own):
    """The newest one has always more than the disk takes: an older one goes on, and what is in files is read."""
    c, n = own.client, 4 * MIB
    old = spooled(c, n)
    ended(c, old)
    slow = spooled(c, 0, f"\nos.read(0, 1)\nfor i in range({n // 65536}): os.write(1, b'x' * 65536)", stdin_open=True)
    with contextlib.ExitStack() as stack:
        own.client.sh("mount -t tmpfs -o size=8g tmpfs /tmp")
        endless = [c.detach("sh", "-c", "yes 2>&1", output="spool") for _ in range(3)]
        stack.callback(lambda: [c.exec(e, "/signal", "POST", {"signal": "KILL"}) for e in endless])
        [p] = spoolers(own)
        os.setpriority(os.PRIO_PROCESS, p, 19)  # as slow as a disk
        wait_for(lambda: c.exec(endless[-1]).json()["stdout_bytes"] > 2 * MIB, 20, "a flood")
        go_on(c, slow)
        assert ended(c, slow)["stdout_bytes"] == n
        assert whole(c, old, n)
        assert len(c.output(endless[-1], limit=MIB).read()) == MIB


def test_whoever_is_killed_ends_while_the_disk_stalls(own):
    """More of them than there is memory for rings."""
    c = own.client
    ended(c, spooled(c, 1))
    [p] = spoolers(own)
    os.kill(p, signal.SIGSTOP)
    idents = [c.detach("yes", output="spool") for _ in range(40)]
    wait_for(lambda: all(c.exec(i).json()["stdout_bytes"] >= 2048 for i in idents), 20, "all wait for the disk")
    for ident in idents:
        assert c.exec(ident, "/signal", "POST", {"signal": "KILL"}).status == 200
    for ident in idents:
        wait_for(lambda: c.exec(ident).json().get("end"), SOON, "the end of what was killed")
    run_and_kill(own)
    sizes = [c.exec(i).json()["stdout_bytes"] for i in idents]
    os.kill(p, signal.SIGCONT)
    assert [len(c.output(i).read()) for i in idents] == sizes
    assert own.small()


def test_the_end_of_a_command_is_final(born):
    """A spooler that starts with a command has copies of its pipes, also after the command ended."""
    c = born.client
    ended(c, spooled(c, 1))
    forget_all(born)
    wait_for(lambda: not spoolers(born), 20, "the end of the spooler")
    freeze = born.cgroup / "spool" / "cgroup.freeze"
    freeze.write_text("1")  # the next one is born there
    ident = c.detach("/bin/echo", "hi", output="spool")
    wait_for(lambda: c.exec(ident).json()["state"] == "ended", 20, "the end of the command")
    freeze.write_text("0")
    ended(c, spooled(c, 4 * MIB))  # the spooler works
    told = c.exec(ident).json()
    assert told["state"] == "ended" and told["end"]["exit_code"] == 0, told
    assert c.output(ident, follow="true").read() == b"hi\n"
