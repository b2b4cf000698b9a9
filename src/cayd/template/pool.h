/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_POOL_H
#define CAY_CAYD_TEMPLATE_POOL_H
/*
 * stock - warm sandboxes of a template, kept for who takes them
 *
 * What a template's pool says: so many are kept ready, made one at a time while no client
 * waits for one of its own.  A taken one is never put back; one that died, or that is not
 * what the template says any more, is replaced.  What is asked of a warm one that it was
 * not started with is set when it is taken; what cannot be is made from nothing.
 */
#include "cayd/sandbox/sandbox.h"

struct create_queue;
struct warm_pool;
struct template;

/* Pools are refilled while no client waits in this queue. */
[[nodiscard]] int pools_open(struct cayd *c, const struct create_queue *clients,
			     struct cay_err *err);
/* One for this request; none (and no failure) where it is to be made from nothing. */
[[nodiscard]] int pool_claim_sandbox(struct cayd *c, const struct id *tenant,
				     const struct sandbox_create *spec,
				     const struct idempotency_key *key, struct sandbox **ret,
				     struct cay_err *err);
/* Whether its template may have one more. */
[[nodiscard]] int pool_check_max(const struct cayd *c, const struct sandbox_create *spec,
				 struct cay_err *err);
/* Whether there is one for it. */
bool pool_has_match(const struct cayd *c, const struct sandbox_create *spec);
/* Observers: a sandbox was restored; a sandbox changed.  Other than warm ones are ignored. */
void pool_adopt_sandbox(struct sandbox *sb);
void pool_sandbox_changed(struct sandbox *sb);
/* There may be something to make, or to end. */
void pools_schedule_refill(struct cayd *c);
void pools_sweep(struct cayd *c, uint64_t now);
/* Whether any template has had one. */
bool pools_has_any(const struct cayd *c);
/* How many there are of a template, or in all (NULL). */
struct pool_count pools_count(const struct cayd *c, const char *template);
/* The one behind s, the first behind NULL, then NULL: whose it is and how many there are. */
const struct warm_pool *pool_next(const struct cayd *c, const struct warm_pool *s,
				  const char **ret_template, struct pool_count *ret);
#endif
