/* SPDX-License-Identifier: Apache-2.0 */
#include "life/node-room.h"
#include "unit.h"

static void what_is_kept_is_not_given(void **)
{
	static const char *const says[ADMIT_NUM] = { "of memory free", "processes free",
						     "of disk free", "files free" };
	struct node_room plenty = { .of = { 100 << 20, 100, 100 << 20, 100 } };

	for (size_t i = 0; i < ADMIT_NUM; i++) {
		struct node_room kept = {};
		struct cay_err err = {};

		kept.of[i] = plenty.of[i];
		row_check(i, node_room_require(&plenty, &kept, &err) == 0);
		kept.of[i]++;
		row_check(i, node_room_require(&plenty, &kept, &err) == -ENOSR);
		row_check(i, err.code == CAY_E_CAPACITY && strstr(err.msg, says[i]));
	}
}

static void what_is_not_known_is_enough(void **)
{
	struct node_room nothing, kept = { .of = { 1, 1, 1, 1 } };

	memset(&nothing, 0xff, sizeof(nothing));
	assert_int_equal(node_room_require(&nothing, &kept, NULL), 0);
}

static void a_part_of_the_disk_is_kept(void **)
{
	assert_int_equal(node_room_disk_reserve(UINT64_C(20) << 20), 1 << 20);
	assert_int_equal(node_room_disk_reserve(UINT64_C(1) << 40), 1 << 30);
}

static void the_longest_idle_goes_and_nobody_who_is_busy(void **)
{
	static const struct {
		struct life l, than;
		bool rather;
	} rows[] = {
		{ { .state = SB_RUNNING, .active_ns = 5 }, { .active_ns = 6 }, true },
		{ { .state = SB_RUNNING, .active_ns = 6 }, { .active_ns = 6 }, false },
		{ { .state = SB_RUNNING, .active_ns = 5, .n_requests = 1 },
		  { .active_ns = 6 },
		  false },
		{ { .state = SB_RUNNING, .active_ns = 5, .pending_effect = DO_FREEZE },
		  { .active_ns = 6 },
		  false },
		{ { .state = SB_PENDING, .active_ns = 5 }, { .active_ns = 6 }, false },
		{ { .state = SB_PAUSED, .active_ns = 5 }, { .active_ns = 6 }, false },
		{ { .state = SB_PAUSED, .active_ns = 5, .dozes = true }, { .active_ns = 6 }, true },
		{ { .state = SB_ENDING, .active_ns = 5 }, { .active_ns = 6 }, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i,
			  node_room_is_better_victim(&rows[i].l, &rows[i].than) == rows[i].rather);
	assert_true(node_room_is_better_victim(&rows[0].l, NULL));
	assert_false(node_room_is_better_victim(&rows[2].l, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_is_not_given),
		cmocka_unit_test(what_is_not_known_is_enough),
		cmocka_unit_test(a_part_of_the_disk_is_kept),
		cmocka_unit_test(the_longest_idle_goes_and_nobody_who_is_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
