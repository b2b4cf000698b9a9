/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_SIGNATURE_BUDGET_H
#define CAY_EDGE_SIGNATURE_BUDGET_H
/*
 * signature-budget - time for the JWTs of addresses whose credentials were refused too often
 *
 * All such addresses together get a quarter of the time, however many they are; other callers are
 * not counted.  A good JWT from an address that also sends wrong ones (a proxy, a company) is
 * verified, and a flood of wrong ones leaves three quarters of the time for the rest.
 *
 * Pure: times are passed in.
 */
#include <stdint.h>

#include "base/clock.h"

#define SIGNATURE_SHARE 4 /* a quarter */
#define SIGNATURE_BURST_NS (100 * NS_PER_MS)

struct signature_budget {
	uint64_t spent_ns, at_ns; /* time spent that has not been regained at at_ns */
};

/* False: verify nothing now. */
static inline bool signature_budget_has_time(struct signature_budget *b, uint64_t now)
{
	uint64_t regained = (now - b->at_ns) / SIGNATURE_SHARE;

	b->spent_ns -= b->spent_ns < regained ? b->spent_ns : regained;
	b->at_ns += regained * SIGNATURE_SHARE;
	return b->spent_ns < SIGNATURE_BURST_NS;
}

static inline void signature_budget_spend(struct signature_budget *b, uint64_t took_ns)
{
	b->spent_ns += took_ns;
}
#endif
