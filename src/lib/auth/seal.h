/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_SEAL_H
#define CAY_AUTH_SEAL_H
/* seal - a secret for storage: AES-256-GCM, bound to its purpose
 *
 *	 0  version, 1
 *	 1  nonce, 12 random bytes
 *	13  the secret, encrypted
 *	-16 tag of the secret and of its purpose
 *
 * The purpose (a name, an owner) is authenticated and not stored: a secret that is stored under
 * another name does not open. */
#include <stdint.h>

#include "base/str.h"

#define SEAL_KEY_LEN 32
#define SEAL_NONCE_LEN 12
#define SEAL_EXTRA (1 + SEAL_NONCE_LEN + 16) /* bytes beyond those of the secret */

struct seal_key {
	uint8_t bytes[SEAL_KEY_LEN];
};

/* The caller has a new nonce for each call.  ret has room for secret.n + SEAL_EXTRA bytes. */
[[nodiscard]] int seal_close(const struct seal_key *key, const uint8_t nonce[static SEAL_NONCE_LEN],
			     struct slice purpose, struct slice secret, uint8_t *ret);
/* ret has room for sealed.n bytes and is wiped unless all of it is authentic; *ret_n is the
 * length of the secret.  -EBADMSG: another key, another purpose, or changed bytes. */
[[nodiscard]] int seal_open(const struct seal_key *key, struct slice purpose, struct slice sealed,
			    uint8_t *ret, size_t *ret_n);
#endif
