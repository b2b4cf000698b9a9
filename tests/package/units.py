# SPDX-License-Identifier: Apache-2.0
"""units - programs started as their unit files say, where systemd is not PID 1

What a unit file asks for is done with the same means: namespaces, mounts, users, limits,
capabilities and system call filters.  An option that is not in the tables below is an
error, so that none is passed over by accident.
"""
import contextlib
import ctypes
import errno
import os
import pathlib
import re
import resource
import select
import shlex
import signal
import socket
import stat
import subprocess

# without an effect that a program could notice here, or systemd's own business
PASSED_OVER = {
    "Type": "all of them are notify, and waited for", "Restart": "a test restarts", "RestartSec": "the same",
    "ExecReload": "a test sends the signal", "TimeoutStopSec": "a test has its own", "TasksMax": "the machine is small",
    "OOMScoreAdjust": "the machine's own affair", "MemoryMax": "the same", "MemoryHigh": "the same", "Delegate": "all is root's",
    "AmbientCapabilities": "none are given", "ProtectHostname": "seccomp and uts: no program of ours has a name to change",
    "ProtectClock": "the capability is what counts, and is taken", "ProtectKernelModules": "the same", "RestrictRealtime": "see the filter",
    "LockPersonality": "see the filter", "SystemCallArchitectures": "libseccomp's filter is native only",
    "SystemCallErrorNumber": "EPERM, which the filter returns", "RemoveIPC": "at the end, by systemd", "PrivateIPC": "no System V IPC here",
    "KillMode": "process or all: stop() looks",
}
DONE = {"ExecStart", "User", "Group", "SupplementaryGroups", "UMask", "CapabilityBoundingSet", "NoNewPrivileges", "ProtectSystem",
        "ReadWritePaths", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectKernelTunables", "ProtectControlGroups", "ProtectKernelLogs",
        "ProtectProc", "ProcSubset", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictSUIDSGID", "MemoryDenyWriteExecute", "SystemCallFilter", "Slice",
        "DelegateSubgroup", "Environment", "LimitNOFILE", "LimitCORE",
        "LimitMEMLOCK", "LimitMSGQUEUE", "LimitSIGPENDING", "LimitNPROC", "PrivateNetwork"}
NAMESPACES = {"cgroup": 0x02000000, "ipc": 0x08000000, "mnt": 0x00020000, "net": 0x40000000, "pid": 0x20000000, "user": 0x10000000,
              "uts": 0x04000000, "time": 0x00000080}
MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2}
DEVICES = "null zero full random urandom tty"


def read(path):
    """{option: [values]} of [Service]; an empty value forgets those before it, as systemd has it."""
    found, here = {}, False
    for line in path.read_text().splitlines():
        if line.startswith("["):
            here = line == "[Service]"
        elif here and line and line[0] not in "#;":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


# -- filters

class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


EQUAL, MASKED_EQUAL, ALLOW = 4, 7, 0x7FFF0000


class Filter:
    def __init__(self, preset):
        self.lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        self.lib.seccomp_init.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.lib.seccomp_init(ctypes.c_uint32(preset)))

    def rule(self, action, name, *compare):
        number = self.lib.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return  # of another machine
        rows = (Compare * max(len(compare), 1))(*compare)
        r = self.lib.seccomp_rule_add_array(self.context, ctypes.c_uint32(action), number, len(compare), rows)
        assert r in (0, -errno.EACCES), (name, r)  # what is allowed anyway needs no rule

    def write(self, path):
        with open(path, "wb") as f:
            assert self.lib.seccomp_export_bpf(self.context, f.fileno()) == 0
        path.chmod(0o644)


def refuse(number):
    return 0x00050000 | number


def expand(word):
    if not word.startswith("@"):
        return {word}
    text = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True).stdout
    names = [l.strip() for l in text.splitlines()[1:] if l.strip() and not l.strip().startswith("#")]
    return set().union(*(expand(n) for n in names))


def filters(service):
    lines = [l for l in service.get("SystemCallFilter", []) if l]
    if lines:
        assert not lines[0].startswith("~"), "a list of what is refused is a list with holes"
        names = expand("@default")
        for line in lines:
            these = set().union(*(expand(w) for w in line.lstrip("~").split()))
            names = names - these if line.startswith("~") else names | these
        f = Filter(refuse(errno.EPERM))
        for name in sorted(names):
            f.rule(ALLOW, name)
        yield f
    families = " ".join(service.get("RestrictAddressFamilies", [])).split()
    if families:
        f, allowed = Filter(ALLOW), {getattr(socket, name) for name in families}
        for family in set(range(64)) - allowed:
            f.rule(refuse(errno.EAFNOSUPPORT), "socket", Compare(0, EQUAL, family))
        yield f
    if service.get("RestrictNamespaces") == ["yes"]:
        f = Filter(ALLOW)
        for bit in NAMESPACES.values():
            for call in ("clone", "unshare"):
                f.rule(refuse(errno.EPERM), call, Compare(0, MASKED_EQUAL, bit, bit))
        f.rule(refuse(errno.EPERM), "setns")
        f.rule(refuse(errno.ENOSYS), "clone3")
        yield f
    if service.get("RestrictSUIDSGID") == ["yes"]:
        f = Filter(ALLOW)
        for bit in (stat.S_ISUID, stat.S_ISGID):
            for call, arg in MODES.items():
                f.rule(refuse(errno.EPERM), call, Compare(arg, MASKED_EQUAL, bit, bit))
        f.rule(refuse(errno.ENOSYS), "openat2")  # its mode is behind a pointer
        yield f


# -- what is seen of the machine

def view(service):
    """Lines of a shell that has a mount namespace of its own."""
    def on(key):
        return service.get(key, [""])[-1] in ("yes", "strict", "invisible", "pid")

    if on("PrivateTmp"):
        yield "for at in /tmp /var/tmp; do mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs $at; done"
    if on("PrivateDevices"):
        yield (f"mkdir -p /run/units/dev; mount -t tmpfs -o mode=755 tmpfs /run/units/dev; for d in {DEVICES}; do "
               "touch /run/units/dev/$d; mount --bind /dev/$d /run/units/dev/$d; done; mount --rbind /run/units/dev /dev")
    if on("ProtectProc") or on("ProcSubset"):
        yield f"mount -t proc -o hidepid={'invisible' if on('ProtectProc') else 'off'}{',subset=pid' if on('ProcSubset') else ''} proc /proc"
    if on("ProtectSystem"):
        yield f"for at in {' '.join(service.get('ReadWritePaths', []))}; do mount --bind ${{at#-}} ${{at#-}} || [ $at != ${{at#-}} ]; done"
        yield "for at in / /run; do mount -o remount,bind,ro $at; done"
    if on("ProtectKernelTunables") and not on("ProcSubset"):
        yield "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; mount -o remount,bind,ro /sys"
    if on("ProtectKernelLogs") and not on("ProcSubset"):
        yield "mount --bind /dev/null /proc/kmsg"
    if on("ProtectControlGroups"):
        yield "awk '$9 ~ /^cgroup/ || $8 ~ /^cgroup/ { print $5 }' /proc/1/mountinfo | while read -r at; do mount -o remount,bind,ro $at; done"
    if on("ProtectHome"):
        yield "for at in /home /root; do mount -t tmpfs -o mode=0,ro tmpfs $at; done"


def limits(service):
    """prlimit's words; more than we have ourselves cannot be had on every machine that tests."""
    for key, option in (("LimitNOFILE", "nofile"), ("LimitCORE", "core"), ("LimitMEMLOCK", "memlock"), ("LimitMSGQUEUE", "msgqueue"),
                        ("LimitSIGPENDING", "sigpending"), ("LimitNPROC", "nproc")):
        if key in service:
            most = resource.getrlimit(getattr(resource, "RLIMIT_" + option.upper()))[1]
            want = resource.RLIM_INFINITY if service[key][-1] == "infinity" else int(service[key][-1])
            if most != resource.RLIM_INFINITY:
                want = most if want == resource.RLIM_INFINITY else min(want, most)
            yield f"--{option}={'unlimited' if want == resource.RLIM_INFINITY else want}"


def capabilities(service):
    """setpriv's words for what is left in the bounding set."""
    value = service.get("CapabilityBoundingSet")
    if not value:
        return []
    names = [n.removeprefix("CAP_").lower() for n in value[-1].lstrip("~").split()]
    if value[-1].startswith("~"):
        return ["--bounding-set=" + ",".join("-" + n for n in names)]
    return ["--bounding-set=-all" + "".join(",+" + n for n in names)]


class Units:
    """The units of a machine, which has enter(): argv that leads into it, and inside(): its files from here."""

    def __init__(self, machine, loader):
        self.machine, self.running, self.said = machine, {}, {}
        self.top = machine.inside("/run/units")
        self.top.mkdir(mode=0o755)
        os.chmod(self.top, 0o755)
        (self.top / "as-unit").write_bytes(pathlib.Path(loader).read_bytes())
        (self.top / "as-unit").chmod(0o755)

    def file(self, name):
        return self.machine.inside("/usr/lib/systemd/system/" + re.sub("@[^.]*", "@", name))

    def command(self, name, service):
        for key in service:
            assert key in DONE or key in PASSED_OVER, f"{name}: {key} is nothing that is known here"
        slice_ = service.get("Slice", ["system.slice"])[-1]
        cgroup = f"{slice_}/{name}/{service.get('DelegateSubgroup', [''])[-1]}"
        lines = ["set -e", *(f'mkdir -p "{c}/{cgroup}"; echo $$ >"{c}/{cgroup}/cgroup.procs"' for c in self.machine.cgroups)]
        seen = list(view(service))
        lines += seen
        paths = []
        for i, f in enumerate(filters(service)):
            f.write(self.top / f"{name}.{i}")
            paths.append(f"/run/units/{name}.{i}")
        as_whom = []
        if "User" in service:
            user, group = service["User"][-1], service["Group"][-1]
            groups = [group, *" ".join(service.get("SupplementaryGroups", [])).split()]
            as_whom = [f"--reuid={user}", f"--regid={group}", f"--groups={','.join(groups)}"]
        privileges = ["--no-new-privs"] if service.get("NoNewPrivileges") == ["yes"] else []
        lines.append(f"umask {service.get('UMask', ['0022'])[-1]}")
        lines.append("exec " + shlex.join(["prlimit", *limits(service), "--", "setpriv", *capabilities(service), *as_whom, *privileges,
                                           "/run/units/as-unit", *service.get("MemoryDenyWriteExecute", ["no"]), *paths, "--",
                                           *service["ExecStart"][-1].split()]))
        network = ["--net"] if service.get("PrivateNetwork") == ["yes"] else []
        # who has no view of its own is where everybody is
        mounts = ["--mount", "--propagation", "slave"] if seen else []
        return ["unshare", *network, *mounts, "sh", "-c", "\n".join(lines)]

    def start(self, name):
        if self.active(name):
            return
        service = read(self.file(name))
        env = dict(w.partition("=")[::2] for line in service.get("Environment", []) for w in line.split())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            path = self.top / "notify"
            path.unlink(missing_ok=True)
            notify.bind(str(path))
            path.chmod(0o666)
            log = open(self.top / f"{name}.log", "ab")
            p = subprocess.Popen([*self.machine.enter(), *self.command(name, service)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": "/run/units/notify", **env}, cwd="/")
            self.running[name] = p
            pidfd = os.pidfd_open(p.pid)
            ready, _, _ = select.select([notify, pidfd], [], [], 60)
            os.close(pidfd)
            assert notify in ready and notify.recv(64).startswith(b"READY=1"), f"{name} does not serve:\n{self.log(name)[-2000:]}"

    def stop(self, name, how=signal.SIGTERM):
        p = self.running.pop(name, None)
        if p and p.poll() is None:
            child = self.machine.child(p.pid)  # p itself is nsenter, which waits for it
            if child:  # else it has ended by itself, a moment before nsenter
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, how)
            p.wait(60)

    def active(self, name):
        return name in self.running and self.running[name].poll() is None

    def log(self, name):
        return (self.top / f"{name}.log").read_text(errors="replace")
