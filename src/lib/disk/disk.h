/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DISK_DISK_H
#define CAY_DISK_DISK_H
/* disk - a directory with a limited size
 *
 *	btrfs    a subvolume of its own, with a limit of its quota group
 *	project  ext4 and XFS: everything in it is of one project, which has a quota
 *	none     a plain directory: no limit, no numbers
 *
 * Which it is, is found once, from the file system.  Quotas are used where they are on and never
 * turned on: that is a change of the operator's file system which older kernels may not mount
 * (docs/adr/0031).
 *
 * A disk is named by its directory and by a number that no other one has, not 0. */
#include "base/err.h"
#include "base/mem.h"
#include "wire/verb.h"

struct disk_backend;

struct disk {
	const struct disk_backend *backend;
	const struct disk_backend *fs; /* of its file system, also when quotas are off */
	enum verb_disk kind;
	const char *unavailable_reason; /* there is none */
	int fd;                         /* of a directory on it, the caller's */
	int groups;                     /* btrfs: the file system's quota groups below /sys */
};

#define DISK_UNKNOWN UINT64_MAX

struct disk_size {
	uint64_t bytes, inodes; /* as a limit 0 is none; as usage DISK_UNKNOWN is not counted */
};

/* On which file system this directory is; fd must stay open. */
void disk_open(int fd, struct disk *ret);
void disk_close(struct disk *d);

/* A new, empty directory of this name. -ENOTSUP for a limit that cannot be enforced. */
[[nodiscard]] int disk_create(const struct disk *d, int dirfd, const char *name, uint32_t number,
			      const struct disk_size *limit);
/* Change the limit; existing files stay.  -ENOTSUP for a directory created without one. */
[[nodiscard]] int disk_set_limit(const struct disk *d, int dirfd, const char *name, uint32_t number,
				 const struct disk_size *limit);
[[nodiscard]] int disk_read_usage(const struct disk *d, int dirfd, const char *name,
				  uint32_t number, struct disk_size *ret);
/* Remove what can be removed at once, and free its space; the rest is left to rmtree_at().
 * Succeeds if there is none. */
void disk_remove(const struct disk *d, int dirfd, const char *name, uint32_t number);
/* A copy under another name, sharing space if the file system can; without a limit.  No
 * process may be writing to the original.  -EMLINK: cp cannot copy these files, -ETIMEDOUT: not in
 * ten minutes.  The remains of a failure are left to
 * disk_remove() and rmtree_at(). */
[[nodiscard]] int disk_copy(const struct disk *d, int from_dir, const char *from, int to_dir,
			    const char *to, uint32_t number);
/* The files of one disk into another that is empty, so that all of them are charged to that one and
 * bound by its limit: nothing is shared that a quota counts for the first only.  Fails as
 * disk_copy() does. */
[[nodiscard]] int disk_fill(const struct disk *d, int from_dir, const char *from, int to_dir,
			    const char *to);
/* Lay the upper directory of an overlay over another one, as overlayfs shows the two over a third:
 * what `from` deletes or replaces is removed from `to`, then all that it has is copied.  No process
 * may be changing either.  -EMLINK also for directories below DISK_MERGE_DEPTH that both have. */
#define DISK_MERGE_DEPTH 256
[[nodiscard]] int disk_merge(int from_dir, const char *from, int to_dir, const char *to);
/* The bytes that the files in it occupy, each file once. */
[[nodiscard]] int disk_count_bytes(int dirfd, const char *name, uint64_t *ret);
#endif
