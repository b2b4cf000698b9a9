/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ws.h"
#include "unit.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define UP "Upgrade: websocket\r\n"
#define CONN "Connection: Upgrade\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VER "Sec-WebSocket-Version: 13\r\n"
#define PROTO "Sec-WebSocket-Protocol: "
#define ALL GET UP CONN KEY VER
#define YES "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

static const char *const ours[] = { "cay.v1", "cay.v2", NULL };

static const struct {
	const char *request, *want; /* Sec-WebSocket-Accept and the protocol, or a status */
} rows[] = {
	/* the example of RFC 6455 1.3, and what clients make of it */
	{ ALL "\r\n", YES },
	{ GET VER KEY CONN UP "\r\n", YES },
	{ GET "upgrade: WebSocket\r\nCONNECTION: keep-alive, upGRADE\r\n" KEY VER "\r\n", YES },
	{ GET UP "Connection: keep-alive\r\nConnection: Upgrade\r\n" KEY VER "\r\n", YES },
	{ ALL "Origin: null\r\nX-More: 1\r\n\r\n", YES },
	{ ALL "Content-Length: 0\r\n\r\n", YES },
	{ GET UP CONN VER "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
	  "ICX+Yqv66kxgM0FcWaLWlFLwTAI=" },
	{ GET UP CONN VER "Sec-WebSocket-Key:\t dGhlIHNhbXBsZSBub25jZQ== \r\n\r\n", YES },

	/* extensions are offered and never taken */
	{ ALL "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n", YES },
	{ ALL "Sec-WebSocket-Extensions: a\r\nSec-WebSocket-Extensions: b\r\n\r\n", YES },

	/* the request */
	{ "POST / HTTP/1.1\r\nHost: a\r\n" UP CONN KEY VER "Content-Length: 0\r\n\r\n", "400" },
	{ "HEAD / HTTP/1.1\r\nHost: a\r\n" UP CONN KEY VER "\r\n", "400" },
	{ "OPTIONS / HTTP/1.1\r\nHost: a\r\n" UP CONN KEY VER "\r\n", "400" },
	{ "GET / HTTP/1.0\r\nHost: a\r\n" UP CONN KEY VER "\r\n", "400" },
	{ ALL "Content-Length: 1\r\n\r\nx", "400" },
	{ ALL "Expect: 100-continue\r\n\r\n", "400" },

	/* Upgrade */
	{ GET "\r\n", "426" },
	{ GET CONN KEY VER "\r\n", "426" },
	{ GET "Upgrade: h2c\r\n" CONN KEY VER "\r\n", "426" },
	{ GET "Upgrade:\r\n" CONN KEY VER "\r\n", "426" },
	{ GET "Upgrade: websocket/13\r\n" CONN KEY VER "\r\n", "426" },
	{ GET "Upgrade: websocketx\r\n" CONN KEY VER "\r\n", "426" },
	{ GET "Upgrade: websocke\r\n" CONN KEY VER "\r\n", "426" },
	{ GET "Upgrade: websocket, h2c\r\n" CONN KEY VER "\r\n", "426" },
	{ GET UP UP CONN KEY VER "\r\n", "426" },
	{ GET UP "Upgrade: h2c\r\n" CONN KEY VER "\r\n", "426" },

	/* version */
	{ GET UP CONN KEY "\r\n", "426" },
	{ GET UP CONN KEY "Sec-WebSocket-Version: 8\r\n\r\n", "426" },
	{ GET UP CONN KEY "Sec-WebSocket-Version: 14\r\n\r\n", "426" },
	{ GET UP CONN KEY "Sec-WebSocket-Version: 013\r\n\r\n", "426" },
	{ GET UP CONN KEY "Sec-WebSocket-Version: 13, 8\r\n\r\n", "426" },
	{ GET UP CONN KEY "Sec-WebSocket-Version:\r\n\r\n", "426" },
	{ GET UP CONN KEY "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Version: 13\r\n\r\n", "400" },
	{ GET UP CONN KEY VER VER "\r\n", "400" },

	/* key: 16 bytes in their one spelling */
	{ GET UP CONN VER "\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key:\r\n\r\n", "400" },
	{ GET UP CONN VER KEY KEY "\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWE=\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWFi\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWFiYw==\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ-==\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: dGhlIHNhbXBs ZSBub25jZQ==\r\n\r\n", "400" },
	{ GET UP CONN VER "Sec-WebSocket-Key: \"dGhlIHNhbXBsZSBub25jZQ==\"\r\n\r\n", "400" },

	/* protocols: the client's order decides */
	{ ALL PROTO "cay.v1\r\n\r\n", YES " cay.v1" },
	{ ALL PROTO "cay.v2, cay.v1\r\n\r\n", YES " cay.v2" },
	{ ALL PROTO "chat,cay.v2\r\n\r\n", YES " cay.v2" },
	{ ALL PROTO "chat\r\n" PROTO "cay.v1\r\n\r\n", YES " cay.v1" },
	{ ALL PROTO "chat\r\n\r\n", "400" },
	{ ALL PROTO "CAY.V1\r\n\r\n", "400" },
	{ ALL PROTO "cay.v1 cay.v2\r\n\r\n", "400" },
	{ ALL PROTO "\r\n\r\n", "400" },
	{ ALL PROTO "cay.v1,\r\n\r\n", "400" },
	{ ALL PROTO ",cay.v1\r\n\r\n", "400" },
	{ ALL PROTO "cay.v1, cay.v1\r\n\r\n", "400" },
	{ ALL PROTO "cay.v1\r\n" PROTO "cay.v1\r\n\r\n", "400" },
	{ ALL PROTO "chat, x, chat, cay.v1\r\n\r\n", "400" },
	{ ALL PROTO "cay.v1/2\r\n\r\n", "400" },
	{ ALL PROTO "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,cay.v1\r\n\r\n", YES " cay.v1" },
	{ ALL PROTO "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,cay.v1\r\n\r\n", "400" },
};

static int judge(const char *request, const char *const *protocols, struct ws_answer *ret,
		 struct cay_err *err)
{
	struct slice in = slice_of(request), body;
	struct http_parser p;
	int r;

	http_parser_init(&p, HTTP_KIND_REQUEST);
	r = http_parser_next(&p, &in, &body, err);
	assert_true(r < 0 || r == HTTP_HEAD_DONE);
	if (r >= 0)
		r = ws_accept(&p.head, protocols, ret, err);
	http_parser_fini(&p);
	return r;
}

static void every_handshake_of_the_table_is_judged(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ws_answer answer = {};
		struct cay_err err = {};
		auto_buf got = BUF_INIT(256);
		int r = judge(rows[i].request, ours, &answer, &err);

		if (r < 0)
			assert_int_equal(buf_printf(&got, "%d", cay_error_row(err.code)->http), 0);
		else
			assert_int_equal(buf_printf(&got, "%s%s%s", answer.accept,
						    answer.protocol ? " " : "",
						    answer.protocol ? answer.protocol : ""),
					 0);
		if (!str_eq(buf_str(&got), rows[i].want))
			fail_msg("row %zu: %s, not %s (%s):\n%s", i, buf_str(&got), rows[i].want,
				 err.msg, rows[i].request);
		row_check(i, r >= 0 || err.code == CAY_E_UPGRADE || err.code == CAY_E_INVALID);
		row_check(i, r >= 0 || !answer.accept[0]);
	}
}

/* The head may come from another parser than ours some day. */
static void the_head_is_not_trusted_to_be_checked(void **)
{
	struct http_head h = {
		.method = SLICE("GET"),
		.target = SLICE("/"),
		.minor = 1,
		.headers = { { SLICE("Upgrade"), SLICE("websocket") },
			     { SLICE("Sec-WebSocket-Key"), SLICE("dGhlIHNhbXBsZSBub25jZQ==") },
			     { SLICE("Sec-WebSocket-Version"), SLICE("13") },
			     { SLICE("Connection"), SLICE("keep-alive") } },
		.n_headers = 4,
	};
	struct ws_answer answer;
	struct cay_err err = {};

	assert_int_equal(ws_accept(&h, NULL, &answer, &err), -EINVAL);
	h.headers[3].value = SLICE("upgrade");
	assert_int_equal(ws_accept(&h, NULL, &answer, NULL), 0);
	h.headers[3].value = SLICE("upgraded, x-upgrade");
	assert_int_equal(ws_accept(&h, NULL, &answer, NULL), -EINVAL);
}

static void a_server_without_protocols_answers_without(void **)
{
	struct ws_answer answer = {};
	struct cay_err err = {};

	assert_int_equal(judge(ALL PROTO "chat, cay.v1\r\n\r\n", NULL, &answer, &err), 0);
	assert_null(answer.protocol);
	assert_string_equal(answer.accept, YES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_handshake_of_the_table_is_judged),
		cmocka_unit_test(the_head_is_not_trusted_to_be_checked),
		cmocka_unit_test(a_server_without_protocols_answers_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
