/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/network.h"
#include "e2b/sse.h"
#include "text/json.h"
#include "unit.h"

/* The data of all events, each in brackets; "!": refused. */
static void read_events(const char *in, size_t n, size_t step, struct buf *out)
{
	struct cay_err err = {};
	struct slice data = {};
	struct sse s;
	int r = 0;

	sse_init(&s);
	for (size_t at = 0; at < n && r >= 0; at += step) {
		struct slice piece = { in + at, n - at < step ? n - at : step };

		while ((r = sse_next(&s, &piece, &data, &err)) > 0)
			assert_int_equal(buf_printf(out, "[%.*s]", (int)data.n, data.p), 0);
		assert_true(r < 0 || !piece.n);
	}
	if (r < 0)
		assert_int_equal(buf_puts(out, "!"), 0);
	sse_fini(&s);
}

static void an_event_is_the_same_however_it_is_cut(void **)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "" },
		{ "data: a\n\n", "[a]" },
		{ "data:a\n\n", "[a]" },
		{ "data:  a\n\n", "[ a]" },
		{ "id: 1\nevent: file\ndata: {}\n\n:\n\ndata: 2\n\n", "[{}][2]" },
		{ "data: a\ndata: b\n\n", "[a\nb]" },
		{ "data: a\r\n\r\n", "[a]" },
		{ "data\n\n", "[]" },
		{ "data: a\n", "" },
		{ "database: a\n\nid: 1\n\n\n\n", "" },
		{ "data: a\n\ndata: b", "[a]" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t step = 1; step < 8; step++) {
			auto_buf out = BUF_INIT(KIB(4));

			read_events(cases[i].in, strlen(cases[i].in), step, &out);
			row_check(i, str_eq(buf_str(&out), cases[i].want));
		}
}

static void an_event_is_bounded(void **)
{
	auto_buf in = BUF_INIT(SSE_MAX + KIB(2)), out = BUF_INIT(KIB(4));

	assert_int_equal(buf_puts(&in, "data: "), 0);
	assert_int_equal(buf_reserve(&in, SSE_MAX + 1), 0);
	memset(in.data + in.len, 'x', SSE_MAX + 1);
	in.len += SSE_MAX + 1;
	read_events(in.data, in.len, KIB(64), &out);
	assert_string_equal(buf_str(&out), "!");
}

static json_t *parse(const char *text)
{
	json_t *j = NULL;

	if (text)
		assert_int_equal(json_parse(slice_of(text), &json_control_limits, &j, NULL), 0);
	return j;
}

static void a_network_is_a_policy_or_refused(void **)
{
	static const struct {
		const char *network, *internet, *want; /* NULL: refused */
	} cases[] = {
		{ NULL, NULL, "" },
		{ NULL, "true", "" },
		{ NULL, "null", "" },
		{ "null", NULL, "" },
		{ "{}", "true", "" },
		{ NULL, "false", "{}" },
		{ "{\"denyOut\":[\"0.0.0.0/0\"]}", NULL, "{}" },
		{ "{\"allowOut\":[\"a.example\"]}", NULL, "" },
		{ "{\"allowOut\":[\"a.example\",\"*.b.example\",\"192.0.2.1\",\"192.0.2.0/24\"],"
		  "\"denyOut\":[\"0.0.0.0/0\"]}",
		  NULL,
		  "{\"default\":\"deny\",\"rules\":["
		  "{\"action\":\"allow\",\"ports\":[\"1-65535\"],\"to\":\"a.example\"},"
		  "{\"action\":\"allow\",\"ports\":[\"1-65535\"],\"to\":\"*.b.example\"},"
		  "{\"action\":\"allow\",\"ports\":[\"1-65535\"],\"to\":\"192.0.2.1/32\"},"
		  "{\"action\":\"allow\",\"ports\":[\"1-65535\"],\"to\":\"192.0.2.0/24\"}]}" },
		{ "{\"allowOut\":[\"a.example\"]}", "false",
		  "{\"default\":\"deny\",\"rules\":["
		  "{\"action\":\"allow\",\"ports\":[\"1-65535\"],\"to\":\"a.example\"}]}" },
		{ "{\"denyOut\":[\"192.0.2.1\"]}", NULL, NULL },
		{ "{\"denyOut\":[\"0.0.0.0/0\",\"192.0.2.1\"]}", NULL, NULL },
		{ "{\"denyOut\":\"0.0.0.0/0\"}", NULL, NULL },
		{ "{\"allowOut\":\"a\",\"denyOut\":[\"0.0.0.0/0\"]}", NULL, NULL },
		{ "{\"allowOut\":[1]}", NULL, NULL },
		{ "{\"allowOut\":[\"\"]}", NULL, NULL },
		{ "{\"rules\":{\"a.example\":[{}]}}", NULL, NULL },
		{ "{\"rules\":{}}", NULL, "" },
		{ "{\"egressProxy\":{\"address\":\"a\"}}", NULL, NULL },
		{ "{\"maskRequestHost\":\"a\"}", NULL, NULL },
		{ "{\"httpsPorts\":[1]}", NULL, NULL },
		{ "[]", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_json network = parse(cases[i].network);
		auto_json internet = parse(cases[i].internet);
		auto_json policy = NULL;
		struct cay_err err = {};
		int r = network_to_egress(network, internet, &policy, &err);
		char *text = policy ? json_dumps(policy, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

		row_check(i, (r < 0) == !cases[i].want && (r < 0) == (err.code == CAY_E_INVALID));
		if (r >= 0)
			row_check(i, str_eq(text ? text : "", cases[i].want));
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_is_the_same_however_it_is_cut),
		cmocka_unit_test(an_event_is_bounded),
		cmocka_unit_test(a_network_is_a_policy_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
