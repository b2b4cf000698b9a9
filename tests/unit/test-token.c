/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "auth/token.h"
#include "text/base64.h"
#include "unit.h"

enum { BYTES = 88, MAC_AT = 56, NOW = 1800000000 };

static const struct token_keys keys = {
	.key = { { .number = 7, .secret = "0123456789abcdef0123456789abcde" },
		 { .number = 6, .secret = "the key before, of the same len" } },
};

static struct token sample(void)
{
	struct token t = {
		.scope = SCOPE_WRITE,
		.tenant = { .noun = ID_TENANT, .bits = { 1, 2, 3 } },
		.sandbox = { .noun = ID_SANDBOX, .bits = { 4, 5, 6 } },
		.epoch = 9,
		.not_after = NOW + 60,
		.nonce = { 1, 2, 3, 4, 5, 6, 7, 8 },
	};

	return t;
}

static int check(struct slice text, struct token *ret, struct cay_err *err)
{
	return token_check(text, &keys, NOW, 9, ret, err);
}

static bool same(const struct token *a, const struct token *b)
{
	return a->scope == b->scope && id_eq(&a->tenant, &b->tenant) &&
	       id_eq(&a->sandbox, &b->sandbox) && a->epoch == b->epoch &&
	       a->not_after == b->not_after && memcmp(a->nonce, b->nonce, sizeof(a->nonce)) == 0;
}

/* As another implementation would: bytes signed by hand. */
static void write_text(uint8_t bytes[static BYTES], const struct token_key *key,
		       char ret[static TOKEN_TEXT_LEN + 1])
{
	unsigned n = 0;

	if (key)
		assert_non_null(HMAC(EVP_sha256(), key->secret, sizeof(key->secret), bytes, MAC_AT,
				     bytes + MAC_AT, &n));
	memcpy(ret, TOKEN_PREFIX, 5);
	base64url_encode(bytes, BYTES, ret + 5);
	ret[TOKEN_TEXT_LEN] = 0;
}

static void read_text(const char *text, uint8_t ret[static BYTES])
{
	size_t n = 0;

	assert_int_equal(base64url_decode(text + 5, TOKEN_TEXT_LEN - 5, ret, &n), 0);
	assert_int_equal(n, BYTES);
}

static void what_was_made_is_accepted(void **)
{
	for (size_t k = 0; k < TOKEN_KEYS; k++) {
		struct token t = sample(), got = {};
		char text[TOKEN_TEXT_LEN + 1];

		t.scope = k ? SCOPE_READ : SCOPE_WRITE;
		assert_int_equal(token_sign(&t, &keys.key[k], text, NULL), 0);
		assert_int_equal(strlen(text), TOKEN_TEXT_LEN);
		assert_memory_equal(text, "cayt_", 5);
		assert_int_equal(check(slice_of(text), &got, NULL), 0);
		assert_true(same(&t, &got));
	}
}

/* The format is a promise: a token made today is read after an upgrade.  The
 * signature was computed elsewhere (Python's hmac). */
static void the_bytes_are_golden(void **)
{
	static const uint8_t front[MAC_AT] = {
		1,          SCOPE_WRITE, 7, 0,                                                 /* */
		ID_TENANT,  1,           2, 3, 0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, /* */
		ID_SANDBOX, 4,           5, 6, 0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, /* */
		9,          0,           0, 0, 0x3c, 0xd2, 0x49, 0x6b, 0, 0, 0, 0, 1, 2, 3, 4,
		5,          6,           7, 8,
	};
	struct token t = sample();
	char text[TOKEN_TEXT_LEN + 1];
	uint8_t bytes[BYTES];

	assert_int_equal(token_sign(&t, &keys.key[0], text, NULL), 0);
	read_text(text, bytes);
	assert_memory_equal(bytes, front, sizeof(front));
	assert_string_equal(text, "cayt_"
				  "AQMHAAMBAgMAAAAAAAAAAAAAAAABBAUGAAAAAAAAAAAAAAAACQAAADzSSWsAAAAA"
				  "AQIDBAUGBwglNcPNju5nHcihr8pJAWgbxhBEinQWZ6QY8d_l8mau8A");
}

static void spelling_is_one(void **)
{
	struct token t = sample(), got = {};
	char text[TOKEN_TEXT_LEN + 1], wrong[TOKEN_TEXT_LEN + 3];
	static const char others[] = "AZaz09-_+/=. \n\t\x7f\xff";

	assert_int_equal(token_sign(&t, &keys.key[0], text, NULL), 0);
	/* any character changed to any other: 4 unused bits end the text */
	for (size_t i = 0; i < TOKEN_TEXT_LEN; i++) {
		for (size_t k = 0; k < sizeof(others); k++) {
			struct cay_err err = {};

			memcpy(wrong, text, sizeof(text));
			if (wrong[i] == others[k])
				continue;
			wrong[i] = others[k];
			row_check(i,
				  check((struct slice){ wrong, TOKEN_TEXT_LEN }, &got, &err) < 0);
			row_check(i, err.code == CAY_E_UNAUTHENTICATED);
		}
	}
	for (unsigned bits = 1; bits < 16; bits++) {
		static const char digits[] =
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
		struct cay_err err = {};

		memcpy(wrong, text, sizeof(text));
		wrong[TOKEN_TEXT_LEN - 1] =
			digits[(strchr(digits, text[TOKEN_TEXT_LEN - 1]) - digits) + bits];
		assert_true(check((struct slice){ wrong, TOKEN_TEXT_LEN }, &got, &err) < 0);
		assert_non_null(strstr(err.msg, "base64url"));
	}
	/* any length but its own */
	for (size_t n = 0; n < TOKEN_TEXT_LEN; n++)
		row_check(n, check((struct slice){ text, n }, &got, NULL) < 0);
	memcpy(wrong, text, TOKEN_TEXT_LEN);
	for (size_t k = 0; k < sizeof(others); k++) {
		wrong[TOKEN_TEXT_LEN] = others[k];
		row_check(k, check((struct slice){ wrong, TOKEN_TEXT_LEN + 1 }, &got, NULL) < 0);
	}
	assert_int_equal(check((struct slice){}, &got, NULL), -ENOKEY);
	assert_int_equal(got.scope, SCOPE_NONE);
}

static void every_bit_is_signed(void **)
{
	struct token t = sample(), got = {};
	char text[TOKEN_TEXT_LEN + 1];
	uint8_t bytes[BYTES];

	assert_int_equal(token_sign(&t, &keys.key[0], text, NULL), 0);
	read_text(text, bytes);
	for (size_t i = 0; i < 8ul * BYTES; i++) {
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		write_text(bytes, NULL, text);
		row_check(i, check(slice_of(text), &got, NULL) == -ENOKEY);
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	write_text(bytes, NULL, text);
	assert_int_equal(check(slice_of(text), &got, NULL), 0);
}

/* A right signature does not make a wrong token good. */
static void signed_but_refused(void **)
{
	static const struct {
		const char *name;
		size_t at;
		uint8_t value;
		unsigned key; /* that signs */
		const char *why;
	} rows[] = {
		{ "version 0", 0, 0, 0, "version" },
		{ "version 2", 0, 2, 0, "version" },
		{ "scope none", 1, SCOPE_NONE, 0, "neither read nor write" },
		{ "scope public", 1, SCOPE_PUBLIC, 0, "neither read nor write" },
		{ "scope operator", 1, SCOPE_OPERATOR, 0, "neither read nor write" },
		{ "scope 255", 1, 255, 0, "neither read nor write" },
		{ "key number of nobody", 2, 5, 0, "key number" },
		{ "key number 0", 2, 0, 0, "key number" },
		{ "another key's number", 2, 6, 0, "signature" },
		{ "signed by the other key", 2, 7, 1, "signature" },
		{ "reserved", 3, 1, 0, "bits" },
		{ "reserved, high bit", 3, 128, 0, "bits" },
		{ "tenant is a key", 4, ID_KEY, 0, "no tenant" },
		{ "tenant is nothing", 4, 0, 0, "no tenant" },
		{ "sandbox is a tenant", 20, ID_TENANT, 0, "no sandbox" },
		{ "sandbox of no noun", 20, 200, 0, "no sandbox" },
		{ "epoch before", 36, 8, 0, "epoch" },
		{ "epoch 0", 36, 0, 0, "epoch" },
		{ "minutes too late", 41, 0xd1, 0, "expired" },
		{ "long over", 43, 0, 0, "expired" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct token t = sample(), got = {};
		char text[TOKEN_TEXT_LEN + 1];
		struct cay_err err = {};
		uint8_t bytes[BYTES];

		t.not_after = NOW;
		assert_int_equal(token_sign(&t, &keys.key[0], text, NULL), 0);
		read_text(text, bytes);
		bytes[rows[i].at] = rows[i].value;
		write_text(bytes, &keys.key[rows[i].key], text);
		if (check(slice_of(text), &got, &err) != -ENOKEY || !strstr(err.msg, rows[i].why) ||
		    err.code != CAY_E_UNAUTHENTICATED || got.scope != SCOPE_NONE)
			fail_msg("%s: '%s'", rows[i].name, err.msg);
	}
}

static void time_and_epoch_to_the_unit(void **)
{
	struct token t = sample(), got = {};
	char text[TOKEN_TEXT_LEN + 1];
	struct slice s = { text, TOKEN_TEXT_LEN };

	assert_int_equal(token_sign(&t, &keys.key[0], text, NULL), 0);
	assert_int_equal(token_check(s, &keys, t.not_after, 9, &got, NULL), 0);
	assert_int_equal(token_check(s, &keys, t.not_after + 1, 9, &got, NULL), -ENOKEY);
	assert_int_equal(token_check(s, &keys, UINT64_MAX, 9, &got, NULL), -ENOKEY);
	assert_int_equal(token_check(s, &keys, 0, 0, &got, NULL), 0);
	assert_int_equal(token_check(s, &keys, NOW, 10, &got, NULL), -ENOKEY);
	assert_int_equal(token_check(s, &keys, NOW, UINT32_MAX, &got, NULL), -ENOKEY);
}

static void without_keys_nothing_is_good(void **)
{
	const struct token_keys none = {}, rotated = { .key = { [1] = keys.key[1] } };
	struct token t = sample(), got = {};
	char text[TOKEN_TEXT_LEN + 1];
	uint8_t bytes[BYTES];

	assert_int_equal(token_sign(&t, &keys.key[0], text, NULL), 0);
	assert_int_equal(token_check(slice_of(text), &none, NOW, 0, &got, NULL), -ENOKEY);
	assert_int_equal(token_check(slice_of(text), &rotated, NOW, 0, &got, NULL), -ENOKEY);
	/* an empty slot is no key of zeros */
	read_text(text, bytes);
	bytes[2] = 0;
	write_text(bytes, &none.key[0], text);
	assert_int_equal(token_check(slice_of(text), &none, NOW, 0, &got, NULL), -ENOKEY);
	assert_int_equal(token_sign(&t, &none.key[0], text, NULL), -EINVAL);
}

static void what_would_be_refused_is_not_made(void **)
{
	struct token bad[4] = { sample(), sample(), sample(), sample() };
	char text[TOKEN_TEXT_LEN + 1] = "untouched";

	bad[0].scope = SCOPE_OPERATOR;
	bad[1].tenant.noun = ID_SANDBOX;
	bad[2].sandbox.noun = ID_EXEC;
	bad[3].scope = SCOPE_NONE;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, token_sign(&bad[i], &keys.key[0], text, NULL) == -EINVAL);
	assert_string_equal(text, "untouched");
}

static int check_link(const char *text, const char *target, struct token *ret, struct cay_err *err)
{
	return token_check_link_target(slice_of(text), slice_of(target), &keys, NOW, 9, ret, err);
}

/* A link is good for the target it was made for, to the byte, and for nothing a token is. */
static void a_link_is_good_for_one_target(void **)
{
	static const char target[] = "/v1/sandboxes/sb1/files/tree?path=a&format=tar";
	static const char *const others[] = {
		"",
		"/v1/sandboxes/sb1/files/tree?path=a&format=tar.gz",
		"/v1/sandboxes/sb1/files/tree?path=b&format=tar",
		"/v1/sandboxes/sb1/files/tree?path=a&format=ta",
		"/v1/sandboxes/sb2/files/tree?path=a&format=tar",
	};
	char text[TOKEN_TEXT_LEN + 1], plain[TOKEN_TEXT_LEN + 1];
	struct token t = sample(), got = {};
	struct cay_err err = {};

	assert_true(token_sign_link(&t, slice_of(target), &keys.key[0], text, &err) < 0);
	t.scope = SCOPE_READ;
	err = (struct cay_err){};
	assert_int_equal(token_sign_link(&t, slice_of(target), &keys.key[0], text, &err), 0);
	assert_int_equal(token_sign(&t, &keys.key[0], plain, &err), 0);
	assert_int_equal(check_link(text, target, &got, &err), 0);
	assert_true(same(&got, &t));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_true(check_link(text, others[i], &got, &err) < 0);
	assert_true(check(slice_of(text), &got, &err) < 0);
	assert_true(check_link(plain, target, &got, &err) < 0);
	assert_true(check_link(plain, "", &got, &err) < 0);
}

/* Ours by its signature, yet of a scope no link has: perhaps of another Cay. */
static void a_link_does_not_write(void **)
{
	static const char target[] = "/x";
	uint8_t bytes[BYTES], all[MAC_AT + 32];
	char text[TOKEN_TEXT_LEN + 1];
	struct token t = sample(), got;
	struct cay_err err = {};
	unsigned n = 0;

	t.scope = SCOPE_READ;
	assert_int_equal(token_sign_link(&t, slice_of(target), &keys.key[0], text, &err), 0);
	read_text(text, bytes);
	bytes[1] = SCOPE_WRITE;
	memcpy(all, bytes, MAC_AT);
	assert_true(EVP_Digest(target, 2, all + MAC_AT, &n, EVP_sha256(), NULL));
	assert_non_null(
		HMAC(EVP_sha256(), keys.key[0].secret, 32, all, sizeof(all), bytes + MAC_AT, &n));
	write_text(bytes, NULL, text);
	assert_true(check_link(text, target, &got, &err) < 0);
	assert_non_null(strstr(err.msg, "not read"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_made_is_accepted),
		cmocka_unit_test(a_link_is_good_for_one_target),
		cmocka_unit_test(a_link_does_not_write),
		cmocka_unit_test(the_bytes_are_golden),
		cmocka_unit_test(spelling_is_one),
		cmocka_unit_test(every_bit_is_signed),
		cmocka_unit_test(signed_but_refused),
		cmocka_unit_test(time_and_epoch_to_the_unit),
		cmocka_unit_test(without_keys_nothing_is_good),
		cmocka_unit_test(what_would_be_refused_is_not_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
