/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"

static void every_code_has_a_complete_row(void **)
{
	for (unsigned i = CAY_OK + 1; i < CAY_NUM_CODES; i++) {
		const struct cay_error_row *e = cay_error_row((enum cay_code)i);

		row_check(i, e->name[0] && e->hint[0] && e->symbol[0]);
		for (const char *c = e->name; *c; c++)
			row_check(i, ascii_is_lower(*c) || *c == '_');
		row_check(i, strlen(e->hint) <= 256 && !strchr(e->hint, '|'));
		row_check(i, e->http >= 400 && e->http < 600);
		row_check(i, e->exit > 0 && e->exit < 64);
		row_check(i, e->errnum > 0);
		for (unsigned k = CAY_OK + 1; k < i; k++) {
			const struct cay_error_row *other = cay_error_row((enum cay_code)k);

			row_check(i, !str_eq(e->name, other->name));
			row_check(i, e->errnum != other->errnum);
		}
	}
	assert_string_equal(cay_error_row((enum cay_code)9999)->name, "internal");
	assert_string_equal(cay_error_row((enum cay_code) - 1)->name, "internal");
}

static void first_failure_wins(void **)
{
	struct cay_err err = {};

	assert_int_equal(cay_fail(&err, CAY_E_NOT_FOUND, "image '%s' not found", "x"), -ENOENT);
	assert_int_equal(cay_fail(&err, CAY_E_INVALID, "later"), -EINVAL);
	assert_int_equal(err.code, CAY_E_NOT_FOUND);
	assert_string_equal(err.msg, "image 'x' not found");
	assert_int_equal(cay_fail(NULL, CAY_E_LIMIT, "nobody listens"), -EDQUOT);
}

static void a_hint_is_of_the_first_cause(void **)
{
	struct cay_err err = {}, none = {};
	char large[2 * CAY_ERR_HINT_MAX];

	cay_err_hint(&none, "nothing failed");
	assert_string_equal(none.hint, "");
	cay_err_hint(NULL, "nobody listens");
	(void)cay_fail(&err, CAY_E_FORBIDDEN, "no");
	cay_err_hint(&err, "ask %s", "root");
	cay_err_hint(&err, "later");
	assert_string_equal(err.hint, "ask root");
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = 0;
	err.hint[0] = 0;
	cay_err_hint(&err, "%s", large);
	assert_int_equal(strlen(err.hint), CAY_ERR_HINT_MAX - 1);
	assert_string_equal(err.hint + CAY_ERR_HINT_MAX - 4, "...");
}

static void blame_is_of_the_row_unless_it_is_set(void **)
{
	struct cay_err err = {};

	cay_err_set_blame(&err, BLAME_LIMIT); /* nothing failed yet */
	(void)cay_fail(&err, CAY_E_STATE, "x");
	assert_int_equal(cay_err_blame(&err), BLAME_CALLER);
	for (unsigned b = 0; b < BLAME_NUM; b++) {
		cay_err_set_blame(&err, (enum blame)b);
		assert_int_equal(cay_err_blame(&err), b);
	}
}

static void system_failures_carry_errno(void **)
{
	struct cay_err err = {};

	assert_int_equal(cay_fail_sys(&err, CAY_E_INTERNAL, -ENOSPC, "write '%s'", "f"), -ENOSPC);
	assert_int_equal(err.errnum, ENOSPC);
	assert_string_equal(err.msg, "write 'f': No space left on device");
	assert_int_equal(cay_fail_sys(NULL, CAY_E_INTERNAL, 0, "x"), -EIO);
}

static void a_disk_fails_in_three_ways(void **)
{
	assert_int_equal(cay_code_from_disk_errno(ENOSPC), CAY_E_DISK_FULL);
	assert_int_equal(cay_code_from_disk_errno(-EDQUOT), CAY_E_DISK_FULL);
	assert_int_equal(cay_code_from_disk_errno(-EROFS), CAY_E_CAPACITY);
	assert_int_equal(cay_code_from_disk_errno(EIO), CAY_E_INTERNAL);
}

static void context_goes_in_front(void **)
{
	struct cay_err err = {}, none = {};

	(void)cay_fail_field(&err, CAY_E_INVALID, "memory", "too small");
	cay_err_prefix_field(&err, "limits");
	assert_int_equal(cay_err_wrap(&err, -7, "create %d", 3), -7);
	assert_string_equal(err.field, "limits.memory");
	assert_string_equal(err.msg, "create 3: too small");
	err = none;
	(void)cay_fail_field(&err, CAY_E_INVALID, "", "x");
	cay_err_prefix_field(&err, "[2]");
	cay_err_prefix_field(&err, "argv");
	assert_string_equal(err.field, "argv[2]");
	assert_int_equal(cay_err_wrap(&none, -1, "nothing failed"), -1);
	assert_string_equal(none.msg, "");
	cay_err_prefix_field(&none, "x");
	assert_string_equal(none.field, "");
}

static void long_messages_end_in_dots(void **)
{
	struct cay_err err = {};
	char text[400];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	(void)cay_fail_field(&err, CAY_E_INVALID, text, "%s", text);
	assert_int_equal(strlen(err.msg), CAY_ERR_MSG_MAX - 1);
	assert_string_equal(err.msg + CAY_ERR_MSG_MAX - 4, "...");
	assert_string_equal(err.field + CAY_ERR_FIELD_MAX - 4, "...");
	(void)cay_err_wrap(&err, 0, "%s", "front");
	assert_memory_equal(err.msg, "front: aaa", 10);
	assert_string_equal(err.msg + CAY_ERR_MSG_MAX - 4, "...");
	(void)cay_err_wrap(&err, 0, "%s", text);
	assert_int_equal(strlen(err.msg), CAY_ERR_MSG_MAX - 1);
	cay_err_prefix_field(&err, text);
	assert_int_equal(strlen(err.field), CAY_ERR_FIELD_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_has_a_complete_row),
		cmocka_unit_test(first_failure_wins),
		cmocka_unit_test(a_hint_is_of_the_first_cause),
		cmocka_unit_test(blame_is_of_the_row_unless_it_is_set),
		cmocka_unit_test(system_failures_carry_errno),
		cmocka_unit_test(a_disk_fails_in_three_ways),
		cmocka_unit_test(context_goes_in_front),
		cmocka_unit_test(long_messages_end_in_dots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
