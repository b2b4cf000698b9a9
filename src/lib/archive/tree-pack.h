/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_TREE_PACK_H
#define CAY_ARCHIVE_TREE_PACK_H
/*
 * tree-pack - a directory becomes a tar while others may be at work in it
 *
 * No symlink is followed: it is an entry.  What is neither file, directory nor symlink
 * is skipped and counted, and so is what may not be read, a name that would be too long and
 * what is deeper than TREE_DEPTH_MAX.  A file that shrinks meanwhile is filled up with
 * zeros to the size its header told, and counted; one that grows is cut at it.  Where
 * there is something to tell, the directory comes once more in the end, with a comment
 * ("skipped=N changed=N") that other tars pass over; of a single file there is no such
 * place, so it fails.  Owners, devices, hard links and extended attributes are not told: a
 * file with two names comes twice.
 *
 * Bounded: TREE_DEPTH_MAX open directories, KIB(64), one name.
 */
#include "archive/tar.h"

#define TREE_DEPTH_MAX 200

struct tree_counts {
	uint64_t files, directories, links;
	uint64_t bytes; /* of files */
	uint64_t skipped, changed;
};

/* A directory's content, or one file (then the entry has the last component as its name). */
[[nodiscard]] int tree_pack(int fd, const char *name, tar_write_fn *write, void *arg,
			    struct tree_counts *ret, struct cay_err *err);
/* What that comment said; false when it did not. */
bool tree_note_parse(const char *note, struct tree_counts *ret);
#endif
