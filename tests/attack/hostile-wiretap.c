/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wiretap - what another does with files that both can see
 *
 * An inode that two sandboxes share shows one the watches and locks of the other.  `listen` watches
 * every path of Cay's and of the image; `work` opens, reads and locks each of them, in another
 * sandbox; `locks` looks for those locks, and for a locked range of that number in the kernel's
 * list of all locks.  In the same sandbox all of it must be seen but that list.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile.h"

#define PATHS_MAX 600
#define DEPTH_MAX 8
#define RANGE_AT 70707070707

static char paths[PATHS_MAX][256];
static size_t n_paths;

/* Every file below a directory but processes and terminals, which belong to a sandbox's own mounts.
 */
static void collect(const char *path, int depth)
{
	struct stat st;
	DIR *dir;
	const struct dirent *e;
	pid_t pid;

	if (n_paths >= PATHS_MAX || lstat(path, &st) < 0 || S_ISLNK(st.st_mode) ||
	    !fill_n(paths[n_paths], sizeof(paths[0]), "%s", path))
		return;
	n_paths++;
	if (!S_ISDIR(st.st_mode) || depth >= DEPTH_MAX)
		return;
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		char below[PATH_BYTES];

		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    !name_is_pid(e->d_name, &pid) && strcmp(e->d_name, "pts") != 0 &&
		    path_join(below, path, e->d_name))
			collect(below, strcmp(path, "/proc") == 0 ? DEPTH_MAX : depth + 1);
	}
	if (dir)
		(void)closedir(dir);
}

static void collect_all(void)
{
	static const char *const tops[] = { "/dev", "/sys", "/proc",    "/etc",
					    "/bin", "/lib", "/hostile", "/big" };

	for (size_t i = 0; i < ARRAY_SIZE(tops); i++)
		collect(tops[i], 0);
	fact("%zu paths", n_paths);
}

static void touch(const char *path, bool keep)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = RANGE_AT };
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char byte;

	if (fd < 0)
		return;
	(void)!read(fd, &byte, strcmp(path, "/proc/kmsg") == 0 ? 0 : 1);
	if (keep) {
		(void)flock(fd, LOCK_EX | LOCK_NB);
		(void)fcntl(fd, F_OFD_SETLK, &lock);
	} else {
		(void)close(fd);
	}
}

/* What it touched before it says so is seen by then; the locks stay until it is killed. */
static int wiretap_work(void)
{
	for (int i = 0; i < 3; i++)
		for (size_t k = 0; k < n_paths; k++)
			touch(paths[k], i == 2);
	printf("serving\n");
	(void)pause();
	return 0;
}

/* Locks of open files have no process there that a pid namespace could hide them by. */
static bool locks_list_has(unsigned long long start)
{
	FILE *f = fopen("/proc/locks", "re");
	char line[256], number[32];
	bool found = false;

	(void)fill_n(number, sizeof(number), " %llu ", start);
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, number);
	if (f)
		(void)fclose(f);
	return found;
}

static int wiretap_locks(void)
{
	unsigned seen = 0;

	if (locks_list_has(RANGE_AT))
		through("/proc/locks", "record lock of another (%u)", ++seen);
	for (size_t i = 0; i < n_paths; i++) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
		int fd = open(paths[i], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

		if (fd < 0)
			continue;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
			through(paths[i], "flock of another (%u)", ++seen);
		if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
			through(paths[i], "record lock of another (%u)", ++seen);
		(void)close(fd);
	}
	held("other paths", "%zu, locks seen: %u", n_paths, seen);
	return mode_end("wiretap locks");
}

static volatile sig_atomic_t asked_to_end;

static void on_wiretap_end(int sig)
{
	(void)sig;
	asked_to_end = 1;
}

/* Until SIGTERM, and all that happened before it.  One line per path heard of.  The input of an
 * exec is watched as well if it is a device: the end of a pipe at PID 1 may be closed at any time,
 * and belongs to no other sandbox. */
static int wiretap_listen(void)
{
	static int heard[PATHS_MAX];
	static const char *const fds[] = { "/proc/self/fd/0" };
	int in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), watch[PATHS_MAX];
	alignas(struct inotify_event) char buf[65536];
	size_t n = n_paths;
	struct stat input;
	bool device = fstat(STDIN_FILENO, &input) == 0 && S_ISCHR(input.st_mode);

	for (size_t i = 0; i < n_paths; i++)
		watch[i] = inotify_add_watch(in, paths[i], IN_ALL_EVENTS);
	for (size_t i = 0; device && i < ARRAY_SIZE(fds) && n < PATHS_MAX; i++) {
		(void)fill_n(paths[n], sizeof(paths[0]), "%s", fds[i]);
		watch[n++] = inotify_add_watch(in, fds[i], IN_ALL_EVENTS);
	}
	(void)signal(SIGTERM, on_wiretap_end);
	printf("watching\n");
	for (bool more = true; more || !asked_to_end;) {
		struct pollfd p = { .fd = in, .events = POLLIN };
		ssize_t got = poll(&p, 1, 200) > 0 ? read(in, buf, sizeof(buf)) : 0;

		more = got > 0 || !asked_to_end;

		for (ssize_t at = 0; at < got;) {
			const struct inotify_event *e = (const void *)(buf + at);

			for (size_t i = 0; i < n; i++)
				if (watch[i] == e->wd && !heard[i]++)
					through(paths[i], "event %x", e->mask);
			at += (ssize_t)(sizeof(*e) + e->len);
		}
	}
	held("other paths", "%zu", n);
	return mode_end("wiretap listen");
}

/* Pages of a file in memory, as far as the kernel tells. */
static int wiretap_mincore(const char *path)
{
	static unsigned char in[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	unsigned n = 0;
	void *at;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > (off_t)sizeof(in) * 4096)
		return 2;
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || mincore(at, (size_t)st.st_size, in) < 0)
		return 2;
	for (off_t i = 0; i < st.st_size / 4096; i++)
		n += in[i] & 1;
	printf("resident %u\n", n);
	return 0;
}

int mode_wiretap(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "mincore") == 0)
		return wiretap_mincore(argv[2]);
	collect_all();
	if (argc == 2 && strcmp(argv[1], "work") == 0)
		return wiretap_work();
	if (argc == 2 && strcmp(argv[1], "locks") == 0)
		return wiretap_locks();
	if (argc == 2 && strcmp(argv[1], "listen") == 0)
		return wiretap_listen();
	return 2;
}
