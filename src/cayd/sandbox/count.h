/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_COUNT_H
#define CAY_CAYD_SANDBOX_COUNT_H
/*
 * tally - how many sandboxes a tenant, a group or a template has
 *
 * Asked for by every create, so the table of sandboxes is not walked for it.  A sandbox is
 * counted by what it says it is: who changes that takes it out before.
 */
#include "base/id.h"

struct sandbox;
struct sandbox_counts;

enum count_kind {
	COUNT_TENANT,   /* have a place: not ending */
	COUNT_GROUP,    /* of a tenant, the same */
	COUNT_TEMPLATE, /* live, whoever's */
	COUNT_KINDS
};

/* NULL without memory. */
struct sandbox_counts *sandbox_counts_create(void);
void sandbox_counts_free(struct sandbox_counts *t);
/* As it is now; NULL and "" are no group and no template. */
void sandbox_counts_update(struct sandbox_counts *t, struct sandbox *sb);
void sandbox_counts_remove(struct sandbox_counts *t, struct sandbox *sb);
unsigned sandbox_counts_get(const struct sandbox_counts *t, enum count_kind kind,
			    const struct id *tenant, const char *text);
#endif
