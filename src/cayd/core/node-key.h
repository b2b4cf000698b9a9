/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_NODE_KEY_H
#define CAY_CAYD_CORE_NODE_KEY_H
/*
 * node-key - the key that seals the secrets this node stores for others
 *
 * It is secret/node.key below paths.state, 64 hexadecimal digits, mode 0600: apart from db/, so
 * a copy of db/ opens nothing.  Only `cay backup` copies both.  Without the key the daemon runs,
 * and what was sealed with it stays closed until the file is put back.
 */
#include "cayd/core/cayd.h"

/* Read the key if there is one.  The caller holds the journal, so no other cayd writes here. */
[[nodiscard]] int node_key_open(struct cayd *c, struct cay_err *err);
bool node_key_is_missing(const struct cayd *c);
/* Create the key if there is none.  Fails if the file is there and is not a key. */
[[nodiscard]] int node_key_ensure(struct cayd *c, struct cay_err *err);
/* Append the sealed secret as base64. */
[[nodiscard]] int node_key_seal(const struct cayd *c, struct slice purpose, struct slice secret,
				struct buf *ret, struct cay_err *err);
/* Append the secret, which the caller wipes.  -EBADMSG: sealed with another key or for another
 * purpose, or changed; -ENOKEY: there is no key. */
[[nodiscard]] int node_key_unseal(const struct cayd *c, struct slice purpose, struct slice text,
				  struct buf *ret);
#endif
