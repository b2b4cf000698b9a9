/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_REVOKE_H
#define CAY_CAYD_TENANT_REVOKE_H
/*
 * revoke - revoke links, previews and tokens of a sandbox (ADR 0058)
 *
 * All of them: the sandbox's epoch grows, and tokens of an older epoch are void.  One of them:
 * it takes one of REVOKED_MAX slots (sandbox/revoked.h).  Edges get every slot, so both sides
 * have the same bound.
 */
#include "cayd/sandbox/revoked.h"
#include "wire/push.h"

/* Push records of the slots, for edges. */
typedef void revoke_push_fn(void *arg, const struct push *p);
void revoked_emit_push_records(const struct sandbox *sb, revoke_push_fn *fn, void *arg);

#endif
