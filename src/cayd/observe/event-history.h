/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_EVENT_HISTORY_H
#define CAY_CAYD_OBSERVE_EVENT_HISTORY_H
/*
 * event-history - the kept events of each tenant
 *
 * A tenant's events are numbered from 1 and kept apart from those of others, so that neither the
 * numbers nor the kept events tell a tenant how busy another one is.  The newest event of a
 * tenant is always kept, and its number with it: a start continues after it.
 */
#include "cayd/core/cayd.h"

struct event_follower;

struct event_slot {
	struct event_slot *newer, *older;
	uint64_t number; /* in the journal, among the events of all tenants */
	uint64_t seq;    /* among those of its tenant */
	struct id sandbox;
	const char *group; /* "": none */
	char text[];       /* JSON, one line */
};

struct event_history {
	struct event_history *next; /* of its bucket */
	struct id tenant;
	struct event_slot *oldest, *newest;
	size_t n;
	uint64_t last; /* the last number given; its event may not be durable yet */
	struct event_follower *followers;
};

#define EVENT_BUCKETS 1024

struct event_histories {
	struct event_history *by_tenant[EVENT_BUCKETS];
};

/* NULL without memory. */
struct event_slot *event_slot_new(const struct event *e, uint64_t number, struct slice text);
/* NULL: it has none. */
struct event_history *event_history_find(struct event_histories *all, const struct id *tenant);
/* NULL without memory. */
struct event_history *event_history_find_or_create(struct event_histories *all,
						   const struct id *tenant);
/* The history owns the slot from now on.  Its seq is above those before it. */
void event_history_append(struct event_history *h, struct event_slot *slot);
/* The caller frees it; NULL when there is none. */
struct event_slot *event_history_pop_oldest(struct event_history *h);
/* The oldest kept event with a seq above `after`, or NULL. */
struct event_slot *event_history_find_after(const struct event_history *h, uint64_t after);
/* Where a client that has seen `after` continues: *ret_missed is the first kept event if some
 * before it are lost, else 0.  A number that was never given is of another past: it continues from
 * 0. */
uint64_t event_history_resume(const struct event_history *h, uint64_t after, uint64_t *ret_missed);
/* Free a history without events and followers. */
void event_history_remove(struct event_histories *all, struct event_history *h);
#endif
