/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CREATE_ADMIT_H
#define CAY_CAYD_CREATE_ADMIT_H
/*
 * admit - whether there is room and reason for one more sandbox
 *
 * Quotas count places: who is ending has given its place up.  Nobody who runs is ended to
 * make room, unless the create says on_full evict_idle: then the tenant's own that was left
 * alone longest goes, and never one that somebody is inside of.
 */
#include "cayd/sandbox/sandbox.h"

/* Nothing is ended yet: that there is somebody who could be is enough. */
[[nodiscard]] int admit_check(struct cayd *c, const struct id *tenant,
			      const struct sandbox_create *spec, struct cay_err *err);
/* For one that is nobody's: whether the node has room. */
[[nodiscard]] int admit_check_node(struct cayd *c, struct cay_err *err);
/* For what only needs a place on the disk. */
[[nodiscard]] int admit_check_disk(struct cayd *c, struct cay_err *err);
/* Its turn has come. */
[[nodiscard]] int admit_check_and_evict(struct cayd *c, const struct id *tenant,
					const struct sandbox_create *spec, struct cay_err *err);
#endif
