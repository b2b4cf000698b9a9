/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/jwks.h"

#include <openssl/err.h>

#include "jose.h"

/* In documents $X and $Y stand for the point of a P-256 key, $N for a modulus of
 * 2048 bits, $S for a secret of 64 bytes, $T for one of 31. */
static struct issuer issuer;

static int setup(void **)
{
	issuer_init(&issuer);
	return 0;
}

static int teardown(void **)
{
	issuer_fini(&issuer);
	return 0;
}

static void fill_in(struct buf *b, const char *pattern)
{
	uint8_t point[65];

	get_point(issuer.ec, point);
	for (const char *p = pattern; *p; p++) {
		char one[2] = { *p };

		if (*p != '$') {
			put_json(b, one);
			continue;
		}
		switch (*++p) {
		case 'X':
			put_base64(b, point + 1, 32);
			break;
		case 'Y':
			put_base64(b, point + 33, 32);
			break;
		case 'N':
			put_modulus(b, issuer.rsa);
			break;
		case 'S':
			put_base64(b, issuer.secret, 64);
			break;
		case 'T':
			put_base64(b, issuer.secret, 31);
			break;
		default:
			fail_msg("'$%c' in '%s'", *p, pattern);
		}
	}
}

static int read_pattern(const char *pattern, struct jwks **ret, struct cay_err *err)
{
	auto_buf b = BUF_INIT(KIB(600));

	fill_in(&b, pattern);
	return jwks_parse((struct slice){ buf_str(&b), b.len }, ret, err);
}

#define KEYS(list) "{'keys':[" list "]}"
#define RSA(more) "{'kty':'RSA','n':'$N','e':'AQAB'" more "}"
#define EC(more) "{'kty':'EC','crv':'P-256','x':'$X','y':'$Y'" more "}"
#define OCT(more) "{'kty':'oct','k':'$S'" more "}"

static void good_documents(void **)
{
	static const struct {
		const char *doc;
		size_t n;
		enum jwk_alg first;
	} rows[] = {
		{ KEYS(RSA("")), 1, JWK_RS256 },
		{ KEYS(RSA(",'alg':'RS256','use':'sig','kid':'1','key_ops':['verify']")), 1,
		  JWK_RS256 },
		{ KEYS(EC("")), 1, JWK_ES256 },
		{ KEYS(EC(",'alg':'ES256','x5t':'x','x5c':['a','b'],'ours':{}")), 1, JWK_ES256 },
		{ KEYS(OCT(",'alg':'HS256'")), 1, JWK_HS256 },
		{ KEYS(OCT(",'alg':'HS384'")), 1, JWK_HS384 },
		{ KEYS(OCT(",'alg':'HS512'")), 1, JWK_HS512 },
		{ KEYS(OCT(",'alg':'HS512','key_ops':['sign','verify']")), 1, JWK_HS512 },
		{ KEYS(RSA(",'kid':'a'") "," EC(",'kid':'b'")), 2, JWK_RS256 },
		{ "{'issuer':'x',"
		  "'keys':[" EC("") "]}",
		  1, JWK_ES256 },
		/* other people's keys are passed over, and so are their names */
		{ KEYS(RSA(",'use':'enc','kid':'a'") "," EC(",'kid':'a'")), 1, JWK_ES256 },
		{ KEYS(RSA(",'alg':'PS256'") "," EC("")), 1, JWK_ES256 },
		{ KEYS(RSA(",'alg':'RSA-OAEP'") "," EC("")), 1, JWK_ES256 },
		{ KEYS(RSA(",'key_ops':['encrypt']") "," EC("")), 1, JWK_ES256 },
		{ KEYS(RSA(",'key_ops':[1]") "," EC("")), 1, JWK_ES256 },
		{ KEYS(OCT(",'alg':'A128KW'") "," EC("")), 1, JWK_ES256 },
		{ KEYS("{'kty':'OKP','crv':'Ed25519','x':'AA'}," EC("")), 1, JWK_ES256 },
		{ KEYS("{'kty':'EC','crv':'P-384','x':'AA','y':'AA'}," EC("")), 1, JWK_ES256 },
		{ KEYS("{'kty':'EC','crv':'secp256k1','x':'$X','y':'$Y'}," EC("")), 1, JWK_ES256 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_ptr(jwks) keys = NULL;
		struct cay_err err = {};

		if (read_pattern(rows[i].doc, &keys, &err) < 0)
			fail_msg("row %zu: %s", i, err.msg);
		row_check(i, keys->n == rows[i].n && keys->keys[0].alg == rows[i].first);
		row_check(i, keys->keys[0].key != NULL);
	}
}

static void wrong_documents_say_what_is_wrong(void **)
{
	static const struct {
		const char *doc, *why;
	} rows[] = {
		{ "", "not JSON" },
		{ "[]", "an array 'keys'" },
		{ "{}", "an array 'keys'" },
		{ "null", "an array 'keys'" },
		{ EC(""), "an array 'keys'" },
		{ "{'keys':{}}", "an array 'keys'" },
		{ "{'keys':[],'keys':[]}", "not JSON" },
		{ KEYS(""), "no key in it" },
		{ KEYS(RSA(",'use':'enc'")), "no key in it" },
		{ KEYS("1"), "keys[0]: is not an object" },
		{ KEYS(EC("") ",[]"), "keys[1]: is not an object" },
		{ KEYS("{}"), "'kty' is missing" },
		{ KEYS("{'kty':1}"), "'kty' is not text" },
		{ KEYS(EC(",'kty':'RSA'")), "not JSON" },
		{ KEYS(EC(",'kid':1")), "'kid' is not text" },
		{ KEYS(EC(",'kid':''")), "'kid' is empty" },
		{ KEYS(EC(",'use':1")), "'use' is not text" },
		{ KEYS(EC(",'key_ops':'verify'")), "'key_ops' is not an array" },
		{ KEYS(EC(",'alg':1")), "'alg' is not text" },
		{ KEYS(EC(",'kid':'a'") "," RSA(",'kid':'a'")), "same 'kid'" },
		{ KEYS(EC("") "," RSA(",'kid':'a'")), "must be the only one" },
		{ KEYS(EC(",'kid':'a'") "," RSA("")), "must be the only one" },
		{ KEYS(EC("") "," RSA("")), "must be the only one" },
		/* private halves, of whatever */
		{ KEYS(RSA(",'d':'AQ'")), "private key" },
		{ KEYS(RSA(",'p':'AQ'")), "private key" },
		{ KEYS(RSA(",'q':'AQ'")), "private key" },
		{ KEYS(RSA(",'dp':'AQ'")), "private key" },
		{ KEYS(RSA(",'dq':'AQ'")), "private key" },
		{ KEYS(RSA(",'qi':'AQ'")), "private key" },
		{ KEYS(RSA(",'oth':[]")), "private key" },
		{ KEYS(EC(",'d':'AQ'")), "replace the key" },
		{ KEYS(EC(",'d':null")), "private key" },
		{ KEYS(EC("") ",{'kty':'OKP','d':'AQ'}"), "keys[1]: 'd' belongs to a private key" },
		{ KEYS(RSA(",'use':'enc','d':'AQ'") "," EC("")), "private key" },
		/* an algorithm of another kind of key */
		{ KEYS(OCT("")), "needs 'alg'" },
		{ KEYS(OCT(",'alg':'RS256'")), "RS256 is not for a key of type oct" },
		{ KEYS(OCT(",'alg':'ES256'")), "ES256 is not for" },
		{ KEYS(RSA(",'alg':'HS256'")), "HS256 is not for a key of type RSA" },
		{ KEYS(RSA(",'alg':'ES256'")), "ES256 is not for" },
		{ KEYS(EC(",'alg':'HS256'")), "HS256 is not for" },
		{ KEYS(EC(",'alg':'RS256'")), "RS256 is not for" },
		{ KEYS(RSA(",'alg':'none'")), "no key in it" },
		/* secrets */
		{ KEYS("{'kty':'oct','alg':'HS256'}"), "'k' is missing" },
		{ KEYS("{'kty':'oct','alg':'HS256','k':''}"), "'k' is missing" },
		{ KEYS("{'kty':'oct','alg':'HS256','k':1}"), "'k' is missing or not text" },
		{ KEYS("{'kty':'oct','alg':'HS256','k':'$T'}"), "at least 32 bytes" },
		{ KEYS("{'kty':'oct','alg':'HS384','k':'$X'}"), "at least 48 bytes" },
		{ KEYS("{'kty':'oct','alg':'HS512','k':'$X'}"), "at least 64 bytes" },
		{ KEYS("{'kty':'oct','alg':'HS256','k':'$S='}"), "not base64url" },
		{ KEYS("{'kty':'oct','alg':'HS256','k':'$S '}"), "not base64url" },
		{ KEYS("{'kty':'oct','alg':'HS256','k':'$S+'}"), "not base64url" },
		{ KEYS("{'kty':'oct','alg':'HS256','k':'$N$N$N'}"), "longer than 512" },
		/* RSA */
		{ KEYS("{'kty':'RSA','n':'$N'}"), "'e' is missing" },
		{ KEYS("{'kty':'RSA','e':'AQAB'}"), "'n' is missing" },
		{ KEYS("{'kty':'RSA','n':'$N','e':''}"), "'e' is missing" },
		{ KEYS("{'kty':'RSA','n':'$N','e':'AQ'}"), "'e' is at least 3" },
		{ KEYS("{'kty':'RSA','n':'$N','e':'AA'}"), "zero byte" },
		{ KEYS("{'kty':'RSA','n':'$N','e':'AAEAAQ'}"), "zero byte" },
		{ KEYS("{'kty':'RSA','n':'$N','e':'Ag'}"), "odd" },
		{ KEYS("{'kty':'RSA','n':'$N','e':'BA'}"), "odd" },
		{ KEYS("{'kty':'RSA','n':'$N','e':'AQAAAAE'}"), "longer than 4 bytes" },
		{ KEYS("{'kty':'RSA','n':'$S','e':'AQAB'}"), "the least" },
		{ KEYS("{'kty':'RSA','n':'AQ','e':'AQAB'}"), "an RSA key of 1 bits" },
		{ KEYS("{'kty':'RSA','n':'AA$N','e':'AQAB'}"), "zero byte" },
		{ KEYS("{'kty':'RSA','n':'$N$N$N$N$N','e':'AQAB'}"), "longer than 1024" },
		{ KEYS("{'kty':'RSA','n':'$N=','e':'AQAB'}"), "not base64url" },
		/* EC */
		{ KEYS("{'kty':'EC','x':'$X','y':'$Y'}"), "'crv' is missing" },
		{ KEYS("{'kty':'EC','crv':1,'x':'$X','y':'$Y'}"), "'crv' is not text" },
		{ KEYS("{'kty':'EC','crv':'P-256','x':'$X'}"), "'y' is missing" },
		{ KEYS("{'kty':'EC','crv':'P-256','y':'$Y'}"), "'x' is missing" },
		{ KEYS("{'kty':'EC','crv':'P-256','x':'$X','y':'AQ'}"), "32 bytes each" },
		{ KEYS("{'kty':'EC','crv':'P-256','x':'$S','y':'$Y'}"), "longer than 32" },
		{ KEYS("{'kty':'EC','crv':'P-256','x':'$T','y':'$Y'}"), "32 bytes each" },
		{ KEYS("{'kty':'EC','crv':'P-256','x':'$X','y':'$X'}"), "no EC key" },
		{ KEYS("{'kty':'EC','crv':'P-256','x':'$Y','y':'$X'}"), "no EC key" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_ptr(jwks) keys = NULL;
		struct cay_err err = {};
		int r = read_pattern(rows[i].doc, &keys, &err);

		if (r != -EINVAL || !strstr(err.msg, rows[i].why) || keys)
			fail_msg("row %zu: %d '%s', not '%s'", i, r, err.msg, rows[i].why);
		row_check(i, ERR_peek_error() == 0);
	}
}

/* 2047 bits are 256 bytes too. */
static void rsa_bits_are_counted(void **)
{
	static const struct {
		uint8_t first;
		size_t len;
		bool good;
	} rows[] = { { 0x80, 256, true }, { 0x7f, 256, false }, { 0xff, 255, false },
		     { 0x01, 257, true }, { 0xff, 128, false }, { 0xff, 1024, true } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf b = BUF_INIT(KIB(4));
		auto_ptr(jwks) keys = NULL;
		uint8_t n[1024];

		memset(n, 0xff, sizeof(n));
		n[0] = rows[i].first;
		put_json(&b, "{'keys':[{'kty':'RSA','e':'AQAB','n':'");
		put_base64(&b, n, rows[i].len);
		put_json(&b, "'}]}");
		row_check(i, jwks_parse((struct slice){ b.data, b.len }, &keys, NULL) ==
				     (rows[i].good ? 0 : -EINVAL));
		n[rows[i].len - 1] = 0xfe;
		buf_clear(&b);
		jwks_free(cay_take(keys));
		put_json(&b, "{'keys':[{'kty':'RSA','e':'AQAB','n':'");
		put_base64(&b, n, rows[i].len);
		put_json(&b, "'}]}");
		row_check(i, jwks_parse((struct slice){ b.data, b.len }, &keys, NULL) == -EINVAL);
	}
}

static void tables_have_an_end(void **)
{
	for (size_t n = JWKS_MAX; n <= JWKS_MAX + 1; n++) {
		auto_buf b = BUF_INIT(KIB(64));
		auto_ptr(jwks) keys = NULL;

		put_json(&b, "{'keys':[");
		for (size_t i = 0; i < n; i++) {
			auto_buf key = BUF_INIT(256);

			assert_int_equal(
				buf_printf(&key, "%s" EC(",'kid':'k%zu'"), i ? "," : "", i), 0);
			fill_in(&b, buf_str(&key));
		}
		put_json(&b, "]}");
		assert_int_equal(jwks_parse((struct slice){ b.data, b.len }, &keys, NULL),
				 n == JWKS_MAX ? 0 : -E2BIG);
		if (n != JWKS_MAX)
			continue;
		assert_int_equal(keys->n, JWKS_MAX);
		assert_ptr_equal(jwks_find(keys, "k63"), &keys->keys[63]);
		assert_null(jwks_find(keys, "k64"));
		assert_null(jwks_find(keys, NULL));
	}
	{
		auto_buf b = BUF_INIT(KIB(600));
		auto_ptr(jwks) keys = NULL;

		fill_in(&b, KEYS(EC("")));
		while (b.len <= JWKS_TEXT_MAX)
			assert_int_equal(buf_putc(&b, ' '), 0);
		assert_int_equal(jwks_parse((struct slice){ b.data, b.len }, &keys, NULL), -E2BIG);
		assert_int_equal(jwks_parse((struct slice){ b.data, b.len - 1 }, &keys, NULL), 0);
	}
}

static void names_are_exact(void **)
{
	auto_buf name = BUF_INIT(KIB(1)), doc = BUF_INIT(KIB(1));
	auto_ptr(jwks) keys = NULL;
	auto_ptr(jwks) nameless = NULL;
	auto_ptr(jwks) wide = NULL;

	assert_int_equal(read_pattern(KEYS(EC(",'kid':'abc'")), &keys, NULL), 0);
	assert_non_null(jwks_find(keys, "abc"));
	assert_non_null(jwks_find(keys, NULL));
	assert_null(jwks_find(keys, "ab"));
	assert_null(jwks_find(keys, "abcd"));
	assert_null(jwks_find(keys, "ABC"));
	assert_null(jwks_find(keys, ""));
	/* a key without a name is not the key of an empty one */
	assert_int_equal(read_pattern(KEYS(EC("")), &nameless, NULL), 0);
	assert_non_null(jwks_find(nameless, NULL));
	assert_null(jwks_find(nameless, ""));
	for (size_t n = 0; n < JWK_KID_MAX; n++)
		assert_int_equal(buf_putc(&name, 'k'), 0);
	assert_int_equal(buf_printf(&doc, KEYS(EC(",'kid':'%s'")), buf_str(&name)), 0);
	assert_int_equal(read_pattern(buf_str(&doc), &wide, NULL), 0);
	assert_non_null(jwks_find(wide, buf_str(&name)));
	buf_clear(&doc);
	assert_int_equal(buf_printf(&doc, KEYS(EC(",'kid':'%sk'")), buf_str(&name)), 0);
	assert_int_equal(read_pattern(buf_str(&doc), &wide, NULL), -EINVAL);
	jwks_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_documents),
		cmocka_unit_test(wrong_documents_say_what_is_wrong),
		cmocka_unit_test(rsa_bits_are_counted),
		cmocka_unit_test(tables_have_an_end),
		cmocka_unit_test(names_are_exact),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
