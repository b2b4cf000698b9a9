/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_IMAGE_IMPORT_H
#define CAY_CAYD_IMAGE_IMAGE_IMPORT_H
/*
 * image-import - import an image, or all images of a tar, from the body of a request
 *
 * The body goes into an unnamed file, piece by piece, with reading paused while a piece is
 * written; then the keeper unpacks the file, then the image is registered.  cayd does not
 * parse the bytes.  Without a name in the request every image of the tar is unpacked and registered
 * under the names that the tar gives it, one after the other.  A client that leaves while sending
 * ends the import; later it does not.
 */
#include "cayd/core/keeper-link.h"
#include "cayd/image/image.h"

/* Of the unpacked files together. */
#define IMPORT_UNPACKED_MAX (UINT64_C(64) << 30)

/* Have the keeper unpack an image of the file (0: the only one; else its number); only while
 * c->images_removing is 0. fn calls image_unpack_finish(). */
void image_unpack_start(struct cayd *c, int fd, uint64_t which, keeper_call_fn *fn, void *arg);
/* Only an image that a create pulled by itself may be removed to make room. */
enum image_origin { IMAGE_IMPORTED, IMAGE_PULLED, IMAGE_PULLED_BY_CREATE };
/* Register the image of a reply to image_add; closes fd. Files that end up without a row are
 * removed. */
void image_unpack_finish(struct cayd *c, const char *name, const struct id *owner,
			 enum image_origin origin, const struct cay_err *outcome, const void *reply,
			 int fd, image_fn *fn, void *arg);
#endif
