/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clone-into-cgroup - starting a process in another cgroup, and when it dies of it
 *
 * Leans on it: a worker starts the runtime in the sandbox's cgroup
 * (CLONE_INTO_CGROUP), so that not even its first instruction runs elsewhere.
 *
 * And a trap: cgroup.kill counts how often a cgroup was killed, and Linux 6.14 and
 * later compare the count of the parent's cgroup with that of the cgroup cloned
 * into, and kill the child when they differ.  So a process in a cgroup that was
 * killed before can start nothing in a new one, nor the other way round; only
 * moving by cgroup.procs always works.
 *
 * Checked: from a new cgroup into a new one, the child lives; moved by
 * cgroup.procs into one that was killed, it lives; forked where it is, in one that
 * was killed, it lives.  What cloning between a killed and a new one does is noted:
 * both answers are fine for us.
 *
 * If it failed: start the runtime stopped and move it before its first step.
 */
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "platform.h"

static int make(const struct plat *p, const char *name)
{
	int fd;

	platform_mkdir(p->cgroup_fd, name, 0755);
	fd = openat(p->cgroup_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(fd >= 0, "open %s", name);
	return fd;
}

/* 0 when a child cloned into the cgroup lived to exit by itself. */
static int clone_into(int cgroup)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (unsigned)cgroup,
	};
	int status = -1;
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(0);
	if (pid < 0 || waitpid((pid_t)pid, &status, 0) < 0)
		platform_die("clone into a cgroup");
	return status;
}

struct move {
	int from, into; /* -EBADF: stay, fork in place */
};

static void move_self(int cgroup)
{
	auto_close int procs = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);

	if (procs < 0 || write(procs, "0", 1) != 1)
		platform_die("move into a cgroup");
}

/* In a process of its own: go to `from`, start a child in `into`. */
static int start_from(void *arg)
{
	const struct move *m = arg;
	int status = 0;

	move_self(m->from);
	if (m->into >= 0)
		return clone_into(m->into) == 0 ? 0 : 1;
	switch (fork()) {
	case 0:
		_exit(0);
	case -1:
		platform_die("fork");
	default:
		(void)wait(&status);
	}
	return status == 0 ? 0 : 1;
}

static void body(const struct plat *p)
{
	auto_close int a = make(p, "a"), b = make(p, "b"), killed = make(p, "killed");
	int forth, back;

	platform_write(killed, "cgroup.kill", "1");
	CHECK(platform_in_child(start_from, &(struct move){ a, b }) == 0,
	      "cloned from a new cgroup into a new one it lives");
	CHECK(platform_in_child(start_from, &(struct move){ killed, -EBADF }) == 0,
	      "moved into one that was killed, it and its children live");
	CHECK(platform_in_child(start_from, &(struct move){ killed, killed }) == 0,
	      "and so do those it clones into the cgroup it is in");
	forth = platform_in_child(start_from, &(struct move){ a, killed });
	back = platform_in_child(start_from, &(struct move){ killed, a });
	platform_note("cloned from a new one into one that was killed: %s; the other way: %s",
		      forth ? "dies" : "lives", back ? "dies" : "lives");
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
