/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rate.h"

#include <sys/random.h>

#include "base/clock.h"
#include "base/str.h"

#define WAYS 8 /* slots a caller may be in */

struct rate_bucket {
	uint64_t key_hash; /* 0: free */
	uint64_t full_ns;  /* when it is full again, if nothing more is taken */
};

struct rate_limiter {
	uint64_t request_ns, burst_ns; /* time to refill one, and all */
	uint64_t key;
	struct rate_bucket buckets[RATE_BUCKETS];
};

struct rate_limiter *rate_limiter_new(uint64_t per_min, uint64_t burst)
{
	struct rate_limiter *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->request_ns = 60 * NS_PER_S / per_min;
	r->burst_ns = r->request_ns * burst;
	if (getrandom(&r->key, sizeof(r->key), GRND_NONBLOCK) < 0)
		r->key = (uint64_t)(uintptr_t)r;
	return r;
}

void rate_limiter_free(struct rate_limiter *r)
{
	free(r);
}

static uint64_t rate_limiter_hash(const struct rate_limiter *r, const void *who, size_t n)
{
	uint64_t h = hash_bytes(r->key, who, n);

	return h ^ h >> 29;
}

static struct rate_bucket *rate_bucket_find(struct rate_limiter *r, uint64_t h, uint64_t now)
{
	struct rate_bucket *b = &r->buckets[h % RATE_BUCKETS];

	for (size_t i = 0; i < WAYS; i++) {
		struct rate_bucket *k = &r->buckets[(h + i) % RATE_BUCKETS];

		if (k->key_hash == h) {
			b = k;
			break;
		}
		if (b->key_hash != h && b->full_ns > now && k->full_ns <= now)
			b = k; /* free, unless our own slot follows */
	}
	if (b->key_hash != h && b->full_ns <= now)
		*b = (struct rate_bucket){ .key_hash = h, .full_ns = now };
	if (b->full_ns < now)
		b->full_ns = now;
	return b;
}

bool rate_limiter_try_acquire(struct rate_limiter *r, const void *who, size_t n, uint64_t now_ns)
{
	struct rate_bucket *b = rate_bucket_find(r, rate_limiter_hash(r, who, n), now_ns);

	if (b->full_ns + r->request_ns > now_ns + r->burst_ns)
		return false;
	b->full_ns += r->request_ns;
	return true;
}

bool rate_limiter_is_exhausted(const struct rate_limiter *r, const void *who, size_t n,
			       uint64_t now_ns)
{
	uint64_t h = rate_limiter_hash(r, who, n);

	for (size_t i = 0; i < WAYS; i++) {
		const struct rate_bucket *b = &r->buckets[(h + i) % RATE_BUCKETS];

		if (b->key_hash == h)
			return b->full_ns + r->request_ns > now_ns + r->burst_ns;
	}
	return false;
}
