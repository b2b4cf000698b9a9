/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/attach-raw.h"

#include <assert.h>

#include "ops/types.h"

#define JSON_POOL KIB(16)

static_assert(WS_PART_MAX <= ATTACH_FRAME_MAX);

__attribute__((format(printf, 2, 3))) static struct attach_raw_output attach_raw_close(
	unsigned code, const char *fmt, ...)
{
	struct attach_raw_output said = { .close_code = code };
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(said.reason, sizeof(said.reason), fmt, ap);
	va_end(ap);
	/* truncation may have split a character */
	said.reason[n < 0 ? 0 : utf8_whole_prefix_len(said.reason, strlen(said.reason))] = 0;
	return said;
}

static struct attach_raw_output attach_raw_close_broken(void)
{
	return attach_raw_close(ATTACH_BROKEN, "the sandbox sent an invalid frame");
}

static int attach_raw_read_json(const struct field_table *t, const struct frame *f,
				struct arena *arena, void *ret)
{
	struct slice text = { (const char *)f->content, f->length };
	struct cay_err err = {};

	return field_decode_text(t, text, &json_control_limits, arena, ret, &err);
}

static struct attach_raw_output attach_raw_close_for_end(const struct frame *f)
{
	auto_arena arena = ARENA_INIT(JSON_POOL);
	struct end end = {};

	/* an exit without its code must not look like success */
	if (attach_raw_read_json(&end_table, f, &arena, &end) < 0 ||
	    (end.reason == END_EXIT && !end.has_exit_code) ||
	    (end.reason == END_SIGNAL && !end.signal))
		return attach_raw_close_broken();
	if (end.reason == END_EXIT)
		return attach_raw_close(end.exit_code ? (unsigned)ATTACH_FAILED
						      : (unsigned)WS_NORMAL,
					"exit %u", (unsigned)end.exit_code);
	if (end.reason == END_SIGNAL)
		return attach_raw_close(ATTACH_FAILED, "signal %s", end.signal);
	return attach_raw_close(ATTACH_FAILED, "%s", end_reasons[end.reason]);
}

static struct attach_raw_output attach_raw_close_for_error(const struct frame *f)
{
	auto_arena arena = ARENA_INIT(JSON_POOL);
	struct error_body body = {};

	if (attach_raw_read_json(&error_body_table, f, &arena, &body) < 0)
		return attach_raw_close_broken();
	return attach_raw_close(ATTACH_REFUSED, "%s: %s",
				cay_error_row((enum cay_code)(body.error.code + 1))->name,
				body.error.message);
}

/* Only the first one sets the offset: later ones acknowledge our own data. */
static struct attach_raw_output attach_raw_set_stdin_offset(struct attach_raw *r,
							    const struct frame *f)
{
	/* no client can send that much, but a sandbox may claim anything */
	if (f->offset > INT64_MAX)
		return attach_raw_close_broken();
	if (!r->offset_known)
		r->stdin_offset = f->offset;
	r->offset_known = true;
	r->stdin_closed |= f->type == FRAME_EOF;
	return (struct attach_raw_output){};
}

struct attach_raw_output attach_raw_convert_frame(struct attach_raw *r, const struct frame *f)
{
	bool heard = f->stream == FRAME_STDOUT;

	switch (f->type) {
	case FRAME_DATA:
		return (struct attach_raw_output){ .bytes = { (const char *)f->content,
							      heard ? f->length : 0 } };
	case FRAME_GAP:
		if (heard)
			return attach_raw_close(ATTACH_MISSED, "stdout goes on at %llu",
						(unsigned long long)f->offset +
							frame_gap_decode(f));
		return (struct attach_raw_output){};
	case FRAME_TAKEN:
	case FRAME_EOF:
		return attach_raw_set_stdin_offset(r, f);
	case FRAME_END:
		return attach_raw_close_for_end(f);
	case FRAME_ERROR:
		return attach_raw_close_for_error(f);
	default:
		return (struct attach_raw_output){}; /* a terminal's */
	}
}

int attach_raw_convert_message(struct attach_raw *r, const struct ws_event *ev, struct buf *to)
{
	bool empty = !ev->data.n && !r->in_message;
	struct frame f = { .type = empty ? FRAME_EOF : FRAME_DATA,
			   .stream = FRAME_STDIN,
			   .length = (uint32_t)ev->data.n,
			   .offset = r->stdin_offset,
			   .content = (const uint8_t *)ev->data.p };

	assert(r->offset_known);
	r->in_message = ev->more;
	if (r->stdin_closed || (!empty && !f.length))
		return 0;
	r->stdin_offset += f.length;
	r->stdin_closed = empty;
	return frame_encode(&f, to);
}
