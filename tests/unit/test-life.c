/* SPDX-License-Identifier: Apache-2.0 */
#include "life-steps.h"

#define BIT(n) (1u << (n))

static void from_create_to_delete(void **)
{
	struct life l = running(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);

	assert_true(life_next_deadline(&l) == LIFE_NEVER);
	assert_int_equal(
		take(&l, (struct life_event){ .kind = LIFE_END, .reason = END_KILLED }, AT(101)),
		DO_REMOVE);
	assert_int_equal(l.state, SB_ENDING);
	/* the first reason stays */
	assert_int_equal(
		take(&l, (struct life_event){ .kind = LIFE_END, .reason = END_TTL }, AT(102)),
		DO_NOTHING);
	/* what cannot be removed is tried again, later each time */
	assert_int_equal(take(&l, done(&l, LIFE_FAILED), AT(102)), DO_NOTHING);
	assert_true(life_next_deadline(&l) == AT(102) + 100 * NS_PER_MS);
	assert_int_equal(
		take(&l, (struct life_event){ .kind = LIFE_DEADLINE }, life_next_deadline(&l)),
		DO_REMOVE);
	assert_int_equal(take(&l, done(&l, LIFE_FAILED), AT(103)), DO_NOTHING);
	assert_true(life_next_deadline(&l) == AT(103) + 200 * NS_PER_MS);
	assert_int_equal(
		take(&l, (struct life_event){ .kind = LIFE_DEADLINE }, life_next_deadline(&l)),
		DO_REMOVE);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(104)), DO_NOTHING);
	assert_int_equal(l.state, SB_TERMINATED);
	assert_int_equal(l.reason, END_KILLED);
}

static void pause_and_resume(void **)
{
	struct life l = running(LIFE_NEVER, AT(10), LIFE_NEVER);
	struct life_event pause = { .kind = LIFE_PAUSE }, resume = { .kind = LIFE_RESUME };

	assert_int_equal(take(&l, resume, AT(101)), DO_NOTHING); /* it is so already */
	assert_int_equal(take(&l, pause, AT(101)), DO_FREEZE);
	assert_int_equal(l.state, SB_RUNNING); /* only after the act */
	assert_int_equal(refusal(&l, resume, AT(101)), CAY_E_STATE);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(101)), DO_NOTHING);
	assert_int_equal(l.state, SB_PAUSED);
	assert_true(life_next_deadline(&l) == LIFE_NEVER); /* standing still is not idling */
	assert_int_equal(take(&l, resume, AT(500)), DO_THAW);
	/* nobody knows: what the state says is asked for, until it is so */
	assert_int_equal(take(&l, done(&l, LIFE_UNKNOWN), AT(500)), DO_FREEZE);
	assert_int_equal(take(&l, done(&l, LIFE_FAILED), AT(500)), DO_NOTHING);
	assert_int_equal(refusal(&l, resume, AT(500)), CAY_E_STATE);
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_DEADLINE }, AT(501)),
			 DO_FREEZE);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(501)), DO_NOTHING);
	assert_int_equal(l.state, SB_PAUSED);
	assert_int_equal(take(&l, resume, AT(502)), DO_THAW);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(502)), DO_NOTHING);
	assert_int_equal(l.state, SB_RUNNING);
	assert_true(life_next_deadline(&l) == AT(512));
}

/* The answer of a keeper that is away comes at once: who asks again at once never ends. */
static void an_absent_keeper_is_asked_later(void **)
{
	struct life l = running(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);

	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_PAUSE }, AT(200)), DO_FREEZE);
	assert_int_equal(take(&l, done(&l, LIFE_UNKNOWN), AT(200)), DO_THAW);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(take(&l, done(&l, LIFE_UNKNOWN), AT(200)), DO_NOTHING);
		assert_true(life_next_deadline(&l) > AT(200) && life_next_deadline(&l) < AT(210));
		assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_DEADLINE },
				      life_next_deadline(&l)),
				 DO_THAW);
	}
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(210)), DO_NOTHING);
	assert_int_equal(l.state, SB_RUNNING);
	assert_int_equal(life_next_deadline(&l), LIFE_NEVER);
}

static void its_time_is_up(void **)
{
	struct life l = running(AT(60), LIFE_NEVER, AT(100));
	struct life_event due = { .kind = LIFE_DEADLINE }, extend = { .kind = LIFE_EXTEND };

	assert_true(life_next_deadline(&l) == AT(160));
	assert_int_equal(take(&l, due, AT(160) - 1), DO_NOTHING);
	extend.until_ns = AT(200) + 1;
	assert_int_equal(refusal(&l, extend, AT(150)), CAY_E_INVALID); /* its ceiling */
	extend.until_ns = AT(150);
	assert_int_equal(refusal(&l, extend, AT(150)), CAY_E_INVALID); /* not later */
	extend.until_ns = AT(200);
	assert_int_equal(take(&l, extend, AT(150)), DO_NOTHING);
	assert_true(life_next_deadline(&l) == AT(200));
	assert_int_equal(take(&l, due, AT(200)), DO_REMOVE);
	assert_int_equal(l.reason, END_TTL);
	assert_false(l.failed);
	assert_int_equal(refusal(&l, extend, AT(199)), CAY_E_STATE);
	/* a length that is longer than the ceiling is cut */
	l = fresh(AT(500), LIFE_NEVER, AT(100));
	assert_true(l.expires_ns == AT(200));
	/* and no length is longer than for ever */
	l = fresh(LIFE_NEVER - 1, LIFE_NEVER - 1, LIFE_NEVER);
	assert_true(l.expires_ns == LIFE_NEVER && life_next_deadline(&l) == LIFE_NEVER);
}

static void who_is_busy_is_not_idle(void **)
{
	struct life l = running(LIFE_NEVER, AT(10), LIFE_NEVER);
	struct life_event enter = { .kind = LIFE_ENTER }, leave = { .kind = LIFE_LEAVE };
	struct life_event due = { .kind = LIFE_DEADLINE };
	struct life_out out;

	assert_true(life_next_deadline(&l) == AT(110));
	(void)take(&l, enter, AT(105));
	(void)take(&l, enter, AT(106));
	assert_true(life_next_deadline(&l) == LIFE_NEVER);
	(void)take(&l, leave, AT(107));
	assert_int_equal(take(&l, due, AT(1000)), DO_NOTHING);
	/* the last one left; that is written down, but not every time */
	life_step(&l, &leave, AT(1000), &out);
	assert_true(out.journal && !out.sync);
	l = out.next;
	life_step(&l, &enter, AT(1000) + NS_PER_MS, &out);
	assert_false(out.journal);
	assert_true(life_next_deadline(&l) == AT(1010));
	assert_int_equal(take(&l, due, AT(1010)), DO_REMOVE);
	assert_int_equal(l.reason, END_IDLE);
}

static void late_and_double_outcomes_are_nothing(void **)
{
	struct life l = fresh(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER), before;
	struct life_event late;

	(void)take(&l, (struct life_event){ .kind = LIFE_ACCEPTED }, AT(100));
	late = done(&l, LIFE_OK);
	assert_int_equal(take(&l, late, AT(100)), DO_START);
	before = l;
	assert_int_equal(take(&l, late, AT(100)), DO_NOTHING); /* another effect */
	assert_int_equal(l.pending_effect, before.pending_effect);
	late = done(&l, LIFE_OK);
	late.generation--;
	assert_int_equal(take(&l, late, AT(100)), DO_NOTHING); /* another generation */
	assert_int_equal(l.pending_effect, before.pending_effect);
	assert_int_equal(l.started_ns, 0);
	/* the end does not wait for a claim, and forgets it */
	(void)take(&l, done(&l, LIFE_OK), AT(100));
	late = done(&l, LIFE_OK);
	assert_int_equal(late.effect, DO_CLAIM);
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_END }, AT(101)), DO_REMOVE);
	assert_int_equal(take(&l, late, AT(102)), DO_NOTHING);
	assert_int_equal(l.pending_effect, DO_REMOVE);
	assert_int_equal(l.state, SB_ENDING);
}

static void what_was_cut_off_is_made_anew(void **)
{
	struct life l = fresh(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);
	struct life_event gone = { .kind = LIFE_GONE, .reason = END_KILLED };
	struct life_out out;

	(void)take(&l, (struct life_event){ .kind = LIFE_ACCEPTED }, AT(100));
	for (uint64_t i = 1; i < LIFE_GENERATIONS; i++) {
		struct life_event e;

		assert_int_equal(l.generation, i);
		assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_START);
		assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_CLAIM);
		assert_int_equal(take(&l, done(&l, LIFE_UNKNOWN), AT(100)), DO_REMOVE);
		/* we kill it ourselves */
		gone.generation = i;
		assert_int_equal(take(&l, gone, AT(100)), DO_NOTHING);
		assert_int_equal(l.state, SB_PENDING);
		e = done(&l, LIFE_OK);
		life_step(&l, &e, AT(100), &out);
		assert_true(out.effect == DO_PREPARE && out.sync && out.journal);
		l = out.next;
	}
	/* four times is enough */
	assert_int_equal(take(&l, done(&l, LIFE_UNKNOWN), AT(100)), DO_REMOVE);
	assert_int_equal(l.state, SB_ENDING);
	assert_true(l.reason == END_START_FAILED && l.failed);
}

static void an_entrypoint_decides(void **)
{
	struct life l = fresh(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);
	struct life_event exited = { .kind = LIFE_EXITED, .code = 3 };

	l.entry = true;
	(void)take(&l, (struct life_event){ .kind = LIFE_ACCEPTED }, AT(100));
	(void)take(&l, done(&l, LIFE_OK), AT(100));
	(void)take(&l, done(&l, LIFE_OK), AT(100));
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_ENTRYPOINT);
	assert_int_equal(l.state, SB_RUNNING);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_NOTHING);
	assert_int_equal(take(&l, exited, AT(101)), DO_NOTHING);
	l.on_exit = ON_EXIT_END;
	assert_int_equal(take(&l, exited, AT(101)), DO_REMOVE);
	assert_true(l.reason == END_EXIT && l.failed);
}

static void an_entrypoint_that_memory_ended(void **)
{
	struct life l = fresh(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);
	struct life_event exited = { .kind = LIFE_EXITED, .reason = END_OOM, .code = 1 };

	l.entry = true;
	l.on_exit = ON_EXIT_END;
	(void)take(&l, (struct life_event){ .kind = LIFE_ACCEPTED }, AT(100));
	for (int i = 0; i < 4; i++)
		(void)take(&l, done(&l, LIFE_OK), AT(100));
	assert_int_equal(take(&l, exited, AT(101)), DO_REMOVE);
	assert_true(l.reason == END_OOM && l.failed);
}

/* What is found after a restart, and what comes of it. */
static void after_a_restart(void **)
{
	static const struct {
		uint8_t state, entry;
		struct life_observation facts;
		uint8_t next, effect, reason;
	} rows[] = {
		/* state, entry, facts: same_boot, there, answers, entered, frozen, start, n */
		{ SB_PENDING, 0, { true }, SB_PENDING, DO_REMOVE, 0 },
		{ SB_PENDING, 0, { true, true, 0, 0, 0, AT(7), 1 }, SB_PENDING, DO_REMOVE, 0 },
		{ SB_PENDING, 0, { true, true, true, 0, 0, AT(7), 1 }, SB_RUNNING, 0, 0 },
		{ SB_PENDING,
		  1,
		  { true, true, true, 0, 0, AT(7), 1 },
		  SB_RUNNING,
		  DO_ENTRYPOINT,
		  0 },
		{ SB_PENDING, 1, { true, true, true, true, 0, AT(7), 1 }, SB_RUNNING, 0, 0 },
		{ SB_PENDING, 1, { true, true, 0, 0, true, AT(7), 1 }, SB_RUNNING, DO_THAW, 0 },
		{ SB_PENDING, 0, { true, false, true, 0, 0, AT(7), 1 }, SB_PENDING, DO_REMOVE, 0 },
		{ SB_PENDING, 0, { false }, SB_ENDING, DO_REMOVE, END_NODE_LOST },
		{ SB_RUNNING, 0, { true, true, true, 0, 0, AT(7), 1 }, SB_RUNNING, 0, 0 },
		{ SB_RUNNING, 1, { true, true, false, 0, true, AT(7), 1 }, SB_RUNNING, DO_THAW, 0 },
		{ SB_RUNNING,
		  0,
		  { true, true, true, 0, 0, AT(8), 1 },
		  SB_ENDING,
		  DO_REMOVE,
		  END_NODE_LOST },
		{ SB_RUNNING,
		  0,
		  { true, true, 0, 0, 0, 0, 0 },
		  SB_ENDING,
		  DO_REMOVE,
		  END_NODE_LOST },
		{ SB_RUNNING, 0, { false }, SB_ENDING, DO_REMOVE, END_NODE_LOST },
		{ SB_PAUSED, 1, { true, true, 0, 0, true, AT(7), 1 }, SB_PAUSED, 0, 0 },
		{ SB_PAUSED, 1, { true, true, true, true, 0, AT(7), 1 }, SB_PAUSED, DO_FREEZE, 0 },
		{ SB_ENDING, 0, { true }, SB_ENDING, DO_REMOVE, 0 },
		{ SB_ENDING, 0, { false }, SB_ENDING, DO_REMOVE, 0 },
		{ SB_TERMINATED, 0, { false }, SB_TERMINATED, 0, 0 },
		{ SB_FAILED, 0, { true, true, true, 0, 0, AT(7), 1 }, SB_FAILED, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct life l = fresh(LIFE_NEVER, AT(10), LIFE_NEVER);
		struct life_event ev = { .kind = LIFE_OBSERVED, .observed = rows[i].facts };
		struct life_out out;

		l.state = rows[i].state;
		l.entry = rows[i].entry;
		l.started_ns = rows[i].state == SB_PENDING ? 0 : AT(7);
		life_reset_transient(&l);
		life_step(&l, &ev, AT(5000), &out);
		row_check(i, out.next.state == rows[i].next);
		row_check(i, out.effect == (enum life_effect)rows[i].effect);
		row_check(i, out.next.state != SB_ENDING || out.next.reason == rows[i].reason);
		/* idleness begins anew */
		row_check(i, out.next.state != SB_RUNNING ||
				     life_next_deadline(&out.next) == AT(5010));
	}
}

static struct life warm(void)
{
	struct life l = fresh(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);

	l.warm = true;
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_ACCEPTED }, AT(100)),
			 DO_PREPARE);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_START);
	assert_false(life_is_warm_and_ready(&l));
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(100)), DO_NOTHING);
	assert_int_equal(l.state, SB_PENDING);
	assert_true(life_is_warm_and_ready(&l));
	return l;
}

static const struct life_event taking = { .kind = LIFE_CLAIM,
					  .terms = { .ttl_ns = AT(60),
						     .idle_ns = AT(20),
						     .max_ns = AT(50),
						     .entry = true,
						     .on_exit = ON_EXIT_END } };

static void a_warm_one_is_taken(void **)
{
	struct life l = warm();
	struct life_event ok;
	struct life_out out;

	assert_true(life_next_deadline(&l) == LIFE_NEVER);
	assert_int_equal(refusal(&l, (struct life_event){ .kind = LIFE_PAUSE }, AT(200)),
			 CAY_E_STATE);
	assert_int_equal(refusal(&l,
				 (struct life_event){ .kind = LIFE_EXTEND, .until_ns = AT(300) },
				 AT(200)),
			 CAY_E_STATE);
	life_step(&l, &taking, AT(200), &out);
	assert_int_equal(out.effect, DO_CLAIM);
	assert_false(out.journal || out.sync || out.notify); /* it is written once, and not now */
	l = out.next;
	assert_false(life_is_warm_and_ready(&l));
	assert_int_equal(refusal(&l, taking, AT(200)), CAY_E_STATE); /* who was later */
	assert_int_equal(refusal(&l,
				 (struct life_event){ .kind = LIFE_EXTEND, .until_ns = AT(240) },
				 AT(200)),
			 CAY_E_STATE);
	ok = done(&l, LIFE_OK);
	life_step(&l, &ok, AT(201), &out);
	assert_true(out.journal && out.sync && out.notify);
	assert_int_equal(out.effect, DO_ENTRYPOINT);
	l = out.next;
	assert_int_equal(l.state, SB_RUNNING);
	assert_false(l.warm || l.claimed);
	/* deadlines count from when it was taken */
	assert_true(l.born_ns == AT(200) && l.ceiling_ns == AT(250) && l.expires_ns == AT(250));
	assert_int_equal(l.on_exit, ON_EXIT_END);
	(void)take(&l, done(&l, LIFE_OK), AT(202));
	assert_true(life_next_deadline(&l) == AT(221));
}

static void one_that_dies_during_its_claim_is_made_anew(void **)
{
	struct life l = warm();
	struct life_event gone = { .kind = LIFE_GONE, .generation = 1, .reason = END_KILLED };

	(void)take(&l, taking, AT(200));
	assert_int_equal(take(&l, gone, AT(200)), DO_NOTHING);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(200)), DO_REMOVE);
	assert_int_equal(l.state, SB_PENDING);
}

/* Whoever takes one that has gone bad gets one that is made anew. */
static void one_that_went_bad_is_made_anew(void **)
{
	struct life l = warm();
	struct life_event gone = { .kind = LIFE_GONE, .generation = 1, .reason = END_KILLED };

	(void)take(&l, taking, AT(200));
	assert_int_equal(take(&l, done(&l, LIFE_FAILED), AT(200)), DO_REMOVE);
	assert_int_equal(l.state, SB_PENDING);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(200)), DO_PREPARE);
	assert_true(l.generation == 2 && !l.warm && l.expires_ns == AT(250));
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(200)), DO_START);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(200)), DO_CLAIM);
	/* and what is refused for a second time is refused */
	assert_int_equal(take(&l, done(&l, LIFE_FAILED), AT(200)), DO_REMOVE);
	assert_true(l.state == SB_ENDING && l.reason == END_START_FAILED);

	/* its death is heard of before the claim's outcome, which does not count then */
	l = warm();
	(void)take(&l, taking, AT(200));
	assert_int_equal(take(&l, gone, AT(200)), DO_NOTHING);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(200)), DO_REMOVE);
	assert_int_equal(l.state, SB_PENDING);

	/* nobody had taken this one */
	l = warm();
	assert_int_equal(take(&l, gone, AT(200)), DO_REMOVE);
	assert_true(l.state == SB_ENDING && l.failed);
	assert_int_equal(refusal(&l, taking, AT(200)), CAY_E_STATE);
}

static void warm_after_a_restart(void **)
{
	static const struct {
		struct life_observation facts;
		bool ready;
	} rows[] = {
		{ { .same_boot = true,
		    .exists = true,
		    .started_ns = AT(7),
		    .processes = 1,
		    .unclaimed = true },
		  true },
		/* claimed, and nobody was told */
		{ { .same_boot = true,
		    .exists = true,
		    .started_ns = AT(7),
		    .processes = 1,
		    .claimed = true },
		  false },
		/* who says nothing may have been */
		{ { .same_boot = true, .exists = true, .started_ns = AT(7), .processes = 1 },
		  false },
		{ { .same_boot = true,
		    .exists = true,
		    .started_ns = AT(7),
		    .processes = 1,
		    .frozen = true },
		  false },
		{ { .same_boot = true, .exists = true, .unclaimed = true }, false },
		{ { .same_boot = true }, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct life l = fresh(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);
		struct life_event ev = { .kind = LIFE_OBSERVED, .observed = rows[i].facts };
		struct life_out out;

		l.warm = true;
		life_step(&l, &ev, AT(5000), &out);
		row_check(i, out.next.state == SB_PENDING && out.next.warm);
		row_check(i, life_is_warm_and_ready(&out.next) == rows[i].ready);
		row_check(i, out.effect == (rows[i].ready ? DO_NOTHING : DO_REMOVE));
	}
}

static bool same(const struct life *a, const struct life *b)
{
	return a->generation == b->generation && a->expires_ns == b->expires_ns &&
	       a->ceiling_ns == b->ceiling_ns && a->active_ns == b->active_ns &&
	       a->saved_ns == b->saved_ns && a->started_ns == b->started_ns &&
	       a->state == b->state && a->reason == b->reason && a->failed == b->failed &&
	       a->pending_effect == b->pending_effect && a->tries == b->tries &&
	       a->retry_ns == b->retry_ns && a->n_requests == b->n_requests && a->warm == b->warm &&
	       a->claimed == b->claimed && a->rolled_back == b->rolled_back && a->dozes == b->dozes;
}

static void check_step(const struct life *l, const struct life_event *ev, size_t row)
{
	static const unsigned may[SB_NUM_STATES] = {
		[SB_PENDING] = BIT(DO_PREPARE) | BIT(DO_START) | BIT(DO_CLAIM) | BIT(DO_REMOVE),
		[SB_RUNNING] =
			BIT(DO_ENTRYPOINT) | BIT(DO_FREEZE) | BIT(DO_THAW) | BIT(DO_SNAPSHOT),
		[SB_PAUSED] = BIT(DO_FREEZE) | BIT(DO_THAW) | BIT(DO_SNAPSHOT),
		[SB_STOPPING] = BIT(DO_STOP) | BIT(DO_REMOVE),
		[SB_STOPPED] = BIT(DO_STOP) | BIT(DO_REMOVE) | BIT(DO_SNAPSHOT),
		[SB_STARTING] = BIT(DO_RESTORE) | BIT(DO_REMOVE) | BIT(DO_PREPARE) | BIT(DO_START) |
				BIT(DO_CLAIM),
		[SB_ENDING] = BIT(DO_REMOVE),
	};
	struct life_out out;

	life_step(l, ev, AT(200), &out); /* asserts its own table of states */
	row_check(row, !life_is_finished(l) || same(l, &out.next));
	row_check(row, !life_is_finished(l) || (!out.effect && !out.journal && !out.notify));
	row_check(row, !out.refused || (same(l, &out.next) && !out.effect && !out.journal));
	row_check(row, !out.effect || may[out.next.state] & BIT(out.effect));
	/* the files of one that is stopped are removed only if they are void */
	row_check(row,
		  out.effect != DO_REMOVE || !life_is_at_rest(&out.next) || out.next.rolled_back);
	row_check(row, !out.effect || out.next.pending_effect == out.effect);
	row_check(row, !out.sync || out.journal);
	row_check(row, out.next.state == l->state || (out.journal && out.notify));
	row_check(row, out.next.generation >= l->generation);
	row_check(row, l->state < SB_ENDING ||
			       (out.next.reason == l->reason && out.next.failed == l->failed));
	row_check(row, out.next.expires_ns <= out.next.ceiling_ns);
}

/* Every state, effect under way, kind of event and outcome, also those that cannot
 * meet: whatever a caller does, it asserts nothing and what is over stays. */
static void every_combination(void **)
{
	size_t row = 0;

	for (unsigned n = 0; n < 256u * 3 * DO_NUM * LIFE_KINDS * DO_NUM * SB_NUM_STATES;
	     n++, row++) {
		unsigned at = n;
		struct life l = fresh(AT(90), AT(80), AT(110));
		struct life_event ev = { .until_ns = AT(205), .reason = END_EVICTED };
		unsigned bits = at % 256;

		at /= 256;
		ev.outcome = (enum life_outcome)(at % 3), at /= 3;
		ev.effect = (enum life_effect)(at % DO_NUM), at /= DO_NUM;
		ev.kind = (enum life_kind)(at % LIFE_KINDS), at /= LIFE_KINDS;
		l.pending_effect = (uint8_t)(at % DO_NUM), at /= DO_NUM;
		l.state = (uint8_t)at;
		l.generation = bits & 1 ? 2 : LIFE_GENERATIONS;
		ev.generation = bits & 2 ? l.generation : 1;
		l.retry_ns = bits & 4 && l.pending_effect == DO_NOTHING ? AT(150) : LIFE_NEVER;
		l.entry = l.rolled_back = bits & 8;
		l.n_requests = bits & 8;
		l.started_ns = bits & 16 ? AT(7) : 0;
		l.dozes = bits & 16;
		l.doze_ns = bits & 32 ? AT(20) : LIFE_NEVER;
		l.expires_ns = bits & 32 ? AT(190) : AT(210);
		l.warm = bits & 64;
		l.claimed = bits & 128;
		ev.observed = (struct life_observation){ .same_boot = bits & 1,
							 .exists = bits & 2,
							 .claimed = bits & 4,
							 .frozen = bits & 8,
							 .started_ns = AT(7),
							 .processes = bits >> 5 & 1,
							 .unclaimed = !(bits & 4) };
		check_step(&l, &ev, row);
	}
}

/* A lease counts from its last renewal; the time that control was down does not count. */
static void a_lease_that_is_not_renewed_ends_it(void **)
{
	struct life_event due = { .kind = LIFE_DEADLINE },
			  renew = { .kind = LIFE_RENEW, .lease_ns = AT(10) },
			  found = { .kind = LIFE_OBSERVED,
				    .observed = { .same_boot = true,
						  .exists = true,
						  .claimed = true,
						  .started_ns = AT(100),
						  .processes = 1 } };
	struct life l = fresh(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);
	struct life_out out;

	assert_true(life_next_deadline(&l) == LIFE_NEVER);
	life_set_lease(&l, AT(100), AT(10));
	assert_true(life_next_deadline(&l) == AT(110));
	l.state = SB_RUNNING;
	life_step(&l, &renew, AT(109), &out); /* of the same length: nothing to write */
	assert_true(!out.refused && out.notify && !out.journal && !out.sync);
	l = out.next;
	assert_true(life_next_deadline(&l) == AT(119));
	renew.lease_ns = AT(30);
	life_step(&l, &renew, AT(110), &out);
	assert_true(out.journal && out.sync);
	l = out.next;
	(void)take(&l, due, AT(139));
	assert_int_equal(l.state, SB_RUNNING);
	l.started_ns = AT(100);
	life_step(&l, &found, AT(500), &out);
	assert_true(out.next.state == SB_RUNNING && life_next_deadline(&out.next) == AT(530));
	(void)take(&l, due, AT(140));
	assert_true(l.state == SB_ENDING && l.reason == END_LEASE && !l.failed);
	assert_int_equal(refusal(&l, renew, AT(141)), CAY_E_STATE);
}

static void a_stopped_one_starts_again(void **)
{
	struct life l = stopped(AT(60), AT(90));
	struct life_event start = { .kind = LIFE_START }, stop = { .kind = LIFE_STOP };
	struct life_out out;

	/* its time stands still, in any boot; nothing but these two and extend is for it */
	assert_true(life_next_deadline(&l) == LIFE_NEVER);
	assert_int_equal(take(&l, stop, AT(140)), DO_NOTHING);
	assert_int_equal(
		refusal(&l, (struct life_event){ .kind = LIFE_HOLD, .until_ns = AT(200) }, AT(140)),
		CAY_E_STATE);
	assert_int_equal(refusal(&l, (struct life_event){ .kind = LIFE_PAUSE }, AT(140)),
			 CAY_E_STATE);
	life_step(&l, &start, AT(5), &out);
	assert_true(out.effect == DO_RESTORE && out.sync && out.next.state == SB_STARTING);
	l = out.next;
	assert_int_equal(refusal(&l, stop, AT(5)), CAY_E_STATE);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(5)), DO_START);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(5)), DO_CLAIM);
	life_step(&l,
		  &(struct life_event){ .kind = LIFE_DONE, .effect = DO_CLAIM, .generation = 1 },
		  AT(10), &out);
	assert_true(out.sync && out.next.state == SB_RUNNING);
	/* from when its start began */
	assert_true(out.next.expires_ns == AT(5 + 30) && out.next.ceiling_ns == AT(5 + 60));
}

/* A start runs scripts of the image: that time is part of its life, however it ends. */
static void time_spent_in_starting_counts(void **)
{
	struct life_event start = { .kind = LIFE_START }, due = { .kind = LIFE_DEADLINE };
	struct life l = stopped(AT(60), AT(90));

	(void)take(&l, start, AT(200));
	assert_true(life_next_deadline(&l) == AT(230));
	(void)take(&l, done(&l, LIFE_FAILED), AT(210));
	assert_true(l.expires_ns == AT(20) && l.ceiling_ns == AT(50));
	(void)take(&l, done(&l, LIFE_OK), AT(211));
	(void)take(&l, start, AT(300));
	assert_int_equal(take(&l, due, AT(319)), DO_NOTHING);
	assert_int_equal(l.state, SB_STARTING);
	(void)take(&l, due, AT(320));
	assert_true(l.state == SB_STOPPING && !l.expires_ns);
}

/* The longest time that a sandbox may live was lowered while it was stopped. */
static void a_start_has_the_ceiling_of_today(void **)
{
	struct life l = stopped(AT(60), AT(90));

	(void)take(&l, (struct life_event){ .kind = LIFE_START, .max_ns = AT(20) }, AT(200));
	for (unsigned i = 0; i < 3; i++)
		(void)take(&l, done(&l, LIFE_OK), AT(201));
	assert_true(l.state == SB_RUNNING);
	assert_true(l.expires_ns == AT(220) && l.ceiling_ns == AT(220));
	l = stopped(AT(60), AT(90));
	(void)take(&l, (struct life_event){ .kind = LIFE_START, .max_ns = AT(500) }, AT(200));
	assert_true(l.expires_ns == AT(30) && l.ceiling_ns == AT(60));
}

/* Whatever goes wrong with a start, the files stay. */
static void a_start_that_fails_is_taken_back(void **)
{
	struct life_event start = { .kind = LIFE_START },
			  gone = { .kind = LIFE_GONE, .generation = 1 };

	for (unsigned at = 0; at < 3; at++)
		for (unsigned outcome = LIFE_FAILED; outcome <= LIFE_UNKNOWN; outcome++) {
			struct life l = stopped(AT(60), AT(90));

			(void)take(&l, start, AT(200));
			for (unsigned i = 0; i < at; i++)
				(void)take(&l, done(&l, LIFE_OK), AT(200));
			row_check(at, take(&l, done(&l, (enum life_outcome)outcome), AT(200)) ==
					      DO_STOP);
			row_check(at, l.state == SB_STOPPING && l.expires_ns == AT(30));
			(void)take(&l, done(&l, LIFE_OK), AT(200));
			row_check(at, l.state == SB_STOPPED && l.expires_ns == AT(30));
		}
	for (unsigned at = 0; at < 2; at++) { /* PID 1 dies during its claim */
		struct life l = stopped(LIFE_NEVER, LIFE_NEVER);

		(void)take(&l, start, AT(200));
		(void)take(&l, done(&l, LIFE_OK), AT(200));
		(void)take(&l, done(&l, LIFE_OK), AT(200));
		row_check(at, take(&l, gone, AT(200)) == DO_NOTHING);
		row_check(at, take(&l, done(&l, at ? LIFE_OK : LIFE_FAILED), AT(200)) == DO_STOP);
	}
}

static void a_stop_that_was_not_written_is_written_again(void **)
{
	struct life l = running(AT(60), LIFE_NEVER, AT(90));
	struct life_out out;

	(void)take(&l, (struct life_event){ .kind = LIFE_STOP }, AT(130));
	(void)take(&l, done(&l, LIFE_FAILED), AT(130));
	assert_true(l.state == SB_STOPPING && l.retry_ns != LIFE_NEVER);
	life_step(&l, &(struct life_event){ .kind = LIFE_DEADLINE }, l.retry_ns, &out);
	assert_true(out.effect == DO_STOP && out.sync && out.next.expires_ns == AT(30));
}

/* The row of the stop may not be there yet, when an effect that was under way ends. */
static void a_stop_waits_for_an_effect_and_is_written_again(void **)
{
	struct life l = running(AT(60), LIFE_NEVER, AT(90));
	struct life_out out;

	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_PAUSE }, AT(120)), DO_FREEZE);
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_STOP }, AT(130)), DO_NOTHING);
	life_step(&l,
		  &(struct life_event){ .kind = LIFE_DONE, .effect = DO_FREEZE, .generation = 1 },
		  AT(140), &out);
	assert_true(out.effect == DO_STOP && out.sync && out.journal);
	assert_true(out.next.expires_ns == AT(30) && out.next.state == SB_STOPPING);
}

static void at_rest_after_a_restart(void **)
{
	static const struct {
		unsigned state;
		struct life_observation found;
		enum life_effect effect;
		unsigned then;
	} rows[] = {
		{ SB_STOPPED, { .exists = true }, DO_NOTHING, SB_STOPPED },
		{ SB_STOPPED, { .exists = true, .same_boot = true }, DO_NOTHING, SB_STOPPED },
		{ SB_STOPPED, { .exists = true, .processes = 1 }, DO_STOP, SB_STOPPED },
		{ SB_STOPPED, { .same_boot = true }, DO_REMOVE, SB_ENDING },
		{ SB_STOPPING, { .exists = true }, DO_STOP, SB_STOPPING },
		{ SB_STOPPING,
		  { .exists = true, .same_boot = true, .processes = 1, .started_ns = 7 },
		  DO_STOP,
		  SB_STOPPING },
		{ SB_STARTING, { .exists = true }, DO_STOP, SB_STOPPING },
		{ SB_STARTING, { .exists = true, .same_boot = true }, DO_STOP, SB_STOPPING },
		{ SB_STARTING,
		  { .exists = true, .same_boot = true, .processes = 1, .started_ns = 7 },
		  DO_STOP,
		  SB_STOPPING },
		{ SB_STARTING,
		  { .exists = true,
		    .same_boot = true,
		    .processes = 1,
		    .started_ns = 7,
		    .claimed = true,
		    .entrypoint_started = true },
		  DO_NOTHING,
		  SB_RUNNING },
		{ SB_STARTING,
		  { .exists = true, .processes = 1, .started_ns = 7, .claimed = true },
		  DO_STOP,
		  SB_STOPPING },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct life l = stopped(AT(60), AT(90));
		struct life_event ev = { .kind = LIFE_OBSERVED, .observed = rows[i].found };

		l.state = (uint8_t)rows[i].state;
		l.active_ns = AT(290);
		row_check(i, take(&l, ev, AT(300)) == rows[i].effect);
		row_check(i, l.state == rows[i].then);
		row_check(i, l.state != SB_RUNNING || l.expires_ns == AT(290 + 30));
		/* what a start of another boot took is not known; without a process, nothing */
		row_check(i, l.state != SB_STOPPING ||
				     l.expires_ns == AT(rows[i].state == SB_STARTING &&
									rows[i].found.same_boot &&
									rows[i].found.processes
								? 20
								: 30));
	}
}

static struct life resting(struct life_terms t)
{
	struct life l = running(t.ttl_ns, t.idle_ns, t.max_ns);

	life_set_rest(&l, &t);
	return l;
}

static void at_the_end_of_its_time_it_stops(void **)
{
	struct life_terms t = {
		.ttl_ns = AT(60), .idle_ns = LIFE_NEVER, .max_ns = AT(90), .expire_stops = true
	};
	struct life_event due = { .kind = LIFE_DEADLINE, .may_stop = true };
	struct life l = resting(t);

	assert_int_equal(take(&l, due, AT(160)), DO_STOP);
	(void)take(&l, done(&l, LIFE_OK), AT(161));
	assert_int_equal(l.state, SB_STOPPED);
	/* each run has all of its time, by today's ceiling */
	(void)take(&l, (struct life_event){ .kind = LIFE_START, .max_ns = AT(80) }, AT(500));
	for (unsigned i = 0; i < 3; i++)
		(void)take(&l, done(&l, LIFE_OK), AT(501));
	assert_true(l.expires_ns == AT(560) && l.ceiling_ns == AT(580));
	/* also if its tenant has too many that are stopped: its files must not be lost by that */
	l = resting(t);
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_DEADLINE }, AT(160)), DO_STOP);
}

/* A start that outlasts its time is taken back; what is left is nothing, and extend gives more. */
static void a_start_never_ends_it(void **)
{
	struct life_terms t = { .ttl_ns = AT(60), .idle_ns = LIFE_NEVER, .max_ns = AT(90) };
	struct life_event start = { .kind = LIFE_START }, due = { .kind = LIFE_DEADLINE };
	struct life_event more = { .kind = LIFE_EXTEND, .until_ns = AT(1010) };
	struct life l = resting(t);

	(void)take(&l, (struct life_event){ .kind = LIFE_STOP }, AT(150));
	(void)take(&l, done(&l, LIFE_OK), AT(150));
	assert_int_equal(take(&l, start, AT(500)), DO_RESTORE);
	assert_int_equal(life_next_deadline(&l), AT(510));
	(void)take(&l, due, AT(510));
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(511)), DO_STOP);
	(void)take(&l, done(&l, LIFE_OK), AT(512));
	assert_true(l.state == SB_STOPPED && life_is_used_up(&l));
	assert_int_equal(refusal(&l, start, AT(600)), CAY_E_STATE);
	assert_int_equal(refusal(&l, more, AT(900)), CAY_E_INVALID); /* more than its ceiling */
	(void)take(&l, more, AT(1000));
	assert_true(l.expires_ns == AT(10) && !life_is_used_up(&l));
	assert_int_equal(take(&l, start, AT(2000)), DO_RESTORE);
}

/* cayd was down for longer than the time that is left, before anything ran. */
static void a_start_that_did_not_begin_takes_no_time(void **)
{
	struct life_event found = { .kind = LIFE_OBSERVED,
				    .observed = { .same_boot = true, .exists = true } };
	struct life l = stopped(AT(60), AT(90));

	(void)take(&l, (struct life_event){ .kind = LIFE_START }, AT(500));
	l.pending_effect = DO_NOTHING; /* of a cayd that is gone */
	(void)take(&l, found, AT(9000));
	assert_true(l.state == SB_STOPPING && l.expires_ns == AT(30));
}

static struct life_event looked(bool busy, enum life_outcome outcome)
{
	return (struct life_event){ .kind = LIFE_DONE,
				    .effect = DO_LOOK,
				    .generation = 1,
				    .outcome = outcome,
				    .busy = busy,
				    .may_stop = true };
}

static void who_works_is_not_idle(void **)
{
	struct life_terms t = { .ttl_ns = LIFE_NEVER,
				.idle_ns = AT(10),
				.max_ns = LIFE_NEVER,
				.idle_stops = true,
				.idle_is_work = true };
	struct life_event due = { .kind = LIFE_DEADLINE, .may_stop = true };
	struct life l = resting(t);

	for (unsigned i = 0; i < 2; i++) { /* it works; it does not answer */
		uint64_t now = AT(110 + 10 * i);

		assert_int_equal(life_next_deadline(&l), now);
		assert_int_equal(take(&l, due, now), DO_LOOK);
		assert_int_equal(life_next_deadline(&l), LIFE_NEVER);
		assert_int_equal(take(&l, due, now), DO_NOTHING); /* asked once */
		/* clients need not wait for that */
		assert_int_equal(refusal(&l, (struct life_event){ .kind = LIFE_PAUSE }, now),
				 CAY_OK);
		(void)take(&l, i ? looked(false, LIFE_UNKNOWN) : looked(true, LIFE_OK), now);
		assert_int_equal(l.state, SB_RUNNING);
	}
	(void)take(&l, due, AT(130));
	assert_int_equal(take(&l, looked(false, LIFE_OK), AT(130)), DO_STOP);
	/* a request came while it was asked */
	l = resting(t);
	(void)take(&l, due, AT(110));
	(void)take(&l, (struct life_event){ .kind = LIFE_ENTER }, AT(110));
	assert_int_equal(take(&l, looked(false, LIFE_OK), AT(111)), DO_NOTHING);
	assert_int_equal(l.state, SB_RUNNING);
	/* and its tenant has too many that are stopped */
	l = resting(t);
	(void)take(&l, due, AT(110));
	struct life_event full = looked(false, LIFE_OK);
	full.may_stop = false;
	assert_int_equal(take(&l, full, AT(111)), DO_NOTHING);
	assert_int_equal(life_next_deadline(&l), AT(121));
}

/* PID 1 of the run before answers late. */
static void an_answer_of_the_run_before_is_void(void **)
{
	struct life_terms t = { .ttl_ns = LIFE_NEVER,
				.idle_ns = AT(10),
				.max_ns = LIFE_NEVER,
				.idle_stops = true,
				.idle_is_work = true };
	struct life l = resting(t);

	(void)take(&l, (struct life_event){ .kind = LIFE_DEADLINE }, AT(110));
	(void)take(&l, (struct life_event){ .kind = LIFE_STOP }, AT(110));
	(void)take(&l, done(&l, LIFE_OK), AT(110));
	(void)take(&l, (struct life_event){ .kind = LIFE_START }, AT(110));
	for (unsigned i = 0; i < 3; i++)
		(void)take(&l, done(&l, LIFE_OK), AT(110));
	assert_int_equal(take(&l, looked(false, LIFE_OK), AT(125)), DO_NOTHING);
	assert_int_equal(l.state, SB_RUNNING);
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_DEADLINE }, AT(125)), DO_LOOK);
}

static void a_hold_is_not_idle(void **)
{
	struct life_event hold = { .kind = LIFE_HOLD, .until_ns = AT(200) };
	struct life l = running(LIFE_NEVER, AT(10), LIFE_NEVER);
	struct life_out out;

	life_step(&l, &hold, AT(105), &out);
	assert_true(out.sync && out.journal && out.notify);
	l = out.next;
	(void)take(&l, (struct life_event){ .kind = LIFE_ENTER }, AT(106));
	(void)take(&l, (struct life_event){ .kind = LIFE_LEAVE }, AT(107));
	assert_int_equal(life_next_deadline(&l), AT(210));
	(void)take(&l,
		   (struct life_event){ .kind = LIFE_OBSERVED,
					.observed = { .same_boot = true,
						      .exists = true,
						      .processes = 1,
						      .started_ns = AT(7) } },
		   AT(108));
	assert_int_equal(life_next_deadline(&l), AT(210));
	hold.until_ns = 0; /* released */
	(void)take(&l, hold, AT(110));
	assert_int_equal(life_next_deadline(&l), AT(120));
	l = stopped(AT(60), AT(90));
	assert_int_equal(refusal(&l, hold, AT(140)), CAY_E_STATE);
}

/* Counted while the machine is on: neither a restart nor a reboot removes it early. */
static void time_at_rest_ends(void **)
{
	struct life_event due = { .kind = LIFE_DEADLINE };
	struct life l = running(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);

	life_set_rest(&l, &(struct life_terms){ .ttl_ns = LIFE_NEVER, .rest_ns = AT(100) });
	(void)take(&l, (struct life_event){ .kind = LIFE_STOP }, AT(130));
	(void)take(&l, done(&l, LIFE_OK), AT(131));
	assert_int_equal(life_next_deadline(&l), AT(141));
	(void)take(&l, due, AT(191));
	assert_int_equal(l.rest_left_ns, AT(40));
	(void)take(&l, (struct life_event){ .kind = LIFE_OBSERVED, .observed = { .exists = true } },
		   AT(5));
	(void)take(&l, due, AT(44));
	assert_true(l.state == SB_STOPPED && l.rest_left_ns == AT(1));
	(void)take(&l, due, AT(45));
	assert_true(l.state == SB_ENDING && l.reason == END_IDLE && !l.failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lease_that_is_not_renewed_ends_it),
		cmocka_unit_test(from_create_to_delete),
		cmocka_unit_test(pause_and_resume),
		cmocka_unit_test(an_absent_keeper_is_asked_later),
		cmocka_unit_test(its_time_is_up),
		cmocka_unit_test(who_is_busy_is_not_idle),
		cmocka_unit_test(late_and_double_outcomes_are_nothing),
		cmocka_unit_test(what_was_cut_off_is_made_anew),
		cmocka_unit_test(one_that_dies_during_its_claim_is_made_anew),
		cmocka_unit_test(an_entrypoint_decides),
		cmocka_unit_test(an_entrypoint_that_memory_ended),
		cmocka_unit_test(after_a_restart),
		cmocka_unit_test(a_warm_one_is_taken),
		cmocka_unit_test(one_that_went_bad_is_made_anew),
		cmocka_unit_test(warm_after_a_restart),
		cmocka_unit_test(a_stopped_one_starts_again),
		cmocka_unit_test(time_spent_in_starting_counts),
		cmocka_unit_test(a_start_has_the_ceiling_of_today),
		cmocka_unit_test(a_start_that_fails_is_taken_back),
		cmocka_unit_test(a_stop_that_was_not_written_is_written_again),
		cmocka_unit_test(a_stop_waits_for_an_effect_and_is_written_again),
		cmocka_unit_test(at_rest_after_a_restart),
		cmocka_unit_test(a_start_never_ends_it),
		cmocka_unit_test(a_start_that_did_not_begin_takes_no_time),
		cmocka_unit_test(at_the_end_of_its_time_it_stops),
		cmocka_unit_test(who_works_is_not_idle),
		cmocka_unit_test(an_answer_of_the_run_before_is_void),
		cmocka_unit_test(a_hold_is_not_idle),
		cmocka_unit_test(time_at_rest_ends),
		cmocka_unit_test(every_combination),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
