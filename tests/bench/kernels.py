#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/kernels.py BUILD [GROUP...] - kernels through an edge, against those of Jupyter in the same image

`make bench-kernels` makes that image (tests/bench/jupyter).  Both sides are sandboxes of it: in one jupyter-side.py
drives ipykernel or IRkernel with jupyter_client and no edge, in the other are kernels of ours.  They take turns.

    kernel_python  kernel_start: kernel.create of python; kernel_rtt: `1+1` in it
    kernel_r       r_start and r_rtt: the same of R
    kernel_warm    kernel_start_warm: kernel.create in a sandbox that keeps a Python loaded; kernel_memory: the tenth kernel
                   there, and kernel_memory_modules where numpy, pandas and matplotlib are loaded too
    kernel_first   `1+1` in a sandbox from a pool, the first thing that happens in it, against a command in a new shell
"""
import contextlib
import json
import pathlib
import re
import statistics
import sys
import time

from sandbox import FULL, ms, say
from cay import ApiError, layout_of, let_pass, wait_for
from world import World

LAYOUT = pathlib.Path("build/images/jupyter")
SIDE = pathlib.Path(__file__).with_name("jupyter-side.py")
ROUNDS, RUNS = (20, 100) if FULL else (7, 40)
MODULES = ["numpy", "pandas", "matplotlib.pyplot"]


class Kernels:
    def __init__(self, world):
        self.world, self.me = world, world.door()
        self.connection, self.says = self.me.connection(120), {**self.me.says(), "Content-Type": "application/json"}
        with layout_of(LAYOUT) as tar:
            world.image_import("jupyter", tar)
        self.box, self.other = self.sandbox(), self.sandbox()
        self.me.open("PUT", f"/v1/sandboxes/{self.other}/files/content?path=/tmp/side.py", SIDE.read_bytes()).read()

    def sandbox(self, **fields):
        return self.me.create("jupyter", limits={"memory_bytes": "2Gi"}, **fields)

    def call(self, method, target, body=None):
        """By the connection that is kept; the reply and how long it took, ns."""
        data = None if body is None else json.dumps(body)
        begin = time.monotonic_ns()
        self.connection.request(method, target, data, self.says)
        reply = self.connection.getresponse()
        text = reply.read()
        took = time.monotonic_ns() - begin
        if reply.status not in (200, 201):
            raise RuntimeError(f"{method} {target}: {text[:400]}")
        return json.loads(text), took

    def start(self, box, language):
        kernel, took = self.call("POST", f"/v1/sandboxes/{box}/kernels", {"language": language})
        return f"/v1/sandboxes/{box}/kernels/{kernel['id']}", took

    def run(self, kernel):
        run, took = self.call("POST", kernel + "/runs", {"code": "1+1"})
        if run["results"][0]["data"]["text/plain"] not in ("2", "[1] 2"):
            raise RuntimeError(f"1+1 is {run}")
        return took

    def fork(self, box):
        """A python kernel that comes from the Python that the sandbox keeps loaded, once that is so far."""
        while True:
            kernel, took = self.start(box, "python")
            if self.call("GET", kernel)[0].get("forked"):
                return kernel, took
            self.call("DELETE", kernel)

    def pss_kib(self, box, kernel):
        inside = self.call("GET", kernel)[0]["pid"]
        for pid in self.world.processes(box):
            if re.search(rf"^NSpid:\t\d+.*\t{inside}$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M):
                return int(re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
        raise RuntimeError(f"{kernel} has no process {inside}")

    def at_rest(self, n):
        """Whether n Pythons that are kept loaded take no CPU time any more."""
        def ticks():
            found = []
            for pid in self.world.processes():
                with contextlib.suppress(OSError):  # it has ended
                    if "--parent" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                        if words[3] == str(pid):  # not what it has forked ahead
                            found.append(sum(map(int, words[11:13])))
            return sorted(found)
        before = ticks()
        let_pass(0.3)
        return sum(used > 0 for used in before) >= n and before == ticks()

    def jupyter(self, language, runs, *code):
        done = self.me.exec(self.other, ["python3", "/tmp/side.py", language, str(runs), *code], 300)
        if done.exit_code != 0:
            raise RuntimeError(f"jupyter-side.py: {done.stderr.decode()[-2000:]}")
        return json.loads(done.stdout)


def row(name, ours, theirs, baseline, note):
    say(name=name, unit="ms", n=len(ours), **{f"p{p}": ms(ours, p) for p in (50, 95, 99)},
        baseline={"name": baseline, "p50": ms(theirs), "p99": ms(theirs, 99)}, note=note)


def measure(k, language):
    starts, runs, their_starts, their_runs = [], [], [], []
    for i in range(ROUNDS + 1):
        theirs = k.jupyter(language, RUNS)
        kernel, took = k.start(k.box, language)
        k.run(kernel)
        mine = [k.run(kernel) for _ in range(RUNS)]
        k.call("DELETE", kernel)
        if i:  # the first one warms the page cache up
            starts.append(took)
            their_starts.append(theirs["start_ns"])
            runs += mine
            their_runs += theirs["rtt_ns"]
    return starts, runs, their_starts, their_runs


def kernel_python(k):
    starts, runs, their_starts, their_runs = measure(k, "python")
    row("kernel_start", starts, their_starts, "ipykernel, until its channels answer", "kernel.create through an edge; goal ratio 0.6")
    row("kernel_rtt", runs, their_runs, "ipykernel by jupyter_client", "1+1 through an edge by a connection that is kept; goal ratio 0.3")


def kernel_r(k):
    starts, runs, their_starts, their_runs = measure(k, "r")
    row("r_start", starts, their_starts, "IRkernel, until its channels answer", "kernel.create through an edge; goal ratio 0.3")
    row("r_rtt", runs, their_runs, "IRkernel by jupyter_client", "1+1 through an edge by a connection that is kept; goal ratio 0.35")


def kernel_warm(k):
    box = k.sandbox(kernels=[{"language": "python"}])
    k.call("DELETE", k.fork(box)[0])
    starts, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(k.jupyter("python", 0)["start_ns"])
        for _ in range(10):
            kernel, took = k.fork(box)
            starts.append(took)
            k.call("DELETE", kernel)
    row("kernel_start_warm", starts, theirs, "ipykernel, until its channels answer",
        "kernel.create through an edge, forked from a Python that the sandbox keeps loaded; goal ratio 0.03")
    memory(k, "kernel_memory", box, "", "goal ratio 0.2")
    k.me.delete(box)
    box = k.sandbox(kernels=[{"language": "python", "modules": MODULES}])
    memory(k, "kernel_memory_modules", box, f"import {', '.join(MODULES)}", f"with {', '.join(MODULES)} on both sides")
    k.me.delete(box)


def memory(k, name, box, code, note):
    """Of the tenth kernel, after a run."""
    theirs = statistics.median(k.jupyter("python", 1, *filter(None, [code]))["pss_kib"] for _ in range(3))
    kernels = [k.fork(box)[0] for _ in range(10)]
    for kernel in kernels:
        k.run(kernel)
    ours = k.pss_kib(box, kernels[-1])
    for kernel in kernels:
        k.call("DELETE", kernel)
    say(name=name, unit="KiB", n=1, value=ours, baseline={"name": "an ipykernel", "value": theirs},
        note=f"proportional memory (PSS) of the tenth kernel after 1+1; {note}")


def kernel_first(k):
    template = k.call("POST", "/v1/templates", {"name": "first", "defaults": {
        "image": "jupyter", "kernels": [{"language": "python"}], "limits": {"memory_bytes": "1Gi"}}})[0]["id"]
    ours, shells, open_shells, forked = [], [], [], 0
    for _ in range(ROUNDS):
        k.call("POST", f"/v1/templates/{template}/pool", {"min": 4, "max": 4})  # so that it does not fill again before the end
        wait_for("the pool to fill", lambda: k.call("GET", f"/v1/templates/{template}")[0]["pool_now"]["warm"] >= 4, 120)
        wait_for("the Pythons to be loaded", lambda: k.at_rest(4), 60)
        boxes = [k.call("POST", "/v1/sandboxes", {"template": "first"})[0]["id"] for _ in range(4)]
        for i, box in enumerate(boxes):
            if i % 2:
                kernel, opened = k.start(box, "python")
                ours.append(opened + k.run(kernel))
                forked += k.call("GET", kernel)[0].get("forked", False)
            else:
                shell, opened = k.call("POST", f"/v1/sandboxes/{box}/shells", {})
                at = f"/v1/sandboxes/{box}/shells/{shell['id']}/runs"
                shells.append(opened + k.call("POST", at, {"command": "echo 2"})[1])
                open_shells.append(k.call("POST", at, {"command": "echo 2"})[1])
        k.call("POST", f"/v1/templates/{template}/pool", {"min": 0})
        for box in boxes:
            k.call("DELETE", f"/v1/sandboxes/{box}")
    row("kernel_first", ours, shells, "shell.create and a run of `echo 2`, in another one",
        f"kernel.create and 1+1, first in a sandbox from a pool, {forked} of {len(ours)} forked; a run in the open shell {ms(open_shells)} ms; goal ratio 3")


def keeps_loaded(k):
    """Whether this build has `kernels` in sandbox.create, which the last two groups are about."""
    try:
        k.me.delete(k.sandbox(kernels=[{"language": "python"}]))
    except ApiError as e:
        if e.status != 400:
            raise
        return False
    return True


GROUPS = {f.__name__: f for f in (kernel_python, kernel_r, kernel_warm, kernel_first)}

if __name__ == "__main__":
    if not (LAYOUT / "index.json").exists():
        sys.exit(f"there is no {LAYOUT}: make bench-kernels makes it")
    build, names = sys.argv[1], sys.argv[2:] or list(GROUPS)
    with World(build) as world:
        kernels = Kernels(world)
        for name in names:
            if name in ("kernel_warm", "kernel_first") and not keeps_loaded(kernels):
                print(f"{name}: this build keeps no interpreter loaded", file=sys.stderr)
                continue
            GROUPS[name](kernels)
