/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "text/percent.h"
#include "unit.h"

static void decodes_once_and_strictly(void **)
{
	static const struct {
		const char *in, *want; /* NULL: refused */
	} cases[] = {
		{ "", "" },         { "abc", "abc" },
		{ "a%20b", "a b" }, { "%e2%82%ac", "\xE2\x82\xAC" },
		{ "%2e%2E", ".." }, { "%252e", "%2e" },
		{ "a+b", "a+b" },   { "%0a%7f", "\n\x7f" },
		{ "%", NULL },      { "%2", NULL },
		{ "a%2", NULL },    { "%zz", NULL },
		{ "%2g", NULL },    { "%00", NULL },
		{ "a b", NULL },    { "a\tb", NULL },
		{ "a\x7f", NULL },  { "\xE2\x82\xAC", NULL },
		{ "%%30", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char out[32] = {};
		size_t n = 0;
		int r = percent_decode(cases[i].in, strlen(cases[i].in), out, &n);

		row_check(i, r == (cases[i].want ? 0 : -EINVAL));
		if (cases[i].want)
			row_check(i, n == strlen(cases[i].want) && !memcmp(out, cases[i].want, n));
	}
	assert_int_equal(percent_decode("\0", 1, (char[1]){}, &(size_t){}), -EINVAL);
}

static void every_byte_but_nul_comes_back(void **)
{
	char in[255], text[3 * 255], out[3 * 255];
	size_t n, got;

	for (unsigned i = 0; i < 255; i++)
		in[i] = (char)(i + 1);
	n = percent_encode(in, sizeof(in), text);
	assert_int_equal(percent_decode(text, n, out, &got), 0);
	assert_int_equal(got, sizeof(in));
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(percent_encode("a-._~Z9 /%", 10, text), 16);
	assert_memory_equal(text, "a-._~Z9%20%2F%25", 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decodes_once_and_strictly),
		cmocka_unit_test(every_byte_but_nul_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
