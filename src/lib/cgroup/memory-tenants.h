/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CGROUP_MEMORY_TENANTS_H
#define CAY_CGROUP_MEMORY_TENANTS_H
/*
 * memory-tenants - the memory of each tenant, read from the directories below cgroup.path
 *
 * Sandboxes that were started for a pool are in the directory of the node's own tenant.  A claim
 * leaves them there, because v2 cannot move charged pages, so they count together.
 */
#include "base/id.h"
#include "cgroup/memory-share.h"

struct memory_tenant {
	struct id id;
	uint64_t usage, cache, need;
	bool seen_before, in_use;    /* in use: it has sandboxes */
	uint64_t ceiling, slow, low; /* as the caller wrote them; 0: it did not */
};

struct memory_tenants {
	int top;
	bool v1;
	struct memory_tenant *of;    /* sorted by id */
	struct memory_share *shares; /* of the same tenant */
	size_t n, cap, n_in_use;
};

/* Read all; what the caller wrote is kept for tenants that were there before. */
[[nodiscard]] int memory_tenants_read(struct memory_tenants *t);
/* Whether its share is the one that meets its ceiling first. */
bool memory_tenant_is_largest(const struct memory_tenants *t, size_t i);
/* The limits of a tenant by its share: ceiling, slow and low are results. */
struct memory_tenant memory_tenant_settle(const struct memory_tenants *t, size_t i, uint64_t all,
					  uint64_t used);
void memory_tenants_fini(struct memory_tenants *t);
#endif
