/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/trusted-proxies.h"

#include <arpa/inet.h>

#include "unit.h"

static struct trusted_proxies trusted;
static struct cay_err err;

static int parse(const char *text)
{
	err = (struct cay_err){};
	return trusted_proxies_parse(slice_of(text), &trusted, &err);
}

static bool contains(const char *address)
{
	uint8_t bytes[NET_ADDRESS_LEN];

	assert_int_equal(net_address_parse(slice_of(address), bytes), 0);
	return trusted_proxies_contain(&trusted, bytes);
}

static void networks(void **)
{
	static const struct {
		const char *text, *in, *out;
	} rows[] = {
		{ "10.0.0.1", "10.0.0.1", "10.0.0.2" },
		{ "10.0.0.1", "::ffff:10.0.0.1", "::10.0.0.1" },
		{ "10.0.0.0/8", "10.255.1.2", "11.0.0.0" },
		{ "10.0.0.0/9", "10.127.255.255", "10.128.0.0" },
		{ "10.1.2.254/31", "10.1.2.255", "10.1.2.253" },
		{ "fd00::/8", "fd12::1", "fe80::1" },
		{ "2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1" },
		{ "1.2.3.4 ::1  fd00::1", "::1", "::2" },
		{ "1.2.3.4 ::1", "1.2.3.4", "1.2.3.5" },
		{ "", NULL, "127.0.0.1" },
	};
	static const char *const bad[] = { "x",     "10.0.0.0/33", "10.0.0.0/0",
					   "::/0",  "::1/129",     "10.0.0.1:80",
					   "[::1]", "10.0.0.0/",   "10.0.0.0/8/8",
					   "/8",    "localhost",   "10.0.0.1,10.0.0.2" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		row_check(i, parse(rows[i].text) == 0);
		row_check(i, !rows[i].in || contains(rows[i].in));
		row_check(i, !contains(rows[i].out));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, parse(bad[i]) < 0 && err.code == CAY_E_INVALID &&
				     strstr(err.msg, "edge.trusted"));
}

/* From 10.0.0.1, where 10/8 is trusted. */
static void whom_it_forwards_for(void **)
{
	static const struct {
		const char *first, *second, *want;
	} rows[] = {
		{ NULL, NULL, "10.0.0.1" },
		{ "192.0.2.1", NULL, "192.0.2.1" },
		{ "192.0.2.1:5000", NULL, "192.0.2.1" },
		{ "[2001:db8::1]:5000", NULL, "2001:db8::1" },
		{ "2001:db8::1", NULL, "2001:db8::1" },
		/* what the client wrote itself is on the left */
		{ "6.6.6.6, 192.0.2.1", NULL, "192.0.2.1" },
		{ "6.6.6.6,10.9.9.9 ,192.0.2.1", NULL, "192.0.2.1" },
		{ "6.6.6.6", "192.0.2.1", "192.0.2.1" },
		/* a second proxy */
		{ "6.6.6.6, 192.0.2.1, 10.0.0.2", NULL, "192.0.2.1" },
		{ "192.0.2.1", "10.0.0.2, 10.0.0.3", "192.0.2.1" },
		{ "10.0.0.2", NULL, "10.0.0.2" },
		/* no address */
		{ "192.0.2.1, unknown", NULL, "10.0.0.1" },
		{ "192.0.2.1, unknown, 10.0.0.2", NULL, "10.0.0.2" },
		{ "", NULL, "10.0.0.1" },
		{ "192.0.2.1,", NULL, "10.0.0.1" },
		{ "[192.0.2.1", NULL, "10.0.0.1" },
		{ "192.0.2.1.in.a.very.long.word.that.is.longer.than.any.address.in.text", NULL,
		  "10.0.0.1" },
	};

	assert_int_equal(parse("10.0.0.0/8"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		static struct http_head head;
		uint8_t got[NET_ADDRESS_LEN], want[NET_ADDRESS_LEN];

		head = (struct http_head){};
		head.headers[head.n_headers++] =
			(struct http_header){ SLICE("Forwarded"), SLICE("for=6.6.6.6") };
		if (rows[i].first)
			head.headers[head.n_headers++] =
				(struct http_header){ SLICE("X-Forwarded-For"),
						      slice_of(rows[i].first) };
		if (rows[i].second)
			head.headers[head.n_headers++] =
				(struct http_header){ SLICE("x-forwarded-for"),
						      slice_of(rows[i].second) };
		assert_int_equal(net_address_parse(SLICE("10.0.0.1"), got), 0);
		assert_int_equal(net_address_parse(slice_of(rows[i].want), want), 0);
		trusted_proxies_find_client(&trusted, &head, got);
		row_check(i, memcmp(got, want, sizeof(got)) == 0);
		/* from an address that is not trusted nothing of it counts */
		assert_int_equal(net_address_parse(SLICE("11.0.0.1"), got), 0);
		assert_int_equal(net_address_parse(SLICE("11.0.0.1"), want), 0);
		trusted_proxies_find_client(&trusted, &head, got);
		row_check(i, memcmp(got, want, sizeof(got)) == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(networks),
					    cmocka_unit_test(whom_it_forwards_for) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
