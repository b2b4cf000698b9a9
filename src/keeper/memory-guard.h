/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_MEMORY_GUARD_H
#define CAY_KEEPER_MEMORY_GUARD_H
/*
 * memory-guard - when memory runs out, the tenant that takes it loses processes, and no other
 *
 * A process of its own, because a write of a limit reclaims memory and kills before it returns.
 * It sets the limit of all sandboxes, reads what the tenants use and sets a ceiling for each
 * (cgroup/memory-share.h), so that the kernel finds the ceiling of a tenant reached before the
 * limit of all.  Below an eighth of that limit there are no ceilings, and it reads two files
 * a second.  It keeps nothing: a new one finds everything in the cgroups (docs/adr/0061).
 */
#include "keeper/keeper.h"

/* Start it; it ends with the keeper.  Returns a pidfd, readable when it has ended. */
[[nodiscard]] int memory_guard_start(struct keeper *k, struct cay_err *err);
/* The limit of all sandboxes; wanted 0: derived from the machine's memory and the reserve. */
uint64_t memory_guard_limit_of_all(uint64_t wanted, uint64_t total, uint64_t reserve);
#endif
