/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_PROXY_HEADER_H
#define CAY_WIRE_PROXY_HEADER_H
/*
 * proxy-header - the address of a client, sent by a proxy as the first bytes of a connection
 *
 * Version 2 of HAProxy's PROXY protocol, which is binary; version 1, a line of text, is refused.
 * Only TCP over IPv4 or IPv6 has an address; LOCAL (a health check of the proxy itself) and
 * an unspecified family have none.  Other fields (TLVs) are skipped.
 *
 * Fed in pieces of any size.  Pure; bounded: PROXY_HEADER_MAX bytes, of which the first
 * PROXY_HEADER_KEPT are kept.
 */
#include "base/str.h"

#define PROXY_HEADER_FIXED 16
#define PROXY_HEADER_KEPT (PROXY_HEADER_FIXED + 36)
#define PROXY_HEADER_MAX KIB(4)

struct proxy_header {
	size_t n; /* bytes read */
	uint8_t kept[PROXY_HEADER_KEPT];
	bool has_address;
	uint8_t address[16]; /* of the client; IPv4 as ::ffff:a.b.c.d */
	uint16_t port;
};

enum proxy_header_progress {
	PROXY_HEADER_MORE, /* feed it more */
	PROXY_HEADER_DONE,
	PROXY_HEADER_NONE, /* the connection begins with something else; nothing was read */
};

/* Read from the front of *in, which is left with what follows.  An enum proxy_header_progress, or
 * -EPROTO: neither a header nor anything that may begin a connection. */
[[nodiscard]] int proxy_header_feed(struct proxy_header *h, struct slice *in);
#endif
