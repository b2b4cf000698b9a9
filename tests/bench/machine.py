# SPDX-License-Identifier: Apache-2.0
"""What a machine has: memory, kernel objects, and whatever a sandbox could leave behind

Counts are facts of the kernel, not of our daemons' records.  Other tests may run on
the same machine, so their cgroups (/cay-test-...) are not counted, and processes and
mounts are those of our own namespaces.
"""
import os
import pathlib

from cay import wait_for

PATIENCE_S = 30  # the kernel frees namespaces and cgroups when it likes
MEMORY = ("MemAvailable", "Slab", "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "Percpu", "AnonPages",
          "Shmem", "Cached")


def read(path):
    return pathlib.Path(path).read_text()


def slab():
    """KiB of each cache."""
    found = {}
    for line in read("/proc/slabinfo").splitlines()[2:]:
        word = line.split()
        pages_per, slabs = int(word[5]), int(word[14])
        found[word[0]] = slabs * pages_per * os.sysconf("SC_PAGE_SIZE") // 1024
    return found


def memory(drop=True):
    """KiB, without what the page cache only holds because nobody needed the room."""
    if drop:
        os.sync()
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    lines = (line.split() for line in read("/proc/meminfo").splitlines())
    found = {word[0].rstrip(":"): int(word[1]) for word in lines}
    return {**{key: found[key] for key in MEMORY}, "slab": slab()}


def slab_growth(before, after):
    grown = {name: kib - before["slab"].get(name, 0) for name, kib in after["slab"].items()}
    return sorted(grown.items(), key=lambda item: -item[1])


def pss(cay, ids):
    """Mean of PID 1 of those sandboxes, KiB."""
    found = []
    for box in ids:
        for pid in sorted(cay.processes(box))[:1]:
            found += [int(line.split()[1]) for line in read(f"/proc/{pid}/smaps_rollup").splitlines()
                      if line.startswith("Pss:")]
    return sum(found) / len(found)


def namespaces(kind):
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.add(os.stat(f"/proc/{pid}/ns/{kind}").st_ino)
        except OSError:  # it ended meanwhile
            pass
    return len(found)


def hierarchies():
    """Where cgroups are mounted, and a name for it."""
    for line in read("/proc/self/mountinfo").splitlines():
        if " - cgroup" in line:
            at = line.split()[4]
            yield at, os.path.basename(at)


def directories(top, skip=None):
    n = 0
    for at, below, _ in os.walk(top):
        if skip and at == top:
            below[:] = [name for name in below if not skip(name)]
        n += len(below)
    return n


def counts(cay):
    found = {"mounts": len(read("/proc/self/mountinfo").splitlines()),
             "processes": sum(map(str.isdigit, os.listdir("/proc"))),
             "boxes": len(os.listdir(cay.state / "boxes")), "ranges": len(os.listdir(cay.state / "ranges")),
             "sockets": len(os.listdir(cay.run / "box")) - 1}  # the keeper's own
    for kind in ("net", "mnt", "user", "pid"):
        found[kind + " namespaces"] = namespaces(kind)
    for at, name in hierarchies():
        found[f"cgroups of {name}, ours"] = directories(at + cay.cgroup)
        found[f"cgroups of {name}, others"] = directories(at, lambda d: d.startswith("cay-test-"))
    for name, pid in cay.pids().items():
        found[f"fds of {name}"] = len(os.listdir(f"/proc/{pid}/fd"))
    return found


def settled_memory(cay):
    """KiB of anonymous memory of each daemon, when it has had time to forget."""
    def now():
        return {name: int(read(f"/proc/{pid}/status").split("RssAnon:")[1].split()[0]) for name, pid in cay.pids().items()}

    def forgotten():
        return not cay.call("GET", "/v1/sandboxes?limit=1")["sandboxes"]
    wait_for("ended ones to be forgotten", forgotten, PATIENCE_S)
    return now()


def settled_counts(cay):
    """The same twice in a row: what came before has gone."""
    last = [None]

    def same():
        now = counts(cay)
        last[0], before = now, last[0]
        return before == now
    wait_for("counts to settle", same, PATIENCE_S)
    return last[0]


def left_over(cay, before):
    """What there is more (or less) of than before, once it had time to go."""
    found = {}

    def gone():
        now = counts(cay)
        found.clear()
        found.update({key: now[key] - before[key] for key in before if now[key] != before[key]})
        return not found
    try:
        wait_for("nothing left", gone, PATIENCE_S)
    except TimeoutError:
        pass
    return found
