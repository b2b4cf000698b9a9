/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_REFUSAL_H
#define CAY_EDGE_REFUSAL_H
/*
 * refusal - refused requests, summed up until reported to control
 *
 * A row for each peer, reason and key, REFUSALS_MAX of them; further ones count as "several".  So a
 * flood becomes a few records a second; while control is not running the numbers grow.
 */
#include "wire/push.h"

#define REFUSALS_MAX 128

struct refusal {
	uint8_t peer[16]; /* as in wire/push.h; zero: several */
	struct id key;
	uint32_t n;
};

struct refusals {
	struct {
		struct refusal rows[REFUSALS_MAX];
		unsigned n;
		uint32_t several;
	} by[PUSH_REFUSALS];
};

/* key may be NULL. */
void refusal_add(struct refusals *r, enum push_refusal why, const uint8_t peer[static 16],
		 const struct id *key);
/* The next record; false when there is none. */
[[nodiscard]] bool refusal_remove_next(struct refusals *r, struct push *ret);
#endif
