/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/output-lines.h"

#include <errno.h>

void output_lines_fini(struct output_lines *l)
{
	buf_fini(&l->held);
	l->handed = 0;
}

static void output_lines_drop_handed(struct output_lines *l)
{
	buf_consume(&l->held, l->handed);
	l->handed = 0;
}

static size_t output_lines_find_end(struct slice s)
{
	size_t i = 0;

	while (i < s.n && s.p[i] != '\n' && s.p[i] != '\r')
		i++;
	return i;
}

int output_lines_next(struct output_lines *l, struct slice *in, struct slice *ret)
{
	size_t room, end, take;

	output_lines_drop_handed(l);
	if (l->after_cr && in->n) {
		if (*in->p == '\n')
			*in = (struct slice){ in->p + 1, in->n - 1 };
		l->after_cr = false;
	}
	end = output_lines_find_end(*in);
	room = OUTPUT_LINES_MAX - l->held.len;
	take = end < room ? end : room;
	if (buf_append(&l->held, in->p, take) < 0)
		return -ENOMEM;
	*in = (struct slice){ in->p + take, in->n - take };
	if (l->held.len == OUTPUT_LINES_MAX && take < end) {
		size_t whole = utf8_whole_prefix_len(l->held.data, l->held.len);

		/* what is not UTF-8 at all is cut anywhere */
		l->handed = OUTPUT_LINES_MAX - whole < 4 ? whole : OUTPUT_LINES_MAX;
		*ret = (struct slice){ l->held.data, l->handed };
		return 1;
	}
	if (!in->n)
		return 0;
	l->after_cr = *in->p == '\r';
	*in = (struct slice){ in->p + 1, in->n - 1 };
	l->handed = l->held.len;
	*ret = (struct slice){ l->held.len ? l->held.data : "", l->held.len };
	return 1;
}

bool output_lines_last(struct output_lines *l, struct slice *ret)
{
	output_lines_drop_handed(l);
	l->handed = l->held.len;
	*ret = (struct slice){ l->held.data, l->held.len };
	return l->held.len;
}
