/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/confine.h"

#include <linux/landlock.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/mem.h"

static const int confine_allowed_syscalls[] = {
	/* the loop */
	SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_wait), SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	/* open sockets */
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(sendmsg),
	SCMP_SYS(sendto), SCMP_SYS(recvmsg), SCMP_SYS(recvfrom), SCMP_SYS(accept4),
	SCMP_SYS(connect), SCMP_SYS(shutdown), SCMP_SYS(close), SCMP_SYS(getsockname),
	SCMP_SYS(getpeername), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt), SCMP_SYS(fcntl),
	/* its own counters, from open files */
	SCMP_SYS(pread64), SCMP_SYS(fstat),
	/* memory; mmap and mprotect are below */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
	/* libc and libcrypto */
	SCMP_SYS(futex), SCMP_SYS(getrandom), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),
	SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group)
};

/* To see which addresses are this machine's, to move bytes between sockets, and to give one away.
 */
static const int confine_dialling_syscalls[] = { SCMP_SYS(bind), SCMP_SYS(pipe2), SCMP_SYS(splice),
						 SCMP_SYS(socketpair) };

/* To write, rotate and replace files; which, landlock says. */
static const int confine_log_syscalls[] = { SCMP_SYS(openat2),   SCMP_SYS(unlinkat),
					    SCMP_SYS(fsync),     SCMP_SYS(fdatasync),
					    SCMP_SYS(ftruncate), SCMP_SYS(getdents64),
					    SCMP_SYS(lseek),     SCMP_SYS(mkdirat),
					    SCMP_SYS(renameat) };

static const int confine_families[] = { AF_UNIX, AF_INET, AF_INET6 };

struct confine_list {
	const int *v;
	size_t n;
};

static int confine_allow(scmp_filter_ctx ctx, struct confine_list list)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < list.n; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, list.v[i], 0);
	return r;
}

static int confine_add_syscall_rules(scmp_filter_ctx ctx, size_t n_families,
				     struct confine_list more)
{
	int r = confine_allow(ctx, (struct confine_list){ confine_allowed_syscalls,
							  ARRAY_SIZE(confine_allowed_syscalls) });

	if (r >= 0)
		r = confine_allow(ctx, more);
	for (size_t i = 0; r >= 0 && i < n_families; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)confine_families[i]));
	if (r >= 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_EQ, FIONBIO));
	if (r >= 0) /* bytes that a peer has not acknowledged */
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_EQ, SIOCOUTQ));
	if (r >= 0) /* abort() */
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	if (r >= 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r >= 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return r;
}

static int confine_load_filter(scmp_filter_ctx ctx, int r, struct cay_err *err)
{
	if (r >= 0)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "load a system call filter") : 0;
}

int confine_deny_io_uring(struct cay_err *err)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

	if (!ctx)
		return cay_no_memory(err);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		seccomp_release(ctx);
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "prctl");
	}
	return confine_load_filter(
		ctx, seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0),
		err);
}

/* A seccomp filter cannot see addresses, and an accepted socket can be reconnected, so deny TCP
 * connects altogether (Linux 6.7; older kernels have the filter alone). */
static void confine_deny_tcp_connect(void)
{
	struct landlock_ruleset_attr rules = { .handled_access_net =
						       LANDLOCK_ACCESS_NET_CONNECT_TCP };
	long fd = syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);

	if (fd < 0)
		return;
	(void)syscall(SYS_landlock_restrict_self, fd, 0);
	(void)close((int)fd);
}

static int confine_load(size_t n_families, struct confine_list more, struct cay_err *err)
{
	scmp_filter_ctx ctx;

#ifdef CAY_SANITIZED
	return 0; /* a sanitizer opens files at exit */
#endif
	ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!ctx)
		return cay_no_memory(err);
	return confine_load_filter(ctx, confine_add_syscall_rules(ctx, n_families, more), err);
}

int confine_daemon(struct cay_err *err)
{
	confine_deny_tcp_connect();
	return confine_load(1, (struct confine_list){}, err);
}

int confine_dialling_daemon(struct cay_err *err)
{
	return confine_load(ARRAY_SIZE(confine_families),
			    (struct confine_list){ confine_dialling_syscalls,
						   ARRAY_SIZE(confine_dialling_syscalls) },
			    err);
}

/* Files below dirfd and no others (Linux 5.13; older kernels have the filter alone). */
static int confine_to_directory(int dirfd)
{
	const uint64_t in_it = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
			       LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |
			       LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR;
	struct landlock_ruleset_attr rules = { .handled_access_fs =
						       (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1 };
	struct landlock_path_beneath_attr here = { .allowed_access = in_it, .parent_fd = dirfd };
	auto_close int fd = (int)syscall(SYS_landlock_create_ruleset, &rules,
					 sizeof(rules.handled_access_fs), 0);

	if (fd < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	if (syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &here, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return -errno;
	return 0;
}

int confine_log_writer(int dirfd)
{
	struct cay_err err = {};
	int r = confine_to_directory(dirfd);

	return r < 0 ? r
		     : confine_load(0,
				    (struct confine_list){ confine_log_syscalls,
							   ARRAY_SIZE(confine_log_syscalls) },
				    &err);
}
