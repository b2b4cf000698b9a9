/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_SPECIAL_NET_H
#define CAY_EGRESS_SPECIAL_NET_H
/*
 * special-net - addresses that are not hosts of the Internet
 *
 * The node itself, its networks, metadata services, multicast, documentation, tunnels to any of
 * them, and what IANA has not given out: a name of the Internet that has such an address leads
 * inwards.  An address is 16 bytes; IPv4 as ::ffff:a.b.c.d.  Pure.
 */
#include <stdint.h>

bool address_is_special(const uint8_t address[static 16]);
/* The IPv4 address that a gateway (NAT64, 64:ff9b::/96) reaches by this one, or the address itself.
 * Compare the result with the addresses of the node and the networks of the operator. */
void address_unmap(const uint8_t address[static 16], uint8_t ret[static 16]);
#endif
