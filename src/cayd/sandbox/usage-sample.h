/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_USAGE_SAMPLE_H
#define CAY_CAYD_SANDBOX_USAGE_SAMPLE_H
/*
 * usage-sample - what every sandbox uses now, read for all of them at once
 *
 * Totals of a tenant need numbers of each of its sandboxes.  One sample is taken for all requests
 * that wait, of all tenants, and serves those that follow for ten times as long as it took, at
 * least SAMPLE_NS: so samples use at most a tenth of one core, however many requests there are.
 * libuv's threads read the cgroups, some sandboxes at a time; the keeper lists what quotas count.
 */
#include "cayd/sandbox/sandbox.h"

/* True: the samples are recent.  Otherwise one is taken, and the request then waits for a turn and
 * is handled again. */
[[nodiscard]] bool usage_sample_is_recent(struct cayd *c, struct request *rq);
#endif
