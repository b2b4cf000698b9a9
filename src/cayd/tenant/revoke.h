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
#include "cayd/sandbox/sandbox.h"
#include "wire/push.h"

#define REVOKED_MAX PUSH_REVOKED_MAX

struct revoked_token {
	uint8_t nonce[8];
	uint64_t until_s; /* its last second; 0: nobody is here */
};

/* What an edge must know beside the epoch. */
typedef void revoke_push_fn(void *arg, const struct push *p);
void revoked_emit_push_records(const struct sandbox *sb, revoke_push_fn *fn, void *arg);

/* Of the journal: from it, and for it; names has room for what the rows point to. */
[[nodiscard]] int revoked_restore(struct sandbox *sb, const struct field_list *from);
size_t revoked_list_rows(const struct sandbox *sb, struct revoked rows[static REVOKED_MAX],
			 char names[static REVOKED_MAX][17]);

/* The operation. */
void op_sandbox_revoke(struct cayd *c, struct request *rq);
#endif
