/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/path.h"
#include "cli/setup/doctor.h"

/* path_read() refuses files of /proc and /sys: their size is 0. */
int doctor_proc_file_read(const char *path, struct buf *ret)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	for (;;) {
		int r = buf_reserve(ret, 4096);
		ssize_t n;

		if (r < 0)
			return r;
		n = read(fd, ret->data + ret->len, 4096);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		ret->len += (size_t)n;
		ret->data[ret->len] = 0;
	}
}

static void doctor_check_kernel_version(struct doctor_finding *f)
{
	struct utsname u;
	bool old = uname(&u) < 0 || doctor_version_compare(u.release, f->row->version) < 0;

	finding_set(f, old ? f->row->bad : VERDICT_OK, "%s, want %s or later", u.release,
		    f->row->version);
}

static void doctor_check_sysctl_minimum(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(KIB(8));
	struct slice rest;
	uint64_t v;
	int r = doctor_proc_file_read(f->row->path, &text);

	rest = (struct slice){ buf_str(&text), text.len };
	if (r < 0)
		finding_set(f, VERDICT_WARN, "%s: %s", f->row->path, strerror(-r));
	else if (str_parse_u64(slice_cut(&rest, '\n'), 0, UINT64_MAX, &v) < 0)
		finding_set(f, VERDICT_WARN, "%s is not a number", f->row->path);
	else
		finding_set(f, v < f->row->want ? f->row->bad : VERDICT_OK, "%llu, want %llu",
			    (unsigned long long)v, (unsigned long long)f->row->want);
}

static void doctor_check_sysctl_zero(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(KIB(8));
	struct slice rest;
	int r = doctor_proc_file_read(f->row->path, &text);

	rest = (struct slice){ buf_str(&text), text.len };
	if (r == -ENOENT)
		finding_set(f, VERDICT_OK, "the kernel does not have it");
	else if (r < 0)
		finding_set(f, VERDICT_WARN, "%s: %s", f->row->path, strerror(-r));
	else if (!slice_eq(slice_cut(&rest, '\n'), SLICE("0")))
		finding_set(f, f->row->bad, "on");
	else
		finding_set(f, VERDICT_OK, "off");
}

/* Older kernels ask for a module when a program has a format they do not know. */
static void doctor_check_module_loader(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(KIB(8));
	struct utsname u;
	struct slice rest, program;

	if (uname(&u) == 0 && doctor_version_compare(u.release, f->row->version) >= 0)
		finding_set(f, VERDICT_OK, "not started by programs of unknown format");
	if (doctor_proc_file_read(f->row->path, &text) < 0)
		finding_set(f, VERDICT_OK, "the kernel does not load modules");
	rest = (struct slice){ buf_str(&text), text.len };
	program = slice_cut(&rest, '\n');
	finding_set(f, program.n ? f->row->bad : VERDICT_OK, "%s%.*s",
		    program.n ? "a sandbox can start " : "off",
		    (int)(program.n > 200 ? 200 : program.n), program.p);
}

/* A program (|) is not started for sandboxes, whose limit of cores is 1; a socket (@) has no such
 * rule. */
static void doctor_check_core_pattern(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(KIB(8));
	const char *pattern;

	if (doctor_proc_file_read(f->row->path, &text) < 0)
		finding_set(f, VERDICT_OK, "the kernel writes no cores");
	pattern = buf_str(&text);
	finding_set(f, pattern[0] == '@' ? f->row->bad : VERDICT_OK, "%s",
		    pattern[0] == '@'   ? "a socket that crashes of sandboxes reach"
		    : pattern[0] == '|' ? "a program, not started for sandboxes"
					: "a file");
}

/* The next mount: its mount point, type and superblock options. */
static bool doctor_mountinfo_next_line(struct slice *text, struct slice *point, struct slice *type,
				       struct slice *options)
{
	while (text->p && text->n) {
		struct slice line = slice_cut(text, '\n'), word = {};

		for (int i = 0; i < 5; i++)
			word = slice_cut(&line, ' ');
		*point = word;
		while (line.p && !slice_eq(slice_cut(&line, ' '), SLICE("-")))
			;
		if (!line.p)
			continue;
		*type = slice_cut(&line, ' ');
		(void)slice_cut(&line, ' ');
		*options = line;
		return true;
	}
	return false;
}

static bool doctor_word_list_has(struct slice list, char separator, const char *word)
{
	while (list.p)
		if (slice_eq(slice_cut(&list, separator), slice_of(word)))
			return true;
	return false;
}

static void doctor_check_cgroup2_mount(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(MIB(1));
	struct slice rest, point, type, options;

	if (doctor_proc_file_read("/proc/self/mountinfo", &text) < 0)
		finding_set(f, VERDICT_WARN, "cannot read /proc/self/mountinfo");
	rest = (struct slice){ buf_str(&text), text.len };
	while (doctor_mountinfo_next_line(&rest, &point, &type, &options))
		if (slice_eq(type, SLICE("cgroup2")))
			finding_set(f, VERDICT_OK, "at %.*s", (int)(point.n > 200 ? 200 : point.n),
				    point.p);
	finding_set(f, f->row->bad, "not mounted");
}

/* On a hybrid machine memory, cpu and pids may belong to version 1. */
static void doctor_check_cgroup_controllers(struct doctor_finding *f)
{
	static const char *const wanted[] = { "memory", "cpu", "pids" };
	auto_buf mounts = BUF_INIT(MIB(1)), say = BUF_INIT(256);
	unsigned v1 = 0, v2 = 0;
	struct slice rest, point, type, options;

	(void)!doctor_proc_file_read("/proc/self/mountinfo", &mounts);
	rest = (struct slice){ buf_str(&mounts), mounts.len };
	while (doctor_mountinfo_next_line(&rest, &point, &type, &options)) {
		auto_buf path = BUF_INIT(KIB(4)), names = BUF_INIT(KIB(4));

		if (slice_eq(type, SLICE("cgroup2")) &&
		    buf_printf(&path, "%.*s/cgroup.controllers", (int)point.n, point.p) >= 0 &&
		    doctor_proc_file_read(buf_str(&path), &names) >= 0 && names.len)
			buf_truncate(&names, names.len - 1);
		for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++) {
			if (slice_eq(type, SLICE("cgroup")) &&
			    doctor_word_list_has(options, ',', wanted[i]))
				v1 |= 1u << i;
			if (doctor_word_list_has((struct slice){ buf_str(&names), names.len }, ' ',
						 wanted[i]))
				v2 |= 1u << i;
		}
	}
	for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++)
		if (buf_printf(&say, "%s%s %s", i ? ", " : "", wanted[i],
			       v2 & 1u << i   ? "v2"
			       : v1 & 1u << i ? "v1"
					      : "missing") < 0)
			break;
	finding_set(f, (v1 | v2) == 7 ? VERDICT_OK : f->row->bad, "%s", buf_str(&say));
}

static void doctor_check_filesystem(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(KIB(64));
	struct slice rest;

	(void)!doctor_proc_file_read("/proc/filesystems", &text);
	rest = (struct slice){ buf_str(&text), text.len };
	while (rest.p) {
		struct slice name = slice_cut(&rest, '\n');

		(void)slice_cut(&name, '\t');
		if (slice_eq(name, slice_of(f->row->path)))
			finding_set(f, VERDICT_OK, "available");
	}
	finding_set(f, f->row->bad, "not in /proc/filesystems (a module may need to be loaded)");
}

/* A call that fails with another error than ENOSYS or EOPNOTSUPP exists. */
static void doctor_check_syscall(struct doctor_finding *f)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH };
	struct mount_attr attr = {};
	bool there;
	int r;

	if (f->row->want == SYS_openat2)
		r = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));
	else if (f->row->want == SYS_pidfd_open)
		r = (int)syscall(SYS_pidfd_open, getpid(), 0);
	else
		r = (int)syscall(SYS_mount_setattr, -1, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	there = r >= 0 || (errno != ENOSYS && errno != EOPNOTSUPP);
	if (r >= 0 && f->row->want != SYS_mount_setattr)
		(void)close(r);
	finding_set(f, there ? VERDICT_OK : f->row->bad, "%s",
		    there ? "available" : "not available, or blocked by a filter");
}

static void doctor_check_seccomp(struct doctor_finding *f)
{
	auto_buf text = BUF_INIT(KIB(8));
	bool there = prctl(PR_GET_SECCOMP) >= 0 &&
		     doctor_proc_file_read(f->row->path, &text) >= 0 &&
		     strstr(buf_str(&text), "kill_process");

	finding_set(f, there ? VERDICT_OK : f->row->bad, "%s",
		    there ? "filters can kill a process" : "no seccomp filters");
}

#define SYSCTL "set it in /etc/sysctl.d: one node runs thousands of sandboxes"

/* clang-format off */
const struct doctor_check doctor_kernel[] = {
	{ "kernel",            doctor_check_kernel_version, .version = "6.1", .bad = VERDICT_FAIL, .advice = "run a kernel of 2022 or later" },
	{ "exit status",       doctor_check_kernel_version, .version = "6.15", .bad = VERDICT_WARN, .advice = "use 6.15 or later: before, pidfds do not report exit statuses after reaping, and some are inferred" },
	{ "cgroup v2",         doctor_check_cgroup2_mount, .bad = VERDICT_FAIL, .advice = "mount cgroup2: it tracks the processes of a sandbox" },
	{ "controllers",       doctor_check_cgroup_controllers, .bad = VERDICT_FAIL, .advice = "enable memory, cpu and pids in version 2 or 1: limits need them" },
	{ "pid_max",           doctor_check_sysctl_minimum, "/proc/sys/kernel/pid_max", 4194304, .bad = VERDICT_WARN, .advice = "sysctl kernel.pid_max=4194304; " SYSCTL },
	{ "user namespaces",   doctor_check_sysctl_minimum, "/proc/sys/user/max_user_namespaces", 10000, .bad = VERDICT_WARN, .advice = "sysctl user.max_user_namespaces=65536; " SYSCTL },
	{ "net namespaces",    doctor_check_sysctl_minimum, "/proc/sys/user/max_net_namespaces", 10000, .bad = VERDICT_WARN, .advice = "sysctl user.max_net_namespaces=65536; " SYSCTL },
	{ "mount namespaces",  doctor_check_sysctl_minimum, "/proc/sys/user/max_mnt_namespaces", 10000, .bad = VERDICT_WARN, .advice = "sysctl user.max_mnt_namespaces=65536; " SYSCTL },
	{ "inotify instances", doctor_check_sysctl_minimum, "/proc/sys/fs/inotify/max_user_instances", 1024, .bad = VERDICT_WARN, .advice = "sysctl fs.inotify.max_user_instances=8192; " SYSCTL },
	{ "inotify watches",   doctor_check_sysctl_minimum, "/proc/sys/fs/inotify/max_user_watches", 65536, .bad = VERDICT_WARN, .advice = "sysctl fs.inotify.max_user_watches=1048576; " SYSCTL },
	{ "terminals",         doctor_check_sysctl_minimum, "/proc/sys/kernel/pty/max", 4096, .bad = VERDICT_WARN, .advice = "sysctl kernel.pty.max=16384; " SYSCTL },
	{ "open files",        doctor_check_sysctl_minimum, "/proc/sys/fs/file-max", 1048576, .bad = VERDICT_WARN, .advice = "sysctl fs.file-max=4194304; " SYSCTL },
	{ "socket queue",      doctor_check_sysctl_minimum, "/proc/sys/net/core/somaxconn", 1024, .bad = VERDICT_WARN, .advice = "sysctl net.core.somaxconn=4096: bursts of requests queue there" },
	{ "datagram queue",    doctor_check_sysctl_minimum, "/proc/sys/net/unix/max_dgram_qlen", 128, .bad = VERDICT_WARN, .advice = "sysctl net.unix.max_dgram_qlen=512" },
	{ "line disciplines",  doctor_check_sysctl_zero, "/proc/sys/dev/tty/ldisc_autoload", .bad = VERDICT_WARN, .advice = "sysctl dev.tty.ldisc_autoload=0: no terminal has the kernel load a module" },
	{ "module loader",     doctor_check_module_loader, "/proc/sys/kernel/modprobe", .version = "6.14", .bad = VERDICT_WARN, .advice = "use 6.14 or later, or load what this machine needs at boot and set sysctl kernel.modprobe= (empty): docs/operations.md" },
	{ "core_pattern",      doctor_check_core_pattern, "/proc/sys/kernel/core_pattern", .bad = VERDICT_WARN, .advice = "set sysctl kernel.core_pattern to a file or a program" },
	{ "overlayfs",         doctor_check_filesystem, "overlay", .bad = VERDICT_FAIL, .advice = "modprobe overlay" },
	{ "idmapped mounts",   doctor_check_syscall, .want = SYS_mount_setattr, .bad = VERDICT_FAIL, .advice = "use a kernel with mount_setattr(): files of sandboxes are mapped to their users at mount" },
	{ "openat2",           doctor_check_syscall, .want = SYS_openat2, .bad = VERDICT_FAIL, .advice = "use a kernel with openat2(): untrusted paths are resolved with it" },
	{ "pidfd",             doctor_check_syscall, .want = SYS_pidfd_open, .bad = VERDICT_FAIL, .advice = "use a kernel with pidfd_open(): processes are tracked by pidfd" },
	{ "seccomp",           doctor_check_seccomp, "/proc/sys/kernel/seccomp/actions_avail", .bad = VERDICT_FAIL, .advice = "the kernel needs CONFIG_SECCOMP_FILTER" },
	{ NULL },
};
/* clang-format on */
