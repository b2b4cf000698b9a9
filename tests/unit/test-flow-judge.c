/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/flow-judge.h"
#include "unit.h"

static struct host_name api, peer;

static int parse_names(void **)
{
	return host_name_parse(SLICE("api.example.com"), &api) < 0 ||
			       host_name_parse(SLICE("db.group.cay.internal"), &peer) < 0
		       ? -1
		       : 0;
}

/* A policy whose only rule is for all ports of a target; inspect: its requests are read. */
static void write_policy(enum egress_action action, const char *to, bool inspect, struct buf *ret)
{
	struct egress_rule r = { .action = action };
	struct egress_layer layer = { EGRESS_DENY, &r, 1 };
	struct cay_err err = {};

	assert_int_equal(egress_target_parse(slice_of(to), &r.to, &err), 0);
	r.ports[r.n_ports++] = (struct egress_ports){ 1, UINT16_MAX };
	if (inspect)
		assert_int_equal(egress_terms_add(&r.terms, EGRESS_TERM_INSPECT, SLICE(""), &err),
				 0);
	buf_clear(ret);
	assert_int_equal(egress_policy_write(&layer, 1, 1, ret), 0);
}

static struct slice bytes(const struct buf *b)
{
	return (struct slice){ b->data, b->len };
}

static void where_one_begins(void **)
{
	static const struct {
		enum egress_action action;
		enum flow_next next;
	} cases[] = {
		{ EGRESS_ALLOW, FLOW_PASSES },
		{ EGRESS_ASK, FLOW_ASKS },
		{ EGRESS_DENY, FLOW_CUT },
	};
	struct flow_facts by_name = { .name = &api, .port = 22 },
			  by_address = { .address = 0xc0000201, .port = 22 };
	auto_buf p = BUF_INIT(EGRESS_POLICY_MAX);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		write_policy(cases[i].action, "*", false, &p);
		row_check(i, flow_judge_first(bytes(&p), &by_name).next == cases[i].next);
		row_check(i, flow_judge_first(bytes(&p), &by_address).next == FLOW_CUT);
		write_policy(cases[i].action, "192.0.2.0/24", false, &p);
		row_check(i, flow_judge_first(bytes(&p), &by_address).next == cases[i].next);
		row_check(i, flow_judge_first(bytes(&p), &by_name).next == FLOW_CUT);
	}
}

static void whose_host_is_compared(void **)
{
	const struct egress_verdict plain = {}, read = { .inspect = true };
	const struct flow_facts http = { .name = &api, .port = 80 },
				tls = { .name = &api, .port = 443 },
				group = { .name = &peer, .port = 80 }, address = { .port = 80 };

	assert_true(flow_is_to_guard(&http, &plain) && !flow_is_to_guard(&http, &read));
	assert_false(flow_is_to_guard(&tls, &plain) || flow_is_to_guard(&group, &plain) ||
		     flow_is_to_guard(&address, &plain));
	assert_true(flow_is_outside(&api) && !flow_is_outside(&peer) && !flow_is_outside(NULL));
}

static void under_another_policy(void **)
{
	static const struct {
		struct flow_facts f;
		enum egress_action action;
		bool inspect;
		enum flow_next next;
		const char *why;
	} cases[] = {
		{ { .port = 22 }, EGRESS_ALLOW, false, FLOW_STAYS, NULL },
		{ { .port = 22 }, EGRESS_DENY, false, FLOW_CUT, "deny" },
		{ { .port = 22 }, EGRESS_ASK, false, FLOW_CUT, "deny" },
		{ { .port = 22, .approved = true }, EGRESS_ASK, false, FLOW_STAYS, NULL },
		{ { .port = 22, .approved = true }, EGRESS_DENY, false, FLOW_CUT, "deny" },
		{ { .port = 22, .asking = true }, EGRESS_ASK, false, FLOW_STAYS, NULL },
		{ { .port = 22, .asking = true }, EGRESS_DENY, false, FLOW_CUT, "deny" },
		{ { .port = 22, .asking = true }, EGRESS_ALLOW, false, FLOW_PASSES, NULL },
		{ { .port = 443 }, EGRESS_ALLOW, true, FLOW_CUT, "not_inspected" },
		{ { .port = 443, .saying = true }, EGRESS_ALLOW, true, FLOW_STAYS, NULL },
		{ { .port = 443, .inspected = true }, EGRESS_ALLOW, true, FLOW_STAYS, NULL },
		{ { .port = 443, .inspected = true }, EGRESS_ALLOW, false, FLOW_STAYS, NULL },
		{ { .port = 80, .guarded = true }, EGRESS_ALLOW, true, FLOW_CUT, "not_inspected" },
		{ { .port = 80, .guarded = true, .asking = true },
		  EGRESS_ALLOW,
		  true,
		  FLOW_CUT,
		  "not_inspected" },
		{ { .port = 80, .asking = true }, EGRESS_ALLOW, false, FLOW_CUT, "not_inspected" },
		{ { .port = 443, .hides_name = true }, EGRESS_ALLOW, false, FLOW_STAYS, NULL },
	};
	struct flow_facts hides = { .name = &api, .port = 443, .hides_name = true };
	auto_buf p = BUF_INIT(EGRESS_POLICY_MAX);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct flow_facts f = cases[i].f;
		struct flow_judgement j;

		f.name = &api;
		write_policy(cases[i].action, "*", cases[i].inspect, &p);
		j = flow_judge_again(bytes(&p), &f);
		row_check(i, j.next == cases[i].next);
		row_check(i, !cases[i].why || str_eq(j.why, cases[i].why));
	}
	write_policy(EGRESS_ALLOW, "api.example.com", false, &p);
	assert_string_equal(flow_judge_again(bytes(&p), &hides).why, "name_is_hidden");
}

static void with_an_answer(void **)
{
	struct flow_facts f = { .name = &api, .port = 22, .asking = true };
	auto_buf p = BUF_INIT(EGRESS_POLICY_MAX);

	for (enum egress_action a = EGRESS_ALLOW; a < EGRESS_ACTION_NUM; a++) {
		write_policy(a, "*", false, &p);
		row_check(a, flow_judge_answered(bytes(&p), &f, false).next == FLOW_CUT);
		row_check(a, flow_judge_answered(bytes(&p), &f, true).next ==
				     (a == EGRESS_DENY ? FLOW_CUT : FLOW_PASSES));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_one_begins),
		cmocka_unit_test(whose_host_is_compared),
		cmocka_unit_test(under_another_policy),
		cmocka_unit_test(with_an_answer),
	};

	return cmocka_run_group_tests(tests, parse_names, NULL);
}
