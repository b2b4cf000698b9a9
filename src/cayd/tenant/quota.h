/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_QUOTA_H
#define CAY_CAYD_TENANT_QUOTA_H
/*
 * quota - what a tenant may have of this node, and one sandbox of it
 *
 * Quotas bound the sums of limits (life/grant.h), ceilings the limits of one sandbox
 * (life/ceiling.h).  What the tenant's row leaves out is the node's setting.
 */
#include "cayd/sandbox/sandbox.h"

/* The quotas that count now. */
struct quotas quota_get(const struct cayd *c, const struct id *tenant);
/* Bytes that all sandboxes of the tenant together may have as memory limits; 0: no quota. */
uint64_t quota_get_memory(const struct cayd *c, const struct id *tenant);
/* The same with ceilings and usage, for a reply. */
void quota_describe(const struct cayd *c, const struct id *tenant, struct tenant_status *ret);
/* Lower the defaults of a create to the ceilings of the tenant; refuse what it asks above. */
[[nodiscard]] int quota_bound_create(const struct cayd *c, const struct id *tenant,
				     struct sandbox_create *spec, struct cay_err *err);
/* The same for the size of a volume; and how many files one may have. */
[[nodiscard]] int quota_bound_volume(const struct cayd *c, const struct id *tenant, bool given,
				     uint64_t *bytes, struct cay_err *err);
uint64_t quota_get_volume_inodes(const struct cayd *c, const struct id *tenant);
/* The limits of a sandbox that was created under other ceilings. */
struct limits quota_bound_start(const struct cayd *c, const struct id *tenant,
				const struct limits *was);
/* Whether the tenant and the node may have the limits of `more` in place of those of `less`. */
[[nodiscard]] int quota_check_grant(const struct cayd *c, const struct id *tenant,
				    const struct grant *less, const struct grant *more,
				    struct cay_err *err);
/* The node alone: of a sandbox without an owner. */
[[nodiscard]] int quota_check_node(const struct cayd *c, const struct grant *less,
				   const struct grant *more, struct cay_err *err);
/* Bytes that all sandboxes of the node together may have as memory limits; 0: no limit. */
uint64_t quota_get_promise_max(const struct cayd *c);
/* Whether a sandbox may get these limits. */
[[nodiscard]] int quota_check_change(struct cayd *c, const struct sandbox *sb,
				     const struct limits *now, struct cay_err *err);
#endif
