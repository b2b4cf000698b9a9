/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include <assert.h>
#include <errno.h>

#include "base/endian.h"
#include "base/jsonw.h"
#include "text/base64.h"

static const char *const stream_names[] = {
	[FRAME_STDIN] = "stdin",
	[FRAME_STDOUT] = "stdout",
	[FRAME_STDERR] = "stderr",
	[FRAME_EVENTS] = "events",
};
static_assert(ARRAY_SIZE(stream_names) == FRAME_NUM_STREAMS);

const char *frame_stream_name(enum frame_stream s)
{
	return stream_names[s];
}

/* The rules of the table in frame.h. */
static bool frame_is_valid(const struct frame *f)
{
	if (f->stream >= FRAME_NUM_STREAMS || f->offset > UINT64_MAX - f->length)
		return false;
	switch (f->type) {
	case FRAME_DATA:
		return f->length >= 1 && f->length <= FRAME_MAX;
	case FRAME_GAP:
		return f->length == sizeof(uint64_t);
	case FRAME_END:
	case FRAME_ERROR:
		return f->stream == 0 && f->offset == 0 && f->length >= 2 &&
		       f->length <= FRAME_JSON_MAX;
	case FRAME_TAKEN:
		return f->length == 0;
	case FRAME_EOF:
		return f->stream == FRAME_STDIN && f->length == 0;
	case FRAME_SIZE:
		return f->stream == 0 && f->offset == 0 && f->length == FRAME_SIZE_LENGTH;
	case FRAME_ROLE:
		return f->stream == 0 && f->length == FRAME_ROLE_LENGTH;
	default:
		return false;
	}
}

void frame_encode_head(const struct frame *f, uint8_t out[static FRAME_HEAD])
{
	assert(frame_is_valid(f));
	out[0] = f->type;
	out[1] = f->stream;
	le16_put(out + 2, 0);
	le32_put(out + 4, f->length);
	le64_put(out + 8, f->offset);
}

int frame_encode(const struct frame *f, struct buf *out)
{
	uint8_t head[FRAME_HEAD];
	int r = buf_reserve(out, FRAME_HEAD + f->length);

	if (r < 0)
		return r;
	frame_encode_head(f, head);
	r = buf_append(out, head, sizeof(head));
	return r < 0 ? r : buf_append(out, f->content, f->length);
}

int frame_decode_head(const uint8_t in[static FRAME_HEAD], struct frame *ret)
{
	struct frame f = {
		.type = in[0],
		.stream = in[1],
		.length = le32_get(in + 4),
		.offset = le64_get(in + 8),
	};

	if (le16_get(in + 2) != 0 || !frame_is_valid(&f))
		return -EPROTO;
	*ret = f;
	return 0;
}

int frame_decode(const uint8_t *in, size_t n, struct frame *ret)
{
	struct frame f;

	if (n < FRAME_HEAD)
		return 0;
	if (frame_decode_head(in, &f) < 0)
		return -EPROTO;
	if (n - FRAME_HEAD < f.length)
		return 0;
	f.content = in + FRAME_HEAD;
	if (f.type == FRAME_GAP && f.offset > UINT64_MAX - le64_get(f.content))
		return -EPROTO;
	if ((f.type == FRAME_END || f.type == FRAME_ERROR) &&
	    (f.content[0] != '{' || f.content[f.length - 1] != '}'))
		return -EPROTO;
	if (f.type == FRAME_SIZE && frame_size_decode(&f, &(uint16_t){ 0 }, &(uint16_t){ 0 }) < 0)
		return -EPROTO;
	if (f.type == FRAME_ROLE && frame_role_decode(&f, &(bool){ false }) < 0)
		return -EPROTO;
	*ret = f;
	return (int)(FRAME_HEAD + f.length);
}

uint64_t frame_gap_decode(const struct frame *f)
{
	assert(f->type == FRAME_GAP && f->length == sizeof(uint64_t));
	return le64_get(f->content);
}

int frame_size_decode(const struct frame *f, uint16_t *ret_cols, uint16_t *ret_rows)
{
	assert(f->type == FRAME_SIZE && f->length == FRAME_SIZE_LENGTH);
	*ret_cols = le16_get(f->content);
	*ret_rows = le16_get(f->content + 2);
	return *ret_cols && *ret_rows ? 0 : -EPROTO;
}

void frame_size_encode(uint16_t cols, uint16_t rows, uint8_t out[static FRAME_SIZE_LENGTH])
{
	le16_put(out, cols);
	le16_put(out + 2, rows);
}

int frame_role_decode(const struct frame *f, bool *ret_writes)
{
	assert(f->type == FRAME_ROLE && f->length == FRAME_ROLE_LENGTH);
	*ret_writes = f->content[0] == 1;
	return f->content[0] <= 1 ? 0 : -EPROTO;
}

static int frame_write_b64(struct jw *w, const struct frame *f)
{
	size_t n = BASE64_TEXT((size_t)f->length);
	auto_free char *text = malloc(n + 1);

	if (!text)
		return -ENOMEM;
	base64_encode(f->content, f->length, text);
	jw_slice(w, "b64", (struct slice){ text, n });
	return 0;
}

static int frame_write_data(const struct frame *f, struct buf *out)
{
	const char *bytes = (const char *)f->content;
	struct jw w = jw_to(out);
	int r = 0;

	jw_object_begin(&w, NULL);
	jw_str(&w, "s", stream_names[f->stream]);
	jw_u64(&w, "o", f->offset);
	if (f->type == FRAME_GAP)
		jw_u64(&w, "n", frame_gap_decode(f));
	else if (utf8_is_valid(bytes, f->length))
		jw_slice(&w, "t", (struct slice){ bytes, f->length });
	else
		r = frame_write_b64(&w, f);
	jw_end(&w);
	return r < 0 ? r : jw_finish(&w);
}

static int frame_write_json(const struct frame *f, struct buf *out)
{
	const char *bytes = (const char *)f->content;

	for (size_t i = 0; i < f->length; i++)
		if ((unsigned char)bytes[i] < 0x20)
			return -EPROTO;
	return utf8_is_valid(bytes, f->length) ? buf_append(out, bytes, f->length) : -EPROTO;
}

int frame_to_sse(const struct frame *f, struct buf *out)
{
	static const char *const lead[] = {
		[FRAME_DATA] = "data: ",
		[FRAME_GAP] = "event: gap\ndata: ",
		[FRAME_END] = "event: end\ndata: ",
		[FRAME_ERROR] = "event: error\ndata: ",
	};
	static_assert(ARRAY_SIZE(lead) == FRAME_TAKEN);
	size_t before = out->len;
	int r;

	assert(frame_is_valid(f));
	if (f->type >= ARRAY_SIZE(lead))
		return -EPROTO;
	r = buf_puts(out, lead[f->type]);
	if (r >= 0)
		r = f->type <= FRAME_GAP ? frame_write_data(f, out) : frame_write_json(f, out);
	if (r >= 0)
		r = buf_puts(out, "\n\n");
	if (r < 0)
		buf_truncate(out, before);
	return r;
}
