/* SPDX-License-Identifier: Apache-2.0 */
/* A reply as `cay` reads it: cut at any place it gives the same verdict, status
 * and body as one that comes whole. */
#include <sys/socket.h>

#include "cli/client/http-client.h"
#include "fuzz.h"

struct seen {
	bool whole;
	int status;
	size_t body;
	uint64_t sum;
};

static void take_body(struct http_client *h, struct seen *to)
{
	CHECK(h->body.len <= HTTP_PIECE);
	to->body += h->body.len;
	for (size_t i = 0; i < h->body.len; i++)
		to->sum = to->sum * 31 + (uint8_t)h->body.data[i];
	buf_clear(&h->body);
}

static struct seen feed(const uint8_t *in, size_t n, size_t step)
{
	auto_http h = { .fd = -EBADF, .out = BUF_INIT(KIB(4)), .body = BUF_INIT(KIB(64)) };
	struct cay_err err = {};
	struct seen seen = {};
	int pair[2], r = 0;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	h.fd = pair[0];
	CHECK(http_client_queue_request(
		      &h, &(struct http_client_request){
				  "GET", "/", .body_length = HTTP_CLIENT_NO_BODY }) == 0);
	while (n && r == 0) {
		size_t part = step && step < n ? step : n;

		if (part > HTTP_PIECE)
			part = HTTP_PIECE;
		CHECK(write(pair[1], in, part) == (ssize_t)part);
		r = http_client_receive(&h, &err);
		CHECK(r == 0 || (r == -EPROTO && err.code == CAY_E_MISBEHAVED));
		take_body(&h, &seen);
		in += part;
		n -= part;
	}
	(void)close(pair[1]);
	if (r == 0)
		r = http_client_receive(&h, &err);
	CHECK(r == 0 || r == -EPROTO || r == -ECONNRESET);
	CHECK((r == 0) == (h.reply_complete && err.code == CAY_OK));
	if (h.head_complete)
		CHECK(h.status >= 200 && h.status < 600);
	seen.whole = r == 0;
	seen.status = h.status;
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole, parts;

	if (size < 1)
		return 0;
	whole = feed(data + 1, size - 1, 0);
	parts = feed(data + 1, size - 1, data[0]);
	CHECK(whole.whole == parts.whole);
	if (whole.whole)
		CHECK(whole.status == parts.status && whole.body == parts.body &&
		      whole.sum == parts.sum);
	return 0;
}
