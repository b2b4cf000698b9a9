/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_TENANT_SHARE_H
#define CAY_NET_TENANT_SHARE_H
/*
 * tenant-share - what each tenant takes of one daemon: its thread's time, and memory for replies
 *
 * Time: requests wait in a queue per tenant, and the tenant that has used least is next (start-time
 * fair queueing over measured time).  One that floods waits for itself: another tenant waits for at
 * most the request in progress.  A tenant that was idle starts with the others, it saves nothing
 * up; one that emptied its queue keeps its debt.
 *
 * Memory: bytes of replies that clients have not read count until the last is sent.  Above
 * UNREAD_TENANT_MAX new requests of that tenant are refused; above UNREAD_MAX those of every tenant
 * with more than UNREAD_FREE.
 *
 * Refusals cost time as well, and a client that is refused at once asks again at once: those of a
 * tenant are limited to REFUSALS_TICK in TURNS_TICK_MS, and the others wait.
 *
 * Pure: times are passed in.  Bounded: a share for each tenant with a request in progress or a
 * debt; a queue holds at most the server's connections.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/mem.h"

#define UNREAD_TENANT_MAX MIB(32)
#define UNREAD_MAX MIB(96)
#define UNREAD_HARD_MAX MIB(128) /* beyond, connections are closed */
#define UNREAD_FREE KIB(512)     /* a tenant may always have this much */
#define TURNS_TICK_MS 5
#define REFUSALS_TICK 5

struct tenant_shares;
struct tenant_share;

/* A request that waits, embedded in its connection. */
struct tenant_turn {
	struct tenant_turn *next, **prev; /* prev NULL: not waiting */
	uint64_t since_ns;
};

struct tenant_turns_list {
	struct tenant_turn *first, **last;
};

struct tenant_share {
	struct tenant_shares *all;
	struct tenant_share *next;              /* of its bucket */
	struct tenant_share *busy_next, **busy; /* those with requests that wait; busy NULL: none */
	struct id tenant;
	unsigned requests; /* until the last byte of their reply is sent */
	unsigned refused;  /* in this tick */
	uint64_t used_ns;  /* virtual time at which its next request starts */
	size_t unread;
	struct tenant_turns_list waiting, refusals;
};

[[nodiscard]] struct tenant_shares *tenant_shares_new(void);
/* No request may be left. */
void tenant_shares_free(struct tenant_shares *all);
/* A request of that tenant begins; NULL without memory. */
[[nodiscard]] struct tenant_share *tenant_share_enter(struct tenant_shares *all,
						      const struct id *tenant);
/* Its reply was sent or its connection is gone. */
void tenant_share_leave(struct tenant_share *s);

void tenant_share_charge(struct tenant_share *s, uint64_t used_ns);
void tenant_share_wait(struct tenant_share *s, struct tenant_turn *t, uint64_t now);
/* The request whose turn it is, removed from its queue; NULL: none waits. */
[[nodiscard]] struct tenant_turn *tenant_shares_next(struct tenant_shares *all);
bool tenant_shares_wait(const struct tenant_shares *all);
/* Forget a request that waits, for its turn or to be refused. */
void tenant_share_forget(struct tenant_share *s, struct tenant_turn *t);

/* Whether it may be refused now; otherwise it waits until tenant_shares_tick(). */
[[nodiscard]] bool tenant_share_try_refuse(struct tenant_share *s, struct tenant_turn *t);
/* Begin a tick: call fn for each refusal that is due.  True: others wait. */
bool tenant_shares_tick(struct tenant_shares *all, void (*fn)(struct tenant_turn *t));

/* Replace what a connection has unread. */
void tenant_share_count_unread(struct tenant_share *s, size_t *counted, size_t now);
/* True: so much more would be too much. */
[[nodiscard]] bool tenant_share_is_full(const struct tenant_share *s, size_t more);
/* True: no more memory may be used, by any tenant. */
[[nodiscard]] bool tenant_shares_are_full(const struct tenant_share *s);
#endif
