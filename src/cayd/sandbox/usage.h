/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_USAGE_H
#define CAY_CAYD_SANDBOX_USAGE_H
/*
 * usage - the resources a sandbox uses, as its cgroups count them
 *
 * cgroup files are world-readable, so the keeper is not needed.  The kernel may take long to
 * sum up, so they are read by libuv's threads.
 */
#include "cayd/core/cayd.h"

void op_sandbox_usage(struct cayd *c, struct request *rq);
#endif
