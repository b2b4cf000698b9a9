/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_TOKEN_H
#define CAY_CAYD_TENANT_TOKEN_H
/*
 * token - tokens for one sandbox (auth/token.h), and the keys that sign them
 *
 * db/token.key below paths.state has a line for the present key and one for the previous key:
 * number, time of creation (unix seconds), bytes in hex.  Edges get both and check tokens by
 * themselves.  A key signs for control.token_key; then a new key does, and the old one stays
 * valid until the last of its tokens has expired.  The file is durable before a key signs.
 * Removing the file and restarting cayd voids every token.
 */
#include "auth/token.h"
#include "cayd/core/cayd.h"
#include "wire/push.h"

#define TOKEN_TTL_MAX_S UINT64_C(86400) /* longest lifetime of a token (schemas.def) */

struct token_signer;

[[nodiscard]] int token_signer_open(struct cayd *c, struct cay_err *err);
/* Rotate the key if it is due; writes the file then, which blocks. */
void token_signer_rotate_if_due(struct cayd *c);

/* Push records of the keys, for edges. */
typedef void token_push_fn(void *arg, const struct push *p);
void token_signer_emit_push_records(const struct cayd *c, token_push_fn *fn, void *arg);

/* The present key; and all valid keys. The caller wipes them. */
void token_signer_get_key(const struct cayd *c, struct token_key *ret);
void token_signer_get_valid_keys(const struct cayd *c, struct token_keys *ret);
/* The last second of a link or preview that is valid for ttl_ms from now. */
[[nodiscard]] int token_link_compute_expiry(const struct cayd *c, uint64_t ttl_ms, uint64_t *ret_s,
					    struct cay_err *err);
/* The origin of links: edge.public_url, else how the client has reached the edge; empty for
 * requests at the operator's socket. */
struct slice link_find_origin(const struct cayd *c, const struct request *rq);

#endif
