# SPDX-License-Identifier: Apache-2.0
"""A registry that is named by the settings and lies: what is pulled from it is refused, typed, and nothing stays."""
import http.server
import json
import pathlib
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "attack/images"))
import cay  # noqa: E402
import oci  # noqa: E402
from conftest import BUILD  # noqa: E402
from test_pull import PASSWORD, nothing_left, pull, settings  # noqa: E402

LAYER = oci.tar(oci.file("bin/sh", "x", mode=0o755))
CONFIG = oci.dump({"os": "linux", "architecture": oci.ARCH, "config": {}, "rootfs": {"type": "layers", "diff_ids": [oci.sha256(LAYER)]}})
BLOBS = {oci.sha256(b): b for b in (LAYER, CONFIG)}


def manifest(**more):
    return oci.dump({"schemaVersion": 2, "mediaType": oci.MANIFEST, "config": oci.descriptor(oci.CONFIG, CONFIG),
                     "layers": [oci.descriptor(oci.TAR, LAYER)], **more})


class Lies(http.server.BaseHTTPRequestHandler):
    """One function a way; the path says what is asked for."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", headers.pop("length", str(len(body))))
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        try:
            getattr(self, self.server.way)()
        except OSError:
            pass
    do_HEAD = do_GET

    def honest(self, text=None):
        if "/manifests/" in self.path:
            self.say(200, text or manifest(), oci.MANIFEST)
        elif "/blobs/" in self.path:
            self.say(200, BLOBS[self.path.rsplit("/", 1)[1]], "application/octet-stream")
        else:
            self.say(200, b"{}")

    def html(self):
        self.say(200, b"<html>sign in</html>", "text/html")

    def broken(self):
        self.say(500, b"x")

    def to_a_file(self):
        self.say(302, Location="file:///etc/shadow") if "/manifests/" in self.path else self.honest()

    def large_manifest(self):
        self.honest(manifest(annotations={"a": "x" * (20 << 20)}))

    def sizes(self):
        self.honest(manifest(layers=[oci.descriptor(oci.TAR, LAYER) | {"size": (1 << 63) - 1}] * 3))

    def negative(self):
        self.honest(manifest(layers=[oci.descriptor(oci.TAR, LAYER) | {"size": -5}]))

    def path_for_a_digest(self):
        self.honest(manifest(layers=[oci.descriptor(oci.TAR, LAYER) | {"digest": "sha256:../../../../etc/shadow"}]))

    def other_bytes(self):
        if oci.sha256(LAYER) in self.path:
            self.say(200, LAYER[:-1] + b"x", "application/octet-stream")
        else:
            self.honest()

    def endless(self):
        if oci.sha256(LAYER) not in self.path:
            return self.honest()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"100000\r\n" + bytes(1 << 20) + b"\r\n")

    def echo(self):
        """What it was told, told again, where a client would print it."""
        told = self.headers.get("Authorization", "")
        if not told:
            return self.say(401, b"{}", WWW_Authenticate='Basic realm="x"')
        self.say(403, oci.dump({"errors": [{"code": "DENIED", "message": f"denied: {told} {PASSWORD}", "detail": told}]}))

    def words(self):
        """A message that says another kind, with lines and escapes."""
        self.say(404, oci.dump({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown\n\x1b[2J{\"level\":\"error\"}"}]}))


WAYS = {"html": 503, "broken": 503, "to_a_file": 503, "large_manifest": 503, "sizes": None, "negative": None, "path_for_a_digest": 503,
        "other_bytes": 503, "endless": None, "echo": 403, "words": 404}
# In our words: theirs may be cut off before the worst of them.
OURS = {"echo": ("the registry rejected the credentials", "the registry denied access"), "words": ("the registry has no such image",)}


@pytest.fixture(scope="module")
def liar():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lies)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def puller(liar):
    host = "127.0.0.1:%d" % liar.server_address[1]
    with cay.Cay(BUILD, env=settings(host, pull_size="8Mi", pull_time="20s")) as c:
        c.host = host
        c.call("POST", "/v1/registries", {"registry": host, "username": "robot", "password": PASSWORD})
        yield c


@pytest.mark.parametrize("way", WAYS)
def test_hostile(puller, liar, way):
    liar.way = way
    with pytest.raises(cay.ApiError) as e:
        pull(puller, f"{puller.host}/lies/{way.replace('_', '-')}:1")
    told = json.loads(e.value.body)["error"]
    assert e.value.status == WAYS[way] or (WAYS[way] is None and e.value.code in ("unavailable", "too_large", "invalid_argument", "deadline_exceeded")), e.value
    assert PASSWORD not in e.value.body.decode() and "\n" not in told["message"] and "\x1b" not in told["message"]
    if way in OURS:
        assert told["message"] in [f"image '{puller.host}/lies/{way}:1': {text}" for text in OURS[way]]
    for name in ("cayd", "cay-keeper"):
        assert PASSWORD not in pathlib.Path(puller.logs[name]).read_text(errors="replace")
    assert not puller.call("GET", "/v1/images")["images"]
    nothing_left(puller)


def test_an_honest_one(puller, liar):
    """The same server can be pulled from: the rows above are refused for what they are."""
    liar.way = "honest"
    assert pull(puller, f"{puller.host}/truth:1")["size_bytes"] == 1
