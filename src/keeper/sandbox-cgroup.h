/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_SANDBOX_CGROUP_H
#define CAY_KEEPER_SANDBOX_CGROUP_H
/*
 * sandbox-cgroup - processes and limits of a sandbox
 *
 * Processes are always tracked on cgroup v2: <path>/<tenant>/<sandbox>, whose directory is
 * passed to PID 1 so that it can create one below for each exec.  Limits are written where the
 * machine has the controller, v2 or v1 (hybrid); on v1 a sandbox has a directory of the same
 * name in each of those hierarchies.  Everything is found again by name.
 */
#include "cgroup/cgroup.h"

struct cgroups {
	struct cgroup top;   /* <path> in each hierarchy */
	int favordynmods_fd; /* see sandbox_cgroup_mount_favordynmods(); -EBADF when all is v2 */
};

struct cgroup_limits { /* 0: unchanged */
	uint64_t memory_bytes;
	uint32_t cpu_milli, pids;
};

/* Find the hierarchies and create <path> in each. */
[[nodiscard]] int sandbox_cgroups_open(const char *path, struct cgroups *ret, struct cay_err *err);

/* Create a sandbox's cgroups; existing ones are used.  root owns the v2 directory and the file by
 * which processes are moved, nothing else.  c is CGROUP_INIT before, and must be finished also on
 * failure. */
[[nodiscard]] int sandbox_cgroup_create(const struct cgroups *all, const struct id *tenant,
					const struct id *sandbox, uid_t root, struct cgroup *c,
					struct cay_err *err);
/* Find the tenant whose cgroup has this sandbox; 0 when there is none. */
[[nodiscard]] int sandbox_cgroup_find_tenant(const struct cgroups *all, const struct id *sandbox,
					     struct id *ret_tenant);
[[nodiscard]] int sandbox_cgroup_set_limits(const struct cgroup *c,
					    const struct cgroup_limits *limits,
					    struct cay_err *err);
/* Move the calling process into the v1 cgroups; on v2 processes start there. */
[[nodiscard]] int sandbox_cgroup_join_v1(const struct cgroup *c, struct cay_err *err);
[[nodiscard]] int sandbox_cgroup_freeze(const struct cgroup *c, bool frozen, struct cay_err *err);
/* Its memory may be in swap, as much as its limit: while it is frozen, it uses no more of both.
 * Before it is thawed, settle: its pages in swap are then taken from its memory, and again each
 * time that limits are set.  A v1 limit counts both, and nothing is to be done. */
[[nodiscard]] int sandbox_cgroup_allow_swap(const struct cgroup *c);
[[nodiscard]] int sandbox_cgroup_settle_swap(const struct cgroup *c);
/* Wait until no process of it runs, once it is to be frozen. */
[[nodiscard]] int sandbox_cgroup_wait_frozen(const struct cgroup *c, int timeout_ms,
					     struct cay_err *err);
/* Kill every process and wait until none is left, at most timeout_ms. */
[[nodiscard]] int sandbox_cgroup_kill(const struct cgroup *c, int timeout_ms, struct cay_err *err);
[[nodiscard]] int sandbox_cgroup_is_populated(const struct cgroup *c);
bool sandbox_cgroup_is_frozen(const struct cgroup *c);
/* The first of its processes, at most max of them; returns how many. */
unsigned sandbox_cgroup_list_pids(const struct cgroup *c, pid_t *ret, unsigned max);
/* Number of processes and threads; and the pid of PID 1, 0 when there is none. */
uint32_t sandbox_cgroup_count_processes(const struct cgroup *c, pid_t *ret_first);
/* Remove a sandbox's cgroups, which must be empty; succeeds when absent. */
[[nodiscard]] int sandbox_cgroup_remove(const struct cgroups *all, const struct id *tenant,
					const struct id *sandbox, struct cay_err *err);

/*
 * Recreate a cgroup of the keeper below <path>; processes in an old one are killed first.  It
 * must be new, because Linux 6.14 and later kill a process that is cloned into a cgroup whose
 * count of past cgroup.kill differs from its parent's (docs/adr/0014): workers start runtimes
 * in cgroups of sandboxes, which are new.
 */
[[nodiscard]] int keeper_cgroup_recreate(const struct cgroups *all, const char *name,
					 struct cgroup *c, struct cay_err *err);
/* Move the calling process into it. */
[[nodiscard]] int keeper_cgroup_join(const struct cgroup *c);
void keeper_cgroup_remove(const struct cgroups *all, const char *name);
#endif
