/* SPDX-License-Identifier: Apache-2.0 */
#include "life/turn.h"

#define SMOOTH 8 /* the last so many makings count */

/* How many may be inside, so that the last of them is made in time. */
static unsigned room(const struct turns *q)
{
	uint64_t n = q->each_ns ? TURN_PATIENCE_NS / q->each_ns : TURN_ROOM;

	return n > TURN_ROOM ? TURN_ROOM : (unsigned)n;
}

static unsigned count(const struct turn *t, const struct id *tenant, uint64_t *ret_tag)
{
	unsigned n = 0;

	for (; t; t = t->next)
		if (id_eq(&t->tenant, tenant)) {
			n++;
			if (t->tag > *ret_tag)
				*ret_tag = t->tag;
		}
	return n;
}

bool turn_ask(struct turns *q, struct turn *t, const struct id *tenant, uint64_t now)
{
	unsigned all = q->n_waiting + q->n_making, most = room(q), own;
	struct turn **at = &q->waiting;
	uint64_t tag = q->tag;

	own = count(q->waiting, tenant, &tag) + count(q->making, tenant, &tag);
	if (all >= most || own >= 3 * (most - all)) {
		q->n_refused++;
		return false;
	}
	*t = (struct turn){ .tenant = *tenant, .since_ns = now, .tag = tag + 1 };
	while (*at && (*at)->tag <= t->tag)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
	q->n_waiting++;
	return true;
}

static void take_out(struct turn **at, const struct turn *t)
{
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
}

struct turn *turn_next(struct turns *q, uint64_t now)
{
	struct turn *t = q->waiting;

	if (!t || q->n_making >= TURN_MAKING)
		return NULL;
	q->waiting = t->next;
	q->n_waiting--;
	q->tag = t->tag;
	t->next = q->making;
	q->making = t;
	t->beside = ++q->n_making;
	t->since_ns = now;
	t->begun = true;
	return t;
}

struct turn *turn_late(struct turns *q, uint64_t now)
{
	struct turn *t = q->waiting;

	while (t && (now < t->since_ns || now - t->since_ns < TURN_PATIENCE_NS))
		t = t->next;
	if (!t)
		return NULL;
	turn_leave(q, t);
	q->n_late++;
	return t;
}

void turn_leave(struct turns *q, struct turn *t)
{
	take_out(t->begun ? &q->making : &q->waiting, t);
	*(t->begun ? &q->n_making : &q->n_waiting) -= 1;
}

void turn_over(struct turns *q, struct turn *t, uint64_t now)
{
	/* two ends of the same time: the mean is near enough to how many there were */
	uint64_t beside = (t->beside + q->n_making + 1) / 2;
	uint64_t took = (now - t->since_ns) / beside + 1;

	/* an outage is not what a making costs, and a few must be let in to find out */
	if (took > TURN_PATIENCE_NS / TURN_FLOOR)
		took = TURN_PATIENCE_NS / TURN_FLOOR;
	q->each_ns = q->each_ns ? (q->each_ns * (SMOOTH - 1) + took) / SMOOTH : took;
	turn_leave(q, t);
}
