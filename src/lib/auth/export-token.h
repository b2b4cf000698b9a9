/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_EXPORT_TOKEN_H
#define CAY_AUTH_EXPORT_TOKEN_H
/* export-token - the secret in the URL of an export (ADR 0085)
 *
 * "cayx_" and base64url of random bytes.  Nothing is signed: cayd keeps it with the export, and an
 * edge knows the tag of every URL that is valid now.  The tag covers the whole target, so a token
 * is worth nothing with another path.  It is as long as the token of a link, which is what every
 * PID 1 accepts in a query. */
#include "auth/token.h"

#define EXPORT_TOKEN_PREFIX "cayx_"
#define EXPORT_TOKEN_RANDOM 88
#define EXPORT_TAG_LEN 16

void export_token_format(const uint8_t random[static EXPORT_TOKEN_RANDOM],
			 char ret[static TOKEN_TEXT_LEN + 1]);
/* target: all of it, with the token at its end. */
void export_tag(struct slice target, uint8_t ret[static EXPORT_TAG_LEN]);
bool export_tag_equals(const uint8_t a[static EXPORT_TAG_LEN],
		       const uint8_t b[static EXPORT_TAG_LEN]);
#endif
