/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_UPSTREAM_POOL_H
#define CAY_NET_UPSTREAM_POOL_H
/*
 * upstream-pool - connections to one unix socket of ours, kept for the next request
 *
 * For a trusted program (control); a sandbox gets a connection per request.  Idle connections are
 * watched: one that ends, or receives unexpected bytes, is closed.  keep_ms must be shorter than
 * the other side's idle timeout, or a request may be sent on a connection that is being closed.
 *
 * Bounded: max idle connections.  Threading: loop thread.
 */
#include "net/conn.h"

struct upstream_pool;

/* NULL without memory.  path is copied. */
[[nodiscard]] struct upstream_pool *upstream_pool_new(uv_loop_t *loop, const char *path,
						      unsigned max, uint64_t keep_ms);
/* Closes idle connections now, the others when they are returned.  Takes NULL. */
void upstream_pool_free(struct upstream_pool *u);
unsigned upstream_pool_count_idle(const struct upstream_pool *u);
uv_loop_t *upstream_pool_loop(const struct upstream_pool *u);

/* For relay.c and client-call.c.  *ret_kept: the connection was used before. */
[[nodiscard]] int upstream_pool_acquire(struct upstream_pool *u, struct conn_shared *room,
					bool fresh, const struct conn_conf *conf, struct conn **ret,
					bool *ret_kept);
/* Return a connection at the end of a reply, with nothing queued. */
void upstream_pool_return(struct upstream_pool *u, struct conn *c);
void upstream_pool_ref(struct upstream_pool *u);
void upstream_pool_unref(struct upstream_pool *u);
#endif
