/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/dir-cache.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "archive/tar.h"
#include "base/mem.h"
#include "base/path.h"

void dir_cache_init(struct dir_cache *d, int root)
{
	struct rlimit fds = { .rlim_cur = 0 };

	/* a process with few fds needs them for other things */
	(void)getrlimit(RLIMIT_NOFILE, &fds);
	d->root = root;
	d->clock = 0;
	d->n = 0;
	d->max =
		fds.rlim_cur / 4 < DIR_CACHE_MAX ? (unsigned)(fds.rlim_cur / 4) + 1 : DIR_CACHE_MAX;
}

static void dir_cache_entry_close(struct dir_cache_entry *one)
{
	cay_closep(&one->fd);
	buf_fini(&one->name);
}

void dir_cache_fini(struct dir_cache *d)
{
	while (d->n)
		dir_cache_entry_close(&d->entries[--d->n]);
}

/* Names chosen to collide cost one comparison each, at most DIRS_MAX. */
static uint32_t dir_cache_hash_name(struct slice s)
{
	uint32_t h = 2166136261U;

	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (uint8_t)s.p[i]) * 16777619U;
	return h;
}

static struct dir_cache_entry *dir_cache_find(struct dir_cache *d, struct slice name)
{
	uint32_t hash = dir_cache_hash_name(name);

	for (unsigned i = 0; i < d->n; i++) {
		struct dir_cache_entry *one = &d->entries[i];

		if (one->hash == hash &&
		    slice_eq(name, (struct slice){ one->name.data, one->name.len }))
			return one;
	}
	return NULL;
}

static struct dir_cache_entry *dir_cache_find_oldest(struct dir_cache *d)
{
	struct dir_cache_entry *old = &d->entries[0];

	for (unsigned i = 1; i < d->n; i++)
		if (d->entries[i].last_used < old->last_used)
			old = &d->entries[i];
	return old;
}

static int dir_cache_add(struct dir_cache *d, struct slice name, int fd, bool ours)
{
	struct dir_cache_entry one = { .hash = dir_cache_hash_name(name),
				       .last_used = ++d->clock,
				       .name = BUF_INIT(TAR_NAME_MAX),
				       .fd = fd,
				       .created = ours };
	struct dir_cache_entry *at = &d->entries[d->n];

	if (buf_append(&one.name, name.p, name.n) < 0) {
		dir_cache_entry_close(&one);
		return -ENOMEM;
	}
	if (d->n < d->max) {
		d->n++;
	} else {
		at = dir_cache_find_oldest(d);
		dir_cache_entry_close(at);
	}
	*at = one;
	return fd;
}

static int dir_cache_open_child(int dirfd, const char *name, bool *made)
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
static int dir_cache_open_path(int root, struct slice name, bool *made)
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
			next = dir_cache_open_child(at, part, made);
		}
		if (at != root)
			(void)close(at);
		if (next < 0)
			return next;
		at = next;
	}
	return at;
}

int dir_cache_open(struct dir_cache *d, struct slice name, bool *ours)
{
	struct dir_cache_entry *one;
	int fd;

	*ours = false;
	if (!name.n)
		return d->root;
	one = dir_cache_find(d, name);
	if (one) {
		one->last_used = ++d->clock;
		*ours = one->created;
		return one->fd;
	}
	fd = dir_cache_open_path(d->root, name, ours);
	return fd < 0 ? fd : dir_cache_add(d, name, fd, *ours);
}
