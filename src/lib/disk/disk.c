/* SPDX-License-Identifier: Apache-2.0 */
#include "disk/disk.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/path.h"
#include "base/spawn.h"
#include "disk/disk-internal.h"

#define CP "/usr/bin/cp"
#define COPY_MS 600000
#define COPY_ROOM_MIN MIB(1)
#define COPY_MEMORY_MAX MIB(512)

static const struct disk_backend *const backends[] = { &disk_btrfs, &disk_ext4, &disk_xfs };

void disk_open(int fd, struct disk *ret)
{
	struct statfs st = {};

	*ret = (struct disk){ .fd = fd,
			      .groups = -EBADF,
			      .unavailable_reason = "its file system has no quotas" };
	(void)fstatfs(fd, &st);
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++) {
		if (backends[i]->magic != st.f_type)
			continue;
		ret->fs = backends[i];
		ret->unavailable_reason = backends[i]->probe(ret);
		if (!ret->unavailable_reason) {
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

static bool disk_can_limit(const struct disk *d, const struct disk_size *limit)
{
	return (!limit->bytes || (d->backend && d->backend->bytes)) &&
	       (!limit->inodes || (d->backend && d->backend->inodes));
}

static int disk_open_dir(int dirfd, const char *name)
{
	return path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
}

static int disk_create_dir(const struct disk *d, int dirfd, const char *name, uint32_t number)
{
	if (d->backend)
		return d->backend->create(dirfd, name, number);
	return mkdirat(dirfd, name, 0755) < 0 ? -errno : 0;
}

int disk_create(const struct disk *d, int dirfd, const char *name, uint32_t number,
		const struct disk_size *limit)
{
	int r = disk_can_limit(d, limit) ? disk_create_dir(d, dirfd, name, number) : -ENOTSUP;

	return r < 0 || !d->backend ? r : disk_set_limit(d, dirfd, name, number, limit);
}

int disk_set_limit(const struct disk *d, int dirfd, const char *name, uint32_t number,
		   const struct disk_size *limit)
{
	auto_close int fd = disk_open_dir(dirfd, name);

	if (fd < 0)
		return fd;
	return d->backend && disk_can_limit(d, limit) ? d->backend->set_limit(fd, number, limit)
						      : -ENOTSUP;
}

int disk_read_usage(const struct disk *d, int dirfd, const char *name, uint32_t number,
		    struct disk_size *ret)
{
	auto_close int fd = disk_open_dir(dirfd, name);

	*ret = (struct disk_size){ DISK_UNKNOWN, DISK_UNKNOWN };
	if (fd < 0)
		return fd;
	return d->backend ? d->backend->read_usage(d, fd, number, ret) : -ENOTSUP;
}

void disk_remove(const struct disk *d, int dirfd, const char *name, uint32_t number)
{
	/* a disk created while quotas were enabled stays of that kind */
	if (d->fs)
		d->fs->remove(d, dirfd, name, number);
}

/* -ETIMEDOUT: its owner kills it. */
static int disk_copy_wait(struct child *c, int *ret_status)
{
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };
	int r;

	do
		r = poll(&p, 1, COPY_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	return child_wait(c, ret_status);
}

/* cp says why it failed in words only: see whether there is room for a little more. */
static int disk_copy_failure(int to)
{
	auto_close int fd = openat(to, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	int r = fd < 0 || fallocate(fd, 0, 0, COPY_ROOM_MIN) < 0 ? errno : 0;

	return r == ENOSPC || r == EDQUOT ? -ENOSPC : -EMLINK;
}

/* Its memory grows with the names and links of a tree that an attacker has made.  The limit is set
 * when it runs, because this process may have more.  Its pid stays its own until it is waited for.
 */
static int disk_start_cp(const struct spawn *s, struct child *ret)
{
	const struct rlimit most = { COPY_MEMORY_MAX, COPY_MEMORY_MAX };
	int r = child_start(s, ret, NULL);
	pid_t pid = r < 0 ? -1 : pidfd_getpid(ret->pidfd);

	if (r < 0)
		return r;
	/* -1: it has ended */
	return pid > 0 && prlimit(pid, RLIMIT_AS, &most, NULL) < 0 ? -errno : 0;
}

/* cp handles holes, links, owners, attributes and devices, and shares extents if it can.  It has
 * the descriptor of the source's directory, so that a lock on that stays while cp runs, also if
 * this process is killed.  xattr is named: with `all` alone, one that is lost is no failure. */
int disk_copy_files(int lock, int from, int to, bool share)
{
	const char *const argv[] = { "cp",
				     "-dRT",
				     "--preserve=all,xattr",
				     share ? "--reflink=auto" : "--reflink=never",
				     "/proc/self/fd/3/.",
				     "/proc/self/fd/4/.",
				     NULL };
	struct spawn s = SPAWN_INIT(CP, argv);
	auto_child child = CHILD_INIT;
	int status = 0, r;

	for (int i = 0; i < 3; i++)
		s.fds[i] = -1;
	s.fds[3] = from;
	s.fds[4] = to;
	s.fds[5] = lock;
	s.n_fds = 6;
	r = disk_start_cp(&s, &child);
	if (r >= 0)
		r = disk_copy_wait(&child, &status);
	return r < 0 ? r : status < 0 ? -EIO : status ? disk_copy_failure(to) : 0;
}

int disk_copy(const struct disk *d, int from_dir, const char *from, int to_dir, const char *to,
	      uint32_t number)
{
	auto_close int source = disk_open_dir(from_dir, from), target = -EBADF;
	int r;

	if (source < 0)
		return source;
	if (d->backend && d->backend->copy)
		return d->backend->copy(source, to_dir, to);
	r = disk_create_dir(d, to_dir, to, number);
	if (r < 0)
		return r;
	target = disk_open_dir(to_dir, to);
	return target < 0 ? target : disk_copy_files(from_dir, source, target, /* share= */ true);
}

/* Simple quotas of btrfs charge a shared extent to its first owner. */
int disk_fill(const struct disk *d, int from_dir, const char *from, int to_dir, const char *to)
{
	auto_close int source = disk_open_dir(from_dir, from), target = disk_open_dir(to_dir, to);
	bool share = !d->backend || !d->backend->copy;

	if (source < 0 || target < 0)
		return source < 0 ? source : target;
	return disk_copy_files(from_dir, source, target, share);
}
