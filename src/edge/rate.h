/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_RATE_H
#define CAY_EDGE_RATE_H
/*
 * rate - how often somebody may: a bucket each, filled by time
 *
 * A table of RATE_BUCKETS; who falls into the bucket of somebody else who has not been
 * seen for the time a bucket takes to fill has it from then on, and shares it before.
 * So it is bounded, and strangers cannot wash anybody's bucket full.
 */
#include <stddef.h>
#include <stdint.h>

#define RATE_BUCKETS 32768

struct rate_limiter;

/* So many a minute, and so many at once. */
[[nodiscard]] struct rate_limiter *rate_limiter_new(uint64_t per_min, uint64_t burst);
void rate_limiter_free(struct rate_limiter *r);
/* Take one; false when there was none. */
bool rate_limiter_try_acquire(struct rate_limiter *r, const void *who, size_t n, uint64_t now_ns);
/* Whether there is none, for what it did itself: nobody is held for whom it shares with. */
bool rate_limiter_is_exhausted(const struct rate_limiter *r, const void *who, size_t n,
			       uint64_t now_ns);
#endif
