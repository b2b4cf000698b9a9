/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_LOAD_SHED_H
#define CAY_EDGE_LOAD_SHED_H
/*
 * load-shed - decide whose requests are served when there are too many
 *
 * Three measurements:
 *
 * Delay: the time control takes to answer quick requests, and where there were none, the time
 * of a loop round, which is how long new input has waited.  When the mean is above
 * SHED_TARGET_NS for two intervals (SHED_INTERVAL_NS) in a row, a queue stands, here or there.
 * (The minimum would not do: order is not kept on the way, so some request is always quick.)
 * Then every tenant gets the same limit of requests a second.  It falls while the queue stands
 * and rises while it does not.  A tenant below the limit is not affected: capacity is shared
 * max-min fairly without counting the sharers.  Control serves tenants by turns, so a queue there
 * is the queue of one tenant: while the loop itself is quick, the limit is for tenants whose own
 * requests wait.
 *
 * Cost of refusing: above a quarter of the time, refusing more does not help: the limit rises.
 *
 * Replies of control: a tenant that control refused is refused here for a moment, and for twice
 * as long the next time, until control accepts.
 *
 * Pure: times are passed in.  Bounded: SHED_SHARES tenants; more share a slot, but never with
 * anonymous callers, of which there may be any number.
 */
#include <stddef.h>
#include <stdint.h>

#define SHED_INTERVAL_NS UINT64_C(100000000)
#define SHED_TARGET_NS UINT64_C(50000000)
#define SHED_REFUSING 4 /* a quarter */
#define SHED_LEAST 10   /* requests a second: the delay may have other causes */
#define SHED_SHARES 8192
#define SHED_NO_LIMIT UINT64_MAX

enum load_shed_kind { SHED_TENANT, SHED_STRANGER, SHED_KINDS };

struct load_share; /* of one caller */

struct load_shed {
	uint64_t limit;    /* thousandths of a request a second, per tenant */
	uint64_t delay_ns; /* of the last interval */
	uint64_t rate;     /* requests done a second, smoothed: our capacity while a queue stands */
	/* since the interval began */
	uint64_t began_ns, busy_ns, refusing_ns, n_rounds, n_done, n_refused;
	bool is_round_slow;                        /* in the last interval */
	unsigned queued_intervals, calm_intervals; /* with a queue; without a refusal */
	uint64_t key;
	uint64_t refused_share, refused_by_control; /* since the start, by reason */
	struct load_share *shares, *answered;
};

[[nodiscard]] int load_shed_init(struct load_shed *s, uint64_t now);
void load_shed_fini(struct load_shed *s);
/* Busy ns of a loop round, and the part of them spent refusing. */
void load_shed_add_loop_round(struct load_shed *s, uint64_t took, uint64_t refusing, uint64_t now);
/* Time of one quick answer to that tenant. */
void load_shed_add_answer_time(struct load_shed *s, const void *who, size_t n, uint64_t took_ns,
			       uint64_t now);
/* False: refuse the request. */
[[nodiscard]] bool load_shed_try_admit(struct load_shed *s, enum load_shed_kind kind,
				       const void *who, size_t n, uint64_t now);
/* Count a completed request of any caller. */
void load_shed_count_done(struct load_shed *s);
/* False: control has just refused this tenant. */
[[nodiscard]] bool load_shed_can_ask_control(struct load_shed *s, const void *who, size_t n,
					     uint64_t now);
void load_shed_record_control_reply(struct load_shed *s, const void *who, size_t n, bool made,
				    uint64_t now);
#endif
