/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim - have the memory of sandboxes that doze written to swap; cay-keeper does one at a time
 *
 * On cgroup v2 what a sandbox has in swap is taken from its memory when it is woken.  As it comes
 * back, the keeper divides its limit again: at times that grow with the time since the wake,
 * because what has not been touched for long is seldom touched soon.
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
	uint64_t memory_bytes; /* to settle: the limit that is divided */
};

static void reclaim_next(struct cayd *c, uint64_t now);

static void on_reclaimed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct reclaim_call *call = arg, c = *call;
	struct sandbox *sb = sandbox_find(c.cayd->sandboxes, &c.sandbox);
	bool later = outcome->code == CAY_E_UNAVAILABLE || outcome->code == CAY_E_CAPACITY;

	free(call);
	cay_closep(&fd);
	sandboxes_get_due(c.cayd->sandboxes)->reclaiming = false;
	if (sb && later)
		sb->reclaim.asked = false; /* the next sweep with a keeper tries again */
	if (later)
		return;
	if (outcome->code && outcome->code != CAY_E_NOT_FOUND)
		log_error(&c.cayd->log, "cannot give back the memory of a sandbox that dozes: %s",
			  outcome->msg);
	reclaim_next(c.cayd, clk_boot_ns(c.cayd->clk));
}

static bool reclaim_is_due(const struct sandbox *sb, uint64_t now)
{
	return life_is_dozing(&sb->life) && !sb->reclaim.asked &&
	       sb->life.pending_effect == DO_NOTHING && now >= sb->changed_boot_ns + AFTER_NS;
}

/* Tenants take turns, by their ids, and of one the sandbox that dozes longest is first. */
static bool reclaim_is_before(const struct sandbox *a, const struct sandbox *b,
			      const struct id *served)
{
	int ab = memcmp(&a->info.tenant, &b->info.tenant, sizeof(a->info.tenant));
	bool a_wraps = memcmp(&a->info.tenant, served, sizeof(*served)) <= 0;
	bool b_wraps = memcmp(&b->info.tenant, served, sizeof(*served)) <= 0;

	if (a_wraps != b_wraps)
		return b_wraps;
	return ab ? ab < 0 : a->changed_boot_ns < b->changed_boot_ns;
}

/* One at a time: a call that waited would be of a sandbox that was awake meanwhile. */
static void reclaim_next(struct cayd *c, uint64_t now)
{
	struct sandbox_due *due = sandboxes_get_due(c->sandboxes);
	struct sandbox *first = NULL;
	struct reclaim_call *call;
	struct verb_sandbox q;

	if (due->reclaiming || !keeper_is_up(c->keeper))
		return;
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		if (reclaim_is_due(sb, now) &&
		    (!first || reclaim_is_before(sb, first, &due->reclaimed)))
			first = sb;
	call = first ? malloc(sizeof(*call)) : NULL;
	if (!call)
		return; /* the next sweep tries again */
	*call = (struct reclaim_call){ c, first->info.id, 0 };
	first->reclaim.asked = first->reclaim.in_swap = true;
	first->reclaim.settle_ns = 0;
	due->reclaiming = true;
	due->reclaimed = first->info.tenant;
	q = (struct verb_sandbox){ .sandbox = first->info.id,
				   .generation = first->life.generation };
	keeper_call_for(c->keeper, &first->info.tenant, VERB_RECLAIM, &q, on_reclaimed, call);
}

/* A limit that was changed meanwhile is divided again at once: the calls may have changed places.
 */
static void on_swap_settled(void *arg, const struct cay_err *, const void *, int fd)
{
	struct reclaim_call *call = arg, c = *call;
	struct sandbox *sb = sandbox_find(c.cayd->sandboxes, &c.sandbox);

	free(call);
	cay_closep(&fd);
	if (!sb)
		return;
	sb->reclaim.settling = false;
	if (sb->info.limits.memory_bytes != c.memory_bytes)
		sb->reclaim.settle_ns = 0;
}

static void swap_settle_if_due(struct sandbox *sb, uint64_t now)
{
	uint64_t since = now - sb->changed_boot_ns;
	struct verb_limits q = { .sandbox = sb->info.id,
				 .generation = sb->life.generation,
				 .memory_bytes = sb->info.limits.memory_bytes };
	struct reclaim_call *call;

	if (!sb->reclaim.in_swap || sb->life.state != SB_RUNNING || sb->reclaim.settling ||
	    now < sb->reclaim.settle_ns || since < EVERY_NS || sb->resize.has_wanted ||
	    sb->resize.under_way)
		return;
	call = malloc(sizeof(*call));
	if (!call)
		return;
	*call = (struct reclaim_call){ sb->cayd, sb->info.id, q.memory_bytes };
	sb->reclaim.settling = true;
	sb->reclaim.settle_ns = now + since / 2;
	keeper_call_for(sb->cayd->keeper, &sb->info.tenant, VERB_LIMITS, &q, on_swap_settled, call);
}

void reclaims_sweep(struct cayd *c, uint64_t now)
{
	struct sandbox_due *due = sandboxes_get_due(c->sandboxes);

	if (now < due->reclaim_ns || !keeper_is_up(c->keeper))
		return;
	due->reclaim_ns = now + EVERY_NS;
	reclaim_next(c, now);
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		swap_settle_if_due(sb, now);
}
