/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "egress/egress.h"
#include "egress/special-net.h"

#define PRIVATE_MAX 32

/* Of egress.private. */
static struct private_net {
	uint8_t net[EGRESS_ADDRESS_LEN];
	unsigned prefix; /* of 128 bits */
	uint16_t port;   /* 0: any */
} private_nets[PRIVATE_MAX];
static size_t n_private_nets;

void address_from_v4(uint32_t v4, uint8_t ret[static EGRESS_ADDRESS_LEN])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memcpy(ret, mapped, sizeof(mapped));
	v4 = htonl(v4);
	memcpy(ret + 12, &v4, sizeof(v4));
}

void address_format(const uint8_t address[EGRESS_ADDRESS_LEN], char ret[static ADDRESS_TEXT_MAX])
{
	bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)address);

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address + 12 : address, ret, ADDRESS_TEXT_MAX))
		ret[0] = 0;
}

/* "10.0.0.0/8", "10.1.2.3/32:5432" or "[fd00::]/8:443". */
static int private_net_parse(struct slice word, struct private_net *ret)
{
	bool v6 = word.n && word.p[0] == '[';
	struct slice host, rest = word;
	uint8_t raw[EGRESS_ADDRESS_LEN] = {};
	uint64_t bits, port = 0;
	char text[64];

	host = slice_cut(&rest, '/');
	if (v6 && (host.n < 3 || host.p[host.n - 1] != ']'))
		return -EINVAL;
	if (v6)
		host = (struct slice){ host.p + 1, host.n - 2 };
	if (!host.n || host.n >= sizeof(text) ||
	    str_parse_u64(slice_cut(&rest, ':'), v6 ? 8 : 1, v6 ? 128 : 32, &bits) < 0 ||
	    (rest.n && str_parse_u64(rest, 1, 65535, &port) < 0))
		return -EINVAL;
	memcpy(text, host.p, host.n);
	text[host.n] = 0;
	if (inet_pton(v6 ? AF_INET6 : AF_INET, text, raw) != 1)
		return -EINVAL;
	*ret = (struct private_net){ .prefix = (unsigned)bits + (v6 ? 0 : 96),
				     .port = (uint16_t)port };
	if (v6)
		memcpy(ret->net, raw, sizeof(raw));
	else
		address_from_v4(ntohl(*(uint32_t *)(void *)raw), ret->net);
	return 0;
}

static bool address_has_prefix(const uint8_t *address, const uint8_t *net, unsigned prefix)
{
	unsigned whole = prefix / 8, rest = prefix % 8;

	return memcmp(address, net, whole) == 0 &&
	       (!rest || (address[whole] ^ net[whole]) >> (8 - rest) == 0);
}

static bool address_is_excepted(const uint8_t *address, uint16_t port)
{
	for (size_t i = 0; i < n_private_nets; i++)
		if (address_has_prefix(address, private_nets[i].net, private_nets[i].prefix) &&
		    (!private_nets[i].port || private_nets[i].port == port))
			return true;
	return false;
}

/* A socket can be bound to an address of this machine and to no other.  One that could not be bound
 * is as it was, and is kept. */
static bool address_is_ours(const uint8_t *address)
{
	static int probes[2] = { -EBADF, -EBADF };
	bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)address);
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	int *fd = &probes[v4];

	if (*fd < 0)
		*fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(&in.sin_addr, address + 12, 4);
	memcpy(&in6.sin6_addr, address, sizeof(in6.sin6_addr));
	if (*fd >= 0 && (v4 ? bind(*fd, (const struct sockaddr *)&in, sizeof(in))
			    : bind(*fd, (const struct sockaddr *)&in6, sizeof(in6))) < 0)
		return false;
	cay_closep(fd);
	*fd = -EBADF;
	return true; /* also if it cannot be known */
}

const char *address_refusal(const struct egress *e, const uint8_t address[EGRESS_ADDRESS_LEN],
			    uint16_t port)
{
	uint8_t synthetic[EGRESS_ADDRESS_LEN], reached[EGRESS_ADDRESS_LEN];

	address_from_v4(e->synthetic_net, synthetic);
	address_unmap(address, reached);
	if (address_has_prefix(reached, synthetic, 96 + e->synthetic_prefix))
		return "synthetic_address";
	if (address_is_excepted(reached, port))
		return NULL;
	if (address_is_special(address))
		return "address_not_public";
	return address_is_ours(reached) ? "address_of_this_node" : NULL;
}

static int synthetic_net_parse(struct egress *e, struct cay_err *err)
{
	struct private_net net;

	if (private_net_parse(slice_of(e->settings.egress_synthetic), &net) < 0 ||
	    net.prefix < 96 + 8 || net.prefix > 96 + 16 || net.port)
		return cay_fail(err, CAY_E_INVALID,
				"egress.synthetic is not an IPv4 network of /8 to /16");
	e->synthetic_prefix = net.prefix - 96;
	memcpy(&e->synthetic_net, net.net + 12, sizeof(e->synthetic_net));
	e->synthetic_net = ntohl(e->synthetic_net) & ~(UINT32_MAX >> e->synthetic_prefix);
	return 0;
}

int addresses_open(struct egress *e, struct cay_err *err)
{
	struct slice left = slice_of(e->settings.egress_private);

	while (left.n) {
		struct slice word = slice_cut(&left, ' ');

		if (!word.n)
			continue;
		if (n_private_nets == PRIVATE_MAX ||
		    private_net_parse(word, &private_nets[n_private_nets]) < 0)
			return cay_fail(err, CAY_E_INVALID,
					"egress.private: '%.*s' is not ADDRESS/BITS[:PORT], or is "
					"more than the %dth",
					(int)word.n, word.p, PRIVATE_MAX);
		n_private_nets++;
	}
	return synthetic_net_parse(e, err);
}
