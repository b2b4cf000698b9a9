/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pidfd-info - how a process ended, told by its pidfd to who is not its parent
 *
 * Leans on it: the reason of every end (docs/architecture.md).  The runtime's child is a child
 * of nobody we run, so its exit status cannot be waited for; a pidfd opened
 * while it lived says that it ended (poll) and, from Linux 6.15 on, how
 * (PIDFD_GET_INFO with PIDFD_INFO_EXIT), also after somebody else reaped it.
 * And signals go by pidfd only, because pids wrap in under a second.
 *
 * Checked: poll is silent while the process lives and readable when it has
 * ended; a holder who is not the parent may not wait (ECHILD) but reads the
 * wait status, for an exit and for a signal, once the parent has reaped, and
 * not before: POLLIN is too early, POLLHUP is the moment to ask; the cgroup's
 * id is there too.  On an older kernel: the ioctl
 * fails with ENOTTY or EINVAL, or answers without PIDFD_INFO_EXIT, or says
 * ESRCH, and nothing else: then the certificate says `inferred`.  A pidfd whose
 * pid was given to another process, on purpose (clone3, set_tid), gives ESRCH
 * and the other lives on; the parent waits by pidfd (P_PIDFD).
 *
 * If it failed: `inferred` everywhere, or one process per sandbox to wait.
 */
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "platform.h"

#define DEADLINE_MS 20000
#define HUP_MS 8000 /* older kernels let us wait for all of it, twice */

/* Debian 13's headers are of 6.12 and end before this. */
struct info {
	uint64_t mask;
	uint64_t cgroupid;
	uint32_t pid, tgid, ppid;
	uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code; /* as wait(2) gives it */
};
static_assert(sizeof(struct info) == 64, "PIDFD_INFO_SIZE_VER0");

#define GET_INFO _IOWR(0xFF, 11, struct info)
#define INFO_CGROUPID (UINT64_C(1) << 2)
#define INFO_EXIT (UINT64_C(1) << 3)

/* What a holder, who is no parent, sees of a process. */
struct seen {
	bool quiet_alive, ready_dead;
	int wait_errno;
	bool exit_before_reap, hup_before_reap;
	bool hup;       /* woken by it when it was reaped */
	int info_errno; /* after it was reaped */
	uint64_t mask;
	int32_t exit_code;
	uint64_t cgroupid;
};

static bool ready(int pidfd, int timeout_ms)
{
	struct pollfd pfd = { .fd = pidfd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

static bool hung_up(int pidfd, int timeout_ms)
{
	struct pollfd pfd = { .fd = pidfd };

	return poll(&pfd, 1, timeout_ms) == 1 && (pfd.revents & POLLHUP);
}

static int get_info(int pidfd, struct info *ret)
{
	*ret = (struct info){ .mask = INFO_EXIT | INFO_CGROUPID };
	return ioctl(pidfd, GET_INFO, ret) < 0 ? errno : 0;
}

static void write_all(int fd, const void *p, size_t n)
{
	if (write(fd, p, n) != (ssize_t)n)
		platform_die("report");
}

/* Tells the body when it saw the end, so that the body reaps after it looked. */
static _Noreturn void hold(pid_t pid, int wire, int target)
{
	auto_close int pidfd = pidfd_open(pid, 0);
	struct seen seen = {};
	struct info info = {};
	siginfo_t si;

	if (pidfd < 0)
		platform_die("pidfd");
	seen.quiet_alive = !ready(pidfd, 0);
	write_all(target, "g", 1);
	seen.ready_dead = ready(pidfd, DEADLINE_MS);
	seen.wait_errno = waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED | WNOHANG) < 0 ? errno : 0;
	seen.exit_before_reap = get_info(pidfd, &info) == 0 && (info.mask & INFO_EXIT);
	seen.hup_before_reap = hung_up(pidfd, 0);
	write_all(wire, "d", 1);
	seen.hup = hung_up(pidfd, HUP_MS);
	seen.info_errno = get_info(pidfd, &info);
	seen.mask = info.mask;
	seen.exit_code = info.exit_code;
	seen.cgroupid = info.cgroupid;
	write_all(wire, &seen, sizeof(seen));
	_exit(0);
}

static _Noreturn void end_as_told(int go, int exit_status, int sig)
{
	char byte;

	if (read(go, &byte, 1) != 1)
		platform_die("go");
	if (sig)
		(void)kill(getpid(), sig);
	_exit(exit_status);
}

/* A target, its parent (the body) and a holder beside them. */
static struct seen watch_end(int exit_status, int sig)
{
	auto_child target = CHILD_INIT, holder = CHILD_INIT;
	struct seen seen = {};
	int go[2], wire[2];
	char byte;
	pid_t pid;

	NEED(pipe2(go, O_CLOEXEC) == 0, "pipe");
	NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire) == 0, "socketpair");
	pid = platform_fork(&target);
	if (pid == 0)
		end_as_told(go[0], exit_status, sig);
	if (platform_fork(&holder) == 0)
		hold(pid, wire[1], go[1]);
	NEED(read(wire[0], &byte, 1) == 1, "the holder saw the end");
	CHECK(platform_reap(&target) == (sig ? -sig : exit_status),
	      "its parent waits by pidfd and gets the status");
	NEED(recv(wire[0], &seen, sizeof(seen), MSG_WAITALL) == (ssize_t)sizeof(seen),
	     "the holder's report");
	NEED(platform_reap(&holder) == 0, "the holder");
	(void)close(go[0]);
	(void)close(go[1]);
	(void)close(wire[0]);
	(void)close(wire[1]);
	return seen;
}

static bool kernel_has_exit_info(void)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	NEED(uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2, "uname");
	platform_note("Linux %s", u.release);
	return major > 6 || (major == 6 && minor >= 15);
}

static void try_end(const struct plat *p, const char *what, int exit_status, int sig)
{
	int want = sig ? sig : exit_status << 8;
	struct seen s = watch_end(exit_status, sig);
	struct stat st;

	NEED(fstat(p->cgroup_fd, &st) == 0, "stat our cgroup");
	CHECK(s.quiet_alive && s.ready_dead, "%s: poll says when", what);
	CHECK(s.wait_errno == ECHILD, "%s: who is not the parent may not wait", what);
	if (kernel_has_exit_info()) {
		CHECK(!s.exit_before_reap && !s.hup_before_reap && s.hup,
		      "%s: not told before it is reaped, POLLHUP says when", what);
		CHECK(s.info_errno == 0 && (s.mask & INFO_EXIT) && s.exit_code == want,
		      "%s: PIDFD_INFO_EXIT says 0x%04x after it was reaped", what,
		      (unsigned)s.exit_code);
		CHECK((s.mask & INFO_CGROUPID) && s.cgroupid == st.st_ino,
		      "%s: and in which cgroup it was", what);
	} else {
		CHECK(s.info_errno == ENOTTY || s.info_errno == EINVAL || s.info_errno == ESRCH ||
			      (s.info_errno == 0 && !(s.mask & INFO_EXIT)),
		      "%s: no exit status, and it says so: %s", what, strerror(s.info_errno));
	}
}

static pid_t fork_as(pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .set_tid = (uintptr_t)&pid,
				   .set_tid_size = 1 };

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static void try_reuse(void)
{
	auto_child second = CHILD_INIT;
	struct child first = CHILD_INIT;
	pid_t pid = platform_fork(&first), again;
	int old, errnum;

	if (pid == 0)
		_exit(0);
	old = fcntl(first.pidfd, F_DUPFD_CLOEXEC, 3);
	NEED(platform_reap(&first) == 0, "reap the first");
	again = fork_as(pid);
	if (again == 0) {
		(void)pause();
		_exit(0);
	}
	NEED(again == pid, "a second process with pid %d", pid);
	second.pidfd = pidfd_open(again, 0);
	NEED(second.pidfd >= 0, "pidfd of the second");
	errnum = pidfd_send_signal(old, SIGKILL, NULL, 0) < 0 ? errno : 0;
	CHECK(errnum == ESRCH, "a pidfd does not reach the next process with its pid");
	CHECK(!ready(second.pidfd, 50), "which lives on");
	CHECK(child_kill(&second, SIGTERM) == 0 && platform_reap(&second) == -SIGTERM,
	      "its own pidfd reaches it");
	(void)close(old);
}

static void body(const struct plat *p)
{
	try_end(p, "exit 7", 7, 0);
	try_end(p, "SIGKILL", 0, SIGKILL);
	try_reuse();
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
