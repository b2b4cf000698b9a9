/* SPDX-License-Identifier: Apache-2.0 */
#include "file/tree-unpack.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/str.h"
#include "file/dirs.h"
#include "file/made.h"
#include "file/temp.h"

#define CHUNK KIB(64)
#define TMP_LEN sizeof(".cay-0123456789abcdef")

struct unpack {
	const struct tree_unpack *how;
	struct tree_counts *n;
	struct tar_reader tar;
	struct made made;
	struct dirs dirs;
	uint64_t entries, bytes;
	char tmp[TMP_LEN];
	char chunk[CHUNK];
};

static void unpack_freep(struct unpack **pp)
{
	struct unpack *u = *pp;

	if (!u)
		return;
	dirs_fini(&u->dirs);
	made_fini(&u->made);
	tar_reader_fini(&u->tar);
	free(u);
}

/* A failure over one of its names, which may be anything. */
static int failed(const char *name, int errnum, struct cay_err *err)
{
	char quoted[TAR_QUOTED_MAX + 1];
	enum cay_code code = CAY_E_INVALID;

	if (errnum == ENOSPC || errnum == EDQUOT)
		code = CAY_E_LIMIT;
	else if (errnum == EACCES || errnum == EPERM || errnum == EROFS)
		code = CAY_E_FORBIDDEN;
	else if (errnum == EEXIST || errnum == EISDIR || errnum == ENOTDIR || errnum == ELOOP ||
		 errnum == ENOTEMPTY)
		code = CAY_E_CONFLICT;
	else if (errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM)
		code = CAY_E_NO_MEMORY;
	return cay_fail_sys(err, code, errnum, "cannot make '%s'", tar_quote(name, quoted));
}

/* The directory an entry is in; ours: this archive made it. */
static int parent_of(struct unpack *u, const char *name, const char **base, bool *ours,
		     struct cay_err *err)
{
	const char *slash = strrchr(name, '/');
	int fd;

	*base = slash ? slash + 1 : name;
	fd = dirs_open(&u->dirs, (struct slice){ name, slash ? (size_t)(slash - name) : 0 }, ours);
	return fd < 0 ? failed(name, -fd, err) : fd;
}

static int name_tmp(struct unpack *u)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	return snprintf(u->tmp, sizeof(u->tmp), ".cay-%016" PRIx64, random) < (int)sizeof(u->tmp)
		       ? 0
		       : -EIO;
}

/* A small file's content, before anything is made of it. */
static ssize_t take_small(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	size_t have = 0;

	while (have < e->size) {
		ssize_t n = tar_data(&u->tar, u->chunk + have, CHUNK - have, err);

		if (n < 0)
			return n;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* What was taken, and what comes. */
static int fill(struct unpack *u, int fd, ssize_t n, const struct tar_entry *e, struct cay_err *err)
{
	for (;;) {
		int r = path_write_all(fd, u->chunk, (size_t)n);

		if (r < 0)
			return failed(e->name, -r, err);
		n = tar_data(&u->tar, u->chunk, CHUNK, err);
		if (n <= 0)
			return (int)n;
	}
}

static mode_t mode_of(const struct unpack *u, const struct tar_entry *e)
{
	return e->mode & 0777 & ~u->how->limits.mask;
}

static int dress(struct unpack *u, int fd, const struct tar_entry *e)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = e->mtime } };
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 07777) != mode_of(u, e) && fchmod(fd, mode_of(u, e)) < 0)
		return -errno;
	/* a time the file system cannot hold is no reason to fail */
	(void)futimens(fd, times);
	r = made_add(&u->made, &st);
	return r == -ENOBUFS ? 0 : r;
}

/* Where a file is written: in its place, if nobody can be waiting for it there and all of it
 * is at hand, else where it has no name yet. */
static int begin_file(struct temp *temp, int dirfd, const char *name, mode_t mode)
{
	int r;

	if (name) {
		r = path_open(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
		if (r != -EEXIST)
			return r;
	}
	return temp_open(temp, dirfd);
}

static int make_file(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	bool ours, small;
	const char *base;
	int dirfd = parent_of(u, e->name, &base, &ours, err), r;
	CAY_CLEANUP(temp_fini) struct temp temp = TEMP_INIT;
	auto_close int in_place = -EBADF;
	ssize_t n = 0;
	int fd;

	if (dirfd < 0)
		return dirfd;
	temp.deaf = true;
	small = ours && e->size <= CHUNK;
	if (small)
		n = take_small(u, e, err);
	if (n < 0)
		return (int)n;
	fd = begin_file(&temp, dirfd, small ? base : NULL, mode_of(u, e));
	if (fd < 0)
		return failed(e->name, -fd, err);
	if (fd != temp.fd)
		in_place = fd;
	r = fill(u, fd, n, e, err);
	if (r >= 0) {
		r = dress(u, fd, e);
		if (r >= 0 && fd == temp.fd)
			r = temp_place(&temp, base, TEMP_ANY);
		if (r < 0)
			r = failed(e->name, -r, err);
	}
	if (r < 0 && in_place >= 0)
		(void)unlinkat(dirfd, base, 0);
	if (r < 0)
		return r;
	u->n->files++;
	u->n->bytes += e->size;
	return 0;
}

static int make_directory(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	bool made;
	int fd;

	if (!e->name[0])
		return 0; /* the one that is unpacked into is its owner's business */
	u->n->directories++;
	fd = dirs_open(&u->dirs, slice_of(e->name), &made);
	if (fd < 0)
		return failed(e->name, -fd, err);
	if (!made && u->how->keep_modes)
		return 0;
	/* of a directory that was there and is somebody else's the mode stays */
	if (fchmod(fd, mode_of(u, e) | 0700) < 0 && errno != EPERM)
		return failed(e->name, errno, err);
	return 0;
}

/* Whether it stays in the tree: ".." only in front, and not more than the link is deep.
 * Behind a name it could be another link's parent, and that leads anywhere. */
static bool stays_inside(const char *name, const char *to)
{
	struct slice rest = slice_of(to);
	size_t deep = 0, up = 0;
	bool named = false;

	if (to[0] == '/')
		return false;
	for (const char *p = name; *p; p++)
		deep += *p == '/';
	while (rest.p) {
		struct slice part = slice_cut(&rest, '/');

		if (!slice_eq(part, SLICE("..")))
			named |= part.n && !slice_eq(part, SLICE("."));
		else if (named || ++up > deep)
			return false;
	}
	return true;
}

/* A link beside its place, then renamed into it. */
static int place(struct unpack *u, int at, const char *base, const struct tar_entry *e,
		 struct cay_err *err)
{
	int r = 0;

	if (renameat(at, u->tmp, at, base) < 0)
		r = -errno;
	/* rename() of two names of one file does nothing, so the first may still be there */
	if (r < 0 || e->type == TAR_HARDLINK)
		(void)unlinkat(at, u->tmp, 0);
	u->n->links += r >= 0;
	return r < 0 ? failed(e->name, -r, err) : 0;
}

static int make_symlink(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	const char *base;
	int dirfd, r;
	bool ours;

	if (!u->how->limits.links_out && !stays_inside(e->name, e->link)) {
		u->n->skipped++;
		return 0;
	}
	dirfd = parent_of(u, e->name, &base, &ours, err);
	if (dirfd < 0)
		return dirfd;
	r = name_tmp(u);
	if (r >= 0 && symlinkat(e->link, dirfd, u->tmp) < 0)
		r = -errno;
	return r < 0 ? failed(e->name, -r, err) : place(u, dirfd, base, e, err);
}

/* The file it names is opened first: what it is, and that no symlink was on the way. */
static int link_target(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	auto_close int fd = path_open(u->how->dirfd, e->link, O_PATH | O_NOFOLLOW, 0);
	char quoted[TAR_QUOTED_MAX + 1];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !made_has(&u->made, &st))
		return cay_fail(err, CAY_E_INVALID,
				"hard link '%s' leads to a file that is not of this archive",
				tar_quote(e->name, quoted));
	return cay_take_fd(&fd);
}

static int make_hardlink(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	auto_close int to = link_target(u, e, err);
	const char *base;
	char self[32];
	int dirfd, r;
	bool ours;

	if (to < 0)
		return to;
	dirfd = parent_of(u, e->name, &base, &ours, err);
	if (dirfd < 0)
		return dirfd;
	r = name_tmp(u);
	if (snprintf(self, sizeof(self), "/proc/self/fd/%d", to) >= (int)sizeof(self))
		r = -EIO;
	if (r >= 0 && linkat(AT_FDCWD, self, dirfd, u->tmp, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	return r < 0 ? failed(e->name, -r, err) : place(u, dirfd, base, e, err);
}

static int make(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	static int (*const makers[])(struct unpack *, const struct tar_entry *,
				     struct cay_err *) = {
		[TAR_FILE] = make_file,
		[TAR_DIRECTORY] = make_directory,
		[TAR_SYMLINK] = make_symlink,
		[TAR_HARDLINK] = make_hardlink,
	};
	const struct tree_limits *l = &u->how->limits;

	if (++u->entries > l->entries)
		return cay_fail(err, CAY_E_TOO_LARGE,
				"the archive has more than %" PRIu64 " entries", l->entries);
	if (e->size > l->bytes - u->bytes)
		return cay_fail(err, CAY_E_TOO_LARGE, "the archive has more than %" PRIu64 " bytes",
				l->bytes);
	u->bytes += e->size;
	if (e->type == TAR_OTHER) {
		u->n->skipped++;
		return 0;
	}
	return makers[e->type](u, e, err);
}

int tree_unpack(const struct tree_unpack *how, struct tree_counts *ret, struct tree_counts *there,
		struct cay_err *err)
{
	auto_ptr(unpack) u = malloc(sizeof(*u));
	struct tar_entry e;
	int r;

	*ret = *there = (struct tree_counts){};
	if (!u)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	u->how = how;
	u->n = ret;
	u->made = (struct made){};
	dirs_init(&u->dirs, how->dirfd);
	u->entries = u->bytes = 0;
	tar_reader_init(&u->tar, how->read, how->arg);
	while ((r = tar_next(&u->tar, &e, err)) > 0) {
		r = make(u, &e, err);
		if (r < 0)
			return r;
		if (how->progress)
			how->progress(how->progress_arg, ret);
	}
	if (r >= 0 && u->tar.note[0] && !tree_note(u->tar.note, there))
		*there = (struct tree_counts){};
	return r;
}
