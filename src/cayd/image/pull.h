/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_PULL_H
#define CAY_CAYD_IMAGE_PULL_H
/*
 * pull - an image on its way from a registry
 *
 *	asking      cay-pull asks the registry: does it exist, may we, how large is it
 *	pulling     cay-pull copies it into an archive, and sends that
 *	unpacking   the keeper unpacks the archive, as for an import
 *
 * cay-pull gets the credentials of that one registry.  It ends the pull when the connection is
 * closed, so also when cayd dies; the archive has no name in the file system.  Requests for a
 *reference that is being pulled join that pull and get the same reply. A pull that no client waits
 *for is stopped, unless image.pull started it; so is any pull when the disk gets short.  Errors of
 *a registry are mapped to a few kinds; their text is neither passed on nor logged, because it may
 *contain our credentials.  (ADR 0034, 0066)
 */
#include "cayd/core/cayd.h"
#include "cayd/image/image.h"

/* Whether a create that failed with err may succeed once this image is pulled. */
bool pull_can_help_create(const struct cayd *c, const struct id *tenant,
			  const struct sandbox_create *spec, const struct cay_err *err);
/* Pull the image; then `again` is called with the request, or the request is answered. */
void pull_start_for_create(struct cayd *c, struct request *rq, const struct sandbox_create *spec,
			   void (*again)(struct cayd *c, struct request *rq));
#endif
