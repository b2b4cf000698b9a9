/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_API_KEY_H
#define CAY_CAYD_TENANT_API_KEY_H
/*
 * key - API keys: whose they are, what they are good for, until when
 *
 * A secret is told once, when it was made; what is kept is its hash.  One that was
 * revoked or has expired stays in the list until its tenant goes or room is needed.
 */
#include "cayd/core/cayd.h"
#include "wire/push.h"

#define KEYS_MAX 10000

[[nodiscard]] int keys_open(struct cayd *c, struct cay_err *err);
/* One that the journal has. */
[[nodiscard]] int key_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err);
bool keys_is_empty(const struct cayd *c);
/* A key from its text.  It is good once fn was told that it is written down and has called
 * key_add_finish(). */
[[nodiscard]] int key_add(struct cayd *c, const struct key_create *spec, struct slice text,
			  struct id *ret, db_fn *fn, void *arg, struct cay_err *err);
void key_add_finish(struct cayd *c, const struct id *id, const struct cay_err *outcome);
/* A text nobody has. */
[[nodiscard]] int key_generate(const struct cayd *c, char *ret, struct cay_err *err);
/* Those of a tenant that can be used; and forgetting all of them. */
unsigned keys_count_usable(const struct cayd *c, const struct id *tenant);
void keys_remove_of_tenant(struct cayd *c, const struct id *tenant);
/* Whether the key an actor names, if it does, lets it be what it says it is. */
bool key_allows_actor(const struct cayd *c, const struct actor *a);
/* Whether its key and its tenant are valid now: the edge may know an older state, and the
 * body of a request may take long. */
bool actor_is_still_valid(const struct cayd *c, const struct actor *a);

/* Its tenant; false when there is no such key. */
bool key_find_owner(const struct cayd *c, const struct id *id, struct id *ret);
/* Whether the text is a secret of it. */
bool key_secret_matches(const struct cayd *c, const struct id *id, struct slice text);

/* What an edge must know of a key, or of every one: records of those that are good. */
typedef void key_push_fn(void *arg, const struct push *p);
void key_emit_push_records(const struct cayd *c, const struct id *id, key_push_fn *fn, void *arg);
/* An edge has let somebody in with it. */
void key_mark_used(struct cayd *c, const struct id *id);

/* The operations. */
void op_key_create(struct cayd *c, struct request *rq);
void op_key_list(struct cayd *c, struct request *rq);
void op_key_revoke(struct cayd *c, struct request *rq);
void op_key_rotate(struct cayd *c, struct request *rq);
#endif
