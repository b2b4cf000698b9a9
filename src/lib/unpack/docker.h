/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_DOCKER_H
#define CAY_UNPACK_DOCKER_H
/* docker - manifest.json of `docker save`: the names of a config and of layers
 *
 * Only these names are used, and only to find them among the files of the archive.  RepoTags name
 * the image where the importer does not.
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
[[nodiscard]] int docker_manifest_parse(struct slice text, struct image_choice *choice,
					struct arena *arena, struct docker_image *ret,
					struct cay_err *err);
/* The manifest of an archive, and its config's text; the files they name are hashed. */
[[nodiscard]] int docker_archive_read(struct oci_layout *l, struct image_choice *choice,
				      struct manifest *ret, struct buf *ret_config,
				      struct cay_err *err);
/* Archives of newer versions are OCI layouts, too: names of the image with this config, if
 * manifest.json has it. */
void docker_archive_read_names(const struct oci_layout *l, const struct digest *config,
			       struct image_choice *choice);
#endif
