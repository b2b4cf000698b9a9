/* SPDX-License-Identifier: Apache-2.0 */
#include "file/edit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT_MAX 100 /* most occurrences to count */
#define TELL_MAX 8    /* most line numbers in the message */

static const char *edit_find_text(struct slice in, size_t from, struct slice what)
{
	return from > in.n ? NULL : memmem(in.p + from, in.n - from, what.p, what.n);
}

static uint64_t edit_line_number(struct slice s, size_t at)
{
	uint64_t line = 1;

	for (const char *p = s.p; (p = memchr(p, '\n', at - (size_t)(p - s.p))); p++)
		line++;
	return line;
}

static int edit_append_text(struct buf *b, const char *p, size_t n, struct cay_err *err)
{
	int r = n ? buf_append(b, p, n) : 0;

	if (r == -ENOBUFS)
		return cay_fail(err, CAY_E_TOO_LARGE, "the text would have more than %zu bytes",
				b->max);
	return r < 0 ? cay_no_memory(err) : 0;
}

/* "stands 3 times, on lines 4, 17, 30": helps the caller to choose the right one. */
static int edit_refuse_ambiguous(struct slice s, const struct edit *e, struct cay_err *err)
{
	auto_buf lines = BUF_INIT(KIB(1));
	unsigned count = 0;
	size_t from = 0;
	const char *p;

	while (count < COUNT_MAX && (p = edit_find_text(s, from, e->old))) {
		from = (size_t)(p - s.p) + 1; /* they may overlap */
		count++;
		if (count <= TELL_MAX && buf_printf(&lines, "%s%" PRIu64, count > 1 ? ", " : "",
						    edit_line_number(s, from - 1)) < 0)
			return cay_no_memory(err);
	}
	return cay_fail_field(err, CAY_E_CONFLICT, "old",
			      "stands %s%u times, on lines %s%s; give more of the text around it",
			      count == COUNT_MAX ? "at least " : "", count, buf_str(&lines),
			      count > TELL_MAX ? ", ..." : "");
}

static int edit_refuse_not_found(struct slice s, const struct edit *e, struct cay_err *err)
{
	bool crlf = memmem(s.p, s.n, "\r\n", 2) && memchr(e->old.p, '\n', e->old.n) &&
		    !memmem(e->old.p, e->old.n, "\r\n", 2);

	return cay_fail_field(err, CAY_E_CONFLICT, "old", "does not occur in the file%s",
			      crlf ? "; its lines end in CR LF" : "");
}

static int edit_replace_text(struct slice s, const struct edit *e, struct buf *ret, uint64_t *count,
			     struct cay_err *err)
{
	size_t from = 0;
	const char *p;
	int r = 0;

	if (!e->old.n)
		return cay_fail_field(err, CAY_E_INVALID, "old", "must not be empty");
	if (slice_eq(e->old, e->text))
		return cay_fail_field(err, CAY_E_INVALID, "old", "is the same as what replaces it");
	p = edit_find_text(s, 0, e->old);
	if (!p)
		return edit_refuse_not_found(s, e, err);
	if (e->kind == EDIT_REPLACE && edit_find_text(s, (size_t)(p - s.p) + 1, e->old))
		return edit_refuse_ambiguous(s, e, err);
	for (; r >= 0 && p; p = edit_find_text(s, from, e->old)) {
		r = edit_append_text(ret, s.p + from, (size_t)(p - s.p) - from, err);
		if (r >= 0)
			r = edit_append_text(ret, e->text.p, e->text.n, err);
		from = (size_t)(p - s.p) + e->old.n;
		++*count;
	}
	return r < 0 ? r : edit_append_text(ret, s.p + from, s.n - from, err);
}

/* End of line n, after its line feed; *ret_line is the last line of the text. */
static size_t edit_find_line_end(struct slice s, uint64_t n, uint64_t *ret_line)
{
	size_t at = 0;

	for (*ret_line = 0; *ret_line < n && at < s.n; ++*ret_line) {
		const char *lf = memchr(s.p + at, '\n', s.n - at);

		at = lf ? (size_t)(lf - s.p) + 1 : s.n;
	}
	return at;
}

/* The line ending of this text, taken from its first line. */
static struct slice edit_detect_line_ending(struct slice s)
{
	const char *lf = s.n ? memchr(s.p, '\n', s.n) : NULL;

	return lf && lf > s.p && lf[-1] == '\r' ? SLICE("\r\n") : SLICE("\n");
}

/* A line stays a line: a line feed is added where one would run into the next. */
static int edit_insert_lines(struct slice s, const struct edit *e, struct buf *ret, uint64_t *count,
			     struct cay_err *err)
{
	struct slice lf = edit_detect_line_ending(s);
	uint64_t last;
	size_t at = edit_find_line_end(s, e->line, &last);
	int r;

	if (e->old.n)
		return cay_fail_field(err, CAY_E_INVALID, "old", "is not for an insert");
	if (!e->text.n)
		return cay_fail_field(err, CAY_E_INVALID, "new", "must not be empty");
	if (last < e->line)
		return cay_fail_field(err, CAY_E_CONFLICT, "line",
				      "is after the last line, %" PRIu64, last);
	r = edit_append_text(ret, s.p, at, err);
	if (r >= 0 && at && s.p[at - 1] != '\n')
		r = edit_append_text(ret, lf.p, lf.n, err);
	if (r >= 0)
		r = edit_append_text(ret, e->text.p, e->text.n, err);
	if (r >= 0 && at < s.n && e->text.p[e->text.n - 1] != '\n')
		r = edit_append_text(ret, lf.p, lf.n, err);
	++*count;
	return r < 0 ? r : edit_append_text(ret, s.p + at, s.n - at, err);
}

static int edit_apply_one(struct slice s, const struct edit *e, struct buf *ret, uint64_t *count,
			  struct cay_err *err)
{
	return e->kind == EDIT_INSERT ? edit_insert_lines(s, e, ret, count, err)
				      : edit_replace_text(s, e, ret, count, err);
}

int edit_apply(struct slice before, const struct edit *edits, size_t n, struct buf *ret,
	       uint64_t *ret_count, struct cay_err *err)
{
	auto_buf other = BUF_INIT(ret->max);
	struct slice s = before;

	*ret_count = 0;
	if (!n || n > EDITS_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "edits", "has 1 to %d", EDITS_MAX);
	for (size_t i = 0; i < n; i++) {
		struct buf was = *ret;
		char at[32];
		int r;

		buf_clear(&other);
		r = edit_apply_one(s, &edits[i], &other, ret_count, err);
		if (r < 0) {
			if (snprintf(at, sizeof(at), "edits[%zu]", i) < (int)sizeof(at) && err &&
			    err->field[0])
				cay_err_prefix_field(err, at);
			return r;
		}
		*ret = other;
		other = was;
		s = (struct slice){ buf_str(ret), ret->len };
	}
	return 0;
}
