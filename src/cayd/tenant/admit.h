/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_ADMIT_H
#define CAY_CAYD_TENANT_ADMIT_H
/*
 * admit - whether a tenant may have one more sandbox here
 *
 * Quotas count sandboxes that are not ending.  No running sandbox is ended to make room,
 * unless the create says on_full evict_idle: then the tenant's sandbox that has been idle
 * longest ends, and never one with a request inside.  Where the number of groups is the limit, all
 * sandboxes of the group that was idle longest end.
 *
 * `warm`: the pre-started sandbox of a pool that the create will be given, which counts towards
 * the node's limits already; or NULL.
 */
#include "cayd/sandbox/sandbox.h"

/* Whether the create would be admitted; ends no sandbox. */
[[nodiscard]] int admit_check(struct cayd *c, const struct id *tenant,
			      const struct sandbox_create *spec, const struct sandbox *warm,
			      struct cay_err *err);
/* The same, and ends the sandbox that has to make room. */
[[nodiscard]] int admit_check_and_evict(struct cayd *c, const struct id *tenant,
					const struct sandbox_create *spec,
					const struct sandbox *warm, struct cay_err *err);
/* Whether the node has room for a sandbox without an owner. */
[[nodiscard]] int admit_check_node(struct cayd *c, const struct grant *more, struct cay_err *err);
/* Check the request, make room and create the sandbox; or return the tenant's sandbox that
 * already has this key or name. */
[[nodiscard]] int admit_and_create(struct cayd *c, const struct id *tenant,
				   const struct sandbox_create *spec,
				   const struct idempotency_key *key, const struct sandbox *warm,
				   struct sandbox **ret, struct cay_err *err);
/* Whether a stopped sandbox may start, as a create would be judged; its limits are lowered to the
 * ceilings of now.  *ret_max_ns: how long it may run. */
[[nodiscard]] int admit_check_start(struct cayd *c, struct sandbox *sb, uint64_t *ret_max_ns,
				    struct cay_err *err);
#endif
