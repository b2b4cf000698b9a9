/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "text/hex.h"

bool digest_eq(const struct digest *a, const struct digest *b)
{
	return memcmp(a->byte, b->byte, sizeof(a->byte)) == 0;
}

int digest_parse_hex(const char *hex, size_t n, struct digest *ret)
{
	return hex_decode(hex, n, ret->byte, sizeof(ret->byte));
}

int digest_parse(const char *text, size_t n, struct digest *ret)
{
	const size_t front = strlen(DIGEST_PREFIX);

	if (n < front || memcmp(text, DIGEST_PREFIX, front) != 0)
		return -EINVAL;
	return digest_parse_hex(text + front, n - front, ret);
}

void digest_format_hex(const struct digest *d, char ret[static DIGEST_HEX_LEN + 1])
{
	hex_encode(d->byte, sizeof(d->byte), ret);
}

int hash_library_init(void)
{
	struct hash h = {};
	int r;

	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
		return -ENOMEM;
	r = hash_init(&h); /* loads the algorithms, which are then cached */
	hash_fini(&h);
	return r;
}

int hash_init(struct hash *h)
{
	h->ctx = EVP_MD_CTX_new();
	if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1)
		return -ENOMEM;
	return 0;
}

int hash_update(struct hash *h, const void *p, size_t n)
{
	return EVP_DigestUpdate(h->ctx, p, n) == 1 ? 0 : -EIO;
}

int hash_finish(struct hash *h, struct digest *ret)
{
	unsigned n = 0;

	static_assert(sizeof(ret->byte) == 32);
	return EVP_DigestFinal_ex(h->ctx, ret->byte, &n) == 1 && n == sizeof(ret->byte) ? 0 : -EIO;
}

void hash_fini(struct hash *h)
{
	EVP_MD_CTX_free(h->ctx);
	h->ctx = NULL;
}

int digest_compute(const void *p, size_t n, struct digest *ret)
{
	struct hash h = {};
	int r = hash_init(&h);

	if (r >= 0)
		r = hash_update(&h, p, n);
	if (r >= 0)
		r = hash_finish(&h, ret);
	hash_fini(&h);
	return r;
}
