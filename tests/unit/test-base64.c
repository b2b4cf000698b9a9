/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "text/base64.h"
#include "unit.h"

static void known_answers(void **)
{
	/* RFC 4648 section 10, and every character of the alphabet */
	static const struct {
		const char *bytes, *text;
	} cases[] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xfb\xff\xbf", "+/+/" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t n = strlen(cases[i].bytes), len = strlen(cases[i].text), got = 99;
		char text[16];
		uint8_t bytes[16];

		row_check(i, BASE64_TEXT(n) == len);
		base64_encode((const uint8_t *)cases[i].bytes, n, text);
		row_check(i, memcmp(text, cases[i].text, len) == 0);
		row_check(i, base64_decode(cases[i].text, len, bytes, &got) == 0);
		row_check(i, got == n && memcmp(bytes, cases[i].bytes, n) == 0);
	}
}

static void every_byte_comes_back(void **)
{
	uint8_t in[256], out[BASE64_BYTES(BASE64_TEXT(256))];
	char text[BASE64_TEXT(256)];
	size_t n;

	for (unsigned i = 0; i < 256; i++)
		in[i] = (uint8_t)i;
	for (size_t len = 0; len <= 256; len++) {
		base64_encode(in, len, text);
		assert_int_equal(base64_decode(text, BASE64_TEXT(len), out, &n), 0);
		assert_int_equal(n, len);
		assert_memory_equal(in, out, len);
	}
}

static void a_value_has_one_spelling(void **)
{
	static const char *const bad[] = {
		"Z",    "Zg",   "Zg=",  "Zh==", /* unused bits */
		"Zm9=", "====", "Z===", "Zg==Zg==", "Zm8=Zm8=",   "Zm9v\n", "Zm 9",
		"Zm9-", "Zm9_", "=Zg=", "Z=g=",     "\xC3\xA9==", "Zm9v=",  "Zg=A",
	};
	uint8_t out[16];
	size_t n = 99;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, base64_decode(bad[i], strlen(bad[i]), out, &n) == -EINVAL);
	assert_int_equal(n, 99);
	/* a length that ends inside a group; memory ends there too, for ASan */
	for (size_t len = 0; len <= 8; len++) {
		auto_free char *text = malloc(len + 1);

		assert_non_null(text);
		memcpy(text + 1, "Zm9vZm9v", len);
		assert_int_equal(base64_decode(text + 1, len, out, &n), len % 4 ? -EINVAL : 0);
	}
}

static void for_urls_without_padding(void **)
{
	static const struct {
		const char *bytes, *text;
	} cases[] = {
		{ "", "" },           { "f", "Zg" },
		{ "fo", "Zm8" },      { "foo", "Zm9v" },
		{ "foob", "Zm9vYg" }, { "fooba", "Zm9vYmE" },
		{ "fo\xff", "Zm__" }, { "\xfb\xff\xbf", "-_-_" },
	};
	static const char *const bad[] = {
		"A",     "Zm9vA",  "Z",    "Zg==", "Zm8=",  "Zh",       "Zm9",
		"Zm9vY", "Zm9vYh", "+/+/", "Zm9+", "Zm9/",  "Zm9v\n",   "Zm 9",
		" Zg",   "Zg ",    "Zg.",  "=",    "Zm9v=", "\xC3\xA9",
	};
	uint8_t bytes[BASE64URL_BYTES(BASE64URL_TEXT(256))], in[256];
	char text[BASE64URL_TEXT(256) + 1];
	size_t n = 99;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t want = strlen(cases[i].bytes), len = strlen(cases[i].text);

		row_check(i, BASE64URL_TEXT(want) == len && BASE64URL_BYTES(len) == want);
		base64url_encode((const uint8_t *)cases[i].bytes, want, text);
		row_check(i, memcmp(text, cases[i].text, len) == 0);
		row_check(i, base64url_decode(cases[i].text, len, bytes, &n) == 0);
		row_check(i, n == want && memcmp(bytes, cases[i].bytes, n) == 0);
	}
	n = 99;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, base64url_decode(bad[i], strlen(bad[i]), bytes, &n) == -EINVAL);
	assert_int_equal(n, 99);
	for (unsigned i = 0; i < 256; i++)
		in[i] = (uint8_t)(255 - i);
	for (size_t len = 0; len <= 256; len++) {
		text[BASE64URL_TEXT(len)] = '!';
		base64url_encode(in, len, text);
		assert_int_equal(text[BASE64URL_TEXT(len)], '!');
		assert_int_equal(base64url_decode(text, BASE64URL_TEXT(len), bytes, &n), 0);
		assert_int_equal(n, len);
		assert_memory_equal(in, bytes, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(every_byte_comes_back),
		cmocka_unit_test(a_value_has_one_spelling),
		cmocka_unit_test(for_urls_without_padding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
