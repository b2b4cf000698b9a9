/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_JWS_H
#define CAY_AUTH_JWS_H
/* jws - verify a signed text of three parts (RFC 7515, compact form)
 *
 * The algorithm belongs to the key: the header's 'kid' selects the key, and the header's 'alg' must
 * then be the key's.  A header with a key, a key's URL, or a critical extension is refused.  The
 * payload is returned only after its signature has been verified. */
#include "auth/jwks.h"
#include "text/json.h"

#define JWS_TEXT_MAX KIB(8)
#define JWS_PAYLOAD_MAX (JWS_TEXT_MAX / 4 * 3)

/* An object of untrusted JSON; `why` is the refusal of anything else. */
[[nodiscard]] int jws_parse_object(const uint8_t *bytes, size_t n, const struct json_limits *limits,
				   json_t **ret, const char *why, struct cay_err *err);
/* CAY_E_UNAUTHENTICATED; the reason, without any of the text, is in the message for the log. */
[[nodiscard]] int jws_verify(struct slice text, const struct jwks *keys,
			     uint8_t ret[static JWS_PAYLOAD_MAX], size_t *ret_n,
			     struct cay_err *err);
#endif
