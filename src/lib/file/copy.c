/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "file/name-ops.h"
#include "file/tmpfile.h"

#define PIECE MIB(16)

struct copy_state {
	const struct name_op *c;
	int to; /* the directory */
	unsigned depth;
};

static int copy_check_cancelled(const struct name_op *c)
{
	if (c->on_progress)
		c->on_progress(c->arg);
	return tmpfile_sigterm_was_received() ? -ECANCELED : 0;
}

/* Those of /proc and the like. */
static int copy_unsized(const struct name_op *c, int from, int to)
{
	char piece[KIB(32)];
	uint64_t done = 0;
	ssize_t n;

	while ((n = read(from, piece, sizeof(piece))) > 0) {
		int r = fd_write_all(to, piece, (size_t)n);

		done += (size_t)n;
		if (r >= 0)
			r = done > FILE_UNSIZED_MAX ? -EFBIG : copy_check_cancelled(c);
		if (r < 0)
			return r;
	}
	return n < 0 ? -errno : 0;
}

/* Copy by sharing blocks if the file system can, otherwise in the kernel, otherwise with
 * read and write.  Returns the number of bytes, at most n. */
static ssize_t copy_byte_range(int from, int to, off_t at, size_t n)
{
	char piece[KIB(32)];
	off_t in = at, out = at;
	ssize_t got = copy_file_range(from, &in, to, &out, n, 0);
	int r;

	if (got > 0)
		return got;
	if (got < 0 && errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	got = pread(from, piece, n < sizeof(piece) ? n : sizeof(piece), at);
	if (got <= 0)
		return got < 0 ? -errno : 0;
	if (lseek(to, at, SEEK_SET) < 0)
		return -errno;
	r = fd_write_all(to, piece, (size_t)got);
	return r < 0 ? r : got;
}

/* Find data between `at` and `size`; false: only a hole.  A file system without support for holes,
 * or with wrong answers, is treated as having data everywhere: the position always advances. */
static bool copy_find_next_data(int from, off_t size, off_t at, off_t *ret, off_t *ret_end)
{
	off_t first = lseek(from, at, SEEK_DATA), end;

	if (first < 0 && errno == ENXIO)
		return false;
	if (first < at)
		first = at;
	if (first >= size) /* it grew meanwhile */
		return false;
	end = lseek(from, first, SEEK_HOLE);
	*ret = first;
	*ret_end = end <= first || end > size ? size : end;
	return true;
}

/* Holes stay holes.  As long as it was is the most, whatever becomes of it meanwhile. */
static int copy_sized(const struct name_op *c, int from, int to, off_t size)
{
	off_t at = 0, end = 0;
	struct stat now;

	while (at < size && copy_find_next_data(from, size, at, &at, &end))
		while (at < end) {
			off_t most = end - at < (off_t)PIECE ? end - at : (off_t)PIECE;
			ssize_t n = copy_byte_range(from, to, at, (size_t)most);

			if (n < 0)
				return (int)n;
			if (copy_check_cancelled(c) < 0)
				return -ECANCELED;
			if (n == 0) /* shorter than its stat said */
				return ftruncate(to, at) < 0 ? -errno : 0;
			at += n;
		}
	if (at == size)
		return 0;
	if (fstat(from, &now) < 0)
		return -errno;
	return ftruncate(to, now.st_size < size ? now.st_size : size) < 0 ? -errno : 0;
}

static int copy_bytes(const struct name_op *c, int from, int to, off_t size)
{
	return size ? copy_sized(c, from, to, size) : copy_unsized(c, from, to);
}

/* Mode, time and, as far as we may, owner. */
static int copy_set_attrs(int fd, const struct stat *st)
{
	struct timespec times[2] = { st->st_atim, st->st_mtim };
	mode_t mode = st->st_mode & 07777;

	/* if the owner cannot be set, the setuid bits must not be either */
	if (fchown(fd, st->st_uid, st->st_gid) < 0)
		mode &= 0777;
	if (fchmod(fd, mode) < 0)
		return -errno;
	return futimens(fd, times) < 0 ? -errno : 0;
}

/* The file as it is now: it may have been replaced since the stat. */
static int copy_open_source(int dirfd, const char *name, struct stat *ret)
{
	auto_close int fd = file_open(dirfd, name, O_RDONLY | O_NOFOLLOW, 0);

	if (fd < 0)
		return fd;
	if (fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode))
		return -EAGAIN;
	return cay_take_fd(&fd);
}

static int copy_file(const struct name_op *c, int from_dir, const char *name, int to_dir,
		     const char *as)
{
	struct stat st;
	auto_close int from = copy_open_source(from_dir, name, &st);
	auto_close int to = -EBADF;
	int r;

	if (from < 0)
		return from;
	to = file_open(to_dir, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (to < 0)
		return to;
	r = copy_bytes(c, from, to, st.st_size);
	return r < 0 ? r : copy_set_attrs(to, &st);
}

static int copy_link(int from_dir, const char *name, int to_dir, const char *as)
{
	char target[FILE_PATH_MAX + 1];
	ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = 0;
	return symlinkat(target, to_dir, as) < 0 ? -errno : 0;
}

static int copy_tree_entry(void *arg, int from_dir, const char *name);

static int copy_dir(const struct copy_state *above, int from_dir, const char *name, const char *as,
		    const struct stat *st)
{
	auto_close int from = file_open(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	auto_close int to = -EBADF;
	struct copy_state in = { above->c, -EBADF, above->depth + 1 };
	int r;

	if (from < 0)
		return from;
	if (in.depth > NAME_OP_DEPTH_MAX)
		return -E2BIG;
	if (mkdirat(above->to, as, 0700) < 0)
		return -errno;
	to = file_open(above->to, as, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (to < 0)
		return to;
	in.to = to;
	r = path_for_each_entry(from, copy_tree_entry, &in);
	return r < 0 ? r : copy_set_attrs(to, st);
}

static int copy_entry_as(const struct copy_state *in, int from_dir, const char *name,
			 const char *as)
{
	struct stat st;

	if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (copy_check_cancelled(in->c) < 0)
		return -ECANCELED;
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return copy_file(in->c, from_dir, name, in->to, as);
	case S_IFLNK:
		return copy_link(from_dir, name, in->to, as);
	case S_IFDIR:
		return copy_dir(in, from_dir, name, as, &st);
	case S_IFIFO:
		return mkfifoat(in->to, as, st.st_mode & 0777) < 0 ? -errno : 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int copy_tree_entry(void *arg, int from_dir, const char *name)
{
	int r = copy_entry_as(arg, from_dir, name, name);

	return r == -ENOENT ? 0 : r; /* removed meanwhile */
}

/* Whether `to` is in the tree itself: then there would be no end. */
static bool copy_target_is_inside(const struct path_at *to, const struct stat *from)
{
	auto_close int up = file_open(to->dir, ".", O_PATH | O_DIRECTORY, 0);
	struct stat st, last = {};

	while (up >= 0 && fstat(up, &st) >= 0 &&
	       !(st.st_ino == last.st_ino && st.st_dev == last.st_dev)) {
		int next;

		if (st.st_ino == from->st_ino && st.st_dev == from->st_dev)
			return true;
		last = st;
		next = file_open(up, "..", O_PATH | O_DIRECTORY, 0);
		(void)close(up);
		up = next;
	}
	return false;
}

static int copy_check_target(const struct name_op *c, const struct path_at *from,
			     const struct path_at *to, struct stat *ret, struct cay_err *err)
{
	struct stat st, there;

	if (fstatat(from->dir, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return file_fail_lookup(err, errno, c->path);
	*ret = st;
	if (S_ISDIR(st.st_mode) && !c->recursive)
		return cay_fail_field(err, CAY_E_INVALID, "recursive", "it is a directory");
	if (S_ISDIR(st.st_mode) && copy_target_is_inside(to, &st))
		return cay_fail_field(err, CAY_E_INVALID, "to",
				      "it is inside the directory being copied");
	if (fstatat(to->dir, to->name, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!c->overwrite || S_ISDIR(there.st_mode) || S_ISDIR(st.st_mode))
		return file_fail(err, EEXIST, "copy to", c->to);
	return 0;
}

/* A single file has no name until it is complete, so that a killed process leaves nothing. */
static int copy_single_file(const struct name_op *c, const struct path_at *from,
			    const struct path_at *to)
{
	CAY_CLEANUP(tmpfile_fini) struct tmpfile temp = TMPFILE_INIT;
	struct stat st;
	auto_close int source = copy_open_source(from->dir, from->name, &st);
	int r = source < 0 ? source : tmpfile_open(&temp, to->dir);

	if (r >= 0)
		r = copy_bytes(c, source, temp.fd, st.st_size);
	if (r >= 0)
		r = copy_set_attrs(temp.fd, &st);
	return r < 0 ? r
		     : tmpfile_commit(&temp, to->name,
				      c->overwrite ? TMPFILE_CREATE_OR_REPLACE : TMPFILE_CREATE);
}

static int copy_remove_partial(const struct name_op *c, int dirfd, const char *name);

static int copy_remove_partial_entry(void *arg, int dirfd, const char *name)
{
	const struct name_op *c = arg;

	if (c->on_progress)
		c->on_progress(c->arg);
	return copy_remove_partial(c, dirfd, name);
}

/* Remove the partial copy.  This may take long, and the client may have left. */
static int copy_remove_partial(const struct name_op *c, int dirfd, const char *name)
{
	auto_close int dir = -EBADF;

	if (unlinkat(dirfd, name, 0) == 0)
		return 0;
	dir = file_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (dir >= 0) {
		(void)fchmod(dir, 0700); /* its mode may keep us out already */
		(void)path_for_each_entry(dir, copy_remove_partial_entry, (void *)(uintptr_t)c);
	}
	return rmtree_at(dirfd, name);
}

int name_op_copy(const struct name_op *c, struct cay_err *err)
{
	auto_path_at from = PATH_AT_INIT, to = PATH_AT_INIT;
	char temp[TMPFILE_NAME_LEN + 1];
	struct copy_state in = { .c = c };
	struct stat st = {};
	int r = path_at_open(c->path, false, &from, err);

	if (r >= 0)
		r = path_at_open(c->to, c->parents, &to, err);
	if (r >= 0)
		r = copy_check_target(c, &from, &to, &st, err);
	if (r < 0)
		return r;
	if (S_ISREG(st.st_mode)) {
		r = copy_single_file(c, &from, &to);
		return r < 0 ? file_fail(err, -r, "copy", c->path) : 0;
	}
	r = tmpfile_random_name(temp);
	if (r < 0)
		return file_fail(err, -r, "copy to", c->to);
	in.to = to.dir;
	tmpfile_defer_sigterm();
	r = copy_entry_as(&in, from.dir, from.name, temp);
	if (r >= 0 &&
	    renameat2(to.dir, temp, to.dir, to.name, c->overwrite ? 0 : RENAME_NOREPLACE) < 0)
		r = -errno;
	if (r >= 0)
		return 0;
	if (copy_remove_partial(c, to.dir, temp) < 0)
		return file_fail(err, -r, "copy, and remove the partial copy of", c->path);
	return file_fail(err, -r, "copy", c->path);
}
