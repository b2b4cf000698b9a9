/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_STOCK_H
#define CAY_CAYD_STOCK_H
/*
 * stock - warm sandboxes of a template, kept for who takes them
 *
 * What a template's pool says: so many are kept ready, made one at a time while no client
 * waits for one of its own.  A taken one is never put back; one that died, or that is not
 * what the template says any more, is replaced.  What is asked of a warm one that it was
 * not started with is set when it is taken; what cannot be is made from nothing.
 */
#include "cayd/box.h"

struct stock;
struct template_row;

[[nodiscard]] int stocks_open(struct cayd *c, struct cay_err *err);
/* One for this request; none (and no failure) where it is to be made from nothing. */
[[nodiscard]] int stock_take(struct cayd *c, const struct id *tenant,
			     const struct sandbox_create *spec, const struct box_key *key,
			     struct box **ret, struct cay_err *err);
/* Whether its template may have one more. */
[[nodiscard]] int stock_room(const struct cayd *c, const struct sandbox_create *spec,
			     struct cay_err *err);
/* Whether there is one for it. */
bool stock_has(const struct cayd *c, const struct sandbox_create *spec);
/* One that the journal has as warm. */
void stock_adopt(struct box *b);
/* From step.c: something has happened to a warm one. */
void stock_changed(struct box *b);
/* There may be something to make, or to end. */
void stocks_soon(struct cayd *c);
void stocks_sweep(struct cayd *c);
/* Whether any template has had one. */
bool stock_pools(const struct cayd *c);
/* How many there are of a template, or in all (NULL). */
struct pool_count stock_count(const struct cayd *c, const char *template);
/* The one behind s, the first behind NULL, then NULL: whose it is and how many there are. */
const struct stock *stock_next(const struct cayd *c, const struct stock *s,
			       const char **ret_template, struct pool_count *ret);
#endif
