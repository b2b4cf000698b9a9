/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-init - PID 1 of a sandbox
 *
 *	cay-init [--no-cgroup | --wait]
 *
 * Inherited: fd 3, a listening unix socket; fd 4, the directory of its v2 cgroup; fd 5, the
 * file mounted as /proc/meminfo; fd 6, its v1 memory cgroup where memory is on v1.  With
 * --no-cgroup (tests) there are no cgroups, and an exec is killed by process group.  With
 * --wait it only sleeps, while the keeper checks a runtime.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/core/handlers.h"
#include "init/exec/exec-child.h"
#include "init/exec/meminfo.h"
#include "init/exec/output-excerpt.h"
#include "init/file/child-op.h"
#include "init/kernel/kernel.h"

#define FD_SOCKET 3
#define FD_CGROUP 4
#define FD_MEMINFO 5
#define FD_MEMORY 6
#define MAX_CONNS 256
#define BODIES_MAX MIB(32)
#define BODIES_MEMORY_SHARE 8 /* of the sandbox's memory */
#define HEAD_TIMEOUT_MS 10000
#define IDLE_TIMEOUT_MS 60000

static int init_report_fatal(const char *what, int r)
{
	(void)dprintf(STDERR_FILENO, "cay-init: %s: %s\n", what, strerror(-r));
	return 1;
}

/* The kernel does not deliver signals without a handler to PID 1.  These arrive when cay-init
 * is not PID 1 (tests), or are caused by itself (SIGPIPE). */
static void init_ignore_signals(void)
{
	static const uint64_t to_default[4] = {}; /* the kernel's struct: handler 0, no flags */
	struct sigaction sa = { .sa_handler = SIG_IGN };

	/* signals may be ignored by inheritance; the C library refuses 32 and 33 */
	for (int i = 1; i <= 64; i++)
		(void)syscall(SYS_rt_sigaction, i, to_default, NULL, sizeof(uint64_t));
	for (size_t i = 0; i < CHILD_IGNORED_N; i++)
		(void)sigaction(child_ignored[i], &sa, NULL);
}

/* Fill fds 0 to 2, so that no other file becomes one of them. */
static int init_fill_stdio(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return -errno;
	(void)close(fd);
	return 0;
}

static int init_check_memory_fd(void)
{
	struct statfs st;

	if (fstatfs(FD_MEMORY, &st) < 0 || st.f_type != CGROUP_SUPER_MAGIC ||
	    fcntl(FD_MEMORY, F_SETFD, FD_CLOEXEC) < 0)
		return -EBADF;
	return FD_MEMORY;
}

static int init_check_meminfo_fd(void)
{
	struct stat st;

	if (fstat(FD_MEMINFO, &st) < 0 || !S_ISREG(st.st_mode) ||
	    fcntl(FD_MEMINFO, F_SETFD, FD_CLOEXEC) < 0)
		return -EBADF;
	return FD_MEMINFO;
}

static int init_check_fds(bool with_cgroup, int *ret_cgroup)
{
	struct stat st;

	if (fstat(FD_SOCKET, &st) < 0 || !S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	if (fcntl(FD_SOCKET, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	*ret_cgroup = -EBADF;
	if (!with_cgroup)
		return 0;
	if (fstat(FD_CGROUP, &st) < 0 || !S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (fcntl(FD_CGROUP, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	*ret_cgroup = FD_CGROUP;
	return 0;
}

/* Limits that the kernel counts per user.  It also counts them for the creator of the user
 * namespace, host root for all sandboxes, against that process's limit; set there, one sandbox
 * could use up the limit of all.  So the keeper sets none and PID 1 sets these, which no
 * process inside can raise. */
static int init_lower_rlimits(void)
{
	static const struct {
		enum __rlimit_resource what;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_MEMLOCK, 65536 },
		{ RLIMIT_MSGQUEUE, 819200 },
		{ RLIMIT_SIGPENDING, 4096 },
		{ RLIMIT_CORE, 1 }, /* no core: src/lib/oci/oci-config.c says why not 0 */
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit now;

		if (getrlimit(limits[i].what, &now) < 0)
			return -errno;
		if (now.rlim_max > limits[i].most)
			now.rlim_max = limits[i].most;
		now.rlim_cur = now.rlim_max;
		if (setrlimit(limits[i].what, &now) < 0)
			return -errno;
	}
	return 0;
}

static int init_raise_nofile(struct init *in)
{
	struct rlimit more;

	if (getrlimit(RLIMIT_NOFILE, &in->nofile) < 0)
		return -errno;
	more = in->nofile;
	if (more.rlim_cur < FDS_WANTED)
		more.rlim_cur = more.rlim_max < FDS_WANTED ? more.rlim_max : FDS_WANTED;
	return setrlimit(RLIMIT_NOFILE, &more) < 0 ? -errno : 0;
}

/* PID 1 also inherits the orphans of the sandbox. */
static void on_child_exit_signal(uv_signal_t *s, int)
{
	struct rusage used;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG | __WALL, &used)) > 0)
		if (!exec_handle_exit(s->data, pid, status, &used))
			(void)child_op_handle_exit(s->data, pid, status);
}

static bool init_reclaim_output(struct ring_budget *b)
{
	struct init *in = (struct init *)(void *)((char *)b - offsetof(struct init, budget));

	return exec_reclaim_output(in) || session_reclaim_output(&in->shells) ||
	       session_reclaim_output(&in->kernels);
}

/* A body has up to 2 MiB, and PID 1 must not use up a small sandbox's memory for them. */
static size_t init_bodies_max(const struct memory *m)
{
	uint64_t limit;

	if (memory_read_limit(m, &limit) < 0 || limit / BODIES_MEMORY_SHARE > BODIES_MAX)
		return BODIES_MAX;
	return (size_t)(limit / BODIES_MEMORY_SHARE);
}

static int init_start_loop(struct init *in)
{
	int r = uv_loop_init(&in->loop);

	if (r >= 0)
		r = uv_signal_init(&in->loop, &in->child);
	in->child.data = in;
	return r < 0 ? r : uv_signal_start(&in->child, on_child_exit_signal, SIGCHLD);
}

int main(int argc, char **argv)
{
	bool with_cgroup = argc < 2 || strcmp(argv[1], "--no-cgroup") != 0;
	struct init in = { .clk = &clk_system,
			   .born_ns = clk_boot_ns(&clk_system),
			   .budget = { .max = OUTPUT_BUDGET, .reclaim = init_reclaim_output },
			   .child_ops.cgroup = -EBADF,
			   .spools.cgroup = -EBADF };
	struct server_conf conf = {
		.max_conns = MAX_CONNS,
		.reply_max = TELL_REPLY_MAX + 2 * RESULTS_MAX,
		.head_timeout_ms = HEAD_TIMEOUT_MS,
		.idle_timeout_ms = IDLE_TIMEOUT_MS,
		.routes = init_routes,
		.n_routes = init_n_routes,
		.handler = init_handle_operation,
		.arg = &in,
	};
	struct cay_err err = {};
	int r;

	if (argc > 1 && strcmp(argv[1], "--wait") == 0)
		for (;;)
			(void)pause();
	r = init_fill_stdio();
	if (r >= 0)
		r = init_check_fds(with_cgroup, &in.cgroup);
	if (r < 0)
		return init_report_fatal("inherited descriptors", r);
	in.memory = memory_from_cgroup(in.cgroup, in.cgroup < 0 ? -EBADF : init_check_memory_fd());
	conf.bodies_max = init_bodies_max(&in.memory);
	in.meminfo.fd = in.cgroup < 0 ? -EBADF : init_check_meminfo_fd();
	/* an io_uring per sandbox costs more than the epoll_ctl calls it saves */
	if (setenv("UV_USE_IO_URING", "0", 1) < 0)
		return init_report_fatal("set the environment", -errno);
	/* return large buffers to the kernel at once: an idle sandbox must stay small */
	(void)mallopt(M_MMAP_THRESHOLD, KIB(64));
	(void)mallopt(M_TRIM_THRESHOLD, KIB(64));
	init_ignore_signals();
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	r = init_lower_rlimits();
	if (r >= 0)
		r = init_raise_nofile(&in);
	if (r >= 0)
		r = init_caps_lower();
	if (r < 0)
		return init_report_fatal("limits and capabilities", r);
	r = init_start_loop(&in);
	if (r < 0)
		return init_report_fatal("start the loop", r);
	meminfo_start(&in);
	if (server_start(&in.loop, FD_SOCKET, &conf, &in.server, &err) < 0)
		return init_report_fatal(err.msg, -err.errnum);
	for (;;)
		(void)uv_run(&in.loop, UV_RUN_DEFAULT);
}
