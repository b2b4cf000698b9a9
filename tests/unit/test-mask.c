/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in what a host sends back, whole and in pieces. */
#include "broker/mask.h"
#include "text/base64.h"
#include "unit.h"

static const char secret[] = "sk-abab/+abab=%ab";

static struct mask mask_create(void)
{
	struct mask m = {};

	assert_int_equal(mask_add(&m, slice_of(secret)), 0);
	return m;
}

/* The text that comes out when it goes in as pieces of n bytes. */
static void mask_in_pieces(const struct mask *m, const char *text, size_t n, struct buf *ret)
{
	struct buf held = BUF_INIT(KIB(64));

	for (size_t at = 0; text[at]; at += n) {
		size_t some = strnlen(text + at, n), ready;

		assert_int_equal(buf_append(&held, text + at, some), 0);
		ready = mask_release(m, held.data, held.len);
		assert_true(ready <= held.len && held.len - ready < 2 * MASK_HELD_MAX);
		assert_int_equal(buf_append(ret, held.data, ready), 0);
		buf_consume(&held, ready);
		if (some < n)
			break;
	}
	mask_apply(m, held.data, held.len);
	assert_int_equal(buf_append(ret, held.data, held.len), 0);
	buf_fini(&held);
}

static void test_pieces(void **)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "sk-abab/+abab=%ab", "*****************" },
		{ "-sk-abab/+abab=%ab-", "-*****************-" },
		{ "sk-sk-abab/+abab=%absk-", "sk-*****************sk-" },
		{ "sk-abab/+abab=%aX", "sk-abab/+abab=%aX" },
		{ "sk-abab%2F%2Babab%3D%25ab.", "*************************." },
		{ "sk-abab%2f%2babab%3d%25ab.", "*************************." },
		{ "sk-abab/%2Babab%3D%25ab.", "***********************." },
		{ "sk-abab\\/+abab=%ab.", "******************." },
		{ "one\nsk-abab/+abab=%ab\ntwo", "one\n*****************\ntwo" },
		{ "nothing of it", "nothing of it" },
	};
	struct mask m = mask_create();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t n = 1; n <= strlen(rows[i].in); n++) {
			struct buf out = BUF_INIT(KIB(8));

			mask_in_pieces(&m, rows[i].in, n, &out);
			row_check(i, str_eq(buf_str(&out), rows[i].out));
			buf_fini(&out);
		}
	mask_fini(&m);
}

/* In a text that is longer than what is held back, at every place. */
static void test_long_text(void **)
{
	static char text[5000], expected[5000];
	struct mask m = mask_create();

	memset(text, 'x', sizeof(text) - 1);
	/* a host that sends one byte at a time does not have all of it searched each time */
	assert_true(mask_release(&m, text, 2 * m.held_max - 1) == 0);
	assert_true(mask_release(&m, text, 2 * m.held_max) == m.held_max);
	for (size_t at = 0; at + 200 < sizeof(text); at += 97)
		for (size_t n = 1; n < 4000; n = 3 * n + 1) {
			struct buf out = BUF_INIT(KIB(8));

			memset(text, 'x', sizeof(text) - 1);
			memcpy(expected, text, sizeof(text));
			memcpy(text + at, secret, strlen(secret));
			memset(expected + at, '*', strlen(secret));
			mask_in_pieces(&m, text, n, &out);
			row_check(at, str_eq(buf_str(&out), expected));
			buf_fini(&out);
		}
	mask_fini(&m);
}

/* A sandbox sees where a reply is split.  That must not tell whether the text before it begins the
 * secret. */
static void test_splits_tell_nothing(void **)
{
	static const char *const texts[] = { "7777777777777777", "sk-abab/+abab=%a",
					     "sk-7777777777777", "%%%%%%%%%%%%%%%%" };
	struct mask m = mask_create();

	for (size_t n = 0; n <= 16; n++)
		for (size_t before = 0; before < 3 * m.held_max; before += 101)
			for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
				struct buf b = BUF_INIT(KIB(64));
				size_t first, ready;

				for (size_t k = 0; k < before; k++)
					assert_int_equal(buf_append(&b, k % 500 ? "x" : "\n", 1),
							 0);
				assert_int_equal(buf_append(&b, texts[0], n), 0);
				first = mask_release(&m, b.data, b.len);
				b.len -= n;
				assert_int_equal(buf_append(&b, texts[i], n), 0);
				ready = mask_release(&m, b.data, b.len);
				row_check(i, ready == first);
				buf_fini(&b);
			}
	mask_fini(&m);
}

/* Wherever it begins in a longer text, in both alphabets: no eight characters of it are left. */
static void test_base64(void **)
{
	struct mask m = mask_create();

	for (size_t before = 0; before < 7; before++)
		for (unsigned url = 0; url < 2; url++) {
			uint8_t bytes[64];
			char text[96] = {}, clear[96];
			size_t n = before + strlen(secret) + 5;

			memset(bytes, 'x', sizeof(bytes));
			memcpy(bytes + before, secret, strlen(secret));
			if (url)
				base64url_encode(bytes, n, text);
			else
				base64_encode(bytes, n, text);
			memcpy(clear, text, sizeof(clear));
			mask_apply(&m, text, strlen(text));
			for (size_t i = before * 8 / 6 + 2;
			     i < (before + strlen(secret)) * 8 / 6 - 1; i++)
				row_check(before, text[i] == '*');
			assert_true(strlen(text) == strlen(clear));
		}
	mask_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pieces),
					    cmocka_unit_test(test_long_text),
					    cmocka_unit_test(test_splits_tell_nothing),
					    cmocka_unit_test(test_base64) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
