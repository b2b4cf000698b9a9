#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""make.py DIR - write the hostile images into DIR, one tar each

Each case is a name, the bytes, a verdict and how it shows:

    refused   image_add() must say no, with this text in its message
    harmless  it may say yes; the tree then holds these paths: None is "not
              there", "dir", "file", a link as "-> target", content as bytes,
              a mode as a number

Every case is also run with the checks of run.py: nothing outside changes,
nothing is left behind, every file belongs to the foreign range.
"""
import bz2
import hashlib
import io
import lzma
import pathlib
import sys
import zipfile

from oci import *

CASES = {}
MIB = 1 << 20


def case(name, data, verdict, want, max_bytes=64 * MIB):
    assert name not in CASES and verdict in ("refused", "harmless"), name
    CASES[name] = (data, verdict, want, max_bytes)


def refused(name, data, why, **kw):
    case(name, data, "refused", why, **kw)


def harmless(name, data, tree=None, **kw):
    case(name, data, "harmless", tree or {}, **kw)


def nest(n):
    return [nest(n - 1)] if n > 1 else []


BASE = directory("etc") + file("etc/os-release", "x")
PLAIN = tar(BASE)
LINKS = {"absolute": "/var/lib", "relative": "usr", "dotdot": "../../../../../../..", "dangling": "/nowhere",
         "fifo": "/pipe", "device": "/proc/self/fd/0"}


def planted_links():
    """ESC-07: where a runtime mounts, and what it writes in etc."""
    front = directory("usr") + directory("var/lib") + header("pipe", b"6")
    for where in ("dev", "proc", "sys", "run", "tmp", "etc"):
        for kind, target in LINKS.items():
            refused(f"link-{where}-{kind}", image(tar(front, symlink(where, target))), f"/{where} is a link or a file")
        refused(f"file-{where}", image(tar(front, file(where, "x"))), f"/{where} is a link or a file")
        refused(f"upper-link-{where}", image(PLAIN, tar(symlink(where, "/usr"))), f"/{where} is a link or a file")
        harmless(f"fifo-{where}", image(tar(header(where, b"6"))), {where: None if where == "etc" else "dir"})
    for name in ("resolv.conf", "hosts", "hostname", "passwd"):
        for kind, target in LINKS.items():
            harmless(f"etc-{name}-{kind}", image(tar(BASE, front, symlink("etc/" + name, target))),
                     {"etc/" + name: "-> " + target})


def ways_out():
    """Names and links that lead out of the tree, if anybody lets them."""
    for i, target in enumerate(("/", "/canary", "../../../../../../../canary", "../canary", "/proc/self/root",
                                "/proc/1/root/tmp", "/proc/self/cwd/../..", "/dev/fd/3")):
        refused(f"through-link-{i}", image(tar(BASE, symlink("l", target), file("l/canary/x/pwned", "x"), symlink("dev", "x"))),
                "")
        harmless(f"over-link-{i}", image(tar(BASE, symlink("l", target), file("l", "mine"))), {"l": b"mine"})
        refused(f"hard-to-link-{i}", image(tar(BASE, symlink("l", target), hardlink("h", "l"))), "not a file")
        harmless(f"whiteout-link-{i}", image(tar(BASE, symlink("l", target)), tar(file("l/.wh.canary"))), {"l": "-> " + target})
    harmless("opaque-link", image(tar(BASE, symlink("l", "/etc")), tar(file("l/.wh..wh..opq"))), {"etc/os-release": None})
    harmless("opaque-link-out", image(tar(BASE, symlink("l", "../../../canary")), tar(file("l/.wh..wh..opq"))),
             {"etc/os-release": b"x"})
    harmless("opaque-root", image(PLAIN, tar(file(".wh..wh..opq"), file("a", "1"))), {"etc": None, "a": b"1"})
    for i, name in enumerate((".wh.", ".wh..", ".wh...", "etc/.wh...", "etc/.wh..")):
        refused(f"whiteout-of-nothing-{i}", image(PLAIN, tar(file(name))), "whiteout of nothing")
    harmless("whiteout-in-lowest", image(tar(BASE, file("etc/.wh.os-release"))), {"etc/os-release": b"x", "etc/.wh.os-release": None})
    harmless("whiteout-order", image(PLAIN, tar(file("etc/new", "n"), file("etc/.wh..wh..opq"), file("etc/.wh.new"))),
             {"etc/new": b"n", "etc/os-release": None})
    harmless("whiteout-absent", image(PLAIN, tar(file("no/where/.wh.x"), file(".wh.y"))), {"no": None})
    harmless("whiteout-dir", image(tar(BASE, file("d/e/f/g", "1")), tar(file(".wh.d"))), {"d": None})
    harmless("whiteout-aufs", image(PLAIN, tar(file(".wh..wh.plnk"), file(".wh..wh.aufs"))), {"etc": "dir", ".wh..wh.aufs": None})
    for i, name in enumerate(("../x", "a/../../x", "..", "etc/..", "/../x", "a/b/../c", "./../x", "../../../../../../canary/x")):
        refused(f"dotdot-name-{i}", image(tar(BASE, file(name, "x"))), "has '..' in it")
        refused(f"dotdot-hard-{i}", image(tar(BASE, hardlink("h", name))), "has '..' in it")
        refused(f"dotdot-whiteout-{i}", image(PLAIN, tar(file(name + "/.wh.x"))), "has '..' in it")
    for i, (name, at) in enumerate((("/abs", "abs"), ("//abs", "abs"), ("./././abs", "abs"), ("/./etc//abs", "etc/abs"))):
        harmless(f"absolute-{i}", image(tar(BASE, file(name, "x"))), {at: b"x"})
    for i, target in enumerate(("/etc/passwd", "etc/passwd", "/canary/secret", "proc/self/exe", "missing")):
        refused(f"hard-outside-{i}", image(tar(BASE, hardlink("h", target))), "not in the image")
    refused("hard-through-link", image(tar(BASE, symlink("l", "/"), hardlink("h", "l/canary/secret"))), "not in the image")
    refused("hard-to-dir", image(tar(BASE, hardlink("h", "etc"))), "not a file")
    refused("hard-to-root", image(tar(BASE, hardlink("h", "."))), "root of the image")
    refused("hard-to-fifo", image(tar(BASE, header("p", b"6"), hardlink("h", "p"))), "not in the image")
    refused("hard-eats-itself", image(tar(BASE, file("d/f", "x"), hardlink("d", "d/f"))), "cannot make the hard link")
    harmless("hard-to-itself", image(tar(BASE, file("f", "x"), hardlink("f", "f"))), {"f": b"x"})
    harmless("hard-fine", image(tar(BASE, file("f", "x"), hardlink("g", "./f"), hardlink("h", "/g"))), {"h": b"x"})
    refused("link-loop", image(tar(BASE, symlink("a", "b"), symlink("b", "a"), file("a/x", "x"))), "cannot enter")
    refused("link-empty", image(tar(BASE, symlink("l", ""))), "sensible target")
    refused("link-long", image(tar(BASE, symlink("l", "a/" * 3000))), "sensible target")
    refused("parent-is-file", image(tar(BASE, file("f", "x"), file("f/x", "x"))), "cannot enter")
    harmless("link-inside", image(tar(BASE, directory("usr/lib"), symlink("lib", "usr/lib"), file("lib/x", "x"))),
             {"usr/lib/x": b"x", "lib": "-> usr/lib"})


def names():
    for i, (n, ok) in enumerate(((255, True), (256, False), (300, False))):
        data = image(tar(BASE, file("x" * n, "x")))
        harmless(f"component-{i}", data, {"x" * n: b"x"}) if ok else refused(f"component-{i}", data, "longer than 255")
    refused("name-4096", image(tar(BASE, file(("a" * 63 + "/") * 64, "x"))), "longer than 4095")
    refused("name-long", image(tar(BASE, file("a/" * 500000 + "x", "x"))), "")
    harmless("depth-256", image(tar(BASE, directory("d/" * 256))), {"d/" * 255 + "d": "dir"})
    refused("depth-257", image(tar(BASE, directory("d/" * 257))), "deeper than 256")
    # links make it deeper than any name may be
    deep = b"".join(directory("d/" * 250 if i == 0 else f"l{i - 1}/" + "d/" * 250)
                    + symlink(f"l{i}", "/" + "d/" * 250 if i == 0 else f"/l{i - 1}/" + "d/" * 250) for i in range(20))
    harmless("deep-by-links", image(tar(BASE, deep)))
    harmless("name-control", image(tar(BASE, file("a\nb\x1b[2J", "x"), file(b"\xff\xfe", "y"))), {"a\nb\x1b[2J": b"x"})
    refused("name-not-utf8", image(tar(BASE, pax(path=b"\xff\xfe"), header("x"))), "converted")
    harmless("name-nul", image(tar(BASE, pax(path=b"etc/a\0/../../b"), header("x"))))
    harmless("name-utf8", image(tar(BASE, pax(path="etc/\u00fc\u4e16"), header("x"))), {"etc/\u00fc\u4e16": "file"})
    refused("root-file", image(tar(BASE, file(".", "x"))), "root of the image is a file")
    refused("root-link", image(tar(BASE, symlink("./", "/x"))), "root of the image is a link")
    refused("name-empty", image(tar(BASE, pax(path=""), file("", "x"))), "root of the image is a file")
    harmless("root-mode", image(tar(directory("./", mode=0o700, uid=7), BASE)), {".": 0o700})
    harmless("twice", image(tar(BASE, file("f", "1"), file("f", "2"), file("f", "3"))), {"f": b"3"})
    harmless("file-to-dir", image(tar(BASE, file("f", "1"), directory("f"), file("f/g", "2"))), {"f/g": b"2"})
    harmless("dir-to-file", image(tar(BASE, file("d/e/f", "1"), file("d", "2"))), {"d": b"2"})
    harmless("dir-to-link", image(tar(BASE, file("d/e/f", "1"), symlink("d", "etc"))), {"d": "-> etc"})
    harmless("link-to-dir", image(tar(BASE, symlink("d", "etc"), directory("d"), file("d/x", "1"))), {"d/x": b"1", "etc/x": None})
    harmless("dir-merges", image(tar(BASE, file("d/a", "1")), tar(directory("d", mode=0o711), file("d/b", "2"))),
             {"d/a": b"1", "d/b": b"2", "d": 0o711})
    harmless("entries-100000", image(tar(BASE, b"".join(file(f"n/{i}") for i in range(100000)))), {"n/99999": "file"},
             max_bytes=128 * MIB)


def kinds():
    for i, kind in enumerate((b"3", b"4", b"6")):
        harmless(f"device-{i}", image(tar(BASE, header("etc/dev", kind, dev=(1, 3), mode=0o666))), {"etc/dev": None})
    harmless("device-over-file", image(tar(BASE, header("etc/os-release", b"3", dev=(8, 0)))), {"etc/os-release": b"x"})
    harmless("overlay-whiteout", image(PLAIN, tar(header("etc/os-release", b"3"))), {"etc/os-release": b"x"})
    for i, kind in enumerate((b"7", b"Z", b"\xff", b"V", b"M", b"N", b"D")):
        harmless(f"odd-type-{i}", image(tar(BASE, header("etc/odd", kind))))
    for i, mode in enumerate((0o4755, 0o2755, 0o6777, 0o1777, 0o0)):
        harmless(f"mode-{i}", image(tar(BASE, file("f", "x", mode=mode), directory("d", mode=mode))), {"f": mode, "d": mode})
    harmless("mode-overflow", image(tar(BASE, file("f", "x", mode=0o7777777))), {"f": 0o7777})
    harmless("owner-65535", image(tar(BASE, file("f", uid=65535, gid=65535))), {"f": "file"})
    for i, owner in enumerate((65536, 1 << 31, 0x7FFE0000, 0xFFFFFFFF, -1, -2)):
        refused(f"owner-{i}", image(tar(BASE, file("f", uid=owner))), "owner")
        refused(f"group-{i}", image(tar(BASE, file("f", gid=owner))), "owner")
        refused(f"pax-owner-{i}", image(tar(BASE, pax(uid=str(owner)), header("f"))), "owner")
    for i, time in enumerate((-1, 1 << 40, 1 << 62, -(1 << 62))):
        harmless(f"time-{i}", image(tar(BASE, file("f", "x", mtime=time))), {"f": b"x"})
        harmless(f"pax-time-{i}", image(tar(BASE, pax(mtime=f"{time}.999999999"), file("f", "x"))), {"f": b"x"})
    harmless("xattrs", image(tar(BASE, pax(SCHILY__xattr__security__capability=b"\1\0\0\2" + bytes(16),
                                           SCHILY__xattr__trusted__overlay__opaque="y",
                                           SCHILY__xattr__trusted__overlay__redirect="/../../etc"), file("f", "x"))), {"f": b"x"})
    harmless("acl", image(tar(BASE, pax(SCHILY__acl__access="user::rwx,user:0:rwx,group::r-x,mask::rwx,other::rwx"), file("f"))))


def sizes():
    for i, size in enumerate((-1, -(1 << 40), 1 << 62, (1 << 63) - 1)):
        refused(f"size-{i}", image(tar(BASE, file("f", "x", size=size))), "")
        refused(f"pax-size-{i}", image(tar(BASE, pax(size=str(size)), file("f", "x"))), "")
    refused("pax-size-huge", image(tar(BASE, pax(size="9" * 40), file("f", "x"))), "")
    harmless("pax-size-words", image(tar(BASE, pax(comment="1"), file("f", "x"))), {"f": b"x"})
    refused("pax-cut", image(tar(BASE, header("p", b"x", 30) + padded(b"999999999 path=x\n"), file("f"))), "")
    refused("pax-no-number", image(tar(BASE, header("p", b"x", 10) + padded(b"xx path=x\n"), file("f"))), "")
    refused("pax-1g", image(tar(BASE, header("p", b"x", 1 << 30) + padded(b"x"), file("f"))), "")
    refused("longname-1g", image(tar(BASE, header("././@LongLink", b"L", 1 << 30) + padded(b"x"), file("f"))), "")
    sparse = {"GNU__sparse__major": "1", "GNU__sparse__minor": "0", "GNU__sparse__name": "f"}
    one = padded(b"1\n1048576\n4\n")
    harmless("sparse", image(tar(BASE, pax(**sparse, GNU__sparse__realsize="2097152"), header("x", size=516), one + padded(b"data"))),
             {"f": "file"})
    refused("sparse-huge", image(tar(BASE, pax(**sparse, GNU__sparse__realsize=str(1 << 62)), header("x", size=516),
                                     one + padded(b"data"))), "")
    refused("sparse-over-limit", image(tar(BASE, pax(**sparse, GNU__sparse__realsize=str(65 * MIB)), header("x", size=516),
                                           one + padded(b"data"))), "larger than allowed")
    refused("sparse-behind-end", image(tar(BASE, pax(**sparse, GNU__sparse__realsize="100"), header("x", size=516),
                                           one + padded(b"data"))), "after its end")
    refused("sparse-map", image(tar(BASE, pax(**sparse, GNU__sparse__realsize="100"), header("x", size=516),
                                    padded(b"99999999999\n1\n1\n") + padded(b"data"))), "")
    refused("old-sparse", image(tar(BASE, header("f", b"S", 512, magic=b"ustar  \0", tail=bytes(41) + b"77777777777\0" * 2
                                                 + bytes(72) + b"\0" + b"77777777777\0"), padded(b"x" * 512))), "")
    refused("larger-than-allowed", image(tar(BASE, file("f", bytes(2 * MIB)))), "larger than allowed", max_bytes=MIB)
    refused("many-larger", image(tar(BASE, *(file(f"f{i}", bytes(100000)) for i in range(20)))), "larger than allowed",
            max_bytes=MIB)
    refused("many-layers-larger", image(*(tar(file("f", bytes(100000) + bytes([i]))) for i in range(20))), "larger than allowed",
            max_bytes=MIB)
    bomb = gz(tar(BASE) + bytes(300 * MIB))
    refused("gzip-bomb-behind-end", image(Layer(PLAIN, GZIP, blob=bomb)), "larger than allowed")
    bomb = gz(header("f", size=300 * MIB) + bytes(300 * MIB))
    refused("gzip-bomb", image(Layer(PLAIN, GZIP, blob=bomb)), "larger than allowed")
    refused("zstd-bomb", image(Layer(PLAIN, ZSTD, blob=zstd(b"\0", repeat=80000))), "larger than allowed")
    refused("zstd-window", image(Layer(PLAIN, ZSTD, blob=zstd(PLAIN, window=0xFF))), "uncompress")
    whole = tar(BASE, file("f", b"x" * 3000), file("g", b"y" * 3000))
    for i, at in enumerate((1, 511, 513, 700, 1023, 1025, 1537, 2047, 2049, 2500, 3000, 5000)):
        refused(f"layer-cut-{i}", image(whole[:at]), "")
    trash = bytes(range(1, 256)) * 9
    harmless("layer-trailing", image(whole + trash), {"g": b"y" * 3000})
    refused("layer-garbage", image(trash), "")
    refused("layer-checksum", image(PLAIN[:148] + b"0000000\0" + PLAIN[156:]), "")


def formats():
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as z:
        z.writestr("etc/x", "x")
    others = {"xz": lzma.compress(PLAIN), "lzma": lzma.compress(PLAIN, lzma.FORMAT_ALONE), "bzip2": bz2.compress(PLAIN),
              "zip": zipped.getvalue(), "rar": b"Rar!\x1a\x07\x00" + bytes(600), "rar5": b"Rar!\x1a\x07\x01\x00" + bytes(600),
              "7z": b"7z\xbc\xaf\x27\x1c\0\4" + bytes(600), "cpio": b"070701" + b"0" * 104 + bytes(400),
              "ar": b"!<arch>\n" + b" " * 600, "iso": bytes(32768) + b"\1CD001\1" + bytes(4096), "mtree": b"#mtree\n./x type=file\n",
              "compress": b"\x1f\x9d\x90" + bytes(600), "lz4": b"\x04\x22\x4d\x18" + bytes(600), "rpm": b"\xed\xab\xee\xdb" + bytes(600),
              "uu": b"begin 644 x\n" + b"M" * 600, "cab": b"MSCF" + bytes(600), "xar": b"xar!" + bytes(600),
              "warc": b"WARC/1.0\r\n" + bytes(600), "lha": b"  -lh5-" + bytes(600), "gzip": gz(PLAIN), "zstd": zstd(PLAIN)}
    for name, blob in others.items():
        if name == "iso":  # begins as a tar that has ended
            harmless("format-iso", image(Layer(PLAIN, TAR, blob=blob, diff_id=sha256(blob))), {"etc": None})
        else:
            refused(f"format-{name}", image(Layer(PLAIN, TAR, blob=blob, diff_id=sha256(blob))), "Unrecognized")
        if name not in ("gzip", "zstd"):
            refused(f"outer-{name}", blob, "no index.json" if name == "iso" else "not a plain tar")
        if name not in ("gzip",):
            refused(f"as-gzip-{name}", image(Layer(PLAIN, GZIP, blob=blob, diff_id=sha256(blob))), "media type")
    refused("plain-as-gzip", image(Layer(PLAIN, GZIP, blob=PLAIN)), "media type")
    refused("plain-as-zstd", image(Layer(PLAIN, ZSTD, blob=PLAIN)), "media type")
    refused("zstd-as-gzip", image(Layer(PLAIN, GZIP, blob=zstd(PLAIN))), "media type")
    refused("gzip-in-gzip", image(Layer(PLAIN, GZIP, blob=gz(gz(PLAIN)))), "media type")
    refused("gzip-in-zstd", image(Layer(PLAIN, ZSTD, blob=zstd(gz(PLAIN)))), "Unrecognized")
    refused("gzip-cut", image(Layer(PLAIN, GZIP, blob=gz(PLAIN)[:-20])), "truncated")
    refused("gzip-empty", image(Layer(b"", GZIP)), "uncompress")
    harmless("gzip-members", image(Layer(PLAIN, GZIP, blob=gz(PLAIN[:700]) + gz(PLAIN[700:]))), {"etc/os-release": b"x"})
    harmless("gzip", image(Layer(PLAIN, GZIP)), {"etc/os-release": b"x"})
    harmless("zstd", image(Layer(PLAIN, ZSTD)), {"etc/os-release": b"x"})
    harmless("outer-gzip", gz(image(PLAIN)), {"etc/os-release": b"x"})
    harmless("outer-zstd", zstd(image(PLAIN)), {"etc/os-release": b"x"})
    refused("outer-gzip-gzip", gz(gz(image(PLAIN))), "compressed twice")
    refused("outer-gzip-cut", gz(image(PLAIN))[:-20], "truncated")
    refused("outer-gzip-only", b"\x1f\x8b", "not as it begins")
    refused("outer-zstd-only", b"\x28\xb5\x2f\xfd", "uncompress")
    refused("outer-gzip-bomb", gz(bytes(300 * MIB)), "larger than allowed")
    refused("outer-zstd-bomb", zstd(b"\0", repeat=80000), "larger than allowed")
    refused("outer-empty", b"", "no index.json")
    refused("outer-zeros", bytes(10240), "no index.json")
    for media in ("tar+xz", "nondistributable.v1.tar", "v1.tar+bzip2", "v1.tar+encrypted", "", "v1.tar+gzip\0", None, 7):
        m = {"layers": [descriptor(f"{OCI}layer.{media}" if isinstance(media, str) else media, PLAIN)]}
        if media == "v1.tar+gzip\0":
            refused("media-nul", image(PLAIN, manifest=m), "JSON")
        else:
            refused(f"media-{media}", image(PLAIN, manifest=m), "not a tar")
    whole = image(PLAIN)
    used = len(whole) - 1024 - 500
    for i in range(20):
        refused(f"outer-cut-{i:02}", whole[:used * (i + 1) // 20 - 7], "")


def digests():
    config = dump({"os": "linux", "architecture": ARCH, "rootfs": {"type": "layers", "diff_ids": [sha256(PLAIN)]}})

    def forged(suffix):
        def edit(files):
            return [(n, bytes(d[:-1]) + bytes([d[-1] ^ 1]) if n.endswith(suffix) else d) for n, d in files]
        return edit

    refused("digest-layer", image(PLAIN, edit=forged(sha256(PLAIN)[7:])), "another digest")
    refused("digest-config", image(PLAIN, config_blob=config, edit=forged(sha256(config)[7:])), "another digest")
    refused("digest-manifest", image(PLAIN, index=lambda m: {"manifests": [descriptor(MANIFEST, m) | {
        "digest": sha256(PLAIN), "size": len(PLAIN)}]}), "not JSON")
    refused("digest-diff-id", image(Layer(PLAIN, diff_id=sha256(b"x"))), "diff_id")
    refused("digest-diff-id-gzip", image(Layer(PLAIN, GZIP, diff_id=sha256(b"x"))), "diff_id")
    refused("digest-diff-id-upper", image(PLAIN, Layer(PLAIN, GZIP, diff_id=sha256(gz(PLAIN)))), "diff_id")
    for by in (-12, -1, 1, 12, 1 << 40):
        word = "longer" if by < 0 else "shorter"
        for what in ("layer", "config", "manifest"):
            d = descriptor
            if what == "layer":
                data = image(Layer(PLAIN, size=len(PLAIN) + by))
            elif what == "config":
                data = image(PLAIN, config_blob=config, manifest={"config": d(CONFIG, config) | {"size": len(config) + by}})
            else:
                data = image(PLAIN, index=lambda m, by=by: {"manifests": [d(MANIFEST, m) | {"size": len(m) + by}]})
            why = "larger than" if by > 12 and what != "layer" else f"{abs(by)} bytes {word} than its descriptor"
            refused(f"size-of-{what}-{by}", data, why)
    good = descriptor(TAR, PLAIN)
    for i, bad in enumerate(({"size": -1}, {"size": "5"}, {"size": 1.5}, {"size": None}, {"digest": None}, {"digest": 5},
                             {"digest": sha256(PLAIN).upper()}, {"digest": sha256(PLAIN)[:-1]}, {"digest": sha256(PLAIN) + "0"},
                             {"digest": "sha512:" + "0" * 128}, {"digest": "sha256:../../../../../../../../../../canary/secret"},
                             {"digest": "../" * 20 + "etc/passwd"}, {"digest": ""})):
        refused(f"descriptor-{i}", image(PLAIN, manifest={"layers": [good | bad]}), "is not")
    refused("blob-missing", image(PLAIN, edit=lambda f: [x for x in f if sha256(PLAIN)[7:] not in x[0]]), "not in the image layout")
    refused("config-missing", image(PLAIN, config_blob=config, edit=lambda f: [x for x in f if sha256(config)[7:] not in x[0]]),
            "not in the image layout")
    at = "blobs/" + sha256(PLAIN).replace(":", "/")
    whole = image(PLAIN)
    for name, entry in (("symlink", symlink(at, "/etc/passwd")), ("hardlink", hardlink(at, "/etc/passwd")),
                        ("fifo", header(at, b"6")), ("device", header(at, b"3", dev=(1, 5)))):
        bare = image(PLAIN, edit=lambda f: [x for x in f if sha256(PLAIN)[7:] not in x[0]])
        refused(f"blob-{name}", bare[:-1024] + entry + END, "not in the image layout")
    refused("index-symlink", tar(symlink("index.json", "/etc/passwd")), "no index.json")
    refused("index-empty", tar(file("index.json", "")), "no index.json")
    refused("index-2m", tar(file("index.json", b" " * (2 * MIB))), "larger than")
    harmless("index-last-wins", tar(file("index.json", "x"))[:-1024] + whole, {"etc/os-release": b"x"})
    harmless("outer-dot-names", image(PLAIN, edit=lambda f: [("./" + n, d) for n, d in f]), {"etc/os-release": b"x"})
    refused("blobs-5000", whole[:-1024] + b"".join(file("blobs/" + sha256(str(i).encode()).replace(":", "/")) for i in range(5000))
            + END, "blobs")
    refused("outer-70000", whole[:-1024] + b"".join(header(f"x{i}") for i in range(70000)) + END, "more than 65536")


def manifests():
    refused("no-layers", image(), "no layers")
    refused("layers-null", image(PLAIN, manifest={"layers": None}), "no layers")
    refused("layers-object", image(PLAIN, manifest={"layers": {"0": descriptor(TAR, PLAIN)}}), "no layers")
    refused("layers-129", image(*[PLAIN] * 129), "129 layers")
    harmless("layers-128", image(*[PLAIN] * 128), {"etc/os-release": b"x"})
    harmless("layers-twice", image(PLAIN, PLAIN), {"etc/os-release": b"x"})
    refused("layer-0-bytes", image(b""), "no bytes")
    harmless("layer-no-entries", image(PLAIN, END), {"etc/os-release": b"x"})
    refused("artifact", image(PLAIN, manifest={"config": descriptor("application/vnd.cncf.helm.config.v1+json", b"{}")}), "artifact")
    refused("both", image(PLAIN, manifest={"manifests": []}), "something else")
    refused("both-by-word", image(PLAIN, manifest={"mediaType": INDEX}), "something else")
    refused("index-both", image(PLAIN, index={"layers": []}), "something else")
    for v in (1, 3, "2", None):
        refused(f"schema-{v}", image(PLAIN, manifest={"schemaVersion": v}), "schemaVersion")
    refused("manifest-2m", image(PLAIN, manifest={"annotations": {"a": "x" * (2 * MIB)}}), "larger than")
    refused("manifest-values", image(PLAIN, manifest={"annotations": {str(i): "" for i in range(30000)}}), "values")
    refused("manifest-deep", image(PLAIN, manifest={"x": nest(40)}), "nested")
    harmless("manifest-labels", image(PLAIN, manifest={"annotations": {"a;rm -rf /": "$(reboot)\n`x`", "b": "%s%n"},
                                                       "subject": {"digest": "x"}, "foo": [1, 2, {}]}))
    for i, doc in enumerate((b"", b"x", b"{", b"[]", b"null", b"1", b'"x"', b"{}", b'{"schemaVersion":2}', b"\xff\xfe",
                             b'{"schemaVersion":2,"manifests":[]}', b'{"schemaVersion":2,"manifests":[1]}',
                             b'{"schemaVersion":2,"manifests":{}}', b'{"schemaVersion":2,"schemaVersion":2}',
                             b"[" * 100000, b'{"a":' * 50000)):
        refused(f"index-doc-{i}", tar(file("index.json", doc)), "")
        refused(f"manifest-doc-{i}", outer([("index.json", dump({"schemaVersion": 2, "manifests": [descriptor(MANIFEST, doc)]})),
                                            *blob_files(doc)]), "")
        refused(f"config-doc-{i}", image(PLAIN, config_blob=doc), "")
    ours, theirs = {"os": "linux", "architecture": ARCH}, {"os": "linux", "architecture": OTHER_ARCH}
    pick = lambda p: lambda m: {"manifests": [descriptor(MANIFEST, m, platform=p)]}
    ghost = descriptor(MANIFEST, b"ghost")
    harmless("platform-ours", image(PLAIN, index=pick(ours)))
    harmless("platform-three", image(PLAIN, index=lambda m: {"manifests": [
        ghost | {"platform": theirs}, descriptor(MANIFEST, m, platform=ours),
        ghost | {"platform": {"os": "unknown", "architecture": "unknown"}}]}))
    refused("platform-other", image(PLAIN, index=pick(theirs)), "no image for linux/")
    refused("platform-os", image(PLAIN, index=pick(ours | {"os": "windows"})), "no image for linux/")
    refused("platform-config", image(PLAIN, arch=OTHER_ARCH), "not for linux/")
    refused("platform-config-os", image(PLAIN, os="windows"), "not for linux/")
    refused("two-images", image(PLAIN, index=lambda m: {"manifests": [descriptor(MANIFEST, m), ghost]}), "several images")
    harmless("two-names", image(PLAIN, index=lambda m: {"manifests": [descriptor(MANIFEST, m), descriptor(MANIFEST, m)]}))
    refused("index-of-layer", image(PLAIN, index={"manifests": [descriptor(TAR, PLAIN)]}), "no image")

    def nested(depth):
        blobs = []

        def index(m):
            d = descriptor(MANIFEST, m)
            for _ in range(depth):
                blobs.append(dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": [d]}))
                d = descriptor(INDEX, blobs[-1])
            return {"manifests": [d]}
        return image(PLAIN, index=index, edit=lambda f: f + blob_files(*blobs))
    harmless("nested-1", nested(1), {"etc/os-release": b"x"})
    refused("nested-2", nested(2), "index in an index")
    refused("nested-9", nested(9), "index in an index")


def configs():
    c = lambda **kw: image(PLAIN, config=kw)
    harmless("config-code", c(Entrypoint=["/bin/sh", "-c", "reboot"], Cmd=["$(reboot)"], StopSignal="SIGKILL; reboot",
                              Labels={"io.x/cmd": "$(touch /canary/x)", "../../x": "y"}, Volumes={"/": {}, "/../../etc": {}},
                              ExposedPorts={"0/tcp": {}}, OnBuild=["RUN reboot"], Shell=["x"], Healthcheck={"Test": ["CMD", "reboot"]},
                              ArgsEscaped=True, Memory=-1, NetworkDisabled="x"),
             {"config": {"env": {}, "argv": ["/bin/sh", "-c", "reboot", "$(reboot)"]}})
    for i, argv in enumerate(("/bin/sh", {"a": 1}, 5, [5], [None], [["x"]], ["x"] * 257)):
        refused(f"entrypoint-{i}", c(Entrypoint=argv), "config: ")
        refused(f"cmd-{i}", c(Cmd=argv), "config: ")
    refused("entrypoint-large", c(Entrypoint=["x" * 40000], Cmd=["y" * 40000]), "config: ")
    harmless("cmd-only", c(Cmd=["date"]), {"config": {"env": {}, "argv": ["date"]}})
    harmless("entrypoint-none", c(Entrypoint=None, Cmd=[]), {"config": {"env": {}}})
    harmless("env", c(Env=["A=1", "B=2=3", "A=9", "C=", "D=a\nb", "LD_PRELOAD=/x.so"]),
             {"config": {"env": {"A": "9", "B": "2=3", "C": "", "D": "a\nb", "LD_PRELOAD": "/x.so"}}})
    harmless("env-odd", c(Env=["x", "=x", "1A=x", "A B=x", "A\n=x", "\u00fc=x", 5, None, ["A=1"], "OK=1", "A.B=x", ""]),
             {"config": {"env": {"OK": "1"}}})
    for i, env in enumerate(({"A": "1"}, "A=1", 5, None)):
        harmless(f"env-type-{i}", c(Env=env), {"config": {"env": {}}})
    refused("env-257", c(Env=[f"V{i}=1" for i in range(257)]), "env")
    harmless("env-256", c(Env=[f"V{i}=1" for i in range(256)]))
    refused("env-large", c(Env=[f"V{i}=" + "x" * 1000 for i in range(100)]), "longer than")
    refused("env-64k", c(Env=["V=" + "x" * 70000]), "longer than")
    for i, user in enumerate(("root\n", "a b", "\u00fc", "x" * 65, 0, ["root"], {"a": 1}, "a\x1bb")):
        refused(f"user-{i}", c(User=user), "user")
    for i, user in enumerate(("1000", "1000:1000", "root", "user:group", "$(id)", "../../root", "-1", "%s%n")):
        harmless(f"user-ok-{i}", c(User=user), {"config": {"env": {}, "user": user}})
    for i, cwd in enumerate(("relative", "./x", "../x", " /x", "x" * 5000, "/" + "x" * 4095, 5, [])):
        refused(f"cwd-{i}", c(WorkingDir=cwd), "cwd")
    for i, cwd in enumerate(("/", "/../../etc", "/a\nb", "//x")):
        harmless(f"cwd-ok-{i}", c(WorkingDir=cwd), {"config": {"env": {}, "cwd": cwd}})
    harmless("config-empty-texts", c(User="", WorkingDir="", Env=[]), {"config": {"env": {}}})
    harmless("config-null", image(PLAIN, config_blob=dump({"os": "linux", "architecture": ARCH, "config": None, "rootfs": {
        "type": "layers", "diff_ids": [sha256(PLAIN)]}})), {"config": {"env": {}}})
    refused("config-10m", c(Labels={"a": "x" * (10 * MIB)}), "larger than")
    harmless("config-7m", c(Labels={"a": "x" * (7 * MIB)}), {"config": {"env": {}}})
    refused("config-values", c(Labels={str(i): "" for i in range(70000)}), "values")
    refused("config-deep", c(Labels=nest(40)), "nested")
    for i, rootfs in enumerate(({}, {"type": "layers"}, {"type": "x", "diff_ids": [sha256(PLAIN)]}, {"type": "layers", "diff_ids": []},
                                {"type": "layers", "diff_ids": [sha256(PLAIN)] * 2}, {"type": "layers", "diff_ids": [5]},
                                {"type": "layers", "diff_ids": ["x"]}, {"type": "layers", "diff_ids": {}}, [], "x", 5)):
        refused(f"rootfs-{i}", image(PLAIN, config_blob=dump({"os": "linux", "architecture": ARCH, "rootfs": rootfs})), "config: ")


PROGRAM = tar(BASE, file("bin/sh", "x", mode=0o755))
DUP = hashlib.sha256(b"0").hexdigest()


def archives():
    """`docker save`, of old and new."""
    ok = {"etc/os-release": b"x"}
    harmless("docker", docker(PLAIN), ok)
    harmless("docker-blobs", docker(PLAIN, blobs=True), ok)
    harmless("docker-outer-gzip", gz(docker(PLAIN)), ok)
    harmless("docker-two", docker(PLAIN, tar(file("etc/.wh.os-release"), file("etc/new", "n"))), {"etc/os-release": None, "etc/new": b"n"})
    harmless("docker-gzip-layer", docker(Layer(PLAIN, GZIP)), ok)
    harmless("docker-zstd-layer", docker(Layer(PLAIN, ZSTD), blobs=True), ok)
    same = lambda f: [x for x in f if x[0] != "twin/layer.tar"]
    harmless("docker-link", docker(PLAIN, PLAIN, names=[DUP + "/layer.tar", "twin/layer.tar"], edit=same,
                                   more=symlink("twin/layer.tar", f"../{DUP}/layer.tar")), ok)
    for i, target in enumerate(("/etc/passwd", "../../../../etc/passwd", "../twin/layer.tar", "../../" + DUP + "/layer.tar", "..", "",
                                "layer.tar", "/proc/self/fd/3")):
        refused(f"docker-link-{i}", docker(PLAIN, PLAIN, names=[DUP + "/layer.tar", "twin/layer.tar"], edit=same,
                                           more=symlink("twin/layer.tar", target)), "not in the archive")
    for i, name in enumerate(("/etc/passwd", "../../etc/shadow", "no.tar", "x" * 300, "", 5, None, "a\u0000.tar", ".", "manifest")):
        def other(m, name=name):
            m[0]["Layers"] = [name]
            return m
        refused(f"docker-layer-{i}", docker(PLAIN, manifest=other), "")

        def config(m, name=name):
            m[0]["Config"] = name
            return m
        refused(f"docker-config-{i}", docker(PLAIN, manifest=config), "")
    for i, doc in enumerate((b"", b"x", b"{}", b"[]", b"null", b"[1]", b"[{}]", b"[[]]", b'[{"Config":1}]', b"[" * 100000)):
        refused(f"docker-doc-{i}", docker(PLAIN, manifest=doc), "")
    refused("docker-several", docker(PLAIN, manifest=lambda m: m * 2), "several images")
    refused("docker-no-layers", docker(), "no layers")
    refused("docker-129", docker(*[PLAIN] * 129), "129 layers")
    refused("docker-0-bytes", docker(Layer(PLAIN, blob=b"")), "no bytes")
    refused("docker-diff-id", docker(Layer(PLAIN, diff_id=sha256(b"x"))), "diff_id")
    refused("docker-manifest-2m", docker(PLAIN, manifest=b" " * (2 * MIB)), "larger than")
    refused("docker-config-10m", docker(PLAIN, config={"Labels": {"a": "x" * (10 * MIB)}}), "larger than")
    refused("docker-hard-outside", docker(tar(BASE, hardlink("h", "/canary/secret"))), "not in the image")
    refused("docker-dotdot", docker(tar(BASE, file("../x", "x"))), "has '..' in it")
    refused("docker-dev-link", docker(tar(BASE, symlink("dev", "/usr"))), "/dev is a link")
    refused("docker-cut", docker(PLAIN)[:-2500], "")
    harmless("docker-code", docker(PLAIN, config={"Labels": {"x": "$(reboot)"}, "Healthcheck": {"Test": ["CMD", "reboot"]}}), ok)
    # both say what they are: the OCI one is believed
    both = image(tar(BASE, file("oci", "1")))[:-1024] + docker(tar(BASE, file("docker", "1")))
    harmless("docker-and-oci", both, {"oci": b"1", "docker": None})


def trees():
    """A tree as it is: `docker export`, debootstrap."""
    ok = {"bin/sh": b"x", "etc/os-release": b"x", "dev": "dir"}
    harmless("tree", PROGRAM, ok | {"config": {"env": {}}})
    harmless("tree-dot", tar(directory("./"), directory("./bin"), file("./bin/sh", "x", mode=0o755)), {"bin/sh": b"x"})
    harmless("tree-gzip", gz(PROGRAM), ok)
    harmless("tree-zstd", zstd(PROGRAM), ok)
    harmless("tree-trailing", PROGRAM + bytes(9000), ok)
    harmless("tree-one-file", tar(file("hello", "x", mode=0o755)), {"hello": b"x", "tmp": "dir"})
    harmless("tree-devices", tar(BASE, file("bin/sh", "x", mode=0o755), header("dev/sda", b"4", dev=(8, 0)), header("dev/p", b"6")),
             {"dev/sda": None, "dev/p": None})
    harmless("tree-manifest-below", tar(BASE, file("bin/sh", "x", mode=0o755), file("app/manifest.json", "[]"),
                                        file("app/index.json", "{}")), {"app/index.json": b"{}"})
    harmless("tree-70000", tar(BASE, file("bin/sh", "x", mode=0o755), b"".join(header(f"n/{i}") for i in range(70000))),
             {"n/69999": "file"}, max_bytes=128 * MIB)
    refused("tree-no-program", PLAIN, "no program")
    refused("tree-blobs", tar(BASE, file("bin/sh", "x", mode=0o755), file("blobs/x", "")), "no index.json")
    refused("tree-dev-link", tar(file("bin/sh", "x", mode=0o755), symlink("dev", "/x")), "/dev is a link")
    refused("tree-etc-link", tar(file("bin/sh", "x", mode=0o755), symlink("etc", "/canary")), "/etc is a link")
    refused("tree-dotdot", tar(file("bin/sh", "x", mode=0o755), file("../x")), "has '..' in it")
    refused("tree-hard-outside", tar(file("bin/sh", "x", mode=0o755), hardlink("h", "/canary/secret")), "not in the image")
    refused("tree-hard-through-link", tar(file("bin/sh", "x", mode=0o755), symlink("l", "/"), hardlink("h", "l/canary/secret")),
            "not in the image")
    refused("tree-owner", tar(file("bin/sh", "x", mode=0o755, uid=70000)), "owner")
    refused("tree-larger", tar(file("bin/sh", bytes(2 * MIB), mode=0o755)), "larger than allowed", max_bytes=MIB)
    refused("tree-cut", PROGRAM[:-1024 - 300], "")
    refused("tree-sparse", tar(file("bin/sh", "x", mode=0o755), pax(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__name="f",
                               GNU__sparse__realsize=str(1 << 62)), header("x", size=516), padded(b"1\n0\n4\n") + padded(b"data")), "")
    for i, target in enumerate(("/", "/canary", "../../../canary")):
        harmless(f"tree-over-link-{i}", tar(file("bin/sh", "x", mode=0o755), symlink("l", target), file("l", "mine")), {"l": b"mine"})


for group in (archives, trees, planted_links, ways_out, names, kinds, sizes, formats, digests, manifests, configs):
    group()

if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, (data, verdict, want, max_bytes) in CASES.items():
        (out / f"{name.replace('/', '_')}.tar").write_bytes(data)
    print(len(CASES), "images,", sum(v[1] == "refused" for v in CASES.values()), "to be refused")
