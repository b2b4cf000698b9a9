/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "net/tenant-share.h"
#include "unit.h"

#define N 64

static struct id tenant_of(uint8_t n)
{
	return (struct id){ .noun = ID_TENANT, .bits = { [14] = n } };
}

/* Which of red's or blue's turns it is. */
static bool is_of(const struct tenant_turn *t, const struct tenant_turn *all, size_t n)
{
	return t >= all && t < all + n;
}

static void a_flood_delays_itself(void **)
{
	struct tenant_shares *all = tenant_shares_new();
	struct id ids[] = { tenant_of(1), tenant_of(2) };
	struct tenant_share *red = tenant_share_enter(all, &ids[0]);
	struct tenant_share *blue = tenant_share_enter(all, &ids[1]);
	struct tenant_turn reds[N] = {}, blues[2] = {};
	struct tenant_turn *t;

	for (size_t i = 0; i < N; i++)
		tenant_share_wait(red, &reds[i], 0);
	for (size_t i = 0; i < 10; i++) {
		assert_ptr_equal(tenant_shares_next(all), &reds[i]);
		tenant_share_charge(red, NS_PER_MS);
	}
	/* blue comes after red's 64 and is next but one at the latest */
	tenant_share_wait(blue, &blues[0], 0);
	t = tenant_shares_next(all);
	if (is_of(t, reds, N)) {
		tenant_share_charge(red, NS_PER_MS);
		t = tenant_shares_next(all);
	}
	assert_ptr_equal(t, &blues[0]);
	tenant_share_charge(blue, NS_PER_MS / 10);
	/* it used less, so it is next again */
	tenant_share_wait(blue, &blues[1], 0);
	assert_ptr_equal(tenant_shares_next(all), &blues[1]);
	for (size_t i = 0; tenant_shares_next(all); i++)
		assert_true(i < N);
	assert_false(tenant_shares_wait(all));
	tenant_share_leave(red);
	tenant_share_leave(blue);
	tenant_shares_free(all);
}

/* Equal time, not an equal number of requests; who emptied its queue keeps its debt. */
static void time_is_shared(void **)
{
	struct tenant_shares *all = tenant_shares_new();
	struct id ids[] = { tenant_of(1), tenant_of(2) };
	struct tenant_share *s[] = { tenant_share_enter(all, &ids[0]),
				     tenant_share_enter(all, &ids[1]) };
	uint64_t cost[] = { 10 * NS_PER_MS, NS_PER_MS }, used[2] = {};
	struct tenant_turn turns[2] = {};

	for (size_t i = 0; i < 2; i++)
		tenant_share_wait(s[i], &turns[i], 0);
	for (unsigned i = 0; i < 1100; i++) {
		size_t who = (size_t)(tenant_shares_next(all) - turns);

		tenant_share_charge(s[who], cost[who]);
		used[who] += cost[who];
		tenant_share_wait(s[who], &turns[who], 0);
	}
	assert_true(used[0] < used[1] + 20 * NS_PER_MS && used[1] < used[0] + 20 * NS_PER_MS);
	for (size_t i = 0; i < 2; i++) {
		tenant_share_forget(s[i], &turns[i]);
		tenant_share_leave(s[i]);
	}
	assert_false(tenant_shares_wait(all));
	tenant_shares_free(all);
}

static void unread_bytes_have_a_budget(void **)
{
	struct tenant_shares *all = tenant_shares_new();
	struct id ids[8];
	struct tenant_share *s[8];
	size_t counted[8] = {};

	for (uint8_t i = 0; i < 8; i++) {
		ids[i] = tenant_of(i);
		s[i] = tenant_share_enter(all, &ids[i]);
	}
	tenant_share_count_unread(s[0], &counted[0], UNREAD_TENANT_MAX);
	assert_false(tenant_share_is_full(s[0], 0));
	assert_true(tenant_share_is_full(s[0], 1));
	assert_false(tenant_share_is_full(s[1], KIB(256)));
	/* all of them together have less than each could have */
	for (unsigned i = 1; i < 4; i++)
		tenant_share_count_unread(s[i], &counted[i], UNREAD_TENANT_MAX);
	assert_true(tenant_share_is_full(s[3], 0));
	assert_true(tenant_share_is_full(s[5], UNREAD_FREE + 1));
	assert_false(tenant_share_is_full(s[5], UNREAD_FREE));
	assert_false(tenant_shares_are_full(s[5]));
	tenant_share_count_unread(s[4], &counted[4], 1);
	assert_true(tenant_shares_are_full(s[5]));
	for (unsigned i = 0; i < 8; i++) {
		tenant_share_count_unread(s[i], &counted[i], 0);
		assert_int_equal(s[i]->unread, 0);
		tenant_share_leave(s[i]);
	}
	tenant_shares_free(all);
}

static unsigned n_refused;

static void count_refusal(struct tenant_turn *)
{
	n_refused++;
}

static void refusals_have_a_pace(void **)
{
	struct tenant_shares *all = tenant_shares_new();
	struct id id = tenant_of(1);
	struct tenant_share *s = tenant_share_enter(all, &id);
	struct tenant_turn turns[N] = {};
	unsigned at_once = 0, ticks = 0;

	for (size_t i = 0; i < N; i++)
		at_once += tenant_share_try_refuse(s, &turns[i]);
	assert_int_equal(at_once, REFUSALS_TICK);
	tenant_share_forget(s, &turns[N - 1]); /* it left meanwhile */
	tenant_share_forget(s, &turns[REFUSALS_TICK]);
	while (tenant_shares_tick(all, count_refusal))
		ticks++;
	assert_int_equal(n_refused, N - REFUSALS_TICK - 2);
	assert_true(ticks >= n_refused / REFUSALS_TICK);
	assert_true(tenant_share_try_refuse(s, &turns[0]));
	tenant_share_leave(s);
	tenant_shares_free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_delays_itself),
		cmocka_unit_test(time_is_shared),
		cmocka_unit_test(unread_bytes_have_a_budget),
		cmocka_unit_test(refusals_have_a_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
