/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_KEPT_KEYS_H
#define CAY_CAYD_SANDBOX_KEPT_KEYS_H
/*
 * kept-keys - idempotency keys of sandboxes whose record is gone
 *
 * The key of a create is part of the record of its sandbox.  A record can be forgotten before
 * limits.idempotency_ttl after the create; its key is then kept here and in the journal, so that
 * the same request sent again does not create a second sandbox.  A tenant has at most KEPT_KEYS_MAX
 * of them; beyond that its own oldest goes.
 */
#include "cayd/sandbox/sandbox.h"

#define KEPT_KEYS_MAX 50000

[[nodiscard]] int kept_keys_open(struct cayd *c, struct cay_err *err);
/* The record of this sandbox is about to be forgotten: keep its key, if it has one. */
void kept_key_add(struct sandbox *sb);
/* Refuse a request that was carried out, but whose sandbox is forgotten. */
[[nodiscard]] int kept_key_check(const struct cayd *c, const struct id *tenant,
				 const struct idempotency_key *key, struct cay_err *err);
[[nodiscard]] int kept_key_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err);
void kept_keys_remove_of_tenant(struct cayd *c, const struct id *tenant);
void kept_keys_expire(struct cayd *c, uint64_t now_boot_ns);
#endif
