/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "life/create-queue.h"
#include "unit.h"

static struct id tenant(unsigned i)
{
	struct id id = { .noun = ID_TENANT };

	id.bits[14] = (uint8_t)i;
	return id;
}

static bool ask(struct create_queue *q, struct create_slot *t, unsigned who, uint64_t now)
{
	struct id id = tenant(who);

	return create_queue_enter(q, t, &id, now);
}

/* Makings that take 50 ms of a machine that does one at a time: 20 a second. */
static void measure(struct create_queue *q)
{
	struct create_slot t;
	uint64_t now = NS_PER_S;

	for (unsigned i = 0; i < 64; i++, now += 50 * NS_PER_MS) {
		assert_true(ask(q, &t, 0, now));
		assert_ptr_equal(create_queue_start_next(q, now), &t);
		create_queue_finish(q, &t, now + 50 * NS_PER_MS);
	}
}

static void only_as_many_as_are_made_in_time(void **)
{
	struct create_queue q = {};
	static struct create_slot t[64];
	unsigned in = 0;

	measure(&q);
	assert_in_range(q.cost_ns, 49 * NS_PER_MS, 51 * NS_PER_MS);
	for (unsigned i = 0; i < 64; i++) /* a tenant each */
		in += ask(&q, &t[i], i, 10 * NS_PER_S);
	assert_in_range(in, 39, 40);
	assert_int_equal(q.n_refused, 64 - in);
	assert_int_equal(q.n_waiting, in);
	for (in = 0; create_queue_start_next(&q, 10 * NS_PER_S); in++)
		;
	assert_int_equal(in, CREATE_QUEUE_RUNNING_MAX);
}

/* However slow it was, a few are tried. */
static void what_was_slow_is_tried_again(void **)
{
	struct create_queue q = {};
	struct create_slot t;
	uint64_t now = NS_PER_S;
	unsigned in = 0;
	static struct create_slot more[16];

	for (unsigned i = 0; i < 32; i++, now += 30 * NS_PER_S) {
		assert_true(ask(&q, &t, 0, now));
		assert_ptr_equal(create_queue_start_next(&q, now), &t);
		create_queue_finish(&q, &t, now + 30 * NS_PER_S);
	}
	for (unsigned i = 0; i < 16; i++)
		in += ask(&q, &more[i], i, now);
	assert_int_equal(in, CREATE_QUEUE_MIN);
	/* and one outage is not believed for long */
	for (unsigned i = 0; i < 16; i++)
		if (create_queue_start_next(&q, now) || q.creating)
			create_queue_leave(&q, q.creating);
	measure(&q);
	assert_in_range(q.cost_ns, 49 * NS_PER_MS, 51 * NS_PER_MS);
}

static void one_tenant_leaves_room(void **)
{
	struct create_queue q = {};
	static struct create_slot greedy[64], other;
	unsigned in = 0;

	measure(&q);
	for (unsigned i = 0; i < 64; i++)
		in += ask(&q, &greedy[i], 1, 10 * NS_PER_S);
	assert_in_range(in, 27, 30); /* three quarters of 40 */
	assert_true(ask(&q, &other, 2, 10 * NS_PER_S));
}

static void tenants_take_turns(void **)
{
	struct create_queue q = {};
	static struct create_slot t[3][5];
	unsigned order[3] = {};

	/* the greedy one came first with all of its own */
	for (unsigned i = 0; i < 5; i++)
		assert_true(ask(&q, &t[0][i], 0, NS_PER_S));
	assert_true(ask(&q, &t[1][0], 1, NS_PER_S));
	assert_true(ask(&q, &t[2][0], 2, NS_PER_S));
	for (unsigned i = 0; i < 3; i++)
		order[create_queue_start_next(&q, NS_PER_S)->tenant.bits[14]]++;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(order[i], 1);
}

static void who_waits_too_long_is_told(void **)
{
	struct create_queue q = {};
	struct create_slot a, b;

	assert_true(ask(&q, &a, 0, NS_PER_S));
	assert_true(ask(&q, &b, 1, NS_PER_S + 1));
	assert_null(create_queue_pop_expired(&q, NS_PER_S + CREATE_QUEUE_WAIT_MAX_NS - 1));
	assert_ptr_equal(create_queue_pop_expired(&q, NS_PER_S + CREATE_QUEUE_WAIT_MAX_NS), &a);
	assert_null(create_queue_pop_expired(&q, NS_PER_S + CREATE_QUEUE_WAIT_MAX_NS));
	assert_int_equal(q.n_expired, 1);
	create_queue_leave(&q, &b);
	assert_int_equal(q.n_waiting, 0);
	assert_null(create_queue_start_next(&q, NS_PER_S));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_as_many_as_are_made_in_time),
		cmocka_unit_test(what_was_slow_is_tried_again),
		cmocka_unit_test(one_tenant_leaves_room),
		cmocka_unit_test(tenants_take_turns),
		cmocka_unit_test(who_waits_too_long_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
