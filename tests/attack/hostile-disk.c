/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk - take all there is to be had of a file system, in one way or another (FS-06)
 *
 *	hostile disk HOW DIR [MAX]
 *
 * until it is refused or MAX things are had; then "# took N" and "# errno NAME".  It is for
 * the driver to say whether that was the limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "hostile.h"

#define CHUNK 65536
#define HOLE (1 << 20)
#define VALUE 3000

static char chunk[CHUNK];

static int refused(uint64_t took, int error)
{
	fact("took %llu", (unsigned long long)took);
	fact("errno %s", error ? result_text(error) : "none");
	return 0;
}

static int open_new(const char *name)
{
	return open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int numbered(uint64_t i)
{
	char name[32];

	if (!fill(name, "f%llu", (unsigned long long)i))
		return -1;
	return open_new(name);
}

static int write_all(int fd, uint64_t max)
{
	uint64_t took = 0;

	while (took < max) {
		ssize_t n = write(fd, chunk, sizeof(chunk));

		if (n <= 0)
			return refused(took, errno);
		took += (uint64_t)n;
	}
	return refused(took, 0);
}

static int data(uint64_t max)
{
	return write_all(open_new("data"), max);
}

static int unlinked(uint64_t max)
{
	int fd = open_new("unlinked");

	if (fd < 0 || unlink("unlinked") < 0)
		return refused(0, errno);
	(void)write_all(fd, max);
	/* it has no name, and still counts for as long as we are there */
	fact("again %s", write(fd, chunk, sizeof(chunk)) < 0 ? result_text(errno) : "written");
	for (;;)
		(void)pause();
}

static int inodes(uint64_t max)
{
	for (uint64_t i = 0; i < max; i++) {
		int fd = numbered(i);

		if (fd < 0)
			return refused(i, errno);
		(void)close(fd);
	}
	return refused(max, 0);
}

static int attributes(uint64_t max)
{
	for (uint64_t i = 0; i < max; i++) {
		int fd = numbered(i);

		if (fd < 0 || fsetxattr(fd, "user.x", chunk, VALUE, 0) < 0)
			return refused(i * VALUE, errno);
		(void)close(fd);
	}
	return refused(max * VALUE, 0);
}

/* Large to look at, a block here and there. */
static int sparse(uint64_t max)
{
	int fd = open_new("sparse");

	for (uint64_t i = 0; i < max; i++)
		if (pwrite(fd, chunk, 4096, (off_t)(i * HOLE)) < 4096)
			return refused(i * 4096, errno);
	return refused(max * 4096, 0);
}

static int links(uint64_t max)
{
	char name[300], base[32] = "";

	for (uint64_t i = 0; i < max; i++) {
		if (i % 30000 == 0) { /* before a file has all it may have */
			int fd = numbered(i);

			if (fd < 0 || !fill(base, "f%llu", (unsigned long long)i))
				return refused(i, errno);
			(void)close(fd);
		}
		if (!fill(name, "%0200llu", (unsigned long long)i) || link(base, name) < 0)
			return refused(i, errno);
	}
	return refused(max, 0);
}

static int allocate(uint64_t max)
{
	int fd = open_new("allocate");

	for (uint64_t took = 0; took < max; took += CHUNK)
		if (fallocate(fd, 0, (off_t)took, CHUNK) < 0)
			return refused(took, errno);
	return refused(max, 0);
}

static sigjmp_buf bus;

static void on_bus(int)
{
	siglongjmp(bus, 1);
}

/* Written without write(). */
static int mapped(uint64_t max)
{
	static volatile uint64_t took;
	int fd = open_new("mapped");
	char *p;

	if (fd < 0 || ftruncate(fd, (off_t)max) < 0)
		return refused(0, errno);
	p = mmap(NULL, max, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return refused(0, errno);
	(void)signal(SIGBUS, on_bus);
	if (sigsetjmp(bus, 1) == 0)
		for (took = 0; took < max; took += 4096) {
			p[took] = 'x';
			/* what is only promised is not had */
			if (took % (1 << 22) == 0 && msync(p, took + 4096, MS_SYNC) < 0)
				return refused(took, errno);
		}
	return refused(took, took < max ? RESULT_SIGNAL + SIGBUS : 0);
}

static const struct {
	const char *name;
	int (*fn)(uint64_t max);
	uint64_t max;
} ways[] = {
	{ "data", data, UINT64_C(1) << 40 },
	{ "unlinked", unlinked, UINT64_C(1) << 40 },
	{ "inodes", inodes, 1 << 22 },
	{ "xattr", attributes, 1 << 20 },
	{ "sparse", sparse, 1 << 20 },
	{ "hardlink", links, 1 << 22 },
	{ "allocate", allocate, UINT64_C(1) << 40 },
	{ "mapped", mapped, UINT64_C(1) << 30 },
};

int mode_disk(int argc, char **argv)
{
	memset(chunk, 'x', sizeof(chunk));
	for (size_t i = 0; argc > 2 && i < ARRAY_SIZE(ways); i++)
		if (strcmp(argv[1], ways[i].name) == 0 && chdir(argv[2]) == 0)
			return ways[i].fn(argc > 3 ? strtoull(argv[3], NULL, 10) : ways[i].max);
	return 2;
}

/* Out of the quota: another project, none for what is made from now on, a subvolume. */
static int try_project(const void *arg)
{
	int fd = open(arg, O_RDONLY | O_CLOEXEC);
	struct fsxattr attr;

	if (fd < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
		return errno;
	attr.fsx_projid++;
	return ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0 ? errno : 0;
}

static int try_inherit(const void *arg)
{
	int fd = open(arg, O_RDONLY | O_CLOEXEC);
	struct fsxattr attr;

	if (fd < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
		return errno;
	if (!(attr.fsx_xflags & FS_XFLAG_PROJINHERIT))
		return ENOTSUP; /* there is nothing to get out of */
	attr.fsx_xflags &= ~(unsigned)FS_XFLAG_PROJINHERIT;
	return ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0 ? errno : 0;
}

static int try_subvolume(const void *arg)
{
	struct btrfs_ioctl_vol_args args = { .name = "subvolume" };
	int fd = open(arg, O_RDONLY | O_CLOEXEC);

	return fd < 0 || ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &args) < 0 ? errno : 0;
}

static int try_quota(const void *)
{
	return syscall(SYS_quotactl_fd, open("/", O_RDONLY | O_CLOEXEC), QCMD(Q_SYNC, PRJQUOTA), 0,
		       NULL) < 0
		       ? errno
		       : 0;
}

int mode_disk_escape(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		judge("another project", attempt(try_project, argv[i]));
		judge("no project for what is new", attempt(try_inherit, argv[i]));
		judge("a subvolume", attempt(try_subvolume, argv[i]));
		judge("quotactl", attempt(try_quota, argv[i]));
	}
	return mode_end("disk-escape");
}
