/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CHILD_H
#define CAY_INIT_CHILD_H
/*
 * child - from fork to exec: becoming the user, in straight blocking code
 *
 * All that touches files of the sandbox (passwd, group, the directory to start
 * in, the program) happens here, in a process of the exec's own, so that nothing
 * planted there can hold up or mislead PID 1.  Success is silent: the report pipe
 * closes with exec.  Failure is one struct child_report, smaller than PIPE_BUF.
 */
#include <sys/resource.h>

#include "base/err.h"
#include "ops/types.h"

struct child_report {
	enum cay_code code;
	int errnum;
	char field[16];
	char msg[CAY_ERR_MSG_MAX];
};

struct child_plan {
	const char *const *argv; /* ended by NULL */
	const char *user, *cwd;
	const struct field_map *env[2]; /* later ones win; may be NULL */
	int stdio[3];
	int report;
	int cgroup; /* to move to; negative when it is there already or there is none */
	const struct rlimit *nofile;
};

/* What PID 1 ignores and a child must not; all else is default across exec. */
#define CHILD_IGNORED_N 5
extern const int child_ignored[CHILD_IGNORED_N];

/* Never returns.  Call it in a forked child only. */
[[noreturn]] void child_run(const struct child_plan *plan);
/* Leave the effective capabilities PID 1 works with; the rest stays permitted. */
[[nodiscard]] int child_caps_lower(void);
#endif
