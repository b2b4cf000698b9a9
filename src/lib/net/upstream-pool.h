/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_UPSTREAM_POOL_H
#define CAY_NET_UPSTREAM_POOL_H
/*
 * upstream - connections to one unix socket of ours, kept for the next request
 *
 * For a program we trust (control); a sandbox gets a connection per request.  Those
 * that wait are watched: one that ends, or says something nobody asked for, is
 * closed.  keep_ms must be shorter than what the other side lets an idle connection
 * live, or a request may go to one that is just being closed.
 *
 * Bounded: max waiting connections.  Threading: loop thread.
 */
#include "net/conn.h"

struct upstream_pool;

/* NULL when there is no memory.  path is copied. */
[[nodiscard]] struct upstream_pool *upstream_pool_new(uv_loop_t *loop, const char *path,
						      unsigned max, uint64_t keep_ms);
/* Closes those that wait; others when they come back.  Takes NULL. */
void upstream_pool_free(struct upstream_pool *u);
unsigned upstream_pool_count_idle(const struct upstream_pool *u);
uv_loop_t *upstream_pool_loop(const struct upstream_pool *u);

/* For relay.c and client-call.c.  *ret_kept: it was used before. */
[[nodiscard]] int upstream_pool_acquire(struct upstream_pool *u, struct conn_shared *room,
					bool fresh, const struct conn_conf *conf, struct conn **ret,
					bool *ret_kept);
/* Back: it is at the end of an answer, and nothing is queued. */
void upstream_pool_return(struct upstream_pool *u, struct conn *c);
void upstream_pool_ref(struct upstream_pool *u);
void upstream_pool_unref(struct upstream_pool *u);
#endif
