/* SPDX-License-Identifier: Apache-2.0 */
#include "init/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "file/at.h"
#include "file/list.h"
#include "file/range.h"

#define DEADLINE_MS 30000
#define SEARCH_MS 60000 /* of what looks at a whole tree */
#define WATCH_MS 120000 /* of what may wait for something to happen */
#define TREE_MS 600000  /* of what may be long and says nothing meanwhile */
#define LIST_POOL MIB(24)

/* What a file is */

static enum file_type type_of(mode_t mode)
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

static int tell_stat(const char *path, const struct stat *st, const char *target, struct pool *pool,
		     struct file_stat *ret)
{
	unsigned bits = st->st_mode & 07777;
	char mode[] = { (char)('0' + (bits >> 9)), (char)('0' + (bits >> 6 & 7)),
			(char)('0' + (bits >> 3 & 7)), (char)('0' + (bits & 7)) };
	int64_t s = st->st_mtim.tv_sec;
	int r;

	*ret = (struct file_stat){
		.type = type_of(st->st_mode),
		.size = (uint64_t)st->st_size,
		.mode = pool_strn(pool, mode, sizeof(mode)),
		.uid = st->st_uid,
		.gid = st->st_gid,
		/* times before 1970 and behind 2261 cannot be told */
		.mtime_ns = s < 0 || s >= INT64_MAX / (int64_t)NS_PER_S
				    ? 0
				    : (uint64_t)s * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec,
	};
	r = ret->mode ? file_tell_name(path, pool, &ret->path, &ret->path_b64) : -ENOMEM;
	if (r >= 0 && target && target[0])
		r = file_tell_name(target, pool, &ret->target, &ret->target_b64);
	return r;
}

int file_told(const char *path, const struct stat *st, int dirfd, const char *name,
	      struct pool *pool, struct file_stat *ret)
{
	char target[FILE_PATH_MAX + 1] = {};

	/* it may have become something else, and then it leads nowhere */
	if (S_ISLNK(st->st_mode) && readlinkat(dirfd, name, target, sizeof(target) - 1) < 0)
		target[0] = 0;
	return tell_stat(path, st, target, pool, ret);
}

int file_look(const struct file_stat_query *q, struct pool *pool, struct file_stat *ret,
	      struct cay_err *err)
{
	auto_close int fd = -EBADF;
	const char *path = NULL;
	struct stat st;
	int r = file_name(q->path, q->path_b64, "path", pool, &path, err);

	if (r < 0)
		return r;
	fd = file_open(AT_FDCWD, path, O_PATH | (q->follow ? 0 : O_NOFOLLOW), 0);
	if (fd < 0)
		return file_fail_lookup(err, -fd, path);
	if (fstat(fd, &st) < 0)
		return file_fail_lookup(err, errno, path);
	if (file_told(path, &st, fd, "", pool, ret) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for an answer");
	return 0;
}

void file_stat_work(struct work *w)
{
	struct file_stat told;
	struct cay_err err = {};

	if (file_look(work_query(w), work_pool(w), &told, &err) < 0)
		work_fail(w, &err);
	else
		work_reply_json(w, &file_stat_table, &told);
}

/* A directory */

/* As it was asked for and below, so that each can be asked for. */
static const char *below(struct pool *pool, const char *dir, const char *name)
{
	size_t n = strcmp(dir, ".") == 0 ? 0 : strlen(dir), m = strlen(name);
	char *path;

	while (n && dir[n - 1] == '/')
		n--;
	path = pool_take(pool, 1, n + m + 2);
	if (!path || snprintf(path, n + m + 2, "%.*s%s%s", (int)n, dir,
			      n || dir[0] == '/' ? "/" : "", name) < 0)
		return NULL;
	return path;
}

static int tell_list(const char *path, const struct list *l, struct pool *pool,
		     struct file_list *ret)
{
	struct file_stat *v = pool_take(pool, l->n, sizeof(*v));

	*ret = (struct file_list){ .entries = { v, l->n }, .truncated = l->truncated };
	for (size_t i = 0; i < l->n; i++) {
		const struct list_entry *e = &l->v[i];
		const char *name = below(pool, path, e->path);

		if (!v || !name || tell_stat(name, &e->st, e->target, pool, &v[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

void file_list_work(struct work *w)
{
	const struct file_list_query *q = work_query(w);
	auto_pool pool = POOL_INIT(LIST_POOL);
	struct file_list told;
	struct cay_err err = {};
	const char *path = NULL;
	struct list list;

	if (file_name(q->path, q->path_b64, "path", work_pool(w), &path, &err) >= 0 &&
	    list_dir(path, (unsigned)q->depth, (size_t)q->limit, &pool, &list, &err) >= 0 &&
	    tell_list(path, &list, &pool, &told) < 0)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for a list");
	if (err.code)
		work_fail(w, &err);
	else
		work_reply_json(w, &file_list_table, &told);
}

/* Its bytes */

/* Files of /proc and the like say 0 and have content all the same.  They are read as far as
 * they go now, and are small or refused. */
static void send_unsized(struct work *w, int fd, const char *path)
{
	auto_buf all = BUF_INIT(FILE_UNSIZED_MAX);
	struct cay_err err = {};
	ssize_t n = 0;

	do {
		if (buf_reserve(&all, KIB(64)) < 0) {
			(void)cay_fail(&err, CAY_E_TOO_LARGE,
				       "it has no size of its own and more than %zu bytes",
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
		work_fail(w, &err);
	else if (work_stream(w, 200, "application/octet-stream", all.len) >= 0 &&
		 work_write(w, all.data, all.len) >= 0)
		work_end(w);
}

static int say_range(struct work *w, enum range_kind kind, uint64_t first, uint64_t n,
		     uint64_t size)
{
	auto_buf text = BUF_INIT(96);
	int r;

	if (kind == RANGE_ALL)
		return 0;
	if (kind == RANGE_NEVER)
		r = buf_printf(&text, "bytes */%llu", (unsigned long long)size);
	else
		r = buf_printf(&text, "bytes %llu-%llu/%llu", (unsigned long long)first,
			       (unsigned long long)(first + n - 1), (unsigned long long)size);
	return r < 0 ? r : work_header(w, "Content-Range", buf_str(&text));
}

static void send_range(struct work *w, int fd, uint64_t size)
{
	struct slice header = http_header(work_head(w), "range");
	uint64_t first, n;
	enum range_kind kind = range_read(header, size, &first, &n);
	struct cay_err err = {};

	if (say_range(w, kind, first, n, size) < 0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for an answer");
		work_fail(w, &err);
	} else if (kind == RANGE_NEVER) {
		(void)cay_fail(&err, CAY_E_RANGE, "it has %llu bytes", (unsigned long long)size);
		work_fail(w, &err);
	} else if (work_stream(w, kind == RANGE_PART ? 206 : 200, "application/octet-stream", n) >=
			   0 &&
		   work_send_file(w, fd, first, n) >= 0) {
		work_end(w);
	}
}

/* How long it is now is what is promised: bytes added later are not sent, and when some are
 * taken away the connection ends short of it. */
void file_read_work(struct work *w)
{
	const struct file_query *q = work_query(w);
	auto_close int fd = -EBADF;
	struct cay_err err = {};
	const char *path = NULL;
	struct stat st;

	if (file_name(q->path, q->path_b64, "path", work_pool(w), &path, &err) < 0 ||
	    file_open_regular(path, &st, &fd, &err) < 0)
		work_fail(w, &err);
	else if (!st.st_size)
		send_unsized(w, fd, path);
	else
		send_range(w, fd, (uint64_t)st.st_size);
}

static const struct {
	work_fn *fn;
	uint64_t deadline_ms;
} works[OP_NUM] = {
	[OP_FILE_READ] = { file_read_work, DEADLINE_MS },
	[OP_FILE_STAT] = { file_stat_work, DEADLINE_MS },

	[OP_FILE_VIEW] = { file_view_work, DEADLINE_MS },
	[OP_FILE_GLOB] = { file_glob_work, SEARCH_MS },
	[OP_TREE_GET] = { tree_get_work, DEADLINE_MS },
	[OP_TREE_PUT] = { tree_put_work, DEADLINE_MS },
	[OP_FILE_GREP] = { file_grep_work, SEARCH_MS },
	[OP_FILE_EDIT] = { file_edit_work, DEADLINE_MS },
	[OP_FILE_WATCH] = { file_watch_work, WATCH_MS },
	[OP_FILE_LIST] = { file_list_work, DEADLINE_MS },
	[OP_FILE_WRITE] = { file_write_work, DEADLINE_MS },
	[OP_FILE_MKDIR] = { file_change_work, DEADLINE_MS },
	[OP_FILE_MOVE] = { file_change_work, DEADLINE_MS },
	[OP_FILE_COPY] = { file_change_work, DEADLINE_MS },
	[OP_FILE_DELETE] = { file_change_work, TREE_MS },
	[OP_FILE_CHMOD] = { file_change_work, DEADLINE_MS },
	[OP_FILE_SYMLINK] = { file_change_work, DEADLINE_MS },
	[OP_FILE_BATCH] = { file_batch_work, TREE_MS },
};

bool file_api(struct init *in, struct request *rq)
{
	ptrdiff_t op = rq->match.op - ops;
	const struct file_list_query *q = rq->query;

	if (!works[op].fn)
		return false;
	work_start(in, rq, works[op].fn,
		   op == OP_FILE_LIST ? q->timeout_ms : works[op].deadline_ms);
	return true;
}
