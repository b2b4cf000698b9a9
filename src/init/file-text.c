/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on text files: a part of one, changes of one, looking for some */
#include <dirent.h>
#include <sys/resource.h>

#include "file/at.h"
#include "file/find.h"
#include "file/grep.h"
#include "file/lines.h"
#include "init/file.h"
#include "text/base64.h"

#define GREP_TEXT_MAX MIB(1) /* of all lines together */
#define GREP_MEMORY MIB(512) /* an expression can be made to want any amount */

int file_tell_bytes(struct slice s, const char **ret, const char **ret_b64)
{
	char *text;

	*ret = *ret_b64 = NULL;
	/* JSON's text has no NUL here: it is a C string on our side */
	if (utf8_valid(s.p, s.n) && !(s.n && memchr(s.p, '\0', s.n))) {
		text = calloc(1, s.n + 1);
		if (text && s.n)
			memcpy(text, s.p, s.n);
		*ret = text;
		return text ? 0 : -ENOMEM;
	}
	text = calloc(1, BASE64_TEXT(s.n) + 1);
	if (text)
		base64_encode((const uint8_t *)s.p, s.n, text);
	*ret_b64 = text;
	return text ? 0 : -ENOMEM;
}

void file_forget_bytes(const char *told, const char *told_b64)
{
	free((void *)(uintptr_t)told);
	free((void *)(uintptr_t)told_b64);
}

static int no_memory(struct cay_err *err)
{
	return cay_fail(err, CAY_E_NO_MEMORY, "no memory for an answer");
}

int file_place(const char *path, const char *path_b64, struct pool *pool, const char **ret,
	       struct cay_err *err)
{
	*ret = ".";
	return path || path_b64 ? file_name(path, path_b64, "path", pool, ret, err) : 0;
}

void file_view_work(struct work *w)
{
	const struct file_view_query *q = work_query(w);
	struct lines_ask ask = { .first = q->first,
				 .limit = q->limit,
				 .tail = q->tail,
				 .numbers = q->numbers,
				 .width = q->width };
	auto_lines l = LINES_INIT;
	struct file_view told = {};
	struct cay_err err = {};

	if (file_name(q->path, q->path_b64, "path", work_pool(w), &ask.path, &err) < 0 ||
	    lines_view(&ask, &l, &err) < 0) {
		work_fail(w, &err);
		return;
	}
	told = (struct file_view){
		.size = l.size,
		.first = l.first,
		.has_first = l.first && !l.binary,
		.lines = l.n,
		.total = l.total,
		.has_total = l.has_total,
		.more = l.more,
		.binary = l.binary,
		.cut = l.cut,
	};
	if (file_tell_bytes((struct slice){ buf_str(&l.text), l.text.len }, &told.text,
			    &told.text_b64) < 0) {
		(void)no_memory(&err);
		work_fail(w, &err);
	} else {
		work_reply_json(w, &file_view_table, &told);
	}
}

static enum file_type told_type(unsigned char type)
{
	static const unsigned char types[] = {
		[FILE_REGULAR] = DT_REG, [FILE_DIR] = DT_DIR,     [FILE_SYMLINK] = DT_LNK,
		[FILE_FIFO] = DT_FIFO,   [FILE_SOCKET] = DT_SOCK, [FILE_CHAR] = DT_CHR,
		[FILE_BLOCK] = DT_BLK,
	};

	static_assert(ARRAY_SIZE(types) == FILE_NUM_TYPES);
	for (unsigned i = 0; i < FILE_NUM_TYPES; i++)
		if (types[i] == type)
			return (enum file_type)i;
	return FILE_REGULAR;
}

struct rows {
	struct file_found *v;
	size_t n;
};

static void rows_fini(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		file_forget_bytes(rows->v[i].path, rows->v[i].path_b64);
}

static int tell_found(const struct find *f, struct pool *pool, struct rows *ret,
		      struct cay_err *err)
{
	ret->v = pool_take(pool, f->n + 1, sizeof(*ret->v));
	if (!ret->v)
		return no_memory(err);
	for (size_t i = 0; i < f->n; i++) {
		const struct found *one = &f->v[i];
		struct file_found *row = &ret->v[ret->n++];

		row->type = told_type(one->type);
		row->size = one->size;
		row->mtime_ns = one->mtime_ns;
		if (file_tell_bytes((struct slice){ one->path, one->n }, &row->path,
				    &row->path_b64) < 0)
			return no_memory(err);
	}
	return 0;
}

void file_glob_work(struct work *w)
{
	const struct file_glob_query *q = work_query(w);
	struct find_ask ask = { .pattern = slice_of(q->pattern),
				.hidden = q->hidden,
				.type = (enum find_type)q->type,
				.limit = (unsigned)q->limit };
	auto_pool pool = POOL_INIT((FIND_LIMIT_MAX + 2) * sizeof(struct file_found));
	CAY_CLEANUP(rows_fini) struct rows rows = {};
	auto_find f = {};
	struct file_glob told;
	struct cay_err err = {};

	if (file_place(q->path, q->path_b64, work_pool(w), &ask.dir, &err) < 0 ||
	    find_run(&ask, &f, &err) < 0 || tell_found(&f, &pool, &rows, &err) < 0) {
		work_fail(w, &err);
		return;
	}
	told = (struct file_glob){ { rows.v, rows.n }, f.total, f.skipped };
	work_reply_json(w, &file_glob_table, &told);
}

struct hits {
	struct work *work;
	struct file_hit *v;
	size_t n, cap, bytes;
	bool full;
};

/* Past the limit the search ends as if it had found all it was asked for. */
static int add_hit(void *arg, const struct grep_hit *h)
{
	struct hits *all = arg;
	struct file_hit *one;

	if (all->bytes + h->text.n + h->path.n > GREP_TEXT_MAX) {
		all->full = true;
		return -ECANCELED;
	}
	if (all->n == all->cap) {
		size_t cap = all->cap ? 2 * all->cap : 64;

		one = reallocarray(all->v, cap, sizeof(*one));
		if (!one)
			return -ENOMEM;
		all->v = one;
		all->cap = cap;
	}
	one = &all->v[all->n];
	*one = (struct file_hit){
		.line = h->line, .column = h->column, .has_column = h->column, .cut = h->cut
	};
	all->bytes += h->text.n + h->path.n + 16;
	if (file_tell_bytes(h->path, &one->path, &one->path_b64) < 0 ||
	    file_tell_bytes(h->text, &one->text, &one->text_b64) < 0)
		return -ENOMEM;
	all->n++;
	return 0;
}

static void still_at_it(void *arg)
{
	const struct hits *all = arg;

	work_alive(all->work);
}

static void bound_memory(void)
{
#ifndef CAY_SANITIZED
	(void)setrlimit(RLIMIT_AS, &(struct rlimit){ GREP_MEMORY, GREP_MEMORY });
#endif
}

void file_grep_work(struct work *w)
{
	const struct file_grep_ask *q = work_body(w);
	struct hits all = { .work = w };
	struct grep_ask ask = { .pattern = slice_of(q->pattern),
				.fixed = q->fixed,
				.ignore_case = q->ignore_case,
				.hidden = q->hidden,
				.include = q->include.v,
				.n_include = q->include.n,
				.context = (unsigned)q->context,
				.limit = q->limit,
				.per_file = q->per_file,
				.width = (size_t)q->width,
				.hit = add_hit,
				.file = still_at_it,
				.arg = &all };
	struct grep_done done;
	struct file_grep told;
	struct cay_err err = {};

	bound_memory();
	if (file_place(q->path, q->path_b64, work_pool(w), &ask.path, &err) < 0 ||
	    grep_run(&ask, &done, &err) < 0) {
		work_fail(w, &err);
		return;
	}
	told = (struct file_grep){
		.hits = { all.v, all.n },
		.files = done.files,
		.binary = done.binary,
		.skipped = done.skipped,
		.truncated = done.more || all.full,
	};
	work_reply_json(w, &file_grep_table, &told);
}
