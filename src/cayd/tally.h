/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TALLY_H
#define CAY_CAYD_TALLY_H
/*
 * tally - how many sandboxes a tenant, a group or a template has
 *
 * Asked for by every create, so the table of sandboxes is not walked for it.  A sandbox is
 * counted by what it says it is: who changes that takes it out before.
 */
#include "base/id.h"

struct box;
struct tally;

enum tally_kind {
	TALLY_TENANT,   /* have a place: not ending */
	TALLY_GROUP,    /* of a tenant, the same */
	TALLY_TEMPLATE, /* live, whoever's */
	TALLY_KINDS
};

/* NULL without memory. */
struct tally *tally_new(void);
void tally_free(struct tally *t);
/* As it is now; NULL and "" are no group and no template. */
void tally_in(struct tally *t, struct box *b);
void tally_out(struct tally *t, struct box *b);
unsigned tally_of(const struct tally *t, enum tally_kind kind, const struct id *tenant,
		  const char *text);
#endif
