/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup-kill - an unprivileged PID 1 tracks and ends execs by cgroups, from one fd
 *
 * Leans on it: every timeout, cancel and delete (docs/architecture.md).  The keeper
 * makes the sandbox's cgroup on the v2 hierarchy, hybrid host or not, gives the
 * directory and its cgroup.procs to the sandbox's root and passes an fd of it
 * (fd 4).  PID 1 has no capability, a user namespace and no cgroup mount; with
 * the fd alone it makes a cgroup per exec, starts the exec in it, and ends it
 * with one write to cgroup.kill.
 *
 * Checked, as such a PID 1: mkdirat through the fd; entering by clone3
 * (CLONE_INTO_CGROUP) and by cgroup.procs; a storm of double forks, each with
 * two setsid, is gone after one write, also when it was frozen: populated 0 and
 * the end of a pipe all of them held, which counts the living without asking
 * the cgroup; freeze stops a counter and thaw lets it go on; the cgroup can
 * then be removed.  A second sandbox's root may not use the fd.
 *
 * And a trap: which fd.  An fd opened in the host's mount namespace leads from
 * cgroupfs by ".." to the host's root directory, for anybody who ever gets hold
 * of it.  The fd of a detached clone (open_tree) has nothing above it.  Both
 * are asserted.
 *
 * Measured on Linux 6.18, two cores: 3.4 to 6.3 ms from the write to populated 0
 * with a good hundred processes, still forking.  The same on a pure v2 layout
 * mounted with nsdelegate.
 *
 * If it failed: freezer and pidfd loops, which cannot be exact against a fork
 * storm, or a keeper verb per exec.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "platform.h"

#define STORM_FORKS 200
#define DEADLINE_MS 20000
#define STILL_MS 30

/* How one storm ended. */
struct killed {
	unsigned alive; /* in cgroup.procs just before */
	bool empty, silent, removed;
	uint64_t ns;
};

/* What PID 1 found, in memory it shares with the body. */
struct report {
	bool unprivileged, no_cgroup_mount;
	bool plain_fd_reaches_host, clone_fd_stays;
	bool made, entered_by_clone, entered_by_write;
	struct killed storm, frozen_storm;
	bool froze, counter_stood, counter_went_on;
	bool finished;
	atomic_uint started; /* processes of the storm */
	atomic_ulong counter;
};

static unsigned count_procs(int cgroup)
{
	auto_buf text = BUF_INIT(KIB(64));
	unsigned n = 0;

	if (!platform_get(cgroup, "cgroup.procs", &text))
		platform_die("cgroup.procs");
	for (size_t i = 0; i < text.len; i++)
		n += text.data[i] == '\n';
	return n;
}

struct event {
	int cgroup;
	const char *line;
};

static bool event_holds(void *arg)
{
	const struct event *e = arg;
	auto_buf text = BUF_INIT(KIB(4));

	return platform_get(e->cgroup, "cgroup.events", &text) && strstr(buf_str(&text), e->line);
}

static bool wait_event(int cgroup, const char *line)
{
	return platform_wait(event_holds, &(struct event){ cgroup, line }, DEADLINE_MS);
}

static pid_t fork_into(int cgroup)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP,
				   .exit_signal = SIGCHLD,
				   .cgroup = (unsigned)cgroup };

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Leaves of the storm are children of nobody, in sessions of their own, deaf to
 * everything that can be ignored. */
static void detach_once(struct report *r)
{
	pid_t pid = fork();

	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	if (pid != 0)
		return;
	(void)setsid();
	if (fork() != 0)
		_exit(0);
	(void)setsid();
	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_IGN);
	atomic_fetch_add(&r->started, 1);
	for (;;)
		(void)pause();
}

static _Noreturn void storm(struct report *r)
{
	(void)setsid();
	for (unsigned i = 0; i < STORM_FORKS; i++)
		detach_once(r);
	for (;;)
		(void)pause();
}

static bool storm_started(void *arg)
{
	const struct report *r = arg;

	/* not all: it is to be hit while it still forks */
	return atomic_load(&r->started) >= STORM_FORKS / 2;
}

static void end_storm(struct report *r, int box, const char *name, bool by_clone, bool freeze)
{
	struct killed *ret = freeze ? &r->frozen_storm : &r->storm;
	auto_close int cg = -EBADF;
	struct pollfd silence;
	bool *entered = by_clone ? &r->entered_by_clone : &r->entered_by_write;
	int held[2];
	uint64_t start;
	pid_t pid;

	r->made = mkdirat(box, name, 0755) == 0;
	cg = openat(box, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!r->made || cg < 0 || pipe2(held, O_CLOEXEC) < 0)
		platform_die("cgroup %s", name);
	atomic_store(&r->started, 0);
	pid = by_clone ? fork_into(cg) : fork();
	if (pid == 0) {
		if (!by_clone && platform_put(cg, "cgroup.procs", "0") < 0)
			platform_die("enter %s", name);
		storm(r);
	}
	(void)close(held[1]);
	*entered = pid > 0 && platform_wait(storm_started, r, DEADLINE_MS);
	if (freeze)
		*entered &=
			platform_put(cg, "cgroup.freeze", "1") == 0 && wait_event(cg, "frozen 1");
	ret->alive = count_procs(cg);
	start = platform_now_ns();
	if (platform_put(cg, "cgroup.kill", "1") < 0)
		platform_die("cgroup.kill");
	ret->empty = wait_event(cg, "populated 0");
	ret->ns = platform_now_ns() - start;
	silence = (struct pollfd){ .fd = held[0], .events = POLLIN };
	ret->silent = poll(&silence, 1, DEADLINE_MS) == 1 && silence.revents == POLLHUP;
	(void)waitpid(pid, NULL, 0);
	(void)close(held[0]);
	ret->removed = unlinkat(box, name, AT_REMOVEDIR) == 0;
}

static bool counter_moves(void *arg)
{
	struct report *r = arg;
	unsigned long before = atomic_load(&r->counter);

	(void)poll(NULL, 0, STILL_MS);
	return atomic_load(&r->counter) != before;
}

static _Noreturn void count(struct report *r)
{
	for (;;)
		if (atomic_fetch_add(&r->counter, 1) % 1024 == 0)
			(void)sched_yield();
}

static void freeze_counter(struct report *r, int box)
{
	auto_close int cg = -EBADF;
	pid_t pid;

	if (mkdirat(box, "counter", 0755) < 0)
		platform_die("cgroup counter");
	cg = openat(box, "counter", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid = fork_into(cg);
	if (pid == 0)
		count(r);
	r->froze = platform_wait(counter_moves, r, DEADLINE_MS) &&
		   platform_put(cg, "cgroup.freeze", "1") == 0 && wait_event(cg, "frozen 1");
	r->counter_stood = !counter_moves(r);
	r->counter_went_on = platform_put(cg, "cgroup.freeze", "0") == 0 &&
			     platform_wait(counter_moves, r, DEADLINE_MS);
	(void)platform_put(cg, "cgroup.kill", "1");
	(void)waitpid(pid, NULL, 0);
	if (!wait_event(cg, "populated 0") || unlinkat(box, "counter", AT_REMOVEDIR) < 0)
		platform_die("remove counter");
}

static bool same_dir(int dirfd, const char *path, const struct stat *want)
{
	struct stat st;

	return fstatat(dirfd, path, &st, 0) == 0 && st.st_dev == want->st_dev &&
	       st.st_ino == want->st_ino;
}

/* A file system with nothing in it, least of all /sys/fs/cgroup. */
static void enter_empty_root(const struct plat *p)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWCGROUP) < 0 ||
	    mount("tmpfs", p->work, "tmpfs", 0, "size=16k") < 0 || chdir(p->work) < 0 ||
	    syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		platform_die("an empty root");
}

static void become_sandbox_root(int userns)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = {};

	if (setns(userns, CLONE_NEWUSER) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ||
	    syscall(SYS_capset, &head, none) < 0)
		platform_die("become the sandbox's root");
}

struct pid1 {
	const struct plat *p;
	struct report *r;
	int userns, plain_fd, clone_fd;
};

static int run_pid1(void *arg)
{
	const struct pid1 *a = arg;
	struct report *r = a->r;
	struct stat host_root, box;
	/* more ".." than the path has levels do not hurt */
	static const char climb[] = "../../../../../../../..";

	if (stat("/", &host_root) < 0 || fstat(a->clone_fd, &box) < 0)
		platform_die("stat");
	if (platform_put(a->clone_fd, "cgroup.procs", "0") < 0)
		platform_die("enter the sandbox's cgroup");
	enter_empty_root(a->p);
	become_sandbox_root(a->userns);
	r->unprivileged = mkdirat(a->p->cgroup_fd, "no", 0755) < 0 && errno == EACCES;
	r->no_cgroup_mount = access("/sys", F_OK) < 0 && access("/proc", F_OK) < 0;
	r->plain_fd_reaches_host = same_dir(a->plain_fd, climb, &host_root);
	r->clone_fd_stays = same_dir(a->clone_fd, climb, &box);
	end_storm(r, a->clone_fd, "exec-1", /* by_clone= */ true, /* freeze= */ false);
	end_storm(r, a->clone_fd, "exec-2", /* by_clone= */ false, /* freeze= */ true);
	freeze_counter(r, a->clone_fd);
	r->finished = true;
	return 0;
}

static int run_stranger(void *arg)
{
	const struct pid1 *a = arg;

	become_sandbox_root(a->userns);
	return mkdirat(a->clone_fd, "stranger", 0755) < 0 && errno == EACCES &&
			       platform_put(a->clone_fd, "cgroup.procs", "0") == -EACCES
		       ? 0
		       : 1;
}

static void say_storm(const char *what, const struct killed *k)
{
	CHECK(k->alive > STORM_FORKS / 2, "%s: %u processes alive before", what, k->alive);
	CHECK(k->empty, "%s: populated 0 after one write to cgroup.kill", what);
	CHECK(k->silent, "%s: nobody holds the pipe, so nobody survived", what);
	CHECK(k->removed, "%s: its cgroup can be removed", what);
	platform_note("%s: %.1f ms from the write to populated 0", what, (double)k->ns / 1e6);
}

static void say(const struct report *r)
{
	CHECK(r->unprivileged, "PID 1 may not make cgroups beside its own");
	CHECK(r->no_cgroup_mount, "PID 1 sees no cgroup mount");
	CHECK(r->plain_fd_reaches_host, "trap: \"..\" from an ordinary fd ends in the host's root");
	CHECK(r->clone_fd_stays, "\"..\" from the fd of a detached clone ends at the clone");
	CHECK(r->made, "PID 1 makes a cgroup per exec through the fd");
	CHECK(r->entered_by_clone, "an exec starts in it (CLONE_INTO_CGROUP)");
	CHECK(r->entered_by_write, "an exec enters it (cgroup.procs), and it freezes");
	say_storm("storm", &r->storm);
	say_storm("frozen storm", &r->frozen_storm);
	CHECK(r->froze && r->counter_stood, "cgroup.freeze stops a running process");
	CHECK(r->counter_went_on, "and lets it go on");
}

static void body(const struct plat *p)
{
	struct report *r =
		mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	auto_free char *box = platform_format("%s/box", p->cgroup);
	auto_close int plain = -EBADF, clone = -EBADF, userns = -EBADF, other = -EBADF;

	NEED(r != MAP_FAILED, "memory");
	platform_mkdir(AT_FDCWD, box, 0755);
	plain = open(box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	clone = open_tree(AT_FDCWD, box, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	NEED(plain >= 0 && clone >= 0, "open %s", box);
	if (faccessat(plain, "cgroup.kill", F_OK, 0) < 0)
		platform_skip("this kernel has no cgroup.kill");
	NEED(fchown(plain, LIVE_A, LIVE_A) == 0 &&
		     fchownat(plain, "cgroup.procs", LIVE_A, LIVE_A, 0) == 0,
	     "give the cgroup to the sandbox");
	userns = platform_userns(0, LIVE_A);
	other = platform_userns(0, LIVE_B);
	CHECK(platform_in_child(run_stranger, &(struct pid1){ p, r, other, plain, clone }) == 0,
	      "another sandbox's root may not use the fd");
	CHECK(platform_in_child(run_pid1, &(struct pid1){ p, r, userns, plain, clone }) == 0 &&
		      r->finished,
	      "PID 1 got to its end");
	say(r);
	(void)munmap(r, sizeof(*r));
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
