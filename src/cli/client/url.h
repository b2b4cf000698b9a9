/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_URL_H
#define CAY_CLI_CLIENT_URL_H
/*
 * url - the address of a daemon: SCHEME://HOST[:PORT][/]
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets.  User, path, query and
 * fragment are refused, so a url cannot hold a secret.  So is a host that a resolver could
 * take for an address but we do not ("127.1", "0x7f"): whether a host is loopback is
 * decided here by its spelling.
 */
#include "base/err.h"
#include "base/str.h"

#define URL_HOST_MAX 253
#define URL_MAX (URL_HOST_MAX + 32)

struct url {
	bool tls;
	bool address;                /* the host is an IP address */
	bool loopback;               /* cannot be another machine */
	char host[URL_HOST_MAX + 1]; /* lower case, without brackets */
	unsigned port;
};

[[nodiscard]] int url_parse(struct slice text, struct url *ret, struct cay_err *err);
/* "box.example:7070", "[::1]:7070": for messages and the Host header. */
void url_format_authority(const struct url *u, char ret[static URL_MAX]);
void url_format(const struct url *u, char ret[static URL_MAX]);
#endif
