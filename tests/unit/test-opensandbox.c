/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/clock.h"
#include "opensandbox/output-lines.h"
#include "opensandbox/translate.h"
#include "unit.h"

static void output_is_cut_into_lines(void **)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "" },
		{ "a", "a" },
		{ "a\n", "<a>" },
		{ "a\nb", "<a>b" },
		{ "a\r\nb\r\n", "<a><b>" },
		{ "1%\r2%\r", "<1%><2%>" },
		{ "\n\n", "<><>" },
		{ "a\r\r\nb", "<a><>b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t step = 1; step < 4; step++) {
			struct output_lines l = output_lines_create();
			auto_buf got = BUF_INIT(100);
			size_t n = strlen(cases[i].in);
			struct slice line;

			for (size_t at = 0; at < n; at += step) {
				struct slice in = { cases[i].in + at,
						    n - at < step ? n - at : step };

				while (output_lines_next(&l, &in, &line) > 0)
					assert_true(buf_printf(&got, "<%.*s>", (int)line.n,
							       line.p) >= 0);
			}
			if (output_lines_last(&l, &line))
				assert_true(buf_append(&got, line.p, line.n) >= 0);
			row_check(i, str_eq(buf_str(&got), cases[i].want));
			output_lines_fini(&l);
		}
}

static void a_line_without_an_end_is_cut_at_a_character(void **)
{
	struct output_lines l = output_lines_create();
	struct slice line, in;
	size_t n = OUTPUT_LINES_MAX - 1;
	char *text = malloc(n + 4);

	assert_non_null(text);
	memset(text, 'x', n);
	memcpy(text + n, "\xE2\x82\xAC\n", 4);
	in = (struct slice){ text, n + 4 };
	assert_int_equal(output_lines_next(&l, &in, &line), 1);
	assert_int_equal(line.n, n);
	assert_int_equal(output_lines_next(&l, &in, &line), 1);
	assert_true(slice_eq(line, SLICE("\xE2\x82\xAC")));
	assert_int_equal(output_lines_next(&l, &in, &line), 0);
	output_lines_fini(&l);
	free(text);
}

static void times_have_any_offset(void **)
{
	static const struct {
		const char *in;
		uint64_t want_s; /* 0: refused */
	} cases[] = {
		{ "2026-01-02T03:04:05Z", 1767323045 },
		{ "2026-01-02T03:04:05.000001+00:00", 1767323045 },
		{ "2026-01-02T05:04:05+02:00", 1767323045 },
		{ "2026-01-01T21:34:05-05:30", 1767323045 },
		{ "2026-01-02T03:04:05", 0 },
		{ "2026-01-02T03:04:05+2:00", 0 },
		{ "2026-01-02T03:04:05+24:00", 0 },
		{ "1970-01-01T00:00:00+01:00", 0 },
		{ "+00:00", 0 },
		{ "", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 0;
		int r = translate_time(slice_of(cases[i].in), &ns);

		row_check(i, r == (cases[i].want_s ? 0 : -EINVAL));
		row_check(i, r < 0 || ns / NS_PER_S == cases[i].want_s);
	}
}

static void metadata_are_a_selector(void **)
{
	static const struct {
		const char *in, *want; /* NULL: refused */
	} cases[] = {
		{ "", "" },
		{ "a=b", "a=b" },
		{ "a=b&c=d", "a=b,c=d" },
		{ "a%2Eb%2Fc=d", "a.b/c=d" },
		{ "a=", "a=" },
		{ "a", NULL },
		{ "a=b,c", NULL },
		{ "a=b%2Cc%3Dd", NULL },
		{ "=b", NULL },
		{ "a=%zz", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf selector = BUF_INIT(400);
		struct cay_err err = {};
		int r = translate_filter(cases[i].in, &selector, &err);

		row_check(i, (r >= 0) == (cases[i].want != NULL));
		row_check(i, r < 0 || str_eq(buf_str(&selector), cases[i].want));
	}
}

static void queries_are_those_of_forms(void **)
{
	char out[16];

	assert_int_equal(translate_query("a+b%2B%20c", 10, out), 0);
	assert_string_equal(out, "a b+ c");
	assert_int_equal(translate_query("+", 1, out), 0);
	assert_string_equal(out, " ");
	assert_int_equal(translate_query("%0", 2, out), -EINVAL);
	assert_int_equal(translate_query("a%2+5", 5, out), -EINVAL);
	assert_int_equal(translate_query("%00", 3, out), -EINVAL);
}

static void modes_read_as_octal(void **)
{
	char text[TRANSLATE_MODE_TEXT];

	assert_int_equal(translate_mode(644, text), 0);
	assert_string_equal(text, "0644");
	assert_int_equal(translate_mode(1777, text), 0);
	assert_string_equal(text, "1777");
	assert_int_equal(translate_mode(648, text), -EINVAL);
	assert_int_equal(translate_mode(-1, text), -EINVAL);
	assert_int_equal(translate_mode(10000, text), -EINVAL);
}

static void patterns_match_whole_names(void **)
{
	static const struct {
		const char *pattern, *name;
		bool want;
	} cases[] = {
		{ "*", "a", true },
		{ "**", "a.b", true },
		{ "*.txt", "a.txt", true },
		{ "*.txt", "a.txt.gz", false },
		{ "?.txt", "a.txt", true },
		{ "?.txt", ".txt", false },
		{ "a[b-d]", "ac", true },
		{ "a[^b-d]", "ac", false },
		{ "a[!b]", "ac", true },
		{ "[]a]", "]", true },
		{ "[a", "[a", false },
		{ "\\*", "*", true },
		{ "\\*", "a", false },
		{ "a*b*c", "aXbYbZc", true },
		{ "a*b*c", "aXbYbZ", false },
		{ "", "", true },
		{ "", "a", false },
		{ "*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i,
			  translate_name_matches(cases[i].pattern, cases[i].name) == cases[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_is_cut_into_lines),
		cmocka_unit_test(a_line_without_an_end_is_cut_at_a_character),
		cmocka_unit_test(times_have_any_offset),
		cmocka_unit_test(metadata_are_a_selector),
		cmocka_unit_test(queries_are_those_of_forms),
		cmocka_unit_test(modes_read_as_octal),
		cmocka_unit_test(patterns_match_whole_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
