# SPDX-License-Identifier: Apache-2.0
"""Who runs inside and who listens there, as PID 1 tells it."""
import concurrent.futures
import contextlib
import os
import pathlib
import socket
import time

import pytest

from client import SANDBOX
from conftest import wait_for


def listed(init):
    r = init.client.ask("GET", SANDBOX + "/processes")
    assert r.status == 200, r.body
    return r.json()


def found(init, word):
    return [p for p in listed(init)["processes"] if word in p["command"]]


def send(init, pid, **body):
    return init.client.ask("POST", f"{SANDBOX}/processes/{pid}/signal", body)


def test_the_tree(init):
    ident = init.client.detach("sh", "-c", "sh -c 'sleep 1001; :' & sleep 1002; :")

    def all_asleep():
        """One that was forked has its parent's words until it executes its own."""
        leaves = [p for p in found(init, "sleep 100") if p["command"] in ("sleep 1001", "sleep 1002")]
        return len(leaves) == 2 and {p["state"] for p in leaves} == {"S"}
    wait_for(all_asleep, what="a tree of four")
    assert len(found(init, "sleep 100")) == 4
    rows = listed(init)["processes"]
    by_pid = {p["pid"]: p for p in rows}
    first = rows[0]
    assert (first["pid"], first["ppid"], first["depth"]) == (1, 0, 0) and "cay-init" in first["command"] and "exec" not in first
    for p in rows[1:]:
        parent = by_pid[p["ppid"]]
        assert p["depth"] == parent["depth"] + 1 and rows.index(parent) < rows.index(p)
    mine = [p for p in rows if "sleep 100" in p["command"]]
    assert {p["exec"] for p in mine} == {ident}, "who owns them"
    leaf = next(p for p in mine if p["command"] == "sleep 1001")
    assert leaf["state"] == "S" and leaf["uid"] == 0 and leaf["user"] == "root" and leaf["threads"] == 1
    assert 0 < leaf["rss_bytes"] < 64 << 20
    assert abs(time.time() - time.mktime(time.strptime(leaf["started_at"][:19], "%Y-%m-%dT%H:%M:%S")) + time.timezone) < 60
    assert listed(init)["left_out"] == 0


def test_a_command_line_is_a_strangers(init):
    init.client.detach("bash", "-c", "exec -a \"$(printf 'odd\\377b\\033[2Jc\\n\"x')\" sleep 2002")
    init.client.detach("bash", "-c", "exec -a \"$(head -c 100000 /dev/zero | tr '\\0' y)\" sleep 2003")
    init.client.detach("bash", "-c", "echo -n 'a) R 7 (x' > /proc/self/comm; read x < <(sleep 2004)", stdin_open=True)
    # bash has it in its own line until it is executed
    wait_for(lambda: found(init, "x 2002") and found(init, "yyyy"), what="them")
    assert found(init, "odd")[0]["command"] == 'odd\ufffdb [2Jc "x 2002'
    assert len(found(init, "yyyy")[0]["command"]) <= 256


def test_a_signal_reaches_one(init):
    init.client.detach("sleep", "3001")
    other = init.client.detach("sleep", "3002")
    wait_for(lambda: found(init, "sleep 3001") and found(init, "sleep 3002"), what="two")
    p = found(init, "sleep 3001")[0]
    assert send(init, p["pid"], start=p["start"] + 1).error()[:2] == (404, "not_found"), "another one of that number"
    assert found(init, "sleep 3001"), "and it lives"
    r = send(init, p["pid"], start=p["start"], signal="SIGTERM")
    assert (r.status, r.json()) == (200, {"signalled": 1})
    wait_for(lambda: not found(init, "sleep 3001"), what="its end")
    assert found(init, "sleep 3002")
    assert send(init, found(init, "sleep 3002")[0]["pid"], signal="KILL").status == 200
    wait_for(lambda: init.client.exec(other).json()["state"] == "ended", what="its end")
    assert init.client.exec(other).json()["end"]["reason"] in ("signal", "killed")


def test_what_gets_none(init):
    assert send(init, 1, signal="KILL").error()[:2] == (403, "permission_denied")
    assert send(init, 1, tree=True).error()[:2] == (403, "permission_denied")
    assert send(init, 999999).error()[:2] == (404, "not_found")
    for word in ("0", "-1", "x", "4294967297", "01"):
        assert send(init, word).status == 404, word
    assert send(init, 2, signal="NONSENSE").error() == (400, "invalid_argument", "signal")
    assert os.path.exists(f"/proc/{init.pid}")


def test_a_tree_gets_it(confined):
    """Also what other users run: PID 1 may, with no more than a sandbox has."""
    confined.client.detach("sh", "-c", "setsid sh -c 'sleep 4001 & sleep 4002; :' & sleep 4003; :", user="1000")
    confined.client.detach("sleep", "4004", user="1000")
    wait_for(lambda: len(found(confined, "sleep 400")) == 6, what="them")
    root = next(p for p in found(confined, "setsid sh") if p["depth"] == 1)
    assert root["uid"] == 1000
    r = send(confined, root["pid"], signal="KILL", tree=True, start=root["start"])
    assert r.status == 200 and r.json()["signalled"] >= 5, r.body
    wait_for(lambda: [p["command"] for p in found(confined, "sleep 400")] == ["sleep 4004"], what="only the other one")


def test_who_listens(init):
    ident = init.client.detach("python3", "-c", """
import signal, socket
a = socket.create_server(("127.0.0.1", 18181)); b = socket.create_server(("::", 18182), family=socket.AF_INET6)
c = socket.create_server(("127.0.0.2", 18183)); d = socket.create_connection(("127.0.0.1", 18181))
signal.pause()
""")
    assert init.client.ask("GET", SANDBOX + "/ports/18182?wait_ms=25000").json()["open"]
    wait_for(lambda: "127.0.0.2" in str(init.client.ask("GET", SANDBOX + "/ports").json()), what="the third")
    assert not init.client.ask("GET", SANDBOX + "/ports/18183").json()["open"], "a tunnel does not get to 127.0.0.2"
    ports = {p["port"]: p for p in init.client.ask("GET", SANDBOX + "/ports").json()["ports"] if 18181 <= p["port"] <= 18183}
    assert [ports[n]["address"] for n in (18181, 18182, 18183)] == ["127.0.0.1", "::", "127.0.0.2"]
    assert [ports[n]["reached"] for n in (18181, 18182, 18183)] == [True, True, False]
    pid = next(p["pid"] for p in found(init, "create_server"))
    for p in ports.values():
        assert (p["pid"], p["exec"], p["uid"]) == (pid, ident, 0)
    assert init.client.ask("GET", SANDBOX + "/ports/18181").json()["open"]


def test_waiting_for_a_port(init):
    """It is open when somebody listens, and nobody was connected to find out."""
    begun = time.monotonic()
    r = init.client.ask("GET", SANDBOX + "/ports/18190?wait_ms=300").json()
    assert not r["open"] and r["waited_ms"] >= 300 and time.monotonic() - begun < 15
    told = pathlib.Path(init.dir, "told")
    ident = init.client.detach("python3", "-c", """
import os, select, socket, sys
select.select([], [], [], 0.5)
s = socket.create_server(("127.0.0.1", 18190)); s.setblocking(False)
while not os.path.exists(sys.argv[1]): select.select([], [], [], 0.02)
try: s.accept(); print("somebody came", flush=True)
except BlockingIOError: print("nobody came", flush=True)
""", str(told))
    r = init.client.ask("GET", SANDBOX + "/ports/18190?wait_ms=25000").json()
    assert r["open"] and r["waited_ms"] < 20000, r
    told.touch()
    wait_for(lambda: init.client.exec(ident).json()["state"] == "ended", what="its end")
    assert init.client.output(ident).read() == b"nobody came\n"
    for word in ("0", "65536", "http", "080"):
        assert init.client.ask("GET", f"{SANDBOX}/ports/{word}").status == 404, word


def test_lists_do_not_hold_up_pid_1(init):
    """Many at once, and clients that leave: execs go on, and no child is left."""
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        lists = [pool.submit(listed, init) for _ in range(20)]
        assert init.client.sh("echo here").json()["stdout"] == "here\n"
    assert all(x.result()["processes"] for x in lists)
    wait_for(lambda: not init.groups(), what="no cgroup left")
    assert init.small()


def tunnel(init, port):
    """Request a connection to a port; the reply is not read."""
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(30)
    c.connect(init.client.path)
    c.sendall(f"GET {SANDBOX}/tunnel/{port} HTTP/1.1\r\nHost: sandbox\r\nConnection: upgrade\r\nUpgrade: cay-port\r\n\r\n".encode())
    return c


def head(c):
    text = b""
    while not text.endswith(b"\r\n\r\n"):
        text += c.recv(1) or pytest.fail(text)
    return text


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_connection_to_a_port(init, address):
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        port = s.getsockname()[1]
        with tunnel(init, port) as c, s.accept()[0] as peer:
            assert head(c).startswith(b"HTTP/1.1 101 ")
            c.sendall(b"up")
            peer.sendall(b"down")
            assert peer.recv(2, socket.MSG_WAITALL) == b"up" and c.recv(4, socket.MSG_WAITALL) == b"down"
    with tunnel(init, port) as c:
        assert b'"port_closed"' in c.recv(65536)


def test_connections_that_never_come_about_leave_nothing(init):
    """A full backlog takes no connection: a check of it ends in time, and clients that leave free their places."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as s, contextlib.ExitStack() as waiting:
        port = s.getsockname()[1]
        for _ in range(4):
            c = waiting.enter_context(socket.socket())
            c.setblocking(False)
            c.connect_ex(("127.0.0.1", port))
        r = init.client.ask("GET", f"{SANDBOX}/health?port={port}&timeout_ms=200").json()
        assert not r["ok"] and "in time" in r["detail"]
        for _ in range(3):
            for c in [tunnel(init, port) for _ in range(60)]:
                c.close()
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            wait_for(lambda: b" 101 " in tunnel(init, port).recv(16), what="a place")
