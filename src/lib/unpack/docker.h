/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_DOCKER_H
#define CAY_UNPACK_DOCKER_H
/* docker - manifest.json of `docker save`: the names of a config and of layers
 *
 * Only these names are used, and only to find them among the files of the archive.  Tags are
 * ignored: the importer names the image.
 *
 * Runs in the confined child only. */
#include "base/arena.h"
#include "unpack/manifest.h"

struct docker_image {
	const char *config;
	const char *layers[MANIFEST_LAYERS_MAX];
	size_t n_layers; /* 1 or more */
};

/* The texts live in the pool. */
[[nodiscard]] int docker_manifest_parse(struct slice text, struct arena *arena,
					struct docker_image *ret, struct cay_err *err);
/* The manifest of an archive, and its config's text; the files they name are hashed. */
[[nodiscard]] int docker_archive_read(struct oci_layout *l, struct manifest *ret,
				      struct buf *ret_config, struct cay_err *err);
#endif
