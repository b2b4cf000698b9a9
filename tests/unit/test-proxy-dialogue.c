/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/proxy-dialogue.h"
#include "unit.h"

static void assert_request(const char *host, uint16_t port, const char *login, const char *want)
{
	auto_buf out = BUF_INIT(PROXY_REQUEST_MAX);

	assert_int_equal(proxy_request_write(host, port, login, &out), 0);
	assert_string_equal(buf_str(&out), want);
}

/* RFC 9110 section 9.3.6, and 3986 section 3.2.2 for addresses */
static void requests(void **)
{
	auto_buf out = BUF_INIT(PROXY_REQUEST_MAX);
	char longest[254];

	assert_request("api.example.com", 443, "",
		       "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n");
	assert_request("192.0.2.9", 22, "Basic dTpw",
		       "CONNECT 192.0.2.9:22 HTTP/1.1\r\nHost: 192.0.2.9:22\r\n"
		       "Proxy-Authorization: Basic dTpw\r\n\r\n");
	assert_request("2001:db8::9", 443, "",
		       "CONNECT [2001:db8::9]:443 HTTP/1.1\r\nHost: [2001:db8::9]:443\r\n\r\n");
	memset(longest, 'a', 253);
	longest[253] = 0;
	assert_int_equal(proxy_request_write(longest, 65535, "", &out), 0);
}

/* RFC 7617 section 2 has the example. */
static void logins(void **)
{
	static const char *const wrong[] = { "",        "\n",    "user",  "a:b\n\n",
					     "a:b\r\n", "a:\tb", "\x7f:b" };
	auto_buf out = BUF_INIT(512), much = BUF_INIT(512);

	assert_int_equal(proxy_login_write(SLICE("Aladdin:open sesame\n"), &out), 0);
	assert_string_equal(buf_str(&out), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		row_check(i, proxy_login_write(slice_of(wrong[i]), &out) == -EINVAL);
	while (much.len < PROXY_LOGIN_MAX)
		assert_int_equal(buf_puts(&much, ":"), 0);
	assert_int_equal(proxy_login_write(slice_of(buf_str(&much)), &out), 0);
	assert_int_equal(buf_puts(&much, ":"), 0);
	assert_int_equal(proxy_login_write(slice_of(buf_str(&much)), &out), -EINVAL);
}

static const struct {
	const char *text;
	enum proxy_result want;
	size_t left; /* bytes of the host */
} replies[] = {
	{ "", PROXY_MORE, 0 },
	{ "HTTP/1.1 200 OK\r\n", PROXY_MORE, 0 },
	{ "HTTP/1.1 200 Connection established\r\n\r\nSSH-2.0", PROXY_CONNECTED, 7 },
	{ "HTTP/1.0 200 Connection established\r\nProxy-agent: tinyproxy/1.11.2\r\n\r\n",
	  PROXY_CONNECTED, 0 },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", PROXY_CONNECTED, 4 },
	{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", PROXY_CONNECTED, 5 },
	{ "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n",
	  PROXY_LOGIN, 0 },
	{ "HTTP/1.1 403 Forbidden\r\nServer: squid\r\nContent-Length: 3900\r\n\r\n<html>",
	  PROXY_DENIED, 6 },
	{ "HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\n\r\n", PROXY_DENIED, 0 },
	{ "HTTP/1.1 502 Bad Gateway\r\n\r\n", PROXY_NO_HOST, 0 },
	{ "HTTP/1.1 504 Gateway Timeout\r\n\r\n", PROXY_NO_HOST, 0 },
	{ "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", PROXY_MALFORMED, 19 },
	{ "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
	  PROXY_MALFORMED, 0 },
	{ "HTTP/2.0 200 OK\r\n\r\n", PROXY_MALFORMED, 0 },
	{ "HTTP/1.1 2000 No\r\n\r\n", PROXY_MALFORMED, 0 },
	{ "HTTP/1.1 200 OK\n\n", PROXY_MALFORMED, 17 },
	{ "\r\n\r\n", PROXY_MALFORMED, 4 },
	{ "SSH-2.0-OpenSSH\r\n\r\n", PROXY_MALFORMED, 0 },
	{ "HTTP/1.1 200 OK\r\nA\r\n\r\n", PROXY_MALFORMED, 0 },
};

static void assert_reply(size_t row, size_t step)
{
	enum proxy_result r = PROXY_MORE;
	struct slice all = slice_of(replies[row].text);
	struct http_parser p;

	proxy_reply_init(&p);
	while (r == PROXY_MORE && all.n) {
		struct slice piece = { all.p, all.n < step ? all.n : step };
		size_t n = piece.n;

		r = proxy_reply_read(&p, &piece);
		all = (struct slice){ all.p + n - piece.n, all.n - n + piece.n };
	}
	http_parser_fini(&p);
	row_check(row, r == replies[row].want);
	if (r == PROXY_CONNECTED)
		row_check(row, all.n == replies[row].left);
}

static void replies_of_proxies(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(replies); i++) {
		assert_reply(i, 1000);
		assert_reply(i, 1);
	}
}

static void a_reply_is_bounded(void **)
{
	enum proxy_result r = PROXY_MORE;
	struct http_parser p;
	size_t sent = 0;

	proxy_reply_init(&p);
	for (struct slice in = SLICE("HTTP/1.1 200 OK\r\n"); r == PROXY_MORE;) {
		sent += in.n;
		r = proxy_reply_read(&p, &in);
		in = SLICE("A: bcdefghij\r\n");
		assert_true(sent < 2 * HTTP_HEAD_MAX);
	}
	http_parser_fini(&p);
	assert_int_equal(r, PROXY_MALFORMED);
}

static void every_failure_has_a_reason(void **)
{
	for (enum proxy_result r = PROXY_MORE; r < PROXY_RESULT_NUM; r++)
		assert_int_equal(!proxy_result_reason(r), r <= PROXY_CONNECTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests),
		cmocka_unit_test(logins),
		cmocka_unit_test(replies_of_proxies),
		cmocka_unit_test(a_reply_is_bounded),
		cmocka_unit_test(every_failure_has_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
