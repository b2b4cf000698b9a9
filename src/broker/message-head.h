/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BROKER_MESSAGE_HEAD_H
#define CAY_BROKER_MESSAGE_HEAD_H
/*
 * message-head - heads of requests and replies, written again from their parsed form
 *
 * Nothing that both sides could read differently is passed on: headers of one connection
 * (Connection, Keep-Alive, TE, Trailer, Proxy-*) are left out, and there is one way to frame a
 * body.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "broker/credential.h"
#include "http/http.h"
#include "wire/broker-message.h"

#define MESSAGE_HEAD_MAX KIB(48)

/* CAY_E_INVALID for a request that is not for the host of the record.  A credential is set in place
 * of what the request has there; it may be NULL.  The caller wipes ret. */
[[nodiscard]] int request_head_write(const struct http_head *h, const struct broker_record *to,
				     const struct credential *credential, const struct clk *clk,
				     struct buf *ret, struct cay_err *err);
/* Whether the body of a reply can be masked: it is not compressed. */
bool reply_is_readable(const struct http_head *h);
/* Of the reply in the parser; closes: no other request may follow. */
[[nodiscard]] int reply_head_write(const struct http_parser *p, bool closes, struct buf *ret,
				   struct cay_err *err);
/* The reply that reports a failure to the sandbox. */
[[nodiscard]] int failure_reply_write(const char *why, const char *text, bool with_text,
				      struct buf *ret);
#endif
