/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_RUNTIME_H
#define CAY_KEEPER_RUNTIME_H
/*
 * runtime - OCI runtimes, driven by their command line
 *
 * A row of the table is a program; `run --detach` is all we use.  Its state is a directory on
 * the stage that is removed as soon as it has exited: Cay never queries a runtime and never
 * lets it clean up.
 */
#include "base/err.h"
#include "ops/types.h"

#define RUNTIME_FDS 4

struct runtime {
	const char *name, *path;
	const char *option;     /* before the subcommand, or NULL */
	bool takes_filter;      /* compiled, in an annotation */
	bool in_sandbox_cgroup; /* started in the sandbox's cgroup; else it moves PID 1 there */
};

extern const struct runtime runtimes[RUNTIME_NUM];

/* One run, on the stage. */
struct runtime_run {
	const struct runtime *runtime;
	const char *name; /* of the container */
	int cgroup;       /* v2, to start in */
	/* become 3 and up inside; ended by the first negative one */
	int fds[RUNTIME_FDS];
	int bundle; /* STAGE_BUNDLE/<name>, with config.json */
	unsigned timeout_ms;
};

/* Set for the caller and its children: when memory runs out, execs go first (1000, set by PID 1),
 * then PID 1, and only then processes of the host.  Written with CAP_SYS_RESOURCE it is also the
 * minimum any process inside can set. */
[[nodiscard]] int runtime_set_oom_score(void);
/* Run it and wait until the container has started.  The caller must be a child subreaper: PID 1
 * becomes its child, so that its pid, which is returned, cannot be reused until it is reaped;
 * *ret_pidfd refers to it. */
[[nodiscard]] int runtime_run(const struct runtime_run *run, int *ret_pidfd, struct cay_err *err);
#endif
