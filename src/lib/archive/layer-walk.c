/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/layer-walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/path.h"
#include "base/str.h"

#define NAMES_BLOCK KIB(4)
#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW)

/* A position and not a DIR: a level below uses the same block of names. */
struct layer_level {
	int fd, below;
	off_t at;
	bool seek;     /* the position of fd is not `at` */
	bool hides;    /* it, or a directory above it, is opaque */
	size_t prefix; /* how long its name is, with its slash */
};

struct layer_names {
	alignas(struct dirent64) char bytes[NAMES_BLOCK];
};

struct layer_walk {
	const struct layer_source *source;
	layer_fn *fn;
	void *arg;
	uint64_t *skipped;
	uint64_t n_names;
	struct buf name;
	struct layer_level levels[LAYER_DEPTH_MAX];
	unsigned depth;
	struct layer_names names, hidden;
	char target[TAR_NAME_MAX + 2];
};

static void layer_level_close(struct layer_level *l)
{
	cay_closep(&l->fd);
	cay_closep(&l->below);
}

static void layer_walk_free(struct layer_walk *w)
{
	while (w->depth)
		layer_level_close(&w->levels[--w->depth]);
	buf_fini(&w->name);
	free(w);
}

static bool layer_name_is_entry(const char *name)
{
	return !str_eq(name, ".") && !str_eq(name, "..");
}

static int layer_walk_count_name(struct layer_walk *w, struct cay_err *err)
{
	if (++w->n_names <= LAYER_NAMES_MAX)
		return 0;
	return cay_fail(err, CAY_E_TOO_LARGE, "there are more than %d names", LAYER_NAMES_MAX);
}

/* Whether the walk goes on without a file that did not open: it was removed or exchanged meanwhile,
 * or is a device. */
static bool layer_errno_is_of_file(int r)
{
	return r == -ENOENT || r == -ELOOP || r == -ENOTDIR || r == -ENXIO || r == -EACCES ||
	       r == -EPERM || r == -ENODEV || r == -ESTALE;
}

/* A name below that no entry of the opaque directory has. */
static int layer_walk_hidden_name(struct layer_walk *w, const struct layer_level *l,
				  const char *base, struct cay_err *err)
{
	struct layer_entry e = { .what = LAYER_HIDDEN, .fd = -EBADF };
	struct stat st, below;

	if (fstatat(l->fd, base, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT ||
	    fstatat(l->below, base, &below, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	buf_truncate(&w->name, l->prefix);
	if (buf_puts(&w->name, base) < 0) {
		(*w->skipped)++;
		return 0;
	}
	e.name = buf_str(&w->name);
	e.below = &below;
	return w->fn(w->arg, &e, err);
}

static int layer_walk_hidden(struct layer_walk *w, const struct layer_level *l, struct cay_err *err)
{
	ssize_t n;

	while ((n = getdents64(l->below, w->hidden.bytes, sizeof(w->hidden.bytes))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *d = (const void *)(w->hidden.bytes + at);
			int r = layer_walk_count_name(w, err);

			if (r >= 0 && layer_name_is_entry(d->d_name))
				r = layer_walk_hidden_name(w, l, d->d_name, err);
			if (r < 0)
				return r;
			at += d->d_reclen;
		}
	return n < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot read the files below") : 0;
}

/* Its name is in w->name; fd and below are taken over if it is entered. */
static int layer_walk_enter(struct layer_walk *w, int *fd, int *below, struct layer_entry *e,
			    struct cay_err *err)
{
	const struct layer_level *above = w->depth ? &w->levels[w->depth - 1] : NULL;
	struct layer_level l = { .at = 0 };
	int flags = w->source->dir_flags(w->source->arg, *fd, err), r;

	if (flags < 0)
		return flags;
	if (flags & LAYER_MOVED)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"the kernel renamed a directory without a copy of its files");
	e->what = LAYER_DIRECTORY;
	e->opaque = flags & LAYER_OPAQUE;
	e->name = buf_str(&w->name);
	if (w->depth == LAYER_DEPTH_MAX) {
		(*w->skipped)++;
		return 0;
	}
	r = w->fn(w->arg, e, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (w->name.len && buf_putc(&w->name, '/') < 0) {
		(*w->skipped)++;
		return 0;
	}
	l.fd = cay_take_fd(fd);
	l.below = cay_take_fd(below);
	l.prefix = w->name.len;
	l.hides = e->opaque || (above && above->hides);
	w->levels[w->depth++] = l;
	return l.hides && l.below >= 0 ? layer_walk_hidden(w, &w->levels[w->depth - 1], err) : 0;
}

static int layer_walk_symlink(struct layer_walk *w, const struct layer_level *l, const char *base,
			      struct layer_entry *e, struct cay_err *err)
{
	ssize_t n;

	e->what = LAYER_SYMLINK;
	if (w->source->opens) {
		n = readlinkat(l->fd, base, w->target, TAR_NAME_MAX + 1);
		if (n <= 0 || n > TAR_NAME_MAX) {
			(*w->skipped)++;
			return 0;
		}
		w->target[n] = 0;
		e->target = w->target;
	}
	return w->fn(w->arg, e, err);
}

/* A file or directory: what was opened counts, not what had the name before. */
static int layer_walk_open(struct layer_walk *w, const struct layer_level *l, const char *base,
			   struct stat *st, struct layer_entry *e, struct cay_err *err)
{
	auto_close int fd = path_open(l->fd, base, OPEN_FLAGS, 0), below = -EBADF;

	if (fd < 0 || fstat(fd, st) < 0) {
		if (fd < 0 && !layer_errno_is_of_file(fd))
			return cay_fail_sys(err, CAY_E_INTERNAL, -fd, "cannot open a file");
		*w->skipped += fd != -ENOENT;
		return 0;
	}
	if (S_ISREG(st->st_mode)) {
		e->what = LAYER_FILE;
		e->fd = fd;
		return w->fn(w->arg, e, err);
	}
	if (!S_ISDIR(st->st_mode)) {
		(*w->skipped)++;
		return 0;
	}
	if (e->below && S_ISDIR(e->below->st_mode))
		below = path_open(l->below, base, OPEN_FLAGS | O_DIRECTORY, 0);
	return layer_walk_enter(w, &fd, &below, e, err);
}

static int layer_walk_name(struct layer_walk *w, const struct layer_level *l, const char *base,
			   struct cay_err *err)
{
	struct layer_entry e = { .what = LAYER_OTHER, .fd = -EBADF };
	struct stat st, below;

	if (fstatat(l->fd, base, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		*w->skipped += errno != ENOENT;
		return 0;
	}
	buf_truncate(&w->name, l->prefix);
	if (buf_puts(&w->name, base) < 0) {
		(*w->skipped)++;
		return 0;
	}
	e.name = buf_str(&w->name);
	e.st = &st;
	if (l->below >= 0 && fstatat(l->below, base, &below, AT_SYMLINK_NOFOLLOW) == 0)
		e.below = &below;
	if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && w->source->opens))
		return layer_walk_open(w, l, base, &st, &e, err);
	if (S_ISLNK(st.st_mode))
		return layer_walk_symlink(w, l, base, &e, err);
	if (S_ISREG(st.st_mode))
		e.what = LAYER_FILE;
	else if (S_ISCHR(st.st_mode) && st.st_rdev == 0)
		e.what = LAYER_WHITEOUT;
	return w->fn(w->arg, &e, err);
}

/* Some names of the innermost directory, up to one that is a directory. */
static int layer_walk_some(struct layer_walk *w, struct cay_err *err)
{
	struct layer_level *l = &w->levels[w->depth - 1];
	unsigned depth = w->depth;
	ssize_t n = -1;

	if (!l->seek || lseek(l->fd, l->at, SEEK_SET) >= 0)
		n = getdents64(l->fd, w->names.bytes, sizeof(w->names.bytes));
	l->seek = false;
	*w->skipped += n < 0 && errno != ENOENT;
	if (n <= 0) {
		layer_level_close(l);
		if (--w->depth)
			w->levels[w->depth - 1].seek = true;
		return 0;
	}
	for (ssize_t at = 0; at < n;) {
		const struct dirent64 *d = (const void *)(w->names.bytes + at);
		int r = layer_walk_count_name(w, err);

		l->at = d->d_off;
		if (r >= 0 && layer_name_is_entry(d->d_name))
			r = layer_walk_name(w, l, d->d_name, err);
		if (r < 0 || w->depth != depth)
			return r;
		at += d->d_reclen;
	}
	return 0;
}

int layer_walk(const struct layer_source *source, layer_fn *fn, void *arg, uint64_t *skipped,
	       struct cay_err *err)
{
	struct layer_walk *w;
	auto_close int fd = path_open(source->upper, ".", O_RDONLY | O_DIRECTORY, 0);
	auto_close int below = source->below < 0
				       ? -EBADF
				       : path_open(source->below, ".", O_RDONLY | O_DIRECTORY, 0);
	struct layer_entry top = { .fd = -EBADF };
	struct stat st, under;
	int r;

	*skipped = 0;
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    (source->below >= 0 && (below < 0 || fstat(below, &under) < 0)))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot open the layer");
	w = malloc(sizeof(*w));
	if (!w)
		return cay_no_memory(err);
	w->source = source;
	w->fn = fn;
	w->arg = arg;
	w->skipped = skipped;
	w->n_names = 0;
	w->name = BUF_INIT(TAR_NAME_MAX);
	w->depth = 0;
	top.st = &st;
	top.below = below < 0 ? NULL : &under;
	r = layer_walk_enter(w, &fd, &below, &top, err);
	while (r >= 0 && w->depth)
		r = layer_walk_some(w, err);
	layer_walk_free(w);
	return r;
}
