/* SPDX-License-Identifier: Apache-2.0 */
/* What is accepted is a table as jwks.h promises it, and each key is found by its
 * name and by no other. */
#include <openssl/err.h>
#include <openssl/evp.h>

#include "auth/jwks.h"
#include "fuzz.h"

static void check(const struct jwks *keys)
{
	CHECK(keys->n > 0 && keys->n <= JWKS_MAX);
	CHECK((jwks_find(keys, NULL) != NULL) == (keys->n == 1));
	for (size_t i = 0; i < keys->n; i++) {
		const struct jwk *k = &keys->keys[i];

		CHECK(k->key && k->alg < JWK_NUM_ALGS && strlen(k->kid) <= JWK_KID_MAX);
		CHECK(k->kid[0] ? jwks_find(keys, k->kid) == k : keys->n == 1);
		if (k->alg == JWK_RS256)
			CHECK(EVP_PKEY_is_a(k->key, "RSA") &&
			      EVP_PKEY_get_bits(k->key) >= JWK_RSA_BITS_MIN &&
			      EVP_PKEY_get_bits(k->key) <= JWK_RSA_BITS_MAX);
		else if (k->alg == JWK_ES256)
			CHECK(EVP_PKEY_is_a(k->key, "EC") && EVP_PKEY_get_bits(k->key) == 256);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct jwks *keys = NULL;
	struct cay_err err = {};

	if (jwks_parse((struct slice){ in, size }, &keys, &err) == 0)
		check(keys);
	else
		CHECK(!keys && err.msg[0] &&
		      (err.code == CAY_E_INVALID || err.code == CAY_E_TOO_LARGE));
	CHECK(ERR_peek_error() == 0);
	jwks_free(keys);
	free(in);
	return 0;
}
