/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/proxy-header.h"

#include <errno.h>

enum {
	COMMAND_LOCAL = 0x20, /* with the version, 2 */
	COMMAND_PROXY = 0x21,
	FAMILY_NONE = 0x00,
	FAMILY_TCP4 = 0x11,
	FAMILY_TCP6 = 0x21,
	/* two addresses and two ports */
	LEN_TCP4 = 12,
	LEN_TCP6 = 36,
};

static const uint8_t signature[] = {
	'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'
};

static size_t proxy_header_len(const struct proxy_header *h)
{
	return (size_t)h->kept[14] << 8 | h->kept[15];
}

/* The first PROXY_HEADER_FIXED bytes are there. */
static int proxy_header_check(const struct proxy_header *h)
{
	size_t len = proxy_header_len(h), least = 0;

	if (h->kept[12] != COMMAND_LOCAL && h->kept[12] != COMMAND_PROXY)
		return -EPROTO;
	if (h->kept[12] == COMMAND_PROXY && h->kept[13] == FAMILY_TCP4)
		least = LEN_TCP4;
	else if (h->kept[12] == COMMAND_PROXY && h->kept[13] == FAMILY_TCP6)
		least = LEN_TCP6;
	else if (h->kept[12] == COMMAND_PROXY && h->kept[13] != FAMILY_NONE)
		return -EPROTO;
	return len < least || len > PROXY_HEADER_MAX - PROXY_HEADER_FIXED ? -EPROTO : 0;
}

static void proxy_header_set_address(struct proxy_header *h)
{
	const uint8_t *from = h->kept + PROXY_HEADER_FIXED, *port;

	h->has_address = h->kept[12] == COMMAND_PROXY && h->kept[13] != FAMILY_NONE;
	if (!h->has_address)
		return;
	if (h->kept[13] == FAMILY_TCP4) {
		memset(h->address, 0, 10);
		memset(h->address + 10, 0xff, 2);
		memcpy(h->address + 12, from, 4);
		port = from + 8;
	} else {
		memcpy(h->address, from, 16);
		port = from + 32;
	}
	h->port = (uint16_t)(port[0] << 8 | port[1]);
}

int proxy_header_feed(struct proxy_header *h, struct slice *in)
{
	/* neither HTTP nor TLS begins with this byte */
	if (!h->n && in->n && (uint8_t)in->p[0] != signature[0])
		return PROXY_HEADER_NONE;
	while (in->n) {
		uint8_t byte = (uint8_t)in->p[0];

		if (h->n < sizeof(signature) && byte != signature[h->n])
			return -EPROTO;
		if (h->n < PROXY_HEADER_KEPT)
			h->kept[h->n] = byte;
		h->n++;
		in->p++;
		in->n--;
		if (h->n == PROXY_HEADER_FIXED && proxy_header_check(h) < 0)
			return -EPROTO;
		if (h->n >= PROXY_HEADER_FIXED &&
		    h->n == PROXY_HEADER_FIXED + proxy_header_len(h)) {
			proxy_header_set_address(h);
			return PROXY_HEADER_DONE;
		}
	}
	return PROXY_HEADER_MORE;
}
