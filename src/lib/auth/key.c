/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/key.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "text/base64.h"
#include "text/hex.h"

#define DIGITS "0123456789abcdefghjkmnpqrstvwxyz"
static const char mark[] = { 'c', 'a', 'y', '_' };
static_assert(sizeof(mark) + KEY_PREFIX_LEN + 1 + KEY_SECRET_LEN == KEY_TEXT_LEN);
static_assert(BASE64_TEXT(KEY_SECRET_BYTES) == KEY_SECRET_LEN + 1);

void key_prefix_format(const uint8_t random[static KEY_PREFIX_BYTES],
		       char ret[static KEY_PREFIX_LEN + 1])
{
	uint64_t v = 0;

	for (size_t i = 0; i < KEY_PREFIX_BYTES; i++)
		v = v << 8 | random[i];
	for (size_t i = KEY_PREFIX_LEN; i-- > 0; v >>= 5)
		ret[i] = DIGITS[v & 31];
	ret[KEY_PREFIX_LEN] = 0;
}

void key_format(const char prefix[static KEY_PREFIX_LEN],
		const uint8_t random[static KEY_SECRET_BYTES], char ret[static KEY_TEXT_LEN + 1])
{
	char *secret = ret + KEY_TEXT_LEN - KEY_SECRET_LEN;

	memcpy(ret, mark, sizeof(mark));
	memcpy(ret + sizeof(mark), prefix, KEY_PREFIX_LEN);
	secret[-1] = '_';
	base64_encode(random, KEY_SECRET_BYTES, secret); /* its '=' is where the 0 will be */
	for (size_t i = 0; i < KEY_SECRET_LEN; i++)
		if (secret[i] == '+' || secret[i] == '/')
			secret[i] = secret[i] == '+' ? '-' : '_';
	secret[KEY_SECRET_LEN] = 0;
}

static bool key_secret_is_valid(const char *p)
{
	char text[KEY_SECRET_LEN + 1];
	uint8_t bytes[BASE64_BYTES(sizeof(text))];
	size_t n;
	bool good;

	for (size_t i = 0; i < KEY_SECRET_LEN; i++) {
		if (!ascii_is_alnum(p[i]) && p[i] != '-' && p[i] != '_')
			return false;
		text[i] = p[i] == '-' ? '+' : p[i] == '_' ? '/' : p[i];
	}
	text[KEY_SECRET_LEN] = '=';
	good = base64_decode(text, sizeof(text), bytes, &n) == 0 && n == KEY_SECRET_BYTES;
	OPENSSL_cleanse(bytes, sizeof(bytes));
	OPENSSL_cleanse(text, sizeof(text));
	return good;
}

int key_from_e2b(struct slice text, char ret[static KEY_TEXT_LEN + 1])
{
	uint8_t bytes[KEY_PREFIX_BYTES + KEY_SECRET_BYTES];
	char prefix[KEY_PREFIX_LEN + 1];

	if (text.n != KEY_E2B_LEN || memcmp(text.p, "e2b_", 4) != 0 ||
	    hex_decode(text.p + 4, text.n - 4, bytes, sizeof(bytes)) < 0)
		return -EINVAL;
	key_prefix_format(bytes, prefix);
	key_format(prefix, bytes + KEY_PREFIX_BYTES, ret);
	explicit_bzero(bytes, sizeof(bytes));
	return 0;
}

int key_parse(struct slice text, char ret_prefix[static KEY_PREFIX_LEN + 1])
{
	const char *prefix = text.p + sizeof(mark);

	if (text.n != KEY_TEXT_LEN || memcmp(text.p, mark, sizeof(mark)) != 0 ||
	    prefix[KEY_PREFIX_LEN] != '_' || !key_secret_is_valid(prefix + KEY_PREFIX_LEN + 1))
		return -EINVAL;
	for (size_t i = 0; i < KEY_PREFIX_LEN; i++)
		if (!prefix[i] || !strchr(DIGITS, prefix[i]))
			return -EINVAL;
	memcpy(ret_prefix, prefix, KEY_PREFIX_LEN);
	ret_prefix[KEY_PREFIX_LEN] = 0;
	return 0;
}

void key_hash(struct slice text, uint8_t ret[static KEY_HASH_LEN])
{
	(void)SHA256((const uint8_t *)text.p, text.n, ret);
}

void key_name_tag(const char *group, uint8_t ret[static KEY_NAME_TAG_LEN])
{
	uint8_t hash[KEY_HASH_LEN] = {};

	if (group && group[0])
		key_hash(slice_of(group), hash);
	memcpy(ret, hash, KEY_NAME_TAG_LEN);
}

bool key_matches_hash(struct slice text, const uint8_t hash[static KEY_HASH_LEN])
{
	uint8_t own[KEY_HASH_LEN];

	key_hash(text, own);
	return CRYPTO_memcmp(own, hash, KEY_HASH_LEN) == 0;
}
