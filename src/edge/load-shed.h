/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_LOAD_SHED_H
#define CAY_EDGE_LOAD_SHED_H
/*
 * shed - when more is asked than can be done, whose requests are done
 *
 * Three things are looked at.
 *
 * How long what is quick takes: what control answers at once, from its head to its
 * answer; and where nothing was asked of it, a round of our loop, which is how long what
 * comes meanwhile has waited.  When that is more than SHED_TARGET_NS in the mean of one
 * SHED_INTERVAL_NS and of the next, there is a queue that stands, here or there.  (Not
 * the least of them: order is not kept on the way, and somebody is always lucky.)  Then there is
 * one limit for every tenant: so many requests a second.  It goes down while the queue stands and
 * up while it does not.  Who asks less than the limit does not feel it: what there is is shared as
 * max-min fairness has it, without knowing how many share it.
 *
 * What refusing costs: when it takes more than a quarter of the time, refusing more
 * helps nobody, and the limit goes up again.
 *
 * What control says: a tenant to which it said no is told no from here for a moment,
 * and for twice as long the next time, until control says yes.
 *
 * Pure: times are the caller's.  Bounded: SHED_SHARES tenants at once; others share, but
 * never with strangers, of whom there may be any number.
 */
#include <stddef.h>
#include <stdint.h>

#define SHED_INTERVAL_NS UINT64_C(100000000)
#define SHED_TARGET_NS UINT64_C(50000000)
#define SHED_REFUSING 4 /* a quarter */
#define SHED_LEAST 10   /* requests a second: what is slow may be so for other reasons */
#define SHED_SHARES 8192
#define SHED_NO_LIMIT UINT64_MAX

enum load_shed_kind { SHED_TENANT, SHED_STRANGER, SHED_KINDS };

struct load_share; /* somebody's */

struct load_shed {
	uint64_t limit;    /* thousandths of a request a second, of one tenant */
	uint64_t delay_ns; /* of the last interval */
	uint64_t rate;     /* requests done a second, smoothed: when a queue stands, all we can */
	/* since the interval began */
	uint64_t began_ns, answers_ns, n_answers, busy_ns, refusing_ns, n_rounds, n_done, n_refused;
	unsigned queued_intervals, calm_intervals; /* intervals with a queue; without a refusal */
	uint64_t key;
	uint64_t refused_share, refused_by_control; /* since the start, by reason */
	struct load_share *shares;
};

[[nodiscard]] int load_shed_init(struct load_shed *s, uint64_t now);
void load_shed_fini(struct load_shed *s);
/* A round of the loop took so long, and so much of that was refusing. */
void load_shed_add_loop_round(struct load_shed *s, uint64_t took_ns, uint64_t refusing_ns,
			      uint64_t now);
/* Something quick was answered after so long. */
void load_shed_add_answer_time(struct load_shed *s, uint64_t took_ns);
/* A request of somebody; false: refuse it. */
[[nodiscard]] bool load_shed_try_admit(struct load_shed *s, enum load_shed_kind kind,
				       const void *who, size_t n, uint64_t now);
/* One was done, whoever's. */
void load_shed_count_done(struct load_shed *s);
/* A request of a tenant's that control may well refuse. */
[[nodiscard]] bool load_shed_can_ask_control(struct load_shed *s, const void *who, size_t n,
					     uint64_t now);
/* What it said to that. */
void load_shed_record_control_reply(struct load_shed *s, const void *who, size_t n, bool made,
				    uint64_t now);
#endif
