/* SPDX-License-Identifier: Apache-2.0 */
#include "init/service/start-env.h"

#include <unistd.h>

#include "unit.h"

#define WORDS(text) ((struct slice){ text, sizeof(text) - 1 })

static const char *value_of(const struct field_map *env, const char *key)
{
	for (size_t i = 0; i < env->n; i++)
		if (str_eq(env->keys[i], key))
			return env->values[i];
	return NULL;
}

static void what_is_new_or_different_is_taken(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	const char *keys[] = { "KEPT", "CHANGED" }, *values[] = { "k", "old" };
	struct field_map env = { keys, values, 2 };
	struct slice said =
		WORDS("HOME=/root\0CHANGED=old\0KEPT=k\0SHLVL=0\0=\0"
		      "HOME=/root\0CHANGED=new\0KEPT=k\0SHLVL=1\0PWD=/x\0OLDPWD=/\0_=/bin/cat\0"
		      "NEW=a=b\nc\0EMPTY=\0\0noequals\0=x\0"
		      "1X=1\0A-B=1\0\0\0");

	assert_int_equal(start_env_merge(said, &arena, &env), 0);
	assert_int_equal(env.n, 4);
	assert_string_equal(value_of(&env, "KEPT"), "k");
	assert_string_equal(value_of(&env, "CHANGED"), "new");
	assert_string_equal(value_of(&env, "NEW"), "a=b\nc");
	assert_string_equal(value_of(&env, "EMPTY"), "");
	assert_null(value_of(&env, "HOME"));
}

static void without_a_change_or_an_end_nothing_is(void **)
{
	static const struct slice rows[] = {
		WORDS(""),           WORDS("A=1"),           WORDS("A=1\0"),
		WORDS("A=1\0=\0"),   WORDS("A=1\0=\0A=1\0"), WORDS("=\0B=2"),
		WORDS("A=1\0B=2\0"), WORDS("\0\0\0"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_arena arena = ARENA_INIT(KIB(64));
		struct field_map env = {};

		row_check(i, start_env_merge(rows[i], &arena, &env) == 0 && !env.n && !env.keys);
	}
}

static void a_memfd_does_not_grow(void **)
{
	auto_close int fd = start_env_open();
	char bytes[4096] = {};
	size_t n = 0;

	assert_true(fd >= 0);
	while (write(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
		n += sizeof(bytes);
	assert_int_equal(n, START_ENV_BYTES);
	assert_int_equal(lseek(fd, 0, SEEK_END), START_ENV_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_new_or_different_is_taken),
		cmocka_unit_test(without_a_change_or_an_end_nothing_is),
		cmocka_unit_test(a_memfd_does_not_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
