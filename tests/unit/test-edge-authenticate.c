/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/key.h"
#include "edge/edge.h"
#include "unit.h"

#define NOW_MS UINT64_C(1000000)
#define A_TENANT { ID_TENANT, { 1 } }

static struct edge edge;
static struct clk_test clk;
static struct actor who;
static struct credential by;
static struct cay_err err;

static int begin(void **)
{
	clk = clk_test_create(0, NOW_MS * NS_PER_MS);
	edge = (struct edge){ .clk = &clk.clk, .control_state = control_state_new() };
	return 0;
}

static int end(void **)
{
	control_state_free(edge.control_state);
	return 0;
}

static int ask(const char *credential, bool dear)
{
	static struct http_head head;
	char value[512] = "Bearer ";

	assert_true(strlen(credential) < sizeof(value) - strlen(value));
	memcpy(value + strlen(value), credential, strlen(credential));
	head = (struct http_head){ .n_headers = 1 };
	head.headers[0].name = SLICE("Authorization");
	head.headers[0].value = slice_of(value);
	err = (struct cay_err){};
	return authenticate_request(&edge, &head, dear, &who, &by, &err);
}

static void sign(unsigned number, uint8_t secret, uint64_t until)
{
	struct push p = {
		.kind = PUSH_TOKEN_KEY, .value = (uint8_t)number, .number = 1, .time = until
	};

	memset(p.secret, secret, sizeof(p.secret));
	assert_int_equal(control_state_apply(edge.control_state, &p), 0);
}

static const char *token(unsigned number, uint8_t secret, uint64_t not_after)
{
	static char text[TOKEN_TEXT_LEN + 1];
	struct token t = { .scope = SCOPE_READ,
			   .tenant = A_TENANT,
			   .sandbox = { ID_SANDBOX, { 2 } },
			   .epoch = 1,
			   .not_after = not_after };
	struct token_key key = { .number = (uint8_t)number };

	memset(key.secret, secret, sizeof(key.secret));
	assert_int_equal(token_sign(&t, &key, text, &err), 0);
	return text;
}

static void a_token_is_good_with_either_key(void **)
{
	sign(7, 'a', NOW_MS + 5000);
	sign(8, 'b', PUSH_NEVER);
	assert_int_equal(ask(token(7, 'a', 1001), true), 0);
	assert_true(who.one_sandbox && who.scope == SCOPE_READ);
	assert_int_equal(by.kind, CREDENTIAL_TOKEN);
	assert_int_equal(by.until_ms, 1002 * 1000); /* behind its last second */
	assert_int_equal(by.signer_generation,
			 control_state_find_signer(edge.control_state, 1)->generation);
	assert_int_equal(ask(token(8, 'b', 1001), false), 0); /* cheap */
	assert_int_equal(by.signer_generation,
			 control_state_find_signer(edge.control_state, 0)->generation);
	/* another key, another number, another time */
	assert_true(ask(token(7, 'b', 1001), true) < 0);
	assert_true(ask(token(9, 'a', 1001), true) < 0);
	assert_true(ask(token(7, 'a', 999), true) < 0);
	assert_int_equal(err.code, CAY_E_UNAUTHENTICATED);
}

/* Who has an old key that got out could else sign with it for ever. */
static void a_key_of_tokens_is_over_by_time(void **)
{
	sign(7, 'a', NOW_MS + 5000);
	sign(8, 'b', PUSH_NEVER);
	clk_test_advance(&clk, 5 * NS_PER_S);
	assert_true(ask(token(7, 'a', 2000), true) < 0);
	assert_int_equal(ask(token(8, 'b', 2000), true), 0);
}

static void a_key_is_looked_at_whatever_happened_before(void **)
{
	static const char text[] = "cay_00000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
	struct push p = { .kind = PUSH_KEY,
			  .value = SCOPE_WRITE,
			  .time = NOW_MS + 1000,
			  .id = { ID_KEY, { 3 } },
			  .tenant = A_TENANT };

	key_hash(slice_of(text), p.secret);
	assert_true(ask(text, true) < 0);
	assert_int_equal(control_state_apply(edge.control_state, &p), 0);
	for (unsigned dear = 0; dear < 2; dear++) {
		assert_int_equal(ask(text, dear), 0);
		assert_true(who.scope == SCOPE_WRITE && id_eq(&who.key, &p.id));
		assert_int_equal(by.kind, CREDENTIAL_KEY);
		assert_memory_equal(by.hash, p.secret, sizeof(by.hash));
	}
	clk_test_advance(&clk, NS_PER_S);
	assert_true(ask(text, true) < 0);
}

static void what_is_dear_is_not_looked_at(void **)
{
	assert_true(ask("a.b.c", true) < 0);
	assert_int_equal(err.code, CAY_E_UNAUTHENTICATED);
	assert_true(ask("a.b.c", false) < 0);
	assert_int_equal(err.code, CAY_E_RATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_token_is_good_with_either_key, begin, end),
		cmocka_unit_test_setup_teardown(a_key_of_tokens_is_over_by_time, begin, end),
		cmocka_unit_test_setup_teardown(a_key_is_looked_at_whatever_happened_before, begin,
						end),
		cmocka_unit_test_setup_teardown(what_is_dear_is_not_looked_at, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
