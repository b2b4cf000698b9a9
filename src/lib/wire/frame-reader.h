/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_FRAME_READER_H
#define CAY_WIRE_FRAME_READER_H
/* frame-reader - read a stream of frames as it arrives
 *
 * frame.h checks one frame; this checks their sequence: the offsets of a stream continue where they
 * stopped (a gap accounts for missing bytes), only requested streams appear, and nothing follows an
 * end or an error.  A stream that breaks a rule stays refused.
 *
 * Bytes go in as they come, in pieces of any size, and content goes out in pieces that point into
 * them: a frame of a MiB is never assembled, so a reader holds at most FRAME_JSON_MAX.
 *
 * next[] is where to resume after a broken connection. */
#include <sys/types.h>

#include "wire/frame.h"

#define STREAM_BIT(s) (1u << (s))

enum frame_reader_event { STREAM_MORE, STREAM_DATA, STREAM_GAP, STREAM_END, STREAM_ERROR };

struct frame_reader_item {
	enum frame_reader_event event;
	enum frame_stream stream; /* of data and gap */
	const uint8_t *p;         /* data: bytes; end, error: JSON, valid until the next call */
	size_t n;
	uint64_t lost; /* gap: bytes */
};

struct frame_reader {
	uint64_t next[FRAME_NUM_STREAMS]; /* the offset that has to come */
	unsigned allowed;                 /* STREAM_BIT()s that may appear */
	unsigned unplaced; /* STREAM_BIT()s that begin where their first frame says */
	bool over;         /* an end or an error was read */
	bool refused;
	uint32_t left; /* bytes of a data frame still to come */
	uint8_t current;
	size_t n_held;
	uint8_t held[FRAME_HEAD + FRAME_JSON_MAX]; /* a frame that is not yet whole */
};

static inline struct frame_reader frame_reader_create(unsigned allowed)
{
	return (struct frame_reader){ .allowed = allowed };
}

/* Take bytes from the front of in: returns how many, or -EPROTO.  At most one item is
 * written to *ret; call again while the event is not STREAM_MORE or bytes are left. */
[[nodiscard]] ssize_t frame_reader_feed(struct frame_reader *s, const uint8_t *in, size_t n,
					struct frame_reader_item *ret);
#endif
