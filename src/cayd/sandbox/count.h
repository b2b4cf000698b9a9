/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_COUNT_H
#define CAY_CAYD_SANDBOX_COUNT_H
/*
 * count - how many sandboxes a tenant, a group or a template has, and their limits together
 *
 * Every create needs these numbers, so they are kept instead of walking the table.  A sandbox
 * is counted by its present tenant, group and template: call sandbox_counts_remove() before
 * changing one of them.
 */
#include "base/id.h"
#include "life/grant.h"

struct sandbox;
struct sandbox_counts;

enum count_kind {
	COUNT_TENANT,   /* not ending */
	COUNT_GROUP,    /* not ending, of one tenant */
	COUNT_TEMPLATE, /* not ended, of any tenant */
	COUNT_STOPPED,  /* stopping or stopped */
	COUNT_KINDS
};

/* NULL when out of memory. */
struct sandbox_counts *sandbox_counts_create(void);
/* Count it as it is now; NULL and "" mean no group and no template. */
void sandbox_counts_update(struct sandbox_counts *t, struct sandbox *sb);
void sandbox_counts_remove(struct sandbox_counts *t, struct sandbox *sb);
unsigned sandbox_counts_get(const struct sandbox_counts *t, enum count_kind kind,
			    const struct id *tenant, const char *text);
/* Sandboxes that are not ending, and the sums of their limits: of a tenant, of the node. */
struct tenant_usage sandbox_counts_get_usage(const struct sandbox_counts *t,
					     const struct id *tenant);
struct grant sandbox_counts_get_total(const struct sandbox_counts *t);
/* Whether it may stop by itself: it has files to keep, and its tenant not too many such. */
bool sandbox_may_stop(const struct sandbox *sb);
#endif
