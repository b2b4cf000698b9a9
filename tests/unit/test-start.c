/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"
#include "wire/start.h"

static const struct start_failure sample = {
	.what = START_EXITED,
	.exit_code = 3,
	.script = "/etc/cay/init.d/10-db.sh",
	.text = "no such table",
};
static const uint8_t golden_head[] = { 'C', 'A', 'Y', 'S', 1, 0, 3, 0, '/', 'e', 't', 'c' };

static void the_bytes_are_fixed(void **)
{
	uint8_t out[START_SIZE];
	struct start_failure back;

	start_failure_encode(&sample, out);
	assert_memory_equal(out, golden_head, sizeof(golden_head));
	assert_memory_equal(out + 128, "no such table", 14);
	assert_int_equal(out[127] | out[511], 0);
	assert_int_equal(start_failure_decode(out, sizeof(out), &back), 0);
	assert_memory_equal(&back, &sample, sizeof(back));
}

static void anything_else_is_refused(void **)
{
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = {
		{ 0, 'X' },             /* magic */
		{ 4, START_NONE },      /* nothing happened */
		{ 4, START_NUM },       /* what there is not */
		{ 4, START_KILLED },    /* killed, and an exit code and no signal */
		{ 4, START_TIMED_OUT }, /* slow, and an exit code */
		{ 5, 9 },               /* a signal and an exit code */
		{ 6, 0 },               /* it failed, with 0 */
		{ 7, 1 },               /* where nothing is */
		{ 127, 'x' },           /* behind the end of a text */
		{ 511, 'x' },
		{ 9, '\n' }, /* not clean */
		{ 9, 0x7f },
		{ 130, 0x1b },
		{ 130, 0xff },
		{ 140, 0xc2 },
	};
	uint8_t good[START_SIZE], in[START_SIZE + 1] = {};
	struct start_failure f;

	start_failure_encode(&sample, good);
	memcpy(in, good, sizeof(good));
	for (size_t n = 0; n <= sizeof(in); n++)
		assert_int_equal(start_failure_decode(in, n, &f), n == START_SIZE ? 0 : -EPROTO);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		memcpy(in, good, sizeof(good));
		in[bad[i].at] = bad[i].value;
		row_check(i, start_failure_decode(in, START_SIZE, &f) == -EPROTO);
	}
	memcpy(in, good, sizeof(good));
	memset(in + 8, 'x', 120); /* a text without an end */
	assert_int_equal(start_failure_decode(in, START_SIZE, &f), -EPROTO);
}

static void a_text_is_cut_and_cleaned(void **)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "" },
		{ "ab\n\n ", "ab" },
		{ "a\nb\x1b[2Jd", "a b [2Jd" },
		{ "\xff\xc3", "??" },
		{ "a\xc2\x9b"
		  "b",
		  "a b" },
		{ "0123456789abcdef", "89abcdef" }, /* the last of it */
		{ "01234\xc3\xa9"
		  "bcdefgh",
		  "bcdefgh" }, /* not half a letter */
	};
	char to[9];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(to, 'X', sizeof(to));
		start_failure_set_text(to, 8, slice_of(cases[i].in));
		row_check(i, str_eq(to, cases[i].out));
		for (size_t k = strlen(to); k < sizeof(to); k++)
			row_check(i, to[k] == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_fixed),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(a_text_is_cut_and_cleaned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
