/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rate.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"

#define WAYS 8 /* places somebody may have */

struct bucket {
	uint64_t who;     /* a hash; 0: nobody */
	uint64_t full_ns; /* when it is full again, if nothing more is taken */
};

struct rates {
	uint64_t one_ns, all_ns; /* what one takes to come back, and all of them */
	uint64_t key;
	struct bucket buckets[RATE_BUCKETS];
};

struct rates *rates_new(uint64_t per_min, uint64_t burst)
{
	struct rates *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->one_ns = 60 * NS_PER_S / per_min;
	r->all_ns = r->one_ns * burst;
	if (getrandom(&r->key, sizeof(r->key), GRND_NONBLOCK) < 0)
		r->key = (uint64_t)(uintptr_t)r;
	return r;
}

void rates_free(struct rates *r)
{
	free(r);
}

static uint64_t hash(const struct rates *r, const void *who, size_t n)
{
	const uint8_t *p = who;
	uint64_t h = UINT64_C(14695981039346656037) ^ r->key;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * UINT64_C(1099511628211);
	return h ^ h >> 29;
}

static struct bucket *find(struct rates *r, uint64_t h, uint64_t now)
{
	struct bucket *b = &r->buckets[h % RATE_BUCKETS];

	for (size_t i = 0; i < WAYS; i++) {
		struct bucket *k = &r->buckets[(h + i) % RATE_BUCKETS];

		if (k->who == h) {
			b = k;
			break;
		}
		if (b->who != h && b->full_ns > now && k->full_ns <= now)
			b = k; /* nobody's now, unless our own comes later */
	}
	if (b->who != h && b->full_ns <= now)
		*b = (struct bucket){ .who = h, .full_ns = now };
	if (b->full_ns < now)
		b->full_ns = now;
	return b;
}

bool rate_take(struct rates *r, const void *who, size_t n, uint64_t now_ns)
{
	struct bucket *b = find(r, hash(r, who, n), now_ns);

	if (b->full_ns + r->one_ns > now_ns + r->all_ns)
		return false;
	b->full_ns += r->one_ns;
	return true;
}

bool rate_spent(const struct rates *r, const void *who, size_t n, uint64_t now_ns)
{
	uint64_t h = hash(r, who, n);

	for (size_t i = 0; i < WAYS; i++) {
		const struct bucket *b = &r->buckets[(h + i) % RATE_BUCKETS];

		if (b->who == h)
			return b->full_ns + r->one_ns > now_ns + r->all_ns;
	}
	return false;
}
