# SPDX-License-Identifier: Apache-2.0
"""Previews over TLS by a wildcard certificate, as curl and Python open them (NET-15); they verify names themselves"""
import http.cookiejar
import os
import re
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import certs
import inside
import pytest
import world
from conftest import BUILD
from test_remote import readable

DOMAIN = "cay.test"
COOKIE = "__Host-cay-preview"
MISMATCH = 60  # curl's: the peer's certificate is not that host's

SAYS = r'''
def answer(c, head, rest):
    reply(c, head.encode(), more="Content-Type: text/plain\r\n")
serve(8080, answer)
serve(8081, answer)
'''


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    top = tmp_path_factory.mktemp("wild")
    readable(top)
    ca = certs.Authority(top)
    cert, key = ca.issue("edge", f"DNS:localhost,DNS:*.{DOMAIN}")
    os.chown(key, world.EDGE_UID, world.EDGE_UID)
    w = world.World(BUILD, env={"CAY_EDGE_CERT": cert, "CAY_EDGE_KEY": key})
    w.env["CAY_EDGE_PREVIEWS"] = f"https://{DOMAIN}:{w.port}"
    with w:
        w.ca = ca.file
        yield w


@pytest.fixture(scope="module")
def app(wild):
    box = wild.door().create("tiny")
    with inside.Server(wild, box, SAYS):
        yield box


def preview(w, box, port=8080):
    return w.door().call("POST", f"/v1/sandboxes/{box}/preview", {"port": port})


def at(w, name):
    return f"https://{name}.{DOMAIN}:{w.port}"


def curl(w, *words, ca=True):
    """Its exit code and what it wrote; every name leads here, as by a wildcard record."""
    trusts = ["--cacert", w.ca] if ca else []
    p = subprocess.run(["curl", "-sS", "--max-time", "20", "--noproxy", "*", "--resolve", f"*:{w.port}:127.0.0.1", *trusts, *words],
                       capture_output=True, text=True, check=False)
    return p.returncode, p.stdout


def status(w, url, *words):
    code, out = curl(w, "-o", "/dev/null", "-w", "%{http_code}", *words, url)
    assert code == 0, code
    return int(out)


def test_curl(wild, app, tmp_path):
    made, jar = preview(wild, app), str(tmp_path / "jar")
    assert made["origin"] == at(wild, f"8080-{app}") and made["url"] == f"{made['origin']}/?cay_preview={made['token']}"
    label = made["origin"].split("//")[1].split(".")[0]
    # a wildcard is matched by these alone, as OpenSSL has it, and by so many of them
    assert re.fullmatch(r"[a-z0-9-]{1,63}", label)
    code, out = curl(wild, "-L", "-b", jar, "-c", jar, "-w", "\n%{http_code} %{num_redirects} %{ssl_verify_result} %{url_effective}", made["url"])
    assert code == 0 and out.splitlines()[0] == "GET / HTTP/1.1"
    assert out.splitlines()[-1] == f"200 1 0 {made['origin']}/"
    # of this host alone, for TLS alone, hidden from scripts: as curl has it in its file
    (row,) = [line.split("\t") for line in open(jar).read().splitlines() if COOKIE in line]
    assert row[0] == f"#HttpOnly_{label}.{DOMAIN}" and row[1:4] == ["FALSE", "/", "TRUE"] and row[5:] == [COOKIE, made["token"]]
    code, out = curl(wild, "-b", jar, f"{made['origin']}/again?a=b")
    assert code == 0 and out.startswith("GET /again?a=b HTTP/1.1") and "cayp_" not in out
    assert f"Host: {label}.{DOMAIN}:{wild.port}" in out and "X-Forwarded-Proto: https" in out
    head = [w for k, v in made["headers"].items() for w in ("-H", f"{k}: {v}")]
    assert status(wild, made["origin"], *head) == 200


def test_what_curl_is_told_of_the_cookie(wild, app):
    made = preview(wild, app)
    code, out = curl(wild, "-D", "-", "-o", "/dev/null", made["url"])
    assert code == 0 and out.startswith("HTTP/1.1 303")
    (line,) = re.findall(r"(?im)^set-cookie: (.*)$", out)
    # what a browser wants to see before it takes a name that begins with __Host-
    name, *attributes = line.split("; ")
    assert name == f"{COOKIE}={made['token']}" and {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"} <= set(attributes)
    assert not [a for a in attributes if a.lower().startswith("domain")]
    assert re.search(rf"(?im)^location: {re.escape(made['origin'])}/$", out)


def test_others_are_not_let_in(wild, app, tmp_path):
    made, jar = preview(wild, app), str(tmp_path / "jar")
    token, other = made["token"], wild.door().create("tiny")
    assert curl(wild, "-L", "-b", jar, "-c", jar, "-o", "/dev/null", made["url"])[0] == 0
    assert status(wild, made["origin"]) == 401, "without a cookie"
    assert status(wild, made["origin"], "-b", f"cay-preview={token}") == 401, "a name that another host could have set"
    for name in (f"8081-{app}", f"8080-{other}"):
        assert status(wild, at(wild, name), "-b", jar) == 401, "curl keeps it to its host"
        assert status(wild, at(wild, name), "-b", f"{COOKIE}={token}") == 401, "and so does the edge"
        assert status(wild, f"{at(wild, name)}/?cay_preview={token}") == 401
        assert status(wild, at(wild, name), "-H", f"Cay-Preview: {token}") == 401
    # the certificate is good for every name below; whose it is, Host says
    for host in ("evil.example", DOMAIN, f"api.{DOMAIN}"):
        assert status(wild, made["origin"] + "/v1/sandboxes", "-b", jar, "-H", f"Host: {host}") == 403, host
    assert status(wild, made["origin"], "-b", jar) == 200
    wild.door().delete(other)


def test_names_the_certificate_does_not_have(wild, app):
    token = preview(wild, app)["token"]
    for name in (DOMAIN, f"8080-{app}.x.{DOMAIN}", f"8080-{app}.{DOMAIN}.evil.test"):
        assert curl(wild, f"https://{name}:{wild.port}/?cay_preview={token}") == (MISMATCH, ""), name
    assert curl(wild, f"{at(wild, f'8080-{app}')}/?cay_preview={token}", ca=False) == (MISMATCH, ""), "an authority that nobody knows"
    code, out = curl(wild, f"http://8080-{app}.{DOMAIN}:{wild.port}/?cay_preview={token}")
    assert code and not out, "nor is there anything without TLS"


@pytest.fixture
def names(monkeypatch):
    """Every name below the domain leads here."""
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **k: real("127.0.0.1" if str(host).endswith(".test") else host, *a, **k))


def python(w, *handlers):
    context = ssl.create_default_context(cafile=w.ca)
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), *handlers)


def test_python(wild, app, names):
    made, jar = preview(wild, app), http.cookiejar.CookieJar()
    browser = python(wild, urllib.request.HTTPCookieProcessor(jar))
    with browser.open(made["url"], timeout=20) as r:
        assert r.status == 200 and r.url == made["origin"] + "/" and r.read().startswith(b"GET / HTTP/1.1")
    (cookie,) = jar
    assert (cookie.name, cookie.value, cookie.secure, cookie.domain_specified, cookie.path) == (COOKIE, made["token"], True, False, "/")
    with browser.open(made["origin"] + "/again", timeout=20) as r:
        text = r.read().decode()
        assert text.startswith("GET /again") and "cayp_" not in text
    program = python(wild)
    with program.open(urllib.request.Request(made["origin"], headers=made["headers"]), timeout=20) as r:
        assert r.status == 200
    for who, url in ((program, made["origin"]), (browser, at(wild, f"8081-{app}")), (browser, f"{at(wild, f'8081-{app}')}/?cay_preview={made['token']}")):
        with pytest.raises(urllib.error.HTTPError) as e:
            who.open(url, timeout=20)
        assert e.value.code == 401
        e.value.close()
    # the last as ids are written elsewhere: to OpenSSL no wildcard has it
    for name in (f"8080-{app}.x.{DOMAIN}", DOMAIN, f"8080-sb_{app[2:]}.{DOMAIN}"):
        with pytest.raises(urllib.error.URLError) as e:
            browser.open(f"https://{name}:{wild.port}/", timeout=20)
        assert isinstance(e.value.reason, ssl.SSLCertVerificationError) and "mismatch" in str(e.value.reason), name


def test_a_link_is_of_tls_too(wild, app):
    url = wild.door().call("POST", f"/v1/sandboxes/{app}/files/link", {"path": "/etc/passwd"})["url"]
    assert url.startswith(f"https://localhost:{wild.port}/v1/sandboxes/{app}/files/tree?")
    assert status(wild, url) == 200
