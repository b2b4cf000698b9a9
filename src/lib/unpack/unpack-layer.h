/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_UNPACK_LAYER_H
#define CAY_UNPACK_UNPACK_LAYER_H
/*
 * layer - one tar of an image, onto the tree of those below it
 *
 * A layer is read once, or twice when there is something below: whiteouts hide
 * what lower layers have and never what the layer itself brings, wherever in the
 * tar they stand, so they are applied in a pass of their own.  Each pass hashes
 * what it reads and believes nothing of the other.
 *
 *	blob -> [gunzip | zstd by libarchive] -> hash, budget -> tar by libarchive
 *
 * Only the compression the media type names, once, and only tar: libarchive can
 * read much more, and none of it is switched on.  What it warns about is
 * refused; a name it had to change is not the image's.
 *
 * Runs in the confined child only.
 */
#include "unpack/manifest.h"
#include "unpack/oci-layout.h"

#define LAYER_ENTRIES_MAX 2000000

/* Over all layers of an image.  Both kinds of bytes start at the same limit: the
 * length of the tars (which a bomb blows up), and of the files (which a sparse
 * one does). */
struct layer_budget {
	uint64_t tar_bytes, file_bytes, entries; /* still allowed */
	uint64_t skipped;                        /* devices, fifos and sockets so far */
};

[[nodiscard]] int layer_apply(int root, const struct oci_layout *layout, const struct descriptor *d,
			      const struct digest *diff_id, bool lowest,
			      struct layer_budget *budget, struct cay_err *err);
#endif
