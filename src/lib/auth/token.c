/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/token-internal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/endian.h"

enum {
	VERSION = 1,
	VERSION_LINK = 2,
	AT_SCOPE = 1,
	AT_KEY = 2,
	AT_RESERVED = 3,
	AT_TENANT = 4,
	AT_SANDBOX = 20,
	AT_EPOCH = 36,
	AT_NOT_AFTER = 40,
	AT_NONCE = 48,
	DIGEST_LEN = 32,
	PREFIX_LEN = sizeof(TOKEN_PREFIX) - 1,
};
static_assert(AT_SANDBOX - AT_TENANT == sizeof(struct id));
static_assert(TOKEN_TEXT_LEN == TOKEN_FORM_TEXT(TOKEN_COMMON));

static const struct token_form form = { TOKEN_PREFIX, VERSION, TOKEN_COMMON },
			       link_form = { TOKEN_PREFIX, VERSION_LINK, TOKEN_COMMON };

/* target is NULL where it is not a link's. */
static int token_compute_mac(const struct token_form *f, const struct token_key *key,
			     const uint8_t *bytes, const struct slice *target,
			     uint8_t ret[static TOKEN_MAC], struct cay_err *err)
{
	uint8_t all[TOKEN_SIGNED_MAX + DIGEST_LEN];
	size_t len = f->len;
	unsigned n = 0;

	memcpy(all, bytes, len);
	if (target) {
		if (!EVP_Digest(target->p, target->n, all + len, &n, EVP_sha256(), NULL) ||
		    n != DIGEST_LEN)
			return cay_fail(err, CAY_E_INTERNAL, "libcrypto made no SHA-256");
		len += DIGEST_LEN;
	}
	if (!HMAC(EVP_sha256(), key->secret, sizeof(key->secret), all, len, ret, &n) ||
	    n != TOKEN_MAC)
		return cay_fail(err, CAY_E_INTERNAL, "libcrypto made no HMAC");
	return 0;
}

int token_form_sign(const struct token_form *f, const struct token *t, const struct slice *target,
		    const struct token_key *key, uint8_t bytes[static TOKEN_BYTES_MAX], char *ret,
		    struct cay_err *err)
{
	int r;

	if (!id_is_valid(&t->tenant, ID_TENANT) || !id_is_valid(&t->sandbox, ID_SANDBOX))
		return cay_fail(err, CAY_E_INVALID, "a token is for one sandbox of one tenant");
	if (!key->number)
		return cay_fail(err, CAY_E_INVALID, "there is no key to sign tokens with");
	bytes[0] = f->version;
	bytes[AT_SCOPE] = (uint8_t)t->scope;
	bytes[AT_KEY] = key->number;
	memcpy(bytes + AT_TENANT, &t->tenant, sizeof(t->tenant));
	memcpy(bytes + AT_SANDBOX, &t->sandbox, sizeof(t->sandbox));
	le32_put(bytes + AT_EPOCH, t->epoch);
	le64_put(bytes + AT_NOT_AFTER, t->not_after);
	memcpy(bytes + AT_NONCE, t->nonce, sizeof(t->nonce));
	r = token_compute_mac(f, key, bytes, target, bytes + f->len, err);
	if (r < 0)
		return r;
	memcpy(ret, f->prefix, PREFIX_LEN);
	base64url_encode(bytes, f->len + TOKEN_MAC, ret + PREFIX_LEN);
	ret[TOKEN_FORM_TEXT(f->len)] = 0;
	return 0;
}

static bool token_scope_is_valid(enum op_scope s)
{
	return s == SCOPE_READ || s == SCOPE_WRITE;
}

static int token_sign_any(const struct token *t, const struct slice *target,
			  const struct token_key *key, char ret[static TOKEN_TEXT_LEN + 1],
			  struct cay_err *err)
{
	uint8_t bytes[TOKEN_BYTES_MAX] = {};

	if (!token_scope_is_valid(t->scope))
		return cay_fail(err, CAY_E_INVALID, "a token is for reading or writing");
	return token_form_sign(target ? &link_form : &form, t, target, key, bytes, ret, err);
}

int token_sign(const struct token *t, const struct token_key *key,
	       char ret[static TOKEN_TEXT_LEN + 1], struct cay_err *err)
{
	return token_sign_any(t, NULL, key, ret, err);
}

int token_sign_link(const struct token *t, struct slice target, const struct token_key *key,
		    char ret[static TOKEN_TEXT_LEN + 1], struct cay_err *err)
{
	if (t->scope != SCOPE_READ)
		return cay_fail(err, CAY_E_INVALID, "a link is for reading");
	return token_sign_any(t, &target, key, ret, err);
}

static int token_refuse(struct cay_err *err, const char *why)
{
	return cay_fail(err, CAY_E_UNAUTHENTICATED, "%s", why);
}

static int token_decode_bytes(const struct token_form *f, struct slice text,
			      uint8_t ret[static TOKEN_BYTES_MAX], struct cay_err *err)
{
	size_t n = 0;

	if (text.n != TOKEN_FORM_TEXT(f->len))
		return token_refuse(err, "a token of another length");
	if (memcmp(text.p, f->prefix, PREFIX_LEN) != 0)
		return token_refuse(err, "not a token: it begins differently");
	if (base64url_decode(text.p + PREFIX_LEN, text.n - PREFIX_LEN, ret, &n) < 0)
		return token_refuse(err, "the token is not base64url as Cay writes it");
	return 0;
}

static const struct token_key *token_keys_find(const struct token_keys *keys, uint8_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys->key); i++)
		if (number && keys->key[i].number == number)
			return &keys->key[i];
	return NULL;
}

/* Only version and key number are read before the signature is verified. */
static int token_check_signature(const struct token_form *f, const uint8_t *bytes,
				 const struct slice *target, const struct token_keys *keys,
				 struct cay_err *err)
{
	const struct token_key *key = token_keys_find(keys, bytes[AT_KEY]);
	uint8_t mac[TOKEN_MAC];
	int r;

	if (bytes[0] != f->version)
		return token_refuse(err, "a token of another version");
	if (!key)
		return token_refuse(err, "the token's key number is not in use");
	r = token_compute_mac(f, key, bytes, target, mac, err);
	if (r < 0)
		return r;
	if (CRYPTO_memcmp(mac, bytes + f->len, TOKEN_MAC) != 0)
		return token_refuse(err, "the token's signature is invalid");
	return 0;
}

int token_form_check(const struct token_form *f, struct slice text, const struct slice *target,
		     const struct token_check_context *when, uint8_t bytes[static TOKEN_BYTES_MAX],
		     struct token *ret, struct cay_err *err)
{
	struct token t = {};
	int r = token_decode_bytes(f, text, bytes, err);

	if (r >= 0)
		r = token_check_signature(f, bytes, target, when->keys, err);
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
		return token_refuse(err, "the token has bits this version does not know");
	if (!id_is_valid(&t.tenant, ID_TENANT))
		return token_refuse(err, "the token names no tenant");
	if (!id_is_valid(&t.sandbox, ID_SANDBOX))
		return token_refuse(err, "the token names no sandbox");
	if (when->now_s > t.not_after)
		return token_refuse(err, "the token has expired");
	if (t.epoch < when->min_epoch)
		return token_refuse(err, "the token was revoked: its epoch has passed");
	*ret = t;
	return 0;
}

static int token_check_any(struct slice text, const struct slice *target,
			   const struct token_check_context *when, struct token *ret,
			   struct cay_err *err)
{
	uint8_t bytes[TOKEN_BYTES_MAX] = {};
	struct token t = {};
	int r = token_form_check(target ? &link_form : &form, text, target, when, bytes, &t, err);

	if (r < 0)
		return r;
	if (!token_scope_is_valid(t.scope))
		return token_refuse(err, "the token's scope is neither read nor write");
	*ret = t;
	return 0;
}

int token_check(struct slice text, const struct token_keys *keys, uint64_t now_s,
		uint32_t min_epoch, struct token *ret, struct cay_err *err)
{
	return token_check_any(text, NULL, &(struct token_check_context){ keys, now_s, min_epoch },
			       ret, err);
}

int token_check_link_target(struct slice text, struct slice target, const struct token_keys *keys,
			    uint64_t now_s, uint32_t min_epoch, struct token *ret,
			    struct cay_err *err)
{
	int r = token_check_any(text, &target,
				&(struct token_check_context){ keys, now_s, min_epoch }, ret, err);

	if (r >= 0 && ret->scope != SCOPE_READ)
		return token_refuse(err, "the link's scope is not read");
	return r;
}
