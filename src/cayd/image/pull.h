/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_PULL_H
#define CAY_CAYD_IMAGE_PULL_H
/*
 * pull - an image on its way from a registry
 *
 *	asking      skopeo inspect: is it there, may we, how large is it
 *	pulling     skopeo copy into a directory of tmp/
 *	unpacking   the keeper has the archive, as it has an upload
 *
 * skopeo is a program of its own, with an empty environment, limits, a deadline, and
 * no credentials but those in the authfile of its directory.  It dies with us, and what
 * it left in tmp/ goes when we start.  Who asks for a reference that is on its way
 * waits for that pull; each is told the same.  One that nobody waits for any more is
 * ended, unless image.pull asked for it; so is one when the disk gets short.  What a registry says
 *is put into one of a few kinds of failure and nothing of it is passed on or logged: it might be
 * what we told it.  (ADR 0034)
 */
#include "cayd/core/cayd.h"
#include "cayd/image/image.h"

/* row is NULL when it failed. */
typedef void pull_fn(void *arg, const struct image *row, const struct cay_err *err);

/* Remove what was left behind. */
[[nodiscard]] int pulls_remove_leftovers(struct cayd *c, struct cay_err *err);
/* image.pull */
void op_image_pull(struct cayd *c, struct request *rq);
/* Whether a create that failed with err may succeed once this image is pulled. */
bool pull_can_help_create(const struct cayd *c, const char *image, const struct cay_err *err);
/* Pull the image; then `again` is called with the request, or the request is answered. */
void pull_start_for_create(struct cayd *c, struct request *rq, const char *image,
			   void (*again)(struct cayd *c, struct request *rq));
#endif
