/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/tree-diff.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/path.h"
#include "base/str.h"

#define NAMES_BLOCK KIB(4)
#define PIECE KIB(64)
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW)

/* Where a directory is in the writable layer, below it, and in the snapshot; < 0: it is not, or is
 * hidden there. */
struct diff_dirs {
	int upper, below, since;
};

#define auto_dirs CAY_CLEANUP(diff_dirs_fini) struct diff_dirs
#define DIFF_DIRS_INIT ((struct diff_dirs){ -EBADF, -EBADF, -EBADF })

struct tree_diff {
	const struct layer_source *source;
	layer_fn *fn;
	void *arg;
	uint64_t *skipped;
	uint64_t n_names;
	struct buf name;
	unsigned depth;
	struct cay_err *err;
	char pieces[2][PIECE];
};

/* A name as one of the two shows it. */
struct diff_state {
	struct stat st;
	bool there;
	int dir; /* that has it */
};

static void diff_dirs_fini(struct diff_dirs *d)
{
	cay_closep(&d->upper);
	cay_closep(&d->below);
	cay_closep(&d->since);
}

static void tree_diff_free(struct tree_diff *t)
{
	buf_fini(&t->name);
	free(t);
}

static bool diff_stat(int dir, const char *name, struct stat *ret)
{
	return dir >= 0 && fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What the sandbox shows; whether its own layer has the name. */
static bool diff_now(const struct diff_dirs *d, const char *name, struct diff_state *ret)
{
	ret->there = diff_stat(d->upper, name, &ret->st);
	ret->dir = d->upper;
	if (ret->there) {
		ret->there = !S_ISCHR(ret->st.st_mode) || ret->st.st_rdev;
		return true;
	}
	ret->there = diff_stat(d->below, name, &ret->st);
	ret->dir = d->below;
	return false;
}

/* 1: the same bytes; 0: not, or one of them cannot be read. */
static int diff_compare_files(struct tree_diff *t, const struct diff_state *a,
			      const struct diff_state *b, const char *name)
{
	auto_close int one = path_open(a->dir, name, FILE_FLAGS, 0);
	auto_close int two = path_open(b->dir, name, FILE_FLAGS, 0);
	struct stat st;

	if (one < 0 || two < 0 || fstat(one, &st) < 0 || !S_ISREG(st.st_mode) ||
	    fstat(two, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	for (;;) {
		ssize_t n = read(one, t->pieces[0], PIECE);
		ssize_t m = n < 0 ? n : read(two, t->pieces[1], PIECE);

		if (n < 0 || n != m || memcmp(t->pieces[0], t->pieces[1], (size_t)n) != 0)
			return 0;
		if (n == 0)
			return 1;
	}
}

static bool diff_same_link(struct tree_diff *t, const struct diff_state *a,
			   const struct diff_state *b, const char *name)
{
	ssize_t n = readlinkat(a->dir, name, t->pieces[0], PIECE);

	return n >= 0 && readlinkat(b->dir, name, t->pieces[1], PIECE) == n &&
	       memcmp(t->pieces[0], t->pieces[1], (size_t)n) == 0;
}

static bool diff_time_is_equal(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Of two that are no directories. */
static bool diff_is_same(struct tree_diff *t, const struct diff_state *a,
			 const struct diff_state *b, const char *name)
{
	const struct stat *x = &a->st, *y = &b->st;

	if (x->st_mode != y->st_mode || x->st_uid != y->st_uid || x->st_gid != y->st_gid ||
	    x->st_size != y->st_size || x->st_rdev != y->st_rdev ||
	    !diff_time_is_equal(&x->st_mtim, &y->st_mtim))
		return false;
	if (x->st_ino == y->st_ino && diff_time_is_equal(&x->st_ctim, &y->st_ctim))
		return true;
	if (S_ISLNK(x->st_mode))
		return diff_same_link(t, a, b, name);
	return !S_ISREG(x->st_mode) || diff_compare_files(t, a, b, name);
}

static enum layer_what diff_what(mode_t mode)
{
	return S_ISREG(mode)   ? LAYER_FILE
	       : S_ISDIR(mode) ? LAYER_DIRECTORY
	       : S_ISLNK(mode) ? LAYER_SYMLINK
			       : LAYER_OTHER;
}

static int diff_report(struct tree_diff *t, const struct diff_state *now,
		       const struct diff_state *then)
{
	struct layer_entry e = { .what = now->there ? diff_what(now->st.st_mode) : LAYER_HIDDEN,
				 .name = buf_str(&t->name),
				 .st = now->there ? &now->st : NULL,
				 .below = then->there ? &then->st : NULL,
				 .fd = -EBADF };

	return t->fn(t->arg, &e, t->err);
}

static int diff_directory(struct tree_diff *t, const struct diff_dirs *d);

static int diff_open_dir(int dir, const char *name, int *ret)
{
	if (dir >= 0)
		*ret = path_open(dir, name, DIR_FLAGS, 0);
	return *ret;
}

/* Enter a directory that the sandbox shows. */
static int diff_enter(struct tree_diff *t, const struct diff_dirs *d, const char *name, bool own,
		      bool then)
{
	auto_dirs in = DIFF_DIRS_INIT;
	size_t before = t->name.len;
	int flags = 0, r;

	if (own && diff_open_dir(d->upper, name, &in.upper) < 0)
		return 0; /* it was removed meanwhile */
	if (own)
		flags = t->source->dir_flags(t->source->arg, in.upper, t->err);
	if (flags < 0)
		return flags;
	if (flags & LAYER_MOVED)
		return cay_fail(t->err, CAY_E_UNSUPPORTED,
				"the kernel renamed a directory without a copy of its files");
	if (!(flags & LAYER_OPAQUE))
		(void)diff_open_dir(d->below, name, &in.below);
	if (then)
		(void)diff_open_dir(d->since, name, &in.since);
	if (t->depth == LAYER_DEPTH_MAX || buf_putc(&t->name, '/') < 0) {
		(*t->skipped)++;
		return 0;
	}
	t->depth++;
	r = diff_directory(t, &in);
	t->depth--;
	buf_truncate(&t->name, before);
	return r;
}

static int diff_name(struct tree_diff *t, const struct diff_dirs *d, const char *name)
{
	struct diff_state now, then = { .dir = d->since };
	bool own = diff_now(d, name, &now), dir, was_dir;
	int r = 0;

	then.there = diff_stat(d->since, name, &then.st);
	if (!now.there)
		return then.there ? diff_report(t, &now, &then) : 0;
	dir = S_ISDIR(now.st.st_mode);
	was_dir = then.there && S_ISDIR(then.st.st_mode);
	if (!then.there || dir != was_dir || dir || !diff_is_same(t, &now, &then, name))
		r = diff_report(t, &now, &then);
	return r < 0 || !dir ? r : diff_enter(t, d, name, own, was_dir);
}

/* Each name of one of the three that those before it do not have. */
static int diff_names(struct tree_diff *t, const struct diff_dirs *d, int from, char *block)
{
	size_t prefix = t->name.len;
	struct stat st;
	ssize_t n;

	if (from < 0)
		return 0;
	while ((n = getdents64(from, block, NAMES_BLOCK)) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const void *)(block + at);
			int r = 0;

			at += e->d_reclen;
			if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
				continue;
			if (++t->n_names > LAYER_NAMES_MAX)
				return cay_fail(t->err, CAY_E_TOO_LARGE,
						"there are more than %d names", LAYER_NAMES_MAX);
			if ((from != d->upper && diff_stat(d->upper, e->d_name, &st)) ||
			    (from == d->since && diff_stat(d->below, e->d_name, &st)))
				continue;
			if (buf_puts(&t->name, e->d_name) < 0)
				(*t->skipped)++;
			else
				r = diff_name(t, d, e->d_name);
			buf_truncate(&t->name, prefix);
			if (r < 0)
				return r;
		}
	*t->skipped += n < 0 && errno != ENOENT;
	return 0;
}

static int diff_directory(struct tree_diff *t, const struct diff_dirs *d)
{
	auto_free char *block = malloc(NAMES_BLOCK);
	int r = block ? 0 : cay_no_memory(t->err);

	if (r >= 0)
		r = diff_names(t, d, d->upper, block);
	if (r >= 0)
		r = diff_names(t, d, d->below, block);
	return r < 0 ? r : diff_names(t, d, d->since, block);
}

int tree_diff(const struct layer_source *source, int since, layer_fn *fn, void *arg,
	      uint64_t *skipped, struct cay_err *err)
{
	auto_dirs top = DIFF_DIRS_INIT;
	struct diff_state now = { .there = true }, then = { .there = true };
	struct tree_diff *t;
	int r;

	*skipped = 0;
	if (diff_open_dir(source->upper, ".", &top.upper) < 0 ||
	    diff_open_dir(source->below, ".", &top.below) < 0 ||
	    diff_open_dir(since, ".", &top.since) < 0 || fstat(top.upper, &now.st) < 0 ||
	    fstat(top.since, &then.st) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot open the files");
	t = malloc(sizeof(*t));
	if (!t)
		return cay_no_memory(err);
	t->source = source;
	t->fn = fn;
	t->arg = arg;
	t->skipped = skipped;
	t->n_names = 0;
	t->name = BUF_INIT(TAR_NAME_MAX);
	t->depth = 0;
	t->err = err;
	r = diff_report(t, &now, &then);
	if (r >= 0)
		r = diff_directory(t, &top);
	tree_diff_free(t);
	return r;
}
