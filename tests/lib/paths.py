# SPDX-License-Identifier: Apache-2.0
"""paths - FS-01: paths that try to get out, and every way there is to say one to an operation on files

A path is a kind and a payload: "text" is sent as it is (encoded once where it stands in a query),
"raw" is put into a query without a byte changed, "bytes" goes by path_b64 and "b64" there as it stands.
{} is what is to be reached.  Links of LINKS are made in the workspace first.
"""
import base64
import dataclasses
import io
import tarfile
import urllib.parse

UP = ["../", "..//", "./../", ".././", "x/../../", "..\\", "..\\/", "....//", ".../", "..;/", ". ./", "..\t/", "．．/", "․․/", "‥/"]
RAW_UP = ["%2e%2e/", "..%2f", "%2e%2e%2f", "%2E%2E%2F", ".%2e/", "%252e%252e%252f", "..%252f", "%c0%ae%c0%ae/", "..%c0%af", "%e0%80%ae%e0%80%ae/",
          "..%5c", "%u002e%u002e/", "..%00/", "%00../", "+../", "..%0a/"]
BYTES_UP = [b"../", b"..\xc0\xaf", b"\xc0\xae\xc0\xae/", b"\xff/../", b"..\xff/", b"\x80../", b"\xed\xa0\x80/../", b"..\0/", b"\xfe\xff\0.\0./"]
DEPTHS = (1, 3, 19)
FRONTS = ["/", "//", "///", "/./", "/.//", "/../", "/../../../", "/..//../", "~/", "~root/", "$HOME/", "${PWD}/../", "`pwd`/", "file://", "file:///", "\\", "\\\\?\\",
          "C:\\", " /", "\t/", "\n/", "/ ", "-", "--", "./-/..", "/dev/../", "/proc/../", "/proc/self/../../", "/sys/../", "/workspace/../", "/tmp/../../"]
RAW_FRONTS = ["%2f", "%252f", "%2f%2f", "/%2e%2e/", "%5c", "%00/", "/%00/", "%ff/", "%"]
BACKS = ["{}/", "{}//", "{}/.", "{}/./", "{}/..", "{}/../..", "{}.", "{}..", "{} ", "{}\n", "{}\\", "{};", "{}*", "{}?x", "{}#x", "{}::$DATA", "{}~", "{}&path=/"]
RAW_BACKS = ["{}%00", "{}%00.txt", "{}%2f", "{}%2f..", "{}%0a", "{}%20", "{}%ff", "{}&path={}", "{}&path_b64=Lw=="]
# Links of the kernel's that lead to no name: never followed, wherever they lead.  Here something is behind them, ...
THROUGH = [f"/proc/{who}/{what}{{}}" for who in ("self", "thread-self", "1", "self/task/1", "1/task/1") for what in ("root", "cwd", "root/proc/1/root")] + [
    "/proc/self/../1/root{}", "/proc/./self/root/.{}", "//proc//self//root{}", "../proc/self/root{}", "l/proc{}", "l/self{}", "l/cwd{}", "l/dir/proc/self/root{}"]
# ... here they are the last, and whoever looks at the link itself may.
LAST = ["l/fd", "l/exe", "/proc/self/exe", "/proc/1/exe", "/proc/1/ns/mnt", "/proc/self/ns/user", "/proc/self/cwd", "/proc/self/root", "/dev/fd/0", "/dev/fd/1", "/dev/stdin", "/dev/stdout",
        *(f"/proc/{who}/fd/{n}" for who in ("self", "1") for n in (0, 1, 2, 3, 4, 5, 100))]
MAGIC = THROUGH + LAST
# Files of the kernel's, of which nothing is the node's to lose.
KERNEL = ["/proc/1/mem", "/proc/self/mem", "/proc/1/environ", "/proc/self/map_files", "/proc/kcore", "/proc/kmsg", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern",
          "/proc/sys/kernel/modprobe", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/hostname", "/proc/1/oom_score_adj", "/sys/fs/cgroup/cgroup.procs",
          "/sys/kernel/uevent_helper", "/sys/firmware", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/pts/ptmx", "/dev/shm/../{}", "/proc/keys", "/proc/timer_list", "/proc/scsi"]
LINKS = {"abs": "{}", "up": "../" * 24 + "{}", "dir": "/", "dirs": "../" * 30, "proc": "/proc/self/root", "self": "/proc/self/task/1/root", "cwd": "/proc/1/cwd", "fd": "/proc/self/fd/1",
         "exe": "/proc/self/exe", "loop": "loop", "ping": "pong", "pong": "ping", "empty": "./.", "long": "./" * 2000 + "abs", "mount": "/proc/1/mountinfo",
         "1": "abs", **{str(n): str(n - 1) for n in range(2, 61)}}
LINKED = ["l/abs", "l/abs/", "l/up", "l/dir/{}", "l/dirs/{}", "l/dir/l/../{}", "l/loop", "l/loop/x", "l/ping", "l/empty/../../../{}", "l/long", "l/mount",
          *(f"l/{n}" for n in (1, 2, 8, 38, 39, 40, 41, 60)), "l/dir/workspace/l/dirs/{}"]
LONG = ["x" * 255, "x" * 256, "x" * 4095, "x" * 4096, "x" * 9000, "a/" * 2047, "../" * 1300 + "{}", "/" * 4000 + "{}", "./" * 1990 + "{}", "é" * 2000, "../" * 1400]
NONE = ["", ".", "..", "/", "./.", "\\0", "\0", "{}\0", "\ud800", "‮{}", "﻿/{}", "CON", "nul", "*", "?"]
B64 = ["", "!!!!", "Li4v", "Li4vLi4v=", "Li4vLi4", "Li4v Li4v", "Li4_", "AAAA", "////", "Lw==&path=/"]


def payloads():
    """(kind, payload), none twice."""
    rows = [("text", up * n + "{}") for up in UP for n in DEPTHS] + [("raw", up * n + "{}") for up in RAW_UP for n in DEPTHS]
    rows += [("bytes", up * n + b"{}") for up in BYTES_UP for n in DEPTHS]
    rows += [("text", front + "{}") for front in FRONTS] + [("raw", front + "{}") for front in RAW_FRONTS]
    rows += [("text", p) for p in [*BACKS, *MAGIC, *KERNEL, *LINKED, *LONG, *NONE]] + [("raw", p) for p in RAW_BACKS] + [("b64", p) for p in B64]
    return list(dict.fromkeys(rows))


def fill(payload, name):
    return payload.replace(b"{}", name.encode()) if isinstance(payload, bytes) else payload.replace("{}", name)


def member(kind, payload, name="path"):
    """The member of a request that says it: its name and its value."""
    if kind == "bytes":
        return f"{name}_b64", base64.b64encode(payload).decode()
    return (f"{name}_b64" if kind == "b64" else name), payload


def query(kind, payload, **more):
    key, value = member(kind, payload)
    if kind == "raw":
        value = urllib.parse.quote(value, safe="%&+;=/.\\$'")
    else:
        value = urllib.parse.quote(value, safe="" if kind != "b64" else "&=/", errors="surrogatepass")
    return "?" + "&".join([f"{key}={value}", *(f"{k}={v}" for k, v in more.items())])


def step(kind, payload, at, **more):
    key, value = member(kind, payload, at)
    return {key: value, **more}


def tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        t.addfile(tarfile.TarInfo("unpacked"))
    return out.getvalue()


TAR = tar()
HERE = {"path": "inner/file"}


@dataclasses.dataclass
class Ask:
    """A request with a path in it: how it is made, and a path it works with."""
    made: object
    good: str
    opens: str  # what the path leads to: "all" of it, all "but" the last, or "none"


def by_query(method, where, body=None, good="inner/file", opens="all", **more):
    return Ask(lambda kind, p: (method, where + query(kind, p, **more), body), good, opens)


def by_body(where, at="path", good="inner/file", opens="all", **more):
    return Ask(lambda kind, p: ("POST", where, step(kind, p, at, **more)), good, opens)


def by_batch(at="path", good="inner/file", opens="all", **more):
    return Ask(lambda kind, p: ("POST", "/batch", {"steps": [step(kind, p, at, **more)]}), good, opens)


# Every operation of the table, at each place where it takes a path; what more it is told is so that it would work.
ASKS = {
    "file.read": [by_query("GET", "/content")],
    "file.stat": [by_query("GET", "/stat", opens="but"), by_query("GET", "/stat", follow="true")],
    "file.list": [by_query("GET", "", good="inner", depth=2, limit=100)],
    "file.view": [by_query("GET", "/view")],
    "file.glob": [by_query("GET", "/glob", good="inner", pattern="*")],
    "file.watch": [by_query("GET", "/watch", good="inner", wait_ms=1)],
    "file.grep": [by_body("/grep", pattern="CANARY", limit=10)],
    "tree.get": [by_query("GET", "/tree")],
    "file.write": [by_query("PUT", "/content", b"x"), by_query("PUT", "/content", b"x", "a/new", parents="true"), by_query("PUT", "/content", b"x", append="true")],
    "file.edit": [by_body("/edit", edits=[{"kind": "insert", "line": 0, "new": "x"}])],
    "file.mkdir": [by_body("/mkdir", good="made"), by_body("/mkdir", good="b/new", parents=True)],
    "file.move": [by_body("/move", opens="but", to="moved", overwrite=True), by_body("/move", "to", "moved", "but", **HERE, overwrite=True)],
    "file.copy": [by_body("/copy", opens="but", to="copied", overwrite=True), by_body("/copy", "to", "c/new", "but", **HERE, overwrite=True, parents=True)],
    "file.delete": [by_body("/delete", opens="but")],
    "file.chmod": [by_body("/chmod", mode="0777")],
    "file.symlink": [by_body("/symlink", good="linked", opens="but", target="x", overwrite=True), by_body("/symlink", "target", opens="none", path="linked", overwrite=True)],
    "file.batch": [by_batch(do="chmod", mode="0777"), by_batch("to", "copied", "but", do="copy", **HERE, overwrite=True), by_batch(do="write", content="x"), by_batch(opens="but", do="stat"),
                   by_batch(do="stat", follow=True), by_batch(opens="but", do="delete")],
    "tree.put": [by_query("PUT", "/tree", TAR, "inner")],
    "tree.import": [by_body("/import", to="imported"), by_body("/import", "to", "imported", **HERE)],
    "tree.link": [by_body("/link")],
    "export.create": [by_body("/exports")],
}
