/* SPDX-License-Identifier: Apache-2.0 */
#include "life-steps.h"

static struct life rolled_back(void)
{
	struct life l = stopped(AT(60), AT(90));
	struct life_out out;

	life_step(&l, &(struct life_event){ .kind = LIFE_ROLLBACK }, AT(150), &out);
	assert_true(!out.refused && out.sync && out.notify && !out.effect);
	assert_true(out.next.state == SB_STOPPED && out.next.rolled_back);
	return out.next;
}

static void one_that_is_rolled_back_starts_with_a_new_disk(void **)
{
	struct life_event start = { .kind = LIFE_START };
	struct life l = rolled_back();
	struct life_out out;

	/* it has no files that could be copied; another rollback replaces this one */
	assert_false(life_can_be_copied(&l));
	assert_int_equal(refusal(&l, (struct life_event){ .kind = LIFE_SNAPSHOT }, AT(150)),
			 CAY_E_STATE);
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_ROLLBACK }, AT(151)),
			 DO_NOTHING);
	life_step(&l, &start, AT(200), &out);
	assert_true(out.effect == DO_REMOVE && out.sync && out.next.state == SB_STARTING);
	l = out.next;
	life_step(&l,
		  &(struct life_event){ .kind = LIFE_DONE, .effect = DO_REMOVE, .generation = 1 },
		  AT(201), &out);
	/* a removal that is late finds another generation */
	assert_true(out.effect == DO_PREPARE && out.sync && out.next.generation == 2);
	l = out.next;
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(202)), DO_START);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(203)), DO_CLAIM);
	assert_true(l.rolled_back);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(204)), DO_NOTHING);
	assert_true(l.state == SB_RUNNING && !l.rolled_back && l.expires_ns == AT(230));
	/* it has files again, which a stop keeps */
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_STOP }, AT(210)), DO_STOP);
}

static void one_that_is_rolled_back_may_have_no_files(void **)
{
	static const struct {
		unsigned state;
		struct life_observation found;
		enum life_effect effect;
		unsigned then;
	} rows[] = {
		{ SB_STOPPED, {}, DO_NOTHING, SB_STOPPED },
		{ SB_STOPPED, { .same_boot = true }, DO_NOTHING, SB_STOPPED },
		{ SB_STOPPED, { .exists = true }, DO_NOTHING, SB_STOPPED },
		{ SB_STOPPED, { .exists = true, .processes = 1 }, DO_REMOVE, SB_STOPPED },
		{ SB_STOPPING, {}, DO_REMOVE, SB_STOPPING },
		{ SB_STARTING, { .same_boot = true }, DO_REMOVE, SB_STOPPING },
		{ SB_STARTING, { .exists = true, .same_boot = true }, DO_REMOVE, SB_STOPPING },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct life l = rolled_back();
		struct life_event ev = { .kind = LIFE_OBSERVED, .observed = rows[i].found };

		l.state = (uint8_t)rows[i].state;
		row_check(i, take(&l, ev, AT(300)) == rows[i].effect);
		row_check(i, l.state == rows[i].then && l.rolled_back);
		if (rows[i].effect != DO_REMOVE)
			continue;
		row_check(i, take(&l, done(&l, LIFE_FAILED), AT(301)) == DO_NOTHING);
		row_check(i, take(&l, (struct life_event){ .kind = LIFE_DEADLINE }, l.retry_ns) ==
				     DO_REMOVE);
		row_check(i, take(&l, done(&l, LIFE_OK), AT(302)) == DO_NOTHING);
		row_check(i, l.state == SB_STOPPED && l.rolled_back);
	}
}

static void a_start_after_a_rollback_that_fails_is_taken_back(void **)
{
	for (unsigned at = 0; at < 4; at++)
		for (unsigned outcome = LIFE_FAILED; outcome <= LIFE_UNKNOWN; outcome++) {
			/* its id range was in use: once more with another one */
			bool again = at == 1 && outcome == LIFE_UNKNOWN;
			struct life l = rolled_back();

			(void)take(&l, (struct life_event){ .kind = LIFE_START }, AT(200));
			for (unsigned i = 0; i < at; i++)
				(void)take(&l, done(&l, LIFE_OK), AT(200));
			row_check(at, take(&l, done(&l, (enum life_outcome)outcome), AT(200)) ==
					      DO_REMOVE);
			row_check(at, l.state == (again ? SB_STARTING : SB_STOPPING));
			row_check(at, take(&l, done(&l, LIFE_OK), AT(200)) ==
					      (again ? DO_PREPARE : DO_NOTHING));
			row_check(at, again || (l.state == SB_STOPPED && l.rolled_back));
			for (unsigned i = 0; again && i < LIFE_GENERATIONS - 1; i++) {
				row_check(at,
					  take(&l, done(&l, LIFE_UNKNOWN), AT(200)) == DO_REMOVE);
				row_check(at, take(&l, done(&l, LIFE_OK), AT(200)) == DO_PREPARE);
			}
			if (again)
				(void)take(&l, done(&l, LIFE_UNKNOWN), AT(200));
			row_check(at, !again || l.state == SB_STOPPING);
		}
}

static void a_rollback_stops_one_that_runs(void **)
{
	struct life l = running(AT(60), LIFE_NEVER, AT(90));
	struct life_out out;

	life_step(&l, &(struct life_event){ .kind = LIFE_ROLLBACK }, AT(130), &out);
	assert_true(out.effect == DO_REMOVE && out.sync && out.next.state == SB_STOPPING);
	assert_true(out.next.rolled_back && out.next.expires_ns == AT(30));
	l = out.next;
	(void)take(&l, done(&l, LIFE_OK), AT(131));
	assert_true(l.state == SB_STOPPED && l.rolled_back);
	/* an effect under way is waited for */
	l = running(AT(60), LIFE_NEVER, AT(90));
	(void)take(&l, (struct life_event){ .kind = LIFE_SNAPSHOT }, AT(120));
	assert_int_equal(take(&l, (struct life_event){ .kind = LIFE_ROLLBACK }, AT(130)),
			 DO_NOTHING);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(140)), DO_REMOVE);
}

static void who_is_rolled_back(void **)
{
	struct life l = running(AT(60), LIFE_NEVER, AT(90));
	struct life_event ev = { .kind = LIFE_ROLLBACK };

	for (unsigned state = 0; state < SB_NUM_STATES; state++) {
		l.state = (uint8_t)state;
		l.reason = END_TTL;
		row_check(state, state == SB_STOPPED || state == SB_RUNNING || state == SB_PAUSED ||
					 refusal(&l, ev, AT(130)) == CAY_E_STATE);
	}
	l.state = SB_STOPPED;
	l.pending_effect = DO_SNAPSHOT;
	assert_int_equal(refusal(&l, ev, AT(130)), CAY_E_STATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_rolled_back_starts_with_a_new_disk),
		cmocka_unit_test(one_that_is_rolled_back_may_have_no_files),
		cmocka_unit_test(a_start_after_a_rollback_that_fails_is_taken_back),
		cmocka_unit_test(a_rollback_stops_one_that_runs),
		cmocka_unit_test(who_is_rolled_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
