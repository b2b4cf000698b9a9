/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_TREE_DIFF_H
#define CAY_ARCHIVE_TREE_DIFF_H
/* tree-diff - what differs between the files of a sandbox and those of a snapshot
 *
 * The sandbox shows its writable layer over the files below it; the snapshot is a tree of its own.
 * Each name that one of the two shows is an entry as of layer_walk(), with the snapshot as what is
 * below: a name that only the snapshot has is LAYER_HIDDEN.  Names that are the same in both are no
 * entries: the same inode of a layer that both have; or type, mode, owner, size, time and bytes.
 *
 * Reads all directories of both, and the bytes of files that look the same.  Bounded as
 * layer_walk(), with three fds a level and a block of names. */
#include "archive/layer-walk.h"

/* source->below is what the layer is over; since: the snapshot. */
[[nodiscard]] int tree_diff(const struct layer_source *source, int since, layer_fn *fn, void *arg,
			    uint64_t *skipped, struct cay_err *err);
#endif
