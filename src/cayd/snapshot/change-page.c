/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/snapshot/change-page.h"

#include <stdio.h>
#include <string.h>

#include "cayd/core/list-page.h"
#include "text/base64.h"

#define READ_BUFFER KIB(64)
static_assert(READ_BUFFER > CHANGE_ROW_MAX);

static int change_name_compare(struct slice a, struct slice b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n ? memcmp(a.p, b.p, n) : 0;

	return r ? r : (a.n > b.n) - (a.n < b.n);
}

static int change_row_compare(const void *a, const void *b)
{
	return change_name_compare(((const struct change_row *)a)->name,
				   ((const struct change_row *)b)->name);
}

static void change_row_swap(struct change_row *a, struct change_row *b)
{
	struct change_row c = *a;

	*a = *b;
	*b = c;
}

/* A heap with the largest name first. */
static void change_heap_sift_up(struct change_page *p, size_t i)
{
	while (i && change_row_compare(&p->rows[i], &p->rows[(i - 1) / 2]) > 0) {
		change_row_swap(&p->rows[i], &p->rows[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
}

static void change_heap_sift_down(struct change_page *p)
{
	for (size_t i = 0, top = 0;; i = top) {
		for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < p->n; k++)
			if (change_row_compare(&p->rows[k], &p->rows[top]) > 0)
				top = k;
		if (top == i)
			return;
		change_row_swap(&p->rows[i], &p->rows[top]);
	}
}

/* Everything from the largest name on is for another page. */
static void change_page_cut(struct change_page *p)
{
	struct slice name = p->rows[0].name;

	free(p->cut);
	p->cut = (char *)(uintptr_t)name.p;
	p->cut_len = name.n;
	p->bytes -= name.n;
	p->more = true;
	p->rows[0] = p->rows[--p->n];
	change_heap_sift_down(p);
}

static int change_page_add(struct change_page *p, const struct change_row *row, struct slice after)
{
	char *name;

	if (after.p && change_name_compare(row->name, after) <= 0)
		return 0;
	if (p->cut && change_name_compare(row->name, (struct slice){ p->cut, p->cut_len }) >= 0)
		return 0;
	name = malloc(row->name.n + 1);
	if (!name)
		return -ENOMEM;
	memcpy(name, row->name.p, row->name.n);
	p->rows[p->n] = *row;
	p->rows[p->n].name.p = name;
	p->bytes += row->name.n;
	change_heap_sift_up(p, p->n++);
	while (p->n > p->limit || (p->bytes > CHANGE_PAGE_NAMES && p->n > 1))
		change_page_cut(p);
	return 0;
}

static int change_page_fail(struct cay_err *err)
{
	return cay_fail(err, CAY_E_INTERNAL, "the packer wrote rows that are none");
}

/* The rows of a buffer: how many bytes they are.  The last row is the last. */
static ssize_t change_page_take(struct change_page *p, const char *bytes, size_t n,
				struct slice after, bool *ret_ended, struct cay_err *err)
{
	struct change_row row;
	size_t at = 0;

	while (at < n && !*ret_ended) {
		ssize_t len = change_row_parse(bytes + at, n - at, &row);

		if (len < 0)
			return change_page_fail(err);
		if (len == 0)
			break;
		at += (size_t)len;
		if (row.kind == CHANGE_END) {
			*ret_ended = true;
			p->truncated = row.more;
			p->skipped = row.skipped;
		} else if (change_page_add(p, &row, after) < 0) {
			return cay_no_memory(err);
		}
	}
	return (ssize_t)at;
}

static int change_page_read_rows(struct change_page *p, int fd, char *buffer, struct slice after,
				 struct cay_err *err)
{
	size_t have = 0;
	off_t at = 0;
	bool ended = false;

	for (;;) {
		ssize_t n = pread(fd, buffer + have, READ_BUFFER - have, at), used;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "read the changes");
		at += n;
		have += (size_t)n;
		used = change_page_take(p, buffer, have, after, &ended, err);
		if (used < 0)
			return (int)used;
		have -= (size_t)used;
		memmove(buffer, buffer + used, have);
		if (ended && !have && n == 0)
			return 0;
		if (n == 0 || (ended && have))
			return change_page_fail(err);
	}
}

int change_page_read(struct change_page *p, int fd, struct slice after, size_t limit,
		     struct cay_err *err)
{
	char *buffer;
	int r;

	*p = (struct change_page){ .limit = limit < CHANGE_PAGE_ROWS ? limit : CHANGE_PAGE_ROWS };
	p->rows = calloc(p->limit + 1, sizeof(*p->rows));
	if (!p->rows)
		return cay_no_memory(err);
	buffer = malloc(READ_BUFFER);
	if (!buffer)
		return cay_no_memory(err);
	r = change_page_read_rows(p, fd, buffer, after, err);
	free(buffer);
	if (r >= 0)
		qsort(p->rows, p->n, sizeof(*p->rows), change_row_compare);
	return r;
}

static unsigned change_type_from_mode(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return FILE_DIR;
	case S_IFLNK:
		return FILE_SYMLINK;
	case S_IFIFO:
		return FILE_FIFO;
	case S_IFSOCK:
		return FILE_SOCKET;
	case S_IFCHR:
		return FILE_CHAR;
	case S_IFBLK:
		return FILE_BLOCK;
	default:
		return FILE_REGULAR;
	}
}

/* "/" and the name in base64, so that no cursor is empty. */
static const char *change_path_encode(struct slice name, char *ret)
{
	char path[CHANGE_ROW_MAX] = "/";

	memcpy(path + 1, name.p, name.n);
	base64_encode((const uint8_t *)path, name.n + 1, ret);
	ret[BASE64_TEXT(name.n + 1)] = 0;
	return ret;
}

bool change_cursor_parse(const char *cursor, char ret[static CHANGE_ROW_MAX],
			 struct slice *ret_name)
{
	size_t len = strlen(cursor), n;

	if (BASE64_BYTES(len) > CHANGE_ROW_MAX ||
	    base64_decode(cursor, len, (uint8_t *)ret, &n) < 0 || !n || ret[0] != '/')
		return false;
	*ret_name = (struct slice){ ret + 1, n - 1 };
	return true;
}

static bool change_page_add_row(struct list_page *list, const struct change_row *row)
{
	char path[CHANGE_ROW_MAX] = "/", base64[BASE64_TEXT(CHANGE_ROW_MAX) + 1], mode[8];
	const int n = snprintf(mode, sizeof(mode), "%04o", row->mode & 07777U);
	bool there = row->kind != CHANGE_DELETED;
	struct change_info info = { .kind = row->kind,
				    .type = change_type_from_mode(row->mode),
				    .has_size = there && S_ISREG(row->mode),
				    .size_bytes = row->size,
				    .mode = there && n == 4 ? mode : NULL };

	static_assert(CHANGE_ROW_MAX > TAR_NAME_MAX + 1);
	memcpy(path + 1, row->name.p, row->name.n);
	if (utf8_is_valid(path, row->name.n + 1))
		info.path = path;
	else
		info.path_b64 = change_path_encode(row->name, base64);
	return list_page_add(list, &change_info_table, &info);
}

void change_page_reply(const struct change_page *p, struct request *rq)
{
	char cursor[BASE64_TEXT(CHANGE_ROW_MAX) + 1];
	struct list_page list;
	size_t i = 0;

	list_page_begin(&list, "changes");
	while (i < p->n && change_page_add_row(&list, &p->rows[i]))
		i++;
	jw_end(&list.w);
	if (i && (i < p->n || p->more))
		jw_str(&list.w, "next_cursor", change_path_encode(p->rows[i - 1].name, cursor));
	jw_bool(&list.w, "truncated", p->truncated);
	jw_u64(&list.w, "skipped", p->skipped);
	jw_end(&list.w);
	list_page_reply(&list, rq);
}

void change_page_fini(struct change_page *p)
{
	for (size_t i = 0; i < p->n; i++)
		free((char *)(uintptr_t)p->rows[i].name.p);
	free(p->rows);
	free(p->cut);
	*p = (struct change_page){};
}
