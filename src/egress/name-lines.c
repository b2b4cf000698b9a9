/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/name-lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Where a sandbox ended. */
struct name_lines_end {
	struct id sandbox;
	size_t at;
};

struct name_lines_ends {
	struct name_lines_end *v;
	size_t n, room;
};

bool name_line_parse(struct slice line, struct id *ret_id, struct host_name *ret_name)
{
	struct slice id = slice_cut(&line, ' ');

	*ret_name = (struct host_name){};
	return id_parse(ID_SANDBOX, id, ret_id) == 0 &&
	       (slice_eq(line, SLICE("-")) || host_name_parse(line, ret_name) == 0);
}

static int name_lines_end_compare(const void *a, const void *b)
{
	const struct name_lines_end *x = a, *y = b;
	int r = memcmp(x->sandbox.bits, y->sandbox.bits, sizeof(x->sandbox.bits));

	return r ? r : (x->at > y->at) - (x->at < y->at);
}

static int name_lines_ends_add(struct name_lines_ends *ends, const struct id *id, size_t at)
{
	if (ends->n == ends->room) {
		size_t room = ends->room ? ends->room * 2 : 64;
		struct name_lines_end *v = reallocarray(ends->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		ends->v = v;
		ends->room = room;
	}
	ends->v[ends->n++] = (struct name_lines_end){ *id, at };
	return 0;
}

/* A line without its newline is half of one, also where it looks whole. */
static bool name_lines_next(struct slice *text, struct id *ret_id, struct host_name *ret_name,
			    struct slice *ret_line)
{
	const char *end = text->n ? memchr(text->p, '\n', text->n) : NULL;

	*ret_line = (struct slice){};
	if (!end)
		return false;
	*ret_line = (struct slice){ text->p, (size_t)(end - text->p) + 1 };
	*text = (struct slice){ end + 1, text->n - ret_line->n };
	if (!name_line_parse((struct slice){ ret_line->p, ret_line->n - 1 }, ret_id, ret_name))
		ret_line->n = 0;
	return true;
}

static int name_lines_find_ends(struct slice text, struct name_lines_ends *ret)
{
	const char *begin = text.p;
	struct host_name name;
	struct slice line;
	struct id id;
	int r = 0;

	while (r >= 0 && name_lines_next(&text, &id, &name, &line))
		if (line.n && !name.n)
			r = name_lines_ends_add(ret, &id, (size_t)(line.p - begin));
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), name_lines_end_compare);
	return r;
}

/* Whether the sandbox ended after this place. */
static bool name_lines_ends_after(const struct name_lines_ends *ends, const struct id *id,
				  size_t at)
{
	const struct name_lines_end key = { *id, at };
	size_t low = 0, high = ends->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (name_lines_end_compare(&ends->v[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ends->n && id_eq(&ends->v[low].sandbox, id);
}

int name_lines_select(struct slice text, struct buf *ret)
{
	const char *begin = text.p;
	struct name_lines_ends ends = {};
	struct host_name name;
	struct slice line;
	struct id id;
	int r = name_lines_find_ends(text, &ends);

	while (r >= 0 && name_lines_next(&text, &id, &name, &line))
		if (line.n && name.n &&
		    !name_lines_ends_after(&ends, &id, (size_t)(line.p - begin)))
			r = buf_append(ret, line.p, line.n);
	free(ends.v);
	return r;
}
