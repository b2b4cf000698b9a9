/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of what programs asked for: they join, end, and make room for others. */
#include <stdio.h>

#include "egress/ask-table.h"
#include "unit.h"

static struct id made(enum id_noun noun)
{
	struct id id;

	assert_int_equal(id_generate(noun, 1, 2, &id), 0);
	return id;
}

static struct ask_target target_of(const struct id *sandbox, const struct id *tenant,
				   const char *to, uint16_t port)
{
	return (struct ask_target){ sandbox, tenant, "blue", to, port };
}

static void the_id_follows_from_the_target(void **)
{
	const struct id one = made(ID_SANDBOX), two = made(ID_SANDBOX);
	const struct id a = ask_id(&one, "a.example", 443), again = ask_id(&one, "a.example", 443);
	const struct id others[] = { ask_id(&two, "a.example", 443), ask_id(&one, "b.example", 443),
				     ask_id(&one, "a.example", 444) };

	assert_true(id_eq(&a, &again) && id_is_valid(&a, ID_ASK));
	assert_int_equal(id_node(&a), 2);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		row_check(i, !id_eq(&a, &others[i]));
}

static void connections_join_one_row(void **)
{
	const struct id sandbox = made(ID_SANDBOX), tenant = made(ID_TENANT);
	const struct ask_target to = target_of(&sandbox, &tenant, "a.example", 443);
	static struct ask_table t;
	struct ask *a = ask_table_get(&t, &to, 1);
	uint64_t seq;

	assert_non_null(a);
	assert_string_equal(a->group, "blue");
	ask_count(a, true, 2);
	seq = a->seq;
	assert_ptr_equal(ask_table_get(&t, &to, 3), a);
	ask_count(a, true, 3);
	ask_count(a, false, 4);
	assert_true(a->state == ASK_WAITING && a->count == 3 && a->waiting == 2);
	assert_int_equal(a->seq, seq); /* nobody is told of a count */
	ask_leave(a, ASK_GONE, 5);
	assert_true(a->state == ASK_WAITING && a->waiting == 1);
	ask_leave(a, ASK_EXPIRED, 6);
	assert_true(a->state == ASK_EXPIRED && !a->waiting && a->since_ns == 1 &&
		    a->changed_ns == 6);
	ask_leave(a, ASK_GONE, 7); /* reported twice */
	assert_true(a->state == ASK_EXPIRED && !a->waiting);
	ask_count(a, true, 8);
	assert_true(a->state == ASK_WAITING && a->count == 4);
	/* an answer stays when the connections go on */
	ask_set_state(a, ASK_ALLOWED, 9);
	ask_leave(a, ASK_GONE, 10);
	assert_true(a->state == ASK_ALLOWED && a->changed_ns == 9);
	ask_table_fini(&t);
}

static void rows_are_listed_by_their_last_change(void **)
{
	const struct id sandbox = made(ID_SANDBOX), tenant = made(ID_TENANT),
			other = made(ID_TENANT);
	static struct ask_table t;
	struct ask *rows[3];
	uint64_t after;

	for (uint16_t i = 0; i < 3; i++) {
		const struct ask_target to = target_of(&sandbox, &tenant, "a.example", i);

		rows[i] = ask_table_get(&t, &to, i);
		ask_count(rows[i], true, i);
	}
	after = ask_last_seq(&t, &tenant);
	assert_ptr_equal(ask_find_after(&t, &tenant, 0), rows[0]);
	assert_ptr_equal(ask_find_after(&t, &tenant, rows[0]->seq), rows[1]);
	assert_null(ask_find_after(&t, &tenant, after));
	assert_null(ask_find_after(&t, &other, 0));
	ask_set_state(rows[0], ASK_DENIED, 9);
	assert_ptr_equal(ask_find_after(&t, &tenant, after), rows[0]);
	assert_ptr_equal(ask_find_after(&t, &tenant, 0), rows[1]);
	ask_remove_of_sandbox(&t, &tenant, &sandbox);
	assert_null(ask_find_after(&t, &tenant, 0));
	ask_table_fini(&t);
}

static void a_row_that_has_ended_makes_room(void **)
{
	const struct id sandbox = made(ID_SANDBOX), tenant = made(ID_TENANT);
	static struct ask_table t;
	struct ask_target to = target_of(&sandbox, &tenant, "a.example", 0);
	struct id first = ask_id(&sandbox, "a.example", 0), second;

	for (; to.port < ASKS_OF_SANDBOX_MAX; to.port++)
		ask_count(ask_table_get(&t, &to, 1), true, 1);
	assert_null(ask_table_get(&t, &to, 1)); /* all wait */
	second = ask_id(&sandbox, "a.example", 7);
	ask_leave(ask_find(&t, &second), ASK_GONE, 2);
	ask_leave(ask_find(&t, &first), ASK_GONE, 3);
	assert_non_null(ask_table_get(&t, &to, 4));
	assert_null(ask_find(&t, &second));
	assert_non_null(ask_find(&t, &first));
	ask_table_fini(&t);
}

static void a_tenant_has_a_bound_of_its_own(void **)
{
	const struct id tenant = made(ID_TENANT), other = made(ID_TENANT);
	static struct ask_table t;
	struct id sandbox = {};
	size_t n = 0;

	for (size_t i = 0; i < ASKS_OF_TENANT_MAX + 10; i++) {
		if (i % 32 == 0)
			sandbox = made(ID_SANDBOX);
		const struct ask_target to = target_of(&sandbox, &tenant, "a.example", (uint16_t)i);
		struct ask *a = ask_table_get(&t, &to, i);

		assert_non_null(a);
		ask_count(a, true, i);
		ask_leave(a, ASK_GONE, i);
	}
	for (const struct ask *a = ask_find_after(&t, &tenant, 0); a; a = a->newer)
		n++;
	assert_int_equal(n, ASKS_OF_TENANT_MAX);
	assert_non_null(ask_table_get(
		&t, &(struct ask_target){ &sandbox, &other, NULL, "a.example", 1 }, 1));
	ask_table_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_id_follows_from_the_target),
		cmocka_unit_test(connections_join_one_row),
		cmocka_unit_test(rows_are_listed_by_their_last_change),
		cmocka_unit_test(a_row_that_has_ended_makes_room),
		cmocka_unit_test(a_tenant_has_a_bound_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
