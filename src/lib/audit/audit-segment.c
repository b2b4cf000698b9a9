/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/audit-internal.h"
#include "base/path.h"

#define PIECE KIB(64)

void audit_segments_fini(struct audit_segments *s)
{
	free(s->v);
	*s = (struct audit_segments){};
}

void audit_segment_format_name(uint32_t number, char ret[static SEGMENT_NAME_LEN + 1])
{
	int n = snprintf(ret, SEGMENT_NAME_LEN + 1, "%08u.log", number);

	assert(n == SEGMENT_NAME_LEN);
}

/* 0 for a file that is none of ours. */
static uint32_t audit_segment_parse_name(const char *name)
{
	char again[SEGMENT_NAME_LEN + 1];
	uint32_t n = 0;

	for (size_t i = 0; i < 8 && ascii_is_digit(name[i]); i++)
		n = n * 10 + (uint32_t)(name[i] - '0');
	if (!n || n > SEGMENT_LAST)
		return 0;
	audit_segment_format_name(n, again);
	return str_eq(name, again) ? n : 0;
}

static int audit_segments_add_name(void *arg, int, const char *name)
{
	struct audit_segments *s = arg;
	uint32_t number = audit_segment_parse_name(name), *more;

	if (!number)
		return 0;
	more = reallocarray(s->v, s->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->v = more;
	s->v[s->n++] = number;
	return 0;
}

static int audit_segment_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int audit_segments_list(int dirfd, struct audit_segments *ret)
{
	int r = path_for_each_entry(dirfd, audit_segments_add_name, ret);

	if (r >= 0 && ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), audit_segment_compare);
	return r;
}

int audit_segment_open(int dirfd, uint32_t number)
{
	char name[SEGMENT_NAME_LEN + 1];

	audit_segment_format_name(number, name);
	return path_open(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
}

struct audit_line_reader audit_line_reader_open(int fd)
{
	return (struct audit_line_reader){ .fd = fd, .buf = BUF_INIT(PIECE + AUDIT_LINE_MAX) };
}

void audit_line_reader_fini(struct audit_line_reader *l)
{
	cay_closep(&l->fd);
	buf_fini(&l->buf);
}

int audit_line_reader_next(struct audit_line_reader *l, struct slice *ret)
{
	for (;;) {
		struct slice rest = { buf_str(&l->buf) + l->at, l->buf.len - l->at };
		const char *end = rest.n ? memchr(rest.p, '\n', rest.n) : NULL;
		ssize_t n;
		int r;

		*ret = (struct slice){ rest.p, end ? (size_t)(end - rest.p) + 1 : rest.n };
		if (ret->n > AUDIT_LINE_MAX)
			return -EMSGSIZE;
		if (end) {
			l->at += ret->n;
			l->size += ret->n;
			return 1;
		}
		buf_consume(&l->buf, l->at);
		l->at = 0;
		r = buf_reserve(&l->buf, PIECE);
		n = r < 0 ? r : read(l->fd, l->buf.data + l->buf.len, PIECE);
		if (n < 0)
			return r < 0 ? r : -errno;
		if (!n) {
			ret->p = buf_str(&l->buf);
			return 0;
		}
		l->buf.len += (size_t)n;
		l->buf.data[l->buf.len] = 0;
	}
}

int audit_segment_read_first(int dirfd, uint32_t number, struct audit_record *ret)
{
	int fd = audit_segment_open(dirfd, number), r;
	auto_lines l = audit_line_reader_open(fd);
	struct slice line;

	if (fd < 0)
		return fd;
	r = audit_line_reader_next(&l, &line);
	if (r <= 0)
		return r;
	r = audit_record_parse(line.p, line.n - 1, ret);
	return r < 0 ? r : 1;
}
