/* SPDX-License-Identifier: Apache-2.0 */
#include "file/lines.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "file/path-at.h"

#define BLOCK KIB(32)

struct lines_reader {
	int fd;
	uint64_t at; /* where the next block is read */
	char block[BLOCK];
	size_t n;
};

/* The next block: its size, 0 at the end. */
static ssize_t file_lines_read_block(struct lines_reader *r, size_t most)
{
	for (;;) {
		ssize_t n = pread(r->fd, r->block, most < BLOCK ? most : BLOCK, (off_t)r->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		r->n = (size_t)n;
		r->at += r->n;
		return n;
	}
}

static uint64_t file_lines_count_feeds(const char *p, size_t n)
{
	const char *end = p + n;
	uint64_t count = 0;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		count++;
		p++;
	}
	return count;
}

/* Line feeds in [r->at, end); stops at the file's end.  *ret_open: the last byte is none. */
static int file_lines_count_until(struct lines_reader *r, uint64_t end, uint64_t *count,
				  bool *ret_open)
{
	while (r->at < end) {
		ssize_t n = file_lines_read_block(r, end - r->at < BLOCK ? (size_t)(end - r->at)
									 : BLOCK);

		if (n <= 0)
			return (int)n;
		*count += file_lines_count_feeds(r->block, r->n);
		*ret_open = r->block[r->n - 1] != '\n';
	}
	return 0;
}

/* Where the last `limit` lines begin, read from the end. */
static int file_lines_find_tail(struct lines_reader *r, uint64_t size, uint64_t limit,
				uint64_t *ret)
{
	uint64_t at = size, found = 0;

	while (at) {
		size_t n = at < BLOCK ? (size_t)at : BLOCK;
		ssize_t got;

		r->at = at - n;
		got = file_lines_read_block(r, n);
		if (got < 0)
			return (int)got;
		for (size_t i = (size_t)got; i-- > 0;)
			/* the one that ends the last line does not begin another */
			if (r->block[i] == '\n' && at - n + i + 1 < size && ++found == limit) {
				*ret = at - n + i + 1;
				return 0;
			}
		at -= n;
	}
	*ret = 0;
	return 0;
}

/* A line as it is being shown, block by block. */
struct lines_printer {
	const struct file_lines_request *ask;
	struct file_lines *out;
	uint64_t len; /* of it so far, without its line feed */
	bool begun;   /* its number is written */
	bool cr;      /* its last byte was one, and is held back when the line is cut */
	size_t whole; /* of the text: up to here lines are complete */
	uint64_t lines_whole;
};

static int file_lines_begin_line(struct lines_printer *s)
{
	if (s->begun)
		return 0;
	s->begun = true;
	s->len = 0;
	s->cr = false;
	return s->ask->numbers
		       ? buf_printf(&s->out->text, "%6" PRIu64 "\t", s->out->first + s->out->n)
		       : 0;
}

static int file_lines_append_part(struct lines_printer *s, const char *p, size_t n)
{
	int r = file_lines_begin_line(s);
	uint64_t room = s->len < s->ask->width ? s->ask->width - s->len : 0;
	size_t take = n < room ? n : (size_t)room;

	if (r >= 0 && take)
		r = buf_append(&s->out->text, p, take);
	s->len += n;
	if (n)
		s->cr = p[n - 1] == '\r';
	return r;
}

/* A cut line stays text: no half of a character is left before the note. */
static int file_lines_append_cut_note(struct lines_printer *s)
{
	struct buf *b = &s->out->text;
	size_t n = b->len < 3 ? b->len : 3;
	size_t lost = n - utf8_whole_prefix_len(b->data + b->len - n, n);
	uint64_t missing = s->len - s->ask->width - s->cr;

	buf_truncate(b, b->len - lost);
	s->out->cut++;
	return buf_printf(b, " [%" PRIu64 " bytes cut]%s", missing + lost, s->cr ? "\r" : "");
}

static int file_lines_end_line(struct lines_printer *s, bool feed)
{
	int r = file_lines_begin_line(s);

	if (r >= 0 && s->len > s->ask->width + s->cr)
		r = file_lines_append_cut_note(s);
	else if (r >= 0 && s->len > s->ask->width) /* only its CR exceeded the width */
		r = buf_putc(&s->out->text, '\r');
	if (r >= 0 && feed)
		r = buf_putc(&s->out->text, '\n');
	s->begun = false;
	s->out->n++;
	s->whole = s->out->text.len;
	s->lines_whole = s->out->n;
	return r;
}

/* From r->at on; stops after ask->limit lines, with r->at after the last. */
static int file_lines_print(struct lines_reader *r, struct lines_printer *s)
{
	while (s->out->n < s->ask->limit) {
		ssize_t n = file_lines_read_block(r, BLOCK);
		uint64_t start;
		size_t at = 0;
		int e = 0;

		if (n < 0)
			return (int)n;
		if (n == 0)
			return s->begun ? file_lines_end_line(s, false) : 0;
		start = r->at - r->n;
		while (e >= 0 && at < r->n && s->out->n < s->ask->limit) {
			const char *lf = memchr(r->block + at, '\n', r->n - at);
			size_t end = lf ? (size_t)(lf - r->block) : r->n;

			e = file_lines_append_part(s, r->block + at, end - at);
			if (e >= 0 && lf)
				e = file_lines_end_line(s, true);
			at = end + (lf ? 1 : 0);
			if (e >= 0)
				r->at = start + at;
		}
		if (e < 0)
			return e;
	}
	return 0;
}

/* Whether it is text, by its first block. */
static int file_lines_check_binary(struct lines_reader *r, struct file_lines *ret)
{
	ssize_t n;

	r->at = 0;
	n = file_lines_read_block(r, BLOCK);
	r->at = 0;
	ret->binary = n > 0 && memchr(r->block, '\0', (size_t)n);
	return n < 0 ? (int)n : 0;
}

/* Seek to the first requested line, and determine its number. */
static int file_lines_seek_first(const struct file_lines_request *ask, struct lines_reader *r,
				 struct file_lines *ret)
{
	uint64_t start = 0, count = 0, want = ask->first ? ask->first : 1;
	bool open = false;
	int e;

	if (ask->tail && ret->size) {
		e = file_lines_find_tail(r, ret->size, ask->limit, &start);
		r->at = 0;
		if (e < 0)
			return e;
		if (start <= LINES_COUNT_MAX || ask->numbers)
			e = file_lines_count_until(r, start, &count, &open);
		ret->first = r->at == start ? count + 1 : 0;
		r->at = start;
		return e;
	}
	if (ask->tail) { /* the kernel's files report size 0 */
		e = file_lines_count_until(r, UINT64_MAX, &count, &open);
		if (e < 0)
			return e;
		count += open;
		want = count > ask->limit ? count - ask->limit + 1 : 1;
		r->at = 0;
	}
	ret->first = want;
	for (uint64_t line = 1; line < want;) {
		ssize_t n = file_lines_read_block(r, BLOCK);
		size_t at = 0;

		if (n <= 0)
			return (int)n;
		while (line < want && at < r->n) {
			const char *lf = memchr(r->block + at, '\n', r->n - at);

			at = lf ? (size_t)(lf - r->block) + 1 : r->n;
			line += lf != NULL;
		}
		r->at = r->at - r->n + at;
	}
	return 0;
}

/* Count the lines after those shown, if that does not take long. */
static int file_lines_count_rest(struct lines_reader *r, struct file_lines *ret)
{
	uint64_t count = 0, from = r->at, end = from + LINES_COUNT_MAX;
	bool open = false;
	int e = file_lines_count_until(r, end, &count, &open);

	if (e < 0)
		return e;
	ret->more = r->at > from;
	ret->has_total = ret->first && r->at < end;
	if (ret->has_total)
		ret->total = ret->first - 1 + ret->n + count + open;
	return 0;
}

static int file_lines_read_range(const struct file_lines_request *ask, struct lines_reader *r,
				 struct file_lines *ret)
{
	struct lines_printer s = { .ask = ask, .out = ret };
	uint64_t end = 0;
	bool open = false;
	int e = file_lines_check_binary(r, ret);

	if (e < 0 || ret->binary)
		return e;
	e = file_lines_seek_first(ask, r, ret);
	if (e >= 0)
		e = file_lines_print(r, &s);
	if (e == -ENOBUFS) { /* a line that does not fit as a whole is not shown */
		buf_truncate(&ret->text, s.whole);
		ret->n = s.lines_whole;
		ret->more = true;
		return 0;
	}
	if (e >= 0)
		e = file_lines_count_rest(r, ret);
	if (e < 0 || ret->n || !ret->has_total)
		return e;
	/* past the end: report where that is */
	r->at = 0;
	e = file_lines_count_until(r, LINES_COUNT_MAX, &end, &open);
	ret->has_total = r->at < LINES_COUNT_MAX;
	ret->total = end + open;
	return e;
}

int file_lines_read(const struct file_lines_request *ask, struct file_lines *ret,
		    struct cay_err *err)
{
	auto_free struct lines_reader *r = calloc(1, sizeof(*r));
	struct stat st;
	int e;

	if (!r)
		return cay_no_memory(err);
	*r = (struct lines_reader){ .fd = -EBADF };
	e = file_open_regular(ask->path, &st, &r->fd, err);
	if (e >= 0) {
		ret->size = (uint64_t)st.st_size;
		e = file_lines_read_range(ask, r, ret);
		if (e < 0)
			e = file_fail_read(err, -e, r->fd, ask->path);
	}
	cay_closep(&r->fd);
	return e;
}

void file_lines_fini(struct file_lines *l)
{
	buf_fini(&l->text);
}
