/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shell/shell-report.h"
#include "unit.h"

#define NONCE "0123456789abcdef"
#define OTHER "fedcba9876543210"
#define MSG(status, cwd) \
	"bash: /dev/null/" NONCE ":" status ":" cwd ":" NONCE "-1: Not a directory\n"

static void reports_are_strict(void **)
{
	static const struct {
		const char *text;
		enum shell_report_result want;
		unsigned status;
		const char *cwd;
	} rows[] = {
		{ MSG("0", "/tmp"), SHELL_REPORT_COMPLETE, 0, "/tmp" },
		{ MSG("255", "/a b/\n:c"), SHELL_REPORT_COMPLETE, 255, "/a b/\n:c" },
		{ MSG("7", ""), SHELL_REPORT_COMPLETE, 7, "" },
		{ MSG("7", "tmp"), SHELL_REPORT_COMPLETE, 7, "" },
		{ "junk\n" MSG("1", "/"), SHELL_REPORT_COMPLETE, 1, "/" },
		{ "/dev/null/" OTHER ":0:/:" OTHER MSG("9", "/"), SHELL_REPORT_COMPLETE, 9, "/" },
		{ "/dev/null//dev/null/" NONCE ":3::" NONCE, SHELL_REPORT_COMPLETE, 3, "" },
		{ MSG("256", "/"), SHELL_REPORT_BROKEN, 0, "" },
		{ MSG("", "/"), SHELL_REPORT_BROKEN, 0, "" },
		{ MSG("1x", "/"), SHELL_REPORT_BROKEN, 0, "" },
		{ MSG("-1", "/"), SHELL_REPORT_BROKEN, 0, "" },
		{ MSG("0001", "/"), SHELL_REPORT_BROKEN, 0, "" },
		{ "/dev/null/" NONCE ":0:" NONCE, SHELL_REPORT_BROKEN, 0, "" },
		{ "/dev/null/" NONCE ":0", SHELL_REPORT_MORE, 0, "" },
		{ "/dev/null/" OTHER ":0:/:" OTHER, SHELL_REPORT_MORE, 0, "" },
		{ "/dev/nul/" NONCE ":0:/:" NONCE, SHELL_REPORT_MORE, 0, "" },
		{ "", SHELL_REPORT_MORE, 0, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = strlen(rows[i].text);

		/* in every way it can be cut in two */
		for (size_t cut = 0; cut <= n; cut++) {
			static struct shell_report s;
			enum shell_report_result said;

			shell_report_expect(&s, NONCE);
			said = shell_report_add_bytes(&s, rows[i].text, cut);
			if (said == SHELL_REPORT_MORE)
				said = shell_report_add_bytes(&s, rows[i].text + cut, n - cut);
			row_check(i, said == rows[i].want);
			if (said != SHELL_REPORT_COMPLETE)
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
	static struct shell_report s;

	shell_report_expect(&s, NONCE);
	assert_int_equal(shell_report_add_bytes(&s, text, sizeof(text) - 1), SHELL_REPORT_COMPLETE);
	assert_int_equal(s.status, 0);
	assert_int_equal(shell_report_add_bytes(&s, text, sizeof(text) - 1), SHELL_REPORT_MORE);
	/* nor does an old one count for the next */
	shell_report_expect(&s, OTHER);
	assert_int_equal(shell_report_add_bytes(&s, text, sizeof(text) - 1), SHELL_REPORT_MORE);
}

static void junk_is_bounded(void **)
{
	static struct shell_report s;
	enum shell_report_result said;
	char junk[1000];
	size_t n = 0;

	memset(junk, 'x', sizeof(junk));
	shell_report_expect(&s, NONCE);
	while (n < 2 * SHELL_REPORT_JUNK_MAX &&
	       shell_report_add_bytes(&s, junk, sizeof(junk)) == SHELL_REPORT_MORE)
		n += sizeof(junk);
	assert_true(n > SHELL_REPORT_JUNK_MAX - 2000 &&
		    n < SHELL_REPORT_JUNK_MAX + 2ul * SHELL_REPORT_BUF);
	/* and when nobody is waited for */
	s = (struct shell_report){};
	for (n = 0; n < 2 * SHELL_REPORT_JUNK_MAX &&
		    shell_report_add_bytes(&s, junk, sizeof(junk)) == SHELL_REPORT_MORE;)
		n += sizeof(junk);
	assert_true(n > SHELL_REPORT_JUNK_MAX - 2000 &&
		    n < SHELL_REPORT_JUNK_MAX + 2ul * SHELL_REPORT_BUF);
	/* a report without an end is one */
	shell_report_expect(&s, NONCE);
	said = shell_report_add_bytes(&s, "/dev/null/" NONCE ":0:", 29);
	for (n = 0; n < SHELL_REPORT_BUF && said == SHELL_REPORT_MORE; n += sizeof(junk))
		said = shell_report_add_bytes(&s, junk, sizeof(junk));
	assert_int_equal(said, SHELL_REPORT_BROKEN);
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
