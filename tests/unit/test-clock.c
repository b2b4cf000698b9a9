/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "unit.h"

static void system_time_moves_forward(void **)
{
	uint64_t a = clk_boot_ns(&clk_system), b = clk_boot_ns(&clk_system);

	assert_true(a > 0 && b >= a);
	assert_true(clk_wall_ns(&clk_system) > UINT64_C(1700000000) * NS_PER_S);
}

static void test_time_moves_when_told(void **)
{
	struct clk_test t = clk_test_create(5, 1000);

	assert_int_equal(clk_boot_ns(&t.clk), 5);
	clk_test_advance(&t, 10 * NS_PER_S);
	assert_int_equal(clk_boot_ns(&t.clk), 10 * NS_PER_S + 5);
	assert_int_equal(clk_wall_ns(&t.clk), 10 * NS_PER_S + 1000);
	t.wall = 1;
	assert_int_equal(clk_boot_ns(&t.clk), 10 * NS_PER_S + 5);
}

static void instants_are_written_in_utc(void **)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} cases[] = {
		{ 0, "1970-01-01T00:00:00.000Z" },
		{ UINT64_C(1794707443123) * NS_PER_MS + 999999, "2026-11-15T01:50:43.123Z" },
		{ UINT64_C(951782400000) * NS_PER_MS, "2000-02-29T00:00:00.000Z" },
		{ UINT64_MAX, "2554-07-21T23:34:33.709Z" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[CLK_TEXT_LEN + 1];

		clk_format_rfc3339(cases[i].ns, text);
		assert_string_equal(text, cases[i].want);
	}
}

static void boot_id_looks_like_one(void **)
{
	char id[BOOT_ID_LEN + 1];

	assert_int_equal(clk_read_boot_id(id), 0);
	assert_int_equal(strlen(id), BOOT_ID_LEN);
	assert_int_equal(id[8], '-');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(system_time_moves_forward),
		cmocka_unit_test(test_time_moves_when_told),
		cmocka_unit_test(instants_are_written_in_utc),
		cmocka_unit_test(boot_id_looks_like_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
