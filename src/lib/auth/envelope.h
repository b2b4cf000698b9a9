/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_ENVELOPE_H
#define CAY_AUTH_ENVELOPE_H
/* envelope - a secret that only the owner of a key can open: HPKE (RFC 9180), base mode, X25519
 *with HKDF-SHA256 and AES-256-GCM
 *
 *	 0  version, 1
 *	 1  key of the sender, made for this envelope, 32 bytes
 *	33  the secret, encrypted, and a tag of it and of its purpose
 *
 * Who closes it has the public key and cannot open it again.  The purpose is authenticated and not
 * stored: a secret that is stored under another purpose does not open. */
#include <stdint.h>

#include "base/str.h"

#define ENVELOPE_KEY_LEN 32
#define ENVELOPE_EXTRA (1 + ENVELOPE_KEY_LEN + 16) /* bytes beyond those of the secret */
#define ENVELOPE_SECRET_MAX KIB(16)

struct envelope_key {
	uint8_t bytes[ENVELOPE_KEY_LEN];
};

/* The public key of a private one: any 32 random bytes. */
[[nodiscard]] int envelope_key_derive(const struct envelope_key *private,
				      struct envelope_key *ret_public);
/* ret has room for secret.n + ENVELOPE_EXTRA bytes. */
[[nodiscard]] int envelope_close(const struct envelope_key *public, struct slice purpose,
				 struct slice secret, uint8_t *ret);
/* ret has room for closed.n bytes and is wiped unless all of it is authentic; *ret_n is the length
 * of the secret.  -EBADMSG: another key, another purpose, or changed bytes. */
[[nodiscard]] int envelope_open(const struct envelope_key *private, struct slice purpose,
				struct slice closed, uint8_t *ret, size_t *ret_n);
#endif
