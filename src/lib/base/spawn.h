/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_SPAWN_H
#define CAY_BASE_SPAWN_H
/* spawn - start a program and control it by pidfd
 *
 * The child gets the argv, environment and fds named here and nothing else: no inherited fd, no
 * inherited variable, default signals, empty mask.  The parent never needs its pid (pids can wrap
 * in under a second); waiting, killing and polling use the pidfd.  SIGCHLD must not be ignored, or
 * the kernel discards the status (-ECHILD). */
#include <sys/types.h>

#include "base/err.h"
#include "base/mem.h"

#define SPAWN_FDS_MAX 16

struct spawn {
	const char *path; /* absolute; PATH is not searched */
	const char *const *argv;
	const char *const *env; /* NULL: empty */
	/* The child's fd i is fds[i]; a negative one is /dev/null for 0..2 and closed above. */
	int fds[SPAWN_FDS_MAX];
	unsigned n_fds;
	int cgroup_fd; /* start in this v2 cgroup, or negative */
	bool session;  /* in a session of its own */
};

/* No fds, no cgroup; 0 would be our stdin. */
#define SPAWN_INIT(path_, argv_) \
	((struct spawn){ .path = (path_), .argv = (argv_), .cgroup_fd = -EBADF })

struct child {
	int pidfd; /* -EBADF once waited for */
};

#define auto_child CAY_CLEANUP(child_fini) struct child
#define CHILD_INIT ((struct child){ .pidfd = -EBADF })

/* *ret is usable after success only; a program that cannot be executed fails
 * here, not in the child. */
[[nodiscard]] int child_start(const struct spawn *s, struct child *ret, struct cay_err *err);
/* fork() with a pidfd: 0 in the child, its pid, or -errno.  Of a process with one thread.  By
 * clone(): RestrictNamespaces= of a unit refuses clone3, whose flags no filter sees. */
[[nodiscard]] pid_t child_fork(struct child *ret);
/* Block until it ends.  *ret_status is its exit status, or -signal. */
[[nodiscard]] int child_wait(struct child *c, int *ret_status);
[[nodiscard]] int child_kill(const struct child *c, int sig);
/* Kill and reap; fine when already waited for.  It blocks as long as the kernel
 * takes to end the process: a loop polls the pidfd first. */
void child_fini(struct child *c);
#endif
