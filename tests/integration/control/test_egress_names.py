# SPDX-License-Identifier: Apache-2.0
"""Addresses of names inside a sandbox: a program that remembers one reaches its name, also after a restart of cay-egress"""
import pathlib
import re
import struct

import lab
import pytest
from cay import file, wait_for
from conftest import BUILD
from test_egress import API, DB, HOSTS, ZONE, allow, dial, node_in_lab


@pytest.fixture(scope="module")
def net():
    with lab.Lab(HOSTS, dict(ZONE)) as internet:
        yield internet


def address(node, box, name):
    """The address that a program inside gets for it."""
    text = node.exec(box, ["busybox", "nslookup", name, "192.0.0.1"]).text
    return re.findall(r"Address: (25\.\S+)", text)[0]


def restart(c):
    before = c.log("cayd").count("cay-egress is connected")
    c.kill_daemon("cay-egress")
    c.start_egress()
    wait_for("cay-egress to be connected", lambda: c.log("cayd").count("cay-egress is connected") > before, 30)


def names_of(c, box):
    return [line.split()[1] for line in (c.run / "egress/names").read_text().splitlines() if line.split()[0] == box]


def test_an_address_is_that_of_its_name_after_a_restart(net):
    """Nothing is looked up again: names below a wildcard, of two sandboxes, over two restarts."""
    with node_in_lab() as c:
        one, other = (c.create("tiny", egress=allow("*.example.com", ports=[5432, 8443])) for _ in range(2))
        at = {name: address(c, one, name) for name in ("db.example.com", "api.example.com")}
        theirs = address(c, other, "api.example.com")
        for _ in range(2):
            restart(c)
            wait_for("it to be attached", lambda: dial(c, one, at["db.example.com"], 5432)[0] == f"this is {DB} port 5432\n", 30)
            assert dial(c, one, at["api.example.com"], 8443)[0] == f"this is {API} port 8443\n"
            wait_for("the other", lambda: dial(c, other, theirs, 8443)[0] == f"this is {API} port 8443\n", 30)
            assert not dial(c, other, at["db.example.com"], 5432)[0], "a name of another sandbox"
        assert {name: address(c, one, name) for name in at} == at
        assert names_of(c, one) == ["db.example.com", "api.example.com"], "each of them once"
        assert (c.run / "egress/names").stat().st_mode & 0o777 == 0o600
        c.delete(other)
        wait_for("its end", lambda: names_of(c, other)[-1] == "-", 30)
        c.kill_daemon("cayd")
        c.kill_daemon("cay-egress")
        with open(c.run / "egress/names", "a") as f:
            f.write("no line at all\nsb00000028cfmpe6vrhtyaes5g unknown.example\n" + one)  # a sandbox that is gone, and half a line
        c.start_egress()
        c.start_cayd()
        wait_for("it to be attached", lambda: dial(c, one, at["db.example.com"], 5432)[0], 30)
        assert not names_of(c, other) and names_of(c, one) == ["db.example.com", "api.example.com"]
        c.delete(one)


def test_the_file_of_names_is_compacted_while_cay_egress_runs(net):
    """Names of sandboxes that ended leave it; those of others keep their order and addresses, also of names that come meanwhile."""
    with node_in_lab([file("bin/dial", pathlib.Path(BUILD, "tests/integration/dial").read_bytes(), 0o755)]) as c:
        path = c.run / "egress/names"
        stays = c.create("tiny", egress=allow("*.example.com", ports=[5432, 8443]))
        at = {name: address(c, stays, name) for name in ("db.example.com", "api.example.com")}
        asks = {"rules": [{"action": "ask", "to": "*"}]}
        suffix = ".".join(["x" * 50] * 2) + ".example"
        pid, sizes = c.pids()["cay-egress"], []
        for turn in range(3):
            boxes = [c.create("tiny", egress=asks) for _ in range(3)]
            for one in boxes:
                c.exec_detached(one, ["dial", "names", suffix, "200", "150"])
            for one in boxes:
                wait_for("its names", lambda one=one: len(names_of(c, one)) == 200, 60)
            sizes.append(path.stat().st_size)
            at[f"n{turn}.example.com"] = None
            net.set_name(f"n{turn}.example.com", [DB])
            for one in boxes:
                c.delete(one)
            at[f"n{turn}.example.com"] = address(c, stays, f"n{turn}.example.com")
            wait_for("a smaller file", lambda: path.stat().st_size < sizes[-1] / 2, 30)
            assert names_of(c, stays) == list(at), "in their order"
        assert sizes[0] > 80000 and max(sizes) < 1.5 * sizes[0], sizes
        assert c.pids()["cay-egress"] == pid and not (c.run / "egress/names.next").exists() and path.stat().st_mode & 0o777 == 0o600
        restart(c)
        wait_for("it to be attached", lambda: dial(c, stays, at["db.example.com"], 5432)[0] == f"this is {DB} port 5432\n", 30)
        assert {name: address(c, stays, name) for name in at} == at
        c.delete(stays)


@pytest.mark.parametrize("where", ["write:filled", "write:renamed"])
def test_a_death_while_the_file_of_names_is_compacted_loses_none(net, where):
    """The first file that a cay-egress writes is that of its start."""
    with node_in_lab([file("bin/dial", pathlib.Path(BUILD, "tests/integration/dial").read_bytes(), 0o755)]) as c:
        stays = c.create("tiny", egress=allow("*.example.com", ports=[5432, 8443]))
        at = {name: address(c, stays, name) for name in ("db.example.com", "api.example.com")}
        c.kill_daemon("cay-egress")
        c.env["CAY_FAULT"] = f"{where}=kill@2"
        c.start_egress()
        del c.env["CAY_FAULT"]
        wait_for("it to be attached", lambda: dial(c, stays, at["db.example.com"], 5432)[0], 30)
        boxes = [c.create("tiny", egress={"rules": [{"action": "ask", "to": "*"}]}) for _ in range(3)]
        for one in boxes:
            c.exec_detached(one, ["dial", "names", ".".join(["x" * 50] * 2) + ".example", "200", "150"])
        for one in boxes:
            wait_for("its names", lambda one=one: len(names_of(c, one)) == 200, 60)
        for one in boxes:
            c.delete(one)
        wait_for("its death", lambda: c.daemons["cay-egress"].poll() is not None, 30)
        c.start_egress()
        wait_for("it to be attached again", lambda: dial(c, stays, at["db.example.com"], 5432)[0] == f"this is {DB} port 5432\n", 30)
        assert {name: address(c, stays, name) for name in at} == at and names_of(c, stays) == list(at)
        assert sorted(path.name for path in (c.run / "egress").iterdir() if path.is_file()) == ["names"]
        c.delete(stays)


def question(name, number, kind=1):
    labels = b"".join(bytes([len(p)]) + p.encode() for p in name.split("."))
    message = struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)
    return struct.pack(">H", len(message)) + message


def answers(data):
    """(number, rcode, addresses) of each answer in a stream."""
    found = []
    while data:
        n = struct.unpack(">H", data[:2])[0]
        message, data = data[2:2 + n], data[2 + n:]
        number, flags, _, count = struct.unpack(">HHHH", message[:8])
        assert len(message) == n and flags & 0x8000
        found.append((number, flags & 15, [".".join(map(str, message[-4:]))] if count == 1 and flags & 15 == 0 else []))
    return found


def over_tcp(c, box, data, server="8.8.8.8"):
    c.open("PUT", f"/v1/sandboxes/{box}/files/content?path=/tmp/asks", data).read()
    return c.exec(box, ["sh", "-c", f"(cat /tmp/asks; sleep 1) | busybox nc -w 5 {server} 53"], timeout_s=60).stdout


def test_questions_over_tcp(net):
    """At any server, several in one connection; the same answers as over UDP, and nothing of a name that is denied leaves the node."""
    with node_in_lab() as c:
        one = c.create("tiny", egress=allow("*.example.com", ports=[5432]))
        at = address(c, one, "db.example.com")
        net.frames(), net.asked()
        asks = question("db.example.com", 7) + question("evil.test", 8) + question("db.example.com", 9, 28) + question("nothing.example.com", 10)
        for server in ("8.8.8.8", "192.0.0.1"):
            assert answers(over_tcp(c, one, asks, server)) == [(7, 0, [at]), (8, 3, []), (9, 0, []), (10, 3, [])]
        assert {name for name, *_ in net.asked()} == {"db.example.com", "nothing.example.com"}
        assert {(to, port) for protocol, to, port, _ in net.frames()[0] if protocol != 1} == {(lab.DNS, 53)}
        for wrong in (b"\0\0", b"\xff\xff" + bytes(70), b"\0\x05hello", b"GET / HTTP/1.1\r\n\r\n", question("db.example.com", 1)[:20]):
            assert all(code for _, code, _ in answers(over_tcp(c, one, wrong))), wrong
        assert answers(over_tcp(c, one, question("db.example.com", 11))) == [(11, 0, [at])]
        hold = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (sleep 30 | busybox nc 8.8.8.8 53 > /dev/null) & done; sleep 30"
        c.exec_detached(one, ["sh", "-c", hold])
        assert dial(c, one, "db.example.com", 5432)[0], "connections that say nothing hold up no other"
        c.delete(one)
