/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_FACTS_H
#define CAY_INIT_FACTS_H
/*
 * facts - a sandbox's facts, gathered by a process that is the user
 *
 * In a child only (job_own.inside): it waits, and starts others.
 */
#include "ops/types.h"

#define FACTS_MAX KIB(256)
#define FACTS_LATE 2

struct facts {
	const char *workspace;
	bool versions;
};

/* Write an Info as JSON to standard output; arg is a struct facts.  Its exit status:
 * 0, or FACTS_LATE when a version is missing because nobody told it in time. */
int facts_inside(void *arg);
#endif
