/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_URL_H
#define CAY_CLI_CLIENT_URL_H
/*
 * url - where a daemon is reached: a scheme, a host and perhaps a port
 *
 *	https and a name, an IPv4 address, or an IPv6 one in brackets; :PORT; /
 *
 * Nothing else: no user, path, query or fragment, so a secret has no place in one.  A
 * host that a resolver could take for an address and we do not ("127.1", "0x7f") is
 * refused, because what is loopback is decided here by its spelling.
 */
#include "base/err.h"
#include "base/str.h"

#define URL_HOST_MAX 253
#define URL_MAX (URL_HOST_MAX + 32)

struct url {
	bool tls;
	bool address;                /* the host is an IP address */
	bool loopback;               /* it cannot be another machine's */
	char host[URL_HOST_MAX + 1]; /* lower case, without brackets */
	unsigned port;
};

[[nodiscard]] int url_parse(struct slice text, struct url *ret, struct cay_err *err);
/* "box.example:7070", "[::1]:7070": for people and for Host. */
void url_format_authority(const struct url *u, char ret[static URL_MAX]);
/* As url_parse() takes it, always spelled the same. */
void url_format(const struct url *u, char ret[static URL_MAX]);
#endif
