/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_REVOKE_H
#define CAY_CAYD_TENANT_REVOKE_H
/*
 * revoke - links, previews and tokens of a sandbox that are taken back (ADR 0058)
 *
 * All there are end when the sandbox's epoch moves on.  One by one they are remembered in
 * REVOKED_MAX places by the random bytes each has, until it would have ended by itself; then
 * the place is another's.  Edges are told of each place, so both are bounded by the same.
 */
#include "cayd/sandbox/revoked.h"
#include "wire/push.h"

/* What an edge must know beside the epoch. */
typedef void revoke_push_fn(void *arg, const struct push *p);
void revoked_emit_push_records(const struct sandbox *sb, revoke_push_fn *fn, void *arg);

/* The operation. */
void op_sandbox_revoke(struct cayd *c, struct request *rq);
#endif
