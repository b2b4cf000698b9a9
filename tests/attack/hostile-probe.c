/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe - which parts of the kernel answer at all
 *
 * A row is reachable when its call does not fail with EPERM, ENOSYS, EACCES,
 * EAFNOSUPPORT or ENOENT, is not ended by a signal, and a file is not merely a
 * mask (there and empty).  Any other error means that the kernel got as far as
 * looking at what we gave it.
 *
 * probes.def is the list that products are compared by, so its forms stay what
 * they were when Docker's were counted; probes-more.def has the stronger ones.
 * Where success would be felt by the machine the arguments are wrong in a way that
 * the kernel only sees behind its privilege check: kexec_load with flags that do
 * not exist, acct on a directory, swapon on a program that runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/quota.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

/* What the product promises; ESC-01. */
#define REACHABLE_MAX 8
#define MAX_HANDLE_BYTES 128

struct probe {
	const char *name;
	bool never;
	int (*fn)(const void *arg);
	long a, b, c;
	const char *path;
};

static int result_of(long r)
{
	return r < 0 ? errno : 0;
}

static int try_socket(const void *arg)
{
	const struct probe *p = arg;

	return result_of(socket((int)p->a, (int)p->b | SOCK_CLOEXEC, (int)p->c));
}

static int try_open(const void *arg)
{
	const struct probe *p = arg;
	int fd = open(p->path, (int)p->a | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno;
	if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
		return RESULT_MASKED;
	return 0;
}

static int try_read(const void *arg)
{
	const struct probe *p = arg;
	int fd = open(p->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char byte;
	ssize_t n;

	if (fd < 0)
		return errno;
	n = read(fd, &byte, 1);
	return n < 0 ? errno : n == 0 ? RESULT_MASKED : 0;
}

static int try_list(const void *arg)
{
	const struct probe *p = arg;
	DIR *dir = opendir(p->path);
	const struct dirent *e;

	if (!dir)
		return errno;
	while ((e = readdir(dir))) {
		if (e->d_name[0] != '.')
			return 0;
	}
	return RESULT_MASKED;
}

static int try_io_uring(const void *)
{
	struct io_uring_params params = { 0 };

	return result_of(syscall(SYS_io_uring_setup, 1, &params));
}

static int try_userfaultfd(const void *arg)
{
	const struct probe *p = arg;

	return result_of(syscall(SYS_userfaultfd, O_CLOEXEC | (int)p->a));
}

static int try_bpf(const void *)
{
	static const struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	static const char license[] = "Apache-2.0";
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insn_cnt = ARRAY_SIZE(program),
		.insns = (uintptr_t)program,
		.license = (uintptr_t)license,
	};

	return result_of(syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)));
}

static int try_perf(const void *arg)
{
	const struct probe *p = arg;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.exclude_kernel = (unsigned)p->a & 1,
		.exclude_hv = (unsigned)p->a & 1,
	};

	return result_of(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

static int try_keyctl(const void *)
{
	return result_of(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}

static int try_add_key(const void *)
{
	return result_of(
		syscall(SYS_add_key, "user", "cay-probe", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

static int try_unshare(const void *arg)
{
	const struct probe *p = arg;

	return result_of(unshare((int)p->a));
}

static int try_mount(const void *)
{
	return result_of(mount("tmpfs", "/", "tmpfs", MS_NOSUID, NULL));
}

static int handle_of(const char *path, struct file_handle *h)
{
	int id;

	h->handle_bytes = MAX_HANDLE_BYTES;
	return result_of(name_to_handle_at(AT_FDCWD, path, h, &id, 0));
}

static int try_name_handle(const void *)
{
	_Alignas(struct file_handle) char room[sizeof(struct file_handle) + MAX_HANDLE_BYTES];

	return handle_of("/", (struct file_handle *)(void *)room);
}

static int try_open_handle(const void *)
{
	_Alignas(struct file_handle) char room[sizeof(struct file_handle) + MAX_HANDLE_BYTES];
	struct file_handle *h = (struct file_handle *)(void *)room;

	memset(room, 0, sizeof(room));
	/* refused or not given: the root directory of most file systems is inode 2 */
	if (handle_of("/", h) != 0) {
		h->handle_bytes = 8;
		h->handle_type = 1;
		room[sizeof(*h)] = 2;
	}
	return result_of(open_by_handle_at(AT_FDCWD, h, O_RDONLY | O_CLOEXEC));
}

static int try_ptrace(const void *)
{
	return result_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int try_kexec(const void *)
{
	return result_of(syscall(SYS_kexec_load, 0UL, 0UL, NULL, ~0UL));
}

/* Any call by its number, with arguments that mean nothing. */
static int try_call(const void *arg)
{
	const struct probe *p = arg;

	return result_of(syscall(p->a, p->b, p->c, p->path, 0, 0, 0));
}

static int try_fsopen(const void *)
{
	return result_of(syscall(SYS_fsopen, "tmpfs", 1u));
}

static int try_syslog(const void *)
{
	char text[64];

	return result_of(syscall(SYS_syslog, 3, text, (int)sizeof(text)));
}

static int try_quotactl(const void *)
{
	return result_of(syscall(SYS_quotactl, QCMD(Q_QUOTAON, USRQUOTA), "/cay-no-such", 0, ""));
}

static int try_swapon(const void *)
{
	return result_of(swapon("/proc/self/exe", 0));
}

static int try_pidfd(const void *arg)
{
	const struct probe *p = arg;

	return result_of(syscall(SYS_pidfd_open, (pid_t)p->a, 0u));
}

static int try_landlock(const void *)
{
	return result_of(
		syscall(SYS_landlock_create_ruleset, NULL, 0UL, LANDLOCK_CREATE_RULESET_VERSION));
}

static int try_secret(const void *)
{
	return result_of(syscall(SYS_memfd_secret, 0u));
}

static int try_clone3(const void *arg)
{
	const struct probe *p = arg;
	struct clone_args args = { .flags = (unsigned long)p->a, .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	(void)waitpid((pid_t)pid, NULL, 0);
	return 0;
}

static int try_clone(const void *arg)
{
	const struct probe *p = arg;
	long pid = syscall(SYS_clone, p->a | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	(void)waitpid((pid_t)pid, NULL, 0);
	return 0;
}

static int try_setns(const void *arg)
{
	const struct probe *p = arg;
	int fd = open(p->path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? errno : result_of(setns(fd, 0));
}

static int try_acct(const void *)
{
	return result_of(acct("/"));
}

static int try_ldt(const void *)
{
	char room[64];

	return result_of(syscall(SYS_modify_ldt, 0, room, sizeof(room)));
}

static int try_persona(const void *arg)
{
	const struct probe *p = arg;

	return result_of(personality((unsigned long)p->a));
}

static int try_vmsplice(const void *)
{
	char byte = 'x';
	struct iovec v = { &byte, 1 };
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return errno;
	return result_of(vmsplice(fds[1], &v, 1, SPLICE_F_NONBLOCK));
}

static int try_vm_readv(const void *)
{
	char from = 'x', to;
	struct iovec local = { &to, 1 }, remote = { &from, 1 };

	return result_of(process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
}

static int try_int80(const void *)
{
	const long i386_getpid = 20;
	long r = int80(i386_getpid, 0, 0, 0);

	return r == getpid() ? 0 : r < 0 ? (int)-r : EIO;
}

static const struct probe probes[] = {
#define NEVER true
#define MAY false
#define PROBE(name, never, fn, a, b, c, path) { name, never, fn, a, b, c, path },
#include "probes.def"
#undef PROBE
};
static_assert(ARRAY_SIZE(probes) == 53);

/* Stronger forms and later finds, none of which may be reachable. */
static const struct probe more[] = {
#define PROBE(name, never, fn, a, b, c, path) { name, never, fn, a, b, c, path },
#include "probes-more.def"
#undef PROBE
};

static bool is_reachable(int result)
{
	return result < RESULT_SIGNAL && result != EPERM && result != ENOSYS && result != EACCES &&
	       result != EAFNOSUPPORT && result != ENOENT;
}

struct counts {
	unsigned reachable, never;
};

static struct counts run(const struct probe *table, size_t n)
{
	struct counts c = { 0 };

	for (size_t i = 0; i < n; i++) {
		int result = attempt(table[i].fn, &table[i]);
		bool yes = is_reachable(result);

		c.reachable += yes;
		c.never += yes && table[i].never;
		printf("%s|%s|%s\n", table[i].name,
		       yes ? table[i].never ? "REACHABLE" : "reachable" : "no",
		       result_text(result));
	}
	return c;
}

int mode_probe(int, char **)
{
	struct counts base = run(probes, ARRAY_SIZE(probes));
	struct counts rest;

	printf("probe: %u of %zu reachable, %u that must never be\n", base.reachable,
	       ARRAY_SIZE(probes), base.never);
	rest = run(more, ARRAY_SIZE(more));
	printf("probe: %u of %zu more reachable\n", rest.reachable, ARRAY_SIZE(more));
	return base.never == 0 && base.reachable <= REACHABLE_MAX && rest.never == 0 ? 0 : 1;
}
