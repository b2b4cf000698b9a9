/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_IMAGE_H
#define CAY_CAYD_IMAGE_IMAGE_H
/*
 * image - the table of images: their names, digests and configurations
 *
 * The files belong to the keeper.  This table is in db/images.json, written whole at each
 * change (image-store.c).  A name belongs to the image that was imported under it last.
 */
#include "cayd/core/cayd.h"

#define IMAGES_MAX 1000
#define LAYERS_MAX 512   /* counted apart: tenants create layers and must not use up images */
#define LAYERS_TENANT 32 /* of one tenant */

struct image {
	struct image_info info; /* texts live in the arena */
	struct image_config config;
	uint8_t digest[32];
	const char *layer; /* hash of its inputs if it is a layer, which no list shows; else NULL */
	struct id tenant;  /* owner of the layer; none: a template's */
	const char *displaced_name; /* its name until a new image of that name is saved; or NULL */
	bool removing;
	bool unsaved; /* not durable: a sandbox of it could lose it */
	struct arena arena;
};

[[nodiscard]] int images_open(struct cayd *c, struct cay_err *err);
/* By name, id or "sha256:..."; NULL. */
const struct image *image_find(const struct images *all, const char *ref);
/* The image of a create, or the layer built over it; NULL. */
const struct image *image_find_for_create(const struct images *all,
					  const struct sandbox_create *spec);
/* Whether the image exists and can serve this request. */
[[nodiscard]] int image_check_create(const struct images *all, const struct sandbox_create *spec,
				     struct cay_err *err);
const struct image *image_by_id(const struct images *all, const struct id *id);
const struct image *image_by_digest(const struct images *all, const uint8_t digest[static 32]);
/* The number of rows with this digest. */
size_t image_count_names(const struct images *all, const uint8_t digest[static 32]);
/* In order of import; NULL after the last. */
const struct image *image_at(const struct images *all, size_t i);
/* Whether there is room for one more image of this name. */
[[nodiscard]] int image_check_room(const struct images *all, const char *name, struct cay_err *err);
/* Called once it is durable; row is NULL if it is not, or was removed meanwhile. */
typedef void image_fn(void *arg, const struct image *row, const struct cay_err *err);
typedef void images_fn(void *arg, const struct cay_err *outcome);
/* Register an unpacked image with its config as JSON; pulled: it may be pruned when unused. */
void image_register(struct images *all, const char *name, bool pulled,
		    const uint8_t digest[static 32], uint64_t bytes, struct slice config,
		    image_fn *fn, void *arg);
struct image_layer_entry {
	const uint8_t *parent, *digest;
	const char *hash;
	struct id tenant;
	uint64_t bytes; /* without its parent's */
};
/* Register a layer; it inherits its parent's config. It has no name and is in no list. */
void image_register_layer(struct images *all, const struct image_layer_entry *l, image_fn *fn,
			  void *arg);
/* Layers that are not being removed, of a tenant or (no noun) in all. */
size_t image_count_layers(const struct images *all, const struct id *tenant);
bool image_is_layer_of(const struct image *row, const struct id *tenant);
/* Layers are hidden from everyone but the operator. */
bool image_is_hidden(const struct image *row, const struct actor *who);
/* When it was used last, or created (wall clock). */
uint64_t image_last_used_ns(const struct image *row);
/* By the hash of its inputs, once it is durable; NULL. */
const struct image *image_find_layer(const struct images *all, const char *hash);
/* A sandbox is created from it; saved later by images_flush(). */
void image_mark_used(struct images *all, const uint8_t digest[static 32]);
void images_flush(struct images *all);
void image_set_removing(struct images *all, const struct id *id, bool going);
/* Remove its row; fn once that is durable. */
void image_unregister(struct images *all, const struct id *id, images_fn *fn, void *arg);
#endif
