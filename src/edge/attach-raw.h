/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_ATTACH_RAW_H
#define CAY_EDGE_ATTACH_RAW_H
/*
 * raw - bare bytes for who knows no frames
 *
 * What a WebSocket of ATTACH_RAW carries: stdout out, stdin in, and how it ended as the
 * reason of its Close.  Frames stay on the sandbox's side.  Where stdin stands is counted
 * from the frame on that says so first; until then (known) nothing can be sent there.
 *
 * stderr is taken and not passed on: a command that says much there is not held up by a
 * client that cannot hear it.  Bytes that are missing are never passed over: a gap ends it.
 *
 * Without I/O.  What the sandbox says is a stranger's: of its JSON only words of our own
 * tables and a cut message reach the client.
 */
#include "net/ws.h"
#include "wire/attach.h"

struct attach_raw {
	uint64_t stdin_offset; /* of stdin, what is sent next */
	bool offset_known;     /* at is */
	bool stdin_closed;     /* stdin: what still comes goes nowhere */
	bool in_message;       /* a message whose first part was there */
};

/* What is for the client: bytes, or with a code a Close. */
struct attach_raw_output {
	struct slice bytes;
	unsigned close_code;
	char reason[WS_REASON_MAX + 1];
};

/* A frame of the sandbox, which attach_frame_decode() let through. */
struct attach_raw_output attach_raw_convert_frame(struct attach_raw *r, const struct frame *f);
/* A message of the client, or a part of one: frames of stdin, behind what is in `to`.  One
 * without a byte is the end of it. */
[[nodiscard]] int attach_raw_convert_message(struct attach_raw *r, const struct ws_event *ev,
					     struct buf *to);
#endif
