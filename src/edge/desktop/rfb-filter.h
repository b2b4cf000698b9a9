/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_DESKTOP_RFB_FILTER_H
#define CAY_EDGE_DESKTOP_RFB_FILTER_H
/*
 * rfb-filter - messages that a viewer's VNC client may send (RFC 6143, with the extensions of
 * TigerVNC and noVNC)
 *
 *	version -> security type -> shared flag -> messages
 *
 * The client must choose version 3.8 and no authentication: the socket is the user's, and the rest
 * of the stream has one meaning then.  The shared flag is always set, so that no viewer disconnects
 * the others.
 *
 * A viewer that watches may set pixel format and encodings, and ask for updates.  Messages that
 * type, click, paste, resize or restart are dropped; an unknown one ends the connection.  Whole
 * messages of known length are passed on, so a client that lies about the length of a dropped one
 * misleads only this filter about itself.  For a viewer that controls, messages are not read.
 *
 * No I/O, no memory: a message is passed on or dropped as it arrives.
 */
#include "base/buf.h"
#include "base/str.h"

#define RFB_HEAD_MAX 12

enum rfb_state { RFB_VERSION, RFB_SECURITY, RFB_SHARED, RFB_HEAD, RFB_BODY };

struct rfb_filter {
	bool controls; /* set by the owner: mouse and keys pass */
	enum rfb_state state;
	uint8_t head[RFB_HEAD_MAX]; /* of the message, while its length is not known */
	size_t n_head;
	uint64_t left; /* of the message's body */
	bool passes;   /* the body is passed on */
};

/* Append what may pass to `to`: at most in and RFB_HEAD_MAX bytes.  -EPROTO with *why: the
 * connection must be closed; -ENOMEM, -ENOBUFS. */
[[nodiscard]] int rfb_filter_push(struct rfb_filter *f, struct slice in, struct buf *to,
				  const char **why);
#endif
