/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of files as archives: requests and replies around src/file/tree-*.h */
#include <fcntl.h>
#include <signal.h>

#include "file/at.h"
#include "file/gz.h"
#include "file/tree-unpack.h"
#include "init/file.h"

#define PIECE KIB(60)

/* The workspace itself where nothing is named. */
static int name_of(struct work *w, const char *path, const char *path_b64, const char **ret,
		   struct cay_err *err)
{
	return file_name(path || path_b64 ? path : ".", path_b64, "path", work_pool(w), ret, err);
}

/* Out */

/* A tar is written in blocks, the connection in pieces.  The reply begins with the first:
 * what fails before it is told, and a tree that is one piece has a length. */
struct out {
	struct work *w;
	const char *media;
	bool begun;
	size_t n;
	char piece[PIECE];
};

static int flush(struct out *o, bool last)
{
	size_t n = o->n;
	int r = 0;

	o->n = 0;
	if (!o->begun)
		r = work_stream(o->w, 200, o->media, last ? n : REQUEST_LENGTH_UNKNOWN);
	o->begun = true;
	return r < 0 ? r : work_write(o->w, o->piece, n);
}

static int put_out(void *arg, const void *p, size_t n, struct cay_err *)
{
	struct out *o = arg;

	while (n) {
		size_t some = n < PIECE - o->n ? n : PIECE - o->n;

		memcpy(o->piece + o->n, p, some);
		o->n += some;
		p = (const char *)p + some;
		n -= some;
		if (o->n == PIECE) {
			int r = flush(o, false);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int pack(struct out *o, int fd, const char *path, bool gzip, struct cay_err *err)
{
	static struct gz_writer gz; /* of a process of our own */
	struct tree_counts n;
	int r;

	if (!gzip)
		return tree_pack(fd, path, put_out, o, &n, err);
	r = gz_writer_init(&gz, put_out, o, err);
	if (r >= 0)
		r = tree_pack(fd, path, gz_write, &gz, &n, err);
	if (r >= 0)
		r = gz_finish(&gz, err);
	gz_writer_fini(&gz);
	return r;
}

void tree_get_work(struct work *w)
{
	static struct out o;
	const struct tree_query *q = work_query(w);
	auto_close int fd = -EBADF;
	const char *path = NULL;
	struct cay_err err = {};
	int r = name_of(w, q->path, q->path_b64, &path, &err);

	o = (struct out){ .w = w };
	o.media = q->format == TREE_TAR_GZ ? "application/gzip" : "application/x-tar";
	if (r >= 0) {
		r = fd = file_open(AT_FDCWD, path, O_RDONLY, 0);
		if (r < 0)
			r = file_fail_lookup(&err, -r, path);
	}
	if (r >= 0)
		r = pack(&o, fd, path, q->format == TREE_TAR_GZ, &err);
	if (r >= 0)
		r = flush(&o, true);
	if (r >= 0)
		work_end(w);
	else if (!o.begun)
		work_fail(w, &err);
}

/* In */

struct in {
	struct work *w;
	ssize_t failed; /* of the body, or 0 */
};

static ssize_t take_in(void *arg, void *p, size_t n, struct cay_err *err)
{
	struct in *in = arg;
	ssize_t r = work_read(in->w, p, n);

	if (r < 0) {
		in->failed = r;
		return cay_fail(err, CAY_E_UNAVAILABLE, "the body ended");
	}
	return r;
}

static int open_dir(const char *path, struct cay_err *err)
{
	int r = file_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);

	if (r == -ENOENT) {
		r = file_make_dirs(AT_FDCWD, path, 0777, err);
		if (r < 0)
			return r;
		r = file_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	}
	return r < 0 ? file_fail_lookup(err, -r, path) : r;
}

static int unpack(struct in *in, int fd, const struct tree_put_query *q, struct tree_made *ret,
		  struct cay_err *err)
{
	static struct gz_reader gz;
	struct tree_unpack how = {
		.dirfd = fd,
		.read = take_in,
		.arg = in,
		.limits = { .entries = q->max_entries, .bytes = q->max_bytes, .links_out = true }
	};
	struct tree_counts n, there;
	int r = 0;

	if (q->format == TREE_TAR_GZ) {
		r = gz_reader_init(&gz, take_in, in, err);
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

void tree_put_work(struct work *w)
{
	const struct tree_put_query *q = work_query(w);
	struct in in = { .w = w };
	auto_close int fd = -EBADF;
	const char *path = NULL;
	struct tree_made made;
	struct cay_err err = {};
	int r;

	/* a client that leaves is seen where the body is read, and what is half made goes;
	 * who does not come to it is killed a moment later */
	(void)signal(SIGTERM, SIG_IGN);
	r = name_of(w, q->path, q->path_b64, &path, &err);
	if (r >= 0)
		r = fd = open_dir(path, &err);
	if (r >= 0)
		r = unpack(&in, fd, q, &made, &err);
	if (r >= 0)
		work_reply_json(w, &tree_made_table, &made);
	else if (in.failed)
		work_fail_body(w, in.failed);
	else
		work_fail(w, &err);
}
