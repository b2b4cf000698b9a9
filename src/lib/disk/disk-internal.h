/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DISK_DISK_INTERNAL_H
#define CAY_DISK_DISK_INTERNAL_H
#include "disk/disk.h"

/* fd is the disk's own directory.  A limit has only the values the back end supports. */
struct disk_backend {
	long magic; /* of the file system, from statfs() */
	enum verb_disk kind;
	bool bytes, inodes;
	/* NULL when it can be used, else why not. */
	const char *(*probe)(struct disk *d);
	int (*create)(int dirfd, const char *name, uint32_t number);
	int (*set_limit)(int fd, uint32_t number, const struct disk_size *limit);
	int (*read_usage)(const struct disk *d, int fd, uint32_t number, struct disk_size *ret);
	void (*remove)(const struct disk *d, int dirfd, const char *name, uint32_t number);
	/* NULL: file by file. */
	int (*copy)(int from, int to_dir, const char *to);
};

/* Everything in `from` to `to`, which may have directories of the same names; cp inherits lock, a
 * directory of the source. */
[[nodiscard]] int disk_copy_files(int lock, int from, int to, bool share);

extern const struct disk_backend disk_btrfs, disk_ext4, disk_xfs;
#endif
