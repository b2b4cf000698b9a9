/* SPDX-License-Identifier: Apache-2.0 */
#include "life-steps.h"

static const struct life_event due = { .kind = LIFE_DEADLINE, .may_stop = true },
			       enter = { .kind = LIFE_ENTER }, leave = { .kind = LIFE_LEAVE },
			       stay = { .kind = LIFE_PAUSE }, resume = { .kind = LIFE_RESUME };

/* Runs since 100 s, dozes after 10 s. */
static struct life drowsy(uint64_t idle)
{
	struct life l = running(LIFE_NEVER, idle, LIFE_NEVER);

	life_set_rest(&l, &(struct life_terms){ .ttl_ns = LIFE_NEVER,
						.idle_stops = idle != LIFE_NEVER,
						.doze_ns = AT(10) });
	return l;
}

static struct life dozing(uint64_t idle)
{
	struct life l = drowsy(idle);

	assert_int_equal(take(&l, due, AT(110)), DO_FREEZE);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(110)), DO_NOTHING);
	assert_true(l.state == SB_PAUSED && life_is_dozing(&l));
	return l;
}

static void one_that_is_idle_dozes_until_a_request(void **)
{
	struct life l = drowsy(LIFE_NEVER);
	struct life_out out;

	assert_int_equal(life_next_deadline(&l), AT(110));
	assert_int_equal(take(&l, enter, AT(105)), DO_NOTHING);
	assert_int_equal(life_next_deadline(&l), LIFE_NEVER);
	assert_int_equal(take(&l, leave, AT(107)), DO_NOTHING);
	assert_int_equal(life_next_deadline(&l), AT(117));
	assert_int_equal(take(&l, due, AT(117)), DO_FREEZE);
	assert_true(l.state == SB_RUNNING);
	life_step(&l,
		  &(struct life_event){ .kind = LIFE_DONE, .effect = DO_FREEZE, .generation = 1 },
		  AT(118), &out);
	/* nobody waits for the journal; to doze off is no activity */
	assert_true(out.journal && !out.sync && out.next.active_ns == AT(107));
	l = out.next;
	assert_true(life_is_dozing(&l));
	assert_int_equal(life_next_deadline(&l), LIFE_NEVER);
	life_step(&l, &enter, AT(150), &out);
	assert_true(out.effect == DO_THAW && !out.sync);
	l = out.next;
	assert_int_equal(take(&l, enter, AT(150)), DO_NOTHING); /* one wake for both */
	life_step(&l, &(struct life_event){ .kind = LIFE_DONE, .effect = DO_THAW, .generation = 1 },
		  AT(151), &out);
	assert_true(out.journal && !out.sync && out.notify);
	l = out.next;
	assert_true(l.state == SB_RUNNING && !l.dozes && l.n_requests == 2);
	(void)take(&l, leave, AT(152));
	(void)take(&l, leave, AT(153));
	assert_int_equal(life_next_deadline(&l), AT(163));
}

static void a_request_that_comes_while_it_is_frozen_thaws_it(void **)
{
	for (unsigned i = 0; i < 4; i++) { /* it is still inside, has left, a resume, a hold */
		struct life l = drowsy(LIFE_NEVER);

		(void)take(&l, due, AT(110));
		if (i < 2)
			row_check(i, take(&l, enter, AT(111)) == DO_NOTHING);
		if (i == 1)
			row_check(i, take(&l, leave, AT(112)) == DO_NOTHING);
		if (i == 2)
			row_check(i, take(&l, resume, AT(112)) == DO_NOTHING);
		if (i == 3)
			row_check(i, take(&l,
					  (struct life_event){ .kind = LIFE_HOLD,
							       .until_ns = AT(200) },
					  AT(112)) == DO_NOTHING);
		row_check(i, take(&l, done(&l, LIFE_OK), AT(113)) == DO_THAW);
		row_check(i, l.state == SB_RUNNING && !l.dozes);
		row_check(i, take(&l, done(&l, LIFE_OK), AT(113)) == DO_NOTHING);
		row_check(i, l.state == SB_RUNNING);
	}
}

static void whoever_asks_for_a_pause_gets_one(void **)
{
	struct life l = dozing(LIFE_NEVER);
	struct life_out out;

	life_step(&l, &stay, AT(120), &out);
	assert_true(!out.refused && !out.effect && out.journal && out.sync && out.notify);
	l = out.next;
	assert_true(l.state == SB_PAUSED && !l.dozes);
	assert_int_equal(take(&l, enter, AT(121)), DO_NOTHING);
	(void)take(&l, leave, AT(121));
	assert_int_equal(take(&l, resume, AT(122)), DO_THAW);

	l = drowsy(LIFE_NEVER); /* while it is being frozen */
	(void)take(&l, due, AT(110));
	assert_int_equal(take(&l, stay, AT(110)), DO_NOTHING);
	assert_int_equal(take(&l, enter, AT(110)), DO_NOTHING);
	life_step(&l,
		  &(struct life_event){ .kind = LIFE_DONE, .effect = DO_FREEZE, .generation = 1 },
		  AT(111), &out);
	assert_true(out.sync && out.next.state == SB_PAUSED && !out.next.dozes && !out.effect);

	l = running(LIFE_NEVER, LIFE_NEVER, LIFE_NEVER); /* and no request resumes that */
	(void)take(&l, stay, AT(110));
	(void)take(&l, done(&l, LIFE_OK), AT(110));
	assert_int_equal(take(&l, enter, AT(111)), DO_NOTHING);
	assert_true(l.state == SB_PAUSED && !life_is_dozing(&l));
}

static void a_resume_and_a_hold_wake_it(void **)
{
	struct life l = dozing(LIFE_NEVER);

	assert_int_equal(take(&l, resume, AT(120)), DO_THAW);
	(void)take(&l, done(&l, LIFE_OK), AT(120));
	assert_int_equal(life_next_deadline(&l), AT(130));
	l = dozing(LIFE_NEVER);
	assert_int_equal(
		take(&l, (struct life_event){ .kind = LIFE_HOLD, .until_ns = AT(300) }, AT(120)),
		DO_THAW);
	(void)take(&l, done(&l, LIFE_OK), AT(120));
	assert_int_equal(life_next_deadline(&l), AT(310));
}

/* A freeze of unknown outcome is thawed; a thaw is repeated until it is known. */
static void in_doubt_it_is_awake(void **)
{
	struct life l = drowsy(LIFE_NEVER);

	(void)take(&l, due, AT(110));
	assert_int_equal(take(&l, done(&l, LIFE_UNKNOWN), AT(110)), DO_THAW);
	assert_true(l.state == SB_RUNNING && !l.dozes);

	l = dozing(LIFE_NEVER);
	(void)take(&l, enter, AT(120));
	for (unsigned i = 0; i < 3; i++) {
		row_check(i, take(&l, done(&l, i ? LIFE_FAILED : LIFE_UNKNOWN), AT(120)) ==
				     DO_NOTHING);
		row_check(i, take(&l, due, AT(121 + i)) == DO_THAW);
	}
	(void)take(&l, done(&l, LIFE_OK), AT(125));
	assert_true(l.state == SB_RUNNING && !l.dozes && !l.tries);
}

static void its_idle_time_goes_on(void **)
{
	struct life l = dozing(AT(30));

	assert_int_equal(life_next_deadline(&l), AT(130));
	assert_int_equal(take(&l, due, AT(130)), DO_STOP);
	assert_true(l.state == SB_STOPPING && !l.dozes);
	l = drowsy(AT(30)); /* PID 1 was asked before it was frozen, and cannot be now */
	l.idle_is_work = true;
	(void)take(&l, due, AT(110));
	assert_true(l.looking);
	assert_int_equal(take(&l,
			      (struct life_event){
				      .kind = LIFE_DONE, .effect = DO_LOOK, .outcome = LIFE_OK },
			      AT(110)),
			 DO_FREEZE);
	(void)take(&l, done(&l, LIFE_OK), AT(110));
	assert_int_equal(take(&l, due, AT(130)), DO_STOP);
	l = drowsy(LIFE_NEVER);
	l.idle_is_work = true;
	(void)take(&l, due, AT(110));
	assert_int_equal(take(&l,
			      (struct life_event){ .kind = LIFE_DONE,
						   .effect = DO_LOOK,
						   .outcome = LIFE_OK,
						   .busy = true },
			      AT(110)),
			 DO_NOTHING);
	assert_int_equal(life_next_deadline(&l), AT(120));
}

static void the_machine_says_who_was_woken(void **)
{
	struct life_event found = { .kind = LIFE_OBSERVED,
				    .observed = { .same_boot = true,
						  .exists = true,
						  .processes = 1,
						  .started_ns = AT(7) } };
	struct life l = dozing(LIFE_NEVER);

	assert_int_equal(take(&l, found, AT(200)), DO_NOTHING);
	assert_true(l.state == SB_RUNNING && !l.dozes);
	found.observed.frozen = true;
	l = dozing(LIFE_NEVER);
	assert_int_equal(take(&l, found, AT(200)), DO_NOTHING);
	assert_true(life_is_dozing(&l));
	assert_int_equal(take(&l, enter, AT(201)), DO_THAW);
	l = drowsy(LIFE_NEVER); /* it was frozen, and that was not written */
	assert_int_equal(take(&l, found, AT(200)), DO_THAW);
}

static void a_copy_wakes_nobody_and_a_request_waits_for_it(void **)
{
	struct life_event copy = { .kind = LIFE_SNAPSHOT };
	struct life l = dozing(LIFE_NEVER);

	assert_int_equal(take(&l, copy, AT(120)), DO_SNAPSHOT);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(121)), DO_NOTHING);
	assert_true(life_is_dozing(&l));
	assert_int_equal(take(&l, copy, AT(122)), DO_SNAPSHOT);
	assert_int_equal(take(&l, enter, AT(122)), DO_NOTHING);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(123)), DO_THAW);
	l = dozing(LIFE_NEVER);
	(void)take(&l, copy, AT(122));
	assert_int_equal(take(&l, done(&l, LIFE_FAILED), AT(123)), DO_THAW);
	(void)take(&l, done(&l, LIFE_OK), AT(123));
	assert_int_equal(l.state, SB_RUNNING);
}

/* The copy takes longer than the time after which it dozes. */
static void whoever_asked_during_a_copy_is_not_forgotten(void **)
{
	const struct life_event asks[] = { resume,
					   { .kind = LIFE_HOLD, .until_ns = AT(124) },
					   enter };

	for (unsigned i = 0; i < ARRAY_SIZE(asks); i++) {
		struct life l = dozing(LIFE_NEVER);

		(void)take(&l, (struct life_event){ .kind = LIFE_SNAPSHOT }, AT(122));
		row_check(i, take(&l, asks[i], AT(123)) == DO_NOTHING);
		if (asks[i].kind == LIFE_ENTER) /* its client waits no more */
			row_check(i, take(&l, leave, AT(124)) == DO_NOTHING);
		row_check(i, take(&l, done(&l, LIFE_OK), AT(200)) == DO_THAW);
		row_check(i, take(&l, done(&l, LIFE_OK), AT(200)) == DO_NOTHING);
		row_check(i, l.state == SB_RUNNING);
		row_check(i, take(&l, due, AT(210)) == DO_FREEZE);
		row_check(i, take(&l, done(&l, LIFE_OK), AT(210)) == DO_NOTHING);
		row_check(i, life_is_dozing(&l)); /* it was woken once */
	}
	struct life l = drowsy(LIFE_NEVER); /* its own freeze takes as long */

	(void)take(&l, due, AT(110));
	assert_int_equal(take(&l, resume, AT(111)), DO_NOTHING);
	assert_int_equal(take(&l, done(&l, LIFE_OK), AT(200)), DO_THAW);
	l = dozing(LIFE_NEVER);
	(void)take(&l, (struct life_event){ .kind = LIFE_SNAPSHOT }, AT(122));
	(void)take(&l, resume, AT(123));
	assert_int_equal(refusal(&l, stay, AT(124)), CAY_E_STATE);
}

/* A row that was written during a freeze that was called off, read by the next cayd. */
static void a_pause_of_one_that_runs_is_no_doze(void **)
{
	struct life_event found = { .kind = LIFE_OBSERVED,
				    .observed = { .same_boot = true,
						  .exists = true,
						  .processes = 1,
						  .started_ns = AT(7) } };

	for (unsigned i = 0; i < 2; i++) {
		struct life l = drowsy(LIFE_NEVER);
		uint64_t at = i ? AT(300) : AT(201);

		l.dozes = true;
		(void)take(&l, found, AT(200));
		row_check(i, take(&l, stay, at) == DO_FREEZE);
		row_check(i, take(&l, done(&l, LIFE_OK), at) == DO_NOTHING);
		row_check(i, l.state == SB_PAUSED && !life_is_dozing(&l));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_idle_dozes_until_a_request),
		cmocka_unit_test(a_request_that_comes_while_it_is_frozen_thaws_it),
		cmocka_unit_test(whoever_asks_for_a_pause_gets_one),
		cmocka_unit_test(a_resume_and_a_hold_wake_it),
		cmocka_unit_test(in_doubt_it_is_awake),
		cmocka_unit_test(its_idle_time_goes_on),
		cmocka_unit_test(the_machine_says_who_was_woken),
		cmocka_unit_test(a_copy_wakes_nobody_and_a_request_waits_for_it),
		cmocka_unit_test(whoever_asked_during_a_copy_is_not_forgotten),
		cmocka_unit_test(a_pause_of_one_that_runs_is_no_doze),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
