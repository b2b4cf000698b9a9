# SPDX-License-Identifier: Apache-2.0
"""fake - a daemon for the command line to talk to: HTTP over a unix socket, TCP or TLS

It speaks the operations of src/lib/ops/ops.def, keeps sandboxes in a dictionary and
runs execs as processes of this machine.  `say` makes it misbehave: a map from
(method, path) to bytes, or to a function of the connection, for which `now` has the
request's headers and query.  `cut` ends every
stream of frames after so many bytes, so that the client has to come back; `hold`
is an event that exec.run waits for before it answers.  happen() is an event of
event.list, findings what fsck finds.
"""
import contextlib
import json
import os
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading
import urllib.parse

FRAMES = "application/vnd.cay.frames"
DATA, GAP, END, ERROR = 1, 2, 3, 4
REASONS = {400: "Bad Request", 404: "Not Found", 409: "Conflict", 413: "Too Large"}
OVER = ("terminated", "failed")
LIMITS = {"memory_bytes": 536870912, "cpu_milli": 1000, "pids": 1024, "nofile": 4096, "shm_bytes": 64 << 20,
          "output_bytes": 16 << 20}


def new_id(noun):
    return noun + "".join(random.choices("0123456789abcdefghjkmnpqrstvwxyz", k=24))


def frame(kind, stream, offset, content):
    return struct.pack("<BBHIQ", kind, stream, 0, len(content), offset) + content


def end_frame(**end):
    return frame(END, 0, 0, json.dumps(end).encode())


def head(status, media, length=None, extra=()):
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'OK')}", f"Content-Type: {media}", *extra]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def reply(status, body):
    text = json.dumps(body).encode()
    return head(status, "application/json", len(text)) + text


def failure(status, code, message, hint="a hint", **more):
    return reply(status, {"error": {"code": code, "message": message, "hint": hint, "retryable": False, **more}})


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Exec:
    """A process, all it wrote so far, and who waits for more of it."""

    def __init__(self, request):
        self.id, self.request, self.end, self.expired = new_id("ex"), request, None, False
        self.out = {1: bytearray(), 2: bytearray()}
        self.change = threading.Condition()
        self.process = subprocess.Popen(
            request["argv"], stdin=subprocess.PIPE if request.get("stdin_open") else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True,
            env={**os.environ, **request.get("env", {})})
        self.readers = [threading.Thread(target=self.read, args=a, daemon=True)
                        for a in ((1, self.process.stdout), (2, self.process.stderr))]
        for t in self.readers + [threading.Thread(target=self.wait, daemon=True)]:
            t.start()
        if request.get("timeout_ms"):
            self.timer = threading.Timer(request["timeout_ms"] / 1000, self.expire)
            self.timer.daemon = True
            self.timer.start()

    def expire(self):
        self.expired = True
        self.kill(signal.SIGKILL)

    def kill(self, number):
        # wait() may have reaped it, and not have said so yet
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def read(self, stream, pipe):
        while data := pipe.read(65536):
            with self.change:
                self.out[stream] += data
                self.change.notify_all()
                # a full ring stops reading the pipe
                self.change.wait_for(lambda: len(self.out[stream]) - self.taken(stream) < 1 << 20, timeout=60)

    def taken(self, stream):
        return getattr(self, f"taken{stream}", 0)

    def wait(self):
        code = self.process.wait()
        for t in self.readers:
            t.join()
        with self.change:
            if self.expired:
                self.end = {"reason": "timeout", "signal": "SIGKILL"}
            elif code < 0:
                self.end = {"reason": "signal", "signal": signal.Signals(-code).name}
            else:
                self.end = {"reason": "exit", "exit_code": code}
            self.change.notify_all()

    def json(self):
        return {"id": self.id, "state": "ended" if self.end else "running", "started_at": "2026-11-15T01:50:43.123Z"}

    def now(self, at):
        """Frames of what there is."""
        for s, o in at.items():
            if data := bytes(self.out[s][o:]):
                yield frame(DATA, s, o, data)

    def frames(self, at):
        """Frames of the streams in `at` (stream: offset) until the end."""
        while True:
            with self.change:
                self.change.wait_for(lambda: self.end or any(len(self.out[s]) > o for s, o in at.items()))
                new = {s: bytes(self.out[s][o:o + 50000]) for s, o in at.items()}
                over = self.end and all(len(self.out[s]) == o for s, o in at.items())
            if over:
                yield end_frame(**self.end)
                return
            for s, data in new.items():
                if data:
                    yield frame(DATA, s, at[s], data)
                    at[s] += len(data)
                    with self.change:
                        setattr(self, f"taken{s}", at[s])
                        self.change.notify_all()


class Fake:
    def __init__(self, path=None, tls=None):
        """path: of a unix socket; without one it listens at a TCP port, with tls (an SSLContext) under it."""
        self.path, self.tls, self.heads, self.now = str(path), tls, [], threading.local()
        self.say, self.cut, self.hold, self.requests = {}, 0, None, []
        self.sandboxes, self.execs, self.images, self.page = {}, {}, {}, 2
        self.imported = None
        self.keys, self.secrets, self.overlap = {}, [], None
        self.tenants = [{"id": new_id("tn"), "name": n, "created_at": "2026-11-15T01:50:43.123Z"} for n in ("default", "a", "b")]
        self.findings, self.events, self.happened = [], [], threading.Condition()
        self.listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
        self.listener.bind(self.path if path else ("127.0.0.1", 0))
        self.listener.listen(16)
        self.port = None if path else self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def stop(self):
        with contextlib.suppress(OSError):  # stopped already
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone does not
        self.listener.close()
        for e in self.execs.values():
            if e.process.poll() is None:
                e.kill(signal.SIGKILL)

    def serve(self):
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(c,), daemon=True).start()

    def one(self, c):
        # a client that does not like our certificate, or that is gone
        with c, contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            if self.tls:
                c = self.tls.wrap_socket(c, server_side=True)
            with c, c.makefile("rb") as f:
                self.answer(c, f)

    def answer(self, c, f):
        line = f.readline().decode()
        if not line:
            return
        method, target, _ = line.split()
        headers = {}
        while (h := f.readline().decode().rstrip("\r\n")):
            name, _, value = h.partition(":")
            headers[name.lower()] = value.strip()
        path, _, query = target.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        said = self.say.get((method, path)) or self.say.get((method, re.sub(r"/(sb|ex|im)\w{24}\b", "/*", path)))
        self.requests.append((method, path, query))
        self.heads.append(headers)
        self.now.headers, self.now.query = headers, query  # of this connection, whoever else comes meanwhile
        if callable(said):
            said(c, f)
        elif said is not None:
            c.sendall(said)
        else:
            self.route(c, f, method, path, query, headers)

    def body(self, f, headers):
        """Pieces of a request's body."""
        if headers.get("transfer-encoding") == "chunked":
            while (n := int(f.readline() or b"0", 16)):  # or who sends it has left
                yield f.read(n)
                f.readline()
            f.readline()
        else:
            left = int(headers.get("content-length", 0))
            while left and (data := f.read(min(left, 65536))):
                left -= len(data)
                yield data

    def route(self, c, f, method, path, query, headers):
        parts = path.strip("/").split("/")[1:]
        name = "_".join([method.lower()] + ["id" if i % 2 else p for i, p in enumerate(parts)])
        handler = getattr(self, name.replace(".", "_"), None)
        if not handler:
            c.sendall(failure(404, "not_found", "no such endpoint"))
            return
        handler(c, f, parts, query, headers)

    def get_health(self, c, *_):
        c.sendall(reply(200, {"status": "ok", "version": "0.1.0", "runtimes": ["crun"]}))

    def list(self, c, key, rows, query):
        at = int(query.get("cursor", 0))
        page = {key: rows[at:at + self.page]}
        if at + self.page < len(rows):
            page["next_cursor"] = str(at + self.page)
        c.sendall(reply(200, page))

    def wanted(self, box, query):
        state, (key, _, value) = query.get("state"), query.get("label", "").partition("=")
        labels = box.get("labels", {})
        return ((not state or box["state"] == state or (state == "live" and box["state"] not in OVER)) and
                all(box.get(k) == query[k] for k in ("group", "name") if k in query) and
                (not key or (key in labels and (not value or labels[key] == value))))

    def get_sandboxes(self, c, f, parts, query, headers):
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", query.get("name", "x")):
            c.sendall(failure(400, "invalid_argument", "not a name", field="name"))
            return
        self.list(c, "sandboxes", [b for b in self.sandboxes.values() if self.wanted(b, query)], query)

    def get_sandboxes_id(self, c, f, parts, query, headers):
        box = self.sandboxes.get(parts[1])
        c.sendall(reply(200, box) if box else failure(404, "not_found", "no such sandbox"))

    def delete_sandboxes(self, c, f, parts, query, headers):
        boxes = [b for b in self.sandboxes.values() if b.get("group") == query["group"] and b["state"] not in OVER]
        for b in boxes:
            b["state"] = "ending"
        c.sendall(reply(200, {"sandboxes": boxes}))

    def change(self, c, parts, **change):
        box = self.sandboxes.get(parts[1])
        if box:
            box.update(change)
        c.sendall(reply(200, box) if box else failure(404, "not_found", "no such sandbox"))

    def post_sandboxes_id_pause(self, c, f, parts, query, headers):
        self.change(c, parts, state="paused")

    def post_sandboxes_id_resume(self, c, f, parts, query, headers):
        self.change(c, parts, state="running")

    def post_sandboxes_id_stop(self, c, f, parts, query, headers):
        self.change(c, parts, state="stopped")

    def post_sandboxes_id_start(self, c, f, parts, query, headers):
        self.change(c, parts, state="running")

    def post_sandboxes_id_extend(self, c, f, parts, query, headers):
        self.extended = json.loads(b"".join(self.body(f, headers)))
        self.change(c, parts, expires_at="2099-01-02T03:04:05.678Z")

    def post_sandboxes_id_hold(self, c, f, parts, query, headers):
        self.held = json.loads(b"".join(self.body(f, headers)))
        self.change(c, parts, held_until="2099-01-02T03:04:05.678Z")

    def post_sandboxes_id_limits(self, c, f, parts, query, headers):
        self.limits = json.loads(b"".join(self.body(f, headers)))
        self.change(c, parts, limits={**self.sandboxes[parts[1]].get("limits", {}), **self.limits})

    def get_sandboxes_id_usage(self, c, f, parts, query, headers):
        c.sendall(reply(200, {"memory_bytes": 5 << 20, "memory_peak_bytes": 3 << 30, "oom_kills": 2, "cpu_ms": 61250,
                              "throttled_ms": 0, "processes": 3, "disk_bytes": 7 << 20, "disk_inodes": 9}))

    def post_sandboxes_id_labels(self, c, f, parts, query, headers):
        self.patch = json.loads(b"".join(self.body(f, headers)))["labels"]
        labels = {**self.sandboxes[parts[1]].get("labels", {}), **self.patch}
        self.change(c, parts, labels={k: v for k, v in labels.items() if v is not None})

    def get_fsck(self, c, f, parts, query, headers):
        c.sendall(reply(200, {"checked": len(self.sandboxes), "findings": self.findings}))

    def post_fsck(self, c, f, parts, query, headers):
        c.sendall(reply(200, {"checked": len(self.sandboxes), "findings": [
            {**row, "repaired": row["kind"] != "foreign"} for row in self.findings]}))
        self.findings = [row for row in self.findings if row["kind"] == "foreign"]

    def happen(self, box, state, **more):
        with self.happened:
            self.events.append({"seq": len(self.events) + 1, "at": "2026-11-15T01:50:43.123Z", "sandbox": box["id"],
                                "state": state, **({"group": box["group"]} if "group" in box else {}), **more})
            self.happened.notify_all()

    def get_events(self, c, f, parts, query, headers):
        def rows(after):
            return [e for e in self.events if e["seq"] > after and
                    all(e.get(k) == query[k] for k in ("group", "sandbox") if k in query)]
        after, sent = int(query.get("after", 0)), 0
        if query.get("follow") != "true":
            page = rows(after)[:int(query["limit"])]
            c.sendall(reply(200, {"events": page, "next": page[-1]["seq"] if page else after}))
            return
        c.sendall(head(200, "text/event-stream") + chunk(b":\n\n"))
        while True:
            with self.happened:
                self.happened.wait_for(lambda: rows(after), timeout=20)
            for e in rows(after):
                text = f"id: {e['seq']}\nevent: sandbox\ndata: {json.dumps(e)}\n\n".encode()
                if self.cut and sent + len(text) > self.cut:
                    c.sendall(chunk(text[:self.cut - sent]) if self.cut > sent else b"")
                    return
                c.sendall(chunk(text))
                after, sent = e["seq"], sent + len(text)

    def add(self, **more):
        box = {"id": new_id("sb"), "tenant": new_id("tn"), "image": "base", "state": "running", "limits": LIMITS,
               "runtime": "crun", "created_at": "2026-11-15T01:50:43.123Z", "last_transition_at": "2026-11-15T01:50:44.123Z",
               "last_activity_at": "2026-11-15T01:50:44.123Z", **more}
        self.sandboxes[box["id"]] = box
        return box

    def post_sandboxes(self, c, f, parts, query, headers):
        self.created = json.loads(b"".join(self.body(f, headers)))
        if self.created.get("image", "base") not in ("base", *[i["name"] for i in self.images.values()]):
            c.sendall(failure(404, "not_found", f"there is no image '{self.created['image']}'"))
            return
        keep = {k: v for k, v in self.created.items() if k in ("name", "image", "labels", "limits", "runtime", "group")}
        self.key = headers.get("idempotency-key")
        if self.created["wait"]:
            c.sendall(reply(201, self.add(**keep)))
        else:
            c.sendall(reply(202, self.add(**keep, state="pending")))

    def delete_sandboxes_id(self, c, f, parts, query, headers):
        box = self.sandboxes.pop(parts[1], None)
        c.sendall(reply(200, {**box, "state": "terminated"}) if box else failure(404, "not_found", "no such sandbox"))

    def stream(self, c, e, at, extra, follow=True):
        c.sendall(head(200, FRAMES, extra=extra))
        sent = 0
        for data in e.frames(at) if follow else e.now(at):
            if self.cut and sent + len(data) > self.cut:
                c.sendall(chunk(data[:self.cut - sent]) if self.cut > sent else b"")
                return
            sent += len(data)
            c.sendall(chunk(data))
        c.sendall(b"0\r\n\r\n")

    def post_sandboxes_id_execs(self, c, f, parts, query, headers):
        if parts[1] not in self.sandboxes:
            c.sendall(failure(404, "not_found", "no such sandbox"))
            return
        e = Exec(json.loads(b"".join(self.body(f, headers))))
        if self.hold:
            self.hold.wait(10)
        self.execs[e.id] = self.last = e
        if e.request.get("detach"):
            c.sendall(reply(200, e.json()))
        else:
            self.stream(c, e, {1: 0, 2: 0}, [f"Cay-Exec: {e.id}"])

    def get_sandboxes_id_execs_id_output(self, c, f, parts, query, headers):
        s = {"stdout": 1, "stderr": 2}[query.get("stream", "stdout")]
        self.stream(c, self.execs[parts[3]], {s: int(query.get("offset", 0))}, [], query.get("follow") == "true")

    def get_sandboxes_id_execs(self, c, f, parts, query, headers):
        c.sendall(reply(200, {"execs": [e.json() for e in self.execs.values()]}))

    def post_sandboxes_id_execs_id_stdin(self, c, f, parts, query, headers):
        e = self.execs[parts[3]]
        try:
            for data in self.body(f, headers):
                e.process.stdin.write(data)
            if query.get("close") == "true":
                e.process.stdin.close()
        except OSError:
            c.sendall(failure(409, "wrong_state", "it does not read"))
            return
        c.sendall(reply(200, e.json()))

    def post_sandboxes_id_execs_id_signal(self, c, f, parts, query, headers):
        e = self.execs[parts[3]]
        name = json.loads(b"".join(self.body(f, headers)))["signal"]
        if e.process.poll() is None:
            e.kill(getattr(signal, name))
        c.sendall(reply(200, e.json()))

    def get_images(self, c, f, parts, query, headers):
        self.list(c, "images", list(self.images.values()), query)

    def post_images(self, c, f, parts, query, headers):
        self.imported = b"".join(self.body(f, headers))
        image = {"id": new_id("im"), "name": query.get("name") or query["default_name"], "digest": "sha256:" + "0" * 64,
                 "size_bytes": len(self.imported), "created_at": "2026-11-15T01:50:43.123Z"}
        self.images[image["id"]] = image
        c.sendall(reply(201, image))

    def delete_images_id(self, c, f, parts, query, headers):
        image = self.images.pop(parts[1], None)
        c.sendall(reply(200, image) if image else failure(404, "not_found", "no such image"))

    def post_tenants_id(self, c, f, parts, query, headers):
        self.tenant_update = json.loads(b"".join(self.body(f, headers)))
        c.sendall(reply(200, self.tenants[2]))

    def get_tenants(self, c, f, parts, query, headers):
        self.list(c, "tenants", self.tenants, query)

    def get_keys(self, c, f, parts, query, headers):
        self.list(c, "keys", list(self.keys.values()), query)

    def secret(self, c, status, key):
        self.secrets.append(f"cay_{key['prefix']}_{'A' * 40}{len(self.secrets):03}"[:55] + "A")
        c.sendall(reply(status, {"key": key, "secret": self.secrets[-1]}))

    def post_keys(self, c, f, parts, query, headers):
        asked = json.loads(b"".join(self.body(f, headers)))
        key = {"id": new_id("ky"), "tenant": asked["tenant"], "name": asked["name"], "scope": asked["scope"],
               "prefix": f"{len(self.keys):08}", "created_at": "2026-11-15T01:50:43.123Z", "revoked": False}
        self.keys[key["id"]] = key
        self.secret(c, 201, key)

    def post_keys_id_rotate(self, c, f, parts, query, headers):
        self.overlap = json.loads(b"".join(self.body(f, headers)))["overlap_ms"]
        self.secret(c, 200, self.keys[parts[1]])

    def post_keys_id_revoke(self, c, f, parts, query, headers):
        self.keys[parts[1]]["revoked"] = True
        c.sendall(reply(200, self.keys[parts[1]]))
