# SPDX-License-Identifier: Apache-2.0
"""Daemons, an image with the hostile program, a sandbox per runtime, and the oracle

A row of the matrix is a test function named after it; `row` runs it under the
oracle, prints `ID|runtime|priv|verdict|detail` and fails on anything but a clean
verdict.

On a stock kernel (CAY_GUEST, dev/guest) the programs that the kernel starts by itself are
tell-tales, and processes are counted.  CAY_ROWS=N: only ESC-31, with one runtime, and N of the
other ESC rows, by CAY_SEED.
"""
import contextlib
import os
import pathlib
import random
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
import cay as lib
import tap
from oracle import SETTLE_S, Canaries, Oracle, Telltales

pytest_configure = tap.pytest_configure

BUILD = pathlib.Path(os.environ.get("CAY_BUILD", "build/gcc")).resolve()
RUNTIMES = ("crun", "runc")
PRIVS = {"root": "0", "user": "1000"}
PASSWD = b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/workspace:/bin/sh\n"
# Daemons of this session: what some log while a row of others runs is not the row's WRITE.
LIVE = []
# What the host is seen by: a change in these is a WRITE.
WATCHED = ("/etc", "/usr/local", "/usr/sbin", "/opt", "/run", "/tmp", "/dev", "/var/lib", "/srv")


def pytest_generate_tests(metafunc):
    if "runtime" in metafunc.fixturenames:
        metafunc.parametrize("runtime", RUNTIMES, scope="session")
    if "priv" in metafunc.fixturenames:
        metafunc.parametrize("priv", list(PRIVS), scope="session")


def sampled(items, n, seed):
    """ESC-31 with one of the runtimes, and n more of the rows that attack from inside; those of many images are long."""
    def is_host_row(item):
        params = item.callspec.params if hasattr(item, "callspec") else {}
        return item.originalname.startswith("test_ESC_31") and params.get("runtime") in (None, RUNTIMES[seed % 2])
    others = sorted(i.nodeid for i in items if re.match(r"test_ESC_(?!31)", i.originalname) and not i.get_closest_marker("images"))
    chosen = set(random.Random(seed).sample(others, min(n, len(others))))
    return [i for i in items if is_host_row(i) or i.nodeid in chosen]


def pytest_collection_modifyitems(config, items):
    n, seed = os.environ.get("CAY_ROWS"), int(os.environ.get("CAY_SEED") or 0)
    if n:
        chosen = sampled(items, int(n), seed)
        config.pluginmanager.get_plugin("terminalreporter").write_line(
            f"# {len(chosen)} of {len(items)} rows by seed {seed} (CAY_SEED={seed} repeats it)")
        config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
        items[:] = chosen


def hostile_entries():
    """A root file system of one static program, with what `replace` wants to find."""
    program = (BUILD / "tests/attack/hostile").read_bytes()
    trap = (BUILD / "tests/attack/hostile-trap.so").read_bytes()
    dirs = ("bin dev etc lib lib/x86_64-linux-gnu lib64 proc run sbin sys usr usr/bin usr/sbin usr/lib var "
            "var/tmp").split()
    return [*(lib.directory(d) for d in dirs), lib.directory("tmp", 0o1777), lib.directory("workspace", uid=1000, gid=1000),
            lib.file("hostile", program, 0o755), lib.file("hostile-suid", program, 0o6755),
            lib.file("hostile-trap.so", trap, 0o755), lib.file("etc/passwd", PASSWD),
            lib.file("etc/group", b"root:x:0:\nuser:x:1000:\n"),
            lib.file("big", bytes(range(256)) * 4096)]


@pytest.fixture(scope="session")
def canaries():
    c = Canaries()
    yield c
    c.remove()


@pytest.fixture(scope="session")
def cay(canaries):
    _, missing = lib.built(BUILD)
    if missing:
        pytest.skip(f"not built yet: {', '.join(missing)}")
    with lib.Cay(BUILD, env={"CANARY": canaries.make("environment of the daemons")}) as c:
        for name, path in {"host's root file": "/run", "temporary file": "/tmp", "disk": "/var/tmp",
                           "state directory": c.state, "database directory": c.state / "db",
                           "boxes directory": c.state / "boxes", "run directory": c.run}.items():
            if os.path.isdir(path):
                canaries.plant(name, os.path.join(path, c.name + ".token"))
        c.image_import("hostile", lib.layout(hostile_entries()))
        LIVE.append(c)
        yield c


class Boxes:
    """Sandboxes by key, made when first asked for, gone at the end."""

    def __init__(self, cay):
        self.cay, self.made, self.extra = cay, {}, []

    def __call__(self, runtime, key=""):
        if (runtime, key) not in self.made:
            self.made[runtime, key] = self.cay.create("hostile", runtime=runtime)
        return self.made[runtime, key]

    def fresh(self, runtime, image="hostile", **fields):
        box = self.cay.create(image, runtime=runtime, **fields)
        self.extra.append(box)
        return box

    def remove(self):
        for box in [*self.made.values(), *self.extra]:
            with contextlib.suppress(lib.ApiError, OSError):
                self.cay.delete(box)
        self.made, self.extra = {}, []


@pytest.fixture(scope="session")
def boxes(cay):
    b = Boxes(cay)
    yield b
    b.remove()


@pytest.fixture(scope="session")
def neighbour(cay, boxes, canaries):
    """Somebody else's sandbox, with a secret in a file and one in its environment."""
    made = {}

    def of(runtime):
        if runtime not in made:
            box = boxes.fresh(runtime, env={"SECRET": canaries.make(f"neighbour's environment ({runtime})")})
            # the mark of serve-neighbour becomes a file name, an argument and a key
            mark = canaries.make(f"neighbour's mark ({runtime})")
            exec_id = cay.exec_detached(box, ["/hostile", "serve-neighbour", mark], user="0")
            lib.wait_for("the neighbour", lambda: b"serving" in cay.exec_output(box, exec_id), 30)
            made[runtime] = (box, mark)
        return made[runtime]
    return of


@pytest.fixture(scope="session")
def stranger(cay):
    """The same daemons, as another tenant asks them."""
    tenant = cay.call("POST", "/v1/tenants", {"name": "stranger"})["id"]
    made = cay.call("POST", "/v1/keys", {"tenant": tenant, "name": "stranger", "scope": "write"})
    return cay.edge(f"{tenant} write {made['key']['id']} -", made["secret"])


GUEST = bool(os.environ.get("CAY_GUEST"))
FORKS_MAX = 30  # of ours and of the kernel's own threads, beside what a mode says that it forked


class Row:
    """One case under the oracle."""

    def __init__(self, name, cays, canaries, runtime, priv, telltales):
        self.name, self.cay, self.runtime, self.priv = name, cays[0], runtime, priv
        self.failures, self.detail = [], ""
        self.forks = None  # of modes that say how many there are
        self.oracle = Oracle(canaries, [*WATCHED, str(BUILD / "src")],
                             skip=[str(path) for c in LIVE for path in (c.run, *c.logs.values())],
                             cgroups=[c.cgroup for c in cays],
                             daemons=lambda: {f"{n} of {c.name}": pid for c in cays for n, pid in c.pids().items()},
                             settle_s=SETTLE_S * lib.SLOW, telltales=Telltales(**telltales) if GUEST else None)

    def exec(self, box, argv, **fields):
        done = self.cay.exec(box, argv, **fields)
        self.oracle.saw(done.stdout, done.stderr)
        return done

    def hostile(self, box, *args, **fields):
        """Run a mode; what got through by its own account is a failure of the row."""
        fields.setdefault("user", PRIVS.get(self.priv, "0"))
        done = self.exec(box, ["/hostile", *args], **fields)
        lines = done.text.splitlines()
        through = [l for l in lines if re.search(r"\|(through|REACHABLE)\|", l)]
        self.check(done.exit_code == 0 and not through,
                   "; ".join(through[:8]) or f"{args[0]} ended {done.end}: {done.text[-200:]!r} {done.stderr[-200:]!r}")
        self.detail = lines[-1] if lines else "no output"
        said = re.search(r"^# (\d+) forks$", done.text, re.M)
        if said:
            self.forks = (self.forks or 0) + int(said[1])
        return done

    def count_processes(self):
        """On a kernel that is ours alone: nothing was started but what the mode says it forked."""
        if GUEST and self.forks is not None:
            spent = self.oracle.forked()
            self.check(spent <= self.forks + FORKS_MAX, f"{spent} processes were started, of which {self.forks} by the mode")
            self.detail += f", {spent} processes"

    def check(self, condition, text):
        if not condition:
            self.failures.append(text)


@pytest.fixture
def row(request, cay, canaries):
    """row(runtime, priv) as a context: looks before and after, prints, asserts.

    also: other daemons that take part; telltales: settings of theirs, in the guest."""
    name = re.sub(r"^test_|\[.*|_[a-z].*", "", request.node.name).replace("_", "-")

    def logs(cays):
        for c in cays:
            print(*(f"{n} of {c.name}:\n{c.said(n)}" for n in c.logs), sep="\n")

    @contextlib.contextmanager
    def run(runtime="-", priv="-", also=(), **telltales):
        r = Row(name, [cay, *also], canaries, runtime, priv, telltales)
        with contextlib.closing(r.oracle):
            with r.oracle:
                try:
                    yield r
                except BaseException:
                    logs([cay, *also])
                    raise
            r.count_processes()
            found = [f"{kind} {what}" for kind, what in r.oracle.verdicts()]
        kinds = sorted({f.split()[0] for f in found}) or (["THROUGH"] if r.failures else ["HELD"])
        detail = "; ".join([*found, *r.failures]) or r.detail
        if r.failures:
            logs([cay, *also])
        print(f"{name}|{runtime}|{priv}|{'+'.join(kinds)}|{detail[:600]}")
        assert not found and not r.failures, detail
    return run
