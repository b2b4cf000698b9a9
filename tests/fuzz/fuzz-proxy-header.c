/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a connection of a proxy: at once and in pieces they are read alike. */
#include <errno.h>

#include "fuzz.h"
#include "wire/proxy-header.h"

static int feed_pieces(struct proxy_header *h, struct slice in, size_t piece, size_t *left)
{
	int r = PROXY_HEADER_MORE;

	while (in.n && r == PROXY_HEADER_MORE) {
		size_t n = in.n < piece ? in.n : piece;
		struct slice part = { in.p, n };

		r = proxy_header_feed(h, &part);
		in.p += n - part.n;
		in.n -= n - part.n;
	}
	*left = in.n;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice rest = { in, size };
	struct proxy_header whole = {}, parts = {};
	size_t left = 0;
	int r = proxy_header_feed(&whole, &rest), again;

	again = feed_pieces(&parts, (struct slice){ in, size }, size % 7 + 1, &left);
	CHECK(r == again);
	if (r >= 0) {
		CHECK(rest.n == left && whole.n == parts.n && whole.n + rest.n == size);
		CHECK(whole.has_address == parts.has_address);
		CHECK(memcmp(whole.address, parts.address, sizeof(whole.address)) == 0);
	}
	CHECK(whole.n <= PROXY_HEADER_MAX);
	CHECK(!whole.has_address || r == PROXY_HEADER_DONE);
	CHECK(r != PROXY_HEADER_NONE || !whole.n);
	free(in);
	return 0;
}
