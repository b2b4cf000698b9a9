/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/admin/bench-stats.h"
#include "cli/exec/session.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "unit.h"

static void nothing_a_terminal_acts_on_is_shown(void **)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "plain text, ünïcödé 漢", "plain text, ünïcödé 漢" },
		{ "\033[2J", "\\x1b[2J" },
		{ "a\nb\tc\r", "a\\nb\\tc\\x0d" },
		{ "\a\b\177", "\\x07\\x08\\x7f" },
		{ "\xc2\x9b"
		  "31m",
		  "\\xc2\\x9b31m" },                   /* CSI in one code point */
		{ "\xc2\xa0", "\xc2\xa0" },            /* no-break space */
		{ "\xe2\x80\xae", "\\xe2\\x80\\xae" }, /* right-to-left override */
		{ "\xe2\x80\x8b", "\\xe2\\x80\\x8b" }, /* nothing, but wide */
		{ "\xe2\x81\xa6", "\\xe2\\x81\\xa6" }, /* isolate */
		{ "\xe2\x80\x94", "\xe2\x80\x94" },    /* a dash */
		{ "\xff\xfe", "\\xff\\xfe" },          /* no UTF-8 */
		{ "\xe2\x82", "\\xe2\\x82" },          /* cut off */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* a surrogate */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf b = BUF_INIT(256);

		row_check(i, print_append_escaped(&b, slice_of(cases[i].in)) == 0);
		assert_text(&b, cases[i].want);
	}
}

static void a_table_is_aligned_by_what_is_seen(void **)
{
	static const char *const cells[] = { "ID", "NAME", "X", "1", "ü", "x", "22", "e\033", "y" };
	auto_table t = print_table_create(3);
	auto_buf b = BUF_INIT(1024);

	for (size_t i = 0; i < ARRAY_SIZE(cells); i++)
		print_table_add_cell(&t, cells[i]);
	assert_int_equal(print_table_write(&t, &b), 0);
	assert_text(&b, "ID  NAME   X\n1   ü      x\n22  e\\x1b  y\n");
}

static void ages_are_short(void **)
{
	static const struct {
		uint64_t s;
		const char *want;
	} cases[] = {
		{ 0, "0 s" },    { 119, "119 s" },   { 120, "2 min" },  { 7199, "119 min" },
		{ 7200, "2 h" }, { 172799, "47 h" }, { 172800, "2 d" }, { 864000, "10 d" },
	};
	char text[PRINT_AGE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_age_format(cases[i].s * NS_PER_S + 1, 0, text);
		assert_string_equal(text, cases[i].want);
	}
	print_age_format(1, 2 * NS_PER_S, text); /* made in the future */
	assert_string_equal(text, "0 s");
}

static void sizes_have_one_digit_behind_the_point(void **)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 1536, "1.5 KiB" },
		{ MIB(1) - 1, "1023.9 KiB" },
		{ MIB(1), "1.0 MiB" },
		{ MIB(308), "308.0 MiB" },
		{ UINT64_C(3) << 29, "1.5 GiB" },
		{ UINT64_MAX, "15.9 EiB" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf b = BUF_INIT(64);

		row_check(i, byte_size_format(cases[i].bytes, &b) == 0);
		assert_text(&b, cases[i].want);
	}
}

static void progress_says_how_far_and_how_fast(void **)
{
	static const struct {
		uint64_t done, total, ns;
		const char *want;
	} cases[] = {
		{ 0, 100, 0, "[....................]   0 %  0 B of 100 B" },
		{ 50, 100, NS_PER_S / 2, "[##########..........]  50 %  50 B of 100 B  100 B/s" },
		{ MIB(1), MIB(1), NS_PER_S,
		  "[####################] 100 %  1.0 MiB of 1.0 MiB  1.0 MiB/s" },
		{ 200, 100, NS_PER_S, "[####################] 100 %  200 B of 100 B  200 B/s" },
		{ 1024, 0, NS_PER_S, "1.0 KiB  1.0 KiB/s" },
		{ UINT64_MAX, UINT64_MAX, 1,
		  "[####################] 100 %  15.9 EiB of 15.9 EiB  15.9 EiB/s" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf b = BUF_INIT(256);

		row_check(i, progress_format_line(cases[i].done, cases[i].total, cases[i].ns, &b) ==
				     0);
		assert_text(&b, cases[i].want);
	}
}

static void percentiles_are_values_that_were_measured(void **)
{
	uint64_t one[] = { 7 }, many[200];
	struct bench_stats s = { one, 1 };
	struct bench_stats_summary sum = bench_stats_summarise(&s);

	assert_true(sum.min == 7 && sum.p50 == 7 && sum.p99 == 7 && sum.max == 7);
	for (uint64_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = 200 - i;
	s = (struct bench_stats){ many, ARRAY_SIZE(many) };
	sum = bench_stats_summarise(&s);
	assert_int_equal(sum.min, 1);
	assert_int_equal(sum.p50, 100);
	assert_int_equal(sum.p99, 198);
	assert_int_equal(sum.max, 200);
}

static void signals_are_128_and_their_number(void **)
{
	static const struct {
		const char *name;
		int want;
	} cases[] = {
		{ "SIGKILL", 137 },    { "TERM", 143 },     { "SIGRTMIN", 160 },
		{ "SIGRTMIN+2", 162 }, { "SIGRTMAX", 192 }, { "SIGRTMAX-1", 191 },
		{ "SIGNOPE", 255 },    { "", 255 },         { "SIGRTMIN+99", 255 },
		{ "SIGRTMINx", 255 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i, exit_status_from_signal(cases[i].name) == cases[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_a_terminal_acts_on_is_shown),
		cmocka_unit_test(a_table_is_aligned_by_what_is_seen),
		cmocka_unit_test(ages_are_short),
		cmocka_unit_test(sizes_have_one_digit_behind_the_point),
		cmocka_unit_test(progress_says_how_far_and_how_fast),
		cmocka_unit_test(percentiles_are_values_that_were_measured),
		cmocka_unit_test(signals_are_128_and_their_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
