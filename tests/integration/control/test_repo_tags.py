# SPDX-License-Identifier: Apache-2.0
"""What `docker save` calls its images is how they are called here, and all of a tar are imported."""
import hashlib
import json
import subprocess
import urllib.parse

import cay
from conftest import tiny
from test_control import refused


def blob(data):
    return "blobs/sha256/" + hashlib.sha256(data).hexdigest(), data


def saved(images, oci=False):
    """As docker writes it: one layer per image, its config, RepoTags; newer ones are OCI layouts, too."""
    files, manifest, index = {}, [], []
    for tags, says in images:
        layer = cay.layer([cay.file("says", says.encode())])
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                             "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
        (layer_name, _), (config_name, _) = blob(layer), blob(config)
        files |= {layer_name: layer, config_name: config}
        manifest.append({"Config": config_name, "RepoTags": tags, "Layers": [layer_name]})
        of = lambda name, data, kind: {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + name[13:], "size": len(data)}
        text = json.dumps({"schemaVersion": 2, "config": of(config_name, config, "config.v1+json"),
                           "layers": [of(layer_name, layer, "layer.v1.tar")]}).encode()
        name, _ = blob(text)
        files[name] = text
        index += [{**of(name, text, "manifest.v1+json"), "annotations": {"io.containerd.image.name": f"docker.io/{t}"}} for t in tags or [None]]
    files["manifest.json"] = json.dumps(manifest).encode()
    if oci:
        files |= {"index.json": json.dumps({"schemaVersion": 2, "manifests": index}).encode(), "oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    return cay.layer([cay.file(n, d) for n, d in files.items()])


def send(c, tar, **query):
    return c.call("POST", "/v1/images?" + urllib.parse.urlencode(query), tar)


def says(c, image):
    box = c.create(image, wait=True)
    text = c.open("GET", f"/v1/sandboxes/{box}/files/content?path=/says").read().decode()
    c.delete(box)
    return text


THREE = [(["swe/task1:latest", "swe/task1:v2"], "one"), (["swe/task2:latest"], "two"), (["registry.example:5000/team/three:3"], "three")]


def test_all_images_of_a_tar_under_their_names(own):
    for oci in (False, True):
        got = send(own, saved(THREE, oci))
        names = [got["name"], *(o["name"] for o in got["others"])]
        assert names == [t for tags, _ in THREE for t in tags]
        assert len({got["digest"], *(o["digest"] for o in got["others"])}) == 3
        for tags, text in THREE:
            for tag in tags:
                assert says(own, tag) == text
        again = send(own, saved(THREE, oci))
        assert again["id"] == got["id"] and again["others"] == got["others"]
    # a name of the caller's is for one image; the tar's for all, and not for what has none
    refused("invalid_argument", send, own, saved(THREE), name="mine")
    assert send(own, saved(THREE[:1]), name="mine")["name"] == "mine" and says(own, "mine") == "one"
    assert "others" not in own.call("GET", f"/v1/images/{got['id']}")
    for tags in (None, [], ["no-tag"], ["sp ace:1"], ["-x:1", "../x:1"]):
        refused("invalid_argument", send, own, saved([(tags, "x")]))
        assert send(own, saved([(tags, "x")]), default_name="later")["name"] == "later"
    refused("invalid_argument", send, own, tiny())  # a layout that names nothing
    refused("invalid_argument", send, own, saved([(["a:1"], "a"), (None, "b")]), default_name="later")


def test_by_the_command_line(own, tmp_path):
    def run(*words, status=0):
        done = subprocess.run([str(own.programs["cay"]), *words], env=own.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done
        return done.stdout or done.stderr
    (tmp_path / "all.tar").write_bytes(saved(THREE))
    (tmp_path / "one.tar").write_bytes(saved(THREE[:1]))
    (tmp_path / "plain.tar").write_bytes(tiny())
    lines = run("image", "import", str(tmp_path / "all.tar")).splitlines()
    assert [line.split()[1] for line in lines] == [t for tags, _ in THREE for t in tags]
    run("image", "import", str(tmp_path / "plain.tar"), str(tmp_path / "one.tar"))
    listed = run("image", "ls")
    assert all(name in listed for name in ("plain", "swe/task1:v2", "registry.example:5000/team/three:3")) and " one " not in listed
    assert "--name" in run("image", "import", "--name", "x", str(tmp_path / "plain.tar"), str(tmp_path / "one.tar"), status=2)
