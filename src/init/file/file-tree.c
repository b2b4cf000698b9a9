/* SPDX-License-Identifier: Apache-2.0 */
/* tree.get and tree.put: requests and replies around src/lib/archive */
#include <fcntl.h>
#include <signal.h>

#include "archive/gz.h"
#include "archive/tree-unpack.h"
#include "file/path-at.h"
#include "init/file/file-read.h"

#define PIECE KIB(60)

/* A tar is written in blocks, the connection in pieces.  The reply starts with the first
 * piece: an earlier failure is an error reply, and a tree of one piece has a length. */
struct tree_writer {
	struct child_op *w;
	const char *media;
	bool begun;
	size_t n;
	char piece[PIECE];
};

static int tree_writer_flush(struct tree_writer *o, bool last)
{
	size_t n = o->n;
	int r = 0;

	o->n = 0;
	if (!o->begun)
		r = child_op_start_stream(o->w, 200, o->media, last ? n : REQUEST_LENGTH_UNKNOWN);
	o->begun = true;
	return r < 0 ? r : child_op_write(o->w, o->piece, n);
}

static int tree_writer_write(void *arg, const void *p, size_t n, struct cay_err *)
{
	struct tree_writer *o = arg;

	while (n) {
		size_t some = n < PIECE - o->n ? n : PIECE - o->n;

		memcpy(o->piece + o->n, p, some);
		o->n += some;
		p = (const char *)p + some;
		n -= some;
		if (o->n == PIECE) {
			int r = tree_writer_flush(o, false);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int tree_writer_pack(struct tree_writer *o, int fd, const char *path, bool gzip,
			    struct cay_err *err)
{
	static struct gz_writer gz; /* static: the process is its own */
	struct tree_counts n;
	int r;

	if (!gzip)
		return tree_pack(fd, path, tree_writer_write, o, &n, err);
	r = gz_writer_init(&gz, tree_writer_write, o, err);
	if (r >= 0)
		r = tree_pack(fd, path, gz_write, &gz, &n, err);
	if (r >= 0)
		r = gz_finish(&gz, err);
	gz_writer_fini(&gz);
	return r;
}

void child_tree_get(struct child_op *w, struct request *rq)
{
	static struct tree_writer o;
	const struct tree_query *q = rq->query;
	auto_close int fd = -EBADF;
	const char *path = NULL;
	struct cay_err err = {};
	int r = file_path_or_workspace(q->path, q->path_b64, &rq->arena, &path, &err);

	o = (struct tree_writer){ .w = w };
	o.media = q->format == TREE_TAR_GZ ? "application/gzip" : "application/x-tar";
	if (r >= 0) {
		r = fd = file_open(AT_FDCWD, path, O_RDONLY, 0);
		if (r < 0)
			r = file_fail_lookup(&err, -r, path);
	}
	if (r >= 0)
		r = tree_writer_pack(&o, fd, path, q->format == TREE_TAR_GZ, &err);
	if (r >= 0)
		r = tree_writer_flush(&o, true);
	if (r >= 0)
		child_op_end_stream(w);
	else if (!o.begun)
		child_op_fail(w, &err);
}

struct tree_body {
	struct child_op *w;
	ssize_t failed; /* of reading the body, or 0 */
};

static ssize_t tree_body_read(void *arg, void *p, size_t n, struct cay_err *err)
{
	struct tree_body *in = arg;
	ssize_t r = child_op_read(in->w, p, n);

	if (r < 0) {
		in->failed = r;
		return cay_fail(err, CAY_E_UNAVAILABLE, "the body ended");
	}
	return r;
}

static int tree_open_target_dir(const char *path, struct cay_err *err)
{
	int r = file_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);

	if (r == -ENOENT) {
		r = file_mkdir_parents(AT_FDCWD, path, 0777, err);
		if (r < 0)
			return r;
		r = file_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	}
	return r < 0 ? file_fail_lookup(err, -r, path) : r;
}

static int tree_body_unpack(struct tree_body *in, int fd, const struct tree_put_query *q,
			    struct tree_made *ret, struct cay_err *err)
{
	static struct gz_reader gz;
	struct tree_unpack how = {
		.dirfd = fd,
		.read = tree_body_read,
		.arg = in,
		.limits = { .entries = q->max_entries, .bytes = q->max_bytes, .links_out = true }
	};
	struct tree_counts n, there;
	int r = 0;

	if (q->format == TREE_TAR_GZ) {
		r = gz_reader_init(&gz, tree_body_read, in, err);
		how.read = gz_read;
		how.arg = &gz;
	}
	if (r >= 0)
		r = tree_unpack(&how, &n, &there, err);
	gz_reader_fini(&gz);
	if (r >= 0)
		*ret = (struct tree_made){
			n.files,      n.directories, n.links, n.bytes, n.skipped + there.skipped,
			there.changed
		};
	return r;
}

void child_tree_put(struct child_op *w, struct request *rq)
{
	const struct tree_put_query *q = rq->query;
	struct tree_body in = { .w = w };
	auto_close int fd = -EBADF;
	const char *path = NULL;
	struct tree_made made;
	struct cay_err err = {};
	int r;

	/* reading the body detects that the client left, and the half-made tree is removed; a
	 * child that does not get there is killed a moment later */
	(void)signal(SIGTERM, SIG_IGN);
	r = file_path_or_workspace(q->path, q->path_b64, &rq->arena, &path, &err);
	if (r >= 0)
		r = fd = tree_open_target_dir(path, &err);
	if (r >= 0)
		r = tree_body_unpack(&in, fd, q, &made, &err);
	if (r >= 0)
		child_op_reply_json(w, &tree_made_table, &made, &err);
	else if (in.failed)
		child_op_fail_body(w, in.failed);
	else
		child_op_fail(w, &err);
}
