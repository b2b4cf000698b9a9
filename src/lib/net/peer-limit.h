/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_PEER_LIMIT_H
#define CAY_NET_PEER_LIMIT_H
/*
 * peer - how many connections each of those out there has
 *
 * Who has one address of an IPv6 network (/64) has all of them, so they count as one.
 * Those of a unix socket do not count.  Bounded by the connections themselves.
 */
#include <stddef.h>
#include <stdint.h>

struct peer_limit;
struct peer_limits;
struct sockaddr_storage;

/* Its address as bytes, of an IPv6 one the network's; 0 when it has none. */
size_t peer_limit_key(const struct sockaddr_storage *at, uint8_t ret[static 16]);

[[nodiscard]] struct peer_limits *peer_limits_new(void);
void peer_limits_free(struct peer_limits *all);
/* One connection more; NULL when it is not counted, or there is no memory. */
struct peer_limit *peer_limit_add_conn(struct peer_limits *all, const struct sockaddr_storage *at);
/* And one less.  Takes NULL. */
void peer_limit_remove_conn(struct peer_limits *all, struct peer_limit *p);
unsigned peer_limit_count_conns(const struct peer_limit *p); /* of NULL: 0 */
#endif
