/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_SANDBOX_CGROUP_H
#define CAY_KEEPER_SANDBOX_CGROUP_H
/*
 * cgroup - who belongs to a sandbox, and what it may use
 *
 * Processes are tracked on cgroup v2 always: <path>/<tenant>/<sandbox>, whose
 * directory goes to PID 1 so that it can make one below for each exec.  Limits
 * are written where the machine has the controller, v2 or v1 (hybrid); on v1 a
 * sandbox has a directory of the same name in each of those hierarchies.
 *
 * Everything here is found again by name: a sandbox's id is its directory.
 */
#include "cgroup/cgroup.h"

struct cgroups {
	struct cgroup top;   /* <path> in each hierarchy */
	int favordynmods_fd; /* see favour_moves(); -EBADF when all is v2's */
};

struct cgroup_limits { /* 0: as it is */
	uint64_t memory_bytes;
	uint32_t cpu_milli, pids;
};

/* Find the hierarchies and make <path> in each. */
[[nodiscard]] int sandbox_cgroups_open(const char *path, struct cgroups *ret, struct cay_err *err);

/* Make a sandbox's cgroups; what is there already is taken.  root owns the v2
 * directory and the file by which processes are moved, nothing else.  c is
 * CGROUP_INIT before, and to be finished also on failure. */
[[nodiscard]] int sandbox_cgroup_create(const struct cgroups *all, const struct id *tenant,
					const struct id *sandbox, uid_t root, struct cgroup *c,
					struct cay_err *err);
/* Whose cgroup there is of this name; 0 when nobody has one. */
[[nodiscard]] int sandbox_cgroup_find_tenant(const struct cgroups *all, const struct id *sandbox,
					     struct id *ret_tenant);
[[nodiscard]] int sandbox_cgroup_set_limits(const struct cgroup *c,
					    const struct cgroup_limits *limits,
					    struct cay_err *err);
/* Move the calling process into the v1 cgroups; on v2 a process starts there. */
[[nodiscard]] int sandbox_cgroup_join_v1(const struct cgroup *c, struct cay_err *err);
[[nodiscard]] int sandbox_cgroup_freeze(const struct cgroup *c, bool frozen, struct cay_err *err);
/* Kill every process and wait until none is left, at most timeout_ms. */
[[nodiscard]] int sandbox_cgroup_kill(const struct cgroup *c, int timeout_ms, struct cay_err *err);
[[nodiscard]] int sandbox_cgroup_is_populated(const struct cgroup *c);
bool sandbox_cgroup_is_frozen(const struct cgroup *c);
/* How many processes and threads; and the pid of PID 1, 0 when there is none. */
uint32_t sandbox_cgroup_count_processes(const struct cgroup *c, pid_t *ret_first);
/* Remove a sandbox's cgroups, which must be empty; fine when they are gone. */
[[nodiscard]] int sandbox_cgroup_remove(const struct cgroups *all, const struct id *tenant,
					const struct id *sandbox, struct cay_err *err);

/*
 * A cgroup of the keeper's own below <path>, new: whatever was in one of that name
 * is killed first.  New, because Linux 6.14 and later kill a process that is cloned
 * into a cgroup whose number of past cgroup.kill differs from that of its parent's
 * (docs/adr/0014): workers start runtimes in cgroups of sandboxes, which are new.
 */
[[nodiscard]] int keeper_cgroup_recreate(const struct cgroups *all, const char *name,
					 struct cgroup *c, struct cay_err *err);
/* Move the calling process into it. */
[[nodiscard]] int keeper_cgroup_join(const struct cgroup *c);
void keeper_cgroup_remove(const struct cgroups *all, const char *name);
#endif
