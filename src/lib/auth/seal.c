/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/seal.h"

#include <openssl/evp.h>

enum { VERSION = 1, AT_NONCE = 1, AT_SECRET = AT_NONCE + SEAL_NONCE_LEN, TAG_LEN = 16 };
static_assert(SEAL_EXTRA == AT_SECRET + TAG_LEN);

#define SECRET_MAX KIB(64) /* within an int, which libcrypto counts by */

static void seal_ctx_freep(EVP_CIPHER_CTX **p)
{
	EVP_CIPHER_CTX_free(*p);
}
#define auto_ctx CAY_CLEANUP(seal_ctx_freep) EVP_CIPHER_CTX

/* A context with key, nonce and purpose; NULL. */
static EVP_CIPHER_CTX *seal_ctx_create(const struct seal_key *key, const uint8_t *nonce,
				       struct slice purpose, int encrypt)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int n;

	if (ctx && purpose.n <= SECRET_MAX &&
	    EVP_CipherInit_ex2(ctx, EVP_aes_256_gcm(), key->bytes, nonce, encrypt, NULL) == 1 &&
	    EVP_CipherUpdate(ctx, NULL, &n, (const uint8_t *)purpose.p, (int)purpose.n) == 1)
		return ctx;
	EVP_CIPHER_CTX_free(ctx);
	return NULL;
}

int seal_close(const struct seal_key *key, const uint8_t nonce[static SEAL_NONCE_LEN],
	       struct slice purpose, struct slice secret, uint8_t *ret)
{
	auto_ctx *ctx = seal_ctx_create(key, nonce, purpose, 1);
	int n = 0, rest = 0;

	if (secret.n > SECRET_MAX)
		return -EMSGSIZE;
	ret[0] = VERSION;
	memcpy(ret + AT_NONCE, nonce, SEAL_NONCE_LEN);
	if (!ctx ||
	    EVP_CipherUpdate(ctx, ret + AT_SECRET, &n, (const uint8_t *)secret.p, (int)secret.n) !=
		    1 ||
	    EVP_CipherFinal_ex(ctx, ret + AT_SECRET + n, &rest) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG_LEN, ret + AT_SECRET + secret.n) !=
		    1)
		return -EIO;
	return 0;
}

int seal_open(const struct seal_key *key, struct slice purpose, struct slice sealed, uint8_t *ret,
	      size_t *ret_n)
{
	const uint8_t *in = (const uint8_t *)sealed.p;
	uint8_t tag[TAG_LEN];
	int n = 0, rest = 0;

	if (sealed.n < SEAL_EXTRA || sealed.n - SEAL_EXTRA > SECRET_MAX || in[0] != VERSION)
		return -EBADMSG;
	auto_ctx *ctx = seal_ctx_create(key, in + AT_NONCE, purpose, 0);
	memcpy(tag, in + sealed.n - TAG_LEN, TAG_LEN);
	if (!ctx || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG_LEN, tag) != 1)
		return -EIO;
	if (EVP_CipherUpdate(ctx, ret, &n, in + AT_SECRET, (int)(sealed.n - SEAL_EXTRA)) == 1 &&
	    EVP_CipherFinal_ex(ctx, ret + n, &rest) == 1) {
		*ret_n = sealed.n - SEAL_EXTRA;
		return 0;
	}
	explicit_bzero(ret, sealed.n - SEAL_EXTRA);
	return -EBADMSG;
}
