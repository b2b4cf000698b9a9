/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_PRUNE_H
#define CAY_CAYD_IMAGE_PRUNE_H
/*
 * prune - images that were pulled, and layers, go when nobody has used them for long
 *
 * What an operator imported or pulled stays: somebody wanted it here.  Of the others, none
 * goes that a sandbox, a template or a layer uses.  images.keep says how long is long,
 * images.size how much all of them may take; who was used longest ago goes first.  One
 * goes after the other, and while one goes no sandbox is made from it.
 */
#include "cayd/image/image.h"

/* From the sweeper. */
void prune_run_if_due(struct cayd *c, uint64_t now);
/* image.prune */
void op_image_prune(struct cayd *c, struct request *rq);
/* A template, a sandbox or its name keeps it. */
bool image_is_in_use(struct cayd *c, const struct image *row);
#endif
