/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_MEMORY_H
#define CAY_INIT_CORE_MEMORY_H
/*
 * memory - the memory limit and usage of the sandbox, from its memory cgroup
 *
 * On v2 the files are in PID 1's own cgroup.  On v1 they are in another hierarchy, of which
 * the keeper gives PID 1 this one directory, read-only (docs/adr/0033).  Reads are bounded.
 * Tests run with neither, so callers must do without a result.
 */
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

struct memory {
	int dir; /* -EBADF: none, nothing is known */
	bool v1;
};

struct memory_usage {
	uint64_t limit, used, peak;
};

/* v1 is the v1 directory; either is negative when there is none. */
struct memory memory_from_cgroup(int cgroup, int v1);
/* Processes the kernel killed for memory; 0 when unknown. */
uint64_t memory_count_oom_kills(const struct memory *m);
/* The same, and how many kills the sandbox's own limit caused (v2 only). */
struct memory_kills {
	uint64_t oom, hits;
};
struct memory_kills memory_count_kills(const struct memory *m);
/* Whether kills between the two were for the sandbox's own limit, and not for lack of memory of the
 * machine.  v1 does not count: there, whether the limit was ever reached. */
bool memory_reached_own_limit(const struct memory *m, const struct memory_kills *before,
			      const struct memory_kills *now);
/* File pages, which the kernel can reclaim; 0 when unknown. */
uint64_t memory_cache_bytes(const struct memory *m);
/* Without a limit: UINT64_MAX, or another huge number. */
[[nodiscard]] int memory_read_limit(const struct memory *m, uint64_t *ret);
[[nodiscard]] int memory_read_usage(const struct memory *m, struct memory_usage *ret);

/* The last pid this pid namespace gave to a process or thread; 0 when unknown. */
pid_t proc_last_pid(void);
/* Whether the process is ending, or has ended: the kernel closes its files on the way. */
bool proc_is_ending(pid_t pid);
#endif
