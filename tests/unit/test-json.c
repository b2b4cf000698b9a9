/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "text/json.h"
#include "unit.h"

static const struct json_limits small = { .bytes = 64, .depth = 3, .values = 8 };

static void limits_hold_to_the_byte(void **)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{ "{}", 0 },
		{ "null", 0 },
		{ "[[[]]]", 0 },
		{ "[[[[]]]]", -E2BIG },
		{ "[1,2,3,4,5,6,7]", 0 },
		{ "[1,2,3,4,5,6,7,8]", -E2BIG },
		{ "\"[[[[[[[[,,,,,,,,,,,,\"", 0 },
		{ "\"\\\"[[[[[[[[\"", 0 },
		{ "{\"a\":{\"b\":{\"c\":1}}}", 0 },
		{ "{\"a\":{\"b\":{\"c\":{}}}}", -E2BIG },
		{ "\"0123456789012345678901234567890123456789012345678901234567890\"", 0 },
		{ "\"01234567890123456789012345678901234567890123456789012345678901\"", 0 },
		{ "\"012345678901234567890123456789012345678901234567890123456789012\"", -E2BIG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_json j = NULL;
		struct cay_err err = {};
		int r = json_parse(slice_of(cases[i].text), &small, &j, &err);

		row_check(i, r == cases[i].want);
		row_check(i, r == 0 ? j != NULL : err.code == CAY_E_TOO_LARGE && !j);
	}
}

static void what_is_not_json_is_refused(void **)
{
	static const struct slice bad[] = {
		SLICE(""),
		SLICE(" "),
		SLICE("{"),
		SLICE("{\"a\":1,\"a\":2}"),
		SLICE("{\"a\":1,\"\\u0061\":2}"),
		SLICE("{} {}"),
		SLICE("{}x"),
		SLICE("[1,]"),
		SLICE("{'a':1}"),
		SLICE("{a:1}"),
		SLICE("// c\n1"),
		SLICE("\"\xFF\""),
		SLICE("\"\xED\xA0\x80\""),
		SLICE("\"\\ud800\""),
		SLICE("\"\\u0000\""),
		SLICE("\"\x01\""),
		SLICE("\"\0\""),
		SLICE("01"),
		SLICE("+1"),
		SLICE("1."),
		SLICE("NaN"),
		SLICE("Infinity"),
		SLICE("1e999"),
		SLICE("9223372036854775808"),
		SLICE("-9223372036854775809"),
		SLICE("tru"),
		SLICE("]"),
		SLICE("[}"),
		SLICE("\xEF\xBB\xBF{}"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		auto_json j = NULL;
		struct cay_err err = {};

		row_check(i, json_parse(bad[i], &json_control_limits, &j, &err) == -EINVAL);
		row_check(i, !j && err.code == CAY_E_INVALID && err.msg[0]);
	}
}

static void a_bomb_is_counted_before_it_is_built(void **)
{
	auto_buf b = BUF_INIT(MIB(2));
	auto_json j = NULL;
	const struct json_limits wide = { .bytes = MIB(2), .depth = 16, .values = 4096 };

	assert_int_equal(buf_putc(&b, '['), 0);
	for (int i = 0; i < 300000; i++)
		assert_int_equal(buf_puts(&b, "{},"), 0);
	assert_int_equal(json_parse((struct slice){ b.data, b.len }, &wide, &j, NULL), -E2BIG);
	assert_int_equal(
		json_parse((struct slice){ b.data, b.len }, &json_control_limits, &j, NULL),
		-E2BIG);
}

static void *no_memory(size_t)
{
	return NULL;
}

static void no_memory_is_said_so(void **)
{
	auto_json j = NULL;
	struct cay_err err = {};
	json_malloc_t m;
	json_free_t f;
	int r;

	json_get_alloc_funcs(&m, &f);
	json_set_alloc_funcs(no_memory, f);
	r = json_parse(SLICE("[]"), &small, &j, &err);
	json_set_alloc_funcs(m, f);
	assert_int_equal(r, -ENOMEM);
	assert_int_equal(err.code, CAY_E_NO_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_hold_to_the_byte),
		cmocka_unit_test(what_is_not_json_is_refused),
		cmocka_unit_test(a_bomb_is_counted_before_it_is_built),
		cmocka_unit_test(no_memory_is_said_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
