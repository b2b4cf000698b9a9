/* SPDX-License-Identifier: Apache-2.0 */
/* What an upstream proxy replies: whole and byte by byte it is the same, of which the same bytes
 * are left for the host; a connection begins after an empty line. */
#include <stdlib.h>

#include "egress/proxy-dialogue.h"
#include "fuzz.h"

static enum proxy_result reply_feed(const uint8_t *data, size_t size, size_t step, size_t *ret_used)
{
	enum proxy_result r = PROXY_MORE;
	struct http_parser p;
	size_t at = 0;

	proxy_reply_init(&p);
	while (r == PROXY_MORE && at < size) {
		size_t n = size - at < step ? size - at : step;
		uint8_t *piece = fuzz_copy(data + at, n);
		struct slice in = { (const char *)piece, n };

		r = proxy_reply_read(&p, &in);
		CHECK(in.n <= n && (r != PROXY_MORE || !in.n));
		at += n - in.n;
		free(piece);
	}
	http_parser_fini(&p);
	*ret_used = at;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t whole_used, used;
	enum proxy_result whole, r;

	if (!size || size > KIB(32))
		return 0;
	whole = reply_feed(data, size, size, &whole_used);
	r = reply_feed(data, size, 1, &used);
	CHECK(whole == r && whole < PROXY_RESULT_NUM);
	if (r == PROXY_CONNECTED) {
		CHECK(used == whole_used && used <= HTTP_HEAD_MAX);
		CHECK(used > 12 && memcmp(data, "HTTP/1.", 7) == 0 && data[9] == '2');
		CHECK(memcmp(data + used - 4, "\r\n\r\n", 4) == 0);
	}
	return 0;
}
