/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/signals.h"
#include "unit.h"

static void every_signal_has_a_name_that_leads_back(void **)
{
	char text[SIGNAL_TEXT_MAX];

	for (int s = 1; s <= SIGNAL_LAST; s++) {
		signal_format(s, text);
		row_check(s, signal_parse(slice_of(text)) == s);
		row_check(s, signal_parse(slice_of(text + 3)) == s);
	}
}

static void names_are_strict(void **)
{
	static const struct {
		const char *text;
		int want;
	} rows[] = {
		{ "SIGKILL", 9 },       { "TERM", 15 },          { "RTMIN", 32 },
		{ "SIGRTMAX", 64 },     { "RTMAX-1", 63 },       { "RTMIN+32", 64 },
		{ "RTMAX-32", 32 },     { "", -EINVAL },         { "SIG", -EINVAL },
		{ "sigkill", -EINVAL }, { "9", -EINVAL },        { "SIGSIGKILL", -EINVAL },
		{ "KILL ", -EINVAL },   { "RTMIN+33", -EINVAL }, { "RTMIN-1", -EINVAL },
		{ "RTMAX+1", -EINVAL }, { "RTMIN+", -EINVAL },   { "RTMIN+01", -EINVAL },
		{ "EXIT", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i, signal_parse(slice_of(rows[i].text)) == rows[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_signal_has_a_name_that_leads_back),
		cmocka_unit_test(names_are_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
