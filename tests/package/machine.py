# SPDX-License-Identifier: Apache-2.0
"""machine - a clean Debian 13 with namespaces of its own, and a systemctl that is us

Its processes, mounts, network and cgroups are its own: the root of its cgroup hierarchies
is a cgroup of this test, so what a unit file says of cgroups is true here as it stands.
Only run(network=False) has the network of the build root, for apt.

systemd is not its PID 1.  /usr/local/bin/systemctl asks this process, which starts and
stops what the unit files say (units.py); so the maintainer scripts do all that they do on
a machine that was booted.
"""
import fnmatch
import os
import pathlib
import secrets
import shutil
import subprocess
import threading

import cay
from units import Units

BOOT = r"""set -e
root=$1; shift
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sys sys 2>/dev/null || mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
if [ $# -gt 1 ]; then mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup; fi
for what; do # TYPE OPTIONS PLACE
	set -- $what
	[ "$3" = /sys/fs/cgroup ] || mkdir -p ".$3"
	mount -t "$1" -o "$2" cgroup ".$3"
done
ip link set lo up
mkdir -p mnt run/systemd/system
pivot_root . mnt
umount -l /mnt
mount --make-rshared /
exec bash -c 'while :; do sleep 3600 & wait $!; done'  # and reaps
"""
SYSTEMCTL = """#!/bin/sh
case " $* " in # files: the real one can
*" preset "* | *" enable "* | *" disable "* | *" mask "* | *" unmask "* | *" is-enabled "*)
	case " $* " in *" --now "*) now=yes ;; esac
	for word; do # the real one refuses --now here
		shift
		[ "$word" = --now ] || set -- "$@" "$word"
	done
	SYSTEMD_OFFLINE=1 /usr/bin/systemctl "$@" || exit "$?"
	[ -n "$now" ] || exit 0
	;;
esac
(
	flock 9
	printf '%s\\n' "$*" >/run/units/ask
	{ read -r status; cat; } </run/units/answer
	exit "$status"
) 9>/run/units/lock
"""


class Machine:
    def __init__(self, root, loader):
        self.root = pathlib.Path(root)
        self.name = f"cay-test-package-{os.getpid()}-{secrets.token_hex(4)}"
        self.hierarchies = self._hierarchies()
        self.cgroups = [at for _, _, at in self.hierarchies]
        outer = [f"{at}/{self.name}" for at in self.cgroups]
        for at in outer:
            os.mkdir(at)
        # into each of them first: then they are the roots of what it sees
        join = "".join(f'echo $$ >"{at}/cgroup.procs"\n' for at in outer)
        self.unshare = subprocess.Popen(
            ["sh", "-c", join + 'exec unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child --propagation private "$@"', "sh",
             "bash", "-c", BOOT, "boot", str(self.root), *(" ".join(h) for h in self.hierarchies)])
        self._wait(lambda: self.child(self.unshare.pid) and (self.inside("/run/systemd/system")).is_dir()
                   and not os.path.ismount(self.inside("/mnt")))
        self.pid = self.child(self.unshare.pid)
        self.units = Units(self, loader)
        self.asked = []
        for name in ("ask", "answer"):
            os.mkfifo(self.inside("/run/units") / name)
        stub = self.inside("/usr/local/bin/systemctl")
        stub.write_text(SYSTEMCTL)
        stub.chmod(0o755)
        # apt has a path of its own for what dpkg runs
        self.inside("/etc/apt/apt.conf.d/systemctl").write_text('DPkg::Path "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";\n')
        self.server = threading.Thread(target=self._serve, daemon=True)
        self.server.start()

    @staticmethod
    def _hierarchies():
        """(type, options, where) of those that Cay and the runtimes use."""
        found = []
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            kind, _, options = right.split()
            at, names = left.split()[4], [o for o in options.split(",") if o not in ("rw", "ro")]
            if kind == "cgroup2":
                found.append((kind, "rw", at))
            elif kind == "cgroup" and not set(names) & {"cpuset"} and os.access(at, os.W_OK):
                found.append((kind, ",".join(names), at))
        return found

    @staticmethod
    def _wait(condition, seconds=60):
        cay.wait_for("the machine", condition, seconds)

    @staticmethod
    def child(pid):
        try:
            words = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except FileNotFoundError:
            return None
        return int(words[0]) if words else None

    def inside(self, path):
        return pathlib.Path(f"/proc/{self.child(self.unshare.pid)}/root" + path)

    def enter(self, network=True):
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-i", "-u", "-C", "-r/proc/%d/root" % self.pid, "-w/proc/%d/root" % self.pid,
                *(["-n"] if network else []), "--"]

    def run(self, command, network=True, status=0, seconds=300, **kw):
        """A line of a shell, as root would type it."""
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive"}
        p = subprocess.run([*self.enter(network), "sh", "-c", command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, **kw)
        assert status is None or p.returncode == status, f"$ {command}\n{p.stdout[-4000:]}"
        return p.stdout

    # -- systemctl

    def _serve(self):
        top = self.inside("/run/units")
        while True:
            with open(top / "ask") as f:
                words = f.read().split()
            if words == ["end"]:
                return
            try:
                status, text = self._answer([w for w in words if not w.startswith("-")])
            except Exception as e:  # for the script that asked, and for the test's output
                status, text = 1, f"{e}\n"
                print("systemctl", words, e)
            with open(top / "answer", "w") as f:
                f.write(f"{status}\n{text}")

    def _match(self, patterns):
        """Names, and of patterns those that run."""
        return [n for p in patterns for n in ([u for u in sorted(self.units.running) if fnmatch.fnmatch(u, p)] if "*" in p else [p])]

    def _answer(self, words):
        verb, names = words[0], self._match([w for w in words[1:] if w.startswith("cay")])  # systemd's own are nothing here
        self.asked.append((verb, *names))
        if verb == "is-active":
            return (0 if all(self.units.active(n) for n in names) else 3), ""
        if verb == "list-units":
            return 0, "".join(f"{n} loaded active running\n" for n in names if self.units.active(n))
        if verb in ("stop", "restart"):
            for name in self._order(names, reverse=True):
                self.units.stop(name)
        if verb in ("start", "restart", "enable"):
            for name in self._order(names):
                self.units.start(name)
        return 0, ""

    def _order(self, names, reverse=False):
        """keeper, control, the rest, as After= has it."""
        first = ["cay-keeper.service", "cayd.service"]
        return sorted(names, key=lambda n: first.index(n) if n in first else len(first), reverse=reverse)

    def stop(self):
        with open(self.inside("/run/units/ask"), "w") as f:
            f.write("end\n")
        self.server.join(10)
        self.unshare.kill()
        self.unshare.wait()
        for p in self.units.running.values():
            p.wait(60)
        for at in self.cgroups:
            top = f"{at}/{self.name}"
            cay.wait_for("its cgroups to be empty", lambda: not subprocess.run(
                ["find", top, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], capture_output=True).returncode, 60)
        shutil.rmtree(self.root, ignore_errors=True)
