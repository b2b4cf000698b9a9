# SPDX-License-Identifier: Apache-2.0
"""table - ESC-19: images whose metadata and layers are attacks, each in a form somebody would send

A row is a name, what comes of it, and a function from a good layer to the bytes.  RUNS: it is
imported and a sandbox of it runs, as if the attack were not there.  A text: it is refused and
that is in the message.
"""
from oci import *

RUNS = None
MIB = 1 << 20
TOUCH = "touch /tmp/esc19 /run/esc19 /etc/esc19"
ROWS = {}


def row(name, want, make):
    assert name not in ROWS, name
    ROWS[name] = (want, make)


FORMS = {"oci": image, "docker": docker, "blobs": lambda *l, **kw: docker(*l, blobs=True, **kw)}

# what a config says: the same in each form
CONFIGS = {
    "labels": (RUNS, {"Labels": {"io.containerd.runc.v2.group": "x", "com.docker.cmd": f"$({TOUCH})", "../../x": "`reboot`"}}),
    "annotations": (RUNS, {"Annotations": {"run.oci.handler": "krun", "run.oci.hooks.stdout": "/tmp/esc19",
                                           "org.criu.config": "/tmp/esc19", "io.kubernetes.cri-o.Devices": "/dev/sda"}}),
    "entrypoint": (RUNS, {"Entrypoint": ["/hostile", "agent", "--list"], "Cmd": [";", TOUCH]}),
    "entrypoint-host": (RUNS, {"Entrypoint": ["/proc/1/root/bin/sh", "-c", TOUCH]}),
    "env": (RUNS, {"Env": ["LD_PRELOAD=/hostile-trap.so", "LD_AUDIT=/hostile-trap.so", "PATH=/tmp", "GODEBUG=x",
                           "LISTEN_FDS=3", "NOTIFY_SOCKET=/run/x", "CAY_FAULT=create:after-start=kill"]}),
    "env-lines": (RUNS, {"Env": ["A=\n\nB=c", "=x", "no", "A B=c"]}),
    "user-number": (RUNS, {"User": "1000"}),
    "user-lines": ("user", {"User": "root\n0"}),
    "user-absent": (RUNS, {"User": "0:0"}),
    "workdir-fd": (RUNS, {"WorkingDir": "/proc/self/fd/3"}),
    "workdir-up": (RUNS, {"WorkingDir": "/../../../../tmp"}),
    "workdir-relative": ("cwd", {"WorkingDir": "../../.."}),
    "stop-signal": (RUNS, {"StopSignal": f"SIGKILL; {TOUCH}"}),
    "healthcheck": (RUNS, {"Healthcheck": {"Test": ["CMD-SHELL", TOUCH], "Interval": 1, "Retries": -1}}),
    "volumes": (RUNS, {"Volumes": {"/": {}, "/dev": {}, "/../../tmp": {}, "/proc": {}}}),
    "onbuild": (RUNS, {"OnBuild": [f"RUN {TOUCH}"], "Shell": ["/bin/sh", "-c", TOUCH]}),
    "host-words": (RUNS, {"Privileged": True, "HostConfig": {"Binds": ["/:/host"], "Privileged": True}, "CapAdd": ["ALL"],
                          "Devices": ["/dev/sda"], "NetworkMode": "host", "Memory": -1}),
    "config-10m": ("larger than", {"Labels": {"a": "x" * (10 * MIB)}}),
    "config-7m": (RUNS, {"Labels": {"a": "x" * (7 * MIB)}}),
    "config-values": ("values", {"Labels": {str(i): "" for i in range(70000)}}),
    "argv-257": ("config", {"Cmd": ["x"] * 257}),
    "argv-types": ("config", {"Entrypoint": [{"a": 1}]}),
}
for name, (want, config) in CONFIGS.items():
    for form in FORMS:
        row(f"{name}-{form}", want, lambda good, form=form, config=config: FORMS[form](good, config=config))

# what layers do
LAYERS = {
    "none": ("no layers", lambda good: ()),
    "0-bytes": ("no bytes", lambda good: (b"",)),
    "129": ("129 layers", lambda good: [good] * 129),
    "twice": (RUNS, lambda good: (good, good)),
    "whiteout-link": (RUNS, lambda good: (good, tar(symlink("out", "/etc")), tar(file("out/.wh.passwd")), tar(file("etc/passwd", "x")))),
    "whiteout-dotdot": ("..", lambda good: (good, tar(file("../../etc/.wh.passwd")))),
    "opaque-root": (RUNS, lambda good: (tar(file("gone", "1")), tar(file(".wh..wh..opq")), good)),
    "hard-outside": ("not in the image", lambda good: (good, tar(hardlink("h", "/canary/secret")))),
    "hard-through-link": ("not in the image", lambda good: (good, tar(symlink("l", "/"), hardlink("h", "l/etc/shadow")))),
    "link-dev-below": (RUNS, lambda good: (tar(symlink("dev", "/tmp")), good)),  # a directory above it again
    "link-dev": ("/dev is a link", lambda good: (good, tar(symlink("dev", "/tmp")))),
    "device": (RUNS, lambda good: (good, tar(header("sda", b"4", dev=(8, 0), mode=0o666)))),
    "bomb": (("larger than", "not a"), lambda good: (Layer(good, GZIP, blob=gz(header("f", size=300 * MIB) + bytes(3 * MIB))),)),
}
for name, (want, layers) in LAYERS.items():
    for form in ("oci", "docker"):
        row(f"layer-{name}-{form}", want, lambda good, form=form, layers=layers: FORMS[form](*layers(good)))

# what the file is
row("outer-gzip", RUNS, lambda good: gz(image(good)))
row("outer-twice", "compressed twice", lambda good: gz(gz(image(good))))
row("outer-cut", "", lambda good: image(good)[:len(good) // 2])
row("outer-nothing", "no index.json", lambda good: b"")
row("manifest-annotations", RUNS, lambda good: image(good, manifest={"annotations": {"run.oci.handler": "krun"}}))
row("index-both", "something else", lambda good: image(good, index={"layers": []}))
row("docker-link-out", "not in the archive", lambda good: docker(
    good, names=["a/layer.tar"], edit=lambda f: [x for x in f if x[0] != "a/layer.tar"], more=symlink("a/layer.tar", "/etc/shadow")))
row("docker-several", "several images", lambda good: docker(good, manifest=lambda m: m * 2))
row("docker-config-out", "not in the archive", lambda good: docker(good, manifest=lambda m: [m[0] | {"Config": "/etc/shadow.json"}]))
row("docker-code-tags", RUNS, lambda good: docker(good, manifest=lambda m: [m[0] | {"RepoTags": [f"$({TOUCH})", "../../x"]}]))
row("docker-and-oci", RUNS, lambda good: image(good)[:-1024] + docker(tar(file("x", "", mode=0o755))))
row("tree", RUNS, lambda good: good)
row("tree-gzip", RUNS, lambda good: gz(good))
row("tree-dotdot", "..", lambda good: good[:-1024] + file("../x") + END)
row("tree-hard-outside", "not in the image", lambda good: good[:-1024] + hardlink("h", "/etc/shadow") + END)
row("tree-dev-link", "/tmp is a link", lambda good: good[:-1024] + symlink("tmp", "/etc") + END)
row("tree-owner", "owner", lambda good: good[:-1024] + file("x", uid=1 << 31) + END)
row("tree-device", RUNS, lambda good: good[:-1024] + header("kmem", b"3", dev=(1, 2), mode=0o666) + END)
row("tree-blobs", "no index.json", lambda good: good[:-1024] + file("blobs/sha256/x") + END)
