# SPDX-License-Identifier: Apache-2.0
"""Who may do what: the two sockets, actors, tenants and keys."""
import socket

import pytest
from cay import ApiError
from test_control import refused

DEFAULT = "tn" + "0" * 24


def actor(scope, tenant=DEFAULT, key="-", sandbox="-"):
    return f"{tenant} {scope} {key} {sandbox}"


NOBODY = "- public - -"


def raw(path, request):
    """The status of a request as it is written here."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        s.connect(path)
        s.sendall(request.encode())
        return int(s.recv(64).split()[1])


def get(target, *headers):
    return f"GET {target} HTTP/1.1\r\nHost: cay\r\nConnection: close\r\n" + "".join(h + "\r\n" for h in headers) + "\r\n"


@pytest.mark.parametrize("headers", [
    [], ["Cay-Actor:"], ["Cay-Actor: operator"], [f"Cay-Actor: {DEFAULT} operator -"],
    [f"Cay-Actor: {actor('root')}"], [f"Cay-Actor: {actor('operator')}"] * 2,
    [f"Cay-Actor: {actor('operator')}", "cay-actor: " + NOBODY], [f"Cay-Actor: {actor('operator')}, {actor('operator')}"],
    ["Cay-Actor: - operator - -"],
])
@pytest.mark.parametrize("target", ["/v1/health", "/v1/sandboxes", "/v1/fsck"])
def test_the_edge_says_once_and_well_who_asks(daemon, headers, target):
    assert raw(daemon.edge("").socket, get(target, *headers)) == 401


def test_who_asks_is_seen_whatever_case_the_header_has(daemon):
    assert raw(daemon.edge("").socket, get("/v1/fsck", f"CAY-ACTOR: {actor('operator')}")) == 200


def test_the_operators_socket_takes_no_actor(daemon):
    assert raw(daemon.socket, get("/v1/health")) == 200
    for text in (actor("operator"), NOBODY, ""):
        assert raw(daemon.socket, get("/v1/health", f"Cay-Actor: {text}")) == 400


def test_a_refused_body_is_not_read(daemon):
    """403 and no 100 Continue for an upload that nobody may make."""
    head = ("POST /v1/images?name=x HTTP/1.1\r\nHost: cay\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n"
            f"Cay-Actor: {actor('write')}\r\n\r\n")
    assert raw(daemon.edge("").socket, head) == 403


def test_what_runs_inside_asks_for_its_scope(daemon, box):
    assert daemon.edge(actor("write")).exec(box, ["echo", "hi"]).text == "hi\n"
    refused("permission_denied", daemon.edge(actor("read")).exec, box, ["true"])
    with pytest.raises(ApiError):
        daemon.edge(NOBODY).exec(box, ["true"])
