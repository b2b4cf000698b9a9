/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "edge/table.h"
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

static int sandbox(struct table *t, unsigned n, unsigned tenant, unsigned state)
{
	return table_apply(t, &(struct push){ .kind = PUSH_SANDBOX,
					      .value = (uint8_t)state,
					      .id = make_id(ID_SANDBOX, n),
					      .tenant = make_id(ID_TENANT, tenant) });
}

static int key(struct table *t, unsigned n, uint8_t hash, unsigned scope)
{
	struct push p = { .kind = PUSH_KEY,
			  .value = (uint8_t)scope,
			  .time = PUSH_NEVER,
			  .id = make_id(ID_KEY, n),
			  .tenant = make_id(ID_TENANT, 1) };

	memset(p.secret, hash, sizeof(p.secret));
	return table_apply(t, &p);
}

static struct table_sandbox *find(struct table *t, unsigned n)
{
	struct id id = make_id(ID_SANDBOX, n);

	return table_sandbox(t, &id);
}

static const struct table_key *find_key(struct table *t, uint8_t hash)
{
	uint8_t h[32];

	memset(h, hash, sizeof(h));
	return table_key(t, h);
}

static int say(struct table *t, enum push_kind kind)
{
	return table_apply(t, &(struct push){ .kind = kind });
}

static void it_knows_what_it_was_told(void **)
{
	struct table *t = table_new();
	struct push p;

	assert_false(table_ready(t));
	assert_int_equal(say(t, PUSH_END), -EPROTO); /* the end of nothing */
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 2, 1, SB_PENDING), 0);
	assert_int_equal(key(t, 1, 7, SCOPE_READ), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	assert_true(table_ready(t));
	assert_int_equal(find(t, 1)->state, SB_RUNNING);
	assert_int_equal(find_key(t, 7)->scope, SCOPE_READ);
	assert_null(find(t, 3));
	assert_null(find_key(t, 8));
	assert_int_equal(sandbox(t, 2, 1, SB_RUNNING), 0);
	assert_int_equal(find(t, 2)->state, SB_RUNNING);
	assert_int_equal(sandbox(t, 2, 1, SB_FAILED), 0);
	assert_null(find(t, 2));
	assert_int_equal(sandbox(t, 9, 1, SB_TERMINATED), 0); /* never was here */
	p = (struct push){ .kind = PUSH_NO_KEY, .id = make_id(ID_KEY, 1) };
	assert_int_equal(table_apply(t, &p), 0);
	assert_null(find_key(t, 7));
	assert_int_equal(table_sandboxes(t), 1);
	assert_int_equal(table_keys(t), 0);
	for (unsigned kind = 0; kind < PUSH_KINDS; kind++)
		if (kind == PUSH_NONE || kind == PUSH_HELLO || kind == PUSH_BUSY)
			assert_int_equal(say(t, (enum push_kind)kind), -EPROTO);
	table_free(t);
}

static void what_is_not_said_again_is_forgotten(void **)
{
	struct table *t = table_new();

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
	table_free(t);
}

/* Two in one bucket: one leaves, the other stays. */
static void buckets_are_lists(void **)
{
	struct table *t = table_new();
	struct push p = { .kind = PUSH_KEY,
			  .value = SCOPE_READ,
			  .time = PUSH_NEVER,
			  .id = make_id(ID_KEY, 1),
			  .tenant = make_id(ID_TENANT, 1) };

	/* hashes that differ in one bit, and not where the bucket is chosen */
	assert_int_equal(table_apply(t, &p), 0);
	p.secret[0] ^= 1;
	assert_null(table_key(t, p.secret));
	p.id = make_id(ID_KEY, 2);
	p.value = SCOPE_WRITE;
	assert_int_equal(table_apply(t, &p), 0);
	assert_int_equal(table_keys(t), 2);
	assert_int_equal(table_key(t, p.secret)->scope, SCOPE_WRITE);

	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(sandbox(t, 1 + i * 65536, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 1 + 65536, 1, SB_TERMINATED), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(find(t, 1 + i * 65536) != NULL, i != 1);
	table_free(t);
}

static void control_hears_who_is_busy(void **)
{
	struct table *t = table_new();
	struct table_sandbox *s;
	struct push p;

	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 2, 1, SB_RUNNING), 0);
	assert_false(table_news(t, &p));
	s = find(t, 1);
	table_enter(t, s);
	table_enter(t, s);
	assert_true(table_news(t, &p));
	assert_int_equal(p.kind, PUSH_BUSY);
	assert_int_equal(p.number, 2);
	assert_true(id_eq(&p.id, &s->id));
	assert_false(table_news(t, &p));
	table_leave(t, s);
	table_leave(t, s);
	assert_true(table_news(t, &p));
	assert_int_equal(p.number, 0);
	/* came and went between two words: still news */
	table_enter(t, find(t, 2));
	table_leave(t, find(t, 2));
	assert_true(table_news(t, &p));
	assert_int_equal(p.number, 0);
	assert_false(table_news(t, &p));
	/* a control that starts anew hears of those that are inside, of no other */
	table_enter(t, s);
	assert_true(table_news(t, &p));
	table_untold(t);
	assert_true(table_news(t, &p));
	assert_true(id_eq(&p.id, &s->id));
	assert_int_equal(p.number, 1);
	assert_false(table_news(t, &p));
	table_free(t);
}

static void who_is_inside_may_leave_after_its_end(void **)
{
	struct table *t = table_new();
	struct table_sandbox *s;
	struct push p;

	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	s = find(t, 1);
	table_enter(t, s);
	assert_int_equal(sandbox(t, 1, 1, SB_TERMINATED), 0);
	assert_null(find(t, 1));
	assert_false(table_news(t, &p)); /* nobody asks after it */
	assert_int_equal(table_sandboxes(t), 1);
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	table_leave(t, s);
	assert_int_equal(table_sandboxes(t), 0);
	table_free(t);
}

static void it_has_bounds(void **)
{
	struct table *t = table_new();

	for (unsigned i = 0; i < TABLE_SANDBOXES; i++)
		assert_int_equal(sandbox(t, i, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, TABLE_SANDBOXES, 1, SB_RUNNING), -ENOSPC);
	assert_int_equal(sandbox(t, 5, 1, SB_PAUSED), 0);
	assert_int_equal(sandbox(t, 5, 1, SB_FAILED), 0);
	assert_int_equal(sandbox(t, TABLE_SANDBOXES, 1, SB_RUNNING), 0);
	table_free(t);
}

static void tokens_have_two_keys(void **)
{
	struct table *t = table_new();
	struct push p = { .kind = PUSH_SIGN, .value = 1, .number = 5, .time = 7, .secret = "k" };
	uint32_t born;

	assert_null(table_sign(t, 0));
	assert_int_equal(table_apply(t, &p), 0);
	assert_null(table_sign(t, 0));
	assert_null(table_sign(t, 2));
	assert_memory_equal(table_sign(t, 1)->key, p.secret, sizeof(p.secret));
	assert_int_equal(table_sign(t, 1)->until, 7);
	assert_int_equal(table_epoch(t), 5);
	/* the next stands beside it, the one after that in its place */
	p.value = 2;
	p.secret[0]++;
	assert_int_equal(table_apply(t, &p), 0);
	assert_int_equal(table_sign(t, 1)->number, 1);
	assert_int_equal(table_sign(t, 0)->number, 2);
	born = table_sign(t, 1)->born;
	p.value = 3;
	assert_int_equal(table_apply(t, &p), 0);
	assert_int_equal(table_sign(t, 1)->number, 3);
	assert_int_not_equal(table_sign(t, 1)->born, born);
	/* told again it is the same one, of another number it is not */
	born = table_sign(t, 1)->born;
	p.time = PUSH_NEVER;
	assert_int_equal(table_apply(t, &p), 0);
	assert_int_equal(table_sign(t, 1)->born, born);
	p.value = 5;
	assert_int_equal(table_apply(t, &p), 0);
	assert_int_not_equal(table_sign(t, 1)->born, born);
	/* all is said anew, and this is not */
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(table_apply(t, &p), 0);
	assert_int_equal(say(t, PUSH_END), 0);
	assert_null(table_sign(t, 0));
	assert_non_null(table_sign(t, 1));
	table_free(t);
}

static void what_is_taken_back_stays_so(void **)
{
	struct table *t = table_new();
	struct id one = make_id(ID_SANDBOX, 1), two = make_id(ID_SANDBOX, 2);
	struct push p = { .kind = PUSH_REVOKED, .value = 15, .id = one, .secret = "nonce 1" };
	const uint8_t *nonce = p.secret;

	assert_int_equal(table_apply(t, &p), 0); /* of one that is gone */
	assert_false(table_revoked(t, &one, 0, nonce));
	assert_int_equal(sandbox(t, 1, 1, SB_RUNNING), 0);
	assert_int_equal(sandbox(t, 2, 1, SB_RUNNING), 0);
	assert_false(table_revoked(t, &one, 1, nonce));
	assert_int_equal(table_apply(t, &p), 0);
	assert_true(table_revoked(t, &one, 1, nonce));
	assert_false(table_revoked(t, &two, 1, nonce));
	assert_false(table_revoked(t, &one, 1, (const uint8_t *)"nonce 2"));
	/* said anew it is still there */
	assert_int_equal(say(t, PUSH_ALL), 0);
	assert_int_equal(sandbox(t, 1, 1, SB_PAUSED), 0);
	assert_true(table_revoked(t, &one, 1, nonce));
	assert_int_equal(say(t, PUSH_END), 0);
	assert_true(table_revoked(t, &one, 1, nonce));
	/* another has its place */
	p.secret[0]++;
	assert_int_equal(table_apply(t, &p), 0);
	assert_false(table_revoked(t, &one, 1, (const uint8_t *)"nonce 1"));
	/* all of them, to the unit */
	find(t, 1)->epoch = 7;
	assert_true(table_revoked(t, &one, 6, (const uint8_t *)"nonce 1"));
	assert_false(table_revoked(t, &one, 7, (const uint8_t *)"nonce 1"));
	table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_knows_what_it_was_told),
		cmocka_unit_test(what_is_not_said_again_is_forgotten),
		cmocka_unit_test(buckets_are_lists),
		cmocka_unit_test(control_hears_who_is_busy),
		cmocka_unit_test(who_is_inside_may_leave_after_its_end),
		cmocka_unit_test(it_has_bounds),
		cmocka_unit_test(tokens_have_two_keys),
		cmocka_unit_test(what_is_taken_back_stays_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
