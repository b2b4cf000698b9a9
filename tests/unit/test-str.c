/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"

static void slices_trim_and_cut(void **)
{
	struct slice s = SLICE("a=b=c"), empty = {};

	assert_true(slice_eq(slice_trim(SLICE(" \t x y\t ")), SLICE("x y")));
	assert_int_equal(slice_trim(SLICE(" \t ")).n, 0);
	assert_true(slice_eq(slice_cut(&s, '='), SLICE("a")));
	assert_true(slice_eq(slice_cut(&s, '='), SLICE("b")));
	assert_non_null(s.p);
	assert_true(slice_eq(slice_cut(&s, '='), SLICE("c")));
	assert_null(s.p);
	s = SLICE("x=");
	(void)slice_cut(&s, '=');
	assert_non_null(s.p);
	assert_int_equal(s.n, 0);
	assert_int_equal(slice_cut(&empty, '=').n, 0);
}

static void numbers_are_digits_and_nothing_else(void **)
{
	static const struct {
		const char *text;
		uint64_t min, max, want;
		int r;
	} cases[] = {
		{ "0", 0, 10, 0, 0 },
		{ "18446744073709551615", 0, UINT64_MAX, UINT64_MAX, 0 },
		{ "18446744073709551616", 0, UINT64_MAX, 0, -ERANGE },
		{ "99999999999999999999999", 0, UINT64_MAX, 0, -ERANGE },
		{ "10", 0, 10, 10, 0 },
		{ "11", 0, 10, 0, -ERANGE },
		{ "4", 5, 10, 0, -ERANGE },
		{ "", 0, 10, 0, -EINVAL },
		{ "00", 0, 10, 0, -EINVAL },
		{ "01", 0, 10, 0, -EINVAL },
		{ "+1", 0, 10, 0, -EINVAL },
		{ "-1", 0, 10, 0, -EINVAL },
		{ " 1", 0, 10, 0, -EINVAL },
		{ "1 ", 0, 10, 0, -EINVAL },
		{ "0x1", 0, 10, 0, -EINVAL },
		{ "1e1", 0, 10, 0, -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 77;

		row_check(i, str_parse_u64(slice_of(cases[i].text), cases[i].min, cases[i].max,
					   &v) == cases[i].r);
		row_check(i, v == (cases[i].r < 0 ? 77 : cases[i].want));
	}
}

static void utf8_is_strict(void **)
{
	static const struct {
		const char *text;
		size_t n;
		bool valid;
	} cases[] = {
		{ "", 0, true },
		{ "abc", 3, true },
		{ "\xC3\xA9", 2, true },
		{ "\xE2\x82\xAC", 3, true },
		{ "\xF0\x9F\x8F\x9D", 4, true },
		{ "\xF4\x8F\xBF\xBF", 4, true },
		{ "\xEE\x80\x80", 3, true },
		{ "\xC0\x80", 2, false },         /* overlong NUL */
		{ "\xC1\xBF", 2, false },         /* overlong */
		{ "\xE0\x9F\xBF", 3, false },     /* overlong */
		{ "\xF0\x8F\xBF\xBF", 4, false }, /* overlong */
		{ "\xED\xA0\x80", 3, false },     /* surrogate */
		{ "\xF4\x90\x80\x80", 4, false }, /* above U+10FFFF */
		{ "\xF5\x80\x80\x80", 4, false },
		{ "\x80", 1, false },
		{ "\xC3", 1, false },
		{ "\xE2\x82", 2, false },
		{ "\xC3(", 2, false },
		{ "a\xFF", 2, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i, utf8_is_valid(cases[i].text, cases[i].n) == cases[i].valid);
}

static void streams_are_cut_between_characters(void **)
{
	static const struct {
		const char *text;
		size_t n, whole;
	} cases[] = {
		{ "", 0, 0 },
		{ "abc", 3, 3 },
		{ "ab\xC3", 3, 2 },
		{ "ab\xC3\xA9", 4, 4 },
		{ "a\xE2\x82", 3, 1 },
		{ "\xF0\x9F\x8F", 3, 0 },
		{ "x\xF0\x9F\x8F\x9D", 5, 5 },
		{ "\x80\x80\x80", 3, 3 }, /* never completes: let it through */
		{ "\xE2\x28", 2, 2 },     /* broken, waiting would not mend it */
		{ "\xED\xA0", 2, 2 },     /* surrogate, likewise */
		{ "a\xFF", 2, 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i, utf8_whole_prefix_len(cases[i].text, cases[i].n) == cases[i].whole);
}

static void names_and_labels_follow_their_grammars(void **)
{
	static const struct {
		const char *text;
		bool name, key, value;
	} cases[] = {
		{ "a", true, true, true },
		{ "a-1", true, true, true },
		{ "-a", false, false, false },
		{ "a-", false, false, false },
		{ "A", false, true, true },
		{ "a_b", false, true, true },
		{ "a.b", false, true, true },
		{ "", false, false, true },
		{ "a b", false, false, false },
		{ "example.com/role", false, true, false },
		{ "example.com/", false, false, false },
		{ "/role", false, false, false },
		{ "Example.com/role", false, false, false },
		{ "a/b/c", false, false, false },
		{ "a..b/c", false, false, false },
		{ "\xC3\xA9", false, false, false },
	};
	char long_text[254], longer[256];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct slice s = slice_of(cases[i].text);

		row_check(i, str_is_dns_label(s) == cases[i].name);
		row_check(i, str_is_label_key(s) == cases[i].key);
		row_check(i, str_is_label_value(s) == cases[i].value);
	}
	memset(long_text, 'a', sizeof(long_text));
	assert_true(str_is_dns_label((struct slice){ long_text, 63 }));
	assert_false(str_is_dns_label((struct slice){ long_text, 64 }));
	assert_false(str_is_label_value((struct slice){ long_text, 64 }));
	for (size_t i = 60; i < 254; i += 60)
		long_text[i] = '.';
	memcpy(long_text + 252, "/b", 2);
	assert_true(str_is_label_key((struct slice){ long_text, 254 }));
	/* one more: a prefix of 254 characters, every label within 63 */
	memset(long_text, 'a', sizeof(long_text));
	for (size_t i = 50; i < 254; i += 51)
		long_text[i] = '.';
	memcpy(longer, long_text, 254);
	memcpy(longer + 254, "/b", 2);
	assert_false(str_is_label_key((struct slice){ longer, 256 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_trim_and_cut),
		cmocka_unit_test(numbers_are_digits_and_nothing_else),
		cmocka_unit_test(utf8_is_strict),
		cmocka_unit_test(streams_are_cut_between_characters),
		cmocka_unit_test(names_and_labels_follow_their_grammars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
