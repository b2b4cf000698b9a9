/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_ENDED_H
#define CAY_CAYD_SANDBOX_ENDED_H
/*
 * ended - records of ended sandboxes, by tenant
 *
 * A node keeps at most limits.sandboxes of them; a record with many labels counts as several.  One
 * more, and the tenant that has the most loses its oldest.  So a tenant loses none before
 * limits.record_ttl while it has at most its share, which is limits.sandboxes divided by the number
 * of tenants that have any.
 */
#include "cayd/sandbox/sandbox.h"

struct ended_records {
	struct ended_owner *owners;
	uint64_t weight;
};

void ended_add(struct ended_records *all, struct sandbox *sb);
void ended_remove(struct ended_records *all, struct sandbox *sb);
/* The record to forget if there are more than `max`; NULL if not, or if all of them are in use. */
struct sandbox *ended_find_excess(const struct ended_records *all, uint64_t max);
#endif
