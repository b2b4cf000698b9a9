/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/upstream-proxy.h"
#include "unit.h"

static struct host_name name_of(const char *text)
{
	struct host_name n;

	assert_int_equal(host_name_parse(slice_of(text), &n), 0);
	return n;
}

static bool has_name(const struct upstream_proxy *p, const char *text)
{
	struct host_name n = name_of(text);

	return upstream_proxy_has_name(p, &n);
}

static void where_it_is(void **)
{
	struct upstream_proxy p;

	assert_int_equal(upstream_proxy_parse("", "", &p, NULL), 0);
	assert_false(p.set || has_name(&p, "a.example") || upstream_proxy_has_address(&p, 1));
	assert_int_equal(upstream_proxy_parse("http://192.0.2.9:3128", "", &p, NULL), 0);
	assert_true(p.set && p.port == 3128 && p.at.kind == EGRESS_TO_NET &&
		    p.at.net == 0xc0000209 && p.at.prefix == 32);
	assert_int_equal(upstream_proxy_parse("http://Proxy.corp.example:8080", "", &p, NULL), 0);
	assert_true(p.set && p.port == 8080 && p.at.kind == EGRESS_TO_NAME);
	assert_string_equal(p.at.name.text, "proxy.corp.example");
}

/* None of these is repeated in an error: a password may be in it. */
static void where_it_is_not(void **)
{
	static const char *const wrong[] = {
		"192.0.2.7:3128",
		"http://",
		"http://192.0.2.7",
		"http://192.0.2.7:",
		"http://192.0.2.7:0",
		"http://192.0.2.7:65536",
		"http://192.0.2.7:3128/",
		"http://192.0.2.0/24:3128",
		"http://192.0.2.7/32:3128",
		"http://*.corp.example:3128",
		"http://*:3128",
		"http://proxy:3128",
		"http://user:secret@192.0.2.7:3128",
		"http://user@proxy.example:3128",
		"http://proxy.example:3128:1",
		"http://[2001:db8::7]:3128",
		"https://192.0.2.7:3128",
		"socks5://192.0.2.7:1080",
		"HTTP://192.0.2.7:3128",
		" http://192.0.2.7:3128",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct upstream_proxy p;
		struct cay_err err = {};

		row_check(i, upstream_proxy_parse(wrong[i], "", &p, &err) < 0);
		row_check(i, err.code == CAY_E_INVALID && !p.set);
		row_check(i, !strstr(err.msg, "secret"));
	}
}

static void what_goes_without_it(void **)
{
	struct upstream_proxy p;

	assert_int_equal(upstream_proxy_parse("http://192.0.2.9:3128",
					      " one.example  *.corp.example 10.0.0.0/8 192.0.2.1 ",
					      &p, NULL),
			 0);
	assert_int_equal(p.n_except, 4);
	assert_true(has_name(&p, "two.example") && has_name(&p, "x.one.example"));
	assert_true(has_name(&p, "corp.example") && has_name(&p, "xcorp.example"));
	assert_false(has_name(&p, "one.example") || has_name(&p, "a.b.corp.example"));
	assert_true(upstream_proxy_has_address(&p, 0x0b000000));
	assert_true(upstream_proxy_has_address(&p, 0xc0000202));
	assert_false(upstream_proxy_has_address(&p, 0x0affffff));
	assert_false(upstream_proxy_has_address(&p, 0xc0000201));
	assert_int_equal(upstream_proxy_parse("http://192.0.2.9:3128", "*", &p, NULL), 0);
	assert_true(!has_name(&p, "two.example") && upstream_proxy_has_address(&p, 1));
	assert_int_equal(upstream_proxy_parse("http://192.0.2.9:3128", "0.0.0.0/0", &p, NULL), 0);
	assert_true(has_name(&p, "two.example") && !upstream_proxy_has_address(&p, 1));
}

static void what_is_no_exception(void **)
{
	static const char *const wrong[] = { ".example.com", "one.example:443",
					     "10.0.0.0/33",  "10.0.0.1/8",
					     "localhost",    "one.example,two.example",
					     "2001:db8::/32" };
	auto_buf many = BUF_INIT(KIB(8));
	struct upstream_proxy p;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct cay_err err = {};

		row_check(i, upstream_proxy_parse("http://192.0.2.9:1", wrong[i], &p, &err) < 0);
		row_check(i, err.code == CAY_E_INVALID && strstr(err.msg, "egress.no_proxy"));
	}
	for (unsigned i = 0; i <= UPSTREAM_EXCEPT_MAX; i++)
		assert_int_equal(buf_printf(&many, "n%u.example ", i), 0);
	assert_true(upstream_proxy_parse("http://192.0.2.9:1", buf_str(&many), &p, NULL) < 0);
	many.data[strlen(many.data) - 1 - strlen("n64.example")] = 0;
	assert_int_equal(upstream_proxy_parse("http://192.0.2.9:1", buf_str(&many), &p, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_it_is),
		cmocka_unit_test(where_it_is_not),
		cmocka_unit_test(what_goes_without_it),
		cmocka_unit_test(what_is_no_exception),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
