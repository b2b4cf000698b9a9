/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/tree-unpack.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "archive/dir-cache.h"
#include "base/path.h"
#include "base/str.h"
#include "file/inode-set.h"
#include "file/path-at.h"
#include "file/tmpfile.h"

#define CHUNK KIB(64)
#define TMP_LEN sizeof(".cay-0123456789abcdef")

struct unpack {
	const struct tree_unpack *how;
	struct tree_counts *counts;
	struct tar_reader tar;
	struct inode_set made_files;
	struct dir_cache dirs;
	uint64_t entries, bytes;
	char tmp[TMP_LEN];
	char chunk[CHUNK];
};

static void unpack_freep(struct unpack **pp)
{
	struct unpack *u = *pp;

	if (!u)
		return;
	dir_cache_fini(&u->dirs);
	inode_set_fini(&u->made_files);
	tar_reader_fini(&u->tar);
	free(u);
}

/* A failure over one of its names, which may be anything. */
static int tree_unpack_fail(const char *name, int errnum, struct cay_err *err)
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
	(void)cay_fail_sys(err, code, errnum, "cannot make '%s'", tar_quote_name(name, quoted));
	if (code == CAY_E_FORBIDDEN)
		cay_err_hint(err, FILE_HINT_PERMISSION);
	return -errnum;
}

/* The directory of an entry; *ours: this archive created it. */
static int tree_unpack_open_parent(struct unpack *u, const char *name, const char **base,
				   bool *ours, struct cay_err *err)
{
	const char *slash = strrchr(name, '/');
	int fd;

	*base = slash ? slash + 1 : name;
	fd = dir_cache_open(&u->dirs, (struct slice){ name, slash ? (size_t)(slash - name) : 0 },
			    ours);
	return fd < 0 ? tree_unpack_fail(name, -fd, err) : fd;
}

static int tree_unpack_random_name(struct unpack *u)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	return snprintf(u->tmp, sizeof(u->tmp), ".cay-%016" PRIx64, random) < (int)sizeof(u->tmp)
		       ? 0
		       : -EIO;
}

static ssize_t tree_unpack_read_small_file(struct unpack *u, const struct tar_entry *e,
					   struct cay_err *err)
{
	size_t have = 0;

	while (have < e->size) {
		ssize_t n = tar_read_data(&u->tar, u->chunk + have, CHUNK - have, err);

		if (n < 0)
			return n;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* The content read so far, then the rest. */
static int tree_unpack_write_content(struct unpack *u, int fd, ssize_t n, const struct tar_entry *e,
				     struct cay_err *err)
{
	for (;;) {
		int r = fd_write_all(fd, u->chunk, (size_t)n);

		if (r < 0)
			return tree_unpack_fail(e->name, -r, err);
		n = tar_read_data(&u->tar, u->chunk, CHUNK, err);
		if (n <= 0)
			return (int)n;
	}
}

static mode_t tree_unpack_entry_mode(const struct unpack *u, const struct tar_entry *e)
{
	return e->mode & 0777 & ~u->how->limits.mask;
}

static int tree_unpack_set_attrs(struct unpack *u, int fd, const struct tar_entry *e)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = e->mtime } };
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 07777) != tree_unpack_entry_mode(u, e) &&
	    fchmod(fd, tree_unpack_entry_mode(u, e)) < 0)
		return -errno;
	/* a time the file system cannot hold is no reason to fail */
	(void)futimens(fd, times);
	r = inode_set_add(&u->made_files, &st);
	return r == -ENOBUFS ? 0 : r;
}

/* Where to write a file: in its place, if no other process can wait for it there and all
 * content is at hand; else in a file without a name. */
static int tree_unpack_create_file(struct tmpfile *temp, int dirfd, const char *name, mode_t mode)
{
	int r;

	if (name) {
		r = path_open(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
		if (r != -EEXIST)
			return r;
	}
	return tmpfile_open(temp, dirfd);
}

static int tree_unpack_file(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	bool ours, small;
	const char *base;
	int dirfd = tree_unpack_open_parent(u, e->name, &base, &ours, err), r;
	CAY_CLEANUP(tmpfile_fini) struct tmpfile temp = TMPFILE_INIT;
	auto_close int in_place = -EBADF;
	ssize_t n = 0;
	int fd;

	if (dirfd < 0)
		return dirfd;
	temp.ignores_sigterm = true;
	small = ours && e->size <= CHUNK;
	if (small)
		n = tree_unpack_read_small_file(u, e, err);
	if (n < 0)
		return (int)n;
	fd = tree_unpack_create_file(&temp, dirfd, small ? base : NULL,
				     tree_unpack_entry_mode(u, e));
	if (fd < 0)
		return tree_unpack_fail(e->name, -fd, err);
	if (fd != temp.fd)
		in_place = fd;
	r = tree_unpack_write_content(u, fd, n, e, err);
	if (r >= 0) {
		r = tree_unpack_set_attrs(u, fd, e);
		if (r >= 0 && fd == temp.fd)
			r = tmpfile_commit(&temp, base, TMPFILE_CREATE_OR_REPLACE);
		if (r < 0)
			r = tree_unpack_fail(e->name, -r, err);
	}
	if (r < 0 && in_place >= 0)
		(void)unlinkat(dirfd, base, 0);
	if (r < 0)
		return r;
	u->counts->files++;
	u->counts->bytes += e->size;
	return 0;
}

static int tree_unpack_directory(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	bool made;
	int fd;

	if (!e->name[0])
		return 0; /* the one that is unpacked into is its owner's business */
	u->counts->directories++;
	fd = dir_cache_open(&u->dirs, slice_of(e->name), &made);
	if (fd < 0)
		return tree_unpack_fail(e->name, -fd, err);
	if (!made && u->how->keep_modes)
		return 0;
	/* an existing directory of another owner keeps its mode */
	if (fchmod(fd, tree_unpack_entry_mode(u, e) | 0700) < 0 && errno != EPERM)
		return tree_unpack_fail(e->name, errno, err);
	return 0;
}

/* Whether a link stays in the tree: ".." only at the beginning, and at most as often as the link is
 * deep.  After a name it could be the parent of another link's target, which is anywhere. */
static bool tree_unpack_link_stays_inside(const char *name, const char *to)
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
static int tree_unpack_rename_link(struct unpack *u, int at, const char *base,
				   const struct tar_entry *e, struct cay_err *err)
{
	int r = 0;

	if (renameat(at, u->tmp, at, base) < 0)
		r = -errno;
	/* rename() of two names of one file does nothing, so the first may still exist */
	if (r < 0 || e->type == TAR_HARDLINK)
		(void)unlinkat(at, u->tmp, 0);
	u->counts->links += r >= 0;
	return r < 0 ? tree_unpack_fail(e->name, -r, err) : 0;
}

static int tree_unpack_symlink(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	const char *base;
	int dirfd, r;
	bool ours;

	if (!u->how->limits.links_out && !tree_unpack_link_stays_inside(e->name, e->link)) {
		u->counts->skipped++;
		return 0;
	}
	dirfd = tree_unpack_open_parent(u, e->name, &base, &ours, err);
	if (dirfd < 0)
		return dirfd;
	r = tree_unpack_random_name(u);
	if (r >= 0 && symlinkat(e->link, dirfd, u->tmp) < 0)
		r = -errno;
	return r < 0 ? tree_unpack_fail(e->name, -r, err)
		     : tree_unpack_rename_link(u, dirfd, base, e, err);
}

/* Open the named file first: to check its type, and that the path has no symlink. */
static int tree_unpack_open_link_target(struct unpack *u, const struct tar_entry *e,
					struct cay_err *err)
{
	auto_close int fd = path_open(u->how->dirfd, e->link, O_PATH | O_NOFOLLOW, 0);
	char quoted[TAR_QUOTED_MAX + 1];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !inode_set_has(&u->made_files, &st))
		return cay_fail(err, CAY_E_INVALID,
				"hard link '%s' leads to a file that is not of this archive",
				tar_quote_name(e->name, quoted));
	return cay_take_fd(&fd);
}

static int tree_unpack_hardlink(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	auto_close int to = tree_unpack_open_link_target(u, e, err);
	const char *base;
	char self[32];
	int dirfd, r;
	bool ours;

	if (to < 0)
		return to;
	dirfd = tree_unpack_open_parent(u, e->name, &base, &ours, err);
	if (dirfd < 0)
		return dirfd;
	r = tree_unpack_random_name(u);
	if (snprintf(self, sizeof(self), "/proc/self/fd/%d", to) >= (int)sizeof(self))
		r = -EIO;
	if (r >= 0 && linkat(AT_FDCWD, self, dirfd, u->tmp, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	return r < 0 ? tree_unpack_fail(e->name, -r, err)
		     : tree_unpack_rename_link(u, dirfd, base, e, err);
}

static int tree_unpack_entry(struct unpack *u, const struct tar_entry *e, struct cay_err *err)
{
	static int (*const makers[])(struct unpack *, const struct tar_entry *,
				     struct cay_err *) = {
		[TAR_FILE] = tree_unpack_file,
		[TAR_DIRECTORY] = tree_unpack_directory,
		[TAR_SYMLINK] = tree_unpack_symlink,
		[TAR_HARDLINK] = tree_unpack_hardlink,
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
		u->counts->skipped++;
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
		return cay_no_memory(err);
	u->how = how;
	u->counts = ret;
	u->made_files = (struct inode_set){};
	dir_cache_init(&u->dirs, how->dirfd);
	u->entries = u->bytes = 0;
	tar_reader_init(&u->tar, how->read, how->arg);
	while ((r = tar_read_entry(&u->tar, &e, err)) > 0) {
		r = tree_unpack_entry(u, &e, err);
		if (r < 0)
			return r;
		if (how->progress)
			how->progress(how->progress_arg, ret);
	}
	if (r >= 0 && u->tar.note[0] && !tree_note_parse(u->tar.note, there))
		*there = (struct tree_counts){};
	return r;
}
