/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/tree-compare.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"

#define CHUNK KIB(64)
#define DIFFERENT 1

/* A directory that both trees have. */
struct tree_pair {
	int other_fd; /* of the second tree; the walk is of the first */
	unsigned depth;
	size_t n;     /* entries so far */
	char *chunks; /* two */
};

static int tree_compare_at(struct tree_pair *p, int a_fd, int b_fd, const char *name);

static int on_tree_compare_count(void *arg, int, const char *)
{
	++*(size_t *)arg;
	return 0;
}

static int on_tree_compare_entry(void *arg, int dirfd, const char *name)
{
	struct tree_pair *p = arg;

	p->n++;
	return tree_compare_at(p, dirfd, p->other_fd, name);
}

/* Each name of the first is in the second, and the second has no more. */
static int tree_compare_dirs(const struct tree_pair *p, int a, int b)
{
	struct tree_pair in = { b, p->depth + 1, 0, p->chunks };
	size_t n = 0;
	int r;

	if (in.depth > TREE_COMPARE_DEPTH_MAX)
		return DIFFERENT;
	r = path_for_each_entry(a, on_tree_compare_entry, &in);
	if (r == 0)
		r = path_for_each_entry(b, on_tree_compare_count, &n);
	return r ? r : n == in.n ? 0 : DIFFERENT;
}

/* A chunk of it, whole unless the file ends. */
static ssize_t tree_compare_read_chunk(int fd, char *to)
{
	size_t n = 0;

	while (n < CHUNK) {
		ssize_t got = read(fd, to + n, CHUNK - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return (ssize_t)n;
}

static int tree_compare_files(const struct tree_pair *p, int a, int b)
{
	ssize_t n, m;

	do {
		n = tree_compare_read_chunk(a, p->chunks);
		m = n < 0 ? n : tree_compare_read_chunk(b, p->chunks + CHUNK);
		if (m < 0)
			return (int)m;
		if (n != m || memcmp(p->chunks, p->chunks + CHUNK, (size_t)n) != 0)
			return DIFFERENT;
	} while (n);
	return 0;
}

static int tree_compare_links(int a_fd, int b_fd, const char *name)
{
	char a[PATH_MAX], b[PATH_MAX];
	ssize_t n = readlinkat(a_fd, name, a, sizeof(a));
	ssize_t m = n < 0 ? n : readlinkat(b_fd, name, b, sizeof(b));

	if (m < 0)
		return -errno;
	return n == m && memcmp(a, b, (size_t)n) == 0 ? 0 : DIFFERENT;
}

static bool tree_compare_meta(const struct stat *a, const struct stat *b)
{
	if (a->st_mode != b->st_mode || a->st_uid != b->st_uid || a->st_gid != b->st_gid ||
	    a->st_rdev != b->st_rdev)
		return false;
	/* of a directory they depend on the file system */
	return S_ISDIR(a->st_mode) || (a->st_size == b->st_size && a->st_nlink == b->st_nlink);
}

static int tree_compare_at(struct tree_pair *p, int a_fd, int b_fd, const char *name)
{
	auto_close int a = -EBADF, b = -EBADF;
	struct stat sa, sb;
	int flags;

	if (fstatat(a_fd, name, &sa, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(b_fd, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? DIFFERENT : -errno;
	if (!tree_compare_meta(&sa, &sb))
		return DIFFERENT;
	if (S_ISLNK(sa.st_mode))
		return tree_compare_links(a_fd, b_fd, name);
	if (!S_ISREG(sa.st_mode) && !S_ISDIR(sa.st_mode))
		return 0;
	flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (S_ISDIR(sa.st_mode) ? O_DIRECTORY : 0);
	a = path_open(a_fd, name, flags, 0);
	b = a < 0 ? a : path_open(b_fd, name, flags, 0);
	if (b < 0)
		return b;
	return S_ISDIR(sa.st_mode) ? tree_compare_dirs(p, a, b) : tree_compare_files(p, a, b);
}

int tree_compare(int a_fd, int b_fd, const char *name)
{
	auto_free char *chunks = malloc(2 * CHUNK);
	struct tree_pair top = { .other_fd = b_fd, .chunks = chunks };

	return chunks ? tree_compare_at(&top, a_fd, b_fd, name) : -ENOMEM;
}
