/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_PRUNE_H
#define CAY_CAYD_IMAGE_PRUNE_H
/*
 * prune - remove pulled images and layers that are not used any more
 *
 * Images that an operator imported or pulled stay, and so do images that a sandbox, a template
 * or a layer uses.  Images of a deleted tenant go at once.  images.keep is the age, images.size the
 * total size that triggers removal; the least recently used goes first.  Images are removed one at
 * a time, and no sandbox can be created from an image that is being removed.
 */
#include "cayd/core/keeper-link.h"
#include "cayd/image/image.h"

void prune_run_if_due(struct cayd *c, uint64_t now);
/* Have the next sweep run it: images may have lost their tenant. */
void prune_run_soon(struct cayd *c);
/* Mark an image as being removed, and have the keeper remove its files; fn is called at once if
 * another name has the same files. */
void image_remove_files(struct cayd *c, const struct image *row, keeper_call_fn *fn, void *arg);
/* Whether a template, a sandbox or another name keeps it. */
bool image_is_in_use(struct cayd *c, const struct image *row);
#endif
