/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_H
#define CAY_CAYD_IMAGE_H
/*
 * image - which images there are, what they are called and what they say
 *
 * The files are the keeper's; this table is ours and lies in db/images.json,
 * written whole at each change.  A name belongs to the image imported under it
 * last.
 */
#include "cayd/cayd.h"

#define IMAGES_MAX 1000

struct image_row {
	struct image info; /* texts live in the pool */
	struct image_config config;
	uint8_t digest[32];
	struct pool pool;
};

[[nodiscard]] int images_open(struct cayd *c, struct cay_err *err);
/* By name, id or "sha256:..."; NULL. */
const struct image_row *image_find(const struct images *all, const char *ref);
const struct image_row *image_by_id(const struct images *all, const struct id *id);
const struct image_row *image_by_digest(const struct images *all, const uint8_t digest[static 32]);
/* How many rows have it. */
size_t image_names(const struct images *all, const uint8_t digest[static 32]);
/* In order of import; NULL behind the last. */
const struct image_row *image_at(const struct images *all, size_t i);
/* An image the keeper has unpacked, and its config as JSON. */
[[nodiscard]] int image_note(struct images *all, const char *name, const uint8_t digest[static 32],
			     uint64_t bytes, struct slice config, const struct image_row **ret,
			     struct cay_err *err);
[[nodiscard]] int image_forget(struct images *all, const struct id *id, struct cay_err *err);
#endif
