/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame-reader.h"

#include <string.h>

static ssize_t frame_reader_refuse(struct frame_reader *s)
{
	s->refused = true;
	return -EPROTO;
}

/* The first frame of a stream that may begin anywhere. */
static void frame_reader_place(struct frame_reader *s, const struct frame *f)
{
	if (f->type >= FRAME_END || !(s->unplaced & STREAM_BIT(f->stream)))
		return;
	s->unplaced &= ~STREAM_BIT(f->stream);
	s->next[f->stream] = f->offset;
}

static bool frame_reader_is_in_order(const struct frame_reader *s, const struct frame *f)
{
	if (f->type >= FRAME_END)
		return f->type <= FRAME_ERROR;
	return (s->allowed & STREAM_BIT(f->stream)) && f->offset == s->next[f->stream];
}

/* Buffer bytes until there are `want`; returns the number taken. */
static size_t frame_reader_buffer(struct frame_reader *s, const uint8_t *in, size_t n, size_t want)
{
	size_t take = want - s->n_held < n ? want - s->n_held : n;

	if (take)
		memcpy(s->held + s->n_held, in, take);
	s->n_held += take;
	return take;
}

static size_t frame_reader_pass_data(struct frame_reader *s, const uint8_t *in, size_t n,
				     struct frame_reader_item *ret)
{
	size_t take = n < s->left ? n : s->left;

	if (!take)
		return 0;
	*ret = (struct frame_reader_item){
		.event = STREAM_DATA, .stream = s->current, .p = in, .n = take
	};
	s->left -= (uint32_t)take;
	s->next[s->current] += take;
	return take;
}

/* A gap, an end or an error is in held[], whole. */
static int frame_reader_finish_frame(struct frame_reader *s, struct frame_reader_item *ret)
{
	struct frame f;

	if (frame_decode(s->held, s->n_held, &f) <= 0)
		return -EPROTO;
	s->n_held = 0;
	if (f.type == FRAME_GAP) {
		uint64_t lost = frame_gap_decode(&f);

		if (lost == 0)
			return -EPROTO;
		s->next[f.stream] += lost;
		*ret = (struct frame_reader_item){ .event = STREAM_GAP,
						   .stream = f.stream,
						   .lost = lost };
		return 0;
	}
	s->over = true;
	*ret = (struct frame_reader_item){
		.event = f.type == FRAME_END ? STREAM_END : STREAM_ERROR,
		.p = f.content,
		.n = f.length,
	};
	return 0;
}

ssize_t frame_reader_feed(struct frame_reader *s, const uint8_t *in, size_t n,
			  struct frame_reader_item *ret)
{
	struct frame f;
	size_t took;

	*ret = (struct frame_reader_item){};
	if (s->refused || (s->over && n)) /* nothing follows an end */
		return frame_reader_refuse(s);
	if (s->left)
		return (ssize_t)frame_reader_pass_data(s, in, n, ret);
	took = s->n_held < FRAME_HEAD ? frame_reader_buffer(s, in, n, FRAME_HEAD) : 0;
	if (s->n_held < FRAME_HEAD)
		return (ssize_t)took;
	if (frame_decode_head(s->held, &f) < 0)
		return frame_reader_refuse(s);
	frame_reader_place(s, &f);
	if (!frame_reader_is_in_order(s, &f))
		return frame_reader_refuse(s);
	if (f.type == FRAME_DATA) {
		s->left = f.length;
		s->current = f.stream;
		s->n_held = 0;
		return (ssize_t)(took + frame_reader_pass_data(s, in + took, n - took, ret));
	}
	took += frame_reader_buffer(s, in + took, n - took, FRAME_HEAD + f.length);
	if (s->n_held == FRAME_HEAD + f.length && frame_reader_finish_frame(s, ret) < 0)
		return frame_reader_refuse(s);
	return (ssize_t)took;
}
