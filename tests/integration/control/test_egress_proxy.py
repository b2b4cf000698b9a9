# SPDX-License-Identifier: Apache-2.0
"""A node that reaches other hosts by an HTTP proxy only: the settings egress.proxy, proxy_credentials, proxy_resolves and no_proxy

The proxy is Python's HTTP server in the lab, at a private address, as companies have them (tests/lib/httpproxy.py).  What is expected comes
from what it was asked, from the hosts, from every packet that left the node, and from the CONNECT of curl.
"""
import base64
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile

import cay
import httpproxy
import lab
import pytest
import tlshost
from cay import wait_for
from conftest import BUILD, tiny
from test_egress import API, DB, HOSTS, LAN, ZONE, allow, client_hello, decisions, dial, left
from test_egress_inspect import HTTPS, curl, image, requests
from test_egress_inspect import API as WEB
from test_egress_inspect import Web
from test_egress_usage import usage

PROXY, PUBLIC, PORT = "10.9.9.9", "93.184.2.9", 3128
DEAD, SECRET = "93.184.2.77", "pass-Zq7x 0123:45"
ALL = {"rules": [{"action": "allow", "to": to, "ports": ["1-65535"]} for to in ("*", "0.0.0.0/0")]}
LISTENS = [(PROXY, 9), (PUBLIC, 9)]  # so that the lab has these addresses
# what it replies at a port of db.example.com, the reason in the log, and what the program gets
REPLIES = {
    1001: ("HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nno no", "proxy_denied"),
    1002: ("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n", "proxy_login"),
    1003: ("HTTP/1.1 503 Service Unavailable\r\n\r\n", "proxy_connect_failed"),
    1004: ("HTTP/1.1 302 Found\r\nLocation: http:" + "//login.example/\r\n\r\n", "proxy_denied"),
    1005: ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nbytes", "proxy_malformed"),
    1006: ("SSH-2.0-OpenSSH_10\r\n\r\n", "proxy_malformed"),
    1007: ("HTTP/1.1 200 OK\n\nbytes", "proxy_malformed"),
    1008: ("HTTP/1.1 200 OK\r\n" + "A: bcdefghij\r\n" * 2000 + "\r\nbytes", "proxy_malformed"),
    1009: ("HTTP/1.1 200 OK\r\n", "proxy_closed"),
    1010: ("", "proxy_closed"),
    1011: (None, "proxy_timeout"),
}


@pytest.fixture
def net():
    zone = {**ZONE, "two.example.com": [DEAD, DB], "proxy.example.com": [PROXY], "nowhere.example.com": []}
    with lab.Lab(HOSTS + LISTENS, zone) as internet:
        yield internet


@pytest.fixture
def files():
    """Where a program of another user may read."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        os.chmod(top, 0o755)
        yield pathlib.Path(top)


@contextlib.contextmanager
def node_behind(proxy, **more):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_EGRESS_PROXY": "http:" + f"//{proxy}:{PORT}", "CAY_LOG_LEVEL": "debug", **more}) as c:
        c.image_import("tiny", tiny())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        yield c


def reasons(node, box):
    """Of the connections that were cut, oldest first."""
    return [d["outcome"] for d in decisions(node) if d.get("target") == box and d["op"] == "cut"]


def wait_for_reasons(node, box, *want):
    wait_for(f"the records {want}, of {reasons(node, box)}", lambda: reasons(node, box) == list(want), 30)


def test_the_proxy_gets_the_address_that_was_checked(net, files):
    with httpproxy.Proxy(net, files / "log", [(PROXY, PORT)], replies={f"{DEAD}:5432": "HTTP/1.1 502 Bad Gateway\r\n\r\n"}) as proxy, node_behind(PROXY) as node:
        one = node.create("tiny", egress=allow("*", DB + "/32", LAN + "/32", ports=[5432, 443]))
        net.frames(), net.asked(), net.connections()
        assert dial(node, one, "db.example.com", 5432, "hello")[0] == f"this is {DB} port 5432\nhello"
        assert proxy.requests() == [{"target": f"{DB}:5432", "host": f"{DB}:5432", "login": "", "version": "HTTP/1.1"}]
        assert {name for name, *_ in net.asked()} == {"db.example.com"} and [c[:2] for c in net.connections()] == [(DB, 5432)]
        assert dial(node, one, DB, 5432)[0] and proxy.asked() == [f"{DB}:5432"]
        assert dial(node, one, "two.example.com", 5432)[0] and proxy.asked() == [f"{DEAD}:5432", f"{DB}:5432"]
        for to, port in (("lan.example.com", 5432), ("mixed.example.com", 5432), ("metadata.example.com", 5432), (LAN, 5432), (API, 5432), ("db.example.com", 22)):
            assert not dial(node, one, to, port)[0]
        node.open("PUT", f"/v1/sandboxes/{one}/files/content?path=/tmp/hello", client_hello("cdn.example.com")).read()
        node.exec(one, ["sh", "-c", "busybox nc -w 5 api.example.com 443 < /tmp/hello"], timeout_s=40)
        assert proxy.asked() == [] and left(net) == {(PROXY, PORT)}
        wait_for_reasons(node, one, *["address_not_public"] * 4, "deny", "deny", "other_name")
        said = [(d.get("peer"), d["detail"]) for d in decisions(node) if d.get("target") == one and d["op"] == "connect"]
        assert [peer for peer, _ in said] == [None] * 3 and all(detail.endswith(", by the proxy") for _, detail in said), said
        wait_for("their ends", lambda: [d.get("peer") for d in decisions(node) if d.get("target") == one and d["op"] == "closed"] == [DB] * 3, 30)
        node.delete(one)


def test_the_proxy_gets_the_name_that_was_judged(net, files):
    """With proxy_resolves no name server is asked; without the proxy go the names and networks in no_proxy."""
    login = files / "login"
    login.write_text(f"cay:{SECRET}\n")
    login.chmod(0o440)
    os.chown(login, 0, cay.EGRESS_UID)
    want = "Basic " + base64.b64encode(f"cay:{SECRET}".encode()).decode()
    names = {"db.example.com": DB, "plain.example.com": DB, "two.example.com": DB}
    with httpproxy.Proxy(net, files / "log", [(PROXY, PORT)], names, login=want) as proxy, \
            node_behind("proxy.example.com", CAY_EGRESS_PROXY_CREDENTIALS=str(login), CAY_EGRESS_PROXY_RESOLVES="yes",
                        CAY_EGRESS_NO_PROXY=f"api.example.com *.api.example.com {API}/32", CAY_EGRESS_MAP="index.example.org=plain.example.com:5432") as node:
        one = node.create("tiny", egress=ALL)
        net.frames(), net.asked(), net.connections()
        assert dial(node, one, "db.example.com", 5432, "hello")[0] == f"this is {DB} port 5432\nhello"
        asked = proxy.requests()
        subprocess.run(["curl", "-s", "--max-time", "10", "-p", "-x", "http:" + f"//{PROXY}:{PORT}", "-U", f"cay:{SECRET}", "telnet:" + "//db.example.com:5432"],
                       input=b"", check=False, capture_output=True)
        assert asked == [{"target": "db.example.com:5432", "host": "db.example.com:5432", "login": want, "version": "HTTP/1.1"}]
        assert asked == proxy.requests(), "curl asks in another way"
        assert {name for name, *_ in net.asked()} == {"proxy.example.com"}
        assert dial(node, one, "index.example.org", 80)[0] and proxy.asked() == ["plain.example.com:5432"]
        assert dial(node, one, DB, 5432)[0] and proxy.asked() == [f"{DB}:5432"]
        assert not dial(node, one, "no-such-name.example.com", 5432)[0] and proxy.asked() == ["no-such-name.example.com:5432"]
        assert left(net) == {(PROXY, PORT)}
        assert dial(node, one, "api.example.com", 8443)[0] and dial(node, one, API, 8443)[0]
        assert left(net) - {(PROXY, PORT)} == {(API, 8443)} and proxy.asked() == []  # to the proxy: the ends of connections
        for to, port in ((LAN, 5432), ("proxy.example.com", PORT), ("proxy.example.com", 9)):
            assert not dial(node, one, to, port)[0]
        wait_for_reasons(node, one, "proxy_connect_failed", "address_not_public", "address_of_proxy", "address_of_proxy")
        assert proxy.asked() == [] and left(net) <= {(PROXY, PORT), (API, 8443)}
        found = [d for d in decisions(node) if d.get("target") == one and d["op"] == "connect" and "db.example.com" in d["detail"]]
        assert found[0].get("peer") is None and found[0]["detail"].endswith(", by the proxy")
        pid = node.daemons["cay-egress"].pid
        texts = [node.log(name).encode() for name in ("cayd", "cay-egress", "cay-keeper")] + [json.dumps(decisions(node)).encode()]
        texts += [pathlib.Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        texts += [p.read_bytes() for p in (node.run, node.state) for p in p.rglob("*") if p.is_file()]
        for secret in (SECRET.encode(), want[6:].encode()):
            assert not [t for t in texts if secret in t], "the password is somewhere else"
        node.delete(one)


def test_a_proxy_that_is_public_cannot_be_talked_to(net, files):
    """Who speaks to it can ask it for any host."""
    with httpproxy.Proxy(net, files / "log", [(PUBLIC, PORT)]) as proxy, node_behind(PUBLIC) as node:
        net.set_name("alias-of-proxy.example.com", [PUBLIC])
        one = node.create("tiny", egress=ALL)
        for to, port in ((PUBLIC, PORT), (PUBLIC, 9), ("alias-of-proxy.example.com", PORT)):
            assert not dial(node, one, to, port, "CONNECT 10.1.2.3:5432 HTTP/1.1")[0]
        wait_for_reasons(node, one, *["address_of_proxy"] * 3)
        assert proxy.asked() == []
        assert dial(node, one, "db.example.com", 5432)[0] and proxy.asked() == [f"{DB}:5432"]
        node.delete(one)
    with httpproxy.Proxy(net, files / "log", [(PUBLIC, PORT)]) as proxy, \
            node_behind("named.example.com", CAY_EGRESS_NO_PROXY=f"excepted.example.com {PUBLIC}/32") as node:
        net.set_name("named.example.com", [PUBLIC])
        net.set_name("excepted.example.com", [PUBLIC])
        one = node.create("tiny", egress=ALL)
        for to in ("alias-of-proxy.example.com", "excepted.example.com", PUBLIC):
            assert not dial(node, one, to, PORT, "CONNECT 10.1.2.3:5432 HTTP/1.1")[0]
        wait_for_reasons(node, one, *["address_of_proxy"] * 3)
        assert proxy.asked() == []
        node.delete(one)


def test_what_a_proxy_refuses_is_a_failure_with_a_reason(net, files):
    """And of what it sends then no byte gets to the program; bytes of the host that come with its reply do."""
    replies = {f"{DB}:{port}": text for port, (text, _) in REPLIES.items()}
    replies[f"{DB}:1100"] = "HTTP/1.0 200 Connection established\r\nProxy-agent: test\r\nContent-Length: 3\r\n\r\nSSH-2.0-of-the-host\n"
    with httpproxy.Proxy(net, files / "log", [(PROXY, PORT)], replies=replies) as proxy, node_behind(PROXY) as node:
        one = node.create("tiny", egress=ALL)
        for port in REPLIES:
            got = node.exec(one, ["sh", "-c", f"busybox nc -w 30 db.example.com {port} < /dev/null"], timeout_s=60)
            assert not got.text, port
        wait_for_reasons(node, one, *[why for _, why in REPLIES.values()])
        assert proxy.asked() == [f"{DB}:{port}" for port in REPLIES]
        wait_for("the counts", lambda: usage(node, one)["failed"] == len(REPLIES), 30)
        assert usage(node, one)["denied"] == 0
        rows = node.call("GET", f"/v1/sandboxes/{one}/egress/log")["decisions"]
        assert "proxy_login" in json.dumps(rows)
        assert dial(node, one, "db.example.com", 1100)[0] == "SSH-2.0-of-the-host\n"
        node.delete(one)


def test_a_proxy_that_is_not_there(net):
    for at in (DEAD, "nowhere.example.com", PROXY):
        with node_behind(at) as node:
            one = node.create("tiny", egress=ALL)
            net.frames()
            assert not dial(node, one, "db.example.com", 5432)[0]
            wait_for_reasons(node, one, "proxy_unreachable")
            assert left(net) <= {(DEAD, PORT), (PROXY, PORT)}, "another way was tried"
            node.delete(one)


def test_requests_that_are_read_go_through_it(files):
    """cay-broker does TLS with the host on the socket that the proxy connected."""
    authority = tlshost.Authority(files)
    names = ["-addext", "subjectAltName=DNS:api.example.com"]
    with Web([(WEB, 443), (WEB, 80), (PROXY, 9)], {}, tls=authority.issue("host", "host", names)) as net, \
            httpproxy.Proxy(net, files / "log", [(PROXY, PORT)], {"api.example.com": WEB}) as proxy, \
            node_behind(PROXY, CAY_EGRESS_CA=authority.ca, CAY_EGRESS_ROOTS=authority.ca, CAY_EGRESS_PROXY_RESOLVES="yes") as node:
        node.image_import("tools", image())
        one = node.create("tools", egress={"rules": [{"action": "allow", "to": "api.example.com", "methods": ["GET"], "ports": [80, 443]}]})
        net.frames(), net.asked()
        status, text, error = curl(node, one, HTTPS + "api.example.com/v1/a", HTTPS + "api.example.com/close", HTTPS + "api.example.com/v1/b")
        assert "GET /v1/b" in text, (status, text, error)
        assert curl(node, one, "http:" + "//api.example.com/plain")[0] == 200
        assert curl(node, one, "-d", "x", HTTPS + "api.example.com/v1/a")[0] == 403
        assert proxy.asked() == ["api.example.com:443", "api.example.com:443", "api.example.com:80"]
        assert requests(net)[0] == [b"GET /v1/a", b"GET /close", b"GET /v1/b", b"GET /plain"]
        assert left(net) == {(PROXY, PORT)} and net.asked() == []
        proxy.process.kill()
        proxy.process.wait()
        status, text, _ = curl(node, one, HTTPS + "api.example.com/v1/a")
        assert status == 502 and "proxy_unreachable" in text
        node.delete(one)


@pytest.mark.parametrize("env, says", [
    ({"CAY_EGRESS_PROXY": "http:" + "//cay:hidden-word@10.9.9.9:3128"}, "egress.proxy_credentials"),
    ({"CAY_EGRESS_NO_PROXY": ".example.com"}, "egress.no_proxy"),
    ({"CAY_EGRESS_PROXY_CREDENTIALS": "/nonexistent/file"}, "egress.proxy_credentials: read"),
    ({"CAY_EGRESS_PROXY_CREDENTIALS": "{open}"}, "accessible to all users"),
    ({"CAY_EGRESS_PROXY_CREDENTIALS": "{wrong}"}, "USER:PASSWORD"),
])
def test_settings_that_are_none_stop_the_start(net, files, env, says):
    for name, text, mode in (("open", "cay:hidden-word", 0o644), ("wrong", "hidden-word", 0o640)):
        (files / name).write_text(text)
        os.chown(files / name, 0, cay.EGRESS_UID)
        (files / name).chmod(mode)
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        c.kill_daemon("cay-egress")
        c.env.update({key: value.format(open=files / "open", wrong=files / "wrong") for key, value in env.items()})
        with pytest.raises(RuntimeError, match=says) as e:
            c.start_egress()
        assert "hidden-word" not in str(e.value) + c.log("cay-egress")
        del c.env[next(iter(env))]
        c.start_egress()
