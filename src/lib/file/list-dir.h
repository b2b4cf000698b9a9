/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_LIST_DIR_H
#define CAY_FILE_LIST_DIR_H
/* list-dir - entries of a directory, and below it to a depth
 *
 * A directory is followed by its entries.  Names of one directory are sorted by bytes, unless there
 * are more than the limit: then they are the first the kernel returned.  Links are not followed,
 * except one that names the directory itself.  Bounded: entries, bytes of their names,
 * LIST_DEPTH_MAX. */
#include <stdint.h>

#include "file/path-at.h"

#define LIST_DEPTH_MAX 64
#define LIST_BYTES_MAX MIB(4)

struct dir_list_entry {
	const char *path; /* below the directory */
	struct stat st;
	const char *target; /* of a symbolic link, or NULL */
};

struct dir_list {
	struct dir_list_entry *v;
	size_t n, max, bytes;
	bool truncated;
	struct arena *arena;
};

/* Entries and their texts are the pool's. */
[[nodiscard]] int dir_list_read(const char *path, unsigned depth, size_t max, struct arena *arena,
				struct dir_list *ret, struct cay_err *err);
#endif
