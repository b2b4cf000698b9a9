/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_RATE_H
#define CAY_EDGE_RATE_H
/*
 * rate - rate limits, a bucket per caller
 *
 * A fixed table of RATE_BUCKETS.  A caller whose slots are all taken shares one, and takes it
 * over once its owner has been silent for the time a bucket takes to refill.  So the table is
 * bounded, and a flood of callers cannot reset another's bucket.
 */
#include <stddef.h>
#include <stdint.h>

#define RATE_BUCKETS 32768

struct rate_limiter;

/* Requests a minute, and at once. */
[[nodiscard]] struct rate_limiter *rate_limiter_new(uint64_t per_min, uint64_t burst);
void rate_limiter_free(struct rate_limiter *r);
/* Take one; false when none is left. */
bool rate_limiter_try_acquire(struct rate_limiter *r, const void *who, size_t n, uint64_t now_ns);
/* Whether none is left because of its own requests; a shared bucket does not count. */
bool rate_limiter_is_exhausted(const struct rate_limiter *r, const void *who, size_t n,
			       uint64_t now_ns);
#endif
