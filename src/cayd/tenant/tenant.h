/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_TENANT_H
#define CAY_CAYD_TENANT_TENANT_H
/*
 * tenant - owners of sandboxes, keys and uploads
 *
 * The table is in memory, its rows are in the journal.  The default tenant always exists: it is
 * the operator's.
 */
#include "cayd/core/cayd.h"

#define TENANTS_MAX 10000

[[nodiscard]] int tenants_open(struct cayd *c, struct cay_err *err);
[[nodiscard]] int tenant_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err);
/* Whether it exists and is not being deleted. */
bool tenant_exists(const struct cayd *c, const struct id *id);
/* Whether its sandboxes are those of builds. */
bool tenant_is_for_builds(const struct id *tenant);

#endif
