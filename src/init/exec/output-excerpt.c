/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/output-excerpt.h"

#include "base/str.h"
#include "text/base64.h"

#define MEMORY_SHARE 64 /* of the sandbox's memory, for one output in a reply */

size_t output_excerpt_max(const struct init *in)
{
	uint64_t limit;
	size_t max = TELL_MAX;

	if (memory_read_limit(&in->memory, &limit) < 0)
		return max;
	while (max > RING_MAX && max > limit / MEMORY_SHARE)
		max /= 2;
	return max;
}

void output_keep_excerpt(struct output *o, const struct run_query *q)
{
	size_t max = RING_MAX;

	while (max < q->max_output_bytes && max < TELL_MAX)
		max *= 2;
	if (o->ring.max < max)
		o->ring.max = max;
}

void output_excerpt_fini(struct output_excerpt *t)
{
	buf_fini(&t->raw);
	buf_fini(&t->b64);
	buf_fini(&t->tail);
	buf_fini(&t->tail_b64);
}

/* UTF-8 without many characters to escape, so that the reply stays bounded. */
static bool output_excerpt_is_text(const char *p, size_t n)
{
	size_t escapes = 0;

	for (size_t i = 0; i < n; i++) {
		if (!p[i])
			return false;
		escapes += p[i] == 0x7f || ((unsigned char)p[i] < 0x20 && p[i] != '\n' &&
					    p[i] != '\t' && p[i] != '\r');
	}
	return escapes <= n / 8 && utf8_is_valid(p, n);
}

static int output_excerpt_encode(struct buf *raw, struct buf *b64, const char **ret_text,
				 const char **ret_b64)
{
	int r;

	if (output_excerpt_is_text(buf_str(raw), raw->len)) {
		*ret_text = buf_str(raw);
		return 0;
	}
	r = buf_reserve(b64, BASE64_TEXT(raw->len));
	if (r < 0)
		return r;
	base64_encode((const uint8_t *)raw->data, raw->len, b64->data);
	b64->len = BASE64_TEXT(raw->len);
	b64->data[b64->len] = 0;
	*ret_b64 = b64->data;
	return 0;
}

/* Skip the rest of a character, so that the tail is text. */
static void output_excerpt_trim_start(struct buf *raw, uint64_t *offset)
{
	for (int cut = 0; cut < 4 && *offset && raw->len && (raw->data[0] & 0xC0) == 0x80; cut++) {
		buf_consume(raw, 1);
		(*offset)++;
	}
}

/* The bytes of [pos, end) that are in memory, from *ret_offset on. */
static int output_excerpt_read(const struct output *o, uint64_t pos, uint64_t end, struct buf *raw,
			       uint64_t *ret_offset)
{
	size_t n;
	int r;

	/* bytes in a file are left out: a reply does not wait for a disk */
	pos += output_bytes_not_in_memory(o, pos);
	pos = pos < end ? pos : end;
	*ret_offset = pos;
	r = buf_reserve(raw, (size_t)(end - pos));
	if (r < 0)
		return r;
	while (pos < end && (n = output_read(o, pos, raw->data + raw->len, (size_t)(end - pos)))) {
		raw->len += n;
		raw->data[raw->len] = 0;
		pos += n;
	}
	output_excerpt_trim_start(raw, ret_offset);
	return 0;
}

size_t output_excerpt_head_max(const struct run_query *q)
{
	uint64_t max = q->max_output_bytes < TELL_MAX ? q->max_output_bytes : TELL_MAX;

	return (size_t)(q->keep == KEEP_HEAD ? max : q->keep == KEEP_BOTH ? max / 2 : 0);
}

/* The head, if all of it is there; a character is not cut where more would follow. */
static int output_excerpt_read_head(const struct output *o, uint64_t from, size_t n, bool more,
				    const struct buf *kept, struct buf *raw)
{
	uint64_t offset;
	int r;

	if (kept && kept->len >= n)
		r = buf_append(raw, kept->data, n);
	else if (output_bytes_not_in_memory(o, from))
		return 0;
	else
		r = output_excerpt_read(o, from, from + n, raw, &offset);
	if (r >= 0 && more && raw->len) {
		size_t whole = utf8_whole_prefix_len(raw->data, raw->len);

		/* bytes that are no text are cut at the limit */
		if (raw->len - whole < 4 && utf8_is_valid(raw->data, whole)) {
			raw->len = whole;
			raw->data[whole] = 0;
		}
	}
	return r;
}

int output_excerpt_fill(const struct output *o, uint64_t from, uint64_t end,
			const struct run_query *q, const struct buf *kept, struct output_excerpt *t,
			struct run_output *ret)
{
	uint64_t max = q->max_output_bytes < TELL_MAX ? q->max_output_bytes : TELL_MAX;
	uint64_t head = output_excerpt_head_max(q), tail = max - head, behind;
	bool whole;
	int r = 0;

	ret->bytes = end - from;
	whole = ret->bytes <= max;
	if (whole) {
		head = q->keep == KEEP_TAIL ? 0 : ret->bytes;
		tail = ret->bytes - head;
	}
	ret->cut_offset = ret->offset = from;
	if (head) {
		r = output_excerpt_read_head(o, from, (size_t)head, !whole, kept, &t->raw);
		ret->cut_offset += t->raw.len;
	}
	/* without its beginning there is no head, only a tail */
	behind = end - tail;
	if (r >= 0 && t->raw.len) {
		r = output_excerpt_encode(&t->raw, &t->b64, &ret->text, &ret->b64);
		if (r >= 0 && tail)
			r = output_excerpt_read(o, behind, end, &t->tail, &behind);
		if (r >= 0 && tail)
			r = output_excerpt_encode(&t->tail, &t->tail_b64, &ret->tail,
						  &ret->tail_b64);
	} else if (r >= 0) {
		r = output_excerpt_read(o, behind, end, &t->raw, &behind);
		ret->offset = behind;
		if (r >= 0)
			r = output_excerpt_encode(&t->raw, &t->b64, &ret->text, &ret->b64);
	}
	ret->has_bytes = ret->has_offset = true;
	ret->cut_bytes = behind - ret->cut_offset;
	ret->has_cut = ret->has_cut_offset = ret->cut_bytes > 0;
	return r;
}
