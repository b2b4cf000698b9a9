/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "edge/control-state.h"
#include "ops/op.h"
#include "unit.h"

static struct id make_id(enum id_noun noun, unsigned n)
{
	struct id id = { .noun = (uint8_t)noun };

	id.bits[13] = (uint8_t)(n >> 8);
	id.bits[14] = (uint8_t)n;
	id.bits[5] = (uint8_t)(n >> 16);
	return id;
}

static int sandbox(struct control_state *t, unsigned n, unsigned tenant, unsigned state)
{
	return control_state_apply(t, &(struct push){ .kind = PUSH_SANDBOX,
						      .value = (uint8_t)state,
						      .id = make_id(ID_SANDBOX, n),
						      .tenant = make_id(ID_TENANT, tenant) });
}

static int key(struct control_state *t, unsigned n, uint8_t hash, unsigned scope)
{
	struct push p = { .kind = PUSH_KEY,
			  .value = (uint8_t)scope,
			  .time = PUSH_NEVER,
			  .id = make_id(ID_KEY, n),
			  .tenant = make_id(ID_TENANT, 1) };

	memset(p.secret, hash, sizeof(p.secret));
	return control_state_apply(t, &p);
}

static struct control_state_sandbox *find(struct control_state *t, unsigned n)
{
	struct id id = make_id(ID_SANDBOX, n);

	return control_state_find_sandbox(t, &id);
}

static const struct control_state_key *find_key(struct control_state *t, uint8_t hash)
{
	uint8_t h[32];

	memset(h, hash, sizeof(h));
	return control_state_find_key(t, h);
}

static int say(struct control_state *t, enum push_kind kind)
{
	return control_state_apply(t, &(struct push){ .kind = kind });
}

static void it_knows_what_it_was_told(void **)
{
	struct control_state *t = control_state_new();
	struct push p;

	assert_false(control_state_is_ready(t));
	assert_int_equal(say(t, PUSH_END), -EPROTO); /* the end of nothing */
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 2, 1, SB_PENDING), 0);
	assert_int_equal(key(t, 1, 7, SCOPE_READ), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	assert_true(control_state_is_ready(t));
	assert_int_equal(find(t, 1)->state, SB_RUNNING);
	assert_int_equal(find_key(t, 7)->scope, SCOPE_READ);
	assert_null(find(t, 3));
	assert_null(find_key(t, 8));
	assert_int_equal(sandbox(t, 2, 1, SB_RUNNING), 0);
	assert_int_equal(find(t, 2)->state, SB_RUNNING);
	assert_int_equal(sandbox(t, 2, 1, SB_FAILED), 0);
	assert_null(find(t, 2));
	assert_int_equal(sandbox(t, 9, 1, SB_TERMINATED), 0); /* never was here */
	p = (struct push){ .kind = PUSH_KEY_REMOVED, .id = make_id(ID_KEY, 1) };
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_null(find_key(t, 7));
	assert_int_equal(control_state_count_sandboxes(t), 1);
	assert_int_equal(control_state_count_keys(t), 0);
	for (unsigned kind = 0; kind < PUSH_KINDS; kind++)
		if (kind == PUSH_NONE || kind == PUSH_HELLO || kind == PUSH_BUSY)
			assert_int_equal(say(t, (enum push_kind)kind), -EPROTO);
	control_state_free(t);
}

static void what_is_not_said_again_is_forgotten(void **)
{
	struct control_state *t = control_state_new();

	assert_int_equal(say(t, PUSH_ALL), 0);
	for (unsigned i = 1; i <= 100; i++) {
		assert_int_equal(sandbox(t, i, 1, SB_RUNNING), 0);
		assert_int_equal(key(t, i, (uint8_t)i, SCOPE_WRITE), 0);
	}
	assert_int_equal(say(t, PUSH_END), 0);
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_non_null(find(t, 50)); /* until the end */
	assert_int_equal(sandbox(t, 50, 1, SB_RUNNING), 0);
	assert_int_equal(key(t, 50, 50, SCOPE_WRITE), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	for (unsigned i = 1; i <= 100; i++) {
		assert_int_equal(find(t, i) != NULL, i == 50);
		assert_int_equal(find_key(t, (uint8_t)i) != NULL, i == 50);
	}
	control_state_free(t);
}

/* Two in one bucket: one leaves, the other stays. */
static void buckets_are_lists(void **)
{
	struct control_state *t = control_state_new();
	struct push p = { .kind = PUSH_KEY,
			  .value = SCOPE_READ,
			  .time = PUSH_NEVER,
			  .id = make_id(ID_KEY, 1),
			  .tenant = make_id(ID_TENANT, 1) };

	/* hashes that differ in one bit, and not where the bucket is chosen */
	assert_int_equal(control_state_apply(t, &p), 0);
	p.secret[0] ^= 1;
	assert_null(control_state_find_key(t, p.secret));
	p.id = make_id(ID_KEY, 2);
	p.value = SCOPE_WRITE;
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_int_equal(control_state_count_keys(t), 2);
	assert_int_equal(control_state_find_key(t, p.secret)->scope, SCOPE_WRITE);

	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(sandbox(t, 1 + i * 65536, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 1 + 65536, 1, SB_TERMINATED), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(find(t, 1 + i * 65536) != NULL, i != 1);
	control_state_free(t);
}

static void control_hears_who_is_busy(void **)
{
	struct control_state *t = control_state_new();
	struct control_state_sandbox *s;
	struct push p;

	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 2, 1, SB_RUNNING), 0);
	assert_false(control_state_next_report(t, &p));
	s = find(t, 1);
	control_state_enter_sandbox(t, s);
	control_state_enter_sandbox(t, s);
	assert_true(control_state_next_report(t, &p));
	assert_int_equal(p.kind, PUSH_BUSY);
	assert_int_equal(p.number, 2);
	assert_true(id_eq(&p.id, &s->id));
	assert_false(control_state_next_report(t, &p));
	control_state_leave_sandbox(t, s);
	control_state_leave_sandbox(t, s);
	assert_true(control_state_next_report(t, &p));
	assert_int_equal(p.number, 0);
	/* came and went between two words: still news */
	control_state_enter_sandbox(t, find(t, 2));
	control_state_leave_sandbox(t, find(t, 2));
	assert_true(control_state_next_report(t, &p));
	assert_int_equal(p.number, 0);
	assert_false(control_state_next_report(t, &p));
	/* a control that starts anew hears of those that are inside, of no other */
	control_state_enter_sandbox(t, s);
	assert_true(control_state_next_report(t, &p));
	control_state_mark_unreported(t);
	assert_true(control_state_next_report(t, &p));
	assert_true(id_eq(&p.id, &s->id));
	assert_int_equal(p.number, 1);
	assert_false(control_state_next_report(t, &p));
	control_state_free(t);
}

static void who_is_inside_may_leave_after_its_end(void **)
{
	struct control_state *t = control_state_new();
	struct control_state_sandbox *s;
	struct push p;

	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	s = find(t, 1);
	control_state_enter_sandbox(t, s);
	assert_int_equal(sandbox(t, 1, 1, SB_TERMINATED), 0);
	assert_null(find(t, 1));
	assert_false(control_state_next_report(t, &p)); /* nobody asks after it */
	assert_int_equal(control_state_count_sandboxes(t), 1);
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	control_state_leave_sandbox(t, s);
	assert_int_equal(control_state_count_sandboxes(t), 0);
	control_state_free(t);
}

static int named(struct control_state *t, unsigned n, unsigned tenant, unsigned state, uint8_t tag)
{
	struct push p = { .kind = PUSH_SANDBOX,
			  .value = (uint8_t)state,
			  .id = make_id(ID_SANDBOX, n),
			  .tenant = make_id(ID_TENANT, tenant) };

	memset(p.secret + PUSH_GROUP_TAG, tag, PUSH_NAME_TAG);
	return control_state_apply(t, &p);
}

static const struct control_state_sandbox *find_named(struct control_state *t, unsigned tenant,
						      uint8_t tag)
{
	struct id id = make_id(ID_TENANT, tenant);
	uint8_t name[PUSH_NAME_TAG];

	memset(name, tag, sizeof(name));
	return control_state_find_named(t, &id, name);
}

static void a_name_is_of_one_tenant_and_of_who_lives(void **)
{
	struct control_state *t = control_state_new();
	struct control_state_sandbox *busy;

	assert_int_equal(named(t, 1, 1, SB_RUNNING, 7), 0);
	assert_int_equal(named(t, 2, 2, SB_RUNNING, 7), 0);
	assert_int_equal(sandbox(t, 3, 1, SB_RUNNING), 0);
	assert_ptr_equal(find_named(t, 1, 7), find(t, 1));
	assert_ptr_equal(find_named(t, 2, 7), find(t, 2));
	assert_null(find_named(t, 3, 7));
	assert_null(find_named(t, 1, 8));
	assert_null(find_named(t, 1, 0)); /* no name is not a name */
	/* its successor has it while it ends */
	assert_int_equal(named(t, 1, 1, SB_ENDING, 7), 0);
	assert_null(find_named(t, 1, 7));
	assert_int_equal(named(t, 4, 1, SB_PENDING, 7), 0);
	assert_ptr_equal(find_named(t, 1, 7), find(t, 4));
	/* one of a pool gets it later */
	assert_int_equal(named(t, 3, 1, SB_RUNNING, 8), 0);
	assert_ptr_equal(find_named(t, 1, 8), find(t, 3));
	/* those that are gone are not found, nor looked at, though a request is inside */
	busy = find(t, 4);
	control_state_enter_sandbox(t, busy);
	assert_int_equal(named(t, 4, 1, SB_TERMINATED, 7), 0);
	assert_null(find_named(t, 1, 7));
	assert_int_equal(named(t, 1, 1, SB_FAILED, 7), 0);
	control_state_leave_sandbox(t, busy);
	assert_null(find_named(t, 1, 7));
	assert_ptr_equal(find_named(t, 2, 7), find(t, 2));
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	assert_null(find_named(t, 2, 7));
	control_state_free(t);
}

static void it_has_bounds(void **)
{
	struct control_state *t = control_state_new();

	for (unsigned i = 0; i < CONTROL_STATE_SANDBOXES; i++)
		assert_int_equal(sandbox(t, i, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, CONTROL_STATE_SANDBOXES, 1, SB_RUNNING), -ENOSPC);
	assert_int_equal(sandbox(t, 5, 1, SB_PAUSED), 0);
	assert_int_equal(sandbox(t, 5, 1, SB_FAILED), 0);
	assert_int_equal(sandbox(t, CONTROL_STATE_SANDBOXES, 1, SB_RUNNING), 0);
	control_state_free(t);
}

static void tokens_have_two_keys(void **)
{
	struct control_state *t = control_state_new();
	struct push p = {
		.kind = PUSH_TOKEN_KEY, .value = 1, .number = 5, .time = 7, .secret = "k"
	};
	uint32_t born;

	assert_null(control_state_find_signer(t, 0));
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_null(control_state_find_signer(t, 0));
	assert_null(control_state_find_signer(t, 2));
	assert_memory_equal(control_state_find_signer(t, 1)->key, p.secret, sizeof(p.secret));
	assert_int_equal(control_state_find_signer(t, 1)->until, 7);
	assert_int_equal(control_state_epoch(t), 5);
	/* the next stands beside it, the one after that in its place */
	p.value = 2;
	p.secret[0]++;
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_int_equal(control_state_find_signer(t, 1)->number, 1);
	assert_int_equal(control_state_find_signer(t, 0)->number, 2);
	born = control_state_find_signer(t, 1)->generation;
	p.value = 3;
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_int_equal(control_state_find_signer(t, 1)->number, 3);
	assert_int_not_equal(control_state_find_signer(t, 1)->generation, born);
	/* told again it is the same one, of another number it is not */
	born = control_state_find_signer(t, 1)->generation;
	p.time = PUSH_NEVER;
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_int_equal(control_state_find_signer(t, 1)->generation, born);
	p.value = 5;
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_int_not_equal(control_state_find_signer(t, 1)->generation, born);
	/* all is said anew, and this is not */
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	assert_null(control_state_find_signer(t, 0));
	assert_non_null(control_state_find_signer(t, 1));
	control_state_free(t);
}

static void what_is_taken_back_stays_so(void **)
{
	struct control_state *t = control_state_new();
	struct id one = make_id(ID_SANDBOX, 1), two = make_id(ID_SANDBOX, 2);
	struct push p = { .kind = PUSH_REVOKED, .value = 15, .id = one, .secret = "nonce 1" };
	const uint8_t *nonce = p.secret;

	assert_int_equal(control_state_apply(t, &p), 0); /* of one that is gone */
	assert_false(control_state_token_is_revoked(t, &one, 0, nonce));
	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 2, 1, SB_RUNNING), 0);
	assert_false(control_state_token_is_revoked(t, &one, 1, nonce));
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_true(control_state_token_is_revoked(t, &one, 1, nonce));
	assert_false(control_state_token_is_revoked(t, &two, 1, nonce));
	assert_false(control_state_token_is_revoked(t, &one, 1, (const uint8_t *)"nonce 2"));
	/* said anew it is still there */
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(sandbox(t, 1, 1, SB_PAUSED), 0);
	assert_true(control_state_token_is_revoked(t, &one, 1, nonce));
	assert_int_equal(say(t, PUSH_END), 0);
	assert_true(control_state_token_is_revoked(t, &one, 1, nonce));
	/* another has its place */
	p.secret[0]++;
	assert_int_equal(control_state_apply(t, &p), 0);
	assert_false(control_state_token_is_revoked(t, &one, 1, (const uint8_t *)"nonce 1"));
	/* all of them, to the unit */
	find(t, 1)->epoch = 7;
	assert_true(control_state_token_is_revoked(t, &one, 6, (const uint8_t *)"nonce 1"));
	assert_false(control_state_token_is_revoked(t, &one, 7, (const uint8_t *)"nonce 1"));
	control_state_free(t);
}

static int say_exports(struct control_state *t, unsigned pair, unsigned number, const char *first,
		       const char *second)
{
	struct push p = { .kind = PUSH_EXPORTS,
			  .value = (uint8_t)pair,
			  .number = number,
			  .id = make_id(ID_SANDBOX, 1) };

	memcpy(p.secret, first, strlen(first));
	memcpy(p.secret + PUSH_EXPORT_TAG, second, strlen(second));
	return control_state_apply(t, &p);
}

/* Of one letter each; those that are known of a to e. */
static const char *known_exports(struct control_state *t, unsigned sandbox)
{
	static char known[6];
	struct id id = make_id(ID_SANDBOX, (uint8_t)sandbox);
	size_t n = 0;

	for (char c = 'a'; c <= 'e'; c++) {
		uint8_t tag[PUSH_EXPORT_TAG] = { (uint8_t)c };

		if (control_state_has_export(t, &id, tag))
			known[n++] = c;
	}
	known[n] = 0;
	return known;
}

static void exports_are_those_that_were_said(void **)
{
	struct control_state *t = control_state_new();
	uint8_t none[PUSH_EXPORT_TAG] = {};
	struct id one = make_id(ID_SANDBOX, 1);

	assert_int_equal(say_exports(t, 0, 1, "a", ""), 0); /* of one that is gone */
	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 2, 1, SB_RUNNING), 0);
	assert_string_equal(known_exports(t, 1), "");
	assert_int_equal(say_exports(t, 0, 1, "a", ""), 0);
	assert_string_equal(known_exports(t, 1), "a");
	assert_string_equal(known_exports(t, 2), "");
	assert_false(control_state_has_export(t, &one, none));
	/* more of them: none before the last record */
	assert_int_equal(say_exports(t, 0, 4, "a", "b"), 0);
	assert_string_equal(known_exports(t, 1), "a");
	assert_int_equal(say_exports(t, 1, 4, "c", "d"), 0);
	assert_string_equal(known_exports(t, 1), "abcd");
	/* b goes: no other is missing on the way */
	assert_int_equal(say_exports(t, 0, 3, "a", "c"), 0);
	assert_string_equal(known_exports(t, 1), "acd");
	assert_int_equal(say_exports(t, 1, 3, "d", ""), 0);
	assert_string_equal(known_exports(t, 1), "acd");
	assert_false(control_state_has_export(t, &one, none));
	/* what stood behind is not there again when there are more */
	assert_int_equal(say_exports(t, 0, 1, "a", ""), 0);
	assert_int_equal(say_exports(t, 0, 3, "a", "b"), 0);
	assert_string_equal(known_exports(t, 1), "a");
	assert_int_equal(say_exports(t, 1, 3, "e", ""), 0);
	assert_string_equal(known_exports(t, 1), "abe");
	/* a change of state leaves them; its end does not */
	assert_int_equal(sandbox(t, 1, 1, SB_PAUSED), 0);
	assert_string_equal(known_exports(t, 1), "abe");
	assert_int_equal(say_exports(t, 0, 0, "", ""), 0);
	assert_string_equal(known_exports(t, 1), "");
	assert_int_equal(say_exports(t, 0, 1, "b", ""), 0);
	assert_int_equal(sandbox(t, 1, 1, SB_TERMINATED), 0);
	assert_string_equal(known_exports(t, 1), "");
	control_state_free(t);
}

/* One that was revoked while this edge had no connection is not said again. */
static void an_export_that_is_not_said_again_is_revoked(void **)
{
	struct control_state *t = control_state_new();
	struct control_state_sandbox *s;

	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(say_exports(t, 0, 2, "a", "b"), 0);
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_string_equal(known_exports(t, 1), "ab"); /* while it is said */
	assert_int_equal(say_exports(t, 0, 1, "b", ""), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	assert_string_equal(known_exports(t, 1), "b");
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	assert_string_equal(known_exports(t, 1), "");
	/* nor has a sandbox any that is gone and only kept by its requests */
	assert_int_equal(say_exports(t, 0, 1, "a", ""), 0);
	s = find(t, 1);
	control_state_enter_sandbox(t, s);
	assert_int_equal(sandbox(t, 1, 1, SB_TERMINATED), 0);
	assert_string_equal(known_exports(t, 1), "");
	control_state_leave_sandbox(t, s);
	control_state_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_knows_what_it_was_told),
		cmocka_unit_test(what_is_not_said_again_is_forgotten),
		cmocka_unit_test(buckets_are_lists),
		cmocka_unit_test(control_hears_who_is_busy),
		cmocka_unit_test(who_is_inside_may_leave_after_its_end),
		cmocka_unit_test(a_name_is_of_one_tenant_and_of_who_lives),
		cmocka_unit_test(it_has_bounds),
		cmocka_unit_test(tokens_have_two_keys),
		cmocka_unit_test(what_is_taken_back_stays_so),
		cmocka_unit_test(exports_are_those_that_were_said),
		cmocka_unit_test(an_export_that_is_not_said_again_is_revoked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
