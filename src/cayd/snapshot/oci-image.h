/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SNAPSHOT_OCI_IMAGE_H
#define CAY_CAYD_SNAPSHOT_OCI_IMAGE_H
/*
 * oci-image - a whole image around layers: an OCI image layout in a tar
 *
 *	begin_layer -> the keeper writes a layer at the file's position -> hash, ... -> end_layer,
 *... -> finish
 *
 * What a layer is called is known when it is written, so the place of its header is left free and
 * filled afterwards.  Layers go from the lowest to the highest.
 */
#include "base/err.h"
#include "file/hash.h"
#include "ops/types.h"

#define OCI_IMAGE_LAYERS_MAX 16
#define OCI_IMAGE_HASH_TURN MIB(16) /* then others have a turn, and a client may have left */
#define OCI_IMAGE_TEXTS_MAX MIB(1)  /* of the config, the manifest and the other small files */

struct oci_image_layer {
	uint8_t digest[32];
	uint64_t size;
};

struct oci_image {
	struct oci_image_layer layers[OCI_IMAGE_LAYERS_MAX];
	unsigned n;
	uint64_t at; /* where the archive ends until now */
	struct file_hash hash;
	uint64_t hashed; /* bytes of the layer that is being hashed */
};

/* Set the position of the file to where the next layer is to be written. */
[[nodiscard]] int oci_image_begin_layer(const struct oci_image *o, int fd, struct cay_err *err);
/* It is written: read the next OCI_IMAGE_HASH_TURN bytes of it.  1: there are more. */
[[nodiscard]] int oci_image_hash(struct oci_image *o, int fd, struct cay_err *err);
/* All of it is hashed: put its header before it. */
[[nodiscard]] int oci_image_end_layer(struct oci_image *o, int fd, struct cay_err *err);
/* Append the rest of the archive to ret: what stands at o->at. */
[[nodiscard]] int oci_image_finish(const struct oci_image *o, const struct image_config *config,
				   uint64_t created_wall_ns, struct buf *ret, struct cay_err *err);
/* Where a layer begins, after the end of the archive so far. */
uint64_t oci_image_layer_at(const struct oci_image *o);
#endif
