/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_PEER_LIMIT_H
#define CAY_NET_PEER_LIMIT_H
/*
 * peer-limit - connections per peer address
 *
 * All addresses of an IPv6 /64 network count as one peer: a host can use any of them.  Unix
 * sockets are not counted.  Bounded by the number of connections.
 */
#include <stddef.h>
#include <stdint.h>

struct peer_limit;
struct peer_limits;
struct sockaddr_storage;

[[nodiscard]] struct peer_limits *peer_limits_new(void);
void peer_limits_free(struct peer_limits *all);
/* NULL when the peer is not counted, or without memory. */
struct peer_limit *peer_limit_add_conn(struct peer_limits *all, const struct sockaddr_storage *at);
/* Takes NULL. */
void peer_limit_remove_conn(struct peer_limits *all, struct peer_limit *p);
unsigned peer_limit_count_conns(const struct peer_limit *p); /* 0 for NULL */
#endif
