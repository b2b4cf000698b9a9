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
	struct buf held = BUF_INIT(KIB(8));
	size_t keep = 0;

	for (size_t at = 0; text[at]; at += n) {
		size_t some = strnlen(text + at, n);

		assert_int_equal(buf_append(&held, text + at, some), 0);
		keep = mask_apply(m, held.data, held.len);
		assert_true(keep <= held.len);
		assert_int_equal(buf_append(ret, held.data, held.len - keep), 0);
		buf_consume(&held, held.len - keep);
		if (some < n)
			break;
	}
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
			(void)mask_apply(&m, text, strlen(text));
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
					    cmocka_unit_test(test_base64) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
