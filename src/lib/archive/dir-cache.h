/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_DIR_CACHE_H
#define CAY_ARCHIVE_DIR_CACHE_H
/* dir-cache - the most recently used directories below a root, open
 *
 * The kernel resolves each name below the root and through no symlink; missing directories are
 * created.  A directory created so is ours: no other process had anything in it before.
 *
 * Bounded: DIRS_MAX fds and their names. */
#include "base/buf.h"
#include "base/str.h"

#define DIR_CACHE_MAX 128

struct dir_cache_entry {
	uint32_t hash;
	uint64_t last_used; /* when, 0: never */
	struct buf name;
	int fd;
	bool created;
};

struct dir_cache {
	int root; /* the caller's */
	uint64_t clock;
	unsigned n, max;
	struct dir_cache_entry entries[DIR_CACHE_MAX];
};

void dir_cache_init(struct dir_cache *d, int root);
void dir_cache_fini(struct dir_cache *d);
/* The directory of that name ("" is the root); its fd stays ours. -errno. */
[[nodiscard]] int dir_cache_open(struct dir_cache *d, struct slice name, bool *ours);
#endif
