/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "life/grant.h"
#include "unit.h"

static const struct grant none;

static void a_sum_is_of_what_is_there(void **)
{
	struct limits a = { .memory_bytes = 100, .cpu_milli = 10, .pids = 8, .disk_bytes = 1000 };
	struct limits b = { .memory_bytes = 50, .cpu_milli = 20, .pids = 9, .disk_bytes = 500 };
	struct grant one = grant_of_limits(&a, NULL), both = grant_of_limits(&a, &b), sum = none;

	assert_int_equal(both.memory_bytes, 100);
	assert_int_equal(both.cpu_milli, 20);
	assert_int_equal(both.pids, 9);
	assert_int_equal(both.disk_bytes, 1000);
	sum = grant_replace(&sum, &none, &one);
	sum = grant_replace(&sum, &none, &one);
	assert_int_equal(sum.memory_bytes, 200);
	sum = grant_replace(&sum, &one, &both); /* a change of limits */
	assert_int_equal(sum.memory_bytes, 200);
	assert_int_equal(sum.cpu_milli, 30);
	assert_int_equal(sum.pids, 17);
	sum = grant_replace(&sum, &both, &none);
	sum = grant_replace(&sum, &one, &none);
	assert_memory_equal(&sum, &none, sizeof(sum));
}

static void a_quota_is_reached_and_not_passed(void **)
{
	const struct quotas rows[] = { { .memory_bytes = 10, .has_memory = true },
				       { .cpu_milli = 10, .has_cpu = true },
				       { .pids = 10, .has_pids = true },
				       { .disk_bytes = 10, .has_disk = true } };
	struct grant seven = { 7, 7, 7, 7 }, three = { 3, 3, 3, 3 }, four = { 4, 4, 4, 4 };
	struct grant twenty = { 20, 20, 20, 20 };
	struct quotas no_quota = {};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cay_err err = {};

		row_check(i, grant_check_quotas(&rows[i], &seven, &none, &three, &err) == 0);
		row_check(i, grant_check_quotas(&rows[i], &seven, &none, &four, &err) < 0);
		row_check(i, err.code == CAY_E_LIMIT);
		/* a resize: only the difference counts, and less is always granted */
		row_check(i, grant_check_quotas(&rows[i], &seven, &three, &four, &err) == 0);
		row_check(i, grant_check_quotas(&rows[i], &twenty, &seven, &four, &err) == 0);
		row_check(i, grant_check_quotas(&no_quota, &twenty, &none, &four, &err) == 0);
	}
}

static void memory_is_committed_once(void **)
{
	struct grant sum = { .memory_bytes = 350 }, fits = { .memory_bytes = 50 };
	struct grant above = { .memory_bytes = 51 };
	struct cay_err err = {};

	assert_int_equal(grant_check_node(100, 400, &sum, &none, &fits, &err), 0);
	assert_true(grant_check_node(100, 400, &sum, &none, &above, &err) < 0);
	assert_int_equal(err.code, CAY_E_CAPACITY);
	assert_int_equal(grant_check_node(100, 400, &sum, &above, &above, &err), 0);
	assert_int_equal(grant_check_node(100, 0, &sum, &none, &above, &err), 0);
	assert_int_equal(grant_check_node(100, 100, &sum, &above, &fits, &err), 0);
}

static void creates_have_a_rate(void **)
{
	uint64_t next = 0, now = 1000 * NS_PER_S;
	unsigned n = 0;

	while (n < 100 && grant_take_turn(&next, 5, now))
		n++;
	assert_int_equal(n, 5);
	assert_false(grant_take_turn(&next, 5, now + NS_PER_S / 5 - 1));
	assert_true(grant_take_turn(&next, 5, now + NS_PER_S / 5));
	assert_false(grant_take_turn(&next, 5, now + NS_PER_S / 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sum_is_of_what_is_there),
		cmocka_unit_test(a_quota_is_reached_and_not_passed),
		cmocka_unit_test(memory_is_committed_once),
		cmocka_unit_test(creates_have_a_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
