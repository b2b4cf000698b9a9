# SPDX-License-Identifier: Apache-2.0
"""storm - a node on a fifth of a core, and more requests than that can do

The whole node (edge, cayd, keeper, its workers and sandboxes) is in one cgroup with a
quota; the clients are not.  The kernel hands a quota out by periods and stops whoever has
used it up until the next: with the usual 100 ms a program with a fifth of a core may stand
still for 80 ms, whatever it does.  Here a period is 10 ms, so that what is measured is the
program's time and at most 8 ms of the kernel's.
"""
import contextlib
import json
import os
import pathlib
import resource
import subprocess

import world

CREATE = '{"image":"tiny","ttl_ms":4000,"wait":true,"limits":{"cpu_milli":200}}'


def cpu_hierarchy():
    """Where cgroup's cpu controller is, and its files' form."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        at, kind = line.split()[4], line.split(" - ")[1].split()[0]
        if kind == "cgroup" and "cpu" in line.split(" - ")[1].split()[2].split(","):
            return pathlib.Path(at), 1
        if kind == "cgroup2" and "cpu" in pathlib.Path(at, "cgroup.controllers").read_text().split():
            return pathlib.Path(at), 2
    raise RuntimeError("no cpu controller")


class Squeezed(world.World):
    """Everything of it has a quota, once squeeze() was called."""

    def squeeze(self, cores=0.2, period_us=10000):
        cpu = {max(os.sched_getaffinity(0))}  # one: the kernel hands a quota out to CPUs in large pieces
        for pid in self.pids().values():
            for task in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(ProcessLookupError):  # threads come and go
                    os.sched_setaffinity(int(task), cpu)
        top, version = cpu_hierarchy()
        at = top / self.cgroup.strip("/")
        if version == 1:
            at.mkdir(exist_ok=True)
            (at / "cpu.cfs_period_us").write_text(str(period_us))
            (at / "cpu.cfs_quota_us").write_text(str(int(cores * period_us)))
            for pid in self.pids().values():
                (at / "cgroup.procs").write_text(str(pid))
        else:  # those with children hold no processes
            (top / "cgroup.subtree_control").write_text("+cpu")
            (at / "cpu.max").write_text(f"{int(cores * period_us)} {period_us}")
            inner = at / "daemons"
            inner.mkdir(exist_ok=True)
            for pid in self.pids().values():
                (inner / "cgroup.procs").write_text(str(pid))

    def tenants(self, n):
        """A key each of n new tenants."""
        ids = [self.call("POST", "/v1/tenants", {"name": f"t{i}"})["id"] for i in range(n)]
        return [self.new_key(tenant=t) for t in ids]

    def memory_kib(self):
        def rss(pid):
            with open(f"/proc/{pid}/status") as f:
                return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        return {name: rss(pid) for name, pid in self.pids().items()}


def crowd(rate, key, method="GET", target="/v1/sandboxes", body="", retries=0):
    return f"{max(1, int(rate * 1000))} {retries} {method} {target} {key} {body}".strip()


def creators(rate, key, retries=0):
    return crowd(rate, key, "POST", "/v1/sandboxes", CREATE, retries)


@contextlib.contextmanager
def raging(build, port, crowds, seconds, warm=2, conns=2000, timeout_ms=5000):
    """While it goes on; what came of each crowd is in the list at the end."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    command = [pathlib.Path(build).resolve() / "tests/bench/storm", *map(str, (port, seconds, warm, conns, timeout_ms))]
    rows = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))) as p:
        p.stdin.write("\n".join(crowds) + "\n")
        p.stdin.close()
        try:
            yield rows
            rows += [json.loads(line) for line in p.stdout]
        finally:
            if p.poll() is None and not rows:
                p.kill()
    if p.returncode != 0:
        raise RuntimeError(f"storm ended with {p.returncode}")


def storm(*args, **more):
    with raging(*args, **more) as rows:
        pass
    return rows


def total(rows, key):
    return sum(row[key] for row in rows)
