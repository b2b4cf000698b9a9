/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/refusal.h"

static void refusal_increment(uint32_t *n)
{
	if (*n < UINT32_MAX)
		++*n;
}

void refusal_add(struct refusals *r, enum push_refusal why, const uint8_t peer[static 16],
		 const struct id *key)
{
	struct id none = {};
	struct refusal *row = r->by[why].rows, *end = row + r->by[why].n;

	if (!key)
		key = &none;
	while (row < end && (memcmp(row->peer, peer, 16) != 0 || !id_eq(&row->key, key)))
		row++;
	if (row == end && r->by[why].n == REFUSALS_MAX) {
		refusal_increment(&r->by[why].several);
		return;
	}
	if (row == end) {
		*row = (struct refusal){ .key = *key };
		memcpy(row->peer, peer, 16);
		r->by[why].n++;
	}
	refusal_increment(&row->n);
}

bool refusal_remove_next(struct refusals *r, struct push *ret)
{
	for (unsigned why = 0; why < PUSH_REFUSALS; why++) {
		struct push p = { .kind = PUSH_REFUSED, .value = (uint8_t)why };

		if (r->by[why].n) {
			const struct refusal *row = &r->by[why].rows[--r->by[why].n];

			p.number = row->n;
			p.id = row->key;
			memcpy(p.secret, row->peer, sizeof(row->peer));
		} else if (r->by[why].several) {
			p.number = r->by[why].several;
			r->by[why].several = 0;
		} else {
			continue;
		}
		*ret = p;
		return true;
	}
	return false;
}
