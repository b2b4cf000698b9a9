/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_STEER_STEER_H
#define CAY_STEER_STEER_H
/*
 * steer - bring every connection of a network namespace to one listener
 *
 * The namespace has lo and no other link.  After steer_attach() it also has:
 *
 *	STEER_OWN      the source address of its connections
 *	STEER_SERVICE  where the listeners are: TCP STEER_PORT, UDP 53
 *	a local route for all IPv4 addresses, so that every destination is delivered to lo
 *	a BPF program (sk_lookup) that assigns each of these deliveries a socket
 *
 * TCP to any address and port goes to the TCP listener, where getsockname() of an accepted
 * connection is the destination that was dialled.  UDP to port 53 of any address goes to the UDP
 * socket; other datagrams are refused.  127.0.0.0/8 and STEER_OWN are not steered, so that
 * programs inside reach each other.  There is no route for IPv6.  tests/platform/sk-lookup.c has
 *the assumptions.
 *
 * The program stays attached as long as its link is open: when the process that holds all three
 * descriptors ends, connections are refused.  Established ones live as long as their sockets.
 */
#include <stdint.h>

#include "base/err.h"

/* 192.0.0.0/29 is for hosts without a public address (RFC 7335); in host byte order. */
#define STEER_SERVICE UINT32_C(0xc0000001)
#define STEER_OWN UINT32_C(0xc0000002)
#define STEER_PORT 1
#define STEER_DNS_PORT 53
/* Of each connection, so that those that stall hold little of the host's memory. */
#define STEER_SOCKET_BYTES (128 * 1024)

enum steer_fd { STEER_TCP, STEER_UDP, STEER_LINK, STEER_NUM };

/* In the network namespace of the calling thread, with CAP_NET_ADMIN and CAP_BPF over it.  ret:
 * descriptors, which the caller closes.  It can be repeated: while an earlier link is still open
 * new connections go to the latest listeners. */
[[nodiscard]] int steer_attach(int ret[static STEER_NUM], struct cay_err *err);
#endif
