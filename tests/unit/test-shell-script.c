/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shell/shell-script.h"
#include "unit.h"

#define NONCE "0123456789abcdef"

static void plain_is_whole_for_certain(void **)
{
	static const struct {
		const char *text;
		bool want;
	} rows[] = {
		{ "true", true },
		{ "ls -la /tmp\n", true },
		{ "cd /a && make -j4 || echo 'no luck' ; pwd", true },
		{ "cat f | wc -l", true },
		{ "A=1 env;", true },
		{ "echo \"it's\" 'a \"b' $HOME $?", true },
		{ "echo if", true },
		{ "echo *.c ~/x", true },
		{ "", false },
		{ " ", false },
		{ "a\nb", false },
		{ "echo 'a", false },
		{ "echo \"a", false },
		{ "echo \"a\nb\"", false },
		{ "echo \"$(a\"", false },
		{ "echo \"`\"", false },
		{ "echo \"\\\"", false },
		{ "echo a\\", false },
		{ "echo $(a)", false },
		{ "echo ${a}", false },
		{ "echo $'a'", false },
		{ "echo $", false },
		{ "cat <<E", false },
		{ "a > b", false },
		{ "a &", false },
		{ "a & b", false },
		{ "a &&", false },
		{ "a ||", false },
		{ "a |", false },
		{ "| a", false },
		{ "; a", false },
		{ "a ;; b", false },
		{ "a && && b", false },
		{ "if", false },
		{ "a; then", false },
		{ "a && while", false },
		{ "a | {", false },
		{ "! a", false },
		{ "[[ a", false },
		{ "a[1", false },
		{ "f()", false },
		{ "(a)", false },
		{ "}", false },
		{ "time", false },
		{ "x=(a", false },
		{ "# c", false },
		{ "\xff", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i, script_text_is_plain(slice_of(rows[i].text)) == rows[i].want);
}

static void text_goes_in_as_it_is(void **)
{
	auto_buf b = BUF_INIT(SCRIPT_MAX);

	assert_int_equal(script_append_run(&b, NONCE, SLICE("echo 'a\nb'"), false), 0);
	assert_memory_equal(b.data, "echo 'a\nb'\n {", 13);
	assert_non_null(strstr(b.data, "/dev/null/" NONCE ":$((_cay_s=$?)):${PWD-}:" NONCE));
	/* one newline behind it, and one more than bash needs */
	assert_string_equal(b.data + b.len - 2, "\n\n");
	buf_clear(&b);
	assert_int_equal(script_append_run(&b, NONCE, SLICE("a\n"), false), 0);
	assert_memory_equal(b.data, "a\n {", 4);
}

static void text_is_quoted_on_one_line(void **)
{
	auto_buf b = BUF_INIT(SCRIPT_MAX);

	assert_int_equal(script_append_run(&b, NONCE, SLICE("a'b\\\nc"), true), 0);
	assert_memory_equal(b.data, " eval $'a\\'b\\\\\\nc'; {", 21);
	buf_clear(&b);
	assert_int_equal(script_append_check(&b, NONCE, SLICE("'\n")), 0);
	assert_memory_equal(b.data, " { (eval $'set -n\\n{ :\\n\\'\\n\\n}') 2>/dev/null", 45);
	buf_clear(&b);
	assert_int_equal(script_append_start(&b, NONCE, "/a'b\nc"), 0);
	assert_non_null(strstr(b.data, "cd -- $'/a\\'b\\nc' ||"));
}

static void the_largest_fits(void **)
{
	auto_buf b = BUF_INIT(SCRIPT_MAX);
	char *text = malloc(SCRIPT_TEXT_MAX);

	assert_non_null(text);
	memset(text, '\'', SCRIPT_TEXT_MAX);
	assert_int_equal(script_append_check(&b, NONCE, (struct slice){ text, SCRIPT_TEXT_MAX }),
			 0);
	buf_clear(&b);
	assert_int_equal(
		script_append_run(&b, NONCE, (struct slice){ text, SCRIPT_TEXT_MAX }, true), 0);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_is_whole_for_certain),
		cmocka_unit_test(text_goes_in_as_it_is),
		cmocka_unit_test(text_is_quoted_on_one_line),
		cmocka_unit_test(the_largest_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
