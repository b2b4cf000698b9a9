/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_TREE_UNPACK_H
#define CAY_ARCHIVE_TREE_UNPACK_H
/* tree-unpack - unpack an untrusted tar below one directory, and nowhere else
 *
 * The kernel resolves every name below the directory and through no symlink, neither the archive's
 * nor an existing one.  A file is written beside its place and renamed into it, so nothing is
 * written through a link and an old file stays until the new one is complete; in a directory the
 * archive itself created, a small file is created in place when all its content is at hand.  Hard
 * links only lead to files this archive created.  Devices, FIFOs and unknown types are skipped and
 * counted; setuid, setgid and sticky are dropped; the owner is the unpacking user.  Directories are
 * always writable by their owner.  If a name is taken by another type it is a failure: no directory
 * is ever removed.
 *
 * A failure leaves the entries created before it, whole files only; a killed process may leave one
 * partial file, in a directory of the archive's own.
 *
 * Bounded: by the limits, the disk's quota and the caller's timeout.  KIB(64), two names, the fds
 * of dir-cache.h, and 8 bytes per file (MIB(16) at most: hard links to later files are refused). */
#include "archive/tar.h"
#include "archive/tree-pack.h"

struct tree_limits {
	uint64_t entries; /* of any kind */
	uint64_t bytes;   /* sum of the declared sizes */
	unsigned mask;    /* permission bits to remove */
	bool links_out;   /* symlinks may lead out of the tree; else those are skipped */
};

/* Called as files are created; may be NULL. */
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

/* Counts of created entries, also after a failure; `there`: the counts the archive states */
[[nodiscard]] int tree_unpack(const struct tree_unpack *how, struct tree_counts *ret,
			      struct tree_counts *there, struct cay_err *err);
#endif
