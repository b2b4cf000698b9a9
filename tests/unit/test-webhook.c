/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "auth/webhook.h"
#include "unit.h"

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

/* The example that libraries of the Standard Webhooks test themselves with. */
static void a_request_is_signed(void **)
{
	auto_buf got = BUF_INIT(WEBHOOK_HEAD_MAX);
	struct webhook_secret secret;
	struct webhook_url url;

	assert_int_equal(webhook_secret_parse(SLICE(SECRET "\n"), &secret), 0);
	assert_int_equal(webhook_url_parse("https://hooks.example/cay?to=a", &url), 0);
	assert_int_equal(webhook_request_write(&url, &secret, "msg_p5jXN8AQM9LWM0D4loKWxJek",
					       1614265330, SLICE("{\"test\": 2432232314}"), &got),
			 0);
	assert_string_equal(buf_str(&got), "POST /cay?to=a HTTP/1.1\r\nHost: hooks.example:443\r\n"
					   "User-Agent: cay\r\nContent-Type: application/json\r\n"
					   "Content-Length: 20\r\nConnection: close\r\n"
					   "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\n"
					   "webhook-timestamp: 1614265330\r\nwebhook-signature: "
					   "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\n\r\n"
					   "{\"test\": 2432232314}");
}

static void secrets_have_one_form(void **)
{
	static const struct {
		const char *text;
		bool good;
	} rows[] = {
		{ SECRET, true },
		{ SECRET "\n\n", false },
		{ SECRET " ", false },
		{ "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false },
		{ "whsec_", false },
		{ "", false },
		{ "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaQ=", false }, /* 23 bytes */
		{ "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		  "AAAAAAAAAAAAAAAAAA==",
		  true }, /* 64 */
		{ "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		  "AAAAAAAAAAAAAAAAAAA=",
		  false }, /* 65 */
	};
	struct webhook_secret got;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i, (webhook_secret_parse(slice_of(rows[i].text), &got) == 0) ==
				     rows[i].good);
}

static void urls(void **)
{
	static const struct {
		const char *text;
		const char *host; /* NULL: refused */
		unsigned port;
		const char *target;
	} rows[] = {
		{ "https://a.example", "a.example", 443, "/" },
		{ "http://a.example/", "a.example", 80, "/" },
		{ "http://192.0.2.1:8080/x/y?z=1", "192.0.2.1", 8080, "/x/y?z=1" },
		{ "https://a.example?x", NULL, 0, NULL },
		{ "https://user:word@a.example/", NULL, 0, NULL },
		{ "https://a.example:0/", NULL, 0, NULL },
		{ "https://a.example:65536/", NULL, 0, NULL },
		{ "https://a.example:/", NULL, 0, NULL },
		{ "https://[::1]/", NULL, 0, NULL },
		{ "https:///x", NULL, 0, NULL },
		{ "https://a.example/#x", NULL, 0, NULL },
		{ "https://a.example/ x", NULL, 0, NULL },
		{ "https://a.example/\r\nX: y", NULL, 0, NULL },
		{ "ftp://a.example/", NULL, 0, NULL },
		{ "a.example", NULL, 0, NULL },
		{ "", NULL, 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct webhook_url got;
		int r = webhook_url_parse(rows[i].text, &got);

		row_check(i, (r == 0) == !!rows[i].host);
		row_check(i, r < 0 || (strcmp(got.host, rows[i].host) == 0 &&
				       got.port == rows[i].port &&
				       strcmp(got.target, rows[i].target) == 0));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_signed),
		cmocka_unit_test(secrets_have_one_form),
		cmocka_unit_test(urls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
