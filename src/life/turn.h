/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_TURN_H
#define CAY_LIFE_TURN_H
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
 * queue from turn_ask() until turn_leave() or turn_over().
 */
#include "base/id.h"

#define TURN_MAKING 16 /* as many as the keeper has workers */
#define TURN_ROOM 1024
#define TURN_FLOOR 10 /* are let in whatever was measured: else nothing is measured again */
#define TURN_PATIENCE_NS UINT64_C(2000000000)

struct turn {
	struct turn *next;
	struct id tenant;
	uint64_t since_ns; /* it waits, or is made */
	uint64_t tag;      /* the smallest is next */
	unsigned beside;   /* made when it began */
	bool begun;
};

struct turns {
	struct turn *waiting, *making; /* by tag; in any order */
	unsigned n_waiting, n_making;
	uint64_t tag;     /* of the last that began */
	uint64_t each_ns; /* what one costs; 0: not known yet */
	uint64_t n_refused, n_late;
};

/* May it come in?  It waits then, until turn_next() returns it. */
[[nodiscard]] bool turn_ask(struct turns *q, struct turn *t, const struct id *tenant, uint64_t now);
/* The one to begin now, or NULL. */
struct turn *turn_next(struct turns *q, uint64_t now);
/* One that has waited for too long, taken out; or NULL. */
struct turn *turn_late(struct turns *q, uint64_t now);
/* It need not be made: who waited for it has left, or it was refused. */
void turn_leave(struct turns *q, struct turn *t);
/* It is made, or never will be. */
void turn_over(struct turns *q, struct turn *t, uint64_t now);
#endif
