/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_TREE_UNPACK_H
#define CAY_ARCHIVE_TREE_UNPACK_H
/*
 * tree-unpack - a stranger's tar becomes files below one directory, and nothing elsewhere
 *
 * Every name is resolved by the kernel below the directory and through no symlink, be it
 * the archive's or one that was there.  A file is written beside its place and renamed
 * into it, so nothing is written through a link and an old file stays until the new
 * one is whole; in a directory the archive itself made, a small one is made in its place when all
 * of it is at hand.  Hard links only lead to files this archive made.  Devices, FIFOs and
 * what nobody knows are skipped and counted; setuid, setgid and sticky are dropped;
 * owners are who unpacks.  Directories are always their owner's to write in.  Where a name is taken
 * by something of another kind it is a failure: no directory is ever removed.
 *
 * A failure leaves what was made before it, whole files only; who is killed may leave one
 * more that is not, in a directory of the archive's own.
 *
 * Bounded: by the limits, the disk's quota and the caller's time.  KIB(64), two names, what
 * dir-cache.h keeps open, and 8 bytes for each file (MIB(16) at most: hard links to later ones
 * are refused).
 */
#include "archive/tar.h"
#include "archive/tree-pack.h"

struct tree_limits {
	uint64_t entries; /* of any kind */
	uint64_t bytes;   /* of what they say they have */
	unsigned mask;    /* of permissions: these are taken away */
	bool links_out;   /* symlinks may name what is not in the tree; else they are skipped */
};

/* Called as files are made; may be NULL. */
typedef void tree_progress_fn(void *arg, const struct tree_counts *so_far);

struct tree_unpack {
	int dirfd;
	tar_read_fn *read;
	void *arg;
	struct tree_limits limits;
	tree_progress_fn *progress;
	void *progress_arg;
	bool keep_modes; /* of directories that were there */
};

/* Counts of what was made, also after a failure; there: what the archive says of itself */
[[nodiscard]] int tree_unpack(const struct tree_unpack *how, struct tree_counts *ret,
			      struct tree_counts *there, struct cay_err *err);
#endif
