/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "auth/key.h"
#include "text/hex.h"
#include "unit.h"

/* 32 bytes 0, 1, 2 ... with and without the two characters that differ from base64 */
#define SECRET "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
#define KEY "cay_00000001_" SECRET

static void the_spelling_is_fixed(void **)
{
	uint8_t chance[KEY_PREFIX_BYTES] = { 0xff, 0, 0, 0, 1 }, secret[KEY_SECRET_BYTES];
	char prefix[KEY_PREFIX_LEN + 1], text[KEY_TEXT_LEN + 1];

	key_prefix_format(chance, prefix);
	assert_string_equal(prefix, "zw000001");
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	key_format("00000001", secret, text);
	assert_string_equal(text, KEY);
	memset(secret, 0xfb, sizeof(secret));
	key_format(prefix, secret, text);
	assert_string_equal(text, "cay_zw000001_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
	assert_int_equal(strlen(text), KEY_TEXT_LEN);
	memset(prefix, 'x', sizeof(prefix));
	assert_int_equal(key_parse(slice_of(text), prefix), 0);
	assert_string_equal(prefix, "zw000001");
}

static void what_is_no_key_is_refused(void **)
{
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
		{ KEY, true },
		{ "", false },
		{ "cay_", false },
		{ KEY "A", false },
		{ KEY "\n", false },
		{ " " KEY, false },
		{ "CAY_00000001_" SECRET, false },
		{ "cay-00000001_" SECRET, false },
		{ "cay_00000001-" SECRET, false },
		{ "cay_0000000A_" SECRET, false },
		{ "cay_0000000i_" SECRET, false }, /* Crockford has no i, l, o, u */
		{ "cay_0000000__" SECRET, false },
		/* bits behind the last byte, the other alphabet, padding */
		{ "cay_00000001_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9", false },
		{ "cay_00000001_+AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", false },
		{ "cay_00000001_/AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", false },
		{ "cay_00000001_-_ECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", true },
		{ "cay_00000001_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh=", false },
		{ "cay_00000001_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwd.h8", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char prefix[KEY_PREFIX_LEN + 1] = "x";

		row_check(i, key_parse(slice_of(cases[i].text), prefix) ==
				     (cases[i].good ? 0 : -EINVAL));
		row_check(i, str_eq(prefix, cases[i].good ? "00000001" : "x"));
	}
	assert_int_equal(key_parse((struct slice){ "cay_0000\000"
						   "000_" SECRET,
						   KEY_TEXT_LEN },
				   (char[KEY_PREFIX_LEN + 1]){}),
			 -EINVAL);
}

/* The hash is that of `printf %s KEY | sha256sum`. */
static void a_key_is_known_by_its_hash(void **)
{
	uint8_t hash[KEY_HASH_LEN];
	char hex[2 * KEY_HASH_LEN + 1];

	key_hash(SLICE("abc"), hash);
	hex_encode(hash, sizeof(hash), hex);
	assert_string_equal(hex,
			    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	key_hash(SLICE(KEY), hash);
	assert_true(key_matches_hash(SLICE(KEY), hash));
	assert_false(
		key_matches_hash(SLICE("cay_00000002_" SECRET), hash)); /* the prefix counts, too */
	for (size_t i = 0; i < KEY_HASH_LEN; i++) {
		hash[i] ^= 1;
		row_check(i, !key_matches_hash(SLICE(KEY), hash));
		hash[i] ^= 1;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_spelling_is_fixed),
		cmocka_unit_test(what_is_no_key_is_refused),
		cmocka_unit_test(a_key_is_known_by_its_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
