/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_RUNTIME_H
#define CAY_KEEPER_RUNTIME_H
/*
 * runtime - OCI runtimes by their command line, taken by what they do
 *
 * A row of the table is a program; `run --detach` is all we ask of it.  Its state
 * is a directory on the stage that is removed as soon as it has ended: Cay never
 * asks a runtime what is, and never lets it clean up.
 */
#include "base/err.h"
#include "ops/types.h"

#define RUNTIME_FDS 4

struct runtime {
	const char *name, *path;
	const char *option;     /* before the verb, or NULL */
	bool in_sandbox_cgroup; /* runs in the sandbox's cgroup; else it moves PID 1 there itself */
};

extern const struct runtime runtimes[RUNTIME_NUM];

/* One run, on the stage.  bundle is the directory that has config.json. */
struct runtime_run {
	const struct runtime *runtime;
	const char *name; /* of the container */
	int cgroup;       /* v2, to start in */
	/* become 3 and up inside; the first that is negative, and all after it, are none */
	int fds[RUNTIME_FDS];
	int bundle; /* STAGE_BUNDLE/<name>, open */
	unsigned timeout_ms;
};

/* Before it, for the caller and all it starts: when memory runs out, execs go first
 * (1000, by PID 1), then PID 1, and only then anything of the host.  Written with
 * CAP_SYS_RESOURCE it is also the least that anybody inside can set. */
[[nodiscard]] int runtime_set_oom_score(void);
/* Run it and wait until the container has started.  The calling process must be
 * a child subreaper: PID 1 becomes its child, so that its number, which is returned,
 * is its own until it is waited for; *ret_pidfd refers to it. */
[[nodiscard]] int runtime_run(const struct runtime_run *run, int *ret_pidfd, struct cay_err *err);
#endif
