/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_LAYER_TAR_H
#define CAY_ARCHIVE_LAYER_TAR_H
/* layer-tar - a writable layer of overlayfs as a layer of an OCI image
 *
 * A deleted name is an empty file with LAYER_WHITEOUT_PREFIX before its name, an opaque directory
 * has one of the name LAYER_OPAQUE_NAME, before the other names in it.  Owners are ids as the
 * source has them.  Files with several names are hard links, while LAYER_LINKS_MAX are enough.
 *
 * Left out and counted as skipped: devices, sockets, and names that begin with the prefix, which
 * would delete another file where the layer is applied.  Extended attributes are not packed.  As by
 * tree-pack.h, a file that shrinks is padded, and the counts, if there are any, are a comment of a
 * last entry for the top. */
#include "archive/layer-walk.h"

#define LAYER_WHITEOUT_PREFIX ".wh."
#define LAYER_OPAQUE_NAME ".wh..wh..opq"
#define LAYER_LINKS_MAX 32768
#define LAYER_LINK_NAMES_MAX MIB(4)

/* source->below is not used.  max: CAY_E_TOO_LARGE at the first file that cannot fit, before it is
 * read. */
[[nodiscard]] int layer_write_tar(const struct layer_source *source, tar_write_fn *write, void *arg,
				  uint64_t max, struct tree_counts *ret, struct cay_err *err);
#endif
