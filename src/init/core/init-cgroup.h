/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_INIT_CGROUP_H
#define CAY_INIT_CORE_INIT_CGROUP_H
/*
 * cgroup - one v2 cgroup per exec, below the directory PID 1 was given
 *
 * Everything goes by the directory's fd; there is no cgroup mount inside and no
 * path leads up from it.  Reads are bounded: the files are the kernel's, their
 * directory is the sandbox's.
 */
#include "base/mem.h"

#include <stdint.h>

/* Make the cgroup of that name; *ret is its directory. */
[[nodiscard]] int init_cgroup_create(int dirfd, const char *name, int *ret);
/* The caller moves itself there; used in a forked child. */
[[nodiscard]] int init_cgroup_join(int fd);
/* Every process in it, however it hides, gets SIGKILL. */
[[nodiscard]] int init_cgroup_kill(int fd);
/* -EBUSY while somebody lives there. */
[[nodiscard]] int init_cgroup_remove(int dirfd, const char *name);
#endif
