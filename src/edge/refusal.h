/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_REFUSAL_H
#define CAY_EDGE_REFUSAL_H
/*
 * refusal - who was refused and why, summed up until control is told
 *
 * A row for each peer, reason and key, REFUSALS_MAX of them; who comes when they are
 * taken is one of several.  So a flood is a few records a second, and what is not told
 * because control is away is a larger number later.
 */
#include "wire/push.h"

#define REFUSALS_MAX 128

struct refusal {
	uint8_t peer[16]; /* as push.h has it; zero: several */
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
