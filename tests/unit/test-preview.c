/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/preview.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "text/base64.h"
#include "unit.h"

#define SB "sb0001000g00000000000000tr"

#define NO_HOST 65536

static const struct token_key key = { .number = 7, .secret = { 1, 2, 3 } };

static struct preview one(void)
{
	struct preview p = { .port = 8080,
			     .token = { .epoch = 3, .not_after = 1000, .nonce = { 9 } } };

	assert_int_equal(id_parse(ID_SANDBOX, SLICE(SB), &p.token.sandbox), 0);
	assert_int_equal(id_parse(ID_TENANT, SLICE("tn0001000g00000000000000tr"), &p.token.tenant),
			 0);
	return p;
}

static int check(const char *text, uint64_t now, uint32_t epoch, struct preview *ret)
{
	struct token_keys keys = { .key = { {}, key } };
	struct cay_err err = {};
	int r = preview_token_check(slice_of(text), &keys, now, epoch, ret, &err);

	assert_int_equal(err.code, r < 0 ? CAY_E_UNAUTHENTICATED : CAY_OK);
	return r;
}

static void there_and_back(void **)
{
	struct preview p = one(), got;
	char text[PREVIEW_TEXT_LEN + 1];
	struct cay_err err = {};

	assert_int_equal(preview_token_sign(&p, &key, text, &err), 0);
	assert_int_equal(strlen(text), PREVIEW_TEXT_LEN);
	assert_int_equal(check(text, 1000, 3, &got), 0);
	assert_true(id_eq(&got.token.sandbox, &p.token.sandbox) &&
		    id_eq(&got.token.tenant, &p.token.tenant));
	assert_int_equal(got.port, 8080);
	assert_int_equal(got.token.key, 7);
	assert_true(check(text, 1001, 3, &got) < 0);
	assert_true(check(text, 1000, 4, &got) < 0);
	/* no letter of it may be another one */
	for (size_t i = 0; i < PREVIEW_TEXT_LEN; i++) {
		char was = text[i];

		text[i] = was == 'A' ? 'B' : 'A';
		assert_true(check(text, 1000, 3, &got) < 0);
		text[i] = was;
	}
	p.port = 0;
	assert_int_equal(preview_token_sign(&p, &key, text, &err), -EINVAL);
}

/* The format is a promise, and what is signed but unknown is of a later Cay. */
static void to_the_byte(void **)
{
	static const struct {
		size_t at;
		uint8_t value;
		bool good;
	} rows[] = {
		{ 56, 81, true }, { 0, 1, false },  { 0, 2, false },  { 1, 3, false },
		{ 2, 6, false },  { 3, 1, false },  { 4, 0, false },  { 20, 0, false },
		{ 36, 2, false }, { 41, 0, false }, { 57, 0, false }, { 58, 1, false },
		{ 58, 2, false }, { 59, 1, false },
	};
	struct preview p = one(), got;
	char text[PREVIEW_TEXT_LEN + 1];
	uint8_t made[92], all[92] = { 3, 0, 7, 0 };
	struct cay_err err = {};
	unsigned len = 0;
	size_t n = 0;

	p.port = 0x5000;
	memcpy(all + 4, &p.token.tenant, 16);
	memcpy(all + 20, &p.token.sandbox, 16);
	all[36] = 3;
	all[40] = 1000 & 255;
	all[41] = 1000 >> 8;
	all[48] = 9;
	all[57] = 0x50;
	assert_int_equal(preview_token_sign(&p, &key, text, &err), 0);
	assert_int_equal(base64url_decode(text + 5, PREVIEW_TEXT_LEN - 5, made, &n), 0);
	assert_int_equal(n, sizeof(made));
	assert_memory_equal(made, all, 60);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memcpy(made, all, 60);
		made[rows[i].at] = rows[i].value;
		assert_non_null(HMAC(EVP_sha256(), key.secret, sizeof(key.secret), made, 60,
				     made + 60, &len));
		base64url_encode(made, sizeof(made), text + 5);
		assert_int_equal(check(text, 1000, 3, &got) == 0, rows[i].good);
	}
}

/* A screen to watch or to control, and no port. */
static void of_the_screen(void **)
{
	static const struct {
		uint16_t port, screen;
		bool good;
	} rows[] = {
		{ 0, PREVIEW_WATCH, true },        { 0, PREVIEW_CONTROL, true },
		{ 0, PREVIEW_CONTROL + 1, false }, { 0, PREVIEW_NO_SCREEN, false },
		{ 80, PREVIEW_WATCH, false },      { 80, PREVIEW_NO_SCREEN, true },
	};
	uint8_t made[92];
	unsigned len = 0;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct preview p = one(), got = {};
		char text[PREVIEW_TEXT_LEN + 1];
		struct cay_err err = {};

		p.port = rows[i].port;
		p.screen = rows[i].screen;
		row_check(i, (preview_token_sign(&p, &key, text, &err) == 0) == rows[i].good);
		if (rows[i].good)
			row_check(i, check(text, 1000, 3, &got) == 0 && got.port == p.port &&
					     got.screen == p.screen);
		/* signed by a Cay that has more of them */
		p = one();
		assert_int_equal(preview_token_sign(&p, &key, text, &err), 0);
		assert_int_equal(base64url_decode(text + 5, PREVIEW_TEXT_LEN - 5, made, &n), 0);
		made[56] = (uint8_t)rows[i].port;
		made[57] = 0;
		made[58] = (uint8_t)rows[i].screen;
		assert_non_null(HMAC(EVP_sha256(), key.secret, sizeof(key.secret), made, 60,
				     made + 60, &len));
		base64url_encode(made, sizeof(made), text + 5);
		row_check(i, (check(text, 1000, 3, &got) == 0) == rows[i].good);
	}
}

/* One is never taken for the other. */
static void no_token_is_a_preview(void **)
{
	struct token_keys keys = { .key = { {}, key } };
	struct preview p = one();
	struct token t = { .scope = SCOPE_WRITE,
			   .tenant = p.token.tenant,
			   .sandbox = p.token.sandbox,
			   .epoch = 3,
			   .not_after = 1000 },
		     back;
	char text[PREVIEW_TEXT_LEN + 1];
	struct cay_err err = {}, why = {};

	assert_int_equal(token_sign(&t, &key, text, &err), 0);
	assert_true(check(text, 1000, 3, &p) < 0);
	p = one();
	assert_int_equal(preview_token_sign(&p, &key, text, &err), 0);
	assert_true(token_check(slice_of(text), &keys, 1000, 3, &back, &why) < 0);
}

static void hosts(void **)
{
	static const struct {
		const char *host;
		unsigned port; /* NO_HOST: none */
	} rows[] = {
		{ "8080-" SB ".p.test", 8080 },
		{ "8080-" SB ".p.test:7070", 8080 },
		{ "65535-SB0001000G00000000000000TR.P.tEsT", 65535 },
		{ "1-" SB ".p.test", 1 },
		{ "desktop-" SB ".p.test", PREVIEW_SCREEN_PORT },
		{ "dEsktop-" SB ".p.test:7070", PREVIEW_SCREEN_PORT },
		{ "desktops-" SB ".p.test", NO_HOST },
		{ "desktop" SB ".p.test", NO_HOST },
		{ "desktop.p.test", NO_HOST },
		{ "0-" SB ".p.test", NO_HOST },
		{ "65536-" SB ".p.test", NO_HOST },
		{ "08080-" SB ".p.test", NO_HOST },
		{ "-" SB ".p.test", NO_HOST },
		{ SB ".p.test", NO_HOST },
		{ "8080-" SB ".p.test.", NO_HOST },
		{ "8080-" SB ".xp.test", NO_HOST },
		{ "8080-" SB "p.test", NO_HOST },
		{ "8080-" SB "xp.test", NO_HOST },
		{ "8080-" SB ".a.p.test", NO_HOST },
		{ "8080-" SB ".p.test.evil", NO_HOST },
		{ "8080-" SB ".p.test:x", NO_HOST },
		{ "8080-" SB ".p.test:", NO_HOST },
		{ "8080-" SB ".p.test:0", NO_HOST },
		{ "8080-" SB "0.p.test", NO_HOST },
		{ "8080-ex0001000g00000000000000tr.p.test", NO_HOST },
		{ "p.test", NO_HOST },
		{ ".p.test", NO_HOST },
		{ "", NO_HOST },
	};
	struct preview_base b, none = {};
	struct cay_err err = {};
	struct id sandbox, want = one().token.sandbox;
	uint16_t port;

	assert_int_equal(preview_base_parse("https://p.test", &b, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool found = preview_host_parse(&b, slice_of(rows[i].host), &sandbox, &port);

		assert_int_equal(found, rows[i].port != NO_HOST);
		if (found)
			assert_true(port == rows[i].port && id_eq(&sandbox, &want));
		assert_false(preview_host_parse(&none, slice_of(rows[i].host), &sandbox, &port));
	}
}

static void where_they_are(void **)
{
	static const char *const bad[] = { "",
					   "p.test",
					   "ftp://p.test",
					   "https:/p.test",
					   "https://",
					   "https://p.test/",
					   "https://P.test",
					   "https://p..test",
					   "https://p.test:0",
					   "https://p.test:x",
					   "https://u@p.test" };
	auto_buf out = BUF_INIT(256);
	struct preview p = one();
	struct preview_base b;
	struct cay_err err = {};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err = (struct cay_err){};
		assert_true(preview_base_parse(bad[i], &b, &err) < 0);
	}
	assert_int_equal(preview_base_parse("http://preview.localhost:7070", &b, &err), 0);
	assert_int_equal(preview_origin_format(&b, &p.token.sandbox, 80, &out), 0);
	assert_string_equal(buf_str(&out), "http://80-" SB ".preview.localhost:7070");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back), cmocka_unit_test(to_the_byte),
		cmocka_unit_test(of_the_screen),  cmocka_unit_test(no_token_is_a_preview),
		cmocka_unit_test(hosts),          cmocka_unit_test(where_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
