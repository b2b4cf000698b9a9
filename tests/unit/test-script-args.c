/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/script-args.h"
#include "unit.h"

#include "base/str.h"

#define SCRIPT_BYTES (MIB(1))

static char *long_text(const char *unit, size_t bytes)
{
	size_t n = strlen(unit);
	char *text = calloc(1, bytes + 1);

	assert_non_null(text);
	for (size_t i = 0; i < bytes - bytes % n; i++)
		text[i] = unit[i % n];
	return text;
}

static void only_the_script_of_a_shell_may_be_long(void **)
{
	char *text = long_text("x", ARG_BYTES_MAX + 1);
	const struct {
		const char *argv[8];
		bool fits;
	} rows[] = {
		{ { "bash", "-c", text }, true },
		{ { "/bin/sh", "-c", text, "name", "arg" }, true },
		{ { "/usr/bin/dash", "-euc", text }, true },
		{ { "bash", "-euo", "pipefail", "-c", text }, true },
		{ { "bash", "-ceo", "pipefail", text }, true },
		{ { "bash", "--norc", "-O", "extglob", "+B", "-lc", text }, true },
		{ { "bash", "--rcfile", "/c", "-c", "--", text }, true },
		{ { "zsh", "-o", "c", "-c", text }, true },
		{ { "bash", "-c", "true", text }, false },
		{ { "bash", "-c", "true", "name", text }, false },
		{ { "bash", text }, false },
		{ { "bash", "-o", "c", text }, false },
		{ { "bash", "+c", text }, false },
		{ { "bash", "--c", text }, false },
		{ { "bash", "-", text }, false },
		{ { "python3", "-c", text }, false },
		{ { "bashful", "-c", text }, false },
		{ { "sh/x", "-c", text }, false },
		{ { text, "-c", "true" }, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cay_err err = {};
		size_t n = 0;

		while (rows[i].argv[n])
			n++;
		assert_int_equal(script_args_check(rows[i].argv, n, &err) >= 0, rows[i].fits);
		if (!rows[i].fits) {
			assert_int_equal(err.code, CAY_E_TOO_LARGE);
			assert_string_equal(err.field, "argv");
			assert_non_null(strstr(err.msg, "stdin"));
			assert_non_null(strstr(err.msg, "PUT .../files/content"));
		}
	}
	text[ARG_BYTES_MAX] = 0;
	assert_int_equal(script_args_check((const char *[]){ "echo", text, NULL }, 2, NULL), 0);
	free(text);
}

static void what_fits_stays_as_it_is(void **)
{
	char *text = long_text("x", ARG_BYTES_MAX);
	const char *argv[] = { "bash", "-c", text, NULL }, *other[] = { "true", NULL };

	assert_ptr_equal(script_args_split(argv), argv);
	assert_ptr_equal(script_args_split(other), other);
	free(text);
}

/* The parts are the text, each short enough, and no character is divided. */
static void check_parts(const char *const *got, const char *text)
{
	size_t at = 0, n = 0;

	for (; text[at]; n++) {
		size_t len = strlen(got[n]);

		assert_in_range(len, 1, ARG_BYTES_MAX);
		assert_memory_equal(got[n], text + at, len);
		assert_true(utf8_is_valid(got[n], len));
		free((void *)(uintptr_t)got[n]);
		at += len;
	}
}

static void a_long_script_is_passed_in_parts(void **)
{
	char *text = long_text("\xe2\x82\xac", SCRIPT_BYTES); /* three bytes each */
	const char *argv[] = { "bash", "-e", "-c", text, "zero", "one", "two", NULL };
	const char *const *got = script_args_split(argv);

	assert_non_null(got);
	assert_string_equal(got[0], "bash");
	assert_string_equal(got[1], "-e");
	assert_string_equal(got[2], "-c");
	assert_string_equal(got[3], "eval \"shift 9; ${1}${2}${3}${4}${5}${6}${7}${8}${9}\"");
	assert_string_equal(got[4], "zero");
	assert_string_equal(got[14], "one");
	assert_string_equal(got[15], "two");
	assert_null(got[16]);
	check_parts(got + 5, text);
	free((void *)(uintptr_t)got[3]);
	free((void *)(uintptr_t)got);
	free(text);
}

static void without_a_name_it_is_the_shell_s(void **)
{
	char *text = long_text("a", ARG_BYTES_MAX + 1);
	const char *argv[] = { "/bin/sh", "-c", text, NULL };
	const char *const *got = script_args_split(argv);

	assert_non_null(got);
	assert_string_equal(got[2], "eval \"shift 2; ${1}${2}\"");
	assert_string_equal(got[3], "/bin/sh");
	assert_null(got[6]);
	check_parts(got + 4, text);
	free((void *)(uintptr_t)got[2]);
	free((void *)(uintptr_t)got);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_script_of_a_shell_may_be_long),
		cmocka_unit_test(what_fits_stays_as_it_is),
		cmocka_unit_test(a_long_script_is_passed_in_parts),
		cmocka_unit_test(without_a_name_it_is_the_shell_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
