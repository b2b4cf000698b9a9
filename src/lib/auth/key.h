/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_KEY_H
#define CAY_AUTH_KEY_H
/* key - an API key as text
 *
 *	cay_ PREFIX _ SECRET
 *
 * The prefix (eight digits of an id) is public: lists show it and the row is found by it.  The
 * secret is 32 random bytes in base64url without padding.  Only the SHA-256 of the whole text is
 * stored: with that much entropy no slow hash is needed.  There is one spelling, so that two texts
 * are equal exactly when the keys are. */
#include <stdint.h>

#include "base/str.h"

#define KEY_PREFIX_LEN 8
#define KEY_SECRET_LEN 43
#define KEY_TEXT_LEN (4 + KEY_PREFIX_LEN + 1 + KEY_SECRET_LEN)
#define KEY_HASH_LEN 32
/* Random bytes of a key: those of the prefix, then the secret's. */
#define KEY_PREFIX_BYTES 5
#define KEY_SECRET_BYTES 32

void key_prefix_format(const uint8_t random[static KEY_PREFIX_BYTES],
		       char ret[static KEY_PREFIX_LEN + 1]);
void key_format(const char prefix[static KEY_PREFIX_LEN],
		const uint8_t random[static KEY_SECRET_BYTES], char ret[static KEY_TEXT_LEN + 1]);
/* The spelling for clients that insist on a key of E2B: e2b_ and, in hex, the bytes of the prefix
 * and those of the secret.  -EINVAL. */
#define KEY_E2B_LEN (4 + 2 * (KEY_PREFIX_BYTES + KEY_SECRET_BYTES))
[[nodiscard]] int key_from_e2b(struct slice text, char ret[static KEY_TEXT_LEN + 1]);
/* -EINVAL unless it is a key; ret is touched only then. */
[[nodiscard]] int key_parse(struct slice text, char ret_prefix[static KEY_PREFIX_LEN + 1]);
void key_hash(struct slice text, uint8_t ret[static KEY_HASH_LEN]);
/* The hash by which an edge compares groups; all zero without a group. */
#define KEY_NAME_TAG_LEN 16
void key_name_tag(const char *group, uint8_t ret[static KEY_NAME_TAG_LEN]);
/* Whether this is the hash of the text, in constant time. */
bool key_matches_hash(struct slice text, const uint8_t hash[static KEY_HASH_LEN]);
#endif
