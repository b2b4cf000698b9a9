/* SPDX-License-Identifier: Apache-2.0 */
#include "http/multipart.h"

#include <string.h>

#include "http/http.h"

enum { PART_PREAMBLE, PART_AFTER_MARK, PART_HEAD, PART_DATA, PART_OVER };

#define PIECE KIB(64)

static bool multipart_starts_nocase(struct slice s, const char *with)
{
	size_t n = strlen(with);

	return s.n >= n && http_equals_nocase((struct slice){ s.p, n }, with);
}

/* The value of NAME="value" or NAME=value after ';'; p NULL: there is none. */
static struct slice multipart_find_parameter(struct slice s, const char *name)
{
	size_t n = strlen(name);
	bool quoted = false;

	for (size_t i = 0; i < s.n; i++) {
		struct slice rest = { s.p + i + 1, s.n - i - 1 };

		if (s.p[i] == '"')
			quoted = !quoted;
		else if (quoted && s.p[i] == '\\')
			i++;
		if (s.p[i] != ';' || quoted)
			continue;
		while (rest.n && *rest.p == ' ')
			rest = (struct slice){ rest.p + 1, rest.n - 1 };
		if (!multipart_starts_nocase(rest, name) || rest.n <= n || rest.p[n] != '=')
			continue;
		rest = (struct slice){ rest.p + n + 1, rest.n - n - 1 };
		if (!rest.n || *rest.p != '"')
			return slice_trim(slice_cut(&rest, ';'));
		rest = (struct slice){ rest.p + 1, rest.n - 1 };
		for (size_t k = 0; k < rest.n; k++)
			if (rest.p[k] == '"')
				return (struct slice){ rest.p, k };
		return (struct slice){};
	}
	return (struct slice){};
}

int multipart_init(struct multipart *m, struct slice type, struct cay_err *err)
{
	struct slice b = multipart_find_parameter(type, "boundary");

	*m = (struct multipart){ .held = BUF_INIT(PIECE + MULTIPART_HEAD_MAX) };
	if (!multipart_starts_nocase(type, "multipart/form-data") || !b.n ||
	    b.n > MULTIPART_BOUNDARY_MAX)
		return cay_fail(err, CAY_E_INVALID, "multipart/form-data without a boundary");
	memcpy(m->mark, "\r\n--", 4);
	memcpy(m->mark + 4, b.p, b.n);
	m->n_mark = 4 + b.n;
	/* as if a line had ended before the first boundary */
	return buf_append(&m->held, "\r\n", 2) < 0 ? cay_no_memory(err) : 0;
}

void multipart_fini(struct multipart *m)
{
	buf_fini(&m->held);
}

bool multipart_is_complete(const struct multipart *m)
{
	return m->state == PART_OVER;
}

/* Browsers and fetch escape a quote, CR and LF in names as %22, %0D and %0A. */
static int multipart_copy_name(struct slice v, char ret[static MULTIPART_NAME_MAX + 1])
{
	size_t n = 0;

	for (size_t i = 0; i < v.n; i++) {
		struct slice escape = { v.p + i, v.n - i >= 3 ? 3 : 0 };
		char c = v.p[i];

		if (escape.n && c == '%' &&
		    (memcmp(v.p + i, "%22", 3) == 0 || http_equals_nocase(escape, "%0d") ||
		     http_equals_nocase(escape, "%0a"))) {
			c = v.p[i + 1] == '2'                   ? '"'
			    : ascii_to_lower(v.p[i + 2]) == 'd' ? '\r'
								: '\n';
			i += 2;
		}
		if (!c || n == MULTIPART_NAME_MAX)
			return -EINVAL;
		ret[n++] = c;
	}
	ret[n] = 0;
	return 0;
}

static int multipart_read_head(struct multipart *m, struct slice head, struct cay_err *err)
{
	static const char disposition[] = "content-disposition:";
	unsigned n = 0;

	m->name[0] = m->file[0] = 0;
	m->has_file = false;
	while (head.n) {
		struct slice line = slice_cut(&head, '\r'), name, file;

		if (head.n && *head.p == '\n')
			head = (struct slice){ head.p + 1, head.n - 1 };
		if (!multipart_starts_nocase(line, disposition))
			continue;
		n++;
		name = multipart_find_parameter(line, "name");
		file = multipart_find_parameter(line, "filename");
		m->has_file = file.p;
		if ((name.p && multipart_copy_name(name, m->name) < 0) ||
		    (file.p && multipart_copy_name(file, m->file) < 0))
			return cay_fail(err, CAY_E_INVALID, "the name of a part is not valid");
	}
	return n == 1 ? 0 : cay_fail(err, CAY_E_INVALID, "a part needs one Content-Disposition");
}

/* Data up to the next boundary, or as much as cannot begin one. */
static int multipart_take_data(struct multipart *m, struct slice *ret)
{
	const char *p = m->held.data, *mark = memmem(p, m->held.len, m->mark, m->n_mark);
	size_t n = mark                       ? (size_t)(mark - p)
		   : m->held.len >= m->n_mark ? m->held.len - m->n_mark + 1
					      : 0;

	if (n) {
		*ret = (struct slice){ p, n };
		m->handed = n;
		return MULTIPART_DATA;
	}
	if (!mark)
		return MULTIPART_MORE;
	m->handed = m->n_mark;
	m->state = PART_AFTER_MARK;
	return MULTIPART_PART_END;
}

/* MULTIPART_MORE with something handed: go on. */
static int multipart_step(struct multipart *m, struct slice *ret, struct cay_err *err)
{
	const char *p = m->held.data, *end;
	int r;

	switch (m->state) {
	case PART_PREAMBLE:
		r = multipart_take_data(m, ret); /* the bytes before the first boundary */
		return r < 0 ? r : MULTIPART_MORE;
	case PART_AFTER_MARK:
		if (m->held.len < 2)
			return MULTIPART_MORE;
		if (memcmp(p, "--", 2) != 0 && memcmp(p, "\r\n", 2) != 0)
			return cay_fail(err, CAY_E_INVALID, "a boundary is malformed");
		m->state = *p == '-' ? PART_OVER : PART_HEAD;
		m->handed = *p == '-' ? 2 : 0; /* the head begins with the line end */
		return MULTIPART_MORE;
	case PART_HEAD:
		end = memmem(p, m->held.len, "\r\n\r\n", 4);
		if (!end && m->held.len >= MULTIPART_HEAD_MAX)
			return cay_fail(err, CAY_E_TOO_LARGE, "the head of a part is too long");
		if (!end)
			return MULTIPART_MORE;
		r = multipart_read_head(
			m,
			(struct slice){ p + 2, (size_t)(end - p) > 2 ? (size_t)(end - p) - 2 : 0 },
			err);
		if (r < 0)
			return r;
		/* an empty part: its boundary's line end is this one */
		m->handed = (size_t)(end - p) + 4;
		m->state = PART_DATA;
		return MULTIPART_PART;
	case PART_DATA:
		return multipart_take_data(m, ret);
	default:
		m->handed = m->held.len;
		return MULTIPART_MORE;
	}
}

int multipart_next(struct multipart *m, struct slice *in, struct slice *ret, struct cay_err *err)
{
	for (;;) {
		size_t room, take;
		unsigned state = m->state;
		int r;

		buf_consume(&m->held, m->handed);
		m->handed = 0;
		room = m->held.max - m->held.len;
		take = in->n < room ? in->n : room;
		if (take && buf_append(&m->held, in->p, take) < 0)
			return cay_no_memory(err);
		*in = (struct slice){ in->p + take, in->n - take };
		r = multipart_step(m, ret, err);
		if (r != MULTIPART_MORE)
			return r;
		if (!m->handed && m->state == state && !in->n)
			return MULTIPART_MORE;
	}
}
