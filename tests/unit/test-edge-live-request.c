/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/edge.h"
#include "unit.h"

#define NOW_MS UINT64_C(1000000)

static struct edge edge;
static struct clk_test clk;
static unsigned cuts;
static enum cay_code why;

static void on_cut(struct live_request *g, const struct cay_err *err)
{
	cuts++;
	why = err->code;
	live_request_remove(g);
}

static const struct push a_key = { .kind = PUSH_KEY,
				   .value = SCOPE_WRITE,
				   .time = NOW_MS + 10000,
				   .id = { ID_KEY, { 1 } },
				   .tenant = { ID_TENANT, { 1 } },
				   .secret = { 7 } };
static const struct push no_key = { .kind = PUSH_KEY_REMOVED, .id = { ID_KEY, { 1 } } };
static const struct push a_sign = {
	.kind = PUSH_TOKEN_KEY, .value = 2, .number = 3, .time = PUSH_NEVER, .secret = { 9 }
};
static const struct push a_box = { .kind = PUSH_SANDBOX,
				   .value = SB_RUNNING,
				   .id = { ID_SANDBOX, { 1 } },
				   .tenant = { ID_TENANT, { 1 } } };

static int begin(void **)
{
	clk = clk_test_create(0, NOW_MS * NS_PER_MS);
	edge = (struct edge){ .clk = &clk.clk, .control_state = control_state_new() };
	cuts = 0;
	assert_int_equal(control_state_apply(edge.control_state, &a_key), 0);
	assert_int_equal(control_state_apply(edge.control_state, &a_sign), 0);
	assert_int_equal(control_state_apply(edge.control_state, &a_box), 0);
	return 0;
}

static int end(void **)
{
	control_state_free(edge.control_state);
	return 0;
}

static const struct credential by_key = { .kind = CREDENTIAL_KEY,
					  .until_ms = PUSH_NEVER,
					  .hash = { 7 } };
static const struct credential by_token = { .kind = CREDENTIAL_TOKEN,
					    .until_ms = NOW_MS + 10000,
					    .signer = 0,
					    .signer_generation = 1,
					    .epoch = 3 };
static const struct credential by_jwt = { .kind = CREDENTIAL_JWT, .until_ms = NOW_MS + 10000 };

static void enter(struct live_request *g, const struct credential *by,
		  const struct control_state_sandbox *to)
{
	struct credential copy = *by;
	struct request rq = { .data = &copy };

	live_request_add(&edge, g, &rq, to, on_cut);
}

static void look(unsigned times)
{
	while (times--)
		live_requests_check_all(&edge);
}

static void who_may_stays(void **)
{
	struct live_request g[3];

	enter(&g[0], &by_key, NULL);
	enter(&g[1], &by_token, NULL);
	enter(&g[2], &by_jwt, NULL);
	look(10);
	assert_int_equal(cuts, 0);
	assert_int_equal(edge.n_live_requests, 3);
	live_request_remove(&g[1]);
	live_request_remove(&g[0]);
	look(1);
	live_request_remove(&g[2]);
	assert_null(edge.live_requests);
	assert_int_equal(edge.n_live_requests, 0);
}

static void a_key_that_is_gone_cuts_its_own(void **)
{
	struct live_request g[3];

	enter(&g[0], &by_jwt, NULL);
	enter(&g[1], &by_key, NULL);
	enter(&g[2], &by_key, NULL);
	assert_int_equal(control_state_apply(edge.control_state, &no_key), 0);
	look(1);
	assert_int_equal(cuts, 0); /* it may be said again */
	look(1);
	assert_int_equal(cuts, 2);
	assert_int_equal(why, CAY_E_UNAUTHENTICATED);
	assert_int_equal(edge.n_live_requests, 1);
}

static void a_key_that_is_said_again_cuts_nobody(void **)
{
	struct live_request g;

	enter(&g, &by_key, NULL);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(control_state_apply(edge.control_state, &no_key), 0);
		look(1);
		assert_int_equal(control_state_apply(edge.control_state, &a_key), 0);
		look(1);
	}
	assert_int_equal(cuts, 0);
}

/* Of another secret is not the same key. */
static void a_rotated_key_cuts_who_has_the_old_secret(void **)
{
	struct push other = a_key;
	struct live_request g;

	other.secret[0] = 8;
	enter(&g, &by_key, NULL);
	assert_int_equal(control_state_apply(edge.control_state, &no_key), 0);
	assert_int_equal(control_state_apply(edge.control_state, &other), 0);
	look(2);
	assert_int_equal(cuts, 1);
}

static void time_ends_all_of_them(void **)
{
	struct live_request g[3];

	enter(&g[0], &by_key, NULL);
	enter(&g[1], &by_token, NULL);
	enter(&g[2], &by_jwt, NULL);
	clk_test_advance(&clk, 9999 * NS_PER_MS);
	look(3);
	assert_int_equal(cuts, 0);
	clk_test_advance(&clk, NS_PER_MS);
	look(2);
	assert_int_equal(cuts, 3);
}

static void tokens_end_with_their_key_and_their_epoch(void **)
{
	struct push next = a_sign;
	struct live_request g;

	enter(&g, &by_token, NULL);
	assert_int_equal(control_state_apply(edge.control_state, &next), 0); /* the same again */
	look(3);
	assert_int_equal(cuts, 0);
	next.number = 4;
	assert_int_equal(control_state_apply(edge.control_state, &next), 0);
	look(2);
	assert_int_equal(cuts, 1);
	next.number = 3;
	assert_int_equal(control_state_apply(edge.control_state, &next), 0);
	enter(&g, &by_token, NULL);
	next.secret[0]++;
	assert_int_equal(control_state_apply(edge.control_state, &next), 0);
	look(2);
	assert_int_equal(cuts, 2);
}

static void tokens_end_when_their_key_is_over(void **)
{
	struct push old = a_sign;
	struct live_request g;

	enter(&g, &by_token, NULL);
	old.time = NOW_MS + 1000;
	assert_int_equal(control_state_apply(edge.control_state, &old), 0);
	look(3);
	assert_int_equal(cuts, 0);
	clk_test_advance(&clk, NS_PER_S);
	look(2);
	assert_int_equal(cuts, 1);
}

static void who_is_inside_ends_with_the_sandbox(void **)
{
	struct control_state_sandbox *to =
		control_state_find_sandbox(edge.control_state, &a_box.id);
	struct push over = a_box;
	struct live_request g;

	control_state_enter_sandbox(edge.control_state, to);
	enter(&g, &by_key, to);
	over.value = SB_ENDING;
	assert_int_equal(control_state_apply(edge.control_state, &over), 0);
	look(3);
	assert_int_equal(cuts, 0);
	over.value = SB_TERMINATED;
	assert_int_equal(control_state_apply(edge.control_state, &over), 0);
	look(2);
	assert_int_equal(cuts, 1);
	assert_int_equal(why, CAY_E_NOT_FOUND);
	control_state_leave_sandbox(edge.control_state, to);
}

static void who_has_an_export_ends_with_it(void **)
{
	struct credential by_export = { .kind = CREDENTIAL_EXPORT,
					.until_ms = PUSH_NEVER,
					.hash = { 5 },
					.sandbox = a_box.id };
	struct push one = { .kind = PUSH_EXPORTS, .number = 1, .id = a_box.id, .secret = { 5 } };
	struct live_request g;

	assert_int_equal(control_state_apply(edge.control_state, &one), 0);
	enter(&g, &by_export, NULL);
	look(5);
	assert_int_equal(cuts, 0);
	one.secret[0]++;
	assert_int_equal(control_state_apply(edge.control_state, &one), 0);
	look(2);
	assert_int_equal(cuts, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_may_stays, begin, end),
		cmocka_unit_test_setup_teardown(a_key_that_is_gone_cuts_its_own, begin, end),
		cmocka_unit_test_setup_teardown(a_key_that_is_said_again_cuts_nobody, begin, end),
		cmocka_unit_test_setup_teardown(a_rotated_key_cuts_who_has_the_old_secret, begin,
						end),
		cmocka_unit_test_setup_teardown(time_ends_all_of_them, begin, end),
		cmocka_unit_test_setup_teardown(tokens_end_with_their_key_and_their_epoch, begin,
						end),
		cmocka_unit_test_setup_teardown(tokens_end_when_their_key_is_over, begin, end),
		cmocka_unit_test_setup_teardown(who_is_inside_ends_with_the_sandbox, begin, end),
		cmocka_unit_test_setup_teardown(who_has_an_export_ends_with_it, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
