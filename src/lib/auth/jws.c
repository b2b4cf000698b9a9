/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/jws.h"

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <strings.h>

#include "text/base64.h"

enum {
	HEADER_MAX = 2048,
	SIGNATURE_MAX = JWK_RSA_BITS_MAX / 8,
	ES256_HALF = 32,
	ES256_LEN = 2 * ES256_HALF,
	ES256_DER_MAX = 72,
};

static const struct json_limits header_limits = { .bytes = HEADER_MAX, .depth = 4, .values = 32 };

static const struct {
	const char *name, *why;
} refused_members[] = {
	{ "crit", "the header has extensions that must be understood, and none is" },
	{ "b64", "the header requires a payload that is not base64" },
	{ "jwk", "the header brings its own key" },
	{ "jku", "the header says where to fetch its key" },
	{ "x5c", "the header brings its own certificate" },
	{ "x5u", "the header says where to fetch its certificate" },
	{ "enc", "the token is encrypted" },
	{ "zip", "the token is compressed" },
	{ "cty", "the token has another one inside" },
};

/* Accepted token types; others are for logout, proof of possession and so on. */
static const char *const types[] = { "JWT", "at+jwt", "application/at+jwt" };

static int jws_refuse(struct cay_err *err, const char *why)
{
	return cay_fail(err, CAY_E_UNAUTHENTICATED, "%s", why);
}

struct jws_parts {
	struct slice header, payload, signature, input;
};

static int jws_split(struct slice text, struct jws_parts *ret, struct cay_err *err)
{
	struct slice rest = text;

	if (text.n > JWS_TEXT_MAX)
		return jws_refuse(err, "the token is longer than 8 KiB");
	ret->header = slice_cut(&rest, '.');
	ret->payload = slice_cut(&rest, '.');
	if (!rest.p)
		return jws_refuse(err, "the token has not three parts");
	ret->input = (struct slice){ text.p, (size_t)(rest.p - 1 - text.p) };
	ret->signature = slice_cut(&rest, '.');
	if (rest.p)
		return jws_refuse(err, "the token has more than three parts");
	if (!ret->header.n || !ret->payload.n || !ret->signature.n)
		return jws_refuse(err, "a part of the token is empty");
	return 0;
}

static int jws_decode_part(struct slice part, uint8_t *buf, size_t max, size_t *ret,
			   const char *why, struct cay_err *err)
{
	if (BASE64URL_BYTES(part.n) > max || base64url_decode(part.p, part.n, buf, ret) < 0)
		return jws_refuse(err, why);
	return 0;
}

int jws_parse_object(const uint8_t *bytes, size_t n, const struct json_limits *limits, json_t **ret,
		     const char *why, struct cay_err *err)
{
	struct cay_err local = {};
	int r = json_parse((struct slice){ (const char *)bytes, n }, limits, ret, &local);

	if (local.code == CAY_E_NO_MEMORY)
		return cay_fail(err, local.code, "%s", local.msg);
	return r < 0 || !json_is_object(*ret) ? jws_refuse(err, why) : 0;
}

static int jws_parse_header(struct slice part, json_t **ret, struct cay_err *err)
{
	uint8_t bytes[HEADER_MAX];
	size_t n = 0;
	int r = jws_decode_part(part, bytes, sizeof(bytes), &n,
				"the header is not base64url, or too long", err);

	if (r < 0)
		return r;
	return jws_parse_object(bytes, n, &header_limits, ret,
				"the header is no JSON object, has a name twice, or is too deep",
				err);
}

static bool jws_type_is_accepted(const json_t *typ)
{
	const char *text = json_string_value(typ);

	for (size_t i = 0; text && i < ARRAY_SIZE(types); i++)
		if (strcasecmp(text, types[i]) == 0)
			return true;
	return !typ;
}

static int jws_check_header(const json_t *header, struct cay_err *err)
{
	const json_t *kid = json_object_get(header, "kid");

	for (size_t i = 0; i < ARRAY_SIZE(refused_members); i++)
		if (json_object_get(header, refused_members[i].name))
			return jws_refuse(err, refused_members[i].why);
	if (!jws_type_is_accepted(json_object_get(header, "typ")))
		return jws_refuse(err, "the token is of another type");
	if (kid && !json_is_string(kid))
		return jws_refuse(err, "the header's 'kid' is not text");
	return 0;
}

/* The key to verify with, or NULL and why not. */
static const struct jwk *jws_find_key(const json_t *header, const struct jwks *keys,
				      struct cay_err *err)
{
	const char *kid = json_string_value(json_object_get(header, "kid"));
	const char *alg = json_string_value(json_object_get(header, "alg"));
	const struct jwk *key = jwks_find(keys, kid);

	if (!key)
		(void)jws_refuse(err, kid ? "the header's 'kid' names no key of the JWKS"
					  : "the header has no 'kid', and there are several keys");
	else if (!alg || !str_eq(alg, jwk_algs[key->alg].name))
		(void)jws_refuse(err, "the header's 'alg' is not what the key is for");
	else
		return key;
	return NULL;
}

/* JWS has r and s side by side; libcrypto expects DER. */
static int jws_es256_to_der(const uint8_t *sig, size_t n, uint8_t ret[static ES256_DER_MAX],
			    size_t *ret_n)
{
	ECDSA_SIG *pair = NULL;
	BIGNUM *r = NULL, *s = NULL;
	unsigned char *at = ret;
	int len = 0;

	if (n != ES256_LEN)
		return -EBADMSG;
	pair = ECDSA_SIG_new();
	r = BN_bin2bn(sig, ES256_HALF, NULL);
	s = BN_bin2bn(sig + ES256_HALF, ES256_HALF, NULL);
	if (pair && r && s && ECDSA_SIG_set0(pair, r, s) == 1) {
		r = s = NULL; /* the pair's now */
		len = i2d_ECDSA_SIG(pair, NULL) <= ES256_DER_MAX ? i2d_ECDSA_SIG(pair, &at) : 0;
	}
	BN_free(r);
	BN_free(s);
	ECDSA_SIG_free(pair);
	*ret_n = (size_t)len;
	return len > 0 ? 0 : -ENOMEM;
}

static int jws_verify_public_key(const struct jwk *key, EVP_MD_CTX *ctx, struct slice input,
				 const uint8_t *sig, size_t n)
{
	uint8_t der[ES256_DER_MAX];
	int r = 0;

	if (key->alg == JWK_ES256) {
		r = jws_es256_to_der(sig, n, der, &n);
		sig = der;
	}
	if (r < 0)
		return r;
	if (EVP_DigestVerifyInit_ex(ctx, NULL, jwk_algs[key->alg].digest, NULL, NULL, key->key,
				    NULL) != 1)
		return -EIO;
	return EVP_DigestVerify(ctx, sig, n, (const uint8_t *)input.p, input.n) == 1 ? 0 : -EBADMSG;
}

static int jws_verify_hmac(const struct jwk *key, EVP_MD_CTX *ctx, struct slice input,
			   const uint8_t *sig, size_t n)
{
	uint8_t mac[EVP_MAX_MD_SIZE];
	size_t len = sizeof(mac), want = jwk_algs[key->alg].digest_len;

	if (EVP_DigestSignInit_ex(ctx, NULL, jwk_algs[key->alg].digest, NULL, NULL, key->key,
				  NULL) != 1 ||
	    EVP_DigestSign(ctx, mac, &len, (const uint8_t *)input.p, input.n) != 1 || len != want)
		return -EIO;
	return n == want && CRYPTO_memcmp(mac, sig, want) == 0 ? 0 : -EBADMSG;
}

static int jws_verify_signature(const struct jwk *key, const struct jws_parts *p,
				struct cay_err *err)
{
	uint8_t sig[SIGNATURE_MAX];
	EVP_MD_CTX *ctx;
	size_t n = 0;
	int r = jws_decode_part(p->signature, sig, sizeof(sig), &n,
				"the signature is not base64url, or too long", err);

	if (r < 0)
		return r;
	/* libcrypto's complaints stay here: TLS on this thread reads the same list */
	(void)ERR_set_mark();
	ctx = EVP_MD_CTX_new();
	if (!ctx)
		r = -ENOMEM;
	else if (jwk_algs[key->alg].type == JWK_OCT)
		r = jws_verify_hmac(key, ctx, p->input, sig, n);
	else
		r = jws_verify_public_key(key, ctx, p->input, sig, n);
	EVP_MD_CTX_free(ctx);
	(void)ERR_pop_to_mark();
	if (r == -EBADMSG)
		return jws_refuse(err, "the signature is invalid");
	if (r < 0)
		return cay_fail(err, r == -ENOMEM ? CAY_E_NO_MEMORY : CAY_E_INTERNAL,
				"libcrypto could not verify a signature");
	return 0;
}

int jws_verify(struct slice text, const struct jwks *keys, uint8_t ret[static JWS_PAYLOAD_MAX],
	       size_t *ret_n, struct cay_err *err)
{
	auto_json header = NULL;
	const struct jwk *key;
	struct jws_parts p = {};
	int r = jws_split(text, &p, err);

	if (r == 0)
		r = jws_parse_header(p.header, &header, err);
	if (r == 0)
		r = jws_check_header(header, err);
	if (r < 0)
		return r;
	key = jws_find_key(header, keys, err);
	if (!key)
		return -cay_error_row(CAY_E_UNAUTHENTICATED)->errnum;
	r = jws_verify_signature(key, &p, err);
	if (r == 0)
		r = jws_decode_part(p.payload, ret, JWS_PAYLOAD_MAX, ret_n,
				    "the payload is not base64url", err);
	return r;
}
