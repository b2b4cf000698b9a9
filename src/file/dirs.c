/* SPDX-License-Identifier: Apache-2.0 */
#include "file/dirs.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/path.h"
#include "file/tar.h"

void dirs_init(struct dirs *d, int root)
{
	struct rlimit fds = { .rlim_cur = 0 };

	/* who has few fds needs them for more than this */
	(void)getrlimit(RLIMIT_NOFILE, &fds);
	d->root = root;
	d->clock = 0;
	d->n = 0;
	d->max = fds.rlim_cur / 4 < DIRS_MAX ? (unsigned)(fds.rlim_cur / 4) + 1 : DIRS_MAX;
}

static void drop(struct dirs_one *one)
{
	cay_closep(&one->fd);
	buf_fini(&one->name);
}

void dirs_fini(struct dirs *d)
{
	while (d->n)
		drop(&d->all[--d->n]);
}

/* Names that are made to collide cost a comparison each, DIRS_MAX of them at the most. */
static uint32_t hash_of(struct slice s)
{
	uint32_t h = 2166136261U;

	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (uint8_t)s.p[i]) * 16777619U;
	return h;
}

static struct dirs_one *find(struct dirs *d, struct slice name)
{
	uint32_t hash = hash_of(name);

	for (unsigned i = 0; i < d->n; i++) {
		struct dirs_one *one = &d->all[i];

		if (one->hash == hash &&
		    slice_eq(name, (struct slice){ one->name.data, one->name.len }))
			return one;
	}
	return NULL;
}

static struct dirs_one *oldest(struct dirs *d)
{
	struct dirs_one *old = &d->all[0];

	for (unsigned i = 1; i < d->n; i++)
		if (d->all[i].used < old->used)
			old = &d->all[i];
	return old;
}

static int keep(struct dirs *d, struct slice name, int fd, bool ours)
{
	struct dirs_one one = { .hash = hash_of(name),
				.used = ++d->clock,
				.name = BUF_INIT(TAR_NAME_MAX),
				.fd = fd,
				.ours = ours };
	struct dirs_one *at = &d->all[d->n];

	if (buf_add(&one.name, name.p, name.n) < 0) {
		drop(&one);
		return -ENOMEM;
	}
	if (d->n < d->max) {
		d->n++;
	} else {
		at = oldest(d);
		drop(at);
	}
	*at = one;
	return fd;
}

/* Open a directory of a directory, made when it is not there. */
static int step_into(int dirfd, const char *name, bool *made)
{
	int fd = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);

	*made = false;
	if (fd != -ENOENT)
		return fd;
	*made = mkdirat(dirfd, name, 0777) == 0;
	if (!*made && errno != EEXIST)
		return -errno;
	return path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
}

/* All of a name, component by component where it is not there yet. */
static int walk_into(int root, struct slice name, bool *made)
{
	char part[NAME_MAX + 1];
	int at = root;

	while (name.p) {
		struct slice s = slice_cut(&name, '/');
		int next;

		if (s.n > NAME_MAX) {
			next = -ENAMETOOLONG;
		} else {
			memcpy(part, s.p, s.n);
			part[s.n] = 0;
			next = step_into(at, part, made);
		}
		if (at != root)
			(void)close(at);
		if (next < 0)
			return next;
		at = next;
	}
	return at;
}

int dirs_open(struct dirs *d, struct slice name, bool *ours)
{
	struct dirs_one *one;
	int fd;

	*ours = false;
	if (!name.n)
		return d->root;
	one = find(d, name);
	if (one) {
		one->used = ++d->clock;
		*ours = one->ours;
		return one->fd;
	}
	fd = walk_into(d->root, name, ours);
	return fd < 0 ? fd : keep(d, name, fd, *ours);
}
