/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_JOSE_H
#define CAY_TESTS_JOSE_H
/*
 * jose - an issuer of tokens for tests: keys made anew, and what they sign
 *
 * JSON is written with ' for ", so that tables can be read.
 */
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>

#include "auth/jwks.h"
#include "text/base64.h"
#include "unit.h"

struct issuer {
	EVP_PKEY *rsa, *ec;
	uint8_t secret[64];
	struct buf jwks;
};

static inline void put_json(struct buf *b, const char *text)
{
	for (; *text; text++)
		assert_int_equal(buf_putc(b, *text == '\'' ? '"' : *text), 0);
}

static inline void put_base64(struct buf *b, const void *p, size_t n)
{
	assert_int_equal(buf_reserve(b, BASE64URL_TEXT(n)), 0);
	base64url_encode(p, n, b->data + b->len);
	b->len += BASE64URL_TEXT(n);
	b->data[b->len] = 0;
}

static inline void put_part(struct buf *b, const char *json)
{
	auto_buf text = BUF_INIT(KIB(16));

	put_json(&text, json);
	put_base64(b, buf_str(&text), text.len);
}

static inline void put_modulus(struct buf *b, const EVP_PKEY *rsa)
{
	uint8_t bytes[1024];
	BIGNUM *n = NULL;

	assert_int_equal(EVP_PKEY_get_bn_param(rsa, OSSL_PKEY_PARAM_RSA_N, &n), 1);
	assert_true(BN_num_bytes(n) <= (int)sizeof(bytes));
	put_base64(b, bytes, (size_t)BN_bn2bin(n, bytes));
	BN_free(n);
}

static inline void get_point(const EVP_PKEY *ec, uint8_t ret[static 65])
{
	size_t n = 0;

	assert_int_equal(EVP_PKEY_get_octet_string_param(ec, OSSL_PKEY_PARAM_PUB_KEY, ret, 65, &n),
			 1);
	assert_int_equal(n, 65);
}

/* Keys h2, h3, h5, r and e, one for each algorithm. */
static inline void issuer_init(struct issuer *is)
{
	static const struct {
		const char *kid, *alg;
		size_t n;
	} secrets[] = { { "h2", "HS256", 32 }, { "h3", "HS384", 48 }, { "h5", "HS512", 64 } };
	struct buf *b = &is->jwks;
	uint8_t point[65];

	is->rsa = EVP_RSA_gen(2048);
	is->ec = EVP_EC_gen("P-256");
	assert_true(is->rsa && is->ec);
	for (size_t i = 0; i < sizeof(is->secret); i++)
		is->secret[i] = (uint8_t)(i * 7 + 1);
	get_point(is->ec, point);
	*b = BUF_INIT(KIB(8));
	put_json(b, "{'keys':[");
	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
		auto_buf head = BUF_INIT(128);

		assert_int_equal(buf_printf(&head, "{'kty':'oct','kid':'%s','alg':'%s','k':'",
					    secrets[i].kid, secrets[i].alg),
				 0);
		put_json(b, buf_str(&head));
		put_base64(b, is->secret, secrets[i].n);
		put_json(b, "'},");
	}
	put_json(b, "{'kty':'RSA','kid':'r','e':'AQAB','n':'");
	put_modulus(b, is->rsa);
	put_json(b, "'},{'kty':'EC','kid':'e','crv':'P-256','x':'");
	put_base64(b, point + 1, 32);
	put_json(b, "','y':'");
	put_base64(b, point + 33, 32);
	put_json(b, "'}]}");
}

static inline void issuer_fini(struct issuer *is)
{
	EVP_PKEY_free(is->rsa);
	EVP_PKEY_free(is->ec);
	buf_fini(&is->jwks);
}

static inline size_t sign_public(EVP_PKEY *key, struct slice input, uint8_t ret[static 1024])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = 1024;

	assert_int_equal(EVP_DigestSignInit_ex(ctx, NULL, "SHA256", NULL, NULL, key, NULL), 1);
	assert_int_equal(EVP_DigestSign(ctx, ret, &n, (const uint8_t *)input.p, input.n), 1);
	EVP_MD_CTX_free(ctx);
	return n;
}

static inline void raw_pair(const uint8_t *der, size_t n, uint8_t ret[static 64])
{
	ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)n);

	assert_non_null(pair);
	assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_r(pair), ret, 32), 32);
	assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_s(pair), ret + 32, 32), 32);
	ECDSA_SIG_free(pair);
}

static inline size_t issuer_sign(const struct issuer *is, enum jwk_alg alg, struct slice input,
				 uint8_t ret[static 1024])
{
	static const size_t secret_len[] = { [JWK_HS256] = 32, [JWK_HS384] = 48, [JWK_HS512] = 64 };
	uint8_t der[1024];
	unsigned n = 0;

	if (alg == JWK_RS256)
		return sign_public(is->rsa, input, ret);
	if (alg == JWK_ES256) {
		raw_pair(der, sign_public(is->ec, input, der), ret);
		return 64;
	}
	assert_non_null(HMAC(EVP_get_digestbyname(jwk_algs[alg].digest), is->secret,
			     (int)secret_len[alg], (const uint8_t *)input.p, input.n, ret, &n));
	return n;
}

/* The two parts that are signed, then a dot and the signature. */
static inline void issue(const struct issuer *is, const char *header, const char *claims,
			 enum jwk_alg alg, struct buf *ret)
{
	uint8_t sig[1024];
	size_t n;

	buf_clear(ret);
	put_part(ret, header);
	assert_int_equal(buf_putc(ret, '.'), 0);
	put_part(ret, claims);
	n = issuer_sign(is, alg, (struct slice){ ret->data, ret->len }, sig);
	assert_int_equal(buf_putc(ret, '.'), 0);
	put_base64(ret, sig, n);
}
#endif
