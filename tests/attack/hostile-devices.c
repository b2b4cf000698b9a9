/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices - nodes made in here, and those that are there
 *
 * Making a node is not the point, opening one is; 0:0 for instance anybody may
 * make, it is overlay's whiteout and opens nothing.  And the nodes of /dev are
 * the host's own inodes when a runtime binds them: who can change their mode or
 * owner changes the host's.  The mode tried is the one they have.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "hostile.h"

#define NUMBERS 64
#define PTS_FIRST 136
#define PTS_LAST 143
#define DEPTH_MAX 8

static const struct {
	unsigned major, minor;
} allowed[] = {
	{ 1, 3 }, /* null */
	{ 1, 5 }, /* zero */
	{ 1, 7 }, /* full */
	{ 1, 8 }, /* random */
	{ 1, 9 }, /* urandom */
	{ 5, 0 }, /* tty */
	{ 5, 2 }, /* ptmx */
};

static bool is_allowed(const struct stat *st)
{
	if (!S_ISCHR(st->st_mode))
		return false;
	if (major(st->st_rdev) >= PTS_FIRST && major(st->st_rdev) <= PTS_LAST)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
		if (st->st_rdev == makedev(allowed[i].major, allowed[i].minor))
			return true;
	}
	return false;
}

static void try_node(const char *dir, mode_t type, unsigned maj, unsigned min, unsigned *made,
		     unsigned *opened)
{
	static const int flags[] = { O_RDONLY, O_WRONLY, O_RDWR };
	char path[PATH_BYTES];
	struct stat st = { .st_mode = type, .st_rdev = makedev(maj, min) };

	if (!path_join(path, dir, "hostile-node") || mknod(path, type | 0666, st.st_rdev) < 0)
		return;
	(*made)++;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		int fd = open(path, flags[i] | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

		if (fd < 0)
			continue;
		(void)close(fd);
		(*opened)++;
		if (!is_allowed(&st)) {
			through(path, "%s %u:%u opens", type == S_IFCHR ? "char" : "block", maj,
				min);
			break;
		}
	}
	(void)unlink(path);
}

static void make_nodes(const char *dir, unsigned numbers)
{
	unsigned made = 0, opened = 0;

	for (unsigned maj = 0; maj < numbers; maj++) {
		for (unsigned min = 0; min < numbers; min++) {
			try_node(dir, S_IFCHR, maj, min, &made, &opened);
			try_node(dir, S_IFBLK, maj, min, &made, &opened);
		}
	}
	held(dir, "%u of %u nodes made, %u opened", made, 2 * numbers * numbers, opened);
}

/* Whether the node can be changed, not only used; pts and ptmx are our own. */
static void try_change(const char *path, const struct stat *st)
{
	if (major(st->st_rdev) >= PTS_FIRST || st->st_rdev == makedev(5, 2))
		return;
	if (chmod(path, st->st_mode & 07777) == 0)
		through(path, "its mode can be changed (owner %u:%u)", st->st_uid, st->st_gid);
	else
		held(path, "chmod %s", strerrorname_np(errno));
}

static void look_at(const char *dir, unsigned depth)
{
	DIR *d = opendir(dir);
	const struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d))) {
		char path[PATH_BYTES];
		struct stat st;
		int fd;

		if (e->d_name[0] == '.' || !path_join(path, dir, e->d_name) || lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			look_at(path, depth + 1);
		if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
			continue;
		try_change(path, &st);
		fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0) {
			held(path, "%s", strerrorname_np(errno));
			continue;
		}
		if (is_allowed(&st))
			held(path, "opens, as it may");
		else
			through(path, "%s %u:%u opens", S_ISCHR(st.st_mode) ? "char" : "block",
				major(st.st_rdev), minor(st.st_rdev));
		(void)close(fd);
	}
	(void)closedir(d);
}

int mode_devices(int argc, char **argv)
{
	long numbers = argc > 1 ? strtol(argv[1], NULL, 10) : NUMBERS;

	if (numbers < 1 || numbers > 4096)
		return 2;
	make_nodes("/tmp", (unsigned)numbers);
	make_nodes(".", (unsigned)numbers);
	look_at("/dev", 0);
	return mode_end("devices");
}
