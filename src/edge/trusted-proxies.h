/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_TRUSTED_PROXIES_H
#define CAY_EDGE_TRUSTED_PROXIES_H
/*
 * trusted-proxies - addresses that may say whom they forward for (edge.trusted)
 *
 * An address is 16 bytes; IPv4 as ::ffff:a.b.c.d.  Only the header X-Forwarded-For counts: a proxy
 * that sets one such header passes the others on as its client sent them.
 */
#include "base/err.h"
#include "http/http.h"

#define TRUSTED_PROXIES_MAX 64
#define NET_ADDRESS_LEN 16

struct sockaddr_storage;

struct trusted_proxies {
	struct trusted_network {
		uint8_t address[NET_ADDRESS_LEN];
		unsigned bits;
	} networks[TRUSTED_PROXIES_MAX];
	unsigned n;
};

/* Addresses and networks (ADDRESS/BITS), with spaces between them. */
[[nodiscard]] int trusted_proxies_parse(struct slice text, struct trusted_proxies *ret,
					struct cay_err *err);
bool net_address_is_v4(const uint8_t address[static NET_ADDRESS_LEN]);
bool trusted_proxies_contain(const struct trusted_proxies *t,
			     const uint8_t address[static NET_ADDRESS_LEN]);
/* False: a unix socket. */
bool net_address_from_socket(const struct sockaddr_storage *at,
			     uint8_t ret[static NET_ADDRESS_LEN]);
/* "10.0.0.1", "2001:db8::1", with a port "10.0.0.1:80", "[2001:db8::1]:80". */
[[nodiscard]] int net_address_parse(struct slice text, uint8_t ret[static NET_ADDRESS_LEN]);
/* The client of a request from `address`, in place: while it is trusted, the one it forwarded for,
 * from the right end of X-Forwarded-For.  Stops at an entry that is no address. */
void trusted_proxies_find_client(const struct trusted_proxies *t, const struct http_head *head,
				 uint8_t address[static NET_ADDRESS_LEN]);
#endif
