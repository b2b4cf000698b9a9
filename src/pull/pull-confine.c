/* SPDX-License-Identifier: Apache-2.0 */
#include "pull/pull-confine.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#define FS(right) LANDLOCK_ACCESS_FS_##right
#define READ_FILES (FS(READ_FILE) | FS(READ_DIR))
#define PROGRAMS (READ_FILES | FS(EXECUTE))
#define OWN \
	(READ_FILES | FS(WRITE_FILE) | FS(REMOVE_DIR) | FS(REMOVE_FILE) | FS(MAKE_DIR) | \
	 FS(MAKE_REG) | FS(MAKE_SYM) | FS(REFER) | FS(TRUNCATE))
/* What a rule for a file, not a directory, may have. */
#define OF_FILES (FS(EXECUTE) | FS(WRITE_FILE) | FS(READ_FILE) | FS(TRUNCATE))
#define NET (LANDLOCK_ACCESS_NET_BIND_TCP)
#define SCOPE (LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL)
#define MEMORY_MAX (2 * MIB(1024)) /* of data; Go reserves far more addresses than it uses */
#define TASKS_MAX 1024             /* threads of all pulls: the limit counts the user's */

static const struct {
	const char *path;
	uint64_t rights;
} pull_paths[] = {
	{ "/usr", PROGRAMS },
	{ "/lib", PROGRAMS },
	{ "/lib64", PROGRAMS },
	{ "/bin", PROGRAMS },
	{ "/etc/ld.so.cache", READ_FILES },
	{ "/etc/ssl/certs", READ_FILES },
	{ "/etc/ssl/openssl.cnf", READ_FILES },
	{ "/etc/pki/tls", READ_FILES },
	{ "/etc/pki/ca-trust", READ_FILES },
	{ "/etc/ca-certificates", READ_FILES },
	{ "/etc/containers", READ_FILES },
	{ "/etc/docker/certs.d", READ_FILES },
	{ "/etc/resolv.conf", READ_FILES },
	{ "/etc/hosts", READ_FILES },
	{ "/etc/host.conf", READ_FILES },
	{ "/etc/gai.conf", READ_FILES },
	{ "/etc/nsswitch.conf", READ_FILES },
	{ "/etc/services", READ_FILES },
	{ "/etc/localtime", READ_FILES },
	{ "/dev/null", FS(READ_FILE) | FS(WRITE_FILE) },
	{ "/dev/urandom", FS(READ_FILE) },
};

static const int pull_refused_calls[] = {
	/* other sockets, and ways to make calls that no filter sees */
	SCMP_SYS(socketpair), SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	/* other processes */
	SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
	SCMP_SYS(process_madvise), SCMP_SYS(kcmp), SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_getfd),
	SCMP_SYS(pidfd_send_signal), SCMP_SYS(tkill), SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo), SCMP_SYS(shmget), SCMP_SYS(msgget), SCMP_SYS(semget),
	SCMP_SYS(mq_open),
	/* namespaces and mounts */
	SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(fsopen),
	SCMP_SYS(fsmount), SCMP_SYS(fsconfig), SCMP_SYS(fspick), SCMP_SYS(open_tree),
	SCMP_SYS(move_mount), SCMP_SYS(mount_setattr), SCMP_SYS(pivot_root), SCMP_SYS(chroot),
	/* the kernel's larger parts */
	SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(keyctl), SCMP_SYS(add_key),
	SCMP_SYS(request_key), SCMP_SYS(userfaultfd), SCMP_SYS(open_by_handle_at),
	SCMP_SYS(name_to_handle_at), SCMP_SYS(init_module), SCMP_SYS(finit_module),
	SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load)
};

static long pull_landlock_version(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* 3 is the first without a way around its rules for writing: truncate(). */
int pull_confine_probe(struct cay_err *err)
{
	if (pull_landlock_version() < 3)
		return cay_fail(
			err, CAY_E_UNSUPPORTED,
			"this kernel has no Landlock of version 3 (Linux 6.2, and "
			"'landlock' in /sys/kernel/security/lsm), so pulls cannot be confined");
	return 0;
}

/* Every right this kernel knows is handled: what no rule grants is refused. */
static struct landlock_ruleset_attr pull_landlock_rights(long version)
{
	struct landlock_ruleset_attr all = { .handled_access_fs = (FS(TRUNCATE) << 1) - 1 };

	if (version >= 4)
		all.handled_access_net = NET;
	if (version >= 5)
		all.handled_access_fs |= FS(IOCTL_DEV);
	if (version >= 6)
		all.scoped = SCOPE;
	return all;
}

static int pull_landlock_allow(int rules, int fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = rights, .parent_fd = fd };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= OF_FILES;
	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		       ? -errno
		       : 0;
}

/* A directory that is absent needs no rule. */
static int pull_landlock_allow_path(int rules, const char *path, uint64_t rights)
{
	auto_close int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? 0 : -errno;
	return pull_landlock_allow(rules, fd, rights);
}

static int pull_confine_files(const struct pull_confine *c)
{
	const struct landlock_ruleset_attr all = pull_landlock_rights(pull_landlock_version());
	auto_close int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);
	int r = rules < 0 ? -errno : pull_landlock_allow(rules, c->dir_fd, OWN);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(pull_paths); i++)
		r = pull_landlock_allow_path(rules, pull_paths[i].path, pull_paths[i].rights);
	if (r >= 0)
		r = pull_landlock_allow_path(rules, c->program, PROGRAMS);
	if (r >= 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		r = -errno;
	return r;
}

/* The families are numbers from 0, of which AF_INET and AF_INET6 stay. */
static int pull_refuse_families(scmp_filter_ctx f, uint32_t refuse)
{
	int r = seccomp_rule_add(f, refuse, SCMP_SYS(socket), 1,
				 SCMP_A0(SCMP_CMP_GT, (scmp_datum_t)AF_INET6));

	for (scmp_datum_t family = 0; r >= 0 && family < AF_INET6; family++)
		if (family != AF_INET)
			r = seccomp_rule_add(f, refuse, SCMP_SYS(socket), 1,
					     SCMP_A0(SCMP_CMP_EQ, family));
	return r;
}

/* Signals to itself are how Go's runtime works; its pid stays the same when it executes. */
static int pull_refuse_signals(scmp_filter_ctx f, uint32_t refuse)
{
	const struct scmp_arg_cmp other = SCMP_A0(SCMP_CMP_NE, (scmp_datum_t)getpid());
	int r = seccomp_rule_add(f, refuse, SCMP_SYS(kill), 1, other);

	return r < 0 ? r : seccomp_rule_add(f, refuse, SCMP_SYS(tgkill), 1, other);
}

static int pull_refuse_namespaces(scmp_filter_ctx f, uint32_t refuse)
{
	static const scmp_datum_t flags[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
					      CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
					      CLONE_NEWNET };
	/* a filter does not see its flags; the C library then uses clone() */
	int r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(flags); i++)
		r = seccomp_rule_add(f, refuse, SCMP_SYS(clone), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
	return r;
}

static int pull_confine_calls(void)
{
	const uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int r = f ? 0 : -ENOMEM;

	if (r >= 0)
		r = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r >= 0)
		r = pull_refuse_families(f, refuse);
	if (r >= 0)
		r = pull_refuse_signals(f, refuse);
	if (r >= 0)
		r = pull_refuse_namespaces(f, refuse);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(pull_refused_calls); i++)
		r = seccomp_rule_add(f, refuse, pull_refused_calls[i], 0);
	if (r >= 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r;
}

static int pull_confine_limits(const struct pull_confine *c)
{
	const struct {
		__rlimit_resource_t what;
		rlim_t max;
	} limits[] = {
		{ RLIMIT_FSIZE, c->file_max },
		{ RLIMIT_DATA, MEMORY_MAX },
		{ RLIMIT_NPROC, TASKS_MAX },
		{ RLIMIT_NOFILE, 1024 },
		{ RLIMIT_CORE, 0 },
		{ RLIMIT_MEMLOCK, 0 },
		{ RLIMIT_MSGQUEUE, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (setrlimit(limits[i].what, &(struct rlimit){ limits[i].max, limits[i].max }) < 0)
			return -errno;
	return 0;
}

int pull_confine_self(const struct pull_confine *c)
{
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : pull_confine_limits(c);

	if (r >= 0)
		r = pull_confine_files(c);
	return r < 0 ? r : pull_confine_calls();
}
