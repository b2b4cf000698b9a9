/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_UNPACK_LAYER_H
#define CAY_UNPACK_UNPACK_LAYER_H
/* unpack-layer - apply one tar of an image to the tree of the layers below it
 *
 * A layer is read once, or twice if there are layers below: whiteouts hide files of lower layers
 * and never those of the layer itself, wherever in the tar they are, so they are applied in a pass
 * of their own.  Each pass hashes its input and does not rely on the other.
 *
 *	blob -> [gunzip | zstd by libarchive] -> hash, budget -> tar by libarchive
 *
 * Only the compression of the media type, once, and only tar: the other formats of libarchive are
 * not enabled.  An entry it warns about is refused: a name it had to change is not the image's.
 *
 * Runs in the confined child only. */
#include "unpack/manifest.h"
#include "unpack/oci-layout.h"

#define LAYER_ENTRIES_MAX 2000000

/* Over all layers of an image.  Both kinds of bytes start at the same limit: the length of the tars
 * (which a bomb blows up), and of the files (which a sparse one does). */
struct layer_budget {
	uint64_t tar_bytes, file_bytes, entries; /* still allowed */
	uint64_t skipped;                        /* devices, fifos and sockets so far */
};

[[nodiscard]] int layer_apply(int root, const struct oci_layout *layout, const struct descriptor *d,
			      const struct digest *diff_id, bool lowest,
			      struct layer_budget *budget, struct cay_err *err);
#endif
