/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step from any state that reading can reach, with any three bytes: inside, bounded, such a
 * state again, and an address only from a complete header of a family that has one.
 *
 * sources: wire/proxy-header.c
 * unwind: 18
 */
#include <errno.h>

#include "proof.h"
#include "wire/proxy-header.h"

static size_t length(const struct proxy_header *h)
{
	return (size_t)h->kept[14] << 8 | h->kept[15];
}

/* Not done: before the length, or inside of what it says. */
static _Bool reachable(const struct proxy_header *h)
{
	_Bool proxy = h->kept[12] == 0x21;

	return !h->has_address &&
	       (h->n < PROXY_HEADER_FIXED ||
		(h->n < PROXY_HEADER_FIXED + length(h) &&
		 length(h) <= PROXY_HEADER_MAX - PROXY_HEADER_FIXED &&
		 (proxy || h->kept[12] == 0x20) &&
		 (!proxy || h->kept[13] == 0x00 || (h->kept[13] == 0x11 && length(h) >= 12) ||
		  (h->kept[13] == 0x21 && length(h) >= 36))));
}

int main(void)
{
	size_t n = nondet_size(), before;
	struct proxy_header h;
	struct slice in;
	int r;

	h.has_address = 0;
	assume(n <= 3 && reachable(&h));
	in = (struct slice){ bytes_of(n), n };
	before = h.n;
	r = proxy_header_feed(&h, &in);
	prove(r == -EPROTO || (r >= PROXY_HEADER_MORE && r <= PROXY_HEADER_NONE));
	prove(h.n >= before && h.n <= before + n && h.n <= PROXY_HEADER_MAX);
	if (r == PROXY_HEADER_MORE)
		prove(in.n == 0 && h.n == before + n && reachable(&h));
	if (r == PROXY_HEADER_DONE)
		prove(h.n == PROXY_HEADER_FIXED + length(&h) && h.n - before + in.n == n);
	if (r == PROXY_HEADER_NONE)
		prove(before == 0 && h.n == 0 && in.n == n);
	if (h.has_address)
		prove(r == PROXY_HEADER_DONE && h.n >= PROXY_HEADER_FIXED + 12);
	return 0;
}
