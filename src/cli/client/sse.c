/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/sse.h"

static void sse_reset_event(struct sse *s)
{
	buf_clear(&s->data);
	s->event[0] = 0;
	s->event_returned = false;
}

static int sse_parse_field(struct sse *s, struct slice line)
{
	struct slice value = line, name = slice_cut(&value, ':');

	if (value.n && value.p[0] == ' ') {
		value.p++;
		value.n--;
	}
	if (slice_eq(name, SLICE("event"))) {
		size_t n = value.n < SSE_NAME_MAX ? value.n : 0;

		if (n)
			memcpy(s->event, value.p, n);
		s->event[n] = 0;
	}
	if (!slice_eq(name, SLICE("data")))
		return 0;
	/* the newline after the last line is cut off when the event is returned */
	return buf_append(&s->data, value.p, value.n) < 0 || buf_putc(&s->data, '\n') < 0 ? -EPROTO
											  : 0;
}

/* Parse a complete line.  1: it ended an event. */
static int sse_parse_line(struct sse *s)
{
	struct slice line = { buf_str(&s->line), s->line.len };

	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	if (line.n)
		return sse_parse_field(s, line);
	if (!s->data.len)
		sse_reset_event(s);
	return s->data.len > 0;
}

ssize_t sse_read(struct sse *s, const char *in, size_t n, struct sse_item *ret)
{
	size_t used = 0;

	*ret = (struct sse_item){};
	if (s->event_returned)
		sse_reset_event(s);
	while (!s->refused && used < n) {
		const char *end = memchr(in + used, '\n', n - used);
		size_t part = end ? (size_t)(end - (in + used)) : n - used;
		int r = buf_append(&s->line, in + used, part);

		used += part + (end != NULL);
		if (r >= 0 && end) {
			r = sse_parse_line(s);
			buf_clear(&s->line);
		}
		if (r < 0)
			s->refused = true;
		if (r <= 0)
			continue;
		s->event_returned = true;
		*ret = (struct sse_item){ s->event, { s->data.data, s->data.len - 1 } };
		return (ssize_t)used;
	}
	return s->refused ? -EPROTO : (ssize_t)used;
}

int sse_read_body(struct sse *s, struct buf *body, sse_fn *fn, void *arg, struct cay_err *err)
{
	size_t at = 0;
	int r = 0;

	while (r >= 0 && at < body->len) {
		struct sse_item item;
		ssize_t n = sse_read(s, body->data + at, body->len - at, &item);

		if (n < 0)
			return cay_fail(err, CAY_E_MISBEHAVED,
					"the server sent an event that is too large");
		at += (size_t)n;
		if (item.event)
			r = fn(arg, &item, err);
	}
	buf_clear(body);
	return r;
}

void sse_fini(struct sse *s)
{
	buf_fini(&s->line);
	buf_fini(&s->data);
}
