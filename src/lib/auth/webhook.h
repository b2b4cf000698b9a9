/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_WEBHOOK_H
#define CAY_AUTH_WEBHOOK_H
/*
 * webhook - signed requests that tell a server of events, as the Standard Webhooks have it
 *
 *	webhook-id: evt_...             the same in each try
 *	webhook-timestamp: 1794986299   of this try
 *	webhook-signature: v1,BASE64    HMAC-SHA256 of "ID.TIMESTAMP.BODY"
 *
 * The secret is "whsec_" and the base64 of 24 to 64 bytes.  Pure.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define WEBHOOK_SECRET_MAX 64
#define WEBHOOK_URL_MAX 512
#define WEBHOOK_ID_LEN 36 /* "evt_" and 32 digits */
#define WEBHOOK_HEAD_MAX KIB(2)

struct webhook_secret {
	size_t n;
	uint8_t bytes[WEBHOOK_SECRET_MAX];
};

struct webhook_url {
	bool tls;
	uint16_t port;
	char host[WEBHOOK_URL_MAX];   /* a name or an address */
	char target[WEBHOOK_URL_MAX]; /* the path, at least "/", and the query */
};

/* A file with one line.  -EINVAL: it has another form; the text is not repeated anywhere. */
[[nodiscard]] int webhook_secret_parse(struct slice text, struct webhook_secret *ret);
/* "https://HOST[:PORT][/PATH]", or http://; -EINVAL for a user, a fragment, spaces, or IPv6. */
[[nodiscard]] int webhook_url_parse(const char *text, struct webhook_url *ret);
/* Append a whole request. */
[[nodiscard]] int webhook_request_write(const struct webhook_url *to,
					const struct webhook_secret *secret, const char *id,
					uint64_t time_s, struct slice body, struct buf *ret);
#endif
