# SPDX-License-Identifier: Apache-2.0
"""Signed requests to the operator's server: the settings webhook.url and webhook.secret

What is expected comes from Python's HTTP server, and from the signature of the Standard Webhooks by Python's hmac.
"""
import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import ssl
import tempfile
import threading

import cay
import certs
import lab
import pytest
from cay import wait_for
from conftest import BUILD, tiny
from test_egress import HOSTS
from test_egress_ask import NAME, PORT, answer, ask, refuse, row_of

KEY = bytes(range(24))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@pytest.fixture
def top():
    """Where a program of another user may read."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        os.chmod(made, 0o755)
        yield pathlib.Path(made)


@contextlib.contextmanager
def receiver(statuses=(), cert=None):
    """A server that keeps what it gets, and replies with these statuses, then 204; gives its port and the list."""
    got, left = [], list(statuses)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, dict(self.headers), body))
            self.send_response(left.pop(0) if left else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*cert)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port, got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def secret_file(top, text=SECRET + "\n", mode=0o440):
    file = top / "secret"
    file.write_text(text)
    os.chown(file, 0, cay.EGRESS_UID)
    file.chmod(mode)
    return str(file)


@contextlib.contextmanager
def node_with(url, secret, **more):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_WEBHOOK_URL": url, "CAY_WEBHOOK_SECRET": secret, "CAY_LOG_LEVEL": "debug", **more}) as c:
        c.image_import("tiny", tiny())
        wait_for("cay-egress to be connected", lambda: "cay-egress is connected" in c.log("cayd"), 30)
        yield c


def signed(headers, body, key=KEY):
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return headers["webhook-signature"] == "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def test_events_are_signed_and_tried_again(top):
    with lab.Lab(HOSTS, {"hooks.example": ["127.0.0.1"]}), receiver([503, 302]) as (port, got), \
            node_with(f"http://hooks.example:{port}/cay?to=ops", secret_file(top)) as node:
        one = node.create("tiny", egress=ask(), group="g")
        refuse(node, one)
        row = row_of(node, one, "nobody")
        answer(node, row, "deny", remember="sandbox")
        wait_for("both events", lambda: len(got) >= 4, 60)
        assert [path for path, *_ in got] == ["/cay?to=ops"] * 4
        assert all(signed(headers, body) and not signed(headers, body, b"x" * 24) for _, headers, body in got)
        assert all(headers["Content-Type"] == "application/json" and headers["Host"] == f"hooks.example:{port}" for _, headers, _ in got)
        ids = [headers["webhook-id"] for _, headers, _ in got]
        assert ids[0] == ids[1] == ids[2] != ids[3], "each try is of the same event, and events keep their order"
        times = [int(headers["webhook-timestamp"]) for _, headers, _ in got]
        assert times[0] < times[1] < times[2], "tries are a second apart, or more"
        asked, answered = (json.loads(got[i][2]) for i in (2, 3))
        assert asked["type"] == "egress.asked" and answered["type"] == "egress.answered"
        assert asked["tenant"] == answered["tenant"] == node.get(one)["tenant"]
        assert {k: asked["data"][k] for k in ("id", "sandbox", "to", "port", "state")} == {"id": row["id"], "sandbox": one, "to": NAME, "port": PORT, "state": "nobody"}
        assert answered["data"]["id"] == row["id"] and answered["data"]["state"] == "denied"
        for daemon in ("cayd", "cay-egress"):
            assert SECRET not in node.log(daemon) and "to=ops" not in node.log(daemon)
        node.delete(one)


def test_by_tls_and_only_to_the_host_of_the_certificate(top):
    authority = certs.Authority(top)
    os.chmod(authority.file, 0o644)
    for names, passes in (("IP:127.0.0.1", True), ("DNS:other.example", False)):
        with receiver(cert=authority.issue("host", names)) as (port, got), \
                node_with(f"https://127.0.0.1:{port}/", secret_file(top), CAY_EGRESS_CA=authority.file) as node:
            one = node.create("tiny", egress=ask())
            refuse(node, one)
            if passes:
                wait_for("the event", lambda got=got: got, 60)
                assert signed(*got[0][1:])
            else:
                wait_for("two tries", lambda node=node: node.log("cay-egress").count("webhook: evt_") >= 2, 60)
                assert got == []
            node.delete(one)


def test_a_server_that_is_not_there_holds_up_nothing(top):
    with node_with(f"http://127.0.0.1:{cay.free_port()}/", secret_file(top)) as node:
        one = node.create("tiny", egress=ask(ports=(PORT, "1000-1299")))
        # each for another port: of a second connection to the same nothing is told
        node.exec(one, ["sh", "-c", f"i=1000; while [ $i -lt 1300 ]; do busybox nc {NAME} $i < /dev/null; i=$((i+1)); done"], timeout_s=240)
        wait_for("a failed try", lambda: "webhook: evt_" in node.log("cay-egress"), 60)
        wait_for("its bound", lambda: "webhook: 256 events wait; more are dropped" in node.log("cay-egress"), 60)
        refuse(node, one)
        node.delete(one)


def test_settings_that_cannot_be_used(top):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS}) as c:
        for url, text, mode, says in (
                ("https://user:word@hooks.example/", SECRET, 0o440, "webhook.url is not"),
                ("https://hooks.example/", SECRET, 0o444, "is accessible to all users"),
                ("https://hooks.example/", "whsec_c2hvcnQ=", 0o440, "is not one line"),
                ("https://hooks.example/", None, 0, "webhook.secret: read")):
            c.kill_daemon("cay-egress")
            c.env.update({"CAY_WEBHOOK_URL": url, "CAY_WEBHOOK_SECRET": secret_file(top, text, mode) if text else str(top / "missing")})
            with pytest.raises(RuntimeError, match=says) as e:
                c.start_egress()
            assert "word" not in str(e.value) and SECRET not in str(e.value) + c.log("cay-egress")
            del c.env["CAY_WEBHOOK_URL"]
            c.start_egress()
