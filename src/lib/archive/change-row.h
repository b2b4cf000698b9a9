/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_CHANGE_ROW_H
#define CAY_ARCHIVE_CHANGE_ROW_H
/* change-row - what a writable layer changes in the files below, a row for each name
 *
 *	row    kind, 0, length of the name (16 bits), st_mode (32), size (64); the name
 *	last   CHANGE_END, whether rows were left out, 0, 0, names that were skipped
 *
 * in native byte order, between processes of one build.  The reader trusts none of it: a row has a
 * kind and a type that exist, and a clean relative name.
 *
 * A directory has a row of its own only if it is new, or has another mode or owner than the one
 * below.  A file, link or other that is in the layer has been written, even if it looks the same.
 * Names in a deleted directory have no rows. */
#include "archive/layer-walk.h"
#include "base/str.h"

#define CHANGE_HEAD 16
#define CHANGE_ROW_MAX (CHANGE_HEAD + TAR_NAME_MAX)

enum change_kind {
	CHANGE_ADDED,
	CHANGE_MODIFIED,
	CHANGE_DELETED,
	CHANGE_NUM_KINDS,
	CHANGE_END = 255
};

struct change_row {
	enum change_kind kind;
	uint32_t mode;     /* st_mode; of a deleted file, as it was */
	uint64_t size;     /* of files, or 0 */
	struct slice name; /* "" is the top; any bytes but 0 */
	bool more;         /* of CHANGE_END: rows were left out */
	uint64_t skipped;  /* of CHANGE_END */
};

/* The first row of these bytes, which it points to.  How long it is; 0: it is not complete;
 * -EINVAL: it is no row. */
[[nodiscard]] ssize_t change_row_parse(const void *p, size_t n, struct change_row *ret);

/* Write rows for source, which knows the files below, until at most max bytes are written.
 * since: compared with the files of this snapshot (tree-diff.h), or < 0. */
[[nodiscard]] int change_rows_write(const struct layer_source *source, int since,
				    tar_write_fn *write, void *arg, uint64_t max,
				    struct cay_err *err);
#endif
