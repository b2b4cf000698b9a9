/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_CREATE_QUEUE_H
#define CAY_LIFE_CREATE_QUEUE_H
/* create-queue - the order in which sandboxes are created, and early refusal
 *
 * At most CREATE_QUEUE_RUNNING_MAX creates run at once; others wait, and tenants take turns.  The
 * cost of a create is measured: its duration divided by the number under way (Little's law).  A
 * create that would wait longer than CREATE_QUEUE_WAIT_MAX_NS is refused at once.  A tenant gets at
 * most three times the room that is left, so that some is left for tenants without any, however
 * many creates one tenant sends.
 *
 * Pure: no clock, no memory of its own.  A slot belongs to the caller and is in the queue from
 * create_queue_enter() until create_queue_leave() or create_queue_finish(). */
#include "base/id.h"

#define CREATE_QUEUE_RUNNING_MAX 16 /* of the keeper's workers */
#define CREATE_QUEUE_MAX 1024
#define CREATE_QUEUE_MIN 10 /* always admitted, else nothing would be measured again */
#define CREATE_QUEUE_WAIT_MAX_NS UINT64_C(2000000000)

struct create_slot {
	struct create_slot *next;
	struct id tenant;
	uint64_t since_ns;     /* start of waiting, or of creating */
	uint64_t tag;          /* the smallest is next */
	unsigned n_concurrent; /* creates under way when it began */
	bool started;
};

struct create_queue {
	struct create_slot *waiting, *creating; /* by tag; in any order */
	unsigned n_waiting, n_creating;
	uint64_t tag;     /* of the last that began */
	uint64_t cost_ns; /* cost of one create; 0: not yet measured */
	uint64_t n_refused, n_expired;
};

/* May it come in?  It waits then, until create_queue_start_next() returns it. */
[[nodiscard]] bool create_queue_enter(struct create_queue *q, struct create_slot *t,
				      const struct id *tenant, uint64_t now);
/* The one to begin now, or NULL. */
struct create_slot *create_queue_start_next(struct create_queue *q, uint64_t now);
/* Remove and return a slot that has waited too long; or NULL. */
struct create_slot *create_queue_pop_expired(struct create_queue *q, uint64_t now);
/* It is no longer needed: its client has left, or it was refused. */
void create_queue_leave(struct create_queue *q, struct create_slot *t);
/* It has been created, or has failed. */
void create_queue_finish(struct create_queue *q, struct create_slot *t, uint64_t now);
#endif
