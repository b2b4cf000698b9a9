/* SPDX-License-Identifier: Apache-2.0 */
#include "disk/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/path.h"
#include "base/spawn.h"
#include "disk/disk-internal.h"

#define CP "/usr/bin/cp"

static const struct disk_backend *const backends[] = { &disk_btrfs, &disk_ext4, &disk_xfs };

void disk_open(int fd, struct disk *ret)
{
	struct statfs st = {};

	*ret = (struct disk){ .fd = fd, .groups = -EBADF, .why = "its file system has no quotas" };
	(void)fstatfs(fd, &st);
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++) {
		if (backends[i]->magic != st.f_type)
			continue;
		ret->fs = backends[i];
		ret->why = backends[i]->find(ret);
		if (!ret->why) {
			ret->backend = backends[i];
			ret->kind = backends[i]->kind;
		}
	}
}

void disk_close(struct disk *d)
{
	cay_closep(&d->groups);
	d->groups = -EBADF;
}

static bool can(const struct disk *d, const struct disk_size *limit)
{
	return (!limit->bytes || (d->backend && d->backend->bytes)) &&
	       (!limit->inodes || (d->backend && d->backend->inodes));
}

static int open_disk(int dirfd, const char *name)
{
	return path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
}

static int make_dir(const struct disk *d, int dirfd, const char *name, uint32_t number)
{
	if (d->backend)
		return d->backend->make(dirfd, name, number);
	return mkdirat(dirfd, name, 0755) < 0 ? -errno : 0;
}

int disk_make(const struct disk *d, int dirfd, const char *name, uint32_t number,
	      const struct disk_size *limit)
{
	int r = can(d, limit) ? make_dir(d, dirfd, name, number) : -ENOTSUP;

	return r < 0 || !d->backend ? r : disk_limit(d, dirfd, name, number, limit);
}

int disk_limit(const struct disk *d, int dirfd, const char *name, uint32_t number,
	       const struct disk_size *limit)
{
	auto_close int fd = open_disk(dirfd, name);

	if (fd < 0)
		return fd;
	return d->backend && can(d, limit) ? d->backend->limit(fd, number, limit) : -ENOTSUP;
}

int disk_usage(const struct disk *d, int dirfd, const char *name, uint32_t number,
	       struct disk_size *ret)
{
	auto_close int fd = open_disk(dirfd, name);

	*ret = (struct disk_size){ DISK_UNKNOWN, DISK_UNKNOWN };
	if (fd < 0)
		return fd;
	return d->backend ? d->backend->usage(d, fd, number, ret) : -ENOTSUP;
}

void disk_remove(const struct disk *d, int dirfd, const char *name, uint32_t number)
{
	/* what was made while quotas were on is what it was */
	if (d->fs)
		d->fs->remove(d, dirfd, name, number);
}

/* cp knows holes, links, owners, attributes and devices, and shares extents where it can. */
static int copy_files(int from, int to)
{
	static const char *const argv[] = {
		"cp", "-aT", "--reflink=auto", "/proc/self/fd/3/.", "/proc/self/fd/4/.", NULL
	};
	struct spawn s = SPAWN_INIT(CP, argv);
	auto_child child = CHILD_INIT;
	int status = 0, r;

	for (int i = 0; i < 3; i++)
		s.fds[i] = -1;
	s.fds[3] = from;
	s.fds[4] = to;
	s.n_fds = 5;
	r = child_start(&s, &child, NULL);
	if (r >= 0)
		r = child_wait(&child, &status);
	return r < 0 ? r : status ? -EIO : 0;
}

int disk_copy(const struct disk *d, int from_dir, const char *from, int to_dir, const char *to,
	      uint32_t number)
{
	auto_close int source = open_disk(from_dir, from), target = -EBADF;
	int r;

	if (source < 0)
		return source;
	if (d->backend && d->backend->copy)
		return d->backend->copy(source, to_dir, to);
	r = make_dir(d, to_dir, to, number);
	if (r < 0)
		return r;
	target = open_disk(to_dir, to);
	return target < 0 ? target : copy_files(source, target);
}
