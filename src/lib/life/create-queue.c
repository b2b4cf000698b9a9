/* SPDX-License-Identifier: Apache-2.0 */
#include "life/create-queue.h"

#define SMOOTH 8 /* weight of the moving average: the last 8 creates */

/* Number of creates to admit so that the last of them is served in time. */
static unsigned create_queue_capacity(const struct create_queue *q)
{
	uint64_t n = q->cost_ns ? CREATE_QUEUE_WAIT_MAX_NS / q->cost_ns : CREATE_QUEUE_MAX;

	return n > CREATE_QUEUE_MAX ? CREATE_QUEUE_MAX : (unsigned)n;
}

static unsigned create_queue_count_tenant(const struct create_slot *t, const struct id *tenant,
					  uint64_t *ret_tag)
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

bool create_queue_enter(struct create_queue *q, struct create_slot *t, const struct id *tenant,
			uint64_t now)
{
	unsigned all = q->n_waiting + q->n_creating, most = create_queue_capacity(q), own;
	struct create_slot **at = &q->waiting;
	uint64_t tag = q->tag;

	own = create_queue_count_tenant(q->waiting, tenant, &tag) +
	      create_queue_count_tenant(q->creating, tenant, &tag);
	if (all >= most || own >= 3 * (most - all)) {
		q->n_refused++;
		return false;
	}
	*t = (struct create_slot){ .tenant = *tenant, .since_ns = now, .tag = tag + 1 };
	while (*at && (*at)->tag <= t->tag)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
	q->n_waiting++;
	return true;
}

static void create_queue_unlink(struct create_slot **at, const struct create_slot *t)
{
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
}

struct create_slot *create_queue_start_next(struct create_queue *q, uint64_t now)
{
	struct create_slot *t = q->waiting;

	if (!t || q->n_creating >= CREATE_QUEUE_RUNNING_MAX)
		return NULL;
	q->waiting = t->next;
	q->n_waiting--;
	q->tag = t->tag;
	t->next = q->creating;
	q->creating = t;
	t->n_concurrent = ++q->n_creating;
	t->since_ns = now;
	t->started = true;
	return t;
}

struct create_slot *create_queue_pop_expired(struct create_queue *q, uint64_t now)
{
	struct create_slot *t = q->waiting;

	while (t && (now < t->since_ns || now - t->since_ns < CREATE_QUEUE_WAIT_MAX_NS))
		t = t->next;
	if (!t)
		return NULL;
	create_queue_leave(q, t);
	q->n_expired++;
	return t;
}

void create_queue_leave(struct create_queue *q, struct create_slot *t)
{
	create_queue_unlink(t->started ? &q->creating : &q->waiting, t);
	*(t->started ? &q->n_creating : &q->n_waiting) -= 1;
}

void create_queue_finish(struct create_queue *q, struct create_slot *t, uint64_t now)
{
	/* two ends of the same time: the mean is near enough to how many there were */
	uint64_t beside = (t->n_concurrent + q->n_creating + 1) / 2;
	uint64_t took = (now - t->since_ns) / beside + 1;

	/* an outage says nothing about the cost of a create; admit a few to measure it */
	if (took > CREATE_QUEUE_WAIT_MAX_NS / CREATE_QUEUE_MIN)
		took = CREATE_QUEUE_WAIT_MAX_NS / CREATE_QUEUE_MIN;
	q->cost_ns = q->cost_ns ? (q->cost_ns * (SMOOTH - 1) + took) / SMOOTH : took;
	create_queue_leave(q, t);
}
