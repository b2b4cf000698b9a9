/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_WSC_H
#define CAY_CLI_WSC_H
/*
 * wsc - the client's side of a WebSocket (RFC 6455), as cay-edge speaks it
 *
 * Messages are whole, binary and bounded; what is in fragments, masked, text or
 * longer than WSC_MESSAGE_MAX is refused: cay-edge sends none of that, and
 * whoever stands between is not believed more.
 */
#include "base/buf.h"
#include "base/str.h"
#include "wire/attach.h"

#define WSC_KEY_LEN 24
#define WSC_ACCEPT_LEN 28
#define WSC_MESSAGE_MAX (FRAME_HEAD + ATTACH_FRAME_MAX)

enum wsc_kind { WSC_BINARY = 2, WSC_CLOSE = 8, WSC_PING = 9, WSC_PONG = 10 };

struct wsc_message {
	enum wsc_kind kind;
	struct slice data;
	unsigned code; /* of a Close; 1005: it has none */
};

/* A key nobody can guess, and what a server that means it answers. */
[[nodiscard]] int wsc_key(char ret[static WSC_KEY_LEN + 1]);
[[nodiscard]] int wsc_accept(const char *key, char ret[static WSC_ACCEPT_LEN + 1]);

/* Queue a message, masked. */
[[nodiscard]] int wsc_put(struct buf *out, enum wsc_kind kind, const void *p, size_t n);
/* One message off the front of in: bytes it took, 0 when more are needed, -EPROTO. */
[[nodiscard]] ssize_t wsc_next(const uint8_t *in, size_t n, struct wsc_message *ret);
#endif
