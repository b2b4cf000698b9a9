/* SPDX-License-Identifier: Apache-2.0 */
#include "net/proxy-headers.h"
#include "unit.h"

static const struct proxy_headers by_path = { .prefix = "/v1/sandboxes/x/ports/80",
					      .cookie = "__Host-cay-preview",
					      .port = 80 };
static const struct proxy_headers by_host = {
	.cookie = "__Host-cay-preview", .host = "80-x.p.test", .scheme = "https", .port = 80
};

static struct http_head head_of(const char *const *lines)
{
	struct http_head h = {};

	for (; *lines; lines++) {
		struct slice value = slice_of(*lines);

		h.headers[h.n_headers].name = slice_cut(&value, ':');
		h.headers[h.n_headers++].value = slice_trim(value);
	}
	return h;
}

#define LINES(...) \
	(const char *const[]) \
	{ \
		__VA_ARGS__, NULL \
	}
#define GUARDS \
	"Content-Security-Policy: sandbox; default-src 'none'\r\nX-Content-Type-Options: " \
	"nosniff\r\n" \
	"X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n" \
	"Referrer-Policy: no-referrer\r\n"

static void check(bool reply, const struct proxy_headers *c, const char *const *lines,
		  const char *want)
{
	auto_buf out = BUF_INIT(KIB(8));
	struct http_head h = head_of(lines);

	assert_int_equal(reply ? proxy_headers_write_reply(c, &h, &out)
			       : proxy_headers_write_request(c, &h, &out),
			 0);
	assert_string_equal(buf_str(&out), want);
}

#define HOSTS "Host: 80-x.p.test\r\nX-Forwarded-Host: 80-x.p.test\r\nX-Forwarded-Proto: https\r\n"
#define PATHS "Host: localhost:80\r\nX-Forwarded-Prefix: /v1/sandboxes/x/ports/80\r\n"

static void what_a_server_gets(void **)
{
	struct proxy_headers ws = by_host, program = by_host;

	ws.upgrade = true;
	program.drop_authorization = true;
	check(false, &by_host,
	      LINES("Host: evil", "Accept: */*", "Cookie: a=1; __Host-cay-preview=t;b=2; =c",
		    "cookie: __Host-cay-preview=u", "Authorization: Basic x", "Cay-Actor: y",
		    "X-Forwarded-For: 1", "E2b-Traffic-Access-Token: cayt_t", "Forwarded: for=1",
		    "TE: trailers", "Content-Length: 5", "Transfer-Encoding: chunked",
		    "Upgrade: h2c", "Connection: close, X-Mine", "x-mine: 1",
		    "Sec-WebSocket-Key: k", "Proxy-Authorization: z"),
	      HOSTS "Accept: */*\r\nCookie: a=1; b=2; =c\r\nAuthorization: Basic x\r\n");
	check(false, &by_host,
	      LINES("Authorization: Bearer cay_k", "authorization: bearer  cayt_t",
		    "Authorization: BEARER CAYP_t", "Authorization: Bearer eyJ",
		    "Referer: https://80-x.p.test/?cay_preview=t", "Referer: https://a.test/"),
	      HOSTS "Authorization: Bearer eyJ\r\nReferer: https://a.test/\r\n");
	check(false, &by_host,
	      LINES("OPEN-SANDBOX-API-KEY: cay_k", "x-execd-access-token:  cayt_t",
		    "X-API-Key: cay_k", "X-Access-Token: cayt_t", "X-API-Key: own",
		    "X-Execd-Access-Token: own"),
	      HOSTS "X-API-Key: own\r\nX-Execd-Access-Token: own\r\n");
	check(false, &program, LINES("authorization: Bearer eyJ", "Accept: x"),
	      HOSTS "Accept: x\r\n");
	check(false, &by_path,
	      LINES("Authorization: Basic x", "Cookie: a=1", "Origin: https://api.test",
		    "Referer: https://api.test/", "Accept: x"),
	      PATHS "Accept: x\r\n");
	check(false, &ws,
	      LINES("Sec-WebSocket-Key: k",
		    "Sec-WebSocket-Protocol: chat, cay.token.cay_secret ,v2",
		    "Sec-WebSocket-Protocol: cay.token.x", "Origin: https://80-x.p.test"),
	      HOSTS "Sec-WebSocket-Key: k\r\nSec-WebSocket-Protocol: chat, v2\r\n"
		    "Origin: https://80-x.p.test\r\n");
}

static void what_the_world_gets(void **)
{
	check(true, &by_host,
	      LINES("Content-Type: text/html", "Set-Cookie: a=1; Domain=p.test; Secure",
		    "Set-Cookie: b;domain = .test;;Path=/",
		    "Set-Cookie: __Host-cay-preview=f; Secure",
		    "Set-Cookie:  __Host-cay-preview =f", "Strict-Transport-Security: max-age=9",
		    "Clear-Site-Data: \"cookies\"", "Alt-Svc: h3=\":1\"", "X-Accel-Redirect: /x",
		    "X-Sendfile: /x", "Cay-Exec: e", "Connection: close, x-own", "X-Own: 1",
		    "Transfer-Encoding: chunked", "Content-Length: 7", "Location: https://a.test/",
		    "Sec-WebSocket-Accept: a", "NEL: {}", "Report-To: {}"),
	      "Content-Type: text/html\r\nSet-Cookie: a=1; Secure\r\nSet-Cookie: b; Path=/\r\n"
	      "Location: https://a.test/\r\n");
	check(true, &by_path,
	      LINES("Content-Type: text/html", "Set-Cookie: a=1", "Location: /login?x=1",
		    "Refresh: 0;url=/v1/keys", "Link: </v1/keys>; rel=preload", "ETag: \"x\"",
		    "Access-Control-Allow-Origin: *", "Content-Security-Policy: default-src *",
		    "Service-Worker-Allowed: /", "WWW-Authenticate: Basic", "X-Own: 1"),
	      "Content-Type: text/html\r\nLocation: /v1/sandboxes/x/ports/80/login?x=1\r\n"
	      "ETag: \"x\"\r\n" GUARDS);
}

static void where_a_location_may_lead(void **)
{
	static const char *const stay[] = { "/",    "/a",        "/a?b=../../c", "/a#/../b",
					    "/...", "/a/.b/..c", "/a%2f" };
	static const char *const leave[] = {
		"",        "a",       "../x",      "//evil", "https://evil/", "/..",     "/../x",
		"/a/../b", "/a/..",   "/./x",      "/.",     "/%2e%2e/x",     "/.%2E/x", "/%2E./x",
		"/a/%2e",  "/\\evil", "/a\\..\\b", "/a b",   "/a\tb",         "/a\x7f",  "?x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(stay); i++)
		assert_true(proxy_path_is_confined(slice_of(stay[i])));
	for (size_t i = 0; i < ARRAY_SIZE(leave); i++) {
		assert_false(proxy_path_is_confined(slice_of(leave[i])));
		if (leave[i][0]) {
			auto_buf line = BUF_INIT(256);

			assert_int_equal(buf_printf(&line, "Location: %s", leave[i]), 0);
			check(true, &by_path, LINES(buf_str(&line)), GUARDS);
		}
	}
}

static void cookies_of_ours(void **)
{
	struct http_head h =
		head_of(LINES("Cookie: a=1; t=one; t2=x", "Accept: t=no", "cookie: t =two;t"));
	size_t at = 0;

	assert_true(slice_eq(proxy_headers_find_cookie(&h, "t", &at), SLICE("one")));
	assert_true(slice_eq(proxy_headers_find_cookie(&h, "t", &at), SLICE("two")));
	assert_true(slice_eq(proxy_headers_find_cookie(&h, "t", &at), SLICE("")));
	assert_null(proxy_headers_find_cookie(&h, "t", &at).p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_server_gets),
		cmocka_unit_test(what_the_world_gets),
		cmocka_unit_test(where_a_location_may_lead),
		cmocka_unit_test(cookies_of_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
