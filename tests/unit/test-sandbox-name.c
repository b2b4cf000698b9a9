/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "text/sandbox-name.h"
#include "unit.h"

#define X16 "xxxxxxxxxxxxxxxx"
#define X128 X16 X16 X16 X16 X16 X16 X16 X16
#define SB "sb0000000000000000000000zz"

static void what_is_a_name(void **)
{
	static const struct {
		const char *name;
		bool valid;
	} cases[] = {
		{ "a", true },
		{ "my_session", true },
		{ "Session A", true },
		{ "%2e%2e", true },
		{ "a.b", true },
		{ "~\\?#\"'`$(x)", true },
		{ X128, true },
		{ "\xc3\xa9", true },
		{ "\xe4\xbc\x9a", true },
		{ "\xf0\x9f\x98\x80", true },
		{ SB "0", true },
		{ "", false },
		{ ".", false },
		{ "..", false },
		{ ".a", false },
		{ "/", false },
		{ "a/b", false },
		{ X128 "x", false },
		{ SB, false },
		{ "a\nb", false },
		{ "\x1b[2J", false },
		{ "\x7f", false },
		{ "\xc2\x85", false },     /* next line */
		{ "\xe2\x80\xae", false }, /* text from right to left */
		{ "\xe2\x81\xa6", false }, /* the same, isolated */
		{ "\xe2\x80\x8b", false }, /* no width */
		{ "\xef\xbb\xbf", false }, /* byte order mark */
		{ "\xe2\x80\xa8", false }, /* line separator */
		{ "\xf3\xa0\x81\x81", false },
		{ "\xef\xbf\xbf", false },
		{ "\xff", false },
		{ "\xc0\xae", false },     /* '.', overlong */
		{ "\xed\xa0\x80", false }, /* surrogate */
		{ "\xe2\x80", false },     /* cut off */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i, sandbox_name_is_valid(slice_of(cases[i].name)) == cases[i].valid);
	assert_false(sandbox_name_is_valid((struct slice){ "a\0b", 3 }));
}

static void a_segment_is_decoded_once(void **)
{
	static const struct {
		const char *segment, *name;
	} cases[] = {
		{ "a", "a" },
		{ "Session%20A", "Session A" },
		{ "%252e%252e", "%2e%2e" },
		{ "%E4%bc%9a", "\xe4\xbc\x9a" },
		{ "a+b", "a+b" },
		{ X128, X128 },
		{ "%73" SB, "s" SB },
		{ "%2e%2e", NULL },
		{ "a%2fb", NULL },
		{ "a%00", NULL },
		{ "%0a", NULL },
		{ "a b", NULL },
		{ "\xc3\xa9", NULL },
		{ "%", NULL },
		{ "%4", NULL },
		{ "%4g", NULL },
		{ "%ff", NULL },
		{ X128 "x", NULL },
		{ "", NULL },
		/* an id has one spelling */
		{ "s%62"
		  "0000000000000000000000zz",
		  NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char name[SANDBOX_NAME_MAX + 1] = "";
		int r = sandbox_name_decode(slice_of(cases[i].segment), name);

		row_check(i, r == (cases[i].name ? 0 : -EINVAL));
		row_check(i, str_eq(name, cases[i].name ? cases[i].name : ""));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_a_name),
		cmocka_unit_test(a_segment_is_decoded_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
