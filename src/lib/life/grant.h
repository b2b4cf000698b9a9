/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_GRANT_H
#define CAY_LIFE_GRANT_H
/* grant - sums of the limits of sandboxes, against quotas of their tenant and the node's memory */
#include "ops/types.h"

struct grant {
	uint64_t memory_bytes, cpu_milli, pids, disk_bytes;
};

/* Of one sandbox.  `wanted`: limits it is about to get, or NULL; the higher ones count until the
 * change is done. */
struct grant grant_of_limits(const struct limits *now, const struct limits *wanted);
/* sum - less + more; `less` is a part of the sum. */
struct grant grant_replace(const struct grant *sum, const struct grant *less,
			   const struct grant *more);
/* CAY_E_LIMIT if the sum becomes more than a quota, by a kind that grows. */
[[nodiscard]] int grant_check_quotas(const struct quotas *quotas, const struct grant *sum,
				     const struct grant *less, const struct grant *more,
				     struct cay_err *err);
/* CAY_E_CAPACITY if the node's sandboxes together are granted more than `percent` of this memory;
 * percent 0: no check. */
[[nodiscard]] int grant_check_node(uint64_t memory, uint64_t percent, const struct grant *sum,
				   const struct grant *less, const struct grant *more,
				   struct cay_err *err);
/* Whether one more event is within `per_s` events per second, with bursts of one second's number.
 * *next_ns is the state, at first 0. */
bool grant_take_turn(uint64_t *next_ns, uint64_t per_s, uint64_t now_ns);
#endif
