/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_INIT_CGROUP_H
#define CAY_INIT_CORE_INIT_CGROUP_H
/*
 * init-cgroup - one v2 cgroup per exec, below the directory PID 1 was given
 *
 * Everything is relative to the directory's fd: the sandbox has no cgroup mount, and no path
 * leads up from the directory.  Reads are bounded.
 */
#include <sys/types.h>

/* Create the cgroup; *ret is its directory. */
[[nodiscard]] int init_cgroup_create(int dirfd, const char *name, int *ret);
/* The same, unless *fd is its directory already, or PID 1 has no cgroup. */
[[nodiscard]] int init_cgroup_ensure(int dirfd, const char *name, int *fd);
/* Move the calling process, a forked child, into the cgroup. */
[[nodiscard]] int init_cgroup_join(int fd);
/* Move another process, with its threads. */
[[nodiscard]] int init_cgroup_move(int fd, pid_t pid);
/* Send SIGKILL to every process of the cgroup, in any session or process group. */
[[nodiscard]] int init_cgroup_kill(int fd);
/* -EBUSY while it has a process. */
[[nodiscard]] int init_cgroup_remove(int dirfd, const char *name);
#endif
