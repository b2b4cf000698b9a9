/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_PREVIEW_H
#define CAY_AUTH_PREVIEW_H
/* preview - the host of a sandbox's port or screen, and the token that admits to it
 *
 * Each port of each sandbox has a host of its own below one domain, PORT-SANDBOX.DOMAIN, and so has
 * its screen, desktop-SANDBOX.DOMAIN, so that a browser isolates them from each other and from the
 * API.  There is one spelling, case-insensitive like Host headers.
 *
 * A token admits to one port, or to the screen, of one sandbox of one tenant, until a time: "cayp_"
 * and base64url of the bytes of auth/token.h, with version 3 and no scope, and then
 *
 *	56  port, u16; 0: the screen    60  HMAC-SHA256 of the 60 bytes before it
 *	58  of the screen: 1 to watch it, 2 to control it; of a port: 0; u16
 *
 * The version, the first signed byte, keeps the two apart. */
#include "auth/token.h"
#include "base/buf.h"

#define PREVIEW_PREFIX "cayp_"
#define PREVIEW_TEXT_LEN 128
#define PREVIEW_PARAM "cay_preview"  /* of the URL that has the token */
#define PREVIEW_HEADER "Cay-Preview" /* of a program that keeps no cookies */
#define PREVIEW_HOST_MAX 253
#define PREVIEW_SCREEN_PORT 0 /* instead of a port: the screen */

/* edge.previews, "SCHEME://DOMAIN[:PORT]". */
struct preview_base {
	bool secure; /* https */
	char domain[PREVIEW_HOST_MAX + 1];
	unsigned port; /* 0: the scheme's own */
};

/* What a token for the screen admits to. */
enum preview_screen { PREVIEW_NO_SCREEN, PREVIEW_WATCH, PREVIEW_CONTROL };

struct preview {
	struct token token; /* its scope is SCOPE_NONE */
	uint16_t port;      /* or PREVIEW_SCREEN_PORT */
	uint16_t screen;    /* enum preview_screen */
};

/* CAY_E_INVALID. */
[[nodiscard]] int preview_base_parse(const char *text, struct preview_base *ret,
				     struct cay_err *err);
/* A Host header's value.  False: it is not the host of a port or screen. */
[[nodiscard]] bool preview_host_parse(const struct preview_base *b, struct slice host,
				      struct id *ret_sandbox, uint16_t *ret_port);
/* "SCHEME://PORT-SANDBOX.DOMAIN[:PORT]", with "desktop" for PREVIEW_SCREEN_PORT */
[[nodiscard]] int preview_origin_format(const struct preview_base *b, const struct id *sandbox,
					uint16_t port, struct buf *out);

[[nodiscard]] int preview_token_sign(const struct preview *p, const struct token_key *key,
				     char ret[static PREVIEW_TEXT_LEN + 1], struct cay_err *err);
/* As token_check(). */
[[nodiscard]] int preview_token_check(struct slice text, const struct token_keys *keys,
				      uint64_t now_s, uint32_t min_epoch, struct preview *ret,
				      struct cay_err *err);
#endif
