/* SPDX-License-Identifier: Apache-2.0 */
#include "text/distance.h"
#include "unit.h"

static void distance_counts_letters(void **)
{
	static const struct {
		const char *a, *b;
		unsigned want;
	} d[] = {
		{ "", "", 0 },
		{ "a", "", 1 },
		{ "", "abc", 3 },
		{ "same", "same", 0 },
		{ "abcd", "acbd", 1 }, /* two in each other's place */
		{ "abcd", "badc", 2 },
		{ "memoryy", "memory", 1 },
		{ "kitten", "sitting", 3 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(d); i++)
		row_check(i, str_edit_distance(slice_of(d[i].a), slice_of(d[i].b)) == d[i].want);
	assert_int_equal(
		str_edit_distance(slice_of("a"),
				  SLICE("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")),
		DISTANCE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(distance_counts_letters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
