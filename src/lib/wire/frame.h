/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_FRAME_H
#define CAY_WIRE_FRAME_H
/* frame - the output of a process, on its way to a client
 *
 * application/vnd.cay.frames is a sequence of frames, a 16-byte little-endian header and then
 * `length` bytes:
 *
 *	 0  u8   type     1 data, 2 gap, 3 end, 4 error, 5 taken, 6 eof, 7 size, 8 role
 *	 1  u8   stream   0 stdin, 1 stdout, 2 stderr, 3 events; 0 for end, error, size and role
 *	 2  u16  zero
 *	 4  u32  length   at most FRAME_MAX
 *	 8  u64  offset   absolute: bytes of this stream before it
 *
 * data   the bytes at that offset, at least one; events are lines of JSON (docs/kernels.md)
 * gap    a reader fell behind: `offset` is where the loss begins, the content
 *        a u64, how many bytes were lost
 * end    the process has ended: a JSON object {reason, ...}; the last frame
 * error  the stream has ended but the process may run: an error object; last
 * taken  the sender has this stream up to `offset`; no content
 * eof    standard input ends, or has ended, at `offset`; no content
 * size   of a terminal: u16 columns, u16 rows, neither 0
 * role   whether the receiver is, or the sender asks to be, the writer of a terminal:
 *        one byte, 0 or 1; `offset` is that of standard input
 *
 * The last four belong to a conversation (wire/attach.h), not to a reply.
 *
 * A decoder checks one frame; frame-reader.h checks that the offsets of a stream continue and that
 * nothing follows an end.
 *
 * The same frames travel in WebSocket binary messages, and as text/event-stream for clients that
 * read lines (frame_to_sse). */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define FRAME_HEAD 16
#define FRAME_MAX (1u << 20)
#define FRAME_JSON_MAX 4096 /* content of end and error */
#define FRAME_SIZE_LENGTH 4
#define FRAME_ROLE_LENGTH 1
/* Room that any frame's SSE form fits into: a byte can take six. */
#define FRAME_SSE_MAX (6u * FRAME_MAX + 256)
#define FRAME_MEDIA_TYPE "application/vnd.cay.frames"

enum frame_type {
	FRAME_DATA = 1,
	FRAME_GAP,
	FRAME_END,
	FRAME_ERROR,
	FRAME_TAKEN,
	FRAME_EOF,
	FRAME_SIZE,
	FRAME_ROLE,
	FRAME_NUM_TYPES
};
enum frame_stream { FRAME_STDIN, FRAME_STDOUT, FRAME_STDERR, FRAME_EVENTS, FRAME_NUM_STREAMS };

struct frame {
	uint8_t type, stream;
	uint32_t length;
	uint64_t offset;
	const uint8_t *content; /* length bytes; NULL in a bare header */
};

/* The header for f, whose fields must be in range (asserted: the caller is trusted). */
void frame_encode_head(const struct frame *f, uint8_t out[static FRAME_HEAD]);
[[nodiscard]] int frame_encode(const struct frame *f, struct buf *out);

/* Decode a header alone, so that content can be forwarded without being assembled. 0, or
 * -EPROTO.  The content, a gap's count and an end's braces, is only checked by
 * frame_decode(). */
[[nodiscard]] int frame_decode_head(const uint8_t in[static FRAME_HEAD], struct frame *ret);
/* Decode one whole frame from the front of in: how many bytes it took, 0 when
 * more are needed, -EPROTO.  ret->content points into in. */
[[nodiscard]] int frame_decode(const uint8_t *in, size_t n, struct frame *ret);

/* A gap's loss; the frame must be a gap that was decoded. */
uint64_t frame_gap_decode(const struct frame *f);

/* The content of a terminal's frames, which may be invalid: -EPROTO. */
[[nodiscard]] int frame_size_decode(const struct frame *f, uint16_t *ret_cols, uint16_t *ret_rows);
[[nodiscard]] int frame_role_decode(const struct frame *f, bool *ret_writes);
void frame_size_encode(uint16_t cols, uint16_t rows, uint8_t out[static FRAME_SIZE_LENGTH]);

/* One server-sent event: data: {"s":"stdout","o":0,"t":"hi\n"} "t" if the content is UTF-8,
 * "b64" otherwise; gap, end and error are events of those names. -EPROTO if the content of
 * an end or error is not one line of text, which SSE cannot carry, and for frames of a
 * conversation, which SSE does not have. */
[[nodiscard]] int frame_to_sse(const struct frame *f, struct buf *out);
const char *frame_stream_name(enum frame_stream s);
#endif
