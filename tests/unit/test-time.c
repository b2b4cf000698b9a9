/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include "text/time.h"
#include "unit.h"

static void instants(void **)
{
	static const struct {
		const char *text;
		uint64_t want_ms;
		bool ok;
	} cases[] = {
		{ "1970-01-01T00:00:00Z", 0, true },
		{ "2026-11-15T01:50:43.123Z", UINT64_C(1794707443123), true },
		{ "2026-11-15T01:50:43.123456789Z", UINT64_C(1794707443123), true },
		{ "2000-02-29T00:00:00Z", UINT64_C(951782400000), true },
		{ "2024-12-31T23:59:59Z", UINT64_C(1735689599000), true },
		{ "2100-03-01T00:00:00Z", UINT64_C(4107542400000), true },
		{ "2100-02-29T00:00:00Z", 0, false },
		{ "2023-02-29T00:00:00Z", 0, false },
		{ "2023-04-31T00:00:00Z", 0, false },
		{ "2023-00-01T00:00:00Z", 0, false },
		{ "2023-13-01T00:00:00Z", 0, false },
		{ "2023-01-00T00:00:00Z", 0, false },
		{ "2023-01-32T00:00:00Z", 0, false },
		{ "2023-01-01T24:00:00Z", 0, false },
		{ "2023-01-01T00:60:00Z", 0, false },
		{ "2023-01-01T00:00:60Z", 0, false },
		{ "1969-12-31T23:59:59Z", 0, false },
		{ "2555-01-01T00:00:00Z", 0, false },
		{ "9999-12-31T23:59:59Z", 0, false },
		{ "2023-01-01T00:00:00", 0, false },
		{ "2023-01-01T00:00:00+00:00", 0, false },
		{ "2023-01-01T00:00:00z", 0, false },
		{ "2023-01-01t00:00:00Z", 0, false },
		{ "2023-01-01 00:00:00Z", 0, false },
		{ "2023-01-01T00:00:00.Z", 0, false },
		{ "2023-01-01T00:00:00.1234567890Z", 0, false },
		{ "2023-01-01T00:00:00.12x4Z", 0, false },
		{ "2023-01-01T00:00:00,5Z", 0, false },
		{ "2023-1-01T00:00:00Z", 0, false },
		{ "+023-01-01T00:00:00Z", 0, false },
		{ "2023-01-01T-1:00:00Z", 0, false },
		{ "2023-01-01T00:-1:00Z", 0, false },
		{ "2023-01-01T00:00:-1Z", 0, false },
		{ "Z", 0, false },
		{ "", 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 0;
		int r = time_parse(slice_of(cases[i].text), &ns);

		row_check(i, r == (cases[i].ok ? 0 : -EINVAL));
		row_check(i, !cases[i].ok || ns / NS_PER_MS == cases[i].want_ms);
	}
}

/* libc is the second opinion: every day for four centuries and a bit. */
static void days_agree_with_libc(void **)
{
	for (uint64_t day = 0; day < 150000; day++) {
		uint64_t ns = day * 86400 * NS_PER_S, back;
		char text[CLK_TEXT_LEN + 1];

		clk_format_rfc3339(ns, text);
		assert_int_equal(time_parse(slice_of(text), &back), 0);
		assert_int_equal(back, ns);
	}
}

static void durations(void **)
{
	static const struct {
		const char *text;
		uint64_t ms;
		int r;
		const char *shown;
	} cases[] = {
		{ "0", 0, 0, "0" },
		{ "0s", 0, 0, "0" },
		{ "250ms", 250, 0, "250ms" },
		{ "30s", 30000, 0, "30s" },
		{ "15m", 900000, 0, "15m" },
		{ "90m", 5400000, 0, "90m" },
		{ "24h", 86400000, 0, "1d" },
		{ "7d", 604800000, 0, "7d" },
		{ "18446744073709551615ms", UINT64_MAX, 0, "18446744073709551615ms" },
		{ "18446744073709551615s", 0, -ERANGE, NULL },
		{ "18446744073709551616ms", 0, -ERANGE, NULL },
		{ "5", 0, -EINVAL, NULL },
		{ "", 0, -EINVAL, NULL },
		{ "m", 0, -EINVAL, NULL },
		{ "1M", 0, -EINVAL, NULL },
		{ "1.5h", 0, -EINVAL, NULL },
		{ "-1s", 0, -EINVAL, NULL },
		{ "1 s", 0, -EINVAL, NULL },
		{ "1h30m", 0, -EINVAL, NULL },
		{ "01s", 0, -EINVAL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ms = 1;
		char shown[DURATION_TEXT_MAX];

		row_check(i, duration_parse(slice_of(cases[i].text), &ms) == cases[i].r);
		if (cases[i].r)
			continue;
		row_check(i, ms == cases[i].ms);
		duration_format(ms, shown);
		assert_string_equal(shown, cases[i].shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instants),
		cmocka_unit_test(days_agree_with_libc),
		cmocka_unit_test(durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
