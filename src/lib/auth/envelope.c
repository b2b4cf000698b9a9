/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/envelope.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hpke.h>

enum { VERSION = 1, AT_SENDER = 1, AT_SECRET = AT_SENDER + ENVELOPE_KEY_LEN, TAG_LEN = 16 };
static_assert(ENVELOPE_EXTRA == AT_SECRET + TAG_LEN);

static const char info[] = "cay envelope 1";

static OSSL_HPKE_SUITE envelope_suite(void)
{
	return (OSSL_HPKE_SUITE){ OSSL_HPKE_KEM_ID_X25519, OSSL_HPKE_KDF_ID_HKDF_SHA256,
				  OSSL_HPKE_AEAD_ID_AES_GCM_256 };
}

static void envelope_ctx_freep(OSSL_HPKE_CTX **p)
{
	OSSL_HPKE_CTX_free(*p);
}
#define auto_hpke CAY_CLEANUP(envelope_ctx_freep) OSSL_HPKE_CTX

static void envelope_pkey_freep(EVP_PKEY **p)
{
	EVP_PKEY_free(*p);
}
#define auto_pkey CAY_CLEANUP(envelope_pkey_freep) EVP_PKEY

static EVP_PKEY *envelope_pkey_create(const struct envelope_key *private)
{
	return EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, private->bytes,
					    sizeof(private->bytes));
}

int envelope_key_derive(const struct envelope_key *private, struct envelope_key *ret_public)
{
	auto_pkey *key = envelope_pkey_create(private);
	size_t n = sizeof(ret_public->bytes);

	return key && EVP_PKEY_get_raw_public_key(key, ret_public->bytes, &n) == 1 &&
			       n == sizeof(ret_public->bytes)
		       ? 0
		       : -EIO;
}

int envelope_close(const struct envelope_key *public, struct slice purpose, struct slice secret,
		   uint8_t *ret)
{
	auto_hpke *ctx = OSSL_HPKE_CTX_new(OSSL_HPKE_MODE_BASE, envelope_suite(),
					   OSSL_HPKE_ROLE_SENDER, NULL, NULL);
	size_t n_key = ENVELOPE_KEY_LEN, n = secret.n + TAG_LEN;

	if (secret.n > ENVELOPE_SECRET_MAX)
		return -EMSGSIZE;
	ret[0] = VERSION;
	return ctx &&
			       OSSL_HPKE_encap(ctx, ret + AT_SENDER, &n_key, public->bytes,
					       sizeof(public->bytes), (const uint8_t *)info,
					       sizeof(info)) == 1 &&
			       n_key == ENVELOPE_KEY_LEN &&
			       OSSL_HPKE_seal(ctx, ret + AT_SECRET, &n, (const uint8_t *)purpose.p,
					      purpose.n, (const uint8_t *)secret.p,
					      secret.n) == 1 &&
			       n == secret.n + TAG_LEN
		       ? 0
		       : -EIO;
}

int envelope_open(const struct envelope_key *private, struct slice purpose, struct slice closed,
		  uint8_t *ret, size_t *ret_n)
{
	const uint8_t *in = (const uint8_t *)closed.p;
	bool opened;

	if (closed.n <= ENVELOPE_EXTRA || closed.n - ENVELOPE_EXTRA > ENVELOPE_SECRET_MAX ||
	    in[0] != VERSION)
		return -EBADMSG;
	auto_pkey *key = envelope_pkey_create(private);
	auto_hpke *ctx = OSSL_HPKE_CTX_new(OSSL_HPKE_MODE_BASE, envelope_suite(),
					   OSSL_HPKE_ROLE_RECEIVER, NULL, NULL);
	if (!key || !ctx)
		return -ENOMEM;
	*ret_n = closed.n;
	(void)ERR_set_mark();
	opened = OSSL_HPKE_decap(ctx, in + AT_SENDER, ENVELOPE_KEY_LEN, key, (const uint8_t *)info,
				 sizeof(info)) == 1 &&
		 OSSL_HPKE_open(ctx, ret, ret_n, (const uint8_t *)purpose.p, purpose.n,
				in + AT_SECRET, closed.n - AT_SECRET) == 1 &&
		 *ret_n == closed.n - ENVELOPE_EXTRA;
	(void)ERR_pop_to_mark();
	if (opened)
		return 0;
	OPENSSL_cleanse(ret, closed.n);
	*ret_n = 0;
	return -EBADMSG;
}
