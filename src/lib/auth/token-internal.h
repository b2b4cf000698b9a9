/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_TOKEN_INTERNAL_H
#define CAY_AUTH_TOKEN_INTERNAL_H
/*
 * What token.c and preview.c share: a prefix, and base64url of bytes that are signed.
 *
 * The first TOKEN_COMMON of them are those of auth/token.h, whatever it is; what else a form
 * has stands behind them, and the signature is last.
 */
#include "auth/token.h"
#include "text/base64.h"

#define TOKEN_COMMON 56
#define TOKEN_SIGNED_MAX 60
#define TOKEN_MAC 32
#define TOKEN_BYTES_MAX (TOKEN_SIGNED_MAX + TOKEN_MAC)

struct token_form {
	char prefix[sizeof(TOKEN_PREFIX)]; /* all are as long */
	uint8_t version;                   /* no two forms have the same */
	size_t len;                        /* bytes that are signed */
};
#define TOKEN_FORM_TEXT(len_) \
	(sizeof(TOKEN_PREFIX) - 1 + BASE64URL_TEXT((size_t)(len_) + TOKEN_MAC))

struct token_check_context {
	const struct token_keys *keys;
	uint64_t now_s;
	uint32_t min_epoch;
};

/* bytes has what is behind the common ones, and zeros; ret has room for the text and a 0.
 * The scope is the caller's to check, here and below. */
[[nodiscard]] int token_form_sign(const struct token_form *f, const struct token *t,
				  const struct slice *target, const struct token_key *key,
				  uint8_t bytes[static TOKEN_BYTES_MAX], char *ret,
				  struct cay_err *err);
/* bytes gets all of them.  *ret is written only when they are ours, and good by then. */
[[nodiscard]] int token_form_check(const struct token_form *f, struct slice text,
				   const struct slice *target,
				   const struct token_check_context *when,
				   uint8_t bytes[static TOKEN_BYTES_MAX], struct token *ret,
				   struct cay_err *err);
#endif
