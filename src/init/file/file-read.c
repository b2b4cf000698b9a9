/* SPDX-License-Identifier: Apache-2.0 */
#include "init/file/file-read.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "file/http-range.h"
#include "file/list-dir.h"
#include "file/path-at.h"

#define LIST_POOL MIB(24)

static int file_stat_fill(const char *path, const struct stat *st, const char *target,
			  struct arena *arena, struct file_stat *ret)
{
	unsigned bits = st->st_mode & 07777;
	char mode[] = { (char)('0' + (bits >> 9)), (char)('0' + (bits >> 6 & 7)),
			(char)('0' + (bits >> 3 & 7)), (char)('0' + (bits & 7)) };
	int64_t s = st->st_mtim.tv_sec;
	int r;

	*ret = (struct file_stat){
		.type = file_type_from_dirent(IFTODT(st->st_mode)),
		.size = (uint64_t)st->st_size,
		.mode = arena_strndup(arena, mode, sizeof(mode)),
		.uid = st->st_uid,
		.gid = st->st_gid,
		/* times before 1970 and after 2261 do not fit */
		.mtime_ns = s < 0 || s >= INT64_MAX / (int64_t)NS_PER_S
				    ? 0
				    : (uint64_t)s * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec,
	};
	r = ret->mode ? file_path_encode(path, arena, &ret->path, &ret->path_b64) : -ENOMEM;
	if (r >= 0 && target && target[0])
		r = file_path_encode(target, arena, &ret->target, &ret->target_b64);
	return r;
}

int file_stat_describe(const char *path, const struct stat *st, int dirfd, const char *name,
		       struct arena *arena, struct file_stat *ret)
{
	char target[FILE_PATH_MAX + 1] = {};

	/* it may have been replaced meanwhile, and then has no target */
	if (S_ISLNK(st->st_mode) && readlinkat(dirfd, name, target, sizeof(target) - 1) < 0)
		target[0] = 0;
	return file_stat_fill(path, st, target, arena, ret);
}

int file_stat_path(const struct file_stat_query *q, struct arena *arena, struct file_stat *ret,
		   struct cay_err *err)
{
	auto_close int fd = -EBADF;
	const char *path = NULL;
	struct stat st;
	int r = file_path_decode(q->path, q->path_b64, "path", arena, &path, err);

	if (r < 0)
		return r;
	fd = file_open(AT_FDCWD, path, O_PATH | (q->follow ? 0 : O_NOFOLLOW), 0);
	if (fd < 0)
		return file_fail_lookup(err, -fd, path);
	if (fstat(fd, &st) < 0)
		return file_fail_lookup(err, errno, path);
	if (file_stat_describe(path, &st, fd, "", arena, ret) < 0)
		return cay_no_memory(err);
	return 0;
}

void child_file_stat(struct child_op *w, struct request *rq)
{
	struct file_stat reply = {};
	struct cay_err err = {};

	(void)file_stat_path(rq->query, &rq->arena, &reply, &err);
	child_op_reply_json(w, &file_stat_table, &reply, &err);
}

/* The requested path joined with the name, so that a client can use it as it is. */
static const char *file_list_join_path(struct arena *arena, const char *dir, const char *name)
{
	size_t n = strcmp(dir, ".") == 0 ? 0 : strlen(dir), m = strlen(name);
	char *path;

	while (n && dir[n - 1] == '/')
		n--;
	path = arena_alloc(arena, 1, n + m + 2);
	if (!path || snprintf(path, n + m + 2, "%.*s%s%s", (int)n, dir,
			      n || dir[0] == '/' ? "/" : "", name) < 0)
		return NULL;
	return path;
}

static int file_list_describe(const char *path, const struct dir_list *l, struct arena *arena,
			      struct file_list *ret)
{
	struct file_stat *v = arena_alloc(arena, l->n, sizeof(*v));

	*ret = (struct file_list){ .entries = { v, l->n }, .truncated = l->truncated };
	for (size_t i = 0; i < l->n; i++) {
		const struct dir_list_entry *e = &l->v[i];
		const char *name = file_list_join_path(arena, path, e->path);

		if (!v || !name || file_stat_fill(name, &e->st, e->target, arena, &v[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

void child_file_list(struct child_op *w, struct request *rq)
{
	const struct file_list_query *q = rq->query;
	auto_arena arena = ARENA_INIT(LIST_POOL);
	struct file_list reply = {};
	struct cay_err err = {};
	const char *path = NULL;
	struct dir_list list;

	if (file_path_decode(q->path, q->path_b64, "path", &rq->arena, &path, &err) >= 0 &&
	    dir_list_read(path, (unsigned)q->depth, (size_t)q->limit, &arena, &list, &err) >= 0 &&
	    file_list_describe(path, &list, &arena, &reply) < 0)
		(void)cay_no_memory(&err);
	child_op_reply_json(w, &file_list_table, &reply, &err);
}

/* Files of /proc and the like report size 0 and have content.  They are read whole, and
 * refused when large. */
static void file_read_send_unsized(struct child_op *w, int fd, const char *path)
{
	auto_buf all = BUF_INIT(FILE_UNSIZED_MAX);
	struct cay_err err = {};
	ssize_t n = 0;

	do {
		if (buf_reserve(&all, KIB(64)) < 0) {
			(void)cay_fail(&err, CAY_E_TOO_LARGE,
				       "the file reports no size and has more than %zu bytes",
				       FILE_UNSIZED_MAX);
			break;
		}
		n = read(fd, all.data + all.len, KIB(64));
		if (n > 0)
			all.len += (size_t)n;
	} while (n > 0);
	if (n < 0)
		(void)file_fail_read(&err, errno, fd, path);
	if (err.code)
		child_op_fail(w, &err);
	else if (child_op_start_stream(w, 200, "application/octet-stream", all.len) >= 0 &&
		 child_op_write(w, all.data, all.len) >= 0)
		child_op_end_stream(w);
}

static int file_read_set_range_header(struct child_op *w, enum http_range_kind kind, uint64_t first,
				      uint64_t n, uint64_t size)
{
	auto_buf text = BUF_INIT(96);
	int r;

	if (kind == HTTP_RANGE_ALL)
		return 0;
	if (kind == HTTP_RANGE_UNSATISFIABLE)
		r = buf_printf(&text, "bytes */%llu", (unsigned long long)size);
	else
		r = buf_printf(&text, "bytes %llu-%llu/%llu", (unsigned long long)first,
			       (unsigned long long)(first + n - 1), (unsigned long long)size);
	return r < 0 ? r : child_op_add_header(w, "Content-Range", buf_str(&text));
}

static void file_read_send_range(struct child_op *w, const struct http_head *head, int fd,
				 uint64_t size)
{
	struct slice header = http_header_find(head, "range");
	uint64_t first, n;
	enum http_range_kind kind = http_range_parse(header, size, &first, &n);
	struct cay_err err = {};

	if (file_read_set_range_header(w, kind, first, n, size) < 0)
		(void)cay_no_memory(&err);
	else if (kind == HTTP_RANGE_UNSATISFIABLE)
		(void)cay_fail(&err, CAY_E_RANGE, "the file has %llu bytes",
			       (unsigned long long)size);
	if (err.code)
		child_op_fail(w, &err);
	else if (child_op_start_stream(w, kind == HTTP_RANGE_PART ? 206 : 200,
				       "application/octet-stream", n) >= 0 &&
		 child_op_send_file(w, fd, first, n) >= 0)
		child_op_end_stream(w);
}

/* Content-Length is the size now: bytes added later are not sent, and if the file shrinks the
 * connection ends early. */
void child_file_read(struct child_op *w, struct request *rq)
{
	const struct file_query *q = rq->query;
	auto_close int fd = -EBADF;
	struct cay_err err = {};
	const char *path = NULL;
	struct stat st;

	if (file_path_decode(q->path, q->path_b64, "path", &rq->arena, &path, &err) < 0 ||
	    file_open_regular(path, &st, &fd, &err) < 0)
		child_op_fail(w, &err);
	else if (!st.st_size)
		file_read_send_unsized(w, fd, path);
	else
		file_read_send_range(w, rq->head, fd, (uint64_t)st.st_size);
}
