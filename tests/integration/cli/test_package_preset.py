# SPDX-License-Identifier: Apache-2.0
"""cay egress presets --discover: the hosts of package clients, as the clients or their libraries read the files"""
import configparser
import pathlib
import re
import subprocess
import tomllib
import urllib.parse
import xml.etree.ElementTree

import pytest

PORTS = {"http": 80, "https": 443}
SECRET = "s3cretpassword"


@pytest.fixture
def discover(cay, tmp_path):
    """Writes files below a root; returns the rules and the whole text."""
    def run(files):
        for name, text in files.items():
            at = tmp_path / name.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text(text)
        done = cay("egress", "presets", "--discover", "--root", str(tmp_path))
        assert done.returncode == 0 and not done.stderr, done
        assert SECRET not in done.stdout
        return re.findall(r"^allow (\S+) (\d+)$", done.stdout, re.M), done.stdout
    run.root = tmp_path
    return run


def rules(urls):
    parts = [urllib.parse.urlsplit(u.split("+")[-1]) for u in urls]
    return {(p.hostname, str(p.port or PORTS[p.scheme])) for p in parts}


def test_without_configuration_no_host_is_named(discover):
    found, text = discover({})
    assert found == [] and text.count("not configured") == 7
    assert all(line.startswith("#") for line in text.splitlines()), text


def test_apt_agrees(discover):
    """Which prints the URIs it would fetch."""
    root = discover.root
    for d in ("var/lib/apt/lists/partial", "var/lib/dpkg", "var/cache/apt/archives/partial"):
        (root / d).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    found, text = discover({
        "etc/apt/sources.list": f"# deb http://no.example/ x main\ndeb [ arch=amd64 trusted=yes ] http://u:{SECRET}@a.example:8080/debian trixie main\n",
        "etc/apt/sources.list.d/b.list": "deb-src https://b.example/debian trixie main # deb http://no.example x\n",
        "etc/apt/sources.list.d/c.sources": "Types: deb\nURIs: http://c.example/debian/\n https://d.example/debian\nSuites: trixie\nComponents: main\n\n"
                                            "Enabled: no\nTypes: deb\nURIs: http://no.example/\nSuites: trixie\nComponents: main\n",
        "etc/apt/sources.list.d/d.disabled": "deb http://no.example/ x main\n",
    })
    said = subprocess.run(["apt-get", "-o", f"Dir={root}", "update", "--print-uris"], capture_output=True, text=True, check=True).stdout
    want = rules(re.findall(r"^'(\S+)'", said, re.M))
    assert set(found) == want and len(found) == len(want) == 4, (found, want)
    assert "# apt: /etc/apt/sources.list.d/b.list\nallow b.example 443\n" in text


def test_npm_writes_what_is_read(discover):
    (discover.root / "root").mkdir()
    for key, value in (("registry", "https://npm.example/all/"), ("@team:registry", "https://team.example:8443"), ("//npm.example/all/:_authToken", SECRET)):
        subprocess.run(["npm", "config", "set", f"{key}={value}", "--userconfig", discover.root / "root/.npmrc"], check=True, capture_output=True)
    assert SECRET in (discover.root / "root/.npmrc").read_text()
    found, _ = discover({})
    assert set(found) == {("npm.example", "443"), ("team.example", "8443")}


PIP = f"""[global]
index-url = https://u:{SECRET}@pip.example/simple
extra-index-url =
    https://one.example/simple
    # https://no.example
    https://two.example:8080/simple
trusted-host = no.example
[install]
find-links: http://links.example/
"""
CARGO = """[source.crates-io]
replace-with = "mirror" # "https://no.example"
[source."mirror"]
registry = "sparse+https://crates.example/index/"
[registries]
a = { index = "https://a.example", token = "%s" }
b.index = 'https://b.example'
[http]
proxy = "http://no.example"
""" % SECRET
UV = """extra-index-url = [
  "https://one.example", # no
  'https://two.example/simple',
]
[[index]]
name = "corp"
url = "https://u:%s@corp.example/simple"
""" % SECRET
MAVEN = """<settings><!-- <url>https://no.example</url> -->
<servers><server><id>x</id><password>%s</password></server></servers>
<mirrors><mirror><id>x</id><url>https://maven.example/maven2</url></mirror></mirrors>
<profiles><profile><repositories><repository><url>
  http://second.example:8081/r
</url></repository></repositories></profile></profiles></settings>
""" % SECRET


def test_their_libraries_agree(discover):
    pip = configparser.RawConfigParser()
    pip.read_string(PIP)
    cargo, uv = tomllib.loads(CARGO), tomllib.loads(UV)
    urls = (pip["global"]["index-url"] + pip["global"]["extra-index-url"] + "\n" + pip["install"]["find-links"]).split()
    urls += [cargo["source"]["mirror"]["registry"], *(r["index"] for r in cargo["registries"].values())]
    urls += [*uv["extra-index-url"], *(i["url"] for i in uv["index"])]
    urls += [u.text.strip() for u in xml.etree.ElementTree.fromstring(MAVEN).iter("url")]
    found, text = discover({"etc/pip.conf": PIP, "root/.cargo/config.toml": CARGO, "etc/uv/uv.toml": UV, "root/.m2/settings.xml": MAVEN,
                            "root/.config/go/env": "GOPROXY=https://go.example|direct\n"})
    want = rules(urls) | {("go.example", "443")}
    assert set(found) == want and len(found) == len(want), set(found) ^ want
    assert text.count("not configured") == 2 and "no.example" not in text


def test_a_root_ends_at_its_links(discover, tmp_path_factory):
    """As in an image: a link in it leads to its own files."""
    outside = tmp_path_factory.mktemp("outside") / "pip.conf"
    outside.write_text(PIP)
    (discover.root / "etc").mkdir()
    (discover.root / "etc/pip.conf").symlink_to(outside)
    assert discover({})[0] == []
    (discover.root / "etc/pip.conf").unlink()
    (discover.root / "etc/pip.conf").symlink_to("/conf/pip.conf")
    assert ("pip.example", "443") in discover({"conf/pip.conf": PIP})[0]


def test_what_cannot_be_read_is_a_comment(discover):
    (discover.root / "etc/pip.conf").mkdir(parents=True)
    found, text = discover({"etc/npmrc": "registry=https://localhost:4873/\n", "root/.npmrc": "x" * (300 << 10)})
    assert found == []
    assert "# npm: /etc/npmrc, line 1: no rule can name the host of this URL\n" in text
    assert "/.npmrc: is too large\n" in text and "# pip: /etc/pip.conf: Invalid argument\n" in text


def test_variables_count_too(cay, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in (("PIP_INDEX_URL", f"https://u:{SECRET}@var.example/simple"), ("UV_INDEX", "a=https://one.example b=https://two.example"),
                        ("GOPROXY", "https://go.example,direct"), ("XDG_CONFIG_HOME", str(tmp_path / "x")), ("GOENV", "off")):
        monkeypatch.setenv(name, value)
    pathlib.Path(tmp_path / "x/uv").mkdir(parents=True)
    pathlib.Path(tmp_path / "x/uv/uv.toml").write_text('index-url = "https://three.example"')
    text = cay("egress", "presets", "--discover").stdout
    assert {"allow var.example 443", "allow one.example 443", "allow two.example 443", "allow three.example 443", "allow go.example 443"} <= set(text.splitlines())
    assert SECRET not in text and f"# uv: {tmp_path}/x/uv/uv.toml\n" in text and "# pip: PIP_INDEX_URL\n" in text


def test_a_root_alone_is_refused(cay):
    done = cay("egress", "presets", "--root", "/")
    assert done.returncode == 2 and "--discover" in done.stderr
    assert "open /nowhere" in cay("egress", "presets", "--discover", "--root", "/nowhere").stderr
