#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/browser.py BUILD [GROUP...] - the screen and the browser of a sandbox through an edge

`make bench-screen` makes the image (tests/bench/screen): `desktop` with xdotool and scrot, which run in the sandbox.  Playwright runs on
this machine, through an edge or straight to the port in the sandbox's network namespace.

    screen_acts      act_click, shot_png and type_500, against a process of xdotool or scrot
    page_snapshots   size and time of a snapshot of three pages, against Playwright's for models
    page_steps       twenty steps of Playwright, through the edge against straight
"""
import json
import os
import pathlib
import subprocess
import sys
import time

from sandbox import FULL, ms, say
from cay import layout_of
from world import World

LAYOUT = pathlib.Path("build/images/screen")
ROUNDS = 40 if FULL else 15
PLAYWRIGHT = pathlib.Path(__file__).with_name("playwright-side.js")
FORM = "<title>Form</title><form>" + "".join(f"<p><label>Field number {i} <input name=f{i} value='v{i}'></label></p>" for i in range(40)) + "<button>Send</button></form>"
NEWS = "<title>News</title><main>" + "".join(
    f"<article><h2><a href='/a{i}'>A headline about thing number {i} that happened</a></h2><p>By <a href='/w{i}'>Writer {i}</a>, {i} hours ago. "
    f"A sentence that says what the article is about, and another one with <b>some</b> weight.</p><a href='/c{i}'>{i * 3} comments</a></article>" for i in range(30)) + "</main>"
SERVE = """
import http.server, sys
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), lambda *a: H(*a, directory="/workspace")).serve_forever()
"""


class Desk:
    def __init__(self, world, build):
        self.world, self.me = world, world.door()
        self.connection, self.says = self.me.connection(120), {**self.me.says(), "Content-Type": "application/json"}
        with layout_of(LAYOUT) as tar:
            world.image_import("screen", tar)
        self.box = self.me.create("screen", limits={"memory_bytes": "2Gi", "cpu_milli": "2000m", "shm_bytes": "256Mi"})
        self.at = f"/v1/sandboxes/{self.box}"
        docs = self.me.open("GET", "/docs").read()
        for name, text in (("form.html", FORM.encode()), ("news.html", NEWS.encode()), ("docs.html", docs)):
            self.me.open("PUT", f"{self.at}/files/content?path=/workspace/{name}", text).read()
        self.me.exec_detached(self.box, ["python3", "-c", SERVE])
        self.call("GET", f"{self.at}/ports/8000?wait_ms=10000")
        self.call("GET", f"{self.at}/screen")

    def call(self, method, target, body=None):
        """By the connection that is kept; the reply and how long it took, ns."""
        begin = time.monotonic_ns()
        self.connection.request(method, target, None if body is None else json.dumps(body), self.says)
        reply = self.connection.getresponse()
        data = reply.read()
        took = time.monotonic_ns() - begin
        if reply.status != 200:
            raise RuntimeError(f"{method} {target}: {data[:400]}")
        return data, took

    def inside(self, script, times):
        """Of a program in the sandbox, each run a process; ns."""
        timed = ("import subprocess, time, sys\nfor _ in range(int(sys.argv[1])):\n    a = time.monotonic_ns()\n"
                 "    subprocess.run(sys.argv[2:], check=True)\n    print(time.monotonic_ns() - a)")
        done = self.me.exec(self.box, ["python3", "-c", timed, str(times), *script], 300)
        if done.exit_code:
            raise RuntimeError(done.stderr.decode()[-500:])
        return [int(l) for l in done.stdout.split()]

    def act(self, *actions):
        return self.call("POST", self.at + "/screen/actions", {"actions": list(actions)})[1]

    def browse(self, *actions, **fields):
        data, took = self.call("POST", self.at + "/browser/actions", {"actions": list(actions), **fields})
        done = json.loads(data)
        if done["done"] != len(actions):
            raise RuntimeError(done)
        return done, took

    def playwright(self, url, what, *words, straight=False):
        command = ["node", str(PLAYWRIGHT), url, self.world.operator_key(), what, *words]
        if straight:
            pid = min(self.world.processes(self.box))
            command = ["nsenter", "--net", "--target", str(pid), *command]
        run = subprocess.run(command, env={**os.environ, "NODE_PATH": "/opt/npm/node_modules"}, capture_output=True, text=True, timeout=300)
        if run.returncode:
            raise RuntimeError(run.stderr[-2000:])
        return json.loads(run.stdout)

    def edge_url(self):
        return f"ws://127.0.0.1:{self.world.port}{self.at}/browser/cdp"


def row(name, ours, theirs, baseline, note):
    say(name=name, unit="ms", n=len(ours), **{f"p{p}": ms(ours, p) for p in (50, 95, 99)},
        baseline={"name": baseline, "p50": ms(theirs), "p99": ms(theirs, 99)}, note=note)


def screen_acts(d):
    click = [d.act({"type": "click", "x": 300, "y": 300}) for _ in range(ROUNDS + 1)][1:]
    row("act_click", click, d.inside(["xdotool", "mousemove", "300", "300", "click", "1"], ROUNDS), "a process of xdotool in the sandbox",
        "screen.act with a click, through an edge; goal ratio 0.03")
    shot = [d.call("GET", d.at + "/screen/shot")[1] for _ in range(ROUNDS)]
    row("shot_png", shot, d.inside(["scrot", "-o", "/tmp/shot.png"], ROUNDS), "a process of scrot in the sandbox", "screen.shot, through an edge; goal ratio 0.3")
    text = "The quick brown fox. " * 24
    d.browse({"type": "navigate", "url": "http://127.0.0.1:8000/form.html"}, {"type": "click", "selector": "input"})
    typed = [d.act({"type": "type", "text": text[:500]}) for _ in range(3)]
    row("type_500", typed, d.inside(["xdotool", "type", text[:500]], 2), "xdotool type in the sandbox", "screen.act with 500 characters, through an edge; goal ratio 0.03")


def page_snapshots(d):
    for name, goal in (("form", 0.45), ("news", 0.45), ("docs", 0.45)):
        d.browse({"type": "navigate", "url": f"http://127.0.0.1:8000/{name}.html"}, timeout_ms=100000)
        ours = [d.call("GET", d.at + "/browser/snapshot") for _ in range(ROUNDS + 1)][1:]
        whole = json.loads(d.call("GET", d.at + "/browser/snapshot?filter=all&max_chars=200000")[0])
        theirs = d.playwright(d.edge_url(), "snapshot", f"{name}.html", str(ROUNDS))
        mine = len(json.loads(ours[0][0])["text"])
        say(name=f"page_{name}_chars", unit="chars", n=1, value=mine, baseline={"name": "Playwright's aria snapshot for models", "value": theirs["chars"]},
            note=f"browser.snapshot of what is in view; the whole page: {len(whole['text'])}{' and more' if whole.get('left') else ''}; goal ratio {goal}")
        row(f"page_{name}_time", [t for _, t in ours], theirs["ns"], "the same, its connection kept", "browser.snapshot through an edge, connecting each time; goal ratio 0.3")


def page_steps(d):
    info = json.loads(d.call("GET", d.at + "/browser")[0])
    straight = f"http://127.0.0.1:{info['port']}"
    ours, theirs = [], []
    for _ in range(5):
        ours += d.playwright(d.edge_url(), "steps")["ns"]
        theirs += d.playwright(straight, "steps", straight=True)["ns"]
    row("page_steps", ours, theirs, "Playwright in the sandbox's network namespace", "twenty steps of Playwright through an edge; goal ratio 1.2")


GROUPS = {f.__name__: f for f in (screen_acts, page_snapshots, page_steps)}

if __name__ == "__main__":
    if not (LAYOUT / "index.json").exists():
        sys.exit(f"there is no {LAYOUT}: make bench-screen makes it")
    with World(sys.argv[1]) as world:
        desk = Desk(world, sys.argv[1])
        desk.browse({"type": "navigate", "url": "http://127.0.0.1:8000/form.html"})
        for group in sys.argv[2:] or list(GROUPS):
            GROUPS[group](desk)
