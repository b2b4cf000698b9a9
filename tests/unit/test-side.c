/* SPDX-License-Identifier: Apache-2.0 */
#include "init/side.h"
#include "unit.h"

#define NONCE "0123456789abcdef"
#define OTHER "fedcba9876543210"
#define MSG(status, cwd) \
	"bash: /dev/null/" NONCE ":" status ":" cwd ":" NONCE "-1: Not a directory\n"

static void reports_are_strict(void **)
{
	static const struct {
		const char *text;
		enum side_said want;
		unsigned status;
		const char *cwd;
	} rows[] = {
		{ MSG("0", "/tmp"), SIDE_REPORT, 0, "/tmp" },
		{ MSG("255", "/a b/\n:c"), SIDE_REPORT, 255, "/a b/\n:c" },
		{ MSG("7", ""), SIDE_REPORT, 7, "" },
		{ MSG("7", "tmp"), SIDE_REPORT, 7, "" },
		{ "junk\n" MSG("1", "/"), SIDE_REPORT, 1, "/" },
		{ "/dev/null/" OTHER ":0:/:" OTHER MSG("9", "/"), SIDE_REPORT, 9, "/" },
		{ "/dev/null//dev/null/" NONCE ":3::" NONCE, SIDE_REPORT, 3, "" },
		{ MSG("256", "/"), SIDE_BROKEN, 0, "" },
		{ MSG("", "/"), SIDE_BROKEN, 0, "" },
		{ MSG("1x", "/"), SIDE_BROKEN, 0, "" },
		{ MSG("-1", "/"), SIDE_BROKEN, 0, "" },
		{ MSG("0001", "/"), SIDE_BROKEN, 0, "" },
		{ "/dev/null/" NONCE ":0:" NONCE, SIDE_BROKEN, 0, "" },
		{ "/dev/null/" NONCE ":0", SIDE_MORE, 0, "" },
		{ "/dev/null/" OTHER ":0:/:" OTHER, SIDE_MORE, 0, "" },
		{ "/dev/nul/" NONCE ":0:/:" NONCE, SIDE_MORE, 0, "" },
		{ "", SIDE_MORE, 0, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = strlen(rows[i].text);

		/* in every way it can be cut in two */
		for (size_t cut = 0; cut <= n; cut++) {
			static struct side s;
			enum side_said said;

			side_expect(&s, NONCE);
			said = side_take(&s, rows[i].text, cut);
			if (said == SIDE_MORE)
				said = side_take(&s, rows[i].text + cut, n - cut);
			row_check(i, said == rows[i].want);
			if (said != SIDE_REPORT)
				continue;
			row_check(i, s.status == rows[i].status);
			row_check(i, slice_eq(s.cwd, slice_of(rows[i].cwd)));
			row_check(i, s.nonce[0] == 0);
		}
	}
}

static void a_report_is_told_once(void **)
{
	static const char text[] = MSG("0", "/") MSG("1", "/");
	static struct side s;

	side_expect(&s, NONCE);
	assert_int_equal(side_take(&s, text, sizeof(text) - 1), SIDE_REPORT);
	assert_int_equal(s.status, 0);
	assert_int_equal(side_take(&s, text, sizeof(text) - 1), SIDE_MORE);
	/* nor does an old one count for the next */
	side_expect(&s, OTHER);
	assert_int_equal(side_take(&s, text, sizeof(text) - 1), SIDE_MORE);
}

static void junk_is_bounded(void **)
{
	static struct side s;
	enum side_said said;
	char junk[1000];
	size_t n = 0;

	memset(junk, 'x', sizeof(junk));
	side_expect(&s, NONCE);
	while (n < 2 * SIDE_JUNK_MAX && side_take(&s, junk, sizeof(junk)) == SIDE_MORE)
		n += sizeof(junk);
	assert_true(n > SIDE_JUNK_MAX - 2000 && n < SIDE_JUNK_MAX + 2ul * SIDE_BUF);
	/* and when nobody is waited for */
	s = (struct side){};
	for (n = 0; n < 2 * SIDE_JUNK_MAX && side_take(&s, junk, sizeof(junk)) == SIDE_MORE;)
		n += sizeof(junk);
	assert_true(n > SIDE_JUNK_MAX - 2000 && n < SIDE_JUNK_MAX + 2ul * SIDE_BUF);
	/* a report without an end is one */
	side_expect(&s, NONCE);
	said = side_take(&s, "/dev/null/" NONCE ":0:", 29);
	for (n = 0; n < SIDE_BUF && said == SIDE_MORE; n += sizeof(junk))
		said = side_take(&s, junk, sizeof(junk));
	assert_int_equal(said, SIDE_BROKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_are_strict),
		cmocka_unit_test(a_report_is_told_once),
		cmocka_unit_test(junk_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
