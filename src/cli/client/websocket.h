/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_WEBSOCKET_H
#define CAY_CLI_CLIENT_WEBSOCKET_H
/*
 * websocket - the client's side of a WebSocket (RFC 6455) to cay-edge
 *
 * Messages are unfragmented and binary.  Fragments, masked or text messages and those longer
 * than WEBSOCKET_MESSAGE_MAX are refused: cay-edge sends none.
 */
#include "base/buf.h"
#include "base/str.h"
#include "wire/attach.h"

#define WEBSOCKET_KEY_LEN 24
#define WEBSOCKET_ACCEPT_LEN 28
#define WEBSOCKET_MESSAGE_MAX (FRAME_HEAD + ATTACH_FRAME_MAX)

enum websocket_kind { WEBSOCKET_BINARY = 2, WEBSOCKET_CLOSE = 8, WEBSOCKET_PING, WEBSOCKET_PONG };

struct websocket_message {
	enum websocket_kind kind;
	struct slice data;
	unsigned code; /* of a Close; 1005: it carries none */
};

/* A random Sec-WebSocket-Key, and the Sec-WebSocket-Accept that answers it. */
[[nodiscard]] int websocket_create_key(char ret[static WEBSOCKET_KEY_LEN + 1]);
[[nodiscard]] int websocket_compute_accept(const char *key,
					   char ret[static WEBSOCKET_ACCEPT_LEN + 1]);

/* Queue a message, masked. */
[[nodiscard]] int websocket_write_message(struct buf *out, enum websocket_kind kind, const void *p,
					  size_t n);
/* Read one message: bytes used, 0 when more are needed, -EPROTO. */
[[nodiscard]] ssize_t websocket_read_message(const uint8_t *in, size_t n,
					     struct websocket_message *ret);
#endif
