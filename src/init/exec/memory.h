/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_MEMORY_H
#define CAY_INIT_EXEC_MEMORY_H
/*
 * memory - what the sandbox may have and has, as its memory cgroup says
 *
 * On v2 the files are in PID 1's own cgroup; on v1 they are in another hierarchy, of
 * which the keeper gives PID 1 this one directory, read-only (docs/adr/0033).  Reads
 * are bounded, and whoever asks lives without an answer: tests have neither.
 */
#include "base/mem.h"

#include <stdint.h>
#include <sys/types.h>

struct exec;

struct memory {
	int dir; /* -EBADF: nobody says */
	bool v1;
};

struct memory_usage {
	uint64_t limit, used, peak;
};

/* One of the two directories, the second of v1; negative when there is none. */
struct memory memory_from_cgroup(int cgroup, int v1);
/* How often the kernel killed for memory; 0 when nobody says. */
uint64_t memory_count_oom_kills(const struct memory *m);
/* File pages, which the kernel takes back when it must; 0 when nobody says. */
uint64_t memory_cache_bytes(const struct memory *m);
[[nodiscard]] int memory_read_usage(const struct memory *m, struct memory_usage *ret);

/* How the job ended, from its status and what the kernel counted meanwhile: into j->end. */
void exec_end_determine(struct exec *exec);
/* The last number this pid namespace gave to a process or thread; 0 when nobody says. */
pid_t proc_last_pid(void);
#endif
