/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_ATTACH_H
#define CAY_WIRE_ATTACH_H
/* attach - frames in both directions between a client and a running command
 *
 * After "101" to exec.attach, cay-init continues in ATTACH_UPGRADE: a sequence of frames.  cay-edge
 * forwards them to clients in a WebSocket, one frame per message, or without frames (ATTACH_RAW,
 * edge/attach-raw.h).
 *
 *	out  taken or eof of stdin, first: its offset;  then
 *	     data, gap   of stdout and stderr, from the requested offsets
 *	     taken       stdin: the offset up to which it is in the command's pipe
 *	     eof         stdin is closed; bytes sent after `offset` were discarded
 *	     size        of the terminal, first and when it changes
 *	     role        of a terminal: whether this client is its writer;
 *	                 bytes it sent after `offset` were discarded
 *	     end, error  last
 *	in   data        of stdin, at its current offset
 *	     eof         of stdin, at the same
 *	     taken       stdout, stderr: the client has received up to here (with `acks`)
 *	     size        for the terminal; ignored unless from its writer
 *	     role        1: become the writer, 0: only watch
 *
 * Both programs check every frame with the same rules, because neither trusts its peer: a frame
 * that is not in this table, or longer than ATTACH_FRAME_MAX, ends the connection. */
#include "wire/frame.h"

#define ATTACH_UPGRADE "cay-frames"        /* between cay-edge and cay-init */
#define ATTACH_PROTOCOL "cay.frames.v1"    /* of the WebSocket */
#define ATTACH_RAW "cay.raw.v1"            /* of the WebSocket, instead: bytes */
#define ATTACH_TOKEN_PROTOCOL "cay.token." /* a credential, for clients that cannot set headers */
#define ATTACH_FRAME_MAX KIB(64)

/* Close codes of the WebSocket, beside those of RFC 6455. */
enum attach_close {
	ATTACH_REFUSED = 4000, /* an error frame came before it */
	ATTACH_GONE = 4001,    /* the sandbox, or its PID 1, has ended */
	ATTACH_BROKEN = 4002,  /* the sandbox sent an invalid frame */
	/* for ATTACH_RAW, which has no frames for it */
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
