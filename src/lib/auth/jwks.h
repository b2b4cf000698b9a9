/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_JWKS_H
#define CAY_AUTH_JWKS_H
/* jwks - the keys that sign foreign tokens (RFC 7517)
 *
 * A document becomes a table of at most JWKS_MAX keys, each with the one algorithm it may be used
 * with: the token's algorithm is only compared with it.  Keys for other purposes (use, key_ops,
 * alg, kty or crv not supported) are skipped, as the RFC requires; an invalid key of ours, a
 * duplicate name or a private key refuses the document, and the message says what to do.
 *
 * libcrypto is set up by the program; nothing here reads a file or a clock. */
#include "base/err.h"
#include "base/str.h"

#define JWKS_MAX 64
#define JWKS_TEXT_MAX KIB(256)
#define JWK_KID_MAX 128
#define JWK_RSA_BITS_MIN 2048
#define JWK_RSA_BITS_MAX 8192
#define JWK_SECRET_MAX 512

enum jwk_type { JWK_OCT, JWK_RSA, JWK_EC, JWK_NUM_TYPES };
enum jwk_alg { JWK_HS256, JWK_HS384, JWK_HS512, JWK_RS256, JWK_ES256, JWK_NUM_ALGS };

struct jwk_alg_row {
	const char *name;
	enum jwk_type type;
	const char *digest;
	size_t digest_len; /* and the least a secret may have (RFC 7518 section 3.2) */
};
extern const struct jwk_alg_row jwk_algs[JWK_NUM_ALGS];

struct jwk {
	char kid[JWK_KID_MAX + 1]; /* "" if it has none; then it is the only key */
	enum jwk_alg alg;
	struct evp_pkey_st *key;
};

struct jwks {
	size_t n;
	struct jwk keys[JWKS_MAX];
};

/* The caller owns *ret.  CAY_E_INVALID or CAY_E_TOO_LARGE, with a message for the file's author. */
[[nodiscard]] int jwks_parse(struct slice text, struct jwks **ret, struct cay_err *err);
void jwks_free(struct jwks *keys);
CAY_DEFINE_FREEP(jwks, jwks_free)

/* The key of that name; without a name (NULL) the only key, if it is. */
const struct jwk *jwks_find(const struct jwks *keys, const char *kid);
#endif
