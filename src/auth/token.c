/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/le.h"
#include "text/base64.h"

enum {
	VERSION = 1,
	AT_SCOPE = 1,
	AT_KEY = 2,
	AT_RESERVED = 3,
	AT_TENANT = 4,
	AT_SANDBOX = 20,
	AT_EPOCH = 36,
	AT_NOT_AFTER = 40,
	AT_NONCE = 48,
	AT_MAC = 56,
	MAC_LEN = 32,
	TOKEN_BYTES = AT_MAC + MAC_LEN,
	PREFIX_LEN = sizeof(TOKEN_PREFIX) - 1,
};
static_assert(AT_SANDBOX - AT_TENANT == sizeof(struct id));
static_assert(TOKEN_TEXT_LEN == PREFIX_LEN + BASE64URL_TEXT(TOKEN_BYTES));

static int sign(const struct token_key *key, const uint8_t *bytes, uint8_t ret[static MAC_LEN],
		struct cay_err *err)
{
	unsigned n = 0;

	if (!HMAC(EVP_sha256(), key->secret, sizeof(key->secret), bytes, AT_MAC, ret, &n) ||
	    n != MAC_LEN)
		return cay_fail(err, CAY_E_INTERNAL, "libcrypto made no HMAC");
	return 0;
}

static bool scope_fits(enum op_scope s)
{
	return s == SCOPE_READ || s == SCOPE_WRITE;
}

int token_make(const struct token *t, const struct token_key *key,
	       char ret[static TOKEN_TEXT_LEN + 1], struct cay_err *err)
{
	uint8_t bytes[TOKEN_BYTES] = { VERSION };
	int r;

	if (!scope_fits(t->scope) || !id_valid(&t->tenant, ID_TENANT) ||
	    !id_valid(&t->sandbox, ID_SANDBOX))
		return cay_fail(err, CAY_E_INVALID,
				"a token is for reading or writing one sandbox of one tenant");
	if (!key->number)
		return cay_fail(err, CAY_E_INVALID, "there is no key to sign tokens with");
	bytes[AT_SCOPE] = (uint8_t)t->scope;
	bytes[AT_KEY] = key->number;
	memcpy(bytes + AT_TENANT, &t->tenant, sizeof(t->tenant));
	memcpy(bytes + AT_SANDBOX, &t->sandbox, sizeof(t->sandbox));
	le32_put(bytes + AT_EPOCH, t->epoch);
	le64_put(bytes + AT_NOT_AFTER, t->not_after);
	memcpy(bytes + AT_NONCE, t->nonce, sizeof(t->nonce));
	r = sign(key, bytes, bytes + AT_MAC, err);
	if (r < 0)
		return r;
	memcpy(ret, TOKEN_PREFIX, PREFIX_LEN);
	base64url_encode(bytes, sizeof(bytes), ret + PREFIX_LEN);
	ret[TOKEN_TEXT_LEN] = 0;
	return 0;
}

static int refuse(struct cay_err *err, const char *why)
{
	return cay_fail(err, CAY_E_UNAUTHENTICATED, "%s", why);
}

static int read_bytes(struct slice text, uint8_t ret[static TOKEN_BYTES], struct cay_err *err)
{
	size_t n = 0;

	if (text.n != TOKEN_TEXT_LEN)
		return refuse(err, "a token of another length");
	if (memcmp(text.p, TOKEN_PREFIX, PREFIX_LEN) != 0)
		return refuse(err, "not a token: it begins differently");
	if (base64url_decode(text.p + PREFIX_LEN, text.n - PREFIX_LEN, ret, &n) < 0)
		return refuse(err, "the token is not base64url as Cay writes it");
	return 0;
}

static const struct token_key *find_key(const struct token_keys *keys, uint8_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys->key); i++)
		if (number && keys->key[i].number == number)
			return &keys->key[i];
	return NULL;
}

/* Nothing but version and key number is looked at before the signature is known
 * to be ours. */
static int check_signature(const uint8_t bytes[static TOKEN_BYTES], const struct token_keys *keys,
			   struct cay_err *err)
{
	const struct token_key *key = find_key(keys, bytes[AT_KEY]);
	uint8_t mac[MAC_LEN];
	int r;

	if (bytes[0] != VERSION)
		return refuse(err, "a token of another version");
	if (!key)
		return refuse(err, "the token's key number is not in use");
	r = sign(key, bytes, mac, err);
	if (r < 0)
		return r;
	if (CRYPTO_memcmp(mac, bytes + AT_MAC, MAC_LEN) != 0)
		return refuse(err, "the token's signature is wrong");
	return 0;
}

int token_check(struct slice text, const struct token_keys *keys, uint64_t now_s,
		uint32_t min_epoch, struct token *ret, struct cay_err *err)
{
	uint8_t bytes[TOKEN_BYTES] = {};
	struct token t = {};
	int r = read_bytes(text, bytes, err);

	if (r < 0)
		return r;
	r = check_signature(bytes, keys, err);
	if (r < 0)
		return r;
	t.scope = (enum op_scope)bytes[AT_SCOPE];
	memcpy(&t.tenant, bytes + AT_TENANT, sizeof(t.tenant));
	memcpy(&t.sandbox, bytes + AT_SANDBOX, sizeof(t.sandbox));
	t.epoch = le32_get(bytes + AT_EPOCH);
	t.not_after = le64_get(bytes + AT_NOT_AFTER);
	memcpy(t.nonce, bytes + AT_NONCE, sizeof(t.nonce));
	t.key = bytes[AT_KEY];
	/* ours by its signature, but perhaps of a later Cay */
	if (bytes[AT_RESERVED])
		return refuse(err, "the token has bits this version does not know");
	if (!scope_fits(t.scope))
		return refuse(err, "the token's scope is neither read nor write");
	if (!id_valid(&t.tenant, ID_TENANT))
		return refuse(err, "the token names no tenant");
	if (!id_valid(&t.sandbox, ID_SANDBOX))
		return refuse(err, "the token names no sandbox");
	if (now_s > t.not_after)
		return refuse(err, "the token has expired");
	if (t.epoch < min_epoch)
		return refuse(err, "the token was revoked: its epoch is over");
	*ret = t;
	return 0;
}
