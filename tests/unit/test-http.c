/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"
#include "unit.h"

#define H "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\n" H
#define OK200 "HTTP/1.1 200 OK\r\n"
#define NONE "Content-Length: 0\r\n\r\n"

/* What a message gives, as text: "H" for a head, its body in brackets, "E" for
 * its end, and behind it how many bytes were left; "400" or "431" when refused. */
static void events(enum http_kind kind, struct slice all, size_t piece, struct buf *out)
{
	struct http_parser p;
	struct cay_err err = {};
	bool ended = false, in_body = false;
	size_t left = 0;
	int r = 0;

	http_parser_init(&p, kind);
	while (all.n && !ended && r >= 0) {
		struct slice in = { all.p, all.n < piece ? all.n : piece }, body = {};

		all.p += in.n;
		all.n -= in.n;
		while (!ended && (r = http_parser_next(&p, &in, &body, &err)) > HTTP_MORE) {
			if (r != HTTP_BODY && in_body)
				assert_int_equal(buf_putc(out, ']'), 0);
			if (r == HTTP_BODY && !in_body)
				assert_int_equal(buf_putc(out, '['), 0);
			in_body = r == HTTP_BODY;
			if (r == HTTP_HEAD_DONE)
				assert_int_equal(buf_putc(out, 'H'), 0);
			if (r == HTTP_BODY)
				assert_int_equal(buf_append(out, body.p, body.n), 0);
			ended = r == HTTP_END;
			left = in.n;
		}
		if (!ended && r >= 0)
			assert_int_equal(in.n, 0);
	}
	if (r < 0) {
		assert_true(err.code == CAY_E_INVALID || err.code == CAY_E_HEADERS);
		assert_true(err.msg[0]);
		buf_clear(out);
		assert_int_equal(buf_printf(out, "%d", cay_error_row(err.code)->http), 0);
	} else if (ended) {
		assert_true(http_parser_has_ended(&p));
		assert_int_equal(buf_printf(out, "E%zu", left + all.n), 0);
	}
	http_parser_fini(&p);
}

struct row {
	const char *bytes, *want;
};

static void walk(enum http_kind kind, const struct row *rows, size_t n)
{
	static const size_t pieces[] = { SIZE_MAX, 1, 2, 3, 7 };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < ARRAY_SIZE(pieces); k++) {
			auto_buf got = BUF_INIT(4096);

			events(kind, slice_of(rows[i].bytes), pieces[k], &got);
			if (!str_eq(buf_str(&got), rows[i].want))
				fail_msg("row %zu in pieces of %zu: got %s, want %s:\n%s", i,
					 pieces[k], buf_str(&got), rows[i].want, rows[i].bytes);
		}
}

static const struct row requests[] = {
	/* what is good */
	{ GET H "\r\n", "HE0" },
	{ "GET / HTTP/1.0\r\n\r\n", "HE0" },
	{ "GET /a/b?c=%20&d=1;e='(x)' HTTP/1.1\r\n" H "\r\n", "HE0" },
	{ GET "host:a.example-1.org:8080\r\n\r\n", "HE0" },
	{ GET "Host: [::1]:80\r\n\r\n", "HE0" },
	{ GET "Host: [::ffff:1.2.3.4]\r\n\r\n", "HE0" },
	{ GET H "Empty:\r\nX:  y \t\r\n\r\n", "HE0" },
	{ POST "Content-Length: 5\r\n\r\nhello", "H[hello]E0" },
	{ POST "Content-Length: 0\r\n\r\n", "HE0" },
	{ POST "Content-Length: 2\r\n\r\nhi" GET, "H[hi]E16" },
	{ POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "H[hello]E0" },
	{ POST "transfer-encoding: Chunked\r\n\r\n3\r\nhel\r\n00002\r\nlo\r\n0\r\n\r\nX",
	  "H[hello]E1" },
	{ POST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HE0" },
	{ POST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", "H[x]E0" },
	{ GET H "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", "HE0" },
	{ GET H "Connection: keep-alive, close\r\n\r\n", "HE0" },
	{ POST "Content-Length: 999999999999999\r\n\r\n", "H" },
	{ "OPTIONS / HTTP/1.1\r\n" H "\r\n", "HE0" },
	/* a part of one */
	{ "GET / HT", "" },
	{ GET H "\r", "" },
	{ POST "Content-Length: 5\r\n\r\nhel", "H[hel" },

	/* request lines */
	{ "GET / HTTP/0.9\r\n" H "\r\n", "400" },
	{ "GET / HTTP/2.0\r\n" H "\r\n", "400" },
	{ "GET / HTTP/1.2\r\n" H "\r\n", "400" },
	{ "GET / HTTP/1.10\r\n" H "\r\n", "400" },
	{ "GET / http/1.1\r\n" H "\r\n", "400" },
	{ "GET /\r\n" H "\r\n", "400" },
	{ "GET / \r\n" H "\r\n", "400" },
	{ "GET\r\n\r\n", "400" },
	{ "OPTIONS / RTSP/1.0\r\n" H "\r\n", "400" },
	{ "SOURCE / ICE/1.0\r\n" H "\r\n", "400" },
	{ "\r\n" GET H "\r\n", "400" },
	{ "\n" GET H "\r\n", "400" },
	{ " " GET H "\r\n", "400" },
	{ "GET  / HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /  HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET / HTTP/1.1 \r\n" H "\r\n", "400" },
	{ "GET\t/ HTTP/1.1\r\n" H "\r\n", "400" },
	{ "get / HTTP/1.1\r\n" H "\r\n", "400" },
	{ "FROB / HTTP/1.1\r\n" H "\r\n", "400" },
	{ "CONNECT a:80 HTTP/1.1\r\n" H "\r\n", "400" },
	{ "CONNECT / HTTP/1.1\r\n" H "\r\n", "400" },
	{ "PRI * HTTP/2.0\r\n\r\n", "400" },
	{ "GET * HTTP/1.1\r\n" H "\r\n", "400" },
	{ "OPTIONS * HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET http:"
	  "//b/ HTTP/1.1\r\n" H "\r\n",
	  "400" },
	{ "GET a HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /#x HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /\" HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /{ HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /} HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /\\ HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /| HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /<> HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /\x80 HTTP/1.1\r\n" H "\r\n", "400" },
	{ "GET /\x01 HTTP/1.1\r\n" H "\r\n", "400" },

	/* Host */
	{ GET "\r\n", "400" },
	{ GET "Host:\r\n\r\n", "400" },
	{ GET H H "\r\n", "400" },
	{ GET H "Host: b\r\n\r\n", "400" },
	{ "GET / HTTP/1.0\r\n" H H "\r\n", "400" },
	{ GET "Host:\ta\r\n\r\n", "400" },
	{ GET "Host: a\t\r\n\r\n", "400" },
	{ GET "Host: a:80:80\r\n\r\n", "400" },
	{ GET "Host: a,b\r\n\r\n", "400" },
	{ GET "Host: u@a\r\n\r\n", "400" },
	{ GET "Host: a/b\r\n\r\n", "400" },
	{ GET "Host: a b\r\n\r\n", "400" },
	{ GET "Host: a:99999\r\n\r\n", "400" },
	{ GET "Host: a:\r\n\r\n", "400" },
	{ GET "Host: [::1\r\n\r\n", "400" },
	{ GET "Host: []\r\n\r\n", "400" },
	{ GET "Host: [g]\r\n\r\n", "400" },
	{ GET "Host: [::1]a\r\n\r\n", "400" },

	/* headers */
	{ GET H "X: a\nY: b\r\n\r\n", "400" },
	{ GET H "X: a\rY: b\r\n\r\n", "400" },
	{ GET H "X: a\r\n b\r\n\r\n", "400" },
	{ GET H "X : a\r\n\r\n", "400" },
	{ GET H ": a\r\n\r\n", "400" },
	{ GET H "X\r\n\r\n", "400" },
	{ GET H "X: \xe9\r\n\r\n", "400" },
	{ GET H "X: \x7f\r\n\r\n", "400" },
	{ GET H "X_Y: a\r\n\r\n", "400" },
	{ POST "Content_Length: 5\r\n\r\n", "400" },
	{ POST "Transfer_Encoding: chunked\r\n\r\n", "400" },
	{ GET H "Upgrade: h2c\r\n\r\n", "400" },
	{ GET H "Expect: nonsense\r\n\r\n", "400" },
	{ GET H "Connection: Transfer-Encoding\r\n\r\n", "400" },
	{ GET H "Connection: close, content-length\r\n\r\n", "400" },
	{ GET H "Connection:\tclose\r\n\r\n", "400" },
	{ GET H "Connection: Host\r\n\r\n", "400" },

	/* lengths */
	{ POST "Content-Length: 05\r\n\r\nhello", "400" },
	{ POST "Content-Length: +5\r\n\r\nhello", "400" },
	{ POST "Content-Length: -5\r\n\r\nhello", "400" },
	{ POST "Content-Length:\t5\r\n\r\nhello", "400" },
	{ POST "Content-Length: 5 5\r\n\r\nhello", "400" },
	{ POST "Content-Length: 5,5\r\n\r\nhello", "400" },
	{ POST "Content-Length: 0x5\r\n\r\nhello", "400" },
	{ POST "Content-Length:\r\n\r\n", "400" },
	{ POST "Content-Length: 1000000000000000\r\n\r\n", "400" },
	{ POST "Content-Length: 18446744073709551615\r\n\r\n", "400" },
	{ POST "Content-Length: 100000000000000000000000000000\r\n\r\n", "400" },
	{ POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "400" },
	{ POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400" },

	/* codings */
	{ POST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", "400" },
	{ POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400" },
	{ POST "Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", "400" },
	{ POST "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n", "400" },
	{ POST "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n", "400" },
	{ POST "Transfer-Encoding: gzip\r\n\r\n", "400" },
	{ POST "Transfer-Encoding: identity\r\n\r\n", "400" },
	{ POST "Transfer-Encoding: chunked, identity\r\n\r\n", "400" },
	{ POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
	{ POST "Transfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello", "400" },
	{ POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400" },
	{ POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
	{ "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
	{ GET H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },

/* chunks */
#define CH POST "Transfer-Encoding: chunked\r\n\r\n"
	{ CH "FFFFFFFFFFFFFFFF\r\n", "400" },
	{ CH "10000000001\r\n", "400" },
	{ CH "000000000000000000000000000000000005\r\nhello", "400" },
	{ CH "5;x=y\r\nhello\r\n0\r\n\r\n", "400" },
	{ CH "5;x\r\nhello\r\n0\r\n\r\n", "400" },
	{ CH "5;\r\nhello\r\n0\r\n\r\n", "400" },
	{ CH "5;=y\r\nhello\r\n0\r\n\r\n", "400" },
	{ CH "5\nhello\r\n0\r\n\r\n", "400" },
	{ CH "5\r\nhelloX\r\n0\r\n\r\n", "400" },
	{ CH "5\r\nhello0\r\n\r\n", "400" },
	{ CH "g\r\n", "400" },
	{ CH "\r\n", "400" },
	{ CH "-1\r\n", "400" },
	{ CH " 5\r\nhello\r\n", "400" },
	{ CH "0\r\nX: y\r\n\r\n", "400" },
	{ CH "0\r\nX:\r\n\r\n", "400" },
	{ CH "0\r\nHost: b\r\n\r\n", "400" },
	{ CH "0\r\nContent-Length: 5\r\n\r\n", "400" },
};

static const struct row responses[] = {
	{ OK200 NONE, "HE0" },
	{ "HTTP/1.1 200\r\n" NONE, "HE0" },
	{ OK200 "Content-Length: 2\r\n\r\nhi", "H[hi]E0" },
	{ OK200 "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "H[hi]E0" },
	{ "HTTP/1.1 204 No\r\n\r\n", "HE0" },
	{ "HTTP/1.1 599 x\r\n" NONE, "HE0" },
	{ "HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n", "HE0" },
	{ "HTTP/1.0 200 OK\r\n" NONE, "HE0" },
	{ "HTTP/1.1 100 Continue\r\n\r\n" OK200 NONE, "HE0" },
	{ OK200 "Content-Length: 2\r\n\r\nhi" OK200 NONE, "H[hi]E38" },
	/* refused */
	{ "HTTP/1.1 000 x\r\n" NONE, "400" },
	{ "HTTP/1.1 099 x\r\n" NONE, "400" },
	{ "HTTP/1.1 600 x\r\n" NONE, "400" },
	{ "HTTP/1.1 999 x\r\n" NONE, "400" },
	{ "HTTP/1.1 20 x\r\n" NONE, "400" },
	{ "HTTP/1.1 2000 x\r\n" NONE, "400" },
	{ "HTTP/0.9 200 x\r\n" NONE, "400" },
	{ "HTTP/2.0 200 x\r\n" NONE, "400" },
	{ "HTTP/1.1  200 x\r\n" NONE, "400" },
	{ "HTTP/1.1 200 \x01\r\n" NONE, "400" },
	{ "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "400" },
	{ "HTTP/1.1 200 OK\r\n\r\nuntil the end", "400" },
	{ "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
	{ "HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n", "400" },
	{ "HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
	{ "HTTP/1.1 100 x\r\nContent-Length: 5\r\n\r\n", "400" },
	{ OK200 "Content-Length: 05\r\n\r\n", "400" },
	{ OK200 "Transfer-Encoding: gzip, chunked\r\n\r\n", "400" },
	{ OK200 "Expect: 100-continue\r\n" NONE, "400" },
	{ "GET / HTTP/1.1\r\n" H "\r\n", "400" },
#define C100 "HTTP/1.1 100 x\r\n\r\n"
	{ C100 C100 C100 C100 OK200 NONE, "HE0" },
	{ C100 C100 C100 C100 C100 OK200 NONE, "400" },
};

static void every_request_of_the_table_is_read_alike_in_any_pieces(void **)
{
	walk(HTTP_KIND_REQUEST, requests, ARRAY_SIZE(requests));
}

static void every_response_of_the_table_is_read_alike_in_any_pieces(void **)
{
	walk(HTTP_KIND_RESPONSE, responses, ARRAY_SIZE(responses));
}

static void a_nul_is_refused(void **)
{
	auto_buf got = BUF_INIT(64);

	events(HTTP_KIND_REQUEST, SLICE(GET H "X: a\0b\r\n\r\n"), SIZE_MAX, &got);
	assert_text(&got, "400");
}

/* A request whose head is n bytes, or has n headers. */
static void sized(struct buf *out, size_t bytes, size_t headers)
{
	assert_int_equal(buf_puts(out, GET H), 0);
	for (size_t i = 1; i < headers; i++)
		assert_int_equal(buf_puts(out, "X: y\r\n"), 0);
	if (bytes) {
		assert_int_equal(buf_puts(out, "Y: "), 0);
		while (out->len + 4 < bytes)
			assert_int_equal(buf_putc(out, 'y'), 0);
		assert_int_equal(buf_puts(out, "\r\n"), 0);
	}
	assert_int_equal(buf_puts(out, "\r\n"), 0);
}

static void heads_have_limits(void **)
{
	static const struct {
		size_t bytes, headers, target;
		const char *want;
	} rows[] = {
		{ HTTP_HEAD_MAX, 1, 0, "HE0" },
		{ HTTP_HEAD_MAX + 1, 1, 0, "431" },
		{ 60000, 1, 0, "431" },
		{ 0, HTTP_HEADERS_MAX, 0, "HE0" },
		{ 0, HTTP_HEADERS_MAX + 1, 0, "431" },
		{ 0, 2000, 0, "431" },
		{ 0, 0, HTTP_TARGET_MAX, "HE0" },
		{ 0, 0, HTTP_TARGET_MAX + 1, "431" },
		{ 0, 0, 1000000, "431" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf in = BUF_INIT(MIB(2)), got = BUF_INIT(64);

		if (rows[i].target) {
			assert_int_equal(buf_puts(&in, "GET /"), 0);
			while (in.len < 4 + rows[i].target)
				assert_int_equal(buf_putc(&in, 'a'), 0);
			assert_int_equal(buf_puts(&in, " HTTP/1.1\r\n" H "\r\n"), 0);
		} else {
			sized(&in, rows[i].bytes, rows[i].headers);
		}
		events(HTTP_KIND_REQUEST, (struct slice){ in.data, in.len }, 100, &got);
		if (!str_eq(buf_str(&got), rows[i].want))
			fail_msg("row %zu: %s", i, buf_str(&got));
	}
}

static void what_the_head_says_is_there(void **)
{
	static const char text[] =
		"POST /a?b HTTP/1.1\r\nHOST: x\r\nAccept: text/*, "
		"text/event-stream;q=1\r\naccept: application/vnd.cay.frames\r\n"
		"Prefer: wait=10, end-with-caller;x\r\nprefer: handling=strict\r\n"
		"Expect: 100-Continue\r\nContent-Length: 7\r\n\r\n";
	struct slice in = slice_of(text), body;
	struct http_parser p;
	struct cay_err err = {};

	http_parser_init(&p, HTTP_KIND_REQUEST);
	assert_true(http_parser_is_idle(&p));
	assert_int_equal(http_parser_next(&p, &in, &body, &err), HTTP_HEAD_DONE);
	assert_false(http_parser_is_idle(&p));
	assert_true(slice_eq(p.head.method, SLICE("POST")));
	assert_true(slice_eq(p.head.target, SLICE("/a?b")));
	assert_true(slice_eq(http_header_find(&p.head, "host"), SLICE("x")));
	assert_null(http_header_find(&p.head, "absent").p);
	assert_true(http_accepts_media_type(&p.head, "text/event-stream"));
	assert_true(http_accepts_media_type(&p.head, "application/vnd.cay.frames"));
	assert_false(http_accepts_media_type(&p.head, "text/plain"));
	assert_true(http_prefers(&p.head, HTTP_END_WITH_CALLER));
	assert_false(http_prefers(&p.head, "text/event-stream"));
	assert_false(http_prefers(&p.head, "end"));
	assert_int_equal(p.head.framing, HTTP_LENGTH);
	assert_int_equal(p.head.length, 7);
	assert_true(p.head.expect && p.head.keep_alive && p.head.minor == 1);
	http_parser_reset(&p);
	in = SLICE("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
	assert_int_equal(http_parser_next(&p, &in, &body, &err), HTTP_HEAD_DONE);
	assert_false(p.head.keep_alive || p.head.expect);
	assert_int_equal(p.head.n_headers, 1);
	http_parser_reset(&p);
	in = SLICE(GET H "Connection: x, CLOSE\r\n\r\n");
	assert_int_equal(http_parser_next(&p, &in, &body, &err), HTTP_HEAD_DONE);
	assert_false(p.head.keep_alive);
	http_parser_fini(&p);
}

static void another_protocol_is_asked_for_in_one_way(void **)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ GET H "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "websocket" },
		{ GET H "Upgrade: h2c\r\nConnection: x, upgrade\r\n\r\n", "h2c" },
		{ GET H "Connection: upgrade\r\nUpgrade: a/1.0\r\n\r\n", "a/1.0" },
		{ GET H "Connection: upgrade\r\n\r\n", "" },
		{ GET H "Connection: upgrade\r\nUpgrade: \r\n\r\n", "" },
		{ GET H "Connection: upgrade\r\nUpgrade: a, b\r\n\r\n", "" },
		{ GET H "Connection: upgrade\r\nUpgrade: a\r\nUpgrade: a\r\n\r\n", "" },
		{ GET H
		  "Connection: upgrade\r\nUpgrade: 0123456789012345678901234567890123\r\n\r\n",
		  "" },
		{ "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n", "" },
		{ "POST / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: a\r\n\r\n", "" },
		{ GET H "Content-Length: 1\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\nx", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct slice in = slice_of(rows[i].text), body;
		struct http_parser p;
		struct cay_err err = {};

		http_parser_init(&p, HTTP_KIND_REQUEST);
		assert_int_equal(http_parser_next(&p, &in, &body, &err), HTTP_HEAD_DONE);
		if (!slice_eq(p.head.upgrade, slice_of(rows[i].want)))
			fail_msg("row %zu", i);
		http_parser_fini(&p);
	}
}

static void a_101_is_the_end_of_http_if_it_was_asked_for(void **)
{
	static const char text[] = "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 101 x\r\nConnection: "
				   "upgrade\r\nUpgrade: a\r\n\r\nbytes";
	struct slice in = slice_of(text), body;
	struct http_parser p;
	struct cay_err err = {};

	http_parser_init(&p, HTTP_KIND_RESPONSE);
	http_parser_allow_upgrade(&p);
	assert_int_equal(http_parser_next(&p, &in, &body, &err), HTTP_HEAD_DONE);
	assert_int_equal(p.head.status, 101);
	assert_true(slice_eq(p.head.upgrade, SLICE("a")));
	assert_int_equal(http_parser_next(&p, &in, &body, &err), HTTP_END);
	assert_true(slice_eq(in, SLICE("bytes")));
	http_parser_fini(&p);
	http_parser_init(&p, HTTP_KIND_RESPONSE);
	in = slice_of(text);
	assert_true(http_parser_next(&p, &in, &body, &err) < 0);
	http_parser_fini(&p);
}

static void an_interim_response_can_be_refused(void **)
{
	struct slice in = SLICE(C100 OK200 NONE), body;
	struct http_parser p;
	struct cay_err err = {};

	http_parser_init(&p, HTTP_KIND_RESPONSE);
	http_parser_refuse_interim(&p);
	assert_true(http_parser_next(&p, &in, &body, &err) < 0);
	http_parser_fini(&p);
	http_parser_init(&p, HTTP_KIND_RESPONSE);
	http_parser_refuse_interim(&p);
	in = SLICE(OK200 NONE);
	assert_int_equal(http_parser_next(&p, &in, &body, &err), HTTP_HEAD_DONE);
	http_parser_fini(&p);
}

static void an_origin_is_a_scheme_and_a_host_alone(void **)
{
	static const struct {
		const char *text, *want; /* NULL: none */
	} rows[] = {
		{ "http://localhost", "localhost" },
		{ "https://cay.example:8443", "cay.example:8443" },
		{ "http://[::1]:7070", "[::1]:7070" },
		{ "", NULL },
		{ "https", NULL },
		{ "https:", NULL },
		{ "https://", NULL },
		{ "https:/x", NULL },
		{ "https:x//y", NULL },
		{ "//localhost", NULL },
		{ "localhost:80", NULL },
		{ "HTTPS://localhost", NULL },
		{ "ftp://localhost", NULL },
		{ "https://localhost/", NULL },
		{ "https://localhost?x", NULL },
		{ "https://a@localhost", NULL },
		{ "https://localhost:1@evil.example", NULL },
		{ "https://localhost:65536", NULL },
		{ "https://local host", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct slice got = http_origin_parse_host(slice_of(rows[i].text));

		if (rows[i].want ? !slice_eq(got, slice_of(rows[i].want)) : got.p != NULL)
			fail_msg("row %zu: %s", i, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_request_of_the_table_is_read_alike_in_any_pieces),
		cmocka_unit_test(every_response_of_the_table_is_read_alike_in_any_pieces),
		cmocka_unit_test(a_nul_is_refused),
		cmocka_unit_test(heads_have_limits),
		cmocka_unit_test(what_the_head_says_is_there),
		cmocka_unit_test(another_protocol_is_asked_for_in_one_way),
		cmocka_unit_test(a_101_is_the_end_of_http_if_it_was_asked_for),
		cmocka_unit_test(an_interim_response_can_be_refused),
		cmocka_unit_test(an_origin_is_a_scheme_and_a_host_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
