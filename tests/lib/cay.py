# SPDX-License-Identifier: Apache-2.0
"""What integration and attack tests share: daemons of our own, HTTP, exec, images

    with Cay(build) as cay:
        cay.image_import("tiny", layout([file("hello", b"...", 0o755)]))
        box = cay.create("tiny", runtime="runc")
        done = cay.exec(box, ["/hello"], user="1000")
        assert done.exit_code == 0

Every instance has directories and a cgroup of its own (/cay-test-...), so any
number of them can live side by side, and stop() leaves nothing of it.
"""
import contextlib
import copy
import dataclasses
import errno
import hashlib
import http.client
import io
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import threading
import time
import urllib.parse

CONTROL_UID = 64100
PULL_UID = 64105
EGRESS_UID = 64106
BROKER_UID = 64107
SLOW = 8 if os.environ.get("CAY_GUEST") else 1  # an emulated processor (dev/guest): waits are as many times longer
START_S = 60.0
UP_S = 30.0  # for what takes milliseconds on a machine that has the time
FRAMES = "application/vnd.cay.frames"
FRAME_MAX = 1 << 20
FRAME_DATA, FRAME_GAP, FRAME_END, FRAME_ERROR = 1, 2, 3, 4
STDOUT, STDERR = 1, 2
PROGRAMS = {"keeper": "keeper/cay-keeper", "cayd": "cayd/cayd", "init": "init/cay-init", "cay": "cli/cay", "pull": "pull/cay-pull",
            "egress": "egress/cay-egress", "broker": "broker/cay-broker"}
_pause = threading.Event()  # never set
_ports = set()  # that were given out


def let_pass(seconds):
    """Time itself is what is waited for: that nothing happens meanwhile, or that something expires."""
    _pause.wait(seconds)


def wait_for(what, condition, timeout_s):
    """Ask until it holds; TimeoutError when it does not in time.  Who stood still meanwhile asks once more."""
    deadline = time.monotonic() + timeout_s * SLOW
    late = False
    while not condition():
        if late:
            raise TimeoutError(f"{what}: not within {timeout_s * SLOW:g} s")
        _pause.wait(0.01)
        late = time.monotonic() > deadline


def free_port():
    """One that nobody listens at.  No client gets it meanwhile either: theirs come from the kernel's own range."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = 10000 + secrets.randbelow(max(low - 10000, 2000))
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            if port not in _ports:
                _ports.add(port)
                return port


def traced(pid):
    """Whether each thread of it has a tracer; those that end meanwhile need none."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found.append("TracerPid:\t0\n" not in (task / "status").read_text())
    return all(found)


def built(build):
    """Paths of the programs in a build directory, and the names of those missing."""
    paths = {name: pathlib.Path(build).resolve() / "src" / where for name, where in PROGRAMS.items()}
    return paths, [name for name in ("keeper", "cayd", "init") if not paths[name].exists()]


class ApiError(Exception):
    def __init__(self, status, body):
        self.status, self.body = status, body
        try:
            self.code = json.loads(body)["error"]["code"]
        except (ValueError, KeyError, TypeError):
            self.code = None
        super().__init__(f"{status} {self.code}: {body[:400]!r}")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout_s):
        super().__init__("cay", timeout=timeout_s * SLOW)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


@dataclasses.dataclass
class Done:
    """How an exec ended and what it wrote."""
    stdout: bytes = b""
    stderr: bytes = b""
    lost: int = 0
    end: dict | None = None
    error: dict | None = None
    id: str = ""

    @property
    def exit_code(self):
        return self.end.get("exit_code") if self.end else None

    @property
    def text(self):
        return self.stdout.decode(errors="replace")


def read_frames(stream):
    """(type, stream, offset, content) until the stream ends; ValueError for nonsense."""
    while True:
        head = stream.read(16)
        if not head:
            return
        if len(head) < 16:
            raise ValueError("half a frame's head")
        kind, which, zero, length, offset = struct.unpack("<BBHIQ", head)
        if zero or not FRAME_DATA <= kind <= FRAME_ERROR or which > STDERR or length > FRAME_MAX:
            raise ValueError(f"not a frame: {head.hex()}")
        content = stream.read(length)
        if len(content) < length:
            raise ValueError("half a frame")
        yield kind, which, offset, content


def read_exec(stream):
    """A whole stream of frames as Done; offsets must go on where they stopped."""
    done, at, parts = Done(), {STDOUT: 0, STDERR: 0}, {STDOUT: [], STDERR: []}
    for kind, which, offset, content in read_frames(stream):
        if done.end is not None or done.error is not None:
            raise ValueError("a frame after the last")
        if kind == FRAME_END:
            done.end = json.loads(content)
        elif kind == FRAME_ERROR:
            done.error = json.loads(content)
        elif offset != at[which]:
            raise ValueError(f"stream {which} goes on at {offset} instead of {at[which]}")
        elif kind == FRAME_GAP:
            lost = int.from_bytes(content, "little")
            done.lost, at[which] = done.lost + lost, at[which] + lost
        else:
            parts[which].append(content)
            at[which] += len(content)
    done.stdout, done.stderr = b"".join(parts[STDOUT]), b"".join(parts[STDERR])
    return done


class Cay:
    """A keeper and a cayd of our own.

    init: another program to be PID 1; env: more variables of both daemons.
    """

    def __init__(self, build, init=None, env=None, state_top="/var/tmp", run_top="/run"):
        self.programs, missing = built(build)
        if missing:
            raise FileNotFoundError(f"not built: {', '.join(missing)}")
        self.name = f"cay-test-{os.getpid()}-{secrets.token_hex(4)}"
        self.state = pathlib.Path(state_top, self.name)
        self.run = pathlib.Path(run_top, self.name)
        self.cgroup = "/" + self.name
        if "asan" in pathlib.Path(build).name:  # the limits of memory before skopeo leave a sanitizer no room
            self.programs["pull"] = pathlib.Path(build).resolve().parent / "gcc/src/pull/cay-pull"
        if not init and "asan" in pathlib.Path(build).name:  # a sanitised one is not static, so no PID 1
            init = pathlib.Path(build).parent / "gcc/src/init/cay-init"
        self.init = pathlib.Path(init or self.programs["init"])
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
                    "CAY_PATHS_STATE": str(self.state), "CAY_PATHS_RUN": str(self.run),
                    "CAY_PATHS_INIT": str(self.init), "CAY_CGROUP_PATH": self.cgroup,
                    "CAY_USERS_CONTROL": str(CONTROL_UID), "CAY_USERS_PULL": str(PULL_UID),
                    "CAY_USERS_EGRESS": str(EGRESS_UID), "CAY_USERS_BROKER": str(BROKER_UID), "CAY_NODE_UNLIMITED_DISK": "yes", **(env or {})}
        self.args = []  # of both daemons
        self.logs = {}
        self.daemons = {}
        self.actor = self.secret = None

    # -- daemons

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.start_keeper()
        if "CAY_IMAGES_REGISTRIES" in self.env:  # without one there is nothing to pull from
            self.start_pull()
        if "CAY_EGRESS_DNS" in self.env:
            self.start_egress()
        if "CAY_EGRESS_CA" in self.env:
            self.start_broker()
        self.start_cayd()

    def start_keeper(self):
        self._spawn("cay-keeper", self.programs["keeper"])
        self._up("cay-keeper")

    def start_pull(self):
        self._spawn("cay-pull", self.programs["pull"], user=PULL_UID, group=PULL_UID, extra_groups=[])
        self._up("cay-pull")

    def start_egress(self):
        self._spawn("cay-egress", self.programs["egress"], user=EGRESS_UID, group=EGRESS_UID, extra_groups=[])
        self._up("cay-egress")

    def start_broker(self):
        self._spawn("cay-broker", self.programs["broker"], user=BROKER_UID, group=BROKER_UID, extra_groups=[])
        self._up("cay-broker")

    def start_cayd(self):
        self._spawn("cayd", self.programs["cayd"], user=CONTROL_UID, group=CONTROL_UID, extra_groups=[])
        self._up("cayd")
        if self.call("GET", "/v1/health", timeout_s=UP_S)["status"] != "ok":
            raise RuntimeError(f"cayd is not healthy:\n{self.said('cayd')}")

    def _spawn(self, name, path, **who):
        log = open(f"/tmp/{self.name}-{name}.log", "ab")
        self.logs[name] = log.name
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(f"\0{self.name}-{name}-{secrets.token_hex(4)}")
        self.notify.settimeout(0.1)
        env = {**self.env, "NOTIFY_SOCKET": "@" + self.notify.getsockname()[1:].decode()}
        with log:
            self.daemons[name] = subprocess.Popen([str(path), *self.args], env=env, stdin=subprocess.DEVNULL, stdout=log,
                                                  stderr=log, start_new_session=True, cwd="/", **who)

    def _up(self, name):
        """Wait until it says so, as systemd does."""
        deadline = time.monotonic() + START_S * SLOW
        with self.notify:
            while True:
                with contextlib.suppress(TimeoutError):
                    if self.notify.recv(64) == b"READY=1":
                        return
                if self.daemons[name].poll() is not None:
                    raise RuntimeError(f"{name} ended with {self.daemons[name].returncode}:\n{self.said(name)}")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{name} does not serve:\n{self.said(name)}")

    def log(self, name):
        """All of it: who counts lines must find the first, and who looks for a secret every one."""
        try:
            return pathlib.Path(self.logs[name]).read_text(errors="replace")
        except (KeyError, OSError):
            return ""

    def said(self, name):
        return self.log(name)[-4000:]

    def pids(self):
        return {name: p.pid for name, p in self.daemons.items() if p.poll() is None}

    def stop(self):
        """cayd first, then the keeper; then whatever is left of the sandboxes."""
        for name in ("cayd", "cay-egress", "cay-broker", "cay-pull", "cay-keeper"):
            process = self.daemons.get(name)
            if process and process.poll() is None:
                process.terminate()
                try:
                    process.wait(UP_S * SLOW)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._remove_cgroups()
        for top in (self.state, self.run):
            shutil.rmtree(top, ignore_errors=True)
        for log in self.logs.values():
            with contextlib.suppress(OSError):
                os.unlink(log)
        self.daemons, self.logs = {}, {}

    def cgroup_dirs(self):
        """Our directory in each hierarchy that has one."""
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            if " - cgroup" in line:
                at = pathlib.Path(line.split()[4] + self.cgroup)
                if at.is_dir():
                    yield at

    def _remove_cgroups(self):
        dirs = list(self.cgroup_dirs())
        for at in dirs:
            with contextlib.suppress(OSError):
                (at / "cgroup.kill").write_text("1")
        for at in dirs:
            def gone(at=at):
                for directory, _, _ in os.walk(at, topdown=False):
                    try:
                        os.rmdir(directory)
                    except OSError as e:
                        if e.errno not in (errno.EBUSY, errno.ENOENT):
                            raise
                return not at.exists()
            wait_for(f"empty {at}", gone, 30)

    def processes(self, box=""):
        """Host pids of everything in our cgroup, or in one sandbox's."""
        found = set()
        for at in self.cgroup_dirs():
            for directory, _, files in os.walk(at):
                if "cgroup.procs" in files and box in directory:
                    with contextlib.suppress(OSError):
                        found |= {int(n) for n in (pathlib.Path(directory) / "cgroup.procs").read_text().split()}
        return found

    def pid_1(self, box):
        """The host pid of a sandbox's PID 1; its worker may still be leaving beside it."""
        for pid in self.processes(box):
            with contextlib.suppress(OSError):
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                if re.search(r"^NSpid:\t\d+.*\t1$", status, re.M):
                    return pid
        raise AssertionError(f"{box} has no PID 1")

    # -- HTTP

    @property
    def socket(self):
        return str(self.run / ("control.sock" if self.actor is None else "edge/control.sock"))

    def edge(self, actor, secret=None):
        """The same daemons, asked as the edge asks: by its socket and for somebody, whose key it may have."""
        other = copy.copy(self)
        other.actor, other.secret = actor, secret
        return other

    def open(self, method, target, body=None, headers=None, timeout_s=60.0):
        """The response, not read yet.  body: bytes, a file, or an object for JSON."""
        headers = {**self.says(), **(headers or {})}
        if body is not None and not isinstance(body, (bytes, io.IOBase)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        elif body is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
            if isinstance(body, io.IOBase):
                headers.setdefault("Content-Length", str(os.fstat(body.fileno()).st_size))
        connection = self.connection(timeout_s)
        connection.request(method, target, body, headers)
        return connection.getresponse()

    def connection(self, timeout_s):
        return UnixConnection(self.socket, timeout_s)

    def says(self):
        """Headers of every request: who asks."""
        proof = {"Authorization": "Bearer " + self.secret} if self.secret else {}
        return {"Cay-Actor": self.actor, **proof} if self.actor else {}

    def call(self, method, target, body=None, timeout_s=60.0):
        """The JSON of a 2xx reply; ApiError otherwise."""
        reply = self.open(method, target, body, timeout_s=timeout_s)
        data = reply.read()
        if not 200 <= reply.status < 300:
            raise self.failed(reply.status, data)
        return json.loads(data) if data else None

    def failed(self, status, data):
        """What to raise.  Why something broke inside is told to nobody who asks: only the logs, which go with us, have it."""
        error = ApiError(status, data)
        if error.code == "internal":
            for name in self.logs:
                error.add_note(f"{name}:\n{self.said(name)}")
        return error

    # -- operations

    def image_import(self, name, tar, timeout_s=300.0):
        """tar: bytes or an open file."""
        return self.call("POST", "/v1/images?" + urllib.parse.urlencode({"name": name}), tar, timeout_s)

    def create(self, image, **fields):
        return self.call("POST", "/v1/sandboxes", {"image": image, **fields})["id"]

    def get(self, box):
        return self.call("GET", f"/v1/sandboxes/{box}")

    def delete(self, box):
        return self.call("DELETE", f"/v1/sandboxes/{box}")

    def exec(self, box, argv, timeout_s=60.0, **fields):
        """Run to the end, streamed; the exec itself ends at timeout_s too."""
        fields.setdefault("timeout_ms", int(timeout_s * SLOW * 1000))
        reply = self.open("POST", f"/v1/sandboxes/{box}/execs", {"argv": argv, **fields}, {"Accept": FRAMES},
                          timeout_s + 15)
        if reply.status != 200:
            raise ApiError(reply.status, reply.read())
        done = read_exec(reply)
        done.id = reply.headers.get("Cay-Exec", "")
        return done

    def exec_detached(self, box, argv, **fields):
        return self.call("POST", f"/v1/sandboxes/{box}/execs", {"argv": argv, "detach": True, **fields})["id"]

    def exec_output(self, box, exec_id, stream="stdout"):
        reply = self.open("GET", f"/v1/sandboxes/{box}/execs/{exec_id}/output?stream={stream}")
        data = reply.read()
        if reply.status != 200:
            raise ApiError(reply.status, data)
        return data

    def signal(self, box, exec_id, name="SIGKILL"):
        return self.call("POST", f"/v1/sandboxes/{box}/execs/{exec_id}/signal", {"signal": name})

    def kill_daemon(self, name):
        self.daemons[name].send_signal(signal.SIGKILL)
        self.daemons[name].wait()

    def restart_cayd(self, between=lambda: None):
        self.kill_daemon("cayd")
        between()
        self.start_cayd()


# -- images

def entry(name, kind=tarfile.REGTYPE, mode=0o755, uid=0, gid=0, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.linkname = kind, mode, uid, gid, link
    return info, b""


def file(name, data, mode=0o644, uid=0, gid=0):
    info, _ = entry(name, mode=mode, uid=uid, gid=gid)
    info.size = len(data)
    return info, data


def directory(name, mode=0o755, uid=0, gid=0):
    return entry(name, tarfile.DIRTYPE, mode, uid, gid)


def layer(entries):
    """An uncompressed layer from (TarInfo, bytes) pairs."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def layout(entries, config=None, architecture="amd64"):
    """A tar of an OCI image layout with one layer."""
    blobs = {}

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": f"sha256:{digest}", "size": len(data)}

    def as_json(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    tar = blob(layer(entries), "layer.v1.tar")
    image = blob(as_json({"architecture": architecture, "os": "linux", "config": config or {},
                          "rootfs": {"type": "layers", "diff_ids": [tar["digest"]]}}), "config.v1+json")
    manifest = blob(as_json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                             "config": image, "layers": [tar]}), "manifest.v1+json")
    index = as_json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                     "manifests": [manifest]})
    files = {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"}), "index.json": index, **blobs}
    return layer([directory("blobs"), directory("blobs/sha256"), *(file(n, d) for n, d in files.items())])


def layout_of(path):
    """The same of a layout directory, such as `make image` leaves, as an open file."""
    out = open(f"/var/tmp/cay-test-layout-{os.getpid()}-{secrets.token_hex(4)}", "w+b")
    os.unlink(out.name)
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("oci-layout", "index.json", "blobs"):
            tar.add(os.path.join(path, name), name)
    out.seek(0)
    return out
