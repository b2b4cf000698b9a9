/* SPDX-License-Identifier: Apache-2.0 */
#include "file/change.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/str.h"
#include "base/tree.h"
#include "file/temp.h"

#define DEPTH_MAX 200

/* Mode and owner, of what an O_PATH fd leads to: no name is looked up a second time. */
static int dress(int fd, const struct change *c, mode_t mode)
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

struct dressing {
	const struct change *c;
	unsigned depth;
};

static int dress_tree(int fd, const struct dressing *d);

static int dress_one(void *arg, int dirfd, const char *name)
{
	const struct dressing *above = arg;
	struct dressing d = { above->c, above->depth + 1 };
	auto_close int fd = file_open(dirfd, name, O_PATH | O_NOFOLLOW, 0);
	struct stat st;
	int r;

	if (fd == -ENOENT) /* somebody took it away */
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	if (d.depth > CHANGE_DEPTH_MAX)
		return -E2BIG;
	if (temp_stopped())
		return -ECANCELED;
	if (d.c->alive)
		d.c->alive(d.c->arg);
	r = S_ISDIR(st.st_mode) ? dress_tree(fd, &d) : 0;
	return r < 0 ? r : dress(fd, d.c, st.st_mode);
}

/* What is inside first: behind it the mode may keep us out. */
static int dress_tree(int fd, const struct dressing *d)
{
	auto_close int dir = file_open(fd, ".", O_RDONLY | O_DIRECTORY, 0);

	return dir < 0 ? dir : path_each(dir, dress_one, (void *)(uintptr_t)d);
}

static int change_mode(const struct change *c, struct cay_err *err)
{
	auto_close int fd =
		file_open(AT_FDCWD, c->path, O_PATH | (c->recursive ? O_NOFOLLOW : 0), 0);
	struct dressing d = { c, 0 };
	struct stat st;
	int r;

	if (fd < 0)
		return file_fail_lookup(err, -fd, c->path);
	if (fstat(fd, &st) < 0)
		return file_fail(err, errno, "look at", c->path);
	r = c->recursive && S_ISDIR(st.st_mode) ? dress_tree(fd, &d) : 0;
	if (r >= 0)
		r = dress(fd, c, st.st_mode);
	return r < 0 ? file_fail(err, -r, "change", c->path) : 0;
}

static int make_dir(const struct change *c, struct cay_err *err)
{
	auto_at at = FILE_AT_INIT;
	auto_close int fd = -EBADF;
	int r = file_at(c->path, c->parents, &at, err);

	if (r < 0)
		return r;
	if (mkdirat(at.dir, at.name, 0777) < 0) {
		r = -errno;
		/* as mkdir -p has it; links count as what they lead to */
		if (r == -EEXIST && c->parents)
			fd = file_open(at.dir, at.name, O_PATH | O_DIRECTORY, 0);
		return fd >= 0 ? 0 : file_fail(err, -r, "make the directory", c->path);
	}
	fd = file_open(at.dir, at.name, O_PATH | O_NOFOLLOW | O_DIRECTORY, 0);
	r = fd < 0 ? fd : dress(fd, c, S_IFDIR);
	if (r < 0)
		(void)unlinkat(at.dir, at.name, AT_REMOVEDIR);
	return r < 0 ? file_fail(err, -r, "make the directory", c->path) : 0;
}

static int remove_all(int dirfd, const char *name, unsigned depth);

/* What is in one, the directories of the image first of all from below. */
static int empty_slowly(DIR *d, int fd, unsigned depth)
{
	const struct dirent *e;
	int n, r = 0;

	do {
		n = 0;
		while (r >= 0 && (e = readdir(d))) {
			if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
				continue;
			n++;
			r = remove_all(fd, e->d_name, depth + 1);
		}
		rewinddir(d);
	} while (r >= 0 && n);
	return r;
}

/* An overlay does not rename directories of its lower layers, which tree_remove() lives on. */
static int remove_all(int dirfd, const char *name, unsigned depth)
{
	int r = tree_remove(dirfd, name), fd;
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
	r = empty_slowly(d, fd, depth);
	(void)closedir(d);
	if (r < 0)
		return r;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int remove_it(const struct change *c, struct cay_err *err)
{
	auto_at at = FILE_AT_INIT;
	int r = file_at(c->path, false, &at, err);

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
		r = remove_all(at.dir, at.name, 0);
	else
		r = unlinkat(at.dir, at.name, AT_REMOVEDIR) < 0 ? -errno : 0;
	return r < 0 ? file_fail(err, r == -EEXIST ? ENOTEMPTY : -r, "delete", c->path) : 0;
}

/* In one step where the file system can, which is nearly all. */
static int rename_to(const struct file_at *from, const struct file_at *to, bool overwrite)
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

/* Between file systems, and for directories of the image, which an overlay does not rename:
 * as mv does it. */
static int move_slowly(const struct change *c, const struct file_at *from, struct cay_err *err)
{
	struct change copy = *c;
	int r;

	copy.recursive = true;
	temp_may_stop(); /* not between the copy and the removal */
	r = copy_do(&copy, err);
	if (r < 0)
		return r;
	r = remove_all(from->dir, from->name, 0);
	return r < 0 ? file_fail(err, -r, "it is copied; delete", c->path) : 0;
}

static int move_it(const struct change *c, struct cay_err *err)
{
	auto_at from = FILE_AT_INIT, to = FILE_AT_INIT;
	struct stat st;
	int r = file_at(c->path, false, &from, err);

	if (r >= 0 && fstatat(from.dir, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = file_fail_lookup(err, errno, c->path);
	if (r >= 0)
		r = file_at(c->to, c->parents, &to, err);
	if (r < 0)
		return r;
	r = rename_to(&from, &to, c->overwrite);
	if (r == -EXDEV)
		return move_slowly(c, &from, err);
	return r < 0 ? file_fail(err, -r, "move to", c->to) : 0;
}

static int make_link(const struct change *c, struct cay_err *err)
{
	auto_at at = FILE_AT_INIT;
	char temp[TEMP_NAME_LEN + 1];
	struct stat st;
	int r = file_at(c->path, c->parents, &at, err);

	if (r < 0)
		return r;
	if (symlinkat(c->to, at.dir, at.name) == 0)
		return 0;
	if (errno != EEXIST || !c->overwrite)
		return file_fail(err, errno, "make the link", c->path);
	if (fstatat(at.dir, at.name, &st, AT_SYMLINK_NOFOLLOW) >= 0 && S_ISDIR(st.st_mode))
		return file_fail(err, EISDIR, "replace", c->path);
	r = temp_name(temp);
	temp_undisturbed(true);
	if (r >= 0)
		r = symlinkat(c->to, at.dir, temp) < 0 ? -errno : 0;
	if (r >= 0 && renameat(at.dir, temp, at.dir, at.name) < 0) {
		r = -errno;
		(void)unlinkat(at.dir, temp, 0);
	}
	temp_undisturbed(false);
	return r < 0 ? file_fail(err, -r, "make the link", c->path) : 0;
}

int change_do(const struct change *c, struct cay_err *err)
{
	static int (*const how[CHANGE_NUM])(const struct change *c, struct cay_err *err) = {
		[CHANGE_MKDIR] = make_dir,    [CHANGE_MOVE] = move_it,
		[CHANGE_COPY] = copy_do,      [CHANGE_DELETE] = remove_it,
		[CHANGE_CHMOD] = change_mode, [CHANGE_SYMLINK] = make_link,
	};

	return how[c->what](c, err);
}
