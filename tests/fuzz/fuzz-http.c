/* SPDX-License-Identifier: Apache-2.0 */
/* One stream of messages, cut in three ways: whole, by single bytes, and as the
 * input itself says.  All give the same events and the same bytes, or refuse. */
#include "fuzz.h"
#include "http/http.h"

#define PER_RUN 16 /* messages */

static void put(struct buf *log, const void *p, size_t n)
{
	CHECK(buf_append(log, p, n) == 0);
}

static void log_head(struct buf *log, const struct http_head *h)
{
	CHECK(h->n_headers <= HTTP_HEADERS_MAX && h->minor <= 1);
	CHECK(buf_printf(log, "<%.*s %.*s %u %u %d %llu %d%d %.*s>", (int)h->method.n, h->method.p,
			 (int)h->target.n, h->target.p, h->status, h->minor, (int)h->framing,
			 (unsigned long long)h->length, h->keep_alive, h->expect, (int)h->upgrade.n,
			 h->upgrade.p) == 0);
	CHECK(h->upgrade.n <= HTTP_PROTOCOL_MAX);
	CHECK(h->status != 101 || (h->upgrade.n && h->framing == HTTP_EMPTY));
	for (size_t i = 0; i < h->n_headers; i++) {
		put(log, h->headers[i].name.p, h->headers[i].name.n);
		put(log, "=", 1);
		put(log, h->headers[i].value.p, h->headers[i].value.n);
	}
}

/* seed 0: whole; 1: bytes; else pieces of 1..seed. */
static void run(unsigned how, const uint8_t *data, size_t size, unsigned seed, struct buf *log)
{
	struct slice all = { (const char *)data, size };
	struct http_parser p;
	struct cay_err err = {};
	unsigned messages = 0, random = seed;
	int r = 0;

	http_parser_init(&p, how & 1 ? HTTP_KIND_RESPONSE : HTTP_KIND_REQUEST);
	if (how & 2)
		http_parser_allow_upgrade(&p);
	while (all.n && r >= 0 && messages < PER_RUN) {
		struct slice in = all, body;

		random = random * 1103515245 + 12345;
		if (seed && in.n > 1 + (random >> 16) % seed)
			in.n = 1 + (random >> 16) % seed;
		all.p += in.n;
		all.n -= in.n;
		while (messages < PER_RUN &&
		       (r = http_parser_next(&p, &in, &body, &err)) > HTTP_MORE) {
			if (r == HTTP_HEAD_DONE) {
				log_head(log, &p.head);
			} else if (r == HTTP_BODY) {
				CHECK(body.n > 0);
				put(log, body.p, body.n);
			} else {
				put(log, "|", 1);
				http_parser_reset(&p);
				messages++;
			}
		}
		CHECK(r < 0 || messages == PER_RUN || in.n == 0);
	}
	if (r < 0) {
		CHECK(err.code == CAY_E_INVALID || err.code == CAY_E_HEADERS);
		put(log, "!", 1);
	}
	http_parser_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in;
	unsigned seeds[] = { 0, 1, 2 };
	auto_buf first = BUF_INIT(MIB(64));
	unsigned how;

	if (size < 2 || size > MIB(1))
		return 0;
	how = data[0];
	seeds[2] = 2u + data[1];
	in = fuzz_copy(data + 2, size - 2);
	run(how, in, size - 2, seeds[0], &first);
	for (size_t i = 1; i < ARRAY_SIZE(seeds); i++) {
		auto_buf other = BUF_INIT(MIB(64));

		run(how, in, size - 2, seeds[i], &other);
		CHECK(first.len == other.len);
		CHECK(!first.len || memcmp(first.data, other.data, first.len) == 0);
	}
	free(in);
	return 0;
}
