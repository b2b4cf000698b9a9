/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_API_KEY_H
#define CAY_CAYD_TENANT_API_KEY_H
/*
 * api-key - API keys: tenant, scope and validity
 *
 * The secret is shown once, in the reply to create; only its hash is kept.  A revoked or
 * expired key stays in the list until its tenant is deleted or room is needed.
 */
#include "cayd/core/cayd.h"
#include "wire/push.h"

#define KEYS_MAX 10000

[[nodiscard]] int keys_open(struct cayd *c, struct cay_err *err);
[[nodiscard]] int key_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err);
bool keys_is_empty(const struct cayd *c);
/* Add a key by its secret. It is valid once fn was called with success and has called
 * key_add_finish(). */
[[nodiscard]] int key_add(struct cayd *c, const struct key_create *spec, struct slice text,
			  struct id *ret, db_fn *fn, void *arg, struct cay_err *err);
void key_add_finish(struct cayd *c, const struct id *id, const struct cay_err *outcome);
[[nodiscard]] int key_generate(const struct cayd *c, char *ret, struct cay_err *err);
/* The number of a tenant's valid keys; and removing all of them. */
unsigned keys_count_usable(const struct cayd *c, const struct id *tenant);
void keys_remove_of_tenant(struct cayd *c, const struct id *tenant);
/* Whether the actor's key, if it has one, is valid and gives this tenant and scope. */
bool key_allows_actor(const struct cayd *c, const struct actor *a);
/* Whether its key and its tenant are valid now: the edge may know an older state, and the
 * body of a request may take long. */
bool actor_is_still_valid(const struct cayd *c, const struct actor *a);

/* Its tenant; false if there is no such key. */
bool key_find_owner(const struct cayd *c, const struct id *id, struct id *ret);
/* Whether the text is a valid secret of this key. */
bool key_secret_matches(const struct cayd *c, const struct id *id, struct slice text);

/* Push records for edges: those of one key, or (NULL) of all valid keys. */
typedef void key_push_fn(void *arg, const struct push *p);
void key_emit_push_records(const struct cayd *c, const struct id *id, key_push_fn *fn, void *arg);
/* An edge has accepted a request with this key. */
void key_mark_used(struct cayd *c, const struct id *id);

#endif
