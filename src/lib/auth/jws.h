/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_JWS_H
#define CAY_AUTH_JWS_H
/*
 * jws - a signed text of three parts, opened (RFC 7515, compact form)
 *
 * The algorithm belongs to the key: the header's 'kid' finds the key, and the
 * header's 'alg' must then be what the key is for.  A header that brings a key, an
 * address of one, or something that must be understood is refused.  The payload
 * is handed out only after its signature held.
 */
#include "auth/jwks.h"

#define JWS_TEXT_MAX KIB(8)
#define JWS_PAYLOAD_MAX (JWS_TEXT_MAX / 4 * 3)

/* CAY_E_UNAUTHENTICATED with the reason in the message, for the log: nothing of
 * the text is in it. */
[[nodiscard]] int jws_verify(struct slice text, const struct jwks *keys,
			     uint8_t ret[static JWS_PAYLOAD_MAX], size_t *ret_n,
			     struct cay_err *err);
#endif
