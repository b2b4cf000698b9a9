/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "text/quantity.h"
#include "unit.h"

static void quantities(void **)
{
	static const struct {
		const char *text;
		int r_bytes;
		uint64_t bytes;
		int r_milli;
		uint64_t milli;
	} cases[] = {
		{ "0", 0, 0, 0, 0 },
		{ "1", 0, 1, 0, 1000 },
		{ "2", 0, 2, 0, 2000 },
		{ "500m", -ERANGE, 0, 0, 500 },
		{ "1000m", 0, 1, 0, 1000 },
		{ "0.5", -ERANGE, 0, 0, 500 },
		{ "1.5", -ERANGE, 0, 0, 1500 },
		{ "0.0005", -ERANGE, 0, -ERANGE, 0 },
		{ "1k", 0, 1000, 0, 1000000 },
		{ "1Ki", 0, 1024, 0, 1024000 },
		{ "512Mi", 0, 536870912, 0, 536870912000 },
		{ "1.5Gi", 0, 1610612736, 0, 1610612736000 },
		{ "0.1Ki", -ERANGE, 0, 0, 102400 },
		{ "1M", 0, 1000000, 0, 1000000000 },
		{ "1G", 0, 1000000000, 0, 1000000000000 },
		{ "1T", 0, 1000000000000, 0, 1000000000000000 },
		{ "1P", 0, 1000000000000000, 0, 1000000000000000000 },
		{ "15Ei", 0, UINT64_C(15) << 60, -ERANGE, 0 },
		{ "16Ei", -ERANGE, 0, -ERANGE, 0 },
		{ "18446744073709551615", 0, UINT64_MAX, -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0, -ERANGE, 0 },
		{ "99999999999999999999Ei", -ERANGE, 0, -ERANGE, 0 },
		{ "99999999999999999999.999999999Ei", -ERANGE, 0, -ERANGE, 0 },
		{ "999999999999999999999", -EINVAL, 0, -EINVAL, 0 },
		{ "", -EINVAL, 0, -EINVAL, 0 },
		{ "Mi", -EINVAL, 0, -EINVAL, 0 },
		{ ".5", -EINVAL, 0, -EINVAL, 0 },
		{ "5.", -EINVAL, 0, -EINVAL, 0 },
		{ "5.Mi", -EINVAL, 0, -EINVAL, 0 },
		{ "01", -EINVAL, 0, -EINVAL, 0 },
		{ "1mi", -EINVAL, 0, -EINVAL, 0 },
		{ "1K", -EINVAL, 0, -EINVAL, 0 },
		{ "1KB", -EINVAL, 0, -EINVAL, 0 },
		{ "1 Mi", -EINVAL, 0, -EINVAL, 0 },
		{ "-1", -EINVAL, 0, -EINVAL, 0 },
		{ "+1", -EINVAL, 0, -EINVAL, 0 },
		{ "1e3", -EINVAL, 0, -EINVAL, 0 },
		{ "1.1234567890", -EINVAL, 0, -EINVAL, 0 },
		{ "1.2.3", -EINVAL, 0, -EINVAL, 0 },
		{ "0x10", -EINVAL, 0, -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 0;

		row_check(i, quantity_parse_bytes(slice_of(cases[i].text), &v) == cases[i].r_bytes);
		row_check(i, cases[i].r_bytes || v == cases[i].bytes);
		row_check(i, quantity_parse_milli(slice_of(cases[i].text), &v) == cases[i].r_milli);
		row_check(i, cases[i].r_milli || v == cases[i].milli);
	}
}

static void sizes_are_written_exactly(void **)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} cases[] = {
		{ 0, "0" },
		{ 1, "1" },
		{ 1023, "1023" },
		{ 1024, "1Ki" },
		{ 1536, "1536" },
		{ 536870912, "512Mi" },
		{ UINT64_C(15) << 60, "15Ei" },
		{ UINT64_MAX, "18446744073709551615" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[QUANTITY_TEXT_MAX];
		uint64_t back;

		quantity_format(cases[i].bytes, text);
		assert_string_equal(text, cases[i].want);
		assert_int_equal(quantity_parse_bytes(slice_of(text), &back), 0);
		assert_int_equal(back, cases[i].bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantities),
		cmocka_unit_test(sizes_are_written_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
