/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_TREE_PACK_H
#define CAY_ARCHIVE_TREE_PACK_H
/* tree-pack - pack a directory as a tar while other processes may change it
 *
 * No symlink is followed: it becomes an entry.  Skipped and counted: anything but files,
 * directories and symlinks, unreadable files, names that would be too long, and levels below
 * TREE_DEPTH_MAX.  A file that shrinks meanwhile is padded with zeros to the size in its header,
 * and counted; one that grows is cut there.  If there are such counts, the directory is repeated at
 * the end with a comment ("skipped=N changed=N") that other tars ignore; a single file has no place
 * for it, so it fails.  Owners, devices, hard links and extended attributes are not packed: a file
 * with two names is packed twice.
 *
 * Bounded: TREE_DEPTH_MAX open directories, KIB(64), one name. */
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
/* That comment. */
[[nodiscard]] int tree_note_format(const struct tree_counts *counts, char *ret, size_t max);
/* The counts in that comment; false if it has none. */
bool tree_note_parse(const char *note, struct tree_counts *ret);
#endif
