/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/dial-rate.h"

#include <stdlib.h>

#define BURST_NS UINT64_C(1000000000)
#define COST_NS (BURST_NS / DIAL_RATE_PER_S)

struct dial_rate {
	struct dial_rate *next;
	struct id tenant;
	uint64_t paid_ns; /* what was taken is paid for at this time */
};

void dial_rates_fini(struct dial_rates *r)
{
	while (r->rows) {
		struct dial_rate *next = r->rows->next;

		free(r->rows);
		r->rows = next;
	}
}

/* Its row, after all that are paid for were freed. */
static struct dial_rate *dial_rates_find(struct dial_rates *r, const struct id *tenant,
					 uint64_t now_ns, unsigned *ret_n)
{
	struct dial_rate *found = NULL;

	*ret_n = 0;
	for (struct dial_rate **at = &r->rows; *at;) {
		struct dial_rate *row = *at;

		if (id_eq(&row->tenant, tenant)) {
			found = row;
		} else if (row->paid_ns <= now_ns) {
			*at = row->next;
			free(row);
			continue;
		}
		at = &row->next;
		++*ret_n;
	}
	return found;
}

bool dial_rates_take(struct dial_rates *r, const struct id *tenant, uint64_t now_ns)
{
	unsigned n;
	struct dial_rate *row = dial_rates_find(r, tenant, now_ns, &n);

	if (!row) {
		row = n < DIAL_RATE_TENANTS ? calloc(1, sizeof(*row)) : NULL;
		if (!row)
			return false;
		*row = (struct dial_rate){ .next = r->rows, .tenant = *tenant };
		r->rows = row;
	}
	if (row->paid_ns < now_ns)
		row->paid_ns = now_ns;
	if (row->paid_ns + COST_NS > now_ns + BURST_NS)
		return false;
	row->paid_ns += COST_NS;
	return true;
}
