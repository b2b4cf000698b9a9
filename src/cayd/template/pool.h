/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_POOL_H
#define CAY_CAYD_TEMPLATE_POOL_H
/*
 * pool - pre-started ("warm") sandboxes of a template
 *
 * A template's pool keeps so many sandboxes ready, started one at a time while no client waits
 * for a create.  A claimed sandbox never returns; one that died, or that the template has
 * outdated, is replaced.  Limits of the request that differ are set at the claim; a request that
 * a warm sandbox cannot satisfy is created from nothing.
 */
#include "cayd/sandbox/sandbox.h"

struct create_queue;
struct warm_pool;
struct template;

/* Pools are refilled while no client waits in this queue. */
[[nodiscard]] int pools_open(struct cayd *c, const struct create_queue *clients,
			     struct cay_err *err);
/* Claim a warm sandbox for this request; *ret is NULL where one must be created from nothing. */
[[nodiscard]] int pool_claim_sandbox(struct cayd *c, const struct id *tenant,
				     const struct sandbox_create *spec,
				     const struct idempotency_key *key, struct sandbox **ret,
				     struct cay_err *err);
/* Whether its template may have one more sandbox. */
[[nodiscard]] int pool_check_max(const struct cayd *c, const struct sandbox_create *spec,
				 struct cay_err *err);
/* A warm sandbox that matches the request, or NULL. */
const struct sandbox *pool_find_warm(const struct cayd *c, const struct sandbox_create *spec);
/* Observers: a sandbox was restored; a sandbox changed.  Other than warm ones are ignored. */
void pool_adopt_sandbox(struct sandbox *sb);
void pool_sandbox_changed(struct sandbox *sb);
/* Refill, and end surplus sandboxes, from the loop. */
void pools_schedule_refill(struct cayd *c);
void pools_sweep(struct cayd *c, uint64_t now);
/* Whether any template has or had a warm sandbox. */
bool pools_has_any(const struct cayd *c);
/* Counts of a template, or of all (NULL). */
struct pool_count pools_count(const struct cayd *c, const char *template);
/* Iterate: the pool after s, the first for NULL; NULL at the end. */
const struct warm_pool *pool_next(const struct cayd *c, const struct warm_pool *s,
				  const char **ret_template, struct pool_count *ret);
#endif
