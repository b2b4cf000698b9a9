/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_TOKEN_H
#define CAY_CAYD_TENANT_TOKEN_H
/*
 * sign - tokens for one sandbox (auth/token.h), and the keys they are signed with
 *
 * db/token.key below paths.state has a line for the key that signs and one for the key
 * before it: its number, when it was made (unix seconds), its bytes in hex.  Edges are
 * told of both and check tokens by themselves.  A key signs for control.token_key; then
 * another one does, and the old one is good until the last of its tokens has ended.  The
 * file is durable before a key signs.  Who removes the file and restarts cayd ends
 * every token there is.
 */
#include "auth/token.h"
#include "cayd/core/cayd.h"
#include "wire/push.h"

#define TOKEN_TTL_MAX_S UINT64_C(86400) /* the longest a token lives (schemas.def) */

struct token_signer;

[[nodiscard]] int token_signer_open(struct cayd *c, struct cay_err *err);
/* Time has passed: is it old?  Writes a file when it is, once a month. */
void token_signer_rotate_if_due(struct cayd *c);

/* What an edge must know. */
typedef void token_push_fn(void *arg, const struct push *p);
void token_signer_emit_push_records(const struct cayd *c, token_push_fn *fn, void *arg);

/* The one that signs now, and all whose tokens are good; secrets, for who wipes them. */
void token_signer_get_key(const struct cayd *c, struct token_key *ret);
void token_signer_get_valid_keys(const struct cayd *c, struct token_keys *ret);
/* The last second of a link or preview that is to be good for so long, from now. */
[[nodiscard]] int token_link_compute_expiry(const struct cayd *c, uint64_t ttl_ms, uint64_t *ret_s,
					    struct cay_err *err);

/* The operations. */
void op_sandbox_token(struct cayd *c, struct request *rq);
void op_tree_link(struct cayd *c, struct request *rq);
#endif
