/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_MANIFEST_H
#define CAY_UNPACK_MANIFEST_H
/* manifest - the JSON documents of an image: index, manifest, config
 *
 * An image without a manifest gets a generated one, always the same for the same config and layers:
 * its digest names it like any other.
 *
 * Text in, structs out, no I/O.  These objects are open by their standards (labels, annotations,
 * history, a health check ...), so only the members named here are read and nothing else leaves
 * this file.  A document that could be read both as an index and as a manifest is refused.
 *
 * Runs in the confined child only. */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "unpack/oci-layout.h"

#define MANIFEST_LAYERS_MAX 128
#define MANIFEST_CONFIG_MAX MIB(8)

enum media {
	MEDIA_UNKNOWN,
	MEDIA_INDEX,
	MEDIA_MANIFEST,
	MEDIA_CONFIG,
	MEDIA_TAR,
	MEDIA_TAR_GZIP,
	MEDIA_TAR_ZSTD,
	MEDIA_NUM
};

#define MANIFEST_IMAGES_MAX 64 /* in one tar */
#define MANIFEST_NAMES_MAX 16  /* of one image */
#define MANIFEST_NAME_MAX 255

/* One of the images in a tar. */
struct image_choice {
	uint64_t which;  /* wanted: from 1, or 0 for the only one */
	size_t n_images; /* found */
	/* How the tar calls the one that was chosen: NAME:TAG.  Nobody vouches for it. */
	char names[MANIFEST_NAMES_MAX][MANIFEST_NAME_MAX + 1];
	size_t n_names;
};

/* Whether there is such an image among the n that were found; -EINVAL. */
[[nodiscard]] int image_choice_check(struct image_choice *c, size_t n, struct cay_err *err);
/* Take a name; one that is not like NAME:TAG, or one too many, is left out. */
void image_choice_add_name(struct image_choice *c, const char *name);

struct manifest {
	struct descriptor config;
	struct descriptor layers[MANIFEST_LAYERS_MAX];
	size_t n_layers; /* 1 or more */
};

/* The manifest for this machine, or an index that contains it (see ret->media): the only one, or
 * the chosen one of several images. */
[[nodiscard]] int manifest_pick_platform(struct slice index, struct image_choice *choice,
					 struct descriptor *ret, struct cay_err *err);
[[nodiscard]] int manifest_parse(struct slice text, struct manifest *ret, struct cay_err *err);
/* A list of layers from any source: not empty, and not too long. */
struct json_t;
[[nodiscard]] int manifest_check_layers(const struct json_t *list, struct cay_err *err);
/* The text of one, for its digest. */
[[nodiscard]] int manifest_write(const struct manifest *m, struct buf *ret, struct cay_err *err);
/* The config of a tree that has none: ours, of this layer. */
[[nodiscard]] int manifest_write_config(const struct digest *diff_id, struct buf *ret,
					struct cay_err *err);
/* n_layers digests of the uncompressed layers, and struct image_config as JSON. */
[[nodiscard]] int manifest_parse_config(struct slice text, size_t n_layers,
					const struct image_choice *choice,
					struct digest diff_ids[static MANIFEST_LAYERS_MAX],
					struct buf *ret, struct cay_err *err);
#endif
