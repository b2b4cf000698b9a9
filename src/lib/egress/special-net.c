/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/special-net.h"

#include <string.h>

#include "base/mem.h"

#define V4(a, b, c, d, bits_) { [10] = 0xff, 0xff, a, b, c, d }, (bits_) + 96
#define V6(a, b, c, bits_) \
	{ (a) >> 8, (a) & 0xff, (b) >> 8, (b) & 0xff, (c) >> 8, (c) & 0xff }, bits_

/* IANA's registries of special-purpose addresses, IPv4 and IPv6.  The first row that contains an
 * address decides.  In blocks for services of the protocols itself all is special, also anycast
 * that the registries call global: 192.0.0.9 and 2001:1::1 are answered by the nearest gateway,
 * which is in the node's own network. */
static const struct special_net {
	uint8_t address[16];
	uint8_t bits;
	bool special;
} special_nets[] = {
	{ V4(0, 0, 0, 0, 8), true },       /* this host */
	{ V4(10, 0, 0, 0, 8), true },      /* private */
	{ V4(100, 64, 0, 0, 10), true },   /* shared with a provider */
	{ V4(127, 0, 0, 0, 8), true },     /* loopback */
	{ V4(169, 254, 0, 0, 16), true },  /* link-local, metadata of clouds */
	{ V4(172, 16, 0, 0, 12), true },   /* private */
	{ V4(192, 0, 0, 0, 24), true },    /* protocols */
	{ V4(192, 0, 2, 0, 24), true },    /* documentation */
	{ V4(192, 88, 99, 0, 24), true },  /* relays of 6to4 */
	{ V4(192, 168, 0, 0, 16), true },  /* private */
	{ V4(198, 18, 0, 0, 15), true },   /* benchmarks */
	{ V4(198, 51, 100, 0, 24), true }, /* documentation */
	{ V4(203, 0, 113, 0, 24), true },  /* documentation */
	{ V4(224, 0, 0, 0, 3), true },     /* multicast, reserved, broadcast */
	{ V4(0, 0, 0, 0, 0), false },
	{ V6(0x2001, 0, 0, 23), true },     /* protocols; Teredo, which holds an IPv4 address */
	{ V6(0x2001, 0xdb8, 0, 32), true }, /* documentation */
	{ V6(0x2002, 0, 0, 16), true },     /* 6to4, which holds an IPv4 address */
	{ V6(0x3fff, 0, 0, 20), true },     /* documentation */
	{ V6(0x2000, 0, 0, 3), false },     /* all of unicast */
	/* ::1, IPv4 in ::/96, local NAT64 in 64:ff9b:1::/48, 100::/64, 5f00::/16, fc00::/7,
	 * fe80::/10, fec0::/10, ff00::/8, and what was never given out */
	{ V6(0, 0, 0, 0), true },
};

static const uint8_t nat64[12] = { 0, 0x64, 0xff, 0x9b };

static bool special_net_contains(const struct special_net *net, const uint8_t *address)
{
	unsigned bytes = net->bits / 8, rest = net->bits % 8;

	return memcmp(net->address, address, bytes) == 0 &&
	       (!rest || (net->address[bytes] ^ address[bytes]) >> (8 - rest) == 0);
}

void address_unmap(const uint8_t address[static 16], uint8_t ret[static 16])
{
	memmove(ret, address, 16);
	if (memcmp(ret, nat64, sizeof(nat64)) == 0) {
		memset(ret, 0, 10);
		memset(ret + 10, 0xff, 2);
	}
}

bool address_is_special(const uint8_t address[static 16])
{
	uint8_t inner[16];

	address_unmap(address, inner);
	for (size_t i = 0; i < ARRAY_SIZE(special_nets); i++)
		if (special_net_contains(&special_nets[i], inner))
			return special_nets[i].special;
	return true;
}
