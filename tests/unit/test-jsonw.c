/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "base/jsonw.h"
#include "unit.h"

static void writes_every_kind_of_value(void **)
{
	auto_buf b = BUF_INIT(4096);
	struct jw w = jw_to(&b);

	jw_object_begin(&w, NULL);
	jw_str(&w, "s", "x");
	jw_str(&w, "none", NULL);
	jw_u64(&w, "u", UINT64_MAX);
	jw_i64(&w, "i", INT64_MIN);
	jw_real(&w, "r", 0.1);
	jw_array_begin(&w, "a");
	jw_real(&w, NULL, -2);
	jw_real(&w, NULL, 1e300);
	jw_bool(&w, NULL, true);
	jw_bool(&w, NULL, false);
	jw_object_begin(&w, NULL);
	jw_end(&w);
	jw_array_begin(&w, NULL);
	jw_end(&w);
	jw_end(&w);
	jw_end(&w);
	assert_int_equal(jw_finish(&w), 0);
	assert_text(&b, "{\"s\":\"x\",\"none\":null,\"u\":18446744073709551615,"
			"\"i\":-9223372036854775808,\"r\":0.1,\"a\":[-2,1e+300,true,false,{},[]]}");
}

static void text_is_escaped_and_always_utf8(void **)
{
	auto_buf b = BUF_INIT(4096);
	struct jw w = jw_to(&b);

	jw_slice(&w, NULL,
		 SLICE("\"\\/\b\f\n\r\t\x01\x1f\x7f\0"
		       "\xC3\xA9\xFF\xED\xA0\x80z"));
	assert_int_equal(jw_finish(&w), 0);
	assert_text(&b, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\\u0000"
			"\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\"");
}

static void a_full_buffer_is_reported_at_the_end(void **)
{
	auto_buf b = BUF_INIT(10);
	struct jw w = jw_to(&b);

	jw_array_begin(&w, NULL);
	for (int i = 0; i < 10; i++) {
		jw_u64(&w, NULL, 1000);
		jw_i64(&w, NULL, -1);
	}
	jw_end(&w);
	assert_int_equal(jw_finish(&w), -ENOBUFS);
}

static void what_is_no_number_is_not_written(void **)
{
	static const double none[] = { NAN, INFINITY, -INFINITY };

	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		auto_buf b = BUF_INIT(100);
		struct jw w = jw_to(&b);

		jw_real(&w, NULL, none[i]);
		assert_int_equal(jw_finish(&w), -EDOM);
	}
}

static void wrong_nesting_is_our_bug(void **)
{
	auto_buf b = BUF_INIT(4096);
	struct jw w = jw_to(&b);

	assert_aborts(jw_end(&w));
	jw_object_begin(&w, NULL);
	assert_aborts(jw_u64(&w, NULL, 1));
	assert_aborts((void)jw_finish(&w));
	jw_array_begin(&w, "a");
	assert_aborts(jw_u64(&w, "key", 1));
	jw_end(&w);
	jw_end(&w);
	assert_aborts(jw_null(&w, NULL));
	w = jw_to(&b);
	for (int i = 0; i < JW_DEPTH_MAX; i++)
		jw_array_begin(&w, NULL);
	assert_aborts(jw_array_begin(&w, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_every_kind_of_value),
		cmocka_unit_test(text_is_escaped_and_always_utf8),
		cmocka_unit_test(a_full_buffer_is_reported_at_the_end),
		cmocka_unit_test(what_is_no_number_is_not_written),
		cmocka_unit_test(wrong_nesting_is_our_bug),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
