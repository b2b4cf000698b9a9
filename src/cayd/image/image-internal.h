/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_IMAGE_INTERNAL_H
#define CAY_CAYD_IMAGE_IMAGE_INTERNAL_H
/* The table of images, for image.c, image-store.c and prune.c. */
#include "cayd/image/image.h"

#define IMAGE_ROWS_MAX (IMAGES_MAX + LAYERS_MAX + SNAPSHOT_LAYERS_MAX)

struct images {
	struct cayd *cayd;
	struct image *rows[IMAGE_ROWS_MAX];
	size_t n;
	bool unsaved; /* times of use are not written yet */
	/* image-store.c's: callers that wait for the present write, and for the next */
	struct image_save_waiter *current_waiters, *next_waiters;
	bool writing;
	uint64_t prune_due_ns; /* prune.c's, boot clock */
	size_t prune_next;     /* the same: where it looks first for what has no owner */
};

/* A row as it is in the file. */
struct image_stored {
	struct image_info info;
	struct image_config config;
	const char *layer;
	struct id tenant;
	const char *snapshot_parent; /* in hexadecimal; NULL: it is not a snapshot's */
};

[[nodiscard]] int images_add(struct images *all, const struct image_stored *s, struct cay_err *err);
/* Give layers of snapshots the config of the image below them, which the file has once. */
[[nodiscard]] int images_inherit_configs(struct images *all, struct cay_err *err);
/* Write the table in a worker; fn (or NULL) is called with the outcome. */
void images_save(struct images *all, images_fn *fn, void *arg);
#endif
