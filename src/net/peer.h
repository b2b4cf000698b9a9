/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_PEER_H
#define CAY_NET_PEER_H
/*
 * peer - how many connections each of those out there has
 *
 * Who has one address of an IPv6 network (/64) has all of them, so they count as one.
 * Those of a unix socket do not count.  Bounded by the connections themselves.
 */
#include <stddef.h>
#include <stdint.h>

struct peer;
struct peers;
struct sockaddr_storage;

/* Its address as bytes, of an IPv6 one the network's; 0 when it has none. */
size_t peer_key(const struct sockaddr_storage *at, uint8_t ret[static 16]);

[[nodiscard]] struct peers *peers_new(void);
void peers_free(struct peers *all);
/* One connection more; NULL when it is not counted, or there is no memory. */
struct peer *peer_enter(struct peers *all, const struct sockaddr_storage *at);
/* And one less.  Takes NULL. */
void peer_leave(struct peers *all, struct peer *p);
unsigned peer_conns(const struct peer *p); /* of NULL: 0 */
#endif
