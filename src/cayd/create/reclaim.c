/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim - have the memory of sandboxes that doze written to swap; cay-keeper does one at a time
 */
#include "cayd/create/create.h"

#include "cayd/core/keeper-link.h"

/* One that is woken before costs no I/O. */
#define AFTER_NS (5 * NS_PER_S)
#define EVERY_NS NS_PER_S

/* It may take minutes, so the sandbox is not held. */
struct reclaim_call {
	struct cayd *cayd;
	struct id sandbox;
};

static void on_reclaimed(void *arg, const struct cay_err *outcome, const void *, int)
{
	struct reclaim_call *call = arg, c = *call;
	struct sandbox *sb = sandbox_find(c.cayd->sandboxes, &c.sandbox);
	bool later = outcome->code == CAY_E_UNAVAILABLE || outcome->code == CAY_E_CAPACITY;

	free(call);
	if (sb && later)
		sb->reclaim.asked = false; /* the next sweep with a keeper tries again */
	if (later)
		return;
	if (outcome->code && outcome->code != CAY_E_NOT_FOUND)
		log_error(&c.cayd->log, "cannot give back the memory of a sandbox that dozes: %s",
			  outcome->msg);
}

static void reclaim_if_due(struct sandbox *sb, uint64_t now)
{
	struct verb_sandbox q = { .sandbox = sb->info.id, .generation = sb->life.generation };
	struct reclaim_call *call;

	if (!life_is_dozing(&sb->life) || sb->reclaim.asked ||
	    sb->life.pending_effect != DO_NOTHING || now < sb->changed_boot_ns + AFTER_NS)
		return;
	call = malloc(sizeof(*call));
	if (!call)
		return; /* the next sweep tries again */
	*call = (struct reclaim_call){ sb->cayd, sb->info.id };
	sb->reclaim.asked = true;
	keeper_call_for(sb->cayd->keeper, &sb->info.tenant, VERB_RECLAIM, &q, on_reclaimed, call);
}

void reclaims_sweep(struct cayd *c, uint64_t now)
{
	struct sandbox_due *due = sandboxes_get_due(c->sandboxes);

	if (now < due->reclaim_ns || !keeper_is_up(c->keeper))
		return;
	due->reclaim_ns = now + EVERY_NS;
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		reclaim_if_due(sb, now);
}
