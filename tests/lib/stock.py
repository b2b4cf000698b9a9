# SPDX-License-Identifier: Apache-2.0
"""stock - hosts of the lab that package clients know: an index, a registry of npm, git, a Debian archive, a database, a page

What they serve is in /opt/stock of the build root (dev/root), as dev/stock has it locked; nothing leaves the machine.
Each is a program in the namespace of a lab (lab.py), under a name of its own, with a certificate of one CA.  What was asked for
is in a log: "HOST METHOD PATH" a line.

Run by itself it is the server of all that is HTTP: stock.py TOP CERTIFICATE KEY ADDRESS...
"""
import base64
import contextlib
import gzip
import hashlib
import http.server
import json
import os
import pathlib
import pwd
import re
import shutil
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading

import cay
import certs

STOCK = pathlib.Path("/opt/stock")
HOSTS = {name: f"93.184.3.{i}" for i, name in enumerate(
    ("index.lab.example", "files.lab.example", "npm.lab.example", "git.lab.example", "deb.lab.example", "db.lab.example",
     "www.lab.example", "registry.lab.example", "other.lab.example", "slow.lab.example"), 1)}
PAGE = "<title>lab</title><p id=here>this is the lab</p><script>document.getElementById('here').textContent += ' ' + 6 * 7</script>"


# -- the server of HTTP

def wheels():
    for path in sorted((STOCK / "wheels").glob("*.whl")):
        yield re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower(), path


def npm_packages():
    """name -> (its row of the lock file, the file): npm keeps a file under the hash that the lock file has."""
    for at, row in json.loads((STOCK / "package-lock.json").read_text())["packages"].items():
        if at:
            digest = base64.b64decode(row["integrity"].removeprefix("sha512-")).hex()
            yield at.removeprefix("node_modules/"), (row, STOCK / "npm/_cacache/content-v2/sha512" / digest[:2] / digest[2:4] / digest[4:])


def manifest():
    return json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def setup(self):
        if self.server.tls:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, *_):
        pass

    def do_GET(self):  # noqa: N802: its name there
        self.answer()

    do_POST = do_HEAD = do_GET

    def answer(self):
        host = self.headers.get("Host", "").split(":")[0]
        path, _, query = self.path.partition("?")
        with self.server.lock, open(self.server.top / "log", "a") as log:
            print(host, self.command, self.path, file=log)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        serve = getattr(self, "of_" + host.split(".")[0], None)
        found = serve(path, query, body) if serve else None
        status, kind, data = found or (404, "text/plain", b"not here\n")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def of_index(self, path, _query, _body):
        if not (name := re.fullmatch("/simple/([a-z0-9-]+)/", path)):
            return None
        links = "".join(f'<a href="https://files.lab.example/{p.name}#sha256={hashlib.sha256(p.read_bytes()).hexdigest()}">{p.name}</a>\n'
                        for n, p in wheels() if n == name[1])
        return (200, "text/html", f"<!doctype html>{links}".encode()) if links else None

    def of_files(self, path, _query, _body):
        found = [p for _, p in wheels() if "/" + p.name == path]
        return (200, "application/octet-stream", found[0].read_bytes()) if found else None

    def of_npm(self, path, _query, _body):
        name, dash, _ = path.strip("/").replace("%2f", "/").partition("/-/")
        row, file = dict(npm_packages()).get(name, (None, None))
        if not row:
            return None
        if dash:
            return 200, "application/octet-stream", file.read_bytes()
        version = {**row, "name": name, "dist": {"integrity": row["integrity"], "tarball": f"https://npm.lab.example/{name}/-/{name}-{row['version']}.tgz"}}
        return 200, "application/json", json.dumps({"name": name, "dist-tags": {"latest": row["version"]}, "versions": {row["version"]: version}}).encode()

    def of_git(self, path, query, body):
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.server.top / "git"), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "CONTENT_LENGTH": str(len(body)), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "REMOTE_USER": "lab",
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=env, check=True).stdout
        head, _, data = done.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return int(headers.get("Status", "200").split()[0]), headers.get("Content-Type", "text/plain"), data

    def of_deb(self, path, _query, _body):
        file = self.server.top / "deb" / path.strip("/").replace("/./", "/").replace("/", "_")
        return (200, "application/octet-stream", file.read_bytes()) if file.is_file() else None

    def of_www(self, _path, _query, _body):
        return 200, "text/html", PAGE.encode()

    of_other = of_www

    def of_slow(self, _path, _query, _body):
        self.connection.settimeout(600)
        self.rfile.read(1)  # until the client has left

    def of_registry(self, path, _query, _body):
        if path == "/v2/":
            return 200, "application/json", b"{}"
        return (200, "application/vnd.oci.image.index.v1+json", manifest()) if path.startswith("/v2/lab/manifests/") else None


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128  # npm opens many at once
    lock = threading.Lock()

    def __init__(self, at, top, tls):
        self.top, self.tls = top, tls
        super().__init__(at, Handler)

    def handle_error(self, *_):
        pass  # a client that went away


def serve(top, cert, key, *addresses):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    tls.set_alpn_protocols(["http/1.1"])
    servers = [Server((a, p), pathlib.Path(top), t) for a in addresses for p, t in ((443, tls), (80, None))]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("up", flush=True)
    sys.stdin.read()


# -- beside the tests

class Stock:
    """The hosts; ca: the file of the CA that they have; key: of a user who may log in to git.lab.example."""

    def __init__(self, internet):
        self.lab = internet
        self.inside = ["nsenter", f"--net=/proc/{internet.child.pid}/ns/net", "--"]
        self.running = []

    def __enter__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="stock-", dir="/var/tmp"))
        self.top.chmod(0o755)
        authority = certs.Authority(self.top)
        self.ca = pathlib.Path(authority.file)
        self.cert, self.cert_key = authority.issue("stock", ",".join("DNS:" + name for name in HOSTS))
        (self.top / "log").touch()
        for name, address in HOSTS.items():
            subprocess.run([*self.inside, "ip", "addr", "add", address + "/32", "dev", "lo"], check=True)
            self.lab.set_name(name, [address])
        self.stock_git()
        self.stock_debs()
        try:
            self.start_http()
            self.start_sshd()
            self.start_postgres()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.terminate()
            process.wait()
        shutil.rmtree(self.top, ignore_errors=True)

    def asked(self):
        """What HTTP asked for since the last call: (host, method, path)."""
        lines = (self.top / "log").read_text().splitlines()
        (self.top / "log").write_text("")
        return [tuple(line.split(" ", 2)) for line in lines]

    def start(self, argv, **options):
        self.running.append(subprocess.Popen([*self.inside, *map(str, argv)], **options))
        return self.running[-1]

    def start_http(self):
        process = self.start([sys.executable, __file__, self.top, self.cert, self.cert_key, *HOSTS.values()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"up\n"

    def stock_git(self):
        """A repository with one commit, to which may be pushed."""
        work, bare = self.top / "work", self.top / "git/lab.git"
        git = ["git", "-c", "user.name=lab", "-c", "user.email=lab@example.com", "-c", "init.defaultBranch=main", "-C", work]
        work.mkdir()
        (work / "README").write_text("in the lab\n")
        for argv in (["init", "-q"], ["add", "README"], ["commit", "-qm", "first"], ["clone", "-q", "--bare", ".", bare]):
            subprocess.run([*git, *argv], check=True)
        subprocess.run(["git", "-C", bare, "config", "http.receivepack", "true"], check=True)

    def head(self, branch):
        done = subprocess.run(["git", "-C", self.top / "git/lab.git", "log", "-1", "--format=%s", branch], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def stock_debs(self):
        """A flat archive of one real package."""
        top = self.top / "deb"
        top.mkdir()
        rows = []
        for deb in (STOCK / "debs").glob("*.deb"):
            data = deb.read_bytes()
            (top / ("lab_" + deb.name)).write_bytes(data)
            control = subprocess.run(["dpkg-deb", "--field", deb], capture_output=True, text=True, check=True).stdout
            rows.append(f"{control}Filename: {deb.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n")
        packages = "\n".join(rows).encode()
        lines = ["Origin: lab", "SHA256:"]
        for name, data in (("Packages", packages), ("Packages.gz", gzip.compress(packages))):
            (top / f"lab_{name}").write_bytes(data)
            lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
        (top / "lab_Release").write_text("\n".join(lines) + "\n")

    def start_sshd(self):
        for name in "host", "user":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.top / f"{name}.key"], check=True)
        self.key = self.top / "user.key"
        self.known_hosts = "git.lab.example " + (self.top / "host.key.pub").read_text()
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        (self.top / "sshd.conf").write_text(
            f"ListenAddress {HOSTS['git.lab.example']}:22\nHostKey {self.top}/host.key\nPidFile none\nUsePAM no\nStrictModes no\n"
            f"PermitRootLogin prohibit-password\nPasswordAuthentication no\nAuthorizedKeysFile {self.top}/user.key.pub\n"
            "SetEnv GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*\n")
        log = open(self.top / "sshd.log", "wb")
        with log:
            self.start(["/usr/sbin/sshd", "-D", "-e", "-f", self.top / "sshd.conf"], stderr=log)
        cay.wait_for("sshd", lambda: "listening" in (self.top / "sshd.log").read_text(), 30)

    def start_postgres(self):
        """From the cluster that the package of Debian made."""
        versions = sorted(pathlib.Path("/usr/lib/postgresql").iterdir())
        data, who = self.top / "pg", pwd.getpwnam("postgres")
        shutil.copytree(f"/var/lib/postgresql/{versions[-1].name}/main", data, symlinks=True)
        for name, source in (("server.crt", self.cert), ("server.key", self.cert_key)):
            shutil.copy(source, data / name)
        (data / "postgresql.conf").write_text(
            f"listen_addresses = '{HOSTS['db.lab.example']}'\nunix_socket_directories = ''\nssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\n"
            "fsync = off\nshared_buffers = 16MB\n")
        (data / "pg_hba.conf").write_text("hostssl all all 0.0.0.0/0 trust\n")
        (data / "pg_ident.conf").touch()
        for path in (data, *data.rglob("*")):
            os.chown(path, who.pw_uid, who.pw_gid, follow_symlinks=False)
        data.chmod(0o700)
        (data / "server.key").chmod(0o600)
        log = open(self.top / "postgres.log", "wb")
        with log:
            self.start(["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups", versions[-1] / "bin/postgres", "-D", data], stderr=log)
        cay.wait_for("PostgreSQL", lambda: "ready to accept" in (self.top / "postgres.log").read_text(), 60)


# -- an image of the clients

CLIENTS = ("apt", "bash", "coreutils", "findutils", "grep", "sed", "tar", "gzip", "ca-certificates", "openssl", "python3-pip", "nodejs", "npm", "git", "curl",
           "openssh-client", "postgresql-client", "skopeo", "chromium-headless-shell", "libnss3-tools", "base-files", "base-passwd", "libc-bin", "hostname", "dash", "diffutils", "perl-base")

# large, and no client of ours comes to use them
LEFT_OUT = {"libllvm19", "libz3-4", "mesa-libgallium", "containernetworking-plugins", "libssl-dev"}


def closure(names):
    """The packages of this root with all that they need."""
    rows, provided = {}, {}
    for text in pathlib.Path("/var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", text, re.M))
        if "installed" in fields.get("Status", "").split():
            rows[fields["Package"]] = [*fields.get("Pre-Depends", "").split(","), *fields.get("Depends", "").split(",")]
            for name in fields.get("Provides", "").split(","):
                provided.setdefault(name.strip().split(" ")[0], fields["Package"])
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name in found | LEFT_OUT or name not in rows:
            continue
        found.add(name)
        for one in rows[name]:
            ways = [re.split(r"[ :(]", w.strip())[0] for w in one.split("|")]
            todo += [w if w in rows else provided[w] for w in ways if w in rows or w in provided][:1]
    return found


def paths_of(packages):
    info = pathlib.Path("/var/lib/dpkg/info")
    lists = {p.name.removesuffix(".list").split(":")[0]: p for p in info.glob("*.list")}
    for name in sorted(packages):
        for line in lists[name].read_text().splitlines():
            if os.path.islink(line) or os.path.isfile(line):
                yield line
        yield from (str(p) for p in info.glob(f"{name}.*"))
        yield from (str(p) for p in info.glob(f"{name}:*"))


def configure_clients(hosts, own):
    """Files below own: what the clients need to know of the hosts, and the CA among those that are trusted."""
    for name in ("etc/ssl/certs", "tmp", "var/tmp", "run", "root/.ssh", "root/.pki/nssdb", "srv", "etc/apt/sources.list.d", "etc/apt/preferences.d", "etc/apt/apt.conf.d", "etc/apt/trusted.gpg.d", "var/lib/apt/lists/partial",
                 "var/cache/apt/archives/partial", "var/log/apt"):
        (own / name).mkdir(parents=True, exist_ok=True)
    for name in "tmp", "var/tmp":
        (own / name).chmod(0o1777)
    trusted = own / "etc/ssl/certs"
    (trusted / "ca-certificates.crt").write_bytes(pathlib.Path("/etc/ssl/certs/ca-certificates.crt").read_bytes() + hosts.ca.read_bytes())
    number = subprocess.run(["openssl", "x509", "-noout", "-hash", "-in", hosts.ca], capture_output=True, text=True, check=True).stdout.strip()
    shutil.copy(hosts.ca, trusted / f"{number}.0")
    database = f"sql:{own / 'root/.pki/nssdb'}"  # Chromium's
    subprocess.run(["certutil", "-d", database, "-N", "--empty-password"], check=True)
    subprocess.run(["certutil", "-d", database, "-A", "-t", "C,,", "-n", "lab", "-i", hosts.ca], check=True)
    (own / "etc/apt/sources.list").write_text("deb [trusted=yes] http://deb.lab.example/lab ./\n")
    (own / "etc/pip.conf").write_text("[global]\nindex-url = https://index.lab.example/simple/\n")
    (own / "etc/npmrc").write_text("registry=https://npm.lab.example/\n")
    shutil.copy(hosts.key, own / "root/.ssh/id_ed25519")
    (own / "root/.ssh/id_ed25519").chmod(0o600)
    (own / "root/.ssh/known_hosts").write_text(hosts.known_hosts)
    for name in "package.json", "package-lock.json":
        shutil.copy(STOCK / name, own / "srv")


def image_of_clients(hosts, out, clients=CLIENTS):
    """A tar of a file system: the packages as they are in this root, and their configuration."""
    extra = ["/bin", "/sbin", "/lib", "/lib64", "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/ld.so.cache",
             "/etc/nsswitch.conf", "/var/lib/dpkg/status", "/usr/bin/awk", *("/etc/alternatives/" + n for n in os.listdir("/etc/alternatives"))]
    listed = sorted({os.path.join(os.path.realpath(os.path.dirname(p)), os.path.basename(p)) for p in paths_of(closure(clients))} |
                    {p for p in extra if os.path.lexists(p)})
    trusted = ["/etc/ssl/certs/" + p.name for p in pathlib.Path("/etc/ssl/certs").iterdir() if p.name != "ca-certificates.crt"]
    tar = ["tar", "--file", out, "--numeric-owner", "--no-recursion", "--null"]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        configure_clients(hosts, pathlib.Path(top))
        subprocess.run([*tar, "--create", "--directory=/", "--files-from=-"], check=True, input="\0".join("." + p for p in listed + trusted).encode())
        subprocess.run([*tar, "--append", "--recursion", f"--directory={top}", "--owner=0", "--group=0", "."], check=True)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        serve(*sys.argv[1:])
