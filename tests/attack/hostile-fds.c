/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fds - descriptors that should not be here, and where they lead
 *
 * CVE-2024-21626's class: a directory of the host left open in a runtime, and a
 * working directory of /proc/self/fd/N.  A directory fd also leads by ".." to
 * the top of its mount, which must be our own root, or a mount of its own with
 * nothing above (and that only for cgroupfs: PID 1's).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "hostile.h"

#define CLIMB 64

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether a directory's ".." end anywhere but at our root. */
static void climb(const char *name, int fd)
{
	int at = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat root, top;
	struct statfs fs;

	if (at < 0)
		return; /* not a directory, or not for us */
	if (stat("/", &root) < 0)
		return through(name, "cannot compare");
	for (unsigned i = 0; i < CLIMB; i++) {
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (up < 0)
			break;
		(void)close(at);
		at = up;
	}
	if (fstat(at, &top) < 0)
		through(name, "cannot compare");
	else if (same(&top, &root))
		held(name, "leads to our own root");
	else if (fstatfs(at, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
		held(name, "a cgroup with nothing above");
	else
		through(name, "leads to a root that is not ours (%lx:%lu)",
			(unsigned long)top.st_dev, (unsigned long)top.st_ino);
	(void)close(at);
}

/* Is it the directory we list it through, or a standard stream? */
static bool is_expected(pid_t pid, int number, int listing)
{
	return number <= STDERR_FILENO || (pid == getpid() && number == listing);
}

static void look_at(pid_t pid)
{
	char dir[64], path[PATH_BYTES], target[PATH_BYTES], name[96];
	const struct dirent *e;
	pid_t number;
	DIR *d;

	if (!fill(dir, "/proc/%d/fd", pid))
		return;
	d = opendir(dir);
	if (!d) {
		if (pid == 1)
			held("fds of PID 1", "%s", strerrorname_np(errno));
		return;
	}
	while ((e = readdir(d))) {
		ssize_t n;
		int fd;

		if (!name_is_pid(e->d_name, &number) || is_expected(pid, number, dirfd(d)) ||
		    !path_join(path, dir, e->d_name))
			continue;
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		fact("pid %d fd %d: %s", pid, number, target);
		if (!fill(name, "pid %d fd %d", pid, number))
			continue;
		if (pid == getpid())
			through(name, "inherited: %s", target);
		fd = open(path, O_PATH | O_CLOEXEC);
		if (fd >= 0) {
			climb(name, fd);
			(void)close(fd);
		}
	}
	(void)closedir(d);
}

static void look_through(pid_t pid, const char *link)
{
	char path[64], name[64];
	int fd;

	if (!fill(path, "/proc/%d/%s", pid, link) || !fill(name, "pid %d %s", pid, link))
		return;
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return held(name, "%s", strerrorname_np(errno));
	climb(name, fd);
	(void)close(fd);
}

int mode_fds(int, char **)
{
	static const char *const whose[] = { "/proc/self/fd", "/proc/1/fd" };
	pid_t pids[PIDS_MAX];
	size_t n = pids_visible(pids, ARRAY_SIZE(pids));

	for (int fd = FIRST_FD; fd <= LAST_FD; fd++) {
		for (size_t i = 0; i < ARRAY_SIZE(whose); i++) {
			char path[64];
			int r;

			if (!fill(path, "%s/%d", whose[i], fd))
				continue;
			r = chdir(path) < 0 ? errno : 0;
			if (r != 0)
				held(path, "%s", result_text(r));
			else
				climb(path, AT_FDCWD);
			if (chdir("/") < 0)
				return 2;
		}
	}
	for (size_t i = 0; i < n; i++) {
		look_at(pids[i]);
		look_through(pids[i], "cwd");
		look_through(pids[i], "root");
	}
	return mode_end("fds");
}
