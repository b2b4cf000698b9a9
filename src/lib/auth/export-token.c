/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/export-token.h"

#include <openssl/crypto.h>
#include <string.h>

#include "auth/key.h"
#include "text/base64.h"

#define PREFIX_LEN (sizeof(EXPORT_TOKEN_PREFIX) - 1)
static_assert(PREFIX_LEN + BASE64URL_TEXT(EXPORT_TOKEN_RANDOM) == TOKEN_TEXT_LEN);
static_assert(EXPORT_TAG_LEN <= KEY_HASH_LEN);

void export_token_format(const uint8_t random[static EXPORT_TOKEN_RANDOM],
			 char ret[static TOKEN_TEXT_LEN + 1])
{
	memcpy(ret, EXPORT_TOKEN_PREFIX, PREFIX_LEN);
	base64url_encode(random, EXPORT_TOKEN_RANDOM, ret + PREFIX_LEN);
	ret[TOKEN_TEXT_LEN] = 0;
}

void export_tag(struct slice target, uint8_t ret[static EXPORT_TAG_LEN])
{
	uint8_t hash[KEY_HASH_LEN];

	key_hash(target, hash);
	memcpy(ret, hash, EXPORT_TAG_LEN);
}

bool export_tag_equals(const uint8_t a[static EXPORT_TAG_LEN],
		       const uint8_t b[static EXPORT_TAG_LEN])
{
	return CRYPTO_memcmp(a, b, EXPORT_TAG_LEN) == 0;
}
