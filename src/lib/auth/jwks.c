/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/jwks.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "text/base64.h"
#include "text/json.h"

const struct jwk_alg_row jwk_algs[JWK_NUM_ALGS] = {
	[JWK_HS256] = { "HS256", JWK_OCT, "SHA256", 32 },
	[JWK_HS384] = { "HS384", JWK_OCT, "SHA384", 48 },
	[JWK_HS512] = { "HS512", JWK_OCT, "SHA512", 64 },
	[JWK_RS256] = { "RS256", JWK_RSA, "SHA256", 32 },
	[JWK_ES256] = { "ES256", JWK_EC, "SHA256", 32 },
};

/* Default algorithm of a key; a symmetric key must name one. */
static const struct {
	const char *name;
	bool has_alg;
	enum jwk_alg alg;
} types[JWK_NUM_TYPES] = {
	[JWK_OCT] = { "oct", false, JWK_HS256 },
	[JWK_RSA] = { "RSA", true, JWK_RS256 },
	[JWK_EC] = { "EC", true, JWK_ES256 },
};

/* RFC 7518: members that only the owner of a key pair may have. */
static const char *const private_members[] = { "d", "p", "q", "dp", "dq", "qi", "oth" };

static const struct json_limits limits = { .bytes = JWKS_TEXT_MAX, .depth = 6, .values = 4096 };

enum { P256_BYTES = 32, EXPONENT_MAX = 4, BYTES_MAX = JWK_RSA_BITS_MAX / 8 };

/* A key that is not for us is passed over; it is no failure. */
enum { SKIPPED = 1 };

static int jwks_fail(struct cay_err *err, const char *why)
{
	return cay_fail(err, CAY_E_INVALID, "%s", why);
}

/* A member that must be text if present; NULL if absent. */
static int jwk_get_text(const json_t *j, const char *name, const char **ret, struct cay_err *err)
{
	const json_t *v = json_object_get(j, name);

	*ret = json_string_value(v);
	if (v && !*ret)
		return cay_fail(err, CAY_E_INVALID, "'%s' is not text", name);
	return 0;
}

static int jwk_get_bytes(const json_t *j, const char *name, uint8_t *buf, size_t max, size_t *ret,
			 struct cay_err *err)
{
	const char *text = json_string_value(json_object_get(j, name));
	size_t n = text ? strlen(text) : 0;

	if (!n)
		return cay_fail(err, CAY_E_INVALID, "'%s' is missing or not text", name);
	if (BASE64URL_BYTES(n) > max)
		return cay_fail(err, CAY_E_INVALID, "'%s' is longer than %zu bytes", name, max);
	if (base64url_decode(text, n, buf, ret) < 0)
		return cay_fail(err, CAY_E_INVALID, "'%s' is not base64url without padding", name);
	return 0;
}

static int jwk_read_kid(const json_t *j, struct jwk *ret, struct cay_err *err)
{
	const char *kid = NULL;
	int r = jwk_get_text(j, "kid", &kid, err);

	if (r < 0 || !kid)
		return r;
	if (!kid[0] || strlen(kid) > JWK_KID_MAX)
		return cay_fail(err, CAY_E_INVALID, "'kid' is empty or longer than %d bytes",
				JWK_KID_MAX);
	memcpy(ret->kid, kid, strlen(kid) + 1);
	return 0;
}

static int jwk_check_not_private(const json_t *j, struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(private_members); i++)
		if (json_object_get(j, private_members[i]))
			return cay_fail(err, CAY_E_INVALID,
					"'%s' belongs to a private key: it has been seen, so "
					"replace the key and publish only its public half",
					private_members[i]);
	return 0;
}

/* 'use' and 'key_ops': is it for verifying? */
static int jwk_check_use(const json_t *j, struct cay_err *err)
{
	const json_t *key_ops = json_object_get(j, "key_ops");
	const char *use = NULL;
	int r = jwk_get_text(j, "use", &use, err);

	if (r < 0)
		return r;
	if (use && !str_eq(use, "sig"))
		return SKIPPED;
	if (!key_ops)
		return 0;
	if (!json_is_array(key_ops))
		return jwks_fail(err, "'key_ops' is not an array");
	for (size_t i = 0; i < json_array_size(key_ops); i++) {
		const char *op = json_string_value(json_array_get(key_ops, i));

		if (op && str_eq(op, "verify"))
			return 0;
	}
	return SKIPPED;
}

static int jwk_read_type(const json_t *j, enum jwk_type *ret, struct cay_err *err)
{
	const char *kty = NULL;
	int r = jwk_get_text(j, "kty", &kty, err);

	if (r < 0)
		return r;
	if (!kty)
		return jwks_fail(err, "'kty' is missing");
	for (unsigned i = 0; i < JWK_NUM_TYPES; i++) {
		if (str_eq(kty, types[i].name)) {
			*ret = (enum jwk_type)i;
			return 0;
		}
	}
	return SKIPPED;
}

static int jwk_read_alg(const json_t *j, enum jwk_type type, enum jwk_alg *ret, struct cay_err *err)
{
	const char *alg = NULL;
	int r = jwk_get_text(j, "alg", &alg, err);

	if (r < 0)
		return r;
	if (!alg && !types[type].has_alg)
		return jwks_fail(err, "a secret needs 'alg': HS256, HS384 or HS512");
	*ret = types[type].alg;
	if (!alg)
		return 0;
	for (unsigned i = 0; i < JWK_NUM_ALGS; i++) {
		if (!str_eq(alg, jwk_algs[i].name))
			continue;
		if (jwk_algs[i].type != type)
			return cay_fail(err, CAY_E_INVALID, "%s is not for a key of type %s",
					jwk_algs[i].name, types[type].name);
		*ret = (enum jwk_alg)i;
		return 0;
	}
	return SKIPPED;
}

static int jwk_read_oct(const json_t *j, struct jwk *ret, struct cay_err *err)
{
	uint8_t secret[JWK_SECRET_MAX];
	size_t n = 0, least = jwk_algs[ret->alg].digest_len;
	int r = jwk_get_bytes(j, "k", secret, sizeof(secret), &n, err);

	if (r == 0 && n < least)
		r = cay_fail(err, CAY_E_INVALID, "a secret for %s has at least %zu bytes",
			     jwk_algs[ret->alg].name, least);
	if (r == 0) {
		ret->key = EVP_PKEY_new_raw_private_key_ex(NULL, "HMAC", NULL, secret, n);
		if (!ret->key)
			r = cay_fail(err, CAY_E_NO_MEMORY, "libcrypto took no secret");
	}
	OPENSSL_cleanse(secret, sizeof(secret));
	return r;
}

/* A public key from its parameters; libcrypto checks that a point is on its curve. */
static int jwk_import_params(const char *type, OSSL_PARAM *params, struct jwk *ret,
			     struct cay_err *err)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *key = NULL;
	int r = 0;

	if (!ctx || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		r = cay_fail(err, CAY_E_INVALID, "libcrypto takes it for no %s key", type);
	ret->key = key;
	EVP_PKEY_CTX_free(ctx);
	return r;
}

/* OSSL_PARAM takes integers in native byte order. */
static void jwk_swap_bytes(uint8_t *p, size_t n)
{
	for (size_t i = 0; __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && i < n / 2; i++) {
		uint8_t c = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = c;
	}
}

static int jwk_read_rsa(const json_t *j, struct jwk *ret, struct cay_err *err)
{
	uint8_t n[BYTES_MAX] = {}, e[EXPONENT_MAX] = {};
	size_t n_len = 0, e_len = 0, bits;
	OSSL_PARAM params[3];
	int r = jwk_get_bytes(j, "n", n, sizeof(n), &n_len, err);

	if (r == 0)
		r = jwk_get_bytes(j, "e", e, sizeof(e), &e_len, err);
	if (r < 0)
		return r;
	/* RFC 7518 section 6.3.1.1: no zero in front, so one spelling */
	if (!n[0] || !e[0])
		return jwks_fail(err, "'n' or 'e' begins with a zero byte");
	bits = n_len * 8 - (size_t)(__builtin_clz(n[0]) - 24);
	if (bits < JWK_RSA_BITS_MIN)
		return cay_fail(err, CAY_E_INVALID, "an RSA key of %zu bits; %d are the least",
				bits, JWK_RSA_BITS_MIN);
	/* with an exponent of 1 everything is its own signature */
	if (!(n[n_len - 1] & 1) || !(e[e_len - 1] & 1) || (e_len == 1 && e[0] < 3))
		return jwks_fail(err, "'n' and 'e' are odd, and 'e' is at least 3");
	jwk_swap_bytes(n, n_len);
	jwk_swap_bytes(e, e_len);
	params[0] = OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_RSA_N, n, n_len);
	params[1] = OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_RSA_E, e, e_len);
	params[2] = OSSL_PARAM_construct_end();
	return jwk_import_params("RSA", params, ret, err);
}

static int jwk_read_ec(const json_t *j, struct jwk *ret, struct cay_err *err)
{
	uint8_t point[1 + 2 * P256_BYTES] = { POINT_CONVERSION_UNCOMPRESSED };
	const char *crv = NULL;
	char group[] = "P-256";
	size_t x = 0, y = 0;
	OSSL_PARAM params[3];
	int r = jwk_get_text(j, "crv", &crv, err);

	if (r < 0)
		return r;
	if (!crv)
		return jwks_fail(err, "'crv' is missing");
	if (!str_eq(crv, group))
		return SKIPPED;
	r = jwk_get_bytes(j, "x", point + 1, P256_BYTES, &x, err);
	if (r == 0)
		r = jwk_get_bytes(j, "y", point + 1 + P256_BYTES, P256_BYTES, &y, err);
	if (r < 0)
		return r;
	if (x != P256_BYTES || y != P256_BYTES)
		return jwks_fail(err, "'x' and 'y' of P-256 have 32 bytes each");
	params[0] = OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0);
	params[1] =
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point));
	params[2] = OSSL_PARAM_construct_end();
	return jwk_import_params("EC", params, ret, err);
}

static int (*const readers[JWK_NUM_TYPES])(const json_t *, struct jwk *, struct cay_err *) = {
	[JWK_OCT] = jwk_read_oct,
	[JWK_RSA] = jwk_read_rsa,
	[JWK_EC] = jwk_read_ec,
};

/* 0 with ret->key, SKIPPED, or a failure. */
static int jwk_parse(const json_t *j, struct jwk *ret, struct cay_err *err)
{
	enum jwk_type type = JWK_OCT;
	int r;

	if (!json_is_object(j))
		return jwks_fail(err, "is not an object");
	r = jwk_check_not_private(j, err);
	if (r == 0)
		r = jwk_read_type(j, &type, err);
	if (r == 0)
		r = jwk_check_use(j, err);
	if (r == 0)
		r = jwk_read_alg(j, type, &ret->alg, err);
	if (r == 0)
		r = jwk_read_kid(j, ret, err);
	if (r == 0)
		r = readers[type](j, ret, err);
	return r;
}

/* Two keys with one kid, or a key without kid among others: a token could not identify its key. */
static int jwks_check_kids(const struct jwks *keys, struct cay_err *err)
{
	for (size_t i = 0; i < keys->n; i++) {
		if (!keys->keys[i].kid[0] && keys->n > 1)
			return jwks_fail(err, "a key without 'kid' must be the only one");
		for (size_t k = 0; k < i; k++)
			if (str_eq(keys->keys[i].kid, keys->keys[k].kid))
				return jwks_fail(err, "two keys have the same 'kid'");
	}
	return 0;
}

static int jwks_parse_keys(const json_t *doc, struct jwks *ret, struct cay_err *err)
{
	const json_t *list = json_object_get(doc, "keys");

	if (!json_is_array(list))
		return jwks_fail(err, "a JWKS is an object with an array 'keys'");
	if (json_array_size(list) > JWKS_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, "more than %d keys", JWKS_MAX);
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct jwk *next = &ret->keys[ret->n];
		int r = jwk_parse(json_array_get(list, i), next, err);

		if (r < 0)
			return cay_err_wrap(err, r, "keys[%zu]", i);
		if (r == SKIPPED)
			*next = (struct jwk){};
		else
			ret->n++;
	}
	if (!ret->n)
		return jwks_fail(err, "no key in it verifies HS256, HS384, HS512, RS256 or ES256");
	return jwks_check_kids(ret, err);
}

int jwks_parse(struct slice text, struct jwks **ret, struct cay_err *err)
{
	auto_json doc = NULL;
	struct jwks *keys;
	int r = json_parse(text, &limits, &doc, err);

	if (r < 0)
		return cay_err_wrap(err, r, "JWKS");
	keys = calloc(1, sizeof(*keys));
	if (!keys)
		return cay_no_memory(err);
	/* errors of libcrypto must not leak into its next caller */
	(void)ERR_set_mark();
	r = jwks_parse_keys(doc, keys, err);
	(void)ERR_pop_to_mark();
	if (r < 0) {
		jwks_free(keys);
		return cay_err_wrap(err, r, "JWKS");
	}
	*ret = keys;
	return 0;
}

void jwks_free(struct jwks *keys)
{
	for (size_t i = 0; keys && i < JWKS_MAX; i++)
		EVP_PKEY_free(keys->keys[i].key);
	free(keys);
}

const struct jwk *jwks_find(const struct jwks *keys, const char *kid)
{
	if (!kid)
		return keys->n == 1 ? &keys->keys[0] : NULL;
	for (size_t i = 0; i < keys->n; i++)
		if (kid[0] && str_eq(keys->keys[i].kid, kid))
			return &keys->keys[i];
	return NULL;
}
