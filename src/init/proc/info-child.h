/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_INFO_CHILD_H
#define CAY_INIT_PROC_INFO_CHILD_H
/*
 * facts - a sandbox's facts, gathered by a process that is the user
 *
 * In a child only (job_own.inside): it waits, and starts others.
 */
#include "ops/types.h"

#define INFO_JSON_MAX KIB(256)
#define INFO_EXIT_INCOMPLETE 2

struct info_request {
	const char *workspace;
	bool versions;
};

/* Write an Info as JSON to standard output; arg is a struct info_request.  Its exit status:
 * 0, or FACTS_LATE when a version is missing because nobody told it in time. */
int child_sandbox_info(void *arg);
#endif
