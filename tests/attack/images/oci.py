# SPDX-License-Identifier: Apache-2.0
"""oci - image layouts byte by byte, so that every byte can be a lie

Tars are written by hand: tarfile is too polite to write what attackers do.
"""
import gzip
import hashlib
import json
import platform

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OTHER_ARCH = "s390x"
OCI = "application/vnd.oci.image."
INDEX, MANIFEST, CONFIG = OCI + "index.v1+json", OCI + "manifest.v1+json", OCI + "config.v1+json"
TAR, GZIP, ZSTD = OCI + "layer.v1.tar", OCI + "layer.v1.tar+gzip", OCI + "layer.v1.tar+zstd"
END = bytes(1024)


def as_bytes(v):
    return v if isinstance(v, bytes) else v.encode()


def number(v, width):
    """Octal, or base 256 when it is too large or negative, as GNU tar does."""
    if isinstance(v, bytes):
        return v.ljust(width, b"\0")
    if 0 <= v < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, v)
    raw = bytearray((v % (1 << 8 * width)).to_bytes(width, "big"))
    raw[0] = 0xFF if v < 0 else 0x80
    return bytes(raw)


def header(name, kind=b"0", size=0, link=b"", mode=0o644, uid=0, gid=0, mtime=1700000000, magic=b"ustar\00000",
           prefix=b"", dev=(0, 0), tail=None):
    h = (as_bytes(name)[:100].ljust(100, b"\0") + number(mode, 8) + number(uid, 8) + number(gid, 8) + number(size, 12)
         + number(mtime, 12) + b" " * 8 + kind + as_bytes(link)[:100].ljust(100, b"\0") + magic + bytes(64)
         + number(dev[0], 8) + number(dev[1], 8))
    h += (tail if tail is not None else prefix).ljust(167, b"\0")
    return h[:148] + b"%06o\0 " % sum(h) + h[156:]


def padded(data):
    return data + bytes(-len(data) % 512)


def pax(**records):
    """An extended header; a value may be any bytes."""
    body = b""
    for key, value in records.items():
        rest = b" " + as_bytes(key.replace("__", ".")) + b"=" + as_bytes(value) + b"\n"
        n = len(rest)
        while len(str(n)) + len(rest) != n:
            n = len(str(n)) + len(rest)
        body += str(n).encode() + rest
    return header("pax", b"x", len(body)) + padded(body)


def file(name, data=b"", **kw):
    data = as_bytes(data)
    name = as_bytes(name)
    front = b""
    if len(name) > 100:
        front = pax(path=name)
    return front + header(name, b"0", kw.pop("size", len(data)), **kw) + padded(data)


def directory(name, mode=0o755, **kw):
    name = as_bytes(name)
    return (pax(path=name) if len(name) > 100 else b"") + header(name, b"5", mode=mode, **kw)


def symlink(name, target, **kw):
    target = as_bytes(target)
    return (pax(linkpath=target) if len(target) > 100 else b"") + header(name, b"2", link=target, mode=0o777, **kw)


def hardlink(name, target):
    return header(name, b"1", link=target)


def tar(*entries):
    return b"".join(entries) + END


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def gz(data):
    return gzip.compress(data, 6, mtime=0)


def zstd(data, window=None, repeat=None):
    """A frame of raw blocks, or of `repeat` runs of 128 KiB of one byte."""
    out = b"\x28\xb5\x2f\xfd\x00" + bytes([window if window is not None else (17 - 10) << 3])
    if repeat:
        blocks = [(1, 1 << 17, data[:1])] * repeat
    else:
        blocks = [(0, len(data[i:i + (1 << 17)]), data[i:i + (1 << 17)]) for i in range(0, max(len(data), 1), 1 << 17)]
    for i, (kind, size, body) in enumerate(blocks):
        out += ((i == len(blocks) - 1) | kind << 1 | size << 3).to_bytes(3, "little") + body
    return out


def dump(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


class Layer:
    """A blob that is a layer: bytes, what they are called, what is inside."""

    def __init__(self, plain, media=TAR, blob=None, digest=None, size=None, diff_id=None):
        pack = {GZIP: gz, ZSTD: zstd}.get(media, bytes)
        self.blob = pack(plain) if blob is None else blob
        self.media = media
        self.digest = digest or sha256(self.blob)
        self.size = len(self.blob) if size is None else size
        self.diff_id = diff_id or sha256(plain)

    def descriptor(self):
        return {"mediaType": self.media, "digest": self.digest, "size": self.size}


def descriptor(media, blob, **more):
    return {"mediaType": media, "digest": sha256(blob), "size": len(blob), **more}


def outer(files):
    return tar(*(file(name, data) for name, data in files))


def blob_files(*blobs):
    return [("blobs/" + sha256(b).replace(":", "/"), b) for b in dict.fromkeys(blobs)]


def image(*layers, config=None, manifest=None, index=None, os="linux", arch=ARCH, more=(), rootfs=None, config_blob=None,
          edit=None):
    """A whole layout.  Layers are tars or Layer; the other arguments replace or
    add members; edit(dict of blobs and documents) has the last word."""
    layers = [l if isinstance(l, Layer) else Layer(l) for l in layers]
    if config_blob is None:
        config_blob = dump({"os": os, "architecture": arch, "config": config or {},
                            "rootfs": rootfs or {"type": "layers", "diff_ids": [l.diff_id for l in layers]}})
    m = {"schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, config_blob),
         "layers": [l.descriptor() for l in layers]}
    m.update(manifest or {})
    m_blob = dump(m)
    i = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(MANIFEST, m_blob)]}
    i.update(index(m_blob) if callable(index) else index or {})
    files = [("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), ("index.json", dump(i))]
    files += blob_files(config_blob, m_blob, *(l.blob for l in layers)) + list(more)
    # blobs lie under the name that is claimed for them
    for l in layers:
        files.append(("blobs/" + l.digest.replace(":", "/"), l.blob))
    if edit:
        files = edit(files)
    return outer(dict(files).items())


def docker(*layers, config=None, names=None, manifest=None, edit=None, config_blob=None, more=b"", blobs=False):
    """What `docker save` writes: of old (ID/layer.tar, HEX.json), or with blobs/."""
    layers = [l if isinstance(l, Layer) else Layer(l) for l in layers]
    if config_blob is None:
        config_blob = dump({"os": "linux", "architecture": ARCH, "config": config or {},
                            "rootfs": {"type": "layers", "diff_ids": [l.diff_id for l in layers]}})
    hex_of = lambda b: sha256(b)[7:]
    if blobs:
        names = names or ["blobs/sha256/" + hex_of(l.blob) for l in layers]
        at = "blobs/sha256/" + hex_of(config_blob)
    else:
        names = names or [f"{hex_of(b'%d' % i)}/layer.tar" for i in range(len(layers))]
        at = hex_of(config_blob) + ".json"
    m = [{"Config": at, "RepoTags": ["x:latest"], "Layers": names}]
    files = [*zip(names, (l.blob for l in layers)), (at, config_blob), ("repositories", b"{}")]
    files.append(("manifest.json", dump(m if manifest is None else manifest(m) if callable(manifest) else manifest)))
    if edit:
        files = edit(files)
    return outer(dict(files).items())[:-1024] + more + END
