/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/sse.h"

#include <string.h>

#define FIELD "data"

void sse_init(struct sse *s)
{
	*s = (struct sse){ .line = BUF_INIT(SSE_MAX), .data = BUF_INIT(SSE_MAX) };
}

void sse_fini(struct sse *s)
{
	buf_fini(&s->line);
	buf_fini(&s->data);
}

static int sse_take_data(struct sse *s, struct slice value)
{
	int r = s->has_data ? buf_putc(&s->data, '\n') : 0;

	if (value.n && value.p[0] == ' ')
		value = (struct slice){ value.p + 1, value.n - 1 };
	s->has_data = true;
	return r < 0 ? r : buf_append(&s->data, value.p, value.n);
}

/* A line is complete: 1 when it ends an event that has data. */
static int sse_take_line(struct sse *s)
{
	struct slice value = { buf_str(&s->line), s->line.len }, name;
	int r = 0;

	if (value.n && value.p[value.n - 1] == '\r')
		value.n--;
	if (!value.n) {
		r = s->has_data;
	} else {
		name = slice_cut(&value, ':');
		if (slice_eq(name, SLICE(FIELD)))
			r = sse_take_data(s, value.p ? value : SLICE(""));
	}
	buf_clear(&s->line);
	return r;
}

int sse_next(struct sse *s, struct slice *in, struct slice *ret, struct cay_err *err)
{
	if (s->handed) {
		buf_clear(&s->data);
		s->handed = s->has_data = false;
	}
	while (in->n) {
		const char *end = memchr(in->p, '\n', in->n);
		size_t n = end ? (size_t)(end - in->p) : in->n, used = n + (end != NULL);
		int r = buf_append(&s->line, in->p, n);

		*in = (struct slice){ in->p + used, in->n - used };
		if (r >= 0 && end)
			r = sse_take_line(s);
		if (r < 0)
			return cay_fail(err, CAY_E_TOO_LARGE, "an event is too large");
		if (r > 0) {
			*ret = (struct slice){ buf_str(&s->data), s->data.len };
			s->handed = true;
			return 1;
		}
	}
	return 0;
}
