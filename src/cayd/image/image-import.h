/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_IMAGE_IMPORT_H
#define CAY_CAYD_IMAGE_IMAGE_IMPORT_H
/*
 * import - an upload on its way to the keeper
 *
 * The body goes into a file without a name, a piece at a time with the reading stopped
 * meanwhile, then the keeper unpacks it, then the image is noted.  cayd
 * looks at none of the bytes.  A client that leaves while it sends ends the
 * import; one that leaves later does not.
 */
#include "cayd/core/keeper-link.h"
#include "cayd/image/image.h"

/* Of the unpacked files. */
#define IMPORT_UNPACKED_MAX (UINT64_C(64) << 30)

/* The keeper unpacks the file; only while c->removing is 0, and fn calls image_unpack_finish(). */
void image_unpack_start(struct cayd *c, int fd, keeper_call_fn *fn, void *arg);
/* What the keeper answered to image_add becomes a row; fd is closed.  Files that no row
 * is for in the end are removed. */
void image_unpack_finish(struct cayd *c, const char *name, bool pulled,
			 const struct cay_err *outcome, const void *reply, int fd, image_fn *fn,
			 void *arg);
void op_image_import(struct cayd *c, struct request *rq);
#endif
