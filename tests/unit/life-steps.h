/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_UNIT_LIFE_STEPS_H
#define CAY_TESTS_UNIT_LIFE_STEPS_H
/* life-steps - take a sandbox through its life, one event at a time */
#include "base/clock.h"
#include "life/life.h"
#include "unit.h"

#define AT(s) ((uint64_t)(s) * NS_PER_S)

static inline struct life fresh(uint64_t ttl, uint64_t idle, uint64_t max)
{
	return life_new(&(struct id){ .noun = ID_SANDBOX }, AT(100), ttl, idle, max);
}

/* A step that is taken; what to do about it. */
static inline enum life_effect take(struct life *l, struct life_event ev, uint64_t now)
{
	struct life_out out;

	life_step(l, &ev, now, &out);
	assert_int_equal(out.refused, CAY_OK);
	*l = out.next;
	return out.effect;
}

static inline enum cay_code refusal(const struct life *l, struct life_event ev, uint64_t now)
{
	struct life_out out;

	life_step(l, &ev, now, &out);
	return out.refused;
}

static inline struct life_event done(const struct life *l, enum life_outcome outcome)
{
	return (struct life_event){ .kind = LIFE_DONE,
				    .effect = l->pending_effect,
				    .generation = l->generation,
				    .outcome = outcome,
				    .started_ns = AT(7) };
}

static inline struct life running(uint64_t ttl, uint64_t idle, uint64_t max)
{
	struct life l = fresh(ttl, idle, max);

	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_ACCEPTED }, AT(100)),
			 DO_PREPARE);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_START);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_CLAIM);
	assert_int_equal(l.state, SB_PENDING);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_NOTHING);
	assert_int_equal(l.state, SB_RUNNING);
	assert_int_equal(l.started_ns, AT(7));
	return l;
}

static inline struct life stopped(uint64_t ttl, uint64_t max)
{
	struct life l = running(ttl, LIFE_NEVER, max);
	struct life_out out;

	life_step(&l, &(struct life_event){ .kind = LIFE_STOP }, AT(130), &out);
	assert_true(out.effect == DO_STOP && out.sync && out.next.state == SB_STOPPING);
	l = out.next;
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(131)), DO_NOTHING);
	assert_int_equal(l.state, SB_STOPPED);
	return l;
}
#endif
