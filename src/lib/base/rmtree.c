/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rmtree.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/str.h"

/* Entries between two looks at the clock, and so the least that a call removes. */
#define RMTREE_STRIDE 64

struct rmtree_run {
	uint64_t serial; /* of the next name at the top */
	uint64_t until_ns;
	unsigned n;
};

#define auto_dir CAY_CLEANUP(rmtree_dir_closep) DIR *

static void rmtree_dir_closep(DIR *const *d)
{
	if (*d)
		(void)closedir(*d);
}

static int rmtree_dir_open(int dirfd, const char *name, DIR **ret)
{
	auto_close int fd = path_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	DIR *d;

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d)
		return -errno;
	(void)cay_take_fd(&fd);
	*ret = d;
	return 0;
}

/* The next entry that is not "." or "..": 1, 0 at the end, or an error. */
static int rmtree_dir_next(DIR *d, const struct dirent **ret)
{
	do {
		errno = 0;
		*ret = readdir(d);
		if (!*ret)
			return -errno;
	} while (str_eq((*ret)->d_name, ".") || str_eq((*ret)->d_name, ".."));
	return 1;
}

/* 1 when it is a directory and still there. */
static int rmtree_unlink_unless_dir(int dirfd, const struct dirent *e)
{
	if (dirfd < 0)
		return -EBADF;
	if (e->d_type == DT_DIR)
		return 1;
	if (unlinkat(dirfd, e->d_name, 0) == 0 || errno == ENOENT)
		return 0;
	return errno == EISDIR ? 1 : -errno;
}

static bool rmtree_is_late(struct rmtree_run *run)
{
	return ++run->n % RMTREE_STRIDE == 0 && run->until_ns != UINT64_MAX &&
	       clk_boot_ns(&clk_system) >= run->until_ns;
}

/* Under a unique name; the serial only increases, so planted names cost one attempt each. */
static int rmtree_move_to_top(int fd, const char *name, int top, struct rmtree_run *run)
{
	char to[32];
	int r;

	do {
		if (snprintf(to, sizeof(to), ".gone-%" PRIx64, run->serial++) >= (int)sizeof(to))
			return -ENAMETOOLONG;
		r = renameat2(fd, name, top, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
	} while (r == -EEXIST);
	return r;
}

static int rmtree_flatten_dir(int top, const char *name, struct rmtree_run *run);

/* Remove all entries of d.  Its directories move to the top; -EBADF: d is the top. */
static int rmtree_empty_dir(DIR *d, int top, struct rmtree_run *run)
{
	const struct dirent *e;
	int r, n;

	do {
		n = 0;
		while ((r = rmtree_dir_next(d, &e)) > 0) {
			n++;
			r = rmtree_unlink_unless_dir(dirfd(d), e);
			if (r > 0 && top >= 0)
				r = rmtree_move_to_top(dirfd(d), e->d_name, top, run);
			else if (r > 0)
				r = rmtree_flatten_dir(dirfd(d), e->d_name, run);
			if (r < 0)
				return r;
			if (rmtree_is_late(run))
				return -ETIME;
		}
		rewinddir(d); /* directories moved to the top meanwhile */
	} while (r == 0 && n);
	return r;
}

static int rmtree_flatten_dir(int top, const char *name, struct rmtree_run *run)
{
	auto_dir d = NULL;
	int r = rmtree_dir_open(top, name, &d);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = rmtree_empty_dir(d, top, run);
	if (r < 0)
		return r;
	return unlinkat(top, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int rmtree_empty_until(int dir, uint64_t until_ns)
{
	/* starts where no earlier call that ran out of time can have been */
	struct rmtree_run run = { .serial = clk_boot_ns(&clk_system), .until_ns = until_ns };
	auto_dir d = NULL;
	int r = rmtree_dir_open(dir, ".", &d);

	return r < 0 ? r : rmtree_empty_dir(d, -EBADF, &run);
}

int rmtree_contents(int dir)
{
	return rmtree_empty_until(dir, UINT64_MAX);
}

int rmtree_at(int dirfd, const char *name)
{
	return rmtree_at_until(dirfd, name, UINT64_MAX);
}

int rmtree_at_until(int dirfd, const char *name, uint64_t until_ns)
{
	auto_close int fd = -EBADF;
	int r;

	if (!name[0] || strchr(name, '/') || str_eq(name, ".") || str_eq(name, ".."))
		return -EINVAL;
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	fd = path_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd;
	r = rmtree_empty_until(fd, until_ns);
	if (r < 0)
		return r;
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}
