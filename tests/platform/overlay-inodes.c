/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlay-inodes - two overlays of one directory share its pages, but not its inodes
 *
 * Leans on it: the view of /dev, /sys and /proc that each sandbox has for itself (docs/adr/0063,
 * mount_stage_make_own).  One directory holds the files of all sandboxes, and each sandbox sees
 * it through an overlay that has lower directories only.
 *
 * Checked, for a file, a device and a directory: inotify on the one view reports nothing that is
 * done on the other, and a lock (flock, fcntl) that is held on the one is free on the other.
 * Each time the control beside it: on the same view the event comes and the lock is held, and
 * two bind mounts, which is what there was before, share both.  A program that is mapped in two
 * views is once in memory.
 *
 * If it failed: a tmpfs for each sandbox, with a copy of cay-init in it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "platform.h"

#define BIG MIB(8)

struct pair {
	const char *name, *one, *other; /* two places that show the same directory */
	bool shared;                    /* whether they have the same inodes */
};

static const struct pair pairs[] = {
	{ "two overlays", "view-a", "view-b", false },
	{ "one overlay", "view-a", "view-a", true },
	{ "two binds", "bind-a", "bind-b", true },
	{ "an overlay and its directory", "view-a", "bind-a", false },
};

static const char *const names[] = { "file", "null", "dir" };

static void mount_at(const struct plat *p, const char *at, const char *kind, unsigned long flags,
		     const char *options)
{
	auto_free char *path = platform_format("%s/%s", p->work, at);
	auto_free char *lower = platform_format("%s/lower", p->work);

	if (strcmp(at, "lower") != 0)
		platform_mkdir(p->work_fd, at, 0755);
	NEED(mount(lower, path, kind, flags, options) == 0, "mount %s", at);
}

static void make_views(const struct plat *p)
{
	auto_free char *options = platform_format("lowerdir=%s/lower:%s/none", p->work, p->work);
	auto_close int lower = -EBADF;

	platform_mkdir(p->work_fd, "lower", 0755);
	platform_mkdir(p->work_fd, "none", 0755);
	mount_at(p, "lower", "tmpfs", 0, NULL);
	lower = openat(p->work_fd, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	platform_write(lower, "file", "text");
	platform_mkdir(lower, "dir", 0755);
	platform_write(lower, "dir/inside", "text");
	NEED(mknodat(lower, "null", S_IFCHR | 0666, makedev(1, 3)) == 0, "a device");
	platform_write(lower, "big", "");
	mount_at(p, "view-a", "overlay", MS_RDONLY | MS_NOSUID, options);
	mount_at(p, "view-b", "overlay", MS_RDONLY | MS_NOSUID, options);
	mount_at(p, "bind-a", NULL, MS_BIND, NULL);
	mount_at(p, "bind-b", NULL, MS_BIND, NULL);
}

static int open_in(const struct plat *p, const char *view, const char *name)
{
	auto_free char *path = platform_format("%s/%s", view, name);
	int fd = openat(p->work_fd, path,
			(strcmp(name, "null") == 0 ? O_RDWR : O_RDONLY) | O_CLOEXEC);

	NEED(fd >= 0, "open %s", path);
	return fd;
}

/* Whether a watch on the one view reports that the file was opened on the other. */
static bool event_crosses(const struct plat *p, const struct pair *pair, const char *name)
{
	auto_close int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), fd = -EBADF;
	auto_free char *path = platform_format("%s/%s/%s", p->work, pair->one, name);
	alignas(struct inotify_event) char events[4096];

	NEED(watch >= 0 && inotify_add_watch(watch, path, IN_ALL_EVENTS) >= 0, "watch %s", path);
	fd = open_in(p, pair->other, name);
	return read(watch, events, sizeof(events)) > 0;
}

static bool flock_crosses(const struct plat *p, const struct pair *pair, const char *name)
{
	auto_close int held = open_in(p, pair->one, name), fd = open_in(p, pair->other, name);

	NEED(flock(held, LOCK_EX | LOCK_NB) == 0, "lock %s", name);
	return flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* Of open files, so that one process can hold both; a device is the only one that can be
 * opened for writing here, as a lock that excludes others needs. */
static bool fcntl_crosses(const struct plat *p, const struct pair *pair)
{
	auto_close int held = open_in(p, pair->one, "null"), fd = open_in(p, pair->other, "null");
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	NEED(fcntl(held, F_OFD_SETLK, &lock) == 0, "lock a device");
	return fcntl(fd, F_OFD_SETLK, &lock) < 0 && errno == EAGAIN;
}

static void try_pair(const struct plat *p, const struct pair *pair)
{
	const char *word = pair->shared ? "crosses" : "does not cross";

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		CHECK(event_crosses(p, pair, names[i]) == pair->shared, "%s: inotify on a %s %s",
		      pair->name, names[i], word);
		CHECK(flock_crosses(p, pair, names[i]) == pair->shared, "%s: flock on a %s %s",
		      pair->name, names[i], word);
	}
	CHECK(fcntl_crosses(p, pair) == pair->shared, "%s: fcntl on a device %s", pair->name, word);
}

/* What the mappings of this process take of memory, each page once. */
static unsigned long own_kib(void)
{
	auto_buf text = BUF_INIT(KIB(8));
	const char *at;
	unsigned long kib = 0;

	NEED(platform_get(AT_FDCWD, "/proc/self/smaps_rollup", &text), "smaps_rollup");
	at = strstr(buf_str(&text), "\nPss:");
	NEED(at && sscanf(at, "\nPss: %lu kB", &kib) == 1, "its Pss");
	return kib;
}

static void *map_big(const struct plat *p, const char *view)
{
	auto_close int fd = open_in(p, view, "big");
	void *at = mmap(NULL, BIG, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_POPULATE, fd, 0);

	NEED(at != MAP_FAILED, "map a file of %s", view);
	return at;
}

static void try_pages(const struct plat *p)
{
	auto_close int big = openat(p->work_fd, "lower/big", O_RDWR | O_CLOEXEC);
	unsigned long none, one, two;
	void *a, *b;

	NEED(big >= 0 && posix_fallocate(big, 0, BIG) == 0, "a large file");
	none = own_kib();
	a = map_big(p, "view-a");
	one = own_kib();
	b = map_big(p, "view-b");
	two = own_kib();
	platform_note("Pss %lu, %lu, %lu KiB", none, one, two);
	/* other memory of the process may shrink meanwhile */
	CHECK(one >= none + BIG / 1024 * 9 / 10, "a program that is mapped is in memory");
	CHECK(two <= one + BIG / 1024 / 10, "mapped in a second view it is so once");
	(void)munmap(a, BIG);
	(void)munmap(b, BIG);
}

static void body(const struct plat *p)
{
	make_views(p);
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		try_pair(p, &pairs[i]);
	try_pages(p);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
