/* SPDX-License-Identifier: Apache-2.0 */
/* file.view, file.glob and file.grep */
#include <dirent.h>
#include <sys/resource.h>

#include "file/glob-find.h"
#include "file/grep.h"
#include "file/lines.h"
#include "file/path-at.h"
#include "init/file/file-read.h"
#include "text/base64.h"

#define GREP_TEXT_MAX MIB(1) /* of all lines together */
#define GREP_MEMORY MIB(512) /* memory an expression may need */

int file_bytes_to_text(struct slice s, const char **ret, const char **ret_b64)
{
	char *text;

	*ret = *ret_b64 = NULL;
	/* in C the JSON text is a string, so it has no NUL */
	if (utf8_is_valid(s.p, s.n) && !(s.n && memchr(s.p, '\0', s.n))) {
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

void file_bytes_free(const char *text, const char *text_b64)
{
	free((void *)(uintptr_t)text);
	free((void *)(uintptr_t)text_b64);
}

int file_path_or_workspace(const char *path, const char *path_b64, struct arena *arena,
			   const char **ret, struct cay_err *err)
{
	*ret = ".";
	return path || path_b64 ? file_path_decode(path, path_b64, "path", arena, ret, err) : 0;
}

void child_file_view(struct child_op *w, struct request *rq)
{
	const struct file_view_query *q = rq->query;
	struct file_lines_request ask = { .first = q->first,
					  .limit = q->limit,
					  .tail = q->tail,
					  .numbers = q->numbers,
					  .width = q->width };
	auto_lines l = LINES_INIT;
	struct file_view reply;
	struct cay_err err = {};

	if (file_path_decode(q->path, q->path_b64, "path", &rq->arena, &ask.path, &err) < 0 ||
	    file_lines_read(&ask, &l, &err) < 0) {
		child_op_fail(w, &err);
		return;
	}
	reply = (struct file_view){
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
	if (file_bytes_to_text((struct slice){ buf_str(&l.text), l.text.len }, &reply.text,
			       &reply.text_b64) < 0)
		(void)cay_no_memory(&err);
	child_op_reply_json(w, &file_view_table, &reply, &err);
}

enum file_type file_type_from_dirent(unsigned char type)
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

struct found_files {
	struct file_found *v;
	size_t n;
};

static void found_files_fini(struct found_files *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		file_bytes_free(rows->v[i].path, rows->v[i].path_b64);
}

static int found_files_describe(const struct glob_find_result *f, struct arena *arena,
				struct found_files *ret, struct cay_err *err)
{
	ret->v = arena_alloc(arena, f->n + 1, sizeof(*ret->v));
	if (!ret->v)
		return cay_no_memory(err);
	for (size_t i = 0; i < f->n; i++) {
		const struct glob_find_entry *one = &f->v[i];
		struct file_found *row = &ret->v[ret->n++];

		row->type = file_type_from_dirent(one->type);
		row->size = one->size;
		row->mtime_ns = one->mtime_ns;
		if (file_bytes_to_text((struct slice){ one->path, one->n }, &row->path,
				       &row->path_b64) < 0)
			return cay_no_memory(err);
	}
	return 0;
}

void child_file_glob(struct child_op *w, struct request *rq)
{
	const struct file_glob_query *q = rq->query;
	struct glob_find_request ask = { .pattern = slice_of(q->pattern),
					 .hidden = q->hidden,
					 .type = (enum glob_find_type)q->type,
					 .limit = (unsigned)q->limit };
	auto_arena arena = ARENA_INIT((GLOB_FIND_LIMIT_MAX + 2) * sizeof(struct file_found));
	CAY_CLEANUP(found_files_fini) struct found_files rows = {};
	auto_glob_find f = {};
	struct file_glob reply = {};
	struct cay_err err = {};

	if (file_path_or_workspace(q->path, q->path_b64, &rq->arena, &ask.dir, &err) >= 0 &&
	    glob_find_run(&ask, &f, &err) >= 0 &&
	    found_files_describe(&f, &arena, &rows, &err) >= 0)
		reply = (struct file_glob){ { rows.v, rows.n }, f.total, f.skipped };
	child_op_reply_json(w, &file_glob_table, &reply, &err);
}

struct grep_hits {
	struct child_op *op;
	struct file_hit *v;
	size_t n, cap, bytes;
	bool full;
};

/* At the limit the search ends as if it had found everything. */
static int on_grep_hit(void *arg, const struct grep_hit *h)
{
	struct grep_hits *all = arg;
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
	if (file_bytes_to_text(h->path, &one->path, &one->path_b64) < 0 ||
	    file_bytes_to_text(h->text, &one->text, &one->text_b64) < 0)
		return -ENOMEM;
	all->n++;
	return 0;
}

static void on_grep_progress(void *arg)
{
	const struct grep_hits *all = arg;

	child_op_report_progress(all->op);
}

static void grep_limit_memory(void)
{
#ifndef CAY_SANITIZED
	(void)setrlimit(RLIMIT_AS, &(struct rlimit){ GREP_MEMORY, GREP_MEMORY });
#endif
}

void child_file_grep(struct child_op *w, struct request *rq)
{
	const struct file_grep_ask *q = rq->body;
	struct grep_hits all = { .op = w };
	struct grep_request ask = { .pattern = slice_of(q->pattern),
				    .fixed = q->fixed,
				    .ignore_case = q->ignore_case,
				    .hidden = q->hidden,
				    .include = q->include.v,
				    .n_include = q->include.n,
				    .context = (unsigned)q->context,
				    .limit = q->limit,
				    .per_file = q->per_file,
				    .width = (size_t)q->width,
				    .on_hit = on_grep_hit,
				    .on_file = on_grep_progress,
				    .arg = &all };
	struct grep_result done;
	struct file_grep reply = {};
	struct cay_err err = {};

	grep_limit_memory();
	if (file_path_or_workspace(q->path, q->path_b64, &rq->arena, &ask.path, &err) >= 0 &&
	    grep_run(&ask, &done, &err) >= 0)
		reply = (struct file_grep){ .hits = { all.v, all.n },
					    .files = done.files,
					    .binary = done.binary,
					    .skipped = done.skipped,
					    .truncated = done.more || all.full };
	child_op_reply_json(w, &file_grep_table, &reply, &err);
}
