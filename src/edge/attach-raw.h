/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_ATTACH_RAW_H
#define CAY_EDGE_ATTACH_RAW_H
/*
 * attach-raw - bare bytes for clients without frames
 *
 * A WebSocket of ATTACH_RAW carries stdout out, stdin in, and the exit status as the reason of
 * its Close.  Frames stay on the sandbox's side.  The offset of stdin comes from the first
 * frame that has it; until then (offset_known) nothing can be sent.
 *
 * stderr is read and dropped: a command that writes much there must not be blocked by a client
 * that cannot receive it.  Missing bytes are never skipped: a gap ends the connection.
 *
 * No I/O.  The sandbox is untrusted: of its JSON only words of our tables and a truncated message
 * reach the client.
 */
#include "net/ws.h"
#include "wire/attach.h"

struct attach_raw {
	uint64_t stdin_offset; /* of the next byte of stdin */
	bool offset_known;     /* stdin_offset is set */
	bool stdin_closed;     /* further input is dropped */
	bool in_message;       /* inside a message */
};

/* Output for the client: bytes, or a Close when close_code is set. */
struct attach_raw_output {
	struct slice bytes;
	unsigned close_code;
	char reason[WS_REASON_MAX + 1];
};

/* A frame of the sandbox, checked by attach_frame_decode(). */
struct attach_raw_output attach_raw_convert_frame(struct attach_raw *r, const struct frame *f);
/* Append a client's message, or a part of one, as stdin frames; an empty one ends stdin. */
[[nodiscard]] int attach_raw_convert_message(struct attach_raw *r, const struct ws_event *ev,
					     struct buf *to);
#endif
