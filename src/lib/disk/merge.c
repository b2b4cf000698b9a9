/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One upper directory of overlayfs over another.  cp copies names that the lower one does not have,
 * or has as directories too; all others are removed first, so that cp writes through no link.
 * What overlayfs keeps in attributes of a directory is kept: opaque is opaque.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "base/str.h"
#include "disk/disk-internal.h"

#define OPAQUE "trusted.overlay.opaque"
#define ATTRIBUTES_MAX KIB(64) /* of a list, by the kernel */
#define BLOCK 512              /* unit of st_blocks */
#define COUNT_FDS 2100         /* for each level of the longest path, so that no names are kept */

struct merge {
	char *names; /* ATTRIBUTES_MAX */
	unsigned depth;
};

struct merge_level {
	struct merge *merge;
	int to;
};

static int merge_open_dir(int dirfd, const char *name)
{
	return path_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* 1, 0 or -errno */
static int merge_is_opaque(int dir)
{
	char value[2];
	ssize_t n = fgetxattr(dir, OPAQUE, value, sizeof(value));

	if (n < 0)
		return errno == ENODATA ? 0 : -errno;
	return n == 1 && value[0] == 'y';
}

/* cp adds those of the upper one. */
static int merge_remove_attributes(struct merge *m, int dir)
{
	ssize_t n = flistxattr(dir, m->names, ATTRIBUTES_MAX);

	if (n < 0)
		return -errno;
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(m->names + at) + 1)
		if (!str_eq(m->names + at, OPAQUE) && fremovexattr(dir, m->names + at) < 0 &&
		    errno != ENODATA)
			return -errno;
	return 0;
}

static int merge_dirs(struct merge *m, int from, int to);

static int merge_both_dirs(const struct merge_level *l, int from, const char *name)
{
	auto_close int upper = merge_open_dir(from, name), lower = -EBADF;
	int r = upper < 0 ? upper : merge_is_opaque(upper);

	if (r)
		return r < 0 ? r : rmtree_at(l->to, name);
	lower = merge_open_dir(l->to, name);
	return lower < 0 ? lower : merge_dirs(l->merge, upper, lower);
}

/* A file or a whiteout below a directory ends what overlayfs merges. */
static int merge_make_opaque(int to, const char *name)
{
	auto_close int dir = -EBADF;

	if (mkdirat(to, name, 0700) < 0)
		return -errno;
	dir = merge_open_dir(to, name);
	if (dir < 0)
		return dir;
	return fsetxattr(dir, OPAQUE, "y", 1, 0) < 0 ? -errno : 0;
}

static int on_merge_entry(void *arg, int from, const char *name)
{
	const struct merge_level *l = arg;
	struct stat upper, lower;
	int r;

	if (fstatat(l->to, name, &lower, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstatat(from, name, &upper, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(upper.st_mode) && S_ISDIR(lower.st_mode))
		return merge_both_dirs(l, from, name);
	r = rmtree_at(l->to, name);
	return r >= 0 && S_ISDIR(upper.st_mode) ? merge_make_opaque(l->to, name) : r;
}

static int merge_dirs(struct merge *m, int from, int to)
{
	int r;

	if (m->depth == DISK_MERGE_DEPTH)
		return -EMLINK;
	r = merge_remove_attributes(m, to);
	if (r < 0)
		return r;
	m->depth++;
	r = path_for_each_entry(from, on_merge_entry, &(struct merge_level){ m, to });
	m->depth--;
	return r;
}

int disk_merge(int from_dir, const char *from, int to_dir, const char *to)
{
	auto_close int upper = path_open(from_dir, from, O_RDONLY | O_DIRECTORY, 0), lower = -EBADF;
	char names[ATTRIBUTES_MAX];
	int r;

	lower = upper < 0 ? upper : path_open(to_dir, to, O_RDONLY | O_DIRECTORY, 0);
	if (lower < 0)
		return lower;
	r = merge_dirs(&(struct merge){ .names = names }, upper, lower);
	return r < 0 ? r : disk_copy_files(from_dir, upper, lower, /* share= */ true);
}

static thread_local uint64_t counted; /* nftw() has no argument for it */

static int on_count_entry(const char *, const struct stat *st, int type, struct FTW *)
{
	if (type == FTW_NS || type == FTW_DNR)
		return 1;
	counted += (uint64_t)st->st_blocks * BLOCK /
		   (S_ISDIR(st->st_mode) ? 1 : (uint64_t)st->st_nlink);
	return 0;
}

int disk_count_bytes(int dirfd, const char *name, uint64_t *ret)
{
	auto_close int dir = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
	char path[32];

	if (dir < 0)
		return dir;
	if (snprintf(path, sizeof(path), "/proc/self/fd/%d/.", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	counted = 0;
	if (nftw(path, on_count_entry, COUNT_FDS, FTW_PHYS | FTW_MOUNT) != 0)
		return -EMLINK;
	*ret = counted;
	return 0;
}
