/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/raw.h"

#include <assert.h>
#include <stdio.h>

#include "ops/types.h"

#define JSON_POOL KIB(16)

static_assert(WS_PART_MAX <= ATTACH_FRAME_MAX);

__attribute__((format(printf, 2, 3))) static struct raw_said close_with(unsigned code,
									const char *fmt, ...)
{
	struct raw_said said = { .code = code };
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(said.reason, sizeof(said.reason), fmt, ap);
	va_end(ap);
	/* a message that was cut may have been so inside a letter */
	said.reason[n < 0 ? 0 : utf8_whole(said.reason, strlen(said.reason))] = 0;
	return said;
}

static struct raw_said broken(void)
{
	return close_with(ATTACH_BROKEN, "the sandbox sent what is no frame");
}

static int read_json(const struct field_table *t, const struct frame *f, struct pool *pool,
		     void *ret)
{
	struct slice text = { (const char *)f->content, f->length };
	struct cay_err err = {};

	return field_read(t, text, &json_control_limits, pool, ret, &err);
}

static struct raw_said say_end(const struct frame *f)
{
	auto_pool pool = POOL_INIT(JSON_POOL);
	struct end end = {};

	/* an exit without its code must not look like success */
	if (read_json(&end_table, f, &pool, &end) < 0 ||
	    (end.reason == END_EXIT && !end.has_exit_code) ||
	    (end.reason == END_SIGNAL && !end.signal))
		return broken();
	if (end.reason == END_EXIT)
		return close_with(end.exit_code ? (unsigned)ATTACH_FAILED : (unsigned)WS_NORMAL,
				  "exit %u", (unsigned)end.exit_code);
	if (end.reason == END_SIGNAL)
		return close_with(ATTACH_FAILED, "signal %s", end.signal);
	return close_with(ATTACH_FAILED, "%s", end_reasons[end.reason]);
}

static struct raw_said say_error(const struct frame *f)
{
	auto_pool pool = POOL_INIT(JSON_POOL);
	struct error_body body = {};

	if (read_json(&error_body_table, f, &pool, &body) < 0)
		return broken();
	return close_with(ATTACH_REFUSED, "%s: %s",
			  cay_error_row((enum cay_code)(body.error.code + 1))->name,
			  body.error.message);
}

static struct raw_said say_gap(const struct frame *f)
{
	uint64_t at = f->offset + frame_gap(f);

	return close_with(ATTACH_MISSED, "stdout goes on at %llu", (unsigned long long)at);
}

/* Only the first says where we begin: those behind it are of what we sent. */
static struct raw_said take_place(struct raw *r, const struct frame *f)
{
	/* no client sends what would be beyond this, but a sandbox may say anything */
	if (f->offset > INT64_MAX)
		return broken();
	if (!r->known)
		r->at = f->offset;
	r->known = true;
	r->closed |= f->type == FRAME_EOF;
	return (struct raw_said){};
}

struct raw_said raw_out(struct raw *r, const struct frame *f)
{
	bool heard = f->stream == FRAME_STDOUT;

	switch (f->type) {
	case FRAME_DATA:
		return (struct raw_said){ .bytes = { (const char *)f->content,
						     heard ? f->length : 0 } };
	case FRAME_GAP:
		return heard ? say_gap(f) : (struct raw_said){};
	case FRAME_TAKEN:
	case FRAME_EOF:
		return take_place(r, f);
	case FRAME_END:
		return say_end(f);
	case FRAME_ERROR:
		return say_error(f);
	default:
		return (struct raw_said){}; /* of a terminal */
	}
}

int raw_in(struct raw *r, const struct ws_event *ev, struct buf *to)
{
	bool empty = !ev->data.n && !r->inside;
	struct frame f = { .type = empty ? FRAME_EOF : FRAME_DATA,
			   .stream = FRAME_STDIN,
			   .length = (uint32_t)ev->data.n,
			   .offset = r->at,
			   .content = (const uint8_t *)ev->data.p };

	assert(r->known);
	r->inside = ev->more;
	if (r->closed || (!empty && !f.length))
		return 0;
	r->at += f.length;
	r->closed = empty;
	return frame_encode(&f, to);
}
