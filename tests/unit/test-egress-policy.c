/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "egress/policy.h"
#include "unit.h"

#ifdef CAY_SANITIZED
#define ROUNDS 2000
#else
#define ROUNDS 20000
#endif

static struct egress_rule rule(enum egress_action action, const char *to, uint16_t from,
			       uint16_t port_to)
{
	struct egress_rule r = { .action = action };
	struct cay_err err = {};

	assert_int_equal(egress_target_parse(slice_of(to), &r.to, &err), 0);
	if (from) {
		r.ports[0] = (struct egress_ports){ from, port_to };
		r.n_ports = 1;
	}
	return r;
}

static struct host_name name_of(const char *text)
{
	struct host_name n;

	assert_int_equal(host_name_parse(slice_of(text), &n), 0);
	return n;
}

static struct slice bytes(const struct buf *b)
{
	return (struct slice){ b->data, b->len };
}

static void targets(void **)
{
	static const struct {
		const char *text;
		int kind; /* -1: none */
	} cases[] = {
		{ "example.com", EGRESS_TO_NAME },
		{ "*.example.com", EGRESS_TO_BELOW },
		{ "*", EGRESS_TO_NAMES },
		{ "192.0.2.1", EGRESS_TO_NET },
		{ "192.0.2.0/24", EGRESS_TO_NET },
		{ "0.0.0.0/0", EGRESS_TO_NET },
		{ "192.0.2.1/24", -1 }, /* bits outside its prefix */
		{ "192.0.2.0/33", -1 },
		{ "192.0.2.0/", -1 },
		{ "192.0.02.1", -1 },
		{ "192.0.2", -1 },
		{ "192.0.2.1.5", -1 },
		{ "::1", -1 },
		{ "*.com", -1 }, /* a whole top level */
		{ "*com", -1 },
		{ "a.*.com", -1 },
		{ "**", -1 },
		{ "*.", -1 },
		{ "", -1 },
		{ "example.com.", -1 },
		{ "EXAMPLE.com", EGRESS_TO_NAME },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_target t;
		struct cay_err err = {};
		int r = egress_target_parse(slice_of(cases[i].text), &t, &err);

		row_check(i, cases[i].kind < 0 ? r < 0 && err.code == CAY_E_INVALID
					       : r == 0 && t.kind == (unsigned)cases[i].kind);
	}
}

static void the_first_rule_decides_in_a_layer(void **)
{
	struct egress_rule rules[] = {
		rule(EGRESS_DENY, "gist.example.com", 0, 0),
		rule(EGRESS_ALLOW, "*.example.com", 0, 0),
		rule(EGRESS_ALLOW, "db.example.com", 5432, 5432),
		rule(EGRESS_ASK, "*", 1, 65535),
		rule(EGRESS_ALLOW, "192.0.2.0/24", 22, 80),
	};
	struct egress_layer layer = { EGRESS_DENY, rules, ARRAY_SIZE(rules) };
	static const struct {
		const char *name;
		uint16_t port;
		enum egress_action action;
		int rule;
	} cases[] = {
		{ "gist.example.com", 443, EGRESS_DENY, 0 },
		{ "api.example.com", 443, EGRESS_ALLOW, 1 },
		{ "a.gist.example.com", 443, EGRESS_ALLOW, 1 },
		{ "example.com", 443, EGRESS_ASK, 3 }, /* not below itself */
		{ "api.example.com", 80, EGRESS_ASK, 3 },
		{ "db.example.com", 5432, EGRESS_ALLOW, 2 },
		{ "badexample.com", 443, EGRESS_ASK, 3 },
		{ "other.org", 1, EGRESS_ASK, 3 },
		{ "other.org", 0, EGRESS_DENY, -1 },
	};
	static const struct {
		uint32_t address;
		uint16_t port;
		enum egress_action action;
	} literals[] = {
		{ 0xc0000200, 22, EGRESS_ALLOW }, { 0xc00002ff, 80, EGRESS_ALLOW },
		{ 0xc00002ff, 81, EGRESS_DENY },  { 0xc0000300, 22, EGRESS_DENY },
		{ 0xa9fea9fe, 80, EGRESS_DENY }, /* "*" is for names */
	};
	auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);

	assert_int_equal(egress_policy_write(&layer, 1, 7, &b), 0);
	assert_int_equal(egress_policy_check(bytes(&b)), 0);
	assert_int_equal(egress_policy_generation(bytes(&b)), 7);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_name n = name_of(cases[i].name);
		struct egress_verdict v = egress_judge_name(bytes(&b), &n, cases[i].port);

		row_check(i, v.action == cases[i].action && v.rule == cases[i].rule && !v.layer);
	}
	for (size_t i = 0; i < ARRAY_SIZE(literals); i++)
		row_check(i, egress_judge_address(bytes(&b), literals[i].address, literals[i].port)
					     .action == literals[i].action);
}

static void the_strictest_layer_decides(void **)
{
	struct egress_rule wide[] = { rule(EGRESS_ALLOW, "*", 0, 0) };
	struct egress_rule narrow[] = { rule(EGRESS_ALLOW, "a.org", 0, 0),
					rule(EGRESS_ASK, "b.org", 0, 0) };
	struct egress_layer layers[] = { { EGRESS_DENY, wide, 1 },
					 { EGRESS_DENY, narrow, 2 },
					 { EGRESS_ALLOW, NULL, 0 } };
	struct host_name a = name_of("a.org"), b = name_of("b.org"), c = name_of("c.org");
	auto_buf p = BUF_INIT(EGRESS_POLICY_MAX);
	struct egress_verdict v;

	assert_int_equal(egress_policy_write(layers, 3, 1, &p), 0);
	v = egress_judge_name(bytes(&p), &a, 443);
	assert_true(v.action == EGRESS_ALLOW && v.layer == 0 && v.rule == 0);
	v = egress_judge_name(bytes(&p), &b, 443);
	assert_true(v.action == EGRESS_ASK && v.layer == 1 && v.rule == 1);
	v = egress_judge_name(bytes(&p), &c, 443);
	assert_true(v.action == EGRESS_DENY && v.layer == 1 && v.rule == -1);
	v = egress_judge_name(bytes(&p), &a, 80);
	assert_true(v.action == EGRESS_DENY && v.layer == 0 && v.rule == -1);
}

/* By a rule that names it, and by nothing else. */
static void names_of_a_group(void **)
{
	struct egress_rule wide[] = { rule(EGRESS_ALLOW, "*", 0, 0) };
	struct egress_rule above[] = { rule(EGRESS_ALLOW, "*.cay.internal", 0, 0) };
	struct egress_rule named[] = { rule(EGRESS_ALLOW, "*.group.cay.internal", 0, 0) };
	const struct {
		struct egress_layer layer;
		enum egress_action action;
	} rows[] = {
		{ { .otherwise = EGRESS_ALLOW }, EGRESS_DENY },
		{ { .otherwise = EGRESS_ASK }, EGRESS_DENY },
		{ { EGRESS_ALLOW, wide, 1 }, EGRESS_DENY },
		{ { EGRESS_ALLOW, above, 1 }, EGRESS_DENY },
		{ { EGRESS_DENY, named, 1 }, EGRESS_ALLOW },
		{ { .otherwise = EGRESS_ALLOW, .absent = true }, EGRESS_ALLOW },
	};
	struct host_name db = name_of("db.group.cay.internal"),
			 parent = name_of("group.cay.internal");
	struct slice label;

	assert_true(host_name_is_of_group(&db, &label) && slice_eq(label, SLICE("db")));
	assert_false(host_name_is_of_group(&parent, &label));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf p = BUF_INIT(EGRESS_POLICY_MAX);

		assert_int_equal(egress_policy_write(&rows[i].layer, 1, 1, &p), 0);
		assert_int_equal(egress_policy_check(bytes(&p)), 0);
		row_check(i,
			  egress_judge_name(bytes(&p), &db, 443).action == rows[i].action &&
				  egress_judge_name_on_any_port(bytes(&p), &db) == rows[i].action);
	}
}

static bool every_name(struct egress_rule *rules, size_t n, enum egress_action otherwise,
		       uint16_t port)
{
	struct egress_layer layers[] = { { EGRESS_ALLOW, NULL, 0 }, { otherwise, rules, n } };
	auto_buf p = BUF_INIT(EGRESS_POLICY_MAX);

	assert_int_equal(egress_policy_write(layers, 2, 1, &p), 0);
	return egress_allows_every_name(bytes(&p), port);
}

static void a_hidden_name_may_be_any(void **)
{
	struct egress_rule rules[] = { rule(EGRESS_DENY, "192.0.2.0/24", 0, 0),
				       rule(EGRESS_ALLOW, "a.org", 0, 0),
				       rule(EGRESS_DENY, "b.org", 80, 80),
				       rule(EGRESS_ALLOW, "*", 80, 443),
				       rule(EGRESS_DENY, "c.org", 0, 0) };

	assert_true(every_name(rules, 5, EGRESS_DENY, 443));
	assert_false(every_name(rules, 5, EGRESS_DENY, 80));
	assert_false(every_name(rules, 5, EGRESS_DENY, 8443));
	assert_true(every_name(rules, 5, EGRESS_ALLOW, 8443));
	assert_false(every_name(rules, 3, EGRESS_DENY, 443));
	assert_true(every_name(rules, 3, EGRESS_ALLOW, 443));
	assert_int_equal(egress_terms_add(&rules[3].terms, EGRESS_TERM_INSPECT, SLICE(""), NULL),
			 0);
	assert_false(every_name(rules, 5, EGRESS_DENY, 443));
}

/* What was answered decides where the others ask, and nowhere else. */
static void answers_decide_where_the_others_ask(void **)
{
	struct egress_rule own[] = { rule(EGRESS_ASK, "*.a.org", 0, 0),
				     rule(EGRESS_ALLOW, "b.org", 0, 0) };
	struct egress_rule answers[] = { rule(EGRESS_ALLOW, "yes.a.org", 443, 443),
					 rule(EGRESS_DENY, "no.a.org", 443, 443),
					 rule(EGRESS_DENY, "b.org", 443, 443),
					 rule(EGRESS_ALLOW, "c.org", 443, 443) };
	struct egress_layer layers[EGRESS_LAYER_NUM] = {
		[EGRESS_SANDBOX] = { EGRESS_DENY, own, ARRAY_SIZE(own) },
		[EGRESS_ANSWERS] = { EGRESS_DENY, answers, ARRAY_SIZE(answers) },
	};
	static const struct {
		const char *name;
		uint16_t port;
		enum egress_action action, on_any;
		unsigned layer;
	} cases[] = {
		{ "yes.a.org", 443, EGRESS_ALLOW, EGRESS_ALLOW, EGRESS_ANSWERS },
		{ "no.a.org", 443, EGRESS_DENY, EGRESS_DENY, EGRESS_ANSWERS },
		{ "other.a.org", 443, EGRESS_ASK, EGRESS_ASK, EGRESS_SANDBOX },
		{ "b.org", 443, EGRESS_ALLOW, EGRESS_ALLOW, EGRESS_NODE },
		{ "c.org", 443, EGRESS_DENY, EGRESS_DENY, EGRESS_SANDBOX },
		{ "yes.a.org", 80, EGRESS_DENY, EGRESS_ALLOW, EGRESS_SANDBOX },
	};
	auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);

	assert_int_equal(egress_policy_write(layers, EGRESS_LAYER_NUM, 1, &b), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_name n = name_of(cases[i].name);
		struct egress_verdict v = egress_judge_name(bytes(&b), &n, cases[i].port);

		row_check(i, v.action == cases[i].action && v.layer == cases[i].layer);
		row_check(i, egress_judge_name_on_any_port(bytes(&b), &n) == cases[i].on_any);
	}
}

static void the_time_to_answer(void **)
{
	struct egress_layer layer = { .otherwise = EGRESS_ASK };
	auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);

	assert_int_equal(egress_policy_write(&layer, 1, 1, &b), 0);
	assert_int_equal(egress_policy_ask_ms(bytes(&b)), EGRESS_ASK_MS);
	egress_policy_set_ask_ms(b.data, EGRESS_ASK_MS_MAX);
	assert_int_equal(egress_policy_check(bytes(&b)), 0);
	assert_int_equal(egress_policy_ask_ms(bytes(&b)), EGRESS_ASK_MS_MAX);
	egress_policy_set_ask_ms(b.data, EGRESS_ASK_MS_MAX + 1);
	assert_int_equal(egress_policy_check(bytes(&b)), -EBADMSG);
}

/* The reference: texts and no compiled form. */
#define LAYERS EGRESS_LAYER_NUM

struct plain_rule {
	enum egress_action action;
	const char *to;
	uint16_t from, port_to;
};

static bool plain_matches(const struct plain_rule *r, const char *name, uint16_t port)
{
	size_t n = strlen(name), m = strlen(r->to);

	if (port < r->from || port > r->port_to)
		return false;
	if (strcmp(r->to, "*") == 0)
		return true;
	if (r->to[0] == '*') /* with its dot */
		return n > m - 1 && strcmp(name + n - (m - 1), r->to + 1) == 0;
	return strcmp(name, r->to) == 0;
}

static enum egress_action plain_judge(const struct plain_rule rules[LAYERS][4],
				      const enum egress_action *otherwise, const char *name,
				      uint16_t port)
{
	enum egress_action all = EGRESS_ALLOW;

	for (size_t l = 0; l < LAYERS; l++) {
		enum egress_action here = otherwise[l];

		if (l == EGRESS_ANSWERS && all != EGRESS_ASK)
			break;
		if (l == EGRESS_ANSWERS)
			here = EGRESS_ASK;   /* its default is not looked at */
		for (size_t i = 4; i-- > 0;) /* the first is looked at last */
			if (plain_matches(&rules[l][i], name, port))
				here = rules[l][i].action;
		all = l == EGRESS_ANSWERS || here > all ? here : all;
	}
	return all;
}

static enum egress_action plain_judge_any(const struct plain_rule rules[LAYERS][4],
					  const enum egress_action *otherwise, const char *name)
{
	enum egress_action mildest = EGRESS_DENY;

	for (unsigned port = 1; port <= UINT16_MAX; port++) {
		enum egress_action here = plain_judge(rules, otherwise, name, (uint16_t)port);

		mildest = here < mildest ? here : mildest;
	}
	return mildest;
}

static void as_the_reference_judges(void **)
{
	static const char *const to[] = { "*",       "a.b", "*.a.b", "c.a.b",
					  "*.c.a.b", "d.e", "*.d.e", "xa.b" };
	static const char *const names[] = { "a.b", "c.a.b", "d.c.a.b", "xa.b",
					     "d.e", "a.d.e", "q.r" };
	static const uint16_t ports[] = { 1, 22, 80, 443, 65535 };
	unsigned seed =
		getenv("CAY_SEED") ? (unsigned)atoi(getenv("CAY_SEED")) : (unsigned)time(NULL);

	print_message("# seed %u\n", seed);
	srand(seed);
	for (size_t round = 0; round < ROUNDS; round++) {
		struct plain_rule plain[LAYERS][4];
		struct egress_rule rules[LAYERS][4];
		enum egress_action otherwise[LAYERS];
		struct egress_layer layers[LAYERS];
		auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);
		const char *text = names[(size_t)rand() % ARRAY_SIZE(names)];
		struct host_name n = name_of(text);
		uint16_t port = ports[(size_t)rand() % ARRAY_SIZE(ports)];

		for (size_t l = 0; l < LAYERS; l++) {
			for (size_t i = 0; i < 4; i++) {
				uint16_t x = ports[(size_t)rand() % ARRAY_SIZE(ports)],
					 y = ports[(size_t)rand() % ARRAY_SIZE(ports)];

				plain[l][i] =
					(struct plain_rule){ (enum egress_action)(rand() % 3),
							     to[(size_t)rand() % ARRAY_SIZE(to)],
							     x < y ? x : y, x < y ? y : x };
				rules[l][i] = rule(plain[l][i].action, plain[l][i].to,
						   plain[l][i].from, plain[l][i].port_to);
			}
			otherwise[l] = (enum egress_action)(rand() % 3);
			layers[l] = (struct egress_layer){ otherwise[l], rules[l], 4 };
		}
		assert_int_equal(egress_policy_write(layers, LAYERS, round, &b), 0);
		assert_int_equal(egress_policy_check(bytes(&b)), 0);
		if (egress_judge_name(bytes(&b), &n, port).action !=
		    plain_judge(plain, otherwise, text, port))
			fail_msg("round %zu of seed %u: %s port %u", round, seed, text, port);
		if (round % 16 == 0 && egress_judge_name_on_any_port(bytes(&b), &n) !=
					       plain_judge_any(plain, otherwise, text))
			fail_msg("round %zu of seed %u: %s on any port", round, seed, text);
	}
}

static void too_much_is_refused(void **)
{
	struct egress_rule one = rule(EGRESS_ALLOW, "a.org", 0, 0);
	struct egress_rule *many = calloc(EGRESS_RULES_MAX + 1, sizeof(*many));
	struct egress_layer layers[EGRESS_LAYERS_MAX + 1] = {};
	auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);

	assert_non_null(many);
	for (size_t i = 0; i <= EGRESS_RULES_MAX; i++)
		many[i] = one;
	layers[0] = (struct egress_layer){ EGRESS_DENY, many, EGRESS_RULES_MAX };
	assert_int_equal(egress_policy_write(layers, 1, 0, &b), 0);
	assert_int_equal(egress_policy_check(bytes(&b)), 0);
	buf_clear(&b);
	layers[0].n_rules++;
	assert_int_equal(egress_policy_write(layers, 1, 0, &b), -E2BIG);
	layers[0].n_rules = 1;
	assert_int_equal(egress_policy_write(layers, EGRESS_LAYERS_MAX + 1, 0, &b), -E2BIG);
	assert_int_equal(egress_policy_write(layers, 0, 0, &b), -E2BIG);
	free(many);
}

/* No byte of it can change into what is no policy and still be one, but for those that any value
 * fits. */
static void a_changed_byte_is_a_policy_or_none(void **)
{
	struct egress_rule rules[] = { rule(EGRESS_ALLOW, "*.a.org", 80, 443),
				       rule(EGRESS_ASK, "10.0.0.0/8", 0, 0) };
	struct egress_layer layer = { EGRESS_DENY, rules, 2 };
	struct host_name n = name_of("x.a.org");
	auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);
	size_t refused = 0;

	assert_int_equal(egress_policy_write(&layer, 1, 1, &b), 0);
	for (size_t i = 0; i < b.len; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			b.data[i] = (char)(b.data[i] ^ 1 << bit);
			if (egress_policy_check(bytes(&b)) < 0)
				refused++;
			else
				(void)egress_judge_name(bytes(&b), &n, 443);
			b.data[i] = (char)(b.data[i] ^ 1 << bit);
		}
	assert_true(refused > 300);
	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(egress_policy_check((struct slice){ b.data, len }), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets),
		cmocka_unit_test(the_first_rule_decides_in_a_layer),
		cmocka_unit_test(the_strictest_layer_decides),
		cmocka_unit_test(names_of_a_group),
		cmocka_unit_test(a_hidden_name_may_be_any),
		cmocka_unit_test(answers_decide_where_the_others_ask),
		cmocka_unit_test(the_time_to_answer),
		cmocka_unit_test(as_the_reference_judges),
		cmocka_unit_test(too_much_is_refused),
		cmocka_unit_test(a_changed_byte_is_a_policy_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
