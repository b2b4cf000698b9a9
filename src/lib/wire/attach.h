/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_ATTACH_H
#define CAY_WIRE_ATTACH_H
/*
 * attach - frames both ways between a client and a command that runs
 *
 * cay-init goes on in ATTACH_UPGRADE after "101" to exec.attach: frames, one behind
 * the other.  cay-edge speaks the same to the world in a WebSocket, a frame a message, or
 * without them (ATTACH_RAW, edge/attach-raw.h).
 *
 *	out  taken or eof of stdin, first: where it stands;  then
 *	     data, gap   of stdout and stderr, from the offsets that were asked for
 *	     taken       stdin: so much of it is in the command's pipe
 *	     eof         stdin is closed; what was sent behind `offset` went nowhere
 *	     size        of the terminal, first and when it changes
 *	     role        of a terminal: this client is its writer, or not any more;
 *	                 what it sent behind `offset` went nowhere
 *	     end, error  last
 *	in   data        of stdin, at the offset where it stands
 *	     eof         of stdin, at the same
 *	     taken       stdout, stderr: the client has so much (where it said it would)
 *	     size        for the terminal; from who is not its writer it is ignored
 *	     role        1: make me the writer, 0: I only watch
 *
 * Both programs look at every frame of the other side with the same rules, because
 * each has a stranger there: a frame that is not in this table, or longer than
 * ATTACH_FRAME_MAX, ends the conversation.
 */
#include "wire/frame.h"

#define ATTACH_UPGRADE "cay-frames"        /* between cay-edge and cay-init */
#define ATTACH_PROTOCOL "cay.frames.v1"    /* of the WebSocket */
#define ATTACH_RAW "cay.raw.v1"            /* of the WebSocket, instead: bytes */
#define ATTACH_TOKEN_PROTOCOL "cay.token." /* a credential, from who has no headers */
#define ATTACH_FRAME_MAX KIB(64)

/* Close codes of the WebSocket, beside those of RFC 6455. */
enum attach_close {
	ATTACH_REFUSED = 4000, /* an error frame came before it */
	ATTACH_GONE = 4001,    /* the sandbox, or its PID 1, went away */
	ATTACH_BROKEN = 4002,  /* what came from the sandbox is no frame */
	/* of ATTACH_RAW, which has no frames to say it with */
	ATTACH_FAILED = 4003, /* the command ended, but not with status 0 */
	ATTACH_MISSED = 4004, /* some of stdout is not there any more */
};

enum attach_direction { ATTACH_OUT, ATTACH_IN };

/* A header alone: may this come from there?  0 or -EPROTO. */
[[nodiscard]] int attach_frame_check(enum attach_direction way, const struct frame *f);
/* One whole frame at the front of in: how many bytes it takes, 0 when more are needed,
 * -EPROTO as soon as its header shows it. */
[[nodiscard]] int attach_frame_decode(enum attach_direction way, const uint8_t *in, size_t n,
				      struct frame *ret);
#endif
