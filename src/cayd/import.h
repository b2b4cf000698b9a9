/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMPORT_H
#define CAY_CAYD_IMPORT_H
/*
 * import - an upload on its way to the keeper
 *
 * The body goes into a file without a name, a piece at a time with the reading stopped
 * meanwhile, then the keeper unpacks it, then the image is noted.  cayd
 * looks at none of the bytes.  A client that leaves while it sends ends the
 * import; one that leaves later does not.
 */
#include "cayd/cayd.h"

void import_start(struct cayd *c, struct request *rq);
#endif
