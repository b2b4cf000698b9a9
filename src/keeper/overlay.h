/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_OVERLAY_H
#define CAY_KEEPER_OVERLAY_H
/*
 * overlay - a sandbox's root: an overlay of the image and what the sandbox changed
 *
 * On disk all of it belongs to the foreign id range; detached clones of the trees
 * (an image may be a layer over another) are idmapped to the sandbox's live range and mounted in
 * the worker's namespace under names that tell nothing (tests/platform/foreign-range.c).  What
 * it changes may be in memory instead.
 *
 * A read-only root is the same overlay: its mount is, and those of writable paths, which
 * lie over it and are of the same overlay, are not (docs/adr/0032).
 */
#include "keeper/image-store.h"
#include "keeper/keeper-sandbox.h"

struct overlay {
	int lower[IMAGE_LAYERS_MAX]; /* detached, idmapped; the topmost first */
	unsigned n_lower;
	int upper; /* the same; none when it is in memory */
};

/* What is to be written to, and where that is. */
struct overlay_options {
	struct disk_size memory; /* not on disk but in a file system of this size; or zeros */
	bool read_only;
	uint32_t writable; /* rows of writable.def that are not */
};

#define auto_overlay CAY_CLEANUP(overlay_fini) struct overlay
#define OVERLAY_INIT ((struct overlay){ .upper = -EBADF })

/* In the host's mount namespace. */
[[nodiscard]] int overlay_open(const struct keeper *k, const struct sandbox *sb,
			       const struct overlay_options *how, struct overlay *ret,
			       struct cay_err *err);
/* On the stage: mount it on STAGE_ROOT, and refuse one whose mount targets are
 * not plain directories. */
[[nodiscard]] int overlay_mount(const struct overlay *r, uint32_t live,
				const struct overlay_options *how, struct cay_err *err);
/* The second half alone. */
[[nodiscard]] int overlay_check_mount_targets(int root, struct cay_err *err);
void overlay_fini(struct overlay *r);
#endif
