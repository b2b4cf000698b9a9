/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_IMAGE_H
#define CAY_CAYD_IMAGE_IMAGE_H
/*
 * image - which images there are, what they are called and what they say
 *
 * The files are the keeper's; this table is ours and lies in db/images.json,
 * written whole at each change (image-store.c).  A name belongs to the image imported under it
 * last.
 */
#include "cayd/core/cayd.h"

#define IMAGES_MAX 1000
#define LAYERS_MAX 512   /* beside them: a tenant makes layers, and must not use up images */
#define LAYERS_TENANT 32 /* of one tenant */

struct image {
	struct image_info info; /* texts live in the pool */
	struct image_config config;
	uint8_t digest[32];
	const char *layer;          /* the hash of what went into it; no image of anybody's then */
	struct id tenant;           /* whose layer; nothing: a template's */
	const char *displaced_name; /* the name that one not written down yet took, or NULL */
	bool removing;              /* its files are being removed */
	bool unsaved;               /* it is not written down yet: who used it could lose it */
	struct arena arena;
};

[[nodiscard]] int images_open(struct cayd *c, struct cay_err *err);
/* By name, id or "sha256:..."; NULL. */
const struct image *image_find(const struct images *all, const char *ref);
/* What a create asks for, or the layer that was made over it; NULL. */
const struct image *image_find_for_create(const struct images *all,
					  const struct sandbox_create *spec);
/* Whether there is one for this sandbox, with what is wanted of it. */
[[nodiscard]] int image_check_create(const struct images *all, const struct sandbox_create *spec,
				     struct cay_err *err);
const struct image *image_by_id(const struct images *all, const struct id *id);
const struct image *image_by_digest(const struct images *all, const uint8_t digest[static 32]);
/* How many rows have it. */
size_t image_count_names(const struct images *all, const uint8_t digest[static 32]);
/* In order of import; NULL behind the last. */
const struct image *image_at(const struct images *all, size_t i);
/* Whether there is a row for one of this name that is to come. */
[[nodiscard]] int image_check_room(const struct images *all, const char *name, struct cay_err *err);
/* Told once it is durable.  Without a row it is not, or somebody removed it meanwhile. */
typedef void image_fn(void *arg, const struct image *row, const struct cay_err *err);
typedef void images_fn(void *arg, const struct cay_err *outcome);
/* An image the keeper has unpacked, and its config as JSON; pulled: it may go when nobody
 * uses it. */
void image_register(struct images *all, const char *name, bool pulled,
		    const uint8_t digest[static 32], uint64_t bytes, struct slice config,
		    image_fn *fn, void *arg);
struct image_layer_entry {
	const uint8_t *parent, *digest;
	const char *hash;
	struct id tenant;
	uint64_t bytes; /* of its own */
};
/* A layer over an image: it is what its parent says.  It has no name and is in no list. */
void image_register_layer(struct images *all, const struct image_layer_entry *l, image_fn *fn,
			  void *arg);
/* How many there are that stay, of a tenant or (nothing) in all. */
size_t image_count_layers(const struct images *all, const struct id *tenant);
bool image_is_layer_of(const struct image *row, const struct id *tenant);
/* Who asks by id or digest does not see what is nobody's image. */
bool image_is_hidden(const struct image *row, const struct actor *who);
/* When it was used last, or made. */
uint64_t image_last_used_ns(const struct image *row);
/* By the hash of what went into it, once that is durable; NULL. */
const struct image *image_find_layer(const struct images *all, const char *hash);
/* A sandbox is made from it; written down by images_flush(), now and then. */
void image_mark_used(struct images *all, const uint8_t digest[static 32]);
void images_flush(struct images *all);
void image_set_removing(struct images *all, const struct id *id, bool going);
/* It is not there from now on; fn once that is durable. */
void image_unregister(struct images *all, const struct id *id, images_fn *fn, void *arg);
#endif
