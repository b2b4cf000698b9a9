/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_TOKEN_INTERNAL_H
#define CAY_AUTH_TOKEN_INTERNAL_H
/* Shared by token.c and preview.c: a prefix, and base64url of signed bytes.
 *
 * The first TOKEN_COMMON bytes are those of auth/token.h in every form; the form's own bytes
 * follow, and the signature is last. */
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

/* bytes has the form's bytes after the common ones, and zeros; ret has room for the text and
 * a 0.  The caller checks the scope, here and below. */
[[nodiscard]] int token_form_sign(const struct token_form *f, const struct token *t,
				  const struct slice *target, const struct token_key *key,
				  uint8_t bytes[static TOKEN_BYTES_MAX], char *ret,
				  struct cay_err *err);
/* bytes gets all of them. *ret is written only if the signature is ours and the token valid. */
[[nodiscard]] int token_form_check(const struct token_form *f, struct slice text,
				   const struct slice *target,
				   const struct token_check_context *when,
				   uint8_t bytes[static TOKEN_BYTES_MAX], struct token *ret,
				   struct cay_err *err);
#endif
