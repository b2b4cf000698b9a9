/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_CREATE_QUEUE_H
#define CAY_LIFE_CREATE_QUEUE_H
/*
 * turn - whose sandbox is made next, and who is told to come again
 *
 * At most TURN_MAKING are made at once; others wait, tenant by tenant in turn.  How long
 * one more would take is measured: a making's time divided by how many were under way
 * (Little's law) is what each costs, and nobody is let in whom that would cost more than
 * TURN_PATIENCE_NS.  Of the room there is a tenant has at most three times what is left,
 * so that there is some for who has none, however many one asks for.
 *
 * Pure: no clock, no memory of its own.  A turn belongs to the caller and is in the
 * queue from create_queue_enter() until create_queue_leave() or create_queue_finish().
 */
#include "base/id.h"

#define CREATE_QUEUE_RUNNING_MAX 16 /* as many as the keeper has workers */
#define CREATE_QUEUE_MAX 1024
#define CREATE_QUEUE_MIN 10 /* are let in whatever was measured: else nothing is measured again */
#define CREATE_QUEUE_WAIT_MAX_NS UINT64_C(2000000000)

struct create_slot {
	struct create_slot *next;
	struct id tenant;
	uint64_t since_ns;     /* it waits, or is made */
	uint64_t tag;          /* the smallest is next */
	unsigned n_concurrent; /* made when it began */
	bool started;
};

struct create_queue {
	struct create_slot *waiting, *creating; /* by tag; in any order */
	unsigned n_waiting, n_creating;
	uint64_t tag;     /* of the last that began */
	uint64_t cost_ns; /* what one costs; 0: not known yet */
	uint64_t n_refused, n_expired;
};

/* May it come in?  It waits then, until create_queue_start_next() returns it. */
[[nodiscard]] bool create_queue_enter(struct create_queue *q, struct create_slot *t,
				      const struct id *tenant, uint64_t now);
/* The one to begin now, or NULL. */
struct create_slot *create_queue_start_next(struct create_queue *q, uint64_t now);
/* One that has waited for too long, taken out; or NULL. */
struct create_slot *create_queue_pop_expired(struct create_queue *q, uint64_t now);
/* It need not be made: who waited for it has left, or it was refused. */
void create_queue_leave(struct create_queue *q, struct create_slot *t);
/* It is made, or never will be. */
void create_queue_finish(struct create_queue *q, struct create_slot *t, uint64_t now);
#endif
