/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "edge/load-shed.h"
#include "unit.h"

#define TENANTS 20

/* A server that does `capacity` requests a second and keeps the rest waiting; refusing
 * one takes it `refusal_us`. */
struct sim {
	struct load_shed shed;
	uint64_t now, capacity, refusal_us;
	double waiting, completed;
	double done[TENANTS], refused[TENANTS];
};

/* For so many seconds, rates[i] requests a second of tenant i, in rounds of 5 ms. */
static void run(struct sim *s, const unsigned *rates, unsigned n, double seconds)
{
	double owed[TENANTS] = {}, owed_done = 0;

	for (double at = 0; at < seconds; at += 0.005) {
		double refusing = 0, room = 0.005 * (double)s->capacity;

		for (unsigned i = 0; i < n; i++)
			for (owed[i] += rates[i] * 0.005; owed[i] >= 1; owed[i]--)
				if (load_shed_try_admit(&s->shed, SHED_TENANT, &i, sizeof(i),
							s->now)) {
					s->waiting++;
					s->done[i]++;
				} else {
					s->refused[i]++;
					refusing += (double)s->refusal_us * 1000;
				}
		room -= refusing / 1e9 * (double)s->capacity;
		room = room < 0 ? 0 : room > s->waiting ? s->waiting : room;
		for (owed_done += room; owed_done >= 1; owed_done--)
			load_shed_count_done(&s->shed);
		s->waiting -= room;
		s->completed += room;
		s->now += 5 * NS_PER_MS;
		for (unsigned i = 0; i < n; i++)
			load_shed_add_answer_time(
				&s->shed, &i, sizeof(i),
				(uint64_t)(s->waiting / (double)s->capacity * 1e9), s->now);
		load_shed_add_loop_round(&s->shed, 4 * NS_PER_MS, (uint64_t)refusing, s->now);
	}
}

static struct sim begin(uint64_t capacity)
{
	struct sim s = { .now = NS_PER_S, .capacity = capacity };

	assert_int_equal(load_shed_init(&s.shed, s.now), 0);
	return s;
}

static void forget(struct sim *s)
{
	memset(s->done, 0, sizeof(s->done));
	memset(s->refused, 0, sizeof(s->refused));
}

static void nobody_is_refused_below_capacity(void **)
{
	struct sim s = begin(1000);

	run(&s, (unsigned[]){ 450, 450 }, 2, 20);
	assert_true(s.refused[0] + s.refused[1] == 0);
	assert_true(s.shed.limit == SHED_NO_LIMIT);
	load_shed_fini(&s.shed);
}

static void twenty_times_as_much_is_cut_to_what_can_be_done(void **)
{
	struct sim s = begin(1000);

	run(&s, (unsigned[]){ 20000 }, 1, 10);
	forget(&s);
	run(&s, (unsigned[]){ 20000 }, 1, 20);
	assert_true(s.done[0] > 0.85 * 20 * 1000 && s.done[0] < 1.1 * 20 * 1000);
	assert_true(s.waiting < 0.5 * 1000);
	/* and when it is over, it is over */
	forget(&s);
	run(&s, (unsigned[]){ 500 }, 1, 3);
	forget(&s);
	run(&s, (unsigned[]){ 500 }, 1, 3);
	assert_true(s.refused[0] == 0);
	assert_true(s.shed.limit == SHED_NO_LIMIT);
	load_shed_fini(&s.shed);
}

static void who_asks_less_than_its_share_has_all_of_it(void **)
{
	unsigned rates[TENANTS] = { 5000 };
	struct sim s = begin(1000);

	for (unsigned i = 1; i < TENANTS; i++)
		rates[i] = 40; /* 760 of 1,000, and a fair share is 50 */
	run(&s, rates, TENANTS, 10);
	forget(&s);
	run(&s, rates, TENANTS, 20);
	for (unsigned i = 1; i < TENANTS; i++)
		row_check(i, s.done[i] > 0.9 * 20 * 40);
	assert_true(s.done[0] > 0.5 * 20 * 240);
	load_shed_fini(&s.shed);
}

/* Where refusing costs a third of doing, refusing four fifths would leave no time. */
static void refusing_is_bounded(void **)
{
	struct sim s = begin(1000);

	s.refusal_us = 300;
	run(&s, (unsigned[]){ 5000 }, 1, 20);
	forget(&s);
	s.completed = 0;
	run(&s, (unsigned[]){ 5000 }, 1, 20);
	assert_true(s.completed > 0.5 * 20 * 1000);
	load_shed_fini(&s.shed);
}

/* One slow interval is the kernel's doing. */
static void one_interval_is_none(void **)
{
	struct load_shed s;
	uint64_t now = NS_PER_S;

	assert_int_equal(load_shed_init(&s, now), 0);
	for (unsigned i = 0; i < 10; i++) {
		load_shed_add_answer_time(&s, "all", 3, (i % 2 ? 1 : 200) * NS_PER_MS, now);
		load_shed_add_loop_round(&s, NS_PER_MS, 0, now += SHED_INTERVAL_NS);
		assert_true(s.limit == SHED_NO_LIMIT);
	}
	/* without answers the rounds are looked at */
	for (unsigned i = 0; i < 2; i++)
		load_shed_add_loop_round(&s, 100 * NS_PER_MS, 0, now += SHED_INTERVAL_NS);
	assert_true(s.limit != SHED_NO_LIMIT);
	load_shed_fini(&s);
}

/* Control serves tenants by turns: the queue of one is not the queue of the others. */
static void who_waits_for_itself_is_refused_alone(void **)
{
	struct load_shed s;
	uint64_t now = NS_PER_S;
	unsigned red = 0;

	assert_int_equal(load_shed_init(&s, now), 0);
	for (unsigned i = 0; i < 50; i++) {
		for (unsigned k = 0; k < 100; k++) {
			red += load_shed_try_admit(&s, SHED_TENANT, "red", 3, now);
			assert_true(load_shed_try_admit(&s, SHED_TENANT, "blue", 4, now));
		}
		load_shed_add_answer_time(&s, "red", 3, NS_PER_S, now);
		load_shed_add_loop_round(&s, NS_PER_MS, 0, now += SHED_INTERVAL_NS);
	}
	assert_true(red < 50 * 100 / 2);
	load_shed_fini(&s);
}

static void a_no_is_remembered_for_longer_each_time(void **)
{
	struct load_shed s;
	uint64_t now = NS_PER_S, last = 0;

	assert_int_equal(load_shed_init(&s, now), 0);
	assert_true(load_shed_can_ask_control(&s, "a", 1, now));
	for (unsigned i = 0; i < 10; i++) {
		uint64_t pause = 0;

		load_shed_record_control_reply(&s, "a", 1, false, now);
		load_shed_record_control_reply(&s, "a", 1, false, now); /* of the same moment */
		assert_true(load_shed_can_ask_control(&s, "b", 1, now));
		while (!load_shed_can_ask_control(&s, "a", 1, now + pause))
			pause += NS_PER_MS;
		assert_true(pause > last || pause == 2 * NS_PER_S);
		assert_in_range(pause, 1, 2 * NS_PER_S);
		now += last = pause;
	}
	assert_true(s.refused_by_control > 0);
	load_shed_record_control_reply(&s, "a", 1, false, now);
	load_shed_record_control_reply(&s, "a", 1, true, now);
	assert_true(load_shed_can_ask_control(&s, "a", 1, now));
	load_shed_record_control_reply(&s, "a", 1, false, now);
	assert_true(load_shed_can_ask_control(&s, "a", 1, now + 20 * NS_PER_MS));
	load_shed_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_refused_below_capacity),
		cmocka_unit_test(twenty_times_as_much_is_cut_to_what_can_be_done),
		cmocka_unit_test(who_asks_less_than_its_share_has_all_of_it),
		cmocka_unit_test(refusing_is_bounded),
		cmocka_unit_test(one_interval_is_none),
		cmocka_unit_test(who_waits_for_itself_is_refused_alone),
		cmocka_unit_test(a_no_is_remembered_for_longer_each_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
