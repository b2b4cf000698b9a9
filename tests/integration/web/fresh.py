# SPDX-License-Identifier: Apache-2.0
"""fresh - a machine on which Cay was just installed, and what is there after its first start

	unshare --mount --net --pid --fork --kill-child --mount-proc fresh.py BUILD CGROUP

Its own network, its own /etc/passwd, /usr/libexec, /run and /var/lib; programs, users and variables are those
of packaging/, settings are the defaults.  Prints what it found as JSON.
"""
import base64
import configparser
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

TREE = pathlib.Path(__file__).parents[3]
BUILD, CGROUP = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
PROGRAMS = {"cay-keeper": "keeper", "cayd": "cayd", "cay-edge": "edge", "cay-init": "init", "cay-mcp": "mcp", "cay-e2b": "e2b", "cay-opensandbox": "opensandbox", "cay-pull": "pull", "cay-egress": "egress",
            "cay-broker": "broker"}
# What people leave as it was.
GUESSES = ["", "admin", "cay", "password", "changeme", "default", "operator", "root", "test", "secret", "0" * 56, "cay_00000000_" + "A" * 43]


# ProtectSystem=strict: what is not named is read-only.
STRICT = """for at in $0; do mount --bind "$at" "$at" || exit 1; done
for at in /var/lib /run; do mount -o remount,bind,ro "$at" || exit 1; done
exec "$@\""""


def sh(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def install():
    """As a package would, on an empty machine."""
    for at in ("/usr/libexec", "/run", "/var/lib", "/mnt"):
        sh("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", at)
    libexec = pathlib.Path("/usr/libexec/cay")
    libexec.mkdir()
    for name, where in PROGRAMS.items():
        # a sanitised PID 1 is not static, so is none
        build = BUILD.parent / "gcc" if name == "cay-init" and "asan" in BUILD.name else BUILD
        shutil.copy(build / "src" / where / name, libexec / name)
    users = {}
    for name in ("passwd", "group"):
        text = pathlib.Path("/etc", name).read_text()
        for i, user in enumerate(re.findall(r"^u (\S+)", (TREE / "packaging/sysusers.d/cay.conf").read_text(), re.M)):
            users[user] = 990 - i
            text += f"{user}:x:{990 - i}:{990 - i}::/:/usr/sbin/nologin\n" if name == "passwd" else f"{user}:x:{990 - i}:\n"
        pathlib.Path("/mnt", name).write_text(text)
        sh("mount", "--bind", f"/mnt/{name}", f"/etc/{name}")
    for _, at, mode, user, group, _ in re.findall(r"^(d) (\S+) (\d+) (\S+) (\S+) (\S+)$", (TREE / "packaging/tmpfiles.d/cay.conf").read_text(), re.M):
        pathlib.Path(at).mkdir()
        os.chown(at, users[user], users[group])
        os.chmod(at, int(mode, 8))
    sh("ip", "link", "set", "lo", "up")
    return users


def unit(name):
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.optionxform = str
    parser.read_string(re.sub(r"^#.*\n", "", (TREE / "packaging/systemd" / name).read_text(), flags=re.M))
    return parser["Service"]


def start(name, users):
    """As systemd starts it, until it says that it serves."""
    service = unit(name)
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    for word in service.get("Environment", "").split():
        key, _, value = word.partition("=")
        env[key] = value
    if "CAY_CGROUP_PATH" in env:
        env["CAY_CGROUP_PATH"] = CGROUP  # the one thing that is the whole machine's
    command = service["ExecStart"].split()
    if service.get("User"):
        groups = ",".join(str(users[g]) for g in service.get("SupplementaryGroups", "").split())
        command = ["setpriv", f"--reuid={users[service['User']]}", f"--regid={users[service['Group']]}",
                   f"--groups={groups}" if groups else "--clear-groups", *command]
    if service.get("ProtectSystem") == "strict":
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", STRICT, service.get("ReadWritePaths", "").replace("-/", "/"), *command]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind("\0fresh-" + name)
        notify.settimeout(30)
        p = subprocess.Popen(command, env={**env, "NOTIFY_SOCKET": "@fresh-" + name}, stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, cwd="/", umask=int(service.get("UMask", "022"), 8))
        try:
            assert notify.recv(64) == b"READY=1"
        except TimeoutError:
            p.kill()
            sys.exit(f"{name} does not serve:\n{p.stderr.read()}")
    return p


def ask(credential):
    connection = http.client.HTTPConnection("127.0.0.1", 7070, timeout=10)
    connection.request("GET", "/v1/sandboxes", headers={"Authorization": credential} if credential else {})
    return connection.getresponse().status


def files(top):
    found = {}
    for p in [top, *sorted(top.rglob("*"))]:
        with contextlib.suppress(FileNotFoundError):  # a database makes and removes some
            found[str(p)] = [p.owner(), p.group(), oct(p.stat().st_mode & 0o7777)]
    return found


def main():
    users = install()
    programs = [start(name, users) for name in ("cay-keeper.service", "cay-pull.service", "cay-egress.service", "cay-broker.service", "cayd.service", "cay-edge@.service", "cay-mcp.service", "cay-e2b.service", "cay-opensandbox.service")]
    tcp = [line.split() for line in sh("ss", "-Hlntu").splitlines()]
    tops = [pathlib.Path(p) for p in ("/var/lib/cay", "/run/cay", "/run/cay-mcp", "/run/cay-e2b", "/run/cay-opensandbox")]
    unix = [str(p) for top in tops for p in top.rglob("*") if p.is_socket()]
    assert len(unix) == len(sh("ss", "-Hlx").splitlines()), "one is elsewhere"
    key = pathlib.Path("/var/lib/cay/db/operator.key").read_text().strip()
    found = {
        "network": sorted(f"{w[0]} {w[4]}" for w in tcp),
        "unix": sorted(unix),
        "key": key,
        "good": ask("Bearer " + key),
        "guesses": [ask(f"{scheme} {base64.b64encode(f'{g}:{g}'.encode()).decode() if scheme == 'Basic' else g}".strip())
                    for g in GUESSES for scheme in ("Bearer", "Basic")] + [ask(None)],
        "files": {k: v for top in tops for k, v in files(top).items()},
    }
    for p in reversed(programs):
        p.terminate()
        p.wait(20)
    found["logs"] = "".join(p.stderr.read() for p in programs)
    print(json.dumps(found))


main()
