/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/unpack-confine.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mount.h"
#include "base/path.h"

#ifdef CAY_SANITIZED
#define ADDRESS_SPACE RLIM_INFINITY /* shadow memory is terabytes of it */
#else
#define ADDRESS_SPACE MIB(512)
#endif

#define UNPACK_CAPS (1u << CAP_CHOWN | 1u << CAP_FOWNER | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FSETID)

#define PACK_CAPS (1u << CAP_DAC_READ_SEARCH)
#define UNPACK_FDS 64
#define PACK_FDS 900 /* three a level */

static const struct {
	__rlimit_resource_t what;
	rlim_t max;
} limits[] = {
	{ RLIMIT_AS, ADDRESS_SPACE }, /* zstd may need a window of 128 MiB */
	{ RLIMIT_CPU, 600 },          { RLIMIT_NPROC, 1 },    { RLIMIT_CORE, 0 },
	{ RLIMIT_MEMLOCK, 0 },        { RLIMIT_MSGQUEUE, 0 },
};

/* System calls of unpacking. */
static const int unpack_calls[] = {
	/* the tar, the result, the config */
	SCMP_SYS(read),
	SCMP_SYS(pread64),
	SCMP_SYS(write),
	SCMP_SYS(close),
	SCMP_SYS(lseek),
	/* the tree */
	SCMP_SYS(openat),
	SCMP_SYS(openat2),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(getdents64),
	SCMP_SYS(mkdirat),
	SCMP_SYS(linkat),
	SCMP_SYS(symlinkat),
	SCMP_SYS(unlinkat),
	SCMP_SYS(renameat2),
	SCMP_SYS(pwrite64),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(utimensat),
};

/* Of packing: root's process answers questions over a socket. */
static const int pack_calls[] = {
	SCMP_SYS(read),       SCMP_SYS(write),      SCMP_SYS(close),   SCMP_SYS(lseek),
	SCMP_SYS(openat),     SCMP_SYS(openat2),    SCMP_SYS(fstat),   SCMP_SYS(newfstatat),
	SCMP_SYS(getdents64), SCMP_SYS(readlinkat), SCMP_SYS(sendmsg), SCMP_SYS(recvmsg),
	SCMP_SYS(poll),       SCMP_SYS(ppoll),
};

static const int common_calls[] = {
	/* memory; mmap and mprotect are below */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
#ifdef CAY_SANITIZED
	SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(sigaltstack),
	SCMP_SYS(sched_yield), SCMP_SYS(prctl),
#endif
	/* of libc and libcrypto */
	SCMP_SYS(futex), SCMP_SYS(getrandom), SCMP_SYS(clock_gettime), SCMP_SYS(restart_syscall),
	SCMP_SYS(exit), SCMP_SYS(exit_group)
};

int confine_clone_tree(int dirfd)
{
	return mount_clone(dirfd, "",
			   MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
				   MOUNT_ATTR_NOATIME,
			   -EBADF);
}

int confine_clone_tree_readonly(int dirfd)
{
	return mount_clone(dirfd, "",
			   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				   MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOATIME,
			   -EBADF);
}

static int confine_write_id_map(pid_t pid, const char *file)
{
	char path[64], map[64];
	auto_close int fd = -EBADF;
	int n;

	if (snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	n = snprintf(map, sizeof(map), "0 %u %u\n", FOREIGN_BASE, FOREIGN_IDS);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd_write_all(fd, map, (size_t)n);
}

/* Not fork(): one call creates namespaces and pidfd, and no atfork handler runs in between. */
static pid_t confine_clone_child(int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND | CLONE_NEWUSER | CLONE_NEWNS |
			 CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
			 CLONE_NEWCGROUP,
		.pidfd = (uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* The child waits for its ids; that its parent died meanwhile is end of file. */
[[noreturn]] static void confine_child_main(int (*run)(void *, int), void *arg, int parent)
{
	char go;
	ssize_t n;

	do
		n = read(parent, &go, 1);
	while (n < 0 && errno == EINTR);
	_exit(n == 1 ? run(arg, parent) : 1);
}

int confine_start_child(int (*run)(void *, int), void *arg, struct confined *ret,
			struct cay_err *err)
{
	auto_confined c = CONFINED_INIT;
	auto_close int child_end = -EBADF;
	int pipes[2], r = 0;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot make a pipe");
	child_end = pipes[0];
	c.alive = pipes[1];
	pid = confine_clone_child(&c.child.pidfd);
	if (pid == 0) {
		(void)close(pipes[1]);
		confine_child_main(run, arg, child_end);
	}
	if (pid < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot start a confined child");
	r = confine_write_id_map(pid, "uid_map");
	if (r >= 0)
		r = confine_write_id_map(pid, "gid_map");
	if (r >= 0)
		r = fd_write_all(c.alive, "", 1);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot give a child its ids");
	*ret = (struct confined){ { cay_take_fd(&c.child.pidfd) }, cay_take_fd(&c.alive) };
	return 0;
}

void confined_report_fill(struct confined_report *report, int r, const struct cay_err *err)
{
	report->code = (uint32_t)(r < 0 && err->code == CAY_OK ? CAY_E_INTERNAL : err->code);
	memcpy(report->msg, err->msg, sizeof(report->msg));
}

/* Any other becomes an internal error. */
static bool confined_code_is_allowed(uint32_t code)
{
	return code == CAY_E_INVALID || code == CAY_E_TOO_LARGE || code == CAY_E_NO_MEMORY ||
	       code == CAY_E_DISK_FULL || code == CAY_E_UNSUPPORTED;
}

int confined_report_check(struct confined_report *report, struct cay_err *err)
{
	report->msg[sizeof(report->msg) - 1] = 0;
	for (char *c = report->msg; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	if (report->code == CAY_OK)
		return 0;
	return cay_fail(err,
			confined_code_is_allowed(report->code) ? (enum cay_code)report->code
							       : CAY_E_INTERNAL,
			"%s", report->msg[0] ? report->msg : "the work failed");
}

void confined_fini(struct confined *c)
{
	child_fini(&c->child);
	cay_closep(&c->alive);
	c->alive = -EBADF;
}

/* First out of the way of every target, then into place, as spawn.c does. */
static int confine_stage_fds(struct confine *c, int *parent)
{
	int *all[CONFINE_FDS_MAX + 2] = { parent, &c->tree_fd };
	const int first = 3, n = (int)c->n_keep + 2;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	memcpy(all + 2, c->keep, c->n_keep * sizeof(all[0]));
	if (null >= 0)
		null = fcntl(null, F_DUPFD_CLOEXEC, first + n);
	for (int i = 0; i < n; i++) {
		*all[i] = fcntl(*all[i], F_DUPFD_CLOEXEC, first + n);
		if (*all[i] < 0)
			return -errno;
	}
	for (int i = 0; i < first; i++)
		if (null < 0 || dup3(null, i, O_CLOEXEC) < 0)
			return -errno;
	for (int i = 0; i < n; i++) {
		*all[i] = dup3(*all[i], first + i, O_CLOEXEC);
		if (*all[i] < 0)
			return -errno;
	}
	return close_range((unsigned)(first + n), UINT_MAX, 0) < 0 ? -errno : 0;
}

static int confine_stage_ids(struct confine *, int *)
{
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return -errno;
	(void)umask(0);
	return 0;
}

static int confine_stage_root(struct confine *c, int *)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    move_mount(c->tree_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    fchdir(c->tree_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	(void)close(c->tree_fd);
	return 0;
}

static int confine_drop_bounding_caps(uint32_t kept)
{
	for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if ((cap >= 32 || !(kept & 1u << cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -errno;
	return 0;
}

static int confine_stage_caps(struct confine *c, int *parent)
{
	const uint32_t kept = c->packs ? PACK_CAPS : UNPACK_CAPS;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { kept, kept, 0 } };
	struct pollfd gone = { .fd = *parent };
	int r = confine_drop_bounding_caps(kept);

	if (r < 0)
		return r;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &head, caps) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	/* changes of ids clear the death signal, so it is set here, and the parent
	 * may be gone already */
	if (poll(&gone, 1, 0) != 0)
		return -ESRCH;
	(void)close(*parent);
	return 0;
}

static int confine_set_rlimit(__rlimit_resource_t what, rlim_t max)
{
	const struct rlimit limit = { max, max };

	return setrlimit(what, &limit) < 0 ? -errno : 0;
}

static int confine_stage_rlimits(struct confine *c, int *)
{
	int r = confine_set_rlimit(RLIMIT_FSIZE, c->file_max);

	if (r >= 0)
		r = confine_set_rlimit(RLIMIT_NOFILE, c->packs ? PACK_FDS : UNPACK_FDS);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(limits); i++)
		r = confine_set_rlimit(limits[i].what, limits[i].max);
	return r;
}

static int confine_allow_calls(scmp_filter_ctx f, const int *calls, size_t n)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
	return r;
}

static int confine_stage_seccomp(struct confine *c, int *)
{
	const struct scmp_arg_cmp not_executable = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	/* fdopendir() reads the flags and sets close-on-exec */
	const struct scmp_arg_cmp get_flags = SCMP_A1(SCMP_CMP_EQ, F_GETFL);
	const struct scmp_arg_cmp set_cloexec = SCMP_A1(SCMP_CMP_EQ, F_SETFD);
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r = f ? 0 : -ENOMEM;

	if (r >= 0)
		r = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r >= 0)
		r = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
	if (r >= 0)
		r = confine_allow_calls(f, common_calls, ARRAY_SIZE(common_calls));
	if (r >= 0)
		r = c->packs ? confine_allow_calls(f, pack_calls, ARRAY_SIZE(pack_calls))
			     : confine_allow_calls(f, unpack_calls, ARRAY_SIZE(unpack_calls));
	if (r >= 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, not_executable);
	if (r >= 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, not_executable);
	if (r >= 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, set_cloexec);
	if (r >= 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, get_flags);
	if (r >= 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r;
}

int confine_self(struct confine *c, int parent, struct cay_err *err)
{
	static const struct {
		const char *name;
		int (*run)(struct confine *c, int *parent);
	} stages[] = {
		{ "fds", confine_stage_fds },        { "ids", confine_stage_ids },
		{ "root", confine_stage_root },      { "rights", confine_stage_caps },
		{ "limits", confine_stage_rlimits }, { "calls", confine_stage_seccomp },
	};

	for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
		int r = stages[i].run(c, &parent);

		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot confine the %s: %s",
					    c->packs ? "packer" : "unpacker", stages[i].name);
	}
	return 0;
}
