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
/* NULL for the owners of warm sandboxes and of builds. */
const struct tenant_info *tenant_get_info(const struct cayd *c, const struct id *id);
/* Whether one more create is within its quota of creates per second; counts it. */
bool tenant_take_create(struct cayd *c, const struct id *id);
/* Each change of a credential writes and syncs the file of all of them. */
#define CREDENTIALS_PER_S 20
[[nodiscard]] bool tenant_take_credential(struct cayd *c, const struct id *id);
/* Whether it exists and is not being deleted. */
bool tenant_exists(const struct cayd *c, const struct id *id);
/* Refuse what several tenants may do only where a quota limits the disk of each sandbox. */
[[nodiscard]] int tenants_require_disk_quota(const struct cayd *c, size_t n_tenants,
					     struct cay_err *err);
/* The i-th, below tenants_count(); NULL for one that is being created or deleted. */
const struct tenant_info *tenant_at(const struct cayd *c, size_t i);
/* Tenants that exist or are being deleted, at least one. */
size_t tenants_count(const struct cayd *c);
/* Whether its sandboxes are those of builds. */
bool tenant_is_for_builds(const struct id *tenant);

#endif
