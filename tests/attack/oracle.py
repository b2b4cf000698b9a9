# SPDX-License-Identifier: Apache-2.0
"""The canary oracle: what an attack may never have done, as four verdicts

READ    a canary, planted where only the host may look, came out of the sandbox
WRITE   a watched tree of the host is not what it was: content, mode or owner
ESCAPE  a process, mount, cgroup, module or net device that nobody expected, or a program that
        the kernel started for the sandbox (a tell-tale's; only in the guest, whose kernel is ours)
CRASH   a daemon of ours is gone or another, or the kernel complained

A canary is 128 random bits.  It is looked for as it is planted (hex), as bytes
and as base64, so that an encoding on the way does not hide it.

The oracle sees this machine as the one who runs the tests does; in the build root
that is a pid and mount namespace of its own, so what others do does not matter.
What is left to tell apart is ours and the sandbox's: by cgroup and by descent.
"""
import base64
import ctypes
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time

READ, WRITE, ESCAPE, CRASH = "READ", "WRITE", "ESCAPE", "CRASH"
HASHED_MAX = 4 << 20
RECENT_NS = 1_000_000_000
SETTLE_S = 20.0  # what has gone is not waited for
# the machine's own coming and going: devices that anybody's losetup makes, and their names
NOISE = re.compile(r"/dev/(loop\d+|loop\d+p\d+|pts|shm|block|disk)")
# of the kernel; a program that faults has a line too, but with an "ip:" behind it,
# and so does a cgroup that is out of memory, with a call trace
OOPS = re.compile(r"\b(Oops|BUG:|KASAN|UBSAN|general protection fault[:,]|kernel BUG|Kernel panic)")


def read_text(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


class Canaries:
    """Planted secrets by name."""

    def __init__(self):
        self.by_name = {}
        self.files = []

    def make(self, name):
        """A canary that somebody else plants: an environment, another sandbox."""
        self.by_name[name] = secrets.token_hex(16)
        return self.by_name[name]

    def plant(self, name, path):
        """A file only its owner may read."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as f:
            f.write(self.make(name) + "\n")
        self.files.append(path)

    def remove(self):
        for path in self.files:
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        self.files = []

    def found_in(self, data):
        """Names of the canaries that data holds, in any of their forms."""
        if isinstance(data, str):
            data = data.encode(errors="surrogateescape")
        lower = data.lower()
        for name, text in self.by_name.items():
            raw = bytes.fromhex(text)
            forms = [raw, text[::-1].encode()]
            # base64 of text at any of the three alignments, without its ragged ends
            for shift in range(3):
                forms.append(base64.b64encode(b"\0" * shift + text.encode())[4:-4])
            if text.encode() in lower or any(f in data for f in forms):
                yield name


def tree(top, skip=()):
    """path -> what identifies it, for everything below top that is on its file system.

    What is mounted read-only cannot change; a remount shows among the mounts."""
    found = {}
    try:
        if os.statvfs(top).f_flag & os.ST_RDONLY:
            return found
        device = os.lstat(top).st_dev
    except OSError:
        return found
    skip = set(skip)
    pending = [top]
    while pending:
        try:
            entries = os.scandir(pending.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                path = entry.path
                if path in skip or NOISE.fullmatch(path):
                    continue
                try:
                    st = entry.stat(follow_symlinks=False)
                    found[path] = identity(path, st)
                except OSError:
                    continue
                if stat.S_ISDIR(st.st_mode) and st.st_dev == device:
                    pending.append(path)
    return found


# (device, inode, ctime, mtime, size) of a file -> digest.  Every write moves the ctime, which
# no system call sets, so a file is read again only when it may have changed.
DIGESTS = {}


def digest(path, st):
    key = st.st_dev, st.st_ino, st.st_ctime_ns, st.st_mtime_ns, st.st_size
    if key not in DIGESTS:
        with open(path, "rb") as f:
            data = hashlib.file_digest(f, "sha256").hexdigest()
        if time.time_ns() - st.st_ctime_ns < RECENT_NS:
            return data  # a second write within a tick of the clock would have the same ctime
        DIGESTS[key] = data
    return DIGESTS[key]


def identity(path, st):
    parts = [st.st_mode, st.st_uid, st.st_gid]
    if stat.S_ISLNK(st.st_mode):
        parts.append(os.readlink(path))
    elif stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode):
        parts.append(st.st_rdev)
    elif stat.S_ISREG(st.st_mode):
        parts.append(st.st_size)
        parts.append(digest(path, st) if st.st_size <= HASHED_MAX else st.st_mtime_ns)
    return tuple(parts)


KERNEL_THREAD = 0x00200000


def processes():
    """But the kernel's own threads: pid -> (start time, parent, cgroup of version 2, command)."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        line = read_text(f"/proc/{name}/stat")
        if ")" not in line:
            continue
        rest = line.rpartition(")")[2].split()
        if int(rest[6]) & KERNEL_THREAD:
            continue
        cgroup = re.search(r"^0::(.*)$", read_text(f"/proc/{name}/cgroup"), re.M)
        found[int(name)] = (int(rest[19]), int(rest[1]), cgroup[1] if cgroup else "", line.split("(")[1].split(")")[0])
    return found


def cgroups():
    """Every cgroup but those of tests, which belong to whoever runs them."""
    found = set()
    for line in read_text("/proc/self/mountinfo").splitlines():
        if " - cgroup" not in line:
            continue
        top = line.split()[4]
        for directory, dirs, _ in os.walk(top):
            if directory == top:
                dirs[:] = [d for d in dirs if not d.startswith("cay-test-")]
            found.add(directory)
    return found


def net_devices():
    return set(re.findall(r"^\s*(\S+):", read_text("/proc/net/dev"), re.M))


def kernel_log():
    """The tail of the kernel's log; needs root, and is empty without."""
    buf = ctypes.create_string_buffer(1 << 18)
    n = ctypes.CDLL(None).klogctl(3, buf, len(buf))
    return buf.raw[:max(n, 0)].decode(errors="replace")


def mounts():
    # the first two fields are ids
    return {line.split(" ", 2)[2] for line in read_text("/proc/self/mountinfo").splitlines()}


class Snapshot:
    def __init__(self, watched, skip):
        self.trees = {}
        for top in watched:
            self.trees.update(tree(top, skip))
        self.processes = processes()
        self.mounts = mounts()
        self.cgroups = cgroups()
        self.modules = set(re.findall(r"^(\S+)", read_text("/proc/modules"), re.M))
        self.net = net_devices()
        self.taint = read_text("/proc/sys/kernel/tainted").strip()
        self.log = kernel_log()


class Oracle:
    """One case: look before, hand over what came out, look after.

    watched   trees of the host; skip: what in them is expected to change
    cgroups   where sandboxes live ("/cay-test-x"): processes there are theirs
    daemons   a function that returns {name: pid} of our daemons
    telltales Telltales: what the kernel starts for the sandbox
    """

    def __init__(self, canaries, watched, skip=(), cgroups=(), daemons=dict, settle_s=SETTLE_S, telltales=None):
        self.canaries, self.watched, self.skip = canaries, list(watched), tuple(skip)
        self.cgroups, self.daemons, self.settle_s = tuple(cgroups), daemons, settle_s
        self.telltales, self.forks_before = telltales, 0
        self.output = []
        self.before = self.pids_before = None
        self.pause = threading.Event()  # never set: a wait that a debugger can end

    def __enter__(self):
        self.pids_before = {name: (pid, processes().get(pid, (0,))[0]) for name, pid in self.daemons().items()}
        self.before = Snapshot(self.watched, self.skip)
        if self.telltales:
            self.telltales.set()
        self.forks_before = forks()
        return self

    def __exit__(self, *_):
        return False

    def close(self):
        """After the verdicts: the host's own programs again."""
        if self.telltales:
            self.telltales.reset()

    def forked(self):
        """Processes that this machine started since the case began, also those that have ended."""
        return forks() - self.forks_before

    def saw(self, *outputs):
        """Bytes or text that came from the sandbox or from the API."""
        self.output += outputs

    def strangers(self, now):
        """New processes that are neither the sandbox's nor ours by descent."""
        ours = {os.getpid(), *(pid for pid, _ in self.pids_before.values())}
        for pid, (start, parent, cgroup, command) in now.items():
            was = self.before.processes.get(pid)
            if was and was[0] == start:
                continue
            if any((cgroup + "/").startswith(top + "/") for top in self.cgroups):
                continue
            above, steps = parent, 0
            while above not in ours and above in now and above > 1 and steps < 64:
                above, steps = now[above][1], steps + 1
            if above not in ours and pid not in ours:
                yield f"process {pid} ({command}) in {cgroup or '?'}"

    def unexpected(self):
        """(verdict, detail) of everything that is not as it was."""
        now = Snapshot(self.watched, self.skip)
        for path in sorted(self.before.trees.keys() | now.trees.keys()):
            if self.before.trees.get(path) != now.trees.get(path):
                how = "made" if path not in self.before.trees else "gone" if path not in now.trees else "changed"
                yield WRITE, f"{how}: {path}"
        for what in self.strangers(now.processes):
            yield ESCAPE, what
        for line in self.telltales.lines() if self.telltales else ():
            yield ESCAPE, f"the host ran {line}"
        for kind in ("mounts", "cgroups", "modules", "net"):
            for new in sorted(getattr(now, kind) - getattr(self.before, kind)):
                yield ESCAPE, f"{kind}: {new}"
        for name, (pid, start) in self.pids_before.items():
            if now.processes.get(pid, (None,))[0] != start:
                yield CRASH, f"{name} ({pid}) is gone"
        for name, pid in self.daemons().items():
            if pid != self.pids_before.get(name, (pid,))[0]:
                yield CRASH, f"{name} is another process now"
        if now.taint != self.before.taint:
            yield CRASH, f"kernel taint {self.before.taint} -> {now.taint}"
        news = now.log[len(os.path.commonprefix([self.before.log, now.log])):]
        for line in news.splitlines():
            if OOPS.search(line) and line not in self.before.log:
                yield CRASH, f"kernel: {line[:200]}"

    def verdicts(self):
        """What happened, once things had time to settle: [] is what we want."""
        found = [(READ, f"canary '{name}' came out") for data in self.output for name in self.canaries.found_in(data)]
        deadline = time.monotonic() + self.settle_s
        while True:
            late = list(self.unexpected())
            # a worker of ours may still be on its way out; nothing else goes away again
            if not any(kind == ESCAPE for kind, _ in late) or time.monotonic() > deadline:
                return sorted(set(found + late))
            self.pause.wait(0.05)


def forks():
    """Processes and threads that were ever started, also those that have ended."""
    return int(re.search(r"^processes (\d+)$", read_text("/proc/stat"), re.M)[1])


class Telltales:
    """Replace kernel.modprobe and core_pattern by a program that records its arguments."""

    SETTINGS = {"modprobe": "{}", "core_pattern": "|{} core %s"}

    def __init__(self, **settings):
        self.dir = tempfile.mkdtemp(prefix="cay-telltale-", dir="/dev/shm")
        self.log, program = os.path.join(self.dir, "log"), os.path.join(self.dir, "program")
        with open(program, "w") as f:
            f.write(f'#!/bin/sh\necho "$@" >>{self.log}\nexit 1\n')
        os.chmod(program, 0o755)
        self.values = {name: settings.get(name, text).format(program) for name, text in self.SETTINGS.items()}
        self.before = {}

    def set(self):
        for name, value in self.values.items():
            path = f"/proc/sys/kernel/{name}"
            self.before[path] = read_text(path)
            with open(path, "w") as f:
                f.write(value or "\n")

    def reset(self):
        for path, value in self.before.items():
            with open(path, "w") as f:
                f.write(value)
        shutil.rmtree(self.dir, ignore_errors=True)

    def lines(self):
        """What was run."""
        return read_text(self.log).splitlines()
