/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_OVERLAY_H
#define CAY_KEEPER_OVERLAY_H
/*
 * overlay - a sandbox's root: an overlay of the image and what the sandbox changed
 *
 * On disk both belong to the foreign id range; detached clones of the two trees
 * are idmapped to the sandbox's live range and mounted in the worker's namespace
 * under names that tell nothing (tests/platform/foreign-range.c).
 */
#include "keeper/box.h"

struct overlay {
	int lower, upper; /* detached, idmapped */
};

#define auto_overlay CAY_CLEANUP(overlay_fini) struct overlay
#define OVERLAY_INIT ((struct overlay){ -EBADF, -EBADF })

/* In the host's mount namespace. */
[[nodiscard]] int overlay_open(const struct keeper *k, const struct box *b, struct overlay *ret,
			       struct cay_err *err);
/* On the stage: mount it on STAGE_ROOT, and refuse one whose mount targets are
 * not plain directories. */
[[nodiscard]] int overlay_mount(const struct overlay *r, uint32_t live, struct cay_err *err);
/* The second half alone. */
[[nodiscard]] int overlay_check(int root, struct cay_err *err);
void overlay_fini(struct overlay *r);
#endif
