/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_DIAL_RATE_H
#define CAY_EGRESS_DIAL_RATE_H
/*
 * dial-rate - how often each tenant may have a connection made for it
 *
 * DIAL_RATE_PER_S on average, and as many at once after a second without any.  Pure: times are
 * passed in.  Bounded: a row for each tenant that used some in the last second, DIAL_RATE_TENANTS
 * at most, beyond which other tenants are refused.
 */
#include "base/id.h"

#define DIAL_RATE_PER_S 200
#define DIAL_RATE_TENANTS 1024

struct dial_rates {
	struct dial_rate *rows;
};

void dial_rates_fini(struct dial_rates *r);
/* Take one; false: none is left. */
[[nodiscard]] bool dial_rates_take(struct dial_rates *r, const struct id *tenant, uint64_t now_ns);
#endif
