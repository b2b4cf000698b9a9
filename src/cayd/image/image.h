/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_IMAGE_H
#define CAY_CAYD_IMAGE_IMAGE_H
/*
 * image - the table of images: their names, digests and configurations
 *
 * The files belong to the keeper.  This table is in db/images.json, written whole at each
 * change (image-store.c).  A name belongs to the image that was imported under it last.
 *
 * An image without a tenant is the node's, and every tenant may use it.  A tenant's own image is
 * found for this tenant only, by name, id and digest; operators list and delete it.  Names
 * of different owners are independent; a tenant's own image comes before one of the node.
 * (ADR 0083)
 */
#include "cayd/core/cayd.h"

#define IMAGES_MAX 1000
#define LAYERS_MAX 512   /* counted apart: tenants create layers and must not use up images */
#define LAYERS_TENANT 32 /* of one tenant */
#define SNAPSHOT_LAYERS_MAX 1024 /* counted apart as well, with those that sandboxes keep */
#define SNAPSHOT_LAYERS_TENANT 256
#define IMAGES_TENANT 64 /* that one tenant owns */

struct image {
	struct image_info info; /* texts live in the arena */
	struct image_config config;
	uint8_t digest[32];
	const char *layer; /* hash of its inputs if it is a layer, which no list shows; else NULL */
	bool snapshot;     /* the layer is a snapshot's (cayd/snapshot), and goes with it */
	uint8_t parent[32]; /* of that one; else zeros */
	struct id tenant;   /* owner of the layer; none: a template's; of an image: info.tenant */
	const char *displaced_name; /* its name until a new image of that name is saved; or NULL */
	bool removing;
	bool unsaved; /* not durable: a sandbox of it could lose it */
	struct arena arena;
};

[[nodiscard]] int images_open(struct cayd *c, struct cay_err *err);
/* The owner of images that every tenant may use. */
extern const struct id image_owner_node;
/* An image that the tenant may use (of the node alone for image_owner_node), by name, id or
 * "sha256:..."; NULL. */
const struct image *image_find(const struct images *all, const struct id *tenant, const char *ref);
/* The image of a digest ("sha256:..."), of any tenant, or NULL.  Only for a digest that control has
 * chosen. */
const struct image *image_find_chosen(const struct images *all, const char *digest);
/* The image of a tenant's create, or the layer built over it; NULL.  A template's image is the
 * node's. */
const struct image *image_find_for_create(const struct images *all, const struct id *tenant,
					  const struct sandbox_create *spec);
/* Whether the image exists and can serve this request. */
[[nodiscard]] int image_check_create(const struct images *all, const struct id *tenant,
				     const struct sandbox_create *spec, struct cay_err *err);
const struct image *image_by_id(const struct images *all, const struct id *id);
const struct image *image_by_digest(const struct images *all, const uint8_t digest[static 32]);
/* The number of rows with this digest. */
size_t image_count_names(const struct images *all, const uint8_t digest[static 32]);
/* In order of import; NULL after the last. */
const struct image *image_at(const struct images *all, size_t i);
/* Whether there is room for one more image of this owner and name. */
[[nodiscard]] int image_check_room(const struct images *all, const struct id *owner,
				   const char *name, struct cay_err *err);
/* Called once it is durable; row is NULL if it is not, or was removed meanwhile. */
typedef void image_fn(void *arg, const struct image *row, const struct cay_err *err);
typedef void images_fn(void *arg, const struct cay_err *outcome);
/* What an image is registered as; pulled: it may be pruned when unused. */
struct image_entry {
	const char *name;
	struct id owner;
	bool pulled;
};
/* Register an unpacked image with its config as JSON. */
void image_register(struct images *all, const struct image_entry *as,
		    const uint8_t digest[static 32], uint64_t bytes, struct slice config,
		    image_fn *fn, void *arg);
struct image_layer_entry {
	const uint8_t *parent, *digest;
	const char *hash;
	struct id tenant;
	uint64_t bytes; /* without its parent's */
	bool snapshot;
};
/* Register a layer; it inherits its parent's config. It has no name and is in no list. */
void image_register_layer(struct images *all, const struct image_layer_entry *l, image_fn *fn,
			  void *arg);
/* Layers that are not being removed, of a tenant or (no noun) in all. */
size_t image_count_layers(const struct images *all, const struct id *tenant);
bool image_is_layer_of(const struct image *row, const struct id *tenant);
/* Layers are hidden from everyone but the operator, a tenant's images from other tenants. */
bool image_is_hidden(const struct image *row, const struct actor *who);
/* When it was used last, or created (wall clock). */
uint64_t image_last_used_ns(const struct image *row);
/* By the hash of its inputs, once it is durable; NULL. */
const struct image *image_find_layer(const struct images *all, const char *hash);
/* Bytes in all layers of the snapshots of a tenant, NULL: of all of them, also in those that only
 * sandboxes keep. */
/* Whether one more fits, beside so many of the tenant and of all that are being created. */
[[nodiscard]] int image_check_snapshot_layers(const struct images *all, const struct id *tenant,
					      size_t own, size_t more, struct cay_err *err);
uint64_t image_count_snapshot_bytes(const struct images *all, const struct id *tenant);
/* Whether the layer of a snapshot is over it. */
bool image_has_snapshot(const struct images *all, const uint8_t digest[static 32]);
/* A sandbox is created from it; saved later by images_flush(). */
void image_mark_used(struct images *all, const uint8_t digest[static 32]);
void images_flush(struct images *all);
void image_set_removing(struct images *all, const struct id *id, bool going);
/* Remove its row; fn once that is durable. */
void image_unregister(struct images *all, const struct id *id, images_fn *fn, void *arg);
#endif
