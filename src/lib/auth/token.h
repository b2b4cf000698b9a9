/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_TOKEN_H
#define CAY_AUTH_TOKEN_H
/* token - a credential for one sandbox, for use in browsers, URLs and sandboxes
 *
 * Valid for one sandbox of one tenant, to read or to write, until a time: "cayt_" and base64url of
 * fixed bytes, signed with HMAC-SHA256.
 *
 *	 0  version, 1 or 2    20  sandbox, as base/id.h has it
 *	 1  scope              36  epoch, u32
 *	 2  key number         40  not after, unix seconds, u64
 *	 3  reserved, 0        48  8 random bytes
 *	 4  tenant             56  HMAC-SHA256 of the 56 bytes before it
 *
 * A link is a token of version 2: it is valid for reading one target only, whose SHA-256 is signed
 * after those 56 bytes and is not in the text.  The version keeps the two apart.
 *
 * Numbers are little-endian.  One token has one spelling.  It is checked without a store: it
 * expires by time, or with all others when the epoch advances.  The reason of a refusal is in the
 * message, for the log; its code is always CAY_E_UNAUTHENTICATED, and no part of the token is in
 * the message. */
#include "base/err.h"
#include "base/id.h"
#include "ops/op.h"

#define TOKEN_PREFIX "cayt_"
#define TOKEN_TEXT_LEN 123
/* One that signs, and the one before it until its last token has ended. */
#define TOKEN_KEYS 2

struct token_key {
	uint8_t number; /* 0: no key here */
	uint8_t secret[32];
};

struct token_keys {
	struct token_key key[TOKEN_KEYS];
};

struct token {
	enum op_scope scope; /* SCOPE_READ or SCOPE_WRITE */
	struct id tenant, sandbox;
	uint32_t epoch;
	uint64_t not_after; /* the last unix second it is good for */
	uint8_t nonce[8];   /* the caller's randomness; two tokens differ by it */
	uint8_t key;        /* number of the key that signed it; token_check() says */
};

/* CAY_E_INVALID for what token_check() would never accept. */
[[nodiscard]] int token_sign(const struct token *t, const struct token_key *key,
			     char ret[static TOKEN_TEXT_LEN + 1], struct cay_err *err);
/* A link; its scope must be SCOPE_READ.  target: all of it, up to where the token stands. */
[[nodiscard]] int token_sign_link(const struct token *t, struct slice target,
				  const struct token_key *key, char ret[static TOKEN_TEXT_LEN + 1],
				  struct cay_err *err);
/* *ret is written only when the token is good at now_s and not older than
 * min_epoch.  What it is then good for is actor_check_access()'s to say (ops/actor.h). */
[[nodiscard]] int token_check(struct slice text, const struct token_keys *keys, uint64_t now_s,
			      uint32_t min_epoch, struct token *ret, struct cay_err *err);
[[nodiscard]] int token_check_link_target(struct slice text, struct slice target,
					  const struct token_keys *keys, uint64_t now_s,
					  uint32_t min_epoch, struct token *ret,
					  struct cay_err *err);
#endif
