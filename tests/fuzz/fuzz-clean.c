/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a server says: what is passed on are lines, none of them says what it may not. */
#include "fuzz.h"
#include "net/proxy-headers.h"

static bool is(struct slice line, const char *name)
{
	return http_equals_nocase(slice_cut(&line, ':'), name);
}

static void check(const struct proxy_headers *c, const struct http_head *h)
{
	static const char *const never[] = { "content-length",
					     "transfer-encoding",
					     "connection",
					     "upgrade",
					     "strict-transport-security",
					     "clear-site-data",
					     "x-accel-redirect",
					     "cay-exec" };
	auto_buf out = BUF_INIT(KIB(64));
	struct slice rest;

	CHECK(proxy_headers_write_reply(c, h, &out) >= 0);
	rest = (struct slice){ out.data, out.len };
	while (rest.n) {
		struct slice line = slice_cut(&rest, '\n'), value = line;

		CHECK(line.n > 2 && line.p[line.n - 1] == '\r' && memchr(line.p, ':', line.n));
		line.n--;
		CHECK(!memchr(line.p, '\r', line.n));
		for (size_t i = 0; i < ARRAY_SIZE(never); i++)
			CHECK(!is(line, never[i]));
		CHECK(!c->prefix || !is(line, "set-cookie"));
		(void)slice_cut(&value, ':');
		value = slice_trim(value);
		if (c->prefix && is(line, "location"))
			CHECK(value.n > strlen(c->prefix) &&
			      memcmp(value.p, c->prefix, strlen(c->prefix)) == 0);
		if (is(line, "set-cookie"))
			(void)slice_cut(&value, ';'); /* its own name may be that */
		while (is(line, "set-cookie") && value.p) {
			struct slice part = slice_trim(slice_cut(&value, ';'));

			CHECK(!http_equals_nocase(slice_trim(slice_cut(&part, '=')), "domain"));
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct proxy_headers by_path = { .prefix = "/p/80",
						      .cookie = "c",
						      .port = 80 };
	static const struct proxy_headers by_host = {
		.cookie = "c", .host = "h", .scheme = "https", .port = 80
	};
	char *in = fuzz_copy(data, size);
	struct slice rest = { in, size }, body;
	auto_buf out = BUF_INIT(KIB(64));
	struct http_parser p;
	struct cay_err err = {};

	http_parser_init(&p, HTTP_KIND_RESPONSE);
	http_parser_set_web_server(&p, size & 1);
	if (http_parser_next(&p, &rest, &body, &err) == HTTP_HEAD_DONE) {
		check(&by_path, &p.head);
		check(&by_host, &p.head);
		CHECK(proxy_headers_write_request(&by_host, &p.head, &out) >= 0);
		CHECK(!out.len || out.data[out.len - 1] == '\n');
	}
	http_parser_fini(&p);
	free(in);
	return 0;
}
