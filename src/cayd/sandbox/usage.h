/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_USAGE_H
#define CAY_CAYD_SANDBOX_USAGE_H
/*
 * usage - what a sandbox uses, as its cgroups count it
 *
 * Anybody may read them, so the keeper is not asked.  A kernel may take its time to add
 * up: that is for libuv's threads.
 */
#include "cayd/core/cayd.h"

/* The operation. */
void op_sandbox_usage(struct cayd *c, struct request *rq);
#endif
