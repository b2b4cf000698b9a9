/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_TENANT_POLICY_H
#define CAY_CAYD_EGRESS_TENANT_POLICY_H
/*
 * tenant-policy - a tenant's egress_max, for the sandboxes it has
 *
 * The row of the tenant is the layer of all its sandboxes, so a change of it counts at once for
 * whatever is compiled from then on.  Those that cay-egress has get it again, a few at a time.
 */
#include "cayd/egress/egress-link.h"

/* Also whether every sandbox it has now can be compiled with the next egress_max. */
[[nodiscard]] int tenant_policies_check(struct cayd *c, const struct tenant_info *next,
					struct cay_err *err);
/* fn, which may be NULL, is called once, from the loop or at once: when cay-egress has judged the
 * open connections of all its sandboxes again, or with the first failure. */
void tenant_policy_changed(struct cayd *c, const struct id *tenant, egress_link_fn *fn, void *arg);
#endif
