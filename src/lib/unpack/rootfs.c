/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/rootfs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "base/str.h"

/* The cause of a failure: the disk, the machine, or the image. */
static int rootfs_fail(struct cay_err *err, int r, const struct rootfs_name *n, const char *what)
{
	enum cay_code code = CAY_E_INVALID;

	if (r == -ENOSPC || r == -EDQUOT || r == -EROFS)
		code = cay_code_from_disk_errno(r);
	else if (r == -E2BIG)
		code = CAY_E_TOO_LARGE;
	else if (r == -ENOMEM)
		code = CAY_E_NO_MEMORY;
	else if (r == -EIO || r == -EMFILE || r == -EPERM || r == -EACCES)
		code = CAY_E_INTERNAL;
	return cay_fail_sys(err, code, r, "'%.100s%s%.100s': %s", str_eq(n->dir, ".") ? "" : n->dir,
			    str_eq(n->dir, ".") ? "" : "/", n->base, what);
}

int rootfs_name_parse(const char *text, struct rootfs_name *ret, struct cay_err *err)
{
	struct slice rest = slice_of(text);
	size_t len = 0, base = 0, depth = 0;

	if (rest.n > ROOTFS_PATH_MAX)
		return cay_fail(err, CAY_E_INVALID, "a name is longer than %d bytes",
				ROOTFS_PATH_MAX);
	while (rest.n) {
		struct slice part = slice_cut(&rest, '/');

		if (!part.n || slice_eq(part, SLICE(".")))
			continue;
		if (slice_eq(part, SLICE("..")))
			return cay_fail(err, CAY_E_INVALID, "'%.200s': has '..' in it", text);
		if (part.n > ROOTFS_NAME_MAX)
			return cay_fail(err, CAY_E_INVALID, "'%.100s...': longer than %d bytes",
					text, ROOTFS_NAME_MAX);
		if (++depth > ROOTFS_DEPTH_MAX)
			return cay_fail(err, CAY_E_INVALID, "'%.100s...': deeper than %d levels",
					text, ROOTFS_DEPTH_MAX);
		if (len)
			ret->text[len++] = '/';
		base = len;
		memcpy(ret->text + len, part.p, part.n);
		len += part.n;
	}
	ret->text[len] = 0;
	ret->base = ret->text + base;
	ret->dir = base ? ret->text : ".";
	if (base)
		ret->text[base - 1] = 0;
	return 0;
}

/* Like mkdir -p, through links that end inside.  They count: one name of a tar can bring 255. */
static int rootfs_create_parents(const struct rootfs *t, const char *dir)
{
	char path[ROOTFS_PATH_MAX + 1];
	size_t len = strlen(dir);

	memcpy(path, dir, len + 1);
	for (size_t i = 1; i <= len; i++) {
		auto_close int parent = -EBADF;
		char *base;

		if (path[i] != '/' && path[i])
			continue;
		path[i] = 0;
		base = strrchr(path, '/');
		if (base)
			*base = 0;
		parent = path_open_in_root(t->fd, base ? path : ".", O_PATH | O_DIRECTORY, 0);
		if (base)
			*base = '/';
		if (parent < 0)
			return parent;
		if (mkdirat(parent, base ? base + 1 : path, 0755) == 0) {
			if (!*t->left)
				return -E2BIG;
			(*t->left)--;
		} else if (errno != EEXIST) {
			return -errno;
		}
		if (i < len)
			path[i] = '/';
	}
	return 0;
}

static int rootfs_open_dir(int root, const char *dir)
{
	return path_open_in_root(root, dir, O_RDONLY | O_DIRECTORY, 0);
}

/* The directory of a new entry, and its previous times. */
struct rootfs_parent {
	int fd;
	struct timespec mtime;
};

#define auto_place CAY_CLEANUP(rootfs_parent_fini) struct rootfs_parent

static int rootfs_parent_open(const struct rootfs *t, const struct rootfs_name *n,
			      struct rootfs_parent *ret, struct cay_err *err)
{
	struct stat st;
	int fd = rootfs_open_dir(t->fd, n->dir), r;

	if (fd == -ENOENT) {
		r = rootfs_create_parents(t, n->dir);
		fd = r < 0 ? r : rootfs_open_dir(t->fd, n->dir);
	}
	if (fd >= 0 && fstat(fd, &st) < 0) {
		r = -errno;
		(void)close(fd);
		fd = r;
	}
	if (fd < 0)
		return rootfs_fail(err, fd, n, "cannot enter its directory");
	ret->fd = fd;
	ret->mtime = st.st_mtim;
	return 0;
}

static void rootfs_parent_fini(struct rootfs_parent *p)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, p->mtime };

	if (p->fd < 0)
		return;
	(void)futimens(p->fd, times);
	(void)close(p->fd);
}

int rootfs_create_file(const struct rootfs *t, const struct rootfs_name *n, int *ret_fd,
		       struct cay_err *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	auto_place at = { .fd = -EBADF };
	int fd, r;

	if (!n->base[0])
		return cay_fail(err, CAY_E_INVALID, "the root of the image is a file");
	r = rootfs_parent_open(t, n, &at, err);
	if (at.fd < 0)
		return r;
	fd = openat(at.fd, n->base, flags, 0600);
	if (fd < 0 && errno == EEXIST) {
		r = rmtree_at(at.fd, n->base);
		if (r < 0)
			return rootfs_fail(err, r, n, "cannot replace the existing entry");
		fd = openat(at.fd, n->base, flags, 0600);
	}
	if (fd < 0)
		return rootfs_fail(err, -errno, n, "cannot make the file");
	*ret_fd = fd;
	return 0;
}

int rootfs_set_meta(int fd, const struct rootfs_name *n, const struct rootfs_meta *meta,
		    struct cay_err *err)
{
	const struct timespec times[2] = { meta->mtime, meta->mtime };

	/* chown clears the set-id bits, so the mode comes after it */
	if (fchown(fd, meta->uid, meta->gid) < 0 || fchmod(fd, meta->mode & 07777) < 0 ||
	    futimens(fd, times) < 0)
		return rootfs_fail(err, -errno, n, "cannot set owner, mode and time");
	return 0;
}

int rootfs_create_dir(const struct rootfs *t, const struct rootfs_name *n,
		      const struct rootfs_meta *meta, struct cay_err *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	auto_place at = { .fd = -EBADF };
	auto_close int fd = -EBADF;
	int r;

	if (!n->base[0])
		return rootfs_set_meta(t->fd, n, meta, err);
	r = rootfs_parent_open(t, n, &at, err);
	if (at.fd < 0)
		return r;
	if (mkdirat(at.fd, n->base, 0700) < 0 && errno != EEXIST)
		return rootfs_fail(err, -errno, n, "cannot make the directory");
	fd = openat(at.fd, n->base, flags);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
		if (unlinkat(at.fd, n->base, 0) < 0 || mkdirat(at.fd, n->base, 0700) < 0)
			return rootfs_fail(err, -errno, n, "cannot replace the existing entry");
		fd = openat(at.fd, n->base, flags);
	}
	if (fd < 0)
		return rootfs_fail(err, -errno, n, "cannot open the directory");
	return rootfs_set_meta(fd, n, meta, err);
}

int rootfs_create_symlink(const struct rootfs *t, const struct rootfs_name *n, const char *target,
			  const struct rootfs_meta *meta, struct cay_err *err)
{
	const struct timespec times[2] = { meta->mtime, meta->mtime };
	auto_place at = { .fd = -EBADF };
	int r;

	if (!n->base[0])
		return cay_fail(err, CAY_E_INVALID, "the root of the image is a link");
	if (!target[0] || strlen(target) > ROOTFS_PATH_MAX)
		return rootfs_fail(err, -EINVAL, n, "a link without a sensible target");
	r = rootfs_parent_open(t, n, &at, err);
	if (at.fd < 0)
		return r;
	if (symlinkat(target, at.fd, n->base) < 0) {
		r = errno == EEXIST ? rmtree_at(at.fd, n->base) : -errno;
		if (r >= 0 && symlinkat(target, at.fd, n->base) < 0)
			r = -errno;
		if (r < 0)
			return rootfs_fail(err, r, n, "cannot make the link");
	}
	if (fchownat(at.fd, n->base, meta->uid, meta->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    utimensat(at.fd, n->base, times, AT_SYMLINK_NOFOLLOW) < 0)
		return rootfs_fail(err, -errno, n, "cannot set owner and time");
	return 0;
}

int rootfs_create_hardlink(const struct rootfs *t, const struct rootfs_name *n,
			   const struct rootfs_name *target, struct cay_err *err)
{
	auto_close int from = rootfs_open_dir(t->fd, target->dir);
	auto_place at = { .fd = -EBADF };
	struct stat st, there;
	int r;

	if (!n->base[0] || !target->base[0])
		return cay_fail(err, CAY_E_INVALID, "a hard link to or from the root of the image");
	if (from < 0 || fstatat(from, target->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return rootfs_fail(err, -ENOENT, n, "hard link to a file that is not in the image");
	if (!S_ISREG(st.st_mode))
		return rootfs_fail(err, -EINVAL, n, "hard link to a target that is not a file");
	r = rootfs_parent_open(t, n, &at, err);
	if (at.fd < 0)
		return r;
	if (fstatat(at.fd, n->base, &there, AT_SYMLINK_NOFOLLOW) == 0) {
		if (there.st_ino == st.st_ino && there.st_dev == st.st_dev)
			return 0;
		r = rmtree_at(at.fd, n->base);
		if (r < 0)
			return rootfs_fail(err, r, n, "cannot replace the existing entry");
	}
	if (linkat(from, target->base, at.fd, n->base, 0) < 0)
		return rootfs_fail(err, -errno, n, "cannot make the hard link");
	return 0;
}

/* 0 when there is no such directory: nothing to hide in it. */
static int rootfs_parent_open_existing(const struct rootfs *t, const struct rootfs_name *n,
				       struct rootfs_parent *ret)
{
	struct stat st;
	int fd = rootfs_open_dir(t->fd, n->dir);

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		(void)close(fd);
		return -EIO;
	}
	*ret = (struct rootfs_parent){ fd, st.st_mtim };
	return 1;
}

int rootfs_apply_whiteout(const struct rootfs *t, const struct rootfs_name *n, const char *base,
			  struct cay_err *err)
{
	auto_place at = { .fd = -EBADF };
	int r = rootfs_parent_open_existing(t, n, &at);

	if (r > 0)
		r = rmtree_at(at.fd, base);
	return r < 0 ? rootfs_fail(err, r, n, "cannot apply the whiteout") : 0;
}

int rootfs_apply_opaque_whiteout(const struct rootfs *t, const struct rootfs_name *n,
				 struct cay_err *err)
{
	auto_place at = { .fd = -EBADF };
	int r = rootfs_parent_open_existing(t, n, &at);

	if (r > 0)
		r = rmtree_contents(at.fd);
	return r < 0 ? rootfs_fail(err, r, n, "cannot apply the opaque whiteout") : 0;
}

int rootfs_check_mount_dirs(int root, bool make, struct cay_err *err)
{
	static const struct {
		const char *name;
		mode_t mode; /* 0: may be absent */
	} dirs[] = {
		{ "dev", 0755 }, { "proc", 0555 }, { "sys", 0555 },
		{ "run", 0755 }, { "tmp", 01777 }, { "etc", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		const char *name = dirs[i].name;
		struct stat st;

		if (make && dirs[i].mode && mkdirat(root, name, 0700) == 0 &&
		    fchmodat(root, name, dirs[i].mode, 0) < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot make /%s", name);
		if (fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT && !dirs[i].mode)
				continue;
			return cay_fail_sys(err, CAY_E_INTERNAL, errno, "cannot make /%s", name);
		}
		if (!S_ISDIR(st.st_mode))
			return cay_fail(err, CAY_E_INVALID,
					"/%s is a link or a file, it must be a real directory",
					name);
	}
	return 0;
}
