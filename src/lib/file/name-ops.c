/* SPDX-License-Identifier: Apache-2.0 */
#include "file/name-ops.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "base/str.h"
#include "file/tmpfile.h"

#define DEPTH_MAX 200

/* Set mode and owner through an O_PATH fd: no name is resolved a second time. */
static int name_op_set_attrs(int fd, const struct name_op *c, mode_t mode)
{
	char name[64];
	int n = snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);

	if (n < 0 || (size_t)n >= sizeof(name))
		return -EINVAL;
	if ((c->uid != (uid_t)-1 || c->gid != (gid_t)-1) &&
	    fchownat(fd, "", c->uid, c->gid, AT_EMPTY_PATH) < 0)
		return -errno;
	/* a link has no mode */
	if (c->has_mode && !S_ISLNK(mode) && chmod(name, c->mode) < 0)
		return -errno;
	return 0;
}

struct attrs_walk {
	const struct name_op *c;
	unsigned depth;
};

static int name_op_set_attrs_tree(int fd, const struct attrs_walk *d);

static int name_op_set_attrs_entry(void *arg, int dirfd, const char *name)
{
	const struct attrs_walk *above = arg;
	struct attrs_walk d = { above->c, above->depth + 1 };
	auto_close int fd = file_open(dirfd, name, O_PATH | O_NOFOLLOW, 0);
	struct stat st;
	int r;

	if (fd == -ENOENT) /* removed meanwhile */
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	if (d.depth > NAME_OP_DEPTH_MAX)
		return -E2BIG;
	if (tmpfile_sigterm_was_received())
		return -ECANCELED;
	if (d.c->on_progress)
		d.c->on_progress(d.c->arg);
	r = S_ISDIR(st.st_mode) ? name_op_set_attrs_tree(fd, &d) : 0;
	return r < 0 ? r : name_op_set_attrs(fd, d.c, st.st_mode);
}

/* The contents first: afterwards the mode may deny us access. */
static int name_op_set_attrs_tree(int fd, const struct attrs_walk *d)
{
	auto_close int dir = file_open(fd, ".", O_RDONLY | O_DIRECTORY, 0);

	return dir < 0 ? dir
		       : path_for_each_entry(dir, name_op_set_attrs_entry, (void *)(uintptr_t)d);
}

static int name_op_chmod(const struct name_op *c, struct cay_err *err)
{
	auto_close int fd =
		file_open(AT_FDCWD, c->path, O_PATH | (c->recursive ? O_NOFOLLOW : 0), 0);
	struct attrs_walk d = { c, 0 };
	struct stat st;
	int r;

	if (fd < 0)
		return file_fail_lookup(err, -fd, c->path);
	if (fstat(fd, &st) < 0)
		return file_fail(err, errno, "look at", c->path);
	r = c->recursive && S_ISDIR(st.st_mode) ? name_op_set_attrs_tree(fd, &d) : 0;
	if (r >= 0)
		r = name_op_set_attrs(fd, c, st.st_mode);
	return r < 0 ? file_fail(err, -r, "change", c->path) : 0;
}

static int name_op_mkdir(const struct name_op *c, struct cay_err *err)
{
	auto_path_at at = PATH_AT_INIT;
	auto_close int fd = -EBADF;
	int r = path_at_open(c->path, c->parents, &at, err);

	if (r < 0)
		return r;
	if (mkdirat(at.dir, at.name, 0777) < 0) {
		r = -errno;
		/* as mkdir -p does; a link counts as its target */
		if (r == -EEXIST && c->parents)
			fd = file_open(at.dir, at.name, O_PATH | O_DIRECTORY, 0);
		return fd >= 0 ? 0 : file_fail(err, -r, "make the directory", c->path);
	}
	fd = file_open(at.dir, at.name, O_PATH | O_NOFOLLOW | O_DIRECTORY, 0);
	r = fd < 0 ? fd : name_op_set_attrs(fd, c, S_IFDIR);
	if (r < 0)
		(void)unlinkat(at.dir, at.name, AT_REMOVEDIR);
	return r < 0 ? file_fail(err, -r, "make the directory", c->path) : 0;
}

static int name_op_remove_tree(int dirfd, const char *name, unsigned depth);

static int name_op_empty_dir(DIR *d, int fd, unsigned depth)
{
	const struct dirent *e;
	int n, r = 0;

	do {
		n = 0;
		while (r >= 0 && (e = readdir(d))) {
			if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
				continue;
			n++;
			r = name_op_remove_tree(fd, e->d_name, depth + 1);
		}
		rewinddir(d);
	} while (r >= 0 && n);
	return r;
}

/* An overlay does not rename directories of its lower layers, which rmtree_at() lives on. */
static int name_op_remove_tree(int dirfd, const char *name, unsigned depth)
{
	int r = rmtree_at(dirfd, name), fd;
	DIR *d;

	if (r != -EXDEV)
		return r;
	if (depth >= DEPTH_MAX)
		return -ENAMETOOLONG;
	fd = file_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	r = name_op_empty_dir(d, fd, depth);
	(void)closedir(d);
	if (r < 0)
		return r;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int name_op_delete(const struct name_op *c, struct cay_err *err)
{
	auto_path_at at = PATH_AT_INIT;
	int r = path_at_open(c->path, false, &at, err);

	if (r == -ENOENT && c->missing_ok) {
		*err = (struct cay_err){};
		return 0;
	}
	if (r < 0)
		return r;
	if (unlinkat(at.dir, at.name, 0) == 0)
		return 0;
	r = -errno;
	if (r == -ENOENT)
		return c->missing_ok ? 0 : file_fail_lookup(err, -r, c->path);
	if (r != -EISDIR && r != -EPERM)
		return file_fail(err, -r, "delete", c->path);
	if (c->recursive)
		r = name_op_remove_tree(at.dir, at.name, 0);
	else
		r = unlinkat(at.dir, at.name, AT_REMOVEDIR) < 0 ? -errno : 0;
	return r < 0 ? file_fail(err, r == -EEXIST ? ENOTEMPTY : -r, "delete", c->path) : 0;
}

/* In one step where the file system can, which is nearly all. */
static int name_op_rename(const struct path_at *from, const struct path_at *to, bool overwrite)
{
	struct stat st;

	if (renameat2(from->dir, from->name, to->dir, to->name, overwrite ? 0 : RENAME_NOREPLACE) >=
	    0)
		return 0;
	if (overwrite || errno != EINVAL)
		return -errno;
	if (fstatat(to->dir, to->name, &st, AT_SYMLINK_NOFOLLOW) >= 0)
		return -EEXIST;
	return renameat(from->dir, from->name, to->dir, to->name) < 0 ? -errno : 0;
}

/* Between file systems, and for directories of the image, which an overlay does not rename. */
static int name_op_move_by_copy(const struct name_op *c, const struct path_at *from,
				struct cay_err *err)
{
	struct name_op copy = *c;
	int r;

	copy.recursive = true;
	tmpfile_defer_sigterm(); /* not between the copy and the removal */
	r = name_op_copy(&copy, err);
	if (r < 0)
		return r;
	r = name_op_remove_tree(from->dir, from->name, 0);
	return r < 0 ? file_fail(err, -r, "it is copied; delete", c->path) : 0;
}

static int name_op_move(const struct name_op *c, struct cay_err *err)
{
	auto_path_at from = PATH_AT_INIT, to = PATH_AT_INIT;
	struct stat st;
	int r = path_at_open(c->path, false, &from, err);

	if (r >= 0 && fstatat(from.dir, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = file_fail_lookup(err, errno, c->path);
	if (r >= 0)
		r = path_at_open(c->to, c->parents, &to, err);
	if (r < 0)
		return r;
	r = name_op_rename(&from, &to, c->overwrite);
	if (r == -EXDEV)
		return name_op_move_by_copy(c, &from, err);
	return r < 0 ? file_fail(err, -r, "move to", c->to) : 0;
}

static int name_op_symlink(const struct name_op *c, struct cay_err *err)
{
	auto_path_at at = PATH_AT_INIT;
	char temp[TMPFILE_NAME_LEN + 1];
	struct stat st;
	int r = path_at_open(c->path, c->parents, &at, err);

	if (r < 0)
		return r;
	if (symlinkat(c->to, at.dir, at.name) == 0)
		return 0;
	if (errno != EEXIST || !c->overwrite)
		return file_fail(err, errno, "make the link", c->path);
	if (fstatat(at.dir, at.name, &st, AT_SYMLINK_NOFOLLOW) >= 0 && S_ISDIR(st.st_mode))
		return file_fail(err, EISDIR, "replace", c->path);
	r = tmpfile_random_name(temp);
	tmpfile_block_sigterm(true);
	if (r >= 0)
		r = symlinkat(c->to, at.dir, temp) < 0 ? -errno : 0;
	if (r >= 0 && renameat(at.dir, temp, at.dir, at.name) < 0) {
		r = -errno;
		(void)unlinkat(at.dir, temp, 0);
	}
	tmpfile_block_sigterm(false);
	return r < 0 ? file_fail(err, -r, "make the link", c->path) : 0;
}

int name_op_run(const struct name_op *c, struct cay_err *err)
{
	static int (*const how[NAME_OP_NUM])(const struct name_op *c, struct cay_err *err) = {
		[NAME_OP_MKDIR] = name_op_mkdir, [NAME_OP_MOVE] = name_op_move,
		[NAME_OP_COPY] = name_op_copy,   [NAME_OP_DELETE] = name_op_delete,
		[NAME_OP_CHMOD] = name_op_chmod, [NAME_OP_SYMLINK] = name_op_symlink,
	};

	return how[c->kind](c, err);
}
