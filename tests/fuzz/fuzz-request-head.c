/* SPDX-License-Identifier: Apache-2.0 */
/* The head that cay-egress writes for a request to a.example:443: a parser finds in it the method,
 * the target and the framing of the request, and the host that was dialled. */
#include "egress/request-head.h"
#include "fuzz.h"

static int head_read(struct http_parser *p, struct slice in)
{
	struct cay_err err = {};
	struct slice body;

	http_parser_init(p, HTTP_KIND_REQUEST);
	return http_parser_next(p, &in, &body, &err);
}

static void head_check(const struct http_head *h, const struct host_name *name)
{
	auto_buf out = BUF_INIT(REQUEST_HEAD_MAX), text = BUF_INIT(KIB(64));
	static struct http_parser again;
	struct egress_verdict v = { .action = EGRESS_DENY, .rule = 1 };
	struct refusal r = { .status = 403,
			     .why = "request_denied",
			     .head = h,
			     .scheme = "https",
			     .sandbox = "sb",
			     .name = name,
			     .port = 443,
			     .by = &v };

	CHECK(refusal_write(&r, &text) >= 0);
	if (request_refusal(h, name, 443))
		return;
	CHECK(inspected_head_write(h, name, &out) >= 0);
	CHECK(head_read(&again, (struct slice){ out.data, out.len }) == HTTP_HEAD_DONE);
	CHECK(slice_eq(again.head.method, h->method) && slice_eq(again.head.target, h->target));
	CHECK(again.head.framing == h->framing && again.head.length == h->length);
	CHECK(slice_eq(http_header_find(&again.head, "host"), SLICE("a.example")));
	CHECK(!http_header_find(&again.head, "proxy-authorization").p);
	http_parser_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	static struct http_parser parser;
	struct host_name name;

	CHECK(host_name_parse(SLICE("a.example"), &name) == 0);
	if (head_read(&parser, (struct slice){ in, size }) == HTTP_HEAD_DONE)
		head_check(&parser.head, &name);
	http_parser_fini(&parser);
	free(in);
	return 0;
}
